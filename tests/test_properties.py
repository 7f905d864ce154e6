"""What holds of every machine, for whatever rows and labels: checked on generated ones, the same in every run."""

import os
import tempfile
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.base import clone

import kompakt
from kompakt import CompactSVC, CompactSVR, FixedSizeLSSVC, FixedSizeLSSVR, ProjectedSVC, SpSVC

CLASSIFIERS = {
    "CompactSVC": CompactSVC(n_basis=4, refine=False, random_state=0, n_jobs=1),
    "SpSVC": SpSVC(n_basis=3, random_state=0, n_jobs=1),
    "FixedSizeLSSVC": FixedSizeLSSVC(n_basis=4, random_state=0, n_jobs=1),
    "ProjectedSVC": ProjectedSVC(n_basis=4, random_state=0, n_jobs=1),
}
REGRESSORS = {
    "CompactSVR": CompactSVR(n_basis=4, refine=False, random_state=0, n_jobs=1),
    "FixedSizeLSSVR": FixedSizeLSSVR(n_basis=4, random_state=0, n_jobs=1),
}
MACHINES = CLASSIFIERS | REGRESSORS
few = settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)

#: any number that float64 has, and such as can be squared
any_number = st.floats(allow_nan=False, allow_infinity=False)
square_number = st.floats(-1e100, 1e100).filter(lambda number: number == 0 or abs(number) > 1e-100)
#: numbers whose sums are exact, so that the order of rows changes nothing
plain_number = st.integers(-40, 40).map(lambda number: number / 8)
labels_of = st.sampled_from([[0, 1], [-1, 1], ["no", "yes"], [True, False], ["", "a", "ä\x1b", "=1"], [0.0, 1.0, 2.0]])


@st.composite
def tables(draw, numbers, classes=True):
    """X (n, d) and y: at least one row of every class, in any order."""
    n, d = draw(st.integers(8, 24)), draw(st.integers(1, 4))
    X = draw(hnp.arrays(np.float64, (n, d), elements=numbers, fill=st.nothing()))
    if not classes:
        return X, draw(hnp.arrays(np.float64, n, elements=numbers, fill=st.nothing()))
    labels = draw(labels_of)
    return X, np.array([labels[number % len(labels)] for number in draw(st.permutations(range(n)))])


def fitted(name, X, y, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # kompakt's own remarks; a RuntimeWarning stays an error
        return clone(MACHINES[name]).fit(X, y, **more)


@pytest.mark.parametrize("name", MACHINES)
@few
@given(data=st.data())
def test_any_finite_rows_give_finite_predictions_or_a_named_error(name, data):
    numbers = data.draw(st.sampled_from([any_number, square_number, plain_number]))
    X, y = data.draw(tables(numbers, name in CLASSIFIERS))
    try:
        machine = fitted(name, X, y)
        predicted = machine.predict(X)
    except ValueError:
        return
    if name in REGRESSORS:
        assert np.isfinite(predicted).all()
    else:
        assert set(predicted.tolist()) <= set(y.tolist())
        assert np.isfinite(machine.decision_function(X)).all()


@pytest.mark.parametrize("name", ["CompactSVC", "CompactSVR"])
@few
@given(data=st.data())
def test_a_saved_machine_predicts_the_same_bits(name, data):
    X, y = data.draw(tables(plain_number, name in CLASSIFIERS))
    machine = fitted(name, X, y)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "machine")
        kompakt.save(machine, path)
        loaded = kompakt.load(path)
    np.testing.assert_array_equal(loaded.predict(X), machine.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), machine.model_.decision_function(X))


@pytest.mark.parametrize("name", MACHINES)
@few
@given(data=st.data())
def test_what_the_rows_are_decides_not_how_they_are_given(name, data):
    """Their order, a weight of two instead of a row twice, CSR instead of dense, one by one instead of all at once."""
    X, y = data.draw(tables(plain_number, name in CLASSIFIERS))
    machine = fitted(name, X, y)
    expected = machine.decision_function(X) if name in CLASSIFIERS else machine.predict(X)

    def same(other, digits):
        found = other.decision_function(X) if name in CLASSIFIERS else other.predict(X)
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(found, expected, rtol=0, atol=digits * scale)

    if name != "ProjectedSVC":  # LIBSVM stops at a tolerance
        order = np.random.default_rng(0).permutation(len(X))
        same(fitted(name, X[order], y[order]), 1e-5)
        same(fitted(name, sparse.csr_matrix(X), y), 1e-5)
    one_by_one = [machine.decision_function(x) if name in CLASSIFIERS else machine.predict(x) for x in X[:, None]]
    np.testing.assert_allclose(np.concatenate(one_by_one), expected, rtol=1e-9, atol=1e-9)
    twice = np.arange(len(X)) % 3 == 0
    if name in ("CompactSVC", "CompactSVR"):
        repeated = fitted(name, np.concatenate([X, X[twice]]), np.concatenate([y, y[twice]]))
        expected = repeated.decision_function(X) if name in CLASSIFIERS else repeated.predict(X)
        same(fitted(name, X, y, sample_weight=1.0 + twice), 1e-5)
