"""`to_numpy`: a machine as one Python file that needs NumPy and nothing else."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import Any

import numpy as np

import kompakt
from kompakt.export.machine import Machine, exported_model, factored, machine_of
from kompakt.export.parity import TOLERANCE, ExportReport, check_rows_for, compare, expect
from kompakt.formats.files import write_atomically
from kompakt.kernels import RBF, Constant, Kernel, Laplacian, Linear, Polynomial, Product, Sum

_HEAD = '''"""A {kind} of kompakt {version}: {m} basis vectors, {d} features. Needs NumPy only.

    import {module}
    {module}.predict(X)              # X: (n, {d}), in the units of the training data
    {module}.decision_function(X)

or, for rows in a file of comma-separated numbers:  python {file} rows.csv
"""

import base64
import io
import sys

import numpy as np

_DATA = """
{data}
"""
_ARRAYS = dict(np.load(io.BytesIO(base64.b64decode(_DATA)), allow_pickle=False))
_BASIS, _WEIGHTS, _INTERCEPT = _ARRAYS["basis"], _ARRAYS["weights"], _ARRAYS["intercept"]
'''
_BODY = '''

def _outputs(X):
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != {d}:
        raise ValueError(f"X must have shape (n, {d}); got {{X.shape}}.")
    result = np.empty((len(X), {L}))
    for start in range(0, len(X), {block}):  # little memory, whatever the number of rows
        result[start : start + {block}] = _kernel(_scaled(X[start : start + {block}])) @ _WEIGHTS + _INTERCEPT
    return result


def decision_function(X):
    """Decision values: {shape}."""
{scores}


def predict(X):
    """{predicts}, (n,)."""
    scores = decision_function(X)
{labels}
'''
_PROBABILITIES = '''

def predict_proba(X):
    """Class probabilities from the calibration of the machine, (n, n_classes)."""
    scores = decision_function(X)
    each = 0.5 * (1.0 + np.tanh(-0.5 * (_ARRAYS["slope"] * scores{new_axis} + _ARRAYS["start"])))
{combine}
'''
_MAIN = """

if __name__ == "__main__":
    rows = np.genfromtxt(sys.argv[1] if len(sys.argv) > 1 else sys.stdin, delimiter=",", ndmin=2, comments=None)
    for value in predict(rows).tolist():
        print(value)
"""


def to_numpy(
    fitted: Any, path: str | os.PathLike[str], *, check_rows: Any = None, tolerance: float | None = None
) -> ExportReport:
    """Write a machine as one Python file that needs NumPy only, and check it.

    The file holds the arrays as text and the functions ``predict`` and ``decision_function`` (and ``predict_proba``
    for a calibrated machine); imputation and scaling are inside.  As a program it reads comma-separated rows and
    prints predictions.

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
    model = exported_model(fitted)
    machine = machine_of(model)
    target = Path(path)
    text = _source(machine, target)
    rows = check_rows_for(model, check_rows)
    expected = expect(model, rows, TOLERANCE["float64"] if tolerance is None else tolerance)
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(text, str(target), "exec"), names)  # what was just made from arrays and the templates above
    labels = None if machine.kind == "regressor" else names["predict"](rows)
    measured = compare(expected, names["decision_function"](rows), labels, "the NumPy file")
    raw = text.encode("utf-8")
    write_atomically(target, [raw])
    return ExportReport(target, "numpy", len(raw), len(rows), *measured, files=(target,))


