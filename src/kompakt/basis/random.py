"""Random and given basis vectors, and all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kompakt.run import Run
from kompakt.spec import Basis, Data, Spec

Array = np.ndarray


@dataclass(frozen=True)
class RandomSelector:
    """Distinct rows chosen by a keyed hash of their content: the same for any order of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.run import Run
    >>> from kompakt.spec import Data, Spec
    >>> from kompakt.basis import RandomSelector
    >>> X = np.array([[1.0], [1.0], [2.0]])
    >>> sorted(RandomSelector().select(Data(ArrayRows(X)), Spec(RBF(1.0)), 5, Run(key=3)).vectors.ravel())
    [np.float64(1.0), np.float64(2.0)]
    """

    streams: ClassVar[bool] = True  # reads rows by passes, in bounded memory

    def select(self, data: Data, spec: Spec, n_basis: int, run: Run) -> Basis:
        """The `n_basis` distinct rows with the smallest hashes, fewer if there are fewer."""
        indices = data.rows.smallest(run.key, n_basis)
        return Basis(indices, spec.kernel.take_basis(data.rows, indices))


@dataclass(frozen=True)
class GivenSelector:
    """Basis vectors that the user gives, in the units of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.run import Run
    >>> from kompakt.spec import Data, Spec
    >>> from kompakt.basis import GivenSelector
    >>> GivenSelector(np.ones((2, 1))).select(Data(ArrayRows(np.eye(1))), Spec(RBF(1.0)), 2, Run(key=0)).n_basis
    2
    """

    vectors: Any
    streams: ClassVar[bool] = True  # reads no rows

    def select(self, data: Data, spec: Spec, n_basis: int, run: Run) -> Basis:
        """The given vectors, checked against the rows."""
        vectors, rows = np.asarray(self.vectors), data.rows
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
        return Basis(None, vectors if rows.offset is None else vectors - rows.offset)


@dataclass(frozen=True)
class AllSelector:
    """Every distinct row: the full machine, whatever `n_basis` says.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.run import Run
    >>> from kompakt.spec import Data, Spec
    >>> from kompakt.basis import AllSelector
    >>> X = np.array([[1.0], [1.0], [2.0]])
    >>> AllSelector().select(Data(ArrayRows(X)), Spec(RBF(1.0)), 1, Run(key=0)).n_basis
    2
    """

    def select(self, data: Data, spec: Spec, n_basis: int, run: Run) -> Basis:
        """All distinct rows, in the order of their hash."""
        return RandomSelector().select(data, spec, data.rows.n_rows, run)
