"""Rows held in memory: dense arrays and CSR matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.rows.base import RowBlock, Rows
from kompakt.rows.hashing import hash_rows, smallest_distinct


class ArrayRows(Rows):
    """Dense or CSR rows in memory, with optional targets and weights.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
    targets : ndarray of shape (n, L), optional
    weights : ndarray of shape (n,) or (n, L), optional
        None means 1 for every row.
    offset : ndarray of shape (d,), optional
        Subtracted from every block of dense rows (kernels of distances do not change, their rounding does).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.rows import ArrayRows
    >>> rows = ArrayRows(np.arange(6.0).reshape(3, 2))
    >>> rows.map_reduce(lambda block: (block.X.sum(axis=0),), block_rows=2)
    (array([6., 9.]),)
    """

    def __init__(
        self,
        X: Any,
        targets: np.ndarray | None = None,
        weights: np.ndarray | None = None,
        offset: np.ndarray | None = None,
    ) -> None:
        self.X = X
        self.targets = targets
        self.weights = weights
        self.is_sparse = sparse.issparse(X)
        self.offset = None if offset is None or self.is_sparse else offset.astype(X.dtype)
        self.n_rows, self.n_features = X.shape
        self.n_outputs = 1 if targets is None else targets.shape[1]
        #: where the rows are some of the rows of a kernel matrix: their numbers in it (None: all, in order)
        self.numbers: np.ndarray | None = None
        #: labels or values as they were given, where the rows were taken from a source
        self.y: np.ndarray | None = None
        self.w: np.ndarray | None = None
        #: of rows standardised on the way: from the user's units to theirs
        self.to_inputs: Callable[[Any], Any] | None = None
        # Sparse rows are never centred, so their distances need float64 (see kernels.base.dense_rows).
        self.dtype = np.dtype(np.float64) if self.is_sparse else X.dtype

    def _rows(self, start: int, stop: int) -> Any:
        X = self.X[start:stop]
        return X if self.offset is None else X - self.offset

    def block(self, start: int, stop: int) -> RowBlock:
        return RowBlock(
            start,
            stop,
            self._rows,
            None if self.targets is None else self.targets[start:stop],
            None if self.weights is None else self.weights[start:stop],
        )

    def take(self, indices: np.ndarray) -> Any:
        X = self.X[indices]
        return X if self.offset is None else X - self.offset

    def as_inputs(self, X: Any) -> Any:
        """Vectors in the user's units as these rows have them before centring."""
        return X if self.to_inputs is None else self.to_inputs(X)

    def originals(self, indices: np.ndarray) -> Any:
        """Rows by number as they were given, not centred."""
        return self.X[indices]

    def hashes(self, key: int) -> np.ndarray:
        """A keyed hash of every row, (n,); see `hash_rows`."""
        return hash_rows(self.X, key)

    def smallest(self, key: int, count: int) -> np.ndarray:
        """Numbers of the rows with the `count` smallest distinct hashes, in the order of the hash."""
        return smallest_distinct(self.hashes(key), count)

    @property
    def mass(self) -> float:
        """Sum of the weights, over all outputs where each has its own."""
        return float(self.n_rows) if self.weights is None else float(np.sum(self.weights))

    @property
    def weight_columns(self) -> int:
        """0 without weights, 1 where outputs share them, else their number."""
        return 0 if self.weights is None else 1 if self.weights.ndim == 1 else self.weights.shape[1]

    def subset(self, index: np.ndarray) -> ArrayRows:
        """Some of the rows with their targets and weights, centred alike, knowing their numbers here."""
        part = ArrayRows(
            self.X[index],
            None if self.targets is None else self.targets[index],
            None if self.weights is None else self.weights[index],
        )
        part.offset = self.offset
        part.numbers = index if self.numbers is None else self.numbers[index]
        part.to_inputs = self.to_inputs
        return part
