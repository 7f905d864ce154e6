"""Files of rows: their format, columns, target and task, and errors that name the line and column at fault."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
import warnings
import weakref
import zipfile
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from kompakt.cli.console import Console, DataError, UsageError
from kompakt.data.files import ArraySource, NpyFiles, open_npy, pyarrow_module
from kompakt.data.opening import open_rows
from kompakt.data.streamed import Raw, Source, join
from kompakt.data.table import (
    Number,
    TableError,
    TableSchema,
    Unused,
    as_labels,
    columns_of,
    find_target,
    is_missing,
    is_regression,
    missing_targets,
    target_values,
)
from kompakt.data.text import Block, TextTable, beginning, first_bytes_of, packing
from kompakt.imports import sparse
from kompakt.io.files import check_writable
from kompakt.model import Model
from kompakt.run import Run

Array = np.ndarray

#: rows by which the columns of a table are recognised
SCHEMA_ROWS = 100_000
#: rows that `Table.parts` reads at once
PART_ROWS = 20_000
#: a sparse file with at least this share of entries, and small enough, is handled as dense rows
_DENSE_SHARE, _DENSE_BYTES = 0.2, 1 << 30
#: columns that are told of one by one, so that all fits on a screen
_SHOWN = 12


# -- formats -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowFile:
    """A file and its format; of tables the names of their columns, whether the file gives them, how text is written."""

    path: str = field(repr=False)
    format: str
    header: bool = False
    names: tuple[str, ...] = ()
    text: TextTable | None = field(default=None, repr=False)

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Line number and cells of every row of a CSV or svmlight file."""
        if self.text is not None:
            yield from self.text.rows()
        elif self.format == "svmlight":
            with open(self.path, encoding="utf-8", errors="replace") as file:
                for number, line in enumerate(file, start=1):
                    if cells := line.split("#", 1)[0].split():
                        yield number, cells

    def head(self, n_rows: int) -> Mapping[str, Array]:
        """The columns of the first rows of a table, empty without rows."""
        return self.text.head(n_rows) if self.text is not None else next(self._row_groups(n_rows), {})

    def blocks(self) -> Iterator[Block] | Iterator[Mapping[str, Array]]:
        """The columns of a table as they are stored, some rows at a time."""
        return self.text.blocks() if self.text is not None else self._row_groups(PART_ROWS)

    def _row_groups(self, n_rows: int) -> Iterator[Mapping[str, Array]]:
        """The columns of a Parquet file, `n_rows` rows at a time."""
        arrow, parquet = pyarrow_module("pyarrow"), pyarrow_module("pyarrow.parquet")
        try:
            with parquet.ParquetFile(self.path) as file:
                for batch in file.iter_batches(batch_size=n_rows):
                    yield columns_of(arrow.Table.from_batches([batch]))
        except (OSError, arrow.ArrowInvalid) as error:
            raise DataError(f"{self.path} is a damaged Parquet file: {error}") from error

    def source(self, **settings: Any) -> Source:
        """Its rows by `open_rows`, with line and column in errors."""
        try:
            return open_rows(self.path, format=self.format, **settings)
        except (ValueError, KeyError) as error:
            raise self.error(error) from error

    def error(self, error: Exception) -> ValueError:
        """The error of a reader, with line and column as far as they can be found."""
        if self.format == "svmlight":
            for line, cells in self.rows():
                if fault := _fault_of_pairs(cells):
                    return DataError(f"{self.path}, line {line}{fault}")
        text = str(error) if self.path in str(error) else f"{self.path}: {error}"
        return DataError(text.replace("columns=[...]", "--ignore"))


def recognise(path: str, *, header: bool | None = None, format: str | None = None) -> RowFile:
    r"""Find out what kind of file of rows a file is.

    Parameters
    ----------
    path : str
    header : bool, optional
        Whether the first line of a CSV file names the columns; None compares it with the lines below.
    format : str, optional
        Instead of looking.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from kompakt.cli.tables import recognise
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rows.txt")
    ...     _ = path.write_text("+1 1:0.5 4:2\n-1 2:1\n")
    ...     one = recognise(str(path)).format
    ...     _ = path.write_text("age;city\n31;2\n")
    ...     one, recognise(str(path))
    ('svmlight', RowFile(format='csv', header=True, names=('age', 'city')))
    """
    start = _beginning(path)
    format = format or _binary_format(path, start)
    if format == "parquet":
        try:
            names = tuple(pyarrow_module("pyarrow.parquet").ParquetFile(path).schema_arrow.names)
        except (ValueError, OSError) as error:
            raise DataError(f"{path} is a damaged Parquet file: {error}") from error
        return RowFile(path, format, header=True, names=names)
    if format not in (None, "csv"):
        return RowFile(path, format)
    start, packed = beginning(path, start)
    if format is None:
        lines = start.decode("latin-1").splitlines()[:20]
        rows = [row for row in (line.split("#", 1)[0].split() for line in lines) if row]
        pairs = [pair for _, *row in rows for pair in row]
        if pairs and all(re.match(r"(\d+|qid):[^\s,;]+$", pair) for pair in pairs):
            if packed:
                raise DataError(f"{path} is svmlight, but packed; unpack it first.")
            return RowFile(path, "svmlight")
    text = TextTable.recognise(path, header=header, start=(start, packed))
    if twice := [name for name, count in Counter(text.names).items() if count > 1]:
        raise DataError(f"{path}, line 1: two columns have the name {twice[0]!r}; rename one of them.")
    return RowFile(path, "csv", text.header, text.names, text)


