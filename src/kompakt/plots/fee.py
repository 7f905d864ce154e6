"""Boundaries of all candidates at a step of growth, as in figure 1 of seed 000."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kompakt.plots._style import colour, pyplot

Array = np.ndarray


@dataclass(frozen=True)
class BoundaryStep:
    """What one step saw on the grid: decision values of every candidate's estimated machine, and the winner's place."""

    n_basis: int  # size that the winner makes
    values: Array  # (k, rows, columns)
    winner: int


class CandidateBoundariesDisplay:
    """Decision boundaries of all candidates (thin) and of the winner (thick) at chosen steps of a growth.

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
    >>> machine = FEESVC(C=10.0, patience=8, random_state=0)
    >>> display = CandidateBoundariesDisplay.from_estimator(machine, X, y, steps=(3, 5), resolution=20)
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
        """Grow a machine with the estimator's parameters on X, y and draw its steps; the estimator stays as it is.

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
        from sklearn.base import clone

        machine = clone(estimator)
        if machine.selection == "gsvc":
            raise ValueError("selection='gsvc' tries no candidates, so there is nothing to draw; use 'fee' or 'sgma'.")
        rows = np.asarray(X, dtype=np.float64)
        classes, labels = np.unique(y, return_inverse=True)
        if rows.ndim != 2 or rows.shape[1] != 2 or len(classes) != 2:
            raise ValueError(
                f"boundaries are drawn for two features and two classes; got X of shape {rows.shape} and "
                f"{len(classes)} classes."
            )
        margin = 0.1 * np.ptp(rows, axis=0)
        low, high = rows.min(axis=0) - margin, rows.max(axis=0) + margin
        xx0, xx1 = np.meshgrid(*(np.linspace(a, b, resolution) for a, b in zip(low, high, strict=True)))
        grid = np.column_stack([xx0.ravel(), xx1.ravel()])
        found = machine.trace_candidates(rows, labels, grid, steps)
        drawn = [BoundaryStep(n, values.reshape(-1, *xx0.shape), winner) for n, values, winner in found]
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
            for label, marker in ((0, "x"), (1, "o")):
                ax.scatter(
                    *self.X[self.labels == label].T, marker=marker, s=12, color=colour(label), alpha=0.5, linewidths=0.8
                )
            thin = [self._line(ax, values, line_options, linewidths=0.7, linestyles="dotted") for values in step.values]
            thick = self._line(ax, step.values[step.winner], line_options, linewidths=2.2, linestyles="solid")
            self.contours_.append((thin, thick))
            ax.set(title=f"n = {step.n_basis}", xticks=[], yticks=[])
        return self

    def _line(self, ax: Any, values: Array, line_options: dict[str, Any], **style: Any) -> Any:
        if values.min() > 0.0 or values.max() < 0.0:
            return None  # this machine gives one class everywhere on the grid: it has no boundary
        return ax.contour(self.xx0, self.xx1, values, levels=[0.0], **{"colors": "k", **style, **line_options})
