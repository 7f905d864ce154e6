"""Files of rows: their format, columns, target and task, and errors that name the line and column at fault."""

from __future__ import annotations

import csv
import os
import re
import shlex
import zipfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.cli.console import Console, DataError, UsageError
from kompakt.data.checks import missing
from kompakt.data.files import pyarrow_module
from kompakt.data.opening import open_rows
from kompakt.data.streamed import Raw, Source
from kompakt.io.files import check_writable
from kompakt.model import Model
from kompakt.run import Run

Array = np.ndarray

#: cells that the reader of CSV files takes for missing values
MISSING = frozenset({
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL",
    "NaN", "n/a", "nan", "null",
})  # fmt: skip
#: cells by which people mean a missing value
LIKE_MISSING = frozenset({"?", "-", "--", ".", "none", "None", "missing", "*", "x", "X"})
#: names that a target column often has
_TARGET_NAMES = ("target", "label", "class", "y")
#: share of numbers that makes a column one of numbers, so that text among them can be reported by its line
_MOSTLY = 0.9
#: rows without which the labels of a column are no evidence
_FEW_ROWS = 10
#: bytes from the beginning of a file by which its format is recognised
_LOOKED_AT = 1 << 16
#: rows that `Table.parts` reads at once
PART_ROWS = 20_000
#: a sparse file with at least this share of entries, and small enough, is handled as dense rows
_DENSE_SHARE, _DENSE_BYTES = 0.2, 1 << 30
#: whole numbers are labels while there are at most so many different ones, or so large a share of the rows
_FEW_LABELS, _LABEL_SHARE = 10, 0.05


# -- formats -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FileKind:
    """A format, and for tables the names of their columns and whether the file gives them; the delimiter of CSV."""

    format: str
    delimiter: str = ","
    header: bool = False
    names: tuple[str, ...] = ()


