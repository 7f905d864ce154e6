"""LIBSVM's text models: the record, its reader and its text.

A file is a header of keywords, then the line ``SV``, then one line per support vector: nr_class - 1 coefficients and
the non-zero features as ``index:value``.  The decision value of the pair (i, j), i < j in the order of `labels`, is

    sum over vectors of class i: coef[j - 1] k(x, sv)  +  sum over vectors of class j: coef[i] k(x, sv)  -  rho[i, j]

and votes for class i where it is positive.  Regression and one-class models have one row of coefficients.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.formats.errors import ModelFileError, UnsupportedModelError
from kompakt.formats.files import opened

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
    >>> from kompakt.formats import LibsvmModel, to_model
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


# -- reading ---------------------------------------------------------------------------------------------


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
    >>> from kompakt.formats import read_libsvm
    >>> text = "svm_type one_class\nkernel_type linear\nnr_class 2\ntotal_sv 1\nrho 0.3\nSV\n1 1:2 3:4\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model")
    ...     _ = path.write_text(text)
    ...     read_libsvm(path).vectors.toarray()
    array([[2., 0., 4.]])
    """
    with opened(path) as (file, _):
        lines = enumerate(file, start=1)
        header = _read_header(lines)
        coef, vectors = _read_vectors(lines, header, 0 if zero_based else 1)
    return LibsvmModel(
        svm_type=header["svm_type"],
        kernel_type=header["kernel_type"],
        vectors=vectors,
        coef=coef,
        rho=header["rho"],
        labels=header.get("label"),
        n_vectors=header.get("nr_sv"),
        gamma=header.get("gamma"),
        coef0=header.get("coef0"),
        degree=header.get("degree"),
        prob_a=header.get("probA"),
        prob_b=header.get("probB"),
        density_marks=header.get("prob_density_marks"),
    )


def _strict(token: bytes) -> bytes:
    if b"_" in token:  # Python reads 1_000 as a number; LIBSVM does not
        raise ValueError(f"{token[:40]!r} is no number")
    return token


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


def _single(parse: Callable[[bytes], Any]) -> Callable[[list[bytes]], Any]:
    def one(tokens: list[bytes]) -> Any:
        if len(tokens) != 1:
            raise ValueError(f"expected one value, got {len(tokens)}")
        return parse(tokens[0])

    return one


_PARSERS: dict[bytes, Callable[[list[bytes]], Any]] = {
    b"svm_type": _single(lambda token: token.decode("ascii")),
    b"kernel_type": _single(lambda token: token.decode("ascii")),
    b"degree": _single(_integer),
    b"gamma": _single(_number),
    b"coef0": _single(_number),
    b"nr_class": _single(_integer),
    b"total_sv": _single(_integer),
    b"rho": lambda tokens: np.array([_number(token) for token in tokens], dtype=np.float64),
    b"label": lambda tokens: np.array([_integer(token) for token in tokens], dtype=np.int64),
    b"nr_sv": lambda tokens: np.array([_integer(token) for token in tokens], dtype=np.int64),
    b"probA": lambda tokens: np.array([_number(token) for token in tokens], dtype=np.float64),
    b"probB": lambda tokens: np.array([_number(token) for token in tokens], dtype=np.float64),
    b"prob_density_marks": lambda tokens: np.array([_number(token) for token in tokens], dtype=np.float64),
}


def _read_header(lines: Iterator[tuple[int, bytes]]) -> dict[str, Any]:
    header: dict[str, Any] = {}
    for number, line in lines:
        tokens = line.split()
        if not tokens:
            continue
        word = tokens[0]
        if word == b"SV":
            _check_header(header)
            return header
        parser = _PARSERS.get(word)
        if parser is None:
            raise ModelFileError(f"line {number}: {_shown(word)} is no keyword of a LIBSVM model.")
        key = word.decode("ascii")
        if key in header:
            raise ModelFileError(f"line {number}: {key} is given twice.")
        try:
            header[key] = parser(tokens[1:])
        except ValueError as error:  # UnicodeDecodeError is one
            raise ModelFileError(f"line {number}: {key} is not valid: {_shown(str(error).encode())}.") from None
    raise ModelFileError("the header does not end: a LIBSVM model has a line 'SV' before its vectors.")


def _shown(text: bytes) -> str:
    """A piece of an unknown file, short and printable."""
    return repr(text[:60].decode("ascii", "backslashreplace"))


