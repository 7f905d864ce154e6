"""Files of rows for the commands: which column is what, reading whole or by parts, and errors with line and column."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kompakt.cli.blame import explain, place_of
from kompakt.cli.console import Console, DataError, UsageError
from kompakt.cli.recognise import Kind, recognise
from kompakt.formats.files import check_writable
from kompakt.model import Model
from kompakt.progress import task
from kompakt.rows.checks import missing
from kompakt.rows.opening import open_rows
from kompakt.rows.source import Raw, Source

Array = np.ndarray

#: names that a target column often has
_USUAL = ("target", "label", "class", "y")
_PART = 20_000


@dataclass
class Table:
    """An open file of rows.

    Parameters
    ----------
    path : str
    kind : Kind
    source : Source
    target : str or None
        Name of the target column, "" where the format has a place of its own for it, None without target.
    names : tuple of str or None
        Names of the features.
    """

    path: str
    kind: Kind
    source: Source
    target: str | None
    names: tuple[str, ...] | None

    @property
    def n_rows(self) -> int:
        return self.source.n_rows

    @property
    def has_target(self) -> bool:
        return self.target is not None

    def read(self, start: int = 0, stop: int | None = None) -> Raw:
        """Rows as they are stored; what cannot be read is explained with line and column."""
        try:
            raw = self.source.read(start, self.n_rows if stop is None else stop)
        except ValueError as error:
            raise explain(self.path, self.kind, self.names, error) from error
        return Raw(raw.X, None if raw.y is None else as_labels(raw.y), raw.w)

    def parts(self) -> Iterator[tuple[int, Raw]]:
        """All rows in parts, with the number of the first."""
        with task("rows", -(-self.n_rows // _PART)) as step:
            for start in range(0, self.n_rows, _PART):
                yield start, self.read(start, min(start + _PART, self.n_rows))
                step()

    def place(self, row: int, column: int | None) -> str:
        """A cell in the user's words: file, line and column; without a column, the target's."""
        return place_of(self.path, self.kind, row, self.target if column is None else self._name(column))

    def _name(self, column: int) -> str:
        return self.names[column] if self.names else str(column + (self.kind.format == "svmlight"))


def as_labels(y: Array) -> Array:
    """Targets as labels or numbers: whole numbers of a float file become int, truth values words, spaces go.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.cli.data import as_labels
    >>> as_labels(np.array([1.0, -1.0])).dtype.kind, as_labels(np.array([True, False])).tolist()
    ('i', ['true', 'false'])
    """
    if y.dtype.kind == "b":
        return np.where(y, "true", "false")
    if y.dtype.kind == "f" and y.ndim == 1 and np.all(np.isfinite(y)) and np.all(y == np.round(y)):
        return y.astype(np.int64) if np.all(np.abs(y) < 2**53) else y
    if y.dtype.kind == "O":
        y = np.where(missing(y), "", y)  # no label: an empty one
    return np.char.strip(y.astype(str)) if y.dtype.kind in "OUS" else y


def check_output(out: str | None, *others: str | None, stream: bool = False) -> None:
    """Refuse, before any work is done, to write over a file of the same command or onto what is no regular file.

    Parameters
    ----------
    out : str or None
        The file to be written; "-" is standard output, for commands that stream.
    others : str or None
        The other files of the command.
    stream : bool
        Whether devices and pipes are written to as they are.
    """
    if out is None or (out == "-" and stream):
        return
    if out == "-":
        raise UsageError("'-' is standard output, and this command writes a file; give it a name.")
    for other in others:
        if other is not None and _same_file(out, other):
            raise UsageError(f"{out} would be written over {other}, which this command uses too; give another name.")
    if not (stream and is_stream(out)):
        check_writable(out)


def _same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them does not exist yet
        return os.path.realpath(one) == os.path.realpath(other)


def is_stream(path: str) -> bool:
    """Whether a path is a device, a pipe or a socket: nothing that could be replaced by a file."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def target_file(options: Any) -> str | None:
    """The file that ``--target`` names, where it is one."""
    given = getattr(options, "target", None)
    return given if given is not None and given.endswith(".npy") and os.path.isfile(given) else None


def is_large(path: str, options: Any) -> bool:
    """Whether a file is to be streamed."""
    return os.path.getsize(path) > options.memory * 1e6


def open_for_training(options: Any, console: Console, path: str | None = None, *, scale: bool = False) -> Table:
    """A file with a target; where none is named, the usual names and then the last column are taken, and told."""
    path = options.data if path is None else path
    kind = _recognised(options, console, path)
    if kind.format in ("npy", "npz"):
        return _open_arrays(path, kind, options.target, scale)
    if kind.format == "svmlight":
        if options.target is not None:
            raise UsageError("--target is for tables; svmlight files have the label first in each line.")
        return _opened(path, kind, "", None, scale=scale)
    names = kind.names if kind.format == "csv" else _parquet_names(path)
    if options.target is not None:
        target = _column(path, names, options.target, "--target")
    else:
        usual = [name for name in names if name.strip().lower() in _USUAL]
        target = usual[0] if len(usual) == 1 else names[-1]
        console.remark(f"target: column {target!r} of {path} (choose another with --target)")
    return _opened(path, kind, target, _features(path, names, target, options.ignore), scale=scale)


