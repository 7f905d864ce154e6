"""Exact cross-validation of ridge regression at the cost of about one fit (De Brabanter et al. 2010, algorithms 3, 4).

Three ways give the same numbers. "downdate" subtracts a fold from the normal equations and solves what is left: cheap
for few folds, and the only one that needs no more than blocks of the features in memory. "hat" solves a system in the
rows of each fold, from the hat matrix of the fit to all rows: cheap for small folds. "iterate" goes from the fit to all
rows to that without the fold by conjugate gradients: cheap for many folds that are not small. For several amounts of
the same penalty one eigendecomposition makes the normal matrix diagonal for all of them.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgWarning, eigh, lapack

from kompakt.linalg import factorise
from kompakt.parallel import ordered_map

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Blocks = Callable[[], Iterable[ArrayLike]]
Constraints = tuple[ArrayLike, ArrayLike]

CV_METHODS = ("auto", "downdate", "hat", "iterate")
# Below this share of what is left (1 - leverage), cancellation costs more than 7 of 16 digits: refit instead.
LEAST_REMAINDER = 1e-7
# The same for conjugate gradients, whose curvatures bound the smallest eigenvalue from above only.
LEAST_CURVATURE = 1e-5
MAX_STEPS = 60
STEP_TOLERANCE = 1e-12
# Rows whose hat-matrix blocks are made at a time.
HAT_ROWS = 2048
logger = logging.getLogger(__name__)


def cross_validated_path(
    Phi: ArrayLike,
    Y: ArrayLike,
    fold_of_row: ArrayLike,
    penalties: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    shape: ArrayLike = 1.0,
    method: str = "auto",
    constraints: Constraints | None = None,
) -> FloatArray:
    """Residual of every row under the ridge model trained without the row's fold, for some amounts of a penalty.

    Parameters
    ----------
    Phi : array of shape (n, p)
        Features; a column of ones makes an intercept.
    Y : array of shape (n,) or (n, n_outputs)
        Targets; all outputs share the factorisations.
    fold_of_row : int array of shape (n,)
        Fold of each row, 0, 1, ...; -1 marks rows that are always trained on, so a hold-out estimate is one
        fold of validation rows with all other rows at -1. As many folds as rows gives leave-one-out.
    penalties : array of shape (n_penalties,)
        Positive amounts; in terms of C they are 1 / C.
    weights : array of shape (n,), optional
        Row weights; a row of weight 0 is predicted but never trained on.
    shape : float or array of shape (p,) or (p, p)
        The penalty is amount * shape: of all columns, a diagonal (0 leaves a column free) or a matrix.
    method : {"auto", "downdate", "hat", "iterate"}
        How to compute it; all give the same numbers.
    constraints : (array of shape (k, p), int array of shape (k,)), optional
        Rows g and the fold of each: the model of fold v keeps ``g w = 0`` for the rows of fold v. So a fold can be left
        without features that were made from its own rows.

    Returns
    -------
    ndarray of shape (n_penalties, *Y.shape)
        Y minus the out-of-fold prediction; NaN for rows of fold -1.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.search import cross_validated_path
    >>> Phi, Y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> held_out = cross_validated_path(Phi, Y, np.arange(3), [1.0, 10.0])
    >>> bool(np.isclose(held_out[0, 2], 4.0 - 3.0 * (1 * 1 + 2 * 2) / (1 + 4 + 1.0)))
    True
    """
    features = np.asarray(Phi)
    if features.ndim != 2 or 0 in features.shape:
        raise ValueError(f"Phi must have shape (n, p) with n, p >= 1, got {features.shape}.")
    if not np.isfinite(features).all():
        raise ValueError("Phi holds NaN or infinite values; mend or drop those rows.")
    n, p = features.shape
    problem = _checked(n, p, Y, fold_of_row, penalties, shape, weights, constraints)
    if method not in CV_METHODS:
        raise ValueError(f"Unknown method {method!r}; choose from {', '.join(map(repr, CV_METHODS))}.")
    n_amounts = len(problem.amounts)
    if method == "auto":
        sizes = np.bincount(problem.fold[problem.fold >= 0])
        method = cheapest_method(sizes, p, problem.targets.shape[1], n_amounts)
        logger.debug("cross-validation of %d folds, %d features: %s", len(sizes), p, method)
    if method == "downdate":
        residuals = _downdated(lambda: [features], p, problem, np.inf)
    else:
        residuals = _from_all_rows(features, problem, _hat if method == "hat" else _iterated)
    return residuals.reshape(n_amounts, *np.shape(Y))


def cross_validated_path_blockwise(
    blocks: Blocks,
    Y: ArrayLike,
    fold_of_row: ArrayLike,
    penalties: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    shape: ArrayLike = 1.0,
    memory_budget: float = 1e9,
    constraints: Constraints | None = None,
) -> FloatArray:
    """Twin of `cross_validated_path` for features delivered in blocks of rows: two passes serve all penalties.

    Parameters
    ----------
    blocks : callable
        Returns a fresh iteration over the features: arrays (n_b, p) that follow the order of Y. It is called
        to see the first block, then once per group of folds whose sums fit the budget, then once more.
        Rows sorted by fold are summed fastest.
    Y, fold_of_row, penalties, weights, shape, constraints
        As for `cross_validated_path`. A hold-out estimate (algorithm 4) has fold 0 for the validation
        rows and -1 for all others.
    memory_budget : float
        Bytes for the per-fold sums. With fewer, folds are summed in groups, one pass over the blocks each.

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
    first = next(iter(blocks()), None)
    if first is None:
        raise ValueError("blocks() gave no block of features; it must return a fresh iteration at each call.")
    if np.ndim(first) != 2 or np.shape(first)[1] == 0:
        raise ValueError(f"Each block of features must have shape (n_b, p), got {np.shape(first)}.")
    n, p = len(np.asarray(Y)), np.shape(first)[1]
    problem = _checked(n, p, Y, fold_of_row, penalties, shape, weights, constraints)
    return _downdated(blocks, p, problem, memory_budget).reshape(len(problem.amounts), *np.shape(Y))


