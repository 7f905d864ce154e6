"""Pictures in scikit-learn's display convention; they need the extra `plot`."""

from kompakt.plots.size_path import SizePathDisplay

__all__ = ["SizePathDisplay"]
