"""What rows must hold wherever they come from: finite numbers in one layout, and a target in every row.

Arrays are checked by scikit-learn's validation; streamed rows, Dask partitions and rows given to a `Model` by these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from kompakt.imports import sparse


class RowError(ValueError):
    """What is wrong with a row; `naming_rows` gives the row another name than its number.

    Parameters
    ----------
    message : str
        With ``{}`` where the row is named.
    row : int

    Examples
    --------
    >>> from kompakt.data.checks import RowError
    >>> str(RowError("{} is empty.", 3))
    'row 3 is empty.'
    """

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message, row)
        self.message, self.row = message, row

    def __str__(self) -> str:
        return self.message.format(f"row {self.row}")


@contextmanager
def naming_rows(where: Callable[[int], str]) -> Iterator[None]:
    """Let `where(row)` name the row of an error.

    Examples
    --------
    >>> from kompakt.data.checks import RowError, naming_rows
    >>> with naming_rows(lambda row: f"line {row + 2}"):
    ...     raise RowError("{} is empty.", 3)
    Traceback (most recent call last):
        ...
    ValueError: line 5 is empty.
    """
    try:
        yield
    except RowError as error:
        raise ValueError(error.message.format(where(error.row))) from None


def canonical(X: Any) -> Any:
    """Rows in the one layout that is computed with, for BLAS gives other last bits in another one.

    Dense rows are in C order; indices of CSR rows are sorted, and entries given twice are added up.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.checks import canonical
    >>> canonical(np.ones((3, 2)).T).flags.c_contiguous
    True
    """
    if not sparse.issparse(X):
        return np.ascontiguousarray(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def refuse_non_finite(X: Any, first: int = 0) -> None:
    """Raise a `RowError` for the first row of X with a NaN or an infinity; row 0 of X is row `first` in the error.

    Squares may overflow on the way, of which NumPy warns unless it is told not to.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.checks import refuse_non_finite
    >>> refuse_non_finite(np.array([[1.0], [np.inf]]))
    Traceback (most recent call last):
        ...
    kompakt.data.checks.RowError: Input X contains NaN or infinity, first in row 1. Fill or drop such rows.
    """
    values = X.data if sparse.issparse(X) else X
    if math.isfinite(np.vdot(values, values)):  # one number to look at where all is well
        return
    finite = np.isfinite(values)
    if finite.all():
        return
    if sparse.issparse(X):
        row = int(np.searchsorted(X.indptr, np.flatnonzero(~finite)[0], side="right")) - 1
    else:
        row = int(np.flatnonzero(~finite.all(axis=1))[0])
    raise RowError("Input X contains NaN or infinity, first in {}. Fill or drop such rows.", first + row)


def missing(y: np.ndarray) -> np.ndarray:
    """Which rows lack a target, (n,): NaN and infinity among numbers; None, NaN and pandas' NA among objects.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.checks import missing
    >>> missing(np.array(["yes", None, "no"], dtype=object)).tolist()
    [False, True, False]
    """
    table = y.reshape(len(y), -1)
    if y.dtype.kind == "f":
        return np.asarray(~np.isfinite(table).all(axis=1))
    if y.dtype.kind != "O":
        return np.zeros(len(y), dtype=bool)
    return np.array([any(_is_missing(value) for value in row) for row in table], dtype=bool)


def _is_missing(value: Any) -> bool:
    # pandas' NA is known by name: comparing it gives NA again, and pandas need not be there
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def as_strings(values: Any, lacking: np.ndarray) -> np.ndarray:
    """Labels as an array of str; where some are `lacking` (n,), as objects with None in their place.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.checks import as_strings
    >>> labels = np.array(["a", "b"], dtype=object)
    >>> as_strings(labels, np.array([False, False])).dtype.kind, as_strings(labels, np.array([False, True])).tolist()
    ('U', ['a', None])
    """
    labels: np.ndarray = np.asarray(values)
    if not lacking.any():
        return np.asarray(labels.astype(str) if labels.dtype == object else labels)
    strings = np.where(lacking, "", labels).astype(str).astype(object)
    strings[lacking] = None
    return strings
