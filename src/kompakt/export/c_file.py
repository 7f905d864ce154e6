"""`to_c`: a machine as a C99 source and header, numbers before the fixed text of a runtime, compiled and checked.

`runtime.c` computes in floats, `integer.c` in integers; `main.c` makes a program of either.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import warnings
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import kompakt
from kompakt.calibration import Calibration
from kompakt.export.common import (
    CReport,
    Expected,
    ParityError,
    check_bounds,
    check_probabilities,
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
from kompakt.export.integer import MISSING, IntegerForm, integer_form
from kompakt.inputs import Inputs
from kompakt.io.container import UnsupportedModelError
from kompakt.io.fitted import model_of
from kompakt.kernels import RBF, Constant, Kernel, Laplacian, Linear, Polynomial, Product, Sum
from kompakt.model import Interval, Model

Array = np.ndarray
Arrays = dict[str, tuple[str, Array]]
#: how the file is compiled for the check: it must not give a single warning
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wdouble-promotion")
_TOLERANCE = {"double": 1e-12, "float": 1e-5, "int8": 1e-5}
_MAX_STRING = 4000  # C99 promises literals of 4095 characters
_LEVELS = 127
_BEYOND_FLOAT = "a number of this machine is beyond float; export it with dtype='double'."
_SELF_TESTS = 8  # rows that a file in integers can test itself with
_READERS = {1: "BYTE", 2: "WORD", 4: "LONG"}
_SIZES = {"uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2, "int32_t": 4, "float": 4, "double": 8}


@dataclass(frozen=True)
class CFile:
    """A header, its source, bytes of the constant arrays, and bytes of the arrays on the stack of one prediction."""

    header: str
    source: str
    data_bytes: int
    work_bytes: int


def to_c(
    fitted: Any,
    path: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    arithmetic: str | None = None,
    input_bits: Any = None,
    name: str | None = None,
    check_rows: Any = None,
    check_targets: Any = None,
    tolerance: float | None = None,
    compiler: str | None = None,
) -> CReport:
    """Write a machine as a C99 source without dependencies and its header, then compile it and check its answers.

    The source holds constant arrays, in the program memory of an AVR, and the functions ``<name>_scores(x, scores)``
    and ``<name>_predict(x)``; that of a calibrated machine ``<name>_probabilities(x, chances)``, that of one with
    intervals ``<name>_interval(x, lower, upper)``.  Imputation and scaling are inside.  The header declares them, for C
    and C++, and tells what they take of memory.  Compiled with ``-D<NAME>_MAIN`` it is a program that reads one row per
    line from standard input, numbers between blanks, and prints prediction (the class index of a classifier), decision
    values, and then probabilities, or every lower bound with its upper one, where there are such.  A line
    with another number of values than the model has features ends it with an error.

    In integers, features are given as ``int16_t``, and ``<name>_quantise(values, x)`` makes these of floats; scores are
    ``int32_t`` in units of ``<NAME>_SCORE_UNIT``.  The answers are bit for bit those of a simulation, on every machine,
    and differ from the model's by no more than a bound that the header gives.

    C has no error to raise.  A row whose outputs are beyond the type of the numbers, or a NaN that the machine does not
    fill, has scores that are NaN or infinite: ``<name>_predict`` then gives -1 instead of the index of a class, and a
    regressor gives that value.  An outlier detector gives -1, an outlier.

    Parameters
    ----------
    fitted : fitted kompakt estimator, Model, pipeline, or SVM of scikit-learn
        A pipeline may impute and scale with scikit-learn's `SimpleImputer` and scalers before the kompakt estimator.
    path : path-like
        Of the source; the header ``<name>.h`` is beside it.
    dtype : {"float", "double", "int8"}, default=None
        Type of all numbers; "int8" stores the basis in eight bits per value, with the range of each feature as its
        scale, and computes in float.  A model that `compress` rounded to int8 is written with its own eight bits, of
        basis and weights, and that is its default; others are written as "float".
    arithmetic : {"integer", "float"}, default=None
        What is computed with.  "integer" needs a Gaussian kernel and a model that `compress` rounded to int8, and is
        the default for these, unless `dtype` is given.
    input_bits : int or sequence of int, default=None
        In integers, a feature x is the whole number nearest to x 2^bits: 0 for counts of a sensor.  By default 0 if
        `check_rows` are whole numbers, else what the range of each feature allows; the header says which.
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
        with a warning.  It may have options ("avr-gcc -mmcu=attiny85").  What a compiler of another machine makes
        cannot be run: it must compile without a warning, and the answers are those of this machine's compiler.

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
    (232, True)
    """
    model = model_of(fitted, svm=True)
    default = dtype is None and arithmetic is None
    if dtype is None:
        eight = model.storage is not None and model.storage.dtype == "int8"
        dtype = "int8" if eight or arithmetic == "integer" else "float"
    if dtype not in _TOLERANCE:
        raise ValueError(f"dtype must be one of {tuple(_TOLERANCE)}; got {dtype!r}.")
    if arithmetic not in (None, "integer", "float") or (arithmetic == "integer" and dtype != "int8"):
        raise ValueError(
            f"arithmetic must be None, 'integer' (with dtype='int8', of a model stored so) or 'float'; got "
            f"{arithmetic!r} with dtype={dtype!r}."
        )
    target = Path(path)
    if target.suffix == ".h":
        raise ValueError(f"path must be that of the source, such as 'model.c'; the header is beside it. Got {target}.")
    if name is None:
        name = re.sub(r"[^A-Za-z0-9_]", "_", target.stem)[:60]
        name = name if re.match(r"[A-Za-z_]", name) else f"m_{name}"
    elif not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,200}", name):
        raise ValueError(f"name must be a C identifier; got {name!r}.")
    single = dtype != "double"
    rows, n_usual = check_rows_for(model, check_rows, np.float32 if single else np.float64)
    notes, form = left_out_notes(model), None
    if arithmetic == "integer" or default:
        try:
            form = integer_form(model, rows[:n_usual].astype(np.float64), input_bits)
        except UnsupportedModelError as error:
            if arithmetic == "integer":
                raise
            notes = (f"in floats: {error}", *notes) if model.storage is not None else notes
    about = f"kernel {type(model.kernel).__name__}, {'integers' if form is not None else f'dtype {dtype}'}"
    limit = _TOLERANCE[dtype] if tolerance is None else tolerance
    if form is not None:
        rows = form.rows(rows)
        text, stored = integer_source(model, form, name, rows[:_SELF_TESTS], about), model
        rows = form.values(rows).astype(np.float32)
        original = rounded = expect(model, rows, n_usual, limit)
    else:
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
        text = c_source(stored, name, levels, single, about)
        original, rounded = (expect(machine, rows, n_usual, limit) for machine in (model, stored))
    scores, labels, difference, relative = rounded.scores, rounded.labels, float("nan"), float("nan")
    runs_here, note = _compiled(text, name, compiler)
    notes = notes if note is None else (note, *notes)
    if runs_here is None:
        notes = ("not checked: no C compiler was found", *notes)
        warnings.warn(f"{target} is {notes[0]}. Set CC, or pass compiler=.", UserWarning, stacklevel=2)
    else:
        values = _run(text, name, rows, runs_here)
        if model.kind != "regressor":
            predicted, values = values[:, 0].astype(np.intp), values[:, 1:]
            labels = predicted if model.kind == "outlier" else model.classes_[predicted]  # -1 where not finite
        if form is None:
            # Rounded to eight bits it is another machine; the program must answer as that one.
            against, machine = (rounded, stored) if dtype == "int8" else (original, model)
            values, more = np.hsplit(values, [against.scores.shape[1]])
            if model.calibration is not None:
                check_probabilities(machine, rows[:n_usual], more[:n_usual], limit)
            if model.interval is not None:
                check_bounds(machine, rows[:n_usual], more[:n_usual], against.limit[0], f"the C program ({dtype})")
            difference, relative, _ = compare(against, values, labels, f"the C program ({dtype})")
            scores = values.reshape(against.scores.shape)
    if form is not None:
        answers = None if runs_here is None else (values, labels)
        scores, labels, difference, relative = _in_integers(model, form, rows, rounded, answers)
    targets = None if check_targets is None else np.asarray(check_targets)
    if targets is not None and (check_rows is None or len(targets) != n_usual):
        raise ValueError(f"check_targets need check_rows of the same length; got {len(targets)} targets.")
    decided = (original.decided & rounded.decided)[:n_usual]
    scores, labels = scores[:n_usual], None if labels is None else labels[:n_usual]
    machine_labels = None if original.labels is None else original.labels[:n_usual]
    raw = text.source.encode("ascii")
    files = write_exported(model, target, {"": [raw]}, {target.with_name(f"{name}.h"): [text.header.encode("ascii")]})
    return CReport(
        target, "c", len(raw), n_usual if runs_here else 0, difference, relative,
        None if labels is None else float(np.mean(labels == machine_labels)), files=files, notes=notes,
        data_bytes=text.data_bytes, work_bytes=text.work_bytes,
        accuracy=_accuracy(targets, original.scores[:n_usual], machine_labels),
        accuracy_exported=_accuracy(targets, scores, labels),
        storage_difference=float(np.abs(original.scores - rounded.scores)[:n_usual][decided].max(initial=0.0)),
        score_bound=None if form is None else float(form.bounds.max()),
    )  # fmt: skip


def _in_integers(
    model: Model, form: IntegerForm, rows: Array, expected: Expected, answers: tuple[Array, Array | None] | None
) -> tuple[Array, Array | None, float, float]:
    """Scores and labels of the integers, and their difference from the model; raises ParityError.

    The answers of the program, if it ran, must be those of the simulation, bit by bit.
    """
    whole = form.rows(rows)
    outputs = form.outputs(whole)
    labels = None if model.kind == "regressor" else model.labels(model.scores(outputs.astype(np.float64)))
    if answers is not None and not np.array_equal(answers[0], outputs):
        raise ParityError("the C program differs from the simulation of its integers. Nothing was written.")
    if answers is not None and labels is not None and not np.array_equal(np.asarray(answers[1]), labels):
        raise ParityError("the C program gives other labels than the simulation of its integers. Nothing was written.")
    scores = outputs * form.unit
    inside = form.inside(whole) & np.isfinite(expected.scores).all(axis=1)
    gaps = np.where(inside[:, None], np.abs(scores - expected.scores), 0.0)
    for row, output in np.argwhere(gaps > form.bounds + expected.limit[:, None])[:1]:
        raise ParityError(
            f"integers differ from the machine by {gaps[row, output]:.3g}, more than the bound "
            f"{form.bounds[output]:.3g} that was derived for them. Nothing was written; export with "
            "arithmetic='float', and report this."
        )
    difference = float(gaps[: expected.n_usual].max(initial=0.0))
    largest = float(np.abs(expected.scores[: expected.n_usual]).max(initial=0.0))
    return scores, labels, difference, difference / largest if largest > 0 else difference


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


def _compiled(text: CFile, name: str, compiler: str | None) -> tuple[str | None, str | None]:
    """The compiler that makes programs for this machine, if there is one, and a note on one that does not.

    Raises ParityError unless the compiler that was asked for takes the files without a warning.
    """
    if compiler is None:
        return find_compiler(), None
    command = shlex.split(compiler)
    if not command or shutil.which(command[0]) is None:
        raise ValueError(f"compiler {compiler!r} was not found; expected the name or path of a C compiler.")
    if "avr" in Path(command[0]).name and not any(option.startswith("-mmcu") for option in command):
        command.append("-mmcu=atmega328p")
    with tempfile.TemporaryDirectory() as folder:
        source, program = _written(text, name, folder)
        _compile([*command, *FLAGS, "-Os", "-c", str(source), "-o", str(program)])
        linked = [*command, *FLAGS, "-O1", f"-D{name.upper()}_MAIN", str(source), "-o", str(program), "-lm"]
        if not subprocess.run(linked, capture_output=True).returncode:
            try:
                subprocess.run([str(program)], stdin=subprocess.DEVNULL, capture_output=True)
                return compiler, None
            except OSError:  # of another machine
                pass
    ours = find_compiler()
    checked = "" if ours is None else f"; answers checked with {ours}"
    return ours, f"compiled with {command[0]}, whose programs do not run here{checked}"


def _written(text: CFile, name: str, folder: str) -> tuple[Path, Path]:
    """The files in a folder: the source, and where its program will be."""
    source, program = Path(folder, f"{name}.c"), Path(folder, name)
    source.write_text(text.source, encoding="ascii")
    Path(folder, f"{name}.h").write_text(text.header, encoding="ascii")
    return source, program


def _compile(command: list[str]) -> None:
    compilation = subprocess.run(command, capture_output=True, text=True)
    if compilation.returncode:
        raise ParityError(f"the C file does not compile with {' '.join(FLAGS)}: {compilation.stderr[:2000]}")


def _run(text: CFile, name: str, rows: Array, compiler: str) -> Array:
    """What the compiled program prints for the rows, (n, columns)."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = _written(text, name, folder)
        options = [*FLAGS, "-O1", f"-D{name.upper()}_MAIN", str(source), "-o", str(program), "-lm"]
        _compile([*shlex.split(compiler), *options])
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
    if model.interval is not None:
        single = {name: in_single(values) for name, values in model.interval.arrays().items()}
        fields["interval"] = Interval(model.interval.level, **single)
    return replace(model, inputs=Inputs.of_arrays(model.inputs.schema, arrays), **fields)


