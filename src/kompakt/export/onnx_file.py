"""`to_onnx`: a machine as an ONNX file, checked in onnxruntime."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

import kompakt
from kompakt.export.machine import Machine, exported_model, machine_of
from kompakt.export.onnx_graph import Graph, label_array
from kompakt.export.parity import TOLERANCE, ExportReport, check_rows_for, compare, expect
from kompakt.formats.files import write_atomically
from kompakt.model import Model

_OPSET, _IR_VERSION = 17, 8  # of 2022: read by every onnxruntime from 1.12 on


def to_onnx(
    fitted: Any,
    path: str | os.PathLike[str],
    *,
    dtype: Any = "float64",
    check_rows: Any = None,
    tolerance: float | None = None,
) -> ExportReport:
    """Write a machine as an ONNX model of standard operators, and check it in onnxruntime.

    The input ``X`` is a tensor (n, n_features) of `dtype`, in the units the machine was trained on: imputation and
    scaling are inside.  The outputs of a classifier are ``label`` (n,) and ``scores``, which are those of
    `decision_function`, then ``probabilities`` where the machine is calibrated; a regressor has the output ``value``.

    Parameters
    ----------
    fitted : fitted kompakt estimator, Model, pipeline, or SVM of scikit-learn
        A pipeline may impute and scale with scikit-learn's `SimpleImputer` and scalers before the kompakt estimator.
    path : path-like
    dtype : {"float64", "float32"}, default="float64"
    check_rows : array-like of shape (n, n_features), default=None
        Rows on which the file must answer as the machine; by default basis vectors with noise.
    tolerance : float, default=None
        Largest difference of decision values, relative to the sums of absolute terms behind them; by default 1e-12
        for float64 and 1e-5 for float32.

    Returns
    -------
    ExportReport

    Raises
    ------
    ParityError
        If the answers differ; nothing is written.
    TypeError
        For a callable or precomputed kernel.
    ImportError
        If onnx or onnxruntime is missing.

    Examples
    --------
    >>> import tempfile, pathlib, kompakt
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = kompakt.CompactSVC(n_basis=10, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = kompakt.to_onnx(machine, pathlib.Path(folder, "iris.onnx"), check_rows=X)
    >>> report.n_rows, report.label_agreement
    (150, 1.0)
    """
    kind = np.dtype(dtype)
    if kind.name not in TOLERANCE:
        raise ValueError(f"dtype must be 'float64' or 'float32'; got {dtype!r}.")
    need_onnx()
    model = exported_model(fitted)
    machine = machine_of(model, single=kind == np.float32)
    raw = _onnx_bytes(machine, model, kind)
    rows = check_rows_for(model, check_rows).astype(kind)
    expected = expect(model, rows.astype(np.float64), TOLERANCE[kind.name] if tolerance is None else tolerance)
    labels, scores = _run(raw, rows, machine)
    measured = compare(expected, scores, labels, "the ONNX model in onnxruntime")
    target = Path(path)
    write_atomically(target, [raw])
    return ExportReport(target, "onnx", len(raw), len(rows), *measured, files=(target,))


def need_onnx() -> None:
    """Raise an error that names the extra where a package is missing."""
    from importlib.util import find_spec

    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"export to ONNX needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not "
            'installed. Install the extra: pip install "kompakt[onnx]".'
        )


class _Nodes:
    """A sink of our own."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, values: np.ndarray) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def rename(self, old: str, new: str) -> None:
        self.nodes.append(self._identity(old, new))

    @staticmethod
    def _identity(old: str, new: str) -> Any:
        from onnx import helper

        return helper.make_node("Identity", [old], [new], name=f"name_{new}")


def _onnx_bytes(machine: Machine, model: Model, dtype: np.dtype) -> bytes:
    import onnx
    from onnx import helper

    sink = _Nodes()
    graph = Graph(sink, machine, dtype)
    element = helper.np_dtype_to_tensor_dtype(dtype)
    scores = graph.scores(graph.outputs("X"))
    shown = graph.flat(scores) if machine.flat else scores
    shape: list[str | int | None] = ["n"] if machine.flat else ["n", machine.n_scores]
    results = []
    if machine.kind == "regressor":
        sink.rename(shown, "value")
    else:
        sink.rename(graph.labels(scores), "label")
        results.append(helper.make_tensor_value_info("label", _label_type(machine), ["n"]))
        sink.rename(shown, "scores")
    results.append(helper.make_tensor_value_info("value" if machine.kind == "regressor" else "scores", element, shape))
    if machine.calibration is not None and machine.classes is not None:
        sink.rename(graph.probabilities(scores), "probabilities")
        width = len(machine.classes)
        results.append(helper.make_tensor_value_info("probabilities", element, ["n", width]))
    rows = helper.make_tensor_value_info("X", element, ["n", model.n_features])
    proto = helper.make_model(
        helper.make_graph(sink.nodes, "kompakt", [rows], results, sink.constants),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="kompakt",
        producer_version=kompakt.__version__,
    )
    if model.feature_names is not None:
        helper.set_model_props(proto, {"feature_names": json.dumps([str(name) for name in model.feature_names])})
    onnx.checker.check_model(proto)
    return proto.SerializeToString()


def _label_type(machine: Machine) -> int:
    from onnx import TensorProto, helper

    if machine.classes is None:
        return TensorProto.INT64
    labels = label_array(machine.classes)
    return TensorProto.STRING if labels.dtype.kind == "O" else helper.np_dtype_to_tensor_dtype(labels.dtype)


def _run(raw: bytes, rows: np.ndarray, machine: Machine) -> tuple[np.ndarray | None, np.ndarray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
    if machine.kind == "regressor":
        return None, session.run(["value"], {"X": rows})[0]
    labels, scores = session.run(["label", "scores"], {"X": rows})
    return labels, scores
