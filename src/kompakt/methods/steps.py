"""The steps that the methods share, and `Fitted`, what every method function returns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kompakt.basis.build import Array, Machine, Plan, build, hold_out, on_all_rows, refined, unseen_outputs
from kompakt.basis.refine import require_derivatives
from kompakt.codings import get_coding
from kompakt.data import Rows, StreamedRows
from kompakt.design import Design
from kompakt.heldout import Trials, folds_by_content
from kompakt.inputs import Inputs
from kompakt.kernels import RBF, BentRBF, Kernel, MappedRBF, Precomputed
from kompakt.model import Model
from kompakt.run import Run
from kompakt.search.widths import rows_of_sample, width_and_cost
from kompakt.spec import Data, Spec
from kompakt.train.data import by_content

#: classes that are refused where each makes a problem of its own
_MANY_CLASSES = 1000


@dataclass(frozen=True)
class Fitted:
    """The result of a method function.

    Attributes
    ----------
    data : Data
        The rows that search, selection and refinement saw: all, or a sample in memory.
    machine : Machine
        Basis, weights and what was minimised.
    model : Model
        The frozen model.
    plan : Plan
        Whether and how vectors were refined, and when solvers stopped.
    run : Run
        With the history of the fit.
    n_kernel_evals : int
        Kernel values computed, those of a search as far as it counts them.
    attributes : dict
        Fitted attributes that this method alone has.
    trials : Trials, optional
        What a search tried, which setting it chose, and why.
    why_size : str
        Why the number of vectors was chosen.
    skipped : str
        What a fit that Ctrl-C ended has left out, as it is told to the user.
    """

    data: Data
    machine: Machine
    model: Model
    plan: Plan
    run: Run
    n_kernel_evals: int
    attributes: dict[str, Any] = field(default_factory=dict)
    trials: Trials | None = None
    why_size: str = ""
    skipped: str = ""

    @property
    def spec(self) -> Spec:
        """What was minimised."""
        return self.machine.spec


# -- before the work begins ------------------------------------------------------------------------------------


def refuse_what_cannot_work(data: Data, spec: Spec, plan: Plan, run: Run) -> None:
    """Raise for so many classes that a fit takes hours, and for kernels that cannot be refined.

    Least squares solve all outputs at once; every other loss makes each output a problem of its own, unless time is
    limited.
    """
    if plan.refine:
        require_derivatives(spec.kernel)
    n_outputs, n_classes = data.rows.n_outputs, data.n_classes
    if min(n_classes, n_outputs) < _MANY_CLASSES or spec.loss.quadratic or run.deadline:
        return
    fewer = get_coding("minimum_output").n_outputs(n_classes)
    raise ValueError(
        f"{n_classes:,} classes make {n_outputs:,} outputs with coding={spec.coding!r}, each of which is a training "
        "problem of its own for this loss. Use FixedSizeLSSVC or loss='least_squares', which solve all at once; or "
        f"coding='minimum_output', which makes {fewer} but needs many more vectors; or set max_time and take what is "
        "found in that time."
    )


@dataclass(frozen=True)
class LeftOpen:
    """What of the objective the user left to the data.

    Parameters
    ----------
    width, cost : bool
        Whether the kernel's width and C come from the data.
    n_basis : int, optional
        Number of vectors that they shall suit; None where it is open too.
    epsilon_of_noise : float, optional
        Where the loss's epsilon comes with the cost: its size in standard deviations of the noise.
    """

    width: bool = False
    cost: bool = False
    n_basis: int | None = None
    epsilon_of_noise: float | None = None


def resolve_width_and_cost(data: Data, spec: Spec, left_open: LeftOpen, run: Run) -> tuple[Spec, int]:
    """What is minimised, with width and cost from the data where they are left open, and the kernel values spent.

    The cost is found for least squares.  A loss that grows by the absolute residual is to one of squares as one is to
    the size of the residuals, so with this size as factor the result does not depend on the targets' unit.
    """
    if not (left_open.width or left_open.cost):
        return spec, 0
    n_basis = left_open.n_basis
    robust = not data.classifier and not spec.loss.quadratic
    if isinstance(data.rows, StreamedRows):
        data = by_content(data, rows_of_sample(spec.kernel, data.rows.n_features, n_basis), run)
    given_cost = None if left_open.cost else spec.C
    search = width_and_cost(data, spec.kernel, given_cost, run, n_basis=n_basis, width=left_open.width, robust=robust)
    loss, C = spec.loss, search.C if left_open.cost else spec.C
    if left_open.cost and robust and search.noise:
        if left_open.epsilon_of_noise is not None:
            loss = replace(loss, epsilon=left_open.epsilon_of_noise * search.noise)  # type: ignore[type-var]
        if loss.piecewise_linear:
            C *= search.noise
    return replace(spec, kernel=search.kernel, loss=loss, C=C), search.n_kernel_evals


# -- after the basis was chosen --------------------------------------------------------------------------------


def refine(
    data: Data, machine: Machine, plan: Plan, run: Run, specs: list[Spec] | None = None
) -> tuple[Machine, Trials | None]:
    """The machine moved down the objective by a race among these settings, and the table of the race.

    None stands for the machine's own setting, whose metric and transform alone may be open.
    """
    if not plan.refine or not machine.basis.n_basis or machine.interrupted:
        return machine, None
    return refined(data, machine, plan, run, specs)


def solve_on_all_rows(data: Data, machine: Machine, plan: Plan, run: Run) -> Machine:
    """The machine with its weights from all rows, where `data` is a sample of them."""
    if data.whole or machine.interrupted:  # after Ctrl-C, the machine as it stands
        return machine
    return on_all_rows(data.everything, machine, plan, run)


#: rows below which values of held-out rows come from folds, each with a machine of its own; and how many folds
_FEW_ROWS, _FOLDS = 3000, 5


def held_out_outputs(data: Data, spec: Spec, machine: Machine, plan: Plan, run: Run) -> tuple[Array, Array]:
    """Rows and their outputs under machines that never saw them: what thresholds, intervals and probabilities need.

    `spec` is what the machine began with.  A refined machine brings such outputs from its descent; otherwise every fold
    of few rows has a machine of its own, and one part is held out of many.
    """
    if machine.unseen is not None:
        return machine.unseen
    if not machine.refined and data.rows.n_rows >= _FEW_ROWS and hold_out(data, plan, run) is not None:
        return unseen_outputs(data, machine, plan, run)
    index, outputs = [], []
    everything = np.arange(data.rows.n_rows)
    splits = folds_by_content(data, _FOLDS, run.key) or [(everything, everything)]  # rows that are all the same
    fold_plan = replace(plan, refine=machine.refined, validation_fraction=0.0)
    with run.quietly():
        for train, held in splits:
            fold = build(data.subset(train), spec, machine.basis.n_basis, fold_plan, run)
            index.append(held)
            outputs.append(outputs_of(data.subset(held), fold))
    return np.concatenate(index), np.concatenate(outputs)


def outputs_of(data: Data, machine: Machine) -> Array:
    """Outputs of rows in memory, (n, L)."""
    design = Design(data.rows, machine.spec.kernel, machine.basis.vectors, store=False)
    return np.asarray(design.matvec(machine.solution.weights) + machine.solution.intercept)


def freeze(
    data: Data,
    machine: Machine,
    plan: Plan,
    run: Run,
    *,
    calibration: dict[str, Array] | None = None,
    n_kernel_evals: int = 0,
    attributes: dict[str, Any] | None = None,
    trials: Trials | None = None,
    why_size: str = "",
    skipped: str = "",
) -> Fitted:
    """The finished fit; `n_kernel_evals` are those spent before the machine was built."""
    model = model_of(data, machine, calibration)
    evaluations = machine.n_kernel_evals + n_kernel_evals
    return Fitted(data, machine, model, plan, run, evaluations, attributes or {}, trials, why_size, skipped)


def model_of(data: Data, machine: Machine, calibration: dict[str, Array] | None = None) -> Model:
    """The frozen model; its basis is in the user's coordinates, not centred."""
    rows, kernel = data.rows, machine.spec.kernel
    vectors, solution = machine.basis.vectors, machine.solution
    if not (np.isfinite(solution.weights).all() and np.isfinite(solution.intercept).all()):
        raise ValueError(
            "the weights are not finite: with these rows and parameters the computation leaves the numbers of float64. "
            "Scale the features and targets (StandardScaler), or give a smaller C or larger penalty."
        )
    centre = None if rows.offset is None else rows.offset.astype(np.float64)
    inputs = Inputs(centre=centre)
    if isinstance(kernel, BentRBF):  # the vectors live among the bent features, which are those of shifted rows
        inputs, kernel = Inputs(shift=centre, bends=kernel.transform), kernel.metric
    if isinstance(kernel, MappedRBF):  # the vectors are kept as they are mapped: fewer numbers, and mapped only once
        inputs, vectors = Inputs(shift=centre, map=kernel.map, bends=inputs.bends), kernel.mapped(vectors)
        kernel = RBF(1.0)
    elif centre is not None and inputs.bends is None:
        vectors = vectors + rows.offset
    model = Model(
        kernel=Precomputed() if isinstance(kernel, Precomputed) else kernel,
        basis=vectors,
        weights=solution.weights,
        intercept=solution.intercept,
        kind="classifier" if data.classifier else "regressor",
        n_features=rows.n_features,
        classes=data.classes,
        coding=machine.spec.coding if data.classifier else None,
        inputs=inputs if rows.inputs is None else inputs.after(rows.inputs),
        squeeze=data.single,
        calibration=calibration,
    )
    # rows that were given in float32 are these numbers again; vectors that moved lose digits, which large weights need
    narrower = rows.given_dtype != vectors.dtype and not isinstance(kernel, Precomputed)
    if narrower and (machine.basis.indices is not None or not model.needs_float64):
        model = replace(model, basis=vectors.astype(rows.given_dtype))
    return model


