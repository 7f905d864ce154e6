"""Held-out outputs of least-squares (and other) machines on a fixed basis, for a whole path of C.

A machine is made of parts. Under most codings there is one: all rows, all basis vectors, all outputs. One-vs-one has a
part for each pair of classes, with the rows of the two and, unless they share the basis, their prototypes.

Basis vectors that were chosen among all rows are not independent of the rows held out: a row that is a basis vector has
a function of its own, which shields it. So a fold's machine leaves out the vectors that are rows of the fold (`home`),
or is given vectors chosen without the fold (`anew`); with neither it is that of the paper.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import LinAlgWarning

from kompakt.design import DEFAULT_BUDGET, FeatureDesign, choose_block_rows, factorise, multiply_upper
from kompakt.design.design import compute_block
from kompakt.kernels import Kernel
from kompakt.losses import LeastSquares, Loss
from kompakt.rows import ArrayRows, RowBlock
from kompakt.solve import Problem, Settings, solve
from kompakt.threads import ordered_map
from kompakt.validate import cross_validated_path, cross_validated_path_blockwise, cross_validated_residuals

Array = np.ndarray
_COPIES = 3  # of the features that the fast cross-validation holds at once


@dataclass(frozen=True)
class Part:
    """Rows, basis columns and outputs that are solved together.

    Attributes
    ----------
    rows : ArrayRows
        Sorted by fold, with their own targets (n, L) and weights (n,) or None.
    fold : ndarray of shape (n,)
        Fold of each row, ascending; -1 for rows never held out.
    index : ndarray of shape (n,)
        Row numbers in the whole.
    columns : ndarray
        Basis vectors of the part, ascending positions in the whole basis.
    outputs : ndarray of shape (L,)
        Outputs in the whole machine.
    home : ndarray of shape (len(columns),), optional
        Fold whose machine leaves the basis vector out, -1 for none.
    anew : list of ndarray, optional
        Basis vectors of each fold's machine, in the place of those that the callers hand over.
    """

    rows: ArrayRows
    fold: Array
    index: Array
    columns: Array
    outputs: Array
    home: Array | None = None
    anew: list[Array] | None = None


@dataclass(frozen=True)
class Objective:
    """What is minimised on each part, and how much memory its features may take."""

    loss: Loss
    fit_intercept: bool = True
    penalize_intercept: bool = False
    settings: Settings = field(default_factory=Settings)
    absolute: bool = False  # regression is scored by the absolute error instead of the squared one
    memory_budget: int | None = None

    def unit_penalty(self, m: int) -> Array:
        """Diagonal of the penalty for C = 1; De Brabanter et al. 2010, eq. 7, has a one for the intercept too."""
        diagonal = np.ones(m + self.fit_intercept)
        if self.fit_intercept and not self.penalize_intercept:
            diagonal[-1] = 0.0
        return diagonal


def held_out_path(part: Part, kernel: Kernel, basis: Array, Cs: Array, objective: Objective) -> Array:
    """Outputs (n_C, n, L) of each row of the part under the machine trained without its fold; NaN for fold -1."""
    if part.anew is not None:
        return fold_by_fold(part, lambda alone, own: held_out_path(alone, kernel, own, Cs, objective))
    if not isinstance(objective.loss, LeastSquares):
        return _refitted_path(part, *features(part, kernel, basis, objective), Cs, objective)
    n, m = part.rows.n_rows, len(part.columns)
    budget = DEFAULT_BUDGET if objective.memory_budget is None else objective.memory_budget
    if _COPIES * 8 * n * (m + 1) > budget:
        return _blockwise_path(part, kernel, basis, Cs, objective, budget)
    return nested_path(part, *features(part, kernel, basis, objective), m, Cs, objective)


def fold_by_fold(part: Part, measure: Callable[[Part, Array], Array]) -> Array:
    """Outputs (..., n, L) of a part whose folds have basis vectors of their own, by one measure of each."""
    assert part.anew is not None
    whole = np.empty(0)
    for v, own in enumerate(part.anew):
        held = part.fold == v
        values = measure(replace(part, fold=np.where(held, 0, -1), columns=np.arange(len(own)), anew=None), own)
        if not v:
            whole = np.full(values.shape, np.nan)
        whole[..., held, :] = values[..., held, :]
    return whole


def features(part: Part, kernel: Kernel, basis: Array, objective: Objective) -> tuple[Array, Array]:
    """Nystrom features (De Brabanter et al. 2010, eq. 5) of the part's rows, then ones for the intercept (eq. 8).

    With them comes R^-1, by which kernel values were multiplied: weights w of the features are R^-1 w of the vectors.

    The Cholesky factor takes the place of the eigenvectors: the features differ by a rotation, which ridge regression
    does not see, and the first k columns are the features of the first k vectors.
    """
    Z = basis[part.columns]
    inverse = _whitener(part, kernel, Z)
    Phi = np.empty((part.rows.n_rows, len(Z) + objective.fit_intercept))

    def one(block: RowBlock) -> None:
        K = kernel.block(block.X, Z)
        multiply_upper(K.astype(np.float64, copy=False), inverse, out=Phi[block.start : block.stop, : len(Z)])

    part.rows.for_each(one, choose_block_rows(max(len(Z), part.rows.n_features)))
    if objective.fit_intercept:
        Phi[:, -1] = 1.0
    return Phi, inverse


def _whitener(part: Part, kernel: Kernel, Z: Array) -> Array:
    """R^-1 for R'R the kernel matrix of the basis."""
    return factorise(kernel.gram(Z), dtype=part.rows.dtype, what="kernel matrix of the basis").inverse()


