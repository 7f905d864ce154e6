"""How good predictions are, in the words of LIBSVM's tools."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kompakt.model import Model

Array = np.ndarray

#: labels shown as examples
_SHOWN = 5


@dataclass(frozen=True)
class Measures:
    """Counts and sums that add up over parts of a file."""

    task: str
    n: int = 0
    n_right: int = 0
    squares: float = 0.0  # sum of squared errors
    total: float = 0.0  # sum of the targets
    total_squares: float = 0.0
    n_unknown: int = 0  # targets that are no labels of the model
    unknown: tuple[str, ...] = ()  # a few of them

    @classmethod
    def of(cls, task: str, truth: Array, predicted: Array) -> Measures:
        """Measures of some rows.

        Examples
        --------
        >>> import numpy as np
        >>> from kompakt.cli.measure import Measures
        >>> print(Measures.of("classify", np.array([1, 2, 2]), np.array([1, 2, 1])))
        accuracy 66.6667 % (2 of 3)
        """
        if task == "classify":
            return cls(task, len(truth), int(np.sum(truth == predicted)))
        t, p = np.asarray(truth, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
        return cls(task, len(t), 0, float(np.sum((t - p) ** 2)), float(np.sum(t)), float(np.sum(t**2)))

    def __add__(self, other: Measures) -> Measures:
        return Measures(
            self.task, self.n + other.n, self.n_right + other.n_right, self.squares + other.squares,
            self.total + other.total, self.total_squares + other.total_squares, self.n_unknown + other.n_unknown,
            tuple(dict.fromkeys(self.unknown + other.unknown))[:_SHOWN],
        )  # fmt: skip

    @property
    def r2(self) -> float | None:
        """Share of the targets' variance that is explained; None where they do not vary."""
        spread = self.total_squares - self.total**2 / max(1, self.n)
        return 1.0 - self.squares / spread if spread > 0 else None

    @property
    def facts(self) -> dict[str, Any]:
        """For JSON."""
        if self.task == "classify":
            share = self.n_right / max(1, self.n)
            return {"n": self.n, "right": self.n_right, "accuracy": share, "unknown_labels": self.n_unknown}
        return {"n": self.n, "mean_squared_error": self.squares / max(1, self.n), "r2": self.r2}

    def __str__(self) -> str:
        if self.task == "classify":
            return f"accuracy {100 * self.n_right / max(1, self.n):.6g} % ({self.n_right} of {self.n})"
        r2 = "" if self.r2 is None else f", R2 {self.r2:.4f}"
        return f"mean squared error {self.squares / max(1, self.n):.6g}{r2} ({self.n} rows)"


def comparable(truth: Array, model: Model) -> Array:
    """Targets of a file in the type of the model's labels: a column of numbers may stand for words and the reverse."""
    if model.kind != "classifier" or model.classes is None:
        return truth
    words = model.classes.dtype.kind in "US"
    if words and truth.dtype.kind not in "US":
        return np.array([f"{value:g}" for value in truth.tolist()])
    if not words and truth.dtype.kind in "US":
        try:
            return truth.astype(np.float64)
        except ValueError:
            return np.full(len(truth), np.nan)
    return truth


def measures(model: Model, X: Any, truth: Array, predicted: Array | None = None) -> Measures:
    """Measures of a model on rows; rows without a target do not count."""
    from kompakt.cli.prepare import missing_targets

    predicted = model.predict(X) if predicted is None else predicted
    known = ~missing_targets(truth)
    task = "regress" if model.kind == "regressor" else "classify"
    same_type = comparable(truth[known], model)
    found = Measures.of(task, same_type, predicted[known])
    if model.kind != "classifier":
        return found
    other = ~np.isin(same_type, np.asarray(model.classes_))
    examples = tuple(str(label) for label in np.unique(truth[known][other])[:_SHOWN].tolist())
    return replace(found, n_unknown=int(other.sum()), unknown=examples)
