"""What the public estimators share: prediction through the model, fitted attributes, tags."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial, update_wrapper
from numbers import Integral
from types import MethodType
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from kompakt.checkpoint import checkpointing, fingerprint, step
from kompakt.data import Source, StreamedRows
from kompakt.data.checks import refuse_non_finite
from kompakt.data.dask import DaskSource, is_dask
from kompakt.data.rows import content_of
from kompakt.data.streamed import READ_ROWS
from kompakt.estimators.prepare import Array, Training, check_rows
from kompakt.model import Model
from kompakt.parallel import block_threads
from kompakt.run import Deadline, above_bar, apart, listening, outermost, showing
from kompakt.solve import Settings, Solution


def adopted(X: Any, y: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of `fit` with the collection, its targets and weights as one row source."""
    kwargs = dict(kwargs)
    weight = args[0] if args else kwargs.pop("sample_weight", None)
    return DaskSource(X, y, weight), None, args[1:], kwargs


def lazily(estimator: Any, method: str, X: Any) -> Any:
    """Predictions for a Dask collection as one of the same kind, computed where its rows are.

    An array gives an array, a DataFrame a Series (a DataFrame for several columns) with its index.
    """
    check_is_fitted(estimator, "model_")
    model: Model = estimator.model_
    if hasattr(X, "columns"):
        return _of_frame(estimator, model, method, X)
    if X.ndim != 2 or X.shape[1] != model.n_features:
        raise ValueError(f"X has shape {X.shape}, but {type(estimator).__name__} expects {model.n_features} features.")
    if X.numblocks[1] != 1:
        X = X.rechunk({1: -1})
    like = _predicted(model, method, np.zeros((1, model.n_features), dtype=X.dtype))
    function = partial(_predicted, model, method)
    if like.ndim == 1:
        return X.map_blocks(function, dtype=like.dtype, drop_axis=1, meta=like[:0])
    return X.map_blocks(function, dtype=like.dtype, chunks=(X.chunks[0], (like.shape[1],)), meta=like[:0])


def _predicted(model: Model, method: str, X: Any) -> Array:
    refuse_non_finite(X, lambda row: f"row {row} of a partition")
    return getattr(model, method)(X)


def _of_frame(estimator: Any, model: Model, method: str, X: Any) -> Any:
    import pandas as pd

    names = getattr(estimator, "feature_names_in_", None)
    found = [str(name) for name in X.columns]
    if names is not None and found != [str(name) for name in names]:
        raise ValueError(
            f"The feature names should match those that were passed during fit: expected {list(names)}, got {found}."
        )
    if len(found) != model.n_features:
        raise ValueError(f"X has {len(found)} columns, but {type(estimator).__name__} expects {model.n_features}.")
    like = _predicted(model, method, np.zeros((1, model.n_features)))
    meta: Any = pd.Series(like[:0], name=method) if like.ndim == 1 else None
    if like.ndim == 2:
        labels = [str(one) for one in (range(like.shape[1]) if model.classes is None else model.classes)]
        meta = pd.DataFrame(like[:0], columns=labels if len(labels) == like.shape[1] else None)
    return X.map_partitions(_predicted_frame, model, method, meta, meta=meta)


def _predicted_frame(frame: Any, model: Model, method: str, meta: Any) -> Any:
    kind = np.float32 if all(one == np.float32 for one in frame.dtypes) else np.float64
    X = frame.to_numpy(dtype=kind, na_value=np.nan)
    values = _predicted(model, method, X) if len(frame) else np.asarray(meta)[:0]
    if values.ndim == 1:
        return type(meta)(values, index=frame.index, name=meta.name, dtype=meta.dtype)
    return type(meta)(values, index=frame.index, columns=meta.columns)


try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9
    from kompakt.estimators._callbacks import CallbackSupportMixin, with_callbacks  # type: ignore[assignment]


logger = logging.getLogger("kompakt")

Fit = TypeVar("Fit", bound=Callable[..., Any])

# The decorator tears callbacks down after the method it wraps: here after a method that does nothing, so that no frame
# of scikit-learn lies between a warning and the caller it points at.
_tear_down = with_callbacks(lambda estimator: None)


class InterruptedWarning(UserWarning):
    """A fit was ended by Ctrl-C; the estimator holds the best machine it had found.

    Examples
    --------
    >>> from kompakt.estimators.base import InterruptedWarning
    >>> issubclass(InterruptedWarning, UserWarning)
    True
    """


def warn_interrupted(estimator: Any, what: str, stacklevel: int = 4) -> None:
    """Say that a fit was ended by Ctrl-C and what is kept."""
    warnings.warn(
        f"{type(estimator).__name__}: interrupted; {what}. The estimator is usable, its converged_ is False. "
        "Interrupt again within two seconds to stop the program.",
        InterruptedWarning,
        stacklevel=stacklevel,
    )


