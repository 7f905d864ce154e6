"""Kernels: block values, diagonal and derivatives; nothing here knows of data sources or losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kompakt.kernels.base import Kernel
from kompakt.kernels.combine import Constant, Product, Sum
from kompakt.kernels.foreign import CallableKernel, Precomputed
from kompakt.kernels.gaussian import RBF, MappedRBF
from kompakt.kernels.laplacian import Laplacian
from kompakt.kernels.products import Linear, Polynomial

__all__ = [
    "RBF",
    "CallableKernel",
    "Constant",
    "Kernel",
    "Laplacian",
    "Linear",
    "MappedRBF",
    "Polynomial",
    "Precomputed",
    "Product",
    "Sum",
    "from_spec",
    "make_kernel",
]

#: names that a constructor accepts; the "choose from" message is written from it
NAMES: dict[str, Callable[[Any, float, int], Kernel]] = {
    "rbf": lambda gamma, coef0, degree: RBF(gamma),
    "laplacian": lambda gamma, coef0, degree: Laplacian(gamma),
    "poly": lambda gamma, coef0, degree: Polynomial(gamma, coef0, degree),
    "linear": lambda gamma, coef0, degree: Linear(),
    "precomputed": lambda gamma, coef0, degree: Precomputed(),
}


def make_kernel(kernel: Any, *, gamma: Any = 1.0, coef0: float = 0.0, degree: int = 3) -> Kernel:
    """The kernel object for a name, a function or a kernel object.

    Examples
    --------
    >>> from kompakt.kernels import make_kernel
    >>> make_kernel("poly", gamma=2.0, degree=2)
    Polynomial(gamma=2.0, coef0=0.0, degree=2)
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str) and kernel in NAMES:
        return NAMES[kernel](gamma, coef0, degree)
    if callable(kernel):
        return CallableKernel(kernel)
    raise ValueError(
        f"kernel must be one of {sorted(NAMES)}, a function (X, Z) -> values, or a kernel object; got {kernel!r}."
    )


def from_spec(spec: dict[str, Any]) -> Kernel:
    """The kernel that `Kernel.spec` described.

    Examples
    --------
    >>> from kompakt.kernels import RBF, from_spec
    >>> from_spec((1 + RBF(2.0)).spec()).parts[0]
    RBF(gamma=2.0)
    """
    values = dict(spec)
    name = values.pop("name", None)
    if name in ("sum", "product"):
        parts = tuple(from_spec(part) for part in values["parts"])
        return Sum(parts) if name == "sum" else Product(parts)
    kinds: dict[Any, Callable[..., Kernel]] = {
        "rbf": RBF, "mapped_rbf": MappedRBF, "laplacian": Laplacian, "poly": Polynomial, "linear": Linear,
        "constant": Constant,
    }  # fmt: skip
    if name not in kinds:
        raise ValueError(
            f"unknown kernel {name!r} in a kernel description; expected one of {sorted(kinds)}, sum, product."
        )
    return kinds[name](**values)
