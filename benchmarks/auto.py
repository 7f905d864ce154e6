"""`tune=True` against what users would search instead: a grid over SVC, and gradient boosting as it comes.

python -m benchmarks.auto [--quick] [--fresh] [--only TEXT]

Small sets (at most 1,000 training rows) have several splits, large ones one; every contender is fitted in turn on each
split.  Inputs are standardised by the training rows.  Errors are per cent of the test rows, times processor seconds of
the whole search and fit, on one thread.
"""

from __future__ import annotations

import os
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.svm import SVC

from benchmarks.harness import Run, at_most, load_data, not_worse
from benchmarks.tasks import Task, standardised, subset, task
from kompakt import CompactSVC

#: most rows that small and large sets are trained on, and most rows that they are tested on
SMALL_ROWS, LARGE_ROWS, TEST_ROWS = 800, 8000, 5000
IDA = (
    "breast_cancer",
    "diabetis",
    "german",
    "heart",
    "thyroid",
    "flare_solar",
    "banana",
    "waveform",
    "twonorm",
    "image",
)
OF_SKLEARN: dict[str, Callable[..., Any]] = {"cancer": load_breast_cancer, "wine": load_wine, "iris": load_iris}
LARGE = ("magic", "letter A-M/N-Z", "ijcnn1", "spambase", "cod_rna", "satimage", "pendigits")


def small_splits(name: str, n_splits: int) -> Iterator[Task]:
    """Stratified splits of a small set; those of the IDA repository have its number of training rows."""
    if name in IDA:
        data = load_data(f"ida_{name}")
        X, y, n_train = data["X"].astype(float), data["y"], len(data["train_idx"][0])
    else:
        X, y = OF_SKLEARN[name](return_X_y=True)
        n_train = int(0.7 * len(y))
    n_train = min(n_train, SMALL_ROWS)
    sizes = {"train_size": n_train, "test_size": min(len(y) - n_train, TEST_ROWS)}
    for train, test in StratifiedShuffleSplit(n_splits, **sizes, random_state=7).split(X, y):
        inputs, test_inputs = standardised(X[train], X[test])
        yield inputs, y[train], test_inputs, y[test]


def contenders(n_features: int) -> dict[str, Any]:
    """What is compared; the grid has three widths and four costs."""
    grid = {"C": [1, 10, 100, 1000], "gamma": ["scale", 0.1 / n_features, 4 / n_features]}
    return {
        "ours": CompactSVC(100, tune=True, random_state=0, n_jobs=1),
        "svc": GridSearchCV(SVC(), grid, cv=5),
        "trees": HistGradientBoostingClassifier(random_state=0),
    }


def measure(splits: Iterator[Task]) -> dict[str, Any]:
    """Mean errors and seconds of the contenders, fitted in turn on every split."""
    errors: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    for number, (X, y, X_test, y_test) in enumerate(splits):
        models = list(contenders(X.shape[1]).items())
        for name, model in models[number % 3 :] + models[: number % 3]:
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X, y)
            seconds.setdefault(name, []).append(time.process_time() - began)
            errors.setdefault(name, []).append(100 * float(np.mean(model.predict(X_test) != y_test)))
    values: dict[str, Any] = {name: float(np.mean(found)) for name, found in errors.items()}
    values["peer"] = values["svc"]
    values["seconds"] = {name: float(np.mean(found)) for name, found in seconds.items()}
    values["n_train"] = len(y)
    times = ", ".join(f"{name} {mean:.2f}" for name, mean in values["seconds"].items())
    values["note"] = f"{len(y):,} rows; trees {values['trees']:.2f} %; CPU s: {times}"
    return values


def cost(n_rows: int) -> dict[str, Any]:
    """Processor seconds of a fit with a search, the least of two."""
    X, y = make_classification(n_rows, 30, n_informative=10, n_clusters_per_class=3, flip_y=0.05, random_state=0)
    X = standardised(X, X)[0]
    seconds = []
    for _ in range(2):
        began = time.process_time()
        CompactSVC(100, tune=True, random_state=0, n_jobs=1).fit(X, y)
        seconds.append(time.process_time() - began)
    return {"ours": min(seconds)}


def main() -> int:
    """Measure and print all rows."""
    run = Run("auto", "The search of CompactSVC against a grid over SVC", quick_minutes=4, full_minutes=45)
    n_splits = 2 if run.quick else 10
    found = []
    for name in (*IDA, *OF_SKLEARN):
        params: dict[str, Any] = {"splits": n_splits, "rows": SMALL_ROWS}

        def small(name: str = name) -> dict[str, Any]:
            return measure(small_splits(name, n_splits))

        found.append(run.row(f"small: {name}", params, small, unit="%"))
    kept = [values for values in found if values is not None]
    if kept:
        means = {key: float(np.mean([values[key] for values in kept])) for key in ("ours", "peer", "trees")}
        means["note"] = f"trees {means['trees']:.2f} %"  # type: ignore[assignment]
        params = {"splits": n_splits, "sets": len(kept), "of": [values["ours"] for values in kept]}
        run.row("small sets: mean error", params, lambda: means, not_worse(0.2, "peer"), unit="%")
    n_large = 5000 if run.quick else LARGE_ROWS
    found = []
    for name in LARGE[: 3 if run.quick else None]:

        def large(name: str = name) -> dict[str, Any]:
            X, y, X_test, y_test = subset(task(name, 0), n_large)
            return measure(iter([(X.astype(float), y, X_test[:TEST_ROWS].astype(float), y_test[:TEST_ROWS])]))

        found.append(run.row(f"large: {name}", {"rows": n_large}, large, unit="%"))
    kept = [values for values in found if values is not None]
    if kept:
        means = {key: float(np.mean([values[key] for values in kept])) for key in ("ours", "peer", "trees")}
        means["note"] = f"trees {means['trees']:.2f} %"  # type: ignore[assignment]
        params = {"rows": n_large, "of": [values["ours"] for values in kept]}
        run.row("large sets: mean error", params, lambda: means, not_worse(0.0, "peer"), unit="%")
    for n_rows, most in ((500, 1.0), (5000, 3.0), (50_000, 12.0)):
        if n_rows < 50_000 or not run.quick:
            run.row(f"cost: {n_rows:,} x 30", {}, partial(cost, n_rows), at_most(most), unit="s")
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
