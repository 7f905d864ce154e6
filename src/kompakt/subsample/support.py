"""Support vectors of any classifier that was trained on some rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kompakt.progress import tracked
from kompakt.subsample.plan import ReductionWarning
from kompakt.threads import ordered_map

Array = np.ndarray

#: a machine trained on the rows with these numbers (and, as an option, this weight of each)
FitRows = Callable[..., Any]


def last_step(estimator: Any) -> Any:
    """The estimator itself, or the last step of a pipeline."""
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator


def support_positions(fitted: Any, X: Any, y: Array) -> Array:
    """Positions of the support vectors among the rows a classifier was trained on, increasing.

    `support_` where the classifier has it; else the rows whose margin is at most one in some output, which are the
    support vectors of a hinge-loss machine.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from kompakt.subsample.support import support_positions
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> support_positions(SVC(kernel="linear", C=100.0).fit(X, y), X, y).tolist()
    [1, 2]
    """
    support = getattr(last_step(fitted), "support_", None)
    if support is not None:
        return np.sort(np.asarray(support, dtype=np.intp))
    if not hasattr(fitted, "decision_function"):
        raise TypeError(
            f"the estimator must have support_ or a decision function after fit; {type(fitted).__name__} has neither. "
            "Use SVC, LinearSVC or another machine with margins."
        )
    values = np.asarray(fitted.decision_function(X), dtype=np.float64)
    classes = fitted.classes_
    if values.ndim == 1:
        margins = np.where(y == classes[1], values, -values)
    else:
        margins = np.where(y[:, None] == classes[None, :], values, -values).min(axis=1)
    # solvers stop a little short of the margin
    return np.flatnonzero(margins <= 1.0 + 1e-3)


@dataclass(frozen=True)
class SubsampleSupport:
    """What the subsamples gave: the union V of their support vectors, and the subsamples that had one class only."""

    rows: Array
    one_class: int


def support_of_subsamples(fit: FitRows, X: Any, y: Array, subsamples: Sequence[Array]) -> SubsampleSupport:
    """Train on every subsample and join their support vectors (step (ii)).

    A subsample with one class has no SVM: it is left out and reported.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from kompakt.subsample.support import support_of_subsamples
    >>> X, y = np.arange(8.0)[:, None], np.array([0, 0, 0, 0, 1, 1, 1, 1])
    >>> fit = lambda rows: SVC(kernel="linear", C=100.0).fit(X[rows], y[rows])
    >>> support_of_subsamples(fit, X, y, [np.array([0, 3, 4, 7]), np.array([1, 2, 5, 6])]).rows.tolist()
    [2, 3, 4, 5]
    """

    def one(rows: Array) -> Array | None:
        labels = y[rows]
        if np.all(labels == labels[0]):
            return None
        return rows[support_positions(fit(rows), X[rows], labels)]

    found = list(tracked(ordered_map(one, list(subsamples)), "subsamples", len(subsamples)))
    good = [rows for rows in found if rows is not None and len(rows)]
    one_class = sum(rows is None for rows in found)
    if not good:
        raise ValueError(
            f"all {len(found)} subsamples of {len(subsamples[0])} rows hold one class only, so none has support "
            "vectors. Raise delta, lower n_subsamples, or set stratify=True."
        )
    if one_class:
        warnings.warn(
            f"{one_class} of {len(found)} subsamples hold one class only and were left out. Raise delta, lower "
            "n_subsamples, or set stratify=True.",
            ReductionWarning,
            stacklevel=2,
        )
    return SubsampleSupport(np.sort(np.concatenate(good)), one_class)


#: rows of a class that are added where a reduced set has none of it
ROWS_OF_A_LOST_CLASS = 5


def with_every_class(rows: Array, y: Array, pool: Array, rng: np.random.Generator) -> Array:
    """The reduced set with a few random rows of every class that it lost, sorted; a loss is reported.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.subsample.support import with_every_class
    >>> with_every_class(np.array([0, 1]), np.array([0, 1, 0, 1]), np.arange(4), np.random.default_rng(0)).tolist()
    [0, 1]
    """
    lost = np.setdiff1d(y[pool], y[rows])
    if not len(lost):
        return rows
    added = []
    for label in lost:
        members = pool[y[pool] == label]
        added.append(rng.choice(members, size=min(len(members), ROWS_OF_A_LOST_CLASS), replace=False))
    warnings.warn(
        f"the reduced training set held no rows of {len(lost)} of the classes ({lost[:5].tolist()}); up to "
        f"{ROWS_OF_A_LOST_CLASS} random rows of each were added. Raise delta, or set stratify=True.",
        ReductionWarning,
        stacklevel=2,
    )
    return np.union1d(rows, np.concatenate(added))
