"""Files as a whole: opened for reading, or replaced in one step, as every format does."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO

from kompakt.io.container import ModelFileError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PathLike = str | os.PathLike[str]

_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}  # fmt: skip
#: seconds after which a temporary file is a leftover, where files cannot be locked
_OLD = 3600.0
#: bytes of the longest name that is used as it is in the names of files beside it
_LONG_NAME = 200


@contextlib.contextmanager
def opened(path: PathLike) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file and its size; every complaint names the path."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for a writer
            raise ModelFileError("not a regular file.")
        with open(path, "rb") as file:
            yield file, os.fstat(file.fileno()).st_size
    except ModelFileError as error:
        raise type(error)(f"{os.fspath(path)}: {error}") from error.__cause__


def check_writable(path: PathLike) -> None:
    """Raise OSError for a path that cannot become a file: a device, a pipe, a folder, or a place in no folder."""
    folder = os.path.dirname(os.path.realpath(path))
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"cannot write {os.fspath(path)}: there is no folder {folder}.") from None
        return
    if not stat.S_ISREG(mode):  # replacing it would destroy it
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise OSError(f"cannot write {os.fspath(path)}: it is {kind}, not a regular file. Give another name.")


def _unlink(*paths: str) -> None:
    """Remove what can be removed."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


@contextlib.contextmanager
def _held(name: str, descriptor: int) -> Iterator[None]:
    """A lock that is held; the file that stands for it is gone afterwards."""
    try:
        yield
    finally:
        _unlink(name)
        os.close(descriptor)


def locked(path: PathLike) -> contextlib.AbstractContextManager[None]:
    """A lock on a path for as long as the context is open: BlockingIOError where another one holds it.

    It is a file beside `path` that nobody but its process can hold, and that a killed process does not hold any more.
    Where files cannot be locked, there is no lock.
    """
    check_writable(path)
    if fcntl is None:
        return contextlib.nullcontext()
    folder, name = os.path.split(os.path.realpath(path))
    lock = os.path.join(folder, f".{_shortened(name)}.lock")
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:  # else its holder removed it before it was ours
                return _held(lock, descriptor)
        except BlockingIOError:
            os.close(descriptor)
            raise
        except OSError:  # a file system without locks
            return _held(lock, descriptor)
        os.close(descriptor)


def _shortened(name: str) -> str:
    """A name that leaves room for what is put around it: file systems take 255 bytes."""
    raw = os.fsencode(name)
    if len(raw) <= _LONG_NAME:
        return name
    return os.fsdecode(raw[: _LONG_NAME - 17]) + "~" + hashlib.sha256(raw).hexdigest()[:16]


def write_atomically(path: PathLike, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file as a whole: at every moment it is the old one or the new one."""
    write_together({path: pieces})


def write_together(files: Mapping[PathLike, Iterable[bytes | memoryview]]) -> None:
    """Write several files, or none of them: all are on disk before the first takes its place.

    They take their places from the last to the first; if one cannot, those before it get their old files back.
    """
    for path in files:
        check_writable(path)
    targets = [os.path.realpath(path) for path in files] if len(files) > 1 else []
    old: dict[str, str] = {}  # a second name of every old file, while places are taken
    new: list[str] = []
    try:
        with contextlib.ExitStack() as stack:
            for path, pieces in files.items():
                file = stack.enter_context(replacing(path))
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
            for target in targets:
                second = _temporary_name(target)
                try:
                    os.link(target, second)
                    old[target] = second
                except FileNotFoundError:
                    new.append(target)
                except OSError:  # a file system without second names: its old files cannot come back
                    pass
    except BaseException:
        _unlink(*new)
        for target, second in old.items():
            with contextlib.suppress(OSError):
                os.replace(second, target)
        raise
    finally:
        _unlink(*old.values())


@contextlib.contextmanager
def replacing(path: PathLike) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends without an error; else `path` stays as it was.

    It is written beside its place, never more readable than it will be in the end, and locked while its process
    lives: what a killed process left behind is not locked, and is removed by the next one that writes `path`.
    """
    check_writable(path)
    target = os.path.realpath(path)  # through a symbolic link, its target is replaced and the link stays
    folder, name = os.path.split(target)
    _remove_leftovers(folder, _shortened(name))
    try:
        temporary, descriptor = _new_temporary(target)
    except OSError as error:  # of the file that was asked for, not of the one beside it
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
            if fcntl is not None:
                os.replace(temporary, target)  # while the lock is held, or it might be taken for a leftover
        if fcntl is None:
            os.replace(temporary, target)  # Windows moves no open file
    except BaseException:
        _unlink(temporary)
        raise
    _sync_folder(folder)


def _temporary_name(target: str) -> str:
    """A name beside `target` that is removed by the next one that writes it, if it is left over."""
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{_shortened(name)}.{secrets.token_hex(8)}.tmp")


def _new_temporary(target: str) -> tuple[str, int]:
    """Name and descriptor of a new, locked file beside `target`."""
    try:
        mode = stat.S_IMODE(os.stat(target).st_mode) & 0o600
    except FileNotFoundError:
        mode = 0o666  # less the user's mask: what the new file will have
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        temporary = _temporary_name(target)
        descriptor = os.open(temporary, flags, mode)
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks: its leftovers stay
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink == 0:  # another process took it for a leftover before it was locked
                os.close(descriptor)
                continue
        return temporary, descriptor


def _remove_leftovers(folder: str, name: str) -> None:
    """Remove temporary files of `name` whose process is gone: those that nobody holds a lock on."""
    pattern = re.compile(re.escape(f".{name}.") + r"[0-9a-f]{16}\.tmp")
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if pattern.fullmatch(name):
                with contextlib.suppress(OSError):
                    _remove_unlocked(os.path.join(folder, name))


def _remove_unlocked(leftover: str) -> None:
    if fcntl is None:  # Windows removes no open file; one between closing and moving is young
        if time.time() - os.stat(leftover).st_mtime > _OLD:
            os.unlink(leftover)
        return
    descriptor = os.open(leftover, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError where its process lives
            os.unlink(leftover)
    finally:
        os.close(descriptor)


def _sync_folder(folder: str) -> None:
    """Make the new name durable where the system lets a folder be synced."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with contextlib.suppress(OSError):  # some file systems refuse; the data themselves are on disk
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
