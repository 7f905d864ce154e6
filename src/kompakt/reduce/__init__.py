"""Reduce the training set instead of the basis: local sampling and CGLQ on any exact SVM."""

from kompakt.reduce.cglq import cglq
from kompakt.reduce.indecision import IndecisionStudy, indecision_probability, indecision_study
from kompakt.reduce.local_sampling import (
    LocalSample,
    ReducedSet,
    ReductionWarning,
    SubsamplePlan,
    draw_subsamples,
    local_sampling,
    plan_subsamples,
)

__all__ = [
    "IndecisionStudy",
    "LocalSample",
    "ReducedSet",
    "ReductionWarning",
    "SubsamplePlan",
    "cglq",
    "draw_subsamples",
    "indecision_probability",
    "indecision_study",
    "local_sampling",
    "plan_subsamples",
]
