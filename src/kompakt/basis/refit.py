"""Scores of basis selection method 1 (seed 001, section 3.1): the full re-fit, for all candidates side by side.

Candidate j adds the whitened feature psi_j = (k_j - Phi phi_j) / rho_j.  All candidates share the Hessian H of the
current machine: one Newton step of the bordered systems is a few matrix products, with one triangular solve for all of
them.  Further steps differ only in the rows that changed sides: each candidate's Hessian is H plus few outer products.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack, solve_triangular

from kompakt.basis.line import minimise_along
from kompakt.basis.machine import GrowingMachine
from kompakt.losses import LeastSquares

Array = np.ndarray

#: a candidate is done when another step promises less than this share of what it has gained
_ENOUGH = 1e-7
#: a candidate is out of the race when even so many times its promise would not bring it to the best
_SAFETY = 20.0
_MAX_STEPS = 30


def refit_gains(machine: GrowingMachine, columns: Array, Phi: Array, rho: Array, race: bool = False) -> Array:
    """Decrease of the objective by each candidate, all weights re-optimised, (k,).

    Parameters
    ----------
    machine : GrowingMachine
    columns : ndarray of shape (k, n)
        Kernel values of the live rows.
    Phi : ndarray of shape (k, m)
        Features of the candidate rows.
    rho : ndarray of shape (k,)
        Distances of the candidates from the span of the basis.
    race : bool
        Stop refining candidates that cannot become the best any more; their gains are then somewhat too low.  Only
        with one output, where a candidate's gain is known as it is refined.
    """
    psi = np.empty((len(machine.A), len(rho)))
    basis = slice(machine.first, machine.width)

    def whiten(rows: slice) -> None:
        psi[rows] = (columns[:, rows].T - machine.A[rows, basis] @ Phi.T) / rho

    machine.blocks.each(whiten)
    gains = np.zeros(len(rho))
    for output in range(machine.n_outputs):
        gains += _Refit(machine, psi, output).gains(race and machine.n_outputs == 1)
    return gains


class _Refit:
    """Newton's method for k bordered problems of one output; unknowns (p + 1, k), the new weight last."""

    def __init__(self, machine: GrowingMachine, psi: Array, output: int) -> None:
        self.machine, self.psi, self.output = machine, psi, output
        self.p = machine.width
        self.k = psi.shape[1]
        self.y = machine.y[:, output]
        self.s = machine.s[:, min(output, machine.s.shape[1] - 1)]
        self.H_index = min(output, len(machine.H) - 1)
        self.held = machine.curvatures[:, output]  # the curvature that the machine's Hessian was formed with
        self.penalty = np.append(machine.penalty[: self.p], 1.0)[:, None]
        self.theta = np.zeros((self.p + 1, self.k))
        self.theta[: self.p] = machine.theta[:, [output]]
        self.f = np.repeat(machine.f[:, [output]], self.k, axis=1)

    def gains(self, race: bool) -> Array:
        start = self._objective(self.theta, self.f)
        value = start.copy()
        left = np.arange(self.k)
        for step_number in range(_MAX_STEPS):
            gradient = self._gradient(left)
            if step_number == 0:
                self.sides, self.corners = self._borders(self.held, left)
            step = self._shared_step(gradient, left)
            promise = -0.5 * np.sum(gradient * step, axis=0)
            if race:
                kept = value[left] - _SAFETY * promise <= np.min(value)
                left, gradient = left[kept], gradient[:, kept]
            if step_number > 0:
                step = self._own_steps(gradient, left)
                promise = -0.5 * np.sum(gradient * step, axis=0)
            elif race:
                step, promise = step[:, kept], promise[kept]
            go = promise > _ENOUGH * np.maximum(start[left] - value[left], 1e-12 * np.abs(start[left]))
            left, step = left[go], step[:, go]
            if not len(left):
                break
            value[left] = self._advance(step, left)
            if isinstance(self.machine.loss, LeastSquares):
                break  # one step solves it
        return start - value

    def _of(self, values: Array, left: Array) -> Array:
        """The columns of the candidates `left`, without a copy when these are all."""
        return values if len(left) == self.k else values[:, left]

    def _objective(self, theta: Array, f: Array) -> Array:
        losses = self.machine.loss.value(self.y[:, None], f)
        return 0.5 * np.sum(self.penalty * theta * theta, axis=0) + self.machine.C * (self.s @ losses)

    def _gradient(self, left: Array) -> Array:
        """Gradient for the candidates `left`, (p + 1, len(left)), over blocks of rows."""
        machine, psi = self.machine, self.psi

        def one(rows: slice) -> tuple[Array, ...]:
            slopes = self.s[rows, None] * machine.loss.gradient(self.y[rows, None], self._of(self.f[rows], left))
            return machine.A[rows, : self.p].T @ slopes, np.einsum("ik,ik->k", self._of(psi[rows], left), slopes)

        old, new = machine.blocks.total(one)
        machine.work.scoring += len(psi) * self.p * len(left)
        return self.penalty * self.theta[:, left] + machine.C * np.concatenate([old, new[None]])

    def _borders(self, curvature: Array, left: Array) -> tuple[Array, Array]:
        """C A' D psi (p, k) and 1 + C psi' D psi (k,) for one curvature for all candidates."""
        machine = self.machine

        def one(rows: slice) -> tuple[Array, ...]:
            part = self._of(self.psi[rows], left)
            weighted = curvature[rows, None] * part
            return machine.A[rows, : self.p].T @ weighted, np.einsum("ik,ik->k", part, weighted)

        sides, corners = machine.blocks.total(one)
        machine.work.scoring += len(self.psi) * self.p * len(left)
        return machine.C * sides, 1.0 + machine.C * corners

    def _shared_step(self, gradient: Array, left: Array) -> Array:
        """Newton steps of the candidates from the machine's own factor (bordered, section 2.3)."""
        R = self.machine.factors[self.H_index].R
        corners = self.corners[left]
        if not self.p:
            return -gradient / corners
        sides = self._of(self.sides, left)
        half = solve_triangular(R, np.concatenate([sides, gradient[:-1]], axis=1), trans="T", check_finite=False)
        solved = solve_triangular(R, half, check_finite=False)
        V, g = solved[:, : len(left)], solved[:, len(left) :]
        schur = np.maximum(corners - np.sum(sides * V, axis=0), 1.0)
        last = -(gradient[-1] - np.sum(sides * g, axis=0)) / schur
        return np.concatenate([-g - V * last, last[None]])

    def _own_steps(self, gradient: Array, left: Array) -> Array:
        """Newton steps with every candidate's own active rows: the shared Hessian plus the rows that changed."""
        machine, p = self.machine, self.p
        step = np.empty_like(gradient)
        matrix = np.empty((p + 1, p + 1), order="F")
        for position, candidate in enumerate(left):
            now = self.s * machine.loss.curvature(self.y, self.f[:, candidate])
            change = machine.C * (now - self.held)
            rows = np.flatnonzero(change)
            A, new = machine.A[rows, :p], self.psi[rows, candidate]
            weighted = A * change[rows, None]
            matrix[:p, :p] = machine.H[self.H_index, :p, :p]
            matrix[:p, :p] += A.T @ weighted
            matrix[:p, p] = self.sides[:, candidate] + weighted.T @ new
            matrix[p, p] = self.corners[candidate] + (new * change[rows]) @ new
            factor, info = lapack.dpotrf(matrix, lower=0, clean=0)
            if info:
                step[:, position] = -gradient[:, position] / np.diag(matrix)
                continue
            step[:, position] = -lapack.dpotrs(factor, gradient[:, position], lower=0)[0]
            machine.work.scoring += p**3 / 6 + len(rows) * p * p
        return step

    def _advance(self, step: Array, left: Array) -> Array:
        """Move to the minimiser along each step; returns the objectives."""
        machine = self.machine
        change = np.empty((len(self.psi), len(left)))

        def one(rows: slice) -> None:
            change[rows] = machine.A[rows, : self.p] @ step[:-1] + self._of(self.psi[rows], left) * step[-1]

        machine.blocks.each(one)
        machine.work.scoring += len(self.psi) * self.p * len(left)
        theta, f = self.theta[:, left], self.f[:, left]
        value = self._objective(theta + step, f + change)
        before = self._objective(theta, f)
        lengths = np.ones(len(left))
        slope = np.sum(self.penalty * theta * step, axis=0)
        poor = np.flatnonzero(value > before)
        for position in poor:
            t, decrease = minimise_along(
                machine.loss, self.y[None], f[:, position][None], self.s[None], change[:, position][None, None],
                slope[[position]][None], np.sum(self.penalty * step**2, axis=0)[[position]][None], machine.C, tol=1e-9,
            )  # fmt: skip
            lengths[position] = t[0, 0]
            value[position] = before[position] - decrease[0, 0]
        self.theta[:, left] = theta + lengths * step
        self.f[:, left] = f + lengths * change
        return value
