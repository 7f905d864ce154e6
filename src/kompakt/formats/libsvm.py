"""LIBSVM's models as kompakt's, and back.

LIBSVM votes for the first class of a pair where its value is positive, kompakt for the second.  A written model
therefore lists the classes backwards: every pair keeps its value, and a value of exactly zero votes alike in both.
A one-vs-one model that came from LIBSVM is written in the order it had, on which LIBSVM's ties depend.
"""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.codings import class_pairs
from kompakt.formats.errors import ModelFileError, UnsupportedModelError
from kompakt.formats.files import check_writable, model_of, write_atomically
from kompakt.formats.libsvm_scale import Scaling, plain_kernel, scaled_basis
from kompakt.formats.libsvm_text import LibsvmModel, format_libsvm
from kompakt.kernels import RBF, Kernel, Linear, Polynomial
from kompakt.model import Model

Array = np.ndarray
_MAX_LABEL = (1 << 31) - 1


@dataclass(frozen=True)
class LibsvmFiles:
    """The files that `write_libsvm` wrote; None where one was not needed.

    Parameters
    ----------
    model : Path
        The text model.
    range : Path, optional
        ``<model>.range``: scale data with ``svm-scale -r`` and this file before ``svm-predict``.
    labels : Path, optional
        ``<model>.labels``: a JSON list; entry i is the class that the model calls i.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kompakt.formats import LibsvmFiles
    >>> LibsvmFiles(Path("iris.model")).range is None
    True
    """

    model: Path
    range: Path | None = None
    labels: Path | None = None


# -- LIBSVM -> kompakt -----------------------------------------------------------------------------------


def to_model(record: LibsvmModel, *, n_features: int | None = None, memory_budget: int = 1 << 30) -> Model:
    """The kompakt model of a LIBSVM model.

    Classes are put in increasing order.  Several classes become the coding "one_vs_one" on the union of the support
    vectors.  Its values are LIBSVM's; labels agree except where classes tie in votes, which LIBSVM gives to the label
    it lists first and kompakt to the larger summed margin.

    Parameters
    ----------
    record : LibsvmModel
    n_features : int, optional
        Number of features of the data, where it is more than the highest index among the support vectors.
    memory_budget : int, default=1 GiB
        Bytes that the dense basis and the weights may take.

    Returns
    -------
    Model
        With the calibration of a two-class model trained with ``-b 1``; those of several classes, which are coupled
        pair by pair, stay in `meta`.

    Raises
    ------
    ModelFileError
        If the record cannot be a kompakt model, or does not fit the budget.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from kompakt.formats import LibsvmModel, to_model
    >>> record = LibsvmModel(
    ...     "c_svc", "linear", sparse.csr_matrix([[1.0], [-1.0]]), np.array([[0.5, -0.5]]), np.array([0.0]),
    ...     labels=np.array([1, -1]), n_vectors=np.array([1, 1]),
    ... )
    >>> to_model(record).predict([[3.0], [-3.0]])
    array([ 1, -1])
    """
    found = record.vectors.shape[1]
    d = found if n_features is None else int(n_features)
    if d < max(found, 1):
        raise ModelFileError(
            f"n_features is {d}, but the support vectors use {found} features. Give n_features, the width of your data."
        )
    m = record.vectors.shape[0]
    needed = 8 * m * (d + max(len(record.rho), 1))
    if needed > memory_budget:
        raise ModelFileError(
            f"{m} vectors with {d} features and {len(record.rho)} outputs would take {needed} bytes; memory_budget "
            f"allows {memory_budget}. Raise it if the features are really that many."
        )
    basis = np.zeros((m, d))
    basis[:, :found] = record.vectors.toarray()
    fields: dict[str, Any] = {"weights": record.coef.T, "intercept": -record.rho}
    meta: dict[str, Any] = {"source": "LIBSVM", "svm_type": record.svm_type}
    if record.is_classifier:
        fields = _classifier_fields(record, meta)
    elif record.prob_a is not None:
        meta["laplace_scale"] = float(record.prob_a[0])
    kind = "classifier" if record.is_classifier else "outlier" if record.svm_type == "one_class" else "regressor"
    return Model(_kernel_of(record), basis, kind=kind, n_features=d, meta=meta, **fields)


