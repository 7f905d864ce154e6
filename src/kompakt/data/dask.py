"""Rows in Dask arrays and Dask DataFrames, and passes over them on a cluster.

A `DaskSource` knows the partitions of a collection as Dask's own lazy objects.  Without a cluster it is a source like
any other: Dask's threaded scheduler loads a partition when its rows are read.  Where a `distributed` client is current,
every pass is one Dask graph (`ClusterPasses`):

- the function of the pass, with the basis in it, is one task; workers that need it fetch it once;
- partitions are the collection's own tasks, so persisted ones are used where they lie;
- a block task is a pure function of (function, row range, partitions), never pinned to a worker, so Dask may run it
  again anywhere: killed workers cost time, not bits;
- partial sums are reduced by a tree whose shape depends on the row ranges alone: it is the tree of rows in memory.

Row ranges do not depend on the partitions either: a task whose rows lie in two partitions depends on both.
"""

from __future__ import annotations

import itertools
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kompakt.data.checks import as_strings
from kompakt.data.files import TableColumns
from kompakt.data.rows import Bounds, Sums, Task, tree_sum
from kompakt.data.streamed import ChunkedSource, Raw, join, locate
from kompakt.imports import sparse
from kompakt.parallel import block_threads

#: partial sums that one task adds up; a power of two keeps the tree that of rows in memory
FAN_IN = 8
#: seconds without any worker, or without the scheduler, after which a pass is given up
PATIENCE = 60.0
#: how often reading a partition is tried again
RETRIES = 5
#: seconds between two looks at the state of the cluster
_GLANCE = 1.0
#: ranges in flight per thread of the cluster, where results come back one by one
_WAITING = 4


class BlockError(RuntimeError):
    """A partition that could not be read, however often it was tried.

    Examples
    --------
    >>> from kompakt.data.dask import BlockError
    >>> issubclass(BlockError, RuntimeError)
    True
    """


class PartitionError(ValueError):
    """A partition that holds something else than its collection promises.

    Examples
    --------
    >>> from kompakt.data.dask import PartitionError
    >>> issubclass(PartitionError, ValueError)
    True
    """


class ClusterError(RuntimeError):
    """A cluster that does not answer any more, or has had no worker for too long.

    Examples
    --------
    >>> from kompakt.data.dask import ClusterError
    >>> issubclass(ClusterError, RuntimeError)
    True
    """


def is_dask(values: Any) -> bool:
    """Whether an object is a Dask collection; asks without importing Dask.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.dask import is_dask
    >>> is_dask(np.ones(3))
    False
    """
    return type(values).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(values, "dask")


def _is_frame(values: Any) -> bool:
    return hasattr(values, "columns") and hasattr(values, "npartitions")


