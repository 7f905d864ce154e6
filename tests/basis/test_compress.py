"""Matching a known machine: derivatives, closed forms, and what `compress` promises."""

import numpy as np
import pytest

from kompakt.basis import matching as core
from kompakt.basis.matching import Matching
from kompakt.codings import get_coding
from kompakt.data import ArrayRows
from kompakt.kernels import RBF, Polynomial
from kompakt.model import Model

KERNELS = [RBF(0.3), RBF(np.array([0.1, 0.3, 0.5])), Polynomial(0.5, 1.0, 2)]


def setting(kernel, seed=0, L=2, n=50, S=30):
    rng = np.random.default_rng(seed)
    vectors, A = rng.normal(size=(S, 3)), rng.normal(size=(S, L))
    X, w = rng.normal(size=(n, 3)), rng.uniform(0.5, 2.0, n)
    f = kernel.block(X, vectors) @ A + np.arange(L)
    norm = float(np.sum(A * (kernel.gram(vectors) @ A)))
    return Matching(ArrayRows(X, f, w), vectors, A, 2.0, norm), rng.normal(size=(5, 3)), (vectors, A, X, w, f, norm)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_objective_is_what_it_says_and_the_weights_minimise_it(kernel):
    matching, Z, (vectors, A, X, w, f, norm) = setting(kernel)

    def objective(beta, b):
        g = kernel.block(X, Z) @ beta + b
        inner = np.sum(beta * (kernel.block(Z, vectors) @ A))
        distance = norm + np.sum(beta * (kernel.gram(Z) @ beta)) - 2 * inner
        return 0.5 * distance + 0.5 * 2.0 * np.sum(w[:, None] * (f - g) ** 2), distance

    found = matching.match(kernel, Z)
    value, distance = objective(found.weights, found.intercept)
    assert found.objective == pytest.approx(value, rel=1e-9)
    assert found.norm_part == pytest.approx(distance, rel=1e-9)
    rng = np.random.default_rng(1)
    for _ in range(20):
        step = 1e-3 * rng.normal(size=found.weights.shape)
        assert objective(found.weights + step, found.intercept + 1e-3 * rng.normal(size=2))[0] >= value


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_gradient_is_that_of_finite_differences(kernel):
    matching, Z, _ = setting(kernel)
    _, gradient, _ = matching.value_and_gradient(kernel, Z)
    for place in np.ndindex(*Z.shape):
        values = []
        for step in (1e-5, -1e-5):
            moved = Z.copy()
            moved[place] += step
            values.append(matching.match(kernel, moved).objective)
        assert gradient[place] == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5, abs=1e-5)


def test_normal_equations_are_those_of_the_objective():
    kernel = RBF(0.3)
    matching, Z, _ = setting(kernel)
    A, r = matching.normal_equations(kernel, Z)
    found = matching.match(kernel, Z)
    theta = np.linalg.solve(A, r)
    np.testing.assert_allclose(theta[:-1], found.weights, rtol=1e-6)
    np.testing.assert_allclose(theta[-1] + matching.centre, found.intercept, rtol=1e-6)


def machine(L=1, S=60, kind="classifier", seed=0, **more):
    rng = np.random.default_rng(seed)
    k = {1: 2, 3: 3, 10: 5}[L]
    fields = {"classes": np.arange(k), "coding": "one_vs_one"} if kind == "classifier" else {}
    basis, weights = rng.normal(size=(S, 2)), rng.normal(size=(S, L))
    return Model(RBF(0.5), basis, weights, 0.1 * np.ones(L), kind, n_features=2, **{**fields, **more})


def test_all_vectors_reproduce_the_machine():
    original = machine()
    plan = core.Plan(sizes=[60], refine=False)
    (step,) = core.compress_model(original, None, plan)
    assert step.agreement > 0.99
    assert step.norm_error < 0.05


@pytest.mark.parametrize("L", [1, 3, 10])
def test_agreement_rises_along_the_path_and_refinement_helps(L):
    original = machine(L)
    X = np.random.default_rng(1).normal(size=(600, 2))
    plain = core.compress_model(original, X, core.Plan(sizes=[4, 16], refine=False))
    moved = core.compress_model(original, X, core.Plan(sizes=[4, 16], refine_iter=40))
    assert plain[1].norm_error < plain[0].norm_error
    assert moved[1].norm_error < plain[1].norm_error
    assert moved[1].agreement > max(0.95, moved[0].agreement)
    fresh = np.random.default_rng(2).normal(size=(2000, 2))
    agreement = np.mean(moved[1].model.predict(fresh) == original.predict(fresh))
    assert agreement == pytest.approx(moved[1].agreement, abs=0.04)  # the rows that measured took no part in the fit


def test_the_norm_error_is_the_distance_in_the_kernels_space():
    original = machine()
    (step,) = core.compress_model(original, None, core.Plan(sizes=[8], refine_iter=10))
    small, k = step.model, original.kernel
    both = np.concatenate([original.basis, small.basis])
    signed = np.concatenate([original.weights, -small.weights])
    norm = np.sum(original.weights * (k.gram(original.basis) @ original.weights))
    distance = np.sum(signed * (k.gram(both) @ signed))
    assert step.norm_error == pytest.approx(np.sqrt(distance / norm), rel=1e-6)


def test_the_path_stops_at_the_tolerance():
    original = machine()
    X = np.random.default_rng(1).normal(size=(400, 2))
    steps = core.compress_model(original, X, core.Plan(sizes=[4, 8, 16, 32], tol=0.05, refine_iter=30))
    assert steps[-1].agreement >= 0.95
    assert all(step.agreement < 0.95 for step in steps[:-1])
    assert len(steps) < 4


def test_regressors_are_judged_by_their_error():
    original = machine(kind="regressor")
    X = np.random.default_rng(1).normal(size=(400, 2))
    (step,) = core.compress_model(original, X, core.Plan(sizes=[30], refine_iter=30))
    assert step.agreement == pytest.approx(1.0 - step.error)
    assert step.error < 0.05
    assert core.decision_margin(original, np.ones((3, 1))) is None


def test_the_margin_is_the_distance_to_another_decision():
    f = np.array([[0.5, -2.0, 1.0], [-0.1, 0.3, -3.0]])
    pairs = machine(3)
    coding = get_coding("one_vs_one")
    margin = core.decision_margin(pairs, f)
    for row in range(2):
        won = f[row] * coding.codes(3)[coding.decode(f, 3)[row]]
        assert margin[row] == pytest.approx(max(0.0, won[won != 0].min()))
    rest = machine(3, coding="one_vs_rest")
    np.testing.assert_allclose(core.decision_margin(rest, f), [0.5, 0.4])


def test_rows_without_the_users_stay_within_the_range_of_the_vectors():
    original = machine()
    rows = core.matching_rows(original, None, core.Plan(sizes=[5]))[0]
    assert len(rows) > 1000
    assert np.all(rows.min(axis=0) >= original.basis.min(axis=0))
    assert np.all(rows.max(axis=0) <= original.basis.max(axis=0))
    with pytest.raises(ValueError, match="at least 20 rows"):
        core.matching_rows(original, np.zeros((3, 2)), core.Plan(sizes=[5]))
    with pytest.raises(ValueError, match="expects 2"):
        core.matching_rows(original, np.zeros((30, 3)), core.Plan(sizes=[5]))
