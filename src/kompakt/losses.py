"""Losses live in prediction space: they see targets and predictions, never the rows.

Every loss gives, per element, its value, its derivative with respect to the prediction f, and a curvature; and it says
what a solver may count on.  A `quadratic` loss is one parabola, and its minimiser is a closed form.  A loss whose
curvature is constant between finitely many kinks (`piecewise_quadratic`) is minimised by Newton's method in finitely
many steps.  A `piecewise_linear` one is described by its kinks, so that one solver serves all of them: in the residual
r = 1 - y f (classes) or y - f (regression) it has slope `slopes[k]` on the k-th interval between `kinks`.

With y = 1 for every row and no intercept the hinges are the one-class losses max(0, rho - f) and its square of
Schoelkopf et al. (2001), divided by rho, which only scales f.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


class Ramps(NamedTuple):
    """A loss of L outputs by its derivative with respect to the residual r: y - f with `regression`, else 1 - y f.

    loss'(r) = base[0] + sum_k rate_k (clip(r, low_k, high_k) - anchor_k), and base[0] (r - base[1]) is the part of the
    loss without the ramps.
    """

    regression: bool
    base: Array  # (L, 2)
    ramps: Array  # (L, n_ramps, 4): low, high, rate, anchor

    @property
    def bends_once(self) -> bool:
        """Whether a row's curvature tells the piece of the loss that it lies on."""
        return self.ramps.shape[1] == 1 and bool(np.all(self.ramps[:, 0, 1] == np.inf))


class Loss(ABC):
    """Base class of the losses; instances are immutable."""

    name: ClassVar[str] = ""
    for_classes: ClassVar[bool] = False
    for_regression: ClassVar[bool] = False
    #: one parabola per element: the curvature is 1 everywhere
    quadratic: ClassVar[bool] = False
    #: the curvature is constant between finitely many kinks, and the derivative has no jumps
    piecewise_quadratic: ClassVar[bool] = True
    #: the derivative is constant between finitely many kinks: a `PiecewiseLinear`
    piecewise_linear: ClassVar[bool] = False
    #: (y - f)^2 / 2 on the active rows and 0 on the others, so that their normal equations are all a solver needs
    squares_active_rows: ClassVar[bool] = False

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

    def rounded(self, width: float | Array) -> Loss:
        """The loss with a derivative without jumps: its kinks, if it has any, are rounded over a width."""
        return self

    def ramps(self, n_outputs: int) -> Ramps | None:
        """The derivative as a sum of ramps, which compiled loops need; None where a loss does not say."""
        return None

    def line_roots(self, y: Array, f: Array) -> Array:
        """Predictions at which the lines that elements on a linear piece lie on are 0."""
        return y

    def held_out(self, y: Array, f: Array) -> Array:
        """Error per element that machines of different epsilon can be compared by."""
        return np.abs(y - f)

    def best_constant(self, y: Array, weights: Array) -> Array:
        """The prediction (L,) without inputs that suits targets (n, L) best."""
        return np.asarray(np.quantile(y, 0.5, axis=0))


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
    squares_active_rows: ClassVar[bool] = True

    def ramps(self, n_outputs: int) -> Ramps:
        return _one_ramp(False, 0.0, np.inf, n_outputs)

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
    quadratic: ClassVar[bool] = True
    squares_active_rows: ClassVar[bool] = True

    def ramps(self, n_outputs: int) -> Ramps:
        return _one_ramp(True, -np.inf, np.inf, n_outputs)

    def held_out(self, y: Array, f: Array) -> Array:
        return self.value(y, f)

    def best_constant(self, y: Array, weights: Array) -> Array:
        return np.asarray(np.average(y, axis=0, weights=weights))

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

    def ramps(self, n_outputs: int) -> Ramps:
        return _one_ramp(True, -self.epsilon, self.epsilon, n_outputs)

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

    def ramps(self, n_outputs: int) -> Ramps:
        return _one_ramp(False, 0.0, self.epsilon, n_outputs)

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
    piecewise_linear: ClassVar[bool] = True

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

    def line_roots(self, y: Array, f: Array) -> Array:
        r = self.residual(y, f)
        roots = np.array([root for _, root in self._lines()])[np.searchsorted(self.kinks, r)]
        return np.asarray(f + (roots - r) / self.orientation(y))

    def rounded(self, width: float | Array) -> Rounded:
        return Rounded(self, width)


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

    def value(self, y: Array, f: Array) -> Array:
        return np.asarray(np.maximum(0.0, 1.0 - y * f))  # in the inner loop of growth by estimated errors


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

    def held_out(self, y: Array, f: Array) -> Array:
        return self.value(y, f)

    def best_constant(self, y: Array, weights: Array) -> Array:
        return np.asarray(np.quantile(y, self.q, axis=0))