def is_model(path: str) -> bool:
    """Whether a file is a kompakt model."""
    return _beginning(path).startswith(b"\x89KMPKT")


def _beginning(path: str) -> bytes:
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder; expected a file of rows.")
    if is_stream(path):  # what is read here would be missing later
        raise DataError(f"{path} is a pipe or a device, and files are read more than once; write it to a file first.")
    start = first_bytes_of(path)
    if not start:
        raise DataError(f"{path} is empty; expected rows.")
    return start


def _binary_format(path: str, start: bytes) -> str | None:
    """The format of a file that is no text, by its first bytes; None for text, packed or not."""
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"\x89KMPKT"):
        raise DataError(f"{path} is a kompakt model, but a file of rows is expected here. Is the order of files right?")
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):  # the second of an empty zip archive
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise DataError(f"{path} begins as a zip archive, but cannot be read as one: {error}.") from error
        if any(name.endswith(".npy") for name in names):
            return "npz"
        if not names:
            raise DataError(f"{path} is an empty zip archive; expected rows.")
    elif packing(start) is None and b"\0" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff")):
        zeros = max(start[::2].count(0), start[1::2].count(0))
        if zeros < 0.4 * len(start) / 2 or min(start[::2].count(0), start[1::2].count(0)):  # else UTF-16 without a mark
            raise DataError(f"{path} is neither text nor Parquet, npy or npz: it holds bytes that no text has.")
    return None


