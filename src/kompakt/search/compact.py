"""The search of CompactSVC and CompactSVR for C, the starting width and epsilon.

A table of widths and costs is filled with held-out errors of unrefined machines on random rows: the features of a width
serve all costs of a fold, and each cost starts from the solution of the one before.  Held-out errors of few rows are
noisy, so a point is judged together with its neighbours in the table.  Refined machines want a smaller C than plain
ones where rows are many and vectors few; so from some thousand rows on, a few refined machines decide about C.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.ndimage import gaussian_filter
from scipy.sparse import issparse

from kompakt.basis.build import Array, Plan, build
from kompakt.basis.random import RandomSelector
from kompakt.design import Design, FeatureDesign
from kompakt.kernels import Linear, Precomputed
from kompakt.losses import LeastSquares, Quantile, SquaredHinge
from kompakt.run import Run
from kompakt.search.trials import Trials
from kompakt.solve import Problem, Settings, solve
from kompakt.spec import Data, Spec

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
#: plain machines decide about C up to so many rows, unless a refined one is better by more than chance; of refined
#: machines C is at most this, and they are tried on so many splits and rows, in so many iterations
_PLAIN_DECIDE, _REFINED_COST, _REFINED_SPLITS, _REFINED_ROWS, _REFINED_ITER = 2000, 1000.0, 2, 4000, 20


def tune_compact(
    data: Data,
    spec_of: Callable[[dict[str, Any]], Spec],
    gamma: float | None,
    epsilons: list[float | None],
    n_basis: int,
    plan: Plan,
    splits: list[tuple[Array, Array]],
    run: Run,
) -> tuple[Trials, int]:
    """What was tried, by error on held-out rows, and the kernel evaluations spent.

    C goes from 0.1 to 10,000, `gamma` from 1/64 to 16 times that given; None where the kernel has no width.  Errors are
    shares of wrong rows, or for regression shares of the error of a constant.
    """
    limited, trials = run.within(0.5), Trials()
    widths = [None] if gamma is None else [gamma * factor for factor in _WIDTHS]
    axes: list[list[Any]] = [widths, epsilons, _COSTS.tolist()]
    named = partial(dict.fromkeys, ("gamma", "epsilon", "C"))
    table = np.full((*map(len, axes), len(splits)), np.nan)
    seconds = np.zeros(table.shape[:2])
    linear, constant = np.full((len(_COSTS), len(splits)), np.nan), np.full(len(splits), np.nan)
    linear_costs = _COSTS
    first = spec_of(named() | {"gamma": widths[0], "epsilon": epsilons[0], "C": 1.0})
    by_width = sorted(range(len(widths)), key=lambda number: abs(number - 3))  # the most promising first
    has_linear = not isinstance(first.kernel, Linear | Precomputed)
    evaluations, size, share = 0, min(n_basis, _VECTORS), _ROWS // len(splits) // max(1, data.rows.n_outputs // 2)

    with limited.task("search", len(splits) * (len(widths) + has_linear)) as step:
        for number, split in enumerate(splits):
            fold = _Fold(data, first, split, max(share, _LEAST_ROWS), size, run.key + number)
            constant[number] = fold.constant if data.classifier else 1.0
            for width in by_width:
                if number + np.count_nonzero(seconds) and limited.late:
                    trials.stopped = "deadline"
                    break
                began = time.perf_counter()
                settings = [named() | {"gamma": widths[width], "epsilon": epsilon, "C": 1.0} for epsilon in epsilons]
                specs = [spec_of(setting) for setting in settings]
                table[width, ..., number], spent = run.step("evaluation", partial(fold.errors, specs))
                evaluations += spent
                seconds[width] += (time.perf_counter() - began) / len(epsilons)
                if step():  # a listener asks to stop, which is what a deadline does
                    trials.stopped = "deadline"
                    break
            if trials.stopped == "deadline":
                break
            if has_linear:
                linear[:, number], linear_costs, spent = run.step("evaluation", fold.linear_errors)
                evaluations += spent
                step()

    known = ~np.isnan(table)
    counts = known.sum(axis=-1)
    mean = np.where(counts, np.where(known, table, 0.0).sum(axis=-1) / np.maximum(counts, 1), np.nan)
    judged = _smoothed(mean)
    for place in np.ndindex(judged.shape):
        if counts[place]:
            setting = dict(zip(named(), (axis[index] for axis, index in zip(axes, place, strict=True)), strict=True))
            spent_on = float(seconds[place[:2]]) / len(_COSTS)
            trials.add(setting, float(judged[place]), table[place][known[place]], spent_on, model="plain")
    trials.contenders = slice(0, len(trials))
    best = trials.best
    if plan.refine and trials.stopped != "deadline":
        # a very large C makes every descent slow, and its end worse
        best = min((row for row in trials if row.params["C"] <= _REFINED_COST), key=lambda row: row.error)
        few = data.rows.n_rows <= _PLAIN_DECIDE
        near = [best.params | {"C": best.params["C"] * factor} for factor in (1.0, 0.1)]
        usual = [best.params | {"C": cost, "gamma": gamma} for cost in (1.0, 10.0)]
        settings = [near[0], usual[0]] if few else [near[1], usual[0], near[0], usual[1]]
        settings = [setting for k, setting in enumerate(settings) if setting not in settings[:k]]
        own = replace(plan, selector=RandomSelector(), refine_iter=_REFINED_ITER, validation_fraction=0.0)
        inner = limited.inner()
        folds = [
            _Fold(data, first, split, _REFINED_ROWS, size, run.key + number)
            for number, split in enumerate(splits[: _REFINED_SPLITS if few else 1])
        ]

        def refined(setting: dict[str, Any]) -> tuple[list[float], int]:
            errors, spent = [], 0
            for fold in folds:
                machine = build(fold.part, spec_of(setting), size, own, inner)
                design = Design(fold.rest.rows, machine.spec.kernel, machine.basis.vectors, store=False)
                errors.append(fold.error(design.matvec(machine.solution.weights) + machine.solution.intercept))
                spent += machine.n_kernel_evals + design.n_kernel_evals
            return errors, spent

        begun = len(trials)
        with limited.task("search among refined machines", len(settings)) as step:
            for setting in settings:
                if limited.late:
                    trials.stopped = "deadline"
                    break
                began = time.perf_counter()
                found, spent = run.step("evaluation", partial(refined, setting))
                evaluations += spent
                trials.add(setting, float(np.mean(found)), found, time.perf_counter() - began, model="refined")
                if step():
                    trials.stopped = "deadline"
                    break
        if len(trials) > begun:
            trials.contenders = slice(begun, len(trials))
            last = trials.best
            if few:
                # refinement stops early or not at all where rows are few: the plain machine's error stands for it
                plain = best.fold_errors[: len(folds)].mean()
                n_test = sum(len(fold.test_weights) for fold in folds)
                chance = np.sqrt(plain * (1.0 - min(plain, 1.0)) / n_test) if data.classifier else 0.1 * plain
                if last.params == best.params or last.error > plain - chance:
                    trials.contenders = slice(trials.rows.index(best), trials.rows.index(best) + 1)
    if not np.isnan(linear).all():
        known = ~np.isnan(linear).any(axis=0)
        at = int(np.argmin(_smoothed(linear[:, known].mean(axis=1))))
        trials.add(
            named() | {"C": float(linear_costs[at])}, linear[at, known].mean(), linear[at, known], model="linear"
        )
    known = ~np.isnan(constant)
    trials.add(named(), constant[known].mean(), constant[known], model="constant")
    return trials, evaluations


def _smoothed(table: Array) -> Array:
    """Means of neighbours in the table, weighted by a Gaussian; entries that are not known are left out."""
    known = ~np.isnan(table)
    deviations = [0.0 if axis == 1 and table.ndim == 3 else _NEIGHBOURS for axis in range(table.ndim)]
    total = gaussian_filter(np.where(known, table, 0.0), deviations, mode="nearest")
    weight = gaussian_filter(known.astype(np.float64), deviations, mode="nearest")
    return np.where(known, total / np.where(known, weight, 1.0), np.nan)


class _Fold:
    """Rows to train on and rows to test on, and unrefined machines on random vectors."""

    def __init__(self, data: Data, spec: Spec, split: tuple[Array, Array], n_rows: int, n_basis: int, key: int) -> None:
        rng = np.random.default_rng(key)
        train, held = (
            rows if len(rows) <= most else np.sort(rng.permutation(rows)[:most])
            for rows, most in zip(split, (n_rows, _TEST_ROWS), strict=True)
        )
        self.spec, self.part, self.rest = spec, data.subset(train), data.subset(held)
        size = max(1, min(n_basis, len(train) // 2))
        self.vectors = RandomSelector().select(self.part, spec, size, Run(key=key)).vectors.astype(np.float64)
        inputs = [part.rows.take(slice(None)) for part in (self.part, self.rest)]
        self.inputs = [X if issparse(X) else np.asarray(X, dtype=np.float64) for X in inputs]
        self.before: list[Array] | None = None  # distances or products of both against the vectors, for all widths
        self.targets, weights = self.rest.in_memory.targets, self.rest.in_memory.weights
        self.test_weights = np.ones(len(held)) if weights is None else weights.reshape(len(held), -1).max(axis=1)
        self.constant = 1.0
        self.constant = self.error(self._constant()) or 1.0

    def _constant(self) -> Array:
        """Outputs that do not depend on the row: the most frequent class, the mean, the median or the quantile."""
        targets, weights = self.part.in_memory.targets, self.part.in_memory.weights
        assert targets is not None
        assert self.targets is not None
        s = np.ones(len(targets)) if weights is None else weights.reshape(len(targets), -1).max(axis=1)
        if self.part.classifier:
            index = int(np.argmax(np.bincount(self.spec.decode(targets), s)))
            one = targets[self.spec.decode(targets) == index][0]
        elif isinstance(self.spec.loss, LeastSquares):
            one = np.average(targets, axis=0, weights=s)
        else:
            one = np.quantile(targets, getattr(self.spec.loss, "q", 0.5), axis=0)
        return np.broadcast_to(one, self.targets.shape)

    def errors(self, specs: list[Spec]) -> tuple[Array, int]:
        """Errors of every spec (they differ in the loss alone) at every cost, and the kernel evaluations they took."""
        kernel = specs[0].kernel
        if self.before is None:
            self.before = [kernel.pre(X, self.vectors) for X in self.inputs]
        values, U = np.linalg.eigh(kernel.gram(self.vectors))
        kept = values > 1e-8 * max(float(values[-1]), np.finfo(float).tiny)
        whiten = U[:, kept] / np.sqrt(values[kept])
        train, test = (kernel.finish(before.copy()) @ whiten for before in self.before)
        found = [[self.error(out) for out in self._outputs(train, test, spec, _COSTS)] for spec in specs]
        return np.array(found), (len(train) + len(test) + len(U)) * len(U)

    def linear_errors(self) -> tuple[Array, Array, int]:
        """Errors of linear machines, the costs they had, and the kernel evaluations they took."""
        train, test = self.inputs
        evaluations = 0
        if train.shape[1] > _FEATURES or issparse(train):  # as far as the vectors span the inputs
            Q = np.linalg.qr(self.vectors.T)[0]
            train, test = train @ Q, test @ Q
            evaluations = (len(train) + len(test)) * Q.shape[1]
        costs = _COSTS / (float(np.mean(np.sum(train**2, axis=1))) or 1.0)
        outputs = self._outputs(train, test, self.spec, costs)
        return np.array([self.error(out) for out in outputs]), costs, evaluations

    def _outputs(self, train: Array, test: Array, spec: Spec, costs: Array) -> Iterator[Array]:
        """Outputs on the rows to test on for every cost, from features of both parts."""
        y, s = self.part.in_memory.targets, self.part.in_memory.weights
        assert y is not None
        if isinstance(spec.loss, LeastSquares | SquaredHinge):
            path = _ridge_path if isinstance(spec.loss, LeastSquares) else _squared_hinge_path
            if s is not None and s.ndim == 2:
                columns = (path(train, test, y[:, [k]], s[:, k], spec, costs) for k in range(y.shape[1]))
                yield from map(np.hstack, zip(*columns, strict=True))
            else:
                yield from path(train, test, y, np.ones(len(y)) if s is None else s, spec, costs)
            return
        design, theta = FeatureDesign(train, y, s), None
        for cost in costs:
            theta = solve(Problem.of(design, replace(spec, C=float(cost))), theta, Settings(1e-4, 50)).coordinates
            yield test @ theta[:-1] + theta[-1]

    def error(self, outputs: Array) -> float:
        """Share of wrong rows; for regression, of the error that a constant makes, in a loss without epsilon."""
        loss, targets = self.spec.loss, self.targets
        assert targets is not None
        if self.rest.classifier:
            wrong = self.spec.decode(outputs) != self.spec.decode(targets)
            return float(np.average(wrong, weights=self.test_weights))
        errors = (
            loss.value(targets, outputs) if isinstance(loss, LeastSquares | Quantile) else np.abs(targets - outputs)
        )
        return float(np.average(errors.mean(axis=1), weights=self.test_weights)) / self.constant


def _ridge_path(train: Array, test: Array, y: Array, s: Array, spec: Spec, costs: Array) -> Iterator[Array]:
    """Outputs of least-squares machines, all costs from one eigendecomposition."""
    middle, level = np.zeros(train.shape[1]), np.zeros(y.shape[1])
    if spec.fit_intercept and spec.penalize_intercept:
        train, test = (np.column_stack([F, np.ones(len(F))]) for F in (train, test))
        middle = np.zeros(train.shape[1])
    elif spec.fit_intercept:
        middle, level = np.average(train, axis=0, weights=s), np.average(y, axis=0, weights=s)
    centred = train - middle
    values, V = np.linalg.eigh((centred * s[:, None]).T @ centred)
    right = V.T @ (centred.T @ (s[:, None] * (y - level)))
    rotated = (test - middle) @ V
    for cost in costs:
        yield rotated @ (right * (cost / (1.0 + cost * np.maximum(values, 0.0)))[:, None]) + level


def _squared_hinge_path(train: Array, test: Array, y: Array, s: Array, spec: Spec, costs: Array) -> Iterator[Array]:
    """Outputs of squared-hinge machines by Newton's method (Keerthi et al. 2006, section 2.1), costs ascending.

    The Gram matrix of the active rows is kept from step to step and from cost to cost: only rows that enter or leave it
    are summed.
    """
    penalty = np.ones(train.shape[1])
    if spec.fit_intercept:
        train, test = (np.column_stack([F, np.ones(len(F))]) for F in (train, test))
        penalty = np.append(penalty, 1.0 if spec.penalize_intercept else 1e-8)
    L, diagonal = y.shape[1], np.diag_indices(len(penalty))
    weighted = train * s[:, None]
    gram = weighted.T @ train  # at zero every row is active
    grams, rights = [gram.copy() for _ in range(L)], (weighted.T @ y).T.copy()
    active, theta = np.ones((L, len(y)), dtype=bool), np.zeros((len(penalty), L))
    for cost in costs:
        for output in range(L):
            for _ in range(_NEWTON):
                H = cost * grams[output]
                H[diagonal] += penalty
                _, found, info = lapack.dposv(H, cost * rights[output])
                if info:
                    break  # as good as it gets: the last weights serve
                theta[:, output] = found
                now = y[:, output] * (train @ found) < 1.0
                changed = np.flatnonzero(now != active[output])
                if not len(changed):
                    break
                active[output] = now
                if len(changed) > len(now) // 2:
                    grams[output] = weighted[now].T @ train[now]
                    rights[output] = weighted[now].T @ y[now, output]
                else:
                    rows = weighted[changed] * np.where(now[changed], 1.0, -1.0)[:, None]
                    grams[output] += rows.T @ train[changed]
                    rights[output] += rows.T @ y[changed, output]
                if len(changed) <= len(now) // 1000:
                    break
        yield test @ theta
