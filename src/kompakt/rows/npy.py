"""Rows in .npy files, memory maps, zarr arrays and CSR matrices on disk.

Files are read by position, not mapped: the pages of a map count as memory of the process, the cache of the file system
does not.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.rows.source import ChunkedSource, Raw, Source

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
    >>> from kompakt.rows.npy import ArraySource
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
                    f"{path} is compressed, so that no rows can be read alone. Write it with "
                    "scipy.sparse.save_npz(path, X, compressed=False)."
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
