"""What the kernel's metric is worth: one width, one per feature, a full map, and what the default makes of them.

    python -m benchmarks.flagship.metric [--quick] [--fresh] [--only TEXT] [--old ../older]

Test errors (per cent; for regression the share of variance left, in per cent) with the same C, rows and number of
vectors, inputs standardised; means of three seeds.  Noise is one standard error of the test rows.  The default is to be
within that of the best of the three; nothing is chosen by test rows.  With `--old`, the default of an older checkout is
a column, too, fitted in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, Run, Target
from benchmarks.tasks import REGRESSION, small_task, subset, task
from kompakt import CompactSVC, CompactSVR

#: set, number of vectors, C
SETS: list[tuple[str, int, float]] = [
    ("boston", 30, 100.0),
    ("concrete", 50, 100.0),
    ("california", 60, 10.0),
    ("magic", 20, 10.0),
    ("letter A-M/N-Z", 40, 10.0),
    ("letter", 60, 10.0),
    ("ijcnn1", 20, 10.0),
    ("spambase", 10, 1.0),
    ("shuttle 1/rest", 20, 10.0),
    ("cod_rna", 40, 10.0),
    ("pendigits", 50, 1.0),
    ("satimage", 50, 1.0),
    ("optdigits", 50, 1.0),
    ("covtype", 50, 10.0),
    ("a9a", 20, 1.0),
    ("ida_image", 40, 10.0),
    ("ida_splice", 40, 1.0),
    ("ida_banana", 30, 1.0),
    ("ida_waveform", 20, 1.0),
    ("ida_german", 20, 1.0),
    ("ida_diabetis", 20, 1.0),
    ("ida_ringnorm", 20, 1.0),
]
SEEDS = 3
METRICS: dict[str, Any] = {"one": "learn", "each": "ard", "full": "full", "default": None}


def fitted(
    name: str, n_basis: int, C: float, rows: int, gamma: Any, seeds: int = SEEDS
) -> tuple[float, float, float, str]:
    """Mean error and its noise, processor seconds of a fit, and the metrics chosen."""
    X, y, Xt, yt = small_task(name, 0) if name.startswith("ida_") else subset(task(name, 0), rows)
    Xt, yt = Xt[:20_000], yt[:20_000]
    regression = name in REGRESSION
    if regression:
        mean, deviation = float(np.mean(y)), float(np.std(y))
        y, yt = (y - mean) / deviation, (yt - mean) / deviation
    wrong, chosen = np.zeros(len(yt)), []
    began = time.process_time()
    for seed in range(seeds):
        machine = (CompactSVR if regression else CompactSVC)(n_basis, C=C, gamma=gamma, random_state=seed).fit(X, y)
        chosen.append(str(machine.refinement_.get("metric", "start")))
        found = machine.predict(Xt)
        wrong += ((found - yt) ** 2 if regression else (found != yt)) / seeds
    noise = 100 * float(np.std(wrong)) / np.sqrt(len(wrong))
    return 100 * float(np.mean(wrong)), noise, (time.process_time() - began) / seeds, "/".join(chosen)


def measure(name: str, n_basis: int, C: float, rows: int, old: Path | None) -> dict[str, Any]:
    found = {metric: fitted(name, n_basis, C, rows, gamma) for metric, gamma in METRICS.items()}
    three = [found[metric] for metric in ("one", "each", "full")]
    values: dict[str, Any] = {
        "ours": found["default"][0],
        "peer": min(error for error, *_ in three),
        "standard_error": max(noise for _, noise, *_ in three),
        "errors": {metric: error for metric, (error, *_) in found.items()},
        "chosen": found["default"][3],
    }
    if old is not None:
        code = "import json, sys; from benchmarks.flagship.metric import fitted; "
        code += "print(json.dumps(fitted(*json.loads(sys.argv[1]), None)))"
        path = os.pathsep.join([str(old.resolve() / "src"), str(ROOT)])
        command = [sys.executable, "-W", "ignore", "-c", code, json.dumps([name, n_basis, C, rows])]
        answer = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path}, cwd=ROOT, check=True, capture_output=True, text=True
        )
        found["old"] = tuple(json.loads(answer.stdout))
        values["old"] = found["old"][0]
    shown = ", ".join(f"{metric} {error:.3g}" for metric, (error, *_) in found.items())
    took = ", ".join(f"{seconds:.1f}" for _, _, seconds, _ in found.values())
    note = f"{shown} (chosen: {values['chosen']}); standard error {values['standard_error']:.2g}; CPU seconds {took}"
    return values | {"note": note}


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--old", type=Path, default=None)
    options, rest = parser.parse_known_args()
    run = Run("flagship_metric", "Test error by the kernel's metric", quick_minutes=4, full_minutes=15, argv=rest)
    within = Target("best + 1 SE", lambda row: row["ours"] <= row["peer"] + row["standard_error"])
    rows = 1000 if run.quick else 6000
    done = []
    for name, n_basis, C in SETS:
        if run.quick and name in ("letter", "covtype"):
            continue
        of = partial(measure, name, n_basis, C, rows, options.old)
        params = {"rows": rows, "C": C, "seeds": SEEDS, "old": options.old is not None}
        values = run.row(f"{name}, {n_basis} vectors", params, of, within, "%")
        done += [] if values is None else [values]
    held = sum(within.holds(values) for values in done)
    print(f"the default is within one standard error of the best of the three on {held} of {len(done)} sets")
    if options.old is not None:
        gains = [(row["old"] - row["ours"]) / row["standard_error"] for row in done]
        better, worse = sum(gain > 1 for gain in gains), sum(gain < -1 for gain in gains)
        print(f"against the old default: lower by more than that on {better}, higher on {worse}")
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
