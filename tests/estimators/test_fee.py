"""FEESVC and FEESVR: what they return, weights, classes, folds, kernels, and the exact SVM as limit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from kompakt import FEESVC, FEESVR, AutoSize, FEESelector, GridSearch, TwoGrids
from kompakt.heldout import holdout


@pytest.fixture(scope="module")
def moons():
    return make_moons(240, noise=0.25, random_state=0)


def test_the_machine_at_the_best_step_is_returned(moons):
    X, y = moons
    machine = FEESVC(AutoSize(n_iter_no_change=6), C=10.0, validation_fraction=0.2, refit=False, random_state=0).fit(
        X, y
    )
    errors = [record["validation_error"] for record in machine.history_]
    sizes = [record["n_basis"] for record in machine.history_]
    assert machine.n_basis_ == sizes[int(np.argmin(errors))]
    assert sizes[-1] == machine.n_basis_ + 6
    key = int(np.random.RandomState(0).randint(2**31 - 1))
    held = holdout(y, 0.2, stratify=True, random_state=key)[1]
    # the last training is exact, growth rounds the kinks: a row near the boundary may change sides
    assert abs(np.mean(machine.predict(X[held]) != y[held]) - min(errors)) <= 1.5 / len(held)
    assert all(record["estimated_error"] is not None for record in machine.history_[1:])


def test_the_basis_starts_from_the_class_means(moons):
    X, y = moons
    machine = FEESVC(5, validation_fraction=0, random_state=0).fit(X, y)
    assert_allclose(machine.basis_vectors_[:2], [X[y == 0].mean(axis=0), X[y == 1].mean(axis=0)], atol=1e-12)
    assert_allclose(machine.basis_vectors_[2:], X[machine.selected_indices_], atol=1e-12)
    assert machine.basis_indices_ is None
    assert machine.n_basis_ == 5


def test_folds_store_their_best_size_and_the_machine_has_the_mean(moons):
    X, y = moons
    machine = FEESVC(AutoSize(30, n_iter_no_change=5), C=10.0, cv=3, random_state=0).fit(X, y)
    assert len(machine.fold_sizes_) == 3
    assert machine.n_basis_ == round(machine.fold_sizes_.mean())
    for fold in range(3):
        errors = [r["validation_error"] for r in machine.history_ if r.get("fold") == fold]
        assert min(errors) == machine.fold_errors_[fold]
    assert all("train_error" in record for record in machine.history_ if "fold" not in record)


@pytest.mark.parametrize("C", [0.5, 20.0])
def test_with_all_rows_in_the_basis_it_is_the_exact_svm(C):
    """Growth by the farthest support vectors reaches nearly all of them; rows that are none have no weight to give."""
    X, y = make_moons(60, noise=0.3, random_state=1)
    machine = FEESVC(62, C=C, gamma=1.0, validation_fraction=0, random_state=0, max_iter=500).fit(X, y)
    exact = SVC(C=C, gamma=1.0, tol=1e-10).fit(X, y)
    objective = SVC_objective(exact, X, y, C)
    assert machine.objective_ >= objective - 1e-6 * abs(objective)
    if set(exact.support_) <= set(machine.selected_indices_):
        assert_allclose(machine.decision_function(X), exact.decision_function(X), atol=1e-5)
    assert machine.objective_ <= objective * (1 + 1e-3)


def SVC_objective(machine, X, y, C):
    w = machine.dual_coef_[0]
    K = rbf_kernel(machine.support_vectors_, gamma=1.0)
    short = np.maximum(0, 1 - np.where(y == 1, 1, -1) * machine.decision_function(X))
    return 0.5 * w @ K @ w + C * short.sum()


def test_the_machine_satisfies_the_optimality_conditions(moons):
    """Multipliers in [0, C] exist with K_c beta = K' (alpha y) and sum alpha y = 0: a bounded least-squares problem."""
    from scipy.optimize import lsq_linear

    X, y = moons
    C = 3.0
    machine = FEESVC(12, C=C, gamma=1.0, validation_fraction=0, random_state=0, max_iter=500).fit(X, y)
    assert machine.converged_
    sign = np.where(y == 1, 1.0, -1.0)
    short = 1 - sign * machine.decision_function(X)
    K = rbf_kernel(X, machine.basis_vectors_, gamma=1.0)
    conditions = np.column_stack([K, np.ones(len(X))]) * sign[:, None]
    wanted = np.append(rbf_kernel(machine.basis_vectors_, gamma=1.0) @ machine.dual_coef_[0], 0.0)
    fixed = np.where(short > 1e-5, C, 0.0)
    free = np.abs(short) <= 1e-5
    rest = wanted - conditions[~free].T @ fixed[~free]
    found = lsq_linear(conditions[free].T, rest, (0.0, C))
    assert np.max(np.abs(conditions[free].T @ found.x - rest)) < 1e-4 * C


def test_many_classes_share_one_basis():
    X, y = load_iris(return_X_y=True)
    for coding in ("one_vs_rest", "one_vs_one"):
        machine = FEESVC(AutoSize(20, n_iter_no_change=5), C=10.0, coding=coding, random_state=0).fit(X, y)
        assert machine.dual_coef_.shape == (3, machine.n_basis_)
        assert_allclose(machine.basis_vectors_[:3].mean(axis=0), X.mean(axis=0), atol=0.3)
        assert machine.score(X, y) > 0.9


