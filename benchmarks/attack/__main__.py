"""Run the attacks for some minutes, and print a table of what came out.

    python -m benchmarks.attack --minutes 60          # goes on where the last run stopped
    python -m benchmarks.attack --rounds 10           # 1,000,000 files
    python -m benchmarks.attack --quick               # 5,000 files, some minutes
    python -m benchmarks.attack --minutes 5 --only "model files" writes
    python -m benchmarks.attack --case "CSV rows" 17  # one case again

Cases are numbered, and a number makes the same case again; numbers that are done are kept in
benchmarks/results/attack.json, so that runs add up. `--fresh` begins at number 0.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.attack.files import TARGETS, Found, damaged, fuzz
from benchmarks.attack.fits import ATTACKS, fits
from benchmarks.attack.writes import faulted

#: cases of every attack in one round of some two minutes; ten rounds are 1,000,000 files and 2,000 faulted writes
ROUND = {
    "model files": 30_000, "svmlight rows": 20_000, "CSV rows": 10_000, "LIBSVM models": 20_000, "range files": 10_000,
    "rows of commands": 3_000, "array files": 4_000, "Parquet rows": 4_000, "exports": 800, "checkpoints": 400,
    "numbers": 800, "writes": 240, "killed fits": 20, "Dask fits": 4,
}  # fmt: skip


def attack(name: str, start: int, stop: int) -> Found:
    """The cases start..stop of an attack."""
    if name in ATTACKS:
        return fits(name, start, stop)
    return faulted(start, stop) if name == "writes" else fuzz(TARGETS[name], start, stop)


def table(results: dict[str, Any]) -> str:
    """What came out so far."""
    lines = [f"{'attack':18} {'cases':>9} {'accepted':>9} {'failures':>8} {'slowest':>8} {'memory':>7}"]
    for name, found in results.items():
        lines.append(
            f"{name:18} {found['cases']:>9,} {found['accepted']:>9,} {len(found['failures']):>8} "
            f"{found['seconds']:>6.2f} s {found['megabytes']:>4.0f} MB"
        )
        lines += [f"    case {case}: {what}" for case, what in found["failures"][:10]]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, help="instead of minutes")
    parser.add_argument("--quick", action="store_true", help="one round, with a twentieth of its cases")
    parser.add_argument("--only", nargs="+", choices=list(ROUND), default=list(ROUND), metavar="ATTACK")
    parser.add_argument("--case", nargs=2, metavar=("ATTACK", "NUMBER"), help="run one case in this process")
    parser.add_argument("--fresh", action="store_true")
    kept = Path(__file__).resolve().parents[1] / "results" / "attack.json"
    parser.add_argument("--results", type=Path, default=kept)
    options = parser.parse_args()
    if options.case:
        name, number = options.case[0], int(options.case[1])
        if name not in TARGETS:
            print(table({name: vars(attack(name, number, number + 1))}))
            return 0
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"case{TARGETS[name].suffix}")
            path.write_bytes(damaged(TARGETS[name], number))
            TARGETS[name].read(str(path))
        return 0
    results: dict[str, Any] = {}
    if options.results.exists() and not options.fresh:
        results = json.loads(options.results.read_text())
    options.results.parent.mkdir(parents=True, exist_ok=True)
    most_rounds = 1 if options.quick else options.rounds
    until = time.monotonic() + (60 * options.minutes if most_rounds is None else math.inf)
    rounds = 0
    while time.monotonic() < until and rounds != most_rounds:
        rounds += 1
        for name in options.only:
            if time.monotonic() > until:
                break
            done = results.get(name, {"cases": 0, "accepted": 0, "failures": [], "seconds": 0.0, "megabytes": 0.0})
            n_cases = max(1, ROUND[name] // 20) if options.quick else ROUND[name]
            found = attack(name, done["cases"], done["cases"] + n_cases)
            results[name] = {
                "cases": done["cases"] + found.cases,
                "accepted": done["accepted"] + found.accepted,
                "failures": [*done["failures"], *found.failures][:100],
                "seconds": max(done["seconds"], found.seconds),
                "megabytes": max(done["megabytes"], found.megabytes),
            }
            options.results.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))
    return int(any(found["failures"] for found in results.values()))


if __name__ == "__main__":
    sys.exit(main())
