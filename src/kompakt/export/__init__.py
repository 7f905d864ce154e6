"""A machine in other forms: ONNX, C99, an Arduino library, JavaScript, LIBSVM's text, NumPy; each is checked."""

from kompakt.export.arduino import to_arduino
from kompakt.export.c_file import to_c
from kompakt.export.common import CReport, ExportReport, ParityError
from kompakt.export.js_file import to_js
from kompakt.export.libsvm_file import to_libsvm
from kompakt.export.numpy_file import to_numpy
from kompakt.export.onnx_file import register_skl2onnx, to_onnx

__all__ = [
    "CReport", "ExportReport", "ParityError", "register_skl2onnx", "to_arduino", "to_c", "to_js", "to_libsvm",
    "to_numpy", "to_onnx",
]  # fmt: skip
