"""LIBSVM's formats: its text models, as records and as kompakt's models and back, and range files of ``svm-scale``.

A model is a header of keywords, then the line ``SV``, then one line per support vector: nr_class - 1 coefficients and
the non-zero features as ``index:value``.  The decision value of the pair (i, j), i < j in the order of `labels`, is

    sum over vectors of class i: coef[j - 1] k(x, sv)  +  sum over vectors of class j: coef[i] k(x, sv)  -  rho[i, j]

and votes for class i where it is positive.  Regression and one-class models have one row of coefficients.

kompakt votes for the second class of a pair where its value is positive.  Its models are therefore written with the
classes backwards: every pair keeps its value, and a value of exactly zero votes alike in both.  A one-vs-one model that
came from LIBSVM is written in the order it had, on which LIBSVM's ties depend.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from kompakt.codings import class_pairs
from kompakt.imports import sparse
from kompakt.inputs import Inputs
from kompakt.io.container import ModelFileError, UnsupportedModelError, require
from kompakt.io.files import opened
from kompakt.kernels import RBF, Linear, Polynomial, from_spec
from kompakt.model import Model

#: the values on each line
Lines = Iterator[list[bytes]]

CLASSIFIERS = ("c_svc", "nu_svc")
REGRESSORS = ("epsilon_svr", "nu_svr")
SVM_TYPES = (*CLASSIFIERS, *REGRESSORS, "one_class")
#: LIBSVM's kernels that kompakt has, with the parameters each must state
KERNELS = {"linear": (), "polynomial": ("degree", "gamma", "coef0"), "rbf": ("gamma",)}
_REASONS = {
    "sigmoid": "it is not positive definite, so kompakt has no such kernel; train again with -t 0, 1 or 2",
    "precomputed": "its vectors are row numbers of a matrix that is not in the file; train again with -t 0, 1 or 2",
}
_MAX_INDEX = (1 << 31) - 1
_MAX_RANGE_LINE = 1 << 16  # a line holds three numbers; a longer one is no range file and is not read into memory


@dataclass(frozen=True, eq=False)
class LibsvmModel:
    """What a LIBSVM text model says, unchanged.

    Parameters
    ----------
    svm_type : {"c_svc", "nu_svc", "epsilon_svr", "nu_svr", "one_class"}
    kernel_type : {"linear", "polynomial", "rbf"}
    vectors : CSR matrix of shape (total_sv, n_features)
        Support vectors; feature 1 of the file is column 0.
    coef : ndarray of shape (nr_class - 1, total_sv), (1, total_sv) for regression and one-class
    rho : ndarray
        One value per pair of classes in the order (0, 1), (0, 2), ..., or one value.
    labels : ndarray of int, optional
        Labels in the file's order (classification).
    n_vectors : ndarray of int, optional
        Number of vectors of each class, in the same order.
    gamma, coef0, degree
        Parameters of the kernel, where it has them.
    prob_a, prob_b : ndarray, optional
        Pairwise sigmoids of ``-b 1``; for regression `prob_a` is the scale of the Laplace noise.
    density_marks : ndarray, optional
        ``prob_density_marks`` of a one-class model.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from kompakt.io import LibsvmModel, to_model
    >>> record = LibsvmModel("epsilon_svr", "linear", sparse.csr_matrix([[2.0]]), np.array([[1.5]]), np.array([-1.0]))
    >>> to_model(record).predict([[1.0]])
    array([4.])
    """

    svm_type: str
    kernel_type: str
    vectors: sparse.csr_matrix
    coef: np.ndarray
    rho: np.ndarray
    labels: np.ndarray | None = None
    n_vectors: np.ndarray | None = None
    gamma: float | None = None
    coef0: float | None = None
    degree: int | None = None
    prob_a: np.ndarray | None = None
    prob_b: np.ndarray | None = None
    density_marks: np.ndarray | None = None

    @property
    def is_classifier(self) -> bool:
        """Whether the model has labels."""
        return self.svm_type in CLASSIFIERS


# -- reading a model -------------------------------------------------------------------------------------


def read_libsvm(path: str | os.PathLike[str], *, zero_based: bool = False) -> LibsvmModel:
    r"""Read a text model of LIBSVM (``svm-train``, ``svm_save_model``).

    Parameters
    ----------
    path : path-like
    zero_based : bool, default=False
        Whether the features were numbered from 0 in the training data; LIBSVM's convention is 1.

    Returns
    -------
    LibsvmModel

    Raises
    ------
    UnsupportedModelError
        For the sigmoid and the precomputed kernel.
    ModelFileError
        For anything else that is no LIBSVM model; the message names the line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from kompakt.io import read_libsvm
    >>> text = "svm_type one_class\nkernel_type linear\nnr_class 2\ntotal_sv 1\nrho 0.3\nSV\n1 1:2 3:4\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model")
    ...     _ = path.write_text(text)
    ...     read_libsvm(path).vectors.toarray()
    array([[2., 0., 4.]])
    """
    with opened(path) as (file, _):
        return parse_libsvm(file, 0 if zero_based else 1)


def parse_libsvm(text: Iterable[bytes], first: int = 1) -> LibsvmModel:
    """The record of the lines of a text model, whose features are numbered from `first`."""
    with _numbered(text) as lines:
        header = _read_header(lines)
        coef, vectors = _read_vectors(lines, header, first)
    fields = {LISTS.get(key, key): value for key, value in header.items() if key not in ("nr_class", "total_sv")}
    return LibsvmModel(vectors=vectors, coef=coef, **fields)


@contextlib.contextmanager
def _numbered(lines: Iterable[bytes]) -> Iterator[Lines]:
    """The values on each line: a ValueError inside is one of the line that was read last."""
    number = 0

    def values() -> Lines:
        nonlocal number
        for line in lines:
            number += 1
            yield line.split()

    try:
        yield values()
    except ModelFileError:
        raise
    except ValueError as error:
        raise ModelFileError(f"line {number}: {error}.") from None


def _shown(text: bytes) -> str:
    """A piece of an unknown file, short and printable."""
    return repr(_name(text))


def _parsed(token: bytes, kind: Callable[[bytes], Any]) -> Any:
    with contextlib.suppress(ValueError):
        if b"_" not in token:  # Python reads 1_000 as a number; LIBSVM does not
            return kind(token)
    raise ValueError(f"{_shown(token)} is no number")


def _integer(token: bytes) -> int:
    value: int = _parsed(token, int)
    if abs(value) > _MAX_INDEX:
        raise ValueError(f"{_shown(token)} is beyond the integers of LIBSVM")
    return value


def _number(token: bytes) -> float:
    value: float = _parsed(token, float)
    if not math.isfinite(value):
        raise ValueError(f"{_shown(token)} is no finite number")
    return value


def _name(token: bytes) -> str:
    return token[:60].decode("ascii", "backslashreplace")


#: how the values of each keyword are read
_KEYWORDS: dict[str, Callable[[bytes], Any]] = {
    "svm_type": _name, "kernel_type": _name, "degree": _integer, "gamma": _number, "coef0": _number,
    "nr_class": _integer, "total_sv": _integer, "rho": _number, "label": _integer, "probA": _number, "probB": _number,
    "prob_density_marks": _number, "nr_sv": _integer,
}  # fmt: skip
#: keywords with a list of values, in the order in which they are written, and their fields in a record
LISTS = {
    "rho": "rho", "label": "labels", "probA": "prob_a", "probB": "prob_b", "prob_density_marks": "density_marks",
    "nr_sv": "n_vectors",
}  # fmt: skip


def _read_header(lines: Lines) -> dict[str, Any]:
    header: dict[str, Any] = {}
    for tokens in filter(None, lines):
        key = tokens[0].decode("ascii", "replace")
        if key == "SV":
            _check_header(header)
            return header
        if key not in _KEYWORDS:
            raise ValueError(f"{_shown(tokens[0])} is no keyword of a LIBSVM model")
        if key in header:
            raise ValueError(f"{key} is given twice")
        if key not in LISTS and len(tokens) != 2:
            raise ValueError(f"{key} is not valid: expected one value, got {len(tokens) - 1}")
        parse = _KEYWORDS[key]
        try:
            values = [parse(token) for token in tokens[1:]]
        except ValueError as error:
            raise ValueError(f"{key} is not valid: {error}") from None
        kind = np.int64 if parse is _integer else np.float64
        header[key] = np.array(values, dtype=kind) if key in LISTS else values[0]
    raise ModelFileError("the header does not end: a LIBSVM model has a line 'SV' before its vectors.")


def _check_header(header: dict[str, Any]) -> None:
    """What every keyword says, and the lengths of the lists.

    Lengths are compared with what is there, so a large nr_class costs nothing.
    """
    for key in ("svm_type", "kernel_type", "nr_class", "total_sv", "rho"):
        require(key in header, f"the header lacks {key}.")
    svm_type, kernel, classes = header["svm_type"], header["kernel_type"], header["nr_class"]
    classifier = svm_type in CLASSIFIERS
    require(svm_type in SVM_TYPES, f"unknown svm_type {svm_type!r}; expected one of {', '.join(SVM_TYPES)}.")
    if kernel in _REASONS:
        raise UnsupportedModelError(f"kernel_type {kernel} cannot be used: {_REASONS[kernel]}.")
    require(kernel in KERNELS, f"unknown kernel_type {kernel!r}; expected one of {', '.join(KERNELS)}.")
    for key in (*KERNELS[kernel], *(("label", "nr_sv") if classifier else ())):
        require(key in header, f"a {svm_type} model with a {kernel} kernel needs {key} in the header.")
    require(classes >= 1 and header["total_sv"] >= 0, "nr_class must be at least 1 and total_sv at least 0.")
    pairs = classes * (classes - 1) // 2
    lengths: dict[str, int | None] = {"rho": 1, "probA": 1}
    if svm_type == "one_class":
        lengths = {"rho": 1, "prob_density_marks": None}
    if classifier:
        lengths = {"rho": pairs, "label": classes, "nr_sv": classes, "probA": pairs, "probB": pairs}
        require(("probA" in header) == ("probB" in header), "probA and probB of a classifier belong together.")
    else:
        require(classes == 2, f"{svm_type} is written with nr_class 2; got {classes}.")
    for key in filter(header.__contains__, LISTS):
        require(key in lengths, f"{key} has no meaning in a model of type {svm_type}.")
        length, needed = len(header[key]), lengths[key]
        require(needed in (None, length), f"{key} has {length} values; {classes} classes need {needed}.")
    if classifier:
        require(len(set(header["label"].tolist())) == classes, "label holds the same label twice.")
        counted = header["nr_sv"].min() >= 0 and header["nr_sv"].sum() == header["total_sv"]
        require(counted, f"nr_sv must count the {header['total_sv']} vectors of total_sv.")


def _read_vectors(lines: Lines, header: dict[str, Any], first: int) -> tuple[np.ndarray, sparse.csr_matrix]:
    """Coefficients (nr_class - 1, total_sv) and the support vectors, as sparse as the file."""
    width, total = header["nr_class"] - 1, header["total_sv"]
    coef: list[list[float]] = []
    values: list[float] = []
    columns: list[int] = []
    ends = [0]
    for tokens in lines:
        if not tokens and (width or len(coef) == total):
            continue
        if len(coef) == total:
            raise ValueError(f"more vectors than total_sv {total}")
        if len(tokens) < width:
            raise ValueError(f"{len(tokens)} values; expected {width} coefficients and features")
        coef.append([_number(token) for token in tokens[:width]])
        last = -1
        for token in tokens[width:]:
            index, colon, value = token.partition(b":")
            if not colon:
                raise ValueError(f"expected index:value, got {_shown(token)}")
            column = _integer(index) - first
            if column <= last:
                reason = f"indices start at {first}" if column < 0 else "indices must increase"
                raise ValueError(f"feature index {column + first}: {reason}")
            last = column
            columns.append(column)
            values.append(_number(value))
        ends.append(len(columns))
    require(len(coef) == total, f"the file has {len(coef)} vectors; total_sv says {total}.")
    shape = (len(coef), max(columns, default=-1) + 1)
    vectors = sparse.csr_matrix((np.array(values), np.array(columns, dtype=np.int64), np.array(ends)), shape=shape)
    return np.array(coef, dtype=np.float64).reshape(len(coef), width).T, vectors


# -- the model of a record -------------------------------------------------------------------------------


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
    >>> from kompakt.io import LibsvmModel, to_model
    >>> record = LibsvmModel(
    ...     "c_svc", "linear", sparse.csr_matrix([[1.0], [-1.0]]), np.array([[0.5, -0.5]]), np.array([0.0]),
    ...     labels=np.array([1, -1]), n_vectors=np.array([1, 1]),
    ... )
    >>> to_model(record).predict([[3.0], [-3.0]])
    array([ 1, -1])
    """
    n_used = record.vectors.shape[1]
    d = n_used if n_features is None else int(n_features)
    require(
        d >= max(n_used, 1),
        f"n_features is {d}, but the support vectors use {n_used} features. Give n_features, the width of your data.",
    )
    m = record.vectors.shape[0]
    needed = 8 * m * (d + max(len(record.rho), 1))
    require(
        needed <= memory_budget,
        f"{m} vectors with {d} features and {len(record.rho)} outputs would take {needed} bytes; memory_budget "
        f"allows {memory_budget}. Raise it if the features are really that many.",
    )
    basis = np.zeros((m, d))
    basis[:, :n_used] = record.vectors.toarray()
    fields: dict[str, Any] = {"weights": record.coef.T, "intercept": -record.rho}
    meta: dict[str, Any] = {"source": "LIBSVM", "svm_type": record.svm_type}
    if record.is_classifier:
        fields = _classifier_fields(record, meta)
    elif record.prob_a is not None:
        meta["laplace_scale"] = float(record.prob_a[0])
    kind = "classifier" if record.is_classifier else "outlier" if record.svm_type == "one_class" else "regressor"
    name, parameters = {"polynomial": "poly"}.get(record.kernel_type, record.kernel_type), KERNELS[record.kernel_type]
    try:
        kernel = from_spec({"name": name, **{key: getattr(record, key) for key in parameters}})
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"the kernel is not valid: {error}") from None
    # Far from the origin, distances of float32 rows would be rounding errors: they are formed around the vectors' mean.
    centre = basis.mean(axis=0, dtype=np.float64) if kernel.shift_invariant and m else None
    return Model(kernel, basis, kind=kind, n_features=d, inputs=Inputs(centre=centre), meta=meta, **fields)


