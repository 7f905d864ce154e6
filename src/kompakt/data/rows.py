"""What identifies rows: sums of hashes over inputs, targets and weights, in one pass over any source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.parallel import ordered_map

Sums = tuple[np.ndarray, ...]


class RowBlock:
    """Consecutive rows with their targets and weights; `X` is formed only when it is asked for."""

    __slots__ = ("_make", "start", "stop", "targets", "weights")

    def __init__(
        self,
        start: int,
        stop: int,
        make: Callable[[int, int], Any],
        targets: np.ndarray | None,
        weights: np.ndarray | None,
    ) -> None:
        self.start, self.stop = start, stop
        self._make = make
        self.targets, self.weights = targets, weights

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def X(self) -> Any:
        """The rows, centred where the source says so."""
        return self._make(self.start, self.stop)


BlockFunction = Callable[[RowBlock], Sums]


class Rows(ABC):
    """A source of rows with targets (n, L) and weights (n,) or (n, L)."""

    n_rows: int
    n_features: int
    n_outputs: int
    dtype: np.dtype
    #: whether the rows are read anew in every pass instead of held
    streamed: bool = False

    @property
    def remote(self) -> bool:
        """Whether functions run in other processes, where arrays of this one are copies."""
        return False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.n_rows, self.n_features

    @abstractmethod
    def block(self, start: int, stop: int) -> RowBlock:
        """Rows start..stop."""

    @abstractmethod
    def take(self, indices: np.ndarray) -> Any:
        """Rows by number, dense or CSR, centred like the blocks."""

    def map_reduce(self, function: BlockFunction, block_rows: int) -> Sums:
        """Sum `function(block)` over all row blocks, in float64 and in a fixed order."""
        tasks = list(task_bounds(self.n_rows, block_rows))

        def run(bounds: tuple[int, int]) -> Sums:
            return sum_in_order(
                function(self.block(s, min(s + block_rows, bounds[1]))) for s in range(*bounds, block_rows)
            )

        return tree_sum(ordered_map(run, tasks))

    def for_each(self, function: Callable[[RowBlock], None], block_rows: int) -> None:
        """Run `function` on every block for its effect on arrays of the caller (disjoint slices)."""

        def run(start: int) -> None:
            function(self.block(start, min(start + block_rows, self.n_rows)))

        for _ in ordered_map(run, range(0, self.n_rows, block_rows)):
            pass

    def collect(self, function: Callable[[RowBlock], np.ndarray], block_rows: int, out: np.ndarray) -> np.ndarray:
        """Write the values that `function` gives for the rows of each block into `out`, one entry per row."""

        def one(block: RowBlock) -> None:
            out[block.start : block.stop] = function(block)

        self.for_each(one, block_rows)
        return out


def task_bounds(n_rows: int, block_rows: int) -> Iterator[tuple[int, int]]:
    """Row ranges of the tasks: a few blocks each where there are many, one block each where there are few."""
    n_blocks = -(-n_rows // block_rows)
    per_task = block_rows * min(8, max(1, n_blocks // 16))
    for start in range(0, n_rows, per_task):
        yield start, min(start + per_task, n_rows)


def sum_in_order(results: Iterable[Sums]) -> Sums:
    """Float64 sums of the results, one after the other."""
    totals: Sums | None = None
    for result in results:
        # the first is copied, so that the sums never share memory with what the function returned
        totals = tuple(np.array(part, dtype=np.float64) for part in result) if totals is None else _add(totals, result)
    if totals is None:
        raise ValueError("there are no rows to reduce over.")
    return totals


def tree_sum(results: Iterable[Sums]) -> Sums:
    """Sum in the shape of a binary tree, in the order of arrival, holding O(log n) partial sums."""
    stack: list[tuple[int, Sums]] = []
    for result in results:
        level = 0
        while stack and stack[-1][0] == level:
            _, left = stack.pop()
            result = _add(left, result)
            level += 1
        stack.append((level, result))
    if not stack:
        raise ValueError("there are no rows to reduce over.")
    total = stack.pop()[1]
    while stack:
        total = _add(stack.pop()[1], total)
    return total


def _add(left: Sums, right: Sums) -> Sums:
    # New arrays, never `+=`: a part may be a NumPy scalar, for which `+=` binds a name and leaves the sum as it was,
    # and a part may be needed again, where a task that was lost with its worker is run once more.
    return tuple(np.asarray(one + other) for one, other in zip(left, right, strict=True))


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

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data import ArrayRows
    >>> rows = ArrayRows(np.arange(6.0).reshape(3, 2))
    >>> rows.map_reduce(lambda block: (block.X.sum(axis=0),), block_rows=2)
    (array([6., 9.]),)
    """

    def __init__(
        self,
        X: Any,
        targets: np.ndarray | None = None,
        weights: np.ndarray | None = None,
        offset: np.ndarray | None = None,
    ) -> None:
        self.X = X
        self.targets = targets
        self.weights = weights
        self.is_sparse = sparse.issparse(X)
        self.offset = None if offset is None or self.is_sparse else offset.astype(X.dtype)
        self.n_rows, self.n_features = X.shape
        self.n_outputs = 1 if targets is None else targets.shape[1]
        #: where the rows are some of the rows of a kernel matrix: their numbers in it (None: all, in order)
        self.numbers: np.ndarray | None = None
        #: labels or values as they were given, where the rows were taken from a source
        self.y: np.ndarray | None = None
        self.w: np.ndarray | None = None
        #: of rows standardised on the way: from the user's units to theirs
        self.to_inputs: Callable[[Any], Any] | None = None
        # Sparse rows are never centred, so their distances need float64 (see kernels.base.dense_rows).
        self.dtype = np.dtype(np.float64) if self.is_sparse else X.dtype

    def _rows(self, start: int, stop: int) -> Any:
        X = self.X[start:stop]
        return X if self.offset is None else X - self.offset

    def block(self, start: int, stop: int) -> RowBlock:
        return RowBlock(
            start,
            stop,
            self._rows,
            None if self.targets is None else self.targets[start:stop],
            None if self.weights is None else self.weights[start:stop],
        )

    def take(self, indices: np.ndarray) -> Any:
        X = self.X[indices]
        return X if self.offset is None else X - self.offset

    def as_inputs(self, X: Any) -> Any:
        """Vectors in the user's units as these rows have them before centring."""
        return X if self.to_inputs is None else self.to_inputs(X)

    def originals(self, indices: np.ndarray) -> Any:
        """Rows by number as they were given, not centred."""
        return self.X[indices]

    def hashes(self, key: int) -> np.ndarray:
        """A keyed hash of every row, (n,); see `hash_rows`."""
        return hash_rows(self.X, key)

    def smallest(self, key: int, count: int) -> np.ndarray:
        """Numbers of the rows with the `count` smallest distinct hashes, in the order of the hash."""
        return smallest_distinct(self.hashes(key), count)

    @property
    def mass(self) -> float:
        """Sum of the weights, over all outputs where each has its own."""
        return float(self.n_rows) if self.weights is None else float(np.sum(self.weights))

    @property
    def weight_columns(self) -> int:
        """0 without weights, 1 where outputs share them, else their number."""
        return 0 if self.weights is None else 1 if self.weights.ndim == 1 else self.weights.shape[1]

    def subset(self, index: np.ndarray) -> ArrayRows:
        """Some of the rows with their targets and weights, centred alike, knowing their numbers here."""
        part = ArrayRows(
            self.X[index],
            None if self.targets is None else self.targets[index],
            None if self.weights is None else self.weights[index],
        )
        part.offset = self.offset
        part.numbers = index if self.numbers is None else self.numbers[index]
        part.to_inputs = self.to_inputs
        return part


