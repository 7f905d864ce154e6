"""SIGKILL of the training process at random moments, with checkpoints on: does every fit resume to the same machine?

    python -m benchmarks.attack.checkpoint_kills [--quick] [--fresh]

For every machine an undisturbed fit is timed.  Then training processes are killed at moments drawn from that time; a
second process resumes each from its checkpoint, and its machine must be the undisturbed one to the last bit.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, Run, Target

#: name -> expression that makes the machine
MACHINES = {
    "CompactSVC": "kompakt.CompactSVC(n_basis=15, refine=kompakt.Refinement(40), random_state=0)",
    "CompactSVC, tuned": "kompakt.CompactSVC(n_basis=5, tune=True, refine=kompakt.Refinement(5), random_state=0)",
    "CompactSVC, hinge": "kompakt.CompactSVC(n_basis=8, loss='hinge', refine=kompakt.Refinement(10), random_state=0)",
    "CompactSVR": "kompakt.CompactSVR(n_basis=30, random_state=0)",
    "SpSVC": "kompakt.SpSVC(n_basis=80, selection=kompakt.GrowthSelector(n_candidates=30), random_state=0)",
    "FixedSizeLSSVC, tuned": "kompakt.FixedSizeLSSVC(n_basis=40, tune=True, random_state=0)",
    "FixedSizeLSSVR": "kompakt.FixedSizeLSSVR(n_basis='auto', random_state=0)",
    "ProjectedKernelFisher": "kompakt.ProjectedKernelFisher(n_basis=150, random_state=0)",
}

#: imports everything once; every line on its standard input forks a process that trains
_PROGRAM = """
import json, os, signal, sys, time
import numpy as np
import kompakt
rng = np.random.default_rng(0)
kompakt.CompactSVC(n_basis=2, n_jobs=1).fit(rng.normal(size=(200, 3)), rng.normal(size=200) > 0)  # compiled
for line in sys.stdin:
    order = json.loads(line)
    begun, tell = os.pipe()
    child = os.fork()
    if not child:
        X = rng.normal(size=(order["n_rows"], 8))
        score = np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=len(X))
        machine = eval(order["machine"])
        y = score if "SVR" in type(machine).__name__ else np.digitize(score, [-0.3, 0.3])
        os.write(tell, b"!")
        began = time.monotonic()
        machine.fit(X, y, checkpoint=order["path"])
        np.savez(order["result"], seconds=time.monotonic() - began, basis=machine.basis_vectors_,
                 weights=machine.dual_coef_, intercept=machine.intercept_)
        os._exit(0)
    os.close(tell)
    os.read(begun, 1)
    os.close(begun)
    if order["kill_after"] is not None:
        until = time.monotonic() + order["kill_after"]
        while time.monotonic() < until and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            time.sleep(0.002)
        os.kill(child, signal.SIGKILL)  # ended or not, it has not been waited for: the number is still its own
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Trainer:
    """Starts training processes, and kills them."""

    def __init__(self, n_rows: int, folder: Path) -> None:
        self.n_rows, self.folder = n_rows, folder
        self._parent = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.communicate()

    def train(self, machine: str, path: Path, kill_after: float | None = None) -> dict[str, np.ndarray] | None:
        """The arrays of a fit, or None if it was killed."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        result = self.folder / "result.npz"
        order = {"machine": machine, "n_rows": self.n_rows, "path": str(path), "result": str(result)}
        print(json.dumps({**order, "kill_after": kill_after}), file=self._parent.stdin, flush=True)
        status = int(self._parent.stdout.readline())
        if status == -signal.SIGKILL:
            return None
        if status:
            raise RuntimeError(f"the training process ended with status {status}")
        with np.load(result) as stored:
            return {name: stored[name] for name in stored.files}


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    """Whether two machines agree to the last bit."""
    return all(np.array_equal(one[name], other[name]) for name in ("basis", "weights", "intercept"))


def measure(machine: str, n_kills: int, n_rows: int, seed: int) -> dict[str, Any]:
    """Kill and resume `n_kills` fits; count those that end in the undisturbed machine."""
    rng = np.random.default_rng(seed)
    good = hit = 0
    seconds = []
    with tempfile.TemporaryDirectory() as name, Trainer(n_rows, Path(name)) as trainer:
        path = Path(name, "fit.checkpoint")
        whole = trainer.train(machine, path)
        assert whole is not None
        longest = float(whole["seconds"])
        while hit < n_kills:
            ended = trainer.train(machine, path, kill_after=float(rng.uniform(0.0, longest)))
            if ended is not None:  # before its moment came: no kill
                longest = min(longest, float(ended["seconds"]))
                continue
            hit += 1
            resumed = trainer.train(machine, path)
            assert resumed is not None
            seconds.append(float(resumed["seconds"]))
            good += same(whole, resumed)
    return {
        "ours": good,
        "paper": n_kills,
        "seconds_undisturbed": float(whole["seconds"]),
        "seconds_after_resuming": float(np.mean(seconds)),
        "note": f"{float(whole['seconds']):.1f} s whole, {np.mean(seconds):.1f} s after resuming",
    }


ALL = Target("all", lambda row: row["ours"] == row["paper"])


def main() -> int:
    """Measure every machine and print the table."""
    run = Run("scale_checkpoint_kills", "Fits killed at random moments and resumed", quick_minutes=1, full_minutes=16)
    machines = dict(list(MACHINES.items())[:2]) if run.quick else MACHINES
    per_machine = 2 if run.quick else -(-200 // len(machines))
    total = 0
    for number, (name, machine) in enumerate(machines.items()):
        row = run.row(
            name,
            {"kills": per_machine, "rows": 800},
            partial(measure, machine, per_machine, 800, number),
            ALL,
        )
        total += 0 if row is None else row["ours"]
    print(json.dumps({"kills": per_machine * len(machines), "identical": total}))
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
