"""The model inside what was fitted: an estimator, a search, or a pipeline whose imputer and scalers it takes in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kompakt.model import Model

Array = np.ndarray


def model_of(estimator_or_model: Any) -> Model:
    """The `Model` inside a fitted estimator, search, or pipeline whose other steps a model can hold; or the model."""
    given = estimator_or_model
    if isinstance(given, Model):
        return given
    model = getattr(given, "model_", None)
    if isinstance(model, Model):
        return model
    if hasattr(given, "best_estimator_"):
        return model_of(given.best_estimator_)
    if hasattr(given, "steps") and isinstance(given.steps, list):
        return fold_steps(given.steps[:-1], model_of(given.steps[-1][1]))
    if hasattr(given, "fit") and not isinstance(given, type):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(given)
    raise TypeError(
        "expected a fitted kompakt estimator or a kompakt Model, or a pipeline or search that ends in one; got "
        f"{type(given).__name__}. If it wraps kompakt estimators, hand over the one inside; kompakt.compress makes a "
        "Model of a scikit-learn SVM."
    )


def fold_steps(steps: list[tuple[str, Any]], model: Model) -> Model:
    """The model that takes rows as they come into the steps.

    Parameters
    ----------
    steps : list of (name, fitted transformer)
        `SimpleImputer` first (NaN by one number per feature), then any of `StandardScaler`, `MinMaxScaler` (without
        clipping), `MaxAbsScaler`, `RobustScaler`; "passthrough" anywhere.
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
    d = model.n_features
    fill: Array | None = None
    shift, scale = np.zeros(d), np.ones(d)  # x' = (x - shift) / scale
    real = [(name, step) for name, step in steps if step is not None and not isinstance(step, str)]
    for place, (name, step) in enumerate(real):
        if place == 0 and _kind(step) == "SimpleImputer":
            fill = _fill_of(step, d)
            continue
        own = _scaler_of(step)
        if own is None:
            raise TypeError(
                f"the pipeline step {name!r}: {type(step).__name__} cannot be put into a model; a model holds "
                "SimpleImputer first, then StandardScaler, MinMaxScaler, MaxAbsScaler or RobustScaler. Hand over the "
                "last step alone, pipeline[-1]; it takes rows as the steps before it, pipeline[:-1], make them."
            )
        # ((x - shift) / scale - own_shift) / own_scale
        shift, scale = shift + scale * own[0], scale * own[1]
    if fill is None and model.input_fill is not None:
        fill = np.asarray(model.input_fill, dtype=np.float64) * scale + shift
    if model.input_shift is not None:
        shift = shift + scale * np.asarray(model.input_shift, dtype=np.float64)
    if model.input_scale is not None:
        scale = scale * np.asarray(model.input_scale, dtype=np.float64)
    names = getattr(real[0][1], "feature_names_in_", None) if real else model.feature_names
    return replace(
        model,
        input_fill=fill,
        input_shift=shift if np.any(shift) else None,
        input_scale=scale if np.any(scale != 1) else None,
        feature_names=None if names is None else np.asarray(names, dtype=str),
    )


def _kind(step: Any) -> str:
    return type(step).__name__ if type(step).__module__.startswith("sklearn.") else ""


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


def _scaler_of(step: Any) -> tuple[Any, Any] | None:
    """(shift, scale) of a fitted scaler: x' = (x - shift) / scale."""
    kind = _kind(step)
    if kind == "StandardScaler":
        return (step.mean_ if step.with_mean else 0.0), (step.scale_ if step.with_std else 1.0)
    if kind == "RobustScaler":
        return (step.center_ if step.with_centering else 0.0), (step.scale_ if step.with_scaling else 1.0)
    if kind == "MaxAbsScaler" and not getattr(step, "clip", False):
        return 0.0, step.scale_
    if kind == "MinMaxScaler" and not step.clip:  # x' = x * scale_ + min_
        return -step.min_ / step.scale_, 1.0 / step.scale_
    return None