def _dropped(part: Part, inverse: Array, m: int, objective: Objective) -> tuple[Array, Array] | None:
    """Constraints that keep the weights of the vectors that a fold leaves out at zero, of the first `m` vectors."""
    if part.home is None:
        return None
    return np.pad(inverse[:m, :m], [(0, 0), (0, int(objective.fit_intercept))]), part.home[:m]


def nested_path(part: Part, Phi: Array, inverse: Array, m: int, Cs: Array, objective: Objective) -> Array:
    """`held_out_path` of the first `m` vectors of the part, from the features of all of them."""
    if m + objective.fit_intercept < Phi.shape[1]:
        Phi = np.column_stack([Phi[:, :m], Phi[:, Phi.shape[1] - objective.fit_intercept :]])
    assert part.rows.targets is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # large C: a minimal jitter is all a search needs there
        unit = objective.unit_penalty(m)
        targets, weights = part.rows.targets, part.rows.weights
        dropped = _dropped(part, inverse, m, objective)
        if len(Cs) == 1:  # no path to share an eigendecomposition
            penalty = unit / Cs[0]
            return (
                targets - cross_validated_residuals(Phi, targets, part.fold, penalty, weights, constraints=dropped)
            )[None]
        return targets - cross_validated_path(
            Phi, targets, part.fold, 1.0 / Cs, weights, shape=unit, constraints=dropped
        )


def _blockwise_path(part: Part, kernel: Kernel, basis: Array, Cs: Array, objective: Objective, budget: int) -> Array:
    """Features that do not fit are computed block by block, ahead of the sums, on the block threads (algorithm 4)."""
    Z = basis[part.columns]
    inverse = _whitener(part, kernel, Z)
    step = choose_block_rows(max(len(Z), part.rows.n_features))
    n = part.rows.n_rows

    def block(start: int) -> Array:
        rows = part.rows.block(start, min(start + step, n))
        Phi = compute_block(kernel, Z, inverse, rows)
        return np.column_stack([Phi, np.ones(len(Phi))]) if objective.fit_intercept else Phi

    def blocks() -> Iterable[Array]:
        return ordered_map(block, range(0, n, step))

    assert part.rows.targets is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)
        residuals = cross_validated_path_blockwise(
            blocks,
            part.rows.targets,
            part.fold,
            1.0 / Cs,
            part.rows.weights,
            shape=objective.unit_penalty(len(Z)),
            memory_budget=budget,
            constraints=_dropped(part, inverse, len(Z), objective),
        )
    return part.rows.targets - residuals


def _refitted_path(part: Part, Phi: Array, inverse: Array, Cs: Array, objective: Objective) -> Array:
    """One solve per fold and C, each started at the solution for the C before."""
    targets, weights = part.rows.targets, part.rows.weights
    assert targets is not None
    whole = Phi[:, :-1] if objective.fit_intercept else Phi
    outputs = np.full((len(Cs), *targets.shape), np.nan)
    for v in range(int(part.fold.max()) + 1):
        held, kept = part.fold == v, np.flatnonzero(part.fold != v)
        values = whole
        dropped = np.empty(0) if part.home is None else np.flatnonzero(part.home == v)
        if len(dropped):  # features of the other vectors: those orthogonal to the rows that must give zero
            rest = np.linalg.qr(inverse[dropped].T, mode="complete")[0][:, len(dropped) :]
            values = whole @ rest if rest.shape[1] else np.zeros((len(whole), 1))
        design = FeatureDesign(values[kept], targets[kept], None if weights is None else weights[kept])
        start = None
        for k in np.argsort(Cs):
            problem = Problem(
                design, objective.loss, float(Cs[k]), objective.fit_intercept, objective.penalize_intercept
            )
            solution = solve(problem, start, objective.settings)
            start = solution.coordinates
            outputs[k, held] = values[held] @ start[:-1] + start[-1]
    return outputs
