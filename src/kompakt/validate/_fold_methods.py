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

A fold may have linear constraints G_v w = 0 on its model. The fit to all rows under them has the residuals
e_v + Phi_v A^-1 G' (G A^-1 G')^-1 G w and a hat matrix from which the part along G is taken; with these in the place of
e_v and H_vv all the above holds unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from scipy.linalg import lapack

from kompakt.threads import ordered_map
from kompakt.validate._ridge import CholeskyFactor, FloatArray, Restriction, SortedFolds, add_gram, add_penalty

# Below this share of what is left (1 - leverage), cancellation costs more than 7 of 16 digits: refit instead.
LEAST_REMAINDER = 1e-7
# The same for conjugate gradients, whose curvatures bound the smallest eigenvalue from above only.
LEAST_CURVATURE = 1e-5
MAX_STEPS = 60
STEP_TOLERANCE = 1e-12
# Folds up to this many rows are handled many at a time.
SMALL_FOLD = 24
# From this many rows on, a Gram matrix is worth the temporary that a product outside the interpreter's lock needs.
# The choice must not depend on the number of threads: the sums would differ in their last bits.
MANY_ROWS = 128


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

        def one(v: int) -> None:
            rows = problem.fold(v)
            sums.add(v, problem.scaled[rows], problem.scaled_targets[rows])

        for _ in ordered_map(one, range(problem.n_folds)):  # folds are independent: side by side where threads are
            pass
        return sums

    def add(self, fold: int, scaled: FloatArray, scaled_targets: FloatArray) -> None:
        """Add rows (times the square roots of their weights) to a fold, -1 for the rows never held out."""
        gram, right = (self.rest_gram, self.rest_right) if fold < 0 else (self.grams[fold], self.rights[fold])
        if len(scaled) >= MANY_ROWS:
            gram += scaled.T @ scaled  # NumPy's product lets other threads run, SciPy's does not
        else:
            add_gram(gram, scaled)
        right += scaled.T @ scaled_targets

    def held_out_weights(self, penalty: FloatArray, constraints: list[FloatArray] | None = None) -> FloatArray:
        """Weights (n_folds, p, L) of the fit without each fold."""
        total = self.rest_gram + self.grams.sum(axis=0)
        add_penalty(total, penalty)
        right = self.rest_right + self.rights.sum(axis=0)

        def one(v: int) -> FloatArray:
            build = partial(self._without, v, total, penalty)
            factor = CholeskyFactor(build, _name(v), side_by_side=True)
            return _restricted(factor, factor.solve(right - self.rights[v]), constraints, v)

        return np.stack(list(ordered_map(one, range(len(self.grams)))))

    def _without(self, fold: int, total: FloatArray, penalty: FloatArray) -> FloatArray:
        """Normal matrix without a fold: seed 002, eq. (20), or the sum of the others when that cancels."""
        work = total - self.grams[fold]
        if (work.diagonal() < LEAST_REMAINDER * total.diagonal()).any():
            work[...] = self.rest_gram
            for other in range(len(self.grams)):
                if other != fold:
                    work += self.grams[other]
            add_penalty(work, penalty)
        return work


def _restricted(
    factor: CholeskyFactor, weights: FloatArray, constraints: list[FloatArray] | None, fold: int
) -> FloatArray:
    if constraints is None or not len(constraints[fold]):
        return weights
    return weights - Restriction(factor, constraints[fold]).change(weights)


def _name(fold: int) -> str:
    return f"The normal matrix without fold {fold}"


def downdated(problem: SortedFolds, penalty: FloatArray, sums: FoldSums | None = None) -> FloatArray:
    """Held-out residuals (n, L) by one factorisation per fold; NaN for rows never held out."""
    sums = FoldSums.of(problem) if sums is None else sums
    weights = sums.held_out_weights(penalty, problem.constraints)
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
        factor = CholeskyFactor(build, _name(v))
        weights = _restricted(factor, factor.solve(right), problem.constraints, v)
        residuals[rows] = problem.targets[rows] - problem.features[rows] @ weights


