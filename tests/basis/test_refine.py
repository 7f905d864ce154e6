"""Refinement: its gradient, and that it never makes a machine worse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from kompakt.basis.build import descended
from kompakt.basis.race import Arm
from kompakt.basis.refine import RefinementObjective
from kompakt.data import ArrayRows
from kompakt.kernels import RBF, BentRBF, CallableKernel, Laplacian, Linear, MappedRBF, Polynomial
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
from kompakt.piecewise import PiecewiseLinear
from kompakt.run import Run
from kompakt.spec import Spec

BENDS = PiecewiseLinear(np.array([[-0.5, 0.4], [0.1, np.inf], [0.0, 0.9]]), np.array([[1.2, 0.7, -0.3]] * 3))
KERNELS = {
    "rbf": RBF(0.4),
    "rbf per feature": RBF(np.array([0.2, 0.5, 0.9])),
    "mapped rbf": MappedRBF(np.array([[0.5, -0.2, 0.1], [0.3, 0.6, 0.0], [-0.4, 0.1, 0.7]])),
    "mapped rbf of rank 1": MappedRBF(np.array([[0.5, -0.2, 0.4]])),
    "bent rbf": BentRBF(MappedRBF(np.diag([0.5, 0.6, 0.7])), BENDS),
    "laplacian": Laplacian(0.3),
    "polynomial": Polynomial(0.3, 1.0, 3),
    "linear": Linear(),
    "1 + rbf": 1 + RBF(0.4),
    "product": RBF(0.3) * Polynomial(0.5, 1.0, 2),
}
CLASS_LOSSES = [SquaredHinge(), LeastSquares(), HuberHinge(0.5), Hinge()]
REGRESSION_LOSSES = [LeastSquares(), Huber(0.5), EpsilonInsensitive(0.1), Absolute(), Quantile(0.3)]


def data(regression, n_outputs=1, n=120):
    rng = np.random.default_rng(7)
    X = rng.standard_normal((n, 3))
    Y = np.column_stack([np.sin(X @ rng.standard_normal(3) + k) for k in range(n_outputs)])
    Y += 0.3 * rng.standard_normal(Y.shape)
    return X, (Y if regression else np.where(Y > 0, 1.0, -1.0)), rng.uniform(0.5, 1.5, n)


def check_gradient(kernel, loss, n_outputs, tolerance):
    X, Y, weights = data(loss.for_regression and not loss.for_classes, n_outputs)
    Z = X[:4] + 0.05
    learn = len(kernel.theta) > 0
    objective = RefinementObjective(ArrayRows(X, Y, weights), Spec(kernel, loss, 2.0), learn_width=learn, tol=1e-11)
    _, d_basis, d_theta = objective.value_and_gradient(kernel, Z)
    rng = np.random.default_rng(1)
    step = 1e-5
    for _ in range(3):
        dZ, dt = rng.standard_normal(Z.shape), rng.standard_normal(len(kernel.theta)) if learn else np.empty(0)

        def at(s, dZ=dZ, dt=dt):
            moved = kernel.with_theta(kernel.theta + s * dt) if learn else kernel
            return objective.value_and_gradient(moved, Z + s * dZ)[0]

        numeric = (at(step) - at(-step)) / (2 * step)
        analytic = np.vdot(d_basis, dZ) + (d_theta @ dt if learn else 0.0)
        assert abs(numeric - analytic) <= tolerance * max(1.0, abs(numeric))


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_gradient_for_every_kernel(kernel):
    check_gradient(kernel, SquaredHinge(), 2, 2e-5)


def test_entries_beside_the_diagonal_of_a_map_cost():
    X, Y, weights = data(False)
    spec = Spec(MappedRBF(np.diag([0.5, 0.6, 0.7])), SquaredHinge(), 2.0)
    rows = ArrayRows(X, Y, weights)

    def value(kernel, rows=rows, learn=True):
        objective = RefinementObjective(rows, spec, learn_width=learn, tol=1e-11)
        objective.value_and_gradient(spec.kernel, X[:4])
        return objective.value_and_gradient(kernel, X[:4])[0]

    oblique = MappedRBF(spec.kernel.map + 0.1 * np.eye(3)[::-1] * [1, 0, 1])
    extra = value(oblique) - value(oblique, learn=False)
    assert extra > 0
    wider = MappedRBF(spec.kernel.map * 1.1)
    assert value(wider) == pytest.approx(value(wider, learn=False), rel=1e-12)  # its diagonal is free
    # a prior is worth as much for twice as many rows, and weights are repetitions
    twice = ArrayRows(np.concatenate([X, X]), np.concatenate([Y, Y]), np.concatenate([weights, weights]))
    half = ArrayRows(X, Y, 2.0 * weights)
    assert value(oblique, twice) == pytest.approx(value(oblique, half), rel=1e-6)


@pytest.mark.parametrize("kernel", [RBF(0.4), RBF(np.array([0.2, 0.5, 0.9]))], ids=["one width", "per feature"])
@pytest.mark.parametrize("loss", CLASS_LOSSES + REGRESSION_LOSSES, ids=repr)
def test_gradient_for_every_loss(kernel, loss):
    check_gradient(kernel, loss, 1, 2e-5)


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize("as_csr", [False, True])
def test_objective_falls_and_the_result_has_it(learn, as_csr):
    X, Y, weights = data(False, 2, n=400)
    rows = ArrayRows(sparse.csr_matrix(X) if as_csr else X, Y, weights)
    spec = Spec(RBF(0.4), SquaredHinge(), 5.0)
    before = RefinementObjective(rows, spec, learn_width=learn).value_and_gradient(spec.kernel, X[:5])[0]
    moved = descended(rows, Arm(spec, "one" if learn else None), X[:5], 30, Run())
    after = RefinementObjective(rows, replace(spec, kernel=moved.kernel), learn_width=learn, tol=1e-10)
    assert after.value_and_gradient(moved.kernel, moved.basis)[0] < 0.95 * before
    assert moved.basis.shape == (5, 3)
    assert (moved.kernel.gamma != 0.4) == learn


def test_kernels_without_derivatives_are_refused():
    X, Y, _ = data(False)
    with pytest.raises(TypeError, match="refine=False"):
        descended(ArrayRows(X, Y), Arm(Spec(CallableKernel(lambda A, B: A @ B.T))), X[:3], 5, Run())
