"""Versions 1 to 3 of the schema: a `Model` as header and arrays, and back, with every relation between them checked.

A rounded model makes version 2: its basis and weights are arrays of int8 or float16, with their steps beside them.
One of other bits than 8 (and 16 for a map) makes version 3: levels of fewer bits are packed one behind the other.
Features that bend make version 3: the number of pieces of every feature, all knots and all slopes;
so do intervals, ordered quantiles, and calibrations that are no sigmoids.

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
from kompakt.calibration import check_calibration
from kompakt.codings import CODINGS, get_coding
from kompakt.data.table import TableSchema
from kompakt.inputs import Inputs
from kompakt.io import container
from kompakt.io.container import ModelFileError, require
from kompakt.io.files import PathLike, opened, write_atomically
from kompakt.io.fitted import model_of
from kompakt.kernels import from_spec
from kompakt.model import KINDS, LINKS, STORAGES, Interval, Model, Storage, largest_level
from kompakt.record import TrainingRecord

Arrays = dict[str, np.ndarray]

#: arrays of the inputs by their names in a file
_BENDS = {"input_pieces": "pieces", "input_knots": "knots", "input_slopes": "slopes"}
_INPUTS = {
    "input_shift": "shift", "input_scale": "scale", "input_fill": "fill", "input_map": "map", "offset": "centre",
    **_BENDS,
}  # fmt: skip
#: arrays of numbers and their shapes, by the letters of `_check_model`; those of the inputs may be missing
_SHAPES = {
    "basis": "mr", "weights": "mL", "intercept": "L",
    **dict.fromkeys(_INPUTS, "d"), "input_map": "rd", "input_knots": "t", "input_slopes": "s",
    "interval.reach": "L", "interval.weights": "mL", "interval.intercept": "L", "interval.floor": "L",
}  # fmt: skip
_NEEDED = ("basis", "weights", "intercept")
#: arrays that a rounded model keeps as levels, in the order of its bits
_LEVELS = ("input_map", "basis", "weights")
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
# An array of strings takes four bytes per character of its LONGEST string in every row: one long string among
# many short ones could ask for far more memory than the file has bytes.
_MAX_EXPANDED = 256 << 20


#: bends are held with as many pieces for every feature as one has; where these are many, not so often the stored ones
_FEW_PIECES, _PADDING = 1 << 18, 32
#: the header's fields, and what each may be
_FIELDS: dict[str, Callable[[Any], bool]] = {
    "writer": lambda value: isinstance(value, str),
    "kind": lambda value: value in KINDS,
    "n_features": lambda value: type(value) is int and value >= 1,
    "squeeze": lambda value: isinstance(value, bool),
    "coding": lambda value: value is None or (isinstance(value, str) and value in CODINGS),
    "classes": lambda value: value is None or value in _LABELS,
    "feature_names": lambda value: isinstance(value, bool),
    "calibrated": lambda value: isinstance(value, bool),
    "kernel": lambda value: isinstance(value, dict),
    "meta": lambda value: isinstance(value, dict),
}
#: fields that a file has only where the model has them
_OPTIONAL: dict[str, Callable[[Any], bool]] = {
    "schema": lambda value: isinstance(value, dict),
    "record": lambda value: isinstance(value, dict),
    "storage": lambda value: isinstance(value, str) and value in STORAGES,
    "bits": lambda value: isinstance(value, list) and len(value) == 3 and all(type(bits) is int for bits in value),
    "n_basis": lambda value: type(value) is int and 0 <= value <= container.MAX_DIMENSION,
    "link": lambda value: isinstance(value, str) and value in LINKS,
    "interval": lambda value: isinstance(value, float) and 0 < value < 1,
    "ordered": lambda value: value is True,
}
#: bits of maps, basis and weights of version 2
_FIRST_BITS = (16, 8, 8)


# -- writing ---------------------------------------------------------------------------------------------


def encode(model: Model) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a model; raises TypeError or ValueError for what the schema cannot hold."""
    numbers = {name: np.asarray(values) for name, values in _numbers_of(model).items()}
    for name, values in numbers.items():
        if values.dtype.kind not in "fiub":
            raise TypeError(f"{name} must hold numbers; got dtype {values.dtype}.")
        if name in _BENDS:
            numbers[name] = _shortest(values)
        elif values.dtype not in (np.float32, np.float64):
            numbers[name] = values.astype(np.float64)
    arrays: Arrays = {name: numbers.pop(name) for name in _NEEDED}
    if (storage := model.storage) is not None:
        for name, steps in (("basis", storage.basis_steps), ("weights", storage.weight_steps)):
            arrays[name], arrays[f"{name}.steps"] = storage.small(arrays[name], steps), steps.astype(np.float32)
        if storage.map_steps is not None:
            arrays["input_map.steps"] = storage.map_steps.astype(np.float32)
            numbers["input_map"] = storage.small_map(numbers["input_map"])
        for name, bits in zip(_LEVELS, storage.bits, strict=True):
            levels = numbers if name in numbers else arrays
            if name in levels and bits < 8:
                levels[name] = _packed(levels[name], bits)

    def parameter(value: Any, kind: str, name: str) -> Any:
        if kind != "widths" or not isinstance(value, np.ndarray):
            return int(value) if kind == "count" else float(value)
        require(
            value.shape == (model.n_features,), f"the kernel has {value.shape} widths for {model.n_features} features."
        )
        arrays[name] = value
        return {"array": name}

    kernel = _mapped_kernel(model.kernel.spec(), parameter, TypeError)
    arrays |= numbers
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
    if model.inputs.schema is not None:
        header["schema"] = model.inputs.schema.to_json()
    if model.record is not None:
        header["record"] = model.record.to_json()
    if storage is not None:
        header["storage"] = storage.dtype
        if storage.dtype == "int8" and _bits_of(model) != _FIRST_BITS:
            header |= {"bits": list(storage.bits), "n_basis": len(model.basis)}
    if model.link != "identity":
        header["link"] = model.link
    if model.ordered:
        header["ordered"] = True
    if model.interval is not None:
        header["interval"] = float(model.interval.level)
    _check_model(model)
    return header, arrays


