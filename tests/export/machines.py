"""Forty-two small fitted machines: seven kernels, two classes / three classes / regression, scaled or not."""

from __future__ import annotations

import functools
import itertools

import numpy as np
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kompakt import CompactSVC, CompactSVR
from kompakt.kernels import RBF, Laplacian, Linear, Polynomial

KERNELS = {
    "rbf": RBF(0.4),
    "rbf per feature": RBF(np.array([0.2, 0.0, 0.5, 1.1])),
    "laplacian": Laplacian(0.3),
    "poly": Polynomial(0.02, 1.0, 3),
    "linear": Linear(),
    "1 + rbf": 1.0 + RBF(0.7) * 1.3,
    "rbf * poly + laplacian": RBF(0.2) * Polynomial(0.02, 0.5, 2) + 0.7 * Laplacian(0.4),
}
#: constants at every depth, beside a kernel of dot products and one width per feature
CONSTANTS = (2.0 + 0.5 * Linear()) * (1.0 + RBF(np.array([0.2, 0.0, 0.5, 1.1]))) * 1.5 + 0.25
TASKS = ("two classes", "three classes", "regression")
CASES = list(itertools.product(KERNELS, TASKS, (False, True)))
IDS = [f"{kernel}, {task}{', scaled' if scaled else ''}" for kernel, task, scaled in CASES]
LIBSVM_CASES = [case for case in CASES if "laplacian" not in case[0]]
LIBSVM_IDS = [name for name, case in zip(IDS, CASES, strict=True) if case in LIBSVM_CASES]


@functools.cache
def data(task):
    X, y = load_iris(return_X_y=True)
    if task == "regression":
        return X, X @ [0.3, -0.2, 1.0, 0.5] + np.sin(3 * X[:, 2])
    if task == "two classes":
        X, y = X[50:], y[50:]
        return X, np.array(["versicolor", "virginica"])[y - 1]
    return X, y + 4


@functools.cache
def fitted(kernel, task, scaled):
    X, y = data(task)
    kind = CompactSVR if task == "regression" else CompactSVC
    # A small C, because large weights that cancel leave float32 fewer digits, whatever computes with it.
    machine = kind(8, kernel=KERNELS[kernel], selection="random", refine=False, random_state=0, C=0.003)
    return (make_pipeline(StandardScaler(), machine) if scaled else machine).fit(X, y)


def decisions(machine, X):
    return machine.predict(X) if not hasattr(machine, "classes_") else machine.decision_function(X)
