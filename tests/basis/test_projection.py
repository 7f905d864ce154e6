"""Greedy projection against the algorithm as it is printed, against LAPACK's pivoted Cholesky, and its promises."""

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import lapack
from sklearn.datasets import make_blobs

from kompakt import GreedyProjection
from kompakt.basis import ProjectionSelector
from kompakt.data import ArrayRows
from kompakt.kernels import RBF, CallableKernel, Linear, Polynomial, Precomputed
from kompakt.parallel import block_threads
from kompakt.run import Run
from kompakt.spec import Data, Spec

KERNELS = [RBF(0.2), Polynomial(0.5, 1.0, 2), 1 + RBF(0.3)]


def rows_of(n=700, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def naive(K, first, m, epsilon=0.0):
    """Algorithm 1 of Franc and Hlavac 2003 with its formulas for beta and se, one vector at a time."""
    chosen, errors = [first], None
    while True:
        part = K[np.ix_(chosen, chosen)]
        B = np.linalg.solve(part, K[chosen])  # eq. 2
        errors = np.diag(K) - 2 * np.sum(K[chosen] * B, axis=0) + np.sum(B * (part @ B), axis=0)
        outside = errors.copy()
        outside[chosen] = -np.inf
        if len(chosen) == m or outside.max() < epsilon:
            return np.array(chosen), errors
        chosen.append(int(np.argmax(outside)))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("m", [1, 7, 14])
def test_the_same_vectors_and_errors_as_the_printed_algorithm(kernel, m):
    X = rows_of()
    found = ProjectionSelector().project(ArrayRows(X), kernel, m, Run(5))
    K = kernel.gram(X)
    expected, errors = naive(K, found.basis.indices[0], m)
    np.testing.assert_array_equal(found.basis.indices, expected)
    np.testing.assert_allclose(found.errors, errors, atol=1e-8 * K.max())
    chosen = found.basis.indices
    gamma = np.linalg.solve(np.linalg.cholesky(K[np.ix_(chosen, chosen)]), K[chosen]).T  # eq. 3
    np.testing.assert_allclose(found.features, gamma, atol=1e-8 * np.sqrt(K.max()))
    np.testing.assert_allclose(found.mse[-1], errors.mean(), atol=1e-8 * K.max())
    np.testing.assert_allclose(found.se_max[-1], errors.max(), atol=1e-8 * K.max())


def test_batches_choose_as_one_at_a_time_where_many_are_needed():
    X = rows_of(1500, 6, seed=1)
    kernel = RBF(0.1)
    found = ProjectionSelector().project(ArrayRows(X), kernel, 120, Run(2))
    assert found.n_rounds < 60
    expected, _ = naive(kernel.gram(X), found.basis.indices[0], 120)
    np.testing.assert_array_equal(found.basis.indices, expected)


def test_it_is_pivoted_cholesky_of_the_kernel_matrix():
    X = rows_of(200, 3, seed=3)
    K = Polynomial(1.0, 1.0, 3).gram(X)  # unequal diagonal: LAPACK's first pivot is the largest k(x, x)
    found = ProjectionSelector(first="norm").project(ArrayRows(X), Polynomial(1.0, 1.0, 3), 15, Run(0))
    _, pivots, _, _ = lapack.dpstrf(K)
    np.testing.assert_array_equal(found.basis.indices, pivots[:15] - 1)
    R = found.factor.R
    np.testing.assert_allclose(R.T @ R, K[np.ix_(found.basis.indices, found.basis.indices)], rtol=1e-10)
    np.testing.assert_allclose(found.basis.scores, np.diag(R) ** 2)


def test_errors_of_every_size_are_those_of_that_size():
    X = rows_of(300, 3)
    rows, kernel = ArrayRows(X), RBF(0.5)
    for rule in (ProjectionSelector(), ProjectionSelector(pivot="random")):
        path = rule.project(rows, kernel, 40, Run(1))
        K = kernel.gram(X)
        for m in (1, 10, 39):
            chosen = path.basis.indices[:m]
            B = np.linalg.solve(K[np.ix_(chosen, chosen)], K[chosen])
            errors = np.diag(K) - np.sum(K[chosen] * B, axis=0)
            np.testing.assert_allclose([path.mse[m - 1], path.se_max[m - 1]], [errors.mean(), errors.max()], rtol=1e-6)


@pytest.mark.parametrize("pivot", ["max", "random"])
def test_the_kernel_is_exact_once_the_basis_spans_the_rows(pivot):
    X = rows_of(150, 3)
    kernel = Polynomial(1.0, 1.0, 2)  # 10 dimensions
    found = ProjectionSelector(pivot=pivot).project(ArrayRows(X), kernel, 100, Run(0))
    assert found.basis.n_basis == 10
    np.testing.assert_allclose(found.features @ found.features.T, kernel.gram(X), atol=1e-9)
    assert ProjectionSelector(pivot=pivot).project(ArrayRows(X), Linear(), 100, Run(0)).basis.n_basis == 3


def test_epsilon_stops_when_every_error_is_below_it_and_no_sooner():
    X = rows_of(400, 2)
    rows, kernel = ArrayRows(X), RBF(0.5)
    found = ProjectionSelector(max_error=1e-3).project(rows, kernel, 400, Run(0))
    m = found.basis.n_basis
    assert m < 100
    assert found.errors.max() < 1e-3 <= found.se_max[-2]
    shorter = ProjectionSelector(max_error=1e-3).project(rows, kernel, m - 1, Run(0))
    np.testing.assert_array_equal(shorter.basis.indices, found.basis.indices[:-1])


def test_random_draws_follow_the_errors():
    # two vectors from four far-apart rows, one of weight 3: P(drawn) of the weighted one is known in closed form
    X = 100.0 * np.eye(4)
    weights = np.array([3.0, 1.0, 1.0, 1.0])
    rule = ProjectionSelector(pivot="random", first="norm")
    rows = ArrayRows(X, weights=weights)
    hits = [0 in rule.select(Data(rows), Spec(RBF(1.0)), 2, Run(key)).indices for key in range(600)]
    expected = 1.0 - (3 / 6) * (2 / 5)  # not first (each other row 1/6), not second (3/6 -> then 2/5 of the rest)
    assert np.mean(hits) == pytest.approx(expected, abs=0.06)


def test_random_draws_give_a_smaller_mean_and_a_larger_maximum():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(2000, 5)), 6 * rng.normal(size=(40, 5))])  # a few outliers
    rows, kernel = ArrayRows(X), RBF(0.1)
    largest = ProjectionSelector().project(rows, kernel, 40, Run(0))
    drawn = [ProjectionSelector(pivot="random").project(rows, kernel, 40, Run(key)) for key in range(3)]
    assert np.mean([p.mse[-1] for p in drawn]) < largest.mse[-1]
    assert min(p.se_max[-1] for p in drawn) > largest.se_max[-1]


