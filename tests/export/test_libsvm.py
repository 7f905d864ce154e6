"""LIBSVM's own programs give the labels of the machines."""

import json
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.export.machines import LIBSVM_CASES, LIBSVM_IDS, data, fitted
from tests.io.samples import make_model, rows

from kompakt.export import ParityError, libsvm_file, to_libsvm
from kompakt.io import UnsupportedModelError
from kompakt.kernels import RBF, Laplacian

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
        report = to_libsvm(make_model(input_fill=np.ones(4)), tmp_path / "model")
    assert any("fill missing values" in note for note in report.notes)
    holes = np.where(rows() > 1.0, np.nan, rows())
    with pytest.warns(UserWarning, match="does not impute"):
        report = to_libsvm(make_model(input_fill=np.ones(4)), tmp_path / "model", check_rows=holes)
    assert report.label_agreement == 1.0
    with pytest.raises(ValueError, match="missing values"):
        to_libsvm(make_model(), tmp_path / "model", check_rows=holes)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (make_model(kernel=Laplacian(0.3)), "no laplacian kernel"),
        (make_model(coding="minimum_output", classes=[1, 2, 3]), "minimum_output"),
        (make_model("regressor", n_outputs=2), "one regression output"),
    ],
)
def test_what_libsvm_lacks_is_named(model, message, tmp_path):
    with pytest.raises(UnsupportedModelError, match=message):
        to_libsvm(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_wrong_file_is_not_written(tmp_path, monkeypatch):
    sound = libsvm_file.libsvm_texts
    monkeypatch.setattr(libsvm_file, "libsvm_texts", lambda model: sound(replace(model, weights=-model.weights)))
    for model in (make_model("regressor", kernel=RBF(0.2)), make_model(classes=[1, 2, 3])):
        with pytest.raises(ParityError, match="the LIBSVM model"):
            to_libsvm(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())
