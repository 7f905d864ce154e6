"""Streamed rows: the block loop over rows that are read when they are needed and never held.

Who does what, from the file to the solver:

- a `Source` reads raw rows (X, y, w) by number;
- a `RowReader` turns raw rows into what solvers see: standardised and centred inputs, targets, weights.  It is a small
  frozen record without rows, and can be pickled;
- a *task* is a pure function of (reader, function, block_rows, bounds, raw): `reduce_task` sums a function over blocks
  of its rows, `map_task` returns the results block by block.  `raw=None` reads the rows by the source, else
  they are given;
- `StreamedRows` is the `Rows` that designs and solvers use.  All its passes go through one method,
  ``_run(task, bounds)``, which yields the tasks' results in order.  Here it is the thread pool; a scheduler on many
  machines overrides `_run` (and hands `raw` where the rows already lie in a partition), nothing else.

Task bounds and the tree of partial sums are those of rows in memory, so equal bounds give equal bits.  No per-row
state is kept: what needs all targets or all predictions (`targets`, `collect`) costs 8 bytes per row and output, and
says so.  Passes are counted in `passes`, which all rows derived from one fit share.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.data.rows import (
    ArrayRows,
    BlockFunction,
    RowBlock,
    Sums,
    hash_numbers,
    hash_rows,
    sum_in_order,
    task_bounds,
    tree_sum,
)
from kompakt.parallel import ordered_map
from kompakt.run import task as progress_task


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
        """What runs passes over these rows on other machines (see `kompakt.data.dask`); None: they run here."""
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


Array = np.ndarray
Bounds = tuple[int, int]
#: raw rows -> targets (n, L) and weights (n,) or (n, L), None where there are none; picklable
Encode = Callable[[Raw], tuple[Array | None, Array | None]]


@dataclass(frozen=True)
class RowReader:
    """From raw rows to the rows that solvers see.

    Parameters
    ----------
    source : Source or None
        None where every task is handed its raw rows.
    encode : callable, optional
        Targets and weights from raw rows.
    shift, scale : ndarray of shape (d,), optional
        Standardisation; sparse rows are scaled only.
    offset : ndarray of shape (d,), optional
        Subtracted from dense rows after standardisation (numerical centre).
    kept : ndarray, optional
        Numbers of the source's rows that take part, ascending; None means all.
    """

    source: Source | None
    encode: Encode | None = None
    shift: Array | None = None
    scale: Array | None = None
    offset: Array | None = None
    kept: Array | None = None

    def raw(self, start: int, stop: int) -> Raw:
        """Raw rows by their number among those that take part."""
        assert self.source is not None
        if self.kept is None:
            return self.source.read(start, stop)
        wanted = self.kept[start:stop]
        first = int(wanted[0])
        return self.source.read(first, int(wanted[-1]) + 1).part(wanted - first)

    def inputs(self, X: Any) -> Any:
        """Standardised inputs, computed exactly as a stored model does, not centred."""
        if self.shift is not None and not sparse.issparse(X):
            X = X - self.shift
        if self.scale is not None:
            X = X.multiply(1.0 / self.scale).tocsr() if sparse.issparse(X) else X / self.scale
        return X

    def rows(self, bounds: Bounds, raw: Raw | None = None) -> ArrayRows:
        """The rows of a task in memory: standardised, centred, with targets and weights."""
        raw = self.raw(*bounds) if raw is None else raw
        targets, weights = (None, None) if self.encode is None else self.encode(raw)
        X = self.inputs(raw.X)
        return ArrayRows(X if self.offset is None or sparse.issparse(X) else X - self.offset, targets, weights)


def task_blocks(reader: RowReader, block_rows: int, bounds: Bounds, raw: Raw | None) -> Iterator[RowBlock]:
    """Blocks of a task, numbered as in the whole."""
    here = reader.rows(bounds, raw)
    first = bounds[0]
    for start in range(*bounds, block_rows):
        stop = min(start + block_rows, bounds[1])
        block = here.block(start - first, stop - first)
        yield RowBlock(start, stop, partial(_shifted, here, first), block.targets, block.weights)


def _shifted(here: ArrayRows, first: int, start: int, stop: int) -> Any:
    return here.X[start - first : stop - first]


def reduce_task(
    reader: RowReader, function: BlockFunction, block_rows: int, bounds: Bounds, raw: Raw | None = None
) -> Sums:
    """Sums of `function` over the blocks of a task."""
    return sum_in_order(function(block) for block in task_blocks(reader, block_rows, bounds, raw))


def map_task(
    reader: RowReader, function: Callable[[RowBlock], Any], block_rows: int, bounds: Bounds, raw: Raw | None = None
) -> list[Any]:
    """Results of `function` for the blocks of a task, in order."""
    return [function(block) for block in task_blocks(reader, block_rows, bounds, raw)]


def raw_task(reader: RowReader, function: Callable[[int, Raw], Any], bounds: Bounds, raw: Raw | None = None) -> Any:
    """`function(first row, raw rows)` of a task: for passes that see rows before they are encoded."""
    return function(bounds[0], reader.raw(*bounds) if raw is None else raw)


def as_they_are(first: int, raw: Raw) -> Raw:
    """The raw rows themselves."""
    return raw


def pick_task(reader: RowReader, ascending: Array, bounds: Bounds, raw: Raw | None = None) -> Raw:
    """The rows of a task whose numbers are among `ascending`."""
    here = ascending[np.searchsorted(ascending, bounds[0]) : np.searchsorted(ascending, bounds[1])]
    return (reader.raw(*bounds) if raw is None else raw).part(here - bounds[0])


def choose_task(
    reader: RowReader, chance: Callable[[Raw], Array], key: int, bounds: Bounds, raw: Raw | None = None
) -> tuple[Array, Raw]:
    """Numbers and raw rows of those that their number's hash chooses."""
    raw = reader.raw(*bounds) if raw is None else raw
    uniform = (hash_numbers(*bounds, key) >> np.uint64(11)).astype(np.float64) / 2.0**53
    here = np.flatnonzero(uniform < chance(raw))
    return bounds[0] + here, raw.part(here)


