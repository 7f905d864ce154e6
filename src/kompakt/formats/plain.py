"""Values that JSON can hold exactly: what may stand in a model's `meta`, and a strict JSON reader.

Numbers that JSON lacks are written as ``{"$float": "nan"}``, so the header stays readable for any JSON parser.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from kompakt.formats.errors import ModelFileError

MAX_DEPTH = 16
_TAG = "$float"
_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def to_plain(value: Any, where: str = "meta", depth: int = 0) -> Any:
    """The value as JSON types; tuples and arrays become lists."""
    if depth > MAX_DEPTH:
        raise TypeError(f"{where} is nested more than {MAX_DEPTH} deep; a model file keeps plain facts only.")
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return _exact_type(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return {_TAG: "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    if isinstance(value, list | tuple):
        return [to_plain(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key.startswith("$"):
                raise TypeError(f"keys of {where} must be strings that do not begin with '$'; got {key!r}.")
        return {str(key): to_plain(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}
    raise TypeError(
        f"{where} holds a {type(value).__name__}; a model file keeps strings, numbers, and lists and dicts of them. "
        "Remove it from the model's meta, or turn it into one of these."
    )


def _exact_type(value: Any) -> Any:
    """Without subclasses (such as enumerations), whose JSON form may differ."""
    for exact in (bool, int, str):
        if isinstance(value, exact):
            return exact(value)
    return None


def from_plain(value: Any, where: str = "meta", depth: int = 0) -> Any:
    """The value that `to_plain` described."""
    if depth > MAX_DEPTH + 1:
        raise ModelFileError(f"{where} is nested more than {MAX_DEPTH} deep.")
    if isinstance(value, list):
        return [from_plain(item, where, depth + 1) for item in value]
    if isinstance(value, dict):
        if set(value) == {_TAG}:
            if not isinstance(value[_TAG], str) or value[_TAG] not in _SPECIAL:
                raise ModelFileError(f"{where} has an unknown number {value[_TAG]!r}; expected {sorted(_SPECIAL)}.")
            return _SPECIAL[value[_TAG]]
        if any(key.startswith("$") for key in value):
            raise ModelFileError(f"{where} has a reserved key that begins with '$'.")
        return {key: from_plain(item, where, depth + 1) for key, item in value.items()}
    return value


def parse_json(raw: bytes) -> Any:
    """JSON as the standard has it: no NaN, no number beyond float64, no key twice."""
    try:
        return json.loads(
            raw.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_no_constant, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        cause = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise ModelFileError(f"the header is not valid JSON: {cause}.") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return result


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is beyond the numbers of float64")
    return value
