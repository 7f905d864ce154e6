"""The minimiser of a piecewise quadratic objective along directions: exact, and guarded by a bracket."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import numpy as np

from kompakt.losses import Loss
from kompakt.parallel import numba_available

Array = np.ndarray


@cache
def compiled() -> ModuleType | None:
    """The compiled loops, or None without Numba."""
    if not numba_available():
        return None
    from kompakt.solve import _compiled

    return _compiled


def minimise_along(
    loss: Loss,
    y: Array,
    f: Array,
    s: Array,
    columns: Array,
    linear: Array,
    quadratic: Array,
    *,
    group: Array | None = None,
    tol: float = 1e-6,
) -> tuple[Array, Array]:
    """Minimisers t and decreases -phi(t) >= 0 of the objective along directions, both (B, k): B machines, k each.

    phi(t) = a t + q t^2 / 2 + sum_i s_i [loss(y_i, f_i + t c_i) - loss(y_i, f_i)] is the objective of Keerthi et al.
    2006, eq. 7, as a function of one new weight t: column c, a and q from the regulariser.  The same function is the
    line search of Newton's method.  Its derivative increases and is piecewise linear, so Newton's method inside a
    bracket ends at the exact minimiser after finitely many steps.

    Parameters
    ----------
    loss : Loss
        Piecewise quadratic.
    y, f, s : ndarray of shape (B, n)
        Targets, predictions and costs; a row of cost 0 takes no part.
    columns : ndarray of shape (G, k, n)
        Directions; those of machine b are ``columns[group[b]]``, and `group` None means group b (or 0, if G is 1).
    linear, quadratic : ndarray of shape (B, k)
        a and q; q must be positive.
    tol : float
        A direction is done when its derivative is this small against that at 0.  The relative error of the decrease is
        about its square.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.solve.line_search import minimise_along
    >>> from kompakt.losses import SquaredHinge
    >>> one = np.ones((1, 1))
    >>> t, decrease = minimise_along(SquaredHinge(), one, 0 * one, one, one[None], 0 * one, one)
    >>> float(t[0, 0]), float(decrease[0, 0])
    (0.5, 0.25)
    """
    B, n = y.shape
    k = columns.shape[1]
    if group is None:
        group = np.arange(B) if len(columns) == B else np.zeros(B, dtype=np.intp)
    t, decrease = np.zeros((B, k)), np.zeros((B, k))
    if loss.quadratic:  # one step, by matrix products
        for number in np.unique(group):
            own = group == number
            slope = linear[own] + (s[own] * loss.gradient(y[own], f[own])) @ columns[number].T
            curvature = quadratic[own] + s[own] @ np.square(columns[number]).T
            t[own], decrease[own] = -slope / curvature, 0.5 * np.square(slope) / curvature
        return t, decrease
    fast, ramps = compiled(), loss.ramps(B)
    if fast is not None and ramps is not None:
        # one signature for all callers: contiguous, writable arrays
        y, f, s, columns = (np.require(part, np.float64, ["C", "W"]) for part in (y, f, s, columns))
        linear, quadratic = (np.require(part, np.float64, ["C", "W"]) for part in (linear, quadratic))
        group = np.require(group, np.intp, ["C", "W"])
        fast.minimise(y, f, s, columns, group, linear, quadratic, *ramps, tol, t, decrease)
        return t, decrease
    width = max(1, (1 << 18) // max(1, n))  # directions at a time: their rows stay in cache
    for b in range(B):
        own = loss.take_outputs(np.array([b]))
        for start in range(0, k, width):
            part = slice(start, start + width)
            t[b, part], decrease[b, part] = _minimise_arrays(
                own, y[b], f[b], s[b], columns[group[b], part], linear[b, part], quadratic[b, part], tol
            )
    return t, decrease


def _minimise_arrays(
    loss: Loss, y: Array, f: Array, cost: Array, columns: Array, a: Array, q: Array, tol: float
) -> tuple[Array, Array]:
    """The minimisers for one machine and some directions (k, n)."""

    def derivatives(t: Array, c: Array, which: Array) -> tuple[Array, Array]:
        at = f + t[:, None] * c
        first = a[which] + q[which] * t + np.sum(cost * loss.gradient(y, at) * c, axis=1)
        return first, q[which] + np.sum(cost * loss.curvature(y, at) * c * c, axis=1)

    found, left = np.zeros(len(a)), np.arange(len(a))
    start, curvature = derivatives(found, columns, left)
    sign = -np.sign(start)  # travel in this direction; lengths below are positive
    length, low, high = np.abs(start / curvature), np.zeros(len(a)), np.full(len(a), np.inf)
    left = np.flatnonzero(start != 0.0)
    for _ in range(80):
        if not len(left):
            break
        found[left] = sign[left] * length[left]
        slope, curvature = derivatives(found[left], columns[left], left)
        slope *= sign[left]
        at, below, above = length[left], low[left], high[left]
        narrow = np.isfinite(above) & (above - below <= 1e-14 * above)
        done = (np.abs(slope) <= tol * np.abs(start[left])) | narrow
        below, above = np.where(slope < 0, at, below), np.where(slope > 0, at, above)
        middle = np.where(np.isfinite(above), 0.5 * (below + above), 2.0 * below)
        step = at - slope / curvature
        length[left], low[left], high[left] = np.where((step > below) & (step < above), step, middle), below, above
        left = left[~done]
    gain = loss.value(y, f + found[:, None] * columns) - loss.value(y, f)
    return found, np.maximum(0.0, -found * (a + 0.5 * q * found) - np.sum(cost * gain, axis=1))
