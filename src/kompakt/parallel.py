"""Threads: one BLAS limiter for the process, and thread pools over row blocks."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from importlib.util import find_spec
from numbers import Integral
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Cancelled(BaseException):
    """Raised on a worker thread whose work is no longer wanted; it never leaves the pool."""


#: set on a worker thread once its result is no longer wanted
_cancel: ContextVar[threading.Event | None] = ContextVar("cancel", default=None)


def give_up_if_cancelled() -> None:
    """Give up here if the caller of this worker thread has given up: after Ctrl-C no grid point may run to its end."""
    cancel = _cancel.get()
    if cancel is not None and cancel.is_set():
        raise Cancelled


class _BlasLimiter:
    """Counted, process-wide switch to one BLAS thread, entered once per Python thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered = 0
        self._libraries: list[Any] | None = None
        self._looked_with_scipy = False
        self._found: list[int] = []  # threads of each library before kompakt came in

    def _find(self) -> list[Any]:
        # SciPy ships a BLAS of its own, which is there to be limited once it is imported
        with_scipy = "scipy.linalg" in sys.modules
        if self._libraries is None or (self._entered == 0 and with_scipy and not self._looked_with_scipy):
            from threadpoolctl import ThreadpoolController

            self._looked_with_scipy = with_scipy
            libraries = ThreadpoolController().select(user_api="blas").lib_controllers
            self._libraries = [library for library in libraries if library.num_threads is not None]
        return self._libraries

    def enter(self) -> int:
        """Limit BLAS to one thread; return the number of threads it had before kompakt came in."""
        with self._lock:
            libraries = self._find()
            if self._entered == 0:
                self._found = [library.num_threads for library in libraries]
            self._entered += 1
            for library in libraries:
                _set_threads(library, 1)
            return max(self._found, default=1)

    def leave(self) -> None:
        with self._lock:
            if self._entered == 0:
                return  # entered before a fork, left in the child, where the limit is lifted already
            self._entered -= 1
            self._restore(everything=self._entered == 0)

    def limit_this_thread(self) -> None:
        """Make one BLAS thread the rule on a block thread, for libraries that count per calling thread."""
        for library in self._find():
            if _counts_per_thread(library):
                _set_threads(library, 1)

    def reset_after_fork(self) -> None:
        # The child has one thread: no caller of the parent is inside, and its lock may be held by nobody.
        self._lock = threading.Lock()
        if self._entered:
            self._entered = 0
            self._restore(everything=True)

    def _restore(self, *, everything: bool) -> None:
        for library, number in zip(self._find(), self._found, strict=True):
            if everything or _counts_per_thread(library):
                _set_threads(library, number)


def _counts_per_thread(library: Any) -> bool:
    """Whether a limit holds for the calling thread only (MKL, OpenMP) instead of for the process."""
    return library.internal_api == "mkl" or getattr(library, "threading_layer", None) == "openmp"


def _set_threads(library: Any, number: int) -> None:
    # From version 3.8 on, threadpoolctl silently ignores limits set by any thread but the first that set one, as its
    # answer to overlapping limits.  Counting is ours, and needs the switch itself: the last caller out, on whatever
    # thread, must be able to restore the number.
    getattr(library, "_real_set_num_threads", library.set_num_threads)(number)


_limiter = _BlasLimiter()
_pools: dict[int, ThreadPoolExecutor] = {}
_pools_lock = threading.Lock()
_local = threading.local()


def _start_anew() -> None:
    global _pools_lock
    _pools.clear()  # the threads did not survive the fork
    _pools_lock = threading.Lock()
    _local.threads, _local.is_worker = None, False
    _limiter.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


def resolve_jobs(n_jobs: int | None, blas_threads: int) -> int:
    """Number of block threads for `n_jobs`: None follows the BLAS limit found, -1 takes every core."""
    if n_jobs is None:
        return max(1, blas_threads)
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(
            f"n_jobs must be None, a positive whole number or a negative one (-1 = all cores); got {n_jobs!r}."
        )
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


@contextmanager
def block_threads(n_jobs: int | None = None) -> Iterator[int]:
    """Enter the limiter for one public call; yields the number of threads that row blocks may use.

    Calls inside this context (same Python thread) see the same number through `current_threads`.

    Examples
    --------
    >>> from kompakt.parallel import block_threads, current_threads
    >>> with block_threads(2):
    ...     current_threads()
    2
    """
    outer = getattr(_local, "threads", None)
    limit = _limiter.enter() if outer is None else outer
    try:
        if getattr(_local, "is_worker", False):
            # A kernel function that calls kompakt again must not wait for the pool that it occupies.
            _local.threads = 1
        elif outer is None or n_jobs is not None:  # else a nested public call keeps what the outer one decided
            _local.threads = resolve_jobs(n_jobs, limit)
        yield _local.threads
    finally:
        _local.threads = outer
        if outer is None:
            _limiter.leave()


