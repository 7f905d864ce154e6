"""Intervals and probabilities: coverage, width, log loss and Brier score beside other systems.

    python -m benchmarks.uncertainty [--quick] [--fresh] [--only TEXT] [--stored]

Intervals, level 0.9: fifteen regressions (three public sets, twelve generated ones with noise of many kinds), at most
300 training rows and 1,000 test rows, 10 splits.  Beside `CompactSVR(30, interval=0.9)` stand MAPIE's cross-conformal
intervals (CV+, five folds) around scikit-learn's `SVR` where MAPIE is installed, and a `GaussianProcessRegressor` with
a Gaussian kernel, one width per feature and white noise.  Widths are in standard deviations of the targets.

Probabilities: public sets of two and more classes, at most 500 training and 1,000 test rows, 10 splits.  Beside
`CompactSVC(50, calibrate=True)` stand `CalibratedClassifierCV(SVC())` and LightGBM where it is installed, else
scikit-learn's HistGradientBoostingClassifier.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_friedman1, make_friedman2, make_friedman3
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from benchmarks.harness import Run, Target, load_data
from kompakt import CompactSVC, CompactSVR

LEVEL = 0.9
CLASS_SETS = (
    "wisconsin", "pima", "ida_german", "ida_image", "ida_banana", "spambase", "magic", "satimage", "pendigits",
    "letter",
)  # fmt: skip
Rows = tuple[np.ndarray, np.ndarray]


def generated(noise: str, d: int, n: int, seed: int) -> Rows:
    """A curve in d features under noise of some kind."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    kinds = {
        "normal": rng.normal(size=n), "heavy": rng.standard_t(3, n), "skewed": rng.exponential(size=n),
        "growing": np.abs(X[:, 0]) * rng.normal(size=n),
    }  # fmt: skip
    return X, np.sin(2 * X[:, 0]) + X.sum(axis=1) / d + 0.3 * kinds[noise]


def public(name: str, n: int, seed: int) -> Rows:
    data = load_data(name)
    picked = np.random.default_rng(seed).permutation(len(data["y"]))[:n]
    return data["X"][picked].astype(np.float64), data["y"][picked].astype(np.float64)


REGRESSIONS: dict[str, Callable[[int, int], Rows]] = {
    **{name: partial(public, name) for name in ("boston", "concrete", "california")},
    **{f"{noise}, {d} features": partial(generated, noise, d) for noise in ("normal", "heavy", "skewed", "growing")
       for d in (1, 4)},
    "friedman 1": lambda n, seed: make_friedman1(n, noise=1.0, random_state=seed),
    "friedman 2": lambda n, seed: make_friedman2(n, noise=100.0, random_state=seed),
    "friedman 3": lambda n, seed: make_friedman3(n, noise=0.1, random_state=seed),
    "normal, 10 features": partial(generated, "normal", 10),
}  # fmt: skip


def standardised(X: np.ndarray, y: np.ndarray, n_train: int) -> tuple[np.ndarray, ...]:
    scaler = StandardScaler().fit(X[:n_train])
    X, y = scaler.transform(X), (y - y[:n_train].mean()) / y[:n_train].std()
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


def ours(X: np.ndarray, y: np.ndarray, Xt: np.ndarray, seed: int) -> np.ndarray:
    return CompactSVR(30, interval=LEVEL, random_state=seed).fit(X, y).predict_interval(Xt)


def gaussian_process(X: np.ndarray, y: np.ndarray, Xt: np.ndarray, seed: int) -> np.ndarray:
    kernel = RBF(np.ones(X.shape[1])) + WhiteKernel()
    mean, deviation = GaussianProcessRegressor(1.0 * kernel, random_state=seed).fit(X, y).predict(Xt, return_std=True)
    reach = 1.6448536 * deviation
    return np.column_stack([mean - reach, mean + reach])


def mapie(X: np.ndarray, y: np.ndarray, Xt: np.ndarray, seed: int) -> np.ndarray | None:
    try:
        from mapie.regression import CrossConformalRegressor  # type: ignore[import-not-found]
    except ImportError:
        return None
    machine = CrossConformalRegressor(SVR(), confidence_level=LEVEL, cv=5, random_state=seed).fit_conformalize(X, y)
    return np.asarray(machine.predict_interval(Xt)[1][:, :, 0])


