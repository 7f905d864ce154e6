"""Models on an Arduino Uno and on Cortex-M: accuracy, flash, memory and time, beside an int8 network and trees.

    python -m benchmarks.devices [--quick] [--fresh] [--only TEXT]

kompakt chooses vectors, metric and C by the error on held-out fifths of the training rows, among settings whose bytes
fit; the peers choose theirs by the first of these, among those of no more flash than kompakt took.  Flash is that of a
whole program: vectors of the interrupts, start, the loop, and the model.  Scores of 200 test rows are compared bit by
bit with the simulation, on three chips; labels of all test rows with those of the model that is not rounded.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.devices import contenders
from benchmarks.devices.chips import CHIPS, UNO, measure
from benchmarks.harness import Run, Target, load_data
from kompakt import CompactSVC, Refinement, compress, to_c
from kompakt.export.integer import integer_form

PARTS = 3  # times that a fifth of the training rows is held out, of sets that are not large
CODE, MAP_CODE = 1150, 130  # bytes of program, table of powers and start, and what a map adds to them; about


@dataclass(frozen=True)
class Wanted:
    """What is asked of a set: accuracy in per cent, bytes of flash, milliseconds on the Uno; and settings to try."""

    accuracy: float
    flash: int
    ms: float
    settings: tuple[tuple[int, str | int, float], ...]  # vectors, metric (a number is a rank), C
    scaled: bool = True


SETS = {
    "pendigits": Wanted(
        97.5, 2000, 1.3, ((26, 7, 100.0), (26, 7, 30.0), (26, 7, 10.0))
    ),
    "digits": Wanted(
        97.5, 3000, 2.5, ((18, "ard", 10.0), (18, "ard", 100.0), (19, "ard", 10.0), (19, "ard", 1.0)), scaled=False
    ),
    "letter": Wanted(95.0, 5100, 5.0, ((76, 12, 100.0), (76, 12, 300.0))),
    "satimage": Wanted(89.0, 3000, 3.0, ((40, "ard", 10.0), (60, 6, 10.0), (50, 8, 10.0))),
    "cancer": Wanted(96.5, 1800, 3.0, ((6, "ard", 1.0), (10, "ard", 1.0), (10, "ard", 0.1), (14, 2, 1.0))),
    "optdigits": Wanted(96.0, 4000, 4.0, ((28, "ard", 10.0), (30, "ard", 10.0)), scaled=False),
}


@cache
def task(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows in their own units, labels from 0 on."""
    if name in ("digits", "cancer"):
        X, y = (load_digits if name == "digits" else load_breast_cancer)(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    else:
        data = load_data(name)
        X, y, X_test, y_test = (data[key] for key in ("X_train", "y_train", "X_test", "y_test"))
    classes = np.unique(y)
    return X.astype(float), np.searchsorted(classes, y), X_test.astype(float), np.searchsorted(classes, y_test)


def fit(X: np.ndarray, y: np.ndarray, setting: tuple[int, str | int, float], scaled: bool) -> tuple[Any, Any]:
    """The machine, and the model that is its integers."""
    m, metric, C = setting
    refine: Any = True if isinstance(metric, str) else Refinement(rank=metric)
    gamma = metric if isinstance(metric, str) else "full"
    machine: Any = CompactSVC(m, C=C, gamma=gamma, refine=refine, random_state=0)
    machine = (make_pipeline(StandardScaler(), machine) if scaled else machine).fit(X, y)
    return machine, compress(machine, storage="int8", X=X, random_state=0)


def measured(name: str) -> dict[str, Any]:
    """kompakt on a set: the setting with the fewest held-out errors, exported, run on three chips."""
    wanted, (X, y, X_test, y_test) = SETS[name], task(name)
    scores: dict[Any, float] = {}
    for setting in wanted.settings:
        for part in range(PARTS if len(X) < 10_000 else 1):
            train, held_out, y_train, y_held_out = train_test_split(X, y, test_size=0.2, random_state=part, stratify=y)
            model = fit(train, y_train, setting, wanted.scaled)[1]
            code = CODE + (0 if model.inputs.map is None else MAP_CODE)
            if model.stored_bytes + code <= wanted.flash:
                scores[setting] = scores.get(setting, 0.0) + model.score(held_out, y_held_out)
    setting = max(scores, key=lambda setting: scores[setting])
    start = time.perf_counter()
    machine, model = fit(X, y, setting, wanted.scaled)
    seconds = time.perf_counter() - start
    form = integer_form(model, X_test)
    with tempfile.TemporaryDirectory() as folder:
        report = to_c(model, Path(folder, "model.c"), check_rows=X_test, check_targets=y_test)
        rows = form.rows(X_test[:200]).astype(np.int16)
        result: dict[str, Any] = {}
        for chip in CHIPS:
            source, n_scores = [report.path], model.weights.shape[1]
            run = measure(chip, source, "model.h", "result[0] = (int16_t)model_predict(x)", rows)
            scored = measure(chip, source, "model.h", "model_scores(x, (int32_t *)result)", rows, ("int32_t", n_scores))
            equal = bool(np.array_equal(scored.results, form.outputs(rows)))
            result[chip.name] = {
                "flash": run.flash, "ram": run.ram, "stack": run.stack, "cycles": run.cycles, "bit_equal": equal,
            }  # fmt: skip
    whole = form.rows(X_test)
    outputs = form.outputs(whole)
    labels = np.asarray(model.labels(model.scores(outputs.astype(float))))
    uno = result[UNO.name]
    return {
        "ours": 100 * float(np.mean(labels == y_test)), "setting": setting, "stored_bytes": model.stored_bytes,
        "flash": uno["flash"], "ram": uno["ram"] + uno["stack"], "ms": 1e3 * uno["cycles"] / 16e6, "chips": result,
        "bit_equal": all(chip["bit_equal"] for chip in result.values()), "bound": float(form.bounds.max()),
        "changed_by_integers": 100 * float(np.mean(labels != model.predict(X_test))),
        "changed_by_rounding": 100 * float(np.mean(labels != machine.predict(X_test))),
        "exact": 100 * float(machine.score(X_test, y_test)), "fit_seconds": seconds,
        "input_bits": np.asarray(form.input_bits).tolist(),
        "note": f"{uno['flash']} bytes, {1e3 * uno['cycles'] / 16e6:.2f} ms, {setting}",
    }  # fmt: skip


def measured_peer(peer: str, name: str, flash: int, input_bits: list[int]) -> dict[str, Any]:
    """The best program of a peer with no more flash."""
    X, y, X_test, y_test = task(name)
    train, held_out, y_train, y_held_out = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    bits = np.array(input_bits)
    contender: dict[str, Any] = {
        "int8 network": partial(contenders.networks, most_bytes=flash),
        "emlearn forest": contenders.forests,
        "m2cgen LightGBM": contenders.boosted,
    }
    programs = contender[peer]((train, y_train), bits)
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="warn"):  # emlearn changes what NumPy raises
        best = contenders.best_that_fits(
            programs, (held_out, y_held_out), (X_test, y_test), bits, flash, Path(folder)
        )
    if best is None:
        return {"ours": 0.0, "note": "nothing fits"}
    return {"ours": best["accuracy"], **best, "note": f"{best['flash']} bytes, {best['ms']:.2f} ms"}


