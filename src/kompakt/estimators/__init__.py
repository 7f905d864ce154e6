"""The public estimators: they validate, translate names into parts, assemble, and expose what was fitted."""

from kompakt.estimators.compact import CompactSVC, CompactSVR
from kompakt.estimators.fee import FEESVC, FEESVR
from kompakt.estimators.fisher import KernelFisher, ProjectedKernelFisher
from kompakt.estimators.fixed_size import FixedSizeLSSVC, FixedSizeLSSVR
from kompakt.estimators.projected import GreedyProjection, ProjectedSVC
from kompakt.estimators.reduced import CGLQSVC, LocalSamplingSVC
from kompakt.estimators.spsvc import SpSVC

__all__ = [
    "CGLQSVC",
    "FEESVC",
    "FEESVR",
    "CompactSVC",
    "CompactSVR",
    "FixedSizeLSSVC",
    "FixedSizeLSSVR",
    "GreedyProjection",
    "KernelFisher",
    "LocalSamplingSVC",
    "ProjectedKernelFisher",
    "ProjectedSVC",
    "SpSVC",
]
