"""Random and given basis vectors, and all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from kompakt.data import ArrayRows
from kompakt.kernels import Kernel


@dataclass(frozen=True)
class Selection:
    """Basis vectors and how they were chosen.

    Attributes
    ----------
    indices : ndarray of shape (m,) or None
        Row numbers of the vectors in the matrix they came from; None when they are no rows of it.
    vectors : ndarray of shape (m, d)
        The vectors, dense float64.
    scores : ndarray of shape (m,) or None
        The selector's score of each vector; its meaning is the selector's.
    factor : ndarray or None
        A factor of the kernel matrix of the vectors where the selector has one for free.
    info : dict
        What happened: counts, criterion values, flags.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis import Selection
    >>> Selection(indices=np.array([4, 1]), vectors=np.eye(2)).n_basis
    2
    """

    indices: NDArray[np.intp] | None
    vectors: NDArray[np.float64]
    scores: NDArray[np.float64] | None = None
    factor: NDArray[np.float64] | None = None
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def n_basis(self) -> int:
        """Number of vectors m."""
        return len(self.vectors)


def dense_rows(X: Any, indices: NDArray[np.intp]) -> NDArray[np.float64]:
    """Rows `indices` of a dense or CSR matrix as a dense float64 array; no other row is made dense."""
    rows = X[indices]
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)


Array = np.ndarray


@dataclass(frozen=True)
class RandomSelector:
    """Distinct rows chosen by a keyed hash of their content: the same for any order of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.basis import RandomSelector
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
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.basis import GivenSelector
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
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.basis import AllSelector
    >>> X = np.array([[1.0], [1.0], [2.0]])
    >>> AllSelector().select(ArrayRows(X), RBF(1.0), 1, key=0).n_basis
    2
    """

    def select(self, rows: ArrayRows, kernel: Kernel, n_basis: int, *, key: int) -> Selection:
        """All distinct rows, in the order of their hash."""
        return RandomSelector().select(rows, kernel, rows.n_rows, key=key)
