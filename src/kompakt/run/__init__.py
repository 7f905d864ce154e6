"""What surrounds a fit: progress and interrupts."""

from kompakt.run.bar import above_bar, showing
from kompakt.run.progress import (
    Cancelled,
    Deadline,
    Listener,
    Task,
    apart,
    cancel_flag,
    checkpoint,
    is_over,
    keeps_on_interrupt,
    listening,
    outermost,
    run_unless_cancelled,
    task,
    tracked,
)

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
