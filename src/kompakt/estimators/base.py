"""What the public estimators share: prediction through the model, fitted attributes, tags."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from kompakt.estimators.lazy import is_dask, lazily
from kompakt.estimators.prepare import Array, Training, check_rows
from kompakt.estimators.watch import CallbackSupportMixin
from kompakt.model import Model
from kompakt.progress import Deadline
from kompakt.rows import Source, StreamedRows
from kompakt.rows.checks import refuse_non_finite
from kompakt.rows.streamed import READ_ROWS
from kompakt.solve import Settings, Solution
from kompakt.threads import block_threads

logger = logging.getLogger("kompakt")


class offered_if:
    """A method that some settings of an estimator do not have; the error on access says which setting it needs.

    As scikit-learn's `available_if`, whose own error names neither the setting nor the remedy.

    Parameters
    ----------
    check : callable
        Raises an AttributeError for an estimator without the method.
    """

    def __init__(self, check: Callable[[Any], Any]) -> None:
        self.check = check

    def __call__(self, method: Callable[..., Any]) -> offered_if:
        self.method = method
        update_wrapper(self, method)
        return self

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self.method
        self.check(estimator)
        return MethodType(self.method, estimator)


def deadline_of(max_time: float | None) -> Deadline | None:
    """The moment at which `max_time` seconds from now are over."""
    return None if max_time is None else Deadline(float(max_time))


def solver_settings(estimator: Any, deadline: float | None) -> Settings:
    """The stopping rule from the constructor's words."""
    return Settings(tol=float(estimator.tol), max_iter=int(estimator.max_iter), deadline=deadline, resumable=True)


def streamed_rows(training: Training) -> StreamedRows | None:
    """The streamed rows behind a training or behind the sample of one."""
    rows = training.rows if training.origin is None else training.origin.rows
    return rows if isinstance(rows, StreamedRows) else None


