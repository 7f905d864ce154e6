"""Rows in files and other sources: npy, CSR on disk, zarr, svmlight, CSV, Parquet, and anything that yields blocks."""

from __future__ import annotations

import errno
import glob
import io
import math
import os
import re
import struct
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from kompakt.data.checks import as_strings
from kompakt.data.streamed import ChunkedSource, Raw, locate, pieces
from kompakt.data.table import INDEX, TableSchema, index_columns, number_of
from kompakt.data.text import TextTable
from kompakt.imports import sparse

#: bytes of a file that are decoded at a time, about
CHUNK_BYTES = 4 << 20
#: decoded row groups larger than this are kept one per thread, and no more
_LARGE_BYTES = 64 << 20
#: column numbers and row pointers of CSR blocks have 32 bits
_MOST_FEATURES = np.iinfo(np.int32).max


#: formats of rows by the ending of their files
FORMATS = {
    ".npy": "npy",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".zarr": "zarr",
}


def is_path(rows: Any) -> bool:
    """Whether these are a path, or a list of paths."""
    if isinstance(rows, list | tuple):
        return bool(rows) and all(isinstance(path, str | os.PathLike) for path in rows)
    return isinstance(rows, str | os.PathLike)


def find_files(rows: Any) -> list[str]:
    """The files that a path, a pattern, a folder or a list of paths means."""
    if isinstance(rows, list | tuple):
        return [os.fspath(path) for path in rows]
    path = os.fspath(rows)
    if os.path.isdir(path) and not (is_zarr(path) or os.path.exists(os.path.join(path, "indptr.npy"))):
        inside = sorted(str(file) for file in Path(path).rglob("*") if file.suffix in FORMATS)
        if not inside:
            raise FileNotFoundError(f"the folder {path} has no files with one of the endings {sorted(FORMATS)}.")
        return inside
    matching = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
    if not matching:
        raise FileNotFoundError(f"no file matches {path!r}.")
    return matching


def is_zarr(path: str) -> bool:
    """Whether a folder is a zarr array or group."""
    return path.rstrip("/").endswith(".zarr")


def named(paths: list[str]) -> str:
    """What messages call some files."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def as_floats(X: Any, name: str) -> Any:
    """Numbers as float32 or float64, CSR where they are sparse."""
    if X.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds values of type {X.dtype}; expected real numbers. Encode them as numbers first.")
    native = X.dtype.newbyteorder("=")
    kind = native if native in (np.float32, np.float64) else np.dtype(np.float64)
    return (X.tocsr() if sparse.issparse(X) else X).astype(kind, copy=False)


def _is_column(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _n_targets(y: Any) -> int:
    return 0 if y is None else 1 if len(y.shape) == 1 else int(y.shape[1])


# -- arrays in files -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NpyArray:
    """A C-ordered array at a place in a file, read by slices of rows.

    Read instead of mapped: the pages of a memory map would count as memory of the process.
    """

    path: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        width = math.prod(self.shape[1:])
        count, skipped = (rows.stop - rows.start) * width, rows.start * width * self.dtype.itemsize
        values = np.fromfile(self.path, self.dtype, count, offset=self.offset + skipped)
        if len(values) != count:
            raise ValueError(
                f"{self.path} ends before row {rows.stop}, but promises {self.shape[0]} rows; write it again."
            )
        return values.reshape(-1, *self.shape[1:]) if count else np.empty((0, *self.shape[1:]), self.dtype)


def open_npy(path: Any) -> NpyArray:
    """The array of a .npy file, or behind a memory map."""
    if isinstance(path, np.memmap):
        if path.filename is None or isinstance(path.base, np.memmap):
            raise ValueError(
                "a part of a memory map, or a map without a file, cannot be read again by rows; give the whole map or "
                "the path of the file."
            )
        file_path, fortran = os.fspath(path.filename), path.ndim > 1 and not path.flags.c_contiguous
        array = NpyArray(file_path, path.dtype, path.shape, int(path.offset))
        return _checked(array, fortran, os.path.getsize(file_path), file_path)
    path = os.fspath(path)
    with open(path, "rb") as file:
        return _array_in(file, path, os.path.getsize(path), path)


def _array_in(file: BinaryIO, path: str, end: int, name: str) -> NpyArray:
    """The array whose .npy header is next in an open file, where its bytes end at `end`."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except OSError:
        raise
    except Exception as error:  # NumPy evaluates the header as Python text: damage may raise almost anything
        raise ValueError(f"{name} is no .npy file that can be read: {error}. Write it again.") from error
    return _checked(NpyArray(path, dtype, shape, file.tell()), fortran, end, name)


