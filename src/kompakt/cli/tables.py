"""What is done to rows before training and stored with the machine: missing values, scaling; and which task it is."""

from __future__ import annotations

import csv
import os
import re
import shlex
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.cli.console import Console, DataError, UsageError
from kompakt.data.checks import missing
from kompakt.data.opening import open_rows
from kompakt.data.streamed import Raw, Source
from kompakt.formats.files import check_writable
from kompakt.model import Model
from kompakt.run import task

#: cells that the reader of CSV files takes for missing values
MISSING = frozenset({
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL",
    "NaN", "n/a", "nan", "null",
})  # fmt: skip
#: cells by which people mean a missing value
LIKE_MISSING = frozenset({"?", "-", "--", ".", "none", "None", "missing", "*", "x", "X"})
_PAIR = re.compile(r"^(\d+|qid):\S+$")
_DELIMITERS = ",;\t|"
#: share of numbers that makes a column one of numbers, so that a word among them can be complained of by its line
_MOSTLY = 0.9
#: rows without which the labels of a column are no evidence
_FEW_ROWS = 10
#: bytes from the beginning of a file by which it is judged
_LOOKED_AT = 1 << 16


@dataclass(frozen=True)
class Kind:
    """A format, and for CSV the delimiter, the names of the columns and whether the first line holds them."""

    format: str
    delimiter: str = ","
    header: bool = False
    names: tuple[str, ...] = ()


def recognise(path: str, *, header: bool | None = None, format: str | None = None) -> Kind:
    r"""The kind of a file of rows.

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
    ('svmlight', Kind(format='csv', delimiter=';', header=True, names=('age', 'city')))
    """
    start = _beginning(path)
    found = format or _by_magic(path, start)
    if found is not None and found != "csv":
        return Kind(found)
    lines = _lines(path, start)
    if found is None and _is_svmlight(lines):
        return Kind("svmlight")
    if len(start) == _LOOKED_AT and len(lines) > 1:
        lines.pop()  # it may be cut
    return _csv(path, lines, header)


def is_model(path: str) -> bool:
    """Whether a file is a kompakt model."""
    return _beginning(path).startswith(b"\x89KMPKT")


def _beginning(path: str) -> bytes:
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder; expected a file of rows.")
    if os.path.exists(path) and not os.path.isfile(path):  # what is read here would be missing later
        raise DataError(f"{path} is a pipe or a device, and files are read more than once; write it to a file first.")
    with open(path, "rb") as file:
        start = file.read(_LOOKED_AT)
    if not start:
        raise DataError(f"{path} is empty; expected rows.")
    return start


def _by_magic(path: str, start: bytes) -> str | None:
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):  # the second of an empty archive
        return _by_members(path)
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"\x89KMPKT"):
        raise DataError(f"{path} is a kompakt model, but a file of rows is expected here. Is the order of files right?")
    if start.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):
        raise DataError(f"{path} is compressed; unpack it first.")
    if b"\0" in start:
        raise DataError(f"{path} is neither text nor Parquet, npy or npz: it holds bytes that no text has.")
    return None


def _by_members(path: str) -> str:
    """npz files are zip archives of npy files; other archives are refused in words that fit them."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise DataError(f"{path} begins as a zip archive, but cannot be read as one: {error}.") from error
    if any(name.endswith(".npy") for name in names):
        return "npz"
    if "[Content_Types].xml" in names:
        raise DataError(f"{path} is a workbook or a document; save its table as CSV first.")
    held = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
    raise DataError(f"{path} is a zip archive ({held or 'empty'}); unpack it and give the file inside.")


def _lines(path: str, start: bytes) -> list[str]:
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
    return lines


def _is_svmlight(lines: list[str]) -> bool:
    pairs = False
    for line in lines[:20]:
        words = line.split("#", 1)[0].split()
        if words and not all(_PAIR.match(word) for word in words[1:]):
            return False
        pairs = pairs or len(words) > 1
    return pairs


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


def _csv(path: str, lines: list[str], header: bool | None) -> Kind:
    delimiter = max(_DELIMITERS, key=lines[0].count)
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
    return Kind("csv", delimiter, header, tuple(names))


def _names_columns(first: list[str], below: list[list[str]]) -> bool:
    """Whether the first line of a table names its columns, by what stands below each of its cells.

    A word above numbers is a name, whatever the other cells are: headers may hold years or numbers.  Where no column
    of numbers begins with a word, the columns of labels decide: a label of the first row comes again below, a name
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


