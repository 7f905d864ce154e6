"""Reduce the training set instead of the basis: local sampling and CGLQ on any exact SVM (seed 003)."""

from kompakt.subsample.cglq import CGLQOptions, CGLQResult, cglq
from kompakt.subsample.indecision import IndecisionStudy, indecision_probability, indecision_study
from kompakt.subsample.local_sampling import LocalSample, LocalSamplingOptions, local_sampling
from kompakt.subsample.plan import ReductionWarning, SubsamplePlan, draw_subsamples, plan_subsamples

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
