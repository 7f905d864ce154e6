"""Tables in text files as programs write them: packed or not, in any usual encoding, with any usual separator.

A `TextTable` is what a look at the beginning of a file tells about it.  Its rows are unpacked and decoded as text, some
rows at a time; a `Block` has their cells, by pyarrow where it is installed and can, else by Python's own reader.
Numbers and words are read alike, whether they are streamed or not.
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
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain, islice
from typing import IO, Any

import numpy as np

from kompakt.data.table import MISSING, Number, TableError, TableSchema, Unused, is_missing, number_of
from kompakt.data.times import is_date

Array = np.ndarray

#: bytes from the beginning of a file, and lines of it, by which it is recognised
LOOKED_AT, LOOKED_AT_LINES = 1 << 16, 200
#: where lines are long, more bytes are looked at: until there are so many lines, or so many bytes
_LEAST_LINES, _MOST_LOOKED_AT = 20, 1 << 24
#: characters of a block, about
BLOCK_SIZE = 1 << 20
#: characters below which Python's own reader is done before pyarrow is imported
_LEAST_TEXT = 1 << 18
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


def unpacked(path: str, kind: str | None) -> IO[bytes]:
    """The bytes of a file that is packed as `packing` says."""
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


class Block:
    """Cells of some rows, by the names of their columns; each column is an array of texts, of NumPy or of pyarrow."""

    def __init__(self, names: Iterable[str], columns: list[Any]) -> None:
        self.columns, self.n_rows = dict(zip(names, columns, strict=True)), len(columns[0])

    def __getitem__(self, name: str) -> Array:
        return np.asarray(self.columns[name], dtype=object)

    def cells_for(self, schema: TableSchema) -> dict[str, Array]:
        """What a schema encodes: numbers of columns that hold nothing else, and texts of the others."""
        cells = {}
        for column in schema.columns:
            if column.name in self.columns and not isinstance(column, Unused):
                plain = isinstance(column, Number) and column.decimal == "." and not schema.missing
                cells[column.name] = self._numbers(column.name) if plain else self[column.name]
        return cells

    def _numbers(self, name: str) -> Array:
        """Cells as numbers with NaN for gaps where pyarrow reads them all, which is far quicker; else as text."""
        column = self.columns[name]
        if isinstance(column, np.ndarray):
            return column
        import pyarrow
        from pyarrow import compute

        for gaps in (False, True):
            if gaps:
                empty = compute.is_in(compute.utf8_lower(column), value_set=pyarrow.array(MISSING))
                column = compute.if_else(empty, None, column)
            with suppress(pyarrow.ArrowInvalid):  # words, currencies, grouped digits
                return np.asarray(column.cast("double"))
        return self[name]


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
        Rows before the first that belongs to the table, comments and blank lines not counted.
    encoding : str
    packed : str or None
        How the file is packed.
    comments : bool
        Whether lines that begin with # are left out.
    boxed : bool
        Whether every line begins and ends with the delimiter.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from kompakt.data.text import TextTable
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rows.csv")
    ...     _ = path.write_text("# made by hand\nage; city\n31; Rome\n45; Oslo\n")
    ...     table = TextTable.recognise(str(path))
    ...     table.names, next(table.blocks())["city"].tolist()
    (('age', 'city'), ['Rome', 'Oslo'])
    """

    path: str
    delimiter: str
    names: tuple[str, ...] = ()
    header: bool = False
    n_above: int = 0
    encoding: str = "utf-8"
    packed: str | None = None
    comments: bool = False
    boxed: bool = False
    _read_ahead: list[Iterable[Block]] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def recognise(
        cls,
        path: str,
        *,
        header: bool | None = None,
        delimiter: str | None = None,
        start: tuple[bytes, str | None] | None = None,
    ) -> TextTable:
        """Look at the beginning of a file.

        Parameters
        ----------
        path : str
        header : bool, optional
            Whether a line names the columns; None decides by the rows.
        delimiter : str, optional
            None finds the separator that most lines agree on.
        start : tuple, optional
            What `beginning` gave, where it is known.
        """
        first_bytes, packed = start or beginning(path, first_bytes_of(path))
        encoding = _encoding(first_bytes)
        text = first_bytes.decode(encoding, _errors(encoding))
        lines = [line for line in io.StringIO(text, newline="") if line.strip()][: LOOKED_AT_LINES + 1]
        if not lines:
            raise TableError(f"{path} holds blank lines only; expected rows.")
        if len(first_bytes) >= LOOKED_AT and len(lines) > 1:
            lines.pop()  # it may be cut
        if other_kind := _OTHER_TEXT.match(lines[0].strip()):
            raise TableError(f"{path} begins with {other_kind[0]!r}: this is no table of rows. Export it as CSV first.")
        remarks = [line.lstrip()[1:] for line in lines if line.lstrip().startswith("#")]
        comments = 0 < len(remarks) < 0.5 * len(lines) or (bool(remarks) and len(lines) - len(remarks) > 1)
        if comments:
            lines = [line for line in lines if not line.lstrip().startswith("#")]
        n_above, separator = 0, _SEPARATOR_SAID.match(lines[0].strip())
        if separator and len(lines) > 1:
            lines, n_above = lines[1:], 1
        delimiter = delimiter or (separator[1] if separator else _delimiter(path, lines))
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
        return cls(path, delimiter, tuple(names), header, n_above + header, encoding, packed, comments, boxed)

    def _open(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(unpacked(self.path, self.packed), self.encoding, _errors(self.encoding), newline="")

    def texts(self, start: int = 0, size: int = BLOCK_SIZE) -> Iterator[tuple[int, str]]:
        """Whole rows of about `size` characters at a time, and the place in the file where they begin."""
        try:
            with self._open() as file:
                if start:
                    file.seek(start)
                while text := file.read(size):
                    yield start, self._to_row_end(text + file.readline(), file)
                    start = 0 if self.packed else file.tell()
        except _DAMAGED as error:
            if not self.packed:
                raise
            raise TableError(f"{self.path} is damaged: it cannot be unpacked ({error}).") from error

    def _to_row_end(self, text: str, file: IO[str]) -> str:
        """Lines of a text, with those of the file that are needed to close the quotes of its last cell."""
        if text.count('"') % 2 == 0:
            return text
        lines, lines_below = io.StringIO(text, newline=""), []

        def all_lines() -> Iterator[str]:
            yield from lines
            while line := file.readline():
                lines_below.append(line)
                yield line

        for _ in csv.reader(all_lines(), delimiter=self.delimiter, skipinitialspace=True):
            if lines.tell() == len(text):
                break
        return text + "".join(lines_below)

    def block(self, text: str, *, first: bool) -> Block | None:
        """Cells of a text with whole rows, where it has some; the `first` begins with what stands above the table."""
        lines, width = io.StringIO(text, newline=""), len(self.names)
        filled = self._filled(lines)
        try:
            deque(islice(filled, self.n_above if first else 0), maxlen=0)
            columns = self._cells_by_pyarrow(text[lines.tell() :])
            if columns is None:
                rows = [row if any(row[width:]) else row[:width] for row in filled]  # separators at the ends of lines
                cells = np.array([[""] * width, *rows], dtype=object)[1:]  # of one dimension where lengths differ
                columns = [cells[:, number] for number in range(width)]
        except (csv.Error, IndexError):
            raise self.error() from None
        return Block(self.names, columns) if len(columns[0]) else None

    def error(self, schema: TableSchema | None = None) -> TableError:
        """The error of the first row that is no CSV, too long or too short, or has words where a schema has numbers."""
        line, width, why = self.n_above, len(self.names), "it has changed since it was opened"
        columns, also = (schema.columns, frozenset(schema.missing)) if schema else ((), frozenset())
        signs = {column.name: column.decimal for column in columns if isinstance(column, Number)}
        try:
            for line, row in self.rows():
                if len(row) < width or any(row[width:]):
                    return TableError(
                        f"{self.path}, line {line}: {len(row)} columns, but the first line has {width}. Every row "
                        "needs one cell per column; put text that holds the delimiter in double quotes."
                    )
                for name, cell in zip(self.names, row, strict=False):
                    if name in signs and number_of(cell, signs[name]) is None and not is_missing(cell, also):
                        return TableError(
                            f"{self.path}, line {line}, column {name!r}: {cell[:40]!r} is no number. Every feature "
                            "must be one: encode categories and dates as numbers before training, or leave such "
                            "columns out with columns=[...]."
                        )
        except csv.Error as error:
            why = str(error)
        return TableError(f"{self.path}, after line {line}: this cannot be read as CSV: {why}.")

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Line number and cells of every row: for messages, as it takes long."""
        number = 0

        def lines() -> Iterator[str]:
            nonlocal number
            for _, text in self.texts():
                for line in io.StringIO(text, newline=""):
                    number += 1
                    yield line

        yield from ((number, row) for row in islice(self._filled(lines()), self.n_above, None))

    def blocks(self) -> Iterator[Block]:
        """All rows, in blocks."""
        if self._read_ahead:
            blocks = self._read_ahead.pop()
            if isinstance(blocks, list):  # all of them, which may be asked for again
                self._read_ahead.append(blocks)
            yield from blocks
            return
        for number, (_, text) in enumerate(self.texts()):
            if block := self.block(text, first=number == 0):
                yield block

    def head(self, n_rows: int) -> dict[str, Array]:
        """Cells of the first rows, at most `n_rows`; the next to ask for `blocks` need not read them again."""
        blocks, first, n_read = self.blocks(), [], 0
        while n_read < n_rows and (block := next(blocks, None)):
            first.append(block)
            n_read += block.n_rows
        self._read_ahead.append(first if n_read < n_rows else chain(first, blocks))
        return {name: np.concatenate([block[name] for block in first])[:n_rows] for name in self.names if first}

    def _cells_by_pyarrow(self, text: str) -> list[Any] | None:
        """Columns of texts, or None where pyarrow is missing or cannot read what Python's reader may."""
        spaced = rf'(^|[{re.escape(self.delimiter)}\r\n])[ \t]+"'  # quotes count behind spaces too
        unusual = self.comments or self.delimiter not in ",;\t" or ('"' in text and re.search(spaced, text))
        if len(text) < _LEAST_TEXT or unusual or find_spec("pyarrow") is None:
            return None
        import pyarrow
        from pyarrow import compute
        from pyarrow import csv as reader

        raw = text.encode("utf-8", "replace")
        try:
            table = reader.read_csv(
                pyarrow.BufferReader(raw),
                reader.ReadOptions(column_names=self.names, use_threads=False, block_size=len(raw) + 1),
                reader.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                reader.ConvertOptions(
                    column_types=dict.fromkeys(self.names, pyarrow.string()), strings_can_be_null=False
                ),
            )
        except pyarrow.ArrowInvalid:  # such as rows of different lengths
            return None
        columns = [compute.utf8_trim_whitespace(column.combine_chunks()) for column in table.columns]
        filled = compute.not_equal(columns[0], "")
        for column in columns[1:]:
            if compute.all(filled).as_py():
                return columns
            filled = compute.or_(filled, compute.not_equal(column, ""))
        return [column.filter(filled) for column in columns]

    def _filled(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Rows of lines, without comments, rules and blank rows."""
        drawn = self.delimiter in "| "
        for row in self._cells(
            line
            for line in lines
            if not (self.comments and line.lstrip().startswith("#")) and not (drawn and _RULE.match(line.strip()))
        ):
            if any(row):
                yield row

    def _cells(self, lines: Iterable[str]) -> Iterator[list[str]]:
        if self.delimiter == " ":
            lines = (line.replace("\t", " ").strip() for line in lines)
        elif self.boxed:
            lines = (line.strip()[1:-1] for line in lines)
        for row in csv.reader(lines, delimiter=self.delimiter, skipinitialspace=True):
            yield [cell.strip() for cell in row]


def first_bytes_of(path: str) -> bytes:
    """The first bytes of a file as it is stored: as many as a look at its lines needs."""
    with open(path, "rb") as file:
        return _some_lines(file)


def beginning(path: str, first_bytes: bytes) -> tuple[bytes, str | None]:
    """The first bytes of a file without its packing, and how it is packed, by its first bytes with it."""
    kind = packing(first_bytes)
    if kind is None:
        return first_bytes, None
    try:
        with unpacked(path, kind) as file:
            return _some_lines(file), kind
    except (*_DAMAGED, RuntimeError) as error:
        raise TableError(f"{path} is damaged: it cannot be unpacked ({error}).") from error


def _some_lines(file: IO[bytes]) -> bytes:
    start = file.read(LOOKED_AT)
    while max(start.count(b"\n"), start.count(b"\r")) < _LEAST_LINES and len(start) < _MOST_LOOKED_AT:
        next_bytes = file.read(len(start))
        if not next_bytes:
            break
        start += next_bytes
    return start


def _delimiter(path: str, lines: list[str]) -> str:
    """The separator that gives most lines the same number of cells, at least two."""
    for first_line_counts in (True, False):  # the first line may be a title
        for delimiter in "\t;|,":
            lines_with_cells = [line for line in lines if not (delimiter == "|" and _RULE.match(line.strip()))]
            try:
                counts = [len(row) for row in csv.reader(lines_with_cells, delimiter=delimiter, skipinitialspace=True)]
            except csv.Error:
                continue
            if not counts:
                continue
            width, n_lines = Counter(counts).most_common(1)[0]
            begins = not first_line_counts or counts[0] >= max(2, width - 1)
            if begins and width > 1 and n_lines >= _CONSISTENT * (len(counts) - 1):
                return delimiter
    most_frequent = max("\t;|,", key=lines[0].count)
    if lines[0].count(most_frequent):
        return most_frequent
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
    is_new = []  # for every column of labels, whether the cell above it is none of them
    for cell, column in zip(first, zip(*rows, strict=True), strict=False):
        present = [value for value in column if not is_missing(value)]
        if present and sum(map(_is_value, present)) >= _MOSTLY * len(present):
            if cell.lower() not in MISSING and not _is_value(cell) and re.search(r"[^\W\d_]", cell):
                return True
        elif len(present) >= _FEW_ROWS and len(set(present)) <= len(present) // 2:
            is_new.append(cell not in present)
    numbers = [cell for cell in first if _is_value(cell)]
    if not all(is_new) or not numbers:
        return all(is_new)
    return bool(is_new) and all(number.isdigit() for number in numbers) and len(set(first)) == len(first)
