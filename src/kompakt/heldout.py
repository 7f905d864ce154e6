"""Rows that are held out: splits, errors on them, the rules that pick a size, and the trials of a search."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import KFold, StratifiedKFold, check_cv, train_test_split
from sklearn.utils import check_random_state

from kompakt.data import row_weights
from kompakt.spec import Data, Spec

IntArray: TypeAlias = NDArray[np.intp]
FloatArray: TypeAlias = NDArray[np.float64]
Split: TypeAlias = tuple[IntArray, IntArray]
logger = logging.getLogger(__name__)
SIZE_RULES = ("best", "one_se", "within")


def require_counts(options: object, *names: str) -> None:
    """Refuse fields of an object of options that are no whole numbers of at least 1; None where that is the default."""
    for name in names:
        value, nothing = getattr(options, name), getattr(type(options), name) is None
        if nothing and value is None:
            continue
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            choices = "None or a whole number" if nothing else "a whole number"
            raise ValueError(f"{name} must be {choices} of at least 1; got {value!r}.")


@dataclass(frozen=True)
class AutoSize:
    """Options of ``n_basis="auto"``: how the number of basis vectors is chosen by held-out error.

    Every estimator uses some of the fields, as its own page says, and refuses the others; None is what it does by
    itself.

    Parameters
    ----------
    largest : int, default=None
        Largest size that is tried.
    n_iter_no_change : int, default=None
        Vectors without a lower held-out error after which growth stops.
    tol : float, default=None
        How much above the best held-out error that of the chosen size may lie.
    sizes : list of int, default=None
        The sizes that are tried.
    rule : {"best", "one_se", "within"}, default=None
        How a size is picked from their errors; see `kompakt.heldout.pick_size`.

    Examples
    --------
    >>> from kompakt import AutoSize, SpSVC
    >>> SpSVC(n_basis=AutoSize(largest=50)).n_basis.largest
    50
    """

    largest: int | None = None
    n_iter_no_change: int | None = None
    tol: float | None = None
    sizes: Sequence[int] | None = None
    rule: str | None = None

    def __post_init__(self) -> None:
        require_counts(self, "largest", "n_iter_no_change")
        if self.tol is not None and not (isinstance(self.tol, Real) and float(self.tol) >= 0):
            raise ValueError(f"tol must be None or a number of at least 0; got {self.tol!r}.")
        if self.sizes is not None and (np.ndim(self.sizes) != 1 or not len(self.sizes) or min(self.sizes) < 1):
            raise ValueError(f"sizes must be None or a list of positive whole numbers; got {self.sizes!r}.")
        if self.rule is not None and self.rule not in SIZE_RULES:
            raise ValueError(f"rule must be None or one of {SIZE_RULES}; got {self.rule!r}.")


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
        Fold numbers, as `cross_validated_path` wants them; sizes differ by at most one.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.heldout import shuffled_folds
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


def resolve_splits(cv: Any, y: ArrayLike, *, stratify: bool, random_state: Any = None, X: Any = None) -> list[Split]:
    """Turn whatever a user may give as `cv` into a list of checked (train, validation) row numbers.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, validation)
        Number of folds (shuffled; stratified where `stratify` says so), an object with a `split` method, or the
        splits themselves as row numbers or boolean masks.
    y : array of shape (n,) or (n, n_outputs)
        Labels or targets.
    stratify : bool
        Whether y holds classes.
    random_state : int, RandomState or None
        Shuffles the rows when `cv` is a number.
    X : array of n rows, optional
        Handed to the splitter; only its length matters to most splitters.

    Returns
    -------
    list of (train, validation)
        Row numbers; in each pair disjoint and not empty.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.heldout import resolve_splits
    >>> splits = resolve_splits(3, np.repeat([0, 1], 6), stratify=True, random_state=0)
    >>> [len(validation) for train, validation in splits]
    [4, 4, 4]
    """
    target = np.asarray(y)
    n = len(target)
    if isinstance(cv, (bool, np.bool_, str)) or cv is None:
        raise TypeError(f"cv must be a number of folds, a splitter or a list of (train, validation) pairs, got {cv!r}.")
    if isinstance(cv, (int, np.integer)):
        if not 2 <= cv <= n:
            raise ValueError(f"cv must lie between 2 and the number of rows, {n}, got {cv}.")
        if stratify:
            _check_classes(
                target, int(cv), f"cv={cv} folds need at least {cv} rows of each class", "Use fewer folds, merge"
            )
        cv = (StratifiedKFold if stratify else KFold)(int(cv), shuffle=True, random_state=random_state)
    try:
        pairs = [(train, held) for train, held in check_cv(cv).split(np.empty((n, 0)) if X is None else X, target)]
    except (TypeError, ValueError) as error:
        raise type(error)(f"cv must give pairs (train, validation) of row numbers: {error}") from error
    if not pairs:
        raise ValueError("cv gave no splits; at least one pair (train, validation) is needed.")
    splits = []
    for number, (train, held) in enumerate(pairs):
        first = _checked_rows(train, n, f"training rows of split {number}")
        second = _checked_rows(held, n, f"validation rows of split {number}")
        shared = np.intersect1d(first, second)
        if shared.size:
            raise ValueError(
                f"Split {number} of cv uses {shared.size} rows (first: {shared[0]}) for training and validation; "
                "the two must not overlap."
            )
        splits.append((first, second))
    return splits


def _check_classes(y: NDArray[Any], least: int, needs: str, remedy: str) -> int:
    """Number of classes, of which each must have so many rows."""
    if y.ndim != 1:
        raise ValueError(f"Stratified splits need labels of shape (n,), got {y.shape}.")
    labels, counts = np.unique(y, return_counts=True)
    pairs = zip(labels.tolist(), counts.tolist(), strict=True)
    rare = [f"{count} of class {label!r}" for label, count in pairs if count < least]
    if rare:
        ending = f" and {len(rare) - 5} more classes" if len(rare) > 5 else ""
        raise ValueError(
            f"{needs}, got {', '.join(rare[:5])}{ending}. {remedy} or drop rare classes, or pass your own splits as cv."
        )
    return len(labels)


def _checked_rows(rows: Any, n: int, name: str) -> IntArray:
    array = np.asarray(rows)
    if array.ndim != 1:
        raise ValueError(f"cv: {name} must be a list of row numbers or a mask, got shape {array.shape}.")
    if array.dtype == np.bool_:
        if len(array) != n:
            raise ValueError(f"cv: the mask of {name} has length {len(array)}, expected {n}.")
        array = np.flatnonzero(array)
    if array.size == 0:
        raise ValueError(f"cv: {name} are empty.")
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"cv: {name} must be integers, got dtype {array.dtype}.")
    if array.min() < -n or array.max() >= n:
        raise ValueError(f"cv: {name} reach from {array.min()} to {array.max()}, but there are {n} rows.")
    return np.where(array < 0, array + n, array).astype(np.intp)


def holdout(y: ArrayLike, fraction: float, *, stratify: bool, random_state: Any = None) -> Split:
    """Split off a share of the rows for validation, the same share of every class with `stratify`.

    Parameters
    ----------
    y : array of shape (n,) or (n, n_outputs)
        Labels or targets.
    fraction : float
        Share of the rows for validation, between 0 and 1.
    stratify : bool
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
    >>> from kompakt.heldout import holdout
    >>> train, validation = holdout(np.repeat([0, 1], 10), 0.2, stratify=True, random_state=0)
    >>> len(train), len(validation)
    (16, 4)
    """
    target = np.asarray(y)
    n = len(target)
    if not 0 < fraction < 1:
        raise ValueError(f"The share held out must lie strictly between 0 and 1, got {fraction}.")
    n_held = int(np.ceil(fraction * n))
    if n_held >= n:
        raise ValueError(f"Holding out {fraction:g} of n_samples = {n} rows leaves none to train on; use more rows.")
    if stratify:
        n_classes = _check_classes(target, 2, "A stratified hold-out needs at least 2 rows of each class", "Merge")
        if min(n_held, n - n_held) < n_classes:
            raise ValueError(
                f"Holding out {fraction:g} of {n} rows gives {n - n_held} training and {n_held} validation rows, "
                f"but each part must hold all {n_classes} classes; change the share held out."
            )
    strata = target if stratify else None
    train, held = train_test_split(np.arange(n), test_size=n_held, random_state=random_state, stratify=strata)
    return np.sort(train), np.sort(held)


def fold_splits(fold: IntArray) -> list[Split]:
    """Rows to train on and rows held out, of every fold; rows of fold -1 are always trained on.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.heldout import fold_splits
    >>> [(train.tolist(), held_out.tolist()) for train, held_out in fold_splits(np.array([0, 1, -1]))]
    [([1, 2], [0]), ([0, 2], [1])]
    """
    return [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(fold.max() + 1)]


def split_rows(
    data: Data, n_folds: int, key: int, *, fraction: float = 0.1, most_rows: int | None = None
) -> list[Split]:
    """Folds of the rows, or with one fold a single held-out part: this share of the rows, but at most so many."""
    n_rows, labels = data.rows.n_rows, data.labels
    if n_folds > 1:
        return fold_splits(shuffled_folds(n_rows, n_folds, labels=labels, random_state=key))
    target = np.zeros(n_rows) if labels is None else labels
    share = fraction if most_rows is None else min(fraction, most_rows / n_rows)
    return [holdout(target, share, stratify=labels is not None, random_state=key)]


def folds_by_content(data: Data, n_folds: int, key: int) -> list[Split]:
    """Folds by the hash of the rows' content: equal rows are in one fold, and the order of rows does not matter.

    Classes are spread evenly; a class of fewer different rows than folds is missing from some held-out parts.
    """
    hashes = data.in_memory.hashes(key)
    labels = np.zeros(len(hashes), dtype=np.intp) if data.labels is None else data.labels
    order = np.lexsort((hashes, labels))
    is_new = (np.diff(hashes[order]) != 0) | (np.diff(labels[order]) != 0)
    fold = np.empty(len(order), dtype=np.intp)
    fold[order] = np.concatenate([[0], np.cumsum(is_new)]) % n_folds
    return [split for split in fold_splits(fold) if len(split[0]) and len(split[1])]


def quantile_of_new(values: FloatArray, share: float, weights: FloatArray | None = None) -> float:
    """The bound that a new value keeps to with probability `share`, from held-out values (Vovk et al. 2005).

    Of n values and a new one every order is equally likely, so it is the value of rank share * (n + 1); where that is
    more than n, the largest.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.heldout import quantile_of_new
    >>> quantile_of_new(np.arange(1.0, 10.0), 0.8), quantile_of_new(np.arange(1.0, 10.0), 0.99)
    (8.0, 9.0)
    """
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(np.ones(len(values)) if weights is None else weights[order])
    rank = int(np.searchsorted(mass, share * (mass[-1] + 1.0) * (1.0 - 1e-12)))
    return float(values[order[min(rank, len(values) - 1)]])


def splits_of(data: Data, cv: Any, key: int) -> list[Split]:
    """The user's `cv` as splits of the kept rows; splits given as row numbers of X lose the rows of weight zero."""
    kept = data.kept
    if kept is not None and not isinstance(cv, Integral) and not hasattr(cv, "split"):
        cv = [tuple(_among(kept, rows) for rows in pair) for pair in cv]
    y = data.labels if data.labels is not None else data.y
    assert y is not None
    return resolve_splits(cv, y, stratify=data.classifier, random_state=key, X=data.in_memory.X)


