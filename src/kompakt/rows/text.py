"""Rows in text files that are read by ranges of bytes: svmlight / LIBSVM files, and CSV."""

from __future__ import annotations

import bisect
import io
import os
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.rows.npy import csr_rows
from kompakt.rows.source import ChunkedSource, Raw

CHUNK_BYTES = 4 << 20


class ByteRange:
    """Some whole lines of a file."""

    __slots__ = ("path", "start", "stop")

    def __init__(self, path: str, start: int, stop: int) -> None:
        self.path, self.start, self.stop = path, start, stop

    def read(self) -> bytes:
        """The bytes themselves."""
        with open(self.path, "rb") as file:
            file.seek(self.start)
            return file.read(self.stop - self.start)


def line_ranges(path: str, first: int = 0, size: int = CHUNK_BYTES) -> list[ByteRange]:
    """Ranges of about `size` bytes that end at line ends."""
    end = os.path.getsize(path)
    ranges, start = [], first
    with open(path, "rb") as file:
        while start < end:
            stop = min(end, start + size)
            if stop < end:
                file.seek(stop - 1)
                file.readline()
                stop = file.tell()
            ranges.append(ByteRange(path, start, stop))
            start = stop
    return ranges


class SvmlightSource(ChunkedSource):
    r"""Rows of svmlight / LIBSVM text files, as CSR; parsed by scikit-learn's reader.

    Opening reads the files once, for the number of rows and of features.

    Parameters
    ----------
    paths : list of str
    n_features : int, optional
        None takes the largest number found.
    zero_based : bool or "auto", default="auto"
        Whether features are counted from 0; "auto" as in scikit-learn: from 1 unless a 0 occurs.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from kompakt import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rows.svm")
    ...     _ = path.write_text("1 1:0.5 3:2\n-1 2:1\n")
    ...     open_rows(path).read(0, 2).X.toarray()
    array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]])
    """

    is_sparse = True
    n_targets = 1

    def __init__(
        self, paths: list[str], *, n_features: int | None = None, zero_based: Any = "auto", scale: bool = False
    ) -> None:
        self.name, self.scale = _named(paths), scale
        self.n_index_passes = 1
        self._ranges: list[ByteRange] = []
        sizes, least, largest = [], 1, -1
        for path in paths:
            for part in line_ranges(path):
                X, _ = _parse(part)
                if X.shape[0]:
                    self._ranges.append(part)
                    sizes.append(X.shape[0])
                    if X.nnz:
                        least, largest = min(least, int(X.indices.min())), max(largest, int(X.indices.max()))
        if not sizes:
            raise ValueError(f"{self.name} holds no rows.")
        if zero_based is False and least == 0:
            raise ValueError(
                f"zero_based=False, but {self.name} has a feature number 0; expected 1 at least. Leave zero_based out."
            )
        self._first = 0 if zero_based is True or (zero_based == "auto" and least == 0) else 1
        found = largest + 1 - self._first
        if n_features is not None and n_features < found:
            raise ValueError(f"n_features={n_features}, but {self.name} has a feature number {found}.")
        self.n_features = found if n_features is None else int(n_features)
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.n_rows = int(self.starts[-1])

    def where(self, row: int) -> str:
        chunk = bisect.bisect_right(self.starts, row) - 1
        part = self._ranges[chunk]
        line = row - int(self.starts[chunk]) + 1
        return f"row {row} of {self.name} (row {line} after byte {part.start} of {part.path})"

    def load(self, chunk: int) -> Raw:
        X, y = _parse(self._ranges[chunk])
        # counted from 0 by the reader; comments and blank lines are gone
        start = int(self.starts[chunk])
        return Raw(
            csr_rows(X.data, X.indices - self._first, X.indptr, self.n_features, lambda row: self.where(start + row)), y
        )


def _parse(part: ByteRange) -> tuple[Any, np.ndarray]:
    from sklearn.datasets import load_svmlight_file

    text = part.read()
    if not text.strip():
        return sparse.csr_matrix((0, 0)), np.empty(0)
    try:
        return load_svmlight_file(io.BytesIO(text), zero_based=True)
    except (ValueError, OverflowError) as error:  # a feature number beyond 32 bits overflows in the reader
        raise ValueError(
            f"{part.path}: no svmlight rows between bytes {part.start} and {part.stop}: {error}. Expected lines "
            "like '1 3:0.5 7:2' with ascending feature numbers."
        ) from error


def _named(paths: list[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