def _checked(array: NpyArray, fortran: bool, end: int, name: str) -> NpyArray:
    """An array whose header was compared with the size of its file, before anything is allocated by it."""
    shape, dtype = array.shape, array.dtype
    needed = math.prod(shape) * dtype.itemsize  # Python's numbers, which do not overflow
    if any(length < 0 for length in shape) or array.offset + needed > end:
        raise ValueError(
            f"{name} ends before its rows do: its header says shape {shape} of {dtype}, which are {needed} bytes, "
            f"but the file has {max(0, end - array.offset)}. It was cut short or damaged; write it again."
        )
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects (pickled); expected numbers. Save them as floats.")
    if fortran and len(shape) > 1 and min(shape) > 1:
        raise ValueError(
            f"{name} is stored column by column (Fortran order), so that no rows can be read alone. "
            "Save it with numpy.save(path, numpy.ascontiguousarray(X))."
        )
    return array


def npz_arrays(path: str) -> dict[str, NpyArray]:
    """The arrays of an uncompressed .npz file, by their place in it."""
    arrays = {}
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                if info.compress_type != zipfile.ZIP_STORED:
                    raise ValueError(
                        f"{path} is compressed, so that no rows can be read alone. Write it with numpy.savez(path, "
                        "X=X, y=y), or a sparse matrix with scipy.sparse.save_npz(path, X, compressed=False)."
                    )
                # the local header repeats name and extra field, with lengths of its own
                file.seek(info.header_offset + 26)
                start = info.header_offset + 30 + sum(struct.unpack("<2H", file.read(4)))
                file.seek(start)
                end = min(start + info.file_size, os.path.getsize(path))
                arrays[info.filename.removesuffix(".npy")] = _array_in(file, path, end, f"{info.filename} of {path}")
    except (zipfile.BadZipFile, NotImplementedError, struct.error, EOFError) as error:
        raise ValueError(f"{path} is a damaged .npz file: {error}. Write it again.") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # that of a place before the file's beginning
            raise
        raise ValueError(f"{path} is a damaged .npz file: its directory points outside. Write it again.") from error
    return arrays


def csr_arrays(path: str) -> dict[str, NpyArray]:
    """The arrays of a CSR matrix in an .npz file or in a folder of .npy files."""
    folder = os.path.isdir(path)
    arrays = {file.stem: open_npy(file) for file in sorted(Path(path).glob("*.npy"))} if folder else npz_arrays(path)
    missing = {"data", "indices", "indptr", "shape"} - set(arrays)
    if missing:
        raise ValueError(f"{path} is no CSR matrix: {sorted(missing)} is missing among {sorted(arrays)}.")
    kind = arrays.get("format")
    stored = ["csr"] if kind is None else np.fromfile(kind.path, kind.dtype, 1, offset=kind.offset).tolist()
    if stored not in (["csr"], [b"csr"]):
        raise ValueError(f"{path} holds a sparse matrix of another format; expected CSR. Save X.tocsr().")
    return arrays


class NpyFiles:
    """Arrays in several files, one after the other."""

    def __init__(self, arrays: list[NpyArray]) -> None:
        self.arrays, first = arrays, arrays[0]
        for array in arrays:
            if not array.shape:
                raise ValueError(f"{array.path} holds a single number, an array without dimensions; expected rows.")
            if array.shape[1:] != first.shape[1:] or array.dtype != first.dtype:
                raise ValueError(
                    f"{array.path} holds {array.dtype} of shape {array.shape}; expected rows of shape "
                    f"{first.shape[1:]} and type {first.dtype} as in {first.path}."
                )
        self.starts = np.cumsum([0, *(len(array) for array in arrays)])
        self.dtype, self.shape = first.dtype, (int(self.starts[-1]), *first.shape[1:])

    def __getitem__(self, rows: slice) -> np.ndarray:
        slices = [self.arrays[file][numbers] for file, numbers in pieces(self.starts, rows.start, rows.stop)]
        return slices[0] if len(slices) == 1 else np.concatenate([np.empty((0, *self.shape[1:]), self.dtype), *slices])

    def where(self, row: int) -> str:
        """A row in the words of its file."""
        file, number = locate(self.starts, row)
        return f"row {number} of {self.arrays[file].path}"