def _kernel_of(record: LibsvmModel) -> Kernel:
    try:
        if record.kernel_type == "linear":
            return Linear()
        if record.kernel_type == "rbf":
            return RBF(record.gamma)
        return Polynomial(record.gamma, record.coef0, record.degree)  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"the kernel is not valid: {error}") from None


def _classifier_fields(record: LibsvmModel, meta: dict[str, Any]) -> dict[str, Any]:
    assert record.labels is not None
    rank = np.argsort(np.argsort(record.labels))  # LIBSVM lists labels as they first appeared
    fields: dict[str, Any] = {"classes": np.sort(record.labels), "coding": "one_vs_one"}
    if len(rank) == 1:
        return fields | {"weights": np.zeros((record.vectors.shape[0], 1)), "intercept": np.zeros(1)}
    values = _pair_weights(record)
    first, second = rank[class_pairs(len(rank))].T
    # LIBSVM's value speaks for the first of the pair, ours for the one whose label is larger.
    signs = np.where(first > second, 1.0, -1.0)
    place = np.zeros((len(rank), len(rank)), dtype=np.intp)
    place[tuple(class_pairs(len(rank)).T)] = np.arange(len(signs))
    order = place[np.minimum(first, second), np.maximum(first, second)]
    weights, intercept = np.empty_like(values), np.empty(len(signs))
    weights[:, order] = values * signs
    intercept[order] = -record.rho * signs
    fields |= {"weights": weights, "intercept": intercept}
    if len(rank) > 2:
        meta["libsvm_label"] = record.labels.tolist()
    if record.prob_a is not None and record.prob_b is not None:
        if len(rank) == 2:
            # P(first) = 1 / (1 + exp(A value + B)); of the other class it is 1 / (1 + exp(A (-value) - B))
            fields["calibration"] = {"a": record.prob_a.copy(), "b": record.prob_b * signs}
        else:
            meta["libsvm_probA"], meta["libsvm_probB"] = record.prob_a.tolist(), record.prob_b.tolist()
    return fields


def _pair_weights(record: LibsvmModel) -> Array:
    """Weights (total_sv, pairs) in LIBSVM's order and sign."""
    assert record.n_vectors is not None
    ends = np.cumsum(record.n_vectors)
    starts = ends - record.n_vectors
    values = np.zeros((record.vectors.shape[0], len(record.rho)))
    for pair, (i, j) in enumerate(class_pairs(len(ends)).tolist()):
        values[starts[i] : ends[i], pair] = record.coef[j - 1, starts[i] : ends[i]]
        values[starts[j] : ends[j], pair] = record.coef[i, starts[j] : ends[j]]
    return values


# -- kompakt -> LIBSVM -----------------------------------------------------------------------------------


