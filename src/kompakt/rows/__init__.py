"""Rows: where they come from, and the one block loop of the package."""

from kompakt.rows.arrays import ArrayRows
from kompakt.rows.base import RowBlock, Rows, tree_sum
from kompakt.rows.hashing import hash_rows, smallest_distinct
from kompakt.rows.moments import centre_of, column_means, steady, total_variance

__all__ = [
    "ArrayRows",
    "RowBlock",
    "Rows",
    "centre_of",
    "column_means",
    "hash_rows",
    "smallest_distinct",
    "steady",
    "total_variance",
    "tree_sum",
]