def recognise(path: str, *, header: bool | None = None, format: str | None = None) -> FileKind:
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
    ('svmlight', FileKind(format='csv', delimiter=';', header=True, names=('age', 'city')))
    """
    start = _beginning(path)
    format = format or _binary_format(path, start)
    if format == "parquet":
        try:
            names = tuple(pyarrow_module("pyarrow.parquet").ParquetFile(path).schema_arrow.names)
        except (ValueError, OSError) as error:
            raise DataError(f"{path} is a damaged Parquet file: {error}") from error
        return FileKind(format, header=True, names=names)
    if format not in (None, "csv"):
        return FileKind(format)
    try:
        text = start.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 4:  # else only the last letter is cut
            line = start[: error.start].count(b"\n") + 1
            raise DataError(f"{path}, line {line}: this is no UTF-8 text; convert the file to UTF-8.") from None
        text = start[: error.start].decode("utf-8-sig")
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise DataError(f"{path} holds blank lines only; expected rows.")
    if format is None:
        rows = [row for row in (line.split("#", 1)[0].split() for line in lines[:20]) if row]
        pairs = [pair for _, *row in rows for pair in row]
        if pairs and all(re.match(r"(\d+|qid):\S+$", pair) for pair in pairs):
            return FileKind("svmlight")
    if len(start) == _LOOKED_AT and len(lines) > 1:
        lines.pop()  # it may be cut
    return _recognise_csv(path, lines, header)


def is_model(path: str) -> bool:
    """Whether a file is a kompakt model."""
    return _beginning(path).startswith(b"\x89KMPKT")


def _beginning(path: str) -> bytes:
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder; expected a file of rows.")
    if is_stream(path):  # what is read here would be missing later
        raise DataError(f"{path} is a pipe or a device, and files are read more than once; write it to a file first.")
    with open(path, "rb") as file:
        start = file.read(_LOOKED_AT)
    if not start:
        raise DataError(f"{path} is empty; expected rows.")
    return start


def _binary_format(path: str, start: bytes) -> str | None:
    """The format of a file that is no text, by its first bytes; None for text."""
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"\x89KMPKT"):
        raise DataError(f"{path} is a kompakt model, but a file of rows is expected here. Is the order of files right?")
    if start.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):
        raise DataError(f"{path} is compressed; unpack it first.")
    if not start.startswith((b"PK\x03\x04", b"PK\x05\x06")):  # the second of an empty zip archive
        if b"\0" in start:
            raise DataError(f"{path} is neither text nor Parquet, npy or npz: it holds bytes that no text has.")
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise DataError(f"{path} begins as a zip archive, but cannot be read as one: {error}.") from error
    if any(name.endswith(".npy") for name in names):
        return "npz"
    if "[Content_Types].xml" in names:
        raise DataError(f"{path} is a workbook or a document; save its table as CSV first.")
    content = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
    raise DataError(f"{path} is a zip archive ({content or 'empty'}); unpack it and give the file inside.")


def _recognise_csv(path: str, lines: list[str], header: bool | None) -> FileKind:
    delimiter = max(",;\t|", key=lines[0].count)
    if not lines[0].count(delimiter):
        raise DataError(
            f"{path}, line 1: {lines[0][:60]!r} holds no comma, semicolon, tab or bar, nor pairs like 3:0.5; expected "
            "CSV, svmlight, Parquet, npy or npz."
        )
    try:
        cells, *below = csv.reader(lines, delimiter=delimiter)
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as CSV: {error}.") from None
    if header is None:
        header = _names_columns(cells, below)
    names = cells if header else [str(number) for number in range(len(cells))]
    for number, name in enumerate(names):
        if not name.strip():
            raise DataError(
                f"{path}, line 1: column {number} has no name. Write one there; if it is the index of a pandas frame, "
                "write the file without it: to_csv(path, index=False)."
            )
        if name in names[:number]:
            raise DataError(f"{path}, line 1: two columns have the name {name!r}; rename one of them.")
    return FileKind("csv", delimiter, header, tuple(names))


def _names_columns(first: list[str], below: list[list[str]]) -> bool:
    """Whether the first line of a table names its columns, by what stands below each of its cells.

    Text above numbers is a name, whatever the other cells are: headers may hold years or numbers.  Where no column
    of numbers begins with text, the columns of labels decide: a label of the first row comes again below, a name
    does not.
    """
    first = [cell.strip() for cell in first]
    rows = [[cell.strip() for cell in row] for row in below if len(row) == len(first)]
    new = []  # for every column of labels, whether the cell above it is none of them
    for cell, column in zip(first, zip(*rows, strict=True), strict=False):
        known = [value for value in column if value not in MISSING and value not in LIKE_MISSING]
        if known and sum(map(is_number, known)) >= _MOSTLY * len(known):
            if not is_number(cell) and cell not in MISSING and re.search(r"[^\W\d_]", cell):
                return True
        elif len(known) >= _FEW_ROWS and len(set(known)) <= len(known) // 2:
            new.append(cell not in known)
    numbers = [cell for cell in first if is_number(cell)]
    if not all(new) or not numbers:
        return all(new)
    return bool(new) and all(number.isdigit() for number in numbers) and len(set(first)) == len(first)


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


# -- where an error is -------------------------------------------------------------------------------------


def _numbered_rows(path: str, kind: FileKind) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every row of a CSV or svmlight file."""
    if kind.format == "csv":
        with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
            reader = csv.reader(file, delimiter=kind.delimiter)
            yield from islice(((reader.line_num, cells) for cells in reader if cells), int(kind.header), None)
    elif kind.format == "svmlight":
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, start=1):
                if cells := line.split("#", 1)[0].split():
                    yield number, cells


def _data_error(path: str, kind: FileKind, features: Sequence[str] | None, error: Exception) -> DataError:
    """The error of a reader, with line and column as far as they can be found."""
    wanted = [(name, kind.names.index(name)) for name in features or () if name in kind.names]
    for line, cells in _numbered_rows(path, kind):
        fault = _fault_of_pairs(cells) if kind.format == "svmlight" else _fault_of_cells(cells, kind, wanted)
        if fault:
            return DataError(f"{path}, line {line}{fault}")
    text = str(error) if path in str(error) else f"{path}: {error}"
    return DataError(text.replace("columns=[...]", "--ignore"))


