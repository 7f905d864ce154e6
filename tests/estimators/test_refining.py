"""Refinement that every estimator with chosen vectors offers."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons

from kompakt import (
    FEESVC,
    FEESVR,
    AutoSize,
    CompactSVC,
    FixedSizeLSSVC,
    FixedSizeLSSVR,
    KernelFisher,
    ProjectedSVC,
    Refinement,
    SpSVC,
)
from kompakt.basis.refine import RefinementObjective
from kompakt.datasets import make_ringnorm

CLASSIFIERS = {
    "SpSVC": SpSVC(6, C=10.0, random_state=0),
    "SpSVC, 1 + k": SpSVC(6, C=10.0, plus_one=True, random_state=0),
    "SpSVC, matching pursuit": SpSVC(6, C=10.0, selection="kmp", random_state=0),
    "FixedSizeLSSVC": FixedSizeLSSVC(6, C=10.0, random_state=0),
    "FixedSizeLSSVC, squared hinge": FixedSizeLSSVC(6, C=10.0, loss="squared_hinge", random_state=0),
    "ProjectedSVC": ProjectedSVC(6, C=10.0, random_state=0),
    "FEESVC": FEESVC(4, C=10.0, random_state=0),
}


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(1200, noise=0.2, random_state=0)
    return X[:600], y[:600], X[600:], y[600:]


@pytest.fixture(scope="module")
def waves():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (800, 2))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.05 * rng.standard_normal(800)
    return X[:500], y[:500], X[500:], y[500:]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_moved_vectors_have_a_lower_objective_and_no_larger_error(name, moons):
    X, y, Xt, yt = moons
    start = clone(CLASSIFIERS[name]).fit(X, y)
    machine = clone(CLASSIFIERS[name]).set_params(refine=True).fit(X, y)
    assert machine.refinement_["kept"]
    assert machine.n_basis_ == start.n_basis_
    assert machine.basis_indices_ is None
    assert not np.allclose(machine.basis_vectors_, start.basis_vectors_)
    assert machine.refinement_["objective"] < machine.refinement_["objective_before"]
    assert machine.refinement_["validation"] <= machine.refinement_["validation_before"]
    assert machine.objective_ < start.objective_
    assert machine.score(Xt, yt) >= start.score(Xt, yt) - 0.005
    assert machine.n_kernel_evals_ > start.n_kernel_evals_
    assert not hasattr(start, "refinement_")


@pytest.mark.parametrize("machine", [FixedSizeLSSVR(10, C=100.0, random_state=0), FEESVR(10, C=100.0, random_state=0)])
def test_regressors_move_theirs_too(machine, waves):
    X, y, Xt, yt = waves
    start = clone(machine).fit(X, y)
    moved = clone(machine).set_params(refine=True).fit(X, y)
    assert moved.refinement_["kept"]
    assert 1 - moved.score(Xt, yt) < 0.8 * (1 - start.score(Xt, yt))


@pytest.mark.parametrize("name", ["SpSVC", "FixedSizeLSSVC", "ProjectedSVC", "FEESVC"])
def test_widths_are_learned_with_the_vectors(name):
    rng = np.random.default_rng(1)
    X, y = make_moons(600, noise=0.15, random_state=1)
    X = np.column_stack([X, rng.standard_normal((600, 3))])  # three features that say nothing
    learning = clone(CLASSIFIERS[name]).set_params(refine=True, gamma="ard", n_basis=10)
    # a descent from few vectors may end in a poor minimum: the best of three starts
    starts = [clone(learning).set_params(random_state=seed).fit(X, y) for seed in range(3)]
    machine = min(starts, key=lambda fitted: fitted.refinement_["validation"])
    assert machine.refinement_["kept"]
    assert machine.gamma_.shape == (5,)
    assert machine.gamma_[:2].max() > 2 * machine.gamma_[2:].max()  # refinement may stop early
    one = clone(CLASSIFIERS[name]).set_params(refine=True, gamma="learn", n_basis=10).fit(X, y)
    assert np.ndim(one.gamma_) == 0


def test_many_classes_on_one_moved_basis():
    rng = np.random.default_rng(0)
    centres = rng.uniform(-4, 4, (5, 2))
    X = np.concatenate([centre + 0.8 * rng.standard_normal((80, 2)) for centre in centres])
    y = np.repeat(list("abcde"), 80)
    for machine in (
        SpSVC(8, random_state=0),
        FixedSizeLSSVC(8, coding="one_vs_one", shared_basis=True, random_state=0),
    ):
        start = clone(machine).fit(X, y)
        moved = clone(machine).set_params(refine=True).fit(X, y)
        assert moved.basis_vectors_.shape == (8, 2)
        assert moved.score(X, y) >= start.score(X, y) - 0.01


def test_refined_machine_is_saved_and_read_back(moons, tmp_path):
    import kompakt

    X, y, Xt, _ = moons
    machine = SpSVC(6, C=10.0, refine=True, random_state=0).fit(X, y)
    kompakt.save(machine, tmp_path / "m.kompakt")
    assert np.array_equal(kompakt.load(tmp_path / "m.kompakt").predict(Xt), machine.predict(Xt))


def test_tuned_and_sized_machines_are_refined(moons):
    X, y, Xt, yt = moons
    tuned = FixedSizeLSSVC(AutoSize(sizes=[5, 10]), tune=True, cv=3, refine=True, random_state=0).fit(X, y)
    assert tuned.n_basis_ in (5, 10)
    assert "refinement_" in vars(tuned)
    grown = SpSVC(AutoSize(largest=10), refine=True, random_state=0).fit(X, y)
    assert grown.score(Xt, yt) > 0.94


def test_what_cannot_be_moved_says_so(moons):
    X, y = moons[:2]
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    with pytest.raises(TypeError, match=r"derivatives.*precomputed.*refine=False"):
        SpSVC(5, kernel="precomputed", refine=True).fit(K, y)
    with pytest.raises(ValueError, match="linear kernel is solved without"):
        FixedSizeLSSVC(5, kernel="linear", refine=True).fit(X, y)
    with pytest.raises(ValueError, match="shared_basis=True"):
        FixedSizeLSSVC(9, coding="one_vs_one", refine=True).fit(X, y + (X[:, 0] > 1))
    with pytest.raises(ValueError, match="needs refine=True"):
        SpSVC(5, gamma="ard").fit(X, y)
    with pytest.raises(ValueError, match=r"gamma must be .*; got 'loo'\. CompactSVC"):
        SpSVC(5, gamma="loo", refine=True).fit(X, y)
    with pytest.raises(ValueError, match=r"gamma must be .*; got 'learn'\. CompactSVC"):
        KernelFisher(gamma="learn").fit(X, y)


def test_warm_start_needs_rows(moons):
    X, y = moons[:2]
    machine = SpSVC(5, refine=True, warm_start=True, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"refinement moved the vectors.*refine=False first"):
        machine.set_params(n_basis=8).fit(X, y)
    grown = SpSVC(5, warm_start=True, random_state=0).fit(X, y)
    grown.set_params(n_basis=8, refine=True).fit(X, y)
    assert grown.n_basis_ == 8


def test_a_start_that_is_better_on_held_out_rows_is_kept():
    # labels are noise: whatever refinement finds on the training rows is worse elsewhere, sooner or later
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 5)), rng.integers(0, 2, 300)
    outcomes = set()
    for seed in range(6):
        machine = SpSVC(5, C=1000.0, refine=True, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine.fit(X, y)
        kept = machine.refinement_["kept"]
        outcomes.add(kept)
        if kept:
            assert machine.refinement_["validation"] <= machine.refinement_["validation_before"]
        else:
            assert machine.basis_indices_ is not None
    assert False in outcomes


def test_folds_end_soon_after_twice_the_iterations_of_their_lowest_mean():
    lengths = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((200, 4))
        y = X[:, 0] + 1.5 * rng.standard_normal(200) > 0
        machine = CompactSVC(10, gamma="ard", random_state=0).fit(X, y)
        curve = machine.refinement_["validation_curve"]
        lengths.append(len(curve) - 1 - 2 * np.argmin(curve))
    assert np.median(lengths) <= 20  # one fold alone may have seen its lowest loss later than all of them


def test_streamed_rows(tmp_path):
    import kompakt

    X, y = make_ringnorm(3000, random_state=0)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    rows = kompakt.open_rows(tmp_path / "X.npy", target=tmp_path / "y.npy")
    for machine in (SpSVC(6, refine=True, random_state=0), FixedSizeLSSVC(6, refine=True, random_state=0)):
        there, here = clone(machine).fit(rows), clone(machine).fit(X, y)
        assert np.array_equal(there.basis_vectors_, here.basis_vectors_)
        assert np.array_equal(there.dual_coef_, here.dual_coef_)


@pytest.mark.parametrize("n_rows", [1200, 4000])  # folds, one held-out part
def test_a_race_finds_a_cost_at_which_noise_is_not_fitted(n_rows):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows + 4000, 8))
    y = np.where(X[:, 0] * X[:, 1] * np.where(rng.random(len(X)) < 0.15, -1, 1) > 0, 1, -1)
    wrong = {}
    for C in (100.0, None):
        machine = CompactSVC(120, C=C, random_state=1).fit(X[:n_rows], y[:n_rows])
        wrong[C] = np.mean(machine.predict(X[n_rows:]) != y[n_rows:])
    assert machine.C_ < 10.0
    assert machine.refinement_["validation"] < machine.refinement_["validation_before"]
    assert wrong[None] < wrong[100.0] - 0.02


def test_a_step_too_long_for_the_weights_ends_the_descent(monkeypatch):
    """A line search may try vectors so far away that float32 overflows; the best point before is kept."""
    X, y = make_moons(600, noise=0.2, random_state=0)
    whole = RefinementObjective.value_and_gradient
    calls = []

    def fails_later(self, kernel, Z):
        calls.append(len(Z))
        if len(calls) % 6 == 0:
            raise np.linalg.LinAlgError("the Hessian has entries that are not finite")
        return whole(self, kernel, Z)

    monkeypatch.setattr(RefinementObjective, "value_and_gradient", fails_later)
    model = CompactSVC(8, refine=Refinement(30), random_state=0).fit(X, y)
    assert len(calls) > 6
    assert model.score(X, y) > 0.9