class DaskSource(ChunkedSource):
    """Rows of a Dask array, or of a Dask DataFrame.

    Parameters
    ----------
    rows : dask array of shape (n, d), or dask DataFrame
    target : dask array or Series, array, or for a DataFrame a column name or list of them, optional
    weight : dask array or Series, array, or column name, optional
    columns : list of column names, optional
        Features of a DataFrame; None means all but target and weight.
    scale : bool, default=False

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from kompakt.data.dask import DaskSource
    >>> source = DaskSource(da.ones((10, 2), chunks=(4, 2)), np.arange(10))
    >>> source.n_rows, source.read(3, 5).y
    (10, array([3, 4]))
    """

    def __init__(self, rows: Any, target: Any = None, weight: Any = None, columns: Any = None, scale: bool = False):
        self.scale, self.has_weight = scale, weight is not None
        self.name = f"the Dask {'DataFrame' if _is_frame(rows) else 'array'}"
        partitions_of = self._partitions_of_frame if _is_frame(rows) else self._partitions_of_array
        partitions, sizes = partitions_of(rows, target, weight, columns)
        self.starts = np.cumsum([0, *sizes])
        self.n_rows = int(self.starts[-1])
        if not self.n_rows:
            raise ValueError(f"{self.name} holds no rows.")
        self.parts: list[Any] | None = partitions  # one Delayed of a Raw per partition

    def _partitions_of_array(self, X: Any, target: Any, weight: Any, columns: Any) -> tuple[list[Any], list[int]]:
        from dask import delayed

        if columns is not None:
            raise ValueError("columns=... is for tables; cut the array itself.")
        if X.ndim != 2:
            raise ValueError(f"a Dask array of rows must have two dimensions; got shape {X.shape}.")
        if X.numblocks[1] != 1:
            X = X.rechunk({1: -1})
        if np.isnan(X.shape[0]):
            X, self.n_index_passes = X.compute_chunk_sizes(), 1
        self.n_features, self.is_sparse = int(X.shape[1]), sparse.issparse(X._meta)
        if X.dtype.kind == "c":
            raise ValueError(f"{self.name} holds complex numbers; expected real ones.")
        self.dtype = np.dtype(X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
        y, w = (_aligned(values, X, role) for values, role in ((target, "target"), (weight, "weight")))
        self.n_targets = 0 if y is None else 1 if y.ndim == 1 else int(y.shape[1])
        sizes = [int(size) for size in X.chunks[0]]
        blocks = [[None] * len(sizes) if values is None else list(values.to_delayed().ravel()) for values in (X, y, w)]
        make = delayed(partial(_raw_of_arrays, self.dtype, self.name, self.n_features), pure=True)
        numbered = enumerate(zip(sizes, *blocks, strict=True))
        return [make(chunk, *block) for chunk, block in numbered], sizes

    def _partitions_of_frame(self, frame: Any, target: Any, weight: Any, columns: Any) -> tuple[list[Any], list[int]]:
        """Tasks that give the raw rows of every partition of a data frame, and the partitions' sizes."""
        from dask import compute, delayed

        has_names = all(isinstance(name, str) for name in frame.columns)
        frame = frame if has_names else frame.rename(columns=str)
        for role, values in (("target", target), ("weight", weight)):
            if is_dask(values) and values.npartitions != frame.npartitions:
                raise ValueError(
                    f"{role} has {values.npartitions} partitions and the DataFrame {frame.npartitions}: make it a "
                    "column of the DataFrame, and name the column."
                )
            if isinstance(values, np.ndarray):
                raise TypeError(f"the {role} of a Dask DataFrame must be a column or a Dask Series.")
        y, w = (None if is_dask(values) else values for values in (target, weight))
        roles = TableColumns([str(name) for name in frame.columns], y, w, columns, self.name)
        kinds = {str(name): kind for name, kind in frame.dtypes.items()}
        roles.refuse_other_types(kinds, lambda kind: getattr(kind, "kind", "O") in "fiub")
        single = all(kinds[name] == np.float32 for name in roles.features)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self.n_features, self.feature_names = len(roles.features), tuple(roles.features) if has_names else None
        self.n_targets = len(roles.targets)
        if is_dask(target):
            self.n_targets = len(target.columns) if _is_frame(target) else 1
        self.n_index_passes = 1
        frames = frame.to_delayed()
        beside = [values.to_delayed() if is_dask(values) else [None] * len(frames) for values in (target, weight)]
        make, count = delayed(partial(_raw_of_frame, roles, self.dtype), pure=True), delayed(len, pure=True)
        sizes = list(compute(*[count(partition) for partition in frames]))
        numbered = enumerate(zip(sizes, frames, *beside, strict=True))
        return [make(chunk, *partition) for chunk, partition in numbered], sizes

    def where(self, row: int) -> str:
        chunk, number = locate(self.starts, row)
        return f"row {number} of partition {chunk} of {self.name}"

    def load(self, chunk: int) -> Raw:
        if self.parts is None:
            raise RuntimeError("a source that was sent to a worker has no partitions; its tasks are handed their rows.")
        for attempt in itertools.count():
            try:
                raw: Raw = self.parts[chunk].compute()
                break
            except PartitionError:
                raise
            except Exception as error:
                if attempt == RETRIES:
                    raise self.block_error(chunk, error) from error
            time.sleep(min(1.0, 0.01 * 2**attempt))
        return raw

    def block_error(self, chunk: int, error: BaseException) -> BlockError:
        """What to say of a partition that cannot be read."""
        return BlockError(
            f"partition {chunk} of {self.name} (rows {self.starts[chunk]} to {self.starts[chunk + 1] - 1}) failed "
            f"{RETRIES + 1} times; the last error was {type(error).__name__}: {error}. Repair or drop it, and fit "
            "again."
        )

    def cluster(self) -> ClusterPasses | None:
        """Passes on the current `distributed` client; None where there is none."""
        if self.parts is None or "distributed" not in sys.modules:
            return None
        from dask.base import get_scheduler
        from distributed import Client

        client = getattr(get_scheduler(), "__self__", None)
        return ClusterPasses(client, self) if isinstance(client, Client) else None

    def __getstate__(self) -> dict[str, Any]:
        # tasks carry the source for its facts; the partitions come to them as dependencies
        return {**super().__getstate__(), "parts": None}


def _aligned(values: Any, X: Any, role: str) -> Any:
    """Targets or weights as a Dask array with the row chunks of X; None for None."""
    import dask.array as da

    if values is None:
        return None
    if hasattr(values, "to_dask_array"):
        values = values.to_dask_array(lengths=True)
    if not is_dask(values):
        values = np.asarray(values)
        values = da.from_array(values, chunks=(X.chunks[0], *values.shape[1:]))
    if np.isnan(values.shape[0]):
        values = values.compute_chunk_sizes()
    if values.shape[0] != X.shape[0]:
        raise ValueError(f"the {role} has {values.shape[0]} rows and X {X.shape[0]}; expected as many.")
    return values.rechunk((X.chunks[0], *((-1,) * (values.ndim - 1))))


def _raw_of_arrays(dtype: np.dtype, name: str, n_features: int, chunk: int, size: int, X: Any, y: Any, w: Any) -> Raw:
    X = X if sparse.issparse(X) else np.asarray(X)
    if X.shape != (size, n_features):
        raise PartitionError(f"partition {chunk} of {name} has shape {X.shape}; expected {(size, n_features)}.")
    for role, values in (("X", X), ("the target", y), ("the weights", w)):
        values = values if values is None or sparse.issparse(values) else np.asarray(values)
        if values is not None and values.dtype.kind == "c":
            raise PartitionError(f"partition {chunk} of {name} holds complex numbers in {role}; expected real ones.")
        if values is not None and values.shape[:1] != (size,):
            raise PartitionError(f"partition {chunk} of {name} has {size} rows, but {role} has {values.shape[:1]}.")
    X = (X.tocsr() if sparse.issparse(X) else X).astype(dtype, copy=False)
    return Raw(X, None if y is None else np.asarray(y), None if w is None else np.asarray(w, dtype=np.float64))


def _raw_of_frame(
    roles: TableColumns, dtype: np.dtype, chunk: int, size: int, frame: Any, target: Any, weight: Any
) -> Raw:
    place = f"partition {chunk} of {roles.table_name}"
    if lacking := [name for name in roles.all if name not in frame.columns]:
        raise PartitionError(f"{place} lacks the columns {lacking}; it has {[str(name) for name in frame.columns]}.")
    for values in (frame, target, weight):
        if values is not None and len(values) != size:
            raise PartitionError(f"{place} has {len(values)} rows in one of its parts; expected {size} in all of them.")

    def numbers(columns: Any, dtype: np.dtype | type = np.float64) -> np.ndarray:
        kinds = columns.dtypes if columns.ndim == 2 else [columns.dtype]
        if any(getattr(kind, "kind", "O") == "c" for kind in kinds):
            raise PartitionError(f"{place} holds complex numbers; expected real ones.")
        return np.ascontiguousarray(columns.to_numpy(dtype=dtype, na_value=np.nan))

    if target is None and roles.targets:
        target = frame[roles.targets[0] if roles.single else roles.targets]
    if weight is None and roles.weights:
        weight = frame[roles.weights[0]]
    y = None if target is None else target.to_numpy()
    if y is not None and (y.dtype == object or y.ndim == 2):
        y = numbers(target) if y.ndim == 2 else as_strings(y, target.isna().to_numpy())
    return Raw(numbers(frame[roles.features], dtype), y, None if weight is None else numbers(weight))


# -- passes on a cluster -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClusterPasses:
    """Passes over the rows of a source as Dask graphs."""

    client: Any
    source: DaskSource

    def run(self, task: Task, bounds: list[Bounds], kept: np.ndarray | None) -> Iterator[Any]:
        """Results of a task for every range, in order, few at a time; `kept` are the rows that the ranges count."""
        threads = self._threads()
        groups = _groups(bounds, max(1, min(64, self._per_task(bounds), len(bounds) // (2 * threads))))
        node = self._maker(_results_of, task, kept)
        window = max(2, _WAITING * threads)
        for first in range(0, len(groups), window):
            for results in self._computed([node(group) for group in groups[first : first + window]]):
                yield from results

    def reduce(self, task: Task, bounds: list[Bounds], kept: np.ndarray | None) -> Iterator[Sums]:
        """The one sum of a task over all ranges, by the tree of rows in memory."""
        from dask import delayed

        group_size = max(1, min(64, self._per_task(bounds), len(bounds) // (4 * self._threads())))
        groups = _groups(bounds, 1 << (group_size.bit_length() - 1))  # whole subtrees of the binary tree
        node = self._maker(_sums_of, task, kept)
        nodes = [node(group) for group in groups]
        add = delayed(tree_sum, pure=True)
        while len(nodes) > 1:
            nodes = [add(terms) if len(terms) > 1 else terms[0] for terms in _groups(nodes, FAN_IN)]
        yield from self._computed(nodes)

    def _threads(self) -> int:
        try:
            return max(1, int(sum(self.client.nthreads().values())))
        except OSError as error:
            raise self._lost(error) from error

    def _per_task(self, bounds: list[Bounds]) -> int:
        """Ranges that make up about a partition."""
        rows = max(1, bounds[0][1] - bounds[0][0])
        return max(1, int(self.source.n_rows / (len(self.source.starts) - 1) / rows))

    def _maker(self, collect: Task, task: Task, kept: np.ndarray | None) -> Callable[[list[Bounds]], Any]:
        """A function from ranges to a node of the graph."""
        from dask import delayed
        from distributed.protocol.pickle import dumps, loads

        partitions, starts = self.source.parts, self.source.starts
        assert partitions is not None
        name = f"kompakt-{uuid.uuid4().hex}"
        function = delayed(loads, pure=True)(dumps(task), dask_key_name=f"{name}-function")
        run = delayed(collect, pure=True)

        def node(group: list[Bounds]) -> Any:
            first, stop = group[0][0], group[-1][1]
            inside = None
            if kept is not None:
                inside = kept[first:stop]
                first, stop = int(inside[0]), int(inside[-1]) + 1
                inside = inside - first
            begin, skipped = locate(starts, first)
            end = int(np.searchsorted(starts, stop, side="left"))
            cut = slice(skipped, skipped + stop - first)
            return run(function, group, partitions[begin:end], cut, inside, dask_key_name=f"{name}-{group[0][0]}")

        return node

    def _computed(self, nodes: list[Any]) -> list[Any]:
        futures: list[Any] = []
        try:
            futures = self.client.compute(nodes, retries=RETRIES)
            self._wait(futures)
            return list(self.client.gather(futures))
        except (KeyboardInterrupt, SystemExit):
            self.client.cancel(futures)
            raise
        except (PartitionError, ClusterError):
            raise
        except Exception as error:
            failed = [future.key for future in futures if future.status == "error"]
            if not failed or self.client.status != "running":  # not the tasks, but what should have run them
                raise self._lost(error) from error
            chunk = self._blamed(failed)
            if chunk is None:
                raise
            raise self.source.block_error(chunk, error) from error

    def _wait(self, futures: list[Any]) -> None:
        """Until the tasks have ended; no longer than `PATIENCE` on a cluster without workers or scheduler."""
        from distributed import wait

        alive = time.monotonic()
        while True:
            try:
                wait(futures, timeout=_GLANCE)
                return
            except TimeoutError:
                pass
            if self._has_workers():
                alive = time.monotonic()
            elif time.monotonic() - alive > PATIENCE:
                raise self._lost(None)

    def _has_workers(self) -> bool:
        if self.client.status != "running":
            return False
        try:
            return bool(self.client.sync(self.client.scheduler.ncores, callback_timeout=PATIENCE))
        except OSError:  # timed out, or the connection is gone
            return False

    def _lost(self, error: BaseException | None) -> ClusterError:
        """What to say of a cluster that is gone."""
        address = getattr(self.client.scheduler, "address", "unknown")
        state = f"has had no worker for {PATIENCE:g} seconds"
        if error is not None or self.client.status != "running":
            reason = "" if error is None else f" ({type(error).__name__}: {error})"
            state = f"does not answer: its scheduler is gone or cannot be reached{reason}"
        return ClusterError(
            f"the Dask cluster at {address} {state}. Start workers or the cluster again and fit again; a fit with "
            "checkpoint=... goes on where it was."
        )

    def _blamed(self, keys: list[Any]) -> int | None:
        """The partition whose reading failed, if it was that."""
        from dask import optimize

        causes = set(self.client.run_on_scheduler(_causes_of, keys=keys))
        assert self.source.parts is not None
        for chunk, partition in enumerate(self.source.parts):
            (alone,) = optimize(partition)  # without the tasks of the other partitions
            if causes & {str(key) for key in alone.__dask_graph__()}:
                return chunk
        return None


def _causes_of(dask_scheduler: Any, keys: list[Any]) -> list[str]:
    tasks = [dask_scheduler.tasks.get(key) for key in keys]
    return [str(task.exception_blame.key) for task in tasks if task is not None and task.exception_blame is not None]


def _groups(items: list[Any], size: int) -> list[list[Any]]:
    return [items[at : at + size] for at in range(0, len(items), size)]


def _results_of(
    task: Task, group: list[Bounds], partitions: list[Raw], cut: slice, inside: np.ndarray | None
) -> list[Any]:
    """Results of a task for consecutive ranges, from the partitions that hold their rows."""
    raw, first = join(partitions).part(cut), group[0][0]
    raw = raw if inside is None else raw.part(inside)
    with block_threads(1):
        return [task((start, stop), raw.part(slice(start - first, stop - first))) for start, stop in group]


def _sums_of(task: Task, group: list[Bounds], partitions: list[Raw], cut: slice, inside: np.ndarray | None) -> Sums:
    return tree_sum(_results_of(task, group, partitions, cut, inside))