def _fault_of_cells(cells: list[str], kind: FileKind, wanted: list[tuple[str, int]]) -> str | None:
    if len(cells) != len(kind.names):
        return (
            f": {len(cells)} columns, but the first line has {len(kind.names)}. Every row needs one cell per column; "
            "put text that holds the delimiter in double quotes."
        )
    wrong = [(name.strip(), cells[number].strip()) for name, number in wanted]
    wrong = [(name, cell) for name, cell in wrong if cell not in MISSING and not is_number(cell)]
    if not wrong:
        return None
    name, cell = wrong[0]
    if cell in LIKE_MISSING:
        remedy = "If it stands for a missing value, leave the cell empty or write NA, and train with --impute median."
    else:
        names = shlex.quote(",".join(name for name, cell in wrong if cell not in LIKE_MISSING))
        remedy = (
            f"Columns of words or dates cannot be used as they are: leave them out with --ignore {names}, or replace "
            "them by numbers, for example one column of 0 and 1 per word."
        )
    return f", column {name!r}: {cell!r} is no number. {remedy}"


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
    path : str
    kind : FileKind
    source : Source
    target : str or None
        Name of the target column, "" where the format has a place of its own for it, None without target.
    names : tuple of str or None
        Names of the features.
    """

    path: str
    kind: FileKind
    source: Source
    target: str | None
    names: tuple[str, ...] | None

    @property
    def n_rows(self) -> int:
        return self.source.n_rows

    @property
    def first_feature(self) -> int:
        """The number of the first feature: 0 in svmlight files that count from 0, else 1."""
        return int(getattr(self.source, "_first", 1))

    def read(self, start: int = 0, stop: int | None = None) -> Raw:
        """Rows as they are stored; what cannot be read is an error with line and column."""
        try:
            raw = self.source.read(start, self.n_rows if stop is None else min(stop, self.n_rows))
        except ValueError as error:
            raise _data_error(self.path, self.kind, self.names, error) from error
        return Raw(raw.X, None if raw.y is None else as_labels(raw.y), raw.w)

    def parts(self, run: Run, *, impute: bool) -> Iterator[Raw]:
        """All rows in parts, checked."""
        starts = range(0, self.n_rows, PART_ROWS)
        for start in run.tracked(starts, "rows", len(starts)):
            raw = self.read(start, start + PART_ROWS)
            self.check(raw.X, impute=impute, start=start)
            yield raw

    def training_rows(self, options: Namespace, n_rows: int | None = None) -> tuple[Any, Array]:
        """The rows, or the first `n_rows`, and their targets, fit for training."""
        raw = self.read(0, n_rows)
        if raw.y is None:
            raise UsageError(f"{self.path} has no target; name its column with --target.")
        lacking = missing_targets(raw.y)
        if lacking.any():
            raise DataError(
                f"{self.place(int(np.argmax(lacking)), None)}: the target is missing. Drop such rows "
                f"({int(lacking.sum())} here) before training; they can be predicted afterwards."
            )
        X = dense_if_small(raw.X)
        self.check(X, impute=options.impute is not None)
        return X, raw.y

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
        line = next(islice(_numbered_rows(self.path, self.kind), row, None), None)
        where = f"{self.path}, row {row}" if line is None else f"{self.path}, line {line[0]}"
        if column is None:
            return f"{where}, column {self.target!r}" if self.target else where
        if self.kind.format == "svmlight":
            return f"{where}, feature '{column + self.first_feature}'"
        return f"{where}, column {self.names[column] if self.names else str(column)!r}"


def open_table(
    options: Namespace, console: Console, path: str, *, model: Model | None = None, scale: bool = False
) -> Table:
    """Open a file of rows for training, or for a model.

    For training it must have a target: the one that ``--target`` names, or a column with a usual name, or the last.
    For a model its features are those of the model, and it may lack the target.
    """
    kind = recognise(path, header=options.header, format=options.format)
    if kind.format == "csv" and options.header is None:
        if kind.header:
            console.remark(f"header: the first line of {path} names the columns (--no-header if it is a row)")
        else:
            console.remark(f"header: none, the first line of {path} is a row (--header if it names the columns)")
    target, features = options.target, None
    settings: dict[str, Any] = {"format": kind.format, "scale": scale}
    if kind.format == "svmlight":
        if model is not None:
            zero_based = bool(model.meta["zero_based"]) if "zero_based" in model.meta else "auto"
            settings |= {"n_features": model.n_features, "zero_based": zero_based}
        elif target is not None:
            raise UsageError("--target is for tables; svmlight files have the label first in each line.")
    elif kind.format in ("npy", "npz"):
        is_column = target is not None and kind.format == "npy" and target.lstrip("-").isdigit()
        settings["target"] = int(target) if is_column else target
    else:
        target = _target_column(options, console, path, kind, model)
        features = _feature_columns(options, path, kind.names, target, model)
        settings |= {"target": target, "columns": list(features)}
        if kind.format == "csv":
            settings |= {"delimiter": kind.delimiter, "header": kind.header}
    try:
        source = open_rows(path, **settings)
    except (ValueError, KeyError) as error:
        raise _data_error(path, kind, features, error) from error
    if features is None:
        target = "" if source.n_targets else None
    if model is None and target is None:
        raise UsageError(
            f"{path} holds no target: name a column by its number (--target -1) or a file (--target labels.npy), or "
            "save both as numpy.savez(path, X=X, y=y)."
        )
    if model is not None and source.n_features != model.n_features:
        known = "" if model.feature_names is None else f" ({', '.join(map(str, model.feature_names[:10]))}, ...)"
        raise DataError(
            f"{path} has {source.n_features} features, but the model was trained on {model.n_features}{known}. Leave "
            "columns out with --ignore, or name the target with --target."
        )
    return Table(path, kind, source, target, features)


def _target_column(options: Namespace, console: Console, path: str, kind: FileKind, model: Model | None) -> str | None:
    if options.target is not None:
        return _column(path, kind.names, options.target, "--target")
    if model is not None:
        target = model.meta.get("target")
        return target if target in kind.names and (kind.header or len(kind.names) > model.n_features) else None
    usual = [name for name in kind.names if name.strip().lower() in _TARGET_NAMES]
    target = usual[0] if len(usual) == 1 else kind.names[-1]
    console.remark(f"target: column {target!r} of {path} (choose another with --target)")
    return target


def _feature_columns(
    options: Namespace, path: str, names: tuple[str, ...], target: str | None, model: Model | None
) -> tuple[str, ...]:
    """The model's own columns, by name where both sides have names; else all columns but target and ignored ones."""
    if model is not None and model.feature_names is not None:
        known = tuple(str(name) for name in model.feature_names)
        numbered = all(name.isdigit() for name in known)
        if not numbered or (len(names) != model.n_features and set(known) <= set(names)):
            absent = [name for name in known if name not in names]
            if absent:
                raise DataError(
                    f"{path} lacks the column(s) {', '.join(map(repr, absent[:10]))} that the model was trained on; "
                    f"it has {', '.join(map(repr, names[:20]))}."
                )
            return known
    left_out = [_column(path, names, name, "--ignore") for given in options.ignore for name in given.split(",")]
    if target is not None and target in left_out:
        raise UsageError(f"column {target!r} is the target and cannot be ignored.")
    features = tuple(name for name in names if name != target and name not in left_out)
    if not features:
        raise DataError(f"{path} has no columns left beside the target; it has {', '.join(map(repr, names))}.")
    return features


