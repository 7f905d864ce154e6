"""Wrote the golden files of version 3, of intervals and calibrations that are no sigmoids. They are kept as they are.

Usage: python -m tests.io.golden.make_uncertainty FOLDER
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import kompakt
from kompakt import Model
from kompakt.kernels import RBF
from kompakt.model import Interval

CALIBRATIONS = {
    "isotonic": {"x": [-1.0, 0.5, 0.0, -2.0, 2.0], "y": [0.1, 0.9, 0.5, 0.2, 0.7], "ends": [2.0, 3.0, 5.0]},
    "temperature": {"t": [0.7]},
}


def main(folder: Path) -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(12, 3))
    expected = {"X": X.tolist()}
    noise = rng.uniform(size=(5, 1)), np.array([0.2]), np.array([0.1])
    model = Model(RBF(0.4), rng.normal(size=(5, 3)), rng.normal(size=(5, 1)), np.array([0.3]), "regressor", 3)
    model = replace(model, interval=Interval(0.9, np.array([1.5]), *noise))
    kompakt.save(model, folder / "v3_interval.kompakt")
    expected["interval"] = model.predict_interval(X).tolist()
    weights = rng.normal(size=(5, 3)), np.zeros(3)
    classes = np.array(["a", "b", "c"])
    for name, arrays in CALIBRATIONS.items():
        calibration = {key: np.array(values) for key, values in arrays.items()}
        about = {"classes": classes, "coding": "one_vs_rest", "calibration": calibration}
        model = Model(model.kernel, model.basis, *weights, "classifier", 3, **about)
        kompakt.save(model, folder / f"v3_{name}.kompakt")
        expected[name] = model.predict_proba(X).tolist()
    (folder / "uncertainty.json").write_text(json.dumps(expected, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
