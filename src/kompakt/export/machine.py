"""A model as the exporters see it: plain float64 arrays, the scaling folded in, and a kernel they can write down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kompakt.codings import get_coding
from kompakt.formats.errors import UnsupportedModelError
from kompakt.formats.files import model_of
from kompakt.kernels import RBF, Constant, Kernel, Laplacian, Linear, Polynomial, Product, Sum
from kompakt.model import Model

Array = np.ndarray
_LEAVES = (RBF, Laplacian, Linear, Polynomial, Constant)


@dataclass(frozen=True, eq=False)
class Machine:
    """f(x) = sum_j weights_j k((filled(x) - shift) * factor, basis_j) + intercept, and how f becomes labels.

    Parameters
    ----------
    kernel : Kernel
        RBF, Laplacian, linear, polynomial, constant, or sums and products of them.
    basis, weights, intercept : ndarray of shape (m, d), (m, L), (L,)
    kind : {"classifier", "regressor", "outlier"}
    n_scores : int
        Number of decision values per row: 1 for two classes.
    fill, shift, factor : ndarray of shape (d,), optional
        None where it would do nothing.
    classes : ndarray, optional
        Labels: text, whole numbers, floats or booleans, never objects.
    codes : ndarray of shape (n_classes, L), optional
        For codings that vote: scores = votes_base + sum of code * sign(f) / 2 + squashed sum of code * f.
    votes_base : float
    calibration : dict, optional
    squeeze : bool
    """

    kernel: Kernel
    basis: Array
    weights: Array
    intercept: Array
    kind: str
    n_scores: int
    fill: Array | None = None
    shift: Array | None = None
    factor: Array | None = None
    classes: Array | None = None
    codes: Array | None = None
    votes_base: float = 0.0
    calibration: dict[str, Array] | None = None
    squeeze: bool = True

    @property
    def flat(self) -> bool:
        """Whether the decision values are (n,) rather than (n, n_scores)."""
        return self.n_scores == 1 and (self.kind != "regressor" or self.squeeze)


def machine_of(model: Model, *, single: bool = False) -> Machine:
    """The plain arrays of a model; with `single`, a shift that float32 holds exactly."""
    check_kernel(model.kernel)
    weights, intercept = _f8(model.weights), _f8(model.intercept)
    if not len(weights):  # nothing but an intercept: formats want at least one vector
        model = replace(model, basis=np.zeros((1, model.n_features)), weights=np.zeros((1, weights.shape[1])))
        weights = _f8(model.weights)
    classes, codes, base, n_scores = None, None, 0.0, weights.shape[1]
    if model.kind == "classifier":
        classes = plain_classes(model.classes_)
        n_scores = 1 if len(classes) <= 2 else len(classes)
        if len(classes) == 1:  # its decision value is 0 whatever the weights are
            weights, intercept = np.zeros((len(weights), 1)), np.zeros(1)
        coding = get_coding(model.coding or "one_vs_rest")
        if len(classes) > 2 and coding.name != "one_vs_rest":
            codes = coding.codes(len(classes))
            base = 0.5 * (len(classes) - 1) if coding.name == "one_vs_one" else -0.5 * codes.shape[1]
    kernel, constant = factored(model.kernel)
    weights = weights * constant
    basis, shift, factor = _folded(model, single)
    if isinstance(kernel, RBF) and isinstance(kernel.gamma, np.ndarray):
        root = np.sqrt(kernel.gamma)  # gamma_f (x_f - z_f)^2 = (root_f x_f - root_f z_f)^2
        kernel, basis, factor = RBF(1.0), basis * root, factor * root
    return Machine(
        kernel=kernel,
        basis=basis,
        weights=weights,
        intercept=intercept,
        kind=model.kind,
        n_scores=n_scores,
        fill=None if model.input_fill is None else _f8(model.input_fill),
        shift=shift if np.any(shift != 0) else None,
        factor=factor if np.any(factor != 1) else None,
        classes=classes,
        codes=codes,
        votes_base=base,
        calibration=model.calibration,
        squeeze=model.squeeze,
    )


def _folded(model: Model, single: bool) -> tuple[Array, Array, Array]:
    """Basis, shift and factor; rows are centred on the basis where the kernel allows it.

    Distances formed from dot products, and sums in float32, lose the digits that rows far from the origin share.
    """
    basis, d = _f8(model.basis), model.n_features
    shift = np.zeros(d) if model.input_shift is None else _f8(model.input_shift)
    scale = np.ones(d) if model.input_scale is None else _f8(model.input_scale)
    centre = basis.mean(axis=0) if model.kernel.shift_invariant and len(basis) else model.offset
    if centre is not None:
        # The rounded shift is what the rows will meet, so the basis is moved by exactly that much.
        moved = shift + _f8(centre) * scale
        moved = moved.astype(np.float32).astype(np.float64) if single else moved
        basis, shift = basis - (moved - shift) / scale, moved
    return basis, shift, 1.0 / scale


def check_kernel(kernel: Kernel) -> None:
    """Raise for a kernel that no exporter can write down, saying why."""
    kernel.spec()  # callable and precomputed kernels say why
    for part in parts_of(kernel):
        if type(part) not in (*_LEAVES, Sum, Product):
            raise UnsupportedModelError(
                f"the kernel {part!r} cannot be exported: an exporter must write its formula, and knows RBF, "
                "Laplacian, linear, polynomial and constant kernels, and sums and products of these."
            )


def factored(kernel: Kernel) -> tuple[Kernel, float]:
    """(core, factor) with kernel = factor * core, where the core is no product with a constant."""
    if not isinstance(kernel, Product):
        return kernel, 1.0
    pairs = [(Constant(), part.value) if isinstance(part, Constant) else factored(part) for part in kernel.parts]
    cores = [core for core, _ in pairs if not isinstance(core, Constant)]
    factor = float(np.prod([value for _, value in pairs]))
    return (Product(tuple(cores)) if len(cores) > 1 else cores[0] if cores else Constant(1.0)), factor


def parts_of(kernel: Kernel) -> Iterator[Kernel]:
    """The kernel and all kernels inside it."""
    yield kernel
    for part in getattr(kernel, "parts", ()):
        yield from parts_of(part)


def plain_classes(classes: Array) -> Array:
    """Labels in an array of their own type."""
    labels = np.asarray(classes)
    if labels.dtype.kind == "O" and len({type(label) for label in labels.tolist()}) == 1:
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "T":
        labels = labels.astype(str)
    if labels.dtype.kind not in "Ubiuf":
        raise UnsupportedModelError(
            f"labels of dtype {labels.dtype} cannot be exported; expected text, whole numbers, floats or booleans."
        )
    if labels.dtype.kind == "u" and np.any(labels > np.uint64(2**63 - 1)):
        raise UnsupportedModelError("a label is beyond the 64-bit integers of the other side.")
    return labels


def _f8(values: Any) -> Array:
    return np.array(values, dtype=np.float64)


def exported_model(fitted: Any) -> Model:
    """The `Model` of a fitted estimator, model, pipeline that imputes and scales, search, or SVM of scikit-learn."""
    from kompakt.estimators.compression import SVM_TYPES, as_model

    known = any(cls.__name__ in SVM_TYPES for cls in type(fitted).__mro__)
    if known or hasattr(fitted, "steps") or hasattr(fitted, "best_estimator_"):
        return as_model(fitted)
    return model_of(fitted)
