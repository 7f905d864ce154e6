"""CompactSVR against Nystroem(400) + Ridge and gradient boosting.

    python -m benchmarks.flagship.regression [--quick] [--fresh] [--only TEXT]

`CompactSVR(100)` and Nystroem are tuned for every split by a grid of the same size (five regularisations, three widths)
and five folds of the training rows, on the larger sets on a quarter of 10,000 training rows; `CompactSVR()` and
HistGradientBoosting are taken as they come.  Errors are mean squared errors of standardised
targets on test rows, means over 3 splits (one for the large set, whose fits alternate and are timed).  On the large set
CompactSVR also starts from random rows with a limit of time, `max_time=0.8` seconds for the search of its vectors.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline

from benchmarks.harness import Run, Target
from benchmarks.tasks import Task, subset, task
from kompakt import CompactSVR


def learning(C: float, gamma: Any, seed: int) -> Any:
    """The flagship as it is meant to be used: widths are learned."""
    return CompactSVR(100, C=C, gamma=gamma, random_state=seed)


def hasty(C: float, gamma: Any, seed: int) -> Any:
    """The same from random rows, with a limit of time."""
    return CompactSVR(100, C=C, gamma=gamma, selection="random", max_time=0.8, random_state=seed)


def nystroem(C: float, gamma: Any, seed: int) -> Any:
    return make_pipeline(Nystroem(gamma=gamma, n_components=400, random_state=seed), Ridge(alpha=1.0 / C))


def default(seed: int) -> Any:
    return CompactSVR(random_state=seed)


def trees(seed: int) -> Any:
    return HistGradientBoostingRegressor(random_state=seed)


def scaled(parts: Task) -> Task:
    """The task with standardised targets."""
    X, y, Xt, yt = parts
    mean, deviation = float(np.mean(y)), float(np.std(y))
    return X, (y - mean) / deviation, Xt, (yt - mean) / deviation


def mse(machine: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((machine.predict(X) - y) ** 2))


def best_setting(make: Callable[..., Any], X: np.ndarray, y: np.ndarray) -> tuple[float, Any]:
    """(C, gamma) with the smallest validation error."""
    folds: Any = (
        KFold(5, shuffle=True, random_state=0) if len(X) < 2000 else ShuffleSplit(1, test_size=0.25, random_state=0)
    )
    scale = 1.0 / (X.shape[1] * X.var())
    widths: tuple[Any, ...] = ("ard", "learn", "loo") if make in (learning, hasty) else (0.25 * scale, scale, 4 * scale)
    grid = list(product((1.0, 10.0, 100.0, 1e3, 1e4), widths))
    splits = list(folds.split(X))
    errors = [np.mean([mse(make(C, gamma, 0).fit(X[a], y[a]), X[b], y[b]) for a, b in splits]) for C, gamma in grid]
    return grid[int(np.argmin(errors))]


def measure(name: str, seeds: int, rows: int | None, ours: Callable[..., Any] = learning) -> dict[str, Any]:
    makers: dict[str, Callable[..., Any]] = {"ours": ours, "peer": nystroem, "default": default, "trees": trees}
    errors: dict[str, list[float]] = {key: [] for key in makers}
    seconds: dict[str, list[float]] = {key: [] for key in makers}
    chosen: dict[str, list[tuple[Any, ...]]] = {key: [] for key in makers}
    for seed in range(seeds):
        X, y, Xt, yt = scaled(task(name, seed)) if rows is None else subset(scaled(task(name, seed)), rows)
        small = subset((X, y, Xt, yt), 10_000)
        settings = {
            key: () if make in (default, trees) else best_setting(make, small[0], small[1])
            for key, make in makers.items()
        }
        for key, make in makers.items():
            began = time.perf_counter()
            machine = make(*settings[key], seed).fit(X, y)
            chosen[key].append(settings[key])
            seconds[key].append(time.perf_counter() - began)
            errors[key].append(mse(machine, Xt, yt))
    mean = {key: float(np.mean(values)) for key, values in errors.items()}
    spent = {key: float(np.median(values)) for key, values in seconds.items()}
    return {
        **mean,
        "seconds": spent,
        "settings": chosen,
        "note": f"as it comes {mean['default']:.4f}, trees {mean['trees']:.4f}; fits of the four in seconds: "
        + ", ".join(f"{value:.2f}" for value in spent.values()),
    }


def main() -> int:
    run = Run("flagship_regression", "CompactSVR(100) against Nystroem(400) + Ridge", quick_minutes=2, full_minutes=12)
    lower = Target("both < peer", lambda values: max(values["ours"], values["default"]) < values["peer"])
    both = Target("< peer, faster", lambda v: v["ours"] < v["peer"] and v["seconds"]["ours"] < v["seconds"]["peer"])
    for name in ("boston", "concrete", "california", "generated"):
        large = name == "generated"
        seeds, rows = (1 if run.quick or large else 3), (3000 if run.quick else None)
        params = {"set": name, "seeds": seeds, "rows": rows}
        run.row(f"{name}, mean squared error", params, partial(measure, name, seeds, rows), both if large else lower)
        if large:
            limited = partial(measure, name, seeds, rows, hasty)
            run.row(f"{name}, in limited time", params, limited, both)
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