class _AboveBar(logging.StreamHandler):
    """Records on standard error, above the bar where one is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        if not above_bar(self.format(record)):
            super().emit(record)


@contextmanager
def verbose_logging(verbose: int) -> Iterator[None]:
    """Show kompakt's log records on standard error while a fit runs: 1 for the main steps, 2 for all."""
    if not verbose:
        yield
        return
    handler = _AboveBar()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def watched(fit: Fit) -> Fit:
    """Report the progress of a `fit` method, and leave no half-fitted estimator behind when it is interrupted.

    With `verbose`, its stages are logged on standard error, for every estimator alike.
    """

    @functools.wraps(fit)
    def method(self: Any, X: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        if is_dask(X):  # before anything could materialise it
            X, y, args, kwargs = adopted(X, y, args, kwargs)
        with outermost(), apart(), _told(self, X, y), verbose_logging(getattr(self, "verbose", 0)):
            try:
                return fit(self, X, y, *args, **kwargs)
            except KeyboardInterrupt:
                _unfit(self)
                raise

    return method  # type: ignore[return-value]


def _unfit(estimator: Any) -> None:
    """Remove fitted attributes: of an earlier fit, they would not agree with what this one has begun."""
    for name in list(vars(estimator)):
        if name.endswith("_") and not name.startswith("_"):
            delattr(estimator, name)


@contextmanager
def _told(estimator: Any, X: Any, y: Any) -> Iterator[None]:
    """Callbacks where the estimator has some, else a bar where there is a terminal."""
    if not getattr(estimator, "_skl_callbacks", None):
        with showing(type(estimator).__name__):
            yield
        return
    try:
        context = estimator._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        with listening(_CallbackListener(estimator, context, X, y)):
            yield
        # the estimator is fitted: what callbacks see as `fitted_estimator` is a copy of it as it is
        context.call_on_fit_task_end(estimator=estimator, X=X, y=y, reconstruction_attributes=dict)
    finally:
        _tear_down(estimator)


class _CallbackListener:
    """Turns tasks into contexts: an outer task is a node below the fit, each of its steps a leaf below it.

    Tasks inside a step are not reported: whether a step has some is known only once it has begun.
    """

    def __init__(self, estimator: Any, root: Any, X: Any, y: Any) -> None:
        self.root, self.told = root, {"estimator": estimator, "X": X, "y": y}
        self.depth = 0
        self.reported = -1  # the depth of the task that is reported
        self.node: Any = None
        self.leaf: Any = None
        self.n_left = 0.0

    def begin(self, name: str, n_steps: int | None, work: float | None, minor: bool) -> None:
        self.depth += 1
        if self.node is None and not minor:
            self.reported, self.n_left = self.depth, float("inf") if n_steps is None else float(n_steps)
            self.node = self.root.subcontext(task_name=name, max_subtasks=n_steps)
            self.node.call_on_fit_task_begin(**self.told)
            self._next_leaf()

    def _next_leaf(self) -> None:
        self.leaf = None
        if self.n_left > 0:
            self.n_left -= 1
            self.leaf = self.node.subcontext(task_name=f"{self.node.task_name}-step")
            self.leaf.call_on_fit_task_begin(**self.told)

    def advance(self, work: float) -> bool:
        if self.depth != self.reported or self.leaf is None:
            return False
        stop = bool(self.leaf.call_on_fit_task_end(**self.told))
        self._next_leaf()
        return stop

    def end(self, failed: bool) -> None:
        if self.depth == self.reported:
            if not failed:
                if self.leaf is not None:  # a step that was begun and never made
                    self.leaf.call_on_fit_task_end(**self.told)
                self.node.call_on_fit_task_end(**self.told)
            self.node, self.leaf, self.reported = None, None, -1
        self.depth -= 1


#: a path is no data of the rows: meta-estimators do not pass it on
NOT_METADATA = {"checkpoint": UNUSED}
#: parameters that change how a fit runs, not what it gives
_FREE = ("n_jobs", "verbose", "max_time")


@contextmanager
def checkpoints(estimator: Any, path: Any) -> Iterator[Callable[[Training], Training]]:
    """Around a fit: yields what the fit calls with its training, as soon as that is known, to go on from `path`.

    A fit with ``random_state=None`` has drawn its seed before it was killed: the one that resumes takes it over.
    """
    with ExitStack() as stack:

        def resume(training: Training) -> Training:
            if path is None:
                return training
            stack.enter_context(checkpointing(path, identity_of(estimator, training)))
            return replace(training, key=int(step("seed", lambda: int(training.key))))

        yield resume


def identity_of(estimator: Any, training: Training) -> dict[str, Any]:
    """Data and parameters of a fit as plain values by name."""
    rows = training.rows
    identity: dict[str, Any] = {"estimator": type(estimator).__name__}
    for name, value in estimator.get_params(deep=False).items():
        if name not in _FREE:
            identity[name] = _seed(value) if name == "random_state" else _text(name, value)
    identity["shape"] = f"{rows.n_rows} rows of {rows.n_features} {rows.dtype} features, {rows.n_outputs} outputs"
    if training.classes is not None:
        identity["classes"] = _text("classes", np.asarray(training.classes))
    identity |= content_of(rows)
    if estimator.get_params(deep=False).get("warm_start") and getattr(estimator, "basis_vectors_", None) is not None:
        identity["warm start"] = _text("warm start", estimator.basis_vectors_)
    return identity


def _seed(value: Any) -> str:
    """A seed that is drawn cannot be compared; the one in use is in the checkpoint."""
    return repr(int(value)) if isinstance(value, Integral) else "drawn"


def _text(name: str, value: Any) -> str:
    """A parameter as text that is the same in every process: itself where it is short, else its digest."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value.item() if isinstance(value, np.generic) else value)
    try:
        digest = fingerprint(value)
    except TypeError as error:
        raise TypeError(
            f"a fit with {name}={type(value).__name__} cannot have a checkpoint: nobody can tell whether the code of "
            f"{error} is still the same when the fit goes on. {_REMEDY.get(name, _FIT_WITHOUT)}"
        ) from None
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        array = np.asarray(value)
        return f"array {array.shape} {array.dtype} {digest}"
    return f"{type(value).__name__} {digest}"


_FIT_WITHOUT = "Fit without checkpoint."
_REMEDY = {
    "cv": "Give the splits themselves: cv=list(splitter.split(X, y)).",
    "selection": "Give the vectors that it selects, as an array, or fit without checkpoint.",
    "kernel": "Name a kernel of kompakt, or fit without checkpoint.",
}




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
