"""Where streamed rows come from: a source reads ranges of raw rows, and nothing else.

A `Source` knows its shape before anything is computed (`n_rows`, `n_features`, `dtype`, `is_sparse`, names) and hands
out raw rows by number: ``read(start, stop)`` gives a `Raw` of X, y and w.  It keeps no rows (at most a few decoded
chunks), it may be asked by several threads at once, and it can be pickled, so that a task on another machine can
carry it.  Everything else, from labels to centring, is the work of `kompakt.rows.streamed`.

To add a source, give `read` (rows that can be read at any place) or derive from `ChunkedSource` and give `load`
(rows that come in chunks: row groups, byte ranges, partitions).  A source that can only be read from the front sets
`sequential`: its rows are then read in the calling thread, in order.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse


@dataclass(frozen=True, slots=True)
class Raw:
    """Rows as they were stored: X (n, d) dense or CSR, y (n,) or (n, L) or None, w (n,) or None."""

    X: Any
    y: np.ndarray | None = None
    w: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def part(self, rows: Any) -> Raw:
        """Some of the rows: a slice, numbers or a mask."""
        return Raw(self.X[rows], None if self.y is None else self.y[rows], None if self.w is None else self.w[rows])


def join(parts: list[Raw]) -> Raw:
    """Consecutive rows put together."""
    if len(parts) == 1:
        return parts[0]
    X = [part.X for part in parts]
    return Raw(
        sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.concatenate(X),
        None if parts[0].y is None else np.concatenate([part.y for part in parts if part.y is not None]),
        None if parts[0].w is None else np.concatenate([part.w for part in parts if part.w is not None]),
    )


class Source(ABC):
    """Raw rows that are read when they are needed.

    Attributes
    ----------
    n_rows, n_features : int
    dtype : dtype
        float32 or float64, of X.
    is_sparse : bool
        Whether X comes as CSR.
    n_targets : int
        0 without targets, 1 for y of shape (n,), else its columns.
    has_weight : bool
    feature_names : tuple of str or None
    scale : bool
        Whether `fit` standardises the features.
    sequential : bool
        Whether rows can be read only from the front, in order.
    name : str
        What messages call it.
    """

    n_rows: int
    n_features: int
    dtype: np.dtype = np.dtype(np.float64)
    is_sparse: bool = False
    n_targets: int = 0
    has_weight: bool = False
    feature_names: tuple[str, ...] | None = None
    scale: bool = False
    sequential: bool = False
    name: str = "rows"

    @abstractmethod
    def read(self, start: int, stop: int) -> Raw:
        """Rows start..stop as they are stored: X of `dtype`, C-ordered or CSR."""

    def where(self, row: int) -> str:
        """A row in the user's words, for messages."""
        return f"row {row} of {self.name}"

    def cluster(self) -> Any:
        """What runs passes over these rows on other machines (see `kompakt.rows.dask_rows`); None: they run here."""
        return None

    def bounds(self) -> np.ndarray | None:
        """First rows of the natural partitions, then `n_rows`; None where any cut is as good as any other."""
        return None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.n_rows, self.n_features

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        kind = f"{'CSR ' if self.is_sparse else ''}{self.dtype}"
        return f"<{type(self).__name__} {self.name}: {self.n_rows} rows x {self.n_features} features, {kind}>"


class ChunkedSource(Source):
    """Rows in chunks that are decoded as a whole; the last few decoded ones are kept.

    A subclass sets `starts` (first row of every chunk, then `n_rows`) and gives `load`.
    """

    starts: np.ndarray
    #: decoded chunks kept: one per block thread that may be at work, and the next
    keep: int = 4

    @abstractmethod
    def load(self, chunk: int) -> Raw:
        """All rows of a chunk."""

    def bounds(self) -> np.ndarray | None:
        return self.starts

    def read(self, start: int, stop: int) -> Raw:
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        parts, at = [], start
        while at < stop:
            begin, end = int(self.starts[first]), int(self.starts[first + 1])
            if end > at:
                raw = self._decoded(first)
                if len(raw) != end - begin:
                    raise ValueError(
                        f"{self.where(begin)}: expected {end - begin} rows in this part, got {len(raw)}. "
                        "The file has changed since it was opened; open it again."
                    )
                last = min(stop, end)
                parts.append(raw if (at, last) == (begin, end) else raw.part(slice(at - begin, last - begin)))
                at = last
            first += 1
        return join(parts)

    # -- the decoded chunks ----------------------------------------------------------------------------

    def _decoded(self, chunk: int) -> Raw:
        """A chunk from the cache; threads that ask for the same one wait for its first reader."""
        lock, cache = self._shelf()
        with lock:
            waiting = cache.get(chunk)
            mine = waiting is None
            if waiting is None:
                waiting = cache[chunk] = Future()
                while len(cache) > self.keep:
                    cache.popitem(last=False)
            else:
                cache.move_to_end(chunk)
        if mine:
            try:
                waiting.set_result(self.load(chunk))
            except BaseException as error:
                with lock:
                    cache.pop(chunk, None)
                waiting.set_exception(error)
        return waiting.result()

    def _shelf(self) -> tuple[threading.Lock, OrderedDict[int, Future[Raw]]]:
        shelf = self.__dict__.get("_cache")
        if shelf is None:
            shelf = self.__dict__.setdefault("_cache", (threading.Lock(), OrderedDict()))
        return shelf

    def forget(self) -> None:
        """Drop the decoded chunks."""
        self.__dict__.pop("_cache", None)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_cache"}
