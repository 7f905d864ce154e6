"""Pictures in scikit-learn's display convention; they need the extra `plot`."""

from kompakt.plots.fee import BoundaryStep, CandidateBoundariesDisplay
from kompakt.plots.size_path import SizePathDisplay

__all__ = ["BoundaryStep", "CandidateBoundariesDisplay", "SizePathDisplay"]
