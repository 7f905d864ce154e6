"""The minimiser of a piecewise quadratic objective along directions: exact, and guarded by a bracket."""

from __future__ import annotations

from collections.abc import Callable
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
        Targets, predictions and costs; a row of cost 0 takes no values.
    columns : ndarray of shape (G, k, n)
        Directions; those of machine b are ``columns[group[b]]``, and `group` None means group b (or 0, if G is 1).
    linear, quadratic : ndarray of shape (B, k)
        a and q; q must not be negative.
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
            members = group == number
            slope = linear[members] + (s[members] * loss.gradient(y[members], f[members])) @ columns[number].T
            curvature = quadratic[members] + s[members] @ np.square(columns[number]).T
            t[members], decrease[members] = -slope / curvature, 0.5 * np.square(slope) / curvature
        return t, decrease
    fast, ramps = compiled(), loss.ramps(B)
    if fast is not None and ramps is not None:
        # one signature for all callers: contiguous, writable arrays
        y, f, s, columns = (np.require(values, np.float64, ["C", "W"]) for values in (y, f, s, columns))
        linear, quadratic = (np.require(values, np.float64, ["C", "W"]) for values in (linear, quadratic))
        group = np.require(group, np.intp, ["C", "W"])
        fast.minimise(y, f, s, columns, group, linear, quadratic, *ramps, tol, t, decrease)
        return t, decrease
    width = max(1, (1 << 18) // max(1, n))  # directions at a time: their rows stay in cache
    for b in range(B):
        machine_loss = loss.take_outputs(np.array([b]))
        for start in range(0, k, width):
            span = slice(start, start + width)
            t[b, span], decrease[b, span] = _minimise_arrays(
                machine_loss, y[b], f[b], s[b], columns[group[b], span], linear[b, span], quadratic[b, span], tol
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

    start, curvature = derivatives(np.zeros(len(a)), columns, np.arange(len(a)))
    sign = -np.sign(start)  # the direction of travel

    def slopes(which: Array, lengths: Array) -> tuple[Array, Array]:
        first, second = derivatives(sign[which] * lengths[:, 0], columns[which], which)
        return (sign[which] * first)[:, None], second[:, None]

    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # a direction without curvature
        newton = np.abs(start / curvature)[:, None]
    t = sign * guarded_roots(slopes, -np.abs(start), newton, tol=tol, max_calls=80)
    gain = loss.value(y, f + t[:, None] * columns) - loss.value(y, f)
    return t, np.maximum(0.0, -t * (a + 0.5 * q * t) - np.sum(cost * gain, axis=1))


def guarded_roots(
    slopes: Callable[[Array, Array], tuple[Array, Array]],
    start: Array,
    trials: Array,
    *,
    inner: int = 0,
    tol: float,
    max_calls: int,
) -> Array:
    """Roots t >= 0 of k increasing, piecewise linear functions, all side by side; 0 where one is not below 0 there.

    Newton's method inside a bracket: on a piecewise linear function it ends at the exact root.  A step that leaves the
    bracket is replaced by its middle (of logarithms, where it spans orders of magnitude), or by twice the longest step
    while nothing bounds it.

    Parameters
    ----------
    slopes : callable
        ``slopes(which, steps) -> (values, derivatives)`` of the functions `which` at ascending steps, all (len(which),
        T).
    start : ndarray of shape (k,)
        The values at 0.
    trials : ndarray of shape (k, T)
        Ascending steps to try first.
    inner : int
        Steps between the ends of the bracket that are tried with Newton's: many where a call is a pass over all rows.
    tol : float
        A root is found where the value is this small against that at 0.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.solve.line_search import guarded_roots
    >>> start, one = np.array([-2.0]), np.ones((1, 1))
    >>> guarded_roots(lambda which, t: (4.0 * t - 2.0, 4.0 * np.ones_like(t)), start, one, tol=1e-9, max_calls=9)
    array([0.5])
    """
    roots, low, high = np.zeros(len(start)), np.zeros(len(start)), np.full(len(start), np.inf)
    unfinished = np.flatnonzero(start < 0.0)
    at = trials[unfinished]
    for _ in range(max_calls):
        if not len(unfinished):
            break
        at = np.where(np.isfinite(at), at, 1.0)
        value, derivative = slopes(unfinished, at)
        rows, last = np.arange(len(unfinished)), at.shape[1] - 1
        below = np.sum(value < 0.0, axis=1)  # how many trials
        under, over = np.maximum(below - 1, 0), np.minimum(below, last)
        bottom = low[unfinished] = np.where(below > 0, at[rows, under], low[unfinished])
        top = high[unfinished] = np.where(below <= last, at[rows, over], high[unfinished])
        nearest = rows, np.argmin(np.abs(value), axis=1)
        roots[unfinished] = t = at[nearest]
        bounded = np.isfinite(top)
        done = (np.abs(value[nearest]) <= tol * np.abs(start[unfinished])) | (bounded & (top - bottom <= 1e-14 * top))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            newton = t - value[nearest] / derivative[nearest]
            secant = bottom - value[rows, under] * (top - bottom) / (value[rows, over] - value[rows, under])
        ceiling = np.where(bounded, top, 0.0)
        least = np.maximum(bottom, 1e-16 * ceiling)
        # without curvature a step is many orders too long: the middle of the logarithms comes down faster
        between = np.where(ceiling > 16.0 * least, np.sqrt(least) * np.sqrt(ceiling), 0.5 * (bottom + ceiling))
        middle = np.where(bounded, between, 2.0 * bottom)
        at = np.where((newton > bottom) & (newton < top), newton, middle)[:, None]
        if inner:
            ends = bottom[:, None], np.where(bounded, top, 0.0)[:, None]
            spread = np.where(
                bounded[:, None],
                ends[0] + (ends[1] - ends[0]) * np.linspace(0.0, 1.0, inner),
                ends[0] * 2.0 ** np.arange(1.0, inner + 1.0),
            )
            secant = np.where((secant > bottom) & (secant < top), secant, at[:, 0])
            at = np.sort(np.concatenate([at, secant[:, None], spread], axis=1), axis=1)
        at, unfinished = at[~done], unfinished[~done]
    return roots
