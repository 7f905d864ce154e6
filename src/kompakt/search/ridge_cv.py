"""Cross-validation when the features do not fit in memory (seed 002, algorithm 4 and its last sentence).

Features arrive in blocks of rows. A first pass adds up the normal equations of each fold, a second one
computes the residuals; only (n_folds, p, p) sums, or the share of them that the memory allows, are kept.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgWarning, blas, eigh, lapack, qr, solve_triangular

from kompakt.parallel import ordered_map

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
EPS = float(np.finfo(np.float64).eps)


def add_gram(gram: FloatArray, rows: FloatArray, sign: float = 1.0) -> None:
    """gram += sign * rows' rows on the upper triangle, in place; both arrays C-ordered float64."""
    if len(rows):
        # The transposes are Fortran-ordered views, so nothing is copied and gram is changed in place.
        blas.dsyrk(sign, rows.T, beta=1.0, c=gram.T, lower=1, overwrite_c=1)


def add_penalty(matrix: FloatArray, penalty: FloatArray) -> None:
    """matrix += penalty, given as the diagonal (p,) or as a symmetric matrix (p, p), in place."""
    if penalty.ndim == 2:
        matrix += penalty
    else:
        matrix.reshape(-1)[:: len(matrix) + 1] += penalty


class CholeskyFactor:
    """Factor of a symmetric positive definite matrix; the smallest jitter that works, if it needs one."""

    def __init__(self, build: Callable[[], FloatArray], what: str, *, side_by_side: bool = False) -> None:
        factorise = _cholesky_side_by_side if side_by_side else _cholesky
        matrix = build()
        diagonal = matrix.diagonal().copy()
        self.jitter = 0.0
        self.lower, healthy = factorise(matrix, diagonal)
        while not healthy:
            self.jitter = 100.0 * max(self.jitter, EPS)
            if self.jitter > 1e-2:
                raise np.linalg.LinAlgError(
                    f"{what} cannot be factored even with a jitter of 1 % of its diagonal; "
                    "check the features for NaN or infinite values."
                )
            matrix = build()
            add_penalty(matrix, self.jitter * np.where(diagonal > 0, diagonal, diagonal.max(initial=1.0)))
            self.lower, healthy = factorise(matrix, diagonal)
        if self.jitter:
            warnings.warn(
                f"{what} is singular to working precision; its diagonal was raised by a factor of "
                f"1 + {self.jitter:.1g}. Raise the penalty or drop duplicate features.",
                LinAlgWarning,
                stacklevel=4,
            )

    def solve(self, right: FloatArray) -> FloatArray:
        """Solve for the columns of `right` (p, k)."""
        solution, _ = lapack.dpotrs(self.lower, right, lower=1)
        return solution

    def whitened(self, rows: FloatArray) -> FloatArray:
        """Rows u with u u' = rows A^-1 rows': the hat matrix is the Gram matrix of these rows."""
        solution, _ = lapack.dtrtrs(self.lower, rows.T, lower=1)
        return solution.T


def _cholesky(matrix: FloatArray, diagonal: FloatArray) -> tuple[FloatArray, bool]:
    """Overwrites `matrix`. Healthy: every pivot keeps a share of its diagonal entry above rounding."""
    lower, info = lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
    return lower, info == 0 and _sound(lower, diagonal)


def _cholesky_side_by_side(matrix: FloatArray, diagonal: FloatArray) -> tuple[FloatArray, bool]:
    """The same by NumPy, whose routines let other threads run; SciPy's hold the interpreter's lock."""
    try:
        lower = np.asfortranarray(np.linalg.cholesky(matrix.T))
    except np.linalg.LinAlgError:
        return matrix.T, False
    return lower, _sound(lower, diagonal)


def _sound(lower: FloatArray, diagonal: FloatArray) -> bool:
    pivots = lower.diagonal() ** 2
    return bool((pivots > len(pivots) * EPS * diagonal).all())


@dataclass(frozen=True)
class DiagonalFactor:
    """A diagonal matrix in the place of a factor (rotated coordinates of a path of penalties)."""

    diagonal: FloatArray

    def solve(self, right: FloatArray) -> FloatArray:
        """Solve for the columns of `right` (p, k)."""
        return right / self.diagonal[:, None]

    def whitened(self, rows: FloatArray) -> FloatArray:
        """Rows u with u u' = rows A^-1 rows'."""
        return rows / np.sqrt(self.diagonal)


