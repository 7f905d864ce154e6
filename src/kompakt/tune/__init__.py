"""Searches over parameters: strategies that are handed the function to minimise."""

from kompakt.tune.annealing import ACCEPTANCES, anneal
from kompakt.tune.grid import grid_search, random_search
from kompakt.tune.halving import HalvingRecord, HalvingResult, successive_halving
from kompakt.tune.record import Evaluation, SearchResult
from kompakt.tune.search import SEARCHES, anneal_then_simplex, random_then_simplex, search
from kompakt.tune.simplex import simplex_search
from kompakt.tune.space import Space

__all__ = [
    "ACCEPTANCES",
    "SEARCHES",
    "Evaluation",
    "HalvingRecord",
    "HalvingResult",
    "SearchResult",
    "Space",
    "anneal",
    "anneal_then_simplex",
    "grid_search",
    "random_search",
    "random_then_simplex",
    "search",
    "simplex_search",
    "successive_halving",
]