def _classifier_fields(record: LibsvmModel, meta: dict[str, Any]) -> dict[str, Any]:
    assert record.labels is not None
    rank = np.argsort(np.argsort(record.labels))  # LIBSVM lists labels as they first appeared
    fields: dict[str, Any] = {"classes": np.sort(record.labels), "coding": "one_vs_one"}
    k = len(rank)
    if k == 1:
        return fields | {"weights": np.zeros((record.vectors.shape[0], 1)), "intercept": np.zeros(1)}
    first, second = rank[class_pairs(k)].T
    # LIBSVM's value speaks for the first of the pair, ours for the one whose label is larger.
    signs = np.where(first > second, 1.0, -1.0)
    ours = np.argsort(pair_numbers(k)[first, second])
    fields |= {"weights": (pair_weights(record) * signs)[:, ours], "intercept": (-record.rho * signs)[ours]}
    if k > 2:
        meta["libsvm_label"] = record.labels.tolist()
    if record.prob_a is not None and record.prob_b is not None:
        if k == 2:
            # P(first) = 1 / (1 + exp(A value + B)); of the other class it is 1 / (1 + exp(A (-value) - B))
            fields["calibration"] = {"a": record.prob_a.copy(), "b": record.prob_b * signs}
        else:
            meta["libsvm_probA"], meta["libsvm_probB"] = record.prob_a.tolist(), record.prob_b.tolist()
    return fields


