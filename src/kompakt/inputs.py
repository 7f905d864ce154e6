"""Everything that happens to a row before the kernel, in one object and one order.

columns of a table -> fill gaps -> shift and scale -> bend -> linear map:   x' = map bends((x - shift) / scale)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kompakt.data.table import TableSchema, is_table
from kompakt.imports import sparse
from kompakt.piecewise import PiecewiseLinear

Array = np.ndarray

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
#: smallest spread that features are divided by: smaller ones would make infinities
_LEAST_SCALE = 1e-300
#: fields of `Inputs` that are arrays
_ARRAYS = ("fill", "shift", "scale", "map", "centre")


@dataclass(frozen=True, eq=False)
class Inputs:
    """How a row becomes what the kernel sees; nothing but this object standardises or imputes.

    Parameters
    ----------
    schema : TableSchema, optional
        How the columns of a table become features.
    fill : ndarray of shape (d,), optional
        What replaces NaN, in the units of the features.
    shift, scale : ndarray of shape (d,), optional
        What is subtracted from the features, and what they are then divided by.
    map : ndarray of shape (r, d), optional
        Linear map of the shifted, scaled and bent features: the kernel sees r numbers for each row.
    centre : ndarray of shape (d,), optional
        Numerical centre: subtracted from dense rows and basis alike before distances are formed, whose rounding alone
        it changes.  Not with a map or bends, where the shift does it.
    bends : PiecewiseLinear, optional
        Transform of every shifted and scaled feature, before the map.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.inputs import Inputs
    >>> inputs = Inputs(fill=np.array([3.0]), shift=np.array([1.0]), scale=np.array([2.0]))
    >>> inputs.transform(inputs.filled(np.array([[5.0], [np.nan]]))).ravel()
    array([2., 1.])
    """

    schema: TableSchema | None = None
    fill: Array | None = None
    shift: Array | None = None
    scale: Array | None = None
    map: Array | None = None
    centre: Array | None = None
    bends: PiecewiseLinear | None = None

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, in_one_layout(values))

    @classmethod
    def of_arrays(cls, schema: TableSchema | None, arrays: dict[str, Array]) -> Inputs:
        """The inputs with the arrays that `arrays` gave."""
        plain = {name: values for name, values in arrays.items() if name in _ARRAYS}
        bent = {name: values for name, values in arrays.items() if name not in _ARRAYS}
        return cls(schema, **plain, bends=PiecewiseLinear.of_arrays(**bent) if bent else None)

    @classmethod
    def standardising(cls, features: Array, schema: TableSchema | None = None) -> Inputs:
        """Inputs that give features mean 0 and variance 1; one that does not vary is shifted only.

        Examples
        --------
        >>> import numpy as np
        >>> from kompakt.inputs import Inputs
        >>> features = np.array([[1.0, 7.0], [3.0, 7.0]])
        >>> Inputs.standardising(features).transform(features).tolist()
        [[-1.0, 0.0], [1.0, 0.0]]
        """
        features = np.asarray(features, dtype=np.float64)
        spread = features.std(axis=0)
        spread[spread <= np.maximum(1e-12 * np.abs(features).max(axis=0, initial=0.0), _LEAST_SCALE)] = 1.0
        return cls(schema, shift=features.mean(axis=0), scale=spread)

    def arrays(self) -> dict[str, Array]:
        """The arrays that there are, by name; bends are three (`PiecewiseLinear.arrays`)."""
        plain = {name: values for name in _ARRAYS if (values := getattr(self, name)) is not None}
        return plain if self.bends is None else plain | self.bends.arrays()

    def describe(self) -> list[str]:
        """What is done to a row, for people."""
        facts = []
        if self.schema is not None:
            facts.append(f"takes tables of {len(self.schema.names)} columns")
        if self.fill is not None:
            facts.append("fills missing values")
        if self.shift is not None or self.scale is not None:
            facts.append("scales its inputs")
        if self.bends is not None:
            facts.append("bends its features")
        if self.map is not None:
            facts.append(f"maps its inputs to {len(self.map):,}")
        return facts

    # -- the steps, in their order ---------------------------------------------------------------------

    def encoded(self, X: Any) -> Any:
        """The features of a table; anything else as it is."""
        return self.schema.encode(X) if self.schema is not None and is_table(X) else X

    def filled(self, X: Any) -> Any:
        """Features without gaps; in a sparse matrix only stored entries can be NaN."""
        if self.fill is None:
            return X
        if not sparse.issparse(X):
            return np.where(np.isnan(X), self.fill.astype(X.dtype), X)
        X = X.tocsr(copy=True)
        missing = np.flatnonzero(np.isnan(X.data))
        X.data[missing] = self.fill[X.indices[missing]]
        return X

    def transform(self, X: Any, reach: float | None = None) -> Any:
        """Features as the kernel sees them.

        With `reach`, numbers beyond it are set to it after the scaling, and again after bends and map.
        """
        dtype = X.dtype
        if self.shift is not None:
            X = (X.toarray() if sparse.issparse(X) else X) - self.shift
        if self.scale is not None:
            X = X.multiply(1.0 / self.scale).tocsr() if sparse.issparse(X) else X / self.scale
        X = X if reach is None else _within(X, reach)
        if self.bends is None and self.map is None:
            return X
        if self.bends is not None:
            X = self.bends(X.toarray() if sparse.issparse(X) else X)
        X = X if self.map is None else np.asarray(X @ self.map.T)
        X = X.astype(dtype, copy=False)  # shifted first, so float32 loses nothing
        return X if reach is None else _within(X, reach)

    # -- and back --------------------------------------------------------------------------------------

    def inverse(self, vectors: Array) -> Array:
        """Features whose transform the vectors are; with a map, the shortest such ones.

        Bends may take a value several times or never: then the features nearest to the shift, among those whose
        transform comes nearest to the vectors.
        """
        vectors = self.unmapped(vectors)
        if self.bends is not None:
            vectors = self.bends.nearest(vectors)
        if self.scale is not None:
            vectors = vectors * self.scale
        return vectors if self.shift is None else vectors + self.shift

    def unmapped(self, vectors: Array) -> Array:
        """The shortest vectors that are mapped to these: what stands before the map."""
        if self.map is None:
            return vectors
        return np.asarray(np.linalg.lstsq(self.map, vectors.T.astype(np.float64), rcond=1e-12)[0].T)

    def after(self, before: Inputs) -> Inputs:
        """The inputs that do what `before` does, which has neither bends nor map, and then what these do.

        Examples
        --------
        >>> import numpy as np
        >>> from kompakt.inputs import Inputs
        >>> both = Inputs(shift=np.array([1.0])).after(Inputs(shift=np.array([5.0]), scale=np.array([2.0])))
        >>> both.shift, both.scale
        (array([7.]), array([2.]))
        """
        fill, shift, scale = before.fill, before.shift, before.scale
        if fill is None and self.fill is not None:
            fill = before.inverse(self.fill.astype(np.float64))
        if self.shift is not None:
            shift = before.inverse(self.shift.astype(np.float64))
        if self.scale is not None:
            scale = self.scale if scale is None else scale * self.scale
        return replace(self, schema=before.schema or self.schema, fill=fill, shift=shift, scale=scale)


def in_one_layout(numbers: Any) -> Array:
    """Numbers in C order as float32 or float64, which is what files give back; anything else as it is."""
    values: Array = np.asarray(numbers)
    if values.dtype.kind not in "fiub":
        return values
    return np.ascontiguousarray(values, dtype=values.dtype if values.dtype in FLOATS else np.float64)


def _within(X: Any, reach: float) -> Any:
    """X with numbers beyond `reach` set to it."""
    if not sparse.issparse(X):
        return np.clip(X, -reach, reach)
    return sparse.csr_matrix((np.clip(X.data, -reach, reach), X.indices, X.indptr), shape=X.shape)
