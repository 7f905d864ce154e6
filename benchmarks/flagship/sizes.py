"""How many vectors CompactSVC needs against SpSVC and against the exact SVM, on ten public sets.

    python -m benchmarks.flagship.sizes [--quick] [--fresh] [--only TEXT]

Every machine is tuned on a quarter of the training rows (at most 8,000 of them): SpSVC and the exact SVC over four C
and three widths, CompactSVC over four C with learned widths.  Sets with more than 10,000 training rows are cut to
10,000 random ones for all machines alike.  Errors are on all test rows; CompactSVC and SpSVC: means of two seeds.

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

from benchmarks.harness import Run, at_least
from benchmarks.tasks import Task, subset, task
from kompakt import CompactSVC, SpSVC

SETS = (
    "magic", "letter A-M/N-Z", "ijcnn1", "a9a", "spambase", "shuttle 1/rest", "cod_rna", "pendigits", "satimage",
    "optdigits",
)  # fmt: skip
SIZES = (10, 20, 50)
MORE = (100,)  # only for the comparison with the exact SVM
COSTS = (1.0, 10.0, 100.0, 1000.0)
ROWS = 10_000


def error(machine: Any, parts: Task) -> float:
    X, y, Xt, yt = parts
    return 100 * float(np.mean(machine.fit(X, y).predict(Xt) != yt))


def best(make: Any, grid: list[Any], parts: Task) -> Any:
    """The point of a grid with the smallest error on a quarter of the training rows."""
    X, y, _, _ = subset(parts, 8000)
    A, B, ya, yb = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    return grid[int(np.argmin([error(make(*point), (A, ya, B, yb)) for point in grid]))]


def measure(name: str, rows: int, seeds: int) -> dict[str, Any]:
    parts = subset(task(name, 0), rows)
    X = parts[0]
    scale = 1.0 / (X.shape[1] * float(X.var()))
    widths = list(product(COSTS, (scale / 2, 2 * scale, 8 * scale)))
    C_svc, g_svc = best(lambda C, g: SVC(C=C, gamma=g, cache_size=500), widths, parts)
    C_sp, g_sp = best(lambda C, g: SpSVC(80, C=C, gamma=g, random_state=0), widths, parts)
    C_us, g_us = best(
        lambda C, g: CompactSVC(20, C=C, gamma=g, random_state=0), list(product(COSTS, ("ard", "learn"))), parts
    )
    greedy_sizes = sorted({k * m for m in SIZES for k in (4, 8)})
    greedy = {
        str(m): float(np.mean([error(SpSVC(m, C=C_sp, gamma=g_sp, random_state=s), parts) for s in range(seeds)]))
        for m in greedy_sizes
    }
    ours = {
        str(m): float(np.mean([error(CompactSVC(m, C=C_us, gamma=g_us, random_state=s), parts) for s in range(seeds)]))
        for m in SIZES + MORE
    }
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
        "note": f"ours {_short(ours)}; SpSVC {_short(greedy)}; exact {len(exact.support_)} support vectors; "
        + (f"{min(enough)} vectors suffice ({share:.1f} %)" if enough else "100 vectors do not suffice"),
    }


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
    if len(done) == len(SETS):
        counts = {
            "SpSVC with 4m matched by m, of 30": (sum(v["four"] for v in done), 27),
            "SpSVC with 8m matched by m, of 30": (sum(v["eight"] for v in done), 18),
            "exact + 0.3 points with 2 % of vectors": (sum((v["share"] or 100) <= 2 for v in done), 6),
        }
        for name, (count, least) in counts.items():
            run.row(name, params | {"count": count}, lambda count=count: {"ours": count}, at_least(least))  # type: ignore[misc]
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
