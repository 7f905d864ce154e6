"""Gram-space growing: greedy selection that needs one pass over the rows, whatever their number.

With the curvature of the losses held, training is weighted least squares, so forward selection among M candidates
needs only A = K_cc + C K'DK and r = C K'(D f - g) (Keerthi et al. 2006, eq. 5-6, for all candidates), not the n rows.
Both come from one pass.  Choosing m of M by the exact decrease of the objective (basis selection method 1 of seed
001, with its full re-fit) then costs O(M m^2): it is a pivoted Cholesky factorisation whose pivot is the candidate
with the largest r_j^2 / d_j.  The active set is then refreshed by an exact solve, candidates are drawn anew where the
residual is, and the selection repeated until the objective settles.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from kompakt.checkpoint import fingerprint
from kompakt.data import ArrayRows, RowBlock, smallest_distinct, steady
from kompakt.design import Design
from kompakt.losses import Loss, PiecewiseLinear
from kompakt.run import Run
from kompakt.solve import Problem, Settings, solve
from kompakt.solve.kinks import Rounded
from kompakt.solve.problem import block_weights
from kompakt.spec import Basis, Data, Spec
from kompakt.validation import require_counts

Array = np.ndarray
#: share of a candidate's diagonal below which what is left of it is rounding: its score would depend on row order
_DEPENDENT = 1e-8
logger = logging.getLogger("kompakt")


@dataclass(frozen=True)
class GramSelector:
    """Choose basis vectors among rows by exact forward selection in Gram space.

    Parameters
    ----------
    n_candidates : int, default=None
        Candidates M per round; None takes four per basis vector, between 200 and 2,000.
    n_rounds : int, default=2
        Rounds at most; a round that lowers the objective by less than `settle` is the last.
    max_rows : int, default=None
        Rows that the passes read, chosen by hash; None takes what makes a pass cost about 10^10 operations.
    settle : float, default=0.005

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt import GramSelector
    >>> GramSelector().candidates_for(100)
    400
    """

    n_candidates: int | None = None
    n_rounds: int = 2
    max_rows: int | None = None
    settle: float = 0.005
    cache: dict[Any, Any] | None = None  # sums of the first round by kernel: they do not depend on C
    streams: ClassVar[bool] = True  # reads rows by passes, in bounded memory

    def __post_init__(self) -> None:
        require_counts(self, "n_candidates")

    def candidates_for(self, n_basis: int) -> int:
        """Number of candidates for a basis of this size."""
        if self.n_candidates is not None:
            return max(self.n_candidates, n_basis)
        return max(n_basis, min(2000, max(200, 4 * n_basis)))

    def select(self, data: Data, spec: Spec, n_basis: int, run: Run) -> Basis:
        """The chosen rows; `info` holds the objective of every round and the number of kernel evaluations."""
        rows, kernel, loss = data.rows, spec.kernel, spec.loss
        n_candidates = self.candidates_for(n_basis)
        sample, cost = self._sample(rows, n_candidates, run.key, spec.C)
        hashes = sample.rows.hashes(run.key + 1)
        spec = replace(spec, C=cost)
        # a round is repeated as a whole when a fit resumes: its solve is no step of its own
        settings = Settings(tol=1e-4, run=replace(run.unhurried(), checkpoint=None))
        best: tuple[float, Array] | None = None
        outputs = np.zeros((sample.rows.n_rows, sample.rows.n_outputs))
        record: list[dict[str, Any]] = []
        evaluations = 0
        place, first = run.progress("gram"), 0
        if place.last is not None:
            first, best, outputs, record, evaluations = place.last
        for round_number in run.tracked(range(first, self.n_rounds), "selection", self.n_rounds - first):
            candidates = self._draw(sample.rows, hashes, n_candidates, best, outputs, loss, round_number)
            design = Design(sample.rows, kernel, kernel.take_basis(sample.rows, candidates), store=False)
            chosen = candidates[self._forward(design, spec, outputs, n_basis)]
            fitted = Design(sample.rows, kernel, kernel.take_basis(sample.rows, chosen), whiten=True)
            solution = solve(Problem.of(fitted, spec), None, settings)
            evaluations += design.n_kernel_evals + fitted.n_kernel_evals
            objective = float(np.sum(solution.objective))
            record.append({"round": round_number, "candidates": len(candidates), "objective": objective})
            logger.debug("gram round %d: %d candidates, objective %.6g", round_number, len(candidates), objective)
            settled = best is not None and objective > (1.0 - self.settle) * best[0]
            if best is None or objective < best[0]:
                best = (objective, chosen)
            if settled or run.late or len(candidates) <= n_basis:
                break
            if round_number + 1 < self.n_rounds:
                outputs = fitted.matvec(solution.coordinates[:-1]) + solution.intercept
                place.save((round_number + 1, best, outputs, record, evaluations))
        assert best is not None
        indices = sample.index[best[1]]
        return Basis(
            indices=indices,
            vectors=kernel.take_basis(rows, indices),  # of streamed rows, from the sample that was kept
            info={"rounds": record, "n_kernel_evals": evaluations},
        )

    def _forward(self, design: Design, spec: Spec, outputs: Array, n_basis: int) -> Array:
        first_round = not outputs.any()
        if self.cache is None or not first_round:
            return _forward_select(design, spec, _gram_of(design, spec.loss, outputs), n_basis)
        key = (fingerprint([design.kernel, spec.loss], own_code=id), design.n_basis)
        sums = self.cache.get(key)
        if sums is None:
            sums = self.cache[key] = _gram_of(design, spec.loss, outputs)
        return _forward_select(design, spec, sums, n_basis)

    def _sample(self, rows: ArrayRows, n_candidates: int, key: int, C: float) -> tuple[_Sample, float]:
        limit = self.max_rows or max(4 * n_candidates, int(1e10 / n_candidates**2))
        if rows.n_rows <= limit:
            everything = np.arange(rows.n_rows)
            return _Sample(rows.subset(everything) if rows.streamed else rows, everything), C
        index = rows.smallest(key, limit)
        part = rows.subset(index)
        share = steady(rows.mass) / steady(part.mass)  # the same from a stream, which adds up its weights otherwise
        return _Sample(part, index), C * share  # the sample stands for all rows

    def _draw(
        self,
        rows: ArrayRows,
        hashes: Array,
        count: int,
        best: tuple[float, Array] | None,
        outputs: Array,
        loss: Loss,
        round_number: int,
    ) -> Array:
        """Random rows first; later the chosen ones, rows where the residual is, and fresh random rows."""
        if best is None:
            return smallest_distinct(hashes, count)
        chosen = best[1]
        assert rows.targets is not None
        pull = np.sum(np.abs(loss.gradient(rows.targets, outputs)), axis=1)
        # weighted sampling without replacement (exponential races), driven by the rows' own hashes
        uniform = (hashes >> np.uint64(11)).astype(np.float64) / 2.0**53 + 2.0**-54
        shuffled = np.mod(uniform * (2654435761.0 + round_number), 1.0) + 1e-12
        race = np.where(pull > 0, -np.log(shuffled) / np.maximum(pull, 1e-300), np.inf)
        order = np.argsort(race, kind="stable")
        _, first = np.unique(hashes[order], return_index=True)
        distinct = order[np.sort(first)]
        fresh = distinct[~np.isin(hashes[distinct], hashes[chosen])]
        return np.concatenate([chosen, fresh[: max(0, count - len(chosen))]])


@dataclass(frozen=True)
class _Sample:
    rows: ArrayRows
    index: Array


def _gram_of(design: Design, loss: Loss, outputs: Array) -> tuple[Array, ...]:
    """The sums of one pass: K'DK, K'D, sum D, K'(D f - g) and sum (D f - g)."""
    if isinstance(loss, PiecewiseLinear):
        loss = Rounded(loss, 1.0)  # a piecewise linear loss has no curvature to select by
    flat = not outputs.any() or loss.name == "least_squares"
    shared = flat and design.rows.weight_columns <= 1
    return design.map_reduce(partial(_gram_sums, loss, outputs, shared))


