"""`to_libsvm`: a machine as a text model for ``svm-predict``, read back and checked.

LIBSVM votes for the first class of a pair where its value is positive, kompakt for the second.  A written model
therefore lists the classes backwards: every pair keeps its value, and a value of exactly zero votes alike in both.
A one-vs-one model that came from LIBSVM is written in the order it had, on which LIBSVM's ties depend.
"""

from __future__ import annotations

import io
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.codings import class_pairs
from kompakt.export.folded import exported_model, folded
from kompakt.export.parity import ExportReport, check_rows_for, compare, expect
from kompakt.io.container import UnsupportedModelError
from kompakt.io.files import check_writable, write_atomically
from kompakt.io.libsvm import (
    KERNELS,
    LISTS,
    LibsvmModel,
    pair_numbers,
    pair_weights,
    parse_libsvm,
    parse_range,
    to_model,
)
from kompakt.kernels import RBF, Linear, Polynomial
from kompakt.model import Model

Array = np.ndarray
Pieces = list[tuple[Array, Array]]  # per class, in the file's order: coefficients (k - 1, n) and basis numbers (n,)
_TOLERANCE = 1e-9  # a scale is written as minimum and maximum, whose difference may lose some digits
_MAX_LABEL = (1 << 31) - 1


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
    texts = libsvm_texts(model)
    rows = check_rows_for(model, check_rows)
    if model.input_fill is not None:  # as the user must do before svm-predict
        rows = np.where(np.isnan(rows), model.input_fill, rows)
    expected = expect(model, rows, _TOLERANCE if tolerance is None else tolerance)
    scores, labels, tied = libsvm_answers(texts, model, rows)
    agreement = None if labels is None else float(np.mean(labels == expected.labels))
    if labels is not None and expected.labels is not None:
        labels = np.where(tied, expected.labels, labels)  # LIBSVM's rule for ties is another one
    largest, relative, _ = compare(expected, scores, labels, "the LIBSVM model")
    files = {suffix: Path(f"{os.fspath(path)}{suffix}") for suffix in texts}
    for file in files.values():
        check_writable(file)  # all or nothing
    for suffix in reversed(texts):  # the model itself last
        write_atomically(files[suffix], texts[suffix])
    notes = []
    if ".range" in files:
        notes.append(f"scale data first: svm-scale -r {files['.range'].name} DATA")
    if ".labels" in files:
        notes.append(f"labels are numbered; {files['.labels'].name} names them")
    if model.input_fill is not None:
        notes.append("fill missing values first: LIBSVM takes them for zeros")
    if tied.any():
        notes.append(f"{int(tied.sum())} of {len(rows)} rows tie in votes, where LIBSVM takes the class it lists first")
    size = sum(map(len, texts[""]))
    return ExportReport(
        files[""], "libsvm", size, len(rows), largest, relative, agreement, tuple(files.values()), tuple(notes)
    )


def libsvm_answers(
    texts: dict[str, list[bytes]], model: Model, rows: Array
) -> tuple[Array | None, Array | None, Array]:
    """Scores (where LIBSVM has them), labels, and which rows tie in votes: from the texts, by LIBSVM's rules."""
    record = parse_libsvm(texts[""])
    if ".range" in texts:
        rows = parse_range(io.BytesIO(b"".join(texts[".range"]))).apply(rows)
    none = np.zeros(len(rows), dtype=bool)
    back = to_model(record, n_features=model.n_features)
    if not record.is_classifier:
        values = back.outputs(rows)
        return values, np.where(values[:, 0] >= 0, 1, -1) if model.kind == "outlier" else None, none
    assert record.labels is not None
    k = len(record.labels)
    numbers = np.arange(k) if ".labels" in texts else np.asarray(model.classes_).astype(np.int64)
    listed = model.classes_[[int(np.flatnonzero(numbers == label)[0]) for label in record.labels]]
    if k == 1:
        return None, listed[np.zeros(len(rows), dtype=int)], none
    values = back.kernel.block(rows, back.basis) @ pair_weights(record) - record.rho
    wins, votes = values > 0, np.zeros((len(rows), k))
    for pair, (first, second) in enumerate(class_pairs(k).tolist()):
        votes[:, first] += wins[:, pair]
        votes[:, second] += ~wins[:, pair]
    tied = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) > 1
    return (values if k == 2 else None), listed[votes.argmax(axis=1)], tied


# -- what is written --------------------------------------------------------------------------------------


