"""What the public estimators share: `fit` through the pipeline, prediction through the model, fitted attributes."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, update_wrapper
from types import MethodType
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from kompakt.basis.build import Machine, Plan, on_all_rows
from kompakt.basis.refine import Refinement
from kompakt.data import ArrayRows, Source, StreamedRows
from kompakt.data.checks import refuse_non_finite
from kompakt.data.dask import DaskSource, is_dask
from kompakt.data.streamed import READ_ROWS
from kompakt.estimators.params import auto_size, check_parameters
from kompakt.estimators.records import record_of
from kompakt.kernels import Kernel
from kompakt.losses import LeastSquares, PiecewiseLinear, make_loss
from kompakt.model import Model
from kompakt.parallel import block_threads
from kompakt.run import Run
from kompakt.search.widths import rows_of_sample, width_and_cost
from kompakt.spec import Data, Spec
from kompakt.train.data import LEARNED, by_content, check_rows, prepare, with_columns
from kompakt.train.pipeline import Fit, train
from kompakt.train.running import CallbackSupportMixin, resumed, running, unfit, warn_interrupted

Array = np.ndarray
logger = logging.getLogger("kompakt")

#: epsilon of a regression's loss, in standard deviations of the noise: where that is normal, 1.35 loses a twentieth of
#: the efficiency of least squares (Huber 1964), and 0.6 is best for the insensitive zone (Smola et al. 1998)
_EPSILON_OF_NOISE = {"huber": 1.35, "epsilon_insensitive": 0.6}


def lazily(estimator: Predictor, method: str, X: Any) -> Any:
    """Predictions for a Dask collection as one of the same kind, computed where its rows are.

    An array gives an array, a DataFrame a Series (a DataFrame for several columns) with its index.
    """
    model = estimator.model_
    if hasattr(X, "columns"):
        return _of_frame(estimator, model, method, X)
    if X.ndim != 2 or X.shape[1] != model.n_features:
        raise ValueError(f"X has shape {X.shape}, but {type(estimator).__name__} expects {model.n_features} features.")
    if X.numblocks[1] != 1:
        X = X.rechunk({1: -1})
    like = _of_block(model, method, np.zeros((1, model.n_features), dtype=X.dtype))
    function = partial(_of_block, model, method)
    if like.ndim == 1:
        return X.map_blocks(function, dtype=like.dtype, drop_axis=1, meta=like[:0])
    return X.map_blocks(function, dtype=like.dtype, chunks=(X.chunks[0], (like.shape[1],)), meta=like[:0])


def _of_block(model: Model, method: str, X: Any) -> Array:
    refuse_non_finite(X, lambda row: f"row {row} of a partition")
    values: Array = getattr(model, method)(X)
    return values


def _of_frame(estimator: Predictor, model: Model, method: str, X: Any) -> Any:
    import pandas as pd

    names = getattr(estimator, "feature_names_in_", None)
    found = [str(name) for name in X.columns]
    if names is not None and found != [str(name) for name in names]:
        raise ValueError(
            f"The feature names should match those that were passed during fit: expected {list(names)}, got {found}."
        )
    if len(found) != model.n_features:
        raise ValueError(f"X has {len(found)} columns, but {type(estimator).__name__} expects {model.n_features}.")
    like = _of_block(model, method, np.zeros((1, model.n_features)))
    meta: Any = pd.Series(like[:0], name=method) if like.ndim == 1 else None
    if like.ndim == 2:
        labels = [str(one) for one in (range(like.shape[1]) if model.classes is None else model.classes)]
        meta = pd.DataFrame(like[:0], columns=labels if len(labels) == like.shape[1] else None)
    return X.map_partitions(_predicted_frame, model, method, meta, meta=meta)


def _predicted_frame(frame: Any, model: Model, method: str, meta: Any) -> Any:
    kind = np.float32 if all(one == np.float32 for one in frame.dtypes) else np.float64
    X = frame.to_numpy(dtype=kind, na_value=np.nan)
    values = _of_block(model, method, X) if len(frame) else np.asarray(meta)[:0]
    if values.ndim == 1:
        return type(meta)(values, index=frame.index, name=meta.name, dtype=meta.dtype)
    return type(meta)(values, index=frame.index, columns=meta.columns)


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


class Predictor(CallbackSupportMixin, BaseEstimator):
    """Predictions by a fitted model, for rows in memory, streamed ones and Dask collections."""

    model_: Model

    def _predicted(self, method: str, X: Any) -> Array:
        """What a method of the fitted model, such as "predict", gives for rows that are checked here."""
        check_is_fitted(self, "model_")
        of_model: Callable[[Any], Array] = getattr(self.model_, method)
        if is_dask(X):
            lazy: Array = lazily(self, method, X)
            return lazy
        with block_threads(getattr(self, "n_jobs", None)):
            return (
                self._streamed(of_model, X) if isinstance(X, Source) else of_model(check_rows(self, X, reset=False)[0])
            )

    def _streamed(self, of_model: Callable[[Any], Array], source: Source) -> Array:
        """The same of rows that are read some thousand at a time."""
        known = getattr(self, "feature_names_in_", None)
        if known is not None and source.feature_names is not None and list(known) != list(source.feature_names):
            raise ValueError(
                f"{source.name} has the features {list(source.feature_names)}; expected {list(known)}, in this order."
            )
        like = of_model(np.zeros((1, self.model_.n_features)))
        found = np.empty((source.n_rows, *like.shape[1:]), like.dtype)
        for start in range(0, source.n_rows, 8 * READ_ROWS):
            stop = min(start + 8 * READ_ROWS, source.n_rows)
            X = source.read(start, stop).X
            refuse_non_finite(X, lambda row, start=start: source.where(start + row))  # type: ignore[misc]
            found[start:stop] = of_model(X)
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = getattr(self, "kernel", None) == "precomputed"
        return tags


class KernelMachine(Predictor):
    """Base of the estimators: `fit` by the pipeline, and everything after a model has been found."""

    _width_from_data = True  # where gamma is None

    # parameters that most estimators have
    C: float | None
    loss: Any
    epsilon: Any
    fit_intercept: bool
    penalize_intercept: bool
    tol: float
    max_iter: int
    max_time: float | None
    _classifier: ClassVar[bool]
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
        with running(self, X, y) as run:
            check_parameters(self)
            data, kernel = prepare(self, X, y, sample_weight, run, classifier=self._classifier, keep=keep_columns)
            with resumed(self, checkpoint, data, run) as run:
                spec = self._spec(data, kernel)
                calibrate = getattr(self, "calibrate", False)
                fit = train(self, data, spec, run, n_basis=self._size(), calibrate=calibrate)
            self._publish(fit)
            self.model_ = replace(self.model_, record=record_of(self, fit, data))
            self._report(fit)
        return self

    # -- what an estimator brings to the pipeline: see `kompakt.train.pipeline.Method` ------------------

    def _size(self) -> int | str:
        """The number of basis vectors, or "auto" where it is to be chosen."""
        # a machine on every row has no n_basis; the number only bounds a sample of streamed rows
        n_basis = getattr(self, "n_basis", 1000)
        return int(n_basis) if auto_size(n_basis) is None else "auto"

    def _spec(self, data: Data, kernel: Kernel) -> Spec:
        """What is minimised."""
        return Spec(
            kernel,
            make_loss(
                self.loss, classes=data.classifier, epsilon=self.epsilon, quantile=getattr(self, "quantile", 0.5)
            ),
            1.0 if self.C is None else float(self.C),
            bool(self.fit_intercept),
            bool(self.penalize_intercept),
            getattr(self, "coding", "one_vs_rest"),
            data.n_classes,
        )

    def _plan(self, data: Data, run: Run) -> Plan:
        refine = getattr(self, "refine", False)
        iterations = refine.max_iter if isinstance(refine, Refinement) else None
        return Plan(
            refine=bool(refine),
            learn=learned_widths(self),
            rank=refine.rank if isinstance(refine, Refinement) and not isinstance(refine.rank, str) else None,
            shorten=isinstance(refine, Refinement) and refine.rank == "auto",
            refine_iter=100 if iterations is None else int(iterations),
            refine_more=iterations is None,
            tol=float(self.tol),
            max_iter=int(self.max_iter),
        )

    def _passes(self, fit: Fit) -> bool:
        return False

    def _search(self, fit: Fit) -> None:
        """Width and cost that are not given, from the data."""
        fit.spec, evaluations = self._settled(fit.data, fit.spec, fit.run)
        fit.n_kernel_evals += evaluations

    def _settled(self, data: Data, spec: Spec, run: Run) -> tuple[Spec, int]:
        """What is minimised, with width and cost from the data where they are None, and the kernel evaluations spent.

        The cost is found for least squares.  A loss that grows by the absolute residual is to one of squares as one is
        to the size of the residuals, so with this size as factor the result does not depend on the targets' unit.  An
        epsilon that is None comes with the cost; beside a cost that is given it stays that of the loss.
        """
        width = self._width_from_data and self.gamma is None and self.kernel in ("rbf", "laplacian")
        cost = getattr(self, "C", 1.0) is None
        if not (width or cost):
            return spec, 0
        robust = not data.classifier and not isinstance(spec.loss, LeastSquares)
        auto = auto_size(getattr(self, "n_basis", None))
        size = getattr(self, "n_basis", None) if auto is None else None
        if isinstance(data.rows, StreamedRows):
            data = by_content(data, rows_of_sample(spec.kernel, data.rows.n_features, size), run)
        found = width_and_cost(
            data, spec.kernel, None if cost else spec.C, run, n_basis=size, width=width, robust=robust
        )
        loss, C = spec.loss, found.C if cost else spec.C
        if cost and robust and found.noise:
            if isinstance(self.loss, str) and self.loss in _EPSILON_OF_NOISE and self.epsilon is None:
                loss = replace(loss, epsilon=_EPSILON_OF_NOISE[self.loss] * found.noise)  # type: ignore[type-var]
            if isinstance(loss, PiecewiseLinear):
                C *= found.noise
        return replace(spec, kernel=found.kernel, loss=loss, C=C), found.n_kernel_evals

    def _choose_size(self, fit: Fit) -> None:
        raise NotImplementedError

    def _choose_basis(self, fit: Fit) -> Machine:
        raise NotImplementedError

    def _solve(self, fit: Fit, data: Data, machine: Machine) -> Machine:
        return on_all_rows(data, machine, fit.plan, fit.run)

    # -- fitted attributes ---------------------------------------------------------------------------

    def _publish(self, fit: Fit) -> None:
        """Set the fitted attributes, and remove those of an earlier fit."""
        self.__dict__.pop("_running", None)  # sums of `partial_fit`
        unfit(self, keep=("n_features_in_", "feature_names_in_", "schema_"))
        data, basis, solution = fit.data, fit.machine.basis, fit.machine.solution
        model = with_columns(self, fit.model)
        self.model_ = model
        mapped = model.input_map is not None  # the model's kernel is that of mapped inputs
        self.kernel_ = fit.machine.spec.kernel if mapped else model.kernel
        gamma = getattr(self.kernel_, "gamma", None)
        if gamma is not None:
            self.gamma_ = gamma
        self.basis_vectors_ = model.basis_vectors_
        if mapped:  # as they were moved: the map may have lost some of it
            moved = replace(model, input_map=None, basis=basis.vectors).basis_vectors_
            self.basis_vectors_ = moved.astype(basis.vectors.dtype)  # type: ignore[union-attr]
        self.basis_indices_ = data.original(basis.indices)
        if basis.indices is not None and self.basis_vectors_ is not None and model.input_scale is None:
            # exactly the user's rows: centring and back may have changed the last bit
            exact = data.rows.originals(basis.indices)
            self.basis_vectors_ = exact.toarray() if data.rows.is_sparse else np.array(exact)
        self.dual_coef_ = model.weights.T
        self.intercept_ = model.intercept
        self.n_basis_ = model.n_basis_
        self.n_iter_ = solution.n_iter
        self.converged_ = solution.converged and not fit.run.cut and not fit.machine.interrupted
        self.interrupted_ = fit.machine.interrupted
        self.jitter_ = solution.jitter
        self.objective_ = float(np.sum(solution.objective))
        if hasattr(self, "C"):
            self.C_ = fit.spec.C
        if hasattr(fit.spec.loss, "epsilon"):
            self.epsilon_ = fit.spec.loss.epsilon
        if data.classes is not None:
            self.classes_ = data.classes
        each = np.ndim(model.widths) == 1 or learned_widths(self) in ("each", "full", "grow")
        if each and isinstance(data.rows, ArrayRows):
            self.feature_importances_ = importances(model, data)
        if isinstance(data.source, StreamedRows):
            self.n_passes_ = data.source.passes.count
        if model.kernel.name == "linear":
            self.coef_ = model.weights.T @ model.basis
        self.n_kernel_evals_ = fit.machine.n_kernel_evals + fit.n_kernel_evals
        self.history_ = fit.run.history
        for record in self.history_:
            if record.get("phase") == "refinement":
                self.refinement_ = {name: value for name, value in record.items() if name != "phase"}
        for name, value in fit.attributes.items():
            setattr(self, name, value)
        logger.info(
            "%s: %d basis vectors, %d iterations for the weights, objective %.6g",
            type(self).__name__, self.n_basis_, self.n_iter_, self.objective_,
        )  # fmt: skip

    def _report(self, fit: Fit) -> None:
        """Warn and log what a user must know of the fit."""
        solution = fit.machine.solution
        if fit.machine.interrupted:
            missing = ", without calibration" if getattr(self, "calibrate", False) else ""
            what = f"the best model so far, with {self.n_basis_} basis vectors, is kept{missing}"
            warn_interrupted(self, what, stacklevel=4)
            return
        if solution.jitter:
            logger.info("the kernel matrix of the basis is nearly singular: jitter %.1e was added.", solution.jitter)
        if solution.converged and not fit.run.cut:
            return
        if solution.converged:
            text = (
                f"was cut short: max_time={self.max_time} seconds are over before its search, growth or refinement was "
                "done. The best model so far is kept. Raise max_time."
            )
        else:
            limit = f"max_iter={self.max_iter} iterations were done"
            limit = f"max_time={self.max_time} seconds are over" if fit.run.cut else limit
            text = (
                f"did not converge: {limit}, and the gradient is still {float(np.max(solution.optimality)):.1e} of its "
                f"parts (tol={self.tol}). Raise the limit, scale the inputs, or lower C."
            )
        warnings.warn(f"{type(self).__name__} {text}", ConvergenceWarning, stacklevel=3)


class ClassPredictor(ClassifierMixin, Predictor):
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
        return self._predicted("decision_function", X)

    def predict(self, X: Any) -> Array:
        """Predicted labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._predicted("predict", X)


