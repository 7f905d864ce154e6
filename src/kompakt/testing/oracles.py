"""Naive versions of what kompakt computes, written from the formula alone, and a kernel that counts its evaluations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import lsq_linear

from kompakt.kernels import Kernel
from kompakt.losses import Loss, PiecewiseLinear

__all__ = ["CountingKernel", "finite_difference", "naive_block", "naive_objective", "stationarity"]

Array = np.ndarray


def naive_block(kernel: Kernel, X: Array, Z: Array) -> Array:
    """Kernel values one pair at a time, in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import Linear
    >>> from kompakt.testing import naive_block
    >>> naive_block(Linear(), np.eye(2), np.ones((1, 2)))
    array([[1.],
           [1.]])
    """
    X, Z = np.asarray(X, dtype=np.float64), np.asarray(Z, dtype=np.float64)
    return np.array([[float(kernel.block(x[None], z[None])[0, 0]) for z in Z] for x in X])


def finite_difference(function: Callable[[Array], float], at: Array, step: float = 1e-6) -> Array:
    """Central differences of a scalar function with respect to every entry of `at`.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.testing import finite_difference
    >>> finite_difference(lambda x: float(np.sum(x**2)), np.array([1.0, -3.0])).round(6)
    array([ 2., -6.])
    """
    at = np.asarray(at, dtype=np.float64)
    result = np.empty_like(at)
    for index in np.ndindex(at.shape):
        width = step * max(1.0, abs(float(at[index])))
        above, below = at.copy(), at.copy()
        above[index] += width
        below[index] -= width
        result[index] = (function(above) - function(below)) / (2.0 * width)
    return result


def naive_objective(
    loss: Loss,
    C: float,
    K: Array,
    K_basis: Array,
    y: Array,
    weights: Array,
    intercept: float,
    *,
    sample_weight: Array | None = None,
    penalize_intercept: bool = False,
) -> float:
    """``1/2 beta' K_basis beta [+ 1/2 b^2] + C sum_i s_i loss(y_i, f_i)`` of one output, with f = K beta + b.

    Parameters
    ----------
    loss : Loss
    C : float
    K : ndarray of shape (n, m)
        Kernel values of the rows against the basis.
    K_basis : ndarray of shape (m, m)
    y : ndarray of shape (n,)
    weights : ndarray of shape (m,)
        The weights beta of the basis vectors.
    intercept : float
    sample_weight : ndarray of shape (n,), optional
    penalize_intercept : bool

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.losses import LeastSquares
    >>> from kompakt.testing import naive_objective
    >>> one = np.ones((1, 1))
    >>> naive_objective(LeastSquares(), 2.0, one, one, np.array([3.0]), np.array([1.0]), 0.0)
    4.5
    """
    f = K @ weights + intercept
    s = np.ones(len(y)) if sample_weight is None else sample_weight
    penalty = 0.5 * float(weights @ K_basis @ weights) + (0.5 * intercept**2 if penalize_intercept else 0.0)
    return penalty + C * float(np.dot(s, loss.value(y, f)))


def stationarity(
    loss: Loss,
    C: float,
    features: Array,
    y: Array,
    w: Array,
    intercept: float,
    *,
    sample_weight: Array | None = None,
    fit_intercept: bool = True,
    penalize_intercept: bool = False,
    at_kink: float = 1e-7,
) -> float:
    """How far a point is from the optimality conditions, relative to the terms of the gradient: 0 at the minimum.

    The objective is ``1/2 |w|^2 + C sum_i s_i loss(y_i, f_i)`` with f = features w + b.  For a piecewise linear
    loss the rows within `at_kink` of a kink may take any slope between those beside it; the slopes that make the
    gradient smallest are found by bounded least squares, independently of any solver of kompakt.

    Parameters
    ----------
    loss : Loss
    C : float
    features : ndarray of shape (n, m)
    y : ndarray of shape (n,)
    w : ndarray of shape (m,)
    intercept : float
    sample_weight : ndarray of shape (n,), optional
    fit_intercept, penalize_intercept : bool
    at_kink : float
        Distance from a kink at which a row counts as lying on it.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.losses import Absolute
    >>> from kompakt.testing import stationarity
    >>> y = np.array([1.0, 2.0, 9.0])
    >>> none = np.zeros((3, 1))
    >>> stationarity(Absolute(), 1.0, none, y, np.zeros(1), 2.0) < 1e-9  # the median
    True
    >>> stationarity(Absolute(), 1.0, none, y, np.zeros(1), 4.0) > 0.3
    True
    """
    features = np.asarray(features, dtype=np.float64)
    s = np.ones(len(y)) if sample_weight is None else sample_weight
    f = features @ w + intercept
    A = np.column_stack([features, np.ones(len(y))]) if fit_intercept else features
    theta = np.append(w, intercept if penalize_intercept else 0.0) if fit_intercept else np.asarray(w)
    slopes = loss.gradient(y, f)
    # the last term keeps the measure sound where every loss and every weight is zero
    scale = float(np.linalg.norm(w) + C * np.sum(s * np.abs(slopes)) + 1e-6 * C * np.sum(s))
    if not isinstance(loss, PiecewiseLinear):
        return float(np.linalg.norm(theta + C * A.T @ (s * slopes))) / scale
    r = loss.residual(y, f)
    kink = np.argmin(np.abs(r[:, None] - loss.kinks), axis=1)
    free = (np.abs(r - loss.kinks[kink]) <= at_kink) & (s > 0)
    fixed = theta + C * A.T @ np.where(free, 0.0, s * slopes)
    if not free.any():
        return float(np.linalg.norm(fixed)) / scale
    pulls: Any = (C * s * loss.orientation(y))[free, None] * A[free]
    low, high = loss.slopes[kink[free]], loss.slopes[kink[free] + 1]
    found = lsq_linear(pulls.T, -fixed, bounds=(low, high), method="bvls", tol=1e-15, max_iter=10 * len(low))
    scale += C * float(np.sum(s[free] * np.abs(found.x)))
    return float(np.linalg.norm(fixed + pulls.T @ found.x)) / scale


@dataclass(frozen=True, eq=False)
class CountingKernel(Kernel):
    """Wrap a kernel and count its evaluations: what an estimator reports can then be checked.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> from kompakt.testing import CountingKernel
    >>> kernel = CountingKernel(RBF(1.0))
    >>> _ = kernel.block(np.zeros((3, 1)), np.zeros((2, 1)))
    >>> kernel.evaluations
    6
    """

    kernel: Kernel
    counts: list[int] = field(default_factory=list)  # appending is safe from several threads
    name: ClassVar[str] = "counting"

    @property
    def evaluations(self) -> int:
        """Values computed so far."""
        return sum(self.counts)

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        return self.kernel.shift_invariant

    @property
    def differentiable(self) -> bool:  # type: ignore[override]
        return self.kernel.differentiable

    def pre(self, X: Any, Z: Array) -> Array:
        self.counts.append(X.shape[0] * len(Z))
        return self.kernel.pre(X, Z)

    def finish(self, pre: Array) -> Array:
        return self.kernel.finish(pre)

    def diag(self, X: Any) -> Array:
        return self.kernel.diag(X)

    @property
    def theta(self) -> Array:
        return self.kernel.theta

    def with_theta(self, theta: Array) -> Kernel:
        return CountingKernel(self.kernel.with_theta(theta), self.counts)

    def gradients(self, X: Any, Z: Array, K: Array, W: Array) -> tuple[Array, Array]:
        return self.kernel.gradients(X, Z, K, W)

    def spec(self) -> dict[str, Any]:
        return self.kernel.spec()
