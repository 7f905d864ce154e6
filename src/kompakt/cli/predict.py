"""``predict`` and ``scale``: from a file of rows to predictions and their errors, or to scaled rows."""

from __future__ import annotations

import csv
import io
import os
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TextIO

import numpy as np

from kompakt.cli.console import Console, DataError, UsageError
from kompakt.cli.tables import Table, check_output, is_model, is_stream, open_table, target_file
from kompakt.data.checks import naming_rows
from kompakt.data.streamed import Raw
from kompakt.data.table import missing_targets, number_of
from kompakt.imports import sparse
from kompakt.io import ModelFileError, RangeFile, load, read_libsvm, read_range, to_model
from kompakt.io.files import replacing, write_atomically
from kompakt.io.libsvm import format_range
from kompakt.model import Model
from kompakt.parallel import block_threads, without_numba
from kompakt.run import Run
from kompakt.run.bar import showing

Array = np.ndarray

#: beginnings of a cell that spreadsheets run as a formula, those of full width included
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
#: bytes of a file whose rows are predicted before Numba is imported
_SMALL_FILE = 1 << 22
#: labels shown as examples
_SHOWN = 5
#: columns of an interval
_BOUNDS = ("lower", "upper")
#: what the kinds of models are trained for
TASKS = {"classifier": "classify", "regressor": "regress", "outlier": "novelty"}


# -- predict -----------------------------------------------------------------------------------------------


def predict(options: Namespace, console: Console) -> None:
    """``kompakt predict DATA MODEL [OUT]``."""
    model = load_model(options.model)
    if options.probability and model.calibration is None:
        raise UsageError(f"{options.model} has no probabilities; train it with -b 1.")
    out = "-" if options.out is None or _is_standard_output(options.out) else options.out
    if options.json and out == "-":
        if options.out is not None:
            raise UsageError("--json and predictions both want standard output; give OUT a name.")
        out = None  # the measures alone were asked for
    check_output(out, options.data, options.model, target_file(options), stream=True)
    table = open_table(options, console, options.data, model=model)
    if (options.id or options.keep_columns) and table.file.format not in ("csv", "parquet"):
        raise UsageError(f"--id and --keep-columns are for tables; {options.data} is {table.file.format}.")
    kept = list(table.file.names) if options.keep_columns else []
    if options.id and options.id not in table.file.names:
        available = ", ".join(map(repr, table.file.names[:20]))
        raise DataError(f"{options.data} has no column {options.id!r} for --id; it has {available}.")
    if options.id:
        kept = [options.id, *(name for name in kept if name != options.id)]
    beside = (kept, ([columns[name] for name in kept] for columns in table.file.blocks())) if kept else None
    style = options.to or ("libsvm" if table.file.format == "svmlight" else "csv")
    with showing("predict") as bar:
        blocks = table.parts(Run(listener=bar), impute=model.inputs.fill is not None)
        probability = bool(options.probability)
        settings = {"probability": probability, "scores": options.scores, "safe": options.safe_csv}
        small = os.path.getsize(options.data) < _SMALL_FILE
        with without_numba() if small else nullcontext():
            measures = write_predictions(model, blocks, out, style, **settings, beside=beside, line=table.line)
    table.warn_of_unseen_cells(console)
    facts: dict[str, Any] = {"rows": table.n_rows, "predictions": options.out}
    text = f"{table.n_rows:,} rows predicted"
    if measures.n or measures.n_unknown:
        facts |= measures.facts
        text = str(measures)
    elif table.target is not None:
        text += "; none of them has a target to compare with"
    measures.warn_of_unknown_labels(console)
    if out == "-":
        console.remark(text)
    else:
        console.result(facts, text)


def load_model(path: str) -> Model:
    """A kompakt model, or a LIBSVM text model, by content."""
    if is_model(path):
        return load(path)
    try:
        return to_model(read_libsvm(path))
    except ModelFileError as error:
        raise DataError(
            f"{path} is neither a kompakt model nor a LIBSVM model: {error} Is the order of files that of --help?"
        ) from error


