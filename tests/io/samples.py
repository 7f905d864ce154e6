"""Small models that use every field, and a direct transcription of LIBSVM's decision rule."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from kompakt import Model, to_libsvm
from kompakt.codings import get_coding
from kompakt.inputs import Inputs
from kompakt.kernels import RBF, Laplacian, Linear, Polynomial


def make_model(
    kind="classifier", classes=None, *, kernel=None, coding="one_vs_rest", n_outputs=1, m=7, d=4, seed=0, **more
):
    rng = np.random.default_rng(seed)
    if kind == "classifier":
        classes = np.arange(3) if classes is None else np.asarray(classes)
        n_outputs = get_coding(coding).n_outputs(len(classes)) if len(classes) > 1 else 1
    return Model(
        kernel if kernel is not None else RBF(0.4),
        rng.normal(size=(m, d)),
        rng.normal(size=(m, n_outputs)),
        0.3 * rng.normal(size=n_outputs),
        kind,
        n_features=d,
        classes=classes,
        coding=coding if kind == "classifier" else None,
        **more,
    )


def full_classifier():
    """Every optional field at once."""
    return make_model(
        classes=["Äpfel", "", "birnen 🍐"],
        kernel=0.5 + RBF(np.array([0.1, 0.2, 0.0, 0.7])) * Laplacian(0.3) + Polynomial(0.1, 1.0, 2),
        inputs=Inputs(
            shift=np.array([0.5, -1.0, 0.0, 2.0]),
            scale=np.array([2.0, 0.5, 1.0, 3.0]),
            fill=np.array([0.0, 1.0, 2.0, 3.0]),
            centre=np.array([0.1, 0.2, 0.3, 0.4]),
        ),
        feature_names=np.array(["length", "width", "größe", "d"]),
        calibration={"a": np.array([-1.0, -2.0, -0.5]), "b": np.array([0.1, 0.0, -0.2])},
        meta={"n_rows": 120, "loss": "squared_hinge", "path": [1, 2.5, None, True], "limit": float("inf")},
    )


def float32_regressor():
    """Single precision, two outputs."""
    model = make_model("regressor", n_outputs=2, kernel=Polynomial(0.25, 1.0, 3), squeeze=False)
    return Model(
        model.kernel, model.basis.astype(np.float32), model.weights.astype(np.float32), model.intercept,
        "regressor", n_features=4, squeeze=False,
    )  # fmt: skip


def outlier_detector():
    return make_model("outlier", kernel=Linear(), squeeze=True)


def rows(n=40, d=4, seed=1):
    return np.random.default_rng(seed).normal(size=(n, d)) * 1.5


def write_libsvm(model, path):
    """The report of `to_libsvm`, and its files: `model`, `range` and `labels`, None where one was not needed."""
    report = to_libsvm(model, path)
    files = {str(file).removeprefix(str(path)): file for file in report.files}
    return SimpleNamespace(report=report, model=files[""], range=files.get(".range"), labels=files.get(".labels"))


def libsvm_values(record, X):
    """Decision values of LIBSVM, one vector and one pair at a time, as its manual describes them."""
    Z = np.zeros((record.vectors.shape[0], X.shape[1]))
    Z[:, : record.vectors.shape[1]] = record.vectors.toarray()
    if record.kernel_type == "rbf":
        K = np.exp(-record.gamma * ((X[:, None] - Z) ** 2).sum(axis=2))
    else:
        K = X @ Z.T
        if record.kernel_type == "polynomial":
            K = (record.gamma * K + record.coef0) ** record.degree
    if not record.is_classifier:
        return K @ record.coef.T - record.rho
    owner = np.repeat(np.arange(len(record.labels)), record.n_vectors)
    columns = []
    for i in range(len(record.labels)):
        for j in range(i + 1, len(record.labels)):
            value = np.zeros(len(X))
            for s in range(len(Z)):
                if owner[s] == i:
                    value += record.coef[j - 1, s] * K[:, s]
                elif owner[s] == j:
                    value += record.coef[i, s] * K[:, s]
            columns.append(value - record.rho[len(columns)])
    return np.column_stack(columns) if columns else np.empty((len(X), 0))


def libsvm_labels(record, X):
    """LIBSVM's votes; ties go to the label listed first. Also whether a row was decided by such a tie."""
    values, k = libsvm_values(record, X), len(record.labels)
    votes = np.zeros((len(X), k), dtype=int)
    column = 0
    for i in range(k):
        for j in range(i + 1, k):
            winner = np.where(values[:, column] > 0, i, j)
            votes[np.arange(len(X)), winner] += 1
            column += 1
    tied = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) > 1
    return record.labels[votes.argmax(axis=1)], tied
