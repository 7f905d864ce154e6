"""What the race is worth: test errors of the default of an older checkout, of this one, and of LightGBM, in turn.

    git worktree add ../older COMMIT
    python -m benchmarks.flagship.race ../older [--quick] [--only NAME ...] [--seeds 3] [--summary]

24 public sets, random splits (a third of the rows is for testing; at most 10,000 rows train and 10,000 test), inputs
standardised by the training rows, 20 and 100 vectors.  Errors are shares of wrong labels or of the variance left, in
per cent.  Constants of the race were chosen on the sets of `TUNED`; the others had no part in it.  A row is stored as
soon as it is measured and not measured again for the same commits; `--summary` prints what is stored.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, load_data

TUNED = ("magic", "spambase", "cod_rna", "satimage", "pendigits", "california", "boston", "pima", "ida_banana",
         "ida_german", "ida_splice", "wisconsin")  # fmt: skip
REPORTED = ("ijcnn1", "covtype", "letter", "concrete", "optdigits", "shuttle", "a9a", "heart_statlog", "ripley",
            "ida_image", "ida_ringnorm", "ida_waveform")  # fmt: skip
REGRESSION = {"california", "boston", "concrete"}
SIZES = (20, 100)
MOST_ROWS = 10_000
RESULTS = ROOT / "benchmarks" / "results" / "flagship_race.jsonl"


def rows_of(name: str, seed: int) -> tuple[np.ndarray, ...]:
    """Training and test rows of a split, standardised."""
    arrays = load_data(name)
    X = np.concatenate([arrays["X_train"], arrays["X_test"]]) if "X_train" in arrays else arrays["X"]
    y = np.concatenate([arrays["y_train"], arrays["y_test"]]) if "y_train" in arrays else arrays["y"]
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    order = np.random.default_rng(seed).permutation(len(y))
    n_train = min(MOST_ROWS, 2 * len(y) // 3)
    train, test = order[:n_train], order[n_train : n_train + MOST_ROWS]
    middle, spread = X[train].mean(axis=0), X[train].std(axis=0)
    spread[spread == 0] = 1.0
    return (X[train] - middle) / spread, y[train], (X[test] - middle) / spread, y[test]


def measured(name: str, seed: int, model: str) -> dict[str, Any]:
    """Fit one model; its test error row by row, and what the fit cost."""
    train, targets, test, truth = rows_of(name, seed)
    numeric = name in REGRESSION
    facts: dict[str, Any] = {}
    began, clock = time.process_time(), time.perf_counter()
    if model == "lightgbm":
        import lightgbm

        trees = lightgbm.LGBMRegressor if numeric else lightgbm.LGBMClassifier
        machine: Any = trees(verbose=-1, n_jobs=1, random_state=seed).fit(train, targets)
    else:
        import kompakt

        kind = kompakt.CompactSVR if numeric else kompakt.CompactSVC
        machine = kind(int(model), random_state=0).fit(train, targets)
        facts = {"arm": machine.refinement_.get("arm"), "iterations": machine.refinement_.get("n_iter")}
        facts["numbers"] = numbers_of(machine.model_)
    seconds = {"cpu": time.process_time() - began, "wall": time.perf_counter() - clock}
    predicted = machine.predict(test)
    errors = (predicted - truth) ** 2 / np.var(truth) if numeric else predicted != truth
    return {"errors": np.asarray(errors, dtype=float), "error": 100 * float(np.mean(errors)), **seconds, **facts}


def numbers_of(model: Any) -> int:
    """Numbers that a model stores beside its scaling: vectors, weights, map, transform, widths."""
    inputs = model.inputs
    bends = getattr(inputs, "bends", None)
    total = model.basis.size + model.weights.size + model.intercept.size
    total += 0 if inputs.map is None else inputs.map.size
    total += 0 if bends is None else bends.n_numbers
    gamma = getattr(model.kernel, "gamma", 1.0)
    return int(total + (np.size(gamma) if np.ndim(gamma) else 0))


def worker() -> None:
    """Fit what standard input names; rows of errors go to a file of their own."""
    warnings.simplefilter("ignore")
    measured("ida_banana", 0, "20")  # compiles what is compiled
    measured("boston", 0, "20")
    for line in sys.stdin:
        name, seed, model, path = json.loads(line)
        answer = measured(name, seed, model)
        np.save(path, answer.pop("errors"))
        print(json.dumps(answer), flush=True)


class Checkout:
    """A process with the code of one checkout."""

    def __init__(self, tree: Path) -> None:
        environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", "from benchmarks.flagship.race import worker; worker()"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
                                        env=environment)  # fmt: skip
        git = ["git", "-C", str(tree), "describe", "--always", "--dirty"]
        self.commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()

    def ask(self, *question: Any) -> dict[str, Any]:
        """One fit."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


