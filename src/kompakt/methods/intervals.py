"""Intervals around predictions: conformal regression (Vovk et al. 2005) on outputs of held-out rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kompakt.basis.build import Array, Machine, Plan, outputs_without, solved
from kompakt.data import ArrayRows, row_weights
from kompakt.heldout import Split, folds_by_content, quantile_of_new
from kompakt.losses import LeastSquares, Quantile
from kompakt.methods.steps import held_out_outputs
from kompakt.model import Interval
from kompakt.run import Run
from kompakt.solve import Settings
from kompakt.spec import Data, Spec

#: costs of the noise that are tried, folds over the residuals, and rows without which the noise is not looked for
_COSTS, _FOLDS, _LEAST_ROWS = (0.01, 0.1, 1.0, 10.0), 5, 100
#: the noise is at least this share of its median, so that no interval vanishes
_FLOOR = 0.2
#: arrays of a solution with a column, or an entry, for every output
_OF_OUTPUTS = ("weights", "intercept", "coordinates", "objective", "optimality")
#: the width with the noise, in that without, at which it is worth having
_PAYS = 0.98


def conformal_interval(data: Data, spec: Spec, machine: Machine, plan: Plan, run: Run, level: float) -> Interval | None:
    """How far the targets of rows lie from outputs of machines that never saw them.

    The reach is the quantile of the absolute residuals.  Where that makes intervals narrower, residuals are divided by
    the noise first (Lei et al. 2018, section 5.2): absolute residuals regressed on the machine's own basis vectors, and
    held out themselves.

    Parameters
    ----------
    data : Data
        Rows in memory.
    spec : Spec
        What the machine began with.
    machine : Machine
        Whose vectors the noise is given on.
    plan : Plan
    run : Run
    level : float
        Probability that a new value lies inside.
    """
    if machine.interrupted:
        return None
    index, outputs = held_out_outputs(data, spec, machine, plan, run)
    residuals, weights = np.abs(data.targets[index] - outputs), row_weights(data.rows)[index]
    reach = _reaches(residuals, level, weights)
    if len(index) < _LEAST_ROWS or run.late:
        return Interval(level, reach)

    rows = data.subset(index)
    of_noise = replace(rows, rows=_with_targets(rows.in_memory, residuals))
    noise_spec = replace(machine.spec, loss=LeastSquares(), fit_intercept=True, penalize_intercept=False)
    settings, vectors = Settings(1e-6, 100, run.unhurried()), machine.basis.vectors
    splits = folds_by_content(rows, _FOLDS, run.key)
    unseen = [_noise_without(of_noise, replace(noise_spec, C=C), vectors, splits, settings) for C in _COSTS]
    best = int(np.argmin([np.average(np.sum((residuals - noise) ** 2, axis=1), weights=weights) for noise in unseen]))
    floor = _FLOOR * np.array([quantile_of_new(column, 0.5, weights) for column in residuals.T])
    floor = np.maximum(floor, 1e-300)
    noise = np.maximum(unseen[best], floor)
    scaled_reach = _reaches(residuals / noise, level, weights)
    width = scaled_reach * np.average(noise, axis=0, weights=weights)
    pays = bool(np.mean(width / np.maximum(reach, 1e-300)) < _PAYS)
    run.note("interval", level=level, width=reach.tolist(), width_with_noise=width.tolist(), noise=pays)
    if not pays:
        return Interval(level, reach)
    solution, _ = solved(of_noise.rows, replace(noise_spec, C=_COSTS[best]), vectors, settings)
    return Interval(level, scaled_reach, solution.weights, solution.intercept, floor)


def quantile_weights(data: Data, machine: Machine, levels: tuple[float, ...], plan: Plan, run: Run) -> Machine:
    """The machine with an output for every level, each with weights of its own on the same vectors."""
    settings, solutions = plan.settings(run.unhurried()), []
    for level in levels:
        spec = replace(machine.spec, loss=Quantile(level))
        solutions.append(solved(data.everything.rows, spec, machine.basis.vectors, settings)[0])
    joined: dict[str, Any] = {name: np.hstack([getattr(each, name) for each in solutions]) for name in _OF_OUTPUTS}
    solution = replace(
        solutions[0],
        **joined,
        n_iter=max(each.n_iter for each in solutions),
        converged=all(each.converged for each in solutions),
    )
    return replace(machine, solution=solution)


def _reaches(residuals: Array, level: float, weights: Array) -> Array:
    """The quantile of every column."""
    return np.array([quantile_of_new(column, level, weights) for column in residuals.T])


def _with_targets(rows: ArrayRows, targets: Array) -> ArrayRows:
    changed = rows.subset(np.arange(rows.n_rows))
    changed.targets, changed.n_outputs = targets, targets.shape[1]
    changed.numbers = rows.numbers
    return changed


def _noise_without(data: Data, spec: Spec, vectors: Array, splits: list[Split], settings: Settings) -> Array:
    """The noise at every row, from the residuals of other rows."""
    noise = np.empty(data.targets.shape)
    for train, held in splits:
        rows, unseen = data.rows.subset(train), data.subset(held).in_memory
        noise[held] = outputs_without(rows, unseen, spec, vectors, settings)[0]
    return noise
