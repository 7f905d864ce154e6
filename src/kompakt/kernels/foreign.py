"""Kernels that kompakt cannot look into: callables and precomputed matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from kompakt.kernels.base import Array, Kernel, Matrix, dense


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

    def finish(self, pre: Array) -> Array:
        return pre

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

    def finish(self, pre: Array) -> Array:
        return pre

    def diag(self, X: Matrix) -> Array:
        raise TypeError("rows of a precomputed kernel do not know their own k(x, x).")

    def gram(self, Z: Array) -> Array:
        if self.training is None:
            raise TypeError("the basis of a precomputed kernel must be chosen among the training rows.")
        index = Z.ravel().astype(np.intp)
        K = np.asarray(dense(self.training[index][:, index]), dtype=np.float64)
        return 0.5 * (K + K.T)

    def take_basis(self, rows: Any, indices: Array) -> Array:
        numbers = rows.numbers
        return np.asarray(indices if numbers is None else numbers[indices], dtype=np.float64)[:, None]

    def spec(self) -> dict[str, Any]:
        raise TypeError(
            "a machine with a precomputed kernel cannot be saved or exported: its basis is a list of column numbers of "
            "your matrix, not vectors. Fit with a named kernel instead."
        )
