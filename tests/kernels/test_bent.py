"""Features that bend: ramps against their definition, derivatives against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from kompakt import piecewise
from kompakt.kernels import RBF, BentRBF, MappedRBF
from kompakt.piecewise import PiecewiseLinear


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def naive(transform, X):
    bent = np.zeros(X.shape)
    for i, row in enumerate(X):
        for f, x in enumerate(row):
            before = -np.inf
            for knot, slope in zip([*transform.knots[f], np.inf], transform.slopes[f], strict=True):
                if np.isinf(before) and before > 0:
                    break
                bent[i, f] += slope * (min(x, knot) if np.isinf(before) else max(min(x, knot) - before, 0.0))
                before = knot
    return bent


def rows_of_all_kinds(rng, n=60):
    skewed = rng.exponential(size=n) ** 3
    return np.column_stack([rng.normal(size=n), rng.integers(0, 2, n), rng.integers(0, 4, n), skewed])


def bent_transform(rng, X):
    transform = PiecewiseLinear.identity(X)
    return transform.with_slopes(rng.normal(1.0, 0.7, transform.slopes.shape))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("numba", [True, False])
def test_the_transform_is_the_sum_of_its_ramps(rng, dtype, numba, monkeypatch):
    if not numba:
        monkeypatch.setattr(piecewise, "_compiled", lambda: (piecewise._bend, piecewise._slope_sums))
    X = rows_of_all_kinds(rng)
    transform = bent_transform(rng, X)
    new = 3 * rows_of_all_kinds(rng)
    tolerance = 1e-12 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(transform(new.astype(dtype)), naive(transform, new), rtol=tolerance, atol=tolerance)


def test_the_identity_leaves_rows_as_they_are_and_two_values_need_no_knot(rng):
    X = rows_of_all_kinds(rng)
    transform = PiecewiseLinear.identity(X)
    np.testing.assert_allclose(transform(X), X, rtol=1e-14, atol=1e-14)
    assert np.isfinite(transform.knots).sum(axis=1).tolist() == [7, 0, 3, 7]
    assert transform.n_numbers == 2 * 17 + 4


@pytest.mark.parametrize("metric", ["one", "each", "full", "low"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_derivatives_equal_finite_differences(rng, metric, n_outputs):
    X = rows_of_all_kinds(rng, 40)
    Z, d = rng.normal(size=(5, 4)), 4
    maps = {"full": rng.normal(size=(d, d)) / 3, "low": rng.normal(size=(2, d)) / 3}
    inner = MappedRBF(maps[metric]) if metric in maps else RBF(0.3 if metric == "one" else rng.uniform(0.1, 0.5, d))
    kernel = BentRBF(inner, bent_transform(rng, X))
    slopes, weights = rng.normal(size=(40, n_outputs)), rng.normal(size=(5, n_outputs))
    W = rng.normal(size=(5, 5))
    W = W + W.T

    def value(theta, vectors):
        moved = kernel.with_theta(theta)
        on_rows = np.sum((slopes @ weights.T) * moved.block(X, vectors))
        return on_rows + 0.5 * np.sum(W * moved.gram(vectors))

    d_basis, d_theta = kernel.output_gradients(X, Z, kernel.block(X, Z), slopes, weights)
    of_gram = kernel.gram_gradients(Z, kernel.gram(Z), W.copy())
    d_basis, d_theta = d_basis + of_gram[0], d_theta + 0.5 * of_gram[1]
    step = 1e-6
    for index in range(len(kernel.theta)):
        move = np.zeros(len(kernel.theta))
        move[index] = step
        change = (value(kernel.theta + move, Z) - value(kernel.theta - move, Z)) / (2 * step)
        assert change == pytest.approx(d_theta[index], rel=1e-5, abs=1e-6)
    for index in np.ndindex(Z.shape):
        move = np.zeros(Z.shape)
        move[index] = step
        change = (value(kernel.theta, Z + move) - value(kernel.theta, Z - move)) / (2 * step)
        assert change == pytest.approx(d_basis[index], rel=1e-5, abs=1e-6)


def test_bad_knots_and_slopes_are_refused():
    with pytest.raises(ValueError, match="shapes"):
        PiecewiseLinear(np.zeros((2, 3)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="ascend"):
        PiecewiseLinear(np.array([[1.0, 0.0]]), np.ones((1, 3)))
