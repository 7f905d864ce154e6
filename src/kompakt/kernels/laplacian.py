"""The Laplacian kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from kompakt.kernels._exp import gaussian_finisher, numba_available
from kompakt.kernels.base import Array, Kernel, Matrix


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


@cache
def _city_block() -> Callable[[Array, Array], Array]:
    """Sums of absolute differences, (n, m)."""
    if not numba_available():
        return lambda X, Z: cdist(X, Z, metric="cityblock").astype(X.dtype, copy=False)
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
