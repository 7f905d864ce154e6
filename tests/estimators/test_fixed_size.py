"""Fixed-size least-squares machines against closed forms, refits, the full machine and the promises of the design."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GroupKFold, KFold

from kompakt import Annealing, AutoSize, FixedSizeLSSVC, FixedSizeLSSVR, GridSearch, RandomSearch, load, save
from kompakt.basis import RenyiSelector
from kompakt.codings import get_coding
from kompakt.kernels import MappedRBF


def sines(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 2))
    return X, np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=n)


def eigen_features(X, Z, gamma):
    """De Brabanter et al. 2010, eq. 5: features by eigenvectors of the prototypes' kernel matrix, and ones (eq. 8)."""
    values, vectors = np.linalg.eigh(rbf_kernel(Z, gamma=gamma))
    return np.c_[rbf_kernel(X, Z, gamma=gamma) @ (vectors / np.sqrt(values)), np.ones(len(X))]


def test_weights_are_those_of_equation_7():
    X, y = sines()
    machine = FixedSizeLSSVR(n_basis=12, gamma=0.8, C=7.0, penalize_intercept=True, random_state=0).fit(X, y)
    Phi = eigen_features(X, machine.basis_vectors_, 0.8)
    w = np.linalg.solve(Phi.T @ Phi + np.eye(13) / 7.0, Phi.T @ y)
    X_new = sines(50, seed=1)[0]
    np.testing.assert_allclose(
        machine.predict(X_new), eigen_features(X_new, machine.basis_vectors_, 0.8) @ w, atol=1e-8
    )
    assert machine.intercept_ == pytest.approx(w[-1:], abs=1e-8)


@pytest.mark.parametrize("classifier", [True, False])
def test_all_rows_give_the_dual_machine(classifier):
    """The full LS-SVM solves [[0, 1'], [1, K + I / C]] [b, alpha] = [0, y] (section 2)."""
    X, y = make_moons(80, noise=0.2, random_state=0) if classifier else sines(80)
    t = 2.0 * y - 1 if classifier else y
    n, C = len(y), 3.0
    system = np.zeros((n + 1, n + 1))
    system[0, 1:] = system[1:, 0] = 1.0
    system[1:, 1:] = rbf_kernel(X, gamma=0.5) + np.eye(n) / C
    dual = np.linalg.solve(system, np.r_[0.0, t])
    X_new = X + 0.05
    expected = rbf_kernel(X_new, X, gamma=0.5) @ dual[1:] + dual[0]
    kind = FixedSizeLSSVC if classifier else FixedSizeLSSVR
    machine = kind(selection="all", gamma=0.5, C=C, penalize_intercept=False, random_state=0).fit(X, y)
    values = machine.decision_function(X_new) if classifier else machine.predict(X_new)
    assert machine.n_basis_ == n
    np.testing.assert_allclose(values, expected, atol=1e-7)


def test_without_intercept_it_is_kernel_ridge():
    X, y = sines(60)
    machine = FixedSizeLSSVR(selection="all", gamma=0.5, C=5.0, fit_intercept=False, random_state=0).fit(X, y)
    peer = KernelRidge(kernel="rbf", gamma=0.5, alpha=0.2).fit(X, y)
    np.testing.assert_allclose(machine.predict(X), peer.predict(X), atol=1e-7)


def test_linear_kernel_is_ridge_in_the_input_space():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4)) + 2.0
    Y = X @ rng.normal(size=(4, 2)) + rng.normal(size=(100, 2))
    machine = FixedSizeLSSVR(kernel="linear", C=0.5, penalize_intercept=False).fit(X, Y)
    peer = Ridge(alpha=2.0).fit(X, Y)
    np.testing.assert_allclose(machine.coef_, peer.coef_, atol=1e-8)
    np.testing.assert_allclose(machine.predict(X), peer.predict(X), atol=1e-8)
    assert machine.n_basis_ == 2


