"""The BLAS limiter and the pools: counted, nested, safe after a fork and after an error."""

import os
import threading
import time

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  loads SciPy's own BLAS, so that it is seen below
from threadpoolctl import threadpool_info, threadpool_limits

from kompakt import parallel as threads
from kompakt.parallel import block_threads, current_threads, ordered_map, resolve_jobs


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_blas_threads():
    """Every test begins with two BLAS threads, whatever the machine has, and must leave them so."""
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS cannot be set to two threads")
        yield
        assert blas_threads() == {2}
        assert threads._limiter._entered == 0


def test_limit_is_set_and_restored():
    with block_threads() as n_threads:
        assert n_threads == 2
        assert blas_threads() == {1}
        assert current_threads() == 2
    assert current_threads() == 1


def test_nested_calls_keep_the_outer_number():
    with block_threads(3):
        with block_threads() as inner:
            assert inner == 3
        assert blas_threads() == {1}
        with block_threads(1) as own:
            assert own == 1
        assert current_threads() == 3


def test_none_follows_an_outer_limit():
    with threadpool_limits(1, user_api="blas"), block_threads() as n_threads:
        assert n_threads == 1


def test_overlapping_entries_restore_the_number_found_first():
    """A enters, B enters, A leaves, B leaves: with plain limits, B would put back the 1 that it found."""
    a_is_in, b_is_in, a_is_out = threading.Event(), threading.Event(), threading.Event()
    seen = []

    def a():
        with block_threads():
            a_is_in.set()
            b_is_in.wait(10)
        seen.append(blas_threads())
        a_is_out.set()

    def b():
        a_is_in.wait(10)
        with block_threads() as n_threads:
            seen.append(n_threads)
            b_is_in.set()
            a_is_out.wait(10)
            seen.append(blas_threads())

    running = [threading.Thread(target=function) for function in (a, b)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(20)
    assert seen == [2, {1}, {1}], "B takes the number found by A, and the limit holds until the last one leaves"


def test_many_threads_at_once():
    errors = []

    def work():
        try:
            for _ in range(50):
                with block_threads(2):
                    assert blas_threads() == {1}
                    assert list(ordered_map(lambda i: i * i, range(5))) == [0, 1, 4, 9, 16]
        except Exception as error:
            errors.append(error)

    running = [threading.Thread(target=work) for _ in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    assert not errors


def test_results_come_in_order_and_few_at_a_time():
    started = []

    def slow_first(i):
        started.append(i)
        time.sleep(0.02 if i % 4 == 0 else 0.0)
        return i

    with block_threads(2):
        results = ordered_map(slow_first, range(40))
        assert next(results) == 0
        assert len(started) <= 2 * 2, "results wait for the consumer: memory is bounded"
        assert list(results) == list(range(1, 40))


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_in_a_block_reaches_the_caller(n_jobs):
    finished = []

    def function(i):
        if i == 5:
            raise KeyError("block five")
        time.sleep(0.01)
        finished.append(i)

    with pytest.raises(KeyError, match="block five"), block_threads(n_jobs):
        list(ordered_map(function, range(50)))
    count = len(finished)
    assert blas_threads() == {2}
    time.sleep(0.05)
    assert len(finished) == count < 40, "no block runs on after the error was reported"
    with block_threads(n_jobs):
        assert list(ordered_map(abs, [-1, -2, -3])) == [1, 2, 3]


def test_a_block_may_call_back():
    """A kernel function that uses a kompakt machine itself must not wait for the threads it occupies."""

    def outer(i):
        with block_threads(2):
            return sum(ordered_map(lambda j: i * j, range(6)))

    done = []

    def run():
        with block_threads(2):
            done.extend(ordered_map(outer, range(8)))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert done == [15 * i for i in range(8)]


def test_resolve_jobs():
    assert resolve_jobs(None, 3) == 3
    assert resolve_jobs(5, 3) == 5
    assert resolve_jobs(-1, 3) == os.cpu_count()
    assert resolve_jobs(-1000, 3) == 1
    for wrong in (0, 1.5, "two", True):
        with pytest.raises(ValueError, match=f"n_jobs .* got {wrong!r}"), block_threads(wrong):
            pass


def test_entering_is_cheap():
    with block_threads():
        pass
    best = np.inf
    for _ in range(20):
        start = time.perf_counter()
        with block_threads():
            pass
        best = min(best, time.perf_counter() - start)
    assert best < 1e-3


def in_child(function):
    """Run `function` in a forked child; True if it returned a true value."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if function() else 1
        finally:
            os._exit(status)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@needs_fork
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_forked_child_can_fit():
    from kompakt import CompactSVC

    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3))
    y = X[:, 0] > 0
    machine = CompactSVC(n_basis=20, selection="random", refine=False, n_jobs=2, random_state=0)
    expected = machine.fit(X, y).dual_coef_.copy()
    assert threads._pools, "the parent must have a pool for the child to lose"
    assert in_child(lambda: np.array_equal(machine.fit(X, y).dual_coef_, expected))


@needs_fork
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_fork_inside_a_call_lifts_the_limit_in_the_child():
    def child():
        free = blas_threads()
        with block_threads(2) as n_threads:
            limited = blas_threads()
        context.__exit__(None, None, None)  # the child leaves the call it was born in
        with block_threads():
            again = blas_threads()
        return (free, n_threads, limited, again, blas_threads()) == ({2}, 2, {1}, {1}, {2})

    context = block_threads(2)
    context.__enter__()
    try:
        assert in_child(child)
        assert blas_threads() == {1}
    finally:
        context.__exit__(None, None, None)


def test_what_numpy_ignores_on_the_calling_thread_it_ignores_on_all():
    """Which thread takes a block is chance: a warning must not depend on it."""
    everyone = threading.Barrier(2, timeout=10)

    def overflow(number):
        if number < 2:
            everyone.wait()  # so that two threads are at work
        return np.array([1e30], dtype=np.float32) * np.float32(1e30)

    with block_threads(2), np.errstate(over="ignore"):
        for items in (range(4), iter(range(4))):
            assert all(np.isinf(value[0]) for value in ordered_map(overflow, items))
