"""Least squares in closed form: equal to kernel ridge regression when all rows are basis vectors."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.kernel_ridge import KernelRidge

from kompakt.data import ArrayRows
from kompakt.design import Design, FeatureDesign
from kompakt.kernels import RBF
from kompakt.losses import LeastSquares
from kompakt.solve import Problem, running, solve

KERNEL = RBF(1.0)


def data(n=150, d=3, outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, [0]]) + X[:, [1]] * np.arange(outputs) + 5.0 + 0.1 * rng.normal(size=(n, outputs))


def solution_of(X, Y, m, C, weights=None, store=None, block_rows=57, **intercept):
    rows = ArrayRows(X, Y, weights)
    design = Design(rows, KERNEL, X[:m].copy(), whiten=True, store=store, block_rows=block_rows)
    return solve(Problem(design, LeastSquares(), C, **intercept))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("intercept", ["free", "penalised", "none"])
def test_all_rows_as_basis_is_kernel_ridge(C, intercept, weighted):
    X, Y = data()
    n = len(X)
    s = np.random.default_rng(1).uniform(0.5, 2.0, n) if weighted else np.ones(n)
    K = KERNEL.gram(X)
    ridge = K + np.diag(1.0 / (C * s))
    if intercept == "free":
        bordered = np.block([[ridge, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
        solved = np.linalg.solve(bordered, np.vstack([Y, np.zeros((1, 2))]))
        beta, b = solved[:-1], solved[-1]
        words = {}
    elif intercept == "penalised":
        beta = np.linalg.solve(ridge + 1.0, Y)  # the kernel 1 + k
        b = beta.sum(axis=0)
        words = {"penalize_intercept": True}
    else:
        beta, b = np.linalg.solve(ridge, Y), np.zeros(2)
        words = {"fit_intercept": False}
    solution = solution_of(X, Y, n, C, s if weighted else None, **words)
    assert solution.converged
    expected = K @ beta + b
    got = K @ solution.weights + solution.intercept
    assert_allclose(got, expected, rtol=0, atol=1e-8 * np.abs(expected).max())
    assert_allclose(solution.intercept, b, rtol=0, atol=1e-8 * max(1.0, np.abs(b).max()))
    residual = Y - expected
    objective = 0.5 * np.einsum("il,ij,jl->l", beta, K, beta) + 0.5 * C * np.sum(s[:, None] * residual**2, axis=0)
    objective += 0.5 * b**2 * (intercept == "penalised")
    assert_allclose(solution.objective, objective, rtol=1e-8)


def test_scikit_learn_agrees():
    X, Y = data()
    foreign = KernelRidge(alpha=1.0 / 7.0, kernel="rbf", gamma=1.0).fit(X, Y)
    solution = solution_of(X, Y, len(X), 7.0, fit_intercept=False)
    assert_allclose(KERNEL.gram(X) @ solution.weights, foreign.predict(X), rtol=0, atol=1e-8)


@pytest.mark.parametrize("C", [1.0, 1e6])
def test_optimality_conditions_in_raw_coordinates(C):
    X, Y = data(1000)
    m = 60
    s = np.random.default_rng(2).uniform(0.0, 2.0, len(X))
    solution = solution_of(X, Y, m, C, s)
    K, gram = KERNEL.block(X, X[:m]), KERNEL.gram(X[:m])
    slopes = C * s[:, None] * (K @ solution.weights + solution.intercept - Y)
    gradient = gram @ solution.weights + K.T @ slopes
    terms = np.linalg.norm(gram @ solution.weights) + np.linalg.norm(np.abs(K).T @ np.abs(slopes))
    assert np.linalg.norm(gradient) / terms < 1e-6
    assert np.all(np.abs(slopes.sum(axis=0)) < 1e-6 * np.abs(slopes).sum(axis=0))


def test_weight_two_is_the_row_twice():
    X, Y = data(400)
    s = np.random.default_rng(3).integers(1, 4, len(X))
    weighted = solution_of(X, Y, 30, 5.0, s.astype(float))
    rows = ArrayRows(np.repeat(X, s, axis=0), np.repeat(Y, s, axis=0))
    again = solve(Problem(Design(rows, KERNEL, X[:30].copy(), whiten=True), LeastSquares(), 5.0))
    assert_allclose(weighted.coordinates, again.coordinates, rtol=1e-8, atol=1e-9)


def test_weights_per_output_are_solved_one_by_one():
    X, Y = data(400)
    s = np.random.default_rng(4).uniform(size=(400, 2))
    together = solution_of(X, Y, 30, 5.0, s)
    for output in range(2):
        alone = solution_of(X, Y[:, [output]], 30, 5.0, s[:, output])
        assert_allclose(together.coordinates[:, output], alone.coordinates[:, 0], rtol=1e-8, atol=1e-9)


def test_recomputed_design_gives_the_same():
    X, Y = data(700)
    stored = solution_of(X, Y, 40, 5.0, store=True)
    recomputed = solution_of(X, Y, 40, 5.0, store=False)
    other_blocks = solution_of(X, Y, 40, 5.0, store=False, block_rows=103)
    assert stored.coordinates.tobytes() == recomputed.coordinates.tobytes()
    assert_allclose(other_blocks.coordinates, stored.coordinates, rtol=1e-9, atol=1e-10)


def test_targets_far_from_zero():
    """The intercept carries the level: nothing is lost at an offset of a million."""
    X, Y = data(500)
    near, far = solution_of(X, Y, 40, 100.0), solution_of(X, Y + 1e6, 40, 100.0)
    assert_allclose(far.intercept - 1e6, near.intercept, atol=1e-6)
    K = KERNEL.block(X, X[:40])
    assert_allclose(K @ far.weights, K @ near.weights, atol=1e-6)


def test_float32():
    X, Y = data(1000)
    single, double = solution_of(X.astype(np.float32), Y, 30, 10.0), solution_of(X, Y, 30, 10.0)
    assert single.converged
    assert_allclose(single.objective, double.objective, rtol=1e-4)


def test_residuals_that_are_all_rounding_count_as_solved():
    """Targets that float32 features reach exactly, times a thousand: what is left has no direction."""
    rng = np.random.default_rng(5)
    Phi = rng.standard_normal((300, 4)).astype(np.float32)
    Y = 1e3 * Phi.astype(np.float64) @ rng.standard_normal((4, 1)) + 7.0
    solution = solve(Problem(FeatureDesign(Phi, Y), LeastSquares(), 1e6))
    assert solution.converged
    assert_allclose(Phi @ solution.coordinates[:-1] + solution.intercept, Y, atol=1.0)


def test_a_second_step_repairs_what_the_first_lost():
    """Features of very different size: one solution of the normal equations, which need jitter, is not enough."""
    rng = np.random.default_rng(7)
    Phi = rng.standard_normal((60, 3)) * np.array([1.0, 1e-6, 1e6])
    solution = solve(Problem(FeatureDesign(Phi, 1e6 * rng.standard_normal((60, 1))), LeastSquares(), 1e3))
    assert solution.jitter > 0.0
    assert solution.converged
    assert solution.optimality[0] <= 1e-6


def test_what_is_not_solved_is_not_called_so():
    """Beyond the digits of float64 the gradient stays as large as its terms."""
    rng = np.random.default_rng(7)
    Phi = rng.standard_normal((60, 3)) * np.array([1.0, 1e-9, 1e9])
    Y = rng.standard_normal((60, 1)) * 1e9
    solution = solve(Problem(FeatureDesign(Phi, Y), LeastSquares(), 1e14))
    residual = Phi @ solution.coordinates[:-1] + solution.intercept - Y
    gradient = np.append(Phi.T @ residual, residual.sum()) * 1e14 + np.append(solution.coordinates[:-1], 0.0)
    terms = np.linalg.norm(solution.coordinates[:-1]) + 1e14 * (np.abs(residual).sum() + 1e-6 * len(Y))
    assert_allclose(solution.optimality[0], np.linalg.norm(gradient) / terms, rtol=1e-3)
    assert solution.optimality[0] > 1e-3
    assert not solution.converged


@pytest.mark.parametrize("intercept", [{}, {"penalize_intercept": True}, {"fit_intercept": False}], ids=str)
def test_running_sums_of_batches_give_the_weights_of_one_fit(intercept):
    rng = np.random.default_rng(8)
    Phi, Y = rng.standard_normal((90, 5)), rng.standard_normal((90, 2)) + 3.0
    whole = Problem(FeatureDesign(Phi, Y), LeastSquares(), 2.0, **intercept)
    parts = [replace(whole, design=FeatureDesign(Phi[part], Y[part])) for part in (slice(0, 40), slice(40, 90))]
    sums = running.batch_sums(parts[0], None) + running.batch_sums(parts[1], rng.standard_normal((6, 2)))
    found, expected = running.minimise_sums(whole, sums, 7), solve(whole)
    assert_allclose(found.coordinates, expected.coordinates, atol=1e-12)
    assert_allclose(found.objective, expected.objective, rtol=1e-12)
    assert np.all(found.optimality <= 1e-13)
    assert (found.n_iter, found.converged, found.jitter) == (7, True, 0.0)
    if "fit_intercept" in intercept:
        assert np.all(found.intercept == 0.0)