def hashes_of(reader: RowReader, key: int, first: int, raw: Raw) -> Array:
    """Hashes of the inputs."""
    return hash_rows(reader.inputs(raw.X), key)


def smallest_task(
    reader: RowReader, key: int, count: int, bounds: Bounds, raw: Raw | None = None
) -> tuple[Array, Array, Raw]:
    """Hashes, numbers and raw rows of the distinct rows of a task with the smallest hashes."""
    raw = reader.raw(*bounds) if raw is None else raw
    hashes = hashes_of(reader, key, bounds[0], raw)
    distinct, first = np.unique(hashes, return_index=True)
    return distinct[:count], bounds[0] + first[:count], raw.part(first[:count])


def merge_smallest(found: list[tuple[Array, Array, Raw]], count: int) -> tuple[Array, Array, Raw]:
    """The smallest distinct hashes of several lists, the earliest row of each."""
    hashes = np.concatenate([part[0] for part in found])
    numbers = np.concatenate([part[1] for part in found])
    distinct, first = np.unique(hashes, return_index=True)
    first = first[:count]
    return distinct[:count], numbers[first], join([part[2] for part in found]).part(first)


def targets_and_weights(block: RowBlock) -> Array:
    """Targets and weights of a block side by side."""
    n = len(block)
    given = [values.reshape(n, -1) for values in (block.targets, block.weights) if values is not None]
    return np.concatenate(given, axis=1) if given else np.empty((n, 0))


def one_column(encode: Encode, output: int, raw: Raw) -> tuple[Array | None, Array | None]:
    """Encode, and keep one output."""
    targets, weights = encode(raw)
    assert targets is not None
    if weights is not None and weights.ndim == 2:
        weights = weights[:, output]
    return targets[:, [output]], weights


