"""The growing machine against full fits; its factors against matrices formed from scratch."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from tests.basis.naive import column, data, full_fit, grown, machine_for

from kompakt.data import ArrayRows
from kompakt.design import Design
from kompakt.kernels import RBF, Precomputed
from kompakt.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    HuberHinge,
    LeastSquares,
    Quantile,
    Rounded,
    SquaredHinge,
)
from kompakt.solve import Problem, Settings, line_search, solve
from kompakt.solve.line_search import minimise_along

LOSSES = [SquaredHinge(), HuberHinge(0.8), LeastSquares()]


@pytest.fixture(params=["compiled", "numpy"])
def way(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(line_search, "compiled", lambda: None)
    else:
        pytest.importorskip("numba")
    return request.param


def check_hessian(machine):
    """H and its factors are those of the definition, for the curvature that is kept."""
    A, penalty = machine.lines, np.diag(machine.penalty[: machine.width])
    for output in range(len(machine.H)):
        expected = penalty + (machine.curvatures[output] * A) @ A.T
        R = np.triu(machine.factor(output).R)
        assert_allclose(R.T @ R, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("intercept", [True, False])
def test_objective_is_that_of_a_full_fit(way, loss, intercept):
    X, y, s = data()
    kernel = RBF(0.5) if intercept else 1 + RBF(0.5)
    machine, records = grown(machine_for(X, y, kernel, loss, 3.0, s, fit_intercept=intercept), 12)
    basis = X[machine.indices]
    best = full_fit(kernel.block(X, basis), kernel.gram(basis), y[:, 0], s, loss, 3.0, intercept)
    assert_allclose(records[-1]["objective"], best, rtol=1e-8)
    solution = machine.solution()
    f = kernel.block(X, basis) @ solution.weights + solution.intercept
    assert_allclose(f.T, machine.f, atol=1e-8)
    check_hessian(machine)


def test_several_outputs_share_the_basis_and_nothing_else(way):
    X, y, s = data(outputs=3)
    machine, _ = grown(machine_for(X, y, RBF(0.5), SquaredHinge(), 2.0, s), 10)
    basis = X[machine.indices]
    K, K_basis = RBF(0.5).block(X, basis), RBF(0.5).gram(basis)
    best = [full_fit(K, K_basis, y[:, i], s, SquaredHinge(), 2.0) for i in range(3)]
    assert_allclose(machine.objective(), best, rtol=1e-8)
    check_hessian(machine)


def test_factors_stay_right_while_the_pieces_are_kept(way):
    X, y, _ = data(200)
    machine = machine_for(X, y, RBF(0.5), SquaredHinge(), 5.0, capacity=40)
    for index in range(40):
        sound = machine.append(index, column(machine, index), 1.0)
        if index % 7 == 0:
            machine.retrain()
        check_hessian(machine)
        # the objective with the pieces kept is quadratic and solved: its gradient is zero
        p = machine.width
        gradient = machine.penalty[:p] * machine.theta[0, :p] + machine.lines @ machine.slopes[0]
        if sound:
            assert np.abs(gradient).max() < 1e-3 * np.abs(machine.slopes).sum()


def test_zero_weights_are_followed_and_not_trained_on():
    X, y, s = data()
    s[:20] = 0.0
    machine, _ = grown(machine_for(X, y, RBF(0.5), SquaredHinge(), 3.0, s), 8)
    other = machine_for(X[20:], y[20:], RBF(0.5), SquaredHinge(), 3.0, s[20:])
    inside = [index for index in machine.indices if index >= 20]
    if len(inside) < 8:  # held-out rows may be basis vectors here: train on the same vectors
        basis = X[machine.indices]
        best = full_fit(RBF(0.5).block(X[20:], basis), RBF(0.5).gram(basis), y[20:, 0], s[20:], SquaredHinge(), 3.0)
    else:
        for index in machine.indices:
            other.append(index - 20, column(other, index - 20), 1.0)
        other.retrain(1e-10, thorough=True)
        best = float(other.objective()[0])
    assert_allclose(float(machine.objective()[0]), best, rtol=1e-8)


def test_truncated_machine_is_the_smaller_machine():
    X, y, s = data()
    machine, _ = grown(machine_for(X, y, RBF(0.5), SquaredHinge(), 3.0, s), 12)
    first = machine.indices[:5]
    machine.truncate(5)
    machine.retrain(1e-10, thorough=True)
    basis = X[first]
    best = full_fit(RBF(0.5).block(X, basis), RBF(0.5).gram(basis), y[:, 0], s, SquaredHinge(), 3.0)
    assert machine.indices == first
    assert_allclose(float(machine.objective()[0]), best, rtol=1e-8)


def test_whole_training_set_is_the_exact_machine():
    X, y, _ = data(80)
    kernel = 1 + RBF(0.5)
    machine, _ = grown(machine_for(X, y, kernel, SquaredHinge(), 10.0, capacity=80, fit_intercept=False), 80)
    # Newton on the full kernel matrix: (K_II + I / C) beta_I = y_I, where beta_i = C max(0, 1 - y f) y
    # (Keerthi et al. 2006, eq. 2)
    K, target = kernel.gram(X), y[:, 0]
    active = np.arange(80)
    for _ in range(100):
        beta = np.zeros(80)
        beta[active] = np.linalg.solve(K[np.ix_(active, active)] + np.eye(len(active)) / 10.0, target[active])
        fresh = np.flatnonzero(target * (K @ beta) < 1)
        if np.array_equal(fresh, active):
            break
        active = fresh
    exact = 0.5 * beta @ K @ beta + 5.0 * np.sum(np.maximum(0, 1 - target * (K @ beta)) ** 2)
    assert_allclose(float(machine.objective()[0]), exact, rtol=1e-6)
    assert_allclose(machine.f[0], K @ beta, atol=1e-5)


def test_whole_training_set_agrees_with_the_ordinary_solver():
    X, y, s = data(80)
    machine, _ = grown(machine_for(X, y, RBF(0.5), SquaredHinge(), 10.0, s, capacity=80), 80)
    design = Design(ArrayRows(X, y, s), RBF(0.5), X, whiten=True)
    solution = solve(Problem(design, SquaredHinge(), 10.0), None, Settings(tol=1e-10))
    assert_allclose(float(machine.objective()[0]), float(solution.objective[0]), rtol=1e-6)


def test_shrinking_ends_at_the_same_optimum():
    X, y, _ = data(600, seed=3)
    y = np.where(np.sin(2 * X[:, :1]) + X[:, 1:2] > 0, 1.0, -1.0)
    machine, _ = grown(machine_for(X, y, RBF(0.3), SquaredHinge(), 10.0, capacity=40), 40, shrinking=True)
    assert machine.live is not None
    assert len(machine.live) < 600
    basis = X[machine.indices]
    design = Design(ArrayRows(X, y), RBF(0.3), basis, whiten=True)
    solution = solve(Problem(design, SquaredHinge(), 10.0), None, Settings(tol=1e-10))
    f = RBF(0.3).block(X, basis) @ machine.solution().weights + machine.solution().intercept
    gone = np.setdiff1d(np.arange(600), machine.live)
    assert np.all(y[gone] * f[gone] >= 1)
    assert_allclose(float(machine.objective()[0]), float(solution.objective[0]), rtol=1e-7)


def test_precomputed_kernel_grows_like_the_kernel_itself():
    X, y, _ = data()
    direct, _ = grown(machine_for(X, y, RBF(0.5), SquaredHinge(), 3.0), 6, selection="cholesky")
    K = RBF(0.5).gram(X)
    given = machine_for(K, y, Precomputed(K), SquaredHinge(), 3.0)
    for index in direct.indices:
        given.append(index, column(given, index), float(given.columns.diagonal(np.array([index]))[0]))
    given.retrain(1e-10, thorough=True)
    assert_allclose(given.objective(), direct.objective(), rtol=1e-8)


def test_memory_that_does_not_suffice_is_named():
    X, y, _ = data()
    with pytest.raises(MemoryError, match="memory_budget"):
        machine_for(X, y, RBF(0.5), SquaredHinge(), 3.0, memory_budget=1000)


def test_piecewise_linear_loss_is_refused():
    X, y, _ = data()
    with pytest.raises(ValueError, match="piecewise quadratic"):
        machine_for(X, y, RBF(0.5), Hinge(), 3.0)


def test_rows_in_the_span_end_growth():
    X = np.repeat(np.eye(3), 5, axis=0)
    y = np.where(np.arange(15) % 2, 1.0, -1.0)[:, None]
    machine, records = grown(machine_for(X, y, RBF(1.0), SquaredHinge(), 1.0), 10)
    assert machine.n_basis == len(records) == 3


# -- along a line: against a brute-force search, compiled and in NumPy --------------------------------------

ALL_LOSSES = [
    *LOSSES,
    Huber(0.7),
    *(Rounded(loss, 0.3) for loss in (Hinge(), Absolute(), EpsilonInsensitive(0.4), Quantile(0.8))),
]


def line_problem(seed, B=3, k=4, n=50, groups=2):
    rng = np.random.default_rng(seed)
    y = np.where(rng.uniform(size=(B, n)) < 0.5, -1.0, 1.0)
    f = rng.normal(size=(B, n))
    s = rng.integers(0, 3, (B, n)).astype(float)
    columns = rng.normal(size=(groups, k, n))
    group = rng.integers(0, groups, B)
    a, q = rng.normal(size=(B, k)), rng.uniform(0.1, 2.0, (B, k))
    return y, f, s, columns, a, q, rng.uniform(0.1, 10.0, B), group


@pytest.mark.parametrize("loss", ALL_LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("seed", range(3))
def test_minimum_along_a_line_equals_brute_force(way, loss, seed):
    y, f, s, columns, a, q, C, group = line_problem(seed)
    t, decrease = minimise_along(loss, y, f, C[:, None] * s, columns, a, q, group=group)
    for b in range(len(y)):
        for j in range(columns.shape[1]):
            c = columns[group[b], j]

            def phi(x, b=b, j=j, c=c):
                gain = loss.value(y[b], f[b] + x * c) - loss.value(y[b], f[b])
                return a[b, j] * x + 0.5 * q[b, j] * x * x + C[b] * np.sum(s[b] * gain)

            best = minimize_scalar(phi, bracket=(-1, 1), options={"xtol": 1e-10})
            assert_allclose(decrease[b, j], -best.fun, rtol=1e-6, atol=1e-9)
            assert_allclose(t[b, j], best.x, atol=1e-4)


def test_starts_that_overshoot(way):
    # one row far from the kink and a tiny q: the first Newton step lands far away, where curvature is different
    y, f, s = np.ones((1, 2)), np.array([[2.0, -1000.0]]), np.ones((1, 2))
    columns = np.array([[[1.0, 1e-3]]])
    t, decrease = minimise_along(SquaredHinge(), y, f, s, columns, np.zeros((1, 1)), np.full((1, 1), 1e-9), tol=1e-9)
    slope = 1e-9 * t[0, 0] - 1e-3 * max(0.0, 1001.0 - 1e-3 * t[0, 0]) - max(0.0, 1.0 - 2.0 - t[0, 0])
    assert abs(slope) < 1e-6
    assert decrease[0, 0] > 0


def test_no_slope_no_step(way):
    y, f, s = np.ones((1, 3)), np.full((1, 3), 5.0), np.ones((1, 3))
    zero, one = np.zeros((1, 1)), np.ones((1, 1))
    t, decrease = minimise_along(SquaredHinge(), y, f, s, np.ones((1, 1, 3)), zero, one)
    assert t[0, 0] == 0.0
    assert decrease[0, 0] == 0.0
