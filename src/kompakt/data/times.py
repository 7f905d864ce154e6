"""Dates, months, quarters, weeks, clock times and durations as people write them, and the numbers they become."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray

DAY, HOUR = 86_400.0, 3600.0
#: seconds of the first and the last day that `datetime` knows
FIRST_DAY, LAST_DAY = -62_135_596_800.0, 253_402_214_400.0
_DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y",
    "%d/%m/%y", "%m/%d/%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d-%b-%y",
    "%d%b%Y", "%d%b%y",
)  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", "T%H:%M", "T%H:%M:%S", "T%H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
#: months, quarters (%q) and ISO weeks, each of which is its first day
_PERIODS = (
    "%Y-%m", "%Y/%m", "%m/%Y", "%m-%Y", "%b %Y", "%B %Y", "%b-%Y", "%b-%y", "%Y-%b", "%Y %b", "%Y %B", "%YM%m",
    "%Y Q%q", "%YQ%q", "%Y-Q%q", "Q%q %Y", "Q%q-%Y", "Q%q/%Y", "%qQ%Y", "%qQ %Y",
    "%G-W%V", "%GW%V", "%G W%V",
)  # fmt: skip
#: whole numbers that count seconds, or their thousandths, since 1970
EPOCHS = {"epoch": 1.0, "epoch ms": 1e3}
FORMS = [date + time for date in _DATES for time in _TIMES] + [*_PERIODS, *EPOCHS]
_LOOKS_LIKE_DATE = re.compile(
    r"\d{1,4}[-/. ](\d{1,2}|[A-Za-z]{3,9})[-/. ]\d{2,4}|[A-Za-z]{3,9} \d{1,2}, \d{4}|\d{1,2}[A-Za-z]{3}\d{2,4}"
    r"|(\d{4}[-/]\d{1,2}|\d{1,2}[-/]\d{4}|[A-Za-z]{3,9}[- ]\d{2,4}|\d{4}[- ][A-Za-z]{3,9}|\d{4}M\d{2})$"
    r"|(\d{4}[- ]?[Qq][1-4]|[Qq][1-4][-/ ]\d{4}|[1-4][Qq] ?\d{4}|\d{4}[- ]?W\d{1,2})$"
)
_ZONE = re.compile(r"(Z|UTC|GMT|[+-]\d{2}:?\d{2})$")
_QUARTER = re.compile(r"[Qq][1-4]|[1-4][Qq]")
_FIRST_MONTHS = str.maketrans({"1": "01", "2": "04", "3": "07", "4": "10"})
#: names of columns whose large whole numbers are moments; years that such moments are of
_NAMES_A_MOMENT = re.compile(r"time|date|stamp|epoch|created|updated|(^|_)(at|ts)$", re.IGNORECASE)
_MOMENTS = (datetime(1985, 1, 1, tzinfo=UTC).timestamp(), datetime(2060, 1, 1, tzinfo=UTC).timestamp())

_CLOCK = re.compile(r"(-?)(\d+):(\d{2})(?::(\d{2}(?:[.,]\d*)?))?\s*([AaPp])?[.]?(?:(?<=[AaPp.])[Mm])?[.]?")
_UNITS = {"d": 24.0, "h": 1.0, "m": 1 / 60, "s": 1 / 3600}
_AMOUNT = re.compile(
    r"(\d+(?:\.\d*)?)\s*(d|h|m|s)(?:(?<=d)ays?|(?<=h)(?:ours?|rs?)|(?<=m)in(?:ute)?s?|(?<=s)ec(?:ond)?s?)?[\s,]*",
    re.IGNORECASE,
)
#: what a circle turns once in, by the calendar part that goes around it
_TURNS = {"month": 12, "weekday": 7, "hour": 24}


def _moment(text: str, form: str) -> datetime:
    """The moment of a text in a form of `strptime`, of quarters or of weeks."""
    if "%q" in form:  # the first month of the quarter
        text = _QUARTER.sub(lambda match: match[0].upper().translate(_FIRST_MONTHS), text)
        form = form.replace("%q", "%m")
    elif "%V" in form:
        text, form = f"{text} 1", f"{form} %u"
    return datetime.strptime(text, form)


def seconds_of_text(text: str, form: str) -> float | None:
    """Seconds since 1970 of a date in a given form; times with a zone are in UTC.

    Examples
    --------
    >>> from kompakt.data.times import seconds_of_text
    >>> seconds_of_text("1970 Q2", "%Y Q%q") / 86_400, seconds_of_text("soon", "%Y-%m-%d")
    (90.0, None)
    """
    text = text.strip()
    zone = _ZONE.search(text) if ":" in text else None
    try:
        if zone is not None:
            written = "+0000" if zone[0][0] not in "+-" else zone[0]
            return datetime.strptime(text[: zone.start()].strip() + written, form + "%z").timestamp()
        return _moment(text, form).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def seconds_of(cells: Array, form: str) -> Array:
    """Seconds since 1970 of an array of cells; NaN where a cell is no date of this form."""
    if cells.dtype.kind == "M":
        seconds = cells.astype("datetime64[us]").astype(np.float64) / 1e6
        return np.where(np.isnat(cells), np.nan, seconds)
    if form in EPOCHS:
        return _each(cells, lambda cell: _in_range(cell, EPOCHS[form]))
    return _each(cells, lambda cell: _seconds_of_cell(cell, form))


def _seconds_of_cell(cell: Any, form: str) -> float | None:
    if hasattr(cell, "timestamp"):
        return float((cell.replace(tzinfo=UTC) if cell.tzinfo is None else cell).timestamp())
    if hasattr(cell, "year"):  # a date without time
        return datetime(cell.year, cell.month, cell.day, tzinfo=UTC).timestamp()
    return seconds_of_text(str(cell), form)


def _in_range(cell: Any, per_second: float) -> float | None:
    try:
        seconds = float(cell) / per_second
    except (TypeError, ValueError):
        return None
    return seconds if FIRST_DAY <= seconds <= LAST_DAY else None


def _each(cells: Array, parse: Callable[[Any], float | None]) -> Array:
    """What `parse` makes of every cell, NaN for None; equal cells are parsed once."""
    by_cell: dict[object, float] = {}
    for cell in cells:
        if cell not in by_cell:
            value = parse(cell)
            by_cell[cell] = math.nan if value is None else value
    return np.array([by_cell[cell] for cell in cells], dtype=np.float64)


def forms_of_shape(text: str) -> list[str]:
    """The forms that a text may have, by where it has digits, letters and signs: few, as `strptime` is slow."""
    text = text.strip()
    return _forms_by_shape().get(_shape(_ZONE.sub("", text) if ":" in text else text), [])


@cache
def _forms_by_shape() -> dict[str, list[str]]:
    shapes: dict[str, list[str]] = {}
    for form in FORMS:
        shapes.setdefault(_shape(re.sub("%[bBp]", "a", re.sub("%[^bBp]", "0", form))), []).append(form)
    return shapes


def _shape(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub("[A-Za-z]+", "a", re.sub(r"\d+", "0", text))).strip()


def date_form(texts: Sequence[str], least: float) -> str | None:
    """The form under which most texts, at least such a share, are dates; None where there is none."""
    looks = [text for text in texts if _LOOKS_LIKE_DATE.match(text)]
    if not looks or len(looks) < least * len(texts):
        return None
    best_form, best_share = None, least
    for form in dict.fromkeys([*forms_of_shape(looks[0]), *forms_of_shape(looks[-1])]):
        if seconds_of_text(looks[0], form) is not None or seconds_of_text(looks[-1], form) is not None:
            share = sum(seconds_of_text(text, form) is not None for text in looks) / len(texts)
            if share > best_share or (best_form is None and share >= least):
                best_form, best_share = form, share
    return best_form


def is_date(text: str) -> bool:
    """Whether a text is a date in one of the known forms."""
    looks = _LOOKS_LIKE_DATE.match(text.strip()) is not None
    return looks and any(seconds_of_text(text, form) is not None for form in forms_of_shape(text))


def epoch_form(name: str, values: Array) -> str | None:
    """How whole numbers count moments since 1970, by the name of their column and their size; None where not."""
    if _NAMES_A_MOMENT.search(name) and len(values) and np.all(values == np.round(values)):
        for form, per_second in EPOCHS.items():
            if _MOMENTS[0] <= values.min() / per_second and values.max() / per_second <= _MOMENTS[1]:
                return form
    return None


def written(seconds: float, form: str) -> str:
    """A moment as text of a form."""
    if form in EPOCHS:
        return f"{seconds * EPOCHS[form]:.0f}"
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.strftime(form.replace("%q", str((moment.month + 2) // 3)))


def hours_of_text(text: str) -> float | None:
    """Hours of a clock time or a duration; None where a text is neither.

    Examples
    --------
    >>> from kompakt.data.times import hours_of_text
    >>> hours_of_text("10:30"), hours_of_text("1:15 PM"), hours_of_text("2 days 06:00:00"), hours_of_text("1h 30min")
    (10.5, 13.25, 54.0, 1.5)
    """
    text = text.strip()
    if text[:1] == "P":  # ISO 8601: P1DT2H
        text = text[1:].replace("T", "")
    total = 0.0
    while (amount := _AMOUNT.match(text)) is not None:
        total += float(amount[1]) * _UNITS[amount[2].lower()]
        text = text[amount.end() :]
        if not text:
            return total
    clock = _CLOCK.fullmatch(text)
    if clock is None or int(clock[3]) > 59:
        return None
    sign, hours, minutes, seconds, half = clock.groups()
    value = float(hours)
    if half is not None:
        if not 1 <= value <= 12:
            return None
        value = value % 12 + 12 * (half in "Pp")
    value += int(minutes) / 60 + float((seconds or "0").replace(",", ".")) / 3600
    return -total - value if sign else total + value


def are_clock_times(texts: Sequence[str]) -> bool:
    """Whether texts that are hours are times of a day, by how they are written, and no durations."""
    hours = (hours_of_text(text) for text in texts)
    within = all(value is None or 0 <= value < 24 for value in hours)
    return within and not any(re.search(r"\d\s*(d|h|m(?!\.)|s)|^P", text, re.IGNORECASE) for text in texts)


def hours_of(cells: Array, form: str = "") -> Array:
    """Hours of an array of clock times or durations; NaN where a cell is neither."""
    return _each(cells, lambda cell: hours_of_text(str(cell)))


def calendar_parts(seconds: Array, first: float) -> dict[str, Array]:
    """What a calendar says of moments, by name: numbers, and places on the circles of months, weekdays and hours."""
    days = np.floor(seconds / DAY)
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    parts = {
        "days": (seconds - first) / DAY, "year": 1970.0 + months // 12, "month": 1.0 + months % 12,
        "weekday": (days + 3) % 7, "hour": (seconds - days * DAY) // HOUR,
    }  # fmt: skip
    return parts | {name: values for part in _TURNS for name, values in circle(part, parts[part]).items()}


def circle(part: str, values: Array) -> dict[str, Array]:
    """Places on the circle of a part: its last value and its first are neighbours there, as in the calendar."""
    angles = 2 * np.pi * values / _TURNS[part]
    return {f"{part} sine": np.sin(angles), f"{part} cosine": np.cos(angles)}


#: names of all parts
PARTS = tuple(calendar_parts(np.zeros(1), 0.0))


def parts_that_vary(seconds: Array) -> tuple[str, ...]:
    """The parts of moments that are worth a feature: not weekdays of first days of months, nor what never changes."""
    parts = calendar_parts(seconds, 0.0)
    day_of_month = seconds // DAY - (seconds // DAY).astype("datetime64[D]").astype("datetime64[M]").astype(
        "datetime64[D]"
    ).astype(np.float64)
    names = ["days", "year"]
    for part in _TURNS:
        varies = np.ptp(parts[part]) > 0 and not (part == "weekday" and np.ptp(day_of_month) == 0)
        names += circle(part, np.zeros(1)) if varies else []
    return tuple(names)
