"""The Pareto front of a benchmark: which contenders no other beats in both respects."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kompakt.plots._style import axes_or_new, colour, marker

Array = np.ndarray

LABELS = {
    "size": "basis vectors",
    "fit": "fit time (s)",
    "predict": "prediction time (µs per row)",
    "error": "test error (%)",
}


def front(x: Any, y: Any) -> Array:
    """Numbers of the points that no other beats: none is as low in both and lower in one; ordered by x.

    Examples
    --------
    >>> from kompakt.plots.pareto import front
    >>> front([1, 2, 3, 2], [5, 3, 4, 6])
    array([0, 1])
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    order = known[np.lexsort((y[known], x[known]))]
    best = np.minimum.accumulate(np.concatenate([[np.inf], y[order]]))[:-1]
    return order[y[order] < best]


class ParetoDisplay:
    """Two costs of many contenders, one marker per family, and the front that none beats.

    Parameters
    ----------
    x, y : array of shape (n_points,)
        Costs: lower is better. Points where one is NaN are not drawn.
    families : sequence of str
        Which points belong together.
    x_name, y_name : str
        Labels of the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    front_ : ndarray
        Numbers of the points on the front, from left to right.
    front_line_ : matplotlib Line2D
    points_ : dict of str to matplotlib PathCollection

    Examples
    --------
    >>> from kompakt.plots import ParetoDisplay
    >>> points = [
    ...     {"contender": "kompakt(n_basis=20)", "size": 20, "error": 6.0},
    ...     {"contender": "kompakt(n_basis=50)", "size": 50, "error": 5.0},
    ...     {"contender": "SVC()", "size": 700, "error": 5.5},
    ... ]
    >>> display = ParetoDisplay.from_points(points)
    >>> display.front_, sorted(display.points_)
    (array([0, 1]), ['SVC', 'kompakt'])
    """

    def __init__(self, x: Any, y: Any, families: Iterable[str], *, x_name: str = "x", y_name: str = "y") -> None:
        self.x, self.y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
        self.families = [str(family) for family in families]
        self.x_name, self.y_name = x_name, y_name
        if not self.x.shape == self.y.shape == (len(self.families),):
            raise ValueError(
                f"x, y and families must be equally long; got {self.x.shape}, {self.y.shape}, ({len(self.families)},)."
            )

    @classmethod
    def from_points(
        cls,
        points: Iterable[Mapping[str, Any]],
        *,
        x: str = "size",
        y: str = "error",
        label: str = "contender",
        ax: Any = None,
        **marker_options: Any,
    ) -> ParetoDisplay:
        """Draw a table of dicts: one per contender, `x` and `y` its costs, `label` its name up to a bracket.

        Parameters
        ----------
        points : iterable of dict
        x, y, label : str
            Names of the fields.
        ax : matplotlib Axes, optional
        **marker_options
            For the markers.
        """
        rows = list(points)
        for row in rows:
            missing = [name for name in (x, y, label) if name not in row]
            if missing:
                raise ValueError(f"a point has no {missing[0]!r}; it has {', '.join(map(str, row))}.")
        across, up = ([np.nan if row[name] is None else float(row[name]) for row in rows] for name in (x, y))
        families = [str(row[label]).split("(")[0].strip() for row in rows]
        display = cls(across, up, families, x_name=LABELS.get(x, x), y_name=LABELS.get(y, y))
        return display.plot(ax=ax, **marker_options)

    @classmethod
    def from_results(cls, path: str | os.PathLike[str], name: str, **options: Any) -> ParetoDisplay:
        """Draw the points that `python -m benchmarks.peers.pareto` recorded in `path` for the set called `name`.

        Parameters
        ----------
        path : path-like
            A file of JSON lines.
        name : str
            The set, such as "spambase"; of several records of it the last is taken.
        **options
            As for `from_points`.
        """
        with open(path, encoding="utf-8") as file:
            records = [json.loads(line) for line in file if line.strip()]
        # a record's key is itself JSON: [script, row, settings]
        named = [(json.loads(record["key"])[1], record["values"]) for record in records]
        found = [values["points"] for key, values in named if key == name and "points" in values]
        if not found:
            known = sorted({key for key, values in named if "points" in values})
            raise ValueError(f"{os.fspath(path)} has no points of {name!r}; it has {', '.join(known) or 'none'}.")
        return cls.from_points(found[-1], **options)

    def plot(self, ax: Any = None, **marker_options: Any) -> ParetoDisplay:
        """Draw into `ax`, or into a new figure."""
        ax = axes_or_new(ax, layout="constrained")
        self.front_ = front(self.x, self.y)
        drawn = np.isfinite(self.x) & np.isfinite(self.y)
        stairs_x, stairs_y = self.x[self.front_], self.y[self.front_]
        if len(stairs_x):  # the front goes on to the right: what lies above it is beaten
            stairs_x = np.append(stairs_x, np.nanmax(self.x[drawn]))
            stairs_y = np.append(stairs_y, stairs_y[-1])
        (self.front_line_,) = ax.step(
            stairs_x, stairs_y, where="post", color="0.5", linewidth=1.2, linestyle="--", zorder=1, label="Pareto front"
        )
        self.points_ = {}
        for number, family in enumerate(sorted(set(self.families), key=lambda name: ("kompakt" not in name, name))):
            own = drawn & (np.array(self.families) == family)
            style = {"color": colour(number), "marker": marker(number), "s": 42, "zorder": 2, **marker_options}
            self.points_[family] = ax.scatter(self.x[own], self.y[own], label=family, **style)
        low = self.x[drawn].min() if drawn.any() else 1.0
        if low > 0 and drawn.any() and self.x[drawn].max() > 10 * low:
            ax.set_xscale("log")
        ax.set(xlabel=self.x_name, ylabel=self.y_name)
        ax.grid(alpha=0.3)
        ax.legend(fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self
