"""What a growing machine is judged by: errors of several machines at once, from their predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kompakt.codings import get_coding

Array = np.ndarray


class Judge(Protocol):
    """Errors of several machines from their predictions (k, L, n): what is minimised, and what breaks ties."""

    def errors(self, F: Array) -> tuple[Array, Array]:
        """Error and mean shortfall of the margin, (k,) each."""
        ...


@dataclass(frozen=True)
class ClassJudge:
    """Weighted share of wrong labels; ties go to the smaller mean shortfall max(0, 1 - y f).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.judges import ClassJudge
    >>> judge = ClassJudge(np.array([0, 1]), np.array([[-1.0, 1.0]]), np.ones(2), 2)
    >>> [part.tolist() for part in judge.errors(np.array([[[-1.0, 0.5]], [[0.5, 2.0]]]))]
    [[0.0, 0.5], [0.25, 0.75]]
    """

    labels: Array  # (n,) class indices
    targets: Array  # (L, n)
    weights: Array  # (n,)
    n_classes: int
    coding: str = "one_vs_rest"

    def errors(self, F: Array) -> tuple[Array, Array]:
        """Error and mean shortfall of every machine."""
        share = self.weights / self.weights.sum()
        if self.n_classes == 2:
            scores = F[:, 0]
            wrong = (scores > 0.0) != (self.labels == 1)
            return wrong @ share, np.maximum(0.0, 1.0 - self.targets[0] * scores) @ share
        coding = get_coding(self.coding)
        wrong = np.stack([coding.decode(scores.T, self.n_classes) != self.labels for scores in F])
        short = np.where(self.targets != 0.0, np.maximum(0.0, 1.0 - self.targets * F), 0.0)
        return wrong @ share, np.mean(short, axis=1) @ share


@dataclass(frozen=True)
class ValueJudge:
    """Weighted mean squared error over rows and outputs."""

    targets: Array  # (L, n)
    weights: Array  # (n,)

    def errors(self, F: Array) -> tuple[Array, Array]:
        """Mean squared error; nothing breaks ties but the order of the candidates."""
        share = self.weights / self.weights.sum()
        squares = np.mean(np.square(F - self.targets), axis=1) @ share
        return squares, np.zeros(len(F))
