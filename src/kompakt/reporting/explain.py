"""What a report says of columns and cases: importance, dependence, thresholds, learning curves, the what-if panel."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.metrics import mean_squared_error

from kompakt.data.table import Date, Number, TableSchema, Unused, columns_of, is_missing, is_table, number_of
from kompakt.estimators.compact import CompactSVC, CompactSVR
from kompakt.export.js_file import js_model
from kompakt.io.container import UnsupportedModelError
from kompakt.kernels.base import dense
from kompakt.plots.vectors import sides_of
from kompakt.reporting import text
from kompakt.reporting.measure import Reliability, Subject, predicted_numbers, worst_rows

Array = np.ndarray

#: columns that are shuffled and rows at most; shuffles of each, from so many rows on and of fewer; multiplications at
#: most, about a second
_MOST_SHUFFLED, _SHUFFLED_ROWS, _SHUFFLES, _MOST_WORK = 30, 2000, (5, 20), 6e9
#: columns whose dependence is drawn, points along each, levels of words, rows that are averaged
N_DEPENDENCE, _POINTS, _MOST_LEVELS, _AVERAGED_ROWS = 6, 20, 12, 200
#: rows that learning curves are trained and measured on, at most; splits into both; the largest number of vectors
_CURVE_ROWS, _CURVE_SPLITS, _CURVE_VECTORS = 1500, 3, 200
#: columns shown of a row; columns with a control, rows to start from, and numbers of these rows, at most
SHOWN_COLUMNS, _MOST_CONTROLS, _START_ROWS, _MOST_CELLS = 6, 30, 20, 20_000
#: words of a menu, at most, the most frequent ones
_MOST_WORDS = 200
#: vectors with a typical case, and bytes of a model that a page carries, at most
_MOST_CASES, _MOST_MODEL_BYTES = 300, 600_000
#: columns of a model that a page carries, at most
_MOST_COLUMNS = 1000


@dataclass(frozen=True)
class Column:
    """A column of the user's: its name, the features that it becomes, and its cells on the rows of the report."""

    name: str
    places: list[int]
    read: Callable[[], Array]
    schema: Any = None  # its entry in the schema of a table; None for a feature of numbers

    @cached_property
    def cells(self) -> Array:
        return self.read()

    @property
    def is_words(self) -> bool:
        return self.schema is not None and self.schema.kind in ("category", "levels")

    @property
    def is_number(self) -> bool:
        return self.schema is None or self.schema.kind == "number"

    def features(self, cells: Array) -> Array:
        """The features of cells, (n, len(places))."""
        if self.schema is None:
            return np.asarray(cells, dtype=np.float64)[:, None]
        return TableSchema((self.schema,)).encode({self.name: cells})

    def numbers(self) -> Array:
        """A number for the place of each cell: of numbers their values, of dates the days since the first."""
        return self.features(self.cells)[:, 0]

    def written(self, row: int) -> str:
        """A cell as the table shows it."""
        cell = self.cells[row]
        if is_missing(cell):
            return "missing"
        return text.number(float(cell)) if isinstance(cell, float | np.floating) else str(cell).strip()


def columns_of_subject(subject: Subject, table: Any) -> list[Column]:
    """The user's columns: those of the table that was given, or one for each feature."""
    schema = subject.model.inputs.schema
    cells_of = {} if schema is None or not is_table(table) else columns_of(table)
    used = [] if schema is None else [column for column in schema.columns if not isinstance(column, Unused)]
    if not used or any(column.name not in cells_of for column in used):
        return [Column(name, [j], partial(_feature, subject.X, j)) for j, name in enumerate(subject.feature_names)]
    ends = np.cumsum([len(column.features) for column in used]).tolist()
    starts = [0, *ends[:-1]]
    return [
        Column(text.printable(column.name), list(range(*place)), partial(_rows_of, cells_of, column, subject), column)
        for column, place in zip(used, zip(starts, ends, strict=True), strict=True)
    ]


