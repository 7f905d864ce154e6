"""Peak memory of one fit, measured in a process of its own.

    python -m benchmarks.memory [--rows N] [--features D] [--basis M]

The peak is the high-water mark of resident memory (VmHWM). `ru_maxrss` would not do on Linux: a child started
by exec inherits the mark of the process that started it. What counts is the peak less the bytes of X and y,
so imported libraries and temporaries are all charged to the fit.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
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


def make_rows(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Make rows and labels without large temporaries, which would hide part of the fit's peak."""
    rng = np.random.default_rng(0)
    X = np.empty((n_rows, n_features))
    y = np.empty(n_rows, dtype=np.int8)
    for start in range(0, n_rows, 10_000):
        rows = slice(start, start + 10_000)
        rng.standard_normal(out=X[rows])
        y[rows] = np.where(np.sin(2 * X[rows, 0]) + X[rows, 1] * X[rows, 2] > 0, 1, -1)
    return X, y


def unrefined(estimator: Any) -> dict[str, Any]:
    """Return the options of a random basis left as it is, for versions with and without refinement."""
    options = {"selection": "random", "refine": False}
    return {name: value for name, value in options.items() if name in estimator._get_param_names()}


def fit_here(n_rows: int, n_features: int, n_basis: int) -> dict[str, Any]:
    """Fit in this process; return the peak above the data, and above the state just before the fit."""
    from kompakt import CompactSVC

    X, y = make_rows(n_rows, n_features)
    before = peak_bytes()
    machine = CompactSVC(n_basis=n_basis, random_state=0, **unrefined(CompactSVC)).fit(X, y)
    peak = peak_bytes()
    return {
        "above_data_gb": (peak - X.nbytes - y.nbytes) / 1e9,
        "above_start_gb": (peak - before) / 1e9,
        "data_gb": (X.nbytes + y.nbytes) / 1e9,
        "n_basis": int(machine.n_basis_),
    }


def measure(n_rows: int, n_features: int, n_basis: int) -> dict[str, Any]:
    """Run `fit_here` in a fresh process and return what it reports."""
    sizes = ["--rows", str(n_rows), "--features", str(n_features), "--basis", str(n_basis)]
    command = [sys.executable, "-m", "benchmarks.memory", "--child", *sizes]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"the measured process failed with status {result.returncode}:\n{result.stderr}")
    return json.loads(result.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(prog="memory", description="Peak memory of one fit")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--basis", type=int, default=500)
    parser.add_argument("--child", action="store_true", help="fit in this process and report")
    options = parser.parse_args()
    sizes = (options.rows, options.features, options.basis)
    if options.child:
        print(json.dumps(fit_here(*sizes)))
        return 0
    found = measure(*sizes)
    ok = found["above_data_gb"] <= TARGET_GB
    print(
        f"n = {sizes[0]:,}, d = {sizes[1]}, m = {sizes[2]}: peak {found['above_data_gb']:.2f} GB above the "
        f"data ({found['data_gb']:.2f} GB), {found['above_start_gb']:.2f} GB above the start of the fit; "
        f"target {TARGET_GB} GB: {'ok' if ok else 'FAILED'}"
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
