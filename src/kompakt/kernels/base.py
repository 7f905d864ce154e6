"""What a kernel is: block values, diagonal, and sums of derivatives.

Sums, products and constants of kernels are here too; `1 + k` is the regularised threshold of Keerthi et al. 2006
(appendix).

A kernel is split into `pre(X, Z)` (squared distances or dot products, free of the parameters that are tuned) and
`finish(pre)` (the rest, in place), so that a search over the parameters can keep `pre`.

Shapes: rows X (n, d), dense or CSR; basis vectors Z (m, d), always dense.  Values (n, m).
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kompakt.imports import sparse

if TYPE_CHECKING:
    from kompakt.data import Rows

Array = np.ndarray
Matrix = Any  # ndarray or scipy CSR


class Kernel(ABC):
    """Base class of all kernels; instances are immutable.

    A new kernel gives `pre`, `diag` and mostly `finish`, and for refinement `theta`, `with_theta` and `gradients`; one
    that is no dataclass of plain values also gives `spec`.
    """

    name: ClassVar[str] = ""
    #: unchanged when all inputs are shifted alike: rows may then be centred, which keeps float32 distances sound
    shift_invariant: ClassVar[bool] = False
    #: derivatives are available (refinement moves the basis vectors)
    differentiable: ClassVar[bool] = True

    @abstractmethod
    def pre(self, X: Matrix, Z: Array) -> Array:
        """The part that does not depend on the tuned parameters, (n, m), a new array."""

    def finish(self, pre: Array) -> Array:
        """Kernel values from `pre`, computed in place and returned; as it stands here, `pre` are the values."""
        return pre

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
        K = np.asarray(0.5 * (K + K.T))
        np.fill_diagonal(K, self.diag(Z))
        return K

    def take_basis(self, rows: Rows, indices: Array) -> Array:
        """The rows of a source (anything with `take`) that become basis vectors, dense."""
        return np.array(dense(rows.take(indices)))

    def scaled(self, factor: float) -> Kernel:
        """The kernel with `gamma` times `factor`, in all of its parts; the kernel itself where it has no width."""
        return self

    # -- derivatives ---------------------------------------------------------------------------------

    @property
    def theta(self) -> Array:
        """The parameters that can be learned, (p,): logarithms of those that must be positive."""
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

    def output_gradients(self, X: Matrix, Z: Array, K: Array, slopes: Array, weights: Array) -> tuple[Array, Array]:
        """`gradients` with W = slopes weights', slopes (n, L) of the losses and weights (m, L) of the vectors."""
        return self.gradients(X, Z, K, slopes @ weights.T)

    def gram_gradients(self, Z: Array, gram: Array, W: Array) -> tuple[Array, Array]:
        """`gradients` of sum_ij W_ij k(z_i, z_j) with a symmetric W, where only the second argument moves the basis."""
        return self.gradients(Z, Z, gram, W)

    # -- file format ---------------------------------------------------------------------------------

    def spec(self) -> dict[str, Any]:
        """Name and parameters as plain values, understood by `from_spec`."""
        return {"name": self.name, **vars(self)}

    def __add__(self, kernel: Kernel | float) -> Kernel:
        return Sum((self, kernel if isinstance(kernel, Kernel) else Constant(float(kernel))))

    __radd__ = __add__

    def __mul__(self, kernel: Kernel | float) -> Kernel:
        return Product((self, kernel if isinstance(kernel, Kernel) else Constant(float(kernel))))

    __rmul__ = __mul__


@dataclass(frozen=True)
class Constant(Kernel):
    """The constant kernel; `Constant(1) + RBF(g)` is the kernel `1 + k`.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> (1 + RBF(1.0)).block(np.zeros((1, 2)), np.zeros((1, 2)))
    array([[2.]])
    """

    value: float = 1.0
    name: ClassVar[str] = "constant"
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.value) and self.value >= 0):
            raise ValueError(f"a constant kernel needs a finite value >= 0 (else it is no kernel); got {self.value!r}.")

    def pre(self, X: Matrix, Z: Array) -> Array:
        # float64 for sparse rows, as every kernel does: a sum that begins with a constant keeps its precision
        dtype = np.float64 if sparse.issparse(X) else np.result_type(X.dtype, np.float32)
        return np.empty((X.shape[0], Z.shape[0]), dtype=dtype)

    def finish(self, pre: Array) -> Array:
        pre.fill(self.value)
        return pre

    def diag(self, X: Matrix) -> Array:
        return np.full(X.shape[0], self.value)

    def gradients(self, X: Matrix, Z: Array, K: Array, W: Array) -> tuple[Array, Array]:
        return np.zeros(Z.shape), np.empty(0)  # the constant is not learned: C plays its part


