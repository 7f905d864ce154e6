"""A thousand bases with duplicated vectors: all are solved, and the jitter is reported."""

from __future__ import annotations

import numpy as np
import pytest

from kompakt.data import ArrayRows
from kompakt.design import Design
from kompakt.kernels import RBF, Laplacian, Linear, Polynomial
from kompakt.linalg import factorise
from kompakt.losses import Hinge, LeastSquares, SquaredHinge
from kompakt.solve import Problem, solve

KERNELS = [RBF(0.5), RBF(0.01), Laplacian(0.5), Linear(), Polynomial(0.5, 1.0, 2)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_a_hundred_bases_with_duplicates(kernel, dtype):
    jittered = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        m = int(rng.integers(4, 30))
        distinct = rng.standard_normal((m, 3)).astype(dtype)
        share = rng.uniform(0.1, 0.9)
        copies = rng.random(m) < share
        basis = distinct.copy()
        basis[copies] = distinct[rng.integers(0, m, int(copies.sum()))]
        gram = kernel.gram(basis)
        factor = factorise(gram, dtype=dtype)
        rest = np.abs(factor.R.T @ factor.R - gram - factor.jitter * np.eye(m)).max()
        assert rest <= 1e-12 * m * np.max(np.diag(gram)) + 1e-14
        jittered += factor.jitter > 0
        X = rng.standard_normal((40, 3)).astype(dtype)
        y = np.where(X[:, :1] > 0, 1.0, -1.0)
        design = Design(ArrayRows(X, y), kernel, basis, whiten=True)
        assert design.jitter == factor.jitter
        for loss in (SquaredHinge(), LeastSquares(), *([Hinge()] if seed % 4 == 0 else [])):
            solution = solve(Problem(design, loss, 10.0))
            assert solution.converged
            assert np.all(np.isfinite(solution.weights))
            assert solution.jitter >= factor.jitter
    assert jittered > 50  # most of them are singular
