"""Readers and tasks: what one piece of a pass does, as pure functions that can run anywhere.

A task is a function of (reader, ..., bounds, raw).  With ``raw=None`` it reads its rows through the reader's source;
a scheduler whose rows already lie in a partition hands them in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.rows.arrays import ArrayRows
from kompakt.rows.base import BlockFunction, RowBlock, Sums, sum_in_order
from kompakt.rows.hashing import hash_numbers, hash_rows
from kompakt.rows.source import Raw, Source, join

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
