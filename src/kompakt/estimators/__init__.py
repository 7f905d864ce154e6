"""The public estimators: they validate, translate names into parts, assemble, and expose what was fitted."""

from kompakt.estimators.compact import CompactSVC, CompactSVR

__all__ = ["CompactSVC", "CompactSVR"]
