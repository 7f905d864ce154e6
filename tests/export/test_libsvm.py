"""Text models for LIBSVM decide as the machines do: by LIBSVM's rule, and in its own programs."""

import dataclasses
import json
import shutil
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_blobs
from tests.export.machines import LIBSVM_CASES, LIBSVM_IDS, data, fitted
from tests.io.samples import libsvm_labels, make_model, rows, write_libsvm

import kompakt
from kompakt.export import ParityError, libsvm_file, to_libsvm
from kompakt.inputs import Inputs
from kompakt.io import UnsupportedModelError, read_libsvm, to_model
from kompakt.kernels import RBF, CallableKernel, Laplacian, Linear, Polynomial

needs_tools = pytest.mark.skipif(
    shutil.which("svm-predict") is None or shutil.which("svm-scale") is None, reason="libsvm-tools are not installed"
)


def svm_predict(report, X, folder):
    """Labels (or values) from svm-predict, after svm-scale where the export wrote a range file."""
    lines = ("0 " + " ".join(f"{f}:{v!r}" for f, v in enumerate(row, 1)) for row in X.tolist())
    (folder / "data").write_text("\n".join(lines) + "\n")
    name = "data"
    ranges = [file for file in report.files if file.suffix == ".range"]
    if ranges:
        done = subprocess.run(["svm-scale", "-r", str(ranges[0]), "data"], cwd=folder, capture_output=True, check=True)
        (folder / "scaled").write_bytes(done.stdout)
        name = "scaled"
    command = ["svm-predict", name, str(report.path), "out"]
    subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return np.loadtxt(folder / "out")


@needs_tools
@pytest.mark.parametrize(("kernel", "task", "scaled"), LIBSVM_CASES, ids=LIBSVM_IDS)
def test_thirty_machines_in_svm_predict(kernel, task, scaled, tmp_path):
    machine, (X, _) = fitted(kernel, task, scaled), data(task)
    report = to_libsvm(machine, tmp_path / "machine.model", check_rows=X)
    values = svm_predict(report, X, tmp_path)
    if task == "regression":
        # svm-scale and svm-predict print six digits
        assert_allclose(values, machine.predict(X), atol=2e-4)
        return
    assert report.label_agreement == 1.0
    if task == "two classes":
        names = json.loads((tmp_path / "machine.model.labels").read_text())
        values = np.array(names)[values.astype(int)]
    assert np.array_equal(values, machine.predict(X))


@needs_tools
def test_one_vs_one_agrees_wherever_no_votes_tie(tmp_path):
    model = make_model(classes=[5, 6, 7, 8], coding="one_vs_one", seed=3)
    X = rows(200)
    report = to_libsvm(model, tmp_path / "model", check_rows=X)
    _, expected, tied = libsvm_file.libsvm_answers(libsvm_file.libsvm_texts(model), model, X)
    answers = svm_predict(report, X, tmp_path)
    assert np.array_equal(answers, expected), "the exporter's check votes as svm-predict does"
    assert np.array_equal(answers[~tied], model.predict(X)[~tied])
    assert tied.any()
    assert report.label_agreement == np.mean(answers == model.predict(X))
    assert any("tie in votes" in note for note in report.notes)


def test_imputation_warns_and_is_noted(tmp_path):
    with pytest.warns(UserWarning, match="does not impute"):
        report = to_libsvm(make_model(inputs=Inputs(fill=np.ones(4))), tmp_path / "model")
    assert any("fill missing values" in note for note in report.notes)
    holes = np.where(rows() > 1.0, np.nan, rows())
    with pytest.warns(UserWarning, match="does not impute"):
        report = to_libsvm(make_model(inputs=Inputs(fill=np.ones(4))), tmp_path / "model", check_rows=holes)
    assert report.label_agreement == 1.0
    with pytest.raises(ValueError, match="missing values"):
        to_libsvm(make_model(), tmp_path / "model", check_rows=holes)


