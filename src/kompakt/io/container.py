r"""The outer shell of a model file: a JSON header and named arrays, checked before anything is allocated.

Layout (all integers little-endian)::

    0   8  bytes   magic  \x89 K M P K T \r \n   (the line end shows a transfer in text mode)
    8   uint32     version of the format
    12  uint32     length of the header
    16  uint64     length of the whole file
    24  32 bytes   SHA-256 of the file with these 32 bytes set to zero
    56  8  bytes   zero
    64             header: JSON in ASCII, zero bytes up to the next multiple of 64
    ...            the arrays in the order of the header's table, C order, each at a multiple of 64

The header's key "arrays" is a list of ``{"name", "dtype", "shape", "offset"}``, offsets counted from the end of the
padded header.  The layout has no freedom: every offset follows from the shapes before it, so arrays cannot overlap
and the file's length is known from the header.  The checksum finds accidents; it is no signature.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

import kompakt

MAGIC = b"\x89KMPKT\r\n"
#: the newest version; files are written in the first that can hold them, so that earlier readers take most
VERSION = 3
ALIGNMENT = 64
MAX_HEADER = 4 << 20
MAX_ARRAYS = 4096
MAX_DIMENSION = (1 << 31) - 1
DTYPES = ("<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1")

_PREAMBLE = struct.Struct("<8sIIQ32s8x")
_DIGEST = slice(24, 56)
_CHUNK = 1 << 20


class ModelFileError(ValueError):
    """A model file that cannot be read: damaged, cut short, contradicting itself, or of an unknown version.

    Every malformed input, in kompakt's own format or in LIBSVM's, ends in this exception.

    Examples
    --------
    >>> import tempfile, pathlib, kompakt
    >>> from kompakt.io import ModelFileError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "notes.txt")
    ...     _ = path.write_text("no model")
    ...     try:
    ...         kompakt.load(path)
    ...     except ModelFileError as error:
    ...         print("not loaded:", str(error).split(": ", 1)[1])
    not loaded: not a kompakt model file: it has 8 bytes, and a model file has at least 64.
    """


class UnsupportedModelError(ModelFileError):
    """A sound model that the other side cannot express, such as a Laplacian kernel in LIBSVM's format.

    Examples
    --------
    >>> from kompakt.io import ModelFileError, UnsupportedModelError
    >>> issubclass(UnsupportedModelError, ModelFileError)
    True
    """


def require(condition: object, message: str) -> None:
    """Raise ModelFileError with the message unless the condition holds."""
    if not condition:
        raise ModelFileError(message)


@dataclass(frozen=True)
class Entry:
    """One row of the table of arrays; `offset` counts from the end of the padded header."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int


