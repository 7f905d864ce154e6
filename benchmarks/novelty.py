"""CompactNovelty against the novelty detectors of scikit-learn and ECOD, one class of a public set against the rest.

    python -m benchmarks.novelty [--quick] [--fresh] [--only TEXT] [--stored]

Detectors see half of the rows of one class, at most 1,000, standardised, and no outlier; they are measured on the other
rows of the class and as many of the other classes, at most 1,000 of each.  Split s of a set with several classes takes
the s-th largest class of at least 200 rows, so that ten splits are of ten classes where there are so many.  All are
taken as they come; SGDOneClassSVM is that of scikit-learn's own comparison, on 100 Nystroem components.  ECOD (Li et
al. 2022) is PyOD's where that is installed, else the same formula.

Rows hold the area under the ROC curve and the average precision of the outliers, vectors, bytes (of the arrays that
prediction needs), and seconds, means over splits.  The last rows sum up; `rules` compares widths and costs of
CompactNovelty, and `rows` fits up to 1,000,000 streamed rows.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
import time
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDOneClassSVM
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from benchmarks.harness import Run, Target, at_least, load_data
from kompakt import CompactNovelty, open_rows

SETS = (
    "pendigits", "letter", "optdigits", "satimage", "shuttle", "spambase", "magic", "wisconsin", "pima", "ida_banana",
    "ida_image", "cod_rna",
)  # fmt: skip
#: sets that the rule for width and cost was measured on besides
MORE = ("ida_thyroid", "ida_waveform", "ida_ringnorm", "ida_twonorm")


@cache
def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = load_data(name)
    parts = ("X", "y") if "X" in data else ("X_train", "y_train", "X_test", "y_test")
    X = np.concatenate([data[part] for part in parts[::2]]).astype(np.float64)
    y = np.concatenate([data[part] for part in parts[1::2]])
    return np.where(np.isnan(X), np.nanmean(X, axis=0), X), y


def task(name: str, split: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normal rows to train on, rows to test on, and which of them are outliers."""
    X, y = rows_of(name)
    classes, counts = np.unique(y, return_counts=True)
    by_size = classes[np.argsort(-counts, kind="stable")][: max(1, np.sum(counts >= 200))]
    normal = by_size[split % min(len(by_size), 10) if len(classes) > 2 else 0]
    rng = np.random.default_rng(split)
    inside, outside = rng.permutation(np.flatnonzero(y == normal)), rng.permutation(np.flatnonzero(y != normal))
    n_train = min(1000, len(inside) // 2)
    test, outliers = inside[n_train : n_train + 1000], outside[:1000]
    scaler = StandardScaler().fit(X[inside[:n_train]])
    is_outlier = np.repeat([0, 1], [len(test), len(outliers)])
    return scaler.transform(X[inside[:n_train]]), scaler.transform(X[np.concatenate([test, outliers])]), is_outlier


class ECOD:
    """Outliers by the empirical distribution functions of single features (Li et al. 2022, eq. 4 to 9)."""

    def fit(self, X: np.ndarray) -> ECOD:
        self.sorted_, self.n_ = np.sort(X, axis=0), len(X)
        self.skewed_ = np.mean((X - X.mean(0)) ** 3, axis=0) < 0
        return self

    def score_samples(self, X: np.ndarray) -> np.ndarray:
        columns = range(X.shape[1])
        below = np.column_stack([np.searchsorted(self.sorted_[:, f], X[:, f], "right") for f in columns])
        above = np.column_stack([self.n_ - np.searchsorted(self.sorted_[:, f], X[:, f], "left") for f in columns])
        left, right = (-np.log(np.maximum(count, 1) / (self.n_ + 1)) for count in (below, above))
        sides = left.sum(1), right.sum(1), np.where(self.skewed_, left, right).sum(1)
        return -np.max(sides, axis=0)


def ecod() -> Any:
    """PyOD's detector where it is installed, else ours."""
    try:
        from pyod.models.ecod import ECOD as Theirs  # type: ignore[import-not-found]
    except ImportError:
        return ECOD()

    class Detector(Theirs):
        def score_samples(self, X: np.ndarray) -> np.ndarray:
            return -np.asarray(self.decision_function(X))

    return Detector()


def nystroem(n: int, seed: int) -> Any:
    return make_pipeline(Nystroem(n_components=100, random_state=seed), SGDOneClassSVM(random_state=seed))


DETECTORS: dict[str, Any] = {
    "ours": lambda n, seed: CompactNovelty(20, random_state=seed),
    # OneClassSVM keeps half of the rows
    "ours, 2 %": lambda n, seed: CompactNovelty(max(2, round(0.02 * 0.5 * n)), random_state=seed),
    "peer": lambda n, seed: OneClassSVM(),
    "SGDOneClassSVM": nystroem,
    "IsolationForest": lambda n, seed: IsolationForest(random_state=seed),
    "LocalOutlierFactor": lambda n, seed: LocalOutlierFactor(novelty=True),
    "ECOD": lambda n, seed: ecod(),
}


def n_bytes(detector: Any) -> int:
    """Of what prediction needs; 0 where it cannot be told."""
    try:
        return len(pickle.dumps(detector))
    except (pickle.PicklingError, AttributeError):
        return 0


def n_vectors(detector: Any) -> int:
    for name in ("n_basis_", "support_"):
        if hasattr(detector, name):
            value = getattr(detector, name)
            return int(value if np.ndim(value) == 0 else len(value))
    return 0


def measure(name: str, n_splits: int) -> dict[str, Any]:
    """Means over splits of all detectors on a set."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for split in range(n_splits):
        train, test, is_outlier = task(name, split)
        for detector_name, make in DETECTORS.items():
            began = time.perf_counter()
            detector = make(len(train), split).fit(train)
            fitted = time.perf_counter()
            scores = -detector.score_samples(test)
            seconds = fitted - began, (time.perf_counter() - fitted) / len(test)
            area, precision = roc_auc_score(is_outlier, scores), average_precision_score(is_outlier, scores)
            kept = detector.model_ if detector_name.startswith("ours") else detector
            values = area, precision, n_vectors(detector), n_bytes(kept), *seconds
            found.setdefault(detector_name, []).append(values)
    means = {detector_name: np.mean(values, axis=0) for detector_name, values in found.items()}
    row: dict[str, Any] = {"ours": means["ours"][0], "peer": means["peer"][0]}
    names = ("area", "precision", "vectors", "bytes", "fit_seconds", "row_seconds")
    row |= {column: {key: float(value[place]) for key, value in means.items()} for place, column in enumerate(names)}
    row["areas"] = [values[0] for values in found["ours"]]
    return row


def rule(width: float, cost: float, n_splits: int) -> dict[str, Any]:
    """Mean area with one rule for width and cost on all sets."""
    areas = []
    for name in (*SETS, *MORE):
        for split in range(n_splits):
            train, test, is_outlier = task(name, split)
            gamma, C = width / (train.shape[1] * train.var()), cost / len(train)
            detector = CompactNovelty(20, gamma=gamma, C=C, random_state=split).fit(train)
            areas.append(roc_auc_score(is_outlier, -detector.score_samples(test)))
    return {"ours": float(np.mean(areas))}


def streamed(n_rows: int) -> dict[str, Any]:
    """Seconds of a fit to rows in a file, and the false alarms among new ones."""
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(10, 8))

    def normal(n: int) -> np.ndarray:
        return (centres[rng.integers(10, size=n)] + rng.normal(size=(n, 8))).astype(np.float32)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.npy")
        np.save(path, normal(n_rows))
        began = time.perf_counter()
        machine = CompactNovelty(20, random_state=0).fit(open_rows(path))
        seconds = time.perf_counter() - began
    return {"ours": seconds, "false_alarms": float(np.mean(machine.predict(normal(50_000)) < 0))}


def main() -> int:
    run = Run("novelty", "CompactNovelty(20) against other detectors", quick_minutes=1, full_minutes=15)
    quick = run.options.quick
    n_splits = 2 if quick else 10
    params = {"splits": n_splits, "vectors": 20}
    no_worse = Target(">= OneClassSVM", lambda row: row["ours"] >= row["peer"])
    names = SETS[: 2 if quick else None]
    measured = [run.row(f"area, {name}", params, partial(measure, name, n_splits)) for name in names]
    rows = [row for row in measured if row is not None]
    if rows:
        mean = {key: float(np.mean([row["area"][key] for row in rows])) for key in DETECTORS}
        summary = {"ours": mean["ours"], "peer": mean["peer"], "means": mean}
        run.row("mean area", params, lambda: summary, no_worse, derived=True)
        small = {"ours": mean["ours, 2 %"], "peer": mean["peer"]}
        run.row("mean area with 2 % of its vectors", params, lambda: small, no_worse, derived=True)
        wins = sum(row["area"]["ours"] > row["area"]["IsolationForest"] for row in rows)
        run.row("sets above IsolationForest", params, lambda: {"ours": wins}, at_least(2 if quick else 8), derived=True)
    if not quick:
        for width in (1.0, 3.0, 6.0, 10.0):
            for cost in (10.0, 100.0, 1000.0):
                run.row(f"rule, width {width:g}, cost {cost:g}", {"splits": 2}, partial(rule, width, cost, 2))
    for n_rows in (10_000,) if quick else (10_000, 100_000, 1_000_000):
        run.row(f"rows streamed, {n_rows:,}", {"vectors": 20}, partial(streamed, n_rows), unit="s")
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
