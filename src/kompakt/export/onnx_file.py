"""`to_onnx`: a machine as a graph of standard ONNX operators in a file, checked in onnxruntime."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

import kompakt
from kompakt.export.folded import decision_shape, decomposed, exported_model, folded, votes
from kompakt.export.parity import TOLERANCE, ExportReport, check_rows_for, compare, expect
from kompakt.io.files import write_atomically
from kompakt.kernels import RBF, Constant, Kernel, Laplacian, Linear, Polynomial, Product, Sum
from kompakt.model import Model

Array = np.ndarray
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
    missing = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f"export to ONNX needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not "
            'installed. Install the extra: pip install "kompakt[onnx]".'
        )
    model = exported_model(fitted)
    raw = _onnx_bytes(folded(model, single=kind == np.float32), kind)
    rows = check_rows_for(model, check_rows).astype(kind)
    expected = expect(model, rows.astype(np.float64), TOLERANCE[kind.name] if tolerance is None else tolerance)
    labels, scores = _run(raw, rows, model.kind)
    measured = compare(expected, scores, labels, "the ONNX model in onnxruntime")
    target = Path(path)
    write_atomically(target, [raw])
    return ExportReport(target, "onnx", len(raw), len(rows), *measured, files=(target,))


def _onnx_bytes(model: Model, dtype: np.dtype) -> bytes:
    import onnx
    from onnx import helper

    graph = _FileGraph(model, dtype)
    element = helper.np_dtype_to_tensor_dtype(dtype)
    scores = graph.scores(graph.outputs("X"))
    shown, shape = (graph.flat(scores), ["n"]) if graph.is_flat else (scores, ["n", graph.n_scores])
    results: dict[str, tuple[str, int, list[Any]]] = {"value": (shown, element, shape)}
    if model.kind != "regressor":
        kind = helper.np_dtype_to_tensor_dtype(label_array(model.classes).dtype)
        results = {"label": (graph.labels(scores), kind, ["n"]), "scores": (shown, element, shape)}
        if model.calibration is not None:
            results["probabilities"] = (graph.probabilities(scores), element, ["n", len(model.classes_)])
    graph.nodes += [helper.make_node("Identity", [made[0]], [name], name=name) for name, made in results.items()]
    rows = helper.make_tensor_value_info("X", element, ["n", model.n_features])
    values = [helper.make_tensor_value_info(name, kind, shape) for name, (_, kind, shape) in results.items()]
    proto = helper.make_model(
        helper.make_graph(graph.nodes, "kompakt", [rows], values, graph.constants),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="kompakt",
        producer_version=kompakt.__version__,
    )
    if model.feature_names is not None:
        helper.set_model_props(proto, {"feature_names": json.dumps([str(name) for name in model.feature_names])})
    onnx.checker.check_model(proto)
    return bytes(proto.SerializeToString())


def _run(raw: bytes, rows: Array, kind: str) -> tuple[Array | None, Array]:
    """Labels and scores from onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
    if kind == "regressor":
        return None, session.run(["value"], {"X": rows})[0]
    labels, scores = session.run(["label", "scores"], {"X": rows})
    return labels, scores


# -- the graph -------------------------------------------------------------------------------------------


