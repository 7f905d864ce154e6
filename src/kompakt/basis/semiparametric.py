"""The growing machine of seed 000: class means and rows as basis, any loss, held-out rows followed but not trained on.

Features are whitened (R'R = K_c, w = R beta) and kept as one contiguous line per coordinate, the intercept first; a
new vector appends a line.  A training row's features are R'^-1 k(J, x), so whatever is asked of k(J, x) for a candidate
row is already there.

Two trainers reach the same machine: Newton's method on the loss with narrowly rounded kinks (a few cheap steps from a
warm start), and the reweighted least squares of Table 1 (`solver="irwls"`), from the least-squares fit at every size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.linalg import lapack, solve_triangular

from kompakt.basis.blocks import RowBlocks, require_memory
from kompakt.basis.held import HeldFactor, held_quadratic, hold, table_weights
from kompakt.basis.rounded_pieces import compiled_newton, pieces, step_length
from kompakt.design import choose_block_rows
from kompakt.losses import Hinge, Loss, PiecewiseLinear

Array = np.ndarray

#: widths of the rounded kinks, as shares of the margin or of the targets' spread: cold start, then every step
_COLD = (2.0, 0.5, 0.1)
_WIDTH = 0.02
#: up to so many training rows, sums are single array operations
_SMALL = 8192
SOLVERS = ("newton", "irwls")


class KernelValues(Protocol):
    """Where kernel values come from, for training rows and held-out rows apart."""

    def of_rows(self, indices: Array) -> tuple[Array, Array]:
        """Training rows, given by their places, against all training rows (k, P) and held-out rows (k, H)."""
        ...

    def of_vectors(self) -> tuple[Array, Array, Array]:
        """The first vectors against training rows (m, P), held-out rows (m, H) and themselves (m, m)."""
        ...

    def diagonal(self, indices: Array) -> Array:
        """k(x, x) of training rows."""
        ...


@dataclass
class Work:
    """Multiply-adds and iterations, counted so that the cost can be checked."""

    scoring: float = 0.0
    factoring: float = 0.0
    training: float = 0.0
    n_iter: int = 0


@dataclass
class SemiparametricMachine:
    """State of a growth.

    Parameters
    ----------
    values : KernelValues
    y : ndarray of shape (L, P)
        Targets of the training rows.
    weights : ndarray of shape (1, P) or (L, P)
        Row weights.
    n_held : int
        Number of held-out rows.
    loss : Loss
    C : float
    capacity : int
        Basis vectors to reserve memory for.
    solver : {"newton", "irwls"}
    fit_intercept, penalize_intercept : bool
    noise : float
        Relative rounding error of the kernel values.
    memory_budget : int, optional
        Bytes for the features (None: 1 GiB).
    """

    values: KernelValues
    y: Array
    weights: Array
    n_held: int
    loss: Loss
    C: float
    capacity: int
    solver: str = "newton"
    fit_intercept: bool = True
    penalize_intercept: bool = False
    noise: float = float(np.finfo(np.float64).eps)
    memory_budget: int | None = None
    work: Work = field(default_factory=Work)

    def __post_init__(self) -> None:
        self.first = int(self.fit_intercept)
        L, P = self.y.shape
        width = self.capacity + self.first
        require_memory(P + self.n_held, width, self.memory_budget)
        self.cost = np.broadcast_to(self.C * self.weights, self.y.shape)
        self.A = np.empty((width, P))
        self.B = np.empty((width, self.n_held))
        self.A[: self.first] = 1.0
        self.B[: self.first] = 1.0
        self.penalty = np.ones(width)
        self.penalty[: self.first] = float(self.penalize_intercept)
        self.R = np.zeros((self.capacity, self.capacity))
        self.theta = np.zeros((L, width))
        self.f = np.zeros((L, P))
        self.indices: list[int] = []  # places of the rows in the basis
        self.n_vectors = 0  # first vectors in the basis
        self.used_vectors: list[int] = []
        self.blocks = RowBlocks(P, choose_block_rows(width))
        self.widths = _WIDTH * self._scales()
        self.scales = self.widths / _WIDTH
        self.cold = True
        self.converged = True
        self.factors: list[HeldFactor] = []

    # -- shapes --------------------------------------------------------------------------------------

    @property
    def n_basis(self) -> int:
        return self.n_vectors + len(self.indices)

    @property
    def width(self) -> int:
        """Lines of A in use."""
        return self.first + self.n_basis

    @property
    def n_outputs(self) -> int:
        return len(self.y)

    @property
    def held_out(self) -> Array:
        """Predictions of the held-out rows, (L, H)."""
        return self.theta[:, : self.width] @ self.B[: self.width]

    # -- growing -------------------------------------------------------------------------------------

    def append_vectors(self) -> None:
        """Put the first vectors into the basis; one that lies in the span of those before it is left out."""
        train, held, gram = self.values.of_vectors()
        for number in range(len(gram)):
            if self.n_basis == self.capacity:
                break
            known = self.used_vectors
            side = gram[known, number]
            phi = solve_triangular(self.factor_R, side, trans="T", check_finite=False) if len(known) else side
            square = float(gram[number, number]) - float(phi @ phi)
            if square <= self.noise * (self.n_basis + 1) * float(gram[number, number]):
                continue
            self._append(train[number], held[number], phi, float(np.sqrt(square)))
            self.used_vectors.append(number)
            self.n_vectors += 1

    def append_row(self, index: int, column: Array | None = None) -> None:
        """Add a training row to the basis, with its whitened column if that is known: (P + H,)."""
        phi = self.A[self.first : self.width, index].copy()
        if column is None:
            columns, squares = self.whitened(np.array([index]))
            column, square = columns[0], float(squares[0])
        else:
            square = float(self.values.diagonal(np.array([index]))[0]) - float(phi @ phi)
        P, p, m = self.y.shape[1], self.width, self.n_basis
        self.A[p], self.B[p] = column[:P], column[P:]
        self.R[:m, m], self.R[m, m] = phi, np.sqrt(max(square, np.finfo(float).tiny))
        self.indices.append(int(index))

    def _append(self, train: Array, held: Array, phi: Array, pivot: float) -> None:
        p, m = self.width, self.n_basis
        self.A[p] = (train - phi @ self.A[self.first : p]) / pivot
        self.B[p] = (held - phi @ self.B[self.first : p]) / pivot
        self.R[:m, m], self.R[m, m] = phi, pivot

    @property
    def factor_R(self) -> Array:
        """R with R'R = K_c."""
        return self.R[: self.n_basis, : self.n_basis]

    def whitened(self, indices: Array) -> tuple[Array, Array]:
        """New features that training rows would add, (k, P + H), and squared distances from the span, (k,).

        The distance is 0 where only rounding is left of it: such a row equals a basis vector or a combination of them.
        """
        train, held = self.values.of_rows(indices)
        basis = slice(self.first, self.width)
        phi = self.A[basis, indices].T
        diagonal = self.values.diagonal(indices)
        squares = diagonal - np.einsum("km,km->k", phi, phi)
        squares = np.where(squares > self.noise * (self.n_basis + 1) * diagonal, squares, 0.0)
        columns = np.concatenate([train - phi @ self.A[basis], held - phi @ self.B[basis]], axis=1)
        columns /= np.sqrt(np.where(squares > 0.0, squares, 1.0))[:, None]
        self.work.scoring += columns.size * (self.n_basis + 1.0)
        return columns, squares

    # -- training ------------------------------------------------------------------------------------

    def train(self, max_iter: int = 20, tol: float = 1e-4) -> None:
        """Weights for the present basis; at most `max_iter` steps per output."""
        self.converged = True
        self.factors = []
        for output in range(self.n_outputs):
            if self.solver == "irwls" and isinstance(self.loss, PiecewiseLinear):
                self._reweight(output, max_iter)
            else:
                self._newton(output, max_iter, tol)
        self.cold = False

    def hold(self) -> list[HeldFactor]:
        """The factors of the held problem, one per output; kept until the next training."""
        if not self.factors:
            p = self.width
            for output in range(self.n_outputs):
                y, f, cost = self.y[output], self.f[output], self.cost[output]
                a, z = held_quadratic(self.loss, float(self.widths[output]), y, f, cost)
                self._factor(a, z)
                if not len(self.factors[-1].rows):
                    break
            self.work.factoring += 4.0 * sum(len(factor.rows) for factor in self.factors) * p * p
        return self.factors

    def support(self) -> Array:
        """Whether a training row has a positive weight in some output, (P,)."""
        mask = np.zeros(self.y.shape[1], dtype=bool)
        for output in range(self.n_outputs):
            if self.factors:
                mask[self.factors[output].rows] = True
            else:
                y, f, cost = self.y[output], self.f[output], self.cost[output]
                mask |= held_quadratic(self.loss, float(self.widths[output]), y, f, cost)[0] > 0.0
        return mask

    def _factor(self, a: Array, z: Array) -> HeldFactor:
        p = self.width
        self.factors.append(hold(self.A[:p], self.penalty[:p], a, z))
        return self.factors[-1]

    def _reweight(self, output: int, max_iter: int) -> None:
        """Table 1, step 1: from a = 1, solve and reweight until the weights beta settle."""
        p = self.width
        y, cost = self.y[output], self.cost[output]
        a, z = np.where(cost > 0.0, 1.0, 0.0), y
        before = np.full(p, np.inf)
        for _ in range(max_iter):
            factor = hold(self.A[:p], self.penalty[:p], a, z)
            theta = factor.theta
            beta = self._beta(theta)
            self.work.n_iter += 1
            self.theta[output, :p], self.f[output] = theta, theta @ self.A[:p]
            if np.linalg.norm(beta - before) < 1e-5:
                break
            before = beta
            a, z = table_weights(self.loss, y, self.f[output], cost)
            if not np.any(a > 0.0):
                break
        else:
            self.converged = False
        # the factor of the weights that produced the machine, as eq. (10) asks
        self.factors.append(factor)

    def _newton(self, output: int, max_iter: int, tol: float) -> None:
        p, scale = self.width, float(self.scales[output])
        width = float(self.widths[output])
        if not isinstance(self.loss, PiecewiseLinear):
            stages = [width]
        else:
            stages = [*(scale * share for share in _COLD), width] if self.cold else [width]
        left = max(max_iter, len(stages))
        for number, stage in enumerate(stages):
            last = number == len(stages) - 1
            n_iter, settled = self._newton_at(output, stage, left if last else max(1, left // 3), tol)
            left = max(1, left - n_iter)
        self.converged = self.converged and settled
        self.work.training += len(self.A[0]) * p * 2.0

    def _newton_at(self, output: int, width: float, max_iter: int, tol: float) -> tuple[int, bool]:
        """Newton's method at one width; returns steps taken and whether the machine settled."""
        p = self.width
        y, cost = self.y[output], np.ascontiguousarray(self.cost[output])
        compiled = compiled_newton() if isinstance(self.loss, Hinge) and self.y.shape[1] <= _SMALL else None
        if compiled is not None:
            theta, f = self.theta[output, :p].copy(), self.f[output]
            done, status = compiled(self.A[:p], y, cost, self.penalty[:p], theta, f, width, max_iter, tol)
            self.theta[output, :p] = theta
            self.work.n_iter += done
            if status >= 0 or done == max_iter:
                return done, status == 1
            max_iter -= done
        penalty = self.penalty[:p]
        theta, f = self.theta[output, :p].copy(), self.f[output]
        value, slope, curvature = pieces(self.loss, y, f, cost, width)
        objective = value + 0.5 * float(penalty @ (theta * theta))
        settled, n_iter = False, 0
        while n_iter < max_iter:
            gradient = penalty * theta + self._times(slope)
            step = self._direction(output, f, gradient, curvature, theta)
            descent = float(gradient @ step)
            if -descent <= tol * tol * abs(objective):
                settled = True
                break
            change = self._along(step)
            t = 1.0
            while True:
                f_new = f + t * change
                value, slope, curvature = pieces(self.loss, y, f_new, cost, width)
                moved = theta + t * step
                reached = value + 0.5 * float(penalty @ (moved * moved))
                # asked the other way round: what is not a number must end the loop too
                if not reached > objective + 1e-4 * t * descent + 1e-14 * abs(objective) or not t >= 1e-6:
                    break
                bend = float(penalty @ (step * step))
                t *= 0.4 if t < 1.0 else step_length(self.loss, y, f, cost, change, width, bend, descent)
            theta, f, gain = moved, f_new, objective - reached
            objective = reached
            n_iter += 1
            if gain <= tol * tol * abs(objective):
                settled = True
                break
        self.work.n_iter += n_iter
        self.theta[output, :p], self.f[output] = theta, f
        return n_iter, settled

    def _direction(self, output: int, f: Array, gradient: Array, curvature: Array, theta: Array) -> Array:
        """Newton's step; the step of reweighted least squares where no row has curvature for the intercept."""
        p = self.width
        rows = np.flatnonzero(curvature)
        if not len(rows) and self.first and not self.penalize_intercept:
            y, cost = self.y[output], self.cost[output]
            a, z = held_quadratic(self.loss, float(self.widths[output]), y, f, cost)
            if np.any(a > 0.0):
                return hold(self.A[:p], self.penalty[:p], a, z).theta - theta
        H = self._gram(rows, curvature)
        H[np.arange(p), np.arange(p)] += self.penalty[:p]
        if self.first:
            H[0, 0] += 1e-12 * (1.0 + float(np.max(curvature, initial=0.0)))
        factor, info = lapack.dpotrf(H, lower=1, overwrite_a=1)
        if info:  # rounding of sums of widely different sizes
            H = self._gram(rows, curvature)
            H[np.arange(p), np.arange(p)] += self.penalty[:p] + 1e-12 * float(np.trace(H))
            factor, info = lapack.dpotrf(H, lower=1, overwrite_a=1)
        return -lapack.dpotrs(factor, gradient, lower=1)[0]

    def _gram(self, rows: Array, curvature: Array) -> Array:
        p = self.width
        if self.y.shape[1] <= _SMALL:
            active = self.A[:p, rows]
            return (active * curvature[rows]) @ active.T

        def part(block: slice) -> tuple[Array, ...]:
            here = np.flatnonzero(curvature[block]) + block.start
            active = self.A[:p, here]
            return ((active * curvature[here]) @ active.T,)

        return self.blocks.total(part)[0]

    def _times(self, values: Array) -> Array:
        p = self.width
        if self.y.shape[1] <= _SMALL:
            return self.A[:p] @ values
        return self.blocks.total(lambda block: (self.A[:p, block] @ values[block],))[0]

    def _along(self, step: Array) -> Array:
        p = self.width
        if self.y.shape[1] <= _SMALL:
            return step @ self.A[:p]
        change = np.empty(self.y.shape[1])

        def part(block: slice) -> None:
            change[block] = step @ self.A[:p, block]

        self.blocks.each(part)
        return change

    def _beta(self, theta: Array) -> Array:
        """Weights of the basis vectors behind the intercept, for coordinates theta."""
        w = theta[self.first :]
        beta = solve_triangular(self.factor_R, w, check_finite=False) if len(w) else w
        return np.concatenate([theta[: self.first], beta])

    def _scales(self) -> Array:
        """What a width is a share of: the margin, or the targets' spread."""
        if self.loss.for_classes and not self.loss.for_regression:
            return np.ones(self.n_outputs)
        mass = np.broadcast_to(self.weights, self.y.shape)
        mean = np.sum(mass * self.y, axis=1) / np.sum(mass, axis=1)
        spread = np.sqrt(np.sum(mass * (self.y - mean[:, None]) ** 2, axis=1) / np.sum(mass, axis=1))
        return np.where(spread > 0.0, spread, 1.0)

    def snapshot(self) -> tuple[int, Array]:
        """Size and coordinates, to come back to."""
        return self.n_basis, self.theta[:, : self.width].copy()
