"""The hinge against the squared hinge on the same fixed basis: time of a fit (a9a, 30,000 rows, 100 vectors).

    python -m benchmarks.hinge [--quick] [--fresh]

Both machines get the same 100 rows as basis; they alternate and medians of 9 rounds are compared.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Run, alternate, at_most, load_data
from kompakt import CompactSVC


def measure(n_rows: int, C: float, rounds: int) -> dict[str, Any]:
    data = load_data("a9a")
    X, y = data["X_train"].astype(np.float64)[:n_rows], data["y_train"][:n_rows]
    basis = X[np.random.default_rng(0).choice(n_rows, 100, replace=False)]

    def machine(loss: str) -> CompactSVC:
        return CompactSVC(selection=basis, refine=False, loss=loss, gamma=0.05, C=C)

    timings = alternate({loss: partial(machine(loss).fit, X, y) for loss in ("hinge", "squared_hinge")}, rounds)
    return {
        "ours": timings.ratio("hinge", "squared_hinge"),
        "noise": timings.noise("hinge", "squared_hinge"),
        "note": f"{1e3 * timings.median('hinge'):.0f} ms against {1e3 * timings.median('squared_hinge'):.0f} ms",
    }


def main() -> int:
    run = Run("hinge", "Hinge fit / squared-hinge fit on the same basis", quick_minutes=0.2, full_minutes=1)
    n_rows, rounds = (5_000, 3) if run.quick else (30_000, 9)
    for C in (1.0, 10.0):
        params = {"rows": n_rows, "C": C, "rounds": rounds}
        run.row(f"a9a, {n_rows:,} rows, C = {C:g}", params, partial(measure, n_rows, C, rounds), at_most(3.0), unit="x")
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
