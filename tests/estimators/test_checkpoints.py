"""fit(..., checkpoint=path): killed anywhere, a fit resumes to the same machine."""

import copy
import functools

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone, is_outlier_detector
from sklearn.metrics.pairwise import linear_kernel
from sklearn.model_selection import KFold, PredefinedSplit

from kompakt import (
    AutoSize,
    CompactNovelty,
    CompactSVC,
    CompactSVR,
    FixedSizeLSSVC,
    FixedSizeLSSVR,
    GrowthSelector,
    KernelFisher,
    ProjectedKernelFisher,
    Refinement,
    SpSVC,
    checkpoint,
)
from kompakt.checkpoint import Checkpoint, CheckpointError, fingerprint
from kompakt.kernels import RBF, CallableKernel


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 4))
    score = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=400)
    return X, np.digitize(score, [-0.7, 0.7]), score


MACHINES = {
    "CompactSVC": CompactSVC(n_basis=6, refine=Refinement(6), random_state=0),
    "CompactSVC plain": CompactSVC(n_basis=12, refine=False, random_state=0),
    "CompactSVC hinge": CompactSVC(n_basis=4, refine=Refinement(2), loss="hinge", random_state=0),
    "CompactSVC tuned": CompactSVC(n_basis=4, refine=False, selection="random", tune=True, random_state=0),
    "CompactSVC calibrated": CompactSVC(n_basis=5, refine=False, calibrate=True, random_state=0),
    "CompactSVR": CompactSVR(n_basis=8, refine=Refinement(8), random_state=0),
    "CompactSVR grown": CompactSVR(n_basis=8, refine=False, selection="sp2", random_state=0),
    "CompactNovelty": CompactNovelty(n_basis=6, refine=Refinement(6), random_state=0),
    "CompactNovelty plain": CompactNovelty(n_basis=6, refine=False, random_state=0),
    "SpSVC": SpSVC(n_basis=12, random_state=0),
    "SpSVC shrinking": SpSVC(n_basis=24, selection=GrowthSelector(shrinking=True), C=10.0, random_state=0),
    "SpSVC bh": SpSVC(n_basis=10, selection=GrowthSelector("bh", retraining="adaptive"), random_state=0),
    "SpSVC sized": SpSVC(n_basis=AutoSize(largest=6), random_state=0),
    "SpSVC held out": SpSVC(n_basis=10, validation_fraction=0.2, random_state=0),
    "FixedSizeLSSVC": FixedSizeLSSVC(n_basis=10, tune=True, cv=3, random_state=0),
    "FixedSizeLSSVR": FixedSizeLSSVR(n_basis=AutoSize(sizes=[5, 10]), random_state=0),
    "ProjectedKernelFisher": ProjectedKernelFisher(n_basis=10, random_state=0),
    "KernelFisher": KernelFisher(reg=0.1),
}


def fitted(machine, data, **more):
    X, labels, score = data
    machine = clone(machine)
    if is_outlier_detector(machine):
        return machine.fit(X, np.where(score > 1.5, -1, 1), **more)
    return machine.fit(X, score if type(machine).__name__.endswith("SVR") else labels, **more)


def agree(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("basis_vectors_", "dual_coef_", "intercept_")
    )


def killed_at(write, machine, data, path, monkeypatch):
    """Let a fit die right after a write of its checkpoint; False if it has not so many."""
    real, count = Checkpoint.write, [0]

    def counted(self, urgent=False):
        before = self._written
        real(self, urgent)
        count[0] += self._written != before
        if count[0] >= write:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "_SHARE", 1e9)  # every round is written
        patch.setattr(Checkpoint, "write", counted)
        patch.setattr(Checkpoint, "close", lambda self, finished: None)  # a killed process writes nothing more
        try:
            fitted(machine, data, checkpoint=path)
        except Killed:
            return True
    path.unlink(missing_ok=True)
    return False


@pytest.mark.parametrize("name", MACHINES)
def test_resumed_fits_give_the_same_machine(name, data, tmp_path, monkeypatch):
    machine, path = MACHINES[name], tmp_path / "fit.checkpoint"
    whole = fitted(machine, data, checkpoint=path)
    assert not path.exists()
    if machine.get_params().get("cache") is None:  # where a column comes from may change its last bits
        assert agree(whole, fitted(machine, data))
    write = 1
    while killed_at(write, machine, data, path, monkeypatch):
        assert agree(whole, fitted(machine, data, checkpoint=path)), f"killed after write {write}"
        assert not path.exists()
        write = 4 * write + 1
    assert write > 1