def test_weight_two_is_the_row_twice(moons):
    X, y = moons
    counts = np.random.default_rng(0).integers(0, 3, len(X))
    options = {"n_basis": 10, "validation_fraction": 0, "random_state": 0, "C": 5.0}
    weighted = FEESVC(**options).fit(X, y, sample_weight=counts.astype(float))
    repeated = FEESVC(**options).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert_allclose(weighted.basis_vectors_, repeated.basis_vectors_, atol=1e-10)
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-6)


def test_rows_permuted_and_sparse(moons):
    X, y = moons
    options = {"n_basis": 10, "validation_fraction": 0, "random_state": 0, "C": 5.0}
    plain = FEESVC(**options).fit(X, y)
    order = np.random.default_rng(1).permutation(len(X))
    permuted = FEESVC(**options).fit(X[order], y[order])
    assert np.array_equal(order[permuted.selected_indices_], plain.selected_indices_)
    assert_allclose(permuted.decision_function(X), plain.decision_function(X), atol=1e-6)
    csr = FEESVC(**options).fit(sparse.csr_matrix(X), y)
    assert np.array_equal(csr.selected_indices_, plain.selected_indices_)
    again = FEESVC(**options).fit(X, y)
    assert again.dual_coef_.tobytes() == plain.dual_coef_.tobytes()


def test_class_weight_moves_the_boundary(moons):
    X, y = moons
    options = {"n_basis": 8, "validation_fraction": 0, "random_state": 0}
    shares = [FEESVC(class_weight={1: w}, **options).fit(X, y).predict(X).mean() for w in (0.1, 1.0, 10.0)]
    assert shares[0] < shares[1] < shares[2]


def test_a_precomputed_kernel_starts_from_rows_next_to_the_means(moons):
    X, y = moons
    K = rbf_kernel(X, gamma=1.0)
    machine = FEESVC(8, kernel="precomputed", C=10.0, validation_fraction=0, random_state=0).fit(K, y)
    assert machine.n_basis_ == 8
    assert machine.score(K, y) > 0.85


@pytest.mark.parametrize("solver", ["newton", "irwls"])
def test_both_trainers(moons, solver):
    X, y = moons
    selection = FEESelector(solver=solver, growth_iter=40)
    machine = FEESVC(10, C=5.0, selection=selection, validation_fraction=0, random_state=0).fit(X, y)
    assert machine.score(X, y) > 0.88


@pytest.mark.parametrize("loss", ["least_squares", "huber", "epsilon_insensitive", "absolute"])
def test_regression(loss):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (250, 1))
    y = np.sinc(X[:, 0]) + 0.05 * rng.normal(size=250)
    machine = FEESVR(AutoSize(40, n_iter_no_change=5), C=50.0, gamma=1.0, loss=loss, random_state=0).fit(X, y)
    assert machine.n_basis_ < 30
    assert machine.score(X, y) > 0.95
    two = FEESVR(10, C=50.0, gamma=1.0, random_state=0).fit(X, np.column_stack([y, -y]))
    assert_allclose(two.predict(X)[:, 0], -two.predict(X)[:, 1], atol=1e-6)


def test_tuning_sets_width_cost_and_size(moons):
    X, y = moons
    machine = FEESVC(
        AutoSize(15, n_iter_no_change=3), cv=2, tune=TwoGrids([-1, 0], [0, 1]), n_jobs=1, random_state=0
    ).fit(X, y)
    assert machine.search_.n_trainings == 2 * (4 + 100)
    assert machine.n_basis_ == machine.search_.best.size
    assert machine.gamma_ == machine.search_.best.gamma
    with pytest.raises(ValueError, match="Gaussian"):
        FEESVC(tune=True, kernel="linear").fit(X, y)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [({"selection": "best"}, "selection"), ({"tune": GridSearch()}, "tune must be True, False or TwoGrids")],
)
def test_wrong_words_are_named(moons, wrong, match):
    with pytest.raises(ValueError, match=match):
        FEESVC(**wrong).fit(*moons)


@pytest.mark.parametrize(
    ("options", "values"),
    [(FEESelector, {"solver": "smo"}), (FEESelector, {"n_candidates": 0}), (TwoGrids, {"rule": "best"})],
)
def test_wrong_options_are_named(options, values):
    with pytest.raises(ValueError, match=f"{next(iter(values))} must be"):
        options(**values)


def test_refit_uses_the_held_out_rows_for_the_weights_only(moons):
    X, y = moons
    options = {"C": 10.0, "validation_fraction": 0.2, "random_state": 0}
    first = FEESVC(**options, refit=False).fit(X, y)
    second = FEESVC(**options).fit(X, y)
    assert np.array_equal(first.basis_vectors_, second.basis_vectors_)
    assert not np.allclose(first.dual_coef_, second.dual_coef_)


def test_few_rows_are_cut_into_folds_and_all_are_trained_on(moons):
    X, y = moons
    machine = FEESVC(20, random_state=0).fit(X, y)
    assert len(machine.fold_sizes_) == 5
    np.testing.assert_allclose(machine.dual_coef_, FEESVC(20, cv=5, random_state=0).fit(X, y).dual_coef_)
    rare = np.where(np.arange(len(y)) < 3, 2, y)  # as many folds as the rarest class allows
    assert len(FEESVC(10, random_state=0).fit(X, rare).fold_sizes_) == 3
