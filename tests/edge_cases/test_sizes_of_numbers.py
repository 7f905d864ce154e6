"""Numbers of any size in X, y, C and the weights: a named error or a machine, in a moment, from every estimator."""

from __future__ import annotations

import signal
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.base import clone, is_regressor

from kompakt import (
    CGLQSVC,
    FEESVC,
    FEESVR,
    CompactSVC,
    CompactSVR,
    FixedSizeLSSVC,
    FixedSizeLSSVR,
    GreedyProjection,
    KernelFisher,
    LocalSamplingSVC,
    ProjectedKernelFisher,
    ProjectedSVC,
    Refinement,
    SpSVC,
)
from kompakt.train.data import refuse_extremes
from kompakt.train.task import LARGEST, ClassEncoder, class_factors

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 3))
T = np.sin(2 * X[:, 0]) + X[:, 1]
Y = (T > 0).astype(int)

MACHINES = {
    "CompactSVC": CompactSVC(15, refine=Refinement(10), random_state=0),
    "CompactSVC hinge": CompactSVC(15, refine=False, loss="hinge", random_state=0),
    "CompactSVR": CompactSVR(15, refine=Refinement(10), random_state=0),
    "CompactSVR tube": CompactSVR(15, refine=False, loss="epsilon_insensitive", random_state=0),
    "SpSVC": SpSVC(15, random_state=0),
    "FEESVC": FEESVC(15, random_state=0),
    "FEESVR": FEESVR(15, random_state=0),
    "FixedSizeLSSVC": FixedSizeLSSVC(15, random_state=0),
    "FixedSizeLSSVR": FixedSizeLSSVR(15, random_state=0),
    "ProjectedSVC": ProjectedSVC(15, random_state=0),
    "KernelFisher": KernelFisher(),
    "ProjectedKernelFisher": ProjectedKernelFisher(15, random_state=0),
    "LocalSamplingSVC": LocalSamplingSVC(random_state=0),
    "CGLQSVC": CGLQSVC(random_state=0),
    "GreedyProjection": GreedyProjection(15, random_state=0),
}
WITH_C = [name for name, machine in MACHINES.items() if "C" in machine.get_params()]
REGRESSORS = [name for name, machine in MACHINES.items() if is_regressor(machine)]
SUPERVISED = [name for name in MACHINES if name != "GreedyProjection"]


