"""Widths and cost by leave-one-out: what a machine takes from the data where its user gives nothing.

`width_and_cost` tries widths of a kernel and values of C; it is the default of the machines that do not learn their
widths while they refine. `leave_one_out_widths` finds one width per feature, which generalises where there are few rows
for a basis.

Learning widths on the training objective is safe while rows are many for every basis vector; with a few hundred rows
that objective is lowest for widths that fit the noise.  The leave-one-out error of kernel ridge regression on a sample
of rows has a closed form, e_i = a_i / M_ii with M = (K + lambda S^-1)^-1 and a = M y, and so has its gradient: with
u_i = 2 s_i e_i / M_ii and v_i = 2 s_i e_i^2 / M_ii, it is dE/dK = M diag(v) M - (M u) a', one product of matrices.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from kompakt.data import ArrayRows
from kompakt.design import Design
from kompakt.heldout import no_worse
from kompakt.kernels import RBF, Kernel, Precomputed
from kompakt.run import Run
from kompakt.solve.ridge import RidgePath
from kompakt.spec import Data

Array = np.ndarray

logger = logging.getLogger("kompakt.search")

#: rows of the sample: the cost of an evaluation is cubic in it
SAMPLE_ROWS = 800
#: fewer different rows than this say nothing of width and cost
LEAST_ROWS = 10
#: costs that `width_and_cost` tries, times the mean k(x, x), and powers of two of the first width that it may reach
_COSTS = 10.0 ** np.arange(-1.0, 6.5, 0.5)
_FARTHEST = 6
#: larger costs do not lower the error of classes, and solvers of their losses take long
_LARGEST_OF_CLASSES = 1e3
#: rows of the sample for every basis vector, where these are few
_ROWS_PER_VECTOR = 10
#: the median of the absolute value of a standard normal variable, and deviations from the middle one at which a target
#: is taken for an outlier
_MEDIAN_OF_NORMAL, _FAR = 0.6745, 5.0
#: of the sample, whatever the memory budget is, on which no model may depend
_MOST_BYTES = 1 << 28
#: a width may change by this much in its logarithm, from the start
_RANGE = 6.0
#: relative price of unequal widths, per squared difference of logarithms: few rows cannot tell many widths apart
_PRICE = 0.003


@dataclass(frozen=True)
class WidthAndCost:
    """The kernel and C found, the kernel evaluations spent, and the noise of targets, in their unit."""

    kernel: Kernel
    C: float
    n_kernel_evals: int = 0
    noise: float | None = None  # standard deviation of the leave-one-out errors by their median; None where unknown


def rows_of_sample(kernel: Kernel, n_features: int, n_basis: int | None) -> int:
    """Different rows, at most, that `width_and_cost` looks at: those with the smallest hashes."""
    limit = SAMPLE_ROWS if n_basis is None else max(SAMPLE_ROWS, _ROWS_PER_VECTOR * min(2 * n_basis, SAMPLE_ROWS))
    if isinstance(kernel, Precomputed):
        return limit
    return min(limit, max(LEAST_ROWS, _MOST_BYTES // (8 * n_features)))  # the sample is dense


def width_and_cost(
    data: Data,
    kernel: Kernel,
    C: float | None,
    run: Run,
    *,
    n_basis: int | None = None,
    width: bool = True,
    robust: bool = False,
) -> WidthAndCost:
    """The width and C of the smallest leave-one-out squared error of ridge regression on a sample of rows.

    Regression is on the features of random basis vectors, or of the whole sample: few vectors want a wider kernel. They
    are twice as many as the machine will have, since chosen vectors do what about two random ones do. With the
    eigenvectors of the features' Gram matrix the error of every C costs a product of matrices. From the width given the
    search goes by factors of four to the side where the error falls, and in the end by two. Classes are targets -1 and
    1 of one output each; their squared error is far less noisy than a share of wrong labels. Equal rows are one row of
    their weight and mean target, so that none predicts itself.

    Parameters
    ----------
    data : Data
        Rows in memory with labels or targets.
    kernel : Kernel
        Where the search begins.
    C : float, optional
        The cost where it is given.
    run : Run
        Its key chooses the sample, by content.
    n_basis : int, optional
        Size of the machine; None for one on all rows.
    width : bool
        Whether the width may change.
    robust : bool
        Whether targets far from the middle ones are drawn in: those that the machine's loss does not follow must not
        choose for it.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.kernels import RBF
    >>> from kompakt.run import Run
    >>> from kompakt.search.widths import width_and_cost
    >>> from kompakt.spec import Data
    >>> X = np.random.default_rng(0).normal(size=(200, 1))
    >>> found = width_and_cost(Data(ArrayRows(X, np.sin(5 * X))), RBF(1.0), None, Run())
    >>> bool(found.kernel.gamma > 1.0), found.C > 10.0
    (True, True)
    """
    rows = data.in_memory
    m = SAMPLE_ROWS if n_basis is None else min(2 * n_basis, SAMPLE_ROWS)
    limit = rows_of_sample(kernel, rows.n_features, n_basis)
    distinct, first, place = np.unique(rows.hashes(run.key), return_index=True, return_inverse=True)
    n = min(limit, len(distinct))
    if n < LEAST_ROWS:
        return WidthAndCost(kernel, 1.0 if C is None else C)
    of_sample, place = place < n, place[place < n]
    s = (np.ones(rows.n_rows) if data.row_weights is None else data.row_weights)[of_sample]
    mass = np.bincount(place, s, n)
    if data.labels is None:
        row_targets = np.asarray(data.targets, dtype=np.float64)[of_sample]
    else:
        labels = data.labels[of_sample]
        row_targets = np.where(labels[:, None] == np.unique(labels), 1.0, -1.0)
    Y = np.column_stack([np.bincount(place, s * column, n) for column in row_targets.T]) / mass[:, None]
    if robust:
        middle = np.median(Y, axis=0)
        reach = _FAR * np.median(np.abs(Y - middle), axis=0) / _MEDIAN_OF_NORMAL
        Y = np.where(reach > 0, np.clip(Y, middle - reach, middle + reach), Y)
    Y -= np.average(Y, axis=0, weights=mass)
    spread = np.ones(Y.shape[1])
    if data.labels is None:  # outputs of any unit count alike
        largest = np.max(np.abs(Y), axis=0)  # first, since squares of tiny numbers vanish
        largest[largest == 0] = 1.0
        Y /= largest
        deviation = np.maximum(np.sqrt(np.average(Y**2, axis=0, weights=mass)), 1e-300)
        Y /= deviation
        spread = largest * deviation
    unit = float(mass.mean())
    root = np.sqrt(mass / unit)[:, None]
    Y *= root
    m = n if 2 * m > n else m
    sample = ArrayRows(rows.take(first[:n]))
    sample.numbers = first[:n] if rows.numbers is None else rows.numbers[first[:n]]
    vectors = kernel.take_basis(sample, np.arange(m))
    scale = max(float(np.mean(np.diag(kernel.gram(vectors)))), 1e-300)
    costs = (_COSTS if data.labels is None else _COSTS[_COSTS <= _LARGEST_OF_CLASSES]) / scale
    costs = costs if C is None else np.array([C * unit])
    # a basis vector is a function of its own for its row, which flatters the row's error unless all rows have one
    judged = slice(0 if m == n else m, n)

    def errors(step: int) -> Array:
        """Squared errors (costs, rows) with the first width times a power of two."""
        design = Design(sample, kernel.scaled(2.0**step), vectors, whiten=True, store=True)
        features = root * design.matrix.astype(np.float64)
        path = RidgePath.of(features.T @ features)
        features = features @ path.rotation
        products, squares = features.T @ Y, features**2
        of_costs = []
        for cost in costs:
            inverse = 1.0 / path.normal(1.0 / cost)
            remainder = np.maximum(1.0 - squares[judged] @ inverse, 1e-12)[:, None]
            residual = (Y[judged] - features[judged] @ (inverse[:, None] * products)) / remainder
            with np.errstate(over="ignore"):  # a cost that has no finite error is not chosen
                of_costs.append(np.mean(residual**2, axis=1))
        return np.asarray(np.nan_to_num(np.array(of_costs), nan=np.inf, posinf=np.inf))

    errors_of_step = {0: errors(0)}

    def means(step: int) -> Array:
        """Mean errors without their last digits, which depend on the order of the rows: ties must not."""
        return np.array([float(f"{error:.9g}") for error in errors_of_step[step].mean(axis=1)])

    def least(step: int) -> tuple[float, int, int]:
        return float(means(step).min()), abs(step), step

    best = 0
    if width and kernel.scaled(2.0) is not kernel:
        errors_of_step |= {-2: errors(-2), 2: errors(2)}
        best = min(errors_of_step, key=least)
        while abs(best) < _FARTHEST and best in (min(errors_of_step), max(errors_of_step)):
            farther = best + (2 if best > 0 else -2)
            errors_of_step[farther] = errors(farther)
            best = min(errors_of_step, key=least)
        errors_of_step |= {step: errors(step) for step in (best - 1, best + 1)}
        best = min(errors_of_step, key=least)
    lowest = int(np.argmin(means(best)))
    if not width:  # a machine that learns its widths fits more closely: the least cost that is as good up to chance
        of_costs = errors_of_step[best]
        least_cost = (cost for cost in range(len(costs)) if no_worse(of_costs[cost], of_costs[lowest]))
        lowest = next(least_cost, 0)
    best_setting = kernel.scaled(2.0**best), float(costs[lowest]) / unit
    typical = errors_of_step[best][lowest]
    if least(best)[0] >= float(np.mean(Y[judged] ** 2)):  # the mean target does as well: nothing can be told
        best_setting, typical = (kernel, 1.0 if C is None else C), np.mean(Y[judged] ** 2, axis=1)
    noise = float(np.mean(spread) * np.sqrt(np.median(typical))) / _MEDIAN_OF_NORMAL
    logger.info("width and cost by leave-one-out on %d rows, %d vectors: %s, C=%.3g", n, m, *best_setting)
    return WidthAndCost(*best_setting, n * m * len(errors_of_step), float(f"{noise:.2g}"))


@dataclass(frozen=True)
class Widths:
    """The widths found, and what they are worth on the sample."""

    gamma: Array  # (d,)
    C: float  # of the least-squares machine on all rows of the sample
    error_before: float  # leave-one-out mean squared error of one width for all features
    error: float
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
    sample = rows.subset(np.sort(rows.smallest(key, min(SAMPLE_ROWS, rows.n_rows))))
    values: Any = sample.take(np.arange(sample.n_rows))
    X = np.asarray(values.toarray() if sample.is_sparse else values, dtype=np.float64)
    X = X - X.mean(axis=0)
    Y = np.asarray(sample.targets, dtype=np.float64)
    s = np.ones(len(X)) if sample.weights is None else sample.weights
    s = s if s.ndim == 1 else s.max(axis=1)
    s = s / s.mean()
    Y = Y - np.average(Y, axis=0, weights=s)
    start = np.append(np.full(X.shape[1], np.log(gamma)), np.log(C))
    before = leave_one_out(start, X, Y, s)[0]
    bounds = [(value - _RANGE, value + _RANGE) for value in start]
    minimum = minimize(priced, start, (X, Y, s), "L-BFGS-B", True, bounds=bounds, options={"maxiter": max_iter})
    best = minimum.x if minimum.fun < before else start
    return Widths(
        np.exp(best[:-1]),
        float(np.exp(best[-1])),
        before,
        leave_one_out(best, X, Y, s)[0],
        (int(minimum.nfev) + 2) * len(X) ** 2,
    )