class MachineClassifier(ClassPredictor, KernelMachine):
    """Base of the classifiers."""

    _classifier = True


class MachineRegressor(RegressorMixin, KernelMachine):
    """Prediction side of the regressors."""

    _classifier = False

    def predict(self, X: Any) -> Array:
        """Predicted values.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        return self._predicted("predict", X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags


def importances(model: Model, data: Data) -> Array:
    """Share of every feature in the kernel's squared distances: its gamma times its variance, summing to 1 (d,).

    With a map A of the inputs, gamma is the diagonal of A'A.  Of more than 100,000 rows, evenly spaced ones are read.
    """
    part, weights = slice(None, None, max(1, data.rows.n_rows // 100_000)), data.row_weights
    scaler = StandardScaler(with_mean=False)
    scaler.fit(data.in_memory.X[part], sample_weight=None if weights is None else weights[part])
    spread = np.abs(model.widths) * scaler.var_
    return np.asarray(spread / max(float(np.sum(spread)), 1e-300))


def learned_widths(estimator: KernelMachine) -> str | None:
    """What of the kernel refinement learns: None, "one" width, "each", a "full" map, or "grow" (chosen among them)."""
    gamma, kernel = estimator.gamma, estimator.kernel
    refine = bool(getattr(estimator, "refine", False))
    if isinstance(gamma, str) and gamma in LEARNED:
        if not refine:
            raise ValueError(
                f"gamma={gamma!r} means that the width is learned; it needs refine=True. "
                "Give a number or 'scale', or set refine=True."
            )
        if gamma != "learn" and kernel != "rbf":
            what = "a linear map" if gamma == "full" else "one width per feature"
            raise ValueError(f"gamma={gamma!r} ({what}) needs kernel='rbf'; got kernel={kernel!r}.")
        if gamma == "full" and getattr(estimator, "plus_one", False):
            raise ValueError("gamma='full' needs a kernel of its own; with plus_one=True take gamma='learn'.")
        return {"learn": "one", "ard": "each", "full": "full", "loo": None}[gamma]
    if gamma is None and refine and isinstance(kernel, str):
        return {"rbf": "grow", "laplacian": "one"}.get(kernel)
    return None