def _bits_of(model: Model) -> tuple[int, ...]:
    """Bits of map, basis and weights; a map that is not rounded counts as one of version 2."""
    assert model.storage is not None
    return model.storage.bits if model.storage.map_steps is not None else (_FIRST_BITS[0], *model.storage.bits[1:])


def _packed(levels: np.ndarray, bits: int) -> np.ndarray:
    """Levels as numbers from 1 on, of so many bits each, one behind the other."""
    numbers = (levels.ravel().astype(np.int16) + (1 << (bits - 1))).astype(np.uint8)
    return np.packbits(np.unpackbits(numbers[:, None], axis=1)[:, 8 - bits :])


def _unpacked(packed: np.ndarray, bits: int, shape: tuple[int, int], name: str) -> np.ndarray:
    """The levels of `_packed`."""
    count = shape[0] * shape[1]
    fits = packed.ndim == 1 and packed.dtype == np.uint8 and len(packed) == -(-count * bits // 8)
    require(fits, f"array {name!r} does not hold {shape[0]} x {shape[1]} numbers of {bits} bits.")
    singles = np.zeros((count, 8), dtype=np.uint8)
    singles[:, 8 - bits :] = np.unpackbits(packed, count=count * bits).reshape(count, bits)
    return (np.packbits(singles).astype(np.int16) - (1 << (bits - 1))).astype(np.int8).reshape(shape)


def _shortest(values: np.ndarray) -> np.ndarray:
    """Numbers in the shortest type of float that holds them: those of a rounded model take two bytes each."""
    for dtype in (np.float16, np.float32) if values.dtype.kind == "f" else ():
        with np.errstate(over="ignore"):
            short = values.astype(dtype)
        if np.array_equal(short, values):
            return np.asarray(short)
    return values


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
    """Add the two arrays."""
    _check_strings(name, strings)
    try:
        parts = [text.encode("utf-8") for text in strings]
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} holds {error.object!r}, with half of a surrogate pair: no file and no terminal can write it as "
            "text. Decode the labels anew where they came from (UTF-8), and fit again."
        ) from None
    arrays[f"{name}.text"] = np.frombuffer(b"".join(parts), dtype=np.uint8)
    arrays[f"{name}.ends"] = np.cumsum([0, *map(len, parts)], dtype=np.int64)[1:]


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
    missing, unknown = sorted(set(_FIELDS) - set(header)), sorted(set(header) - set(_FIELDS) - set(_OPTIONAL))
    if missing or unknown:
        raise ModelFileError(f"the header lacks {missing} and has unknown fields {str(unknown)[:200]}.")
    for name, holds in (_FIELDS | _OPTIONAL).items():
        if name in header and not holds(header[name]):
            raise ModelFileError(f"the header's field {name!r} has the invalid value {str(header[name])[:80]!r}.")