def per_row(values: Any) -> Any:
    """Targets or weights: an array, or .npy files that are read by rows."""
    if isinstance(values, np.memmap):
        return NpyFiles([open_npy(values)])
    if is_path(values):
        return NpyFiles([open_npy(path) for path in find_files(values)])
    return values if values is None or hasattr(values, "shape") else np.asarray(values)


class _WithArrays(ChunkedSource):
    """Rows whose targets and weights are arrays beside them, or .npy files that are read by rows."""

    _y: Any
    _w: Any

    def _set_targets(self, target: Any, weight: Any) -> None:
        self._y, self._w = per_row(target), per_row(weight)
        for role, values in (("target", self._y), ("weight", self._w)):
            if values is not None and values.shape[:1] != (self.n_rows,):
                length = f"{values.shape[0]} rows" if values.shape else "no dimensions: it is a single value"
                raise ValueError(f"{self.name} has {self.n_rows} rows, but its {role} has {length}.")
        self.n_targets, self.has_weight = _n_targets(self._y), self._w is not None

    def _with_targets(self, X: Any, start: int, stop: int) -> Raw:
        y = None if self._y is None else np.asarray(self._y[start:stop])
        return Raw(X, y, None if self._w is None else np.asarray(self._w[start:stop], dtype=np.float64))


class ArraySource(_WithArrays):
    """Rows of .npy files, of memory maps, or of any array-like that gives slices of rows, such as a zarr or HDF5 array.

    Parameters
    ----------
    X : NpyFiles or array-like of shape (n, d)
    target, weight : array-like, memory map or path of .npy files, optional
        Of NpyFiles also numbers of their columns: an int, or for targets a list.
    columns : list of int, optional
        Columns of X that are features; None means all but those of target and weight.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data.files import ArraySource
    >>> ArraySource(np.eye(4), np.arange(4)).read(2, 4).y
    array([2, 3])
    """

    def __init__(
        self, X: Any, target: Any = None, weight: Any = None, columns: Any = None, scale: bool = False, name: str = ""
    ) -> None:
        self.name, self.scale = name or type(X).__name__, scale
        if len(X.shape) != 2 or min(X.shape) < 1:
            raise ValueError(
                f"{self.name} has shape {X.shape}; expected two dimensions, at least one row and one column."
            )
        self._X, self.n_rows = X, int(X.shape[0])
        self._y_columns = self._w_column = None
        if isinstance(X, NpyFiles):
            several = isinstance(target, list | tuple) and bool(target) and all(_is_column(column) for column in target)
            if several or _is_column(target):
                self._y_columns, target = list(target) if several else target, None
            if _is_column(weight):
                self._w_column, weight = weight, None
        column_numbers = [column for column in (self._y_columns, self._w_column) if column is not None]
        used_columns = {int(column) % X.shape[1] for numbers in column_numbers for column in np.atleast_1d(numbers)}
        if columns is None and used_columns:
            columns = [number for number in range(X.shape[1]) if number not in used_columns]
        self._columns = columns
        self._set_targets(target, weight)
        first = self._rows(0, 1)
        self.n_features, self.dtype = first.X.shape[1], first.X.dtype
        self.n_targets, self.has_weight = _n_targets(first.y), first.w is not None
        # an array stored in chunks is decoded by whole ones, about four megabytes; any other gives what is asked for
        stored = getattr(X, "chunks", None)
        least = int(stored[0]) if isinstance(stored, tuple) and isinstance(stored[0], int) else 1
        self._chunked = least > 1
        step = least * max(1, CHUNK_BYTES // (self.n_features * self.dtype.itemsize) // least)
        self.starts = np.append(np.arange(0, self.n_rows, step), self.n_rows)

    def where(self, row: int) -> str:
        return self._X.where(row) if isinstance(self._X, NpyFiles) else super().where(row)

    def _rows(self, start: int, stop: int) -> Raw:
        all_columns = np.asarray(self._X[start:stop])
        raw = self._with_targets(
            as_floats(all_columns if self._columns is None else all_columns[:, self._columns], self.name), start, stop
        )
        y = raw.y if self._y_columns is None else all_columns[:, self._y_columns]
        return Raw(raw.X, y, raw.w if self._w_column is None else all_columns[:, self._w_column].astype(np.float64))

    def load(self, chunk: int) -> Raw:
        return self._rows(int(self.starts[chunk]), int(self.starts[chunk + 1]))

    def read(self, start: int, stop: int) -> Raw:
        return super().read(start, stop) if self._chunked else self._rows(start, stop)


class CsrSource(_WithArrays):
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
        self, arrays: dict[str, NpyArray], target: Any = None, weight: Any = None, *, scale: bool, name: str
    ) -> None:
        self._data, self._indices = arrays["data"], arrays["indices"]
        self.name, self.scale = name, scale
        for field in ("data", "indices", "indptr", "shape"):
            kinds = "fiub" if field == "data" else "iu"
            if len(arrays[field].shape) != 1 or arrays[field].dtype.kind not in kinds:
                raise ValueError(
                    f"{name} is no CSR matrix: {field} is {arrays[field].dtype} of shape {arrays[field].shape}; "
                    f"expected one dimension of {'numbers' if field == 'data' else 'whole numbers'}. Save it again "
                    "from SciPy."
                )
        shape = arrays["shape"][0 : len(arrays["shape"])].tolist()
        if len(shape) != 2 or min(shape) < 1 or shape[1] > _MOST_FEATURES:
            raise ValueError(
                f"{name} is no CSR matrix that can be used: its shape is {tuple(shape)}; expected at least one row and "
                f"1 to {_MOST_FEATURES} columns."
            )
        self.n_rows, self.n_features = shape
        self._indptr = self._pointers(arrays["indptr"])
        self.dtype = as_floats(np.empty(0, self._data.dtype), name).dtype
        self._set_targets(target, weight)
        # chunks of about equal bytes: rows may differ in length a lot
        bytes_before = self._indptr[:-1] * (self.dtype.itemsize + 4) + 8 * np.arange(self.n_rows)
        cuts = np.arange(0, bytes_before[-1] + 1, CHUNK_BYTES)
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
        pointers = array[0 : len(array)]
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
        data = as_floats(self._data[first:last], self.name)
        pointers = self._indptr[start : stop + 1] - first
        X = csr_rows(data, self._indices[first:last], pointers, self.n_features, lambda row: self.where(start + row))
        return self._with_targets(X, start, stop)


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
    arrays = (data, indices.astype(np.int32, copy=False), pointers.astype(np.int32, copy=False))
    return sparse.csr_matrix(arrays, shape=(len(pointers) - 1, n_features))