def _column(path: str, names: tuple[str, ...], wanted: str, flag: str) -> str:
    if wanted in names:
        return wanted
    spaced = [name for name in names if name.strip() == wanted.strip()]  # "a, b" in a header
    if len(spaced) == 1:
        return spaced[0]
    if wanted.lstrip("-").isdigit() and -len(names) <= int(wanted) < len(names):
        return names[int(wanted)]
    known = ", ".join(repr(name.strip()) for name in names[:50])
    raise DataError(f"{path} has no column {wanted!r} for {flag}; it has {known}.")


# -- targets and rows --------------------------------------------------------------------------------------


def as_labels(y: Array) -> Array:
    """Targets as labels or numbers: whole numbers of a float file become int, truth values text, spaces go.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.cli.tables import as_labels
    >>> as_labels(np.array([1.0, -1.0])).dtype.kind, as_labels(np.array([True, False])).tolist()
    ('i', ['true', 'false'])
    """
    if y.dtype.kind == "b":
        return np.where(y, "true", "false")
    if y.dtype.kind == "f" and y.ndim == 1 and np.all(np.isfinite(y)) and np.all(y == np.round(y)):
        return y.astype(np.int64) if np.all(np.abs(y) < 2**53) else y
    if y.dtype.kind == "O":
        y = np.where(missing(y), "", y)  # no label: an empty one
    return np.char.strip(y.astype(str)) if y.dtype.kind in "OUS" else y


