"""Files written by every released version of the format still load, to the same predictions."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

import kompakt
from kompakt.io import container, read_header

GOLDEN = Path(__file__).parent / "golden"
EXPECTED = json.loads((GOLDEN / "v1.json").read_text())


@pytest.mark.parametrize("name", ["classifier", "regressor", "outlier"])
def test_version_1_predicts_as_when_it_was_written(name):
    model, expected = kompakt.load(GOLDEN / f"v1_{name}.kompakt"), EXPECTED[name]
    X = np.array(EXPECTED["X"])
    np.testing.assert_allclose(model.decision_function(X), expected["decision"], rtol=1e-9, atol=1e-11)
    if name == "regressor":
        np.testing.assert_allclose(model.predict(X), expected["predict"], rtol=1e-9, atol=1e-11)
    else:
        np.testing.assert_array_equal(model.predict(X), expected["predict"])
    if "proba" in expected:
        np.testing.assert_allclose(model.predict_proba(X), expected["proba"], rtol=1e-9)


@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_version_2_predicts_as_when_it_was_written(dtype):
    model, stored = kompakt.load(GOLDEN / f"v2_{dtype}.kompakt"), json.loads((GOLDEN / "v2.json").read_text())
    X, expected = np.array(stored["X"]), stored[dtype]
    np.testing.assert_allclose(model.decision_function(X), expected["decision"], rtol=1e-9, atol=1e-11)
    assert model.predict(X).tolist() == expected["predict"]
    assert read_header(GOLDEN / f"v2_{dtype}.kompakt")["arrays"]["basis"] == (dtype, (6, 3))


@pytest.mark.parametrize(("name", "n_bytes"), [("packed", (8, 16, 11)), ("bytes", (15, 21, 21))])
def test_version_3_predicts_as_when_it_was_written(name, n_bytes):
    model, stored = kompakt.load(GOLDEN / f"v3_{name}.kompakt"), json.loads((GOLDEN / "v3.json").read_text())
    X, expected = np.array(stored["X"]), stored[name]
    np.testing.assert_allclose(model.decision_function(X), expected["decision"], rtol=1e-9, atol=1e-11)
    assert model.predict(X).tolist() == expected["predict"]
    arrays = read_header(GOLDEN / f"v3_{name}.kompakt")["arrays"]
    sizes = tuple(int(np.prod(arrays[array][1])) for array in ("input_map", "basis", "weights"))
    assert sizes == n_bytes, "map, vectors and weights take the bits that they have"


@pytest.mark.parametrize(("name", "numbers"), [("bent", "float64"), ("bent_int8", "float16")])
def test_features_that_bend_predict_as_when_they_were_written(name, numbers):
    path, stored = GOLDEN / f"v3_{name}.kompakt", json.loads((GOLDEN / "bends.json").read_text())
    model, X, expected = kompakt.load(path), np.array(stored["X"]), stored[name]
    np.testing.assert_allclose(model.decision_function(X), expected["decision"], rtol=1e-9, atol=1e-11)
    assert np.isfinite(model.inputs.bends.knots).sum(axis=1).tolist() == [3, 0, 1]
    arrays = read_header(path)["arrays"]
    assert arrays["input_knots"] == (numbers, (4,)), "knots that a feature does not have are not stored"
    assert arrays["input_slopes"] == (numbers, (7,))


def test_intervals_and_calibrations_predict_as_when_they_were_written():
    stored = json.loads((GOLDEN / "uncertainty.json").read_text())
    X = np.array(stored["X"])
    bounds = kompakt.load(GOLDEN / "v3_interval.kompakt").predict_interval(X)
    np.testing.assert_allclose(bounds, stored["interval"], rtol=1e-9, atol=1e-11)
    for name in ("isotonic", "temperature"):
        chances = kompakt.load(GOLDEN / f"v3_{name}.kompakt").predict_proba(X)
        np.testing.assert_allclose(chances, stored[name], rtol=1e-9)


def test_every_version_of_the_format_has_a_stored_file():
    """Whoever raises the version stores files of it here, and keeps those of the versions before."""
    for version in range(1, container.VERSION + 1):
        stored = sorted(GOLDEN.glob(f"v{version}_*.kompakt"))
        assert stored, f"no model file of version {version} in {GOLDEN}"
        for path in stored:
            assert struct.unpack_from("<I", path.read_bytes(), 8)[0] == version
            model = kompakt.load(path)
            assert len(model.predict(np.zeros((2, model.n_features)))) == 2


def test_version_1_keeps_every_field():
    model = kompakt.load(GOLDEN / "v1_classifier.kompakt")
    assert model.classes_.tolist() == ["Äpfel", "", "birnen 🍐"]
    assert model.feature_names.tolist() == ["length", "width", "größe", "d"]
    assert model.meta == {
        "n_rows": 120, "loss": "squared_hinge", "path": [1, 2.5, None, True], "limit": float("inf"),
    }  # fmt: skip
    assert model.coding == "one_vs_rest"
    assert model.inputs.scale.tolist() == [2.0, 0.5, 1.0, 3.0]
    assert [part["name"] for part in model.kernel.spec()["parts"]] == ["sum", "poly"]


def test_header_of_version_1_is_readable_without_loading():
    header = read_header(GOLDEN / "v1_regressor.kompakt")
    assert header["kind"] == "regressor"
    assert header["arrays"]["basis"] == ("float32", (7, 4))


@pytest.mark.parametrize("version", [1, 2])
def test_models_of_tables_keep_schema_and_record(version):
    model, stored = kompakt.load(GOLDEN / f"v{version}_table.kompakt"), json.loads((GOLDEN / "tables.json").read_text())
    np.testing.assert_allclose(model.decision_function(stored["table"]), stored[f"v{version}"], rtol=1e-9, atol=1e-11)
    assert [column.kind for column in model.inputs.schema.columns] == ["number", "category", "date", "unused"]
    assert model.record.tried[0].setting == {"C": 10.0, "gamma": 0.5}
    assert (model.storage is not None) == (version == 2)


@pytest.mark.parametrize(("version", "name"), [(1, "table"), (2, "table"), (3, "bent")])
def test_a_file_has_the_least_version_that_can_hold_its_model(version, name, tmp_path):
    """So that earlier readers take every model that is not rounded and has no bends."""
    path = tmp_path / "again.kompakt"
    kompakt.save(kompakt.load(GOLDEN / f"v{version}_{name}.kompakt"), path)
    assert struct.unpack_from("<I", path.read_bytes(), 8)[0] == version
