"""Pictures in scikit-learn's display convention; they need the extra `plot`."""

from kompakt.plots.convergence import ConvergenceDisplay
from kompakt.plots.fee import BoundaryStep, CandidateBoundariesDisplay
from kompakt.plots.pareto import ParetoDisplay
from kompakt.plots.size_path import SizePathDisplay
from kompakt.plots.vectors import BasisVectorsDisplay

__all__ = [
    "BasisVectorsDisplay",
    "BoundaryStep",
    "CandidateBoundariesDisplay",
    "ConvergenceDisplay",
    "ParetoDisplay",
    "SizePathDisplay",
]