# -- blocks of the user ----------------------------------------------------------------------------------


class IterableSource(ChunkedSource):
    """Blocks of rows from a re-iterable, or from a function that returns a fresh iterator.

    Every pass iterates anew and checks that the same rows come again.

    Parameters
    ----------
    blocks : iterable or callable
        Yields (X, y) or (X, y, w); y may be None.
    scale : bool, default=False

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data import IterableSource
    >>> source = IterableSource([(np.ones((2, 3)), np.array([0, 1])), (np.zeros((1, 3)), np.array([1]))])
    >>> source.n_rows, source.read(1, 3).y
    (3, array([1, 1]))
    """

    sequential = True
    n_index_passes = 1
    keep = 1
    name = "the blocks"

    def __init__(self, blocks: Iterable[Any] | Callable[[], Iterable[Any]], scale: bool = False) -> None:
        if not callable(blocks) and iter(blocks) is iter(blocks):
            raise TypeError(
                f"rows are read in several passes, but {type(blocks).__name__} can be iterated over only once. Give a "
                "list, an object whose __iter__ starts anew, or a function that returns a fresh iterator."
            )
        self._blocks, self.scale = blocks, scale
        sizes: list[int] = []
        self._fingerprints: list[int] = []
        first: Raw | None = None
        for number, raw in enumerate(self._fresh()):
            first = raw if first is None else first
            if _layout(raw) != _layout(first):
                raise ValueError(
                    f"block {number} of {self.name} differs from the first: (features, type, sparse, columns of y, no "
                    f"weights) are {_layout(raw)}, expected {_layout(first)}."
                )
            sizes.append(len(raw))
            self._fingerprints.append(_fingerprint(raw))
        if first is None or not sum(sizes):
            raise ValueError(f"{self.name} hold no rows; expected at least one block of (X, y).")
        self.starts = np.cumsum([0, *sizes])
        self.n_rows, self.n_features = int(self.starts[-1]), int(first.X.shape[1])
        self.dtype, self.is_sparse, self.has_weight = first.X.dtype, sparse.issparse(first.X), first.w is not None
        self.n_targets = _n_targets(first.y)
        self._number, self._iterator = 0, self._fresh()  # the next block, and where it comes from

    def where(self, row: int) -> str:
        block, number = locate(self.starts, row)
        return f"row {number} of block {block} of {self.name}"

    def load(self, chunk: int) -> Raw:
        if chunk < self._number:
            self._number, self._iterator = 0, self._fresh()
        while True:
            raw = next(self._iterator, None)
            if raw is None or [_fingerprint(raw)] != self._fingerprints[self._number : self._number + 1]:
                raise ValueError(
                    f"block {self._number} of {self.name} is not the one that came in the first pass: every pass must "
                    "yield the same rows in the same order. Fix the order and the random numbers of the iterable."
                )
            self._number += 1
            if self._number > chunk:
                return raw

    def _fresh(self) -> Iterator[Raw]:
        blocks = self._blocks() if callable(self._blocks) else self._blocks
        for number, block in enumerate(blocks):
            yield _as_raw(block, f"block {number} of {self.name}")

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_number": len(self.starts), "_iterator": None}  # to be started anew


