"""Columns with many levels: what the target is like in each level, learned so that no row sees its own target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray

#: folds by which the features of training rows are made
_FOLDS = 5
#: levels that a table holds at most, and classes that get a feature each
MOST_STORED, MOST_CLASSES = 1000, 10
#: different whole numbers that may be codes at least; and rows of each, on average
_LEAST_CODES, _ROWS_OF_A_CODE = 6, 3
#: the numbers beside a code by which it is predicted, on each side
_NEIGHBOURS = 2
#: standard errors by which codes must be better than their order, and the least share of the variance they explain
_SURELY, _LEAST_SHARE = 2.5, 0.02


@dataclass(frozen=True)
class Targets:
    """Targets as columns of numbers whose means are learned, with their names."""

    values: Array
    names: tuple[str, ...]


def targets_of(y: Array | None, n_rows: int, *, classes: bool) -> Targets:
    """Numbers as they are; of classes the share of the second of two, else of each of the most frequent ones.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.levels import targets_of
    >>> targets_of(np.array(["no", "yes", "no"]), 3, classes=True).values.ravel()
    array([0., 1., 0.])
    """
    if y is None:
        return Targets(np.empty((n_rows, 0)), ())
    if not classes:
        values = np.asarray(y, dtype=np.float64).reshape(len(y), -1)[:, :MOST_CLASSES]
        n_outputs = values.shape[1]
        return Targets(values, ("mean",) if n_outputs == 1 else tuple(f"mean {place}" for place in range(n_outputs)))
    labels, codes, counts = np.unique(np.asarray(y), return_inverse=True, return_counts=True)
    shown = np.array([1]) if len(labels) == 2 else np.sort(np.argsort(-counts, kind="stable")[:MOST_CLASSES])
    return Targets((codes[:, None] == shown).astype(np.float64), tuple(f"share of {label}" for label in labels[shown]))


def level_means(codes: Array, targets: Array, n_levels: int) -> Array:
    """Means of the targets in every level, drawn to the mean of all rows where rows are few; last row: other levels.

    The weight of the mean of all rows is that of m rows, m being the variance within levels over that between them
    (empirical Bayes, Robbins 1956; the variances by moments, as in an analysis of variance).

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Level of every row, `n_levels` for other ones.
    targets : ndarray of shape (n, k)
    n_levels : int

    Returns
    -------
    ndarray of shape (n_levels + 1, k)

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.levels import level_means
    >>> level_means(np.array([0, 0, 1, 1]), np.array([[1.0], [1.0], [3.0], [3.0]]), 2).ravel()
    array([1., 3., 2.])
    """
    prior = targets.mean(axis=0)
    inside = codes < n_levels
    codes, targets = codes[inside], targets[inside]
    counts = np.bincount(codes, minlength=n_levels)[:, None]
    sums = np.array([np.bincount(codes, column, n_levels) for column in targets.T]).reshape(-1, n_levels).T
    seen, n = counts > 0, max(len(codes), 1)
    means = np.where(seen, sums / np.maximum(counts, 1), prior)
    n_seen = int(seen.sum())
    within = np.sum((targets - means[codes]) ** 2, axis=0) / max(n - n_seen, 1)
    spread = np.sum(counts * (means - sums.sum(axis=0) / n) ** 2, axis=0) - (n_seen - 1) * within
    between = np.maximum(spread / max(n - float(np.sum(counts**2)) / n, 1e-300), 0.0)
    weight = np.divide(within, between, out=np.full_like(within, np.inf), where=between > 1e-12 * within)
    finite = np.where(np.isfinite(weight), weight, 0.0)
    smooth = (sums + finite * prior) / np.maximum(counts + finite, 1e-300)
    return np.vstack([np.where(seen & np.isfinite(weight), smooth, prior), prior])


def frequencies(codes: Array, n_levels: int) -> Array:
    """Logarithm of the share of the rows in every level; other levels count as one row."""
    counts = np.maximum(np.bincount(codes, minlength=n_levels + 1)[: n_levels + 1], 1)
    counts[n_levels] = 1
    return np.asarray(np.log(counts / max(len(codes), 1)))[:, None]


def held_out_means(codes: Array, targets: Array, n_levels: int) -> Array:
    """The mean of every row's level over rows of other folds than its own, (n, k).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.levels import held_out_means
    >>> noise = np.random.default_rng(0).normal(size=(1000, 1))  # levels of two rows each that say nothing
    >>> means = held_out_means(np.arange(1000) // 2, noise, 500)
    >>> bool(np.corrcoef(means.ravel(), noise.ravel())[0, 1] < 0.1)
    True
    """
    fold = np.random.default_rng(0).permutation(len(codes)) % _FOLDS
    means = np.empty_like(targets)
    for number in range(min(_FOLDS, len(codes))):
        train, held = fold != number, fold == number
        means[held] = level_means(codes[train], targets[train], n_levels)[codes[held]] if train.any() else 0.0
    return means


def are_codes(values: Array, targets: Array) -> bool:
    """Whether whole numbers repeat and name things, instead of counting or measuring them.

    A row is predicted by the mean of its number over other rows, and by the means of the numbers beside it. Where only
    the former tells of the target on rows that were held out, the order of the numbers says nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.levels import are_codes
    >>> rng = np.random.default_rng(0)
    >>> numbers = rng.integers(0, 40, 800)
    >>> are_codes(numbers, rng.normal(size=40)[numbers][:, None]), are_codes(numbers, np.sin(numbers / 9)[:, None])
    (True, False)
    """
    if np.any(values != np.round(values)) or not np.isfinite(values).all():
        return False
    distinct, codes = np.unique(values, return_inverse=True)
    n_levels = len(distinct)
    if not _LEAST_CODES <= n_levels <= min(MOST_STORED, len(values) / _ROWS_OF_A_CODE):
        return False
    spread = targets.std(axis=0)
    targets = (targets - targets.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    by_level = np.sum((targets - held_out_means(codes, targets, n_levels)) ** 2, axis=1)
    counts = np.bincount(codes, minlength=n_levels)[:, None].astype(np.float64)
    sums = np.column_stack([np.bincount(codes, column, n_levels) for column in targets.T])
    near_sums, near_counts = (np.zeros_like(total) for total in (sums, counts))
    for step in range(1, _NEIGHBOURS + 1):
        for total, near in ((sums, near_sums), (counts, near_counts)):
            near[step:] += total[:-step]
            near[:-step] += total[step:]
    by_order = np.sum((targets - (near_sums / near_counts)[codes]) ** 2, axis=1)
    variation = max(float(np.sum(targets**2)), 1e-300)
    share, of_order = 1 - by_level.sum() / variation, 1 - by_order.sum() / variation
    gains = np.bincount(codes, by_order - by_level, n_levels)  # rows of one number are no independent witnesses
    error = np.sqrt(n_levels) * gains.std(ddof=1)
    return bool(share > _LEAST_SHARE and of_order < 0.5 * share and gains.sum() > _SURELY * error)
