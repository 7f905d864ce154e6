"""How many vectors `compress` keeps of a trained SVC at 99 % and 99.9 % agreement, and how much faster it predicts.

    python -m benchmarks.compress [--quick] [--only TEXT]

Agreement is that of labels on test rows, which neither the SVC nor `compress` has seen; `compress` is given the
training rows without labels.  Sizes are those of a fixed path; the numbers are means over 3 seeds of `compress` on one
fitted SVC per set.  The SVC of letter decides between classes that tie in votes by their order, a kompakt model by
their margins: agreement with the latter rule (argmax of `decision_function`) is given beside.
Fitted SVCs are kept under benchmarks/results.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.datasets import dump_svmlight_file
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.harness import RESULTS, Run, Target, alternate, at_least, load_data
from kompakt import compress
from kompakt.io import read_libsvm

Array = np.ndarray

# set: options of the SVC, sizes of the path
SETS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "spambase": ({"C": 10.0}, [40, 60, 87, 120, 180, 270, 400]),
    "magic": ({"C": 10.0}, [40, 60, 80, 120, 180, 270, 400]),
    "a9a": ({"C": 1.0, "gamma": 0.03}, [10, 15, 20, 40, 60, 90, 130, 200]),
    "letter": ({"C": 10.0}, [200, 300, 400, 600]),
}


@cache
def rows_of(name: str) -> tuple[Array, Array, Array, Array]:
    """Training and test rows, standardised except for the 0/1 columns of a9a."""
    data = load_data(name)
    if "X" in data:
        order = np.random.default_rng(0).permutation(len(data["X"]))
        train, test = np.split(order, [int(0.75 * len(order))])
        X, y = data["X"].astype(np.float64), data["y"]
        parts = X[train], y[train], X[test], y[test]
    else:
        parts = (
            data["X_train"].astype(np.float64), data["y_train"], data["X_test"].astype(np.float64), data["y_test"],
        )  # fmt: skip
    if name == "a9a":
        return parts
    scaler = StandardScaler().fit(parts[0])
    return scaler.transform(parts[0]), parts[1], scaler.transform(parts[2]), parts[3]


@cache
def fitted_svc(name: str) -> tuple[SVC, Array, Array]:
    """The SVC, its labels of the test rows, and the argmax of its decision values there."""
    path = RESULTS / f"compress_svc_{name}.joblib"
    if path.is_file():
        return joblib.load(path)
    X, y, X_test, _ = rows_of(name)
    machine = SVC(cache_size=500, **SETS[name][0]).fit(X, y)
    labels = machine.predict(X_test)
    by_margin = labels
    if len(machine.classes_) > 2:
        by_margin = machine.classes_[machine.decision_function(X_test).argmax(axis=1)]
    RESULTS.mkdir(parents=True, exist_ok=True)
    joblib.dump((machine, labels, by_margin), path)
    return machine, labels, by_margin


def path_of(name: str, seed: int, last: int | None) -> list[dict[str, Any]]:
    """Every size with its agreement on the test rows."""
    machine, labels, by_margin = fitted_svc(name)
    X, _, X_test, y_test = rows_of(name)
    sizes = SETS[name][1] if last is None else SETS[name][1][:last]
    records = []
    _, path = compress(machine, n_basis=sizes, X=X, max_iter=60, random_state=seed, return_path=True)
    for step in path:
        found = step["model"].predict(X_test)
        records.append(
            {
                "n_basis": step["n_basis"],
                "agreement": float(np.mean(found == labels)),
                "by_margin": float(np.mean(found == by_margin)),
                "measured": step["agreement"],
                "error": float(np.mean(found != y_test)),
                "seconds": step["seconds"],
            }
        )
    return records


def size_at(paths: list[list[dict[str, Any]]], share: float, key: str) -> tuple[float | None, list[int | None]]:
    """Mean over the seeds of the first size that agrees; None if a path does not reach it."""
    found = [next((step["n_basis"] for step in path if step[key] >= share), None) for path in paths]
    return (None if any(size is None for size in found) else float(np.mean([s for s in found if s]))), found


def measure(name: str, seeds: int, last: int | None) -> dict[str, Any]:
    machine, labels, _ = fitted_svc(name)
    _, _, X_test, y_test = rows_of(name)
    paths = [path_of(name, seed, last) for seed in range(seeds)]
    n_vectors = len(machine.support_)
    size99, each99 = size_at(paths, 0.99, "agreement")
    _, each999 = size_at(paths, 0.999, "agreement")
    _, margin999 = size_at(paths, 0.999, "by_margin")
    wanted = int(max(size for size in each99 if size)) if size99 is not None else SETS[name][1][-1]
    small = compress(machine, n_basis=wanted, X=rows_of(name)[0], max_iter=5, random_state=0)
    few = X_test[:500]
    times = alternate({"svc": lambda: machine.predict(few), "small": lambda: small.predict(few)}, rounds=3)
    note = (
        f"of {n_vectors}; 99 %: {each99}, 99.9 %: {each999}"
        + (f" ({margin999} by margins)" if len(machine.classes_) > 2 else "")
        + f"; {wanted} vectors predict {times.ratio('svc', 'small'):.0f}x as fast; test error of the SVC "
        f"{100 * np.mean(labels != y_test):.2f} %; "
        + ", ".join(f"{step['n_basis']}: {100 * step['agreement']:.2f} %" for step in paths[0])
    )
    return {
        "ours": None if size99 is None else size99 / n_vectors,
        "paths": paths,
        "n_vectors": n_vectors,
        "speed_up": times.ratio("svc", "small"),
        "note": note,
    }


def measure_file() -> dict[str, Any]:
    """A text model written by svm-train, compressed from the file."""
    X, y, X_test, _ = rows_of("spambase")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        dump_svmlight_file(X, y, str(place / "train"), zero_based=False)
        dump_svmlight_file(X_test, np.zeros(len(X_test)), str(place / "test"), zero_based=False)
        quiet: dict[str, Any] = {"cwd": place, "check": True, "capture_output": True}
        subprocess.run(["svm-train", "-q", "-c", "10", "-g", str(1.0 / X.shape[1]), "train", "model"], **quiet)
        subprocess.run(["svm-predict", "test", "model", "labels"], **quiet)
        labels = np.loadtxt(place / "labels")
        small = compress(place / "model", n_basis=120, X=X, random_state=0)
        count = read_libsvm(place / "model").vectors.shape[0]
    agreement = float(np.mean(small.predict(X_test) == labels))
    return {"ours": agreement, "note": f"120 of {count} vectors, against the labels of svm-predict"}


def main() -> int:
    run = Run("compress", "compress: vectors kept of a trained SVC", quick_minutes=1, full_minutes=20)
    names = ["spambase"] if run.quick else list(SETS)
    tenth: list[bool] = []
    target = Target("<= 0.1", lambda row: row["ours"] is not None and row["ours"] <= 0.1)
    for name in names:
        row = run.row(
            f"{name}: share of vectors at 99 % agreement",
            {"sizes": SETS[name][1]},
            partial(measure, name, 1 if run.quick else 3, 3 if run.quick else None),
            target,
        )
        if row is not None:
            tenth.append(row["ours"] is not None and row["ours"] <= 0.1)
    run.row("LIBSVM text model, agreement", {}, measure_file, at_least(0.98))
    if len(tenth) == 4:
        run.row("sets with at most a tenth at 99 %", {"tenth": tenth}, partial(dict, ours=sum(tenth)), at_least(3))
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
