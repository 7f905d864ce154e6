"""CompactSVC(calibrate=...): sigmoids, isotonic curves and temperatures, in memory, files and exports; thresholds."""

import runpy
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_classification, make_moons
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, make_scorer, recall_score
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.svm import SVC

import kompakt
from kompakt import CompactSVC, calibration
from kompakt.export.c_file import find_compiler

METHODS = ("sigmoid", "isotonic", "temperature")


def task(n_classes, n_rows=400, seed=0):
    if n_classes == 2:
        return make_moons(n_rows, noise=0.3, random_state=seed)
    shape = {"n_features": 6, "n_informative": 4, "n_classes": 3, "n_clusters_per_class": 1}
    return make_classification(n_rows, flip_y=0.1, random_state=5, **shape)


# -- the three methods ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scores():
    rng = np.random.default_rng(0)
    f = 2.0 * rng.normal(size=500)
    return f, (rng.uniform(size=500) < 1 / (1 + np.exp(-1.5 * f))).astype(int)


def test_a_sigmoid_is_logistic_regression(scores):
    f, y = scores
    fitted = calibration.fit("sigmoid", f, y)
    expected = LogisticRegression(C=1e6).fit(f[:, None], y).predict_proba(f[:, None])
    assert_allclose(calibration.probabilities(fitted, f), expected, atol=1e-6)


def test_an_isotonic_curve_is_isotonic_regression_off_zero_and_one(scores):
    f, y = scores
    fitted, least = calibration.fit("isotonic", f, y), 1 / 502
    expected = np.clip(IsotonicRegression(out_of_bounds="clip").fit(f, y).predict(f), least, 1 - least)
    assert_allclose(calibration.probabilities(fitted, f)[:, 1], expected, atol=0.02)
    far = calibration.log_probabilities(fitted, np.array([-1e9, 1e9]))
    assert np.isfinite(far).all()


def test_a_temperature_has_the_lowest_log_loss(scores):
    f, y = scores
    many = np.column_stack([f, -f, 0.3 * f])
    labels = np.where(y == 1, 0, 1)
    t = calibration.fit("temperature", many, labels)["t"][0]
    losses = [log_loss(labels, calibration.probabilities({"t": np.array([t * c])}, many), labels=[0, 1, 2])
              for c in (0.95, 1.0, 1.05)]  # fmt: skip
    assert losses[1] == min(losses)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_threshold_is_where_the_probability_is(method, n_classes, scores):
    f, y = scores
    if n_classes == 2:
        fitted = calibration.fit(method, f, y)
        for probability in (0.2, 0.5, 0.7):
            value = calibration.score_of(fitted, probability)
            assert_allclose(calibration.probabilities(fitted, np.array([value]))[0, 1], probability, atol=0.02)
            moved, chances = calibration.moved(fitted, value), calibration.probabilities(fitted, f)
            assert_allclose(calibration.probabilities(moved, f - value), chances, atol=1e-9)
    else:
        many = np.column_stack([f, -f, 0.3 * f])
        fitted = calibration.fit(method, many, np.arange(500) % 3)
        chances = calibration.probabilities(fitted, many)
        assert_allclose(chances.sum(axis=1), 1.0)
        assert_allclose(np.exp(calibration.log_probabilities(fitted, many)), chances)


@pytest.mark.parametrize(
    "arrays",
    [{"a": [1.0]}, {"t": [0.0]}, {"t": [np.nan]}, {"a": [1.0, 2.0], "b": [1.0, 2.0]},
     {"x": [0.0, 1.0], "y": [0.6, 0.5], "ends": [2.0]}, {"x": [0.0, 0.0], "y": [0.1, 0.5], "ends": [2.0]},
     {"x": [0.0, 1.0], "y": [0.1, 0.5], "ends": [3.0]}, {"x": [0.0], "y": [1.5], "ends": [1.0]}],
)  # fmt: skip
def test_arrays_that_are_no_calibration_are_refused(arrays):
    with pytest.raises(ValueError, match="calibration"):
        calibration.check_calibration({key: np.array(values) for key, values in arrays.items()}, 1)


# -- in the estimator ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*METHODS, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_rows", [60, 400])
def test_probabilities_are_better_than_a_constant_and_add_up(method, n_classes, n_rows):
    X, y = task(n_classes, 1400)
    machine = CompactSVC(8, refine=False, calibrate=method, random_state=0).fit(X[:n_rows], y[:n_rows])
    chances = machine.predict_proba(X[400:])
    assert_allclose(chances.sum(axis=1), 1.0)
    assert_allclose(np.exp(machine.predict_log_proba(X[400:])), chances, atol=1e-12)
    constant = np.tile(np.bincount(y[:n_rows]) / n_rows, (1000, 1))
    assert log_loss(y[400:], chances) < 0.9 * log_loss(y[400:], constant)


def test_true_takes_the_curve_where_a_sigmoid_cannot_follow():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2500, 1))
    chance = np.select([X[:, 0] < -0.3, X[:, 0] < 0.3], [0.01, 0.5], 0.6)  # three levels: no sigmoid
    y = (rng.uniform(size=2500) < chance).astype(int)
    machine = CompactSVC(10, refine=False, calibrate=True, random_state=0).fit(X, y)
    assert calibration.method_of(machine.model_.calibration) == "isotonic"
    noted = next(entry for entry in machine.history_ if entry["phase"] == "calibration")
    assert noted["log_loss_isotonic"] < noted["log_loss_sigmoid"]


