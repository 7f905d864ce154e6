"""The model inside what was fitted: an estimator, an SVM, a search, or a pipeline with its imputer and scalers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kompakt.data.table import Category, Column, Levels, Number, TableSchema, Unused, is_missing
from kompakt.imports import sparse
from kompakt.inputs import Inputs
from kompakt.io.libsvm import CLASSIFIERS, LibsvmModel, read_libsvm, to_model
from kompakt.model import Model

Array = np.ndarray

_SVM_TYPES = {
    "SVC": "c_svc", "NuSVC": "nu_svc", "SVR": "epsilon_svr", "NuSVR": "nu_svr", "OneClassSVM": "one_class",
}  # fmt: skip
#: classifiers of scikit-learn that decide by another threshold
_THRESHOLDS = ("FixedThresholdClassifier", "TunedThresholdClassifierCV")
_KERNELS = {"rbf": "rbf", "poly": "polynomial", "linear": "linear"}
#: (shift, scale) of a fitted scaler of scikit-learn, x' = (x - shift) / scale; None where it also clips
_SCALERS: dict[str, Callable[[Any], tuple[Any, Any] | None]] = {
    "StandardScaler": lambda step: (step.mean_ if step.with_mean else 0.0, step.scale_ if step.with_std else 1.0),
    "RobustScaler": lambda step: (
        step.center_ if step.with_centering else 0.0,
        step.scale_ if step.with_scaling else 1.0,
    ),
    "MaxAbsScaler": lambda step: None if getattr(step, "clip", False) else (0.0, step.scale_),
    "MinMaxScaler": lambda step: None if step.clip else (-step.min_ / step.scale_, 1.0 / step.scale_),
}


def model_of(fitted: Any, *, svm: bool = False) -> Model:
    """The `Model` inside a fitted estimator, search, or pipeline whose other steps a model can hold; or the model.

    With `svm`, also that of an SVM of scikit-learn, or of the path of a model file of kompakt or LIBSVM: every support
    vector is kept, and the decisions are the same, but for votes that tie in one-vs-one: they go to the larger summed
    margin, where LIBSVM takes the class listed first.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVR
    >>> from kompakt.io.fitted import model_of
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> machine = SVR().fit(X, X.ravel())
    >>> bool(np.allclose(model_of(machine, svm=True).predict(X), machine.predict(X)))
    True
    """
    if isinstance(fitted, Model):
        return fitted
    if isinstance(model := getattr(fitted, "model_", None), Model):
        return model
    if hasattr(fitted, "estimator_") and type(fitted).__name__ in _THRESHOLDS:
        return _with_threshold(fitted, model_of(fitted.estimator_, svm=svm))
    if hasattr(fitted, "best_estimator_"):
        return model_of(fitted.best_estimator_, svm=svm)
    if isinstance(steps := getattr(fitted, "steps", None), list):
        return fold_steps(steps[:-1], model_of(steps[-1][1], svm=svm))
    if svm and isinstance(fitted, str | os.PathLike):
        from kompakt.io.schema import load

        with Path(fitted).open("rb") as file:
            start = file.read(8)
        return to_model(read_libsvm(fitted)) if start == b"svm_type" else load(fitted)
    if hasattr(fitted, "fit") and not isinstance(fitted, type):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(fitted)
    name = next((cls.__name__ for cls in type(fitted).__mro__ if cls.__name__ in _SVM_TYPES), None)
    if svm and name is not None:
        return _svm_model(fitted, name)
    others = f"{', '.join(_SVM_TYPES)}, the path of a model file, " if svm else ""
    raise TypeError(
        f"expected {others}a fitted kompakt estimator or a kompakt Model, or a pipeline or search that ends in one; "
        f"got {type(fitted).__name__}. If it wraps kompakt estimators, hand over the one inside; kompakt.compress "
        "makes a Model of a scikit-learn SVM."
    )


def _with_threshold(fitted: Any, model: Model) -> Model:
    """The model that decides as scikit-learn's `FixedThresholdClassifier` or `TunedThresholdClassifierCV` around it."""
    pos_label = getattr(fitted, "pos_label", None)
    if pos_label is not None and pos_label != model.classes_[1]:
        raise TypeError(f"a model holds a threshold of the label {model.classes_[1]!s} only; got {pos_label!s}.")
    response = fitted._get_response_method()
    response = response if isinstance(response, str) else next(name for name in response if hasattr(fitted, name))
    threshold = fitted.best_threshold_ if hasattr(fitted, "best_threshold_") else fitted.threshold
    is_probability = response == "predict_proba"
    if threshold == "auto":
        threshold = 0.5 if is_probability else 0.0
    return model.with_threshold(float(threshold), probability=is_probability)


