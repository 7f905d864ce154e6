"""A progress bar, drawn by rich in a terminal, for work that takes longer than two seconds.

There is none in a pipe, a file or a notebook, without rich (extra `cli`), or with ``KOMPAKT_PROGRESS=0`` in the
environment: `verbose` prints lines there.  The work only adds to counters; a thread of the bar's own draws them.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
    done: float = 0.0  # of the work, or of the steps where all are alike

    def __str__(self) -> str:
        return self.name if self.n_steps is None else f"{self.name} {min(self.steps, self.n_steps)}/{self.n_steps}"


class Bar:
    """A listener that shows the open tasks of one thread in a line of the terminal."""

    def __init__(self, title: str, stream: TextIO) -> None:
        self.title, self.stream, self.over = title, stream, threading.Event()
        self.tasks: list[_OpenTask] = []
        self.progress: Progress | None = None  # once it is drawn

    def begin(self, name: str, n_steps: int | None, work: float | None, minor: bool) -> None:
        self.tasks.append(_OpenTask(name, n_steps, work))

    def advance(self, work: float) -> bool:
        task = self.tasks[-1]
        task.steps += 1
        task.done += 1 if task.work is None else work
        return False

    def end(self, failed: bool) -> None:
        if self.tasks:
            self.tasks.pop()

    def draw(self) -> None:
        """Draw the open tasks, and how much of the outermost one with a known end is done, until the work is over."""
        if self.over.wait(DELAY):
            return
        import rich.progress as by_rich
        from rich.console import Console

        shown = (by_rich.BarColumn(24), by_rich.TaskProgressColumn(), by_rich.TimeElapsedColumn())
        progress = by_rich.Progress(
            by_rich.TextColumn("{task.description}", markup=False), *shown, by_rich.TimeRemainingColumn(),
            console=Console(file=self.stream), auto_refresh=False, transient=True, redirect_stdout=False,
            redirect_stderr=False,
        )  # fmt: skip
        with suppress(OSError, ValueError), progress:  # if the terminal goes away, the work goes on without a bar
            self.progress, drawn, row = progress, None, progress.add_task(self.title, total=None)
            while not self.over.wait(PERIOD):
                tasks = list(self.tasks)
                counted = next((task for task in tasks if task.work or task.n_steps), None)
                if counted is not drawn:  # another task: its time begins
                    progress.remove_task(row)
                    row = progress.add_task(self.title, total=(counted.work or counted.n_steps) if counted else None)
                    drawn = counted
                names = f"{self.title}: {' > '.join(map(str, tasks))}" if tasks else self.title
                progress.update(row, description=names, completed=counted.done if counted else 0.0, refresh=True)
        self.progress = None


def above_bar(text: str) -> bool:
    """Write a line above the bar that is drawn; False where there is none."""
    progress = None if _bar is None else _bar.progress
    if progress is not None:
        with suppress(OSError, ValueError):  # the terminal may have gone away
            progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
            return True
    return False


@contextmanager
def showing(title: str) -> Iterator[Bar | None]:
    """A listener that draws a bar, if standard error is a terminal and no other bar is drawn; None otherwise.

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
        return stream.isatty() and importlib.util.find_spec("rich") is not None
    except (AttributeError, ValueError):  # closed, or no file at all
        return False
