"""Weighted means and variances over row blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from kompakt.rows.arrays import ArrayRows


def column_means(X: Any, weights: np.ndarray | None = None, block_rows: int = 4096) -> np.ndarray:
    """Weighted mean of every column in float64, (d,)."""
    total, mass = _weighted_sums(X, weights, None, block_rows)
    return total / mass


def total_variance(X: Any, weights: np.ndarray | None = None, block_rows: int = 4096) -> float:
    """Weighted variance of all entries together: `X.var()` when unweighted.  Two passes, so offsets do no harm."""
    means = column_means(X, weights, block_rows)
    if sparse.issparse(X):
        squares, mass = _weighted_sums(X.multiply(X).tocsr(), weights, None, block_rows)
        return float(max(0.0, squares.sum() / (mass * X.shape[1]) - means.mean() ** 2))
    within, mass = _weighted_sums(X, weights, means, block_rows)
    return float(within.sum() / (mass * X.shape[1]) + np.var(means))


def _weighted_sums(
    X: Any, weights: np.ndarray | None, centre: np.ndarray | None, block_rows: int
) -> tuple[np.ndarray, float]:
    """Sums over rows of w x, or of w (x - centre)^2, and the sum of the weights."""

    def sums(block: Any) -> tuple[np.ndarray, ...]:
        w = np.ones(len(block)) if block.weights is None else block.weights
        rows = block.X
        if sparse.issparse(rows):
            return np.asarray(rows.T @ w, dtype=np.float64).ravel(), np.array(w.sum())
        values = rows.astype(np.float64)
        if centre is not None:
            values = np.square(values - centre)
        return w @ values, np.array(w.sum())

    total, mass = ArrayRows(X, weights=weights).map_reduce(sums, block_rows)
    return total, float(mass)
