"""Search for C and the kernel's width by held-out error: features once per width, then a whole path of C on them.

"profile" walks over the width alone and reads the best C off the path of each; the other strategies (seed 002,
section 6.3) search both together, one C at a time.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning, lapack

from kompakt.codings import class_pairs, get_coding
from kompakt.data import ArrayRows, RowBlock, StreamedRows
from kompakt.design import DEFAULT_BUDGET, Design, FeatureDesign, choose_block_rows, compute_block
from kompakt.kernels import Kernel
from kompakt.linalg import factorise, multiply_upper
from kompakt.losses import LeastSquares, Loss
from kompakt.parallel import ordered_map
from kompakt.run import is_over, task
from kompakt.search.ridge_cv import cross_validated_path, cross_validated_path_blockwise
from kompakt.search.strategies import Space, search
from kompakt.solve import Problem, Settings, Solution, solve
from kompakt.validation import fold_means, shuffled_folds

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
        targets = part.rows.targets
        return targets - cross_validated_path(
            Phi,
            targets,
            part.fold,
            1.0 / Cs,
            part.rows.weights,
            shape=objective.unit_penalty(m),
            constraints=_dropped(part, inverse, m, objective),
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


@dataclass(frozen=True)
class Task:
    """Rows with targets and weights, and what their outputs mean.

    Attributes
    ----------
    rows : ArrayRows
        Targets (n, L); weights None, (n,), or (n, L) where outputs use different rows (one-vs-one).
    labels : ndarray of shape (n,) or None
        Class indices; None for regression.
    coding : str or None
        How outputs become classes.
    """

    rows: ArrayRows
    labels: Array | None = None
    coding: Any = None

    @property
    def n_classes(self) -> int:
        return 0 if self.labels is None else int(self.labels.max()) + 1

    @property
    def pairwise(self) -> bool:
        """Whether every output has rows of its own."""
        return self.rows.weight_columns > 1


@dataclass(frozen=True)
class Origin:
    """Where basis vectors come from, for folds that leave out their own.

    Attributes
    ----------
    of_row : ndarray of shape (n,)
        A number for each row of the task, the same for equal rows.
    of_vector : ndarray of shape (m,)
        The number of the row that each basis vector is.
    """

    of_row: Array
    of_vector: Array

    def home(self, index: Array, fold: Array, columns: Array) -> Array:
        """Fold that holds every row (of those at `index`) equal to the vector; -1 where there is no such fold."""
        least = np.full(int(max(self.of_row.max(), self.of_vector.max())) + 1, np.iinfo(np.intp).max)
        most = np.full(len(least), -1)
        np.minimum.at(least, self.of_row[index], fold)
        np.maximum.at(most, self.of_row[index], fold)
        return np.where(least == most, most, -1)[self.of_vector[columns]]


#: basis vectors chosen without a fold, and the class of each (None if all parts share them)
Anew = list[tuple[Array, Array | None]]


def make_parts(
    task: Task,
    stratum: Array | None,
    m: int,
    cv: Any,
    seed: int,
    *,
    origin: Origin | None = None,
    anew: Anew | None = None,
) -> list[Part]:
    """Parts of the machine with their folds.

    `stratum` (m,) is the class of each basis vector, None if all parts share them. `cv` is a number of folds, or the
    fold of each row (-1 for rows never held out), or None where nothing is to be held out. With an `origin` every fold
    leaves out its own basis vectors; `anew` has those chosen without each fold, and needs the folds of the rows.
    """
    rows = task.rows
    columns = np.arange(m)
    if not task.pairwise:
        everything = np.arange(rows.n_rows)
        if cv is None:  # nothing will be held out: the rows stay where they are
            whole = np.zeros(rows.n_rows, dtype=np.intp)
            return [Part(rows, whole, everything, columns, np.arange(rows.n_outputs))]
        part = _part(task, everything, columns, np.arange(rows.n_outputs), cv, seed, origin)
        return [part if anew is None else replace(part, anew=[vectors for vectors, _ in anew])]
    assert task.labels is not None
    parts = []
    for output, pair in enumerate(class_pairs(task.n_classes)):
        own = columns if stratum is None else np.flatnonzero(np.isin(stratum, pair))
        index = np.flatnonzero(np.isin(task.labels, pair))
        part = _part(task, index, own if len(own) else columns, np.array([output]), cv, seed, origin)
        if anew is not None:
            folds = np.unique(np.asarray(cv)[index])  # those that hold rows of the pair
            part = replace(part, anew=[_of_pair(anew[v], pair) for v in folds[folds >= 0]])
        parts.append(part)
    return parts


def _of_pair(chosen: tuple[Array, Array | None], pair: Array) -> Array:
    vectors, stratum = chosen
    own = np.ones(len(vectors), dtype=bool) if stratum is None else np.isin(stratum, pair)
    return vectors[own] if own.any() else vectors


def _part(task: Task, index: Array, columns: Array, outputs: Array, cv: Any, seed: int, origin: Origin | None) -> Part:
    fold = _folds(task, index, cv, seed)
    order = np.argsort(fold, kind="stable")
    index = index[order]
    part = task.rows.subset(index)
    assert task.rows.targets is not None
    part.targets = task.rows.targets[np.ix_(index, outputs)]
    part.n_outputs = len(outputs)
    weights = task.rows.weights
    part.weights = None if weights is None else (weights[index, outputs[0]] if weights.ndim == 2 else weights[index])
    home = None if origin is None or cv is None else origin.home(index, fold[order], columns)
    return Part(part, fold[order], index, columns, outputs, home)


def _folds(task: Task, index: Array, cv: Any, seed: int) -> Array:
    """Fold of each row of a part; a number of folds is stratified by class, however rare a class is."""
    labels = None if task.labels is None else task.labels[index]
    if cv is None:
        return np.zeros(len(index), dtype=np.intp)
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        return shuffled_folds(len(index), int(cv), labels=labels, random_state=seed)
    used, numbers = np.unique(np.asarray(cv)[index], return_inverse=True)
    return numbers - 1 if used[0] < 0 else numbers


# -- held-out errors --------------------------------------------------------------------------------------


def held_out_errors(
    task: Task, parts: list[Part], kernel: Kernel, basis: Array, Cs: Array, objective: Objective
) -> tuple[Array, Array]:
    """What a search minimises (n_C,), and the error of each fold (n_C, n_folds)."""
    return errors_of(task, parts, [held_out_path(part, kernel, basis, Cs, objective) for part in parts], objective)


def errors_of(task: Task, parts: list[Part], values: list[Array], objective: Objective) -> tuple[Array, Array]:
    """Errors from the held-out outputs of the parts (each (n_C, n, L)).

    Classes: share of wrong labels (of wrong sides, over all pairs, for one-vs-one: `class_error` counts labels there),
    and the squared error to break ties, scaled to less than one row. Regression: mean squared error, or absolute error
    where the objective says so.
    """
    losses, ties, folds, weights = [], [], [], []
    for part, outputs in zip(parts, values, strict=True):
        loss, tie = _row_losses(task, part, outputs, objective)
        losses.append(loss)
        ties.append(tie)
        folds.append(part.fold)
        weights.append(np.ones(len(part.fold)) if part.rows.weights is None else part.rows.weights)
    loss, tie = np.concatenate(losses, axis=1), np.concatenate(ties, axis=1)
    fold, weight = np.concatenate(folds), np.concatenate(weights)
    used = fold >= 0
    share = weight[used] / weight[used].sum()
    error = loss[:, used] @ share
    if task.labels is not None:
        error = error + np.minimum(tie[:, used] @ share, 100.0) * (0.005 / used.sum())
    return error, fold_means(loss, fold, weight)


def _row_losses(task: Task, part: Part, outputs: Array, objective: Objective) -> tuple[Array, Array]:
    """Loss and tie-breaker of every row, (n_C, n) each."""
    assert part.rows.targets is not None
    residual = outputs - part.rows.targets
    squares = np.mean(residual**2, axis=2)
    if task.labels is None:
        return (np.mean(np.abs(residual), axis=2) if objective.absolute else squares), squares
    if len(part.outputs) == 1:
        return (outputs[:, :, 0] * part.rows.targets[:, 0] <= 0).astype(np.float64), squares
    coding = get_coding(task.coding)
    held = part.fold >= 0
    wrong = np.zeros(squares.shape)
    for k in range(len(outputs)):
        decided = coding.decode(outputs[k, held], task.n_classes)
        wrong[k, held] = decided != task.labels[part.index[held]]
    return wrong, squares


def class_error(task: Task, outputs: Array, weights: Array, intercept: Array, kernel: Kernel, basis: Array) -> float:
    """Share of wrong labels of a machine of pairs, from its held-out outputs (n, L); fills these where they are NaN.

    A pair that a row takes no part in was not trained on it, so the outputs there are those of the machine (`weights`,
    `intercept`). Rows that were never held out do not count.
    """
    rows = task.rows
    assert task.labels is not None
    assert rows.targets is not None
    absent = np.isnan(outputs)
    counted = ~np.any(absent & (rows.targets != 0), axis=1)
    whole = Design(rows, kernel, basis).matvec(weights) + intercept
    outputs[absent & counted[:, None]] = whole[absent & counted[:, None]]
    wrong = get_coding(task.coding).decode(outputs[counted], task.n_classes) != task.labels[counted]
    row_weights = None if rows.weights is None else rows.weights.max(axis=1)[counted]
    return float(np.average(wrong, weights=row_weights))


# -- sizes ------------------------------------------------------------------------------------------------


def spread_order(kernel: Kernel, basis: Array) -> Array:
    """Order of the basis vectors in which each is the least explained by those before it (pivoted Cholesky)."""
    _, pivots, _, _ = lapack.dpstrf(kernel.gram(basis), lower=0)
    return pivots.astype(np.intp) - 1


def size_errors(
    task: Task, parts: list[Part], kernel: Kernel, basis: Array, sizes: Array, Cs: Array, objective: Objective
) -> tuple[Array, Array]:
    """Errors (n_sizes, n_C) and fold errors (n_sizes, n_C, n_folds) of the first vectors, from one set of features."""

    def paths(part: Part, vectors: Array) -> Array:
        """Held-out outputs (n_sizes, n_C, n, L)."""
        if part.anew is not None:
            return fold_by_fold(part, paths)
        Phi, inverse = features(part, kernel, vectors, objective)
        outputs = []
        for size in sizes:
            m = max(1, int(np.searchsorted(part.columns, size)))
            if isinstance(objective.loss, LeastSquares):
                outputs.append(nested_path(part, Phi, inverse, m, Cs, objective))
                continue
            first = replace(part, columns=part.columns[:m], home=None if part.home is None else part.home[:m])
            outputs.append(held_out_path(first, kernel, vectors, Cs, objective))
        return np.stack(outputs)

    values = [paths(part, basis) for part in parts]
    pairs = [errors_of(task, parts, [outputs[at] for outputs in values], objective) for at in range(len(sizes))]
    return np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs])


# -- weights ----------------------------------------------------------------------------------------------


def fit_parts(
    task: Task, parts: list[Part], kernel: Kernel, basis: Array, C: float, objective: Objective
) -> tuple[Solution, int]:
    """The weights (m, L) on all rows, zero where a part does not use a vector, and the kernel evaluations spent."""
    L = task.rows.n_outputs
    weights, intercept = np.zeros((len(basis), L)), np.zeros(L)
    found: list[Solution] = []
    evaluations = 0
    for part in parts:
        rows: ArrayRows = part.rows if task.pairwise else task.rows
        if isinstance(task.rows, StreamedRows):  # the part was cut from a sample of them
            rows = task.rows.one_output(int(part.outputs[0])) if task.pairwise else task.rows
        design = Design(rows, kernel, basis[part.columns], whiten=True, memory_budget=objective.memory_budget)
        problem = Problem(design, objective.loss, C, objective.fit_intercept, objective.penalize_intercept)
        solution = solve(problem, None, objective.settings)
        weights[np.ix_(part.columns, part.outputs)] = solution.weights
        intercept[part.outputs] = solution.intercept
        evaluations += design.n_kernel_evals
        found.append(solution)
    whole = Solution(
        weights=weights,
        intercept=intercept,
        coordinates=found[0].coordinates if len(found) == 1 else np.concatenate([weights, intercept[None]]),
        objective=np.concatenate([solution.objective for solution in found]),
        n_iter=max(solution.n_iter for solution in found),
        converged=all(solution.converged for solution in found),
        optimality=np.concatenate([solution.optimality for solution in found]),
        jitter=max(solution.jitter for solution in found),
    )
    return whole, evaluations


logger = logging.getLogger("kompakt.search")

#: powers of ten around the kernel's own width that a search may reach, and powers of ten of C
WIDTHS = (-4.0, 4.0)
COSTS = (-6.0, 8.0)
STRATEGIES = ("profile", "anneal", "grid", "random")
_COARSE_WIDTHS = np.arange(-3.0, 2.5)  # from 1/1000 of the width's start to 100 times it
_COARSE_COSTS = np.arange(-3.0, 8.5)
_NEAR_COSTS = np.array([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0])


@dataclass(frozen=True)
class Trial:
    """Held-out errors of one width along some values of C."""

    kernel: Kernel
    factor: float  # width relative to the kernel the search began with
    Cs: Array  # (n_C,)
    errors: Array  # (n_C,), what is minimised
    fold_errors: Array  # (n_C, n_folds)
    seconds: float
    phase: str


@dataclass
class Tuned:
    """The best point of a search, and every trial."""

    kernel: Kernel
    C: float
    error: float
    trials: list[Trial] = field(default_factory=list)
    stopped: str = "finished"

    def refitted(self, measure: Callable[[], tuple[Array, Array]], Cs: Array) -> Tuned:
        """The same width with C from another measure of error; only these trials compete."""
        began = time.perf_counter()
        errors, fold_errors = measure()
        factor = next(trial.factor for trial in self.trials if trial.kernel is self.kernel)
        trial = Trial(self.kernel, factor, Cs, errors, fold_errors, time.perf_counter() - began, "refit")
        k = int(np.argmin(errors))
        logger.info("refits: best C %.3g of %d, error %.5g (%.1f s)", Cs[k], len(Cs), errors[k], trial.seconds)
        earlier = [replace(t, errors=np.full(len(t.errors), np.inf)) for t in self.trials]
        return Tuned(self.kernel, float(Cs[k]), float(errors[k]), [*earlier, trial], self.stopped)

    @property
    def cv_results(self) -> dict[str, Array]:
        """One row per evaluated pair of width and C, in the order of the search."""
        trials = self.trials
        errors = np.concatenate([trial.errors for trial in trials])
        folds = np.concatenate([trial.fold_errors for trial in trials])
        counts = [len(trial.Cs) for trial in trials]
        # one number per kernel; a kernel with a width per feature is told apart by its factor alone
        gammas = [np.nan if np.ndim(gamma) else float(gamma) for gamma in (_gamma(t.kernel) for t in trials)]
        rank = np.empty(len(errors), dtype=np.intp)
        rank[np.argsort(errors, kind="stable")] = np.arange(1, len(errors) + 1)
        return {
            "param_C": np.concatenate([trial.Cs for trial in trials]),
            "param_gamma": np.repeat(gammas, counts),
            "width_factor": np.repeat([trial.factor for trial in trials], counts),
            "mean_test_error": np.nanmean(folds, axis=1),
            "std_test_error": np.nanstd(folds, axis=1),
            "objective": errors,
            "rank_test_error": rank,
            "seconds": np.repeat([trial.seconds / len(trial.Cs) for trial in trials], counts),
            "phase": np.repeat([trial.phase for trial in trials], counts),
        }


def _gamma(kernel: Kernel) -> Any:
    return getattr(kernel, "gamma", np.nan)


#: held-out errors (n_C,) and fold errors (n_C, n_folds) of a kernel for some C
Evaluate = Callable[[Kernel, Array], tuple[Array, Array]]


def tune_width_and_cost(
    evaluate: Evaluate,
    kernel: Kernel,
    *,
    strategy: str = "profile",
    evaluate_coarse: Evaluate | None = None,
    deadline: float | None = None,
    random_state: Any = None,
    **options: Any,
) -> Tuned:
    """Find the width and C with the lowest held-out error.

    Parameters
    ----------
    evaluate : callable
        Errors of a kernel along some values of C.
    kernel : Kernel
        Where the search begins; a kernel without a width has only C to be tuned.
    strategy : {"profile", "anneal", "grid", "random"}
        Search over the width with C read off a path, or over both by a strategy of `kompakt.search.strategies`.
    evaluate_coarse : callable, optional
        A cheaper `evaluate`, such as on part of the rows, for the coarse steps of "profile"; its errors are never
        compared with those of `evaluate`.
    deadline : float, optional
        On the clock of time.monotonic.
    random_state : int, RandomState or None
    **options
        Arguments of `kompakt.search.strategies`.

    Returns
    -------
    Tuned
        The best point and all trials.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> from kompakt.search.fixed_size import tune_width_and_cost
    >>> def valley(kernel, Cs):
    ...     errors = np.log10(kernel.gamma / 0.3) ** 2 + np.log10(Cs / 20.0) ** 2
    ...     return errors, errors[:, None]
    >>> found = tune_width_and_cost(valley, RBF(1.0))
    >>> bool(abs(np.log10(found.kernel.gamma / 0.3)) < 0.2), bool(abs(np.log10(found.C / 20)) < 0.2)
    (True, True)
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"search must be one of {STRATEGIES}; got {strategy!r}.")
    walker = _Walker(evaluate, kernel, deadline)
    if len(kernel.theta) == 0 or strategy == "profile":
        scout = walker if evaluate_coarse is None else _Walker(evaluate_coarse, kernel, deadline)
        has_width = len(kernel.theta) > 0
        n_trials = len(_COARSE_WIDTHS) + 8 if has_width else 2  # the usual number: the coarse path may go on at its end
        with task("search", n_trials) as step:
            walker.count = scout.count = step
            stopped = _profile(walker, scout, has_width=has_width)
    else:
        stopped = _jointly(walker, strategy, random_state, options)
    best = min(walker.trials, key=lambda trial: float(trial.errors.min()))
    k = int(np.argmin(best.errors))
    return Tuned(best.kernel, float(best.Cs[k]), float(best.errors[k]), walker.trials, stopped)


