"""The public estimators: they validate, translate names into parts, assemble, and expose what was fitted."""

from kompakt.estimators.cglq import CGLQSVC
from kompakt.estimators.compact import CompactSVC, CompactSVR
from kompakt.estimators.fee import FEESVC, FEESVR
from kompakt.estimators.fisher import KernelFisher, ProjectedKernelFisher
from kompakt.estimators.fixed_size import FixedSizeLSSVC, FixedSizeLSSVR
from kompakt.estimators.local_sampling import LocalSamplingSVC
from kompakt.estimators.projected import ProjectedSVC
from kompakt.estimators.projection import GreedyProjection
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