_STEADY_BITS = 40
#: block size of all sums of a first pass: those over streamed rows must agree with those in memory to the last bit
MOMENT_ROWS = 4096


def _is_sparse(X: Any) -> bool:
    return bool(X.is_sparse) if isinstance(X, Rows) else sparse.issparse(X)  # type: ignore[attr-defined]


def column_means(X: Any, weights: np.ndarray | None = None, block_rows: int = MOMENT_ROWS) -> np.ndarray:
    """Weighted mean of every column in float64, (d,)."""
    total, mass = _reduce(X, weights, lambda rows, w: (np.asarray(rows.T @ w).ravel(),), block_rows)
    return total / mass


def centre_of(X: Any, weights: np.ndarray | None = None, block_rows: int = MOMENT_ROWS) -> np.ndarray:
    """A point near the mean of dense rows, the same to the last bit for any order of the rows, (d,).

    Sums in another order differ in their last bits; a basis that is nearly dependent would blow this up to differing
    coefficients.  So the means are rounded to 2^-40 of the mean absolute value: as good a centre as any.
    """
    return centre_from(*_reduce(X, weights, centre_sums, block_rows))


def centre_sums(rows: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the entries and of their sizes, for `centre_from`."""
    return w @ rows, w @ np.abs(rows)


def centre_from(total: np.ndarray, size: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """The centre from the sums of the entries, of their sizes, and of the weights."""
    quantum = np.exp2(np.ceil(np.log2(np.maximum(size / mass, np.finfo(np.float64).tiny))) - _STEADY_BITS)
    return np.round(total / mass / quantum) * quantum


def steady(value: float) -> float:
    """A sum rounded to 40 bits, so that it does not depend on the order of its terms."""
    mantissa, exponent = np.frexp(value)
    return float(np.ldexp(np.round(mantissa * 2.0**_STEADY_BITS), exponent - _STEADY_BITS))


def total_variance(
    X: Any, weights: np.ndarray | None = None, block_rows: int = MOMENT_ROWS, centre: np.ndarray | None = None
) -> float:
    """Weighted variance of all entries together: `X.var()` when unweighted.  Two passes, so offsets do no harm.

    X may be a matrix or rows with their weights; one pass less where their `centre_of` is known.
    """
    if _is_sparse(X):
        # the entries not stored are zeros: each is a squared mean away from the mean
        mean = float(column_means(X, weights, block_rows).mean())
        within, stored, mass = _reduce(X, weights, lambda rows, w: _stored_squares(rows, w, mean), block_rows)
        return float((within + (mass * X.shape[1] - stored) * mean * mean) / (mass * X.shape[1]))
    centre = centre_of(X, weights, block_rows) if centre is None else centre
    first, second, mass = _reduce(X, weights, lambda rows, w: _centred_powers(rows - centre, w), block_rows)
    between = centre - centre.mean() - (first / mass).mean()  # from the mean of all entries to the centres
    return float(max(0.0, np.mean(second / mass + 2.0 * between * first / mass + between**2)))


def _centred_powers(rows: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(over="ignore"):  # a variance that is not finite is the caller's to refuse
        return w @ rows, w @ np.square(rows)


def _stored_squares(rows: Any, w: np.ndarray, mean: float) -> tuple[np.ndarray, np.ndarray]:
    """Sums over the stored entries of w (x - mean)^2 and of w."""
    w = np.repeat(w, np.diff(rows.indptr))
    with np.errstate(over="ignore"):
        return np.asarray(w @ np.square(rows.data - mean)), np.asarray(w.sum())


def _reduce(
    X: Any, weights: np.ndarray | None, sums: Callable[[Any, np.ndarray], tuple[np.ndarray, ...]], block_rows: int
) -> tuple[Any, ...]:
    """Sums of `sums(rows, w)` over float64 row blocks, followed by the sum of the weights."""

    def one(block: RowBlock) -> tuple[np.ndarray, ...]:
        w = np.ones(len(block)) if block.weights is None else block.weights
        return *sums(block.X.astype(np.float64), w), np.array(w.sum())

    rows = X if isinstance(X, Rows) else ArrayRows(X, weights=weights)
    return rows.map_reduce(one, block_rows)


_BLOCK = 4096


def _mix(x: np.ndarray) -> np.ndarray:
    """A bijective scrambler of 64-bit words (xor-shift and multiply), in place."""
    with np.errstate(over="ignore"):
        x ^= x >> np.uint64(30)
        x *= np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(27)
        x *= np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return x


def _keys(n_features: int, key: int) -> np.ndarray:
    """One word for the row itself, then one per column: without the first, a row of zeros would hash to 0 always."""
    columns = np.arange(1, n_features + 2, dtype=np.uint64)
    with np.errstate(over="ignore"):
        return _mix(columns * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key & 0xFFFFFFFFFFFFFFFF))


def hash_rows(X: Any, key: int) -> np.ndarray:
    """A 64-bit hash of every row, (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from kompakt.data import hash_rows
    >>> X = np.array([[0.0, 1.0], [-0.0, 1.0]], dtype=np.float32)
    >>> bool((hash_rows(X, 7) == hash_rows(sparse.csr_matrix(X), 7)).all())
    True
    """
    keys = _keys(X.shape[1], key)
    one = _hash_sparse if sparse.issparse(X) else _hash_dense
    bounds = range(0, X.shape[0], _BLOCK)
    parts = list(ordered_map(lambda start: one(X[start : start + _BLOCK], keys), bounds))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def _hash_dense(X: np.ndarray, keys: np.ndarray) -> np.ndarray:
    values = np.ascontiguousarray(X, dtype=np.float64)
    words = values.view(np.uint64) ^ keys[1:]
    words = _mix(words)
    words[values == 0] = 0
    with np.errstate(over="ignore"):
        return _mix(words.sum(axis=1, dtype=np.uint64) + keys[0])


def _hash_sparse(X: Any, keys: np.ndarray) -> np.ndarray:
    X = sparse.csr_matrix(X, copy=True)
    X.sum_duplicates()
    values = X.data.astype(np.float64)
    words = _mix(values.view(np.uint64) ^ keys[1:][X.indices])
    words[values == 0] = 0
    # cumulative sums wrap modulo 2^64, and so do their differences: the row sums are exact
    with np.errstate(over="ignore"):
        ends = np.concatenate([[np.uint64(0)], np.cumsum(words, dtype=np.uint64)])[X.indptr]
        return _mix(ends[1:] - ends[:-1] + keys[0])


def hash_numbers(start: int, stop: int, key: int) -> np.ndarray:
    """A 64-bit hash of the row numbers start..stop: a random choice of rows that does not depend on their content.

    Examples
    --------
    >>> from kompakt.data import hash_numbers
    >>> bool((hash_numbers(0, 9, 1)[4:] == hash_numbers(4, 9, 1)).all())
    True
    """
    with np.errstate(over="ignore"):
        words = np.arange(start, stop, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return _mix(_mix(words + np.uint64(key & 0xFFFFFFFFFFFFFFFF)) + np.uint64(0x9E3779B97F4A7C15))


def smallest_distinct(hashes: np.ndarray, count: int, eligible: np.ndarray | None = None) -> np.ndarray:
    """Row numbers of the `count` smallest distinct hashes, in the order of the hash; fewer if there are fewer."""
    candidates = np.arange(len(hashes)) if eligible is None else np.flatnonzero(eligible)
    _, first = np.unique(hashes[candidates], return_index=True)
    return candidates[first[:count]]


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
    names = ("inputs", "targets", "weights")
    return {name: _word(sums) for name, sums in zip(names, rows.map_reduce(_sums, block_rows), strict=True)}


def _sums(block: RowBlock) -> Sums:
    place = hash_numbers(block.start, block.stop, 1)
    return tuple(_pieces(part, place) for part in (block.X, block.targets, block.weights))


def _pieces(values: Any, place: np.ndarray) -> np.ndarray:
    """Sums of 16-bit pieces of the hashes: exact in float64 for up to 2^37 rows."""
    if values is None:
        return np.zeros(4)
    matrix = values.reshape(len(place), -1) if isinstance(values, np.ndarray) else values
    words = hash_rows(matrix, 1) ^ place
    shifts = np.arange(0, 64, 16, dtype=np.uint64)
    return np.asarray(np.sum((words[:, None] >> shifts) & np.uint64(0xFFFF), axis=0), dtype=np.float64)


def _word(sums: np.ndarray) -> str:
    return "-".join(f"{int(total):x}" for total in sums)
