"""The machine that grows: its features and factors, and what a new basis vector adds to them.

Features are whitened (R'R = K_JJ, Phi = R'^-1 K_J), so the regulariser of Keerthi, Chapelle, DeCoste 2006, eq. 4, is
the identity and the generalised Hessian of eq. 6 is H = P + A D A' with A = [1; Phi], D the curvatures of the losses
times C s and P the identity (0 or 1 for the intercept).  A has one line per coordinate, the intercept first; a new
basis vector appends a line and borders H.  Whatever is asked of k(J, x) for a candidate row is in its column of A.

Between retrainings the pieces of the losses that the rows lie on are kept: slopes then change linearly with the
predictions, the objective is quadratic, and a new vector costs one bordered solve (section 6.1).

There are L problems, one per output.  They share one basis, or, in a batch of machines, each has its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from kompakt.basis.columns import KernelColumns
from kompakt.design import choose_block_rows
from kompakt.linalg import Factor, border
from kompakt.run import DEFAULT_BUDGET
from kompakt.solve import Solution
from kompakt.solve.dense import DenseNewton, RowBlocks
from kompakt.spec import Spec

Array = np.ndarray

#: rows per block when rows that were left out are checked
_CHECKED_ROWS = 65_536


def require_memory(n_rows: int, width: int, memory_budget: int | None) -> None:
    """Refuse a growth whose features do not fit the budget."""
    budget = DEFAULT_BUDGET if memory_budget is None else memory_budget
    needed = 8 * n_rows * width
    if needed > budget:
        raise MemoryError(
            f"growing needs the features of all rows in memory: {n_rows} rows x {width} columns of float64 are "
            f"{needed / 2**20:.0f} MiB, but memory_budget allows {budget / 2**20:.0f} MiB. "
            "Raise memory_budget, lower n_basis, or use a one-shot selection (CompactSVC)."
        )


class Snapshot(NamedTuple):
    """A machine at one size: lines of A and R never change once they are there, so these are enough."""

    n_basis: int
    theta: Array  # (L, width)
    objective: Array  # (L,)


class GrowingMachine(DenseNewton):
    """State of a growth: everything about the machine found so far, or about a batch of machines of the same size.

    Parameters
    ----------
    columns : KernelColumns
        Kernel values of the rows, and their targets (n, L): of every output, or of every machine of a batch.
    spec : Spec
        Loss, piecewise quadratic, C and intercept.
    capacity : int
        Number of basis vectors to reserve memory for.
    weights : ndarray of shape (n,) or (n, L), optional
        In place of those of the rows; rows of weight 0 are followed but not trained on, which is how validation errors
        come for free.
    memory_budget : int, optional
        Bytes that the features may take; None means 1 GiB.
    batch : bool
        Whether every problem has a basis of its own; its kernel values are handed over.
    """

    def __init__(
        self,
        columns: KernelColumns,
        spec: Spec,
        capacity: int,
        weights: Array | None = None,
        memory_budget: int | None = None,
        batch: bool = False,
    ) -> None:
        rows = columns.rows
        assert rows.targets is not None
        self.columns, self.noise, self.C = columns, float(np.finfo(rows.dtype).eps), spec.C
        y = np.ascontiguousarray(rows.targets.T, dtype=np.float64)
        (L, n), first = y.shape, int(spec.fit_intercept)
        width = capacity + first
        if not batch:
            require_memory(n, width, memory_budget)
        row_weights = rows.weights if weights is None else weights
        cost = self._costs(np.ones(n) if row_weights is None else row_weights)  # (1 or L, n)
        A = np.empty((L if batch else 1, width, n))
        A[:, :first] = 1.0
        penalty = np.ones(width)
        penalty[:first] = float(spec.penalize_intercept)
        super().__init__(A, y, cost, penalty, spec.loss, first)
        self._all = y, cost  # of all rows, where `y` and `cost` are of the live ones
        self.live: Array | None = None  # row numbers that are followed; None: all
        self.indices: list[int] = []
        self.taken: set[int] = set()
        self.R = np.zeros((capacity, capacity))
        # multiply-adds, beside those of training: counted, not timed, so that the same key gives the same basis
        self.scoring = 0.0

    @classmethod
    def on_rows(
        cls,
        columns: KernelColumns,
        spec: Spec,
        capacity: int,
        weights: Array | None = None,
        memory_budget: int | None = None,
    ) -> GrowingMachine:
        """A machine whose intercept is trained."""
        machine = cls(columns, spec, capacity, weights, memory_budget)
        machine.retrain()
        return machine

    def _costs(self, weights: Array) -> Array:
        """C s for weights (n,) or (n, L), (1 or L, n)."""
        return self.C * np.ascontiguousarray(np.atleast_2d(np.asarray(weights, dtype=np.float64).T))

    # -- shapes and small questions ------------------------------------------------------------------

    @property
    def n_outputs(self) -> int:
        return len(self.y)

    @property
    def lines(self) -> Array:
        """Features of the live rows, the intercept first: (width, n)."""
        return self.A[0, : self.width]

    @property
    def factor_R(self) -> Array:
        """R with R'R = K_JJ."""
        return self.R[: self.n_basis, : self.n_basis]

    @property
    def active(self) -> Array:
        """Numbers of the rows whose loss has a slope or a curvature in some output."""
        if self._active is None:
            place = np.flatnonzero(np.any((self.slopes != 0) | (self.curvatures != 0), axis=0))
            self._active = place if self.live is None else self.live[place]
        return self._active

    def places(self, indices: Array) -> tuple[Array, Array]:
        """Places of rows among the live ones, and which of them are live."""
        indices = np.asarray(indices, dtype=np.intp)
        if self.live is None:
            return indices, np.ones(len(indices), dtype=bool)
        place = np.minimum(np.searchsorted(self.live, indices), len(self.live) - 1)
        return place, self.live[place] == indices

    def features(self, indices: Array) -> Array:
        """Whitened features of some rows, (k, m); those of rows that were left out are computed anew."""
        place, is_live = self.places(indices)
        Phi = self.A[0, self.first : self.width, place]
        if not is_live.all() and self.n_basis:
            basis = self.columns.vectors(np.array(self.indices))
            raw = self.columns.values(self.columns.some(np.asarray(indices)[~is_live]), basis)
            Phi[~is_live] = solve_triangular(self.factor_R, raw, trans="T", check_finite=False).T
        return Phi

    def distances(self, Phi: Array, diagonal: Array) -> Array:
        """Squared distances of rows from the span of the basis, d_j^2 of eq. 9; 0 where only rounding is left."""
        squares = diagonal - np.einsum("...m,...m->...", Phi, Phi)
        return np.where(squares > self.noise * (self.n_basis + 1) * diagonal, squares, 0.0)

    def whitened(self, columns: Array, Phi: Array, pivots: Array) -> Array:
        """The lines (k, n) that rows with these kernel values, features and distances would append to A."""
        lines, pivots = np.empty(columns.shape), pivots[:, None]

        def fill(rows: slice) -> None:
            lines[:, rows] = (columns[:, rows] - Phi @ self.A[0, self.first : self.width, rows]) / pivots

        self.blocks.each(fill)
        return lines

    # -- growing -------------------------------------------------------------------------------------

    def append(self, index: int, column: Array, diagonal: float) -> bool:
        """Add a row to the basis and solve the bordered system once, with the pieces of the losses kept.

        `column` are the kernel values of the live rows, `diagonal` is k of the row with itself.  Returns whether the
        solution could be taken as it is; where it would raise the true objective it is shortened, and the machine must
        be retrained.
        """
        before = self.objective()
        old, exact = [self.factor(problem) for problem in range(len(self.H))], self._exact.copy()
        self.join(index, column, diagonal)
        gradient = self.slopes @ self.A[0, self.width - 1]
        p, everything = self.width, np.arange(len(self.y))
        step = np.zeros((len(self.y), p))
        for h, factor in enumerate(old):
            # the last squared pivot is at least 1 in exact arithmetic: the new coordinate is penalised
            H = self.H[h, :p, :p]
            self.factors[h] = new = border(factor, H[:-1, -1:], H[-1:, -1:], noise=0.5)
            # the gradient with the pieces kept is zero in the old coordinates: a solve with e_p times its last entry
            last = solve_triangular(new.R, np.eye(p)[-1] / new.R[-1, -1], check_finite=False)
            which = slice(None) if len(old) < len(self.y) else slice(h, h + 1)
            step[which] = -gradient[which, None] * last
        theta, f = self.theta[:, :p].copy(), self.f.copy()
        self._move(everything, step)
        self._exact = exact
        poor = np.flatnonzero(self.objective() > before)
        if len(poor):
            self._shorten(everything, theta, f, step, poor)
        return bool(self._exact.all())

    def join(self, index: int, column: Array, diagonal: float) -> None:
        """Add a row to the basis with weight 0; see `append`."""
        phi = self.features(np.array([index]))
        square = float(diagonal) - float(phi[0] @ phi[0])
        pivot = np.sqrt(max(square, self.noise * (self.n_basis + 1) * float(diagonal)))
        self.border(column[None], phi, np.array([pivot]))
        self.indices.append(int(index))
        self.taken.add(int(index))

    def border(self, columns: Array, phi: Array, pivot: Array) -> None:
        """Append a line to A and border R and H: one column (n,), one row of features (m,) and one pivot per basis."""
        m, p, A, curvatures = self.n_basis, self.width, self.A, self.curvatures[: len(self.H)]

        def append_line(rows: slice) -> tuple[Array, ...]:
            new = (columns[:, rows] - np.matmul(phi[:, None], A[:, self.first : p, rows])[:, 0]) / pivot[:, None]
            A[:, p, rows] = new
            weighted, lines = curvatures[:, rows] * new, A[:, : p + 1, rows]
            return (weighted @ lines[0].T if len(A) == 1 else np.matmul(lines, weighted[:, :, None])[:, :, 0],)

        (sums,) = self.blocks.total(append_line)
        if len(A) == 1:
            self.R[:m, m], self.R[m, m] = phi[0], pivot[0]
        self.H[:, p, : p + 1] = self.H[:, : p + 1, p] = sums
        self.H[:, p, p] += 1.0
        self.factors = [None] * len(self.H)
        self.theta[:, p] = 0.0
        self._exact[:] = False
        self.n_basis += 1
        self.training += 2.0 * A.shape[2] * p * (1 + len(curvatures))

    def keep_machines(self, which: Array) -> None:
        """Go on with some machines of a batch."""
        self._all = self._all[0][which], self._all[1][which]
        for name in ("y", "cost", "A", "theta", "f", "slopes", "curvatures", "H", "optimality", "_exact"):
            setattr(self, name, getattr(self, name)[which])
        self.factors = [self.factors[i] for i in which]
        self.set_loss(self.loss.take_outputs(which))

    def stale_gain(self) -> float:
        """What one Newton step would gain now, g' H^-1 g / 2: it comes from rows that left their piece alone."""
        moved = self.cost * self.loss.gradient(self.y, self.f) - self.slopes
        rows = np.flatnonzero(np.any(np.abs(moved) > 1e-12 * self.C, axis=0))
        gradient = moved[:, rows] @ self.lines[:, rows].T
        halves = [self.factor(problem).solve_transposed(gradient[problem]) for problem in range(len(self.y))]
        return 0.5 * sum(float(half @ half) for half in halves)

    # -- changing what was found ---------------------------------------------------------------------

    def set_weights(self, weights: Array) -> None:
        """Other weights (n,) or (n, L) of all rows, as when validation rows join the training at the end."""
        self._all = self._all[0], self._costs(weights)
        self.cost = self._all[1] if self.live is None else np.take(self._all[1], self.live, axis=1)
        self.rebuild()

    def truncate(self, n_basis: int) -> None:
        """Keep only the first basis vectors; call `retrain` afterwards."""
        self.taken -= set(self.indices[n_basis:])
        del self.indices[n_basis:]
        self.n_basis = n_basis
        self.rebuild()

    def rebuild(self) -> None:
        """Predictions, Hessians and factors from A and theta."""
        n = self.A.shape[2]
        self.blocks = RowBlocks(n, choose_block_rows(self.A.shape[1]))
        self.f, self.slopes, self.curvatures = (np.zeros((len(self.y), n)) for _ in range(3))
        everything, theta = np.arange(len(self.y)), self.theta[:, : self.width].copy()
        self.theta[:] = 0.0
        self._move(everything, theta)
        self.H[:] = np.diag(self.penalty)
        self.factors = [None] * len(self.H)
        self._exact[:] = False
        self._refresh(everything)

    def shrink(self, keep: Array) -> None:
        """Follow only the live rows of the mask `keep` (section 3.4)."""
        numbers = np.arange(len(keep)) if self.live is None else self.live
        self.live = numbers[keep]
        for name in ("A", "y", "cost", "f", "slopes", "curvatures"):
            setattr(self, name, np.ascontiguousarray(getattr(self, name)[..., keep]))
        self.blocks = RowBlocks(len(self.live), choose_block_rows(self.A.shape[1]))
        self._terms = self._value = self._active = None
        self.columns.narrow(self.live)

    def restore(self) -> int:
        """Check the rows that were left out; bring back those whose loss has a slope.  Returns how many."""
        if self.live is None:
            return 0
        y, cost = self._all
        gone = np.setdiff1d(np.arange(y.shape[1]), self.live)
        theta = self.theta[:, : self.width]
        wrong = [np.empty(0, dtype=np.intp)]
        for start in range(0, len(gone), _CHECKED_ROWS):
            numbers = gone[start : start + _CHECKED_ROWS]
            f = theta[:, self.first :] @ self.features(numbers).T + np.sum(theta[:, : self.first], axis=1)[:, None]
            wrong.append(numbers[np.any(cost[:, numbers] * self.loss.gradient(y[:, numbers], f) != 0, axis=0)])
        back = np.concatenate(wrong)
        if len(back):
            A = np.ones((1, self.A.shape[1], len(back)))
            A[0, self.first : self.width] = self.features(back).T
            together = np.concatenate([self.live, back])
            order = np.argsort(together)
            self.live = together[order]
            self.A = np.take(np.concatenate([self.A, A], axis=2), order, axis=2)
            self.y, self.cost = np.take(y, self.live, axis=1), np.take(cost, self.live, axis=1)
            self.columns.narrow(self.live)
            self.rebuild()
        return len(back)

    # -- handing over --------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        return Snapshot(self.n_basis, self.theta[:, : self.width].copy(), self.objective())

    def back_to(self, last: Snapshot) -> None:
        """Be what the snapshot says, for `solution` only: growth broke off at an unknown place and cannot go on."""
        self.n_basis, theta, self._value = last
        self.theta[:, : self.width] = theta
        del self.indices[self.n_basis :]
        self.converged = False

    def solution(self, theta: Array | None = None) -> Solution:
        """Weights of the basis vectors, intercept, and how they were found; for other coordinates, those alone."""
        current = theta is None
        theta = self.theta[:, : self.width] if theta is None else theta
        w = theta[:, self.first :].T
        size = len(w)
        intercept = theta[:, 0].copy() if self.first else np.zeros(len(theta))
        nothing = np.full(len(theta), np.nan)
        return Solution(
            weights=solve_triangular(self.R[:size, :size], w, check_finite=False) if size else w,
            intercept=intercept,
            coordinates=np.concatenate([w, intercept[None]]),
            objective=self.objective() if current else nothing,
            n_iter=self.n_iter if current else max(1, self.n_iter),
            converged=current and self.converged,
            optimality=self.optimality if current else nothing,
            jitter=max((factor.jitter for factor in self.factors if factor is not None), default=0.0),
        )

    def state(self) -> dict[str, Any]:
        """Everything that growth has changed, as plain values and arrays; lines of A beyond the basis are left out."""
        return {name: getattr(self, name) for name in _KEPT} | {
            "taken": sorted(self.taken),
            "A": np.ascontiguousarray(self.lines),
            "factors": [None if factor is None else (factor.R, factor.jitter) for factor in self.factors],
            "n_evals": self.columns.n_evals,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Make a machine that has just been made what it was."""
        self._terms = None
        for name in _KEPT:
            setattr(self, name, state[name])
        if self.live is not None:
            self.y, self.cost = np.take(self.y, self.live, axis=1), np.take(self.cost, self.live, axis=1)
            self.A = np.empty((1, self.A.shape[1], len(self.live)))
            self.blocks = RowBlocks(len(self.live), choose_block_rows(self.A.shape[1]))
            self.columns.narrow(self.live)
        self.taken, self.A[0, : self.width] = set(state["taken"]), state["A"]
        self.factors = [None if stored is None else Factor(*stored) for stored in state["factors"]]
        self.columns.n_evals = state["n_evals"]


#: attributes that a checkpoint keeps as they are
_KEPT = (
    "n_basis", "indices", "live", "R", "H", "theta", "f", "slopes", "curvatures", "scoring", "training", "n_iter",
    "converged", "optimality", "_exact", "_value", "_active",
)  # fmt: skip
