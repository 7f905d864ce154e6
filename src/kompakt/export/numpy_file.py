"""`to_numpy`: a machine as one Python file that needs NumPy only, the text of `runtime.py` with its numbers."""

from __future__ import annotations

import base64
import io
import os
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import kompakt
from kompakt.export.common import (
    TOLERANCE,
    ExportReport,
    check_bounds,
    check_rows_for,
    facts_and_arrays,
    feature_lines,
    folded,
    left_out_notes,
    write_checked,
)
from kompakt.io.fitted import model_of
from kompakt.model import Model

#: the lines of `runtime.py` that the numbers replace
_PLACE = '_FACTS: dict[str, Any] = {}\n_DATA = ""\n'


def to_numpy(
    fitted: Any, path: str | os.PathLike[str], *, check_rows: Any = None, tolerance: float | None = None
) -> ExportReport:
    """Write a machine as one Python file that needs NumPy only, and check it.

    The file holds the arrays as text and the functions ``predict`` and ``decision_function`` (and ``predict_proba``
    for a calibrated machine, ``predict_interval`` for one with intervals); imputation and scaling are inside.  As a
    program it reads comma-separated rows and prints predictions.

    Parameters
    ----------
    fitted : fitted kompakt estimator, Model, pipeline, or SVM of scikit-learn
        A pipeline may impute and scale with scikit-learn's `SimpleImputer` and scalers before the kompakt estimator.
    path : path-like
        Should end in ``.py``, to be importable.
    check_rows : array-like of shape (n, n_features), default=None
        Rows on which the file must answer as the machine; by default basis vectors with noise.
    tolerance : float, default=None
        Largest difference of decision values, relative to the sums of absolute terms behind them; by default 1e-12.

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
    >>> import tempfile, pathlib, runpy, kompakt
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = kompakt.CompactSVC(n_basis=10, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = kompakt.to_numpy(machine, pathlib.Path(folder, "iris.py"))
    ...     names = runpy.run_path(report.path)
    >>> bool((names["predict"](X) == machine.predict(X)).all())
    True
    """
    model = model_of(fitted, svm=True)
    text = numpy_source(folded(model), Path(path).stem)
    rows, n_usual = check_rows_for(model, check_rows)
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(text, str(path), "exec"), names)  # what was just made from arrays and our own runtime.py
    # far rows one by one: sums that nearly overflow may do so or not by the number of rows beside them
    answered = [row[None] for row in rows[n_usual:] if _answers(names, row)]
    groups = [rows[:n_usual], *answered]
    rows, scores = np.concatenate(groups), np.concatenate([names["decision_function"](group) for group in groups])
    labels = None if model.kind == "regressor" else np.concatenate([names["predict"](group) for group in groups])
    limit = TOLERANCE["float64"] if tolerance is None else tolerance
    if model.interval is not None:
        bounds = names["predict_interval"](rows[:n_usual])
        check_bounds(model, rows[:n_usual], bounds, limit * max(1.0, float(np.abs(scores).max())), "the NumPy file")
    raw, what, notes = text.encode("utf-8"), "the NumPy file", left_out_notes(model)
    return write_checked(model, path, "numpy", raw, (rows, n_usual), limit, scores, labels, what, notes)


def _answers(names: dict[str, Any], row: Any) -> bool:
    """Whether the file answers a row instead of refusing it."""
    try:
        names["decision_function"](row[None])
    except ValueError:
        return False
    return True


def numpy_source(model: Model, module: str) -> str:
    """Text of the file, whose name without ``.py`` is `module`."""
    facts, arrays = facts_and_arrays(model)
    buffer = io.BytesIO()
    named: dict[str, Any] = arrays
    np.savez_compressed(buffer, **named)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    lines = "\n".join(data[start : start + 100] for start in range(0, len(data), 100))
    m, d = len(model.basis), model.n_features
    module = module if module.isidentifier() and module.isascii() else "machine"
    columns = "".join(f"{line}\n" for line in feature_lines(model)).replace('"', "'")
    columns = columns and f"\n{columns}"
    about = f'''"""A {model.kind} of kompakt {kompakt.__version__}: {m} basis vectors, {d} features. Needs NumPy only.

    import {module}
    {module}.predict(X)              # X: (n, {d}), in the units of the training data
    {module}.decision_function(X)

or, for rows in a file of comma-separated numbers:  python {module}.py rows.csv
{columns}"""'''
    fixed = resources.files("kompakt.export").joinpath("runtime.py").read_text(encoding="ascii")
    before, after = fixed.split("\n\n", 1)[1].split(_PLACE)  # without its docstring
    return f'{about}\n\n{before}_FACTS = {facts!r}\n_DATA = """\n{lines}\n"""\n{after}'
