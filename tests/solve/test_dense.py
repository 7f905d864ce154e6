"""Newton's method in memory, compiled and with arrays, against the method by passes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kompakt.design import FeatureDesign
from kompakt.losses import Absolute, EpsilonInsensitive, Huber, HuberHinge, LeastSquares, SquaredHinge
from kompakt.solve import Problem, Settings, line_search, newton
from kompakt.solve.dense import DenseNewton, minimise_from

LOSSES = [SquaredHinge(), HuberHinge(0.2), Huber(0.05), Absolute().rounded(0.02), EpsilonInsensitive(0.3).rounded(0.05)]


@pytest.fixture(params=["compiled", "numpy"])
def way(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(line_search, "compiled", lambda: None)
    else:
        pytest.importorskip("numba")
    return request.param


def problem_of(loss, seed, C=3.0, outputs=2):
    rng = np.random.default_rng(seed)
    Phi = rng.standard_normal((60, 4))
    y = Phi[:, :outputs] + rng.standard_normal((60, outputs))
    y = np.sign(y) if loss.for_classes else y
    return Problem(FeatureDesign(Phi, y, rng.uniform(0.5, 2.0, 60)), loss, C)


def machine_of(problem):
    rows = problem.design.rows
    penalty = float(problem.penalize_intercept)
    return DenseNewton.on_features(
        problem.design.matrix, rows.targets, rows.weights, problem.loss, problem.C, problem.fit_intercept, penalty
    )


def best(problem):
    return newton.minimise(problem, None, Settings(1e-12, 1000)).objective


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("C", [0.01, 3.0, 1e4])
def test_it_ends_at_the_minimum(way, loss, C):
    """Also where a step takes rows from one linear piece to another: both have curvature 0."""
    for seed in range(8):
        problem = problem_of(loss, seed, C)
        machine = machine_of(problem)
        machine.retrain(1e-10, 100)
        assert machine.converged
        assert_allclose(machine.objective(), best(problem), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_path_over_costs_is_the_machines_of_its_costs(way, loss):
    machine, before = machine_of(problem_of(loss, 1, 0.1)), 0.1
    for C in (0.1, 1.0, 30.0, 5.0):
        machine.scale_cost(C / before)
        machine.retrain(1e-10, 1000)
        before = C
        assert_allclose(machine.objective(), best(problem_of(loss, 1, C)), rtol=1e-8)
        A, curvature = machine.A[0], machine.curvatures[0]
        assert_allclose(machine.H[0], np.diag(machine.penalty) + (A * curvature) @ A.T, rtol=1e-9, atol=1e-9 * C)


@pytest.mark.parametrize("loss", [*LOSSES, LeastSquares()], ids=repr)
@pytest.mark.parametrize("start", ["zero", "near", "wild"])
def test_outputs_of_another_machine_are_a_start(way, loss, start):
    problem = problem_of(loss, 3, 10.0)
    y = problem.design.rows.targets
    outputs = {"zero": 0.0 * y, "near": 0.8 * y, "wild": 1e3 * y[::-1]}[start]
    solution = minimise_from(problem, outputs, Settings(1e-9, 1000))
    assert solution.converged
    minimise = newton.minimise_squares if loss.quadratic else newton.minimise
    exact = minimise(problem, None, Settings(1e-12, 1000))
    assert_allclose(solution.objective, exact.objective, rtol=1e-8)
    f = problem.design.matrix @ solution.weights + solution.intercept
    assert_allclose(f, problem.design.matrix @ exact.weights + exact.intercept, atol=1e-4)
