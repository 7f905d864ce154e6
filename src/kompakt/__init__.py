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
    from kompakt.basis.fee import FEESelector
    from kompakt.basis.forward import GrowthSelector
    from kompakt.basis.gram import GramSelector
    from kompakt.basis.projection import ProjectionSelector
    from kompakt.basis.random import RandomSelector
    from kompakt.basis.refine import Refinement
    from kompakt.basis.renyi import RenyiSelector
    from kompakt.data.opening import open_rows
    from kompakt.estimators.compact import CompactSVC, CompactSVR
    from kompakt.estimators.compression import compress
    from kompakt.estimators.fee import FEESVC, FEESVR
    from kompakt.estimators.fisher import KernelFisher, ProjectedKernelFisher
    from kompakt.estimators.fixed_size import FixedSizeLSSVC, FixedSizeLSSVR
    from kompakt.estimators.projected import GreedyProjection, ProjectedSVC
    from kompakt.estimators.reduced import CGLQSVC, LocalSamplingSVC
    from kompakt.estimators.spsvc import SpSVC
    from kompakt.export import to_c, to_libsvm, to_numpy, to_onnx
    from kompakt.io import load, save
    from kompakt.model import Model
    from kompakt.reduce import indecision_probability
    from kompakt.reporting import report
    from kompakt.search.fee import TwoGrids
    from kompakt.search.strategies import Annealing, GridSearch, RandomSearch
    from kompakt.validation import AutoSize

__version__ = "0.1.0"

# Where each public name lives; a new name is added here, under TYPE_CHECKING above, and in __all__.
_HOME = {
    "Annealing": "kompakt.search.strategies",
    "AutoSize": "kompakt.validation",
    "CGLQSVC": "kompakt.estimators.reduced",
    "CompactSVC": "kompakt.estimators.compact",
    "CompactSVR": "kompakt.estimators.compact",
    "FEESVC": "kompakt.estimators.fee",
    "FEESVR": "kompakt.estimators.fee",
    "FEESelector": "kompakt.basis.fee",
    "FixedSizeLSSVC": "kompakt.estimators.fixed_size",
    "FixedSizeLSSVR": "kompakt.estimators.fixed_size",
    "GramSelector": "kompakt.basis.gram",
    "GreedyProjection": "kompakt.estimators.projected",
    "GridSearch": "kompakt.search.strategies",
    "GrowthSelector": "kompakt.basis.forward",
    "KernelFisher": "kompakt.estimators.fisher",
    "LocalSamplingSVC": "kompakt.estimators.reduced",
    "Model": "kompakt.model",
    "ProjectedKernelFisher": "kompakt.estimators.fisher",
    "ProjectedSVC": "kompakt.estimators.projected",
    "ProjectionSelector": "kompakt.basis.projection",
    "RandomSearch": "kompakt.search.strategies",
    "RandomSelector": "kompakt.basis.random",
    "Refinement": "kompakt.basis.refine",
    "RenyiSelector": "kompakt.basis.renyi",
    "SpSVC": "kompakt.estimators.spsvc",
    "TwoGrids": "kompakt.search.fee",
    "compress": "kompakt.estimators.compression",
    "indecision_probability": "kompakt.reduce",
    "load": "kompakt.io",
    "open_rows": "kompakt.data.opening",
    "report": "kompakt.reporting",
    "save": "kompakt.io",
    "to_c": "kompakt.export",
    "to_libsvm": "kompakt.export",
    "to_numpy": "kompakt.export",
    "to_onnx": "kompakt.export",
}

__all__ = [
    "CGLQSVC",
    "FEESVC",
    "FEESVR",
    "Annealing",
    "AutoSize",
    "CompactSVC",
    "CompactSVR",
    "FEESelector",
    "FixedSizeLSSVC",
    "FixedSizeLSSVR",
    "GramSelector",
    "GreedyProjection",
    "GridSearch",
    "GrowthSelector",
    "KernelFisher",
    "LocalSamplingSVC",
    "Model",
    "ProjectedKernelFisher",
    "ProjectedSVC",
    "ProjectionSelector",
    "RandomSearch",
    "RandomSelector",
    "Refinement",
    "RenyiSelector",
    "SpSVC",
    "TwoGrids",
    "__version__",
    "compress",
    "indecision_probability",
    "load",
    "open_rows",
    "report",
    "save",
    "to_c",
    "to_libsvm",
    "to_numpy",
    "to_onnx",
]


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