@dataclass(frozen=True)
class SortedFolds:
    """A weighted ridge problem with its rows sorted by fold; rows that are never held out come first.

    Attributes
    ----------
    features, targets : ndarray of shape (n, p), (n, L)
        Sorted rows.
    root : ndarray of shape (n,) or None
        Square roots of the row weights.
    scaled, scaled_targets : ndarray
        Features and targets times `root` (the same objects when there are no weights).
    starts : ndarray of shape (n_folds + 1,)
        Fold v is rows starts[v] to starts[v + 1].
    order : ndarray of shape (n,)
        Original row numbers.
    constraints : list of ndarray of shape (k_v, p), or None
        Rows g for each fold v, whose model keeps g w = 0; None where no fold has any.
    """

    features: FloatArray
    targets: FloatArray
    root: FloatArray | None
    scaled: FloatArray
    scaled_targets: FloatArray
    starts: IntArray
    order: IntArray
    constraints: list[FloatArray] | None = None

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> IntArray:
        """Rows per fold."""
        return np.diff(self.starts)

    def fold(self, number: int) -> slice:
        """Sorted rows of a fold."""
        return slice(int(self.starts[number]), int(self.starts[number + 1]))

    def gram(self) -> FloatArray:
        """Weighted Gram matrix of all rows (upper triangle)."""
        total = np.zeros((self.features.shape[1],) * 2)
        add_gram(total, self.scaled)
        return total

    def rotated(self, rotation: FloatArray) -> SortedFolds:
        """The same rows with the features `features @ rotation`."""
        features = self.features @ rotation
        scaled = features if self.root is None else features * self.root[:, None]
        constraints = None if self.constraints is None else [rows @ rotation for rows in self.constraints]
        return replace(self, features=features, scaled=scaled, constraints=constraints)

    def residuals(self, weights: FloatArray) -> FloatArray:
        """targets - features @ weights, (n, L)."""
        return self.targets - self.features @ weights


class Restriction:
    """Restricts the solution of A w = r to G w = 0, for the factor of A that is already there.

    With rows N that span those of G and N A^-1 N' = I, the restricted solution is w - A^-1 N' (N w), and the restricted
    hat matrix is that of features without their part along N.
    """

    def __init__(self, factor: Any, rows: FloatArray) -> None:
        whitened = factor.whitened(rows)
        lengths = np.linalg.norm(whitened, axis=1)[:, None]  # a constraint has no scale of its own
        rows, whitened = rows / lengths, whitened / lengths
        _, upper, pivots = qr(whitened.T, mode="economic", pivoting=True)
        diagonal = np.abs(upper.diagonal())
        # Rows that depend on others to working precision are kept to zero by these.
        rank = int(np.sum(diagonal > len(rows[0]) * EPS * diagonal.max(initial=0.0)))
        self.rows: FloatArray = solve_triangular(upper[:rank, :rank], rows[pivots[:rank]], trans="T")
        self._solved = factor.solve(self.rows.T)

    def change(self, weights: FloatArray) -> FloatArray:
        """What the restriction takes from the columns of `weights` (p, k)."""
        return self._solved @ (self.rows @ weights)


def checked_constraints(constraints: Any, n_features: int, n_folds: int) -> list[FloatArray] | None:
    """The constraints (G, fold of each row of G) as one array per fold; rows of fold -1 hold nowhere."""
    if constraints is None:
        return None
    rows, fold = np.asarray(constraints[0], dtype=np.float64), np.asarray(constraints[1])
    if rows.ndim != 2 or rows.shape[1] != n_features or fold.shape != (len(rows),) or not np.isfinite(rows).all():
        raise ValueError(
            f"constraints must be a pair of finite rows (k, {n_features}) and their folds (k,); got shapes "
            f"{rows.shape} and {fold.shape}."
        )
    used = fold[fold >= 0]
    if not used.size:
        return None
    if used.max() >= n_folds:
        raise ValueError(f"constraints name fold {used.max()}, but there are {n_folds} folds, 0 .. {n_folds - 1}.")
    return [rows[fold == v] for v in range(n_folds)]


