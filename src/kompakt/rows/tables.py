"""Rows in tables with named columns: Parquet by row groups and CSV by ranges of bytes, decoded by pyarrow."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np

from kompakt.rows.checks import as_words
from kompakt.rows.source import ChunkedSource, Raw
from kompakt.rows.text import ByteRange, line_ranges

#: decoded row groups larger than this are kept one per thread, and no more
_LARGE_BYTES = 64 << 20


def pyarrow_module(name: str) -> Any:
    """A module of pyarrow, or an error that says how to get it."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            'reading Parquet and CSV files needs pyarrow; install it with: pip install "kompakt[cli]"'
        ) from error


class _Columns:
    """Which columns of a table are features, targets and weights."""

    def __init__(self, names: list[str], target: Any, weight: Any, columns: Any, what: str) -> None:
        self.what = what
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"{what} has several columns of the name {twice}; rename them.")
        known = dict(zip(names, names, strict=True)) | dict(enumerate(names))

        def find(wanted: Any, role: str) -> str:
            if isinstance(wanted, bool) or wanted not in known:
                raise ValueError(f"{what} has no column {wanted!r} for {role}; its columns are {names}.")
            return known[wanted]

        several = isinstance(target, list | tuple)
        targets = [] if target is None else list(target) if several else [target]
        self.targets = [find(name, "target") for name in targets]
        self.single = not several
        self.weight = None if weight is None else find(weight, "weight")
        taken = {*self.targets, *([] if self.weight is None else [self.weight])}
        if columns is None:
            self.features = [name for name in names if name not in taken]
        else:
            self.features = [find(name, "columns") for name in columns]
            twice = sorted(taken & set(self.features))
            if twice:
                raise ValueError(f"column {twice} of {what} is both a feature and target or weight.")
        if not self.features:
            raise ValueError(f"{what} has no feature columns beside target and weight; its columns are {names}.")

    @property
    def all(self) -> list[str]:
        """Every column that is read, each once."""
        return [*self.features, *self.targets, *([] if self.weight is None else [self.weight])]

    def refuse(self, schema: Any) -> None:
        """Refuse features and weights that are no numbers."""
        types = pyarrow_module("pyarrow").types
        wrong = {}
        for name in [*self.features, *([] if self.weight is None else [self.weight])]:
            kind = schema.field(name).type
            if not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
                wrong[name] = str(kind)
        if wrong:
            raise ValueError(
                f"columns {wrong} of {self.what} are no numbers. Encode categories as numbers before training, for "
                "example one 0/1 column per category (scikit-learn's OneHotEncoder, pandas.get_dummies), or leave "
                "them out with columns=[...]."
            )

    def raw(self, table: Any, dtype: np.dtype) -> Raw:
        """X, y and w of a table; missing values become NaN."""
        X = np.empty((table.num_rows, len(self.features)), dtype=dtype)
        for place, name in enumerate(self.features):
            X[:, place] = _numbers(table.column(name))
        y: np.ndarray | None = None
        if self.targets:
            y = _labels(table.column(self.targets[0]))
            if not self.single:
                y = np.column_stack([_numbers(table.column(name)) for name in self.targets])
        w = None if self.weight is None else _numbers(table.column(self.weight)).astype(np.float64)
        return Raw(X, y, w)


def _numbers(column: Any) -> np.ndarray:
    if column.null_count:
        column = column.cast("double")
    return column.to_numpy()


def _labels(column: Any) -> np.ndarray:
    types = pyarrow_module("pyarrow").types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_floating(column.type) or types.is_integer(column.type):
        return _numbers(column)
    return as_words(column.to_numpy(), column.is_null().to_numpy())


class ParquetSource(ChunkedSource):
    """Rows of Parquet files, decoded one row group at a time.

    Parameters
    ----------
    paths : list of str
    target : str, int, or list of them, optional
        Column of the labels or values; a list gives several regression targets.
    weight : str or int, optional
    columns : list, optional
        Features; None means all other columns.

    Examples
    --------
    >>> import os, tempfile
    >>> import pandas as pd
    >>> from kompakt import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.parquet")
    ...     pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0], "label": ["no", "yes"]}).to_parquet(path)
    ...     rows = open_rows(path, target="label")
    ...     rows.feature_names, rows.read(0, 2).y.tolist()
    (('a', 'b'), ['no', 'yes'])
    """

    def __init__(
        self, paths: list[str], *, target: Any = None, weight: Any = None, columns: Any = None, scale: bool = False
    ) -> None:
        parquet = pyarrow_module("pyarrow.parquet")
        self.name, self.scale = named(paths), scale
        self._groups: list[tuple[str, int]] = []
        sizes, schema = [], None
        for path in paths:
            with parquet.ParquetFile(path) as file:
                here, metadata = file.schema_arrow, file.metadata
            if schema is None:
                schema = here
                self._columns = _Columns(list(schema.names), target, weight, columns, path)
            missing = [name for name in self._columns.all if name not in here.names]
            if missing:
                raise ValueError(f"{path} lacks the columns {missing} that {paths[0]} has.")
            self._columns.refuse(here)
            for group in range(metadata.num_row_groups):
                if metadata.row_group(group).num_rows:
                    self._groups.append((path, group))
                    sizes.append(metadata.row_group(group).num_rows)
        if not sizes:
            raise ValueError(f"{self.name} holds no rows.")
        assert schema is not None
        single = all(str(schema.field(name).type) == "float" for name in self._columns.features)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.n_rows, self.n_features = int(self.starts[-1]), len(self._columns.features)
        self.n_targets = len(self._columns.targets)
        self.has_weight = self._columns.weight is not None
        self.feature_names = tuple(self._columns.features)
        if max(sizes) * self.n_features * self.dtype.itemsize > _LARGE_BYTES:
            self.keep = 2

    def where(self, row: int) -> str:
        chunk = int(np.searchsorted(self.starts, row, side="right")) - 1
        path, group = self._groups[chunk]
        first = next(index for index, (other, _) in enumerate(self._groups) if other == path)
        return f"row {row - int(self.starts[first])} of {path} (row group {group})"

    def load(self, chunk: int) -> Raw:
        path, group = self._groups[chunk]
        with pyarrow_module("pyarrow.parquet").ParquetFile(path) as file:
            table = file.read_row_group(group, columns=self._columns.all, use_threads=False)
        return self._columns.raw(table, self.dtype)


