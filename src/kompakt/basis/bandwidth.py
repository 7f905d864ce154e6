"""Sheather-Jones bandwidths, one per dimension, in near-linear time (De Brabanter et al. 2010, algorithm 2).

The solve-the-equation plug-in bandwidth needs the density functionals

    Phi_r(g) = 1 / (n (n - 1) g^(r+1)) * sum_ij phi^(r)((x_i - x_j) / g),      r = 4, 6,

(De Brabanter et al. 2010, eq. 14, with R's n (n - 1)), where phi is the normal density. Summed directly they cost
O(n^2) each. Here every point hands its mass to the 8 nearest nodes of a grid by Lagrange interpolation, one
FFT turns the node masses into the masses of all pair distances, and each further functional costs one short
dot product, whatever n is.

Error bound. The double sum over nodes is the tensor Lagrange interpolant of ``phi^(r)((x - y) / g)`` in x and
y, so one pair is wrong by at most

    (1 + Lambda) * E * (step / g)^8 * max|phi^(r+8)|,

with E = 11025/256/8! (largest node polynomial on the middle interval) and Lambda the Lebesgue constant
there. The bounds of the three functionals used, carried through the equation to first order, bound
the relative error of the bandwidth; the grid is refined until this is below ``_TARGET`` (1e-4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.polynomial.polynomial import polyfromroots
from numpy.typing import ArrayLike, NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq
from scipy.special import factorial2

Floats = NDArray[np.float64]


_TARGET = 1e-4  # bound on the relative error of a bandwidth that makes the grid fine enough
_MAX_NODES = 1 << 23
_ORDER = 8  # nodes per point
_OFFSETS = np.arange(_ORDER) - (_ORDER // 2 - 1)  # -3 .. 4: the point lies between nodes 0 and 1
_CUTOFF = 10.0  # |phi^(6)(10)| < 1e-16: pairs farther apart than this many g add nothing
_SQRT_2PI = math.sqrt(2.0 * math.pi)

# Pilot constants of De Brabanter et al. 2010, eq. 16 and 17, for the normal kernel (R has 1.24, 1.23, 1.357):
# (-2 phi4(0) / Phi_6)^(1/7), (-2 phi6(0) / Phi_8)^(1/9) at sigma = 1, and (-2 phi4(0) / R(phi))^(1/7).
PILOT_4 = (2 * 3 / _SQRT_2PI * 16 * math.sqrt(math.pi) / 15) ** (1 / 7)
PILOT_6 = (2 * 15 / _SQRT_2PI * 32 * math.sqrt(math.pi) / 105) ** (1 / 9)
PILOT_H = (2 * 3 / _SQRT_2PI * 2 * math.sqrt(math.pi)) ** (1 / 7)


# Row o: power coefficients (1, t, t^2, ...) of the Lagrange polynomial of node _OFFSETS[o].
_LAGRANGE = np.array(
    [
        polyfromroots(others) / np.prod(o - others, dtype=float)
        for o, others in ((o, _OFFSETS[_OFFSETS != o]) for o in _OFFSETS)
    ]
)
_NODE_ERROR = (0.5 * 1.5 * 2.5 * 3.5) ** 2 / math.factorial(_ORDER)
# The Lebesgue function of equidistant nodes is largest in the middle of the middle interval.
_LEBESGUE = float(np.abs(_LAGRANGE @ 0.5 ** np.arange(_ORDER)).sum())


@dataclass(frozen=True)
class PairDistances:
    """Mass of the pair distances 0, step, 2 step, ... of a binned sample (both orders of a pair counted)."""

    mass: Floats
    step: float
    total: float  # n, or the sum of the weights
    n_pairs: float  # what the sums over pairs are divided by

    def functional(self, r: int, g: float) -> float:
        """Phi_r(g), r = 4 or 6 (De Brabanter et al. 2010, eq. 14)."""
        n_lags = min(len(self.mass), int(_CUTOFF * g / self.step) + 2)
        u2 = (np.arange(n_lags) * (self.step / g)) ** 2
        hermite = (u2 - 6) * u2 + 3 if r == 4 else ((u2 - 15) * u2 + 45) * u2 - 15
        pair_sum = float(np.dot(self.mass[:n_lags], np.exp(-0.5 * u2) * hermite)) / _SQRT_2PI
        return pair_sum / (self.n_pairs * g ** (r + 1))

    def error_bound(self, r: int, g: float) -> float:
        """Largest possible difference between :meth:`functional` and the direct double sum."""
        per_pair = (1 + _LEBESGUE) * _NODE_ERROR * (self.step / g) ** _ORDER
        per_pair *= float(factorial2(r + _ORDER - 1)) / _SQRT_2PI  # the maximum of |phi^(k)|, k even, is that at 0
        return per_pair * self.total**2 / (self.n_pairs * g ** (r + 1))


def bin_pairs(x: Floats, w: Floats, step: float, reach: float, with_itself: bool = False) -> PairDistances:
    """Bin sorted `x` (weights `w`) with grid spacing `step`; pairs farther apart than `reach` are dropped.

    Sums are divided by the n (n - 1) pairs of different rows, or by n^2.
    """
    gaps = np.diff(x)
    if gaps.size and gaps.max() > reach:
        # Empty stretches wider than the reach carry no pair: shorten them, so outliers cost no grid.
        y = np.concatenate([[0.0], np.cumsum(np.minimum(gaps, reach))]) / step
    else:
        y = (x - x[0]) / step
    cell = y.astype(np.intp)
    t = y - cell
    n_cells = int(cell[-1]) + 1
    nodes = np.zeros(n_cells + _ORDER - 1)
    power = w.copy()
    for k in range(_ORDER):
        moment = np.bincount(cell, weights=power, minlength=n_cells)
        for o in range(_ORDER):
            nodes[o : o + n_cells] += _LAGRANGE[o, k] * moment
        power *= t
    n_lags = min(len(nodes), int(reach / step) + 1)
    size = next_fast_len(len(nodes) + n_lags, real=True)
    spectrum = rfft(nodes, size)
    mass = irfft(spectrum.real**2 + spectrum.imag**2, size)[:n_lags]
    mass[1:] *= 2.0
    total = float(w.sum())
    return PairDistances(mass, step, total, total * (total if with_itself else total - 1))


@dataclass(frozen=True)
class PlugIn:
    """A bandwidth, the bound on its relative binning error and how it came about."""

    h: float
    bound: float
    status: str  # "plug-in", "constant", "discrete", "no solution"


def _scale(x: Floats, w: Floats, robust: bool = True) -> float:
    """min(standard deviation, IQR / 1.349); the standard deviation where the IQR is zero (discrete data)."""
    total, cumulative = float(w.sum()), np.cumsum(w)
    sd = math.sqrt(float(np.dot(w, (x - np.dot(w, x) / total) ** 2)) / (total - 1))
    if not robust:
        return sd
    # quartiles of sorted x as R's type 7, where a weight k acts as k equal rows
    position = (total - 1) * np.array([0.25, 0.75])
    low = np.floor(position)
    below, above = (x[np.minimum(np.searchsorted(cumulative, low + k, side="right"), len(x) - 1)] for k in (0, 1))
    iqr = float(np.diff(below + (position - low) * (above - below))[0])
    return min(sd, iqr / 1.349) if iqr > 0 else sd


def _root(pairs: PairDistances, scale: float, reach: float) -> tuple[float, float]:
    """Solve De Brabanter et al. 2010, eq. 15, on a grid: (h, bound on its relative error), or (nan, nan)."""
    n = pairs.total
    a, b = PILOT_4 * scale * n ** (-1 / 7), PILOT_6 * scale * n ** (-1 / 9)  # h_1 and h_2 of eq. 16
    phi_4, phi_6 = pairs.functional(4, a), -pairs.functional(6, b)
    if not (phi_4 > 0 and phi_6 > 0):
        return math.nan, math.nan
    alpha = PILOT_H * (phi_4 / phi_6) ** (1 / 7)
    constant = 1 / (2 * math.sqrt(math.pi) * n)

    def excess(log_h: float) -> float:
        phi = pairs.functional(4, alpha * math.exp(5 / 7 * log_h))
        return math.nan if phi <= 0 else math.log(constant / phi) / 5 - log_h

    # The largest root: from the oversmoothed bandwidth up until the excess is negative, then down until it is
    # not. Rounded data have two more roots below the rounding unit, which a fixed bracket may catch instead.
    upper = math.log(1.144 * scale * n ** (-1 / 5))
    highest = 7 / 5 * math.log(reach / _CUTOFF / alpha)
    while excess(upper) > 0:
        if upper >= highest:
            return math.nan, math.nan
        upper += math.log(1.2)
    lower = upper
    while excess(lower) < 0:
        lower -= math.log(1.2)
        if upper - lower > math.log(1e6):
            return math.nan, math.nan
    if not (excess(lower) >= 0 >= excess(upper)):  # a functional went negative: the grid is too coarse
        return math.nan, math.nan
    h = math.exp(brentq(excess, lower, upper, xtol=1e-10))
    # First order: with s = -dlog Phi_4 / dlog g at the root, log h (1 - s/7) moves by -e_4/5 + s/35 (e_a - e_b).
    g = alpha * h ** (5 / 7)
    phi = pairs.functional(4, g)
    slope = -math.log(max(pairs.functional(4, g * 1.001), 1e-300) / phi) / math.log(1.001)
    e_root = pairs.error_bound(4, g) / phi
    e_pilots = pairs.error_bound(4, a) / phi_4 + pairs.error_bound(6, b) / phi_6
    return h, (e_root / 5 + abs(slope) / 35 * e_pilots) / max(abs(1 - slope / 7), 1e-3)


def plug_in(x: Floats, w: Floats, printed: bool = False) -> PlugIn:
    """Bandwidth of one column of finite values: weight 2 is the value given twice, weight 0 the value left out."""
    order = np.argsort(x, kind="stable")
    order = order[w[order] > 0]
    x, w = x[order], w[order]
    n, spread = float(w.sum()), float(x[-1] - x[0])
    if n <= 1 or spread <= 1e-13 * float(np.abs(x[[0, -1]]).max()):
        return PlugIn(1.0, 0.0, "constant")
    x = (x - np.median(x)) / spread  # any unit will do; this one keeps powers of h from overflowing
    start = np.flatnonzero(np.append(True, np.diff(x) > 0))  # a value with a weight costs as much as one row
    x, w = x[start], np.add.reduceat(w, start)
    tied = len(x) <= n / 2
    scale = _scale(x, w, robust=not printed)
    if scale < 1e-30:  # most values are so near each other that powers of h would vanish
        x, spread, scale = x / scale, spread * scale, 1.0
    reach = _CUTOFF * max(4 * PILOT_4 * scale * n ** (-1 / 7), 1.5 * PILOT_6 * scale * n ** (-1 / 9))
    step = PILOT_4 * scale * n ** (-1 / 7) / 64
    h, bound = math.nan, math.nan
    for _ in range(12):
        occupied = float(np.minimum(np.diff(x), reach).sum()) / step
        if occupied > _MAX_NODES and not math.isnan(h):
            break
        pairs = bin_pairs(x, w, max(step, step * occupied / _MAX_NODES), reach, with_itself=printed)
        h, bound = _root(pairs, scale, reach)
        if bound <= _TARGET or occupied > _MAX_NODES:
            break
        step /= 2
    smallest = 0.1 * 1.144 * scale * n ** (-1 / 5)
    if math.isnan(h) or (tied and h < max(smallest, 0.5 * _typical_gap(x, w))):
        reference = (4 / 3) ** (1 / 5) * scale * n ** (-1 / 5)  # optimal for a normal density
        return PlugIn(reference * spread, 0.0, "discrete" if tied else "no solution")
    return PlugIn(h * spread, bound, "plug-in")


def _typical_gap(values: Floats, mass: Floats) -> float:
    """Distance from a value to the nearest other one, median over the mass."""
    gaps = np.diff(values)
    nearest = np.minimum(np.append(gaps, np.inf), np.insert(gaps, 0, np.inf))
    order = np.argsort(nearest)
    cumulative = np.cumsum(mass[order])
    return float(nearest[order[np.searchsorted(cumulative, 0.5 * cumulative[-1])]])


def bandwidths(X: Any, weights: ArrayLike | None = None, *, printed: bool = False) -> list[PlugIn]:
    """Sheather-Jones bandwidth of every column: of R's ``bw.SJ(x, method = "ste")`` the exact value.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n, d)
        A sparse column costs its stored entries only: its zeros are one value with a weight.
    weights : array-like of shape (n,), optional
        Frequency weights.
    printed : bool
        As De Brabanter et al. 2010 print it: sums over pairs divided by n^2 (eq. 14), where R has n (n - 1), and the
        standard deviation as the scale of the pilots (eq. 17), where R has the lesser of it and the scaled quartiles.

    Returns
    -------
    list of PlugIn
        A constant column has bandwidth 1, a discrete one (or one without a solution) the normal reference bandwidth.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.bandwidth import bandwidths
    >>> X = np.random.default_rng(0).standard_normal((500, 2)) * [1.0, 10.0]
    >>> [round(column.h, 2) for column in bandwidths(X)]
    [0.3, 2.98]
    """
    w = np.ones(X.shape[0]) if weights is None else np.asarray(weights, dtype=float)
    if not sp.issparse(X):
        return [plug_in(np.asarray(column, dtype=float), w, printed) for column in X.T]
    by_column = sp.csc_array(X, dtype=float)
    by_column.sum_duplicates()
    results = []
    for first, last in zip(by_column.indptr[:-1], by_column.indptr[1:], strict=True):
        mass = w[by_column.indices[first:last]]
        rest = max(w.sum() - mass.sum(), 0.0)
        results.append(plug_in(np.append(by_column.data[first:last], 0.0), np.append(mass, rest), printed))
    return results