def sorted_folds(
    features: NDArray[Any],
    targets: FloatArray,
    fold: IntArray,
    sample_weight: FloatArray | None,
    constraints: Any = None,
) -> SortedFolds:
    """Sort checked arrays by fold (one copy of the features)."""
    order = np.argsort(fold, kind="stable")
    starts = np.searchsorted(fold[order], np.arange(int(fold.max()) + 2))
    in_order = bool((fold[1:] >= fold[:-1]).all())
    # Rows already sorted by fold are used where they are; nothing here writes to them.
    F = np.ascontiguousarray(features if in_order else features[order], dtype=np.float64)
    Y = targets[order]
    per_fold = checked_constraints(constraints, F.shape[1], len(starts) - 1)
    if sample_weight is None:
        return SortedFolds(F, Y, None, F, Y, starts, order, per_fold)
    root = np.sqrt(sample_weight[order])
    return SortedFolds(F, Y, root, F * root[:, None], Y * root[:, None], starts, order, per_fold)


def checked_problem(
    n_rows: int, n_features: int, Y: ArrayLike, fold: ArrayLike, penalty: ArrayLike, weights: ArrayLike | None
) -> tuple[FloatArray, IntArray, FloatArray, FloatArray | None]:
    """Check everything but the features: targets (n, L), folds, penalty (p,) or (p, p), weights or None."""
    targets = np.asarray(Y, dtype=np.float64)
    if targets.ndim not in (1, 2) or len(targets) != n_rows:
        raise ValueError(f"Y must have shape ({n_rows},) or ({n_rows}, n_outputs), got {targets.shape}.")
    numbers = checked_folds(fold, n_rows)
    amounts = checked_penalty(penalty, n_features)
    sample_weight = None
    if weights is not None:
        sample_weight = np.asarray(weights, dtype=np.float64)
        if sample_weight.shape != (n_rows,):
            raise ValueError(f"weights must have shape ({n_rows},), got {sample_weight.shape}.")
        if not np.isfinite(sample_weight).all() or (sample_weight < 0).any():
            raise ValueError("weights must be finite and not negative.")
    return targets.reshape(n_rows, -1), numbers, amounts, sample_weight


def checked_folds(fold: ArrayLike, n_rows: int) -> IntArray:
    """Fold numbers -1, 0, ..., each of 0 .. max used by at least one row."""
    numbers = np.asarray(fold)
    if numbers.shape != (n_rows,) or not np.issubdtype(numbers.dtype, np.integer):
        raise ValueError(
            f"fold_of_row must hold {n_rows} integers, got shape {numbers.shape} and dtype {numbers.dtype}."
        )
    used = numbers[numbers >= 0]
    if used.size == 0 or numbers.min() < -1:
        raise ValueError("fold_of_row must hold fold numbers 0, 1, ... (-1 for rows never held out).")
    counts = np.bincount(used)
    if (counts == 0).any():
        raise ValueError(f"Fold {int(np.argmin(counts))} holds no row; number the folds 0 .. {len(counts) - 1}.")
    if counts.max() == n_rows:
        raise ValueError("One fold holds every row, so nothing is left to train on; use at least 2 folds.")
    return numbers.astype(np.intp, copy=False)


def checked_penalty(penalty: ArrayLike, n_features: int) -> FloatArray:
    """Ridge penalty as a diagonal (p,) or a symmetric matrix (p, p)."""
    amounts = np.asarray(penalty, dtype=np.float64)
    if amounts.ndim == 0:
        amounts = np.full(n_features, float(amounts))
    if amounts.shape not in ((n_features,), (n_features, n_features)):
        raise ValueError(
            f"penalty must be a number, a diagonal ({n_features},) or a matrix ({n_features}, {n_features}), "
            f"got shape {amounts.shape}."
        )
    diagonal = amounts if amounts.ndim == 1 else amounts.diagonal()
    if not np.isfinite(amounts).all() or (diagonal < 0).any():
        raise ValueError("penalty must be finite with no negative diagonal entry.")
    return amounts


def checked_amounts(penalties: ArrayLike) -> FloatArray:
    """Amounts of a penalty along a path: positive finite numbers, at least one."""
    amounts = np.asarray(penalties, dtype=np.float64)
    if amounts.ndim != 1 or amounts.size == 0 or not np.isfinite(amounts).all() or (amounts <= 0).any():
        raise ValueError(f"penalties must be a list of positive finite numbers, got {penalties!r}.")
    return amounts


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
    >>> from kompakt.search import cross_validated_residuals
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
    >>> from kompakt.search import cross_validated_path
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
    >>> from kompakt.search import cheapest_method
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


