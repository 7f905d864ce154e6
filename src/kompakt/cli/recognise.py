"""What kind of file this is, by its content; the ending counts for nothing."""

from __future__ import annotations

import csv
import os
import re
import zipfile
from dataclasses import dataclass

from kompakt.cli.console import DataError

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
    >>> from kompakt.cli.recognise import recognise
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
    if start.startswith(b"PK"):
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
    except zipfile.BadZipFile as error:
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
    >>> from kompakt.cli.recognise import is_number
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
