"""C99 source of a machine: constant arrays, one loop over the basis, and a main for tests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kompakt.export.machine import Machine
from kompakt.formats.errors import UnsupportedModelError
from kompakt.kernels import RBF, Constant, Kernel, Laplacian, Linear, Polynomial, Product, Sum

Array = np.ndarray
_MAX_STRING = 4000  # C99 promises literals of 4095 characters
_LEVELS = 127


@dataclass
class _Source:
    """Number type, arrays and lines of one file."""

    name: str
    single: bool
    arrays: list[str] = field(default_factory=list)
    data_bytes: int = 0
    sums: dict[str, str] = field(default_factory=dict)  # accumulator -> what each feature adds to it
    power: bool = False

    @property
    def real(self) -> str:
        return "float" if self.single else "double"

    @property
    def suffix(self) -> str:
        return "f" if self.single else ""

    def number(self, value: Any) -> str:
        """A literal that reads back exactly; a negative one in parentheses."""
        text = self.numbers([value])
        return f"({text})" if text.startswith("-") else text

    def numbers(self, values: Iterable[Any]) -> str:
        if not self.single:
            return ", ".join(map(repr, np.asarray(values, dtype=np.float64).ravel().tolist()))
        with np.errstate(over="ignore"):
            rounded = np.asarray(values, dtype=np.float64).ravel().astype(np.float32)
        if not np.all(np.isfinite(rounded)):
            raise UnsupportedModelError("a number of this machine is beyond float; export it with dtype='double'.")
        return ", ".join(f"{value!s}f" for value in rounded)

    def array(self, name: str, values: Array, kind: str = "") -> str:
        """Add a constant array and return its name."""
        values = np.asarray(values)
        kind = kind or self.real
        if kind == self.real:
            body, size = self.numbers(values), 4 if self.single else 8
        else:
            body, size = ", ".join(map(str, values.ravel().tolist())), 1
        full = f"{self.name}_{name}"
        self.arrays.append(f"static const {kind} {full}[{values.size}] = {{\n{_wrapped(body)}\n}};")
        self.data_bytes += size * values.size
        return full


def _wrapped(text: str, width: int = 110) -> str:
    """A list of numbers on lines of moderate length; far faster than textwrap on a million numbers."""
    lines, start = [], 0
    while len(text) - start > width:
        cut = text.rfind(" ", start, start + width)
        lines.append("    " + text[start:cut])
        start = cut + 1
    return "\n".join([*lines, "    " + text[start:]])


# -- numbers in fewer bits -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Quantised:
    """basis_jf = zero_f + step_f * levels_jf, with levels from -127 to 127."""

    levels: Array
    zero: Array
    step: Array

    @property
    def basis(self) -> Array:
        """The basis that the levels stand for."""
        return self.zero + self.step * self.levels


def quantised(basis: Array) -> Quantised:
    """The basis in eight bits, with the range of each feature as its own scale."""
    low, high = basis.min(axis=0), basis.max(axis=0)
    zero = (0.5 * (low + high)).astype(np.float32).astype(np.float64)
    step = (np.maximum(high - zero, zero - low) / _LEVELS).astype(np.float32).astype(np.float64)
    levels = np.rint((basis - zero) / np.where(step > 0, step, 1.0))
    return Quantised(np.clip(levels, -_LEVELS, _LEVELS).astype(np.int8), zero, step)


def stored(machine: Machine, dtype: str) -> tuple[Machine, Quantised | None]:
    """The machine with the numbers that the C file will hold, in float64."""
    if dtype == "double":
        return machine, None
    levels = quantised(machine.basis) if dtype == "int8" else None

    def rounded(values: Array) -> Array:
        with np.errstate(over="ignore"):
            return values.astype(np.float32).astype(np.float64)

    fields = {name: getattr(machine, name) for name in ("weights", "intercept", "fill", "shift", "factor")}
    fields = {name: None if values is None else rounded(values) for name, values in fields.items()}
    basis = rounded(machine.basis) if levels is None else levels.basis
    return replace(machine, basis=basis, **fields), levels


# -- the source ------------------------------------------------------------------------------------------


def c_source(machine: Machine, name: str, levels: Quantised | None, single: bool, about: str) -> tuple[str, int, int]:
    """Text of the file, bytes of its constant arrays, and bytes of stack per prediction."""
    source = _Source(name, single)
    (m, d), L, k = machine.basis.shape, machine.weights.shape[1], machine.n_scores
    prepare = _input_lines(source, machine)
    if levels is None:
        vector = f"{source.array('basis', machine.basis)}[j * {d} + f]"
    else:
        packed = source.array("basis", levels.levels, "int8_t")
        zero, step = source.array("basis_zero", levels.zero), source.array("basis_step", levels.step)
        vector = f"{zero}[f] + {step}[f] * ({source.real}){packed}[j * {d} + f]"
    weights, intercept = source.array("weights", machine.weights), source.array("intercept", machine.intercept)
    value = _kernel(machine.kernel, source)
    if not source.sums:  # a constant kernel: use what is declared, or compilers complain
        source.sums["product"] = "u[f] * z"
        value += " + 0 * product"
    loop = [
        f"    for (j = 0; j < {m}; j++) {{",
        f"        {source.real} k{''.join(f', {total} = 0' for total in source.sums)};",
        *_feature_loop(source, vector, d),
        f"        k = {value};",
        f"        for (l = 0; l < {L}; l++) raw[l] += {weights}[j * {L} + l] * k;",
        "    }",
    ]
    finish = _score_lines(source, machine)
    work_bytes = (4 if single else 8) * (d + L + (k if machine.kind != "regressor" else 0))
    body = [
        f"void {name}_scores(const {source.real} *x, {source.real} *scores)",
        "{",
        f"    {source.real} u[{d}], raw[{L}];",
        "    int f, j, l;",
        f"    for (f = 0; f < {d}; f++) {{",
        *prepare,
        "    }",
        f"    for (l = 0; l < {L}; l++) raw[l] = {intercept}[l];",
        *loop,
        *finish,
        "}",
    ]
    classes, size = _class_lines(name, machine)
    data_bytes = source.data_bytes + size
    head = _head(source, machine, about, data_bytes, work_bytes)
    text = [*head, *classes, *source.arrays, "", *(_power_lines(source) if source.power else []), *body, ""]
    text += [*_predict_lines(source, machine), "", *_main_lines(source, machine, d)]
    return "\n".join(text) + "\n", data_bytes, work_bytes


def _input_lines(source: _Source, machine: Machine) -> list[str]:
    lines = [f"        {source.real} v = x[f];"]
    if machine.fill is not None:
        lines.append(f"        if (v != v) v = {source.array('fill', machine.fill)}[f]; /* missing */")
    if machine.shift is not None:
        lines.append(f"        v -= {source.array('shift', machine.shift)}[f];")
    if machine.factor is not None:
        lines.append(f"        v *= {source.array('factor', machine.factor)}[f];")
    return [*lines, "        u[f] = v;"]


def _feature_loop(source: _Source, vector: str, d: int) -> list[str]:
    needs_gap = any("t" in term.replace("fabs", "") for term in source.sums.values())
    lines = [f"        for (f = 0; f < {d}; f++) {{", f"            const {source.real} z = {vector};"]
    if needs_gap:
        lines.append(f"            const {source.real} t = u[f] - z;")
    return [*lines, *(f"            {total} += {term};" for total, term in source.sums.items()), "        }"]


def _kernel(kernel: Kernel, source: _Source) -> str:
    """An expression of the sums over features; the sums it needs are noted in `source`."""
    if isinstance(kernel, Sum | Product):
        sign = " + " if isinstance(kernel, Sum) else " * "
        return "(" + sign.join(_kernel(part, source) for part in kernel.parts) + ")"
    if isinstance(kernel, Constant):
        return source.number(kernel.value)
    if isinstance(kernel, RBF) and isinstance(kernel.gamma, np.ndarray):
        number = len(source.sums)
        source.sums[f"weighted{number}"] = f"{source.array(f'gamma{number}', kernel.gamma)}[f] * (t * t)"
        return f"exp{source.suffix}(-weighted{number})"
    if isinstance(kernel, RBF):
        source.sums["squares"] = "t * t"
        return f"exp{source.suffix}({source.number(-kernel.gamma)} * squares)"
    if isinstance(kernel, Laplacian):
        source.sums["lengths"] = f"fabs{source.suffix}(t)"
        return f"exp{source.suffix}({source.number(-kernel.gamma)} * lengths)"
    source.sums["product"] = "u[f] * z"
    if isinstance(kernel, Linear):
        return "product"
    assert isinstance(kernel, Polynomial)
    source.power = True
    base = f"{source.number(kernel.gamma)} * product + {source.number(kernel.coef0)}"
    return f"{source.name}_power({base}, {int(kernel.degree)})"


def _power_lines(source: _Source) -> list[str]:
    real = source.real
    return [
        f"static {real} {source.name}_power({real} base, long n)",
        "{",
        f"    {real} result = 1;",
        "    for (; n; n /= 2, base *= base)",
        "        if (n % 2) result *= base;",
        "    return result;",
        "}",
        "",
    ]


def _score_lines(source: _Source, machine: Machine) -> list[str]:
    """From raw outputs to decision values."""
    L, k = machine.weights.shape[1], machine.n_scores
    if machine.codes is None:
        return [f"    for (l = 0; l < {L}; l++) scores[l] = raw[l];"]
    codes = source.array("codes", machine.codes.astype(int), "signed char")
    half, three = source.number(0.5), source.number(3.0)
    return [
        f"    for (j = 0; j < {k}; j++) {{",
        f"        {source.real} votes = {source.number(machine.votes_base)}, margin = 0;",
        f"        for (l = 0; l < {L}; l++) {{",
        f"            const int code = {codes}[j * {L} + l];",
        f"            votes += raw[l] > 0 ? {half} * ({source.real})code : -{half} * ({source.real})code;",
        f"            margin += ({source.real})code * raw[l];",
        "        }",
        f"        scores[j] = votes + margin / ({three} * (fabs{source.suffix}(margin) + 1));",
        "    }",
    ]


def _predict_lines(source: _Source, machine: Machine) -> list[str]:
    name, real, k = source.name, source.real, machine.n_scores
    if machine.kind == "regressor":
        if k > 1:
            return []
        return [
            f"{real} {name}_predict(const {real} *x)", "{", f"    {real} value;", f"    {name}_scores(x, &value);",
            "    return value;", "}",
        ]  # fmt: skip
    lines = [f"int {name}_predict(const {real} *x)", "{", f"    {real} scores[{k}];"]
    if k > 1:
        lines += ["    int best = 0, j;"]
    lines += [f"    {name}_scores(x, scores);"]
    if k == 1:
        rule = "scores[0] >= 0 ? 1 : -1" if machine.kind == "outlier" else "scores[0] > 0"
        return [*lines, f"    return {rule};", "}"]
    lines += [
        f"    for (j = 1; j < {k}; j++)",
        "        if (scores[j] > scores[best]) best = j;",
        "    return best;",
        "}",
    ]
    return lines


def _class_lines(name: str, machine: Machine) -> tuple[list[str], int]:
    """The labels, in the order of the class indices, and their bytes."""
    labels = machine.classes
    if labels is None:
        return [], 0
    if labels.dtype.kind == "U":
        texts = [_c_string(str(label)) for label in labels]
        size = sum(len(str(label).encode()) + 1 for label in labels)
        kind, body = "char *const", ",\n    ".join(texts)
    elif labels.dtype.kind == "f":
        kind, body, size = "double", ", ".join(map(repr, labels.astype(float).tolist())), 8 * len(labels)
    else:
        wide = int(np.abs(labels.astype(object)).max()) > 2**31 - 1
        kind, size = ("int64_t", 8 * len(labels)) if wide else ("int32_t", 4 * len(labels))
        body = ", ".join(f"INT64_C({int(label)})" if wide else str(int(label)) for label in labels)
    declared = f"const {kind} {name}_classes[{len(labels)}]"
    return [f"extern {declared};", f"{declared} = {{\n    {body}\n}};", ""], size


def _c_string(text: str) -> str:
    raw = text.encode()
    if len(raw) > _MAX_STRING:
        raise UnsupportedModelError(f"a label of {len(raw)} bytes is longer than C99 promises to take.")
    # Three octal digits never swallow the character that follows; '?' could begin a trigraph.
    plain = {ord(" "), *range(ord("0"), ord("9") + 1), *range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1)}
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in raw) + '"'


def _head(source: _Source, machine: Machine, about: str, data_bytes: int, work_bytes: int) -> list[str]:
    name, real, (m, d) = source.name, source.real, machine.basis.shape
    about = re.sub(r"[^ -~]", "?", about).replace("*/", "* /").replace("/*", "/ *")
    what = {
        "classifier": f"{name}_predict gives the index of the label in {name}_classes",
        "outlier": f"{name}_predict gives 1 for an inlier and -1 for an outlier",
        "regressor": f"{name}_predict gives the value" if machine.n_scores == 1 else f"{name}_scores gives the values",
    }[machine.kind]
    lines = [
        f"/* {about}",
        f"   {m} basis vectors, {d} features, {machine.weights.shape[1]} outputs.",
        f"   Constant data: {data_bytes} bytes. Stack of one prediction: {work_bytes} bytes of arrays.",
        f"   {what};",
        f"   {name}_scores writes {machine.n_scores} decision value(s). C99; link with -lm.",
        f"   With -D{name.upper()}_MAIN: a program that reads rows of {d} numbers and prints prediction and scores. */",
        "#include <math.h>",
        "#include <stdint.h>",
        "",
        f"void {name}_scores(const {real} *x, {real} *scores);",
    ]
    if machine.kind != "regressor" or machine.n_scores == 1:
        lines.append(f"{real if machine.kind == 'regressor' else 'int'} {name}_predict(const {real} *x);")
    return [*lines, ""]


def _main_lines(source: _Source, machine: Machine, d: int) -> list[str]:
    name, real, k = source.name, source.real, machine.n_scores
    digits = 9 if source.single else 17
    first = []
    if machine.kind != "regressor":
        first = [f'            printf("%d", {name}_predict(x));']
    return [
        f"#ifdef {name.upper()}_MAIN",
        "#include <stdio.h>",
        "int main(void)",
        "{",
        f"    {real} x[{d}], scores[{k}];",
        "    double value;",
        "    int f = 0, j;",
        '    while (scanf("%lf", &value) == 1) {',
        f"        x[f++] = ({real})value;",
        f"        if (f == {d}) {{",
        f"            {name}_scores(x, scores);",
        *first,
        f'            for (j = 0; j < {k}; j++) printf(" %.{digits}g", (double)scores[j]);',
        '            printf("\\n");',
        "            f = 0;",
        "        }",
        "    }",
        "    return f != 0; /* an incomplete row */",
        "}",
        "#endif",
    ]
