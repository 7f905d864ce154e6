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
from scipy.linalg import lapack

from kompakt.data import ArrayRows, RowBlock, Rows, smallest_distinct, steady
from kompakt.design import Design, weighted_gram
from kompakt.heldout import require_counts
from kompakt.linalg import factorise
from kompakt.losses import Loss
from kompakt.run import Run
from kompakt.solve import Problem, Settings, solve
from kompakt.solve.problem import block_weights
from kompakt.spec import Basis, Data, Spec

Array = np.ndarray
#: what is left of a candidate is rounding below so many units of the last place per candidate
_ROUNDINGS = 10.0
#: gains that differ by less than this share are equal: which is larger would depend on the order of the rows
_TIE = 1e-7
#: share of a squared length below which downdating it has lost too many digits
_DIGITS_LOST = 1e-6
#: squared distances from the span of others, as shares of k(x, x): what features are made of, and what can be chosen
_FEATURES, _SPANNED = 1e-10, 1e-7
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
        rows = rows.in_float64()
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
            vectors = kernel.take_basis(rows, candidates)
            K = kernel.gram(vectors)
            scale = float(K.diagonal().max())
            pivots = spread_candidates(K, scale, _FEATURES * scale)
            design = Design(rows, kernel, vectors[pivots], whiten=True, store=False)
            flat = not outputs.any()
            shared = (flat or loss.quadratic) and rows.weight_columns <= 1
            # matrices of many candidates for many outputs: adding them up by blocks takes longer than the products
            many = design.n_basis**2 * (1 if shared else rows.n_outputs) > _MANY_SUMS
            block_rows = (4 if many else 1) * design.block_rows
            sums = design.map_reduce(partial(_gram_sums, loss, outputs, shared), block_rows)
            chosen = candidates[_forward(design, spec, K, pivots, sums, n_basis)]
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
        if len(best[1]) < min(n_basis, rows.n_rows):
            logger.warning("%d basis vectors are asked for, but there are %d distinct rows.", n_basis, len(best[1]))
        indices = index[best[1]]
        vectors = kernel.take_basis(data.rows, indices)  # of streamed rows, from the sample that was kept
        return Basis(indices, vectors, info={"rounds": record, "n_kernel_evals": evaluations})

    def _sample(self, rows: Rows, limit: int, key: int, C: float) -> tuple[ArrayRows, Array, float]:
        """Rows that the passes read, their numbers, and the C by which they stand for all rows."""
        if rows.n_rows <= limit:
            everything = np.arange(rows.n_rows)
            return rows if isinstance(rows, ArrayRows) else rows.subset(everything), everything, C
        index = rows.smallest(key, limit)
        part = rows.subset(index)
        share = steady(rows.mass) / steady(part.mass)  # the same from a stream, which adds up its weights otherwise
        return part, index, C * share


def _draw(hashes: Array, count: int, chosen: Array, pull: Array, round_number: int) -> Array:
    """The chosen rows, and others where the residual is: `pull` is the size of each row's gradient."""
    # weighted sampling without replacement (exponential races), driven by the rows' own hashes
    upper, lower, half = hashes >> np.uint64(32), hashes & np.uint64(0xFFFFFFFF), 2.0**-32
    turned = (upper * np.uint64(2654435761 + round_number)) & np.uint64(0xFFFFFFFF)
    shuffled = (turned + half * lower) * half + 1e-12  # by the upper half, which is the same in float32
    race = np.where(pull > 0, -np.log(shuffled) / np.maximum(pull, 1e-300), np.inf)
    order = np.argsort(race, kind="stable")
    _, first = np.unique(hashes[order], return_index=True)
    distinct = order[np.sort(first)]
    fresh = distinct[~np.isin(hashes[distinct], hashes[chosen])]
    return np.concatenate([chosen, fresh[: max(0, count - len(chosen))]])


