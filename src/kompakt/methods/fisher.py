"""Kernel Fisher discriminants, on all rows or on few vectors that span them (Franc and Hlavac 2003, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from kompakt.basis.build import Machine, Plan
from kompakt.codings import get_coding
from kompakt.data import Rows
from kompakt.design import Design
from kompakt.heldout import Scorer, Split, fold_splits, pooled, shuffled_folds, splits_of
from kompakt.kernels import Kernel
from kompakt.methods.steps import Fitted, LeftOpen, freeze, refuse_what_cannot_work, resolve_width_and_cost
from kompakt.run import Run
from kompakt.search.fixed_size import tune_width_and_cost
from kompakt.search.widths import SAMPLE_ROWS
from kompakt.solve import fisher
from kompakt.spec import Basis, Data, Selector, Spec
from kompakt.train.data import in_memory, labelled_rows

Array = np.ndarray

#: what C is with reg="scale": the penalty is 1 / C of the mean diagonal entry of the within-class matrix
DEFAULT_C = 100.0


@dataclass(frozen=True)
class Fisher:
    """Options of `fit_fisher`.

    Parameters
    ----------
    kernel : Kernel
    coding : str
    selector : Selector, optional
        Who chooses the vectors; None takes every row.
    n_basis : int
        Number of vectors; without a selector it bounds a sample of streamed rows only.
    left_open : LeftOpen
    reg : float, "scale" or "cv"
        Penalty on the squared multipliers.
    bias : {"gaussian", "midpoint", "search"}
    priors : None, "empirical" or array of shape (n_classes,)
    tune : bool
        Whether penalty and width are those of the lowest cross-validated error.
    cv : int, splitter or list of splits
    """

    kernel: Kernel
    coding: str
    selector: Selector | None
    n_basis: int
    left_open: LeftOpen
    reg: Any = "cv"
    bias: str = "gaussian"
    priors: Any = "empirical"
    tune: bool = False
    cv: Any = 5
    costs: tuple[float, ...] = (1e1, 1e2, 1e3, 1e4, 1e5)  # what reg="cv" tries
    least_rows: int = 100  # different rows that reg="cv" needs


def fit_fisher(data: Data, options: Fisher, run: Run) -> Fitted:
    """Minimise the spread within classes at a given distance of their projected means (eq. 5).

    Parameters
    ----------
    data : Data
    options : Fisher
    run : Run
    """
    spec, plan = _spec(data, options), Plan(refine=False)
    attributes: dict[str, Any] = {}
    trials = None
    refuse_what_cannot_work(data, spec, plan, run)
    data = in_memory(data, options.n_basis, run)

    # width and relative penalty 1 / C
    if options.tune:
        splits = _splits(data, options.cv, run)
        spent: list[int] = []

        def evaluate(kernel: Kernel, costs: Array) -> tuple[Array, Array]:
            errors, fold_errors, evaluations = _held_out_errors(
                data, replace(spec, kernel=kernel), costs, splits, options, run
            )
            spent.append(evaluations)
            return errors, fold_errors

        search = tune_width_and_cost(
            lambda kernel, costs: run.step("evaluation", lambda: evaluate(kernel, costs)), spec.kernel, run=run
        )
        trials, table = search.trials, search.trials.as_dict()
        table["param_reg_factor"] = 1.0 / table.pop("param_C")
        attributes = {"cv_results_": table, "cv_error_": search.error}
        spec, evaluations = replace(spec, kernel=search.kernel, C=search.C), sum(spent)
    else:
        spec, evaluations = resolve_width_and_cost(data, spec, options.left_open, run)
        if isinstance(options.reg, str) and options.reg == "cv":
            spec, spent_on_penalty = _choose_penalty(data, spec, options, run)
            evaluations += spent_on_penalty

    # the basis, from the rows in memory; the moments of the classes, from all rows
    basis, basis_mass = _choose_basis(data, spec, options, run)
    if data.whole or basis_mass is not None:
        rows: Rows = data.rows
        labels, weights, mass, prior_data = data.labels, data.row_weights, None, data
    else:
        prior_data = data.everything
        rows, labels, weights, mass = labelled_rows(prior_data), None, None, prior_data.mass_of
    codes = get_coding(options.coding).codes(spec.n_classes)
    design = Design(rows, spec.kernel, basis.vectors, memory_budget=run.memory_budget)
    moments = fisher.class_moments(design, labels, spec.n_classes, weights, mass)
    if options.tune or isinstance(options.reg, str):
        reg = 1.0 / spec.C * fisher.penalty_scale(moments, codes, basis_mass)
    else:
        reg = float(options.reg)
    solution = fisher.minimise(
        design, labels, codes, reg=reg, weights=weights, bias=options.bias,
        priors=_priors(options.priors, prior_data, weights), basis_mass=basis_mass, mass=mass, moments=moments,
    )  # fmt: skip
    attributes["reg_"] = reg
    run.note("weights", n_basis=basis.n_basis, objective=float(np.sum(solution.objective)), n_iter=1)
    machine = Machine(spec, basis, solution, basis.n_kernel_evals + design.n_kernel_evals)
    return freeze(data, machine, plan, run, n_kernel_evals=evaluations, attributes=attributes, trials=trials)


def _spec(data: Data, options: Fisher) -> Spec:
    return Spec(options.kernel, C=DEFAULT_C, coding=options.coding, n_classes=data.n_classes)


def _choose_basis(data: Data, spec: Spec, options: Fisher, run: Run) -> tuple[Basis, Array | None]:
    """Basis vectors, and the weight of the rows that each stands for (eq. 5), where they stand for all rows."""
    selector = options.selector
    if selector is not None:
        one_spec = replace(spec, C=DEFAULT_C)  # one basis for all penalties
        return run.step("selection", lambda: selector.select(data, one_spec, options.n_basis, run), Basis), None
    _, first, place = np.unique(data.rows.hashes(0), return_index=True, return_inverse=True)
    order = np.argsort(first)
    mass = np.bincount(place, weights=data.row_weights)[order].astype(np.float64)
    distinct = first[order]
    return Basis(distinct, spec.kernel.take_basis(data.rows, distinct)), mass


def _choose_penalty(data: Data, spec: Spec, options: Fisher, run: Run) -> tuple[Spec, int]:
    """Another C than the default where five folds of few rows say that it is better by more than a standard error."""
    sample = data.subset(data.rows.smallest(run.key, SAMPLE_ROWS))  # different rows, by content
    assert sample.labels is not None
    n_rows = sample.rows.n_rows
    fold = np.arange(n_rows) % 5
    spread = [len(np.unique(fold[sample.labels == label])) for label in range(spec.n_classes)]
    if n_rows < options.least_rows or min(spread) < 2:
        return spec, 0  # too little to tell
    splits, costs = fold_splits(fold), np.array(options.costs)
    errors, _, evaluations = _held_out_errors(sample, spec, costs, splits, options, run)
    usual = float(errors[costs == DEFAULT_C][0])
    if errors.min() < usual - np.sqrt(usual * (1.0 - usual) / n_rows):
        spec = replace(spec, C=float(costs[int(np.argmin(errors))]))
    return spec, evaluations


def _held_out_errors(
    data: Data, spec: Spec, costs: Array, splits: list[Split], options: Fisher, run: Run
) -> tuple[Array, Array, int]:
    """Held-out shares of wrong labels (n_C,), those of the folds (n_C, n_folds), and the kernel values spent."""
    weights = data.row_weights
    codes = get_coding(options.coding).codes(spec.n_classes)
    fold_errors, masses, evaluations = np.empty((len(costs), len(splits))), [], 0
    for number, (train, held_out) in enumerate(splits):
        train_data, train_weights = data.subset(train), None if weights is None else weights[train]
        basis, basis_mass = _choose_basis(train_data, spec, options, run)
        design = Design(train_data.rows, spec.kernel, basis.vectors, memory_budget=run.memory_budget)
        moments = fisher.class_moments(design, train_data.labels, spec.n_classes, train_weights)
        scale = fisher.penalty_scale(moments, codes, basis_mass)
        priors = _priors(options.priors, train_data, train_weights)
        solutions = [
            fisher.minimise(
                design, train_data.labels, codes, reg=scale / C, weights=train_weights, bias=options.bias,
                priors=priors, basis_mass=basis_mass, moments=moments,
            )
            for C in costs
        ]  # fmt: skip
        held_out_rows = data.rows.subset(held_out)
        held_out_design = Design(held_out_rows, spec.kernel, basis.vectors, memory_budget=run.memory_budget)
        outputs = held_out_design.matvec(np.concatenate([solution.weights for solution in solutions], axis=1))
        outputs += np.concatenate([solution.intercept for solution in solutions])
        scorer = Scorer.of(data, spec, held_out)
        fold_errors[:, number] = scorer.mean(scorer.row_errors(np.stack(np.split(outputs, len(costs), axis=1))))
        masses.append(scorer.mass)
        evaluations += basis.n_kernel_evals + design.n_kernel_evals + held_out_design.n_kernel_evals
    return pooled(fold_errors, masses), fold_errors, evaluations


def _splits(data: Data, cv: Any, run: Run) -> list[Split]:
    """Rows to train on and rows held out; every class is in every training part."""
    labels = data.labels
    assert labels is not None
    if isinstance(cv, Integral):
        fold = shuffled_folds(data.rows.n_rows, int(cv), labels=labels, random_state=run.key)
        fold[np.bincount(labels)[labels] == 1] = -1  # the only row of its class is always trained on
        return [(train, held_out) for train, held_out in fold_splits(fold) if len(held_out)]
    if not data.whole:
        raise ValueError(f"streamed rows are cut into folds here: cv must be a whole number; got {cv!r}.")
    splits = splits_of(data, cv, run.key)
    for number, (train, _) in enumerate(splits):
        if len(np.unique(labels[train])) <= labels.max():
            raise ValueError(f"split {number} of cv trains on rows that lack a class; expected rows of every class.")
    return splits


def _priors(priors: Any, data: Data, weights: Array | None) -> Array | None:
    """Prior probabilities of the classes for the threshold."""
    if priors is None:
        return None
    if isinstance(priors, str):
        if priors != "empirical":
            raise ValueError(f"priors must be None (equal), 'empirical' or one number per class; got {priors!r}.")
        mass = data.mass_of
        if mass is None or not data.rows.streamed:
            assert data.labels is not None
            mass = np.bincount(data.labels, weights=weights, minlength=data.n_classes)
        return np.asarray(mass / mass.sum())
    numbers = np.asarray(priors, dtype=np.float64)
    if numbers.shape != (data.n_classes,) or not np.all(numbers > 0) or not np.all(np.isfinite(numbers)):
        raise ValueError(
            f"priors must hold {data.n_classes} positive numbers, in the order of the sorted labels; got {priors!r}."
        )
    return np.asarray(numbers / numbers.sum())
