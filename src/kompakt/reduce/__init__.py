"""Reduce the training set instead of the basis: the steps of local sampling and CGLQ, on any exact SVM."""

from kompakt.reduce.indecision import indecision_probability
from kompakt.reduce.local_sampling import (
    ReducedSet,
    ReductionWarning,
    SubsamplePlan,
    draw_subsamples,
    plan_subsamples,
)

__all__ = [
    "ReducedSet",
    "ReductionWarning",
    "SubsamplePlan",
    "draw_subsamples",
    "indecision_probability",
    "plan_subsamples",
]
