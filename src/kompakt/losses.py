"""Losses live in prediction space: they see targets and predictions, never the rows.

Every loss gives, per element, its value, its derivative with respect to the prediction f, and a curvature.  Losses
whose curvature is constant between finitely many kinks (`piecewise_quadratic`) are minimised by Newton's method in
finitely many steps.  The others are piecewise linear; they are described by their kinks, so that one solver serves
all of them: in the residual r = direction * (origin - f), slope `slopes[k]` on the k-th interval between `kinks`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


class Loss(ABC):
    """Base class of the losses; instances are immutable."""

    name: ClassVar[str] = ""
    for_classes: ClassVar[bool] = False
    for_regression: ClassVar[bool] = False
    #: finite Newton applies; otherwise the loss is piecewise linear
    piecewise_quadratic: ClassVar[bool] = True

    @abstractmethod
    def value(self, y: Array, f: Array) -> Array:
        """Loss per element."""

    @abstractmethod
    def gradient(self, y: Array, f: Array) -> Array:
        """Derivative with respect to f, per element."""

    @abstractmethod
    def curvature(self, y: Array, f: Array) -> Array:
        """Second derivative with respect to f, per element (0 or 1 away from the kinks)."""

    def terms(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """Value, gradient and curvature together: what a pass of a solver needs."""
        return self.value(y, f), self.gradient(y, f), self.curvature(y, f)

    def take_outputs(self, outputs: Array) -> Loss:
        """The loss for some of the outputs; only a loss with a parameter per output differs from itself."""
        return self


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """``max(0, 1 - y f)^2 / 2`` for y in {-1, +1} (Keerthi et al. 2006, eq. 1).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.losses import SquaredHinge
    >>> SquaredHinge().value(np.array([1.0, -1.0]), np.array([0.0, -2.0]))
    array([0.5, 0. ])
    """

    name: ClassVar[str] = "squared_hinge"
    for_classes: ClassVar[bool] = True

    def value(self, y: Array, f: Array) -> Array:
        return 0.5 * np.square(np.maximum(0.0, 1.0 - y * f))

    def gradient(self, y: Array, f: Array) -> Array:
        return -y * np.maximum(0.0, 1.0 - y * f)

    def curvature(self, y: Array, f: Array) -> Array:
        return (y * f < 1.0).astype(np.float64)

    def terms(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        shortfall = y * f
        np.subtract(1.0, shortfall, out=shortfall)
        np.maximum(shortfall, 0.0, out=shortfall)
        return 0.5 * shortfall * shortfall, -y * shortfall, (shortfall > 0.0).astype(shortfall.dtype)


@dataclass(frozen=True)
class LeastSquares(Loss):
    """``(y - f)^2 / 2``.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.losses import LeastSquares
    >>> LeastSquares().value(np.array([1.0]), np.array([3.0]))
    array([2.])
    """

    name: ClassVar[str] = "least_squares"
    for_classes: ClassVar[bool] = True
    for_regression: ClassVar[bool] = True

    def value(self, y: Array, f: Array) -> Array:
        return 0.5 * np.square(y - f)

    def gradient(self, y: Array, f: Array) -> Array:
        return f - y

    def curvature(self, y: Array, f: Array) -> Array:
        return np.ones(np.broadcast(y, f).shape)

    def terms(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        residual = f - y
        return 0.5 * residual * residual, residual, np.ones(residual.shape)


@dataclass(frozen=True)
class _Huber(Loss):
    """A loss that is quadratic up to `epsilon` and linear beyond."""

    epsilon: float = 1.35
    name: ClassVar[str] = "huber"

    def __post_init__(self) -> None:
        _require_epsilon(self.epsilon, positive=True)

    def _of_size(self, r: Array) -> Array:
        return np.where(r <= self.epsilon, 0.5 * r * r, self.epsilon * (r - 0.5 * self.epsilon))


@dataclass(frozen=True)
class Huber(_Huber):
    """Least squares for residuals up to `epsilon`, linear beyond.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.losses import Huber
    >>> Huber(1.0).value(np.array([0.0, 0.0]), np.array([1.0, 3.0]))
    array([0.5, 2.5])
    """

    for_regression: ClassVar[bool] = True

    def value(self, y: Array, f: Array) -> Array:
        return self._of_size(np.abs(y - f))

    def gradient(self, y: Array, f: Array) -> Array:
        return np.clip(f - y, -self.epsilon, self.epsilon)

    def curvature(self, y: Array, f: Array) -> Array:
        return (np.abs(y - f) < self.epsilon).astype(np.float64)


@dataclass(frozen=True)
class HuberHinge(_Huber):
    """Squared hinge for shortfalls up to `epsilon`, linear beyond (Keerthi et al. 2006, section 8).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.losses import HuberHinge
    >>> HuberHinge(1.0).value(np.array([1.0, 1.0]), np.array([0.0, -2.0]))
    array([0.5, 2.5])
    """

    for_classes: ClassVar[bool] = True

    def value(self, y: Array, f: Array) -> Array:
        return self._of_size(np.maximum(0.0, 1.0 - y * f))

    def gradient(self, y: Array, f: Array) -> Array:
        return -y * np.clip(1.0 - y * f, 0.0, self.epsilon)

    def curvature(self, y: Array, f: Array) -> Array:
        r = 1.0 - y * f
        return ((r > 0.0) & (r < self.epsilon)).astype(np.float64)


class PiecewiseLinear(Loss):
    """A convex, piecewise linear loss of a residual r: 1 - y f for classes, y - f for regression.

    Its subclasses give `kinks` (ascending) and `slopes` (one more than kinks, non-decreasing) of the loss as a
    function of r; unless they say otherwise, the one kink is at 0.
    """

    piecewise_quadratic: ClassVar[bool] = False

    @property
    def kinks(self) -> Array:
        """Where the slope changes, as values of r."""
        return np.zeros(1)

    @property
    @abstractmethod
    def slopes(self) -> Array:
        """Slopes between the kinks."""

    def residual(self, y: Array, f: Array) -> Array:
        """r per element."""
        return 1.0 - y * f if self.for_classes else y - f

    def orientation(self, y: Array) -> Array:
        """dr/df per element: -1 for regression, -y for classes."""
        return -y if self.for_classes else -np.ones_like(y)

    def value(self, y: Array, f: Array) -> Array:
        return self.value_of_residual(self.residual(y, f))

    def value_of_residual(self, r: Array) -> Array:
        """Loss as a function of the residual: 0 on the interval of slope 0, or at the kink where the sign turns."""
        return np.asarray(np.max([s * (r - t) if s else np.zeros_like(r) for s, t in self._lines()], axis=0))

    def _lines(self) -> list[tuple[float, float]]:
        """The loss as the maximum of lines slope * (r - root)."""
        kinks, slopes = self.kinks, self.slopes
        return [
            (float(s), float(kinks[k - 1] if s > 0 else kinks[min(k, len(kinks) - 1)])) for k, s in enumerate(slopes)
        ]

    def gradient(self, y: Array, f: Array) -> Array:
        r = self.residual(y, f)
        return self.orientation(y) * self.slopes[np.searchsorted(self.kinks, r, side="left")]

    def curvature(self, y: Array, f: Array) -> Array:
        return np.zeros(np.broadcast(y, f).shape)


@dataclass(frozen=True)
class Hinge(PiecewiseLinear):
    """``max(0, 1 - y f)`` for y in {-1, +1}: the loss of the ordinary SVM.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.losses import Hinge
    >>> Hinge().value(np.array([1.0, -1.0]), np.array([0.0, -2.0]))
    array([1., 0.])
    """

    name: ClassVar[str] = "hinge"
    for_classes: ClassVar[bool] = True

    @property
    def slopes(self) -> Array:
        return np.array([0.0, 1.0])


@dataclass(frozen=True)
class Absolute(PiecewiseLinear):
    """``|y - f|`` (L1).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.losses import Absolute
    >>> Absolute().value(np.array([1.0]), np.array([3.0]))
    array([2.])
    """

    name: ClassVar[str] = "absolute"
    for_regression: ClassVar[bool] = True

    @property
    def slopes(self) -> Array:
        return np.array([-1.0, 1.0])


@dataclass(frozen=True)
class EpsilonInsensitive(PiecewiseLinear):
    """``max(0, |y - f| - epsilon)``: the loss of support vector regression.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.losses import EpsilonInsensitive
    >>> EpsilonInsensitive(0.5).value(np.array([0.0, 0.0]), np.array([0.2, 1.5]))
    array([0., 1.])
    """

    epsilon: float = 0.1
    name: ClassVar[str] = "epsilon_insensitive"
    for_regression: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _require_epsilon(self.epsilon, positive=False)

    @property
    def kinks(self) -> Array:
        return np.array([-self.epsilon, self.epsilon]) if self.epsilon > 0 else np.zeros(1)

    @property
    def slopes(self) -> Array:
        # without an insensitive zone the two kinks are one
        return np.array([-1.0, 0.0, 1.0]) if self.epsilon > 0 else np.array([-1.0, 1.0])


@dataclass(frozen=True)
class Quantile(PiecewiseLinear):
    """``q r`` above and ``(q - 1) r`` below: the minimiser is the q-quantile.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.losses import Quantile
    >>> Quantile(0.9).value(np.array([1.0, 1.0]), np.array([0.0, 2.0])).round(3)
    array([0.9, 0.1])
    """

    q: float = 0.5
    name: ClassVar[str] = "quantile"
    for_regression: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.q, str) or not 0.0 < self.q < 1.0:
            raise ValueError(f"the quantile must be a number between 0 and 1, both excluded; got {self.q!r}.")

    @property
    def slopes(self) -> Array:
        return np.array([self.q - 1.0, self.q])


def _require_epsilon(epsilon: float, *, positive: bool) -> None:
    low_enough = epsilon > 0 if positive else epsilon >= 0
    if not (np.isfinite(epsilon) and low_enough):
        raise ValueError(f"epsilon must be a finite number {'> 0' if positive else '>= 0'}; got {epsilon!r}.")


CLASS_LOSSES = ("squared_hinge", "hinge", "least_squares", "huber")
REGRESSION_LOSSES = ("least_squares", "huber", "epsilon_insensitive", "absolute", "quantile")


def make_loss(loss: Any, *, classes: bool, epsilon: float | None = None, quantile: float = 0.5) -> Loss:
    """The loss object for the parameter of a constructor; `epsilon=None` takes the loss's own default.

    Examples
    --------
    >>> from kompakt.losses import make_loss
    >>> make_loss("huber", classes=False, epsilon=2.0)
    Huber(epsilon=2.0)
    """
    if isinstance(loss, Loss):
        if not (loss.for_classes if classes else loss.for_regression):
            task = "classification" if classes else "regression"
            raise ValueError(f"the loss {loss!r} is not for {task}; choose from {_names(classes)}.")
        return loss
    if isinstance(loss, str) and loss in _names(classes):
        if loss == "quantile":
            return Quantile(quantile)
        kinds: tuple[type[Loss], ...] = (SquaredHinge, Hinge, LeastSquares, Absolute, EpsilonInsensitive)
        kind = {kind.name: kind for kind in (*kinds, HuberHinge if classes else Huber)}[loss]
        return kind() if epsilon is None or not hasattr(kind, "epsilon") else kind(epsilon)  # type: ignore[call-arg]
    raise ValueError(f"loss must be one of {_names(classes)} or a loss object; got {loss!r}.")


def _names(classes: bool) -> tuple[str, ...]:
    return CLASS_LOSSES if classes else REGRESSION_LOSSES
