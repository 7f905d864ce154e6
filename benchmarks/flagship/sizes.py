"""How many vectors CompactSVC needs against SpSVC and against the exact SVM, on ten public sets.

    python -m benchmarks.flagship.sizes [--quick] [--fresh] [--only TEXT]

Every machine is tuned on training rows alone, by the mean error of three random quarters of at most 10,000 of them
(one quarter for the exact SVC): SpSVC (at 80 vectors) and the exact SVC over four C and three widths, CompactSVC (at 20
and at 50 vectors) over five C.  Sets with more than 30,000 training rows are cut to
30,000 random ones for all machines alike.  Errors are on all test rows; CompactSVC and SpSVC: means of two seeds.

Three questions are answered, with the number of cases in the last rows: is the error of SpSVC with 4m (8m) vectors
matched by m, for m = 10, 20, 50; is the error of the exact SVC plus 0.3 points reached with 1 % and with 2 % of its
support vectors; and how many vectors reach it.
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
ROWS = 30_000


def error(machine: Any, parts: Task) -> float:
    X, y, Xt, yt = parts
    return 100 * float(np.mean(machine.fit(X, y).predict(Xt) != yt))


def widths(parts: Task) -> list[tuple[float, float]]:
    """Four C and three widths around that of the variance."""
    scale = 1.0 / (parts[0].shape[1] * float(parts[0].var()))
    return list(product(COSTS, (scale / 2, 2 * scale, 8 * scale)))


def best(make: Any, grid: list[Any], parts: Task, n_splits: int = 3) -> Any:
    """The point of a grid with the smallest mean error on random quarters of the training rows."""
    X, y, _, _ = subset(parts, 10_000)
    total = np.zeros(len(grid))
    for split in range(n_splits):
        A, B, ya, yb = train_test_split(X, y, test_size=0.25, random_state=split, stratify=y)
        total += [error(make(*point), (A, ya, B, yb)) for point in grid]
    return grid[int(np.argmin(total))]


def exact(name: str, rows: int) -> dict[str, Any]:
    """The exact SVC, tuned on one random quarter."""
    parts = subset(task(name, 0), rows)
    C, gamma = best(lambda C, g: SVC(C=C, gamma=g, cache_size=500), widths(parts), parts, n_splits=1)
    machine = SVC(C=C, gamma=gamma, cache_size=1000)
    found = error(machine, parts)
    return {"ours": found, "n_support": len(machine.support_), "note": f"{len(machine.support_)} support vectors"}


def greedy(name: str, rows: int, seeds: int) -> dict[str, Any]:
    """SpSVC, tuned at 80 vectors."""
    parts = subset(task(name, 0), rows)
    C, gamma = best(lambda C, g: SpSVC(80, C=C, gamma=g, random_state=0), widths(parts), parts)
    errors = {
        str(m): float(np.mean([error(SpSVC(m, C=C, gamma=gamma, random_state=s), parts) for s in range(seeds)]))
        for m in sorted({k * m for m in SIZES for k in (4, 8)})
    }
    return {"ours": errors["400"], "by_size": errors, "note": _short(errors)}


def compact(name: str, rows: int, seeds: int, n_support: int, peer: float) -> dict[str, Any]:
    """CompactSVC at the sizes of the table and with 1 and 2 % of the exact SVC's vectors."""
    parts = subset(task(name, 0), rows)

    def chosen(size: int) -> Any:
        return best(lambda C: CompactSVC(size, C=C, random_state=0), [(C,) for C in (0.1, *COSTS)], parts)[0]

    at_20, at_50 = chosen(20), chosen(50)
    shares = {share: max(1, round(share * n_support / 100)) for share in (1, 2)}
    errors = {}
    for m in sorted({*SIZES, *MORE, *shares.values()}):
        C = at_20 if m <= 20 else at_50
        errors[m] = float(np.mean([error(CompactSVC(m, C=C, random_state=s), parts) for s in range(seeds)]))
    enough = [m for m, value in errors.items() if value <= peer + 0.3]
    return {
        "ours": errors[50],
        "peer": peer,
        "by_size": {str(m): errors[m] for m in SIZES + MORE},
        "at_share": {str(share): errors[m] for share, m in shares.items()},
        "share": 100 * min(enough) / n_support if enough else None,
        "C": [at_20, at_50],
        "note": _short({str(m): value for m, value in errors.items()})
        + (f"; {min(enough)} vectors suffice" if enough else ""),
    }


def _short(errors: dict[str, float]) -> str:
    return ", ".join(f"{m}: {value:.2f}" for m, value in errors.items())


def main() -> int:
    run = Run("flagship_sizes", "How many vectors are enough", quick_minutes=5, full_minutes=50)
    rows, seeds = (2000, 1) if run.quick else (ROWS, 2)
    params = {"rows": rows, "seeds": seeds}
    sums = {"4m": 0, "8m": 0, "1": 0, "2": 0}
    done = 0
    for name in SETS:
        svc = run.row(f"{name}: exact SVC", {"rows": rows}, partial(exact, name, rows), unit="%", always=True)
        sp = run.row(f"{name}: SpSVC", params, partial(greedy, name, rows, seeds), unit="%")
        if svc is None:
            continue
        measured = partial(compact, name, rows, seeds, svc["n_support"], svc["ours"])
        ours = run.row(f"{name}: CompactSVC", params, measured, unit="%")
        if ours is None or sp is None:
            continue
        done += 1
        for k in (4, 8):
            sums[f"{k}m"] += sum(ours["by_size"][str(m)] <= sp["by_size"][str(k * m)] for m in SIZES)
        for share in ("1", "2"):
            sums[share] += ours["at_share"][share] <= svc["ours"] + 0.3
    if done == len(SETS):
        counts = {
            "SpSVC with 4m matched by m, of 30": (sums["4m"], 27),
            "SpSVC with 8m matched by m, of 30": (sums["8m"], 18),
            "exact + 0.3 points with 1 % of vectors": (sums["1"], 7),
            "exact + 0.3 points with 2 % of vectors": (sums["2"], 6),
        }
        for name, (count, least) in counts.items():
            run.row(name, params | {"count": count}, lambda count=count: {"ours": count}, at_least(least))  # type: ignore[misc]
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
