"""Tables in text files as programs write them: packed or not, in any usual encoding, with any usual separator.

A `TextTable` is what a look at the beginning of a file tells about it; its blocks are columns of cells, as text.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

import numpy as np

from kompakt.data.table import MISSING, TableError, is_date, is_missing, number_of

Array = np.ndarray

#: bytes from the beginning of a file, and lines of it, by which it is recognised
LOOKED_AT, LOOKED_AT_LINES = 1 << 16, 200
#: rows of a block
BLOCK_ROWS = 20_000
#: share of the lines that must have the same number of cells for a separator to be one
_CONSISTENT = 0.9
#: share of the cells of a column that must be numbers or dates for the cell above it to be looked at as a name
_MOSTLY = 0.9
#: rows without which the labels of a column are no evidence
_FEW_ROWS = 10
_PACKED = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zst", b"PK\x03\x04": "zip"}
#: what the readers of packed files raise where one is damaged
_DAMAGED = (EOFError, OSError, zlib.error, zipfile.BadZipFile, lzma.LZMAError)
#: lines without cells in the tables that databases and Markdown draw, and the line below them
_RULE = re.compile(r"[\s|+=:-]*[-=]{2,}[\s|+=:-]*$|\(\d+ rows?( affected)?\)\s*$")
#: how SQL statements, JSON and web pages begin
_OTHER_TEXT = re.compile(
    r"(insert into|create table|drop table|<(!doctype|html|table|\?xml)|\[?\s*\{\s*\")", re.IGNORECASE
)
_SEPARATOR_SAID = re.compile(r'"?sep=(.)"?$', re.IGNORECASE)


def _as_western(error: UnicodeError) -> tuple[str, int]:
    """Bytes that are no UTF-8 as letters of Windows' western encoding, or of Latin-1 where that has none."""
    assert isinstance(error, UnicodeDecodeError)
    raw = error.object[error.start : error.end]
    try:
        return raw.decode("cp1252"), error.end
    except UnicodeDecodeError:
        return raw.decode("latin-1"), error.end


codecs.register_error("kompakt-western", _as_western)


def packing(start: bytes) -> str | None:
    """How a file is packed, by its first bytes."""
    return next((kind for magic, kind in _PACKED.items() if start.startswith(magic)), None)


def unpacked(path: str) -> IO[bytes]:
    """The bytes of a file, without its packing."""
    with open(path, "rb") as file:
        kind = packing(file.read(8))
    if kind is None:
        return open(path, "rb")
    if kind == "zst":
        try:
            import pyarrow
        except ImportError as error:
            raise ImportError(
                f'{path} is packed with Zstandard, which needs pyarrow: pip install "kompakt[cli]". Or unpack it first.'
            ) from error
        return pyarrow.CompressedInputStream(pyarrow.OSFile(path), "zstd")  # type: ignore[no-any-return]
    if kind != "zip":
        opener: Any = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}[kind]
        return opener(path)  # type: ignore[no-any-return]
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
        if "[Content_Types].xml" in names:
            raise TableError(f"{path} is a workbook or a document; save its table as CSV first.")
        if len(names) != 1:
            shown = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
            raise TableError(
                f"{path} is a zip archive of {len(names)} files ({shown}); unpack it and give one of them."
            )
        return archive.open(names[0])  # it stays open when the archive is closed


def _encoding(start: bytes) -> str:
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    even, odd = start[0:2000:2].count(0), start[1:2000:2].count(0)
    if max(even, odd) > 0.4 * len(start[:2000]) / 2 and min(even, odd) == 0:
        return "utf-16-le" if odd else "utf-16-be"
    return "utf-8"


def _errors(encoding: str) -> str:
    """What is done with bytes that are no text of the encoding."""
    return "kompakt-western" if encoding.startswith("utf-8") else "replace"