def _as_raw(block: Any, block_name: str) -> Raw:
    if not isinstance(block, tuple | list) or len(block) not in (2, 3):
        raise TypeError(f"{block_name} must be a tuple (X, y) or (X, y, weights); got {type(block).__name__}.")
    X: Any = block[0] if sparse.issparse(block[0]) else np.asarray(block[0])
    X = as_floats(X.astype(np.float64) if X.dtype == object else X, f"X of {block_name}")
    if X.ndim != 2:
        raise ValueError(f"X of {block_name} must have two dimensions; got shape {X.shape}.")
    y = None if block[1] is None else np.asarray(block[1])
    w = None if len(block) == 2 or block[2] is None else np.asarray(block[2], dtype=np.float64)
    for name, values in (("y", y), ("weights", w)):
        if values is not None and len(values) != X.shape[0]:
            raise ValueError(f"{block_name} has {X.shape[0]} rows in X but {len(values)} in {name}.")
    return Raw(X, y, w)


def _layout(raw: Raw) -> tuple[Any, ...]:
    """What all blocks of a source have in common."""
    y = None if raw.y is None else raw.y.shape[1:]
    return raw.X.shape[1], raw.X.dtype, sparse.issparse(raw.X), y, raw.w is None


def _fingerprint(raw: Raw) -> int:
    X = [raw.X.data, raw.X.indices, raw.X.indptr] if sparse.issparse(raw.X) else [raw.X]
    checksum = len(raw)
    for values in (*X, raw.y, raw.w):
        if values is not None:
            plain = values if values.dtype != object else values.astype(str)
            checksum = zlib.crc32(np.ascontiguousarray(plain).tobytes(), checksum)
    return checksum


# -- chunks of several files -----------------------------------------------------------------------------


class _FileChunks(ChunkedSource):
    """Chunks of files of one kind, in the order of the files."""

    #: of every chunk, its file and what is read of it: bytes from and to, or the row group and the next
    _chunks: list[FileRange]

    def _set_chunks(self, ranges: list[tuple[FileRange, int]]) -> None:
        """Set the chunks from ranges and their numbers of rows; empty ones are left out."""
        self._chunks = [file_range for file_range, n_rows in ranges if n_rows]
        if not self._chunks:
            raise ValueError(f"{self.name} holds no rows.")
        self.starts = np.cumsum([0, *(n_rows for _, n_rows in ranges if n_rows)])
        self.n_rows = int(self.starts[-1])

    def where(self, row: int) -> str:
        paths = [file_range.path for file_range in self._chunks]
        path = paths[locate(self.starts, row)[0]]
        return f"row {row - int(self.starts[paths.index(path)])} of {path}"


class FileRange(NamedTuple):
    """A range of a file: whole lines between two bytes, or row groups."""

    path: str
    start: int
    stop: int

    def read(self) -> bytes:
        """The bytes themselves."""
        with open(self.path, "rb") as file:
            file.seek(self.start)
            return file.read(self.stop - self.start)


