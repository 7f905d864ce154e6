"""Rows in memory, the one loop over their blocks, their moments, and the hashes that identify them."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kompakt.imports import sparse
from kompakt.parallel import ordered_map

if TYPE_CHECKING:
    from kompakt.inputs import Inputs

Array = np.ndarray
Sums = tuple[Array, ...]
Bounds = tuple[int, int]
Task = Callable[..., Any]


class RowBlock:
    """Rows start..stop with their targets and weights; `X` is formed only when it is asked for."""

    __slots__ = ("_rows", "start", "stop", "targets", "weights")

    def __init__(self, rows: ArrayRows, start: int, stop: int) -> None:
        self._rows, self.start, self.stop = rows, start, stop
        rows_of_block = slice(start - rows.first, stop - rows.first)
        self.targets = None if rows.targets is None else rows.targets[rows_of_block]
        self.weights = None if rows.weights is None else rows.weights[rows_of_block]

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def X(self) -> Any:
        """The rows, centred where these rows are."""
        return self._rows.take(slice(self.start - self._rows.first, self.stop - self._rows.first))


BlockFunction = Callable[[RowBlock], Sums]


class Rows(ABC):
    """Rows with targets (n, L) and weights (n,) or (n, L): in memory, or read anew in every pass.

    Attributes
    ----------
    n_rows, n_features, n_outputs : int
    dtype : dtype
        Type of the blocks, and in which kernel values of the rows are computed (`computing_dtype`).
    given_dtype : dtype
        Type in which dense rows were given; vectors of a model are kept in it.
    is_sparse : bool
        Whether rows are CSR.
    offset : ndarray of shape (d,) or None
        What blocks and `take` subtract from dense rows.
    numbers : ndarray or None
        Their numbers among the rows that they were taken from; None means all, in order.
    inputs : Inputs or None
        What was done to the user's rows to make these.
    targets, weights : ndarray or None
        Of all rows.  Streamed rows read them in one pass when they are asked for.
    mass : float
        Sum of the weights, over all outputs where each has its own.
    weight_columns : int
        0 without weights, 1 where outputs share them, else their number.
    streamed : bool
        Whether the rows are read anew in every pass instead of held.
    remote : bool
        Whether functions run in other processes, where arrays of this one are copies.
    """

    n_rows: int
    n_features: int
    n_outputs: int
    dtype: np.dtype
    given_dtype: np.dtype
    is_sparse: bool
    offset: Array | None
    numbers: Array | None
    inputs: Inputs | None = None
    streamed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.n_rows, self.n_features

    @property
    def remote(self) -> bool:
        return False

    @property
    @abstractmethod
    def targets(self) -> Array | None: ...

    @property
    @abstractmethod
    def weights(self) -> Array | None: ...

    @property
    @abstractmethod
    def mass(self) -> float: ...

    @property
    @abstractmethod
    def weight_columns(self) -> int: ...

    def map_reduce(self, function: BlockFunction, block_rows: int) -> Sums:
        """Sum `function(block)` over all row blocks, in float64 and in a fixed order."""
        if 0 < self.n_rows <= block_rows and isinstance(self, ArrayRows):
            return _add(None, function(self.block(0, self.n_rows)))  # one block needs no pool
        tree = TreeSum()
        for sums in self.sums(function, block_rows):
            tree.add(sums)
        return tree.total()

    def sums(self, function: BlockFunction, block_rows: int) -> Iterator[Sums]:
        """The terms of `map_reduce`, for a `TreeSum`: sums of `function(block)` over a few blocks each, in order."""
        task = partial(sum_blocks, function, block_rows)
        return self._pass(task, task_bounds(self.n_rows, block_rows), reduce=True)

    @abstractmethod
    def _pass(self, task: Task, bounds: list[Bounds], *, reduce: bool = False) -> Iterator[Any]:
        """Results of ``task(reader, bounds)`` in the order of `bounds`, few at a time, or tree sums of some of them."""

    @abstractmethod
    def collect(self, function: Callable[[RowBlock], Array], block_rows: int, out: Array) -> Array:
        """Write the values that `function` gives for the rows of each block into `out`, one entry per row."""

    @abstractmethod
    def block(self, start: int, stop: int) -> RowBlock:
        """Rows start..stop."""

    def take(self, indices: Any) -> Any:
        """Rows by number, dense or CSR, centred like the blocks."""
        X = self.originals(indices)
        if self.is_sparse:
            return X
        X = X.astype(self.dtype, copy=False)
        return X if self.offset is None else X - self.offset

    @abstractmethod
    def originals(self, indices: Any) -> Any:
        """Rows by number, not centred."""

    @abstractmethod
    def subset(self, index: Array) -> ArrayRows:
        """Some of the rows in memory with their targets and weights, centred alike, knowing their numbers here."""

    @abstractmethod
    def one_output(self, output: int) -> Rows:
        """The same rows with one of the outputs."""

    def as_inputs(self, X: Any) -> Any:
        """Vectors in the user's units as these rows have them before centring."""
        return X if self.inputs is None else self.inputs.transform(X)

    @abstractmethod
    def hashes(self, key: int) -> Array:
        """A keyed hash of every row, (n,); see `hash_rows`."""

    @abstractmethod
    def smallest(self, key: int, count: int, *, repeated: bool = False) -> Array:
        """Numbers of the rows with the `count` smallest hashes.

        Of rows with the same hash the first is taken, in the order of the hash; with `repeated` all are, ascending.
        """


