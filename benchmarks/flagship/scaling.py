"""How the cost of a flagship fit grows with the number of rows, and whether both cores work.

    python -m benchmarks.flagship.scaling [--quick] [--fresh]

Generated rows (kompakt.datasets.make_ringnorm), 50 vectors, from 50,000 to 500,000 rows; the exponent is the slope of
log(time) against log(rows).  CPU time over wall time is taken over the whole fit of the largest set.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Run, at_least, at_most
from kompakt import CompactSVC
from kompakt.datasets import make_ringnorm


def fit_times(sizes: list[int], rounds: int) -> dict[int, tuple[float, float]]:
    """Wall and CPU seconds per size, the best of some rounds, sizes alternating."""
    X, y = make_ringnorm(max(sizes), random_state=0)
    best: dict[int, tuple[float, float]] = {}
    for _ in range(rounds):
        for n in sizes:
            wall, cpu = time.perf_counter(), time.process_time()
            CompactSVC(50, random_state=0).fit(X[:n], y[:n])
            spent = time.perf_counter() - wall, time.process_time() - cpu
            best[n] = min(best.get(n, (np.inf, np.inf)), spent)
    return best


def exponent(sizes: list[int], rounds: int) -> dict[str, Any]:
    times = fit_times(sizes, rounds)
    slope = float(np.polyfit(np.log(sizes), np.log([times[n][0] for n in sizes]), 1)[0])
    cpu = times[sizes[-1]][1] / times[sizes[-1]][0]
    return {"ours": slope, "cores": cpu, "note": f"{ {n: round(t[0], 2) for n, t in times.items()} } s"}


def main() -> int:
    run = Run("flagship_scaling", "Cost of CompactSVC(50) against the number of rows", quick_minutes=1, full_minutes=6)
    sizes = [5_000, 20_000] if run.quick else [50_000, 100_000, 200_000, 500_000]
    rounds = 1 if run.quick else 3
    params = {"sizes": sizes, "rounds": rounds}
    values = run.row("growth exponent", params, partial(exponent, sizes, rounds), at_most(1.1))
    if values is not None:
        cores = values["cores"]
        run.row("CPU time / wall time", params, lambda: {"ours": cores}, at_least(1.6))
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
