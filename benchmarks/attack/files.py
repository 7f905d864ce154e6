"""Damaged files through every reader: no crash, no hang, little memory, and no exception that is not documented.

Each case is a sound file that a seeded mutator has changed (benchmarks/attack/mutators.py); the case number alone makes
it again: `damaged(TARGETS["model files"], 17)`.  Batches run in forked processes under a limit on memory, with a timer
of processor seconds for each case and a watchdog for the batch.
"""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import io
import json
import mmap
import os
import resource
import select
import signal
import struct
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from benchmarks.attack import mutators
from kompakt.io import ModelFileError, UnsupportedModelError

ROOT = Path(__file__).resolve().parents[2]
SEED = 20261115
MAX_SECONDS = 2.0  # of the processor, per case
MAX_BYTES = 512 << 20  # beyond what the process had before the batch
SILENCE = 30.0  # seconds of sleep, or processor seconds of work, at one case after which a batch counts as hanging
BATCH = 2000


@dataclass(frozen=True)
class Target:
    """A reader, sound files for it, how they are damaged, and the exceptions it documents."""

    read: Callable[[str], Any]
    mutate: Callable[[bytes, np.random.Generator], bytes]
    sources: Callable[[], Sequence[bytes]]
    documented: tuple[type[BaseException], ...]
    suffix: str = ""
    seconds: float | None = None  # of the processor, per case; None means MAX_SECONDS


@dataclass
class Found:
    """What a run of cases found."""

    cases: int = 0
    accepted: int = 0
    reasons: set[str] = field(default_factory=set)
    failures: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0
    megabytes: float = 0.0

    def add(self, other: Found) -> None:
        """Take in the findings of another batch."""
        self.cases += other.cases
        self.accepted += other.accepted
        self.reasons |= other.reasons
        self.failures += other.failures
        self.seconds, self.megabytes = max(self.seconds, other.seconds), max(self.megabytes, other.megabytes)


# ------------------------------------------------------------------------------------------- readers


def _use(model: Any) -> None:
    """What was accepted must work: it predicts, or names a row whose outputs overflow."""
    from kompakt.data.checks import RowError

    if model.n_features <= 50:
        with contextlib.suppress(RowError):
            model.predict(np.zeros((2, model.n_features)))


def _read_model_file(path: str) -> None:
    import kompakt
    from kompakt.data.checks import RowError
    from kompakt.io import read_header

    read_header(path)
    model = kompakt.load(path)
    _use(model)
    str(model), str(model.record)
    if model.inputs.schema is not None:
        model.inputs.schema.describe()
        cells = ["", "1,5", "Rome", "2024-02-29", "\ud800"]
        with contextlib.suppress(RowError):
            model.predict(dict.fromkeys(model.inputs.schema.names, cells))


def _export(path: str) -> None:
    """What was accepted is exported, or refused in words; the content says in which format."""
    import kompakt

    model = kompakt.load(path)
    number = hashlib.sha256(Path(path).read_bytes()).digest()[0]
    format = ("onnx", "onnx", "numpy", "libsvm")[number % 4]
    with np.errstate(all="ignore"), contextlib.suppress(UnsupportedModelError):
        getattr(kompakt, f"to_{format}")(model, f"{path}.out")


def _read_libsvm(path: str) -> None:
    from kompakt.io import read_libsvm, to_model

    _use(to_model(read_libsvm(path), memory_budget=1 << 20))


def _read_range(path: str) -> None:
    from kompakt.io import read_range

    ranges = read_range(path)
    if len(ranges.index) and ranges.index[-1] < 1000:
        with np.errstate(all="ignore"):
            ranges.apply(np.zeros((2, int(ranges.index[-1]) + 1)))


def _read_svmlight(path: str) -> None:
    from kompakt import open_rows

    rows = open_rows(path, format="svmlight")
    rows.read(0, rows.n_rows)


def _read_csv(path: str) -> None:
    from kompakt import open_rows

    rows = open_rows(path, format="csv", target="label")
    rows.read(0, rows.n_rows)


