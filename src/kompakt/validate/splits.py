"""Splits into training and validation rows: stratified for classes, plain for numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit

__all__ = ["Split", "fold_of_row", "holdout", "resolve_splits"]

IntArray: TypeAlias = NDArray[np.intp]
Split: TypeAlias = tuple[IntArray, IntArray]


def resolve_splits(
    cv: Any,
    y: ArrayLike,
    *,
    classifier: bool,
    random_state: Any = None,
    X: Any = None,
    groups: ArrayLike | None = None,
) -> list[Split]:
    """Turn whatever a user may give as `cv` into a list of checked (train, validation) row numbers.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, validation)
        Number of folds (shuffled; stratified for a classifier), an object with a `split` method, or the
        splits themselves as row numbers or boolean masks.
    y : array of shape (n,) or (n, n_outputs)
        Labels or targets.
    classifier : bool
        Whether y holds classes.
    random_state : int, RandomState or None
        Shuffles the rows when `cv` is a number.
    X : array of n rows, optional
        Handed to the splitter; only its length matters to most splitters.
    groups : array of shape (n,), optional
        Handed to the splitter.

    Returns
    -------
    list of (train, validation)
        Row numbers; in each pair disjoint and not empty.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.validate import resolve_splits
    >>> splits = resolve_splits(3, np.repeat([0, 1], 6), classifier=True, random_state=0)
    >>> [len(validation) for train, validation in splits]
    [4, 4, 4]
    """
    target = np.asarray(y)
    n = len(target)
    if isinstance(cv, (bool, np.bool_, str)) or cv is None:
        raise TypeError(f"cv must be a number of folds, a splitter or a list of (train, validation) pairs, got {cv!r}.")
    if isinstance(cv, (int, np.integer)):
        return _k_folds(int(cv), target, classifier, random_state)
    rows = np.empty((n, 0)) if X is None else X
    pairs: Iterable[Any]
    pairs = cv.split(rows, target, groups) if hasattr(cv, "split") else cv
    try:
        listed = [(train, validation) for train, validation in pairs]
    except (TypeError, ValueError) as error:
        raise type(error)(f"cv must give pairs (train, validation) of row numbers: {error}") from error
    if not listed:
        raise ValueError("cv gave no splits; at least one pair (train, validation) is needed.")
    return [_checked_pair(number, *pair, n) for number, pair in enumerate(listed)]


def _k_folds(n_folds: int, y: NDArray[Any], classifier: bool, random_state: Any) -> list[Split]:
    n = len(y)
    if not 2 <= n_folds <= n:
        raise ValueError(f"cv must lie between 2 and the number of rows, {n}, got {n_folds}.")
    blank = np.empty((n, 0))
    if not classifier:
        return list(KFold(n_folds, shuffle=True, random_state=random_state).split(blank))
    labels, counts = _class_counts(y)
    rare = counts < n_folds
    if rare.any():
        raise ValueError(
            f"cv={n_folds} folds need at least {n_folds} rows of each class, got "
            f"{_listed(labels[rare], counts[rare])}. Use fewer folds, merge or drop rare classes, "
            "or pass your own splits as cv."
        )
    return list(StratifiedKFold(n_folds, shuffle=True, random_state=random_state).split(blank, y))


def _class_counts(y: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
    if y.ndim != 1:
        raise ValueError(f"Stratified splits need labels of shape (n,), got {y.shape}.")
    labels, counts = np.unique(y, return_counts=True)
    return labels, counts


def _listed(labels: NDArray[Any], counts: IntArray, limit: int = 5) -> str:
    shown = [f"{count} of class {label!r}" for label, count in zip(labels.tolist(), counts, strict=True)]
    more = f" and {len(shown) - limit} more classes" if len(shown) > limit else ""
    return ", ".join(shown[:limit]) + more


def _checked_pair(number: int, train: Any, validation: Any, n: int) -> Split:
    first = _checked_rows(train, n, f"training rows of split {number}")
    second = _checked_rows(validation, n, f"validation rows of split {number}")
    shared = np.intersect1d(first, second)
    if shared.size:
        raise ValueError(
            f"Split {number} of cv uses {shared.size} rows (first: {shared[0]}) for training and validation; "
            "the two must not overlap."
        )
    return first, second


def _checked_rows(rows: Any, n: int, what: str) -> IntArray:
    array = np.asarray(rows)
    if array.ndim != 1:
        raise ValueError(f"cv: {what} must be a list of row numbers or a mask, got shape {array.shape}.")
    if array.dtype == np.bool_:
        if len(array) != n:
            raise ValueError(f"cv: the mask of {what} has length {len(array)}, expected {n}.")
        array = np.flatnonzero(array)
    if array.size == 0:
        raise ValueError(f"cv: {what} are empty.")
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"cv: {what} must be integers, got dtype {array.dtype}.")
    if array.min() < -n or array.max() >= n:
        raise ValueError(f"cv: {what} reach from {array.min()} to {array.max()}, but there are {n} rows.")
    return np.where(array < 0, array + n, array).astype(np.intp)


def holdout(y: ArrayLike, fraction: float, *, classifier: bool, random_state: Any = None) -> Split:
    """Split off a share of the rows for validation, the same share of every class for a classifier.

    Parameters
    ----------
    y : array of shape (n,) or (n, n_outputs)
        Labels or targets.
    fraction : float
        Share of the rows for validation, between 0 and 1.
    classifier : bool
        Whether y holds classes.
    random_state : int, RandomState or None
        Seed of the split.

    Returns
    -------
    (train, validation)
        Sorted row numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.validate import holdout
    >>> train, validation = holdout(np.repeat([0, 1], 10), 0.2, classifier=True, random_state=0)
    >>> len(train), len(validation)
    (16, 4)
    """
    target = np.asarray(y)
    n = len(target)
    if not 0 < fraction < 1:
        raise ValueError(f"The share held out must lie strictly between 0 and 1, got {fraction}.")
    blank = np.empty((n, 0))
    n_validation = int(np.ceil(fraction * n))
    if n_validation >= n:
        raise ValueError(f"Holding out {fraction:g} of n_samples = {n} rows leaves none to train on; use more rows.")
    if not classifier:
        splitter = ShuffleSplit(1, test_size=n_validation, random_state=random_state)
        train, validation = next(splitter.split(blank))
        return np.sort(train), np.sort(validation)
    labels, counts = _class_counts(target)
    if counts.min() < 2:
        rare = counts < 2
        raise ValueError(
            f"A stratified hold-out needs at least 2 rows of each class, got "
            f"{_listed(labels[rare], counts[rare])}. Merge or drop rare classes or pass your own splits."
        )
    if min(n_validation, n - n_validation) < len(labels):
        raise ValueError(
            f"Holding out {fraction:g} of {n} rows gives {n - n_validation} training and {n_validation} "
            f"validation rows, but each part must hold all {len(labels)} classes; change the share held out."
        )
    stratified = StratifiedShuffleSplit(1, test_size=n_validation, random_state=random_state)
    train, validation = next(stratified.split(blank, target))
    return np.sort(train), np.sort(validation)


def fold_of_row(splits: Iterable[Split], n_rows: int) -> IntArray:
    """Number of the split that validates each row, -1 for a row that is always trained on.

    The fast cross-validation needs folds whose training rows are all the others, so each split must train on
    exactly the rows it does not validate, and no row may be validated twice.

    Parameters
    ----------
    splits : iterable of (train, validation)
        Row numbers, as `resolve_splits` returns them.
    n_rows : int
        Number of rows.

    Returns
    -------
    ndarray of shape (n_rows,)
        Fold numbers.

    Examples
    --------
    >>> from kompakt.validate import fold_of_row
    >>> fold_of_row([([2, 3], [0, 1]), ([0, 1], [2, 3])], 4).tolist()
    [0, 0, 1, 1]
    """
    fold = np.full(n_rows, -1, dtype=np.intp)
    for number, (train, validation) in enumerate(splits):
        rows = np.asarray(validation, dtype=np.intp)
        if (fold[rows] >= 0).any():
            raise ValueError(
                f"Split {number} validates rows that an earlier split validates too; folds must not overlap. "
                "Repeated or shuffled splits cannot be cross-validated in one factorisation: refit per split."
            )
        complement = np.ones(n_rows, dtype=bool)
        complement[rows] = False
        given = np.asarray(train, dtype=np.intp)
        if len(given) != n_rows - len(rows) or not complement[given].all():
            raise ValueError(
                f"Split {number} does not train on all {n_rows - len(rows)} rows outside its validation rows "
                f"(it names {len(given)}); such splits must be refitted one by one."
            )
        fold[rows] = number
    return fold