def write_libsvm(estimator_or_model: Any, path: str | os.PathLike[str]) -> LibsvmFiles:
    """Write a machine as a text model that ``svm-predict`` reads.

    One-vs-rest with several classes is written by repeating the basis once per class, so that the value of every pair
    is the difference of the two classes' scores and the votes give their argmax.  One-vs-one is written directly;
    ties in votes go to LIBSVM's rule.  Constants in sums and products of kernels are folded into the weights.

    Parameters
    ----------
    estimator_or_model : fitted kompakt estimator or Model
        With a linear, polynomial or RBF kernel.  Input scaling, and one width per feature, become a range file for
        ``svm-scale`` (which prints six digits, so rows nearer than that to the boundary may change sides).
    path : path-like

    Returns
    -------
    LibsvmFiles
        What was written: the model, its range file, and the names of labels that are no integers.

    Raises
    ------
    UnsupportedModelError
        For what LIBSVM lacks: other kernels, several regression outputs, the coding "minimum_output".

    Examples
    --------
    >>> import tempfile, pathlib, kompakt
    >>> from sklearn.datasets import load_iris
    >>> from kompakt.formats import read_libsvm, write_libsvm
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = kompakt.CompactSVC(n_basis=10, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = write_libsvm(machine, pathlib.Path(folder, "iris.model"))
    ...     record = read_libsvm(files.model)
    >>> record.labels.tolist(), record.vectors.shape
    ([2, 1, 0], (30, 4))
    """
    record, scaling, names = record_of(model_of(estimator_or_model))
    target = Path(path)
    beside = {"range": f"{target}.range" if scaling else None, "labels": f"{target}.labels" if names else None}
    for name in (target, *beside.values()):
        if name is not None:
            check_writable(name)  # all or nothing
    if scaling is not None:
        write_atomically(f"{target}.range", [scaling.range_text().encode("ascii")])
    if names is not None:
        write_atomically(f"{target}.labels", [json.dumps(names, indent=0).encode("ascii")])
    write_atomically(target, format_libsvm(record))
    return LibsvmFiles(target, **{key: None if name is None else Path(name) for key, name in beside.items()})


def record_of(model: Model) -> tuple[LibsvmModel, Scaling | None, list[Any] | None]:
    """The record, the scaling that must precede it, and the names of its labels where they are no integers."""
    kernel, factor, addend = plain_kernel(model.kernel)
    # k = factor * kernel + addend: sum_j w_j k_j + b = sum_j (factor w_j) kernel_j + (b + addend sum_j w_j)
    weights = np.asarray(model.weights, dtype=np.float64)
    intercept = np.asarray(model.intercept, dtype=np.float64) + addend * weights.sum(axis=0)
    weights = weights * factor
    kernel, basis, scaling = scaled_basis(model, kernel)
    if model.input_fill is not None:
        warnings.warn(
            "LIBSVM does not impute: a missing value in its data is a zero. Fill missing values (this model's "
            "input_fill) before svm-scale and svm-predict.",
            UserWarning,
            stacklevel=3,
        )
    fields: dict[str, Any] = {"kernel_type": {"poly": "polynomial"}.get(kernel.name, kernel.name)}
    fields |= {key: getattr(kernel, key) for key in ("gamma", "coef0", "degree") if hasattr(kernel, key)}
    names = None
    if model.kind == "classifier":
        more, names = _classifier_record(model, basis, weights, intercept)
        fields |= more
    else:
        if weights.shape[1] != 1:
            raise UnsupportedModelError(
                f"LIBSVM has one regression output; this model has {weights.shape[1]}. Write one model per output."
            )
        fields |= {"svm_type": "epsilon_svr" if model.kind == "regressor" else "one_class"}
        fields |= {"vectors": sparse.csr_matrix(basis), "coef": weights.T, "rho": -intercept}
    return LibsvmModel(**fields), scaling, names


def _classifier_record(
    model: Model, basis: Array, weights: Array, intercept: Array
) -> tuple[dict[str, Any], list[Any] | None]:
    numbers, names = _label_numbers(model.classes_)
    k = len(numbers)
    order = np.arange(k)[::-1]
    prob: dict[str, Any] = {}
    if k == 1:
        pieces, rho = [(np.empty((0, 0)), np.empty(0, dtype=np.intp))], np.empty(0)
    elif k == 2 or model.coding == "one_vs_one":
        order, prob = _kept_from_libsvm(model, numbers, order)
        pieces, rho = _one_vs_one_pieces(weights, intercept, order)
    elif model.coding in (None, "one_vs_rest"):
        pieces, rho = _one_vs_rest_pieces(weights, intercept, k)
    else:
        raise UnsupportedModelError(
            f"LIBSVM decides between pairs of classes, which cannot express the coding {model.coding!r}. "
            "Fit with coding='one_vs_rest' or 'one_vs_one'."
        )
    if model.calibration is not None:
        if k == 2:  # the pair's value is f itself, and P(first) = P(classes[1])
            prob = {"prob_a": np.asarray(model.calibration["a"]), "prob_b": np.asarray(model.calibration["b"])}
        else:
            warnings.warn(
                "the calibration is not written: LIBSVM couples probabilities of pairs, this model has one per class.",
                UserWarning,
                stacklevel=4,
            )
    rows = np.concatenate([index for _, index in pieces])
    fields = {
        "svm_type": "c_svc",
        "vectors": sparse.csr_matrix(basis)[rows],
        "coef": np.concatenate([coef for coef, _ in pieces], axis=1),
        "rho": rho,
        "labels": numbers[order],
        "n_vectors": np.array([len(index) for _, index in pieces]),
        **prob,
    }
    return fields, names