def explain(
    path: str, kind: Kind, features: Sequence[str] | None, error: Exception, target: str | None = None
) -> DataError:
    """The error with file, line and column, as far as they can be found."""
    found = None
    if kind.format == "csv":
        found = _bad_cell(path, kind, features)
    elif kind.format == "svmlight":
        found = _bad_pair(path)
    text = str(error) if path in str(error) else f"{path}: {error}"
    return DataError(found or text.replace("columns=[...]", "--ignore"))


def _bad_cell(path: str, kind: Kind, features: Sequence[str] | None) -> str | None:
    wanted = [(name, kind.names.index(name)) for name in features or () if name in kind.names]
    for line, cells in _cells(path, kind):
        if len(cells) != len(kind.names):
            return (
                f"{path}, line {line}: {len(cells)} columns, but the first line has {len(kind.names)}. Every row needs "
                "one cell per column; put text that holds the delimiter in double quotes."
            )
        wrong = [(name, cells[number].strip()) for name, number in wanted]
        wrong = [(name, cell) for name, cell in wrong if cell not in MISSING and not is_number(cell)]
        if wrong:
            name, cell = wrong[0]
            return f"{path}, line {line}, column {name.strip()!r}: {cell!r} is no number. {_remedy(wrong)}"
    return None


def _remedy(wrong: list[tuple[str, str]]) -> str:
    if wrong[0][1] in LIKE_MISSING:
        return "If it stands for a missing value, leave the cell empty or write NA, and train with --impute median."
    names = shlex.quote(",".join(name.strip() for name, cell in wrong if cell not in LIKE_MISSING))
    return (
        f"Columns of words or dates cannot be used as they are: leave them out with --ignore {names}, or replace them "
        "by numbers, for example one column of 0 and 1 per word."
    )


def _cells(path: str, kind: Kind) -> Iterator[tuple[int, list[str]]]:
    """Rows of a CSV file with their line numbers, without header and blank lines."""
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file, delimiter=kind.delimiter)
        skip = kind.header
        for cells in reader:
            if not cells:
                continue
            if skip:
                skip = False
                continue
            yield reader.line_num, cells


def _bad_pair(path: str) -> str | None:
    pair = re.compile(r"^(\d+):(\S+)$")
    for line, words in _words(path):
        if not is_number(words[0]):
            return (
                f"{path}, line {line}: the label {words[0]!r} is no number, which svmlight asks for. Use a CSV file "
                "for labels that are words."
            )
        before = -1
        for number, word in enumerate(words[1:], start=2):
            found = pair.match(word)
            if word.startswith("qid:"):
                continue
            if found is None or not is_number(found[2]):
                return f"{path}, line {line}, word {number}: {word[:40]!r} is no pair like 3:0.5."
            if int(found[1]) <= before:
                return (
                    f"{path}, line {line}, word {number}: feature {found[1]} comes after feature {before}; feature "
                    "numbers must increase within a line."
                )
            before = int(found[1])
    return None


def _words(path: str) -> Iterator[tuple[int, list[str]]]:
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            words = line.split("#", 1)[0].split()
            if words:
                yield number, words


def place_of(path: str, kind: Kind, row: int, column: str | None) -> str:
    """File, line and column of a cell, or file and row number where the format has no lines."""
    where = f"{path}, row {row}"
    lines = _cells(path, kind) if kind.format == "csv" else _words(path) if kind.format == "svmlight" else iter(())
    for number, (line, _) in enumerate(lines):
        if number == row:
            where = f"{path}, line {line}"
            break
    if not column:
        return where
    return f"{where}, {'feature' if kind.format == 'svmlight' else 'column'} {column!r}"


Array = np.ndarray

#: names that a target column often has
_USUAL = ("target", "label", "class", "y")
_PART = 20_000