def interval(name: str, n_splits: int) -> dict[str, Any]:
    """Coverage and mean width of every system, means over splits."""
    makers = {"ours": ours, "peer": mapie, "gaussian process": gaussian_process}
    covered: dict[str, list[float]] = {}
    widths: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    for split in range(n_splits):
        rows = REGRESSIONS[name](1300, split)
        n_train = min(300, int(0.75 * len(rows[1])))
        X, y, Xt, yt = standardised(*rows, n_train)
        for system, make in makers.items():
            began = time.perf_counter()
            bounds = make(X, y, Xt, split)
            if bounds is None:
                continue
            seconds.setdefault(system, []).append(time.perf_counter() - began)
            covered.setdefault(system, []).append(float(np.mean((bounds[:, 0] <= yt) & (yt <= bounds[:, 1]))))
            widths.setdefault(system, []).append(float(np.mean(np.ptp(bounds, axis=1))))
    # of a quantile of n_train residuals and of the test rows, in the mean over splits
    error = float(np.sqrt(LEVEL * (1 - LEVEL) * (1 / n_train + 1 / len(yt)) / n_splits))
    means = {column: {system: float(np.mean(v)) for system, v in values.items()}
             for column, values in (("coverage", covered), ("width", widths), ("seconds", seconds))}  # fmt: skip
    shown = {"ours": means["coverage"]["ours"], "peer": means["coverage"].get("peer")}
    note = f"width {means['width']['ours']:.3f} against {means['width'].get('peer', np.nan):.3f}"
    single = float(np.sqrt(LEVEL * (1 - LEVEL) * (1 / n_train + 1 / len(yt))))
    near = float(np.mean(np.abs(np.array(covered["ours"]) - LEVEL) < 2 * single))
    return {**shown, **means, "standard_error": error, "single_error": single, "splits_within": near, "note": note}


def trees(seed: int) -> Any:
    try:
        from lightgbm import LGBMClassifier
    except ImportError:
        return HistGradientBoostingClassifier(random_state=seed)
    return LGBMClassifier(random_state=seed, verbose=-1, n_jobs=1)


def probability(name: str, n_splits: int) -> dict[str, Any]:
    """Log loss and Brier score of every system, means over splits."""
    data = load_data(name)
    parts = ("X", "y") if "X" in data else ("X_train", "y_train", "X_test", "y_test")
    X = np.concatenate([data[part] for part in parts[::2]]).astype(np.float64)
    y = np.concatenate([data[part] for part in parts[1::2]])
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    losses: dict[str, list[float]] = {}
    briers: dict[str, list[float]] = {}
    methods: list[str] = []
    for split in range(n_splits):
        order = np.random.default_rng(split).permutation(len(y))[:1500]
        n_train = min(500, len(order) // 2)
        scaler = StandardScaler().fit(X[order[:n_train]])
        train, test = (scaler.transform(X[rows]) for rows in (order[:n_train], order[n_train:]))
        classes, labels = np.unique(y[order], return_inverse=True)
        machines = {
            "ours": CompactSVC(50, calibrate=True, random_state=split),
            "peer": CalibratedClassifierCV(SVC(random_state=split), ensemble=False),
            "trees": trees(split),
        }
        truth = np.eye(len(classes))[labels[n_train:]]
        for system, machine in machines.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                chances = machine.fit(train, labels[:n_train]).predict_proba(test)
            loss = float(log_loss(labels[n_train:], chances, labels=np.arange(len(classes))))
            losses.setdefault(system, []).append(loss)
            briers.setdefault(system, []).append(float(np.mean(np.sum((chances - truth) ** 2, axis=1))))
        noted = [entry["method"] for entry in machines["ours"].history_ if entry["phase"] == "calibration"]
        methods += noted or ["sigmoid"]
    means = {column: {system: float(np.mean(v)) for system, v in values.items()}
             for column, values in (("log_loss", losses), ("brier", briers))}  # fmt: skip
    return {"ours": means["log_loss"]["ours"], "peer": means["log_loss"]["peer"], **means, "methods": methods}


def main() -> int:
    run = Run("uncertainty", "Intervals and probabilities beside other systems", quick_minutes=1, full_minutes=20)
    n_splits = 2 if run.quick else 10
    params = {"splits": n_splits}
    within = Target("0.9 +- 2 errors", lambda row: abs(row["ours"] - LEVEL) <= 2 * row["single_error"])
    names = list(REGRESSIONS)[: 2 if run.quick else None]
    tried = [run.row(f"coverage, {name}", params, partial(interval, name, n_splits), within) for name in names]
    sets = CLASS_SETS[: 2 if run.quick else None]
    compared = [run.row(f"log loss, {name}", params, partial(probability, name, n_splits)) for name in sets]
    rows, losses = ([row for row in table if row is not None] for table in (tried, compared))
    if rows:
        mean = {key: float(np.mean([row["width"].get(key, np.nan) for row in rows])) for key in rows[0]["width"]}
        widths = {"ours": mean["ours"], "peer": mean.get("peer"), "means": mean}
        run.row("mean width", params, lambda: widths, derived=True)
    if losses:
        mean = {key: float(np.mean([row["log_loss"][key] for row in losses])) for key in losses[0]["log_loss"]}
        summary = {"ours": mean["ours"], "peer": mean["peer"], "means": mean}
        run.row("mean log loss", params, lambda: summary, derived=True)
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
