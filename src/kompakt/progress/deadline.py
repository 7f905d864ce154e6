"""The end of the time that a fit may take, and whether it cut something short."""

from __future__ import annotations

import time


class Deadline(float):
    """A moment on the clock of time.monotonic that remembers whether work was ended by it.

    Parameters
    ----------
    seconds : float
        From now on.
    outer : Deadline, optional
        The one that this one is a part of: what this one cuts short, it does too.

    Examples
    --------
    >>> from kompakt.progress import Deadline, is_over
    >>> fit = Deadline(60.0)
    >>> is_over(fit), is_over(fit.share(-1.0)), fit.cut
    (False, True, True)
    """

    cut: bool
    outer: Deadline | None

    def __new__(cls, seconds: float, outer: Deadline | None = None) -> Deadline:
        self = super().__new__(cls, time.monotonic() + float(seconds))
        self.cut, self.outer = False, outer
        return self

    def share(self, fraction: float) -> Deadline:
        """A deadline after a fraction of the time that is left."""
        return Deadline(fraction * (self - time.monotonic()), self)

    def note(self) -> None:
        """Remember that work was ended."""
        self.cut = True
        if self.outer is not None:
            self.outer.note()


def is_over(deadline: float | None) -> bool:
    """Whether the time is over; ask only where the answer ends work, because a `Deadline` remembers it.

    Examples
    --------
    >>> from kompakt.progress import is_over
    >>> is_over(None), is_over(0.0)
    (False, True)
    """
    if deadline is None or time.monotonic() <= deadline:
        return False
    if isinstance(deadline, Deadline):
        deadline.note()
    return True
