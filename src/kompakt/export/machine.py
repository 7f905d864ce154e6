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


# -- what a user hands over ------------------------------------------------------------------------------


def exported_model(fitted: Any) -> Model:
    """The `Model` of an estimator or model, or of a pipeline whose first steps impute and scale each feature.

    Folded in are, in this order: `SimpleImputer` (without indicator), then any of `StandardScaler`, `MinMaxScaler`
    (without clipping), `MaxAbsScaler` and `RobustScaler`, and "passthrough".
    """
    steps = getattr(fitted, "steps", None)
    if not steps:
        return model_of(fitted)
    model = model_of(steps[-1][1])
    fill, shift, scale = None, np.zeros(model.n_features), np.ones(model.n_features)
    scaled = False
    for name, step in steps[:-1]:
        kind = type(step).__name__ if type(step).__module__.startswith("sklearn.") else ""
        if step is None or step == "passthrough":
            continue
        if kind == "SimpleImputer" and fill is None and not scaled:
            fill = _fill_of(step, model.n_features)
            continue
        values = _scaler_of(step, kind)
        if values is None:
            raise UnsupportedModelError(
                f"step {name!r} of the pipeline ({type(step).__name__}) cannot be folded into the machine; expected "
                "SimpleImputer first, then StandardScaler, MinMaxScaler, MaxAbsScaler or RobustScaler. For other "
                "pipelines call kompakt.export.register_skl2onnx() and use skl2onnx.convert_sklearn."
            )
        # ((x - a) / b - c) / e = (x - (a + c b)) / (b e)
        shift, scale, scaled = shift + values[0] * scale, scale * values[1], True
    if model.input_fill is not None or model.input_shift is not None or model.input_scale is not None:
        inner_shift = np.zeros(model.n_features) if model.input_shift is None else _f8(model.input_shift)
        inner_scale = np.ones(model.n_features) if model.input_scale is None else _f8(model.input_scale)
        if fill is None and model.input_fill is not None:
            fill = _f8(model.input_fill) * scale + shift
        shift, scale = shift + inner_shift * scale, scale * inner_scale
    return replace(
        model,
        input_fill=fill,
        input_shift=shift if np.any(shift != 0) else None,
        input_scale=scale if np.any(scale != 1) else None,
    )


def _fill_of(imputer: Any, n_features: int) -> Array:
    fill = np.asarray(imputer.statistics_)
    plain = imputer.missing_values is np.nan or (
        isinstance(imputer.missing_values, float) and np.isnan(imputer.missing_values)
    )
    if imputer.add_indicator or not plain or fill.dtype.kind != "f" or len(fill) != n_features or np.isnan(fill).any():
        raise UnsupportedModelError(
            "this SimpleImputer cannot be folded into the machine: it must replace NaN by one number per feature, "
            "without an indicator, and drop no feature."
        )
    return fill.astype(np.float64)


def _scaler_of(step: Any, kind: str) -> tuple[Any, Any] | None:
    """(shift, scale) of a fitted scaler: x' = (x - shift) / scale."""
    if kind == "StandardScaler":
        return (step.mean_ if step.with_mean else 0.0), (step.scale_ if step.with_std else 1.0)
    if kind == "RobustScaler":
        return (step.center_ if step.with_centering else 0.0), (step.scale_ if step.with_scaling else 1.0)
    if kind == "MaxAbsScaler" and not getattr(step, "clip", False):
        return 0.0, step.scale_
    if kind == "MinMaxScaler" and not step.clip:  # x' = x * scale_ + min_
        return -step.min_ / step.scale_, 1.0 / step.scale_
    return None
