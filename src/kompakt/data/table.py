"""Tables as people have them: what each column is, and how it becomes numbers.

A `TableSchema` is inferred once from the training table, printed, stored in the model file and applied to every table
that is predicted: numbers as they are, words as one 0/1 column per level or, where levels are many, as what the target
is like in each, dates as calendar parts, gaps filled with the median or the most frequent level.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any, ClassVar

import numpy as np

from kompakt.data.checks import missing as lacks_target
from kompakt.data.levels import MOST_STORED, Targets, are_codes, frequencies, held_out_means, level_means, targets_of
from kompakt.data.times import (
    DAY,
    FIRST_DAY,
    FORMS,
    HOUR,
    LAST_DAY,
    PARTS,
    are_clock_times,
    calendar_parts,
    circle,
    date_form,
    epoch_form,
    hours_of,
    parts_that_vary,
    seconds_of,
)

Array = np.ndarray

#: cells that mean a missing value, in lower case
MISSING = frozenset({
    "", "na", "n/a", "nan", "-nan", "null", "(null)", "\\n", "none", "?", "-", "--", ".", "<na>", "nat",
    "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan",
    "#n/a", "#na", "#n/a n/a", "#nv", "#div/0!", "#value!", "#wert!", "#ref!", "#num!", "#null!", "#name?",
})  # fmt: skip
#: levels of a column of words that get a column of their own: at most so many, each seen at least so often
MOST_LEVELS, LEAST_COUNT = 30, 2
#: share of the cells that must be numbers (or dates) for the column to be one of numbers (or dates)
MOSTLY = 0.9
#: share of missing cells above which a column gets an indicator of them
INDICATED = 0.01
#: rows below which different values are no evidence of an identifier
FEW_ROWS = 10
#: beyond so many rows, whole numbers or words of which this share differs tell the rows apart: they are an identifier
IDENTIFIER_ROWS, IDENTIFIER_SHARE = 50, 0.99
#: whole numbers are classes while at most so many values differ, or so large a share of the rows
FEW_CLASSES, CLASS_SHARE = 10, 0.05
#: so many values are classes whatever their frequencies; beyond, frequencies are alike above this ratio of the least
#: to the largest (the digits of USPS have 0.46, those of MNIST 0.80)
SURELY_CLASSES, ALIKE = 6, 1 / 3
#: names that a target column often has, the surer ones first
_TARGET_NAMES = (
    ("target", "label", "labels", "class", "y"),
    ("outcome", "response", "diagnosis", "species", "classes", "survived"),
)
OTHER = "other"
_FOLDED = f'rare in training or new, taken as "{OTHER}"'
_WITH_INDICATOR = ", with a missing-value indicator"
INDEX = "it has no name, as the row names or row numbers of a data frame"
_CONSECUTIVE = "consecutive numbers, as of an identifier or an index"
_ALL_DIFFERENT = "all values are different, as of an identifier"
_NEARLY_ALL_DIFFERENT = "nearly all values are different, as of an identifier"
_MOSTLY_ONCE = "more than half of its texts come once, as names, addresses and free text do"
_STAMPS = "times within one hour, as of an export"
_IDENTIFIERS = frozenset({INDEX, _CONSECUTIVE, _ALL_DIFFERENT, _NEARLY_ALL_DIFFERENT, _MOSTLY_ONCE, _STAMPS})
#: names that pandas gives to an index, wherever it stands, and to columns without a name
_PANDAS_INDEX = re.compile(r"Unnamed: 0(\.\d+)?|__index_level_\d+__")
_NO_NAME = re.compile(r"\s*|Unnamed: \d+(\.\d+)?")

_CURRENCY = "$€£¥₹"
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)
_GROUPED = {  # no group begins with 0: 0,123 is no thousands
    ".": re.compile(r"[+-]?[1-9]\d{,2}([,'\u2019\u00a0\u202f ]\d{3})+(\.\d*)?"),
    ",": re.compile(r"[+-]?([1-9]\d{,2}([.'\u2019\u00a0\u202f ]\d{3})+|\d+)(,\d*)?([eE][+-]?\d+)?|[+-]?,\d+"),
}

class TableError(ValueError):
    """A table that does not fit: the message names the column, what was expected and what was found."""


def is_missing(cell: object, also: frozenset[str] = frozenset()) -> bool:
    """Whether a cell of text, or a value of a data frame, stands for a missing value."""
    if cell is None or (isinstance(cell, float) and cell != cell):
        return True
    if isinstance(cell, str):
        text = cell.strip()
        return text.lower() in MISSING or text in also
    return str(cell) in ("NaT", "<NA>")


def number_of(cell: object, decimal: str = ".") -> float | None:
    """The number in a cell, with a currency sign, a per cent sign or grouped digits; None if there is none.

    Examples
    --------
    >>> from kompakt.data.table import number_of
    >>> number_of("$1,234.50"), number_of("1.234,5", decimal=","), number_of("5 %"), number_of("five")
    (1234.5, 1234.5, 5.0, None)
    """
    if isinstance(cell, int | float | np.number):
        return float(cell)
    if not isinstance(cell, str):
        try:
            return float(cell)  # type: ignore[arg-type]  # a Decimal or the like
        except (TypeError, ValueError):
            return None
    text = cell.strip().replace("\u2212", "-").strip(_CURRENCY).rstrip("%").strip(_CURRENCY + " \u00a0")
    if len(text) > 2 and text[0] == "(" and text[-1] == ")":  # as bookkeepers write less than nothing
        text = "-" + text[1:-1].strip(_CURRENCY)
    elif len(text) > 1 and text[-1] == "-":
        text = "-" + text[:-1]
    if len(text) > 2 and text[0] in "+-" and text[1] in _CURRENCY:
        text = text[0] + text[2:].strip()
    if decimal == "." and _PLAIN.fullmatch(text):
        return float(text)
    if _GROUPED[decimal].fullmatch(text):
        kept = re.sub("[,'\u2019\u00a0\u202f ]" if decimal == "." else "[.'\u2019\u00a0\u202f ]", "", text)
        return float(kept.replace(",", "."))
    return None


def _numbers(cells: Array, decimal: str) -> Array:
    """Numbers of an array of cells; NaN where there is none."""
    if cells.dtype.kind in "fiu":
        return cells.astype(np.float64)
    if decimal == "." and not any("_" in cell for cell in cells if isinstance(cell, str)):
        try:
            return np.array(list(map(float, cells)), dtype=np.float64)  # many cells are plain numbers: ten times faster
        except (TypeError, ValueError):
            pass
    numbers = (number_of(cell, decimal) for cell in cells)
    return np.array([np.nan if value is None else value for value in numbers], dtype=np.float64)


def _stripped(cell: object) -> str:
    return str(cell).strip()


def _count_unseen(counts: Counter[str], text: str, cells: Array) -> None:
    """Count cells that training did not have, under a text with the first of them as an example."""
    if len(cells):
        text += " (such as "
        entry = next((entry for entry in counts if entry.startswith(text)), f"{text}{_stripped(cells[0])!r})")
        counts[entry] += len(cells)


def _parse_and_fill(
    column: Number | Date | Time,
    cells: Array,
    gaps: Array,
    parse: Callable[[Array, str], Array],
    style: str,
    counts: Counter[str],
) -> tuple[Array, Array]:
    """Numbers of the cells by `parse(cells, style)`, the column's fill where there is none, and where that is."""
    values = np.full(len(cells), np.nan)
    values[~gaps] = parse(cells[~gaps], style)
    absent = np.isnan(values)
    _count_unseen(counts, f"{column.name}: not a {column.kind}, taken as missing", cells[absent & ~gaps])
    values[absent] = column.fill
    return values, absent


