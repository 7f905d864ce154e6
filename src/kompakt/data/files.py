"""Rows in files and other sources: npy, CSR on disk, zarr, svmlight, CSV, Parquet, and anything that yields blocks."""

from __future__ import annotations

import bisect
import csv
import io
import math
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.data.checks import as_words
from kompakt.data.streamed import ChunkedSource, Raw, Source, join

_CHUNK_BYTES = 8 << 20
#: column numbers and row pointers of CSR blocks have 32 bits
_MOST_FEATURES = np.iinfo(np.int32).max


class NpyArray:
    """A C-ordered array in a file, read by rows: anything ``numpy.save`` wrote, or the file behind a memory map."""

    def __init__(self, path: str, dtype: np.dtype, shape: tuple[int, ...], offset: int) -> None:
        self.path, self.dtype, self.shape, self.offset = path, dtype, shape, offset

    @classmethod
    def open(cls, path: Any) -> NpyArray:
        """The array of a .npy file."""
        path = os.fspath(path)
        with open(path, "rb") as file:
            dtype, shape, fortran = _header(file, path)
            offset = file.tell()
        return cls.checked(path, dtype, shape, offset, fortran)

    @classmethod
    def behind(cls, array: np.memmap) -> NpyArray:
        """The file behind a memory map, which must be the whole map."""
        if array.filename is None or isinstance(array.base, np.memmap):
            raise ValueError(
                "a part of a memory map, or a map without a file, cannot be read again by rows; give the whole map or "
                "the path of the file."
            )
        fortran = array.ndim > 1 and not array.flags.c_contiguous
        return cls.checked(os.fspath(array.filename), array.dtype, array.shape, int(array.offset), fortran)

    @classmethod
    def checked(
        cls,
        path: str,
        dtype: np.dtype,
        shape: tuple[int, ...],
        offset: int,
        fortran: bool,
        end: int | None = None,
        name: str | None = None,
    ) -> NpyArray:
        """An array at a place in a file that ends at byte `end`; what its header says must fit the file.

        A header is a few bytes that may say anything: nothing is allocated by it before it was compared with the size.
        """
        name = name or path
        end = os.path.getsize(path) if end is None else end
        needed = math.prod(shape) * dtype.itemsize  # Python's numbers, which do not overflow
        if any(length < 0 for length in shape) or offset + needed > end:
            raise ValueError(
                f"{name} ends before its rows do: its header says shape {shape} of {dtype}, which are {needed} bytes, "
                f"but the file has {max(0, end - offset)}. It was cut short or damaged; write it again."
            )
        if dtype.hasobject:
            raise ValueError(f"{name} holds Python objects (pickled); expected numbers. Save them as floats.")
        if fortran and len(shape) > 1 and min(shape) > 1:
            raise ValueError(
                f"{name} is stored column by column (Fortran order), so that no rows can be read alone. "
                "Save it with numpy.save(path, numpy.ascontiguousarray(X))."
            )
        return cls(path, dtype, shape, offset)

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows start..stop."""
        width = int(np.prod(self.shape[1:], dtype=np.int64))
        values = np.fromfile(
            self.path, self.dtype, (stop - start) * width, offset=self.offset + start * width * self.dtype.itemsize
        )
        if len(values) != (stop - start) * width:
            raise ValueError(f"{self.path} ends before row {stop}, but promises {self.shape[0]} rows; write it again.")
        return values.reshape(stop - start, *self.shape[1:])


def _header(file: Any, name: str) -> tuple[np.dtype, tuple[int, ...], bool]:
    """Type, shape and Fortran order from the header of a .npy file, which is read up to its end."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except ValueError as error:
        raise ValueError(f"{name} is no .npy file that can be read: {error}") from error
    return dtype, shape, fortran