def _among(kept: IntArray, rows: Any) -> IntArray:
    """Positions among the kept rows of rows given by number or by mask."""
    rows = np.asarray(rows)
    return np.asarray(rows[kept] if rows.dtype == bool else np.searchsorted(kept, rows[np.isin(rows, kept)]))


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
    >>> from kompakt.heldout import fold_of_row
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
        train_rows = np.asarray(train, dtype=np.intp)
        if len(train_rows) != n_rows - len(rows) or not complement[train_rows].all():
            raise ValueError(
                f"Split {number} does not train on all {n_rows - len(rows)} rows outside its validation rows "
                f"(it names {len(train_rows)}); such splits must be refitted one by one."
            )
        fold[rows] = number
    return fold


def fold_means(row_losses: FloatArray, fold: IntArray, weights: FloatArray) -> FloatArray:
    """Weighted mean loss of each fold, from out-of-fold losses of the rows.

    Parameters
    ----------
    row_losses : ndarray of shape (..., n)
        Loss of each row when it was held out (1 for a wrong label, the squared residual, ...).
    fold : ndarray of shape (n,)
        Fold of each row, 0 .. n_folds - 1; rows of fold -1 are left out.
    weights : ndarray of shape (n,)
        A fold without weight gives NaN.

    Returns
    -------
    ndarray of shape (..., n_folds)
        Fold errors, as `pick_size` wants them.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.heldout import fold_means
    >>> fold_means(np.array([1.0, 0.0, 0.0, 0.0]), np.array([0, 0, 1, 1]), np.ones(4)).tolist()
    [0.5, 0.0]
    """
    order = np.argsort(fold, kind="stable")[np.count_nonzero(fold < 0) :]
    counts = np.bincount(fold[order])
    starts = np.cumsum(counts) - counts
    sums = np.add.reduceat(row_losses[..., order] * weights[order], starts, axis=-1)
    totals = np.add.reduceat(weights[order], starts)
    return np.where(totals > 0, sums / np.where(totals > 0, totals, 1.0), np.nan)


