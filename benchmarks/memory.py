"""Peak memory of a fit and of predictions, growth over many of them, and the time of single rows.

    python -m benchmarks.memory [--rows N] [--features D] [--basis M] [--float32] [--refine]
    python -m benchmarks.memory --only predict fits singles

Every figure is measured in a process of its own.

The peak is the high-water mark of resident memory (VmHWM). `ru_maxrss` would not do on Linux: a child started
by exec inherits the mark of the process that started it. What counts is the peak less the bytes of X and y,
so imported libraries and temporaries are all charged to the fit.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TARGET_GB = 1.5


def peak_bytes() -> int:
    """Return the high-water mark of this process's resident memory."""
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    scale = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, others kilobytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def resident_bytes() -> int:
    """Return what this process has in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def make_rows(n_rows: int, n_features: int, dtype: str = "float64") -> tuple[np.ndarray, np.ndarray]:
    """Make rows and labels without large temporaries, which would hide part of the fit's peak."""
    rng = np.random.default_rng(0)
    X = np.empty((n_rows, n_features), dtype=dtype)
    y = np.empty(n_rows, dtype=np.int8)
    for start in range(0, n_rows, 10_000):
        rows = slice(start, start + 10_000)
        X[rows] = rng.standard_normal(size=X[rows].shape)
        y[rows] = np.where(np.sin(2 * X[rows, 0]) + X[rows, 1] * X[rows, 2] > 0, 1, -1)
    return X, y


def unrefined(estimator: Any) -> dict[str, Any]:
    """Return the options of a random basis left as it is, for versions with and without refinement."""
    options = {"selection": "random", "refine": False}
    return {name: value for name, value in options.items() if name in estimator._get_param_names()}


