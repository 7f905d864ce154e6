"""The command line ``kompakt``: nothing here is imported before a command is known, so that ``--help`` is quick."""

from kompakt.cli.main import main

__all__ = ["main"]