def test_a_wrong_file_is_not_written(tmp_path, monkeypatch):
    sound = libsvm_file.libsvm_texts
    monkeypatch.setattr(
        libsvm_file, "libsvm_texts", lambda model: sound(dataclasses.replace(model, weights=-model.weights))
    )
    for model in (make_model("regressor", kernel=RBF(0.2)), make_model(classes=[1, 2, 3])):
        with pytest.raises(ParityError, match="the LIBSVM model"):
            to_libsvm(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


# ---- writing, against the rule

BLOBS, _ = make_blobs(300, centers=4, n_features=4, cluster_std=2.5, random_state=1)


@pytest.mark.parametrize("classes", [[3, 8], [1, 2, 3], list(range(6))])
@pytest.mark.parametrize("coding", ["one_vs_rest", "one_vs_one"])
@pytest.mark.parametrize("kernel", [RBF(0.3), Linear(), Polynomial(0.4, 1.0, 3), 2.0 + RBF(0.2) * 3.0], ids=repr)
def test_written_classifier_decides_as_the_model(classes, coding, kernel, tmp_path):
    model = make_model(classes=classes, coding=coding, kernel=kernel)
    files = write_libsvm(model, tmp_path / "model")
    assert files.range is files.labels is None
    record, X = read_libsvm(files.model), rows(200)
    labels, tied = libsvm_labels(record, X)
    if coding == "one_vs_rest":
        assert not tied.any()
    np.testing.assert_array_equal(labels[~tied], model.predict(X)[~tied])
    again = to_model(record)
    if coding == "one_vs_one" or len(classes) == 2:
        np.testing.assert_allclose(again.outputs(X), model.outputs(X), rtol=1e-9, atol=1e-10)
    else:
        assert record.vectors.shape[0] == len(classes) * model.n_basis_
        first, second = np.triu_indices(len(classes), 1)
        F = model.outputs(X)
        np.testing.assert_allclose(again.outputs(X), F[:, second] - F[:, first], rtol=1e-9, atol=1e-10)


def test_a_centre_that_the_kernel_sees_is_in_the_range_file(tmp_path):
    """A polynomial is no function of differences: the model's offset moves its rows."""
    inputs = Inputs(centre=np.array([0.5, -1.0, 0.0, 2.0]))
    model = make_model("regressor", kernel=1.0 + Polynomial(0.2, 1.0, 2), inputs=inputs)
    files = write_libsvm(model, tmp_path / "model")
    again = to_model(read_libsvm(files.model), n_features=4)
    assert_allclose(again.predict(range_scaled(files.range, rows())), model.predict(rows()), rtol=1e-9)


def test_exact_zeros_go_to_the_same_class(tmp_path):
    model = dataclasses.replace(make_model(classes=[4, 5, 6]), weights=np.zeros((7, 3)), intercept=np.zeros(3))
    record = read_libsvm(write_libsvm(model, tmp_path / "model").model)
    assert libsvm_labels(record, BLOBS)[0].tolist() == model.predict(BLOBS).tolist()


def test_calibration_of_two_classes_is_written(tmp_path):
    model = make_model(classes=[0, 1], calibration={"a": np.array([-2.0]), "b": np.array([0.3])})
    again = to_model(read_libsvm(write_libsvm(model, tmp_path / "model").model))
    np.testing.assert_allclose(again.predict_proba(BLOBS), model.predict_proba(BLOBS), rtol=1e-9)
    with pytest.warns(UserWarning, match="calibration is not written"):
        write_libsvm(make_model(calibration={"a": -np.ones(3), "b": np.zeros(3)}), tmp_path / "model")


def test_text_labels_are_numbered_and_named_beside_the_model(tmp_path):
    model = make_model(classes=["ä", "b", "c"])
    files = write_libsvm(model, tmp_path / "model")
    names = json.loads(files.labels.read_text())
    labels, _ = libsvm_labels(read_libsvm(files.model), BLOBS)
    assert [names[label] for label in labels] == model.predict(BLOBS).tolist()
    halves = write_libsvm(make_model(classes=[0.5, 1.5]), tmp_path / "model")
    assert json.loads(halves.labels.read_text()) == [0.5, 1.5]


def range_scaled(path, X):
    """What svm-scale does with a range file, without its rounding to six digits."""
    lines = path.read_text().split("\n")
    assert lines[:2] == ["x", "0 1"]
    low, high = np.array([line.split()[1:] for line in lines[2:-1]], dtype=float).T
    constant = low == high
    return np.where(constant, 0.0, (X - low) / np.where(constant, 1.0, high - low))


@pytest.mark.parametrize("kernel", [RBF(0.3), RBF(np.array([0.1, 0.0, 2.0, 0.5])), Polynomial(0.2, 1.0, 2)], ids=repr)
def test_scaled_models_and_widths_per_feature_get_a_range_file(kernel, tmp_path):
    model = make_model(
        kernel=kernel, inputs=Inputs(shift=np.array([1.0, -2.0, 0.0, 5.0]), scale=np.array([2.0, 0.3, 1, 4])))
    files = write_libsvm(model, tmp_path / "model")
    X = rows(100) * model.inputs.scale + model.inputs.shift
    again = to_model(read_libsvm(files.model), n_features=4)
    F = model.outputs(X)
    np.testing.assert_allclose(
        again.outputs(range_scaled(files.range, X)), F[:, [1, 2, 2]] - F[:, [0, 0, 1]], rtol=1e-8, atol=1e-9
    )


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (make_model(kernel=Laplacian(1.0)), UnsupportedModelError, "no laplacian kernel"),
        (make_model(kernel=RBF(1.0) + Linear()), UnsupportedModelError, "no sum kernel"),
        (make_model(kernel=CallableKernel(np.dot)), TypeError, "hold code"),
        (make_model(coding="minimum_output"), UnsupportedModelError, "minimum_output"),
        (make_model("regressor", n_outputs=2), UnsupportedModelError, "one regression output"),
        (make_model(inputs=Inputs(shift=np.full(4, 1e18))), UnsupportedModelError, "Centre"),
    ],
)
def test_what_libsvm_lacks_is_named(model, error, message, tmp_path):
    with pytest.raises(error, match=message):
        write_libsvm(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# ---- the tools themselves


@needs_tools
@pytest.mark.parametrize("kernel", [RBF(0.3), Linear(), Polynomial(0.4, 1.0, 2), 1.0 + RBF(0.2)], ids=repr)
@pytest.mark.parametrize(
    "options",
    [
        {"classes": [3, -8]}, {"classes": [5, 2, 9]}, {"classes": [5, 2, 9, 1], "coding": "one_vs_one"},
        {"classes": range(12)}, {"classes": [6]}, {"kind": "regressor"}, {"kind": "outlier"},
    ],
    ids=str,
)  # fmt: skip
def test_svm_predict_answers_as_the_model(kernel, options, tmp_path):
    model, X = make_model(kernel=kernel, **options), rows(200)
    files = write_libsvm(model, tmp_path / "model")
    answers = svm_predict(files.report, X, tmp_path)
    if model.kind == "regressor":
        np.testing.assert_allclose(answers, model.predict(X), rtol=1e-5, atol=1e-5)
        return
    same = np.full(len(X), True)
    if options.get("coding") == "one_vs_one":
        same = ~libsvm_labels(read_libsvm(files.model), X)[1]
        assert same.mean() > 0.3
    np.testing.assert_array_equal(answers[same], model.predict(X)[same])


@needs_tools
@pytest.mark.parametrize("kernel", [RBF(0.3), RBF(np.array([0.1, 0.0, 2.0, 0.5])), Linear()], ids=repr)
def test_svm_scale_and_svm_predict_answer_as_a_scaled_model(kernel, tmp_path):
    model = make_model(
        kernel=kernel, inputs=Inputs(shift=np.array([1.0, -2.0, 0.0, 5.0]), scale=np.array([2.0, 0.3, 1, 4])))
    files = write_libsvm(model, tmp_path / "model")
    X = rows(200) * model.inputs.scale + model.inputs.shift
    scores = np.sort(model.decision_function(X), axis=1)
    clear = scores[:, -1] - scores[:, -2] > 1e-4  # svm-scale prints six digits
    assert clear.mean() > 0.95
    answers = svm_predict(files.report, X, tmp_path)
    np.testing.assert_array_equal(answers[clear], model.predict(X)[clear])


@needs_tools
@pytest.mark.parametrize("coding", ["one_vs_rest", "one_vs_one"])
def test_fitted_estimator_in_svm_predict(coding, tmp_path):
    X, y = load_iris(return_X_y=True)
    machine = kompakt.CompactSVC(n_basis=20, gamma="ard", coding=coding, random_state=0).fit(X, y)
    files = write_libsvm(machine, tmp_path / "model")
    answers = svm_predict(files.report, X, tmp_path)
    np.testing.assert_array_equal(answers, machine.predict(X))
