"""Wrote the golden files of models of tables, with a schema and a training record. They are kept as they are.

Usage: python -m tests.io.golden.make_tables FOLDER
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import kompakt
from kompakt import Model
from kompakt.data.table import TableSchema
from kompakt.inputs import Inputs
from kompakt.kernels import RBF
from kompakt.model import Storage
from kompakt.record import Candidate, TrainingRecord

TABLE = {
    "length": ["1,5", "2", "?", "4,25", "-3", "0,5"],
    "city": ["Rome", "Oslo", "Rome", "Zürich", "", "Oslo"],
    "day": ["2024-01-31", "2024-02-01", "", "2024-03-05", "2023-12-31", "2024-01-01"],
    "empty": ["", "", "", "", "", ""],
}
RECORD = TrainingRecord(
    "CompactSVC", {"C": 10.0, "gamma": 0.5, "loss": "squared_hinge"}, "smallest held-out error", 2,
    (Candidate({"C": 10.0, "gamma": 0.5}, 0.04, 0.01, "refined"), Candidate({"C": 1.0, "gamma": 0.5}, 0.05)),
    n_rows=6, digest="0123456789abcdef", train_error=0.0, n_train_error=6, seconds={"weights": 0.25},
    versions={"numpy": "2.0"},
)  # fmt: skip


def table_model(version: int) -> Model:
    """A classifier of a table; of version 2, its numbers are rounded to int8 behind a map of the inputs."""
    rng = np.random.default_rng(version)
    schema = TableSchema.infer(TABLE, missing=["?"])
    inputs, d = Inputs.standardising(schema.encode(TABLE), schema), schema.n_features
    basis, weights, more = rng.normal(size=(5, d)), rng.normal(size=(5, 1)), {}
    if version == 2:
        storage = Storage("int8", np.full(2, 0.03), np.full(1, 0.02), np.full(2, 0.01), (16, 8, 8))
        basis, weights, input_map = rng.normal(size=(5, 2)), rng.normal(size=(5, 1)), rng.normal(size=(2, d)) * 0.3
        basis = storage.values(storage.small(basis, storage.basis_steps), storage.basis_steps).astype(np.float32)
        weights = storage.values(storage.small(weights, storage.weight_steps), storage.weight_steps)
        input_map = storage.small_map(input_map) * storage.map_steps[:, None]
        inputs, more = replace(inputs, map=input_map), {"storage": storage}
    return Model(
        RBF(0.5), basis, weights, np.array([0.1]), "classifier", d, np.array(["no", "yes"]), "one_vs_rest",
        feature_names=np.array(schema.feature_names), inputs=inputs, record=RECORD, **more,
    )  # fmt: skip


def main(folder: Path) -> None:
    expected = {"table": TABLE}
    for version in (1, 2):
        model = table_model(version)
        kompakt.save(model, folder / f"v{version}_table.kompakt")
        expected[f"v{version}"] = model.decision_function(TABLE).tolist()
    (folder / "tables.json").write_text(json.dumps(expected, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