def _recognised(options: Any, console: Console, path: str) -> Kind:
    """The kind of a file; what was found out about a header is told, with the flag that decides otherwise."""
    kind = recognise(path, header=options.header, format=options.format)
    if kind.format == "csv" and options.header is None:
        if kind.header:
            console.remark(f"header: the first line of {path} names the columns (--no-header if it is a row)")
        else:
            console.remark(f"header: none, the first line of {path} is a row (--header if it names the columns)")
    return kind


def open_for_model(options: Any, console: Console, path: str, model: Model) -> Table:
    """A file whose features are those of a model; its target is found where it has one."""
    kind = _recognised(options, console, path)
    meta = model.meta
    if kind.format in ("npy", "npz"):
        table = _open_arrays(path, kind, options.target, False, needed=False)
    elif kind.format == "svmlight":
        zero_based = bool(meta["zero_based"]) if "zero_based" in meta else "auto"
        table = _opened(path, kind, "", None, n_features=model.n_features, zero_based=zero_based)
    else:
        names = kind.names if kind.format == "csv" else _parquet_names(path)
        wanted = options.target if options.target is not None else meta.get("target")
        target = None
        if options.target is not None:
            target = _column(path, names, options.target, "--target")
        elif wanted in names and (kind.header or kind.format == "parquet" or len(names) > model.n_features):
            target = str(wanted)
        features = _features_of(path, names, target, options.ignore, model)
        table = _opened(path, kind, target, features)
    if table.source.n_features != model.n_features:
        raise DataError(
            f"{path} has {table.source.n_features} features, but the model was trained on {model.n_features}"
            f"{_names_of(model)}. Leave columns out with --ignore, or name the target with --target."
        )
    return table


def _features_of(
    path: str, names: tuple[str, ...], target: str | None, ignore: list[str], model: Model
) -> tuple[str, ...]:
    """The model's own columns, by name where both sides have names, else all columns."""
    known = None if model.feature_names is None else tuple(str(name) for name in model.feature_names)
    by_name = known is not None and not all(name.isdigit() for name in known)
    if known is None or (not by_name and (len(names) == model.n_features or not set(known) <= set(names))):
        return _features(path, names, target, ignore)
    missing = [name for name in known if name not in names]
    if missing:
        raise DataError(
            f"{path} lacks the column(s) {', '.join(map(repr, missing[:10]))} that the model was trained on; "
            f"it has {', '.join(map(repr, names[:20]))}."
        )
    return known


def _names_of(model: Model) -> str:
    return "" if model.feature_names is None else f" ({', '.join(map(str, model.feature_names[:10]))}, ...)"


def _column(path: str, names: tuple[str, ...], wanted: str, flag: str) -> str:
    if wanted in names:
        return wanted
    spaced = [name for name in names if name.strip() == wanted.strip()]  # "a, b" in a header
    if len(spaced) == 1:
        return spaced[0]
    if wanted.lstrip("-").isdigit() and -len(names) <= int(wanted) < len(names):
        return names[int(wanted)]
    known = ", ".join(repr(name.strip()) for name in names[:50])
    raise DataError(f"{path} has no column {wanted!r} for {flag}; it has {known}.")


def _features(path: str, names: tuple[str, ...], target: str | None, ignore: list[str]) -> tuple[str, ...]:
    left_out = [_column(path, names, name, "--ignore") for words in ignore for name in words.split(",")]
    if target is not None and target in left_out:
        raise UsageError(f"column {target!r} is the target and cannot be ignored.")
    features = tuple(name for name in names if name != target and name not in left_out)
    if not features:
        raise DataError(f"{path} has no columns left beside the target; it has {', '.join(map(repr, names))}.")
    return features


def _parquet_names(path: str) -> tuple[str, ...]:
    from kompakt.rows.tables import pyarrow_module

    try:
        return tuple(pyarrow_module("pyarrow.parquet").ParquetFile(path).schema_arrow.names)
    except (ValueError, OSError) as error:
        raise DataError(f"{path} is a damaged Parquet file: {error}") from error


def _opened(path: str, kind: Kind, target: str | None, features: tuple[str, ...] | None, **more: Any) -> Table:
    options: dict[str, Any] = {"format": kind.format, **more}
    if features is not None:
        options |= {"target": target, "columns": list(features)}
    if kind.format == "csv":
        options |= {"delimiter": kind.delimiter, "header": kind.header}
    try:
        source = open_rows(path, **options)
    except ValueError as error:
        raise explain(path, kind, features, error, target) from error
    return Table(path, kind, source, target, features)


def _open_arrays(path: str, kind: Kind, target: str | None, scale: bool, needed: bool = True) -> Table:
    chosen: Any = target
    if target is not None and target.lstrip("-").isdigit() and kind.format == "npy":
        chosen = int(target)
    try:
        source = open_rows(path, target=chosen, scale=scale, format=kind.format)
    except (ValueError, KeyError) as error:
        raise DataError(f"{path}: {error}") from error
    if needed and not source.n_targets:
        raise UsageError(
            f"{path} holds no target: name a column by its number (--target -1) or a file (--target labels.npy), or "
            "save both as numpy.savez(path, X=X, y=y)."
        )
    return Table(path, kind, source, "" if source.n_targets else None, None)
