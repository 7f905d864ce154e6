"""Sums, products and constants of kernels; `1 + k` is the regularised threshold of Keerthi et al. 2006 (appendix)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from kompakt.kernels.base import Array, Kernel, Matrix


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

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value}


@dataclass(frozen=True)
class _Combined(Kernel):
    parts: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        if len(self.parts) < 2 or not all(isinstance(part, Kernel) for part in self.parts):
            raise TypeError(f"a {self.name} of kernels needs at least two kernel objects; got {self.parts!r}.")

    def __str__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self.parts))})"

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        return all(part.shift_invariant for part in self.parts)

    @property
    def differentiable(self) -> bool:  # type: ignore[override]
        return all(part.differentiable for part in self.parts)

    def pre(self, X: Matrix, Z: Array) -> Array:
        return self.block(X, Z)  # the parts keep no common quantity: nothing is left for `finish`

    def finish(self, pre: Array) -> Array:
        return pre

    @property
    def theta(self) -> Array:
        return np.concatenate([part.theta for part in self.parts])

    def _split_theta(self, theta: Array) -> tuple[Kernel, ...]:
        ends = np.cumsum([len(part.theta) for part in self.parts])[:-1]
        return tuple(part.with_theta(own) for part, own in zip(self.parts, np.split(theta, ends), strict=True))

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "parts": [part.spec() for part in self.parts]}


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

    def block(self, X: Matrix, Z: Array) -> Array:
        total = self.parts[0].block(X, Z)
        for part in self.parts[1:]:
            total += part.value if isinstance(part, Constant) else part.block(X, Z)
        return total

    def diag(self, X: Matrix) -> Array:
        return np.sum([part.diag(X) for part in self.parts], axis=0)

    def with_theta(self, theta: Array) -> Sum:
        return Sum(self._split_theta(theta))

    def gradients(self, X: Matrix, Z: Array, K: Array, W: Array) -> tuple[Array, Array]:
        d_basis, d_theta = np.zeros(Z.shape), []
        for part in self.parts:
            if isinstance(part, Constant):
                continue
            own_basis, own_theta = part.gradients(X, Z, part.block(X, Z), W.copy())
            d_basis += own_basis
            d_theta.append(own_theta)
        return d_basis, np.concatenate([np.empty(0), *d_theta])


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

    def block(self, X: Matrix, Z: Array) -> Array:
        total = self.parts[0].block(X, Z)
        for part in self.parts[1:]:
            total *= part.value if isinstance(part, Constant) else part.block(X, Z)
        return total

    def diag(self, X: Matrix) -> Array:
        return np.prod([part.diag(X) for part in self.parts], axis=0)

    def with_theta(self, theta: Array) -> Product:
        return Product(self._split_theta(theta))

    def gradients(self, X: Matrix, Z: Array, K: Array, W: Array) -> tuple[Array, Array]:
        blocks = [part.block(X, Z) for part in self.parts]
        d_basis, d_theta = np.zeros(Z.shape), []
        for own, part in enumerate(self.parts):
            others = W.copy()
            for index, block in enumerate(blocks):
                if index != own:
                    others *= block
            own_basis, own_theta = part.gradients(X, Z, blocks[own], others)
            d_basis += own_basis
            d_theta.append(own_theta)
        return d_basis, np.concatenate(d_theta)