def _source(machine: Machine, target: Path) -> str:
    arrays: dict[str, np.ndarray] = {name: getattr(machine, name) for name in ("basis", "weights", "intercept")}
    arrays |= {name: v for name in ("fill", "shift", "factor", "codes") if (v := getattr(machine, name)) is not None}
    if machine.classes is not None:
        arrays["classes"] = machine.classes
    if machine.calibration is not None:
        arrays |= {"slope": machine.calibration["a"], "start": machine.calibration["b"]}
    kernel = _kernel(machine.kernel, arrays)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    m, d = machine.basis.shape
    module = target.stem if target.stem.isidentifier() and target.stem.isascii() else "machine"
    L, deep = machine.weights.shape[1], "np.abs(X[:, None]" in kernel
    head = _HEAD.format(
        kind=machine.kind, version=kompakt.__version__, m=m, d=d, file=f"{module}.py", module=module,
        data="\n".join(data[start : start + 100] for start in range(0, len(data), 100)),
    )  # fmt: skip
    text = head + _scaled(machine) + f"\n\ndef _kernel(X):\n    return {kernel}\n"
    text += _BODY.format(
        d=d, L=L, block=max(1, min(4096, (1 << 22) // max(1, m * (d if deep else 1)))), scores=_scores(machine),
        shape="(n,)" if machine.flat else f"(n, {machine.n_scores})", labels=_labels(machine),
        predicts={"classifier": "Labels", "outlier": "1 for inliers and -1 for outliers"}.get(machine.kind, "Values"),
    )  # fmt: skip
    if machine.calibration is not None:
        text += _probabilities(machine)
    return text + _MAIN


def _scaled(machine: Machine) -> str:
    lines = ["", "", "def _scaled(X):"]
    if machine.fill is not None:
        lines.append('    X = np.where(np.isnan(X), _ARRAYS["fill"], X)')
    if machine.shift is not None:
        lines.append('    X = X - _ARRAYS["shift"]')
    if machine.factor is not None:
        lines.append('    X = X * _ARRAYS["factor"]')
    return "\n".join([*lines, "    return X", ""])


def _kernel(kernel: Kernel, arrays: dict[str, np.ndarray]) -> str:
    """An expression for the kernel values (n, m) of scaled rows X."""
    if isinstance(kernel, Sum | Product):
        core, factor = factored(kernel)
        if factor != 1.0:
            return f"{factor!r} * {_kernel(core, arrays)}"
        sign = " + " if isinstance(kernel, Sum) else " * "
        return "(" + sign.join(_kernel(part, arrays) for part in kernel.parts) + ")"
    if isinstance(kernel, Constant):
        return f"np.full((len(X), len(_BASIS)), {float(kernel.value)!r})"
    if isinstance(kernel, RBF):
        width, before = repr(kernel.gamma), ""
        if isinstance(kernel.gamma, np.ndarray):
            name = f"gamma{len(arrays)}"
            arrays[name], width, before = kernel.gamma, "1.0", f' * _ARRAYS["{name}"]'
        return (
            f"np.exp(-{width} * np.maximum((X * X{before}).sum(axis=1)[:, None] - 2.0 * (X{before}) @ _BASIS.T"
            f" + (_BASIS * _BASIS{before}).sum(axis=1), 0.0))"
        )
    if isinstance(kernel, Laplacian):
        return f"np.exp(-{float(kernel.gamma)!r} * np.abs(X[:, None] - _BASIS).sum(axis=2))"
    if isinstance(kernel, Linear):
        return "(X @ _BASIS.T)"
    assert isinstance(kernel, Polynomial)
    return f"({float(kernel.gamma)!r} * (X @ _BASIS.T) + {float(kernel.coef0)!r}) ** {int(kernel.degree)}"


def _scores(machine: Machine) -> str:
    if machine.codes is None:
        return f"    return _outputs(X){'[:, 0]' if machine.flat else ''}"
    return (
        '    outputs, codes = _outputs(X), _ARRAYS["codes"].T\n'
        "    margins = outputs @ codes\n"
        "    votes = np.where(outputs > 0, 0.5, -0.5) @ codes\n"
        f"    return {machine.votes_base!r} + votes + margins / (3.0 * (np.abs(margins) + 1.0))"
    )


def _labels(machine: Machine) -> str:
    if machine.kind == "regressor":
        return "    return scores"
    if machine.kind == "outlier":
        return "    return np.where(scores >= 0, 1, -1)"
    best = "(scores > 0).astype(int)" if machine.n_scores == 1 else "np.argmax(scores, axis=1)"
    return f'    return _ARRAYS["classes"][{best}]'


def _probabilities(machine: Machine) -> str:
    if machine.n_scores == 1:
        return _PROBABILITIES.format(new_axis="[:, None]", combine="    return np.hstack([1.0 - each, each])")
    combine = (
        "    total = each.sum(axis=1, keepdims=True)\n"
        f"    return np.where(total > 0, each / np.where(total > 0, total, 1.0), 1.0 / {machine.n_scores})"
    )
    return _PROBABILITIES.format(new_axis="", combine=combine)
