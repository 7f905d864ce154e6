"""The descent of refinement as a minimiser of its own."""

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from kompakt.basis.lbfgs import minimise_lbfgs

START = np.random.default_rng(0).standard_normal(60)
SCALES = np.exp(2.0 * START)


def valley(x):
    return rosen(x), rosen_der(x)


def bowl(x):
    return 0.5 * np.sum(SCALES * x**2) + np.sum(np.cos(x)), SCALES * x - np.sin(x)


@pytest.mark.parametrize("function", [valley, bowl])
def test_as_low_as_scipys_routine_with_as_many_evaluations(function):
    evaluated, points = [], []

    def counted(x):
        evaluated.append(x)
        return function(x)

    n_iter = minimise_lbfgs(counted, START, max_iter=100, callback=points.append)
    options = {"maxiter": 100, "maxcor": 20, "ftol": 1e-9}
    peer = minimize(function, START, jac=True, method="L-BFGS-B", options=options)
    values = [function(x)[0] for x in points]
    assert n_iter == len(points) <= 100
    assert values == sorted(values, reverse=True)
    assert values[-1] <= peer.fun + 0.05 * abs(peer.fun)
    assert len(evaluated) <= 1.2 * peer.nfev
    assert all(any(x is known for known in evaluated) for x in points)


def test_it_ends_at_a_minimum_and_where_there_is_nothing_to_move():
    assert minimise_lbfgs(bowl, np.zeros(60), max_iter=10) == 0
    assert minimise_lbfgs(lambda x: (0.0, x), np.empty(0), max_iter=10) == 0
    assert minimise_lbfgs(bowl, START, max_iter=1000) < 1000


def test_a_gradient_that_points_the_wrong_way_ends_the_descent():
    calls = []

    def wrong(x):
        calls.append(x)
        return bowl(x)[0], -bowl(x)[1]

    assert minimise_lbfgs(wrong, START, max_iter=10) == 0
    assert len(calls) < 30


def test_either_function_may_end_it_by_an_exception():
    def enough(x):
        raise StopIteration

    with pytest.raises(StopIteration):
        minimise_lbfgs(bowl, START, max_iter=10, callback=enough)
