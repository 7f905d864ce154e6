"""What every benchmark script shares: data, alternating timings, resumable rows, targets and verdicts.

A script makes one `Run`, asks it for rows, and ends with `run.finish()`::

    run = Run("engine", "What the engine costs", quick_minutes=1, full_minutes=10)
    run.row("RBF block, float32", {"n": 50_000}, measure, at_least(2.5), unit="x")
    sys.exit(run.finish())

Rows already measured are read back from ``benchmarks/results/<script>.jsonl``; they are found by script, row
and parameters, not by commit, so that a long run survives an interruption. `--fresh` measures again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"
NOISE_LIMIT = 1.25  # a median this far above the best time means that other work held the cores
RECORDED_PACKAGES = ("kompakt", "numpy", "scipy", "scikit-learn", "numba", "threadpoolctl")

Arrays = dict[str, np.ndarray]


# ---------------------------------------------------------------------------------------------- data


class MissingData(RuntimeError):
    """A data set is neither stored nor to be had; the message says where it was looked for."""


def data_folder() -> Path:
    """Return the folder of the shared data: $KOMPAKT_DATA, by default ../shared/data from the repository."""
    return Path(os.environ.get("KOMPAKT_DATA", ROOT.parent / "shared" / "data"))


def load_data(name: str) -> Arrays:
    """Return data set `name`: ``X, y``, or ``X_train, y_train, X_test, y_test`` where a split is official.

    A set that is not stored is fetched through scikit-learn if it can be (see `FETCHERS`); otherwise
    `MissingData` says what is missing, where it was looked for, and what to do.
    """
    path = data_folder() / f"{name}.npz"
    if path.is_file():
        with np.load(path, allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}
    fetch = FETCHERS.get(name)
    if fetch is None:
        raise MissingData(
            f"data set {name!r} is missing: expected {path}, and scikit-learn has no fetcher for it here; "
            f"set KOMPAKT_DATA to the folder that holds {name}.npz"
        )
    try:
        return fetch()
    except OSError as error:  # no network: URLError and timeouts are OSErrors
        raise MissingData(
            f"data set {name!r} is missing: expected {path}, and fetching it failed ({error}); "
            f"set KOMPAKT_DATA to the folder that holds {name}.npz, or connect to a network"
        ) from error


def _fetch_covtype() -> Arrays:
    from sklearn.datasets import fetch_covtype

    bunch = fetch_covtype()
    return {"X": bunch.data, "y": np.where(bunch.target == 2, 1, -1), "y_multi": bunch.target}


def _fetch_split(openml_name: str, n_train: int, labels: Callable[[np.ndarray], np.ndarray]) -> Arrays:
    from sklearn.datasets import fetch_openml

    bunch = fetch_openml(openml_name, version=1, as_frame=False)
    X, y = bunch.data, labels(bunch.target)
    return {"X_train": X[:n_train], "y_train": y[:n_train], "X_test": X[n_train:], "y_test": y[n_train:]}


def _integers(y: np.ndarray) -> np.ndarray:
    return y.astype(int)


def _letters(y: np.ndarray) -> np.ndarray:
    return np.array([ord(letter) - ord("A") + 1 for letter in y])


FETCHERS: dict[str, Callable[[], Arrays]] = {
    "covtype": _fetch_covtype,
    "mnist": lambda: _fetch_split("mnist_784", 60_000, _integers),
    "letter": lambda: _fetch_split("letter", 16_000, _letters),
}


# ------------------------------------------------------------------------------------------- timings


@dataclass(frozen=True)
class Timings:
    """Seconds of every contender in every round."""

    seconds: dict[str, list[float]]

    def median(self, name: str) -> float:
        """Return the median seconds of contender `name`."""
        return statistics.median(self.seconds[name])

    def ratio(self, slow: str, fast: str) -> float:
        """Return how many times as fast `fast` is as `slow`: the median over rounds of the paired ratio.

        Pairing within a round cancels the drift of a shared machine, which a ratio of medians would keep.
        """
        pairs = zip(self.seconds[slow], self.seconds[fast], strict=True)
        return statistics.median(s / f for s, f in pairs)

    def fastest(self, *names: str) -> str:
        """Return the contender among `names` with the smallest median: the fair one of several variants."""
        return min(names, key=self.median)

    def noise(self, *names: str) -> float:
        """Return the largest ratio of a median to the best time among `names` (all, if none is given).

        Alternating does not cancel a load that hurts contenders unequally: a BLAS that spins for a worker
        without a core slows down several times over, a pool of independent blocks hardly at all.
        """
        return max(self.median(name) / min(self.seconds[name]) for name in names or self.seconds)

    def summary(self) -> dict[str, float]:
        """Return the median seconds of all contenders."""
        return {name: self.median(name) for name in self.seconds}


def alternate(
    contenders: Mapping[str, Callable[[], Any]],
    rounds: int = 9,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Timings:
    """Time the contenders in turn, `rounds` times, the order turned by one each round.

    Each runs `warmup` times before anything is timed, so that compilation, page faults and the
    waking of thread pools are nobody's cost.
    """
    names = list(contenders)
    for _ in range(warmup):
        for name in names:
            contenders[name]()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            start = clock()
            contenders[name]()
            seconds[name].append(clock() - start)
    return Timings(seconds)


# ------------------------------------------------------------------------------- targets and verdicts


@dataclass(frozen=True)
class Target:
    """What a row must reach: a text for the table and a judgement of the row's values."""

    text: str
    holds: Callable[[Mapping[str, Any]], bool]


