"""Gram-space growing: greedy selection that needs one pass over the rows, whatever their number.

With the curvature of the losses held, training is weighted least squares, so forward selection among M candidates
needs only A = K_cc + C K'DK and r = C K'(D f - g) (Keerthi et al. 2006, eq. 5-6, for all candidates), not the n rows.
Both come from one pass.  Choosing m of M by the exact decrease of the objective (basis selection method 1 of Keerthi
et al., with its full re-fit) then costs O(M m^2): it is a pivoted Cholesky factorisation whose pivot is the candidate
with the largest r_j^2 / d_j.  The active set is then refreshed by an exact solve, candidates are drawn anew where the
residual is, and the selection repeated until the objective settles.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from kompakt.data import RowBlock, Rows, smallest_distinct, steady
from kompakt.design import Design, weighted_gram
from kompakt.heldout import require_counts
from kompakt.losses import Loss
from kompakt.run import Run
from kompakt.solve import Problem, Settings, solve
from kompakt.solve.problem import block_weights
from kompakt.spec import Basis, Data, Spec

Array = np.ndarray
#: share of a candidate's diagonal below which what is left of it is rounding: its score would depend on row order
_DEPENDENT = 1e-8
#: numbers in the matrices of a block above which blocks are longer
_MANY_SUMS = 1 << 23
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
    streams: ClassVar[bool] = True  # reads rows by passes, in bounded memory

    def __post_init__(self) -> None:
        require_counts(self, "n_candidates")

    def candidates_for(self, n_basis: int) -> int:
        """Number of candidates for a basis of this size."""
        if self.n_candidates is not None:
            return max(self.n_candidates, n_basis)
        return max(n_basis, min(2000, max(200, 4 * n_basis)))

    def rows_for(self, n_basis: int) -> int:
        """Number of rows that the passes read, at most."""
        n_candidates = self.candidates_for(n_basis)
        return self.max_rows or max(4 * n_candidates, int(1e10 / n_candidates**2))

    def select(self, data: Data, spec: Spec, n_basis: int, run: Run) -> Basis:
        """The chosen rows; `info` holds the objective of every round and the number of kernel evaluations."""
        kernel, n_candidates = spec.kernel, self.candidates_for(n_basis)
        rows, index, C = self._sample(data.rows, self.rows_for(n_basis), run.key, spec.C)
        hashes = rows.hashes(run.key + 1)
        spec = replace(spec, C=C)
        loss = spec.loss
        if loss.piecewise_linear:  # it has no curvature to select by
            width = 1.0
            if loss.for_regression:  # wide enough for most residuals of the first round, in whatever unit
                assert rows.targets is not None
                width = 2.0 * float(np.median(np.abs(rows.targets))) or 1.0
            loss = loss.rounded(width)
        # a round is repeated as a whole when a fit resumes: its solve is no step of its own
        settings = Settings(tol=1e-4, run=replace(run.unhurried(), checkpoint=None))
        best: tuple[float, Array] | None = None
        outputs = np.zeros((rows.n_rows, rows.n_outputs))
        record: list[dict[str, Any]] = []
        evaluations = 0
        place, first = run.progress("gram"), 0
        if place.last is not None:
            first, best, outputs, record, evaluations = place.last
        for round_number in run.tracked(range(first, self.n_rounds), "selection", self.n_rounds - first):
            candidates = smallest_distinct(hashes, n_candidates)
            if best is not None:
                assert rows.targets is not None
                pull = np.sum(np.abs(spec.loss.gradient(rows.targets, outputs)), axis=1)
                candidates = _draw(hashes, n_candidates, best[1], pull, round_number)
            design = Design(rows, kernel, kernel.take_basis(rows, candidates), store=False)
            flat = not outputs.any()
            shared = (flat or loss.quadratic) and rows.weight_columns <= 1
            # matrices of many candidates for many outputs: adding them up by blocks takes longer than the products
            many = len(candidates) ** 2 * (1 if shared else rows.n_outputs) > _MANY_SUMS
            block_rows = (4 if many else 1) * design.block_rows
            sums = design.map_reduce(partial(_gram_sums, loss, outputs, shared), block_rows)
            chosen = candidates[_forward(design, spec, sums, n_basis)]
            fitted = Design(rows, kernel, kernel.take_basis(rows, chosen), whiten=True)
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
        indices = index[best[1]]
        vectors = kernel.take_basis(data.rows, indices)  # of streamed rows, from the sample that was kept
        return Basis(indices, vectors, info={"rounds": record, "n_kernel_evals": evaluations})

    def _sample(self, rows: Rows, limit: int, key: int, C: float) -> tuple[Rows, Array, float]:
        """Rows that the passes read, their numbers, and the C by which they stand for all rows."""
        if rows.n_rows <= limit:
            everything = np.arange(rows.n_rows)
            return rows.subset(everything) if rows.streamed else rows, everything, C
        index = rows.smallest(key, limit)
        part = rows.subset(index)
        share = steady(rows.mass) / steady(part.mass)  # the same from a stream, which adds up its weights otherwise
        return part, index, C * share


def _draw(hashes: Array, count: int, chosen: Array, pull: Array, round_number: int) -> Array:
    """The chosen rows, and others where the residual is: `pull` is the size of each row's gradient."""
    # weighted sampling without replacement (exponential races), driven by the rows' own hashes
    uniform = (hashes >> np.uint64(11)).astype(np.float64) / 2.0**53 + 2.0**-54
    shuffled = np.mod(uniform * (2654435761.0 + round_number), 1.0) + 1e-12
    race = np.where(pull > 0, -np.log(shuffled) / np.maximum(pull, 1e-300), np.inf)
    order = np.argsort(race, kind="stable")
    _, first = np.unique(hashes[order], return_index=True)
    distinct = order[np.sort(first)]
    fresh = distinct[~np.isin(hashes[distinct], hashes[chosen])]
    return np.concatenate([chosen, fresh[: max(0, count - len(chosen))]])


def _forward(design: Design, spec: Spec, sums: tuple[Array, ...], n_basis: int) -> Array:
    """Positions of the chosen candidates, from the sums over the rows."""
    gram, product, mass, right, right_mass = (spec.C * total for total in sums)
    M = design.n_basis
    A = np.empty((len(gram), M + 1, M + 1))
    A[:, :M, :M] = design.kernel.gram(design.basis) + gram
    A[:, :M, M] = A[:, M, :M] = product.T
    A[:, M, M] = mass + (1.0 if spec.penalize_intercept else 0.0)
    r = np.concatenate([right, right_mass[None]]).T
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
    return (
        np.stack([weighted_gram(K, column) for column in d.T]),
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