def pair_weights(record: LibsvmModel) -> np.ndarray:
    """Weights (total_sv, pairs) in LIBSVM's order and sign."""
    assert record.n_vectors is not None
    ends = np.cumsum(record.n_vectors)
    starts = ends - record.n_vectors
    values = np.zeros((record.vectors.shape[0], len(record.rho)))
    for pair, (i, j) in enumerate(class_pairs(len(ends)).tolist()):
        values[starts[i] : ends[i], pair] = record.coef[j - 1, starts[i] : ends[i]]
        values[starts[j] : ends[j], pair] = record.coef[i, starts[j] : ends[j]]
    return values


def pair_numbers(k: int) -> np.ndarray:
    """Which pair of classes i and j form, (k, k)."""
    first, second = class_pairs(k).T
    numbers = np.zeros((k, k), dtype=np.intp)
    numbers[first, second] = numbers[second, first] = np.arange(len(first))
    return numbers


# -- the record of a model --------------------------------------------------------------------------------


def from_model(model: Model) -> tuple[LibsvmModel, list[Any] | None]:
    """The record of a model without offset, and the names of labels that are no integers and therefore numbered.

    One-vs-rest is written by repeating the basis once per class, so that the value of every pair is the difference of
    two scores.
    """
    kernel = model.kernel
    if not isinstance(kernel, RBF | Linear | Polynomial):
        raise UnsupportedModelError(
            f"LIBSVM has no {kernel.name} kernel like {kernel!r}; it has linear, polynomial and RBF. Fit with one of "
            "these, or use another export."
        )
    fields: dict[str, Any] = {"kernel_type": {"poly": "polynomial"}.get(kernel.name, kernel.name), **vars(kernel)}
    names = None
    if model.kind == "classifier":
        more, names = _record_fields(model)
        fields |= more
    elif model.weights.shape[1] == 1:
        fields |= {"svm_type": "epsilon_svr" if model.kind == "regressor" else "one_class"}
        fields |= {"vectors": sparse.csr_matrix(model.basis), "coef": model.weights.T, "rho": -model.intercept}
    else:
        raise UnsupportedModelError(
            f"LIBSVM has one regression output; this model has {model.weights.shape[1]}. Write one model per output."
        )
    return LibsvmModel(**fields), names


