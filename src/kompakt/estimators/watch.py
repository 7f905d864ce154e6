"""What surrounds every fit: who is told of its progress, and what Ctrl-C leaves behind.

scikit-learn 1.9 has a protocol of callbacks (`set_callbacks`, contexts of a tree of tasks); with an older version,
`CallbackSupportMixin` here is a small one of the same meaning: the same callbacks work with both.
"""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from kompakt.estimators.lazy import adopted
from kompakt.progress import above_bar, apart, listening, outermost, showing
from kompakt.rows.dask_rows import is_dask

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9
    from kompakt.estimators._callbacks import CallbackSupportMixin, with_callbacks  # type: ignore[assignment]

__all__ = ["CallbackSupportMixin", "InterruptedWarning", "verbose_logging", "warn_interrupted", "watched"]

logger = logging.getLogger("kompakt")

Fit = TypeVar("Fit", bound=Callable[..., Any])

# The decorator tears callbacks down after the method it wraps: here after a method that does nothing, so that no frame
# of scikit-learn lies between a warning and the caller it points at.
_tear_down = with_callbacks(lambda estimator: None)


class InterruptedWarning(UserWarning):
    """A fit was ended by Ctrl-C; the estimator holds the best machine it had found.

    Examples
    --------
    >>> from kompakt.estimators.watch import InterruptedWarning
    >>> issubclass(InterruptedWarning, UserWarning)
    True
    """


def warn_interrupted(estimator: Any, what: str, stacklevel: int = 4) -> None:
    """Say that a fit was ended by Ctrl-C and what is kept."""
    warnings.warn(
        f"{type(estimator).__name__}: interrupted; {what}. The estimator is usable, its converged_ is False. "
        "Interrupt again within two seconds to stop the program.",
        InterruptedWarning,
        stacklevel=stacklevel,
    )


class _AboveBar(logging.StreamHandler):
    """Records on standard error, above the bar where one is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        if not above_bar(self.format(record)):
            super().emit(record)


@contextmanager
def verbose_logging(verbose: int) -> Iterator[None]:
    """Show kompakt's log records on standard error while a fit runs: 1 for the main steps, 2 for all."""
    if not verbose:
        yield
        return
    handler = _AboveBar()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def watched(fit: Fit) -> Fit:
    """Report the progress of a `fit` method, and leave no half-fitted estimator behind when it is interrupted.

    With `verbose`, its stages are logged on standard error, for every estimator alike.
    """

    @functools.wraps(fit)
    def method(self: Any, X: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        if is_dask(X):  # before anything could materialise it
            X, y, args, kwargs = adopted(X, y, args, kwargs)
        with outermost(), apart(), _told(self, X, y), verbose_logging(getattr(self, "verbose", 0)):
            try:
                return fit(self, X, y, *args, **kwargs)
            except KeyboardInterrupt:
                _unfit(self)
                raise

    return method  # type: ignore[return-value]


def _unfit(estimator: Any) -> None:
    """Remove fitted attributes: of an earlier fit, they would not agree with what this one has begun."""
    for name in list(vars(estimator)):
        if name.endswith("_") and not name.startswith("_"):
            delattr(estimator, name)


@contextmanager
def _told(estimator: Any, X: Any, y: Any) -> Iterator[None]:
    """Callbacks where the estimator has some, else a bar where there is a terminal."""
    if not getattr(estimator, "_skl_callbacks", None):
        with showing(type(estimator).__name__):
            yield
        return
    try:
        context = estimator._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        with listening(_CallbackListener(estimator, context, X, y)):
            yield
        # the estimator is fitted: what callbacks see as `fitted_estimator` is a copy of it as it is
        context.call_on_fit_task_end(estimator=estimator, X=X, y=y, reconstruction_attributes=dict)
    finally:
        _tear_down(estimator)


class _CallbackListener:
    """Turns tasks into contexts: an outer task is a node below the fit, each of its steps a leaf below it.

    Tasks inside a step are not reported: whether a step has some is known only once it has begun.
    """

    def __init__(self, estimator: Any, root: Any, X: Any, y: Any) -> None:
        self.root, self.told = root, {"estimator": estimator, "X": X, "y": y}
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
            self.node.call_on_fit_task_begin(**self.told)
            self._next_leaf()

    def _next_leaf(self) -> None:
        self.leaf = None
        if self.n_left > 0:
            self.n_left -= 1
            self.leaf = self.node.subcontext(task_name=f"{self.node.task_name}-step")
            self.leaf.call_on_fit_task_begin(**self.told)

    def advance(self, work: float) -> bool:
        if self.depth != self.reported or self.leaf is None:
            return False
        stop = bool(self.leaf.call_on_fit_task_end(**self.told))
        self._next_leaf()
        return stop

    def end(self, failed: bool) -> None:
        if self.depth == self.reported:
            if not failed:
                if self.leaf is not None:  # a step that was begun and never made
                    self.leaf.call_on_fit_task_end(**self.told)
                self.node.call_on_fit_task_end(**self.told)
            self.node, self.leaf, self.reported = None, None, -1
        self.depth -= 1
