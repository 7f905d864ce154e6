"""Fixed-size LS-SVM: prototypes, and ridge regression on their Nystrom features (De Brabanter et al. 2010)."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np

from kompakt.basis.build import Machine, Plan
from kompakt.basis.random import RandomSelector
from kompakt.codings import class_pairs
from kompakt.design import Design
from kompakt.heldout import AutoSize, fold_of_row, pick_size, shuffled_folds, splits_of
from kompakt.kernels import Kernel
from kompakt.losses import LeastSquares
from kompakt.methods.steps import (
    Fitted,
    LeftOpen,
    freeze,
    refine,
    refuse_what_cannot_work,
    resolve_width_and_cost,
)
from kompakt.run import Run
from kompakt.search.fixed_size import (
    CrossValidation,
    WidthSearch,
    columns_of,
    held_out,
    intercept_shifts,
    make_subproblems,
    solve_subproblems,
    spread_order,
    tune_width_and_cost,
)
from kompakt.search.strategies import Annealing, GridSearch, RandomSearch
from kompakt.solve import Solution
from kompakt.spec import Basis, Data, Selector, Spec
from kompakt.train.data import in_memory

Array = np.ndarray
logger = logging.getLogger("kompakt")


@dataclass(frozen=True)
class FixedSize:
    """Options of `fit_fixed_size`.

    Parameters
    ----------
    spec : Spec
        What is minimised.
    plan : Plan
        Refinement, and when solvers stop.
    selector : Selector
        Who chooses the prototypes.
    n_basis : int, optional
        Number of prototypes; None chooses it as `auto` says.
    auto : AutoSize
    left_open : LeftOpen
    tune : bool
        Whether width and C are searched, by `search` or by profiling C at every width.
    search : Annealing, GridSearch or RandomSearch, optional
    cv : int, splitter or list of splits
    cv_prototypes : {"drop", "anew", "plain"}
        Prototypes of the folds' machines.
    shared_basis : bool
        Whether all outputs of one-vs-one use all prototypes.
    fewest_errors : bool
        Whether intercepts are moved to where the fewest training rows are wrong.
    rivals : dict
        With `tune`, selectors by name whose prototypes, chosen for the width and C found, are taken if their
        cross-validated error is lower than that of the first ones.
    """

    spec: Spec
    plan: Plan
    selector: Selector
    n_basis: int | None
    auto: AutoSize
    left_open: LeftOpen
    tune: bool = False
    search: Annealing | GridSearch | RandomSearch | None = None
    cv: Any = 10
    cv_prototypes: str = "drop"
    shared_basis: bool = True
    fewest_errors: bool = False
    rivals: dict[str, Selector] = field(default_factory=dict)
    input_space_features: int = 2000  # up to so many (or n_basis, if more) a linear kernel needs no prototypes
    largest_size: int = 1000  # that "auto" tries
    n_sizes: int = 5  # of "auto", each half of the one after it
    coarse_rows: int = 50_000  # the coarse search sees so many rows where there are more than twice as many

    def in_input_space(self, kernel: Kernel, n_features: int) -> bool:
        """Whether the weights of a linear kernel are found without prototypes."""
        return kernel.name == "linear" and n_features <= max(self.input_space_features, self.n_basis or 0)

    def sizes(self, n_rows: int) -> list[int]:
        """Sizes that "auto" tries: five, doubling up to ten times the root of the rows (section 5)."""
        if self.auto.sizes is not None:
            return sorted({int(size) for size in self.auto.sizes})
        largest = min(self.largest_size, n_rows, int(10 * np.sqrt(n_rows)))
        return sorted({max(1, largest >> halvings) for halvings in range(self.n_sizes)})


@dataclass(frozen=True)
class Prototypes:
    """The prototypes of the machine, and those of the folds' machines where they have their own."""

    basis: Basis
    of_folds: list[Basis] | None = None

    def take_first(self, size: int) -> Prototypes:
        """The first prototypes of all."""
        of_folds = self.of_folds
        if of_folds is not None:
            of_folds = [basis.take(np.arange(min(size, basis.n_basis))) for basis in of_folds]
        return Prototypes(self.basis.take(np.arange(size)), of_folds)


@dataclass(frozen=True)
class Sizing:
    """The chosen number of prototypes: what is minimised with it, the prototypes, errors of all sizes, and why."""

    spec: Spec
    prototypes: Prototypes
    path: dict[str, Array]
    why: str
    n_kernel_evals: int