class NpyParts:
    """Arrays in several files, one after the other."""

    def __init__(self, parts: list[NpyArray]) -> None:
        self.parts = parts
        first = parts[0]
        for part in parts:
            if part.shape[1:] != first.shape[1:] or part.dtype != first.dtype:
                raise ValueError(
                    f"{part.path} holds {part.dtype} of shape {part.shape}; expected rows of shape {first.shape[1:]} "
                    f"and type {first.dtype} as in {first.path}."
                )
        self.starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        self.dtype = first.dtype
        self.shape = (int(self.starts[-1]), *first.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows start..stop."""
        found, at = [], start
        number = int(np.searchsorted(self.starts, start, side="right")) - 1
        while at < stop:
            begin, end = int(self.starts[number]), int(self.starts[number + 1])
            if end > at:
                found.append(self.parts[number].read(at - begin, min(stop, end) - begin))
                at = min(stop, end)
            number += 1
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else np.empty((0, *self.shape[1:]), dtype=self.dtype)

    def where(self, row: int) -> str:
        """A row in the words of its file."""
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"row {row - int(self.starts[number])} of {self.parts[number].path}"


def as_floats(X: np.ndarray, name: str) -> np.ndarray:
    """Numeric values as float32 or float64."""
    if X.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds values of type {X.dtype}; expected numbers. Encode them as numbers first.")
    native = X.dtype.newbyteorder("=")
    return X.astype(native if native in (np.float32, np.float64) else np.float64, copy=False)


class NpySource(Source):
    """Rows of one or several .npy files, or of memory maps.

    Parameters
    ----------
    X : NpyParts
    y, w : NpyParts or array, optional
        Targets and weights.
    columns : list of int, optional
        Columns of X that are features; None means all.
    y_columns, w_column : int or list of int, optional
        Where targets or weights are columns of X themselves.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from kompakt import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "X.npy")
    ...     np.save(path, np.eye(3))
    ...     open_rows(path, target=np.array([0, 1, 1])).read(1, 3).y
    array([1, 1])
    """

    def __init__(
        self,
        X: NpyParts,
        y: Any = None,
        w: Any = None,
        *,
        columns: list[int] | None = None,
        y_columns: Any = None,
        w_column: int | None = None,
        scale: bool = False,
        name: str = "X.npy",
    ) -> None:
        if len(X.shape) != 2 or min(X.shape) < 1:
            raise ValueError(f"{name} has shape {X.shape}; expected two dimensions, at least one row and one column.")
        self._X, self._y, self._w = X, y, w
        self._columns, self._y_columns, self._w_column = columns, y_columns, w_column
        self.name, self.scale, self.n_rows = name, scale, len(X)
        check_lengths(self, y, w)
        first = self.read(0, 1)
        assert not sparse.issparse(first.X)
        self.n_features, self.dtype = first.X.shape[1], first.X.dtype
        self.n_targets = n_columns(first.y)
        self.has_weight = first.w is not None

    def where(self, row: int) -> str:
        return self._X.where(row)

    def read(self, start: int, stop: int) -> Raw:
        whole = self._X.read(start, stop)
        y = None if self._y is None else _slice(self._y, start, stop)
        w = None if self._w is None else np.asarray(_slice(self._w, start, stop), dtype=np.float64)
        if self._y_columns is not None:
            y = whole[:, self._y_columns]
        if self._w_column is not None:
            w = whole[:, self._w_column].astype(np.float64)
        X = whole if self._columns is None else np.ascontiguousarray(whole[:, self._columns])
        return Raw(as_floats(X, self.name), y, w)


def n_columns(y: Any) -> int:
    """`n_targets` of a source with these targets."""
    return 0 if y is None else 1 if len(y.shape) == 1 else int(y.shape[1])


def check_lengths(source: Source, y: Any, w: Any) -> None:
    """One target and one weight per row."""
    for what, values in (("target", y), ("weight", w)):
        if values is not None and values.shape[0] != source.n_rows:
            raise ValueError(f"{source.name} has {source.n_rows} rows, but its {what} has {values.shape[0]}.")


def _slice(values: Any, start: int, stop: int) -> np.ndarray:
    return values.read(start, stop) if hasattr(values, "read") else np.asarray(values[start:stop])


class ArraySource(ChunkedSource):
    """Rows of an array-like that gives slices of rows, such as a zarr or HDF5 array.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.files import ArraySource
    >>> ArraySource(np.eye(4), np.arange(4)).read(2, 4).y
    array([2, 3])
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        w: Any = None,
        *,
        chunk_rows: int | None = None,
        scale: bool = False,
        name: str = "",
    ) -> None:
        self._X, self._y, self._w = X, y, w
        self.name, self.scale = name or type(X).__name__, scale
        self.n_rows, self.n_features = (int(size) for size in X.shape)
        kind = np.dtype(X.dtype)
        self.dtype = kind if kind in (np.float32, np.float64) else np.dtype(np.float64)
        check_lengths(self, y, w)
        self.n_targets = n_columns(y)
        self.has_weight = w is not None
        chunks = getattr(X, "chunks", None)
        least = int(chunks[0]) if isinstance(chunks, tuple) and isinstance(chunks[0], int) else 1
        wanted = chunk_rows or max(1, _CHUNK_BYTES // max(1, self.n_features * self.dtype.itemsize))
        step = least * max(1, wanted // least)
        self.starts = np.append(np.arange(0, self.n_rows, step), self.n_rows)

    def load(self, chunk: int) -> Raw:
        here = slice(int(self.starts[chunk]), int(self.starts[chunk + 1]))
        X = as_floats(np.ascontiguousarray(self._X[here]), self.name)
        y = None if self._y is None else np.asarray(self._y[here])
        return Raw(X, y, None if self._w is None else np.asarray(self._w[here], dtype=np.float64))


class CsrSource(ChunkedSource):
    """A CSR matrix on disk: the three arrays of a folder of .npy files, or of a file of ``scipy.sparse.save_npz``.

    A folder holds ``data.npy``, ``indices.npy``, ``indptr.npy`` and ``shape.npy``; only the row pointers are held in
    memory (8 bytes per row).  The arrays of an .npz file must be stored without compression (``compressed=False``) to
    be read in place.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from scipy import sparse
    >>> from kompakt import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "X.npz")
    ...     sparse.save_npz(path, sparse.eye(4, format="csr"), compressed=False)
    ...     open_rows(path, target=np.arange(4)).read(1, 3).X.toarray()
    array([[0., 1., 0., 0.],
           [0., 0., 1., 0.]])
    """

    is_sparse = True

    def __init__(
        self, arrays: dict[str, NpyArray], y: Any = None, w: Any = None, *, scale: bool = False, name: str = "X.npz"
    ) -> None:
        self._data, self._indices = arrays["data"], arrays["indices"]
        self._y, self._w, self.name, self.scale = y, w, name, scale
        for part in ("data", "indices", "indptr", "shape"):
            kinds = "fiub" if part == "data" else "iu"
            if len(arrays[part].shape) != 1 or arrays[part].dtype.kind not in kinds:
                raise ValueError(
                    f"{name} is no CSR matrix: {part} is {arrays[part].dtype} of shape {arrays[part].shape}; expected "
                    f"one dimension of {'numbers' if part == 'data' else 'whole numbers'}. Save it again from SciPy."
                )
        shape = arrays["shape"].read(0, len(arrays["shape"])).tolist()
        if len(shape) != 2 or min(shape) < 1 or shape[1] > _MOST_FEATURES:
            raise ValueError(
                f"{name} is no CSR matrix that can be used: its shape is {tuple(shape)}; expected at least one row and "
                f"1 to {_MOST_FEATURES} columns."
            )
        self.n_rows, self.n_features = shape
        self._indptr = self._pointers(arrays["indptr"])
        kind = self._data.dtype.newbyteorder("=")
        self.dtype = kind if kind in (np.float32, np.float64) else np.dtype(np.float64)
        check_lengths(self, y, w)
        self.n_targets = n_columns(y)
        self.has_weight = w is not None
        # chunks of about equal bytes: rows may differ in length a lot
        bytes_before = self._indptr[:-1] * (self.dtype.itemsize + 4) + 8 * np.arange(self.n_rows)
        cuts = np.arange(0, bytes_before[-1] + 1, _CHUNK_BYTES)
        self.starts = np.append(np.unique(np.searchsorted(bytes_before, cuts)), self.n_rows)

    def _pointers(self, array: NpyArray) -> np.ndarray:
        """The row pointers, checked: they begin at 0, never fall, and end within the entries."""
        if len(array) != self.n_rows + 1:
            raise ValueError(f"{self.name} is no CSR matrix: {len(array)} row pointers for {self.n_rows} rows.")
        if len(self._data) != len(self._indices):
            raise ValueError(
                f"{self.name} is no CSR matrix: it has {len(self._data)} values and {len(self._indices)} column "
                "numbers; expected as many. Save it again from SciPy."
            )
        pointers = array.read(0, len(array))
        falling = np.flatnonzero(pointers[1:] < pointers[:-1])
        if pointers[0] != 0 or len(falling) or pointers[-1] > len(self._data):
            row = int(falling[0]) if len(falling) else 0 if pointers[0] != 0 else self.n_rows - 1
            raise ValueError(
                f"{self.name} is no CSR matrix: the entries of row {row} are said to be {pointers[row]} to "
                f"{pointers[row + 1]} of {len(self._data)}; expected row pointers that begin at 0, never fall and end "
                "within the entries. Save it again from SciPy."
            )
        return pointers.astype(np.int64)

    def load(self, chunk: int) -> Raw:
        start, stop = int(self.starts[chunk]), int(self.starts[chunk + 1])
        first, last = int(self._indptr[start]), int(self._indptr[stop])
        data = as_floats(self._data.read(first, last), self.name)
        pointers = self._indptr[start : stop + 1] - first
        indices = self._indices.read(first, last)
        X = csr_rows(data, indices, pointers, self.n_features, lambda row: self.where(start + row))
        y = None if self._y is None else _slice(self._y, start, stop)
        return Raw(X, y, None if self._w is None else np.asarray(_slice(self._w, start, stop), dtype=np.float64))


def csr_rows(
    data: np.ndarray, indices: np.ndarray, pointers: np.ndarray, n_features: int, where: Callable[[int], str]
) -> Any:
    """A CSR matrix whose column numbers were checked: SciPy's routines write wherever they point to."""
    wrong = (indices < 0) | (indices >= n_features)  # before they are made 32 bits wide, where large ones wrap
    if wrong.any():
        at = int(np.argmax(wrong))
        row = int(np.searchsorted(pointers, at, side="right")) - 1
        raise ValueError(
            f"{where(row)} has an entry in column {indices[at]}; expected columns 0 to {n_features - 1}. The file is "
            "damaged, or its shape is too small; write it again."
        )
    if len(data) > _MOST_FEATURES:
        raise ValueError(f"{where(0)} and the following have {len(data)} entries; expected at most {_MOST_FEATURES}.")
    parts = (data, indices.astype(np.int32, copy=False), pointers.astype(np.int32, copy=False))
    return sparse.csr_matrix(parts, shape=(len(pointers) - 1, n_features))


def npz_arrays(path: str) -> dict[str, NpyArray]:
    """The arrays of an uncompressed .npz file, by their place in it."""
    import zipfile

    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED:
                raise ValueError(
                    f"{path} is compressed, so that no rows can be read alone. Write it with numpy.savez(path, X=X, "
                    "y=y), or a sparse matrix with scipy.sparse.save_npz(path, X, compressed=False)."
                )
            name = f"{info.filename} of {path}"
            with archive.open(info) as member:
                dtype, shape, fortran = _header(member, name)
                header = member.tell()
            with open(path, "rb") as file:  # the local header repeats name and extra field, with lengths of its own
                file.seek(info.header_offset + 26)
                name_length, extra_length = np.frombuffer(file.read(4), dtype="<u2")
            start = info.header_offset + 30 + int(name_length) + int(extra_length)
            end = min(start + info.file_size, os.path.getsize(path))
            array = NpyArray.checked(path, dtype, shape, start + header, fortran, end, name)
            arrays[info.filename.removesuffix(".npy")] = array
    return arrays


def csr_arrays(path: str) -> dict[str, NpyArray]:
    """The arrays of a CSR matrix in an .npz file or in a folder of .npy files."""
    if os.path.isdir(path):
        arrays = {file.stem: NpyArray.open(file) for file in sorted(Path(path).glob("*.npy"))}
    else:
        arrays = npz_arrays(path)
    missing = {"data", "indices", "indptr", "shape"} - set(arrays)
    if missing:
        raise ValueError(f"{path} is no CSR matrix: {sorted(missing)} is missing among {sorted(arrays)}.")
    kind = arrays.get("format")
    if kind is not None:
        word = np.ravel(kind.read(0, 1) if kind.shape else _scalar(kind))[0]
        if word not in (b"csr", "csr"):
            raise ValueError(f"{path} holds a sparse matrix of another format; expected CSR. Save X.tocsr().")
    return arrays


def _scalar(array: NpyArray) -> np.ndarray:
    return np.fromfile(array.path, array.dtype, 1, offset=array.offset)


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
    >>> from kompakt.data import IterableSource
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
    if getattr(X, "dtype", np.dtype(float)).kind == "c":
        raise ValueError(f"X of {what} holds complex numbers; expected real ones.")
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
    >>> from kompakt.data import as_source
    >>> as_source([(np.eye(2), np.array([0, 1]))])
    <IterableSource the blocks: 2 rows x 2 features, float64>
    """
    return rows if isinstance(rows, Source) else IterableSource(rows, **options)


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


#: decoded row groups larger than this are kept one per thread, and no more
_LARGE_BYTES = 64 << 20


def pyarrow_module(name: str) -> Any:
    """A module of pyarrow, or an error that says how to get it."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            'reading Parquet and CSV files needs pyarrow; install it with: pip install "kompakt[cli]"'
        ) from error


class _Columns:
    """Which columns of a table are features, targets and weights."""

    def __init__(self, names: list[str], target: Any, weight: Any, columns: Any, what: str) -> None:
        self.what = what
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"{what} has several columns of the name {twice}; rename them.")
        known = dict(zip(names, names, strict=True)) | dict(enumerate(names))

        def find(wanted: Any, role: str) -> str:
            if isinstance(wanted, bool) or wanted not in known:
                raise ValueError(f"{what} has no column {wanted!r} for {role}; its columns are {names}.")
            return known[wanted]

        several = isinstance(target, list | tuple)
        targets = [] if target is None else list(target) if several else [target]
        self.targets = [find(name, "target") for name in targets]
        self.single = not several
        self.weight = None if weight is None else find(weight, "weight")
        taken = {*self.targets, *([] if self.weight is None else [self.weight])}
        if columns is None:
            self.features = [name for name in names if name not in taken]
        else:
            self.features = [find(name, "columns") for name in columns]
            twice = sorted(taken & set(self.features))
            if twice:
                raise ValueError(f"column {twice} of {what} is both a feature and target or weight.")
        if not self.features:
            raise ValueError(f"{what} has no feature columns beside target and weight; its columns are {names}.")

    @property
    def all(self) -> list[str]:
        """Every column that is read, each once."""
        return [*self.features, *self.targets, *([] if self.weight is None else [self.weight])]

    def refuse(self, schema: Any) -> None:
        """Refuse features and weights that are no numbers."""
        types = pyarrow_module("pyarrow").types
        wrong = {}
        for name in [*self.features, *([] if self.weight is None else [self.weight])]:
            kind = schema.field(name).type
            if not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
                wrong[name] = str(kind)
        if wrong:
            raise ValueError(
                f"columns {wrong} of {self.what} are no numbers. Encode categories as numbers before training, for "
                "example one 0/1 column per category (scikit-learn's OneHotEncoder, pandas.get_dummies), or leave "
                "them out with columns=[...]."
            )

    def raw(self, table: Any, dtype: np.dtype) -> Raw:
        """X, y and w of a table; missing values become NaN."""
        X = np.empty((table.num_rows, len(self.features)), dtype=dtype)
        for place, name in enumerate(self.features):
            X[:, place] = _numbers(table.column(name))
        y: np.ndarray | None = None
        if self.targets:
            y = _labels(table.column(self.targets[0]))
            if not self.single:
                y = np.column_stack([_numbers(table.column(name)) for name in self.targets])
        w = None if self.weight is None else _numbers(table.column(self.weight)).astype(np.float64)
        return Raw(X, y, w)