def promised_bytes(
    n_rows: int, n_features: int, n_basis: int, itemsize: int, threads: int, refine: bool = False
) -> float:
    """What docs/scale.md says of a fit of one output to rows in memory, the rows included."""
    block = max(1024, min(8192, (8 << 20) // (8 * n_basis)))
    passes = threads * 8 * block * (itemsize * n_features + 8 * n_basis)
    sums = (2 * threads + np.log2(max(2, n_rows / (8 * block)))) * 8 * n_basis**2
    per_row = 60 if n_rows < 4_000_000 else 0
    kept = n_rows * n_basis * itemsize
    kept = kept if kept <= 2**30 else 0  # the default memory_budget
    sample = 2**30 if refine else 0
    return 0.3e9 + n_rows * (itemsize * n_features + 1) + passes + sums + per_row * n_rows + kept + sample


def fit_here(
    n_rows: int, n_features: int, n_basis: int, dtype: str = "float64", refine: bool = False
) -> dict[str, Any]:
    """Fit in this process; return the peak above the data, and above the state just before the fit."""
    from kompakt import CompactSVC

    X, y = make_rows(n_rows, n_features, dtype)
    before = peak_bytes()
    began = time.perf_counter()
    how = {} if refine else unrefined(CompactSVC)
    machine = CompactSVC(n_basis=n_basis, random_state=0, **how).fit(X, y)
    seconds, peak = time.perf_counter() - began, peak_bytes()
    return {
        "above_data_gb": (peak - X.nbytes - y.nbytes) / 1e9,
        "above_start_gb": (peak - before) / 1e9,
        "data_gb": (X.nbytes + y.nbytes) / 1e9,
        "n_basis": int(machine.n_basis_),
        "peak_gb": peak / 1e9,
        "promised_gb": promised_bytes(n_rows, n_features, n_basis, X.itemsize, os.cpu_count() or 1, refine) / 1e9,
        "seconds": seconds,
    }


def predict_here() -> dict[str, Any]:
    """Peak of labels and decision values of 5,000,000 rows beyond rows and result."""
    from kompakt import CompactSVC

    X, y = make_rows(5_000_000, 20, "float32")
    machine = CompactSVC(n_basis=50, random_state=0, refine=False).fit(X[:5000], y[:5000])
    machine.predict(X[:20_000])
    before = max(resident_bytes(), X.nbytes)
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins anew
    found = machine.model_.predict(X)
    beyond = {"predict": peak_bytes() - before - found.nbytes}
    del found
    Path("/proc/self/clear_refs").write_text("5")
    before = resident_bytes()
    values = machine.model_.decision_function(X)
    beyond["decision_function"] = peak_bytes() - before - values.nbytes
    return {name: value / 1e6 for name, value in beyond.items()}


def fits_here() -> dict[str, Any]:
    """Megabytes after each 50 of 200 fits."""
    from kompakt import CompactSVC

    X, y = make_rows(500, 5)
    after = []
    for number in range(200):
        CompactSVC(n_basis=8, random_state=number, refine=number % 10 == 0).fit(X, y)
        if number % 50 == 49:
            gc.collect()
            after.append(resident_bytes() / 1e6)
    return {"megabytes": after}


def singles_here() -> dict[str, Any]:
    """Megabytes after each fifth of 100,000 predictions of one row; microseconds against scikit-learn's SVC.

    Of the processor: what other programs take of a shared machine is no part of a prediction.
    """
    from sklearn.svm import SVC

    from kompakt import CompactSVC

    X, y = make_rows(2000, 20)
    machine, peer = CompactSVC(n_basis=50, random_state=0, refine=False).fit(X, y), SVC().fit(X, y)
    after, took, theirs = [], np.empty(100_000), np.empty(5_000)
    model = machine.model_
    for number in range(100_000):
        row = X[number % 2000 : number % 2000 + 1]
        began = time.thread_time()
        model.predict(row)
        took[number] = time.thread_time() - began
        if number % 20 == 0:  # in turns, so that both meet the same machine
            began = time.thread_time()
            peer.predict(row)
            theirs[number // 20] = time.thread_time() - began
        if number % 20_000 == 19_999:
            after.append(resident_bytes() / 1e6)
    shares = {name: np.percentile(1e6 * times, [50, 99]).round(1).tolist() for name, times in
              (("kompakt", took), ("SVC", theirs))}  # fmt: skip
    return {"megabytes": after, "support vectors of SVC": int(peer.n_support_.sum()), **shares}


def measure(
    n_rows: int, n_features: int, n_basis: int, what: str = "fit", dtype: str = "float64", refine: bool = False
) -> dict[str, Any]:
    """Measure in a fresh process and return what it reports."""
    sizes = ["--rows", str(n_rows), "--features", str(n_features), "--basis", str(n_basis)]
    command = [sys.executable, "-m", "benchmarks.memory", "--child", what, *sizes]
    command += ["--float32"] * (dtype == "float32") + ["--refine"] * refine
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"the measured process failed with status {result.returncode}:\n{result.stderr}")
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="memory", description="Peak memory of one fit")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--basis", type=int, default=500)
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--refine", action="store_true", help="a refined fit, instead of a random basis left as it is")
    parser.add_argument("--only", nargs="+", choices=["fit", *OTHERS], default=["fit"])
    parser.add_argument("--child", choices=["fit", *OTHERS], help="measure in this process and report")
    options = parser.parse_args()
    sizes, dtype = (options.rows, options.features, options.basis), "float32" if options.float32 else "float64"
    if options.child:
        of_fit = options.child == "fit"
        print(json.dumps(fit_here(*sizes, dtype, options.refine) if of_fit else OTHERS[options.child][0]()))
        return 0
    failed = 0
    for what in options.only:
        found = measure(*sizes, what, dtype, options.refine)
        if what == "fit":
            ok = found["peak_gb"] <= 1.3 * found["promised_gb"]
            ok = ok and (options.refine or found["above_data_gb"] <= TARGET_GB)
            print(
                f"n = {sizes[0]:,}, d = {sizes[1]}, m = {sizes[2]}, {dtype}{', refined' * options.refine}, "
                f"{found['seconds']:.0f} s: peak {found['peak_gb']:.2f} GB, "
                f"{found['promised_gb']:.2f} promised; {found['above_data_gb']:.2f} GB above the data "
                f"({found['data_gb']:.2f} GB), {found['above_start_gb']:.2f} GB above the start of the fit; "
                f"target {'none' if options.refine else f'{TARGET_GB} GB'}: {'ok' if ok else 'FAILED'}"
            )
        else:
            ok = OTHERS[what][1](found)
            print(f"{what}: {json.dumps(found)}: {'ok' if ok else 'FAILED'}")
        failed += not ok
    return int(failed > 0)


def _steady(found: dict[str, Any]) -> bool:
    """The last part grew by less than a megabyte, against the first that had everything loaded."""
    after = found["megabytes"]
    return bool(after[-1] - after[len(after) // 2] < 1.0)


#: what is measured in a process, and what must hold of it
OTHERS: dict[str, tuple[Callable[[], dict[str, Any]], Callable[[dict[str, Any]], bool]]] = {
    "predict": (predict_here, lambda found: max(found.values()) <= 200.0),
    "fits": (fits_here, _steady),
    "singles": (singles_here, _steady),
}


if __name__ == "__main__":
    sys.exit(main())
