"""Searches over parameters and sizes, and fast cross-validation."""

from kompakt.heldout import Trial, Trials
from kompakt.search.ridge_cv import cheapest_method, cross_validated_path
from kompakt.search.strategies import Space, search

__all__ = [
    "Space",
    "Trial",
    "Trials",
    "cheapest_method",
    "cross_validated_path",
    "search",
]
