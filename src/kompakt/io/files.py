"""Files as a whole: opened for reading, or replaced in one step, as every format does."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from kompakt.io.container import ModelFileError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PathLike = str | os.PathLike[str]

#: seconds after which a temporary file is a leftover, where files cannot be locked
_OLD = 3600.0


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
        raise OSError(f"cannot write {os.fspath(path)}: it is {_kind_of(mode)}, not a regular file. Give another name.")


def _kind_of(mode: int) -> str:
    names = {
        stat.S_IFDIR: "a folder", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
    }  # fmt: skip
    return names.get(stat.S_IFMT(mode), "something else")


def write_atomically(path: PathLike, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file as a whole: at every moment it is the old one or the new one."""
    with replacing(path) as file:
        file.writelines(pieces)


@contextlib.contextmanager
def replacing(path: PathLike) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends without an error; else `path` stays as it was.

    It is written beside its place, never more readable than it will be in the end, and locked while its process
    lives: what a killed process left behind is not locked, and is removed by the next one that writes `path`.
    """
    check_writable(path)
    target = os.path.realpath(path)  # through a symbolic link, its target is replaced and the link stays
    folder, name = os.path.split(target)
    _remove_leftovers(folder, name)
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
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _new_temporary(target: str) -> tuple[str, int]:
    """Name and descriptor of a new, locked file beside `target`."""
    folder, name = os.path.split(target)
    try:
        mode = stat.S_IMODE(os.stat(target).st_mode) & 0o600
    except FileNotFoundError:
        mode = 0o666  # less the user's mask: what the new file will have
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.tmp")
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
        for found in os.listdir(folder):
            if pattern.fullmatch(found):
                with contextlib.suppress(OSError):
                    _remove_unlocked(os.path.join(folder, found))


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