# -- the source ------------------------------------------------------------------------------------------


def c_source(
    model: Model, name: str, levels: tuple[Array, Array, Array] | None, single: bool, about: str
) -> CFile:
    """A folded model in floats."""
    (m, r), d, L, k = model.basis.shape, model.n_features, model.weights.shape[1], decision_shape(model)[0]
    real, size = ("float", 4) if single else ("double", 8)
    widths: list[Array] = []
    kernel = _kernel(model.kernel, name, single, widths)
    arrays: Arrays = {"basis": (real, model.basis)}
    defined: dict[str, Any] = {"REAL": real, "KERNEL": kernel, "INPUTS": r, "VECTORS": m, "OUTPUTS": L}
    defined |= dict.fromkeys((real.upper(), model.kind.upper()), 1)
    if model.link == "log":
        defined["VALUE_OF_LOG"] = "expf" if single else "exp"
    if levels is not None:
        small, zero, step = levels
        arrays, defined["BYTES"] = {"basis": ("int8_t", small)}, 1
        if not zero.any() and step[0] > 0 and np.allclose(step, step[0], rtol=1e-6, atol=0.0):
            defined["STEP"] = _literal(step[0], single)
        else:
            arrays |= {"basis_zero": (real, zero), "basis_step": (real, step)}
    arrays["weights"] = (real, model.weights)
    if model.storage is not None:
        steps = model.storage.weight_steps
        arrays["weights"] = ("int8_t", model.storage.small(model.weights, steps))
        arrays["weights_step"], defined["WEIGHTS_STEP"] = (real, steps), 1
    arrays["intercept"] = (real, model.intercept)
    if model.ordered:
        defined["ORDERED"] = 1
    if model.calibration is not None and len(model.classes_) > 1:
        defined["PROBABILITIES"] = len(model.classes_)
        _add_calibration(arrays, defined, model.calibration, real, single)
    if model.interval is not None:
        defined["INTERVAL"], arrays["reach"] = 1, (real, model.interval.reach)
        _add_noise(arrays, defined, model.interval, real)
    for key, values in model.inputs.arrays().items():
        key, values = ("factor", 1.0 / values) if key == "scale" else (key, values)
        kind = "uint8_t" if key == "pieces" else real
        arrays[key], defined[key.upper()] = (kind, values if values.size else np.zeros(1)), 1  # no array is empty in C
    if model.storage is not None and model.storage.map_steps is not None:
        assert model.inputs.map is not None
        small_map = model.storage.small_map(model.inputs.map)
        arrays["map"] = (f"{small_map.dtype}_t", small_map)
        arrays["map_step"], defined["MAP_STEPS"] = (real, model.storage.map_steps), 1
    if "_power(" in kernel:
        defined["POWER"] = 1
    if widths:
        arrays["widths"], defined["WIDTHS"] = (real, np.array(widths)), len(widths)
    if (voting := votes(model)) is not None:
        arrays["codes"], defined["VOTES"] = ("int8_t", voting[0]), _literal(voting[1], single)
    readers = {real: "REAL_AT(p)", "int8_t": "BYTE(p)", "int16_t": "WORD(p)"}
    for key in ("basis", "weights", "map"):
        if key in arrays:
            reader = f"(({arrays[key][0]}){name.upper()}_{readers[arrays[key][0]]})"
            defined[f"{key.upper().removesuffix('S') if key == 'weights' else key.upper()}_AT(p)"] = reader
    mapped = 0 if model.inputs.map is None else r
    work_bytes = size * (d + mapped + defined["OUTPUTS"] + len(widths) + (k if model.kind != "regressor" else 0))
    about += "\n   Link with -lm. Scores beyond the type are NaN or infinite; the class index is then -1: test it."
    return _c_file(model, name, about, arrays, defined, (real, real), work_bytes, ["#include <math.h>"], "runtime.c",
                   _declared_of(model, name, real))  # fmt: skip


