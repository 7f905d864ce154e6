"""What kind of file this is, by its content; the ending counts for nothing."""

from __future__ import annotations

import csv
import os
import re
from dataclasses import dataclass

from kompakt.cli.console import DataError

_PAIR = re.compile(r"^(\d+|qid):\S+$")
_DELIMITERS = ",;\t|"


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
        Whether the first line of a CSV file names the columns; None looks: a line without any number does.
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
    return _csv(path, lines[0], header)


def is_model(path: str) -> bool:
    """Whether a file is a kompakt model."""
    return _beginning(path).startswith(b"\x89KMPKT")


def _beginning(path: str) -> bytes:
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder; expected a file of rows.")
    with open(path, "rb") as file:
        start = file.read(1 << 16)
    if not start:
        raise DataError(f"{path} is empty; expected rows.")
    return start


def _by_magic(path: str, start: bytes) -> str | None:
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    if start.startswith(b"PK\x03\x04"):
        return "npz"
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"\x89KMPKT"):
        raise DataError(f"{path} is a kompakt model, but a file of rows is expected here. Is the order of files right?")
    if start.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):
        raise DataError(f"{path} is compressed; unpack it first.")
    if b"\0" in start:
        raise DataError(f"{path} is neither text nor Parquet, npy or npz: it holds bytes that no text has.")
    return None


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


def _csv(path: str, first: str, header: bool | None) -> Kind:
    delimiter = max(_DELIMITERS, key=first.count)
    if not first.count(delimiter):
        raise DataError(
            f"{path}, line 1: {first[:60]!r} holds no comma, semicolon, tab or bar, nor pairs like 3:0.5; expected "
            "CSV, svmlight, Parquet, npy or npz."
        )
    cells = next(csv.reader([first], delimiter=delimiter))
    if header is None:
        header = not any(is_number(cell) for cell in cells)
    names = cells if header else [str(number) for number in range(len(cells))]
    for number, name in enumerate(names):
        if not name.strip():
            raise DataError(f"{path}, line 1: column {number} has no name; give it one, or pass --no-header.")
        if name in names[:number]:
            raise DataError(f"{path}, line 1: two columns have the name {name!r}; rename one of them.")
    return Kind("csv", delimiter, header, tuple(names))
