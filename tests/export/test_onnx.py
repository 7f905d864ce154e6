"""ONNX files answer in onnxruntime as the machines do."""

import importlib.util
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM
from tests.export.machines import CASES, CONSTANTS, IDS, data, decisions, fitted
from tests.io.samples import full_classifier, make_model, outlier_detector, rows

import kompakt
from kompakt.export import ParityError, register_skl2onnx, to_onnx
from kompakt.inputs import Inputs
from kompakt.io import UnsupportedModelError
from kompakt.io.fitted import fold_steps
from kompakt.kernels import RBF, Constant, Laplacian, Linear, Polynomial

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def run(path, X):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: X})


@pytest.mark.parametrize(("kernel", "task", "scaled"), CASES, ids=IDS)
def test_forty_two_machines_in_both_precisions(kernel, task, scaled, tmp_path):
    machine, (X, _) = fitted(kernel, task, scaled), data(task)
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
        report = to_onnx(machine, tmp_path / "machine.onnx", dtype=dtype, check_rows=X)
        expected = decisions(machine, X.astype(dtype).astype(float))
        results = run(tmp_path / "machine.onnx", X.astype(dtype))
        scale = np.abs(expected).max()
        assert results[-1].shape == expected.shape
        assert results[-1].dtype == dtype
        difference = np.abs(results[-1] - expected).max()
        assert difference <= tolerance * scale
        assert report.max_difference == pytest.approx(difference, rel=1e-3, abs=2e-15 * scale)
        assert report.n_bytes == (tmp_path / "machine.onnx").stat().st_size
        if task != "regression":
            assert np.array_equal(results[0], machine.predict(X))
            assert report.label_agreement == 1.0