def integer_source(model: Model, form: IntegerForm, name: str, tests: Array, about: str) -> CFile:
    """A model in integers."""
    (m, r), d, L = model.basis.shape, model.n_features, model.weights.shape[1]
    upper, arrays = name.upper(), dict(form.arrays)
    count = "uint8_t" if max(m, r, d, L) < 254 else "uint16_t"
    defined: dict[str, Any] = {"INPUTS": r, "VECTORS": m, "OUTPUTS": L, "COUNT": count, "INTEGER": 1, "REAL": "float"}
    assembly = {"NEXT": ("dec %[n]",), "HALVE": ("lsr %[n]", "brcc 1f", "inc %[n]", "rjmp 2f")}
    if count == "uint16_t":
        assembly["NEXT"] = ("subi %A[n], 1", "sbci %B[n], 0")
        assembly["HALVE"] = ("lsr %B[n]", "ror %A[n]", "brcc 1f", "subi %A[n], -1", "sbci %B[n], -1", "rjmp 2f")
    defined |= {key: '"' + "\\n\\t".join((*lines, "")) + '"' for key, lines in assembly.items()}
    defined[model.kind.upper()] = 1
    defined |= {key: value for key, value in form.constants.items() if key not in ("SHIFT", "FACTOR")}
    defined |= {key: f"INT32_C({defined[key]})" for key in ("NORM", "NORM_START") if key in defined}
    for key in ("MAP", "FILL", "PIECES", "WEIGHT_FACTOR"):
        if key.lower() in arrays:
            defined[key] = 1
    pairs = all(arrays.get(key, ("",))[0] == "int16_t" for key in ("factor", "offset"))
    places = {key: f"{name}_{key} + (i)" for key in ("factor", "offset", "shifts")}
    if pairs:  # read one after the other
        both = np.stack([arrays["factor"][1], arrays["offset"][1]], axis=1)
        arrays = {"scaling": ("int16_t", both), **arrays}
        places |= {"factor": f"{name}_scaling + 2 * (i)", "offset": f"{name}_scaling + 2 * (i) + 1"}
    given = form.constants.get
    constant: dict[str, Any] = {"factor": given("FACTOR"), "offset": 0, "shifts": given("SHIFT")}
    for key, place in places.items():
        reader = constant[key]
        if key in arrays:
            kind, _ = arrays[key]
            reader = f"(({kind}){upper}_{_READERS[_SIZES[kind]]}({place}))"
            if pairs and key != "shifts":
                del arrays[key]
        defined[f"{key.upper().removesuffix('S')}(i)"] = reader
    bits = form.input_bits
    scales = [f"{2.0**exponent!r}F" for exponent in bits.tolist()]
    if np.all(bits == bits[0]):
        defined["SCALE(i)"] = scales[0]
        units = f"x is {'the number itself' if not bits[0] else f'the number times 2^{bits[0]}'}, rounded"
    else:
        defined["SCALES"] = ", ".join(scales)
        units = f"x is the number times 2 to the power of {', '.join(map(str, bits.tolist()))}, rounded"
    defined["TESTS"] = len(tests)
    defined["TEST_ROWS"] = ", ".join(map(str, tests.ravel().tolist())).replace(str(MISSING), "INT16_MIN")
    defined["TEST_SCORES"] = ", ".join(f"INT32_C({value})" for value in form.outputs(tests).ravel().tolist())
    work_bytes = 2 * (r + m + 4 + (d if "map" in arrays else 0)) + (4 * L if model.kind != "regressor" else 0)
    missing = "; INT16_MIN is a missing value" if "fill" in arrays else ""
    about += f"\n   Features are int16_t: {units}{missing}."
    extra = {"SCORE_UNIT": f"{form.unit:.9g}F", "SCORE_ERROR": f"{form.bounds.max():.3g}F"}
    declared = [
        "/* What one unit of a score is worth, and how far scores may be from the model's at the most. */",
        *(f"#define {upper}_{key} {value}" for key, value in extra.items()),
        "",
        "/* Features of floats; needs floating point, unlike all else, and is left out if NO_FLOAT is defined. */",
        f"void {name}_quantise(const float *values, int16_t *x);",
        f"/* Compiled with -D{upper}_SELFTEST: number of {len(tests)} stored rows with wrong scores; 0 is right. */",
        f"int {name}_selftest(void);",
    ]
    table = {"powers": ("uint16_t", np.zeros(33))}
    return _c_file(
        model, name, about, arrays, defined, ("int16_t", "int32_t"), work_bytes, [], "integer.c", declared, table
    )


