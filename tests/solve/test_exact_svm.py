"""With all rows as basis a machine is the exact SVM: against LIBSVM on real data, and linear programs' duals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, SVR

from kompakt.data import ArrayRows
from kompakt.design import Design
from kompakt.kernels import RBF, Linear, Polynomial
from kompakt.losses import Absolute, EpsilonInsensitive, Hinge, Quantile
from kompakt.solve import Problem, Settings, solve

CLASS_SETS = [
    "heart_statlog",
    "pima",
    "ripley",
    "ida_banana",
    "ida_thyroid",
    "ida_titanic",
    "ida_german",
    "spambase",
    "wisconsin",
]
REGRESSION_SETS = ["boston", "concrete", "california"]
KERNELS = {
    "linear": (Linear(), {"kernel": "linear"}),
    "poly": (Polynomial(0.1, 1.0, 2), {"kernel": "poly", "gamma": 0.1, "coef0": 1.0, "degree": 2}),
    "rbf": (RBF(0.1), {"kernel": "rbf", "gamma": 0.1}),
}


def rows_of(data, n, seed=0):
    """At most n rows of a set without missing values, standardised."""
    X, y = (data["X"], data["y"]) if "X" in data else (data["X_train"], data["y_train"])
    X, y = X.astype(float), y.astype(float)
    complete = np.isfinite(X).all(axis=1)
    X, y = X[complete], y[complete]
    index = np.random.default_rng(seed).permutation(len(X))[:n]
    X, y = X[index], y[index]
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), y


def on_all_rows(X, y, kernel, loss, C):
    design = Design(ArrayRows(X, y[:, None]), kernel, X, whiten=True)
    solution = solve(Problem(design, loss, C), None, Settings(tol=1e-9, max_iter=500))
    K, beta, b = kernel.block(X, X), solution.weights[:, 0], float(solution.intercept[0])
    f = K @ beta + b
    return f, 0.5 * float(beta @ kernel.gram(X) @ beta) + C * float(np.sum(loss.value(y, f))), K


@pytest.mark.data
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", CLASS_SETS)
def test_hinge_is_the_svc(shared_data, name, kernel):
    X, y = rows_of(shared_data(name), 120)
    ours, words = KERNELS[kernel]
    for C in (0.1, 1.0, 100.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            svc = SVC(C=C, tol=1e-8, max_iter=200_000, **words).fit(X, y)
        if svc.fit_status_:  # LIBSVM does not get there on rows that no plane separates: ask it for less
            svc = SVC(C=C, tol=1e-3, **words).fit(X, y)
        f, primal, K = on_all_rows(X, y, ours, Hinge(), C)
        alpha = np.zeros(len(X))
        alpha[svc.support_] = svc.dual_coef_[0]
        dual = np.abs(alpha).sum() - 0.5 * alpha @ K @ alpha
        assert abs(primal - dual) <= 1e-6 * abs(dual), f"C = {C}: primal {primal}, dual {dual}"
        free = np.any((np.abs(alpha) > 1e-9 * C) & (np.abs(alpha) < C * (1 - 1e-9)))
        if free and svc.tol < 1e-6:  # else the bias is not unique, or LIBSVM's is not exact
            np.testing.assert_allclose(f, svc.decision_function(X), atol=1e-3)


@pytest.mark.data
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("name", [*REGRESSION_SETS, "pima"])
def test_epsilon_insensitive_is_the_svr(shared_data, name, kernel):
    X, y = rows_of(shared_data(name), 120)
    if name == "pima":
        y = X @ np.arange(X.shape[1]) + np.sin(X[:, 0])
    y = (y - y.mean()) / y.std()
    ours, words = KERNELS[kernel]
    for C in (0.1, 10.0):
        svr = SVR(C=C, epsilon=0.1, tol=1e-8, **words).fit(X, y)
        f, primal, K = on_all_rows(X, y, ours, EpsilonInsensitive(0.1), C)
        alpha = np.zeros(len(X))
        alpha[svr.support_] = svr.dual_coef_[0]
        dual = alpha @ y - 0.1 * np.abs(alpha).sum() - 0.5 * alpha @ K @ alpha
        assert abs(primal - dual) <= 1e-6 * abs(dual)
        np.testing.assert_allclose(f, svr.predict(X), atol=1e-3)


@pytest.mark.parametrize(("loss", "low", "high"), [(Absolute(), -1.0, 1.0), (Quantile(0.8), -0.2, 0.8)])
def test_absolute_and_quantile_against_their_dual(loss, low, high):
    """max a'y - 1/2 a'K a over sum a = 0 and C low <= a_i <= C high, by a general solver."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * rng.standard_normal(40)
    C = 2.0
    _, primal, K = on_all_rows(X, y, RBF(0.5), loss, C)
    found = minimize(
        lambda a: (0.5 * a @ K @ a - a @ y, K @ a - y),
        np.zeros(40),
        jac=True,
        method="SLSQP",
        bounds=[(C * low, C * high)] * 40,
        constraints={"type": "eq", "fun": np.sum, "jac": lambda a: np.ones(40)},
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    assert primal == pytest.approx(-found.fun, rel=1e-6)
