"""Faults while kompakt writes and reads: a full disk, errors of input and output, short writes, SIGKILL at any call.

A shim (fault.c) is loaded before libc into one process, which forks for every case, arms the shim in the child and lets
it write or read.  What must hold afterwards:

- an error is an OSError (or, while reading, a ValueError), and the old files are there, whole, and alone;
- after a kill the file is the old one or the new one, whole; what was left beside it is gone after the next save;
- a short write or read changes nothing: the new file, or the right model.

A case number makes a case again: `run_case(17, folder)` in a process with the shim.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attack.files import ROOT, SEED, Found

FAULTS = {"no space": 1, "I/O error": 2, "short": 3, "kill": 4}
_WRITES, _READS = 1, 2


@dataclass(frozen=True)
class Operation:
    """Something that writes files `names` in a folder, or reads them."""

    family: int
    names: tuple[str, ...]
    act: Callable[[str, int], Any]  # with a folder, and the number of a version: 0 is the old one, 1 the new one


def _model(version: int, table: bool = False) -> Any:
    import kompakt
    from kompakt.data.table import TableSchema
    from kompakt.inputs import Inputs
    from kompakt.kernels import RBF

    rng = np.random.default_rng(version)
    columns = [f"{name}{version}" for name in "xyz"]
    schema = TableSchema.infer({name: rng.normal(size=5) for name in columns}) if table else None
    return kompakt.Model(
        RBF(0.5), rng.normal(size=(300, 3)), rng.normal(size=(300, 3)), np.zeros(3), "classifier", 3,
        np.array(["a", "b", "c"]), "one_vs_rest",
        inputs=Inputs(schema, shift=np.ones(3), scale=np.full(3, 2.0 + version)),
    )  # fmt: skip


def _save(folder: str, version: int) -> None:
    import kompakt

    kompakt.save(_model(version), os.path.join(folder, "model.kompakt"))


def _export(format: str, table: bool = False) -> Callable[[str, int], None]:
    def act(folder: str, version: int) -> None:
        import kompakt

        getattr(kompakt, f"to_{format}")(_model(version, table), os.path.join(folder, "model.out"))

    return act


def _rows(folder: str, version: int) -> None:
    """The predictions of the command line, which are written as they are made."""
    from kompakt.cli.predict import write_predictions
    from kompakt.data.streamed import Raw

    parts = [Raw(np.random.default_rng([version, part]).normal(size=(2000, 3))) for part in range(3)]
    write_predictions(_model(version), parts, os.path.join(folder, "rows.csv"), scores=True)


def _load(folder: str, version: int) -> bytes:
    import kompakt

    return kompakt.load(os.path.join(folder, "model.kompakt")).weights.tobytes()


OPERATIONS = {
    "save": Operation(_WRITES, ("model.kompakt",), _save),
    "to_numpy": Operation(_WRITES, ("model.out",), _export("numpy")),
    "to_numpy of tables": Operation(_WRITES, ("model.out", "model.out.schema.json"), _export("numpy", table=True)),
    "to_c": Operation(_WRITES, ("model.out",), _export("c")),
    "to_libsvm": Operation(_WRITES, ("model.out", "model.out.range", "model.out.labels"), _export("libsvm")),
    "predictions": Operation(_WRITES, ("rows.csv",), _rows),
    "load": Operation(_READS, ("model.kompakt",), _load),
}


def contents(folder: str) -> dict[str, bytes]:
    """Every file of a folder."""
    return {name: Path(folder, name).read_bytes() for name in sorted(os.listdir(folder))}


class Prepared:
    """The files of both versions of every operation, and how many calls each makes."""

    def __init__(self, shim: ctypes.CDLL) -> None:
        self.shim = shim
        self.files: dict[str, list[dict[str, bytes]]] = {}
        self.calls: dict[str, int] = {}
        for name, operation in OPERATIONS.items():
            self.files[name] = []
            for version in (0, 1):
                with tempfile.TemporaryDirectory() as folder:
                    if operation.family == _READS:
                        _save(folder, version)
                    shim.fault_arm(operation.family, 0, ctypes.c_long(-1))
                    operation.act(folder, version)
                    self.calls[name] = int(shim.fault_seen())
                    shim.fault_arm(0, 0, ctypes.c_long(-1))
                    self.files[name].append(contents(folder))


def run_case(case: int, prepared: Prepared) -> tuple[str, str]:
    """What happened in a case, and what is wrong with it ("" if nothing is)."""
    rng = np.random.default_rng([SEED, case])
    name = list(OPERATIONS)[int(rng.integers(len(OPERATIONS)))]
    fault = list(FAULTS)[int(rng.integers(len(FAULTS)))]
    operation, call = OPERATIONS[name], int(rng.integers(prepared.calls[name]))
    old, new = prepared.files[name]
    fresh = operation.family == _WRITES and rng.random() < 0.2  # nothing is there yet
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        before = {} if fresh else old
        for file, raw in before.items():
            Path(folder, file).write_bytes(raw)
        child = os.fork()
        if child == 0:
            os._exit(_faulted(operation, folder, prepared.shim, FAULTS[fault], call))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found = contents(folder)
        what = f"{name}, {fault} at call {call}: " + {0: "done", 3: "refused"}.get(status, f"status {status}")
        if status not in (0, 3) and not (fault == "kill" and status == -signal.SIGKILL):
            return what, "an undocumented exception or a crash"
        if operation.family == _READS:
            return what, "" if found == before else "reading changed files"
        if status == 0 and found != new:
            return what, "done, but the files are not the new ones"
        if status == 3 and found != before:
            return what, "refused, but the old files are not as they were"
        if fault == "kill" and status != 0:
            if not _whole({file: raw for file, raw in found.items() if file in operation.names}, before, new):
                return what, "killed, and a file is neither the old nor the new one"
            operation.act(folder, 1)
            if contents(folder) != new:
                return what, "something is left after the save that followed"
        return what, ""


def _whole(found: dict[str, bytes], before: dict[str, bytes], new: dict[str, bytes]) -> bool:
    return all(raw in (before.get(file), new.get(file)) for file, raw in found.items())


def _faulted(operation: Operation, folder: str, shim: ctypes.CDLL, fault: int, call: int) -> int:
    """Exit code of a child: 0 done (and right), 3 a documented error, 1 anything else."""
    signal.alarm(60)
    try:
        shim.fault_arm(operation.family, fault, ctypes.c_long(call))
        result = operation.act(folder, 1)
        shim.fault_arm(0, 0, ctypes.c_long(-1))
        return 0 if operation.family == _WRITES or result == _load(folder, 0) else 1
    except (OSError, ValueError):
        return 3
    except BaseException:
        return 1


def faulted(start: int, stop: int) -> Found:
    """Run the cases start..stop in a process with the shim."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("the faults of the disk are made by a small C library; no C compiler was found.")
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "fault.so")
        source = str(Path(__file__).with_name("fault.c"))
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        command = [sys.executable, "-m", "benchmarks.attack.writes", str(start), str(stop), library]
        environment = {**os.environ, "LD_PRELOAD": library, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    record = json.loads(done.stdout.splitlines()[-1])
    record["reasons"], record["failures"] = set(record["reasons"]), [(case, what) for case, what in record["failures"]]
    return Found(**record)


def _main(start: int, stop: int, library: str) -> None:
    import warnings

    warnings.simplefilter("ignore")
    prepared = Prepared(ctypes.CDLL(library))
    found = Found()
    for case in range(start, stop):
        what, wrong = run_case(case, prepared)
        found.cases += 1
        found.accepted += "done" in what
        found.reasons.add(what.split(" at call")[0] + what[what.rindex(":") :])
        if wrong:
            found.failures.append((case, f"{what}; {wrong}"))
    print(json.dumps({**vars(found), "reasons": sorted(found.reasons)}))


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
