"""Fast against simple cross-validation of fixed-size machines (De Brabanter et al. 2010, Tables 3 and 4).

    python -m benchmarks.papers.fslssvm_cv [--quick] [--fresh] [--only TEXT]

Concrete (1,030 rows; 50, 100, 400 vectors) and Magic (19,020 rows; 50, 300, 700 vectors), 5 to 50 folds, one pair of
parameters. "simple" is the paper's: in every fold the features of eq. 5 anew, from the eigenvectors of the prototypes'
kernel matrix, then eq. 7. "fast" computes features once and uses `cross_validated_path`. Since the package takes a
Cholesky factor in place of the eigenvectors, which alone is a gain, the note also gives the ratio against a simple way
with the package's own features ("own"): with v folds that one can reach v and no more. All run on one thread, in turn,
and CPU time of that thread is counted, so that other work on the machine hardly matters. The folds of a simple way cost
the same, so at most 5 are run and the time is scaled to their number; their residuals are compared with the fast ones.
Verdicts are on the largest size: at least 9 times as fast with 10 folds, 35 times with 50, and 50 folds cost at most
1.3 times as much as 5.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy as np
from benchmarks.harness import Run, Target, at_least, at_most, load_data
from scipy.linalg import cho_factor, cho_solve, eigh

from kompakt.data import ArrayRows
from kompakt.design import Design
from kompakt.heldout import shuffled_folds
from kompakt.kernels import RBF
from kompakt.parallel import block_threads
from kompakt.search import cross_validated_path

FOLDS = (5, 10, 20, 30, 40, 50)
# seconds of the paper: set -> vectors -> (simple, optimised) for each number of folds
PAPER: dict[str, dict[int, tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "concrete": {
        50: ((0.066, 0.14, 0.29, 0.44, 0.57, 0.71), (0.009, 0.012, 0.015, 0.018, 0.019, 0.021)),
        100: ((0.19, 0.38, 0.75, 1.15, 1.49, 1.86), (0.031, 0.033, 0.035, 0.039, 0.052, 0.058)),
        400: ((3.60, 7.27, 14.51, 21.62, 31.07, 39.12), (0.40, 0.45, 0.53, 0.57, 0.65, 0.76)),
    },
    "magic": {
        50: ((0.71, 1.51, 2.98, 4.47, 6.05, 7.60), (0.15, 0.16, 0.16, 0.17, 0.19, 0.19)),
        300: ((6.27, 12.80, 25.49, 38.08, 50.94, 64.43), (1.52, 1.57, 1.60, 1.64, 1.66, 1.83)),
        700: ((29.01, 58.56, 117.12, 179.44, 231.59, 290.36), (5.95, 6.06, 6.34, 6.60, 6.94, 7.11)),
    },
}
LARGEST = {"concrete": 400, "magic": 700}
DEMANDS = {10: 9.0, 50: 35.0}
C = 100.0
SIMPLE_FOLDS = 5


def problem(name: str, m: int) -> Any:
    data = load_data(name)
    X = data["X"].astype(float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = data["y"].astype(float)
    y = (y - y.mean()) / y.std()
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    distinct = np.unique(X, axis=0, return_index=True)[1]
    basis = X[np.random.default_rng(1).permutation(distinct)[:m]]
    return ArrayRows(X), y, basis, RBF(1.0 / X.shape[1])


def features(rows: ArrayRows, basis: np.ndarray, kernel: RBF) -> np.ndarray:
    """The package's features: eq. 5 with a Cholesky factor, and the column of ones of eq. 8."""
    Phi = Design(rows, kernel, basis, whiten=True, store=True).matrix
    return np.column_stack([Phi, np.ones(len(Phi))])


def fast(problem: Any, fold: np.ndarray) -> np.ndarray:
    rows, y, basis, kernel = problem
    order = np.argsort(fold, kind="stable")  # rows in the order of the folds, as the estimators keep them
    residuals = np.empty(len(y))
    Phi = features(ArrayRows(rows.X[order]), basis, kernel)
    residuals[order] = cross_validated_path(
        Phi, y[order][:, None], fold[order], np.array([1.0 / C]), None, np.ones(Phi.shape[1])
    )[0, :, 0]
    return residuals


def eigen_features(rows: ArrayRows, basis: np.ndarray, kernel: RBF) -> np.ndarray:
    """The same as the paper writes them: eigenvectors of the prototypes' kernel matrix over the roots of its values."""
    values, vectors = eigh(kernel.gram(basis), driver="evd")
    Phi = np.ones((rows.n_rows, len(basis) + 1))
    np.matmul(kernel.block(rows.X, basis), vectors / np.sqrt(np.maximum(values, 1e-12)), out=Phi[:, :-1])
    return Phi


