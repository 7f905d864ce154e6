"""Searches made of parts: explore the box, then refine the best point by the simplex method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kompakt.tune.annealing import run_annealing
from kompakt.tune.grid import grid_search, run_random
from kompakt.tune.record import Callback, Evaluate, Recorder, SearchResult
from kompakt.tune.simplex import run_simplex
from kompakt.tune.space import Space

__all__ = ["SEARCHES", "anneal_then_simplex", "random_then_simplex", "search"]


def anneal_then_simplex(
    evaluate: Evaluate,
    space: Space,
    *,
    n_anneal: int = 90,
    n_simplex: int = 70,
    n_starters: int = 5,
    acceptance: str = "coupled",
    step: float = 0.5,
    foresight: int = 4,
    edge: float = 0.1,
    tol: float = 1e-4,
    random_state: Any = None,
    max_time: float | None = None,
    callback: Callback | None = None,
) -> SearchResult:
    """Coupled simulated annealing, then Nelder-Mead from the best point found (seed 002, section 6.3).

    Parameters
    ----------
    evaluate : callable
        Function of natural values (n_axes,) to be minimised.
    space : Space
        The box.
    n_anneal, n_simplex : int
        Evaluations of the two phases.
    n_starters, acceptance, step, foresight
        As for `anneal`.
    edge, tol
        As for `simplex_search`.
    random_state : int, RandomState or None
        Seed; the same seed gives the same points.
    max_time : float, optional
        Seconds after which no new evaluation starts.
    callback : callable, optional
        Called with each evaluation.

    Returns
    -------
    SearchResult
        Best point and all evaluations of both phases.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.tune import Space, anneal_then_simplex
    >>> space = Space.of({"C": (1e-3, 1e5, "log"), "gamma": (1e-4, 1e2, "log")})
    >>> valley = lambda p: (np.log10(p[0]) - 2) ** 2 + (np.log10(p[1]) + 1) ** 2
    >>> result = anneal_then_simplex(valley, space, random_state=0)
    >>> np.log10(result.point).round(2).tolist()
    [2.0, -1.0]
    """
    recorder = Recorder(evaluate, space, max_time, callback)
    stopped = run_annealing(
        recorder,
        n_evaluations=n_anneal,
        n_starters=n_starters,
        acceptance=acceptance,
        step=step,
        foresight=foresight,
        random_state=random_state,
    )
    return recorder.result(_refined(recorder, stopped, n_simplex, edge, tol))


def random_then_simplex(
    evaluate: Evaluate,
    space: Space,
    *,
    n_random: int = 90,
    n_simplex: int = 70,
    edge: float = 0.1,
    tol: float = 1e-4,
    random_state: Any = None,
    max_time: float | None = None,
    callback: Callback | None = None,
) -> SearchResult:
    """Random search, then Nelder-Mead from the best point found; arguments as for `anneal_then_simplex`.

    Examples
    --------
    >>> from kompakt.tune import Space, random_then_simplex
    >>> result = random_then_simplex(lambda p: (p[0] - 0.3) ** 2, Space.of({"x": (0.0, 1.0)}), random_state=0)
    >>> result.point.round(3).tolist()
    [0.3]
    """
    recorder = Recorder(evaluate, space, max_time, callback)
    stopped = run_random(recorder, n_random, random_state)
    return recorder.result(_refined(recorder, stopped, n_simplex, edge, tol))


def _refined(recorder: Recorder, stopped: str, n_simplex: int, edge: float, tol: float) -> str:
    """Simplex phase, unless time is up, there is no budget for it, or no point to start from."""
    if stopped == "deadline" or recorder.best is None or n_simplex == 0:
        return stopped
    return run_simplex(
        recorder,
        recorder.best,
        n_evaluations=n_simplex,
        edge=edge,
        tol=tol,
        start_value=recorder.best_value,
    )


SEARCHES: dict[str, Callable[..., SearchResult]] = {
    "anneal": anneal_then_simplex,
    "grid": grid_search,
    "random": random_then_simplex,
}


def search(evaluate: Evaluate, space: Space, strategy: str = "anneal", **options: Any) -> SearchResult:
    """Minimise by the search of this name.

    Parameters
    ----------
    evaluate : callable
        Function of natural values (n_axes,) to be minimised.
    space : Space
        The box.
    strategy : {"anneal", "grid", "random"}
        Annealing then simplex, grid, or random points then simplex.
    **options
        Arguments of `anneal_then_simplex`, `grid_search` or `random_then_simplex`.

    Returns
    -------
    SearchResult
        Best point and all evaluations.

    Examples
    --------
    >>> from kompakt.tune import Space, search
    >>> float(search(lambda p: p[0] ** 2, Space.of({"x": (-1.0, 1.0)}), "grid", n_points=5).value)
    0.0
    """
    if strategy not in SEARCHES:
        raise ValueError(f"Unknown search {strategy!r}; choose from {', '.join(map(repr, sorted(SEARCHES)))}.")
    return SEARCHES[strategy](evaluate, space, **options)
