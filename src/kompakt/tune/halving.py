"""Successive halving: many settings on little, few settings on much."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sklearn.exceptions import FitFailedWarning

from kompakt.progress import task

__all__ = ["HalvingRecord", "HalvingResult", "successive_halving"]


@dataclass(frozen=True)
class HalvingRecord:
    """One evaluation: which setting, in which round, with which resource, its value and time."""

    index: int
    rung: int
    resource: int
    value: float
    seconds: float


@dataclass(frozen=True)
class HalvingResult:
    """Result of successive halving.

    Attributes
    ----------
    setting : object
        The winner.
    index : int
        Its position in the list of settings.
    value : float
        Its value on the largest resource it was given.
    stopped : str
        "finished" or "deadline".
    resources : list of int
        Resource of each round.
    evaluations : list of HalvingRecord
        Every evaluation in order.
    """

    setting: Any
    index: int
    value: float
    stopped: str
    resources: list[int]
    evaluations: list[HalvingRecord] = field(repr=False)

    @property
    def n_failed(self) -> int:
        """Evaluations that gave NaN or an infinite value."""
        return sum(not math.isfinite(record.value) for record in self.evaluations)


def successive_halving(
    evaluate: Callable[[Any, int], float],
    settings: Sequence[Any],
    *,
    min_resource: int,
    max_resource: int,
    factor: float = 3.0,
    max_time: float | None = None,
    callback: Callable[[HalvingRecord], None] | None = None,
) -> HalvingResult:
    """Find the best of a list of settings, giving more of a resource to fewer and fewer of them.

    Parameters
    ----------
    evaluate : callable
        `evaluate(setting, resource) -> float`, to be minimised; resource is a number of rows, iterations, ...
    settings : sequence
        Candidates of any kind.
    min_resource, max_resource : int
        Resource of the first round at least, and of the last round.
    factor : float
        Each round keeps one in `factor` settings and gives them `factor` times the resource.
    max_time : float, optional
        Seconds after which no new evaluation starts.
    callback : callable, optional
        Called with each record.

    Returns
    -------
    HalvingResult
        The winner and every evaluation. Equal values go to the earlier setting.

    Examples
    --------
    >>> from kompakt.tune import successive_halving
    >>> noisy = lambda setting, resource: abs(setting - 7) + 1.0 / resource
    >>> result = successive_halving(noisy, range(9), min_resource=10, max_resource=90)
    >>> result.setting, result.resources, len(result.evaluations)
    (7, [10, 30, 90], 13)
    """
    _check(settings, min_resource, max_resource, factor, max_time)
    resources = _schedule(len(settings), min_resource, max_resource, factor)
    deadline = None if max_time is None else time.monotonic() + max_time
    records: list[HalvingRecord] = []
    alive = list(range(len(settings)))
    stopped = "finished"
    counts = _survivors(len(settings), len(resources), factor)
    work = float(sum(count * resource for count, resource in zip(counts, resources, strict=True)))
    with task("search", sum(counts), work=work) as step:
        for rung, resource in enumerate(resources):
            for index in alive:
                if deadline is not None and records and time.monotonic() >= deadline:
                    stopped = "deadline"
                    break
                started = time.perf_counter()
                value = float(evaluate(settings[index], resource))
                value = value if math.isfinite(value) else math.inf
                record = HalvingRecord(index, rung, resource, value, time.perf_counter() - started)
                records.append(record)
                if callback is not None:
                    callback(record)
                if step(float(resource)):  # a listener asks to stop, which is what a deadline does
                    stopped = "deadline"
                    break
            if stopped == "deadline":
                break
            alive = _kept(records, rung, alive, resource, factor)
    return _result(settings, records, resources, stopped)


def _survivors(n_settings: int, n_rounds: int, factor: float) -> list[int]:
    """How many settings each round tries."""
    counts = [n_settings]
    for _ in range(n_rounds - 1):
        counts.append(max(1, math.ceil(counts[-1] / factor)))
    return counts


def _kept(records: list[HalvingRecord], rung: int, alive: list[int], resource: int, factor: float) -> list[int]:
    """The best of a round."""
    ranked = sorted(
        (record for record in records if record.rung == rung and math.isfinite(record.value)),
        key=lambda record: (record.value, record.index),
    )
    if not ranked:
        raise ValueError(
            f"All {len(alive)} settings of round {rung} (resource {resource}) gave NaN or infinite values; "
            "check the data, the settings, or raise min_resource."
        )
    return [record.index for record in ranked[: max(1, math.ceil(len(alive) / factor))]]


def _check(
    settings: Sequence[Any], min_resource: int, max_resource: int, factor: float, max_time: float | None
) -> None:
    if len(settings) == 0:
        raise ValueError("Successive halving needs at least one setting, got none.")
    if not 1 <= min_resource <= max_resource:
        raise ValueError(
            f"Resources must satisfy 1 <= min_resource <= max_resource, got {min_resource}, {max_resource}."
        )
    if not factor > 1:
        raise ValueError(f"factor must be greater than 1, got {factor}.")
    if max_time is not None and not max_time > 0:
        raise ValueError(f"max_time must be a positive number of seconds or None, got {max_time}.")


def _schedule(n_settings: int, min_resource: int, max_resource: int, factor: float) -> list[int]:
    """Resources that end at max_resource; no more rounds than it takes to come down to one setting."""
    slack = 1e-9  # log(90 / 10, 3) is 2 up to rounding
    rounds_of_settings = math.ceil(math.log(n_settings, factor) - slack)
    rounds_of_resource = math.floor(math.log(max_resource / min_resource, factor) + slack)
    last = max(0, min(rounds_of_settings, rounds_of_resource))
    return [max(min_resource, round(max_resource / factor ** (last - rung))) for rung in range(last + 1)]


def _result(settings: Sequence[Any], records: list[HalvingRecord], resources: list[int], stopped: str) -> HalvingResult:
    """Best value of the last round that has one: values of different resources are not comparable."""
    finite = [record for record in records if math.isfinite(record.value)]
    if not finite:
        raise ValueError(f"All {len(records)} evaluations before the deadline gave NaN or infinite values.")
    last = max(record.rung for record in finite)
    # A round cut short has not seen all its settings; the round before ranked them all.
    complete = stopped == "finished" or last == 0
    rung = last if complete else last - 1
    best = min((record for record in finite if record.rung == rung), key=lambda record: (record.value, record.index))
    n_failed = len(records) - len(finite)
    if n_failed:
        warnings.warn(
            f"{n_failed} of {len(records)} evaluations of the search gave NaN or infinite values and were passed over.",
            FitFailedWarning,
            stacklevel=3,
        )
    return HalvingResult(settings[best.index], best.index, best.value, stopped, resources, records)
