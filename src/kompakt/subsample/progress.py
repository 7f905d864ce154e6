"""Seconds per phase, and trying again while the validation error falls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Clock:
    """Seconds of named phases, added up.

    Examples
    --------
    >>> from kompakt.subsample.progress import Clock
    >>> clock = Clock()
    >>> with clock.phase("fits"):
    ...     pass
    >>> list(clock.seconds)
    ['fits']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time inside the context for phase `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def best_while_improving(steps: Iterable[T], error: Callable[[T], float], tol: float = 0.0, patience: int = 1) -> T:
    """Take steps until the error has not improved `patience` times running; the step with the smallest error.

    A step improves if its error is below the best so far by more than `tol` times it.

    Examples
    --------
    >>> from kompakt.subsample.progress import best_while_improving
    >>> best_while_improving(iter([5, 3, 4, 1]), float)
    3
    """
    best: T | None = None
    least = float("inf")
    waited = 0
    for step in steps:
        value = error(step)
        improved = best is None or value < least * (1.0 - tol)
        if best is None or value < least:
            best, least = step, value
        waited = 0 if improved else waited + 1
        if waited >= patience:
            break
    if best is None:
        raise ValueError("there was no step to take.")
    return best