def at_least(bound: float) -> Target:
    """Demand that ours is at least `bound`."""
    return Target(f">= {bound:g}", lambda row: row["ours"] >= bound)


def at_most(bound: float) -> Target:
    """Demand that ours is at most `bound`."""
    return Target(f"<= {bound:g}", lambda row: row["ours"] <= bound)


def not_worse(tolerance: float, than: str = "paper") -> Target:
    """Demand that ours exceeds the `paper` or the `peer` by at most `tolerance` (lower is better)."""
    return Target(f"<= {than} + {tolerance:g}", lambda row: row["ours"] <= row[than] + tolerance)


def near(tolerance: float, to: str = "paper") -> Target:
    """Demand that ours differs from the `paper` or the `peer` by at most `tolerance`."""
    return Target(f"{to} +- {tolerance:g}", lambda row: abs(row["ours"] - row[to]) <= tolerance)


def within_paper(deviations: float = 1.0, better: str | None = "lower") -> Target:
    """Demand that ours is no worse than the paper's figure by more than `deviations` of the paper's own deviation.

    The row holds the deviation as ``paper_sd``. `better` is "lower" or "higher", or None where ours must lie within
    that distance on both sides.
    """

    def holds(row: Mapping[str, Any]) -> bool:
        worse = {"lower": row["ours"] - row["paper"], "higher": row["paper"] - row["ours"]}
        far = worse[better] if better is not None else max(worse.values())
        return bool(far <= deviations * row["paper_sd"])

    sign = {"lower": "<= paper + ", "higher": ">= paper - ", None: "paper +- "}[better]
    return Target(f"{sign}{deviations:g} sd", holds)


# ----------------------------------------------------------------------------------------- environment


def git_commit() -> str:
    """Return the short commit of the working tree, with "+" if it has changes, or "unknown" outside git."""
    try:
        run = {"cwd": ROOT, "capture_output": True, "text": True, "check": True}
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], **run).stdout.strip()  # type: ignore[call-overload]
        changed = subprocess.run(["git", "status", "--porcelain", "-uno"], **run).stdout.strip()  # type: ignore[call-overload]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit + ("+" if changed else "")


