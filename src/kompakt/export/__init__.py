"""A machine in other forms: ONNX, C99, JavaScript, LIBSVM's text model, one file of NumPy; each is checked at once."""

from kompakt.export.c_file import to_c
from kompakt.export.common import CReport, ExportReport, ParityError
from kompakt.export.js_file import to_js
from kompakt.export.libsvm_file import to_libsvm
from kompakt.export.numpy_file import to_numpy
from kompakt.export.onnx_file import register_skl2onnx, to_onnx

__all__ = [
    "CReport",
    "ExportReport",
    "ParityError",
    "register_skl2onnx",
    "to_c",
    "to_js",
    "to_libsvm",
    "to_numpy",
    "to_onnx",
]
