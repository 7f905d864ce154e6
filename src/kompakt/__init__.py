"""Compact kernel machines: classifiers and regressors with few, well-chosen basis vectors.

Public names are imported on first use, so ``import kompakt`` stays light: neither scikit-learn nor Numba
is loaded until an estimator is asked for.

Examples
--------
>>> import kompakt
>>> "CompactSVC" in dir(kompakt)
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kompakt.estimators.compact import CompactSVC, CompactSVR
    from kompakt.formats import load, save
    from kompakt.model import Model

__version__ = "0.1.0"

# Where each public name lives; a new name is added here, under TYPE_CHECKING above, and in __all__.
_HOME = {
    "CompactSVC": "kompakt.estimators.compact",
    "CompactSVR": "kompakt.estimators.compact",
    "Model": "kompakt.model",
    "load": "kompakt.formats",
    "save": "kompakt.formats",
}

__all__ = ["CompactSVC", "CompactSVR", "Model", "__version__", "load", "save"]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use (PEP 562) and keep it."""
    home = _HOME.get(name)
    if home is None:
        names = ", ".join(sorted(_HOME))
        raise AttributeError(f"module 'kompakt' has no attribute {name!r}; public names: {names}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOME))
