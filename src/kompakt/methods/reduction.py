"""What local sampling and CGLQ share: the rows to be reduced, and the exact SVM that is fitted to some of them."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.svm import SVC, NuSVC
from sklearn.utils.validation import has_fit_parameter

from kompakt.heldout import holdout, mean_and_error
from kompakt.io.fitted import model_of
from kompakt.kernels import Linear
from kompakt.model import Model
from kompakt.reduce.local_sampling import ReducedSet, last_step, support_positions

Array = np.ndarray
logger = logging.getLogger("kompakt")

#: rows held out at most
MOST_HELD_OUT = 5_000
#: a fitted machine whose dense vectors would take more bytes than this is asked itself, not made into a Model
_MODEL_BYTES = 1 << 30
#: a weight beside the largest that is none: it is lost in the rounding of the objective
_LEAST_WEIGHT = 1e-15


@dataclass
class ReductionProblem:
    """The rows to be reduced, the exact SVM, and how it is fitted to some of them."""

    X: Any
    y: Array
    svm: Any
    pool: Array  # numbers of the rows that may be trained on
    weights: Array | None
    centre: Array | None  # of dense rows: distances do not change when rows are centred, their rounding does

    @property
    def class_counts(self) -> Array:
        """Rows of every class that may be trained on."""
        return np.unique(self.y[self.pool], return_counts=True)[1]

    def hold_out(self, fraction: float, key: int) -> Array:
        """Rows for validation, taken from the pool; none of a class with a single row."""
        y = self.y
        classes, place, counts = np.unique(y[self.pool], return_inverse=True, return_counts=True)
        candidates = self.pool[counts[place] > 1]
        if np.sum(counts > 1) < 2:
            raise ValueError("validation needs two classes of at least two rows each; give beta, or more rows.")
        share = min(float(fraction), MOST_HELD_OUT / len(candidates))
        share = max(share, (len(classes) + 1) / len(candidates))
        _, chosen = holdout(y[candidates], share, stratify=True, random_state=key)
        held_out = candidates[chosen]
        self.pool = np.setdiff1d(self.pool, held_out)
        return held_out

    def fit(self, rows: Array, factor: Any = 1.0, machine: Any = None) -> Any:
        """The SVM, or another machine, fitted to the rows with these numbers, each of `factor` times its weight.

        The factor is a number, or one per row.
        """
        machine = self.svm if machine is None else machine
        fitted, X = clone(machine), self.X[rows]
        centred = self.centre is not None and _measures_distances(machine)
        if centred:
            assert self.centre is not None
            X = X - self.centre.astype(self.X.dtype)
        if self.weights is None and np.all(factor == 1.0):
            fitted.fit(X, self.y[rows])
        else:
            weights = np.full(len(rows), factor) if self.weights is None else factor * self.weights[rows]
            # LIBSVM does not end where some costs vanish beside others; rows without weight it leaves out
            weights = np.where(weights < _LEAST_WEIGHT * np.max(weights), 0.0, weights)
            step = last_step(fitted)
            if not has_fit_parameter(step, "sample_weight"):
                raise TypeError(
                    f"sample_weight is needed, but {type(step).__name__}.fit does not take it. Leave the weights out "
                    "and set variant='paper', or choose an estimator that takes them."
                )
            name = f"{fitted.steps[-1][0]}__sample_weight" if hasattr(fitted, "steps") else "sample_weight"
            fitted.fit(X, self.y[rows], **{name: weights})
        if centred:  # the machine is handed on with the user's rows: it predicts for rows that are not centred
            vectors = self.X[rows[fitted.support_]]
            fitted.support_vectors_ = np.asarray(vectors, dtype=fitted.support_vectors_.dtype)
        return fitted

    def margins(self, machine: Any, rows: Array) -> Array:
        """How far the decision value of each row's class lies above that of the next one; below 0 it is wrong."""
        place = np.searchsorted(machine.classes_, self.y[rows])
        values = np.asarray((model_or_none(machine) or machine).decision_function(self.X[rows]), dtype=np.float64)
        if values.ndim == 1:
            return np.where(place == 1, values, -values)
        of_class = values[np.arange(len(rows)), place]
        values[np.arange(len(rows)), place] = -np.inf
        return np.asarray(of_class - values.max(axis=1))

    def error(self, machine: Any, held_out: Array) -> float:
        """Share of the validation rows, by weight, that a machine gets wrong."""
        # the model computes by blocks of BLAS, where LIBSVM goes row by row
        wrong = (model_or_none(machine) or machine).predict(self.X[held_out]) != self.y[held_out]
        return mean_and_error(wrong, None if self.weights is None else self.weights[held_out])[0]


def train_on_all_rows(problem: ReductionProblem) -> ReducedSet:
    """One exact SVM on every row that may be trained on; nothing is held out."""
    rows, start = problem.pool, time.perf_counter()
    machine = problem.fit(rows)
    support = rows[support_positions(machine, problem.X[rows], problem.y[rows])]
    facts = {"n_train": len(rows), "n_support": len(support)}
    seconds = {"fits": time.perf_counter() - start}
    logger.info("all rows: %s", facts)
    return ReducedSet(
        rows, machine, support, initial_support=support, history=[facts], seconds=seconds, subsamples=[rows]
    )


def _measures_distances(machine: Any) -> bool:
    """Whether a machine of scikit-learn is the same on centred rows; a width by name depends on their variance."""
    return isinstance(machine, SVC | NuSVC) and machine.kernel == "rbf" and not isinstance(machine.gamma, str)


def model_or_none(machine: Any) -> Model | None:
    """The kompakt model of a fitted machine; None where it has none, and is asked itself."""
    step = last_step(machine)
    if type(step).__name__ == "LinearSVC" and step is machine:
        coef = np.asarray(machine.coef_, dtype=np.float64)
        intercept = np.broadcast_to(np.asarray(machine.intercept_, dtype=np.float64), len(coef)).copy()
        fields = {"n_features": coef.shape[1], "classes": machine.classes_, "coding": "one_vs_rest"}
        return Model(Linear(), coef, np.eye(len(coef)), intercept, "classifier", **fields)
    support = getattr(step, "support_", ())
    if 8 * len(support) * int(getattr(machine, "n_features_in_", 0)) > _MODEL_BYTES:
        return None
    try:
        return model_of(machine, svm=True)
    except (TypeError, AttributeError):
        return None
