"""How a fit runs: its deadline, memory, random key, progress, checkpoint and Ctrl-C, handed down explicitly."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kompakt.parallel import give_up_if_cancelled

if TYPE_CHECKING:
    from kompakt.checkpoint import Checkpoint, Progress

T = TypeVar("T")
logger = logging.getLogger("kompakt")

#: bytes that stored kernel values may take when the user gives no `memory_budget`
DEFAULT_BUDGET = 1 << 30
#: a second Ctrl-C within so many seconds ends the program, whatever could be kept
PATIENCE = 2.0
_last_kept = -float("inf")


class Listener(Protocol):
    """Who watches a fit: a progress bar or scikit-learn's callbacks. Tasks open, advance and close, innermost last."""

    def begin(self, name: str, n_steps: int | None, work: float | None, minor: bool) -> None:
        """A task opens inside the one that is open."""

    def advance(self, work: float) -> bool:
        """The innermost task made a step; True asks its loop to stop."""

    def end(self, failed: bool) -> None:
        """The innermost task closes, by an exception where `failed`."""


@dataclass
class _Shared:
    """What all parts of one fit share: how deep its tasks are nested, and whether its time limit cut one short."""

    depth: int = 0
    cut: bool = False


class Task:
    """A piece of work that is counted in steps; see `Run.task`. The log has one line for each outermost one."""

    __slots__ = ("_began", "_description", "_level", "_listener", "_shared", "_steps")

    def __init__(self, listener: Listener | None, shared: _Shared, *description: Any) -> None:
        self._listener, self._shared, self._description = listener, shared, description
        self._steps, self._began, self._level = 0, 0.0, logging.DEBUG

    def __enter__(self) -> Task:
        self._began = time.monotonic()
        self._level = logging.DEBUG if self._shared.depth or self._description[3] else logging.INFO
        self._shared.depth += 1
        if self._listener is not None:
            self._listener.begin(*self._description)
        return self

    def __call__(self, work: float = 1.0) -> bool:
        """One step is done; returns whether the loop is asked to stop."""
        self._steps += 1
        if self._listener is not None:
            return self._listener.advance(work)
        give_up_if_cancelled()
        return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shared.depth -= 1
        if self._listener is not None:
            self._listener.end(kind is not None and kind is not GeneratorExit)  # a loop that breaks has not failed
        if logger.isEnabledFor(self._level):
            name, n_steps = self._description[:2]
            of = "" if n_steps is None else f" of at most {n_steps}"
            ended = "" if kind is None or kind is GeneratorExit else f", ended by {kind.__name__}"
            seconds = time.monotonic() - self._began
            logger.log(self._level, "%s: %d steps%s in %.2f s%s", name, self._steps, of, seconds, ended)


def _worded(name: str, value: float) -> str:
    """A fact of a stage as it is read in the log."""
    if name == "kept":
        return "kept" if value else "undone"
    if name in ("n_basis", "n_iter", "n_rows", "n_evaluations"):
        noun = {"n_basis": "basis vectors", "n_iter": "iterations"}.get(name, name[2:])
        return f"{value:,} {noun}"
    return f"{name.replace('_', ' ')} {value:.4g}"


class NoProgress:
    """The place of a long step in a fit without a checkpoint: nothing is kept."""

    last: Any = None
    active = False

    def save(self, value: Any) -> None:
        """Keep nothing."""

    def due(self) -> bool:
        """Whether a save would be written now."""
        return False


