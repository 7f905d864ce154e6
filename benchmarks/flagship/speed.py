"""Fits that were slow: processor time of an older checkout ("peer") and of this one ("ours"), runs alternating.

    git worktree add ../older COMMIT
    python -m benchmarks.flagship.speed --old ../older [--large] [--quick] [--fresh] [--only TEXT]

Each checkout has a process of its own, with its own `src` first on the path.  A row is the median over rounds; its note
has the ratio new / old, the median of the paired ratios, and the test errors.  Compilation and imports are nobody's
cost: each process runs a small fit first.  Two rows are ratios instead: "both cores" is processor time over time on
the clock with nothing else to do, "beside other work" is time on the clock over processor time while eight other
processes are busy, with that of a single-threaded SVC as the peer.  Without `--old` only the new column is measured.
`--large` adds MNIST and covtype, one run each: the older checkout may take half an hour for one of them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
BUSY = 8


# ------------------------------------------------------------------------------------------- what is timed


def letter() -> tuple[Any, ...]:
    from benchmarks.harness import load_data

    parts = load_data("letter")
    X, Xt = parts["X_train"].astype(float), parts["X_test"].astype(float)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    return (X - mean) / deviation, parts["y_train"], (Xt - mean) / deviation, parts["y_test"]


def breast_cancer() -> tuple[Any, ...]:
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    X, y = load_breast_cancer(return_X_y=True)
    A, B, a, b = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    mean, deviation = A.mean(axis=0), A.std(axis=0)
    return (A - mean) / deviation, a, (B - mean) / deviation, b


def wide() -> tuple[Any, ...]:
    """208 rows of 60 features, 145 of them to train on."""
    from sklearn.datasets import make_classification

    X, y = make_classification(208, 60, n_informative=12, random_state=0)
    return X[:145], y[:145], X[145:], y[145:]


def curve(n_rows: int, n_features: int = 10) -> tuple[Any, ...]:
    """Rows of the generated regression with some noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows + 2000, n_features))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * X[:, 3] ** 2 + 0.2 * rng.standard_normal(len(X))
    y = (y - y.mean()) / y.std()
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def generated() -> tuple[Any, ...]:
    from benchmarks.flagship.regression import scaled
    from benchmarks.tasks import task

    return scaled(task("generated", 0))


def whole(name: str) -> tuple[Any, ...]:
    from benchmarks.tasks import task

    return task(name, 0)


def halves(n_rows: int) -> tuple[Any, ...]:
    X, y, Xt, yt = curve(n_rows, 20)
    return X, y > 0, Xt, yt > 0


def fits() -> dict[str, tuple[Callable[[], tuple[Any, ...]], Callable[[], Any], float | None]]:
    """By name: rows, estimator, and the processor seconds that are wanted."""
    import kompakt as k

    return {
        "letter, 26 classes, 80 vectors": (letter, lambda: k.CompactSVC(80, C=10, random_state=0), 10.0),
        "CompactSVC(100), 398 x 30": (breast_cancer, lambda: k.CompactSVC(100, random_state=0), 0.15),
        "CompactSVC(100) tuned, 398 x 30": (breast_cancer, lambda: k.CompactSVC(100, tune=True, random_state=0), 1.0),
        "CompactSVC auto tuned, 398 x 30": (
            breast_cancer,
            lambda: k.CompactSVC("auto", tune=True, random_state=0),
            1.0,
        ),
        "SpSVC tuned, 145 x 60": (wide, lambda: k.SpSVC(tune=True, random_state=0), 2.0),
        "FixedSizeLSSVR absolute, tuned, 4,000 rows": (
            partial(curve, 4000),
            lambda: k.FixedSizeLSSVR(tune=True, loss="absolute", random_state=0),
            4.0,
        ),
        "CompactSVR(100), 100,000 rows": (generated, lambda: k.CompactSVR(100, random_state=0), 2.5),
        "two classes, 200 vectors": (
            partial(halves, 20_000),
            lambda: k.CompactSVC(200, refine=k.Refinement(20), random_state=0),
            None,
        ),
        # two minutes and four on two cores
        "MNIST, 500 vectors": (partial(whole, "mnist"), lambda: k.CompactSVC(500, C=10, random_state=0), 240.0),
        "covtype, 1,000 vectors": (
            partial(whole, "covtype"),
            lambda: k.CompactSVC(1000, C=10, gamma="ard", selection="random", refine=k.Refinement(60), random_state=0),
            480.0,
        ),
    }


#: rows that are measured with `--large` only
LARGE = ("MNIST, 500 vectors", "covtype, 1,000 vectors")


def one_row() -> dict[str, float]:
    """Microseconds of `Model.predict` for one row with 200 vectors: short windows, the best of many."""
    import kompakt as k

    X, y, Xt, _ = halves(2000)
    model = k.CompactSVC(200, refine=k.Refinement(3), random_state=0).fit(X, y).model_
    row = Xt[:1].copy()
    best = float("inf")
    for _ in range(3000):
        began = time.perf_counter()
        for _ in range(10):
            model.predict(row)
        best = min(best, (time.perf_counter() - began) / 10)
    return {"cpu": 1e6 * best, "wall": 1e6 * best, "error": 0.0}