def line_ranges(path: str, start: int = 0) -> Iterator[FileRange]:
    """Ranges of about `CHUNK_BYTES` that end at line ends."""
    end = os.path.getsize(path)
    with open(path, "rb") as file:
        while start < end:
            file.seek(min(end, start + CHUNK_BYTES) - 1)
            file.readline()
            yield FileRange(path, start, file.tell())
            start = file.tell()


class SvmlightSource(_FileChunks):
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
    n_index_passes = 1

    def __init__(
        self, paths: list[str], *, n_features: int | None = None, zero_based: Any = "auto", scale: bool = False
    ) -> None:
        self.name, self.scale = named(paths), scale
        ranges, least, largest = [], 1, -1
        for file_range in (file_range for path in paths for file_range in line_ranges(path)):
            X, _ = _parse_svmlight(file_range)
            ranges.append((file_range, X.shape[0]))
            if X.nnz:
                least, largest = min(least, int(X.indices.min())), max(largest, int(X.indices.max()))
        self._set_chunks(ranges)
        if zero_based is False and least == 0:
            raise ValueError(
                f"zero_based=False, but {self.name} has a feature number 0; expected 1 at least. Leave zero_based out."
            )
        self._first = 0 if zero_based is True or (zero_based == "auto" and least == 0) else 1
        needed = max(1, largest + 1 - self._first)  # rows of labels alone have one feature, which is zero
        if n_features is not None and n_features < needed:
            raise ValueError(f"n_features={n_features}, but {self.name} has a feature number {needed}.")
        self.n_features = needed if n_features is None else int(n_features)

    def load(self, chunk: int) -> Raw:
        X, y = _parse_svmlight(self._chunks[chunk])
        start = int(self.starts[chunk])
        return Raw(
            csr_rows(X.data, X.indices - self._first, X.indptr, self.n_features, lambda row: self.where(start + row)), y
        )


def _parse_svmlight(file_range: FileRange) -> tuple[Any, np.ndarray]:
    from sklearn.datasets import load_svmlight_file

    text = file_range.read()
    if b"\n" not in text:  # lines may end with CR alone
        text = text.replace(b"\r", b"\n")
    if b"_" in text:  # Python reads 1_0 as 10, and so does the reader
        for line in text.splitlines():
            wrong = [word for word in line.split(b"#", 1)[0].split() if b"_" in word]
            if wrong:
                shown = wrong[0][:40].decode("utf-8", "replace")
                raise ValueError(
                    f"{file_range.path}: {shown!r} is no number, nor a pair like 3:0.5: it holds an underscore."
                )
    # Not by the reader's own offset and length: where a range ends among comments or blank lines, it would give the
    # next row to both sides.
    try:
        X, y = load_svmlight_file(io.BytesIO(text), zero_based=True)
    except (ValueError, OverflowError) as error:  # a feature number beyond 32 bits overflows in the reader
        raise ValueError(
            f"{file_range.path}: no svmlight rows between bytes {file_range.start} and {file_range.stop}: {error}. "
            "Expected lines like '1 3:0.5 7:2' with ascending feature numbers."
        ) from error
    return X, y


# -- tables ----------------------------------------------------------------------------------------------


