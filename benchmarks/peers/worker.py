"""Fit an exact SVM of another library, alone in this process: `worker LIBRARY TASK.npz C GAMMA` prints JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np


def machine_of(library: str, C: float, gamma: float) -> Any:
    if library == "intelex":
        from sklearnex.svm import SVC
    elif library == "thundersvm":
        from thundersvm import SVC  # type: ignore[import-not-found,no-redef,unused-ignore]
    else:
        raise SystemExit(f"library must be intelex or thundersvm; got {library!r}.")
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
