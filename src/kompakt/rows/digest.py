"""What identifies rows: sums of hashes over inputs, targets and weights, in one pass over any source."""

from __future__ import annotations

from typing import Any

import numpy as np

from kompakt.rows.base import RowBlock, Rows, Sums
from kompakt.rows.hashing import hash_numbers, hash_rows


def content_of(rows: Rows, block_rows: int = 4096) -> dict[str, str]:
    """Digests of inputs, targets and weights by name; they depend on the values and their order, not on blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.rows import ArrayRows
    >>> from kompakt.rows.digest import content_of
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> content_of(ArrayRows(X)) == content_of(ArrayRows(X), block_rows=2)
    True
    >>> content_of(ArrayRows(X)) == content_of(ArrayRows(X[::-1]))
    False
    """
    names = ("inputs", "targets", "weights")
    return {name: _word(sums) for name, sums in zip(names, rows.map_reduce(_sums, block_rows), strict=True)}


def _sums(block: RowBlock) -> Sums:
    place = hash_numbers(block.start, block.stop, 1)
    return tuple(_pieces(part, place) for part in (block.X, block.targets, block.weights))


def _pieces(values: Any, place: np.ndarray) -> np.ndarray:
    """Sums of 16-bit pieces of the hashes: exact in float64 for up to 2^37 rows."""
    if values is None:
        return np.zeros(4)
    matrix = values.reshape(len(place), -1) if isinstance(values, np.ndarray) else values
    words = hash_rows(matrix, 1) ^ place
    shifts = np.arange(0, 64, 16, dtype=np.uint64)
    return np.asarray(np.sum((words[:, None] >> shifts) & np.uint64(0xFFFF), axis=0), dtype=np.float64)


def _word(sums: np.ndarray) -> str:
    return "-".join(f"{int(total):x}" for total in sums)
