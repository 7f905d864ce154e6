"""Two worker processes against one on a fit that is arithmetic, and what a pass costs besides.

python -m benchmarks.scale.workers [--quick] [--fresh]
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Run, alternate, at_least
from benchmarks.scale.cluster import lazy_rows, local_client, machine_of

#: rows of a partition where the arithmetic is measured
PARTITION = 40_000


def estimator(n_basis: int) -> Any:
    """The machine that is trained."""
    from kompakt import CompactSVC

    # a basis by hash: choosing it in Gram space would be arithmetic of the driver
    return CompactSVC(n_basis=n_basis, selection="random", refine=False, random_state=0)


def speed_up(n_blocks: int, n_basis: int, rounds: int) -> dict[str, Any]:
    """Time with one worker over time with two, alternating."""
    X, y = lazy_rows(n_blocks, PARTITION)
    machines: dict[str, tuple[bytes, ...]] = {}
    with local_client(1) as one, local_client(2) as two:

        def fit(name: str, client: Any) -> None:
            with client.as_current():
                machines[name] = machine_of(estimator(n_basis).fit(X, y))

        timings = alternate({"one": partial(fit, "one", one), "two": partial(fit, "two", two)}, rounds=rounds)
    assert machines["one"] == machines["two"]
    return {
        "ours": timings.ratio("one", "two"),
        "seconds": timings.summary(),
        "noise": timings.noise(),
        "note": f"{timings.median('one'):.1f} s with one, {timings.median('two'):.1f} s with two, the same bits",
    }


def count_rows(block: Any) -> tuple[np.ndarray, ...]:
    """A pass that does nothing."""
    return (np.array(float(len(block))),)


def pass_cost(n_blocks: int, passes: int) -> dict[str, Any]:
    """Seconds of an empty pass over persisted rows: Dask's overhead, and the driver's own share of it."""
    from kompakt.data import RowReader, StreamedRows
    from kompakt.data.dask import DaskSource

    with local_client(2) as client:
        X, y = client.persist(lazy_rows(n_blocks))
        rows = StreamedRows(RowReader(DaskSource(X, y)))
        rows.map_reduce(count_rows, 1024)
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(passes):
            total = rows.map_reduce(count_rows, 1024)[0]
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert total == rows.n_rows
    return {
        "ours": 1e3 * wall / passes,
        "driver_cpu": 1e3 * cpu / passes,
        "note": f"of which {1e3 * cpu / passes:.0f} ms of the driver's processor (client and scheduler)",
    }


def main() -> int:
    """Measure and print the table."""
    run = Run("scale_workers", "Two workers against one", quick_minutes=1, full_minutes=5)
    n_blocks, n_basis, rounds = (4, 100, 1) if run.quick else (12, 200, 5)
    facts = {"rows": n_blocks * PARTITION, "n_basis": n_basis}
    run.row("two workers against one", facts, partial(speed_up, n_blocks, n_basis, rounds), at_least(1.5), unit="x")
    for blocks in (8,) if run.quick else (16, 64):
        run.row(f"an empty pass, {blocks} partitions", {}, partial(pass_cost, blocks, 10), unit="ms")
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
