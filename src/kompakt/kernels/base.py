"""What a kernel is: block values, diagonal, and sums of derivatives.

A kernel is split into `pre(X, Z)` (squared distances or dot products, free of the parameters that are tuned) and
`finish(pre)` (the rest, in place), so that a search over the parameters can keep `pre`.

Shapes: rows X (n, d), dense or CSR; basis vectors Z (m, d), always dense.  Values (n, m).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

Array = np.ndarray
Matrix = Any  # ndarray or scipy CSR


class Kernel(ABC):
    """Base class of all kernels; instances are immutable.

    A new kernel gives `pre`, `finish` and `diag`, and for refinement `theta`, `with_theta` and `gradients`.
    """

    name: ClassVar[str] = ""
    #: unchanged when all inputs are shifted alike: rows may then be centred, which keeps float32 distances sound
    shift_invariant: ClassVar[bool] = False
    #: derivatives are available (refinement moves the basis vectors)
    differentiable: ClassVar[bool] = True

    @abstractmethod
    def pre(self, X: Matrix, Z: Array) -> Array:
        """The part that does not depend on the tuned parameters, (n, m), a new array."""

    @abstractmethod
    def finish(self, pre: Array) -> Array:
        """Kernel values from `pre`, computed in place and returned."""

    @abstractmethod
    def diag(self, X: Matrix) -> Array:
        """k(x, x) for every row, (n,)."""

    def block(self, X: Matrix, Z: Array) -> Array:
        """Kernel values of rows against basis vectors, (n, m)."""
        return self.finish(self.pre(X, Z))

    def gram(self, Z: Array) -> Array:
        """Kernel matrix of the basis in float64, exactly symmetric, with its exact diagonal."""
        Z = np.asarray(Z, dtype=np.float64)
        K = self.block(Z, Z)
        K = 0.5 * (K + K.T)
        np.fill_diagonal(K, self.diag(Z))
        return K

    def take_basis(self, rows: Any, indices: Array) -> Array:
        """The rows of a source (anything with `take`) that become basis vectors, dense."""
        Z = rows.take(indices)
        return Z.toarray() if sparse.issparse(Z) else np.array(Z)

    # -- derivatives ---------------------------------------------------------------------------------

    @property
    def theta(self) -> Array:
        """Logarithms of the parameters that can be learned, (p,)."""
        return np.empty(0)

    def with_theta(self, theta: Array) -> Kernel:
        """The same kernel with other parameters."""
        if len(theta):
            raise ValueError(f"the {self.name} kernel has no parameter to learn; got theta of length {len(theta)}.")
        return self

    def gradients(self, X: Matrix, Z: Array, K: Array, W: Array) -> tuple[Array, Array]:
        """Derivatives of sum_ij W_ij k(x_i, z_j) with respect to Z (m, d) and theta (p,).

        `K` are the block's values; `W` is overwritten.
        """
        raise TypeError(f"the {self.name} kernel has no derivatives, so its basis cannot be refined.")

    # -- file format ---------------------------------------------------------------------------------

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Name and parameters as plain values, understood by `from_spec`."""

    def __add__(self, other: Kernel | float) -> Kernel:
        from kompakt.kernels.combine import Constant, Sum

        return Sum((self, other if isinstance(other, Kernel) else Constant(float(other))))

    __radd__ = __add__

    def __mul__(self, other: Kernel | float) -> Kernel:
        from kompakt.kernels.combine import Constant, Product

        return Product((self, other if isinstance(other, Kernel) else Constant(float(other))))

    __rmul__ = __mul__


def dense_rows(X: Matrix) -> Matrix:
    """CSR rows as a dense block where that makes the products faster.

    A sparse-dense product runs at a small share of BLAS speed: it loses as soon as more than a few per cent of the
    entries are stored.  Distances of CSR rows are formed in float64, because such rows are never centred.
    """
    if not sparse.issparse(X):
        return X
    if X.nnz > 0.03 * X.shape[0] * X.shape[1] or X.shape[1] <= 64:
        return X.toarray().astype(np.float64, copy=False)
    return X.astype(np.float64, copy=False)


def dot(X: Matrix, Z: Array) -> Array:
    """X Z' as a dense, C-ordered array."""
    if sparse.issparse(X):
        return np.ascontiguousarray(X @ Z.T)
    return np.dot(X, Z.T)


def tdot(M: Array, X: Matrix) -> Array:
    """M' X as a dense array, (m, d)."""
    if sparse.issparse(X):
        return np.asarray((X.T @ M).T)
    return np.dot(M.T, X)


def square_norms(X: Matrix, widths: Array | None = None) -> Array:
    """Row sums of x^2, or of widths * x^2."""
    if sparse.issparse(X):
        squares = X.multiply(X)
        return np.asarray(squares.sum(axis=1)).ravel() if widths is None else np.asarray(squares @ widths).ravel()
    return np.einsum("ij,ij->i", X, X if widths is None else X * widths)
