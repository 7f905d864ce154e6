"""Dask collections at the door of the estimators: taken apart before validation, predicted lazily."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kompakt.model import Model
from kompakt.rows.checks import refuse_non_finite
from kompakt.rows.dask_rows import DaskSource, is_dask

Array = np.ndarray


def adopted(X: Any, y: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of `fit` with the collection, its targets and weights as one row source."""
    kwargs = dict(kwargs)
    weight = args[0] if args else kwargs.pop("sample_weight", None)
    return DaskSource(X, y, weight), None, args[1:], kwargs


def lazily(estimator: Any, method: str, X: Any) -> Any:
    """Predictions for a Dask collection as one of the same kind, computed where its rows are.

    An array gives an array, a DataFrame a Series (a DataFrame for several columns) with its index.
    """
    check_is_fitted(estimator, "model_")
    model: Model = estimator.model_
    if hasattr(X, "columns"):
        return _of_frame(estimator, model, method, X)
    if X.ndim != 2 or X.shape[1] != model.n_features:
        raise ValueError(f"X has shape {X.shape}, but {type(estimator).__name__} expects {model.n_features} features.")
    if X.numblocks[1] != 1:
        X = X.rechunk({1: -1})
    like = _predicted(model, method, np.zeros((1, model.n_features), dtype=X.dtype))
    function = partial(_predicted, model, method)
    if like.ndim == 1:
        return X.map_blocks(function, dtype=like.dtype, drop_axis=1, meta=like[:0])
    return X.map_blocks(function, dtype=like.dtype, chunks=(X.chunks[0], (like.shape[1],)), meta=like[:0])


def _predicted(model: Model, method: str, X: Any) -> Array:
    refuse_non_finite(X, lambda row: f"row {row} of a partition")
    return getattr(model, method)(X)


def _of_frame(estimator: Any, model: Model, method: str, X: Any) -> Any:
    import pandas as pd

    names = getattr(estimator, "feature_names_in_", None)
    found = [str(name) for name in X.columns]
    if names is not None and found != [str(name) for name in names]:
        raise ValueError(
            f"The feature names should match those that were passed during fit: expected {list(names)}, got {found}."
        )
    if len(found) != model.n_features:
        raise ValueError(f"X has {len(found)} columns, but {type(estimator).__name__} expects {model.n_features}.")
    like = _predicted(model, method, np.zeros((1, model.n_features)))
    meta: Any = pd.Series(like[:0], name=method) if like.ndim == 1 else None
    if like.ndim == 2:
        labels = [str(one) for one in (range(like.shape[1]) if model.classes is None else model.classes)]
        meta = pd.DataFrame(like[:0], columns=labels if len(labels) == like.shape[1] else None)
    return X.map_partitions(_predicted_frame, model, method, meta, meta=meta)


def _predicted_frame(frame: Any, model: Model, method: str, meta: Any) -> Any:
    kind = np.float32 if all(one == np.float32 for one in frame.dtypes) else np.float64
    X = frame.to_numpy(dtype=kind, na_value=np.nan)
    values = _predicted(model, method, X) if len(frame) else np.asarray(meta)[:0]
    if values.ndim == 1:
        return type(meta)(values, index=frame.index, name=meta.name, dtype=meta.dtype)
    return type(meta)(values, index=frame.index, columns=meta.columns)


__all__ = ["adopted", "is_dask", "lazily"]
