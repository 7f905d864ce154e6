"""The box a search moves in, with logarithmic axes where a parameter spans magnitudes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Space", "reflected"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Space:
    """A box of named parameters; strategies see it as the unit cube, `evaluate` sees natural values.

    Parameters
    ----------
    names : sequence of str
        Parameter names.
    lower, upper : sequence of float
        Ends of each axis, lower < upper.
    log : sequence of bool
        Whether an axis is logarithmic (then its ends must be positive).

    Examples
    --------
    >>> from kompakt.tune import Space
    >>> space = Space.of({"C": (0.01, 100.0, "log"), "epsilon": (0.0, 1.0)})
    >>> space.natural([0.5, 0.25]).round(9).tolist()
    [1.0, 0.25]
    >>> space.as_dict([1.0, 0.25])
    {'C': 1.0, 'epsilon': 0.25}
    """

    names: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    log: tuple[bool, ...]

    def __post_init__(self) -> None:
        for field in ("names", "lower", "upper", "log"):
            object.__setattr__(self, field, tuple(getattr(self, field)))
        if not len(self.names) == len(self.lower) == len(self.upper) == len(self.log) > 0:
            raise ValueError("A space needs names, lower, upper and log of the same length, at least 1.")
        for name, low, high, log in zip(self.names, self.lower, self.upper, self.log, strict=True):
            if not (np.isfinite(low) and np.isfinite(high) and low < high):
                raise ValueError(f"Axis {name!r} must have finite ends with lower < upper, got {low}, {high}.")
            if log and low <= 0:
                raise ValueError(f"Axis {name!r} is logarithmic, so its ends must be positive, got {low}.")

    @classmethod
    def of(cls, axes: Mapping[str, Sequence[Any]]) -> Space:
        """Space from {name: (lower, upper)} or {name: (lower, upper, "log")}."""
        parts = []
        for name, axis in axes.items():
            if len(axis) not in (2, 3) or (len(axis) == 3 and axis[2] not in ("log", "linear")):
                raise ValueError(
                    f'Axis {name!r} must be (lower, upper) or (lower, upper, "log" or "linear"), got {axis!r}.'
                )
            parts.append((name, float(axis[0]), float(axis[1]), axis[2:] == ("log",) or axis[2:] == ["log"]))
        return cls(*zip(*parts, strict=True)) if parts else cls((), (), (), ())

    @property
    def n_axes(self) -> int:
        """Number of axes."""
        return len(self.names)

    def _ends(self) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        log = np.array(self.log)
        ends = np.array([self.lower, self.upper], dtype=np.float64)
        ends[:, log] = np.log(ends[:, log])
        return ends[0], ends[1], log

    def natural(self, unit: ArrayLike) -> FloatArray:
        """Natural values of a point of the unit cube, never outside the box."""
        low, high, log = self._ends()
        places = np.asarray(unit, dtype=np.float64)
        values = low + places * (high - low)
        values[..., log] = np.exp(values[..., log])
        # exp(log(x)) may miss x by a rounding: the ends are exact and nothing lies beyond them.
        values = np.where(places <= 0.0, self.lower, np.where(places >= 1.0, self.upper, values))
        return np.clip(values, self.lower, self.upper)

    def unit(self, natural: ArrayLike) -> FloatArray:
        """Point of the unit cube with these natural values."""
        low, high, log = self._ends()
        values = np.array(natural, dtype=np.float64)
        if values.shape[-1:] != (self.n_axes,):
            raise ValueError(f"A point of this space has {self.n_axes} values, got shape {values.shape}.")
        if (values < self.lower).any() or (values > self.upper).any():
            raise ValueError(f"The point {values.tolist()} lies outside {self.lower} .. {self.upper}.")
        values[..., log] = np.log(values[..., log])
        return (values - low) / (high - low)

    def as_dict(self, point: ArrayLike) -> dict[str, float]:
        """Natural values by name."""
        return dict(zip(self.names, np.asarray(point, dtype=np.float64).tolist(), strict=True))


def reflected(unit: FloatArray) -> FloatArray:
    """Points folded back into the unit cube at its walls, however far outside they lie."""
    folded = np.mod(unit, 2.0)
    return np.minimum(folded, 2.0 - folded)
