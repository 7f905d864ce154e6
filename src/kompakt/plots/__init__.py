"""Pictures in scikit-learn's display convention; they need the extra `plot`."""

from kompakt.plots.curves import ConvergenceDisplay, ParetoDisplay, SizePathDisplay
from kompakt.plots.features import FeatureCurvesDisplay
from kompakt.plots.vectors import BasisVectorsDisplay, BoundaryStep, CandidateBoundariesDisplay

__all__ = [
    "BasisVectorsDisplay",
    "BoundaryStep",
    "CandidateBoundariesDisplay",
    "ConvergenceDisplay",
    "FeatureCurvesDisplay",
    "ParetoDisplay",
    "SizePathDisplay",
]