def _is_standard_output(path: str) -> bool:
    """Whether a path, such as /dev/stdout, is what standard output goes to."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):
        return False


@contextmanager
def text_output(path: str | None) -> Iterator[TextIO | None]:
    """A file to write text to: complete or not at all, but as it comes to a device or a pipe; None stays None."""
    if path is None:
        yield None
    elif path == "-":
        if sys.stdout is None:  # closed by the caller, as by >&-
            raise UsageError("standard output is closed; give a file to write to.")
        yield sys.stdout
    elif is_stream(path):
        with open(path, "w", encoding="utf-8", newline="") as file:
            yield file
    else:
        with replacing(path) as raw:
            text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
            try:
                yield text
            finally:
                text.detach()  # flushed; `replacing` closes


def write_predictions(
    model: Model,
    blocks: Iterable[Raw],
    path: str | None,
    style: str = "csv",
    *,
    probability: bool = False,
    scores: bool = False,
    safe: bool = False,
    beside: tuple[list[str], Iterable[list[Array]]] | None = None,
    line: Callable[[int], str] = "row {}".format,
) -> Measures:
    """Predict rows part by part, write the predictions where there is a file for them, and measure their errors.

    They are written as CSV with a header, or as svm-predict does: one label a line, probabilities behind it.  With
    `safe` every cell that a spreadsheet would take for a formula has a ' in front.  `beside` are names of columns to
    write before the predictions, and their cells for every part.  `line` names a row in messages.
    """
    if style == "libsvm" and (scores or safe):
        flag = "decision values" if scores else "quoted labels"
        raise UsageError(f"LIBSVM's format has no place for {flag}; use --to csv.")
    classes = [] if model.classes is None else [str(label) for label in model.classes.tolist()]
    if style == "libsvm":
        header = ["labels", *classes] if probability else []
    else:
        header = [*(beside[0] if beside else []), "prediction"]
        header += [f"probability {label}" for label in classes if probability]
        scores = scores or model.kind == "outlier"
        if scores:
            header += [f"score {label}" for label in classes] if len(classes) > 2 else ["score"]
        if model.interval is not None:
            n_outputs = model.weights.shape[1]
            header += [f"{bound}{f' {number}' * (n_outputs > 1)}" for number in range(n_outputs) for bound in _BOUNDS]
    measures = Measures(TASKS[model.kind], np.array([-1, 1]) if model.kind == "outlier" else model.classes)
    with block_threads(), text_output(path) as file:
        rows = None if file is None else csv.writer(file, delimiter="," if style == "csv" else " ", lineterminator="\n")
        if rows is not None and header:
            rows.writerow(map(_quoted_formula, header) if safe else header)
        cells = iter(beside[1]) if beside else None
        n_read = 0
        for raw in blocks:
            with naming_rows(lambda row, start=n_read: line(start + row)):  # type: ignore[misc]
                values = model.scores(model.outputs(raw.X))
            n_read += len(raw)
            predicted = model.labels(values)
            if raw.y is not None or model.kind == "outlier":
                measures.add(np.ones(len(raw), dtype=np.int64) if raw.y is None else raw.y, predicted)
            if rows is None:
                continue
            answers = np.atleast_2d(predicted.T).tolist()  # several for several values per row
            columns = ([] if cells is None else [kept.tolist() for kept in next(cells)]) + answers
            if probability:
                columns += model.probabilities(values).T.tolist()
            if scores and model.kind != "regressor":
                columns += np.atleast_2d(values.T).tolist()
            if model.interval is not None and style == "csv":
                columns += model.predict_interval(raw.X).reshape(len(raw), -1).T.tolist()
            if safe:
                columns = [[_quoted_formula(cell) for cell in column] for column in columns]
            rows.writerows(zip(*columns, strict=True))
    return measures


def _quoted_formula(cell: Any) -> Any:
    """The cell, with a ' in front where a spreadsheet would run it as a formula; numbers stay numbers."""
    runs = isinstance(cell, str) and cell.startswith(_FORMULA) and number_of(cell) is None
    return f"'{cell}" if runs else cell


