"""Checkpoints: a fit that was killed goes on where it was, and ends in the same machine to the last bit.

A fit is a deterministic sequence of steps.  A checkpoint is the journal of those that are done: `Run.step(kind,
compute)` computes and writes down, or, in a fit that resumes, reads what was written.  Everything between steps is
computed again, from the same numbers, so the model comes out the same.  A long step writes down where it is with
`Run.progress(kind)`; its steps and progress are dropped when it ends.  Work handed to other threads is part of the step
that waits for it.

The file is the container of model files (JSON and numbers, checked; reading it runs no code), replaced as a whole, and
sealed with a key that is made of the data: a journal that was changed, or written without the data, is refused.  One
fit at a time uses a file.  Writing may take a twentieth of the time: where it is slow, some rounds share one write.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import json
import math
import os
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

import kompakt
from kompakt.io import container
from kompakt.io.container import ModelFileError
from kompakt.io.files import locked, opened, write_atomically
from kompakt.kernels import Kernel, from_spec

T = TypeVar("T")
KIND = "kompakt checkpoint"
#: facts of the data by which a file is sealed: the file holds digests of them only
_SECRET = ("inputs", "targets", "weights")
#: share of the time that writing may take
_SHARE = 0.05


class CheckpointError(ValueError):
    """A checkpoint that does not belong to this fit, or cannot be read.

    Examples
    --------
    >>> from kompakt.checkpoint import CheckpointError
    >>> issubclass(CheckpointError, ValueError)
    True
    """


@dataclass
class _Record:
    """One entry of the journal: a value as plain JSON and arrays, or None for progress not yet written."""

    kind: str
    depth: int
    running: bool  # progress of a step that is not finished
    value: Any = None
    arrays: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def encoded(cls, kind: str, depth: int, running: bool, value: Any) -> _Record:
        """The entry of a value, which may be a dataclass of plain values."""
        arrays: list[np.ndarray] = []
        if is_dataclass(value) and not isinstance(value, type | Kernel):
            value = _fields_of(value)
        return cls(kind, depth, running, _plain(value, arrays), arrays)

    def decoded(self, cls: type | None = None) -> Any:
        """The value again, as a dataclass where one is given."""
        value = _restored(self.value, self.arrays)
        return value if cls is None else cls(**value)


class Checkpoint:
    """The journal of one fit in a file; see `checkpointing`.

    Parameters
    ----------
    path : path-like
    identity : dict
        Plain facts that tell this fit from others, by name; a file with other facts is refused.
    """

    def __init__(self, path: Any, identity: dict[str, Any]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.identity = {"kompakt": kompakt.__version__, **identity}
        self.records: list[_Record] = []
        self.resumed = os.path.exists(self.path)
        self.keep_file = False
        self._cursor = self._depth = 0
        self._dirty = False
        self._written = -math.inf
        self._cost = 0.0
        if self.resumed:
            self.records = _read(self.path, self.identity)

    # -- steps ---------------------------------------------------------------------------------------

    def step(self, kind: str, compute: Callable[[], T], cls: type[T] | None, complete: Callable[[T], bool]) -> T:
        """The value of a finished step, or of `compute`, which is then written down."""
        begin = self._cursor
        if (record := self._known(kind, running=False)) is not None:
            self._cursor += 1
            try:
                value: T = record.decoded(cls)
                return value
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise CheckpointError(
                    f"the checkpoint {self.path} holds a step {kind!r} that this fit cannot take over ({error}): it "
                    "was written by other code. Delete it to start anew."
                ) from error
        self._depth += 1
        try:
            value = compute()
        finally:
            self._depth -= 1
        if not complete(value):
            self.keep_file = True
            return value
        record = _Record.encoded(kind, self._depth, False, value)
        self.records[begin:] = [record]
        self._cursor = begin + 1
        self._dirty = True
        self.write()
        value = record.decoded(cls)  # the fit that wrote it goes on from what a fit that resumes will read
        return value

    def open_progress(self, kind: str) -> Progress:
        """Where a step is that is not finished."""
        if self._known(kind, running=True) is None:
            self.records.insert(self._cursor, _Record(kind, self._depth, True))
        self._cursor += 1
        return Progress(self, self._cursor - 1)

    def _known(self, kind: str, running: bool) -> _Record | None:
        """The record of the step that comes next, if it was written."""
        record = self.records[self._cursor] if self._cursor < len(self.records) else None
        if record is None or record.depth != self._depth:
            return None
        if record.kind != kind or record.running != running:
            raise CheckpointError(
                f"the checkpoint {self.path} has the step {record.kind!r} where this fit comes to {kind!r}: it was "
                "written by other code or other library versions. Delete it to start anew."
            )
        return record

    # -- the file ------------------------------------------------------------------------------------

    def write(self, urgent: bool = False) -> None:
        """Replace the file, unless the last write was so long and so recent that writing would take its toll."""
        if not (urgent or self.due()):
            return
        began = time.monotonic()
        write_atomically(self.path, container.pack(*_file_of(self.identity, self.records)))
        self._written = time.monotonic()
        self._cost = self._written - began
        self._dirty = False

    def due(self) -> bool:
        """Whether the last write is long enough ago for another one."""
        return time.monotonic() - self._written >= self._cost / _SHARE

    def close(self, finished: bool) -> None:
        """Remove the file of a finished fit; write what is not yet written of one that ends early."""
        if finished and not self.keep_file:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
        elif self._dirty:
            self.write(urgent=True)


class Progress:
    """Where a long step is: `last` is what was saved last, None at the start."""

    active = True

    def __init__(self, checkpoint: Checkpoint, at: int) -> None:
        self._checkpoint, self._at = checkpoint, at

    @property
    def last(self) -> Any:
        """The value saved last, in this process or before."""
        record = self._checkpoint.records[self._at]
        return None if record.value is None else record.decoded()

    def save(self, value: Any) -> None:
        """Write down where the step is; steps inside what is done so far are dropped."""
        owner = self._checkpoint
        old = owner.records[self._at]
        owner.records[self._at :] = [_Record.encoded(old.kind, old.depth, True, value)]
        owner._cursor = self._at + 1
        owner._dirty = True
        owner.write()

    def due(self) -> bool:
        """Whether a save would be written now: values that are costly to put together need not be before."""
        return self._checkpoint.due()


@contextlib.contextmanager
def checkpointing(path: Any, identity: dict[str, Any]) -> Iterator[Checkpoint | None]:
    """Steps inside are written to `path`, and read from it where they are there; None writes nothing.

    The file is removed when the context ends without an error.

    Examples
    --------
    >>> import os, tempfile
    >>> from kompakt.checkpoint import checkpointing
    >>> from kompakt.run import Run
    >>> path = os.path.join(tempfile.mkdtemp(), "fit.checkpoint")
    >>> try:
    ...     with checkpointing(path, {"data": "a"}) as checkpoint:
    ...         print(Run(checkpoint=checkpoint).step("first", lambda: 1.5))
    ...         raise KeyboardInterrupt
    ... except KeyboardInterrupt:
    ...     pass
    1.5
    >>> with checkpointing(path, {"data": "a"}) as checkpoint:
    ...     Run(checkpoint=checkpoint).step("first", lambda: print("not computed again"))
    1.5
    >>> os.path.exists(path)
    False
    """
    if path is None:
        yield None
        return
    try:
        lock = locked(path)
    except BlockingIOError:
        raise CheckpointError(
            f"the checkpoint {os.fspath(path)} is in use by another fit that is under way. Give another path, or wait "
            "until it has ended."
        ) from None
    with lock:
        checkpoint = Checkpoint(path, identity)
        checkpoint.write(urgent=True)  # a place that cannot be written to is an error now, not after an hour
        try:
            yield checkpoint
        except BaseException:
            checkpoint.close(finished=False)
            raise
        else:
            checkpoint.close(finished=True)


# -- what tells one fit from another ------------------------------------------------------------------------

#: code of these packages is known by its name; any other may have changed under the same name
_KNOWN_CODE = ("kompakt", "sklearn", "numpy", "scipy", "pandas", "builtins")


def fingerprint(value: Any) -> str:
    """A digest of a parameter's content: equal for equal values in every process, and, for arrays, of every byte.

    The text that `repr` gives is no identity: it leaves out the middle of long arrays, digits of numbers in arrays, and
    everything about functions but their name.

    Parameters
    ----------
    value : object
        Numbers, strings, arrays, sequences and mappings of them, and objects of known packages with such attributes.
        Functions and objects of other code are refused with a TypeError, since it may change without a trace.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.checkpoint import fingerprint
    >>> one, other = np.zeros(5000), np.zeros(5000)
    >>> other[2500] = 1.0
    >>> repr(one) == repr(other), fingerprint(one) == fingerprint(other)
    (True, False)
    """
    return _digest(value).hex()[:16]


def _digest(value: Any) -> bytes:
    """Digest of the kind and the content of a value; a content is bytes, or the digests of parts."""

    def made(kind: str, *content: bytes) -> bytes:
        result = hashlib.sha256(f"{kind}:".encode())
        for piece in content:
            result.update(piece)
        return result.digest()

    def each(values: Iterable[Any]) -> list[bytes]:
        return [_digest(item) for item in values]

    def listed(*values: Any) -> bytes:
        return made("sequence", *each(values))

    if isinstance(value, np.generic) and not isinstance(value, np.void):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return made(type(value).__name__, value if isinstance(value, bytes) else repr(value).encode())
    if isinstance(value, list | tuple | range):
        return listed(*value)
    if isinstance(value, set | frozenset):
        return made("set", *sorted(each(value)))
    if isinstance(value, Mapping):
        return made("mapping", *sorted(each(value.items())))
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return made("array", listed(value.shape, "object"), *each(value.ravel()))
        return made("array", listed(value.shape, value.dtype.str), np.ascontiguousarray(value).tobytes())
    if sparse.issparse(value):
        rows = value.tocsr()
        return listed("sparse", rows.shape, rows.data, rows.indices, rows.indptr)
    if isinstance(value, np.random.RandomState):
        return listed("RandomState", value.get_state(legacy=False))
    if isinstance(value, np.random.Generator):
        return listed("Generator", value.bit_generator.state)
    if hasattr(value, "__array__"):  # a table or a column
        return _digest(np.asarray(value))
    if isinstance(value, types.MethodType):
        return listed("method", value.__func__, value.__self__)
    if isinstance(value, functools.partial):
        return listed("partial", value.func, value.args, value.keywords)
    # A function or a class by its name, an object by its class and attributes, where their code is known.
    named = value if callable(value) and hasattr(value, "__qualname__") else type(value)
    state: Any = {}
    if named is not value:
        state = _fields_of(value) if is_dataclass(value) else getattr(value, "__dict__", None)
    if state is None or str(getattr(named, "__module__", None)).split(".")[0] not in _KNOWN_CODE:
        raise TypeError(f"{named.__module__}.{named.__qualname__}")
    return listed("object" if named is not value else "code", f"{named.__module__}.{named.__qualname__}", state)


# -- values as JSON and arrays -----------------------------------------------------------------------------


def _fields_of(value: Any) -> dict[str, Any]:
    return {item.name: getattr(value, item.name) for item in fields(value)}


def _plain(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, Kernel):
        return {"$kernel": _plain(value.spec(), arrays)}
    if isinstance(value, np.ndarray):
        arrays.append(value.copy(order="K"))
        return {"$array": len(arrays) - 1, "F": bool(value.flags.f_contiguous and not value.flags.c_contiguous)}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, tuple):
        return {"$tuple": [_plain(item, arrays) for item in value]}
    if isinstance(value, list):
        return [_plain(item, arrays) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {key: _plain(item, arrays) for key, item in value.items()}
    raise TypeError(f"a checkpoint keeps numbers, strings, arrays and kernels; got {type(value).__name__}.")


def _restored(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_restored(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        return np.array(arrays[value["$array"]], order="F" if value["F"] else "C")
    if "$kernel" in value:
        return from_spec(_restored(value["$kernel"], arrays))
    if "$float" in value:
        return float(value["$float"])
    if "$tuple" in value:
        return tuple(_restored(item, arrays) for item in value["$tuple"])
    return {key: _restored(item, arrays) for key, item in value.items()}


def _file_of(identity: dict[str, Any], records: list[_Record]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays: all arrays of one dtype lie behind each other in one."""
    flat: dict[str, list[np.ndarray]] = {}
    table = []
    for record in records:
        places = []
        for array in record.arrays:
            plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).ravel()
            flat.setdefault(plain.dtype.str, []).append(plain)
            places.append([plain.dtype.str, list(array.shape)])
        table.append([record.kind, record.depth, record.running, record.value, places])
    arrays = {name: np.concatenate(pieces) for name, pieces in flat.items()}
    seal = _seal(identity, table, arrays)
    return {"kind": KIND, "identity": _shown(identity), "records": table, "seal": seal}, arrays