def current_threads() -> int:
    """Threads that row blocks may use here: 1 outside of `block_threads` and on the block threads themselves."""
    threads = getattr(_local, "threads", None)
    return 1 if threads is None else int(threads)


def _become_worker() -> None:
    _local.threads, _local.is_worker = 1, True
    _limiter.limit_this_thread()


def ordered_map(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Apply `function` to items on the block threads; results come in order, few at a time.

    At most two results per thread are waiting, so the memory of partial sums is bounded.  Where the items are at hand
    the calling thread works too, and others help as they get a core: on a busy machine nobody waits for a thread that
    has not begun.
    """
    n_threads = current_threads()
    if n_threads == 1 or (isinstance(items, Sequence) and len(items) == 1):
        for item in items:
            give_up_if_cancelled()  # where this thread does a whole grid point on a caller's behalf
            yield function(item)
        return
    with _pools_lock:
        pool = _pools.get(n_threads)
        if pool is None:
            pool = ThreadPoolExecutor(n_threads, thread_name_prefix="kompakt", initializer=_become_worker)
            _pools[n_threads] = pool
    if not isinstance(items, Sequence):
        yield from _as_they_come(pool, n_threads, function, items)
        return
    change = threading.Condition()
    results: dict[int, tuple[R | None, BaseException | None]] = {}
    cancel, context = threading.Event(), copy_context()  # what NumPy ignores here, it ignores there
    context.run(_cancel.set, cancel)
    taken = handed_over = 0  # items begun, results handed over

    def take() -> int | None:
        """The next item, None where there is none or too many results are waiting already."""
        nonlocal taken
        with change:
            if taken == len(items) or taken - handed_over >= 2 * n_threads or cancel.is_set():
                return None
            taken += 1
            return taken - 1

    def put(number: int, result: R | None, error: BaseException | None = None) -> None:
        with change:
            results[number] = result, error
            change.notify()

    def help_out() -> None:
        while (number := take()) is not None:
            try:
                put(number, function(items[number]))
            except BaseException as error:  # the caller's to raise
                put(number, None, error)

    helpers: list[Future[None]] = []
    try:
        for number in range(len(items)):
            helpers = [helper for helper in helpers if not helper.done()]
            while len(helpers) < min(n_threads - 1, len(items) - taken - 1):
                helpers.append(pool.submit(context.copy().run, help_out))
            while number not in results:
                position = take()
                if position is None:
                    with change:
                        change.wait_for(lambda: number in results)  # noqa: B023
                    continue
                _local.threads = 1  # as on the other threads
                try:
                    put(position, function(items[position]))
                finally:
                    _local.threads = n_threads
            with change:
                result, error = results.pop(number)
                handed_over += 1
            if error is not None:
                raise error
            yield result  # type: ignore[misc]
    finally:
        # after an error no block may go on: the caller's arrays and the BLAS limit are about to be given back
        cancel.set()
        wait([helper for helper in helpers if not helper.cancel()])


def _as_they_come(
    pool: ThreadPoolExecutor, n_threads: int, function: Callable[[T], R], items: Iterable[T]
) -> Iterator[R]:
    """Results in order of items that are read one by one; the calling thread reads, the others work."""
    waiting: list[Future[R]] = []
    cancel, context = threading.Event(), copy_context()  # what NumPy ignores here, it ignores there
    context.run(_cancel.set, cancel)
    try:
        for item in items:
            waiting.append(pool.submit(context.copy().run, function, item))
            if len(waiting) >= 2 * n_threads:
                yield _first_result(waiting)
        while waiting:
            yield _first_result(waiting)
    finally:
        # after an error no block may go on: the caller's arrays and the BLAS limit are about to be given back
        cancel.set()
        wait([future for future in waiting if not future.cancel()])


def _first_result(waiting: list[Future[R]]) -> R:
    """Wait for the first, and only then let go of it: an interrupt while waiting must leave it in the list."""
    result = waiting[0].result()
    del waiting[0]
    return result


_uses_numba = True


def numba_available() -> bool:
    """Whether the extra `fast` is installed, and wanted."""
    return _uses_numba and find_spec("numba") is not None


@contextmanager
def without_numba() -> Iterator[None]:
    """Compute with NumPy alone: for work that is done before Numba is imported.

    Values agree to the errors told in `kompakt.kernels._exp`.
    """
    global _uses_numba
    before, _uses_numba = _uses_numba, False
    try:
        yield
    finally:
        _uses_numba = before