def _read_arrays(path: str) -> None:
    from kompakt import open_rows

    rows = open_rows(path, format="npy" if Path(path).read_bytes().startswith(b"\x93") else "npz")
    rows.read(0, rows.n_rows)


def _read_parquet(path: str) -> None:
    from kompakt import open_rows

    rows = open_rows(path, format="parquet", target="label")
    rows.read(0, rows.n_rows)


def _small_fit(path: str | None) -> Any:
    """A fit of half a second or less, with a checkpoint."""
    from kompakt import CompactSVC, Refinement

    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    return CompactSVC(n_basis=4, refine=Refinement(3), random_state=0, n_jobs=1).fit(X, y, checkpoint=path)


def _resume(path: str) -> None:
    """A fit that goes on from a checkpoint must end in the machine that it always ends in."""
    found = _small_fit(path)
    for name, expected in _machine().items():
        if not np.array_equal(getattr(found, name), expected):
            raise AssertionError(f"another machine: {name} differs")


@cache
def _machine() -> dict[str, np.ndarray]:
    whole = _small_fit(None)
    return {name: getattr(whole, name) for name in ("dual_coef_", "basis_vectors_", "intercept_")}


@cache
def _checkpoints() -> tuple[bytes, ...]:
    """The file of the small fit after each of its writes."""
    from kompakt.checkpoint import Checkpoint

    kept, write = [], Checkpoint.write

    def keep(self: Checkpoint, urgent: bool = False) -> None:
        write(self, urgent=True)
        kept.append(Path(self.path).read_bytes())

    with tempfile.TemporaryDirectory() as folder:
        Checkpoint.write = keep  # type: ignore[method-assign]
        try:
            _small_fit(os.path.join(folder, "checkpoint"))
        finally:
            Checkpoint.write = write  # type: ignore[method-assign]
    return tuple(kept[1::3])


def _fit_odd_numbers(path: str) -> None:
    """A machine of any kind on rows of odd numbers: finite predictions, or a ValueError."""
    import kompakt

    kind, *seed = Path(path).read_bytes()
    rng = np.random.default_rng(seed)
    columns_of = _ODD_COLUMNS if seed else _ODD_COLUMNS[:1]  # a file without a seed: sound numbers
    name, options = _MACHINES[kind]
    fewest = 100 if name in ("LocalSamplingSVC", "CGLQSVC") else 8  # with fewer rows these do not reduce
    n, d = int(rng.integers(fewest, fewest + 32)), int(rng.integers(1, 5))
    columns = [columns_of[int(rng.integers(len(columns_of)))](rng, n) for _ in range(d)]
    X = np.column_stack(columns).astype(np.float32 if rng.random() < 0.2 else np.float64)
    y = columns_of[int(rng.integers(len(columns_of)))](rng, n)
    target: np.ndarray = y if name.endswith("R") else np.digitize(y, np.quantile(y, [0.3, 0.7]))
    weight = _odd_weights(rng, n) if seed else None
    options = {
        key: getattr(kompakt, value[0])(*value[1:]) if isinstance(value, tuple) else value
        for key, value in options.items()
    }
    with np.errstate(all="ignore"):
        machine = getattr(kompakt, name)(**options).fit(X, target, sample_weight=weight)
        predicted = machine.predict(X)
        values = predicted if name.endswith("R") else machine.decision_function(X)
    if not np.isfinite(values).all():
        raise AssertionError("predictions that are not finite")