@pytest.mark.parametrize("pivot", ["max", "random"])
def test_order_duplicates_weights_sparsity_memory_and_threads_do_not_matter(pivot):
    X = np.round(rows_of(300, 4), 1)
    X[X < 0] = 0.0
    kernel, rule = RBF(0.3), ProjectionSelector(pivot=pivot)
    base = rule.select(Data(ArrayRows(X)), Spec(kernel), 20, Run(4)).vectors
    order = np.random.default_rng(1).permutation(len(X))
    np.testing.assert_array_equal(rule.select(Data(ArrayRows(X[order])), Spec(kernel), 20, Run(4)).vectors, base)
    csr = rule.select(Data(ArrayRows(sparse.csr_matrix(X))), Spec(kernel), 20, Run(4))
    np.testing.assert_allclose(csr.vectors, base)
    unstored = ProjectionSelector(pivot=pivot, memory_budget=0).project(
        ArrayRows(X), kernel, 20, Run(4), keep_features=False
    )
    assert unstored.features is None
    np.testing.assert_array_equal(unstored.basis.vectors, base)
    with block_threads(2):
        np.testing.assert_array_equal(rule.select(Data(ArrayRows(X)), Spec(kernel), 20, Run(4)).vectors, base)
    weights = np.random.default_rng(2).integers(1, 4, len(X))
    weighted = rule.project(ArrayRows(X, weights=weights.astype(float)), kernel, 20, Run(4))
    repeated = rule.project(ArrayRows(np.repeat(X, weights, axis=0)), kernel, 20, Run(4))
    np.testing.assert_array_equal(weighted.basis.vectors, repeated.basis.vectors)
    np.testing.assert_allclose(weighted.mse, repeated.mse, rtol=1e-9)