def stored() -> list[dict[str, Any]]:
    """Rows measured so far."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def run(older: Path, names: list[str], sizes: list[int], seeds: int) -> None:
    """Measure what is not stored."""
    checkouts = {"old": Checkout(older), "new": Checkout(ROOT)}
    done = {(row["set"], row["seed"], row["model"], row["commit"]) for row in stored()}
    scratch = Path(os.environ.get("TMPDIR", "/tmp"))
    RESULTS.parent.mkdir(exist_ok=True)
    for seed in range(seeds):
        for name in names:
            for size in sizes:
                pair = {}
                for label, checkout in checkouts.items():
                    model = f"{label} {size}"
                    if (name, seed, model, checkout.commit) in done:
                        continue
                    path = scratch / f"race_{label}_{os.getpid()}.npy"
                    answer = checkout.ask(name, seed, str(size), str(path))
                    pair[label] = np.load(path)
                    row = {"set": name, "seed": seed, "model": model, "commit": checkout.commit, **answer}
                    if len(pair) == 2:
                        difference = pair["new"] - pair["old"]
                        row["difference"] = 100 * float(difference.mean())
                        row["paired_se"] = 100 * float(difference.std() / np.sqrt(len(difference)))
                    with RESULTS.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    print(f"{name:14s} {seed} {model:8s} {answer['error']:7.2f} {answer['cpu']:7.2f} s  "
                          f"{answer.get('arm') or ''}", flush=True)  # fmt: skip
            if (name, seed, "lightgbm", "") not in done:
                answer = checkouts["new"].ask(name, seed, "lightgbm", str(scratch / f"race_{os.getpid()}.npy"))
                row = {"set": name, "seed": seed, "model": "lightgbm", "commit": "", **answer}
                with RESULTS.open("a") as file:
                    file.write(json.dumps(row) + "\n")


def summary(commit: str | None = None) -> None:
    """Ratios of the newest code of the store against the old default and LightGBM."""
    rows = stored()
    new = [row for row in rows if row["model"].startswith("new")]
    commit = commit or new[-1]["commit"]
    old_commit = [row for row in rows if row["model"].startswith("old")][-1]["commit"]
    for size in SIZES:
        ratios: dict[str, list[float]] = {}
        table = []
        for name in TUNED + REPORTED:
            pick = {
                label: {row["seed"]: row for row in rows if row["set"] == name and row["model"] == model
                        and row["commit"] == own}
                for label, model, own in (("old", f"old {size}", old_commit), ("new", f"new {size}", commit),
                                          ("tree", "lightgbm", ""))
            }  # fmt: skip
            seeds = sorted(set(pick["old"]) & set(pick["new"]))
            if not seeds:
                continue
            mean = {label: np.mean([own[seed]["error"] for seed in seeds if seed in own] or [np.nan])
                    for label, own in pick.items()}  # fmt: skip
            cpu = [sum(pick[label][seed]["cpu"] for seed in seeds) for label in ("old", "new")]
            paired = [pick["new"][seed] for seed in seeds if "difference" in pick["new"][seed]]
            z = 0.0
            if paired:
                error = np.sqrt(np.mean([row["paired_se"] ** 2 for row in paired]) / len(paired))
                z = np.mean([row["difference"] for row in paired]) / max(error, 1e-12)
            numbers = np.mean([pick["new"][seed]["numbers"] / pick["old"][seed]["numbers"] for seed in seeds])
            table.append((name, *mean.values(), mean["new"] / mean["old"], z, cpu[1] / cpu[0], numbers, len(seeds)))
        print(f"\n{size} vectors: error of {old_commit}, {commit}, LightGBM; ratio, paired z, CPU time, numbers stored")
        for row in table:
            print(f"{row[0]:14s} {row[1]:7.2f} {row[2]:7.2f} {row[3]:7.2f}  {row[4]:5.3f} {row[5]:6.1f} {row[6]:6.2f} "
                  f"{row[7]:5.2f} ({row[8]})")  # fmt: skip
        for label, group in (("tuned", TUNED), ("reported", REPORTED), ("all", TUNED + REPORTED)):
            chosen = [row for row in table if row[0] in group]
            if not chosen:
                continue
            ratios[label] = [row[4] for row in chosen]
            print(f"{label}: {len(chosen)} sets, geometric mean {np.exp(np.mean(np.log(ratios[label]))):.3f}, CPU "
                  f"{np.exp(np.mean(np.log([row[6] for row in chosen]))):.2f}, better by 2 SE "
                  f"{sum(row[5] < -2 for row in chosen)}, worse {sum(row[5] > 2 for row in chosen)}; below LightGBM "
                  f"{sum(row[2] < row[3] for row in chosen)}, within 5 % "
                  f"{sum(row[2] < 1.05 * row[3] for row in chosen)}")  # fmt: skip


def main() -> None:
    """Measure, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("older", type=Path, nargs="?")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="four sets, one split")
    parser.add_argument("--summary", action="store_true")
    given = parser.parse_args()
    names = given.only or (["magic", "spambase", "concrete", "pima"] if given.quick else list(TUNED + REPORTED))
    if not given.summary:
        if given.older is None:
            parser.error("name the older checkout")
        run(given.older.resolve(), names, given.sizes, 1 if given.quick else given.seeds)
    summary()


if __name__ == "__main__":
    main()
