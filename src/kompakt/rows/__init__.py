"""Rows: where they come from, and the one block loop of the package."""

from kompakt.rows.arrays import ArrayRows
from kompakt.rows.base import RowBlock, Rows, tree_sum
from kompakt.rows.hashing import hash_rows, smallest_distinct
from kompakt.rows.moments import column_means, total_variance

__all__ = [
    "ArrayRows",
    "RowBlock",
    "Rows",
    "column_means",
    "hash_rows",
    "smallest_distinct",
    "total_variance",
    "tree_sum",
]
