"""The record that every selector returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["Selection", "dense_rows"]


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
    >>> from kompakt.select import Selection
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
