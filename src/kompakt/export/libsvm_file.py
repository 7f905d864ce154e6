"""`to_libsvm`: a machine as a text model for ``svm-predict``, read back and checked."""

from __future__ import annotations

import io
import json
import os
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from kompakt.codings import class_pairs
from kompakt.export.common import (
    ExportReport,
    check_rows_for,
    compare,
    expect,
    folded,
    left_out_notes,
    outputs_or_nan,
    write_exported,
)
from kompakt.io.container import UnsupportedModelError
from kompakt.io.fitted import model_of
from kompakt.io.libsvm import format_libsvm, from_model, pair_weights, parse_libsvm, parse_range, range_text, to_model
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

    ``svm-predict`` has no error for rows whose outputs are beyond float64: it then prints ``nan`` or ``inf`` for a
    regressor, and for a classifier a label that means nothing.

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
        For what LIBSVM lacks: other kernels, maps and bends of the inputs, several regression outputs, the coding
        "minimum_output".
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
    >>> machine = kompakt.CompactSVC(n_basis=10, gamma="ard", random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kompakt.to_libsvm(machine, pathlib.Path(folder, "iris.model"), check_rows=X).label_agreement
    1.0
    """
    given = model_of(fitted, svm=True)
    model = replace(given, link="identity")
    texts = libsvm_texts(model)
    rows, n_usual = check_rows_for(model, check_rows)
    if model.inputs.fill is not None:  # as the user must do before svm-predict
        rows = np.where(np.isnan(rows), model.inputs.fill, rows)
    expected = expect(model, rows, n_usual, _TOLERANCE if tolerance is None else tolerance)
    scores, labels, tied = libsvm_answers(texts, model, rows)
    agreement = None
    if labels is not None and expected.labels is not None:
        agreement = float(np.mean((labels == expected.labels)[:n_usual]))
        labels = np.where(tied, expected.labels, labels)  # LIBSVM's rule for ties is another one
    largest, relative, _ = compare(expected, scores, labels, "the LIBSVM model")
    written = write_exported(model, path, texts)
    files = dict(zip(texts, written, strict=False))  # one more where a schema is
    notes = ["it predicts logarithms: take exp of its values"] if given.link == "log" else []
    if ".range" in files:
        notes.append(f"scale data first: svm-scale -r {files['.range'].name} DATA")
    if ".labels" in files:
        notes.append(f"labels are numbered; {files['.labels'].name} names them")
    if model.inputs.fill is not None:
        notes.append("fill missing values first: LIBSVM takes them for zeros")
    if n_tied := int(tied[:n_usual].sum()):
        notes.append(f"{n_tied} of {n_usual} rows tie in votes, where LIBSVM takes the class it lists first")
    size = sum(map(len, texts[""]))
    if model.inputs.schema is not None:
        notes.append(f"rows are the encoded columns of {written[-1].name}")
    notes += left_out_notes(model)
    return ExportReport(files[""], "libsvm", size, n_usual, largest, relative, agreement, written, tuple(notes))


def libsvm_answers(
    texts: dict[str, list[bytes]], model: Model, rows: Array
) -> tuple[Array | None, Array | None, Array]:
    """Scores (where LIBSVM has them), labels, and which rows tie in votes or overflow: from the texts, by its rules."""
    record = parse_libsvm(texts[""])
    if ".range" in texts:
        with np.errstate(over="ignore", invalid="ignore"):
            rows = parse_range(io.BytesIO(b"".join(texts[".range"]))).apply(rows)
    none = np.zeros(len(rows), dtype=bool)
    back = to_model(record, n_features=model.n_features)
    if not record.is_classifier:
        values = outputs_or_nan(back, rows)
        return values, np.where(values[:, 0] >= 0, 1, -1) if model.kind == "outlier" else None, none
    assert record.labels is not None
    k = len(record.labels)
    numbers = np.arange(k) if ".labels" in texts else np.asarray(model.classes_).astype(np.int64)
    listed = model.classes_[[int(np.flatnonzero(numbers == label)[0]) for label in record.labels]]
    if k == 1:
        return None, listed[np.zeros(len(rows), dtype=int)], none
    pairs = replace(back, kind="regressor", classes=None, coding=None, calibration=None)
    values = outputs_or_nan(replace(pairs, weights=pair_weights(record), intercept=-record.rho), rows)
    wins, votes = values > 0, np.zeros((len(rows), k))
    for pair, (first, second) in enumerate(class_pairs(k).tolist()):
        votes[:, first] += wins[:, pair]
        votes[:, second] += ~wins[:, pair]
    tied = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) > 1
    tied |= ~np.isfinite(values).all(axis=1)  # such a label means nothing
    return (values if k == 2 else None), listed[votes.argmax(axis=1)], tied


def libsvm_texts(model: Model) -> dict[str, list[bytes]]:
    """The lines of a model and, beside it, of ``.range`` and ``.labels`` where it needs them."""
    if model.inputs.bends is not None:
        raise UnsupportedModelError(
            "LIBSVM has no transform of single features, which this model learned. Fit with transform='identity' and "
            "gamma='ard' or gamma='learn', or use another export."
        )
    plain = folded(model, centred=False)
    if plain.inputs.map is not None:
        raise UnsupportedModelError(
            "LIBSVM has no linear map of the inputs, which this model learned. Fit with gamma='ard' (one width per "
            "feature, which a range file of svm-scale holds) or gamma='learn', or use another export."
        )
    record, names = from_model(plain)
    texts: dict[str, list[bytes]] = {"": list(format_libsvm(record))}
    if plain.inputs.shift is not None or plain.inputs.scale is not None:
        texts[".range"] = [range_text(plain).encode("ascii")]
    if names is not None:
        texts[".labels"] = [json.dumps(names, indent=0).encode("ascii")]
    if model.inputs.fill is not None:
        warnings.warn(
            "LIBSVM does not impute: a missing value in its data is a zero. Fill missing values (this model's "
            "inputs.fill) before svm-scale and svm-predict.",
            UserWarning,
            stacklevel=3,
        )
    if model.calibration is not None and (len(model.classes_) > 2 or "a" not in model.calibration):
        warnings.warn(
            "the calibration is not written: LIBSVM has sigmoids of pairs of classes only.",
            UserWarning,
            stacklevel=3,
        )
    if model.interval is not None:
        warnings.warn("the intervals are not written: LIBSVM has no place for them.", UserWarning, stacklevel=3)
    return texts