def decode(header: dict[str, Any], arrays: Arrays) -> Model:
    """The model of a checked header and its arrays; raises ModelFileError for anything that does not fit together."""
    unread, d = dict(arrays), header["n_features"]
    may_lack = [*_INPUTS, *(name for name in _SHAPES if name.startswith("interval."))]
    optional = [name for name in may_lack if name not in unread]
    require(
        not set(_BENDS) & set(optional) or set(_BENDS) <= set(optional),
        f"bends need the arrays {', '.join(_BENDS)}; the file lacks some of them.",
    )
    storage = _rounded_numbers(unread, header) if "storage" in header else None
    fields: dict[str, Any] = {
        name: _take(unread, name, "u" if name == "input_pieces" else "f")
        for name in _SHAPES
        if name not in optional
    }
    if (pieces := fields.get("input_pieces")) is not None:
        padded = d * int(pieces.max(initial=0))  # numbers that the bends take in memory
        sound = pieces.dtype == np.uint8 and padded <= max(_FEW_PIECES, _PADDING * fields["input_slopes"].size)
        require(sound, "input_pieces must be bytes, and of similar size for all features.")
    half = [name for name, values in fields.items() if values.dtype == np.float16 and name not in _BENDS]
    require(not half, f"array {', '.join(half)} has dtype float16, which only the numbers of a rounded model have.")
    names = [name for name in unread if name.startswith("calibration.")]
    calibrated = {name.split(".")[1]: _take(unread, name, "f") for name in names}
    require(bool(calibrated) == header["calibrated"], "a calibrated model needs the arrays of its calibration.")
    if calibrated:
        fields["calibration"] = calibrated
    if header["feature_names"]:
        fields["feature_names"] = _decode_strings(unread, "feature_names")
    if (kind := header["classes"]) is not None:
        labels = _decode_strings(unread, "classes") if kind.startswith("text") else _take(unread, "classes", "biuf")
        fields["classes"] = labels.astype(object) if kind.endswith("objects") else labels

    def parameter(value: Any, kind: str, name: str) -> Any:
        if kind == "widths" and isinstance(value, dict):
            reference = value.get("array")
            widths = unread.pop(reference, None) if isinstance(reference, str) and len(value) == 1 else None
            sound = widths is not None and widths.dtype == np.float64 and widths.shape == (d,)
            require(sound, f"{name} refers to no array of {d} float64 widths.")
            return widths
        require(isinstance(value, int | float) and not isinstance(value, bool), f"{name} must be a number.")
        if kind == "count":
            whole = isinstance(value, int) and 1 <= value < 1 << 31
            require(whole, f"{name} must be a whole number of at least 1.")
            return value
        try:
            return float(value)
        except OverflowError:
            raise ModelFileError(f"{name} is beyond the numbers of float64.") from None

    described = _mapped_kernel(header["kernel"], parameter, ModelFileError)
    require(not unread, f"the file has arrays that belong to nothing: {', '.join(sorted(unread))[:200]}.")
    shapes = tuple(fields[name].ndim for name in _NEEDED)
    require(shapes == (2, 2, 1), f"basis, weights and intercept have {shapes} dimensions; expected (2, 2, 1).")
    fields |= {name: header[name] for name in ("kind", "n_features", "squeeze", "coding", "link") if name in header}
    fields["meta"] = _decode_value(header["meta"], 0)
    fields["ordered"] = header.get("ordered", False)
    try:
        schema = TableSchema.from_json(header["schema"]) if "schema" in header else None
        record = TrainingRecord.from_json(header["record"]) if "record" in header else None
        of_inputs = {field: fields.pop(name) for name, field in _INPUTS.items() if name in fields}
        inputs = Inputs.of_arrays(schema, of_inputs)
        parts = {name: fields.pop(name) for name in list(fields) if name.startswith("interval.")}
        require(bool(parts) == ("interval" in header), "the level of an interval and its arrays go together.")
        interval = None
        if parts:
            require("interval.reach" in parts, "the file lacks the array 'interval.reach'.")
            interval = Interval(header["interval"], **{name.split(".")[1]: values for name, values in parts.items()})
        model = Model(
            kernel=from_spec(described), inputs=inputs, record=record, storage=storage, interval=interval, **fields
        )
        _check_model(model)
    except (TypeError, ValueError) as error:
        raise ModelFileError(str(error)) from None
    return model


