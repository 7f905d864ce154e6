"""The reference method reaches the same hinge machine as the fast one."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from benchmarks import irwls
from kompakt.data import ArrayRows
from kompakt.design import Design
from kompakt.kernels import RBF
from kompakt.losses import Hinge, SquaredHinge
from kompakt.solve import Problem, Settings, solve


def problem_of(C, weights=None, n_outputs=2):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 3))
    raw = np.column_stack([X[:, 0] * X[:, 1], X[:, 2]])[:, :n_outputs] + 0.5 * rng.standard_normal((120, n_outputs))
    design = Design(ArrayRows(X, np.where(raw > 0, 1.0, -1.0), weights), RBF(0.3), X[:15], whiten=True)
    return Problem(design, Hinge(), C)


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_same_machine_as_the_fast_solver(C, weighted):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 120) if weighted else None
    problem = problem_of(C, weights)
    exact = solve(problem, None, Settings(tol=1e-10))
    found = irwls.minimise(problem, None, Settings(tol=1e-9, max_iter=1000))
    np.testing.assert_allclose(found.objective, exact.objective, rtol=1e-4)
    assert np.all(found.objective >= exact.objective * (1 - 1e-9))
    f = problem.design.matvec(found.coordinates[:-1]) + found.intercept
    g = problem.design.matvec(exact.coordinates[:-1]) + exact.intercept
    np.testing.assert_allclose(f, g, atol=0.03)  # the plain iteration is slow in its last digits


def test_weights_are_those_of_the_last_point():
    problem = problem_of(1.0)
    found = irwls.minimise(problem, None, Settings(tol=1e-8, max_iter=2000))
    f = problem.design.matvec(found.coordinates[:-1]) + found.intercept
    y = problem.design.rows.targets
    np.testing.assert_array_equal(found.row_weights > 0, y * f < 1)
    inside = (found.row_weights > 0) & (1 - y * f > 1e-6)
    np.testing.assert_allclose((found.row_weights * (1 - y * f))[inside], 1.0)


def test_a_warm_start_needs_fewer_iterations():
    problem = problem_of(1.0)
    first = irwls.minimise(problem, None, Settings(tol=1e-6, max_iter=2000))
    assert irwls.minimise(problem, first.coordinates, Settings(tol=1e-5, max_iter=2000)).n_iter < first.n_iter


def test_only_the_hinge_is_reweighted():
    from dataclasses import replace

    with pytest.raises(TypeError, match="hinge"):
        irwls.minimise(replace(problem_of(1.0), loss=SquaredHinge()))


def test_the_example_in_its_docstring():
    result = doctest.testmod(irwls)
    assert result.attempted
    assert not result.failed
