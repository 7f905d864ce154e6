"""A trained machine as a weighted least-squares problem with held weights, and its QR factor (seed 000, eq. 5 to 17).

The fixed point of reweighted least squares minimises 1/2 |w|^2 + 1/2 sum_i a_i (z_i - f_i)^2 with weights a_i that
depend on the machine (eq. 6).  Holding them, a machine with one more basis vector is one bordered system (eq. 10), so
the factor of the present one answers for every candidate in O(P R).

Features are whitened, so the rows below the weighted ones, R_c of [sqrt(a) K~ ; R_c] with R_c' R_c = K_c, are the
identity (and zero for the intercept).  Weights reach 1e9 on rows at the margin: normal equations would square that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, solve_triangular

from kompakt.losses import Hinge, Loss, PiecewiseLinear
from kompakt.parallel import ordered_map
from kompakt.solve.kinks import Rounded

Array = np.ndarray

#: largest weight, as a multiple of C s: M of Table 1 is 1e9 whatever C is
LARGEST = 1e9
#: weighted rows factored at a time; the factors of the parts are then factored together
_QR_ROWS = 2048


def held_quadratic(loss: Loss, width: float, y: Array, f: Array, cost: Array) -> tuple[Array, Array]:
    """Weights a and targets z for which the machine with predictions f is a weighted least-squares fit.

    Where the loss has curvature (the rounded part of a kink of `width`, or a quadratic loss) a is C s times it and z
    is where the parabola ends; on a linear piece a is C s |slope| over the distance from its root, as in eq. (6).
    `cost` is C s, per row; a is 0 exactly where the loss has no slope.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.held import held_quadratic
    >>> from kompakt.losses import Hinge
    >>> a, z = held_quadratic(Hinge(), 0.1, np.ones(3), np.array([-1.0, 1.0, 2.0]), np.full(3, 10.0))
    >>> a.tolist(), z.round(3).tolist()
    ([5.0, 100.0, 0.0], [1.0, 1.05, 1.0])
    """
    if isinstance(loss, Hinge):  # the same as below, without the generality: this is the inner loop of growth
        short = 1.0 - y * f
        inside = np.abs(short) < 0.5 * width
        a = np.where(short > 0.0, cost / np.maximum(short, 0.5 * width), 0.0)
        a[inside] = cost[inside] / width
        return a, np.where(inside, (1.0 + 0.5 * width) * y, y)
    smooth = Rounded(loss, width) if isinstance(loss, PiecewiseLinear) else loss
    gradient, curvature = smooth.gradient(y, f), smooth.curvature(y, f)
    curved = curvature > 0.0
    safe = np.where(curved, curvature, 1.0)
    a = np.where(curved, cost * curvature, 0.0)
    z = np.where(curved, f - gradient / safe, y)
    linear = ~curved & (gradient != 0.0)
    if linear.any():
        if isinstance(loss, PiecewiseLinear):
            r = loss.residual(y, f)
            roots = np.array([root for _, root in loss._lines()])[np.searchsorted(loss.kinks, r)]
            z = np.where(linear, f + (roots - r) / loss.orientation(y), z)
        a[linear] = cost[linear] * np.abs(gradient[linear]) / np.abs(z - f)[linear]
    return a, z


def table_weights(loss: Loss, y: Array, f: Array, cost: Array) -> tuple[Array, Array]:
    """Weights of Table 1, step 1.4: 0, C s / (distance from the kink), or M next to it; and their targets.

    The same for every piecewise linear loss, with the distance from the root of the line that a row lies on.
    """
    if not isinstance(loss, PiecewiseLinear):
        return held_quadratic(loss, 0.0, y, f, cost)
    r = loss.residual(y, f)
    lines = np.array(loss._lines())
    slope, root = lines[np.searchsorted(loss.kinks, r, side="left")].T
    # a row on the kink itself counts as beyond it, where the table has M
    near = (slope == 0.0) & np.isin(r, loss.kinks)
    distance = np.abs(r - root)
    pull = np.where(near, 1.0, np.abs(slope))
    a = np.where(pull > 0.0, np.minimum(cost * pull / np.maximum(distance, 1e-300), LARGEST), 0.0)
    return np.where(cost > 0.0, a, 0.0), f + (root - r) / loss.orientation(y)


@dataclass(frozen=True)
class HeldFactor:
    """QR factor of [sqrt(a) A ; P] for the rows with a > 0, and the least-squares fit it gives."""

    rows: Array  # (S,) numbers of the rows with positive weight: the support vectors
    root: Array  # (S,), sqrt(a)
    T: Array  # (p, p), upper triangular
    Q: Array  # (S, p), orthogonal together with `below`
    below: Array  # (q, p), the part of Q at the penalty
    rest: Array  # (S,), what the fit leaves of sqrt(a) z
    rest_below: Array  # (q,)
    theta: Array  # (p,), the fit

    def border(self, columns: Array) -> Border:
        """Fit anew with one more column, for each of several columns (k, P) on its own: O(S p) each.

        The new coordinate is penalised by 1, apart from the old ones: in whitened coordinates k_c of eq. (10) is 0.
        """
        V = columns[:, self.rows] * self.root
        h = V @ self.Q
        V -= h @ self.Q.T
        under = -(h @ self.below.T)
        # eq. (14): 1 / r = c - b' A^-1 b, as the squared length of what is left of the new column
        squares = np.einsum("ks,ks->k", V, V) + np.einsum("kq,kq->k", under, under) + 1.0
        # eq. (17), last row: (s - b' beta) r
        new = (V @ self.rest + under @ self.rest_below) / squares
        return Border(self, h, new)


@dataclass(frozen=True)
class Border:
    """What the fits with one more column are."""

    factor: HeldFactor
    h: Array  # (k, p): the old part of the new column of T
    new: Array  # (k,), weight of the new column

    @property
    def coordinates(self) -> Array:
        """All weights, (k, p + 1): eq. (17), beta - A^-1 b beta_new above beta_new."""
        change = solve_triangular(self.factor.T, self.h.T, check_finite=False).T
        return np.column_stack([self.factor.theta - change * self.new[:, None], self.new])

    def predictions(self, A: Array, columns: Array) -> Array:
        """Predictions at other rows, (k, n): A (p, n) their features, columns (k, n) their new ones."""
        shared = solve_triangular(self.factor.T, A, trans="T", check_finite=False)
        return self.factor.theta @ A + self.new[:, None] * (columns - self.h @ shared)


def hold(A: Array, penalty: Array, a: Array, z: Array) -> HeldFactor:
    """Factor the held problem: features A (p, P), penalty (p,) of 0 and 1, weights a (P,) and targets z (P,).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.held import hold
    >>> hold(np.ones((1, 2)), np.zeros(1), np.array([1.0, 3.0]), np.array([0.0, 4.0])).theta
    array([3.])
    """
    rows = np.flatnonzero(a > 0.0)
    root = np.sqrt(a[rows])
    p = len(A)
    used = np.flatnonzero(penalty > 0.0)
    bottom = np.zeros((p, len(used)))
    bottom[used, np.arange(len(used))] = np.sqrt(penalty[used])
    weighted = A[:, rows] * root
    if len(rows) <= 2 * _QR_ROWS:
        Q, T = _qr(np.concatenate([weighted, bottom], axis=1))
    else:
        Q, T = _qr_by_parts(weighted, bottom)
    top, below = Q[: len(rows)], Q[len(rows) :]
    target = root * z[rows]
    image = top.T @ target
    theta = solve_triangular(T, image, check_finite=False)
    return HeldFactor(rows, root, T, top, below, target - top @ image, -(below @ image), theta)


def _qr(transposed: Array) -> tuple[Array, Array]:
    """Q (n, p) and T (p, p) of the transpose of a C-ordered (p, n) array, which is overwritten."""
    p = len(transposed)
    packed, tau, _, info = lapack.dgeqrf(transposed.T, lwork=32 * p, overwrite_a=1)
    T = np.triu(packed[:p])
    Q, _, failed = lapack.dorgqr(packed, tau, lwork=32 * p, overwrite_a=1)
    if info or failed:
        raise np.linalg.LinAlgError("the QR factorisation of the weighted features failed.")
    return Q, T


def _qr_by_parts(weighted: Array, bottom: Array) -> tuple[Array, Array]:
    """The same by parts of rows: first each part, then their triangles; the order is fixed on any number of threads."""
    p, n = weighted.shape
    step = max(_QR_ROWS, p)
    starts = range(0, n - n % step if 0 < n % step < p else n, step)
    bounds = [(start, min(start + step, n)) for start in starts]
    bounds[-1] = (bounds[-1][0], n)  # a last part of fewer rows than columns joins the one before
    parts = list(ordered_map(lambda b: _qr(np.ascontiguousarray(weighted[:, b[0] : b[1]])), bounds))
    joint, T = _qr(np.concatenate([*(part[1].T for part in parts), bottom], axis=1))
    Q = np.empty((n + bottom.shape[1], p), order="F")

    def place(number: int) -> None:
        start, stop = bounds[number]
        Q[start:stop] = parts[number][0] @ joint[number * p : (number + 1) * p]

    for _ in ordered_map(place, range(len(bounds))):
        pass
    Q[n:] = joint[len(bounds) * p :]
    return Q, T
