"""The table of a search: its columns, ranks, and which row is best."""

import numpy as np
import pytest

from kompakt.search import Trials


def test_columns_are_those_of_a_grid_search():
    trials = Trials()
    trials.add({"C": 1.0, "gamma": None}, 0.25, [0.1, 0.3], seconds=1.5, phase="coarse")
    trials.add({"C": 10.0, "gamma": 0.5}, 0.2, seconds=0.5, n_resources=7)
    trials.add({"C": 100.0, "gamma": 0.5}, 0.2, [0.4, np.nan])
    table = trials.as_dict()
    assert {len(column) for column in table.values()} == {3}
    assert table["param_C"].tolist() == [1.0, 10.0, 100.0]
    assert table["param_gamma"].tolist() == [None, 0.5, 0.5]
    np.testing.assert_allclose(table["mean_test_error"], [0.2, 0.2, 0.4])
    np.testing.assert_allclose(table["std_test_error"], [0.1, np.nan, 0.0], atol=1e-15)
    assert table["objective"].tolist() == [0.25, 0.2, 0.2]
    assert table["rank_test_error"].tolist() == [3, 1, 2]  # by what is minimised, the first of equal ones
    assert table["fit_time"].tolist() == [1.5, 0.5, 0.0]
    assert table["phase"].tolist() == ["coarse", None, None]
    assert table["n_resources"].tolist() == [None, 7, None]
    assert trials.best.params == {"C": 10.0, "gamma": 0.5}


@pytest.mark.parametrize("error", [np.nan, np.inf, -np.inf])
def test_failures_are_the_worst_there_is(error):
    trials = Trials()
    trials.add({"C": 1.0}, error)
    trials.add({"C": 2.0}, 1e300)
    assert trials.n_failed == 1
    assert trials.best.params == {"C": 2.0}
    assert trials.as_dict()["rank_test_error"].tolist() == [2, 1]


def test_the_row_that_is_chosen_is_ranked_first():
    trials = Trials()
    for C, error in enumerate([0.1, 0.0, 0.3, 0.2]):
        trials.add({"C": C}, error)
    assert trials.best.params == {"C": 1}
    trials.choose(trials.rows[3], "its error is that of another loss.")
    assert trials.best.params == {"C": 3}
    assert trials.chosen == 3
    assert trials.as_dict()["rank_test_error"].tolist() == [3, 2, 4, 1]
    assert trials.as_dict()["objective"].tolist() == [0.1, 0.0, 0.3, 0.2]


def test_a_row_does_not_change_with_the_dict_it_came_from():
    trials, params = Trials(), {"C": 1.0}
    trials.add(params, 0.0)
    params["C"] = 2.0
    assert trials.best.params == {"C": 1.0}
    assert len(trials) == len(list(trials)) == 1
