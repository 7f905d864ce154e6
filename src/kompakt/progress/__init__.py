"""Progress: what long work tells whoever watches, and what becomes of Ctrl-C.

Work opens a `task` and counts its steps.  Who listens is decided once, at the public call: scikit-learn's callbacks, a
bar in a terminal, or nobody, in which case a step costs a fraction of a microsecond.  Listening never changes a result;
only a listener that asks for it stops a loop early.
"""

from kompakt.progress.bar import above_bar, showing
from kompakt.progress.deadline import Deadline, is_over
from kompakt.progress.hook import (
    Cancelled,
    Listener,
    Task,
    apart,
    cancel_flag,
    checkpoint,
    listening,
    run_unless_cancelled,
    task,
    tracked,
)
from kompakt.progress.interrupt import keeps_on_interrupt, outermost

__all__ = [
    "Cancelled",
    "Deadline",
    "Listener",
    "Task",
    "above_bar",
    "apart",
    "cancel_flag",
    "checkpoint",
    "is_over",
    "keeps_on_interrupt",
    "listening",
    "outermost",
    "run_unless_cancelled",
    "showing",
    "task",
    "tracked",
]
