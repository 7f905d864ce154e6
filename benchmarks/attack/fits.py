"""Fits that are killed, and fits on a Dask cluster that goes wrong.

Killed fits: a process that trains with a checkpoint ends at a moment drawn from the processor time of the whole fit, up
to three times; then it goes on from its checkpoint, and must end in the machine of an undisturbed fit, to the last bit.

Dask fits: a fault of the cluster or of a partition while a machine is trained on it.  The fit must end in the machine
of the arrays, to the last bit, or in the documented error, which names the partition or the cluster.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attack.files import ROOT, SEED, Found

MAX_SECONDS = 60.0  # of the processor, for a fit that goes on
PATIENCE = 300.0  # seconds that a fit may wait for something that does not come

# ------------------------------------------------------------------------------------------ killed fits


def machines() -> dict[str, Any]:
    """Machines of every kind that keeps a journal, each trained in half a second or less."""
    import kompakt as k

    return {
        "CompactSVC": k.CompactSVC(n_basis=6, refine=k.Refinement(15), random_state=0),
        "CompactSVC, tuned": k.CompactSVC(n_basis=4, refine=False, selection="random", tune=True, random_state=0),
        "CompactSVC, hinge": k.CompactSVC(n_basis=4, refine=k.Refinement(3), loss="hinge", random_state=0),
        "CompactSVC, sized": k.CompactSVC(n_basis="auto", refine=False, random_state=0),
        "CompactSVR": k.CompactSVR(n_basis=8, refine=k.Refinement(15), random_state=0),
        "SpSVC": k.SpSVC(n_basis=30, random_state=0),
        "FEESVR": k.FEESVR(n_basis=k.AutoSize(8, 8), random_state=0),
        "FixedSizeLSSVC, tuned": k.FixedSizeLSSVC(n_basis=10, tune=True, cv=3, random_state=0),
        "FixedSizeLSSVR": k.FixedSizeLSSVR(n_basis=k.AutoSize(sizes=[5, 10]), random_state=0),
        "ProjectedKernelFisher": k.ProjectedKernelFisher(n_basis=40, random_state=0),
    }


def train(machine: Any, path: str | None) -> Any:
    """A machine trained on a few rows, with a checkpoint."""
    from sklearn.base import clone

    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 4))
    score = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=len(X))
    y = score if type(machine).__name__.endswith("SVR") else np.digitize(score, [-0.7, 0.7])
    return clone(machine).fit(X, y, checkpoint=path)


def bits_of(fitted: Any) -> tuple[bytes, ...]:
    """The numbers of a machine."""
    return tuple(getattr(fitted, name).tobytes() for name in ("basis_vectors_", "dual_coef_", "intercept_"))


def _forked(act: Callable[[], int], seconds: float) -> int:
    """How a child ended that does `act`; it is killed after so many seconds of the processor."""
    child = os.fork()
    if child == 0:
        status = 2
        try:
            # no handler: the system ends the process where it is, as SIGKILL does
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.alarm(int(PATIENCE))
            status = act()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_fits(cases: range) -> Found:
    """Fits that end at drawn moments and go on."""
    import kompakt.checkpoint

    def fit(name: str, path: str, often: bool) -> int:
        if often:
            kompakt.checkpoint._SHARE = 1e9  # in a child: every round is written
        return 0 if bits_of(train(kinds[name], path)) == whole[name] else 1

    kinds, found = machines(), Found()
    names, whole, took = list(kinds), {}, {}
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        for case in cases:
            rng, name, path = np.random.default_rng([SEED, case]), names[case % len(names)], f"{folder}/{case}"
            if name not in whole:
                train(kinds[name], None)  # what is compiled is compiled
                began = time.process_time()
                whole[name] = bits_of(train(kinds[name], path))
                took[name] = time.process_time() - began
            often = bool(rng.integers(2))
            for _ in range(int(rng.integers(1, 4))):
                share = rng.uniform(0.02, 1.0)
                while _forked(partial(fit, name, path, often), share * took[name]) == 0:
                    share /= 2  # it was done before its moment came
            found.accepted += os.path.exists(path)
            status = _forked(partial(fit, name, path, False), MAX_SECONDS)
            if status or os.listdir(folder):
                what = {0: f"left {os.listdir(folder)}", 1: "another machine", 2: "an error"}.get(status, f"{status}")
                found.failures.append((case, f"{name}: {what}"))
            for left in Path(folder).iterdir():
                left.unlink()
            found.cases += 1
            found.reasons.add(name)
    return found


# -------------------------------------------------------------------------------------------- Dask fits

N_BLOCKS, BLOCK_ROWS, N_FEATURES = 8, 1500, 4
#: a cluster in a process of its own, which ends with its standard input; workers are forks of a process that has loaded
#: everything once
_CLUSTER = """
import dask, distributed
from multiprocessing import forkserver
if __name__ == "__main__":
    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    preload = forkserver.set_forkserver_preload
    forkserver.set_forkserver_preload = lambda names: preload([*names, "kompakt.estimators", "dask.array"])
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0",
                                  silence_logs=50) as here:
        print(here.scheduler_address, flush=True)
        for line in iter(input, "end"):
            here.scale(int(line))
            print("scaled", flush=True)
