"""One self-contained page about a fitted model; nothing imports it but the command line."""

from kompakt.reporting.page import report

__all__ = ["report"]