def hat_blocks(
    problem: SortedFolds, factor: Factor, fitted: FloatArray, restrictions: dict[int, Restriction]
) -> tuple[FloatArray, list[int]]:
    """Held-out residuals by the hat-matrix block of each fold, from the residuals of the whole (restricted) fit.

    Returns the residuals and the folds that must be refitted.
    """
    residuals = np.full(problem.targets.shape, np.nan)
    bad: list[int] = []
    for first, last in _groups(problem, 2048):
        rows = slice(int(problem.starts[first]), int(problem.starts[last]))
        whitened = factor.whitened(problem.features[rows])
        for v in range(first, last):
            if v in restrictions:
                own = slice(int(problem.starts[v]) - rows.start, int(problem.starts[v + 1]) - rows.start)
                along = factor.whitened(restrictions[v].rows)
                whitened[own] -= (whitened[own] @ along.T) @ along
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


def iterated(
    problem: SortedFolds, factor: Factor, fitted: FloatArray, restrictions: dict[int, Restriction]
) -> tuple[FloatArray, list[int]]:
    """Held-out residuals by conjugate gradients on (I - H_vv) t = S^(1/2) e_v, all folds side by side.

    A fold's rows are read once per step: the product that ends a step and the one that begins the next are taken
    while they are in the cache. The solves of all folds in between are one call.

    Returns the residuals and the folds that did not converge or are too close to singular.
    """
    scaled = fitted if problem.root is None else fitted * problem.root[:, None]
    folds = [
        _FoldIteration(problem.scaled[problem.fold(v)], scaled[problem.fold(v)], restrictions.get(v))
        for v in range(problem.n_folds)
    ]
    active = folds
    for _ in range(MAX_STEPS):
        _solve_together(factor, active)
        for fold in active:
            fold.step()
        active = [fold for fold in active if not fold.done]
        if not active:
            break
    if problem.root is not None:  # the last products, for A^-1 Z_v' t below
        for fold in folds:
            fold.inner = fold.rows.T @ fold.solution
        _solve_together(factor, folds)
    residuals = np.full(problem.targets.shape, np.nan)
    for v, fold in enumerate(folds):
        rows = problem.fold(v)
        if problem.root is None:
            residuals[rows] = fold.solution
        else:  # t / S^(1/2), in a form that also holds for rows of weight zero
            residuals[rows] = fitted[rows] + problem.features[rows] @ fold.solved
    return residuals, [v for v, fold in enumerate(folds) if fold.fraught or not fold.done]


def _solve_together(factor: Factor, folds: list[_FoldIteration]) -> None:
    """A^-1 times the inner products of all folds and outputs at once."""
    solved = factor.solve(np.concatenate([fold.inner for fold in folds], axis=1))
    n_outputs = folds[0].inner.shape[1]
    for position, fold in enumerate(folds):
        own = solved[:, position * n_outputs : (position + 1) * n_outputs]
        fold.solved = own if fold.restriction is None else own - fold.restriction.change(own)


class _FoldIteration:
    """Conjugate gradients for one fold and all outputs, started at t = right, where the residual is H right."""

    def __init__(self, rows: FloatArray, right: FloatArray, restriction: Restriction | None) -> None:
        self.restriction = restriction
        self.rows = rows  # (n_v, p), times the square roots of the weights
        self.solution = right.copy()
        self.target = STEP_TOLERANCE**2 * (right**2).sum(axis=0)
        self.inner = rows.T @ right  # what the next call of `step` needs solved
        self.solved = self.inner
        self.square: FloatArray | None = None
        self.done = self.fraught = False

    def step(self) -> None:
        """One step, given `solved` = A^-1 `inner`."""
        image = self.rows @ self.solved
        if self.square is None:
            self.residual = self.direction = image
            self.square = (image**2).sum(axis=0)
        else:
            image = self.direction - image  # (I - H_vv) direction
            curvature = (self.direction * image).sum(axis=0)
            going = self.square > self.target
            weak = curvature <= LEAST_CURVATURE * (self.direction**2).sum(axis=0)
            self.fraught |= bool((going & weak).any())
            length = np.where(going & ~weak, self.square / np.where(weak, 1.0, curvature), 0.0)
            self.solution += length * self.direction
            self.residual = self.residual - length * image
            previous, self.square = self.square, (self.residual**2).sum(axis=0)
            ratio = np.where(going, self.square / np.where(previous > 0, previous, 1.0), 0.0)
            self.direction = self.residual + ratio * self.direction
        self.done = self.fraught or bool((self.square <= self.target).all())
        if not self.done:
            self.inner = self.rows.T @ self.direction