#: dense float32 rows up to so many are computed with in float64
_FLOAT64_ROWS = 100_000


def computing_dtype(dtype: np.dtype, n_rows: int) -> np.dtype:
    """Type in which kernel values of dense rows are computed.

    Float32 rows hold all digits of most tables, but kernel matrices made from them in float32 are singular after some
    ten vectors: the machine would depend on the type of the rows.  Float64 costs up to twice the time, so it is taken
    where that is little: up to 100,000 rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.rows import computing_dtype
    >>> [str(computing_dtype(np.dtype(np.float32), n_rows)) for n_rows in (1_000, 1_000_000)]
    ['float64', 'float32']
    """
    return np.dtype(np.float64) if n_rows <= _FLOAT64_ROWS else dtype


class ArrayRows(Rows):
    """Dense or CSR rows in memory, with optional targets and weights.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
    targets : ndarray of shape (n, L), optional
    weights : ndarray of shape (n,) or (n, L), optional
        None means 1 for every row.
    offset : ndarray of shape (d,), optional
        Subtracted from every block of dense rows (kernels of distances do not change, their rounding does).
    first : int, default=0
        Number of the first row, where these rows are a piece of others: blocks are numbered as there.
    dtype : dtype, optional
        Type of the blocks of dense rows; that of X without it.  X itself is not copied.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data import ArrayRows
    >>> rows = ArrayRows(np.arange(6.0).reshape(3, 2))
    >>> rows.map_reduce(lambda block: (block.X.sum(axis=0),), block_rows=2)
    (array([6., 9.]),)
    """

    targets: Array | None = None
    weights: Array | None = None
    #: labels or values and weights as they were given, where the rows were taken from a source
    y: Array | None = None
    w: Array | None = None

    def __init__(
        self,
        X: Any,
        targets: Array | None = None,
        weights: Array | None = None,
        offset: Array | None = None,
        first: int = 0,
        dtype: np.dtype | None = None,
    ) -> None:
        self.X, self.targets, self.weights, self.first = X, targets, weights, first
        self.is_sparse = sparse.issparse(X)
        self.n_rows, self.n_features = X.shape
        self.n_outputs = 1 if targets is None else targets.shape[1]
        self.numbers = None
        # Sparse rows are never centred, so their distances need float64 (see kernels.base.dense_rows).
        self.given_dtype = np.dtype(np.float64) if self.is_sparse else X.dtype
        self.dtype = self.given_dtype if dtype is None or self.is_sparse else dtype
        self.offset = None if offset is None or self.is_sparse else offset.astype(self.dtype)

    def _pass(self, task: Task, bounds: list[Bounds], *, reduce: bool = False) -> Iterator[Any]:
        return ordered_map(partial(task, self), bounds)

    def piece(self, bounds: Bounds, raw: object = None) -> ArrayRows:
        """Where the rows of a task are."""
        return self

    def collect(self, function: Callable[[RowBlock], Array], block_rows: int, out: Array) -> Array:
        def write(block: RowBlock) -> None:
            out[block.start : block.stop] = function(block)

        self.for_each(write, block_rows)
        return out

    def for_each(self, function: Callable[[RowBlock], None], block_rows: int) -> None:
        """Run `function` on every block for its effect on arrays of the caller (disjoint slices)."""
        if 0 < self.n_rows <= block_rows:
            function(self.block(0, self.n_rows))  # one block needs no pool
            return
        for _ in ordered_map(function, list(blocks(self, block_rows, (0, self.n_rows)))):
            pass

    def block(self, start: int, stop: int) -> RowBlock:
        return RowBlock(self, start, stop)

    def originals(self, indices: Any) -> Any:
        return self.X[indices]

    def subset(self, index: Array) -> ArrayRows:
        chosen = ArrayRows(
            self.X[index],
            None if self.targets is None else self.targets[index],
            None if self.weights is None else self.weights[index],
            self.offset,
            dtype=self.dtype,
        )
        chosen.inputs, chosen.numbers = self.inputs, index if self.numbers is None else self.numbers[index]
        return chosen

    def in_float64(self) -> ArrayRows:
        """The same rows, computed with in float64."""
        twin = copy.copy(self)
        twin.dtype = np.dtype(np.float64)
        return twin

    def one_output(self, output: int) -> ArrayRows:
        assert self.targets is not None
        of_output = copy.copy(self)
        of_output.targets, of_output.n_outputs = self.targets[:, [output]], 1
        of_output.weights = (
            self.weights[:, output] if self.weights is not None and self.weights.ndim == 2 else self.weights
        )
        return of_output

    def hashes(self, key: int) -> Array:
        return hash_rows(self.X, key)

    def smallest(self, key: int, count: int, *, repeated: bool = False) -> Array:
        hashes = self.hashes(key)
        if repeated:
            return np.flatnonzero(hashes <= np.unique(hashes)[:count][-1])
        return smallest_distinct(hashes, count)

    @property
    def mass(self) -> float:
        return float(self.n_rows) if self.weights is None else float(np.sum(self.weights))

    @property
    def weight_columns(self) -> int:
        return 0 if self.weights is None else 1 if self.weights.ndim == 1 else self.weights.shape[1]