"""


def read_block(number: int, fault: str, slow: float) -> np.ndarray:
    """Rows of one partition, their targets in the last column."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(BLOCK_ROWS, N_FEATURES))
    score = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=BLOCK_ROWS)
    block = np.column_stack([X, np.digitize(score, [0.0])])
    time.sleep(slow)
    if fault == "reads fail" and int.from_bytes(os.urandom(4), "little") % 10 == 0:
        raise OSError("the disk was away for a moment")
    if number == 3:
        if fault == "cannot be read":
            raise OSError("block 3 cannot be read")
        if fault == "other columns":
            return block[:, :-1]
        if fault == "other rows":
            return block[:-7]
        if fault == "complex":
            return block + 1j
        if fault == "not finite":
            block[5, 1] = np.nan
    return block


def _rows(fault: str, slow: float) -> tuple[Any, Any]:
    import dask
    import dask.array as da

    read = dask.delayed(read_block, pure=True)
    shape = (BLOCK_ROWS, N_FEATURES + 1)
    whole = da.concatenate([da.from_delayed(read(one, fault, slow), shape, float) for one in range(N_BLOCKS)])
    return whole[:, :-1], whole[:, -1]


#: what a fault may end in: None is the machine of the arrays, a text is part of the error
FAULTS: dict[str, tuple[str | None, ...]] = {
    "worker killed": (None,),
    "workers killed": (None,),
    "reads fail": (None, "partition"),  # six failures one after the other are possible
    "workers leave and come": (None,),
    "worker stopped": (None,),
    "no workers": ("the Dask cluster at",),
    "scheduler killed": ("the Dask cluster at",),
    "cannot be read": ("partition 3",),
    "other columns": ("partition 3",),
    "other rows": ("partition 3",),
    "complex": ("complex",),
    "not finite": ("row 4505", "rows 4500", "partition 3"),
}