def squared_errors(targets: Any, outputs: Any) -> Any:
    """Squared residuals: a measure of numbers."""
    return np.square(targets - outputs)


def absolute_errors(targets: Any, outputs: Any) -> Any:
    """Absolute residuals: a measure of numbers."""
    return np.abs(targets - outputs)


@dataclass(frozen=True)
class Scorer:
    """Measures outputs on rows that were not trained on; nothing else in the package does.

    Parameters
    ----------
    spec : Spec
        Whose outputs are measured: its loss, and how outputs become classes.
    targets : ndarray of shape (n, L)
    weights : ndarray of shape (n,)
    labels : ndarray of shape (n,), optional
        Class indices; None where the targets are numbers.
    measure : callable, optional
        The error of numbers per element, from targets and outputs; None is the loss.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.heldout import Scorer
    >>> from kompakt.kernels import RBF
    >>> from kompakt.spec import Data, Spec
    >>> data = Data(ArrayRows(np.eye(2), np.array([[-1.0], [1.0]])), labels=np.array([0, 1]))
    >>> score = Scorer.of(data, Spec(RBF(1.0), n_classes=2)).score(np.array([[0.5], [2.0]]))
    >>> score.error, round(score.standard_error, 3)
    (0.5, 0.354)
    """

    spec: Spec
    targets: FloatArray
    weights: FloatArray
    labels: IntArray | None = None
    measure: Callable[[Any, Any], Any] | None = None

    @classmethod
    def of(cls, data: Data, spec: Spec, rows: Any = slice(None), measure: Any = None) -> Scorer:
        """For some rows of the data."""
        labels = None if data.labels is None else data.labels[rows]
        return cls(spec, data.targets[rows], row_weights(data.rows)[rows], labels, measure)

    @cached_property
    def mass(self) -> float:
        """Weight of all rows."""
        return float(np.sum(self.weights))

    def row_errors(self, outputs: Any) -> Any:
        """1 for a wrong label, or the mean error of the numbers of every row, (..., n) from (..., n, L)."""
        if self.labels is None:
            return self._over_outputs(self.measure or self.spec.loss.value, outputs)
        if self.targets.shape[1] == 1:
            wrong = (outputs[..., 0] > 0) != (self.labels > 0)
        else:
            wrong = self.spec.decode(outputs.reshape(-1, outputs.shape[-1])).reshape(outputs.shape[:-1]) != self.labels
        return wrong.astype(np.float64, order="C")  # sums of equal rows are equal, whatever the outputs' layout

    def row_losses(self, outputs: Any) -> Any:
        """Mean loss of every row over the outputs that it takes part in, (..., n)."""
        return self._over_outputs(self.spec.loss.value, outputs)

    def _over_outputs(self, measure: Callable[[Any, Any], Any], outputs: Any) -> Any:
        if self.targets.shape[1] == 1:
            return measure(self.targets[:, 0], outputs[..., 0])
        values = measure(self.targets, outputs)
        if self.labels is None:
            return np.mean(values, axis=-1)
        taking_part = self.targets != 0
        return np.sum(taking_part * values, axis=-1) / np.maximum(1, np.sum(taking_part, axis=-1))

    def mean(self, values: FloatArray) -> Any:
        """Weighted mean of the rows' values, (...) from (..., n)."""
        return np.einsum("...n,n->...", values, self.weights) / self.mass

    def score(self, outputs: Any) -> Score:
        """Errors and losses of one machine."""
        return Score(self.row_errors(outputs), self.row_losses(outputs), self.weights, outputs)


