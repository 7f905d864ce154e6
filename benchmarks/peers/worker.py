"""Fit a machine of another library, alone in this process: `worker LIBRARY TASK.npz C GAMMA` prints JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np


class RecursiveFeatureMachine:
    """xRFM as its authors advise: own defaults, a fifth of the rows to stop by, leaves of at most 5,000 rows."""

    def __init__(self) -> None:
        import torch
        from xrfm import xRFM

        self.machine = xRFM(
            device=torch.device("cpu"), tuning_metric="accuracy", max_leaf_size=5000, random_state=0, verbose=False
        )

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        self.classes, codes = np.unique(y, return_inverse=True)
        held = np.random.default_rng(0).random(len(X)) < 0.2
        X = X.astype(np.float32)
        self.machine.fit(X[~held], codes[~held], X[held], codes[held])
        self.support_ = np.flatnonzero(~held)  # every training row is a centre

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes[np.asarray(self.machine.predict(X.astype(np.float32))).astype(int).ravel()]


def machine_of(library: str, C: float, gamma: float) -> Any:
    if library == "xrfm":
        return RecursiveFeatureMachine()
    if library == "intelex":
        from sklearnex.svm import SVC
    elif library == "thundersvm":
        from thundersvm import SVC  # type: ignore[import-not-found,no-redef,unused-ignore]
    else:
        raise SystemExit(f"library must be intelex, thundersvm or xrfm; got {library!r}.")
    return SVC(C=C, gamma=gamma, kernel="rbf")


def main() -> int:
    library, path, C, gamma = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    with np.load(path) as data:
        X, y, Xt, yt = (data[key] for key in ("X", "y", "Xt", "yt"))
    machine_of(library, C, gamma).fit(X[:500], y[:500])  # loading the library's code is not part of a fit
    machine = machine_of(library, C, gamma)
    began = time.perf_counter()
    machine.fit(X, y)
    fit = time.perf_counter() - began
    began = time.perf_counter()
    error = float(np.mean(machine.predict(Xt) != yt))
    predict = time.perf_counter() - began
    size = float(np.sum(machine.n_support_)) if hasattr(machine, "n_support_") else float(len(machine.support_))
    print(json.dumps({"size": size, "fit": fit, "predict": 1e6 * predict / len(Xt), "error": 100 * error}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
