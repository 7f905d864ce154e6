"""Sheather-Jones bandwidths against R, a naive O(n^2) version, and their invariances."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from kompakt.basis import bandwidth as module

REFERENCE = json.loads((Path(__file__).parent / "bw_sj_reference.json").read_text())["samples"]


def sheather_jones(x, weights=None):
    return module.bandwidths(np.asarray(x, dtype=float)[:, None], weights)[0].h


def bandwidths(X, weights=None):
    return np.array([column.h for column in module.bandwidths(X, weights)])


def sample(name: str) -> np.ndarray:
    """The sample of bw_sj_reference.R."""
    record = REFERENCE[name]
    if "x" in record:
        return np.array(record["x"])
    u = (np.arange(1, record["n"] + 1) * 0.6180339887498949) % 1
    low, high = stats.norm(-2, 0.5), stats.norm(1, 0.2)
    return {
        "normal_100": lambda: stats.norm.ppf(u),
        "normal_2000": lambda: stats.norm.ppf(u),
        "exponential": lambda: stats.expon.ppf(u),
        "uniform": lambda: -3 + 8 * u,
        "bimodal": lambda: np.where(u < 0.6, low.ppf(np.minimum(u / 0.6, 1)), high.ppf(np.maximum((u - 0.6) / 0.4, 0))),
        "cauchy": lambda: stats.cauchy.ppf(u),
        "logistic": lambda: 5 + 0.3 * stats.logistic.ppf(u),
        "rounded": lambda: np.round(50 + 14 * stats.norm.ppf(u)),
    }[name]()


@pytest.mark.parametrize("name", REFERENCE)
def test_agrees_with_r(name):
    record = REFERENCE[name]
    x = sample(name)
    assert x.mean() == pytest.approx(record["mean"], rel=1e-6, abs=1e-9)  # the same sample as R's
    h = sheather_jones(x)
    assert h == pytest.approx(record["tight"], rel=3e-3)
    if name != "cauchy":  # R's default 1000 bins are wider than that bandwidth
        assert h == pytest.approx(record["default"], rel=1e-2)


def naive_functional(x, r, g, w=None):
    w = np.ones(len(x)) if w is None else w
    u = (x[:, None] - x[None, :]) / g
    hermite = u**4 - 6 * u**2 + 3 if r == 4 else u**6 - 15 * u**4 + 45 * u**2 - 15
    values = hermite * np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi)
    return w @ values @ w / (w.sum() * (w.sum() - 1) * g ** (r + 1))


@pytest.mark.parametrize("r", [4, 6])
@pytest.mark.parametrize("weighted", [False, True])
def test_binned_functional_within_its_bound(r, weighted):
    rng = np.random.default_rng(3)
    x = np.sort(np.concatenate([rng.standard_normal(300), [40.0, 41.0, 1e7]]))  # outliers cost no grid
    w = rng.integers(1, 4, len(x)).astype(float) if weighted else np.ones(len(x))
    for ratio in (0.9, 0.5, 0.25):
        g = 0.3
        pairs = module.bin_pairs(x, w, step=ratio * g, reach=10 * g)
        error = abs(pairs.functional(r, g) - naive_functional(x, r, g, w))
        bound = pairs.error_bound(r, g)
        assert error <= bound
        # The bound is a worst case over pairs, yet no empty promise: it shrinks with the eighth power.
        assert bound <= 200 * ratio**8 * 1e3 / g ** (r + 1)
        assert len(pairs.mass) < 20 / ratio


@pytest.mark.parametrize("printed", [False, True])
def test_binned_root_equals_naive_root(printed):
    """Also as De Brabanter et al. 2010 print it: n^2 pairs and the standard deviation."""
    from scipy.optimize import brentq

    x = np.sort(np.random.default_rng(1).gamma(2.0, size=250))
    n = len(x)
    scale = x.std(ddof=1) if printed else module._scale(x, np.ones(n))
    share = (n - 1) / n if printed else 1.0  # of n (n - 1) in n^2
    a, b = module.PILOT_4 * scale * n ** (-1 / 7), module.PILOT_6 * scale * n ** (-1 / 9)
    alpha = module.PILOT_H * (naive_functional(x, 4, a) / -naive_functional(x, 6, b)) ** (1 / 7)

    def excess(h):
        phi = share * naive_functional(x, 4, alpha * h ** (5 / 7))
        return (1 / (2 * math.sqrt(math.pi) * n * phi)) ** 0.2 - h

    expected = brentq(excess, 0.2 * scale * n**-0.2, 1.2 * scale * n**-0.2, xtol=1e-12)
    result = module.plug_in(x, np.ones(n), printed)
    assert result.bound <= 1e-4
    if printed:
        assert module.bandwidths(x[:, None], printed=True)[0].h == pytest.approx(result.h)
        assert abs(result.h / module.plug_in(x, np.ones(n)).h - 1) > 0.01  # they are not the same on a skewed column
    assert result.h == pytest.approx(expected, rel=max(result.bound, 1e-8))


def test_constants_round_to_those_of_r():
    exact = [module.PILOT_4, module.PILOT_6, module.PILOT_H]
    np.testing.assert_allclose(exact, [1.24, 1.23, 1.357], rtol=1e-3)


def test_lebesgue_constant_is_the_maximum():
    t = np.linspace(0, 1, 2001)
    lebesgue = np.abs(module._LAGRANGE @ t ** np.arange(8)[:, None]).sum(axis=0)
    assert lebesgue.max() == pytest.approx(module._LEBESGUE, rel=1e-9)


def test_equivariant_and_order_free():
    x = np.random.default_rng(0).gamma(2.0, size=400)
    h = sheather_jones(x)
    assert sheather_jones(1e3 * x - 7e3) == pytest.approx(1e3 * h, rel=1e-7)
    assert sheather_jones(x[::-1]) == pytest.approx(h, rel=1e-10)


def test_weight_two_is_the_value_twice():
    rng = np.random.default_rng(5)
    x = rng.standard_normal(200)
    w = rng.integers(0, 4, 200)
    assert sheather_jones(x, weights=w) == pytest.approx(sheather_jones(np.repeat(x, w)), rel=1e-9)


def test_sparse_equals_dense():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 3)) < 0.1, 0.0, rng.standard_normal((300, 3)))
    np.testing.assert_allclose(bandwidths(sp.csr_array(X)), bandwidths(X), rtol=1e-9)
    w = np.random.default_rng(2).integers(0, 3, 300).astype(float)
    np.testing.assert_allclose(bandwidths(sp.csr_array(X), w), bandwidths(X, w), rtol=1e-9)


def test_constant_and_discrete_columns_are_named():
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.standard_normal(300), np.full(300, 3.3), rng.random(300) < 0.2, rng.integers(0, 5, 300)]
    ).astype(float)
    assert [column.status for column in module.bandwidths(X)] == ["plug-in", "constant", "discrete", "discrete"]
    h = bandwidths(X)
    assert h[1] == 1.0
    assert np.all(h > 0)
    assert np.all(np.isfinite(h))
    assert h[3] == pytest.approx(1.0592 * module._scale(np.sort(X[:, 3]), np.ones(300)) * 300**-0.2, rel=1e-3)


def test_zero_inflated_column_is_discrete():
    x = np.zeros(1000)
    x[:80] = np.random.default_rng(0).random(80)
    assert module.plug_in(x, np.ones(1000)).status == "discrete"
    assert sheather_jones(x) > 0.01 * x.std()


def test_a_value_alone_is_constant():
    assert sheather_jones([3.0]) == sheather_jones([3.0, 5.0], weights=[1.0, 0.0]) == 1.0


def test_a_million_values_cost_little_more_than_their_sort():
    """Near-linear: measured 0.2 s; ten times the values may cost at most thirty times the time."""
    x = np.random.default_rng(0).standard_normal(1_000_000)
    seconds = []
    for n in (100_000, 1_000_000):
        runs = []
        for _ in range(3):
            start = time.perf_counter()
            sheather_jones(x[:n])
            runs.append(time.perf_counter() - start)
        seconds.append(min(runs))
    assert seconds[1] < 30 * seconds[0]
