"""`kompakt auto FILE`, and nothing else, on every table of tests/cli/tables: exit code, seconds and held-out result.

    python -m benchmarks.tables [NAME ...]

The tests run the same files without the search, which takes most of the time. Here every command is a process of its
own, so that what it prints is what a person sees: a traceback fails the run, and so does an exit code that the case
does not expect. Cases that are meant for a flag (a sign of missing values, a decimal comma) run without it too: they
must end without a traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

import kompakt

CASES = import_module("tests.cli.tables.files").CASES  # the tests have no types to check


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only files whose names contain one of these")
    options = parser.parse_args()
    cases = [case for case in CASES if not options.names or any(name in case.name for name in options.names)]
    # the package of this process: a relative PYTHONPATH means another folder in the commands
    environment = os.environ | {"PYTHONPATH": str(Path(kompakt.__file__).resolve().parents[1])}
    n_good = n_wrong = 0
    print(f"{'file':<44} {'exit':>4} {'seconds':>7}  result")
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            path = Path(folder, case.name)
            case.write(path)
            began = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-m", "kompakt", "auto", path.name, "--json"],
                cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300,
            )  # fmt: skip
            seconds = time.monotonic() - began
            good = done.returncode == 0
            n_good += good
            said = done.stderr.strip().splitlines()
            result = said[-1] if said else ""
            if good:
                test = json.loads(done.stdout)["test"]
                name = "accuracy" if "accuracy" in test else "r2"
                result = f"{name} {test[name]:.3f}"
            wrong = "Traceback" in done.stderr + done.stdout or (not case.flags and good == case.fails)
            n_wrong += wrong
            flags = f"  (meant for {' '.join(case.flags)})" if case.flags else ""
            print(
                f"{case.name:<44} {done.returncode:>4} {seconds:>7.1f}  {result}{flags}{'  WRONG' if wrong else ''}",
                flush=True,
            )
            if wrong:
                print(done.stderr, flush=True)
    print(f"{n_good} of {len(cases)} files give a model; {n_wrong} wrong")
    return int(n_wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