def is_number(text: str) -> bool:
    """Whether a cell holds a number.

    Examples
    --------
    >>> from kompakt.cli.tables import is_number
    >>> is_number(" 1e-3"), is_number("x1"), is_number("1_000")
    (True, False, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _fault_of_pairs(cells: list[str]) -> str | None:
    if not is_number(cells[0]):
        return (
            f": the label {cells[0]!r} is no number, which svmlight asks for. Use a CSV file for labels that are words."
        )
    before = -1
    for number, cell in enumerate(cells[1:], start=2):
        if cell.startswith("qid:"):
            continue
        pair = re.match(r"(\d+):(\S+)$", cell)
        if pair is None or not is_number(pair[2]):
            return f", word {number}: {cell[:40]!r} is no pair like 3:0.5."
        if int(pair[1]) <= before:
            return (
                f", word {number}: feature {pair[1]} comes after feature {before}; feature numbers must increase "
                "within a line."
            )
        before = int(pair[1])
    return None


# -- open files --------------------------------------------------------------------------------------------


@dataclass
class Table:
    """An open file of rows.

    Parameters
    ----------
    file : RowFile
    source : Source or None
        None for a table whose cells become numbers by `reader`.
    target : str or None
        Name of the target column, "" where the format has a place of its own for it, None without target.
    names : tuple of str or None
        Names of the features.
    reader : TableSchema or None
    schema : TableSchema or None
        What a model trained on the table must keep of the reader: all but a list of plain numbers.
    missing : tuple of str
        Texts that mean a missing value besides the usual ones.
    decimal : str or None
        The decimal sign, where it is known.
    float_labels : bool
        Whether labels are written as 1.0: they are predicted so too.
    order : tuple of str
        Words of the target in their order, where it is modelled by their ranks.
    """

    file: RowFile
    source: Source | None
    target: str | None
    names: tuple[str, ...] | None
    reader: TableSchema | None = None
    schema: TableSchema | None = None
    missing: tuple[str, ...] = ()
    decimal: str | None = None
    float_labels: bool = False
    order: tuple[str, ...] = ()
    #: what was found in cells that the schema does not know, by description
    counts: Counter[str] = field(default_factory=Counter)
    _n_read: int = 0

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def n_rows(self) -> int:
        """The number of rows; of a table without source, of those that were read last."""
        return self._n_read if self.source is None else self.source.n_rows

    @property
    def n_features(self) -> int:
        if self.source is not None:
            return self.source.n_features
        assert self.reader is not None
        return self.reader.n_features

    @property
    def first_feature(self) -> int:
        """The number of the first feature: 0 in svmlight files that count from 0, else 1."""
        return int(getattr(self.source, "_first", 1))

    @property
    def is_sparse(self) -> bool:
        return self.source is not None and self.source.is_sparse

    def is_larger_than(self, megabytes: float) -> bool:
        """Whether the rows take more memory than that, by the size of their file."""
        packed = self.file.text is not None and self.file.text.packed
        return os.path.getsize(self.path) * (5 if packed else 1) > megabytes * 1e6

    def read(self, start: int = 0, stop: int | None = None) -> Raw:
        """Rows as they are stored; what cannot be read is an error with line and column."""
        if self.source is None:
            assert start == 0
            blocks = list(self._encoded(stop))
            if not blocks:
                raise DataError(f"{self.path} has a header and no rows.")
            raw = join(blocks)
            return Raw(raw.X, None if raw.y is None else self._targets(raw.y))
        try:
            raw = self.source.read(start, self.n_rows if stop is None else min(stop, self.n_rows))
        except ValueError as error:
            raise self.file.error(error) from error
        return Raw(raw.X, None if raw.y is None else self._labels(raw.y), raw.w)

    def _encoded(self, n_rows: int | None = None) -> Iterator[Raw]:
        """Rows by `reader`, in parts; targets as they are stored."""
        assert self.reader is not None
        self._n_read = 0
        self.counts.clear()
        for columns in self.file.blocks():
            if n_rows is not None and self._n_read >= n_rows:
                return
            cells = columns.cells_for(self.reader) if isinstance(columns, Block) else columns
            X = self.reader.encode(cells, self.counts)
            if self.schema is None and self.counts and self.file.text is not None:
                raise self.file.error(self.file.text.error(self.reader))
            self._n_read += len(X)
            yield Raw(X, columns[self.target] if self.target is not None else None)

    def cells(self) -> dict[str, Array]:
        """The columns that the reader uses, as they are stored."""
        assert self.reader is not None
        blocks = [block.cells_for(self.reader) if isinstance(block, Block) else block for block in self.file.blocks()]
        names = [column.name for column in self.reader.columns if not isinstance(column, Unused)]
        return {name: np.concatenate([block[name] for block in blocks]) for name in names}

    def _targets(self, cells: Array) -> Array:
        if self.order:
            ranks = {word: float(rank) for rank, word in enumerate(self.order)}
            return np.array([ranks.get(str(cell).strip(), np.nan) for cell in cells])
        return self._labels(target_values(cells, missing=self.missing, decimal=self.decimal))

    def _labels(self, y: Array) -> Array:
        return y if self.float_labels and y.dtype.kind == "f" else as_labels(y)

    def parts(self, run: Run, *, impute: bool) -> Iterator[Raw]:
        """All rows in parts, checked."""
        if self.source is None:
            start = 0
            for raw in run.tracked(self._encoded(), "rows"):
                self.check(raw.X, impute=impute, start=start)
                start += len(raw)
                yield Raw(raw.X, None if raw.y is None else self._targets(raw.y))
            return
        starts = range(0, self.n_rows, PART_ROWS)
        for start in run.tracked(starts, "rows", len(starts)):
            raw = self.read(start, start + PART_ROWS)
            self.check(raw.X, impute=impute, start=start)
            yield raw

    def learn(self, coded: Any, y: Array, *, classes: bool) -> tuple[TableSchema | None, dict[str, Array]]:
        """The schema with what it learns from targets, and the means of the training rows, as `TableSchema.learn`.

        None where columns are plain numbers, and none of them codes.
        """
        schema = self.schema
        if schema is None:
            if self.names is None or sparse.issparse(coded):
                return None, {}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of columns without a number
                medians = np.nan_to_num(np.nanmedian(coded, axis=0))
            schema = TableSchema(tuple(map(Number, self.names, medians.tolist())), self.missing)
        schema, means = schema.learn(coded, y, classes=classes)
        return (None, {}) if self.schema is None and schema.is_plain else (schema, means)

    def encode_to_file(self, chosen_task: str | None, scale: bool, *, impute: bool) -> int:
        """Write the encoded rows to a file, and read them from there, so that they need not fit in memory.

        Rows without a target are left out; their number is returned.
        """
        folder = tempfile.mkdtemp(prefix="kompakt-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        targets: list[Array] = []

        def coded_blocks() -> Iterator[Array]:
            for raw in self._encoded():
                self.check(raw.X, impute=impute, start=self._n_read - len(raw))
                kept = np.ones(len(raw), dtype=bool)
                if raw.y is not None:
                    kept = np.array([not is_missing(cell, frozenset(self.missing)) for cell in raw.y], dtype=bool)
                    targets.append(raw.y[kept])
                yield raw.X[kept]

        path = os.path.join(folder, "coded.npy")
        _write_rows(path, coded_blocks(), self.n_features)
        y = self._targets(np.concatenate(targets)) if targets else None
        if self.schema is not None:
            coded = np.load(path, mmap_mode="r")
            rows_y = np.ones(len(coded)) if y is None else y
            is_labelled = y is not None and task_of(y, chosen_task) == "classify"
            schema, means = self.schema.learn(coded, rows_y, classes=is_labelled)
            self.schema, self.reader, self.names = schema, schema, tuple(schema.feature_names)
            parts = (slice(start, start + PART_ROWS) for start in range(0, len(coded), PART_ROWS))
            features = (
                schema.finish(coded[part], {name: values[part] for name, values in means.items()}) for part in parts
            )
            path = os.path.join(folder, "X.npy")
            _write_rows(path, features, self.n_features)
        self.source = ArraySource(NpyFiles([open_npy(path)]), y, scale=scale, name=self.path)
        return 0 if y is None else self._n_read - len(y)

    def training_rows(self, options: Namespace, console: Console, n_rows: int | None = None) -> tuple[Any, Array]:
        """The rows, or the first `n_rows`, and their targets, fit for training."""
        raw = self.read(0, n_rows)
        if raw.y is None and not _needs_no_target(options):
            raise UsageError(f"{self.path} has no target; name its column with --target.")
        if raw.y is None:
            raw = Raw(raw.X, np.ones(raw.X.shape[0], dtype=np.int64))
        assert raw.y is not None
        lacking = missing_targets(raw.y)
        X, y = dense_if_small(raw.X), raw.y
        if lacking.any():
            place, count = self.place(int(np.argmax(lacking)), None), int(lacking.sum())
            if options.strict or n_rows is not None or count == len(y):
                raise DataError(
                    f"{place}: the target is missing. Drop such rows ({count} here) before training; they can be "
                    "predicted afterwards."
                )
            console.warn(f"{place}: the target is missing; {count:,} such row(s) are left out")
            X, y = X[~lacking], self._labels(y[~lacking])
        self.check(X, impute=options.impute is not None)
        strange = [f"column {text}: {count:,} cell(s)" for text, count in self.counts.items() if ": not a " in text]
        if strange and options.strict:
            raise DataError(f"{self.path}, {strange[0]}. Correct them, name them with --na, or run without --strict.")
        for text in strange:
            console.warn(text)
        return X, y

    def check(self, X: Any, *, impute: bool, start: int = 0) -> None:
        """Refuse missing (unless they are imputed) and infinite values, by line and column, and say what to do."""
        is_sparse = sparse.issparse(X)
        values = X.data if is_sparse else X
        wrong = np.isinf(values) if impute and not is_sparse else ~np.isfinite(values)
        if not wrong.any():
            return
        at = np.argwhere(wrong)[0]
        row, column = at.tolist() if not is_sparse else (int(number[at[0]]) for number in (X.tocoo().row, X.indices))
        place = self.place(start + row, column)
        if np.isinf(values[tuple(at)]):
            raise DataError(f"{place}: an infinite value. Replace it by a number, or leave the cell empty and impute.")
        remedy = "svmlight files cannot be imputed; write a CSV file, or drop the row."
        if not is_sparse:
            n_rows = int(np.isnan(X).any(axis=1).sum())
            remedy = f"Train with --impute median, or fill or drop such rows ({n_rows} here)."
        raise DataError(f"{place}: a missing value. {remedy}")

    def place(self, row: int, column: int | None) -> str:
        """File, line (or row, where the format has no lines) and column of a cell; without `column`, the target's."""
        where = self.line(row)
        if column is None:
            return f"{where}, column {self.target!r}" if self.target else where
        if self.file.format == "svmlight":
            return f"{where}, feature '{column + self.first_feature}'"
        return f"{where}, column {self.names[column] if self.names else str(column)!r}"

    def line(self, row: int) -> str:
        """File and line of a row, or its number where the format has no lines."""
        line = next(islice(self.file.rows(), row, None), None)
        return f"{self.path}, row {row}" if line is None else f"{self.path}, line {line[0]}"

    def warn_of_unseen_cells(self, console: Console) -> None:
        """Tell what the rows contained that training did not."""
        for text, count in list(self.counts.items())[:_SHOWN]:
            console.warn(f"column {text}: {count:,} cell(s)")
        if len(self.counts) > _SHOWN:
            console.warn(f"... and {len(self.counts) - _SHOWN} more columns have cells that training did not have")