@dataclass(frozen=True)
class Number:
    """A column of numbers, taken as they are."""

    kind: ClassVar[str] = "number"
    name: str
    fill: float
    indicator: bool = False
    decimal: str = "."

    @property
    def features(self) -> list[str]:
        return [self.name] + [f"{self.name} is missing"] * self.indicator

    def encode(self, cells: Array, gaps: Array, counts: Counter[str]) -> Array:
        values, absent = _parse_and_fill(self, cells, gaps, _numbers, self.decimal, counts)
        return np.column_stack([values, absent]) if self.indicator else values[:, None]

    def describe(self) -> str:
        gaps = f"; gaps become {self.fill:.6g}{_WITH_INDICATOR}" if self.indicator else ""
        return "number" + (", decimal comma" if self.decimal == "," else "") + gaps


@dataclass(frozen=True)
class Category:
    """A column of words: one 0/1 column per level, and one for all other words where there were such."""

    kind: ClassVar[str] = "category"
    name: str
    levels: tuple[str, ...]
    fill: str  # the level of gaps; "" where they are none
    other: bool = False
    indicator: bool = False

    @property
    def features(self) -> list[str]:
        names = [f"{self.name}={level}" for level in self.levels] + [f"{self.name}={OTHER}"] * self.other
        return names + [f"{self.name} is missing"] * self.indicator

    def encode(self, cells: Array, gaps: Array, counts: Counter[str]) -> Array:
        n_levels = len(self.levels)
        place = {level: number for number, level in enumerate(self.levels)}
        codes = np.full(len(cells), place.get(self.fill, n_levels))
        codes[~gaps] = [place.get(_stripped(cell), n_levels) for cell in cells[~gaps]]
        values = (codes[:, None] == np.arange(n_levels + self.other)).astype(np.float64)
        folded = _FOLDED if self.other else "other levels than training's"
        _count_unseen(counts, f"{self.name}: {folded}", cells[codes == n_levels])
        return np.column_stack([values, gaps]) if self.indicator else values

    def describe(self) -> str:
        shown = ", ".join(self.levels[:6]) + (", ..." if len(self.levels) > 6 else "")
        with_other = " and other" if self.other else ""
        gaps = f"; gaps become {self.fill}{_WITH_INDICATOR}" if self.indicator else ""
        return f"{len(self.levels)} levels{with_other} ({shown}){gaps}"


@dataclass(frozen=True)
class Levels:
    """A column of words, or of codes that are whole numbers, with many levels.

    Before the targets are known (`outputs` is empty) a word is the number of its level, and a code is itself. Then
    every level has a row of `values`, and all other levels have the last one.
    """

    kind: ClassVar[str] = "levels"
    name: str
    levels: tuple[str, ...]  # the most frequent first
    fill: str = ""  # level of gaps, which of words are a level of their own
    decimal: str = ""  # of codes; empty for words
    indicator: bool = False  # of codes
    outputs: tuple[str, ...] = ()
    values: tuple[tuple[float, ...], ...] = ()

    @property
    def features(self) -> list[str]:
        names = [self.name] if self.decimal or not self.outputs else []
        names += [f"{self.name}: {output}" for output in self.outputs]
        return names + [f"{self.name} is missing"] * self.indicator

    def encode(self, cells: Array, gaps: Array, counts: Counter[str]) -> Array:
        n_levels = len(self.levels)
        if self.decimal:
            number = Number(self.name, float(self.fill), self.indicator, self.decimal)
            coded = number.encode(cells, gaps, counts)
        else:
            place = {level: number for number, level in enumerate(self.levels)}
            coded = np.full((len(cells), 1), float(place.get(self.fill, n_levels)))
            coded[~gaps, 0] = [place.get(_stripped(cell), n_levels) for cell in cells[~gaps]]
        other = self.codes(coded) == n_levels
        if self.outputs and other.mean() > 0.5:  # some are rare by intention
            _count_unseen(counts, f"{self.name}: {_FOLDED}", cells[other])
        return self.finish(coded)

    def codes(self, coded: Array) -> Array:
        """The number of the level of every row, by what `encode` makes of it before the targets are known."""
        if not self.decimal:
            return coded[:, 0].astype(np.intp)
        levels = np.array([float(level) for level in self.levels])
        order = np.argsort(levels)
        place = np.minimum(np.searchsorted(levels[order], coded[:, 0]), len(levels) - 1)
        return np.where(levels[order][place] == coded[:, 0], order[place], len(levels))

    def finish(self, coded: Array, means: Array | None = None) -> Array:
        """Features of what `encode` makes of rows before the targets are known; `means` are theirs, not the table's."""
        if not self.outputs:
            return coded
        blocks = np.array(self.values)[self.codes(coded)]
        if means is not None:
            blocks[:, : means.shape[1]] = means
        return np.column_stack([coded[:, :1], blocks, coded[:, 1:]] if self.decimal else [blocks])

    @classmethod
    def ordered(cls, name: str, levels: Sequence[str]) -> Levels:
        """Words whose order is known: each is its rank, from 0, and other words and gaps are the middle."""
        middle = len(levels) // 2
        ranks = [*range(len(levels)), middle]  # as the number of the level is, so that `finish` may be called twice
        values = tuple((float(rank),) for rank in ranks)
        return cls(name, tuple(levels), levels[middle], outputs=("rank",), values=values)

    def learn(self, coded: Array, targets: Targets) -> tuple[Levels, Array]:
        """The column with the means of the targets, and the means of the training rows, from other rows than each."""
        codes, n_levels = self.codes(coded), len(self.levels)
        table = np.hstack([level_means(codes, targets.values, n_levels), frequencies(codes, n_levels)])
        learned = replace(self, outputs=(*targets.names, "frequency"), values=tuple(map(tuple, table.tolist())))
        return learned, held_out_means(codes, targets.values, n_levels)

    def describe(self) -> str:
        if self.outputs == ("rank",):
            return "ordered words: " + " < ".join(self.levels)
        shown = ", ".join(self.levels[:3]) + (", ..." if len(self.levels) > 3 else "")
        what = "codes" if self.decimal else "levels"
        by = " and ".join(self.outputs) if len(self.outputs) <= 3 else "shares of classes"
        by = f", each by its {by}" if self.outputs else ""
        return f"{len(self.levels)} {what} ({shown}){by}" + _WITH_INDICATOR * self.indicator


