"""Worker processes killed during a fit on a cluster, blocks that fail now and then, a block that always fails.

    python -m benchmarks.scale.worker_kills [--quick] [--fresh]

A fit on two worker processes is disturbed by one to three SIGKILLs of workers at random moments; it must end in the
undisturbed machine, to the last bit, within four times the undisturbed time.  Dask's nannies start new workers.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Run, Target, at_most
from benchmarks.scale.cluster import lazy_rows, local_client, machine_of

N_BLOCKS = 16
ALL = Target("all", lambda row: row["ours"] == row["paper"])


def estimator() -> Any:
    """The machine that is trained."""
    from kompakt import CompactSVC

    return CompactSVC(n_basis=300, refine=False, random_state=0)


def timed_fit(**trouble: Any) -> tuple[tuple[bytes, ...], float]:
    """The bits of the machine and the seconds of the fit."""
    X, y = lazy_rows(N_BLOCKS, **trouble)
    began = time.monotonic()
    return machine_of(estimator().fit(X, y)), time.monotonic() - began


def kill_workers(client: Any, moments: list[float], killed: list[int], done: threading.Event) -> None:
    """Kill one of the cluster's own worker processes at each moment, counted from now.

    Only workers that have joined: a nanny whose worker dies while it starts takes that for a broken set-up.
    """
    began = time.monotonic()
    for moment in moments:
        done.wait(max(0.0, began + moment - time.monotonic()))
        while not done.is_set():
            joined = client.scheduler_info(n_workers=-1)["workers"]
            pids = [n.pid for n in client.cluster.workers.values() if n.pid and n.worker_address in joined]
            if pids:
                os.kill(pids[int(moment * 1e6) % len(pids)], signal.SIGKILL)
                killed.append(pids[0])
                break
            time.sleep(0.05)


def killed_fits(n_fits: int, seed: int) -> dict[str, Any]:
    """Disturbed fits: how many end in the same machine in time."""
    rng = np.random.default_rng(seed)
    fits: list[tuple[bool, float]] = []
    kills = 0
    with local_client(2) as client:
        timed_fit()  # workers have imported what they need
        expected, before = timed_fit()
        for _ in range(n_fits):
            moments = sorted(rng.uniform(0.0, 0.9 * before, size=rng.integers(1, 4)).tolist())
            killed: list[int] = []
            done = threading.Event()
            killer = threading.Thread(target=kill_workers, args=(client, moments, killed, done))
            killer.start()
            found, seconds = timed_fit()
            done.set()
            killer.join()
            kills += len(killed)
            fits.append((found == expected and bool(killed), seconds))
            print(
                f"    {len(killed)} kills, same: {found == expected}, {seconds:.1f} s, {before:.1f} s without",
                flush=True,
            )
            client.cluster.scale(2)
            client.wait_for_workers(2, timeout=120)
        _, after = timed_fit()
    # the load of a shared machine changes: compare with what is before and after
    ratios = [2.0 * seconds / (before + after) for _, seconds in fits]
    good = sum(same and ratio <= 4.0 for (same, _), ratio in zip(fits, ratios, strict=True))
    return {
        "ours": good,
        "paper": n_fits,
        "identical": sum(same for same, _ in fits),
        "kills": kills,
        "ratios": ratios,
        "note": f"{kills} kills; at most {max(ratios):.2f}, on average {np.mean(ratios):.2f} times the time",
    }


def flaky_fits(n_fits: int) -> dict[str, Any]:
    """Fits with one read in ten failing."""
    with local_client(2):
        expected, seconds = timed_fit()
        found = [timed_fit(failures=0.1) for _ in range(n_fits)]
    good = sum(one == expected for one, _ in found)
    slowest = max(duration for _, duration in found)
    return {"ours": good, "paper": n_fits, "note": f"{slowest:.1f} s at most, {seconds:.1f} s without failures"}


def poisoned_fit() -> dict[str, Any]:
    """Seconds until a fit with a block that cannot be read says which."""
    with local_client(2):
        X, y = lazy_rows(N_BLOCKS, poisoned=4)
        began = time.monotonic()
        try:
            estimator().fit(X, y)
        except RuntimeError as error:
            named = "partition 4" in str(error)
            return {"ours": time.monotonic() - began if named else np.inf, "note": str(error)[:90]}
    raise AssertionError("a block that cannot be read was read")


def main() -> int:
    """Measure and print the table."""
    run = Run("scale_worker_kills", "Workers killed, reads that fail", quick_minutes=3, full_minutes=20)
    parts, fits = (1, 2) if run.quick else (6, 5)
    for part in range(parts):
        run.row(f"kills of workers, part {part + 1}", {"fits": fits}, partial(killed_fits, fits, part), ALL)
    n_flaky = 2 if run.quick else 20
    run.row("one read in ten fails", {"fits": n_flaky}, partial(flaky_fits, n_flaky), ALL)
    run.row("a block that cannot be read", {}, poisoned_fit, at_most(60.0), unit="s")
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
