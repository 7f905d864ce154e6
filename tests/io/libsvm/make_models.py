"""Made the committed LIBSVM models and svm-predict's answers, with the tools of LIBSVM 3.24.

Usage: python -m tests.io.libsvm.make_models FOLDER
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import dump_svmlight_file, load_iris

MODELS = {
    "binary": ["-s", "0", "-t", "2", "-g", "0.4", "-c", "2", "-b", "1"],
    "three": ["-s", "0", "-t", "1", "-d", "2", "-g", "0.5", "-r", "1", "-b", "1"],
    "nu": ["-s", "1", "-t", "0", "-n", "0.2"],
    "oneclass": ["-s", "2", "-t", "2", "-g", "0.3", "-n", "0.3"],
    "svr": ["-s", "3", "-t", "2", "-g", "0.3", "-p", "0.3"],
    "nusvr": ["-s", "4", "-t", "0", "-n", "0.3"],
}


def main(folder: Path) -> None:
    X, target = load_iris(return_X_y=True)
    order = np.random.default_rng(5).permutation(len(X))
    X, target = X[order], target[order]
    labels = np.array([7, -2, 3])[target]  # first seen in an order that is not sorted
    answers: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        data, out = Path(scratch, "data"), Path(scratch, "out")
        for name, options in MODELS.items():
            y = X[:, 3] if "svr" in name else labels
            keep = (labels != 3) if name == "binary" else np.full(len(y), True)
            dump_svmlight_file(X[keep][:60, :3], y[keep][:60], str(data), zero_based=False)
            model = folder / f"{name}.model"
            subprocess.run(["svm-train", "-q", *options, str(data), str(model)], check=True)
            dump_svmlight_file(X[:, :3], np.zeros(len(X)), str(data), zero_based=False)
            subprocess.run(["svm-predict", "-q", str(data), str(model), str(out)], check=True)
            answers[name] = np.loadtxt(out).tolist()
            if name == "binary":
                subprocess.run(["svm-predict", "-q", "-b", "1", str(data), str(model), str(out)], check=True)
                answers["binary probabilities"] = np.loadtxt(out, skiprows=1).tolist()
    (folder / "answers.json").write_text(json.dumps({"X": X[:, :3].tolist(), **answers}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
