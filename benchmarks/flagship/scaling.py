"""How the cost of a flagship fit grows with the number of rows, and whether both cores work.

    python -m benchmarks.flagship.scaling [--quick] [--fresh]

Generated rows (kompakt.datasets.make_ringnorm), 50 vectors, from 50,000 to 500,000 rows; the exponent is the slope of
log(time) against log(rows).  CPU time over wall time is taken over the steps of a fit that take a tenth of it or more
(selection, refinement, solving for weights), with 200 vectors on 200,000 rows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.harness import Run, at_least, at_most
from kompakt import CompactSVC
from kompakt.basis import build
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
    return {"ours": slope, "note": f"{ {n: round(t[0], 2) for n, t in times.items()} } s"}


def cores(n: int, n_basis: int) -> dict[str, Any]:
    """CPU over wall time, summed over the heavy steps of a fit."""
    X, y = make_ringnorm(n, random_state=0)
    spent: dict[str, tuple[float, float]] = {}

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            wall, cpu = time.perf_counter(), time.process_time()
            result = function(*args, **kwargs)
            before = spent.get(name, (0.0, 0.0))
            spent[name] = before[0] + time.perf_counter() - wall, before[1] + time.process_time() - cpu
            return result

        return run

    steps = {"selection": "choose", "refinement": "refine", "weights": "solve"}
    with ExitStack() as stack:
        for name, function in steps.items():
            stack.enter_context(mock.patch.object(build, function, timed(name, getattr(build, function))))
        wall, cpu = time.perf_counter(), time.process_time()
        CompactSVC(n_basis, random_state=0).fit(X, y)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    heavy = {name: (w, c) for name, (w, c) in spent.items() if w >= 0.1 * wall}
    ratio = sum(c for _, c in heavy.values()) / sum(w for w, _ in heavy.values())
    shown = ", ".join(f"{name} {c / w:.2f} ({w:.1f} s)" for name, (w, c) in spent.items())
    return {"ours": ratio, "note": f"{shown}; whole fit {cpu / wall:.2f} ({wall:.1f} s)"}


def main() -> int:
    run = Run("flagship_scaling", "Cost of CompactSVC(50) against the number of rows", quick_minutes=1, full_minutes=6)
    sizes = [5_000, 20_000] if run.quick else [50_000, 100_000, 200_000, 500_000]
    rounds = 1 if run.quick else 3
    params = {"sizes": sizes, "rounds": rounds}
    run.row("growth exponent", params, partial(exponent, sizes, rounds), at_most(1.1))
    n, m = (20_000, 50) if run.quick else (200_000, 200)
    run.row("CPU time / wall time, heavy steps", {"n": n, "m": m}, partial(cores, n, m), at_least(1.6))
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