def _c_file(
    model: Model, name: str, about: str, arrays: Arrays, defined: dict[str, Any], types: tuple[str, str],
    work_bytes: int, includes: list[str], runtime: str, declared: list[str] | None = None, table: Arrays | None = None,
) -> CFile:  # fmt: skip
    """Header and source, of the numbers and the fixed text."""
    upper, (x_type, score_type), n_scores = name.upper(), types, decision_shape(model)[0]
    data_bytes = sum(_SIZES[kind] * values.size for kind, values in (arrays | (table or {})).values())
    declared_classes, classes, class_bytes = _class_lines(name, model.classes)
    data_bytes += class_bytes
    wrapped = "".join(f"\n   {line}" for line in feature_lines(model))
    title = (
        f"/* A {model.kind} of kompakt {kompakt.__version__}, {about.split(chr(10))[0]}: {len(model.basis)} basis "
        f"vectors, {model.n_features} features, {model.weights.shape[1]} outputs."
    )
    header = [
        title,
        *about.split("\n")[1:],
        f"   Constant data: {data_bytes} bytes. Stack of one prediction: {work_bytes} bytes of arrays. No heap.",
        f"   C99. With -D{upper}_MAIN it reads lines of {model.n_features} numbers and prints predictions.{wrapped} */",
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "#include <stdint.h>",
        "#if defined(__AVR__)",
        "#include <avr/pgmspace.h>",
        f"#define {upper}_FLASH PROGMEM",
        "#else",
        f"#define {upper}_FLASH",
        "#endif",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"#define {upper}_FEATURES {model.n_features}",
        f"#define {upper}_SCORES {n_scores}",
        f"#define {upper}_FLASH_BYTES {data_bytes} /* constant data */",
        f"#define {upper}_RAM_BYTES 0",
        f"#define {upper}_STACK_BYTES {work_bytes} /* arrays of one prediction */",
        "",
        *declared_classes,
        f"/* Writes {upper}_SCORES decision values for a row of {upper}_FEATURES numbers. */",
        f"void {name}_scores(const {x_type} *x, {score_type} *scores);",
    ]
    if model.kind == "classifier":
        index = ", -1 if a score is NaN or infinite" if runtime == "runtime.c" else ""
        header += [f"/* The index of the label in {name}_classes{index}. */", f"int {name}_predict(const {x_type} *x);"]
    elif model.kind == "outlier":
        header += ["/* 1 for an inlier and -1 for an outlier. */", f"int {name}_predict(const {x_type} *x);"]
    elif n_scores == 1:
        header += [f"{score_type} {name}_predict(const {x_type} *x);"]
    header += [*(declared or []), "", "#ifdef __cplusplus", "}", "#endif", "#endif", ""]
    source = [
        title + " */",
        f'#include "{name}.h"',
        *includes,
        "",
        "#if defined(__AVR__) /* constants stay in program memory */",
        f"#define {upper}_BYTE(p) pgm_read_byte(p)",
        f"#define {upper}_WORD(p) pgm_read_word(p)",
        f"#define {upper}_LONG(p) pgm_read_dword(p)",
        f"#define {upper}_REAL_AT(p) (({defined['REAL']})pgm_read_float(p))",
        "#else",
        *(f"#define {upper}_{reader}(p) (*(p))" for reader in ("BYTE", "WORD", "LONG", "REAL_AT")),
        "#endif",
        "",
        *(f"#define {upper}_{key} {value}" for key, value in defined.items()),
        "",
        *classes,
    ]
    for key, (kind, values) in arrays.items():
        items = [str(int(value)) for value in values.ravel()]
        if kind in ("float", "double"):
            items = _numbers(values, kind == "float")
        lines = ",\n    ".join(", ".join(items[start : start + 10]) for start in range(0, len(items), 10))
        source.append(f"static const {kind} {name}_{key}[{values.size}] {upper}_FLASH = {{\n    {lines}\n}};")
    folder = resources.files("kompakt.export")
    fixed = "\n".join(folder.joinpath(part).read_text(encoding="ascii") for part in (runtime, "main.c"))
    prefixes = {"machine_": f"{name}_", "MACHINE_": f"{upper}_"}
    source += ["", re.sub("machine_|MACHINE_", lambda match: prefixes[match[0]], fixed)]
    return CFile("\n".join(header), "\n".join(source), data_bytes, work_bytes)


