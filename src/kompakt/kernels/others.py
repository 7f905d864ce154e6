"""Every kernel but the Gaussian: Laplacian, linear, polynomial, and those of the user (functions and matrices)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kompakt.imports import sparse
from kompakt.kernels._exp import gaussian_finisher

if TYPE_CHECKING:
    from kompakt.data import Rows
from kompakt.kernels.base import Array, Kernel, Matrix, dense, dense_rows, dot, square_norms, tdot
from kompakt.parallel import numba_available


@dataclass(frozen=True)
class Laplacian(Kernel):
    """Laplacian kernel ``exp(-gamma sum_f |x_f - z_f|)``.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import Laplacian
    >>> Laplacian(1.0).block(np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])).round(4)
    array([[0.1353]])
    """

    gamma: float
    name: ClassVar[str] = "laplacian"
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.gamma) and self.gamma >= 0):
            raise ValueError(f"gamma must be a finite number >= 0; got {self.gamma!r}.")

    def pre(self, X: Matrix, Z: Array) -> Array:
        X = _contiguous(X)
        return _city_block()(X, np.ascontiguousarray(Z, dtype=X.dtype))

    def finish(self, pre: Array) -> Array:
        zero = np.zeros(max(pre.shape), dtype=pre.dtype)
        gaussian_finisher()(pre, zero[: pre.shape[0]], zero[: pre.shape[1]], -self.gamma)
        return pre

    def diag(self, X: Matrix) -> Array:
        return np.ones(X.shape[0])

    def scaled(self, factor: float) -> Laplacian:
        return Laplacian(self.gamma * factor)

    @property
    def theta(self) -> Array:
        return np.log([self.gamma])

    def with_theta(self, theta: Array) -> Laplacian:
        return Laplacian(float(np.exp(theta[0])))

    def gradients(self, X: Matrix, Z: Array, K: Array, W: Array) -> tuple[Array, Array]:
        # dk/dz_jf = gamma k sign(x_if - z_jf); d/dlog gamma = -gamma * distance * k
        X = _contiguous(X)
        Z = np.asarray(Z, dtype=X.dtype)
        W *= K
        d_basis = np.empty(Z.shape)
        for feature in range(Z.shape[1]):
            signs = np.sign(X[:, feature, None] - Z[:, feature])
            d_basis[:, feature] = self.gamma * np.einsum("ij,ij->j", W, signs)
        d_theta = -self.gamma * np.vdot(W.astype(np.float64), self.pre(X, Z))
        return d_basis, np.array([d_theta])


def _contiguous(X: Matrix) -> Array:
    X = X.toarray().astype(np.float64, copy=False) if sparse.issparse(X) else X
    return np.ascontiguousarray(X, dtype=np.result_type(X.dtype, np.float32))


def _city_block() -> Callable[[Array, Array], Array]:
    """Sums of absolute differences, (n, m)."""
    return _compiled_city_block() if numba_available() else _city_block_of_scipy


def _city_block_of_scipy(X: Array, Z: Array) -> Array:
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(X, Z, metric="cityblock").astype(X.dtype, copy=False))


@cache
def _compiled_city_block() -> Callable[[Array, Array], Array]:
    import numba

    @numba.njit(nogil=True, error_model="numpy", cache=True)
    def accumulate(X, Zt, out):  # type: ignore[no-untyped-def]
        for i in range(X.shape[0]):
            for f in range(X.shape[1]):
                value = X[i, f]
                for j in range(Zt.shape[1]):  # innermost over basis vectors: vectorises without reordering sums
                    out[i, j] += abs(value - Zt[f, j])

    def distances(X: Array, Z: Array) -> Array:
        out = np.zeros((X.shape[0], Z.shape[0]), dtype=X.dtype)
        accumulate(X, np.ascontiguousarray(Z.T), out)
        return out

    return distances


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

    def scaled(self, factor: float) -> Polynomial:
        return Polynomial(self.gamma * factor, self.coef0, self.degree)

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


@dataclass(frozen=True)
class CallableKernel(Kernel):
    """A user's function ``f(X, Z) -> (n, m)``, as in scikit-learn."""

    function: Callable[[Any, Any], Any]
    name: ClassVar[str] = "callable"
    differentiable: ClassVar[bool] = False

    def pre(self, X: Matrix, Z: Array) -> Array:
        values = np.array(self.function(X, Z), dtype=np.result_type(X.dtype, np.float32))
        if values.shape != (X.shape[0], Z.shape[0]):
            raise ValueError(
                f"the kernel function must return an array of shape {(X.shape[0], Z.shape[0])} "
                f"(rows, basis vectors); got {values.shape}."
            )
        return values

    def diag(self, X: Matrix) -> Array:
        return np.array([float(self.pre(X[i : i + 1], dense(X[i : i + 1]))[0, 0]) for i in range(X.shape[0])])

    def gram(self, Z: Array) -> Array:
        K = np.asarray(self.pre(np.asarray(Z, dtype=np.float64), Z), dtype=np.float64)
        return 0.5 * (K + K.T)

    def spec(self) -> dict[str, Any]:
        raise TypeError(
            "a machine with a callable kernel cannot be saved or exported: the file would have to hold code. "
            "Use a named kernel, or pickle the estimator if you trust the file."
        )


@dataclass(frozen=True, eq=False)
class Precomputed(Kernel):
    """Rows are rows of a kernel matrix against the training rows; a basis "vector" is a column number, (m, 1).

    `training` is that matrix for the training rows, needed for the kernel matrix of the basis while fitting.
    """

    training: Any = field(default=None, repr=False)
    name: ClassVar[str] = "precomputed"
    differentiable: ClassVar[bool] = False

    def pre(self, X: Matrix, Z: Array) -> Array:
        return np.array(dense(X[:, Z.ravel().astype(np.intp)]))

    def diag(self, X: Matrix) -> Array:
        raise TypeError("rows of a precomputed kernel do not know their own k(x, x).")

    def gram(self, Z: Array) -> Array:
        if self.training is None:
            raise TypeError("the basis of a precomputed kernel must be chosen among the training rows.")
        index = Z.ravel().astype(np.intp)
        K = np.asarray(dense(self.training[index][:, index]), dtype=np.float64)
        return 0.5 * (K + K.T)

    def take_basis(self, rows: Rows, indices: Array) -> Array:
        numbers = rows.numbers
        return np.asarray(indices if numbers is None else numbers[indices], dtype=np.float64)[:, None]

    def spec(self) -> dict[str, Any]:
        raise TypeError(
            "a machine with a precomputed kernel cannot be saved or exported: its basis is a list of column numbers of "
            "your matrix, not vectors. Fit with a named kernel instead."
        )