# -- the order of sums -----------------------------------------------------------------------------------


def task_bounds(n_rows: int, block_rows: int) -> list[Bounds]:
    """Row ranges of the tasks: a few blocks each where there are many, one block each where there are few."""
    per_task = block_rows * min(8, max(1, -(-n_rows // block_rows) // 16))
    return [(start, min(start + per_task, n_rows)) for start in range(0, n_rows, per_task)]


def blocks(rows: ArrayRows, block_rows: int, bounds: Bounds) -> Iterator[RowBlock]:
    """The blocks of some rows."""
    for start in range(*bounds, block_rows):
        yield RowBlock(rows, start, min(start + block_rows, bounds[1]))


class Reader(Protocol):
    """What gives the rows of a task: those in memory themselves, or `kompakt.data.RowReader`."""

    def piece(self, bounds: Bounds, raw: Any = None) -> ArrayRows:
        """Rows that hold those of the task; `raw`, where given, are these rows as they were stored."""


def sum_blocks(function: BlockFunction, block_rows: int, reader: Reader, bounds: Bounds, raw: Any = None) -> Sums:
    """Sum `function(block)` over the blocks of a task, one after the other."""
    totals: Sums | None = None
    for block in blocks(reader.piece(bounds, raw), block_rows, bounds):
        totals = _add(totals, function(block))
    assert totals is not None
    return totals


def _add(before: Sums | None, added: Sums) -> Sums:
    if before is None:  # copied, so that the sums never share memory with what a function returned
        return tuple(np.array(array, dtype=np.float64) for array in added)
    # New arrays, never `+=`: a part may be a NumPy scalar, for which `+=` binds a name and leaves the sum as it was,
    # and a part may be needed again, where a task that was lost with its worker is run once more.
    return tuple(np.asarray(first + second) for first, second in zip(before, added, strict=True))


class TreeSum:
    """Sums in the shape of a binary tree, in the order of arrival, holding O(log n) partial sums."""

    def __init__(self) -> None:
        self._stack: list[tuple[int, Sums]] = []

    def add(self, result: Sums) -> None:
        level = 0
        while self._stack and self._stack[-1][0] == level:
            result = _add(self._stack.pop()[1], result)
            level += 1
        self._stack.append((level, result))

    def total(self) -> Sums:
        if not self._stack:
            raise ValueError("there are no rows to reduce over.")
        total = self._stack[-1][1]
        for _, before in self._stack[-2::-1]:
            total = _add(before, total)
        return total


def tree_sum(results: Iterable[Sums]) -> Sums:
    """The `TreeSum` of some results."""
    tree = TreeSum()
    for result in results:
        tree.add(result)
    return tree.total()


# -- moments ---------------------------------------------------------------------------------------------

_STEADY_BITS = 40
#: block size of all sums of a first pass: those over streamed rows must agree with those in memory to the last bit
MOMENT_ROWS = 4096


def column_means(X: Any, weights: Array | None = None, block_rows: int = MOMENT_ROWS) -> Array:
    """Weighted mean of every column in float64, (d,), of a matrix or of rows with their weights."""
    rows = _as_rows(X, weights)
    total, mass = rows.map_reduce(with_mass(lambda x, w: (np.asarray(x.T @ w).ravel(),)), block_rows)
    return total / mass


def centre_of(X: Any, weights: Array | None = None, block_rows: int = MOMENT_ROWS) -> Array:
    """A point near the mean of dense rows, the same to the last bit for any order of the rows, (d,).

    Sums in another order differ in their last bits; a basis that is nearly dependent would blow this up to differing
    coefficients.  So the means are rounded to 2^-40 of the mean absolute value: as good a centre as any.
    """
    return centre_from(*_as_rows(X, weights).map_reduce(centre_sums, block_rows))


def with_mass(sums: Callable[[Any, Array], Sums]) -> BlockFunction:
    """From `sums(x, w)` of float64 rows and weights to a function of a block, which adds the sum of the weights."""

    def of_block(block: RowBlock) -> Sums:
        w = np.ones(len(block)) if block.weights is None else block.weights
        return *sums(block.X.astype(np.float64), w), np.array(w.sum())

    return of_block


#: sums of the entries, of their sizes and of the weights, for `centre_from`
centre_sums = with_mass(lambda x, w: (w @ x, w @ np.abs(x)))


def centre_from(total: Array, size: Array, mass: Array) -> Array:
    """The centre from the sums of the entries, of their sizes, and of the weights."""
    quantum = np.exp2(np.ceil(np.log2(np.maximum(size / mass, np.finfo(np.float64).tiny))) - _STEADY_BITS)
    return np.asarray(np.round(total / mass / quantum) * quantum)


def steady(value: float) -> float:
    """A sum rounded to 40 bits, so that it does not depend on the order of its terms."""
    mantissa, exponent = np.frexp(value)
    return float(np.ldexp(np.round(mantissa * 2.0**_STEADY_BITS), exponent - _STEADY_BITS))


def total_variance(
    X: Any, weights: Array | None = None, block_rows: int = MOMENT_ROWS, centre: Array | None = None
) -> float:
    """Weighted variance of all entries together: `X.var()` when unweighted.  Two passes, so offsets do no harm.

    X may be a matrix or rows with their weights; one pass less where their `centre_of` is known.
    """
    rows, d = _as_rows(X, weights), X.shape[1]
    if rows.is_sparse:
        # the entries not stored are zeros: each is a squared mean away from the mean
        mean = float(column_means(rows, None, block_rows).mean())

        def stored_squares(x: Any, w: Array) -> Sums:
            w = np.repeat(w, np.diff(x.indptr))
            with np.errstate(over="ignore"):
                return np.asarray(w @ np.square(x.data - mean)), np.asarray(w.sum())

        within, stored, mass = rows.map_reduce(with_mass(stored_squares), block_rows)
        return float((within + (mass * d - stored) * mean * mean) / (mass * d))
    centre = centre_of(rows, None, block_rows) if centre is None else centre

    def powers(x: Array, w: Array) -> Sums:
        with np.errstate(over="ignore"):  # a variance that is not finite is the caller's to refuse
            x = x - centre
            return w @ x, w @ np.square(x)

    first, second, mass = rows.map_reduce(with_mass(powers), block_rows)
    between = centre - centre.mean() - (first / mass).mean()  # from the mean of all entries to the centres
    return float(max(0.0, np.mean(second / mass + 2.0 * between * first / mass + between**2)))


def _as_rows(X: Any, weights: Array | None) -> Rows:
    return X if isinstance(X, Rows) else ArrayRows(X, weights=weights)


# -- hashes: arithmetic of unsigned 64-bit integers, which wraps ------------------------------------------

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LARGEST = 0xFFFFFFFFFFFFFFFF


def _mix(x: Array) -> Array:
    """A bijective scrambler of 64-bit numbers (xor-shift and multiply), in place."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def hash_rows(X: Any, key: int) -> Array:
    """A 64-bit hash of every row, (n,).

    Its upper half is that of the row rounded to float32, so rows that are chosen by the order of their hashes are the
    same in float32 and float64; its lower half tells rows apart that differ in further digits.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from kompakt.data import hash_rows
    >>> X = np.array([[0.0, 1.0], [-0.0, 1.0]], dtype=np.float32)
    >>> bool((hash_rows(X, 7) == hash_rows(sparse.csr_matrix(X), 7)).all())
    True
    >>> fine = X + 1e-9
    >>> bool((hash_rows(fine, 7) >> np.uint64(32) == hash_rows(fine.astype(np.float32), 7) >> np.uint64(32)).all())
    True
    """
    # one key for the row itself, then one per column: without the first, a row of zeros would hash to 0 always
    keys = _mix(np.arange(1, X.shape[1] + 2, dtype=np.uint64) * _GOLDEN + np.uint64(key & _LARGEST))
    hash_block = _hash_sparse if sparse.issparse(X) else _hash_dense
    block_hashes = ordered_map(
        lambda start: hash_block(X[start : start + MOMENT_ROWS], keys), range(0, X.shape[0], MOMENT_ROWS)
    )
    return np.concatenate([np.empty(0, dtype=np.uint64), *block_hashes])


def _hash_dense(X: Array, keys: Array) -> Array:
    def of_rows(values: Array) -> Array:
        return _mix(_mixed(values, keys[1:]).sum(axis=1, dtype=np.uint64) + keys[0])

    values = np.ascontiguousarray(X, dtype=np.float64)
    return of_rows(values) if X.dtype == np.float32 else _joined(of_rows(_rounded(values)), of_rows(values))


def _rounded(values: Array) -> Array:
    """Numbers rounded to float32; those beyond its range are infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)


def _mixed(values: Array, keys: Array) -> Array:
    """Scrambled numbers of rows; zeros, which sparse rows do not hold, are 0."""
    mixed = _mix(values.view(np.uint64) ^ keys)
    mixed[values == 0] = 0
    return mixed


def _joined(upper: Array, lower: Array) -> Array:
    half = np.uint64(32)
    return np.asarray((upper >> half << half) | (lower & np.uint64(0xFFFFFFFF)))


def _hash_sparse(X: Any, keys: Array) -> Array:
    X = sparse.csr_matrix(X, copy=True)
    X.sum_duplicates()

    def of_rows(values: Array) -> Array:
        mixed = _mixed(values, keys[1:][X.indices])
        # cumulative sums wrap modulo 2^64, and so do their differences: the row sums are exact
        ends = np.concatenate([[np.uint64(0)], np.cumsum(mixed, dtype=np.uint64)])[X.indptr]
        return _mix(ends[1:] - ends[:-1] + keys[0])

    values = X.data.astype(np.float64)
    return of_rows(values) if X.data.dtype == np.float32 else _joined(of_rows(_rounded(values)), of_rows(values))


def hash_numbers(start: int, stop: int, key: int) -> Array:
    """A 64-bit hash of the row numbers start..stop: a random choice of rows that does not depend on their content.

    Examples
    --------
    >>> from kompakt.data import hash_numbers
    >>> bool((hash_numbers(0, 9, 1)[4:] == hash_numbers(4, 9, 1)).all())
    True
    """
    numbers = np.arange(start, stop, dtype=np.uint64) * _GOLDEN
    return _mix(_mix(numbers + np.uint64(key & _LARGEST)) + _GOLDEN)


def smallest_distinct(hashes: Array, count: int) -> Array:
    """Row numbers of the `count` smallest distinct hashes, in the order of the hash; fewer if there are fewer."""
    return np.unique(hashes, return_index=True)[1][:count]


def content_of(rows: Rows, block_rows: int = 4096) -> dict[str, str]:
    """Digests of inputs, targets and weights by name; they depend on the values and their order, not on blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.data.rows import content_of
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> content_of(ArrayRows(X)) == content_of(ArrayRows(X), block_rows=2)
    True
    >>> content_of(ArrayRows(X)) == content_of(ArrayRows(X[::-1]))
    False
    """
    sums = rows.map_reduce(_content_sums, block_rows)
    names = ("inputs", "targets", "weights")
    return {
        name: "-".join(f"{int(number):x}" for number in sums_of_name)
        for name, sums_of_name in zip(names, sums, strict=True)
    }


def _content_sums(block: RowBlock) -> Sums:
    """Of inputs, targets and weights: sums of 16-bit pieces of the hashes, exact in float64 for up to 2^37 rows."""
    place, shifts = hash_numbers(block.start, block.stop, 1), np.arange(0, 64, 16, dtype=np.uint64)
    sums = []
    for values in (block.X, block.targets, block.weights):
        if values is None:
            sums.append(np.zeros(4))
            continue
        matrix = values.reshape(len(place), -1) if isinstance(values, np.ndarray) else values
        hashes = hash_rows(matrix, 1) ^ place
        sums.append(np.sum((hashes[:, None] >> shifts) & np.uint64(0xFFFF), axis=0).astype(np.float64))
    return tuple(sums)


def row_weights(rows: Rows) -> Array:
    """Weight of every row, (n,); where each output has its own, 0 for rows that it does not see, the largest."""
    given = rows.weights
    return np.ones(rows.n_rows) if given is None else given if given.ndim == 1 else np.max(given, axis=1)
