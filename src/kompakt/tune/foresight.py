"""Which of several candidate points is worth an evaluation, judged by all evaluations made so far.

Not in seed 002. An evaluation here is a cross-validation, so a little arithmetic to choose the next one is free.
A smooth function through the known values (cubic radial basis functions with a linear part, which has no width
to choose) predicts the candidates; the distance to the nearest known point keeps the search from
crowding. Bad values are cut off at the median, so that cliffs do not bend the prediction near the valleys.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

__all__ = ["most_promising"]

FloatArray = NDArray[np.float64]
# The system to solve has one unknown per known point: older ones are left out beyond this many.
MAX_KNOWN = 300


def most_promising(candidates: FloatArray, points: FloatArray, values: FloatArray, trust: float = 0.5) -> FloatArray:
    """One candidate per searcher.

    Parameters
    ----------
    candidates : ndarray of shape (n_searchers, n_candidates, n_axes)
        Points to choose from, in the unit cube.
    points, values : ndarray of shape (n, n_axes), (n,)
        Evaluations so far; an infinite value is a failure.
    trust : float
        Weight of the prediction; the rest is the weight of the distance to what is known.

    Returns
    -------
    ndarray of shape (n_searchers, n_axes)
        The chosen points.
    """
    points, values = points[-MAX_KNOWN:], values[-MAX_KNOWN:]
    n_searchers, n_candidates, n_axes = candidates.shape
    flat = candidates.reshape(-1, n_axes)
    predicted = _interpolated(flat, points, values).reshape(n_searchers, n_candidates)
    free = cdist(flat, points).min(axis=1).reshape(n_searchers, n_candidates)
    chosen = np.empty((n_searchers, n_axes))
    for i in range(n_searchers):
        if i:  # the points chosen in this round count as known
            free[i] = np.minimum(free[i], cdist(candidates[i], chosen[:i]).min(axis=1))
        merit = trust * _scaled(predicted[i]) - (1.0 - trust) * _scaled(free[i])
        chosen[i] = candidates[i, np.argmin(merit)]
    return chosen


def _scaled(values: FloatArray) -> FloatArray:
    span = np.ptp(values)
    return (values - values.min()) / span if span > 0 else np.zeros_like(values)


def _interpolated(at: FloatArray, points: FloatArray, values: FloatArray) -> FloatArray:
    """Cubic radial basis interpolation; all zero (no opinion) where there is nothing to go by."""
    finite = np.isfinite(values)
    n, n_axes = points.shape
    if finite.sum() < 2 or n < n_axes + 2:
        return np.zeros(len(at))
    cut = np.median(values[finite])
    heights = np.minimum(np.where(finite, values, cut), cut)
    span = np.ptp(heights)
    if span == 0:
        return np.zeros(len(at))
    tail = np.column_stack([np.ones(n), points])
    system = np.zeros((n + n_axes + 1,) * 2)
    system[:n, :n] = cdist(points, points) ** 3
    system[:n, :n].flat[:: n + 1] += 1e-9  # points visited twice
    system[:n, n:] = tail
    system[n:, :n] = tail.T
    right = np.concatenate([(heights - cut) / span, np.zeros(n_axes + 1)])
    try:
        weights = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:  # all points on one line: let the distances decide
        return np.zeros(len(at))
    return cdist(at, points) ** 3 @ weights[:n] + np.column_stack([np.ones(len(at)), at]) @ weights[n:]
