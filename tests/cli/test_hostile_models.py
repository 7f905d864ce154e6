"""Model files that mean harm, or hold what nobody expected: `inspect`, `report`, `predict` and `export`."""

import math

import numpy as np
import pytest
from tests.io.samples import make_model

import kompakt
from kompakt.inputs import Inputs
from kompakt.io import UnsupportedModelError
from kompakt.kernels import Linear, Polynomial

CELLS = "f1,f2,f3,f4,y\n" + "".join(f"1,2,{i % 7},{i},{'abc'[i % 3]}\n" for i in range(40))


def test_inspect_escapes_what_a_terminal_would_act_on(run):
    names = np.array(["\x1b]0;title\x07", "b", "c\x9b31m", "d"])
    kompakt.save(make_model(classes=["a\x1b[31m", "b\r\n", "c"], feature_names=names, meta={"\x1b[2J": "\x1b[1m"}), "m")
    ran = run("inspect", "m")
    assert ran.code == 0
    assert not set(ran.out) & {"\x1b", "\x07", "\r", "\x9b"}
    assert r"a\x1b[31m" in ran.out
    assert "\x1b" not in repr(kompakt.load("m"))


def test_json_has_null_for_what_is_no_number(run):
    kompakt.save(make_model(classes=list("abc"), meta={"nan": math.nan, "more": [1.5, math.inf]}), "m")
    assert run("inspect", "m", "--json").json["meta"] == {"nan": None, "more": [1.5, None]}


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, None, "text", math.nan, -1, ""], ids=repr)
def test_facts_of_another_type_harm_no_command(run, value):
    names = ("estimator", "source", "target", "zero_based", "rows", "command")
    kompakt.save(make_model(classes=list("abc"), meta=dict.fromkeys(names, value)), "m")
    with open("rows.csv", "w") as file:
        file.write(CELLS)
    with open("rows.svm", "w") as file:
        file.write("1 1:2 4:3\n2 2:1\n")
    assert run("inspect", "m").code == 0
    assert run("predict", "rows.csv", "m", "out.csv", "--target", "y").code == 0
    assert run("predict", "rows.csv", "m", "out.csv", "--ignore", "y").code == 0
    assert run("predict", "rows.svm", "m", "out.csv").code == 0


def test_report_of_facts_of_another_type(run):
    with open("rows.csv", "w") as file:
        file.write(CELLS)
    kompakt.save(make_model(classes=list("abc"), meta={"estimator": [1], "source": {"a": 1}, "target": ["y"]}), "m")
    assert run("report", "m", "rows.csv", "-o", "page.html", "--target", "y").code == 0
    assert "5 features" in run("report", "m", "rows.csv", "-o", "page.html").err


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_outputs_that_are_no_numbers_are_named(kind, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 3
    model = make_model(kind, kernel=Polynomial(1e200, 1e200, 30))
    with pytest.raises(ValueError, match="outputs of row 0 are not finite"):
        kompakt.report(model, X, y, tmp_path / "page.html")
    with pytest.raises(ValueError, match="outputs of row 0 are not finite"):
        kompakt.compress(model, n_basis=3, X=X)
    assert list(tmp_path.iterdir()) == []


def test_labels_that_no_encoding_can_write_are_refused_before_anything_is_written(tmp_path):
    model = make_model(classes=["a\ud800", "b", "c"])
    for write, error in (
        (kompakt.save, ValueError),
        (kompakt.to_c, UnsupportedModelError),
        (kompakt.to_numpy, UnsupportedModelError),
        (kompakt.to_libsvm, UnsupportedModelError),
        (kompakt.to_onnx, UnsupportedModelError),
    ):
        if write is kompakt.to_onnx:
            pytest.importorskip("onnx")
        with pytest.raises(error, match="half of a surrogate pair"):
            write(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_negative_scale_is_no_range_file(tmp_path):
    model = make_model("regressor", kernel=Linear(), inputs=Inputs(scale=np.array([1.0, -1.0, 1.0, 1.0])))
    with pytest.raises(UnsupportedModelError, match="negative for feature 1"):
        kompakt.to_libsvm(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_predictions_that_spreadsheets_would_run_are_quoted_on_demand(run):
    kompakt.save(make_model(classes=["=1+1", "@x", "plain"], meta={"target": "y"}), "m")
    with open("rows.csv", "w") as file:
        file.write(CELLS)
    assert run("predict", "rows.csv", "m", "raw.csv", "--scores", "--target", "y").code == 0
    assert run("predict", "rows.csv", "m", "safe.csv", "--scores", "--target", "y", "--safe-csv").code == 0
    with open("raw.csv") as raw, open("safe.csv") as safe:
        before, after = raw.read(), safe.read()
    assert "\n=1+1," in before or "\n@x," in before
    assert not any(cell.startswith(("=", "@")) for line in after.splitlines() for cell in line.split(","))
    assert after.replace("'", "").split(",")[4:] == before.split(",")[4:]
    assert run("predict", "rows.csv", "m", "out", "--to", "libsvm", "--safe-csv", "--target", "y").code == 2
