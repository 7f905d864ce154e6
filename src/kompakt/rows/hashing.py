"""Choosing rows by a keyed hash of their content.

The hash sees a row as canonical float64 (-0 is 0, zeros contribute nothing, so dense and CSR agree).  Rows with the
smallest hashes are a random sample of the distinct rows that does not depend on the order of the rows, on blocks or
on partitions; equal rows hash alike and count once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from kompakt.threads import ordered_map

_BLOCK = 4096


def _mix(x: np.ndarray) -> np.ndarray:
    """A bijective scrambler of 64-bit words (xor-shift and multiply), in place."""
    with np.errstate(over="ignore"):
        x ^= x >> np.uint64(30)
        x *= np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(27)
        x *= np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return x


def _keys(n_features: int, key: int) -> np.ndarray:
    """One word for the row itself, then one per column: without the first, a row of zeros would hash to 0 always."""
    columns = np.arange(1, n_features + 2, dtype=np.uint64)
    with np.errstate(over="ignore"):
        return _mix(columns * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key & 0xFFFFFFFFFFFFFFFF))


def hash_rows(X: Any, key: int) -> np.ndarray:
    """A 64-bit hash of every row, (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from kompakt.rows import hash_rows
    >>> X = np.array([[0.0, 1.0], [-0.0, 1.0]], dtype=np.float32)
    >>> bool((hash_rows(X, 7) == hash_rows(sparse.csr_matrix(X), 7)).all())
    True
    """
    keys = _keys(X.shape[1], key)
    one = _hash_sparse if sparse.issparse(X) else _hash_dense
    bounds = range(0, X.shape[0], _BLOCK)
    parts = list(ordered_map(lambda start: one(X[start : start + _BLOCK], keys), bounds))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def _hash_dense(X: np.ndarray, keys: np.ndarray) -> np.ndarray:
    values = np.ascontiguousarray(X, dtype=np.float64)
    words = values.view(np.uint64) ^ keys[1:]
    words = _mix(words)
    words[values == 0] = 0
    with np.errstate(over="ignore"):
        return _mix(words.sum(axis=1, dtype=np.uint64) + keys[0])


def _hash_sparse(X: Any, keys: np.ndarray) -> np.ndarray:
    X = sparse.csr_matrix(X, copy=True)
    X.sum_duplicates()
    values = X.data.astype(np.float64)
    words = _mix(values.view(np.uint64) ^ keys[1:][X.indices])
    words[values == 0] = 0
    # cumulative sums wrap modulo 2^64, and so do their differences: the row sums are exact
    with np.errstate(over="ignore"):
        ends = np.concatenate([[np.uint64(0)], np.cumsum(words, dtype=np.uint64)])[X.indptr]
        return _mix(ends[1:] - ends[:-1] + keys[0])


def hash_numbers(start: int, stop: int, key: int) -> np.ndarray:
    """A 64-bit hash of the row numbers start..stop: a random choice of rows that does not depend on their content.

    Examples
    --------
    >>> from kompakt.rows import hash_numbers
    >>> bool((hash_numbers(0, 9, 1)[4:] == hash_numbers(4, 9, 1)).all())
    True
    """
    with np.errstate(over="ignore"):
        words = np.arange(start, stop, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return _mix(_mix(words + np.uint64(key & 0xFFFFFFFFFFFFFFFF)) + np.uint64(0x9E3779B97F4A7C15))


def smallest_distinct(hashes: np.ndarray, count: int, eligible: np.ndarray | None = None) -> np.ndarray:
    """Row numbers of the `count` smallest distinct hashes, in the order of the hash; fewer if there are fewer."""
    candidates = np.arange(len(hashes)) if eligible is None else np.flatnonzero(eligible)
    _, first = np.unique(hashes[candidates], return_index=True)
    return candidates[first[:count]]
