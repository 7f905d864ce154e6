"""Finding the line and the column that an error is about.  Slow and careful: it runs only when something is wrong."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Iterator, Sequence

from kompakt.cli.console import DataError
from kompakt.cli.recognise import LIKE_MISSING, MISSING, Kind, is_number


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
