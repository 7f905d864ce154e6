"""Optimality conditions for every loss, kernel, number of outputs and kind of weights."""

from __future__ import annotations

import numpy as np
import pytest

from kompakt.data import ArrayRows
from kompakt.design import Design
from kompakt.kernels import RBF, Laplacian, Linear, Polynomial
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
from kompakt.solve import Problem, Settings, solve
from kompakt.testing import stationarity

KERNELS = [RBF(0.5), RBF(np.array([0.2, 0.5, 0.9])), Laplacian(0.4), Linear(), Polynomial(0.3, 1.0, 3), 1 + RBF(0.5)]
LOSSES = [
    SquaredHinge(), Hinge(), LeastSquares(), HuberHinge(0.5), Huber(0.5), Absolute(), EpsilonInsensitive(0.1),
    Quantile(0.2),
]  # fmt: skip


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_optimality(loss, kernel, n_outputs, weighted):
    rng = np.random.default_rng(n_outputs)
    X = rng.standard_normal((90, 3))
    raw = np.column_stack([np.sin(X[:, k % 3] + k) for k in range(n_outputs)]) + 0.3 * rng.standard_normal(
        (90, n_outputs)
    )
    y = np.where(raw > 0, 1.0, -1.0) if loss.for_classes else raw
    weights = rng.uniform(0.1, 3.0, 90) if weighted else None
    for C, penalize in ((0.3, False), (30.0, True)):
        design = Design(ArrayRows(X, y, weights), kernel, X[:12], whiten=True)
        solution = solve(Problem(design, loss, C, penalize_intercept=penalize), None, Settings(tol=1e-10))
        assert solution.converged
        for output in range(n_outputs):
            theta = solution.coordinates[:, output]
            off = stationarity(
                loss, C, design.matrix, y[:, output], theta[:-1], theta[-1],
                sample_weight=weights, penalize_intercept=penalize,
            )  # fmt: skip
            assert off <= 1e-6
