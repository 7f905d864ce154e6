"""Kernels of the dot product: linear and polynomial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kompakt.kernels.base import Array, Kernel, Matrix, dense_rows, dot, square_norms, tdot


class _DotKernel(Kernel):
    def pre(self, X: Matrix, Z: Array) -> Array:
        X = dense_rows(X)
        return dot(X, Z.astype(np.result_type(X.dtype, np.float32), copy=False))


@dataclass(frozen=True)
class Linear(_DotKernel):
    """Linear kernel ``x.z``.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import Linear
    >>> Linear().block(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """

    name: ClassVar[str] = "linear"

    def finish(self, pre: Array) -> Array:
        return pre

    def diag(self, X: Matrix) -> Array:
        return square_norms(X).astype(np.float64)

    def gradients(self, X: Matrix, Z: Array, K: Array, W: Array) -> tuple[Array, Array]:
        return tdot(W, dense_rows(X)).astype(np.float64, copy=False), np.empty(0)


@dataclass(frozen=True)
class Polynomial(_DotKernel):
    """Polynomial kernel ``(gamma x.z + coef0)^degree``.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import Polynomial
    >>> Polynomial(gamma=1.0, coef0=1.0, degree=2).block(np.array([[1.0]]), np.array([[2.0]]))
    array([[9.]])
    """

    gamma: float
    coef0: float = 0.0
    degree: int = 3
    name: ClassVar[str] = "poly"

    def __post_init__(self) -> None:
        if int(self.degree) != self.degree or self.degree < 1:
            raise ValueError(f"degree must be a whole number of at least 1; got {self.degree!r}.")
        if not (np.isfinite(self.gamma) and self.gamma >= 0 and np.isfinite(self.coef0)):
            raise ValueError(
                f"the polynomial kernel needs a finite gamma >= 0 and a finite coef0; "
                f"got gamma={self.gamma!r}, coef0={self.coef0!r}."
            )
        object.__setattr__(self, "degree", int(self.degree))

    def finish(self, pre: Array) -> Array:
        pre *= pre.dtype.type(self.gamma)
        pre += pre.dtype.type(self.coef0)
        return _power(pre, self.degree)

    def diag(self, X: Matrix) -> Array:
        return (self.gamma * square_norms(X).astype(np.float64) + self.coef0) ** self.degree

    @property
    def theta(self) -> Array:
        return np.log([self.gamma, self.coef0] if self.coef0 > 0 else [self.gamma])

    def with_theta(self, theta: Array) -> Polynomial:
        values = np.exp(theta)
        return Polynomial(float(values[0]), float(values[1]) if len(values) > 1 else self.coef0, self.degree)

    def gradients(self, X: Matrix, Z: Array, K: Array, W: Array) -> tuple[Array, Array]:
        X = dense_rows(X)
        products = self.pre(X, Z)
        base = products * products.dtype.type(self.gamma) + products.dtype.type(self.coef0)
        W *= self.degree * _power(base, self.degree - 1)
        d_basis = self.gamma * tdot(W, X).astype(np.float64, copy=False)
        d_log = [self.gamma * np.vdot(W.astype(np.float64), products)]
        if self.coef0 > 0:
            d_log.append(self.coef0 * W.sum(dtype=np.float64))
        return d_basis, np.array(d_log)


def _power(base: Array, degree: int) -> Array:
    """Integer power by squaring: a general `power` is some twenty times as slow."""
    result = None
    while degree:
        if degree & 1:
            result = base.copy() if result is None else result * base
        degree >>= 1
        if degree:
            base = base * base
    return np.ones_like(base) if result is None else result
