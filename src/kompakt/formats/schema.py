"""Version 1 of the schema: a `Model` as header and arrays, and back, with every relation between them checked."""

from __future__ import annotations

from typing import Any

import numpy as np

import kompakt
from kompakt.codings import CODINGS, get_coding
from kompakt.formats.errors import ModelFileError
from kompakt.formats.kernel_spec import decode_kernel, encode_kernel
from kompakt.formats.plain import from_plain, to_plain
from kompakt.formats.strings import decode_strings, encode_strings
from kompakt.model import KINDS, Model

Arrays = dict[str, np.ndarray]

#: one number per feature, each optional
_PER_FEATURE = ("input_shift", "input_scale", "input_fill", "offset")
_FIELDS = {
    "writer", "kind", "n_features", "squeeze", "coding", "classes", "feature_names", "calibrated", "kernel", "meta",
}  # fmt: skip
#: features at most of a model that holds no number per feature, so that nothing in its file vouches for them
_MOST_BARE_FEATURES = 1 << 20
#: how labels are kept: numbers or text, in an array of their own dtype or of Python objects
_LABELS = ("numbers", "text", "numbers as objects", "text as objects")


# -- writing ---------------------------------------------------------------------------------------------


def encode(model: Model) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a model; raises TypeError or ValueError for what the schema cannot hold."""
    arrays: Arrays = {name: _as_float(getattr(model, name), name) for name in ("basis", "weights", "intercept")}
    kernel = encode_kernel(model.kernel, arrays, model.n_features)
    for name in _PER_FEATURE:
        if getattr(model, name) is not None:
            arrays[name] = _as_float(getattr(model, name), name)
    if model.calibration is not None:
        if set(model.calibration) != {"a", "b"}:
            raise ValueError(f"calibration must hold the arrays a and b; got {sorted(model.calibration)}.")
        arrays.update({f"calibration.{key}": _as_float(model.calibration[key], key) for key in "ab"})
    if model.feature_names is not None:
        encode_strings(arrays, "feature_names", [str(name) for name in model.feature_names])
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
        "meta": to_plain(dict(model.meta)),
    }
    check_model(model)
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
        encode_strings(arrays, "classes", [str(label) for label in labels])
        return "text" + suffix
    if labels.dtype.kind in "biu" or labels.dtype in (np.float32, np.float64):
        arrays["classes"] = labels
        return "numbers" + suffix
    raise TypeError(
        f"labels of dtype {labels.dtype} cannot be saved; a model file holds labels that are all strings, all "
        "integers, all float32 or float64, or all booleans. Convert y before fitting."
    )


# -- reading ---------------------------------------------------------------------------------------------


def decode(header: dict[str, Any], arrays: Arrays) -> Model:
    """The model of a header and its arrays; raises ModelFileError for anything that does not fit together."""
    check_header(header)
    left = dict(arrays)
    fields: dict[str, Any] = {name: _take(left, name, "f") for name in ("basis", "weights", "intercept")}
    fields |= {name: _take(left, name, "f") for name in _PER_FEATURE if name in left}
    if header["calibrated"]:
        fields["calibration"] = {key: _take(left, f"calibration.{key}", "f") for key in "ab"}
    if header["feature_names"]:
        fields["feature_names"] = decode_strings(left, "feature_names")
    if header["classes"] is not None:
        fields["classes"] = _decode_labels(header["classes"], left)
    kernel = decode_kernel(header["kernel"], left, header["n_features"])
    if left:
        raise ModelFileError(f"the file has arrays that belong to nothing: {', '.join(sorted(left))[:200]}.")
    shapes = (fields["basis"].ndim, fields["weights"].ndim, fields["intercept"].ndim)
    if shapes != (2, 2, 1):
        raise ModelFileError(f"basis, weights and intercept have {shapes} dimensions; expected (2, 2, 1).")
    try:
        model = Model(
            kernel=kernel,
            kind=header["kind"],
            n_features=header["n_features"],
            squeeze=header["squeeze"],
            coding=header["coding"],
            meta=from_plain(header["meta"]),
            **fields,
        )
        check_model(model)
    except ModelFileError:
        raise
    except ValueError as error:
        raise ModelFileError(str(error)) from None
    return model


def check_header(header: dict[str, Any]) -> None:
    """Names and types of the header's fields."""
    if set(header) != _FIELDS:
        missing, unknown = sorted(_FIELDS - set(header)), sorted(set(header) - _FIELDS)
        raise ModelFileError(f"the header lacks {missing} and has unknown fields {str(unknown)[:200]}.")
    rules = {
        "writer": isinstance(header["writer"], str),
        "kind": header["kind"] in KINDS,
        "n_features": type(header["n_features"]) is int and header["n_features"] >= 1,
        "squeeze": isinstance(header["squeeze"], bool),
        "coding": header["coding"] is None or (isinstance(header["coding"], str) and header["coding"] in CODINGS),
        "classes": header["classes"] is None or header["classes"] in _LABELS,
        "feature_names": isinstance(header["feature_names"], bool),
        "calibrated": isinstance(header["calibrated"], bool),
        "kernel": isinstance(header["kernel"], dict),
        "meta": isinstance(header["meta"], dict),
    }
    for name, holds in rules.items():
        if not holds:
            raise ModelFileError(f"the header's field {name!r} has the invalid value {str(header[name])[:80]!r}.")