def _record_fields(model: Model) -> tuple[dict[str, Any], list[Any] | None]:
    """Fields of a classifier's record, and the names of labels that are numbered."""
    weights, labels, names = model.weights, model.classes_, None
    k = len(labels)
    numbers = np.arange(k)
    plain = labels.astype(np.float64) if labels.dtype.kind in "biuf" else np.array([np.nan])
    if np.all(plain == np.round(plain)) and np.all(np.abs(plain) <= _MAX_INDEX):
        numbers = labels.astype(np.int64)
    else:
        names = labels.tolist()
    order = np.arange(k)[::-1]
    prob: dict[str, Any] = {}
    if k == 1:
        coef, rho = np.zeros((1, 0, len(weights))), np.empty(0)
    elif k == 2 or model.coding == "one_vs_one":
        listed = model.meta.get("libsvm_label")
        place = {str(number): index for index, number in enumerate(numbers.tolist())}
        if k > 2 and isinstance(listed, list) and sorted(map(str, listed)) == sorted(place):  # it came from LIBSVM
            order = np.array([place[str(label)] for label in listed])
            sigmoids = {"prob_a": model.meta.get("libsvm_probA"), "prob_b": model.meta.get("libsvm_probB")}
            expected = [float] * weights.shape[1]
            if all(isinstance(values, list) and [*map(type, values)] == expected for values in sigmoids.values()):
                prob = {field: np.array(values) for field, values in sigmoids.items()}
        coef, rho = _one_vs_one_coef(weights, model.intercept, order)
    elif model.coding in (None, "one_vs_rest"):
        # Value of the pair (i, j) = f_i - f_j: the copy of the basis that stands for class i carries f_i.  Row r of its
        # coefficients meets class r, and then it is the second of the pair and counts negative, or class r + 1.
        signs = np.where(np.arange(k - 1) < np.arange(k)[:, None], -1.0, 1.0)
        coef = signs[:, :, None] * weights[:, order].T[:, None]
        first, second = order[class_pairs(k)].T
        rho = model.intercept[second] - model.intercept[first]
    else:
        raise UnsupportedModelError(
            f"LIBSVM decides between pairs of classes, which cannot express the coding {model.coding!r}. "
            "Fit with coding='one_vs_rest' or 'one_vs_one'."
        )
    # of two classes the pair's value is f itself, and P(first) = P(classes[1])
    if model.calibration is not None and "a" in model.calibration and k == 2:
        prob = {"prob_a": np.asarray(model.calibration["a"]), "prob_b": np.asarray(model.calibration["b"])}
    kept = [np.flatnonzero(class_coef.any(axis=0)) for class_coef in coef]
    return {
        "svm_type": "c_svc",
        "vectors": sparse.csr_matrix(model.basis)[np.concatenate(kept)],
        "coef": np.concatenate([class_coef[:, rows] for class_coef, rows in zip(coef, kept, strict=True)], axis=1),
        "rho": rho,
        "labels": numbers[order],
        "n_vectors": np.array([len(rows) for rows in kept]),
        **prob,
    }, names


