"""Reduce the training set instead of the basis: local sampling and CGLQ on any exact SVM."""

from kompakt.reduce.cglq import cglq
from kompakt.reduce.indecision import indecision_probability
from kompakt.reduce.local_sampling import (
    ReducedSet,
    ReductionWarning,
    SubsamplePlan,
    draw_subsamples,
    local_sampling,
    margin_sampling,
    plan_subsamples,
)

__all__ = [
    "ReducedSet",
    "ReductionWarning",
    "SubsamplePlan",
    "cglq",
    "draw_subsamples",
    "indecision_probability",
    "local_sampling",
    "margin_sampling",
    "plan_subsamples",
]
