"""Exact v-fold cross-validation of ridge least squares at about the cost of one fit (seed 002, section 6.1).

The model of fold v minimises sum_i s_i |y_i - phi_i w|^2 + w' P w over the rows outside fold v.
Every method gives the residuals of refitting, to rounding; "auto" takes the cheapest for the shape at hand.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh, solve_triangular

from kompakt.validate._fold_methods import Factor, FoldSums, downdated, hat_blocks, iterated, refit
from kompakt.validate._ridge import (
    CholeskyFactor,
    DiagonalFactor,
    FloatArray,
    Restriction,
    SortedFolds,
    add_penalty,
    checked_amounts,
    checked_problem,
    sorted_folds,
)

__all__ = ["CV_METHODS", "cheapest_method", "cross_validated_path", "cross_validated_residuals"]

CV_METHODS = ("auto", "downdate", "hat", "iterate")
logger = logging.getLogger(__name__)


def cross_validated_residuals(
    Phi: ArrayLike,
    Y: ArrayLike,
    fold_of_row: ArrayLike,
    penalty: ArrayLike,
    weights: ArrayLike | None = None,
    method: str = "auto",
    constraints: tuple[ArrayLike, ArrayLike] | None = None,
) -> NDArray[np.float64]:
    """Residual of every row under the ridge model trained without the row's fold.

    Parameters
    ----------
    Phi : array of shape (n, p)
        Features; a column of ones makes an intercept.
    Y : array of shape (n,) or (n, n_outputs)
        Targets; all outputs share the factorisations.
    fold_of_row : int array of shape (n,)
        Fold of each row, 0, 1, ...; -1 marks rows that are always trained on, so a hold-out estimate is one
        fold of validation rows with all other rows at -1. As many folds as rows gives leave-one-out.
    penalty : float or array of shape (p,) or (p, p)
        Ridge penalty: one number, a diagonal (0 leaves a column free) or a matrix. In terms of C it is 1 / C.
    weights : array of shape (n,), optional
        Row weights; a row of weight 0 is predicted but never trained on.
    method : {"auto", "downdate", "hat", "iterate"}
        How to compute it; all give the same numbers.
    constraints : (array of shape (k, p), int array of shape (k,)), optional
        Rows g and the fold of each: the model of fold v keeps ``g w = 0`` for the rows of fold v. So a fold can be left
        without features that were made from its own rows.

    Returns
    -------
    ndarray shaped like Y
        Y minus the out-of-fold prediction; NaN for rows of fold -1.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.validate import cross_validated_residuals
    >>> Phi, Y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> held_out = cross_validated_residuals(Phi, Y, np.arange(3), penalty=1.0)
    >>> bool(np.isclose(held_out[2], 4.0 - 3.0 * (1 * 1 + 2 * 2) / (1 + 4 + 1.0)))
    True
    """
    features = _checked_features(Phi)
    n, p = features.shape
    targets, fold, amounts, sample_weight = checked_problem(n, p, Y, fold_of_row, penalty, weights)
    problem = sorted_folds(features, targets, fold, sample_weight, constraints)
    method = _resolved(method, problem)
    if method == "downdate":
        residuals = downdated(problem, amounts)
    else:
        gram = problem.gram()

        def build() -> FloatArray:
            matrix = gram.copy()
            add_penalty(matrix, amounts)
            return matrix

        factor = CholeskyFactor(build, "The normal matrix of all rows")
        residuals = _from_factor(problem, factor, amounts, method)
    return _in_order(problem, residuals).reshape(np.shape(Y))


def cross_validated_path(
    Phi: ArrayLike,
    Y: ArrayLike,
    fold_of_row: ArrayLike,
    penalties: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    shape: ArrayLike = 1.0,
    method: str = "auto",
    constraints: tuple[ArrayLike, ArrayLike] | None = None,
) -> NDArray[np.float64]:
    """Out-of-fold residuals for many amounts of the same penalty, sharing the Gram matrix.

    One symmetric eigendecomposition turns the features so that the normal matrix is diagonal for every
    amount; the residuals of the whole fit, the leverages and the hat-matrix blocks need no factorisation.

    Parameters
    ----------
    Phi, Y, fold_of_row, weights, method, constraints
        As for `cross_validated_residuals`.
    penalties : array of shape (n_penalties,)
        Positive amounts.
    shape : float or array of shape (p,) or (p, p)
        The penalty is amount * shape; a 0 on the diagonal leaves that column free.

    Returns
    -------
    ndarray of shape (n_penalties, *Y.shape)
        Residuals.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.validate import cross_validated_path
    >>> rng = np.random.default_rng(0)
    >>> Phi = rng.normal(size=(30, 4))
    >>> Y = Phi @ [1.0, -1.0, 0.0, 0.0] + 0.1 * rng.normal(size=30)
    >>> path = cross_validated_path(Phi, Y, np.arange(30) % 5, [1e-3, 1.0, 1e3])
    >>> int(np.argmin((path**2).mean(axis=1)))
    0
    """
    features = _checked_features(Phi)
    n, p = features.shape
    targets, fold, unit, sample_weight = checked_problem(n, p, Y, fold_of_row, shape, weights)
    amounts = checked_amounts(penalties)
    problem = sorted_folds(features, targets, fold, sample_weight, constraints)
    method = _resolved(method, problem, n_penalties=len(amounts))
    result = np.empty((len(amounts), *targets.shape))
    if method == "downdate":
        sums = FoldSums.of(problem)
        for k, amount in enumerate(amounts):
            result[k] = _in_order(problem, downdated(problem, amount * unit, sums))
        return result.reshape(len(amounts), *np.shape(Y))
    for group in _groups_of_like_size(amounts):
        middle = float(np.exp(np.log(amounts[group]).mean()))
        rotated, share = _diagonalised(problem, middle * unit)
        for k in group:
            penalty = (amounts[k] / middle) * share
            factor = DiagonalFactor((1.0 - share) + penalty)
            result[k] = _in_order(problem, _from_factor(rotated, factor, penalty, method))
    return result.reshape(len(amounts), *np.shape(Y))


def cheapest_method(fold_sizes: ArrayLike, p: int, n_outputs: int = 1, n_penalties: int = 1) -> str:
    """Method of `cross_validated_residuals` that costs least for these shapes.

    Costs are counted in multiplications and additions at matrix-product speed. The factors before the terms
    were measured against `Phi' Phi` (n = 19,000, p = 700): a Cholesky factorisation runs at half that
    speed, a triangular solve at two thirds, and a pass of conjugate gradients is bound by memory.

    Parameters
    ----------
    fold_sizes : int array of shape (n_folds,)
        Rows per fold.
    p : int
        Number of features.
    n_outputs : int
        Number of outputs.
    n_penalties : int
        Number of penalties that share the Gram matrix (`cross_validated_path`).

    Returns
    -------
    {"downdate", "hat", "iterate"}
        The method.

    Examples
    --------
    >>> from kompakt.validate import cheapest_method
    >>> cheapest_method([1] * 1000, 100), cheapest_method([3800] * 5, 700), cheapest_method([260] * 50, 2000)
    ('hat', 'downdate', 'iterate')
    """
    sizes = np.asarray(fold_sizes, dtype=np.float64)
    n = sizes.sum()
    one_off = 0.0 if n_penalties == 1 else 12.0 * p**3 + 2.0 * n * p**2  # eigenvectors, rotation
    whitening = 1.5 * n * p**2 if n_penalties == 1 else 4.0 * n * p
    downdate = n_penalties * len(sizes) * (0.7 * p**3 + 40.0 * p**2)
    blocks = (1.2 * p * sizes**2 + 0.7 * sizes**3).sum()
    hat = one_off + n_penalties * (whitening + blocks)
    steps = _expected_steps(sizes.max() / n, min(p / n, 1.0))
    per_step = (25.0 + 6.0 * n_outputs) * n * p + 4.0 * p**2 * n_outputs * len(sizes) + 2e6 * len(sizes)
    iterate = one_off + n_penalties * (steps + 2) * per_step
    costs = {"downdate": downdate, "hat": hat, "iterate": iterate}
    return min(costs, key=costs.__getitem__)


def _expected_steps(fold_share: float, feature_share: float) -> float:
    """Conjugate-gradient steps to rounding, from the largest eigenvalue of H_vv for rows in general position.

    For a random projection of rank p among n coordinates, restricted to a share a of them, the eigenvalues
    end at (sqrt(a (1 - b)) + sqrt(b (1 - a)))^2 with b = p / n (the edge of the Jacobi ensemble).
    """
    a, b = fold_share, feature_share
    edge = 1.0 if a + b >= 1 else min((np.sqrt(a * (1 - b)) + np.sqrt(b * (1 - a))) ** 2, 1.0)
    if edge > 0.999:
        return np.inf
    root = np.sqrt(1.0 / (1.0 - edge))
    rate = max((root - 1.0) / (root + 1.0), 1e-4)
    return float(np.log(1e-12) / np.log(rate))


def _resolved(method: str, problem: SortedFolds, n_penalties: int = 1) -> str:
    if method not in CV_METHODS:
        raise ValueError(f"Unknown method {method!r}; choose from {', '.join(map(repr, CV_METHODS))}.")
    if method == "auto":
        p, n_outputs = problem.features.shape[1], problem.targets.shape[1]
        method = cheapest_method(problem.sizes, p, n_outputs, n_penalties)
        logger.debug("cross-validation of %d folds, %d features: %s", problem.n_folds, p, method)
    return method


def _checked_features(Phi: ArrayLike) -> NDArray[Any]:
    features = np.asarray(Phi)
    if features.ndim != 2 or 0 in features.shape:
        raise ValueError(f"Phi must have shape (n, p) with n, p >= 1, got {features.shape}.")
    if not np.issubdtype(features.dtype, np.floating):
        features = features.astype(np.float64)
    if not np.isfinite(features).all():
        raise ValueError("Phi holds NaN or infinite values; mend or drop those rows.")
    return features


def _from_factor(problem: SortedFolds, factor: Factor, penalty: FloatArray, method: str) -> FloatArray:
    """Held-out residuals, in sorted order, from the solved normal matrix of all rows."""
    weights = factor.solve(problem.scaled.T @ problem.scaled_targets)
    fitted = problem.residuals(weights)
    restrictions = {v: Restriction(factor, rows) for v, rows in enumerate(problem.constraints or ()) if len(rows)}
    for v, restriction in restrictions.items():
        fitted[problem.fold(v)] += problem.features[problem.fold(v)] @ restriction.change(weights)
    run = hat_blocks if method == "hat" else iterated
    residuals, bad = run(problem, factor, fitted, restrictions)
    if bad:
        logger.debug("%d folds refitted: each all but determines a direction alone", len(bad))
        refit(problem, penalty, residuals, bad)
    return residuals


def _in_order(problem: SortedFolds, residuals: FloatArray) -> FloatArray:
    result = np.empty_like(residuals)
    result[problem.order] = residuals
    return result


def _groups_of_like_size(amounts: FloatArray) -> list[list[int]]:
    """Indices of amounts in groups that span at most 8 powers of ten.

    In the rotated coordinates an amount c away from the middle c0 loses a factor c / c0 (or its inverse) of
    precision, so a group loses 4 digits of 16 at worst.
    """
    groups: list[list[int]] = []
    smallest = 0.0
    for k in np.argsort(amounts, kind="stable").tolist():
        if not groups or amounts[k] > 1e8 * smallest:
            groups.append([])
            smallest = amounts[k]
        groups[-1].append(k)
    return groups


def _diagonalised(problem: SortedFolds, penalty: FloatArray) -> tuple[SortedFolds, FloatArray]:
    """Features turned by T with T' (gram + penalty) T = I and T' penalty T = diag(share)."""
    gram = problem.gram()

    def build() -> FloatArray:
        matrix = gram.copy()
        add_penalty(matrix, penalty)
        return matrix

    lower = CholeskyFactor(build, "The normal matrix of all rows").lower
    if penalty.ndim == 2:
        half = solve_triangular(lower, penalty, lower=True)
        inner = solve_triangular(lower, half.T, lower=True)
    else:
        half = solve_triangular(lower, np.diag(np.sqrt(penalty)), lower=True)
        inner = half @ half.T
    share, vectors = eigh(inner, driver="evd")
    rotation = solve_triangular(lower, vectors, lower=True, trans="T")
    return problem.rotated(rotation), np.clip(share, 0.0, 1.0)