@contextmanager
def time_limit(seconds: int):
    """Fail instead of hanging, where the system has alarms."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def late(*_):
        pytest.fail(f"still running after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fit(name, rows=X, targets=None, weights=None, **parameters):
    machine = clone(MACHINES[name]).set_params(**parameters)
    targets = (T if is_regressor(machine) else Y) if targets is None else targets
    with time_limit(20), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return machine.fit(rows, targets, sample_weight=weights)


@pytest.mark.parametrize("scale", [1e300, 1e-300])
@pytest.mark.parametrize("name", MACHINES)
def test_inputs_that_cannot_be_squared(name, scale):
    with pytest.raises(ValueError, match=r"entries of X are too (large|small).*StandardScaler"):
        fit(name, X * scale)


@pytest.mark.parametrize("name", MACHINES)
def test_large_float32_inputs(name):
    with pytest.raises(ValueError, match=r"too large to be squared in float32.*pass float64"):
        fit(name, (X * 1e30).astype(np.float32))


@pytest.mark.parametrize("C", [1e300, 1e-300])
@pytest.mark.parametrize("name", WITH_C)
def test_a_cost_beyond_all_sense(name, C):
    with pytest.raises(
        ValueError, match=r"C must be (None or )?a positive, finite number between 1e-50 and 1e\+50; got"
    ):
        fit(name, C=C)


@pytest.mark.parametrize("name", WITH_C)
def test_the_largest_cost(name):
    machine = fit(name, C=1e50)
    assert machine.score(X, T if is_regressor(machine) else Y) > 0.75


@pytest.mark.parametrize("weight", [1e300, 1e-300])
@pytest.mark.parametrize("name", MACHINES)
def test_weights_beyond_all_sense(name, weight):
    with pytest.raises(ValueError, match=r"largest sample weight must lie between.*Divide"):
        fit(name, weights=np.full(len(X), weight))


@pytest.mark.parametrize("name", SUPERVISED)
def test_weights_of_very_different_sizes(name):
    machine = fit(name, weights=np.where(np.arange(len(X)) % 2, 1e50, 1e-300))
    assert machine.score(X, T if is_regressor(machine) else Y) > 0.6


@pytest.mark.parametrize("name", REGRESSORS)
def test_targets_that_cannot_be_squared(name):
    with pytest.raises(ValueError, match=r"targets y are too large.*TransformedTargetRegressor"):
        fit(name, targets=T * 2e307)


@pytest.mark.parametrize("scale", [1e-100, 1e-300, 1e-308])
@pytest.mark.parametrize("name", REGRESSORS)
def test_targets_whose_squares_vanish(name, scale):
    assert np.max(np.abs(fit(name, targets=T * scale).predict(X))) < 1e-50


@pytest.mark.parametrize("scale", [1e49, 1e-49])
@pytest.mark.parametrize("name", ["CompactSVR", "FixedSizeLSSVR"])
def test_large_and_small_targets(name, scale):
    assert fit(name, targets=T * scale).score(X, T * scale) > 0.7


@pytest.mark.parametrize("name", SUPERVISED)
def test_none_among_the_targets(name):
    missing = (T if is_regressor(MACHINES[name]) else np.array(["no", "yes"])[Y]).astype(object)
    missing[7] = None
    with pytest.raises(ValueError, match=r"Input y contains missing values .*first in row 7"):
        fit(name, targets=missing)


def test_a_kernel_that_is_not_finite_ends_the_projection():
    def kernel(A, B):
        values = A @ B.T
        return np.where(values > -1.0, values, np.nan)  # finite for a row and itself

    with time_limit(20), pytest.raises(ValueError, match="not finite"):
        GreedyProjection(15, kernel=kernel, random_state=0).fit(X)


def test_streamed_targets_and_weights(tmp_path):
    from kompakt import open_rows

    np.save(tmp_path / "X.npy", X)
    for target, weight, message in ((T * 1e307, None, "targets y"), (T, np.full(len(X), 1e300), "sample weight")):
        rows = open_rows(tmp_path / "X.npy", target=target, **({} if weight is None else {"weight": weight}))
        with time_limit(20), pytest.raises(ValueError, match=message):
            CompactSVR(5, random_state=0).fit(rows)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_bounds_of_entries_are_those_of_their_type(dtype, is_sparse):
    """Dense float32 rows are squared in float32, all others in float64."""
    bound = 1e15 if dtype == np.float32 and not is_sparse else 1e150
    for sound in (0.0, 1.0, bound, 1.0 / bound):
        refuse_extremes(sound, np.dtype(dtype), is_sparse)
    for extreme, word in ((2.0 * bound, "large"), (0.5 / bound, "small")):
        with pytest.raises(ValueError, match=f"too {word} to be squared") as refused:
            refuse_extremes(extreme, np.dtype(dtype), is_sparse)
        assert ("pass float64" in str(refused.value)) == (bound == 1e15)


def test_weights_of_classes_reach_to_their_bound():
    classes, mass = np.array([0, 1]), np.array([3.0, 5.0])
    np.testing.assert_array_equal(class_factors({1: LARGEST}, classes, mass), [1.0, LARGEST])
    for wrong in (np.nextafter(LARGEST, np.inf), 0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="class weights must be positive"):
            class_factors({1: wrong}, classes, mass)


def test_weights_of_classes_multiply_those_of_rows():
    labels, weights = np.array([0, 1, 2, 1]), np.array([1.0, 2.0, 3.0, 4.0])
    encode = ClassEncoder(np.arange(3), "one_vs_rest", np.array([1.0, 5.0, 2.0]))
    targets, found = encode.targets(labels, weights)
    np.testing.assert_array_equal(targets, [[1, -1, -1], [-1, 1, -1], [-1, -1, 1], [-1, 1, -1]])
    np.testing.assert_array_equal(found, [1.0, 10.0, 6.0, 20.0])
    np.testing.assert_array_equal(encode.targets(labels, None)[1], [1.0, 5.0, 2.0, 5.0])
    pairs = ClassEncoder(np.arange(3), "one_vs_one", np.array([1.0, 5.0, 2.0]))
    targets, found = pairs.targets(labels, weights)
    np.testing.assert_array_equal(found, np.abs(targets) * np.array([[1.0], [10.0], [6.0], [20.0]]))