def _one_vs_one_coef(weights: np.ndarray, intercept: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (k, k - 1, m) of the copies of the basis that stand for each class, and rho.

    A vector stands once, in a class that all its pairs share; without such a class, in every class but the last.
    """
    k = len(order)
    first, second = class_pairs(k).T
    place = pair_numbers(k)
    outputs = place[order[first], order[second]]
    # Ours speaks for the higher class, LIBSVM's for the first.
    signs = np.where(order[first] > order[second], 1.0, -1.0)
    values, rho = weights[:, outputs] * signs, -intercept[outputs] * signs
    used = values != 0
    takes_part = np.zeros((len(first), k), dtype=np.intp)
    takes_part[np.arange(len(first)), first] = takes_part[np.arange(len(first)), second] = 1
    shared = used.astype(np.intp) @ takes_part == used.sum(axis=1, keepdims=True)
    # For two classes either would do; LIBSVM puts vectors of positive weight in the first.
    shared[:, 0] &= (values[:, 0] > 0) | (k > 2)
    owner = np.where(shared.any(axis=1), shared.argmax(axis=1), -1)
    coef = []
    for label in range(k):
        others = np.delete(np.arange(k), label)
        stands = (owner == label) | ((owner == -1) & (others[:, None] > label))
        coef.append(values[:, place[others, label]].T * stands)
    return np.array(coef), rho


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
        entries = slice(vectors.indptr[row], vectors.indptr[row + 1])
        features = zip(vectors.indices[entries].tolist(), vectors.data[entries].tolist(), strict=True)
        items = [*map(repr, coef), *(f"{column + 1}:{value!r}" for column, value in features if value)]
        yield " ".join(items).encode("ascii") + b"\n"


# -- range files -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RangeFile:
    """What a range file says, unchanged.

    Parameters
    ----------
    lower, upper : float
        Where each feature's minimum and maximum go.
    index : ndarray of int
        Column of each listed feature, from 0 and increasing; ``svm-scale`` lists no feature that was constant.
    minimum, maximum : ndarray
        One value per listed feature.
    target : tuple of 4 floats, optional
        lower, upper, minimum and maximum of the target (``svm-scale -y``).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.io import RangeFile
    >>> ranges = RangeFile(-1.0, 1.0, np.array([1]), np.array([10.0]), np.array([20.0]))
    >>> ranges.apply(np.array([[7.0, 15.0]]))
    array([[0., 0.]])
    """

    lower: float
    upper: float
    index: np.ndarray
    minimum: np.ndarray
    maximum: np.ndarray
    target: tuple[float, float, float, float] | None = None

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Dense rows as ``svm-scale -r`` scales them: features that are not listed, or constant, become 0.

        What lies at an end of a range is put there exactly, and missing values stay missing.
        """
        X = np.asarray(X, dtype=np.float64)
        width = int(self.index[-1]) + 1 if len(self.index) else 0
        if X.ndim != 2 or X.shape[1] < width:
            raise ValueError(f"X has shape {X.shape}; the range file lists features up to number {width}.")
        varies = self.maximum != self.minimum
        columns, low, high = self.index[varies], self.minimum[varies], self.maximum[varies]
        values = X[:, columns]
        scaled = self.lower + (self.upper - self.lower) * ((values - low) / (high - low))
        result = np.where(np.isnan(X), np.nan, 0.0)
        result[:, columns] = np.where(values == low, self.lower, np.where(values == high, self.upper, scaled))
        return result


def read_range(path: str | os.PathLike[str]) -> RangeFile:
    r"""Read a range file that ``svm-scale -s`` or kompakt wrote.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    RangeFile

    Raises
    ------
    ModelFileError
        For anything that is no range file; the message names the line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from kompakt.io import read_range
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "iris.range")
    ...     _ = path.write_text("x\n-1 1\n1 4.3 7.9\n2 2 4.4\n")
    ...     read_range(path).maximum
    array([7.9, 4.4])
    """
    with opened(path) as (file, _):
        return parse_range(file)


def parse_range(file: BinaryIO) -> RangeFile:
    """The range file of an open file."""

    def short_lines() -> Iterator[bytes]:
        while line := file.readline(_MAX_RANGE_LINE):
            require(len(line) < _MAX_RANGE_LINE, "not a range file of svm-scale, which has short lines.")
            yield line

    with _numbered(short_lines()) as lines:
        filled = filter(None, lines)

        def following(what: str) -> list[bytes]:
            tokens = next(filled, None)
            if tokens is None:
                raise ModelFileError(f"the file ends where {what} should stand; it is no range file of svm-scale.")
            return tokens

        def pair(tokens: list[bytes]) -> tuple[float, float]:
            if len(tokens) != 2:
                raise ValueError(f"{len(tokens)} values; expected 2")
            return _number(tokens[0]), _number(tokens[1])

        tokens = following("x")
        target = None
        if tokens == [b"y"]:
            target = (*pair(following("limits of y")), *pair(following("range of y")))
            tokens = following("x")
        if tokens != [b"x"]:
            raise ValueError(f"expected 'x', got {_shown(b' '.join(tokens))}")
        lower, upper = pair(following("lower and upper limit"))
        if not lower < upper:
            raise ValueError(f"the lower limit {lower} is not below the upper limit {upper}")
        index: list[int] = []
        extents: list[tuple[float, float]] = []
        for feature, *extent in filled:
            if len(extent) != 2:
                raise ValueError(f"{1 + len(extent)} values; expected 3")
            index.append(_integer(feature) - 1)
            extents.append(pair(extent))
            if index[-1] <= (index[-2] if len(index) > 1 else -1):
                raise ValueError(f"feature numbers start at 1 and must increase; got {index[-1] + 1}")
            if extents[-1][0] > extents[-1][1]:
                raise ValueError(f"the minimum {extents[-1][0]} is above the maximum {extents[-1][1]}")
    low, high = np.array(extents, dtype=np.float64).reshape(-1, 2).T
    return RangeFile(lower, upper, np.array(index, dtype=np.int64), low, high, target)


def format_range(ranges: RangeFile) -> str:
    """The text of a range file; numbers are written so that they read back exactly."""
    extents = zip((ranges.index + 1).tolist(), ranges.minimum.tolist(), ranges.maximum.tolist(), strict=True)
    lines = [f"{number} {low!r} {high!r}\n" for number, low, high in extents]
    return "".join([f"x\n{ranges.lower!r} {ranges.upper!r}\n", *lines])


def range_text(model: Model) -> str:
    """The file for ``svm-scale -r``: feature minimum -> 0 and maximum -> 1, so x' = (x - min) / (max - min)."""
    shift = np.zeros(model.n_features) if model.inputs.shift is None else model.inputs.shift
    scale = np.ones(model.n_features) if model.inputs.scale is None else model.inputs.scale
    kept = np.isfinite(scale)
    if np.any(scale[kept] < 0):
        raise UnsupportedModelError(
            f"the scale is negative for feature {int(np.argmax(scale < 0))}; a range file of minimum and maximum "
            "cannot turn a feature round. Change its sign in the data and in the model's basis."
        )
    low, high = np.where(kept, shift, 0.0), np.where(kept, shift + scale, 0.0)  # equal: svm-scale skips the feature
    if np.any(np.abs((high - low)[kept] - scale[kept]) > 1e-9 * np.abs(scale[kept])):
        raise UnsupportedModelError(
            "a feature's shift is so large beside its scale that a range file of minimum and maximum loses it. "
            "Centre the data before fitting."
        )
    return format_range(RangeFile(0, 1, np.arange(model.n_features), low, high))
