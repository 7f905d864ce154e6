"""CompactNovelty: the one-class SVM on few vectors, its threshold, and every way out of Python."""

import runpy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs, make_moons, make_s_curve
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

import kompakt
from kompakt import CompactNovelty, Refinement
from kompakt.io.libsvm import parse_libsvm
from kompakt.losses import Hinge


def ring(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n_rows)
    return np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * rng.normal(size=(n_rows, 2))


@pytest.fixture(scope="module")
def machine():
    return CompactNovelty(15, random_state=0).fit(ring(600))


# -- the objective -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.05, 0.3])
def test_on_all_rows_it_is_the_one_class_svm(nu):
    X, new = ring(200), np.random.default_rng(1).normal(size=(100, 2))
    exact = OneClassSVM(nu=nu, gamma=2.0, tol=1e-8).fit(X)
    rho = -exact.intercept_[0]  # scikit-learn minimises nu n times the objective of the paper
    options = {"gamma": 2.0, "loss": "hinge", "selection": "all", "refine": False}
    machine = CompactNovelty(200, C=1.0 / rho, **options).fit(X)
    assert_allclose(rho * machine.score_samples(new), exact.score_samples(new), atol=1e-5 * rho)


def test_few_refined_vectors_rank_like_the_exact_machine():
    X = ring(1000)
    inside, outside = ring(500, 1), np.random.default_rng(2).uniform(-1.5, 1.5, (500, 2))
    rows, truth = np.concatenate([inside, outside]), np.repeat([1, 0], 500)
    exact = roc_auc_score(truth, OneClassSVM(gamma=3.0).fit(X).score_samples(rows))
    machine = CompactNovelty(10, random_state=0).fit(X)
    assert machine.n_basis_ == 10
    assert roc_auc_score(truth, machine.score_samples(rows)) > exact - 0.01
    # the hole in the middle is found, too
    assert machine.predict([[0.0, 0.0]]) == -1


def test_refinement_lowers_the_objective():
    X = ring(400)
    plain, refined = (CompactNovelty(6, refine=refine, random_state=0).fit(X) for refine in (False, True))
    assert refined.objective_ < 0.99 * plain.objective_


# -- the threshold -----------------------------------------------------------------------------------------


def normal_rows():
    """Twenty sources of normal rows, each a function of a number of rows and a seed."""

    def gaussian(d):
        return lambda n, seed: np.random.default_rng(seed).normal(size=(n, d))

    def student(d):
        return lambda n, seed: np.random.default_rng(seed).standard_t(3, size=(n, d))

    def uniform(d):
        return lambda n, seed: np.random.default_rng(seed).uniform(size=(n, d))

    def skewed(d):
        return lambda n, seed: np.random.default_rng(seed).exponential(size=(n, d))

    def blobs(k):
        centres = 4.0 * np.random.default_rng(k).normal(size=(k, 3))
        return lambda n, seed: make_blobs(n, centers=centres, random_state=seed)[0]

    sources = [make(d) for make in (gaussian, student, uniform, skewed) for d in (1, 2, 5, 20)]
    sources += [blobs(2), blobs(6), ring, lambda n, seed: make_s_curve(n, noise=0.1, random_state=seed)[0]]
    return sources


@pytest.mark.parametrize("n_rows", [400, 1500])
@pytest.mark.parametrize("nu", [0.01, 0.05, 0.1])
def test_the_share_of_false_alarms_is_what_was_asked_for(nu, n_rows):
    n_new = 4000
    machine = CompactNovelty(10, nu, refine=Refinement(10), random_state=0)
    sources = enumerate(normal_rows())
    shares = np.array([np.mean(machine.fit(make(n_rows, k)).predict(make(n_new, 100 + k)) < 0) for k, make in sources])
    # of a threshold from n rows, and of the new rows that measure it
    error = np.sqrt(nu * (1 - nu) * (1 / n_rows + 1 / n_new))
    assert abs(np.mean(shares) - nu) < 2 * error / np.sqrt(len(shares)) + 1 / n_rows  # a rank is whole
    assert np.mean(np.abs(shares - nu) < 2 * error) >= 0.8


def test_the_threshold_of_few_rows_comes_from_folds():
    X = np.random.default_rng(0).normal(size=(60, 2))
    machine = CompactNovelty(5, nu=0.2, random_state=0).fit(X)
    assert 0.1 < np.mean(machine.predict(np.random.default_rng(1).normal(size=(5000, 2))) < 0) < 0.35


def test_scores_and_offset_belong_together(machine):
    rows = ring(50, 3)
    assert_allclose(machine.decision_function(rows), machine.score_samples(rows) - machine.offset_)
    assert_array_equal(machine.predict(rows), np.where(machine.decision_function(rows) >= 0, 1, -1))
    assert machine.intercept_ == -machine.offset_


# -- marked outliers ---------------------------------------------------------------------------------------


def test_marked_outliers_choose_the_width():
    normal, strange = make_moons(400, noise=0.05, random_state=0)[0], np.random.default_rng(1).uniform(-1, 2, (60, 2))
    X = np.concatenate([normal, strange])
    y = np.repeat([1, -1], [400, 60])
    machine = CompactNovelty(20, random_state=0).fit(X, y)
    tried = machine.cv_results_
    assert len(tried["params"]) == 12
    chosen = int(np.argmin(tried["rank_test_error"]))
    assert machine.gamma_ == pytest.approx(tried["param_gamma"][chosen])
    assert machine.C_ == tried["param_C"][chosen]
    assert tried["mean_test_error"][chosen] < tried["mean_test_error"].max()
    assert machine.model_.record.error_name == "one minus the area under the ROC curve"


