"""Whether a change made fits slower: processor time of an older checkout against this one, runs alternating.

    git worktree add ../older COMMIT
    python -m benchmarks.before_after ../older [--quick] [--only TEXT]

Each checkout has a process of its own, with its own `src` first on the path; both use the packages of this
environment. A row is a fit of `benchmarks.golden`, or one of the larger ones below; its ratio is the median over rounds
of new / old. Wanted: at most 1.05 in the geometric mean, no fit above 1.15.
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
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent


def larger() -> dict[str, Any]:
    """Fits of some tenths of a second."""
    import kompakt as k

    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 12))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype(int)
    many = (np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-1.0, 0.0, 1.0])).astype(int)
    t = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(20_000)
    # the older commit may have the iterations of refinement as a parameter of their own
    short: dict[str, Any] = {"refine": k.Refinement(20)} if "Refinement" in k.__all__ else {"refine_iter": 20}
    return {
        "CompactSVC, 20,000 rows": lambda: k.CompactSVC(40, **short, random_state=0).fit(X, y),
        "CompactSVC plain, 20,000 rows": lambda: k.CompactSVC(100, refine=False, random_state=0).fit(X, y),
        "CompactSVC plain, 4 classes, 20,000 rows": lambda: k.CompactSVC(60, refine=False, random_state=0).fit(X, many),
        "CompactSVR, 20,000 rows": lambda: k.CompactSVR(40, **short, random_state=0).fit(X, t),
        "FixedSizeLSSVC tuned, 4,000 rows": lambda: k.FixedSizeLSSVC(
            60, tune=True, gamma="scale", selection="renyi", random_state=0
        ).fit(X[:4000], y[:4000]),
        "SpSVC, 10,000 rows": lambda: k.SpSVC(60, C=1.0, gamma="scale", random_state=0).fit(X[:10_000], y[:10_000]),
        "FEESVC, 2,000 rows": lambda: k.FEESVC(
            40, C=1.0, gamma="scale", validation_fraction=0.2, refit=False, random_state=0
        ).fit(X[:2000], y[:2000]),
        "ProjectedSVC, 4,000 rows": lambda: k.ProjectedSVC(
            60, C=1.0, gamma="scale", two_pass=False, random_state=0
        ).fit(X[:4000], y[:4000]),
    }


def worker() -> None:
    """Fit what is named on standard input, and answer with the processor seconds."""
    from benchmarks import golden

    fits = larger()
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        name = json.loads(line)
        began = time.process_time()
        if name in fits:
            fits[name]()
        else:
            data, make = golden.FITS[name]
            estimator, (X, y) = make().set_params(random_state=0), data()
            began = time.process_time()
            estimator.fit(X, y)
        print(json.dumps(time.process_time() - began), flush=True)


class Checkout:
    """A process that fits with the code of one checkout."""

    def __init__(self, tree: Path) -> None:
        # the older checkout lacks this script: it is run from here, with the other tree's code first on the path
        command = [sys.executable, str(Path(__file__).resolve()), "--worker"]
        path = os.pathsep.join([str(tree / "src"), str(tree)])
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=tree,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"},
        )

    def seconds(self, name: str) -> float:
        """Processor seconds of one fit."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(name) + "\n")
        self.process.stdin.flush()
        return float(json.loads(self.process.stdout.readline()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("older", nargs="?", type=Path, help="a checkout of the older commit")
    parser.add_argument("--quick", action="store_true", help="three rounds, the larger fits alone")
    parser.add_argument("--only", default="", help="fits whose name holds this text")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker()
        return 0
    if arguments.older is None:
        parser.error("name a checkout of the older commit")
    from benchmarks import golden

    old, new = Checkout(arguments.older.resolve()), Checkout(ROOT)
    names = [*([] if arguments.quick else golden.FITS), *larger()]
    ratios: dict[str, float] = {}
    for name in (name for name in names if arguments.only in name):
        old.seconds(name), new.seconds(name)  # warm
        rounds = []
        for number in range(3 if arguments.quick else 7):
            first, second = (old, new) if number % 2 else (new, old)
            times = {id(one): one.seconds(name) for one in (first, second)}
            rounds.append((times[id(old)], times[id(new)]))
        ratios[name] = statistics.median(after / max(before, 1e-9) for before, after in rounds)
        before, after = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name:42s} {before:8.3f} s -> {after:8.3f} s  {ratios[name]:5.2f}x", flush=True)
    mean = float(np.exp(np.mean(np.log(list(ratios.values())))))
    worst = max(ratios, key=lambda name: ratios[name])
    print(f"geometric mean {mean:.2f}x (<= 1.05); worst {ratios[worst]:.2f}x (<= 1.15): {worst}")
    return 0 if mean <= 1.05 and ratios[worst] <= 1.15 else 1


if __name__ == "__main__":
    sys.exit(main())
