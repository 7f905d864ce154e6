"""Curves and points about fits: error by size, objective by step, cost against cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kompakt.plots.style import axes_or_new, colour, marker

Array = np.ndarray

#: what a record may hold, in the order of preference, and how it is called on the axis
QUANTITIES = {
    "objective": "objective",
    "validation_error": "validation error",
    "validation": "validation error",
    "estimated_error": "estimated error",
    "train_error": "training error",
    "error": "validation error",
}
STEPS = {"n_basis": "basis vectors", "n_train": "training rows", "time": "seconds"}
#: costs of a benchmark's contenders, and how they are called on the axis
LABELS = {
    "size": "basis vectors",
    "fit": "fit time (s)",
    "predict": "prediction time (µs per row)",
    "error": "test error (%)",
}


class SizePathDisplay:
    """Error along a path of sizes, with the chosen size, in scikit-learn's display convention.

    Parameters
    ----------
    sizes : array of shape (n_sizes,)
    errors : array of shape (n_sizes,) or (n_sizes, n_splits)
    chosen : int
        The size that was chosen.
    standard_errors : array of shape (n_sizes,), optional

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import CompactSVC
    >>> from kompakt.plots import SizePathDisplay
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> model = CompactSVC(n_basis="auto", refine=False, random_state=0).fit(X, y)
    >>> display = SizePathDisplay.from_estimator(model)
    >>> display.ax_.get_xlabel()
    'basis vectors'
    """

    def __init__(self, sizes: Any, errors: Any, chosen: int, standard_errors: Any = None) -> None:
        self.sizes = np.asarray(sizes)
        self.errors = np.asarray(errors, dtype=float)
        self.chosen = int(chosen)
        self.standard_errors = None if standard_errors is None else np.asarray(standard_errors, dtype=float)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **line_options: Any) -> SizePathDisplay:
        """Draw the path of a model that was fitted with ``n_basis="auto"``."""
        path = size_path_of(estimator)
        if path is None:
            raise ValueError(
                f"{type(estimator).__name__} has no size path: it has one after a fit with n_basis='auto'. "
                "Use from_predictions for errors of your own."
            )
        return cls(*path).plot(ax=ax, **line_options)

    @classmethod
    def from_predictions(
        cls, sizes: Any, errors: Any, chosen: int, *, ax: Any = None, **line_options: Any
    ) -> SizePathDisplay:
        """Draw given errors."""
        return cls(sizes, errors, chosen).plot(ax=ax, **line_options)

    def plot(self, ax: Any = None, **line_options: Any) -> SizePathDisplay:
        """Draw into `ax`, or into a new figure."""
        ax = axes_or_new(ax)
        means = self.errors if self.errors.ndim == 1 else self.errors.mean(axis=1)
        (self.line_,) = ax.plot(self.sizes, means, **{"marker": "o", "color": colour(0), **line_options})
        if self.standard_errors is not None:
            band = means - self.standard_errors, means + self.standard_errors
            ax.fill_between(self.sizes, *band, alpha=0.2, color=self.line_.get_color(), label="one standard error")
        ax.axvline(self.chosen, linestyle="--", color=colour(1), label=f"chosen: {self.chosen}")
        ax.set(xlabel="basis vectors", ylabel="validation error", xscale="log")
        # the sizes themselves, not powers of ten; of a long path those that leave room for their numbers
        shown = self.sizes[:: max(1, -(-len(self.sizes) // 12))]
        ax.set_xticks(shown, [str(size) for size in shown])
        ax.set_xticks([], minor=True)
        ax.grid(alpha=0.3)
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


def size_path_of(estimator: Any) -> tuple[Array, Array, int, Array] | None:
    """Sizes, errors (n_sizes,) or (n_sizes, n_splits), chosen size and standard errors of a fit, or None."""
    path = getattr(estimator, "size_path_", None)
    if path is None:
        return None
    if isinstance(path, dict):  # the fixed-size estimators' table
        return path["n_basis"], path["mean_test_error"], estimator.n_basis_, path["std_error"]
    return path.sizes, path.errors, path.size, path.standard_errors


class ConvergenceDisplay:
    """Objective and error along the steps of a fit, in scikit-learn's display convention.

    Of a fit with refinement, the objective on the training rows and the loss of held-out rows by the steps of the
    refinement, each with an axis of its own.

    Parameters
    ----------
    steps : array of shape (n_steps,)
    curves : dict of str to array of shape (n_steps,)
        One line each; NaN where a step did not measure it.
    step_name : str
        Label of the horizontal axis.
    title : str, optional

    Attributes
    ----------
    ax_ : matplotlib Axes
    right_ax_ : matplotlib Axes or None
        The axis of the held-out loss where an objective is drawn too.
    figure_ : matplotlib Figure
    lines_ : dict of str to matplotlib Line2D

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import SpSVC
    >>> from kompakt.plots import ConvergenceDisplay
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> model = SpSVC(n_basis=15, random_state=0).fit(X, y)
    >>> display = ConvergenceDisplay.from_estimator(model)
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
    ('basis vectors', 'objective')
    """

    def __init__(
        self,
        steps: Any,
        curves: Mapping[str, Any],
        *,
        step_name: str = "step",
        title: str | None = None,
    ) -> None:
        self.steps = np.asarray(steps, dtype=float)
        self.curves = {name: np.asarray(values, dtype=float) for name, values in curves.items()}
        self.step_name = step_name
        self.title = title
        for name, values in self.curves.items():
            if values.shape != self.steps.shape:
                raise ValueError(f"the curve {name!r} has shape {values.shape}; expected one value per step.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        quantity: str | Sequence[str] | None = None,
        against: str | None = None,
        ax: Any = None,
        **line_options: Any,
    ) -> ConvergenceDisplay:
        """Draw the records in ``history_`` of a fitted estimator.

        Parameters
        ----------
        estimator : fitted kompakt estimator
        quantity : str or sequence of str, optional
            Fields of the records to draw; without it the objective and the held-out loss of a refinement, the objective
            of other fits, or else the errors that were recorded.
        against : {"n_basis", "n_train", "time", "step"}, optional
            The horizontal axis; without it the steps of the refinement, the number of basis vectors where it grows, or
            else seconds or steps.
        ax : matplotlib Axes, optional
        **line_options
            For the lines.
        """
        history = getattr(estimator, "history_", None)
        if not history:
            raise ValueError(
                f"{type(estimator).__name__} has no history_ to draw: fit it first (a model loaded from a file has "
                "none). Use from_predictions for values of your own."
            )
        sizes = [record for record in history if record.get("phase") == "size"]
        title = f"Convergence of {type(estimator).__name__}"
        refinement: Any = next((record for record in reversed(history) if "validation_curve" in record), {})
        refinement = next((record for record in reversed(history) if "objective_curve" in record), refinement)
        if refinement and quantity is None and against is None:
            named = {"objective_curve": "objective, training rows", "validation_curve": "mean loss, held-out rows"}
            recorded = {name: refinement[key] for key, name in named.items() if key in refinement}
            n_steps = max(map(len, recorded.values()))
            curves = {name: [*values, *[np.nan] * (n_steps - len(values))] for name, values in recorded.items()}
            steps = np.arange(n_steps)
            return cls(steps, curves, step_name="step of the refinement", title=title).plot(ax=ax, **line_options)
        if sizes and quantity is None:  # a path of sizes tells more than the phases of the last fit
            history = sizes
        present = {key for record in history for key, value in record.items() if value is not None}
        if quantity is not None:
            quantities = [quantity] if isinstance(quantity, str) else list(quantity)
            missing = [name for name in quantities if name not in present]
            if missing:
                raise ValueError(f"history_ records no {missing[0]!r}; it has {', '.join(sorted(present))}.")
        else:
            quantities = ["objective"] if "objective" in present else [name for name in QUANTITIES if name in present]
        if not quantities:
            raise ValueError(f"history_ records nothing that can be drawn; it has {', '.join(sorted(present))}.")
        history = [record for record in history if any(record.get(name) is not None for name in quantities)]
        steps, name = _steps(history, against)
        curves = {QUANTITIES.get(key, key): [_number(record.get(key)) for record in history] for key in quantities}
        return cls(steps, curves, step_name=name, title=title).plot(ax=ax, **line_options)

    @classmethod
    def from_predictions(
        cls, steps: Any, values: Any, *, name: str = "objective", ax: Any = None, **line_options: Any
    ) -> ConvergenceDisplay:
        """Draw given values, one line called `name`."""
        return cls(steps, {name: values}).plot(ax=ax, **line_options)

    def plot(self, ax: Any = None, **line_options: Any) -> ConvergenceDisplay:
        """Draw into `ax`, or into a new figure."""
        ax = axes_or_new(ax, layout="constrained")
        self.lines_ = {}
        held_out = [name for name in self.curves if "held-out" in name and len(self.curves) > 1]
        self.right_ax_ = ax.twinx() if held_out else None
        for number, (name, values) in enumerate(self.curves.items()):
            finite = np.isfinite(values)
            style = {"color": colour(number), "marker": marker(number), "markersize": 4, **line_options}
            axes: Any = self.right_ax_ if name in held_out else ax
            (self.lines_[name],) = axes.plot(self.steps[finite], values[finite], label=name, **style)
        errors = any("error" in name for name in self.curves)
        for axes, names in ((ax, [name for name in self.curves if name not in held_out]), (self.right_ax_, held_out)):
            values = np.concatenate([np.zeros(0), *(self.curves[name] for name in names)])
            drawn = values[np.isfinite(values)]
            if axes is not None and len(drawn) and drawn.min() > 0 and drawn.max() > 20 * drawn.min() and not errors:
                axes.set_yscale("log")
        if errors:
            ax.set_ylim(bottom=0.0)
        if self.right_ax_ is not None:
            # each curve is named by its axis, in its colour
            self.right_ax_.set_ylabel(held_out[0], color=self.lines_[held_out[0]].get_color())
            ax.yaxis.label.set_color(next(iter(self.lines_.values())).get_color())
        only = len(self.curves) == 1
        named = next(iter(self.curves)) if only or held_out or not errors else "error"
        ax.set(xlabel=self.step_name, ylabel=named, title=self.title or "Convergence")
        if self.step_name.startswith("step"):
            ax.xaxis.get_major_locator().set_params(integer=True)
        ax.grid(alpha=0.3)
        for axes in (ax, self.right_ax_):
            if axes is not None and axes.get_yscale() == "linear":
                axes.ticklabel_format(axis="y", style="plain", useOffset=False)
        if not only and self.right_ax_ is None:
            ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _steps(history: Sequence[Mapping[str, Any]], against: str | None) -> tuple[Array, str]:
    values = {name: np.array([_number(record.get(name)) for record in history]) for name in STEPS}
    if against is None:
        growing = [name for name in STEPS if len(history) > 1 and np.all(np.diff(values[name]) > 0)]
        against = growing[0] if growing else "step"
    if against == "step":
        return np.arange(1, len(history) + 1), "step"
    if against not in STEPS or np.isnan(values[against]).any():
        raise ValueError(f"against must be a field of every record ({', '.join(STEPS)}) or 'step'; got {against!r}.")
    return values[against], STEPS[against]


def _number(value: Any) -> float:
    return float("nan") if value is None else float(np.mean(value))


def front(x: Any, y: Any) -> Array:
    """Numbers of the points that no other beats: none is as low in both and lower in one; ordered by x.

    Examples
    --------
    >>> from kompakt.plots.curves import front
    >>> front([1, 2, 3, 2], [5, 3, 4, 6])
    array([0, 1])
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    finite = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    order = finite[np.lexsort((y[finite], x[finite]))]
    best = np.minimum.accumulate(np.concatenate([[np.inf], y[order]]))[:-1]
    return np.asarray(order[y[order] < best])


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
            members = drawn & (np.array(self.families) == family)
            style = {"color": colour(number), "marker": marker(number), "s": 42, "zorder": 2, **marker_options}
            self.points_[family] = ax.scatter(self.x[members], self.y[members], label=family, **style)
        if drawn.any() and 0 < 10 * self.x[drawn].min() < self.x[drawn].max():
            ax.set_xscale("log")
        ax.set(xlabel=self.x_name, ylabel=self.y_name)
        ax.grid(alpha=0.3)
        ax.legend(fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self
