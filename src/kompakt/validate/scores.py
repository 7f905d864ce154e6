"""Scores of predictions, for one model or for a whole path of sizes at once.

Predictions may carry leading axes, such as (n_sizes, n) for labels or (n_sizes, n, n_outputs) for numbers;
each function averages over the rows (and outputs) and returns what is left, here (n_sizes,).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["agreement", "error_rate", "fold_means", "mean_absolute_error", "mean_squared_error"]

FloatArray = NDArray[np.float64]


def _weights(sample_weight: ArrayLike | None, n: int) -> FloatArray:
    if sample_weight is None:
        return np.full(n, 1.0 / max(n, 1))
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {weights.shape}.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must be finite and not negative.")
    total = weights.sum()
    if total <= 0:
        raise ValueError("sample_weight is zero for every row, so there is nothing to average.")
    return weights / total


def _check_rows(given: int, expected: int) -> None:
    if given != expected:
        raise ValueError(f"Predictions hold {given} rows, but there are {expected} true values.")
    if expected == 0:
        raise ValueError("A score needs at least one row, got none.")


def error_rate(y_true: ArrayLike, y_pred: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
    """Weighted share of rows whose label is wrong.

    Parameters
    ----------
    y_true : array of shape (n,)
        Labels.
    y_pred : array of shape (..., n)
        Predicted labels of one or more models.
    sample_weight : array of shape (n,), optional
        Row weights.

    Returns
    -------
    float or ndarray of shape (...)
        Share between 0 and 1.

    Examples
    --------
    >>> from kompakt.validate import error_rate
    >>> error_rate([0, 1, 1, 0], [[0, 1, 1, 1], [0, 1, 1, 0]]).tolist()
    [0.25, 0.0]
    """
    truth, guess = np.asarray(y_true), np.asarray(y_pred)
    if truth.ndim != 1 or guess.ndim < 1:
        raise ValueError(f"y_true must have shape (n,) and y_pred (..., n), got {truth.shape}, {guess.shape}.")
    _check_rows(guess.shape[-1], len(truth))
    wrong = (guess != truth).astype(np.float64)
    return wrong @ _weights(sample_weight, len(truth))


def agreement(first: ArrayLike, second: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
    """Weighted share of rows on which two sets of predicted labels agree.

    Parameters
    ----------
    first : array of shape (n,)
        Labels predicted by one model, such as the exact machine.
    second : array of shape (..., n)
        Labels predicted by one or more others.
    sample_weight : array of shape (n,), optional
        Row weights.

    Returns
    -------
    float or ndarray of shape (...)
        Share between 0 and 1.

    Examples
    --------
    >>> from kompakt.validate import agreement
    >>> float(agreement(["a", "b"], ["a", "a"]))
    0.5
    """
    return 1.0 - error_rate(first, second, sample_weight)


def _mean_of(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sample_weight: ArrayLike | None,
    of_difference: Callable[[FloatArray], FloatArray],
) -> Any:
    truth = np.asarray(y_true, dtype=np.float64)
    guess = np.asarray(y_pred, dtype=np.float64)
    if truth.ndim not in (1, 2) or guess.shape[guess.ndim - truth.ndim + 1 :] != truth.shape[1:]:
        raise ValueError(
            "y_true must have shape (n,) or (n, n_outputs) and y_pred the same with leading axes, "
            f"got {truth.shape} and {guess.shape}."
        )
    _check_rows(guess.shape[guess.ndim - truth.ndim], len(truth))
    values = of_difference(guess - truth)
    if truth.ndim == 2:
        values = values.mean(axis=-1)
    return values @ _weights(sample_weight, len(truth))


def mean_squared_error(y_true: ArrayLike, y_pred: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
    """Weighted mean of squared differences, averaged over outputs.

    Parameters
    ----------
    y_true : array of shape (n,) or (n, n_outputs)
        Targets.
    y_pred : array of shape (..., n) or (..., n, n_outputs)
        Predictions of one or more models.
    sample_weight : array of shape (n,), optional
        Row weights.

    Returns
    -------
    float or ndarray of shape (...)
        Mean squared error.

    Examples
    --------
    >>> from kompakt.validate import mean_squared_error
    >>> mean_squared_error([0.0, 2.0], [[0.0, 2.0], [1.0, 4.0]]).tolist()
    [0.0, 2.5]
    """
    return _mean_of(y_true, y_pred, sample_weight, np.square)


def mean_absolute_error(y_true: ArrayLike, y_pred: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
    """Weighted mean of absolute differences, averaged over outputs; arguments as for `mean_squared_error`.

    Examples
    --------
    >>> from kompakt.validate import mean_absolute_error
    >>> float(mean_absolute_error([0.0, 2.0], [1.0, 4.0]))
    1.5
    """
    return _mean_of(y_true, y_pred, sample_weight, np.abs)


def fold_means(row_losses: ArrayLike, fold: ArrayLike, sample_weight: ArrayLike | None = None) -> FloatArray:
    """Weighted mean loss of each fold, from out-of-fold losses of the rows.

    Parameters
    ----------
    row_losses : array of shape (..., n)
        Loss of each row when it was held out (1 for a wrong label, the squared residual, ...).
    fold : int array of shape (n,)
        Fold of each row, 0 .. n_folds - 1; rows of fold -1 are left out.
    sample_weight : array of shape (n,), optional
        Row weights. A fold without weight gives NaN.

    Returns
    -------
    ndarray of shape (..., n_folds)
        Fold errors, as `pick_size` wants them.

    Examples
    --------
    >>> from kompakt.validate import fold_means
    >>> fold_means([1.0, 0.0, 0.0, 0.0], [0, 0, 1, 1]).tolist()
    [0.5, 0.0]
    """
    losses = np.asarray(row_losses, dtype=np.float64)
    numbers = np.asarray(fold, dtype=np.intp)
    if losses.shape[-1:] != numbers.shape:
        raise ValueError(f"row_losses {losses.shape} and fold {numbers.shape} must hold the same rows.")
    weights = np.ones(len(numbers)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != numbers.shape:
        raise ValueError(f"sample_weight must have shape {numbers.shape}, got {weights.shape}.")
    used = numbers >= 0
    if not used.any():
        raise ValueError("No row belongs to a fold (all are -1), so there are no fold errors.")
    order = np.flatnonzero(used)[np.argsort(numbers[used], kind="stable")]
    n_folds = int(numbers.max()) + 1
    counts = np.bincount(numbers[order], minlength=n_folds)
    if (counts == 0).any():
        raise ValueError(f"Fold {int(np.argmin(counts))} holds no row; number the folds 0 .. {n_folds - 1}.")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    sums = np.add.reduceat(losses[..., order] * weights[order], starts, axis=-1)
    totals = np.add.reduceat(weights[order], starts)
    return np.where(totals > 0, sums / np.where(totals > 0, totals, 1.0), np.nan)
