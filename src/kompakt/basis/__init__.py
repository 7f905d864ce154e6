"""How basis vectors are found: chosen once, grown with the model, moved, or matched."""

from kompakt.basis.projection import Projection, ProjectionSelector
from kompakt.basis.random import AllSelector, GivenSelector, RandomSelector
from kompakt.basis.renyi import BlindCriterionWarning, RenyiSelector

__all__ = [
    "AllSelector",
    "BlindCriterionWarning",
    "GivenSelector",
    "Projection",
    "ProjectionSelector",
    "RandomSelector",
    "RenyiSelector",
]