@dataclass(frozen=True)
class Date:
    """A column of dates, months, quarters, weeks or moments: days since the first, year, and places in the calendar."""

    kind: ClassVar[str] = "date"
    name: str
    first: float
    fill: float
    form: str = "%Y-%m-%d"
    parts: tuple[str, ...] = PARTS[:4]
    indicator: bool = False

    @property
    def features(self) -> list[str]:
        return [f"{self.name} {part}" for part in self.parts] + [f"{self.name} is missing"] * self.indicator

    def encode(self, cells: Array, gaps: Array, counts: Counter[str]) -> Array:
        seconds, absent = _parse_and_fill(self, cells, gaps, seconds_of, self.form, counts)
        parts = calendar_parts(seconds, self.first)
        columns = [parts[part] for part in self.parts] + [absent] * self.indicator
        return np.column_stack(columns).astype(np.float64)

    def describe(self) -> str:
        first = datetime.fromtimestamp(self.first, UTC).date().isoformat()
        parts = ", ".join(dict.fromkeys(part.split()[0] for part in self.parts[1:]))
        return f"date: days since {first}, {parts}" + _WITH_INDICATOR * self.indicator


@dataclass(frozen=True)
class Time:
    """A column of clock times, or of durations: hours and, of clock times, their place on the circle of a day."""

    kind: ClassVar[str] = "time"
    name: str
    fill: float
    clock: bool = True
    indicator: bool = False

    @property
    def features(self) -> list[str]:
        names = [f"{self.name} hours", *(f"{self.name} {part}" for part in circle("hour", np.zeros(1)) if self.clock)]
        return names + [f"{self.name} is missing"] * self.indicator

    def encode(self, cells: Array, gaps: Array, counts: Counter[str]) -> Array:
        hours, absent = _parse_and_fill(self, cells, gaps, hours_of, "", counts)
        around = circle("hour", hours).values() if self.clock else ()
        return np.column_stack([hours, *around, *[absent] * self.indicator]).astype(np.float64)

    def describe(self) -> str:
        return ("clock time" if self.clock else "duration in hours") + _WITH_INDICATOR * self.indicator


@dataclass(frozen=True)
class Unused:
    """A column that is left out, and why."""

    kind: ClassVar[str] = "unused"
    name: str
    why: str

    @property
    def is_identifier(self) -> bool:
        """Whether the column could be used, but tells the rows apart instead of describing them."""
        return self.why in _IDENTIFIERS

    @property
    def features(self) -> list[str]:
        return []

    def encode(self, cells: Array, gaps: Array, counts: Counter[str]) -> Array:
        return np.empty((len(cells), 0))

    def describe(self) -> str:
        return f"left out: {self.why}"


Column = Number | Category | Levels | Date | Time | Unused
_KINDS: dict[str, type[Column]] = {column.kind: column for column in (Number, Category, Levels, Date, Time, Unused)}


def _decimal_of(cells: Sequence[object], decimals: str) -> tuple[str, float]:
    """The decimal sign under which most cells are numbers, and their share; with a tie the first sign."""
    shares = {sign: float(np.mean([number_of(cell, sign) is not None for cell in cells])) for sign in decimals}
    best = max(decimals, key=lambda sign: shares[sign])
    return best, shares[best]


def _infer_column(name: str, cells: Array, gaps: Array, decimals: str) -> Column:
    """What a column is; `decimals` are the decimal signs that its numbers may have, the likelier first."""
    present, n_rows = cells[~gaps], len(cells)
    if not len(present):
        return Unused(name, "every cell is missing" if n_rows else "the table has no rows")
    indicator = float(np.mean(gaps)) > INDICATED
    kind = cells.dtype.kind
    if kind in "fiu":
        return _number_column(name, present, ".", n_rows)
    try:
        distinct = list(dict.fromkeys(present.tolist()))
    except TypeError:  # lists and the like
        return Unused(name, f"cells of type {type(present[0]).__name__}, which are no single values")
    if len(distinct) == 1 and not indicator:
        return Unused(name, f"constant ({_stripped(distinct[0])})")
    if kind == "M" or hasattr(distinct[0], "year"):
        seconds = seconds_of(present, "")
        clock = " %H:%M:%S" * bool(np.any(seconds % DAY)) + ".%f" * bool(np.any(seconds % 1))
        return _date_column(name, present, "%Y-%m-%d" + clock, indicator)  # the form of text in other tables
    if kind != "b":
        # at most some thousand different cells decide; the others are met, and counted, when they are encoded
        looked = distinct[:5000]
        texts = [_stripped(cell) for cell in looked]
        if (form := date_form(texts, MOSTLY)) is not None:
            return _date_column(name, present, form, indicator)
        words = all(isinstance(cell, bool | np.bool_) for cell in looked)
        sign, share = (".", 0.0) if words else _decimal_of(looked, decimals)
        if share >= MOSTLY:
            return _number_column(name, present, sign, n_rows)
        if np.isfinite(hours_of(np.array(texts[:100], dtype=object))).mean() >= MOSTLY:
            return Time(name, float(np.nanmedian(hours_of(present))), are_clock_times(texts), indicator)
    counts = Counter(_stripped(cell) for cell in present)
    repeated = [level for level, count in counts.most_common() if count >= LEAST_COUNT]
    if len(counts) > MOST_LEVELS and len(repeated) > 1:
        gap = [""] * (int(gaps.sum()) >= LEAST_COUNT)  # a level of its own
        return Levels(name, tuple(gap + repeated[: MOST_STORED - len(gap)]))
    frequent = repeated[:MOST_LEVELS] or list(counts)[:MOST_LEVELS]
    if len(counts) == 1 and not indicator:
        return Unused(name, f"constant ({frequent[0]})")
    levels = tuple(sorted(frequent))
    return Category(name, levels, frequent[0], len(counts) > len(levels), indicator)