def cheapest_method(fold_sizes: ArrayLike, p: int, n_outputs: int = 1, n_penalties: int = 1) -> str:
    """Method of `cross_validated_path` that costs least for these shapes.

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
        Number of penalties that share the Gram matrix.

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
    blocks = (1.2 * p * sizes**2 + 0.7 * sizes**3).sum()
    # Conjugate-gradient steps to rounding, from the largest eigenvalue of a fold's block of the hat matrix. For a
    # random projection of rank p among n coordinates, restricted to a share a of them, the eigenvalues end at
    # (sqrt(a (1 - b)) + sqrt(b (1 - a)))^2 with b = p / n (the edge of the Jacobi ensemble).
    a, b = sizes.max() / n, min(p / n, 1.0)
    edge = 1.0 if a + b >= 1 else min((np.sqrt(a * (1 - b)) + np.sqrt(b * (1 - a))) ** 2, 1.0)
    steps = np.inf
    if edge <= 0.999:
        root = np.sqrt(1.0 / (1.0 - edge))
        steps = np.log(1e-12) / np.log(max((root - 1.0) / (root + 1.0), 1e-4))
    per_step = (25.0 + 6.0 * n_outputs) * n * p + 4.0 * p**2 * n_outputs * len(sizes) + 2e6 * len(sizes)
    costs = {
        "downdate": n_penalties * len(sizes) * (0.7 * p**3 + 40.0 * p**2),
        "hat": one_off + n_penalties * (whitening + blocks),
        "iterate": one_off + n_penalties * (steps + 2) * per_step,
    }
    return min(costs, key=costs.__getitem__)


# -- the problem ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Problem:
    """Everything but the features, checked."""

    targets: FloatArray  # (n, L)
    fold: IntArray  # (n,), -1 for rows that are always trained on
    amounts: FloatArray  # of the penalty
    unit: FloatArray  # (p,) or (p, p): the penalty of amount 1
    root: FloatArray | None  # (n, 1), square roots of the weights
    constraints: list[FloatArray]  # rows (k_v, p) for each fold


def _checked(
    n: int,
    p: int,
    Y: ArrayLike,
    fold_of_row: ArrayLike,
    penalties: ArrayLike,
    shape: ArrayLike,
    weights: ArrayLike | None,
    constraints: Constraints | None,
) -> _Problem:
    targets = np.asarray(Y, dtype=np.float64)
    if targets.ndim not in (1, 2) or len(targets) != n:
        raise ValueError(f"Y must have shape ({n},) or ({n}, n_outputs), got {targets.shape}.")
    fold = np.asarray(fold_of_row)
    if fold.shape != (n,) or not np.issubdtype(fold.dtype, np.integer):
        raise ValueError(f"fold_of_row must hold {n} integers, got shape {fold.shape} and dtype {fold.dtype}.")
    if fold.min() < -1 or fold.max() < 0:
        raise ValueError("fold_of_row must hold fold numbers 0, 1, ... (-1 for rows never held out).")
    counts = np.bincount(fold[fold >= 0])
    if (counts == 0).any():
        raise ValueError(f"Fold {int(np.argmin(counts))} holds no row; number the folds 0 .. {len(counts) - 1}.")
    if counts.max() == n:
        raise ValueError("One fold holds every row, so nothing is left to train on; use at least 2 folds.")
    amounts = np.asarray(penalties, dtype=np.float64)
    if amounts.ndim != 1 or amounts.size == 0 or not np.isfinite(amounts).all() or (amounts <= 0).any():
        raise ValueError(f"penalties must be a list of positive finite numbers, got {penalties!r}.")
    unit = np.asarray(shape, dtype=np.float64)
    unit = np.full(p, float(unit)) if unit.ndim == 0 else unit
    diagonal = unit if unit.ndim < 2 else unit.diagonal()
    if unit.shape not in ((p,), (p, p)) or not np.isfinite(unit).all() or (diagonal < 0).any():
        raise ValueError(
            f"penalty must be a number, a diagonal ({p},) or a matrix ({p}, {p}), finite with no negative diagonal "
            f"entry; got shape {unit.shape}."
        )
    root = None
    if weights is not None:
        sample_weight = np.asarray(weights, dtype=np.float64)
        if sample_weight.shape != (n,) or not np.isfinite(sample_weight).all() or (sample_weight < 0).any():
            raise ValueError(f"weights must be {n} numbers, finite and not negative; got shape {sample_weight.shape}.")
        root = np.sqrt(sample_weight)[:, None]
    rows, home = np.empty((0, p)), np.empty(0, dtype=np.intp)
    if constraints is not None:
        rows, home = np.asarray(constraints[0], dtype=np.float64), np.asarray(constraints[1])
        if rows.shape != (len(home), p) or home.ndim != 1 or not np.isfinite(rows).all():
            raise ValueError(
                f"constraints must be a pair of finite rows (k, {p}) and their folds (k,); got shapes "
                f"{rows.shape} and {home.shape}."
            )
        if home.max(initial=-1) >= len(counts):
            raise ValueError(
                f"constraints name fold {home.max()}, but there are {len(counts)} folds, 0 .. {len(counts) - 1}."
            )
    own = [rows[home == v] for v in range(len(counts))]
    return _Problem(targets.reshape(n, -1), fold.astype(np.intp, copy=False), amounts, unit, root, own)


class _Normal:
    """A normal matrix A = R'R of rows and penalty, in which constraints G w = 0 are directions forbidden to R w.

    R is triangular, or diagonal in rotated coordinates and then given as its diagonal (p,).
    """

    def __init__(self, R: FloatArray) -> None:
        self.R = R

    @classmethod
    def of(cls, gram: FloatArray, penalty: FloatArray, what: str) -> _Normal:
        """Factorise; warns where that needs jitter."""
        matrix = gram + penalty if penalty.ndim == 2 else gram.copy()
        if penalty.ndim == 1:
            matrix.flat[:: len(matrix) + 1] += penalty
        factor = factorise(matrix, relative=True, what=what)
        if factor.jitter:
            warnings.warn(
                f"The {what} is singular to working precision; its diagonal was raised by a factor of "
                f"1 + {factor.jitter:.1g}. Raise the penalty or drop duplicate features.",
                LinAlgWarning,
                stacklevel=4,
            )
        return cls(factor.R)

    # LAPACK is called directly: for many small systems the checks around it would take half the time.

    def down(self, B: FloatArray) -> FloatArray:
        """R'^-1 B."""
        return B / self.R[:, None] if self.R.ndim == 1 else lapack.dtrtrs(self.R, B, trans=1)[0]

    def up(self, B: FloatArray) -> FloatArray:
        """R^-1 B."""
        return B / self.R[:, None] if self.R.ndim == 1 else lapack.dtrtrs(self.R, B)[0]

    def forbidden(self, rows: FloatArray) -> FloatArray | None:
        """Orthonormal directions (p, rank) that constraints with these rows (k, p) forbid; None without constraints."""
        if not len(rows):
            return None
        directions = self.down(rows.T)
        directions = directions / np.linalg.norm(directions, axis=0)  # a constraint has no scale of its own
        packed, _, tau, _, _ = lapack.dgeqp3(directions)
        diagonal = np.abs(packed.diagonal())
        # Rows that depend on others to working precision are kept to zero by these.
        rank = int(np.sum(diagonal > len(directions) * np.finfo(np.float64).eps * diagonal[0]))
        return np.asarray(lapack.dorgqr(packed[:, :rank], tau[:rank])[0])

    def solve(self, right: FloatArray, forbidden: FloatArray | None) -> FloatArray:
        """The constrained solution w of A w = right (p, k)."""
        whitened = self.down(right)
        return self.up(whitened if forbidden is None else whitened - forbidden @ (forbidden.T @ whitened))


