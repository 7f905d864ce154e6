"""A model that takes tables: its file holds the schema, older files have none, and damage is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.io.samples import make_model
from tests.io.test_files import rewrite

import kompakt
from kompakt.data.table import TableSchema
from kompakt.io import ModelFileError

TABLE = {
    "age": ["31", "45", "NA", "28"], "city": ["Rome", "Oslo", "Rome", "Oslo"],
    "day": ["2024-01-01", "2024-02-01", "2024-05-05", ""], "id": ["k"] * 4,
}  # fmt: skip


@pytest.fixture
def model():
    schema = TableSchema.infer(TABLE, missing=["n.a."])
    return replace(make_model(classes=["no", "yes"], d=schema.n_features), schema=schema)


def test_a_model_takes_tables_of_every_kind_and_numbers(model):
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    numbers = model.schema.encode(TABLE)
    expected = model.decision_function(numbers)
    for table in (TABLE, pandas.DataFrame(TABLE), polars.DataFrame(TABLE), pyarrow.table(TABLE)):
        assert model.decision_function(table) == pytest.approx(expected)
        assert model.predict(table).tolist() == model.predict(numbers).tolist()
    assert "takes tables of 4 columns" in repr(model)


def test_the_file_holds_the_schema(model, tmp_path):
    model = replace(model, schema=model.schema.standardised(TABLE))
    kompakt.save(model, tmp_path / "m.kompakt")
    loaded = kompakt.load(tmp_path / "m.kompakt")
    assert loaded.schema == model.schema
    assert np.array_equal(loaded.decision_function(TABLE), model.decision_function(TABLE))
    kompakt.save(make_model(classes=[0, 1], d=2), tmp_path / "plain.kompakt")
    assert kompakt.load(tmp_path / "plain.kompakt").schema is None
    assert "schema" not in kompakt.io.read_header(tmp_path / "plain.kompakt")  # so older versions read it


@pytest.mark.parametrize(
    "damage",
    [
        lambda schema: schema["columns"].pop(0),  # the widths differ
        lambda schema: schema["columns"].append(schema["columns"][0]),
        lambda schema: schema["columns"][0].update(fill="x"),
        lambda schema: schema["columns"][1].update(levels=[]),
        lambda schema: schema["columns"][1].update(fill="x"),
        lambda schema: schema["columns"][2].update(form="%x"),
        lambda schema: schema.pop("missing"),
        lambda schema: schema.update(columns=7),
        lambda schema: schema.update(other=7),
        lambda schema: schema.update(shift=[0.0]),
        lambda schema: schema.update(shift=[0.0], scale=[1.0]),
    ],
)
def test_a_damaged_schema_is_refused(model, tmp_path, damage):
    path = tmp_path / "m.kompakt"
    kompakt.save(model, path)
    rewrite(path, lambda header: damage(header["schema"]))
    with pytest.raises(ModelFileError):
        kompakt.load(path)


@pytest.mark.parametrize(
    ("where", "value"), [("scale", 1e-320), ("scale", -1.0), ("first", 1e11 * 3), ("fill", 1e200), ("fill", True)]
)
def test_numbers_of_a_schema_that_cannot_be_used_are_refused(model, tmp_path, where, value):
    """A scale that makes infinities of rows; days beyond those that a calendar has."""
    path = tmp_path / "m.kompakt"
    kompakt.save(replace(model, schema=model.schema.standardised(TABLE)), path)

    def change(header):
        schema = header["schema"]
        if where == "scale":
            schema["scale"][0] = value
        else:
            next(one for one in schema["columns"] if one["kind"] == "date")[where] = value

    rewrite(path, change)
    with pytest.raises(ModelFileError, match="table schema is damaged"):
        kompakt.load(path)


def test_a_schema_of_the_smallest_numbers_can_be_stored(model):
    """Their spread would be a scale that no file may hold."""
    table = {"x": np.array([1.0, 2.0, 3.0, 5.0]) * 1e-305}
    schema = TableSchema.infer(table).standardised(table)
    assert TableSchema.from_json(schema.to_json()) == schema
