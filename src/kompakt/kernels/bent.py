"""The Gaussian kernel of features that bend: a piecewise-linear transform of each before widths or a map."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from kompakt.kernels.base import Array, Kernel, Matrix, dense
from kompakt.kernels.gaussian import MappedRBF
from kompakt.piecewise import PiecewiseLinear


@dataclass(frozen=True, eq=False)
class BentRBF(Kernel):
    """``exp(-|A (phi(x) - z)|^2)``: rows are transformed, the vectors live in the transformed space.

    So the penalty on the weights does not depend on the transform, and the kernel is not symmetric in its arguments:
    a row that becomes a vector must be transformed first (`take_basis`).

    Parameters
    ----------
    metric : RBF or MappedRBF
        Of the transformed features.
    transform : PiecewiseLinear
        phi.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF, BentRBF
    >>> from kompakt.piecewise import PiecewiseLinear
    >>> bend = PiecewiseLinear(np.array([[1.0]]), np.array([[1.0, 0.5]]))
    >>> BentRBF(RBF(1.0), bend).block(np.array([[3.0]]), np.array([[2.0]]))
    array([[1.]])
    """

    metric: Any
    transform: PiecewiseLinear
    name: ClassVar[str] = "bent_rbf"
    shift_invariant: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"BentRBF({self.metric}, {self.transform.slopes.shape[1]} pieces)"

    @property
    def gamma(self) -> Any:
        """The width of every transformed feature."""
        return self.metric.gamma

    def bent(self, X: Matrix) -> Array:
        """The transformed features of rows."""
        return self.transform(dense(X))

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "metric": self.metric.spec(), **vars(self.transform)}

    def block(self, X: Matrix, Z: Array) -> Array:
        return np.asarray(self.metric.block(self.bent(X), Z))

    def pre(self, X: Matrix, Z: Array) -> Array:
        return np.asarray(self.metric.pre(self.bent(X), Z))

    def finish(self, pre: Array) -> Array:
        return np.asarray(self.metric.finish(pre))

    def diag(self, X: Matrix) -> Array:
        return np.ones(X.shape[0])

    def gram(self, Z: Array) -> Array:
        return np.asarray(self.metric.gram(Z))

    def take_basis(self, rows: Any, indices: Array) -> Array:
        return self.bent(super().take_basis(rows, indices))

    def scaled(self, factor: float) -> BentRBF:
        return replace(self, metric=self.metric.scaled(factor))

    @property
    def theta(self) -> Array:
        return np.concatenate([self.metric.theta, self.transform.slopes.ravel() - 1.0])

    def with_theta(self, theta: Array) -> BentRBF:
        of_metric, of_slopes = np.split(theta, [len(self.metric.theta)])
        return BentRBF(self.metric.with_theta(of_metric), self.transform.with_slopes(1.0 + of_slopes))

    def gradients(self, X: Matrix, Z: Array, K: Array, W: Array) -> tuple[Array, Array]:
        W *= K
        return self._from_products(dense(X), self.bent(X), Z, W)

    def output_gradients(self, X: Matrix, Z: Array, K: Array, slopes: Array, weights: Array) -> tuple[Array, Array]:
        return self.bent_gradients(dense(X), self.bent(X), Z, K, slopes, weights)

    def bent_gradients(
        self, X: Array, features: Array, Z: Array, K: Array, slopes: Array, weights: Array
    ) -> tuple[Array, Array]:
        """`output_gradients` of rows whose transformed features are at hand."""
        V = slopes @ weights.T
        V *= K
        return self._from_products(X, features, Z, V)

    def gram_gradients(self, Z: Array, gram: Array, W: Array) -> tuple[Array, Array]:
        d_basis, d_metric = self.metric.gradients(Z, Z, gram, W)  # vectors are not transformed
        return d_basis, np.concatenate([d_metric, np.zeros(self.transform.slopes.size)])

    def _mapped(self, features: Array) -> Array:
        """A phi, in the type of the features."""
        if isinstance(self.metric, MappedRBF):
            return np.asarray(np.dot(features, self.metric.map.T.astype(features.dtype)))
        return np.asarray(features * np.sqrt(self.metric.gamma).astype(features.dtype))

    def _from_products(self, X: Array, features: Array, Z: Array, V: Array) -> tuple[Array, Array]:
        """Derivatives from V = W * K: dP = 2 (V Q - diag(V 1) P) and dQ = 2 (V'P - diag(V'1) Q)."""
        Z = np.asarray(Z, dtype=np.float64)
        P, Q = self._mapped(features), self._mapped(Z)
        ones = np.ones((max(V.shape), 1), dtype=V.dtype)
        with_sums = np.dot(V, np.hstack([Q.astype(V.dtype), ones[: len(Q)]]))
        dP = with_sums[:, :-1]
        dP -= with_sums[:, -1:] * P
        dP *= 2
        dQ = 2.0 * (np.dot(V.T, P) - np.dot(V.T, ones[: len(V)]).astype(np.float64) * Q)
        if isinstance(self.metric, MappedRBF):
            A = self.metric.map
            d_basis, d_features = dQ @ A, np.dot(dP, A.astype(dP.dtype))
            d_metric = (np.dot(dP.T, features) + dQ.T @ Z).ravel()
        else:
            root = np.sqrt(self.metric.gamma)
            d_basis, d_features = dQ * root, dP * root.astype(dP.dtype)
            each = np.einsum("if,if->f", dP, features) + np.einsum("jf,jf->f", dQ, Z)  # of the root
            d_metric = 0.5 * root * each if np.ndim(self.metric.gamma) else np.atleast_1d(0.5 * root * np.sum(each))
        d_slopes = self.transform.slope_gradient(X, d_features)
        return d_basis, np.concatenate([d_metric.astype(np.float64), d_slopes.ravel()])
