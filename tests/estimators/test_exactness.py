"""What DESIGN promises under "Exactness", for every machine of `machines.EXACT`.

Same rows, order and blocks: bit-identical at any number of threads.  Rows permuted, weights for repetition, dense or
CSR, other blocks: the same selected rows, and coefficients to 1e-7.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone, is_classifier, is_outlier_detector
from tests.estimators.machines import EXACT, plain

from kompakt import CompactSVC, CompactSVR, SpSVC
from kompakt import design as design_module

N = 1100


@pytest.fixture(scope="module", params=list(EXACT))
def machine(request):
    return clone(EXACT[request.param]).set_params(random_state=3)


def data(machine):
    """Rows with zeros (for CSR), some of them several times, and three classes or a curve."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, 4))
    X[rng.uniform(size=X.shape) < 0.2] = 0.0
    X[N - 60 :] = X[:60]
    score = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=N)
    if is_outlier_detector(machine):
        return X, np.where(score > 2.0, -1, 1)
    return X, np.digitize(score, [-0.5, 0.6]) if is_classifier(machine) else score


@pytest.fixture(scope="module")
def fitted(machine):
    X, y = data(machine)
    return clone(machine).set_params(n_jobs=1).fit(X, y)


def ordered(machine):
    """Basis vectors in one fixed order, with their coefficients."""
    order = np.lexsort(machine.basis_vectors_.T)
    return machine.basis_vectors_[order], machine.dual_coef_[:, order]


def assert_same(got, expected):
    vectors, coefficients = ordered(expected)
    got_vectors, got_coefficients = ordered(got)
    assert np.array_equal(got_vectors, vectors), "other rows were selected"
    scale = np.abs(coefficients).max()
    assert_allclose(got_coefficients, coefficients, rtol=0, atol=1e-7 * scale)
    assert_allclose(got.intercept_, expected.intercept_, rtol=0, atol=1e-7 * max(1.0, scale))


@pytest.mark.parametrize("n_jobs", [2, 4])
def test_threads_change_no_bit(monkeypatch, machine, n_jobs):
    monkeypatch.setattr(design_module, "_LEAST_ROWS", 97)  # enough blocks for every thread
    X, y = data(machine)
    alone = clone(machine).set_params(n_jobs=1).fit(X, y)
    many = clone(machine).set_params(n_jobs=n_jobs).fit(X, y)
    assert np.array_equal(alone.basis_indices_, many.basis_indices_)
    assert alone.dual_coef_.tobytes() == many.dual_coef_.tobytes()
    assert alone.intercept_.tobytes() == many.intercept_.tobytes()
    assert alone.predict(X).tobytes() == many.predict(X).tobytes()


def test_permuted_rows(machine, fitted):
    X, y = data(machine)
    order = np.random.default_rng(1).permutation(N)
    permuted = clone(machine).fit(X[order], y[order])
    assert_same(permuted, fitted)
    assert np.array_equal(X[order][permuted.basis_indices_], permuted.basis_vectors_)


def test_weights_for_repetition(machine):
    X, y = data(machine)
    counts = np.random.default_rng(2).integers(0, 4, N)
    weighted = clone(machine).fit(X, y, sample_weight=counts.astype(float))
    repeated = clone(machine).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert_same(weighted, repeated)
    assert np.all(counts[weighted.basis_indices_] > 0)
    assert np.array_equal(X[weighted.basis_indices_], weighted.basis_vectors_)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix])
def test_sparse_rows(machine, fitted, kind):
    X, y = data(machine)
    got = clone(machine).fit(kind(X), y)
    assert_same(got, fitted)
    for method in ("predict", "decision_function"):
        if hasattr(got, method):
            assert_allclose(getattr(got, method)(kind(X)), getattr(fitted, method)(X), atol=1e-6)
            assert_allclose(getattr(got, method)(X), getattr(fitted, method)(X), atol=1e-6)


@pytest.mark.parametrize("least_rows", [100, 97, N])  # 97 and its multiples do not divide N, 100 does
def test_other_blocks(monkeypatch, machine, fitted, least_rows):
    monkeypatch.setattr(design_module, "_LEAST_ROWS", least_rows)
    X, y = data(machine)
    assert_same(clone(machine).fit(X, y), fitted)


def test_recomputed_blocks(machine, fitted):
    X, y = data(machine)
    if isinstance(machine, SpSVC):  # grows on features in memory, and says so
        with pytest.raises(MemoryError, match="memory_budget"):
            clone(machine).set_params(memory_budget=1).fit(X, y)
        return
    assert_same(clone(machine).set_params(memory_budget=1).fit(X, y), fitted)


def test_same_state_same_machine_other_state_other_rows(machine, fitted):
    X, y = data(machine)
    again = clone(machine).set_params(n_jobs=1).fit(X, y)
    assert again.dual_coef_.tobytes() == fitted.dual_coef_.tobytes()
    if machine.get_params().get("selection") == "random":
        other = clone(machine).set_params(random_state=4).fit(X, y)
        assert set(other.basis_indices_) != set(fitted.basis_indices_)


@pytest.mark.parametrize("kind", [CompactSVC, CompactSVR])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_a_nearly_dependent_basis_keeps_the_promises_too(kind, C):
    """A hundred random rows in the plane: their kernel matrix has a condition of 1e14, coefficients reach 1e6."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] > 0).astype(int)
    machine = plain(kind(n_basis=100, selection="random", gamma="scale", C=C, random_state=0))
    order, counts = rng.permutation(2000), rng.integers(0, 4, 2000)
    expected = clone(machine).fit(X, y)
    assert np.abs(expected.dual_coef_).max() > 1e4, "the basis is not nearly dependent: the test has lost its point"
    assert_same(clone(machine).fit(X[order], y[order]), expected)
    weighted = clone(machine).fit(X, y, sample_weight=counts.astype(float))
    assert_same(weighted, clone(machine).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts)))
