"""Finite Newton on the squared hinge: optimality conditions, foreign solvers, and invariants."""

import time
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import cholesky
from sklearn.svm import SVC, LinearSVC

from kompakt.data import ArrayRows
from kompakt.design import Design, FeatureDesign
from kompakt.kernels import RBF
from kompakt.losses import Hinge, Huber, LeastSquares, Rounded, SquaredHinge
from kompakt.parallel import block_threads
from kompakt.run import Run
from kompakt.solve import Problem, Settings, dense, line_search, newton, solve

KERNEL = RBF(0.5)
INTERCEPTS = {
    "free": {},
    "penalised": {"penalize_intercept": True},
    "none": {"fit_intercept": False},
}


def data(n=400, d=3, seed=0, outputs=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = np.sin(2 * X[:, [0]]) + X[:, [1]] * np.linspace(0.5, 1.5, outputs) + 0.4 * rng.normal(size=(n, outputs))
    return X, np.where(score > 0.3, 1.0, -1.0)


def problem_of(X, y, m=30, C=10.0, weights=None, kernel=KERNEL, store=None, block_rows=57, **intercept):
    basis = X[:m].copy()
    design = Design(ArrayRows(X, y, weights), kernel, basis, whiten=True, store=store, block_rows=block_rows)
    return Problem(design, SquaredHinge(), C, **intercept)


def relative_gradient(X, y, weights, C, solution, output=0, m=30, penalised=False, free=True):
    """The gradient in raw coordinates (beta, b), written out, relative to the size of its terms."""
    K, gram = KERNEL.block(X, X[:m]), KERNEL.gram(X[:m])
    beta, b = solution.weights[:, output], solution.intercept[output]
    s = np.ones(len(X)) if weights is None else weights
    slack = np.maximum(0.0, 1.0 - y[:, output] * (K @ beta + b))
    slopes = -C * s * y[:, output] * slack
    gradient = gram @ beta + K.T @ slopes
    terms = np.linalg.norm(gram @ beta) + np.linalg.norm(np.abs(K).T @ np.abs(slopes))
    of_intercept = slopes.sum() + (b if penalised else 0.0) if free else 0.0
    return np.hypot(np.linalg.norm(gradient), of_intercept) / (terms + np.abs(slopes).sum())


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("C", [1e-3, 10.0, 1e5])
def test_optimality_conditions(intercept, C):
    X, y = data()
    solution = solve(problem_of(X, y, C=C, **INTERCEPTS[intercept]))
    assert solution.converged
    kind = {"penalised": intercept == "penalised", "free": intercept != "none"}
    assert relative_gradient(X, y, None, C, solution, **kind) < 1e-6
    if intercept == "none":
        assert solution.intercept[0] == 0.0


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_from_the_outputs_of_a_similar_machine_the_minimum_is_the_same(intercept):
    """All rows in one block: a few full steps, without passes and line search."""
    X, y = data(outputs=2)
    problem = problem_of(X, y, C=3.0, store=True, block_rows=len(X), **INTERCEPTS[intercept])
    whole = solve(problem)
    similar = KERNEL.block(X, X[:30]) @ whole.weights * 0.9 + 0.05
    near = solve(problem, outputs=similar)
    assert near.converged
    assert_allclose(near.objective, whole.objective, rtol=1e-9)
    assert_allclose(near.intercept, whole.intercept, atol=1e-6)
    for output in (0, 1):
        kind = {"penalised": intercept == "penalised", "free": intercept != "none"}
        assert relative_gradient(X, y, None, 3.0, near, output, **kind) < 1e-6


def test_objective_is_the_one_of_the_design_document():
    X, y = data()
    s = np.random.default_rng(1).uniform(0.1, 3.0, len(X))
    solution = solve(problem_of(X, y, weights=s))
    beta = solution.weights[:, 0]
    f = KERNEL.block(X, X[:30]) @ beta + solution.intercept
    expected = 0.5 * beta @ KERNEL.gram(X[:30]) @ beta + 10.0 * np.sum(s * 0.5 * np.maximum(0, 1 - y[:, 0] * f) ** 2)
    assert_allclose(solution.objective[0], expected, rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_all_rows_as_basis_against_libsvm(weighted):
    """The squared-hinge machine is a hard-margin one with 1 / (C s_i) added to the kernel's diagonal."""
    X, y = data(150)
    C, s = 3.0, np.random.default_rng(2).uniform(0.5, 2.0, 150) if weighted else np.ones(150)
    kernel = RBF(2.0)
    K = kernel.gram(X)
    foreign = SVC(kernel="precomputed", C=1e10, tol=1e-11).fit(K + np.diag(1.0 / (C * s)), y[:, 0])
    beta = np.zeros(150)
    beta[foreign.support_] = foreign.dual_coef_[0]
    solution = solve(problem_of(X, y, m=150, C=C, kernel=kernel, weights=s if weighted else None))
    assert_allclose(K @ solution.weights[:, 0] + solution.intercept, K @ beta + foreign.intercept_, atol=1e-6)
    assert_allclose(solution.weights[:, 0], beta, atol=1e-6)
    assert_allclose(solution.intercept, foreign.intercept_, atol=1e-6)


@pytest.mark.parametrize("intercept", ["none", "penalised"])
def test_all_rows_as_basis_against_liblinear(intercept):
    X, y = data(120)
    kernel, C = RBF(2.0), 3.0
    R = cholesky(kernel.gram(X))
    foreign = LinearSVC(C=C / 2, tol=1e-12, max_iter=10**6, fit_intercept=intercept == "penalised", random_state=0)
    foreign.fit(R.T, y[:, 0])
    expected = R.T @ foreign.coef_[0] + foreign.intercept_
    solution = solve(problem_of(X, y, m=120, C=C, kernel=kernel, **INTERCEPTS[intercept]))
    assert_allclose(kernel.gram(X) @ solution.weights[:, 0] + solution.intercept, expected, atol=1e-6)


def test_weight_two_is_the_row_twice_and_zero_is_absence():
    X, y = data()
    s = np.random.default_rng(3).integers(0, 4, len(X)).astype(float)
    s[:30] = 1.0  # the basis stays in place
    repeats = s.astype(int)
    weighted = solve(problem_of(X, y, weights=s))
    repeated = solve(problem_of(np.repeat(X, repeats, axis=0), np.repeat(y, repeats, axis=0)))
    assert_allclose(weighted.coordinates, repeated.coordinates, rtol=1e-8, atol=1e-9)
    assert relative_gradient(X, y, s, 10.0, weighted) < 1e-6


def test_several_outputs_are_solved_as_one_at_a_time():
    X, y = data(outputs=4)
    together = solve(problem_of(X, y))
    assert together.converged
    for output in range(4):
        alone = solve(problem_of(X, y[:, [output]]))
        assert_allclose(together.coordinates[:, output], alone.coordinates[:, 0], rtol=1e-8, atol=1e-9)
        assert_allclose(together.objective[output], alone.objective[0], rtol=1e-11)
        assert relative_gradient(X, y, None, 10.0, together, output) < 1e-6


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("C", [0.1, 10.0, 1e4])
def test_many_outputs_share_their_hessians_over_steps_and_end_where_newton_ends(C, store, monkeypatch):
    X, y = data(1200, outputs=7)
    kept = solve(problem_of(X, y, C=C, store=store))
    monkeypatch.setattr(newton, "MANY_OUTPUTS", 100)  # a Hessian of its own in every step
    plain = solve(problem_of(X, y, C=C, store=store))
    assert kept.converged
    assert np.all(kept.optimality <= 1e-8)
    assert_allclose(kept.objective, plain.objective, rtol=1e-11)
    assert_allclose(kept.coordinates, plain.coordinates, rtol=1e-7, atol=1e-8 * np.abs(plain.coordinates).max())
    for output in range(7):
        assert relative_gradient(X, y, None, C, kept, output) < 1e-8


@pytest.mark.parametrize("n_jobs", [2, 4])
def test_many_outputs_at_any_number_of_threads(n_jobs):
    X, y = data(1500, outputs=5)
    alone = solve(problem_of(X, y, store=True))
    with block_threads(n_jobs):
        many = solve(problem_of(X, y, store=True))
        recomputed = solve(problem_of(X, y, store=False))
    assert alone.coordinates.tobytes() == many.coordinates.tobytes()
    assert alone.coordinates.tobytes() == recomputed.coordinates.tobytes()


@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_outputs_of_a_similar_machine_are_a_start(intercept, outputs):
    """They tell which rows are active: nearer to the solution than the old weights, and the solution is the same."""
    X, y = data(1000, outputs=outputs)
    before = problem_of(X, y, **INTERCEPTS[intercept])
    old = solve(before)
    f = before.design.matvec(old.coordinates[:-1]) + old.intercept
    X = X.copy()
    X[:30] += 0.02 * np.random.default_rng(8).normal(size=(30, X.shape[1]))  # the basis moves a little
    problem = problem_of(X, y, **INTERCEPTS[intercept])
    cold, warm = solve(problem), solve(problem, outputs=f)
    assert warm.converged
    begin = Settings(max_iter=0)
    weights = np.concatenate([problem.design.to_coordinates(old.weights), old.intercept[None]])
    assert np.all(solve(problem, None, begin, f).optimality < 0.3 * solve(problem, weights, begin).optimality)
    assert_allclose(warm.coordinates, cold.coordinates, rtol=1e-7, atol=1e-8 * np.abs(cold.coordinates).max())
    # outputs beyond every margin tell nothing: the start is the usual one
    far = solve(problem, outputs=100.0 * y)
    assert_allclose(far.coordinates, cold.coordinates, rtol=1e-7, atol=1e-8 * np.abs(cold.coordinates).max())


def test_weights_per_output():
    """One-vs-one: weight 0 takes a row out of one output only."""
    X, y = data(outputs=2)
    s = (np.random.default_rng(4).uniform(size=y.shape) < 0.6).astype(float)
    together = solve(problem_of(X, y, weights=s))
    for output in range(2):
        assert relative_gradient(X, y, s[:, output], 10.0, together, output) < 1e-6


def test_warm_start_gives_the_same_answer_sooner():
    X, y = data(2000)
    before = solve(problem_of(X, y, m=20, C=100.0, block_rows=None))
    problem = problem_of(X, y, m=24, C=100.0, block_rows=None)
    cold, warm = solve(problem), solve(problem, before.coordinates)
    assert warm.n_iter < cold.n_iter
    assert_allclose(warm.coordinates, cold.coordinates, rtol=1e-7, atol=1e-8)
    assert solve(problem, cold.coordinates).n_iter <= 1


@pytest.mark.parametrize("outputs", [1, 3])
def test_hessian_by_change_equals_the_full_one(outputs):
    X, y = data(1000, outputs=outputs)
    problem = problem_of(X, y, weights=np.random.default_rng(5).uniform(0.5, 2, 1000))
    rng = np.random.default_rng(6)
    theta = solve(problem, settings=Settings(max_iter=3, tol=1e-3)).coordinates
    step = 0.05 * rng.normal(size=theta.shape)
    which = np.arange(outputs)
    known = newton.run_pass(problem, theta, None, which, None)
    full = newton.run_pass(problem, theta, step, which, None)
    by_change = newton.run_pass(problem, theta, step, which, replace(known, changed=0.0))
    for name in ("losses", "gradient", "hessian", "active"):
        assert_allclose(getattr(by_change, name), getattr(full, name), rtol=1e-10, atol=1e-9, err_msg=name)
    assert 0 < full.changed < 0.25
    K = problem.design.matrix
    f = K @ (theta + step)[:-1] + (theta + step)[-1]
    active = problem.design.rows.weights[:, None] * (y * f < 1) * problem.C
    features = np.column_stack([K, np.ones(len(K))])
    for output in range(outputs):
        naive = features.T @ (active[:, [output]] * features)
        assert_allclose(full.hessian[output], naive, rtol=1e-10, atol=1e-9)


def test_fits_use_the_hessian_by_change_and_end_at_the_same_point(monkeypatch):
    X, y = data(3000)
    used = []
    original = newton.newton_sums

    def spy(*arguments):
        used.append(bool(arguments[-3]))  # by_change, before the values and the block
        return original(*arguments)

    monkeypatch.setattr(newton, "newton_sums", spy)
    updated = solve(problem_of(X, y))
    assert any(used), "no pass took the cheap road: the test has lost its point"
    pass_of = newton.run_pass
    monkeypatch.setattr(newton, "run_pass", lambda *arguments, **how: pass_of(*arguments[:-1], None, **how))
    full = solve(problem_of(X, y))
    assert_allclose(updated.coordinates, full.coordinates, rtol=1e-9, atol=1e-10)


def test_an_iteration_is_one_pass():
    X, y = data(3000)
    problem = problem_of(X, y, store=False, block_rows=None)
    solution = solve(problem)
    assert problem.design.n_passes <= solution.n_iter + 3


@pytest.mark.parametrize("n_jobs", [2, 4])
def test_threads_and_storage_change_nothing(n_jobs):
    X, y = data(1500)
    alone = solve(problem_of(X, y, store=True))
    with block_threads(n_jobs):
        many = solve(problem_of(X, y, store=True))
        recomputed = solve(problem_of(X, y, store=False))
    assert alone.coordinates.tobytes() == many.coordinates.tobytes()
    assert alone.coordinates.tobytes() == recomputed.coordinates.tobytes()


def test_float32():
    X, y = data(2000)
    single = solve(problem_of(X.astype(np.float32), y, block_rows=None))
    double = solve(problem_of(X, y, block_rows=None))
    assert single.converged
    assert_allclose(single.objective, double.objective, rtol=1e-5)
    K = KERNEL.block(X, X[:30])
    difference = K @ (single.weights - double.weights) + (single.intercept - double.intercept)
    assert np.max(np.abs(difference)) < 2e-3


def test_duplicated_basis_vectors_are_solved_with_jitter_and_reported():
    X, y = data()
    X[1] = X[0]
    solution = solve(problem_of(X, y))
    assert solution.converged
    assert 0 < solution.jitter < 1e-10
    assert relative_gradient(X, y, None, 10.0, solution) < 1e-6


def test_limits_of_iterations_and_time():
    X, y = data()
    problem = problem_of(X, y, C=1e5)
    short = solve(problem, settings=Settings(max_iter=1))
    assert not short.converged
    assert short.n_iter == 1
    late = solve(problem, settings=Settings(run=Run(deadline=time.monotonic() - 1.0)))
    assert not late.converged
    assert late.n_iter == 0


def test_one_class_far_from_the_margin():
    """All targets alike: the intercept alone satisfies them, and the weights vanish."""
    X, y = data()
    solution = solve(problem_of(X, np.ones_like(y)))
    assert solution.converged
    assert_allclose(solution.objective, 0.0, atol=1e-9)


@pytest.mark.parametrize("intercept", ["none", "free", "penalised"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("C", [0.1, 1e4])
@pytest.mark.parametrize("loss", [SquaredHinge(), LeastSquares(), Huber(0.3)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("near", ["zero", "near", "wild"])
def test_starting_from_outputs_ends_at_the_same_minimum(loss, C, weighted, intercept, near):
    rng = np.random.default_rng(1)
    Phi = rng.standard_normal((200, 12))
    y = np.where(Phi[:, :2] + 0.5 * rng.standard_normal((200, 2)) > 0.3, 1.0, -1.0)
    design = FeatureDesign(Phi, y, rng.uniform(0.5, 2.0, 200) if weighted else None)
    problem = Problem(design, loss, C, intercept != "none", intercept == "penalised")
    expected = solve(problem)
    f = design.matvec(expected.coordinates[:-1]) + expected.intercept
    outputs = {"zero": 0.0 * f, "near": f + 0.1 * rng.standard_normal(f.shape), "wild": 100.0 * y}[near]
    found = solve(problem, None, Settings(1e-10), outputs)
    assert_allclose(found.objective, expected.objective, rtol=1e-9)
    assert_allclose(found.coordinates, expected.coordinates, atol=1e-6)
    assert found.converged


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", [SquaredHinge(), Huber(0.3)], ids=lambda loss: loss.name)
def test_a_small_problem_near_its_minimum_is_solved_by_full_steps(loss, intercept, dtype):
    """Where no digits are left it ends as well, instead of leaving the problem to the long way."""
    rng = np.random.default_rng(2)
    Phi = rng.standard_normal((150, 8)).astype(dtype)
    y = np.where(Phi[:, :2] + 0.5 * rng.standard_normal((150, 2)) > 0.8, 1.0, -1.0)
    problem = Problem(FeatureDesign(Phi, y), loss, 10.0, intercept != "none", intercept == "penalised")
    assert dense.is_small(problem)
    whole = newton.minimise(problem, None, Settings(1e-12))
    outputs = Phi @ whole.coordinates[:-1] + whole.intercept + 0.05 * rng.standard_normal((150, 2))
    for tol in (1e-6, 0.0):
        near = dense.minimise_from(problem, outputs, Settings(tol))
        assert near.converged
        assert near.n_iter <= 12
        digits = 1e-9 if dtype == np.float64 else 1e-4
        assert_allclose(near.objective, whole.objective, rtol=digits)
        assert_allclose(near.coordinates, whole.coordinates, atol=100 * digits)
        if intercept == "none":
            assert np.all(near.intercept == 0.0)
    assert not dense.minimise_from(problem, 1000.0 * y, Settings(max_iter=1)).converged
    far = dense.minimise_from(problem, 1000.0 * y, Settings(1e-6))
    assert far.converged
    assert_allclose(far.objective, whole.objective, rtol=digits)


def test_weights_shrink_where_no_row_has_a_loss():
    """Nothing is singular about it: no curvature but that of the penalty, and no jitter."""
    Phi = np.random.default_rng(0).standard_normal((40, 3))
    Phi[:, 0] = np.where(np.arange(40) % 2, 2.0, -2.0)
    problem = Problem(FeatureDesign(Phi, np.sign(Phi[:, :1])), SquaredHinge(), 1.0)
    start = np.array([[50.0], [0.0], [0.0], [0.0]])
    solution = solve(problem, start)
    assert solution.converged
    assert solution.jitter == 0.0
    assert_allclose(solution.coordinates, solve(problem).coordinates, atol=1e-8)


@pytest.mark.parametrize("trials", [1, 7])
def test_predictions_that_cannot_be_held_are_searched_by_passes(trials, monkeypatch):
    """Full steps fail on a sharp bend; shorter ones are found whether predictions are held or not."""
    X, y = data(300)
    problem = replace(problem_of(X, y, C=3.0), loss=Rounded(Hinge(), 0.01))
    held = newton.minimise(problem)
    searched, by_passes = [], newton.guarded_roots
    monkeypatch.setattr(newton, "_MOST_HELD", 0)
    monkeypatch.setattr(newton, "_TRIALS", newton._TRIALS[:trials])
    monkeypatch.setattr(newton, "guarded_roots", lambda *a, **k: searched.append(by_passes(*a, **k)) or searched[-1])
    passed = newton.minimise(problem)
    assert searched, "every full step was taken: the test has lost its point"
    assert passed.converged
    assert_allclose(passed.objective, held.objective, rtol=1e-9)
    assert_allclose(passed.coordinates, held.coordinates, atol=1e-6)


def test_slopes_along_a_step_are_the_derivatives_of_the_losses():
    X, y = data(50)
    Phi, weights = np.random.default_rng(3).standard_normal((50, 4)), np.random.default_rng(4).uniform(0.5, 2.0, 50)
    theta, step = np.random.default_rng(5).standard_normal((2, 5, 1))
    block = ArrayRows(X, y, weights).block(0, 50)
    steps, output, loss = np.array([0.0, 0.3, 2.0]), np.array([0]), SquaredHinge()
    first, second = (part[0] for part in newton._slopes_of_block(loss, theta, step, output, steps[None], Phi, block))

    def value(t):
        return weights @ loss.value(y, Phi @ (theta + t * step)[:-1] + (theta + t * step)[-1])[:, 0]

    h = 1e-5
    assert_allclose(first, [(value(t + h) - value(t - h)) / (2 * h) for t in steps], rtol=1e-6)
    at = [theta + t * step for t in steps]
    curvature = [loss.curvature(y, Phi @ each[:-1] + each[-1])[:, 0] for each in at]
    along = Phi @ step[:-1, 0] + step[-1, 0]
    assert_allclose(second, [weights @ (along**2 * each) for each in curvature], rtol=1e-12)


def test_the_gradient_is_measured_against_the_size_of_its_terms():
    Phi, y = np.array([[1.0], [2.0]]), np.array([[1.0], [-1.0]])
    theta = np.array([[3.0], [0.5]])
    for kind, of_intercept in (("free", 0.0), ("penalised", 0.5), ("none", None)):
        problem = Problem(FeatureDesign(Phi, y), SquaredHinge(), 2.0, **INTERCEPTS[kind])
        sums = newton.run_pass(problem, theta, None, np.array([0]), None)
        # margins 3.5 and -6.5: the second row alone has a loss, of slope 7.5
        gradient = np.array([3.0 + 2.0 * 7.5 * 2.0, 2.0 * 7.5 + (of_intercept or 0.0)])
        size = 3.0 + 2.0 * 7.5 + 1e-6 * 2.0 * 2.0
        expected = abs(gradient[0]) if of_intercept is None else np.linalg.norm(gradient)
        assert_allclose(newton.relative_gradient(problem, theta, sums), expected / size, rtol=1e-12)


def test_curvatures_are_held_for_a_descent_while_they_are_few(monkeypatch):
    X, y = data(100, outputs=3)
    rough, exact = Settings(tol=1e-6), Settings()
    features = Problem(FeatureDesign(X, y), SquaredHinge(), 1.0)
    monkeypatch.setattr(newton, "_MOST_HELD", 300)
    assert newton._room_for_curvature(features, 3, rough).shape == (3, 100)
    assert newton._room_for_curvature(features, 4, rough) is None
    assert newton._room_for_curvature(features, 3, exact) is None
    assert newton._room_for_curvature(problem_of(X, y), 3, rough) is None


@pytest.mark.parametrize("loss", [SquaredHinge(), LeastSquares()], ids=lambda loss: loss.name)
def test_no_intercept_is_no_reason_for_jitter(loss):
    Phi = np.random.default_rng(0).standard_normal((50, 4))
    problem = Problem(FeatureDesign(Phi, np.sign(Phi[:, :1] + 0.3)), loss, 1.0, fit_intercept=False)
    for outputs in (None, np.zeros((50, 1))):
        solution = solve(problem, outputs=outputs)
        assert solution.jitter == 0.0
        assert solution.intercept[0] == 0.0


def test_sums_of_the_outputs_that_still_move():
    rng = np.random.default_rng(1)
    Phi, y = rng.standard_normal((30, 3)), rng.standard_normal((30, 2))
    theta, keep = np.zeros((4, 2)), np.array([False, True])
    problem = Problem(FeatureDesign(Phi, np.sign(y)), SquaredHinge(), 1.0)
    sums = newton.run_pass(problem, theta, None, np.arange(2), None)
    kept, moving = newton._keep(sums, np.array([4, 7]), keep)
    assert moving.tolist() == [7]
    assert_allclose(kept.hessian, sums.hessian[1:])
    for name in ("losses", "gradient", "magnitude", "active"):
        assert_allclose(getattr(kept, name)[..., 0], getattr(sums, name)[..., 1], err_msg=name)


def test_jitter_of_a_small_problem_is_reported(monkeypatch):
    monkeypatch.setattr(line_search, "compiled", lambda: None)  # which ends at the minimum without it
    Phi = np.repeat(np.random.default_rng(0).standard_normal((50, 2)), 2, axis=1)
    y = np.sign(Phi[:, :1] + 0.3 * np.random.default_rng(1).standard_normal((50, 1)))
    problem = Problem(FeatureDesign(Phi, y), LeastSquares(), 1e18)
    near = dense.minimise_from(problem, y.copy(), Settings())
    assert near.jitter > 0.0


def test_outputs_with_weights_of_their_own_are_never_alike():
    rng = np.random.default_rng(2)
    Phi, y, weights = (
        rng.standard_normal((40, 3)),
        np.sign(rng.standard_normal((40, 3))),
        rng.uniform(0.1, 2.0, (40, 3)),
    )
    outputs, theta = np.arange(3), np.zeros((4, 3))
    for own in (weights, weights[:, 0]):
        problem = Problem(FeatureDesign(Phi, y, own), SquaredHinge(), 1.0)
        plain = newton.run_pass(problem, theta, None, outputs, None)
        alike = newton.run_pass(problem, theta, None, outputs, None, alike=True)
        assert_allclose(alike.hessian, plain.hessian, rtol=1e-12, atol=1e-12)
        assert_allclose(alike.active, plain.active)


def test_a_linear_term_is_part_of_the_objective():
    rng = np.random.default_rng(9)
    Phi, y = rng.standard_normal((80, 5)), np.sign(rng.standard_normal((80, 1)))
    linear = 0.5 * rng.standard_normal((6, 1))
    solution = solve(Problem(FeatureDesign(Phi, y), SquaredHinge(), 2.0, linear=linear))
    assert solution.converged
    theta = solution.coordinates
    slack = np.maximum(0.0, 1.0 - y * (Phi @ theta[:-1] + theta[-1]))
    gradient = np.vstack([theta[:-1] - 2.0 * Phi.T @ (y * slack), -2.0 * np.sum(y * slack, axis=0)]) + linear
    assert np.max(np.abs(gradient)) < 1e-5
    objective = 0.5 * np.sum(theta[:-1] ** 2, axis=0) + np.sum(slack**2, axis=0) + np.sum(linear * theta, axis=0)
    assert_allclose(solution.objective, objective, rtol=1e-10)


def test_the_end_of_all_digits_is_an_end():
    """Targets of a thousand and a cost of a million: the gradient cannot fall as far as is asked, the objective can."""
    ended = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        Phi = rng.standard_normal((300, 8)) + 3.0
        y = 1e3 * np.sign(Phi[:, :1] - 3.0 + 0.5 * rng.standard_normal((300, 1)))
        problem = Problem(FeatureDesign(Phi, y), Huber(0.3), 1e6)
        whole = newton.minimise(problem, None, Settings(tol=0.0))
        assert whole.converged
        outputs = Phi @ whole.coordinates[:-1] + whole.intercept + 0.01 * rng.standard_normal((300, 1))
        near = dense.minimise_from(problem, outputs, Settings(tol=0.0))
        assert near.converged
        assert_allclose(near.objective, whole.objective, rtol=1e-12)
        ended += max(near.optimality[0], whole.optimality[0]) > 50 * np.finfo(float).eps
    assert ended
