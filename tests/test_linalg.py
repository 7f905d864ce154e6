"""Cholesky factors that grow, change and report their jitter."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import LinAlgError

from kompakt.kernels import RBF
from kompakt.linalg import border, factorise, multiply_upper


def definite(m=8, seed=0):
    A = np.random.default_rng(seed).normal(size=(2 * m, m))
    return A.T @ A


def test_a_sound_matrix_needs_no_jitter():
    A = definite()
    factor = factorise(A)
    assert factor.jitter == 0.0
    assert_allclose(factor.R.T @ factor.R, A, rtol=1e-12)
    assert np.array_equal(factor.R, np.triu(factor.R))
    B = np.random.default_rng(1).normal(size=(8, 2))
    assert_allclose(A @ factor.solve(B), B, rtol=1e-9, atol=1e-12)
    assert_allclose(factor.R.T @ factor.solve_transposed(B), B, rtol=1e-10, atol=1e-12)
    assert_allclose(factor.R @ factor.inverse(), np.eye(8), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1.0, 1e12, 1e-12])
def test_singular_matrices_get_the_smallest_jitter_of_their_precision(dtype, scale):
    Z = np.random.default_rng(0).normal(size=(6, 2))
    duplicated = scale * RBF(0.5).gram(np.concatenate([Z, Z]))
    factor = factorise(duplicated, dtype=dtype)
    noise = np.finfo(dtype).eps * 12 * scale
    assert noise <= factor.jitter <= 100 * noise
    assert_allclose(factor.R.T @ factor.R, duplicated + factor.jitter * np.eye(12), rtol=1e-12)
    assert np.min(np.diag(factor.R)) ** 2 >= noise


def test_nearly_singular_in_float32_is_sound_in_float64():
    Z = np.array([[0.0], [3e-5]])
    gram = RBF(0.5).gram(Z)
    assert factorise(gram, dtype=np.float64).jitter == 0.0
    assert factorise(gram, dtype=np.float32).jitter > 0.0


def test_zero_and_empty_matrices():
    assert factorise(np.zeros((3, 3))).jitter > 0
    assert_allclose(factorise(np.zeros((3, 3))).R, np.eye(3))
    assert factorise(np.zeros((0, 0))).R.shape == (0, 0)


def test_messages():
    with pytest.raises(LinAlgError, match=r"the Gram matrix has entries that are not finite.*StandardScaler"):
        factorise(np.array([[1.0, np.nan], [np.nan, 1.0]]), what="Gram matrix")
    with pytest.raises(LinAlgError, match="the kernel is not positive semidefinite"):
        factorise(np.array([[1.0, 1e7], [1e7, 1.0]]), what="kernel")


def test_border_equals_factorising_at_once():
    A = definite(10)
    grown = border(factorise(A[:6, :6]), A[:6, 6:], A[6:, 6:])
    assert grown.jitter == 0.0
    assert_allclose(grown.R, factorise(A).R, rtol=1e-10, atol=1e-12)
    from_nothing = border(factorise(np.zeros((0, 0))), np.zeros((0, 10)), A)
    assert_allclose(from_nothing.R, factorise(A).R, rtol=1e-12)


def test_border_by_a_dependent_column_lifts_it_and_says_so():
    A = definite(6)
    grown = border(factorise(A), A[:, :1], A[:1, :1], noise=1e-12)
    assert 1e-12 <= grown.jitter < 1e-10
    together = np.block([[A, A[:, :1]], [A[:1], A[:1, :1]]])
    assert_allclose(grown.R.T @ grown.R, together, atol=1e-10)


@pytest.mark.parametrize("m", [1, 127, 128, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_product_with_a_triangle(m, dtype):
    rng = np.random.default_rng(0)
    K, U = rng.normal(size=(40, m)).astype(dtype), np.triu(rng.normal(size=(m, m)))
    expected = K.astype(np.float64) @ U
    tolerance = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(multiply_upper(K, U), expected, atol=tolerance)
    wide = np.zeros((40, m + 1), dtype=dtype)
    multiply_upper(K, U, out=wide[:, :m])
    np.testing.assert_allclose(wide[:, :m], expected, atol=tolerance)
    assert np.all(wide[:, m] == 0)


def test_relative_soundness_does_not_depend_on_units():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6))
    scales = 10.0 ** np.array([-9, -3, 0, 0, 4, 8])
    A = (X * scales).T @ (X * scales)
    assert factorise(A).jitter > 0  # the smallest pivots are below the noise of the largest
    factor = factorise(A, relative=True)
    assert factor.jitter == 0.0
    assert_allclose(factor.R / scales, factorise(X.T @ X).R, rtol=1e-8)
    twice = np.column_stack([X, X[:, 0]]) * np.append(scales, 1e5)
    singular = factorise(twice.T @ twice, relative=True)
    assert 0 < singular.jitter < 1e-12
    raised = twice.T @ twice + singular.jitter * np.diag((twice**2).sum(axis=0))
    root = np.sqrt(np.diag(raised))
    assert_allclose((singular.R.T @ singular.R) / np.outer(root, root), raised / np.outer(root, root), atol=1e-14)


def test_a_large_factor_is_that_of_a_small_one():
    X = np.random.default_rng(0).standard_normal((400, 300))
    A = X.T @ X
    R = factorise(A).R
    assert_allclose(R.T @ R, A, atol=1e-10)
    assert_allclose(R, np.triu(R))
    assert_allclose(R[:200, :200], factorise(A[:200, :200]).R, atol=1e-10)
    assert factorise(np.ones((300, 300))).jitter > 0
