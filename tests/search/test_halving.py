"""Successive halving: schedule, survivors, deadlines and failures."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.exceptions import FitFailedWarning

from kompakt.search import successive_halving


def test_rounds_shrink_and_resources_grow():
    calls = []

    def evaluate(setting, resource):
        calls.append((setting, resource))
        return abs(setting - 20) + 10.0 / resource

    result = successive_halving(evaluate, list(range(27)), min_resource=3, max_resource=81)
    assert result.resources == [3, 9, 27, 81]
    assert [sum(r == resource for _, r in calls) for resource in result.resources] == [27, 9, 3, 1]
    assert (result.setting, result.index, result.stopped) == (20, 20, "finished")
    assert result.value == pytest.approx(10 / 81)
    assert len(result.evaluations) == len(calls) == 40


def test_a_setting_good_only_on_little_loses():
    settings = ["hare", "tortoise", "snail"]
    errors = {"hare": (0.1, 0.5), "tortoise": (0.2, 0.1), "snail": (0.9, 0.0)}
    result = successive_halving(lambda s, r: errors[s][r > 10], settings, min_resource=10, max_resource=20, factor=2)
    assert result.setting == "tortoise"  # snail would have won, but was dropped in round 0


@pytest.mark.parametrize(
    ("n", "low", "high", "factor", "expected"),
    [
        (1, 5, 100, 3, [100]),
        (4, 50, 50, 2, [50]),
        (100, 10, 90, 3, [10, 30, 90]),
        (3, 1, 1000, 3, [333, 1000]),
        (9, 7, 100, 2.5, [16, 40, 100]),
    ],
)
def test_schedules(n, low, high, factor, expected):
    result = successive_halving(lambda s, r: float(s), range(n), min_resource=low, max_resource=high, factor=factor)
    assert result.resources == expected
    assert result.setting == 0


def test_equal_values_go_to_the_earlier_setting():
    assert successive_halving(lambda s, r: 1.0, "abcdef", min_resource=1, max_resource=9).setting == "a"


def test_failures_are_passed_over_and_reported():
    with pytest.warns(FitFailedWarning, match="2 of"):
        result = successive_halving(
            lambda s, r: np.nan if s < 2 else float(s), range(5), min_resource=1, max_resource=9
        )
    assert (result.setting, result.n_failed) == (2, 2)
    with pytest.raises(ValueError, match="All 5 settings of round 0"):
        successive_halving(lambda s, r: np.nan, range(5), min_resource=1, max_resource=9)


def test_a_deadline_gives_the_best_of_the_last_complete_round():
    def slow(setting, resource):
        time.sleep(0.005 if resource < 9 else 0.5)
        return float(-setting) if resource < 9 else float(setting)

    result = successive_halving(slow, range(9), min_resource=3, max_resource=9, factor=3, max_time=0.3)
    assert (result.stopped, result.setting) == ("deadline", 8)
    first = successive_halving(slow, range(9), min_resource=3, max_resource=9, max_time=1e-9)
    assert (first.setting, len(first.evaluations)) == (0, 1)


def test_bad_arguments_are_named():
    def run(settings=(1,), low=1, high=2, **options):
        return successive_halving(lambda s, r: 0.0, settings, min_resource=low, max_resource=high, **options)

    for call, message in (
        (lambda: run(settings=()), "at least one setting"),
        (lambda: run(low=3), "min_resource <= max_resource"),
        (lambda: run(factor=1), "greater than 1"),
        (lambda: run(max_time=0), "positive number of seconds"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