@dataclass(frozen=True)
class _Combined(Kernel):
    parts: tuple[Kernel, ...]
    combine: ClassVar[np.ufunc]

    def __post_init__(self) -> None:
        if len(self.parts) < 2 or not all(isinstance(kernel, Kernel) for kernel in self.parts):
            raise TypeError(f"a {self.name} of kernels needs at least two kernel objects; got {self.parts!r}.")

    def __str__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self.parts))})"

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        return all(kernel.shift_invariant for kernel in self.parts)

    @property
    def differentiable(self) -> bool:  # type: ignore[override]
        return all(kernel.differentiable for kernel in self.parts)

    def pre(self, X: Matrix, Z: Array) -> Array:
        return self.block(X, Z)  # the parts keep no common quantity: nothing is left for `finish`

    @property
    def theta(self) -> Array:
        return np.concatenate([kernel.theta for kernel in self.parts])

    def with_theta(self, theta: Array) -> Kernel:
        ends = np.cumsum([len(kernel.theta) for kernel in self.parts])[:-1]
        pairs = zip(self.parts, np.split(theta, ends), strict=True)
        return type(self)(tuple(kernel.with_theta(parameters) for kernel, parameters in pairs))

    def scaled(self, factor: float) -> Kernel:
        kernels = tuple(kernel.scaled(factor) for kernel in self.parts)
        return type(self)(kernels) if any(map(operator.is_not, kernels, self.parts)) else self

    def block(self, X: Matrix, Z: Array) -> Array:
        total = self.parts[0].block(X, Z)
        for kernel in self.parts[1:]:
            self.combine(total, kernel.value if isinstance(kernel, Constant) else kernel.block(X, Z), out=total)
        return total

    def diag(self, X: Matrix) -> Array:
        return np.asarray(self.combine.reduce([kernel.diag(X) for kernel in self.parts]))

    def gradients(self, X: Matrix, Z: Array, K: Array, W: Array) -> tuple[Array, Array]:
        blocks = [kernel.block(X, Z) for kernel in self.parts]
        d_basis, d_theta = np.zeros(Z.shape), [np.empty(0)]
        for place, kernel in enumerate(self.parts):
            if isinstance(kernel, Constant):
                continue
            factor = W.copy()
            if isinstance(self, Product):
                for block in blocks[:place] + blocks[place + 1 :]:
                    factor *= block
            kernel_basis, kernel_theta = kernel.gradients(X, Z, blocks[place], factor)
            d_basis += kernel_basis
            d_theta.append(kernel_theta)
        return d_basis, np.concatenate(d_theta)

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "parts": [kernel.spec() for kernel in self.parts]}


@dataclass(frozen=True)
class Sum(_Combined):
    """Sum of kernels; written `a + b`.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF, Linear
    >>> (Linear() + RBF(1.0)).block(np.ones((1, 1)), np.ones((1, 1)))
    array([[2.]])
    """

    name: ClassVar[str] = "sum"
    combine: ClassVar[np.ufunc] = np.add


@dataclass(frozen=True)
class Product(_Combined):
    """Product of kernels; written `a * b`.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF, Linear
    >>> (2 * Linear()).block(np.ones((1, 1)), np.ones((1, 1)))
    array([[2.]])
    """

    name: ClassVar[str] = "product"
    combine: ClassVar[np.ufunc] = np.multiply


def dense(X: Matrix) -> Array:
    """Rows as a dense array."""
    rows: Array = X.toarray() if sparse.issparse(X) else X
    return rows


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
    products: Array = np.dot(X, Z.T)
    return products


def tdot(M: Array, X: Matrix) -> Array:
    """M' X as a dense array, (m, d)."""
    if sparse.issparse(X):
        return np.asarray((X.T @ M).T)
    products: Array = np.dot(M.T, X)
    return products


def one_output_sums(K: Array, slopes: Array, weights: Array, X: Array) -> tuple[Array, Array, Array]:
    """V'X, V 1 and V'1 in float64 for V = K * (slopes weights') with one column each, which is not formed."""
    scaled = np.empty((len(X), X.shape[1] + 1), dtype=K.dtype)
    np.multiply(X, slopes, out=scaled[:, :-1])
    scaled[:, -1] = slopes[:, 0]
    sums = weights.astype(np.float64) * np.dot(K.T, scaled)
    return sums[:, :-1], (slopes * np.dot(K, weights))[:, 0].astype(np.float64), sums[:, -1]


def square_norms(X: Matrix, widths: Array | None = None) -> Array:
    """Row sums of x^2, or of widths * x^2."""
    if sparse.issparse(X):
        squares = X.multiply(X)
        return np.asarray(squares.sum(axis=1)).ravel() if widths is None else np.asarray(squares @ widths).ravel()
    norms: Array = np.einsum("ij,ij->i", X, X if widths is None else X * widths)
    return norms
