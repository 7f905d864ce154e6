"""Numbers and names as people read them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

#: characters that no HTML or SVG text may have (and lone surrogates, which no encoding can write)
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def printable(value: Any) -> str:
    """Text without the characters that markup cannot have; escaping is left to the template."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", str(value))


def shortened(value: Any, length: int = 80) -> str:
    """Text of at most `most` characters."""
    text = str(value)
    return text if len(text) <= length else text[: length - 1] + "…"


def number(value: Any, digits: int = 3) -> str:
    """A number with at most `digits` digits that count, thousands set apart.

    Examples
    --------
    >>> from kompakt.reporting.text import number
    >>> number(100000), number(0.012345), number(3.0), number(1.2e-9)
    ('100,000', '0.0123', '3', '1.2e-09')
    """
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    value = float(value)
    if not np.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.{digits}g}"


def measured(value: float) -> str:
    """A measured value for a column of a table: three digits that count, zeros at the end too.

    Examples
    --------
    >>> from kompakt.reporting.text import measured
    >>> measured(3.996), measured(145.3), measured(0.0383), measured(52_301.2)
    ('4.00', '145', '0.0383', '52,301')
    """
    return number(value) if abs(value) >= 1e3 or not np.isfinite(value) else f"{value:#.3g}".rstrip(".")


def percent(share: float) -> str:
    """A share in percent, with as many digits as it needs to be told apart from zero."""
    value = 100.0 * float(share)
    return f"{value:.1f} %" if value >= 1 or value == 0 else f"{value:.2g} %"


def seconds(value: float) -> str:
    """A duration."""
    return _in_units(value, ((1e-3, 1e-6, "µs"), (1.0, 1e-3, "ms"), (120.0, 1.0, "s"), (np.inf, 60.0, "min")))


def size_in_bytes(value: float) -> str:
    """A size in memory."""
    return _in_units(value, ((1e3, 1.0, "bytes"), (1e6, 1e3, "kB"), (1e9, 1e6, "MB"), (np.inf, 1e9, "GB")))


def _in_units(value: float, units: tuple[tuple[float, float, str], ...]) -> str:
    """A value in the first unit whose limit it is below."""
    size, unit = next((size, unit) for limit, size, unit in units if value < limit)
    return f"{value / size:.3g} {unit}"


def count(value: Any) -> str:
    """A count for a narrow cell."""
    value = int(value)
    if value < 10_000:
        return str(value) if value else "·"
    return f"{value / 1000:.3g}k" if value < 1_000_000 else f"{value / 1e6:.3g}M"
