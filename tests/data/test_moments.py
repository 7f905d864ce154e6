"""Weighted means and variances against NumPy, far from the origin too."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from kompakt.data import centre_of, column_means, steady, total_variance


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1003, 4)) * np.array([1.0, 3.0, 0.1, 10.0]) + np.array([5.0, 0.0, -2.0, 1.0])
    X[rng.uniform(size=X.shape) < 0.6] = 0.0
    return X, rng.integers(1, 4, len(X)).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("block_rows", [100, 4096])
def test_against_numpy(kind, weighted, block_rows):
    X, w = data()
    repeated = np.repeat(X, w.astype(int), axis=0) if weighted else X
    weights = w if weighted else None
    assert_allclose(column_means(kind(X), weights, block_rows), repeated.mean(axis=0), rtol=1e-12)
    assert_allclose(total_variance(kind(X), weights, block_rows), repeated.var(), rtol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_far_from_the_origin(kind):
    X = np.random.default_rng(1).normal(size=(2000, 3)) + 1e8
    assert_allclose(column_means(kind(X)), X.mean(axis=0), rtol=1e-14)
    assert_allclose(total_variance(kind(X)), (X - 1e8).var(), rtol=1e-7)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_float32_is_summed_in_float64(kind):
    X = (np.random.default_rng(2).normal(size=(5000, 3)) * 1e20).astype(np.float32)
    assert_allclose(total_variance(kind(X)), X.astype(float).var(), rtol=1e-12)


def test_constant_columns_have_no_variance():
    assert total_variance(np.ones((10, 3))) == 0.0
    assert total_variance(sparse.csr_matrix((10, 3))) == 0.0


@pytest.mark.parametrize("offset", [0.0, 1.0, -1e8])
def test_the_centre_does_not_depend_on_the_order_of_the_rows(offset):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 5)) * np.array([1e-6, 0.1, 1.0, 50.0, 0.0]) + offset
    X -= X.mean(axis=0) * (offset == 0.0)  # means that are nothing but rounding
    counts = rng.integers(1, 4, len(X))
    centre = centre_of(X)
    assert_allclose(centre, X.mean(axis=0), atol=1e-11 * np.abs(X).mean(axis=0).max())
    variance = steady(total_variance(X))
    assert_allclose(variance, X.var(), rtol=1e-7)
    repeated = centre_of(X, counts.astype(float))
    for _ in range(5):
        order = rng.permutation(len(X))
        assert np.array_equal(centre_of(X[order]), centre)
        assert steady(total_variance(X[order])) == variance
        again = np.repeat(X, counts, axis=0)[rng.permutation(counts.sum())]
        assert np.array_equal(centre_of(again), repeated)
