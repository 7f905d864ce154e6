"""The door to rows that are not in memory: `open_rows`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from kompakt.data.dask import DaskSource, is_dask
from kompakt.data.files import (
    FORMATS,
    ArraySource,
    CsrSource,
    CsvSource,
    IterableSource,
    NpyFiles,
    ParquetSource,
    SvmlightSource,
    csr_arrays,
    find_files,
    is_path,
    is_zarr,
    named,
    npz_arrays,
    open_npy,
)
from kompakt.data.streamed import Source
from kompakt.imports import sparse


def open_rows(
    rows: Any,
    *,
    target: Any = None,
    weight: Any = None,
    columns: Any = None,
    scale: bool = False,
    format: str | None = None,
    **options: Any,
) -> Source:
    """Open rows that need not fit in memory; pass the result to ``fit`` without y.

    Parameters
    ----------
    rows : path, glob pattern, folder, list of paths, np.memmap, array, Dask array or DataFrame, or re-iterable
        Files of one format: .npy, .npz (``scipy.sparse.save_npz`` with ``compressed=False``, or arrays X, y and w), a
        folder with the .npy parts of a CSR matrix, .parquet, .csv and .tsv, .svm / .svmlight / .libsvm, .zarr.  Several
        files follow each other in the order of their names.  A memory map, or any array that gives slices of rows
        (zarr, HDF5).  A re-iterable, or a function that returns a fresh iterator, of blocks (X, y) or (X, y, weights).
    target : column name or number, list of them, array or path of a .npy file, optional
        Labels or values.  Tables have it among their columns, svmlight files bring their own.
    weight : column name or number, array or path of a .npy file, optional
        Sample weights.
    columns : list of names or numbers, optional
        Features; None means all columns but target, weight and the index of a data frame, which has no name.
    scale : bool, default=False
        Standardise the features (mean 0, variance 1; sparse rows are scaled only).  The scaling is found in the first
        passes of ``fit`` and stored in the model, which then takes rows in their own units.
    format : {"npy", "npz", "csr", "parquet", "csv", "svmlight", "zarr"}, optional
        None goes by the ending.
    **options
        Of the format: ``delimiter`` and ``header`` (csv), ``n_features`` and ``zero_based`` (svmlight).

    Returns
    -------
    Source
        Not an array: scikit-learn's searches (GridSearchCV) and pipelines cannot cut it; use ``tune=True`` or arrays.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from kompakt import CompactSVC, open_rows
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "X.npy")
    ...     np.save(path, X)
    ...     rows = open_rows(path, target=np.sign(X[:, 0] * X[:, 1]))
    ...     machine = CompactSVC(n_basis=10, random_state=0).fit(rows)
    >>> machine.score(X, np.sign(X[:, 0] * X[:, 1])) > 0.9
    True
    """
    if isinstance(rows, Source):
        raise TypeError("these rows are open already; pass them to fit as they are.")
    if is_path(rows):
        return _open_files(find_files(rows), format, target, weight, columns, scale, options)
    if options:
        raise TypeError(f"unknown options {sorted(options)} for rows of type {type(rows).__name__}.")
    if is_dask(rows):
        return DaskSource(rows, target, weight, columns, scale)
    if isinstance(rows, np.memmap):
        return ArraySource(NpyFiles([open_npy(rows)]), target, weight, columns, scale, "the memory map")
    if sparse.issparse(rows):
        raise TypeError("this matrix is in memory: pass it to fit(X, y).")
    if hasattr(rows, "shape") and hasattr(rows, "dtype"):
        if columns is not None:
            raise ValueError("columns=... is for tables and .npy files; cut the array itself.")
        return ArraySource(rows, target, weight, scale=scale)
    if target is not None or weight is not None or columns is not None:
        raise ValueError("blocks bring their own targets and weights: yield (X, y) or (X, y, weights).")
    return IterableSource(rows, scale=scale)


def _open_files(
    paths: list[str], format: str | None, target: Any, weight: Any, columns: Any, scale: bool, options: dict[str, Any]
) -> Source:
    kind = format
    if kind is None and os.path.isdir(paths[0]) and not is_zarr(paths[0]):
        kind = "csr"
    if kind is None:
        endings = {Path(path).suffix for path in paths}
        kinds = {FORMATS.get(ending, "") for ending in endings}
        kind = kinds.pop()
        if kinds or not kind:
            raise ValueError(
                f"cannot tell the format of {named(paths)} from its ending(s) {sorted(endings)}; expected one of "
                f"{sorted(FORMATS)} for all files. Pass format=..., or a pattern that matches one kind of file. "
                "Compressed text must be unpacked first."
            )
    known_options = {"csv": {"delimiter", "header"}, "svmlight": {"n_features", "zero_based"}}.get(kind, set())
    if not known_options.issuperset(options):
        unknown = sorted(set(options) - known_options)
        raise TypeError(f"unknown options {unknown} for format {kind!r}; expected some of {sorted(known_options)}.")
    if kind in ("parquet", "csv"):
        table = ParquetSource if kind == "parquet" else CsvSource
        return table(paths, target=target, weight=weight, columns=columns, scale=scale, **options)
    if kind == "npy":
        return ArraySource(NpyFiles([open_npy(path) for path in paths]), target, weight, columns, scale, named(paths))
    if columns is not None:
        raise ValueError(f"columns=... is for tables and .npy files; format {kind!r} gives all features.")
    if kind == "svmlight":
        if target is not None or weight is not None:
            raise ValueError("svmlight files bring their own targets and no weights; leave target and weight out.")
        return SvmlightSource(paths, scale=scale, **options)
    if len(paths) != 1:
        raise ValueError(f"format {kind!r} takes one file or folder; got {len(paths)}.")
    path = paths[0]
    if kind == "zarr":
        return _open_zarr(path, target, weight, scale)
    if kind not in ("npz", "csr"):
        raise ValueError(f"unknown format {kind!r}; choose from {sorted(set(FORMATS.values()) | {'csr'})}.")
    if not os.path.isdir(path) and "X" in (arrays := npz_arrays(path)):
        y = arrays.get("y") if target is None else target
        w = arrays.get("w") if weight is None else weight
        return ArraySource(NpyFiles([arrays["X"]]), y, w, scale=scale, name=path)
    return CsrSource(csr_arrays(path), target, weight, scale=scale, name=path)


def _open_zarr(path: str, target: Any, weight: Any, scale: bool) -> Source:
    try:
        import zarr
    except ImportError as error:
        raise ImportError('reading zarr arrays needs zarr; install it with: pip install "kompakt[zarr]"') from error
    stored = zarr.open(path, mode="r")
    if hasattr(stored, "shape"):
        return ArraySource(stored, target, weight, scale=scale, name=path)
    if "X" not in stored:
        raise ValueError(f"the zarr group {path} has no array X (and y, w); give the path of the array itself.")

    def member(values: Any, default: str) -> Any:
        if values is None:
            return stored.get(default)
        return stored[values] if isinstance(values, str) else values

    return ArraySource(stored["X"], member(target, "y"), member(weight, "w"), scale=scale, name=path)