def _svm_model(fitted: Any, name: str) -> Model:
    """The model of an SVM of scikit-learn, whose arrays are those of LIBSVM."""
    kernel = fitted.kernel
    if not isinstance(kernel, str) or kernel not in _KERNELS:
        reason = {
            "precomputed": "its support vectors are not known, only their numbers",
            "sigmoid": "the sigmoid is no positive definite kernel, so there is nothing to project in",
        }.get(kernel if isinstance(kernel, str) else "", "scikit-learn does not keep the support vectors of a callable")
        raise TypeError(f"an SVM with kernel={kernel!r} cannot be compressed: {reason}. Refit with 'rbf' or 'poly'.")
    coef = fitted.dual_coef_.toarray() if sparse.issparse(fitted.dual_coef_) else fitted.dual_coef_
    coef, rho = np.asarray(coef, dtype=np.float64), -np.asarray(fitted.intercept_, dtype=np.float64)
    fields: dict[str, Any] = {}
    classes = fitted.classes_ if _SVM_TYPES[name] in CLASSIFIERS else None
    if classes is not None:
        if len(classes) == 2:  # scikit-learn speaks for the second class, LIBSVM for the first
            coef, rho = -coef, -rho
        fields = {"labels": np.arange(len(classes)), "n_vectors": np.asarray(fitted.n_support_, dtype=np.intp)}
    vectors = sparse.csr_matrix(fitted.support_vectors_, dtype=np.float64)
    fields |= {"gamma": float(fitted._gamma), "coef0": float(fitted.coef0), "degree": int(fitted.degree)}
    record = LibsvmModel(_SVM_TYPES[name], _KERNELS[kernel], vectors, coef, rho, **fields)
    model = to_model(record, n_features=int(fitted.n_features_in_), memory_budget=1 << 40)
    names = getattr(fitted, "feature_names_in_", None)
    return replace(
        model,
        classes=classes,
        feature_names=None if names is None else np.asarray(names, dtype=str),
        meta={"source": f"scikit-learn {name}"},
    )


def fold_steps(steps: list[tuple[str, Any]], model: Model) -> Model:
    """The model that takes rows as they come into the steps.

    Parameters
    ----------
    steps : list of (name, fitted transformer)
        `SimpleImputer` first (NaN by one number per feature), or a `ColumnTransformer` that was fitted to a data frame
        and whose own steps are such imputers and scalers, `OneHotEncoder` and `OrdinalEncoder`; then any of
        `StandardScaler`, `MinMaxScaler` (without clipping), `MaxAbsScaler`, `RobustScaler`; "passthrough" anywhere.
    model : Model
        The machine behind them.

    Returns
    -------
    Model
        With the names of the columns that the first step has seen.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kompakt import Model
    >>> from kompakt.io.fitted import fold_steps
    >>> from kompakt.kernels import Linear
    >>> model = Model(Linear(), np.ones((1, 1)), np.ones((1, 1)), np.zeros(1), "regressor", n_features=1)
    >>> scaler = StandardScaler().fit([[1.0], [3.0]])
    >>> fold_steps([("scale", scaler)], model).predict([[5.0]])
    array([3.])
    """
    d, before = model.n_features, Inputs()
    real = [(name, step) for name, step in steps if step is not None and not isinstance(step, str)]
    if real and model.inputs.schema is not None:
        raise TypeError(
            f"the pipeline step {real[0][0]!r} comes before an estimator that encodes the columns of a table itself; a "
            "model holds such columns first and scaling after them. Hand over the last step alone, pipeline[-1]."
        )
    for place, (name, step) in enumerate(real):
        kind = _kind_of(step)
        if place == 0 and kind == "SimpleImputer":
            before = Inputs(fill=_fill_of(step, d))
        elif place == 0 and kind == "ColumnTransformer":
            before = _inputs_of_columns(step)
        else:
            before = _scaled(before, name, step, d)
    names = getattr(real[0][1], "feature_names_in_", None) if real else model.feature_names
    if before.schema is not None:
        names = before.schema.feature_names
    return replace(
        model,
        inputs=model.inputs.after(before),
        feature_names=None if names is None else np.asarray(names, dtype=str),
    )


