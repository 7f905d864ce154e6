"""Files that hold a model: kompakt's own format (`save`, `load`), and what LIBSVM's tools wrote."""

from kompakt.io.container import ModelFileError, UnsupportedModelError
from kompakt.io.libsvm import LibsvmModel, RangeFile, read_libsvm, read_range, to_model
from kompakt.io.schema import load, read_header, save

__all__ = [
    "LibsvmModel", "ModelFileError", "RangeFile", "UnsupportedModelError", "load", "read_header", "read_libsvm",
    "read_range", "save", "to_model",
]  # fmt: skip
