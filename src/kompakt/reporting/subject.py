"""What a report is about: the machine behind whatever was given, and the rows it is shown on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from kompakt.estimators.compression import as_model
from kompakt.model import Model

Array = np.ndarray


@dataclass(frozen=True)
class Subject:
    """The machine, the estimator that trained it (None for a bare `Model`), and what was done to reach it."""

    model: Model
    estimator: Any
    name: str
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sample:
    """Rows and targets that everything is measured on."""

    X: Any  # dense or CSR
    y: Array  # class numbers (n,), or values (n, L)
    n_given: int
    classes: list[str]  # names of the class numbers; empty for regression
    counts: Array  # rows of each class, among all given
    feature_names: list[str]
    notes: list[str]

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])


def subject_of(given: Any, X: Any) -> tuple[Subject, Any]:
    """The machine to report on, and X as that machine wants it.

    A pipeline whose steps can be put into a model (scalers) is one machine; otherwise its last step is reported on the
    rows that the steps before it make.
    """
    name = type(given).__name__
    if isinstance(given, Model):
        source = given.meta.get("estimator") or given.meta.get("source")
        return Subject(given, None, str(source) if source else f"kompakt {given.kind}"), X
    if hasattr(given, "fit") and not isinstance(given, type):
        check_is_fitted(given)
    inner = getattr(given, "best_estimator_", given)
    if not hasattr(inner, "steps"):
        return Subject(as_model(inner), inner, type(inner).__name__), X
    last = inner.steps[-1][1]
    last = getattr(last, "best_estimator_", last)
    try:
        return Subject(as_model(inner), last, type(last).__name__), X
    except TypeError:
        model = as_model(last)
        steps = " → ".join(type(step).__name__ for _, step in inner.steps[:-1])
        note = f"The machine is the last step of a pipeline; features are what {steps} makes of the given columns."
        return Subject(model, last, f"{name} with {type(last).__name__}", [note]), inner[:-1].transform(X)


def sample_of(subject: Subject, X: Any, y: Any, max_rows: int, seed: int) -> Sample:
    """Check the rows and targets, and take at most `max_rows` of them at random."""
    model = subject.model
    names = _names(subject, X)
    finite: Any = True if model.input_fill is None else "allow-nan"
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=finite)
    if X.shape[1] != model.n_features:
        raise ValueError(f"X has {X.shape[1]} features, but the machine expects {model.n_features}.")
    y = np.asarray(y)
    if len(y) != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows and y {len(y)}; expected one target per row.")
    notes: list[str] = []
    classes: list[str] = []
    counts = np.zeros(0, dtype=np.intp)
    if model.kind == "regressor":
        y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        if y.shape[1] != model.weights.shape[1]:
            raise ValueError(f"y has {y.shape[1]} outputs, but the machine has {model.weights.shape[1]}.")
        if not np.isfinite(y).all():
            raise ValueError("y holds NaN or infinite values; drop those rows.")
    else:
        y, classes = _class_numbers(model, y, notes)
        counts = np.bincount(y, minlength=len(classes))
    n = X.shape[0]
    if n > max_rows:
        kept = np.sort(np.random.default_rng(seed).choice(n, max_rows, replace=False))
        X, y = X[kept], y[kept]
        notes.append(f"Measured on {max_rows:,} of the {n:,} given rows, drawn at random.")
    return Sample(X, y, n, classes, counts, names, notes)


def _names(subject: Subject, X: Any) -> list[str]:
    """Feature names: the machine's, the estimator's, the table's, or numbers."""
    model = subject.model
    for names in (model.feature_names, getattr(subject.estimator, "feature_names_in_", None)):
        if names is not None and len(names) == model.n_features:
            return [str(name) for name in names]
    columns = getattr(X, "columns", None)
    if columns is not None and len(columns) == model.n_features:
        return [str(name) for name in columns]
    return [f"feature {number}" for number in range(model.n_features)]


def _class_numbers(model: Model, y: Array, notes: list[str]) -> tuple[Array, list[str]]:
    """Class numbers of the labels; labels that the machine does not know get numbers after its own."""
    known = np.array([-1, 1]) if model.classes is None else model.classes
    if y.ndim != 1:
        raise ValueError(f"y must have one label per row; got shape {y.shape}.")
    if y.dtype.kind != known.dtype.kind:  # as when a file gave text and the machine was trained on numbers
        try:
            y = y.astype(str if known.dtype.kind in "UO" else known.dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"labels of type {y.dtype} cannot be compared with the machine's ({known.dtype}): {known[:5].tolist()}."
            ) from error
    own = {label: number for number, label in enumerate(known.tolist())}
    labels, inverse = np.unique(y, return_inverse=True)
    strangers = [label for label in labels.tolist() if label not in own]
    if len(strangers) == len(labels):
        raise ValueError(
            f"no label in y is known to the machine: y has {strangers[:5]}, the machine {known[:5].tolist()}."
        )
    if strangers:
        notes.append(f"{len(strangers)} label(s) in y are unknown to the machine; their rows count as errors.")
    numbers = own | {label: len(own) + i for i, label in enumerate(strangers)}
    return np.array([numbers[label] for label in labels.tolist()])[inverse.ravel()], [str(label) for label in numbers]


def moments_of(X: Any) -> tuple[Array, Array]:
    """Mean and variance of every column over its known values; zeros for a column without any."""
    if sparse.issparse(X):
        mean = np.asarray(X.mean(axis=0)).ravel()
        return mean, np.maximum(0.0, np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2)
    known = np.isfinite(X)
    count = np.maximum(1, known.sum(axis=0))
    mean = np.where(known, X, 0.0).sum(axis=0) / count
    return mean, np.sum(np.where(known, X - mean, 0.0) ** 2, axis=0) / count


def seems_trained_on(subject: Subject, X: Any) -> bool:
    """Whether the basis rows are found in X where the fit took them: then X holds the training rows."""
    indices = getattr(subject.estimator, "basis_indices_", None)
    vectors = getattr(subject.estimator, "basis_vectors_", None)
    if indices is None or vectors is None or not len(indices) or max(indices) >= X.shape[0]:
        return False
    rows = X[indices]
    rows = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
    return rows.shape == vectors.shape and bool(np.array_equal(rows, vectors))
