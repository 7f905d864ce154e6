"""Fisher discriminants against the matrices of Franc and Hlavac 2003 written out, closed forms and brute force."""

import numpy as np
import pytest

from kompakt import KernelFisher
from kompakt.data import ArrayRows
from kompakt.design import Design
from kompakt.kernels import RBF
from kompakt.solve import fisher


def problem(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(0, 1, (n // 3, 2)), rng.normal(1.5, 1, (n - n // 3, 2))])
    labels = np.repeat([0, 1], [n // 3, n - n // 3])
    return X, labels


def printed(K, labels):
    """Z and e of Franc and Hlavac 2003 (e with the minus that its text needs)."""
    n = len(labels)
    Z, e = np.zeros((n, n)), np.zeros(n)
    for c, sign in ((0, -1.0), (1, 1.0)):
        own = np.flatnonzero(labels == c)
        Z[np.ix_(own, own)] = -1.0 / len(own) ** 2
        Z[own, own] = 1.0 / len(own) - 1.0 / len(own) ** 2
        e[own] = sign / len(own)
    return K @ Z @ K.T, K @ e


CODES = np.array([[-1.0], [1.0]])


def test_moments_are_the_printed_matrices():
    X, labels = problem()
    K = RBF(0.5).gram(X)
    moments = fisher.class_moments(Design(ArrayRows(X), RBF(0.5), X, block_rows=7), labels, 2, None)
    N, m = printed(K, labels)
    np.testing.assert_allclose(moments.covariance.sum(axis=0), N, atol=1e-12)
    np.testing.assert_allclose(moments.mean[1] - moments.mean[0], m, atol=1e-12)


@pytest.mark.parametrize("n_basis", [60, 9])
def test_direction_solves_the_printed_problem(n_basis):
    X, labels = problem()
    basis = X[:n_basis]
    N, m = printed(RBF(0.5).block(basis, X), labels)
    found = fisher.minimise(Design(ArrayRows(X), RBF(0.5), basis), labels, CODES, reg=0.01)
    A = N + 0.01 * np.eye(n_basis)
    closed = np.linalg.solve(A, m)
    closed *= 2.0 / (m @ closed)
    np.testing.assert_allclose(found.weights[:, 0], closed, rtol=1e-8, atol=1e-8 * np.abs(closed).max())
    assert m @ found.weights[:, 0] == pytest.approx(2.0, abs=1e-10)  # eq. 6
    assert found.objective[0] == pytest.approx(closed @ A @ closed, rel=1e-8)
    for step in 1e-3 * np.random.default_rng(1).normal(size=(20, n_basis)):
        other = closed + step - m * (m @ step) / (m @ m)  # feasible
        assert other @ A @ other >= found.objective[0]


def test_merged_classes_are_those_of_their_rows():
    X, _ = problem()
    labels = np.arange(len(X)) % 3
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    design = Design(ArrayRows(X), RBF(0.5), X[:5])
    mean, covariance = fisher.class_moments(design, labels, 3, weights).merged(np.array([0, 2]))
    own = labels != 1
    K, w = RBF(0.5).block(X, X[:5])[own], weights[own]
    np.testing.assert_allclose(mean, w @ K / w.sum())
    np.testing.assert_allclose(covariance, np.cov(K.T, aweights=w, ddof=0), atol=1e-12)


def test_many_classes_are_summed_in_parts(monkeypatch):
    X, _ = problem()
    labels = np.arange(len(X)) % 7
    design = Design(ArrayRows(X), RBF(0.5), X[:20])
    monkeypatch.setattr(fisher, "_PRODUCTS", 3 * 20**2)
    moments = fisher.class_moments(design, labels, 7, None)
    assert design.n_passes == 1 + 3
    for c in range(7):
        np.testing.assert_allclose(moments.covariance[c], np.cov(design.matrix[labels == c].T, ddof=0), atol=1e-12)


@pytest.mark.parametrize("priors", [(0.5, 0.5), (0.2, 0.8)])
@pytest.mark.parametrize("variances", [(1.0, 1.0), (0.4, 2.0), (2.0, 0.4)])
def test_the_threshold_is_where_prior_times_density_agree(priors, variances):
    t = -fisher.distribution_bias((-1.0, 2.0), variances, priors, "gaussian")
    densities = [
        p * np.exp(-0.5 * (t - m) ** 2 / v) / np.sqrt(v) for p, m, v in zip(priors, (-1.0, 2.0), variances, strict=True)
    ]
    assert densities[0] == pytest.approx(densities[1], rel=1e-9)
    if priors == (0.5, 0.5):
        assert -1.0 < t < 2.0
    for unit in (1e-14, 1e14):  # of the values
        scaled = tuple(unit**2 * v for v in variances)
        bias = fisher.distribution_bias((-unit, 2.0 * unit), scaled, priors, "gaussian")
        assert -bias == pytest.approx(unit * t, rel=1e-9)


def test_the_midpoint_with_priors_is_that_of_linear_discriminant_analysis():
    assert fisher.distribution_bias((0.0, 2.0), (1.0, 3.0), (0.5, 0.5), "midpoint") == -1.0
    t = -fisher.distribution_bias((0.0, 2.0), (1.0, 3.0), (0.9, 0.1), "midpoint")
    assert t == pytest.approx(1.0 + 2.0 * np.log(9.0) / 2.0)


def test_densities_that_never_cross_fall_back_to_the_common_variance():
    bias = fisher.distribution_bias((0.0, 0.1), (1.0, 0.99), (0.001, 0.999), "gaussian")
    assert np.isfinite(bias)


def test_the_searched_bias_has_the_fewest_errors():
    rng = np.random.default_rng(3)
    values = np.round(rng.normal(size=60), 1)  # with ties
    positive = values + rng.normal(size=60) > 0
    weights = rng.uniform(0.1, 2.0, 60)

    def cost(bias):
        return np.sum(weights * ((values + bias > 0) != positive))

    best = min(cost(-t) for t in np.concatenate([values - 1e-3, values + 1e-3]))
    assert cost(fisher.search_bias(values, positive, weights)) == pytest.approx(best)


def test_the_searched_bias_may_lie_beyond_every_value():
    values, one = np.array([0.0, 1.0]), np.ones(2)
    assert fisher.search_bias(values, np.array([True, True]), one) == 1.0
    assert fisher.search_bias(values, np.array([False, False]), one) == -2.0
    # below every value stand two rows that no threshold parts, and errors of both count
    tied = np.array([0.0, 0.0, 1.0])
    assert fisher.search_bias(tied, np.array([False, True, True]), np.array([10.0, 1.0, 1.0])) == -0.5
    # two thresholds with one error each
    assert fisher.search_bias(np.arange(4.0), np.array([False, True, False, True]), np.ones(4)) in (-0.5, -2.5)


def test_sides_that_a_threshold_parts_get_the_middle_between_them():
    values, positive = np.array([4.0, 0.0, 1.0]), np.array([True, False, False])
    assert fisher.search_bias(values, positive, np.ones(3)) == -2.5


def test_a_solution_of_one_step_says_so():
    X, labels = problem()
    found = fisher.minimise(Design(ArrayRows(X), RBF(0.5), X[:9]), labels, CODES, reg=0.01)
    assert found.n_iter == 1
    assert found.converged
    assert found.coordinates.shape == (10, 1)
    np.testing.assert_array_equal(found.coordinates, np.concatenate([found.weights, found.intercept[None]]))
    np.testing.assert_array_equal(found.optimality, [0.0])


def test_equal_means_are_refused():
    with pytest.raises(ValueError, match="same mean"):
        fisher.direction(np.eye(2), np.zeros(2), np.ones(2))


@pytest.mark.parametrize("seed", [28, 32, 34, 48, 49])
def test_sides_whose_means_differ_by_less_than_a_digit_get_a_finite_bias(seed):
    """The multipliers are near 1e15 here, so that both means round to the same number."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.standard_cauchy(29) ** 3, 1e12 + rng.normal(size=29)])
    found = KernelFisher().fit(X, np.arange(29) % 3)
    assert np.isfinite(found.decision_function(X)).all()
    assert fisher.distribution_bias((3.0, 3.0), (1.0, 2.0), (0.25, 0.75), "gaussian") == -3.0
