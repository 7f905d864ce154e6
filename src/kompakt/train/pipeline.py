"""The one pipeline: sample, search, size, choose the basis, refine, weights on all rows, calibrate, model.

An estimator is a `Method`: it says what is minimised, chooses the basis, and where it has them brings a search and a
choice of the size; it puts nothing together itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from kompakt.basis.build import Array, Machine, Plan, descended, refined, unseen_outputs
from kompakt.basis.refine import require_derivatives
from kompakt.codings import get_coding
from kompakt.data import StreamedRows
from kompakt.kernels import RBF, MappedRBF, Precomputed
from kompakt.model import Model
from kompakt.run import Run
from kompakt.search.trials import Trials
from kompakt.spec import Basis, Data, Spec
from kompakt.train.data import in_memory

#: classes that are refused where each makes a problem of its own
_MANY_CLASSES = 1000


@dataclass
class Fit:
    """What a fit has found so far, handed from stage to stage."""

    data: Data  # the rows that search, selection and refinement see: all, or a sample in memory
    spec: Spec
    run: Run
    plan: Plan = field(default_factory=Plan)
    n_basis: int | None = None  # None where the size is still to be chosen
    start: Array | None = None  # vectors to begin with instead of choosing some
    basis: Basis = field(init=False)  # chosen before the search, by a method whose search needs it
    machine: Machine = field(init=False)  # basis and weights
    model: Model = field(init=False)
    n_kernel_evals: int = 0  # spent before the machine was built
    attributes: dict[str, Any] = field(default_factory=dict)  # fitted attributes of the method's own
    trials: Trials | None = None  # what a search tried, which one it chose, and why
    why_size: str = ""  # why the size was chosen


class Method(Protocol):
    """What an estimator brings to the pipeline."""

    def _plan(self, data: Data, run: Run) -> Plan:
        """How a machine is built: selector, refinement, stopping rules."""

    def _passes(self, fit: Fit) -> bool:
        """Whether everything before the weights reads streamed rows by passes, without a sample in memory."""

    def _search(self, fit: Fit) -> None:
        """Choose C, widths and other parameters: changes `fit.spec`."""

    def _choose_size(self, fit: Fit) -> None:
        """Choose the number of basis vectors: sets `fit.n_basis`."""

    def _choose_basis(self, fit: Fit) -> Machine:
        """The basis, and its weights on the rows of `fit.data`."""

    def _solve(self, fit: Fit, data: Data, machine: Machine) -> Machine:
        """The machine with its weights on all rows."""


def train(method: Method, data: Data, spec: Spec, run: Run, *, n_basis: Any, calibrate: bool = False) -> Fit:
    """Run the pipeline."""
    size = None if isinstance(n_basis, str) else int(n_basis)
    fit = Fit(data, spec, run, method._plan(data, run), size)
    refuse_many_outputs(data, spec, run)
    if fit.plan.refine:
        require_derivatives(spec.kernel)  # before the work begins
    if not method._passes(fit):
        fit.data = in_memory(data, n_basis, run)
    method._search(fit)
    if fit.n_basis is None:
        method._choose_size(fit)
    machine = method._choose_basis(fit)
    if fit.plan.refine and machine.basis.n_basis and not machine.interrupted:
        with run.quietly():
            found = descended(fit.data, machine, fit.plan, run)
        machine = refined(fit.data, machine, found, fit.plan, run)
    fit.spec, fit.machine = machine.spec, machine
    calibration = None
    if calibrate and not machine.interrupted:
        calibration = _calibration(fit)
    if not fit.data.whole and not machine.interrupted:  # after Ctrl-C, the model as it stands
        fit.machine = method._solve(fit, data, machine)
    fit.model = model_of(fit.data, fit.machine, calibration)
    return fit


def refuse_many_outputs(data: Data, spec: Spec, run: Run) -> None:
    """Raise for so many classes that a fit takes hours, unless least squares solve all at once or time is limited.

    Every other loss makes each output a problem of its own.
    """
    n_outputs, n_classes = data.rows.n_outputs, data.n_classes
    if min(n_classes, n_outputs) < _MANY_CLASSES or spec.loss.name == "least_squares" or run.deadline:
        return
    fewer = get_coding("minimum_output").n_outputs(n_classes)
    raise ValueError(
        f"{n_classes:,} classes make {n_outputs:,} outputs with coding={spec.coding!r}, each of which is a training "
        "problem of its own for this loss. Use FixedSizeLSSVC or loss='least_squares', which solve all at once; or "
        f"coding='minimum_output', which makes {fewer} but needs many more vectors; or set max_time and take what is "
        "found in that time."
    )


def model_of(data: Data, machine: Machine, calibration: dict[str, Array] | None = None) -> Model:
    """The frozen model; its basis is in the user's coordinates, not centred."""
    rows, kernel = data.rows, machine.spec.kernel
    vectors, solution = machine.basis.vectors, machine.solution
    if not (np.isfinite(solution.weights).all() and np.isfinite(solution.intercept).all()):
        raise ValueError(
            "the weights are not finite: with these rows and parameters the computation leaves the numbers of float64. "
            "Scale the features and targets (StandardScaler), or give a smaller C or larger penalty."
        )
    source = data.source
    offset = None if rows.offset is None else rows.offset.astype(np.float64)
    scaling: dict[str, Any] = {}
    if isinstance(source, StreamedRows):
        scaling = {"input_shift": source.reader.shift, "input_scale": source.reader.scale}
    if isinstance(kernel, MappedRBF):  # the vectors are kept as they are mapped: fewer numbers, and mapped only once
        shift, scale = scaling.get("input_shift"), scaling.get("input_scale")
        if offset is not None:
            shift = (0.0 if shift is None else shift) + offset * (1.0 if scale is None else scale)
        vectors = kernel.mapped(vectors)
        scaling |= {"input_shift": shift, "input_map": kernel.map}
        kernel, offset = RBF(1.0), None
    elif offset is not None:
        vectors = vectors + rows.offset
    return Model(
        kernel=Precomputed() if isinstance(kernel, Precomputed) else kernel,
        basis=vectors,
        weights=solution.weights,
        intercept=solution.intercept,
        kind="classifier" if data.classifier else "regressor",
        n_features=rows.n_features,
        classes=data.classes,
        coding=machine.spec.coding if data.classifier else None,
        offset=offset,
        squeeze=data.single,
        calibration=calibration,
        **scaling,
    )


def _calibration(fit: Fit) -> dict[str, Array]:
    """Sigmoids fitted to decision values of rows that the weights had not seen (scikit-learn's logistic fit)."""
    from sklearn.linear_model import LogisticRegression

    data, machine = fit.data, fit.machine
    assert data.labels is not None
    index, outputs = unseen_outputs(data, machine, fit.plan, fit.run)
    scores = get_coding(fit.spec.coding).scores(outputs, data.n_classes)
    w = None if data.row_weights is None else data.row_weights[index]
    columns = scores[:, None] if scores.ndim == 1 else scores
    a, b = np.empty(columns.shape[1]), np.empty(columns.shape[1])
    for column in range(columns.shape[1]):
        positive = data.labels[index] == (1 if scores.ndim == 1 else column)
        if positive.all() or not positive.any():
            raise ValueError("calibrate=True needs held-out rows of every class; give more rows per class.")
        fitted = LogisticRegression(C=1e6).fit(columns[:, [column]], positive, sample_weight=w)
        a[column], b[column] = -fitted.coef_[0, 0], -fitted.intercept_[0]
    return {"a": a, "b": b}
