"""One self-contained page about a trained machine; nothing imports it but the command line."""

from kompakt.reporting.page import report

__all__ = ["report"]
