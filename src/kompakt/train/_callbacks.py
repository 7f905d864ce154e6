"""Callbacks for scikit-learn before 1.9: the same methods and meaning as `sklearn.callback`, and nothing beyond.

A callback has `setup`, `teardown`, `on_fit_task_begin` and `on_fit_task_end`; it is handed the estimator and a context
that knows its task's name, number, number of subtasks and parent.  Propagation from meta-estimators needs 1.9.
"""

from __future__ import annotations

import functools
import inspect
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

_HOOKS = ("setup", "teardown", "on_fit_task_begin", "on_fit_task_end")


class CallbackContext:
    """A task of a fit, in the tree of its tasks."""

    def __init__(self, callbacks: list[Any], estimator_name: str, task_name: str, max_subtasks: int | None) -> None:
        self._callbacks = callbacks
        self.estimator_name, self.task_name, self.max_subtasks = estimator_name, task_name, max_subtasks
        self.task_id = 0
        self.sequential_subtasks = True
        self.parent: CallbackContext | None = None
        self.root_uuid = uuid.uuid4()
        self.init_time = datetime.now(UTC)
        self.source_estimator_name = self.source_task_name = None
        self._n_children = 0

    def subcontext(self, task_name: str = "", max_subtasks: int | None = 0) -> CallbackContext:
        """A task inside this one."""
        child = CallbackContext(self._callbacks, self.estimator_name, task_name, max_subtasks)
        child.parent, child.task_id, child.root_uuid = self, self._n_children, self.root_uuid
        self._n_children += 1
        return child

    def call_on_fit_task_begin(self, *, estimator: Any, **data: Any) -> CallbackContext:
        """Tell the callbacks that the task begins."""
        self._tell("on_fit_task_begin", estimator, data)
        return self

    def call_on_fit_task_end(self, *, estimator: Any, **data: Any) -> bool:
        """Tell the callbacks that the task has ended; True if one of them asks to stop."""
        return self._tell("on_fit_task_end", estimator, data)

    def _tell(self, hook: str, estimator: Any, data: dict[str, Any]) -> bool:
        fitted = estimator if data.pop("reconstruction_attributes", None) is not None else None
        stop = False
        for callback in self._callbacks:
            method = getattr(callback, hook)
            names = {p.name for p in inspect.signature(method).parameters.values() if p.kind == p.KEYWORD_ONLY}
            facts = {"metadata": None, "fitted_estimator": fitted, "X": None, "y": None, **data}
            stop |= bool(method(estimator, self, **{name: facts[name] for name in names}))
        return stop


class CallbackSupportMixin:
    """Lets callbacks be set on an estimator."""

    def set_callbacks(self, *callbacks: Any) -> Any:
        """Set the callbacks of later fits; none removes them.

        Parameters
        ----------
        *callbacks : objects with the methods of `sklearn.callback.FitCallback`

        Returns
        -------
        self
        """
        for callback in callbacks:
            if isinstance(callback, type) or not all(callable(getattr(callback, name, None)) for name in _HOOKS):
                raise TypeError(f"callbacks must be instances with the methods {', '.join(_HOOKS)}; got {callback!r}.")
        if callbacks:
            self._skl_callbacks = list(callbacks)
        else:
            self.__dict__.pop("_skl_callbacks", None)
        return self

    def _init_callback_context(self, task_name: str = "fit", max_subtasks: int | None = 0) -> CallbackContext:
        callbacks = self._skl_callbacks
        context = CallbackContext(callbacks, type(self).__name__, task_name, max_subtasks)
        self._callback_fit_ctx = context
        for callback in callbacks:
            callback.setup(self, context)
        return context


def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Tear the callbacks down after the method, however it ends."""

    @functools.wraps(method)
    def managed(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(estimator, *args, **kwargs)
        finally:
            context = estimator.__dict__.pop("_callback_fit_ctx", None)
            if context is not None:
                for callback in estimator._skl_callbacks:
                    callback.teardown(estimator, context)

    return managed
