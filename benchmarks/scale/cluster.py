"""A cluster on this machine and rows that its tasks make themselves: what the Dask benchmarks share."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

BLOCK_ROWS, FEATURES = 5000, 8


@contextmanager
def local_client(n_workers: int) -> Iterator[Any]:
    """A client of `n_workers` processes of one thread each, on the loopback interface, ended at the end."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def read_block(number: int, rows: int = BLOCK_ROWS, failures: float = 0.0, poisoned: int = -1) -> np.ndarray:
    """Rows of one block with their labels in the last column; reading may fail."""
    if number == poisoned:
        raise OSError(f"block {number} cannot be read")
    if random.SystemRandom().random() < failures:
        raise OSError("the disk was away for a moment")
    rng = np.random.default_rng(number)
    X = rng.normal(size=(rows, FEATURES))
    score = np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=rows)
    return np.column_stack([X, score > 0])


def lazy_rows(n_blocks: int, rows: int = BLOCK_ROWS, **trouble: Any) -> tuple[Any, Any]:
    """X and y as Dask arrays whose blocks are read anew in every pass."""
    import dask
    import dask.array as da

    read = dask.delayed(read_block, pure=True)
    blocks = [read(number, rows, **trouble) for number in range(n_blocks)]
    whole = da.concatenate([da.from_delayed(one, (rows, FEATURES + 1), float) for one in blocks])
    return whole[:, :FEATURES], whole[:, FEATURES]


def machine_of(fitted: Any) -> tuple[bytes, ...]:
    """The bits of a machine."""
    return tuple(getattr(fitted, name).tobytes() for name in ("basis_vectors_", "dual_coef_", "intercept_"))
