"""Where rows come from: memory, files, Dask; and the one block loop of the package."""

from kompakt.data.files import IterableSource
from kompakt.data.rows import (
    ArrayRows,
    RowBlock,
    Rows,
    TreeSum,
    centre_of,
    column_means,
    hash_numbers,
    hash_rows,
    row_weights,
    smallest_distinct,
    steady,
    total_variance,
    tree_sum,
)
from kompakt.data.streamed import ChunkedSource, Passes, Raw, RowReader, Source, StreamedRows

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
    "TreeSum",
    "centre_of",
    "column_means",
    "hash_numbers",
    "hash_rows",
    "row_weights",
    "smallest_distinct",
    "steady",
    "total_variance",
    "tree_sum",
]
