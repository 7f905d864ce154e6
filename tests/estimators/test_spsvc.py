"""SpSVC: what the estimator adds to the growth tested under tests/grow."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import SVC

from kompakt import AutoSize, CompactSVC, GramSelector, GridSearch, GrowthSelector, SpSVC
from kompakt.basis.scores import SELECTIONS
from kompakt.kernels import RBF


@pytest.fixture(scope="module")
def moons():
    return make_moons(400, noise=0.25, random_state=0)


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    return X, np.digitize(X[:, 0] + np.sin(2 * X[:, 1]) + 0.2 * rng.normal(size=400), [-0.6, 0.6])


def test_given_basis_gives_the_weights_of_the_ordinary_solver(moons):
    X, y = moons
    grown = SpSVC(25, gamma=1.0, C=5.0, random_state=0).fit(X, y)
    fixed = CompactSVC(25, selection=grown.basis_vectors_, refine=False, gamma=1.0, C=5.0).fit(X, y)
    assert_allclose(grown.objective_, fixed.objective_, rtol=1e-9)
    assert_allclose(grown.decision_function(X), fixed.decision_function(X), atol=1e-6)
    assert np.array_equal(grown.basis_vectors_, X[grown.basis_indices_])


def test_growing_to_all_rows_is_the_exact_machine(moons):
    X, y = moons[0][:150], moons[1][:150]
    grown = SpSVC(150, gamma=1.0, C=5.0, random_state=0).fit(X, y)
    exact = CompactSVC(150, selection=X, refine=False, gamma=1.0, C=5.0).fit(X, y)
    assert_allclose(grown.objective_, exact.objective_, rtol=1e-6)


def test_near_the_accuracy_of_the_exact_svm_with_few_vectors(moons):
    X, y = moons
    test = make_moons(2000, noise=0.25, random_state=1)
    exact = SVC(C=5.0, gamma=1.0).fit(X, y)
    grown = SpSVC(20, gamma=1.0, C=5.0, random_state=0).fit(X, y)
    assert grown.score(*test) > exact.score(*test) - 0.01
    assert exact.n_support_.sum() >= 4 * grown.n_basis_


def test_kernel_plus_one(moons):
    X, y = moons
    grown = SpSVC(15, gamma=1.0, plus_one=True, random_state=0).fit(X, y)
    assert np.all(grown.intercept_ == 0)
    assert grown.gamma_ == 1.0
    by_hand = (1 + RBF(1.0)).block(X, grown.basis_vectors_) @ grown.dual_coef_[0]
    assert_allclose(grown.decision_function(X), by_hand, atol=1e-8)
    same = SpSVC(15, kernel=1 + RBF(1.0), fit_intercept=False, random_state=0).fit(X, y)
    assert np.array_equal(same.basis_indices_, grown.basis_indices_)


def test_polynomial_kernel_on_rows_of_unit_length(three):
    X, y = three
    machine = SpSVC(30, kernel="poly", gamma=1.0, coef0=1.0, degree=5, plus_one=True, random_state=0)
    pipeline = make_pipeline(Normalizer(), machine).fit(X, y)
    assert pipeline.score(X, y) > 0.6
    assert_allclose(np.linalg.norm(machine.basis_vectors_, axis=1), 1.0)


@pytest.mark.parametrize("coding", ["one_vs_rest", "one_vs_one", "minimum_output"])
def test_many_classes_share_one_basis(three, coding):
    X, y = three
    machine = SpSVC(30, coding=coding, random_state=0).fit(X, y)
    assert machine.score(X, y) > (0.75 if coding == "minimum_output" else 0.85)
    assert machine.dual_coef_.shape[1] == 30
    assert machine.decision_function(X).shape == (400, 3)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_every_selection_and_its_history(moons, selection):
    X, y = moons
    machine = SpSVC(12, selection=GrowthSelector(selection, retraining="always"), random_state=0).fit(X, y)
    assert machine.score(X, y) > 0.85
    objectives = [record["objective"] for record in machine.history_]
    assert np.all(np.diff(objectives) <= 1e-9)
    assert [record["n_basis"] for record in machine.history_] == list(range(1, 13))
    assert np.all(np.diff([record["n_kernel_evals"] for record in machine.history_]) >= 0)
    assert np.all(np.diff([record["time"] for record in machine.history_]) > 0)
    assert_allclose(machine.history_[-1]["train_error"], 1 - machine.score(X, y))
    assert_allclose(machine.history_[-1]["objective"], machine.objective_)


def test_matching_pursuit_refuses_another_loss(moons):
    with pytest.raises(ValueError, match="least-squares"):
        SpSVC(selection="kmp", loss="squared_hinge").fit(*moons)


def test_huber_loss_bounds_the_pull_of_wrong_labels(moons):
    X, y = moons
    machine = SpSVC(20, loss="huber", epsilon=0.5, C=1.0, gamma="scale", random_state=0).fit(X, y)
    fixed = CompactSVC(20, selection=machine.basis_vectors_, refine=False, loss="huber", epsilon=0.5).fit(X, y)
    assert_allclose(machine.objective_, fixed.objective_, rtol=1e-8)


def test_size_by_cross_validation_is_the_smallest_within_one_mistake(moons):
    X, y = moons
    best = SpSVC(AutoSize(largest=12, tol=0), gamma=1.0, C=5.0, random_state=0).fit(X, y)
    machine = SpSVC(AutoSize(largest=12), gamma=1.0, C=5.0, random_state=0).fit(X, y)
    errors = machine.cv_errors_
    assert errors.shape == (12,)
    assert errors.min() < 0.1
    assert best.n_basis_ == 1 + int(np.argmin(np.round(errors, 12)))
    assert machine.n_basis_ == 1 + int(np.flatnonzero(errors <= errors.min() + 1.001 / len(y))[0])


def test_one_mistake_more_is_too_many_where_the_best_makes_hardly_any():
    X, y = make_moons(200, noise=0.12, random_state=0)
    found = [
        SpSVC(AutoSize(10, tol=tol), gamma=1.0, C=10.0, random_state=0).fit(X, y) for tol in (None, 0, 1.001 / 200)
    ]
    assert 0 < 200 * found[0].cv_errors_.min() < 4
    assert found[0].n_basis_ == found[1].n_basis_ > found[2].n_basis_


def test_size_of_a_search_is_the_smallest_within_one_mistake(moons):
    X, y = moons
    tune = GridSearch(C=[0.1, 1.0, 10.0], gamma=[0.1, 1.0, 10.0])
    machine = SpSVC(AutoSize(largest=12), tune=tune, random_state=0).fit(X, y)
    errors = machine.cv_errors_
    close = errors <= errors.min() + 1.001 / len(y)
    assert machine.n_basis_ == 1 + int(np.flatnonzero(close.any(axis=(0, 1)))[0])
    best = SpSVC(AutoSize(largest=12, tol=0), tune=tune, random_state=0).fit(X, y)
    assert best.n_basis_ == 1 + np.argwhere(np.isclose(errors, errors.min(), atol=1e-12))[:, 2].min()
    assert machine.n_basis_ <= best.n_basis_


@pytest.mark.parametrize("classes", [2, 3])
def test_tuning_of_everything(moons, three, classes):
    X, y = moons if classes == 2 else three
    machine = SpSVC(
        AutoSize(largest=8),
        selection=GrowthSelector(retraining="always"),
        tune=GridSearch(C=[0.1, 10.0], gamma=[0.01, 1.0]),
        random_state=0,
    ).fit(X, y)
    assert machine.cv_errors_.shape == (2, 2, 8)
    where = np.argwhere(machine.cv_errors_ <= machine.cv_errors_.min() + 1.001 / len(y))
    assert machine.n_basis_ == 1 + where[:, 2].min()
    assert [machine.C_, machine.gamma_] in [[[0.1, 10.0][c], [0.01, 1.0][g]] for g, c, _ in where]
    untuned = clone(machine).set_params(tune=False, n_basis=machine.n_basis_, C=machine.C_, gamma=machine.gamma_)
    assert np.array_equal(untuned.fit(X, y).basis_indices_, machine.basis_indices_)


def test_candidates_do_not_depend_on_C_or_gamma(moons):
    # with one candidate per step the basis is the candidates
    X, y = moons
    selection = GrowthSelector(n_candidates=1)
    bases = [
        SpSVC(10, selection=selection, C=C, gamma=g, random_state=0).fit(X, y) for C, g in ((0.1, 0.1), (9.0, 3.0))
    ]
    assert np.array_equal(bases[0].basis_indices_, bases[1].basis_indices_)


def test_stops_on_validation(moons):
    X, y = moons
    machine = SpSVC(AutoSize(200, n_iter_no_change=5), validation_fraction=0.3, C=1.0, gamma=1.0, random_state=0)
    machine.fit(X, y)
    errors = [record["validation_error"] for record in machine.history_]
    assert machine.n_basis_ == 1 + int(np.argmin(errors))
    assert len(errors) <= machine.n_basis_ + 5 < 200
    fixed = CompactSVC(selection=machine.basis_vectors_, n_basis=machine.n_basis_, refine=False, gamma=1.0).fit(X, y)
    assert_allclose(machine.objective_, fixed.objective_, rtol=1e-8)  # all rows in the end


def test_stops_on_time(moons):
    machine = SpSVC(400, max_time=1e-3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        machine.fit(*moons)
    assert 1 <= machine.n_basis_ < 400


def test_warm_start_continues(moons):
    X, y = moons
    options = {"selection": GrowthSelector(retraining="always"), "random_state": 0}
    machine = SpSVC(8, warm_start=True, **options).fit(X, y)
    C, gamma = machine.C_, machine.gamma_
    machine.set_params(n_basis=20).fit(X, y)
    assert (machine.C_, machine.gamma_) == (C, gamma)  # which a larger machine would have chosen otherwise
    once = SpSVC(20, C=C, gamma=gamma, **options).fit(X, y)
    assert np.array_equal(machine.basis_indices_, once.basis_indices_)
    assert_allclose(machine.objective_, once.objective_, rtol=1e-9)
    assert len(machine.history_) == 20
    with pytest.raises(ValueError, match="warm_start"):
        machine.set_params(n_basis=5).fit(X, y)
    with pytest.raises(ValueError, match="other rows"):
        machine.set_params(n_basis=30).fit(X[::-1], y[::-1])


def test_pool_of_candidates_with_columns_in_advance(moons):
    X, y = moons
    machine = SpSVC(20, selection=GrowthSelector(pool_size=40), C=1.0, gamma="scale", random_state=0).fit(X, y)
    random = SpSVC(40, selection="random", random_state=0).fit(X, y)
    assert set(machine.basis_indices_) <= set(random.basis_indices_)
    assert machine.n_kernel_evals_ <= 40 * 400 + 20 * 10


def test_cache_and_shrinking_do_not_change_the_machine(moons):
    X, y = moons
    plain = SpSVC(30, selection=GrowthSelector(cache=False), C=1.0, gamma=1.0, random_state=0).fit(X, y)
    cached = SpSVC(30, selection=GrowthSelector(cache=True), C=1.0, gamma=1.0, random_state=0).fit(X, y)
    shrunk = SpSVC(30, selection=GrowthSelector(shrinking=True), C=1.0, gamma=1.0, random_state=0).fit(X, y)
    assert np.array_equal(plain.basis_indices_, cached.basis_indices_)
    assert_allclose(shrunk.objective_, plain.objective_, rtol=0.02)
    fixed = CompactSVC(30, selection=shrunk.basis_vectors_, refine=False, gamma=1.0).fit(X, y)
    assert_allclose(shrunk.objective_, fixed.objective_, rtol=1e-8)


def test_sample_weights_count_like_repetition(moons):
    X, y = moons
    counts = np.random.default_rng(0).integers(0, 3, 400)
    weighted = SpSVC(15, class_weight="balanced", random_state=0).fit(X, y, sample_weight=counts)
    repeated = clone(weighted).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert np.array_equal(weighted.basis_vectors_, repeated.basis_vectors_)
    assert_allclose(weighted.dual_coef_, repeated.dual_coef_, rtol=1e-6)


def test_errors_of_pairs_of_classes_count_weights_like_repetition(three):
    X, y = three
    counts = np.where(y == y[0], 4, 1)
    weighted = SpSVC(4, coding="one_vs_one", random_state=0).fit(X, y, sample_weight=counts)
    repeated = clone(weighted).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    errors = [[record["train_error"] for record in machine.history_] for machine in (weighted, repeated)]
    assert max(errors[0]) > 0
    assert_allclose(errors[0], errors[1], rtol=1e-12)


def test_float32_and_sparse(three):
    X, y = three
    double, single, csr = (
        SpSVC(20, C=1.0, gamma="scale", random_state=0).fit(rows, y)
        for rows in (X, X.astype(np.float32), sparse.csr_matrix(X))
    )
    assert np.array_equal(double.basis_indices_, csr.basis_indices_)
    # rounding to float32 changes the hashes and so the candidates, not what is found
    assert single.score(X.astype(np.float32), y) > double.score(X, y) - 0.05
    same = CompactSVC(20, selection=single.basis_vectors_.astype(float), refine=False).fit(X, y)
    assert_allclose(single.objective_, same.objective_, rtol=1e-4)


def test_precomputed_kernel(moons):
    X, y = moons
    K = RBF(1.0).gram(X)
    machine = SpSVC(15, kernel="precomputed", random_state=0).fit(K, y)
    same = SpSVC(15, gamma=1.0, random_state=0).fit(X, y)
    assert machine.score(K, y) > same.score(X, y) - 0.03
    with pytest.raises(ValueError, match="add 1"):
        SpSVC(plus_one=True, kernel="precomputed").fit(K, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"selection": "best"}, "selection must be one of"),
        ({"selection": GramSelector()}, "selection must be one of"),
        ({"n_basis": AutoSize(rule="best")}, "SpSVC does not use rule='best'"),
        ({"tune": GridSearch(n_points=3)}, "SpSVC does not use n_points=3"),
        ({"n_basis": 0}, "n_basis must be a whole number of at least 1"),
        ({"loss": "hinge"}, "piecewise quadratic"),
    ],
)
def test_messages(moons, parameters, message):
    with pytest.raises(ValueError, match=message):
        SpSVC(**parameters).fit(*moons)


@pytest.mark.parametrize(
    ("options", "values", "message"),
    [
        (GrowthSelector, {"rule": "best"}, "selection must be one of"),
        (GrowthSelector, {"retraining": "never"}, "retraining must be one of"),
        (GrowthSelector, {"score_rows": "few"}, "score_rows"),
        (GrowthSelector, {"pool_size": 0}, "pool_size"),
        (GrowthSelector, {"cache": "much"}, "cache"),
        (GrowthSelector, {"n_candidates": 0}, "n_candidates"),
        (AutoSize, {"largest": 0}, "largest"),
        (AutoSize, {"n_iter_no_change": 1.5}, "n_iter_no_change"),
        (GridSearch, {"C": [-1.0]}, "C of GridSearch"),
    ],
)
def test_messages_of_options(options, values, message):
    with pytest.raises(ValueError, match=message):
        options(**values)


def test_memory_budget_is_named(moons):
    with pytest.raises(MemoryError, match="memory_budget"):
        SpSVC(memory_budget=1000).fit(*moons)