def _feature(X: Any, j: int) -> Array:
    return np.asarray(dense(X[:, [j]])[:, 0])


def _rows_of(table: dict[str, Array], column: Any, subject: Subject) -> Array:
    """Cells of the rows of the report: numbers with NaN for gaps, or text with None; dates as a file writes them."""
    cells, schema = table[column.name][subject.numbers], subject.model.inputs.schema
    also = frozenset(() if schema is None else schema.missing)
    if isinstance(column, Number):
        if cells.dtype.kind in "fiu":
            return np.asarray(cells, dtype=np.float64)
        values = (None if is_missing(cell, also) else number_of(cell, column.decimal) for cell in cells)
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    values = cells.astype("datetime64[us]").tolist() if cells.dtype.kind == "M" else cells.tolist()
    texts: list[Any] = [
        None if is_missing(value, also)
        else value.strftime(column.form) if isinstance(column, Date) and hasattr(value, "strftime")
        else f"{value:.15g}" if isinstance(value, float) else str(value).strip()  # codes
        for value in values
    ]  # fmt: skip
    return np.array([*texts, None], dtype=object)[:-1]


# -- which columns matter ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Importance:
    """By how much the error rises when a column is shuffled; the columns in the order of the rise."""

    columns: list[int]  # numbers of the columns that were shuffled, the most important first
    rise: Array  # in the unit of the report's error
    low: Array  # 95 % interval
    high: Array
    n_rows: int
    n_shuffles: int
    n_left_out: int  # columns that were not shuffled


