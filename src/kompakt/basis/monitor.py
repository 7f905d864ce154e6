"""Errors of a growing machine on its training rows and on rows that are held out, and when to stop for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kompakt.basis.machine import GrowingMachine

Array = np.ndarray


@dataclass(frozen=True)
class Monitor:
    """Training and validation errors after every step.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        True class numbers.
    decide : callable
        Class numbers from raw outputs (n, L).
    weights : ndarray of shape (n,), optional
    held : ndarray, optional
        Numbers of the rows that are held out.
    patience : int
        Steps without a lower validation error after which growth stops.
    """

    labels: Array
    decide: Callable[[Array], Array]
    weights: Array | None = None
    held: Array | None = None
    patience: int = 20

    def __call__(self, machine: GrowingMachine) -> dict[str, float]:
        """Errors of the machine as it stands; rows that were shrunk away are far on the right side."""
        weight = np.ones(len(self.labels)) if self.weights is None else self.weights
        held = np.zeros(len(self.labels), dtype=bool)
        if self.held is not None:
            held[self.held] = True
        live = slice(None) if machine.live is None else machine.live
        wrong = weight[live] * (self.decide(machine.f) != self.labels[live])
        errors = {"train_error": float(wrong[~held[live]].sum() / weight[~held].sum())}
        if self.held is not None:
            errors["validation_error"] = float(wrong[held[live]].sum() / weight[held].sum())
        return errors

    def enough(self, records: list[dict[str, Any]]) -> bool:
        """Whether the validation error has not fallen for `patience` steps."""
        errors = [record["validation_error"] for record in records]
        return len(errors) - 1 - int(np.argmin(errors)) >= self.patience
