"""Limited-memory BFGS that can be paused after every iteration and resumed.

SciPy's implementation runs to its end inside one call.  A race of several descents needs them side by side, iteration
by iteration, each with the curvature it has gathered so far.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray

#: pairs of steps and changes of the gradient that stand for the curvature
_MEMORY = 20
#: constants of the two conditions of Wolfe
_DECREASE, _CURVATURE = 1e-4, 0.9
#: evaluations in one line search at most, and the relative decrease of one iteration that ends a descent
_MOST_EVALUATIONS, _LEAST_DECREASE = 25, 1e-9


class LBFGS:
    """Minimise a smooth function by limited-memory BFGS (Liu and Nocedal 1989), one iteration for every `step`.

    The line search brackets a point that meets the weak conditions of Wolfe, as that of Lewis and Overton (2013), with
    parabolas instead of halves where a step was too long; steps to points without a finite value are halved.

    Parameters
    ----------
    function : callable
        Gives value and gradient of a point.
    start : ndarray of shape (p,)

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.solve.lbfgs import LBFGS
    >>> solver = LBFGS(lambda x: (float(np.sum((x - 1) ** 4)), 4 * (x - 1) ** 3), np.zeros(2))
    >>> while solver.step():
    ...     pass
    >>> bool(solver.value < 1e-6)
    True
    """

    def __init__(self, function: Callable[[Array], tuple[float, Array]], start: Array) -> None:
        self.function, self.x = function, start
        self.value, self.gradient = np.inf, np.zeros(len(start))
        self.pairs: list[tuple[Array, Array]] = []
        self.n_iter, self.finished = 0, False

    def begin(self) -> None:
        """Evaluate the start, if it was not."""
        if not np.isfinite(self.value):
            self.value, self.gradient = self._evaluated(self.x)
            self.finished = not np.isfinite(self.value)

    def step(self) -> bool:
        """Make one iteration; False where the descent is finished, and no step was made."""
        self.begin()
        if self.finished:
            return False
        direction = self._direction()
        slope = float(direction @ self.gradient)
        if not slope < 0:  # the pairs do not belong to this point any more
            self.pairs, direction = [], -self.gradient
            slope = -float(self.gradient @ self.gradient)
        moved = self._searched(direction, slope) if slope < 0 else None
        if moved is None:
            self.finished = True
            return False
        x, value, gradient = moved
        step, change = x - self.x, gradient - self.gradient
        if float(change @ step) > 1e-12 * float(np.linalg.norm(change) * np.linalg.norm(step)):
            self.pairs = [*self.pairs[-_MEMORY + 1 :], (step, change)]
        self.finished = self.value - value <= _LEAST_DECREASE * max(abs(self.value), abs(value))
        self.x, self.value, self.gradient = x, value, gradient
        self.n_iter += 1
        return True

    def _direction(self) -> Array:
        """The quasi-Newton direction by two loops over the pairs."""
        direction = -self.gradient
        if not self.pairs:
            return direction * min(1.0, 1.0 / max(float(np.linalg.norm(direction)), 1e-300))
        shares = []
        for step, change in reversed(self.pairs):
            shares.append(float(step @ direction) / float(step @ change))
            direction = direction - shares[-1] * change
        step, change = self.pairs[-1]
        direction = direction * (float(step @ change) / float(change @ change))
        for (step, change), share in zip(self.pairs, reversed(shares), strict=True):
            direction = direction + (share - float(change @ direction) / float(step @ change)) * step
        return direction

    def _searched(self, direction: Array, slope: float) -> tuple[Array, float, Array] | None:
        """A point along the direction that meets both conditions; else the lowest one seen, if it is lower."""
        length, longest = 1.0, np.inf
        shortest, lowest_value, steepest = 0.0, self.value, slope  # the last point that decreased enough
        lowest: tuple[Array, float, Array] | None = None
        for _ in range(_MOST_EVALUATIONS):
            x = self.x + length * direction
            value, gradient = self._evaluated(x)
            if not value <= self.value + _DECREASE * length * slope:
                longest = length
                # the parabola through the last point and its slope, and the value here
                rise = value - lowest_value - steepest * (length - shortest)
                share = -steepest * (length - shortest) / (2 * rise) if 0 < rise < np.inf else 0.5
                length = shortest + min(max(share, 0.1), 0.5) * (length - shortest)
                continue
            lowest, along = (x, value, gradient), float(gradient @ direction)
            if along >= _CURVATURE * slope:
                break
            shortest, lowest_value, steepest = length, value, along
            length = 3 * length if not np.isfinite(longest) else (shortest + longest) / 2
        return lowest

    def _evaluated(self, x: Array) -> tuple[float, Array]:
        value, gradient = self.function(x)
        return (value, gradient) if np.isfinite(value) and np.all(np.isfinite(gradient)) else (np.inf, gradient)
