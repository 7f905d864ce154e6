"""What is done to rows before training and stored with the machine: missing values, scaling; and which task it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.cli.console import DataError
from kompakt.cli.data import Table
from kompakt.model import Model
from kompakt.rows.source import Raw, Source

Array = np.ndarray

#: rows by which the median of a streamed file is estimated
_MEDIAN_ROWS = 200_000
#: a sparse file with at least this share of entries, and small enough, is handled as dense rows
_DENSE_SHARE, _DENSE_BYTES = 0.2, 1 << 30
#: whole numbers are labels while there are at most so many different ones, or so large a share of the rows
_FEW_LABELS, _LABEL_SHARE = 10, 0.05


@dataclass(frozen=True)
class Preparation:
    """x' = (x with NaN replaced by fill - shift) / scale; None where a step is left out."""

    fill: Array | None = None
    shift: Array | None = None
    scale: Array | None = None

    def apply(self, X: Any) -> Any:
        """Rows as the machine sees them."""
        if self.fill is not None:
            X = np.where(np.isnan(X), self.fill, X)
        if self.shift is not None:
            X = X - self.shift
        if self.scale is not None:
            X = sparse.csr_matrix(X.multiply(1.0 / self.scale)) if sparse.issparse(X) else X / self.scale
        return X

    def stored(self, model: Model, **more: Any) -> Model:
        """The model that prepares its rows itself."""
        from dataclasses import replace

        return replace(model, input_fill=self.fill, input_shift=self.shift, input_scale=self.scale, **more)


def prepared(X: Any, *, impute: bool, scale: bool) -> Preparation:
    """Medians of the columns for missing values, then mean and standard deviation; sparse rows are not shifted.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.cli.prepare import prepared
    >>> prepared(np.array([[1.0], [3.0], [np.nan]]), impute=True, scale=True).fill
    array([2.])
    """
    fill = shift = spread = None
    if impute and not sparse.issparse(X):
        fill = medians(X)
        X = np.where(np.isnan(X), fill, X)
    if scale:
        mean = np.asarray(X.mean(axis=0)).ravel()
        squares = X.multiply(X).mean(axis=0) if sparse.issparse(X) else np.mean(np.square(X - mean), axis=0)
        variance = np.asarray(squares).ravel() - (mean**2 if sparse.issparse(X) else 0.0)
        spread = np.sqrt(np.maximum(variance, 0.0))
        spread = np.where(spread > 0.0, spread, 1.0)
        shift = None if sparse.issparse(X) else mean
    return Preparation(fill, shift, spread)


def medians(X: Array) -> Array:
    """Median of every column without its missing values; a column of missing values only gives 0."""
    empty = np.isnan(X).all(axis=0)
    result = np.zeros(X.shape[1])
    result[~empty] = np.nanmedian(X[:, ~empty], axis=0)
    return result


def check_rows(raw: Raw, table: Table, *, impute: bool, start: int = 0) -> None:
    """Refuse missing and infinite values, by line and column, and say what to do."""
    X = raw.X
    values = X.data if sparse.issparse(X) else X
    if np.all(np.isfinite(values)):
        return
    wrong = np.isinf(values) if impute and not sparse.issparse(X) else ~np.isfinite(values)
    if not wrong.any():
        return
    if sparse.issparse(X):
        at = int(np.flatnonzero(wrong)[0])
        row, column = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])
        value = values[at]
    else:
        row, column = (int(one) for one in np.argwhere(wrong)[0])
        value = X[row, column]
    place = table.place(start + row, column)
    if np.isinf(value):
        raise DataError(f"{place}: an infinite value. Replace it by a number, or leave the cell empty and impute.")
    remedy = (
        "svmlight files cannot be imputed; write a CSV file, or drop the row."
        if sparse.issparse(X)
        else f"Train with --impute median, or fill or drop such rows ({int(np.isnan(X).any(axis=1).sum())} here)."
    )
    raise DataError(f"{place}: a missing value. {remedy}")