def _take(arrays: Arrays, name: str, kinds: str) -> np.ndarray:
    if name not in arrays:
        raise ModelFileError(f"the file lacks the array {name!r}.")
    values = arrays.pop(name)
    if values.dtype.kind not in kinds:
        raise ModelFileError(f"array {name!r} has dtype {values.dtype}, which does not fit its meaning.")
    return values


def _decode_labels(how: str, arrays: Arrays) -> np.ndarray:
    labels = decode_strings(arrays, "classes") if how.startswith("text") else _take(arrays, "classes", "biuf")
    return labels.astype(object) if how.endswith("objects") else labels


# -- both ways -------------------------------------------------------------------------------------------


def check_model(model: Model) -> None:
    """Relations that a model must satisfy to be worth keeping; raises ValueError."""
    d, (m, L) = model.n_features, model.weights.shape
    shapes: dict[str, tuple[Any, tuple[int, ...]]] = {
        "basis": (model.basis, (m, d)),
        "weights": (model.weights, (m, L)),
        "intercept": (model.intercept, (L,)),
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
    bare = not m and all(getattr(model, name) is None for name in (*_PER_FEATURE, "feature_names"))
    if bare and d > _MOST_BARE_FEATURES:
        raise ValueError(
            f"the model declares {d} features and holds no vector and no number for any of them; a model without "
            f"vectors has at most {_MOST_BARE_FEATURES} features. Give it one vector of zeros with weight 0."
        )
    if model.input_scale is not None and np.any(np.asarray(model.input_scale) == 0):
        raise ValueError("input_scale holds zeros, and inputs are divided by it.")
    if model.kind == "outlier" and L != 1:
        raise ValueError(f"an outlier detector has one output; got {L}.")
    if model.classes is not None:
        _check_classes(model, L)


def _check_classes(model: Model, n_outputs: int) -> None:
    classes = np.asarray(model.classes)
    if classes.ndim != 1 or not len(classes) or len(set(classes.tolist())) != len(classes):
        raise ValueError(f"classes must be distinct labels in one dimension; got shape {classes.shape}.")
    coding = get_coding(model.coding or "one_vs_rest")
    if len(classes) > 1 and coding.n_outputs(len(classes)) != n_outputs:
        raise ValueError(
            f"{coding.name} with {len(classes)} classes needs {coding.n_outputs(len(classes))} outputs; "
            f"the weights have {n_outputs}."
        )
