"""Version 1 of the schema: a `Model` as header and arrays, and back, with every relation between them checked.

Strings are two arrays: their UTF-8 bytes, and where each of them ends.  Kernels are nested objects with numbers in the
header and widths per feature among the arrays.  Numbers that JSON lacks are written as ``{"$float": "nan"}``, so the
header stays readable for any JSON parser.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import kompakt
from kompakt.codings import CODINGS, get_coding
from kompakt.io.container import ModelFileError
from kompakt.kernels import Kernel, from_spec
from kompakt.model import KINDS, Model

Arrays = dict[str, np.ndarray]

#: one number per feature, each optional
_PER_FEATURE = ("input_shift", "input_scale", "input_fill", "offset")
#: how labels are kept: numbers or text, in an array of their own dtype or of Python objects
_LABELS = ("numbers", "text", "numbers as objects", "text as objects")
#: parameters of every kernel a file may hold: "number", "count" (whole, at least 1), "widths" (number or array)
_KERNELS: dict[str, dict[str, str]] = {
    "rbf": {"gamma": "widths"},
    "laplacian": {"gamma": "number"},
    "poly": {"gamma": "number", "coef0": "number", "degree": "count"},
    "linear": {},
    "constant": {"value": "number"},
}
_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_MAX_DEPTH, _MAX_PARTS = 16, 1000  # of kernels, and the depth of meta
#: features at most of a model that holds no number per feature, so that nothing in its file vouches for them
_MOST_BARE_FEATURES = 1 << 20
_TEXT_ARRAYS = (1, "uint8", 1, "int64")  # dimensions and dtypes of the two arrays of strings
# An array of strings takes four bytes per character of its LONGEST string in every row: one long string among
# many short ones could ask for far more memory than the file has bytes.
_MAX_EXPANDED = 256 << 20


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


#: the header's fields, and what each may be
_FIELDS: dict[str, Callable[[Any], bool]] = {
    "writer": lambda value: isinstance(value, str),
    "kind": lambda value: value in KINDS,
    "n_features": lambda value: type(value) is int and value >= 1,
    "squeeze": _is_bool,
    "coding": lambda value: value is None or (isinstance(value, str) and value in CODINGS),
    "classes": lambda value: value is None or value in _LABELS,
    "feature_names": _is_bool,
    "calibrated": _is_bool,
    "kernel": lambda value: isinstance(value, dict),
    "meta": lambda value: isinstance(value, dict),
}


# -- writing ---------------------------------------------------------------------------------------------


def encode(model: Model) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a model; raises TypeError or ValueError for what the schema cannot hold."""
    arrays: Arrays = {name: _as_float(getattr(model, name), name) for name in ("basis", "weights", "intercept")}
    kernel = _encode_kernel(model.kernel.spec(), arrays, model.n_features, [], 0)
    for name in (*_PER_FEATURE, "input_map"):
        if getattr(model, name) is not None:
            arrays[name] = _as_float(getattr(model, name), name)
    if model.calibration is not None:
        if set(model.calibration) != {"a", "b"}:
            raise ValueError(f"calibration must hold the arrays a and b; got {sorted(model.calibration)}.")
        arrays.update({f"calibration.{key}": _as_float(model.calibration[key], key) for key in "ab"})
    if model.feature_names is not None:
        _encode_strings(arrays, "feature_names", [str(name) for name in model.feature_names])
    header = {
        "writer": f"kompakt {kompakt.__version__}",
        "kind": model.kind,
        "n_features": int(model.n_features),
        "squeeze": bool(model.squeeze),
        "coding": model.coding,
        "classes": None if model.classes is None else _encode_labels(np.asarray(model.classes), arrays),
        "feature_names": model.feature_names is not None,
        "calibrated": model.calibration is not None,
        "kernel": kernel,
        "meta": _encode_value(dict(model.meta), "meta", 0),
    }
    _check_model(model)
    return header, arrays


