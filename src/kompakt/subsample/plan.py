"""How many subsamples of which size, and their rows (seed 003, step (i) and section 3.3)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

Array = np.ndarray
logger = logging.getLogger("kompakt")

#: the smallest subsample of seed 003's experiments
LEAST_SIZE = 50
#: rows of the rarest class that a subsample shall hold on average, so that one without it is rare
LEAST_OF_A_CLASS = 5
#: subsamples wanted at least (the experiments have 12 to 50), and at most
WANTED, MOST = 10, 50


class ReductionWarning(UserWarning):
    """The training set could not be reduced as asked; the message says what was done instead.

    Examples
    --------
    >>> from kompakt.subsample import ReductionWarning
    >>> issubclass(ReductionWarning, UserWarning)
    True
    """


@dataclass(frozen=True)
class SubsamplePlan:
    """L disjoint subsamples of `size` rows, together a share `delta` of the n rows.

    Examples
    --------
    >>> from kompakt.subsample import SubsamplePlan
    >>> SubsamplePlan(delta=0.02, n_subsamples=20, size=50).n_rows
    1000
    """

    delta: float
    n_subsamples: int
    size: int

    @property
    def n_rows(self) -> int:
        """Rows in all subsamples together."""
        return self.n_subsamples * self.size


def plan_subsamples(
    class_counts: Array,
    n_features: int,
    *,
    delta: Any = "auto",
    n_subsamples: Any = "auto",
    min_subsample_size: Any = "auto",
) -> SubsamplePlan:
    """Resolve share, number and size of the subsamples.

    The guidance of seed 003, section 3.3, as numbers.  The share is n_features / 1000 between 1 % and 10 % (its
    experiments: 1 % with 8 features, 2 % with 22, 2.5 % with 54, 10 % with 254), and more where 10 subsamples of the
    smallest size need it, up to half of the rows.  The smallest size is 50, 5 rows per feature (experiments: 2 to 6)
    and 5 rows of the rarest class, whichever is most: a subsample that is too small makes most of its rows support
    vectors.  The number of subsamples is then as large as the size allows, up to 50.

    Parameters
    ----------
    class_counts : ndarray of shape (n_classes,)
    n_features : int
    delta : float or "auto", default="auto"
    n_subsamples : int or "auto", default="auto"
    min_subsample_size : int or "auto", default="auto"

    Returns
    -------
    SubsamplePlan

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.subsample import plan_subsamples
    >>> plan_subsamples(np.array([29690, 14845]), 8, delta=0.01, n_subsamples=12)
    SubsamplePlan(delta=0.01, n_subsamples=12, size=37)
    >>> plan_subsamples(np.array([300_000, 221_012]), 54)
    SubsamplePlan(delta=0.054, n_subsamples=50, size=562)
    """
    counts = np.asarray(class_counts)
    n = int(counts.sum())
    least = _least_size(min_subsample_size, counts, n_features)
    if isinstance(delta, str):
        if delta != "auto":
            raise ValueError(f"delta must be 'auto' or a number between 0 and 1; got {delta!r}.")
        wanted = WANTED if isinstance(n_subsamples, str) else int(n_subsamples)
        share = float(np.clip(n_features / 1000.0, 0.01, 0.10))
        share = max(share, min(0.5, wanted * least / n))
    elif not isinstance(delta, Real) or isinstance(delta, bool) or not 0 < float(delta) < 1:
        raise ValueError(f"delta must be 'auto' or a number between 0 and 1 (a share of the rows); got {delta!r}.")
    else:
        share = float(delta)
    if isinstance(n_subsamples, str):
        if n_subsamples != "auto":
            raise ValueError(f"n_subsamples must be 'auto' or a whole number of at least 1; got {n_subsamples!r}.")
        L = int(np.clip(share * n // least, 1, MOST))
    elif not isinstance(n_subsamples, Integral) or isinstance(n_subsamples, bool) or n_subsamples < 1:
        raise ValueError(f"n_subsamples must be 'auto' or a whole number of at least 1; got {n_subsamples!r}.")
    else:
        L = int(n_subsamples)
    size = int(share * n / L + 1e-9)  # floor(delta n / L); 1e-9 mends products such as 0.29 * 100
    plan = SubsamplePlan(share, L, size)
    logger.info("subsamples: %d of %d rows (delta=%.4g, smallest size wanted %d)", L, size, share, least)
    return plan


def _least_size(given: Any, counts: Array, n_features: int) -> int:
    if isinstance(given, str):
        if given != "auto":
            raise ValueError(f"min_subsample_size must be 'auto' or a whole number of at least 2; got {given!r}.")
        rare = int(np.ceil(LEAST_OF_A_CLASS * counts.sum() / max(1, counts.min())))
        return max(LEAST_SIZE, 5 * n_features, rare)
    if not isinstance(given, Integral) or isinstance(given, bool) or given < 2:
        raise ValueError(f"min_subsample_size must be 'auto' or a whole number of at least 2; got {given!r}.")
    return int(given)


def draw_subsamples(labels: Array, plan: SubsamplePlan, rng: np.random.Generator, *, stratify: bool) -> list[Array]:
    """Disjoint random subsamples of row numbers, each sorted (step (i)).

    Stratified subsamples hold every class in its share of the rows, up to one row: rows are ordered by their random
    rank within their class, as a share of the class, and cut into consecutive pieces.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.subsample import SubsamplePlan, draw_subsamples
    >>> labels = np.repeat([0, 1], [80, 20])
    >>> drawn = draw_subsamples(labels, SubsamplePlan(0.3, 3, 10), np.random.default_rng(0), stratify=True)
    >>> [int(labels[rows].sum()) for rows in drawn]
    [2, 2, 2]
    """
    n = len(labels)
    if plan.n_rows > n:
        raise ValueError(f"{plan.n_subsamples} disjoint subsamples of {plan.size} rows need more than the {n} rows.")
    order = rng.permutation(n)
    if stratify:
        shuffled = np.unique(labels, return_inverse=True)[1][order]
        by_class = np.argsort(shuffled, kind="stable")
        counts = np.bincount(shuffled)
        starts = np.cumsum(counts) - counts
        rank = np.empty(n)
        rank[by_class] = np.arange(n) - np.repeat(starts, counts)
        order = order[np.argsort((rank + 0.5) / counts[shuffled], kind="stable")]
    return [np.sort(order[i * plan.size : (i + 1) * plan.size]) for i in range(plan.n_subsamples)]
