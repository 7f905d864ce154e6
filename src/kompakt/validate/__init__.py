"""Splits, scores, fast cross-validation and the rules that pick a size."""

from kompakt.validate.blockwise_cv import cross_validated_path_blockwise, cross_validated_residuals_blockwise
from kompakt.validate.fast_cv import (
    CV_METHODS,
    cheapest_method,
    cross_validated_path,
    cross_validated_residuals,
)
from kompakt.validate.folds import shuffled_folds
from kompakt.validate.scores import (
    agreement,
    error_rate,
    fold_means,
    mean_absolute_error,
    mean_squared_error,
)
from kompakt.validate.sizes import SIZE_RULES, SizeChoice, pick_size
from kompakt.validate.splits import Split, fold_of_row, holdout, resolve_splits

__all__ = [
    "CV_METHODS",
    "SIZE_RULES",
    "SizeChoice",
    "Split",
    "agreement",
    "cheapest_method",
    "cross_validated_path",
    "cross_validated_path_blockwise",
    "cross_validated_residuals",
    "cross_validated_residuals_blockwise",
    "error_rate",
    "fold_means",
    "fold_of_row",
    "holdout",
    "mean_absolute_error",
    "mean_squared_error",
    "pick_size",
    "resolve_splits",
    "shuffled_folds",
]
