"""What every picture shares: Matplotlib imported late, and colours that colour-blind readers tell apart."""

from __future__ import annotations

from typing import Any

#: the palette of Okabe and Ito, its yellow left out (too pale for lines) and its black put last
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: shapes that go with the colours, so that colour is never the only difference
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
#: Matplotlib's settings for the pictures of report, documents and gallery, which are read at half their size
STYLE = {
    "font.size": 12.0,
    "axes.titlesize": "medium",
    "axes.prop_cycle": f"cycler('color', {list(COLOURS)})",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "grid.alpha": 0.3,
}


def pyplot() -> Any:
    """Matplotlib's pyplot, or an error that names the extra."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as missing:
        raise ImportError('plots need matplotlib: install the extra with `pip install "kompakt[plot]"`.') from missing
    return plt


def axes_or_new(ax: Any, **figure_options: Any) -> Any:
    """The given Axes, or one of a new figure."""
    return pyplot().subplots(**figure_options)[1] if ax is None else ax


def colour(number: int) -> str:
    """Colour of a class, a family or a line; they repeat after seven."""
    return COLOURS[number % len(COLOURS)]


def marker(number: int) -> str:
    """Shape that goes with the colour; after seven the pairing is another one."""
    return MARKERS[(number + number // len(COLOURS)) % len(MARKERS)]
