"""Kernel values that growth asks for, counted, and kept where a cache is given.

Growth needs two shapes: the columns of rows against all rows, and of candidates against the active rows.  With a cache,
the full columns of candidates that were tried are kept (Keerthi et al. 2006, section 3.3) until its memory is full;
then the column used longest ago makes room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kompakt.data import ArrayRows, RowBlock
from kompakt.data.rows import blocks
from kompakt.design import choose_block_rows
from kompakt.kernels import Kernel, Precomputed
from kompakt.parallel import ordered_map

Array = np.ndarray


class KernelColumns:
    """Kernel values of rows against candidate rows.

    Parameters
    ----------
    rows : ArrayRows
    kernel : Kernel
    n_cached : int
        Number of full columns to keep.
    block_rows : int, optional
        Rows per block.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.columns import KernelColumns
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.kernels import Linear
    >>> columns = KernelColumns(ArrayRows(np.arange(3.0)[:, None]), Linear(), n_cached=1)
    >>> columns.columns(np.array([2])).tolist(), columns.columns(np.array([2]), rows=np.array([1])).tolist()
    ([[0.0, 2.0, 4.0]], [[2.0]])
    >>> columns.n_evals
    3
    """

    def __init__(self, rows: ArrayRows, kernel: Kernel, n_cached: int = 0, block_rows: int | None = None) -> None:
        self.rows, self.kernel, self.n_evals = rows, kernel, 0
        self._block_rows = choose_block_rows(rows.n_features) if block_rows is None else block_rows
        self._live: tuple[Array | None, ArrayRows] = (None, rows)
        self._chosen: tuple[Array | None, ArrayRows] = (None, rows)
        self._cache = np.empty((n_cached, rows.n_rows))
        self._slots: dict[int, int] = {}  # of the columns in the cache, in the order of last use

    def some(self, rows: Array) -> ArrayRows:
        """Some of the rows, without targets."""
        return ArrayRows(self.rows.X[rows], offset=self.rows.offset, dtype=self.rows.dtype)

    def narrow(self, live: Array) -> None:
        """Compute columns for these rows only (shrinking)."""
        self._live = live, self.some(live)

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

    def columns(self, indices: Array, rows: Array | None = None) -> Array:
        """The live rows, or some rows by number, against several rows: (k, n)."""
        if len(self._cache):
            chosen = self._live[0] if rows is None else rows
            return np.stack([self._cached(int(index))[slice(None) if chosen is None else chosen] for index in indices])
        if rows is not None and self._chosen[0] is not rows:  # the active rows stay the same between retrainings
            self._chosen = rows, self.some(rows)
        return self.values((self._live if rows is None else self._chosen)[1], self.vectors(indices))

    def values(self, rows: ArrayRows, vectors: Array) -> Array:
        """Rows against given vectors, (m, n)."""
        self.n_evals += rows.n_rows * len(vectors)
        values = np.empty((rows.n_rows, len(vectors)))

        def one(block: RowBlock) -> None:
            values[block.start : block.stop] = self.kernel.block(block.X, vectors)

        for _ in ordered_map(one, list(blocks(rows, self._block_rows, (0, rows.n_rows)))):
            pass
        return np.ascontiguousarray(values.T)

    def _cached(self, index: int) -> Array:
        """A full column; one that is not there is computed, in place of the one used longest ago when full."""
        slot = self._slots.pop(index, None)
        if slot is None:
            full = len(self._slots) == len(self._cache)
            slot = self._slots.pop(next(iter(self._slots))) if full else len(self._slots)
            self._cache[slot] = self.values(self.rows, self.vectors(np.array([index])))[0]
        self._slots[index] = slot
        found: Array = self._cache[slot]
        return found


class MatrixColumns(KernelColumns):
    """Kernel values that are read from the matrix of all rows, which many machines share."""

    def __init__(self, rows: ArrayRows, matrix: Array) -> None:
        super().__init__(rows, Precomputed(matrix))
        self.matrix = matrix

    def diagonal(self, indices: Array) -> Array:
        return np.asarray(self.matrix[indices, indices])

    def columns(self, indices: Array, rows: Array | None = None) -> Array:
        return np.asarray(self.matrix[indices] if rows is None else self.matrix[np.ix_(indices, rows)])


class SharedKernels(NamedTuple):
    """Kernel values of all rows for kernels that differ only in parameters that `Kernel.finish` applies.

    Where their matrices fit in memory, they are made from one matrix of distances or products.
    """

    rows: ArrayRows
    pre: Array | None

    @classmethod
    def of(cls, rows: ArrayRows, kernel: Kernel, budget: int) -> SharedKernels:
        """For kernels like this one."""
        n = rows.n_rows
        if 3 * 8 * n * n > budget:
            return cls(rows, None)
        pre = kernel.pre(rows.take(np.arange(n)), kernel.take_basis(rows, np.arange(n))).astype(np.float64)
        return cls(rows, 0.5 * (pre + pre.T))

    def columns(self, kernel: Kernel, plus: float = 0.0) -> KernelColumns:
        """The values of a kernel, and a constant on top."""
        if self.pre is None:
            return KernelColumns(self.rows, kernel + plus if plus else kernel, block_rows=1024)
        K = kernel.finish(self.pre.copy())
        np.fill_diagonal(K, kernel.diag(self.rows.take(np.arange(len(K)))))
        return MatrixColumns(self.rows, K + plus if plus else K)
