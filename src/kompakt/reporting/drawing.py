"""Charts as inline SVG and small rasters as PNG, written by hand: the page needs no library and no network."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from kompakt.reporting.markup import esc, number

Array = np.ndarray

#: Okabe and Ito's colours, as in `kompakt.plots`; the style sheet has a lighter set for dark pages
N_COLOURS = 7


def ticks(low: float, high: float, *, log: bool = False, most: int = 6) -> Array:
    """Round numbers between `low` and `high`.

    Examples
    --------
    >>> from kompakt.reporting.drawing import ticks
    >>> ticks(0.0, 1.0).tolist()
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    >>> ticks(1.0, 1000.0, log=True).tolist()
    [1.0, 10.0, 100.0, 1000.0]
    """
    if log:
        first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
        for heads in ((1, 2, 5), (1, 3), (1,)):
            found = np.array([head * 10.0**power for power in range(first, last + 1) for head in heads])
            found = found[(found >= low * 0.999) & (found <= high * 1.001)]
            if len(found) <= most:
                return found if len(found) >= 2 else np.array([low, high])
        return found[:: -(-len(found) // most)]
    raw = max(high - low, 1e-300) / (most - 1)
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    found = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step
    return np.round(found, int(2 - np.floor(np.log10(step)))) + 0.0  # 0.6, not 0.6000000000000001, nor -0


class Chart:
    """A chart with two axes; coordinates are those of the data.

    Parameters
    ----------
    x, y : (low, high)
        Ranges of the data.
    x_label, y_label : str
    log_x, log_y : bool
    size : (width, height)
        In units of the drawing; it scales to the width of the page.
    bottom : int
        Room for labels below the axis.
    """

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        x_label: str,
        y_label: str,
        *,
        log_x: bool = False,
        log_y: bool = False,
        size: tuple[int, int] = (420, 270),
        bottom: int = 44,
    ) -> None:
        self.x, self.y = _widened(x, log_x), _widened(y, log_y)
        self.log_x, self.log_y = log_x, log_y
        self.labels = x_label, y_label
        self.width, self.height = size
        self.left, self.right, self.top, self.base = 58, self.width - 12, 12, self.height - bottom
        self.parts: list[str] = []
        self.x_ticks: list[tuple[float, str]] | None = None
        self.y_ticks: list[tuple[float, str]] | None = None

    def across(self, values: Any) -> Array:
        """Places on the drawing of values on the horizontal axis."""
        return self.left + _share(values, self.x, self.log_x) * (self.right - self.left)

    def up(self, values: Any) -> Array:
        """Places on the drawing of values on the vertical axis."""
        return self.base - _share(values, self.y, self.log_y) * (self.base - self.top)

    def add(self, markup: str) -> None:
        """Something drawn elsewhere."""
        self.parts.append(markup)

    def line(self, xs: Any, ys: Any, css: str = "c0", attributes: str = "") -> None:
        """A line through points."""
        places = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(self.across(xs), self.up(ys), strict=True))
        self.parts.append(f'<polyline class="line {css}" points="{places}" {attributes}/>')

    def band(self, xs: Any, low: Any, high: Any, css: str = "c0") -> None:
        """The area between two lines."""
        both = np.concatenate([self.across(xs), self.across(xs)[::-1]])
        edges = np.concatenate([self.up(high), self.up(low)[::-1]])
        places = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(both, edges, strict=True))
        self.parts.append(f'<polygon class="band {css}" points="{places}"/>')

    def dots(self, xs: Any, ys: Any, css: str = "c0", r: float = 3.0, titles: Sequence[str] | None = None) -> None:
        """Points, with titles that are HTML already."""
        for i, (a, b) in enumerate(zip(self.across(xs), self.up(ys), strict=True)):
            title = f"<title>{titles[i]}</title>" if titles is not None else ""
            self.parts.append(f'<circle class="dot {css}" cx="{a:.1f}" cy="{b:.1f}" r="{r}">{title}</circle>')

    def bars(self, xs: Any, low: Any, high: Any, css: str = "c0") -> None:
        """Vertical strokes, for intervals."""
        for a, b, c in zip(self.across(xs), self.up(low), self.up(high), strict=True):
            self.parts.append(f'<line class="line {css}" x1="{a:.1f}" x2="{a:.1f}" y1="{b:.1f}" y2="{c:.1f}"/>')

    def rule(self, x: float, css: str, identity: str = "") -> None:
        """A vertical line across the chart; with an identity, one that the slider moves."""
        at = float(self.across(x))
        name = f'id="{identity}" ' if identity else ""
        self.parts.append(
            f'<line {name}class="rule {css}" x1="{at:.1f}" x2="{at:.1f}" y1="{self.top}" y2="{self.base}"/>'
        )

    def render(self, description: str) -> str:
        """The drawing; `description` (HTML already) is what a screen reader says."""
        body = [self._axes(), *self.parts]
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{description}">'
            + "".join(body)
            + "</svg>"
        )

    def _axes(self) -> str:
        x_ticks = self.x_ticks or [(t, number(t)) for t in ticks(*self.x, log=self.log_x)]
        y_ticks = self.y_ticks or [(t, number(t)) for t in ticks(*self.y, log=self.log_y)]
        parts = []
        for (value, text), at in zip(x_ticks, self.across([t for t, _ in x_ticks]), strict=True):
            parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{self.top}" y2="{self.base}"/>')
            parts.append(f'<text class="tick" x="{at:.1f}" y="{self.base + 16}" text-anchor="middle">{text}</text>')
            del value
        for (_, text), at in zip(y_ticks, self.up([t for t, _ in y_ticks]), strict=True):
            parts.append(f'<line class="grid" x1="{self.left}" x2="{self.right}" y1="{at:.1f}" y2="{at:.1f}"/>')
            parts.append(f'<text class="tick" x="{self.left - 6}" y="{at + 4:.1f}" text-anchor="end">{text}</text>')
        middle_x, middle_y = (self.left + self.right) / 2, (self.top + self.base) / 2
        parts.append(
            f'<text class="axis" x="{middle_x:.0f}" y="{self.height - 6}" text-anchor="middle">{self.labels[0]}</text>'
            f'<text class="axis" transform="translate(13 {middle_y:.0f}) rotate(-90)" text-anchor="middle">'
            f"{self.labels[1]}</text>"
        )
        return "".join(parts)


def bar_list(rows: Sequence[tuple[str, float, str]], description: str, css: str = "c0") -> str:
    """Horizontal bars (name, value, text; names are a user's) that keep their letters on a phone."""
    largest = max([value for _, value, _ in rows] + [1e-300])
    items = "".join(
        f'<li><span class="name">{esc(name, 40)}</span>'
        f'<span class="track"><span class="bar {css}" style="--v:{value / largest:.4f}"></span></span>'
        f'<span class="value">{text}</span></li>'
        for name, value, text in rows
    )
    return f'<ul class="bars" aria-label="{description}">{items}</ul>'


def png(pixels: Array) -> str:
    """A data address of an RGBA (h, w, 4) or grey (h, w) uint8 image."""
    height, width = pixels.shape[:2]
    kind = 6 if pixels.ndim == 3 else 0
    raw = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1).tobytes()

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + content).decode()


def ramp(share: Any) -> list[str]:
    """Colours from yellow (0) over green to dark blue (1), readable by colour-blind people, in light and dark."""
    stops = np.array([[253, 231, 37], [122, 209, 81], [34, 168, 132], [42, 120, 142], [65, 68, 135], [68, 1, 84]])
    share = np.clip(np.atleast_1d(np.asarray(share, dtype=float)), 0.0, 1.0) * (len(stops) - 1)
    low = np.minimum(share.astype(int), len(stops) - 2)
    mixed = stops[low] + (share - low)[:, None] * (stops[low + 1] - stops[low])
    return ["#{:02x}{:02x}{:02x}".format(*row) for row in np.round(mixed).astype(int)]


def _widened(limits: tuple[float, float], log: bool) -> tuple[float, float]:
    low, high = (float(limit) for limit in limits)
    if high > low:
        return low, high
    return (low / 2, low * 2) if log else (low - 0.5, low + 0.5)


def _share(values: Any, limits: tuple[float, float], log: bool) -> Array:
    values = np.asarray(values, dtype=float)
    low, high = limits
    if log:
        values, low, high = np.log(values), np.log(low), np.log(high)
    return (values - low) / (high - low)
