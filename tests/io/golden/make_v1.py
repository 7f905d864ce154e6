"""Wrote the golden files of version 1. They are kept as they are: run it only to see how they were made.

Usage: python -m tests.io.golden.make_v1 FOLDER
"""

import json
import sys
from pathlib import Path

from tests.io.samples import float32_regressor, full_classifier, outlier_detector, rows

import kompakt

MODELS = {"classifier": full_classifier, "regressor": float32_regressor, "outlier": outlier_detector}


def main(folder: Path) -> None:
    X = rows(12)
    expected = {"X": X.tolist()}
    for name, make in MODELS.items():
        model = make()
        kompakt.save(model, folder / f"v1_{name}.kompakt")
        expected[name] = {"decision": model.decision_function(X).tolist(), "predict": model.predict(X).tolist()}
        if model.calibration is not None:
            expected[name]["proba"] = model.predict_proba(X).tolist()
    (folder / "v1.json").write_text(json.dumps(expected, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