def _shown(identity: dict[str, Any]) -> dict[str, Any]:
    """The facts as they are written."""
    secret = {name: identity[name] for name in _SECRET if name in identity}
    return identity | {name: hashlib.sha256(str(value).encode()).hexdigest()[:16] for name, value in secret.items()}


def _seal(identity: dict[str, Any], table: Any, arrays: dict[str, np.ndarray]) -> str:
    """A digest of the journal that needs the data to be made."""
    digest = hmac.new(json.dumps(identity, sort_keys=True).encode(), json.dumps(table).encode(), hashlib.sha256)
    for name in sorted(arrays):
        # the type as it was read: the same bytes as numbers of another type are other numbers
        digest.update(f"{arrays[name].dtype.newbyteorder('<').str} {len(arrays[name])}:".encode())
        digest.update(arrays[name].data)
    return digest.hexdigest()


def _check_kind(header: dict[str, Any]) -> None:
    if header.get("kind") != KIND:
        raise ModelFileError("not a checkpoint of kompakt.")


def _read(path: str, identity: dict[str, Any]) -> list[_Record]:
    """The journal in a file of this fit; other files are refused."""
    records = []
    try:
        with opened(path) as (file, size):
            header, remaining = container.read(file, size, _check_kind)
            stored, expected = header["identity"], _shown(identity)
            names = [name for name in {**expected, **stored} if stored.get(name) != expected.get(name)]
            if names:
                differences = "; ".join(f"{name} was {stored.get(name)!r}, is {expected.get(name)!r}" for name in names)
                raise CheckpointError(
                    f"the checkpoint {path} belongs to another fit: {differences}. Fit with the data and parameters it "
                    "was made with, give another path, or delete the file to start anew."
                )
            if header["seal"] != _seal(identity, header["records"], remaining):
                raise ModelFileError("its steps are not those that were written.")
        for kind, depth, running, value, places in header["records"]:
            arrays = []
            for name, shape in places:
                count = math.prod(shape)
                if len(remaining[name]) < count:
                    raise ModelFileError(f"step {kind!r} lacks numbers.")
                arrays.append(remaining[name][:count].reshape(shape))
                remaining[name] = remaining[name][count:]
            records.append(_Record(kind, depth, running, value, arrays))
    except (ModelFileError, AttributeError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise CheckpointError(
            f"{path} cannot be used as a checkpoint: {error} Give another path, or delete the file to start anew."
        ) from error
    return records