def pyarrow_module(name: str) -> Any:
    """A module of pyarrow, or an error that says how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            'reading Parquet files needs pyarrow; install it with: pip install "kompakt[cli]"'
        ) from error


class TableColumns:
    """Which columns of a table are features, targets and weights."""

    def __init__(self, names: list[str], target: Any, weight: Any, columns: Any, table_name: str) -> None:
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"{table_name} has several columns of the name {twice}; rename them.")
        name_of = dict(zip(names, names, strict=True)) | dict(enumerate(names))

        def find(column: Any, role: str) -> str:
            if isinstance(column, bool) or column not in name_of:
                raise ValueError(f"{table_name} has no column {column!r} for {role}; its columns are {names}.")
            return name_of[column]

        self.table_name, self.single = table_name, not isinstance(target, list | tuple)
        targets = [] if target is None else [target] if self.single else target
        self.targets = [find(name, "target") for name in targets]
        #: the column of the weights, as a list of one name or none
        self.weights = [] if weight is None else [find(weight, "weight")]
        other_roles = {*self.targets, *self.weights}
        if columns is None:
            index = index_columns(names) - other_roles
            if index:
                warnings.warn(
                    f"{table_name}: column(s) {', '.join(map(repr, sorted(index)))} left out: {INDEX}. columns=[...] "
                    "keeps what it names.",
                    UserWarning,
                    stacklevel=5,
                )
            self.features = [name for name in names if name not in other_roles | index]
        else:
            self.features = [find(name, "columns") for name in columns]
            twice = sorted(other_roles & set(self.features))
            if twice:
                raise ValueError(f"column {twice} of {table_name} is both a feature and target or weight.")
        if not self.features:
            raise ValueError(f"{table_name} has no feature columns beside target and weight; its columns are {names}.")

    @property
    def all(self) -> list[str]:
        """Every column that is read, each once."""
        return [*self.features, *self.targets, *self.weights]

    def refuse_other_types(self, types: dict[str, Any], is_number: Callable[[Any], bool]) -> None:
        """Refuse features and weights that are no numbers."""
        wrong = {name: str(types[name]) for name in [*self.features, *self.weights] if not is_number(types[name])}
        if wrong:
            raise ValueError(
                f"columns {wrong} of {self.table_name} are no numbers. Encode categories as numbers before training, "
                "for example one 0/1 column per category (scikit-learn's OneHotEncoder, get_dummies of pandas or "
                "Dask), or leave them out with columns=[...]."
            )

    def raw(self, table: Any, dtype: np.dtype) -> Raw:
        """X, y and w of an Arrow table; missing values become NaN."""
        X = np.empty((table.num_rows, len(self.features)), dtype=dtype)
        for place, name in enumerate(self.features):
            X[:, place] = _numbers(table.column(name))
        y = w = None
        if self.targets and self.single:
            y = _labels(table.column(self.targets[0]))
        elif self.targets:
            y = np.column_stack([_numbers(table.column(name)) for name in self.targets])
        for name in self.weights:
            w = _numbers(table.column(name)).astype(np.float64)
        return Raw(X, y, w)


def _numbers(column: Any) -> np.ndarray:
    return np.asarray((column.cast("double") if column.null_count else column).to_numpy())


def _labels(column: Any) -> np.ndarray:
    types = pyarrow_module("pyarrow").types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_floating(column.type) or types.is_integer(column.type):
        return _numbers(column)
    return as_strings(column.to_numpy(), column.is_null().to_numpy())


class _TableSource(_FileChunks):
    """Rows of tables in files that have the same columns."""

    _columns: TableColumns

    def _set_chunks(self, ranges: list[tuple[FileRange, int]]) -> None:
        super()._set_chunks(ranges)
        self.n_features, self.n_targets = len(self._columns.features), len(self._columns.targets)
        self.has_weight, self.feature_names = bool(self._columns.weights), tuple(self._columns.features)


@contextmanager
def _parquet_errors(path: str) -> Iterator[None]:
    """Errors of pyarrow as a ValueError that names the file; those of the disk stay."""
    try:
        yield
    except (pyarrow_module("pyarrow").ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{path} is a damaged Parquet file: {error}. Write it again.") from error


class ParquetSource(_TableSource):
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
        parquet, types = pyarrow_module("pyarrow.parquet"), pyarrow_module("pyarrow").types
        self.name, self.scale = named(paths), scale
        groups: list[tuple[FileRange, int]] = []
        for path in paths:
            with _parquet_errors(path), parquet.ParquetFile(path) as file:
                file_schema, metadata = file.schema_arrow, file.metadata
            if path == paths[0]:
                schema = file_schema
                self._columns = TableColumns(list(schema.names), target, weight, columns, path)
            missing = [name for name in self._columns.all if name not in file_schema.names]
            if missing:
                raise ValueError(f"{path} lacks the columns {missing} that {paths[0]} has.")
            self._columns.refuse_other_types(
                dict(zip(file_schema.names, file_schema.types, strict=True)),
                lambda kind: types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind),
            )
            for group in range(metadata.num_row_groups):
                if (n_rows := metadata.row_group(group).num_rows) < 0:
                    raise ValueError(
                        f"{path} is a damaged Parquet file: part {group} has {n_rows} rows. Write it again."
                    )
                groups.append((FileRange(path, group, group + 1), n_rows))
        self._set_chunks(groups)
        single = all(str(schema.field(name).type) == "float" for name in self._columns.features)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        if int(np.diff(self.starts).max()) * self.n_features * self.dtype.itemsize > _LARGE_BYTES:
            self.keep = 2

    def load(self, chunk: int) -> Raw:
        path, group, _ = self._chunks[chunk]
        with _parquet_errors(path), pyarrow_module("pyarrow.parquet").ParquetFile(path) as file:
            table = file.read_row_group(group, columns=self._columns.all, use_threads=False)
            return self._columns.raw(table, self.dtype)


class CsvSource(_TableSource):
    r"""Rows of CSV files, decoded some megabytes at a time.

    Opening reads the files once, for the number of rows and the type of the target.

    Parameters
    ----------
    paths : list of str
    target, weight, columns
        As in `ParquetSource`.
    delimiter : str, optional
        None finds the one that most lines agree on.
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

    n_index_passes = 1

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
        self.name, self.scale, self._size = named(paths), scale, CHUNK_BYTES
        self._tables = {path: TextTable.recognise(path, header=header, delimiter=delimiter) for path in paths}
        names = list(self._tables[paths[0]].names)
        self._columns = TableColumns(names, target, weight, columns, paths[0])
        chunks: list[tuple[FileRange, int]] = []
        kinds: set[str] = set()
        for path, table in self._tables.items():
            if (names_here := list(table.names)) != names:
                raise ValueError(f"{path} has the columns {names_here}; expected {names} as in {paths[0]}.")
            if table.packed:
                raise ValueError(f"{path} is packed, so that no rows can be read alone; unpack it first.")
            for start, text in table.texts(size=self._size):
                block = table.block(_mark_quoted(text), first=start == 0)
                chunks.append((FileRange(path, start, start + len(text)), block.n_rows if block else 0))
                kinds |= {_kind_of_labels(block[name]) for name in self._columns.targets if block}
        self._set_chunks(chunks)
        self.feature_names = self.feature_names if header else None
        kinds -= {""}
        numbers = kinds <= {"whole", "number"} or not self._columns.single
        self._kind = "number" if numbers and kinds != {"whole"} else kinds.pop() if len(kinds) == 1 else "word"

    def load(self, chunk: int) -> Raw:
        file_range, columns = self._chunks[chunk], self._columns
        table = self._tables[file_range.path]
        _, text = next(table.texts(file_range.start, self._size))
        block = table.block(_mark_quoted(text), first=file_range.start == 0)
        assert block is not None
        strange: Counter[str] = Counter()

        def numbers(names: list[str]) -> np.ndarray:
            schema = TableSchema.of_numbers(names)
            values = schema.encode(block.cells_for(schema), strange)
            if strange:
                raise table.error(schema)
            return values

        X = numbers(columns.features)
        w = numbers(columns.weights)[:, 0] if columns.weights else None
        if not (columns.targets and columns.single):
            return Raw(X, numbers(columns.targets) if columns.targets else None, w)
        labels = block[columns.targets[0]]
        lacking = np.isin(labels.astype(str), _NO_LABEL)
        if self._kind == "number" or (self._kind == "whole" and lacking.any()):
            y = numbers(columns.targets)[:, 0]
        elif self._kind == "whole":
            y = labels.astype(np.int64)
        elif self._kind == "truth" and not lacking.any():
            y = np.char.lower(labels.astype(str)) == "true"
        else:
            y = as_strings(np.char.rstrip(labels.astype(str), _IN_QUOTES).astype(object), lacking)
        return Raw(X, y, w)


#: what stands for a missing label in a table of text, unless it is in quotes, which are marked
_NO_LABEL, _IN_QUOTES = ["", "#N/A", "#NA", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"], "\x1a"


def _mark_quoted(text: str) -> str:
    return re.sub(f'"({"|".join(_NO_LABEL[1:])})"', rf'"\1{_IN_QUOTES}"', text) if '"' in text else text


def _kind_of_labels(cells: np.ndarray) -> str:
    """Whether labels are whole numbers, other numbers, truth values or words; "" where none is there."""
    labels = set(cells.tolist()).difference(_NO_LABEL)
    if not labels:
        return ""
    if all(re.fullmatch(r"[+-]?\d{1,18}", label) for label in labels):
        return "whole"
    if {label.lower() for label in labels} <= {"true", "false"}:
        return "truth"
    return "number" if all(number_of(label) is not None for label in labels) else "word"
