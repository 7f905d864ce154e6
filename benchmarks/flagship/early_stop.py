"""How far refinement should go on small sets, and how far it goes: test error after 0, 3, 10, 30, 100 iterations.

    python -m benchmarks.flagship.early_stop [--quick] [--fresh] [--only TEXT]

Means over splits of sets of at most 2,000 rows (per cent; for regression the share of variance left, in per cent), with
one width per feature.  The first columns descend for so many iterations without looking at held-out rows
(`validation_fraction=0`); "ard" stops by itself where the loss of held-out rows is lowest, and "default" may go on with
a linear map.  The default is to be within one standard error (of its difference over the splits) of the best column,
which is chosen by test rows afterwards, and so is a little better than anyone could do.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Run, Target
from benchmarks.tasks import REGRESSION, small_task
from kompakt import CompactSVC, CompactSVR, Refinement

#: set, number of vectors, C
SETS: list[tuple[str, int, float]] = [
    ("boston", 30, 100.0),
    ("concrete", 50, 100.0),
    ("ida_german", 20, 1.0),
    ("ida_heart", 20, 1.0),
    ("ida_breast_cancer", 20, 1.0),
    ("ida_diabetis", 20, 1.0),
    ("ida_thyroid", 10, 10.0),
    ("ida_banana", 20, 1.0),
    ("ida_waveform", 20, 1.0),
    ("ida_splice", 40, 1.0),
    ("ida_image", 40, 10.0),
]
ITERATIONS = (0, 3, 10, 30, 100)


def measure(name: str, n_basis: int, C: float, splits: int) -> dict[str, Any]:
    columns: dict[str, dict[str, Any]] = {"0": {"refine": False, "gamma": "scale"}}
    for count in ITERATIONS[1:]:
        columns[str(count)] = {"gamma": "ard", "refine": Refinement(count), "validation_fraction": 0.0}
    columns |= {"ard": {"gamma": "ard"}, "default": {}}
    table: dict[str, list[float]] = {column: [] for column in columns}
    for split in range(splits):
        X, y, Xt, yt = small_task(name, split)
        regression = name in REGRESSION
        if regression:
            mean, deviation = float(np.mean(y)), float(np.std(y))
            y, yt = (y - mean) / deviation, (yt - mean) / deviation
        for column, setting in columns.items():
            machine = (CompactSVR if regression else CompactSVC)(n_basis, C=C, random_state=split, **setting).fit(X, y)
            wrong = (machine.predict(Xt) - yt) ** 2 if regression else machine.predict(Xt) != yt
            table[column].append(100 * float(np.mean(wrong)))
    means = {column: float(np.mean(errors)) for column, errors in table.items()}
    best = min(columns, key=lambda column: means[column] if column.isdigit() else np.inf)
    gaps = np.array(table["default"]) - np.array(table[best])
    return {
        "ours": means["default"],
        "peer": means[best],
        "standard_error": float(np.std(gaps, ddof=1) / np.sqrt(splits)) if splits > 1 else 0.0,
        "errors": table,
        "note": ", ".join(f"{column}: {error:.3g}" for column, error in means.items()),
    }


def main() -> int:
    run = Run("flagship_early_stop", "Test error by the length of refinement", quick_minutes=5, full_minutes=20)
    within = Target("best + 1 SE", lambda row: row["ours"] <= row["peer"] + row["standard_error"])
    splits = 5 if run.quick else 20
    for name, n_basis, C in SETS:
        params = {"splits": splits, "C": C}
        run.row(f"{name}, {n_basis} vectors", params, partial(measure, name, n_basis, C, splits), within, unit="%")
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