# Rows of one fold are collected until there are this many: sums of a few rows at a time are bound by memory.
ROWS_AT_ONCE = 256


def cross_validated_residuals_blockwise(
    blocks: Callable[[], Iterable[ArrayLike]],
    Y: ArrayLike,
    fold_of_row: ArrayLike,
    penalty: ArrayLike,
    weights: ArrayLike | None = None,
    memory_budget: float = 1e9,
) -> NDArray[np.float64]:
    """Twin of `cross_validated_residuals` for features delivered in blocks of rows.

    Parameters
    ----------
    blocks : callable
        Returns a fresh iteration over the features: arrays (n_b, p) that follow the order of Y. It is called
        to see the first block, then once per group of folds whose sums fit the budget, then once more.
    Y, fold_of_row, penalty, weights
        As for `cross_validated_residuals`. A hold-out estimate (algorithm 4) has fold 0 for the validation
        rows and -1 for all others.
    memory_budget : float
        Bytes for the per-fold sums. With fewer, folds are summed in groups, one pass over the blocks each.

    Returns
    -------
    ndarray shaped like Y
        Y minus the out-of-fold prediction; NaN for rows of fold -1. The result does not depend on where the
        blocks begin and end.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.search import cross_validated_residuals, cross_validated_residuals_blockwise
    >>> rng = np.random.default_rng(0)
    >>> Phi, Y, fold = rng.normal(size=(60, 5)), rng.normal(size=60), np.arange(60) % 4
    >>> def blocks():
    ...     return (Phi[i : i + 7] for i in range(0, 60, 7))
    >>> streamed = cross_validated_residuals_blockwise(blocks, Y, fold, 0.1)
    >>> bool(np.allclose(streamed, cross_validated_residuals(Phi, Y, fold, 0.1), rtol=0, atol=1e-12))
    True
    """
    path = cross_validated_path_blockwise(
        blocks, Y, fold_of_row, [1.0], weights, shape=penalty, memory_budget=memory_budget
    )
    return path[0]


def cross_validated_path_blockwise(
    blocks: Callable[[], Iterable[ArrayLike]],
    Y: ArrayLike,
    fold_of_row: ArrayLike,
    penalties: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    shape: ArrayLike = 1.0,
    memory_budget: float = 1e9,
    constraints: tuple[ArrayLike, ArrayLike] | None = None,
) -> NDArray[np.float64]:
    """Twin of `cross_validated_path` for features delivered in blocks of rows: two passes serve all penalties.

    Parameters
    ----------
    blocks, Y, fold_of_row, weights, memory_budget
        As for `cross_validated_residuals_blockwise`.
    penalties : array of shape (n_penalties,)
        Positive amounts.
    shape : float or array of shape (p,) or (p, p)
        The penalty is amount * shape; a 0 on the diagonal leaves that column free.
    constraints : (array of shape (k, p), int array of shape (k,)), optional
        As for `cross_validated_residuals`.

    Returns
    -------
    ndarray of shape (n_penalties, *Y.shape)
        Residuals; NaN for rows of fold -1.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.search import cross_validated_path, cross_validated_path_blockwise
    >>> rng = np.random.default_rng(0)
    >>> Phi, Y, fold = rng.normal(size=(60, 5)), rng.normal(size=60), np.arange(60) % 4
    >>> streamed = cross_validated_path_blockwise(lambda: iter([Phi[:25], Phi[25:]]), Y, fold, [0.1, 1.0])
    >>> bool(np.allclose(streamed, cross_validated_path(Phi, Y, fold, [0.1, 1.0])))
    True
    """
    n = len(np.asarray(Y))
    p = _width(blocks)
    targets, fold, unit, sample_weight = checked_problem(n, p, Y, fold_of_row, shape, weights)
    amounts = checked_amounts(penalties)
    root = None if sample_weight is None else np.sqrt(sample_weight)
    n_folds, L = int(fold.max()) + 1, targets.shape[1]
    held_out = np.empty((n_folds, p, len(amounts), L))
    per_fold = checked_constraints(constraints, p, n_folds)
    for group in _fold_groups(n_folds, p, memory_budget):
        # Folds outside the group count as rows that are always trained on; the sums stay exact.
        local = np.where(np.isin(fold, group), fold - group[0], -1)
        sums = FoldSums.zeros(len(group), p, L)
        _accumulate(sums, blocks, targets, local, root)
        for k, amount in enumerate(amounts):
            own = None if per_fold is None else [per_fold[v] for v in group]
            held_out[group, :, k] = sums.held_out_weights(amount * unit, own)
    repeated = np.tile(targets, (1, len(amounts)))  # (n, n_penalties * L): all penalties in one product
    residuals = _second_pass(blocks, repeated, fold, held_out.reshape(n_folds, p, -1))
    return np.moveaxis(residuals.reshape(n, len(amounts), L), 1, 0).reshape(len(amounts), *np.shape(Y))


