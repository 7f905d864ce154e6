"""Small machines whose features bend, with and without a map, on rows of all kinds."""

from __future__ import annotations

import functools

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kompakt import CompactSVC, CompactSVR
from kompakt.kernels import RBF, BentRBF, MappedRBF
from kompakt.piecewise import PiecewiseLinear

METRICS = ("one width", "widths", "map", "low map")
TASKS = ("two classes", "three classes", "regression")


@functools.cache
def data(task="regression"):
    """Rows of a normal, a two-valued, a four-valued and a skewed feature, far from the origin, and targets."""
    rng = np.random.default_rng(0)
    n = 200
    X = np.column_stack(
        [rng.normal(size=n), rng.integers(0, 2, n), rng.integers(0, 4, n), rng.exponential(size=n) ** 3]
    )
    score = np.sin(2 * X[:, 0]) + X[:, 1] - 0.4 * X[:, 2] + np.log1p(X[:, 3])
    X = X * [1.0, 2.0, 1.0, 0.5] + [3.0, 0.0, -2.0, 10.0]
    if task == "regression":
        return X, score
    if task == "two classes":
        return X, np.where(score > 0.5, "high", "low")
    return X, np.digitize(score, [0.0, 1.0]) + 4


def bent_kernel(metric="map", seed=1):
    """Bends whose knots are quantiles of the centred rows, with slopes of both signs."""
    rng = np.random.default_rng(seed)
    X = data()[0]
    identity = PiecewiseLinear.identity(X - X.mean(axis=0))
    bends = identity.with_slopes(rng.normal(0.6, 0.7, identity.slopes.shape))
    inner = {
        "one width": RBF(0.4),
        "widths": RBF(np.array([0.2, 0.0, 0.5, 0.7])),
        "map": MappedRBF(0.5 * rng.normal(size=(4, 4))),
        "low map": MappedRBF(0.5 * rng.normal(size=(2, 4))),
    }[metric]
    return BentRBF(inner, bends)


@functools.cache
def fitted(metric="map", task="regression", scaled=False, **options):
    """A machine with such a kernel, its vectors chosen among the rows."""
    kind = CompactSVR if task == "regression" else CompactSVC
    options = {"C": 0.03} | options
    machine = kind(8, kernel=bent_kernel(metric), selection="random", refine=False, random_state=0, **options)
    return (make_pipeline(StandardScaler(), machine) if scaled else machine).fit(*data(task))


def decisions(machine, X):
    return machine.predict(X) if not hasattr(machine, "classes_") else machine.decision_function(X)
