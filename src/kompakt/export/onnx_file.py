"""A machine as a graph of standard ONNX operators: in a file of its own, checked, or inside what skl2onnx converts."""

from __future__ import annotations

import calendar
import importlib.util
import json
import os
import re
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

import kompakt
from kompakt.calibration import curves_of
from kompakt.data.table import (
    MISSING,
    Category,
    Date,
    Levels,
    Number,
    TableSchema,
    Time,
    Unused,
    columns_of,
    is_missing,
    is_table,
)
from kompakt.data.times import circle, seconds_of, written
from kompakt.export.common import (
    TOLERANCE,
    ExportReport,
    check_rows_for,
    decision_shape,
    decomposed,
    folded,
    left_out_notes,
    votes,
    write_checked,
)
from kompakt.io.fitted import model_of
from kompakt.kernels import RBF, Constant, Kernel, Laplacian, Linear, Polynomial, Product, Sum
from kompakt.model import Model
from kompakt.piecewise import PiecewiseLinear

Array = np.ndarray
_OPSET, _IR_VERSION = 17, 8  # of 2022: read by every onnxruntime from 1.12 on
_TEXT_OPSET, _TEXT_IR_VERSION = 20, 9  # the first with operators that match and cut texts: onnxruntime 1.17
#: what `str.strip` takes off a text, as a regular expression of RE2
_BLANKS = (
    r"[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]*"
)
#: blanks that are taken off dates, besides spaces
_CUT_BLANKS = ("\t", "\n", "\r", "\u00a0")
#: a pipeline's converter sets zipmap=True for its classifier unless options say otherwise, so both values must be taken
_OPTIONS = {"zipmap": [False, True], "raw_scores": [False, True]}
_INT64, _FLOAT64 = 7, 11  # element types of tensors
_LEAST_OPSET = 13  # from there on Squeeze and Unsqueeze take their axes as an input


