"""Piecewise linear losses with their kinks rounded to parabolas: what Newton's method can minimise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kompakt.losses import Loss, PiecewiseLinear

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Rounded(Loss):
    """A piecewise linear loss with each kink rounded over a width: one for all outputs, or one per output (L,)."""

    loss: PiecewiseLinear
    width: float | Array
    name: ClassVar[str] = "rounded"

    def take_outputs(self, outputs: Array) -> Rounded:
        return self if np.ndim(self.width) == 0 else type(self)(self.loss, np.asarray(self.width)[outputs])

    def value(self, y: Array, f: Array) -> Array:
        r = self.loss.residual(y, f)
        kinks, slopes = self.loss.kinks, self.loss.slopes
        total = slopes[0] * (r - kinks[0])
        for kink, jump in zip(kinks, np.diff(slopes), strict=True):
            u = np.clip(r - kink + 0.5 * self.width, 0.0, self.width)
            total = total + jump * (u * u / (2.0 * self.width) + np.maximum(r - kink - 0.5 * self.width, 0.0))
        return total

    def slope(self, r: Array) -> Array:
        """Derivative with respect to the residual."""
        total = np.full(r.shape, self.loss.slopes[0])
        for kink, jump in zip(self.loss.kinks, np.diff(self.loss.slopes), strict=True):
            total += jump * np.clip((r - kink) / self.width + 0.5, 0.0, 1.0)
        return total

    def gradient(self, y: Array, f: Array) -> Array:
        return self.loss.orientation(y) * self.slope(self.loss.residual(y, f))

    def curvature(self, y: Array, f: Array) -> Array:
        r = self.loss.residual(y, f)
        total = np.zeros(r.shape)
        for kink, jump in zip(self.loss.kinks, np.diff(self.loss.slopes), strict=True):
            total += (np.abs(r - kink) < 0.5 * self.width) * (jump / self.width)
        return total


@dataclass(frozen=True, eq=False)
class Followed(Rounded):
    """The rounding of a width continued as a parabola over the wider window of the stage before.

    A row inside that window keeps its multiplier: slope (r - kink)/window + 1/2 is reached at the new width when
    r - kink has shrunk by width/window.
    """

    window: float | Array = 0.0

    def take_outputs(self, outputs: Array) -> Followed:
        if np.ndim(self.width) == 0:
            return self
        return Followed(self.loss, np.asarray(self.width)[outputs], np.asarray(self.window)[outputs])

    def slope(self, r: Array) -> Array:
        total = super().slope(r)
        for kink, jump in zip(self.loss.kinks, np.diff(self.loss.slopes), strict=True):
            inside = np.abs(r - kink) < 0.5 * self.window
            line = (r - kink) / self.width + 0.5
            total += jump * inside * (line - np.clip(line, 0.0, 1.0))
        return total

    def curvature(self, y: Array, f: Array) -> Array:
        r = self.loss.residual(y, f)
        total = np.zeros(r.shape)
        for kink, jump in zip(self.loss.kinks, np.diff(self.loss.slopes), strict=True):
            total += (np.abs(r - kink) < 0.5 * self.window) * (jump / self.width)
        return total