class Graph:
    """A folded model as operators such as MatMul and Exp, in one precision throughout; a subclass keeps the nodes.

    No product with a single number stands next to a MatMul: onnxruntime fuses the two and keeps the number in float32
    (attribute alpha of its FusedMatMul), which cost eight digits of float64 where it was tried.  Such numbers are
    folded into the constant matrices.

    Parameters
    ----------
    model : Model
    dtype : numpy dtype
        float32 or float64; the input tensor has it.
    """

    def __init__(self, model: Model, dtype: Any) -> None:
        self.model, self.dtype = model, np.dtype(dtype)
        self.n_scores, self.is_flat = decision_shape(model)
        self._centred_rows: dict[str, str] = {}

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        raise NotImplementedError

    def constant(self, values: Array) -> str:
        """Add a constant tensor and return its name."""
        raise NotImplementedError

    def _number(self, values: Any) -> str:
        return self.constant(np.asarray(values, dtype=self.dtype))

    def outputs(self, X: str) -> str:
        """Raw outputs f(x), (n, L)."""
        add, model = self.add, self.model
        if model.input_fill is not None:
            X = add("Where", add("IsNaN", X), self._number(model.input_fill), X)
        if model.input_shift is not None:
            X = add("Sub", X, self._number(model.input_shift))
        if model.input_scale is not None:
            factor, one = 1.0 / model.input_scale, model.n_features == 1
            X = add("MatMul" if one else "Mul", X, self._number(factor[:, None] if one else factor))
        if model.input_map is not None:
            X = add("MatMul", X, self._number(model.input_map.T))
        values = add("MatMul", self._kernel(model.kernel, X), self._number(model.weights))
        return add("Add", values, self._number(model.intercept))

    def scores(self, outputs: str) -> str:
        """Decision values, (n, n_scores)."""
        add, model = self.add, self.model
        if (voting := votes(model)) is None:
            return outputs
        codes = self._number(voting[0].T)
        one, half = self._number(1.0), self._number(0.5)
        signs = add("Where", add("Greater", outputs, self._number(0.0)), half, self._number(-0.5))
        counted = add("Add", add("MatMul", signs, codes), self._number(voting[1]))
        margins = add("MatMul", outputs, codes)  # squashed to less than a third of a vote, as the codings do
        squashed = add("Div", margins, add("Mul", add("Add", add("Abs", margins), one), self._number(3.0)))
        return add("Add", counted, squashed)

    def labels(self, scores: str) -> str:
        """Labels, (n,), from decision values (n, n_scores)."""
        add, model = self.add, self.model
        if self.n_scores == 1:
            flat = self.flat(scores)
            if model.kind == "outlier":
                minus, plus = (self.constant(np.array(label, dtype=np.int64)) for label in (-1, 1))
                return add("Where", add("GreaterOrEqual", flat, self._number(0.0)), plus, minus)
            best = add("Cast", add("Greater", flat, self._number(0.0)), to=7)  # int64
        else:
            best = add("ArgMax", scores, axis=1, keepdims=0)
        return add("Gather", self.constant(label_array(model.classes)), best, axis=0)

    def probabilities(self, scores: str) -> str:
        """Class probabilities from the stored calibration, (n, n_classes)."""
        add, calibration = self.add, self.model.calibration
        assert calibration is not None
        slope, start = (self._number(-np.asarray(calibration[key], dtype=np.float64)) for key in "ab")
        each = add("Sigmoid", add("Add", add("Mul", scores, slope), start))
        if self.n_scores == 1:
            return add("Concat", add("Sub", self._number(1.0), each), each, axis=1)
        ones = self._number(np.ones((self.n_scores, 1)))
        total, zero = add("MatMul", each, ones), self._number(0.0)
        some = add("Greater", total, zero)
        share = add("Div", each, add("Where", some, total, self._number(1.0)))
        return add("Where", some, share, self._number(1.0 / self.n_scores))

    def flat(self, scores: str) -> str:
        """(n, 1) as (n,)."""
        return self.add("Squeeze", scores, self.constant(np.array([1], dtype=np.int64)))

    # -- kernels -----------------------------------------------------------------------------------------

    def _kernel(self, kernel: Kernel, X: str) -> str:
        """Kernel values, (n, m)."""
        add, Z = self.add, self.model.basis
        if isinstance(kernel, Sum | Product):
            core, factor, addend = decomposed(kernel)
            if isinstance(core, Linear):
                values = add("MatMul", X, self._number(factor * Z.T))
            elif isinstance(core, Sum | Product):
                values = self._kernel(core.parts[0], X)
                for part in core.parts[1:]:
                    values = add("Add" if isinstance(core, Sum) else "Mul", values, self._kernel(part, X))
            else:
                values = self._kernel(core, X)
            if factor != 1.0 and not isinstance(core, Linear):
                values = add("Mul", values, self._number(factor))
            return add("Add", values, self._number(addend)) if addend else values
        if isinstance(kernel, RBF):
            X, Z = self._centred(X)
            # exp(2 g x.z - g |x|^2 - g |z|^2), never above 1
            widths = np.broadcast_to(np.asarray(kernel.gamma, dtype=np.float64), Z.shape[1:])
            products = add("MatMul", X, self._number(2.0 * (Z * widths).T))
            norms = add("MatMul", add("Mul", X, X), self._number(widths[:, None]))
            exponent = add("Sub", add("Sub", products, norms), self._number((Z * Z) @ widths))
            return add("Exp", add("Min", exponent, self._number(0.0)))
        if isinstance(kernel, Laplacian):
            axis = self.constant(np.array([1], dtype=np.int64))
            gaps = add("Abs", add("Sub", add("Unsqueeze", X, axis), self._number(Z)))  # (n, m, d)
            return add("Exp", add("MatMul", gaps, self._number(np.full(Z.shape[1], -kernel.gamma))))
        if isinstance(kernel, Constant):
            zeros = add("MatMul", X, self._number(np.zeros(Z.T.shape)))
            return add("Add", zeros, self._number(kernel.value))
        if isinstance(kernel, Linear):
            return add("MatMul", X, self._number(Z.T))
        assert isinstance(kernel, Polynomial)
        base = add("Add", add("MatMul", X, self._number(kernel.gamma * Z.T)), self._number(kernel.coef0))
        return self._power(base, int(kernel.degree))

    def _centred(self, X: str) -> tuple[str, Array]:
        """Rows and basis around the basis: distances from dot products lose the digits that both share.

        Already so where the whole kernel allows it; beside a kernel of dot products only the distances are centred.
        """
        Z = self.model.basis
        if self.model.kernel.shift_invariant or not len(Z):
            return X, Z
        centre = Z.mean(axis=0).astype(self.dtype).astype(np.float64)
        if X not in self._centred_rows:
            self._centred_rows[X] = self.add("Sub", X, self._number(centre))
        return self._centred_rows[X], Z - centre

    def _power(self, base: str, degree: int) -> str:
        """Integer power by squaring, as the kernel itself computes it."""
        result = ""
        while degree:
            if degree & 1:
                result = self.add("Mul", result, base) if result else base
            degree >>= 1
            if degree:
                base = self.add("Mul", base, base)
        return result


class _FileGraph(Graph):
    """A graph that keeps its nodes and constants for a file of their own."""

    def __init__(self, model: Model, dtype: Any) -> None:
        super().__init__(model, dtype)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, values: Array) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values, name))
        return name


def label_array(classes: Array | None) -> Array:
    """Labels in a type that ONNX has: text, int64 (also of an outlier detector), float64 or bool."""
    if classes is None:
        return np.array([-1, 1], dtype=np.int64)
    kinds = {"U": np.object_, "i": np.int64, "u": np.int64, "f": np.float64, "b": np.bool_}
    return classes.astype(kinds[classes.dtype.kind])
