"""Wrote the golden files of version 3, of models rounded to 4, 6 or 8 bits. They are kept as they are.

Usage: python -m tests.io.golden.make_v3 FOLDER
"""

import json
import sys
from pathlib import Path

import numpy as np

import kompakt
from kompakt import Model
from kompakt.inputs import Inputs
from kompakt.kernels import RBF
from kompakt.model import Storage, largest_level

BITS = {"packed": (4, 6, 4), "bytes": (8, 8, 8)}


def rounded_classifier(bits: tuple[int, int, int]) -> Model:
    rng = np.random.default_rng(6)
    largest = [largest_level(b) for b in bits]
    levels = [rng.integers(-most, most + 1, shape) for most, shape in zip(largest, SHAPES, strict=True)]
    steps = [1.5 / most for most in largest]
    storage = Storage("int8", np.full(3, steps[1]), np.full(3, steps[2]), np.array([1.0, 0.5, 0.25]) * steps[0], bits)
    basis = storage.values(levels[1], storage.basis_steps)
    weights = storage.values(levels[2], storage.weight_steps)
    inputs = Inputs(shift=np.ones(5), scale=np.full(5, 2.0), map=levels[0] * storage.map_steps[:, None])
    return Model(
        RBF(0.3), basis.astype(np.float32), weights, np.array([0.1, -0.2, 0.3]), "classifier", 5,
        np.array(["a", "b", "c"]), "one_vs_rest", inputs=inputs, storage=storage,
    )  # fmt: skip


SHAPES = ((3, 5), (7, 3), (7, 3))


def main(folder: Path) -> None:
    X = np.random.default_rng(5).normal(size=(12, 5))
    expected = {"X": X.tolist()}
    for name, bits in BITS.items():
        model = rounded_classifier(bits)
        kompakt.save(model, folder / f"v3_{name}.kompakt")
        expected[name] = {"decision": model.decision_function(X).tolist(), "predict": model.predict(X).tolist()}
    (folder / "v3.json").write_text(json.dumps(expected, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
