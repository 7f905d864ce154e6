"""Minimising a convex function along a line, from values held per row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def exact_step(slope: Callable[[float], tuple[float, float]], *, upper: float = 1.0, max_steps: int = 60) -> float:
    """Root of an increasing, piecewise linear `slope(t) -> (value, derivative)` with slope(0) < 0.

    Newton's method inside a bracket: on a piecewise linear function it ends at the exact root; a step that leaves the
    bracket is replaced by bisection.  The bracket grows when the root lies beyond `upper`.
    """
    start, _ = slope(0.0)
    if not start < 0.0:
        return 0.0
    low, high = 0.0, upper
    value, derivative = slope(high)
    for _ in range(60):
        if value >= 0.0:
            break
        low, high = high, 2.0 * high
        value, derivative = slope(high)
    t = high
    for _ in range(max_steps):
        if abs(value) <= 1e-12 * abs(start) or high - low <= 1e-15 * high:
            break
        if value < 0.0:
            low = t
        else:
            high = t
        newton = t - value / derivative if derivative > 0.0 else np.nan
        t = newton if low < newton < high else 0.5 * (low + high)
        value, derivative = slope(t)
    return t


def step_by_passes(slopes: Callable[[Array], tuple[Array, Array]], *, max_passes: int = 6) -> float:
    """The same root where a call is a pass over all rows: every call is asked about many steps at once.

    `slopes(steps) -> (values, derivatives)`.  The first call looks over many powers of two, the next ones inside the
    bracket found; on a piecewise linear function the line through both ends of a bracket without kink is exact.
    """
    steps = np.concatenate([[0.0], 2.0 ** np.arange(-24.0, 9.0)])
    values, derivatives = slopes(steps)
    start = float(values[0])
    if not start < 0.0:
        return 0.0
    t = float(steps[-1])
    for _ in range(max_passes):
        above = int(np.argmax(values >= 0.0)) if np.any(values >= 0.0) else len(values)
        if above == len(values):
            return float(steps[-1])  # still falling at the longest step: take it, the next one goes on
        low, high = float(steps[above - 1]), float(steps[above])
        t = low - float(values[above - 1]) * (high - low) / float(values[above] - values[above - 1])
        if high - low <= 1e-12 * high:
            break
        newton = low - float(values[above - 1]) / float(derivatives[above - 1]) if derivatives[above - 1] > 0 else t
        inner = np.concatenate([np.linspace(low, high, 26), np.clip([t, newton], low, high)])
        steps = np.unique(inner)
        values, derivatives = slopes(steps)
        if np.min(np.abs(values)) <= 1e-10 * abs(start):
            return float(steps[np.argmin(np.abs(values))])
    return t
