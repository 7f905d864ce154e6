"""`to_libsvm`: a machine as a text model for ``svm-predict``, read back and checked."""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from kompakt.codings import class_pairs
from kompakt.export.machine import exported_model
from kompakt.export.parity import ExportReport, check_rows_for, compare, expect
from kompakt.formats.libsvm import LibsvmFiles, _pair_weights, to_model, write_libsvm
from kompakt.formats.libsvm_text import read_libsvm, read_range
from kompakt.model import Model

Array = np.ndarray
_TOLERANCE = 1e-9  # a scale is written as minimum and maximum, whose difference may lose some digits


def to_libsvm(
    fitted: Any, path: str | os.PathLike[str], *, check_rows: Any = None, tolerance: float | None = None
) -> ExportReport:
    """Write a machine as a text model that LIBSVM's ``svm-predict`` reads, and check it.

    One-vs-rest with several classes is written by repeating the basis once per class, so that the value of every pair
    is the difference of two scores and the votes give their argmax.  One-vs-one is written as it is; where classes tie
    in votes, LIBSVM takes the one it lists first and kompakt the one with the larger margins, and the report counts
    how often.  A scaled machine, or one with a width per feature, also gets ``<path>.range`` for ``svm-scale -r``;
    labels that are no whole numbers get ``<path>.labels``, a JSON list of their names.

    Parameters
    ----------
    fitted : fitted kompakt estimator, Model, pipeline, or SVM of scikit-learn
        With a linear, polynomial or RBF kernel.  A pipeline may impute and scale with scikit-learn's `SimpleImputer`
        and scalers before the kompakt estimator.
    path : path-like
    check_rows : array-like of shape (n, n_features), default=None
        Rows on which the files, read back and used as LIBSVM uses them, must answer as the machine; by default basis
        vectors with noise.  Missing values in them are filled first where the machine imputes.
    tolerance : float, default=None
        Largest difference of decision values, relative to the sums of absolute terms behind them; by default 1e-9.

    Returns
    -------
    ExportReport

    Raises
    ------
    UnsupportedModelError
        For what LIBSVM lacks: other kernels, several regression outputs, the coding "minimum_output".
    ParityError
        If the answers differ; nothing is written.
    TypeError
        For a callable or precomputed kernel.

    Warns
    -----
    UserWarning
        If the machine imputes: LIBSVM takes a missing value for a zero, so data must be filled beforehand.

    Examples
    --------
    >>> import tempfile, pathlib, kompakt
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = kompakt.CompactSVC(n_basis=10, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kompakt.to_libsvm(machine, pathlib.Path(folder, "iris.model"), check_rows=X).label_agreement
    1.0
    """
    model = exported_model(fitted)
    rows = check_rows_for(model, check_rows)
    if model.input_fill is not None:  # as the user must do before svm-predict
        rows = np.where(np.isnan(rows), model.input_fill, rows)
    expected = expect(model, rows, _TOLERANCE if tolerance is None else tolerance)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the second writing says it again, to the user
        scores, labels, tied = _answers(write_libsvm(model, Path(folder, "model")), model, rows)
    if tied.any():  # LIBSVM's rule for ties is another one
        assert expected.labels is not None
        assert labels is not None
        largest, relative, _ = compare(expected, scores, np.where(tied, expected.labels, labels), "the LIBSVM model")
        agreement: float | None = float(np.mean(expected.labels == labels))
    else:
        largest, relative, agreement = compare(expected, scores, labels, "the LIBSVM model")
    files = write_libsvm(model, path)
    written = tuple(file for file in (files.model, files.range, files.labels) if file is not None)
    notes = []
    if files.range is not None:
        notes.append(f"scale data first: svm-scale -r {files.range.name} DATA")
    if files.labels is not None:
        notes.append(f"labels are numbered; {files.labels.name} names them")
    if model.input_fill is not None:
        notes.append("fill missing values first: LIBSVM takes them for zeros")
    if tied.any():
        notes.append(f"{int(tied.sum())} of {len(rows)} rows tie in votes, where LIBSVM takes the class it lists first")
    size = files.model.stat().st_size
    return ExportReport(files.model, "libsvm", size, len(rows), largest, relative, agreement, written, tuple(notes))


def _answers(files: LibsvmFiles, model: Model, rows: Array) -> tuple[Array | None, Array | None, Array]:
    """Scores (where LIBSVM has them), labels, and which rows tie in votes: from the files, by LIBSVM's rules."""
    record = read_libsvm(files.model)
    if files.range is not None:
        rows = read_range(files.range).apply(rows)
    none = np.zeros(len(rows), dtype=bool)
    back = to_model(record, n_features=model.n_features)
    if not record.is_classifier:
        values = back.outputs(rows)
        return values, np.where(values[:, 0] >= 0, 1, -1) if model.kind == "outlier" else None, none
    assert record.labels is not None
    k = len(record.labels)
    numbers = np.arange(k) if files.labels is not None else np.asarray(model.classes_).astype(np.int64)
    place = {int(number): index for index, number in enumerate(numbers)}
    order = np.array([place[int(label)] for label in record.labels])  # class index of each listed label
    if k == 1:
        return None, model.classes_[np.zeros(len(rows), dtype=int)], none
    values = back.kernel.block(rows, back.basis) @ _pair_weights(record) - record.rho
    first, second = class_pairs(k).T
    wins = values > 0
    votes = np.zeros((len(rows), k))
    for pair in range(len(first)):
        votes[:, first[pair]] += wins[:, pair]
        votes[:, second[pair]] += ~wins[:, pair]
    tied = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) > 1
    labels = model.classes_[order[votes.argmax(axis=1)]]
    return (values if k == 2 else None), labels, tied