def _scaled(before: Inputs, name: str, step: Any, n_features: int) -> Inputs:
    """The inputs that do what `before` does, and then what a scaler of scikit-learn does."""
    kind = _kind_of(step)
    scaling = _SCALERS[kind](step) if kind in _SCALERS else None
    if scaling is None:
        raise TypeError(
            f"the pipeline step {name!r}: {type(step).__name__} cannot be put into a model; a model holds "
            f"SimpleImputer or ColumnTransformer first, then {', '.join(_SCALERS)}, without clipping. Hand over the "
            "last step alone, pipeline[-1]; it takes rows as the steps before it, pipeline[:-1], make them."
        )
    shift, scale = (np.broadcast_to(values, n_features) for values in scaling)
    return Inputs(
        shift=shift if np.any(shift) else None, scale=scale if np.any(scale != 1) else None
    ).after(before)


def _kind_of(step: Any) -> str:
    return type(step).__name__ if type(step).__module__.startswith("sklearn.") else ""


def _inputs_of_columns(transformer: Any) -> Inputs:
    """What a fitted `ColumnTransformer` does to the columns of a data frame, as a schema, shift and scale."""
    names = getattr(transformer, "feature_names_in_", None)
    if names is None:
        raise TypeError(
            "a ColumnTransformer can be put into a model where it was fitted to a data frame: the columns are found "
            "by their names. Fit it to a frame, or hand over the last step alone, pipeline[-1]."
        )
    columns: list[Column] = []
    shifts: list[Array] = []
    scales: list[Array] = []
    for name, step, _ in transformer.transformers_:
        used = [str(names[index]) for index in transformer._transformer_to_input_indices[name]]
        if isinstance(step, str) and step == "drop":
            continue
        parts = [part for _, part in getattr(step, "steps", [(name, step)])]
        # "passthrough" is kept as a function that there is none of
        parts = [part for part in parts if not isinstance(part, str) and getattr(part, "func", part) is not None]
        block, inputs = _block_of_columns(name, used, parts)
        columns += block
        n_features = sum(len(column.features) for column in block)
        shifts.append(np.zeros(n_features) if inputs.shift is None else inputs.shift)
        scales.append(np.ones(n_features) if inputs.scale is None else inputs.scale)
    taken = [column.name for column in columns]
    if len(set(taken)) != len(taken):
        raise TypeError("a column goes through two steps of the ColumnTransformer; a model encodes each one once.")
    columns += [Unused(str(name), "the ColumnTransformer drops it") for name in names if str(name) not in taken]
    return Inputs(TableSchema(tuple(columns)), shift=np.concatenate(shifts), scale=np.concatenate(scales))