def _write_rows(path: str, blocks: Iterable[Array], n_features: int) -> None:
    """Write rows to a file of npy, block by block."""
    n_rows = 0
    with open(path, "wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**15, n_features)}
        np.lib.format.write_array_header_2_0(file, header)  # with room for the number that is known at the end
        length = file.tell()
        for block in blocks:
            file.write(np.ascontiguousarray(block, dtype="<f8").tobytes())
            n_rows += len(block)
        file.seek(0)
        np.lib.format.write_array_header_2_0(file, header | {"shape": (n_rows, n_features)})
        assert file.tell() == length


def open_table(
    options: Namespace,
    console: Console,
    path: str,
    *,
    model: Model | None = None,
    scale: bool = False,
    numbers: bool = False,
) -> Table:
    """Open a file of rows for training, or for a model.

    For training it must have a target: the one that ``--target`` names, or a column with a usual name, or the last, or
    the first where that holds labels. Its columns become features by a `TableSchema`; with `numbers`, and where all
    are numbers without gaps, as they are. For a model its features are those of the model, and it may lack the target.
    """
    file = recognise(path, header=options.header, format=options.format)
    if file.format not in ("csv", "parquet"):
        return _table_without_names(options, file, model, scale)
    if file.format == "csv" and options.header is None:
        if file.header:
            console.remark(f"header: the first line of {path} names the columns (--no-header if it is a row)")
        else:
            console.remark(f"header: none, the first line of {path} is a row (--header if it names the columns)")
    if model is None:
        return _table_to_train_on(options, console, file, scale=scale, numbers=numbers)
    if model.inputs.schema is not None:
        return _table_for_schema(options, console, file, model, model.inputs.schema)
    target = _target_for_model(options, file, model)
    features = _feature_columns(options, file, target, model)
    if len(features) != model.n_features:
        raise _wrong_width(path, len(features), model)
    reader = _with_decimal(options, console, file, TableSchema.of_numbers(features, tuple(options.na)))
    return _table_of(
        file, target, reader, None, decimal=_decimal_of_target(options, file, target, reader.missing), scale=scale
    )


def _table_to_train_on(options: Namespace, console: Console, file: RowFile, *, scale: bool, numbers: bool) -> Table:
    """A table whose columns and target are recognised by its first rows."""
    first, missing = file.head(SCHEMA_ROWS), tuple(options.na)
    if not first:
        raise DataError(f"{file.path} has a header and no rows.")
    schema = TableSchema.with_identifiers(first, missing=missing, decimal=options.decimal)
    target = _target_column(options, console, file, first, schema)
    decimal = options.decimal or (None if target is None else _decimal_of(schema, target))
    features = _feature_columns(options, file, target, None)
    schema = replace(schema, columns=tuple(column for column in schema.columns if column.name in features))
    schema = schema.without_identifiers(first, file.names if numbers else _columns_of_flag(options, file, "keep"))
    numeric = all(isinstance(column, Number) for column in schema.columns)
    coded = bool(missing) and any(np.isin(first[name].astype(str), missing).any() for name in features)
    impute = options.impute is not None
    float_labels = target is not None and _written_with_point(first[target])
    to_table: dict[str, Any] = {"scale": scale, "float_labels": float_labels, "decimal": decimal}
    plain = numeric and not options.order and not coded and all(_is_plain(first[name], impute) for name in features)
    if numbers or plain:
        reader = TableSchema.of_numbers(features, missing)  # gaps stay gaps, which are refused, or imputed by the model
        return _table_of(file, target, reader, None, **to_table)
    if impute:
        schema = schema.without_indicators()
    orders = _orders(options, file)
    for name, words in orders.items():
        schema = schema.with_order(name, words)
    _report_columns(options, console, file.path, schema)
    table = _table_of(file, target, schema, schema, **to_table)
    table.order = () if target is None else orders.get(target, ())
    if table.order:
        options.task = options.task or "regress"
    return table


def _orders(options: Namespace, file: RowFile) -> dict[str, tuple[str, ...]]:
    """Columns whose words ``--order`` names in their order, as NAME=low,medium,high."""
    orders = {}
    for text in options.order:
        name, _, words = text.partition("=")
        levels = tuple(word.strip() for word in words.split(","))
        if len(set(levels)) != len(levels) or len(levels) < 2:
            raise UsageError(f"--order takes COLUMN=low,medium,high, each word once; got {text!r}.")
        orders[_column(file, name, "--order")] = levels
    return orders


def _table_of(
    file: RowFile,
    target: str | None,
    reader: TableSchema,
    schema: TableSchema | None,
    *,
    decimal: str | None,
    scale: bool = False,
    float_labels: bool = False,
) -> Table:
    """An open table whose cells become features by `reader`; Parquet files of plain numbers are read in any order."""
    names = tuple(reader.feature_names)
    if schema is None and file.format == "parquet":
        source = file.source(target=target, columns=list(names), scale=scale)
        return Table(file, source, target, names, float_labels=float_labels)
    return Table(file, None, target, names, reader, schema, reader.missing, decimal, float_labels)


def _table_without_names(options: Namespace, file: RowFile, model: Model | None, scale: bool) -> Table:
    """A file of numbers without names of columns."""
    target, path = options.target, file.path
    settings: dict[str, Any] = {}
    if file.format != "svmlight":
        is_column = target is not None and file.format == "npy" and target.lstrip("-").isdigit()
        settings["target"] = int(target) if is_column else target
    elif model is not None:
        zero_based = model.meta.get("zero_based")
        settings = {"n_features": model.n_features, "zero_based": bool(zero_based) if zero_based in (0, 1) else "auto"}
    elif target is not None:
        raise UsageError("--target is for tables; svmlight files have the label first in each line.")
    source = file.source(scale=scale, **settings)
    if model is None and not source.n_targets and not _needs_no_target(options):
        raise UsageError(
            f"{path} holds no target: name a column by its number (--target -1) or a file (--target labels.npy), or "
            "save both as numpy.savez(path, X=X, y=y)."
        )
    if model is not None and source.n_features != model.n_features:
        raise _wrong_width(path, source.n_features, model)
    return Table(file, source, "" if source.n_targets else None, None)


def _wrong_width(path: str, n_features: int, model: Model) -> DataError:
    names = "" if model.feature_names is None else f" ({', '.join(map(str, model.feature_names[:10]))}, ...)"
    return DataError(
        f"{path} has {n_features} features, but the model was trained on {model.n_features}{names}. Leave "
        "columns out with --ignore, or name the target with --target."
    )


# -- columns -----------------------------------------------------------------------------------------------


def _table_for_schema(options: Namespace, console: Console, file: RowFile, model: Model, schema: TableSchema) -> Table:
    """A table whose columns a model knows."""
    target = _target_for_model(options, file, model)
    names = [name for name in file.names if name != target]
    by_place = not file.header and len(names) == len(schema.names) and all(name.isdigit() for name in schema.names)
    if by_place and names != schema.names and file.text is not None:  # a file without header, and without the target
        text = replace(file.text, names=tuple(schema.names))
        file = replace(file, names=text.names, text=text)
    used = [column.name for column in schema.columns if not isinstance(column, Unused)]
    _require_columns(file, used)
    missing = (*schema.missing, *options.na)
    reader = _with_decimal(options, console, file, replace(schema, missing=missing))
    table = _table_of(file, target, reader, schema, decimal=_decimal_of_target(options, file, target, reader.missing))
    order = model.meta.get("target_order")
    table.order = tuple(map(str, order)) if isinstance(order, list | tuple) else ()
    return table


def _with_decimal(options: Namespace, console: Console, file: RowFile, schema: TableSchema) -> TableSchema:
    """The columns of a model with the decimal sign of a file: the one of the flag, or that of its first rows."""
    first = file.head(PART_ROWS)
    if not first:
        return schema
    try:
        reader = schema.with_decimal_of(first, options.decimal)
    except TableError as error:
        raise DataError(
            f"{file.path}: {error} Give the sign of the file with --decimal, and texts that mean a missing value with "
            "--na."
        ) from error
    pairs = zip(schema.columns, reader.columns, strict=True)
    changed = [new for old, new in pairs if isinstance(new, Number) and new != old]
    if changed and options.decimal is None:
        names = ", ".join(repr(column.name) for column in changed[:5]) + (", ..." if len(changed) > 5 else "")
        sign = "point" if changed[0].decimal == "." else "comma"
        console.remark(
            f"decimal sign: a {sign} in {names} of {file.path}, unlike in the training table (--decimal decides "
            "otherwise)"
        )
    return reader


def _decimal_of_target(options: Namespace, file: RowFile, target: str | None, missing: tuple[str, ...]) -> str | None:
    """The decimal sign of the target, once for all parts of the rows: by the first ones, and by their other columns."""
    sign: str | None = options.decimal
    if sign is not None or target is None:
        return sign
    first = file.head(PART_ROWS)
    if not any("," in cell for cells in first.values() for cell in cells if isinstance(cell, str)):
        return None  # a point, if there is a sign
    return _decimal_of(TableSchema.with_identifiers(first, missing=missing), target)


def _decimal_of(schema: TableSchema, name: str) -> str | None:
    """The decimal sign of a column; None where it holds no numbers."""
    return next(
        (column.decimal for column in schema.columns if column.name == name and isinstance(column, Number)), None
    )


def _require_columns(file: RowFile, required: list[str]) -> None:
    absent = [name for name in required if name not in file.names]
    if absent:
        raise DataError(
            f"{file.path} lacks the column(s) {', '.join(map(repr, absent[:10]))} that the model was trained on; "
            f"it has {', '.join(map(repr, file.names[:20]))}."
        )


def _target_for_model(options: Namespace, file: RowFile, model: Model) -> str | None:
    """The target of a file for a model, where it has one."""
    if options.target is not None:
        return _column(file, options.target, "--target")
    target = model.meta.get("target")
    n_columns = model.n_features if model.inputs.schema is None else len(model.inputs.schema.names)
    return target if target in file.names and (file.header or len(file.names) > n_columns) else None


def _target_column(
    options: Namespace, console: Console, file: RowFile, first: Mapping[str, Array], schema: TableSchema
) -> str | None:
    """The target of a table to train on: by flag, by name, or by place; None where none is needed and none is named."""
    if options.target is not None:
        return _column(file, options.target, "--target")
    if _needs_no_target(options):
        return None
    target, rival = find_target(first, file.names, schema, header=file.header)
    about = ""
    if rival is not None and target == file.names[0]:
        about = f", the first, as it holds labels; --target {rival} if it is the last"
    elif rival is not None:
        about = f", the last; the first holds labels: --target {rival} if it is that"
    console.remark(f"target: column {target!r} of {file.path}{about} (choose another with --target)")
    return target


def _needs_no_target(options: Namespace) -> bool:
    return getattr(options, "task", None) == "novelty"


def _written_with_point(cells: Array) -> bool:
    """Whether all targets are written as 1.0 (or stored as floats), and not as 1."""
    if cells.dtype.kind != "O":
        return cells.dtype.kind == "f"
    present = [str(cell).strip() for cell in cells if not is_missing(cell)]
    return bool(present) and all("." in text for text in present)


def _is_plain(cells: Array, impute: bool) -> bool:
    """Whether the cells are numbers as every reader takes them, without gaps unless they are imputed."""
    if cells.dtype.kind == "f":
        return impute or not np.isnan(cells).any()
    if cells.dtype.kind != "O":
        return cells.dtype.kind in "iu"
    gaps = {cell for cell in cells if is_missing(cell)}
    if gaps and not (impute and gaps <= _EMPTY):
        return False
    return all(isinstance(cell, str) and is_number(cell) for cell in cells if cell not in gaps)


#: missing values that every reader of CSV files takes for such
_EMPTY = frozenset({"", "NA", "NaN", "nan", "NULL", "null", "n/a", "N/A"})


def _report_columns(options: Namespace, console: Console, path: str, schema: TableSchema) -> None:
    """Print what the columns are taken for; warn of those that are left out, or refuse them."""
    unused = [column for column in schema.columns if isinstance(column, Unused)]
    if unused and options.strict:
        name, why = unused[0].name, unused[0].why
        kept = f", have it with --keep {shlex.quote(name)}" if unused[0].is_identifier else ""
        raise DataError(
            f"{path}: column {name!r} cannot be used: {why}. Leave it out with --ignore{kept}, or run without --strict."
        )
    if not schema.n_features:
        reasons = "; ".join(f"{column.name!r}: {column.why}" for column in unused[:5])
        raise DataError(f"{path} has no column beside the target that can be used ({reasons}).")
    used = TableSchema(tuple(column for column in schema.columns if not isinstance(column, Unused)))
    lines = used.describe().splitlines()
    ellipsis = f"\n  ... and {len(lines) - _SHOWN:,} more" if len(lines) > _SHOWN else ""
    console.remark("columns:\n" + "\n".join(f"  {line}" for line in lines[:_SHOWN]) + ellipsis)
    by_reason: dict[tuple[str, bool], list[str]] = {}
    for column in unused:
        by_reason.setdefault((column.why, column.is_identifier), []).append(column.name)
    for (why, is_identifier), names in by_reason.items():
        is_one = len(names) == 1
        flag = f" (--keep {shlex.quote(','.join(names))} keeps {'it' if is_one else 'them'})" if is_identifier else ""
        what = f"column {names[0]!r} is" if is_one else f"columns {_shortened(names)} are"
        console.warn(f"{what} left out: {why}{flag if len(names) <= _SHOWN else ''}")


def _shortened(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (f", ... ({len(names)} in all)" if len(names) > _SHOWN else "")


def _feature_columns(options: Namespace, file: RowFile, target: str | None, model: Model | None) -> tuple[str, ...]:
    """The model's own columns, by name where both sides have names; else all columns but target and ignored ones."""
    if model is not None and model.feature_names is not None:
        model_names = tuple(str(name) for name in model.feature_names)
        numbered = all(name.isdigit() for name in model_names)
        if not numbered or (len(file.names) != model.n_features and set(model_names) <= set(file.names)):
            _require_columns(file, list(model_names))
            return model_names
    left_out = _columns_of_flag(options, file, "ignore")
    if target is not None and target in left_out:
        raise UsageError(f"column {target!r} is the target and cannot be ignored.")
    features = tuple(name for name in file.names if name != target and name not in left_out)
    if not features:
        available = ", ".join(map(repr, file.names))
        raise DataError(f"{file.path} has no columns left beside the target; it has {available}.")
    return features


def _columns_of_flag(options: Namespace, file: RowFile, flag: str) -> list[str]:
    """The columns of a file that ``--ignore`` or ``--keep`` names, each time one or several with commas between."""
    return [_column(file, name, f"--{flag}") for listed in getattr(options, flag) for name in listed.split(",")]


def _column(file: RowFile, requested: str, flag: str) -> str:
    names = file.names
    if requested in names:
        return requested
    spaced = [name for name in names if name.strip() == requested.strip()]  # "a, b" in a header
    if len(spaced) == 1:
        return spaced[0]
    if requested.lstrip("-").isdigit() and -len(names) <= int(requested) < len(names):
        return names[int(requested)]
    available = ", ".join(repr(name.strip()) for name in names[:50])
    raise DataError(f"{file.path} has no column {requested!r} for {flag}; it has {available}.")


# -- targets and rows --------------------------------------------------------------------------------------


def task_of(y: Array, chosen: str | None) -> str:
    """Whether targets are labels or values, where it was not said.

    Which numbers are values is said by `is_regression`.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.cli.tables import task_of
    >>> task_of(np.array([0, 1, 1]), None), task_of(np.array([0.5, 1.25]), None), task_of(np.arange(40), None)
    ('classify', 'regress', 'regress')
    """
    if chosen == "regress" and y.dtype.kind not in "iuf":
        raise DataError(f"regression needs numbers as targets; got words like {str(y[0])!r}. Use -s classify.")
    if chosen == "novelty" and not (sound := np.isin(y, (1, -1))).all():
        raise DataError(
            f"novelty detection takes the targets 1 (normal) and -1 (an outlier); got {str(y[~sound][0])!r}. "
            "Without --target all rows count as normal."
        )
    if chosen is not None:
        return chosen
    if y.dtype.kind in "fiu":
        return "regress" if is_regression(y) else "classify"
    n_distinct = len(np.unique(y))
    if len(y) > 20 and n_distinct > 0.5 * len(y):
        raise DataError(
            f"the target has {n_distinct} different words in {len(y)} rows, such as {str(y[0])!r}: these are no "
            "labels. Choose another column with --target."
        )
    return "classify"


def describe_task(task: str, y: Array, chosen: str | None) -> str:
    """The task and, where the numbers of the target decided it, the flag that decides otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.cli.tables import describe_task
    >>> describe_task("classify", np.array([0, 1, 1]), None)
    '2 classes (-s regress if the target is a quantity)'
    """
    if task == "novelty":
        return f"novelty detection, {np.sum(y != 1):,} marked outliers"
    decided = chosen is None and y.dtype.kind in "iuf"
    if task == "classify":
        return f"{len(np.unique(y))} classes" + (" (-s regress if the target is a quantity)" if decided else "")
    return "regression" + (" (-s classify if the target is a label)" if decided else "")


def dense_if_small(X: Any) -> Any:
    """Sparse rows that are hardly sparse, as dense ones."""
    if not sparse.issparse(X):
        return X
    cells = X.shape[0] * X.shape[1]
    return X.toarray() if X.nnz >= _DENSE_SHARE * cells and 8 * cells <= _DENSE_BYTES else X.tocsr()


# -- files that are written --------------------------------------------------------------------------------


def check_output(out: str | None, *used_files: str | None, stream: bool = False) -> None:
    """Refuse, before any work is done, to write over a file of the same command or onto what is no regular file.

    Parameters
    ----------
    out : str or None
        The file to be written; "-" is standard output, for commands that stream.
    used_files : str or None
        The other files of the command.
    stream : bool
        Whether devices and pipes are written to as they are.
    """
    if out is None or (out == "-" and stream):
        return
    if out == "-":
        raise UsageError("'-' is standard output, and this command writes a file; give it a name.")
    for used in used_files:
        if used is None:
            continue
        try:
            same = os.path.samefile(out, used)
        except OSError:  # one of them does not exist yet
            same = os.path.realpath(out) == os.path.realpath(used)
        if same:
            raise UsageError(f"{out} would be written over {used}, which this command uses too; give another name.")
    if not (stream and is_stream(out)):
        check_writable(out)


def is_stream(path: str) -> bool:
    """Whether a path is a device, a pipe or a socket: nothing that could be replaced by a file."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def target_file(options: Namespace) -> str | None:
    """The file that ``--target`` names, where it is one."""
    path = options.target
    return path if path is not None and path.endswith(".npy") and os.path.isfile(path) else None
