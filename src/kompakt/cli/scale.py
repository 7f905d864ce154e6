"""``scale``: every feature to a range, as svm-scale does, with its range files."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Any, TextIO

import numpy as np
from scipy import sparse

from kompakt.cli.console import Console, DataError, UsageError
from kompakt.cli.data import Table, check_output, open_for_training
from kompakt.cli.predict import text_output
from kompakt.cli.prepare import check_rows
from kompakt.formats import read_range
from kompakt.formats.files import write_atomically
from kompakt.progress import showing

Array = np.ndarray


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
