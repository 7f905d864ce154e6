"""How a fit came about: what it recorded along its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kompakt.plots._style import axes_or_new, colour, marker

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


class ConvergenceDisplay:
    """Objective or error along the steps of a fit, in scikit-learn's display convention.

    Parameters
    ----------
    steps : array of shape (n_steps,)
    curves : dict of str to array of shape (n_steps,)
        One line each; NaN where a step did not measure it.
    step_name : str
        Label of the horizontal axis.
    step_labels : dict of float to str, optional
        Names of steps, written at the axis instead of numbers.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : dict of str to matplotlib Line2D

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import SpSVC
    >>> from kompakt.plots import ConvergenceDisplay
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> machine = SpSVC(n_basis=15, random_state=0).fit(X, y)
    >>> display = ConvergenceDisplay.from_estimator(machine)
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
    ('basis vectors', 'objective')
    """

    def __init__(
        self,
        steps: Any,
        curves: Mapping[str, Any],
        *,
        step_name: str = "step",
        step_labels: Mapping[float, str] | None = None,
    ) -> None:
        self.steps = np.asarray(steps, dtype=float)
        self.curves = {name: np.asarray(values, dtype=float) for name, values in curves.items()}
        self.step_name = step_name
        self.step_labels = step_labels
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
            Fields of the records to draw; without it the objective, or else the errors that were recorded.
        against : {"n_basis", "n_train", "time", "step"}, optional
            The horizontal axis; without it the number of basis vectors where it grows, else the phases of the fit
            by name, or seconds, or steps.
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
        if sizes and quantity is None:  # a path of sizes tells more than the phases of the last fit
            history = sizes
        elif quantity is None and against is None and any("objective_before" in record for record in history):
            return cls._of_phases(history).plot(ax=ax, **line_options)
        wanted = _chosen(history, quantity)
        history = [record for record in history if any(record.get(name) is not None for name in wanted)]
        steps, name = _steps(history, against)
        curves: dict[str, Array] = {}
        for key in wanted:
            curves[QUANTITIES.get(key, key)] = np.array([_number(record.get(key)) for record in history])
        return cls(steps, curves, step_name=name).plot(ax=ax, **line_options)

    @classmethod
    def _of_phases(cls, history: Sequence[Mapping[str, Any]]) -> ConvergenceDisplay:
        """Phases by name; a refinement goes down on its own rows, so it is a line of its own."""
        records = [record for record in history if record.get("objective") is not None]
        steps: list[float] = []
        curves: dict[str, list[float]] = {"objective": [], "while refining, on the rows trained on": []}
        all_rows, refining = curves.values()
        for number, record in enumerate(records):
            if "objective_before" in record:
                steps += [number - 0.4, number + 0.4]
                all_rows += [float("nan")] * 2
                refining += [_number(record["objective_before"]), _number(record["objective"])]
            else:
                steps.append(number)
                all_rows.append(_number(record["objective"]))
                refining.append(float("nan"))
        labels = {float(number): str(record.get("phase", number)) for number, record in enumerate(records)}
        return cls(steps, curves, step_name="phase", step_labels=labels)

    @classmethod
    def from_predictions(
        cls, steps: Any, values: Any, *, name: str = "objective", ax: Any = None, **line_options: Any
    ) -> ConvergenceDisplay:
        """Draw given values, one line called `name`."""
        return cls(steps, {name: values}).plot(ax=ax, **line_options)

    def plot(self, ax: Any = None, **line_options: Any) -> ConvergenceDisplay:
        """Draw into `ax`, or into a new figure."""
        ax = axes_or_new(ax)
        self.lines_ = {}
        for number, (name, values) in enumerate(self.curves.items()):
            known = np.isfinite(values)
            style = {"color": colour(number), "marker": marker(number), "markersize": 4, **line_options}
            (self.lines_[name],) = ax.plot(self.steps[known], values[known], label=name, **style)
        drawn = np.concatenate([values[np.isfinite(values)] for values in self.curves.values()])
        errors = any("error" in name for name in self.curves)
        if len(drawn) and drawn.min() > 0 and drawn.max() > 20 * drawn.min() and not errors:
            ax.set_yscale("log")
        elif errors:
            ax.set_ylim(bottom=0.0)
        if self.step_labels is not None:
            ax.set_xticks(list(self.step_labels), list(self.step_labels.values()))
        only = len(self.curves) == 1
        ax.set(xlabel=self.step_name, ylabel=next(iter(self.curves)) if only or not errors else "error")
        ax.grid(alpha=0.3)
        if not only:
            ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _chosen(history: Sequence[Mapping[str, Any]], quantity: str | Sequence[str] | None) -> list[str]:
    """Fields to draw: the asked ones, or the objective alone, or every error there is."""
    present = {key for record in history for key, value in record.items() if value is not None}
    if quantity is not None:
        wanted = [quantity] if isinstance(quantity, str) else list(quantity)
        missing = [name for name in wanted if name not in present]
        if missing:
            raise ValueError(f"history_ records no {missing[0]!r}; it has {', '.join(sorted(present))}.")
        return wanted
    if "objective" in present:
        return ["objective"]
    wanted = [name for name in QUANTITIES if name in present]
    if not wanted:
        raise ValueError(f"history_ records nothing that can be drawn; it has {', '.join(sorted(present))}.")
    return wanted


def _steps(history: Sequence[Mapping[str, Any]], against: str | None) -> tuple[Array, str]:
    if against is not None and against != "step":
        if against not in STEPS or any(against not in record for record in history):
            raise ValueError(
                f"against must be a field of every record ({', '.join(STEPS)}) or 'step'; got {against!r}."
            )
        return np.array([float(record[against]) for record in history]), STEPS[against]
    if against is None:
        for name, label in STEPS.items():
            values = [record.get(name) for record in history]
            if all(value is not None for value in values) and len(values) > 1:
                numbers = np.array(values, dtype=float)
                if np.all(np.diff(numbers) > 0):
                    return numbers, label
    return np.arange(1, len(history) + 1), "step"


def _number(value: Any) -> float:
    return float("nan") if value is None else float(np.mean(value))
