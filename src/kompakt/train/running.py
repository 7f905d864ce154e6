"""The `Run` of a fit: threads, time, progress, log and Ctrl-C from an estimator's parameters, and its checkpoint."""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from typing import Any, TextIO

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from kompakt.checkpoint import checkpointing, fingerprint
from kompakt.data.rows import content_of
from kompakt.parallel import block_threads
from kompakt.run import Listener, Run
from kompakt.run.bar import above_bar, showing
from kompakt.spec import Data

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9
    from kompakt.train._callbacks import CallbackSupportMixin, with_callbacks

__all__ = [
    "CallbackSupportMixin",
    "InterruptedWarning",
    "resumed",
    "running",
    "unchanged_on_error",
    "unfit",
    "warn_interrupted",
]

logger = logging.getLogger("kompakt")

# The decorator tears callbacks down after the method it wraps: here after a method that does nothing, so that no frame
# of scikit-learn lies between a warning and the caller it points at.
_tear_down = with_callbacks(lambda estimator: None)

#: how many fits of this thread are under way: on Ctrl-C only the outermost one keeps a model; kept inside, the one
#: around it, which called a public `fit`, would simply go on
_under_way = threading.local()

#: parameters that change how a fit runs, not what it gives
_FREE = ("n_jobs", "verbose", "max_time")


class InterruptedWarning(UserWarning):
    """A fit was ended by Ctrl-C; the estimator holds the best model it had found.

    Examples
    --------
    >>> from kompakt.train.running import InterruptedWarning
    >>> issubclass(InterruptedWarning, UserWarning)
    True
    """


@contextmanager
def running(estimator: Any, X: Any, y: Any) -> Iterator[Run]:
    """Around a fit: its threads, log and progress; one that fails leaves the estimator as it was."""
    depth = getattr(_under_way, "fits", 0)
    with (
        unchanged_on_error(estimator),
        _watching(estimator, X, y) as listener,
        _verbose_log(estimator.verbose),
        block_threads(estimator.n_jobs),
    ):
        _under_way.fits = depth + 1
        try:
            yield Run(
                key=int(check_random_state(estimator.random_state).randint(2**31 - 1)),
                deadline=None if estimator.max_time is None else time.monotonic() + float(estimator.max_time),
                memory_budget=estimator.memory_budget,
                listener=listener,
                interruptible=depth == 0,
            )
        finally:
            _under_way.fits = depth


@contextmanager
def unchanged_on_error(estimator: BaseEstimator) -> Iterator[None]:
    """Around what sets attributes of an estimator: after an error or Ctrl-C it has those from before, and no others."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def unfit(estimator: BaseEstimator, keep: tuple[str, ...] = ()) -> None:
    """Remove the fitted attributes of an estimator, but for some."""
    for name in list(vars(estimator)):
        if name.endswith("_") and not name.startswith("_") and name not in keep:
            delattr(estimator, name)


@contextmanager
def _watching(estimator: BaseEstimator, X: Any, y: Any) -> Iterator[Listener | None]:
    """Callbacks where the estimator has some, else a bar where there is a terminal."""
    if not getattr(estimator, "_skl_callbacks", None):
        with showing(type(estimator).__name__) as bar:
            yield bar
        return
    try:
        context = estimator._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        yield _CallbackListener(estimator, context, X, y)
        # the estimator is fitted: what callbacks see as `fitted_estimator` is a copy of it as it is
        context.call_on_fit_task_end(estimator=estimator, X=X, y=y, reconstruction_attributes=dict)
    finally:
        _tear_down(estimator)


class _CallbackListener:
    """Turns tasks into contexts: an outer task is a node below the fit, each of its steps a leaf below it.

    Tasks inside a step are not reported: whether a step has some is known only once it has begun.
    """

    def __init__(self, estimator: BaseEstimator, root: Any, X: Any, y: Any) -> None:
        self.root, self.facts = root, {"estimator": estimator, "X": X, "y": y}
        self.depth = 0
        self.reported = -1  # the depth of the task that is reported
        self.node: Any = None
        self.leaf: Any = None
        self.n_left = 0.0

    def begin(self, name: str, n_steps: int | None, work: float | None, minor: bool) -> None:
        self.depth += 1
        if self.node is None and not minor:
            self.reported, self.n_left = self.depth, float("inf") if n_steps is None else float(n_steps)
            self.node = self.root.subcontext(task_name=name, max_subtasks=n_steps)
            self.node.call_on_fit_task_begin(**self.facts)
            self._next_leaf()

    def _next_leaf(self) -> None:
        self.leaf = None
        if self.n_left > 0:
            self.n_left -= 1
            self.leaf = self.node.subcontext(task_name=f"{self.node.task_name}-step")
            self.leaf.call_on_fit_task_begin(**self.facts)

    def advance(self, work: float) -> bool:
        if self.depth != self.reported or self.leaf is None:
            return False
        stop = bool(self.leaf.call_on_fit_task_end(**self.facts))
        self._next_leaf()
        return stop

    def end(self, failed: bool) -> None:
        if self.depth == self.reported:
            if not failed:
                if self.leaf is not None:  # a step that was begun and never made
                    self.leaf.call_on_fit_task_end(**self.facts)
                self.node.call_on_fit_task_end(**self.facts)
            self.node, self.leaf, self.reported = None, None, -1
        self.depth -= 1


class _AboveBar(logging.StreamHandler[TextIO]):
    """Records on standard error, above the bar where one is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        if not above_bar(self.format(record)):
            super().emit(record)