def fit_fixed_size(data: Data, options: FixedSize, run: Run) -> Fitted:
    """Prototypes, features, ridge regression, tuned by fast cross-validation (algorithm 5 of the paper).

    Parameters
    ----------
    data : Data
    options : FixedSize
    run : Run
    """
    _refuse_refinement(data, options)
    refuse_what_cannot_work(data, options.spec, options.plan, run)
    data = in_memory(data, options.n_basis, run)
    folds = _folds(data, options, run) if options.tune or options.n_basis is None else None
    spec, evaluations = resolve_width_and_cost(data, options.spec, options.left_open, run)
    in_input_space = options.in_input_space(spec.kernel, data.rows.n_features)

    # prototypes (section 4), those of the folds too
    basis = choose_prototypes(data, spec, options, run)
    attributes: dict[str, Any] = {"selection_info_": dict(basis.info)}
    trials, why_size = None, ""
    run.note("selection", n_basis=basis.n_basis)
    if options.cv_prototypes == "anew" and isinstance(folds, int):
        folds = shuffled_folds(data.rows.n_rows, folds, labels=data.labels, random_state=run.key)
    prototypes = _add_fold_prototypes(data, spec, basis, folds, options, run)

    if options.tune:
        # width and C by exact cross-validation (section 6)
        assert folds is not None
        search, prototypes, spent = _tune(data, spec, prototypes, folds, options, run)
        spec, evaluations = replace(spec, kernel=search.kernel, C=search.C), evaluations + spent
        trials, attributes["search_stopped_"] = search.trials, search.trials.stopped
        attributes["selection_info_"] = dict(prototypes.basis.info)
    if options.n_basis is None and not in_input_space:
        assert folds is not None
        sizing = _choose_size(data, spec, prototypes, folds, options, run)
        spec, prototypes, why_size, attributes["size_path_"] = sizing.spec, sizing.prototypes, sizing.why, sizing.path
        evaluations += sizing.n_kernel_evals
    if options.tune:
        validation = _validation(data, spec, prototypes, folds, options, run)
        error, outputs = _held_out_outputs(data, spec, prototypes.basis, validation, options, run)
        evaluations += validation.n_kernel_evals
        attributes["cv_error_"] = error
        if data.whole:
            attributes["out_of_fold_outputs_"] = outputs

    # the ridge regression itself (section 3.2)
    basis = prototypes.basis
    solution, spent = _solve_weights(data, data, spec, basis, options, run)
    run.note("weights", objective=float(np.sum(solution.objective)))
    machine = Machine(spec, basis, solution, basis.n_kernel_evals + spent)
    machine, _ = refine(data, machine, options.plan, run)
    if not data.whole and not machine.interrupted:
        everything = data.everything
        solution, spent = _solve_weights(data, everything, machine.spec, machine.basis, options, run)
        objective = float(np.sum(solution.objective))
        run.note("weights on all rows", n_rows=everything.rows.n_rows, objective=objective)
        machine = replace(machine, solution=solution, n_kernel_evals=machine.n_kernel_evals + spent)
    if in_input_space:  # the weights themselves are the vectors of a linear kernel, one per output
        weights = machine.solution.weights
        solution = replace(machine.solution, weights=np.eye(weights.shape[1]))
        machine = replace(machine, basis=Basis(None, weights.T.copy()), solution=solution)
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


def choose_prototypes(data: Data, spec: Spec, options: FixedSize, run: Run) -> Basis:
    """Prototypes among the rows; the unit vectors where none are needed."""
    rows = data.rows
    if options.in_input_space(spec.kernel, rows.n_features):
        return Basis(None, np.eye(rows.n_features, dtype=rows.dtype))
    n_basis = max(options.sizes(rows.n_rows)) if options.n_basis is None else options.n_basis
    basis: Basis = run.step("selection", lambda: options.selector.select(data, spec, n_basis, run), Basis)
    if not basis.n_basis:  # no vector lowers the objective: random ones are as good
        basis = run.step("selection", lambda: RandomSelector().select(data, spec, n_basis, run), Basis)
    return basis


def _refuse_refinement(data: Data, options: FixedSize) -> None:
    """Raise where prototypes are asked to move that are none, or are not shared."""
    if not options.plan.refine:
        return
    if options.in_input_space(options.spec.kernel, data.rows.n_features):
        raise ValueError("refine=True moves prototypes, but the linear kernel is solved without: pass refine=False.")
    if options.fewest_errors:
        raise ValueError(
            "fit_intercept='fewest_errors' moves the intercepts after the weights are found, which refine=True would "
            "undo: pass refine=False, or fit_intercept=True."
        )
    if data.rows.weight_columns > 1 and not options.shared_basis:
        raise ValueError(
            "refine=True moves prototypes that all outputs share; got coding='one_vs_one' with prototypes of its "
            "own for every pair. Set shared_basis=True, or another coding."
        )


