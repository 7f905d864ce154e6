"""The ridge path against the solution of every normal matrix on its own."""

import numpy as np
import pytest

from kompakt.solve.ridge import RidgePath


def problem(seed=0):
    rng = np.random.default_rng(seed)
    Phi = rng.standard_normal((40, 6)) * 10.0 ** np.arange(-2.0, 4.0)
    return Phi, rng.standard_normal((40, 2))


@pytest.mark.parametrize("amount", [1e-3, 1.0, 1e5])
def test_one_penalty_for_all(amount):
    Phi, Y = problem()
    path = RidgePath.of(Phi.T @ Phi)
    w = path.rotation @ ((Phi @ path.rotation).T @ Y / path.normal(amount)[:, None])
    np.testing.assert_allclose(w, np.linalg.solve(Phi.T @ Phi + amount * np.eye(6), Phi.T @ Y), rtol=1e-7)


@pytest.mark.parametrize("amount", [1e-3, 1.0, 1e3])
def test_a_column_without_penalty(amount):
    Phi, Y = problem()
    penalty = np.array([1.0, 0.0, 2.0, 1.0, 0.5, 1.0])
    normal = Phi.T @ Phi + np.diag(penalty)
    path = RidgePath.around(np.linalg.cholesky(normal).T, penalty, 1.0)
    turned = Phi @ path.rotation
    between = path.rotation.T @ np.diag(penalty) @ path.rotation
    np.testing.assert_allclose(between, np.diag(path.penalty(1.0)), atol=1e-9)
    w = path.rotation @ (turned.T @ Y / path.normal(amount)[:, None])
    np.testing.assert_allclose(w, np.linalg.solve(Phi.T @ Phi + amount * np.diag(penalty), Phi.T @ Y), rtol=1e-7)


def test_rank_below_the_number_of_columns():
    Phi, Y = problem()
    Phi[:, 3] = Phi[:, 2]
    path = RidgePath.of(Phi.T @ Phi)
    assert np.all(path.squares >= 0.0)
    assert np.all(np.isfinite((Phi @ path.rotation).T @ Y / path.normal(1e-6)[:, None]))