def environment() -> dict[str, Any]:
    """Return what a measurement depends on: commit, cores, processor, versions, BLAS."""
    from threadpoolctl import threadpool_info

    versions = {}
    for package in RECORDED_PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "absent"
    blas = [f"{i['internal_api']} {i['version']}, {i['num_threads']} threads" for i in threadpool_info()]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "commit": git_commit(),
        "cores": cores,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "versions": versions,
        "threadpools": blas,
    }


# ------------------------------------------------------------------------------------------------ runs


def _key(script: str, row: str, params: Mapping[str, Any]) -> str:
    return json.dumps([script, row, dict(params)], sort_keys=True)


def _plain(value: Any) -> Any:
    """Turn NumPy scalars and arrays into what JSON can hold."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a benchmark row may hold numbers, text and lists; got {type(value).__name__}")


def _read_results(path: Path) -> dict[str, dict[str, Any]]:
    """Read stored rows, the latest of each key; a line cut short by an interruption is named and skipped."""
    rows: dict[str, dict[str, Any]] = {}
    if not path.is_file():
        return rows
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            record = json.loads(line)
            rows[record["key"]] = record
        except (json.JSONDecodeError, KeyError, TypeError):
            print(f"{path.name}, line {number}: not a whole record, skipped (its row will be measured again)")
    return rows


def _number(value: Any, unit: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:.4g}{' ' if unit not in ('', 'x', '%') else ''}{unit}"


def _line(name: str, columns: Sequence[str], tolerance: str, verdict: str) -> str:
    paper, ours, peer = columns
    return f"{name:<46} | {paper:>10} | {ours:>12} | {peer:>12} | {tolerance:<16} | {verdict}"


@dataclass
class Run:
    """One run of a benchmark script: its options, its stored rows, its table.

    Parameters
    ----------
    script : name of the script, and of its file of results
    title : first line of the output
    quick_minutes, full_minutes : stated run times on two cores
    argv : command line; None takes the process's own
    folder : where results are kept
    """

    script: str
    title: str
    quick_minutes: float
    full_minutes: float
    argv: Sequence[str] | None = None
    folder: Path = RESULTS
    options: argparse.Namespace = field(init=False)
    failed: list[str] = field(default_factory=list, init=False)
    missing: list[str] = field(default_factory=list, init=False)
    noisy: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        parser = argparse.ArgumentParser(prog=self.script, description=self.title)
        subset = f"small subset, about {self.quick_minutes:g} min"
        parser.add_argument("--quick", action="store_true", help=subset)
        parser.add_argument("--fresh", action="store_true", help="measure again, whatever is stored")
        parser.add_argument("--only", default="", metavar="TEXT", help="only rows whose name contains TEXT")
        parser.add_argument("--stored", action="store_true", help="judge what is stored anew, measure nothing")
        self.options = parser.parse_args(self.argv)
        self._path = self.folder / f"{self.script}.jsonl"
        self._stored = _read_results(self._path)
        self._environment = environment()
        self._started = time.perf_counter()
        self._print_head()

    @property
    def quick(self) -> bool:
        """Whether the small subset was asked for."""
        return bool(self.options.quick)

    def _print_head(self) -> None:
        e = self._environment
        minutes = self.quick_minutes if self.quick else self.full_minutes
        versions = ", ".join(f"{name} {version}" for name, version in e["versions"].items())
        subset = " (quick subset)" if self.quick else ""
        print(f"{self.title}{subset}: about {minutes:g} min when nothing is stored")
        print(f"commit {e['commit']}, {e['cores']} cores, {e['machine']}, Python {e['python']}, {versions}")
        print(f"thread pools: {'; '.join(e['threadpools']) or 'none found'}; load at start {e['load']}")
        print(_line("row", ["paper", "ours", "peer"], "tolerance", "verdict"), flush=True)

    def row(
        self,
        name: str,
        params: Mapping[str, Any],
        measure: Callable[[], Mapping[str, Any]],
        target: Target | None = None,
        unit: str = "",
        always: bool = False,
        table: str = "",
        derived: bool = False,
    ) -> dict[str, Any] | None:
        """Measure a row, or read it back; print it with its verdict; return its values (None if left out).

        `measure` returns a mapping with ``ours`` and, where they exist, ``paper``, ``paper_sd`` (the paper's own
        deviation), ``spread`` (ours) and ``peer``; other entries are stored. ``note`` is printed; ``noise`` above
        `NOISE_LIMIT` withholds the verdict. The verdict is judged anew from the values every time, so a changed target
        needs no new measurement. `always` is for rows that others are compared with: `--only` does not leave them out,
        and then `--fresh` is not meant for them. `table` names the paper's table or figure that the row belongs to; it
        is stored with the verdict for `python -m benchmarks.papers`. A `derived` row follows from other rows: it is
        made anew every time, with `--stored` too.
        """
        named = self.options.only in name
        if not (named or always):
            return None
        key = _key(self.script, name, {**params, "quick": self.quick})
        known = self._stored.get(key)
        record = None if derived or (self.options.fresh and named) else known
        if record is not None and record["values"].get("noise", 1.0) > NOISE_LIMIT:
            record = None  # a noisy row decides nothing: measure it again
        resumed = record is not None
        if record is None and self.options.stored and not derived:
            return None
        if record is None:
            start = time.perf_counter()
            try:
                values = json.loads(json.dumps(dict(measure()), default=_plain))
            except MissingData as absent:
                self.missing.append(name)
                print(f"{name:<46} | left out: {absent}", flush=True)
                return None
            seconds = time.perf_counter() - start
            record = {"key": key, "values": values, "seconds": seconds, **self._environment}
            if derived and known is not None and known["values"] == values:
                record, resumed = known, True
        met = "" if target is None else "met" if target.holds(record["values"]) else "missed"
        judged = {"table": table, "unit": unit, "target": target.text if target else "", "verdict": met}
        if not resumed or judged != {name: record.get(name, "") for name in judged}:
            record = {**record, **judged}
            self._store(record)
        self._print_row(name, record, target, unit, resumed)
        return record["values"]

    def _store(self, record: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        # A leading newline closes a line that an interrupted run left open.
        written = self._path.read_bytes() if self._path.is_file() else b""
        torn = bool(written) and not written.endswith(b"\n")
        with self._path.open("a") as file:
            file.write(("\n" if torn else "") + json.dumps(record) + "\n")
        self._stored[record["key"]] = record

    def _print_row(self, name: str, record: dict[str, Any], target: Target | None, unit: str, resumed: bool) -> None:
        values = record["values"]
        verdict = "reported"
        if target is not None:
            verdict = "ok" if target.holds(values) else "FAILED"
            if values.get("noise", 1.0) > NOISE_LIMIT:
                verdict = f"NOISY ({verdict}, noise {values['noise']:.1f})"
                self.noisy.append(name)
            elif verdict == "FAILED":
                self.failed.append(name)
        shown = [_number(values.get(column), unit) for column in ("paper", "ours", "peer")]
        tail = f"  {values['note']}" if values.get("note") else ""
        tail += f"  [stored, commit {record['commit']}]" if resumed else f"  [{record['seconds']:.1f} s]"
        print(_line(name, shown, target.text if target else "", verdict + tail), flush=True)

    def finish(self) -> int:
        """Print the run time and what failed or is missing; return the exit status."""
        minutes = (time.perf_counter() - self._started) / 60
        print(f"run time {minutes:.1f} min; results in {self._path}")
        if self.missing:
            print(f"left out for want of data: {', '.join(self.missing)}")
        if self.noisy:
            print(f"NOISY, to be measured again on a quiet machine: {', '.join(self.noisy)}")
        if self.failed:
            print(f"FAILED: {', '.join(self.failed)}")
        return 1 if self.failed or self.noisy else 0
