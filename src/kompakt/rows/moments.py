"""Weighted means and variances over row blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.rows.arrays import ArrayRows
from kompakt.rows.base import RowBlock, Rows

_STEADY_BITS = 40
#: block size of all sums of a first pass: those over streamed rows must agree with those in memory to the last bit
MOMENT_ROWS = 4096


def _is_sparse(X: Any) -> bool:
    return bool(X.is_sparse) if isinstance(X, Rows) else sparse.issparse(X)  # type: ignore[attr-defined]


def column_means(X: Any, weights: np.ndarray | None = None, block_rows: int = MOMENT_ROWS) -> np.ndarray:
    """Weighted mean of every column in float64, (d,)."""
    total, mass = _reduce(X, weights, lambda rows, w: (np.asarray(rows.T @ w).ravel(),), block_rows)
    return total / mass


def centre_of(X: Any, weights: np.ndarray | None = None, block_rows: int = MOMENT_ROWS) -> np.ndarray:
    """A point near the mean of dense rows, the same to the last bit for any order of the rows, (d,).

    Sums in another order differ in their last bits; a basis that is nearly dependent would blow this up to differing
    coefficients.  So the means are rounded to 2^-40 of the mean absolute value: as good a centre as any.
    """
    return centre_from(*_reduce(X, weights, centre_sums, block_rows))


def centre_sums(rows: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the entries and of their sizes, for `centre_from`."""
    return w @ rows, w @ np.abs(rows)


def centre_from(total: np.ndarray, size: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """The centre from the sums of the entries, of their sizes, and of the weights."""
    quantum = np.exp2(np.ceil(np.log2(np.maximum(size / mass, np.finfo(np.float64).tiny))) - _STEADY_BITS)
    return np.round(total / mass / quantum) * quantum


def steady(value: float) -> float:
    """A sum rounded to 40 bits, so that it does not depend on the order of its terms."""
    mantissa, exponent = np.frexp(value)
    return float(np.ldexp(np.round(mantissa * 2.0**_STEADY_BITS), exponent - _STEADY_BITS))


def total_variance(
    X: Any, weights: np.ndarray | None = None, block_rows: int = MOMENT_ROWS, centre: np.ndarray | None = None
) -> float:
    """Weighted variance of all entries together: `X.var()` when unweighted.  Two passes, so offsets do no harm.

    X may be a matrix or rows with their weights; one pass less where their `centre_of` is known.
    """
    if _is_sparse(X):
        # the entries not stored are zeros: each is a squared mean away from the mean
        mean = float(column_means(X, weights, block_rows).mean())
        within, stored, mass = _reduce(X, weights, lambda rows, w: _stored_squares(rows, w, mean), block_rows)
        return float((within + (mass * X.shape[1] - stored) * mean * mean) / (mass * X.shape[1]))
    centre = centre_of(X, weights, block_rows) if centre is None else centre
    first, second, mass = _reduce(X, weights, lambda rows, w: _centred_powers(rows - centre, w), block_rows)
    between = centre - centre.mean() - (first / mass).mean()  # from the mean of all entries to the centres
    return float(max(0.0, np.mean(second / mass + 2.0 * between * first / mass + between**2)))


def _centred_powers(rows: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(over="ignore"):  # a variance that is not finite is the caller's to refuse
        return w @ rows, w @ np.square(rows)


def _stored_squares(rows: Any, w: np.ndarray, mean: float) -> tuple[np.ndarray, np.ndarray]:
    """Sums over the stored entries of w (x - mean)^2 and of w."""
    w = np.repeat(w, np.diff(rows.indptr))
    with np.errstate(over="ignore"):
        return np.asarray(w @ np.square(rows.data - mean)), np.asarray(w.sum())


def _reduce(
    X: Any, weights: np.ndarray | None, sums: Callable[[Any, np.ndarray], tuple[np.ndarray, ...]], block_rows: int
) -> tuple[Any, ...]:
    """Sums of `sums(rows, w)` over float64 row blocks, followed by the sum of the weights."""

    def one(block: RowBlock) -> tuple[np.ndarray, ...]:
        w = np.ones(len(block)) if block.weights is None else block.weights
        return *sums(block.X.astype(np.float64), w), np.array(w.sum())

    rows = X if isinstance(X, Rows) else ArrayRows(X, weights=weights)
    return rows.map_reduce(one, block_rows)
