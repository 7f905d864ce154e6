"""`fit(..., checkpoint=path)`: which fit a checkpoint belongs to, and going on from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.metadata_routing import UNUSED

from kompakt.checkpoint import checkpointing, fingerprint, step
from kompakt.estimators.prepare import Training
from kompakt.rows.digest import content_of

#: a path is no data of the rows: meta-estimators do not pass it on
NOT_METADATA = {"checkpoint": UNUSED}
#: parameters that change how a fit runs, not what it gives
_FREE = ("n_jobs", "verbose", "max_time")


@contextmanager
def checkpoints(estimator: Any, path: Any) -> Iterator[Callable[[Training], Training]]:
    """Around a fit: yields what the fit calls with its training, as soon as that is known, to go on from `path`.

    A fit with ``random_state=None`` has drawn its seed before it was killed: the one that resumes takes it over.
    """
    with ExitStack() as stack:

        def resume(training: Training) -> Training:
            if path is None:
                return training
            stack.enter_context(checkpointing(path, identity_of(estimator, training)))
            return replace(training, key=int(step("seed", lambda: int(training.key))))

        yield resume


def identity_of(estimator: Any, training: Training) -> dict[str, Any]:
    """Data and parameters of a fit as plain values by name."""
    rows = training.rows
    identity: dict[str, Any] = {"estimator": type(estimator).__name__}
    for name, value in estimator.get_params(deep=False).items():
        if name not in _FREE:
            identity[name] = _seed(value) if name == "random_state" else _text(name, value)
    identity["shape"] = f"{rows.n_rows} rows of {rows.n_features} {rows.dtype} features, {rows.n_outputs} outputs"
    if training.classes is not None:
        identity["classes"] = _text("classes", np.asarray(training.classes))
    identity |= content_of(rows)
    if estimator.get_params(deep=False).get("warm_start") and getattr(estimator, "basis_vectors_", None) is not None:
        identity["warm start"] = _text("warm start", estimator.basis_vectors_)
    return identity


def _seed(value: Any) -> str:
    """A seed that is drawn cannot be compared; the one in use is in the checkpoint."""
    return repr(int(value)) if isinstance(value, Integral) else "drawn"


def _text(name: str, value: Any) -> str:
    """A parameter as text that is the same in every process: itself where it is short, else its digest."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value.item() if isinstance(value, np.generic) else value)
    try:
        digest = fingerprint(value)
    except TypeError as error:
        raise TypeError(
            f"a fit with {name}={type(value).__name__} cannot have a checkpoint: nobody can tell whether the code of "
            f"{error} is still the same when the fit goes on. {_REMEDY.get(name, _FIT_WITHOUT)}"
        ) from None
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        array = np.asarray(value)
        return f"array {array.shape} {array.dtype} {digest}"
    return f"{type(value).__name__} {digest}"


_FIT_WITHOUT = "Fit without checkpoint."
_REMEDY = {
    "cv": "Give the splits themselves: cv=list(splitter.split(X, y)).",
    "selection": "Give the vectors that it selects, as an array, or fit without checkpoint.",
    "kernel": "Name a kernel of kompakt, or fit without checkpoint.",
}