def _forward(design: Design, spec: Spec, K: Array, pivots: Array, sums: tuple[Array, ...], n_basis: int) -> Array:
    """Positions of the chosen candidates, from the sums over the rows of the whitened features of the pivots."""
    scale = max(1.0, spec.C)  # of the objective, which may be divided by any number: C times a sum may overflow
    gram, product, mass, right, right_mass = (spec.C / scale * total for total in sums)
    p, intercept = design.n_basis, int(spec.fit_intercept)
    A = np.empty((len(gram), p + 1, p + 1))
    A[:, :p, :p] = np.eye(p) / scale + gram
    A[:, :p, p] = A[:, p, :p] = product.T
    A[:, p, p] = mass + (1.0 / scale if spec.penalize_intercept else 0.0)
    r = np.concatenate([right, right_mass[None]]).T
    # every candidate in the coordinates of the features; the intercept is the last
    assert design.factor is not None
    coordinates = np.zeros((p + intercept, K.shape[1] + intercept))
    coordinates[:p, : K.shape[1]] = design.factor.solve_transposed(K[pivots])
    if intercept:
        coordinates[p, -1] = 1.0
    A, r = A[:, : p + intercept, : p + intercept], r[:, : p + intercept]
    chosen = np.empty(0, dtype=np.intp)
    if np.isfinite(A).all() and np.isfinite(r).all():  # else curvatures overflow, and no decrease can be told
        chosen = _forward_columns(A, r, coordinates, n_basis, K.shape[1] if intercept else None, K)
    if len(chosen) < n_basis:  # what the others would add cannot be told: those that lie apart, whatever the rows say
        rest = np.setdiff1d(np.arange(K.shape[1]), chosen)
        spanned = factorise(K[np.ix_(chosen, chosen)]).solve_transposed(K[np.ix_(chosen, rest)])
        apart = spread_candidates(K[np.ix_(rest, rest)] - spanned.T @ spanned, float(K.diagonal().max()), 0.0)
        chosen = np.concatenate([chosen, rest[apart]])
        chosen = np.concatenate([chosen, np.setdiff1d(rest, chosen)])[:n_basis]
    return chosen


