"""Tasks, steps, listeners, and work of a pool that is called off."""

from __future__ import annotations

import threading
import time

import pytest

from kompakt.parallel import block_threads, ordered_map
from kompakt.run import Cancelled, checkpoint, keeps_on_interrupt, listening, outermost, task, tracked
from kompakt.run import progress as policy


class Recorder:
    def __init__(self, stop_at: int | None = None) -> None:
        self.events: list[tuple] = []
        self.stop_at, self.steps = stop_at, 0

    def begin(self, name, n_steps, work, minor):
        self.events.append(("begin", name, n_steps, work, minor))

    def advance(self, work):
        self.steps += 1
        self.events.append(("step", work))
        return self.steps == self.stop_at

    def end(self, failed):
        self.events.append(("end", failed))


def test_a_listener_hears_tasks_and_steps_in_order():
    heard = Recorder()
    with listening(heard), task("outer", 2, work=5.0) as step:
        step(2.0)
        assert list(tracked("ab", "inner", 2, minor=True)) == ["a", "b"]
        step(3.0)
    assert heard.events == [
        ("begin", "outer", 2, 5.0, False), ("step", 2.0),
        ("begin", "inner", 2, None, True), ("step", 1.0), ("step", 1.0), ("end", False),
        ("step", 3.0), ("end", False),
    ]  # fmt: skip


def test_a_listener_can_ask_to_stop_and_nobody_listens_afterwards():
    heard = Recorder(stop_at=2)
    with listening(heard), task("loop", 3) as step:
        assert [step(), step(), step()] == [False, True, False]
    with task("unheard") as step:
        assert step() is False
    assert len(heard.events) == 5


def test_a_failed_task_is_closed_as_failed():
    heard = Recorder()
    with pytest.raises(KeyError), listening(heard), task("loop"):
        raise KeyError
    assert heard.events[-1] == ("end", True)


def test_other_threads_are_not_heard():
    heard = Recorder()
    with listening(heard):
        thread = threading.Thread(target=lambda: list(tracked([1], "elsewhere", 1)))
        thread.start()
        thread.join()
    assert heard.events == []


def test_after_an_error_running_work_of_the_pool_is_called_off():
    ended = []

    def long_work(number: int) -> int:
        if number == 0:
            raise ValueError("first")
        try:
            for _ in range(2000):  # ten seconds, if nobody calls it off
                time.sleep(0.005)
                checkpoint()
        except Cancelled:
            ended.append(number)
            raise
        return number

    began = time.monotonic()
    with block_threads(2), pytest.raises(ValueError, match="first"):
        list(ordered_map(long_work, range(4)))
    assert time.monotonic() - began < 5.0
    assert set(ended) <= {1, 2, 3}


def test_serial_work_inside_a_cancelled_task_stops_at_the_next_item():
    seen = []

    def outer(number: int) -> None:
        if number == 0:
            time.sleep(0.05)
            raise ValueError("first")
        for item in ordered_map(lambda i: i, range(10**7)):  # serial: this is a block thread
            seen.append(item)

    with block_threads(2), pytest.raises(ValueError, match="first"):
        list(ordered_map(outer, range(2)))
    assert len(seen) < 10**7


def test_only_the_outermost_call_keeps_and_a_second_interrupt_passes(monkeypatch):
    monkeypatch.setattr(policy, "_last_kept", -1e9)
    with outermost() as first:
        assert first
        with outermost() as second:
            assert not second
            assert not keeps_on_interrupt()
        assert keeps_on_interrupt()
        assert not keeps_on_interrupt()  # within two seconds
    monkeypatch.setattr(policy, "_last_kept", time.monotonic() - 3.0)
    assert keeps_on_interrupt()
