"""`to_c`: a machine as one C99 file, compiled and checked where there is a compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import kompakt
from kompakt.export.c_code import c_source, stored
from kompakt.export.machine import Machine, exported_model, machine_of
from kompakt.export.parity import Expected, check_rows_for, compare, expect
from kompakt.export.report import CReport, ParityError
from kompakt.formats.files import write_atomically
from kompakt.model import Model

DTYPES = ("double", "float", "int8")
#: how the file is compiled for the check: it must not give a single warning
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
_TOLERANCE = {"double": 1e-12, "float": 1e-5, "int8": 1e-5}


def to_c(
    fitted: Any,
    path: str | os.PathLike[str],
    *,
    dtype: str = "float",
    name: str | None = None,
    check_rows: Any = None,
    check_targets: Any = None,
    tolerance: float | None = None,
    compiler: str | None = None,
) -> CReport:
    """Write a machine as one C99 file without dependencies, then compile it and check its answers.

    The file holds constant arrays and the functions ``<name>_scores(x, scores)`` and ``<name>_predict(x)``; imputation
    and scaling are inside.  Compiled with ``-D<NAME>_MAIN`` it is a program that reads rows from standard input and
    prints prediction (the class index of a classifier) and decision values.

    Parameters
    ----------
    fitted : fitted kompakt estimator, Model, pipeline, or SVM of scikit-learn
        A pipeline may impute and scale with scikit-learn's `SimpleImputer` and scalers before the kompakt estimator.
    path : path-like
    dtype : {"float", "double", "int8"}, default="float"
        Type of all numbers; "int8" stores the basis in eight bits per value, with the range of each feature as its
        scale, and computes in float.
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
    >>> machine = kompakt.CompactSVC(n_basis=10, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = kompakt.to_c(machine, pathlib.Path(folder, "iris.c"), dtype="int8", check_rows=X, check_targets=y)
    >>> report.data_bytes, report.accuracy - report.accuracy_exported < 0.02
    (248, True)
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {DTYPES}; got {dtype!r}.")
    target = Path(path)
    name = _identifier(target.stem) if name is None else name
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,200}", name):
        raise ValueError(f"name must be a C identifier; got {name!r}.")
    model = exported_model(fitted)
    machine = machine_of(model, single=dtype != "double")
    kept, levels = stored(machine, dtype)
    about = f"A {model.kind} of kompakt {kompakt.__version__}, kernel {type(model.kernel).__name__}, dtype {dtype}."
    text, data_bytes, work_bytes = c_source(kept, name, levels, dtype != "double", about)
    rows = _rows(model, check_rows, dtype)
    limit = _TOLERANCE[dtype] if tolerance is None else tolerance
    original, rounded = expect(model, rows, limit), expect(_as_model(kept, model), rows, limit)
    command = compiler or find_compiler()
    notes: tuple[str, ...] = ()
    measured: tuple[float, float, Any] = (float("nan"), float("nan"), None)
    answers = rounded
    if command is None:
        notes = ("not checked: no C compiler was found",)
        warnings.warn(f"{target} is {notes[0]}. Set CC, or pass compiler=.", UserWarning, stacklevel=2)
    else:
        predicted, scores = run_c(text, name, rows, machine, command)
        # Rounded to eight bits it is another machine; the program must answer as that one.
        against = rounded if dtype == "int8" else original
        measured = compare(against, scores, _labels(predicted, model), f"the C program ({dtype})")
        answers = replace(against, scores=np.reshape(scores, against.scores.shape), labels=_labels(predicted, model))
    if original.labels is not None and answers.labels is not None:
        measured = (*measured[:2], float(np.mean(answers.labels == original.labels)))
    accuracies = _accuracies(model, check_rows, check_targets, original, answers)
    both = original.decided & rounded.decided
    change = float(np.abs(original.scores - rounded.scores)[both].max(initial=0.0))
    raw = text.encode("ascii")
    write_atomically(target, [raw])
    return CReport(
        target, "c", len(raw), len(rows) if command else 0, *measured, files=(target,), notes=notes,
        data_bytes=data_bytes, work_bytes=work_bytes, storage_difference=change, accuracy=accuracies[0],
        accuracy_exported=accuracies[1],
    )  # fmt: skip


def find_compiler() -> str | None:
    """A C compiler of this machine, or None."""
    names = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


def run_c(text: str, name: str, rows: np.ndarray, machine: Machine, compiler: str) -> tuple[np.ndarray, np.ndarray]:
    """Compile the file with its main, and return what it predicts (or NaN for a regressor) and its decision values."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, f"{name}.c"), Path(folder, name)
        source.write_text(text, encoding="ascii")
        command = [compiler, *FLAGS, "-O1", f"-D{name.upper()}_MAIN", str(source), "-o", str(program), "-lm"]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode:
            raise ParityError(f"the C file does not compile with {' '.join(FLAGS)}: {made.stderr[:2000]}")
        lines = "\n".join(" ".join(map(repr, row)) for row in rows.tolist()) + "\n"
        result = subprocess.run([str(program)], input=lines, capture_output=True, text=True)
        if result.returncode:
            raise ParityError(f"the C program ended with code {result.returncode}: {result.stderr[:2000]}")
    values = np.array(result.stdout.split(), dtype=np.float64).reshape(len(rows), -1)
    if machine.kind == "regressor":
        return np.full(len(rows), np.nan), values
    return values[:, 0].astype(np.intp), values[:, 1:]


def _rows(model: Model, given: Any, dtype: str) -> np.ndarray:
    rows = check_rows_for(model, given)
    return rows if dtype == "double" else rows.astype(np.float32).astype(np.float64)


def _as_model(machine: Machine, model: Model) -> Model:
    """The stored numbers as a model, to compute in float64 what they mean."""
    return replace(
        model, kernel=machine.kernel, basis=machine.basis, weights=machine.weights, intercept=machine.intercept,
        input_fill=machine.fill, input_shift=machine.shift, offset=None,
        # a factor of 0 (a feature of width 0) has no scale: the kernel then ignores the feature, whatever is here
        input_scale=None if machine.factor is None else 1.0 / np.where(machine.factor == 0, 1e-300, machine.factor),
    )  # fmt: skip


def _labels(predicted: np.ndarray, model: Model) -> np.ndarray | None:
    if model.kind == "regressor":
        return None
    return predicted if model.kind == "outlier" else model.classes_[predicted]


def _accuracies(
    model: Model, rows: Any, targets: Any, original: Expected, answers: Expected
) -> tuple[float | None, float | None]:
    if targets is None:
        return None, None
    truth = np.asarray(targets)
    if rows is None or len(truth) != len(original.rows):
        raise ValueError(f"check_targets need check_rows of the same length; got {len(truth)} targets.")
    if model.kind != "regressor":
        return float(np.mean(original.labels == truth)), float(np.mean(answers.labels == truth))
    truth = truth.reshape(len(truth), -1)
    spread = float(np.square(truth - truth.mean(axis=0)).sum()) or 1.0
    before, after = (1.0 - float(np.square(truth - got.scores).sum()) / spread for got in (original, answers))
    return before, after


def _identifier(text: str) -> str:
    """A C identifier like the text."""
    word = re.sub(r"[^A-Za-z0-9_]", "_", text)[:60]
    return word if re.match(r"[A-Za-z_]", word) else f"m_{word}"