def test_a_drawn_seed_is_taken_over(data, tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"
    machine = CompactSVC(n_basis=8, refine=False)
    drawn = [np.random.RandomState(seed) for seed in (1, 1, 2, 2)]
    whole = fitted(clone(machine).set_params(random_state=drawn[0]), data)
    assert killed_at(3, clone(machine).set_params(random_state=drawn[1]), data, path, monkeypatch)
    assert agree(whole, fitted(clone(machine).set_params(random_state=drawn[2]), data, checkpoint=path))
    assert not agree(whole, fitted(clone(machine).set_params(random_state=drawn[3]), data))


def test_other_data_and_parameters_are_refused(data, tmp_path, monkeypatch):
    X, labels, _ = data
    path = tmp_path / "fit.checkpoint"
    machine = MACHINES["CompactSVC plain"]
    assert killed_at(3, machine, data, path, monkeypatch)
    changed = X.copy()
    changed[3, 1] += 1e-9
    other = labels.copy()
    other[[0, 1]] = (other[[0, 1]] + 1) % 3
    for what, arguments in {
        "C was 'None', is '2.0'": (clone(machine).set_params(C=2.0), X, labels, None),
        "random_state was '0', is '1'": (clone(machine).set_params(random_state=1), X, labels, None),
        "inputs was": (clone(machine), changed, labels, None),
        "targets was": (clone(machine), X, other, None),
        "weights was": (clone(machine), X, labels, 1.0 + (labels == 1)),
        "shape was '400 rows": (clone(machine), X[:300], labels[:300], None),
        "estimator was 'CompactSVC', is 'SpSVC'": (SpSVC(random_state=0), X, labels, None),
    }.items():
        estimator, rows, y, weights = arguments
        with pytest.raises(CheckpointError) as found:
            estimator.fit(rows, y, sample_weight=weights, checkpoint=path)
        assert what in str(found.value)
        assert path.exists()
    # how a fit runs is free
    resumed = clone(machine).set_params(n_jobs=2, verbose=0).fit(X, labels, checkpoint=path)
    assert agree(resumed, fitted(machine, data))


def test_the_vectors_of_a_warm_start_count(data, tmp_path, monkeypatch):
    X, labels, _ = data
    path = tmp_path / "fit.checkpoint"
    machine = CompactSVC(n_basis=8, refine=False, warm_start=True, random_state=0)
    assert killed_at(3, machine, data, path, monkeypatch)
    warm = fitted(machine, data)
    with pytest.raises(CheckpointError, match=r"warm start .*'array \(8, 4\)"):
        warm.fit(X, labels, checkpoint=path)
    assert agree(fitted(machine, data, checkpoint=path), fitted(machine, data))


def test_given_vectors_and_orders_of_rows_count(data, tmp_path, monkeypatch):
    X, _, score = data
    path = tmp_path / "fit.checkpoint"
    machine = CompactSVR(selection=X[:7], refine=False, random_state=0)
    assert killed_at(3, machine, data, path, monkeypatch)
    with pytest.raises(CheckpointError, match=r"selection was 'array \(7, 4\)"):
        clone(machine).set_params(selection=X[1:8]).fit(X, score, checkpoint=path)
    order = np.arange(len(X))[::-1]
    with pytest.raises(CheckpointError, match="inputs was"):
        clone(machine).fit(X[order], score[order], checkpoint=path)
    assert agree(clone(machine).fit(X, score, checkpoint=path), fitted(machine, data))


def test_long_splits_are_compared_byte_by_byte(data, tmp_path, monkeypatch):
    """The text of a long array shows its ends only: these splits differ in the middle."""
    path = tmp_path / "fit.checkpoint"
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2400, 2))
    labels = (X[:, 0] * X[:, 1] > 0).astype(int)
    train, test = np.arange(1200), np.arange(1200, 2400)
    less, more = train.copy(), test.copy()
    less[600], more[600] = test[600], train[600]
    assert repr(test) == repr(more)
    machine = FixedSizeLSSVC(n_basis=10, tune=True, random_state=0)
    given, changed = [(test, train), (train, test)], [(more, less), (less, more)]
    splitter, moved = PredefinedSplit(np.repeat([0, 1], 1200)), np.repeat([0, 1], 1200)
    moved[[599, 1800]] = 1 - moved[[599, 1800]]
    for cv, wrong in ((given, changed), (splitter, PredefinedSplit(moved))):
        first = clone(machine).set_params(cv=cv)
        assert killed_at(3, first, (X, labels, None), path, monkeypatch)
        with pytest.raises(CheckpointError, match="cv was"):
            clone(machine).set_params(cv=wrong).fit(X, labels, checkpoint=path)
        same_content = [(a.copy(), b.copy()) for a, b in given] if cv is given else PredefinedSplit(splitter.test_fold)
        resumed = clone(machine).set_params(cv=same_content).fit(X, labels, checkpoint=path)
        assert agree(resumed, clone(machine).set_params(cv=cv).fit(X, labels))