def _forward_select(design: Design, spec: Spec, sums: tuple[Array, ...], n_basis: int) -> Array:
    """Positions of the chosen candidates, from the sums over the rows."""
    gram, product, mass, right, right_mass = sums
    K = design.kernel.gram(design.basis)
    C = spec.C
    M, L = len(K), right.shape[1]
    A = np.empty((len(gram), M + 1, M + 1))
    A[:, :M, :M] = K + C * gram
    A[:, :M, M] = A[:, M, :M] = C * product.T
    A[:, M, M] = C * mass + (1.0 if spec.penalize_intercept else 0.0)
    r = np.empty((L, M + 1))
    r[:, :M] = C * right.T
    r[:, M] = C * right_mass
    if not spec.fit_intercept:
        return forward_select(A[:, :M, :M], r[:, :M], n_basis)
    return forward_select(A, r, n_basis, first=M)


def _gram_sums(loss: Loss, outputs: Array, shared: bool, K: Array, block: RowBlock) -> tuple[Array, ...]:
    """K'DK, K'D, sum D, K'(D f - g), sum (D f - g) of a block; one Gram matrix if the curvature is shared."""
    assert block.targets is not None
    y, f = block.targets, outputs[block.start : block.stop]
    s = block_weights(block.weights, len(block), np.arange(y.shape[1]))
    d = s * loss.curvature(y, f)
    target = (d * f - s * loss.gradient(y, f)).astype(K.dtype, copy=False)
    if shared:
        d = d[:, :1]
    grams = []
    for column in d.T:
        active = np.flatnonzero(column)
        rows = K[active] if len(active) < len(column) else K
        root = np.sqrt(column[active]).astype(K.dtype)
        rows = rows * root[:, None] if np.any(root != 1.0) else rows
        grams.append(rows.T @ rows)
    return (
        np.stack(grams),
        K.T @ d.astype(K.dtype, copy=False),
        d.sum(axis=0),
        K.T @ target,
        target.sum(axis=0, dtype=np.float64),
    )