class Cluster:
    """Two worker processes and a scheduler in processes of their own."""

    def __init__(self) -> None:
        from distributed import Client

        path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert self.process.stdout is not None
        self.client = Client(self.process.stdout.readline().strip(), timeout=30)

    def workers(self) -> list[int]:
        """Process numbers of the workers that have joined."""
        return list(self.client.run(os.getpid, on_error="ignore").values())

    def scale(self, n: int) -> None:
        """Ask for so many workers."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(n, file=self.process.stdin, flush=True)
        self.process.stdout.readline()

    def end(self) -> None:
        """End every process of the cluster."""
        with contextlib.suppress(OSError, TimeoutError):
            self.client.close(timeout=2)
        with contextlib.suppress(OSError):
            self.process.communicate("end\n", timeout=30)
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def _trouble(cluster: Cluster, fault: str, rng: np.random.Generator, seconds: float) -> Iterator[None]:
    """The fault, at a drawn moment of a fit of so many seconds."""
    done = threading.Event()

    def act() -> None:
        for _ in range(3 if fault == "workers killed" else 1):
            if done.wait(float(rng.uniform(0.0, 0.6 * seconds))):
                return
            if fault in ("worker killed", "workers killed"):
                with contextlib.suppress(ProcessLookupError):  # the one that was killed before
                    os.kill(int(rng.choice(pids)), signal.SIGKILL)
                pids[:] = cluster.workers() or pids
            elif fault == "worker stopped":
                stopped = int(rng.choice(pids))
                os.kill(stopped, signal.SIGSTOP)
                time.sleep(1.0)
                os.kill(stopped, signal.SIGCONT)
            elif fault in ("no workers", "workers leave and come"):
                cluster.scale(0)
                if fault != "no workers":
                    time.sleep(0.5)
                    cluster.scale(2)
            elif fault == "scheduler killed":
                cluster.process.kill()

    pids = cluster.workers()
    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def dask_fits(cases: range) -> Found:
    """Fits on a cluster that goes wrong."""
    import dask

    from kompakt import CompactSVC
    from kompakt.data import dask as dask_rows

    logging.disable(logging.CRITICAL)
    dask.config.set({"distributed.comm.timeouts.connect": "3s"})
    found, cluster = Found(), None
    machine = CompactSVC(n_basis=20, refine=False, random_state=0)
    X, y = _rows("", 0.0)
    expected = bits_of(machine.fit(np.asarray(X), np.asarray(y)))
    try:
        for case in cases:
            rng = np.random.default_rng([SEED, case])
            fault = list(FAULTS)[case % len(FAULTS)]
            if cluster is None:
                cluster = Cluster()
                _fit(machine, "", 0.0)  # workers import what they need
                began = time.monotonic()
                _fit(machine, "", 0.02)
                seconds = time.monotonic() - began
            began = time.monotonic()
            dask_rows.PATIENCE = 3.0 if fault in ("no workers", "scheduler killed") else 60.0
            with _trouble(cluster, fault, rng, seconds):
                what = _fit(machine, fault, 0.02)
            ended = time.monotonic() - began
            good = any(
                what == expected if end is None else isinstance(what, str) and end in what for end in FAULTS[fault]
            )
            # it may have been done before its moment came
            good = good or (fault in ("no workers", "scheduler killed") and what == expected)
            if not good:
                told = what if isinstance(what, str) else "another machine"
                found.failures.append((case, f"{fault}: {told[:300]}"))
            found.cases += 1
            found.accepted += what == expected
            found.seconds = max(found.seconds, ended)
            found.reasons.add(f"{fault}: {what[:60] if isinstance(what, str) else 'the same machine'}")
            if fault == "scheduler killed":
                cluster.end()
                cluster = None
            else:
                cluster.scale(2)
                cluster.client.wait_for_workers(2, timeout=PATIENCE)
    finally:
        if cluster is not None:
            cluster.end()
    return found


def _fit(machine: Any, fault: str, slow: float) -> tuple[bytes, ...] | str:
    """The bits of a machine, or the words of a documented error."""
    from sklearn.base import clone

    from kompakt.data.dask import BlockError, ClusterError

    X, y = _rows(fault, slow)
    try:
        return bits_of(clone(machine).fit(X, y))
    except (BlockError, ClusterError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


# --------------------------------------------------------------------------------------------- running

ATTACKS = {"killed fits": killed_fits, "Dask fits": dask_fits}


def fits(name: str, start: int, stop: int) -> Found:
    """Run the cases start..stop of an attack in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.attack.fits", name, str(start), str(stop)]
    path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    limit = PATIENCE * (1 + stop - start)
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, timeout=limit)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    record = json.loads(done.stdout.splitlines()[-1])
    record["reasons"], record["failures"] = set(record["reasons"]), [(case, what) for case, what in record["failures"]]
    return Found(**record)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    result = ATTACKS[sys.argv[1]](range(int(sys.argv[2]), int(sys.argv[3])))
    print(json.dumps({**vars(result), "reasons": sorted(result.reasons)}))