@dataclass(frozen=True)
class TextTable:
    r"""A text file with a table.

    Parameters
    ----------
    path : str
    delimiter : str
        A space stands for any number of spaces and tabs.
    names : tuple of str
        Numbers from 0 where the file has no header.
    header : bool
    n_above : int
        Lines before the first row, comments and blank lines not counted.
    encoding : str
    packed : bool
    comments : bool
        Whether lines that begin with # are left out.
    boxed : bool
        Whether every line begins and ends with the delimiter.
    padded : bool
        Whether there are spaces around some delimiters.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from kompakt.data.text import TextTable
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rows.csv")
    ...     _ = path.write_text("# made by hand\nage; city\n31; Rome\n45; Oslo\n")
    ...     table = TextTable.recognise(str(path))
    ...     table.names, {name: cells.tolist() for name, cells in next(table.blocks()).items()}
    (('age', 'city'), {'age': ['31', '45'], 'city': ['Rome', 'Oslo']})
    """

    path: str
    delimiter: str
    names: tuple[str, ...] = ()
    header: bool = False
    n_above: int = 0
    encoding: str = "utf-8"
    packed: bool = False
    comments: bool = False
    boxed: bool = False
    padded: bool = False

    @classmethod
    def recognise(cls, path: str, *, header: bool | None = None) -> TextTable:
        """Look at the beginning of a file; `header` says whether a line names the columns, None decides by the rows."""
        start, packed = beginning(path)
        encoding = _encoding(start)
        text = start.decode(encoding, _errors(encoding))
        lines = [line for line in text.splitlines() if line.strip()][: LOOKED_AT_LINES + 1]
        if not lines:
            raise TableError(f"{path} holds blank lines only; expected rows.")
        if len(start) == LOOKED_AT and len(lines) > 1:
            lines.pop()  # it may be cut
        if other := _OTHER_TEXT.match(lines[0].strip()):
            raise TableError(f"{path} begins with {other[0]!r}: this is no table of rows. Export it as CSV first.")
        remarks = [line.lstrip()[1:] for line in lines if line.lstrip().startswith("#")]
        comments = 0 < len(remarks) < 0.5 * len(lines) or (bool(remarks) and len(lines) - len(remarks) > 1)
        if comments:
            lines = [line for line in lines if not line.lstrip().startswith("#")]
        n_above, said = 0, _SEPARATOR_SAID.match(lines[0].strip())
        if said and len(lines) > 1:
            lines, n_above = lines[1:], 1
        delimiter = said[1] if said else _delimiter(path, lines)
        drawn = delimiter in "| "
        lines = [line for line in lines if not (drawn and _RULE.match(line.strip()))]
        boxed = delimiter == "|" and all(line.strip().startswith("|") and line.strip().endswith("|") for line in lines)
        table = cls(path, delimiter, boxed=boxed)
        try:
            rows = [row for row in table._cells(lines) if any(row)]
            of_remark = next(table._cells(remarks[-1:]), []) if comments else []
        except csv.Error as error:
            raise TableError(f"{path} cannot be read as CSV: {error}.") from None
        if not rows:
            raise TableError(f"{path} holds no cells; expected rows.")
        width = Counter(map(len, rows)).most_common(1)[0][0]
        # titles above the table: a line with one cell where the others have several
        while len(rows) > 2 and width > 1 and rows[0][0] and not any(rows[0][1:]) and len(rows[1]) > 1:
            rows, n_above = rows[1:], n_above + 1
        first = rows[0]
        if header is None:
            header = names_columns(first, rows[1:]) or (len(first) == width - 1 and len(rows) > 1)
            if not header and len(of_remark) == len(first) and names_columns(of_remark, rows):
                first, header, n_above = of_remark, True, n_above - 1  # the comment above the rows names the columns
        if header and len(first) == width - 1 and len(rows) > 1:  # R's row names have no name
            first = ["", *first]
        names = [(cell or f"Unnamed: {number}") if header else str(number) for number, cell in enumerate(first)]
        if names.count("Unnamed: 0") == 2:  # a data frame that was saved with its index, read and saved again
            names[0] = "Unnamed: 0.1"
        for number, name in enumerate(names):
            if name in names[:number]:
                raise TableError(f"{path}, line 1: two columns have the name {name!r}; rename one of them.")
        padded = any(f"{delimiter} " in line or f" {delimiter}" in line for line in lines)
        return cls(path, delimiter, tuple(names), header, n_above + header, encoding, packed, comments, boxed, padded)

    @property
    def is_simple(self) -> bool:
        """Whether a reader that knows but separators and headers can read the file."""
        usual = self.encoding.startswith("utf-8") and not (self.packed or self.comments or self.boxed or self.padded)
        named = not any(name.startswith("Unnamed: ") for name in self.names)
        return usual and named and self.delimiter in ",;\t|" and self.n_above == int(self.header)

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Line number and cells of every row."""
        number = 0

        def lines_with_cells(file: Iterable[str]) -> Iterator[str]:
            nonlocal number
            for line in file:
                number += 1
                comment = self.comments and line.lstrip().startswith("#")
                if not comment and not (self.delimiter in "| " and _RULE.match(line.strip())):
                    yield line

        text = io.TextIOWrapper(unpacked(self.path), self.encoding, _errors(self.encoding), newline="")
        try:
            with text as file:
                filled = ((number, row) for row in self._cells(lines_with_cells(file)) if any(row))
                yield from islice(filled, self.n_above, None)
        except csv.Error as error:
            raise TableError(f"{self.path}, line {number}: this cannot be read as CSV: {error}.") from None
        except _DAMAGED as error:
            if not self.packed:
                raise
            raise TableError(f"{self.path} is damaged: it cannot be unpacked ({error}).") from error

    def blocks(self, n_rows: int = BLOCK_ROWS) -> Iterator[dict[str, Array]]:
        """Columns of cells, as text, of `n_rows` rows at a time."""
        width, rows = len(self.names), []
        for line, row in self.rows():
            if len(row) > width and not any(row[width:]):  # separators at the end of the line
                row = row[:width]
            if len(row) != width:
                raise TableError(
                    f"{self.path}, line {line}: {len(row)} columns, but the first line has {width}. Every row needs "
                    "one cell per column; put text that holds the delimiter in double quotes."
                )
            rows.append(row)
            if len(rows) == n_rows:
                yield self._columns(rows)
                rows = []
        if rows:
            yield self._columns(rows)

    def _columns(self, rows: list[list[str]]) -> dict[str, Array]:
        found = {}
        for name, column in zip(self.names, zip(*rows, strict=True), strict=True):
            found[name] = np.empty(len(rows), dtype=object)
            found[name][:] = column
        return found

    def _cells(self, lines: Iterable[str]) -> Iterator[list[str]]:
        if self.delimiter == " ":
            lines = (line.replace("\t", " ").strip() for line in lines)
        elif self.boxed:
            lines = (line.strip()[1:-1] for line in lines)
        for row in csv.reader(lines, delimiter=self.delimiter, skipinitialspace=True):
            yield [cell.strip() for cell in row]


def beginning(path: str) -> tuple[bytes, bool]:
    """The first bytes of a file, unpacked, and whether it is packed."""
    with open(path, "rb") as file:
        start = file.read(LOOKED_AT)
    if packing(start) is None:
        return start, False
    try:
        with unpacked(path) as file:
            return file.read(LOOKED_AT), True
    except (*_DAMAGED, RuntimeError) as error:
        raise TableError(f"{path} is damaged: it cannot be unpacked ({error}).") from error


def _delimiter(path: str, lines: list[str]) -> str:
    """The separator that gives most lines the same number of cells, at least two."""
    for named in (True, False):  # the first line may be a title
        for one in "\t;|,":
            usual = [line for line in lines if not (one == "|" and _RULE.match(line.strip()))]
            try:
                counts = [len(row) for row in csv.reader(usual, delimiter=one, skipinitialspace=True)]
            except csv.Error:
                continue
            if not counts:
                continue
            width, n_lines = Counter(counts).most_common(1)[0]
            begins = not named or counts[0] >= max(2, width - 1)
            if begins and width > 1 and n_lines >= _CONSISTENT * (len(counts) - 1):
                return one
    most = max("\t;|,", key=lines[0].count)
    if lines[0].count(most):
        return most
    counts = [len(line.split()) for line in lines if not _RULE.match(line.strip())]
    width, n_lines = Counter(counts).most_common(1)[0] if counts else (0, 0)
    if width > 1 and len(lines) > 1 and n_lines >= _CONSISTENT * (len(counts) - 1):
        return " "
    raise TableError(
        f"{path}, line 1: {lines[0][:60]!r} holds no comma, semicolon, tab or bar, nor pairs like 3:0.5; expected "
        "CSV, svmlight, Parquet, npy or npz."
    )


def _is_value(cell: str) -> bool:
    """Whether a cell is a number, with whatever decimal sign, or a date."""
    return number_of(cell) is not None or number_of(cell, ",") is not None or is_date(cell)


def names_columns(first: list[str], below: list[list[str]]) -> bool:
    """Whether the first line of a table names its columns, by what stands below each of its cells.

    Text above numbers or dates is a name, whatever the other cells are: headers may hold years or numbers.  Where no
    such column begins with text, the columns of labels decide: a label of the first row comes again below, a name
    does not.
    """
    rows = [row for row in below if len(row) == len(first)]
    new = []  # for every column of labels, whether the cell above it is none of them
    for cell, column in zip(first, zip(*rows, strict=True), strict=False):
        known = [value for value in column if not is_missing(value)]
        if known and sum(map(_is_value, known)) >= _MOSTLY * len(known):
            if cell.lower() not in MISSING and not _is_value(cell) and re.search(r"[^\W\d_]", cell):
                return True
        elif len(known) >= _FEW_ROWS and len(set(known)) <= len(known) // 2:
            new.append(cell not in known)
    numbers = [cell for cell in first if _is_value(cell)]
    if not all(new) or not numbers:
        return all(new)
    return bool(new) and all(number.isdigit() for number in numbers) and len(set(first)) == len(first)