#: name and parameters; a tuple is a class of options and what it is made with
_MACHINES: list[tuple[str, dict[str, Any]]] = [
    ("CompactSVC", {"n_basis": 4, "refine": False, "random_state": 0}),
    ("CompactSVC", {"n_basis": 3, "refine": ("Refinement", 3), "random_state": 0}),
    ("CompactSVC", {"n_basis": 3, "refine": False, "loss": "hinge", "random_state": 0}),
    ("CompactSVC", {"n_basis": 3, "refine": False, "kernel": "poly", "random_state": 0}),
    ("CompactSVR", {"n_basis": 4, "refine": False, "random_state": 0}),
    ("CompactSVR", {"n_basis": 3, "refine": ("Refinement", 3), "random_state": 0}),
    ("CompactSVR", {"n_basis": 3, "refine": False, "loss": "epsilon_insensitive", "random_state": 0}),
    ("SpSVC", {"n_basis": 4, "random_state": 0}),
    ("FEESVC", {"n_basis": 3, "random_state": 0}),
    ("FEESVR", {"n_basis": 3, "random_state": 0}),
    ("FixedSizeLSSVC", {"n_basis": 4, "random_state": 0}),
    ("FixedSizeLSSVC", {"n_basis": 3, "tune": True, "cv": 2, "random_state": 0}),
    ("FixedSizeLSSVR", {"n_basis": 4, "random_state": 0}),
    ("FixedSizeLSSVR", {"n_basis": 3, "tune": True, "cv": 2, "random_state": 0}),
    ("ProjectedSVC", {"n_basis": 4, "random_state": 0}),
    ("KernelFisher", {}),
    ("ProjectedKernelFisher", {"n_basis": 4, "random_state": 0}),
    ("LocalSamplingSVC", {"random_state": 0}),
    ("CGLQSVC", {"random_state": 0}),
]


def _odd_weights(rng: np.random.Generator, n: int) -> np.ndarray | None:
    kind = rng.integers(4)
    return None if kind < 2 else rng.integers(0, 3, n).astype(float) if kind == 2 else 10.0 ** rng.uniform(-12, 12, n)


_ODD_COLUMNS: list[Callable[[np.random.Generator, int], np.ndarray]] = [
    lambda rng, n: rng.normal(size=n),
    lambda rng, n: np.full(n, rng.choice([0.0, 1.0, -1e30, 1e-30])),
    lambda rng, n: rng.integers(0, 2, n) * 10.0 ** rng.integers(-20, 20),
    lambda rng, n: 10.0 ** rng.uniform(-100, 100, n) * rng.choice([-1, 1], n),
    lambda rng, n: 1e12 + rng.normal(size=n),
    lambda rng, n: np.where(rng.random(n) < 0.1, rng.choice([1e308, -1e308, 5e-324, 1e154]), rng.normal(size=n)),
    lambda rng, n: np.round(rng.normal(size=n), 1) * 1e-150,
    lambda rng, n: rng.standard_cauchy(n) ** 3,
]


def _read_for_command(path: str) -> None:
    """As the command line does: format and header by the content, target by its name or place."""
    from argparse import Namespace

    from kompakt.cli.console import Console
    from kompakt.cli.tables import open_table

    options = Namespace(
        header=None, format=None, target=None, ignore=[], keep=[], order=[], na=[], decimal=None, strict=False,
        impute=None, task=None,
    )  # fmt: skip
    open_table(options, Console(quiet=True), path).read()


def _refusals_of_commands() -> tuple[type[BaseException], ...]:
    from kompakt.cli.console import DataError, UsageError
    from kompakt.data.table import TableError

    return DataError, UsageError, TableError


def _mutate_rows(raw: bytes, rng: np.random.Generator) -> bytes:
    return (mutators.mutate_csv if b"," in raw else mutators.mutate_svmlight)(raw, rng)


def _files(pattern: str) -> Callable[[], list[bytes]]:
    return lambda: [path.read_bytes() for path in sorted((ROOT / "tests" / "io").glob(pattern))]


def _svmlight_samples() -> list[bytes]:
    rng = np.random.default_rng(0)
    rows = [
        " ".join([str(rng.integers(-1, 2)), *(f"{f}:{rng.normal():.4g}" for f in range(1, 9) if rng.random() < 0.6)])
        for _ in range(30)
    ]
    text = "\n".join(rows) + "\n"
    return [text.encode(), ("# made for a test\n\n" + text.replace("1:", "0:")).encode(), b"1.5 1:1 # note\n-2e3 3:4\n"]