def _declared_of(model: Model, name: str, real: str) -> list[str]:
    """Functions that only some machines have."""
    declared = []
    if model.calibration is not None and len(model.classes_) > 1:
        declared += ["/* Writes a probability for every class; NaN if a score is. */",
                     f"void {name}_probabilities(const {real} *x, {real} *chances);"]  # fmt: skip
    if model.interval is not None:
        declared += ["/* Writes the lower and the upper bound of every decision value. */",
                     f"void {name}_interval(const {real} *x, {real} *lower, {real} *upper);"]  # fmt: skip
    return declared


def _add_calibration(
    arrays: dict[str, tuple[str, Array]], defined: dict[str, Any], calibration: Calibration, real: str, single: bool
) -> None:
    """What turns scores into probabilities."""
    if "t" in calibration:
        defined["TEMPERATURE"] = _literal(float(calibration["t"][0]), single)
    elif "x" in calibration:
        arrays |= {"curve_x": (real, calibration["x"]), "curve_y": (real, calibration["y"])}
        arrays["curve_end"], defined["CURVES"] = ("int16_t", calibration["ends"]), 1
    else:
        arrays |= {"slope": (real, calibration["a"]), "start": (real, calibration["b"])}


def _add_noise(arrays: dict[str, tuple[str, Array]], defined: dict[str, Any], interval: Interval, real: str) -> None:
    """Put the noise of an interval behind the outputs, in the bytes of the weights where these are such."""
    if interval.weights is None or interval.intercept is None or interval.floor is None:
        return
    kind, weights = arrays["weights"]
    noise = interval.weights
    if kind != real:
        steps = np.abs(noise).max(axis=0, initial=1e-30) / _LEVELS
        arrays["weights_step"] = (real, np.concatenate([arrays["weights_step"][1], steps]))
        noise = np.rint(noise / steps).astype(np.int8)
    arrays["weights"] = (kind, np.hstack([weights, noise]))
    arrays["intercept"] = (real, np.concatenate([arrays["intercept"][1], interval.intercept]))
    arrays["floor"], defined["NOISE"] = (real, interval.floor), 1
    defined["OUTPUTS"] += len(interval.reach)


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