def test_a_given_width_is_not_searched():
    X, y = ring(200), np.repeat([1, -1], [180, 20])
    machine = CompactNovelty(5, gamma=1.5, C=1.0, random_state=0).fit(X, y)
    assert not hasattr(machine, "cv_results_")
    assert (machine.gamma_, machine.C_) == (1.5, 1.0)


def test_targets_that_mark_nothing_are_ignored_with_a_warning():
    X = ring(150)
    with pytest.warns(UserWarning, match="mark no row as an outlier"):
        machine = CompactNovelty(5, random_state=0).fit(X, np.repeat([0, 1], 75))
    assert_array_equal(machine.dual_coef_, CompactNovelty(5, random_state=0).fit(X).dual_coef_)


def test_other_targets_beside_marked_outliers_are_refused():
    with pytest.raises(ValueError, match=r"1 for normal rows and -1 for outliers; got \[0\] besides"):
        CompactNovelty(5).fit(ring(30), np.repeat([1, -1, 0], 10))


def test_labels_of_streamed_rows_are_checked(tmp_path):
    np.savez(tmp_path / "rows.npz", X=ring(100), y=np.repeat([1, 2], 50))
    with pytest.raises(ValueError, match="1 for normal rows and -1 for outliers"):
        CompactNovelty(5).fit(kompakt.open_rows(tmp_path / "rows.npz"))


# -- where rows come from, and where models go ---------------------------------------------------------------


def test_streamed_rows_give_the_same_bits(tmp_path, machine):
    np.save(tmp_path / "rows.npy", ring(600))
    streamed = CompactNovelty(15, random_state=0).fit(kompakt.open_rows(tmp_path / "rows.npy"))
    for name in ("basis_vectors_", "dual_coef_", "intercept_"):
        assert_array_equal(getattr(streamed, name), getattr(machine, name))
    assert machine.decision_function(ring(3)).shape == streamed.decision_function(ring(3)).shape == (3,)


def test_tables_are_encoded():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"flow": rng.normal(size=300), "valve": rng.choice(["open", "shut"], 300)})
    machine = CompactNovelty(8, random_state=0).fit(table)
    strange = pd.DataFrame({"flow": [9.0], "valve": ["open"]})
    assert machine.predict(strange) == -1
    assert np.mean(machine.predict(table)) > 0.7


def test_a_saved_model_answers_alike(tmp_path, machine):
    kompakt.save(machine, tmp_path / "m.kompakt")
    model, rows = kompakt.load(tmp_path / "m.kompakt"), ring(100, 5)
    assert model.kind == "outlier"
    assert_array_equal(model.decision_function(rows), machine.decision_function(rows))
    assert_array_equal(model.predict(rows), machine.predict(rows))
    with pytest.raises(AttributeError, match="no score"):
        model.score(rows, np.ones(100))


@pytest.mark.parametrize("scaled", [False, True])
def test_every_export_answers_alike(tmp_path, scaled):
    X = ring(400) * [1.0, 30.0] + [5.0, 0.0]
    fitted = make_pipeline(StandardScaler(), CompactNovelty(10, random_state=0)).fit(X)
    fitted = fitted if scaled else fitted[-1]
    rows = X if scaled else StandardScaler().fit_transform(X)
    for export, name in (("onnx", "m.onnx"), ("c", "m.c"), ("numpy", "m.py"), ("libsvm", "m.model")):
        if export == "onnx":
            pytest.importorskip("onnxruntime")
        report = getattr(kompakt, f"to_{export}")(fitted, tmp_path / name, check_rows=rows)
        assert report.n_rows == 400
        assert report.label_agreement == 1.0
    assert_array_equal(runpy.run_path(tmp_path / "m.py")["predict"](rows), fitted.predict(rows))
    assert parse_libsvm((tmp_path / "m.model").read_bytes().splitlines(keepends=True)).svm_type == "one_class"


def test_compressed_it_decides_alike(machine):
    rows = ring(500, 7)
    smaller = kompakt.compress(machine, n_basis=10, storage="int8", X=ring(600), random_state=0)
    assert smaller.kind == "outlier"
    assert smaller.n_basis_ == 10
    assert np.mean(smaller.predict(rows) == machine.predict(rows)) > 0.9


def test_the_report_is_about_outliers(tmp_path, machine):
    pytest.importorskip("matplotlib")
    rows = np.concatenate([ring(200, 3), np.random.default_rng(2).uniform(-2, 2, (40, 2))])
    page = kompakt.report(machine, rows, np.repeat([1, -1], [200, 40]), tmp_path / "page.html")
    assert "CompactNovelty" in page.read_text("utf-8")


# -- parameters --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"nu": 0.0}, "nu must be"), ({"nu": 1.0}, "nu must be"), ({"n_basis": "auto"}, "n_basis must be"),
     ({"gamma": "full"}, "gamma must be")],
)  # fmt: skip
def test_wrong_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        CompactNovelty(**parameters).fit(ring(20))


def test_a_loss_object_serves():
    assert CompactNovelty(5, loss=Hinge(), refine=False, random_state=0).fit(ring(100)).converged_
