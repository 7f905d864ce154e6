"""What a model and its exports answer to finite rows with one number of 10^-320 to 10^308.

    python -m benchmarks.nonfinite [--quick] [--only TEXT]

Each answer is one of four. "equal": the exact value, computed here in decimal numbers without bounds. "error": an error
that names the row. "marked": scores that are NaN or infinite, with the class index -1 in C, which is what the page on
exports says of overflow. "wrong": anything else, such as NaN from a model, or a finite number that is another one.
The note gives the powers of ten of each; a row of the table fails if any answer is wrong.
"""

from __future__ import annotations

import decimal
import math
import runpy
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import kompakt
from benchmarks.harness import MissingData, Run, at_most
from kompakt import Model
from kompakt.export.c_file import find_compiler
from kompakt.inputs import Inputs
from kompakt.kernels import RBF, Kernel, Laplacian, Linear, Polynomial, Product, Sum
from kompakt.kernels.base import Constant
from kompakt.piecewise import PiecewiseLinear

Array = np.ndarray
Answers = tuple[Array, Array]  # scores (n, L), and whether each row is marked as having none; rows of NaN: an error
Answerer = Callable[[Model, Array, Path], Answers]

KERNELS: dict[str, Kernel] = {
    "RBF": RBF(0.5),
    "RBF per feature": RBF(np.array([0.5, 0.0, 2.0, 1e-6])),
    "Laplacian": Laplacian(0.3),
    "polynomial, degree 3": Polynomial(0.3, 1.0, 3),
    "polynomial, degree 9": Polynomial(0.3, 1.0, 9),
    "linear": Linear(),
    "1 + RBF": 1.0 + RBF(0.5),
    "linear + RBF": Linear() + RBF(0.5),
    "RBF * polynomial": RBF(0.5) * Polynomial(0.3, 1.0, 3),
}
#: rising, turning, flat at one end, and straight
BENDS = PiecewiseLinear(
    np.array([[-0.5, 0.7], [0.1, 0.9], [-1.0, np.inf], [np.inf, np.inf]]),
    np.array([[0.3, 2.0, 1.1], [1.0, -0.5, -2.0], [0.0, 1.5, 1.0], [0.7, 1.0, 1.0]]),
)
INPUTS: dict[str, dict[str, Any]] = {
    "": {},
    ", small spread": {"shift": np.ones(4), "scale": np.full(4, 1e-6)},
    ", mapped": {"map": np.random.default_rng(2).normal(size=(4, 4))},
    ", bent": {"bends": BENDS},
    ", bent and mapped": {"bends": BENDS, "map": np.random.default_rng(2).normal(size=(4, 4))},
}


def model_with(kernel: Kernel, inputs: dict[str, Any]) -> Model:
    rng = np.random.default_rng(1)
    basis, weights, intercept = rng.normal(size=(6, 4)), rng.normal(size=(6, 3)), rng.normal(size=3)
    return Model(kernel, basis, weights, intercept, "classifier", 4, classes=np.arange(3), inputs=Inputs(**inputs))


def bent(x: decimal.Decimal, knots: Array, slopes: Array) -> decimal.Decimal:
    """The piecewise-linear transform of one number."""
    at = [decimal.Decimal(float(knot)) for knot in knots if np.isfinite(knot)]
    value = decimal.Decimal(float(slopes[0])) * min([x, *at[:1]])
    for number, begin in enumerate(at):
        end = min([max(x, begin), *at[number + 1 : number + 2]])
        value += decimal.Decimal(float(slopes[number + 1])) * (end - begin)
    return value