def simple(featurise: Any, problem: Any, fold: np.ndarray, folds: range) -> np.ndarray:
    """Everything anew in every fold."""
    rows, y, basis, kernel = problem
    residuals = np.full(len(y), np.nan)
    for v in folds:
        Phi = featurise(rows, basis, kernel)
        train, held = Phi[fold != v], Phi[fold == v]
        A = train.T @ train + np.eye(Phi.shape[1]) / C
        w = cho_solve(cho_factor(A, overwrite_a=True), train.T @ y[fold != v])
        residuals[fold == v] = y[fold == v] - held @ w
    return residuals


def timed(function: Any, *arguments: Any) -> tuple[float, np.ndarray]:
    began = time.thread_time()
    result = function(*arguments)
    return time.thread_time() - began, result


def measure(name: str, m: int, n_folds: int, rounds: int) -> dict[str, Any]:
    given = problem(name, m)
    y = given[1]
    fold = shuffled_folds(len(y), n_folds, random_state=2)
    some = range(min(n_folds, SIMPLE_FOLDS))
    ratios: dict[str, list[float]] = {"simple": [], "own": []}
    seconds: dict[str, list[float]] = {"simple": [], "fast": []}
    with block_threads(1):
        fast(given, fold)
        for _ in range(rounds):
            # a fast run before and after the simple ones: the machine is in the same state
            first, ours = timed(fast, given, fold)
            literal, naive = timed(simple, eigen_features, given, fold, some)
            own, _ = timed(simple, features, given, fold, some[:3])
            second, _ = timed(fast, given, fold)
            middle = (first + second) / 2
            seconds["fast"].append(middle)
            seconds["simple"].append(literal * n_folds / len(some))
            ratios["simple"].append(seconds["simple"][-1] / middle)
            ratios["own"].append(own * n_folds / 3 / middle)
    seen = ~np.isnan(naive)
    difference = float(np.abs(naive - ours)[seen].max())
    paper_simple, paper_fast = (times[FOLDS.index(n_folds)] for times in PAPER[name][m])
    typical = {way: statistics.median(values) for way, values in seconds.items()}
    own_ratio = statistics.median(ratios["own"])
    return {
        "ours": statistics.median(ratios["simple"]),
        "paper": paper_simple / paper_fast,
        "own_features_ratio": own_ratio,
        "simple_seconds": typical["simple"],
        "fast_seconds": typical["fast"],
        "difference": difference,
        "note": f"simple {typical['simple']:.3g} s, fast {typical['fast']:.3g} s, own features {own_ratio:.3g}x, "
        f"residuals differ by {difference:.0e}",
    }


def fold_cost(name: str, m: int, rounds: int) -> dict[str, Any]:
    """50 folds against 5, in turn."""
    given = problem(name, m)
    folds = {v: shuffled_folds(len(given[1]), v, random_state=2) for v in (5, 50)}
    ratios = []
    with block_threads(1):
        fast(given, folds[5])
        for _ in range(rounds):
            few, _ = timed(fast, given, folds[5])
            many, _ = timed(fast, given, folds[50])
            again, _ = timed(fast, given, folds[5])
            ratios.append(many / ((few + again) / 2))
    paper = PAPER[name][m][1]
    return {"ours": statistics.median(ratios), "paper": paper[-1] / paper[0], "ratios": ratios}


def exact_and(target: Target | None) -> Target:
    """The ratio, and residuals equal to 1e-8."""
    if target is None:
        return Target("equal to 1e-8", lambda row: row["difference"] <= 1e-8)
    return Target(f"{target.text}, equal", lambda row: target.holds(row) and row["difference"] <= 1e-8)


def main() -> int:
    run = Run("fslssvm_cv", "Fast against simple cross-validation", quick_minutes=1, full_minutes=15)
    for name, sizes in PAPER.items():
        for m in sizes:
            if run.quick and m > 100:
                continue
            rounds = 3 if name == "concrete" else 2
            for n_folds in FOLDS:
                demand = DEMANDS.get(n_folds) if m == LARGEST[name] else None
                target = exact_and(at_least(demand) if demand else None)
                params = {"m": m, "folds": n_folds, "C": C, "rounds": rounds}
                run.row(
                    f"{name}, {m} vectors, {n_folds} folds",
                    params,
                    lambda name=name, m=m, n_folds=n_folds, rounds=rounds: measure(name, m, n_folds, rounds),  # type: ignore[misc]
                    target,
                    "x",
                )
        if not run.quick:
            m = LARGEST[name]
            run.row(
                f"{name}, {m} vectors, 50 folds against 5",
                {"m": m, "C": C},
                lambda name=name, m=m: fold_cost(name, m, 7),  # type: ignore[misc]
                at_most(1.3),
                "x",
            )
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
