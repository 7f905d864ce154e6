"""Cross-validated size and grid: side by side equals one after the other."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.basis.naive import data, machine_for

from kompakt.basis import growing
from kompakt.basis.forward import GrowthPlan, grow
from kompakt.basis.sizes import SizeProblem, Tuned, fold_errors, grow_batch, size_errors, tune_grid
from kompakt.data import ArrayRows, hash_rows
from kompakt.kernels import RBF
from kompakt.losses import HuberHinge, LeastSquares, SquaredHinge
from kompakt.parallel import block_threads
from kompakt.validation import resolve_splits


def problem(loss=None, n=90, intercept=False, **plan):
    X, y, s = data(n)
    labels = (y[:, 0] > 0).astype(int)
    return SizeProblem(
        rows=ArrayRows(X, y, s),
        labels=labels,
        decide=lambda F: (F[:, 0] > 0).astype(int),
        hashes=hash_rows(X, 4),
        key=4,
        splits=resolve_splits(3, labels, classifier=True, random_state=0),
        loss=loss or SquaredHinge(),
        plan=GrowthPlan(8, n_candidates=6, retraining="always", tol=1e-10, **plan),
        options={"fit_intercept": intercept, "penalize_intercept": False, "memory_budget": None},
    )


@pytest.mark.parametrize("loss", [SquaredHinge(), HuberHinge(0.8), LeastSquares()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("intercept", "score_rows"), [(True, "active"), (False, "active"), (False, "all")])
def test_machines_side_by_side_are_the_machines_alone(monkeypatch, loss, intercept, score_rows, compiled):
    if not compiled:
        monkeypatch.setattr(growing, "compiled", lambda: None)
    at = problem(loss, intercept=intercept, score_rows=score_rows)
    X, y = at.rows.X, at.rows.targets
    kernel = RBF(0.5) if intercept else 1 + RBF(0.5)
    C = np.array([0.1, 3.0, 50.0])
    streams = [at.stream(fold) for fold in range(3)]
    candidates = np.array([[stream.draw(step, 6, set()) for step in range(8)] for stream in streams])
    weights = np.stack([at.weights(fold) for fold in range(3)])
    options = {"fit_intercept": intercept, "score_rows": score_rows}
    together = grow_batch(kernel.gram(X), y[:, 0], weights, C, candidates, loss, **options)
    for fold in range(3):
        for c, cost in enumerate(C):
            machine = machine_for(X, y, kernel, loss, cost, weights[fold], fit_intercept=intercept)
            alone = []

            def note(machine, alone=alone):
                machine.retrain(1e-11, thorough=True)
                alone.append(machine.f[0].copy())
                return {}

            grow(machine, streams[fold], at.plan, note)
            # the last state is noted twice: after its step and after the end
            assert_allclose(together[:, fold, c], alone[:8], atol=2e-6)


def test_held_out_rows_have_no_influence():
    at = problem()
    errors = fold_errors(at, RBF(0.5), 3.0, 0)
    other = at.rows.targets.copy()
    held = at.splits[0][1]
    other[held] *= -1
    turned = replace(at, rows=ArrayRows(at.rows.X, other, at.rows.weights))
    assert np.array_equal(fold_errors(turned, RBF(0.5), 3.0, 0)[0], errors[0])
    assert errors.shape == (2, 8)


def test_tuning_is_the_same_by_every_road():
    at = problem()
    kernels, C = [RBF(g) for g in (0.1, 1.0, 5.0)], np.array([0.1, 1.0, 10.0])
    together = tune_grid(at, kernels, C, plus_one=True, memory_budget=1 << 30)
    recomputed = tune_grid(at, kernels, C, plus_one=True, memory_budget=1)
    timed = replace(at, plan=replace(at.plan, deadline=np.inf))  # such machines are grown one by one
    by_matrix = tune_grid(timed, kernels, C, plus_one=True, memory_budget=1 << 30)
    with block_threads(3):
        threads = tune_grid(at, kernels, C, plus_one=True, memory_budget=1 << 30)
    assert np.array_equal(threads.errors, together.errors)
    # a prediction within rounding of zero may fall on either side
    assert_allclose(recomputed.errors, together.errors, atol=0.012)
    assert_allclose(by_matrix.errors, together.errors, atol=0.012)
    assert np.mean(recomputed.errors != together.errors) < 0.1
    best = together.errors[together.kernel, together.C, together.n_basis - 1]
    assert best == together.errors.min()


def test_sizes_agree_with_the_grid():
    at = problem()
    errors = size_errors(at, 1 + RBF(1.0), 1.0)
    tuned = tune_grid(at, [RBF(1.0)], np.array([1.0]), plus_one=True, memory_budget=1 << 30)
    assert errors.shape == (8,)
    assert_allclose(errors, tuned.errors[0, 0], atol=0.012)
    by_fold = np.stack([fold_errors(at, 1 + RBF(1.0), 1.0, fold)[0] for fold in range(3)], axis=1)
    weights = [at.rows.weights[held].sum() for _, held in at.splits]
    assert_allclose(errors, by_fold @ weights / np.sum(weights), rtol=1e-12)


def test_ties_go_to_the_smaller_size():
    errors = np.full((2, 2, 3), 0.5)
    errors[1, 0, 2] = errors[0, 1, 1] = errors[1, 1, 1] = 0.25
    losses = np.ones((2, 2, 3))
    losses[0, 1, 1] = 0.9
    best = Tuned.best(errors, losses)
    assert (best.kernel, best.C, best.n_basis) == (0, 1, 2)


def test_sizes_that_cannot_be_reached_are_not_picked():
    X = np.repeat(np.eye(3), 20, axis=0)
    y = np.where(np.arange(60) % 2, 1.0, -1.0)[:, None]
    at = problem()
    at = replace(at, rows=ArrayRows(X, y), hashes=hash_rows(X, 4), labels=(y[:, 0] > 0).astype(int))
    at = replace(at, splits=resolve_splits(3, at.labels, classifier=True, random_state=0))
    tuned = tune_grid(at, [RBF(1.0)], np.array([1.0]), memory_budget=1 << 30)
    assert np.all(np.isinf(tuned.errors[0, 0, 3:]))
    assert tuned.n_basis <= 3
