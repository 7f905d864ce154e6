"""kompakt's own parts keep their contracts, and the suites notice broken ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

from kompakt.basis import RandomSelector
from kompakt.basis.gram import GramSelector
from kompakt.data import ArrayRows
from kompakt.kernels import RBF, Constant, Laplacian, Linear, MappedRBF, Polynomial
from kompakt.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    HuberHinge,
    LeastSquares,
    Quantile,
    SquaredHinge,
)
from kompakt.solve import solve
from kompakt.spec import Data
from kompakt.testing import (
    CountingKernel,
    check_kernel,
    check_loss,
    check_rows,
    check_selector,
    check_solver,
)

KERNELS = [
    RBF(0.5),
    RBF(np.array([0.2, 0.7, 1.1])),
    MappedRBF([[0.6, 0.1, -0.2], [0.0, 0.5, 0.3]]),
    1 + MappedRBF(np.eye(3)),
    Laplacian(0.4),
    Linear(),
    Polynomial(0.5, 1.0, 3),
    Polynomial(0.5, 0.0, 2),
    1 + RBF(0.5),
    RBF(0.3) * Polynomial(0.5, 1.0, 2),
    Linear() + Laplacian(0.4),
    CountingKernel(RBF(0.5)),
    2.0 * Constant(1.0) + RBF(1.0),
]
LOSSES = [
    SquaredHinge(), Hinge(), LeastSquares(), HuberHinge(0.5), Huber(0.7), Absolute(), EpsilonInsensitive(0.2),
    Quantile(0.3),
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels(kernel):
    check_kernel(kernel)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses(loss):
    check_loss(loss)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_solvers(loss):
    check_solver(solve, loss)


@pytest.mark.parametrize("selector", [RandomSelector(), GramSelector(n_candidates=30)], ids=repr)
def test_selectors(selector):
    check_selector(selector)


def test_row_sources():
    X = np.random.default_rng(0).standard_normal((50, 4))
    y = np.ones((50, 2))
    check_rows(ArrayRows(X, y), X, y)
    check_rows(ArrayRows(X, offset=X.mean(axis=0)), X - X.mean(axis=0))
    check_rows(ArrayRows(sparse.csr_matrix(X)), X)


@dataclass(frozen=True)
class WrongGradient(RBF):
    def gradients(self, X, Z, K, W):
        d_basis, d_theta = super().gradients(X, Z, K, W)
        return 1.01 * d_basis, d_theta


class WrongScaling(MappedRBF):
    """Takes the map for logarithms of widths."""

    def scaled(self, factor):
        return WrongScaling(self.map + np.log(factor))


@dataclass(frozen=True)
class WrongCurvature(SquaredHinge):
    def curvature(self, y, f):
        return np.ones_like(f)


@dataclass(frozen=True)
class FirstRows:
    def select(self, data, spec, n_basis, run):
        return RandomSelector().select(Data(ArrayRows(data.rows.X[:n_basis])), spec, n_basis, run)


def early(problem, start, settings):
    from dataclasses import replace

    return replace(solve(problem, start, replace(settings, max_iter=1)), converged=True)


@pytest.mark.parametrize(
    ("check", "part", "message"),
    [
        (check_kernel, WrongGradient(0.5), "derivative with respect to the basis"),
        (check_kernel, WrongScaling(np.eye(3)), "k\\(x, x\\) with the factor"),
        (check_loss, WrongCurvature(), "curvature"),
        (check_selector, FirstRows(), "order of the rows"),
        (lambda solver: check_solver(solver, SquaredHinge()), early, "optimality conditions"),
        (lambda rows: check_rows(rows, np.ones((4, 2))), ArrayRows(np.ones((4, 3))), "expected 4 x 2"),
    ],
)
def test_broken_parts_are_noticed(check, part, message):
    with pytest.raises(AssertionError, match=message):
        check(part)