def _folds(data: Data, options: FixedSize, run: Run) -> int | Array:
    """The number of folds, or the fold of every row where the user gives a splitter or splits of X."""
    if isinstance(options.cv, Integral):
        return int(options.cv)
    if data.origin is not None:
        raise ValueError(f"streamed rows are cut into folds here: cv must be a whole number; got {options.cv!r}.")
    return fold_of_row(splits_of(data, options.cv, run.key), data.rows.n_rows)


def _add_fold_prototypes(
    data: Data, spec: Spec, basis: Basis, folds: int | Array | None, options: FixedSize, run: Run
) -> Prototypes:
    """The prototypes, with those for every fold, chosen among the rows outside it, where folds have their own."""
    if options.cv_prototypes != "anew" or basis.indices is None or not isinstance(folds, np.ndarray):
        return Prototypes(basis)
    of_folds = []
    for number in range(int(folds.max()) + 1):
        outside = np.flatnonzero(folds != number)
        fold_basis = choose_prototypes(data.subset(outside), spec, options, run)
        indices = None if fold_basis.indices is None else outside[fold_basis.indices]
        of_folds.append(replace(fold_basis, indices=indices))
    return Prototypes(basis, of_folds)


def _validation(
    data: Data,
    spec: Spec,
    prototypes: Prototypes,
    folds: int | Array | None,
    options: FixedSize,
    run: Run,
    among: Array | None = None,
) -> CrossValidation:
    """Cross-validation of the machine on its prototypes; `among` are the rows that take part."""
    assert folds is not None
    drop = options.cv_prototypes == "drop"
    problems = make_subproblems(
        data, prototypes.basis, folds, run.key,
        own=not options.shared_basis, drop=drop, anew=prototypes.of_folds, among=among,
    )  # fmt: skip
    absolute = not spec.loss.quadratic
    return CrossValidation(data, spec, problems, options.plan.settings(run), absolute)


def _tune(
    data: Data, spec: Spec, prototypes: Prototypes, folds: int | Array, options: FixedSize, run: Run
) -> tuple[WidthSearch, Prototypes, int]:
    """Width, C and prototypes; a loss that needs refits gets its width from least squares, and only C from refits."""
    some_rows = _coarse_rows(data, prototypes.basis, folds, options, run)
    validation = _validation(data, spec, prototypes, folds, options, run)
    fast = replace(validation, spec=replace(spec, loss=LeastSquares()))
    coarse = None
    if some_rows is not None:
        coarse = replace(fast, problems=_validation(data, spec, prototypes, folds, options, run, some_rows).problems)
    search = tune_width_and_cost(
        fast.errors,
        spec.kernel,
        strategy="profile" if options.search is None else options.search.strategy,
        evaluate_coarse=None if coarse is None else coarse.errors,
        run=run,
        **({} if options.search is None else options.search.options()),
    )
    search.visit(1.0, np.array([spec.C]), "untuned")  # so that tuning is never worse, as far as the folds can tell
    tuned_spec, contenders = replace(spec, kernel=search.kernel, C=search.C), {"": prototypes}
    for name, selector in options.rivals.items():
        if run.late or options.in_input_space(spec.kernel, data.rows.n_features):
            break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of entropy that still rises: the folds judge the prototypes
            rival_options = replace(options, selector=selector)
            basis = choose_prototypes(data, tuned_spec, rival_options, run)
            rival = _add_fold_prototypes(data, tuned_spec, basis, folds, rival_options, run)
        contenders[name] = rival
        problems = _validation(data, spec, rival, folds, options, run).problems
        search.compare(replace(fast, problems=problems).errors, name)
    prototypes = contenders.get(search.trials.best.more["phase"], prototypes)
    if len(contenders) > 1:
        logger.info("prototypes: %s", search.trials.best.more["phase"])
    validation = _validation(data, spec, prototypes, folds, options, run)
    evaluations = search.n_visits * fast.n_kernel_evals
    evaluations += search.n_coarse_visits * (0 if coarse is None else coarse.n_kernel_evals)
    if not spec.loss.quadratic:
        loosely = replace(validation, settings=replace(validation.settings, tol=1e-4))
        search.refit(loosely.errors, search.C * 10.0 ** np.arange(-2.0, 1.5, 0.5))
    run.note("search", error=search.trials.best.mean, C=search.C, n_evaluations=len(search.trials))
    return search, prototypes, evaluations


def _coarse_rows(data: Data, basis: Basis, folds: int | Array, options: FixedSize, run: Run) -> Array | None:
    """A random part of very many rows, enough to see where the good widths lie; None where all rows are used."""
    n_rows, labels = data.rows.n_rows, data.labels
    enough = max(options.coarse_rows, 20 * basis.n_basis)
    if n_rows < 2 * enough or not isinstance(folds, int):
        return None
    some_rows = np.sort(np.random.default_rng(run.key).choice(n_rows, enough, replace=False))
    if labels is not None and len(np.unique(labels[some_rows])) <= labels.max():
        return None  # a class is so rare that it is missing
    logger.info("the coarse search uses %d of %d rows", enough, n_rows)
    return some_rows