class Measures:
    """How well predictions agree with targets, added up over parts of a file.

    Parameters
    ----------
    task : {"classify", "regress", "novelty"}
    classes : ndarray, optional
        Labels of the model.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.cli.predict import Measures
    >>> measures = Measures("classify")
    >>> measures.add(np.array([1, 2, 2]), np.array([1, 2, 1]))
    >>> print(measures)
    accuracy 66.6667 % (2 of 3)
    """

    def __init__(self, task: str, classes: Array | None = None) -> None:
        self.task, self.classes = task, classes
        self.n = self.n_right = self.n_unknown = 0
        self.squared_errors = self.total = self.total_squares = 0.0  # sums; the latter two of the targets
        self.truths: Counter[Any] = Counter()  # labels, and predictions of them
        self.predicted: Counter[Any] = Counter()
        self.unknown: list[str] = []  # a few of the targets that are no labels of the model

    def add(self, truth: Array, predicted: Array) -> None:
        """Take in some rows; those without a target do not count."""
        has_target = ~missing_targets(truth)
        truth, predicted = truth[has_target], predicted[has_target]
        if self.task == "regress":
            if truth.dtype.kind in "US":  # words where a quantity is expected
                self.n_unknown += len(truth)
                self.unknown = list(dict.fromkeys([*self.unknown, *truth[:_SHOWN].tolist()]))[:_SHOWN]
                return
            self.n += truth.size
            t = np.asarray(truth, dtype=np.float64)
            self.squared_errors += float(np.sum((t - predicted) ** 2))
            self.total += float(np.sum(t))
            self.total_squares += float(np.sum(t**2))
            return
        labels = labels_like(truth, self.classes)
        self.n += truth.size
        self.n_right += int(np.sum(labels == predicted))
        if self.classes is not None:
            unknown = ~np.isin(labels, self.classes)
            self.n_unknown += int(unknown.sum())
            self.n -= int(unknown.sum())
            examples = [str(label) for label in np.unique(truth[unknown])[:_SHOWN].tolist()]
            self.unknown = list(dict.fromkeys(self.unknown + examples))[:_SHOWN]
            labels, predicted = labels[~unknown], predicted[~unknown]
        self.truths.update(labels.tolist())
        self.predicted.update(predicted.tolist())

    @property
    def facts(self) -> dict[str, Any]:
        """For JSON."""
        n = max(1, self.n)
        if self.task == "novelty":
            n_alarms, n_outliers = self.predicted[-1], self.truths[-1]
            n_false = (n_alarms - n_outliers + self.n - self.n_right) // 2
            facts: dict[str, Any] = {"n": self.n, "alarms": n_alarms, "outliers": n_outliers}
            return facts | {"false_alarms": n_false, "outliers_found": n_alarms - n_false}
        if self.task == "classify":
            share = self.n_right / n if self.n else None
            return {"n": self.n, "right": self.n_right, "accuracy": share, "unknown_labels": self.n_unknown}
        spread = self.total_squares - self.total**2 / n
        r2 = 1.0 - self.squared_errors / spread if spread > 0 else None  # None where the targets do not vary
        return {"n": self.n, "mean_squared_error": self.squared_errors / n, "r2": r2}

    def __str__(self) -> str:
        facts = self.facts
        if not self.n:
            return "no row has a target to compare with"
        if self.task == "novelty":
            alarms = f"{facts['alarms']:,} alarms in {self.n:,} rows ({100 * facts['alarms'] / self.n:.4g} %)"
            found = f"{facts['outliers_found']:,} of {facts['outliers']:,} outliers"
            false = f"{facts['false_alarms']:,} of {self.truths[1]:,} normal rows"
            return f"{alarms}: {found}, {false}" if self.truths[-1] else alarms
        if self.task == "classify":
            return f"accuracy {100 * facts['accuracy']:.6g} % ({self.n_right} of {self.n})"
        r2 = "" if facts["r2"] is None else f", R2 {facts['r2']:.4f}"
        return f"mean squared error {facts['mean_squared_error']:.6g}{r2} ({self.n} rows)"

    def warn_of_unknown_labels(self, console: Console) -> None:
        """Warn of targets that are none of the model's labels."""
        if not self.unknown:
            return
        no, knows = "numbers", "it predicts numbers"
        if self.classes is not None:
            labels = [repr(str(label)) for label in self.classes.tolist()]
            no = "labels of the model"
            knows = f"the model knows {', '.join(labels[:10])}{', ...' if len(labels) > 10 else ''}"
        console.warn(
            f"{self.n_unknown:,} of {self.n + self.n_unknown:,} targets are no {no}, such as "
            f"{', '.join(map(repr, self.unknown))}, and are not counted; {knows}. Is this the target column "
            "(--target), and are labels named alike?"
        )

    def warn_of_a_constant(self, console: Console, rows: str, *, weighted: bool) -> None:
        """Warn of classes that are never predicted, or predicted no better than by the most frequent label.

        `rows` says what the rows are. With weights of classes, a constant may well be right more often.
        """
        if len(self.truths) < 2 or self.task != "classify":
            return
        label, n_most_frequent = self.truths.most_common(1)[0]
        if len(self.predicted) == 1:
            text = f"all {self.n:,} {rows} are predicted as {str(*self.predicted)!r}"
        elif self.n_right <= n_most_frequent and not weighted:
            text = f"always predicting {str(label)!r} would be right for as many of the {rows}"
        else:
            return
        remedy = "" if weighted else ". For classes that are rare try -w balanced, or -w LABEL=WEIGHT"
        console.warn(f"{text}; {n_most_frequent:,} of {self.n:,} are {str(label)!r}{remedy}")


