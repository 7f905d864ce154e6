"""Weights from running sums: batches of rows that are seen once and then forgotten.

On a fixed basis every batch adds a quadratic function of the weights to the sums: for least squares its loss itself, so
that any number of batches give the weights of one fit to all rows; for the squared hinge its loss with the active rows
held as they were when the batch arrived (Keerthi et al. 2006, eq. 5), the weights are one Newton step.  Rows that would
have changed sides since then are not seen again: the result is close to a fit to all rows, not equal to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kompakt.solve import newton
from kompakt.solve.problem import Array, Problem, Solution


@dataclass(frozen=True)
class RunningSums:
    """The quadratic 1/2 theta' H theta - right' theta + constant per output: C times the losses of all batches.

    Attributes
    ----------
    hessian : ndarray of shape (1 or L, m + 1, m + 1)
    right : ndarray of shape (m + 1, L)
    constant, active, magnitude : ndarray of shape (L,)
        Of the losses; sum of the curvatures; size of the terms of the gradient at 0.
    """

    hessian: Array
    right: Array
    constant: Array
    active: Array
    magnitude: Array

    def __add__(self, batch: RunningSums) -> RunningSums:
        return RunningSums(
            self.hessian + batch.hessian,
            self.right + batch.right,
            self.constant + batch.constant,
            self.active + batch.active,
            self.magnitude + batch.magnitude,
        )

    def product(self, theta: Array) -> Array:
        """H theta, (m + 1, L)."""
        if len(self.hessian) == 1:
            return np.asarray(self.hessian[0] @ theta)
        return np.asarray(np.einsum("lpq,ql->pl", self.hessian, theta))


def batch_sums(problem: Problem, theta: Array | None) -> RunningSums:
    """The quadratic of one batch, expanded around `theta` (None: zero, which is exact for least squares)."""
    outputs = np.arange(problem.n_outputs)
    if theta is None:
        theta = np.zeros((problem.design.n_basis + 1, len(outputs)))
    at = newton.run_pass(problem, theta, None, outputs, None)
    blank = np.zeros(len(outputs))
    sums = RunningSums(at.hessian, np.zeros_like(theta), blank, at.active, at.magnitude)
    curved = sums.product(theta)
    constant = at.losses[0] - np.sum(at.gradient * theta, axis=0) + 0.5 * np.sum(theta * curved, axis=0)
    return replace(sums, right=curved - at.gradient, constant=constant)


def minimise_sums(problem: Problem, sums: RunningSums, n_steps: int) -> Solution:
    """The minimiser of penalty and sums; the design of `problem` gives the basis, its rows are not read.

    The second step corrects what the first lost in solving, as in iterative refinement.
    """
    theta = np.zeros_like(sums.right)
    jitter = 0.0
    for _ in range(2):
        at = newton.Sums(
            losses=np.zeros((1, theta.shape[1])),
            gradient=sums.product(theta) - sums.right,
            magnitude=sums.magnitude,
            hessian=sums.hessian,
            changed=0.0,
            active=sums.active,
        )
        step, jitter = newton.newton_step(problem, theta, at)
        theta = theta + step
    curved = sums.product(theta)
    losses = 0.5 * np.sum(theta * curved, axis=0) - np.sum(sums.right * theta, axis=0) + sums.constant
    gradient = problem.penalty[:, None] * theta + curved - sums.right
    if not problem.fit_intercept:
        gradient = gradient[:-1]
    scale = np.linalg.norm(theta[:-1], axis=0) + sums.magnitude
    return Solution(
        weights=problem.design.to_weights(theta[:-1]),
        intercept=theta[-1].copy(),
        coordinates=theta,
        objective=newton.penalised(problem, theta, losses),
        n_iter=n_steps,
        converged=True,
        optimality=np.linalg.norm(gradient, axis=0) / np.maximum(scale, np.finfo(float).tiny),
        jitter=max(jitter, problem.design.jitter),
    )