def padded(length: int) -> int:
    """The next multiple of the alignment."""
    return -(-length // ALIGNMENT) * ALIGNMENT


# -- writing ---------------------------------------------------------------------------------------------


def pack(header: dict[str, Any], arrays: dict[str, np.ndarray], version: int = 1) -> list[bytes | memoryview]:
    """The file as a list of pieces, to be written one after the other."""
    table: list[dict[str, Any]] = []
    pieces: list[bytes | memoryview] = []
    offset = 0
    for name, values in arrays.items():
        plain = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
        if plain.dtype.str not in DTYPES:
            raise TypeError(f"array {name!r} has dtype {values.dtype}; a model file holds {', '.join(DTYPES)}.")
        gap = padded(offset) - offset
        pieces += [bytes(gap), plain.reshape(-1).view(np.uint8).data]
        offset += gap
        table.append({"name": name, "dtype": plain.dtype.str, "shape": list(values.shape), "offset": offset})
        offset += plain.nbytes
    text = json.dumps({**header, "arrays": table}, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(text) > MAX_HEADER or len(table) > MAX_ARRAYS:
        raise ValueError(
            f"the header of the model file would have {len(text)} bytes and {len(table)} arrays; at most {MAX_HEADER} "
            f"and {MAX_ARRAYS} are allowed. Keep less in the model's meta."
        )
    size = padded(_PREAMBLE.size + len(text)) + offset
    pieces = [text, bytes(padded(_PREAMBLE.size + len(text)) - _PREAMBLE.size - len(text)), *pieces]
    digest = hashlib.sha256(_PREAMBLE.pack(MAGIC, version, len(text), size, bytes(32)))
    for piece in pieces:
        digest.update(piece)
    return [_PREAMBLE.pack(MAGIC, version, len(text), size, digest.digest()), *pieces]


# -- reading ---------------------------------------------------------------------------------------------


def read_header(file: BinaryIO, actual_size: int) -> tuple[dict[str, Any], list[Entry]]:
    """Header without its table, and the table; the whole file has been checked, and its arrays are not kept."""
    header, entries, _ = _read(file, actual_size, keep=False)
    return header, entries


def read(
    file: BinaryIO, actual_size: int, check: Callable[[dict[str, Any]], None]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header without its table, and the arrays by name: the very bytes that the checksum was computed of.

    `check` is called on the header before the arrays are looked at.
    """
    header, entries, body = _read(file, actual_size, keep=True)
    check(header)
    arrays = {}
    for entry in entries:  # parts of `body`, in native byte order; their sizes have been checked against it
        end = entry.offset + math.prod(entry.shape) * entry.dtype.itemsize
        values = body[entry.offset : end].view(entry.dtype).reshape(entry.shape)
        truths = entry.dtype.kind != "b" or np.all(values.view(np.uint8) <= 1)
        require(truths, f"array {entry.name!r} holds bytes that are neither true nor false.")
        arrays[entry.name] = values.astype(entry.dtype.newbyteorder("="), copy=False)
    return header, arrays


def _read(file: BinaryIO, actual_size: int, keep: bool) -> tuple[dict[str, Any], list[Entry], np.ndarray]:
    """Header, table and, to `keep`, all that follows the header; every byte is read once."""
    preamble = file.read(_PREAMBLE.size)
    require(
        len(preamble) == _PREAMBLE.size,
        f"not a kompakt model file: it has {len(preamble)} bytes, and a model file has at least {_PREAMBLE.size}.",
    )
    magic, version, length, size, digest = _PREAMBLE.unpack(preamble)
    require(magic == MAGIC, f"not a kompakt model file: it begins with {magic!r} instead of {MAGIC!r}.")
    require(
        1 <= version <= VERSION,
        f"the file has format version {version}, and this kompakt ({kompakt.__version__}) reads up to {VERSION}. "
        "Use the kompakt that wrote it, or a newer one, to load and save it again.",
    )
    state = "cut short" if actual_size < size else "longer than it says"
    require(size == actual_size, f"the file is {state}: it has {actual_size} bytes and declares {size}.")
    begin = padded(_PREAMBLE.size + length)
    fits = length <= MAX_HEADER and begin <= size
    require(fits, f"header length {length} does not fit: at most {MAX_HEADER}, in a file of {size} bytes.")
    text = file.read(begin - _PREAMBLE.size)
    checksum = hashlib.sha256(preamble[: _DIGEST.start] + bytes(32) + preamble[_DIGEST.stop :] + text)
    text = text[:length]
    body = np.empty(size - begin if keep else 0, dtype=np.uint8)
    if keep:
        read = file.readinto(body.data) if body.size else 0  # type: ignore[attr-defined]
        require(read == body.size and not file.read(1), "the file changed while it was read.")
        checksum.update(body.data)
    else:
        while chunk := file.read(_CHUNK):
            checksum.update(chunk)
    require(checksum.digest() == digest, "the checksum does not match: the file was damaged after it was written.")
    header = _parse_json(text)
    require(isinstance(header, dict), "the header must be a JSON object.")
    return header, _check_table(header.pop("arrays", None), size - begin), body


def _parse_json(raw: bytes) -> Any:
    """JSON as the standard has it: no NaN, no number beyond float64, no key twice."""

    def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(result := dict(pairs)) != len(pairs):
            raise ValueError("a key appears twice in one object")
        return result

    def finite(text: str) -> float:
        if not math.isfinite(value := float(text)):
            raise ValueError(f"{text[:40]} is no number of JSON, or beyond the numbers of float64")
        return value

    try:
        text = raw.decode("utf-8")
        return json.loads(text, object_pairs_hook=unique_keys, parse_constant=finite, parse_float=finite)
    except (ValueError, RecursionError) as error:
        cause = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise ModelFileError(f"the header is not valid JSON: {cause}.") from None


def _check_table(table: Any, available: int) -> list[Entry]:
    """Every entry, at the one offset it can have, inside the file."""
    listed = isinstance(table, list) and len(table) <= MAX_ARRAYS
    require(listed, f"the header's 'arrays' must be a list of at most {MAX_ARRAYS} entries.")
    entries: list[Entry] = []
    end = 0
    for row in table:
        named = isinstance(row, dict) and set(row) == {"name", "dtype", "shape", "offset"}
        require(named, "an entry of 'arrays' must have exactly name, dtype, shape and offset.")
        name, dtype, shape, offset = row["name"], row["dtype"], row["shape"], row["offset"]
        short = isinstance(name, str) and len(name) <= 200
        require(short, "the name of an array must be a string of at most 200 characters.")
        is_known = isinstance(dtype, str) and dtype in DTYPES
        require(is_known, f"array {name!r} has dtype {str(dtype)[:40]!r}; expected one of {', '.join(DTYPES)}.")
        sizes = shape if isinstance(shape, list) and 1 <= len(shape) <= 2 else [-1]
        possible = all(type(size) is int and 0 <= size <= MAX_DIMENSION for size in sizes)
        require(possible, f"array {name!r} needs a shape of one or two lengths from 0 to {MAX_DIMENSION}.")
        placed = type(offset) is int and offset == padded(end)
        require(placed, f"array {name!r} is at offset {str(offset)[:40]}; expected {padded(end)}.")
        entries.append(Entry(name, np.dtype(dtype), tuple(shape), offset))
        end = offset + math.prod(shape) * np.dtype(dtype).itemsize
        where = f"ends at byte {end}, beyond the {available} in the file"
        require(end <= available, f"array {name!r} of shape {tuple(shape)} {where}.")
    require(end == available, f"the arrays end at byte {end}, but the file has {available}.")
    require(len({entry.name for entry in entries}) == len(entries), "two arrays have the same name.")
    return entries
