"""The weights for a given basis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kompakt.solve import dense, kinks, newton
from kompakt.solve.problem import Array, Problem, Settings, Solution

__all__ = ["Problem", "Settings", "Solution", "solve"]


def solve(
    problem: Problem, start: Array | None = None, settings: Settings | None = None, outputs: Array | None = None
) -> Solution:
    """Weights that minimise the problem's objective, by the solver that fits its loss.

    `start` are coordinates to start from; `outputs` (n, L) those of a similar machine on the same rows, a better start
    where the basis has moved.

    Least squares in closed form, other piecewise quadratic losses by finite Newton, piecewise linear ones by rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.design import Design
    >>> from kompakt.kernels import Linear
    >>> from kompakt.losses import LeastSquares
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.solve import Problem, solve
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> design = Design(ArrayRows(X, targets=1.0 + 3.0 * X), Linear(), np.ones((1, 1)), whiten=True)
    >>> solution = solve(Problem(design, LeastSquares(), C=1e9))
    >>> solution.weights.round(3), solution.intercept.round(3)
    (array([[3.]]), array([1.]))
    """
    settings = settings or Settings()
    if outputs is not None and problem.loss.piecewise_quadratic and dense.is_small(problem):
        return dense.minimise_from(problem, outputs, settings)
    minimise: Callable[..., Solution]
    if problem.loss.quadratic:
        minimise = newton.minimise_squares
    elif problem.loss.piecewise_quadratic:
        minimise = partial(newton.minimise, outputs=outputs)
    else:
        minimise = kinks.minimise
    return settings.run.step("weights", lambda: minimise(problem, start, settings), Solution)
