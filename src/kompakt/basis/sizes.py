"""Size, C and kernel parameter by cross-validation (Keerthi et al. 2006, section 4): one growth per fold, all sizes.

Rows that a fold holds out stay in its machine with weight 0, so their predictions come with the growth.  All machines
of a grid try the same candidates at the same step.  Kernel matrices that fit in memory are made from one matrix of
distances or products for all widths, and the machines of one matrix are grown side by side where they can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from kompakt.basis.columns import KernelColumns, MatrixColumns, SharedKernels
from kompakt.basis.forward import CandidateStream, Growth, GrowthPlan, training_weights
from kompakt.basis.growing import GrowingMachine
from kompakt.data import ArrayRows, hash_rows, row_weights
from kompakt.heldout import Scorer, Split, pooled
from kompakt.kernels import Kernel
from kompakt.parallel import ordered_map
from kompakt.solve.line_search import minimise_along
from kompakt.spec import Data, Spec

Array = np.ndarray


def stream_of(data: Data, plan: GrowthPlan) -> CandidateStream:
    """Candidates that all machines of a cross-validation try, as far as their fold does not hold them out."""
    return CandidateStream.of(hash_rows(data.in_memory.X, plan.run.key), plan.run.key)


def _error_and_loss(scorer: Scorer, outputs: Array) -> Array:
    """Share of wrong labels and mean loss of outputs (..., n, L), (2, ...)."""
    return np.stack([scorer.mean(scorer.row_errors(outputs)), scorer.mean(scorer.row_losses(outputs))])


def _masses(rows: ArrayRows, splits: Sequence[Split]) -> list[float]:
    """Weight of the rows that each fold holds out."""
    return [float(row_weights(rows)[held].sum()) for _, held in splits]


def fold_errors(
    data: Data, spec: Spec, plan: GrowthPlan, stream: CandidateStream, split: Split, columns: KernelColumns
) -> Array:
    """Validation error and loss of one fold at every size, (2, d_max); infinite where growth ended before."""
    # on a thread of the pool: nothing is shown, written or kept
    run = plan.run.quiet()
    weights = training_weights(data.in_memory, split[0])
    machine = GrowingMachine.on_rows(columns, spec, plan.n_basis, weights, run.memory_budget)

    scorer = Scorer.of(data, spec, split[1])

    def measure(machine: GrowingMachine) -> dict[str, float]:
        return dict(zip(("error", "loss"), _error_and_loss(scorer, machine.f.T[split[1]]).tolist(), strict=True))

    plan = replace(plan, shrinking=False, run=run)
    records = Growth(machine, stream.within(np.sort(split[0])), plan, measure).grow()
    errors = np.full((2, plan.n_basis), np.inf)
    errors[:, : len(records)] = [[record[name] for record in records] for name in ("error", "loss")]
    return errors


def size_errors(data: Data, spec: Spec, plan: GrowthPlan, splits: Sequence[Split]) -> Array:
    """Validation error of every size, (d_max,), pooled over the held-out rows of all folds."""
    stream = stream_of(data, plan)
    columns = KernelColumns(data.in_memory, spec.kernel, block_rows=1024)
    of_folds = ordered_map(lambda split: fold_errors(data, spec, plan, stream, split, copy(columns))[0], splits)
    results = plan.run.tracked(of_folds, "folds", len(splits))
    return np.asarray(pooled(np.stack(list(results)), _masses(data.in_memory, splits), axis=0))


def best_point(errors: Array, losses: Array, tolerance: float = 0.0) -> tuple[int, int, int]:
    """Kernel, C and size: the smallest size within `tolerance` of the lowest error of all points.

    Of several such points the one with the lower error, then with the lower held-out loss.
    """
    rounded = np.round(errors, 12)
    close = np.argwhere(rounded <= np.min(rounded) + tolerance)
    kernel, C, size = min(close.tolist(), key=lambda at: (at[2], rounded[tuple(at)], losses[tuple(at)]))
    return kernel, C, size + 1


def tune_grid(
    data: Data,
    spec: Spec,
    plan: GrowthPlan,
    splits: Sequence[Split],
    kernels: Sequence[Kernel],
    C_grid: Array,
    *,
    plus_one: bool = False,
) -> tuple[Array, Array]:
    """Validation errors and losses over kernels x C x sizes, (n_kernels, nC, d_max) each.

    Kernels must differ only in parameters that `Kernel.finish` applies; `plus_one` adds 1 to each.  Grid points run in
    parallel; the result does not depend on the number of threads.
    """
    rows, stream = data.in_memory, stream_of(data, plan)
    shared = SharedKernels.of(rows, kernels[0], plan.run.budget)
    # side by side: one output, method 2, retraining always
    simple = plan.selection in ("sp2", "kmp") and plan.retraining == "always" and plan.run.deadline is None
    simple = simple and rows.n_outputs == 1

    def errors_of(kernel: Kernel) -> Array:
        """Validation errors and losses (2, nC, d_max)."""
        columns = shared.columns(kernel, float(plus_one))
        if simple and isinstance(columns, MatrixColumns):
            outputs = grow_batch(data, spec, plan, splits, stream, columns.matrix, C_grid)
            grown = ~np.isnan(outputs[..., 0])  # (d_max, nC, F)
            outputs = np.where(grown[..., None], outputs, 0.0)[..., None]
            of_folds = [
                _error_and_loss(Scorer.of(data, spec, held), outputs[:, :, k, held])
                for k, (_, held) in enumerate(splits)
            ]
            errors = np.where(grown.transpose(1, 2, 0)[:, :, None], np.stack(of_folds).transpose(3, 0, 1, 2), np.inf)
        else:
            points = [(replace(spec, C=float(C)), split) for C in C_grid for split in splits]
            of_points = ordered_map(lambda at: fold_errors(data, at[0], plan, stream, at[1], copy(columns)), points)
            errors = np.stack(list(of_points)).reshape(len(C_grid), len(splits), 2, -1)
        return np.moveaxis(pooled(errors, _masses(rows, splits), axis=1), 1, 0)

    errors_and_losses = np.stack(list(plan.run.tracked(ordered_map(errors_of, kernels), "search", len(kernels))))
    return errors_and_losses[:, 0], errors_and_losses[:, 1]


def grow_batch(
    data: Data,
    spec: Spec,
    plan: GrowthPlan,
    splits: Sequence[Split],
    stream: CandidateStream,
    K: Array,
    C_grid: Array,
) -> Array:
    """Predictions of the machines of all C and folds at every size, (d_max, nC, F, n); NaN beyond what one could grow.

    Every machine has its own basis but they share the kernel matrix K of all rows and candidates, and each step is a
    handful of array operations with a leading axis over the machines.  Method 2 scores, retraining at every step; the
    result is that of `forward.Growth`, machine by machine.
    """
    F, n, loss = len(splits), len(K), spec.loss
    fold = np.tile(np.arange(F), len(C_grid))
    weights = np.stack([training_weights(data.in_memory, train).reshape(n) for train, _ in splits])
    costs = weights[fold] * np.repeat(C_grid, F)[:, None]
    assert data.rows.targets is not None
    columns = MatrixColumns(ArrayRows(K, np.repeat(data.rows.targets, len(fold), axis=1), costs.T), K)
    batch = GrowingMachine(columns, replace(spec, C=1.0), plan.n_basis, batch=True)
    batch.retrain(0.0, 100, enough=1e-12)
    streams = [stream.within(np.sort(train)) for train, _ in splits]
    taken, alive, diagonal = np.zeros((len(fold), n), dtype=bool), np.arange(len(fold)), np.diag(K)
    outputs = np.full((plan.n_basis, len(fold), n), np.nan)
    for step in range(plan.n_basis):
        drawn = np.full((F, plan.n_candidates), -1, dtype=np.intp)
        for of_fold, within in zip(drawn, streams, strict=True):
            rows = within.draw(step, plan.n_candidates, set())
            of_fold[: len(rows)] = rows
        tried = drawn[fold[alive]]  # (machines, kappa)
        index = np.maximum(tried, 0)
        linear = np.take_along_axis(batch.f, index, axis=1) - (batch.theta[:, :1] if batch.first else 0.0)
        counted = batch.cost if plan.score_rows == "all" else batch.cost * (loss.gradient(batch.y, batch.f) != 0)
        directions = K[np.maximum(drawn, 0)]
        _, gains = minimise_along(
            loss, batch.y, batch.f, counted, directions, linear, diagonal[index], group=fold[alive]
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
    return outputs.reshape(plan.n_basis, len(C_grid), F, n)