def importance(subject: Subject, columns: list[Column], relevant: Array, seed: int) -> Importance | None:
    """Permutation importance of columns (Breiman 2001, section 10) on the given rows; None without features.

    The rise is a mean over pairs of a row and the row that gives it a value, and each row takes both parts: the
    variance is that of a row's mean rise plus the mean rise by its value (Hoeffding 1948, section 5).
    """
    model = subject.model
    if model.kernel.name in ("precomputed", "callable") or not columns:
        return None
    column_of = {place: k for k, column in enumerate(columns) for place in column.places}
    order = list(dict.fromkeys(column_of[place] for place in relevant.tolist() if place in column_of))
    chosen = order[:_MOST_SHUFFLED]
    per_shuffle = len(chosen) * max(1, model.n_basis_) * (model.n_features + 20)  # of one row
    rng = np.random.default_rng(seed)
    rows = _drawn(subject, max(100, min(_SHUFFLED_ROWS, int(_MOST_WORK / (_SHUFFLES[0] * per_shuffle)))), rng)
    n_shuffles = int(np.clip(_SHUFFLES[0] * _SHUFFLED_ROWS // len(rows), *_SHUFFLES))
    if n_shuffles * len(rows) * per_shuffle > _MOST_WORK:
        n_shuffles = _SHUFFLES[0]
    X, y, n = dense(subject.X[rows]), subject.y[rows], len(rows)
    before = _row_errors(subject, X, y)
    means, deviations = np.empty(len(chosen)), np.empty(len(chosen))
    for k, number in enumerate(chosen):
        of_row, by_giver, places = np.zeros(n), np.zeros(n), columns[number].places
        for _ in range(n_shuffles):
            shuffled, giver = X.copy(), rng.permutation(n)
            shuffled[:, places] = X[giver][:, places]
            rises = (_row_errors(subject, shuffled, y) - before) / n_shuffles
            of_row += rises
            by_giver[giver] += rises
        means[k], deviations[k] = of_row.mean(), np.sqrt((of_row + by_giver).var() / n)
    bounds = np.array([means, means - 1.96 * deviations, means + 1.96 * deviations])
    if not subject.classes:  # from mean squared errors to their roots
        bounds = np.sqrt(np.maximum(0.0, before.mean() + bounds)) - np.sqrt(before.mean())
    best = np.argsort(-bounds[0], kind="stable")
    rise, low, high = bounds[:, best]
    return Importance([chosen[k] for k in best], rise, low, high, n, n_shuffles, len(columns) - len(chosen))


def _drawn(subject: Subject, n_rows: int, rng: np.random.Generator) -> Array:
    return np.sort(rng.choice(subject.n_rows, min(subject.n_rows, n_rows), replace=False))


def _row_errors(subject: Subject, X: Array, y: Array) -> Array:
    """1 for every wrong label, or the squared error of the row."""
    outputs = subject.model.outputs(X)
    if subject.classes:
        guess = predicted_numbers(subject.model, subject.model.scores(outputs))
        return np.asarray(guess != y, dtype=np.float64)
    return np.asarray(np.mean((subject.model.scores(outputs).reshape(y.shape) - y) ** 2, axis=1))


# -- how the prediction depends on a column --------------------------------------------------------------------


@dataclass(frozen=True)
class Dependence:
    """Mean prediction of some rows with a column set to one cell after the other (Friedman 2001, section 8.2)."""

    column: Column
    at: Array  # (G,) places on the axis
    labels: list[str]  # of these places, the cells
    means: Array  # (G, S)
    low: Array | None  # (G,) a tenth of the rows is below; None for classes
    high: Array | None
    series: list[str]  # names of the S curves
    unit: str


def dependence(subject: Subject, columns: list[Column], first: list[int], seed: int) -> list[Dependence]:
    """Partial dependence on the first columns."""
    rng = np.random.default_rng(seed)
    X = dense(subject.X[_drawn(subject, _AVERAGED_ROWS, rng)])
    curves = []
    for number in first[:N_DEPENDENCE]:
        column = columns[number]
        cells, at = _grid(column)
        if len(cells) < 2:
            continue
        block = np.repeat(X, len(cells), axis=0)
        block[:, column.places] = np.tile(column.features(cells), (len(X), 1))
        values, series, unit = _answers(subject, block)
        values = values.reshape(len(X), len(cells), -1)
        # of probabilities, which are near 0 or 1, such a band would fill the figure
        low, high = (None, None) if subject.classes else np.quantile(values[:, :, 0], [0.1, 0.9], axis=0)
        labels = [text.number(float(cell)) if column.is_number else str(cell) for cell in cells]
        curves.append(Dependence(column, at, labels, values.mean(axis=0), low, high, series, unit))
    return curves


def _grid(column: Column) -> tuple[Array, Array]:
    """Cells of the column to look at, and their places on the axis."""
    known = np.array([not is_missing(cell) for cell in column.cells], dtype=bool)
    cells = column.cells[known]
    if column.is_words:
        levels, counts = np.unique([str(cell).strip() for cell in cells], return_counts=True)
        frequent = np.sort(np.argsort(-counts, kind="stable")[:_MOST_LEVELS])
        return levels[frequent].astype(object), np.arange(len(frequent), dtype=float)
    numbers = column.numbers()[known]
    order = np.argsort(numbers, kind="stable")
    chosen = order[np.unique(np.linspace(0.02, 0.98, _POINTS) * (len(order) - 1) // 1).astype(int)[: len(order)]]
    at, index = np.unique(numbers[chosen], return_index=True)
    return cells[chosen[index]], at


def _answers(subject: Subject, X: Array) -> tuple[Array, list[str], str]:
    """What rows are answered, (n, S), the names of these S numbers, and their unit."""
    model, outputs = subject.model, subject.model.outputs(X)
    if not subject.classes:
        return model.scores(outputs).reshape(len(X), -1)[:, :1], ["prediction"], "prediction"
    scores = model.scores(outputs)
    K = 1 if model.classes is None else len(model.classes)
    shown = [1] if K == 2 else list(np.argsort(-subject.counts[:K], kind="stable")[:4])
    if model.calibration is not None:
        values, unit = 100.0 * model.probabilities(scores)[:, shown], "% probability"
    else:
        guess = predicted_numbers(model, scores)
        values, unit = 100.0 * (guess[:, None] == np.array(shown)), "% predicted"
    return values, [subject.classes[k] for k in shown], unit


# -- the threshold between two classes -----------------------------------------------------------------------------


def thresholds(subject: Subject, outputs: Array, most: int = 101) -> dict[str, Any] | None:
    """Rows that are found, missed and wrongly announced as the second class, at thresholds from low to high."""
    model = subject.model
    if model.kind != "classifier" or model.classes is None or len(model.classes) != 2 or len(subject.classes) != 2:
        return None
    positive = subject.y == 1
    if positive.all() or not positive.any():
        return None
    scores = model.scores(outputs)
    calibrated = model.calibration is not None
    values = model.probabilities(scores)[:, 1] if calibrated else scores
    # predict's own threshold is one of them: a score of 0 is the first class
    own = float(model.probabilities(np.zeros(1))[0, 1]) if calibrated else 0.0
    at = np.unique(np.append(np.quantile(values, np.linspace(0, 1, most)), own))
    ranked, ranked_positive = np.sort(values), np.sort(values[positive])
    alarms = len(values) - np.searchsorted(ranked, at, side="right")
    hits = len(ranked_positive) - np.searchsorted(ranked_positive, at, side="right")
    return {
        "at": [text.percent(value) if calibrated else f"{value:.3g}" for value in at],
        "values": [f"{value:.6g}" for value in at],
        "function": "predict_proba(X)[:, 1]" if calibrated else "decision_function(X)",
        "hits": hits.tolist(),
        "alarms": (alarms - hits).tolist(),
        "positive": int(positive.sum()),
        "rows": len(values),
        "start": int(np.searchsorted(at, own)),
    }


# -- learning curves ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LearningCurves:
    """Errors of models trained anew on parts of the given rows: means and standard errors over random splits."""

    n_rows: Array
    row_errors: Array  # (len(n_rows), splits)
    n_vectors: Array
    vector_errors: Array
    vectors: int  # of the models of the first curve
    rows: int  # of the models of the second


def learning_curves(subject: Subject, seed: int) -> LearningCurves | None:
    """Whether more rows or more vectors would help: plain fits with the model's kernel, C and loss, without a search.

    None where C is not known, or where there are too few rows or too many features.
    """
    model, record = subject.model, subject.model.record
    C = getattr(subject.estimator, "C_", None if record is None else record.settings.get("C"))
    rng = np.random.default_rng(seed)
    known = np.flatnonzero(subject.y < len(model.classes)) if model.classes is not None else np.arange(subject.n_rows)
    known = rng.permutation(known)[:_CURVE_ROWS]
    if not isinstance(C, float) or model.kind == "outlier" or len(known) < 60 or model.n_features > 1000:
        return None
    if model.kernel.name in ("precomputed", "callable") or model.n_basis_ < 2:
        return None
    X, y = model._transformed(dense(subject.X[known]).astype(np.float64)), subject.y[known]
    log = model.link == "log"
    if log and y.min() <= 0:
        return None
    n_train, size = 3 * len(y) // 4, min(model.n_basis_, _CURVE_VECTORS, len(y) // 3)
    n_rows = np.unique(np.maximum(20, n_train // 2 ** np.arange(4)))
    n_vectors = np.unique(np.clip(size * 2.0 ** np.arange(-3, 2), 1, n_train // 2).astype(int))
    settings: dict[str, Any] = {"kernel": model.kernel, "C": C, "refine": False, "random_state": seed}
    loss = None if record is None else record.settings.get("loss")
    if isinstance(loss, str):
        settings["loss"] = loss

    def error(train: Array, test: Array, n_basis: int) -> float:
        if not subject.classes:
            targets = np.log(y[train]) if log else y[train]
            machine = CompactSVR(min(n_basis, len(train)), **settings).fit(X[train], targets)
            values = machine.predict(X[test]).reshape(len(test), -1)
            return float(np.sqrt(mean_squared_error(y[test], np.exp(np.minimum(values, 700.0)) if log else values)))
        if len(np.unique(y[train])) < 2:
            return float(np.mean(y[test] != y[train[0]]))
        classifier = CompactSVC(min(n_basis, len(train)), **settings).fit(X[train], y[train])
        return 1.0 - float(classifier.score(X[test], y[test]))

    row_errors, vector_errors = np.empty((len(n_rows), _CURVE_SPLITS)), np.empty((len(n_vectors), _CURVE_SPLITS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of convergence, and of classes with few rows
        for split in range(_CURVE_SPLITS):
            order = rng.permutation(len(y))
            train, test = order[:n_train], order[n_train:]
            row_errors[:, split] = [error(train[:n], test, size) for n in n_rows]
            at_size = {size: row_errors[-1, split]}  # measured already
            for place, k in enumerate(n_vectors.tolist()):
                vector_errors[place, split] = at_size[k] if k in at_size else error(train, test, k)
    return LearningCurves(n_rows, row_errors, n_vectors, vector_errors, size, n_train)


# -- what if: the model in the page ----------------------------------------------------------------------------------


def shown_columns(columns: list[Column], order: list[int]) -> list[int]:
    """Columns that are shown of a row: the most important ones."""
    return (order or list(range(len(columns))))[:SHOWN_COLUMNS]


def worst_with_cells(
    subject: Subject, outputs: Array, columns: list[Column], order: list[int]
) -> list[tuple[Any, ...]]:
    """The worst rows, each with its cells in the most important columns."""
    place = {number: k for k, number in enumerate(subject.numbers.tolist())}
    shown = shown_columns(columns, order)
    return [(*row, [columns[k].written(place[row[0]]) for k in shown]) for row in worst_rows(subject, outputs)]


def typical_rows(subject: Subject, rows_to_search: int = 5000) -> tuple[Array, Array, Array] | None:
    """For every vector the given row most like it, and how like; and of every row how like its nearest vector is.

    Of a classifier, the row is one of the class that the vector speaks for.  None for kernels that do not measure
    likeness.
    """
    model = subject.model
    if not model.kernel.shift_invariant or not model.n_basis_ or model.kernel.name == "precomputed":
        return None
    rows = model._transformed(dense(subject.X[:rows_to_search]).astype(np.float64))
    similarity = model.kernel.block(rows, np.asarray(model.basis, dtype=np.float64))
    largest = model.kernel.diag(rows[:1])[0]
    of_rows = similarity.max(axis=1) / largest
    if model.kind == "classifier":
        similarity = np.where(subject.y[: len(rows), None] == sides_of(model)[0], similarity, 0.0)
    nearest = np.argmax(similarity, axis=0)
    return nearest, similarity[nearest, np.arange(len(nearest))] / largest, of_rows


def what_if(
    subject: Subject, outputs: Array, columns: list[Column], order: list[int], reliability: Reliability, seed: int
) -> dict[str, Any] | None:
    """The model, controls for its columns, rows to start from and typical cases, for the script of the page.

    None for a model that JavaScript cannot hold, or that would make the page large.
    """
    model = subject.model
    rng = np.random.default_rng(seed)
    try:
        plain = replace(model, inputs=replace(model.inputs, schema=None))
        machine = js_model(plain if columns and columns[0].schema is None else model)
    except (TypeError, UnsupportedModelError):
        return None
    if sum(map(len, machine["arrays"].values())) > _MOST_MODEL_BYTES or not 0 < len(columns) <= _MOST_COLUMNS:
        return None
    ranked = order + [k for k in range(len(columns)) if k not in set(order)]
    n_start = max(1, min(_START_ROWS, _MOST_CELLS // len(columns)))
    worst = [number for number, *_ in worst_rows(subject, outputs, 5)]
    place = {number: k for k, number in enumerate(subject.numbers.tolist())}
    starts = list(dict.fromkeys([*_drawn(subject, n_start, rng).tolist(), *(place[number] for number in worst)]))
    controls = [_control(columns[k], k, starts) for k in ranked[:_MOST_CONTROLS]]
    panel: dict[str, Any] = {
        "machine": machine,
        "labels": [text.shortened(name, 60) for name in subject.classes],
        "controls": [control for control in controls if control is not None],
        "starts": [
            {
                "name": f"row {subject.numbers[k] + 1:,}: {_truth(subject, k)}",
                "cells": [_plain(cell) for cell in cells],
            }
            for k, cells in zip(starts, _cells_of(subject, columns, starts), strict=True)
        ],
        "cases": None,
        "fills": bool(model.inputs.fill is not None or model.inputs.schema is not None),
    }
    if subject.classes:
        if model.calibration is None:
            panel["seen"] = {"at": reliability.predicted.tolist(), "share": reliability.observed.tolist()}
    elif (interval := getattr(model, "interval", None)) is not None:
        panel["level"] = interval.level
    elif subject.n_rows >= 20:
        panel["residuals"] = np.quantile((subject.y - outputs)[:, 0], [0.05, 0.95]).tolist()
    if (typical := typical_rows(subject)) is not None and model.n_basis_ <= _MOST_CASES:
        nearest, likeness, of_rows = typical
        shown = shown_columns(columns, order)[:5]
        panel["far"] = float(np.quantile(of_rows, 0.01))
        panel["cases"] = [
            {
                "row": f"row {subject.numbers[k] + 1:,}",
                "class": int(subject.y[k]) if subject.classes else 0,
                "truth": _truth(subject, k),
                "cells": ", ".join(f"{columns[j].name} {text.shortened(columns[j].written(k), 24)}" for j in shown),
            }
            if alike > 0.1
            else None
            for k, alike in zip(nearest.tolist(), likeness.tolist(), strict=True)
        ]
    return panel


def _cells_of(subject: Subject, columns: list[Column], rows: list[int]) -> list[list[Any]]:
    """The cells of some rows in all columns."""
    if columns[0].schema is None:
        return list(dense(subject.X[rows]).tolist())
    return [[column.cells[k] for column in columns] for k in rows]


def _truth(subject: Subject, row: int) -> str:
    value = subject.y[row]
    return text.shortened(subject.classes[value], 40) if subject.classes else text.number(float(value[0]))


def _plain(cell: Any) -> Any:
    """A cell for JSON: a number, text, or None for a gap."""
    if is_missing(cell):
        return None
    cell = cell.item() if isinstance(cell, np.generic) else cell
    return cell if isinstance(cell, int | float) else text.printable(cell)


def _control(column: Column, number: int, starts: list[int]) -> dict[str, Any] | None:
    """How a column is set: a slider over its numbers, a menu of its words, or steps over its other cells.

    Steps are those of the figures, and the cells of the rows to start from.
    """
    cells, at = _grid(column)
    if not len(cells):
        return None
    name = text.shortened(column.name, 60)
    if column.is_words:
        levels, other = list(column.schema.levels[:_MOST_WORDS]), getattr(column.schema, "other", True)
        return {"column": number, "name": name, "kind": "words", "levels": levels, "other": other}
    if not column.is_number:
        places = dict(zip(map(str, cells), at.tolist(), strict=True))
        numbers = column.numbers()
        places |= {str(column.cells[k]): float(numbers[k]) for k in starts if not is_missing(column.cells[k])}
        levels = sorted(places, key=lambda cell: places[cell])
        return {"column": number, "name": name, "kind": "steps", "levels": levels}
    known = column.numbers()
    known = known[np.isfinite(known)]
    low, high = (float(f"{value:.4g}") for value in np.quantile(known, [0.0, 1.0]))
    whole = bool(np.all(known == np.round(known)))
    step = 1.0 if whole else float(f"{(high - low) / 200 or 1.0:.1g}")
    return {"column": number, "name": name, "kind": "number", "low": low, "high": high, "step": step}
