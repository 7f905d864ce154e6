"""A model as the exporters see it: scaling, widths and constants folded into plain arrays, and a kernel they know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kompakt.codings import get_coding
from kompakt.io.container import UnsupportedModelError
from kompakt.io.fitted import model_of
from kompakt.kernels import RBF, Constant, Kernel, Laplacian, Linear, Polynomial, Product, Sum
from kompakt.model import Model

Array = np.ndarray
_KERNELS = (RBF, Laplacian, Linear, Polynomial, Constant, Sum, Product)


def exported_model(fitted: Any) -> Model:
    """The `Model` of a fitted estimator, model, pipeline that imputes and scales, search, or SVM of scikit-learn."""
    from kompakt.estimators.compression import SVM_TYPES, as_model

    known = any(cls.__name__ in SVM_TYPES for cls in type(fitted).__mro__)
    if known or hasattr(fitted, "steps") or hasattr(fitted, "best_estimator_"):
        return as_model(fitted)
    return model_of(fitted)


def folded(model: Model, *, centred: bool = True, single: bool = False) -> Model:
    """An equal model in float64 that is simple to write down.

    It has at least one vector, labels of a plain type, no offset, and a shift and a scale only where they do something.
    Constants of the kernel are in weights and intercept, and one width per feature in basis and scale (a width of 0 is
    an infinite scale).  A map of the inputs takes the scale and such widths into itself.  With `centred`, rows that are
    not mapped are shifted to the middle of the basis where the kernel allows it: distances formed from dot products,
    and sums in float32, lose the digits that rows far from the origin share.  With `single`, float32 holds the shift.
    """
    _check_kernel(model.kernel)
    kernel, factor, addend = decomposed(model.kernel)
    basis, weights, intercept = (_f8(values) for values in (model.basis, model.weights, model.intercept))
    if not len(basis):  # nothing but an intercept
        basis, weights = np.zeros((1, model.basis.shape[1])), np.zeros((1, len(intercept)))
    # sum_j w_j (factor k_j + addend) + b = sum_j (factor w_j) k_j + (b + addend sum_j w_j)
    weights, intercept = weights * factor, intercept + addend * weights.sum(axis=0)
    input_map = classes = None
    if model.kind == "classifier":
        classes = _plain_classes(model.classes_)
        if len(classes) == 1:  # its decision value is 0 whatever the weights are
            weights, intercept = np.zeros((len(weights), 1)), np.zeros(1)
    shift = np.zeros(model.n_features) if model.input_shift is None else _f8(model.input_shift)
    scale = np.ones(model.n_features) if model.input_scale is None else _f8(model.input_scale)
    centre = model.offset
    if model.input_map is not None:  # mapped after the shift, which a fit has put into the middle of its rows
        input_map, scale = _f8(model.input_map) / scale, np.ones(model.n_features)
        moved = shift.astype(np.float32).astype(np.float64) if single else shift
        basis, shift = basis - input_map @ (moved - shift), moved
    elif model.kernel.shift_invariant:
        centre = basis.mean(axis=0) if centred else None
    if centre is not None:
        moved = shift + _f8(centre) * scale
        moved = moved.astype(np.float32).astype(np.float64) if single else moved
        # The rounded shift is what the rows will meet, so the basis is moved by exactly that much.
        basis, shift = basis - (moved - shift) / scale, moved
    if isinstance(kernel, RBF) and isinstance(kernel.gamma, np.ndarray):
        root = np.sqrt(kernel.gamma)  # gamma_f (x_f - z_f)^2 = (root_f x_f - root_f z_f)^2
        if np.all(root == root[0]):
            kernel = RBF(float(kernel.gamma[0]))
        elif input_map is not None:
            kernel, basis, input_map = RBF(1.0), basis * root, input_map * root[:, None]
        else:
            with np.errstate(divide="ignore"):
                kernel, basis, scale = RBF(1.0), basis * root, scale / root
    return replace(
        model,
        kernel=kernel,
        basis=basis,
        weights=weights,
        intercept=intercept,
        classes=classes,
        input_fill=None if model.input_fill is None else _f8(model.input_fill),
        input_shift=shift if np.any(shift != 0) else None,
        input_scale=scale if np.any(scale != 1) else None,
        input_map=input_map,
        offset=None,
    )


def decision_shape(model: Model) -> tuple[int, bool]:
    """Number of decision values per row, and whether one per row is given as (n,) rather than (n, 1)."""
    values = model.scores(np.zeros((1, model.weights.shape[1])))
    return values.size, values.ndim == 1


def votes(model: Model) -> tuple[Array, float] | None:
    """(codes, base) of a coding that votes: scores = base + sum of code * sign(f) / 2 + squashed sum of code * f."""
    k, coding = 0 if model.classes is None else len(model.classes), get_coding(model.coding or "one_vs_rest")
    if k <= 2 or coding.name == "one_vs_rest":
        return None
    codes = coding.codes(k)
    return codes, 0.5 * (k - 1) if coding.name == "one_vs_one" else -0.5 * codes.shape[1]


def decomposed(kernel: Kernel) -> tuple[Kernel, float, float]:
    """(core, factor, addend) with kernel = factor * core + addend, the constants of a sum or product taken out."""
    if not isinstance(kernel, Sum | Product):
        return kernel, 1.0, 0.0
    others = [part for part in kernel.parts if not isinstance(part, Constant)]
    constants = [part.value for part in kernel.parts if isinstance(part, Constant)]
    core: Kernel = Constant(1.0)
    factor, addend = 0.0 if isinstance(kernel, Sum) else 1.0, 0.0
    if len(others) == 1:
        core, factor, addend = decomposed(others[0])
    elif others:
        core, factor = type(kernel)(tuple(others)), 1.0
    if isinstance(kernel, Sum):
        return core, factor, addend + float(np.sum(constants))
    return core, factor * float(np.prod(constants)), addend * float(np.prod(constants))


def _check_kernel(kernel: Kernel) -> None:
    """Raise for a kernel that no exporter can write down, saying why."""
    kernel.spec()  # callable and precomputed kernels say why
    if type(kernel) not in _KERNELS:
        raise UnsupportedModelError(
            f"the kernel {kernel!r} cannot be exported: an exporter must write its formula, and knows RBF, "
            "Laplacian, linear, polynomial and constant kernels, and sums and products of these."
        )
    for part in getattr(kernel, "parts", ()):
        _check_kernel(part)


def _plain_classes(classes: Array) -> Array:
    """Labels in an array of their own type: text, whole numbers, floats or booleans, never objects."""
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
