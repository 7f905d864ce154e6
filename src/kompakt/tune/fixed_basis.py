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
from kompakt.tune.held_out import Objective, Part, features, held_out_path, nested_path
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


def make_parts(task: Task, stratum: Array | None, m: int, cv: Any, seed: int) -> list[Part]:
    """Parts of the machine with their folds.

    `stratum` (m,) is the class of each basis vector, None if all parts share them. `cv` is a number of folds, or the
    fold of each row (-1 for rows never held out), or None where nothing is to be held out.
    """
    rows = task.rows
    columns = np.arange(m)
    if not task.pairwise:
        everything = np.arange(rows.n_rows)
        if cv is None:  # nothing will be held out: the rows stay where they are
            whole = np.zeros(rows.n_rows, dtype=np.intp)
            return [Part(rows, whole, everything, columns, np.arange(rows.n_outputs))]
        return [_part(task, everything, columns, np.arange(rows.n_outputs), cv, seed)]
    assert task.labels is not None
    parts = []
    for output, pair in enumerate(class_pairs(task.n_classes)):
        own = columns if stratum is None else np.flatnonzero(np.isin(stratum, pair))
        index = np.flatnonzero(np.isin(task.labels, pair))
        parts.append(_part(task, index, own if len(own) else columns, np.array([output]), cv, seed))
    return parts


def _part(task: Task, index: Array, columns: Array, outputs: Array, cv: Any, seed: int) -> Part:
    fold = _folds(task, index, cv, seed)
    order = np.argsort(fold, kind="stable")
    index = index[order]
    part = task.rows.subset(index)
    assert task.rows.targets is not None
    part.targets = task.rows.targets[np.ix_(index, outputs)]
    part.n_outputs = len(outputs)
    weights = task.rows.weights
    part.weights = None if weights is None else (weights[index, outputs[0]] if weights.ndim == 2 else weights[index])
    return Part(part, fold[order], index, columns, outputs)


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


def held_out_outputs(
    task: Task, parts: list[Part], kernel: Kernel, basis: Array, Cs: Array, objective: Objective
) -> Array:
    """Outputs (n_C, n, L) of every row without its fold; NaN where a row takes no part."""
    outputs = np.full((len(Cs), task.rows.n_rows, task.rows.n_outputs), np.nan)
    for part in parts:
        values = held_out_path(part, kernel, basis, Cs, objective)
        outputs[:, part.index[:, None], part.outputs] = values
    return outputs


def held_out_errors(
    task: Task, parts: list[Part], kernel: Kernel, basis: Array, Cs: Array, objective: Objective
) -> tuple[Array, Array]:
    """What a search minimises (n_C,), and the error of each fold (n_C, n_folds)."""
    return errors_of(task, parts, [held_out_path(part, kernel, basis, Cs, objective) for part in parts], objective)


def errors_of(task: Task, parts: list[Part], values: list[Array], objective: Objective) -> tuple[Array, Array]:
    """Errors from the held-out outputs of the parts (each (n_C, n, L)).

    Classes: share of wrong labels (of wrong sides, over all pairs, for one-vs-one), and the squared error to break
    ties, scaled to less than one row. Regression: mean squared error, or absolute error where the objective says so.
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


# -- sizes ------------------------------------------------------------------------------------------------


def spread_order(kernel: Kernel, basis: Array) -> Array:
    """Order of the basis vectors in which each is the least explained by those before it (pivoted Cholesky)."""
    _, pivots, _, _ = lapack.dpstrf(kernel.gram(basis), lower=0)
    return pivots.astype(np.intp) - 1


def size_errors(
    task: Task, parts: list[Part], kernel: Kernel, basis: Array, sizes: Array, Cs: Array, objective: Objective
) -> tuple[Array, Array]:
    """Errors (n_sizes, n_C) and fold errors (n_sizes, n_C, n_folds) of the first vectors, from one set of features."""
    values: list[list[Array]] = [[] for _ in sizes]
    for part in parts:
        Phi = features(part, kernel, basis, objective)
        for at, size in enumerate(sizes):
            m = max(1, int(np.searchsorted(part.columns, size)))
            if isinstance(objective.loss, LeastSquares):
                values[at].append(nested_path(part, Phi, m, Cs, objective))
            else:
                values[at].append(held_out_path(replace(part, columns=part.columns[:m]), kernel, basis, Cs, objective))
    pairs = [errors_of(task, parts, outputs, objective) for outputs in values]
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
