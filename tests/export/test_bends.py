"""Features that bend in every export, at parity with the model; LIBSVM says that it cannot."""

from __future__ import annotations

import itertools
import runpy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.bent import METRICS, TASKS, data, decisions, fitted

import kompakt
from kompakt import Model, compress
from kompakt.export.c_file import find_compiler
from kompakt.export.common import folded
from kompakt.inputs import Inputs
from kompakt.io import UnsupportedModelError, read_header
from kompakt.kernels import RBF, Laplacian
from kompakt.piecewise import PiecewiseLinear

CASES = [*itertools.product(METRICS, TASKS, (False,)), ("map", "regression", True), ("widths", "regression", True)]
IDS = [f"{metric}, {task}{', scaled' if scaled else ''}" for metric, task, scaled in CASES]
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")


def unusual_models():
    """Bends without a knot and of slope zero, before another kernel, and behind a negative scale."""
    rng = np.random.default_rng(3)
    fields = (rng.normal(size=(4, 2)), rng.normal(size=(4, 1)), np.array([0.3]), "regressor", 2)
    straight = PiecewiseLinear(np.empty((2, 0)), np.array([[2.0], [0.0]]))
    bends = PiecewiseLinear(np.array([[-0.5, 0.5], [0.1, np.inf]]), np.array([[1.0, -0.5, 2.0], [0.0, 3.0, 1.0]]))
    return {
        "no knots": Model(RBF(0.5), *fields, inputs=Inputs(bends=straight)),
        "laplacian": Model(Laplacian(0.5), *fields, inputs=Inputs(shift=np.array([3.0, 0.1]), bends=bends)),
        "negative scale": Model(
            RBF(0.5), *fields, inputs=Inputs(shift=np.array([0.1, 0.7]), scale=np.array([-2.0, 3.0]), bends=bends)
        ),
    }  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_numpy_file(case, tmp_path):
    X, _ = data(case[1])
    machine = fitted(*case)
    kompakt.to_numpy(machine, tmp_path / "bent.py", check_rows=X)
    kompakt.to_numpy(machine, tmp_path / "bent.py")
    names = runpy.run_path(str(tmp_path / "bent.py"))
    assert_allclose(names["decision_function"](X), decisions(machine, X), rtol=1e-9, atol=1e-9)
    assert np.mean(names["predict"](X) == machine.predict(X)) == 1.0 or case[1] == "regression"


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_onnx_file(case, dtype, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    X, _ = data(case[1])
    machine = fitted(*case)
    kompakt.to_onnx(machine, tmp_path / "bent.onnx", dtype=dtype)
    report = kompakt.to_onnx(machine, tmp_path / "bent.onnx", dtype=dtype, check_rows=X)
    assert report.relative_difference < {"float64": 1e-12, "float32": 1e-4}[dtype]
    session = onnxruntime.InferenceSession((tmp_path / "bent.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"X": X[:1].astype(dtype)})[0].shape[0] == 1


@needs_compiler
@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("dtype", ["double", "float", "int8"])
def test_c_file(case, dtype, tmp_path):
    X, _ = data(case[1])
    machine = fitted(*case)
    kompakt.to_c(machine, tmp_path / "bent.c", dtype=dtype)
    report = kompakt.to_c(machine, tmp_path / "bent.c", dtype=dtype, check_rows=X)
    assert report.relative_difference < {"double": 1e-12, "float": 1e-5, "int8": 1e-5}[dtype]
    assert report.label_agreement in (None, 1.0) or dtype == "int8"
    text = (tmp_path / "bent.c").read_text()
    assert "bent_knots[17]" in text, "only the knots that there are"
    assert "bent_slopes[21]" in text
    assert "bent_factor[4]" not in text, "the scale is in knots and slopes"


@needs_compiler
@pytest.mark.parametrize("name", ["no knots", "laplacian", "negative scale"])
def test_unusual_bends_in_every_export(name, tmp_path):
    model = unusual_models()[name]
    kompakt.to_numpy(model, tmp_path / "m.py")
    for dtype in ("float", "double"):
        kompakt.to_c(model, tmp_path / "m.c", dtype=dtype)
    if pytest.importorskip("onnx"):
        for dtype in ("float64", "float32"):
            kompakt.to_onnx(model, tmp_path / "m.onnx", dtype=dtype)


def test_a_folded_model_is_an_equal_one():
    X, _ = data()
    for metric, single in itertools.product(METRICS, (False, True)):
        model = kompakt.io.fitted.model_of(fitted(metric, scaled=True))
        plain = folded(model, single=single)
        assert plain.inputs.scale is None
        assert plain.inputs.bends is not None
        assert_allclose(plain.outputs(X), model.outputs(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_rounded_models_bend_alike_in_files_and_exports(metric, dtype, scaled, tmp_path):
    X, _ = data("two classes")
    model = kompakt.io.fitted.model_of(fitted(metric, "two classes", scaled))
    small = compress(model, storage=dtype, X=X, random_state=0)
    assert np.mean(small.predict(X) == model.predict(X)) >= 0.97
    kompakt.save(small, tmp_path / "small.kompakt")
    loaded = kompakt.load(tmp_path / "small.kompakt")
    for rows in (X, X.astype(np.float32)):
        assert np.array_equal(loaded.decision_function(rows), small.decision_function(rows))
    arrays = read_header(tmp_path / "small.kompakt")["arrays"]
    assert arrays["input_knots"] == ("float16", (17,))
    assert arrays["input_slopes"] == ("float16", (21,))
    kompakt.to_numpy(small, tmp_path / "small.py", check_rows=X)
    if find_compiler() is not None:
        report = kompakt.to_c(small, tmp_path / "small.c", check_rows=X)
        assert report.label_agreement >= 0.99  # of 200 rows, some at the boundary
        if metric != "widths":  # a width of zero: the basis is rounded anew
            assert report.storage_difference < 1e-4 * np.abs(small.decision_function(X)).max()


def test_fewer_vectors_of_a_bent_model():
    X, _ = data()
    for metric in METRICS:
        model = fitted(metric, C=10.0).model_
        small = compress(model, n_basis=6, X=X, random_state=0)
        assert small.n_basis_ == 6
        assert small.inputs.bends is model.inputs.bends
        error = np.mean((small.predict(X) - model.predict(X)) ** 2) / np.var(model.predict(X))
        assert error < 0.1
        assert compress(model, n_basis=6, random_state=0).n_basis_ == 6


def test_libsvm_says_that_it_cannot(tmp_path):
    for metric in METRICS:
        with pytest.raises(UnsupportedModelError, match="transform='identity'"):
            kompakt.to_libsvm(fitted(metric), tmp_path / "bent.model")
    assert not list(tmp_path.iterdir())


def test_numbers_that_no_float_holds_are_refused_by_name(tmp_path):
    model = unusual_models()["laplacian"]
    steep = model.inputs.bends.with_slopes(model.inputs.bends.slopes * 1e39)
    with pytest.raises(UnsupportedModelError, match="dtype='double'"):
        kompakt.to_c(replace(model, inputs=Inputs(bends=steep)), tmp_path / "m.c", dtype="float")
