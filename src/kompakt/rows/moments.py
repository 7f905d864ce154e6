"""Weighted means and variances over row blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.rows.arrays import ArrayRows
from kompakt.rows.base import RowBlock


def column_means(X: Any, weights: np.ndarray | None = None, block_rows: int = 4096) -> np.ndarray:
    """Weighted mean of every column in float64, (d,)."""
    total, mass = _reduce(X, weights, lambda rows, w: (np.asarray(rows.T @ w).ravel(),), block_rows)
    return total / mass


def total_variance(X: Any, weights: np.ndarray | None = None, block_rows: int = 4096) -> float:
    """Weighted variance of all entries together: `X.var()` when unweighted.  Two passes, so offsets do no harm."""
    means = column_means(X, weights, block_rows)
    if sparse.issparse(X):
        # the entries not stored are zeros: each is a squared mean away from the mean
        mean = float(means.mean())
        within, stored, mass = _reduce(X, weights, lambda rows, w: _stored_squares(rows, w, mean), block_rows)
        return float((within + (mass * X.shape[1] - stored) * mean**2) / (mass * X.shape[1]))
    within, mass = _reduce(X, weights, lambda rows, w: (w @ np.square(rows - means),), block_rows)
    return float(within.sum() / (mass * X.shape[1]) + np.var(means))


def _stored_squares(rows: Any, w: np.ndarray, mean: float) -> tuple[np.ndarray, np.ndarray]:
    """Sums over the stored entries of w (x - mean)^2 and of w."""
    w = np.repeat(w, np.diff(rows.indptr))
    return np.asarray(w @ np.square(rows.data - mean)), np.asarray(w.sum())


def _reduce(
    X: Any, weights: np.ndarray | None, sums: Callable[[Any, np.ndarray], tuple[np.ndarray, ...]], block_rows: int
) -> tuple[Any, ...]:
    """Sums of `sums(rows, w)` over float64 row blocks, followed by the sum of the weights."""

    def one(block: RowBlock) -> tuple[np.ndarray, ...]:
        w = np.ones(len(block)) if block.weights is None else block.weights
        return *sums(block.X.astype(np.float64), w), np.array(w.sum())

    return ArrayRows(X, weights=weights).map_reduce(one, block_rows)
