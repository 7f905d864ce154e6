"""``scale``: every feature to a range, as svm-scale does, with its range files."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TextIO

import numpy as np
from scipy import sparse

from kompakt.cli.console import Console, DataError, UsageError
from kompakt.cli.tables import (
    Table,
    check_output,
    check_rows,
    is_model,
    is_stream,
    open_for_model,
    open_for_training,
    target_file,
)
from kompakt.io import load, read_range
from kompakt.io.files import replacing, write_atomically
from kompakt.model import Model
from kompakt.parallel import block_threads
from kompakt.run import showing

Array = np.ndarray

#: labels shown as examples
_SHOWN = 5


@dataclass(frozen=True)
class Measures:
    """Counts and sums that add up over parts of a file."""

    task: str
    n: int = 0
    n_right: int = 0
    squares: float = 0.0  # sum of squared errors
    total: float = 0.0  # sum of the targets
    total_squares: float = 0.0
    n_unknown: int = 0  # targets that are no labels of the model
    unknown: tuple[str, ...] = ()  # a few of them

    @classmethod
    def of(cls, task: str, truth: Array, predicted: Array) -> Measures:
        """Measures of some rows.

        Examples
        --------
        >>> import numpy as np
        >>> from kompakt.cli.predict import Measures
        >>> print(Measures.of("classify", np.array([1, 2, 2]), np.array([1, 2, 1])))
        accuracy 66.6667 % (2 of 3)
        """
        if task == "classify":
            return cls(task, len(truth), int(np.sum(truth == predicted)))
        t, p = np.asarray(truth, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
        return cls(task, len(t), 0, float(np.sum((t - p) ** 2)), float(np.sum(t)), float(np.sum(t**2)))

    def __add__(self, other: Measures) -> Measures:
        return Measures(
            self.task, self.n + other.n, self.n_right + other.n_right, self.squares + other.squares,
            self.total + other.total, self.total_squares + other.total_squares, self.n_unknown + other.n_unknown,
            tuple(dict.fromkeys(self.unknown + other.unknown))[:_SHOWN],
        )  # fmt: skip

    @property
    def r2(self) -> float | None:
        """Share of the targets' variance that is explained; None where they do not vary."""
        spread = self.total_squares - self.total**2 / max(1, self.n)
        return 1.0 - self.squares / spread if spread > 0 else None

    @property
    def facts(self) -> dict[str, Any]:
        """For JSON."""
        if self.task == "classify":
            share = self.n_right / max(1, self.n)
            return {"n": self.n, "right": self.n_right, "accuracy": share, "unknown_labels": self.n_unknown}
        return {"n": self.n, "mean_squared_error": self.squares / max(1, self.n), "r2": self.r2}

    def __str__(self) -> str:
        if self.task == "classify":
            return f"accuracy {100 * self.n_right / max(1, self.n):.6g} % ({self.n_right} of {self.n})"
        r2 = "" if self.r2 is None else f", R2 {self.r2:.4f}"
        return f"mean squared error {self.squares / max(1, self.n):.6g}{r2} ({self.n} rows)"


def comparable(truth: Array, model: Model) -> Array:
    """Targets of a file in the type of the model's labels: a column of numbers may stand for words and the reverse."""
    if model.kind != "classifier" or model.classes is None:
        return truth
    words = model.classes.dtype.kind in "US"
    if words and truth.dtype.kind not in "US":
        return np.array([f"{value:g}" for value in truth.tolist()])
    if not words and truth.dtype.kind in "US":
        try:
            return truth.astype(np.float64)
        except ValueError:
            return np.full(len(truth), np.nan)
    return truth


def measures(model: Model, X: Any, truth: Array, predicted: Array | None = None) -> Measures:
    """Measures of a model on rows; rows without a target do not count."""
    from kompakt.cli.tables import missing_targets

    predicted = model.predict(X) if predicted is None else predicted
    known = ~missing_targets(truth)
    task = "regress" if model.kind == "regressor" else "classify"
    same_type = comparable(truth[known], model)
    found = Measures.of(task, same_type, predicted[known])
    if model.kind != "classifier":
        return found
    other = ~np.isin(same_type, np.asarray(model.classes_))
    examples = tuple(str(label) for label in np.unique(truth[known][other])[:_SHOWN].tolist())
    return replace(found, n_unknown=int(other.sum()), unknown=examples)




