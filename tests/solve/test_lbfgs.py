"""L-BFGS step by step, against SciPy's and where functions have no value."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from kompakt.solve.lbfgs import LBFGS


def run(solver, most=500):
    while solver.n_iter < most and solver.step():
        pass
    return solver


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e10])
def test_it_finds_the_minimum_in_about_as_many_evaluations_as_scipy(scale):
    start, calls = np.linspace(-1.2, 1.5, 10), []

    def function(x):
        calls.append(1)
        return scale * float(rosen(x)), scale * rosen_der(x)

    solver = run(LBFGS(function, start))
    assert np.allclose(solver.x, 1.0, atol=1e-3)
    mine = len(calls)
    calls.clear()
    scale = 1.0  # SciPy's has an absolute tolerance
    minimize(function, start, jac=True, method="L-BFGS-B", options={"maxcor": 20, "ftol": 1e-9})
    assert mine <= 2 * len(calls)


def test_the_value_never_rises_and_gradients_belong_to_points():
    solver = LBFGS(lambda x: (float(rosen(x)), rosen_der(x)), np.array([-1.2, 1.0, 0.5]))
    values = []
    while len(values) < 30 and solver.step():
        values.append(solver.value)
        assert solver.value == float(rosen(solver.x))
        assert np.array_equal(solver.gradient, rosen_der(solver.x))
    assert np.all(np.diff(values) < 0)


def test_points_without_a_value_are_stepped_back_from():
    def barrier(x):
        if x[0] <= 0:
            return np.inf, np.zeros(1)
        return float(x[0] - np.log(x[0])), np.array([1.0 - 1.0 / x[0]])

    solver = run(LBFGS(barrier, np.array([30.0])))
    assert solver.x[0] == pytest.approx(1.0, abs=1e-3)


def test_a_start_without_a_value_or_slope_ends_it():
    nowhere = LBFGS(lambda x: (np.nan, x), np.ones(2))
    assert not nowhere.step()
    flat = LBFGS(lambda x: (3.0, np.zeros(2)), np.ones(2))
    assert not flat.step()
    assert flat.value == 3.0
