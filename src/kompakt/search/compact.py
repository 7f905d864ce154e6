"""The search of CompactSVC and CompactSVR for C, the starting width and epsilon.

A table of widths and costs is filled with held-out errors of unrefined machines on random rows: the features of a width
serve all costs of a fold, and each cost starts from the solution of the one before.  Held-out errors of few rows are
noisy, so a point is judged together with its neighbours in the table.  Refined machines may want a smaller C than plain
ones, so what the table finds is a setting of the race (`basis/race.py`), beside the usual ones.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.sparse import issparse

from kompakt.basis.build import Array, Plan
from kompakt.basis.random import RandomSelector
from kompakt.basis.refine import smooth
from kompakt.heldout import Scorer, Trials
from kompakt.kernels import Linear, Precomputed
from kompakt.losses import Loss
from kompakt.run import Run
from kompakt.solve.dense import DenseNewton
from kompakt.solve.ridge import RidgePath
from kompakt.spec import Data, Spec

logger = logging.getLogger(__name__)

#: factors of the width that the search starts from, and costs
_WIDTHS = 4.0 ** np.arange(-3, 3)
_COSTS = 10.0 ** np.arange(-1.0, 4.5, 0.5)
#: deviation, in steps of the table, of the Gaussian that weighs a point's neighbours
_NEIGHBOURS = 0.7
#: vectors of the machines in the table, rows that they are trained on (of all splits, but never fewer than the last
#: number in one), and rows that they are tested on
_VECTORS, _ROWS, _LEAST_ROWS, _TEST_ROWS = 100, 8000, 1000, 5000
#: steps of Newton's method at most, and features of a linear machine beyond which it is approximated
_NEWTON, _FEATURES = 15, 200
#: errors that are as good: up to so many standard errors above the lowest
_AS_GOOD = 0.5
#: up to so many rows plain models decide about C unless a refined one is better by more than chance
_PLAIN_DECIDE = 2000
#: largest C of refined models, and splits of a model with twice the vectors
_LARGEST_COST, _SPLITS = 1000.0, 2


@dataclass(frozen=True)
class Tuned:
    """What was tried and chosen, by error on held-out rows, with remarks and the kernel evaluations spent.

    `settings` are those that refined models should race with, the chosen one first.
    """

    trials: Trials
    settings: list[dict[str, Any]]
    remarks: list[str]
    n_kernel_evals: int


def is_quick(loss: Loss) -> bool:
    """Whether models of this loss are solved for all costs together; the search tries fewer of the others."""
    return loss.squares_active_rows


def tune_compact(
    data: Data,
    spec_of: Callable[[dict[str, Any]], Spec],
    gamma: float | None,
    epsilons: list[float | None],
    n_basis: int | None,
    plan: Plan,
    splits: list[tuple[Array, Array]],
    run: Run,
) -> Tuned:
    """Search C from 0.1 to 10,000, `gamma` from 1/64 to 16 times that given (None: no width), and epsilon.

    `n_basis` None says that the number of vectors will be chosen afterwards.
    Errors are shares of wrong rows, or for regression shares of the error of a constant.  Besides unrefined models
    ("plain") the table has one with twice the vectors ("larger"), a "linear" one and a "constant".
    """
    trials, limited = Trials(), run.within(0.5)
    costs = _COSTS if is_quick(spec_of({"gamma": gamma, "epsilon": epsilons[0], "C": 1.0}).loss) else _COSTS[::2]
    axes: dict[str, list[Any]] = {
        "gamma": [None] if gamma is None else [gamma * factor for factor in _WIDTHS],
        "epsilon": epsilons,
        "C": costs.tolist(),
    }
    size, n_splits = min(n_basis or _VECTORS, _VECTORS), len(splits)
    specs = [[spec_of({"gamma": width, "epsilon": e, "C": 1.0}) for e in epsilons] for width in axes["gamma"]]
    first = specs[0][0]
    n_rows = max(_LEAST_ROWS, _ROWS // n_splits // max(1, data.rows.n_outputs // 2))
    table = np.full((*map(len, axes.values()), n_splits), np.nan)
    seconds = np.zeros(len(specs))
    linear, linear_costs = np.full((n_splits, len(costs)), np.nan), costs
    constant: list[float] = []
    n_test = evaluations = 0
    has_linear = not isinstance(first.kernel, Linear | Precomputed)
    with limited.task("search", n_splits * (len(specs) + has_linear)) as step:
        for number, split in enumerate(splits):
            fold = _Fold(data, first, split, n_rows, size, run.key + number)
            constant.append(fold.constant if data.classifier else 1.0)
            n_test += len(fold.scorer.weights)
            for width in sorted(range(len(specs)), key=lambda width: abs(width - 3)):  # the most promising first
                if seconds.any() and limited.late:
                    trials.stopped = "deadline"
                    break
                began = time.perf_counter()
                table[width, ..., number], spent = run.step("evaluation", partial(fold.errors, specs[width], costs))
                seconds[width] += time.perf_counter() - began
                evaluations += spent
                if step():  # a listener asks to stop, which is what a deadline does
                    trials.stopped = "deadline"
                    break
            if trials.stopped == "deadline":
                break
            if has_linear:
                linear[number], linear_costs, spent = run.step("evaluation", partial(fold.linear_errors, costs))
                evaluations += spent
                step()
    is_known = ~np.isnan(table)
    counts = is_known.sum(axis=-1)
    judged = _smoothed(np.where(is_known, table, 0.0).sum(axis=-1) / np.maximum(counts, 1), counts > 0)
    for place in zip(*np.nonzero(counts), strict=True):
        setting = {name: axis[index] for (name, axis), index in zip(axes.items(), place, strict=True)}
        time_each = float(seconds[place[0]]) / table[0, ..., 0].size
        trials.add(setting, float(judged[place]), table[place][is_known[place]], time_each, model="plain")
    for tried in dict.fromkeys(row.params.get("gamma") for row in trials):
        row = min((row for row in trials if row.params.get("gamma") == tried), key=lambda row: row.error)
        chosen = ", ".join(f"{name} {value:.4g}" for name, value in row.params.items() if value is not None)
        logger.info("search: %s, the best C of this width: held-out error %.4g", chosen, row.error)

    def chance(error: float, n_rows: int) -> float:
        """How much an error on so many held-out rows may differ by chance."""
        return float(np.sqrt(error * (1.0 - error) / n_rows)) if data.classifier else 0.1 * error

    # a very large C makes every descent slow, and its end worse
    rows = [row for row in trials if not plan.refine or row.params["C"] <= _LARGEST_COST]
    best = lowest_plain = min(rows, key=lambda row: row.error)
    has_few_rows = data.rows.n_rows <= _PLAIN_DECIDE
    if data.classifier and has_few_rows and n_basis is not None:
        # shares of wrong rows are coarse: the least C that is as good, unless a smaller model will want a larger one
        enough = best.error + _AS_GOOD * chance(best.error, n_test)
        best = min((row for row in rows if row.error <= enough), key=lambda row: (row.params["C"], row.error))
    kind = "the least C that is as good as the best" if best is not lowest_plain else "the lowest error"
    over = "one held-out part" if n_splits == 1 else f"{n_splits} folds"
    trials.choose(best, f"{kind} of {len(trials):,} unrefined models over {over}, each judged with its neighbours.")
    # refined machines may want a smaller C, and learn their widths from any start: a race decides
    usual = [best.params | {"gamma": gamma, "C": cost} for cost in (1.0, 10.0)]
    settings = [best.params, *usual]
    settings = [setting for k, setting in enumerate(settings) if setting not in settings[:k]]
    larger = np.nan
    if trials.stopped != "deadline" and 2 * size <= min(len(train) for train, _ in splits) // 2 and not limited.late:
        spec = spec_of(best.params)
        errors: list[float] = []
        for number, split in enumerate(splits[:_SPLITS]):
            fold = _Fold(data, first, split, n_rows, 2 * size, run.key + number)
            of_fold, spent = run.step("evaluation", partial(fold.errors, [spec], [spec.C]))
            evaluations, errors = evaluations + spent, [*errors, float(of_fold[0, 0])]
        larger = float(np.mean(errors))
        trials.add(best.params, larger, errors, model="larger")
    error = best.mean
    remarks = []
    if trials.stopped == "deadline":
        remarks.append(f"the time limit ended the search after {is_known.sum():,} of its models.")
    if not np.isnan(linear).all():
        finished = linear[~np.isnan(linear).any(axis=1)]
        at = int(np.argmin(_smoothed(finished.mean(axis=0), np.ones(len(costs), dtype=bool))))
        setting = {"gamma": None, "epsilon": best.params["epsilon"], "C": float(linear_costs[at])}
        trials.add(setting, float(finished[:, at].mean()), finished[:, at], model="linear")
        if trials.rows[-1].error <= error + chance(error, n_test):
            remarks.append(
                f"a linear model is as good: held-out error {trials.rows[-1].error:.4g} against {error:.4g}."
            )
    before = float(np.mean(best.fold_errors[:_SPLITS]))
    if larger < min(error, before) - chance(before, sum(len(held) for _, held in splits[:_SPLITS])):
        remarks.append(
            f"more vectors would help: {2 * size} instead of {size}, unrefined, lower the held-out error from "
            f"{before:.4g} to {larger:.4g}."
        )
    elif larger < error:
        remarks.append(f"{2 * size} vectors, unrefined, have {larger:.4g}, which is not lower by more than chance.")
    trials.add(dict.fromkeys(axes), float(np.mean(constant)), constant, model="constant")
    if trials.rows[-1].error <= error + chance(error, n_test):
        remarks.append(f"a constant is as good: held-out error {trials.rows[-1].error:.4g} against {error:.4g}.")
    return Tuned(trials, settings if plan.refine else settings[:1], remarks, evaluations)


def _smoothed(table: Array, is_known: Array) -> Array:
    """Means of neighbours along widths and costs, the first and the last axis, of the entries that are known."""
    deviations = [_NEIGHBOURS if axis in (0, table.ndim - 1) else 0.0 for axis in range(table.ndim)]
    total = gaussian_filter(np.where(is_known, table, 0.0), deviations, mode="nearest")
    weight = gaussian_filter(is_known.astype(np.float64), deviations, mode="nearest")
    return np.asarray(total / np.where(is_known, weight, 1.0))


class _Fold:
    """Rows to train on and rows to test on, and unrefined machines on random vectors."""

    def __init__(self, data: Data, spec: Spec, split: tuple[Array, Array], n_rows: int, n_basis: int, key: int) -> None:
        rng = np.random.default_rng(key)
        train, held = (
            rows if len(rows) <= limit else np.sort(rng.permutation(rows)[:limit])
            for rows, limit in zip(split, (n_rows, _TEST_ROWS), strict=True)
        )
        self.spec, self.part, self.rest = spec, data.subset(train), data.subset(held)
        size = max(1, min(n_basis, len(train) // 2))
        self.vectors = RandomSelector().select(self.part, spec, size, Run(key=key)).vectors.astype(np.float64)
        self.before: list[Array] | None = None  # distances or products of both against the vectors, for all widths
        self.scorer, self.constant = Scorer.of(data, spec, held, spec.loss.held_out), 1.0
        self.constant = self.error(self._constant()) or 1.0

    @cached_property
    def inputs(self) -> list[Any]:
        """The rows to train on and those to test on."""
        inputs = [data.rows.take(slice(None)) for data in (self.part, self.rest)]
        return [X if issparse(X) else np.asarray(X, dtype=np.float64) for X in inputs]

    def _constant(self) -> Array:
        """Outputs that do not depend on the row: the most frequent class, the mean, the median or the quantile."""
        targets, weights = self.part.targets, self.part.row_weights
        s = np.ones(len(targets)) if weights is None else weights
        if self.part.classifier:
            index = int(np.argmax(np.bincount(self.spec.decode(targets), s)))
            constant = targets[self.spec.decode(targets) == index][0]
        else:
            constant = self.spec.loss.best_constant(targets, s)
        return np.broadcast_to(constant, self.rest.targets.shape)

    def errors(self, specs: list[Spec], costs: Any) -> tuple[Array, int]:
        """Errors of every spec (they differ in the loss alone) at every cost, and the kernel evaluations they took."""
        kernel = specs[0].kernel
        if self.before is None:
            self.before = [kernel.pre(X, self.vectors) for X in self.inputs]
        values, U = np.linalg.eigh(kernel.gram(self.vectors))
        kept = values > 1e-8 * max(float(values[-1]), np.finfo(float).tiny)
        whiten = U[:, kept] / np.sqrt(values[kept])
        train, test = (kernel.finish(before.copy()) @ whiten for before in self.before)
        errors = [[self.error(out) for out in self._outputs(train, test, spec, costs)] for spec in specs]
        return np.array(errors), (len(train) + len(test) + len(U)) * len(U)

    def linear_errors(self, costs: Array) -> tuple[Array, Array, int]:
        """Errors of linear machines, the costs they had, and the kernel evaluations they took."""
        train, test = self.inputs
        evaluations = 0
        if train.shape[1] > _FEATURES or issparse(train):  # as far as the vectors span the inputs
            Q = np.linalg.qr(self.vectors.T)[0]
            train, test = train @ Q, test @ Q
            evaluations = (len(train) + len(test)) * Q.shape[1]
        costs = costs / (float(np.mean(np.sum(train**2, axis=1))) or 1.0)
        outputs = self._outputs(train, test, self.spec, costs)
        return np.array([self.error(out) for out in outputs]), costs, evaluations

    def _outputs(self, train: Array, test: Array, spec: Spec, costs: Array) -> Iterator[Array]:
        """Outputs on the rows to test on for every cost, from features of both parts."""
        y, s = self.part.targets, self.part.rows.weights
        if not spec.loss.quadratic:
            # kinks are rounded, as for a descent
            loss = smooth(spec.loss, self.part.in_memory)
            yield from _newton_path(train, test, y, s, replace(spec, loss=loss), costs)
        elif s is not None and s.ndim == 2:
            columns = (_ridge_path(train, test, y[:, [k]], s[:, k], spec, costs) for k in range(y.shape[1]))
            yield from map(np.hstack, zip(*columns, strict=True))
        else:
            yield from _ridge_path(train, test, y, np.ones(len(y)) if s is None else s, spec, costs)

    def error(self, outputs: Array) -> float:
        """Share of wrong rows; for regression, of the error that a constant makes, in a loss without epsilon."""
        error = float(self.scorer.mean(self.scorer.row_errors(outputs)))
        return error if self.scorer.labels is not None else error / self.constant


def _ridge_path(train: Array, test: Array, y: Array, s: Array, spec: Spec, costs: Array) -> Iterator[Array]:
    """Outputs of least-squares machines, all costs from one eigendecomposition."""
    middle, level = np.zeros(train.shape[1]), np.zeros(y.shape[1])
    if spec.fit_intercept and spec.penalize_intercept:
        train, test = (np.column_stack([F, np.ones(len(F))]) for F in (train, test))
        middle = np.zeros(train.shape[1])
    elif spec.fit_intercept:
        middle, level = np.average(train, axis=0, weights=s), np.average(y, axis=0, weights=s)
    centred = train - middle
    path = RidgePath.of((centred * s[:, None]).T @ centred)
    right = path.rotation.T @ (centred.T @ (s[:, None] * (y - level)))
    rotated = (test - middle) @ path.rotation
    for cost in costs:
        yield rotated @ (right / path.normal(1.0 / cost)[:, None]) + level


def _newton_path(
    train: Array, test: Array, y: Array, s: Array | None, spec: Spec, costs: Array
) -> Iterator[Array]:
    """Outputs of machines by Newton's method; each cost starts from the solution of the one before."""
    machine = DenseNewton.on_features(
        train, y, s, spec.loss, float(costs[0]), spec.fit_intercept, float(spec.penalize_intercept)
    )
    for before, cost in zip([costs[0], *costs], costs, strict=False):
        machine.scale_cost(float(cost / before))
        machine.retrain(0.0, _NEWTON)
        theta = machine.coordinates
        yield test @ theta[:-1] + theta[-1]
