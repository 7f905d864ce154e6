"""Grid and random search."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from kompakt.tune.record import Callback, Evaluate, Recorder, SearchResult, SearchStopped
from kompakt.tune.space import Space

__all__ = ["grid_search", "random_search"]


def grid_search(
    evaluate: Evaluate,
    space: Space,
    n_points: int | Sequence[int] = 10,
    *,
    max_time: float | None = None,
    callback: Callback | None = None,
) -> SearchResult:
    """Evaluate every point of a grid that is even on each axis (on its logarithm where the axis has one).

    Parameters
    ----------
    evaluate : callable
        Function of natural values (n_axes,) to be minimised.
    space : Space
        The box.
    n_points : int or sequence of int
        Points per axis, ends included; a single point stands in the middle of its axis.
    max_time : float, optional
        Seconds after which no new evaluation starts.
    callback : callable, optional
        Called with each evaluation.

    Returns
    -------
    SearchResult
        Best point and all evaluations; the first of equal values wins.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.tune import Space, grid_search
    >>> space = Space.of({"C": (1e-3, 1e3, "log")})
    >>> grid_search(lambda p: abs(np.log10(p[0]) - 1), space, 7).point.round(9).tolist()
    [10.0]
    """
    counts = [n_points] * space.n_axes if isinstance(n_points, (int, np.integer)) else list(n_points)
    if len(counts) != space.n_axes or min(counts) < 1:
        raise ValueError(f"n_points must be one count >= 1 per axis ({space.n_axes}), got {n_points}.")
    recorder = Recorder(evaluate, space, max_time, callback)
    recorder.begin("grid", int(np.prod(counts)))
    axes = [np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5]) for count in counts]
    stopped = "budget"
    try:
        for point in product(*axes):
            recorder(np.array(point))
    except SearchStopped as reason:
        stopped = str(reason)
    return recorder.result(stopped)


def random_search(
    evaluate: Evaluate,
    space: Space,
    *,
    n_evaluations: int = 90,
    random_state: Any = None,
    max_time: float | None = None,
    callback: Callback | None = None,
) -> SearchResult:
    """Evaluate independent uniform points of the box (uniform in the logarithm where an axis has one).

    Parameters
    ----------
    evaluate, space, max_time, callback
        As for `grid_search`.
    n_evaluations : int
        Number of points.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    SearchResult
        Best point and all evaluations.

    Examples
    --------
    >>> from kompakt.tune import Space, random_search
    >>> result = random_search(lambda p: p[0] ** 2, Space.of({"x": (-1.0, 1.0)}), random_state=0)
    >>> result.n_evaluations, bool(result.value < 0.01)
    (90, True)
    """
    recorder = Recorder(evaluate, space, max_time, callback)
    return recorder.result(run_random(recorder, n_evaluations, random_state))


def run_random(recorder: Recorder, n_evaluations: int, random_state: Any) -> str:
    """Random search on a recorder; returns why it stopped."""
    rng = check_random_state(random_state)
    recorder.begin("random", n_evaluations)
    try:
        for point in rng.uniform(size=(n_evaluations, recorder.space.n_axes)):
            recorder(point)
    except SearchStopped as reason:
        return str(reason)
    return "budget"
