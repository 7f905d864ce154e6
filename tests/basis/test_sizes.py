"""Cross-validated size and grid: side by side equals one after the other."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.basis.naive import data, machine_for

from kompakt.basis.columns import KernelColumns
from kompakt.basis.forward import Growth, GrowthPlan, training_weights
from kompakt.basis.sizes import best_point, fold_errors, grow_batch, size_errors, stream_of, tune_grid
from kompakt.data import ArrayRows
from kompakt.heldout import resolve_splits
from kompakt.kernels import RBF
from kompakt.losses import HuberHinge, LeastSquares, SquaredHinge
from kompakt.parallel import block_threads
from kompakt.run import Run
from kompakt.solve import line_search
from kompakt.spec import Data, Spec


class Problem:
    """Rows of two classes, what is minimised, how to grow, and three folds."""

    def __init__(self, loss=None, intercept=False, X=None, y=None, weights=None, **plan):
        if X is None:
            X, y, weights = data(90)
        labels = (y[:, 0] > 0).astype(int)
        self.data = Data(ArrayRows(X, y, weights), classes=np.array([0, 1]), labels=labels)
        self.spec = Spec(RBF(0.5), loss or SquaredHinge(), 3.0, intercept, n_classes=2)
        self.plan = GrowthPlan(8, n_candidates=6, retraining="always", tol=1e-10, run=Run(key=4), **plan)
        self.splits = resolve_splits(3, labels, stratify=True, random_state=0)

    def fold_errors(self, fold, other=None, **spec):
        at = self.data if other is None else other
        spec = replace(self.spec, **spec)
        columns = KernelColumns(at.rows, spec.kernel)
        return fold_errors(at, spec, self.plan, stream_of(at, self.plan), self.splits[fold], columns)

    def tune(self, kernels, C, *, run=None, plus_one=True):
        plan = self.plan if run is None else replace(self.plan, run=run)
        return tune_grid(self.data, self.spec, plan, self.splits, kernels, C, plus_one=plus_one)


@pytest.mark.parametrize("loss", [SquaredHinge(), HuberHinge(0.8), LeastSquares()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("intercept", "score_rows"), [(True, "active"), (False, "active"), (False, "all")])
def test_machines_side_by_side_are_the_machines_alone(monkeypatch, loss, intercept, score_rows, compiled):
    if not compiled:
        monkeypatch.setattr(line_search, "compiled", lambda: None)
    at = Problem(loss, intercept, score_rows=score_rows)
    X, y = at.data.rows.X, at.data.rows.targets
    kernel = RBF(0.5) if intercept else 1 + RBF(0.5)
    C = np.array([0.1, 3.0, 50.0])
    streams = [stream_of(at.data, at.plan).within(np.sort(train)) for train, _ in at.splits]
    weights = np.stack([training_weights(at.data.rows, train) for train, _ in at.splits])
    stream = stream_of(at.data, at.plan)
    together = grow_batch(at.data, at.spec, at.plan, at.splits, stream, kernel.gram(X), C)
    for fold in range(3):
        for c, cost in enumerate(C):
            machine = machine_for(X, y, kernel, loss, cost, weights[fold], fit_intercept=intercept)
            alone = []

            def note(machine, alone=alone):
                machine.retrain(1e-11, thorough=True)
                alone.append(machine.f[0].copy())
                return {}

            Growth(machine, streams[fold], at.plan, note).grow()
            # the last state is noted twice: after its step and after the end
            assert_allclose(together[:, c, fold], alone[:8], atol=2e-6)


def test_held_out_rows_have_no_influence():
    at = Problem()
    errors = at.fold_errors(0)
    other = at.data.rows.targets.copy()
    other[at.splits[0][1]] *= -1
    turned = replace(at.data, rows=ArrayRows(at.data.rows.X, other, at.data.rows.weights))
    assert np.array_equal(at.fold_errors(0, turned)[0], errors[0])
    assert errors.shape == (2, 8)


def test_tuning_is_the_same_by_every_road():
    at = Problem()
    kernels, C = [RBF(g) for g in (0.1, 1.0, 5.0)], np.array([0.1, 1.0, 10.0])
    together, losses = at.tune(kernels, C)
    recomputed, _ = at.tune(kernels, C, run=Run(key=4, memory_budget=100_000))  # less than the kernel matrices take
    by_matrix, _ = at.tune(kernels, C, run=Run(key=4, deadline=np.inf))  # such machines are grown one by one
    with block_threads(3):
        threads, _ = at.tune(kernels, C)
    assert np.array_equal(threads, together)
    # a prediction within rounding of zero may fall on either side
    assert_allclose(recomputed, together, atol=0.012)
    assert_allclose(by_matrix, together, atol=0.012)
    assert np.mean(recomputed != together) < 0.1
    kernel, cost, size = best_point(together, losses)
    assert together[kernel, cost, size - 1] == together.min()


def test_sizes_agree_with_the_grid():
    at = Problem()
    spec = replace(at.spec, kernel=1 + RBF(1.0), C=1.0)
    errors = size_errors(at.data, spec, at.plan, at.splits)
    tuned, _ = at.tune([RBF(1.0)], np.array([1.0]))
    assert errors.shape == (8,)
    assert_allclose(errors, tuned[0, 0], atol=0.012)
    by_fold = np.stack([at.fold_errors(fold, kernel=spec.kernel, C=1.0)[0] for fold in range(3)], axis=1)
    weights = [at.data.rows.weights[held].sum() for _, held in at.splits]
    assert_allclose(errors, by_fold @ weights / np.sum(weights), rtol=1e-12)


def test_ties_go_to_the_smaller_size():
    errors = np.full((2, 2, 3), 0.5)
    errors[1, 0, 2] = errors[0, 1, 1] = errors[1, 1, 1] = 0.25
    losses = np.ones((2, 2, 3))
    losses[0, 1, 1] = 0.9
    assert best_point(errors, losses) == (0, 1, 2)


def test_the_smallest_size_within_the_tolerance_of_the_lowest_error():
    errors = np.full((2, 2, 4), 0.5)
    errors[0, 0, 3], errors[0, 1, 2], errors[1, 0, 1], errors[1, 1, 1] = 0.25, 0.255, 0.259, 0.258
    losses = np.ones((2, 2, 4))
    assert best_point(errors, losses) == (0, 0, 4)
    assert best_point(errors, losses, 0.006) == (0, 1, 3)
    assert best_point(errors, losses, 0.01) == (1, 1, 2)


def test_sizes_that_cannot_be_reached_are_not_picked():
    X = np.repeat(np.eye(3), 20, axis=0)
    at = Problem(X=X, y=np.where(np.arange(60) % 2, 1.0, -1.0)[:, None])
    errors, losses = at.tune([RBF(1.0)], np.array([1.0]), plus_one=False)
    assert np.all(np.isinf(errors[0, 0, 3:]))
    assert best_point(errors, losses)[2] <= 3
