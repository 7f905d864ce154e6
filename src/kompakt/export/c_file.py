"""`to_c`: a machine as one C99 file, the fixed text of `runtime.c` after its numbers, compiled and checked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import warnings
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import kompakt
from kompakt.export.common import (
    CReport,
    ParityError,
    check_rows_for,
    compare,
    decision_shape,
    expect,
    feature_lines,
    folded,
    in_single,
    left_out_notes,
    votes,
    write_exported,
)
from kompakt.inputs import Inputs
from kompakt.io.container import UnsupportedModelError
from kompakt.io.fitted import model_of
from kompakt.kernels import RBF, Constant, Kernel, Laplacian, Linear, Polynomial, Product, Sum
from kompakt.model import Model

Array = np.ndarray
#: how the file is compiled for the check: it must not give a single warning
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
_TOLERANCE = {"double": 1e-12, "float": 1e-5, "int8": 1e-5}
_MAX_STRING = 4000  # C99 promises literals of 4095 characters
_LEVELS = 127
_BEYOND_FLOAT = "a number of this machine is beyond float; export it with dtype='double'."


def to_c(
    fitted: Any,
    path: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    name: str | None = None,
    check_rows: Any = None,
    check_targets: Any = None,
    tolerance: float | None = None,
    compiler: str | None = None,
) -> CReport:
    """Write a machine as one C99 file without dependencies, then compile it and check its answers.

    The file holds constant arrays and the functions ``<name>_scores(x, scores)`` and ``<name>_predict(x)``; imputation
    and scaling are inside.  Compiled with ``-D<NAME>_MAIN`` it is a program that reads one row per line from standard
    input, numbers between blanks, and prints prediction (the class index of a classifier) and decision values.  A line
    with another number of values than the model has features ends it with an error.

    C has no error to raise.  A row whose outputs are beyond the type of the numbers, or a NaN that the machine does not
    fill, has scores that are NaN or infinite: ``<name>_predict`` then gives -1 instead of the index of a class, and a
    regressor gives that value.  An outlier detector gives -1, an outlier.

    Parameters
    ----------
    fitted : fitted kompakt estimator, Model, pipeline, or SVM of scikit-learn
        A pipeline may impute and scale with scikit-learn's `SimpleImputer` and scalers before the kompakt estimator.
    path : path-like
    dtype : {"float", "double", "int8"}, default=None
        Type of all numbers; "int8" stores the basis in eight bits per value, with the range of each feature as its
        scale, and computes in float.  A model that `compress` rounded to int8 is written with its own eight bits, of
        basis and weights, and that is its default; others are written as "float".
    name : str, default=None
        Prefix of everything the file defines; by default the file's name.
    check_rows : array-like of shape (n, n_features), default=None
        Rows on which the program must answer as the machine; by default basis vectors with noise.
    check_targets : array-like of shape (n,), default=None
        True labels or values of `check_rows`: the report then gives the accuracy before and after.
    tolerance : float, default=None
        Largest difference of decision values, relative to the sums of absolute terms behind them; by default 1e-12
        for double and 1e-5 for float.  With "int8" it is measured against the machine whose basis was rounded, and
        what the rounding costs is in the report.
    compiler : str, default=None
        By default the first of ``$CC``, cc, gcc and clang that is found.  Without one the file is written unchecked,
        with a warning.

    Returns
    -------
    CReport

    Raises
    ------
    ParityError
        If the file does not compile without a warning, or its answers differ; nothing is written.
    TypeError
        For a callable or precomputed kernel.

    Examples
    --------
    >>> import tempfile, pathlib, kompakt
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = kompakt.CompactSVC(n_basis=10, gamma="ard", random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = kompakt.to_c(machine, pathlib.Path(folder, "iris.c"), dtype="int8", check_rows=X, check_targets=y)
    >>> report.data_bytes, report.accuracy - report.accuracy_exported < 0.02
    (248, True)
    """
    model = model_of(fitted, svm=True)
    if dtype is None:
        dtype = "int8" if model.storage is not None and model.storage.dtype == "int8" else "float"
    if dtype not in _TOLERANCE:
        raise ValueError(f"dtype must be one of {tuple(_TOLERANCE)}; got {dtype!r}.")
    target = Path(path)
    if name is None:
        name = re.sub(r"[^A-Za-z0-9_]", "_", target.stem)[:60]
        name = name if re.match(r"[A-Za-z_]", name) else f"m_{name}"
    elif not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,200}", name):
        raise ValueError(f"name must be a C identifier; got {name!r}.")
    single = dtype != "double"
    stored = folded(model, single=single, stored=dtype == "int8")
    if stored.storage is not None and stored.storage.dtype != "int8":
        stored = folded(model, single=single)
    levels = None
    if stored.storage is not None:
        steps = stored.storage.basis_steps
        levels = stored.storage.small(stored.basis, steps), np.zeros(len(steps)), steps
    elif dtype == "int8":
        levels = eight_bits(stored.basis)
    if single:
        stored = _rounded(stored, levels)
    about = f"kernel {type(model.kernel).__name__}, dtype {dtype}"
    text, data_bytes, work_bytes = c_source(stored, name, levels, single, about)
    rows, n_usual = check_rows_for(model, check_rows, np.float32 if single else np.float64)
    limit = _TOLERANCE[dtype] if tolerance is None else tolerance
    original, rounded = (expect(machine, rows, n_usual, limit) for machine in (model, stored))
    scores, labels, difference, relative = rounded.scores, rounded.labels, float("nan"), float("nan")
    notes = left_out_notes(model)
    command = compiler or find_compiler()
    if command is None:
        notes = ("not checked: no C compiler was found", *notes)
        warnings.warn(f"{target} is {notes[0]}. Set CC, or pass compiler=.", UserWarning, stacklevel=2)
    else:
        values = _run(text, name, rows, command)
        if model.kind != "regressor":
            predicted, values = values[:, 0].astype(np.intp), values[:, 1:]
            labels = predicted if model.kind == "outlier" else model.classes_[predicted]  # -1 where not finite
        # Rounded to eight bits it is another machine; the program must answer as that one.
        against = rounded if dtype == "int8" else original
        difference, relative, _ = compare(against, values, labels, f"the C program ({dtype})")
        scores = values.reshape(against.scores.shape)
    targets = None if check_targets is None else np.asarray(check_targets)
    if targets is not None and (check_rows is None or len(targets) != n_usual):
        raise ValueError(f"check_targets need check_rows of the same length; got {len(targets)} targets.")
    decided = (original.decided & rounded.decided)[:n_usual]
    scores, labels = scores[:n_usual], None if labels is None else labels[:n_usual]
    machine_labels = None if original.labels is None else original.labels[:n_usual]
    raw = text.encode("ascii")
    files = write_exported(model, target, {"": [raw]})
    return CReport(
        target, "c", len(raw), n_usual if command else 0, difference, relative,
        None if labels is None else float(np.mean(labels == machine_labels)), files=files, notes=notes,
        data_bytes=data_bytes, work_bytes=work_bytes,
        accuracy=_accuracy(targets, original.scores[:n_usual], machine_labels),
        accuracy_exported=_accuracy(targets, scores, labels),
        storage_difference=float(np.abs(original.scores - rounded.scores)[:n_usual][decided].max(initial=0.0)),
    )  # fmt: skip


def _accuracy(truth: Array | None, scores: Array, labels: Array | None) -> float | None:
    """Share of right labels, or R squared of a regressor."""
    if truth is None:
        return None
    if labels is not None:
        return float(np.mean(labels == truth))
    truth = truth.reshape(len(truth), -1)
    spread = float(np.square(truth - truth.mean(axis=0)).sum()) or 1.0
    return 1.0 - float(np.square(truth - scores).sum()) / spread


def find_compiler() -> str | None:
    """A C compiler of this machine, or None."""
    names = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    return next((path for name in names if name and (path := shutil.which(name))), None)


def _run(text: str, name: str, rows: Array, compiler: str) -> Array:
    """What the compiled program prints for the rows, (n, columns)."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, f"{name}.c"), Path(folder, name)
        source.write_text(text, encoding="ascii")
        command = [compiler, *FLAGS, "-O1", f"-D{name.upper()}_MAIN", str(source), "-o", str(program), "-lm"]
        compilation = subprocess.run(command, capture_output=True, text=True)
        if compilation.returncode:
            raise ParityError(f"the C file does not compile with {' '.join(FLAGS)}: {compilation.stderr[:2000]}")
        lines = "\n".join(" ".join(map(repr, row)) for row in rows.astype(np.float64).tolist()) + "\n"
        result = subprocess.run([str(program)], input=lines, capture_output=True, text=True)
        if result.returncode:
            raise ParityError(f"the C program ended with code {result.returncode}: {result.stderr[:2000]}")
    return np.array(result.stdout.split(), dtype=np.float64).reshape(len(rows), -1)


# -- numbers in fewer bits -------------------------------------------------------------------------------


def eight_bits(basis: Array) -> tuple[Array, Array, Array]:
    """(levels, zero, step) with basis_jf ~ zero_f + step_f * levels_jf, and levels from -127 to 127."""
    low, high = basis.min(axis=0), basis.max(axis=0)
    zero = in_single(0.5 * (low + high))
    step = in_single(np.maximum(high - zero, zero - low) / _LEVELS)
    levels = np.rint((basis - zero) / np.where(step > 0, step, 1.0))
    return np.clip(levels, -_LEVELS, _LEVELS).astype(np.int8), zero, step


def _rounded(model: Model, levels: tuple[Array, Array, Array] | None) -> Model:
    """The model with the numbers that the C file will hold, in float64."""
    fields: dict[str, Any] = {name: in_single(getattr(model, name)) for name in ("basis", "weights", "intercept")}
    arrays: dict[str, Any] = {name: in_single(values) for name, values in model.inputs.arrays().items()}
    if model.inputs.scale is not None:
        with np.errstate(divide="ignore"):
            arrays["scale"] = 1.0 / in_single(1.0 / model.inputs.scale)
    if not all(np.all(np.isfinite(arrays[name])) for name in ("knots", "slopes") if name in arrays):
        raise UnsupportedModelError(_BEYOND_FLOAT)
    if levels is not None:
        fields["basis"] = levels[1] + levels[2] * levels[0]
    if model.storage is not None:
        fields["weights"] = model.weights
        if model.storage.map_steps is not None:
            arrays["map"] = model.inputs.map
    return replace(model, inputs=Inputs.of_arrays(model.inputs.schema, arrays), **fields)


# -- the source ------------------------------------------------------------------------------------------


def c_source(
    model: Model, name: str, levels: tuple[Array, Array, Array] | None, single: bool, about: str
) -> tuple[str, int, int]:
    """Text of the file, bytes of its constant arrays, and bytes of the arrays on the stack of one prediction."""
    (m, r), d, L, k = model.basis.shape, model.n_features, model.weights.shape[1], decision_shape(model)[0]
    real, size = ("float", 4) if single else ("double", 8)
    widths: list[Array] = []
    kernel = _kernel(model.kernel, name, single, widths)
    arrays: dict[str, tuple[str, Array]] = {"basis": (real, model.basis)}
    defined = {"REAL": real, "KERNEL": kernel, "FEATURES": d, "INPUTS": r, "VECTORS": m, "OUTPUTS": L, "SCORES": k}
    defined |= dict.fromkeys((real.upper(), model.kind.upper()), 1)
    if model.link == "log":
        defined["VALUE_OF_LOG"] = "expf" if single else "exp"
    if levels is not None:
        small, zero, step = levels
        arrays, defined["BYTES"] = {"basis": ("int8_t", small)}, 1
        if not zero.any() and np.allclose(step, step[0], rtol=1e-6, atol=0.0):
            defined["STEP"] = _literal(step[0], single)
        else:
            arrays |= {"basis_zero": (real, zero), "basis_step": (real, step)}
    arrays["weights"] = (real, model.weights)
    if model.storage is not None:
        steps = model.storage.weight_steps
        arrays["weights"] = ("int8_t", model.storage.small(model.weights, steps))
        arrays["weights_step"], defined["WEIGHT_BYTES"] = (real, steps), 1
    arrays["intercept"] = (real, model.intercept)
    for key, values in model.inputs.arrays().items():
        key, values = ("factor", 1.0 / values) if key == "scale" else (key, values)
        kind = "uint8_t" if key == "pieces" else real
        arrays[key], defined[key.upper()] = (kind, values if values.size else np.zeros(1)), 1  # no array is empty in C
    if model.storage is not None and model.storage.map_steps is not None:
        assert model.inputs.map is not None
        arrays["map"] = ("int16_t", model.storage.small_map(model.inputs.map))
        arrays["map_step"], defined["MAP_STEPS"] = (real, model.storage.map_steps), 1
    if "_power(" in kernel:
        defined["POWER"] = 1
    if widths:
        arrays["widths"], defined["WIDTHS"] = (real, np.array(widths)), len(widths)
    if (voting := votes(model)) is not None:
        arrays["codes"], defined["VOTES"] = ("signed char", voting[0]), _literal(voting[1], single)
    sizes = {real: size, "int16_t": 2}
    data_bytes = sum(sizes.get(kind, 1) * values.size for kind, values in arrays.values())
    mapped = 0 if model.inputs.map is None else r
    work_bytes = size * (d + mapped + L + len(widths) + (k if model.kind != "regressor" else 0))
    classes, class_bytes = _class_lines(name, model.classes)
    data_bytes += class_bytes
    text = [
        f"/* A {model.kind} of kompakt {kompakt.__version__}, {about}: {m} basis vectors, {d} features, {L} outputs.",
        f"   Constant data: {data_bytes} bytes. Stack of one prediction: {work_bytes} bytes of arrays.",
        f"   C99; link with -lm. With -D{name.upper()}_MAIN it reads lines of {d} numbers and prints predictions.\n"
        "   Scores that are beyond the type are NaN or infinite; the class index is then -1: test it before it is used."
        + "".join(f"\n   {line}" for line in feature_lines(model))
        + " */",
        "#include <math.h>",
        "#include <stdint.h>",
        "",
        *(f"#define {name.upper()}_{key} {value}" for key, value in defined.items()),
        "",
        *classes,
    ]
    for key, (kind, values) in arrays.items():
        items = _numbers(values, single) if kind == real else [str(int(value)) for value in values.ravel()]
        lines = ",\n    ".join(", ".join(items[start : start + 10]) for start in range(0, len(items), 10))
        text.append(f"static const {kind} {name}_{key}[{values.size}] = {{\n    {lines}\n}};")
    fixed = resources.files("kompakt.export").joinpath("runtime.c").read_text(encoding="ascii")
    prefixes = {"machine_": f"{name}_", "MACHINE_": f"{name.upper()}_"}
    text += ["", re.sub("machine_|MACHINE_", lambda match: prefixes[match[0]], fixed)]
    return "\n".join(text), data_bytes, work_bytes


def _kernel(kernel: Kernel, name: str, single: bool, widths: list[Array]) -> str:
    """An expression of the sums over features that `runtime.c` forms; widths per feature are added to `widths`."""
    if isinstance(kernel, Sum | Product):
        sign = " + " if isinstance(kernel, Sum) else " * "
        return "(" + sign.join(_kernel(part, name, single, widths) for part in kernel.parts) + ")"
    if isinstance(kernel, Constant):
        return _literal(kernel.value, single)
    if isinstance(kernel, Linear):
        return "product"
    if isinstance(kernel, Polynomial):
        base = f"{_literal(kernel.gamma, single)} * product + {_literal(kernel.coef0, single)}"
        return f"{name}_power({base}, {kernel.degree})"
    assert isinstance(kernel, RBF | Laplacian)
    exp = f"{name.upper()}_EXP"
    if isinstance(kernel.gamma, np.ndarray):
        widths.append(kernel.gamma)
        return f"{exp}(-weighted[{len(widths) - 1}])"
    return f"{exp}({_literal(-kernel.gamma, single)} * {'squares' if isinstance(kernel, RBF) else 'lengths'})"


def _literal(value: float, single: bool) -> str:
    return f"({_numbers(np.array(value), single)[0]})"


def _numbers(values: Array, single: bool) -> list[str]:
    """Literals that read back exactly."""
    if not single:
        return [repr(value) for value in values.astype(np.float64).ravel().tolist()]
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32).ravel()
    if not np.all(np.isfinite(rounded)):
        raise UnsupportedModelError(_BEYOND_FLOAT)
    return [f"{value!s}f" for value in rounded]


