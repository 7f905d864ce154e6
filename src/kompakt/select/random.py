"""Random and given basis vectors, and all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kompakt.kernels import Kernel
from kompakt.rows import ArrayRows
from kompakt.select.base import Selection

Array = np.ndarray


@dataclass(frozen=True)
class RandomSelector:
    """Distinct rows chosen by a keyed hash of their content: the same for any order of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> from kompakt.rows import ArrayRows
    >>> from kompakt.select import RandomSelector
    >>> X = np.array([[1.0], [1.0], [2.0]])
    >>> sorted(RandomSelector().select(ArrayRows(X), RBF(1.0), 5, key=3).vectors.ravel())
    [np.float64(1.0), np.float64(2.0)]
    """

    streams: ClassVar[bool] = True  # reads rows by passes, in bounded memory

    def select(self, rows: ArrayRows, kernel: Kernel, n_basis: int, *, key: int) -> Selection:
        """The `n_basis` distinct rows with the smallest hashes, fewer if there are fewer."""
        indices = rows.smallest(key, n_basis)
        return Selection(indices=indices, vectors=kernel.take_basis(rows, indices))


@dataclass(frozen=True)
class GivenSelector:
    """Basis vectors that the user gives, in the units of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> from kompakt.rows import ArrayRows
    >>> from kompakt.select import GivenSelector
    >>> GivenSelector(np.ones((2, 1))).select(ArrayRows(np.eye(1)), RBF(1.0), 2, key=0).n_basis
    2
    """

    vectors: Any
    streams: ClassVar[bool] = True  # reads no rows

    def select(self, rows: ArrayRows, kernel: Kernel, n_basis: int, *, key: int) -> Selection:
        """The given vectors, checked against the rows."""
        vectors = np.asarray(self.vectors)
        if vectors.ndim == 2 and vectors.shape[1] == rows.n_features:
            vectors = rows.as_inputs(vectors)
        vectors = np.array(vectors, dtype=rows.dtype)
        if vectors.ndim != 2 or vectors.shape[1] != rows.n_features or not len(vectors):
            raise ValueError(
                f"given basis vectors must have shape (m, {rows.n_features}) with m >= 1, one row per vector; "
                f"got {vectors.shape}."
            )
        if not np.all(np.isfinite(vectors)):
            raise ValueError("given basis vectors must be finite; got NaN or infinity.")
        return Selection(indices=None, vectors=vectors if rows.offset is None else vectors - rows.offset)


@dataclass(frozen=True)
class AllSelector:
    """Every distinct row: the full machine, whatever `n_basis` says.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> from kompakt.rows import ArrayRows
    >>> from kompakt.select import AllSelector
    >>> X = np.array([[1.0], [1.0], [2.0]])
    >>> AllSelector().select(ArrayRows(X), RBF(1.0), 1, key=0).n_basis
    2
    """

    def select(self, rows: ArrayRows, kernel: Kernel, n_basis: int, *, key: int) -> Selection:
        """All distinct rows, in the order of their hash."""
        return RandomSelector().select(rows, kernel, rows.n_rows, key=key)