@contextmanager
def _verbose_log(verbose: int) -> Iterator[None]:
    """Show kompakt's log records on standard error while a fit runs: 1 for the main steps, 2 for all."""
    if not verbose:
        yield
        return
    handler = _AboveBar()
    handler.setFormatter(logging.Formatter("kompakt: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def resumed(estimator: BaseEstimator, path: Any, data: Data, run: Run) -> Iterator[Run]:
    """The run with a checkpoint at `path`, to go on from what is there; the run itself where `path` is None.

    A fit with ``random_state=None`` has drawn its key before it was killed: the one that resumes takes it over.
    """
    if path is None:
        yield run
        return
    with checkpointing(path, _identity(estimator, data)) as checkpoint:
        run = replace(run, checkpoint=checkpoint)
        yield replace(run, key=int(run.step("seed", lambda: run.key)))


def _identity(estimator: BaseEstimator, data: Data) -> dict[str, Any]:
    """Data and parameters of a fit as plain values by name."""
    rows = data.rows
    identity: dict[str, Any] = {"estimator": type(estimator).__name__}
    for name, value in estimator.get_params(deep=False).items():
        if name not in _FREE:
            # a seed that is drawn cannot be compared; the one in use is in the checkpoint
            drawn = name == "random_state" and not isinstance(value, Integral)
            identity[name] = "drawn" if drawn else _text(name, value)
    identity["shape"] = f"{rows.n_rows} rows of {rows.n_features} {rows.dtype} features, {rows.n_outputs} outputs"
    if data.classes is not None:
        identity["classes"] = _text("classes", np.asarray(data.classes))
    identity |= content_of(rows)
    if estimator.get_params(deep=False).get("warm_start") and getattr(estimator, "basis_vectors_", None) is not None:
        identity["warm start"] = _text("warm start", estimator.basis_vectors_)
    return identity


_REMEDY = {
    "cv": "Give the splits themselves: cv=list(splitter.split(X, y)).",
    "selection": "Give the vectors that it selects, as an array, or fit without checkpoint.",
    "kernel": "Name a kernel of kompakt, or fit without checkpoint.",
}


def _text(name: str, value: Any) -> str:
    """A parameter as text that is the same in every process: itself where it is short, else its digest."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value.item() if isinstance(value, np.generic) else value)
    try:
        digest = fingerprint(value)
    except TypeError as error:
        raise TypeError(
            f"a fit with {name}={type(value).__name__} cannot have a checkpoint: nobody can tell whether the code of "
            f"{error} is still the same when the fit goes on. {_REMEDY.get(name, 'Fit without checkpoint.')}"
        ) from None
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        array = np.asarray(value)
        return f"array {array.shape} {array.dtype} {digest}"
    return f"{type(value).__name__} {digest}"


def warn_interrupted(estimator: BaseEstimator, what: str, stacklevel: int) -> None:
    """Say that a fit was ended by Ctrl-C and what is kept."""
    warnings.warn(
        f"{type(estimator).__name__}: interrupted; {what}. The estimator is usable, its converged_ is False. "
        "Interrupt again within two seconds to stop the program.",
        InterruptedWarning,
        stacklevel=stacklevel,
    )
