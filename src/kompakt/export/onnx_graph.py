"""A machine as a graph of standard ONNX operators: MatMul, Exp and their like, in one precision throughout.

No product with a single number stands next to a MatMul: onnxruntime fuses the two and keeps the number in float32
(attribute alpha of its FusedMatMul), which cost eight digits of float64 where it was tried.  Such numbers are folded
into the constant matrices.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from kompakt.export.machine import Machine, factored
from kompakt.kernels import RBF, Constant, Kernel, Laplacian, Linear, Polynomial, Product, Sum

Array = np.ndarray


class Sink(Protocol):
    """Where nodes go: a graph of our own, or the container of skl2onnx."""

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        ...

    def constant(self, values: Array) -> str:
        """Add a constant tensor and return its name."""
        ...


class Graph:
    """Writes one machine into a sink.

    Parameters
    ----------
    sink : Sink
    machine : Machine
    dtype : numpy dtype
        float32 or float64; the input tensor has it.
    """

    def __init__(self, sink: Sink, machine: Machine, dtype: Any) -> None:
        self.sink, self.machine, self.dtype = sink, machine, np.dtype(dtype)
        self._centred_rows: dict[str, str] = {}

    def _number(self, values: Any) -> str:
        return self.sink.constant(np.asarray(values, dtype=self.dtype))

    def outputs(self, X: str) -> str:
        """Raw outputs f(x), (n, L)."""
        add, machine = self.sink.add, self.machine
        if machine.fill is not None:
            X = add("Where", add("IsNaN", X), self._number(machine.fill), X)
        if machine.shift is not None:
            X = add("Sub", X, self._number(machine.shift))
        if machine.factor is not None:
            one = len(machine.factor) == 1
            X = add("MatMul" if one else "Mul", X, self._number(machine.factor[:, None] if one else machine.factor))
        values = add("MatMul", self._kernel(machine.kernel, X), self._number(machine.weights))
        return add("Add", values, self._number(machine.intercept))

    def scores(self, outputs: str) -> str:
        """Decision values, (n, n_scores)."""
        add, machine = self.sink.add, self.machine
        if machine.codes is None:
            return outputs
        codes = self._number(machine.codes.T)
        one, half = self._number(1.0), self._number(0.5)
        signs = add("Where", add("Greater", outputs, self._number(0.0)), half, self._number(-0.5))
        votes = add("Add", add("MatMul", signs, codes), self._number(machine.votes_base))
        margins = add("MatMul", outputs, codes)  # squashed to less than a third of a vote, as the codings do
        squashed = add("Div", margins, add("Mul", add("Add", add("Abs", margins), one), self._number(3.0)))
        return add("Add", votes, squashed)

    def labels(self, scores: str) -> str:
        """Labels, (n,), from decision values (n, n_scores)."""
        add, machine = self.sink.add, self.machine
        if machine.n_scores == 1:
            flat = self.flat(scores)
            if machine.kind == "outlier":
                minus, plus = (self.sink.constant(np.array(label, dtype=np.int64)) for label in (-1, 1))
                return add("Where", add("GreaterOrEqual", flat, self._number(0.0)), plus, minus)
            best = add("Cast", add("Greater", flat, self._number(0.0)), to=7)  # int64
        else:
            best = add("ArgMax", scores, axis=1, keepdims=0)
        assert machine.classes is not None
        return add("Gather", self.sink.constant(label_array(machine.classes)), best, axis=0)

    def probabilities(self, scores: str) -> str:
        """Class probabilities from the stored calibration, (n, n_classes)."""
        add, calibration = self.sink.add, self.machine.calibration
        assert calibration is not None
        slope, start = (self._number(-np.asarray(calibration[key], dtype=np.float64)) for key in "ab")
        each = add("Sigmoid", add("Add", add("Mul", scores, slope), start))
        if self.machine.n_scores == 1:
            return add("Concat", add("Sub", self._number(1.0), each), each, axis=1)
        ones = self._number(np.ones((self.machine.n_scores, 1)))
        total, zero = add("MatMul", each, ones), self._number(0.0)
        some = add("Greater", total, zero)
        share = add("Div", each, add("Where", some, total, self._number(1.0)))
        return add("Where", some, share, self._number(1.0 / self.machine.n_scores))

    def flat(self, scores: str) -> str:
        """(n, 1) as (n,)."""
        return self.sink.add("Squeeze", scores, self.sink.constant(np.array([1], dtype=np.int64)))

    # -- kernels -----------------------------------------------------------------------------------------

    def _kernel(self, kernel: Kernel, X: str) -> str:
        """Kernel values, (n, m)."""
        add, Z = self.sink.add, self.machine.basis
        if isinstance(kernel, Sum | Product):
            core, factor = factored(kernel)
            if factor != 1.0:
                if isinstance(core, Linear):
                    return add("MatMul", X, self._number(factor * Z.T))
                return add("Mul", self._kernel(core, X), self._number(factor))
            op = "Add" if isinstance(kernel, Sum) else "Mul"
            total = self._kernel(kernel.parts[0], X)
            for part in kernel.parts[1:]:
                more = self._number(part.value) if isinstance(part, Constant) else self._kernel(part, X)
                total = add(op, total, more)
            return total
        if isinstance(kernel, RBF):
            X, Z = self._centred(X)
            # exp(2 g x.z - g |x|^2 - g |z|^2), never above 1
            widths = np.broadcast_to(np.asarray(kernel.gamma, dtype=np.float64), Z.shape[1:])
            products = add("MatMul", X, self._number(2.0 * (Z * widths).T))
            norms = add("MatMul", add("Mul", X, X), self._number(widths[:, None]))
            exponent = add("Sub", add("Sub", products, norms), self._number((Z * Z) @ widths))
            return add("Exp", add("Min", exponent, self._number(0.0)))
        if isinstance(kernel, Laplacian):
            axis = self.sink.constant(np.array([1], dtype=np.int64))
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
        Z = self.machine.basis
        if self.machine.kernel.shift_invariant or not len(Z):
            return X, Z
        centre = Z.mean(axis=0).astype(self.dtype).astype(np.float64)
        if X not in self._centred_rows:
            self._centred_rows[X] = self.sink.add("Sub", X, self._number(centre))
        return self._centred_rows[X], Z - centre

    def _power(self, base: str, degree: int) -> str:
        """Integer power by squaring, as the kernel itself computes it."""
        result = ""
        while degree:
            if degree & 1:
                result = self.sink.add("Mul", result, base) if result else base
            degree >>= 1
            if degree:
                base = self.sink.add("Mul", base, base)
        return result


def label_array(classes: Array) -> Array:
    """Labels in a type that ONNX has: text, int64, float64 or bool."""
    if classes.dtype.kind == "U":
        return classes.astype(object)
    return classes.astype({"i": np.int64, "u": np.int64, "f": np.float64, "b": np.bool_}[classes.dtype.kind])