def _check_header(header: dict[str, Any]) -> None:
    for key in ("svm_type", "kernel_type", "nr_class", "total_sv", "rho"):
        if key not in header:
            raise ModelFileError(f"the header lacks {key}.")
    if header["svm_type"] not in SVM_TYPES:
        raise ModelFileError(f"unknown svm_type {header['svm_type'][:40]!r}; expected one of {', '.join(SVM_TYPES)}.")
    kernel = header["kernel_type"]
    if kernel in _REASONS:
        raise UnsupportedModelError(f"kernel_type {kernel} cannot be used: {_REASONS[kernel]}.")
    if kernel not in KERNELS:
        raise ModelFileError(f"unknown kernel_type {kernel[:40]!r}; expected one of {', '.join(KERNELS)}.")
    for key in KERNELS[kernel]:
        if key not in header:
            raise ModelFileError(f"a {kernel} kernel needs {key} in the header.")
    if header["nr_class"] < 1 or header["total_sv"] < 0:
        raise ModelFileError("nr_class must be at least 1 and total_sv at least 0.")
    _check_counts(header)


def _check_counts(header: dict[str, Any]) -> None:
    """Lengths of the lists; they are compared with what is there, so a large nr_class costs nothing."""
    classes, is_classifier = header["nr_class"], header["svm_type"] in CLASSIFIERS
    pairs = classes * (classes - 1) // 2 if is_classifier else 1
    expected = {"rho": pairs}
    if is_classifier:
        for key in ("label", "nr_sv"):
            if key not in header:
                raise ModelFileError(f"a classifier needs {key} in the header.")
        expected |= {"label": classes, "nr_sv": classes, "probA": pairs, "probB": pairs}
        if ("probA" in header) != ("probB" in header):
            raise ModelFileError("probA and probB of a classifier belong together.")
    elif classes != 2:
        raise ModelFileError(f"{header['svm_type']} is written with nr_class 2; got {classes}.")
    elif header["svm_type"] in REGRESSORS:
        expected["probA"] = 1
    allowed = {*expected, "prob_density_marks"} if header["svm_type"] == "one_class" else set(expected)
    for key in ("rho", "label", "nr_sv", "probA", "probB", "prob_density_marks"):
        if key in header and key not in allowed:
            raise ModelFileError(f"{key} has no meaning in a model of type {header['svm_type']}.")
        if key in header and key in expected and len(header[key]) != expected[key]:
            raise ModelFileError(f"{key} has {len(header[key])} values; {classes} classes need {expected[key]}.")
    if is_classifier:
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
            _read_features(tokens[width:], first, columns, values)
        except ValueError as error:
            raise ModelFileError(f"line {number}: {_shown(str(error).encode())}.") from None
        ends.append(len(columns))
    if len(coef) != header["total_sv"]:
        raise ModelFileError(f"the file has {len(coef)} vectors; total_sv says {header['total_sv']}.")
    shape = (len(coef), max(columns, default=-1) + 1)
    vectors = sparse.csr_matrix((np.array(values), np.array(columns, dtype=np.int64), np.array(ends)), shape=shape)
    return np.array(coef, dtype=np.float64).reshape(len(coef), width).T, vectors


def _read_features(tokens: list[bytes], first: int, columns: list[int], values: list[float]) -> None:
    last = -1
    for token in tokens:
        index, colon, value = token.partition(b":")
        if not colon:
            raise ValueError(f"expected index:value, got {token[:40]!r}")
        column = _integer(index) - first
        if column <= last:
            reason = f"indices start at {first}" if column < 0 else "indices must increase"
            raise ValueError(f"feature index {_integer(index)}: {reason}")
        last = column
        columns.append(column)
        values.append(_number(value))


# -- writing ---------------------------------------------------------------------------------------------


def _parameter(record: LibsvmModel, key: str) -> str:
    value = getattr(record, key)
    return str(int(value)) if key == "degree" else repr(float(value))


def format_libsvm(record: LibsvmModel) -> Iterator[bytes]:
    """The text of a record, in pieces; numbers are written so that they read back exactly."""
    head: list[tuple[str, Any]] = [
        ("svm_type", [record.svm_type]),
        ("kernel_type", [record.kernel_type]),
        *((key, [_parameter(record, key)]) for key in KERNELS[record.kernel_type]),
        ("nr_class", [str(len(record.coef) + 1)]),
        ("total_sv", [str(record.vectors.shape[0])]),
        ("rho", map(repr, record.rho.tolist())),
    ]
    lists = {
        "label": record.labels,
        "probA": record.prob_a,
        "probB": record.prob_b,
        "prob_density_marks": record.density_marks,
        "nr_sv": record.n_vectors,
    }
    head += [(key, map(repr, values.tolist())) for key, values in lists.items() if values is not None]
    for key, words in head:
        yield " ".join([key, *words]).encode("ascii") + b"\n"
    yield b"SV\n"
    vectors = record.vectors.tocsr()
    for row, coef in enumerate(record.coef.T.tolist()):
        part = slice(vectors.indptr[row], vectors.indptr[row + 1])
        features = zip(vectors.indices[part].tolist(), vectors.data[part].tolist(), strict=True)
        words = [*map(repr, coef), *(f"{column + 1}:{value!r}" for column, value in features if value)]
        yield " ".join(words).encode("ascii") + b"\n"
