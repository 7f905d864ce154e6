"""Ten million rows on disk: memory, time per row and growth of CompactSVC with 200 vectors.

    python -m benchmarks.scale.out_of_core [--quick] [--fresh]

Rows are written to a .npy file in a temporary folder (1.6 GB in full).  Every fit runs in a process of its own; the
peak is the high-water mark of its resident memory, all libraries included.  Times are processor seconds: on a machine
that does other work besides, seconds of the clock measure the other work; they are noted beside.

Two fits are measured.  "default" is ``CompactSVC(200)``: selection and refinement on a sample that fits, exact weights
on all rows by passes.  "by passes" is the same with ``refine=False``: nothing but passes over the rows, the same
arithmetic as in memory, so its rate is the fair one to compare.

Errors are those of 100,000 further rows that no fit has seen.  5 % of their labels are turned too, so no machine can do
better than 5 %.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, Run, Target, at_most
from benchmarks.memory import peak_bytes

FEATURES = 20
TEST_ROWS = 100_000
FITS: dict[str, dict[str, Any]] = {"default": {}, "by passes": {"refine": False}}


def draw(rng: np.random.Generator, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and labels that follow a bent surface, 5 % of them turned."""
    X = rng.standard_normal((n_rows, FEATURES))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.cos(X[:, 3] * X[:, 4]) - 0.5
    return X, ((f > 0) ^ (rng.random(n_rows) < 0.05)).astype(np.int8)


def write_rows(folder: Path, n_rows: int) -> None:
    """Write X and y of `n_rows` training rows, some megabytes at a time."""
    rng = np.random.default_rng(7)
    X = np.lib.format.open_memmap(folder / f"X{n_rows}.npy", "w+", np.float64, (n_rows, FEATURES))
    y = np.empty(n_rows, dtype=np.int8)
    for start in range(0, n_rows, 100_000):
        here = slice(start, min(start + 100_000, n_rows))
        X[here], y[here] = draw(rng, here.stop - start)
    X.flush()
    np.save(folder / f"y{n_rows}.npy", y)


def fit_here(folder: Path, n_rows: int, n_basis: int, fit: str, in_memory: bool) -> dict[str, Any]:
    """Fit in this process; return seconds, peak and the error on rows that were not trained on."""
    import kompakt

    machine = kompakt.CompactSVC(n_basis, random_state=0, **FITS[fit])
    kompakt.CompactSVC(2, refine=False).fit(np.eye(300) + np.arange(300)[:, None] % 3, np.arange(300) % 2)  # compile
    X, y = folder / f"X{n_rows}.npy", folder / f"y{n_rows}.npy"
    given = (np.load(X), np.load(y)) if in_memory else (kompakt.open_rows(X, target=y),)
    clock, processor = time.perf_counter(), time.process_time()
    machine.fit(*given)
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    peak = peak_bytes()
    return {
        "processor": processor,
        "clock": clock,
        "peak_gb": peak / 1e9,
        "test_error": 1.0 - machine.score(*draw(np.random.default_rng(8), TEST_ROWS)),  # another seed: other rows
        "n_passes": int(getattr(machine, "n_passes_", 0)),
        "n_basis": int(machine.n_basis_),
    }


def measured(folder: Path, n_rows: int, n_basis: int, fit: str, in_memory: bool = False) -> dict[str, Any]:
    """Run `fit_here` in a fresh process; rows are written if they are not there."""
    if not (folder / f"y{n_rows}.npy").exists():
        write_rows(folder, n_rows)
    words = [str(folder), str(n_rows), str(n_basis), fit, "memory" if in_memory else "disk"]
    command = [sys.executable, "-m", "benchmarks.scale.out_of_core", "--child", *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"the measured process failed with status {result.returncode}:\n{result.stderr}")
    values = json.loads(result.stdout.splitlines()[-1])
    note = f"{values['clock']:.0f} s by the clock, {values['peak_gb']:.2f} GB, {values['n_passes']} passes, "
    note += f"test error {100 * values['test_error']:.2f} %"
    return {"ours": 1e6 * values["processor"] / n_rows, "note": note, **values}


def main(argv: list[str]) -> int:
    run = Run("out_of_core", "Rows on disk: memory, time per row, growth", 4, 60, argv)
    small, large, n_basis = (300_000, 1_200_000, 50) if run.quick else (1_000_000, 10_000_000, 200)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows: dict[str, dict[str, Any]] = {fit: {} for fit in FITS}
        # the many rows come last: they take the longest
        for label, n_rows, in_memory in (
            ("in memory", small, True),
            ("on disk", small, False),
            ("on disk, many", large, False),
        ):
            for fit in FITS:
                params = {"n": n_rows, "m": n_basis, "memory": in_memory, "test": TEST_ROWS}
                rows[fit][label] = run.row(
                    f"{fit}: {n_rows:,} rows {label.removesuffix(', many')}, us per row",
                    params,
                    lambda n=n_rows, here=in_memory, fit=fit: measured(folder, n, n_basis, fit, here),  # type: ignore[misc]
                )
        for fit, values in rows.items():
            if all(one is not None for one in values.values()):
                judge(run, fit, values, small, large, n_basis)
    return run.finish()


def judge(run: Run, fit: str, rows: dict[str, Any], small: int, large: int, n_basis: int) -> None:
    """The rows that have targets, from what was measured."""
    params = {"small": small, "large": large, "m": n_basis}
    few, many = rows["on disk"], rows["on disk, many"]

    def derived(value: float) -> dict[str, Any]:
        return {"ours": value}

    ratio = many["ours"] / rows["in memory"]["ours"]
    exponent = math.log(many["processor"] / few["processor"]) / math.log(large / small)
    growth = 100 * (many["peak_gb"] / few["peak_gb"] - 1)
    bound = Target("< 2", lambda row: row["ours"] < 2)
    run.row(f"{fit}: peak memory, {large:,} rows", params, lambda: derived(many["peak_gb"]), bound, "GB")
    run.row(f"{fit}: time per row against memory", params, lambda: derived(ratio), at_most(1.5), "x")
    run.row(f"{fit}: growth exponent of the time", params, lambda: derived(exponent), at_most(1.05))
    # up to some million rows a Newton step that must be shortened holds 60 bytes per row: more than 5 % of a small peak
    few_percent = None if run.quick else at_most(5)
    run.row(f"{fit}: peak, {large // small} times the rows", params, lambda: derived(growth), few_percent, "%")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--child":
        where, rows_, basis_, fit_, kind_ = sys.argv[2:]
        print(json.dumps(fit_here(Path(where), int(rows_), int(basis_), fit_, kind_ == "memory")))
    else:
        sys.exit(main(sys.argv[1:]))
