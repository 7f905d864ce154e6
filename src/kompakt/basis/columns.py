"""Kernel values that growth asks for, counted, and kept where a cache is given.

Growth needs two shapes: the column of a chosen row against all rows, and candidates against the active rows.  With a
cache, the full columns of candidates that were tried are kept (Keerthi et al. 2006, section 3.3) until its memory is
full; then the column used longest ago makes room.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kompakt.data import ArrayRows, RowBlock
from kompakt.design import choose_block_rows
from kompakt.kernels import Kernel, Precomputed

Array = np.ndarray


class ColumnCache:
    """Full kernel columns by row number, in a block of memory of fixed size.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.columns import ColumnCache
    >>> cache = ColumnCache(n_rows=3, n_slots=1)
    >>> cache.get(5, lambda: np.ones(3)); cache.get(5, lambda: np.zeros(3))
    array([1., 1., 1.])
    array([1., 1., 1.])
    """

    def __init__(self, n_rows: int, n_slots: int) -> None:
        self._store = np.empty((max(1, n_slots), n_rows))
        self._slot: dict[int, int] = {}  # in the order of last use

    def get(self, index: int, compute: Callable[[], Array]) -> Array:
        """The column; one that is not there is computed, in place of the one used longest ago when full."""
        slot = self._slot.pop(index, None)
        if slot is None:
            full = len(self._slot) == len(self._store)
            slot = self._slot.pop(next(iter(self._slot))) if full else len(self._slot)
            self._store[slot] = compute()
        self._slot[index] = slot
        found: Array = self._store[slot]
        return found


class KernelColumns:
    """Kernel values of rows against candidate rows.

    Parameters
    ----------
    rows : ArrayRows
    kernel : Kernel
    cache : ColumnCache, optional
    block_rows : int, optional
        Rows per block.
    """

    def __init__(
        self, rows: ArrayRows, kernel: Kernel, cache: ColumnCache | None = None, block_rows: int | None = None
    ) -> None:
        self.rows, self.kernel, self.cache = rows, kernel, cache
        self.n_evals = 0
        self._block_rows = choose_block_rows(rows.n_features) if block_rows is None else block_rows
        self._live = rows
        self._live_index: Array | None = None
        self._gathered: tuple[Array | None, ArrayRows] = (None, rows)

    def narrow(self, live: Array | None) -> None:
        """Compute columns for these rows only (shrinking); None for all rows."""
        self._live_index = live
        self._live = self.rows if live is None else ArrayRows(self.rows.X[live], offset=self.rows.offset)
        self._gathered = (None, self._live)

    def vectors(self, indices: Array) -> Array:
        """Rows as basis vectors."""
        return self.kernel.take_basis(self.rows, np.asarray(indices, dtype=np.intp))

    def diagonal(self, indices: Array) -> Array:
        """k(x, x) of some rows; one evaluation each."""
        self.n_evals += len(indices)
        if isinstance(self.kernel, Precomputed):
            numbers = self.vectors(indices).ravel().astype(np.intp)
            return np.asarray(self.kernel.training[numbers, numbers], dtype=np.float64).ravel()
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

    def against(self, vectors: Array) -> Array:
        """All rows against given vectors, transposed: (m, n)."""
        return np.ascontiguousarray(self._values(self.rows, vectors).T)

    def _cached(self, index: int) -> Array:
        assert self.cache is not None
        return self.cache.get(index, lambda: self._values(self.rows, self.vectors(np.array([index])))[:, 0])

    def _values(self, source: ArrayRows, vectors: Array) -> Array:
        self.n_evals += source.n_rows * len(vectors)
        values = np.empty((source.n_rows, len(vectors)))

        def one(block: RowBlock) -> None:
            values[block.start : block.stop] = self.kernel.block(block.X, vectors)

        source.for_each(one, self._block_rows)
        return values
