"""`partial_fit`: a fixed basis, and weights from running sums over batches."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import column_or_1d

from kompakt.basis.build import Machine
from kompakt.data import ArrayRows, centre_of
from kompakt.design import Design
from kompakt.estimators.base import Array, KernelMachine, MachineClassifier, MachineRegressor, offered_if
from kompakt.estimators.params import auto_size, check_parameters
from kompakt.inputs import Inputs
from kompakt.methods.steps import freeze, resolve_width_and_cost, trained_machine
from kompakt.solve import Problem
from kompakt.solve.running import RunningSums, batch_sums, minimise_sums
from kompakt.spec import Basis, Data, Spec
from kompakt.train.data import check_rows, checked_weights, resolve_kernel
from kompakt.train.running import running, unchanged_on_error
from kompakt.train.task import ClassEncoder, class_factors

#: losses whose rows may be forgotten after one look
_LOSSES = ("least_squares", "squared_hinge")


@dataclass
class _Running:
    """What is kept between batches: what is minimised, the basis in centred coordinates, and the sums; no rows.

    `inputs` are what an earlier `fit` did to streamed rows to standardise them.
    """

    spec: Spec
    offset: Array | None
    basis: Basis
    sums: RunningSums | None = None
    inputs: Inputs | None = None
    theta: Array | None = None
    weights: Array | None = None
    n_batches: int = 0
    n_rows: int = 0
    n_kernel_evals: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


def _available(machine: PartialClassifier | PartialRegressor) -> None:
    reason = machine._needs_all_rows()
    if reason is not None:
        raise AttributeError(f"{type(machine).__name__} has no partial_fit here: {reason}.")


def _needs_all_rows(machine: KernelMachine) -> str | None:
    """Why batches cannot be forgotten, and what to set; None where they can."""
    loss = machine.loss if isinstance(machine.loss, str) else getattr(machine.loss, "name", None)
    if machine.refine:
        return "the basis must stay as it is: set refine=False"
    if machine.tune or auto_size(machine.n_basis):
        return "searches need all rows at once: set tune=False and n_basis to a number"
    if loss not in _LOSSES:
        return f"the loss must be one of {_LOSSES}; got loss={machine.loss!r}"
    if isinstance(machine.kernel, str) and machine.kernel == "precomputed":
        return "a precomputed kernel has no rows to add"
    return None


def _update(
    machine: KernelMachine, X: Any, targets: Array, weights: Array | None, classes: Array | None, labels: Array | None
) -> None:
    """Add a validated batch to the sums and solve again."""
    y = targets if classes is None else None
    targets = targets.reshape(len(targets), -1)
    with running(machine, X, y) as run:
        state: _Running | None = copy(getattr(machine, "_running", None))  # a batch that fails adds nothing
        if state is None and hasattr(machine, "model_"):
            state = _state_of_fit(machine)
        if state is None:
            kernel = resolve_kernel(machine, X, weights)
            flat = weights if weights is None or weights.ndim == 1 else weights.max(axis=1)
            dense = isinstance(X, np.ndarray)
            offset = centre_of(X, flat) if kernel.shift_invariant and dense else None
            rows = ArrayRows(X, targets, weights, offset)
            first = Data(rows, classes=classes, labels=labels)
            spec, evaluations = resolve_width_and_cost(first, machine._spec(first, kernel), machine._left_open(), run)
            basis = machine._first_basis(first, spec, run)
            state = _Running(spec, first.rows.offset, basis, n_kernel_evals=evaluations + basis.n_kernel_evals)
        if state.theta is not None and state.theta.shape[1] != targets.shape[1]:
            raise ValueError(
                f"y has {targets.shape[1]} outputs; the batches before had {state.theta.shape[1]}. "
                "Give every batch the same outputs."
            )
        rows = ArrayRows(X if state.inputs is None else state.inputs.transform(X), targets, weights, state.offset)
        rows.inputs = getattr(machine, "_inputs", None) if state.inputs is None else state.inputs
        data = Data(rows, classes=classes, labels=labels, y=y)
        design = Design(data.rows, state.spec.kernel, state.basis.vectors, whiten=True, store=False)
        problem = Problem.of(design, state.spec)
        if state.weights is not None:  # of a fit: where the first Newton step begins
            start = np.concatenate([design.to_coordinates(state.weights[:-1]), state.weights[-1:]])
            state.theta, state.weights = start, None
        exact = state.spec.loss.quadratic
        sums = batch_sums(problem, None if exact else state.theta)
        state.sums = sums if state.sums is None else state.sums + sums
        state.n_batches += 1
        state.n_rows += data.rows.n_rows
        state.n_kernel_evals += design.n_kernel_evals
        solution = minimise_sums(problem, state.sums, state.n_batches)
        state.theta = solution.coordinates
        objective = float(np.sum(solution.objective))
        batch = {"phase": "batch", "n_rows": data.rows.n_rows, "objective": objective}
        state.history = [*state.history, batch]
        solved = Machine(state.spec, Basis(None, state.basis.vectors), solution, state.n_kernel_evals)
        run = replace(run, history=list(state.history))
        machine._publish(freeze(data, solved, machine._plan(), run, attributes={"n_rows_seen_": state.n_rows}))
    machine._running = state


def _state_of_fit(machine: KernelMachine) -> _Running:
    """Kernel, centre and basis of an earlier `fit`, whose rows count for nothing in the sums."""
    model = machine.model_
    table: Inputs | None = getattr(machine, "_inputs", None)
    standardised = table is None and model.inputs.scale is not None
    inputs = Inputs(shift=model.inputs.shift, scale=model.inputs.scale) if standardised else None
    kernel, vectors, offset = trained_machine(model, inputs if table is None else table)
    no_rows = Data(ArrayRows(np.empty((0, model.n_features))), classes=model.classes)
    spec = machine._spec(no_rows, kernel)
    spec = replace(spec, C=machine.C_) if machine.C is None else spec
    if machine._in_input_space(no_rows, model.kernel):
        return _Running(spec, None, Basis(None, np.eye(model.n_features)), inputs=inputs)
    weights = np.concatenate([model.weights, model.intercept[None]])
    return _Running(spec, offset, Basis(None, vectors), inputs=inputs, weights=weights)


def _batch(
    machine: KernelMachine, X: Any, y: Any, sample_weight: Any, *, numeric: bool
) -> tuple[Any, Any, Array | None]:
    """Validated float64 rows, targets and weights; rows of weight zero are gone."""
    check_parameters(machine)
    X, y = check_rows(machine, X, y, numeric_y=numeric, reset=not hasattr(machine, "model_"))
    X = X.astype(np.float64, copy=False)  # sums over many batches keep what float32 would lose
    weights = None
    if sample_weight is not None:
        weights = checked_weights(sample_weight, X)
        kept = np.flatnonzero(weights > 0)
        if not len(kept):
            raise ValueError("sample_weight is zero for every row of the batch; expected at least one non-zero.")
        X, y, weights = X[kept], y[kept], weights[kept]
    return X, y, weights


class PartialClassifier(MachineClassifier):
    """`partial_fit` of classifiers."""

    @offered_if(_available)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
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
        with unchanged_on_error(self):
            self._add(X, y, classes, sample_weight)
        return self

    def _needs_all_rows(self) -> str | None:
        """Why batches cannot be forgotten, and what to set; None where they can."""
        if isinstance(self.class_weight, str):
            return f"class_weight={self.class_weight!r} needs all rows at once: give a dict of label: weight"
        return _needs_all_rows(self)

    def _add(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
        labels_before: Any = getattr(self, "classes_", None)
        X, y, weights = _batch(self, X, y, sample_weight, numeric=False)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if labels_before is None and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit: all labels that may come.")
        all_labels = labels_before if classes is None else unique_labels(classes)
        if labels_before is not None and not np.array_equal(labels_before, all_labels):
            raise ValueError(
                f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {labels_before!r}"
            )
        if len(all_labels) < 2:
            raise ValueError(
                f"The number of classes has to be greater than one; got {len(all_labels)} class: {all_labels}."
            )
        strange = np.setdiff1d(y, all_labels)
        if len(strange):
            raise ValueError(f"y holds labels {strange[:5]} that are not among classes={all_labels}.")
        labels = np.asarray(np.searchsorted(all_labels, y))
        factors = class_factors(self.class_weight, all_labels, np.bincount(labels, weights, len(all_labels)))
        targets, weights = ClassEncoder(all_labels, self.coding, factors).targets(labels, weights)
        _update(self, X, targets, weights, all_labels, labels)


class PartialRegressor(MachineRegressor):
    """`partial_fit` of regressors."""

    @offered_if(_available)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
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
        with unchanged_on_error(self):
            X, y, weights = _batch(self, X, y, sample_weight, numeric=True)
            _update(self, X, np.asarray(y, dtype=np.float64), weights, None, None)
        return self

    def _needs_all_rows(self) -> str | None:
        """Why batches cannot be forgotten, and what to set; None where they can."""
        return _needs_all_rows(self)
