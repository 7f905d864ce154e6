"""A bar in a terminal for whatever takes longer than two seconds; nothing in a pipe, a file or a notebook.

A thread of its own draws, five times a second: the work only adds to counters.  rich draws where it is installed.
``KOMPAKT_PROGRESS=0`` in the environment turns the bar off.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TextIO

from kompakt.run.progress import current_listener, listening

#: seconds before a bar appears, and between two drawings
DELAY, PERIOD = 2.0, 0.2

_lock = threading.Lock()
_shown: Bar | None = None


@dataclass
class _Open:
    """A task that is open."""

    name: str
    n_steps: int | None
    work: float | None
    steps: int = 0
    done: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def share(self) -> float | None:
        """Share of the work that is done, where the end is known."""
        total = self.work if self.work is not None else self.n_steps
        done = self.done if self.work is not None else self.steps
        return min(1.0, done / total) if total else None

    @property
    def text(self) -> str:
        return self.name if self.n_steps is None else f"{self.name} {min(self.steps, self.n_steps)}/{self.n_steps}"


@dataclass(frozen=True)
class Picture:
    """What a bar shows at a moment: a text, the share done of the outermost task, and seconds left for it."""

    text: str
    share: float | None
    left: float | None
    elapsed: float


class Bar:
    """A listener that shows the tasks of one thread in a line of the terminal."""

    def __init__(self, title: str, stream: TextIO) -> None:
        self.title, self.stream = title, stream
        self.tasks: list[_Open] = []
        self.began = time.monotonic()
        self._over = threading.Event()
        self._drawing: _Drawing | None = None
        self._drawing_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="kompakt-progress", daemon=True)

    # -- told by the work ----------------------------------------------------------------------------

    def begin(self, name: str, n_steps: int | None, work: float | None, minor: bool) -> None:
        self.tasks.append(_Open(name, n_steps, work))

    def advance(self, work: float) -> bool:
        innermost = self.tasks[-1]
        innermost.steps += 1
        innermost.done += work
        return False

    def end(self, failed: bool) -> None:
        if self.tasks:
            self.tasks.pop()

    # -- drawing -------------------------------------------------------------------------------------

    def picture(self) -> Picture:
        """The state in words and numbers."""
        now, tasks = time.monotonic(), list(self.tasks)
        outer = next((one for one in tasks if one.share is not None), None)
        share = None if outer is None else outer.share
        left = None
        if outer is not None and share:
            left = (now - outer.began) * (1.0 - share) / share
        text = f"{self.title}: {' > '.join(one.text for one in tasks)}" if tasks else self.title
        return Picture(text, share, left, now - self.began)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Remove the bar."""
        self._over.set()
        if self._thread.ident is not None:  # an interrupt may come before it is started
            self._thread.join()

    def write(self, text: str) -> None:
        """Write a line above the bar."""
        with self._drawing_lock:
            if self._drawing is None:
                self.stream.write(text + "\n")
                self.stream.flush()
            else:
                self._drawing.write(text)

    def _run(self) -> None:
        if self._over.wait(DELAY):
            return
        try:
            with self._drawing_lock:
                self._drawing = _drawing_on(self.stream)
            while True:
                with self._drawing_lock:
                    self._drawing.draw(self.picture())
                if self._over.wait(PERIOD):
                    return
        except (OSError, ValueError):  # the terminal has gone: the work goes on without a bar
            return
        finally:
            with self._drawing_lock:
                drawing, self._drawing = self._drawing, None
                if drawing is not None:
                    drawing.close()


class _Drawing(Protocol):
    """How a picture gets on the screen."""

    def draw(self, picture: Picture) -> None: ...

    def write(self, text: str) -> None: ...

    def close(self) -> None: ...


class _PlainDrawing:
    """One line that is written over."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def draw(self, picture: Picture) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._put(plain_line(picture, width))

    def write(self, text: str) -> None:
        self._put(text + "\n")

    def close(self) -> None:
        self._put("")

    def _put(self, text: str) -> None:
        self.stream.write(f"\r\x1b[2K{text}")
        self.stream.flush()


def plain_line(picture: Picture, width: int) -> str:
    """A bar of plain characters, at most `width` wide.

    Examples
    --------
    >>> from kompakt.run.bar import Picture, plain_line
    >>> plain_line(Picture("SpSVC: growth 25/100", 0.25, 90.0, 30.0), 60)
    'SpSVC: growth 25/100 [#####---------------]  25% 1:30 left'
    """
    if picture.share is None:
        return f"{picture.text} {clock(picture.elapsed)}"[:width]
    filled = round(20 * picture.share)
    left = "" if picture.left is None else f" {clock(picture.left)} left"
    tail = f" [{'#' * filled}{'-' * (20 - filled)}] {100 * picture.share:3.0f}%{left}"
    return (picture.text[: max(0, width - len(tail))] + tail)[:width]


class _RichDrawing:
    """The same by rich."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self.progress: Any = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[tail]}", markup=False),
            console=Console(file=stream),
            auto_refresh=False,  # drawn by our own thread
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.progress.start()
        self.row: Any = self.progress.add_task("", total=None, tail="")

    def draw(self, picture: Picture) -> None:
        share, left = picture.share, picture.left
        tail = clock(picture.elapsed) if share is None else f"{100 * share:3.0f}%"
        tail += "" if left is None else f" {clock(left)} left"
        done = {"total": None} if share is None else {"total": 1.0, "completed": share}
        self.progress.update(self.row, description=picture.text, tail=tail, **done)
        self.progress.refresh()

    def write(self, text: str) -> None:
        self.progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self.progress.stop()


def _drawing_on(stream: TextIO) -> _Drawing:
    try:
        return _RichDrawing(stream)
    except ImportError:
        return _PlainDrawing(stream)


def clock(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss.

    Examples
    --------
    >>> from kompakt.run.bar import clock
    >>> clock(75), clock(3661)
    ('1:15', '1:01:01')
    """
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def above_bar(text: str) -> bool:
    """Write a line above the bar that is shown; False where there is none."""
    bar = _shown
    if bar is None:
        return False
    bar.write(text)
    return True


@contextmanager
def showing(title: str) -> Iterator[None]:
    """Show the tasks of this thread in a bar, if standard error is a terminal and nobody listens yet.

    Examples
    --------
    >>> from kompakt.run import showing, task
    >>> with showing("reading"), task("pass", 2) as step:  # nothing is drawn: the tests have no terminal
    ...     step()
    False
    """
    global _shown
    if current_listener() is not None or not _wanted(sys.stderr):
        yield
        return
    bar = Bar(title, sys.stderr)
    with _lock:
        if _shown is not None:  # one bar per process: two threads would draw over each other
            bar = None  # type: ignore[assignment]
        else:
            _shown = bar
    if bar is None:
        yield
        return
    try:
        bar.start()
        with listening(bar):
            yield
    finally:
        _shown = None
        bar.stop()


def _wanted(stream: Any) -> bool:
    if os.environ.get("KOMPAKT_PROGRESS", "1") == "0":
        return False
    try:
        return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):  # closed, or no file at all
        return False
