"""Minimising the objective along many directions at once.

phi(t) = a t + q t^2 / 2 + C sum_i s_i [loss(y_i, f_i + t c_i) - loss(y_i, f_i)]

is the objective of seed 001, eq. 7, as a function of one new weight t: column c, a and q from the regulariser.  The
same function is the line search of a full re-fit.  Its derivative is increasing and piecewise linear for the losses
used here, so Newton's method inside a bracket ends at the exact minimiser after finitely many steps.
"""

from __future__ import annotations

import numpy as np

from kompakt.basis._compiled import hinge_minimiser
from kompakt.losses import HuberHinge, LeastSquares, Loss, SquaredHinge

Array = np.ndarray

#: elements of one block of directions x rows; a larger problem is worked off in parts that stay in cache
_CHUNK = 1 << 18


def minimise_along(
    loss: Loss,
    y: Array,
    f: Array,
    s: Array,
    columns: Array,
    linear: Array,
    quadratic: Array,
    C: Array | float,
    *,
    group: Array | None = None,
    tol: float = 1e-6,
) -> tuple[Array, Array]:
    """Minimisers t and decreases -phi(t) >= 0, both (B, k), for B machines and k directions each.

    Parameters
    ----------
    loss : Loss
        Piecewise quadratic.
    y, f, s : ndarray of shape (B, n)
        Targets, predictions and weights; a row of weight 0 takes no part.
    columns : ndarray of shape (G, k, n)
        Directions; those of machine b are ``columns[group[b]]``, and `group` None means group b (or 0, if G is 1).
    linear, quadratic : ndarray of shape (B, k)
        a and q; q must be positive.
    C : float or ndarray of shape (B,)
    tol : float
        A direction is done when its derivative is this small against that at 0.  The relative error of the decrease is
        about its square.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.line import minimise_along
    >>> from kompakt.losses import SquaredHinge
    >>> one = np.ones((1, 1))
    >>> t, decrease = minimise_along(SquaredHinge(), one, 0 * one, one, one[None], 0 * one, one, 1.0)
    >>> float(t[0, 0]), float(decrease[0, 0])
    (0.5, 0.25)
    """
    B, n = y.shape
    k = columns.shape[1]
    if group is None:
        group = np.arange(B) if len(columns) == B else np.zeros(B, dtype=np.intp)
    C = np.broadcast_to(np.asarray(C, dtype=np.float64), (B,))
    compiled = hinge_minimiser() if isinstance(loss, SquaredHinge | HuberHinge) else None
    if compiled is not None:
        limit = loss.epsilon if isinstance(loss, HuberHinge) else np.inf
        t, decrease = np.empty((B, k)), np.empty((B, k))
        arrays = [np.asarray(part, dtype=np.float64) for part in (y, f, s, columns)]
        compiled(*arrays, np.asarray(group, dtype=np.intp), linear, quadratic, C, limit, tol, t, decrease)
        return t, decrease
    start, curvature = _at_zero(loss, y, f, s, columns, group, C)
    start, curvature = start + linear, curvature + quadratic
    t = -start / curvature
    if isinstance(loss, LeastSquares):
        return t, 0.5 * np.square(start) / curvature
    decrease = np.empty((B, k))
    machine, direction = np.divmod(np.arange(B * k), k)
    width = max(1, _CHUNK // max(1, n))
    for first in range(0, B * k, width):
        b, j = machine[first : first + width], direction[first : first + width]
        part = _Directions(loss, y, f, s, columns[group[b], j], linear[b, j], quadratic[b, j], C[b], b)
        t[b, j], decrease[b, j] = part.minimise(t[b, j], start[b, j], tol)
    return t, decrease


def _at_zero(
    loss: Loss, y: Array, f: Array, s: Array, columns: Array, group: Array, C: Array
) -> tuple[Array, Array]:
    """First and second derivative of the loss part at t = 0, (B, k), by matrix products."""
    slopes = C[:, None] * s * loss.gradient(y, f)
    curvatures = C[:, None] * s * loss.curvature(y, f)
    first = np.empty((len(y), columns.shape[1]))
    second = np.empty_like(first)
    for number in range(len(columns)):
        own = group == number
        if own.any():
            first[own] = slopes[own] @ columns[number].T
            second[own] = curvatures[own] @ np.square(columns[number]).T
    return first, second


class _Directions:
    """Some (machine, direction) pairs: columns (P, n), targets and predictions of their machines."""

    def __init__(
        self, loss: Loss, y: Array, f: Array, s: Array, columns: Array, a: Array, q: Array, C: Array, machine: Array
    ) -> None:
        self.loss, self.columns, self.a, self.q, self.C = loss, columns, a, q, C
        if len(y) > 1:  # a single machine broadcasts instead
            y, f, s = y[machine], f[machine], s[machine]
        self.y, self.f, self.s = y, f, s

    def _keep(self, which: Array) -> _Directions:
        part = object.__new__(_Directions)
        part.loss, part.columns = self.loss, self.columns[which]
        part.a, part.q, part.C = self.a[which], self.q[which], self.C[which]
        for name in ("y", "f", "s"):
            values = getattr(self, name)
            setattr(part, name, values if len(values) == 1 else values[which])
        return part

    def derivatives(self, t: Array) -> tuple[Array, Array]:
        at = self.columns * t[:, None]
        at += self.f
        weighted = self.s * self.columns
        first = self.a + self.q * t + self.C * np.einsum("pn,pn->p", self.loss.gradient(self.y, at), weighted)
        weighted *= self.columns
        second = self.q + self.C * np.einsum("pn,pn->p", self.loss.curvature(self.y, at), weighted)
        return first, second

    def value(self, t: Array) -> Array:
        gain = self.loss.value(self.y, self.f + t[:, None] * self.columns)
        gain -= self.loss.value(self.y, self.f)
        return t * (self.a + 0.5 * self.q * t) + self.C * np.sum(self.s * gain, axis=1)

    def minimise(self, t: Array, start: Array, tol: float) -> tuple[Array, Array]:
        """Minimisers from first guesses t; `start` is the derivative at 0."""
        found = t.copy()
        left = np.flatnonzero(start != 0.0)
        part = self if len(left) == len(t) else self._keep(left)
        sign = -np.sign(start[left])  # travel in this direction; lengths below are positive
        length, low, high = np.abs(t[left]), np.zeros(len(left)), np.full(len(left), np.inf)
        goal = tol * np.abs(start[left])
        for _ in range(80):
            if not len(left):
                break
            first, second = part.derivatives(sign * length)
            slope = sign * first
            done = (np.abs(slope) <= goal) | (np.isfinite(high) & (high - low <= 1e-14 * high))
            low, high = np.where(slope < 0, length, low), np.where(slope > 0, length, high)
            step = length - slope / second
            middle = np.where(np.isfinite(high), 0.5 * (low + np.where(np.isfinite(high), high, 0.0)), 2.0 * low)
            found[left] = sign * length
            length = np.where((step > low) & (step < high), step, middle)
            if done.any():
                go = np.flatnonzero(~done)
                part, left, sign, length = part._keep(go), left[go], sign[go], length[go]
                low, high, goal = low[go], high[go], goal[go]
        return found, np.maximum(0.0, -self.value(found))
