"""What every command shares: exit codes, errors, words to standard error, results to standard output."""

from __future__ import annotations

import json
import sys
from typing import Any

OK, MISTAKE, USAGE, BAD_DATA, NOT_CONVERGED, INTERRUPTED = 0, 1, 2, 3, 4, 130


class DataError(ValueError):
    """A file that cannot be used as it is; the message names file, line and column, and what to do.

    Examples
    --------
    >>> from kompakt.cli.console import DataError
    >>> issubclass(DataError, ValueError)
    True
    """


class UsageError(Exception):
    """Arguments that do not go together.

    Examples
    --------
    >>> from kompakt.cli.console import UsageError
    >>> str(UsageError("--a needs --b."))
    '--a needs --b.'
    """


def complain(text: str) -> None:
    """An error, on standard error."""
    print(f"kompakt: error: {text}", file=sys.stderr)


class Console:
    """Remarks go to standard error unless quiet; results to standard output, as text or as one JSON object."""

    def __init__(self, options: Any) -> None:
        self.quiet = bool(getattr(options, "quiet", False))
        self.json = bool(getattr(options, "json", False))

    @classmethod
    def silent(cls) -> Console:
        """One that makes no remarks."""
        console = cls(None)
        console.quiet = True
        return console

    def remark(self, text: str) -> None:
        """A word on what is being done."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def warn(self, text: str) -> None:
        """What a user must know even if quiet."""
        print(f"kompakt: warning: {text}", file=sys.stderr)

    def result(self, facts: dict[str, Any], text: str) -> None:
        """The outcome: `facts` with ``--json``, else `text`."""
        if self.json:
            print(json.dumps(facts, default=plain, allow_nan=False))
        elif not self.quiet and text:
            print(text)


def plain(value: Any) -> Any:
    """NumPy values as JSON knows them.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.cli.console import plain
    >>> plain(np.float64(0.5)), plain(np.array([1, 2]))
    (0.5, [1, 2])
    """
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    raise TypeError(f"{type(value).__name__} is not JSON.")


def table(rows: list[tuple[str, Any]]) -> str:
    """Names and values in two columns.

    Examples
    --------
    >>> from kompakt.cli.console import table
    >>> print(table([("rows", 10), ("features", 3)]))
    rows      10
    features  3
    """
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows)
