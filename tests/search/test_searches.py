"""Searches on functions with known minima: budgets, seeds, deadlines, failures."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.exceptions import FitFailedWarning

from kompakt.search import (
    ACCEPTANCES,
    Space,
    anneal,
    anneal_then_simplex,
    grid_search,
    random_search,
    random_then_simplex,
    simplex_search,
)
from kompakt.search import strategies as search
from kompakt.search.strategies import _control, coupled, metropolis, most_promising, printed, reflected

SQUARE = Space.of({"x": (-5.0, 5.0), "y": (-5.0, 5.0)})


def rastrigin(p):
    shifted = p - np.array([1.3, -0.7])
    return float(20 + (shifted**2 - 10 * np.cos(2 * np.pi * shifted)).sum())


def rosenbrock(p):
    return float((1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2)


def camel(p):
    x, y = p
    return float((4 - 2.1 * x**2 + x**4 / 3) * x**2 + x * y + (4 * y**2 - 4) * y**2)


# ---------------------------------------------------------------------------------------------- space


def test_space_goes_to_natural_values_and_back():
    space = Space.of({"C": (1e-3, 1e5, "log"), "epsilon": (0.0, 2.0)})
    unit = np.random.default_rng(0).uniform(size=(20, 2))
    np.testing.assert_allclose(space.unit(space.natural(unit)), unit, atol=1e-12)
    ends = space.natural([[0.0, 0.0], [1.0, 1.0]])
    assert ends.tolist() == [[1e-3, 0.0], [1e5, 2.0]]  # exactly: rounding must not leave the box
    assert space.as_dict(ends[0]) == {"C": 1e-3, "epsilon": 0.0}


def test_bad_spaces_are_named():
    for axes, message in (
        ({"C": (0.0, 1.0, "log")}, "must be positive"),
        ({"C": (2.0, 1.0)}, "lower < upper"),
        ({"C": (1.0, np.inf)}, "finite"),
        ({"C": (1.0, 2.0, "exp")}, "log"),
        ({}, "at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            Space.of(axes)
    with pytest.raises(ValueError, match="outside"):
        SQUARE.unit([9.0, 0.0])
    with pytest.raises(ValueError, match="has 2 values"):
        SQUARE.unit([0.0])


def test_reflection_folds_any_point_into_the_cube():
    points = np.array([-0.2, 0.3, 1.4, 7.9, -100.5])
    np.testing.assert_allclose(reflected(points), [0.2, 0.3, 0.6, 0.1, 0.5], atol=1e-12)


# ---------------------------------------------------------------------------------------------- strategies


def test_grid_covers_the_box_and_takes_the_first_of_equal_values():
    seen = []
    result = grid_search(lambda p: seen.append(p.tolist()) or 1.0, SQUARE, (3, 2))
    assert seen == [[x, y] for x in (-5.0, 0.0, 5.0) for y in (-5.0, 5.0)]
    assert result.point.tolist() == [-5.0, -5.0]
    assert grid_search(lambda p: 0.0, SQUARE, 1).point.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="one count >= 1 per axis"):
        grid_search(lambda p: 0.0, SQUARE, (3,))


@pytest.mark.parametrize("walls", ["reflect", "clip"])
def test_simplex_converges_and_stays_in_the_box(walls):
    inside = []

    def seen(p):
        inside.append((np.abs(p) <= 5).all())
        return rosenbrock(p)

    result = simplex_search(seen, SQUARE, [-1.2, 1.0], n_evaluations=400, tol=1e-8, walls=walls)
    np.testing.assert_allclose(result.point, [1, 1], atol=1e-4)
    assert result.stopped == "converged"
    edge = simplex_search(lambda p: float(p.sum()), SQUARE, [4.9, -4.9], n_evaluations=200, walls=walls)
    np.testing.assert_allclose(edge.point, [-5, -5], atol=1e-2)
    assert all(inside)


def test_simplex_keeps_its_budget():
    result = simplex_search(rosenbrock, SQUARE, [-1.2, 1.0], n_evaluations=30)
    assert (result.n_evaluations, result.stopped) == (30, "budget")


@pytest.mark.parametrize("acceptance", sorted(ACCEPTANCES))
def test_annealing_uses_its_budget_and_finds_the_valley(acceptance):
    values = []
    for seed in range(10):
        result = anneal(camel, SQUARE, acceptance=acceptance, random_state=seed)
        assert (result.n_evaluations, result.stopped) == (90, "budget")
        values.append(result.value)
    values = np.array(values)
    # The best of 90 uniform points, over 200 seeds: median -0.38. Minima at -1.0316 and -0.2155.
    assert np.median(values) < -0.5


def test_anneal_then_simplex_finds_global_minima():
    camel_values = [anneal_then_simplex(camel, SQUARE, random_state=seed).value for seed in range(20)]
    assert np.mean(np.array(camel_values) < -1.0316) >= 0.9
    results = [anneal_then_simplex(rastrigin, SQUARE, random_state=seed) for seed in range(20)]
    values = np.array([result.value for result in results])
    assert np.mean(values < 1e-3) >= 0.25
    assert np.median(values) < 2.5
    assert max(result.n_evaluations for result in results) <= 160
    assert {e.phase for e in results[0].evaluations} == {"anneal", "simplex"}


def test_simplex_phase_does_not_evaluate_its_start_again():
    result = anneal_then_simplex(camel, SQUARE, random_state=0)
    points = [tuple(e.point) for e in result.evaluations]
    assert len(set(points)) == len(points)


@pytest.mark.parametrize("run", [anneal, random_search, anneal_then_simplex, random_then_simplex])
def test_the_seed_decides(run):
    def points(seed):
        return np.array([e.point for e in run(rastrigin, SQUARE, random_state=seed).evaluations])

    np.testing.assert_array_equal(points(3), points(3))
    assert not np.array_equal(points(3)[:5], points(4)[:5])


def test_the_unit_of_the_function_does_not_matter():
    one = anneal_then_simplex(camel, SQUARE, random_state=1)
    other = anneal_then_simplex(lambda p: 2.0**20 * camel(p), SQUARE, random_state=1)
    np.testing.assert_array_equal(one.point, other.point)


def test_logarithmic_axes():
    space = Space.of({"C": (1e-3, 1e6, "log"), "gamma": (1e-6, 1e2, "log")})
    result = search(lambda p: float(np.abs(np.log(p / [1e3, 1e-3])).sum()), space, random_state=0)
    np.testing.assert_allclose(result.point, [1e3, 1e-3], rtol=0.05)


@pytest.mark.parametrize("strategy", ["anneal", "random", "grid"])
def test_a_deadline_stops_any_search(strategy):
    def slow(p):
        time.sleep(0.02)
        return camel(p)

    started = time.monotonic()
    result = search(slow, SQUARE, strategy, max_time=0.1)
    assert result.stopped == "deadline"
    assert 1 <= result.n_evaluations <= 6
    assert time.monotonic() - started < 2.0
    assert search(slow, SQUARE, strategy, max_time=1e-9).n_evaluations == 1  # there is always a result


def test_failed_evaluations_are_passed_over_and_reported():
    def treacherous(p):
        if p[0] > 2:
            return np.nan
        if p[1] > 3:
            return -np.inf
        return camel(p)

    for seed in range(5):
        with pytest.warns(FitFailedWarning, match="NaN or infinite values"):
            result = search(treacherous, SQUARE, random_state=seed)
        assert result.n_failed == sum(e.failed for e in result.evaluations) > 0
        assert np.isfinite(result.value)
        assert result.value == camel(result.point)
    for strategy in ("anneal", "grid", "random"):
        with pytest.raises(ValueError, match=r"All \d+ evaluations .* the first at"):
            search(lambda p: np.nan, SQUARE, strategy)


def test_searchers_that_all_start_at_failures_walk_out_of_them():
    calls = []

    def late(p):
        calls.append(p)
        return np.inf if len(calls) <= 12 else camel(p)

    with pytest.warns(FitFailedWarning, match="12 of"):
        assert np.isfinite(search(late, SQUARE, random_state=0).value)


def test_every_evaluation_is_recorded_and_shown():
    shown = []
    result = anneal_then_simplex(camel, SQUARE, random_state=0, callback=shown.append)
    assert shown == result.evaluations
    assert [e.number for e in shown] == list(range(len(shown)))
    assert all(e.value == camel(e.point) for e in shown)
    assert result.value == min(e.value for e in shown)


def test_a_point_may_be_changed_by_the_function_without_harm():
    def careless(p):
        value = camel(p)
        p[:] = 99.0
        return value

    result = anneal(careless, SQUARE, random_state=0)
    np.testing.assert_array_equal(result.point, anneal(camel, SQUARE, random_state=0).point)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="choose from 'anneal', 'grid', 'random'"):
        search(camel, SQUARE, "bayes")
    with pytest.raises(ValueError, match="choose from 'coupled', 'printed', 'metropolis'"):
        anneal(camel, SQUARE, acceptance="greedy")
    with pytest.raises(ValueError, match="at least 2 starters"):
        anneal(camel, SQUARE, n_starters=1)
    with pytest.raises(ValueError, match="step and heat must be positive"):
        anneal(camel, SQUARE, step=0.0)
    with pytest.raises(ValueError, match="step and heat must be positive"):
        anneal(camel, SQUARE, heat=0.0)
    with pytest.raises(ValueError, match="at least 1 evaluation"):
        anneal(camel, SQUARE, n_evaluations=0)
    with pytest.raises(ValueError, match="choose from 'reflect', 'clip'"):
        simplex_search(camel, SQUARE, [0.0, 0.0], walls="bounce")
    with pytest.raises(ValueError, match="edge must lie"):
        simplex_search(camel, SQUARE, [0.0, 0.0], edge=0.7)
    with pytest.raises(ValueError, match="positive number of seconds"):
        anneal(camel, SQUARE, max_time=0)


# ---------------------------------------------------------------------------------------------- acceptance


def test_coupled_probabilities_sum_to_one_and_favour_the_worst():
    current = np.array([3.0, 1.0, 2.0, 9.0, 4.0])
    chances = coupled(current, current + 1, 2.0)
    assert chances.sum() == pytest.approx(1.0)
    assert np.argsort(chances).tolist() == np.argsort(current).tolist()
    np.testing.assert_allclose(chances, coupled(current + 1e9, current, 2.0), rtol=1e-6)
    np.testing.assert_allclose(coupled(current, current, 1e-300), [0, 0, 0, 1, 0], atol=1e-12)


def test_printed_probabilities_are_those_of_the_paper():
    current, probe, temperature = np.array([3.0, 1.0, 2.0]), np.array([4.0, 2.0, 2.5]), 1.7
    rho = np.exp(-current / temperature).sum()
    expected = np.exp(-probe / temperature) / (np.exp(-probe / temperature) + rho)
    np.testing.assert_allclose(printed(current, probe, temperature), expected)
    assert np.isfinite(printed(1e6 * current, 1e6 * probe, 1e-3)).all()
    np.testing.assert_allclose(metropolis(current, probe, temperature), np.exp((current - probe) / temperature))


def test_variance_control_cools_towards_the_wanted_variance():
    assert _control(np.full(5, 0.2), 0.05) == 0.95  # variance 0: too even, cool
    assert _control(np.array([1.0, 0, 0, 0, 0]), 0.05) == 1.05  # largest variance there is: heat
    current, temperature = np.array([3.0, 1.0, 2.0, 9.0, 4.0]), 50.0
    wanted = 0.99 * 4 / 25
    for _ in range(400):
        temperature *= _control(coupled(current, current, temperature), 0.05)
    variance = (coupled(current, current, temperature) ** 2).mean() - 1 / 25
    assert variance == pytest.approx(wanted, rel=0.02)


# ---------------------------------------------------------------------------------------------- foresight


def test_foresight_prefers_the_valley_and_what_is_unknown():
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(40, 2))
    values = ((points - 0.3) ** 2).sum(axis=1)
    candidates = np.array([[[0.9, 0.9], [0.31, 0.29], [0.05, 0.95]]])
    np.testing.assert_array_equal(most_promising(candidates, points, values, trust=1.0), [[0.31, 0.29]])
    crowd = np.vstack([points, candidates[0, 1:] + 1e-4])
    crowd_values = np.append(values, [0.0, 1.0])
    np.testing.assert_array_equal(most_promising(candidates, crowd, crowd_values, trust=0.0), [[0.9, 0.9]])
    # The second searcher keeps away from what the first one chose.
    twice = np.array([[[0.5, 0.5]] * 2, [[0.5, 0.5], [0.95, 0.02]]])
    np.testing.assert_array_equal(most_promising(twice, points, values, trust=0.0)[1], [0.95, 0.02])


@pytest.mark.parametrize(
    ("points", "values"),
    [
        (np.full((6, 2), 0.5), np.arange(6.0)),  # one place, many values
        (np.linspace(0, 1, 12).reshape(6, 2) * [1, 0], np.arange(6.0)),  # all on a line
        (np.eye(2), np.array([1.0, 2.0])),  # too few
        (np.random.default_rng(0).uniform(size=(9, 2)), np.full(9, np.inf)),  # nothing but failures
        (np.random.default_rng(0).uniform(size=(9, 2)), np.ones(9)),  # flat
    ],
)
def test_foresight_survives_degenerate_knowledge(points, values):
    candidates = np.random.default_rng(1).uniform(size=(5, 4, 2))
    chosen = most_promising(candidates, points, values)
    assert np.isfinite(chosen).all()
    assert all((candidates[i] == chosen[i]).all(axis=1).any() for i in range(5))


def test_without_foresight_every_step_drawn_is_tried():
    with pytest.raises(ValueError, match="foresight must be at least 1"):
        anneal(camel, SQUARE, foresight=0)
    plain = anneal(camel, SQUARE, foresight=1, random_state=0)
    assert not np.array_equal(plain.evaluations[10].point, anneal(camel, SQUARE, random_state=0).evaluations[10].point)
