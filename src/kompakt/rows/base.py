"""Rows: where they come from, and the one block loop of the package.

A row source has one operation: reduce a function over row blocks, in a fixed order.  The function gets a
`RowBlock` and returns a tuple of arrays; the result is their float64 sums.  Blocks are summed within a task and
tasks by a binary tree whose shape depends only on the number of rows, so the sums are bit-identical at any number
of threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from kompakt.threads import ordered_map

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
