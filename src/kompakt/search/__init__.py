"""Searches over parameters and sizes, and fast cross-validation."""

from kompakt.search.ridge_cv import cheapest_method, cross_validated_path
from kompakt.search.strategies import (
    Space,
    anneal_then_simplex,
    grid_search,
    random_then_simplex,
    search,
    successive_halving,
)
from kompakt.search.trials import Trial, Trials

__all__ = [
    "Space",
    "Trial",
    "Trials",
    "anneal_then_simplex",
    "cheapest_method",
    "cross_validated_path",
    "grid_search",
    "random_then_simplex",
    "search",
    "successive_halving",
]