def libsvm_texts(model: Model) -> dict[str, list[bytes]]:
    """The lines of a model and, beside it, of ``.range`` and ``.labels`` where it needs them."""
    plain = folded(model, centred=False)
    kernel, basis, weights, intercept = plain.kernel, plain.basis, plain.weights, plain.intercept
    if plain.input_map is not None:
        raise UnsupportedModelError(
            "LIBSVM has no linear map of the inputs, which this machine learned. Fit with gamma='ard' (one width per "
            "feature, which a range file of svm-scale holds) or gamma='learn', or use another export."
        )
    if not isinstance(kernel, RBF | Linear | Polynomial):
        raise UnsupportedModelError(
            f"LIBSVM has no {model.kernel.name} kernel like {model.kernel!r}; it has linear, polynomial and RBF. Fit "
            "with one of these, or use another export."
        )
    fields: dict[str, Any] = {"kernel_type": {"poly": "polynomial"}.get(kernel.name, kernel.name)}
    fields |= {key: getattr(kernel, key) for key in ("gamma", "coef0", "degree") if hasattr(kernel, key)}
    names = None
    if model.kind == "classifier":
        more, names = _classifier_record(plain)
        fields |= more
    elif weights.shape[1] == 1:
        fields |= {"svm_type": "epsilon_svr" if model.kind == "regressor" else "one_class"}
        fields |= {"vectors": sparse.csr_matrix(basis), "coef": weights.T, "rho": -intercept}
    else:
        raise UnsupportedModelError(
            f"LIBSVM has one regression output; this model has {weights.shape[1]}. Write one model per output."
        )
    texts: dict[str, list[bytes]] = {"": list(format_libsvm(LibsvmModel(**fields)))}
    if plain.input_shift is not None or plain.input_scale is not None:
        texts[".range"] = [_range_text(plain).encode("ascii")]
    if names is not None:
        texts[".labels"] = [json.dumps(names, indent=0).encode("ascii")]
    if model.input_fill is not None:
        warnings.warn(
            "LIBSVM does not impute: a missing value in its data is a zero. Fill missing values (this model's "
            "input_fill) before svm-scale and svm-predict.",
            UserWarning,
            stacklevel=3,
        )
    if model.calibration is not None and len(model.classes_) > 2:
        warnings.warn(
            "the calibration is not written: LIBSVM couples probabilities of pairs, this model has one per class.",
            UserWarning,
            stacklevel=3,
        )
    return texts


def format_libsvm(record: LibsvmModel) -> Iterator[bytes]:
    """The lines of a record; numbers are written so that they read back exactly."""
    head: dict[str, list[Any]] = {"svm_type": [record.svm_type], "kernel_type": [record.kernel_type]}
    for key in KERNELS[record.kernel_type]:
        value = getattr(record, key)
        head[key] = [int(value) if key == "degree" else float(value)]
    head |= {"nr_class": [len(record.coef) + 1], "total_sv": [record.vectors.shape[0]]}
    lists = ((key, getattr(record, field)) for key, field in LISTS.items())
    head |= {key: values.tolist() for key, values in lists if values is not None}
    for key, items in head.items():
        yield " ".join([key, *map(str, items)]).encode("ascii") + b"\n"
    yield b"SV\n"
    vectors = record.vectors.tocsr()
    for row, coef in enumerate(record.coef.T.tolist()):
        part = slice(vectors.indptr[row], vectors.indptr[row + 1])
        features = zip(vectors.indices[part].tolist(), vectors.data[part].tolist(), strict=True)
        items = [*map(repr, coef), *(f"{column + 1}:{value!r}" for column, value in features if value)]
        yield " ".join(items).encode("ascii") + b"\n"


def _range_text(model: Model) -> str:
    """The file for ``svm-scale -r``: feature minimum -> 0 and maximum -> 1, so x' = (x - min) / (max - min)."""
    shift = np.zeros(model.n_features) if model.input_shift is None else model.input_shift
    scale = np.ones(model.n_features) if model.input_scale is None else model.input_scale
    kept = np.isfinite(scale)
    low, high = np.where(kept, shift, 0.0), np.where(kept, shift + scale, 0.0)  # equal: svm-scale skips the feature
    if np.any(np.abs((high - low)[kept] - scale[kept]) > 1e-9 * np.abs(scale[kept])):
        raise UnsupportedModelError(
            "a feature's shift is so large beside its scale that a range file of minimum and maximum loses it. "
            "Centre the data before fitting."
        )
    lines = [f"{i} {a!r} {b!r}\n" for i, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True), 1)]
    return "".join(["x\n0 1\n", *lines])


