"""A model that takes tables: its file holds the schema, older files have none, and damage is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.io.samples import make_model
from tests.io.test_files import rewrite

import kompakt
from kompakt.data.table import TableSchema
from kompakt.inputs import Inputs
from kompakt.io import ModelFileError

TABLE = {
    "age": ["31", "45", "NA", "28"], "city": ["Rome", "Oslo", "Rome", "Oslo"],
    "day": ["2024-01-01", "2024-02-01", "2024-05-05", ""], "id": ["k"] * 4,
}  # fmt: skip


@pytest.fixture
def model():
    schema = TableSchema.infer(TABLE, missing=["n.a."])
    return replace(make_model(classes=["no", "yes"], d=schema.n_features), inputs=Inputs(schema))


def test_a_model_takes_tables_of_every_kind_and_numbers(model):
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    numbers = model.inputs.encoded(TABLE)
    expected = model.decision_function(numbers)
    for table in (TABLE, pandas.DataFrame(TABLE), polars.DataFrame(TABLE), pyarrow.table(TABLE)):
        assert model.decision_function(table) == pytest.approx(expected)
        assert model.predict(table).tolist() == model.predict(numbers).tolist()
    assert "takes tables of 4 columns" in repr(model)


def test_the_file_holds_the_schema(model, tmp_path):
    model = replace(model, inputs=Inputs.standardising(model.inputs.schema.encode(TABLE), model.inputs.schema))
    kompakt.save(model, tmp_path / "m.kompakt")
    loaded = kompakt.load(tmp_path / "m.kompakt")
    assert loaded.inputs.schema == model.inputs.schema
    assert np.array_equal(loaded.decision_function(TABLE), model.decision_function(TABLE))
    kompakt.save(make_model(classes=[0, 1], d=2), tmp_path / "plain.kompakt")
    assert kompakt.load(tmp_path / "plain.kompakt").inputs.schema is None
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
    ("where", "value"), [("first", 1e11 * 3), ("fill", 1e200), ("fill", True)]
)
def test_numbers_of_a_schema_that_cannot_be_used_are_refused(model, tmp_path, where, value):
    """Days beyond those that a calendar has."""
    path = tmp_path / "m.kompakt"
    kompakt.save(model, path)

    def change(header):
        next(one for one in header["schema"]["columns"] if one["kind"] == "date")[where] = value

    rewrite(path, change)
    with pytest.raises(ModelFileError, match="table schema is damaged"):
        kompakt.load(path)


def test_the_smallest_numbers_are_not_divided_by_their_spread():
    table = {"x": np.array([1.0, 2.0, 3.0, 5.0]) * 1e-305}
    schema = TableSchema.infer(table)
    assert TableSchema.from_json(schema.to_json()) == schema
    assert Inputs.standardising(schema.encode(table), schema).scale.tolist() == [1.0]
