"""A progress bar for work that takes longer than two seconds: in a terminal drawn by rich, in a notebook as a line.

There is none in a pipe or a file, in a terminal without rich (extra `cli`), or with ``KOMPAKT_PROGRESS=0`` in the
environment.  The work only adds to counters; a thread of the bar's own draws them five times a second.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress

#: seconds before a bar appears, and between two drawings
DELAY, PERIOD = 2.0, 0.2

_bar: Bar | None = None
_bar_lock = threading.Lock()  # held while there is a bar: two threads would draw over each other


@dataclass
class _OpenTask:
    """Counters of a task that has begun and not ended."""

    name: str
    n_steps: int | None
    work: float | None
    steps: int = 0
    done: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def share(self) -> float | None:
        """Share of the work that is done; None where the end is not known."""
        done, total = (self.steps, self.n_steps) if self.work is None else (self.done, self.work)
        return min(1.0, done / total) if total else None

    def __str__(self) -> str:
        return self.name if self.n_steps is None else f"{self.name} {min(self.steps, self.n_steps)}/{self.n_steps}"


class Bar:
    """A listener that shows the open tasks of one thread in a line of the terminal."""

    def __init__(self, title: str, stream: TextIO) -> None:
        self.title, self.stream = title, stream
        self.tasks: list[_OpenTask] = []
        self.began = time.monotonic()
        self.progress: Progress | None = None  # once it is drawn
        self.over = threading.Event()
        self.written = 0  # characters of the line that stands in a notebook
        self.writing = threading.Lock()

    def begin(self, name: str, n_steps: int | None, work: float | None, minor: bool) -> None:
        self.tasks.append(_OpenTask(name, n_steps, work))

    def advance(self, work: float) -> bool:
        self.tasks[-1].steps += 1
        self.tasks[-1].done += work
        return False

    def end(self, failed: bool) -> None:
        if self.tasks:
            self.tasks.pop()

    def line(self) -> tuple[str, float | None, str]:
        """What to draw: the open tasks, the share done of the outermost one whose end is known, and its time."""
        now, tasks = time.monotonic(), list(self.tasks)
        text = f"{self.title}: {' > '.join(map(str, tasks))}" if tasks else self.title
        began, share = next(((task.began, task.share) for task in tasks if task.share is not None), (self.began, None))
        if share is None:
            return text, None, str(timedelta(seconds=round(now - began)))
        left = f" {timedelta(seconds=round((now - began) * (1.0 - share) / share))} left" if share else ""
        return text, share, f"{100 * share:3.0f}%{left}"

    def draw(self) -> None:
        """Draw from `DELAY` seconds on until the work is over."""
        if self.over.wait(DELAY):
            return
        if _is_notebook(self.stream):
            with suppress(OSError, ValueError):
                while not self.over.wait(PERIOD):
                    text, share, clock = self.line()
                    bar = "" if share is None else f" [{'#' * round(24 * share):24}]"
                    self.write_over(f"{text}{bar} {clock}")
                self.write_over("")
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[time]}", markup=False),
        )
        progress = Progress(
            *columns, console=Console(file=self.stream), auto_refresh=False, transient=True, redirect_stdout=False,
            redirect_stderr=False,
        )  # fmt: skip
        with suppress(OSError, ValueError), progress:  # if the terminal goes away, the work goes on without a bar
            self.progress = progress
            row = progress.add_task("", total=None, time="")
            while True:
                text, share, clock = self.line()
                total = None if share is None else 1.0
                progress.update(row, description=text, total=total, completed=share or 0.0, time=clock, refresh=True)
                if self.over.wait(PERIOD):
                    break
        self.progress = None

    def write_over(self, text: str, end: str = "") -> None:
        """Write over the line that stands: a notebook knows carriage returns, but no cursor."""
        with self.writing:
            blank = "\r" + " " * self.written + "\r" if self.written else ""
            self.stream.write(blank + text + end)
            self.stream.flush()
            self.written = 0 if end else len(text)


def above_bar(text: str) -> bool:
    """Write a line above the bar that is drawn; False where there is none."""
    bar = _bar
    if bar is not None and bar.written:
        with suppress(OSError, ValueError):
            bar.write_over(text, "\n")
            return True
        return False
    progress = None if bar is None else bar.progress
    if progress is None:
        return False
    try:
        progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
    except (OSError, ValueError):  # the terminal has gone away
        return False
    return True


@contextmanager
def showing(title: str) -> Iterator[Bar | None]:
    """A listener that draws a bar, if standard error is a terminal or a notebook and no other is drawn; None otherwise.

    Examples
    --------
    >>> from kompakt.run import Run
    >>> from kompakt.run.bar import showing
    >>> with showing("reading") as bar, Run(listener=bar).task("pass", 2) as step:  # no terminal: nothing is drawn
    ...     step()
    False
    """
    global _bar
    if not _can_draw(sys.stderr) or not _bar_lock.acquire(blocking=False):
        yield None
        return
    bar = _bar = Bar(title, sys.stderr)
    thread = threading.Thread(target=bar.draw, name="kompakt-progress", daemon=True)
    try:
        thread.start()
        yield bar
    finally:
        _bar = None
        _bar_lock.release()
        bar.over.set()
        if thread.ident is not None:  # an interrupt may come before it is started
            thread.join()


def _can_draw(stream: TextIO) -> bool:
    if os.environ.get("KOMPAKT_PROGRESS", "1") == "0" or os.environ.get("TERM") == "dumb":
        return False
    try:
        return _is_notebook(stream) or (stream.isatty() and importlib.util.find_spec("rich") is not None)
    except (AttributeError, ValueError):  # closed, or no file at all
        return False


def _is_notebook(stream: TextIO) -> bool:
    """Whether the stream is that of a Jupyter kernel."""
    return type(stream).__module__.startswith("ipykernel")