@dataclass(frozen=True)
class Score:
    """How a machine does on rows that it was not trained on, row by row."""

    row_errors: FloatArray  # (n,)
    row_losses: FloatArray  # (n,)
    weights: FloatArray  # (n,)
    outputs: FloatArray  # (n, L)

    @property
    def error(self) -> float:
        """Weighted mean of the rows' errors."""
        return mean_and_error(self.row_errors, self.weights)[0]

    @property
    def standard_error(self) -> float:
        """Standard error of that mean."""
        return mean_and_error(self.row_errors, self.weights)[1]

    @property
    def loss(self) -> float:
        """Weighted mean of the rows' losses."""
        return mean_and_error(self.row_losses, self.weights)[0]


def no_worse(values: FloatArray, than: FloatArray, weights: FloatArray | None = None, errors: float = 1.0) -> bool:
    """Whether the mean of the rows' values is, within so many standard errors of the difference, no higher.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.heldout import no_worse
    >>> before = np.array([1.0, 2.0, 3.0, 4.0])
    >>> no_worse(before + [0.3, -0.2, 0.1, -0.1], before), no_worse(before + 0.1, before)
    (True, False)
    """
    with np.errstate(invalid="ignore", over="ignore"):  # far down a descent losses may not be finite
        mean, error = mean_and_error(values - than, weights)
    return mean <= errors * error < np.inf


