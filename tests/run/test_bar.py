"""A bar in a terminal (a pseudo-terminal here), none in a pipe."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import subprocess
import sys
import threading
import time

import pytest
from sklearn.datasets import make_moons

from kompakt import CompactSVC
from kompakt.run import Run
from kompakt.run import bar as bar_module
from kompakt.run.bar import Bar, above_bar, showing

pty = pytest.importorskip("pty", reason="pseudo-terminals need a Unix system")
with_rich = pytest.mark.skipif(importlib.util.find_spec("rich") is None, reason="the bar needs kompakt[cli]")

PROGRAM = """
import sys, time
if "without rich" in sys.argv:
    sys.modules["rich"] = None
import kompakt.run.bar as bar
from kompakt.run import Run
from kompakt.run.bar import above_bar, showing
bar.DELAY, bar.PERIOD = 0.1, 0.02
try:
    with showing("Machine") as shown, Run(listener=shown).task("growth", 40) as step:
        for number in range(40):
            time.sleep(0.02)
            step()
            if number == 30 and not above_bar("a line of the [log]"):
                print("a line of the [log]", file=sys.stderr)
            if number == 30 and "fails" in sys.argv:
                raise KeyboardInterrupt
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
print("done")
"""


def run_on_a_terminal(*arguments: str) -> str:
    """What the program writes to a standard error that is a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stderr=theirs, stdout=subprocess.DEVNULL, env=environment
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        parts.append(part)
    assert process.wait() == 0
    os.close(ours)
    return b"".join(parts).decode()


@with_rich
@pytest.mark.parametrize("end", ["works", "fails"])
def test_a_bar_appears_in_a_terminal_and_is_removed(end):
    written = run_on_a_terminal(end)
    assert "Machine: growth" in written
    assert re.search(r"growth \d+/40.* +\d+% 0:00:00 0:00:0\d", re.sub(r"\x1b\[[\d;]*m", "", written))
    assert "a line of the [log]" in written
    assert "\x1b[2K" in written  # the line is erased
    after = written.rsplit("\x1b[2K", 1)[1]
    assert "Machine: growth" not in after
    assert ("interrupted" in after) == (end == "fails")
    assert written.rfind("\x1b[?25h") > written.rfind("\x1b[?25l")  # the cursor is there again


def test_without_rich_there_is_no_bar():
    assert run_on_a_terminal("without rich") == "a line of the [log]\r\n"


def test_nothing_appears_in_a_pipe():
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert result.stderr == "a line of the [log]\n"
    assert result.stdout == "done\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@with_rich
def test_short_work_shows_nothing_and_the_environment_turns_it_off(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with showing("Machine") as shown, Run(listener=shown).task("growth", 1) as step:
        step()
    assert terminal.getvalue() == ""
    monkeypatch.setattr(bar_module, "DELAY", 0.0)
    monkeypatch.setenv("KOMPAKT_PROGRESS", "0")
    with showing("Machine") as shown, Run(listener=shown).task("growth", 1) as step:
        time.sleep(0.05)
    assert terminal.getvalue() == ""


@pytest.fixture
def quick(monkeypatch):
    """Bars that appear at once."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(bar_module, "DELAY", 0.0)
    monkeypatch.setattr(bar_module, "PERIOD", 0.01)


def wait_until_drawn(text: str) -> None:
    for _ in range(1000):
        if text in sys.stderr.getvalue():
            return
        time.sleep(0.01)
    raise AssertionError(f"{text!r} is not in {sys.stderr.getvalue()!r}")


@with_rich
def test_one_bar_per_process_and_errors_remove_it(quick, monkeypatch):
    def elsewhere():
        with showing("elsewhere") as shown, Run(listener=shown).task("other"):
            time.sleep(0.05)

    def work(outer):
        with Run(listener=outer).task("nested", 3) as step:
            step()
            wait_until_drawn("outer: nested 1/3")
            with showing("inner") as inner:
                assert inner is None
        other = threading.Thread(target=elsewhere)
        other.start()
        other.join()
        assert above_bar("a line")
        raise KeyError

    for _ in range(2):  # the second time shows that the first bar made room
        monkeypatch.setattr(sys, "stderr", Terminal())
        with pytest.raises(KeyError), showing("outer") as outer:
            work(outer)
        assert not above_bar("another line")
        assert "a line\n" in sys.stderr.getvalue()
        assert "inner" not in sys.stderr.getvalue()
        assert "elsewhere" not in sys.stderr.getvalue()
    assert not [thread for thread in threading.enumerate() if thread.name == "kompakt-progress"]


@with_rich
def test_a_terminal_that_goes_away_does_not_disturb_the_work(quick, monkeypatch):
    class Closing(Terminal):
        def write(self, text):
            if "growth" in self.getvalue():
                raise OSError("gone")
            return super().write(text)

    monkeypatch.setattr(sys, "stderr", Closing())
    with showing("Machine") as shown, Run(listener=shown).task("growth", 10) as step:
        wait_until_drawn("growth")
        for _ in range(10):
            step()
            above_bar("a line")
            time.sleep(0.01)


@with_rich
def test_the_bar_follows_the_outermost_task_with_a_known_end(quick):
    bar = Bar("Machine", Terminal())
    thread = threading.Thread(target=bar.draw)
    thread.start()

    def drawn(*expected):
        end = time.monotonic() + 10.0
        while time.monotonic() < end:
            rows = [] if bar.progress is None else list(bar.progress.tasks)
            if [(row.description, row.percentage if row.total else None) for row in rows] == [expected]:
                return
            time.sleep(0.005)
        raise AssertionError(rows)

    drawn("Machine", None)
    bar.begin("selection", None, None, False)
    drawn("Machine: selection", None)
    bar.begin("search", 4, 100.0, False)
    bar.advance(25.0)
    bar.begin("refinement", 10, None, False)
    drawn("Machine: selection > search 1/4 > refinement 0/10", 25.0)
    bar.end(False)
    bar.end(False)
    bar.begin("growth", 8, None, False)
    bar.advance(2.0)
    drawn("Machine: selection > growth 1/8", 12.5)
    bar.over.set()
    thread.join()


class Notebook(io.StringIO):
    """Standard error of a Jupyter kernel, which is no terminal."""


Notebook.__module__ = "ipykernel.iostream"


def seen(written):
    """Lines as a notebook shows them: a carriage return goes back to the beginning of the line."""
    shown = []
    for line in written.split("\n"):
        cells = []
        for part in line.split("\r"):
            cells[: len(part)] = part
        shown.append("".join(cells).rstrip())
    return shown


def test_a_notebook_has_no_bar(quick, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Notebook())
    with showing("fit") as bar:
        assert bar is None
        assert not above_bar("a line")


def test_verbose_prints_the_same_lines_in_a_notebook_and_in_a_pipe(monkeypatch):
    X, y = make_moons(200, noise=0.2, random_state=0)
    found = []
    for stream in (Notebook(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        CompactSVC(5, tune=True, random_state=0, verbose=1).fit(X, y)
        lines = [line for line in seen(stream.getvalue()) if line]
        found.append([re.sub(r"[\d.]+ s\b", "... s", line) for line in lines])
    assert found[0] == found[1]
    for text in ("search: ", "selection: ", "weights: ", "CompactSVC: 5 basis vectors"):
        assert any(line.startswith(f"kompakt: {text}") for line in found[0]), found[0]
