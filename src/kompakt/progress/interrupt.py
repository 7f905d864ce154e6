"""Ctrl-C: keep the best machine so far where there is one, and let a second press through.

Python raises KeyboardInterrupt in the main thread, between two of its own instructions.  Growth and refinement hold
what they need to hand over a finished machine at any such moment.  Only the outermost public call does so: work inside
a search or inside another estimator passes the interrupt on, or the loop around it would simply go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: a second Ctrl-C within so many seconds ends the program, whatever could be kept
PATIENCE = 2.0

_local = threading.local()
_last_kept = -float("inf")


@contextmanager
def outermost() -> Iterator[bool]:
    """Enter a public call; yields whether it is the outermost one of this thread."""
    depth = getattr(_local, "depth", 0)
    _local.depth = depth + 1
    try:
        yield depth == 0
    finally:
        _local.depth = depth


def keeps_on_interrupt() -> bool:
    """Whether a machine found so far is to be kept instead of passing the interrupt on; asked once it has come."""
    global _last_kept
    if getattr(_local, "depth", 0) > 1:
        return False
    now = time.monotonic()
    if now - _last_kept < PATIENCE:
        return False
    _last_kept = now
    return True