def _rounded_numbers(arrays: Arrays, header: dict[str, Any]) -> Storage:
    """How a rounded model is kept; its small numbers are replaced by what they stand for."""
    dtype, bits = header["storage"], tuple(header.get("bits", _FIRST_BITS))
    require(("bits" in header) == ("n_basis" in header), "the header needs bits and n_basis together, or none of them.")
    steps: dict[str, np.ndarray] = {}
    for name in (name for name in _LEVELS if name != "input_map" or "input_map.steps" in arrays):
        steps[name] = _take(arrays, f"{name}.steps", "f")
        require(steps[name].ndim == 1 and steps[name].dtype == np.float32, f"array '{name}.steps' is not of float32.")
    try:
        storage = Storage(dtype, steps["basis"], steps["weights"], steps.get("input_map"), bits)
    except ValueError as error:
        raise ModelFileError(str(error)) from None
    for name, level_bits in zip(_LEVELS, bits, strict=True):
        if name not in steps:
            continue
        require(name in arrays, f"the file lacks the array {name!r}.")
        rows = name == "input_map"  # which has a step for every row, the others for every column
        shape = (len(steps[name]), header["n_features"]) if rows else (header.get("n_basis", 0), len(steps[name]))
        if level_bits < 8:
            arrays[name] = _unpacked(arrays[name], level_bits, shape, name)
        small, expected = arrays[name], "int16" if level_bits == 16 else "int8" if rows else dtype
        kept = small.dtype == expected
        require(kept, f"array {name!r} has dtype {small.dtype}; a model of {expected} was announced.")
        fits = small.ndim == 2 and len(steps[name]) == small.shape[0 if rows else 1]
        line = "row" if rows else "column"
        require(fits, f"array {name!r} of shape {small.shape} needs a float32 step for every {line}.")
        half = small.dtype == np.float16
        sound = np.all(np.isfinite(small)) if half else np.all(small >= -largest_level(level_bits))
        require(sound, f"array {name!r} holds numbers that are no part of a rounded model.")
        values = storage.values(small.T if rows else small, steps[name].astype(np.float64))
        values = np.ascontiguousarray(values.T if rows else values)
        arrays[name] = values.astype(np.float32) if name == "basis" else values
    return storage


def _take(arrays: Arrays, name: str, kinds: str) -> np.ndarray:
    require(name in arrays, f"the file lacks the array {name!r}.")
    values = arrays.pop(name)
    require(values.dtype.kind in kinds, f"array {name!r} has dtype {values.dtype}, which does not fit its meaning.")
    return values