@pytest.mark.parametrize("penalize", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("prototypes", ["drop", "anew", "plain"])
def test_cross_validated_error_is_that_of_refits(penalize, weighted, prototypes):
    X, y = sines(90)
    weight = np.random.default_rng(1).integers(1, 4, size=90).astype(float) if weighted else None
    fold = np.arange(90) % 5
    splits = [(np.flatnonzero(fold != v), np.flatnonzero(fold == v)) for v in range(5)]
    machine = FixedSizeLSSVR(
        n_basis=10,
        tune=True,
        cv=splits,
        cv_prototypes=prototypes,
        selection="random" if prototypes == "anew" else "auto",  # the same for every width and C
        penalize_intercept=penalize,
        random_state=0,
    )
    machine.fit(X, y, sample_weight=weight)
    fixed = clone(machine).set_params(tune=False, C=machine.C_, gamma=machine.gamma_)
    expected = np.empty(90)
    for train, held in splits:
        if prototypes != "anew":
            left = np.isin(machine.basis_indices_, train) | (prototypes == "plain")
            fixed.set_params(selection=machine.basis_vectors_[left])
        fixed.fit(X[train], y[train], sample_weight=None if weight is None else weight[train])
        expected[held] = fixed.predict(X[held])
    np.testing.assert_allclose(machine.out_of_fold_outputs_[:, 0], expected, atol=1e-8)
    errors = np.array(
        [np.average((expected - y)[h] ** 2, weights=None if weight is None else weight[h]) for _, h in splits]
    )
    assert machine.cv_error_ == pytest.approx(errors.mean(), abs=1e-8)
    best = np.argmin(machine.cv_results_["rank_test_error"])
    assert machine.cv_results_["param_C"][best] == machine.C_
    assert machine.cv_results_["param_gamma"][best] == machine.gamma_


def test_a_prototype_with_an_equal_row_outside_the_fold_stays():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    X = np.r_[X, X]  # in other folds
    y = rng.normal(size=80)
    fold = np.repeat([0, 1], 40)
    splits = [(np.flatnonzero(fold != v), np.flatnonzero(fold == v)) for v in range(2)]
    machine = FixedSizeLSSVR(n_basis=10, tune=True, cv=splits, random_state=0).fit(X, y)
    plain = clone(machine).set_params(cv_prototypes="plain").fit(X, y)
    np.testing.assert_allclose(machine.out_of_fold_outputs_, plain.out_of_fold_outputs_, atol=1e-8)


def test_cross_validation_of_all_rows_as_prototypes_is_that_of_the_full_machine():
    X, y = make_moons(100, noise=0.3, random_state=0)
    fold = np.arange(100) % 5
    splits = [(np.flatnonzero(fold != v), np.flatnonzero(fold == v)) for v in range(5)]
    machine = FixedSizeLSSVC(selection="all", tune=True, cv=splits, random_state=0).fit(X, y)
    full = clone(machine).set_params(tune=False, C=machine.C_, gamma=machine.gamma_)
    expected = np.empty(100)
    for train, held in splits:
        expected[held] = full.fit(X[train], y[train]).decision_function(X[held])
    np.testing.assert_allclose(machine.out_of_fold_outputs_[:, 0], expected, atol=1e-6)


def ringnorm(n, seed):
    """Two normal clouds, one inside the other: the hard rows are the far ones, which entropy chooses."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, size=n)
    wide, narrow = 2.0 * rng.normal(size=(n, 20)), 2.0 / np.sqrt(20) + rng.normal(size=(n, 20))
    return np.where(y[:, None] == 0, wide, narrow), y


def test_prototypes_do_not_shield_themselves_in_cross_validation():
    X, y = ringnorm(400, 0)
    X_new, y_new = ringnorm(3000, 1)
    machine = FixedSizeLSSVC(100, tune=True, random_state=0).fit(X, y)
    plain = clone(machine).set_params(cv_prototypes="plain").fit(X, y)
    error, plain_error = (1.0 - fitted.score(X_new, y_new) for fitted in (machine, plain))
    assert plain.cv_error_ < 0.5 * plain_error
    assert abs(machine.cv_error_ - error) < 0.015
    assert error < plain_error


@pytest.mark.parametrize("mode", ["drop", "anew"])
@pytest.mark.parametrize("options", [{"coding": "one_vs_one"}, {"coding": "one_vs_one", "shared_basis": True}, {}])
def test_corrected_cross_validation_serves_every_coding_and_size(mode, options):
    X, y = make_blobs(150, centers=3, cluster_std=2.0, random_state=0)
    machine = FixedSizeLSSVC(AutoSize(sizes=[4, 16]), tune=True, cv=5, cv_prototypes=mode, random_state=0, **options)
    machine.fit(X, y)
    assert not np.isnan(machine.out_of_fold_outputs_).any()
    held_out = np.mean(model_labels(machine) != y)
    assert machine.cv_error_ == pytest.approx(held_out, abs=1e-12)


def model_labels(machine):
    """Labels by the held-out outputs."""
    coding = get_coding(machine.coding)
    return machine.classes_[coding.decode(machine.out_of_fold_outputs_, len(machine.classes_))]


def test_one_vs_one_reports_the_share_of_wrong_labels():
    X, y = make_blobs(3400, centers=5, cluster_std=2.5, random_state=1)
    machine = FixedSizeLSSVC(20, coding="one_vs_one", selection="renyi", tune=True, cv=5, random_state=0)
    machine.fit(X[:400], y[:400])
    test_error = 1.0 - machine.score(X[400:], y[400:])
    assert abs(machine.cv_error_ - test_error) < 0.06
    assert machine.cv_results_["mean_test_error"].min() < 0.6 * test_error  # of pairs


def test_several_classes_default_to_one_against_the_rest():
    X, y = make_blobs(300, centers=6, cluster_std=1.5, random_state=1)
    machine = FixedSizeLSSVC(n_basis=30, random_state=0).fit(X, y)
    assert machine.intercept_.shape == (6,)


@pytest.mark.parametrize("kind", [FixedSizeLSSVR, FixedSizeLSSVC])
def test_few_rows_may_all_be_prototypes(kind):
    X, y = make_moons(60, noise=0.2, random_state=0)
    machine = kind("auto", selection="renyi", tune=True, random_state=0).fit(X, y)
    assert machine.size_path_["n_basis"].max() == 60


def test_blocks_tune_as_memory_does():
    X, y = make_moons(300, noise=0.25, random_state=0)
    machine = FixedSizeLSSVC(n_basis=15, tune=True, cv=5, random_state=0)
    inside = clone(machine).fit(X, y)
    outside = clone(machine).set_params(memory_budget=20_000).fit(X, y)
    np.testing.assert_allclose(outside.cv_results_["objective"], inside.cv_results_["objective"], atol=1e-8)
    assert outside.C_ == inside.C_
    np.testing.assert_allclose(outside.out_of_fold_outputs_, inside.out_of_fold_outputs_, atol=1e-7)
    np.testing.assert_allclose(outside.decision_function(X), inside.decision_function(X), atol=1e-8)


@pytest.mark.parametrize("tune", [True, GridSearch(n_points=3)])
def test_folds_with_prototypes_of_their_own_leave_those_of_the_machine_alone(tune):
    X, y = make_moons(120, noise=0.25, random_state=0)
    options = {"n_basis": 12, "selection": "random", "random_state": 0}
    machine = FixedSizeLSSVC(**options, tune=tune, cv=3, cv_prototypes="anew").fit(X, y)
    assert machine.basis_indices_.tolist() == FixedSizeLSSVC(**options).fit(X, y).basis_indices_.tolist()
    np.testing.assert_array_equal(machine.basis_vectors_, X[machine.basis_indices_])


def test_coarse_search_on_part_of_the_rows(monkeypatch):
    X, y = make_moons(600, noise=0.25, random_state=0)
    machine = FixedSizeLSSVC(n_basis=10, tune=True, cv=5, random_state=0)
    whole = clone(machine).fit(X, y)
    options = FixedSizeLSSVC._options
    monkeypatch.setattr(FixedSizeLSSVC, "_options", lambda *args: replace(options(*args), coarse_rows=200))
    part = clone(machine).fit(X, y)
    assert set(part.cv_results_["phase"]) == {"fine", "untuned", "gram", "renyi", "random"}
    assert part.cv_error_ < whole.cv_error_ + 0.01


@pytest.mark.parametrize(
    "search", [True, Annealing(n_anneal=15, n_simplex=10), GridSearch(n_points=5), RandomSearch(15, n_simplex=5)]
)
def test_every_search_improves_on_a_bad_start(search):
    X, y = sines(200)
    machine = FixedSizeLSSVR(
        n_basis=25,
        gamma=50.0,
        C=1e-3,
        tune=search,
        cv=5,
        random_state=0,
    ).fit(X, y)
    X_new, y_new = sines(500, seed=9)
    assert machine.score(X_new, y_new) > 0.85
    assert len(machine.cv_results_["param_C"]) >= 20


def test_one_vs_one_fits_every_pair_on_its_own():
    X, y = make_blobs(240, centers=4, cluster_std=2.0, random_state=0)
    machine = FixedSizeLSSVC(n_basis=24, coding="one_vs_one", gamma=0.1, C=2.0, random_state=0).fit(X, y)
    stratum = y[machine.basis_indices_]
    for output, (i, j) in enumerate([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]):
        own, rows = np.isin(stratum, [i, j]), np.isin(y, [i, j])
        assert np.all(machine.dual_coef_[output, ~own] == 0)
        pair = FixedSizeLSSVC(selection=machine.basis_vectors_[own], gamma=0.1, C=2.0).fit(X[rows], y[rows])
        np.testing.assert_allclose(machine.dual_coef_[output, own], pair.dual_coef_[0], atol=1e-7)
        np.testing.assert_allclose(machine.intercept_[output], pair.intercept_[0], atol=1e-8)
    shared = clone(machine).set_params(shared_basis=True).fit(X, y)
    assert np.all(shared.dual_coef_ != 0)


@pytest.mark.parametrize("coding", ["minimum_output", "one_vs_one", "one_vs_rest"])
def test_codings_tune_and_predict(coding):
    X, y = make_blobs(300, centers=5, cluster_std=1.2, random_state=3)
    names = np.array(["a", "b", "c", "d", "e"])[y]
    machine = FixedSizeLSSVC(n_basis=30, coding=coding, tune=True, cv=5, random_state=0).fit(X[:200], names[:200])
    assert machine.score(X[200:], names[200:]) > 0.85
    assert machine.decision_function(X).shape == (300, 5)
    assert machine.out_of_fold_outputs_.shape == (200, len(machine.intercept_))


def test_rare_classes_do_not_stop_the_search():
    X, y = make_blobs([100, 100, 3], centers=None, random_state=0)
    for coding in ("minimum_output", "one_vs_one"):
        machine = FixedSizeLSSVC(n_basis=20, coding=coding, tune=True, cv=10, random_state=0).fit(X, y)
        assert machine.score(X, y) > 0.8


def test_size_is_chosen_on_nested_sets():
    X, y = sines(400)
    machine = FixedSizeLSSVR(AutoSize(sizes=[3, 10, 60]), selection="renyi", tune=True, cv=5, random_state=0).fit(X, y)
    assert machine.n_basis_ == 60
    errors = machine.size_path_["mean_test_error"]
    assert errors[0] > 2 * errors[1] > 2 * errors[2] * 0.5
    # the path's error at the chosen size is that of the machine itself
    held_out = np.mean((machine.out_of_fold_outputs_[:, 0] - y) ** 2)
    assert errors[2] == pytest.approx(held_out, rel=1e-6)
    within = AutoSize(sizes=[3, 10, 60], rule="within")
    few = clone(machine).set_params(n_basis=within, tune=False, C=100.0, gamma=0.5).fit(X, y)
    assert few.n_basis_ in (3, 10, 60)
    assert len(clone(machine).set_params(n_basis="auto").fit(X, y).size_path_["n_basis"]) == 5


def test_absolute_loss_ignores_outliers():
    X, y = sines(120)
    spoilt = y.copy()
    spoilt[::12] += 25.0
    robust = FixedSizeLSSVR(n_basis=15, gamma=0.3, C=10.0, loss="absolute", random_state=0).fit(X, spoilt)
    squared = FixedSizeLSSVR(n_basis=15, gamma=0.3, C=10.0, random_state=0).fit(X, spoilt)
    truth = sines(300, seed=4)
    error = [np.mean(np.abs(machine.predict(truth[0]) - truth[1])) for machine in (robust, squared)]
    assert error[0] < 0.2 < 0.5 * error[1]


def test_absolute_loss_tunes_by_refits():
    X, y = sines(60)
    machine = FixedSizeLSSVR(n_basis=6, loss="absolute", tune=True, cv=2, random_state=0).fit(X, y)
    assert machine.cv_results_["phase"][np.argmin(machine.cv_results_["rank_test_error"])] == "refit"
    assert machine.score(X, y) > 0.5


def test_weight_two_is_the_row_twice_and_order_does_not_matter():
    X, y = make_moons(120, noise=0.2, random_state=0)
    weight = np.random.default_rng(0).integers(0, 3, size=120)
    machine = FixedSizeLSSVC(n_basis=15, class_weight="balanced", random_state=3)
    weighted = clone(machine).fit(X, y, sample_weight=weight)
    repeated = clone(machine).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-7)
    order = np.random.default_rng(1).permutation(120)
    permuted = clone(machine).fit(X[order], y[order], sample_weight=weight[order])
    np.testing.assert_allclose(weighted.decision_function(X), permuted.decision_function(X), atol=1e-7)
    in_csr = clone(machine).fit(sparse.csr_matrix(X), y, sample_weight=weight)
    np.testing.assert_allclose(weighted.decision_function(X), in_csr.decision_function(X), atol=1e-7)


def test_time_and_progress(caplog):
    X, y = sines(100)
    with caplog.at_level("INFO", logger="kompakt"), pytest.warns(ConvergenceWarning, match="max_time"):
        machine = FixedSizeLSSVR(n_basis=10, tune=True, max_time=1e-9, random_state=0).fit(X, y)
    assert machine.search_stopped_ == "deadline"
    assert machine.cv_results_["width_factor"][-1] == 1.0  # the machine as it was before the search
    assert len(set(machine.cv_results_["width_factor"][:-1])) == 1
    assert any("width factor" in record.message for record in caplog.records)
    assert [record["phase"] for record in machine.history_] == ["selection", "search", "weights"]
    assert machine.n_kernel_evals_ > 2 * 100 * 10


def test_selectors_and_models(tmp_path):
    X, y = sines(100)
    machine = FixedSizeLSSVR(n_basis=10, selection=RenyiSelector(bandwidth=0.5), random_state=0).fit(X, y)
    save(machine, tmp_path / "machine.kompakt")
    np.testing.assert_array_equal(load(tmp_path / "machine.kompakt").predict(X), machine.predict(X))
    np.testing.assert_array_equal(X[machine.basis_indices_], machine.basis_vectors_)
    K = rbf_kernel(X, gamma=0.5)
    by_values = FixedSizeLSSVR(n_basis=10, kernel="precomputed", selection="random", random_state=0).fit(K, y)
    assert by_values.score(K, y) > 0.5
    with pytest.raises(ValueError, match="needs the inputs"):
        FixedSizeLSSVR(kernel="precomputed", selection="renyi").fit(K, y)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"tune": "guess"}, "tune must be True, False, Annealing, GridSearch or RandomSearch"),
        ({"n_basis": AutoSize(largest=5)}, "FixedSizeLSSVR does not use largest=5"),
        ({"tune": GridSearch(C=[1.0])}, "FixedSizeLSSVR does not use C=.1.0. of tune=GridSearch; it uses n_points"),
        ({"cv_prototypes": "keep"}, "cv_prototypes must be one of"),
        ({"cv": 1}, "cv must be None, at least 2 folds"),
        ({"selection": "psychic"}, "selection must be one of"),
        ({"tune": True, "cv": KFold(3).split(np.zeros((100, 1)))}, None),
        ({"tune": True, "cv": GroupKFold(2)}, "groups"),
    ],
)
def test_words_are_checked(words, message):
    X, y = sines(100)
    machine = FixedSizeLSSVR(**{"n_basis": 5, **words})
    if message is None:
        machine.fit(X, y)
    else:
        with pytest.raises(ValueError, match=message):
            machine.fit(X, y)


def unequal_classes(n=900, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(4, n, p=[0.8, 0.1, 0.06, 0.04])
    centres = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 2.2, 0.0], [0.0, 0.0, 2.5]])
    return rng.standard_normal((n, 3)) + centres[y], y


@pytest.mark.parametrize("coding", ["one_vs_rest", "one_vs_one", "minimum_output"])
def test_thresholds_of_fewest_errors(coding):
    """Every output has the intercept with the fewest training rows on the wrong side, by trying all of them."""
    X, y = unequal_classes(200)
    options = {"kernel": "linear", "C": 1.0, "coding": coding, "random_state": 0}
    plain = FixedSizeLSSVC(**options).fit(X, y)
    moved = FixedSizeLSSVC(fit_intercept="fewest_errors", **options).fit(X, y)
    np.testing.assert_allclose(moved.coef_, plain.coef_)
    targets = get_coding(coding).encode(y, 4)
    for output, target in enumerate(targets.T):
        values, target = (X @ plain.coef_[output])[target != 0], target[target != 0]
        ordered = np.sort(values)
        tried = [np.sum((values - t > 0) != (target > 0)) for t in 0.5 * (ordered[1:] + ordered[:-1])]
        wrong = np.sum((values + moved.intercept_[output] > 0) != (target > 0))
        assert wrong <= min([*tried, np.sum((values + plain.intercept_[output] > 0) != (target > 0))])


def test_thresholds_of_fewest_errors_count_in_the_cross_validated_error_and_weights_are_repetition():
    X, y = unequal_classes()
    options = {"kernel": "linear", "coding": "one_vs_one", "tune": True, "cv": 5, "random_state": 0}
    plain = FixedSizeLSSVC(**options).fit(X, y)
    moved = FixedSizeLSSVC(fit_intercept="fewest_errors", **options).fit(X, y)
    X_new, y_new = unequal_classes(2000, seed=1)
    error = 1 - moved.score(X_new, y_new)
    assert error < 1 - plain.score(X_new, y_new) - 0.01
    assert moved.cv_error_ < plain.cv_error_
    assert abs(moved.cv_error_ - error) < 0.03
    fixed = {"kernel": "linear", "C": 1.0, "fit_intercept": "fewest_errors", "random_state": 0}
    weight = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    weighted = FixedSizeLSSVC(**fixed).fit(X, y, sample_weight=weight)
    repeated = FixedSizeLSSVC(**fixed).fit(np.repeat(X, weight.astype(int), axis=0), np.repeat(y, weight.astype(int)))
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-9)


def test_thresholds_of_fewest_errors_need_all_rows_and_fixed_vectors():
    X, y = unequal_classes(100)
    with pytest.raises(ValueError, match="refine=False"):
        FixedSizeLSSVC(5, fit_intercept="fewest_errors", refine=True).fit(X, y)
    with pytest.raises(ValueError, match="fewest_errors"):
        FixedSizeLSSVC(5, fit_intercept="fewest").fit(X, y)
    assert not hasattr(FixedSizeLSSVC(5, fit_intercept="fewest_errors"), "partial_fit")


def test_a_search_over_the_width_of_a_map_keeps_its_directions():
    X, y = make_moons(200, noise=0.2, random_state=0)
    turn = np.array([[0.8, 0.6], [-0.3, 0.4]])
    machine = FixedSizeLSSVC(20, kernel=MappedRBF(turn), tune=True, random_state=0).fit(X, y)
    ratio = machine.kernel_.map / turn
    np.testing.assert_allclose(ratio, ratio[0, 0])
