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
