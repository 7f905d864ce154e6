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
    from kompakt.basis.fee import FEESelector as FEESelector
    from kompakt.basis.forward import GrowthSelector as GrowthSelector
    from kompakt.basis.gram import GramSelector as GramSelector
    from kompakt.basis.projection import ProjectionSelector as ProjectionSelector
    from kompakt.basis.random import RandomSelector as RandomSelector
    from kompakt.basis.refine import Refinement as Refinement
    from kompakt.basis.renyi import RenyiSelector as RenyiSelector
    from kompakt.data.opening import open_rows as open_rows
    from kompakt.estimators.compact import CompactSVC as CompactSVC
    from kompakt.estimators.compact import CompactSVR as CompactSVR
    from kompakt.estimators.compression import compress as compress
    from kompakt.estimators.fee import FEESVC as FEESVC
    from kompakt.estimators.fee import FEESVR as FEESVR
    from kompakt.estimators.fisher import KernelFisher as KernelFisher
    from kompakt.estimators.fisher import ProjectedKernelFisher as ProjectedKernelFisher
    from kompakt.estimators.fixed_size import FixedSizeLSSVC as FixedSizeLSSVC
    from kompakt.estimators.fixed_size import FixedSizeLSSVR as FixedSizeLSSVR
    from kompakt.estimators.novelty import CompactNovelty as CompactNovelty
    from kompakt.estimators.projected import GreedyProjection as GreedyProjection
    from kompakt.estimators.projected import ProjectedSVC as ProjectedSVC
    from kompakt.estimators.reduced import CGLQSVC as CGLQSVC
    from kompakt.estimators.reduced import LocalSamplingSVC as LocalSamplingSVC
    from kompakt.estimators.spsvc import SpSVC as SpSVC
    from kompakt.export import to_arduino as to_arduino
    from kompakt.export import to_c as to_c
    from kompakt.export import to_js as to_js
    from kompakt.export import to_libsvm as to_libsvm
    from kompakt.export import to_numpy as to_numpy
    from kompakt.export import to_onnx as to_onnx
    from kompakt.heldout import AutoSize as AutoSize
    from kompakt.io import load as load
    from kompakt.io import save as save
    from kompakt.model import Model as Model
    from kompakt.reduce import indecision_probability as indecision_probability
    from kompakt.reporting import report as report
    from kompakt.search.fee import TwoGrids as TwoGrids
    from kompakt.search.strategies import Annealing as Annealing
    from kompakt.search.strategies import GridSearch as GridSearch
    from kompakt.search.strategies import RandomSearch as RandomSearch

__version__ = "0.1.0"

# Where each public name lives; a new name is added here and under TYPE_CHECKING above.
_HOME = {
    "Annealing": "kompakt.search.strategies",
    "AutoSize": "kompakt.heldout",
    "CGLQSVC": "kompakt.estimators.reduced",
    "CompactNovelty": "kompakt.estimators.novelty",
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
    "to_arduino": "kompakt.export",
    "to_c": "kompakt.export",
    "to_js": "kompakt.export",
    "to_libsvm": "kompakt.export",
    "to_numpy": "kompakt.export",
    "to_onnx": "kompakt.export",
}

__all__ = ["__version__", *_HOME]


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
