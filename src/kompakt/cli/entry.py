"""From arguments to an exit code: parse, run the command, turn what went wrong into one line that says what to do."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module

from kompakt.cli.console import BAD_DATA, INTERRUPTED, MISTAKE, OK, USAGE, UsageError, complain


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; None takes those of the process.

    Returns
    -------
    int
        0 done, 2 usage, 3 bad data, 4 done but not converged, 130 interrupted; 1 is a mistake in kompakt itself.

    Examples
    --------
    >>> from kompakt.cli import main
    >>> main(["--version"])
    kompakt ...
    0
    """
    from kompakt.cli.parser import parse

    try:
        options = parse(sys.argv[1:] if argv is None else list(argv))
    except SystemExit as leave:  # argparse has said why
        return leave.code if isinstance(leave.code, int) else USAGE
    module, function = options.run.split(":")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _told  # in our words instead of Python's
            code = getattr(import_module(module), function)(options)
        sys.stdout.flush()
        return OK if code is None else int(code)
    except UsageError as error:
        complain(str(error))
        return USAGE
    except KeyboardInterrupt as error:
        complain(f"interrupted{f': {error}' if str(error) else ''}; nothing was written.")
        return INTERRUPTED
    except BrokenPipeError:
        # the reader of our output (head, less) has left; there is nobody to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (OSError, ValueError, TypeError, ImportError, MemoryError, RuntimeError) as error:
        if os.environ.get("KOMPAKT_TRACEBACK"):
            traceback.print_exc()
        complain(_in_words(error))
        return BAD_DATA
    except Exception:
        traceback.print_exc()
        complain("this is a mistake in kompakt, not in your data: please report it with the lines above.")
        return MISTAKE


def _in_words(error: Exception) -> str:
    """The message of an error; those of the system say which file they mean, and not their number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        remedy = " Is the name right, seen from the folder you are in?" if isinstance(error, FileNotFoundError) else ""
        return f"{os.fsdecode(error.filename)}: {error.strerror}.{remedy}"
    return str(error)


def _told(message: Warning | str, category: type[Warning], *place: object, **more: object) -> None:
    if not issubclass(category, DeprecationWarning | PendingDeprecationWarning | FutureWarning):
        print(f"kompakt: warning: {message}", file=sys.stderr)
