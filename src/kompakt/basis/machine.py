"""A machine that grows: its basis, weights, active rows, and the factors that are updated instead of rebuilt.

Features are whitened (R'R = K_JJ, Phi = K_J R^-1), so the regulariser of seed 001, eq. 4, is the identity and the
generalised Hessian of eq. 6 is H = P + C A' D A with A = [1, Phi], D the curvature of the losses and P the identity
(0 or 1 for the intercept).  The intercept comes first, so that new basis vectors border H at its end.  A row's features
are R'^-1 k(J, x): whatever scores ask of K_Jj for a candidate row j is already in row j of A.

Between retrainings the pieces of the losses that the rows lie on are held: slopes then change linearly with the
predictions, the objective is quadratic, and a new vector costs one bordered solve (section 6.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from kompakt.basis.blocks import RowBlocks, require_memory
from kompakt.basis.columns import KernelColumns
from kompakt.basis.hessian import bordered, weighted_gram
from kompakt.basis.line import minimise_along
from kompakt.data import ArrayRows
from kompakt.design import choose_block_rows
from kompakt.linalg import Factor, factorise, rank_one_changes
from kompakt.losses import LeastSquares, Loss
from kompakt.run import is_over
from kompakt.solve import Solution

Array = np.ndarray


@dataclass
class Work:
    """Multiply-adds by purpose: the cost that adaptive choices weigh.  Counted, not timed, so that the same seed gives
    the same basis on any machine and under any load.
    """

    scoring: float = 0.0
    training: float = 0.0


@dataclass(frozen=True)
class Snapshot:
    """Enough of a machine to hand it over as it was after a step."""

    n_basis: int
    theta: Array
    objective: Array


class GrowingMachine:
    """State of a growth: everything about the machine found so far.

    Parameters
    ----------
    columns : KernelColumns
        Access to kernel values of the rows; the rows hold targets (n, L).
    loss : Loss
        Piecewise quadratic.
    C : float
    weights : ndarray of shape (n,) or (n, L), optional
        Row weights; rows of weight 0 are followed but not trained on, which is how validation errors come for free.
    fit_intercept, penalize_intercept : bool
    capacity : int
        Number of basis vectors to reserve memory for.
    memory_budget : int, optional
        Bytes that the features may take; None means 1 GiB.
    """

    def __init__(
        self,
        columns: KernelColumns,
        loss: Loss,
        C: float,
        weights: Array | None = None,
        *,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        capacity: int = 100,
        memory_budget: int | None = None,
    ) -> None:
        rows = columns.rows
        assert rows.targets is not None
        if not loss.piecewise_quadratic:
            raise ValueError(
                f"growth needs a loss that is piecewise quadratic (squared_hinge, huber, least_squares); got {loss!r}."
            )
        self.columns_of, self.loss, self.C = columns, loss, float(C)
        self.first = int(fit_intercept)  # number of columns of A before the basis
        width = capacity + self.first
        require_memory(rows.n_rows, width, memory_budget)
        self.y = np.ascontiguousarray(rows.targets, dtype=np.float64)
        n, L = self.y.shape
        given = rows.weights if weights is None else weights
        self.s = np.ones((n, 1)) if given is None else np.asarray(given, dtype=np.float64).reshape(n, -1)
        self.all_s = self.s  # of all rows, where `s` is of the live ones
        self.live: Array | None = None  # row numbers that are followed; None: all
        self.A = np.empty((n, width))
        self.A[:, : self.first] = 1.0
        self.penalty = np.ones(width)
        self.penalty[: self.first] = float(penalize_intercept)
        self.blocks = RowBlocks(n, choose_block_rows(width))
        self.indices: list[int] = []
        self.taken: set[int] = set()
        self.R = np.zeros((capacity, capacity))
        self.theta = np.zeros((self.first, L))
        self.f = np.zeros((n, L))
        self.slopes = np.empty((n, L))
        self.curvatures = np.zeros((n, L))
        self.active = np.arange(n)
        shared = isinstance(loss, LeastSquares) and self.s.shape[1] == 1
        self.H = np.zeros((1 if shared else L, width, width))
        self.factors: list[Factor] = []
        self.noise = float(np.finfo(rows.dtype).eps)
        self.work = Work()
        self.n_iter = 0
        self.converged = True
        self.optimality = np.zeros(L)
        self._exact = not self.first  # whether theta minimises the held objective
        self._value: Array | None = None  # the objective, where it is known
        self._lifted = [False] * len(self.H)
        self._refresh()
        self.retrain()

    # -- shapes and small questions ------------------------------------------------------------------

    @property
    def n_basis(self) -> int:
        return len(self.indices)

    @property
    def width(self) -> int:
        """Columns of A in use."""
        return self.first + self.n_basis

    @property
    def n_outputs(self) -> int:
        return self.y.shape[1]

    @property
    def rows(self) -> ArrayRows:
        return self.columns_of.rows

    def positions(self, indices: Array) -> tuple[Array, Array]:
        """Places of rows among the live ones, and which of them are live."""
        indices = np.asarray(indices, dtype=np.intp)
        if self.live is None:
            return indices, np.ones(len(indices), dtype=bool)
        place = np.minimum(np.searchsorted(self.live, indices), len(self.live) - 1)
        return place, self.live[place] == indices

    def features(self, indices: Array) -> Array:
        """Whitened features of some rows, (k, m); rows that were shrunk away are computed anew."""
        place, known = self.positions(indices)
        Phi = self.A[place, self.first : self.width]
        if not known.all() and self.n_basis:
            missing = np.asarray(indices)[~known]
            raw = self.columns_of.pairs(missing, self.columns_of.vectors(np.array(self.indices)))
            Phi[~known] = solve_triangular(self.factor_R, raw.T, trans="T", check_finite=False).T
        return Phi

    @property
    def factor_R(self) -> Array:
        """R with R'R = K_JJ."""
        return self.R[: self.n_basis, : self.n_basis]

    def objective(self) -> Array:
        """1/2 |w|^2 + C sum of losses at the current weights, per output."""
        if self._value is None:
            p = self.penalty[: self.width]
            losses = np.sum(self.s * self.loss.value(self.y, self.f), axis=0)
            self._value = 0.5 * np.einsum("pl,p,pl->l", self.theta, p, self.theta) + self.C * losses
        return self._value

    # -- growing -------------------------------------------------------------------------------------

    def append(self, index: int, column: Array, diagonal: float) -> bool:
        """Add a row to the basis and solve the bordered system once, with the pieces of the losses held.

        `column` are the kernel values of the live rows, `diagonal` is k of the row with itself.  Returns whether the
        solution could be taken as it is; where it would raise the true objective it is shortened, and the machine must
        be retrained.
        """
        before = self.objective()
        m, p = self.n_basis, self.width
        phi = self.features(np.array([index]))[0]
        square = float(diagonal) - float(phi @ phi)
        pivot = float(np.sqrt(max(square, self.noise * (m + 1) * float(diagonal))))
        A, shared = self.A, len(self.H) == 1
        curvatures = self.curvatures[:, :1] if shared else self.curvatures

        def border(rows: slice) -> tuple[Array, ...]:
            old = A[rows, :p]
            new = (column[rows] - old[:, self.first :] @ phi) / pivot
            A[rows, p] = new
            weighted = curvatures[rows] * new[:, None]
            return old.T @ weighted, new @ weighted, new @ self.slopes[rows]

        sides, corners, gradient = self.blocks.total(border)
        self.R[:m, m], self.R[m, m] = phi, pivot
        self.indices.append(int(index))
        self.taken.add(int(index))
        self.work.training += 2.0 * len(A) * p * (1 + len(self.H))
        directions = np.empty((p + 1, self.n_outputs))
        for output in range(len(self.H)):
            side, corner = self.C * sides[:, output], self.C * float(corners[output]) + 1.0
            H = self.H[output]
            H[:p, p] = H[p, :p] = side
            H[p, p] = corner
            self.factors[output], last = bordered(self.factors[output], side, corner)
            # the gradient of the held objective is zero in the old coordinates: a solve with e_p times its last entry
            which = slice(None) if shared else slice(output, output + 1)
            directions[:, which] = -last[:, None] * (self.C * gradient[which])
        self.theta = np.concatenate([self.theta, np.zeros((1, self.n_outputs))])
        start = self.theta, self.f.copy()
        self._move(directions)
        poor = self.objective() > before
        if poor.any():
            self._shorten(start, directions, poor)
        return self._exact

    def _move(self, step: Array) -> None:
        """theta += step, with predictions and held slopes."""
        p = self.width
        self.theta = self.theta + step
        self._value = None

        def one(rows: slice) -> None:
            change = self.A[rows, :p] @ step
            self.f[rows] += change
            self.slopes[rows] += self.curvatures[rows] * change

        self.blocks.each(one)
        self.work.training += len(self.A) * p * step.shape[1]

    def retrain(
        self, tol: float = 1e-5, max_iter: int = 200, deadline: float | None = None, thorough: bool = False
    ) -> None:
        """Newton's method to the optimum for the current basis (seed 001, section 2.1).

        A full step after which no row changed its piece ended at the minimiser; `thorough` still checks the gradient.
        """
        p = self.width
        penalty = self.penalty[:p, None]
        for iteration in range(max_iter + 1):
            changed = self._refresh()
            if not changed and self._exact and not thorough:
                self.converged = True
                return
            gradient = penalty * self.theta + self.C * self._transposed(self.slopes)
            scale = np.linalg.norm(self.theta, axis=0) + self.C * np.sum(np.abs(self.slopes), axis=0)
            self.optimality = np.linalg.norm(gradient, axis=0) / np.maximum(scale, np.finfo(float).tiny)
            step = np.empty_like(gradient)
            for output in range(self.n_outputs):
                factor = self.factors[0 if len(self.H) == 1 else output]
                step[:, output] = -factor.solve(gradient[:, output])
            # nothing is left to gain beyond rounding, even where rows sit on a kink to the last bit
            settled = -np.sum(gradient * step, axis=0) <= 4e-16 * np.abs(self.objective())
            self.converged = bool(np.all((self.optimality <= tol) | settled))
            if self.converged or iteration == max_iter or is_over(deadline):
                self._exact = self.converged
                return
            self._searched(step, gradient)
            self.n_iter += 1

    def _searched(self, step: Array, gradient: Array) -> None:
        """Take the step, or where it does not lower the objective enough, its best multiple (step 4 of the method)."""
        before = self.objective()
        theta, f = self.theta, self.f.copy()
        self._move(step)
        slope = np.sum(gradient * step, axis=0)
        poor = self.objective() > before + 1e-4 * slope + 1e-14 * np.abs(before)
        self._exact = not poor.any()
        if not self._exact:
            self._shorten((theta, f), step, poor)

    def _shorten(self, start: tuple[Array, Array], step: Array, poor: Array) -> None:
        """Go back to `start`; take the best multiple of the step for the outputs `poor`, all of it for the others."""
        theta, f = start
        change = (self.f - f).T[:, None]
        penalised = self.penalty[: self.width, None] * step
        t, _ = minimise_along(
            self.loss, self.y.T, f.T, np.broadcast_to(self.s, self.y.shape).T, change,
            np.sum(penalised * theta, axis=0)[:, None], np.sum(penalised * step, axis=0)[:, None] + 1e-300,
            self.C, tol=1e-10,
        )  # fmt: skip
        lengths = np.where(poor, t[:, 0], 1.0)
        self.theta = theta + lengths * step
        self.f = f + lengths * change[:, 0].T
        self._value, self._exact = None, False

    def stale_gain(self) -> float:
        """What one Newton step would gain now, g' H^-1 g / 2: it comes from rows that left their held piece alone."""
        p = self.width
        moved = self.s * self.loss.gradient(self.y, self.f) - self.slopes
        rows = np.flatnonzero(np.any(np.abs(moved) > 1e-12, axis=1))
        gradient = self.C * (self.A[rows, :p].T @ moved[rows])
        gain = 0.0
        for output in range(self.n_outputs):
            half = self.factors[0 if len(self.H) == 1 else output].solve_transposed(gradient[:, output])
            gain += 0.5 * float(half @ half)
        return gain

    def _transposed(self, values: Array) -> Array:
        """A' values, (width, L)."""
        p = self.width
        self.work.training += len(self.A) * p * values.shape[1]
        return self.blocks.total(lambda rows: (self.A[rows, :p].T @ values[rows],))[0]

    def _refresh(self) -> int:
        """Slopes and curvatures at the current predictions; returns how many rows changed their piece."""
        self.slopes = self.s * self.loss.gradient(self.y, self.f)
        fresh = np.broadcast_to(self.s * self.loss.curvature(self.y, self.f), self.y.shape)
        total = 0
        for output in range(len(self.H)):
            change = fresh[:, output] - self.curvatures[:, output]
            rows = np.flatnonzero(change)
            total += len(rows)
            if len(rows) or len(self.factors) <= output:
                self._change_hessian(output, rows, change[rows], fresh[:, output])
        if total or len(self.curvatures) != len(fresh):
            self.curvatures = np.array(fresh)
            used = np.any((self.slopes != 0) | (self.curvatures != 0), axis=1)
            place = np.flatnonzero(used)
            self.active = place if self.live is None else self.live[place]
        return total

    def _change_hessian(self, output: int, rows: Array, change: Array, fresh: Array) -> None:
        """H after the curvature of some rows changed, and its factor: by rank-one changes while these are cheaper."""
        p = self.width
        H = self.H[output, :p, :p]
        n_active = int(np.count_nonzero(fresh))
        if len(rows) > 0.7 * n_active:
            H[...] = np.diag(self.penalty[:p]) + self.C * self._gram(np.flatnonzero(fresh), fresh[fresh != 0])
        else:
            H += self.C * self._gram(rows, change)
        if len(self.factors) > output and len(rows) <= p // 8 and not self._lifted[output]:
            scaled = self.A[rows, :p] * np.sqrt(self.C * np.abs(change))[:, None]
            updated = rank_one_changes(self.factors[output], scaled[change > 0], scaled[change < 0])
            self.work.training += 2.0 * len(rows) * p * p
            if updated is not None:
                self.factors[output] = updated
                return
        matrix = H
        mass = self.C * float(np.sum(self.s[:, min(output, self.s.shape[1] - 1)]))
        self._lifted[output] = bool(self.first and H[0, 0] < 1e-3 * mass)
        if self._lifted[output]:
            # Hardly a row has curvature, so the intercept has none: move it as if every loss were quadratic.
            matrix = H.copy()
            matrix[0, 0] += mass
        factor = factorise(matrix, what="Hessian")
        self.work.training += p**3 / 3
        if len(self.factors) > output:
            self.factors[output] = factor
        else:
            self.factors.append(factor)

    def _gram(self, rows: Array, weights: Array) -> Array:
        """A' diag(weights) A over some rows."""
        p = self.width
        self.work.training += len(rows) * p * p / 2
        return weighted_gram(self.A[:, :p], rows, weights)

    # -- changing what was found ---------------------------------------------------------------------

    def set_weights(self, weights: Array) -> None:
        """Other weights of all rows, as when validation rows join the training at the end."""
        self.all_s = np.asarray(weights, dtype=np.float64).reshape(self.rows.n_rows, -1)
        self.s = self.all_s if self.live is None else self.all_s[self.live]
        self.rebuild()

    def forget_value(self) -> None:
        """The objective is to be computed anew: rows were left out."""
        self._value = None

    def truncate(self, n_basis: int) -> None:
        """Keep only the first basis vectors; call `retrain` afterwards."""
        self.taken -= set(self.indices[n_basis:])
        del self.indices[n_basis:]
        self.theta = self.theta[: self.width].copy()
        self.rebuild()

    def rebuild(self) -> None:
        """Predictions, Hessians and factors from A and theta."""
        p = self.width
        self.blocks = RowBlocks(len(self.A), choose_block_rows(self.A.shape[1]))
        self.f = np.empty_like(self.y)

        def one(rows: slice) -> None:
            self.f[rows] = self.A[rows, :p] @ self.theta

        self.blocks.each(one)
        self.H[:, :p, :p] = np.diag(self.penalty[:p])
        self.factors = []
        self.curvatures = np.zeros_like(self.y)
        self._exact, self._value = False, None
        self._refresh()

    def snapshot(self) -> Snapshot:
        """The machine as it is: columns of A and R never change once they are there, so a few numbers are enough."""
        return Snapshot(self.n_basis, self.theta.copy(), self.objective())

    def back_to(self, last: Snapshot) -> None:
        """Be what the snapshot says, for `solution` only: growth broke off at an unknown place and cannot go on."""
        del self.indices[last.n_basis :]
        self.theta, self._value = last.theta, last.objective
        self.converged = False

    def solution(self) -> Solution:
        """Weights of the basis vectors, intercept, and how they were found."""
        L = self.n_outputs
        w = self.theta[self.first :]
        beta = solve_triangular(self.factor_R, w, check_finite=False) if len(w) else w
        intercept = self.theta[0].copy() if self.first else np.zeros(L)
        jitter = max((factor.jitter for factor in self.factors), default=0.0)
        return Solution(
            weights=beta, intercept=intercept, coordinates=np.concatenate([w, intercept[None]]),
            objective=self.objective(), n_iter=self.n_iter, converged=self.converged,
            optimality=self.optimality, jitter=jitter,
        )  # fmt: skip