def labels_like(truth: Array, classes: Array | None) -> Array:
    """Targets of a file in the type of the model's labels: a column of numbers may stand for words and the reverse."""
    if classes is None:
        return truth
    is_text = classes.dtype.kind in "US"
    if is_text and truth.dtype.kind not in "US":
        return np.array([f"{value:g}" for value in truth.tolist()])
    if not is_text and truth.dtype.kind in "US":
        try:
            return truth.astype(np.float64)
        except ValueError:
            return np.full(len(truth), np.nan)
    return truth


# -- scale -------------------------------------------------------------------------------------------------


def scale(options: Namespace, console: Console) -> None:
    """``kompakt scale DATA [OUT]``."""
    if not options.lower < options.upper:
        raise UsageError(f"-l must be below -u; got {options.lower} and {options.upper}.")
    if options.save and options.restore:
        raise UsageError("-s saves ranges and -r uses saved ones; give one of them.")
    check_output(options.out, options.data, options.save, options.restore, stream=True)
    check_output(options.save, options.data)
    table = open_table(options, console, options.data, numbers=True)
    if table.file.format not in ("svmlight", "csv"):
        raise DataError(f"{options.data} is {table.file.format}; scale writes text, and reads svmlight or CSV.")
    with showing("scale") as bar:
        run = Run(listener=bar)
        if options.restore:
            ranges = read_range(options.restore)
            n_ranges = np.searchsorted(ranges.index, table.n_features)  # the file may have fewer features
            bounds = ranges.index[:n_ranges], ranges.minimum[:n_ranges], ranges.maximum[:n_ranges]
            ranges = RangeFile(ranges.lower, ranges.upper, *bounds)
        else:
            ranges = _ranges(table, options.lower, options.upper, run)
        if options.save:
            write_atomically(options.save, [format_range(ranges).encode("ascii")])
        with text_output(options.out) as out:
            assert out is not None
            _write_scaled(out, table, ranges, run)
    if options.out != "-":
        console.result({"rows": table.n_rows, "out": options.out, "ranges": options.save}, options.out)


def _ranges(table: Table, lower: float, upper: float, run: Run) -> RangeFile:
    """Ranges of the features that vary, absent entries of a sparse file being 0; missing values do not count."""
    minimum = np.full(table.n_features, np.inf)
    maximum = np.full(table.n_features, -np.inf)
    for raw in table.parts(run, impute=True):
        if sparse.issparse(raw.X):
            low, high = raw.X.min(axis=0).toarray().ravel(), raw.X.max(axis=0).toarray().ravel()
        else:
            low, high = np.fmin.reduce(raw.X, axis=0), np.fmax.reduce(raw.X, axis=0)
        minimum, maximum = np.fmin(minimum, low), np.fmax(maximum, high)
    varies = np.flatnonzero(minimum < maximum)
    return RangeFile(lower, upper, varies, minimum[varies], maximum[varies])


def _write_scaled(out: TextIO, table: Table, ranges: RangeFile, run: Run) -> None:
    delimiter = "," if table.file.text is None else table.file.text.delimiter
    rows = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    if table.file.header and table.names:
        rows.writerow([*table.names, table.target])
    for raw in table.parts(run, impute=True):
        assert raw.y is not None
        X = ranges.apply(raw.X.toarray() if sparse.issparse(raw.X) else raw.X)
        for cells, label in zip(X.tolist(), raw.y.tolist(), strict=True):
            if table.file.format == "csv":
                rows.writerow(["" if value != value else f"{value:g}" for value in cells] + [label])
                continue
            pairs = (f"{number}:{value:g}" for number, value in enumerate(cells, table.first_feature) if value)
            out.write(f"{label:g} {' '.join(pairs)}\n")