def trained_machine(model: Model, before: Inputs | None = None) -> tuple[Kernel, Array, Array | None]:
    """What `model_of` made a model of: the kernel of the training, and its vectors about the offset of the rows.

    `before` is what an estimator does to a table before its rows are trained on.
    """
    inputs, kernel, vectors = model.inputs, model.kernel, model.basis.astype(np.float64)
    if inputs.map is None and inputs.bends is None:
        return kernel, vectors if inputs.centre is None else vectors - inputs.centre, inputs.centre
    if inputs.map is not None:
        kernel, vectors = MappedRBF(inputs.map), inputs.unmapped(vectors)
    if inputs.bends is not None:
        kernel = BentRBF(kernel, inputs.bends)
    offset = inputs.shift
    return kernel, vectors, offset if before is None or offset is None else before.transform(offset)


def bent_machine(model: Model, rows: Rows) -> tuple[BentRBF, Array]:
    """Kernel and vectors of an earlier model with bends, in the coordinates of the blocks of other rows."""
    inputs, before = model.inputs, rows.inputs or Inputs()
    kernel, vectors, _ = trained_machine(model)
    assert isinstance(kernel, BentRBF)
    # both fits shift and scale the user's rows: what the earlier bent is a line in what these rows are
    ones, zeros = np.ones(rows.n_features), np.zeros(rows.n_features)
    scale = ones if inputs.scale is None else inputs.scale
    factor = (ones if before.scale is None else before.scale) / scale
    origin = before.inverse(zeros if rows.offset is None else rows.offset)
    shift = (origin - (zeros if inputs.shift is None else inputs.shift)) / scale
    transform, constant = kernel.transform.of_line(factor, shift)
    return replace(kernel, transform=transform), vectors - constant
