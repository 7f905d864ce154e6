"""Least squares in closed form (seed 002, eq. 7), in whitened coordinates, with one step of refinement.

The first pass sums the normal equations, the second the gradient at their solution: its correction removes what the
normal equations lost, and its norm is the proof of optimality.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from kompakt.solve import newton
from kompakt.solve.problem import Array, Problem, Settings, Solution, block_weights, start_coordinates


def minimise(problem: Problem, start: Array | None = None, settings: Settings | None = None) -> Solution:
    """The minimiser for the least-squares loss; `start` is not needed and ignored."""
    theta = start_coordinates(problem, None)
    outputs = np.arange(problem.n_outputs)
    eps = float(np.finfo(problem.design.block_dtype).eps)
    sums = newton.run_pass(problem, theta, None, outputs, None)
    step, jitter = newton.newton_step(problem, theta, sums)
    theta = theta + step
    for _ in range(3):
        losses, gradient, magnitude, apart = problem.design.map_reduce(partial(_residual_sums, theta))
        at = newton.Sums(
            losses=problem.C * losses[None],
            gradient=problem.C * gradient,
            magnitude=problem.C * magnitude,
            hessian=sums.hessian,
            changed=0.0,
            active=sums.active,
        )
        optimality = newton.relative_gradient(problem, theta, at)
        # residuals that are all rounding have no direction left; targets are measured from the intercept, since those
        # far from zero would hide what is left of them in single precision
        optimality = np.where(_norm(problem, theta, at) <= 100 * eps * problem.C * apart, 0.0, optimality)
        objective = newton.penalised(problem, theta, at.losses[0])
        coordinates = theta
        if np.all(optimality <= 1e-13):
            break
        theta = theta + newton.newton_step(problem, theta, at)[0]
    tol = max(1e-6, 1e3 * eps)
    return Solution(
        weights=problem.design.to_weights(coordinates[:-1]),
        intercept=coordinates[-1].copy(),
        coordinates=coordinates,
        objective=objective,
        n_iter=1,
        converged=bool(np.all(optimality <= tol)),
        optimality=optimality,
        jitter=max(jitter, problem.design.jitter),
    )


def _norm(problem: Problem, theta: Array, at: newton.Sums) -> Array:
    gradient = problem.penalty[:, None] * theta + at.gradient
    return np.linalg.norm(gradient if problem.fit_intercept else gradient[:-1], axis=0)


def _residual_sums(theta: Array, Phi: Array, block: newton.RowBlock) -> tuple[Array, ...]:
    assert block.targets is not None
    s = block_weights(block.weights, len(block), np.arange(theta.shape[1]))
    residual = newton.predict(Phi, theta) - block.targets
    slopes = s * residual
    gradient = np.concatenate([Phi.T @ slopes.astype(Phi.dtype, copy=False), np.sum(slopes, axis=0)[None]])
    apart = np.sum(np.abs(s * (block.targets - theta[-1])), axis=0)
    return 0.5 * np.sum(slopes * residual, axis=0), gradient, np.sum(np.abs(slopes), axis=0), apart
