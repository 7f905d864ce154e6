"""Sums over blocks of rows that are held in memory, in a fixed order on any number of threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kompakt.data import tree_sum
from kompakt.design import DEFAULT_BUDGET
from kompakt.parallel import ordered_map

Array = np.ndarray


class RowBlocks:
    """Row ranges of `size` rows each; sums over them do not depend on the number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.blocks import RowBlocks
    >>> values = np.arange(5.0)
    >>> RowBlocks(5, 2).total(lambda rows: (values[rows].sum(),))
    (array(10.),)
    """

    def __init__(self, n_rows: int, size: int) -> None:
        self.n_rows = n_rows
        self._slices = [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)] or [slice(0, 0)]

    def total(self, function: Callable[[slice], tuple[Array, ...]]) -> tuple[Array, ...]:
        """Sum the arrays that `function(rows)` returns."""

        def one(rows: slice) -> tuple[Array, ...]:
            return tuple(np.asarray(part) for part in function(rows))

        return one(self._slices[0]) if len(self._slices) == 1 else tree_sum(ordered_map(one, self._slices))

    def each(self, function: Callable[[slice], None]) -> None:
        """Call `function(rows)` for its effect on disjoint slices of the caller's arrays."""
        if len(self._slices) == 1:
            function(self._slices[0])
            return
        for _ in ordered_map(function, self._slices):
            pass


def require_memory(n_rows: int, width: int, memory_budget: int | None) -> None:
    """Refuse a growth whose features do not fit the budget."""
    budget = DEFAULT_BUDGET if memory_budget is None else memory_budget
    needed = 8 * n_rows * width
    if needed > budget:
        raise MemoryError(
            f"growing needs the features of all rows in memory: {n_rows} rows x {width} columns of float64 are "
            f"{needed / 2**20:.0f} MiB, but memory_budget allows {budget / 2**20:.0f} MiB. "
            "Raise memory_budget, lower n_basis, or use a one-shot selection (CompactSVC)."
        )
