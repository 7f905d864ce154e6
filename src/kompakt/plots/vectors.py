"""Pictures of basis vectors: on the decision boundary, as images, as a heat map or lines, and candidates for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from kompakt.io.fitted import model_of
from kompakt.model import Model
from kompakt.plots.style import axes_or_new, colour, marker, pyplot

Array = np.ndarray

KINDS = ("auto", "scatter", "images", "heatmap", "parallel")
#: what "auto" draws at most; all are drawn on request
_MOST_IMAGES, _MOST_LINES, _MOST_FEATURES, _MOST_ROWS = 49, 200, 40, 2000
#: features of a heat map
_MOST_SHOWN = 30


class BasisVectorsDisplay:
    """Basis vectors of a model, in scikit-learn's display convention.

    Parameters
    ----------
    vectors : array of shape (m, d)
        In the units of the input.
    sides : array of shape (m,)
        Number of the class (or sign) that each vector speaks for.
    side_names : list of str
    kind : {"scatter", "images", "heatmap", "parallel"}
    strength : array of shape (m,), optional
        Size of each vector's weights: the order in which they are drawn, and the size of the markers.
    feature_names : sequence of str, optional
    image_shape : (int, int), optional
    moments : (array, array), optional
        Means and standard deviations (d,) of the features, in which lines and heat maps are drawn; else those of the
        vectors.
    relevance : array of shape (d,), optional
        By which a heat map orders the features, the most relevant first; else how much the sides differ in them.
    model : Model, optional
        To draw the boundary behind a scatter.
    X, labels : array of shape (n, d) and (n,), optional
        Rows to draw behind a scatter, and the numbers of their classes.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    artists_ : list
        What shows the vectors: scatter collections, images, columns of a heat map, or lines.
    members_ : list of list of int
        Numbers of the vectors that each of them shows.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import CompactSVC
    >>> from kompakt.plots import BasisVectorsDisplay
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> model = CompactSVC(n_basis=12, random_state=0).fit(X, y)
    >>> display = BasisVectorsDisplay.from_estimator(model, X, y)
    >>> display.kind, len(display.vectors)
    ('scatter', 12)
    """

    def __init__(
        self,
        vectors: Any,
        sides: Any,
        side_names: list[str],
        kind: str,
        *,
        strength: Any = None,
        feature_names: Any = None,
        image_shape: tuple[int, int] | None = None,
        moments: tuple[Array, Array] | None = None,
        relevance: Any = None,
        model: Model | None = None,
        X: Any = None,
        labels: Any = None,
    ) -> None:
        self.vectors = np.asarray(vectors, dtype=float)
        self.sides, self.side_names = np.asarray(sides), list(side_names)
        self.kind = kind
        self.strength = np.ones(len(self.vectors)) if strength is None else np.asarray(strength, dtype=float)
        self.feature_names = None if feature_names is None else [str(name) for name in feature_names]
        self.image_shape, self.moments = image_shape, moments
        self.relevance = None if relevance is None else np.asarray(relevance, dtype=float)
        self.model, self.X, self.labels = model, X, labels

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        kind: str = "auto",
        image_shape: tuple[int, int] | None = None,
        max_vectors: int | None = None,
        ax: Any = None,
        **options: Any,
    ) -> BasisVectorsDisplay:
        """Draw the vectors of a fitted estimator or a `Model`.

        Parameters
        ----------
        estimator : fitted kompakt estimator or Model
        X, y : array-like, optional
            Rows to draw behind the vectors (two features); without X, "auto" cannot see whether rows are pictures.
        kind : {"auto", "scatter", "images", "heatmap", "parallel"}
            "auto" takes a scatter for two features, images where the rows look like square pictures, else a heat map of
            vectors by features; "parallel" draws a line for each vector.
        image_shape : (int, int), optional
            Shape of a picture; implies "images".
        max_vectors : int, optional
            Draw only the vectors with the largest weights; without it 49 pictures, 200 columns or lines, or all points.
        ax : matplotlib Axes, optional
        **options
            For the artists of the vectors.
        """
        model = model_of(estimator)
        vectors = model.basis_vectors_
        if vectors is None or model.kernel.name == "callable":
            raise ValueError(f"a {model.kernel.name} kernel has no basis vectors that could be drawn.")
        kind, image_shape = resolve_kind(kind, image_shape, vectors, X)
        sides, names = sides_of(model)
        strength = np.linalg.norm(model.weights, axis=1)
        limit = {"images": _MOST_IMAGES, "heatmap": _MOST_LINES, "parallel": _MOST_LINES}.get(kind, len(vectors))
        kept = np.argsort(-strength, kind="stable")[: limit if max_vectors is None else int(max_vectors)]
        features = getattr(estimator, "feature_names_in_", model.feature_names)
        labels = None if y is None or model.classes is None else np.searchsorted(model.classes, np.asarray(y))
        settings: dict[str, Any] = {"strength": strength[kept], "feature_names": features, "image_shape": image_shape}
        last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
        settings["relevance"] = getattr(getattr(last, "best_estimator_", last), "feature_importances_", None)
        display = cls(vectors[kept], sides[kept], names, kind, model=model, X=X, labels=labels, **settings)
        return display.plot(ax=ax, **options)

    def plot(self, ax: Any = None, **options: Any) -> BasisVectorsDisplay:
        """Draw into `ax`, or into a new figure."""
        size = None
        if self.kind == "images":
            columns = self._columns()
            size = (1.1 * columns, 1.25 * math.ceil(len(self.vectors) / columns))
        elif self.kind == "heatmap":
            longest = max(map(len, self.feature_names or ["feature 10"]))
            size = (6.0 + 0.07 * longest, 1.4 + 0.24 * min(self.vectors.shape[1], _MOST_SHOWN))
        self.ax_ = axes_or_new(ax, layout="constrained", figsize=size)
        self.figure_ = self.ax_.figure
        draw = {
            "scatter": self._scatter, "images": self._images, "heatmap": self._heatmap, "parallel": self._lines,
        }[self.kind]  # fmt: skip
        self.members_ = [[number] for number in range(len(self.vectors))]
        self.artists_ = draw(self.ax_, options)
        return self

    def _columns(self) -> int:
        """Columns of a grid of images that is about as wide as high."""
        return max(1, math.ceil(math.sqrt(len(self.vectors))))

    def _scatter(self, ax: Any, options: dict[str, Any]) -> list[Any]:
        rows, labels = np.zeros((0, 2)) if self.X is None else np.asarray(self.X, dtype=float), self.labels
        if len(rows) > _MOST_ROWS:
            pick = np.random.default_rng(0).choice(len(rows), _MOST_ROWS, replace=False)
            rows, labels = rows[pick], None if labels is None else labels[pick]
        points = np.concatenate([self.vectors, rows])
        low, high = points.min(axis=0), points.max(axis=0)
        margin = np.where(high > low, 0.08 * (high - low), 0.5)
        if self.model is not None:
            self._boundary(ax, self.model, *_grid(low - margin, high + margin, 150))
        faint = {"s": 6, "alpha": 0.35, "linewidths": 0}
        if labels is None:
            ax.scatter(*rows.T, color="0.5", **faint)
        else:
            for number in np.unique(labels):
                ax.scatter(*rows[labels == number].T, color=colour(number), **faint)
        artists = []
        size = 40 + 110 * np.sqrt(self._shares())
        self.members_ = [np.flatnonzero(self.sides == number).tolist() for number in np.unique(self.sides)]
        for members in self.members_:
            number = self.sides[members[0]]
            look: dict[str, Any] = {"color": colour(number), "marker": marker(number), "s": size[members]}
            look |= {"edgecolors": "white", "linewidths": 1.2, "label": f"for {self.side_names[number]}", "zorder": 3}
            artists.append(ax.scatter(*self.vectors[members].T, **{**look, **options}))
        names = self.feature_names or ["feature 0", "feature 1"]
        ax.set(xlabel=names[0], ylabel=names[1], title=f"{len(self.vectors)} basis vectors")
        ax.legend(fontsize="small")
        return artists

    def _boundary(self, ax: Any, model: Model, xx0: Array, xx1: Array, points: Array) -> None:
        values = model.decision_function(points)
        if model.kind == "regressor":
            first = (values if values.ndim == 1 else values[:, 0]).reshape(xx0.shape)
            if np.ptp(first) > 1e-9 * np.abs(first).max():  # else a constant, up to rounding
                ax.clabel(ax.contour(xx0, xx1, first, levels=10, cmap="viridis", linewidths=1.0), fontsize="x-small")
            return
        best = ((values > 0).astype(int) if values.ndim == 1 else np.argmax(values, axis=1)).reshape(xx0.shape)
        n_classes = int(best.max()) + 1
        levels = np.arange(n_classes + 1) - 0.5
        ax.contourf(xx0, xx1, best, levels=levels, colors=[colour(k) for k in range(n_classes)], alpha=0.12)
        fields = [values]
        if values.ndim == 2:  # the border of each region: its lead over the best other class is zero
            fields = [values[:, k] - np.delete(values, k, axis=1).max(axis=1) for k in range(n_classes)]
        for field in fields:
            if field.min() < 0 < field.max():
                width = 1.8 if len(fields) == 1 else 1.2
                ax.contour(xx0, xx1, field.reshape(xx0.shape), levels=[0.0], colors="0.15", linewidths=width)

    def _images(self, ax: Any, options: dict[str, Any]) -> list[Any]:
        assert self.image_shape is not None
        columns, (height, width) = self._columns(), self.image_shape
        if self.vectors.shape[1] != height * width:
            raise ValueError(f"image_shape {self.image_shape} does not hold {self.vectors.shape[1]} features.")
        style = {"cmap": "gray_r", "vmin": float(self.vectors.min()), "vmax": float(self.vectors.max()), **options}
        artists = []
        for number, (vector, side) in enumerate(zip(self.vectors, self.sides, strict=True)):
            x_start, top = 1.1 * width * (number % columns), 1.35 * height * (number // columns)
            extent = (x_start, x_start + width, top + height, top)
            artists.append(ax.imshow(vector.reshape(self.image_shape), **{"extent": extent, **style}))
            name = self.side_names[side]
            ax.text(x_start + width / 2, top - 0.03 * height, name, ha="center", va="bottom", fontsize=8)
        ax.set(xlim=(0.0, 1.1 * width * columns), ylim=(1.35 * height * -(-len(artists) // columns), -0.35 * height))
        ax.axis("off")
        return artists

    def _heatmap(self, ax: Any, options: dict[str, Any]) -> list[Any]:
        """A column for each vector, those of one side together; a row for each feature, the most relevant on top."""
        values, apart = self._standardised()
        m, d = values.shape
        shown = np.argsort(-(apart if self.relevance is None else self.relevance), kind="stable")[:_MOST_SHOWN]
        # a vector may be far away along what the kernel ignores: its colour is then that of the edge
        edge = float(np.clip(np.quantile(np.abs(values[:, shown]), 0.98), 1.0, 4.0))
        look = {"cmap": "RdBu_r", "vmin": -edge, "vmax": edge, "aspect": "auto", "interpolation": "none", **options}
        order = np.lexsort((-self.strength, self.sides))
        artists: list[Any] = [None] * m
        for place, number in enumerate(order):
            extent = (place, place + 1, len(shown), 0)
            artists[number] = ax.imshow(values[number, shown][:, None], **{"extent": extent, **look})
        sides, starts, counts = np.unique(self.sides[order], return_index=True, return_counts=True)
        for start in starts[1:]:
            ax.axvline(start, color="black", linewidth=1.5)
        names = [f"for {self.side_names[side]}" for side in sides]
        crowded = max(len(name) / count for name, count in zip(names, counts, strict=True)) > 75 / m
        ax.set_xticks(starts + counts / 2, names, rotation=90 if crowded else 0)
        feature_names = self.feature_names or [f"feature {number}" for number in range(d)]
        ax.set_yticks(np.arange(len(shown)) + 0.5, [feature_names[i] for i in shown])
        ax.tick_params(length=0, labelsize="small")
        ax.set(xlim=(0, m), ylim=(len(shown), 0))
        ax.grid(visible=False)
        note = "" if len(shown) == d else f", the {len(shown)} most relevant of {d} features"
        ax.set_title(f"{m} basis vectors{note}", loc="left")
        if m:
            bar = ax.figure.colorbar(artists[0], ax=ax, label="standard deviations", pad=0.02, aspect=30)
            bar.ax.tick_params(labelsize="small")
            bar.solids.set_rasterized(True)
        return artists

    def _lines(self, ax: Any, options: dict[str, Any]) -> list[Any]:
        values, apart = self._standardised()
        d = values.shape[1]
        shown = np.sort(np.argsort(-apart, kind="stable")[:_MOST_FEATURES])
        artists: list[Any] = []
        of_side: dict[int, Any] = {}
        for vector, side, share in zip(values[:, shown], self.sides, self._shares(), strict=True):
            look = {"color": colour(side), "linestyle": ("-", "--", "-.", ":")[side % 4], "linewidth": 1.0}
            look |= {"alpha": 0.25 + 0.65 * share, "label": f"for {self.side_names[side]}", **options}
            artists += ax.plot(np.arange(len(shown)), vector, **look)
            of_side.setdefault(int(side), artists[-1])
        names = self.feature_names or [str(number) for number in range(d)]
        short = [names[i] if len(names[i]) <= 18 else names[i][:17] + "…" for i in shown]
        ax.set_xticks(np.arange(len(shown)), short, rotation=90 if len(shown) > 8 else 30)
        ax.tick_params(axis="x", labelsize="small")
        note = "" if len(shown) == d else f", {len(shown)} of {d} features"
        ax.set(ylabel="standard deviations from the mean", title=f"{len(values)} basis vectors{note}")
        ax.grid(axis="x", alpha=0.3)
        ax.legend(handles=[of_side[side] for side in sorted(of_side)], fontsize="small")
        return artists

    def _standardised(self) -> tuple[Array, Array]:
        """The vectors in standard deviations from the mean, and how far apart the sides are in each feature."""
        middle, spread = self.moments or (self.vectors.mean(axis=0), self.vectors.std(axis=0))
        values = (self.vectors - middle) / np.where(spread > 0, spread, 1.0)
        means = [np.abs(values[self.sides == side].mean(axis=0)) for side in np.unique(self.sides)]
        return values, np.max([np.zeros(values.shape[1]), *means], axis=0)

    def _shares(self) -> Array:
        """Sizes of the weights, relative to the largest."""
        return self.strength / max(float(self.strength.max(initial=0.0)), 1e-300)


def _grid(low: Array, high: Array, resolution: int) -> tuple[Array, Array, Array]:
    """A grid over a rectangle, as from `numpy.meshgrid`, and its points as rows."""
    xx0, xx1 = np.meshgrid(*(np.linspace(a, b, resolution) for a, b in zip(low, high, strict=True)))
    return xx0, xx1, np.column_stack([xx0.ravel(), xx1.ravel()])


def resolve_kind(
    kind: str, image_shape: tuple[int, int] | None, vectors: Array, X: Any
) -> tuple[str, tuple[int, int] | None]:
    """How vectors are drawn ("scatter", "images", "heatmap" or "parallel"), and the shape of the images."""
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    if kind == "scatter" and vectors.shape[1] != 2:
        raise ValueError(f"a scatter needs two features; the vectors have {vectors.shape[1]}. Use kind='heatmap'.")
    if kind == "auto" and image_shape is None:
        if vectors.shape[1] == 2:
            return "scatter", None
        image_shape = None if X is None else image_shape_of(X)
        return ("images" if image_shape else "heatmap"), image_shape
    if kind == "images" and image_shape is None:
        side = math.isqrt(vectors.shape[1])
        if side * side != vectors.shape[1]:
            raise ValueError(f"{vectors.shape[1]} features make no square picture; give image_shape.")
        image_shape = (side, side)
    return ("images" if kind == "auto" else kind), image_shape


def sides_of(model: Model) -> tuple[Array, list[str]]:
    """Which class every basis vector speaks for, as numbers (m,), and the names of these numbers.

    Two classes (or one output): the sign of the weight.  More: the class whose score a vector raises most, found by
    giving the coding each vector's weights as if they were outputs.
    """
    weights = np.asarray(model.weights)
    if model.kind == "classifier" and model.classes is not None:
        names = [str(label) for label in model.classes]
        scores = model.scores(weights)
        return ((scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)), names
    if weights.shape[1] == 1:
        return (weights[:, 0] > 0).astype(np.intp), ["lower values", "higher values"]
    return np.zeros(len(weights), dtype=np.intp), ["vectors"]


def image_shape_of(X: Any) -> tuple[int, int] | None:
    """Shape of square pictures if the rows look like them, else None.

    Rows look like pictures when the number of features is a square of at least 64 and neighbouring features, across
    and down, go together far more than features a random distance apart.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer, load_digits
    >>> from kompakt.plots.vectors import image_shape_of
    >>> image_shape_of(load_digits().data), image_shape_of(load_breast_cancer().data)
    ((8, 8), None)
    """
    X = X[:500]
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    side = math.isqrt(X.shape[-1])
    if X.ndim != 2 or len(X) < 8 or side < 8 or side * side != X.shape[1]:
        return None
    centred = np.nan_to_num(X - np.nanmean(X, axis=0))
    centred /= np.maximum(np.linalg.norm(centred, axis=0), 1e-300)
    pixels = centred.reshape(len(X), side, side)
    across = float(np.mean(np.sum(pixels[:, :, 1:] * pixels[:, :, :-1], axis=0)))
    down = float(np.mean(np.sum(pixels[:, 1:] * pixels[:, :-1], axis=0)))
    order = np.random.default_rng(0).permutation(X.shape[1])
    anywhere = float(np.mean(np.abs(np.sum(centred * centred[:, order], axis=0))))
    return (side, side) if min(across, down) > max(0.15, 1.5 * anywhere) else None


@dataclass(frozen=True)
class BoundaryStep:
    """What one step saw on the grid: decision values of every candidate's estimated model, and the winner's place."""

    n_basis: int  # size that the winner makes
    values: Array  # (k, rows, columns)
    winner: int


class CandidateBoundariesDisplay:
    """Decision boundaries of all candidates (thin) and of the winner (thick) at chosen steps of a growth.

    As in figure 1 of Navia-Vazquez and Diaz-Morales 2010.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (rows, columns)
        The grid, as from `numpy.meshgrid`.
    steps : list of BoundaryStep
    X : ndarray of shape (n, 2)
        Training rows, to be drawn.
    labels : ndarray of shape (n,)
        Class indices 0 and 1.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
    figure_ : matplotlib Figure
    contours_ : list of (thin, thick)
        Per step, the contours of the candidates and of the winner.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import FEESVC
    >>> from kompakt.plots import CandidateBoundariesDisplay
    >>> X, y = make_moons(120, noise=0.2, random_state=0)
    >>> estimator = FEESVC(C=10.0, random_state=0)
    >>> display = CandidateBoundariesDisplay.from_estimator(estimator, X, y, steps=(3, 5), resolution=20)
    >>> [step.n_basis for step in display.steps]
    [3, 5]
    """

    def __init__(self, xx0: Any, xx1: Any, steps: Sequence[BoundaryStep], X: Any, labels: Any) -> None:
        self.xx0, self.xx1 = np.asarray(xx0), np.asarray(xx1)
        self.steps = list(steps)
        self.X, self.labels = np.asarray(X), np.asarray(labels)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        steps: Sequence[int] = (3, 5, 7, 10),
        resolution: int = 100,
        axes: Any = None,
        **line_options: Any,
    ) -> CandidateBoundariesDisplay:
        """Grow a model with the estimator's parameters on X, y and draw its steps; the estimator stays as it is.

        Parameters
        ----------
        estimator : FEESVC
            With ``selection="fee"`` or "sgma", an int or None as `random_state`; it need not be fitted.
        X : array-like of shape (n, 2)
        y : array-like of shape (n,)
            Two classes.
        steps : sequence of int
            Sizes whose last vector is being chosen (n of the paper's figure).
        resolution : int
            Grid points along each axis.
        axes : sequence of matplotlib Axes, optional
            One per step.
        **line_options
            For the contours.
        """
        if estimator.selection == "gsvc":
            raise ValueError("selection='gsvc' tries no candidates, so there is nothing to draw; use 'fee' or 'sgma'.")
        rows = np.asarray(X, dtype=np.float64)
        classes, labels = np.unique(y, return_inverse=True)
        if rows.ndim != 2 or rows.shape[1] != 2 or len(classes) != 2:
            raise ValueError(
                f"boundaries are drawn for two features and two classes; got X of shape {rows.shape} and "
                f"{len(classes)} classes."
            )
        margin = 0.1 * np.ptp(rows, axis=0)
        xx0, xx1, grid = _grid(rows.min(axis=0) - margin, rows.max(axis=0) + margin, resolution)
        traces = clone(estimator).trace_candidates(rows, labels, grid, steps)
        drawn = [BoundaryStep(n, values.reshape(-1, *xx0.shape), winner) for n, values, winner in traces]
        return cls(xx0, xx1, drawn, rows, labels).plot(axes=axes, **line_options)

    def plot(self, axes: Any = None, **line_options: Any) -> CandidateBoundariesDisplay:
        """Draw into `axes`, one per step, or into a new figure."""
        if axes is None:
            n = max(1, len(self.steps))
            _, axes = pyplot().subplots(1, n, figsize=(3.2 * n, 3.2), squeeze=False, layout="constrained")
        self.axes_ = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
        if len(self.axes_) < len(self.steps):
            raise ValueError(f"{len(self.steps)} steps need as many axes; got {len(self.axes_)}.")
        self.figure_ = self.axes_[0].figure
        self.contours_ = []
        for ax, step in zip(self.axes_, self.steps, strict=False):
            for label, shape in ((0, "x"), (1, "o")):
                rows = self.X[self.labels == label]
                ax.scatter(*rows.T, marker=shape, s=12, color=colour(label), alpha=0.5, linewidths=0.8)
            thin = [self._line(ax, values, line_options, linewidths=0.7, linestyles="dotted") for values in step.values]
            thick = self._line(ax, step.values[step.winner], line_options, linewidths=2.2, linestyles="solid")
            self.contours_.append((thin, thick))
            ax.set(title=f"n = {step.n_basis}", xticks=[], yticks=[])
        return self

    def _line(self, ax: Any, values: Array, line_options: dict[str, Any], **style: Any) -> Any:
        if values.min() > 0.0 or values.max() < 0.0:
            return None  # this candidate gives one class everywhere on the grid: it has no boundary
        return ax.contour(self.xx0, self.xx1, values, levels=[0.0], **{"colors": "k", **style, **line_options})
