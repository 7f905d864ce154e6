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


def test_dependent_candidates_come_after_independent_ones():
    rng = np.random.default_rng(1)
    B = rng.standard_normal((50, 12))
    B[30] = B[7]
    chosen = forward_select((B @ B.T)[None], rng.standard_normal((1, 50)), 20)
    assert len(np.unique(chosen)) == 20
    assert np.linalg.matrix_rank(B[chosen[:12]]) == 12


@pytest.mark.parametrize("exponent", [-8, -12, -16])
def test_a_nearly_singular_matrix_gives_all_that_are_asked_for(exponent):
    X = np.linspace(0, 1, 80)[:, None]
    K = RBF(0.1).gram(X) + 10.0**exponent * np.eye(80)
    chosen = forward_select(K[None], np.sin(9 * X).T, 40)
    assert len(np.unique(chosen)) == 40


@pytest.mark.parametrize("C", [1.0, 1e4, 1e8])
def test_a_wide_kernel_gives_all_that_are_asked_for_in_both_types(C):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((400, 4)).astype(np.float32)
    y = np.sin(X[:, :1].astype(np.float64)) + 0.1 * rng.standard_normal((400, 1))
    spec = Spec(RBF(1e-4), LeastSquares(), C)
    chosen = [GramSelector().select(Data(ArrayRows(X.astype(t), y)), spec, 60, Run(key=3)) for t in ("f4", "f8")]
    assert len(np.unique(chosen[0].indices)) == 60
    np.testing.assert_array_equal(chosen[0].indices, chosen[1].indices)
    order = rng.permutation(400)
    permuted = GramSelector().select(Data(ArrayRows(X[order], y[order])), spec, 60, Run(key=3))
    np.testing.assert_array_equal(chosen[0].indices, order[permuted.indices])


def test_fewer_distinct_rows_than_asked_for_are_said(caplog):
    X = np.repeat(np.arange(7.0)[:, None], 30, axis=0)
    chosen = GramSelector().select(Data(ArrayRows(X, np.sin(X))), Spec(RBF(1.0), LeastSquares()), 20, Run(key=1))
    assert chosen.n_basis == 7
    assert "20 basis vectors" in caplog.text
    assert "7 distinct rows" in caplog.text


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
