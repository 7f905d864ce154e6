"""Novelty detection: the one-class support vector machine of Schoelkopf et al. (2001) on few vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sklearn.metrics import roc_auc_score

from kompakt.basis.build import Array, Machine, Plan, choose, outputs_without, weigh
from kompakt.data import row_weights
from kompakt.heldout import Trials, folds_by_content, quantile_of_new
from kompakt.methods.steps import (
    Fitted,
    freeze,
    held_out_outputs,
    outputs_of,
    refine,
    refuse_what_cannot_work,
    solve_on_all_rows,
)
from kompakt.run import Run
from kompakt.solve import Settings
from kompakt.spec import Data, Spec
from kompakt.train.data import in_memory


@dataclass(frozen=True)
class Novelty:
    """Options of `fit_novelty`.

    Parameters
    ----------
    spec : Spec
        What is minimised: a hinge loss without intercept.
    plan : Plan
        Who chooses the vectors, how they are refined, and when solvers stop.
    n_basis : int
        Number of vectors.
    nu : float
        Share of false alarms among new, normal rows.
    width_is_open, cost_is_open : bool
        Whether the kernel's width and C are left to the data.
    """

    spec: Spec
    plan: Plan
    n_basis: int
    nu: float
    width_is_open: bool = False
    cost_is_open: bool = False
    #: gamma in units of "scale", and C times the mass of the rows, where no outlier is marked: the best of those tried
    #: on 16 sets with 20 vectors (benchmarks.novelty --rules)
    width: float = 6.0
    cost: float = 100.0
    #: what is tried where outliers are marked
    widths: tuple[float, ...] = (1.0, 2.5, 6.0, 15.0)
    costs: tuple[float, ...] = (10.0, 100.0, 1000.0)
    n_folds: int = 5
    n_threshold_folds: int = 10  # nearly all rows train, as in the machine itself
    #: below so many rows moved vectors depend on single ones, so folds need vectors of their own, not only weights; and
    #: the most scores that set the threshold
    few_rows: int = 1000
    most_scores: int = 50_000
    fewest_outliers: int = 5  # one in every fold
    most_rows_to_choose: int = 5000


def fit_novelty(data: Data, options: Novelty, run: Run) -> Fitted:
    """Choose vectors, move them, solve for the weights on all rows, and put the threshold where held-out rows say.

    The one-class SVM (eq. 4) minimises 1/2 |w|^2 - rho + 1 / (nu n) sum_i max(0, rho - f(x_i)).  Divided by rho, which
    only scales f, that is 1/2 |w|^2 + C sum_i max(0, 1 - f(x_i)): a support vector machine without intercept whose rows
    are all of the class +1, and C = 1 / (nu n rho).  So every loss, solver and selector of classes serves it.  Rows
    that are marked as outliers are of the class -1.

    With the width free the objective has its minimum at a constant, so only the vectors are moved, never the metric.

    Parameters
    ----------
    data : Data
        Targets are +1, or -1 for marked outliers.
    options : Novelty
    run : Run
    """
    spec, plan, trials = options.spec, options.plan, None
    refuse_what_cannot_work(data, spec, plan, run)
    data = in_memory(data, options.n_basis, run)
    is_normal = data.targets[:, 0] > 0

    # the width and C
    kernel = spec.kernel.scaled(options.width) if options.width_is_open else spec.kernel
    spec = replace(spec, kernel=kernel, C=options.cost / data.rows.mass if options.cost_is_open else spec.C)
    is_open = options.width_is_open or options.cost_is_open
    if is_open and min(is_normal.sum(), np.sum(~is_normal)) >= options.fewest_outliers:
        trials = _choose_by_outliers(data, options, run)
        spec = replace(spec, kernel=options.spec.kernel.scaled(trials.best.more["factor"]), C=trials.best.params["C"])

    # which vectors, how far they move, and their weights
    basis = choose(data, spec, options.n_basis, plan, run)
    machine, _ = refine(data, weigh(data, spec, basis, plan, run), plan, run)

    # the threshold: a new row scores less with probability nu
    index, outputs = np.arange(data.rows.n_rows), None
    if not machine.interrupted and machine.refined and data.rows.n_rows < options.few_rows:
        index, outputs = held_out_outputs(data, spec, machine, plan, run)
    elif not machine.interrupted:
        index, outputs = _scores_without(data, machine, options, run)
    machine = solve_on_all_rows(data, machine, plan, run)
    normal = index[is_normal[index]]
    seen = outputs_of(data.subset(normal), machine)[:, 0]
    scores, weights = seen if outputs is None else outputs[is_normal[index], 0], row_weights(data.rows)[normal]
    # fewer rows have a smaller sum of losses, so machines that did not see a row score less by a factor
    usual, usual_unseen = (quantile_of_new(values, 0.5, weights) for values in (seen, scores))
    scores = scores * (usual / usual_unseen) if usual_unseen > 0 else seen
    offset = -quantile_of_new(-scores, 1.0 - options.nu, weights)
    fitted = freeze(data, machine, plan, run, attributes={"offset_": offset}, trials=trials)
    return replace(fitted, model=replace(fitted.model, kind="outlier", intercept=np.array([-offset])))


def _scores_without(data: Data, machine: Machine, options: Novelty, run: Run) -> tuple[Array, Array]:
    """Rows, and their scores with the machine's vectors and the weights of the other rows."""
    settings, outputs = Settings(1e-6, 100, run.unhurried()), []
    splits = folds_by_content(data, options.n_threshold_folds, run.key)
    splits = splits[: max(1, options.n_threshold_folds * options.most_scores // data.rows.n_rows)]
    for train, held in splits:
        rows, unseen = data.rows.subset(train), data.subset(held).in_memory
        outputs.append(outputs_without(rows, unseen, machine.spec, machine.basis.vectors, settings)[0])
    if not splits:  # rows that are all the same
        return np.arange(data.rows.n_rows), outputs_of(data, machine)
    return np.concatenate([held for _, held in splits]), np.concatenate(outputs)


def _choose_by_outliers(data: Data, options: Novelty, run: Run) -> Trials:
    """Width and C by the area under the ROC curve of held-out rows, under unrefined machines."""
    spec, trials = options.spec, Trials(measure="one minus the area under the ROC curve")
    outliers = (data.targets[:, 0] < 0).astype(np.intp)
    n_sampled = min(data.rows.n_rows, options.most_rows_to_choose)
    sampled = np.union1d(np.flatnonzero(outliers), data.rows.smallest(run.key, n_sampled, repeated=True))
    labels = outliers[sampled]
    sample = replace(data.subset(sampled), labels=labels)  # folds that spread outliers evenly
    splits, weights = folds_by_content(sample, options.n_folds, run.key), row_weights(sample.rows)
    settings = Settings(1e-6, 100, run.unhurried())
    plan = replace(options.plan, refine=False)
    mass = data.rows.mass
    widths = options.widths if options.width_is_open else (1.0,)
    costs = [cost / mass for cost in options.costs] if options.cost_is_open else [spec.C]
    for factor in widths:
        kernel, outputs = spec.kernel.scaled(factor), np.empty((len(costs), len(sampled)))
        for train, held in splits:
            part, other = sample.subset(train), sample.subset(held)
            start = replace(spec, kernel=kernel, C=costs[len(costs) // 2])
            with run.quietly():
                vectors = choose(replace(part, labels=None), start, options.n_basis, plan, run).vectors
            for number, cost in enumerate(costs):
                scores, _ = outputs_without(part.rows, other.in_memory, replace(start, C=cost), vectors, settings)
                outputs[number, held] = scores[:, 0]
        for cost, scores in zip(costs, outputs, strict=True):
            areas = [
                roc_auc_score(1 - labels[held], scores[held], sample_weight=weights[held]) for _, held in splits
            ]
            gamma = getattr(kernel, "gamma", np.nan)
            setting = {"C": cost, "gamma": float(gamma) if np.ndim(gamma) == 0 else np.nan}
            trials.add(setting, 1.0 - float(np.mean(areas)), 1.0 - np.array(areas), factor=factor, model="plain")
    # many settings may tell all outliers: of those as good as the best, the one nearest to the rule
    best = trials.best
    as_good = [trial for trial in trials if trial.error <= best.error + best.deviation / np.sqrt(len(splits))]
    rule = np.log([options.width, options.cost / mass])
    nearest = min(as_good, key=lambda trial: np.abs(np.log([trial.more["factor"], trial.params["C"]]) - rule).sum())
    trials.choose(nearest, f"of {len(as_good)} settings as good as the best of {len(trials)}, the most usual one.")
    run.note("tuning", **trials.best.params, error=trials.best.error)
    return trials