def predict(options: Any) -> int | None:
    """``kompakt predict DATA MODEL [OUT]``."""
    console = Console(options)
    model = load_model(options.model)
    if options.probability and model.calibration is None:
        raise UsageError(f"{options.model} has no probabilities; train it with -b 1.")
    out = "-" if options.out is None or _is_standard_output(options.out) else options.out
    if options.json and out == "-":
        if options.out is not None:
            raise UsageError("--json and predictions both want standard output; give OUT a name.")
        out = None  # the measures alone were asked for
    check_output(out, options.data, options.model, target_file(options), stream=True)
    opened = open_for_model(options, console, options.data, model)
    style = options.to or ("libsvm" if opened.kind.format == "svmlight" else "csv")
    found: Measures | None = None
    n_predicted = 0
    with showing("predict"), block_threads(), text_output(out) as file:
        writer = Writer(file, model, style, probability=bool(options.probability), scores=options.scores)
        for start, raw in opened.parts():
            check_rows(raw, opened, impute=model.input_fill is not None, start=start)
            predicted = writer.write(raw.X)
            n_predicted += len(predicted)
            if raw.y is not None:
                here = measures(model, raw.X, raw.y, predicted)
                found = here if found is None else found + here
    facts: dict[str, Any] = {"rows": n_predicted, "predictions": options.out}
    text = f"{n_predicted:,} rows predicted" if found is None else str(found)
    if found is not None and found.n:
        facts |= found.facts
    elif found is not None:
        text = f"{n_predicted:,} rows predicted; none of them has a target to compare with"
    if found is not None and found.unknown:
        console.warn(unknown_labels(found, model))
    if out == "-":
        console.remark(text)
    else:
        console.result(facts, text)
    return None


def unknown_labels(found: Measures, model: Model) -> str:
    """What to say of targets that are none of a model's labels."""
    known = [str(label) for label in model.classes_.tolist()]
    return (
        f"{found.n_unknown:,} of {found.n:,} targets are no labels of the model, such as "
        f"{', '.join(map(repr, found.unknown))}, and count as wrong; the model knows {', '.join(map(repr, known[:10]))}"
        f"{', ...' if len(known) > 10 else ''}. Is this the target column (--target), and are labels named alike?"
    )


def load_model(path: str) -> Model:
    """A kompakt model, or a LIBSVM text model, by content."""
    if is_model(path):
        return load(path)
    from kompakt.io import ModelFileError, read_libsvm, to_model

    try:
        return to_model(read_libsvm(path))
    except ModelFileError as error:
        raise DataError(
            f"{path} is neither a kompakt model nor a LIBSVM model: {error} Is the order of files that of --help?"
        ) from error


def write_predictions(path: str, model: Model, X: Any, style: str) -> None:
    """Predictions of some rows in a file."""
    with text_output(path) as out:
        Writer(out, model, style).write(X)


@contextmanager
def text_output(path: str | None) -> Iterator[TextIO | None]:
    """A file to write text to: complete or not at all, but as it comes to a device or a pipe; None stays None."""
    if path is None:
        yield None
    elif path == "-":
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