def forward_select(A: Array, r: Array, n_select: int, *, first: int | None = None) -> Array:
    """Greedy minimisation of sum_l (1/2 b'A_l b - r_l'b) over subsets, adding one variable at a time.

    Parameters
    ----------
    A : ndarray of shape (1 or L, M, M)
        One positive semidefinite matrix for all outputs, or one each.
    r : ndarray of shape (L, M)
    n_select : int
    first : int, optional
        A variable that is in from the start and not counted (the intercept).

    Returns
    -------
    ndarray of shape (at most n_select,)
        The variables in the order of choice.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.gram import forward_select
    >>> forward_select(np.eye(3)[None], np.array([[1.0, 3.0, 2.0]]), 2)
    array([1, 2])
    """
    n_matrices, M = A.shape[:2]
    scale = np.einsum("lmm->lm", A)
    diagonal = scale.copy()
    residual = r.astype(np.float64).copy()
    steps = min(n_select + (first is not None), M)
    L = np.zeros((n_matrices, steps, M))  # rows of the growing factors
    free = np.ones(M, dtype=bool)
    chosen: list[int] = []
    for step in range(steps):
        usable = free & np.all(diagonal > _DEPENDENT * np.maximum(scale, 1e-300), axis=0)
        if step == 0 and first is not None:
            pivot = first
            if not np.all(diagonal[:, pivot] > 0):
                free[pivot] = False
                continue
        else:
            if first is not None:
                usable[first] = False
            if not usable.any():
                break
            gains = np.sum(residual**2 / np.where(usable, diagonal, 1.0), axis=0)
            pivot = int(np.argmax(np.where(usable, gains, -1.0)))
            chosen.append(pivot)
        free[pivot] = False
        root = np.sqrt(diagonal[:, pivot])
        column = A[:, pivot] - np.einsum("ls,lsm->lm", L[:, :step, pivot], L[:, :step])
        column /= root[:, None]
        L[:, step] = column
        diagonal -= column**2
        residual -= column * (residual[:, pivot] / root)[:, None]
    return np.array(chosen, dtype=np.intp)
