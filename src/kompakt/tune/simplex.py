"""Nelder-Mead from SciPy inside a box, with a budget of evaluations (seed 002, section 6.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from kompakt.tune.record import Callback, Evaluate, Recorder, SearchResult, SearchStopped
from kompakt.tune.space import Space, reflected

__all__ = ["simplex_search"]

WALLS = ("reflect", "clip")


def simplex_search(
    evaluate: Evaluate,
    space: Space,
    start: ArrayLike,
    *,
    n_evaluations: int = 70,
    edge: float = 0.1,
    tol: float = 1e-4,
    walls: str = "reflect",
    max_time: float | None = None,
    callback: Callback | None = None,
) -> SearchResult:
    """Minimise by the simplex method of Nelder and Mead, started at a point.

    Parameters
    ----------
    evaluate : callable
        Function of natural values (n_axes,) to be minimised.
    space : Space
        The box.
    start : array of shape (n_axes,)
        Natural values of the first corner.
    n_evaluations : int
        Budget.
    edge : float
        Edges of the first simplex, as a share of each axis of the box.
    tol : float
        Stop when the simplex is smaller than this share of the box in every direction.
    walls : {"reflect", "clip"}
        What becomes of a corner outside the box: mirrored back, or moved onto the wall. A clipped simplex may
        lose a dimension, so mirroring is the default.
    max_time : float, optional
        Seconds after which no new evaluation starts.
    callback : callable, optional
        Called with each evaluation.

    Returns
    -------
    SearchResult
        Best point and all evaluations.

    Examples
    --------
    >>> from kompakt.tune import Space, simplex_search
    >>> space = Space.of({"x": (-2.0, 2.0), "y": (-2.0, 2.0)})
    >>> result = simplex_search(lambda p: (p[0] - 1) ** 2 + p[1] ** 2, space, [0.0, 0.5])
    >>> result.point.round(2).tolist()
    [1.0, 0.0]
    """
    recorder = Recorder(evaluate, space, max_time, callback)
    first = space.unit(start)
    return recorder.result(run_simplex(recorder, first, n_evaluations=n_evaluations, edge=edge, tol=tol, walls=walls))


def run_simplex(
    recorder: Recorder,
    start: NDArray[np.float64],
    *,
    n_evaluations: int,
    edge: float = 0.1,
    tol: float = 1e-4,
    walls: str = "reflect",
    start_value: float | None = None,
) -> str:
    """Nelder-Mead on a recorder, in unit coordinates; returns why it stopped.

    A known value of the start is not evaluated again.
    """
    if walls not in WALLS:
        raise ValueError(f"Unknown walls {walls!r}; choose from {', '.join(map(repr, WALLS))}.")
    if not 0 < edge <= 0.5:
        raise ValueError(f"edge must lie in (0, 0.5], got {edge}.")
    recorder.begin("simplex", n_evaluations)
    known = {start.tobytes(): start_value} if start_value is not None else {}

    def value(unit: NDArray[np.float64]) -> float:
        if unit.tobytes() in known:
            return float(known[unit.tobytes()])
        found = recorder(reflected(unit) if walls == "reflect" else np.clip(unit, 0.0, 1.0))
        # SciPy compares differences of corner values, and inf - inf is NaN: keep failures finite but worst.
        return min(found, float(np.finfo(np.float64).max))

    # Corners towards the inside, so that the first simplex lies in the box.
    steps = np.where(start + edge <= 1.0, edge, -edge)
    corners = np.vstack([start, start + np.diag(steps)])
    options = {"maxfev": 10 * n_evaluations, "xatol": tol, "fatol": np.inf, "initial_simplex": corners}
    try:
        minimize(value, start, method="Nelder-Mead", options=options)
    except SearchStopped as reason:
        return str(reason)
    return "converged"