def _class_lines(name: str, labels: Array | None) -> tuple[list[str], list[str], int]:
    """Declaration and definition of the labels, in the order of the class indices, and their bytes."""
    if labels is None:
        return [], [], 0
    flash, texts = f"{name.upper()}_FLASH", []
    if labels.dtype.kind in "UO":
        raw = [str(label).encode() for label in labels]
        if max(map(len, raw)) > _MAX_STRING:
            raise UnsupportedModelError(f"a label of {max(map(len, raw))} bytes is longer than C99 promises to take.")
        # Three octal digits never swallow the character that follows; '?' could begin a trigraph.
        quoted = (re.sub(rb"[^ 0-9A-Za-z]", lambda byte: b"\\%03o" % byte[0][0], label).decode() for label in raw)
        texts = [f'static const char {name}_label_{i}[] {flash} = "{text}";' for i, text in enumerate(quoted)]
        values = [f"{name}_label_{i}" for i in range(len(labels))]
        kind, size = "char *const", sum(len(label) + 1 for label in raw)
    elif labels.dtype.kind == "f":
        kind, values, size = "double", [repr(float(label)) for label in labels], 8 * len(labels)
    elif int(np.abs(labels.astype(object)).max()) > 2**31 - 1:
        kind, values, size = "int64_t", [f"INT64_C({int(label)})" for label in labels], 8 * len(labels)
    else:
        kind, values, size = "int32_t", [str(int(label)) for label in labels], 4 * len(labels)
    declared = f"const {kind} {name}_classes[{len(labels)}] {flash}"
    return [f"extern {declared};"], [*texts, f"{declared} = {{\n    {', '.join(values)}\n}};", ""], size
