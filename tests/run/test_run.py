"""Tasks, steps, listeners, and work of a pool that is called off."""

from __future__ import annotations

import time

import pytest

import kompakt.run as run_module
from kompakt.parallel import Cancelled, block_threads, give_up_if_cancelled, ordered_map
from kompakt.run import Run


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
    run = Run(listener=heard)
    with run.task("outer", 2, work=5.0) as step:
        step(2.0)
        assert list(run.tracked("ab", "inner", 2)) == ["a", "b"]
        with run.task("pass", minor=True) as part:
            part()
        step(3.0)
    assert heard.events == [
        ("begin", "outer", 2, 5.0, False), ("step", 2.0),
        ("begin", "inner", 2, None, False), ("step", 1.0), ("step", 1.0), ("end", False),
        ("begin", "pass", None, None, True), ("step", 1.0), ("end", False),
        ("step", 3.0), ("end", False),
    ]  # fmt: skip


def test_a_listener_can_ask_to_stop_and_a_quiet_run_is_not_heard():
    heard = Recorder(stop_at=2)
    run = Run(listener=heard)
    with run.task("loop", 3) as step:
        assert [step(), step(), step()] == [False, True, False]
    with run.quiet().task("unheard") as step:
        assert step() is False
    assert len(heard.events) == 5


def test_a_failed_task_is_closed_as_failed():
    heard = Recorder()
    with pytest.raises(KeyError), Run(listener=heard).task("loop"):
        raise KeyError
    assert heard.events[-1] == ("end", True)


def test_after_an_error_running_work_of_the_pool_is_called_off():
    ended = []

    def long_work(number: int) -> int:
        if number == 0:
            raise ValueError("first")
        try:
            for _ in range(2000):  # ten seconds, if nobody calls it off
                time.sleep(0.005)
                give_up_if_cancelled()
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


def test_only_an_interruptible_run_keeps_and_a_second_interrupt_passes(monkeypatch):
    monkeypatch.setattr(run_module, "_last_kept", -1e9)
    run = Run(interruptible=True)
    assert not run.inner().keeps_on_interrupt()
    assert not run.quiet().keeps_on_interrupt()
    assert run.keeps_on_interrupt()
    assert not run.keeps_on_interrupt()  # within two seconds
    monkeypatch.setattr(run_module, "_last_kept", time.monotonic() - 3.0)
    assert run.keeps_on_interrupt()


def test_a_deadline_is_remembered_where_it_ended_work():
    run = Run(deadline=time.monotonic() + 60.0)
    assert not run.late
    assert not run.cut
    part = run.within(-1.0)  # a part of the time that is over already
    assert not run.cut
    assert part.late
    assert run.cut
    assert not run.unhurried().late