def to_onnx(
    fitted: Any,
    path: str | os.PathLike[str],
    *,
    dtype: Any = "float64",
    check_rows: Any = None,
    tolerance: float | None = None,
    encoded: bool = False,
) -> ExportReport:
    """Write a machine as an ONNX model of standard operators, and check it in onnxruntime.

    The input ``X`` is a tensor (n, n_features) of `dtype`, in the units the machine was trained on: imputation and
    scaling are inside.  The outputs of a classifier are ``label`` (n,) and ``scores``, which are those of
    `decision_function`, then ``probabilities`` where the machine is calibrated; a regressor has the output ``value``,
    and ``lower`` and ``upper`` where it has intervals.

    A machine of tables has one input per column instead, of the column's name and shape (n, 1): numbers of `dtype` with
    NaN where one is missing, and strings for words and dates, "" or another usual text where one is missing.  Blanks
    around a word do not count.  Dates are written as in the training table, those of a data frame as ``2024-05-31`` or
    ``2024-05-31 18:30:00``; a text that is no such date counts as missing, as in `predict`.  So does a
    date with other blanks inside than spaces.  Words and dates need onnxruntime 1.17 or later (opset 20).

    A graph has no error to raise.  A row whose outputs are beyond `dtype`, or a NaN that the machine does not fill, has
    scores that are NaN or infinite, and a label that means nothing: look at the scores of rows that may be so.  An
    infinite number counts as one that is very far away.

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
    encoded : bool, default=False
        Whether a machine of tables takes its encoded features as one input ``X`` instead of the columns.

    Returns
    -------
    ExportReport

    Raises
    ------
    ParityError
        If the answers differ; nothing is written.
    TypeError
        For a callable or precomputed kernel.
    ValueError
        For a machine of tables with dates written without separators (``31MAY2024``), unless `encoded`: ONNX has no
        operator that cuts a text by position.
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
    model = model_of(fitted, svm=True)
    schema = None if encoded else model.inputs.schema
    if schema is not None:
        for column in schema.columns:
            if isinstance(column, Time) or (isinstance(column, Date) and not re.search(r"%d[^%]|%d$", column.form)):
                texts = {"%d%b%Y": "dates without separators", "%d%b%y": "dates without separators"}
                what = texts.get(getattr(column, "form", "")[:6], "clock times, months, quarters and weeks")
                example = f", such as {written(column.first, column.form)}" if isinstance(column, Date) else ""
                raise ValueError(
                    f"ONNX cannot read {what}{example} in column {column.name!r}. Export with encoded=True (on the "
                    "command line: --encoded), and give the model the encoded features."
                )
    raw = _onnx_bytes(folded(model, single=kind == np.float32), kind, schema)
    rows, n_usual = check_rows_for(model, check_rows, kind)
    feeds = {"X": rows}
    if schema is not None:
        tables = [check_rows, table_like(schema, rows[n_usual:])] if is_table(check_rows) else [
            table_like(schema, rows)
        ]
        inputs = [_feeds(schema, table, kind) for table in tables]
        feeds = {name: np.concatenate([given[name] for given in inputs]) for name in inputs[0]}
        rows = schema.encode({name: feeds[given][:, 0] for name, given in _used(schema).items()})
    labels, scores = _run(raw, feeds, model.kind)
    limit = TOLERANCE[kind.name] if tolerance is None else tolerance
    what, notes = "the ONNX model in onnxruntime", left_out_notes(model) if encoded else ()
    return write_checked(model, path, "onnx", raw, (rows, n_usual), limit, scores, labels, what, notes)


def _used(schema: TableSchema) -> dict[str, str]:
    """Columns of a table that are used, and the names of their inputs, which are none of an output."""
    taken = ("label", "scores", "value", "probabilities", "lower", "upper")
    names = [column.name for column in schema.columns if not isinstance(column, Unused)]
    return {name: f"{name}_" if name in taken else name for name in names}


def _feeds(schema: TableSchema, table: Any, dtype: np.dtype) -> dict[str, Array]:
    """The inputs of an ONNX model for a table."""
    cells, names, feeds = columns_of(table), _used(schema), {}
    for column in schema.columns:
        if _is_number(column):
            whole = TableSchema((Number(column.name, np.nan, False, column.decimal),), schema.missing)
            feeds[names[column.name]] = whole.encode({column.name: cells[column.name]}).astype(dtype)
        elif not isinstance(column, Unused):
            words: Any = cells[column.name]
            if isinstance(column, Date) and (words.dtype.kind == "M" or any(hasattr(cell, "year") for cell in words)):
                seconds = seconds_of(words, column.form).tolist()
                words = [None if moment != moment else written(moment, column.form) for moment in seconds]
            texts = ["" if is_missing(cell, frozenset(schema.missing)) else str(cell) for cell in words]
            feeds[names[column.name]] = np.array(texts, dtype=object)[:, None]
    return feeds


def _is_number(column: Any) -> TypeGuard[Number | Levels]:
    """Whether the input of a column is numbers; else it is texts."""
    return isinstance(column, Number) or (isinstance(column, Levels) and bool(column.decimal))


def table_like(schema: TableSchema, rows: Array) -> dict[str, Array]:
    """A table to check on: numbers and dates as in some encoded rows, words at random; some unknown or missing.

    Blanks are around some words and dates.
    """
    rng, place = np.random.default_rng(0), 0
    blanks = np.array(["", "", " ", "\n", "\t  ", "\u00a0"], dtype=object)
    columns: dict[str, Array] = {}
    for column in schema.columns:
        if isinstance(column, Number):
            columns[column.name] = np.where(rng.random(len(rows)) < 0.1, np.nan, rows[:, place])
        elif isinstance(column, Levels) and column.decimal:
            codes = np.array([*map(float, column.levels), -1.0, np.nan])
            columns[column.name] = rng.choice(codes, len(rows))
        elif isinstance(column, Category | Levels):
            words = rng.choice(np.array([*column.levels, "", "nAn", "a word of no row"], dtype=object), len(rows))
            before, after = rng.choice(blanks if isinstance(column, Category) else blanks[:3], (2, len(rows)))
            columns[column.name] = before + words + after
        elif isinstance(column, Date):
            days = np.round(np.clip(rows[:, place], -10_000, 10_000) * 24) / 24
            seconds = np.clip(column.first + days * 86_400, 0, 3e9)  # 1970 to 2065: years of two digits are clear
            texts = [written(moment, column.form) for moment in seconds.tolist()]
            before, after = rng.choice(blanks, (2, len(rows)))
            dates = before + np.array(texts, dtype=object) + after
            columns[column.name] = np.where(rng.random(len(rows)) < 0.1, "", dates)
        place += len(column.features)
    return columns


def _onnx_bytes(model: Model, dtype: np.dtype, schema: TableSchema | None = None) -> bytes:
    import onnx
    from onnx import helper

    graph = Graph(model, dtype, "" if schema is None else "kompakt_")
    element, text = graph.element, helper.np_dtype_to_tensor_dtype(np.dtype(object))
    X = "X" if schema is None else graph.features(schema)
    outputs = graph.outputs(X, tables=schema is not None)
    scores = graph.scores(outputs)
    n_scores, is_flat = decision_shape(model)
    shown, shape = (graph.flat(scores), ["n"]) if is_flat else (scores, ["n", n_scores])
    results: dict[str, tuple[str, int, list[Any]]] = {"value": (shown, element, shape)}
    if model.interval is not None:
        for name, bound in zip(("lower", "upper"), graph.bounds(outputs), strict=True):
            results[name] = (graph.flat(bound) if is_flat else bound, element, shape)
    if model.kind != "regressor":
        kind = helper.np_dtype_to_tensor_dtype(_label_array(model.classes).dtype)
        results = {"label": (graph.labels(scores), kind, ["n"]), "scores": (shown, element, shape)}
        if model.calibration is not None:
            results["probabilities"] = (graph.probabilities(scores), element, ["n", len(model.classes_)])
    graph.nodes += [helper.make_node("Identity", [node], [name], name=name) for name, (node, _, _) in results.items()]
    inputs = [helper.make_tensor_value_info("X", element, ["n", model.n_features])]
    if schema is not None:
        kinds = {column.name: element if _is_number(column) else text for column in schema.columns}
        inputs = [helper.make_tensor_value_info(given, kinds[name], ["n", 1]) for name, given in _used(schema).items()]
    values = [helper.make_tensor_value_info(name, kind, shape) for name, (_, kind, shape) in results.items()]
    texts = schema is not None and any(
        isinstance(column, Date | Category | Levels) and not _is_number(column) for column in schema.columns
    )
    opset, ir_version = (_TEXT_OPSET, _TEXT_IR_VERSION) if texts else (_OPSET, _IR_VERSION)
    proto = helper.make_model(
        helper.make_graph(graph.nodes, "kompakt", inputs, values, graph.constants),
        opset_imports=[helper.make_opsetid("", opset), *([helper.make_opsetid("ai.onnx.ml", 2)] if schema else [])],
        ir_version=ir_version,
        producer_name="kompakt",
        producer_version=kompakt.__version__,
    )
    if model.feature_names is not None:
        helper.set_model_props(proto, {"feature_names": json.dumps([str(name) for name in model.feature_names])})
    onnx.checker.check_model(proto)
    return bytes(proto.SerializeToString())


def _run(raw: bytes, feeds: dict[str, Array], kind: str) -> tuple[Array | None, Array]:
    """Labels and scores from onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
    if kind == "regressor":
        return None, session.run(["value"], feeds)[0]
    return tuple(session.run(["label", "scores"], feeds))


