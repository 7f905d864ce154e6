"""Exports of models that take tables: ONNX with the raw columns, C and NumPy with encoded numbers and their list."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace

import numpy as np
import pytest
from tests.io.samples import make_model

import kompakt
from kompakt.data.table import TableSchema


def tables():
    """Ten tables of numbers, words and gaps."""
    rng = np.random.default_rng(0)
    for number in range(10):
        n = 60
        table: dict[str, list] = {}
        for column in range(1 + number % 3):
            cells = rng.normal(size=n) * 10.0**column
            table[f"n{column}"] = ["" if rng.random() < 0.05 * (number % 2) else f"{cell:.4f}" for cell in cells]
        for column in range(1 + number % 4):
            levels = [f"level {k}" for k in range(2 + column)] + ["NA"] * (number % 2) + [f"once {number}"]
            share = np.array([1.0] * (len(levels) - 1) + [0.02])
            table[f"w{column}"] = rng.choice(levels, n, p=share / share.sum()).tolist()
        table["id"] = [f"u{row}" for row in range(n)]
        if number == 5:
            table["label"] = rng.choice(["a", "b"], n).tolist()  # a name that an output has too
        yield table


@pytest.mark.parametrize("table", list(tables()), ids=[str(number) for number in range(10)])
@pytest.mark.parametrize("standardised", [False, True])
def test_onnx_takes_the_columns(table, standardised, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    schema = TableSchema.infer(table)
    schema = schema.standardised(table) if standardised else schema
    model = replace(make_model(classes=["no", "yes"], d=schema.n_features), schema=schema)
    done = kompakt.to_onnx(model, tmp_path / "m.onnx", check_rows=table)
    assert done.n_rows == 60
    assert kompakt.to_onnx(model, tmp_path / "again.onnx").label_agreement == 1.0  # rows of its own
    session = onnxruntime.InferenceSession((tmp_path / "m.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    feeds = {}
    for column in schema.columns:
        if column.kind == "number":
            values = [float(cell) if cell else np.nan for cell in table[column.name]]
            feeds[column.name] = np.array(values)[:, None]
        elif column.kind == "category":
            name = "label_" if column.name == "label" else column.name
            feeds[name] = np.array(table[column.name], dtype=object)[:, None]
    assert {one.name for one in session.get_inputs()} == set(feeds)
    labels, scores = session.run(["label", "scores"], feeds)
    assert labels.tolist() == model.predict(table).tolist()
    assert scores == pytest.approx(model.decision_function(table), abs=1e-6)


def test_onnx_of_dates_needs_encoded_features(tmp_path):
    pytest.importorskip("onnxruntime")
    schema = TableSchema.infer({"day": ["2024-01-01", "2024-02-03", "2024-05-05"], "w": ["a", "b", "a"]})
    model = replace(make_model("regressor", d=schema.n_features), schema=schema)
    with pytest.raises(ValueError, match="no operators for dates, such as column 'day'"):
        kompakt.to_onnx(model, tmp_path / "m.onnx")
    done = kompakt.to_onnx(model, tmp_path / "m.onnx", encoded=True)
    assert [path.name for path in done.files] == ["m.onnx", "m.onnx.schema.json"]


@pytest.mark.parametrize("to", ["numpy", "c"])
def test_c_and_numpy_list_their_features(to, tmp_path):
    table = {
        "n*/": ["1", "2.5", "NA"],
        'w"""': ["a??/", "b\\", "a??/"],
        "d": ["2024-01-01", "2024-05-05", "2023-01-01"],
    }
    schema = TableSchema.infer(table)
    model = replace(make_model(classes=["no", "yes"], d=schema.n_features), schema=schema)
    path = tmp_path / ("m.py" if to == "numpy" else "m.c")
    done = getattr(kompakt, f"to_{to}")(model, path, check_rows=table)
    text = path.read_text()
    assert "0: n" in text
    assert f"{schema.n_features - 1}: d weekday (date)" in text
    assert [one.name for one in done.files] == [path.name, f"{path.name}.schema.json"]
    beside = json.loads((tmp_path / f"{path.name}.schema.json").read_text())
    assert beside.pop("features") == schema.feature_names
    assert TableSchema.from_json(beside) == schema
    if to == "numpy":
        assert runpy.run_path(str(path))["predict"](schema.encode(table)).tolist() == model.predict(table).tolist()


def test_libsvm_files_have_the_schema_beside_them(tmp_path):
    schema = TableSchema.infer({"n": ["1", "2.5", "4"], "w": ["a", "b", "a"]})
    model = replace(make_model(classes=[0, 1], d=schema.n_features), schema=schema)
    done = kompakt.to_libsvm(model, tmp_path / "m.model")
    assert done.files[-1].name == "m.model.schema.json"
    assert any("encoded columns of m.model.schema.json" in note for note in done.notes)


def test_models_of_numbers_are_exported_as_before(tmp_path):
    done = kompakt.to_numpy(make_model(classes=[0, 1], d=2), tmp_path / "m.py")
    assert len(done.files) == 1
    assert not (tmp_path / "m.py.schema.json").exists()