@dataclass
class Table:
    """An open file of rows.

    Parameters
    ----------
    path : str
    kind : Kind
    source : Source
    target : str or None
        Name of the target column, "" where the format has a place of its own for it, None without target.
    names : tuple of str or None
        Names of the features.
    """

    path: str
    kind: Kind
    source: Source
    target: str | None
    names: tuple[str, ...] | None

    @property
    def n_rows(self) -> int:
        return self.source.n_rows

    @property
    def has_target(self) -> bool:
        return self.target is not None

    def read(self, start: int = 0, stop: int | None = None) -> Raw:
        """Rows as they are stored; what cannot be read is explained with line and column."""
        try:
            raw = self.source.read(start, self.n_rows if stop is None else stop)
        except ValueError as error:
            raise explain(self.path, self.kind, self.names, error) from error
        return Raw(raw.X, None if raw.y is None else as_labels(raw.y), raw.w)

    def parts(self) -> Iterator[tuple[int, Raw]]:
        """All rows in parts, with the number of the first."""
        with task("rows", -(-self.n_rows // _PART)) as step:
            for start in range(0, self.n_rows, _PART):
                yield start, self.read(start, min(start + _PART, self.n_rows))
                step()

    def place(self, row: int, column: int | None) -> str:
        """A cell in the user's words: file, line and column; without a column, the target's."""
        return place_of(self.path, self.kind, row, self.target if column is None else self._name(column))

    def _name(self, column: int) -> str:
        return self.names[column] if self.names else str(column + (self.kind.format == "svmlight"))


def as_labels(y: Array) -> Array:
    """Targets as labels or numbers: whole numbers of a float file become int, truth values words, spaces go.

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
        if other is not None and _same_file(out, other):
            raise UsageError(f"{out} would be written over {other}, which this command uses too; give another name.")
    if not (stream and is_stream(out)):
        check_writable(out)


def _same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them does not exist yet
        return os.path.realpath(one) == os.path.realpath(other)


def is_stream(path: str) -> bool:
    """Whether a path is a device, a pipe or a socket: nothing that could be replaced by a file."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def target_file(options: Any) -> str | None:
    """The file that ``--target`` names, where it is one."""
    given = getattr(options, "target", None)
    return given if given is not None and given.endswith(".npy") and os.path.isfile(given) else None


def is_large(path: str, options: Any) -> bool:
    """Whether a file is to be streamed."""
    return os.path.getsize(path) > options.memory * 1e6


def open_for_training(options: Any, console: Console, path: str | None = None, *, scale: bool = False) -> Table:
    """A file with a target; where none is named, the usual names and then the last column are taken, and told."""
    path = options.data if path is None else path
    kind = _recognised(options, console, path)
    if kind.format in ("npy", "npz"):
        return _open_arrays(path, kind, options.target, scale)
    if kind.format == "svmlight":
        if options.target is not None:
            raise UsageError("--target is for tables; svmlight files have the label first in each line.")
        return _opened(path, kind, "", None, scale=scale)
    names = kind.names if kind.format == "csv" else _parquet_names(path)
    if options.target is not None:
        target = _column(path, names, options.target, "--target")
    else:
        usual = [name for name in names if name.strip().lower() in _USUAL]
        target = usual[0] if len(usual) == 1 else names[-1]
        console.remark(f"target: column {target!r} of {path} (choose another with --target)")
    return _opened(path, kind, target, _features(path, names, target, options.ignore), scale=scale)


def _recognised(options: Any, console: Console, path: str) -> Kind:
    """The kind of a file; what was found out about a header is told, with the flag that decides otherwise."""
    kind = recognise(path, header=options.header, format=options.format)
    if kind.format == "csv" and options.header is None:
        if kind.header:
            console.remark(f"header: the first line of {path} names the columns (--no-header if it is a row)")
        else:
            console.remark(f"header: none, the first line of {path} is a row (--header if it names the columns)")
    return kind


def open_for_model(options: Any, console: Console, path: str, model: Model) -> Table:
    """A file whose features are those of a model; its target is found where it has one."""
    kind = _recognised(options, console, path)
    meta = model.meta
    if kind.format in ("npy", "npz"):
        table = _open_arrays(path, kind, options.target, False, needed=False)
    elif kind.format == "svmlight":
        zero_based = bool(meta["zero_based"]) if "zero_based" in meta else "auto"
        table = _opened(path, kind, "", None, n_features=model.n_features, zero_based=zero_based)
    else:
        names = kind.names if kind.format == "csv" else _parquet_names(path)
        wanted = options.target if options.target is not None else meta.get("target")
        target = None
        if options.target is not None:
            target = _column(path, names, options.target, "--target")
        elif wanted in names and (kind.header or kind.format == "parquet" or len(names) > model.n_features):
            target = str(wanted)
        features = _features_of(path, names, target, options.ignore, model)
        table = _opened(path, kind, target, features)
    if table.source.n_features != model.n_features:
        raise DataError(
            f"{path} has {table.source.n_features} features, but the model was trained on {model.n_features}"
            f"{_names_of(model)}. Leave columns out with --ignore, or name the target with --target."
        )
    return table


def _features_of(
    path: str, names: tuple[str, ...], target: str | None, ignore: list[str], model: Model
) -> tuple[str, ...]:
    """The model's own columns, by name where both sides have names, else all columns."""
    known = None if model.feature_names is None else tuple(str(name) for name in model.feature_names)
    by_name = known is not None and not all(name.isdigit() for name in known)
    if known is None or (not by_name and (len(names) == model.n_features or not set(known) <= set(names))):
        return _features(path, names, target, ignore)
    missing = [name for name in known if name not in names]
    if missing:
        raise DataError(
            f"{path} lacks the column(s) {', '.join(map(repr, missing[:10]))} that the model was trained on; "
            f"it has {', '.join(map(repr, names[:20]))}."
        )
    return known


def _names_of(model: Model) -> str:
    return "" if model.feature_names is None else f" ({', '.join(map(str, model.feature_names[:10]))}, ...)"


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


def _features(path: str, names: tuple[str, ...], target: str | None, ignore: list[str]) -> tuple[str, ...]:
    left_out = [_column(path, names, name, "--ignore") for words in ignore for name in words.split(",")]
    if target is not None and target in left_out:
        raise UsageError(f"column {target!r} is the target and cannot be ignored.")
    features = tuple(name for name in names if name != target and name not in left_out)
    if not features:
        raise DataError(f"{path} has no columns left beside the target; it has {', '.join(map(repr, names))}.")
    return features


def _parquet_names(path: str) -> tuple[str, ...]:
    from kompakt.data.files import pyarrow_module

    try:
        return tuple(pyarrow_module("pyarrow.parquet").ParquetFile(path).schema_arrow.names)
    except (ValueError, OSError) as error:
        raise DataError(f"{path} is a damaged Parquet file: {error}") from error


def _opened(path: str, kind: Kind, target: str | None, features: tuple[str, ...] | None, **more: Any) -> Table:
    options: dict[str, Any] = {"format": kind.format, **more}
    if features is not None:
        options |= {"target": target, "columns": list(features)}
    if kind.format == "csv":
        options |= {"delimiter": kind.delimiter, "header": kind.header}
    try:
        source = open_rows(path, **options)
    except ValueError as error:
        raise explain(path, kind, features, error, target) from error
    return Table(path, kind, source, target, features)


def _open_arrays(path: str, kind: Kind, target: str | None, scale: bool, needed: bool = True) -> Table:
    chosen: Any = target
    if target is not None and target.lstrip("-").isdigit() and kind.format == "npy":
        chosen = int(target)
    try:
        source = open_rows(path, target=chosen, scale=scale, format=kind.format)
    except (ValueError, KeyError) as error:
        raise DataError(f"{path}: {error}") from error
    if needed and not source.n_targets:
        raise UsageError(
            f"{path} holds no target: name a column by its number (--target -1) or a file (--target labels.npy), or "
            "save both as numpy.savez(path, X=X, y=y)."
        )
    return Table(path, kind, source, "" if source.n_targets else None, None)


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
    >>> from kompakt.cli.tables import prepared
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
    >>> from kompakt.cli.tables import missing_targets
    >>> missing_targets(np.array(["yes", ""])).tolist()
    [False, True]
    """
    if y.dtype.kind in "US":
        from kompakt.cli.tables import MISSING

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
    >>> from kompakt.cli.tables import task_of
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
    >>> from kompakt.cli.tables import task_in_words
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
        self.n_index_passes = inner.n_index_passes

    def read(self, start: int, stop: int) -> Raw:
        raw = self.inner.read(start, stop)
        return Raw(np.where(np.isnan(raw.X), self.fill, raw.X).astype(self.dtype, copy=False), raw.y, raw.w)

    def where(self, row: int) -> str:
        return self.inner.where(row)


def streamed_medians(table: Table) -> Array:
    """Medians by evenly spaced rows of a file, all of them where there are few."""
    step = max(1, -(-table.n_rows // _MEDIAN_ROWS))
    return medians(np.concatenate([raw.X[-start % step :: step] for start, raw in table.parts()]))
