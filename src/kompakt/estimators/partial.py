"""`partial_fit`: a fixed basis, and weights from running sums over batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import column_or_1d

from kompakt.basis import Selection
from kompakt.codings import get_coding
from kompakt.data import ArrayRows, centre_of
from kompakt.design import Design
from kompakt.estimators.base import offered_if, verbose_logging
from kompakt.estimators.prepare import (
    Array,
    Training,
    check_parameters,
    check_rows,
    checked_weights,
    class_factors,
    resolve_kernel,
)
from kompakt.kernels import Kernel
from kompakt.losses import LeastSquares, Loss, make_loss
from kompakt.parallel import block_threads
from kompakt.solve import Problem
from kompakt.solve.running import RunningSums, batch_sums, minimise_sums

#: losses whose rows may be forgotten after one look
_LOSSES = ("least_squares", "squared_hinge")


@dataclass
class _Running:
    """What is kept between batches: the basis in centred coordinates, and the sums; no rows."""

    kernel: Kernel
    loss: Loss
    offset: Array | None
    selection: Selection
    sums: RunningSums | None = None
    theta: Array | None = None
    weights: Array | None = None
    n_batches: int = 0
    n_rows: int = 0
    n_kernel_evals: int = 0


def _available(estimator: Any) -> bool:
    """Whether batches can be forgotten; the reason is the message of the AttributeError otherwise."""
    reason = None
    loss = estimator.loss if isinstance(estimator.loss, str) else getattr(estimator.loss, "name", None)
    if getattr(estimator, "refine", False):
        reason = "the basis must stay as it is: set refine=False"
    elif estimator.tune or isinstance(estimator.n_basis, str):
        reason = "searches need all rows at once: set tune=False and n_basis to a number"
    elif loss not in _LOSSES:
        reason = f"the loss must be one of {_LOSSES}; got loss={estimator.loss!r}"
    elif estimator.kernel == "precomputed":
        reason = "a precomputed kernel has no rows to add"
    elif isinstance(getattr(estimator, "class_weight", None), str):
        reason = f"class_weight={estimator.class_weight!r} needs all rows at once: give a dict of label: weight"
    elif getattr(estimator, "calibrate", False):
        reason = "calibration needs held-out rows: set calibrate=False"
    elif getattr(estimator, "coding", None) == "one_vs_one" and not getattr(estimator, "shared_basis", True):
        reason = "pairs of classes with prototypes of their own cannot be updated: set shared_basis=True"
    if reason is not None:
        raise AttributeError(f"{type(estimator).__name__} has no partial_fit here: {reason}.")
    return True


class _Partial:
    """What classifiers and regressors share."""

    _running: _Running

    def _partial_selection(self, training: Training, loss: Loss) -> Selection:
        """The basis, from the first batch."""
        raise NotImplementedError

    def _update(
        self, X: Any, targets: Array, weights: Array | None, classes: Array | None, labels: Array | None
    ) -> Any:
        """Add a validated batch to the sums and solve again."""
        me: Any = self
        y = targets if classes is None else None
        targets = targets.reshape(len(targets), -1)
        running = getattr(self, "_running", None)
        with verbose_logging(me.verbose), block_threads(me.n_jobs):
            if running is None:
                fitted = hasattr(self, "model_")
                running = self._after_fit() if fitted else self._begin(X, targets, weights, classes, labels)
            if running.theta is not None and running.theta.shape[1] != targets.shape[1]:
                raise ValueError(
                    f"y has {targets.shape[1]} outputs; the batches before had {running.theta.shape[1]}. "
                    "Give every batch the same outputs."
                )
            rows = ArrayRows(X, targets, weights, running.offset)
            design = Design(rows, running.kernel, running.selection.vectors, whiten=True, store=False)
            problem = Problem(design, running.loss, float(me.C), bool(me.fit_intercept), bool(me.penalize_intercept))
            if running.weights is not None:  # of a fit: where the first Newton step begins
                start = np.concatenate([design.to_coordinates(running.weights[:-1]), running.weights[-1:]])
                running.theta, running.weights = start, None
            exact = isinstance(running.loss, LeastSquares)
            sums = batch_sums(problem, None if exact else running.theta)
            running.sums = sums if running.sums is None else running.sums + sums
            running.n_batches += 1
            running.n_rows += rows.n_rows
            running.n_kernel_evals += design.n_kernel_evals
            solution = minimise_sums(problem, running.sums, running.n_batches)
            running.theta = solution.coordinates
            training = Training(rows, running.kernel, None, classes=classes, labels=labels, y=y)
            model = me._build_model(training, running.selection.vectors, solution)
        self._running = running
        me._publish(model, solution, training, None)
        self.C_ = float(me.C)
        self.n_kernel_evals_ = running.n_kernel_evals
        self.n_rows_seen_ = running.n_rows
        self.history_ = [
            *(getattr(self, "history_", None) or []),
            {"phase": "batch", "n_rows": rows.n_rows, "objective": self.objective_},  # type: ignore[attr-defined]
        ]
        return self

    def _after_fit(self) -> _Running:
        """Kernel, centre and basis of an earlier `fit`, whose rows count for nothing in the sums."""
        me: Any = self
        model = me.model_
        loss = make_loss(me.loss, classes=model.kind == "classifier", epsilon=me.epsilon)
        if model.kernel.name == "linear" and hasattr(self, "_input_space"):  # solved in the input space
            return _Running(model.kernel, loss, None, Selection(None, np.eye(model.n_features)))
        vectors = model.basis.astype(np.float64)
        if model.offset is not None:
            vectors = vectors - model.offset
        weights = np.concatenate([model.weights, model.intercept[None]])
        self.history_ = []
        return _Running(model.kernel, loss, model.offset, Selection(None, vectors), weights=weights)

    def _begin(
        self, X: Any, targets: Array, weights: Array | None, classes: Array | None, labels: Array | None
    ) -> _Running:
        """Kernel, centre and basis: from the first batch, or as the constructor gives them."""
        me: Any = self
        kernel = resolve_kernel(self, X, weights)
        dense = isinstance(X, np.ndarray)
        flat = weights if weights is None or weights.ndim == 1 else weights.max(axis=1)
        offset = centre_of(X, flat) if kernel.shift_invariant and dense else None
        loss = make_loss(me.loss, classes=classes is not None, epsilon=me.epsilon)
        key = int(check_random_state(me.random_state).randint(2**31 - 1))
        rows = ArrayRows(X, targets, weights, offset)
        training = Training(rows, kernel, None, classes=classes, labels=labels, key=key)
        selection = self._partial_selection(training, loss)
        evaluations = int(selection.info.get("n_kernel_evals", 0))
        return _Running(kernel, loss, rows.offset, Selection(None, selection.vectors), n_kernel_evals=evaluations)

    def _batch(self, X: Any, y: Any, sample_weight: Any, *, numeric: bool) -> tuple[Any, Any, Array | None]:
        """Validated float64 rows, targets and weights; rows of weight zero are gone."""
        check_parameters(self)
        X, y = check_rows(self, X, y, numeric_y=numeric, reset=not hasattr(self, "model_"))
        X = X.astype(np.float64, copy=False)  # sums over many batches keep what float32 would lose
        weights = None
        if sample_weight is not None:
            weights = checked_weights(sample_weight, X)
            kept = np.flatnonzero(weights > 0)
            if not len(kept):
                raise ValueError("sample_weight is zero for every row of the batch; expected at least one non-zero.")
            X, y, weights = X[kept], y[kept], weights[kept]
        return X, y, weights


class PartialClassifier(_Partial):
    """`partial_fit` of classifiers."""

    @offered_if(_available)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Add a batch of rows to the machine and forget it.

        The first call fixes kernel width, centre and basis: the vectors given as `selection`, or those that `selection`
        chooses among the rows of the first batch.  With ``loss="least_squares"`` the weights equal those of one fit to
        all batches on that basis; with ``"squared_hinge"`` every call is one Newton step, and the weights are
        approximate.  Available for these losses, without refinement and searches.

        After `fit`, its basis and width are kept, and the batches alone give the weights: the rows of `fit` are not
        counted unless they come again.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All labels that any batch will have; needed in the first call.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        me: Any = self
        known: Any = getattr(self, "classes_", None)
        X, y, weights = self._batch(X, y, sample_weight, numeric=False)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if known is None and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit: all labels that may come.")
        if classes is not None:
            probe = _Labels(known)
            _check_partial_fit_first_call(probe, classes)
            known = probe.classes_
        if len(known) < 2:
            raise ValueError(f"The number of classes has to be greater than one; got {len(known)} class: {known}.")
        strange = np.setdiff1d(y, known)
        if len(strange):
            raise ValueError(f"y holds labels {strange[:5]} that are not among classes={known}.")
        labels = np.asarray(np.searchsorted(known, y))
        factors = class_factors(me.class_weight, known, np.bincount(labels, weights, len(known)))
        if factors is not None:
            weights = factors[labels] if weights is None else weights * factors[labels]
        coding = get_coding(me.coding)
        targets = coding.encode(labels, len(known))
        if np.any(coding.codes(len(known)) == 0):
            weights = (targets != 0) * (1.0 if weights is None else weights[:, None])
        return self._update(X, targets, weights, known, labels)


class PartialRegressor(_Partial):
    """`partial_fit` of regressors."""

    @offered_if(_available)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Add a batch of rows to the machine and forget it.

        The first call fixes kernel width, centre and basis: the vectors given as `selection`, or those that `selection`
        chooses among the rows of the first batch.  The weights equal those of one fit to all batches on that basis.
        Available with ``loss="least_squares"``, without refinement and searches.

        After `fit`, its basis and width are kept, and the batches alone give the weights: the rows of `fit` are not
        counted unless they come again.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        X, y, weights = self._batch(X, y, sample_weight, numeric=True)
        return self._update(X, np.asarray(y, dtype=np.float64), weights, None, None)


class _Labels:
    """What scikit-learn's check of `classes` looks at: the labels known so far."""

    def __init__(self, known: Array | None) -> None:
        if known is not None:
            self.classes_ = known


def forget_batches(estimator: Any) -> None:
    """A `fit` begins anew: the sums of earlier batches are not its."""
    for name in ("_running", "n_rows_seen_"):
        estimator.__dict__.pop(name, None)