class _Walker:
    """Evaluates widths (as factors of the first) and remembers the trials."""

    def __init__(self, evaluate: Evaluate, kernel: Kernel, deadline: float | None) -> None:
        self._evaluate, self._kernel, self._deadline = evaluate, kernel, deadline
        self.trials: list[Trial] = []
        self.count: Callable[[], bool] | None = None  # tells whoever watches of every trial

    def late(self) -> bool:
        return bool(self.trials) and is_over(self._deadline)

    def __call__(self, factor: float, Cs: Array, phase: str) -> Trial:
        theta = self._kernel.theta
        kernel = self._kernel.with_theta(theta + np.log(factor)) if len(theta) and factor != 1.0 else self._kernel
        began = time.perf_counter()
        errors, fold_errors = self._evaluate(kernel, Cs)
        errors = np.where(np.isfinite(errors), errors, np.inf)
        trial = Trial(kernel, factor, Cs, errors, fold_errors, time.perf_counter() - began, phase)
        self.trials.append(trial)
        if self.count is not None:
            self.count()
        k = int(np.argmin(errors))
        logger.info(
            "%s %d: width factor %.3g, best C %.3g of %d, error %.5g (%.1f s)",
            phase, len(self.trials), factor, Cs[k], len(Cs), errors[k], trial.seconds,
        )  # fmt: skip
        return trial