def pooled(fold_errors: Any, masses: Any, axis: int = -1) -> Any:
    """Errors of folds pooled over their held-out rows, whose weights are `masses`, not averaged over folds.

    Folds of unequal size would break ties between machines that make the same number of mistakes.
    """
    return np.average(fold_errors, axis=axis, weights=masses)


def mean_and_error(values: FloatArray, weights: FloatArray | None = None) -> tuple[float, float]:
    """Weighted mean of the rows' values and its standard error.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.heldout import mean_and_error
    >>> mean_and_error(np.array([1.0, 0.0, 1.0, 0.0]))
    (0.5, 0.25)
    """
    mean = np.average(values, weights=weights)
    return float(mean), float(np.sqrt(np.average((values - mean) ** 2, weights=weights) / len(values)))


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
    mean_errors: FloatArray
    standard_errors: FloatArray

    @property
    def why(self) -> str:
        """The choice in words."""
        return (
            f"{self.size:,} vectors: the smallest of {len(self.mean_errors):,} sizes with a held-out error of at most "
            f"{self.threshold:.4g}; its own is {self.mean_errors[self.index]:.4g}."
        )


def pick_size(
    sizes: ArrayLike,
    fold_errors: ArrayLike,
    rule: str = "best",
    *,
    tolerance: float = 0.0,
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
        size), "one_se" one standard error of the best size, "within" the given tolerance.
    tolerance : float
        For "within": allowance in units of the error.
    standard_errors : array of shape (n_sizes,), optional
        For "one_se" with a single fold, where the folds cannot tell the standard error.

    Returns
    -------
    SizeChoice
        The size and the numbers behind it.

    Examples
    --------
    >>> from kompakt.heldout import pick_size
    >>> errors = [[0.30, 0.34], [0.20, 0.24], [0.19, 0.23]]
    >>> pick_size([10, 20, 40], errors).size, pick_size([10, 20, 40], errors, "one_se").size
    (40, 20)
    >>> pick_size([10, 20, 40], errors, "within", tolerance=0.15).size
    10
    """
    if tolerance < 0:
        raise ValueError(f"The tolerance must not be negative, got {tolerance}.")
    path, errors = np.asarray(sizes), np.asarray(fold_errors, dtype=np.float64)
    errors = errors[:, None] if errors.ndim == 1 else errors
    n_folds = errors.shape[1]
    with np.errstate(invalid="ignore"):  # inf - inf of an excluded size
        means = errors.mean(axis=1)
        spread = errors.std(axis=1, ddof=1) / np.sqrt(n_folds) if n_folds > 1 else np.full(len(path), np.nan)
    spread = spread if standard_errors is None else np.asarray(standard_errors, dtype=np.float64)
    possible = np.isfinite(errors).all(axis=1)
    if not possible.any():
        raise ValueError("Every size has a NaN or infinite validation error, so none can be picked.")

    def smallest(allowed: NDArray[np.bool_]) -> int:
        candidates = np.flatnonzero(allowed & possible)
        return int(candidates[np.argmin(path[candidates])])

    threshold = float(means[possible].min())
    if rule == "one_se":
        allowance = float(spread[smallest(means == threshold)])
        if not np.isfinite(allowance):
            raise ValueError(
                'The rule "one_se" needs at least 2 folds to know the standard error, got 1. '
                'Pass standard_errors, or use "best" or "within".'
            )
        threshold += allowance
    elif rule == "within":
        threshold += tolerance
    index = smallest(means <= threshold)
    return SizeChoice(index, int(path[index]), threshold, means, spread)


# -- the trials of a search -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trial:
    """One row of the table.

    Attributes
    ----------
    params : dict
        The setting.
    error : float
        What the search minimises; infinite where the evaluation gave no finite value.
    fold_errors : ndarray of shape (n_folds,)
        Errors of the folds, empty where only their mean is known.
    seconds : float
        Time of the evaluation.
    more : dict
        Further columns: the phase of the search, the number of rows, ...
    """

    params: dict[str, Any]
    error: float
    fold_errors: NDArray[np.float64]
    seconds: float
    more: dict[str, Any]

    @property
    def mean(self) -> float:
        """Mean error of the folds, as far as they are known; else what the search minimises."""
        measured = self.fold_errors[~np.isnan(self.fold_errors)]
        return float(measured.mean()) if measured.size else self.error

    @property
    def deviation(self) -> float:
        """Standard deviation of the folds' errors; NaN where they are not known."""
        measured = self.fold_errors[~np.isnan(self.fold_errors)]
        return float(measured.std()) if measured.size else float("nan")