def test_log_loss_is_near_that_of_calibrated_svc():
    X, y = task(2, 2400)
    ours = CompactSVC(20, calibrate=True, random_state=0).fit(X[:800], y[:800]).predict_proba(X[800:])
    theirs = CalibratedClassifierCV(SVC(), ensemble=False).fit(X[:800], y[:800]).predict_proba(X[800:])
    assert log_loss(y[800:], ours) < log_loss(y[800:], theirs) + 0.02


def test_a_wrong_method_is_named():
    with pytest.raises(ValueError, match="calibrate must be True, False or one of"):
        CompactSVC(calibrate="platt").fit(*task(2, 50))


# -- files and exports ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_files_and_exports_keep_them(tmp_path, method, n_classes):
    X, y = task(n_classes)
    machine = CompactSVC(6, refine=False, calibrate=method, random_state=0).fit(X, y)
    expected = machine.predict_proba(X)
    kompakt.save(machine, tmp_path / "m.kompakt")
    assert_array_equal(kompakt.load(tmp_path / "m.kompakt").predict_proba(X), expected)
    kompakt.to_numpy(machine, tmp_path / "m.py", check_rows=X)
    assert_allclose(runpy.run_path(tmp_path / "m.py")["predict_proba"](X), expected, atol=1e-9)
    onnxruntime = pytest.importorskip("onnxruntime")
    kompakt.to_onnx(machine, tmp_path / "m.onnx", check_rows=X)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    assert_allclose(session.run(["probabilities"], {"X": X})[0], expected, atol=1e-8)
    if find_compiler() is None:
        pytest.skip("no C compiler")
    for dtype, tolerance in (("double", 1e-8), ("float", 1e-3)):
        kompakt.to_c(machine, tmp_path / "m.c", dtype=dtype, check_rows=X)
        command = [find_compiler(), "-std=c99", "-DM_MAIN", str(tmp_path / "m.c"), "-o", str(tmp_path / "m"), "-lm"]
        subprocess.run(command, check=True)
        lines = "\n".join(" ".join(map(repr, row)) for row in X.tolist()) + "\n"
        done = subprocess.run([str(tmp_path / "m")], input=lines, capture_output=True, text=True, check=True)
        printed = np.array(done.stdout.split(), dtype=float).reshape(len(X), -1)
        assert_allclose(printed[:, -n_classes:], expected, atol=tolerance)


def test_libsvm_says_that_it_has_sigmoids_only(tmp_path):
    X, y = task(2)
    machine = CompactSVC(6, gamma=0.5, refine=False, calibrate="isotonic", random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="the calibration is not written"):
        kompakt.to_libsvm(machine, tmp_path / "m.model")


def test_a_compressed_model_keeps_its_calibration():
    X, y = task(3)
    machine = CompactSVC(10, refine=False, calibrate="temperature", random_state=0).fit(X, y)
    smaller = kompakt.compress(machine, n_basis=8, X=X, random_state=0)
    assert_allclose(smaller.predict_proba(X), machine.predict_proba(X), atol=0.2)


# -- thresholds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("response", ["decision_function", "predict_proba"])
def test_a_tuned_threshold_is_part_of_the_model(tmp_path, method, response):
    X, y = task(2)
    machine = CompactSVC(6, refine=False, calibrate=method, random_state=0)
    wanted = make_scorer(lambda truth, said: recall_score(truth, said) - 0.3 * np.mean(said))
    tuned = TunedThresholdClassifierCV(machine, response_method=response, scoring=wanted, cv=3).fit(X, y)
    kompakt.save(tuned, tmp_path / "m.kompakt")
    model = kompakt.load(tmp_path / "m.kompakt")
    assert np.mean(model.predict(X) == tuned.predict(X)) > 0.995  # a curve has flat pieces
    assert_allclose(model.predict_proba(X), tuned.predict_proba(X), atol=1e-9)
    assert np.mean(model.predict(X)) != np.mean(tuned.estimator_.predict(X))


def test_a_fixed_threshold_is_part_of_every_export(tmp_path):
    X, y = task(2)
    fixed = FixedThresholdClassifier(
        CompactSVC(6, refine=False, calibrate="sigmoid", random_state=0), threshold=0.9, response_method="predict_proba"
    ).fit(X, y)
    kompakt.to_numpy(fixed, tmp_path / "m.py", check_rows=X)
    assert_array_equal(runpy.run_path(tmp_path / "m.py")["predict"](X), fixed.predict(X))


def test_thresholds_that_a_model_cannot_hold_are_refused():
    X, y = task(2)
    machine = CompactSVC(6, refine=False, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="needs a calibrated model"):
        machine.model_.with_threshold(0.3, probability=True)
    three = CompactSVC(6, refine=False, random_state=0).fit(*load_iris(return_X_y=True))
    with pytest.raises(ValueError, match="two classes"):
        three.model_.with_threshold(0.3)
    other = FixedThresholdClassifier(machine, threshold=0.1, pos_label=0, response_method="decision_function").fit(X, y)
    with pytest.raises(TypeError, match="threshold of the label 1"):
        kompakt.io.fitted.model_of(other)
