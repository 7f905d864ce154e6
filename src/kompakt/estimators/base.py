"""What the public estimators share: `fit` by the function of a method, prediction by the model, fitted attributes."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import update_wrapper
from types import MethodType
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metadata_routing import UNUSED

from kompakt.basis.build import Plan
from kompakt.basis.refine import Refinement
from kompakt.data import ArrayRows, StreamedRows
from kompakt.data.dask import DaskSource, is_dask
from kompakt.estimators.params import auto_size, check_parameters
from kompakt.estimators.predicting import predicted
from kompakt.estimators.records import record_of
from kompakt.kernels import BentRBF, Kernel
from kompakt.losses import Loss, make_loss
from kompakt.methods.steps import Fitted, LeftOpen
from kompakt.model import Model
from kompakt.run import Run
from kompakt.spec import Basis, Data, Selector, Spec
from kompakt.train.data import LEARNED, check_columns_to_keep, prepare, with_columns
from kompakt.train.running import CallbackSupportMixin, resumed, running, unfit, warn_interrupted
from kompakt.train.task import Classes, Numbers, Task

Array = np.ndarray
logger = logging.getLogger("kompakt")

#: epsilon of a regression's loss, in standard deviations of the noise: where that is normal, 1.35 loses a twentieth of
#: the efficiency of least squares (Huber 1964), and 0.6 is best for the insensitive zone (Smola et al. 1998)
_EPSILON_OF_NOISE = {"huber": 1.35, "epsilon_insensitive": 0.6}


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


class KernelMachine(CallbackSupportMixin, BaseEstimator):
    """Base of the estimators: `fit` validates, calls the function of the method, and publishes what it returns."""

    model_: Model
    # parameters that estimators have, each those in its constructor
    kernel: Any
    gamma: Any
    degree: int
    coef0: float
    n_basis: Any
    selection: Any
    tune: Any
    cv: Any
    validation_fraction: float | None
    # how a fit runs, also of an estimator whose constructor does not ask
    memory_budget: int | None = None
    n_jobs: int | None = None
    random_state: Any = None
    max_time: float | None = None
    verbose: int = 0
    C: float | None
    loss: Any
    epsilon: Any
    refine: Any
    fit_intercept: bool
    penalize_intercept: bool
    tol: float
    max_iter: int
    _learned_widths: ClassVar[tuple[str, ...]] = LEARNED[:3]  # values of gamma that refinement learns
    _drops_matrix_rows: ClassVar[bool] = False  # whether a precomputed matrix may hold rows of weight zero
    _may_scale: ClassVar[bool] = False  # whether the rows may be scaled by what they are handed to
    #: paths and names of columns are no data of the rows: meta-estimators do not route them
    __metadata_request__fit: ClassVar = {"checkpoint": UNUSED, "keep_columns": UNUSED}

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint: Any = None,
        keep_columns: Sequence[str] | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or rows from `kompakt.open_rows`
            A data frame (pandas, polars, pyarrow) with words, dates or gaps becomes standardised numbers by a schema,
            which is kept in ``schema_`` and in the model.
        y : array-like of shape (n_samples,), or (n_samples, n_outputs) for regression
            None for rows from `kompakt.open_rows`, which bring their targets and weights.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 equals the row given twice; weight 0 leaves it out.
        checkpoint : path-like, default=None
            File to which the state is written after every round. A fit that is killed goes on from it when it is
            called again with the same data and parameters, and gives the same model to the last bit; the file is
            removed at the end.
        keep_columns : sequence of str, default=None
            Columns of a data frame that are used even if they look like identifiers, which are left out otherwise:
            an index, and whole numbers or words that are all different.

        Returns
        -------
        self
        """
        if is_dask(X):  # before anything could materialise it
            X, y, sample_weight = DaskSource(X, y, sample_weight), None, None
        check_columns_to_keep(X, keep_columns)
        with running(self, X, y) as run:
            check_parameters(self)
            data, kernel = prepare(self, X, y, sample_weight, run, task=self._task(), keep=keep_columns)
            with resumed(self, checkpoint, data, run) as run:
                fitted = self._train(data, kernel, run)
            self._publish(fitted)
            self.model_ = replace(self.model_, record=record_of(self, fitted, data))
            self._report(fitted)
        return self

    # -- from parameters to the options of the method ---------------------------------------------------

    def _train(self, data: Data, kernel: Kernel, run: Run) -> Fitted:
        """Call the function of the method, with the options that the parameters stand for."""
        raise NotImplementedError

    def _task(self) -> Task:
        """What targets mean."""
        raise NotImplementedError

    def _make_loss(self) -> Loss:
        return make_loss(self.loss, classes=not self._task().numeric, epsilon=self.epsilon)

    def _spec(self, data: Data, kernel: Kernel) -> Spec:
        """What the parameters say is minimised."""
        return Spec(
            kernel,
            self._make_loss(),
            1.0 if self.C is None else float(self.C),
            bool(self.fit_intercept),
            bool(self.penalize_intercept),
            n_classes=data.n_classes,
        )

    def _left_open(self) -> LeftOpen:
        """What the parameters leave to the data."""
        n_basis = self.n_basis if auto_size(self.n_basis) is None else None
        return LeftOpen(self._width_is_open(), self.C is None, n_basis)

    def _width_is_open(self) -> bool:
        return self.gamma is None and self.kernel in ("rbf", "laplacian")

    def _plan(self, selector: Selector | None = None) -> Plan:
        """What the parameters say of refinement and of when solvers stop."""
        refinement = self.refine if isinstance(self.refine, Refinement) else Refinement()
        return Plan(
            selector=selector,
            refine=bool(self.refine),
            learn=self._learned_metric(),
            rank=None if isinstance(refinement.rank, str) else refinement.rank,
            bends=None if refinement.transform is None else refinement.transform == "learn",
            shorten=refinement.rank == "auto",
            refine_iter=100 if refinement.max_iter is None else int(refinement.max_iter),
            refine_more=refinement.max_iter is None,
            tol=float(self.tol),
            max_iter=int(self.max_iter),
        )

    def _learned_metric(self) -> str | None:
        """What of the kernel is refined: None, "one" width, "each", a "full" map, or "grow" (chosen among them)."""
        gamma, kernel = self.gamma, self.kernel
        if isinstance(gamma, str) and gamma in LEARNED:
            if not self.refine:
                raise ValueError(
                    f"gamma={gamma!r} means that the width is learned; it needs refine=True. "
                    "Give a number or 'scale', or set refine=True."
                )
            if gamma != "learn" and kernel != "rbf":
                metric = "a linear map" if gamma == "full" else "one width per feature"
                raise ValueError(f"gamma={gamma!r} ({metric}) needs kernel='rbf'; got kernel={kernel!r}.")
            return {"learn": "one", "ard": "each", "full": "full", "loo": None}[gamma]
        if gamma is None and self.refine and isinstance(kernel, str):
            return {"rbf": "grow", "laplacian": "one"}.get(kernel)
        return None

    # -- for `partial_fit`, of the estimators that have it -----------------------------------------------

    def _first_basis(self, data: Data, spec: Spec, run: Run) -> Basis:
        """The basis, from the first batch."""
        raise NotImplementedError

    def _in_input_space(self, data: Data, kernel: Kernel) -> bool:
        """Whether a fit finds the weights of a linear kernel without a basis."""
        return False

    # -- fitted attributes ---------------------------------------------------------------------------

    def _publish(self, fitted: Fitted) -> None:
        """Set the fitted attributes, and remove those of an earlier fit."""
        self.__dict__.pop("_running", None)  # sums of `partial_fit`
        unfit(self, keep=("n_features_in_", "feature_names_in_", "schema_"))
        data, basis, solution = fitted.data, fitted.machine.basis, fitted.machine.solution
        model = with_columns(self, fitted.model)
        self.model_ = model
        mapped = model.inputs.map is not None  # the model's kernel is that of mapped inputs
        self.kernel_ = fitted.machine.spec.kernel if mapped or model.inputs.bends is not None else model.kernel
        gamma = getattr(self.kernel_, "gamma", None)
        if gamma is not None:
            self.gamma_ = gamma
        self.basis_vectors_ = model.basis_vectors_
        if mapped:  # as they were moved: the map may have lost some of it
            moved = replace(model.inputs, map=None).inverse(basis.vectors)
            self.basis_vectors_ = moved.astype(model.basis.dtype)
        self.basis_indices_ = data.original(basis.indices)
        if basis.indices is not None and self.basis_vectors_ is not None and model.inputs.scale is None:
            # exactly the user's rows: centring and back may have changed the last bit
            exact = data.rows.originals(basis.indices)
            self.basis_vectors_ = exact.toarray() if data.rows.is_sparse else np.array(exact)
        self.dual_coef_ = model.weights.T
        self.intercept_ = model.intercept
        self.n_basis_ = model.n_basis_
        self.n_iter_ = solution.n_iter
        self.converged_ = solution.converged and not fitted.run.cut and not fitted.machine.interrupted
        self.interrupted_ = fitted.machine.interrupted
        self.jitter_ = solution.jitter
        self.objective_ = float(np.sum(solution.objective))
        if hasattr(self, "C"):
            self.C_ = fitted.spec.C
        if hasattr(fitted.spec.loss, "epsilon"):
            self.epsilon_ = fitted.spec.loss.epsilon
        if data.classes is not None:
            self.classes_ = data.classes
        has_widths = np.ndim(model.widths) == 1 or fitted.plan.learn in ("each", "full", "grow")
        if has_widths and isinstance(data.rows, ArrayRows):
            self.feature_importances_ = importances(model, data, self.kernel_)
        if isinstance(data.source, StreamedRows):
            self.n_passes_ = data.source.passes.count
        if model.kernel.name == "linear":
            self.coef_ = model.weights.T @ model.basis
        self.n_kernel_evals_ = fitted.n_kernel_evals
        self.history_ = fitted.run.history
        for record in self.history_:
            if record.get("phase") == "refinement":
                self.refinement_ = {name: value for name, value in record.items() if name != "phase"}
        if fitted.trials is not None:
            self.cv_results_ = fitted.trials.as_dict()
        for name, value in fitted.attributes.items():
            setattr(self, name, value)
        logger.info(
            "%s: %d basis vectors, %d iterations for the weights, objective %.6g",
            type(self).__name__, self.n_basis_, self.n_iter_, self.objective_,
        )  # fmt: skip

    def _report(self, fitted: Fitted) -> None:
        """Warn and log what a user must know of the fit."""
        solution = fitted.machine.solution
        if fitted.machine.interrupted:
            message = f"the best model so far, with {self.n_basis_} basis vectors, is kept{fitted.skipped}"
            warn_interrupted(self, message, stacklevel=4)
            return
        if solution.jitter:
            logger.info("the kernel matrix of the basis is nearly singular: jitter %.1e was added.", solution.jitter)
        if solution.converged and not fitted.run.cut:
            return
        if solution.converged:
            text = (
                f"was cut short: max_time={self.max_time} seconds are over before its search, growth or refinement was "
                "done. The best model so far is kept. Raise max_time."
            )
        else:
            limit = f"max_iter={self.max_iter} iterations were done"
            limit = f"max_time={self.max_time} seconds are over" if fitted.run.cut else limit
            text = (
                f"did not converge: {limit}, and the gradient is still {float(np.max(solution.optimality)):.1e} of its "
                f"parts (tol={self.tol}). Raise the limit, scale the inputs, or lower C."
            )
        warnings.warn(f"{type(self).__name__} {text}", ConvergenceWarning, stacklevel=3)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags


