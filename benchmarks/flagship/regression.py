"""CompactSVR with 100 vectors against Nystroem(400) + Ridge, tuned alike.

    python -m benchmarks.flagship.regression [--quick] [--fresh] [--only TEXT]

Both are tuned by the same grid (five regularisations, three widths) on a quarter of the training rows; on the large set
on 10,000 training rows.  Errors are mean squared errors of standardised targets on test rows, means over 3 splits (one
for the large set, where the fits alternate and their times are compared).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from benchmarks.harness import Run, Target
from benchmarks.tasks import Task, subset, task
from kompakt import CompactSVR


def learning(C: float, gamma: float, seed: int) -> Any:
    """The flagship as it is meant to be used: widths learned from a start."""
    return CompactSVR(100, C=C, kernel="rbf", gamma="ard" if gamma == 1.0 else "learn", random_state=seed)


def nystroem(C: float, gamma: float, seed: int) -> Any:
    return make_pipeline(Nystroem(gamma=gamma, n_components=400, random_state=seed), Ridge(alpha=1.0 / C))


def scaled(parts: Task) -> Task:
    """The task with standardised targets."""
    X, y, Xt, yt = parts
    mean, deviation = float(np.mean(y)), float(np.std(y))
    return X, (y - mean) / deviation, Xt, (yt - mean) / deviation


def mse(machine: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((machine.predict(X) - y) ** 2))


def best_setting(make: Callable[..., Any], X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """(C, gamma) with the smallest error on a quarter of the rows."""
    A, B, ya, yb = train_test_split(X, y, test_size=0.25, random_state=0)
    scale = 1.0 / (X.shape[1] * X.var())
    widths = (1.0, 2.0) if make is learning else (0.25 * scale, scale, 4 * scale)
    grid = list(product((1.0, 10.0, 100.0, 1e3, 1e4), widths))
    errors = [mse(make(C, gamma, 0).fit(A, ya), B, yb) for C, gamma in grid]
    return grid[int(np.argmin(errors))]


def measure(name: str, seeds: int, rows: int | None) -> dict[str, Any]:
    makers: dict[str, Callable[..., Any]] = {"ours": learning, "peer": nystroem}
    errors: dict[str, list[float]] = {key: [] for key in makers}
    seconds: dict[str, list[float]] = {key: [] for key in makers}
    first = scaled(task(name, 0))
    small = subset(first, 10_000)
    settings = {key: best_setting(make, small[0], small[1]) for key, make in makers.items()}
    for seed in range(seeds):
        X, y, Xt, yt = scaled(task(name, seed)) if rows is None else subset(scaled(task(name, seed)), rows)
        for key, make in makers.items():
            began = time.perf_counter()
            machine = make(*settings[key], seed).fit(X, y)
            seconds[key].append(time.perf_counter() - began)
            errors[key].append(mse(machine, Xt, yt))
    mean = {key: float(np.mean(values)) for key, values in errors.items()}
    spent = {key: float(np.median(values)) for key, values in seconds.items()}
    return {
        "ours": mean["ours"],
        "peer": mean["peer"],
        "seconds": spent,
        "settings": {key: list(value) for key, value in settings.items()},
        "note": f"fit {spent['ours']:.2f} s against {spent['peer']:.2f} s",
    }


def main() -> int:
    run = Run("flagship_regression", "CompactSVR(100) against Nystroem(400) + Ridge", quick_minutes=2, full_minutes=12)
    lower = Target("< peer", lambda values: values["ours"] < values["peer"])
    both = Target("< peer, faster", lambda v: v["ours"] < v["peer"] and v["seconds"]["ours"] < v["seconds"]["peer"])
    for name in ("boston", "concrete", "california", "generated"):
        large = name == "generated"
        seeds, rows = (1 if run.quick or large else 3), (3000 if run.quick else None)
        params = {"set": name, "seeds": seeds, "rows": rows}
        run.row(f"{name}, mean squared error", params, partial(measure, name, seeds, rows), both if large else lower)
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