def _classifier_record(model: Model) -> tuple[dict[str, Any], list[Any] | None]:
    """Fields of the record, and the names of labels that are no integers of LIBSVM and therefore numbered."""
    weights, intercept, labels, names = model.weights, model.intercept, model.classes_, None
    k = len(labels)
    whole = labels.dtype.kind in "biuf" and np.all(labels.astype(np.float64) == np.round(labels.astype(np.float64)))
    if whole and np.all(np.abs(labels.astype(np.float64)) <= _MAX_LABEL):
        numbers = labels.astype(np.int64)
    else:
        numbers, names = np.arange(k), labels.tolist()
    order = np.arange(k)[::-1]
    prob: dict[str, Any] = {}
    if k == 1:
        pieces, rho = [(np.empty((0, 0)), np.empty(0, dtype=np.intp))], np.empty(0)
    elif k == 2 or model.coding == "one_vs_one":
        listed = model.meta.get("libsvm_label")
        place = {str(number): index for index, number in enumerate(numbers.tolist())}
        if k > 2 and isinstance(listed, list) and sorted(map(str, listed)) == sorted(place):  # it came from LIBSVM
            order = np.array([place[str(label)] for label in listed])
            sigmoids = {"prob_a": model.meta.get("libsvm_probA"), "prob_b": model.meta.get("libsvm_probB")}
            expected = [float] * weights.shape[1]
            if all(isinstance(values, list) and [*map(type, values)] == expected for values in sigmoids.values()):
                prob = {field: np.array(values) for field, values in sigmoids.items()}
        pieces, rho = _one_vs_one_pieces(weights, intercept, order)
    elif model.coding in (None, "one_vs_rest"):
        pieces, rho = _one_vs_rest_pieces(weights, intercept, k)
    else:
        raise UnsupportedModelError(
            f"LIBSVM decides between pairs of classes, which cannot express the coding {model.coding!r}. "
            "Fit with coding='one_vs_rest' or 'one_vs_one'."
        )
    if model.calibration is not None and k == 2:  # the pair's value is f itself, and P(first) = P(classes[1])
        prob = {"prob_a": np.asarray(model.calibration["a"]), "prob_b": np.asarray(model.calibration["b"])}
    rows = np.concatenate([index for _, index in pieces])
    return {
        "svm_type": "c_svc",
        "vectors": sparse.csr_matrix(model.basis)[rows],
        "coef": np.concatenate([coef for coef, _ in pieces], axis=1),
        "rho": rho,
        "labels": numbers[order],
        "n_vectors": np.array([len(index) for _, index in pieces]),
        **prob,
    }, names


def _one_vs_rest_pieces(weights: Array, intercept: Array, k: int) -> tuple[Pieces, Array]:
    """Value of the pair (i, j) = f_i - f_j: the copy of the basis that stands for class i carries f_i."""
    weights, intercept = weights[:, ::-1], intercept[::-1]
    pieces = []
    for own in range(k):
        used = np.flatnonzero(weights[:, own])
        # Row r meets class r (then `own` is the second of the pair, and counts negative) or class r + 1.
        signs = np.where(np.arange(k - 1) < own, -1.0, 1.0)
        pieces.append((signs[:, None] * weights[used, own], used))
    first, second = class_pairs(k).T
    return pieces, intercept[second] - intercept[first]


def _one_vs_one_pieces(weights: Array, intercept: Array, order: Array) -> tuple[Pieces, Array]:
    """A vector stands once, in a class that all its pairs share; without such a class, in every class but the last."""
    k = len(order)
    first, second = class_pairs(k).T
    place = pair_numbers(k)
    own = place[order[first], order[second]]
    # Ours speaks for the higher class, LIBSVM's for the first.
    signs = np.where(order[first] > order[second], 1.0, -1.0)
    values, rho = weights[:, own] * signs, -intercept[own] * signs
    used = values != 0
    takes_part = np.zeros((len(first), k), dtype=np.intp)
    takes_part[np.arange(len(first)), first] = takes_part[np.arange(len(first)), second] = 1
    shared = used.astype(np.intp) @ takes_part == used.sum(axis=1, keepdims=True)
    # For two classes either would do; LIBSVM puts vectors of positive weight in the first.
    shared[:, 0] &= (values[:, 0] > 0) | (k > 2)
    owner = np.where(shared.any(axis=1), shared.argmax(axis=1), -1)
    pieces = []
    for label in range(k):
        others = np.delete(np.arange(k), label)
        coef = values[:, place[others, label]].T * ((owner == label) | ((owner == -1) & (others[:, None] > label)))
        kept = np.flatnonzero(coef.any(axis=0))
        pieces.append((coef[:, kept], kept))
    return pieces, rho
