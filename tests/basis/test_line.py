"""One-dimensional minimisation against a brute-force search, compiled and in NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from kompakt.basis import line
from kompakt.losses import HuberHinge, LeastSquares, SquaredHinge

LOSSES = [SquaredHinge(), HuberHinge(0.7), LeastSquares()]


@pytest.fixture(params=["compiled", "numpy"])
def way(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(line, "hinge_minimiser", lambda: None)
    else:
        pytest.importorskip("numba")
    return request.param


def problem(seed, B=3, k=4, n=50, groups=2):
    rng = np.random.default_rng(seed)
    y = np.where(rng.uniform(size=(B, n)) < 0.5, -1.0, 1.0)
    f = rng.normal(size=(B, n))
    s = rng.integers(0, 3, (B, n)).astype(float)
    columns = rng.normal(size=(groups, k, n))
    group = rng.integers(0, groups, B)
    a, q = rng.normal(size=(B, k)), rng.uniform(0.1, 2.0, (B, k))
    return y, f, s, columns, a, q, rng.uniform(0.1, 10.0, B), group


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("seed", range(3))
def test_equals_brute_force(way, loss, seed):
    y, f, s, columns, a, q, C, group = problem(seed)
    t, decrease = line.minimise_along(loss, y, f, s, columns, a, q, C, group=group)
    for b in range(len(y)):
        for j in range(columns.shape[1]):
            c = columns[group[b], j]

            def phi(x, b=b, j=j, c=c):
                gain = loss.value(y[b], f[b] + x * c) - loss.value(y[b], f[b])
                return a[b, j] * x + 0.5 * q[b, j] * x * x + C[b] * np.sum(s[b] * gain)

            best = minimize_scalar(phi, bracket=(-1, 1), options={"xtol": 1e-10})
            assert_allclose(decrease[b, j], -best.fun, rtol=1e-6, atol=1e-9)
            assert_allclose(t[b, j], best.x, atol=1e-4)


def test_starts_that_overshoot(way):
    # one row far from the kink and a tiny q: the first Newton step lands far away, where curvature is different
    y, f, s = np.ones((1, 2)), np.array([[2.0, -1000.0]]), np.ones((1, 2))
    columns = np.array([[[1.0, 1e-3]]])
    t, decrease = line.minimise_along(
        SquaredHinge(), y, f, s, columns, np.zeros((1, 1)), np.full((1, 1), 1e-9), 1.0, tol=1e-9
    )
    slope = 1e-9 * t[0, 0] - 1e-3 * max(0.0, 1001.0 - 1e-3 * t[0, 0]) - max(0.0, 1.0 - 2.0 - t[0, 0])
    assert abs(slope) < 1e-6
    assert decrease[0, 0] > 0


def test_no_slope_no_step(way):
    y, f, s = np.ones((1, 3)), np.full((1, 3), 5.0), np.ones((1, 3))
    zero, one = np.zeros((1, 1)), np.ones((1, 1))
    t, decrease = line.minimise_along(SquaredHinge(), y, f, s, np.ones((1, 1, 3)), zero, one, 1.0)
    assert t[0, 0] == 0.0
    assert decrease[0, 0] == 0.0
