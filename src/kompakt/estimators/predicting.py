"""Predictions by a fitted model: for rows in memory, streamed ones and Dask collections."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kompakt.data import Source
from kompakt.data.checks import naming_rows
from kompakt.data.dask import is_dask
from kompakt.data.streamed import READ_ROWS
from kompakt.model import Model
from kompakt.parallel import block_threads
from kompakt.train.data import check_rows

Array = np.ndarray


def predicted(estimator: Any, method: str, X: Any) -> Array:
    """What a method of the fitted model, such as "predict", gives for rows that are checked here."""
    check_is_fitted(estimator, "model_")
    of_model: Callable[[Any], Array] = getattr(estimator.model_, method)
    if is_dask(X):
        lazy: Array = _of_collection(estimator, method, X)
        return lazy
    with block_threads(estimator.n_jobs):
        if isinstance(X, Source):
            return _of_source(estimator, of_model, X)
        return of_model(check_rows(estimator, X, reset=False, standardise=False)[0])


def _of_source(estimator: Any, of_model: Callable[[Any], Array], source: Source) -> Array:
    """Predictions for rows that are read some thousand at a time."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and source.feature_names is not None and list(names) != list(source.feature_names):
        raise ValueError(
            f"{source.name} has the features {list(source.feature_names)}; expected {list(names)}, in this order."
        )
    example = of_model(np.zeros((1, estimator.model_.n_features)))
    values = np.empty((source.n_rows, *example.shape[1:]), example.dtype)
    for start in range(0, source.n_rows, 8 * READ_ROWS):
        stop = min(start + 8 * READ_ROWS, source.n_rows)
        X = source.read(start, stop).X
        with naming_rows(lambda row, start=start: source.where(start + row)):  # type: ignore[misc]
            values[start:stop] = of_model(X)
    return values


def _of_collection(estimator: Any, method: str, X: Any) -> Any:
    """Predictions for a Dask collection as one of the same kind, computed where its rows are.

    An array gives an array, a DataFrame a Series (a DataFrame for several columns) with its index.
    """
    model = estimator.model_
    if hasattr(X, "columns"):
        return _of_frame(estimator, model, method, X)
    if X.ndim != 2 or X.shape[1] != model.n_features:
        raise ValueError(f"X has shape {X.shape}, but {type(estimator).__name__} expects {model.n_features} features.")
    if X.numblocks[1] != 1:
        X = X.rechunk({1: -1})
    example = _of_block(model, method, np.zeros((1, model.n_features), dtype=X.dtype))
    function = partial(_of_block, model, method)
    if example.ndim == 1:
        return X.map_blocks(function, dtype=example.dtype, drop_axis=1, meta=example[:0])
    chunks, more_axes = (X.chunks[0], *((size,) for size in example.shape[1:])), list(range(2, example.ndim))
    return X.map_blocks(function, dtype=example.dtype, chunks=chunks, new_axis=more_axes or None, meta=example[:0])


def _of_block(model: Model, method: str, X: Any) -> Array:
    with naming_rows(lambda row: f"row {row} of a partition"):
        values: Array = getattr(model, method)(X)
    return values


def _of_frame(estimator: Any, model: Model, method: str, X: Any) -> Any:
    import pandas as pd

    names = getattr(estimator, "feature_names_in_", None)
    columns = [str(name) for name in X.columns]
    if names is not None and columns != [str(name) for name in names]:
        raise ValueError(
            f"The feature names should match those that were passed during fit: expected {list(names)}, got {columns}."
        )
    if len(columns) != model.n_features:
        raise ValueError(f"X has {len(columns)} columns, but {type(estimator).__name__} expects {model.n_features}.")
    example = _of_block(model, method, np.zeros((1, model.n_features)))
    meta: Any = pd.Series(example[:0], name=method) if example.ndim == 1 else None
    if example.ndim == 2:
        labels = [str(label) for label in (range(example.shape[1]) if model.classes is None else model.classes)]
        meta = pd.DataFrame(example[:0], columns=labels if len(labels) == example.shape[1] else None)
    return X.map_partitions(_predicted_frame, model, method, meta, meta=meta)


def _predicted_frame(frame: Any, model: Model, method: str, meta: Any) -> Any:
    kind = np.float32 if all(dtype == np.float32 for dtype in frame.dtypes) else np.float64
    X = frame.to_numpy(dtype=kind, na_value=np.nan)
    values = _of_block(model, method, X) if len(frame) else np.asarray(meta)[:0]
    if values.ndim == 1:
        return type(meta)(values, index=frame.index, name=meta.name, dtype=meta.dtype)
    return type(meta)(values, index=frame.index, columns=meta.columns)