@cache
def exact_outputs(model: Model, row: tuple[float, ...]) -> tuple[list[float], float]:
    """Outputs without rounding or overflow, and the sum of the sizes of their terms."""
    number = decimal.Decimal
    shift, scale = (
        [number(float(value)) for value in np.broadcast_to(default if values is None else values, 4)]
        for values, default in ((model.inputs.shift, 0.0), (model.inputs.scale, 1.0))
    )
    x = [(number(value) - a) / b for value, a, b in zip(row, shift, scale, strict=True)]
    if model.inputs.bends is not None:
        x = [bent(value, *curve) for value, *curve in zip(x, BENDS.knots, BENDS.slopes, strict=True)]
    if model.inputs.map is not None:
        x = [sum((number(float(a)) * b for a, b in zip(line, x, strict=True)), number(0)) for line in model.inputs.map]

    def value(kernel: Kernel, pairs: Sequence[tuple[decimal.Decimal, decimal.Decimal]]) -> decimal.Decimal:
        if isinstance(kernel, Sum):
            return sum((value(part, pairs) for part in kernel.parts), number(0))
        if isinstance(kernel, Product):
            return math.prod((value(part, pairs) for part in kernel.parts), start=number(1))
        if isinstance(kernel, Constant):
            return number(kernel.value)
        if isinstance(kernel, Laplacian):
            return (-number(kernel.gamma) * sum((abs(a - b) for a, b in pairs), number(0))).exp()
        if isinstance(kernel, RBF):
            widths = np.broadcast_to(kernel.gamma, len(pairs))
            squares = (number(float(g)) * (a - b) ** 2 for g, (a, b) in zip(widths, pairs, strict=True))
            return (-sum(squares, number(0))).exp()
        product = sum((a * b for a, b in pairs), number(0))
        if isinstance(kernel, Linear):
            return product
        assert isinstance(kernel, Polynomial)
        return (number(kernel.gamma) * product + number(kernel.coef0)) ** kernel.degree

    with decimal.localcontext(decimal.Context(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)):
        values = [value(model.kernel, list(zip(x, map(number, z), strict=True))) for z in model.basis.tolist()]
        outputs, sizes = [], []
        for weights, start in zip(model.weights.T.tolist(), model.intercept.tolist(), strict=True):
            terms = [number(weight) * k for weight, k in zip(weights, values, strict=True)] + [number(start)]
            outputs.append(float(sum(terms)))
            sizes.append(float(sum(map(abs, terms))))
    return outputs, max(sizes)


# -- who answers -----------------------------------------------------------------------------------------


def by_row(answer: Callable[[Any], Any], rows: Any, n_scores: int) -> Answers:
    """Answers to one row after the other; an error must name row 1, which comes after a plain one."""
    scores = np.full((rows.shape[0], n_scores), np.inf)
    plain = rows[:1] * 0
    stack = sparse.vstack if sparse.issparse(rows) else np.concatenate
    for number in range(rows.shape[0]):
        try:
            scores[number] = np.reshape(answer(stack([plain, rows[number : number + 1]])), (2, -1))[1]
        except ValueError as error:
            if "row 1 " not in str(error):
                raise
            scores[number] = np.nan
    return scores, np.asarray(np.isnan(scores).all(axis=1))


def of_model(model: Model, rows: Array, folder: Path) -> Answers:
    return by_row(model.decision_function, rows, 3)


def of_sparse(model: Model, rows: Array, folder: Path) -> Answers:
    return by_row(model.decision_function, sparse.csr_matrix(rows), 3)


def of_numpy(model: Model, rows: Array, folder: Path) -> Answers:
    names = runpy.run_path(str(kompakt.to_numpy(model, folder / "m.py").path))
    return by_row(names["decision_function"], rows, 3)


