"""Rows: where they come from, and the one block loop of the package."""

from kompakt.rows.arrays import ArrayRows
from kompakt.rows.base import RowBlock, Rows, tree_sum
from kompakt.rows.hashing import hash_numbers, hash_rows, smallest_distinct
from kompakt.rows.iterables import IterableSource, as_source
from kompakt.rows.moments import centre_of, column_means, steady, total_variance
from kompakt.rows.source import ChunkedSource, Raw, Source
from kompakt.rows.streamed import Passes, StreamedRows
from kompakt.rows.tasks import RowReader

__all__ = [
    "ArrayRows",
    "ChunkedSource",
    "IterableSource",
    "Passes",
    "Raw",
    "RowBlock",
    "RowReader",
    "Rows",
    "Source",
    "StreamedRows",
    "as_source",
    "centre_of",
    "column_means",
    "hash_numbers",
    "hash_rows",
    "smallest_distinct",
    "steady",
    "total_variance",
    "tree_sum",
]
