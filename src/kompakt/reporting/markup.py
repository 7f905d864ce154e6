"""HTML by hand: everything that comes from a user goes through `esc`."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

#: characters that no HTML text may hold (and lone surrogates, which no encoding can write)
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def esc(value: Any, most: int = 80) -> str:
    """Text for HTML content and quoted attributes, shortened to `most` characters.

    Examples
    --------
    >>> from kompakt.reporting.markup import esc
    >>> esc('<script>alert("1")</script>')
    '&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;'
    """
    text = _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", str(value))
    if len(text) > most:
        text = text[: most - 1] + "…"
    return html.escape(text, quote=True)


def number(value: Any, digits: int = 3) -> str:
    """A number for people: at most `digits` digits that count, thousands set apart.

    Examples
    --------
    >>> from kompakt.reporting.markup import number
    >>> number(100000), number(0.012345), number(3.0), number(1.2e-9)
    ('100,000', '0.0123', '3', '1.2e-09')
    """
    if value is None:
        return "unknown"
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    value = float(value)
    if not np.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.{digits}g}"


def percent(share: float) -> str:
    """A share in percent, with as many digits as it needs to be told apart from zero."""
    value = 100.0 * float(share)
    return f"{value:.1f} %" if value >= 1 or value == 0 else f"{value:.2g} %"


def seconds(value: float) -> str:
    """A duration."""
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (120.0, 1.0, "s")):
        if value < limit:
            return f"{value * factor:.3g} {unit}"
    return f"{value / 60:.3g} min"


def size_in_bytes(count: float) -> str:
    """A size in memory."""
    for limit, factor, unit in ((1e3, 1.0, "bytes"), (1e6, 1e3, "kB"), (1e9, 1e6, "MB")):
        if count < limit:
            return f"{count / factor:.3g} {unit}"
    return f"{count / 1e9:.3g} GB"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str, css: str = "") -> str:
    """A table in a box of its own that scrolls sideways; cells are HTML already, the first of a row is its head."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}">'
        f'<table class="{css}"><caption>{caption}</caption><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values, both HTML already."""
    return '<dl class="facts">' + "".join(f"<div><dt>{a}</dt><dd>{b}</dd></div>" for a, b in pairs) + "</dl>"


def figure(picture: str, caption: str, css: str = "") -> str:
    """A picture with what it shows."""
    return f'<figure class="{css}">{picture}<figcaption>{caption}</figcaption></figure>'


def code(text: str) -> str:
    """A block of code, of a user's text."""
    return f'<pre tabindex="0"><code>{esc(text, 4000)}</code></pre>'


def section(name: str, title: str, *parts: str) -> str:
    """A section of the page with its heading."""
    head = f'<h2 id="{name}-title">{title}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">{head}{"".join(parts)}</section>'