def timed_fit(name: str) -> dict[str, float]:
    rows, make, _ = fits()[name]
    X, y, Xt, yt = rows()
    machine, began, clock = make(), time.process_time(), time.perf_counter()
    machine.fit(X, y)
    spent = {"cpu": time.process_time() - began, "wall": time.perf_counter() - clock}
    found = machine.predict(Xt)
    wrong = np.mean(found != yt) if hasattr(machine, "classes_") else np.mean((found - yt) ** 2)
    return {**spent, "error": float(wrong)}


def svc_fit() -> dict[str, float]:
    """A single-threaded peer."""
    from sklearn.svm import SVC

    X, y, _, _ = halves(4000)
    began, clock = time.process_time(), time.perf_counter()
    SVC(C=10).fit(X, y)
    return {"cpu": time.process_time() - began, "wall": time.perf_counter() - clock, "error": 0.0}


def worker() -> None:
    """Answer names on standard input with what the fit took."""
    warnings.simplefilter("ignore")
    special = {"one row": one_row, "SVC": svc_fit}
    timed_fit("CompactSVC(100), 398 x 30")
    for line in sys.stdin:
        name = json.loads(line)
        print("\x02" + json.dumps(special[name]() if name in special else timed_fit(name)), flush=True)


# ------------------------------------------------------------------------------------------------- the run


class Checkout:
    """A process that fits with the code of one checkout."""

    def __init__(self, tree: Path) -> None:
        path = os.pathsep.join([str(tree / "src"), str(ROOT)])
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
        )

    def fit(self, name: str) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(name) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("\x02"):
                return dict(json.loads(line[1:]))
        raise RuntimeError(f"the process of a checkout ended during {name!r}; its message is above.")

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def alternating(trees: dict[str, Path], name: str, rounds: int) -> dict[str, list[dict[str, float]]]:
    contenders = {key: Checkout(tree) for key, tree in trees.items()}
    found: dict[str, list[dict[str, float]]] = {key: [] for key in trees}
    try:
        for turn in range(rounds):
            order = list(contenders)
            for key in order if turn % 2 == 0 else order[::-1]:
                found[key].append(contenders[key].fit(name))
    finally:
        for contender in contenders.values():
            contender.close()
    return found


def median(runs: list[dict[str, float]], of: Callable[[dict[str, float]], float]) -> float:
    return statistics.median(of(run) for run in runs)


def measure(
    trees: dict[str, Path], name: str, rounds: int, of: Callable[[dict[str, float]], float] = lambda run: run["cpu"]
) -> dict[str, Any]:
    found = alternating(trees, name, rounds)
    values: dict[str, Any] = {"ours": median(found["new"], of), "runs": found}
    note = f"error {median(found['new'], lambda run: run['error']):.4g}"
    if "old" in found:
        ratio = statistics.median(of(new) / of(old) for new, old in zip(found["new"], found["old"], strict=True))
        values |= {"peer": median(found["old"], of), "ratio": ratio}
        note = f"new / old {ratio:.2f}, {note}, old {median(found['old'], lambda run: run['error']):.4g}"
    return values | {"note": note}


def beside_others(trees: dict[str, Path], rounds: int) -> dict[str, Any]:
    """Time on the clock over processor time while others are busy: ours, and a single-threaded SVC's."""
    spin = "while True: sum(range(10 ** 5))"
    others = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(BUSY)]
    try:
        ours = alternating(trees, "two classes, 200 vectors", rounds)
        peer = alternating({"new": trees["new"]}, "SVC", rounds)["new"]
    finally:
        for other in others:
            other.kill()
            other.wait()
    ratios = {key: median(runs, lambda run: run["wall"] / run["cpu"]) for key, runs in ours.items()}
    single = median(peer, lambda run: run["wall"] / run["cpu"])
    old = f", old {ratios['old']:.1f}" if "old" in ratios else ""
    return {"ours": ratios["new"], "peer": single, "note": f"peer: SVC{old}"}


def main() -> int:
    from benchmarks.harness import Run, Target, at_least, at_most

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--old", type=Path, default=None)
    parser.add_argument("--large", action="store_true")
    options, rest = parser.parse_known_args()
    run = Run("flagship_speed", "Processor time, old and new", quick_minutes=3, full_minutes=25, argv=rest)
    trees = {"new": ROOT} if options.old is None else {"old": options.old.resolve(), "new": ROOT}
    rounds, params = (1 if run.quick else 3), {"old": options.old is not None}
    for name, (_, _, wanted) in fits().items():
        if wanted is None or (run.quick and name.startswith("letter")) or (name in LARGE and not options.large):
            continue
        times = 1 if name in LARGE else rounds
        run.row(name, params, partial(measure, trees, name, times), at_most(wanted), unit="s")
    run.row("one row, Model.predict", params, partial(measure, trees, "one row", rounds), at_most(60.0), unit="us")
    both = partial(measure, trees, "two classes, 200 vectors", rounds, lambda taken: taken["cpu"] / taken["wall"])
    run.row("both cores, 200 vectors", params, both, at_least(1.75))
    near = Target("<= 1.5 x peer", lambda values: values["ours"] <= 1.5 * values["peer"])
    run.row("beside other work, 200 vectors", params, partial(beside_others, trees, rounds), near)
    return run.finish()


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        worker()
    else:
        sys.exit(main())
