"""Rows that are read when they are needed and never held: sources, and the passes over their rows.

Who does what, from the file to the solver:

- a `Source` reads raw rows (X, y, w) by number;
- a `RowReader` turns raw rows into what solvers see: standardised and centred inputs, targets, weights.  It is a small
  frozen record without rows, and can be pickled;
- a *task* is a pure function of a reader, its arguments, a row range and optionally the raw rows of that range; without
  them it reads them by the reader;
- `StreamedRows` is the `Rows` that designs and solvers use.  All its passes go through `_pass`, which yields the
  results of a task for many row ranges in order: from the thread pool, or from a cluster (see `kompakt.data.dask`).

Task bounds and the tree of partial sums are those of rows in memory, so equal bounds give equal bits.  No per-row
state is kept: what needs all targets or all predictions (`targets`, `collect`) costs 8 bytes per row and output, and
says so.  Passes are counted in `passes`, which all rows derived from one fit share.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from kompakt.data.checks import canonical
from kompakt.data.rows import (
    Array,
    ArrayRows,
    Bounds,
    RowBlock,
    Rows,
    Task,
    blocks,
    hash_numbers,
    hash_rows,
    task_bounds,
)
from kompakt.imports import sparse
from kompakt.parallel import ordered_map
from kompakt.run import Run

if TYPE_CHECKING:
    from kompakt.data.dask import ClusterPasses
    from kompakt.inputs import Inputs


@dataclass(frozen=True, slots=True)
class Raw:
    """Rows as they were stored: X (n, d) dense or CSR, y (n,) or (n, L) or None, w (n,) or None."""

    X: Any
    y: Array | None = None
    w: Array | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", canonical(self.X))

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def part(self, rows: Any) -> Raw:
        """Some of the rows: a slice, numbers or a mask."""
        return Raw(self.X[rows], None if self.y is None else self.y[rows], None if self.w is None else self.w[rows])


def join(raws: list[Raw]) -> Raw:
    """Consecutive rows put together."""
    if len(raws) == 1:
        return raws[0]
    X = [raw.X for raw in raws]
    return Raw(
        sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.concatenate(X),
        None if raws[0].y is None else np.concatenate([raw.y for raw in raws if raw.y is not None]),
        None if raws[0].w is None else np.concatenate([raw.w for raw in raws if raw.w is not None]),
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
    n_index_passes : int
        Passes over the rows that opening them took.
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
    n_index_passes: int = 0

    @abstractmethod
    def read(self, start: int, stop: int) -> Raw:
        """Rows start..stop as they are stored: X of `dtype`, C-ordered or CSR."""

    def where(self, row: int) -> str:
        """A row in the user's words, for messages."""
        return f"row {row} of {self.name}"

    def cluster(self) -> ClusterPasses | None:
        """What runs passes over these rows on other machines (see `kompakt.data.dask`); None: they run here."""
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


def locate(starts: Array, row: int) -> tuple[int, int]:
    """The chunk that holds a row, and the row's number in it; `starts` are the first rows of the chunks, then n."""
    chunk = int(np.searchsorted(starts, row, side="right")) - 1
    return chunk, row - int(starts[chunk])


def pieces(starts: Array, start: int, stop: int) -> Iterator[tuple[int, slice]]:
    """The chunks that hold rows start..stop, with the rows of each that are meant."""
    chunk, at = locate(starts, start)[0], start
    while at < stop:
        begin, end = int(starts[chunk]), min(stop, int(starts[chunk + 1]))
        if end > at:
            yield chunk, slice(at - begin, end - begin)
            at = end
        chunk += 1


