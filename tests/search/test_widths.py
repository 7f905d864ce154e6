"""Widths by leave-one-out: the closed form, its gradient, and what it is for."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel

from kompakt import CompactSVC, CompactSVR, Refinement
from kompakt.data import ArrayRows
from kompakt.kernels import RBF
from kompakt.run import Run
from kompakt.search.widths import SAMPLE_ROWS, leave_one_out, leave_one_out_widths, priced, width_and_cost
from kompakt.spec import Data


@pytest.fixture
def problem():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.1 * rng.normal(size=(40, 2))
    return X, Y - Y.mean(axis=0), rng.uniform(0.5, 2.0, size=40)


def test_the_closed_form_is_leaving_every_row_out_once(problem):
    X, Y, s = problem
    gamma, C = np.array([0.5, 1.0, 2.0]), 7.0
    left_out = np.empty_like(Y)
    for i in range(len(X)):
        rest = np.delete(np.arange(len(X)), i)
        machine = KernelRidge(kernel="rbf", gamma=1.0, alpha=1.0 / C)
        machine.fit(X[rest] * np.sqrt(gamma), Y[rest], sample_weight=s[rest])
        left_out[i] = Y[i] - machine.predict(X[i : i + 1] * np.sqrt(gamma))[0]
    expected = np.sum(s[:, None] * left_out**2) / s.sum()
    value, _ = leave_one_out(np.append(np.log(gamma), np.log(C)), X, Y, s)
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("function", [leave_one_out, priced])
def test_gradient_by_finite_differences(problem, function):
    X, Y, s = problem
    point = np.array([-1.0, 0.2, 0.7, 1.5])
    _, gradient = function(point, X, Y, s)
    numeric = approx_fprime(point, lambda p: function(p, X, Y, s)[0], 1e-6)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-7)


def test_a_useless_feature_gets_a_wide_kernel_and_the_error_falls():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    found = leave_one_out_widths(ArrayRows(X, np.sin(3 * X[:, :1])), 0.2, 10.0, key=1)
    assert found.error < 0.5 * found.error_before
    assert found.gamma[0] > 10 * found.gamma[1:].max()


def test_only_a_sample_of_many_rows_is_looked_at():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * SAMPLE_ROWS, 2))
    found = leave_one_out_widths(ArrayRows(X, X[:, :1]), 0.5, 1.0, key=0, max_iter=2)
    assert found.n_kernel_evals > 0
    assert found.n_kernel_evals % SAMPLE_ROWS**2 == 0


def test_the_flagship_learns_them_with_gamma_loo():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = np.sin(3 * X[:, 0])
    machine = CompactSVR(20, gamma="loo", C=100.0, refine=Refinement(5), random_state=0).fit(X, y)
    assert machine.gamma_[0] > 5 * machine.gamma_[1:].max()
    assert machine.history_[0]["phase"] == "widths"
    plain = CompactSVR(20, gamma="scale", C=100.0, refine=False, random_state=0).fit(X, y)
    assert machine.score(X, y) > plain.score(X, y)
    labels = X[:, 0] > 0
    assert CompactSVC(10, gamma="loo", refine=Refinement(5), random_state=0).fit(X, labels).score(X, labels) > 0.9
    with pytest.raises(ValueError, match="refine=True"):
        CompactSVR(gamma="loo", refine=False).fit(X, y)
    with pytest.raises(ValueError, match="kernel='rbf'"):
        CompactSVR(gamma="loo", kernel="laplacian").fit(X, y)


@pytest.mark.parametrize("weighted", [False, True])
def test_width_and_cost_are_those_of_naive_leave_one_out(weighted):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 2))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(60)
    s = rng.integers(1, 4, 60).astype(float) if weighted else np.ones(60)
    found = width_and_cost(Data(ArrayRows(X, y[:, None], s)), RBF(0.2), None, Run())
    target = y - np.average(y, weights=s)
    costs = 10.0 ** np.arange(-1.0, 6.5, 0.5) / s.mean()
    errors = {}
    for gamma in 0.2 * 2.0 ** np.arange(-6, 7):
        K = rbf_kernel(X, gamma=gamma)
        for C in costs:
            left_out = 0.0
            for i in range(60):
                rest = np.arange(60) != i
                alpha = np.linalg.solve(K[rest][:, rest] + np.diag(1.0 / (C * s[rest])), target[rest])
                left_out += s[i] * (target[i] - K[i, rest] @ alpha) ** 2
            errors[float(gamma), float(C)] = left_out
    point = min(errors, key=lambda one: abs(np.log(one[0] / found.kernel.gamma)) + abs(np.log(one[1] / found.C)))
    assert point == pytest.approx((found.kernel.gamma, found.C))
    assert errors[point] < 1.001 * min(errors.values())


def test_too_few_rows_keep_the_usual_values():
    X = np.arange(5.0)[:, None]
    found = width_and_cost(Data(ArrayRows(X, X)), RBF(0.3), None, Run())
    assert (found.kernel.gamma, found.C) == (0.3, 1.0)
