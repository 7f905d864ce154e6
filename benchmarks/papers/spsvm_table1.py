"""Table 1 of Keerthi et al. 2006: greedy primal SVM and exact L2-SVM on eleven small sets, ten splits each.

    python -m benchmarks.papers.spsvm_table1 [--quick] [--fresh] [--only TEXT]

Kernel 1 + exp(-gamma |x - z|^2); lambda = 1 / C and gamma from 2^-7 .. 2^7 by 3-fold cross-validation together with
the number of basis vectors up to 25 (8 on titanic); 25 candidates per step; retraining at every step. The validation
error is the share of all held-out rows; the choice is `SpSVC`'s own: the smallest size within one held-out mistake,
and half a standard error, of the best, then the lower error, then the lower loss of those rows. One draw of folds and
candidates per split (N_SEEDS). Rows "exact SVM" are the exact L2-SVM with the same kernel, tuned on the same folds,
run here: the column "SVM" of Table 1; they come last, because nothing is judged by them. Some splits of the sets are
regenerated (see the data's notes), so means agree with the paper's only up to sampling noise.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from benchmarks.harness import Run, Target, at_least, load_data, within_paper
from scipy.linalg import lapack

from kompakt import AutoSize, GrowthSelector

GRID = 2.0 ** np.arange(-7, 8)
N_CANDIDATES = 25
N_SPLITS = 10
N_SEEDS = 2

# name -> SpSVM-2 error, its deviation, vectors, their deviation; SVM error, support vectors (Table 1)
PAPER: dict[str, tuple[float, float, float, float, float, float]] = {
    "banana": (10.87, 1.74, 17.3, 7.3, 10.54, 221.7),
    "breast_cancer": (29.22, 2.11, 12.1, 5.6, 28.18, 185.8),
    "diabetis": (23.47, 1.36, 13.8, 5.6, 23.73, 426.3),
    "flare_solar": (33.90, 1.10, 8.4, 1.2, 33.98, 629.4),
    "german": (24.90, 1.50, 14.0, 7.3, 24.47, 630.4),
    "heart": (15.50, 1.10, 4.3, 2.6, 15.80, 166.6),
    "ringnorm": (1.97, 0.57, 12.9, 2.0, 1.68, 334.9),
    "thyroid": (5.47, 0.78, 10.6, 2.3, 4.93, 57.8),
    "titanic": (22.68, 1.88, 3.3, 0.9, 22.35, 150.0),
    "twonorm": (2.96, 0.82, 8.7, 3.7, 2.42, 330.3),
    "waveform": (10.66, 0.99, 14.4, 3.3, 10.04, 246.9),
}

CAUSES = {
    "heart, test error": "the splits had to be regenerated: the exact SVM has 16.9 % on them, the lowest "
    "cross-validated error instead of the rule 16.7 with 8.1 vectors",
}


def squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    squares = (A * A).sum(axis=1)[:, None] + (B * B).sum(axis=1) - 2 * A @ B.T
    return np.maximum(squares, 0)


def exact_path(K: np.ndarray, y: np.ndarray, C_grid: np.ndarray) -> list[np.ndarray]:
    """Weights beta of the exact L2-SVM for growing C: Newton on the full kernel matrix (Keerthi et al. 2006, eq. 2, 6).

    At the optimum beta_i = C max(0, 1 - y_i f_i) y_i, so a Newton step solves (K_II + I / C) beta_I = y_I; each C
    starts from the solution of the one before.
    """
    beta = np.zeros(len(y))
    path = []
    for C in C_grid:
        f = K @ beta
        for _ in range(100):
            active = np.flatnonzero(y * f < 1)
            matrix = K[np.ix_(active, active)].copy(order="F")
            matrix[np.arange(len(active)), np.arange(len(active))] += 1 / C
            solved = lapack.dposv(matrix, y[active], lower=1, overwrite_a=1)[1]
            goal = np.zeros(len(y))
            goal[active] = solved
            goal_f = K[:, active] @ solved
            t = best_step(beta, goal, f, goal_f, y, float(C))
            beta, f = beta + t * (goal - beta), f + t * (goal_f - f)
            if t == 1.0 and np.array_equal(np.flatnonzero(y * f < 1), active):
                break
        path.append(beta)
    return path


def best_step(beta: np.ndarray, goal: np.ndarray, f: np.ndarray, goal_f: np.ndarray, y: np.ndarray, C: float) -> float:
    """1 where the full step lowers the objective, else the best of a few shorter ones."""

    def objective(t: float) -> float:
        b, at = beta + t * (goal - beta), f + t * (goal_f - f)
        return 0.5 * float(b @ at) + 0.5 * C * float(np.square(np.maximum(0, 1 - y * at)).sum())

    start = objective(0.0)
    if objective(1.0) <= start + 1e-10 * abs(start):
        return 1.0
    steps = 0.5 ** np.arange(1, 20)
    return float(steps[int(np.argmin([objective(t) for t in steps]))])


def exact_machine(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, splits: list) -> dict:
    """Tuned exact L2-SVM: test error in per cent and number of support vectors."""
    D = squared_distances(X, X)
    errors = np.zeros((len(GRID), len(GRID)))
    for g, gamma in enumerate(GRID):
        K = 1 + np.exp(-gamma * D)
        for train, held in splits:
            path = exact_path(K[np.ix_(train, train)], y[train], GRID)
            for c, beta in enumerate(path):
                wrong = np.where(K[np.ix_(held, train)] @ beta > 0, 1, -1) != y[held]
                errors[c, g] += wrong.sum() / len(y)
    c, g = (int(i) for i in np.unravel_index(int(np.argmin(np.round(errors, 12))), errors.shape))
    K = 1 + np.exp(-GRID[g] * D)
    beta = exact_path(K, y, GRID[: c + 1])[-1]
    test = (1 + np.exp(-GRID[g] * squared_distances(X_test, X))) @ beta
    return {"error": 100 * float(np.mean(np.where(test > 0, 1, -1) != y_test)), "n_basis": int((beta != 0).sum())}


def one_split(name: str, split: int, n_seeds: int, exact: bool) -> dict[str, float]:
    """Test error and size on one split of the greedy machine (means over draws), or of the exact one."""
    from kompakt import SpSVC
    from kompakt.heldout import resolve_splits
    from kompakt.parallel import block_threads

    data = load_data(f"ida_{name}")
    train = data["train_idx"][split].astype(int)
    test = np.setdiff1d(np.arange(len(data["y"])), train)
    X, y = data["X"].astype(float), data["y"].astype(int)
    start = time.process_time()
    errors, sizes = [], []
    for seed in range(1 if exact else n_seeds):
        draw = split + N_SPLITS * seed
        folds = resolve_splits(3, y[train], stratify=True, random_state=draw)
        if exact:
            with block_threads(1):  # one split per core
                found = exact_machine(X[train], y[train].astype(float), X[test], y[test], folds)
            errors.append(found["error"])
            sizes.append(found["n_basis"])
            continue
        machine = SpSVC(
            AutoSize(largest=8 if name == "titanic" else 25),
            plus_one=True,
            tune=True,
            cv=folds,
            selection=GrowthSelector(n_candidates=N_CANDIDATES, retraining="always"),
            random_state=draw,
            n_jobs=1,
        ).fit(X[train], y[train])
        errors.append(100 * float(np.mean(machine.predict(X[test]) != y[test])))
        sizes.append(machine.n_basis_)
    seconds = time.process_time() - start
    return {"error": float(np.mean(errors)), "n_basis": float(np.mean(sizes)), "seconds": seconds}


def _one(task: tuple[str, int, int, bool]) -> dict[str, float]:
    return one_split(*task)


def summary(name: str, pool: ProcessPoolExecutor, n_splits: int, n_seeds: int, exact: bool) -> dict[str, Any]:
    load_data(f"ida_{name}")  # missing data is reported by this process
    results = list(pool.map(_one, [(name, split, n_seeds, exact) for split in range(n_splits)]))
    column = {key: np.array([result[key] for result in results], dtype=float) for key in results[0]}
    values: dict[str, Any] = {
        "ours": float(column["error"].mean()),
        "spread": float(np.std(column["error"], ddof=1)) if n_splits > 1 else 0.0,
        "note": f"{column['n_basis'].mean():.1f} vectors; {column['seconds'].mean():.1f} s per split",
        **{f"all_{key}": one.tolist() for key, one in column.items()},
    }
    if exact:
        return {**values, "paper": PAPER[name][4], "vectors": float(column["n_basis"].mean())}
    return {**values, "paper": PAPER[name][0], "paper_sd": PAPER[name][1]}


def vectors(name: str, values: dict[str, Any]) -> dict[str, Any]:
    sizes = np.array(values["all_n_basis"])
    spread = float(np.std(sizes, ddof=1)) if len(sizes) > 1 else 0.0
    return {"ours": float(sizes.mean()), "spread": spread, "paper": PAPER[name][2], "paper_sd": PAPER[name][3]}


#: as few vectors as the paper's, up to a fifth more
AS_SMALL = Target("<= 1.2 x paper", lambda row: row["ours"] <= 1.2 * row["paper"])


def main() -> int:
    run = Run("spsvm_table1", "Table 1: greedy primal SVM on eleven sets", quick_minutes=1, full_minutes=15)
    names = ["banana", "heart", "titanic"] if run.quick else list(PAPER)
    n_splits, n_seeds = (2, 1) if run.quick else (N_SPLITS, N_SEEDS)
    close, small = 0, 0
    with ProcessPoolExecutor(2) as pool:
        for name in names:
            params = {
                "splits": n_splits,
                "seeds": n_seeds,
                "kappa": N_CANDIDATES,
                "size": "within one mistake, half a standard error",
            }
            measure = partial(summary, name, pool, n_splits, n_seeds, exact=False)
            values = run.row(f"{name}, test error", params, measure, within_paper(), "%", table="Table 1, errors")
            if values is None:
                continue
            sizes = vectors(name, values)
            of = {**params, "of": values["all_n_basis"]}
            run.row(f"{name}, basis vectors", of, partial(dict, sizes), AS_SMALL, table="Table 1, sizes")
            close += within_paper().holds(values)
            small += AS_SMALL.holds(sizes)
        for name in names:
            measure = partial(summary, name, pool, n_splits, 1, exact=True)
            run.row(f"{name}, exact SVM", {"splits": n_splits}, measure, unit="%", table="Table 1, column SVM")
    if not run.quick and not run.options.only:
        counts = {
            "error": (close, "mean error at most the paper's plus one of its standard deviations"),
            "size": (small, "mean number of vectors at most 1.2 times the paper's"),
        }
        for what, (count, note) in counts.items():
            values = {"ours": count, "note": note}
            run.row(f"sets with the paper's {what}", {"n": count}, partial(dict, values), at_least(10), table="Table 1")
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
