"""Exact held-out residuals of ridge least squares, four ways that differ in cost only.

With A = Phi' S Phi + P, e = Y - Phi w the residuals of the fit to all rows, and v the rows of a fold:

* downdate: solve A - Phi_v' S_v Phi_v anew for each fold (seed 002, eqs. 20 and 21);
* hat: the held-out residuals are (I - H_vv)^-1 e_v with H = S^(1/2) Phi A^-1 Phi' S^(1/2) (in residuals times
  S^(1/2)); with one row per fold this is e_i / (1 - h_ii);
* iterate: the same system by conjugate gradients, H_vv applied as two products with the rows of the fold and
  one solve with the factor of A that all folds share. I - H_vv has its eigenvalues in (0, 1], nearly all
  close to 1, so some ten steps reach rounding; the cost hardly depends on the number of folds.

A fold that all but determines some direction alone makes I - H_vv nearly singular; it is refitted from the
other rows, because subtracting it from the whole would lose the digits that matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import lapack

from kompakt.validate._ridge import CholeskyFactor, FloatArray, SortedFolds, add_gram, add_penalty

# Below this share of what is left (1 - leverage), cancellation costs more than 7 of 16 digits: refit instead.
LEAST_REMAINDER = 1e-7
# The same for conjugate gradients, whose curvatures bound the smallest eigenvalue from above only.
LEAST_CURVATURE = 1e-5
MAX_STEPS = 60
STEP_TOLERANCE = 1e-14
# Folds up to this many rows are handled many at a time.
SMALL_FOLD = 24


class Factor(Protocol):
    """A solved normal matrix A."""

    def solve(self, right: FloatArray) -> FloatArray:
        """A^-1 right."""
        ...

    def whitened(self, rows: FloatArray) -> FloatArray:
        """Rows u with u u' = rows A^-1 rows'."""
        ...


@dataclass
class FoldSums:
    """Per-fold sums of the normal equations, which add up to those of the whole: nothing is computed twice.

    Attributes
    ----------
    grams : ndarray of shape (n_folds, p, p)
        Weighted Gram matrix of each fold, upper triangles.
    rights : ndarray of shape (n_folds, p, L)
        Weighted products of features and targets.
    rest_gram, rest_right : ndarray
        The same for rows that are never held out.
    """

    grams: FloatArray
    rights: FloatArray
    rest_gram: FloatArray
    rest_right: FloatArray

    @classmethod
    def zeros(cls, n_folds: int, p: int, n_outputs: int) -> FoldSums:
        """Empty sums."""
        return cls(
            np.zeros((n_folds, p, p)),
            np.zeros((n_folds, p, n_outputs)),
            np.zeros((p, p)),
            np.zeros((p, n_outputs)),
        )

    @classmethod
    def of(cls, problem: SortedFolds) -> FoldSums:
        """Sums of sorted rows."""
        sums = cls.zeros(problem.n_folds, problem.features.shape[1], problem.targets.shape[1])
        rest = slice(0, int(problem.starts[0]))
        sums.add(-1, problem.scaled[rest], problem.scaled_targets[rest])
        for v in range(problem.n_folds):
            rows = problem.fold(v)
            sums.add(v, problem.scaled[rows], problem.scaled_targets[rows])
        return sums

    def add(self, fold: int, scaled: FloatArray, scaled_targets: FloatArray) -> None:
        """Add rows (times the square roots of their weights) to a fold, -1 for the rows never held out."""
        gram, right = (self.rest_gram, self.rest_right) if fold < 0 else (self.grams[fold], self.rights[fold])
        add_gram(gram, scaled)
        right += scaled.T @ scaled_targets

    def held_out_weights(self, penalty: FloatArray, folds: Iterable[int] | None = None) -> FloatArray:
        """Weights (n_folds, p, L) of the fit without each fold."""
        total = self.rest_gram + self.grams.sum(axis=0)
        add_penalty(total, penalty)
        right = self.rest_right + self.rights.sum(axis=0)
        chosen = range(len(self.grams)) if folds is None else list(folds)
        weights = np.empty((len(chosen), *right.shape))
        work = np.empty_like(total)
        for position, v in enumerate(chosen):
            factor = CholeskyFactor(lambda v=v: self._without(v, total, penalty, work), _name(v))  # type: ignore[misc]
            weights[position] = factor.solve(right - self.rights[v])
        return weights

    def _without(self, fold: int, total: FloatArray, penalty: FloatArray, work: FloatArray) -> FloatArray:
        """Normal matrix without a fold: seed 002, eq. (20), or the sum of the others when that cancels."""
        np.subtract(total, self.grams[fold], out=work)
        if (work.diagonal() < LEAST_REMAINDER * total.diagonal()).any():
            work[...] = self.rest_gram
            for other in range(len(self.grams)):
                if other != fold:
                    work += self.grams[other]
            add_penalty(work, penalty)
        return work


def _name(fold: int) -> str:
    return f"The normal matrix without fold {fold}"


def downdated(problem: SortedFolds, penalty: FloatArray, sums: FoldSums | None = None) -> FloatArray:
    """Held-out residuals (n, L) by one factorisation per fold; NaN for rows never held out."""
    sums = FoldSums.of(problem) if sums is None else sums
    weights = sums.held_out_weights(penalty)
    residuals = np.full(problem.targets.shape, np.nan)
    for v in range(problem.n_folds):
        rows = problem.fold(v)
        residuals[rows] = problem.targets[rows] - problem.features[rows] @ weights[v]
    return residuals


def refit(problem: SortedFolds, penalty: FloatArray, residuals: FloatArray, folds: Iterable[int]) -> None:
    """Overwrite the residuals of some folds by honest refits to all other rows."""
    Z, T = problem.scaled, problem.scaled_targets
    for v in folds:
        rows = problem.fold(v)

        def build(rows: slice = rows) -> FloatArray:
            matrix = np.zeros((Z.shape[1],) * 2)
            add_gram(matrix, Z[: rows.start])
            add_gram(matrix, Z[rows.stop :])
            add_penalty(matrix, penalty)
            return matrix

        right = Z[: rows.start].T @ T[: rows.start] + Z[rows.stop :].T @ T[rows.stop :]
        weights = CholeskyFactor(build, _name(v)).solve(right)
        residuals[rows] = problem.targets[rows] - problem.features[rows] @ weights


def hat_blocks(problem: SortedFolds, factor: Factor, fitted: FloatArray) -> tuple[FloatArray, list[int]]:
    """Held-out residuals by the hat-matrix block of each fold, from the residuals of the whole fit.

    Returns the residuals and the folds that must be refitted.
    """
    residuals = np.full(problem.targets.shape, np.nan)
    bad: list[int] = []
    for first, last in _groups(problem, 2048):
        rows = slice(int(problem.starts[first]), int(problem.starts[last]))
        whitened = factor.whitened(problem.features[rows])
        root = None if problem.root is None else problem.root[rows, None]
        scaled = whitened if root is None else whitened * root
        right = fitted[rows] if root is None else fitted[rows] * root
        sizes = problem.sizes[first:last]
        offsets = problem.starts[first:last] - problem.starts[first]
        for size in np.unique(sizes):
            members = np.flatnonzero(sizes == size)
            index = offsets[members][:, None] + np.arange(size)
            solve = _small_blocks if size <= SMALL_FOLD else _large_blocks
            answer, healthy = solve(scaled, right, index)
            bad.extend((first + members[~healthy]).tolist())
            flat = index.reshape(-1)
            # e_v + Phi_v A^-1 Z_v' t equals t / S^(1/2) but also holds for rows of weight zero.
            if root is None:
                residuals[rows][flat] = answer.reshape(len(flat), -1)
            else:
                moved = np.swapaxes(scaled[index], 1, 2) @ answer
                change = (whitened[index] @ moved).reshape(len(flat), -1)
                residuals[rows][flat] = fitted[rows][flat] + change
    return residuals, bad


def _groups(problem: SortedFolds, n_rows: int) -> list[tuple[int, int]]:
    """Consecutive folds of about n_rows rows in all (at least one fold each)."""
    steps = (problem.starts[:-1] - problem.starts[0]) // n_rows
    edges = np.flatnonzero(np.diff(steps, prepend=-1))
    return list(zip(edges.tolist(), [*edges[1:].tolist(), problem.n_folds], strict=True))


def _small_blocks(scaled: FloatArray, right: FloatArray, index: np.ndarray) -> tuple[FloatArray, np.ndarray]:
    """(I - H_vv)^-1 right_v for many small folds of one size; the eigenvalues tell which are healthy."""
    U = scaled[index]
    values, vectors = np.linalg.eigh(np.eye(index.shape[1]) - U @ np.swapaxes(U, 1, 2))
    healthy = values[:, 0] > LEAST_REMAINDER
    values = np.where(healthy[:, None], values, 1.0)
    coefficients = (np.swapaxes(vectors, 1, 2) @ right[index]) / values[:, :, None]
    return vectors @ coefficients, healthy


def _large_blocks(scaled: FloatArray, right: FloatArray, index: np.ndarray) -> tuple[FloatArray, np.ndarray]:
    """The same, one fold at a time by Cholesky."""
    answer = np.empty((*index.shape, right.shape[1]))
    healthy = np.ones(len(index), dtype=bool)
    for position, rows in enumerate(index):
        block = slice(int(rows[0]), int(rows[-1]) + 1)
        # The transpose of U is wanted C-ordered, so that its Gram matrix is U U'.
        matrix = np.eye(len(rows))
        add_gram(matrix, np.ascontiguousarray(scaled[block].T), sign=-1.0)
        lower, info = lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
        healthy[position] = info == 0 and (lower.diagonal() ** 2).min() > LEAST_REMAINDER
        answer[position] = lapack.dpotrs(lower, right[block], lower=1)[0] if healthy[position] else np.nan
    return answer, healthy


def iterated(problem: SortedFolds, factor: Factor, fitted: FloatArray) -> tuple[FloatArray, list[int]]:
    """Held-out residuals by conjugate gradients on (I - H_vv) t = S^(1/2) e_v, all folds and outputs at once.

    Returns the residuals and the folds that did not converge.
    """
    base = int(problem.starts[0])
    starts = problem.starts[:-1] - base
    right = fitted[base:] if problem.root is None else fitted[base:] * problem.root[base:, None]

    def per_fold(values: FloatArray) -> FloatArray:
        return np.add.reduceat(values, starts, axis=0)

    def spread(values: FloatArray) -> FloatArray:
        return np.repeat(values, problem.sizes, axis=0)

    solution, residual = right.copy(), _apply_hat(problem, factor, right)  # start at t = e: r = H e
    direction = residual.copy()
    square = per_fold(residual**2)
    target = STEP_TOLERANCE**2 * per_fold(right**2)
    fraught = np.zeros(problem.n_folds, dtype=bool)
    for _ in range(MAX_STEPS):
        active = square > target
        if not active.any():
            break
        image = direction - _apply_hat(problem, factor, direction)
        curvature = per_fold(direction * image)
        fraught |= (active & (curvature <= LEAST_CURVATURE * per_fold(direction**2))).any(axis=1)
        step = np.where(active & (curvature > 0), square / np.where(curvature > 0, curvature, 1.0), 0.0)
        solution += spread(step) * direction
        residual -= spread(step) * image
        previous, square = square, per_fold(residual**2)
        ratio = np.where(active, square / np.where(previous > 0, previous, 1.0), 0.0)
        direction = residual + spread(ratio) * direction
    # Rounding may stop the recursion a little above the target; a hundred times it is still below 1e-11.
    bad = np.flatnonzero(fraught | ~(square <= 1e4 * target).all(axis=1))
    residuals = np.full(problem.targets.shape, np.nan)
    if problem.root is None:
        residuals[base:] = solution
    else:  # e_v + Phi_v A^-1 Z_v' t also holds for rows of weight zero
        residuals[base:] = fitted[base:] + _apply_hat(problem, factor, solution, scaled=False)
    return residuals, bad.tolist()


def _apply_hat(problem: SortedFolds, factor: Factor, rows: FloatArray, scaled: bool = True) -> FloatArray:
    """H_vv times the rows of each fold; with scaled=False Phi_v A^-1 Z_v' instead of Z_v A^-1 Z_v'."""
    base, n_outputs = int(problem.starts[0]), rows.shape[1]
    inner = np.empty((problem.n_folds, problem.features.shape[1], n_outputs))
    for v in range(problem.n_folds):
        here = problem.fold(v)
        inner[v] = problem.scaled[here].T @ rows[here.start - base : here.stop - base]
    # One solve for all folds and outputs together.
    side_by_side = np.moveaxis(inner, 0, 1).reshape(inner.shape[1], -1)
    solved = factor.solve(side_by_side).reshape(inner.shape[1], problem.n_folds, n_outputs)
    left = problem.scaled if scaled else problem.features
    result = np.empty_like(rows)
    for v in range(problem.n_folds):
        here = problem.fold(v)
        result[here.start - base : here.stop - base] = left[here] @ solved[:, v]
    return result
