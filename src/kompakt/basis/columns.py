"""Kernel values that growth asks for, counted and kept where a cache is given, and the blocks of rows they come in.

Growth needs two shapes: the column of a chosen row against all rows, and candidates against the active rows.  With a
cache, the full columns of candidates that were tried are kept (Keerthi et al. 2006, section 3.3) until its memory is
full; then the column used longest ago makes room.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kompakt.data import ArrayRows, tree_sum
from kompakt.design import choose_block_rows
from kompakt.kernels import Kernel, Precomputed
from kompakt.parallel import ordered_map

Array = np.ndarray


class RowBlocks:
    """Row ranges of `size` rows each; sums over them do not depend on the number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.columns import RowBlocks
    >>> values = np.arange(5.0)
    >>> RowBlocks(5, 2).total(lambda rows: (values[rows].sum(keepdims=True),))
    (array([10.]),)
    """

    def __init__(self, n_rows: int, size: int) -> None:
        self._slices = [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)] or [slice(0, 0)]

    def total(self, function: Callable[[slice], tuple[Array, ...]]) -> tuple[Array, ...]:
        """Sum the arrays that `function(rows)` returns."""
        return function(self._slices[0]) if len(self._slices) == 1 else tree_sum(ordered_map(function, self._slices))

    def each(self, function: Callable[[slice], None]) -> None:
        """Call `function(rows)` for its effect on disjoint slices of the caller's arrays."""
        if len(self._slices) == 1:
            function(self._slices[0])
            return
        for _ in ordered_map(function, self._slices):
            pass


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