def _choose_size(
    data: Data, spec: Spec, prototypes: Prototypes, folds: int | Array, options: FixedSize, run: Run
) -> Sizing:
    """The number of prototypes on a path of nested sets, all from one set of features, and C with it."""
    if spec.kernel.name != "precomputed":
        of_folds = prototypes.of_folds
        if of_folds is not None:
            of_folds = [basis.take(spread_order(spec.kernel, basis.vectors)) for basis in of_folds]
        basis = prototypes.basis
        prototypes = Prototypes(basis.take(spread_order(spec.kernel, basis.vectors)), of_folds)
    n_basis = prototypes.basis.n_basis
    sizes = np.array(sorted({min(size, n_basis) for size in options.sizes(data.rows.n_rows)}))
    costs = spec.C * (10.0 ** np.arange(-1.0, 1.5, 0.5) if options.tune else np.ones(1))
    validation = _validation(data, spec, prototypes, folds, options, run)
    errors, fold_errors = run.step("sizes", lambda: validation.size_errors(sizes, costs))
    best_cost = np.argmin(errors, axis=1)
    of_size = np.take_along_axis(fold_errors, best_cost[:, None, None], axis=1)[:, 0]
    choice = pick_size(sizes, of_size[:, ~np.isnan(of_size).any(axis=0)], options.auto.rule or "best")
    path = {"n_basis": sizes, "mean_test_error": choice.mean_errors, "std_error": choice.standard_errors}
    logger.info("sizes %s have errors %s: %d chosen", sizes, choice.mean_errors.round(5), choice.size)
    run.note("size", n_basis=choice.size)
    spec = replace(spec, C=float(costs[best_cost[choice.index]]))
    why = f"{choice.why} C {spec.C:.4g} is the best for it."
    return Sizing(spec, prototypes.take_first(choice.size), path, why, validation.n_kernel_evals)


def _held_out_outputs(
    data: Data, spec: Spec, basis: Basis, validation: CrossValidation, options: FixedSize, run: Run
) -> tuple[float, Array]:
    """Held-out error and outputs of the machine that the search and the choice of a size ended with."""
    values = [held_out(problem, spec, np.array([spec.C]), validation.settings)[0] for problem in validation.problems]
    if options.fewest_errors:  # the thresholds for a fold are those of the other rows
        for problem, value in zip(validation.problems, values, strict=True):
            targets, weights, before = problem.targets, problem.rows.weights, value[0].copy()
            for number in range(int(problem.fold.max()) + 1):
                train = (problem.fold >= 0) & (problem.fold != number)
                train_weights = None if weights is None else weights[train]
                if train.any():
                    value[0, problem.fold == number] += intercept_shifts(before[train], targets[train], train_weights)
    error = float(np.nanmean(validation.errors_of(values)[1]))
    outputs = np.full((data.rows.n_rows, data.rows.n_outputs), np.nan)
    for problem, value in zip(validation.problems, values, strict=True):
        used = problem.fold >= 0
        outputs[problem.index[used][:, None], problem.outputs] = value[0, used]
    if data.rows.weight_columns > 1:
        solution, _ = _solve_weights(data, data, spec, basis, options, run)
        error = validation.class_error(outputs, basis.vectors, solution)
    if data.whole and data.kept is not None:
        of_kept, outputs = outputs, np.full((data.n_given, outputs.shape[1]), np.nan)
        outputs[data.kept] = of_kept
    return error, outputs


def _solve_weights(
    sample: Data, data: Data, spec: Spec, basis: Basis, options: FixedSize, run: Run
) -> tuple[Solution, int]:
    """Weights on the rows of `data`, and the kernel values spent; each pair of classes on its own.

    Labels of the prototypes, and thresholds, are those of the `sample` in memory.
    """
    labels = None if options.shared_basis else sample.labels
    pairs: Any = class_pairs(spec.n_classes) if data.classifier else []
    settings = options.plan.settings(run.unhurried() if options.plan.refine else run)
    columns = [columns_of(basis, labels, pair) for pair in pairs]
    solution, evaluations = solve_subproblems(data.rows, spec, basis.vectors, columns, settings)
    if options.fewest_errors:
        design = Design(sample.rows, spec.kernel, basis.vectors)
        outputs = design.matvec(solution.weights) + solution.intercept
        moved = solution.intercept + intercept_shifts(outputs, sample.targets, sample.rows.weights)
        solution, evaluations = replace(solution, intercept=moved), evaluations + design.n_kernel_evals
    return solution, evaluations