def _as_float(values: Any, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold numbers; got dtype {values.dtype}.")
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _encode_labels(labels: np.ndarray, arrays: Arrays) -> str:
    suffix = ""
    if labels.dtype.kind == "O":
        suffix = " as objects"
        kinds = {type(label) for label in labels.tolist()}
        if len(kinds) == 1 and kinds <= {str, int, bool, float}:
            labels = np.array(labels.tolist())
    if labels.dtype.kind in "UT":
        _encode_strings(arrays, "classes", [str(label) for label in labels])
        return "text" + suffix
    if labels.dtype.kind in "biu" or labels.dtype in (np.float32, np.float64):
        arrays["classes"] = labels
        return "numbers" + suffix
    raise TypeError(
        f"labels of dtype {labels.dtype} cannot be saved; a model file holds labels that are all strings, all "
        "integers, all float32 or float64, or all booleans. Convert y before fitting."
    )


def _encode_strings(arrays: Arrays, name: str, strings: list[str]) -> None:
    """Add the two arrays; lone surrogates are kept."""
    _check_strings(name, strings)
    parts = [text.encode("utf-8", "surrogatepass") for text in strings]
    arrays[f"{name}.text"] = np.frombuffer(b"".join(parts), dtype=np.uint8)
    arrays[f"{name}.ends"] = np.cumsum([0, *map(len, parts)], dtype=np.int64)[1:]


def _encode_kernel(
    spec: dict[str, Any], arrays: Arrays, n_features: int, entered: list[str], depth: int
) -> dict[str, Any]:
    """A kernel's description; widths per feature are added to `arrays`."""
    name = spec["name"]
    _enter_kernel(name, entered, depth)
    if name in ("sum", "product"):
        parts = [_encode_kernel(part, arrays, n_features, entered, depth + 1) for part in spec["parts"]]
        return {"name": name, "parts": parts}
    if name not in _KERNELS or set(spec) != {"name", *_KERNELS[name]}:
        raise TypeError(
            f"a machine with the kernel {name!r} cannot be saved: a model file knows {', '.join(_KERNELS)}, and "
            "sums and products of these."
        )
    result: dict[str, Any] = {"name": name}
    for key, kind in _KERNELS[name].items():
        value = spec[key]
        if kind == "widths" and isinstance(value, np.ndarray):
            if value.shape != (n_features,):
                raise ValueError(f"the kernel has {value.shape} widths for {n_features} features.")
            reference = f"kernel.{len(entered)}.{key}"
            arrays[reference] = value
            result[key] = {"array": reference}
        else:
            result[key] = int(value) if kind == "count" else float(value)
    return result


def _encode_value(value: Any, where: str, depth: int) -> Any:
    """A value of `meta` as JSON types; tuples and arrays become lists."""
    if depth > _MAX_DEPTH:
        raise TypeError(f"{where} is nested more than {_MAX_DEPTH} deep; a model file keeps plain facts only.")
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None:
        return None
    for exact in (bool, int, str):  # without subclasses (such as enumerations), whose JSON form may differ
        if isinstance(value, exact):
            return exact(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": str(float(value))}
    if isinstance(value, list | tuple):
        return [_encode_value(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key.startswith("$"):
                raise TypeError(f"keys of {where} must be strings that do not begin with '$'; got {key!r}.")
        return {str(key): _encode_value(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}
    raise TypeError(
        f"{where} holds a {type(value).__name__}; a model file keeps strings, numbers, and lists and dicts of them. "
        "Remove it from the model's meta, or turn it into one of these."
    )


# -- reading ---------------------------------------------------------------------------------------------


def check_header(header: dict[str, Any]) -> None:
    """Names and types of the header's fields."""
    if set(header) != set(_FIELDS):
        missing, unknown = sorted(set(_FIELDS) - set(header)), sorted(set(header) - set(_FIELDS))
        raise ModelFileError(f"the header lacks {missing} and has unknown fields {str(unknown)[:200]}.")
    for name, holds in _FIELDS.items():
        if not holds(header[name]):
            raise ModelFileError(f"the header's field {name!r} has the invalid value {str(header[name])[:80]!r}.")


def decode(header: dict[str, Any], arrays: Arrays) -> Model:
    """The model of a checked header and its arrays; raises ModelFileError for anything that does not fit together."""
    left = dict(arrays)
    fields: dict[str, Any] = {name: _take(left, name, "f") for name in ("basis", "weights", "intercept")}
    fields |= {name: _take(left, name, "f") for name in (*_PER_FEATURE, "input_map") if name in left}
    if header["calibrated"]:
        fields["calibration"] = {key: _take(left, f"calibration.{key}", "f") for key in "ab"}
    if header["feature_names"]:
        fields["feature_names"] = _decode_strings(left, "feature_names")
    if (how := header["classes"]) is not None:
        labels = _decode_strings(left, "classes") if how.startswith("text") else _take(left, "classes", "biuf")
        fields["classes"] = labels.astype(object) if how.endswith("objects") else labels
    kernel = _decode_kernel(header["kernel"], left, header["n_features"])
    if left:
        raise ModelFileError(f"the file has arrays that belong to nothing: {', '.join(sorted(left))[:200]}.")
    shapes = (fields["basis"].ndim, fields["weights"].ndim, fields["intercept"].ndim)
    if shapes != (2, 2, 1):
        raise ModelFileError(f"basis, weights and intercept have {shapes} dimensions; expected (2, 2, 1).")
    fields |= {name: header[name] for name in ("kind", "n_features", "squeeze", "coding")}
    fields["meta"] = _decode_value(header["meta"], 0)
    try:
        model = Model(kernel=kernel, **fields)
        _check_model(model)
    except ValueError as error:
        raise ModelFileError(str(error)) from None
    return model


def _take(arrays: Arrays, name: str, kinds: str) -> np.ndarray:
    if name not in arrays:
        raise ModelFileError(f"the file lacks the array {name!r}.")
    values = arrays.pop(name)
    if values.dtype.kind not in kinds:
        raise ModelFileError(f"array {name!r} has dtype {values.dtype}, which does not fit its meaning.")
    return values


def _decode_strings(arrays: Arrays, name: str) -> np.ndarray:
    """Take the two arrays and return an array of strings."""
    text, ends = arrays.pop(f"{name}.text", None), arrays.pop(f"{name}.ends", None)
    if text is None or ends is None or (text.ndim, text.dtype.name, ends.ndim, ends.dtype.name) != _TEXT_ARRAYS:
        raise ModelFileError(f"the strings of {name!r} need the arrays {name}.text (uint8) and {name}.ends (int64).")
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends])
    if np.any(starts[1:] < starts[:-1]) or starts[-1] != len(text):
        raise ModelFileError(f"the strings of {name!r} do not follow one another to the end of their text.")
    raw = text.tobytes()
    try:
        strings = [raw[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(starts.tolist())]
    except UnicodeDecodeError:
        raise ModelFileError(f"the strings of {name!r} are not valid UTF-8.") from None
    return np.array(strings, dtype=f"<U{max(_check_strings(name, strings), 1)}")


def _decode_kernel(spec: Any, arrays: Arrays, n_features: int) -> Kernel:
    """The kernel of a description; its arrays are taken out of `arrays`."""
    entered: list[str] = []

    def checked(spec: Any, depth: int) -> dict[str, Any]:
        name = spec.get("name") if isinstance(spec, dict) else None
        _enter_kernel(str(name), entered, depth)
        if isinstance(name, str) and name in ("sum", "product"):
            parts = spec.get("parts")
            if set(spec) != {"name", "parts"} or not isinstance(parts, list) or len(parts) < 2:
                raise ModelFileError(f"a {name} of kernels needs a list of at least two parts.")
            return {"name": name, "parts": [checked(part, depth + 1) for part in parts]}
        if not isinstance(name, str) or name not in _KERNELS:
            known = ", ".join([*_KERNELS, "sum", "product"])
            raise ModelFileError(f"unknown kernel {str(name)[:40]!r}; this kompakt knows {known}.")
        if set(spec) != {"name", *_KERNELS[name]}:
            raise ModelFileError(f"the kernel {name!r} needs exactly {sorted(_KERNELS[name])}.")
        return {"name": name, **{key: parameter(spec[key], kind, key) for key, kind in _KERNELS[name].items()}}

    def parameter(value: Any, kind: str, key: str) -> Any:
        if kind == "widths" and isinstance(value, dict):
            reference = value.get("array")
            widths = arrays.pop(reference, None) if isinstance(reference, str) and len(value) == 1 else None
            if widths is None or widths.dtype != np.float64 or widths.shape != (n_features,):
                raise ModelFileError(f"the kernel's {key} refers to no array of {n_features} float64 widths.")
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

    plain = checked(spec, 0)
    try:
        return from_spec(plain)
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"the kernel is not valid: {error}") from None


def _decode_value(value: Any, depth: int) -> Any:
    """The value that `_encode_value` described."""
    if depth > _MAX_DEPTH + 1:
        raise ModelFileError(f"meta is nested more than {_MAX_DEPTH} deep.")
    if isinstance(value, list):
        return [_decode_value(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$float"}:
        if not isinstance(value["$float"], str) or value["$float"] not in _SPECIAL:
            raise ModelFileError(f"meta has an unknown number {value['$float']!r}; expected {sorted(_SPECIAL)}.")
        return _SPECIAL[value["$float"]]
    if any(key.startswith("$") for key in value):
        raise ModelFileError("meta has a reserved key that begins with '$'.")
    return {key: _decode_value(item, depth + 1) for key, item in value.items()}


# -- both ways -------------------------------------------------------------------------------------------


def _enter_kernel(name: str, entered: list[str], depth: int) -> None:
    entered.append(name)
    if depth > _MAX_DEPTH or len(entered) > _MAX_PARTS:
        raise ModelFileError(f"a kernel in a model file has at most {_MAX_PARTS} parts and {_MAX_DEPTH} levels.")


def _check_strings(name: str, strings: list[str]) -> int:
    """Length of the longest; raises where an array of the strings would be far larger than they are."""
    longest = max(map(len, strings), default=0)
    if 4 * len(strings) * longest > _MAX_EXPANDED:
        raise ModelFileError(
            f"{name}: {len(strings)} strings, the longest of {longest} characters, would take "
            f"{4 * len(strings) * longest} bytes as an array; at most {_MAX_EXPANDED} are allowed. Shorten the longest "
            "one."
        )
    return longest


def _check_model(model: Model) -> None:
    """Relations that a model must satisfy to be worth keeping; raises ValueError."""
    d, (m, L) = model.n_features, model.weights.shape
    shapes: dict[str, tuple[Any, tuple[int, ...]]] = {
        "basis": (model.basis, (m, d if model.input_map is None else len(model.input_map))),
        "weights": (model.weights, (m, L)),
        "intercept": (model.intercept, (L,)),
        "input_map": (model.input_map, (0 if model.input_map is None else len(model.input_map), d)),
        **{name: (getattr(model, name), (d,)) for name in (*_PER_FEATURE, "feature_names")},
    }
    if model.calibration is not None:
        if model.classes is None:
            raise ValueError("only a classifier has a calibration.")
        columns = 1 if len(model.classes) <= 2 else len(model.classes)
        shapes |= {f"calibration {key}": (values, (columns,)) for key, values in model.calibration.items()}
    for name, (values, expected) in shapes.items():
        if values is None:
            continue
        if np.shape(values) != expected:
            raise ValueError(f"{name} has shape {np.shape(values)}; this model needs {expected}.")
        if np.asarray(values).dtype.kind == "f" and not np.all(np.isfinite(values)):
            raise ValueError(f"{name} holds NaN or infinite values, so the model cannot predict. Fit it again.")
    if L < 1:
        raise ValueError("the model has no output: its weights have no column.")
    # Whoever uses the model makes rows of its width; a few bytes must not ask for gigabytes.
    bare = not m and all(getattr(model, name) is None for name in (*_PER_FEATURE, "input_map", "feature_names"))
    if bare and d > _MOST_BARE_FEATURES:
        raise ValueError(
            f"the model declares {d} features and holds no vector and no number for any of them; a model without "
            f"vectors has at most {_MOST_BARE_FEATURES} features. Give it one vector of zeros with weight 0."
        )
    if model.input_scale is not None and np.any(np.asarray(model.input_scale) == 0):
        raise ValueError("input_scale holds zeros, and inputs are divided by it.")
    if model.kind == "outlier" and L != 1:
        raise ValueError(f"an outlier detector has one output; got {L}.")
    if model.classes is None:
        return
    classes = np.asarray(model.classes)
    if classes.ndim != 1 or not len(classes) or len(set(classes.tolist())) != len(classes):
        raise ValueError(f"classes must be distinct labels in one dimension; got shape {classes.shape}.")
    coding = get_coding(model.coding or "one_vs_rest")
    if len(classes) > 1 and coding.n_outputs(len(classes)) != L:
        raise ValueError(
            f"{coding.name} with {len(classes)} classes needs {coding.n_outputs(len(classes))} outputs; "
            f"the weights have {L}."
        )
