"""What LIBSVM cannot hold in a model file, moved elsewhere: constants into the weights, scaling into a range file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kompakt.formats.errors import UnsupportedModelError
from kompakt.kernels import RBF, Constant, Kernel, Linear, Polynomial, Product, Sum
from kompakt.model import Model

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Scaling:
    """x' = (x - shift) / scale per feature; an infinite scale drops the feature."""

    shift: Array
    scale: Array

    def range_text(self) -> str:
        """The file for ``svm-scale -r``: feature minimum -> 0 and maximum -> 1, so x' = (x - min) / (max - min)."""
        dropped = np.isinf(self.scale)
        lower = np.where(dropped, 0.0, self.shift)
        upper = np.where(dropped, 0.0, self.shift + np.where(dropped, 0.0, self.scale))  # equal: svm-scale skips it
        kept = ~dropped
        if np.any(np.abs((upper - lower)[kept] - self.scale[kept]) > 1e-9 * np.abs(self.scale[kept])):
            raise UnsupportedModelError(
                "a feature's shift is so large beside its scale that a range file of minimum and maximum loses it. "
                "Centre the data before fitting."
            )
        lines = ["x", "0 1"]
        lines += [f"{i} {a!r} {b!r}" for i, (a, b) in enumerate(zip(lower.tolist(), upper.tolist(), strict=True), 1)]
        return "\n".join(lines) + "\n"


def plain_kernel(kernel: Kernel) -> tuple[Kernel, float, float]:
    """(core, factor, addend) with kernel = factor * core + addend and a core that LIBSVM has."""
    kernel.spec()  # callable and precomputed kernels say why they cannot be written
    if isinstance(kernel, Sum | Product):
        constants = [part.value for part in kernel.parts if isinstance(part, Constant)]
        others = [part for part in kernel.parts if not isinstance(part, Constant)]
        if len(others) == 1:
            core, factor, addend = plain_kernel(others[0])
            if isinstance(kernel, Sum):
                return core, factor, addend + float(np.sum(constants))
            return core, factor * float(np.prod(constants)), addend * float(np.prod(constants))
    if type(kernel) in (RBF, Linear, Polynomial):
        return kernel, 1.0, 0.0
    raise UnsupportedModelError(
        f"LIBSVM has no {kernel.name} kernel like {kernel!r}; it has linear, polynomial and RBF. Fit with one of "
        "these, or use another export."
    )


def scaled_basis(model: Model, kernel: Kernel) -> tuple[Kernel, Array, Scaling | None]:
    """Kernel with one width, the basis it sees, and the scaling of the inputs that leads there."""
    basis = np.asarray(model.basis, dtype=np.float64)
    shift = np.zeros(model.n_features) if model.input_shift is None else np.asarray(model.input_shift, dtype=float)
    scale = np.ones(model.n_features) if model.input_scale is None else np.asarray(model.input_scale, dtype=float)
    if isinstance(kernel, RBF) and isinstance(kernel.gamma, np.ndarray):
        widths = kernel.gamma
        if len(widths) and np.all(widths == widths[0]):
            kernel = RBF(float(widths[0]))
        else:
            # gamma_f (x_f - z_f)^2 = (sqrt(gamma_f) x_f - sqrt(gamma_f) z_f)^2
            root = np.sqrt(widths)
            kernel, basis = RBF(1.0), basis * root
            scale = np.where(root > 0, scale / np.where(root > 0, root, 1.0), np.inf)
    if np.all(shift == 0) and np.all(scale == 1):
        return kernel, basis, None
    return kernel, basis, Scaling(shift, scale)