def _gram_sums(loss: Loss, outputs: Array, shared: bool, K: Array, block: RowBlock) -> tuple[Array, ...]:
    """K'DK, K'D, sum D, K'(D f - g), sum (D f - g) of a block; one Gram matrix if the curvature is shared."""
    assert block.targets is not None
    y, f = block.targets, outputs[block.start : block.stop]
    s = block_weights(block.weights, len(block), np.arange(y.shape[1]))
    d = s * loss.curvature(y, f)
    target = (d * f - s * loss.gradient(y, f)).astype(K.dtype, copy=False)
    if shared:
        d = d[:, :1]
    grams = [weighted_gram(K, column) for column in d.T]
    return (
        np.stack(grams) if len(grams) > 1 else grams[0][None],
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
    ndarray of shape (n_select,), or fewer where A has fewer variables
        The variables in the order of choice; those that depend on them to working precision come last, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.gram import forward_select
    >>> forward_select(np.eye(3)[None], np.array([[1.0, 3.0, 2.0]]), 2)
    array([1, 2])
    """
    M = A.shape[1]
    chosen = _forward_columns(A, r, np.eye(M), n_select, first)
    rest = np.setdiff1d(np.arange(M), chosen if first is None else np.append(chosen, first))
    return np.concatenate([chosen, rest])[:n_select]


def _rounding(M: int) -> float:
    """Share of numbers that are sums over M candidates below which what is left of them is rounding."""
    return _ROUNDINGS * M * float(np.finfo(np.float64).eps)


def _forward_columns(
    A: Array, r: Array, columns: Array, n_select: int, first: int | None, K: Array | None = None
) -> Array:
    """Columns S (p, M) chosen greedily to lower sum_l (1/2 w'A_l w - r_l'w) over w in their span.

    With A = LL' that is least squares in the columns B = L'S, and a column lowers it by half the square of what it adds
    to the projection of t = L^-1 r.  Each chosen column is made orthogonal to those before it, twice; the lengths of
    what is left of the others are downdated, and computed anew where digits were lost (Businger and Golub 1965).  So
    they are exact to the rounding of B, where Schur complements of S'AS would have the square of it.  A column of which
    no more is left than rounding, or than the jitter that A needed, is not chosen.  Nor is a candidate that lies in the
    span of the chosen ones by its kernel matrix K: there all candidates lower the objective alike, and rounding, which
    differs with the order of the rows, would choose.
    """
    M = columns.shape[1]
    factors = [factorise(matrix, relative=True, what="normal matrix of the candidates") for matrix in A]
    B = np.stack([factor.R @ columns for factor in factors])
    each = factors * len(r) if len(factors) == 1 else factors  # outputs share a matrix, or have their own
    t = np.stack([factor.solve_transposed(right) for factor, right in zip(each, r, strict=True)])
    t = t[None] if len(factors) == 1 else t[:, None]  # (matrices, outputs of each, p)
    left = np.einsum("lpm,lpm->lm", B, B)  # squared lengths of what is left of the columns
    noise = max(_rounding(M) ** 2, _ROUNDINGS * max(factor.jitter for factor in factors))
    whole, exact = left.copy(), left.copy()
    slopes, G = t @ B, B.swapaxes(1, 2) @ B
    steps = min(n_select + (first is not None), M)
    # the chosen columns, made orthonormal, and the products of all columns with them
    Q, products = np.zeros((len(B), steps, B.shape[1])), np.zeros((len(B), steps, M))
    free = np.ones(M, dtype=bool)
    K = np.eye(M) if K is None else K
    squares, spanned = np.full(M, np.inf), np.zeros((steps, len(K)))
    squares[: len(K)] = K.diagonal()  # distances from the span of the chosen ones
    floor = _SPANNED * float(K.diagonal().max())
    chosen: list[int] = []
    for step in range(steps):
        if step == 0 and first is not None:
            pivot = first
        else:
            usable = free & np.all(left > noise * np.maximum(whole, 1e-300), axis=0) & (squares > floor)
            if not usable.any():
                break
            gains = np.sum(np.square(slopes) / np.where(usable, left, 1.0)[:, None], axis=(0, 1))
            gains = np.where(usable, gains, -1.0)
            pivot = int(np.flatnonzero(gains >= (1.0 - _TIE) * gains.max())[0])  # of equal ones the first
            line = (K[pivot] - spanned[:step, pivot] @ spanned[:step]) / np.sqrt(squares[pivot])
            spanned[step], squares[: len(K)] = line, squares[: len(K)] - np.square(line)
            chosen.append(pivot)
        q = B[:, :, pivot][:, None]
        for _ in range(2):
            q = q - (q @ Q[:, :step].swapaxes(1, 2)) @ Q[:, :step]
        length = np.maximum(np.linalg.norm(q, axis=2), 1e-300)
        q /= length[:, None]
        Q[:, step] = q[:, 0]
        share = t @ q.swapaxes(1, 2)
        t = t - share * q
        if np.all(left[:, free] > _DIGITS_LOST * whole[:, free]):  # from the products before: fewer numbers to read
            before = products[:, :step, pivot][:, None] @ products[:, :step]
            products[:, step] = (G[:, pivot] - before[:, 0]) / length
            slopes = slopes - share * products[:, step][:, None]
        else:
            products[:, step], slopes = (q @ B)[:, 0], t @ B
        free[pivot] = False
        left = left - np.square(products[:, step])
        lost = np.flatnonzero(free & np.any(left < _DIGITS_LOST * exact, axis=0))
        if len(lost):
            rest = B[:, :, lost]
            rest = rest - Q[:, : step + 1].swapaxes(1, 2) @ (Q[:, : step + 1] @ rest)
            left[:, lost] = exact[:, lost] = np.einsum("lpm,lpm->lm", rest, rest)
    return np.array(chosen, dtype=np.intp)


def spread_candidates(K: Array, scale: float, tol: float) -> Array:
    """Candidates in the order in which each is the least explained by those before, while more than `tol` is left."""
    tol = max(tol, _rounding(len(K)) * scale)
    _, pivots, rank, _ = lapack.dpstrf(K, lower=0, tol=tol)
    return np.asarray(pivots[:rank] - 1, dtype=np.intp)