def test_precomputed_and_callable_kernels_choose_alike():
    X = rows_of(120, 3)
    K = RBF(0.4).gram(X)
    base = ProjectionSelector(first="norm").project(ArrayRows(X), RBF(0.4), 12, Run(0)).basis.indices
    call = ProjectionSelector(first="norm").project(ArrayRows(X), CallableKernel(RBF(0.4).block), 12, Run(0))
    np.testing.assert_array_equal(call.basis.indices, base)
    found = ProjectionSelector(first="norm").project(ArrayRows(K), Precomputed(K), 12, Run(0))
    expected, _ = naive(K, found.basis.indices[0], 12)  # the hash sees other rows, so another first vector
    np.testing.assert_array_equal(found.basis.indices, expected)


def test_float32_rows_reach_the_accuracy_of_float32():
    X = rows_of(500, 5)
    single = ProjectionSelector().project(ArrayRows(X.astype(np.float32)), RBF(0.2), 60, Run(0))
    K = RBF(0.2).gram(X.astype(np.float32))
    assert single.features.dtype == np.float32
    kept = single.basis.indices
    np.testing.assert_allclose(single.features[kept] @ single.features[kept].T, K[np.ix_(kept, kept)], atol=2e-4)


def test_batch_takes_the_given_number_per_step():
    X = rows_of(1000, 5)
    found = ProjectionSelector(batch=10).project(ArrayRows(X), RBF(0.1), 51, Run(0))
    assert found.basis.n_basis == 51
    assert found.n_rounds == 6  # the first vector, then five tens
    exact = ProjectionSelector().project(ArrayRows(X), RBF(0.1), 51, Run(0))
    assert found.se_max[-1] < 1.5 * exact.se_max[-1]


def test_given_rows_come_first():
    found = ProjectionSelector().project(ArrayRows(rows_of(100)), RBF(0.3), 6, Run(0), given=np.array([9, 4]))
    assert found.basis.indices[:2].tolist() == [9, 4]
    assert found.basis.n_basis == 6


def test_kernel_values_are_few():
    n, m = 4000, 50
    found = ProjectionSelector().project(ArrayRows(rows_of(n, 5)), RBF(0.1), m, Run(0))
    assert found.n_kernel_evals < 1.6 * n * m


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pivot": "largest"}, "pivot must be one of"),
        ({"first": "last"}, "first must be one of"),
        ({"max_error": -1.0}, "max_error must be"),
        ({"batch": 0}, "batch must be"),
    ],
)
def test_unknown_rules_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ProjectionSelector(**options)


def test_rows_that_the_kernel_sends_to_zero_are_refused():
    with pytest.raises(ValueError, match="zero for every row"):
        ProjectionSelector().select(Data(ArrayRows(np.zeros((5, 2)))), Spec(Linear()), 2, Run(0))


@pytest.mark.parametrize("seed", [8, 29])
def test_wide_kernels_end_where_every_error_is_rounding(seed):
    # errors within one step of the ordering above the rounding level were neither taken nor given up: an endless loop
    X = np.random.default_rng(seed).standard_t(2, size=(112, 5)).round(1)
    assert GreedyProjection(100, gamma=1e-4, random_state=0).fit(X).n_basis_ <= 100


def test_many_rows_at_the_rounding_level_are_given_up_in_turn():
    X = make_blobs(4800, centers=3, cluster_std=3.0, random_state=0)[0]
    for gamma in (1e-5, 1e-4, 1e-3):
        assert GreedyProjection(20, gamma=gamma, random_state=0).fit(X).n_basis_ <= 20