@dataclass
class Trials:
    """What a search tried, in order.

    Attributes
    ----------
    stopped : str
        Why the search ended: "budget" (all evaluations used), "finished", "converged" or "deadline".
    chosen : int, optional
        Row of the setting that was taken, where that is not simply the lowest error: errors of other rows may have been
        measured in another way (on fewer rows, with another loss), or the difference may be chance.
    why : str
        Why it was taken.
    measure : str
        What the errors are, where it is not the error of the task.

    Examples
    --------
    >>> from kompakt.heldout import Trials
    >>> trials = Trials()
    >>> trials.add({"C": 1.0}, 0.2, [0.1, 0.3], phase="coarse")
    >>> trials.add({"C": 10.0}, 0.1, [0.1, 0.1], phase="fine")
    >>> trials.best.params
    {'C': 10.0}
    >>> table = trials.as_dict()
    >>> table["param_C"].tolist(), table["std_test_error"].round(3).tolist(), table["rank_test_error"].tolist()
    ([1.0, 10.0], [0.1, 0.0], [2, 1])
    """

    stopped: str = "finished"
    chosen: int | None = None
    why: str = ""
    measure: str = ""
    rows: list[Trial] = field(default_factory=list, repr=False)

    def add(
        self,
        params: Mapping[str, Any],
        error: float,
        fold_errors: ArrayLike | None = None,
        seconds: float = 0.0,
        **more: Any,
    ) -> None:
        """Append a row; an error that is NaN or infinite counts as a failure, the worst there is."""
        folds = np.asarray([] if fold_errors is None else fold_errors, dtype=np.float64)
        self.rows.append(Trial(dict(params), float(error) if np.isfinite(error) else np.inf, folds, seconds, more))
        setting = ", ".join(f"{name} {value:.4g}" for name, value in params.items() if isinstance(value, int | float))
        # of a table filled at once, a line per point would hide all others
        level = logging.DEBUG if more.get("model") == "plain" or "learned" in more else logging.INFO
        logger.log(level, "search: %s: held-out error %.4g", setting or more.get("model", ""), error)
        logger.debug("trial %d: %s", len(self.rows), more)

    def followed_by(self, trials: Trials | None) -> Trials:
        """Both tables as one; what the second chose is taken."""
        if trials is None:
            return self
        why = f"{self.why} Then {trials.why}" if self.why else trials.why
        chosen = len(self.rows) + trials.rows.index(trials.best)
        return Trials(self.stopped, chosen, why, self.measure, [*self.rows, *trials.rows])

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.rows)

    @property
    def errors(self) -> NDArray[np.float64]:
        """What was minimised, of every row; infinite for a failure."""
        return np.array([row.error for row in self.rows])

    @property
    def n_failed(self) -> int:
        """Evaluations that gave NaN or an infinite value."""
        return int(np.isinf(self.errors).sum())

    def choose(self, trial: Trial, why: str = "") -> None:
        """Take this row, for this reason."""
        self.chosen, self.why = self.rows.index(trial), why

    @property
    def best(self) -> Trial:
        """The row that was chosen; without a choice the lowest error, the first of equal ones."""
        return self.rows[int(np.argmin(self.errors)) if self.chosen is None else self.chosen]

    def as_dict(self) -> dict[str, NDArray[Any]]:
        """Columns in the layout of scikit-learn's `cv_results_`, one entry per row.

        Returns
        -------
        dict of ndarray
            `params` and `param_*`; the further columns given; `split*_test_error` where folds are known;
            `mean_test_error` and `std_test_error` over the folds (the error itself and NaN where folds are not known);
            `objective`, what was minimised; `rank_test_error`, 1 for the row that was chosen, then by the objective;
            and `fit_time` in seconds.
        """
        columns: dict[str, list[Any]] = {"params": [dict(row.params) for row in self.rows]}
        for name in dict.fromkeys(name for row in self.rows for name in row.params):
            columns[f"param_{name}"] = [row.params.get(name) for row in self.rows]
        for name in dict.fromkeys(name for row in self.rows for name in row.more):
            columns[name] = [row.more.get(name) for row in self.rows]
        for fold in range(max((row.fold_errors.size for row in self.rows), default=0)):
            errors = [row.fold_errors[fold] if fold < row.fold_errors.size else np.nan for row in self.rows]
            columns[f"split{fold}_test_error"] = errors
        columns["mean_test_error"] = [row.mean for row in self.rows]
        columns["std_test_error"] = [row.deviation for row in self.rows]
        rank = np.empty(len(self.rows), dtype=np.intp)
        passed_over = np.array([row is not self.best for row in self.rows])
        rank[np.lexsort((self.errors, passed_over))] = np.arange(1, len(self.rows) + 1)
        times = [row.seconds for row in self.rows]
        table = {name: np.array(values) for name, values in columns.items()}
        return table | {"objective": self.errors, "rank_test_error": rank, "fit_time": np.array(times)}
