"""The NumPy file answers as the machine, in a process that has nothing but NumPy."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.export.machines import CASES, CONSTANTS, IDS, data, decisions, fitted
from tests.io.samples import full_classifier, make_model, outlier_detector, rows

from kompakt.export import ParityError, numpy_file, runtime, to_numpy
from kompakt.inputs import Inputs
from kompakt.kernels import RBF, Constant, Laplacian, Polynomial

RUNTIME = Path(runtime.__file__).read_text()


def names_of(path):
    names = {"__name__": "tested"}
    exec(compile(path.read_text(), path.name, "exec"), names)
    return names


@pytest.mark.parametrize(("kernel", "task", "scaled"), CASES, ids=IDS)
def test_forty_two_machines(kernel, task, scaled, tmp_path):
    machine, (X, _) = fitted(kernel, task, scaled), data(task)
    report = to_numpy(machine, tmp_path / "machine.py", check_rows=X)
    names, expected = names_of(tmp_path / "machine.py"), decisions(machine, X)
    values = names["decision_function"](X)
    assert values.shape == expected.shape
    assert np.abs(values - expected).max() <= 1e-12 * np.abs(expected).max()
    assert report.max_difference <= 1e-12 * np.abs(expected).max()
    predicted = names["predict"](X)
    assert np.array_equal(predicted, machine.predict(X)) or task == "regression"
    assert predicted.dtype.kind == machine.predict(X).dtype.kind


MODELS = {
    "every field": full_classifier(),
    "outlier": outlier_detector(),
    "one_vs_one": make_model(classes=["a", "b", "c", "d"], coding="one_vs_one"),
    "constants inside": make_model(kernel=CONSTANTS),
    "minimum_output": make_model(classes=[0.5, 1.5, 2.5, 3.5, 7], coding="minimum_output", kernel=Laplacian(0.3)),
    "two classes": make_model(classes=[0, 1], calibration={"a": np.array([-1.3]), "b": np.array([0.2])}),
    "one class": make_model(classes=["only"]),
    "constant": make_model(kernel=Constant(2.0) * 3.0, classes=[1, 2]),
    "no vectors": make_model("regressor", m=0),
    "several outputs": make_model("regressor", n_outputs=3, kernel=np.float64(0.3) * Laplacian(np.float64(0.3))),
}


@pytest.mark.parametrize("name", MODELS)
def test_codings_labels_and_odd_shapes(name, tmp_path):
    model = MODELS[name]
    to_numpy(model, tmp_path / "model.py")
    assert (tmp_path / "model.py").read_text().endswith(RUNTIME.split('_DATA = ""\n')[1]), "the code is fixed"
    names, X = names_of(tmp_path / "model.py"), np.tile(rows(), (300, 1))
    assert ("predict_proba" in names) == (model.calibration is not None)
    if model.inputs.fill is not None:
        X[::3, 1] = np.nan
    assert_allclose(names["decision_function"](X), model.decision_function(X), atol=1e-11)
    if model.kind != "regressor":
        assert names["predict"](X).tolist() == model.predict(X).tolist()
    if model.calibration is not None:
        assert_allclose(names["predict_proba"](X), model.predict_proba(X), atol=1e-12)
    with pytest.raises(ValueError, match="X must have shape"):
        names["predict"](X[:, :3])


def test_as_a_program_it_needs_numpy_only(tmp_path):
    model = make_model(classes=["no", "yes"], kernel=RBF(0.3), inputs=Inputs(fill=np.zeros(4)))
    to_numpy(model, tmp_path / "model.py")
    X = rows(n=5)
    X[0, 0] = np.nan
    text = "\n".join(",".join("" if np.isnan(v) else repr(v) for v in row) for row in X.tolist()) + "\n"
    (tmp_path / "rows.csv").write_text(text)
    guard = (
        "import sys, runpy\n"
        "class Guard:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name.split('.')[0] in ('kompakt', 'sklearn', 'scipy', 'numba'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Guard())\n"
        "sys.argv = ['model.py', *sys.argv[1:]]\n"
        "runpy.run_path('model.py', run_name='__main__')\n"
    )
    for words, given in ((["rows.csv"], ""), ([], text)):
        done = subprocess.run(
            [sys.executable, "-c", guard, *words], input=given, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == model.predict(X).tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [("a,b,c,d\n1,2,3,4\n", "could not convert string 'a'"), ("1,2,3,4,5\n" * 4, r"(n, 4); got (4, 5)")],
)
def test_the_program_takes_no_line_of_names_for_a_row(text, message, tmp_path):
    to_numpy(make_model(), tmp_path / "model.py")
    done = subprocess.run([sys.executable, tmp_path / "model.py"], input=text, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr


def test_a_wrong_file_is_not_written(tmp_path, monkeypatch):
    sound = numpy_file.numpy_source
    spoiled = '@ _ARRAYS[weights] - _ARRAYS[intercept]'
    monkeypatch.setattr(numpy_file, "numpy_source", lambda *a: sound(*a).replace(spoiled.replace("-", "+"), spoiled))
    with pytest.raises(ParityError, match="the NumPy file differs"):
        to_numpy(make_model(), tmp_path / "model.py")
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_no_identifier_does_no_harm(tmp_path):
    path = tmp_path / '"""; raise SystemExit  # .py'
    to_numpy(make_model(), path)
    assert "decision_function" in names_of(path)


def test_rows_without_a_finite_answer_are_named(tmp_path):
    names = names_of(to_numpy(make_model(kernel=Polynomial(0.5, 1.0, 3)), tmp_path / "m.py").path)
    given = np.ones((5000, 4))
    given[4500, 1] = 1e104
    for function in ("predict", "decision_function"):
        with pytest.raises(ValueError, match="outputs of row 4500 are not finite"):
            names[function](given)
        with pytest.raises(ValueError, match="NaN or infinity, first in row 1"):
            names[function]([[1, 2, 3, 4], [1, np.nan, 3, 4]])
    model = make_model()
    far = np.array([[1e308, -1e308, 0, 1], [1e308, 1, 2, 3]])
    names = names_of(to_numpy(model, tmp_path / "m.py").path)
    assert_allclose(names["decision_function"](far), model.decision_function(far), rtol=1e-12)
