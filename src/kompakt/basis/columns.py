"""Kernel values that growth asks for: counted, computed by blocks, and kept where a cache is given.

Growth needs two shapes: the column of a chosen row against all rows, and candidates against the active rows.  With a
cache, the full columns of candidates that were tried are kept (seed 001, section 3.3) until its memory is full; then
the column used longest ago makes room.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from kompakt.basis.blocks import RowBlocks
from kompakt.data import ArrayRows
from kompakt.kernels import Kernel, Precomputed

Array = np.ndarray


class ColumnCache:
    """Full kernel columns by row number, in a block of memory of fixed size.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.columns import ColumnCache
    >>> cache = ColumnCache(n_rows=3, n_slots=1)
    >>> cache.put(5, np.ones(3)); cache.put(7, np.zeros(3))
    >>> cache.get(5) is None, cache.get(7)
    (True, array([0., 0., 0.]))
    """

    def __init__(self, n_rows: int, n_slots: int) -> None:
        self._store = np.empty((max(1, n_slots), n_rows))
        self._slot: dict[int, int] = {}  # in the order of last use
        self.hits = 0
        self.misses = 0

    def get(self, index: int) -> Array | None:
        """The column, or None; counts hits and misses."""
        slot = self._slot.pop(index, None)
        if slot is None:
            self.misses += 1
            return None
        self.hits += 1
        self._slot[index] = slot
        return self._store[slot]

    def put(self, index: int, column: Array) -> None:
        """Keep a column, in place of the one used longest ago when full."""
        slot = self._slot.pop(next(iter(self._slot))) if len(self._slot) == len(self._store) else len(self._slot)
        self._store[slot] = column
        self._slot[index] = slot


class KernelColumns:
    """Kernel values of rows against candidate rows.

    Parameters
    ----------
    rows : ArrayRows
    kernel : Kernel
    block_rows : int
        Rows per block.
    cache : ColumnCache, optional
    """

    def __init__(self, rows: ArrayRows, kernel: Kernel, block_rows: int, cache: ColumnCache | None = None) -> None:
        self.rows, self.kernel, self.cache = rows, kernel, cache
        self.n_evals = 0
        self._block_rows = block_rows
        self._live = rows
        self._live_index: Array | None = None
        self._gathered: tuple[Array | None, Any] = (None, None)

    def narrow(self, live: Array | None) -> None:
        """Compute columns for these rows only (shrinking); None for all rows."""
        self._live_index = live
        self._live = self.rows if live is None else ArrayRows(self.rows.X[live], offset=self.rows.offset)
        self._gathered = (None, None)

    def vectors(self, indices: Array) -> Array:
        """Rows as basis vectors."""
        return self.kernel.take_basis(self.rows, np.asarray(indices, dtype=np.intp))

    def diagonal(self, indices: Array) -> Array:
        """k(x, x) of some rows; one evaluation each."""
        self.n_evals += len(indices)
        if isinstance(self.kernel, Precomputed):
            matrix = self.kernel.training
            picked = matrix[indices, indices]
            return np.asarray(picked, dtype=np.float64).ravel()
        return np.asarray(self.kernel.diag(self.rows.take(np.asarray(indices))), dtype=np.float64)

    def column(self, index: int) -> Array:
        """The live rows against one row, (n_live,)."""
        if self.cache is None:
            return self._values(self._live, self.vectors(np.array([index])))[:, 0]
        full = self._cached(index)
        return full.copy() if self._live_index is None else full[self._live_index]

    def columns(self, indices: Array) -> Array:
        """The live rows against several rows, transposed: (k, n_live)."""
        if self.cache is None:
            return np.ascontiguousarray(self._values(self._live, self.vectors(indices)).T)
        return np.stack([self.column(int(index)) for index in indices])

    def block(self, rows: Array, indices: Array) -> Array:
        """Some rows (numbers in all rows) against several rows, transposed: (k, len(rows))."""
        if self.cache is not None:
            return np.stack([self._cached(int(index))[rows] for index in indices])
        if self._gathered[0] is not rows:  # the active rows stay the same between retrainings
            X = self.rows.X[rows]
            self._gathered = (rows, ArrayRows(X, offset=self.rows.offset))
        return np.ascontiguousarray(self._values(self._gathered[1], self.vectors(indices)).T)

    def pairs(self, rows: Array, vectors: Array) -> Array:
        """Some rows against given vectors, (len(rows), m)."""
        return self._values(ArrayRows(self.rows.X[rows], offset=self.rows.offset), vectors)

    def _cached(self, index: int) -> Array:
        assert self.cache is not None
        column = self.cache.get(index)
        if column is None:
            self.cache.put(index, self._values(self.rows, self.vectors(np.array([index])))[:, 0])
            column = self.cache.get(index)
            self.cache.hits -= 1  # reading back what was just computed is no hit
            assert column is not None
        return column

    def _values(self, source: ArrayRows, vectors: Array) -> Array:
        self.n_evals += source.n_rows * len(vectors)
        values = np.empty((source.n_rows, len(vectors)))

        def one(rows: slice) -> None:
            values[rows] = self.kernel.block(source.block(rows.start, rows.stop).X, vectors)

        if source.n_rows:
            RowBlocks(source.n_rows, self._block_rows).each(one)
        return values


def kernel_matrix(rows: ArrayRows, kernel: Kernel) -> Array:
    """The whole kernel matrix of the rows, symmetric, in float64."""
    X = rows.take(np.arange(rows.n_rows))
    return kernel.gram(X.toarray() if sparse.issparse(X) else np.asarray(X))
