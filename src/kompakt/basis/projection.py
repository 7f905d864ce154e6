"""Greedy projection (Franc and Hlavac 2003, algorithm 1): pivoted Cholesky of the kernel matrix from few of its values.

A row's representation error se(x) = k(x, x) - |gamma(x)|^2 is what the basis does not span of its image, where
gamma(x) = R'^-1 k_r(x) are its coordinates in the orthonormal basis F_r R^-1 (eq. 3; the paper's text says that
the columns of R are that basis).  Adding a vector appends one coordinate to every row, so errors are updated and never
recomputed: O(n m^2) instead of the paper's O(n m^3).

One vector at a time this is bound by memory: every step reads all coordinates for one product.  So vectors are chosen
in batches with the result of one at a time.  Errors only ever fall; hence, among the rows with the largest errors
(the pool), vectors may be chosen one by one on the pool's own small matrix for as long as the largest error in the
pool exceeds every error outside.  Rows drawn with probability proportional to se are chosen in batches too: proposals
drawn with the old errors are kept with probability new error / old error, which is the same distribution.

The coordinates take n m kernel values, the pools of candidates some more: with the largest errors 1.1 to 3 times n m
in all, with random draws 1.0 to 1.4 times; several times n m where the coordinates do not fit in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kompakt.data import ArrayRows, RowBlock, hash_rows, row_weights
from kompakt.design import choose_block_rows
from kompakt.kernels import Kernel, Precomputed
from kompakt.linalg import Factor, border
from kompakt.run import DEFAULT_BUDGET, Run
from kompakt.spec import Basis, Data, Spec

Array = np.ndarray

PIVOTS = ("max", "random")
FIRSTS = ("random", "norm")

_POOL = 512
_BATCH = 128  # vectors per update of all rows: enough for the products to run at full speed


@dataclass(frozen=True)
class ProjectionSelector:
    """Rows whose images span the images of all rows as well as possible.

    Parameters
    ----------
    max_error : float, default=0.0
        Stop when every row's error se(x) is below it.
    pivot : {"max", "random"}, default="max"
        Take the row with the largest error, or draw one with probability proportional to weight times error: the
        maximum keeps the worst row small and is drawn to outliers, the draw gives a smaller mean error.
    first : {"random", "norm"}, default="random"
        First vector: a random row (by keyed hash), or the one with the largest k(x, x).
    batch : int, default=None
        With ``pivot="max"``: choose this many vectors per step inside the pool of rows with the largest errors,
        without asking whether a row outside has overtaken.  None never does that: the result is that of one vector
        at a time.
    memory_budget : int, default=None
        Bytes for the coordinates of all rows (None: 1 GiB); beyond, they are recomputed from kernel values.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.basis import ProjectionSelector
    >>> from kompakt.run import Run
    >>> from kompakt.spec import Data, Spec
    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> chosen = ProjectionSelector().select(Data(ArrayRows(X)), Spec(RBF(1.0)), 2, Run())
    >>> sorted(chosen.indices // 2)
    [np.int64(0), np.int64(1)]
    """

    max_error: float = 0.0
    pivot: str = "max"
    first: str = "random"
    batch: int | None = None
    memory_budget: int | None = None

    def __post_init__(self) -> None:
        if self.pivot not in PIVOTS:
            raise ValueError(f"pivot must be one of {PIVOTS}; got {self.pivot!r}.")
        if self.first not in FIRSTS:
            raise ValueError(f"first must be one of {FIRSTS}; got {self.first!r}.")
        if not (np.isfinite(self.max_error) and self.max_error >= 0):
            raise ValueError(f"max_error must be a finite number >= 0; got {self.max_error!r}.")
        if self.batch is not None and self.batch < 1:
            raise ValueError(f"batch must be None or a whole number of at least 1; got {self.batch!r}.")

    def select(self, data: Data, spec: Spec, n_basis: int, run: Run) -> Basis:
        """At most `n_basis` rows; `scores` are their errors when they were chosen, `factor` is R."""
        return self.project(data.in_memory, spec.kernel, n_basis, run, keep_features=False).basis

    def project(
        self,
        rows: ArrayRows,
        kernel: Kernel,
        n_basis: int,
        run: Run,
        *,
        keep_features: bool = True,
        given: Array | None = None,
    ) -> Projection:
        """As `select`, with the coordinates of all rows and the errors of every size.

        `keep_features` stores the coordinates whatever the budget; `given` are row numbers that come first.
        """
        state = _State(rows, kernel, n_basis, self, run.key, keep_features)
        if given is not None and len(given):
            state.extend(np.asarray(given, dtype=np.intp))
        if not state.indices and self.first == "random" and len(state.usable):
            state.extend(state.usable[[np.argmin(state.hashes[state.usable])]])
        most = min(n_basis, rows.n_rows)
        with run.task("selection", most, work=float(most)) as step:
            while len(state.indices) < most and not state.finished():
                pivots = state.propose_max() if self.pivot == "max" else state.propose_random()
                if len(pivots):
                    state.extend(pivots)
                    step(float(len(pivots)))
        return state.result()


@dataclass(frozen=True)
class Projection:
    """A basis with what was computed on the way."""

    basis: Basis  # with R as its factor
    features: Array | None  # (n, m): the coordinates gamma of all rows
    errors: Array  # (n,): se of every row
    mse: Array  # (m,): weighted mean of se for 1, 2, ... vectors
    se_max: Array  # (m,): largest se for 1, 2, ... vectors
    n_rounds: int


class _State:
    """Errors of all rows, and the growing factor of the basis."""

    def __init__(
        self, rows: ArrayRows, kernel: Kernel, limit: int, rule: ProjectionSelector, key: int, keep: bool
    ) -> None:
        self.rows, self.kernel, self.limit, self.rule = rows, kernel, limit, rule
        self.errors = np.asarray(row_diagonal(rows, kernel), dtype=np.float64).copy()
        if not np.all(np.isfinite(self.errors)):
            raise ValueError("k(x, x) is not finite for some rows: scale the inputs, for example with StandardScaler.")
        self.weights = row_weights(rows)
        eps = float(np.finfo(rows.dtype).eps)
        scale = float(self.errors.max(initial=0.0))
        # below this an error is rounding: the row is spanned; the quantum is what two roundings of one error may differ
        self.noise, self.quantum = 4.0 * eps * max(limit, 16) * scale, max(64.0 * eps * scale, 1e-300)
        self.hashes = hash_rows(rows.X, key)
        self.usable = np.flatnonzero(self.errors > self.noise)
        self.order = np.argsort(self.hashes, kind="stable") if rule.pivot == "random" else None
        self.draws = np.random.default_rng([key, 1])
        width = np.result_type(rows.dtype, np.float32)
        budget = DEFAULT_BUDGET if rule.memory_budget is None else rule.memory_budget
        columns = min(limit, rows.n_rows)
        fits = rows.n_rows * columns * width.itemsize <= budget
        self.features = np.empty((rows.n_rows, columns), dtype=width) if keep or fits else None
        self.block_rows = choose_block_rows(max(_BATCH, rows.n_features))
        self.indices: list[int] = []
        self.basis: Array = np.zeros((0, 1))
        self.factor = Factor(np.zeros((0, 0)))
        self.inverse = np.zeros((0, 0))
        self.mse: list[float] = []
        self.se_max: list[float] = []
        self.n_kernel_evals = self.n_rounds = 0

    # -- choosing ------------------------------------------------------------------------------------

    def finished(self) -> bool:
        """Every row is represented: below the largest error that is allowed, or down to rounding."""
        largest = float(self.errors.max(initial=0.0))
        _require_finite(largest)
        return largest <= self.noise or largest < self.rule.max_error

    def _room(self) -> int:
        return min(self.limit, self.rows.n_rows) - len(self.indices)

    def propose_max(self) -> Array:
        """The next vectors in the order of one at a time: largest error first, equal ones by hash."""
        pool, bound = self._pool()
        room = min(self._room(), self.rule.batch or _BATCH)
        schur = self._schur(pool)
        floor = max(self.noise, np.nextafter(self.rule.max_error, -np.inf))
        chosen: list[int] = []
        left = np.diag(schur).copy()
        columns = np.empty((min(room, len(pool)), len(pool)))
        for step in range(len(columns)):
            levels = np.floor(left / self.quantum)
            top = np.flatnonzero(levels == levels.max())
            best = int(top[np.argmin(self.hashes[pool[top]])])
            if left[best] <= floor:
                break
            overtaken = (-levels[best], self.hashes[pool[best]]) > bound
            if step and self.rule.batch is None and overtaken:
                break
            column = schur[best] - columns[:step, best] @ columns[:step]
            column /= np.sqrt(left[best])
            columns[step] = column
            left = np.maximum(left - column * column, 0.0)
            left[best] = 0.0
            chosen.append(best)
        if not chosen:  # computed anew, the largest errors are rounding: these rows now rank below the others
            below = np.maximum(np.minimum(left, floor) - self.quantum, 0.0)
            self.errors[pool] = np.minimum(self.errors[pool], below)
        return pool[chosen]

    def _pool(self) -> tuple[Array, tuple[float, Any]]:
        """Rows with the largest errors, and the rank (level, hash) of the best row left out."""
        levels = np.floor(self.errors / self.quantum)
        # the pool's own kernel matrix is to cost little beside the columns that the new vectors need
        wanted = int(np.clip(0.3 * np.sqrt(len(levels) * min(self._room(), _BATCH)), 8, _POOL))
        size = min(len(levels), max(wanted, 4 * (self.rule.batch or 0)))
        if size == len(levels):
            return np.arange(size), (np.inf, 0)
        cut = np.partition(levels, len(levels) - size)[len(levels) - size]
        above = np.flatnonzero(levels > cut)
        equal = np.flatnonzero(levels == cut)
        equal = equal[np.argsort(self.hashes[equal], kind="stable")]
        pool = np.concatenate([above, equal[: size - len(above)]])
        rest = equal[size - len(above) :]
        if len(rest):
            return pool, (-cut, self.hashes[rest[0]])
        below = np.where(levels < cut, levels, -1.0)
        best = below.max()
        return pool, (-best, self.hashes[below == best].min())

    def propose_random(self) -> Array:
        """Proposals drawn with the current errors, thinned to the distribution of one at a time."""
        assert self.order is not None
        total = np.cumsum(np.where(self.errors > self.noise, self.errors * self.weights, 0.0)[self.order])
        # never by the number of rows: a row given twice and one of weight 2 must see the same draws
        count = min(_BATCH, max(8, self.limit - len(self.indices)))
        drawn = np.searchsorted(total, self.draws.random(count) * total[-1], side="right")
        drawn = self.order[np.minimum(drawn, len(total) - 1)]
        keep = self.draws.random(count)
        schur = self._schur(drawn)
        left = np.diag(schur).copy()
        chosen: list[int] = []
        columns = np.empty((count, count))
        for at in range(count):
            if left[at] <= self.noise:
                self.errors[drawn[at]] = min(self.errors[drawn[at]], left[at]) if not chosen else self.errors[drawn[at]]
                continue
            if keep[at] * self.errors[drawn[at]] >= left[at]:
                continue
            step = len(chosen)
            column = (schur[at] - columns[:step, at] @ columns[:step]) / np.sqrt(left[at])
            columns[step] = column
            left = left - column * column
            left[at] = 0.0
            chosen.append(at)
            if step + 1 == self._room():
                break
        return np.asarray(drawn[chosen])

    def _schur(self, index: Array) -> Array:
        """Kernel matrix of some rows less what the basis spans of it, in float64."""
        gram = self.kernel.gram(self.kernel.take_basis(self.rows, index))
        self.n_kernel_evals += len(index) ** 2
        m = len(self.indices)
        if m:
            if self.features is not None:
                Phi = self.features[index, :m].astype(np.float64)
            else:
                self.n_kernel_evals += len(index) * m
                X = self.rows.take(index).astype(np.float64, copy=False)
                Phi = self.kernel.block(X, self.basis) @ self.inverse
            gram = gram - Phi @ Phi.T
        _require_finite(gram)
        return gram

    # -- updating ------------------------------------------------------------------------------------

    def extend(self, pivots: Array) -> None:
        """Add vectors: border the factor, append their coordinates to all rows, lower the errors."""
        old, new = len(self.indices), len(pivots)
        self.n_rounds += 1
        vectors = self.kernel.take_basis(self.rows, pivots).astype(np.float64, copy=False)
        corner = self.kernel.gram(vectors)
        known = self.rows.take(np.array(self.indices, dtype=np.intp)).astype(np.float64, copy=False)
        cross = self.kernel.block(known, vectors) if old else np.zeros((0, new))
        self.n_kernel_evals += new * (old + new)
        self.factor = border(self.factor, np.asarray(cross, dtype=np.float64), corner, 1e-3 * self.noise)
        corner_inverse = Factor(np.ascontiguousarray(self.factor.R[old:, old:])).inverse()
        lift = -self.factor.R[:old, old:] @ corner_inverse
        self.inverse = np.block([[self.inverse, self.inverse @ lift], [np.zeros((new, old)), corner_inverse]])
        self.basis = np.concatenate([self.basis, vectors]) if old else vectors
        stored, dtype = self.features, np.result_type(self.rows.dtype, np.float32)
        small_vectors = vectors.astype(dtype) if not isinstance(self.kernel, Precomputed) else vectors
        columns = self.inverse[:, old:].astype(dtype)
        small_lift, small_corner = lift.astype(dtype), corner_inverse.astype(dtype)
        tops: list[Array] = []
        self.n_kernel_evals += self.rows.n_rows * (new if stored is not None else old + new)

        def one(block: RowBlock) -> tuple[Array]:
            part = slice(block.start, block.stop)
            if stored is None:
                phi = self.kernel.block(block.X, self.basis.astype(dtype, copy=False)) @ columns
            else:
                # gamma_new = (k_new - gamma_old R12) R22^-1: only the new columns of the kernel are needed
                phi = np.dot(self.kernel.block(block.X, small_vectors), small_corner)
                if old:
                    phi += np.dot(stored[part, :old], small_lift)
                stored[part, old : old + new] = phi
            left = np.cumsum(np.square(phi), axis=1, dtype=np.float64)
            np.subtract(self.errors[part, None], left, out=left)
            np.maximum(left, 0.0, out=left)
            self.errors[part] = left[:, -1]
            tops.append(left.max(axis=0))
            return (self.weights[part] @ left,)

        self.mse.extend(self.rows.map_reduce(one, self.block_rows)[0] / self.weights.sum())
        self.se_max.extend(np.max(tops, axis=0))
        self.errors[pivots] = 0.0
        self.indices.extend(int(pivot) for pivot in pivots)
        self.se_max[-1] = float(self.errors.max())

    def result(self) -> Projection:
        m = len(self.indices)
        indices = np.array(self.indices, dtype=np.intp)
        if not m:
            raise ValueError(
                "no row can be chosen: k(x, x) is zero for every row. Use a kernel that is positive on the rows."
            )
        basis = Basis(
            indices,
            self.kernel.take_basis(self.rows, indices),
            scores=np.square(np.diag(self.factor.R)),
            factor=self.factor.R,
            info={"mse": self.mse[-1], "se_max": self.se_max[-1], "n_kernel_evals": self.n_kernel_evals},
        )
        features = None if self.features is None else np.ascontiguousarray(self.features[:, :m])
        return Projection(basis, features, self.errors, np.array(self.mse), np.array(self.se_max), self.n_rounds)


def row_diagonal(rows: ArrayRows, kernel: Kernel) -> Array:
    """k(x, x) of every row, by blocks; a precomputed kernel has it on its diagonal."""
    if isinstance(kernel, Precomputed):
        if kernel.training is None:
            raise TypeError("greedy projection with kernel='precomputed' needs the square matrix of the training rows.")
        diagonal = np.asarray(kernel.training.diagonal(), dtype=np.float64)
        return diagonal if rows.numbers is None else diagonal[rows.numbers]  # rows may be some of those of the matrix
    return rows.collect(lambda block: kernel.diag(block.X), choose_block_rows(rows.n_features), np.empty(rows.n_rows))


def _require_finite(values: Any) -> None:
    """Refuse kernel values under which no error would ever fall, and the choice never end."""
    if not np.all(np.isfinite(values)):
        raise ValueError("the kernel is not finite for some pairs of rows: scale the inputs, or change the kernel.")
