"""Splits of the rows, scores of predictions, and the rules that pick a size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit
from sklearn.utils import check_random_state


def shuffled_folds(
    n_rows: int, n_folds: int, *, labels: ArrayLike | None = None, random_state: Any = None
) -> NDArray[np.intp]:
    """Random fold of each row; with labels every class is spread as evenly as its rows allow.

    Unlike a stratified splitter it accepts classes of fewer rows than folds: these are then missing from some.

    Parameters
    ----------
    n_rows, n_folds : int
        At most as many folds as rows are used.
    labels : array of shape (n_rows,), optional
        Classes.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    ndarray of shape (n_rows,)
        Fold numbers, as `cross_validated_residuals` wants them; sizes differ by at most one.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.validation import shuffled_folds
    >>> fold = shuffled_folds(12, 3, labels=np.repeat([0, 1], 6), random_state=0)
    >>> np.bincount(fold[:6]).tolist(), np.bincount(fold).tolist()
    ([2, 2, 2], [4, 4, 4])
    """
    if n_folds < 2 or n_rows < 2:
        raise ValueError(
            f"cross-validation needs at least 2 folds and 2 rows; got {n_folds} folds, n_samples = {n_rows}."
        )
    shuffled = check_random_state(random_state).permutation(n_rows)
    if labels is not None:
        shuffled = shuffled[np.argsort(np.asarray(labels)[shuffled], kind="stable")]
    fold = np.empty(n_rows, dtype=np.intp)
    fold[shuffled] = np.arange(n_rows) % min(n_folds, n_rows)
    return fold


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
    >>> from kompakt.validation import resolve_splits
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
    >>> from kompakt.validation import holdout
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
    >>> from kompakt.validation import fold_of_row
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
    >>> from kompakt.validation import error_rate
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
    >>> from kompakt.validation import agreement
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
    >>> from kompakt.validation import mean_squared_error
    >>> mean_squared_error([0.0, 2.0], [[0.0, 2.0], [1.0, 4.0]]).tolist()
    [0.0, 2.5]
    """
    return _mean_of(y_true, y_pred, sample_weight, np.square)


def mean_absolute_error(y_true: ArrayLike, y_pred: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
    """Weighted mean of absolute differences, averaged over outputs; arguments as for `mean_squared_error`.

    Examples
    --------
    >>> from kompakt.validation import mean_absolute_error
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
    >>> from kompakt.validation import fold_means
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
    >>> from kompakt.validation import pick_size
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
