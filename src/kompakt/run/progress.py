"""Progress, time limits and Ctrl-C: what long work reports, and when it ends early."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, TypeVar


class Deadline(float):
    """A moment on the clock of time.monotonic that remembers whether work was ended by it.

    Parameters
    ----------
    seconds : float
        From now on.
    outer : Deadline, optional
        The one that this one is a part of: what this one cuts short, it does too.

    Examples
    --------
    >>> from kompakt.run import Deadline, is_over
    >>> fit = Deadline(60.0)
    >>> is_over(fit), is_over(fit.share(-1.0)), fit.cut
    (False, True, True)
    """

    cut: bool
    outer: Deadline | None

    def __new__(cls, seconds: float, outer: Deadline | None = None) -> Deadline:
        self = super().__new__(cls, time.monotonic() + float(seconds))
        self.cut, self.outer = False, outer
        return self

    def share(self, fraction: float) -> Deadline:
        """A deadline after a fraction of the time that is left."""
        return Deadline(fraction * (self - time.monotonic()), self)

    def note(self) -> None:
        """Remember that work was ended."""
        self.cut = True
        if self.outer is not None:
            self.outer.note()


def is_over(deadline: float | None) -> bool:
    """Whether the time is over; ask only where the answer ends work, because a `Deadline` remembers it.

    Examples
    --------
    >>> from kompakt.run import is_over
    >>> is_over(None), is_over(0.0)
    (False, True)
    """
    if deadline is None or time.monotonic() <= deadline:
        return False
    if isinstance(deadline, Deadline):
        deadline.note()
    return True


T = TypeVar("T")
R = TypeVar("R")

_local = threading.local()
logger = logging.getLogger("kompakt")


class Listener(Protocol):
    """What watches: it is told of tasks as they open, advance and close, innermost last."""

    def begin(self, name: str, n_steps: int | None, work: float | None, minor: bool) -> None:
        """A task opens inside the one that is open."""
        ...

    def advance(self, work: float) -> bool:
        """The innermost task made a step; True asks its loop to stop."""
        ...

    def end(self, failed: bool) -> None:
        """The innermost task closes, by an exception where `failed`."""
        ...


class Cancelled(BaseException):
    """Raised on a worker thread whose work is no longer wanted; it never leaves the pool."""


def checkpoint() -> None:
    """Give up here if the caller of this worker thread has given up: after Ctrl-C no grid point may run to its end."""
    flag = cancel_flag()
    if flag is not None and flag.is_set():
        raise Cancelled


def cancel_flag() -> threading.Event | None:
    """The flag that calls off the work of this worker thread; None on any other thread."""
    return getattr(_local, "cancel", None)


def run_unless_cancelled(cancel: threading.Event, function: Callable[[T], R], item: T) -> R:
    """`function(item)` on a worker thread, whose checkpoints give up when `cancel` is set."""
    _local.cancel = cancel
    try:
        return function(item)
    finally:
        _local.cancel = None


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell `listener` of the tasks of this thread."""
    before = getattr(_local, "listener", None)
    _local.listener = listener
    try:
        yield
    finally:
        _local.listener = before


def current_listener() -> Listener | None:
    """Who listens to this thread."""
    return getattr(_local, "listener", None)


@contextmanager
def apart() -> Iterator[None]:
    """Tasks that an error leaves open inside do not count as open afterwards."""
    depth = getattr(_local, "depth", 0)
    try:
        yield
    finally:
        _local.depth = depth


class Task:
    """A piece of work that is counted in steps; see `task`."""

    __slots__ = ("_began", "_level", "_listener", "_parts", "_steps")

    def __init__(self, listener: Listener | None, *parts: Any) -> None:
        self._listener, self._parts = listener, parts
        self._steps, self._began, self._level = 0, 0.0, logging.DEBUG

    def __enter__(self) -> Task:
        self._began = time.monotonic()
        # one line per stage: what goes on inside a stage, or on the threads of a pool, is for those who want it all
        depth = getattr(_local, "depth", 0)
        minor = depth > 0 or bool(self._parts[3]) or cancel_flag() is not None
        self._level = logging.DEBUG if minor else logging.INFO
        _local.depth = depth + 1
        if self._listener is not None:
            self._listener.begin(*self._parts)
        return self

    def __call__(self, work: float = 1.0) -> bool:
        """One step is done; returns whether the loop is asked to stop."""
        self._steps += 1
        if self._listener is not None:
            return self._listener.advance(work)
        checkpoint()
        return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _local.depth = max(0, getattr(_local, "depth", 1) - 1)
        if self._listener is not None:
            self._listener.end(kind is not None)
        if logger.isEnabledFor(self._level):
            name, n_steps = self._parts[:2]
            of = "" if n_steps is None else f" of at most {n_steps}"
            ended = "" if kind in (None, GeneratorExit) else f", ended by {kind.__name__}"  # type: ignore[union-attr]
            seconds = time.monotonic() - self._began
            logger.log(self._level, "%s: %d steps%s in %.2f s%s", name, self._steps, of, seconds, ended)


def task(name: str, n_steps: int | None = None, *, work: float | None = None, minor: bool = False) -> Task:
    """A task to be counted: ``with task("growth", 100) as step: ... step()``.

    Parameters
    ----------
    name : str
    n_steps : int, optional
        How many steps it will have at most; None where nobody knows.
    work : float, optional
        What the steps add up to where they differ in cost, each step then telling its own: the time left is estimated
        from it.
    minor : bool
        Shown in a bar, but not reported to callbacks: passes over the rows, of which a fit has thousands.

    Examples
    --------
    >>> from kompakt.run import task
    >>> with task("growth", 3) as step:
    ...     [step() for _ in range(3)]
    [False, False, False]
    """
    return Task(getattr(_local, "listener", None), name, n_steps, work, minor)


def tracked(items: Iterable[T], name: str, n_steps: int | None = None, *, minor: bool = False) -> Iterator[T]:
    """The items, each counted as a step once the caller comes back for the next.

    Examples
    --------
    >>> from kompakt.run import tracked
    >>> sum(tracked([1, 2, 3], "sum", 3))
    6
    """
    with task(name, n_steps, minor=minor) as step:
        for item in items:
            yield item
            step()


#: a second Ctrl-C within so many seconds ends the program, whatever could be kept
PATIENCE = 2.0

_last_kept = -float("inf")


@contextmanager
def outermost() -> Iterator[bool]:
    """Enter a public call; yields whether it is the outermost one of this thread."""
    depth = getattr(_local, "calls", 0)
    _local.calls = depth + 1
    try:
        yield depth == 0
    finally:
        _local.calls = depth


def keeps_on_interrupt() -> bool:
    """Whether a machine found so far is to be kept instead of passing the interrupt on; asked once it has come."""
    global _last_kept
    if getattr(_local, "calls", 0) > 1:
        return False
    now = time.monotonic()
    if now - _last_kept < PATIENCE:
        return False
    _last_kept = now
    return True
