"""What every search shares: counting, timing and recording evaluations, budgets, deadlines, failures."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import FitFailedWarning

from kompakt.progress import Task, task
from kompakt.tune.space import Space

__all__ = ["Evaluation", "Recorder", "SearchResult", "SearchStopped"]

FloatArray = NDArray[np.float64]
Evaluate = Callable[[FloatArray], float]
Callback = Callable[["Evaluation"], None]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evaluation:
    """One evaluation: its number from 0, point (natural values), value (inf when it failed), time, phase."""

    number: int
    point: FloatArray
    value: float
    seconds: float
    phase: str
    failed: bool = False


@dataclass(frozen=True)
class SearchResult:
    """Result of a search.

    Attributes
    ----------
    point : ndarray of shape (n_axes,)
        Best point, natural values.
    value : float
        Its value.
    stopped : str
        Why the search ended: "budget" (all evaluations used), "converged" or "deadline".
    evaluations : list of Evaluation
        Every evaluation in order.
    """

    point: FloatArray
    value: float
    stopped: str
    evaluations: list[Evaluation] = field(repr=False)

    @property
    def n_evaluations(self) -> int:
        """Number of evaluations."""
        return len(self.evaluations)

    @property
    def n_failed(self) -> int:
        """Evaluations that gave NaN or an infinite value."""
        return sum(evaluation.failed for evaluation in self.evaluations)


class SearchStopped(Exception):
    """The budget or the time is used up: a signal between the parts, which never leaves this package."""


class Recorder:
    """Hands points of the unit cube to `evaluate` in natural values and remembers what came back.

    Parameters
    ----------
    evaluate : callable
        Function to be minimised, of natural values (n_axes,). NaN and infinite values count as failures: they
        are recorded, take part as the worst value there is, and are reported in a warning at the end.
    space : Space
        The box.
    max_time : float, optional
        Seconds after which no new evaluation starts.
    callback : callable, optional
        Called with each `Evaluation`; it may show progress.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        space: Space,
        max_time: float | None = None,
        callback: Callback | None = None,
    ) -> None:
        if max_time is not None and not max_time > 0:
            raise ValueError(f"max_time must be a positive number of seconds or None, got {max_time}.")
        self.space = space
        self.evaluations: list[Evaluation] = []
        self.visited: list[FloatArray] = []  # unit coordinates, like `best`
        self.best: FloatArray | None = None
        self.best_value = np.inf
        self._evaluate = evaluate
        self._callback = callback
        self._deadline = None if max_time is None else time.monotonic() + max_time
        self._limit: int | None = None
        self._phase = "search"
        self._task: Task | None = None

    def begin(self, phase: str, n_evaluations: int) -> None:
        """Start a phase that may use this many further evaluations."""
        if n_evaluations < 1:
            raise ValueError(f"A search needs at least 1 evaluation, got {n_evaluations}.")
        self._phase = phase
        self._limit = len(self.evaluations) + n_evaluations
        self._close()
        self._task = task(f"search ({phase})", n_evaluations).__enter__()

    def _close(self) -> None:
        """No more of this phase."""
        if self._task is not None:
            self._task.__exit__(None, None, None)
            self._task = None

    @property
    def left(self) -> int:
        """Evaluations left in this phase."""
        return 0 if self._limit is None else self._limit - len(self.evaluations)

    def __call__(self, unit: FloatArray) -> float:
        """Value at a point of the unit cube, inf for a failure."""
        if self.left <= 0:
            raise SearchStopped("budget")
        # The first evaluation is always made, so that there is a result.
        if self._deadline is not None and self.evaluations and time.monotonic() >= self._deadline:
            raise SearchStopped("deadline")
        point = self.space.natural(unit)
        started = time.perf_counter()
        value = float(self._evaluate(point.copy()))
        failed = not np.isfinite(value)
        value = np.inf if failed else value
        record = Evaluation(len(self.evaluations), point, value, time.perf_counter() - started, self._phase, failed)
        self.evaluations.append(record)
        self.visited.append(np.array(unit, dtype=np.float64))
        if value < self.best_value:
            self.best, self.best_value = self.visited[-1], value
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s %d: %s -> %g", record.phase, record.number, self.space.as_dict(point), value)
        if self._callback is not None:
            self._callback(record)
        if self._task is not None and self._task():
            raise SearchStopped("deadline")  # a listener asks to stop, which is what a deadline does
        return value

    def known(self) -> tuple[FloatArray, FloatArray]:
        """Points of the unit cube evaluated so far (n, n_axes) and their values (n,)."""
        return np.array(self.visited), np.array([record.value for record in self.evaluations])

    def result(self, stopped: str) -> SearchResult:
        """Result so far; warns when evaluations failed and raises when all did."""
        self._close()
        n_failed = sum(record.failed for record in self.evaluations)
        if self.best is None:
            raise ValueError(
                f"All {n_failed} evaluations of the search gave NaN or infinite values, the first at "
                f"{self.space.as_dict(self.evaluations[0].point)}. Check the data or move the box."
            )
        if n_failed:
            warnings.warn(
                f"{n_failed} of {len(self.evaluations)} evaluations of the search gave NaN or infinite values "
                "and were passed over.",
                FitFailedWarning,
                stacklevel=3,
            )
        return SearchResult(self.space.natural(self.best), self.best_value, stopped, self.evaluations)
