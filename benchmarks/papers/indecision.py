"""Indecision probabilities of machines on subsamples of growing size (Barcenas, Gonzalez-Lima, Quiroz, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from kompakt import indecision_probability
from kompakt.parallel import block_threads, ordered_map

Array = np.ndarray


@dataclass(frozen=True)
class IndecisionStudy:
    """Indecision probabilities of machines trained on subsamples of several sizes.

    Attributes
    ----------
    sizes : ndarray of shape (n_sizes,)
    eps : ndarray of shape (n_eps,)
    mean, deviation : ndarray of shape (n_eps, n_sizes)
        Over the repeats; the deviation is nan for one repeat.
    n_repeats : int
    """

    sizes: Array
    eps: Array
    mean: Array
    deviation: Array
    n_repeats: int


def indecision_study(
    estimator: Any,
    X: Any,
    y: Any,
    sizes: Sequence[int],
    *,
    eps: Sequence[float] = (0.1, 0.01, 0.001),
    n_repeats: int = 100,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> IndecisionStudy:
    """Average indecision probability on the training rows, for subsamples of growing size (Barcenas et al., 4.2).

    Parameters
    ----------
    estimator : two-class classifier
        Cloned and trained on every subsample.
    X : array or sparse matrix of shape (n_samples, n_features)
    y : array of shape (n_samples,)
    sizes : sequence of int
        Subsample sizes, at most the number of rows.
    eps : sequence of float, default=(0.1, 0.01, 0.001)
    n_repeats : int, default=100
        Independent subsamples of every size.
    random_state : int, RandomState or None, default=None
    n_jobs : int, default=None

    Returns
    -------
    IndecisionStudy

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.svm import SVC
    >>> from benchmarks.papers.indecision import indecision_study
    >>> X, y = make_classification(400, random_state=0)
    >>> study = indecision_study(SVC(kernel="linear"), X, y, [100, 200], n_repeats=5, random_state=0)
    >>> study.mean.shape, bool((study.mean[0] > study.mean[2]).all())
    ((3, 2), True)
    """
    labels = np.asarray(y)
    n = len(labels)
    if not sizes or min(sizes) < 2 or max(sizes) > n:
        raise ValueError(f"sizes must lie between 2 and the number of rows, {n}; got {list(sizes)}.")
    if n_repeats < 1:
        raise ValueError(f"n_repeats must be at least 1; got {n_repeats!r}.")
    key = int(check_random_state(random_state).randint(2**31 - 1))

    def one(task: tuple[int, int]) -> Array:
        size, repeat = task
        rows = np.sort(np.random.default_rng([key, size, repeat]).permutation(n)[:size])
        return indecision_probability(clone(estimator).fit(X[rows], labels[rows]), X[rows], eps)

    tasks = [(int(size), repeat) for size in sizes for repeat in range(n_repeats)]
    with block_threads(n_jobs):
        shares = np.array(list(ordered_map(one, tasks))).reshape(len(sizes), n_repeats, len(eps))
    deviation = shares.std(axis=1, ddof=1) if n_repeats > 1 else np.full(shares[:, 0].shape, np.nan)
    return IndecisionStudy(np.array(sizes), np.array(eps), shares.mean(axis=1).T, deviation.T, n_repeats)