class KernelMachine(CallbackSupportMixin, BaseEstimator):
    """Base of the estimators: everything after a model has been found."""

    model_: Model

    def _outputs(self, X: Any) -> Array:
        """Raw outputs of the fitted model for validated rows, (n, L)."""
        check_is_fitted(self, "model_")
        if isinstance(X, Source):
            return self._streamed_outputs(X)
        X, _ = check_rows(self, X, reset=False)
        with block_threads(getattr(self, "n_jobs", None)):
            return self.model_.outputs(X)

    def _streamed_outputs(self, source: Source) -> Array:
        """Outputs of rows that are read some thousand at a time."""
        known = getattr(self, "feature_names_in_", None)
        if known is not None and source.feature_names is not None and list(known) != list(source.feature_names):
            raise ValueError(
                f"{source.name} has the features {list(source.feature_names)}; expected {list(known)}, in this order."
            )
        outputs = np.empty((source.n_rows, self.model_.weights.shape[1]))
        with block_threads(getattr(self, "n_jobs", None)):
            for start in range(0, source.n_rows, 8 * READ_ROWS):
                stop = min(start + 8 * READ_ROWS, source.n_rows)
                X = source.read(start, stop).X
                refuse_non_finite(X, lambda row, start=start: source.where(start + row))  # type: ignore[misc]
                outputs[start:stop] = self.model_.outputs(X)
        return outputs

    def _build_model(self, training: Training, basis: Array, solution: Solution, **more: Any) -> Model:
        """The frozen model from a basis in the rows' (centred) coordinates and its solution."""
        rows, kernel = training.rows, training.kernel
        vectors = basis if rows.offset is None else basis + rows.offset
        names = getattr(self, "feature_names_in_", None)
        fields: dict[str, Any] = {
            "kernel": type(kernel)() if kernel.name == "precomputed" else kernel,
            "basis": vectors,
            "weights": solution.weights,
            "intercept": solution.intercept,
            "kind": "regressor" if training.classes is None else "classifier",
            "n_features": rows.n_features,
            "classes": training.classes,
            "coding": None if training.classes is None else getattr(self, "coding", "one_vs_rest"),
            "offset": None if rows.offset is None else rows.offset.astype(np.float64),
            "feature_names": None if names is None else np.asarray(names, dtype=str),
            "squeeze": training.single,
        }
        streamed = streamed_rows(training)
        if streamed is not None:
            fields |= {"input_shift": streamed.reader.shift, "input_scale": streamed.reader.scale}
        return Model(**{**fields, **more})

    def _publish(self, model: Model, solution: Solution, training: Training, indices: Array | None) -> None:
        """Set the fitted attributes that every estimator has; `indices` are row numbers of the kept rows."""
        self.model_ = model
        self.kernel_ = model.kernel
        gamma = getattr(model.kernel, "gamma", None)
        if gamma is not None:
            self.gamma_ = gamma
        self.basis_vectors_ = model.basis_vectors_
        self.basis_indices_ = training.original(indices)
        if indices is not None and self.basis_vectors_ is not None:
            # exactly the user's rows: centring and back may have changed the last bit
            exact = training.rows.originals(indices)
            exact = exact.toarray() if training.rows.is_sparse else np.array(exact)
            self.basis_vectors_ = exact if model.input_scale is None else model.basis_vectors_
        self.dual_coef_ = model.weights.T
        self.intercept_ = model.intercept
        self.n_basis_ = model.n_basis_
        self.n_iter_ = solution.n_iter
        self.converged_ = solution.converged
        self.interrupted_ = False
        self.jitter_ = solution.jitter
        self.objective_ = float(np.sum(solution.objective))
        if training.classes is not None:
            self.classes_ = training.classes
        streamed = streamed_rows(training)
        if streamed is not None:
            self.n_passes_ = streamed.passes.count
        elif hasattr(self, "n_passes_"):
            del self.n_passes_  # of an earlier fit
        if model.kernel.name == "linear":
            self.coef_ = model.weights.T @ model.basis
        logger.info(
            "%s: %d basis vectors, %d iterations for the weights, objective %.6g",
            type(self).__name__, self.n_basis_, self.n_iter_, self.objective_,
        )  # fmt: skip

    def _report(self, solution: Solution, deadline: float | None) -> None:
        """Warn and log what a user must know of the last solve."""
        if solution.jitter:
            logger.info("the kernel matrix of the basis is nearly singular: jitter %.1e was added.", solution.jitter)
        me: Any = self
        cut = isinstance(deadline, Deadline) and deadline.cut
        if solution.converged and not cut:
            return
        self.converged_ = False
        if solution.converged:
            text = (
                f"was cut short: max_time={me.max_time} seconds are over before its search, growth or refinement was "
                "done. The best machine so far is kept. Raise max_time."
            )
        else:
            limit = f"max_iter={me.max_iter} iterations were done"
            limit = f"max_time={me.max_time} seconds are over" if cut else limit
            text = (
                f"did not converge: {limit}, and the gradient is still {float(np.max(solution.optimality)):.1e} of its "
                f"parts (tol={me.tol}). Raise the limit, scale the inputs, or lower C."
            )
        warnings.warn(f"{type(self).__name__} {text}", ConvergenceWarning, stacklevel=4)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = getattr(self, "kernel", None) == "precomputed"
        return tags


class MachineClassifier(ClassifierMixin, KernelMachine):
    """Prediction side of the classifiers."""

    def decision_function(self, X: Any) -> Array:
        """Decision values of the rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
            In the order of ``classes_``; the largest wins.
        """
        if is_dask(X):
            return lazily(self, "decision_function", X)
        outputs = self._outputs(X)
        return self.model_.scores(outputs)

    def predict(self, X: Any) -> Array:
        """Predicted labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        if is_dask(X):
            return lazily(self, "predict", X)
        scores = self.decision_function(X)
        return self.model_.labels(scores)


class MachineRegressor(RegressorMixin, KernelMachine):
    """Prediction side of the regressors."""

    def predict(self, X: Any) -> Array:
        """Predicted values.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        if is_dask(X):
            return lazily(self, "predict", X)
        outputs = self._outputs(X)
        return self.model_.scores(outputs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags
