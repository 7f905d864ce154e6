"""Rows against a basis: one primitive, and the products and factors built on it."""

from kompakt.design.design import DEFAULT_BUDGET, Design, choose_block_rows, weighted_gram, weighted_grams
from kompakt.design.factor import Factor, border, factorise, multiply_upper, rank_one_changes
from kompakt.design.features import FeatureDesign

__all__ = [
    "DEFAULT_BUDGET",
    "Design",
    "Factor",
    "FeatureDesign",
    "border",
    "choose_block_rows",
    "factorise",
    "multiply_upper",
    "rank_one_changes",
    "weighted_gram",
    "weighted_grams",
]
