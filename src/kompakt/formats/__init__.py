"""Files that hold a model: kompakt's own format (`save`, `load`) and LIBSVM's text models."""

from kompakt.formats.errors import ModelFileError, UnsupportedModelError
from kompakt.formats.files import load, read_header, save
from kompakt.formats.libsvm import LibsvmFiles, to_model, write_libsvm
from kompakt.formats.libsvm_text import LibsvmModel, RangeFile, read_libsvm, read_range

__all__ = [
    "LibsvmFiles",
    "LibsvmModel",
    "ModelFileError",
    "RangeFile",
    "UnsupportedModelError",
    "load",
    "read_header",
    "read_libsvm",
    "read_range",
    "save",
    "to_model",
    "write_libsvm",
]