def _numbers(column: Any) -> np.ndarray:
    if column.null_count:
        column = column.cast("double")
    return column.to_numpy()


def _labels(column: Any) -> np.ndarray:
    types = pyarrow_module("pyarrow").types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_floating(column.type) or types.is_integer(column.type):
        return _numbers(column)
    return as_words(column.to_numpy(), column.is_null().to_numpy())


class ParquetSource(ChunkedSource):
    """Rows of Parquet files, decoded one row group at a time.

    Parameters
    ----------
    paths : list of str
    target : str, int, or list of them, optional
        Column of the labels or values; a list gives several regression targets.
    weight : str or int, optional
    columns : list, optional
        Features; None means all other columns.

    Examples
    --------
    >>> import os, tempfile
    >>> import pandas as pd
    >>> from kompakt import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.parquet")
    ...     pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0], "label": ["no", "yes"]}).to_parquet(path)
    ...     rows = open_rows(path, target="label")
    ...     rows.feature_names, rows.read(0, 2).y.tolist()
    (('a', 'b'), ['no', 'yes'])
    """

    def __init__(
        self, paths: list[str], *, target: Any = None, weight: Any = None, columns: Any = None, scale: bool = False
    ) -> None:
        parquet = pyarrow_module("pyarrow.parquet")
        self.name, self.scale = named(paths), scale
        self._groups: list[tuple[str, int]] = []
        sizes, schema = [], None
        for path in paths:
            with parquet.ParquetFile(path) as file:
                here, metadata = file.schema_arrow, file.metadata
            if schema is None:
                schema = here
                self._columns = _Columns(list(schema.names), target, weight, columns, path)
            missing = [name for name in self._columns.all if name not in here.names]
            if missing:
                raise ValueError(f"{path} lacks the columns {missing} that {paths[0]} has.")
            self._columns.refuse(here)
            for group in range(metadata.num_row_groups):
                if metadata.row_group(group).num_rows:
                    self._groups.append((path, group))
                    sizes.append(metadata.row_group(group).num_rows)
        if not sizes:
            raise ValueError(f"{self.name} holds no rows.")
        assert schema is not None
        single = all(str(schema.field(name).type) == "float" for name in self._columns.features)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.n_rows, self.n_features = int(self.starts[-1]), len(self._columns.features)
        self.n_targets = len(self._columns.targets)
        self.has_weight = self._columns.weight is not None
        self.feature_names = tuple(self._columns.features)
        if max(sizes) * self.n_features * self.dtype.itemsize > _LARGE_BYTES:
            self.keep = 2

    def where(self, row: int) -> str:
        chunk = int(np.searchsorted(self.starts, row, side="right")) - 1
        path, group = self._groups[chunk]
        first = next(index for index, (other, _) in enumerate(self._groups) if other == path)
        return f"row {row - int(self.starts[first])} of {path} (row group {group})"

    def load(self, chunk: int) -> Raw:
        path, group = self._groups[chunk]
        with pyarrow_module("pyarrow.parquet").ParquetFile(path) as file:
            table = file.read_row_group(group, columns=self._columns.all, use_threads=False)
        return self._columns.raw(table, self.dtype)


