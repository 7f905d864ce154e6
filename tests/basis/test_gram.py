"""Gram-space selection against brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from kompakt.basis.gram import GramSelector, forward_select
from kompakt.data import ArrayRows, hash_rows, smallest_distinct
from kompakt.kernels import RBF
from kompakt.losses import Hinge, LeastSquares, SquaredHinge
from kompakt.run import Run
from kompakt.spec import Data, Spec


def ridge_objective(K, G, subset, Y, C, weights, intercept):
    """Objective of the least-squares machine on a subset, solved from scratch with the rows themselves."""
    S = np.asarray(subset)
    features = np.column_stack([K[:, S], np.ones(len(K))]) if intercept else K[:, S]
    penalty = np.zeros((features.shape[1],) * 2)
    penalty[: len(S), : len(S)] = G[np.ix_(S, S)]
    A = penalty + C * features.T @ (weights[:, None] * features)
    b = np.linalg.solve(A, C * features.T @ (weights[:, None] * Y))
    residual = Y - features @ b
    return 0.5 * np.einsum("jl,jk,kl->", b, penalty, b) + 0.5 * C * np.sum(weights[:, None] * residual**2)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_selection_equals_forward_selection_with_full_refits(intercept, n_outputs):
    rng = np.random.default_rng(n_outputs)
    X = rng.standard_normal((60, 3))
    Y = rng.standard_normal((60, n_outputs)) + X[:, :1]
    weights = rng.uniform(0.5, 2.0, 60)
    kernel, C = RBF(0.3), 3.0
    rows = ArrayRows(X, Y, weights)
    chosen = GramSelector(n_candidates=25, n_rounds=1).select(
        Data(rows), Spec(kernel, LeastSquares(), C, fit_intercept=intercept), 6, Run(key=5)
    )
    pool = smallest_distinct(hash_rows(X, 6), 25)  # the candidates of the first round
    K, G = kernel.block(X, X[pool]), kernel.gram(X[pool])
    brute: list[int] = []
    for _ in range(6):
        left = [j for j in range(25) if j not in brute]
        brute.append(min(left, key=lambda j: ridge_objective(K, G, [*brute, j], Y, C, weights, intercept)))
    np.testing.assert_array_equal(chosen.indices, pool[brute])


def test_first_two_are_near_the_best_pair():
    rng = np.random.default_rng(0)
    B = rng.standard_normal((12, 12))
    A, r = B @ B.T + np.eye(12), rng.standard_normal((1, 12))

    def gain(pair):
        S = list(pair)
        return r[0, S] @ np.linalg.solve(A[np.ix_(S, S)], r[0, S])

    greedy = gain(forward_select(A[None], r, 2))
    assert greedy >= 0.7 * max(gain(pair) for pair in combinations(range(12), 2))


def test_dependent_candidates_are_passed_over():
    B = np.random.default_rng(1).standard_normal((5, 2))
    assert len(forward_select((B @ B.T)[None], np.ones((1, 5)), 5)) == 2


@pytest.mark.parametrize("loss", [SquaredHinge(), Hinge()])
def test_rounds_do_not_raise_the_objective(loss):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((600, 2))
    y = np.sign(np.sin(2 * X[:, 0]) + X[:, 1])[:, None]
    info = (
        GramSelector(n_candidates=60, n_rounds=3, settle=-1.0)
        .select(Data(ArrayRows(X, y)), Spec(RBF(1.0), loss, 10.0), 10, Run(key=1))
        .info
    )
    objectives = [record["objective"] for record in info["rounds"]]
    assert len(objectives) == 3
    assert min(objectives) < 1.02 * objectives[0]
    assert info["n_kernel_evals"] > 0


def test_selection_does_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((300, 3))
    y = np.sign(X[:, 0] * X[:, 1])[:, None]
    order = rng.permutation(300)
    spec = Spec(RBF(0.5), SquaredHinge())
    one = GramSelector().select(Data(ArrayRows(X, y)), spec, 12, Run(key=2))
    two = GramSelector().select(Data(ArrayRows(X[order], y[order])), spec, 12, Run(key=2))
    np.testing.assert_array_equal(one.indices, order[two.indices])
