"""The basis vectors themselves: on the decision boundary, as pictures, or as lines across the features."""

from __future__ import annotations

from typing import Any

import numpy as np

from kompakt.plots._style import axes_or_new, colour, image_shape_of, marker, pyplot, sides_of

Array = np.ndarray

KINDS = ("auto", "scatter", "images", "parallel")
#: what "auto" draws at most; all are drawn on request
_MOST_IMAGES, _MOST_LINES, _MOST_FEATURES, _MOST_ROWS = 49, 200, 40, 2000


class BasisVectorsDisplay:
    """Basis vectors of a machine, in scikit-learn's display convention.

    Parameters
    ----------
    vectors : array of shape (m, d)
        In the units of the input.
    sides : array of shape (m,)
        Number of the class (or sign) that each vector speaks for.
    side_names : list of str
    kind : {"scatter", "images", "parallel"}
    strength : array of shape (m,), optional
        Size of each vector's weights: the order in which they are drawn, and the size of the markers.
    feature_names : sequence of str, optional
    image_shape : (int, int), optional
    model : Model, optional
        To draw the boundary behind a scatter.
    X, labels : array of shape (n, d) and (n,), optional
        Rows to draw behind a scatter, and the numbers of their classes.

    Attributes
    ----------
    ax_ : matplotlib Axes
    axes_ : ndarray of matplotlib Axes
        One per picture for images, else `ax_` alone.
    figure_ : matplotlib Figure
    artists_ : list
        What shows the vectors: scatter collections, images or lines.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import CompactSVC
    >>> from kompakt.plots import BasisVectorsDisplay
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> machine = CompactSVC(n_basis=12, random_state=0).fit(X, y)
    >>> display = BasisVectorsDisplay.from_estimator(machine, X, y)
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
        model: Any = None,
        X: Any = None,
        labels: Any = None,
    ) -> None:
        self.vectors = np.asarray(vectors, dtype=float)
        self.sides, self.side_names = np.asarray(sides), list(side_names)
        self.kind = kind
        self.strength = np.ones(len(self.vectors)) if strength is None else np.asarray(strength, dtype=float)
        self.feature_names = None if feature_names is None else [str(name) for name in feature_names]
        self.image_shape = image_shape
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
        kind : {"auto", "scatter", "images", "parallel"}
            "auto" takes a scatter for two features, images where the rows look like square pictures, else lines.
        image_shape : (int, int), optional
            Shape of a picture; implies "images".
        max_vectors : int, optional
            Draw only the vectors with the largest weights; without it 49 pictures, 200 lines, or all points.
        ax : matplotlib Axes, optional
            For images it is divided into a grid.
        **options
            For the artists of the vectors.
        """
        from kompakt.io.files import model_of

        model = model_of(estimator)
        vectors = model.basis_vectors_
        if vectors is None or model.kernel.name == "callable":
            raise ValueError(f"a {model.kernel.name} kernel has no basis vectors that could be drawn.")
        kind, image_shape = _resolved(kind, image_shape, vectors, X)
        sides, names = sides_of(model)
        strength = np.linalg.norm(model.weights, axis=1)
        most = {"images": _MOST_IMAGES, "parallel": _MOST_LINES}.get(kind, len(vectors))
        kept = np.argsort(-strength, kind="stable")[: most if max_vectors is None else int(max_vectors)]
        labels = None
        if y is not None and model.classes is not None:
            labels = np.searchsorted(model.classes, np.asarray(y))
        given = getattr(estimator, "feature_names_in_", model.feature_names)
        return cls(
            vectors[kept],
            sides[kept],
            names,
            kind,
            strength=strength[kept],
            feature_names=given,
            image_shape=image_shape,
            model=model,
            X=X,
            labels=labels,
        ).plot(ax=ax, **options)

    def plot(self, ax: Any = None, **options: Any) -> BasisVectorsDisplay:
        """Draw into `ax`, or into a new figure."""
        if self.kind == "images":
            self._images(ax, options)
        else:
            ax = axes_or_new(ax, layout="constrained")
            self.ax_, self.figure_, self.axes_ = ax, ax.figure, np.array([ax], dtype=object)
            self.artists_ = self._scatter(ax, options) if self.kind == "scatter" else self._lines(ax, options)
        return self

    def _scatter(self, ax: Any, options: dict[str, Any]) -> list[Any]:
        rows = None if self.X is None else np.asarray(self.X, dtype=float)
        if rows is not None and len(rows) > _MOST_ROWS:
            pick = np.random.default_rng(0).choice(len(rows), _MOST_ROWS, replace=False)
            rows, labels = rows[pick], None if self.labels is None else self.labels[pick]
        else:
            labels = self.labels
        spread = self.vectors if rows is None else np.concatenate([self.vectors, rows])
        low, high = spread.min(axis=0), spread.max(axis=0)
        margin = np.where(high > low, 0.08 * (high - low), 0.5)
        if self.model is not None:
            self._boundary(ax, low - margin, high + margin)
        if rows is not None:
            for number in np.unique(labels) if labels is not None else [None]:
                own = rows if labels is None else rows[labels == number]
                ax.scatter(*own.T, s=6, alpha=0.35, linewidths=0, color="0.5" if number is None else colour(number))
        artists = []
        largest = max(float(self.strength.max(initial=0.0)), 1e-300)
        for number in np.unique(self.sides):
            own = self.sides == number
            style = {
                "s": 40 + 110 * np.sqrt(self.strength[own] / largest),
                "color": colour(number),
                "marker": marker(number),
                "edgecolors": "white",
                "linewidths": 1.2,
                "label": f"for {self.side_names[number]}",
                "zorder": 3,
                **options,
            }
            artists.append(ax.scatter(*self.vectors[own].T, **style))
        names = self.feature_names or ["feature 0", "feature 1"]
        ax.set(xlabel=names[0], ylabel=names[1], title=f"{len(self.vectors)} basis vectors")
        ax.legend(fontsize="small")
        return artists

    def _boundary(self, ax: Any, low: Array, high: Array, resolution: int = 150) -> None:
        axes = [np.linspace(a, b, resolution) for a, b in zip(low, high, strict=True)]
        xx0, xx1 = np.meshgrid(*axes)
        values = self.model.decision_function(np.column_stack([xx0.ravel(), xx1.ravel()]))
        if self.model.kind == "regressor":
            first = (values if values.ndim == 1 else values[:, 0]).reshape(xx0.shape)
            drawn = ax.contour(xx0, xx1, first, levels=10, cmap="viridis", linewidths=1.0)
            ax.clabel(drawn, fontsize="x-small")
            return
        best = (values > 0).astype(int) if values.ndim == 1 else np.argmax(values, axis=1)
        best = best.reshape(xx0.shape)
        many = int(best.max()) + 1
        levels = np.arange(many + 1) - 0.5
        ax.contourf(xx0, xx1, best, levels=levels, colors=[colour(k) for k in range(many)], alpha=0.12)
        if values.ndim == 1:
            field = values.reshape(xx0.shape)
            if field.min() < 0 < field.max():
                ax.contour(xx0, xx1, field, levels=[0.0], colors="0.15", linewidths=1.8)
        elif many > 1:
            for number in range(many):  # the border of each region: its lead over the best other class is zero
                lead = (values[:, number] - np.delete(values, number, axis=1).max(axis=1)).reshape(xx0.shape)
                if lead.min() < 0 < lead.max():
                    ax.contour(xx0, xx1, lead, levels=[0.0], colors="0.15", linewidths=1.2)

    def _images(self, ax: Any, options: dict[str, Any]) -> None:
        assert self.image_shape is not None
        if self.vectors.shape[1] != int(np.prod(self.image_shape)):
            raise ValueError(f"image_shape {self.image_shape} does not hold {self.vectors.shape[1]} features.")
        count = len(self.vectors)
        columns = int(np.ceil(np.sqrt(count)))
        lines = -(-count // columns)
        if ax is None:
            figure, self.axes_ = pyplot().subplots(
                lines, columns, figsize=(1.1 * columns, 1.25 * lines), squeeze=False, layout="constrained"
            )
            self.axes_ = self.axes_.ravel()
        else:
            figure = ax.figure
            ax.axis("off")
            cells = [(i, j) for i in range(lines) for j in range(columns)]
            self.axes_ = np.array(
                [ax.inset_axes([j / columns, 1 - (i + 0.78) / lines, 0.92 / columns, 0.72 / lines]) for i, j in cells],
                dtype=object,
            )
        low, high = float(self.vectors.min()), float(self.vectors.max())
        self.artists_ = []
        for cell, vector, side in zip(self.axes_, self.vectors, self.sides, strict=False):
            style = {"cmap": "gray_r", "vmin": low, "vmax": high, **options}
            self.artists_.append(cell.imshow(vector.reshape(self.image_shape), **style))
            cell.set_title(self.side_names[side], fontsize=8, pad=2)
        for cell in self.axes_:
            cell.axis("off")
        self.ax_, self.figure_ = (self.axes_[0] if ax is None else ax), figure

    def _lines(self, ax: Any, options: dict[str, Any]) -> list[Any]:
        middle, spread = self.vectors.mean(axis=0), self.vectors.std(axis=0)
        values = (self.vectors - middle) / np.where(spread > 0, spread, 1.0)
        d = values.shape[1]
        shown = np.arange(d)
        if d > _MOST_FEATURES:  # where the two sides differ most
            apart = np.max([np.abs(values[self.sides == side].mean(axis=0)) for side in np.unique(self.sides)], axis=0)
            shown = np.sort(np.argsort(-apart, kind="stable")[:_MOST_FEATURES])
        names = self.feature_names or [str(number) for number in range(d)]
        seen: dict[int, Any] = {}
        artists = []
        largest = max(float(self.strength.max(initial=0.0)), 1e-300)
        for vector, side, strength in zip(values, self.sides, self.strength, strict=True):
            style = {
                "color": colour(side),
                "alpha": 0.25 + 0.65 * strength / largest,
                "linewidth": 1.0,
                "linestyle": ("-", "--", "-.", ":")[side % 4],
                "label": f"for {self.side_names[side]}",
                **options,
            }
            artists += ax.plot(np.arange(len(shown)), vector[shown], **style)
            seen.setdefault(int(side), artists[-1])
        ax.set_xticks(np.arange(len(shown)), [_short(names[i]) for i in shown], rotation=90 if len(shown) > 8 else 30)
        ax.tick_params(axis="x", labelsize="small")
        note = "" if len(shown) == d else f", {len(shown)} of {d} features"
        ax.set(ylabel="standard deviations from the mean", title=f"{len(values)} basis vectors{note}")
        ax.grid(axis="x", alpha=0.3)
        ax.legend(handles=[seen[side] for side in sorted(seen)], fontsize="small")
        return artists


def _short(name: str, most: int = 18) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _resolved(
    kind: str, image_shape: tuple[int, int] | None, vectors: Array, X: Any
) -> tuple[str, tuple[int, int] | None]:
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    if kind == "scatter" and vectors.shape[1] != 2:
        raise ValueError(f"a scatter needs two features; the vectors have {vectors.shape[1]}. Use kind='parallel'.")
    if kind == "auto" and image_shape is None:
        if vectors.shape[1] == 2:
            return "scatter", None
        image_shape = None if X is None else image_shape_of(X)
        return ("images" if image_shape else "parallel"), image_shape
    if kind == "images" and image_shape is None:
        side = round(vectors.shape[1] ** 0.5)
        if side * side != vectors.shape[1]:
            raise ValueError(f"{vectors.shape[1]} features make no square picture; give image_shape.")
        image_shape = (side, side)
    return ("images" if kind == "auto" else kind), image_shape
