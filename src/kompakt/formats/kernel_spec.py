"""Kernels in a header: their description with numbers in JSON and widths per feature in the table of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kompakt.formats.errors import ModelFileError
from kompakt.kernels import Kernel, from_spec

#: parameters of every kernel a file may hold: "number", "count" (whole, at least 1), "widths" (number or array)
_PARAMETERS: dict[str, dict[str, str]] = {
    "rbf": {"gamma": "widths"},
    "laplacian": {"gamma": "number"},
    "poly": {"gamma": "number", "coef0": "number", "degree": "count"},
    "linear": {},
    "constant": {"value": "number"},
}
_COMBINATIONS = ("sum", "product")
_MAX_DEPTH = 16
_MAX_PARTS = 1000


@dataclass
class _Walk:
    """What is carried along a tree of kernels: arrays met or used, and how many parts there were."""

    arrays: dict[str, np.ndarray]
    n_features: int
    n_parts: int = 0

    def enter(self, depth: int) -> None:
        self.n_parts += 1
        if depth > _MAX_DEPTH or self.n_parts > _MAX_PARTS:
            raise ModelFileError(f"a kernel in a model file has at most {_MAX_PARTS} parts and {_MAX_DEPTH} levels.")


def encode_kernel(kernel: Kernel, arrays: dict[str, np.ndarray], n_features: int) -> dict[str, Any]:
    """The kernel's description; widths per feature are added to `arrays`."""
    return _encode(kernel.spec(), _Walk(arrays, n_features), 0)


def _encode(spec: dict[str, Any], walk: _Walk, depth: int) -> dict[str, Any]:
    walk.enter(depth)
    name = spec["name"]
    if name in _COMBINATIONS:
        return {"name": name, "parts": [_encode(part, walk, depth + 1) for part in spec["parts"]]}
    if name not in _PARAMETERS or set(spec) != {"name", *_PARAMETERS[name]}:
        raise TypeError(
            f"a machine with the kernel {name!r} cannot be saved: a model file knows {', '.join(_PARAMETERS)}, and "
            "sums and products of these."
        )
    result: dict[str, Any] = {"name": name}
    for key, kind in _PARAMETERS[name].items():
        value = spec[key]
        if kind == "widths" and isinstance(value, np.ndarray):
            if value.shape != (walk.n_features,):
                raise ValueError(f"the kernel has {value.shape} widths for {walk.n_features} features.")
            reference = f"kernel.{walk.n_parts}.{key}"
            walk.arrays[reference] = value
            result[key] = {"array": reference}
        else:
            result[key] = int(value) if kind == "count" else float(value)
    return result


def decode_kernel(spec: Any, arrays: dict[str, np.ndarray], n_features: int) -> Kernel:
    """The kernel of a description; its arrays are taken out of `arrays`."""
    plain = _decode(spec, _Walk(arrays, n_features), 0)
    try:
        return from_spec(plain)
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"the kernel is not valid: {error}") from None


def _decode(spec: Any, walk: _Walk, depth: int) -> dict[str, Any]:
    walk.enter(depth)
    name = spec.get("name") if isinstance(spec, dict) else None
    if isinstance(name, str) and name in _COMBINATIONS:
        parts = spec.get("parts")
        if set(spec) != {"name", "parts"} or not isinstance(parts, list) or len(parts) < 2:
            raise ModelFileError(f"a {name} of kernels needs a list of at least two parts.")
        return {"name": name, "parts": [_decode(part, walk, depth + 1) for part in parts]}
    if not isinstance(name, str) or name not in _PARAMETERS:
        raise ModelFileError(
            f"unknown kernel {str(name)[:40]!r}; this kompakt knows {', '.join([*_PARAMETERS, *_COMBINATIONS])}."
        )
    if set(spec) != {"name", *_PARAMETERS[name]}:
        raise ModelFileError(f"the kernel {name!r} needs exactly {sorted(_PARAMETERS[name])}.")
    return {"name": name, **{key: _value(spec[key], kind, key, walk) for key, kind in _PARAMETERS[name].items()}}


def _value(value: Any, kind: str, key: str, walk: _Walk) -> Any:
    if kind == "widths" and isinstance(value, dict):
        reference = value.get("array")
        widths = walk.arrays.pop(reference, None) if isinstance(reference, str) and len(value) == 1 else None
        if widths is None or widths.dtype != np.float64 or widths.shape != (walk.n_features,):
            raise ModelFileError(f"the kernel's {key} refers to no array of {walk.n_features} float64 widths.")
        return widths
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelFileError(f"the kernel's {key} must be a number.")
    if kind == "count":
        if not isinstance(value, int) or not 1 <= value < 1 << 31:
            raise ModelFileError(f"the kernel's {key} must be a whole number of at least 1.")
        return value
    try:
        return float(value)
    except OverflowError:
        raise ModelFileError(f"the kernel's {key} is beyond the numbers of float64.") from None