def _is_standard_output(path: str) -> bool:
    """Whether a path, such as /dev/stdout, is what standard output goes to."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):
        return False


class Writer:
    """Writes predictions as CSV with a header, or as svm-predict does: one label a line, probabilities behind it."""

    def __init__(
        self, out: TextIO | None, model: Model, style: str, *, probability: bool = False, scores: bool = False
    ) -> None:
        self.model, self.style, self.out = model, style, out
        self.probability, self.scores = probability, scores
        if scores and style == "libsvm":
            raise UsageError("LIBSVM's format has no place for decision values; use --to csv.")
        self.rows: Any = None
        if out is not None:
            self.rows = csv.writer(out, delimiter="," if style == "csv" else " ", lineterminator="\n")
            self._header()

    def _header(self) -> None:
        classes = [] if self.model.classes is None else [str(label) for label in self.model.classes.tolist()]
        if self.style == "libsvm":
            if self.probability:
                self.rows.writerow(["labels", *classes])
            return
        names = ["prediction"]
        if self.probability:
            names += [f"probability {label}" for label in classes]
        if self.scores:
            several = classes if len(classes) > 2 else [""]
            names += [f"score {label}".strip() for label in several]
        self.rows.writerow(names)

    def write(self, X: Any) -> Array:
        """Predict rows, write them where there is somewhere to write, and return the predictions."""
        scores = self.model.scores(self.model.outputs(X))
        predicted = self.model.labels(scores)
        if self.rows is None:
            return predicted
        columns: list[Any] = [_plain(predicted)]
        if self.probability:
            columns += self.model.probabilities(scores).T.tolist()
        if self.scores and self.model.kind == "classifier":
            columns += np.atleast_2d(scores.T).tolist()
        if predicted.ndim == 2:  # several values per row
            columns = predicted.T.tolist()
        self.rows.writerows(zip(*columns, strict=True))
        return predicted


def _plain(labels: Array) -> list[Any]:
    return labels.tolist()




@dataclass
class Ranges:
    """Where each feature's minimum and maximum go; constant features become 0, missing values stay missing."""

    lower: float
    upper: float
    minimum: Array
    maximum: Array

    @classmethod
    def of(cls, opened: Table, lower: float, upper: float) -> Ranges:
        """Ranges of the columns of a file, absent entries of a sparse one being 0."""
        least = np.full(opened.source.n_features, np.inf)
        most = np.full(opened.source.n_features, -np.inf)
        for start, raw in opened.parts():
            check_rows(raw, opened, impute=True, start=start)
            X = raw.X
            if sparse.issparse(X):
                low, high = X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
            else:
                low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)  # missing values do not count
            least, most = np.fmin(least, low), np.fmax(most, high)
        empty = least > most  # nothing but missing values
        return cls(lower, upper, np.where(empty, 0.0, least), np.where(empty, 0.0, most))

    @classmethod
    def restored(cls, path: str, n_features: int) -> Ranges:
        """Ranges of a file that svm-scale or this command saved; features that it does not list become 0."""
        known = read_range(path)
        least, most = np.zeros(n_features), np.zeros(n_features)
        if len(known.index) and known.index[-1] >= n_features:
            keep = known.index < n_features
        else:
            keep = np.ones(len(known.index), dtype=bool)
        least[known.index[keep]], most[known.index[keep]] = known.minimum[keep], known.maximum[keep]
        return cls(known.lower, known.upper, least, most)

    def text(self) -> str:
        """The range file."""
        lines = ["x", f"{self.lower!r} {self.upper!r}"]
        for number, (low, high) in enumerate(zip(self.minimum.tolist(), self.maximum.tolist(), strict=True), 1):
            if low != high:
                lines.append(f"{number} {low!r} {high!r}")
        return "\n".join(lines) + "\n"

    def apply(self, X: Array) -> Array:
        """Scaled rows; what lies at the ends of a range is put there exactly."""
        varies = self.maximum != self.minimum
        width = np.where(varies, self.maximum - self.minimum, 1.0)
        scaled = self.lower + (self.upper - self.lower) * ((X - self.minimum) / width)
        scaled = np.where(self.minimum == X, self.lower, np.where(self.maximum == X, self.upper, scaled))
        return np.where(varies | np.isnan(X), scaled, 0.0)


def scale(options: Any) -> int | None:
    """``kompakt scale DATA [OUT]``."""
    console = Console(options)
    if not options.lower < options.upper:
        raise UsageError(f"-l must be below -u; got {options.lower} and {options.upper}.")
    if options.save and options.restore:
        raise UsageError("-s saves ranges and -r uses saved ones; give one of them.")
    check_output(options.out, options.data, options.save, options.restore, stream=True)
    check_output(options.save, options.data)
    opened = open_for_training(options, console)
    if opened.kind.format not in ("svmlight", "csv"):
        raise DataError(f"{options.data} is {opened.kind.format}; scale writes text, and reads svmlight or CSV.")
    with showing("scale"):
        if options.restore:
            ranges = Ranges.restored(options.restore, opened.source.n_features)
        else:
            ranges = Ranges.of(opened, options.lower, options.upper)
        if options.save:
            write_atomically(options.save, [ranges.text().encode("ascii")])
        with text_output(options.out) as out:
            assert out is not None
            _write(out, opened, ranges)
    if options.out != "-":
        console.result({"rows": opened.n_rows, "out": options.out, "ranges": options.save}, options.out)
    return None


def _write(out: TextIO, opened: Table, ranges: Ranges) -> None:
    first = 1 - int(getattr(opened.source, "_first", 1) == 0)
    rows = csv.writer(out, delimiter=opened.kind.delimiter, lineterminator="\n")
    if opened.kind.header and opened.names:
        rows.writerow([*opened.names, opened.target])
    for start, raw in opened.parts():
        check_rows(raw, opened, impute=True, start=start)
        X = ranges.apply(raw.X.toarray() if sparse.issparse(raw.X) else raw.X)
        assert raw.y is not None
        for cells, label in zip(X.tolist(), raw.y.tolist(), strict=True):
            if opened.kind.format == "csv":
                rows.writerow(["" if value != value else f"{value:g}" for value in cells] + [label])
                continue
            pairs = (f"{number}:{value:g}" for number, value in enumerate(cells, first) if value)
            out.write(f"{label:g} {' '.join(pairs)}\n")
