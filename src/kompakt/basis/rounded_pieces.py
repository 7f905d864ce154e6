"""Losses with rounded kinks as Newton's method on a machine's rows sees them: pieces, step lengths, a compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from kompakt.losses import Hinge, Loss, PiecewiseLinear
from kompakt.parallel import numba_available
from kompakt.solve.kinks import Rounded

Array = np.ndarray


def pieces(loss: Loss, y: Array, f: Array, cost: Array, width: float) -> tuple[float, Array, Array]:
    """Sum of the losses, slopes and curvatures per row, all times the rows' cost C s.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.rounded_pieces import pieces
    >>> from kompakt.losses import Hinge
    >>> pieces(Hinge(), np.ones(2), np.array([0.0, 1.0]), np.ones(2), 0.5)
    (1.0625, array([-1. , -0.5]), array([0., 2.]))
    """
    if isinstance(loss, Hinge):
        short = 1.0 - y * f
        u = np.clip(short / width + 0.5, 0.0, 1.0)
        far = np.maximum(short - 0.5 * width, 0.0)
        value = float(cost @ (0.5 * width * u * u + far))
        inside = (u > 0.0) & (u < 1.0)
        return value, -(cost * y) * u, np.where(inside, cost / width, 0.0)
    smooth = Rounded(loss, width) if isinstance(loss, PiecewiseLinear) else loss
    return float(cost @ smooth.value(y, f)), cost * smooth.gradient(y, f), cost * smooth.curvature(y, f)


def step_length(
    loss: Loss, y: Array, f: Array, cost: Array, change: Array, width: float, penalised: float, descent: float
) -> float:
    """Share of a step that is too long: the minimiser along it for the hinge, whose rounding has two knots per row.

    `change` is what the whole step adds to f, `penalised` the second derivative of the penalty along it, `descent` the
    derivative of the objective at its start.
    """
    if not isinstance(loss, Hinge):
        return 0.4
    u, rate = (1.0 - y * f) / width + 0.5, -y * change / width
    with np.errstate(divide="ignore", invalid="ignore"):
        zero, one = -u / rate, (1.0 - u) / rate
    enters, leaves = np.minimum(zero, one), np.maximum(zero, one)
    bend = cost * width * rate * rate
    curvature = penalised + float(bend @ ((enters <= 0.0) & (leaves > 0.0)))
    come, go = (enters > 0.0) & (enters < 1.0), (leaves > 0.0) & (leaves < 1.0)
    knots = np.concatenate([enters[come], leaves[go], [1.0]])
    bends = np.concatenate([bend[come], -bend[go], [0.0]])
    order = np.argsort(knots)
    knots = knots[order]
    curvatures = curvature + np.concatenate([[0.0], np.cumsum(bends[order])[:-1]])
    slopes = descent + np.cumsum(curvatures * np.diff(knots, prepend=0.0))
    above = int(np.argmax(slopes >= 0.0)) if slopes[-1] >= 0.0 else len(knots) - 1
    t = float(knots[above] - slopes[above] / max(curvatures[above], 1e-300))
    return min(max(t, 1e-3), 0.999)


@cache
def compiled_newton() -> Callable[..., tuple[int, int]] | None:
    """Newton's method for the hinge as a compiled loop, or None without Numba."""
    if not numba_available():
        return None
    from kompakt.basis._compiled_hinge import newton

    compiled: Callable[..., tuple[int, int]] = newton
    return compiled
