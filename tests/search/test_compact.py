"""The search of CompactSVC and CompactSVR: its solvers, its table, and what it says."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kompakt import CompactSVC, CompactSVR, Refinement
from kompakt.design import FeatureDesign
from kompakt.kernels import RBF
from kompakt.losses import LeastSquares, SquaredHinge
from kompakt.search.compact import _newton_path, _ridge_path
from kompakt.solve import Problem, solve
from kompakt.spec import Spec

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 5))
RINGS = np.sum(X**2, axis=1) > 4.5


def tuning_of(machine):
    return next(record for record in machine.history_ if record["phase"] == "tuning")


@pytest.mark.parametrize("intercept", ["none", "free", "penalised"])
@pytest.mark.parametrize("loss", [SquaredHinge(), LeastSquares()], ids=lambda loss: loss.name)
def test_quick_solvers_find_what_the_general_solver_finds(loss, intercept):
    targets = np.where(np.column_stack([RINGS, X[:, 0] > 0.8]), 1.0, -1.0)
    weights = RNG.uniform(0.5, 2.0, 300)
    spec = Spec(RBF(1.0), loss, 1.0, intercept != "none", intercept == "penalised")
    path = _ridge_path if loss.quadratic else _newton_path
    costs = np.array([0.1, 1.0, 100.0])
    found = list(path(X[:200], X[200:], targets[:200], weights[:200], spec, costs))
    for cost, outputs in zip(costs, found, strict=True):
        design = FeatureDesign(X[:200], targets[:200], weights[:200])
        problem = Problem(design, loss, cost, spec.fit_intercept, spec.penalize_intercept)
        theta = solve(problem).coordinates
        np.testing.assert_allclose(outputs, X[200:] @ theta[:-1] + theta[-1], atol=1e-5)


def test_the_table_has_the_layout_of_a_grid_search_and_models_to_compare_with():
    labels = np.where(RINGS, "out", "in")
    machine = CompactSVC(20, tune=True, refine=Refinement(5), random_state=0).fit(X, labels)
    table = machine.cv_results_
    assert {len(column) for column in table.values()} == {len(table["params"])}
    counts = dict(zip(*np.unique(table["model"], return_counts=True), strict=True))
    assert counts["plain"] >= 66  # and those of the race that are best where they begin
    assert counts["refined"] >= 4
    assert counts["linear"] == counts["constant"] == counts["larger"] == 1
    best = int(np.argmin(table["rank_test_error"]))
    assert table["params"][best]["C"] == table["param_C"][best] == machine.C_
    folds = np.array([table[f"split{k}_test_error"] for k in range(5)])
    assert "split5_test_error" not in table
    plain = table["model"] == "plain"
    np.testing.assert_allclose(np.nanmean(folds[:, plain], axis=0), table["mean_test_error"][plain])
    constant = table["mean_test_error"][table["model"] == "constant"][0]
    assert constant == pytest.approx(min(np.mean(RINGS), np.mean(~RINGS)), abs=0.011)
    assert table["mean_test_error"][best] < 0.2 < table["mean_test_error"][table["model"] == "linear"][0]
    assert machine.model_.record.tried[0].error == pytest.approx(table["mean_test_error"][best], rel=1e-5)


def test_as_accurate_as_a_grid_over_svc_on_a_small_set():
    inputs, labels = load_breast_cancer(return_X_y=True)
    ours, theirs = [], []
    for seed in range(2):
        a, b, ya, yb = train_test_split(inputs, labels, train_size=300, stratify=labels, random_state=seed)
        scaler = StandardScaler().fit(a)
        a, b = scaler.transform(a), scaler.transform(b)
        ours.append(CompactSVC(100, tune=True, random_state=0).fit(a, ya).score(b, yb))
        theirs.append(
            GridSearchCV(SVC(), {"C": [1, 10, 100, 1000], "gamma": ["scale", 0.003, 0.13]}).fit(a, ya).score(b, yb)
        )
    assert np.mean(ours) > np.mean(theirs) - 0.008


def test_a_set_with_features_that_say_nothing_is_refined():
    """A plain model wants a wide kernel and a huge C there; one that learns its widths does not."""
    inputs = RNG.standard_normal((500, 20))
    labels = np.sum(inputs[:, :2] ** 2, axis=1) > 1.4
    machine = CompactSVC(30, tune=True, random_state=0).fit(inputs[:350], labels[:350])
    assert machine.C_ <= 1000
    assert "refinement" in {record["phase"] for record in machine.history_}
    assert machine.score(inputs[350:], labels[350:]) > 0.8


def test_a_set_without_errors_is_searched():
    """Plain and refined models of one setting have the same errors there."""
    rows = np.where(np.arange(120) % 2, 3.0, -3.0)[:, None] + RNG.uniform(-0.5, 0.5, (120, 2))
    for n_rows in (120, 2400):
        inputs = np.tile(rows, (n_rows // 120, 1)) + 0.01 * RNG.standard_normal((n_rows, 2))
        machine = CompactSVC(5, tune=True, refine=Refinement(3), random_state=0).fit(inputs, inputs[:, 0] > 0)
        assert machine.score(inputs, inputs[:, 0] > 0) == 1.0
        assert np.sum(machine.cv_results_["rank_test_error"] == 1) == 1


def test_it_says_when_a_linear_model_is_as_good():
    straight = CompactSVC(10, tune=True, refine=False, random_state=0).fit(X, X @ np.arange(1.0, 6.0) > 0)
    assert any("linear model is as good" in remark for remark in tuning_of(straight)["remarks"])
    bent = CompactSVC(20, tune=True, refine=False, random_state=0).fit(X, RINGS)
    assert not any("linear" in remark for remark in tuning_of(bent)["remarks"])


def test_it_says_when_more_vectors_would_help():
    rows = RNG.uniform(-2, 2, (1500, 2))
    board = (np.floor(rows[:, 0]) + np.floor(rows[:, 1])) % 2 == 0
    few = CompactSVC(6, tune=True, refine=False, random_state=0).fit(rows, board)
    assert any("12 instead of 6" in remark for remark in tuning_of(few)["remarks"])
    straight = CompactSVC(20, tune=True, refine=False, random_state=0).fit(rows, rows[:, 0] > 0)
    assert not any("more vectors" in remark for remark in tuning_of(straight)["remarks"])


def test_it_says_that_the_time_ended_the_search():
    machine = CompactSVC(10, tune=True, refine=False, max_time=1e-9, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        machine.fit(X, RINGS)
    assert any("time limit ended the search after 11 " in remark for remark in tuning_of(machine)["remarks"])
    assert np.sum(machine.cv_results_["model"] == "plain") == 11  # the first width, on the first fold


@pytest.mark.parametrize("refine", [False, Refinement(3)])
def test_the_same_bits_on_any_number_of_threads(refine):
    rows = RNG.standard_normal((2500, 4))
    labels = rows[:, 0] * rows[:, 1] > 0
    one, two = (
        CompactSVC(10, tune=True, refine=refine, random_state=0, n_jobs=jobs).fit(rows, labels) for jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.cv_results_["mean_test_error"], two.cv_results_["mean_test_error"])
    np.testing.assert_array_equal(one.decision_function(rows), two.decision_function(rows))


@pytest.mark.parametrize("words", [
    {"coding": "one_vs_one", "class_weight": "balanced"}, {"loss": "least_squares", "coding": "one_vs_one"},
    {"kernel": "poly"}, {"kernel": "linear"}, {"loss": "huber", "fit_intercept": False}, {"selection": "all"},
], ids=str)  # fmt: skip
def test_every_kind_of_classifier_is_searched(words):
    inputs, labels = load_iris(return_X_y=True)
    inputs = StandardScaler().fit_transform(inputs)
    machine = CompactSVC(15, tune=True, refine=False, random_state=0, **words).fit(inputs, labels)
    assert machine.score(inputs, labels) > 0.9
    assert ("linear" in machine.cv_results_["model"]) == (words.get("kernel") != "linear")


@pytest.mark.parametrize("loss", ["least_squares", "absolute", "quantile", "epsilon_insensitive", "huber"])
def test_every_kind_of_regressor_is_searched(loss):
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((150, 2))
    y = np.sin(2 * rows[:, 0]) + 0.5 * rows[:, 1] + 0.1 * rng.standard_normal(150)
    machine = CompactSVR(20, tune=True, refine=False, loss=loss, random_state=0, max_iter=500)
    machine.fit(rows, y, sample_weight=rng.uniform(0.5, 1.5, 150))
    assert machine.score(rows, y) > 0.6
    table = machine.cv_results_
    assert table["mean_test_error"][table["model"] == "constant"] == [1.0]
    assert table["mean_test_error"].min() < 0.7


def test_two_targets_and_sparse_rows_are_searched():
    from scipy import sparse

    y = np.column_stack([X[:, 0] ** 2, X[:, 1]])
    machine = CompactSVR(30, tune=True, refine=False, random_state=0).fit(sparse.csr_matrix(X), y)
    assert machine.score(X, y) > 0.7
    matrix = np.exp(-0.2 * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    precomputed = CompactSVC(20, kernel="precomputed", tune=True, refine=False, random_state=0).fit(matrix, RINGS)
    assert precomputed.score(matrix, RINGS) > 0.85


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_of_settings_that_are_as_good_the_least_cost_is_taken(seed):
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((200, 4))
    noisy = inputs[:, 0] + 1.5 * rng.standard_normal(200) > 0
    machine = CompactSVC(10, tune=True, refine=False, random_state=0).fit(inputs, noisy)
    assert machine.C_ <= 1.0


def test_a_refined_model_with_the_usual_width_and_cost_is_tried():
    machine = CompactSVC(20, gamma=0.1, tune=True, refine=Refinement(5), random_state=0).fit(X, RINGS)
    table = machine.cv_results_
    tried = [table["params"][k] for k in np.flatnonzero(table["learned"] != None)]  # noqa: E711
    assert any(setting["C"] == 1.0 and setting["gamma"] == 0.1 for setting in tried)