def bound_on_random_rows(name: str, n_rows: int) -> dict[str, Any]:
    """Largest share of the bound that random rows reach."""
    wanted, (X, y, _, _) = SETS[name], task(name)
    model = fit(X, y, wanted.settings[0], wanted.scaled)[1]
    form = integer_form(model, X)
    rng, worst, seen = np.random.default_rng(0), 0.0, 0
    low, high = X.min(axis=0), X.max(axis=0)
    while seen < n_rows:
        made = rng.uniform(low - 0.5 * (high - low), high + 0.5 * (high - low), (20_000, X.shape[1]))
        near = X[rng.integers(len(X), size=len(made))] + 0.2 * X.std(axis=0) * rng.normal(size=made.shape)
        rows = form.rows(np.where(rng.random((len(made), 1)) < 0.5, made, near))
        rows = rows[form.inside(rows)]
        gaps = np.abs(form.outputs(rows) * form.unit - model.outputs(form.values(rows)))
        worst, seen = max(worst, float((gaps / form.bounds).max())), seen + len(rows)
    return {"ours": worst, "rows": seen, "note": f"of the bound, on {seen:,} rows"}


def reached(wanted: Wanted, row: Mapping[str, Any]) -> bool:
    """Whether a row of kompakt is what was asked for, with no bit and next to no label wrong."""
    good = row["ours"] >= wanted.accuracy and row["flash"] <= wanted.flash and row["ms"] <= wanted.ms
    return bool(good and row["bit_equal"] and row["changed_by_integers"] <= 0.1)


def main() -> int:
    run = Run("devices", "Models on an Arduino Uno and on Cortex-M", quick_minutes=1, full_minutes=12)
    for chip in CHIPS:
        if chip.missing:
            print(f"{chip.name} is left out: {chip.missing} is not installed")
            return 0
    won: dict[str, list[bool]] = {"int8 network": [], "trees": []}
    for name in ("pendigits", "digits") if run.quick else SETS:
        wanted = SETS[name]
        target = Target(
            f">= {wanted.accuracy:g} % in {wanted.flash} bytes, {wanted.ms:g} ms, no bit wrong",
            partial(reached, wanted),
        )
        row = run.row(f"{name}, kompakt", asdict(wanted), partial(measured, name), target, unit="%")
        if row is None:
            continue
        peers = {}
        for peer in ("int8 network", "emlearn forest", "m2cgen LightGBM"):
            measure_peer = partial(measured_peer, peer, name, row["flash"], row["input_bits"])
            values = run.row(f"{name}, {peer}", {"flash": row["flash"]}, measure_peer, unit="%")
            if values is not None:
                peers[peer] = values["ours"]
        if len(peers) == 3:
            network = peers.pop("int8 network")
            won["int8 network"].append(row["ours"] > network)
            won["trees"].append(row["ours"] > max(peers.values()))
    for peer, wins in won.items():
        if wins and not run.options.only:
            total = {"ours": float(sum(wins)), "sets": len(wins)}
            target = Target(f">= {len(wins) - 1} of {len(wins)}", lambda row: row["ours"] >= row["sets"] - 1)
            run.row(f"sets above {peer}", total, partial(dict, total), target, derived=True)
    n_rows = 20_000 if run.quick else 1_000_000
    within = Target("<= 1", lambda row: row["ours"] <= 1.0)
    for name in ("pendigits",) if run.quick else ("pendigits", "cancer"):
        run.row(f"{name}, bound", {"rows": n_rows}, partial(bound_on_random_rows, name, n_rows), within)
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
