"""FEE-SVM: semiparametric machines grown by fast error estimation (Navia-Vazquez and Diaz-Morales 2010)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kompakt.basis.build import Machine, Plan
from kompakt.basis.fee import FeeGrowth, FeePlan, FEESelector, Observer, SemiparametricMachine, grow_on
from kompakt.basis.forward import CandidateStream, Record
from kompakt.data import hash_rows
from kompakt.design import Design
from kompakt.heldout import split_rows, splits_of
from kompakt.kernels import RBF
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
from kompakt.search.fee import C_EXPONENTS, SIGMA_EXPONENTS, FeeSearch, TwoGrids, search_fee
from kompakt.solve import Problem, solve
from kompakt.spec import Basis, Data, Spec
from kompakt.train.data import in_memory

Array = np.ndarray


@dataclass(frozen=True)
class FEE:
    """Options of `fit_fee`.

    Parameters
    ----------
    spec : Spec
        What is minimised.
    plan : Plan
        Refinement, and when solvers stop.
    selector : FEESelector
        How candidates are drawn and judged.
    n_basis : int
        Largest size.
    n_iter_no_change : int
        Growth stops so many steps after the lowest validation error.
    left_open : LeftOpen
    grids : TwoGrids, optional
        The paper's search of sigma and C.
    cv : int, splitter or list of splits, optional
    validation_fraction : float, optional
        Share of the rows held out; 0 for none, None for what suits the number of rows.
    refit : bool
        Whether the weights are fitted to all rows at the end.
    n_jobs : int, optional
        Processes of the search.
    """

    spec: Spec
    plan: Plan
    selector: FEESelector
    n_basis: int
    left_open: LeftOpen
    n_iter_no_change: int = 20
    grids: TwoGrids | None = None
    cv: Any = None
    validation_fraction: float | None = None
    refit: bool = True
    n_jobs: int | None = None
    few_rows: int = 2000  # up to so many rows folds choose the size; one fifth of more rows says enough

    def growth_plan(self, n_basis: int, run: Run) -> FeePlan:
        """How to grow to at most `n_basis` vectors."""
        return self.selector.plan(n_basis, self.n_iter_no_change, run)

    def folds_for(self, data: Data) -> Any:
        """The folds that choose the size; None where one held-out part does."""
        n_rows = data.rows.n_rows
        if self.cv is not None or self.validation_fraction is not None or n_rows > self.few_rows:
            return self.cv
        rarest = n_rows if data.labels is None else int(np.bincount(data.labels).min())
        return min(5, rarest) if rarest > 1 else None


@dataclass(frozen=True)
class Grown:
    """A machine grown to its size: on which rows, with which history, after how many kernel values of folds."""

    machine: SemiparametricMachine
    growth: FeeGrowth
    train_rows: Array
    history: list[Record]
    n_kernel_evals: int = 0
    fold_sizes: Array | None = None
    fold_errors: Array | None = None


def fit_fee(data: Data, options: FEE, run: Run, observe: Observer | None = None) -> Fitted:
    """Grow from the class means, each time by the candidate of the lowest estimated error (Table 1 of the paper).

    Parameters
    ----------
    data : Data
    options : FEE
    run : Run
    observe : callable, optional
        Sees the steps of the last growth.
    """
    spec, n_basis = options.spec, options.n_basis
    attributes: dict[str, Any] = {}
    refuse_what_cannot_work(data, spec, options.plan, run)
    data = in_memory(data, n_basis, run)
    evaluations, trials = 0, None

    # sigma, C and the size by the paper's two grids (section 4)
    if options.grids is not None:
        search = _search_grids(data, spec, options, run)
        trials = search.trials
        spec, n_basis = replace(spec, kernel=RBF(search.best.gamma), C=search.best.C), search.best.size
        attributes |= {"search_": search, "fold_errors_": search.best.errors, "fold_sizes_": search.best.sizes}
    else:
        spec, evaluations = resolve_width_and_cost(data, spec, options.left_open, run)

    # Table 1: grow, choosing vectors and the size by validation rows
    grown = _grow(data, spec, n_basis, options, run, observe)
    attributes["history_"] = grown.history
    if grown.fold_sizes is not None:
        attributes |= {"fold_sizes_": grown.fold_sizes, "fold_errors_": grown.fold_errors}
    basis, selected = _vectors(data, spec, grown)
    attributes["selected_indices_"] = data.original(selected)

    if not options.refit and not grown.growth.interrupted and len(grown.train_rows) < data.rows.n_rows:
        # rows that chose vectors and size would flatter the weights: neither they nor refinement see them
        train = data.subset(grown.train_rows)
        data = replace(data, rows=train.rows, labels=train.labels, y=train.y, kept=data.original(grown.train_rows))
    machine = _solve_weights(data, spec, basis, grown, options, run)
    machine, _ = refine(data, machine, options.plan, run)
    machine = solve_on_all_rows(data, machine, options.plan, run)
    return freeze(data, machine, options.plan, run, n_kernel_evals=evaluations, attributes=attributes, trials=trials)


def _search_grids(data: Data, spec: Spec, options: FEE, run: Run) -> FeeSearch:
    grids = options.grids
    assert grids is not None
    sigmas = SIGMA_EXPONENTS if grids.sigma_exponents is None else grids.sigma_exponents
    costs = C_EXPONENTS if grids.C_exponents is None else grids.C_exponents
    plan = options.growth_plan(options.n_basis, run.inner())
    splits = splits_of(data, 5 if options.cv is None else options.cv, run.key)
    return search_fee(data, spec, plan, splits, sigmas, costs, rule=grids.rule, n_jobs=options.n_jobs)


def _grow(data: Data, spec: Spec, n_basis: int, options: FEE, run: Run, observe: Observer | None) -> Grown:
    """Grow with one held-out part, to the mean of the folds' best sizes, or (after a search) to `n_basis`."""
    plan = options.growth_plan(n_basis, run)
    stream = CandidateStream.of(hash_rows(data.in_memory.X, run.key), run.key)
    searched = options.grids is not None
    folds = None if searched else options.folds_for(data)
    share = 0.2 if options.validation_fraction is None else options.validation_fraction
    if folds is None and share and not searched:
        split = split_rows(data, 1, run.key, fraction=share)[0]
        machine, growth = grow_on(data, spec, plan, stream, split, observe=observe)
        return Grown(machine, growth, split[0], growth.records)
    history: list[Record] = []
    evaluations, fold_sizes, fold_errors = 0, None, None
    if folds is not None:
        fold_plan, sizes, errors = replace(plan, run=run.inner()), [], []
        for number, split in enumerate(splits_of(data, folds, run.key)):
            machine, growth = grow_on(data, spec, fold_plan, stream, split)
            history += [{"fold": number, **record} for record in growth.records]
            evaluations += machine.columns.n_evals
            sizes.append(growth.size)
            errors.append(growth.error)
        fold_sizes, fold_errors = np.array(sizes), np.array(errors)
        plan = replace(plan, n_basis=max(1, round(float(np.mean(sizes)))))
    all_rows = np.arange(data.rows.n_rows)
    split = all_rows, np.empty(0, dtype=np.intp)
    machine, growth = grow_on(data, spec, replace(plan, patience=None), stream, split, observe=observe)
    return Grown(machine, growth, all_rows, history + growth.records, evaluations, fold_sizes, fold_errors)


