"""What `Estimator()` is worth: every estimator with its defaults against a tuned SVC or SVR, on small public sets.

    python -m benchmarks.defaults [--quick] [--only TEXT]

Inputs are standardised by the training rows, nothing else is set. The reference searches 12 points, four of C and three
widths, by five folds; that of regression sees standardised targets. A row is an estimator on one split of a set, and
the estimators take turns in an order that is turned from split to split. At the end a table has error ratios, the mean
over the splits of the estimator's error over that of the reference. Wanted: at most 1.25 in the mean over the sets, and
no set above 2.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import kompakt as k
from benchmarks.harness import Run
from benchmarks.tasks import Task, small_task, standardised, subset, task

LARGEST_MEAN, LARGEST = 1.25, 2.0
N_TEST = 5_000
COSTS = [0.1, 1.0, 10.0, 100.0]

CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "CompactSVC": k.CompactSVC,
    "SpSVC": k.SpSVC,
    "FEESVC": k.FEESVC,
    "FixedSizeLSSVC": k.FixedSizeLSSVC,
    "ProjectedSVC": k.ProjectedSVC,
    "KernelFisher": k.KernelFisher,
    "ProjectedKernelFisher": k.ProjectedKernelFisher,
    "LocalSamplingSVC": k.LocalSamplingSVC,
    "CGLQSVC": k.CGLQSVC,
    # a transformer: its features in front of a linear SVM that has its C from a search
    "GreedyProjection": lambda: make_pipeline(k.GreedyProjection(), GridSearchCV(SVC(kernel="linear"), {"C": COSTS})),
}
REGRESSORS: dict[str, Callable[[], Any]] = {
    "CompactSVR": k.CompactSVR,
    "FEESVR": k.FEESVR,
    "FixedSizeLSSVR": k.FixedSizeLSSVR,
}

#: sets with many splits of their own, then tasks of which some rows are drawn
SMALL = (
    "ida_banana", "ida_breast_cancer", "ida_diabetis", "ida_german", "ida_heart", "ida_image", "ida_ringnorm",
    "ida_splice", "ida_thyroid", "ida_waveform",
)  # fmt: skip
DRAWN = ("magic", "spambase", "satimage", "pendigits", "letter A-M/N-Z")
NUMBERS = ("boston", "concrete", "california", "diabetes", "friedman")


def _cut(X: np.ndarray, y: np.ndarray, split: int) -> Task:
    order = np.random.default_rng(split).permutation(len(X))
    first, rest = np.split(order, [2 * len(X) // 3])
    train, test = standardised(X[first], X[rest])
    return train, y[first], test, y[rest]


def parts(name: str, split: int, n_rows: int) -> Task:
    """A split of a set, with at most `n_rows` rows to train on."""
    if name in SMALL:
        found = small_task(name, split)
    elif name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
        found = _cut(X, y, split)
    elif name == "friedman":
        X, y = make_friedman1(1_500, noise=1.0, random_state=split)
        found = _cut(X, y, split)
    else:
        found = task(name, split)
    X, y, Xt, yt = subset(found, n_rows, split)
    some = np.random.default_rng(split).permutation(len(Xt))[:N_TEST]
    # of the rows that were drawn
    train, test = standardised(X, Xt[some])
    return train, y, test, yt[some]


def error_of(machine: Any, X: np.ndarray, y: np.ndarray, classes: bool) -> float:
    """Share of wrong labels with half a row added, so that none is zero; or root mean squared error."""
    found = machine.predict(X)
    return (float(np.sum(found != y)) + 0.5) / len(y) if classes else float(np.sqrt(np.mean((found - y) ** 2)))


def measure(data: Callable[[], Task], classes: bool, seed: int, make: Callable[[], Any] | None) -> dict[str, Any]:
    """Error on the test rows, and processor seconds of the fit; of the reference where no estimator is given."""
    X, y, Xt, yt = data()
    machine = reference(classes, 1.0 / (X.shape[1] * float(X.var())), seed) if make is None else make()
    seeds = [name for name in machine.get_params() if name == "random_state" or name.endswith("__random_state")]
    machine.set_params(**dict.fromkeys(seeds, seed))
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few rows to be reduced, and the like
        machine.fit(X, y)
    seconds = time.process_time() - began
    size = getattr(machine, "n_basis_", "-")
    note = f"{seconds:.1f} CPU s, {size} vectors"
    return {"ours": error_of(machine, Xt, yt, classes), "seconds": seconds, "n_basis": size, "note": note}


def reference(classes: bool, width: float, seed: int) -> Any:
    """SVC or SVR searched over 12 points by five folds."""
    widths = [0.2 * width, width, 5.0 * width]
    if classes:
        folds: Any = StratifiedKFold(5, shuffle=True, random_state=seed)
        return GridSearchCV(SVC(cache_size=500), {"C": COSTS, "gamma": widths}, cv=folds)
    grid = {"regressor__C": COSTS, "regressor__gamma": widths}
    inner = TransformedTargetRegressor(SVR(cache_size=500), transformer=StandardScaler())
    return GridSearchCV(inner, grid, cv=KFold(5, shuffle=True, random_state=seed))


def main() -> int:
    """Measure what is not stored, and print the table of ratios."""
    run = Run("defaults", "Defaults against a tuned SVC or SVR", quick_minutes=6, full_minutes=40)
    n_splits, n_rows = (1, 1_000) if run.quick else (3, 2_000)
    ratios: dict[str, dict[str, list[float]]] = {}
    seconds: dict[str, list[float]] = {}
    for name in (*SMALL, *DRAWN, *NUMBERS):
        makers = REGRESSORS if name in NUMBERS else CLASSIFIERS
        for split in range(n_splits):
            if not any(run.options.only in f"{one}, {name} {split}" for one in makers):
                continue
            fit = partial(measure, partial(parts, name, split, n_rows), makers is CLASSIFIERS, split)
            params = {"set": name, "split": split, "rows": n_rows}
            peer = run.row(f"grid, {name} {split}", params, partial(fit, None), always=True)
            turn = split % len(makers)
            for one in [*makers][turn:] + [*makers][:turn]:
                row = run.row(f"{one}, {name} {split}", params, partial(fit, makers[one]))
                if row is not None and peer is not None:
                    ratios.setdefault(one, {}).setdefault(name, []).append(row["ours"] / peer["ours"])
                    seconds.setdefault(one, []).append(row["seconds"] / peer["seconds"])
    print(
        "\n| estimator | mean ratio | largest | on | processor time, share of the search | verdict |\n"
        "|---|---|---|---|---|---|"
    )
    for one, by_set in ratios.items():
        means = {name: float(np.mean(values)) for name, values in by_set.items()}
        worst = max(means, key=means.__getitem__)
        mean, cost = float(np.mean(list(means.values()))), float(np.median(seconds[one]))
        good = mean <= LARGEST_MEAN and means[worst] <= LARGEST
        print(f"| `{one}` | {mean:.2f} | {means[worst]:.2f} | {worst} | {cost:.2f} | {'ok' if good else 'FAILED'} |")
        run.failed += [] if good else [one]
    for one, by_set in ratios.items():
        print(one, ", ".join(f"{name} {np.mean(values):.2f}" for name, values in by_set.items()))
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
