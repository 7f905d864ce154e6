"""A bar in a terminal (a pseudo-terminal here), none in a pipe."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time

import pytest

from kompakt.run import bar as bar_module
from kompakt.run import showing, task
from kompakt.run.bar import Bar, Picture, plain_line

pty = pytest.importorskip("pty", reason="pseudo-terminals need a Unix system")

PROGRAM = """
import sys, time
import kompakt.run.bar as bar
from kompakt.run import above_bar, showing, task
bar.DELAY, bar.PERIOD = 0.1, 0.02
if "plain" in sys.argv:
    bar._drawing_on = bar._PlainDrawing
with showing("Machine"), task("growth", 40) as step:
    for number in range(40):
        time.sleep(0.02)
        step()
        if number == 30 and not above_bar("a line of the log"):
            print("a line of the log", file=sys.stderr)
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


@pytest.mark.parametrize("kind", ["plain", "rich"])
def test_a_bar_appears_in_a_terminal_and_is_removed(kind):
    if kind == "rich":
        pytest.importorskip("rich", reason="the bar of rich needs kompakt[cli]")
    written = run_on_a_terminal(kind)
    assert "Machine: growth" in written
    assert "%" in written
    assert "left" in written
    assert "a line of the log" in written
    assert "\x1b[2K" in written  # the line is erased
    assert "Machine: growth" not in written.rsplit("\x1b[2K", 1)[1]


def test_nothing_appears_in_a_pipe():
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert result.stderr == "a line of the log\n"
    assert result.stdout == "done\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_short_work_shows_nothing_and_the_environment_turns_it_off(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with showing("Machine"), task("growth", 1) as step:
        step()
    assert terminal.getvalue() == ""
    monkeypatch.setattr(bar_module, "DELAY", 0.0)
    monkeypatch.setenv("KOMPAKT_PROGRESS", "0")
    with showing("Machine"), task("growth", 1) as step:
        time.sleep(0.05)
    assert terminal.getvalue() == ""


def test_one_bar_per_process_and_errors_remove_it(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())

    def work():
        first = bar_module._shown
        assert first is not None
        with showing("inner"):
            assert bar_module._shown is first
        raise KeyError

    with pytest.raises(KeyError), showing("outer"):
        work()
    assert bar_module._shown is None


def test_time_left_follows_the_work_done():
    bar = Bar("Machine", io.StringIO())
    bar.begin("search", 4, 100.0, False)
    bar.tasks[0].began -= 30.0
    bar.advance(25.0)
    bar.begin("refinement", 10, None, False)
    picture = bar.picture()
    assert picture.text == "Machine: search 1/4 > refinement 0/10"
    assert picture.share == pytest.approx(0.25)
    assert picture.left == pytest.approx(90.0, rel=0.05)


def test_a_line_fits_the_terminal_and_unknown_ends_show_the_time():
    assert len(plain_line(Picture("x" * 200, 0.5, 10.0, 10.0), 60)) == 60
    assert plain_line(Picture("Machine: selection", None, None, 61.0), 60) == "Machine: selection 1:01"