def _csv_samples() -> list[bytes]:
    rng = np.random.default_rng(1)
    lines = [f"{rng.normal():.4g},{rng.integers(9)},{rng.random():.3f},{'ab'[int(rng.integers(2))]}" for _ in range(30)]
    text = "length,width,height,label\n" + "\n".join(lines) + "\n"
    quoted = '"length","the ""width""",label\n1,,"yes, it is"\n2.5,NA,no\n-3e2,4,\n'
    return [text.encode(), quoted.encode(), text.replace(",a\n", ",1\n").replace(",b\n", ",2.5\n").encode()]


def _array_samples() -> list[bytes]:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(20, 3)), np.arange(20) % 2
    samples = []
    for write in (
        lambda file: np.save(file, X),
        lambda file: np.savez(file, X=X.astype(np.float32), y=y),
        lambda file: sparse.save_npz(file, sparse.csr_matrix(np.where(X > 0, X, 0)), compressed=False),
    ):
        buffer = io.BytesIO()
        write(buffer)
        samples.append(buffer.getvalue())
    return samples


def _parquet_samples() -> list[bytes]:
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(4)
    table = pa.table({"a": rng.normal(size=30), "b": rng.integers(0, 9, 30), "label": list("xyz" * 10)})
    samples = []
    for more in ({}, {"compression": "none", "row_group_size": 7, "use_dictionary": False}):
        buffer = io.BytesIO()
        parquet.write_table(table, buffer, **more)
        samples.append(buffer.getvalue())
    return samples


def _kinds_of_machines() -> list[bytes]:
    return [bytes([kind]) for kind in range(len(_MACHINES))]


def _seed_of_numbers(raw: bytes, rng: np.random.Generator) -> bytes:
    return raw + rng.bytes(8)


def _refusals_of_exports() -> tuple[type[BaseException], ...]:
    from kompakt.export.common import ParityError

    return ModelFileError, ParityError, TypeError, ValueError


def _refusals_of_checkpoints() -> tuple[type[BaseException], ...]:
    from kompakt.checkpoint import CheckpointError

    return (CheckpointError,)


_RANGES = (b"x\n-1 1\n1 4.3 7.9\n2 2 4.4\n4 0.1 2.5\n", b"y\n-1 1\n0 10\nx\n0 1\n1 -1e3 1e3\n")

TARGETS = {
    "model files": Target(_read_model_file, mutators.mutate_model_file, _files("golden/*.kompakt"), (ModelFileError,)),
    "exports": Target(_export, mutators.mutate_model_file, _files("golden/*.kompakt"), _refusals_of_exports()),
    "svmlight rows": Target(_read_svmlight, mutators.mutate_svmlight, _svmlight_samples, (ValueError,), ".svm"),
    "CSV rows": Target(_read_csv, mutators.mutate_csv, _csv_samples, (ValueError,), ".csv"),
    "LIBSVM models": Target(_read_libsvm, mutators.mutate_libsvm, _files("libsvm/*.model"), (ModelFileError,)),
    "range files": Target(_read_range, mutators.mutate_range, lambda: list(_RANGES), (ModelFileError,)),
    "rows of commands": Target(
        _read_for_command, _mutate_rows, lambda: [*_csv_samples(), *_svmlight_samples()], _refusals_of_commands()
    ),
    "array files": Target(_read_arrays, mutators.mutate_arrays, _array_samples, (ValueError,)),
    "Parquet rows": Target(_read_parquet, mutators.mutate_bytes, _parquet_samples, (ValueError,), ".parquet"),
    "checkpoints": Target(_resume, mutators.mutate_model_file, _checkpoints, _refusals_of_checkpoints()),
    "numbers": Target(_fit_odd_numbers, _seed_of_numbers, _kinds_of_machines, (ValueError,), seconds=10.0),
}


# -------------------------------------------------------------------------------------------- batches


class _TooLong(BaseException):
    """The timer of a case; no reader may catch it."""


def damaged(target: Target, case: int) -> bytes:
    """The file of a case."""
    sources = target.sources()
    return target.mutate(sources[case % len(sources)], np.random.default_rng([SEED, case]))


