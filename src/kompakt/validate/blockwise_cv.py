"""Cross-validation when the features do not fit in memory (seed 002, algorithm 4 and its last sentence).

Features arrive in blocks of rows. A first pass adds up the normal equations of each fold, a second one
computes the residuals; only (n_folds, p, p) sums, or the share of them that the memory allows, are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kompakt.validate._fold_methods import FoldSums
from kompakt.validate._ridge import FloatArray, IntArray, checked_amounts, checked_constraints, checked_problem

__all__ = ["cross_validated_path_blockwise", "cross_validated_residuals_blockwise"]

# Rows of one fold are collected until there are this many: sums of a few rows at a time are bound by memory.
ROWS_AT_ONCE = 256


def cross_validated_residuals_blockwise(
    blocks: Callable[[], Iterable[ArrayLike]],
    Y: ArrayLike,
    fold_of_row: ArrayLike,
    penalty: ArrayLike,
    weights: ArrayLike | None = None,
    memory_budget: float = 1e9,
) -> NDArray[np.float64]:
    """Twin of `cross_validated_residuals` for features delivered in blocks of rows.

    Parameters
    ----------
    blocks : callable
        Returns a fresh iteration over the features: arrays (n_b, p) that follow the order of Y. It is called
        to see the first block, then once per group of folds whose sums fit the budget, then once more.
    Y, fold_of_row, penalty, weights
        As for `cross_validated_residuals`. A hold-out estimate (algorithm 4) has fold 0 for the validation
        rows and -1 for all others.
    memory_budget : float
        Bytes for the per-fold sums. With fewer, folds are summed in groups, one pass over the blocks each.

    Returns
    -------
    ndarray shaped like Y
        Y minus the out-of-fold prediction; NaN for rows of fold -1. The result does not depend on where the
        blocks begin and end.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.validate import cross_validated_residuals, cross_validated_residuals_blockwise
    >>> rng = np.random.default_rng(0)
    >>> Phi, Y, fold = rng.normal(size=(60, 5)), rng.normal(size=60), np.arange(60) % 4
    >>> def blocks():
    ...     return (Phi[i : i + 7] for i in range(0, 60, 7))
    >>> streamed = cross_validated_residuals_blockwise(blocks, Y, fold, 0.1)
    >>> bool(np.allclose(streamed, cross_validated_residuals(Phi, Y, fold, 0.1), rtol=0, atol=1e-12))
    True
    """
    path = cross_validated_path_blockwise(
        blocks, Y, fold_of_row, [1.0], weights, shape=penalty, memory_budget=memory_budget
    )
    return path[0]


def cross_validated_path_blockwise(
    blocks: Callable[[], Iterable[ArrayLike]],
    Y: ArrayLike,
    fold_of_row: ArrayLike,
    penalties: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    shape: ArrayLike = 1.0,
    memory_budget: float = 1e9,
    constraints: tuple[ArrayLike, ArrayLike] | None = None,
) -> NDArray[np.float64]:
    """Twin of `cross_validated_path` for features delivered in blocks of rows: two passes serve all penalties.

    Parameters
    ----------
    blocks, Y, fold_of_row, weights, memory_budget
        As for `cross_validated_residuals_blockwise`.
    penalties : array of shape (n_penalties,)
        Positive amounts.
    shape : float or array of shape (p,) or (p, p)
        The penalty is amount * shape; a 0 on the diagonal leaves that column free.
    constraints : (array of shape (k, p), int array of shape (k,)), optional
        As for `cross_validated_residuals`.

    Returns
    -------
    ndarray of shape (n_penalties, *Y.shape)
        Residuals; NaN for rows of fold -1.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.validate import cross_validated_path, cross_validated_path_blockwise
    >>> rng = np.random.default_rng(0)
    >>> Phi, Y, fold = rng.normal(size=(60, 5)), rng.normal(size=60), np.arange(60) % 4
    >>> streamed = cross_validated_path_blockwise(lambda: iter([Phi[:25], Phi[25:]]), Y, fold, [0.1, 1.0])
    >>> bool(np.allclose(streamed, cross_validated_path(Phi, Y, fold, [0.1, 1.0])))
    True
    """
    n = len(np.asarray(Y))
    p = _width(blocks)
    targets, fold, unit, sample_weight = checked_problem(n, p, Y, fold_of_row, shape, weights)
    amounts = checked_amounts(penalties)
    root = None if sample_weight is None else np.sqrt(sample_weight)
    n_folds, L = int(fold.max()) + 1, targets.shape[1]
    held_out = np.empty((n_folds, p, len(amounts), L))
    per_fold = checked_constraints(constraints, p, n_folds)
    for group in _fold_groups(n_folds, p, memory_budget):
        # Folds outside the group count as rows that are always trained on; the sums stay exact.
        local = np.where(np.isin(fold, group), fold - group[0], -1)
        sums = FoldSums.zeros(len(group), p, L)
        _accumulate(sums, blocks, targets, local, root)
        for k, amount in enumerate(amounts):
            own = None if per_fold is None else [per_fold[v] for v in group]
            held_out[group, :, k] = sums.held_out_weights(amount * unit, own)
    repeated = np.tile(targets, (1, len(amounts)))  # (n, n_penalties * L): all penalties in one product
    residuals = _second_pass(blocks, repeated, fold, held_out.reshape(n_folds, p, -1))
    return np.moveaxis(residuals.reshape(n, len(amounts), L), 1, 0).reshape(len(amounts), *np.shape(Y))


def _width(blocks: Callable[[], Iterable[ArrayLike]]) -> int:
    first = next(iter(blocks()), None)
    if first is None:
        raise ValueError("blocks() gave no block of features; it must return a fresh iteration at each call.")
    array = np.asarray(first)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"Each block of features must have shape (n_b, p), got {array.shape}.")
    return array.shape[1]


def _fold_groups(n_folds: int, p: int, memory_budget: float) -> list[IntArray]:
    per_fold = 8.0 * p * (p + ROWS_AT_ONCE)
    at_once = max(1, min(n_folds, int(memory_budget // per_fold) - 3))
    return [np.arange(i, min(i + at_once, n_folds)) for i in range(0, n_folds, at_once)]


def _numbered_blocks(blocks: Callable[[], Iterable[ArrayLike]], n: int, p: int) -> Iterable[tuple[slice, FloatArray]]:
    """Blocks with the rows they hold; checks that they cover all rows once and are finite."""
    start = 0
    for block in blocks():
        features = np.ascontiguousarray(block, dtype=np.float64)
        if features.ndim != 2 or features.shape[1] != p or start + len(features) > n:
            raise ValueError(
                f"A block of shape {features.shape} after {start} rows does not fit {n} rows of {p} features."
            )
        if not np.isfinite(features).all():
            raise ValueError(f"The block of features at row {start} holds NaN or infinite values.")
        yield slice(start, start + len(features)), features
        start += len(features)
    if start != n:
        raise ValueError(f"The blocks hold {start} rows in all, but Y has {n}; blocks() must start afresh.")


def _accumulate(
    sums: FoldSums,
    blocks: Callable[[], Iterable[ArrayLike]],
    targets: FloatArray,
    fold: IntArray,
    root: FloatArray | None,
) -> None:
    """First pass. Each fold fills its own buffer, emptied at fixed counts whatever the blocks are."""
    n_folds, p, n_outputs = sums.rights.shape
    waiting = np.empty((n_folds + 1, ROWS_AT_ONCE, p))
    waiting_targets = np.empty((n_folds + 1, ROWS_AT_ONCE, n_outputs))
    filled = np.zeros(n_folds + 1, dtype=np.intp)

    def empty(v: int) -> None:
        sums.add(v, waiting[v, : filled[v]], waiting_targets[v, : filled[v]])
        filled[v] = 0

    for rows, features in _numbered_blocks(blocks, len(targets), p):
        values = targets[rows]
        if root is not None:
            features, values = features * root[rows, None], values * root[rows, None]
        here = fold[rows]
        order = np.argsort(here, kind="stable")
        present, starts = np.unique(here[order], return_index=True)
        for v, members in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
            while len(members):
                taken = members[: ROWS_AT_ONCE - filled[v]]
                place = slice(filled[v], filled[v] + len(taken))
                waiting[v, place], waiting_targets[v, place] = features[taken], values[taken]
                filled[v] += len(taken)
                members = members[len(taken) :]
                if filled[v] == ROWS_AT_ONCE:
                    empty(v)
    for v in range(-1, n_folds):  # -1 is the last buffer: rows never held out
        empty(v)


def _second_pass(
    blocks: Callable[[], Iterable[ArrayLike]], targets: FloatArray, fold: IntArray, held_out: FloatArray
) -> FloatArray:
    residuals = np.full(targets.shape, np.nan)
    for rows, features in _numbered_blocks(blocks, len(targets), held_out.shape[1]):
        for v in np.unique(fold[rows]):
            if v >= 0:
                members = np.flatnonzero(fold[rows] == v)
                residuals[rows.start + members] = targets[rows][members] - features[members] @ held_out[v]
    return residuals
