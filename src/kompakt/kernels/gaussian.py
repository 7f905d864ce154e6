"""The Gaussian (RBF) kernel, with one width or one per feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kompakt.kernels._exp import gaussian_finisher
from kompakt.kernels.base import Array, Kernel, Matrix, dense_rows, dot, square_norms, tdot


@dataclass(frozen=True, eq=False)
class RBF(Kernel):
    """Gaussian kernel ``exp(-gamma |x - z|^2)``, or ``exp(-sum_f gamma_f (x_f - z_f)^2)``.

    Parameters
    ----------
    gamma : float or array of shape (n_features,)
        One width for all features, or one per feature.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> RBF(0.5).block(np.array([[0.0], [2.0]]), np.array([[0.0]])).round(4)
    array([[1.    ],
           [0.1353]])
    """

    gamma: Any
    name: ClassVar[str] = "rbf"
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        gamma = np.asarray(self.gamma, dtype=np.float64)
        if gamma.ndim > 1 or not np.all(np.isfinite(gamma)) or np.any(gamma < 0):
            raise ValueError(
                "gamma must be a non-negative number, or one per feature; "
                f"got {self.gamma!r}. Give a finite number, or 'scale'."
            )
        object.__setattr__(self, "gamma", float(gamma) if gamma.ndim == 0 else gamma)

    @property
    def _per_feature(self) -> bool:
        return isinstance(self.gamma, np.ndarray)

    def __str__(self) -> str:
        """`repr` without the numbers of many features."""
        if not self._per_feature or len(self.gamma) <= 6:
            return repr(self)
        return f"RBF(gamma=[{len(self.gamma):,} numbers from {self.gamma.min():.3g} to {self.gamma.max():.3g}])"

    def block(self, X: Matrix, Z: Array) -> Array:
        # exp(2 g x.z - g |x|^2 - g |z|^2): one matrix product, then one pass over the block.
        X = dense_rows(X)
        dtype = np.result_type(X.dtype, np.float32)
        Z = Z.astype(dtype, copy=False)
        if self._per_feature:
            widths = self.gamma.astype(dtype)
            product = dot(X, Z * widths)
            rows, columns, scale = square_norms(X, widths), square_norms(Z, widths), 2.0
        else:
            product = dot(X, Z)
            g = dtype.type(self.gamma)
            rows, columns, scale = g * square_norms(X), g * square_norms(Z), 2.0 * self.gamma
        gaussian_finisher()(product, rows, columns, scale)
        return product

    def pre(self, X: Matrix, Z: Array) -> Array:
        X = dense_rows(X)
        Z = Z.astype(np.result_type(X.dtype, np.float32), copy=False)
        widths = self.gamma.astype(Z.dtype) if self._per_feature else None
        distances = dot(X, Z if widths is None else Z * widths)
        distances *= -2
        distances += square_norms(X, widths)[:, None]
        distances += square_norms(Z, widths)
        np.maximum(distances, 0, out=distances)
        return distances

    def finish(self, pre: Array) -> Array:
        zero = np.zeros(max(pre.shape), dtype=pre.dtype)
        gaussian_finisher()(pre, zero[: pre.shape[0]], zero[: pre.shape[1]], -1.0 if self._per_feature else -self.gamma)
        return pre

    def diag(self, X: Matrix) -> Array:
        return np.ones(X.shape[0])

    @property
    def theta(self) -> Array:
        return np.log(np.atleast_1d(self.gamma))

    def with_theta(self, theta: Array) -> RBF:
        gamma = np.exp(theta)
        return RBF(gamma if self._per_feature else float(gamma[0]))

    def gradients(self, X: Matrix, Z: Array, K: Array, W: Array) -> tuple[Array, Array]:
        # dk/dz_j = 2 g k (x_i - z_j) and dk/dlog g_f = -g_f (x_f - z_f)^2 k; expanded, both need only W*K against X.
        X = dense_rows(X)
        W *= K
        columns = W.sum(axis=0, dtype=np.float64)
        products = tdot(W, X).astype(np.float64, copy=False)
        Z = np.asarray(Z, dtype=np.float64)
        d_basis = 2.0 * self.gamma * (products - columns[:, None] * Z)
        rows = W.sum(axis=1, dtype=np.float64)
        if self._per_feature:
            of_rows = np.asarray(X.multiply(X).T @ rows if not isinstance(X, np.ndarray) else rows @ np.square(X))
            d_theta = -self.gamma * (of_rows + columns @ Z**2 - 2.0 * np.einsum("jf,jf->f", Z, products))
        else:
            total = rows @ square_norms(X) + columns @ square_norms(Z) - 2.0 * np.vdot(Z, products)
            d_theta = np.array([-self.gamma * total])
        return d_basis, d_theta

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "gamma": self.gamma}