def missing_targets(y: Array) -> Array:
    """Which targets are missing.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.cli.prepare import missing_targets
    >>> missing_targets(np.array(["yes", ""])).tolist()
    [False, True]
    """
    if y.dtype.kind in "US":
        from kompakt.cli.recognise import MISSING

        return np.isin(np.char.strip(y), list(MISSING))
    if y.dtype.kind == "f":
        return ~np.isfinite(y)
    return np.zeros(len(y), dtype=bool)


def check_targets(y: Array, table: Table, start: int = 0) -> None:
    """Refuse rows without a target."""
    missing = missing_targets(y)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise DataError(
            f"{table.place(start + row, None)}: the target is missing. Drop such rows ({int(missing.sum())} here) "
            "before training; they can be predicted afterwards."
        )


def task_of(y: Array, given: str | None) -> str:
    """Whether targets are labels or values, where it was not said.

    Numbers are values if some have fractions, or if there are more different ones than 10 and than 5 % of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.cli.prepare import task_of
    >>> task_of(np.array([0, 1, 1]), None), task_of(np.array([0.5, 1.25]), None), task_of(np.arange(40), None)
    ('classify', 'regress', 'regress')
    """
    if given is not None:
        if given == "regress" and y.dtype.kind not in "iuf":
            raise DataError(f"regression needs numbers as targets; got words like {str(y[0])!r}. Use -s classify.")
        return given
    if y.dtype.kind not in "iuf":
        if len(y) > 20 and len(np.unique(y)) > 0.5 * len(y):
            raise DataError(
                f"the target has {len(np.unique(y))} different words in {len(y)} rows, such as {str(y[0])!r}: these "
                "are no labels. Choose another column with --target."
            )
        return "classify"
    if y.dtype.kind == "f":
        return "regress"
    return "classify" if len(np.unique(y)) <= max(_FEW_LABELS, _LABEL_SHARE * len(y)) else "regress"


def task_in_words(task: str, y: Array, given: str | None) -> str:
    """The task and, where the numbers of the target decided it, the flag that decides otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.cli.prepare import task_in_words
    >>> task_in_words("classify", np.array([0, 1, 1]), None)
    '2 classes (-s regress if the target is a quantity)'
    """
    decided = given is None and y.dtype.kind in "iuf"
    if task == "classify":
        return f"{len(np.unique(y))} classes" + (" (-s regress if the target is a quantity)" if decided else "")
    return "regression" + (" (-s classify if the target is a label)" if decided else "")


def dense_if_small(X: Any) -> Any:
    """Sparse rows that are hardly sparse, as dense ones."""
    if not sparse.issparse(X):
        return X
    cells = X.shape[0] * X.shape[1]
    return X.toarray() if X.nnz >= _DENSE_SHARE * cells and 8 * cells <= _DENSE_BYTES else X.tocsr()


class ImputedSource(Source):
    """A source whose missing values are replaced as they are read."""

    def __init__(self, inner: Source, fill: Array) -> None:
        self.inner, self.fill = inner, fill
        for name in ("n_rows", "n_features", "dtype", "is_sparse", "n_targets", "has_weight", "feature_names", "scale"):
            setattr(self, name, getattr(inner, name))
        self.sequential, self.name = inner.sequential, inner.name
        self.n_index_passes = getattr(inner, "n_index_passes", 0)

    def read(self, start: int, stop: int) -> Raw:
        raw = self.inner.read(start, stop)
        return Raw(np.where(np.isnan(raw.X), self.fill, raw.X).astype(self.dtype, copy=False), raw.y, raw.w)

    def where(self, row: int) -> str:
        return self.inner.where(row)

    def bounds(self) -> Array | None:
        return self.inner.bounds()


def streamed_medians(table: Table) -> Array:
    """Medians by evenly spaced rows of a file, all of them where there are few."""
    step = max(1, -(-table.n_rows // _MEDIAN_ROWS))
    return medians(np.concatenate([raw.X[-start % step :: step] for start, raw in table.parts()]))