def _refitted(
    gram: FloatArray, right: FloatArray, penalty: FloatArray, constraints: FloatArray, fold: int
) -> FloatArray:
    """Weights (p, L) of the fit without a fold, from the normal equations of all other rows."""
    normal = _Normal.of(gram, penalty, f"normal matrix without fold {fold}")
    return normal.solve(right, normal.forbidden(constraints))


# -- from the normal equations of the folds ---------------------------------------------------------------


def _downdated(blocks: Blocks, p: int, problem: _Problem, memory_budget: float) -> FloatArray:
    """Residuals (n_amounts, n, L) by one factorisation per fold and amount."""
    n, n_outputs = problem.targets.shape
    n_amounts, n_folds = len(problem.amounts), len(problem.constraints)
    at_once = int(max(1, min(n_folds, memory_budget // (8.0 * p * p) - 3)))
    groups = [range(first, min(first + at_once, n_folds)) for first in range(0, n_folds, at_once)]
    weights = np.concatenate([_weights_without(group, blocks, p, problem) for group in groups])
    residuals = np.full((n_amounts, n, n_outputs), np.nan)
    for block, features in _numbered(blocks, n, p):
        here = problem.fold[block]
        for v in np.unique(here[here >= 0]):
            rows = _where(here == v)
            outputs = features[rows] @ weights[v].reshape(p, -1)  # all amounts in one product
            outputs = outputs.reshape(-1, n_amounts, n_outputs).swapaxes(0, 1)
            residuals[:, block][:, rows] = problem.targets[block][rows] - outputs
    return residuals


def _weights_without(group: range, blocks: Blocks, p: int, problem: _Problem) -> FloatArray:
    """Weights (n_folds, p, n_amounts, L) of the fits without each fold of a group."""
    n, n_outputs = problem.targets.shape
    # Folds outside the group count as rows that are always trained on: the last of the sums.
    fold = np.where(np.isin(problem.fold, group), problem.fold - group.start, len(group))
    grams, rights = np.zeros((len(group) + 1, p, p)), np.zeros((len(group) + 1, p, n_outputs))
    weights = np.empty((len(group), p, len(problem.amounts), n_outputs))

    def add(part: tuple[int, FloatArray, FloatArray, FloatArray | None]) -> None:
        v, Z, T, root = part
        if root is not None:
            Z, T = Z * root, T * root
        grams[v] += Z.T @ Z
        rights[v] += Z.T @ T

    for block, features in _numbered(blocks, n, p):
        root = None if problem.root is None else problem.root[block]
        places = {int(v): _where(fold[block] == v) for v in np.unique(fold[block])}
        parts = [
            (v, features[rows], problem.targets[block][rows], None if root is None else root[rows])
            for v, rows in places.items()
        ]
        for _ in ordered_map(add, parts):  # folds are independent: side by side where threads are
            pass
    total, right = grams.sum(axis=0), rights.sum(axis=0)

    def solve(at: tuple[int, int]) -> None:
        v, k = at
        rest = total - grams[v]  # De Brabanter et al. 2010, eq. 20, or the sum of the others when that cancels
        if (rest.diagonal() < LEAST_REMAINDER * total.diagonal()).any():
            rest = np.sum(grams, axis=0, where=(np.arange(len(grams)) != v)[:, None, None])
        penalty = problem.amounts[k] * problem.unit
        constraints = problem.constraints[group.start + v]
        weights[v, :, k] = _refitted(rest, right - rights[v], penalty, constraints, group.start + v)

    for _ in ordered_map(solve, [(v, k) for v in range(len(group)) for k in range(len(problem.amounts))]):
        pass
    return weights


def _where(mask: NDArray[np.bool_]) -> slice | IntArray:
    """Places where the mask is true, as a slice where they follow each other: rows are then not copied."""
    places = np.flatnonzero(mask)
    together = len(places) and places[-1] - places[0] + 1 == len(places)
    return slice(int(places[0]), int(places[-1]) + 1) if together else places


def _numbered(blocks: Blocks, n: int, p: int) -> Iterator[tuple[slice, FloatArray]]:
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


# -- from the fit to all rows -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _SortedRows:
    """Rows sorted by fold; those that are never held out come first."""

    features: FloatArray  # (n, p)
    scaled: FloatArray  # times the square roots of the weights
    targets: FloatArray  # (n, L)
    scaled_targets: FloatArray
    root: FloatArray | None  # (n, 1), square roots of the weights
    starts: IntArray  # fold v is rows starts[v] to starts[v + 1]
    constraints: list[FloatArray]

    def of(self, fold: int) -> slice:
        return slice(int(self.starts[fold]), int(self.starts[fold + 1]))


#: held-out residuals (n, L) and folds to be refitted, from the rows, their normal equations A w = right, and the
#: directions that are forbidden to each fold
_Method = Callable[[_SortedRows, _Normal, FloatArray, list[FloatArray | None]], tuple[FloatArray, list[int]]]


def _from_all_rows(features: NDArray[Any], problem: _Problem, method: _Method) -> FloatArray:
    """Residuals (n_amounts, n, L) from the solved normal matrix of all rows."""
    fold, amounts, unit = problem.fold, problem.amounts, problem.unit
    order = np.argsort(fold, kind="stable")
    starts = np.searchsorted(fold[order], np.arange(len(problem.constraints) + 1))
    # Rows already sorted by fold are used where they are; nothing here writes to them.
    in_order = bool((fold[1:] >= fold[:-1]).all())
    F = np.ascontiguousarray(features if in_order else features[order], dtype=np.float64)
    T, root = problem.targets[order], None if problem.root is None else problem.root[order]
    Z, ZT = (F, T) if root is None else (F * root, T * root)
    rows = _SortedRows(F, Z, T, ZT, root, starts, problem.constraints)
    gram, what = Z.T @ Z, "normal matrix of all rows"
    residuals = np.empty((len(amounts), *T.shape))
    # In the rotated coordinates an amount c away from the middle c0 loses a factor c / c0 (or its inverse) of
    # precision: groups that span 8 powers of ten lose 4 digits of 16 at worst.
    groups = np.maximum(np.ceil(np.log10(amounts / amounts.min()) / 8.0 - 1e-9), 1.0)
    for members in (np.flatnonzero(groups == group) for group in np.unique(groups)):
        if len(members) == 1:
            penalty = amounts[members[0]] * unit
            residuals[members[0], order] = _held_out(rows, _Normal.of(gram, penalty, what), penalty, method)
            continue
        # Features turned by B with B' (gram + penalty) B = I and B' penalty B = diag(share).
        middle = float(np.exp(np.log(amounts[members]).mean()))
        normal = _Normal.of(gram, middle * unit, what)
        inner = normal.down(middle * (unit if unit.ndim == 2 else np.diag(unit)))
        share, vectors = eigh(normal.down(inner.T), driver="evd")
        share, rotation = np.clip(share, 0.0, 1.0), normal.up(vectors)
        F = rows.features @ rotation
        constraints = [own @ rotation for own in rows.constraints]
        turned = replace(rows, features=F, scaled=F if root is None else F * root, constraints=constraints)
        for k in members:
            penalty = (amounts[k] / middle) * share
            residuals[k, order] = _held_out(turned, _Normal(np.sqrt((1.0 - share) + penalty)), penalty, method)
    return residuals


def _held_out(rows: _SortedRows, normal: _Normal, penalty: FloatArray, method: _Method) -> FloatArray:
    """Residuals (n, L) of the sorted rows; NaN for those never held out."""
    right = rows.scaled.T @ rows.scaled_targets
    residuals, bad = method(rows, normal, right, [normal.forbidden(own) for own in rows.constraints])
    for v in bad:
        logger.debug("fold %d all but determines a direction alone: refitted to all other rows", v)
        own = rows.of(v)
        Z, T = np.delete(rows.scaled, own, axis=0), np.delete(rows.scaled_targets, own, axis=0)
        refitted = _refitted(Z.T @ Z, Z.T @ T, penalty, rows.constraints[v], v)
        residuals[own] = rows.targets[own] - rows.features[own] @ refitted
    residuals[: rows.starts[0]] = np.nan
    return residuals


def _hat(
    rows: _SortedRows, normal: _Normal, right: FloatArray, forbidden: list[FloatArray | None]
) -> tuple[FloatArray, list[int]]:
    """Residuals by the block of each fold in the hat matrix H.

    With e the residuals of the whole fit, Z its rows times the roots S of the weights, and t = (I - H_vv)^-1 S e_v, the
    residuals without fold v are t / S, or e_v + Phi_v A^-1 Z_v' t, which also holds for rows of weight zero.
    """
    residuals = rows.targets - rows.features @ normal.solve(right, None)
    bad: list[int] = []
    # Consecutive folds of about HAT_ROWS rows in all, at least one fold each.
    edges = np.flatnonzero(np.diff((rows.starts[:-1] - rows.starts[0]) // HAT_ROWS, prepend=-1)).tolist()
    for first, last in zip(edges, [*edges[1:], len(rows.starts) - 1], strict=True):
        starts = rows.starts[first : last + 1] - rows.starts[first]
        group = slice(int(rows.starts[first]), int(rows.starts[last]))
        whitened = normal.down(rows.features[group].T).T
        for v, directions in enumerate(forbidden[first:last], first):
            if directions is not None:
                own = slice(starts[v - first], starts[v - first + 1])
                whitened[own] -= (whitened[own] @ directions) @ directions.T
                restricted = rows.features[rows.of(v)] @ normal.solve(right, directions)
                residuals[rows.of(v)] = rows.targets[rows.of(v)] - restricted
        scaled, errors = whitened, residuals[group]
        if rows.root is not None:
            scaled, errors = whitened * rows.root[group], errors * rows.root[group]
        sizes = np.diff(starts)
        for size in np.unique(sizes):
            members = np.flatnonzero(sizes == size)
            index = starts[members][:, None] + np.arange(size)
            Z = scaled[index]
            answer, sound = _solved_blocks(np.eye(size) - Z @ Z.swapaxes(1, 2), errors[index])
            if rows.root is None:
                residuals[group][index] = answer
            else:
                residuals[group][index] += whitened[index] @ (Z.swapaxes(1, 2) @ answer)
            bad.extend((first + members[~sound]).tolist())
    return residuals, bad


def _solved_blocks(blocks: FloatArray, right: FloatArray) -> tuple[NDArray[Any], NDArray[Any]]:
    """Solutions of many small positive definite systems, and which of them are far enough from singular."""
    sound = np.ones(len(blocks), dtype=bool)
    try:
        lower = np.linalg.cholesky(blocks)
    except np.linalg.LinAlgError:  # at least one: find which
        sound = np.linalg.eigvalsh(blocks)[:, 0] > LEAST_REMAINDER
        blocks = np.where(sound[:, None, None], blocks, np.eye(blocks.shape[1]))
        lower = np.linalg.cholesky(blocks)
    pivots = np.diagonal(lower, axis1=1, axis2=2) ** 2
    return np.linalg.solve(blocks, right), sound & (pivots.min(axis=1) > LEAST_REMAINDER)


def _iterated(
    rows: _SortedRows, normal: _Normal, right: FloatArray, forbidden: list[FloatArray | None]
) -> tuple[FloatArray, list[int]]:
    """Residuals by conjugate gradients, all folds side by side.

    The fit without fold v solves (A - Z_v' Z_v) w = r - r_v. It is sought from the fit to all rows, with A as
    preconditioner.
    """
    folds = range(len(forbidden))

    def solved(rights: list[FloatArray]) -> FloatArray:
        """A^-1 times a right-hand side of each fold, without what is forbidden there."""
        whitened = np.split(normal.down(np.concatenate(rights, axis=1)), len(folds), axis=1)
        kept = [u if Q is None else u - Q @ (Q.T @ u) for u, Q in zip(whitened, forbidden, strict=True)]
        return np.stack(np.split(normal.up(np.concatenate(kept, axis=1)), len(folds), axis=1))

    Z = [rows.scaled[rows.of(v)] for v in folds]
    W = solved([right] * len(folds))
    R = -np.stack([Z[v].T @ (rows.scaled_targets[rows.of(v)] - Z[v] @ W[v]) for v in folds])
    D, AD = np.zeros_like(R), np.zeros_like(R)  # directions, and A times them
    square, limit = np.ones((len(Z), 1, R.shape[2])), None
    weak = np.zeros(square.shape, dtype=bool)
    for _ in range(MAX_STEPS):
        S = solved(list(R))
        previous, square = square, (R * S).sum(axis=1, keepdims=True)
        limit = STEP_TOLERANCE**2 * square if limit is None else limit
        going = (square > limit) & ~weak
        if not going.any():
            break
        ratio = np.where(going, square / np.where(previous > 0, previous, 1.0), 0.0)
        D, AD = S + ratio * D, R + ratio * AD
        images = [Z[v] @ D[v] for v in folds]
        length = (D * AD).sum(axis=1, keepdims=True)
        curvature = length - np.stack([(image**2).sum(axis=0, keepdims=True) for image in images])
        weak |= going & (curvature <= LEAST_CURVATURE * length)
        step = np.where(going & ~weak, square / np.where(going & ~weak, curvature, 1.0), 0.0)
        W += step * D
        R -= step * (AD - np.stack([Z[v].T @ images[v] for v in folds]))
    residuals = np.empty_like(rows.targets)
    for v in folds:
        residuals[rows.of(v)] = rows.targets[rows.of(v)] - rows.features[rows.of(v)] @ W[v]
    return residuals, np.flatnonzero((weak | going).any(axis=(1, 2))).tolist()
