"""L-BFGS: descent with a memory of the last steps (Liu and Nocedal 1989), for functions that cost about as much.

SciPy's routine is made for bounds; on small problems it takes as long as the functions that kompakt gives it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

Array = np.ndarray
Function = Callable[[Array], tuple[float, Array]]

#: a step must lower the value by this share of what the slope promises, and the slope to that share
_DECREASE, _SLOPE = 1e-3, 0.9
#: evaluations along one direction at most
_MOST_TRIALS = 20


def minimise_lbfgs(
    function: Function,
    start: Array,
    *,
    max_iter: int,
    memory: int = 20,
    rel_tol: float = 1e-9,
    grad_tol: float = 1e-5,
    callback: Callable[[Array], None] | None = None,
) -> int:
    """Descend from `start`; returns the number of iterations made.

    It ends after an iteration that lowers the value by less than `rel_tol` of it, or where no entry of the gradient
    is larger than `grad_tol`.  `callback` is called with the point of every iteration; either function may end the
    descent by raising an exception.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.lbfgs import minimise_lbfgs
    >>> points = []
    >>> minimise_lbfgs(lambda x: (x @ x, 2 * x), np.ones(2), max_iter=10, callback=points.append)
    2
    >>> points[-1]
    array([0., 0.])
    """
    x = start
    value, gradient = function(x)
    pairs = _Pairs(len(x), memory)
    for n_iter in range(max_iter):
        if not len(x) or np.max(np.abs(gradient)) <= grad_tol:
            return n_iter
        found = None
        direction = pairs.direction(gradient)
        slope = float(direction @ gradient)
        if slope < 0.0:
            step = 1.0 if pairs.count else min(1.0, 1.0 / float(np.linalg.norm(direction)))
            found = _search(function, x, value, slope, direction, step)
        if found is None and pairs.count:  # what was remembered misleads: once more along the gradient
            pairs.count = 0
            direction, slope = -gradient, -float(gradient @ gradient)
            found = _search(function, x, value, slope, direction, min(1.0, 1.0 / float(np.sqrt(-slope))))
        if found is None:
            return n_iter
        before, old_value, old_gradient = x, value, gradient
        x, value, gradient = found
        if callback is not None:
            callback(x)
        if old_value - value <= rel_tol * max(abs(old_value), abs(value), 1.0):
            return n_iter + 1
        pairs.add(x - before, gradient - old_gradient)
    return max_iter


class _Pairs:
    """Steps and changes of the gradient, at most `memory` of them, and the products that a direction needs."""

    def __init__(self, n: int, memory: int) -> None:
        self.steps, self.changes = np.empty((memory, n)), np.empty((memory, n))
        self.products, self.squares = np.empty((memory, memory)), np.empty((memory, memory))  # S Y', Y Y'
        self.count = 0

    def add(self, step: Array, change: Array) -> None:
        product, square = float(step @ change), float(change @ change)
        if product <= np.finfo(np.float64).eps * square:
            return  # no curvature along this step
        if self.count == len(self.steps):
            for rows in (self.steps, self.changes):
                rows[:-1] = rows[1:]
            for matrix in (self.products, self.squares):
                matrix[:-1, :-1] = matrix[1:, 1:]
            self.count -= 1
        k = self.count
        self.steps[k], self.changes[k] = step, change
        self.count = k + 1
        steps, changes = self.steps[: k + 1], self.changes[: k + 1]
        self.products[: k + 1, k], self.products[k, : k + 1] = steps @ change, changes @ step
        self.squares[: k + 1, k] = self.squares[k, : k + 1] = changes @ change

    def direction(self, gradient: Array) -> Array:
        """Minus the inverse Hessian times the gradient (Byrd, Nocedal and Schnabel 1994, theorem 2.2)."""
        k = self.count
        if not k:
            return -gradient
        S, Y = self.steps[:k], self.changes[:k]
        scale = self.products[k - 1, k - 1] / self.squares[k - 1, k - 1]
        upper = self.products[:k, :k]  # only its upper triangle is looked at
        along = lapack.dtrtrs(upper, S @ gradient)[0]
        inner = self.products[:k, :k].diagonal() * along + scale * (self.squares[:k, :k] @ along - Y @ gradient)
        weights = lapack.dtrtrs(upper, inner, trans=1)[0]
        return np.asarray(scale * (along @ Y - gradient) - weights @ S)


def _search(
    function: Function, x: Array, value: float, slope: float, direction: Array, step: float
) -> tuple[Array, float, Array] | None:
    """A point along the direction that fulfils the strong Wolfe conditions, or the lowest one found.

    Nocedal and Wright 2006, algorithms 3.5 and 3.6: `low` is the lowest point so far, and between it and `high` lies a
    minimum; cubic interpolation says where.  None where no step lowers the value.
    """
    low, high = (0.0, value, slope), None
    best: tuple[Array, float, Array] | None = None
    for _ in range(_MOST_TRIALS):
        point = x + step * direction
        here, gradient = function(point)
        along = float(gradient @ direction)
        if here > value + _DECREASE * step * slope or here >= low[1]:
            high = (step, here, along)
        else:
            best = (point, here, gradient)
            if abs(along) <= -_SLOPE * slope:
                return best
            if along * (1.0 if high is None else high[0] - low[0]) >= 0.0:
                high = low
            low = (step, here, along)
        if high is None:
            step *= 4.0
            continue
        width = high[0] - low[0]
        if abs(width) <= 1e-12 * max(low[0], high[0]):
            break
        step = low[0] + width * min(max(_cubic(low, high), 0.1), 0.9)
    return best


def _cubic(low: tuple[float, float, float], high: tuple[float, float, float]) -> float:
    """Where between two points, 0 to 1, the cubic with their values and slopes is lowest; 1/2 where it is not."""
    width = high[0] - low[0]
    a, b = low[2] * width, high[2] * width
    middle = a + b - 3.0 * (high[1] - low[1])
    root = middle * middle - a * b
    if not root >= 0.0:
        return 0.5
    bottom = b - a + 2.0 * np.sqrt(root)
    return float(1.0 - (b + np.sqrt(root) - middle) / bottom) if bottom > 0.0 else 0.5