MODELS = {
    "every field": full_classifier(),
    "outlier": outlier_detector(),
    "one_vs_one": make_model(classes=["a", "b", "c", "d"], coding="one_vs_one"),
    "constants inside": make_model(kernel=CONSTANTS),
    "minimum_output": make_model(classes=[0.5, 1.5, 2.5, 3.5, 7], coding="minimum_output", kernel=Laplacian(0.3)),
    "booleans": make_model(classes=[False, True], kernel=2.7 * Linear()),
    "objects": make_model(classes=np.array(["x", "y", "z"], dtype=object)),
    "one class": make_model(classes=["only"]),
    "constant": make_model(kernel=Constant(2.0), classes=[1, 2]),
    "several outputs": make_model("regressor", n_outputs=3),
    "no vectors": make_model("regressor", m=0, inputs=Inputs(shift=np.ones(4))),
    "one column": make_model(
        "regressor", d=1, m=1, kernel=0.37 * Laplacian(0.3), inputs=Inputs(scale=np.array([0.77]))
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_codings_labels_and_odd_shapes(name, tmp_path):
    model = MODELS[name]
    to_onnx(model, tmp_path / "model.onnx")
    X = rows(d=model.n_features)
    results = run(tmp_path / "model.onnx", X)
    if model.kind != "regressor":
        assert results[0].tolist() == model.predict(X).tolist()
        results = results[1:]
    assert_allclose(results[0], model.decision_function(X), rtol=0, atol=1e-12 * max(1, np.abs(results[0]).max()))
    assert results[0].shape == model.decision_function(X).shape
    if model.calibration is not None:
        assert_allclose(results[1], model.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_far_rows_are_answered_as_by_the_machine_or_with_scores_that_are_not_finite(dtype, tmp_path):
    far = np.array([[1e38, -1e38, 0, 1], [1e38, 1, 2, 3], [np.nan, 0, 0, 0]], dtype=dtype)
    far *= 1 if dtype == "float32" else 1e270
    model = make_model()
    to_onnx(model, tmp_path / "model.onnx", dtype=dtype)
    scores = run(tmp_path / "model.onnx", far)[1]
    assert_allclose(scores[:2], model.decision_function(far[:2]), rtol=1e-5)
    assert np.isnan(scores[2]).all()
    to_onnx(make_model(kernel=Polynomial(0.5, 1.0, 3)), tmp_path / "model.onnx", dtype=dtype)
    assert not np.isfinite(run(tmp_path / "model.onnx", far)[1]).all(axis=1).any()


def test_probabilities_of_two_classes(tmp_path):
    model = make_model(classes=[0, 1], calibration={"a": np.array([-1.3]), "b": np.array([0.2])})
    to_onnx(model, tmp_path / "model.onnx")
    assert_allclose(run(tmp_path / "model.onnx", rows())[2], model.predict_proba(rows()), atol=1e-12)


def test_missing_values_are_filled_inside(tmp_path):
    model = make_model(inputs=Inputs(fill=np.array([0.0, 1.0, 2.0, 3.0]), shift=np.ones(4)))
    X = rows()
    X[::3, 1] = np.nan
    to_onnx(model, tmp_path / "model.onnx", check_rows=X)
    assert_allclose(run(tmp_path / "model.onnx", X)[1], model.decision_function(X), atol=1e-12)


def test_rows_far_from_the_origin_keep_their_digits_in_float32(tmp_path):
    X, y = data("three classes")
    far = X + 1000.0
    machine = clone(fitted("rbf", "three classes", False)).fit(far, y)
    report = to_onnx(machine, tmp_path / "far.onnx", dtype="float32", check_rows=far)
    assert report.relative_difference < 1e-5


@pytest.mark.parametrize(
    "before",
    [
        [SimpleImputer(strategy="median"), StandardScaler()],
        [MinMaxScaler((-1, 2))],
        [MaxAbsScaler(), RobustScaler(), "passthrough"],
        [StandardScaler(with_mean=False), StandardScaler(with_std=False)],
    ],
    ids=repr,
)
def test_pipelines_are_folded_in(before, tmp_path):
    X, y = data("three classes")
    X = X.copy()
    if len(before) and "Imputer" in repr(before[0]):
        X[::5, 2] = np.nan
    machine = make_pipeline(*before, clone(fitted("rbf", "three classes", False))).fit(X, y)
    to_onnx(machine, tmp_path / "p.onnx", check_rows=X)
    labels, scores = run(tmp_path / "p.onnx", X)
    assert np.array_equal(labels, machine.predict(X))
    assert_allclose(scores, machine.decision_function(X), atol=1e-11)


def test_a_pipeline_around_a_model_that_scales_itself(tmp_path):
    inner = make_model(
        "regressor", inputs=Inputs(shift=np.arange(4.0), scale=np.full(4, 2.0), fill=np.array([3.0, 2.0, 1.0, 0.0])))
    X = rows()
    scaler = StandardScaler().fit(X * 3 + 1)
    X[::4, 1] = np.nan
    to_onnx(fold_steps([("scale", scaler)], inner), tmp_path / "p.onnx", check_rows=X)
    assert_allclose(run(tmp_path / "p.onnx", X)[0], inner.predict(scaler.transform(X)), atol=1e-12)


@pytest.mark.parametrize("step", [MinMaxScaler(clip=True), SimpleImputer(add_indicator=True)])
def test_other_steps_are_named(step, tmp_path):
    X, y = data("two classes")
    X = np.where(np.arange(X.size).reshape(X.shape) % 7 == 0, np.nan, X) if "Imputer" in repr(step) else X
    if "Imputer" in repr(step):
        machine = make_pipeline(step, kompakt.CompactSVC(5, refine=False, random_state=0)).fit(X, y)
    else:
        machine = make_pipeline(step, clone(fitted("rbf", "two classes", False))).fit(X, y)
    with pytest.raises(TypeError, match="cannot be put into a model"):
        to_onnx(machine, tmp_path / "p.onnx")


@pytest.mark.parametrize("machine", [SVC(gamma=0.3), NuSVC(), SVR(C=3.0), OneClassSVM(nu=0.2)], ids=repr)
def test_svms_of_scikit_learn(machine, tmp_path):
    X, y = data("regression" if isinstance(machine, SVR) else "two classes")
    machine = make_pipeline(StandardScaler(), clone(machine)).fit(X, y)
    for given, rows_of in ((machine, X), (machine[-1], machine[:-1].transform(X))):
        to_onnx(given, tmp_path / "svm.onnx", check_rows=rows_of)
        results = run(tmp_path / "svm.onnx", rows_of)
        values = machine.predict(X) if isinstance(machine[-1], SVR) else machine.decision_function(X)
        assert_allclose(results[-1], values, atol=1e-10)
        assert isinstance(machine[-1], SVR) or np.array_equal(results[0], machine.predict(X))


def test_a_search_exports_its_best_machine(tmp_path):
    X, y = data("two classes")
    machine = make_pipeline(StandardScaler(), clone(fitted("rbf", "two classes", False)))
    search = GridSearchCV(machine, {"compactsvc__C": [0.1, 1.0]}, cv=2).fit(X, y)
    to_onnx(search, tmp_path / "search.onnx")
    assert np.array_equal(run(tmp_path / "search.onnx", X)[0], search.predict(X))


# -- errors ----------------------------------------------------------------------------------------------


def test_a_wrong_file_is_not_written(tmp_path, monkeypatch):
    from kompakt.export import onnx_file

    sound = onnx_file.folded

    def spoiled(model, **options):
        made = sound(model, **options)
        made.weights[0] += 1e-6
        return made

    monkeypatch.setattr(onnx_file, "folded", spoiled)
    with pytest.raises(ParityError, match=r"differs from the machine by \d.*e-07"):
        to_onnx(make_model(), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
    assert to_onnx(make_model(), tmp_path / "model.onnx", tolerance=1e-3).max_difference > 1e-8


def test_wrong_labels_are_noticed(tmp_path, monkeypatch):
    from kompakt.export import onnx_file

    real = onnx_file._run
    monkeypatch.setattr(onnx_file, "_run", lambda *given: (real(*given)[0][::-1], real(*given)[1]))
    with pytest.raises(ParityError, match="other labels"):
        to_onnx(make_model(), tmp_path / "model.onnx")


def test_foreign_kernels_say_why(tmp_path):
    X, y = data("two classes")
    machine = kompakt.CompactSVC(5, kernel=lambda a, b: a @ b.T, selection="random", refine=False).fit(X, y)
    with pytest.raises(TypeError, match="would have to hold code"):
        to_onnx(machine, tmp_path / "model.onnx")
    machine = kompakt.CompactSVC(5, kernel="precomputed", selection="random", refine=False).fit(X @ X.T, y)
    with pytest.raises(TypeError, match="column numbers"):
        to_onnx(machine, tmp_path / "model.onnx")

    class Own(Linear):
        pass

    with pytest.raises(UnsupportedModelError, match="must write its formula"):
        to_onnx(make_model(kernel=1.0 + Own()), tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float16"}, "float64' or 'float32"),
        ({"check_rows": np.zeros((3, 2))}, "check_rows must have shape"),
        ({"check_rows": np.full((3, 4), np.nan)}, "missing values"),
    ],
)
def test_wrong_options(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        to_onnx(make_model(), tmp_path / "model.onnx", **options)


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "onnxruntime" else find(name, *a))
    with pytest.raises(ImportError, match=r"onnxruntime.*kompakt\[onnx\]"):
        to_onnx(make_model(), tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ImportError, match=r"skl2onnx.*kompakt\[onnx\]"):
        register_skl2onnx()


# -- skl2onnx --------------------------------------------------------------------------------------------


@pytest.fixture
def skl2onnx():
    module = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    register_skl2onnx()
    return module


@pytest.mark.parametrize("task", ["two classes", "three classes", "regression"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_convert_sklearn_of_a_pipeline(task, dtype, skl2onnx, tmp_path):
    X, _ = data(task)
    machine = fitted("1 + rbf", task, True)
    path = tmp_path / "pipeline.onnx"
    path.write_bytes(skl2onnx.to_onnx(machine, X[:1].astype(dtype)).SerializeToString())
    results = run(path, X.astype(dtype))
    expected = decisions(machine, X)
    scale = np.abs(expected).max()
    assert_allclose(
        results[-1].reshape(expected.shape), expected, atol=(1e-12 if dtype == np.float64 else 2e-5) * scale
    )
    if task != "regression":
        assert np.array_equal(results[0], machine.predict(X))


@pytest.mark.parametrize("task", ["two classes", "three classes"])
@pytest.mark.parametrize("options", [None, {"zipmap": False}, {"raw_scores": True}], ids=str)
def test_probabilities_and_options_of_skl2onnx(task, options, skl2onnx, tmp_path):
    X, y = data(task)
    machine = kompakt.CompactSVC(6, selection="random", refine=False, calibrate=True, random_state=0)
    machine = make_pipeline(StandardScaler(), machine).fit(X, y)
    path = tmp_path / "pipeline.onnx"
    given = {id(machine[-1]): options} if options == {"raw_scores": True} else options
    path.write_bytes(skl2onnx.to_onnx(machine, X[:1], options=given).SerializeToString())
    results = run(path, X)
    assert np.array_equal(results[0], machine.predict(X))
    scores = machine.decision_function(X)
    if options == {"raw_scores": True}:
        expected = [np.column_stack([-scores, scores]) if scores.ndim == 1 else scores]
    else:
        expected = [machine.predict_proba(X), scores.reshape(len(X), -1)]
    for result, wanted in zip(results[1:], expected, strict=True):
        assert_allclose(result, wanted, atol=1e-10)


@pytest.mark.parametrize("task", ["two classes", "three classes"])
@pytest.mark.parametrize("calibrate", [False, True])
def test_a_machine_inside_another_estimator_converts(task, calibrate, skl2onnx, tmp_path):
    """`CalibratedClassifierCV` wants scores, `BaggingClassifier` wants probabilities where there are any."""
    X, y = data(task)
    X, y = np.tile(X, (4, 1)), np.tile(y, 4)
    inner = kompakt.CompactSVC(6, selection="random", refine=False, calibrate=calibrate, random_state=0)
    outer = CalibratedClassifierCV(inner, cv=2)
    if calibrate:
        outer = BaggingClassifier(inner, n_estimators=2, random_state=0)
    outer.fit(X, y)
    path = tmp_path / "outer.onnx"
    path.write_bytes(skl2onnx.to_onnx(outer, X[:1], options={"zipmap": False}).SerializeToString())
    labels, probabilities = run(path, X)
    assert np.array_equal(labels, outer.predict(X))
    assert_allclose(probabilities, outer.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("options", [None, {"zipmap": False}], ids=str)
@pytest.mark.parametrize("place", ["last step", "around"])
def test_a_calibrated_pipeline_gives_probabilities(place, options, skl2onnx, tmp_path):
    X, y = data("three classes")
    X, y = np.tile(X, (4, 1)) * [1.0, 100.0, 0.01, 1.0], np.tile(y, 4)
    machine = kompakt.CompactSVC(6, selection="random", refine=False, random_state=0)
    if place == "around":
        outer = CalibratedClassifierCV(make_pipeline(StandardScaler(), machine), cv=2)
    else:
        outer = make_pipeline(StandardScaler(), CalibratedClassifierCV(machine, cv=2))
    outer.fit(X, y)
    path = tmp_path / "outer.onnx"
    X = X.astype(np.float32) if options is None else X  # ONNX's ZipMap, a dict per row, takes nothing else
    path.write_bytes(skl2onnx.to_onnx(outer, X[:1], options=options).SerializeToString())
    labels, probabilities = run(path, X)
    if options is None:
        probabilities = np.array([[row[label] for label in outer.classes_.tolist()] for row in probabilities])
    assert np.array_equal(labels, outer.predict(X))
    assert_allclose(probabilities, outer.predict_proba(X), atol=1e-5 if options is None else 1e-6)


def test_the_least_opset(skl2onnx, tmp_path):
    X, _ = data("three classes")
    machine = fitted("laplacian", "three classes", True)
    path = tmp_path / "old.onnx"
    path.write_bytes(skl2onnx.to_onnx(machine, X[:1], target_opset=13).SerializeToString())
    assert np.array_equal(run(path, X)[0], machine.predict(X))
    with pytest.raises(ValueError, match="opset 13"):
        skl2onnx.to_onnx(machine, X[:1], target_opset=12)


def estimators():
    options = {"n_basis": 6, "random_state": 0}
    return [
        kompakt.SpSVC(**options, gamma=0.4),
        kompakt.FEESVC(**options, gamma=0.4),
        kompakt.FEESVR(**options, gamma=0.4),
        kompakt.FixedSizeLSSVC(**options, gamma=0.4, tune=False),
        kompakt.FixedSizeLSSVR(**options, gamma=0.4, tune=False),
        kompakt.ProjectedSVC(**options, gamma=0.4),
        kompakt.KernelFisher(gamma=0.4),
        kompakt.ProjectedKernelFisher(n_basis=6, gamma=0.4),
        kompakt.LocalSamplingSVC(n_basis=6, random_state=0),
        kompakt.CGLQSVC(n_basis=6, random_state=0),
    ]


@pytest.mark.parametrize("machine", estimators(), ids=lambda machine: type(machine).__name__)
def test_every_estimator_converts(machine, skl2onnx, tmp_path):
    X, y = data("regression" if type(machine).__name__.endswith("SVR") else "two classes")
    machine = clone(machine).fit(X, y)
    path = tmp_path / "machine.onnx"
    path.write_bytes(skl2onnx.to_onnx(machine, X[:1]).SerializeToString())
    expected = decisions(machine, X)
    # KernelFisher keeps every row and large weights of both signs: rounding is relative to these
    assert_allclose(run(path, X)[-1].ravel(), expected, atol=1e-9 * np.abs(expected).max())
    assert to_onnx(machine, tmp_path / "own.onnx", check_rows=X).label_agreement in (1.0, None)


def test_the_projection_is_a_transformer_in_a_pipeline(skl2onnx, tmp_path):
    from sklearn.linear_model import LogisticRegression

    X, y = data("two classes")
    machine = make_pipeline(StandardScaler(), kompakt.GreedyProjection(n_basis=6), LogisticRegression()).fit(X, y)
    path = tmp_path / "machine.onnx"
    path.write_bytes(skl2onnx.to_onnx(machine, X[:1], options={"zipmap": False}).SerializeToString())
    labels, probabilities = run(path, X)
    assert np.array_equal(labels, machine.predict(X))
    assert_allclose(probabilities, machine.predict_proba(X), atol=1e-6)


def test_text_and_whole_inputs_of_skl2onnx(skl2onnx, tmp_path):
    """Columns of whole numbers are cast; a machine of our own kernel objects converts as well."""
    X, y = data("two classes")
    whole = np.rint(X * 10).astype(np.int64)
    machine = kompakt.CompactSVC(6, kernel=RBF(0.01), selection="random", refine=False, random_state=0).fit(whole, y)
    path = tmp_path / "machine.onnx"
    path.write_bytes(skl2onnx.to_onnx(machine, whole[:1]).SerializeToString())
    assert np.array_equal(run(path, whole)[0], machine.predict(whole))
