"""kompakt and its peers on the same splits: fit time, number of vectors, prediction time, test error.

    python -m benchmarks.peers.pareto [--quick] [--fresh] [--only TEXT]

Every contender is tuned by the same grid (three C, three widths; refined machines learn their metric, so they try the
three C alone; networks three penalties and two rates) by the mean error on three quarters of at most 8,000 training
rows, each held out in turn.
Contenders alternate.  For each set the script prints every point, says which points of approximate peers no kompakt
point with at most 200 vectors dominates (no worse in size, fit time and error, better in one), and draws the front
into benchmarks/results/ where matplotlib is installed.  Exact SVMs run on at most 30,000 rows unless a set is smaller.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from benchmarks.harness import RESULTS, Run, Target, at_least
from benchmarks.peers.contenders import APPROXIMATE, CONTENDERS, Point, fitted_point, foreign_point
from benchmarks.tasks import Task, subset, task
from kompakt import Refinement

SETS = ("magic", "letter A-M/N-Z", "ijcnn1", "a9a", "spambase", "shuttle 1/rest", "cod_rna", "pendigits", "satimage")
COSTS = (1.0, 10.0, 100.0)
#: parameters of the points of each contender
POINTS: dict[str, list[dict[str, Any]]] = {
    "kompakt": [
        *(
            {"n_basis": m, "refine": Refinement(it)}
            for m, it in ((5, 10), (10, 10), (10, 40), (20, 20), (35, 10), (50, 5), (50, 20), (50, 100))
        ),
        *({"n_basis": m} for m in (100, 200)),
    ],
    "kompakt, rows only": [{"n_basis": m} for m in (20, 35, 50, 70, 100, 140, 200)],
    "kompakt, rows only, least squares": [{"n_basis": m} for m in (20, 35, 50, 70, 100, 140, 200)],
    "Nystroem + LinearSVC": [{"n_components": m} for m in (50, 100, 200, 500)],
    "RBFSampler + LinearSVC": [{"n_components": m} for m in (50, 100, 200, 500)],
    "HistGradientBoosting": [{}],
    "network": [{"units": units} for units in (20, 50, 200)],
    "SVC": [{}],
}
TUNED_AT: dict[str, dict[str, Any]] = {
    "kompakt": {"n_basis": 50, "refine": Refinement(40)},
    "kompakt, rows only": {"n_basis": 100},
    "kompakt, rows only, least squares": {"n_basis": 100},
    "Nystroem + LinearSVC": {"n_components": 200},
    "RBFSampler + LinearSVC": {"n_components": 200},
    "network": {"units": 50},
    "SVC": {},
}
EXACT_ROWS = 30_000


def tuned(name: str, parts: Task) -> tuple[float, Any]:
    """(C, gamma) with the smallest mean error on three held-out quarters of at most 8,000 training rows."""
    X, y, _, _ = subset(parts, 8000)
    folds = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y))[:3]
    scale = 1.0 / (X.shape[1] * float(X.var()))
    widths: tuple[Any, ...] = (None,) if name == "kompakt" else (0.25 * scale, scale, 4 * scale)
    grid = list(product(COSTS, widths))
    if name == "network":  # penalties, and rates of learning in the place of widths
        grid = list(product((1.0, 100.0, 10_000.0), (1e-3, 5e-3)))
    errors = [
        np.mean([fitted_point(name, TUNED_AT[name], *setting, (X[a], y[a], X[b], y[b]), 0).error for a, b in folds])
        for setting in grid
    ]
    return grid[int(np.argmin(errors))]


def points_of(name: str, quick: bool) -> dict[str, Any]:
    """All points of a set, contenders alternating."""
    parts = subset(task(name, 0), 4000) if quick else task(name, 0)
    settings = {key: (1.0, 1.0) if key == "HistGradientBoosting" else tuned(key, parts) for key in CONTENDERS}
    points: list[Point] = []
    longest = max(len(POINTS[key]) for key in POINTS)
    for turn in range(longest):
        for key, all_params in POINTS.items():
            if turn >= len(all_params):
                continue
            C, gamma = settings[key]
            rows = subset(parts, EXACT_ROWS) if key == "SVC" else parts
            points.append(fitted_point(key, all_params[turn], C, gamma, rows, 0))
    notes = []
    for library in ("intelex", "thundersvm", "xrfm"):
        C, gamma = settings["SVC"]
        found = foreign_point(library, C, gamma, subset(parts, EXACT_ROWS), timeout=300)
        if isinstance(found, Point):
            points.append(found)
        else:
            notes.append(found)
    return verdict(points) | {"settings": {k: str(v) for k, v in settings.items()}, "notes": notes}


def verdict(points: list[Point]) -> dict[str, Any]:
    """Which approximate peers' points are not dominated."""
    ours = [p for p in points if p.contender.startswith("kompakt") and p.size <= 200]
    peers = [p for p in points if p.contender.startswith(APPROXIMATE)]
    open_points = [p.contender for p in peers if not any(mine.dominates(p) for mine in ours)]
    return {
        "ours": float(len(peers) - len(open_points)),
        "peer": float(len(peers)),
        "open": open_points,
        "points": [asdict(p) for p in points],
        "note": "all dominated" if not open_points else f"not dominated: {'; '.join(open_points)}",
    }


def show(name: str, values: dict[str, Any]) -> None:
    """Print every point of a set, and draw fit time and size against error."""
    for point in sorted(values["points"], key=lambda p: p["error"]):
        print(
            f"    {point['contender']:<44} {point['size']:>7.0f} vectors  fit {point['fit']:>8.2f} s  "
            f"predict {point['predict']:>8.2f} us/row  error {point['error']:>6.2f} %"
        )
    for note in values["notes"]:
        print(f"    {note}")
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    families = sorted({p["contender"].split("(")[0] for p in values["points"]})
    for family in families:
        own = [p for p in values["points"] if p["contender"].split("(")[0] == family]
        axes[0].plot([p["fit"] for p in own], [p["error"] for p in own], "o", label=family)
        axes[1].plot([p["size"] for p in own], [p["error"] for p in own], "o", label=family)
    for axis, label in zip(axes, ("fit time (s)", "vectors"), strict=True):
        axis.set(xscale="log", xlabel=label)
    axes[0].set_ylabel("test error (%)")
    axes[0].legend(fontsize="small")
    figure.suptitle(name)
    RESULTS.mkdir(parents=True, exist_ok=True)
    figure.savefig(RESULTS / f"pareto_{name.replace('/', '-').replace(' ', '_')}.png", dpi=120)
    plt.close(figure)


def main() -> int:
    run = Run("peers_pareto", "Points of approximate peers dominated by kompakt", quick_minutes=4, full_minutes=20)
    complete = Target("all", lambda values: not values["open"])
    won = 0
    for name in SETS:
        values = run.row(name, {"set": name, "held_out": 3}, partial(points_of, name, run.quick), complete)
        if values is not None:
            show(name, values)
            won += not values["open"]
    run.failed.clear()  # a single set may keep an open point; what counts is their number
    if not run.options.only:
        run.row("sets with every point dominated", {"won": won}, lambda: {"ours": float(won)}, at_least(6))
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
