"""How long a report takes for fits on 100,000 rows: the page must be written within 20 seconds and stay under 2 MB.

    python -m benchmarks.report_page [--quick]

Only `report` is timed, not the fit. Sets: covtype with its seven classes, and the memory benchmark's generated rows.
"""

from __future__ import annotations

import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Run, at_most, load_data
from benchmarks.memory import make_rows

N_ROWS = 100_000


def covtype_rows() -> tuple[np.ndarray, np.ndarray]:
    """The first 100,000 shuffled rows of covtype, standardised, with seven classes."""
    data = load_data("covtype")
    order = np.random.default_rng(0).permutation(len(data["X"]))[:N_ROWS]
    X = data["X"][order].astype(np.float64)
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), data["y_multi"][order]


def seconds_of(kind: str, n_basis: int) -> dict[str, Any]:
    """Seconds and CPU seconds of one report, and the size of its page."""
    from kompakt import CompactSVC, CompactSVR, report

    X, y = covtype_rows() if kind == "covtype" else make_rows(N_ROWS, 50)
    if kind == "regression":
        target = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
        machine: Any = CompactSVR(n_basis, refine=False, random_state=0).fit(X, target)
        y = target
    else:
        machine = CompactSVC(n_basis, refine=False, random_state=0).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        wall, cpu = time.perf_counter(), time.process_time()
        page = report(machine, X, y, Path(folder, "page.html"))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        size = page.stat().st_size
    return {"ours": wall, "cpu": cpu, "bytes": size, "note": f"{cpu:.1f} CPU seconds, {size:,} bytes"}


def main() -> int:
    run = Run("report_page", "Seconds for the report of a fit on 100,000 rows", quick_minutes=1, full_minutes=3)
    cases = (
        [("covtype", 100)]
        if run.quick
        else [("covtype", 100), ("covtype", 500), ("two classes", 200), ("regression", 200)]
    )
    for kind, n_basis in cases:
        name = f"{kind}, {n_basis} vectors"
        run.row(name, {"kind": kind, "n_basis": n_basis}, partial(seconds_of, kind, n_basis), at_most(20.0), unit="s")
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
