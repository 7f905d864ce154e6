"""Searches over parameters and sizes, and fast cross-validation."""

from kompakt.search.ridge_cv import (
    CV_METHODS,
    cheapest_method,
    cross_validated_path,
    cross_validated_path_blockwise,
    cross_validated_residuals,
)
from kompakt.search.strategies import (
    SEARCHES,
    Space,
    anneal_then_simplex,
    grid_search,
    random_then_simplex,
    search,
    successive_halving,
)
from kompakt.search.trials import Trial, Trials

__all__ = [
    "CV_METHODS",
    "SEARCHES",
    "Space",
    "Trial",
    "Trials",
    "anneal_then_simplex",
    "cheapest_method",
    "cross_validated_path",
    "cross_validated_path_blockwise",
    "cross_validated_residuals",
    "grid_search",
    "random_then_simplex",
    "search",
    "successive_halving",
]
