"""Label-free, one-shot choice of basis vectors, and the bandwidths it needs."""

from kompakt.select.bandwidth import BandwidthWarning, bandwidths, sheather_jones
from kompakt.select.base import Selection
from kompakt.select.projection import Projection, ProjectionSelector
from kompakt.select.random import AllSelector, GivenSelector, RandomSelector
from kompakt.select.renyi import BlindCriterionWarning, RenyiSelector

__all__ = [
    "AllSelector",
    "BandwidthWarning",
    "BlindCriterionWarning",
    "GivenSelector",
    "Projection",
    "ProjectionSelector",
    "RandomSelector",
    "RenyiSelector",
    "Selection",
    "bandwidths",
    "sheather_jones",
]
