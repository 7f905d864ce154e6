from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kompakt.basis.columns import KernelColumns
from kompakt.basis.fee import (
    FeeGrowth,
    FeePlan,
    FirstVectors,
    Judge,
    SemiparametricMachine,
    class_means,
)
from kompakt.basis.forward import CandidateStream
from kompakt.data import ArrayRows, hash_rows
from kompakt.datasets import make_checkerboard
from kompakt.heldout import resolve_splits
from kompakt.kernels import RBF
from kompakt.losses import Hinge
from kompakt.run import Run
from kompakt.search import fee
from kompakt.search.fee import choose_point, one_se_limit, search_fee
from kompakt.spec import Data, Spec


@pytest.fixture(scope="module")
def problem():
    """Data, what is minimised, how to grow, and three folds."""
    X, y = make_checkerboard(120, n_cells=2, flip=0.05)
    labels = (y > 0).astype(int)
    splits = resolve_splits(3, labels, stratify=True, random_state=0)
    data = Data(ArrayRows(X, y[:, None].astype(float)), labels=labels)
    return data, Spec(RBF(1.0), Hinge(), n_classes=2), FeePlan(12, patience=4), splits


def test_two_grids_round_the_best(problem):
    found = search_fee(*problem, [-3, -2, -1], [0, 1, 2], n_jobs=1)
    assert len(found.points) == 9 + 100
    assert found.n_trainings == 3 * 109
    assert found.best.error == min(point.error for point in found.points)
    first = min(found.points[:9], key=lambda p: (round(p.error, 12), np.mean(p.sizes), -p.sigma, p.C))
    assert_allclose(
        np.unique([p.sigma for p in found.points[9:]]), np.sort(first.sigma * 2.0 ** ((np.arange(10) - 4.5) / 5))
    )


def test_kept_distances_and_columns_on_demand_agree(problem):
    kept = search_fee(*problem, [-2, -1], [0, 2], fine=False, n_jobs=1)
    data, spec, plan, splits = problem
    plan = replace(plan, run=Run(memory_budget=100_000))  # less than the kernel matrices take
    asked = search_fee(data, spec, plan, splits, [-2, -1], [0, 2], fine=False, n_jobs=1)
    for one, other in zip(kept.points, asked.points, strict=True):
        assert_allclose(one.errors, other.errors)
        assert one.sizes.tolist() == other.sizes.tolist()


def test_processes_change_nothing(problem):
    alone = search_fee(*problem, [-2], [0, 2], fine=False, n_jobs=1)
    many = search_fee(*problem, [-2], [0, 2], fine=False, n_jobs=2)
    assert [p.errors.tolist() for p in alone.points] == [p.errors.tolist() for p in many.points]


def test_the_papers_grids_are_a_thousand_trainings():
    assert len(fee.SIGMA_EXPONENTS) * len(fee.C_EXPONENTS) * 5 + len(fee.FINE) ** 2 * 5 == 1000


@pytest.fixture(scope="module")
def confirmed(problem):
    return search_fee(*problem, [-3, -2, -1], [0, 1, 2], fine=False, rule="one_se", n_jobs=1)


def test_one_standard_error_takes_the_smallest_machine_near_the_best_of_the_smoothed_surface(confirmed):
    points = confirmed.points
    assert confirmed.n_trainings == 2 * 3 * 9
    padded = np.pad(np.array([p.confirmed.mean() for p in points]).reshape(3, 3), 1, mode="edge")
    smooth = [padded[i : i + 3, j : j + 3].mean() for i in range(3) for j in range(3)]
    best = points[int(np.argmin(smooth))]
    limit = min(smooth) + np.std(best.confirmed, ddof=1) / np.sqrt(3)
    close = [p for p, error in zip(points, smooth, strict=True) if error <= limit]
    assert confirmed.best in close
    assert confirmed.best.sizes.mean() == min(p.sizes.mean() for p in close)
    assert confirmed.choose("confirmed") is best
    shapes = confirmed.shapes
    assert_allclose(one_se_limit(points, shapes), limit)
    assert choose_point(points, shapes, "one_se", limit=0.0) is best  # nothing reaches that
    widest = choose_point(points, shapes, "one_se", limit=1.0)
    assert widest.sizes.mean() == min(p.sizes.mean() for p in points)
    assert confirmed.choose("min").error == min(p.error for p in points)
    with pytest.raises(ValueError, match="rule"):
        confirmed.choose("best")


def test_confirmed_errors_are_those_of_a_machine_that_never_saw_the_rows(problem, confirmed):
    data, spec, _, splits = problem
    X, stream = data.rows.X, CandidateStream.of(hash_rows(data.rows.X, 0), 0)
    for point in confirmed.points[::4]:
        kernel = RBF(point.gamma)
        for (train, held), error in zip(splits, point.confirmed, strict=True):
            rows = data.subset(train).rows  # without the rows of the fold
            vectors = class_means(rows, kernel, data.labels[train], np.arange(len(train)))
            columns = KernelColumns(rows, kernel)
            first = FirstVectors.of(columns, vectors)
            everything = np.arange(len(train))
            machine = SemiparametricMachine(columns, replace(spec, C=point.C), everything, first, point.size)
            own = stream.within(train)
            place = np.full(len(X), -1)
            place[train] = everything
            own = replace(own, rows=np.where(own.rows >= 0, place[own.rows], -1), distinct=own.distinct[train])
            judge = Judge.of(data.subset(train), spec, everything)
            FeeGrowth(machine, own, FeePlan(point.size, patience=None), judge).grow()
            basis = np.concatenate([vectors[machine.used_vectors], X[train[machine.indices]]])
            beta = np.linalg.solve(machine.factor_R, machine.theta[0, 1 : machine.width])
            scores = machine.theta[0, 0] + kernel.block(X[held], basis) @ beta
            assert_allclose(np.mean((scores > 0) != data.labels[held]), error, atol=1e-12)


def test_a_search_by_the_lowest_error_confirms_nothing(problem):
    found = search_fee(*problem, [-2], [0, 2], fine=False, n_jobs=1)
    assert all(point.confirmed is None for point in found.points)
    with pytest.raises(ValueError, match="confirmed"):
        found.choose("one_se")
    with pytest.raises(ValueError, match="rule must be"):
        search_fee(*problem, [-2], [0], rule="best")
