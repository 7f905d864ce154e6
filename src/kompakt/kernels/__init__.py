"""Kernels: block values, diagonal and derivatives; nothing here knows of data sources or losses."""

from __future__ import annotations

from typing import Any

from kompakt.kernels.base import Constant, Kernel, Product, Sum
from kompakt.kernels.bent import BentRBF
from kompakt.kernels.gaussian import RBF, MappedRBF
from kompakt.kernels.others import CallableKernel, Laplacian, Linear, Polynomial, Precomputed
from kompakt.piecewise import PiecewiseLinear

__all__ = [
    "RBF", "BentRBF", "CallableKernel", "Constant", "Kernel", "Laplacian", "Linear", "MappedRBF", "Polynomial",
    "Precomputed", "Product", "Sum", "from_spec", "make_kernel",
]  # fmt: skip

#: names that a constructor accepts
NAMES: dict[str, type[Kernel]] = {kind.name: kind for kind in (RBF, Laplacian, Polynomial, Linear, Precomputed)}
#: parts of a description, and of a file
DESCRIBED: dict[str, type[Kernel]] = {
    kind.name: kind for kind in (RBF, MappedRBF, Laplacian, Polynomial, Linear, Constant)
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
        parameters = {"gamma": gamma, "coef0": coef0, "degree": degree}
        return NAMES[kernel](**{key: parameters[key] for key in parameters if key in NAMES[kernel].__annotations__})
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
        kernels = tuple(from_spec(description) for description in values["parts"])
        return Sum(kernels) if name == "sum" else Product(kernels)
    if name == BentRBF.name:
        return BentRBF(from_spec(values.pop("metric")), PiecewiseLinear(**values))
    if name not in DESCRIBED:
        raise ValueError(
            f"unknown kernel {name!r} in a kernel description; expected one of {sorted(DESCRIBED)}, sum, product."
        )
    return DESCRIBED[name](**values)
