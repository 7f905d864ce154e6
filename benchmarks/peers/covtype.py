"""Covertype (class 2 against rest, 523,000 training rows): kompakt on all rows against exact and approximate peers.

    python -m benchmarks.peers.covtype [--quick] [--fresh]

Asked: an error below that of Nystroem(1000) + LinearSVC, in less time than scikit-learn-intelex's exact SVC takes on
100,000 rows.  kompakt is `CompactSVC(n_basis=VECTORS, C=10, gamma="ard")`, fixed beforehand; the peers' width is the
best of three on 20,000 training rows (a quarter of them held out), their C is 10.  LinearSVC copies its 1,000 features
per row three times over, so it sees 150,000 of the rows.  The exact SVC runs in a process of its own.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from benchmarks.harness import Run, Target
from benchmarks.peers.contenders import Point, foreign_point
from benchmarks.tasks import Task, subset, task
from kompakt import CompactSVC

VECTORS, C = 100, 10.0
LINEAR_ROWS, EXACT_ROWS = 150_000, 100_000


def nystroem(n_components: int, gamma: float) -> Any:
    return make_pipeline(
        Nystroem(gamma=gamma, n_components=n_components, random_state=0), LinearSVC(C=C / 2, dual=False)
    )


def chosen_width(parts: Task) -> float:
    """The best of three widths on a quarter of 20,000 training rows."""
    X, y, _, _ = subset(parts, 20_000)
    A, B, ya, yb = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    scale = 1.0 / (X.shape[1] * float(X.var()))
    widths = [scale, 4 * scale, 16 * scale]
    return widths[int(np.argmax([nystroem(300, gamma).fit(A, ya).score(B, yb) for gamma in widths]))]


def fitted(machine: Any, parts: Task) -> dict[str, float]:
    X, y, Xt, yt = parts
    began = time.perf_counter()
    machine.fit(X, y)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "error": 100 * (1 - machine.score(Xt, yt))}


def measure(quick: bool) -> dict[str, Any]:
    everything = task("covtype", 0)
    if quick:
        everything = subset(everything, 20_000)
    share = 0.1 if quick else 1.0
    gamma = chosen_width(everything)
    ours = fitted(CompactSVC(VECTORS, C=C, gamma="ard", random_state=0), everything)
    exact = foreign_point("intelex", C, gamma, subset(everything, int(share * EXACT_ROWS)), timeout=1800)
    peer = fitted(nystroem(200 if quick else 1000, gamma), subset(everything, int(share * LINEAR_ROWS)))
    there = (exact.fit, exact.error) if isinstance(exact, Point) else (float("nan"), float("nan"))
    return {
        "ours": ours["error"],
        "peer": peer["error"],
        "kompakt": ours,
        "nystroem": peer,
        "exact_seconds": there[0],
        "note": f"fit {ours['seconds']:.0f} s on {len(everything[0])} rows; Nystroem + linear {peer['seconds']:.0f} s; "
        + (f"exact SVC {there[0]:.0f} s, {there[1]:.2f} %" if isinstance(exact, Point) else exact)
        + f"; width {gamma:.3g}",
    }


def main() -> int:
    run = Run("peers_covtype", f"Covertype: CompactSVC({VECTORS}) on all rows (ours)", quick_minutes=1, full_minutes=25)
    wanted = Target("< peer, faster", lambda v: v["ours"] < v["peer"] and v["kompakt"]["seconds"] < v["exact_seconds"])
    run.row("covtype", {"n_basis": VECTORS, "C": C}, partial(measure, run.quick), wanted, unit="%")
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