def _number_column(name: str, present: Array, decimal: str, n_rows: int) -> Column:
    values = _numbers(present, decimal)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return Unused(name, "no finite number")
    indicator = 1 - len(finite) / n_rows > INDICATED
    if finite.min() == finite.max() and not indicator:
        return Unused(name, f"constant ({finite[0]:g})")
    if (form := epoch_form(name, finite)) is not None:
        return _date_column(name, present, form, indicator)
    return Number(name, float(np.median(finite)), indicator, decimal)


def _date_column(name: str, present: Array, form: str, indicator: bool) -> Column:
    seconds = seconds_of(present, form)
    seconds = seconds[np.isfinite(seconds)]
    if seconds.min() == seconds.max() and not indicator:
        return Unused(name, "constant date")
    first = float(np.floor(seconds.min() / DAY) * DAY)
    return Date(name, first, float(np.median(seconds)), form, parts_that_vary(seconds), indicator)


def _why_identifier(column: Column, cells: Array, gaps: Array, *, index: bool) -> str | None:
    """Why a column tells the rows apart instead of describing them; None where it describes them.

    Fractions are measurements even if all of them differ. `index` says that the column stands where a data frame has
    its index, and has no name.
    """
    present = cells[~gaps]
    if isinstance(column, Unused):
        return None
    if isinstance(column, Number):
        values = _numbers(present, column.decimal)
        values = values[np.isfinite(values)]
        if np.any(values != np.round(values)):
            return None
    if index:
        return INDEX
    n_rows = len(present)
    if isinstance(column, Date):
        sample = present[:: 1 + n_rows // 1000]  # dates are slow to read, and nearly all columns of them span more
        within = n_rows > IDENTIFIER_ROWS and all(_span(dates, column.form) < HOUR for dates in (sample, present))
        return _STAMPS if within else None
    if isinstance(column, Time):
        return None
    texts = Counter(() if isinstance(column, Number) else map(_stripped, present))
    n_distinct = len(texts)
    if isinstance(column, Number):
        n_distinct = len(np.unique(present) if present.dtype.kind in "fiu" else set(present.tolist()))
        if n_distinct == len(cells) >= FEW_ROWS and values.max() - values.min() == n_distinct - 1:
            return _CONSECUTIVE
        if n_rows <= IDENTIFIER_ROWS or _may_be_fractions(present, "," if column.decimal == "." else "."):
            return None
    if n_distinct == n_rows >= FEW_ROWS:
        return _ALL_DIFFERENT
    if n_rows > IDENTIFIER_ROWS and n_distinct >= IDENTIFIER_SHARE * n_rows:
        return _NEARLY_ALL_DIFFERENT
    n_once = sum(count == 1 for count in texts.values())
    if not isinstance(column, Number) and n_distinct > MOST_LEVELS and n_once > 0.5 * n_distinct:
        return _MOSTLY_ONCE
    return None


def _span(dates: Array, form: str) -> float:
    """Seconds from the first to the last date."""
    seconds = seconds_of(dates, form)
    return float(np.nanmax(seconds) - np.nanmin(seconds))


def _may_be_fractions(cells: Array, sign: str) -> bool:
    """Whether all cells are text like 1,234, which are thousands, or fractions with another decimal sign."""
    return all(isinstance(cell, str) and sign in cell and number_of(cell, sign) is not None for cell in cells)


def index_columns(names: Sequence[str]) -> set[str]:
    """Names of the columns that are the index of a data frame: the first ones without a name, and pandas' names."""
    leading = list(takewhile(_NO_NAME.fullmatch, names))
    return {*leading, *filter(_PANDAS_INDEX.fullmatch, names)}


def is_table(X: Any) -> bool:
    """Whether X is a pandas, polars or pyarrow table, or a mapping of names to columns.

    Examples
    --------
    >>> from kompakt.data.table import is_table
    >>> is_table({"age": [31, 45]}), is_table([[31], [45]])
    (True, False)
    """
    return isinstance(X, Mapping) or ((hasattr(X, "columns") or hasattr(X, "column_names")) and not hasattr(X, "dask"))


def is_frame(X: Any) -> bool:
    """Whether X is a data frame in memory, and neither of sparse columns nor of numbers without names.

    Numbers without names are an array, and scikit-learn wants both to give the same model.
    """
    if isinstance(X, Mapping) or not is_table(X):
        return False
    if not hasattr(X, "iloc"):
        return True
    nameless = not any(isinstance(name, str) for name in X.columns)
    numbers = all(getattr(kind, "kind", "O") in "iufb" for kind in X.dtypes)
    return not (nameless and numbers) and not any("Sparse" in str(kind) for kind in X.dtypes)


def columns_of(table: Any) -> dict[str, Array]:
    """Columns of a table as arrays: a pandas, polars or pyarrow table, or a mapping of names to sequences."""
    listed = table if isinstance(table, Mapping) else getattr(table, "column_names", table.columns)
    names = [str(name) for name in listed]
    if len(set(names)) != len(names):
        double = next(name for name, count in Counter(names).items() if count > 1)
        raise TableError(f"two columns have the name {double!r}; column names must differ.")
    return {name: _as_array(column) for name, column in zip(names, _columns(table), strict=True)}


def _columns(table: Any) -> list[Any]:
    """Columns as the table itself has them."""
    if isinstance(table, Mapping):
        return list(table.values())
    if hasattr(table, "iloc"):  # pandas
        return [table.iloc[:, number] for number in range(table.shape[1])]
    return list(table.get_columns() if hasattr(table, "get_columns") else table.columns)  # polars, pyarrow


def _as_array(column: Any) -> Array:
    """A column as an array of numbers, of dates, or of Python objects with None for missing."""
    if isinstance(column, list | tuple):
        cells = np.empty(len(column), dtype=object)
        cells[:] = column
        return cells
    if isinstance(column, np.ndarray):
        values = column
    elif hasattr(column, "to_pylist"):  # pyarrow
        numeric = re.fullmatch(r"double|float|u?int(8|16|32|64)", str(column.type))
        values = column.to_numpy() if numeric else np.array(column.to_pylist() + [None], dtype=object)[:-1]
    else:
        values = column.to_numpy()
    if values.dtype.kind == "m":
        values = values / np.timedelta64(1, "s")
    kind = str(getattr(column, "dtype", "")).lower()
    if "categor" in kind or "enum" in kind or "dictionary" in str(getattr(column, "type", "")).lower():
        values = np.array([None if is_missing(cell) else str(cell) for cell in values], dtype=object)
    if values.dtype.kind in "fiuM":
        return values
    return values.astype(object)


def _unambiguous_sign(column: Column, cells: Array, gaps: Array) -> str | None:
    """The decimal sign of a column of text with some number that can be read with this sign only."""
    if not isinstance(column, Number) or cells.dtype.kind != "O":
        return None
    sample = list(dict.fromkeys(cells[~gaps].tolist()))[:1000]
    return column.decimal if _has_unambiguous_number(sample, column.decimal) else None


def _has_unambiguous_number(cells: Iterable[object], decimal: str) -> bool:
    """Whether some text is a number with this decimal sign only."""
    other_sign = "," if decimal == "." else "."
    texts = (cell for cell in cells if isinstance(cell, str))
    return any(number_of(text, decimal) is not None and number_of(text, other_sign) is None for text in texts)


def _gaps(cells: Array, also: frozenset[str]) -> Array:
    if cells.dtype.kind == "f":
        return np.asarray(np.isnan(cells))
    if cells.dtype.kind == "M":
        return np.asarray(np.isnat(cells))
    if cells.dtype.kind in "iub":
        return np.zeros(len(cells), dtype=bool)
    return np.array([is_missing(cell, also) for cell in cells], dtype=bool)


@dataclass(frozen=True)
class TableSchema:
    """How the columns of a table become features.

    Parameters
    ----------
    columns : tuple of Number, Category, Levels, Date, Time or Unused
        In the order of the training table, without the target.
    missing : tuple of str
        Texts that mean a missing value besides the usual ones.

    Examples
    --------
    >>> from kompakt.data.table import TableSchema
    >>> table = {"age": ["31", "45", "NA", "28"], "city": ["Rome", "Oslo", "Rome", "Oslo"]}
    >>> schema = TableSchema.infer(table)
    >>> schema.feature_names
    ['age', 'age is missing', 'city=Oslo', 'city=Rome']
    >>> schema.encode({"age": ["50"], "city": ["Rome"]})
    array([[50.,  0.,  0.,  1.]])
    """

    columns: tuple[Column, ...]
    missing: tuple[str, ...] = ()
    #: what the last table contained that training did not, by description; not part of the schema
    counts: Counter[str] = field(default_factory=Counter, compare=False, repr=False)

    @classmethod
    def infer(
        cls, table: Any, *, missing: Iterable[str] = (), decimal: str | None = None, keep: Iterable[str] = ()
    ) -> TableSchema:
        """The schema of a training table.

        Parameters
        ----------
        table : pandas, polars or pyarrow table, or mapping of names to sequences of cells
        missing : iterable of str
            Texts that mean a missing value besides the usual ones.
        decimal : {".", ","}, optional
            The decimal sign; None recognises it over each column.
        keep : iterable of str
            Columns that are used even if they look like an identifier.
        """
        return cls.with_identifiers(table, missing=missing, decimal=decimal).without_identifiers(table, keep)

    @classmethod
    def with_identifiers(cls, table: Any, *, missing: Iterable[str] = (), decimal: str | None = None) -> TableSchema:
        """The schema of a training table whose identifiers count as numbers, words and dates; arguments of `infer`."""
        also = frozenset(missing)
        columns = {name: (cells, _gaps(cells, also)) for name, cells in columns_of(table).items()}
        decimals = decimal or ".,"
        inferred = [_infer_column(name, *column, decimals) for name, column in columns.items()]
        signs = {_unambiguous_sign(column, *columns[column.name]) for column in inferred}
        if signs - {None} == {","}:  # none speaks for the point: 1.234 is then a number of thousands in all columns
            inferred = [_infer_column(name, *column, ",.") for name, column in columns.items()]
        return cls(tuple(inferred), tuple(missing))

    def with_order(self, name: str, levels: Sequence[str]) -> TableSchema:
        """The schema in which a column of words is their rank in a given order.

        Examples
        --------
        >>> from kompakt.data.table import TableSchema
        >>> table = {"size": ["small", "large", "small", "medium"]}
        >>> schema = TableSchema.infer(table).with_order("size", ["small", "medium", "large"])
        >>> schema.encode(table).ravel().tolist()
        [0.0, 2.0, 0.0, 1.0]
        """
        columns = (Levels.ordered(name, levels) if column.name == name else column for column in self.columns)
        return replace(self, columns=tuple(columns))

    def without_identifiers(self, table: Any, keep: Iterable[str] = ()) -> TableSchema:
        """The schema that leaves out identifiers: columns which tell the rows of the training table apart.

        Parameters
        ----------
        table : as for `infer`
        keep : iterable of str
            Columns that stay.

        Examples
        --------
        >>> from kompakt.data.table import TableSchema
        >>> table = {"order": list(range(100, 112)), "size": [0.5, 1.5] * 6}
        >>> schema = TableSchema.with_identifiers(table)
        >>> schema.without_identifiers(table).feature_names, schema.without_identifiers(table, ["order"]).feature_names
        (['size'], ['order', 'size'])
        """
        cells, kept, also = columns_of(table), frozenset(keep), frozenset(self.missing)
        if absent := sorted(kept - set(cells)):
            raise TableError(f"the table has no column {absent[0]!r} to keep; it has {', '.join(map(repr, cells))}.")
        index = index_columns(list(cells))
        columns: list[Column] = []
        for column in self.columns:
            why = None
            if column.name not in kept:
                of_column = cells[column.name]
                why = _why_identifier(column, of_column, _gaps(of_column, also), index=column.name in index)
            columns.append(column if why is None else Unused(column.name, why))
        if all(isinstance(column, Unused) for column in columns):  # a series over its own number has nothing else
            numbers = [isinstance(column, Number) and column.name not in index for column in self.columns]
            columns = [old if stays else new for old, new, stays in zip(self.columns, columns, numbers, strict=True)]
        return replace(self, columns=tuple(columns))

    @classmethod
    def of_numbers(cls, names: Iterable[str], missing: tuple[str, ...] = ()) -> TableSchema:
        """Columns of numbers as they are, NaN in their gaps."""
        return cls(tuple(Number(name, np.nan) for name in names), missing)

    def without_indicators(self) -> TableSchema:
        """The schema without missing-value indicators."""
        columns = (
            column if isinstance(column, Unused | Levels) else replace(column, indicator=False)
            for column in self.columns
        )
        return replace(self, columns=tuple(columns))

    def with_decimal_of(self, table: Any, decimal: str | None = None) -> TableSchema:
        """The schema for a table whose numbers may be written with another decimal sign than those of training.

        Parameters
        ----------
        table : as for `infer`
            The table, or its first rows.
        decimal : {".", ","}, optional
            The decimal sign of the table; None keeps that of training, unless numbers that can be read with the other
            one only say otherwise.

        Raises
        ------
        TableError
            Where hardly any cell of a column of numbers is a number.

        Examples
        --------
        >>> from kompakt.data.table import TableSchema
        >>> schema = TableSchema.infer({"price": ["1,5", "2,25", "1.200,5"]})
        >>> new = {"price": ["1.5", "1.200"]}
        >>> schema.with_decimal_of(new).encode(new).tolist()
        [[1.5], [1.2]]
        """
        also, cells = frozenset(self.missing), columns_of(table)
        texts: dict[str, list[Any]] = {}  # different cells of the columns of numbers that hold text
        for column in self.columns:
            if isinstance(column, Number) and column.name in cells and cells[column.name].dtype.kind == "O":
                present = cells[column.name][~_gaps(cells[column.name], also)]
                texts[column.name] = list(dict.fromkeys(present.tolist()))[:5000]
        sign_of: dict[str, str] = {}  # the signs that cells of these columns say
        said: dict[str, set[str]] = {".": set(), ",": set()}  # by the sign in training
        for column in self.columns if decimal is None else ():
            if isinstance(column, Number) and (looked := texts.get(column.name)):
                sign, share = _decimal_of(looked, ".," if column.decimal == "." else ",.")
                if share >= MOSTLY and _has_unambiguous_number(looked, sign):
                    sign_of[column.name] = sign
                    said[column.decimal].add(sign)
        columns: list[Column] = []
        for new in self.columns:
            if isinstance(new, Number):
                signs = said[new.decimal]  # where they agree, also for columns that could be read with both
                sign = min(signs) if len(signs) == 1 else sign_of.get(new.name, new.decimal)
                new = replace(new, decimal=decimal or sign)
                looked = texts.get(new.name, [])
                strange = [cell for cell in looked if number_of(cell, new.decimal) is None]
                # a few words may stand for missing values, as they did in training
                enough = len(looked) >= FEW_ROWS or any(map(str.isdigit, _stripped(strange[0] if strange else "")))
                if enough and len(strange) > MOSTLY * len(looked):
                    raise TableError(
                        f"column {new.name!r} holds numbers in the training table, but hardly any here: "
                        f"{_stripped(strange[0])!r} is none with the decimal sign {new.decimal!r}."
                    )
            columns.append(new)
        return replace(self, columns=tuple(columns))

    @property
    def takes_numbers(self) -> bool:
        """Whether every column that is used holds numbers."""
        return all(isinstance(column, Number | Unused) or getattr(column, "decimal", "") for column in self.columns)

    @property
    def is_plain(self) -> bool:
        """Whether every column is numbers as they are, so that rows of numbers need no schema."""
        return all(isinstance(column, Number) and not column.indicator for column in self.columns)

    @property
    def names(self) -> list[str]:
        """Names of the columns of a table, those that are left out included."""
        return [column.name for column in self.columns]

    @property
    def n_features(self) -> int:
        """Number of the features that the columns become."""
        return len(self.feature_names)

    @property
    def feature_names(self) -> list[str]:
        """Names of the features that the columns become."""
        return [name for column in self.columns for name in column.features]

    def encode(self, table: Any, counts: Counter[str] | None = None) -> Array:
        """Features of a table's rows; columns are found by name, and others are passed over.

        Parameters
        ----------
        table : as for `infer`
        counts : Counter, optional
            What the table contains that training did not is added here; by default `counts` of the schema begin anew.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
        """
        cells = columns_of(table)
        used = [column for column in self.columns if not isinstance(column, Unused)]
        absent = [column.name for column in used if column.name not in cells]
        if absent:
            raise TableError(
                f"the table has no column {', '.join(map(repr, absent[:5]))}, which the model was trained with; it has "
                f"{', '.join(map(repr, list(cells)[:10]))}."
            )
        n_rows = len(next(iter(cells.values()))) if cells else 0
        also = frozenset(self.missing)
        if counts is None:
            counts = self.counts
            counts.clear()
        blocks = [column.encode(cells[column.name], _gaps(cells[column.name], also), counts) for column in used]
        return np.concatenate(blocks, axis=1) if blocks else np.empty((n_rows, 0))

    # -- what is learned from the targets --------------------------------------------------------------

    def learn(self, coded: Array, y: Array | None, *, classes: bool) -> tuple[TableSchema, dict[str, Array]]:
        """The schema with what the targets are like in levels of words, and in codes where these are no quantities.

        Parameters
        ----------
        coded : ndarray
            What `encode` makes of the training rows before.
        y : ndarray or None
            Their targets; without them, of levels only frequencies are learned.
        classes : bool
            Whether these are labels.

        Returns
        -------
        schema : TableSchema
        means : dict
            By column, the features of the training rows themselves: each from other rows than its own fold, so that
            a row does not see its own target. Rows that are predicted get theirs from the schema.

        Examples
        --------
        >>> import numpy as np
        >>> from kompakt.data.table import TableSchema
        >>> city = np.random.default_rng(0).integers(0, 50, 1000)
        >>> table = {"city": [f"city {number}" for number in city]}
        >>> schema = TableSchema.infer(table)
        >>> learned, means = schema.learn(schema.encode(table), city % 5 / 4, classes=False)
        >>> learned.feature_names
        ['city: mean', 'city: frequency']
        >>> learned.encode({"city": ["city 3", "elsewhere"]}).round(1)[:, 0].tolist()
        [0.8, 0.5]
        """
        targets, columns, means = targets_of(y, len(coded), classes=classes), [], {}
        for column, block in self._blocks(coded):
            if isinstance(column, Number) and len(targets.names) and are_codes(block[:, 0], targets.values):
                values, counts = np.unique(block[:, 0], return_counts=True)
                frequent = values[np.argsort(-counts, kind="stable")]
                fill = column.fill if np.isfinite(column.fill) else float(np.median(block[:, 0]))
                levels = tuple(f"{value:.0f}" for value in frequent)
                column = Levels(column.name, levels, f"{fill:.0f}", column.decimal, column.indicator)
            if isinstance(column, Levels) and not column.outputs:
                column, means[column.name] = column.learn(block, targets)
            columns.append(column)
        return replace(self, columns=tuple(columns)), means

    def finish(self, coded: Array, means: Mapping[str, Array] | None = None) -> Array:
        """Features of rows that were encoded before `learn`; `means` are what it returned, for the training rows."""
        blocks = [
            column.finish(block, (means or {}).get(column.name)) if isinstance(column, Levels) else block
            for column, block in self._blocks(coded)
        ]
        return np.concatenate(blocks, axis=1) if blocks else coded

    def _blocks(self, coded: Array) -> Iterator[tuple[Column, Array]]:
        """Every column, and what it was encoded to before `learn`."""
        stop = 0
        for column in self.columns:
            start = stop
            stop += 1 + column.indicator if isinstance(column, Levels) else len(column.features)
            yield column, coded[:, start:stop]

    def describe(self) -> str:
        """One line per column, for people."""
        width = max((len(column.name) for column in self.columns), default=0)
        return "\n".join(f"{column.name:<{width}}  {column.describe()}" for column in self.columns)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the header of a model file."""
        columns = [{"kind": column.kind, **asdict(column)} for column in self.columns]
        for column in columns:
            if column.get("fill") != column.get("fill"):  # gaps that nothing fills: JSON has no NaN
                column["fill"] = "nan"
        return {"missing": list(self.missing), "columns": columns}

    @classmethod
    def from_json(cls, values: Any) -> TableSchema:
        """The schema that `to_json` described; anything else is refused with a `TableError`."""
        try:
            described, missing = values["columns"], values["missing"]
            if set(values) != {"columns", "missing"}:
                raise ValueError(f"it holds columns and missing; got {sorted(map(str, values))[:10]}")
            if not isinstance(described, list) or not isinstance(missing, list):
                raise TypeError("columns and missing must be lists")
            columns = tuple(_column_from(entry) for entry in described)
            if not all(isinstance(text, str) for text in missing):
                raise TypeError("missing must be texts")
            if len({column.name for column in columns}) != len(columns):
                raise ValueError("two columns have one name")
        except (KeyError, TypeError, ValueError) as error:
            raise TableError(f"the table schema is damaged: {error}") from error
        return cls(columns, tuple(missing))


def _column_from(values: Any) -> Column:
    values = dict(values)
    kind = _KINDS[values.pop("kind")]
    if kind is Date and "hours" in values:  # files before parts could be chosen
        hours = values.pop("hours")
        if not isinstance(hours, bool):
            raise ValueError(f"hours={hours!r} of a column of kind date")
        values["parts"] = list(PARTS[: 4 + hours])
    is_unfilled = kind is Number and values.get("fill") == "nan"
    checks: dict[str, Callable[[Any], bool]] = {
        "name": lambda v: isinstance(v, str),
        "why": lambda v: isinstance(v, str),
        "form": lambda v: v in FORMS,
        "decimal": lambda v: v in (".", ",", "")[: 2 + (kind is Levels)],
        "indicator": lambda v: isinstance(v, bool),
        "other": lambda v: isinstance(v, bool),
        "clock": lambda v: isinstance(v, bool),
        "first": lambda v: _is_real(v) and FIRST_DAY <= v <= LAST_DAY,
        "levels": lambda v: isinstance(v, list) and bool(v) and all(isinstance(item, str) for item in v),
        "outputs": lambda v: isinstance(v, list) and all(isinstance(item, str) for item in v),
        "values": lambda v: isinstance(v, list) and all(isinstance(row, list) and all(map(_is_real, row)) for row in v),
        "parts": lambda v: isinstance(v, list) and bool(v) and all(part in PARTS for part in v),
        "fill": (lambda v: isinstance(v, str)) if kind in (Category, Levels) else _is_real,
    }
    if kind is Date:
        checks["fill"] = checks["first"]
    if is_unfilled:
        values["fill"] = np.nan
        checks["fill"] = lambda v: True
    names = {item.name for item in fields(kind)}
    if set(values) != names:
        raise ValueError(f"a column of kind {kind.kind} has {sorted(names)}; got {sorted(values)}")
    for name, value in values.items():
        if not checks[name](value):
            raise ValueError(f"{name}={value!r} of a column of kind {kind.kind}")
        if isinstance(value, list):
            values[name] = tuple(tuple(item) if isinstance(item, list) else item for item in value)
    for name in ("levels", "outputs", "parts"):
        if len(set(values.get(name, ()))) != len(values.get(name, ())):
            raise ValueError(f"two {name} of a column are equal")
    if kind is Category and values["fill"] not in (*values["levels"], ""):
        raise ValueError("the fill of a column is none of its levels")
    if kind is Levels:
        table, n_outputs = values["values"], len(values["outputs"])
        if len(table) != len(values["levels"]) + 1 or not n_outputs or any(len(row) != n_outputs for row in table):
            raise ValueError("a column of levels needs a number for every output of each level, and of other ones")
        texts = (*values["levels"], values["fill"]) if values["decimal"] else ()
        if not all(re.fullmatch(r"-?\d{1,16}", text) for text in texts):
            raise ValueError("the codes of a column are no whole numbers")
    return kind(**values)


def _is_real(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def target_values(cells: Array, *, missing: Iterable[str] = (), decimal: str | None = None) -> Array:
    """A column of targets: numbers where all are numbers, else labels as text; NaN or "" where one is missing.

    Text among quantities, at most a tenth of the different values, is missing too.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.table import target_values
    >>> target_values(np.array(["1", "0", "?"], dtype=object)).tolist()
    [1.0, 0.0, nan]
    >>> target_values(np.array([" yes", "no", ""], dtype=object)).tolist()
    ['yes', 'no', '']
    """
    if cells.dtype.kind in "fiu":
        return cells
    gaps = _gaps(cells, frozenset(missing))
    distinct = list(dict.fromkeys(cells[~gaps].tolist()))[:5000]
    if distinct and not any(isinstance(cell, bool | np.bool_) for cell in distinct):
        sign, share = _decimal_of(distinct, decimal or ".,")
        if share >= MOSTLY:
            values = np.full(len(cells), np.nan)
            values[~gaps] = _numbers(cells[~gaps], sign)
            if not np.any(np.isnan(values) & ~gaps) or is_regression(values):
                return values
    labels = np.array([_stripped(cell) for cell in cells], dtype=str)
    labels[gaps] = ""
    if {label.lower() for label in np.unique(labels[~gaps])} <= {"true", "false"}:
        labels = np.char.lower(labels)
    return labels


def is_regression(target: Array) -> bool:
    """Whether a target is a quantity: numbers with fractions, with many different values, or counts and the like.

    Of more than six whole numbers, those whose frequencies are alike are classes (digits, letters by number); those
    whose frequencies fall away from the most frequent one, in the order of the numbers, are quantities (counts,
    grades, ages).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.table import is_regression
    >>> is_regression(np.array([0, 1, 1, 0])), is_regression(np.array([0.5, 1.25, 3.0]))
    (False, True)
    >>> visits, digits = np.repeat(range(8), [90, 70, 50, 30, 20, 9, 3, 1]), np.repeat(range(10), 30)
    >>> is_regression(visits), is_regression(digits)
    (True, False)
    """
    if target.dtype.kind not in "fiu":
        return False
    values, counts = np.unique(target[np.isfinite(target)], return_counts=True)
    if np.any(values != np.round(values)) or len(values) > max(FEW_CLASSES, CLASS_SHARE * len(target)):
        return True
    return len(values) > SURELY_CLASSES and bool(counts.min() < ALIKE * counts.max()) and _fall_from_mode(counts)


def _fall_from_mode(counts: Array) -> bool:
    """Whether frequencies fall away from the largest one, on both sides.

    The test is the share of the variance of their logarithms that the best fit of this shape leaves. One of 20 sets of
    7, 10, 20 and 50 log-normal frequencies in random order leaves less than 0.02, 0.11, 0.35 and 0.64.
    """
    from sklearn.isotonic import isotonic_regression  # slow to import, and prediction goes without

    logarithms, mode = np.log(counts), int(np.argmax(counts))
    rising = isotonic_regression(logarithms[: mode + 1])
    falling = isotonic_regression(logarithms[mode:], increasing=False)
    residuals = logarithms - np.concatenate([rising, falling[1:]])
    return float(residuals.var()) < (0.45 - 3 / len(counts)) * float(logarithms.var())


def as_labels(y: Array) -> Array:
    """Targets as labels or numbers: whole numbers of a float file become int, truth values text, spaces go.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.table import as_labels
    >>> as_labels(np.array([1.0, -1.0])).dtype.kind, as_labels(np.array([True, False])).tolist()
    ('i', ['true', 'false'])
    """
    if y.dtype.kind == "b":
        return np.where(y, "true", "false")
    if y.dtype.kind == "f" and y.ndim == 1 and np.all(np.isfinite(y)) and np.all(y == np.round(y)):
        return y.astype(np.int64) if np.all(np.abs(y) < 2**53) else y
    if y.dtype.kind == "O":
        y = np.where(lacks_target(y), "", y)  # no label: an empty one
    return np.char.strip(y.astype(str)) if y.dtype.kind in "OUS" else y


def missing_targets(y: Array) -> Array:
    """Which targets are missing.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.table import missing_targets
    >>> missing_targets(np.array(["yes", ""])).tolist()
    [False, True]
    """
    return np.isin(np.char.lower(np.char.strip(y)), list(MISSING)) if y.dtype.kind in "US" else lacks_target(y)


def find_target(
    table: Mapping[str, Array], names: Sequence[str], schema: TableSchema, *, header: bool
) -> tuple[str, str | None]:
    """The column of a table that is most likely the target, and another one where there is doubt.

    A column with a usual name; else the last that holds labels or quantities; the first where that holds labels and
    the others do not.

    Parameters
    ----------
    table : mapping of names to arrays of cells
    names : sequence of str
        The columns in their order.
    schema : TableSchema
        Of all columns, identifiers included: a price in whole numbers may be different in every row.
    header : bool
        Whether the names are the table's own.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.table import TableSchema, find_target
    >>> table = {"kind": np.array(["a", "b", "a", "b"], dtype=object), "size": np.array([0.5, 1.5, 2.5, 4.0])}
    >>> find_target(table, ["kind", "size"], TableSchema.with_identifiers(table), header=True)
    ('size', 'kind')
    """
    by_name = [[name for name in names if name.strip().lower() in usual] for usual in _TARGET_NAMES]
    if usual := next((matches for matches in by_name if len(matches) == 1), None):
        return usual[0], None
    columns = {column.name: column for column in schema.columns}
    can_be = [name for name in names if _can_be_target(columns[name], table[name], schema.missing)] or list(names)
    first, last, later = can_be[0], can_be[-1], can_be[1:]
    if later and first == names[0] and _holds_labels(columns[first], table[first]):
        quantities = all(_is_quantity(columns[name], table[name]) for name in later)
        words = isinstance(columns[first], Category) and all(isinstance(columns[name], Number) for name in later)
        if quantities and len(later) >= 3 if header else quantities or words:
            return first, last
        if _is_quantity(columns[last], table[last]):
            return last, first
    return last, None


def _can_be_target(column: Column, cells: Array, missing: Iterable[str]) -> bool:
    """Whether a column holds labels or quantities, and no dates, row numbers or texts."""
    if isinstance(column, Category | Levels):
        n_distinct = len(set(map(str, cells)))
        return n_distinct <= max(2, 0.5 * len(cells))
    gaps = _gaps(cells, frozenset(missing))
    return isinstance(column, Number) and _why_identifier(column, cells, gaps, index=False) != _CONSECUTIVE


def _is_quantity(column: Column, cells: Array) -> bool:
    """Whether a column holds numbers that are no labels."""
    return isinstance(column, Number) and is_regression(target_values(cells, decimal=column.decimal))


def _holds_labels(column: Column, cells: Array) -> bool:
    counts = Counter(str(cell) for cell in cells if not is_missing(cell))
    repeated = len(counts) > 1 and min(counts.values()) > 1 and len(counts) <= 30
    return repeated and isinstance(column, Category | Number) and not _is_quantity(column, cells)
