"""Rows from any object that can be iterated over again and again and yields blocks of (X, y) or (X, y, w)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.rows.source import Raw, Source, join


class IterableSource(Source):
    """Blocks of rows from a re-iterable, or from a function that returns a fresh iterator.

    Every pass iterates anew and checks that the same rows come again.

    Parameters
    ----------
    blocks : iterable or callable
        Yields (X, y) or (X, y, w); y may be None.
    feature_names : sequence of str, optional
    scale : bool, default=False
    name : str, default="the blocks"

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.rows import IterableSource
    >>> source = IterableSource([(np.ones((2, 3)), np.array([0, 1])), (np.zeros((1, 3)), np.array([1]))])
    >>> source.n_rows, source.read(1, 3).y
    (3, array([1, 1]))
    """

    sequential = True

    def __init__(
        self,
        blocks: Iterable[Any] | Callable[[], Iterable[Any]],
        *,
        feature_names: Any = None,
        scale: bool = False,
        name: str = "the blocks",
    ) -> None:
        if not callable(blocks) and iter(blocks) is iter(blocks):
            raise TypeError(
                f"rows are read in several passes, but {type(blocks).__name__} can be iterated over only once. Give a "
                "list, an object whose __iter__ starts anew, or a function that returns a fresh iterator."
            )
        self._blocks = blocks
        self.name, self.scale = name, scale
        self.n_index_passes = 1
        sizes, self._prints = [], []
        first: Raw | None = None
        for number, raw in enumerate(self._fresh()):
            if first is None:
                first = raw
            self._agree(first, raw, number)
            sizes.append(len(raw))
            self._prints.append(_fingerprint(raw))
        if first is None or not sum(sizes):
            raise ValueError(f"{name} hold no rows; expected at least one block of (X, y).")
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.n_rows, self.n_features = int(self.starts[-1]), int(first.X.shape[1])
        self.dtype, self.is_sparse = first.X.dtype, sparse.issparse(first.X)
        self.n_targets = 0 if first.y is None else 1 if first.y.ndim == 1 else first.y.shape[1]
        self.has_weight = first.w is not None
        self.feature_names = None if feature_names is None else tuple(str(one) for one in feature_names)
        self._rewind()

    def where(self, row: int) -> str:
        block = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"row {row - int(self.starts[block])} of block {block} of {self.name}"

    def bounds(self) -> np.ndarray | None:
        return self.starts

    def read(self, start: int, stop: int) -> Raw:
        if start < self._at - len(self._held):
            self._rewind()
        parts: list[Raw] = []
        while True:
            first = self._at - len(self._held)
            if self._at > start:
                here = slice(max(0, start - first), min(len(self._held), stop - first))
                parts.append(self._held.part(here))
            if self._at >= stop:
                return join(parts)
            self._next()

    # -- iteration -------------------------------------------------------------------------------------

    def _fresh(self) -> Iterator[Raw]:
        blocks = self._blocks() if callable(self._blocks) else self._blocks
        for number, block in enumerate(blocks):
            yield _as_raw(block, f"block {number} of {self.name}")

    def _rewind(self) -> None:
        self._iterator, self._number, self._at = self._fresh(), 0, 0
        self._held = Raw(np.empty((0, self.n_features)))

    def _next(self) -> None:
        raw = next(self._iterator, None)
        if raw is None or self._number >= len(self._prints) or _fingerprint(raw) != self._prints[self._number]:
            raise ValueError(
                f"block {self._number} of {self.name} is not the one that came in the first pass: every pass must "
                "yield the same rows in the same order. Fix the order and the random numbers of the iterable."
            )
        self._number += 1
        self._at += len(raw)
        self._held = raw

    def _agree(self, first: Raw, raw: Raw, number: int) -> None:
        def kind(one: Raw) -> tuple[Any, ...]:
            y = None if one.y is None else one.y.shape[1:]
            return one.X.shape[1], one.X.dtype, sparse.issparse(one.X), y, one.w is None

        if kind(first) != kind(raw):
            raise ValueError(
                f"block {number} of {self.name} differs from the first: (features, type, sparse, columns of y, no "
                f"weights) are {kind(raw)}, expected {kind(first)}."
            )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_iterator", "_held")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._rewind()


def _as_raw(block: Any, what: str) -> Raw:
    if not isinstance(block, tuple | list) or len(block) not in (2, 3):
        raise TypeError(f"{what} must be a tuple (X, y) or (X, y, weights); got {type(block).__name__}.")
    X = block[0]
    if sparse.issparse(X):
        X = X.tocsr()
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    else:
        X = np.asarray(X)
        X = np.ascontiguousarray(X, dtype=X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
    if X.ndim != 2:
        raise ValueError(f"X of {what} must have two dimensions; got shape {X.shape}.")
    y = None if block[1] is None else np.asarray(block[1])
    w = None if len(block) == 2 or block[2] is None else np.asarray(block[2], dtype=np.float64)
    for name, values in (("y", y), ("weights", w)):
        if values is not None and len(values) != X.shape[0]:
            raise ValueError(f"{what} has {X.shape[0]} rows in X but {len(values)} in {name}.")
    return Raw(X, y, w)


def _fingerprint(raw: Raw) -> int:
    X = [raw.X.data, raw.X.indices, raw.X.indptr] if sparse.issparse(raw.X) else [raw.X]
    print_ = len(raw)
    for values in (*X, raw.y, raw.w):
        if values is not None:
            plain = values if values.dtype != object else values.astype(str)
            print_ = zlib.crc32(np.ascontiguousarray(plain).tobytes(), print_)
    return print_


def as_source(rows: Any, **options: Any) -> Source:
    """A source from a source or from a re-iterable of blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.rows import as_source
    >>> as_source([(np.eye(2), np.array([0, 1]))])
    <IterableSource the blocks: 2 rows x 2 features, float64>
    """
    return rows if isinstance(rows, Source) else IterableSource(rows, **options)