class CsvSource(ChunkedSource):
    r"""Rows of CSV files, decoded some megabytes at a time.

    Opening reads the files once, for the number of rows and the type of the target.  Line ends inside quotes are not
    supported.

    Parameters
    ----------
    paths : list of str
    target, weight, columns
        As in `ParquetSource`.
    delimiter : str, optional
        None means "," and a tab for .tsv files.
    header : bool, default=True
        Whether the first line names the columns; without it they are known by number.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from kompakt import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rows.csv")
    ...     _ = path.write_text("a,b,label\n1,2,x\n3,4,y\n")
    ...     open_rows(path, target="label").read(1, 2).X
    array([[3., 4.]])
    """

    def __init__(
        self,
        paths: list[str],
        *,
        target: Any = None,
        weight: Any = None,
        columns: Any = None,
        scale: bool = False,
        delimiter: str | None = None,
        header: bool = True,
    ) -> None:
        self.name, self.scale = named(paths), scale
        self.n_index_passes = 1
        self._delimiter = delimiter or ("\t" if paths[0].endswith(".tsv") else ",")
        self._ranges: list[ByteRange] = []
        self._types: dict[str, str] = {}
        self._names: list[str] = []
        sizes: list[int] = []
        kinds: set[str] = set()
        for path in paths:
            names, first = self._header(path, header)
            if not self._names:
                self._names = names
                self._columns = _Columns(names, target, weight, columns, path)
            elif names != self._names:
                raise ValueError(f"{path} has the columns {names}; expected {self._names} as in {paths[0]}.")
            for part in line_ranges(path, first):
                table = self._parse(part, self._columns.targets or self._columns.features[:1])
                kinds |= {str(kind) for kind in table.schema.types} if self._columns.targets else set()
                if table.num_rows:
                    self._ranges.append(part)
                    sizes.append(table.num_rows)
        if not sizes:
            raise ValueError(f"{self.name} holds no rows.")
        self._types = dict.fromkeys([*self._columns.features, *filter(None, [self._columns.weight])], "float64")
        if kinds <= {"int64", "double", "null"} or not self._columns.single:
            kind = "int64" if kinds == {"int64"} and self._columns.single else "float64"
        else:
            kind = "bool" if kinds == {"bool"} else "string"
        self._types |= dict.fromkeys(self._columns.targets, kind)
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.n_rows, self.n_features = int(self.starts[-1]), len(self._columns.features)
        self.n_targets = len(self._columns.targets)
        self.has_weight = self._columns.weight is not None
        self.feature_names = tuple(self._columns.features) if header else None

    def _header(self, path: str, header: bool) -> tuple[list[str], int]:
        """Names of the columns, and the byte where the rows begin."""
        with open(path, "rb") as file:
            try:
                line = file.readline().decode("utf-8-sig")
                names = next(csv.reader([line], delimiter=self._delimiter), [])
            except (UnicodeDecodeError, csv.Error) as error:
                raise ValueError(f"the first line of {path} is no CSV in UTF-8: {error}.") from error
            if not names:
                raise ValueError(f"{path} is empty; expected {'a header and ' if header else ''}rows.")
            return (names, file.tell()) if header else ([str(number) for number in range(len(names))], 0)

    def where(self, row: int) -> str:
        chunk = int(np.searchsorted(self.starts, row, side="right")) - 1
        path = self._ranges[chunk].path
        first = next(index for index, part in enumerate(self._ranges) if part.path == path)
        return f"row {row - int(self.starts[first])} of {path}"

    def load(self, chunk: int) -> Raw:
        raw = self._columns.raw(self._parse(self._ranges[chunk], self._columns.all), self.dtype)
        if raw.y is None or raw.y.dtype.kind != "U":
            return raw
        return Raw(raw.X, as_words(raw.y, raw.y == ""), raw.w)  # an empty cell in quotes is empty too

    def _parse(self, part: ByteRange, columns: list[str]) -> Any:
        arrow, reader = pyarrow_module("pyarrow"), pyarrow_module("pyarrow.csv")
        text = part.read()
        try:
            return reader.read_csv(
                arrow.BufferReader(text),
                read_options=reader.ReadOptions(
                    column_names=self._names, use_threads=False, block_size=max(1 << 20, 2 * len(text))
                ),
                parse_options=reader.ParseOptions(delimiter=self._delimiter),
                # NA, null and the like are missing among words as among numbers, unless they are quoted
                convert_options=reader.ConvertOptions(
                    include_columns=columns,
                    column_types=self._types,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except (arrow.ArrowInvalid, arrow.ArrowKeyError) as error:
            raise ValueError(
                f"{part.path}, bytes {part.start} to {part.stop}: {error}. Every feature must be a number: encode "
                "categories and dates as numbers before training, or leave such columns out with columns=[...]."
            ) from error


def named(paths: list[str]) -> str:
    """What messages call some files."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
