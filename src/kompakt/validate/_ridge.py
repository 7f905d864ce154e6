"""Shared arithmetic of the fast cross-validation: sorted folds, Gram triangles, guarded factors.

Symmetric matrices are C-ordered with a valid UPPER triangle. Their transpose is a Fortran-ordered view with a
valid lower triangle, which BLAS and LAPACK then read and write without copies: at 50 folds of a 700-column
problem the copies of `Z.T @ Z` cost more than its arithmetic.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgWarning, blas, lapack, qr, solve_triangular

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