def _block_of_columns(name: str, used: list[str], steps: list[Any]) -> tuple[list[Column], Inputs]:
    """The columns that go through steps of a `ColumnTransformer`, and the shift and scale of their features."""
    fills: list[Any] = [np.nan] * len(used)
    if steps and _kind_of(steps[0]) == "SimpleImputer":
        imputer, *steps = steps
        if imputer.add_indicator or len(imputer.statistics_) != len(used):
            raise TypeError(f"the SimpleImputer of {name!r} adds or drops columns, which a model cannot do.")
        fills = list(imputer.statistics_)
    encoder = _ENCODERS.get(_kind_of(steps[0])) if steps else None
    if encoder is None:
        columns: list[Column] = [Number(column, float(fill)) for column, fill in zip(used, fills, strict=True)]
    else:
        columns, steps = encoder(steps[0], used, fills), steps[1:]
    inputs = Inputs()
    for step in steps:
        inputs = _scaled(inputs, name, step, sum(len(column.features) for column in columns))
    return columns, inputs


def _levels_of(name: str, categories: Array, fill: Any) -> tuple[list[str], str]:
    """The levels of an encoder as texts, and that of gaps, "" where there is none."""
    levels = [str(level) for level in categories]
    gaps = [text for text, level in zip(levels, categories.tolist(), strict=True) if is_missing(level)]
    if len(gaps) > 1 or len({level.strip() for level in levels}) != len(levels):
        raise TypeError(f"column {name!r} has levels that a model takes for one: {', '.join(map(repr, levels[:10]))}.")
    return [level.strip() for level in levels], gaps[0] if gaps else "" if is_missing(fill) else str(fill).strip()


def _one_hot(encoder: Any, used: list[str], fills: list[Any]) -> list[Column]:
    if encoder.min_frequency is not None or encoder.max_categories is not None:
        raise TypeError("a OneHotEncoder that joins rare categories (min_frequency) cannot be put into a model.")
    columns: list[Column] = []
    dropped = [None] * len(used) if encoder.drop_idx_ is None else list(encoder.drop_idx_)
    for name, categories, fill, place in zip(used, encoder.categories_, fills, dropped, strict=True):
        levels, level_of_gaps = _levels_of(name, categories, fill)
        kept = tuple(level for number, level in enumerate(levels) if number != place)
        columns.append(Category(name, kept, level_of_gaps if level_of_gaps in kept else ""))
    return columns


def _ordinal(encoder: Any, used: list[str], fills: list[Any]) -> list[Column]:
    columns: list[Column] = []
    for name, categories, fill in zip(used, encoder.categories_, fills, strict=True):
        levels, level_of_gaps = _levels_of(name, categories, fill)
        unknown = -1.0 if encoder.unknown_value is None else float(encoder.unknown_value)
        ranks = [*map(float, range(len(levels))), unknown]
        if any(is_missing(level) for level in categories.tolist() if not isinstance(level, str)):
            ranks[levels.index(level_of_gaps)] = float(encoder.encoded_missing_value)
        if not np.isfinite(ranks).all():
            raise TypeError(f"column {name!r}: an OrdinalEncoder that gives NaN cannot be put into a model.")
        values = tuple((rank,) for rank in ranks)
        columns.append(Levels(name, tuple(levels), level_of_gaps, outputs=("rank",), values=values))
    return columns


#: columns of a fitted encoder, the names of its inputs, and what their gaps were filled with
_ENCODERS: dict[str, Callable[[Any, list[str], list[Any]], list[Column]]] = {
    "OneHotEncoder": _one_hot, "OrdinalEncoder": _ordinal,
}  # fmt: skip


def _fill_of(imputer: Any, n_features: int) -> Array:
    fill = np.asarray(imputer.statistics_)
    missing = imputer.missing_values
    of_nan = isinstance(missing, float) and np.isnan(missing)
    if imputer.add_indicator or not of_nan or fill.dtype.kind != "f" or len(fill) != n_features or np.isnan(fill).any():
        raise TypeError(
            "this SimpleImputer cannot be put into a model: it must replace NaN by one number per feature, without an "
            "indicator, and drop no feature."
        )
    return fill.astype(np.float64)