def _width(blocks: Callable[[], Iterable[ArrayLike]]) -> int:
    first = next(iter(blocks()), None)
    if first is None:
        raise ValueError("blocks() gave no block of features; it must return a fresh iteration at each call.")
    array = np.asarray(first)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"Each block of features must have shape (n_b, p), got {array.shape}.")
    return array.shape[1]


def _fold_groups(n_folds: int, p: int, memory_budget: float) -> list[IntArray]:
    per_fold = 8.0 * p * (p + ROWS_AT_ONCE)
    at_once = max(1, min(n_folds, int(memory_budget // per_fold) - 3))
    return [np.arange(i, min(i + at_once, n_folds)) for i in range(0, n_folds, at_once)]


def _numbered_blocks(blocks: Callable[[], Iterable[ArrayLike]], n: int, p: int) -> Iterable[tuple[slice, FloatArray]]:
    """Blocks with the rows they hold; checks that they cover all rows once and are finite."""
    start = 0
    for block in blocks():
        features = np.ascontiguousarray(block, dtype=np.float64)
        if features.ndim != 2 or features.shape[1] != p or start + len(features) > n:
            raise ValueError(
                f"A block of shape {features.shape} after {start} rows does not fit {n} rows of {p} features."
            )
        if not np.isfinite(features).all():
            raise ValueError(f"The block of features at row {start} holds NaN or infinite values.")
        yield slice(start, start + len(features)), features
        start += len(features)
    if start != n:
        raise ValueError(f"The blocks hold {start} rows in all, but Y has {n}; blocks() must start afresh.")


def _accumulate(
    sums: FoldSums,
    blocks: Callable[[], Iterable[ArrayLike]],
    targets: FloatArray,
    fold: IntArray,
    root: FloatArray | None,
) -> None:
    """First pass. Each fold fills its own buffer, emptied at fixed counts whatever the blocks are."""
    n_folds, p, n_outputs = sums.rights.shape
    waiting = np.empty((n_folds + 1, ROWS_AT_ONCE, p))
    waiting_targets = np.empty((n_folds + 1, ROWS_AT_ONCE, n_outputs))
    filled = np.zeros(n_folds + 1, dtype=np.intp)

    def empty(v: int) -> None:
        sums.add(v, waiting[v, : filled[v]], waiting_targets[v, : filled[v]])
        filled[v] = 0

    for rows, features in _numbered_blocks(blocks, len(targets), p):
        values = targets[rows]
        if root is not None:
            features, values = features * root[rows, None], values * root[rows, None]
        here = fold[rows]
        order = np.argsort(here, kind="stable")
        present, starts = np.unique(here[order], return_index=True)
        for v, members in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
            while len(members):
                taken = members[: ROWS_AT_ONCE - filled[v]]
                place = slice(filled[v], filled[v] + len(taken))
                waiting[v, place], waiting_targets[v, place] = features[taken], values[taken]
                filled[v] += len(taken)
                members = members[len(taken) :]
                if filled[v] == ROWS_AT_ONCE:
                    empty(v)
    for v in range(-1, n_folds):  # -1 is the last buffer: rows never held out
        empty(v)


def _second_pass(
    blocks: Callable[[], Iterable[ArrayLike]], targets: FloatArray, fold: IntArray, held_out: FloatArray
) -> FloatArray:
    residuals = np.full(targets.shape, np.nan)
    for rows, features in _numbered_blocks(blocks, len(targets), held_out.shape[1]):
        for v in np.unique(fold[rows]):
            if v >= 0:
                members = np.flatnonzero(fold[rows] == v)
                residuals[rows.start + members] = targets[rows][members] - features[members] @ held_out[v]
    return residuals