class MachineClassifier(ClassifierMixin, KernelMachine):
    """Base of the classifiers."""

    coding: Any = "one_vs_rest"
    class_weight: Any = None

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
        return predicted(self, "decision_function", X)

    def predict(self, X: Any) -> Array:
        """Predicted labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return predicted(self, "predict", X)

    def _task(self) -> Task:
        return Classes(self.coding, self.class_weight)

    def _spec(self, data: Data, kernel: Kernel) -> Spec:
        return replace(super()._spec(data, kernel), coding=self.coding)


class MachineRegressor(RegressorMixin, KernelMachine):
    """Prediction side of the regressors."""

    def _task(self) -> Task:
        return Numbers()

    def _left_open(self) -> LeftOpen:
        named = isinstance(self.loss, str) and self.epsilon is None
        return replace(super()._left_open(), epsilon_of_noise=_EPSILON_OF_NOISE.get(self.loss) if named else None)

    def predict(self, X: Any) -> Array:
        """Predicted values.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        return predicted(self, "predict", X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags


def importances(model: Model, data: Data, kernel: Kernel) -> Array:
    """Share of every feature in the kernel's squared distances: its gamma times its variance, summing to 1 (d,).

    With a map A of the inputs, gamma is the diagonal of A'A; the variance of a feature that bends is that of its
    transform.  Of more than 100,000 rows, evenly spaced ones are read.
    """
    rows, weights = data.in_memory, data.row_weights
    every = slice(None, None, max(1, rows.n_rows // 100_000))
    X = rows.X[every]
    if isinstance(kernel, BentRBF):
        X = kernel.bent(X if rows.offset is None else X - rows.offset)
    scaler = StandardScaler(with_mean=False)
    scaler.fit(X, sample_weight=None if weights is None else weights[every])
    spread = np.abs(model.widths) * scaler.var_
    return np.asarray(spread / max(float(np.sum(spread)), 1e-300))
