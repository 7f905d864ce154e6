"""What LIBSVM wrote: its text models, as records and as kompakt's models, and the range files of ``svm-scale``.

A model is a header of keywords, then the line ``SV``, then one line per support vector: nr_class - 1 coefficients and
the non-zero features as ``index:value``.  The decision value of the pair (i, j), i < j in the order of `labels`, is

    sum over vectors of class i: coef[j - 1] k(x, sv)  +  sum over vectors of class j: coef[i] k(x, sv)  -  rho[i, j]

and votes for class i where it is positive.  Regression and one-class models have one row of coefficients.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from kompakt.codings import class_pairs
from kompakt.io.container import ModelFileError, UnsupportedModelError
from kompakt.io.files import opened
from kompakt.kernels import RBF, Kernel, Linear, Polynomial
from kompakt.model import Model

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
    lines = enumerate(text, start=1)
    header = _read_header(lines)
    coef, vectors = _read_vectors(lines, header, first)
    fields = {LISTS.get(key, key): value for key, value in header.items() if key not in ("nr_class", "total_sv")}
    return LibsvmModel(vectors=vectors, coef=coef, **fields)


def _integer(token: bytes) -> int:
    value = int(_strict(token))
    if abs(value) > _MAX_INDEX:
        raise ValueError(f"{token[:40]!r} is beyond the integers of LIBSVM")
    return value


def _number(token: bytes) -> float:
    value = float(_strict(token))
    if not math.isfinite(value):
        raise ValueError(f"{token[:40]!r} is no finite number")
    return value


def _strict(token: bytes) -> bytes:
    if b"_" in token:  # Python reads 1_000 as a number; LIBSVM does not
        raise ValueError(f"{token[:40]!r} is no number")
    return token


def _ascii(token: bytes) -> str:
    return token.decode("ascii")


#: how the values of each keyword are read
_KEYWORDS: dict[str, Callable[[bytes], Any]] = {
    "svm_type": _ascii, "kernel_type": _ascii, "degree": _integer, "gamma": _number, "coef0": _number,
    "nr_class": _integer, "total_sv": _integer, "rho": _number, "label": _integer, "probA": _number, "probB": _number,
    "prob_density_marks": _number, "nr_sv": _integer,
}  # fmt: skip
#: keywords with a list of values, in the order in which they are written, and their fields in a record
LISTS = {
    "rho": "rho", "label": "labels", "probA": "prob_a", "probB": "prob_b", "prob_density_marks": "density_marks",
    "nr_sv": "n_vectors",
}  # fmt: skip


def _read_header(lines: Iterator[tuple[int, bytes]]) -> dict[str, Any]:
    header: dict[str, Any] = {}
    for number, line in lines:
        tokens = line.split()
        if not tokens:
            continue
        key = tokens[0].decode("ascii", "replace")
        if key == "SV":
            _check_header(header)
            return header
        if key not in _KEYWORDS:
            raise ModelFileError(f"line {number}: {_shown(tokens[0])} is no keyword of a LIBSVM model.")
        if key in header:
            raise ModelFileError(f"line {number}: {key} is given twice.")
        parse = _KEYWORDS[key]
        try:
            if key not in LISTS and len(tokens) != 2:
                raise ValueError(f"expected one value, got {len(tokens) - 1}")
            values = [parse(token) for token in tokens[1:]]
        except ValueError as error:  # UnicodeDecodeError is one
            raise ModelFileError(f"line {number}: {key} is not valid: {_shown(str(error).encode())}.") from None
        kind = np.int64 if parse is _integer else np.float64
        header[key] = np.array(values, dtype=kind) if key in LISTS else values[0]
    raise ModelFileError("the header does not end: a LIBSVM model has a line 'SV' before its vectors.")


def _shown(text: bytes) -> str:
    """A piece of an unknown file, short and printable."""
    return repr(text[:60].decode("ascii", "backslashreplace"))


def _check_header(header: dict[str, Any]) -> None:
    """What every keyword says, and the lengths of the lists.

    Lengths are compared with what is there, so a large nr_class costs nothing.
    """
    for key in ("svm_type", "kernel_type", "nr_class", "total_sv", "rho"):
        if key not in header:
            raise ModelFileError(f"the header lacks {key}.")
    svm_type, kernel, classes = header["svm_type"], header["kernel_type"], header["nr_class"]
    if svm_type not in SVM_TYPES:
        raise ModelFileError(f"unknown svm_type {svm_type[:40]!r}; expected one of {', '.join(SVM_TYPES)}.")
    if kernel in _REASONS:
        raise UnsupportedModelError(f"kernel_type {kernel} cannot be used: {_REASONS[kernel]}.")
    if kernel not in KERNELS:
        raise ModelFileError(f"unknown kernel_type {kernel[:40]!r}; expected one of {', '.join(KERNELS)}.")
    for key in KERNELS[kernel]:
        if key not in header:
            raise ModelFileError(f"a {kernel} kernel needs {key} in the header.")
    if classes < 1 or header["total_sv"] < 0:
        raise ModelFileError("nr_class must be at least 1 and total_sv at least 0.")
    lengths: dict[str, int | None] = {"rho": 1}
    if svm_type in CLASSIFIERS:
        pairs = classes * (classes - 1) // 2
        lengths = {"rho": pairs, "label": classes, "nr_sv": classes, "probA": pairs, "probB": pairs}
        for key in ("label", "nr_sv"):
            if key not in header:
                raise ModelFileError(f"a classifier needs {key} in the header.")
        if ("probA" in header) != ("probB" in header):
            raise ModelFileError("probA and probB of a classifier belong together.")
    elif classes != 2:
        raise ModelFileError(f"{svm_type} is written with nr_class 2; got {classes}.")
    else:
        lengths |= {"probA": 1} if svm_type in REGRESSORS else {"prob_density_marks": None}
    for key in filter(header.__contains__, LISTS):
        if key not in lengths:
            raise ModelFileError(f"{key} has no meaning in a model of type {svm_type}.")
        if lengths[key] not in (None, len(header[key])):
            raise ModelFileError(f"{key} has {len(header[key])} values; {classes} classes need {lengths[key]}.")
    if svm_type in CLASSIFIERS:
        if len(set(header["label"].tolist())) != classes:
            raise ModelFileError("label holds the same label twice.")
        if header["nr_sv"].min() < 0 or header["nr_sv"].sum() != header["total_sv"]:
            raise ModelFileError(f"nr_sv must count the {header['total_sv']} vectors of total_sv.")


def _read_vectors(
    lines: Iterator[tuple[int, bytes]], header: dict[str, Any], first: int
) -> tuple[np.ndarray, sparse.csr_matrix]:
    """Coefficients (nr_class - 1, total_sv) and the support vectors, as sparse as the file."""
    width = header["nr_class"] - 1
    coef: list[list[float]] = []
    values: list[float] = []
    columns: list[int] = []
    ends = [0]
    for number, line in lines:
        tokens = line.split()
        if not tokens and (width or len(coef) == header["total_sv"]):
            continue
        if len(coef) == header["total_sv"]:
            raise ModelFileError(f"line {number}: more vectors than total_sv {header['total_sv']}.")
        if len(tokens) < width:
            raise ModelFileError(f"line {number}: {len(tokens)} values; expected {width} coefficients and features.")
        try:
            coef.append([_number(token) for token in tokens[:width]])
            last = -1
            for token in tokens[width:]:
                index, colon, value = token.partition(b":")
                if not colon:
                    raise ValueError(f"expected index:value, got {token[:40]!r}")
                column = _integer(index) - first
                if column <= last:
                    reason = f"indices start at {first}" if column < 0 else "indices must increase"
                    raise ValueError(f"feature index {column + first}: {reason}")
                last = column
                columns.append(column)
                values.append(_number(value))
        except ValueError as error:
            raise ModelFileError(f"line {number}: {_shown(str(error).encode())}.") from None
        ends.append(len(columns))
    if len(coef) != header["total_sv"]:
        raise ModelFileError(f"the file has {len(coef)} vectors; total_sv says {header['total_sv']}.")
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
    kernel: Kernel = Linear()
    try:
        if record.kernel_type == "rbf":
            kernel = RBF(record.gamma)
        elif record.kernel_type == "polynomial":
            kernel = Polynomial(record.gamma, record.coef0, record.degree)  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"the kernel is not valid: {error}") from None
    # Far from the origin, distances of float32 rows would be rounding errors: they are formed around the vectors' mean.
    offset = basis.mean(axis=0, dtype=np.float64) if kernel.shift_invariant and m else None
    return Model(kernel, basis, kind=kind, n_features=d, offset=offset, meta=meta, **fields)


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
        given = X[:, columns]
        scaled = self.lower + (self.upper - self.lower) * ((given - low) / (high - low))
        result = np.where(np.isnan(X), np.nan, 0.0)
        result[:, columns] = np.where(given == low, self.lower, np.where(given == high, self.upper, scaled))
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
    lines = _range_lines(file)

    def following(what: str) -> tuple[int, list[bytes]]:
        found = next(lines, None)
        if found is None:
            raise ModelFileError(f"the file ends where {what} should stand; it is no range file of svm-scale.")
        return found

    number, tokens = following("x")
    target = None
    if tokens == [b"y"]:
        limits = _values(following("limits of y"), (_number, _number))
        target = (*limits, *_values(following("range of y"), (_number, _number)))
        number, tokens = following("x")
    if tokens != [b"x"]:
        raise ModelFileError(f"line {number}: expected 'x', got {_shown(b' '.join(tokens))}.")
    lower, upper = _values(following("lower and upper limit"), (_number, _number))
    if not lower < upper:
        raise ModelFileError(f"the lower limit {lower} is not below the upper limit {upper}.")
    index: list[int] = []
    extents: list[tuple[float, float]] = []
    for line in lines:
        feature, minimum, maximum = _values(line, (_integer, _number, _number))
        if feature - 1 <= (index[-1] if index else -1):
            raise ModelFileError(f"line {line[0]}: feature numbers start at 1 and must increase; got {feature}.")
        if minimum > maximum:
            raise ModelFileError(f"line {line[0]}: the minimum {minimum} is above the maximum {maximum}.")
        index.append(feature - 1)
        extents.append((minimum, maximum))
    low, high = np.array(extents, dtype=np.float64).reshape(-1, 2).T
    return RangeFile(lower, upper, np.array(index, dtype=np.int64), low, high, target)


def _range_lines(file: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
    """Number and values of each line that is not empty."""
    for number, line in enumerate(iter(lambda: file.readline(_MAX_RANGE_LINE), b""), start=1):
        if len(line) == _MAX_RANGE_LINE:
            raise ModelFileError(f"line {number} has more than {_MAX_RANGE_LINE} bytes; a range file has short lines.")
        if tokens := line.split():
            yield number, tokens


def _values(line: tuple[int, list[bytes]], parsers: Sequence[Callable[[bytes], Any]]) -> tuple[Any, ...]:
    number, tokens = line
    if len(tokens) != len(parsers):
        raise ModelFileError(f"line {number}: {len(tokens)} values; expected {len(parsers)}.")
    try:
        return tuple(parse(token) for parse, token in zip(parsers, tokens, strict=True))
    except ValueError as error:
        raise ModelFileError(f"line {number}: {_shown(str(error).encode())}.") from None
