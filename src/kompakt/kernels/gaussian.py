"""The Gaussian (RBF) kernel: with one width, one per feature, or a linear map of the inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kompakt.kernels._exp import gaussian_finisher
from kompakt.kernels.base import Array, Kernel, Matrix, dense_rows, dot, one_output_sums, square_norms, tdot


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

    def scaled(self, factor: float) -> RBF:
        return RBF(self.gamma * factor)

    @property
    def theta(self) -> Array:
        return np.asarray(np.log(np.atleast_1d(self.gamma)))

    def with_theta(self, theta: Array) -> RBF:
        gamma = np.exp(theta)
        return RBF(gamma if self._per_feature else float(gamma[0]))

    def gradients(self, X: Matrix, Z: Array, K: Array, W: Array) -> tuple[Array, Array]:
        # dk/dz_j = 2 g k (x_i - z_j) and dk/dlog g_f = -g_f (x_f - z_f)^2 k; expanded, both need only W*K against X.
        X = dense_rows(X)
        W *= K
        products = tdot(W, X).astype(np.float64, copy=False)
        return self._from_sums(X, Z, products, *_row_and_column_sums(W))

    def output_gradients(self, X: Matrix, Z: Array, K: Array, slopes: Array, weights: Array) -> tuple[Array, Array]:
        X = dense_rows(X)
        if slopes.shape[1] > 1 or not isinstance(X, np.ndarray):
            return super().output_gradients(X, Z, K, slopes, weights)
        return self._from_sums(X, Z, *one_output_sums(K, slopes, weights, X))

    def _from_sums(self, X: Matrix, Z: Array, products: Array, rows: Array, columns: Array) -> tuple[Array, Array]:
        Z = np.asarray(Z, dtype=np.float64)
        d_basis = 2.0 * self.gamma * (products - columns[:, None] * Z)
        if self._per_feature:
            of_rows = np.asarray(X.multiply(X).T @ rows if not isinstance(X, np.ndarray) else rows @ np.square(X))
            d_theta = -self.gamma * (of_rows + columns @ Z**2 - 2.0 * np.einsum("jf,jf->f", Z, products))
        else:
            total = rows @ square_norms(X) + columns @ square_norms(Z) - 2.0 * np.vdot(Z, products)
            d_theta = np.array([-self.gamma * total])
        return d_basis, d_theta


def _row_and_column_sums(V: Array) -> tuple[Array, Array]:
    """V 1 and V'1 in float64; products are several times as fast as sums, and other sums over V are products too."""
    n, m = V.shape
    ones = np.ones(max(n, m), dtype=V.dtype)
    return np.dot(V, ones[:m]).astype(np.float64, copy=False), np.dot(ones[:n], V).astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class MappedRBF(Kernel):
    """Gaussian kernel of linearly mapped inputs, ``exp(-|A (x - z)|^2)``.

    Parameters
    ----------
    map : array of shape (rank, n_features)
        The matrix A: square, or of lower rank, which makes a block of values cheaper.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import MappedRBF
    >>> MappedRBF([[1.0, -1.0]]).block(np.array([[2.0, 2.0], [1.0, 0.0]]), np.zeros((1, 2))).round(4)
    array([[1.    ],
           [0.3679]])
    """

    map: Array
    name: ClassVar[str] = "mapped_rbf"
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        A = np.asarray(self.map, dtype=np.float64)
        if A.ndim != 2 or not A.size or not np.all(np.isfinite(A)):
            raise ValueError(
                f"map must be a matrix of finite numbers, one column per feature; got shape {A.shape}"
                f"{'' if np.all(np.isfinite(A)) else ' with NaN or infinity'}."
            )
        object.__setattr__(self, "map", A)

    def __repr__(self) -> str:
        return f"MappedRBF(map of shape {self.map.shape})"

    @property
    def gamma(self) -> Array:
        """The width of every feature where only that one differs: the diagonal of A'A."""
        return np.asarray(np.einsum("rf,rf->f", self.map, self.map))

    @property
    def rank(self) -> int:
        """Number of rows of the map."""
        return len(self.map)

    def directions(self) -> tuple[Array, Array]:
        """Eigenvalues of A'A in descending order, (rank,), and their directions in the rows of (rank, n_features)."""
        _, singular, directions = np.linalg.svd(self.map, full_matrices=False)
        return singular**2, directions

    def mapped(self, X: Matrix) -> Array:
        """The inputs A x, (n, rank)."""
        X = dense_rows(X)
        return dot(X, self.map.astype(np.result_type(X.dtype, np.float32)))

    def block(self, X: Matrix, Z: Array) -> Array:
        P = self.mapped(X)
        return RBF(1.0).block(P, self.mapped(Z.astype(P.dtype, copy=False)))

    def pre(self, X: Matrix, Z: Array) -> Array:
        P = self.mapped(X)
        return RBF(1.0).pre(P, self.mapped(Z.astype(P.dtype, copy=False)))

    def finish(self, pre: Array) -> Array:
        return RBF(1.0).finish(pre)

    def diag(self, X: Matrix) -> Array:
        return np.ones(X.shape[0])

    def scaled(self, factor: float) -> MappedRBF:
        return MappedRBF(self.map * np.sqrt(factor))  # its gamma is A'A

    @property
    def theta(self) -> Array:
        return self.map.ravel()

    def with_theta(self, theta: Array) -> MappedRBF:
        return MappedRBF(np.reshape(theta, self.map.shape))

    def gradients(self, X: Matrix, Z: Array, K: Array, W: Array) -> tuple[Array, Array]:
        # With V = W * K, P = X A' and Q = Z A': dQ = 2 (V'P - diag(V'1) Q) and dP = 2 (V Q - diag(V 1) P), from which
        # dZ = dQ A and dA = dP'X + dQ'Z.  V'P is (V'X) A' and Q'V'X is half of dP'X: at full rank one product suffices.
        X = dense_rows(X)
        W *= K
        P, Q = self.mapped(X), np.asarray(Z, dtype=np.float64) @ self.map.T
        rows, columns = _row_and_column_sums(W)
        if self._low_rank:
            sums, pulled = np.dot(W.T, P).astype(np.float64, copy=False), np.dot(W, Q.astype(W.dtype))
        else:
            sums, pulled = tdot(W, X).astype(np.float64, copy=False), None
        return self._from_sums(X, Z, P, Q, sums, rows, columns, pulled)

    def output_gradients(self, X: Matrix, Z: Array, K: Array, slopes: Array, weights: Array) -> tuple[Array, Array]:
        X = dense_rows(X)
        if slopes.shape[1] > 1 or not isinstance(X, np.ndarray):
            return super().output_gradients(X, Z, K, slopes, weights)
        P, Q = self.mapped(X), np.asarray(Z, dtype=np.float64) @ self.map.T
        sums, rows, columns = one_output_sums(K, slopes, weights, P if self._low_rank else X)
        pulled = slopes * np.dot(K, weights * Q.astype(K.dtype)) if self._low_rank else None
        return self._from_sums(X, Z, P, Q, sums, rows, columns, pulled)

    @property
    def _low_rank(self) -> bool:
        """Whether products with mapped inputs are so much shorter that two of them cost less than one with inputs."""
        return bool(2 * self.rank < self.map.shape[1])

    def _from_sums(
        self, X: Matrix, Z: Array, P: Array, Q: Array, sums: Array, rows: Array, columns: Array, pulled: Array | None
    ) -> tuple[Array, Array]:
        """The derivatives from V'P and V Q of a low rank, or from V'X of a high one, beside V 1 and V'1."""
        A, Z = self.map, np.asarray(Z, dtype=np.float64)
        at_rows = rows[:, None].astype(P.dtype) * P
        if pulled is not None:
            products, of_rows = sums, tdot((pulled - at_rows).astype(P.dtype, copy=False), X)
        else:
            products, of_rows = sums @ A.T, Q.T @ sums - tdot(at_rows, X)
        d_mapped = 2.0 * (products - columns[:, None] * Q)
        return d_mapped @ A, (2.0 * of_rows + d_mapped.T @ Z).ravel()
