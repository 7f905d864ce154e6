"""Ctrl-C at random moments of a fit: how long until control returns, and what is left of the estimator.

    python -m benchmarks.interrupts [--moments 20] [--seed 0] [--rows 50000]

Every moment is a fresh process, told by a signal as a terminal would tell it.  The moments are spread over the time
that an undisturbed fit takes.  A fit must give control back within a second, and the estimator must either predict
or raise NotFittedError.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time

#: name -> expression that makes the machine
MACHINES = {
    "CompactSVC": "kompakt.CompactSVC(n_basis=60, random_state=0)",
    "SpSVC": "kompakt.SpSVC(n_basis=80, random_state=0)",
    "FEESVC": "kompakt.FEESVC(n_basis=kompakt.AutoSize(60, 60), validation_fraction=0.3, random_state=0)",
    "CompactSVC search": "kompakt.CompactSVC(n_basis=20, tune=True, random_state=0)",
    "SpSVC search": "kompakt.SpSVC(n_basis=kompakt.AutoSize(largest=20), tune=True, cv=3, random_state=0)",
}

_PROGRAM = """
import json, signal, sys, time, warnings
import numpy as np
import kompakt
from sklearn.exceptions import NotFittedError
n = {rows}
rng = np.random.default_rng(0)
X = rng.normal(size=(n, 8))
y = np.where(np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=n) > 0, "yes", "no")
kompakt.SpSVC(n_basis=2).fit(X[:200], y[:200]).predict(X[:10])  # everything is imported and compiled
machine = {machine}
raised = False
caught = []
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told a background job to ignore it
print("begin", flush=True)
began = time.monotonic()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        machine.fit(X, y)
    except KeyboardInterrupt:
        raised = True
ended = time.monotonic()
try:
    labels = machine.predict(X[:1000])
    state, error = "usable", float(np.mean(labels != y[:1000]))
except NotFittedError:
    state, error = "unfitted", None
print(json.dumps(dict(ended=ended, seconds=ended - began, raised=raised, state=state, error=error,
    fitted=sorted(name for name in vars(machine) if name.endswith("_")),
    told=[str(w.message) for w in caught if "interrupted" in str(w.message)],
    interrupted=getattr(machine, "interrupted_", None))), flush=True)
"""


def one(machine: str, rows: int, moment: float | None) -> dict:
    """Run a fit and interrupt it after `moment` seconds; the clock is the machine's monotonic one."""
    program = _PROGRAM.format(machine=MACHINES[machine], rows=rows)
    command = [sys.executable, "-c", program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    if line.strip() != "begin":
        raise RuntimeError(process.communicate()[1])
    sent = None
    if moment is not None:
        time.sleep(moment)
        sent = time.monotonic()
        if process.poll() is None:
            os.kill(process.pid, signal.SIGINT)
    output, errors = process.communicate()
    if sent is not None and "ended" not in output and "KeyboardInterrupt" in errors:
        return {"until_control": -1.0}  # the signal came after the fit
    if process.returncode or not output.strip():
        # the estimator was left in a state that is neither of the two
        raise RuntimeError(f"{machine} at {moment}: exit code {process.returncode}\n{errors}")
    result = json.loads(output)
    result["moment"] = moment
    result["until_control"] = None if sent is None else result["ended"] - sent
    return result


def sound(result: dict) -> bool:
    """Whether the estimator is usable and says so, or is clearly unfitted and the interrupt was passed on."""
    if result["state"] == "usable":
        return not result["raised"] and bool(result["interrupted"]) and len(result["told"]) == 1
    return result["raised"] and not result["fitted"]


def main() -> None:
    """Print a table, and exit with 1 if a moment fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=20, help="in all, shared by the machines")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--limit", type=float, default=1.0, help="seconds until control must be back")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    names = list(MACHINES)
    whole = {name: one(name, _rows(name, arguments.rows), None)["seconds"] for name in names}
    print("whole fits:", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in whole.items()), flush=True)
    failed = 0
    print(f"{'machine':18} {'moment':>8} {'until control':>14}  state")
    for number in range(arguments.moments):
        name = names[number % len(names)]
        share = rng.uniform(0.02, 0.9)
        result = one(name, _rows(name, arguments.rows), share * whole[name])
        while result["until_control"] < 0:  # the load has changed and the fit was over: earlier, then
            share /= 2
            result = one(name, _rows(name, arguments.rows), share * whole[name])
        good = sound(result) and result["until_control"] < arguments.limit
        failed += not good
        state = result["state"] + (f", error {result['error']:.3f}" if result["state"] == "usable" else "")
        verdict = "" if good else "  FAILED"
        print(f"{name:18} {result['moment']:8.2f} {result['until_control']:14.3f}  {state}{verdict}", flush=True)
    print(f"{arguments.moments - failed} of {arguments.moments} moments are as promised.")
    sys.exit(bool(failed))


def _rows(name: str, rows: int) -> int:
    return rows // 10 if "search" in name or name == "FEESVC" else rows


if __name__ == "__main__":
    main()