def _decode_strings(arrays: Arrays, name: str) -> np.ndarray:
    """Take the two arrays and return an array of strings."""
    text, ends = _take(arrays, f"{name}.text", "u"), _take(arrays, f"{name}.ends", "i")
    plain = (text.ndim, text.dtype.name, ends.ndim, ends.dtype.name) == (1, "uint8", 1, "int64")
    require(plain, f"the strings of {name!r} need the arrays {name}.text (uint8) and {name}.ends (int64).")
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends])
    ordered = np.all(starts[1:] >= starts[:-1]) and starts[-1] == len(text)
    require(ordered, f"the strings of {name!r} do not follow one another to the end of their text.")
    raw = text.tobytes()
    try:
        strings = [raw[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(starts.tolist())]
    except UnicodeDecodeError:
        raise ModelFileError(f"the strings of {name!r} are not valid UTF-8.") from None
    return np.array(strings, dtype=f"<U{max(_check_strings(name, strings), 1)}")


def _decode_value(value: Any, depth: int) -> Any:
    """The value that `_encode_value` described."""
    require(depth <= _MAX_DEPTH + 1, f"meta is nested more than {_MAX_DEPTH} deep.")
    if isinstance(value, list):
        return [_decode_value(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$float"}:
        is_known = isinstance(value["$float"], str) and value["$float"] in _SPECIAL
        require(is_known, f"meta has an unknown number {value['$float']!r}; expected {sorted(_SPECIAL)}.")
        return _SPECIAL[value["$float"]]
    require(not any(key.startswith("$") for key in value), "meta has a reserved key that begins with '$'.")
    return {key: _decode_value(item, depth + 1) for key, item in value.items()}


# -- both ways -------------------------------------------------------------------------------------------


def _mapped_kernel(
    spec: Any, parameter: Callable[[Any, str, str], Any], refuse: type[TypeError | ValueError]
) -> dict[str, Any]:
    """A kernel's description with `parameter(value, kind, name)` in the place of every value; raises `refuse`."""
    entered = 0

    def mapped(spec: Any, depth: int) -> dict[str, Any]:
        nonlocal entered
        entered += 1
        small = depth <= _MAX_DEPTH and entered <= _MAX_PARTS
        require(small, f"a kernel in a model file has at most {_MAX_PARTS} parts and {_MAX_DEPTH} levels.")
        place, name = entered, spec.get("name") if isinstance(spec, dict) else None
        if name in ("sum", "product"):
            parts = spec.get("parts")
            sound = set(spec) == {"name", "parts"} and isinstance(parts, list) and len(parts) >= 2
            require(sound, f"a {name} of kernels needs a list of at least two parts.")
            return {"name": name, "parts": [mapped(part, depth + 1) for part in parts]}
        if not isinstance(name, str) or name not in _KERNELS:
            known = f"{', '.join(_KERNELS)}, and sums and products of these"
            raise refuse(f"unknown kernel {str(name)[:40]!r} in a model file, which can hold {known}.")
        if set(spec) != {"name", *_KERNELS[name]}:
            raise refuse(f"the kernel {name!r} in a model file needs exactly {sorted(_KERNELS[name])}.")
        values = {key: parameter(spec[key], kind, f"kernel.{place}.{key}") for key, kind in _KERNELS[name].items()}
        return {"name": name, **values}

    return mapped(spec, 0)


def _check_strings(name: str, strings: list[str]) -> int:
    """Length of the longest; raises where an array of the strings would be far larger than they are."""
    longest = max(map(len, strings), default=0)
    expanded = 4 * len(strings) * longest
    require(
        expanded <= _MAX_EXPANDED,
        f"{name}: {len(strings)} strings, the longest of {longest} characters, would take {expanded} bytes as an "
        f"array; at most {_MAX_EXPANDED} are allowed. Shorten the longest one.",
    )
    return longest


def _numbers_of(model: Model) -> dict[str, Any]:
    """The arrays of numbers of a model by their names in a file."""
    values: dict[str, Any] = {name: getattr(model, name) for name in _NEEDED}
    arrays = model.inputs.arrays()
    values |= {name: arrays[field] for name, field in _INPUTS.items() if field in arrays}
    if model.interval is not None:
        values |= {f"interval.{name}": array for name, array in model.interval.arrays().items()}
    return values | {f"calibration.{key}": value for key, value in (model.calibration or {}).items()}


def _check_model(model: Model) -> None:
    """Relations that a model must satisfy to be worth keeping; raises ValueError."""
    d, (m, L) = model.n_features, model.weights.shape
    classes = None if model.classes is None else np.asarray(model.classes)
    n_classes = 0 if classes is None else len(classes)
    rank = d if model.inputs.map is None else len(model.inputs.map)
    sizes = {"m": m, "d": d, "r": rank, "L": L, "k": 1 if n_classes <= 2 else n_classes}
    if model.inputs.bends is not None:  # which has compared them with the pieces
        sizes |= {letter: len(model.inputs.arrays()[field]) for letter, field in (("t", "knots"), ("s", "slopes"))}
    if model.calibration is not None:
        require(classes is not None, "only a classifier has a calibration.")
        check_calibration(model.calibration, sizes["k"])
    arrays, shapes = _numbers_of(model), dict(_SHAPES)
    if model.feature_names is not None:
        arrays["feature_names"], shapes["feature_names"] = model.feature_names, "d"
    for name, values in arrays.items():
        expected = np.shape(values)
        if name in shapes:  # those of a calibration were checked together
            expected = tuple(sizes[letter] for letter in shapes[name])
        require(np.shape(values) == expected, f"{name} has shape {np.shape(values)}; this model needs {expected}.")
        finite = np.asarray(values).dtype.kind != "f" or np.all(np.isfinite(values))
        require(finite, f"{name} holds NaN or infinite values, so the model cannot predict. Fit it again.")
    require(L >= 1, "the model has no output: its weights have no column.")
    # Whoever uses the model makes rows of its width; a few bytes must not ask for gigabytes.
    require(
        m or d <= _MOST_BARE_FEATURES or any(shapes.get(name, "").endswith("d") for name in arrays),
        f"the model declares {d} features and holds no vector and no number for any of them; a model without "
        f"vectors has at most {_MOST_BARE_FEATURES} features. Give it one vector of zeros with weight 0.",
    )
    zeros = model.inputs.scale is not None and bool(np.any(model.inputs.scale == 0))
    require(not zeros, "input_scale holds zeros, and inputs are divided by it.")
    require(model.kind == "regressor" or not model.ordered, "only the outputs of a regressor are ordered.")
    require(model.kind != "outlier" or L == 1, f"an outlier detector has one output; got {L}.")
    if classes is None:
        return
    distinct = classes.ndim == 1 and 0 < len(set(classes.tolist())) == n_classes
    require(distinct, f"classes must be distinct labels in one dimension; got shape {classes.shape}.")
    coding = get_coding(model.coding or "one_vs_rest")
    needed = coding.n_outputs(n_classes) if n_classes > 1 else L
    require(needed == L, f"{coding.name} with {n_classes} classes needs {needed} outputs; the weights have {L}.")


# -- files -----------------------------------------------------------------------------------------------


def save(estimator_or_model: Any, path: PathLike) -> None:
    """Write a fitted estimator's machine, or a `Model`, to a file.

    The file holds what prediction needs (kernel, basis vectors, weights, labels, input scaling, calibration, feature
    names, `meta`, the record of the training), as plain numbers: no pickle, so loading it never runs code.  It is
    written beside `path` and put in its place only when it is complete, so an interrupted save leaves the old file.

    Parameters
    ----------
    estimator_or_model : fitted kompakt estimator or Model
        Also as the last step of a `Pipeline` behind a `SimpleImputer` or scalers (`StandardScaler`, `MinMaxScaler`,
        `MaxAbsScaler`, `RobustScaler`), which become part of the model, so that it takes rows as the pipeline does; or
        as the best estimator of a search.
    path : path-like

    Raises
    ------
    NotFittedError
        If the estimator is not fitted.
    TypeError
        For a pipeline with other steps (``save(pipeline[-1], path)`` saves the machine without them), for a callable
        or precomputed kernel, for labels that are neither text nor numbers, for objects in `meta`.
    ValueError
        If the model contradicts itself or holds NaN.
    OSError
        If `path` is a device, a pipe or a folder, or cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib, kompakt
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = kompakt.CompactSVC(n_basis=10, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kompakt.save(machine, pathlib.Path(folder, "iris.kompakt"))
    ...     model = kompakt.load(pathlib.Path(folder, "iris.kompakt"))
    >>> bool((model.predict(X) == machine.predict(X)).all())
    True
    """
    header, arrays = encode(model_of(estimator_or_model))
    is_new = "bits" in header or "input_pieces" in arrays or "interval" in header or "ordered" in header
    is_new = is_new or (header["calibrated"] and "calibration.a" not in arrays)
    version = 3 if is_new else 2 if "storage" in header else 1
    write_atomically(path, container.pack(header, arrays, version))


def load(path: PathLike) -> Model:
    """Read the machine that `save` wrote.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Model
        With `predict`, `decision_function`, `classes_` and `basis_vectors_`.

    Raises
    ------
    ModelFileError
        If the file is damaged, no model file, or of a version that this kompakt does not read.
    OSError
        If the file cannot be opened.

    Examples
    --------
    >>> import tempfile, pathlib, kompakt, numpy as np
    >>> from kompakt.kernels import Linear
    >>> model = kompakt.Model(Linear(), np.ones((1, 1)), np.array([[2.0]]), np.zeros(1), "regressor", n_features=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kompakt.save(model, pathlib.Path(folder, "line.kompakt"))
    ...     kompakt.load(pathlib.Path(folder, "line.kompakt")).predict([[3.0]])
    array([6.])
    """
    with opened(path) as (file, size):
        return decode(*container.read(file, size, check_header))


def read_header(path: PathLike) -> dict[str, Any]:
    """What is inside a model file: its header, with the shapes and dtypes of its arrays, which are not loaded.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    dict
        The header's fields and ``"arrays"``, a dict from name to (dtype, shape).

    Examples
    --------
    >>> import tempfile, pathlib, kompakt, numpy as np
    >>> from kompakt.io import read_header
    >>> from kompakt.kernels import Linear
    >>> model = kompakt.Model(Linear(), np.ones((1, 1)), np.array([[2.0]]), np.zeros(1), "regressor", n_features=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kompakt.save(model, pathlib.Path(folder, "line.kompakt"))
    ...     header = read_header(pathlib.Path(folder, "line.kompakt"))
    >>> header["kernel"], header["arrays"]["weights"]
    ({'name': 'linear'}, ('float64', (1, 1)))
    """
    with opened(path) as (file, size):
        header, entries = container.read_header(file, size)
        check_header(header)
    return {**header, "arrays": {entry.name: (entry.dtype.name, entry.shape) for entry in entries}}