class ChunkedSource(Source):
    """Rows in chunks that are decoded as a whole; the last few decoded ones are kept.

    A subclass sets `starts` (first row of every chunk, then `n_rows`) and gives `load`.
    """

    starts: Array
    #: decoded chunks kept: one per block thread that may be at work, and the next
    keep: int = 4

    @abstractmethod
    def load(self, chunk: int) -> Raw:
        """All rows of a chunk."""

    def read(self, start: int, stop: int) -> Raw:
        raws = []
        for chunk, rows in pieces(self.starts, start, stop):
            raw, size = self._decoded(chunk), int(self.starts[chunk + 1] - self.starts[chunk])
            if len(raw) != size:
                raise ValueError(
                    f"{self.where(int(self.starts[chunk]))}: expected {size} rows in this part, got {len(raw)}. "
                    "The file has changed since it was opened; open it again."
                )
            raws.append(raw if rows == slice(0, size) else raw.part(rows))
        return join(raws)

    def _decoded(self, chunk: int) -> Raw:
        """A chunk from the cache; threads that ask for the same one wait for its first reader."""
        # set by one call, so that threads that come first at once agree on the lock
        lock, cache = self.__dict__.setdefault("_cache", (threading.Lock(), OrderedDict()))
        with lock:
            waiting: Future[Raw] | None = cache.get(chunk)
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

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_cache"}


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
    inputs : Inputs, optional
        What is done to every row.
    offset : ndarray of shape (d,), optional
        Subtracted from dense rows after standardisation (numerical centre).
    kept : ndarray, optional
        Numbers of the source's rows that take part, ascending; None means all.
    dtype : dtype, optional
        Type of the blocks of dense rows; None means that of the source.
    """

    source: Source | None
    encode: Encode | None = None
    inputs: Inputs | None = None
    offset: Array | None = None
    kept: Array | None = None
    dtype: np.dtype | None = None

    def raw(self, start: int, stop: int) -> Raw:
        """Raw rows by their number among those that take part."""
        assert self.source is not None
        if self.kept is None:
            return self.source.read(start, stop)
        numbers = self.kept[start:stop]
        first = int(numbers[0])
        return self.source.read(first, int(numbers[-1]) + 1).part(numbers - first)

    def transformed(self, X: Any) -> Any:
        """Raw inputs as solvers see them, not centred."""
        return X if self.inputs is None else self.inputs.transform(X)

    def rows(self, raw: Raw, first: int = 0) -> ArrayRows:
        """Raw rows as solvers see them, with targets and weights; the first has the number `first`."""
        targets, weights = (None, None) if self.encode is None else self.encode(raw)
        rows = ArrayRows(self.transformed(raw.X), targets, weights, self.offset, first, self.dtype)
        rows.inputs = self.inputs
        return rows

    def piece(self, bounds: Bounds, raw: Raw | None = None) -> ArrayRows:
        """The rows of a task, read unless they are given."""
        return self.rows(self.raw(*bounds) if raw is None else raw, bounds[0])


# -- tasks: functions of a reader, a row range, and the raw rows of the range where they are known ------------


def _map_blocks(
    function: Callable[[RowBlock], Any], block_rows: int, reader: RowReader, bounds: Bounds, raw: Raw | None = None
) -> list[Any]:
    """Results of `function` for the blocks of a task, in order."""
    return [function(block) for block in blocks(reader.piece(bounds, raw), block_rows, bounds)]


def _map_raw(function: Callable[[int, Raw], Any], reader: RowReader, bounds: Bounds, raw: Raw | None = None) -> Any:
    """`function(first row, raw rows)` of a task: for passes that see rows before they are encoded."""
    return function(bounds[0], reader.raw(*bounds) if raw is None else raw)


_Hashed = tuple[Array, Array, Raw]


def _merged(lists: list[_Hashed], count: int, repeated: bool) -> _Hashed:
    """The smallest distinct hashes of several lists: the earliest row of each by hash, or all rows in their order."""
    hashes = np.concatenate([hashed[0] for hashed in lists])
    numbers = np.concatenate([hashed[1] for hashed in lists])
    distinct, chosen = np.unique(hashes, return_index=True)
    chosen = np.flatnonzero(hashes <= distinct[:count][-1]) if repeated else chosen[:count]
    return hashes[chosen], numbers[chosen], join([hashed[2] for hashed in lists]).part(chosen)


def _targets_and_weights(block: RowBlock) -> Array:
    """Targets and weights of a block side by side."""
    columns = [values.reshape(len(block), -1) for values in (block.targets, block.weights) if values is not None]
    return np.concatenate([np.empty((len(block), 0)), *columns], axis=1)


def _one_column(encode: Encode, output: int, raw: Raw) -> tuple[Array | None, Array | None]:
    """Encode, and keep one output."""
    targets, weights = encode(raw)
    assert targets is not None
    return targets[:, [output]], weights[:, output] if weights is not None and weights.ndim == 2 else weights


logger = logging.getLogger("kompakt")

#: rows that a pass without arithmetic reads at a time
READ_ROWS = 8192


class Passes:
    """How often the rows have been read, and where the current pass is."""

    def __init__(self, count: int = 0, run: Run | None = None) -> None:
        self.count, self.run = count, run or Run()

    def follow(self, results: Iterator[Any], n_tasks: int, share: float) -> Iterator[Any]:
        """Count a pass (or the share of one) and report its progress while its results are drawn."""
        self.count += 1
        with self.run.task(f"pass {self.count}", n_tasks, minor=True) as step:
            for result in results:
                yield result
                step()
        logger.debug("pass %d read %.0f %% of the rows in %d tasks", self.count, 100 * share, n_tasks)


class StreamedRows(Rows):
    """Rows of a source, read by blocks in every pass.

    Parameters
    ----------
    reader : RowReader
    n_outputs : int
    weight_columns : int
        0 without weights, 1 for weights (n,), else L.
    mass : float, optional
        Sum of the weights, over all outputs where each has its own; None means the number of rows.
    passes : Passes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data import IterableSource, RowReader, StreamedRows
    >>> rows = StreamedRows(RowReader(IterableSource([(np.arange(6.0).reshape(3, 2), None)])))
    >>> rows.map_reduce(lambda block: (block.X.sum(axis=0),), block_rows=2)
    (array([6., 9.]),)
    """

    streamed = True
    mass: float = 0.0
    weight_columns: int = 0

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
        self._transform = replace(reader, source=None, kept=None)  # what tasks on other machines need of the reader
        self.n_rows = source.n_rows if reader.kept is None else len(reader.kept)
        self.n_features, self.n_outputs = source.n_features, n_outputs
        self.is_sparse, self.offset, self.numbers = source.is_sparse, reader.offset, reader.kept
        self.inputs = reader.inputs
        double = self.is_sparse or reader.inputs is not None
        self.given_dtype = np.dtype(np.float64) if double else source.dtype
        self.dtype = self.given_dtype if double or reader.dtype is None else reader.dtype
        self.weight_columns = weight_columns
        self.mass = float(self.n_rows) if mass is None else mass
        self.passes = Passes() if passes is None else passes
        self._per_row: tuple[Array | None, Array | None] | None = None
        self._last_subset: tuple[Array, ArrayRows] | None = None  # the last rows taken by number

    def with_reader(self, **changes: Any) -> StreamedRows:
        """The same rows, read otherwise."""
        reader = replace(self.reader, **changes)
        return StreamedRows(reader, self.n_outputs, self.weight_columns, self.mass, self.passes)

    def one_output(self, output: int) -> StreamedRows:
        assert self.reader.encode is not None
        reader = replace(self.reader, encode=partial(_one_column, self.reader.encode, output))
        mass = self.mass / max(1, self.weight_columns)
        return StreamedRows(reader, 1, min(1, self.weight_columns), mass, self.passes)

    # -- passes ----------------------------------------------------------------------------------------

    @property
    def remote(self) -> bool:
        return self.source.cluster() is not None

    def _pass(self, task: Task, bounds: list[Bounds], *, reduce: bool = False) -> Iterator[Any]:
        cluster = self.source.cluster()
        n_results, share = len(bounds), sum(stop - start for start, stop in bounds) / max(1, self.n_rows)
        results: Iterator[Any]
        if cluster is not None:  # tasks are handed their rows, and partial sums are added where they are
            task = partial(task, self._transform)
            n_results = 1 if reduce else n_results
            results = (cluster.reduce if reduce else cluster.run)(task, bounds, self.reader.kept)
        elif self.source.sequential:
            read_ahead = ((pair, self.reader.raw(*pair)) for pair in bounds)
            results = ordered_map(lambda read: task(self.reader, *read), read_ahead)
        else:
            results = ordered_map(partial(task, self.reader), bounds)
        return self.passes.follow(results, n_results, share)

    def _reading(self) -> list[Bounds]:
        """Row ranges of passes whose results do not depend on them: small, so that little is held at a time."""
        if self.remote:  # a task there costs more than the rows that it reads
            return task_bounds(self.n_rows, READ_ROWS)
        return [(start, min(start + READ_ROWS, self.n_rows)) for start in range(0, self.n_rows, READ_ROWS)]

    def collect(self, function: Callable[[RowBlock], Array], block_rows: int, out: Array) -> Array:
        bounds = task_bounds(self.n_rows, block_rows)
        return _fill(out, chain.from_iterable(self._pass(partial(_map_blocks, function, block_rows), bounds)))

    def scan(self, function: Callable[[int, Raw], Any], block_rows: int | None = None) -> Iterator[Any]:
        """`function(first row, raw rows)` of every task, in order: a pass over rows not yet encoded.

        The tasks are those of sums by blocks of so many rows; None, where results do not depend on them, reads little
        at a time.
        """
        bounds = self._reading() if block_rows is None else task_bounds(self.n_rows, block_rows)
        return self._pass(partial(_map_raw, function), bounds)

    def block(self, start: int, stop: int) -> RowBlock:
        return self.reader.piece((start, stop)).block(start, stop)

    # -- rows by number --------------------------------------------------------------------------------

    def _in_memory(self, raw: Raw, index: Array) -> ArrayRows:
        rows = self.reader.rows(raw)
        rows.numbers, rows.y, rows.w = index, raw.y, raw.w
        return rows

    def _gather(self, index: Array) -> ArrayRows:
        """Some rows in memory, in the order asked for."""
        order = np.argsort(index, kind="stable")
        ascending = index[order]

        def pick(first: int, raw: Raw) -> Raw:
            places = slice(np.searchsorted(ascending, first), np.searchsorted(ascending, first + len(raw)))
            return raw.part(ascending[places] - first)

        bounds = [pair for pair in self._reading() if np.diff(np.searchsorted(ascending, pair))[0]]
        raws = list(self._pass(partial(_map_raw, pick), bounds))
        raw = join(raws).part(np.argsort(order, kind="stable")) if raws else self.reader.raw(0, 0)
        return self._in_memory(raw, index)

    def subset(self, index: Array) -> ArrayRows:
        if self._last_subset is None or not np.array_equal(self._last_subset[0], index):
            self._last_subset = (np.asarray(index), self._gather(np.asarray(index, dtype=np.intp)))
        return self._last_subset[1]

    def originals(self, indices: Any) -> Any:
        """Rows by number, standardised but not centred, from the last rows taken if they are among them."""
        indices = np.asarray(indices, dtype=np.intp)
        if self._last_subset is not None:
            numbers, rows = self._last_subset
            order = np.argsort(numbers, kind="stable")
            place = order[np.searchsorted(numbers, indices, sorter=order).clip(max=len(order) - 1)]
            if np.array_equal(numbers[place], indices):
                return rows.X[place]
        return self._gather(indices).X

    def hashes(self, key: int) -> Array:
        transformed = self._transform.transformed
        hashes = self.scan(lambda first, raw: hash_rows(transformed(raw.X), key))
        return _fill(np.empty(self.n_rows, dtype=np.uint64), hashes)

    def smallest(self, key: int, count: int, *, repeated: bool = False) -> Array:
        """As of `Rows`; one pass, which keeps the rows for `subset`."""
        transformed = self._transform.transformed

        def smallest_of(first: int, raw: Raw) -> _Hashed:
            hashes = hash_rows(transformed(raw.X), key)
            return _merged([(hashes, np.arange(first, first + len(raw)), raw)], count, repeated)

        lists: list[_Hashed] = []
        pending, limit = 0, np.uint64(0xFFFFFFFFFFFFFFFF)
        for hashes, numbers, raw in self.scan(smallest_of):
            keep = hashes <= limit
            if not keep.any():
                continue
            lists.append((hashes[keep], numbers[keep], raw.part(keep)))
            pending += int(keep.sum())
            if pending > max(count, 4 * READ_ROWS):
                lists, pending = [_merged(lists, count, repeated)], 0
                distinct = np.unique(lists[0][0])
                limit = distinct[-1] if len(distinct) == count else limit
        _, numbers, raw = _merged(lists, count, repeated)
        self._last_subset = (numbers, self._in_memory(raw, numbers))
        return numbers

    def everything(self) -> ArrayRows:
        """All rows in memory, in order: for those who know that they fit."""
        return self._in_memory(join(list(self.scan(lambda first, raw: raw))), np.arange(self.n_rows))

    def sample(self, chance: Callable[[Raw], Array], key: int) -> ArrayRows:
        """Rows chosen by hash of their number, each with the chance that `chance(raw)` gives it (n,); one pass."""

        def choose(first: int, raw: Raw) -> tuple[Array, Raw]:
            uniform = (hash_numbers(first, first + len(raw), key) >> np.uint64(11)).astype(np.float64) / 2.0**53
            chosen = np.flatnonzero(uniform < chance(raw))
            return first + chosen, raw.part(chosen)

        samples = [sample for sample in self.scan(choose) if len(sample[0])]
        if not samples:
            raise ValueError("no row was chosen for the sample; expected a larger chance or more rows.")
        index = np.concatenate([numbers for numbers, _ in samples])
        self._last_subset = (index, self._in_memory(join([raw for _, raw in samples]), index))
        return self._last_subset[1]

    # -- per-row values, for those who need them all --------------------------------------------------

    def _values_per_row(self) -> tuple[Array | None, Array | None]:
        if self._per_row is None:
            L, width = (0 if self.reader.encode is None else self.n_outputs), self.weight_columns
            values = self.collect(_targets_and_weights, READ_ROWS, np.empty((self.n_rows, L + width)))
            weights = values[:, L] if width == 1 else values[:, L:]
            self._per_row = (values[:, :L] if L else None, weights if width else None)
        return self._per_row

    @property
    def targets(self) -> Array | None:
        """Targets of all rows, (n, L): read in one pass and held."""
        return self._values_per_row()[0]

    @property
    def weights(self) -> Array | None:
        """Weights of all rows: read in one pass and held; None without reading where there are none."""
        return self._values_per_row()[1] if self.weight_columns else None


def _fill(out: Array, blocks_of_values: Iterable[Array]) -> Array:
    at = 0
    for values in blocks_of_values:
        out[at : at + len(values)] = values
        at += len(values)
    return out
