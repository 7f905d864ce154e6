"""``predict``: the rows of a file, part by part, with their evaluation where the file has the target."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import numpy as np

from kompakt.cli.console import Console, DataError, UsageError
from kompakt.cli.data import check_output, is_stream, open_for_model, target_file
from kompakt.cli.measure import Measures, measures
from kompakt.cli.prepare import check_rows
from kompakt.cli.recognise import is_model
from kompakt.formats import load
from kompakt.formats.files import replacing
from kompakt.model import Model
from kompakt.progress import showing
from kompakt.threads import block_threads

Array = np.ndarray


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
    from kompakt.formats import ModelFileError, read_libsvm, to_model

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
