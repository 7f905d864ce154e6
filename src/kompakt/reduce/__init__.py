"""Reduce the training set instead of the basis: local sampling and CGLQ on any exact SVM."""

from kompakt.reduce.cglq import CGLQOptions, CGLQResult, cglq
from kompakt.reduce.indecision import IndecisionStudy, indecision_probability, indecision_study
from kompakt.reduce.local_sampling import (
    LocalSample,
    LocalSamplingOptions,
    ReductionWarning,
    SubsamplePlan,
    draw_subsamples,
    local_sampling,
    plan_subsamples,
)

__all__ = [
    "CGLQOptions",
    "CGLQResult",
    "IndecisionStudy",
    "LocalSample",
    "LocalSamplingOptions",
    "ReductionWarning",
    "SubsamplePlan",
    "cglq",
    "draw_subsamples",
    "indecision_probability",
    "indecision_study",
    "local_sampling",
    "plan_subsamples",
]