def _vectors(data: Data, spec: Spec, grown: Grown) -> tuple[Basis, Array]:
    """The basis at the best step, class means first, and the rows behind them."""
    machine, size = grown.machine, grown.growth.size
    n_means = min(len(machine.used_vectors), size)
    selected = np.array(machine.indices[: size - n_means], dtype=np.intp)
    vectors = machine.first_vectors.vectors[machine.used_vectors[:n_means]]
    if len(selected):
        vectors = np.concatenate([vectors, spec.kernel.take_basis(data.rows, selected).astype(vectors.dtype)])
    return Basis(None, vectors), selected


def _solve_weights(data: Data, spec: Spec, basis: Basis, grown: Grown, options: FEE, run: Run) -> Machine:
    """Weights to the end, from where growth left them; as they stand where Ctrl-C ended it."""
    machine, growth = grown.machine, grown.growth
    evaluations = machine.columns.n_evals + grown.n_kernel_evals
    if growth.interrupted:
        return Machine(spec, basis, machine.solution(growth.coordinates), evaluations, interrupted=True)
    design = Design(data.rows, spec.kernel, basis.vectors, whiten=True, memory_budget=run.memory_budget)
    start = np.zeros((growth.size + 1, machine.n_outputs))
    start[:-1] = growth.coordinates[:, machine.first :].T
    if machine.first:
        start[-1] = growth.coordinates[:, 0]
    solution = solve(Problem.of(design, spec), start, options.plan.settings(run))
    return Machine(spec, basis, solution, evaluations + design.n_kernel_evals)