# -- the graph -------------------------------------------------------------------------------------------


class Graph:
    """A folded model as operators such as MatMul and Exp, in one precision but for the columns of a table.

    No product with a single number stands next to a MatMul: onnxruntime fuses the two and keeps the number in float32
    (attribute alpha of its FusedMatMul), which cost eight digits of float64 where it was tried.  Such numbers are
    folded into the constant matrices.

    Parameters
    ----------
    model : Model
    dtype : numpy dtype
        float32 or float64; the input tensor has it.
    prefix : str
        Of all names.
    """

    def __init__(self, model: Model, dtype: Any, prefix: str = "") -> None:
        from onnx import helper

        self.model, self.dtype, self.prefix = model, np.dtype(dtype), prefix
        self.element = helper.np_dtype_to_tensor_dtype(self.dtype)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return the name of its output, the first where there are two."""
        from onnx import helper

        name = f"{self.prefix}{op.lower()}_{len(self.nodes)}"
        outputs = [name, f"{name}_count"] if op in ("StringSplit", "TopK") else [name]
        self.nodes.append(helper.make_node(op, list(inputs), outputs, name=name, **attributes))
        return name

    def constant(self, values: Any, dtype: Any = None) -> str:
        """Add a constant tensor, of the graph's precision unless a type is given, and return its name."""
        from onnx import numpy_helper

        name = f"{self.prefix}constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype=dtype or self.dtype), name))
        return name

    def features(self, schema: TableSchema) -> str:
        """The encoded features, (n, d), of one input per column, in float64."""
        add, names, parts = self.add, _used(schema), []
        missing = "|".join([f"(?i:{'|'.join(map(re.escape, sorted(MISSING)))})", *map(re.escape, schema.missing)])
        for column in schema.columns:
            if _is_number(column):
                given = names[column.name]
                given = given if self.dtype == np.float64 else add("Cast", given, to=_FLOAT64)
                gap = add("IsNaN", given)
                parts.append(add("Where", gap, self.constant(float(column.fill), np.float64), given))
                if isinstance(column, Levels):
                    number, other = parts[-1], self.constant(len(column.levels), np.int64)
                    code = self._looked_up(add("Cast", number, to=_INT64), [int(level) for level in column.levels])
                    is_whole = add("Equal", add("Floor", number), number)
                    parts.append(self._of_levels(column, add("Where", is_whole, code, other)))
                parts += [add("Cast", gap, to=_FLOAT64)] * column.indicator
            elif isinstance(column, Levels):
                gap, n_levels = self._matches(names[column.name], missing), len(column.levels)
                fill = column.levels.index(column.fill) if column.fill in column.levels else n_levels
                code = self._word(names[column.name], column.levels)
                parts.append(self._of_levels(column, add("Where", gap, self.constant(fill, np.int64), code)))
            elif isinstance(column, Category):
                gap = self._matches(names[column.name], missing)
                levels = {level: self._matches(names[column.name], re.escape(level)) for level in column.levels}
                if column.fill in levels:
                    levels[column.fill] = add("Or", levels[column.fill], gap)
                level_columns = [add("Cast", level, to=_FLOAT64) for level in levels.values()]
                parts += level_columns
                if column.other:
                    some = add("Sum", *level_columns)
                    parts.append(add("Sub", self.constant(1.0, np.float64), some))
                parts += [add("Cast", gap, to=_FLOAT64)] * column.indicator
            elif isinstance(column, Date):
                parts += self._date(column, names[column.name], schema.missing)
        return add("Concat", *parts, axis=1)

    def _of_levels(self, column: Levels, codes: str) -> str:
        """The features of levels, (n, k), by their numbers (n, 1)."""
        rows = self.add("Gather", self.constant(column.values, np.float64), codes)
        return self.add("Squeeze", rows, self.constant([1], np.int64))

    def _word(self, texts: str, levels: Sequence[str]) -> str:
        """The number of the level that each text is, spaces around it left out; that of levels for another text."""
        add, end = self.add, "\u241f"
        tokens = [[token for token in level.split(" ") if token] for level in levels]
        most = max(map(len, tokens))
        padded = add("StringConcat", texts, self._text(f" {end}" * (most + 1)))
        pieces, joined = add("StringSplit", padded), ""  # at spaces, however many
        for place in range(most + 1):
            index = self.constant(place, np.int64)
            piece = add("Gather", pieces, index, axis=-1)
            joined = piece if not joined else add("StringConcat", add("StringConcat", joined, self._text(" ")), piece)
        keys = [" ".join((words + [end] * (most + 1))[: most + 1]) for words in tokens]
        exact, loose = self._looked_up(texts, levels), self._looked_up(joined, keys)
        return add("Where", add("Equal", exact, self.constant(len(levels), np.int64)), loose, exact)

    def _date(self, column: Date, texts: str, missing: tuple[str, ...]) -> list[str]:
        """The features of a column of dates, from texts in its form, as `Date.encode` computes them.

        Years, days and seconds are whole numbers in float64, which is exact.
        """
        add = self.add

        def as_number(digits: str, before: str = "0") -> _Number:
            digits, _ = self._cut(add("StringConcat", digits, self._text(" 0 .")), " ")  # no digits are 0
            return self.number(add("StringConcat", self._text(before), digits))

        names = {
            form(month_names[place]): place
            for month_names in (calendar.month_name, calendar.month_abbr)
            for place in range(1, 13)
            for form in (str, str.lower, str.upper)
        }
        # what each part of a form may be; what strptime refuses is missing
        patterns = {
            "Y": r"(000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})", "y": r"\d\d", "m": "(1[0-2]|0?[1-9])",
            "d": r"(3[01]|[12]\d|0?[1-9])", "b": f"({'|'.join(names)})", "B": f"({'|'.join(names)})",
            "H": r"(2[0-3]|[01]?\d)", "I": "(1[0-2]|0?[1-9])", "M": r"[0-5]?\d", "S": r"[0-5]?\d", "f": r"\d{1,6}",
            "p": "(AM|PM|am|pm)", " ": " +", "Z": r"( *(Z|[+-]\d{2}:?[0-5]\d))?",
        }  # fmt: skip
        # a form is parts and the separators after them, the last of which is empty
        fields = re.findall(r"%(\w)([^%]*)", column.form)
        with_clock = any(field in "HI" for field, _ in fields)
        pattern = "".join(
            patterns[field] + "".join(patterns[" "] if sign == " " else re.escape(sign) for sign in separator)
            for field, separator in fields
        )
        around = f"[ {''.join(_CUT_BLANKS)}]*"
        pattern = f"{around}{pattern}{patterns['Z'] if with_clock else ''}{around}"
        is_date = add("RegexFullMatch", texts, pattern=pattern)
        if missing:  # a date may stand for a gap
            is_date = add("And", is_date, add("Not", self._matches(texts, "|".join(map(re.escape, missing)))))
        # from here on every text has the form, so that each cut finds its separator; one more, were there no row
        example = written(column.first, column.form)
        remaining = add("Where", is_date, texts, self._text(example))
        remaining = add("Concat", remaining, self.constant(np.array([[example]], dtype=object), object), axis=0)
        for blank in _CUT_BLANKS:  # of the pieces between them, the one with digits; spaces are cut below
            pieces = add("StringSplit", remaining, delimiter=blank)
            dated = add("Cast", add("RegexFullMatch", pieces, pattern=r"(?s:.*\d.*)"), to=_FLOAT64)
            which = add("ArgMax", dated, axis=-1, keepdims=1)
            remaining = add("Squeeze", add("GatherElements", pieces, which, axis=-1), self.constant([-1], np.int64))
        texts_of, shifts = {}, []  # of the time zone
        for field, separator in fields[:-1]:
            texts_of[field], remaining = self._cut(remaining, separator)
        if with_clock:
            remaining, _ = self._cut(remaining, "Z", optional=True)
            for sign, side in (("+", -1.0), ("-", 1.0)):
                remaining, zone = self._cut(remaining, sign, optional=True)
                hours, minutes = self._cut(zone, ":", optional=True)
                joined = self.number(add("RegexFullMatch", hours, pattern=r"\d{4}"))  # as in +0230
                hour = as_number(hours)
                minute = as_number(minutes) + hour % 100.0 * joined
                shifts += [hour // (joined * 99.0 + 1.0) * (3600.0 * side), minute * (60.0 * side)]
        texts_of[fields[-1][0]], _ = self._cut(add("StringConcat", remaining, self._text(" .")), " ")

        year = as_number(texts_of["Y"] if "Y" in texts_of else texts_of["y"])
        if "y" in texts_of:  # as strptime: 69 is 1969, 68 is 2068
            year = year + 1900.0 + year.compared("Less", 69.0) * 100.0
        word = texts_of.get("b") or texts_of.get("B")
        if word is None:
            month = as_number(texts_of["m"])
        else:
            month = self.number(self._looked_up(word, list(names), list(names.values()), 1))
        which, day = add("Cast", month.name, to=_INT64), as_number(texts_of["d"])
        # days since 1970 by years that begin in March, where the leap day is the last
        before = year - month.compared("Less", 3.0)
        months_before = [0, 306, 337, *((153 * place + 2) // 5 for place in range(10))]
        before_month = _Number(self, add("Gather", self.constant(months_before, np.float64), which))
        days = before * 365.0 + before // 4.0 - before // 100.0 + before // 400.0 + before_month + day - 719_469.0
        seconds = days * 86_400.0
        for shift in shifts:
            seconds = seconds + shift
        if with_clock:
            hour = as_number(texts_of["H"] if "H" in texts_of else texts_of["I"])
            if "p" in texts_of:
                hour = hour % 12.0 + self.number(add("RegexFullMatch", texts_of["p"], pattern="PM|pm")) * 12.0
            seconds = seconds + hour * 3600.0 + as_number(texts_of["M"]) * 60.0
        for field, start in (("S", "0"), ("f", "0.")):
            if field in texts_of:
                seconds = seconds + as_number(texts_of[field], start)
        leap_days = [(year % n).compared("Equal", 0.0) for n in (4.0, 100.0, 400.0)]
        lengths = self.constant([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.float64)
        length = _Number(self, add("Gather", lengths, which))
        length = length + (leap_days[0] - leap_days[1] + leap_days[2]) * month.compared("Equal", 2.0)
        first, last = self.constant([0], np.int64), self.constant([-1], np.int64)
        is_date = add("And", is_date, add("Slice", add("LessOrEqual", day.name, length.name), first, last))
        read_seconds = add("Slice", seconds.name, first, last)
        seconds = _Number(self, add("Where", is_date, read_seconds, self.constant(column.fill, np.float64)))

        days = seconds // 86_400.0
        # and back: days since March of the year 0, in periods of 400 years
        since = days + 719_468.0
        period, of_period = since // 146_097.0, since % 146_097.0
        year = (of_period - of_period // 1460.0 + of_period // 36_524.0 - of_period // 146_096.0) // 365.0
        of_year = of_period - year * 365.0 - year // 4.0 + year // 100.0
        month = (of_year * 5.0 + 2.0) // 153.0 + 3.0  # 3 to 14
        late = month.compared("Greater", 12.0)
        parts: dict[str, _Number] = {
            "days": (seconds - column.first) / 86_400.0, "year": year + period * 400.0 + late,
            "month": month - late * 12.0, "weekday": (days + 3.0) % 7.0, "hour": seconds % 86_400.0 // 3600.0,
        }  # fmt: skip
        features = []
        for part in column.parts:
            number = part.split()[0]
            values = parts[number]
            if number != part:  # whole numbers, so that a table has their places on the circle
                places = self.constant(circle(number, np.arange(25.0))[part], np.float64)
                values = _Number(self, add("Gather", places, add("Cast", values.name, to=_INT64)))
            features.append(values)
        names_of_features = [feature.name for feature in features]
        return names_of_features + [add("Cast", add("Not", is_date), to=_FLOAT64)] * column.indicator

    def _matches(self, texts: str, pattern: str) -> str:
        """Whether each text matches, blanks around it left out."""
        return self.add("RegexFullMatch", texts, pattern=f"{_BLANKS}(?:{pattern}){_BLANKS}")

    def _text(self, text: str) -> str:
        return self.constant(np.array(text, dtype=object), object)

    def number(self, name: str) -> _Number:
        """A tensor of texts, whole numbers or truth values as float64, to calculate with."""
        return _Number(self, self.add("Cast", name, to=_FLOAT64))

    def _looked_up(
        self, cells: str, keys: Sequence[Any], codes: Sequence[int] | None = None, default: int | None = None
    ) -> str:
        """The code of every text or whole number among the keys, by default its place; for others the default."""
        names = "keys_strings" if isinstance(keys[0], str) else "keys_int64s"
        values = list(range(len(keys))) if codes is None else list(codes)
        table = {names: list(keys), "values_int64s": values, "default_int64": len(keys) if default is None else default}
        return self.add("LabelEncoder", cells, domain="ai.onnx.ml", **table)

    def _cut(self, texts: str, separator: str, optional: bool = False) -> tuple[str, str]:
        """What stands before the first separator and after it; texts may lack an optional one, which occurs once."""
        if optional:
            texts = self.add("StringConcat", texts, self._text(separator))
        delimiter = None if separator == " " else separator  # None: any number of spaces
        cut = self.add("StringSplit", texts, delimiter=delimiter, maxsplit=None if optional else 1)
        before, after = (self.add("Gather", cut, self.constant(place, np.int64), axis=-1) for place in (0, 1))
        return before, after

    def outputs(self, X: str, tables: bool = False) -> str:
        """Raw outputs f(x), (n, L).

        Features of `tables` are float64 until they are standardised: days and years are large beside their spread.
        """
        add, model, inputs = self.add, self.model, self.model.inputs
        dtype = np.float64 if tables else None
        if inputs.fill is not None:
            X = add("Where", add("IsNaN", X), self.constant(inputs.fill, dtype), X)
        if inputs.shift is not None:
            X = add("Sub", X, self.constant(inputs.shift, dtype))
        if inputs.scale is not None:
            factor, single = 1.0 / inputs.scale, model.n_features == 1
            X = add("MatMul" if single else "Mul", X, self.constant(factor[:, None] if single else factor, dtype))
        if tables and self.dtype != np.float64:
            X = add("Cast", X, to=self.element)
        if inputs.bends is not None:
            X = self._bent(inputs.bends, X)
        if inputs.map is not None:
            X = add("MatMul", X, self.constant(inputs.map.T))
        self.kernel_values = self._kernel(model.kernel, X)
        values = add("MatMul", self.kernel_values, self.constant(model.weights))
        return add("Add", values, self.constant(model.intercept))

    def _bent(self, bends: PiecewiseLinear, X: str) -> str:
        """Piecewise-linear transforms of the features (n, d): slopes times ramps (n, pieces, d), summed over pieces."""
        add, (begins, ends) = self.add, bends.bounds(np.float64)
        first = np.zeros_like(ends[:1])
        lowest, starts = np.concatenate([first - np.inf, begins]), np.concatenate([first, begins])
        ramps = add("Max", add("Unsqueeze", X, self.constant([1], np.int64)), self.constant(lowest))
        ramps = add("Sub", add("Min", ramps, self.constant(ends)), self.constant(starts))
        sloped = add("Mul", ramps, self.constant(bends.slopes.T))
        return add("ReduceSum", sloped, self.constant([1], np.int64), keepdims=0)

    def bounds(self, outputs: str) -> tuple[str, str]:
        """Lower and upper bounds of the predictions, (n, L) each, after `outputs`."""
        add, interval = self.add, self.model.interval
        assert interval is not None
        reach = self.constant(interval.reach)
        if interval.weights is not None:
            noise = add("MatMul", self.kernel_values, self.constant(interval.weights))
            noise = add("Add", noise, self.constant(interval.intercept))
            floor = self.constant(interval.floor)
            noise = add("Where", add("Greater", floor, noise), floor, noise)  # Max may take NaN for the smaller number
            reach = add("Mul", noise, reach)
        lower, upper = add("Sub", outputs, reach), add("Add", outputs, reach)
        return (add("Exp", lower), add("Exp", upper)) if self.model.link == "log" else (lower, upper)

    def scores(self, outputs: str) -> str:
        """Decision values, (n, n_scores)."""
        add, model = self.add, self.model
        if model.ordered:
            count = self.constant([model.weights.shape[1]], np.int64)
            return add("TopK", outputs, count, axis=1, largest=0, sorted=1)
        if model.link == "log":
            return add("Exp", outputs)
        if (voting := votes(model)) is None:
            return outputs
        codes = self.constant(voting[0].T)
        unit, half = self.constant(1.0), self.constant(0.5)
        signs = add("Where", add("Greater", outputs, self.constant(0.0)), half, self.constant(-0.5))
        counted = add("Add", add("MatMul", signs, codes), self.constant(voting[1]))
        margins = add("MatMul", outputs, codes)  # squashed to less than a third of a vote, as the codings do
        squashed = add("Div", margins, add("Mul", add("Add", add("Abs", margins), unit), self.constant(3.0)))
        return add("Add", counted, squashed)

    def labels(self, scores: str) -> str:
        """Labels, (n,), from decision values (n, n_scores)."""
        add, model = self.add, self.model
        if decision_shape(model)[0] == 1:
            above = "GreaterOrEqual" if model.kind == "outlier" else "Greater"
            best = add("Cast", add(above, self.flat(scores), self.constant(0.0)), to=_INT64)
        else:
            best = add("ArgMax", scores, axis=1, keepdims=0)
        labels = _label_array(model.classes)
        return add("Gather", self.constant(labels, labels.dtype), best, axis=0)

    def probabilities(self, scores: str) -> str:
        """Class probabilities from the stored calibration, (n, n_classes)."""
        add, calibration = self.add, self.model.calibration
        assert calibration is not None
        n_scores = decision_shape(self.model)[0]
        if "t" in calibration:
            z = add("Div", scores, self.constant(calibration["t"]))
            if n_scores == 1:
                return add("Concat", add("Sigmoid", add("Neg", z)), add("Sigmoid", z), axis=1)
            return add("Softmax", z, axis=1)
        if "x" in calibration:
            sigmoids = self._curves(scores, curves_of(calibration))
        else:
            slope, start = (self.constant(-np.asarray(calibration[key], dtype=np.float64)) for key in "ab")
            sigmoids = add("Sigmoid", add("Add", add("Mul", scores, slope), start))
        if n_scores == 1:
            return add("Concat", add("Sub", self.constant(1.0), sigmoids), sigmoids, axis=1)
        ones = self.constant(np.ones((n_scores, 1)))
        total, zero = add("MatMul", sigmoids, ones), self.constant(0.0)
        some = add("Greater", total, zero)
        share = add("Div", sigmoids, add("Where", some, total, self.constant(1.0)))
        return add("Where", some, share, self.constant(1.0 / n_scores))

    def _curves(self, scores: str, curves: list[tuple[Array, Array]]) -> str:
        """Every score on its line through points: where it starts, and what each piece that was passed adds."""
        add, columns = self.add, []
        for number, (x, y) in enumerate(curves):
            score = add("Gather", scores, self.constant([number], np.int64), axis=1)
            if len(x) == 1:
                columns.append(add("Add", add("Mul", score, self.constant(0.0)), self.constant(y)))
                continue
            share = add("Div", add("Sub", score, self.constant(x[:-1])), self.constant(np.diff(x)))
            share = add("Min", add("Max", share, self.constant(0.0)), self.constant(1.0))
            columns.append(add("Add", add("MatMul", share, self.constant(np.diff(y)[:, None])), self.constant(y[:1])))
        return add("Concat", *columns, axis=1)

    def flat(self, scores: str) -> str:
        """(n, 1) as (n,)."""
        return self.add("Squeeze", scores, self.constant([1], np.int64))

    # -- kernels -----------------------------------------------------------------------------------------

    def _kernel(self, kernel: Kernel, X: str) -> str:
        """Kernel values, (n, m)."""
        add, Z = self.add, self.model.basis
        if isinstance(kernel, Sum | Product):
            core, factor, addend = decomposed(kernel)
            if isinstance(core, Linear):
                values = add("MatMul", X, self.constant(factor * Z.T))
            elif isinstance(core, Sum | Product):
                values = self._kernel(core.parts[0], X)
                for part in core.parts[1:]:
                    values = add("Add" if isinstance(core, Sum) else "Mul", values, self._kernel(part, X))
            else:
                values = self._kernel(core, X)
            if factor != 1.0 and not isinstance(core, Linear):
                values = add("Mul", values, self.constant(factor))
            return add("Add", values, self.constant(addend)) if addend else values
        if isinstance(kernel, RBF):
            if not self.model.kernel.shift_invariant:
                # Distances from dot products lose the digits that rows and basis share.  Already centred where the
                # whole kernel allows it; beside a kernel of dot products only the distances are.
                centre = Z.mean(axis=0).astype(self.dtype).astype(np.float64)
                X, Z = add("Sub", X, self.constant(centre)), Z - centre
            # exp(2 g x.z - g |x|^2 - g |z|^2), never above 1
            widths = np.broadcast_to(np.asarray(kernel.gamma, dtype=np.float64), Z.shape[1:])
            products = add("MatMul", X, self.constant(2.0 * (Z * widths).T))
            norms = add("MatMul", add("Mul", X, X), self.constant(widths[:, None]))
            exponent = add("Sub", add("Sub", products, norms), self.constant((Z * Z) @ widths))
            # too far for a square; and no Min, which may take NaN for the larger number
            exponent = add("Where", add("IsInf", norms), self.constant(-np.inf), exponent)
            zero = self.constant(0.0)
            return add("Exp", add("Where", add("Greater", exponent, zero), zero, exponent))
        if isinstance(kernel, Laplacian):
            axis = self.constant([1], np.int64)
            gaps = add("Abs", add("Sub", add("Unsqueeze", X, axis), self.constant(Z)))  # (n, m, d)
            return add("Exp", add("MatMul", gaps, self.constant(np.full(Z.shape[1], -kernel.gamma))))
        if isinstance(kernel, Constant):
            zeros = add("MatMul", X, self.constant(np.zeros(Z.T.shape)))
            return add("Add", zeros, self.constant(kernel.value))
        if isinstance(kernel, Linear):
            return add("MatMul", X, self.constant(Z.T))
        assert isinstance(kernel, Polynomial)
        base = add("Add", add("MatMul", X, self.constant(kernel.gamma * Z.T)), self.constant(kernel.coef0))
        return self._power(base, kernel.degree)

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


class _Number:
    """A float64 tensor of a graph; its operators add nodes."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name = graph, name

    def _node(self, op: str, other: _Number | float) -> _Number:
        right = other.name if isinstance(other, _Number) else self.graph.constant(other, np.float64)
        return _Number(self.graph, self.graph.add(op, self.name, right))

    def __add__(self, other: _Number | float) -> _Number:
        return self._node("Add", other)

    def __sub__(self, other: _Number | float) -> _Number:
        return self._node("Sub", other)

    def __mul__(self, other: _Number | float) -> _Number:
        return self._node("Mul", other)

    def __truediv__(self, other: _Number | float) -> _Number:
        return self._node("Div", other)

    def __floordiv__(self, other: _Number | float) -> _Number:
        return _Number(self.graph, self.graph.add("Floor", (self / other).name))

    def __mod__(self, other: float) -> _Number:
        return self - self // other * other

    def compared(self, op: str, other: float) -> _Number:
        """1 where a comparison such as "Less" holds, else 0."""
        return self.graph.number(self._node(op, other).name)


def _label_array(classes: Array | None) -> Array:
    """Labels in a type that ONNX has: text, int64 (also of an outlier detector), float64 or bool."""
    if classes is None:
        return np.array([-1, 1], dtype=np.int64)
    kinds = {"U": np.object_, "i": np.int64, "u": np.int64, "f": np.float64, "b": np.bool_}
    return classes.astype(kinds[classes.dtype.kind])


# -- skl2onnx --------------------------------------------------------------------------------------------


def register_skl2onnx() -> None:
    """Teach skl2onnx kompakt's estimators, so that `skl2onnx.convert_sklearn` takes them, alone or in a pipeline.

    A classifier has the outputs ``label`` (n,), ``probabilities`` (n, n_classes) if it was fitted with
    ``calibrate=True``, and ``scores`` (n, n_scores), the values of `decision_function`; with two classes there is one
    score.  A regressor and the transformer have the output ``variable``.  The precision is that of the input type that
    `convert_sklearn` is given (float32 unless it is `DoubleTensorType`).

    Outputs are always tensors: the option ``zipmap`` is taken and changes nothing.  With the option
    ``{"raw_scores": True}`` there are no probabilities, and two classes have two scores, -f and f, as in skl2onnx's
    own converters; `CalibratedClassifierCV` asks for these.

    Raises
    ------
    ImportError
        If skl2onnx is missing.

    Examples
    --------
    >>> import kompakt
    >>> from kompakt.export import register_skl2onnx
    >>> from skl2onnx import to_onnx as convert
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), kompakt.CompactSVC(n_basis=10, random_state=0)).fit(X, y)
    >>> register_skl2onnx()
    >>> [output.name for output in convert(pipeline, X[:1]).graph.output]
    ['label', 'scores']
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError as error:
        raise ImportError(
            "converting with skl2onnx needs skl2onnx, which is not installed. "
            'Install the extra: pip install "kompakt[onnx]".'
        ) from error
    for estimator in (getattr(kompakt, name) for name in kompakt.__all__):
        if isinstance(estimator, type) and issubclass(estimator, BaseEstimator):
            alias = f"Kompakt{estimator.__name__}"
            update_registered_converter(estimator, alias, _shapes, _convert, parser=_parse, options=_OPTIONS)


def _estimator_model(estimator: Any) -> Model:
    """The model of an estimator; a projection is one whose outputs are the coordinates."""
    if type(estimator).__name__ != "GreedyProjection":
        return model_of(estimator)
    check_is_fitted(estimator)
    model: Model = estimator._as_model()
    return model


def _outputs(scope: Any, estimator: Any, rows: Any) -> dict[str, Any]:
    """Names and types of the outputs, for input of the type `rows`.

    All are tensors, no ZipMap; probabilities are second, where others' converters have them.
    """
    from skl2onnx.common import data_types

    model, raw_scores = _estimator_model(estimator), _raw_scores(scope, estimator)
    n = rows.shape[0] if rows.shape else None

    def tensor(width: int) -> Any:
        tensor_type = data_types.guess_tensor_type(rows)
        tensor_type.shape = [n, width]
        return tensor_type

    n_scores = decision_shape(model)[0]
    if model.kind == "regressor":
        return {"variable": tensor(n_scores)}
    names = {"O": "StringTensorType", "i": "Int64TensorType", "f": "DoubleTensorType", "b": "BooleanTensorType"}
    outputs = {"label": getattr(data_types, names[_label_array(folded(model).classes).dtype.kind])([n])}
    if model.calibration is not None and not raw_scores:
        outputs["probabilities"] = tensor(len(model.classes_))
    both = model.kind == "classifier" and raw_scores
    return outputs | {"scores": tensor(len(model.classes_) if both else n_scores)}


def _raw_scores(scope_or_container: Any, estimator: Any) -> bool:
    return bool(scope_or_container.get_options(estimator, {"raw_scores": False})["raw_scores"])


def _parse(scope: Any, estimator: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the outputs."""
    operator = scope.declare_local_operator(f"Kompakt{type(estimator).__name__}", estimator)
    operator.inputs.append(inputs[0])
    outputs = _outputs(scope, estimator, inputs[0].type)
    operator.outputs.extend(scope.declare_local_variable(name, kind) for name, kind in outputs.items())
    return operator.outputs


def _shapes(operator: Any) -> None:
    outputs = _outputs(operator.scope_inst, operator.raw_operator, operator.inputs[0].type)
    # an ensemble's converter asks for the first two outputs only
    for output, kind in zip(operator.outputs, outputs.values(), strict=False):
        output.type = kind


def _convert(scope: Any, operator: Any, container: Any) -> None:
    from onnx import helper
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, guess_proto_type

    opset = container.target_opset_any_domain("")
    if opset < _LEAST_OPSET:
        raise ValueError(f"kompakt's machines need ONNX opset {_LEAST_OPSET} or later; target_opset is {opset}.")
    kind = operator.inputs[0].type
    double = isinstance(kind, DoubleTensorType)
    model = folded(_estimator_model(operator.raw_operator), single=not double)
    graph = Graph(model, np.float64 if double else np.float32, str(scope.get_unique_variable_name("kompakt")) + "_")
    rows = operator.inputs[0].full_name
    if not isinstance(kind, DoubleTensorType | FloatTensorType):
        rows = graph.add("Cast", rows, to=guess_proto_type(FloatTensorType()))
    scores = graph.scores(graph.outputs(rows))
    results = [scores] if model.kind == "regressor" else [graph.labels(scores), scores]
    if model.kind == "classifier" and _raw_scores(container, operator.raw_operator):
        if len(model.classes_) == 2:
            results[1] = graph.add("Concat", graph.add("Neg", scores), scores, axis=1)
    elif model.calibration is not None:
        results.insert(1, graph.probabilities(scores))
    container.initializers.extend(graph.constants)
    for node in graph.nodes:
        attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        container.add_node(node.op_type, list(node.input), list(node.output), name=node.name, **attributes)
    for result, output in zip(results, operator.outputs, strict=False):
        container.add_node("Identity", [result], [output.full_name], name=scope.get_unique_operator_name("Identity"))