Pieces = list[tuple[Array, Array]]  # per class, in the file's order: coefficients (k - 1, n) and basis numbers (n,)


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


def _kept_from_libsvm(model: Model, numbers: Array, order: Array) -> tuple[Array, dict[str, Array]]:
    """Order of the classes and pairwise sigmoids, where several classes were read from LIBSVM; else as given."""
    listed = model.meta.get("libsvm_label")
    k = len(numbers)
    if k == 2 or not isinstance(listed, list) or sorted(map(str, listed)) != sorted(map(str, numbers.tolist())):
        return order, {}
    place = {str(number): index for index, number in enumerate(numbers.tolist())}
    prob = {}
    for field, key in (("prob_a", "libsvm_probA"), ("prob_b", "libsvm_probB")):
        values = model.meta.get(key)
        if isinstance(values, list) and len(values) == k * (k - 1) // 2 and all(type(v) is float for v in values):
            prob[field] = np.array(values)
    return np.array([place[str(label)] for label in listed]), prob if len(prob) == 2 else {}


def _one_vs_one_pieces(weights: Array, intercept: Array, order: Array) -> tuple[Pieces, Array]:
    """A vector stands once, in a class that all its pairs share; without such a class, in every class but the last."""
    k = len(order)
    first, second = class_pairs(k).T
    place = np.zeros((k, k), dtype=np.intp)
    place[first, second] = np.arange(len(first))
    low, high = np.minimum(order[first], order[second]), np.maximum(order[first], order[second])
    signs = np.where(order[first] == high, 1.0, -1.0)  # ours speaks for the higher class, LIBSVM's for the first
    values, rho = weights[:, place[low, high]] * signs, -intercept[place[low, high]] * signs
    used = values != 0
    takes_part = np.zeros((len(first), k), dtype=np.intp)
    takes_part[np.arange(len(first)), first] = takes_part[np.arange(len(first)), second] = 1
    shared = used.astype(np.intp) @ takes_part == used.sum(axis=1, keepdims=True)
    # For two classes either would do; LIBSVM puts vectors of positive weight in the first.
    shared[:, 0] &= (values[:, 0] > 0) | (k > 2)
    owner = np.where(shared.any(axis=1), shared.argmax(axis=1), -1)
    pieces = []
    for own in range(k):
        others = np.delete(np.arange(k), own)
        pairs = place[np.minimum(others, own), np.maximum(others, own)]
        coef = values[:, pairs].T * ((owner == own) | ((owner == -1) & (others[:, None] > own)))
        kept = np.flatnonzero(coef.any(axis=0))
        pieces.append((coef[:, kept], kept))
    return pieces, rho


def _label_numbers(classes: Array) -> tuple[Array, list[Any] | None]:
    """Labels as LIBSVM's integers; labels of another kind are numbered, and returned as names."""
    if classes.dtype.kind in "biuf":
        values = classes.astype(np.float64)
        if np.all(values == np.round(values)) and np.all(np.abs(values) <= _MAX_LABEL):
            return classes.astype(np.int64), None
    return np.arange(len(classes)), [label.item() if hasattr(label, "item") else label for label in classes.tolist()]