class CsvSource(ChunkedSource):
    r"""Rows of CSV files, decoded some megabytes at a time.

    Opening reads the files once, for the number of rows and the type of the target.  Line ends inside quotes are not
    supported.

    Parameters
    ----------
    paths : list of str
    target, weight, columns
        As in `ParquetSource`.
    delimiter : str, optional
        None means "," and a tab for .tsv files.
    header : bool, default=True
        Whether the first line names the columns; without it they are known by number.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from kompakt import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rows.csv")
    ...     _ = path.write_text("a,b,label\n1,2,x\n3,4,y\n")
    ...     open_rows(path, target="label").read(1, 2).X
    array([[3., 4.]])
    """

    def __init__(
        self,
        paths: list[str],
        *,
        target: Any = None,
        weight: Any = None,
        columns: Any = None,
        scale: bool = False,
        delimiter: str | None = None,
        header: bool = True,
    ) -> None:
        self.name, self.scale = named(paths), scale
        self.n_index_passes = 1
        self._delimiter = delimiter or ("\t" if paths[0].endswith(".tsv") else ",")
        self._ranges: list[ByteRange] = []
        self._types: dict[str, str] = {}
        self._names: list[str] = []
        sizes: list[int] = []
        kinds: set[str] = set()
        for path in paths:
            names, first = self._header(path, header)
            if not self._names:
                self._names = names
                self._columns = _Columns(names, target, weight, columns, path)
            elif names != self._names:
                raise ValueError(f"{path} has the columns {names}; expected {self._names} as in {paths[0]}.")
            for part in line_ranges(path, first):
                table = self._parse(part, self._columns.targets or self._columns.features[:1])
                kinds |= {str(kind) for kind in table.schema.types} if self._columns.targets else set()
                if table.num_rows:
                    self._ranges.append(part)
                    sizes.append(table.num_rows)
        if not sizes:
            raise ValueError(f"{self.name} holds no rows.")
        self._types = dict.fromkeys([*self._columns.features, *filter(None, [self._columns.weight])], "float64")
        if kinds <= {"int64", "double", "null"} or not self._columns.single:
            kind = "int64" if kinds == {"int64"} and self._columns.single else "float64"
        else:
            kind = "bool" if kinds == {"bool"} else "string"
        self._types |= dict.fromkeys(self._columns.targets, kind)
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.n_rows, self.n_features = int(self.starts[-1]), len(self._columns.features)
        self.n_targets = len(self._columns.targets)
        self.has_weight = self._columns.weight is not None
        self.feature_names = tuple(self._columns.features) if header else None

    def _header(self, path: str, header: bool) -> tuple[list[str], int]:
        """Names of the columns, and the byte where the rows begin."""
        with open(path, "rb") as file:
            try:
                line = file.readline().decode("utf-8-sig")
                names = next(csv.reader([line], delimiter=self._delimiter), [])
            except (UnicodeDecodeError, csv.Error) as error:
                raise ValueError(f"the first line of {path} is no CSV in UTF-8: {error}.") from error
            if not names:
                raise ValueError(f"{path} is empty; expected {'a header and ' if header else ''}rows.")
            return (names, file.tell()) if header else ([str(number) for number in range(len(names))], 0)

    def where(self, row: int) -> str:
        chunk = int(np.searchsorted(self.starts, row, side="right")) - 1
        path = self._ranges[chunk].path
        first = next(index for index, part in enumerate(self._ranges) if part.path == path)
        return f"row {row - int(self.starts[first])} of {path}"

    def load(self, chunk: int) -> Raw:
        raw = self._columns.raw(self._parse(self._ranges[chunk], self._columns.all), self.dtype)
        if raw.y is None or raw.y.dtype.kind != "U":
            return raw
        # pyarrow reads an empty cell of a column of words as an empty word; for all other readers it is missing
        return Raw(raw.X, as_words(raw.y, raw.y == ""), raw.w)

    def _parse(self, part: ByteRange, columns: list[str]) -> Any:
        arrow, reader = pyarrow_module("pyarrow"), pyarrow_module("pyarrow.csv")
        text = part.read()
        try:
            return reader.read_csv(
                arrow.BufferReader(text),
                read_options=reader.ReadOptions(
                    column_names=self._names, use_threads=False, block_size=max(1 << 20, 2 * len(text))
                ),
                parse_options=reader.ParseOptions(delimiter=self._delimiter),
                convert_options=reader.ConvertOptions(include_columns=columns, column_types=self._types),
            )
        except (arrow.ArrowInvalid, arrow.ArrowKeyError) as error:
            raise ValueError(
                f"{part.path}, bytes {part.start} to {part.stop}: {error}. Every feature must be a number: encode "
                "categories and dates as numbers before training, or leave such columns out with columns=[...]."
            ) from error


def named(paths: list[str]) -> str:
    """What messages call some files."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
