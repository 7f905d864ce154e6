"""Size, C and kernel parameter by cross-validation (Keerthi et al. 2006, section 4): one growth per fold, all sizes.

Rows that a fold holds out stay in its machine with weight 0, so their predictions come with the growth.  All machines
of a grid try the same candidates at the same step.  Kernel matrices that fit in memory are made from one matrix of
distances or products for all widths, and the machines of one matrix are grown side by side where they can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kompakt.basis.columns import KernelColumns
from kompakt.basis.forward import CandidateStream, GrowthPlan, grow
from kompakt.basis.growing import GrowingMachine, minimise_along
from kompakt.data import ArrayRows, hash_rows
from kompakt.kernels import Kernel, Precomputed
from kompakt.losses import Loss
from kompakt.parallel import ordered_map
from kompakt.spec import Data, Spec
from kompakt.validation import Split

Array = np.ndarray


def stream_of(data: Data, plan: GrowthPlan) -> CandidateStream:
    """Candidates that all machines of a cross-validation try, as far as their fold does not hold them out."""
    return CandidateStream.of(hash_rows(data.in_memory.X, plan.run.key), plan.run.key)


def fold_weights(rows: ArrayRows, split: Split) -> Array:
    """Row weights with 0 for all rows that the fold does not train on."""
    train, given = split[0], rows.weights
    weights = np.zeros((rows.n_rows,) if given is None else given.shape)
    weights[train] = 1.0 if given is None else given[train]
    return weights


def _held_out(data: Data, spec: Spec, outputs: Array, split: Split) -> tuple[float, float]:
    """Weighted share of the held-out rows that outputs (n, L) get wrong, and their mean loss."""
    held, given, targets, labels = split[1], data.rows.weights, data.rows.targets, data.labels
    assert targets is not None
    assert labels is not None
    wrong = spec.decode(outputs[held]) != labels[held]
    losses = np.sum(spec.loss.value(targets[held], outputs[held]), axis=1)
    weights = given[held] if given is not None and given.ndim == 1 else None
    return float(np.average(wrong, weights=weights)), float(np.average(losses, weights=weights))


def _pooled(rows: ArrayRows, splits: Sequence[Split], errors: Array, axis: int) -> Array:
    """Errors of the folds pooled over their held-out rows, not averaged over folds.

    Folds of unequal size would break ties between sizes that make the same number of mistakes.
    """
    given = rows.weights
    weight = given if given is not None and given.ndim == 1 else np.ones(rows.n_rows)
    return np.average(errors, axis=axis, weights=[weight[held].sum() for _, held in splits])


def fold_errors(data: Data, spec: Spec, plan: GrowthPlan, stream: CandidateStream, split: Split) -> Array:
    """Validation error and loss of one fold at every size, (2, d_max); infinite where growth ended before."""
    # on a thread of the pool: nothing is shown, written or kept
    run = plan.run.quiet()
    columns = KernelColumns(data.in_memory, spec.kernel, block_rows=1024)
    weights = fold_weights(data.in_memory, split)
    machine = GrowingMachine.on_rows(columns, spec, plan.n_basis, weights, run.memory_budget)

    def measure(machine: GrowingMachine) -> dict[str, float]:
        error, loss = _held_out(data, spec, machine.f.T, split)
        return {"error": error, "loss": loss}

    records = grow(machine, stream.within(np.sort(split[0])), replace(plan, shrinking=False, run=run), measure)
    errors = np.full((2, plan.n_basis), np.inf)
    errors[:, : len(records)] = [[record[name] for record in records] for name in ("error", "loss")]
    return errors


def size_errors(data: Data, spec: Spec, plan: GrowthPlan, splits: Sequence[Split]) -> Array:
    """Validation error of every size, (d_max,), pooled over the held-out rows of all folds."""
    stream = stream_of(data, plan)
    results = ordered_map(lambda split: fold_errors(data, spec, plan, stream, split)[0], splits)
    return _pooled(data.in_memory, splits, np.stack(list(plan.run.tracked(results, "folds", len(splits)))), axis=0)


def best_point(errors: Array, losses: Array) -> tuple[int, int, int]:
    """Kernel, C and size of the lowest error; ties go to the smaller size, then to the lower held-out loss."""
    rounded = np.round(errors, 12)
    ties = np.argwhere(rounded == np.min(rounded))
    kernel, C, size = min(ties.tolist(), key=lambda at: (at[2], losses[tuple(at)]))
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
    rows, n, stream = data.rows, data.rows.n_rows, stream_of(data, plan)
    pre: Array | None = None
    if 3 * 8 * n * n <= plan.run.budget:
        X = rows.take(np.arange(n))
        pre = kernels[0].pre(X, kernels[0].take_basis(rows, np.arange(n))).astype(np.float64)
        pre = 0.5 * (pre + pre.T)
    # side by side: one output, method 2, retraining always
    simple = plan.selection in ("sp2", "kmp") and plan.retraining == "always" and plan.run.deadline is None
    simple = simple and rows.n_outputs == 1

    def errors_of(kernel: Kernel) -> Array:
        """Validation errors and losses (2, nC, d_max)."""
        if pre is None:
            used, own = data, replace(spec, kernel=kernel + 1.0 if plus_one else kernel)
        else:
            K = kernel.finish(pre.copy())
            np.fill_diagonal(K, kernel.diag(X))
            K += float(plus_one)
            if simple:
                return _side_by_side(data, spec, plan, splits, stream, K, C_grid)
            used = replace(data, rows=ArrayRows(K, rows.targets, rows.weights))
            own = replace(spec, kernel=Precomputed(K))
        points = [(replace(own, C=float(C)), split) for C in C_grid for split in splits]
        found = ordered_map(lambda point: fold_errors(used, point[0], plan, stream, point[1]), points)
        errors = np.stack(list(found)).reshape(len(C_grid), len(splits), 2, -1)
        return np.moveaxis(_pooled(data.in_memory, splits, errors, axis=1), 1, 0)

    both = np.stack(list(plan.run.tracked(ordered_map(errors_of, kernels), "search", len(kernels))))
    return both[:, 0], both[:, 1]


def _side_by_side(
    data: Data,
    spec: Spec,
    plan: GrowthPlan,
    splits: Sequence[Split],
    stream: CandidateStream,
    K: Array,
    C_grid: Array,
) -> Array:
    """Validation errors and losses (2, nC, d_max) of all C and folds at once."""
    F, targets = len(splits), data.rows.targets
    assert targets is not None
    candidates = np.full((F, plan.n_basis, plan.n_candidates), -1, dtype=np.intp)
    for fold, (train, _) in enumerate(splits):
        own = stream.within(np.sort(train))
        for step in range(plan.n_basis):
            drawn = own.draw(step, plan.n_candidates, set())
            candidates[fold, step, : len(drawn)] = drawn
    outputs = grow_batch(
        K,
        targets[:, 0],
        np.stack([fold_weights(data.in_memory, split).reshape(len(K)) for split in splits]),
        C_grid,
        candidates,
        spec.loss,
        fit_intercept=spec.fit_intercept,
        penalize_intercept=spec.penalize_intercept,
        score_rows=plan.score_rows,
    )
    both = np.full((2, len(C_grid), plan.n_basis, F), np.inf)
    for step, fold, c in np.ndindex(plan.n_basis, F, len(C_grid)):
        f = outputs[step, fold, c]
        if not np.isnan(f[0]):
            both[:, c, step, fold] = _held_out(data, spec, f[:, None], splits[fold])
    return _pooled(data.in_memory, splits, both, axis=3)


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