def missing_targets(y: Array) -> Array:
    """Which targets are missing.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.cli.tables import missing_targets
    >>> missing_targets(np.array(["yes", ""])).tolist()
    [False, True]
    """
    return np.isin(np.char.strip(y), list(MISSING)) if y.dtype.kind in "US" else missing(y)


def task_of(y: Array, given: str | None) -> str:
    """Whether targets are labels or values, where it was not said.

    Numbers are values if some have fractions, or if there are more different ones than 10 and than 5 % of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.cli.tables import task_of
    >>> task_of(np.array([0, 1, 1]), None), task_of(np.array([0.5, 1.25]), None), task_of(np.arange(40), None)
    ('classify', 'regress', 'regress')
    """
    if given == "regress" and y.dtype.kind not in "iuf":
        raise DataError(f"regression needs numbers as targets; got words like {str(y[0])!r}. Use -s classify.")
    if given is not None:
        return given
    if y.dtype.kind == "f":
        return "regress"
    n_distinct = len(np.unique(y))
    if y.dtype.kind in "iu":
        return "classify" if n_distinct <= max(_FEW_LABELS, _LABEL_SHARE * len(y)) else "regress"
    if len(y) > 20 and n_distinct > 0.5 * len(y):
        raise DataError(
            f"the target has {n_distinct} different words in {len(y)} rows, such as {str(y[0])!r}: these are no "
            "labels. Choose another column with --target."
        )
    return "classify"


def describe_task(task: str, y: Array, given: str | None) -> str:
    """The task and, where the numbers of the target decided it, the flag that decides otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.cli.tables import describe_task
    >>> describe_task("classify", np.array([0, 1, 1]), None)
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


# -- files that are written --------------------------------------------------------------------------------


def check_output(out: str | None, *others: str | None, stream: bool = False) -> None:
    """Refuse, before any work is done, to write over a file of the same command or onto what is no regular file.

    Parameters
    ----------
    out : str or None
        The file to be written; "-" is standard output, for commands that stream.
    others : str or None
        The other files of the command.
    stream : bool
        Whether devices and pipes are written to as they are.
    """
    if out is None or (out == "-" and stream):
        return
    if out == "-":
        raise UsageError("'-' is standard output, and this command writes a file; give it a name.")
    for other in others:
        if other is None:
            continue
        try:
            same = os.path.samefile(out, other)
        except OSError:  # one of them does not exist yet
            same = os.path.realpath(out) == os.path.realpath(other)
        if same:
            raise UsageError(f"{out} would be written over {other}, which this command uses too; give another name.")
    if not (stream and is_stream(out)):
        check_writable(out)


def is_stream(path: str) -> bool:
    """Whether a path is a device, a pipe or a socket: nothing that could be replaced by a file."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def target_file(options: Namespace) -> str | None:
    """The file that ``--target`` names, where it is one."""
    given = options.target
    return given if given is not None and given.endswith(".npy") and os.path.isfile(given) else None
