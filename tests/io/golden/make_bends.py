"""Wrote the golden files of version 3, of models whose features bend. They are kept as they are.

Usage: python -m tests.io.golden.make_bends FOLDER
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.io.golden.make_v2 import rounded_classifier

import kompakt
from kompakt import Model
from kompakt.inputs import Inputs
from kompakt.kernels import RBF
from kompakt.piecewise import PiecewiseLinear


def bends() -> PiecewiseLinear:
    knots = np.array([[-0.7, 0.1, 1.3], [np.inf, np.inf, np.inf], [0.2, np.inf, np.inf]])
    slopes = np.array([[1.1, 0.4, -0.6, 2.0], [0.3, 1.0, 1.0, 1.0], [-0.9, 0.7, 1.0, 1.0]])
    return PiecewiseLinear(knots, slopes)


def regressor() -> Model:
    """With shift, scale, bends and map."""
    rng = np.random.default_rng(6)
    inputs = Inputs(shift=np.ones(3), scale=np.array([1.0, 2.0, 0.5]), map=rng.normal(size=(2, 3)), bends=bends())
    basis, weights = rng.normal(size=(5, 2)), rng.normal(size=(5, 1))
    return Model(RBF(1.0), basis, weights, np.array([0.4]), "regressor", 3, inputs=inputs)


def rounded() -> Model:
    """Without a map, stored in eight bits, knots and slopes in sixteen."""
    transform = bends()
    halves = PiecewiseLinear(transform.knots.astype(np.float16), transform.slopes.astype(np.float16))
    return replace(rounded_classifier("int8"), inputs=Inputs(shift=np.ones(3), bends=halves))


def main(folder: Path) -> None:
    X = np.random.default_rng(7).normal(size=(12, 3)) + 1.0
    expected = {"X": X.tolist()}
    for name, model in {"bent": regressor(), "bent_int8": rounded()}.items():
        kompakt.save(model, folder / f"v3_{name}.kompakt")
        expected[name] = {"decision": model.decision_function(X).tolist(), "predict": model.predict(X).tolist()}
    (folder / "bends.json").write_text(json.dumps(expected, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
