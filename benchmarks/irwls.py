"""Iteratively reweighted least squares for the hinge: Navia-Vazquez and Diaz-Morales 2010, Table 1, steps 1.0 to 1.5.

Each iteration is a weighted least-squares problem with a_i = C s_i / (1 - y_i f_i) for rows inside the margin and 0 for
the others (eq. 6 with C in place of the printed 2C; its fixed point is then the hinge machine).  It needs hundreds of
iterations for a few digits; `kompakt.solve.kinks` reaches the same point faster; tests compare the two.  The weights
a_i are what fast error estimation holds while it tries candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from kompakt.data import RowBlock
from kompakt.design import weighted_gram
from kompakt.linalg import factorise
from kompakt.losses import Hinge
from kompakt.solve import newton
from kompakt.solve.problem import Array, Problem, Settings, Solution, block_weights, start_coordinates

#: largest weight, the M of step 1.4: rows within C/M of the margin have it
_LARGEST_WEIGHT = 1e9


@dataclass(frozen=True)
class ReweightedSolution(Solution):
    """A solution with the weights a_i (n, L) of its last least-squares problem."""

    row_weights: Array | None = None


def row_weights(C: float, s: Array, y: Array, f: Array) -> Array:
    """a_i = C s_i / (1 - y_i f_i) inside the margin, at most M = 1e9, and 0 outside (step 1.4; e_i y_i = 1 - y_i f_i).

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.irwls import row_weights
    >>> row_weights(2.0, np.ones(3), np.ones(3), np.array([0.5, 1.0, 3.0]))
    array([4.e+00, 1.e+09, 0.e+00])
    """
    shortfall = 1.0 - y * f
    inside = (shortfall >= 0.0) & (s > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(inside, np.minimum(C * s / shortfall, _LARGEST_WEIGHT), 0.0)


def minimise(problem: Problem, start: Array | None = None, settings: Settings | None = None) -> ReweightedSolution:
    """The hinge machine by reweighting; `tol` is the relative change of the coordinates at which it stops."""
    settings = settings or Settings(tol=1e-6, max_iter=500)
    if not isinstance(problem.loss, Hinge):
        raise TypeError(f"reweighted least squares is for the hinge loss; got {problem.loss!r}.")
    theta = start_coordinates(problem, start)
    n_iter, change = 0, np.inf
    fresh = start is None  # step 1.0: all weights are 1 in the first iteration
    while change > settings.tol and n_iter < settings.max_iter and not settings.run.late:
        n_iter += 1
        gram, product, mass, right, right_mass = problem.design.map_reduce(
            partial(_sums, problem.C, theta, fresh and n_iter == 1)
        )
        new = theta.copy()
        for output in range(problem.n_outputs):
            H = np.diag(problem.penalty)
            H[:-1, :-1] += gram[output]
            H[:-1, -1] = H[-1, :-1] = product[:, output]
            H[-1, -1] += mass[output]
            side = np.append(right[:, output], right_mass[output])
            if not problem.fit_intercept or H[-1, -1] <= 0:
                H[-1, :] = H[:, -1] = 0.0
                H[-1, -1], side[-1] = 1.0, theta[-1, output]  # no row says where the intercept belongs: it stays
            new[:, output] = factorise(H, what="weighted normal matrix").solve(side)
        change = float(np.linalg.norm(new - theta) / max(np.linalg.norm(new), np.finfo(float).tiny))
        theta = new
    losses = newton.run_losses(problem, theta, np.zeros_like(theta), np.arange(problem.n_outputs))[0]
    return ReweightedSolution(
        weights=problem.design.to_weights(theta[:-1]),
        intercept=theta[-1].copy(),
        coordinates=theta,
        objective=newton.penalised(problem, theta, losses),
        n_iter=n_iter,
        converged=change <= settings.tol,
        optimality=np.full(problem.n_outputs, change),
        jitter=problem.design.jitter,
        row_weights=_weights_of(problem, theta),
    )


def _sums(C: float, theta: Array, unit: bool, Phi: Array, block: RowBlock) -> tuple[Array, ...]:
    """Normal equations of eq. (9) on a block: Phi'A Phi, Phi'A, sum a, Phi'A y, sum a y (eq. 7: the sum, not a'a)."""
    assert block.targets is not None
    y = block.targets
    s = block_weights(block.weights, len(block), np.arange(y.shape[1]))
    a = np.broadcast_to(s, y.shape) if unit else row_weights(C, s, y, newton.predict(Phi, theta))
    grams = np.stack([weighted_gram(Phi, column) for column in a.T])
    return grams, Phi.T @ a, a.sum(axis=0), Phi.T @ (a * y), (a * y).sum(axis=0)


def _weights_of(problem: Problem, theta: Array) -> Array | None:
    rows = problem.design.rows
    if rows.targets is None:
        return None
    f = problem.design.matvec(theta[:-1]) + theta[-1]
    s = block_weights(rows.weights, len(f), np.arange(f.shape[1]))
    return row_weights(problem.C, s, rows.targets, f)