def fuzz(target: Target, start: int, stop: int, batch: int = BATCH) -> Found:
    """Run the cases start..stop in forked batches; a batch that dies goes on behind the case that killed it."""
    found = Found()
    sources = list(target.sources())
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a hundred thousand writes are not for a disk
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        path = os.path.join(folder, f"case{target.suffix}")
        for source in sources:  # sound files are read in this process: caches and compiled code are then shared
            Path(path).write_bytes(source)
            target.read(path)
        while start < stop:
            part, start = _run_batch(target, sources, path, start, min(start + batch, stop))
            found.add(part)
    return found


def _run_batch(target: Target, sources: list[bytes], path: str, start: int, stop: int) -> tuple[Found, int]:
    """Findings of a batch, and the case that comes next."""
    current = mmap.mmap(-1, 8)  # shared with the child: the case it is at
    current[:] = struct.pack("q", start)
    ear, mouth = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ear)
        _child(target, sources, path, range(start, stop), current, mouth)
    os.close(mouth)
    text, silent = _listen(ear, child, current)
    os.close(ear)
    _, status = os.waitpid(child, 0)
    at = struct.unpack("q", current[:])[0]
    if status == 0 and text:
        record = json.loads(text)
        record["reasons"] = set(record["reasons"])
        record["failures"] = [(case, what) for case, what in record["failures"]]
        return Found(**record), stop
    what = f"no answer for {SILENCE:g} s" if silent else f"the process died (wait status {status})"
    return Found(cases=at - start + 1, failures=[(at, what)]), at + 1


def _listen(ear: int, child: int, current: mmap.mmap) -> tuple[str, bool]:
    """What the child says, and whether it had to be killed because it stayed at one case."""
    pieces: list[bytes] = []
    last, since = current[:], time.monotonic()
    began = used = 0.0  # processor seconds of the child when it came to the case, and when it was last seen at work
    while True:
        if select.select([ear], [], [], 1.0)[0]:
            piece = os.read(ear, 1 << 16)
            if not piece:
                return b"".join(pieces).decode(), False
            pieces.append(piece)
        now = _processor_seconds(child)
        if current[:] != last:
            last, since, began, used = current[:], time.monotonic(), now, now
        elif now > used and now - began < SILENCE:  # at work, if slowly: others use the processor too
            since, used = time.monotonic(), now
        elif time.monotonic() - since > SILENCE:
            os.kill(child, signal.SIGKILL)
            return "", True


def _processor_seconds(child: int) -> float:
    fields = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _child(target: Target, sources: list[bytes], path: str, cases: range, current: mmap.mmap, mouth: int) -> NoReturn:
    status = 1
    faulthandler.disable()  # a crash is what the parent reports, not a page of text
    try:
        found = _cases(target, sources, path, cases, current)
        record = {**vars(found), "reasons": sorted(found.reasons)}
        with os.fdopen(mouth, "w") as file:
            json.dump(record, file)
        status = 0
    finally:
        os._exit(status)


def _cases(target: Target, sources: list[bytes], path: str, cases: range, current: mmap.mmap) -> Found:
    warnings.simplefilter("ignore")
    _limit_memory()
    signal.signal(signal.SIGPROF, _too_long)
    found = Found()
    limit = MAX_SECONDS if target.seconds is None else target.seconds
    at_first = _resident()
    for case in cases:
        current[:] = struct.pack("q", case)
        raw = target.mutate(sources[case % len(sources)], np.random.default_rng([SEED, case]))
        with open(path, "wb") as file:
            file.write(raw)
        began = time.process_time()
        try:
            signal.setitimer(signal.ITIMER_PROF, limit)
            try:
                target.read(path)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            found.accepted += 1
        except target.documented as error:
            found.reasons.add(type(error).__name__ + ": " + str(error).replace(path, "")[:40])
        except _TooLong:
            found.failures.append((case, f"more than {limit:g} s"))
        except BaseException as error:
            found.failures.append((case, repr(error)[:300]))
        found.cases += 1
        found.seconds = max(found.seconds, time.process_time() - began)
    found.megabytes = max(0.0, _peak() - at_first)
    return found


def _too_long(*_: Any) -> NoReturn:
    raise _TooLong


def _limit_memory() -> None:
    """Allow what the process has now and `MAX_BYTES` more (address space, where the system counts it)."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MAX_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
