"""Wrote the golden files of version 2, of rounded models. They are kept as they are.

Usage: python -m tests.io.golden.make_v2 FOLDER
"""

import json
import sys
from pathlib import Path

import numpy as np

import kompakt
from kompakt import Model
from kompakt.inputs import Inputs
from kompakt.kernels import RBF
from kompakt.model import Storage


def rounded_classifier(dtype: str) -> Model:
    rng = np.random.default_rng(4)
    storage = Storage(dtype, np.array([0.02, 0.03, 0.01]), np.array([0.1, 0.2, 0.4]))
    basis, weights = rng.normal(size=(6, 3)), rng.normal(size=(6, 3))
    basis = storage.values(storage.small(basis, storage.basis_steps), storage.basis_steps).astype(np.float32)
    weights = storage.values(storage.small(weights, storage.weight_steps), storage.weight_steps)
    return Model(
        RBF(np.array([0.3, 0.2, 0.5])), basis, weights, np.array([0.1, -0.2, 0.3]), "classifier", 3,
        np.array(["a", "b", "c"]), "one_vs_rest", inputs=Inputs(shift=np.ones(3)), storage=storage,
    )  # fmt: skip


def main(folder: Path) -> None:
    X = np.random.default_rng(5).normal(size=(12, 3))
    expected = {"X": X.tolist()}
    for dtype in ("int8", "float16"):
        model = rounded_classifier(dtype)
        kompakt.save(model, folder / f"v2_{dtype}.kompakt")
        expected[dtype] = {"decision": model.decision_function(X).tolist(), "predict": model.predict(X).tolist()}
    (folder / "v2.json").write_text(json.dumps(expected, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
