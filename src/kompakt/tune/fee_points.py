"""Points of a search by fast error estimation (seed 000), and the rules that choose among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray

RULES = ("min", "confirmed", "one_se")


@dataclass(frozen=True)
class Point:
    """One pair of hyperparameters and what its folds stored."""

    sigma: float
    C: float
    errors: Array  # (F,), lowest validation error of each fold
    sizes: Array  # (F,), the size that reached it
    confirmed: Array | None = None  # (F,), error of the machine regrown to `size` without a look at the fold's rows

    @property
    def error(self) -> float:
        """Cross-validation error."""
        return float(np.mean(self.errors))

    @property
    def gamma(self) -> float:
        """Width of the Gaussian kernel exp(-gamma d^2) = exp(-d^2 / (2 sigma^2))."""
        return float(0.5 / self.sigma**2)

    @property
    def size(self) -> int:
        """Mean stored size, to which the machine is regrown on all rows."""
        return max(1, round(float(np.mean(self.sizes))))


def choose_point(points: list[Point], shapes: list[tuple[int, int]], rule: str, limit: float | None = None) -> Point:
    """The best point of some grids; see `kompakt.tune.fee.search_fee` for the rules.

    Parameters
    ----------
    points : list of Point
        Grid by grid, sigma by sigma.
    shapes : list of (int, int)
        Of the grids, (sigmas, costs).
    rule : {"min", "confirmed", "one_se"}
    limit : float, optional
        For "one_se", error that the machine must reach in place of `one_se_limit`, so that machines of several searches
        are held to the same; the lowest confirmed error where none reaches it.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.tune.fee_points import Point, choose_point
    >>> few, many = np.array([4, 4]), np.array([30, 30])
    >>> points = [
    ...     Point(2.0, 1.0, np.array([0.10, 0.12]), few, np.array([0.12, 0.14])),
    ...     Point(0.1, 1.0, np.array([0.05, 0.05]), many, np.array([0.20, 0.30])),
    ... ]
    >>> choose_point(points, [(2, 1)], "min").size, choose_point(points, [(2, 1)], "one_se").size
    (30, 4)
    """
    if rule == "min":
        return min(points, key=_order)
    if rule not in RULES:
        raise ValueError(f"rule must be one of {RULES}; got {rule!r}.")
    smooth = _smoothed(points, shapes)
    best = points[int(np.argmin(smooth))]
    limit = one_se_limit(points, shapes) if limit is None else limit
    if rule == "confirmed" or limit < smooth.min():
        return best
    close = [point for point, error in zip(points, smooth, strict=True) if error <= limit]
    return min(close, key=lambda point: (float(np.mean(point.sizes)), *_order(point)))


def one_se_limit(points: list[Point], shapes: list[tuple[int, int]]) -> float:
    """The lowest smoothed confirmed error plus one standard error of its folds."""
    smooth = _smoothed(points, shapes)
    errors = points[int(np.argmin(smooth))].confirmed
    assert errors is not None
    return float(smooth.min()) + (float(np.std(errors, ddof=1)) / np.sqrt(len(errors)) if len(errors) > 1 else 0.0)


def _smoothed(points: list[Point], shapes: list[tuple[int, int]]) -> Array:
    """Confirmed errors averaged with their neighbours in the grid, those at the border with the nearest there are."""
    if any(point.confirmed is None for point in points):
        raise ValueError("this rule needs confirmed errors, which a search with rule='min' does not make.")
    errors = np.array([np.mean(point.confirmed) for point in points if point.confirmed is not None])
    parts, start = [], 0
    for rows, columns in shapes:
        grid = np.pad(errors[start : start + rows * columns].reshape(rows, columns), 1, mode="edge")
        start += rows * columns
        around = [grid[i : i + rows, j : j + columns] for i in range(3) for j in range(3)]
        parts.append(np.mean(around, axis=0).ravel())
    return np.concatenate(parts)


def _order(point: Point) -> tuple[float, float, float, float]:
    return round(point.error, 12), float(np.mean(point.sizes)), -point.sigma, point.C