@dataclass(frozen=True, eq=False)
class Rounded(Loss):
    """A piecewise linear loss with each kink rounded over a width: one for all outputs, or one per output (L,).

    With the wider `window` of the stage before, the parabolas go on over that.  A row inside keeps its multiplier:
    slope (r - kink)/window + 1/2 is reached at the new width when r - kink has shrunk by width/window.
    """

    loss: PiecewiseLinear
    width: float | Array
    window: float | Array | None = None
    name: ClassVar[str] = "rounded"

    def take_outputs(self, outputs: Array) -> Rounded:
        if np.ndim(self.width) == 0:
            return self
        window = None if self.window is None else np.asarray(self.window)[outputs]
        return Rounded(self.loss, np.asarray(self.width)[outputs], window)

    def _jumps(self) -> Iterable[tuple[float, float]]:
        """The kinks, and how much the slope rises at each."""
        return zip(self.loss.kinks, np.diff(self.loss.slopes), strict=True)

    def value(self, y: Array, f: Array) -> Array:
        r = self.loss.residual(y, f)
        total: Array = self.loss.slopes[0] * (r - self.loss.kinks[0])
        for kink, jump in self._jumps():
            u = np.clip(r - kink + 0.5 * self.width, 0.0, self.width)
            total = total + jump * (u * u / (2.0 * self.width) + np.maximum(r - kink - 0.5 * self.width, 0.0))
        return total

    def slope(self, r: Array) -> Array:
        """Derivative with respect to the residual."""
        total = np.full(r.shape, self.loss.slopes[0])
        for kink, jump in self._jumps():
            total += jump * np.clip((r - kink) / self.width + 0.5, 0.0, 1.0)
        if self.window is not None:
            for kink, jump in self._jumps():
                line = (r - kink) / self.width + 0.5
                total += jump * (np.abs(r - kink) < 0.5 * self.window) * (line - np.clip(line, 0.0, 1.0))
        return total

    def gradient(self, y: Array, f: Array) -> Array:
        return np.asarray(self.loss.orientation(y) * self.slope(self.loss.residual(y, f)))

    def curvature(self, y: Array, f: Array) -> Array:
        r = self.loss.residual(y, f)
        total, window = np.zeros(r.shape), self.width if self.window is None else self.window
        for kink, jump in self._jumps():
            total += (np.abs(r - kink) < 0.5 * window) * (jump / self.width)
        return total

    def ramps(self, n_outputs: int) -> Ramps | None:
        if self.window is not None:
            return None
        kinks, slopes, width = self.loss.kinks, self.loss.slopes, np.reshape(self.width, (-1, 1))
        base = np.zeros((n_outputs, 2))
        base[:] = slopes[0], kinks[0]
        ramps = np.empty((n_outputs, len(kinks), 4))
        ramps[:, :, 0] = ramps[:, :, 3] = kinks - 0.5 * width
        ramps[:, :, 1] = kinks + 0.5 * width
        ramps[:, :, 2] = (slopes[1:] - slopes[:-1]) / width
        return Ramps(self.loss.for_regression, base, ramps)


def _one_ramp(regression: bool, low: float, high: float, n_outputs: int) -> Ramps:
    """A derivative that rises with slope 1 from `low` to `high`, and is 0 at 0."""
    return Ramps(regression, np.zeros((n_outputs, 2)), np.tile([[[low, high, 1.0, 0.0]]], (n_outputs, 1, 1)))


def _require_epsilon(epsilon: float, *, positive: bool) -> None:
    low_enough = epsilon > 0 if positive else epsilon >= 0
    if not (np.isfinite(epsilon) and low_enough):
        raise ValueError(f"epsilon must be a finite number {'> 0' if positive else '>= 0'}; got {epsilon!r}.")


#: all losses by name; one name may have a version for classes and one for regression
_LOSSES: tuple[type[Loss], ...] = (
    SquaredHinge, Hinge, LeastSquares, HuberHinge, Huber, Absolute, EpsilonInsensitive, Quantile,
)  # fmt: skip


def require_kind(loss: Loss, kind: str, method: str) -> None:
    """Refuse a loss that is not of the kind that `method` needs: the name of one of the flags of a loss.

    Examples
    --------
    >>> from kompakt.losses import Hinge, SquaredHinge, require_kind
    >>> require_kind(SquaredHinge(), "piecewise_quadratic", "growth")
    >>> require_kind(Hinge(), "quadratic", "leave-one-out")
    Traceback (most recent call last):
    ...
    ValueError: leave-one-out needs a loss that is quadratic (least_squares); got Hinge().
    """
    if not getattr(loss, kind):
        names = ", ".join(dict.fromkeys(loss_class.name for loss_class in _LOSSES if getattr(loss_class, kind)))
        raise ValueError(f"{method} needs a loss that is {kind.replace('_', ' ')} ({names}); got {loss!r}.")


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
        fitting = (kind for kind in _LOSSES if (kind.for_classes if classes else kind.for_regression))
        kind = {kind.name: kind for kind in fitting}[loss]
        return kind() if epsilon is None or not hasattr(kind, "epsilon") else kind(epsilon)  # type: ignore[call-arg]
    raise ValueError(f"loss must be one of {_names(classes)} or a loss object; got {loss!r}.")


def _names(classes: bool) -> tuple[str, ...]:
    return CLASS_LOSSES if classes else REGRESSION_LOSSES
