"""Size, C and kernel parameter by cross-validation (seed 001, section 4): one growth per fold tells all sizes.

Rows that a fold holds out stay in its machine with weight 0, so their predictions come with the growth.  All machines
of a grid try the same candidates at the same step.  Kernel matrices that fit in memory are made from one matrix of
distances or products for all widths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kompakt.basis.batch import grow_batch
from kompakt.basis.candidates import CandidateStream
from kompakt.basis.columns import KernelColumns
from kompakt.basis.forward import GrowthPlan, grow
from kompakt.basis.machine import GrowingMachine
from kompakt.data import ArrayRows
from kompakt.kernels import Kernel, Precomputed
from kompakt.losses import Loss
from kompakt.parallel import ordered_map
from kompakt.run import tracked
from kompakt.validation import Split

Array = np.ndarray

#: class numbers from raw outputs (n, L)
Decide = Callable[[Array], Array]


@dataclass(frozen=True)
class SizeProblem:
    """What is cross-validated: rows with targets, how outputs become classes, and how to grow.

    Parameters
    ----------
    rows : ArrayRows
    labels : ndarray of shape (n,)
        True class numbers.
    decide : callable
        Class numbers from raw outputs.
    hashes : ndarray of shape (n,)
        Keyed hashes of the rows.
    key : int
    splits : sequence of (train, validation)
    loss : Loss
    plan : GrowthPlan
        Its `n_basis` is the largest size.
    options : dict
        Further arguments of `GrowingMachine`: intercept and memory.
    """

    rows: ArrayRows
    labels: Array
    decide: Decide
    hashes: Array
    key: int
    splits: Sequence[Split]
    loss: Loss
    plan: GrowthPlan
    options: dict[str, Any]

    def stream(self, fold: int) -> CandidateStream:
        """Candidates of a fold: the common stream, less the rows that it holds out."""
        return CandidateStream.of(self.hashes, self.key).within(self.hashes, np.sort(self.splits[fold][0]))

    def weights(self, fold: int) -> Array:
        """Row weights with 0 for all rows that the fold does not train on."""
        given = self.rows.weights
        weights = np.zeros((self.rows.n_rows,) if given is None else given.shape)
        train = self.splits[fold][0]
        weights[train] = 1.0 if given is None else given[train]
        return weights

    @property
    def masses(self) -> Array:
        """Total weight of the rows that each fold holds out: errors are pooled over rows, not averaged over folds.

        Folds of unequal size would break ties between sizes that make the same number of mistakes.
        """
        given = self.rows.weights
        weight = given if given is not None and given.ndim == 1 else np.ones(self.rows.n_rows)
        return np.array([weight[held].sum() for _, held in self.splits])

    def errors(self, outputs: Array, fold: int) -> tuple[float, float]:
        """Weighted share of the held-out rows that outputs (n, L) get wrong, and their mean loss."""
        held, given, targets = self.splits[fold][1], self.rows.weights, self.rows.targets
        assert targets is not None
        wrong = self.decide(outputs[held]) != self.labels[held]
        losses = np.sum(self.loss.value(targets[held], outputs[held]), axis=1)
        weights = given[held] if given is not None and given.ndim == 1 else None
        return float(np.average(wrong, weights=weights)), float(np.average(losses, weights=weights))


def fold_errors(problem: SizeProblem, kernel: Kernel, C: float, fold: int, rows: ArrayRows | None = None) -> Array:
    """Validation error and loss of one fold at every size, (2, d_max); infinite where growth ended before."""
    columns = KernelColumns(problem.rows if rows is None else rows, kernel, 1024)
    machine = GrowingMachine(
        columns, problem.loss, C, problem.weights(fold), capacity=problem.plan.n_basis, **problem.options
    )
    plan = replace(problem.plan, shrinking=False)

    def measure(machine: GrowingMachine) -> dict[str, float]:
        error, loss = problem.errors(machine.f, fold)
        return {"error": error, "loss": loss}

    records = grow(machine, problem.stream(fold), plan, measure)
    errors = np.full((2, plan.n_basis), np.inf)
    errors[:, : len(records)] = [[record[name] for record in records] for name in ("error", "loss")]
    return errors


def size_errors(problem: SizeProblem, kernel: Kernel, C: float) -> Array:
    """Validation error of every size, (d_max,), pooled over the held-out rows of all folds."""
    folds = range(len(problem.splits))
    results = ordered_map(lambda fold: fold_errors(problem, kernel, C, fold)[0], folds)
    errors = list(tracked(results, "folds", len(folds)))
    return np.average(errors, axis=0, weights=problem.masses)


@dataclass(frozen=True)
class Tuned:
    """The best point of a grid; `errors` are the validation errors (n_kernels, nC, d_max)."""

    kernel: int
    C: int
    n_basis: int
    errors: Array

    @classmethod
    def best(cls, errors: Array, losses: Array) -> Tuned:
        """Lowest error; ties go to the smaller size, then to the lower held-out loss."""
        rounded = np.round(errors, 12)
        ties = np.argwhere(rounded == np.min(rounded))
        kernel, C, size = min(ties.tolist(), key=lambda at: (at[2], losses[tuple(at)]))
        return cls(kernel, C, size + 1, errors)


def tune_grid(
    problem: SizeProblem,
    kernels: Sequence[Kernel],
    C_grid: Array,
    *,
    plus_one: bool = False,
    memory_budget: int,
) -> Tuned:
    """Validation errors over kernels x C x sizes, and the best point.

    Kernels must differ only in parameters that `Kernel.finish` applies.  Grid points run in parallel; the result does
    not depend on the number of threads.
    """
    n = problem.rows.n_rows
    if 3 * 8 * n * n <= memory_budget:
        X = problem.rows.take(np.arange(n))
        dense = kernels[0].take_basis(problem.rows, np.arange(n))
        pre = kernels[0].pre(X, dense).astype(np.float64)
        pre = 0.5 * (pre + pre.T)

        def matrix(kernel: Kernel) -> Array:
            K = kernel.finish(pre.copy())
            np.fill_diagonal(K, kernel.diag(X))
            return K + float(plus_one)

        one = _batched if _can_batch(problem) else _matrix_by_matrix
        results = ordered_map(lambda kernel: one(problem, matrix(kernel), C_grid), kernels)
        both = np.stack(list(tracked(results, "search", len(kernels))))
        return Tuned.best(both[:, 0], both[:, 1])
    points = [(k, c, v) for k in range(len(kernels)) for c in range(len(C_grid)) for v in range(len(problem.splits))]

    def point(at: tuple[int, int, int]) -> Array:
        kernel = kernels[at[0]] + 1.0 if plus_one else kernels[at[0]]
        return fold_errors(problem, kernel, float(C_grid[at[1]]), at[2])

    found = np.stack(list(tracked(ordered_map(point, points), "search", len(points))))
    shape = (len(kernels), len(C_grid), len(problem.splits), 2, problem.plan.n_basis)
    both = np.average(found.reshape(shape), axis=2, weights=problem.masses)
    return Tuned.best(both[:, :, 0], both[:, :, 1])


def _can_batch(problem: SizeProblem) -> bool:
    """Whether the machines can be grown side by side: one output, method 2, retraining always."""
    plan, rows = problem.plan, problem.rows
    simple = plan.selection in ("sp2", "kmp") and plan.retraining == "always"
    return simple and rows.n_outputs == 1 and plan.deadline is None


def _batched(problem: SizeProblem, K: Array, C_grid: Array) -> Array:
    """Validation errors and losses (2, nC, d_max) of all C, their folds grown side by side."""
    plan, F = problem.plan, len(problem.splits)
    candidates = np.full((F, plan.n_basis, plan.n_candidates), -1, dtype=np.intp)
    for fold in range(F):
        stream = problem.stream(fold)
        for step in range(plan.n_basis):
            drawn = stream.draw(step, plan.n_candidates, set())
            candidates[fold, step, : len(drawn)] = drawn
    weights = np.stack([problem.weights(fold).reshape(len(K)) for fold in range(F)])
    assert problem.rows.targets is not None
    intercept = {name: problem.options[name] for name in ("fit_intercept", "penalize_intercept")}
    targets = problem.rows.targets[:, 0]
    options = {**intercept, "score_rows": plan.score_rows}
    outputs = grow_batch(K, targets, weights, C_grid, candidates, problem.loss, **options)
    both = np.full((2, len(C_grid), plan.n_basis, F), np.inf)
    for step in range(plan.n_basis):
        for fold in range(F):
            for c in range(len(C_grid)):
                f = outputs[step, fold, c]
                if not np.isnan(f[0]):
                    both[:, c, step, fold] = problem.errors(f[:, None], fold)
    return np.average(both, axis=3, weights=problem.masses)


def _matrix_by_matrix(problem: SizeProblem, K: Array, C_grid: Array) -> Array:
    """Validation errors and losses (2, nC, d_max), one growth after the other on a given kernel matrix."""
    rows = ArrayRows(K, problem.rows.targets, problem.rows.weights)
    kernel = Precomputed(K)
    errors = [
        [fold_errors(problem, kernel, float(C), fold, rows) for fold in range(len(problem.splits))] for C in C_grid
    ]
    return np.moveaxis(np.average(errors, axis=1, weights=problem.masses), 1, 0)
