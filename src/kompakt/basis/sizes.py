"""Size, C and kernel parameter by cross-validation (Keerthi et al. 2006, section 4): one growth per fold, all sizes.

Rows that a fold holds out stay in its machine with weight 0, so their predictions come with the growth.  All machines
of a grid try the same candidates at the same step.  Kernel matrices that fit in memory are made from one matrix of
distances or products for all widths, and the machines of one matrix are grown side by side where they can be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kompakt.basis.columns import KernelColumns
from kompakt.basis.forward import CandidateStream, GrowthPlan, grow
from kompakt.basis.growing import GrowingMachine, minimise_along
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
    columns = KernelColumns(problem.rows if rows is None else rows, kernel, block_rows=1024)
    plan = replace(problem.plan, shrinking=False)
    machine = GrowingMachine.on_rows(
        columns, problem.loss, C, problem.weights(fold), capacity=plan.n_basis, **problem.options
    )

    def measure(machine: GrowingMachine) -> dict[str, float]:
        error, loss = problem.errors(machine.f.T, fold)
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
    n, plan = problem.rows.n_rows, problem.plan
    if 3 * 8 * n * n <= memory_budget:
        X = problem.rows.take(np.arange(n))
        dense = kernels[0].take_basis(problem.rows, np.arange(n))
        pre = kernels[0].pre(X, dense).astype(np.float64)
        pre = 0.5 * (pre + pre.T)
    else:
        pre = None
    # side by side: one output, method 2, retraining always
    simple = plan.selection in ("sp2", "kmp") and plan.retraining == "always" and plan.deadline is None
    simple = simple and problem.rows.n_outputs == 1

    def errors_of(kernel: Kernel) -> Array:
        """Validation errors and losses (2, nC, d_max)."""
        if pre is None:
            return _one_by_one(problem, problem.rows, kernel + 1.0 if plus_one else kernel, C_grid)
        K = kernel.finish(pre.copy())
        np.fill_diagonal(K, kernel.diag(X))
        K += float(plus_one)
        if simple:
            return _side_by_side(problem, K, C_grid)
        return _one_by_one(problem, ArrayRows(K, problem.rows.targets, problem.rows.weights), Precomputed(K), C_grid)

    both = np.stack(list(tracked(ordered_map(errors_of, kernels), "search", len(kernels))))
    return Tuned.best(both[:, 0], both[:, 1])


def _one_by_one(problem: SizeProblem, rows: ArrayRows, kernel: Kernel, C_grid: Array) -> Array:
    """Validation errors and losses (2, nC, d_max), one growth after the other."""
    points = [(float(C), fold) for C in C_grid for fold in range(len(problem.splits))]
    found = np.stack(list(ordered_map(lambda point: fold_errors(problem, kernel, *point, rows), points)))
    errors = found.reshape(len(C_grid), len(problem.splits), 2, -1)
    return np.moveaxis(np.average(errors, axis=1, weights=problem.masses), 1, 0)


def _side_by_side(problem: SizeProblem, K: Array, C_grid: Array) -> Array:
    """The same for all C and folds at once."""
    plan, F, options = problem.plan, len(problem.splits), problem.options
    assert problem.rows.targets is not None
    candidates = np.full((F, plan.n_basis, plan.n_candidates), -1, dtype=np.intp)
    for fold in range(F):
        stream = problem.stream(fold)
        for step in range(plan.n_basis):
            drawn = stream.draw(step, plan.n_candidates, set())
            candidates[fold, step, : len(drawn)] = drawn
    outputs = grow_batch(
        K,
        problem.rows.targets[:, 0],
        np.stack([problem.weights(fold).reshape(len(K)) for fold in range(F)]),
        C_grid,
        candidates,
        problem.loss,
        fit_intercept=options["fit_intercept"],
        penalize_intercept=options["penalize_intercept"],
        score_rows=plan.score_rows,
    )
    both = np.full((2, len(C_grid), plan.n_basis, F), np.inf)
    for step, fold, c in np.ndindex(plan.n_basis, F, len(C_grid)):
        f = outputs[step, fold, c]
        if not np.isnan(f[0]):
            both[:, c, step, fold] = problem.errors(f[:, None], fold)
    return np.average(both, axis=3, weights=problem.masses)


def grow_batch(
    K: Array,
    y: Array,
    weights: Array,
    C: Array,
    candidates: Array,
    loss: Loss,
    *,
    fit_intercept: bool = False,
    penalize_intercept: bool = False,
    score_rows: str = "active",
) -> Array:
    """Predictions of every machine at every size, (d_max, F, nC, n); NaN where a machine could not grow so far.

    Every machine has its own basis but they share kernel values and candidates, and each step is a handful of array
    operations with a leading axis over the machines.  Method 2 scores, retraining at every step; the result is that of
    `forward.grow`, machine by machine.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix of all rows.
    y : ndarray of shape (n,)
        Targets.
    weights : ndarray of shape (F, n)
        Row weights of every fold; 0 for the rows it holds out.
    C : ndarray of shape (nC,)
    candidates : ndarray of shape (F, d_max, kappa)
        Row numbers to try at each step, -1 for none.
    loss : Loss
        Piecewise quadratic.
    fit_intercept, penalize_intercept : bool
    score_rows : {"active", "all"}
        Rows that count in the scores.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.sizes import grow_batch
    >>> from kompakt.losses import SquaredHinge
    >>> f = grow_batch(np.eye(2), np.array([1.0, -1.0]), np.ones((1, 2)), np.array([1.0]),
    ...                np.array([[[0, 1], [0, 1]]]), SquaredHinge())
    >>> f[:, 0, 0]
    array([[ 0.5,  0. ],
           [ 0.5, -0.5]])
    """
    F, d_max, _ = candidates.shape
    nC, n = len(C), len(y)
    fold = np.repeat(np.arange(F), nC)
    intercept = {"fit_intercept": fit_intercept, "penalize_intercept": penalize_intercept}
    targets = np.tile(np.asarray(y, dtype=np.float64), (F * nC, 1))
    batch = GrowingMachine(None, targets, weights[fold], loss, np.tile(C, F), capacity=d_max, batch=True, **intercept)
    batch.retrain(0.0, 100, enough=1e-12)
    taken, alive, diagonal = np.zeros((F * nC, n), dtype=bool), np.arange(F * nC), np.diag(K)
    outputs = np.full((d_max, F * nC, n), np.nan)
    for step in range(d_max):
        tried = candidates[fold[alive], step]  # (machines, kappa)
        index = np.maximum(tried, 0)
        linear = np.take_along_axis(batch.f, index, axis=1) - (batch.theta[:, :1] if batch.first else 0.0)
        counted = batch.cost if score_rows == "all" else batch.cost * (loss.gradient(batch.y, batch.f) != 0)
        columns = K[np.maximum(candidates[:, step], 0)]
        _, gains = minimise_along(
            loss, batch.y, batch.f, counted, columns, linear, diagonal[index], 1.0, group=fold[alive]
        )
        Phi = batch.A[np.arange(len(alive))[:, None], batch.first : batch.width, index]  # (machines, kappa, m)
        distances = batch.distances(Phi, diagonal[index])
        free = (tried >= 0) & (distances > 0) & ~np.take_along_axis(taken[alive], index, axis=1)
        gains = np.where(free, gains, -np.inf)
        best = gains.max(axis=1)
        # equal to rounding: the first in the order of the stream
        winner = np.argmax(gains >= (best - 1e-9 * np.abs(best))[:, None], axis=1)
        can = np.flatnonzero(np.isfinite(best))
        if not len(can):
            break
        if len(can) < len(alive):
            batch.keep_machines(can)
        at, alive = (can, winner[can]), alive[can]
        batch.border(K[index[at]], Phi[at], np.sqrt(distances[at]))
        taken[alive, index[at]] = True
        batch.retrain(0.0, 100, enough=1e-12)
        outputs[step, alive] = batch.f
    return outputs.reshape(d_max, F, nC, n)
