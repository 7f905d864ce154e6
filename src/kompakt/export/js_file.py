"""`to_js`: a machine as one JavaScript file, the fixed text of `runtime.js` before its numbers, run and checked."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import warnings
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import kompakt
from kompakt.data.table import MISSING, Date, TableSchema, Unused, columns_of, is_missing, is_table
from kompakt.export.common import (
    TOLERANCE,
    ExportReport,
    ParityError,
    check_rows_for,
    compare,
    expect,
    facts_and_arrays,
    feature_lines,
    folded,
    left_out_notes,
    write_exported,
)
from kompakt.export.onnx_file import table_like
from kompakt.io.fitted import model_of
from kompakt.model import Model

Array = np.ndarray

#: clock times and durations of the check
_TIMES = np.array(["10:30", " 1:15 PM", "23:59:59.5", "2 days 06:00:00", "1h 30min", "PT2H", "25:61", ""], object)
#: what the check adds to the file: rows on standard input, an answer or a refusal for each
_CHECK = """
const answer = (row) => {
  try { return [machine.predict(row), machine.scores(row)]; } catch { return [null, null]; }
};
console.log(JSON.stringify(JSON.parse(require("fs").readFileSync(0, "utf8")).map(answer)));
"""


def to_js(
    fitted: Any,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    check_rows: Any = None,
    tolerance: float | None = None,
    node: str | None = None,
) -> ExportReport:
    """Write a machine as one JavaScript file without dependencies, and check it with Node.js.

    In a page, ``<script src="iris.js"></script>`` makes the object ``iris``; in Node.js, ``require("./iris.js")`` gives
    it.  It has the functions ``predict(row)``, ``scores(row)`` (decision values) and ``probabilities(row)`` (null
    unless the machine was calibrated), and ``similarities(row)``, the kernel values of the basis vectors.  A row is an
    array of features or, for a machine of tables, an object of cells by the names of their columns, as text or numbers:
    tables of words, dates, imputation, scaling, map and calibration are inside.

    Parameters
    ----------
    fitted : fitted kompakt estimator, Model, pipeline, or SVM of scikit-learn
        A pipeline may impute and scale with scikit-learn's `SimpleImputer` and scalers before the kompakt estimator.
    path : path-like
    name : str, default=None
        Name of the object; by default the file's.
    check_rows : array-like of shape (n, n_features), or table, default=None
        Rows on which the file must answer as the machine; by default basis vectors with noise.
    tolerance : float, default=None
        Largest difference of decision values, relative to the sums of absolute terms behind them; by default 1e-12.
    node : str, default=None
        Node.js; by default ``node`` or ``nodejs``, if found.  Without it the file is written unchecked, with a warning.

    Returns
    -------
    ExportReport

    Raises
    ------
    ParityError
        If the answers differ; nothing is written.
    TypeError
        For a callable or precomputed kernel.

    Examples
    --------
    >>> import tempfile, pathlib, kompakt
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = kompakt.CompactSVC(n_basis=10, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = kompakt.to_js(machine, pathlib.Path(folder, "iris.js"), check_rows=X)
    >>> report.format, report.n_bytes < 20_000
    ('js', True)
    """
    model = model_of(fitted, svm=True)
    if name is None:
        name = re.sub(r"\W|^(?=\d)", "_", Path(path).stem, flags=re.ASCII)
    elif not re.fullmatch(r"[A-Za-z_]\w*", name, flags=re.ASCII):
        raise ValueError(f"name must be a plain identifier; got {name!r}.")
    text, schema = js_source(model, name), model.inputs.schema
    rows, n_usual = check_rows_for(model, check_rows)
    given: list[Any] = [[None if value != value else value for value in row] for row in rows.tolist()]
    if schema is not None:  # cells, as a page gives them
        made = rows[n_usual:] if is_table(check_rows) else rows
        times = {column.name: np.resize(_TIMES, len(made)) for column in schema.columns if column.kind == "time"}
        tables = [*([check_rows] if is_table(check_rows) else ()), table_like(schema, made) | times]
        given = [record for table in tables for record in records_of(table, schema)]
        rows = schema.encode({key: [record[key] for record in given] for key in given[0]})
    limit, command = TOLERANCE["float64"] if tolerance is None else tolerance, node or find_node()
    measured: tuple[float, float, Any] = (float("nan"), float("nan"), None)
    notes = left_out_notes(model)
    if command is None:
        notes = ("not checked: Node.js was not found", *notes)
        warnings.warn(f"{path} is {notes[0]}. Install it, or pass node=.", UserWarning, stacklevel=2)
    else:
        labels, scores = run_js(text, given, command)
        expected = expect(model, rows, n_usual, limit)
        blank = [np.nan] * expected.scores.shape[1]
        values = np.array([blank if row is None else row for row in scores], dtype=np.float64)
        values[np.isnan(expected.scores)] = np.nan  # sums of single terms may reach further than products of matrices
        answers = None if expected.labels is None else np.array(labels, dtype=object)
        measured = compare(expected, values, answers, "the JavaScript file in Node.js")
    raw = text.encode("ascii")
    files = write_exported(model, path, {"": [raw]})
    return ExportReport(Path(path), "js", len(raw), n_usual if command else 0, *measured, files=files, notes=notes)


def find_node() -> str | None:
    """Node.js of this machine, or None."""
    return shutil.which("node") or shutil.which("nodejs")


def runtime() -> str:
    """The fixed text of every such file."""
    return resources.files("kompakt.export").joinpath("runtime.js").read_text(encoding="utf-8")


def records_of(table: Any, schema: TableSchema) -> list[dict[str, Any]]:
    """Rows of a table as objects of cells by column, as a page would have them: text, numbers, None for a gap."""
    cells, rows = columns_of(table), []
    used = [column for column in schema.columns if not isinstance(column, Unused)]
    for row in zip(*(cells[column.name] for column in used), strict=True):
        record: dict[str, Any] = {}
        for column, cell in zip(used, row, strict=True):
            value = cell.item() if isinstance(cell, np.generic) else cell
            if not isinstance(value, str) and is_missing(value):
                value = None
            elif not isinstance(value, str | bool | int | float | None):
                value = value.strftime(column.form) if isinstance(column, Date) else str(value)
            record[column.name] = value
        rows.append(record)
    return rows


def js_model(model: Model) -> dict[str, Any]:
    """What `kompaktMachine` of `runtime.js` takes: facts, arrays as text, and the columns of a table."""
    simple = folded(model)
    facts, arrays = facts_and_arrays(simple)
    classes = arrays.pop("classes", None)
    packed = {
        name: base64.b64encode(np.asarray(values, dtype="<f8").tobytes()).decode() for name, values in arrays.items()
    }
    facts |= {"n_features": model.n_features, "arrays": packed}
    facts["classes"] = None if classes is None else classes.tolist()
    if (schema := model.inputs.schema) is not None:
        columns = [
            {name: None if value != value else value for name, value in column.items()}
            for column in schema.to_json()["columns"]
        ]
        facts |= {"columns": columns, "missing": sorted(MISSING), "also_missing": [*schema.missing]}
    return facts


def js_source(model: Model, name: str) -> str:
    """Text of the file, in ASCII."""
    lines = [
        f"A {model.kind} of kompakt {kompakt.__version__}: {model.n_basis_} vectors, {model.n_features} features.",
        f"In a page, a script element with this file as its source makes the object {name}; in Node.js, require does.",
        f"{name}.predict(row), {name}.scores(row), {name}.probabilities(row): a row is an array of numbers"
        + (", or an object of cells by columns." if model.inputs.schema is not None else "."),
        *feature_lines(model),
    ]
    numbers = json.dumps(js_model(model)).replace("</", "<\\/")
    text = (
        "/* " + "\n   ".join(lines) + " */\n(function () {\n" + runtime()
        + f"\nconst machine = kompaktMachine({numbers});\nglobalThis.{name} = machine;\n"
        + 'if (typeof module === "object" && module.exports) module.exports = machine;\n})();\n'
    )  # fmt: skip
    return re.sub("[^\0-\x7f]", lambda match: f"\\u{ord(match[0]):04x}", text)


def run_js(text: str, rows: list[Any], node: str) -> tuple[list[Any], list[Any]]:
    """Labels (or values) and scores that the file gives for rows; None for rows that it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "check.js")
        script.write_text(f"{text}\nconst machine = module.exports;\n{_CHECK}", encoding="ascii")
        result = subprocess.run([node, str(script)], input=json.dumps(rows), capture_output=True, text=True)
    if result.returncode:
        raise ParityError(f"the JavaScript file does not run: {result.stderr[:2000]}")
    labels, scores = zip(*json.loads(result.stdout), strict=True)
    return list(labels), list(scores)
