"""
An exact SVM and a compact one, side by side
============================================

Trains scikit-learn's `SVC` and `CompactSVC` with the same kernel width and the same C on two generated sets:
a noisy checkerboard in the plane and ringnorm with 50,000 rows in 20 features. Prints test error, number of
vectors, fit time and prediction time per row, and draws both boundaries in the plane with the basis vectors.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import SVC

from kompakt import CompactSVC
from kompakt.datasets import make_checkerboard, make_ringnorm

PICTURE = Path("build") / "demo_boundary.png"
HEADER = "| data | model | test error | vectors | fit | prediction per row |\n|---|---|---|---|---|---|"


def seconds(function: Any, *arguments: Any) -> float:
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def compare(
    name: str, X: np.ndarray, y: np.ndarray, n_train: int, gamma: float, C: float, n_basis: int
) -> tuple[SVC, CompactSVC]:
    """Fit both models on the first `n_train` rows, test on the others, print one table row each."""
    train, test = slice(None, n_train), slice(n_train, None)
    exact = SVC(gamma=gamma, C=C, cache_size=500)
    compact = CompactSVC(n_basis=n_basis, gamma=gamma, C=C, random_state=0)
    for model in (exact, compact):
        model.fit(X[:1000], y[:1000]).predict(X[:1000])  # imports and compilation are not what is timed
    for model in (exact, compact):
        fit = seconds(model.fit, X[train], y[train])
        error = np.mean(model.predict(X[test]) != y[test])
        predict = statistics.median(seconds(model.predict, X[test]) for _ in range(3))
        vectors = model.n_basis_ if model is compact else len(model.support_)
        print(
            f"| {name} | {type(model).__name__} | {100 * error:.2f} % | {vectors:,} | {fit:.2f} s "
            f"| {1e6 * predict / len(X[test]):.2f} us |",
            flush=True,
        )
    return exact, compact


def draw(X: np.ndarray, y: np.ndarray, exact: SVC, compact: CompactSVC) -> None:
    """Draw the rows, the boundary of each model, and what each model keeps."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    side = np.linspace(0, 1, 250)
    grid = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])
    figure, panels = plt.subplots(1, 2, figsize=(12, 6), sharex=True, sharey=True, layout="constrained")
    kept = {
        f"SVC: {len(exact.support_):,} support vectors": (exact, exact.support_vectors_),
        f"CompactSVC: {compact.n_basis_} basis vectors": (compact, compact.basis_vectors_),
    }
    for panel, (title, (model, vectors)) in zip(panels, kept.items(), strict=True):
        values = model.decision_function(grid).reshape(len(side), len(side))
        panel.contourf(side, side, values, levels=[-np.inf, 0, np.inf], colors=["#d7e3f4", "#f8dfd0"])
        panel.contour(side, side, values, levels=[0], colors="black", linewidths=1.5)
        panel.scatter(*X.T, c=np.where(y == 1, "#d9702b", "#3b6fb6"), s=2, alpha=0.35, linewidths=0)
        panel.scatter(*vectors.T, facecolors="none", edgecolors="black", s=18, linewidths=0.8)
        panel.set(title=title, xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[], yticks=[])
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    print(f"\nBoundaries and vectors drawn in {PICTURE}")


def main() -> None:
    start = time.perf_counter()
    print("Same kernel width and C for both models; tested on rows neither has seen.\n")
    print(HEADER, flush=True)
    X, y = make_checkerboard(14_000, n_cells=4, flip=0.05, random_state=0)
    name = "checkerboard, 4,000 x 2"
    exact, compact = compare(name, X, y, n_train=4_000, gamma=30.0, C=10.0, n_basis=100)
    rows, labels = make_ringnorm(60_000, random_state=0)
    compare("ringnorm, 50,000 x 20", rows, labels, n_train=50_000, gamma=0.05, C=1.0, n_basis=100)
    draw(X[:4_000], y[:4_000], exact, compact)
    print(f"Run time {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