def of_onnx(model: Model, rows: Array, folder: Path) -> Answers:
    try:
        import onnxruntime
    except ImportError:
        raise MissingData("onnxruntime is not installed") from None
    kompakt.to_onnx(model, folder / "m.onnx", dtype=rows.dtype.name)
    session = onnxruntime.InferenceSession((folder / "m.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    scores = np.asarray(session.run(["scores"], {"X": rows})[0], dtype=np.float64)
    return scores, np.asarray(~np.isfinite(scores).all(axis=1))


def of_c(model: Model, rows: Array, folder: Path) -> Answers:
    if (compiler := find_compiler()) is None:
        raise MissingData("no C compiler was found")
    path = kompakt.to_c(model, folder / "m.c", dtype="float" if rows.dtype == np.float32 else "double").path
    subprocess.run([compiler, "-O2", "-DM_MAIN", str(path), "-o", str(folder / "m"), "-lm"], check=True)
    text = "\n".join(" ".join(map(repr, row)) for row in rows.astype(np.float64).tolist()) + "\n"
    done = subprocess.run([str(folder / "m")], input=text, capture_output=True, text=True, check=True)
    values = np.array(done.stdout.split(), dtype=np.float64).reshape(len(rows), -1)
    finite = np.isfinite(values[:, 1:]).all(axis=1)
    values[:, 1:][finite & (values[:, 0] < 0)] = np.inf  # marked though there are scores
    return values[:, 1:], ~finite & (values[:, 0] == -1)


def of_libsvm(model: Model, rows: Array, folder: Path) -> Answers:
    """The first output alone: LIBSVM has one value for a regression."""
    if shutil.which("svm-predict") is None or shutil.which("svm-scale") is None:
        raise MissingData("svm-predict and svm-scale are not installed")
    parts: dict[str, Any] = {"weights": model.weights[:, :1], "intercept": model.intercept[:1]}
    one = replace(model, kind="regressor", classes=None, **parts)
    try:
        report = kompakt.to_libsvm(one, folder / "m.model")
    except kompakt.io.UnsupportedModelError as error:
        raise MissingData(str(error).split(",")[0]) from None
    data, out, scores = folder / "rows", folder / "out", np.full((len(rows), 1), np.nan)
    ranges = [str(path) for path in report.files if path.suffix == ".range"]
    for number, row in enumerate(rows.tolist()):
        data.write_text("0 " + " ".join(f"{place}:{value!r}" for place, value in enumerate(row, 1)) + "\n")
        if ranges:
            done = subprocess.run(["svm-scale", "-r", ranges[0], str(data)], capture_output=True, check=True)
            data.write_bytes(done.stdout)
        # it ends with an error at numbers below the normal ones
        if not subprocess.run(["svm-predict", str(data), str(report.path), str(out)], capture_output=True).returncode:
            scores[number] = float(out.read_text())
    return scores, ~np.isfinite(scores[:, 0])


ANSWERERS: dict[str, tuple[Answerer, Any, float]] = {
    "model, float64": (of_model, np.float64, 1e-9),
    "model, float32": (of_model, np.float32, 1e-3),
    "model, CSR": (of_sparse, np.float64, 1e-9),
    "NumPy": (of_numpy, np.float64, 1e-9),
    "ONNX, float64": (of_onnx, np.float64, 1e-9),
    "ONNX, float32": (of_onnx, np.float32, 1e-3),
    "C, double": (of_c, np.float64, 1e-9),
    "C, float": (of_c, np.float32, 1e-3),
    "LIBSVM": (of_libsvm, np.float64, 1e-4),
}


# -- the sweep -------------------------------------------------------------------------------------------


def sweep(model: Model, answerer: Answerer, dtype: Any, tolerance: float, powers: list[int]) -> dict[str, Any]:
    rng, signs = np.random.default_rng(0), (1.0, -1.0)
    rows = np.repeat(rng.normal(size=(1, 4)), 2 * len(powers), axis=0)
    rows[np.arange(len(rows)), np.arange(len(rows)) % 4] = [
        sign * float(f"1e{power}") for power in powers for sign in signs
    ]
    with np.errstate(over="ignore"):
        rows = rows.astype(dtype)
    rows = rows[np.isfinite(rows).all(axis=1)]
    marked_as = "error" if answerer in (of_model, of_sparse, of_numpy) else "marked"
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        scores, marked = answerer(model, rows, Path(folder))
    outcomes = []
    for row, given, refused in zip(rows, scores, marked, strict=True):
        exact, size = exact_outputs(model, tuple(row.tolist()))
        if refused:
            outcomes.append(marked_as)
            continue
        with np.errstate(invalid="ignore"):
            near = np.abs(np.asarray(exact[: len(given)]) - given) <= tolerance * min(size, sys.float_info.max)
        outcomes.append("equal" if near.all() else "wrong")
    pieces, reached_powers = [], np.repeat(powers, 2)[: len(rows)]
    for outcome, group in groupby(zip(outcomes, reached_powers, strict=True), key=lambda item: item[0]):
        reached = [int(power) for _, power in group]
        pieces.append(f"{outcome} {reached[0]}..{reached[-1]}")
    return {"ours": outcomes.count("wrong"), "note": ", ".join(pieces), "rows": len(rows)}


def main() -> int:
    run = Run("nonfinite", "Answers to numbers from 1e-320 to 1e308 (powers of ten)", quick_minutes=1, full_minutes=8)
    edges = [-320, -308, -46, -38, -1, 0, 3, 5, 12, 13, 20, 37, 38, 102, 103, 104, 150, 155, 200, 302, 305, 308]
    powers = edges if run.quick else list(range(-320, 309))
    for kernel_name, kernel in KERNELS.items():
        for inputs_name, inputs in INPUTS.items():
            if run.quick and inputs and kernel_name not in ("RBF", "polynomial, degree 3"):
                continue
            model = model_with(kernel, inputs)
            for name, (answerer, dtype, tolerance) in ANSWERERS.items():
                run.row(
                    f"{kernel_name}{inputs_name}: {name}",
                    {"powers": len(powers)},
                    lambda model=model, answerer=answerer, dtype=dtype, tolerance=tolerance: sweep(  # type: ignore[misc]
                        model, answerer, dtype, tolerance, powers
                    ),
                    at_most(0),
                )
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
