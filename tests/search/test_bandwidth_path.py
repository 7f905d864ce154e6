"""The search over width and C on functions whose minimum is known, and its records."""

import time

import numpy as np
import pytest

from kompakt.kernels import RBF, Linear
from kompakt.run import Run
from kompakt.search.fixed_size import tune_width_and_cost


def valley(at_gamma, at_C, calls=None):
    def evaluate(kernel, Cs):
        if calls is not None:
            calls.append((np.mean(kernel.gamma), len(Cs)))
        x, y = np.log10(np.mean(kernel.gamma) / at_gamma), np.log10(Cs / at_C)
        errors = x**2 + y**2 + 0.8 * x * y  # C and the width pull on each other
        return errors, np.column_stack([errors - 0.1, errors + 0.1])

    return evaluate


@pytest.mark.parametrize(("at_gamma", "at_C"), [(0.02, 3.0), (300.0, 5e4), (3e-4, 0.05)])
def test_profile_finds_the_minimum_with_few_widths(at_gamma, at_C):
    calls = []
    found = tune_width_and_cost(valley(at_gamma, at_C, calls), RBF(1.0))
    assert abs(np.log10(found.kernel.gamma / at_gamma)) < 0.25
    assert abs(np.log10(found.C / at_C)) < 0.35
    assert len(calls) <= 16
    assert found.trials.stopped == "finished"


@pytest.mark.parametrize("strategy", ["anneal", "random"])
def test_joint_searches_find_it_too(strategy):
    found = tune_width_and_cost(valley(0.02, 30.0), RBF(1.0), strategy=strategy, run=Run(key=0))
    assert abs(np.log10(found.kernel.gamma / 0.02)) < 0.1
    assert abs(np.log10(found.C / 30.0)) < 0.1
    assert len(found.trials.as_dict()["param_C"]) <= 160


def test_results_tell_every_evaluation():
    found = tune_width_and_cost(valley(0.02, 3.0), RBF(1.0))
    table = found.trials.as_dict()
    assert len({len(column) for column in table.values()}) == 1
    best = int(np.argmin(table["rank_test_error"]))
    assert table["rank_test_error"][best] == 1
    assert (table["param_C"][best], table["param_gamma"][best]) == (found.C, found.kernel.gamma)
    assert table["objective"][best] == found.error == table["objective"].min()
    np.testing.assert_allclose(table["mean_test_error"], table["objective"])
    np.testing.assert_allclose(table["std_test_error"], 0.1)


def test_kernel_without_width_has_only_its_cost():
    found = tune_width_and_cost(lambda kernel, Cs: (np.log10(Cs) ** 2, np.log10(Cs)[:, None] ** 2), Linear())
    assert found.C == pytest.approx(1.0)
    assert np.isnan(found.trials.as_dict()["param_gamma"]).all()


def test_widths_per_feature_are_scaled_together():
    found = tune_width_and_cost(valley(0.1, 1.0), RBF(np.array([1.0, 3.0])))
    assert found.kernel.gamma[1] / found.kernel.gamma[0] == pytest.approx(3.0)


def test_failed_points_are_passed_over_and_time_ends_the_search():
    def holes(kernel, Cs):
        errors, folds = valley(0.02, 3.0)(kernel, Cs)
        errors[Cs > 1e3] = np.nan
        return errors, folds

    assert np.isfinite(tune_width_and_cost(holes, RBF(1.0)).error)
    late = tune_width_and_cost(valley(0.02, 3.0), RBF(1.0), run=Run(deadline=time.monotonic() - 1.0))
    assert late.trials.stopped == "deadline"
    assert len({row.more["width_factor"] for row in late.trials}) == 1


def test_coarse_errors_lead_but_never_win():
    """A part of the rows sees other errors, far too good; only those of all rows count in the end."""

    def optimist(kernel, Cs):
        errors, folds = valley(0.1, 30.0)(kernel, Cs)
        return errors - 100.0, folds - 100.0

    found = tune_width_and_cost(valley(0.03, 100.0), RBF(1.0), evaluate_coarse=optimist)
    assert abs(np.log10(found.kernel.gamma / 0.03)) < 0.25
    assert found.error >= 0
    assert set(found.trials.as_dict()["phase"]) == {"fine"}


def test_refits_of_the_best_width_decide_its_cost_alone():
    found = tune_width_and_cost(valley(0.02, 3.0), RBF(1.0))
    width = found.kernel.gamma
    found.refit(lambda kernel, Cs: (5.0 + np.log10(Cs) ** 2, 5.0 + np.log10(Cs)[:, None] ** 2), np.array([0.1, 1.0]))
    assert (found.kernel.gamma, found.C, found.error) == (width, 1.0, 5.0)
    table = found.trials.as_dict()
    best = int(np.argmin(table["rank_test_error"]))
    assert (table["phase"][best], table["param_C"][best], table["param_gamma"][best]) == ("refit", 1.0, width)
