"""Rules that pick a size (number of basis vectors) from a path of validation errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["SIZE_RULES", "SizeChoice", "pick_size"]

SIZE_RULES = ("best", "one_se", "within")


@dataclass(frozen=True)
class SizeChoice:
    """The size a rule picked and what it saw.

    Attributes
    ----------
    index : int
        Position of the size on the path.
    size : int
        The size.
    threshold : float
        Largest mean error the rule accepted.
    mean_errors, standard_errors : ndarray of shape (n_sizes,)
        Mean error of each size over the folds and its standard error (NaN with a single fold).
    """

    index: int
    size: int
    threshold: float
    mean_errors: NDArray[np.float64]
    standard_errors: NDArray[np.float64]


def pick_size(
    sizes: ArrayLike,
    fold_errors: ArrayLike,
    rule: str = "best",
    *,
    tolerance: float = 0.0,
    relative_tolerance: float = 0.0,
    standard_errors: ArrayLike | None = None,
) -> SizeChoice:
    """Pick a size: the smallest one whose mean error is low enough.

    Parameters
    ----------
    sizes : array of shape (n_sizes,)
        Sizes, in any order.
    fold_errors : array of shape (n_sizes,) or (n_sizes, n_folds)
        Validation error of each size in each fold. A size with a NaN or infinite error cannot be picked.
    rule : {"best", "one_se", "within"}
        How much above the lowest mean error a size may lie: "best" nothing (equal errors go to the smaller
        size), "one_se" one standard error of the best size, "within" the given tolerances.
    tolerance : float
        For "within": allowance in units of the error.
    relative_tolerance : float
        For "within": allowance as a share of the lowest mean error; added to `tolerance`.
    standard_errors : array of shape (n_sizes,), optional
        For "one_se" with a single fold, where the folds cannot tell the standard error.

    Returns
    -------
    SizeChoice
        The size and the numbers behind it.

    Examples
    --------
    >>> from kompakt.validate import pick_size
    >>> errors = [[0.30, 0.34], [0.20, 0.24], [0.19, 0.23]]
    >>> pick_size([10, 20, 40], errors).size, pick_size([10, 20, 40], errors, "one_se").size
    (40, 20)
    >>> pick_size([10, 20, 40], errors, "within", tolerance=0.15).size
    10
    """
    if rule not in SIZE_RULES:
        raise ValueError(f"Unknown size rule {rule!r}; choose from {', '.join(map(repr, SIZE_RULES))}.")
    if tolerance < 0 or relative_tolerance < 0:
        raise ValueError(f"Tolerances must not be negative, got {tolerance} and {relative_tolerance}.")
    path, errors = _checked_path(sizes, fold_errors)
    with np.errstate(invalid="ignore"):  # inf - inf of an excluded size
        means = errors.mean(axis=1)
        spread = _standard_errors(errors, standard_errors)
    possible = np.isfinite(errors).all(axis=1)
    if not possible.any():
        raise ValueError("Every size has a NaN or infinite validation error, so none can be picked.")
    lowest = float(means[possible].min())
    best = _smallest(path, possible & (means == lowest))
    allowance = 0.0
    if rule == "one_se":
        allowance = float(spread[best])
        if not np.isfinite(allowance):
            raise ValueError(
                'The rule "one_se" needs at least 2 folds to know the standard error, got 1. '
                'Pass standard_errors, or use "best" or "within".'
            )
    elif rule == "within":
        allowance = tolerance + relative_tolerance * abs(lowest)
    threshold = lowest + allowance
    index = _smallest(path, possible & (means <= threshold))
    return SizeChoice(index, int(path[index]), threshold, means, spread)


def _checked_path(sizes: ArrayLike, fold_errors: ArrayLike) -> tuple[NDArray, NDArray[np.float64]]:
    path = np.asarray(sizes)
    errors = np.asarray(fold_errors, dtype=np.float64)
    if errors.ndim == 1:
        errors = errors[:, None]
    if path.ndim != 1 or errors.ndim != 2 or len(path) != len(errors) or errors.size == 0:
        raise ValueError(
            "sizes must have shape (n_sizes,) and fold_errors (n_sizes, n_folds), both not empty, "
            f"got {path.shape} and {np.shape(fold_errors)}."
        )
    return path, errors


def _standard_errors(errors: NDArray[np.float64], given: ArrayLike | None) -> NDArray[np.float64]:
    if given is not None:
        spread = np.asarray(given, dtype=np.float64)
        if spread.shape != (len(errors),):
            raise ValueError(f"standard_errors must have shape ({len(errors)},), got {spread.shape}.")
        return spread
    n_folds = errors.shape[1]
    if n_folds < 2:
        return np.full(len(errors), np.nan)
    return errors.std(axis=1, ddof=1) / np.sqrt(n_folds)


def _smallest(path: NDArray, allowed: NDArray[np.bool_]) -> int:
    candidates = np.flatnonzero(allowed)
    return int(candidates[np.argmin(path[candidates])])
