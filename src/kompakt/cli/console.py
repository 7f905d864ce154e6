"""Exit codes and errors of commands, remarks on standard error, and results on standard output."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

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


class Console:
    """Remarks go to standard error unless quiet; results to standard output, as text or as one JSON object."""

    def __init__(self, *, quiet: bool = False, json: bool = False) -> None:
        self.quiet, self.json = quiet, json

    def remark(self, text: str) -> None:
        """Say what is being done."""
        if not self.quiet:
            say(text, sys.stderr)

    def warn(self, text: str) -> None:
        """Say what a user must know even if quiet."""
        say(f"kompakt: warning: {text}", sys.stderr)

    def result(self, facts: dict[str, Any], text: str) -> None:
        """Print the outcome: `facts` with ``--json``, else `text`."""
        if self.json:
            say(json.dumps(_json_values(facts), allow_nan=False), sys.stdout)
        elif not self.quiet:
            say(text, sys.stdout)


def say(text: str, stream: TextIO | None) -> None:
    """Print text for people, in which no name of a file may act on the terminal; a closed stream prints nothing."""
    if stream is not None:
        print("\n".join(map(visible, text.split("\n"))), file=stream)


@contextmanager
def escaping() -> Iterator[None]:
    r"""Let standard output and error write what their encoding lacks as \xe9 or \u4e2d, instead of failing."""
    streams = [stream for stream in (sys.stdout, sys.stderr) if isinstance(stream, io.TextIOWrapper)]
    before = [stream.errors for stream in streams]
    for stream in streams:
        stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        for stream, errors in zip(streams, before, strict=True):
            stream.reconfigure(errors=errors)


def _json_values(value: Any) -> Any:
    """The value as JSON has it: arrays as lists, and null for NaN and infinities."""
    if isinstance(value, dict):
        return {key: _json_values(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_json_values(entry) for entry in value]
    if hasattr(value, "tolist"):  # NumPy's values
        return _json_values(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def visible(value: Any) -> str:
    r"""Text in which every character that a terminal would act on, or cannot show, is escaped.

    Examples
    --------
    >>> from kompakt.cli.console import visible
    >>> visible("blue"), visible("a" + chr(27) + "[31mb")
    ('blue', 'a\\x1b[31mb')
    """
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(value))


def two_columns(rows: list[tuple[str, Any]]) -> str:
    """Names and values in two columns, escaped where they would act on the terminal, so that each has one line.

    Examples
    --------
    >>> from kompakt.cli.console import two_columns
    >>> print(two_columns([("rows", 10), ("features", 3)]))
    rows      10
    features  3
    """
    shown = [(visible(name), visible(value)) for name, value in rows]
    width = max(len(name) for name, _ in shown)
    return "\n".join(f"{name:{width}}  {value}" for name, value in shown)
