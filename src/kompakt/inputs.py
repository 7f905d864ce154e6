"""Everything that happens to a row before the kernel, in one object and one order.

columns of a table -> fill gaps -> shift and scale -> linear map:   x' = map (x - shift) / scale
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.data.table import TableSchema, is_table

Array = np.ndarray

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
#: smallest spread that features are divided by: smaller ones would make infinities
_LEAST_SCALE = 1e-300


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
        Linear map of the shifted and scaled features: the kernel sees r numbers for each row.
    centre : ndarray of shape (d,), optional
        Numerical centre: subtracted from dense rows and basis alike before distances are formed, whose rounding alone
        it changes.

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

    def __post_init__(self) -> None:
        for name, values in self.arrays().items():
            object.__setattr__(self, name, in_one_layout(values))

    @classmethod
    def of_table(cls, schema: TableSchema, table: Any) -> Inputs:
        """Features of mean 0 and variance 1 over a table; one that does not vary is shifted only.

        Examples
        --------
        >>> from kompakt.data.table import TableSchema
        >>> from kompakt.inputs import Inputs
        >>> table = {"x": [1.0, 3.0], "y": [7.0, 7.0]}
        >>> inputs = Inputs.of_table(TableSchema.infer(table), table)
        >>> inputs.transform(inputs.encoded(table)).tolist()
        [[-1.0], [1.0]]
        """
        features = schema.encode(table)
        spread = features.std(axis=0)
        spread[spread <= np.maximum(1e-12 * np.abs(features).max(axis=0, initial=0.0), _LEAST_SCALE)] = 1.0
        return cls(schema, shift=features.mean(axis=0), scale=spread)

    def arrays(self) -> dict[str, Array]:
        """The arrays that there are, by name."""
        names = ("fill", "shift", "scale", "map", "centre")
        return {name: values for name in names if (values := getattr(self, name)) is not None}

    def describe(self) -> list[str]:
        """What is done to a row, for people."""
        facts = []
        if self.schema is not None:
            facts.append(f"takes tables of {len(self.schema.names)} columns")
        if self.fill is not None:
            facts.append("fills missing values")
        if self.shift is not None or self.scale is not None:
            facts.append("scales its inputs")
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

        With `reach`, numbers beyond it are set to it after the scaling, and again after the map.
        """
        dtype = X.dtype
        if self.shift is not None:
            X = (X.toarray() if sparse.issparse(X) else X) - self.shift
        if self.scale is not None:
            X = X.multiply(1.0 / self.scale).tocsr() if sparse.issparse(X) else X / self.scale
        X = X if reach is None else _within(X, reach)
        if self.map is not None:
            X = np.asarray(X @ self.map.T).astype(dtype, copy=False)  # shifted first, so float32 loses nothing
            X = X if reach is None else _within(X, reach)
        return X

    # -- and back --------------------------------------------------------------------------------------

    def inverse(self, vectors: Array) -> Array:
        """Features whose transform the vectors are; with a map, the shortest such ones."""
        if self.map is not None:
            vectors = np.linalg.lstsq(self.map, vectors.T.astype(np.float64), rcond=1e-12)[0].T
        if self.scale is not None:
            vectors = vectors * self.scale
        return vectors if self.shift is None else vectors + self.shift

    def after(self, before: Inputs) -> Inputs:
        """The inputs that do what `before` does, which has no map, and then what these do.

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
