"""One width per feature by leave-one-out: widths that generalise where there are few rows for a basis.

Learning widths on the training objective is safe while rows are many for every basis vector; with a few hundred rows
that objective is lowest for widths that fit the noise.  The leave-one-out error of kernel ridge regression on a sample
of rows has a closed form, e_i = a_i / M_ii with M = (K + lambda S^-1)^-1 and a = M y, and so has its gradient: with
u_i = 2 s_i e_i / M_ii and v_i = 2 s_i e_i^2 / M_ii, it is dE/dK = M diag(v) M - (M u) a', one product of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from kompakt.data import ArrayRows
from kompakt.kernels import RBF

Array = np.ndarray

#: rows of the sample: the cost of an evaluation is cubic in it
SAMPLE_ROWS = 800
#: a width may change by this much in its logarithm, from the start
_RANGE = 6.0
#: relative price of unequal widths, per squared difference of logarithms: few rows cannot tell many widths apart
_PRICE = 0.003


@dataclass(frozen=True)
class Widths:
    """The widths found, and what they are worth on the sample."""

    gamma: Array  # (d,)
    C: float  # of the least-squares machine on all rows of the sample
    error_before: float  # leave-one-out mean squared error of one width for all features
    error: float
    n_evaluations: int
    n_kernel_evals: int


def leave_one_out(parameters: Array, X: Array, Y: Array, s: Array) -> tuple[float, Array]:
    """Weighted mean leave-one-out error and its gradient at (log gamma_1 .. log gamma_d, log C).

    Parameters
    ----------
    parameters : ndarray of shape (d + 1,)
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, L)
        Centred targets.
    s : ndarray of shape (n,)
        Weights.
    """
    kernel, ridge = RBF(np.exp(parameters[:-1])), np.exp(-parameters[-1]) / s
    K = kernel.gram(X)
    M = cho_solve(cho_factor(K + np.diag(ridge)), np.eye(len(X)))
    a, diagonal = M @ Y, np.diag(M)[:, None]
    errors = a / diagonal
    u = 2.0 * s[:, None] * errors / diagonal
    v = np.sum(u * errors, axis=1)
    d_K = (M * v) @ M - (M @ u) @ a.T
    total = float(s.sum())
    d_ridge = -float(np.sum(np.diag(d_K) * ridge))
    gradient = np.append(kernel.gradients(X, X, K, d_K)[1], d_ridge)
    return float(np.sum(s[:, None] * errors**2)) / total, gradient / total


def priced(parameters: Array, X: Array, Y: Array, s: Array) -> tuple[float, Array]:
    """The leave-one-out error times exp(price * spread of the log widths), and its gradient."""
    error, gradient = leave_one_out(parameters, X, Y, s)
    away = parameters[:-1] - np.mean(parameters[:-1])
    factor = float(np.exp(_PRICE * (away @ away)))
    return error * factor, factor * (gradient + 2.0 * _PRICE * error * np.append(away, 0.0))


def leave_one_out_widths(rows: ArrayRows, gamma: float, C: float, *, key: int, max_iter: int = 50) -> Widths:
    """Widths with the smallest leave-one-out error of kernel ridge regression on a sample of rows.

    Parameters
    ----------
    rows : ArrayRows
        With targets; classes are treated as targets -1 and 1.
    gamma, C : float
        Where the search starts.
    key : int
        Seed of the sample, which is drawn by content.
    max_iter : int
        Iterations of L-BFGS.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.search.widths import leave_one_out_widths
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> found = leave_one_out_widths(ArrayRows(X, np.sin(2 * X[:, :1])), 1 / 3, 10.0, key=0)
    >>> bool(found.gamma[0] > 10 * max(found.gamma[1:]))
    True
    """
    part = rows.subset(np.sort(rows.smallest(key, min(SAMPLE_ROWS, rows.n_rows))))
    values: Any = part.take(np.arange(part.n_rows))
    X = np.asarray(values.toarray() if part.is_sparse else values, dtype=np.float64)
    X = X - X.mean(axis=0)
    Y = np.asarray(part.targets, dtype=np.float64)
    s = np.ones(len(X)) if part.weights is None else part.weights
    s = s if s.ndim == 1 else s.max(axis=1)
    s = s / s.mean()
    Y = Y - np.average(Y, axis=0, weights=s)
    start = np.append(np.full(X.shape[1], np.log(gamma)), np.log(C))
    before = leave_one_out(start, X, Y, s)[0]
    bounds = [(value - _RANGE, value + _RANGE) for value in start]
    found = minimize(priced, start, (X, Y, s), "L-BFGS-B", True, bounds=bounds, options={"maxiter": max_iter})
    best = found.x if found.fun < before else start
    evaluations = int(found.nfev) + 2
    return Widths(
        np.exp(best[:-1]),
        float(np.exp(best[-1])),
        before,
        leave_one_out(best, X, Y, s)[0],
        evaluations,
        evaluations * len(X) ** 2,
    )
