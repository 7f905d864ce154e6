"""Plain re-implementations of the steps of Barcenas, Gonzalez-Lima and Quiroz, row by row."""

import math

import numpy as np
from sklearn.svm import SVC


def distance(a, b):
    return math.sqrt(sum((x - z) ** 2 for x, z in zip(a, b, strict=True)))


def kth_distance(V, j, k):
    others = sorted(distance(V[j], V[i]) for i in range(len(V)) if i != j)
    return others[k - 1]


def balls(X, centres, radius, allowed):
    return [[i for i in range(len(X)) if allowed[i] and distance(X[i], c) <= radius] for c in centres]


def eta(radii):
    total = sum(1 / rho for rho in radii)
    return [(1 / rho) / total for rho in radii]


def support_union(X, y, subsamples, **words):
    rows = set()
    for subsample in subsamples:
        if len(set(y[subsample])) > 1:
            rows |= set(subsample[SVC(**words).fit(X[subsample], y[subsample]).support_].tolist())
    return sorted(rows)


def nearest(X, row, pool, k):
    """The row itself and its k nearest others in the pool."""
    by_distance = sorted(pool, key=lambda i: (distance(X[i], X[row]), i))
    return set(by_distance[: k + 1])


def error(machine, X, y):
    return float(np.mean(machine.predict(X) != y))