def _class_lines(name: str, labels: Array | None) -> tuple[list[str], int]:
    """The labels, in the order of the class indices, and their bytes."""
    if labels is None:
        return [], 0
    if labels.dtype.kind == "U":
        raw = [str(label).encode() for label in labels]
        if max(map(len, raw)) > _MAX_STRING:
            raise UnsupportedModelError(f"a label of {max(map(len, raw))} bytes is longer than C99 promises to take.")
        # Three octal digits never swallow the character that follows; '?' could begin a trigraph.
        texts = (re.sub(rb"[^ 0-9A-Za-z]", lambda byte: b"\\%03o" % byte[0][0], label).decode() for label in raw)
        kind, values, size = "char *const", [f'"{text}"' for text in texts], sum(len(label) + 1 for label in raw)
    elif labels.dtype.kind == "f":
        kind, values, size = "double", [repr(float(label)) for label in labels], 8 * len(labels)
    elif int(np.abs(labels.astype(object)).max()) > 2**31 - 1:
        kind, values, size = "int64_t", [f"INT64_C({int(label)})" for label in labels], 8 * len(labels)
    else:
        kind, values, size = "int32_t", [str(int(label)) for label in labels], 4 * len(labels)
    declared = f"const {kind} {name}_classes[{len(labels)}]"
    return [f"extern {declared};", f"{declared} = {{\n    {', '.join(values)}\n}};", ""], size
