"""SpSVM: the greedy primal support vector machine of Keerthi, Chapelle, DeCoste 2006."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kompakt.basis.build import Machine, Plan
from kompakt.basis.forward import CandidateStream, Growth, GrowthPlan, GrowthSelector, Monitor, Record, finish
from kompakt.basis.growing import GrowingMachine
from kompakt.basis.sizes import best_point, size_errors, tune_grid
from kompakt.heldout import AutoSize, SizeChoice, Split, Trials, pick_size, split_rows, splits_of
from kompakt.kernels import Kernel
from kompakt.methods.steps import (
    Fitted,
    LeftOpen,
    freeze,
    refine,
    refuse_what_cannot_work,
    resolve_width_and_cost,
    solve_on_all_rows,
)
from kompakt.run import Run
from kompakt.spec import Basis, Data, Spec
from kompakt.train.data import in_memory

Array = np.ndarray


@dataclass(frozen=True)
class Grid:
    """The settings that a search tries: every kernel with every C."""

    kernels: Sequence[Kernel]
    costs: Array


@dataclass(frozen=True)
class EarlierGrowth:
    """The growth of the last fit, which a warm start continues: its rows, vectors, history, kernel and C."""

    indices: Array | None
    vectors: Array | None
    history: list[Record]
    kernel: Kernel
    C: float


@dataclass(frozen=True)
class SpSVM:
    """Options of `fit_spsvm`.

    Parameters
    ----------
    spec : Spec
        What is minimised.
    plan : Plan
        Refinement, and when solvers stop.
    selector : GrowthSelector
        How candidates are drawn and scored (section 3 of the paper).
    n_basis : int, optional
        The paper's d_max; None chooses it as `auto` says.
    auto : AutoSize
        Largest size, and how one is chosen.
    left_open : LeftOpen
    grid : Grid, optional
        Searched by cross-validation (section 4).
    plus_one : bool
        Whether kernels of the grid get the constant 1 of the kernel 1 + k.
    cv : int, splitter or list of splits
    validation_fraction : float
        Share of the rows that ends the growth; 0 for none.
    earlier : EarlierGrowth, optional
    """

    spec: Spec
    plan: Plan
    selector: GrowthSelector
    n_basis: int | None
    auto: AutoSize
    left_open: LeftOpen
    grid: Grid | None = None
    plus_one: bool = False
    cv: Any = 3
    validation_fraction: float = 0.0
    earlier: EarlierGrowth | None = None

    def growth_plan(self, data: Data, n_basis: int | None, run: Run) -> tuple[GrowthPlan, CandidateStream]:
        """How to grow to `n_basis` vectors (None: the largest size that is tried), and which rows are tried."""
        stream = self.selector.stream(data.in_memory, run)
        largest = (self.auto.largest or 100) if n_basis is None else n_basis
        return self.selector.plan(min(largest, len(stream.rows)), self.plan.tol, self.plan.max_iter, run), stream


def fit_spsvm(data: Data, options: SpSVM, run: Run) -> Fitted:
    """Greedy primal SVM: vectors are added one by one, each the best of a few candidates (sections 2 and 3).

    Parameters
    ----------
    data : Data
    options : SpSVM
    run : Run
    """
    spec, n_basis = options.spec, options.n_basis
    attributes: dict[str, Any] = {}
    refuse_what_cannot_work(data, spec, options.plan, run)
    data = in_memory(data, n_basis, run)
    evaluations, trials, why_size = 0, None, ""

    # kernel, C and size by cross-validation (section 4)
    size_by_cv = n_basis is None and not options.validation_fraction
    if options.grid is not None:
        spec, size, attributes["cv_errors_"], trials = _search_grid(data, spec, options, run, size_by_cv=size_by_cv)
        n_basis = size if size_by_cv else n_basis
    else:
        spec, evaluations = resolve_width_and_cost(data, spec, options.left_open, run)
        if options.earlier is not None:  # growth goes on with the width and cost it began with
            kernel = options.earlier.kernel if options.left_open.width else spec.kernel
            spec = replace(spec, kernel=kernel, C=options.earlier.C if options.left_open.cost else spec.C)
        if size_by_cv:
            choice = _choose_size(data, spec, options, run)
            n_basis, attributes["cv_errors_"], why_size = choice.size, choice.mean_errors, choice.why

    machine, attributes["history_"] = _grow(data, spec, n_basis, options, run)
    machine, _ = refine(data, machine, options.plan, run)
    machine = solve_on_all_rows(data, machine, options.plan, run)
    return freeze(
        data,
        machine,
        options.plan,
        run,
        n_kernel_evals=evaluations,
        attributes=attributes,
        trials=trials,
        why_size=why_size,
    )


def _grow(data: Data, spec: Spec, n_basis: int | None, options: SpSVM, run: Run) -> tuple[Machine, list[Record]]:
    """Grow to `n_basis` vectors, or to where the error of held-out rows is lowest; the machine and its history."""
    rows, (plan, stream) = data.in_memory, options.growth_plan(data, n_basis, run)
    assert data.labels is not None
    columns = options.selector.columns(rows, spec.kernel, stream, plan.n_basis, run)
    all_weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    weights, held_out = all_weights, None
    if options.validation_fraction:
        train, held_out = split_rows(data, 1, run.key, fraction=options.validation_fraction)[0]
        weights = all_weights.copy()
        weights[held_out] = 0.0
        stream = stream.within(train)
        plan = replace(plan, patience=int(options.auto.n_iter_no_change or 20))
    growing = GrowingMachine.on_rows(columns, spec, plan.n_basis, weights, run.memory_budget)
    history = [] if options.earlier is None else _put_back(growing, data, plan.n_basis, options.earlier)
    records = Growth(growing, stream, plan, Monitor(data, spec, held_out)).grow()
    interrupted = bool(records and records[-1].get("interrupted"))
    if held_out is not None and records and not interrupted:
        # the smallest size with a low validation error, its weights fitted to all rows
        sizes, errors = ([record[name] for record in records] for name in ("n_basis", "validation_error"))
        growing.truncate(pick_size(sizes, errors, "within", tolerance=float(options.auto.tol or 0.0)).size)
        growing.set_weights(all_weights)
        finish(growing, plan)
    indices = np.array(growing.indices, dtype=np.intp)
    basis = Basis(indices, columns.vectors(indices))
    machine = Machine(spec, basis, growing.solution(), columns.n_evals, interrupted=interrupted)
    return machine, history + records


def _search_grid(
    data: Data, spec: Spec, options: SpSVM, run: Run, *, size_by_cv: bool
) -> tuple[Spec, int, Array, Trials]:
    """Kernel, C and size of the lowest cross-validated error, all errors (kernels, costs, sizes), and their table."""
    grid = options.grid
    assert grid is not None
    plan, _ = options.growth_plan(data, options.n_basis, run)
    splits = splits_of(data, options.cv, run.key)
    # weights retrained at every step let the machines of a grid grow side by side; their errors are no higher.
    # They try the same rows, so that the choice among them is not one among random draws (section 4).
    plan = replace(plan, retraining="always", candidates="all")
    errors, losses = run.step(
        "search",
        lambda: tune_grid(data, spec, plan, splits, list(grid.kernels), grid.costs, plus_one=options.plus_one),
    )
    slack = _size_tolerance(errors, splits, options.auto) if size_by_cv else 0.0
    kernel_index, cost_index, size = best_point(errors, losses, slack)
    kernel = grid.kernels[kernel_index] + 1.0 if options.plus_one else grid.kernels[kernel_index]
    trials = Trials()
    for pair in np.ndindex(errors.shape[:2]):  # every pair at its best size, the chosen one at its own
        best_size = size if pair == (kernel_index, cost_index) else int(np.argmin(errors[pair])) + 1
        gamma = getattr(grid.kernels[pair[0]], "gamma", None)
        setting = {"C": float(grid.costs[pair[1]]), "gamma": gamma, "n_basis": best_size}
        trials.add(setting, errors[pair][best_size - 1])
    why = f"the lowest held-out error of {len(trials):,} settings by cross-validation, each at its best size."
    if slack:
        why = f"the smallest size within {slack:.3g} of {why}"
    trials.choose(trials.rows[kernel_index * len(grid.costs) + cost_index], why)
    return replace(spec, kernel=kernel, C=float(grid.costs[cost_index])), size, errors, trials


def _choose_size(data: Data, spec: Spec, options: SpSVM, run: Run) -> SizeChoice:
    """The number of vectors by cross-validation, and the errors of all sizes."""
    plan, _ = options.growth_plan(data, None, run)
    splits = splits_of(data, options.cv, run.key)
    errors = run.step("sizes", lambda: size_errors(data, spec, plan, splits))
    slack = _size_tolerance(errors, splits, options.auto)
    return pick_size(np.arange(1, len(errors) + 1), np.round(errors, 12), "within", tolerance=slack)


def _size_tolerance(errors: Array, splits: list[Split], auto: AutoSize) -> float:
    """How much above the lowest cross-validated error that of a smaller size may lie.

    The lowest of many errors is a tie up to noise: one mistake more is allowed, where that is within half a standard
    error, which it is unless the best makes fewer than five.
    """
    if auto.tol is not None:
        return float(auto.tol)
    n_rows, lowest = sum(len(held_out) for _, held_out in splits), float(np.min(errors))
    return min(1.0 / n_rows, 0.5 * float(np.sqrt(lowest * (1.0 - lowest) / n_rows))) + 1e-12


def _put_back(growing: GrowingMachine, data: Data, n_basis: int, earlier: EarlierGrowth) -> list[Record]:
    """Put the basis of the last fit back (warm start); returns its history."""
    if earlier.indices is None:
        raise ValueError(
            "warm_start=True continues a growth among rows, but refinement moved the vectors of the last fit away "
            "from them. Grow with refine=False first and set refine=True for the last fit, or use warm_start=False."
        )
    indices = np.asarray(earlier.indices)
    if data.kept is not None:
        indices = np.searchsorted(data.kept, indices)
    X = data.in_memory.X
    same = bool(len(indices) and indices.max() < X.shape[0])
    if same and earlier.vectors is not None:
        rows = X[indices].toarray() if data.rows.is_sparse else X[indices]
        same = rows.shape == earlier.vectors.shape and np.array_equal(rows, earlier.vectors)
    if not same or len(indices) > n_basis:
        raise ValueError(
            f"warm_start=True continues the last fit: expected the same rows and n_basis >= {len(indices)}; "
            f"got n_basis={n_basis}{'' if same else ' and other rows'}. Use warm_start=False to begin anew."
        )
    for index, diagonal in zip(indices.tolist(), growing.columns.diagonal(indices), strict=True):
        growing.append(index, growing.columns.columns(np.array([index]))[0], float(diagonal))
        growing.retrain()
    return list(earlier.history)