def _profile(walker: _Walker, scout: _Walker, has_width: bool) -> str:
    """Coarse widths, then steps that halve around the best; C on a coarse path, then on a fine one near its best."""
    if not has_width:
        # One path only, so it may be long; a penalised intercept can make a very small C the best.
        trial = walker(1.0, 10.0 ** np.arange(COSTS[0], COSTS[1] + 0.5, 0.5), "coarse")
        if walker.late():
            return "deadline"
        walker(1.0, _near(trial), "fine")
        return "finished"
    known: dict[float, Trial] = {}

    def visit(log_width: float, Cs: Array, phase: str, by: _Walker = walker) -> None:
        if log_width not in known and not by.late():
            known[log_width] = by(10.0**log_width, Cs, phase)

    def best() -> float:
        return min(known, key=lambda at: float(known[at].errors.min()))

    coarse = 10.0**_COARSE_COSTS
    for log_width in _COARSE_WIDTHS.tolist():
        visit(log_width, coarse, "coarse", scout)
    while best() in (min(known), max(known)) and not scout.late():
        step = -1.0 if best() == min(known) else 1.0
        if not WIDTHS[0] <= best() + step <= WIDTHS[1]:
            break
        visit(best() + step, coarse, "coarse", scout)
    if scout is not walker:  # from here on all rows, whose errors are not those of a part of them
        start = best()
        trial = walker(10.0**start, _near(known[start]), "fine")
        known = {start: trial}
    for step in (0.5, 0.25, 0.125):
        centre = best()
        Cs = _near(known[centre])
        for side in (-step, step):
            visit(centre + side, Cs, "fine")
    if walker.late():
        return "deadline"
    walker(10.0 ** best(), _near(known[best()]), "fine")  # the best width may have been seen on the coarse path only
    return "finished"


def _near(trial: Trial) -> Array:
    """Values of C around the best of a trial."""
    around = np.log10(trial.Cs[int(np.argmin(trial.errors))]) + _NEAR_COSTS
    return 10.0 ** np.clip(around, *COSTS)


def _jointly(walker: _Walker, strategy: str, random_state: Any, options: dict[str, Any]) -> str:
    """Both together, on logarithmic axes."""
    axes = {"C": (10.0 ** COSTS[0], 10.0 ** COSTS[1], "log"), "width": (10.0 ** WIDTHS[0], 10.0 ** WIDTHS[1], "log")}

    def evaluate(params: dict[str, float]) -> float:
        return float(walker(params["width"], np.array([params["C"]]), strategy).errors[0])

    if strategy != "grid":
        options = {"random_state": random_state, **options}
    return search(evaluate, Space(axes), strategy, **{"deadline": walker._deadline, **options}).stopped
