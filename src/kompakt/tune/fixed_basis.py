"""A machine on a fixed set of basis vectors: its parts, their held-out errors, the path of sizes, the final weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import lapack

from kompakt.codings import class_pairs, get_coding
from kompakt.design import Design
from kompakt.kernels import Kernel
from kompakt.losses import LeastSquares
from kompakt.rows import ArrayRows, StreamedRows
from kompakt.solve import Problem, Solution, solve
from kompakt.tune.held_out import Objective, Part, features, fold_by_fold, held_out_path, nested_path
from kompakt.validate import fold_means, shuffled_folds

Array = np.ndarray


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
