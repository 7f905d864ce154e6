"""Derivatives of every kernel against central differences, with respect to the basis and to theta."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from kompakt.kernels import RBF, Constant, Laplacian, Linear, MappedRBF, Polynomial, Product, Sum

KERNELS = {
    "rbf": RBF(0.3),
    "rbf per feature": RBF([0.1, 2.0, 0.5]),
    "mapped rbf": MappedRBF([[0.5, -0.2, 0.1], [0.3, 0.6, 0.0], [-0.4, 0.1, 0.7]]),
    "mapped rbf of rank 1": MappedRBF([[0.5, -0.2, 0.1]]),
    "1 + mapped rbf": 1 + MappedRBF([[0.5, -0.2, 0.1], [0.3, 0.6, 0.0]]),
    "laplacian": Laplacian(0.4),
    "linear": Linear(),
    "poly": Polynomial(0.5, 1.5, 3),
    "poly without coef0": Polynomial(0.5, 0.0, 2),
    "poly 1": Polynomial(0.5, 0.3, 1),
    "1 + rbf": 1 + RBF(0.3),
    "constant first": Sum((Constant(1.0), RBF(0.3))),
    "3 * rbf": 3 * RBF(0.3),
    "sum": RBF(0.3) + Laplacian(0.2) + 0.5,
    "product": RBF([0.1, 2.0, 0.5]) * Polynomial(0.5, 1.0, 2),
    "three factors": Product((RBF(0.3), Linear(), Laplacian(0.1))),
    "sum of products": 2 * (RBF(0.3) + 1) * Laplacian(0.2) + Linear(),
}


def weighted_sum(kernel, X, Z, W):
    return float(np.vdot(W, kernel.block(X, Z)))


def differences(function, at, h=1e-5):
    result = np.empty(at.shape)
    for index in np.ndindex(*at.shape):
        step = np.zeros(at.shape)
        step[index] = h
        result[index] = (function(at + step) - function(at - step)) / (2 * h)
    return result


def problem(offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(17, 3)) + offset, rng.normal(size=(4, 3)) + offset, rng.normal(size=(17, 4))


@pytest.mark.parametrize("name", KERNELS)
def test_against_finite_differences(engine, name):
    kernel = KERNELS[name]
    X, Z, W = problem()
    d_basis, d_theta = kernel.gradients(X, Z, kernel.block(X, Z), W.copy())
    assert d_basis.dtype == d_theta.dtype == np.float64
    assert_allclose(d_basis, differences(lambda Z: weighted_sum(kernel, X, Z, W), Z), rtol=1e-7, atol=1e-8)
    expected = differences(lambda theta: weighted_sum(kernel.with_theta(theta), X, Z, W), kernel.theta)
    assert d_theta.shape == kernel.theta.shape
    assert_allclose(d_theta, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_csr_and_float32_rows_give_the_same(engine, name):
    kernel = KERNELS[name]
    X, Z, W = problem()
    X[np.abs(X) < 0.8] = 0.0
    expected = kernel.gradients(X, Z, kernel.block(X, Z), W.copy())
    csr = sparse.csr_matrix(X)
    for got, exact in zip(kernel.gradients(csr, Z, kernel.block(csr, Z), W.copy()), expected, strict=True):
        assert_allclose(got, exact, rtol=1e-11, atol=1e-12)
    X32, Z32, W32 = X.astype(np.float32), Z.astype(np.float32), W.astype(np.float32)
    for got, exact in zip(kernel.gradients(X32, Z32, kernel.block(X32, Z32), W32), expected, strict=True):
        assert_allclose(got, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_gradients_of_outputs(engine, name, n_outputs):
    """Slopes of the losses and weights of the vectors stand for their product."""
    kernel, rng = KERNELS[name], np.random.default_rng(4)
    X, Z, _ = problem()
    slopes, weights = rng.normal(size=(len(X), n_outputs)), rng.normal(size=(len(Z), n_outputs))
    for rows in (X, sparse.csr_matrix(X)):
        K = kernel.block(rows, Z)
        expected = kernel.gradients(rows, Z, K, slopes @ weights.T)
        for got, exact in zip(kernel.output_gradients(rows, Z, K, slopes, weights), expected, strict=True):
            assert got.dtype == np.float64
            assert_allclose(got, exact, rtol=1e-11, atol=1e-12)


def test_sparse_products_of_wide_rows(engine):
    rng = np.random.default_rng(3)
    X = sparse.random(40, 200, density=0.02, format="csr", random_state=rng)
    Z, W = rng.normal(size=(3, 200)) * 0.1, rng.normal(size=(40, 3))
    maps = [MappedRBF(0.1 * rng.normal(size=(rank, 200))) for rank in (3, 150)]
    for kernel in (RBF(0.2), RBF(rng.uniform(0.1, 1.0, 200)), *maps, Polynomial(0.5, 1.0, 3), Linear()):
        sparse_way = kernel.gradients(X, Z, kernel.block(X, Z), W.copy())
        dense_way = kernel.gradients(X.toarray(), Z, kernel.block(X.toarray(), Z), W.copy())
        for got, exact in zip(sparse_way, dense_way, strict=True):
            assert_allclose(got, exact, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", ["rbf", "rbf per feature", "laplacian", "1 + rbf"])
def test_centred_rows_at_a_large_offset(engine, name):
    """Shift-invariant kernels see centred rows; their derivatives are those at the origin."""
    kernel = KERNELS[name]
    assert kernel.shift_invariant
    X, Z, W = problem()
    expected = kernel.gradients(X, Z, kernel.block(X, Z), W.copy())
    far, far_Z = X + 1e6, Z + 1e6
    centre = far.mean(axis=0)
    X, Z = far - centre, far_Z - centre
    for got, exact in zip(kernel.gradients(X, Z, kernel.block(X, Z), W.copy()), expected, strict=True):
        assert_allclose(got, exact, rtol=1e-7, atol=1e-7)


def test_theta_round_trip():
    for kernel in KERNELS.values():
        X, Z, _ = problem()
        again = kernel.with_theta(kernel.theta)
        assert_allclose(again.block(X, Z), kernel.block(X, Z), rtol=1e-13)
    with pytest.raises(ValueError, match="no parameter to learn"):
        Linear().with_theta(np.zeros(1))
