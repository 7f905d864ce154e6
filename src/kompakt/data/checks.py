"""What rows must hold wherever they come from: finite numbers, and a target in every row.

Arrays are checked by scikit-learn's validation; streamed rows, Dask partitions and rows given to a `Model` by these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse


def refuse_non_finite(X: Any, where: Callable[[int], str] | None = None) -> None:
    """Raise a ValueError that names the first row of X with a NaN or an infinity; `where` puts a row into words.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.checks import refuse_non_finite
    >>> refuse_non_finite(np.array([[1.0], [np.inf]]))
    Traceback (most recent call last):
        ...
    ValueError: Input X contains NaN or infinity, first in row 1. Fill or drop such rows.
    """
    values = X.data if sparse.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()  # one number to look at where all is well
    if np.isfinite(total):
        return
    finite = np.isfinite(values)
    if finite.all():
        return
    if sparse.issparse(X):
        row = int(np.searchsorted(X.indptr, np.flatnonzero(~finite)[0], side="right")) - 1
    else:
        row = int(np.flatnonzero(~finite.all(axis=1))[0])
    place = f"row {row}" if where is None else where(row)
    raise ValueError(f"Input X contains NaN or infinity, first in {place}. Fill or drop such rows.")


def summed_entries(X: Any) -> Any:
    """A CSR matrix that stores every entry once, in order; the matrix itself where it does, and a dense X as it is.

    SciPy allows an entry to be stored in several parts that count by their sum.  Whatever reads the stored numbers
    (variances, largest values, searches for NaN) needs the sums.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from kompakt.data.checks import summed_entries
    >>> X = sparse.csr_matrix((np.array([1.0, 2.0]), [0, 0], [0, 2]), shape=(1, 1))
    >>> summed_entries(X).data, X.data
    (array([3.]), array([1., 2.]))
    """
    if not sparse.issparse(X) or X.has_canonical_format:
        return X
    X = X.copy()  # the user's matrix stays as it is
    X.sum_duplicates()
    return X


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
    return np.array([any(_is_missing(one) for one in row) for row in table], dtype=bool)


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