def test_code_of_the_user_is_refused(data, tmp_path):
    """A function may have another body under the same name when the fit goes on."""
    X, labels, _ = data
    path = tmp_path / "fit.checkpoint"

    def kernel(A, B):
        return A @ B.T

    class Splits(KFold):
        pass

    machines = {
        "kernel=function": CompactSVC(kernel=kernel, refine=False, n_basis=5),
        "cv=Splits.*list.splitter.split": FixedSizeLSSVC(n_basis=5, tune=True, cv=Splits(3)),
        "cv=generator": FixedSizeLSSVC(n_basis=5, tune=True, cv=KFold(3).split(X)),
        "kernel=CallableKernel": CompactSVC(kernel=CallableKernel(kernel), refine=False, n_basis=5),
    }
    for message, machine in machines.items():
        with pytest.raises(TypeError, match=message):
            machine.fit(X, labels, checkpoint=path)
        assert not path.exists()
    # functions of scikit-learn are known by their name
    CompactSVC(kernel=linear_kernel, refine=False, n_basis=5, random_state=0).fit(X, labels, checkpoint=path)


def test_fingerprints_are_of_the_content():
    one = {"a": [1, 2.5, None, "x"], "b": (np.arange(4.0), {1, 2}, KFold(3)), "c": RBF(np.linspace(0.1, 1, 5))}
    assert fingerprint(one) == fingerprint(copy.deepcopy(one))
    assert fingerprint(np.float64(1.0)) == fingerprint(1.0)
    different = [
        1, True, 1.0, "1", b"1", None, [1], [[1]], {1: 1}, {1}, np.ones(1), np.ones(1, np.float32), np.ones((1, 1)),
        np.array([1], dtype=object), np.array(["1"], dtype=object), KFold(2), KFold(3), KFold, RBF(1.0),
        RBF(1.0 + 1e-15), RBF(np.full(3, 0.1)), RBF(np.full(3, 0.1 + 1e-15)), linear_kernel,
        functools.partial(linear_kernel, dense_output=True),
        np.random.RandomState(0), np.random.RandomState(1), np.random.default_rng(0), sparse.csr_matrix(np.eye(2)),
        sparse.csr_matrix(2 * np.eye(2)),
    ]  # fmt: skip
    assert len({fingerprint(value) for value in different}) == len(different)


def test_interrupted_fits_go_on(data, tmp_path, monkeypatch):
    """Ctrl-C keeps the best machine so far, and the checkpoint to go on from."""
    from kompakt.basis.refine import RefinementObjective
    from kompakt.train.running import InterruptedWarning

    path = tmp_path / "fit.checkpoint"
    machine = MACHINES["CompactSVC"]
    whole = fitted(machine, data)
    real, count = RefinementObjective.value_and_gradient, [0]

    def interrupted(self, kernel, Z):
        count[0] += 1
        if count[0] == 4:
            raise KeyboardInterrupt
        return real(self, kernel, Z)

    with monkeypatch.context() as patch:
        patch.setattr(RefinementObjective, "value_and_gradient", interrupted)
        with pytest.warns(InterruptedWarning):
            fitted(machine, data, checkpoint=path)
    assert path.exists()
    assert agree(whole, fitted(machine, data, checkpoint=path))
    assert not path.exists()


def test_the_argument_is_no_metadata():
    with sklearn.config_context(enable_metadata_routing=True):
        for machine in (CompactSVC(), SpSVC(), FixedSizeLSSVC(), FixedSizeLSSVR(), ProjectedKernelFisher()):
            assert "checkpoint" not in machine.get_metadata_routing().fit.requests
            assert "sample_weight" in machine.get_metadata_routing().fit.requests
