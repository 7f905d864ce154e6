"""What exporters share: a model as plain arrays, the check on rows that machine and export answer, and its report."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kompakt.codings import get_coding
from kompakt.data.checks import RowError
from kompakt.data.table import Category, Date, Levels, Number, Unused
from kompakt.data.times import written
from kompakt.inputs import Inputs
from kompakt.io.container import UnsupportedModelError
from kompakt.io.files import write_together
from kompakt.kernels import RBF, Constant, Kernel, Laplacian, Linear, Polynomial, Product, Sum
from kompakt.kernels.base import dense
from kompakt.model import Interval, Model

Array = np.ndarray
_KERNELS = (RBF, Laplacian, Linear, Polynomial, Constant, Sum, Product)
_MIN_ROWS, _MAX_ROWS = 64, 1024
#: bytes that rows made for a check take at most, unless one row takes more: a wide model is checked on fewer rows
_MAX_BYTES = 64 << 20
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
#: numbers put into the far rows of a check
_FAR = np.array([sign * 10.0**power for power in (-320, -40, 3, 6, 12, 20, 37, 100, 153, 200, 308) for sign in (1, -1)])


# -- the check -------------------------------------------------------------------------------------------


class ParityError(RuntimeError):
    """An exported machine that does not answer as the original; nothing was written.

    Examples
    --------
    >>> from kompakt.export import ParityError
    >>> issubclass(ParityError, RuntimeError)
    True
    """


@dataclass(frozen=True)
class ExportReport:
    """What was written, and how near it is to the original on the rows of the check.

    Parameters
    ----------
    path : Path
        The file that was asked for.
    format : {"onnx", "c", "js", "libsvm", "numpy"}
    n_bytes : int
        Size of that file.
    n_rows : int
        Number of rows of the check; 0 means that it could not be made, and `notes` say why.
    max_difference : float
        Largest absolute difference between the decision values (or predictions) of both; NaN without a check.
    relative_difference : float
        The same, divided by the largest decision value.
    label_agreement : float or None
        Share of the rows with the same label; None for a regressor.
    files : tuple of Path
        All that was written, `path` first.
    notes : tuple of str
        What the reader of the file must know.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kompakt.export import ExportReport
    >>> report = ExportReport(Path("iris.onnx"), "onnx", 2048, 64, 1e-15, 5e-16, 1.0)
    >>> print(report)
    iris.onnx: 2048 bytes; 64 rows checked, largest difference 1e-15, equal labels 100 %
    """

    path: Path
    format: str
    n_bytes: int
    n_rows: int
    max_difference: float
    relative_difference: float
    label_agreement: float | None
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        checked = "unchecked"
        if self.n_rows:
            checked = f"{self.n_rows} rows checked, largest difference {self.max_difference:.2g}"
            if self.label_agreement is not None:
                checked += f", equal labels {100 * self.label_agreement:.4g} %"
        return "; ".join([f"{self.path}: {self.n_bytes} bytes", checked, *self.notes])


@dataclass(frozen=True)
class CReport(ExportReport):
    """The report of `to_c`: sizes on the device, and what storing the basis in fewer bits costs.

    Parameters
    ----------
    data_bytes : int
        Bytes of the constant arrays (they may stay in read-only memory).
    work_bytes : int
        Bytes of the arrays that one prediction puts on the stack.
    storage_difference : float
        Largest change of a decision value because of the rounded numbers alone, computed in float64.
    score_bound : float or None
        In integers: how far a decision value may be from that of the model at the most, which was derived.
    accuracy, accuracy_exported : float or None
        Of the machine and of the exported one, where `check_targets` were given: share of right labels, or R squared.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kompakt.export import CReport
    >>> CReport(Path("iris.c"), "c", 4096, 64, 1e-6, 5e-7, 1.0, data_bytes=120, work_bytes=28).data_bytes
    120
    """

    data_bytes: int = 0
    work_bytes: int = 0
    storage_difference: float = 0.0
    accuracy: float | None = None
    accuracy_exported: float | None = None
    score_bound: float | None = None


@dataclass(frozen=True, eq=False)
class Expected:
    """What the machine says of the rows of a check.

    Parameters
    ----------
    scores : ndarray of shape (n, n_scores)
        NaN for rows that the machine refuses, because their outputs overflow.
    labels : ndarray of shape (n,), or None for a regressor
    decided : ndarray of bool of shape (n,)
        Rows whose scores do not jump under rounding: where a coding votes, no output is next to zero.
    limit : ndarray of shape (n,)
        Largest difference that passes.
    n_usual : int
        Rows before the far ones, which an export may also answer with scores that are not finite.
    """

    scores: Array
    labels: Array | None
    decided: Array
    limit: Array
    n_usual: int


def check_rows_for(model: Model, check_rows: Any, dtype: Any = np.float64) -> tuple[Array, int]:
    """Rows to check an export on, as `dtype` holds them, and how many of them are usual.

    The usual ones are the user's, or made for it.  Then come far rows: usual ones with one number that is very large
    or very small.
    """
    usual = _usual_rows(model, check_rows)
    far = np.resize(usual, (min(len(_FAR), max(1, _MAX_BYTES // (8 * model.n_features))), model.n_features))
    far[np.arange(len(far)), np.arange(len(far)) % model.n_features] = _FAR[: len(far)]
    with np.errstate(over="ignore"):
        far = far.astype(dtype)
    far = far[~np.isinf(far).any(axis=1)]
    return np.concatenate([usual.astype(dtype), far]), len(usual)


def _usual_rows(model: Model, check_rows: Any) -> Array:
    """The user's rows, or basis vectors with noise (and, where the machine imputes, some missing values)."""
    if check_rows is not None:
        rows = np.asarray(dense(model.inputs.encoded(check_rows)), dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != model.n_features or not len(rows):
            raise ValueError(f"check_rows must have shape (n >= 1, {model.n_features}); got {rows.shape}.")
        allowed = np.isfinite(rows) | (np.isnan(rows) & (model.inputs.fill is not None))
        if not allowed.all():
            raise ValueError("check_rows hold infinite or missing values, which this machine does not take.")
        return rows
    basis = np.asarray(model.basis_vectors_, dtype=np.float64)
    inputs = model.inputs
    if not len(basis):
        basis = np.zeros((1, model.n_features)) if inputs.shift is None else np.array([inputs.shift])
    rng, spread = np.random.default_rng(0), basis.std(axis=0)
    width = 1.0 if inputs.scale is None else np.abs(np.asarray(inputs.scale, dtype=np.float64))
    spread = np.where(spread > 0, spread, width)
    most = max(1, min(_MAX_ROWS, _MAX_BYTES // (8 * model.n_features)))
    picked = rng.permutation(len(basis))[:most]
    picked = np.resize(picked, max(min(_MIN_ROWS, most), len(picked)))
    rows = basis[picked] + 0.5 * spread * rng.normal(size=(len(picked), model.n_features))
    if inputs.fill is not None:
        rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows


def outputs_or_nan(model: Model, rows: Array) -> Array:
    """Raw outputs (n, L), NaN for rows that the machine refuses."""
    outputs = np.full((len(rows), model.weights.shape[1]), np.nan)
    for number in range(len(rows)):
        with contextlib.suppress(RowError):
            outputs[number] = model.outputs(rows[[number]])[0]
    return outputs


def expect(model: Model, rows: Array, n_usual: int, tolerance: float) -> Expected:
    """The answers of the machine, and how near an export must come to them.

    The limit is relative to the terms that are summed, sum_j |w_j k_j| + |b|: rounding errors grow with these, however
    small the sum itself is.  It is the same for all usual rows; that of a far row grows with its own terms.
    """
    rows = rows.astype(np.float64)
    sizes = replace(
        model, weights=np.abs(model.weights), intercept=np.abs(model.intercept), kind="regressor", classes=None,
        coding=None, calibration=None, squeeze=False, link="identity", interval=None, ordered=False,
    )  # fmt: skip
    outputs, terms = (
        np.concatenate([machine.outputs(rows[:n_usual]), outputs_or_nan(machine, rows[n_usual:])])
        for machine in (model, sizes)
    )
    terms = np.maximum(np.abs(outputs).max(axis=1), np.abs(terms).max(axis=1))
    usual = terms[:n_usual].max()
    limit = tolerance * np.fmax(terms, usual if usual > 0 else 1.0)
    scores = model.scores(outputs)
    if model.link == "log":  # values differ by their share of what logarithms differ by
        sizes_of_values = np.abs(scores.reshape(len(rows), -1)).max(axis=1)
        with np.errstate(over="ignore"):
            limit = limit * np.fmax(sizes_of_values, sizes_of_values[:n_usual].max(initial=0.0))
    labels = None if model.kind == "regressor" else model.labels(scores)
    decided = np.ones(len(rows), dtype=bool) if votes(model) is None else ~(np.abs(outputs).min(axis=1) <= limit)
    return Expected(scores.reshape(len(rows), -1), labels, decided, limit, n_usual)


def compare(expected: Expected, scores: Array | None, labels: Array | None, what: str) -> tuple[float, float, Any]:
    """Largest difference, the same relative to the largest score, and share of equal labels; raises ParityError."""
    n = expected.n_usual
    difference, largest, compared = 0.0, float(np.abs(expected.scores[:n]).max(initial=0.0)), expected.decided.copy()
    if scores is not None:
        if np.size(scores) != expected.scores.size:
            raise ParityError(f"{what} gives {np.shape(scores)} values; expected {expected.scores.shape}.")
        scores = np.reshape(scores, expected.scores.shape)
        compared[n:] &= np.isfinite(scores[n:]).all(axis=1)
        with np.errstate(invalid="ignore", over="ignore"):
            gaps = np.where(compared[:, None], np.abs(scores - expected.scores), 0.0).max(axis=1)
        difference = float(gaps[:n].max(initial=0.0))
        if not np.all(gaps[:n] <= expected.limit[:n]):  # NaN is a failure too
            raise ParityError(
                f"{what} differs from the machine by {difference:.3g} on {n} rows; expected at most "
                f"{expected.limit[0]:.3g} (largest decision value {largest:.3g}). Nothing was written. Where weights "
                "are large and cancel, single precision is not enough: export in double precision, or raise "
                "`tolerance`."
            )
        for row in np.flatnonzero(~(gaps <= expected.limit))[:1]:
            raise ParityError(
                f"{what} gives {scores[row].tolist()} for a row with a very large or very small number, where the "
                f"machine has {expected.scores[row].tolist()} (NaN: it refuses the row). Nothing was written."
            )
    agreement = None
    if expected.labels is not None and labels is not None:
        equal = np.asarray(labels) == expected.labels
        agreement = float(np.mean(equal[:n]))
        best = np.sort(expected.scores, axis=1)
        margins = np.abs(best[:, 0]) if best.shape[1] == 1 else best[:, -1] - best[:, -2]  # to another label
        wrong = ~equal & compared & (margins > 3 * expected.limit)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ParityError(
                f"{what} gives other labels than the machine on {int(wrong.sum())} of {len(equal)} rows that are not "
                f"on the boundary, such as {labels[row]!r} instead of {expected.labels[row]!r}. Nothing was written."
            )
    return difference, difference / largest if largest > 0 else difference, agreement


def check_probabilities(model: Model, rows: Array, chances: Array, limit: float) -> None:
    """Raise ParityError where probabilities are not those of the model, or of scores as far off as they may be."""
    assert model.calibration is not None
    rows = rows.astype(np.float64)
    expected, scores = model.predict_proba(rows), model.decision_function(rows)
    size = limit * max(1.0, float(np.abs(scores).max(initial=0.0)), float(np.abs(model.weights).sum(axis=0).max()))
    moved = [np.abs(model.probabilities(scores + shift) - expected).max(axis=1) for shift in (-4 * size, 4 * size)]
    gap = np.abs(expected - chances).max(axis=1)
    if not np.all(gap <= np.max(moved, axis=0) + 100 * limit):
        raise ParityError(
            f"the probabilities of the C program differ from the machine's by {gap.max():.3g} on {len(rows)} rows. "
            "Nothing was written. Export in double precision, or raise `tolerance`."
        )


def check_bounds(model: Model, rows: Array, bounds: Array, limit: float, what: str) -> None:
    """Raise ParityError where bounds (n, 2 L), each lower beside its upper one, are not those of the model."""
    assert model.interval is not None
    expected = np.reshape(model.predict_interval(rows.astype(np.float64)), (len(rows), -1))
    noise = model.interval.weights
    # the terms of the noise count as those of the outputs do
    limit *= 4.0 + 4.0 * (0.0 if noise is None else float(np.max(model.interval.reach * np.abs(noise).sum(axis=0))))
    limit += 0.01 * float(np.ptp(expected, axis=1).mean()) if model.storage is not None else 0.0
    gap = float(np.abs(expected - np.reshape(bounds, expected.shape)).max())
    if not gap <= limit:
        raise ParityError(
            f"the intervals of {what} differ from the machine's by {gap:.3g} on {len(rows)} rows; expected at most "
            f"{limit:.3g}. Nothing was written. Export in double precision, or raise `tolerance`."
        )


def feature_lines(model: Model) -> list[str]:
    """What each number of a row is, one line per feature, where the features have names; plain ASCII."""
    lines = ["A row holds the encoded columns of a table, in this order (see also the .schema.json file beside this):"]
    schema, place = model.inputs.schema, 0
    if schema is None:
        names = () if model.feature_names is None else model.feature_names
        lines = ["A row holds these features, in this order:"] if len(names) else []
        lines += [f"  {number}: {name}" for number, name in enumerate(names)]
    for column in () if schema is None else schema.columns:
        if isinstance(column, Unused):
            continue
        for name in column.features:
            what = column.kind
            if name == f"{column.name} is missing":
                what = "1 if so, else 0"
            elif isinstance(column, Category):
                what = f"1 if so, else 0; a gap counts as {column.fill}"
            elif isinstance(column, Number) or name == column.name:
                what = f"number; a gap becomes {float(column.fill):.9g}"
            elif isinstance(column, Levels):
                what = "by the table of levels in the .schema.json file"
            elif name == column.features[0]:
                gap = written(column.fill, "%Y-%m-%d") if isinstance(column, Date) else f"{column.fill:.9g}"
                what = f"{column.describe()}; a gap becomes {gap}"
            lines.append(f"  {place}: {name} ({what})")
            place += 1
    ascii_lines = [line.encode("ascii", "replace").decode().replace("\\", "/") for line in lines]
    # no end of the comment that they are in, and no trigraph
    return [re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", line) for line in ascii_lines]


def left_out_notes(model: Model) -> tuple[str, ...]:
    """Which columns of its table an exported model does not take, for its report."""
    columns = () if model.inputs.schema is None else model.inputs.schema.columns
    names = [repr(column.name) for column in columns if isinstance(column, Unused)]
    if not names:
        return ()
    more = f", ... ({len(names)} in all)" if len(names) > 12 else ""
    return (f"takes {len(columns) - len(names)} of {len(columns)} columns; left out: {', '.join(names[:12])}{more}",)


def write_exported(
    model: Model,
    path: str | os.PathLike[str],
    texts: Mapping[str, Iterable[bytes]],
    beside: Mapping[Path, Iterable[bytes]] | None = None,
) -> tuple[Path, ...]:
    """Write the files of an export, by their suffixes, and others beside it, all or none; those that were written.

    For a model of tables one more says, as JSON, how columns become features.
    """
    pieces = dict(texts)
    if (schema := model.inputs.schema) is not None:
        described = {"features": schema.feature_names, **schema.to_json()}
        pieces[".schema.json"] = [json.dumps(described, indent=1, ensure_ascii=False).encode()]
    files: dict[Any, Any] = {Path(f"{os.fspath(path)}{suffix}"): text for suffix, text in pieces.items()}
    files |= beside or {}
    write_together(files)
    return tuple(files)


def write_checked(
    model: Model, path: str | os.PathLike[str], format: str, raw: bytes, rows: tuple[Array, int], tolerance: float,
    scores: Array, labels: Array | None, what: str, notes: tuple[str, ...] = (),
) -> ExportReport:  # fmt: skip
    """Write an export whose answers on the rows are those of the machine; else raise ParityError."""
    measured = compare(expect(model, *rows, tolerance), scores, labels, what)
    files = write_exported(model, path, {"": [raw]})
    return ExportReport(Path(path), format, len(raw), rows[1], *measured, files=files, notes=notes)


# -- a model as plain arrays -------------------------------------------------------------------------------


def folded(model: Model, *, centred: bool = True, single: bool = False, stored: bool = False) -> Model:
    """An equal model in float64 that is simple to write down.

    It has at least one vector, labels of a plain type, no centre, and a shift and a scale only where they do something.
    Constants of the kernel are in weights and intercept, and one width per feature in basis and scale (a width of 0 is
    an infinite scale).  A map of the inputs, or bends, take the scale and such widths into themselves.  With `centred`,
    rows that are neither mapped nor bent are shifted to the middle of the basis where the kernel allows it: distances
    formed from dot products, and sums in float32, lose the digits that rows far from the origin share.  With `single`,
    float32 holds the shift.  With `stored`, a rounded model stays one: its basis is not moved, only scaled.
    """
    _check_kernel(model.kernel)
    kernel, factor, addend = decomposed(model.kernel)
    vectors = len(model.basis) > 0 and (model.classes is None or len(model.classes) > 1)
    rounded = model.storage if stored and vectors and factor == 1 and np.all(getattr(kernel, "gamma", 1.0)) else None
    basis, weights, intercept = (_f8(values) for values in (model.basis, model.weights, model.intercept))
    if not len(basis):  # nothing but an intercept
        basis, weights = np.zeros((1, model.basis.shape[1])), np.zeros((1, len(intercept)))
    # sum_j w_j (factor k_j + addend) + b = sum_j (factor w_j) k_j + (b + addend sum_j w_j)
    weights, intercept = weights * factor, intercept + addend * weights.sum(axis=0)
    classes, inputs = None, model.inputs
    if model.kind == "classifier":
        classes = _plain_classes(model.classes_)
        if len(classes) == 1:  # its decision value is 0 whatever the weights are
            weights, intercept = np.zeros((len(weights), 1)), np.zeros(1)
    shift = np.zeros(model.n_features) if inputs.shift is None else _f8(inputs.shift)
    scale = np.ones(model.n_features) if inputs.scale is None else _f8(inputs.scale)
    centre, input_map, bends = inputs.centre, None, inputs.bends
    if bends is not None:
        input_map = None if inputs.map is None else _f8(inputs.map)
        moved = in_single(shift) if single and rounded is None else shift
        ascending = bool(np.all(scale > 0))  # knots descend in features of a negative scale
        bends, constant = bends.of_line(1.0 / scale if ascending else np.ones_like(scale), (moved - shift) / scale)
        if np.any(moved != shift):
            basis = basis - (constant if input_map is None else input_map @ constant)
        shift, scale = moved, np.ones_like(scale) if ascending else scale
    elif inputs.map is not None:  # mapped after the shift, which a fit has put into the middle of its rows
        if rounded is not None and np.any(scale != 1):
            rounded = replace(rounded, map_steps=None)
        input_map, scale = _f8(inputs.map) / scale, np.ones(model.n_features)
        moved = in_single(shift) if single and rounded is None else shift
        basis, shift = basis - input_map @ (moved - shift), moved
    elif rounded is not None:
        centre = None
    elif model.kernel.shift_invariant:
        centre = basis.mean(axis=0) if centred else None
    if centre is not None:
        moved = shift + _f8(centre) * scale
        moved = in_single(moved) if single else moved
        # The rounded shift is what the rows will meet, so the basis is moved by exactly that much.
        basis, shift = basis - (moved - shift) / scale, moved
    if isinstance(kernel, RBF) and isinstance(kernel.gamma, np.ndarray):
        root = np.sqrt(kernel.gamma)  # gamma_f (x_f - z_f)^2 = (root_f x_f - root_f z_f)^2
        if np.all(root == root[0]):
            kernel = RBF(float(kernel.gamma[0]))
        elif input_map is not None:
            kernel, basis, input_map = RBF(1.0), basis * root, input_map * root[:, None]
        else:
            kernel, basis = RBF(1.0), basis * root
            if bends is not None:
                bends = bends.with_slopes(bends.slopes * root[:, None])
            else:
                with np.errstate(divide="ignore"):
                    scale = scale / root
            if rounded is not None:
                rounded = replace(rounded, basis_steps=rounded.basis_steps * root)
    return replace(
        model,
        kernel=kernel,
        basis=basis,
        weights=weights,
        intercept=intercept,
        classes=classes,
        inputs=Inputs(
            inputs.schema,
            None if inputs.fill is None else _f8(inputs.fill),
            shift if np.any(shift != 0) else None,
            scale if np.any(scale != 1) else None,
            input_map,
            bends=bends,
        ),
        storage=rounded,
        interval=_folded_interval(model.interval, factor, addend, vectors=len(model.basis) > 0),
    )


def _folded_interval(interval: Interval | None, factor: float, addend: float, *, vectors: bool) -> Interval | None:
    """The interval with the constants of the kernel in the weights of its noise."""
    if interval is None or interval.weights is None or interval.intercept is None:
        return interval
    weights = interval.weights if vectors else np.zeros((1, len(interval.reach)))
    intercept = interval.intercept + addend * interval.weights.sum(axis=0)
    return replace(interval, weights=weights * factor, intercept=intercept)


def decision_shape(model: Model) -> tuple[int, bool]:
    """Number of decision values per row, and whether one per row is given as (n,) rather than (n, 1)."""
    values = model.scores(np.zeros((1, model.weights.shape[1])))
    return values.size, values.ndim == 1


def votes(model: Model) -> tuple[Array, float] | None:
    """(codes, base) of a coding that votes: scores = base + sum of code * sign(f) / 2 + squashed sum of code * f."""
    k, coding = 0 if model.classes is None else len(model.classes), get_coding(model.coding or "one_vs_rest")
    base = coding.first_votes(k) if k > 2 else None
    return None if base is None else (coding.codes(k), base)


def facts_and_arrays(model: Model) -> tuple[dict[str, Any], dict[str, Array]]:
    """What a runtime must know of a folded model: kind, kernel and such facts, and the arrays that there are."""
    arrays: dict[str, Any] = {"basis": model.basis, "weights": model.weights, "intercept": model.intercept}
    arrays |= {"classes": model.classes, **model.inputs.arrays()}
    kernel = json.loads(json.dumps(model.kernel.spec(), default=lambda values: values.tolist()))  # plain numbers
    facts = {"kind": model.kind, "flat": decision_shape(model)[1], "kernel": kernel}
    facts |= {"log": model.link == "log", "ordered": model.ordered}
    if (voting := votes(model)) is not None:
        arrays["codes"], facts["votes_base"] = voting
    if model.calibration is not None:
        names = {"a": "slope", "b": "start"}
        arrays |= {names.get(key, f"calibration_{key}"): values for key, values in model.calibration.items()}
    if model.interval is not None:
        arrays |= {f"interval_{name}": values for name, values in model.interval.arrays().items()}
    return facts, {name: values for name, values in arrays.items() if values is not None}


def decomposed(kernel: Kernel) -> tuple[Kernel, float, float]:
    """(core, factor, addend) with kernel = factor * core + addend, the constants of a sum or product taken out."""
    if not isinstance(kernel, Sum | Product):
        return kernel, 1.0, 0.0
    others = [part for part in kernel.parts if not isinstance(part, Constant)]
    constants = [part.value for part in kernel.parts if isinstance(part, Constant)]
    core: Kernel = Constant(1.0)
    factor, addend = 0.0 if isinstance(kernel, Sum) else 1.0, 0.0
    if len(others) == 1:
        core, factor, addend = decomposed(others[0])
    elif others:
        core, factor = type(kernel)(tuple(others)), 1.0
    if isinstance(kernel, Sum):
        return core, factor, addend + float(np.sum(constants))
    return core, factor * float(np.prod(constants)), addend * float(np.prod(constants))


def _check_kernel(kernel: Kernel) -> None:
    """Raise for a kernel that no exporter can write down, saying why."""
    kernel.spec()  # callable and precomputed kernels say why
    if type(kernel) not in _KERNELS:
        raise UnsupportedModelError(
            f"the kernel {kernel!r} cannot be exported: an exporter must write its formula, and knows RBF, "
            "Laplacian, linear, polynomial and constant kernels, and sums and products of these."
        )
    for part in getattr(kernel, "parts", ()):
        _check_kernel(part)


def _plain_classes(classes: Array) -> Array:
    """Labels in an array of their own type: text, whole numbers, floats or booleans, never objects."""
    labels = np.asarray(classes)
    if labels.dtype.kind == "O" and len({type(label) for label in labels.tolist()}) == 1:
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "T":
        labels = labels.astype(str)
    if labels.dtype.kind not in "Ubiuf":
        raise UnsupportedModelError(
            f"labels of dtype {labels.dtype} cannot be exported; expected text, whole numbers, floats or booleans."
        )
    if labels.dtype.kind == "U" and any(re.search("[\ud800-\udfff]", label) for label in labels.tolist()):
        raise UnsupportedModelError(
            "a label holds half of a surrogate pair, which no encoding can write; decode the labels anew, as UTF-8."
        )
    if labels.dtype.kind == "u" and np.any(labels > np.uint64(2**63 - 1)):
        raise UnsupportedModelError("a label is beyond the 64-bit integers of the other side.")
    return labels


def in_single(values: Array) -> Array:
    """Numbers as float32 holds them, in float64."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)


def _f8(values: Any) -> Array:
    return np.array(values, dtype=np.float64)
