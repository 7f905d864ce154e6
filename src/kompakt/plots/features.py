"""How a model sees each feature: the transform that its kernel works with, in the kernel's own units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kompakt.io.fitted import model_of
from kompakt.kernels.base import dense
from kompakt.model import Model
from kompakt.plots.style import colour, pyplot

Array = np.ndarray

#: rows that say where a feature has its values, and the share of them at either end that is not drawn
_MOST_ROWS, _TAIL = 20_000, 0.005


class FeatureCurvesDisplay:
    """Each feature as the kernel sees it, in scikit-learn's display convention.

    Where a curve is steep the model tells values apart, where it is flat it takes them for the same, and where it turns
    it takes values on both sides for the same.  A difference of 1 between two rows in one feature alone divides their
    kernel value by e.  Features that do not bend are straight lines.

    Parameters
    ----------
    curves : list of (x, y) arrays
        Corners of one curve per feature: values in the units of the input, and what the kernel sees.
    names : list of str

    Attributes
    ----------
    axes_ : array of matplotlib Axes, one per feature
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import CompactSVC
    >>> from kompakt.plots import FeatureCurvesDisplay
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> model = CompactSVC(n_basis=12, random_state=0).fit(X, y)
    >>> display = FeatureCurvesDisplay.from_estimator(model, X)
    >>> len(display.lines_)
    2
    """

    def __init__(self, curves: Sequence[tuple[Any, Any]], names: Sequence[str]) -> None:
        self.curves = [(np.asarray(x, dtype=float), np.asarray(y, dtype=float)) for x, y in curves]
        self.names = [str(name) for name in names]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, *, features: Any = None, max_features: int = 12, axes: Any = None,
        **line_options: Any,
    ) -> FeatureCurvesDisplay:  # fmt: skip
        """Draw the features of a fitted estimator or a `Model`.

        Parameters
        ----------
        estimator : fitted kompakt estimator or Model
            With a Gaussian kernel, or with bends of its features.
        X : array-like or table, optional
            Rows that say between which values a feature is drawn; without them, its knots and the basis vectors do.
        features : sequence of int, optional
            Numbers of the features to draw; by default those that differ most in the kernel.
        max_features : int
            So many at most, where `features` are not given.
        axes : array of matplotlib Axes, optional
            One per feature.
        **line_options
            For Matplotlib's `plot`.
        """
        model = model_of(estimator)
        curves = feature_curves(model, X)
        if features is None:
            extents = [float(np.ptp(y)) for _, y in curves]
            features = np.argsort(-np.asarray(extents), kind="stable")[:max_features]
        names = getattr(estimator, "feature_names_in_", None) if model.feature_names is None else model.feature_names
        names = [f"feature {number}" for number in range(model.n_features)] if names is None else names
        display = cls([curves[number] for number in features], [names[number] for number in features])
        return display.plot(axes, **line_options)

    def plot(self, axes: Any = None, **line_options: Any) -> FeatureCurvesDisplay:
        """Draw into `axes`, or into a new figure."""
        if axes is None:
            columns = min(4, max(1, math.ceil(math.sqrt(len(self.curves)))))
            rows = -(-len(self.curves) // columns)
            size = (2.6 * columns, 2.1 * rows + 0.3)
            _, grid = pyplot().subplots(rows, columns, squeeze=False, sharey=True, layout="constrained", figsize=size)
            for spare in grid.ravel()[len(self.curves) :]:
                spare.set_axis_off()
            axes = grid.ravel()[: len(self.curves)]
        self.axes_, self.lines_ = np.ravel(axes), []
        if len(self.axes_) != len(self.curves):
            raise ValueError(f"expected one Axes for each of {len(self.curves)} features; got {len(self.axes_)}.")
        for ax, (x, y), name in zip(self.axes_, self.curves, self.names, strict=True):
            look = {"color": colour(0), "marker": ".", "markevery": slice(1, -1), **line_options}
            self.lines_ += ax.plot(x, y, **look)
            ax.set_xlabel(name)
            ax.grid(alpha=0.3)
        for ax in self.axes_[:1]:
            ax.set_ylabel("as the kernel sees it")
        self.figure_ = self.axes_[0].figure if len(self.axes_) else None
        return self


def feature_curves(model: Model, X: Any = None) -> list[tuple[Array, Array]]:
    """Corners of the curve of every feature: values in the units of the input, and what the kernel sees of them.

    Zero is in the middle.  With a map A, a feature alone moves a row by a column of A: the curve is scaled by the
    column's length.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt import Model
    >>> from kompakt.inputs import Inputs
    >>> from kompakt.kernels import RBF
    >>> from kompakt.piecewise import PiecewiseLinear
    >>> from kompakt.plots.features import feature_curves
    >>> bends = PiecewiseLinear(np.array([[1.0]]), np.array([[1.0, 0.0]]))
    >>> fields = np.array([[0.0], [3.0]]), np.ones((2, 1)), np.zeros(1), "regressor", 1
    >>> model = Model(RBF(4.0), *fields, inputs=Inputs(shift=np.array([5.0]), bends=bends))
    >>> feature_curves(model, np.repeat([[4.0], [8.0]], 300, axis=0))
    [(array([4., 6., 8.]), array([-4.,  0.,  0.]))]
    """
    gamma, inputs, d = model.widths, model.inputs, model.n_features
    if not np.all(np.isfinite(gamma)):
        raise ValueError(
            f"a {model.kernel.name} kernel has no widths, so that there is no curve to draw. Fit with kernel='rbf'."
        )
    knots = np.empty((d, 0))
    if inputs.bends is not None:
        knots = np.where(np.isfinite(inputs.bends.knots), inputs.bends.knots, np.nan)
        knots = replace(inputs, bends=None, map=None).inverse(knots.T).T
    low, high = _ranges(model, X, knots)
    inside = np.clip(np.where(np.isnan(knots), low[:, None], knots), low[:, None], high[:, None])
    corners = np.sort(np.column_stack([low, inside, high]), axis=1)
    lengths = np.sqrt(np.abs(np.broadcast_to(gamma, d)))
    seen = lengths * replace(inputs, map=None).transform(np.vstack([(low + high) / 2, corners.T]))
    curves = []
    for x, y in zip(corners, (seen[1:] - seen[0]).T, strict=True):
        x, first = np.unique(x, return_index=True)
        curves.append((x, y[first]))
    return curves


def _ranges(model: Model, X: Any, knots: Array) -> tuple[Array, Array]:
    """Between which values every feature is drawn: those of nearly all rows, or knots and vectors and a little more."""
    if X is not None:
        rows = np.asarray(dense(model.inputs.encoded(X)[:_MOST_ROWS]), dtype=np.float64)
        rows = np.where(np.isnan(rows).all(axis=0), 0.0, rows)
        low, high = np.nanquantile(rows, [_TAIL, 1.0 - _TAIL], axis=0)
    else:
        vectors = np.asarray(model.basis_vectors_, dtype=np.float64)
        at = np.concatenate([vectors if len(vectors) else np.zeros((1, model.n_features)), knots.T])
        low, high = np.nanmin(at, axis=0), np.nanmax(at, axis=0)
        low, high = low - 0.1 * (high - low), high + 0.1 * (high - low)
    constant = np.where(high > low, 0.0, 0.5)
    return low - constant, high + constant
