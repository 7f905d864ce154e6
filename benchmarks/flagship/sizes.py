"""How many vectors CompactSVC needs against SpSVC and against the exact SVM, on ten public sets.

    python -m benchmarks.flagship.sizes [--quick] [--fresh] [--only TEXT]

Every machine is tuned on training rows alone, by the mean error of three random quarters of at most 10,000 of them
(one quarter for the exact SVC): SpSVC (at 80 vectors) and the exact SVC over four C and three widths, CompactSVC (at 20
and at 50 vectors) over five C, with one or many learned widths.  Sets with more than 30,000 training rows are cut to
30,000 random ones for all machines alike.  Errors are on all test rows; CompactSVC and SpSVC: means of two seeds.

Three questions are answered, with the number of cases in the last rows: is the error of SpSVC with 4m (8m) vectors
matched by m, for m = 10, 20, 50; and how many vectors reach the error of the exact SVC plus 0.3 points, as a share of
its support vectors.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from benchmarks.harness import Run, at_least, not_worse
from benchmarks.tasks import Task, subset, task
from kompakt import CompactSVC, SpSVC

SETS = (
    "magic", "letter A-M/N-Z", "ijcnn1", "a9a", "spambase", "shuttle 1/rest", "cod_rna", "pendigits", "satimage",
    "optdigits",
)  # fmt: skip
SIZES = (10, 20, 50)
MORE = (100,)  # only for the comparison with the exact SVM
COSTS = (1.0, 10.0, 100.0, 1000.0)
ROWS = 30_000


def error(machine: Any, parts: Task) -> float:
    X, y, Xt, yt = parts
    return 100 * float(np.mean(machine.fit(X, y).predict(Xt) != yt))


def best(make: Any, grid: list[Any], parts: Task, n_splits: int = 3) -> Any:
    """The point of a grid with the smallest mean error on random quarters of the training rows."""
    X, y, _, _ = subset(parts, 10_000)
    total = np.zeros(len(grid))
    for split in range(n_splits):
        A, B, ya, yb = train_test_split(X, y, test_size=0.25, random_state=split, stratify=y)
        total += [error(make(*point), (A, ya, B, yb)) for point in grid]
    return grid[int(np.argmin(total))]


def measure(name: str, rows: int, seeds: int) -> dict[str, Any]:
    parts = subset(task(name, 0), rows)
    X = parts[0]
    scale = 1.0 / (X.shape[1] * float(X.var()))
    widths = list(product(COSTS, (scale / 2, 2 * scale, 8 * scale)))
    C_svc, g_svc = best(lambda C, g: SVC(C=C, gamma=g, cache_size=500), widths, parts, n_splits=1)
    C_sp, g_sp = best(lambda C, g: SpSVC(80, C=C, gamma=g, random_state=0), widths, parts)
    learned = list(product((0.1, *COSTS), ("ard", "learn")))
    at_20, at_50 = (
        best(lambda C, g, m=m: CompactSVC(m, C=C, gamma=g, random_state=0), learned, parts) for m in (20, 50)
    )
    greedy_sizes = sorted({k * m for m in SIZES for k in (4, 8)})
    greedy = {
        str(m): float(np.mean([error(SpSVC(m, C=C_sp, gamma=g_sp, random_state=s), parts) for s in range(seeds)]))
        for m in greedy_sizes
    }
    ours = {}
    for m in SIZES + MORE:
        C, g = at_20 if m <= 20 else at_50
        ours[str(m)] = float(np.mean([error(CompactSVC(m, C=C, gamma=g, random_state=s), parts) for s in range(seeds)]))
    exact = SVC(C=C_svc, gamma=g_svc, cache_size=1000)
    exact_error = error(exact, parts)
    enough = [m for m in SIZES + MORE if ours[str(m)] <= exact_error + 0.3]
    share = 100 * min(enough) / len(exact.support_) if enough else float("inf")
    return {
        "ours": ours["50"],
        "peer": exact_error,
        "by_size": ours,
        "greedy": greedy,
        "n_support": len(exact.support_),
        "share": share if np.isfinite(share) else None,
        "four": sum(ours[str(m)] <= greedy[str(4 * m)] for m in SIZES),
        "eight": sum(ours[str(m)] <= greedy[str(8 * m)] for m in SIZES),
        "settings": [at_20, at_50, (C_sp, g_sp), (C_svc, g_svc)],
        "note": f"ours {_short(ours)}; SpSVC {_short(greedy)}; exact {len(exact.support_)} support vectors; "
        + (f"{min(enough)} vectors suffice ({share:.1f} %)" if enough else "100 vectors do not suffice"),
    }


def at_two_per_cent(name: str, rows: int, seeds: int, found: dict[str, Any]) -> dict[str, Any]:
    """The error of CompactSVC with 2 % of the exact SVM's vectors, with the settings that were chosen."""
    m = max(1, int(0.02 * found["n_support"]))
    C, g = found["settings"][0 if m <= 20 else 1]
    parts = subset(task(name, 0), rows)
    errors = [error(CompactSVC(m, C=C, gamma=g, random_state=s), parts) for s in range(seeds)]
    return {"ours": float(np.mean(errors)), "peer": found["peer"], "note": f"{m} vectors for {found['n_support']}"}


def _short(errors: dict[str, float]) -> str:
    return ", ".join(f"{m}: {value:.2f}" for m, value in errors.items())


def main() -> int:
    run = Run(
        "flagship_sizes", "Errors with 50 vectors (ours) and of the exact SVC (peer)", quick_minutes=5, full_minutes=50
    )
    rows, seeds = (2000, 1) if run.quick else (ROWS, 2)
    params = {"rows": rows, "seeds": seeds}
    found = [run.row(name, {"set": name} | params, partial(measure, name, rows, seeds), unit="%") for name in SETS]
    done = [values for values in found if values is not None]
    small = 0
    for name, values in zip(SETS, found, strict=True):
        if values is not None:
            compare = partial(at_two_per_cent, name, rows, seeds, values)
            of = {"set": name, "n_support": values["n_support"]} | params
            there = run.row(f"{name}, with 2 % of its vectors", of, compare, not_worse(0.3, "peer"), unit="%")
            small += there is not None and there["ours"] <= there["peer"] + 0.3
    run.failed.clear()  # single sets may miss; what counts is their number
    if len(done) == len(SETS):
        counts = {
            "SpSVC with 4m matched by m, of 30": (sum(v["four"] for v in done), 27),
            "SpSVC with 8m matched by m, of 30": (sum(v["eight"] for v in done), 18),
            "exact + 0.3 points with 2 % of vectors": (small, 6),
        }
        for name, (count, least) in counts.items():
            run.row(name, params | {"count": count}, lambda count=count: {"ours": count}, at_least(least))  # type: ignore[misc]
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
