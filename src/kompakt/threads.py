"""Threads: one BLAS limiter for the process, and thread pools over row blocks.

Parallelism in kompakt is over row blocks, each computed with one BLAS thread: this is what makes results
bit-identical at any number of threads (a BLAS changes its sums with its own thread count).

BLAS limits are global to the process, so limits set by two Python threads that overlap would leave a wrong
number behind.  The limiter here is therefore locked and counted: the first caller in lowers the limit, the last
one out restores it.  It is entered once per public call, never per block: finding the BLAS libraries costs
milliseconds, switching their limit by a kept controller some microseconds.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class _BlasLimiter:
    """Counted, process-wide switch to one BLAS thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered = 0
        self._controller: Any = None
        self._active: Any = None
        self._found = 1

    def _find(self) -> Any:
        if self._controller is None:
            import scipy.linalg  # noqa: F401  SciPy ships a BLAS of its own: load it before looking
            from threadpoolctl import ThreadpoolController

            self._controller = ThreadpoolController().select(user_api="blas")
        return self._controller

    def enter(self) -> int:
        """Limit BLAS to one thread; return the number of threads it had before kompakt came in."""
        with self._lock:
            if self._entered == 0:
                controller = self._find()
                self._found = max((lib["num_threads"] for lib in controller.info()), default=1)
                self._active = controller.limit(limits=1)
                self._active.__enter__()
            self._entered += 1
            return self._found

    def leave(self) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered == 0:
                self._active.__exit__(None, None, None)
                self._active = None

    def reset_after_fork(self) -> None:
        # The child has one thread: no caller of the parent is inside, and its lock may be held by nobody.
        self._lock = threading.Lock()
        if self._entered:
            self._entered = 0
            self._active.__exit__(None, None, None)
            self._active = None


_limiter = _BlasLimiter()
_pools: dict[int, ThreadPoolExecutor] = {}
_pools_lock = threading.Lock()
_local = threading.local()


def _forget_pools() -> None:
    global _pools_lock
    _pools.clear()  # the threads did not survive the fork
    _pools_lock = threading.Lock()
    _limiter.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pools)


def resolve_jobs(n_jobs: int | None, blas_threads: int) -> int:
    """Number of block threads for `n_jobs`: None follows the BLAS limit found, -1 takes every core."""
    if n_jobs is None:
        return max(1, blas_threads)
    if n_jobs < 0:
        return max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    if n_jobs == 0:
        raise ValueError("n_jobs must be None, a positive number or a negative one (-1 = all cores); got 0.")
    return int(n_jobs)


@contextmanager
def block_threads(n_jobs: int | None = None) -> Iterator[int]:
    """Enter the limiter for one public call; yields the number of threads that row blocks may use.

    Calls inside this context (same Python thread) see the same number through `current_threads`.

    Examples
    --------
    >>> from kompakt.threads import block_threads, current_threads
    >>> with block_threads(2):
    ...     current_threads()
    2
    """
    found = _limiter.enter()
    before = getattr(_local, "threads", None)
    try:
        if n_jobs is None and before is not None:
            _local.threads = before  # nested public call: keep what the outer one decided
        else:
            _local.threads = resolve_jobs(n_jobs, found)
        yield _local.threads
    finally:
        _local.threads = before
        _limiter.leave()


def current_threads() -> int:
    """Threads that row blocks may use here: 1 outside of `block_threads`."""
    threads = getattr(_local, "threads", None)
    return 1 if threads is None else int(threads)


def _pool(n_threads: int) -> ThreadPoolExecutor:
    with _pools_lock:
        pool = _pools.get(n_threads)
        if pool is None:
            pool = ThreadPoolExecutor(n_threads, thread_name_prefix="kompakt")
            _pools[n_threads] = pool
        return pool


def ordered_map(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Apply `function` to items on the block threads; results come in order, few at a time.

    At most two results per thread are waiting, so the memory of partial sums is bounded.
    """
    n_threads = current_threads()
    if n_threads == 1 or (isinstance(items, list | range) and len(items) == 1):
        for item in items:
            yield function(item)
        return
    pool = _pool(n_threads)
    waiting: list[Future[R]] = []
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= 2 * n_threads:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()
    finally:
        for future in waiting:
            future.cancel()