Task = Callable[..., Any]
logger = logging.getLogger("kompakt")

#: rows that a pass without arithmetic reads at a time
READ_ROWS = 8192


class Passes:
    """How often the rows have been read, and where the current pass is."""

    def __init__(self, count: int = 0) -> None:
        self.count = count

    def follow(self, results: Iterator[Any], n_tasks: int, share: float) -> Iterator[Any]:
        """Count a pass (or the share of one) and report its progress while its results are drawn."""
        self.count += 1
        with progress_task(f"pass {self.count}", n_tasks, minor=True) as step:
            for result in results:
                yield result
                step()
        logger.debug("pass %d read %.0f %% of the rows in %d tasks", self.count, 100 * share, n_tasks)


class StreamedRows(ArrayRows):
    """Rows of a source, read by blocks in every pass.

    Parameters
    ----------
    reader : RowReader
    n_outputs : int
    weight_columns : int
        0 without weights, 1 for weights (n,), else L.
    mass : float, optional
        Sum of the weights per output; None means the number of rows.
    passes : Passes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data import RowReader, StreamedRows, as_source
    >>> rows = StreamedRows(RowReader(as_source([(np.arange(6.0).reshape(3, 2), None)])))
    >>> rows.map_reduce(lambda block: (block.X.sum(axis=0),), block_rows=2)
    (array([6., 9.]),)
    """

    streamed = True

    def __init__(
        self,
        reader: RowReader,
        n_outputs: int = 1,
        weight_columns: int = 0,
        mass: float | None = None,
        passes: Passes | None = None,
    ) -> None:
        source = reader.source
        assert source is not None
        self.reader, self.source = reader, source
        self.n_rows = source.n_rows if reader.kept is None else len(reader.kept)
        self.n_features, self.n_outputs = source.n_features, n_outputs
        self.is_sparse, self.offset = source.is_sparse, reader.offset
        self.input_dtype = np.dtype(np.float64) if reader.scale is not None else source.dtype
        self.dtype = np.dtype(np.float64) if self.is_sparse else self.input_dtype
        self._weight_columns = weight_columns
        self._mass = float(self.n_rows) if mass is None else mass
        self.numbers = reader.kept
        self.passes = Passes() if passes is None else passes
        self._per_row: tuple[Array | None, Array | None] | None = None
        self._known: tuple[Array, ArrayRows] | None = None  # the last rows taken by number

    def with_reader(self, **changes: Any) -> StreamedRows:
        """The same rows, read otherwise."""
        return type(self)(replace(self.reader, **changes), self.n_outputs, self.weight_columns, self.mass, self.passes)

    # -- passes: everything goes through _run ----------------------------------------------------------

    def _run(self, task: Task, bounds: Sequence[Bounds]) -> Iterator[Any]:
        """Results of ``task(bounds)`` or ``task(bounds, raw)`` in the order of `bounds`, few at a time."""
        cluster = self.source.cluster()
        if cluster is not None:
            return cluster.run(self.reader, task, bounds)
        if self.source.sequential:
            return ordered_map(lambda given: task(*given), self._read_ahead(bounds))
        return ordered_map(task, list(bounds))

    def _read_ahead(self, bounds: Sequence[Bounds]) -> Iterator[tuple[Bounds, Raw]]:
        for pair in bounds:
            yield pair, self.reader.raw(*pair)

    def _tasks(self, block_rows: int) -> list[Bounds]:
        """Row ranges of the tasks; those of rows in memory, so that sums agree to the last bit."""
        return list(task_bounds(self.n_rows, block_rows))

    def _reading(self) -> list[Bounds]:
        """Row ranges of passes whose results do not depend on them: small, so that little is held at a time."""
        if self.source.cluster() is not None:  # a task there costs more than the rows that it reads
            return self._tasks(READ_ROWS)
        return [(start, min(start + READ_ROWS, self.n_rows)) for start in range(0, self.n_rows, READ_ROWS)]

    def _pass(self, task: Task, bounds: Sequence[Bounds]) -> Iterator[Any]:
        share = sum(stop - start for start, stop in bounds) / max(1, self.n_rows)
        return self.passes.follow(self._run(task, bounds), len(bounds), share)

    def map_reduce(self, function: BlockFunction, block_rows: int) -> Sums:
        task = partial(reduce_task, self.reader, function, block_rows)
        cluster = self.source.cluster()
        if cluster is not None:  # partial sums are added where they are
            results = (cluster.reduce(self.reader, task, self._tasks(block_rows)) for _ in range(1))
            (sums,) = self.passes.follow(results, 1, 1.0)
            return sums
        return tree_sum(self._pass(task, self._tasks(block_rows)))

    @property
    def remote(self) -> bool:
        """Whether functions run in other processes, where arrays of this one are copies."""
        return self.source.cluster() is not None

    def for_each(self, function: Callable[[RowBlock], None], block_rows: int) -> None:
        if self.remote:
            raise RuntimeError("rows on a cluster cannot change arrays of this process; use `collect` or `map_reduce`.")
        task = partial(map_task, self.reader, function, block_rows)
        for _ in self._pass(task, self._tasks(block_rows)):
            pass

    def collect(self, function: Callable[[RowBlock], Array], block_rows: int, out: Array) -> Array:
        task, at = partial(map_task, self.reader, function, block_rows), 0
        for parts in self._pass(task, self._tasks(block_rows)):
            for part in parts:
                out[at : at + len(part)] = part
                at += len(part)
        return out

    def scan(self, function: Callable[[int, Raw], Any], block_rows: int = READ_ROWS) -> Iterator[Any]:
        """`function(first row, raw rows)` of every task, in order: a pass over rows not yet encoded."""
        return self._pass(partial(raw_task, self.reader, function), self._tasks(block_rows))

    def block(self, start: int, stop: int) -> RowBlock:
        return next(task_blocks(self.reader, stop - start, (start, stop), None))

    # -- rows by number --------------------------------------------------------------------------------

    def gather(self, index: Array) -> ArrayRows:
        """Some rows in memory, in the order asked for, with targets and weights; standardised, not centred."""
        index = np.asarray(index, dtype=np.intp)
        order = np.argsort(index, kind="stable")
        ascending = index[order]
        bounds = [
            pair
            for pair in self._reading()
            if np.searchsorted(ascending, pair[0]) < np.searchsorted(ascending, pair[1])
        ]
        parts = list(self._pass(partial(pick_task, self.reader, ascending), bounds))
        raw = join(parts).part(np.argsort(order, kind="stable")) if parts else self.reader.raw(0, 0)
        return self._in_memory(raw, index)

    def _in_memory(self, raw: Raw, index: Array) -> ArrayRows:
        encode = self.reader.encode
        targets, weights = (None, None) if encode is None else encode(raw)
        part = ArrayRows(self.reader.inputs(raw.X), targets, weights, self.offset)
        part.numbers, part.y, part.w, part.to_inputs = index, raw.y, raw.w, self.reader.inputs
        return part

    def subset(self, index: Array) -> ArrayRows:
        if self._known is None or not np.array_equal(self._known[0], index):
            self._known = (np.asarray(index), self.gather(index))
        return self._known[1]

    def as_inputs(self, X: Any) -> Any:
        return self.reader.inputs(X)

    def originals(self, indices: Array) -> Any:
        """Rows by number, standardised but not centred, from the last rows taken if they are among them."""
        indices = np.asarray(indices, dtype=np.intp)
        if self._known is not None:
            order = np.argsort(self._known[0], kind="stable")
            place = np.searchsorted(self._known[0][order], indices)
            place = order[np.minimum(place, len(order) - 1)]
            if np.array_equal(self._known[0][place], indices):
                return self._known[1].X[place]
        return self.gather(indices).X

    def take(self, indices: Array) -> Any:
        X = self.originals(indices)
        return X if self.offset is None or self.is_sparse else X - self.offset

    def smallest(self, key: int, count: int) -> Array:
        """Numbers of the rows with the smallest distinct hashes; one pass, which keeps the rows for `subset`."""
        found: list[tuple[Array, Array, Raw]] = []
        pending, limit = 0, np.uint64(0xFFFFFFFFFFFFFFFF)
        for hashes, numbers, raw in self._pass(partial(smallest_task, self.reader, key, count), self._reading()):
            keep = hashes <= limit
            if not keep.any():
                continue
            found.append((hashes[keep], numbers[keep], raw.part(keep)))
            pending += int(keep.sum())
            if pending > max(count, 4 * READ_ROWS):
                found, pending = [merge_smallest(found, count)], 0
                limit = found[0][0][-1] if len(found[0][0]) == count else limit
        _, numbers, raw = merge_smallest(found, count)
        self._known = (numbers, self._in_memory(raw, numbers))
        return numbers

    def everything(self) -> ArrayRows:
        """All rows in memory, in order: for those who know that they fit."""
        parts = list(self._pass(partial(raw_task, self.reader, as_they_are), self._reading()))
        return self._in_memory(join(parts), np.arange(self.n_rows))

    def sample(self, chance: Callable[[Raw], Array], key: int) -> ArrayRows:
        """Rows chosen by hash of their number, each with the chance that `chance(raw)` gives it (n,); one pass."""
        task = partial(choose_task, self.reader, chance, key)
        found = [part for part in self._pass(task, self._reading()) if len(part[0])]
        if not found:
            raise ValueError("no row was chosen for the sample; expected a larger chance or more rows.")
        index = np.concatenate([numbers for numbers, _ in found])
        self._known = (index, self._in_memory(join([raw for _, raw in found]), index))
        return self._known[1]

    # -- per-row values, for those who need them all --------------------------------------------------

    @property
    def mass(self) -> float:
        return self._mass

    @property
    def weight_columns(self) -> int:
        return self._weight_columns

    @property
    def X(self) -> Any:  # type: ignore[override]
        """There is none: streamed rows are not held."""
        raise TypeError("these rows are streamed and not held in memory; take a sample, or go through the blocks.")

    def _values_per_row(self) -> tuple[Array | None, Array | None]:
        if self._per_row is None:
            L, width = (0 if self.reader.encode is None else self.n_outputs), self.weight_columns
            both = self.collect(targets_and_weights, READ_ROWS, np.empty((self.n_rows, L + width)))
            weights = both[:, L] if width == 1 else both[:, L:]
            self._per_row = (both[:, :L] if L else None, weights if width else None)
        return self._per_row

    @property
    def targets(self) -> Array | None:  # type: ignore[override]
        """Targets of all rows, (n, L): read in one pass and held."""
        return self._values_per_row()[0]

    @property
    def weights(self) -> Array | None:  # type: ignore[override]
        """Weights of all rows: read in one pass and held; None without reading where there are none."""
        return self._values_per_row()[1] if self.weight_columns else None

    def hashes(self, key: int) -> Array:
        out = np.empty(self.n_rows, dtype=np.uint64)
        at = 0
        for part in self._pass(partial(raw_task, self.reader, partial(hashes_of, self.reader, key)), self._reading()):
            out[at : at + len(part)] = part
            at += len(part)
        return out

    def one_output(self, output: int) -> StreamedRows:
        """The same rows with one of the outputs."""
        assert self.reader.encode is not None
        part = self.with_reader(encode=partial(one_column, self.reader.encode, output))
        part._mass = self.mass / max(1, self.weight_columns)
        part.n_outputs, part._weight_columns = 1, min(1, self.weight_columns)
        return part