@dataclass(frozen=True)
class Run:
    """How one fit runs, whatever it minimises.

    Parameters
    ----------
    key : int
        Of the hash by which rows are drawn at random.
    deadline : float, optional
        On the clock of `time.monotonic`.
    memory_budget : int, optional
        Bytes for stored kernel values; None means 1 GiB.
    listener : Listener, optional
        Who is shown the progress.
    checkpoint : Checkpoint, optional
        Where finished steps are written, and read from when the fit resumes.
    interruptible : bool
        Whether Ctrl-C keeps the best model so far: only in the outermost call, not inside a search.
    history : list of dict
        One record per finished stage.

    Examples
    --------
    >>> from kompakt.run import Run
    >>> run = Run()
    >>> with run.task("growth", 3) as step:
    ...     [step() for _ in range(3)]
    [False, False, False]
    >>> run.step("sum", lambda: 1 + 1)  # without a checkpoint: just computed
    2
    """

    key: int = 0
    deadline: float | None = None
    memory_budget: int | None = None
    listener: Listener | None = None
    checkpoint: Checkpoint | None = None
    interruptible: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    shared: _Shared = field(default_factory=_Shared, repr=False)

    # -- time and memory -----------------------------------------------------------------------------

    @property
    def late(self) -> bool:
        """Whether the time is over; ask only where the answer ends work, because `cut` remembers it."""
        over = self.deadline is not None and time.monotonic() > self.deadline
        self.shared.cut |= over
        return over

    @property
    def cut(self) -> bool:
        """Whether the time limit ended some work of the fit early."""
        return self.shared.cut

    @property
    def budget(self) -> int:
        """Bytes for stored kernel values."""
        return DEFAULT_BUDGET if self.memory_budget is None else self.memory_budget

    def within(self, share: float) -> Run:
        """The same run with a share of the time that is left."""
        if self.deadline is None:
            return self
        now = time.monotonic()
        return replace(self, deadline=now + share * (self.deadline - now))

    def unhurried(self) -> Run:
        """The same run without a deadline: weights that stop half-way would make any basis useless."""
        return self if self.deadline is None else replace(self, deadline=None)

    def inner(self) -> Run:
        """For a fit inside a search: it keeps nothing on Ctrl-C and has a history of its own."""
        return replace(self, interruptible=False, history=[])

    def quiet(self) -> Run:
        """For work on other threads: the deadline holds, but nothing is shown, written or kept."""
        inside = _Shared(depth=1, cut=self.cut)
        return replace(self, listener=None, checkpoint=None, interruptible=False, history=[], shared=inside)

    # -- progress ------------------------------------------------------------------------------------

    def task(self, name: str, n_steps: int | None = None, *, work: float | None = None, minor: bool = False) -> Task:
        """A task to be counted: ``with run.task("growth", 100) as step: ... step()``.

        Parameters
        ----------
        name : str
        n_steps : int, optional
            How many steps it will have at most; None where nobody knows.
        work : float, optional
            What the steps add up to where they differ in cost; each step then gives its own share.
        minor : bool
            Shown in a bar, but not reported to callbacks: passes over the rows, of which a fit has thousands.
        """
        return Task(self.listener, self.shared, name, n_steps, work, minor)

    def tracked(self, items: Iterable[T], name: str, n_steps: int | None = None) -> Iterator[T]:
        """The items, each counted as a step once the caller comes back for the next."""
        with self.task(name, n_steps) as step:
            for item in items:
                yield item
                step()

    def note(self, phase: str, **facts: Any) -> None:
        """Add the record of a finished stage to the history, and a line of it to the log."""
        seconds = time.monotonic() - self.began
        self.history.append({"phase": phase, "time": seconds, **facts})
        level = logging.DEBUG if self.shared.depth else logging.INFO
        if logger.isEnabledFor(level):
            told = [_worded(name, value) for name, value in facts.items() if isinstance(value, bool | int | float)]
            logger.log(level, "%s: %s (after %.1f s)", phase, ", ".join(told), seconds)

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Tasks and notes in here are parts of one stage: the log has them with verbose=2 only."""
        self.shared.depth += 1
        try:
            yield
        finally:
            self.shared.depth -= 1

    # -- checkpoint and Ctrl-C -----------------------------------------------------------------------

    def step(
        self,
        kind: str,
        compute: Callable[[], T],
        cls: type[T] | None = None,
        complete: Callable[[T], bool] = lambda value: True,
    ) -> T:
        """`compute()`, or what it gave before the fit was killed.

        Parameters
        ----------
        kind : str
            Names the step.
        compute : callable
            Gives numbers, strings, arrays, kernels, and lists, tuples and dicts of them; or a dataclass `cls` of them.
        cls : type, optional
            Dataclass to make of the value.
        complete : callable, optional
            Whether a value is what the whole step gives; one that is not (interrupted) is not written down.
        """
        return compute() if self.checkpoint is None else self.checkpoint.step(kind, compute, cls, complete)

    def progress(self, kind: str) -> Progress | NoProgress:
        """Where a long step is: `last` is what was saved last, None at the start."""
        return NoProgress() if self.checkpoint is None else self.checkpoint.open_progress(kind)

    def keeps_on_interrupt(self) -> bool:
        """Whether the best model so far is kept instead of passing the interrupt on; asked once it has come."""
        global _last_kept
        now = time.monotonic()
        if not self.interruptible or now - _last_kept < PATIENCE:
            return False
        _last_kept = now
        return True
