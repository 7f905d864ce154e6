"""Exact cross-validation of ridge regression at the cost of about one fit (De Brabanter et al. 2010, algorithms 3, 4).

Three ways give the same numbers. "downdate" subtracts a fold from the normal equations and solves what is left: cheap
for few folds, and the only one that needs no more than blocks of the features in memory. "hat" solves a system in the
rows of each fold, from the hat matrix of the fit to all rows: cheap for small folds. For several amounts of the same
penalty one eigendecomposition makes its normal matrix diagonal for all of them. "iterate" goes from the fit to all rows
to that without the fold by conjugate gradients, for all amounts in the same matrix products: cheap for many folds.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgWarning, lapack

from kompakt.linalg import factorise
from kompakt.parallel import ordered_map
from kompakt.solve.ridge import RidgePath

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Blocks = Callable[[], Iterable[NDArray[Any]]]

# Below this share of what is left (1 - leverage), cancellation costs more than 7 of 16 digits: refit instead.
LEAST_REMAINDER = 1e-7
# The same for conjugate gradients, whose curvatures bound the smallest eigenvalue from above only.
LEAST_CURVATURE = 1e-5
MAX_STEPS = 60
STEP_TOLERANCE = 1e-10
# Rows whose hat-matrix blocks are made at a time.
HAT_ROWS = 2048
logger = logging.getLogger(__name__)


def cross_validated_path(
    features: NDArray[Any] | Blocks,
    targets: FloatArray,
    fold: IntArray,
    amounts: FloatArray,
    weights: FloatArray | None,
    unit: FloatArray,
    *,
    constraints: tuple[FloatArray, IntArray] | None = None,
    method: str = "auto",
    memory_budget: float = np.inf,
) -> FloatArray:
    """Residual of every row under the ridge model trained without the row's fold, for some amounts of a penalty.

    Parameters
    ----------
    features : ndarray of shape (n, p), or callable
        A column of ones makes an intercept. A callable gives a fresh iteration over blocks of rows: it is called once
        per group of folds whose sums fit the budget, then once more.
    targets : ndarray of shape (n, n_outputs)
        All outputs share the factorisations.
    fold : ndarray of shape (n,)
        Fold of each row, ascending from 0; -1 marks rows before and after that are always trained on, so a hold-out
        estimate (algorithm 4) is one fold of validation rows with all others at -1. As many folds as rows gives
        leave-one-out.
    amounts : ndarray of shape (n_amounts,)
        Positive amounts of the penalty; in terms of C they are 1 / C.
    weights : ndarray of shape (n,) or None
        A row of weight 0 is predicted but never trained on.
    unit : ndarray of shape (p,)
        The penalty of amount 1 on the squared weights; 0 leaves a column free.
    constraints : (ndarray of shape (k, p), ndarray of shape (k,)), optional
        Rows g and the fold of each: the model of fold v keeps ``g w = 0`` for the rows of fold v. So a fold can be left
        without features that were made from its own rows.
    method : {"auto", "downdate", "hat", "iterate"}
        How to compute it; all give the same numbers. Blocks are for "downdate" only.
    memory_budget : float
        Bytes for the sums of the folds. With fewer, folds are summed in groups, one pass over the blocks each.

    Returns
    -------
    ndarray of shape (n_amounts, n, n_outputs)
        Targets minus the out-of-fold predictions; NaN for rows of fold -1.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.search import cross_validated_path
    >>> Phi, Y = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [2.0], [4.0]])
    >>> held_out = cross_validated_path(Phi, Y, np.arange(3), np.array([1.0, 10.0]), None, np.ones(1))
    >>> bool(np.isclose(held_out[0, 2, 0], 4.0 - 3.0 * (1 * 1 + 2 * 2) / (1 + 4 + 1.0)))
    True
    """
    counts = np.bincount(fold[fold >= 0])
    starts = int(np.argmax(fold >= 0)) + np.append(0, np.cumsum(counts))
    if counts[0] == len(fold):
        raise ValueError("One fold holds every row, so nothing is left to train on; use at least 2 folds.")
    rows, home = (np.empty((0, len(unit))), np.empty(0)) if constraints is None else constraints
    own = [rows[home == v] for v in range(len(starts) - 1)]
    folds = _Folds(targets, None if weights is None else np.sqrt(weights)[:, None], starts, own)
    if callable(features):
        return _downdated(features, folds, amounts, unit, memory_budget)
    if method == "auto":
        method = cheapest_method(counts, len(unit), targets.shape[1], len(amounts))
        logger.debug("cross-validation of %d folds, %d features: %s", len(own), len(unit), method)
    stored = np.ascontiguousarray(features, dtype=np.float64)
    if method == "downdate":
        return _downdated(lambda: [stored], folds, amounts, unit, memory_budget)
    return (_from_hat if method == "hat" else _iterated)(stored, folds, amounts, unit)


def cheapest_method(fold_sizes: ArrayLike, p: int, n_outputs: int = 1, n_penalties: int = 1) -> str:
    """Method of `cross_validated_path` that costs least for these shapes.

    Costs are counted in multiplications and additions at matrix-product speed. The factors before the terms
    were measured against `Phi' Phi` (n = 19,000, p = 700): a Cholesky factorisation runs at half that
    speed, a triangular solve at two thirds, products with few columns at less; the constants are calls.

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
        steps = np.log(STEP_TOLERANCE) / np.log(max((root - 1.0) / (root + 1.0), 1e-4))
    columns, n_folds = n_penalties * n_outputs, len(sizes)
    products = min(2.0 * n_folds * p**2, 4.0 * n * p) * (1.5 + 8.0 / columns)
    per_step = columns * (3.0 * n_folds * p**2 + products + 60.0 * n_folds * p) + 4e5 * n_folds
    costs = {
        "downdate": n_penalties * n_folds * (0.7 * p**3 + 40.0 * p**2 + 1e6),
        "hat": one_off + n_penalties * (whitening + blocks + 5e5 * n_folds),
        "iterate": n_penalties * (0.7 * p**3 + 2e5 * n_folds) + 1.8 * (steps + 2) * per_step,
    }
    return min(costs, key=costs.__getitem__)


@dataclass(frozen=True)
class _Folds:
    """Everything but the features, of rows sorted by fold; rows before and after the folds are never held out."""

    targets: FloatArray  # (n, L)
    root: FloatArray | None  # (n, 1), square roots of the weights
    starts: IntArray  # fold v is rows starts[v] to starts[v + 1]
    constraints: list[FloatArray]  # rows (k_v, p) for each fold

    def of(self, fold: int) -> slice:
        return slice(int(self.starts[fold]), int(self.starts[fold + 1]))

    def scaled(self, values: FloatArray, rows: slice = slice(None)) -> FloatArray:
        """Values of some rows times the square roots of their weights."""
        return values if self.root is None else values * self.root[rows]

    def refitted(self, fold: int, features: FloatArray, penalty: FloatArray) -> FloatArray:
        """Residuals of a fold that all but determines a direction alone: by a fit to all other rows."""
        logger.debug("fold %d all but determines a direction alone: refitted to all other rows", fold)
        own = self.of(fold)
        rest, targets = (np.delete(self.scaled(values), own, axis=0) for values in (features, self.targets))
        weights = _refitted(rest.T @ rest, rest.T @ targets, penalty, self.constraints[fold], fold)
        return self.targets[own] - features[own] @ weights


class _Normal:
    """A normal matrix A = R'R of rows and penalty, in which constraints G w = 0 are directions forbidden to R w.

    R is triangular, or diagonal in rotated coordinates and then given as its diagonal (p,).
    """

    def __init__(self, R: FloatArray) -> None:
        self.R = R

    @classmethod
    def of(cls, gram: FloatArray, penalty: FloatArray, what: str) -> _Normal:
        """Factorise; warns where that needs jitter."""
        factor = factorise(gram + np.diag(penalty), relative=True, what=what)
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


def _downdated(
    blocks: Blocks, folds: _Folds, amounts: FloatArray, unit: FloatArray, memory_budget: float
) -> FloatArray:
    """Residuals (n_amounts, n, L) by one factorisation per fold and amount."""
    (n, n_outputs), p, n_folds = folds.targets.shape, len(unit), len(folds.constraints)
    at_once = int(max(1, min(n_folds, memory_budget // (8.0 * p * p) - 3)))
    groups = [range(first, min(first + at_once, n_folds)) for first in range(0, n_folds, at_once)]
    weights = np.concatenate([_weights_without(group, blocks, folds, amounts, unit) for group in groups])
    residuals = np.full((len(amounts), n, n_outputs), np.nan)
    for v, rows, features in _pieces(blocks, folds):
        if v >= 0:
            outputs = features @ weights[v].reshape(p, -1)  # all amounts in one product
            residuals[:, rows] = folds.targets[rows] - outputs.reshape(-1, len(amounts), n_outputs).swapaxes(0, 1)
    return residuals


def _weights_without(group: range, blocks: Blocks, folds: _Folds, amounts: FloatArray, unit: FloatArray) -> FloatArray:
    """Weights (n_folds, p, n_amounts, L) of the fits without each fold of a group."""
    p, n_outputs = len(unit), folds.targets.shape[1]
    grams, rights = np.zeros((len(group) + 1, p, p)), np.zeros((len(group) + 1, p, n_outputs))
    weights = np.empty((len(group), p, len(amounts), n_outputs))

    def products(piece: tuple[int, slice, FloatArray]) -> tuple[int, FloatArray, FloatArray]:
        v, rows, features = piece
        Z = folds.scaled(features, rows)
        return v, Z.T @ Z, Z.T @ folds.scaled(folds.targets[rows], rows)

    for v, gram, moment in ordered_map(products, _pieces(blocks, folds)):  # side by side where threads are
        at = v - group.start if v in group else len(group)  # the last: rows that all folds of the group train on
        grams[at] += gram
        rights[at] += moment
    total, right = grams.sum(axis=0), rights.sum(axis=0)

    def solve(at: tuple[int, int]) -> None:
        v, k = at
        rest = total - grams[v]  # De Brabanter et al. 2010, eq. 20, or the sum of the others when that cancels
        if (rest.diagonal() < LEAST_REMAINDER * total.diagonal()).any():
            rest = np.sum(grams, axis=0, where=(np.arange(len(grams)) != v)[:, None, None])
        constraints = folds.constraints[group.start + v]
        weights[v, :, k] = _refitted(rest, right - rights[v], amounts[k] * unit, constraints, group.start + v)

    for _ in ordered_map(solve, [(v, k) for v in range(len(group)) for k in range(len(amounts))]):
        pass
    return weights


def _pieces(blocks: Blocks, folds: _Folds) -> Iterator[tuple[int, slice, FloatArray]]:
    """Blocks cut where folds begin: the fold (-1 for rows never held out), the rows and their features."""
    start = 0
    for block in blocks():
        stop = start + len(block)
        inside = folds.starts[(folds.starts > start) & (folds.starts < stop)]
        for first, last in zip([start, *inside], [*inside, stop], strict=True):
            v = int(np.searchsorted(folds.starts, first, side="right")) - 1
            v = v if v < len(folds.constraints) else -1
            yield v, slice(first, last), np.ascontiguousarray(block[first - start : last - start], dtype=np.float64)
        start = stop


# -- from the fit to all rows -----------------------------------------------------------------------------


def _from_hat(features: FloatArray, folds: _Folds, amounts: FloatArray, unit: FloatArray) -> FloatArray:
    """Residuals (n_amounts, n, L) from the solved normal matrix of all rows, amount by amount."""
    Z, T = folds.scaled(features), folds.scaled(folds.targets)
    gram, what = Z.T @ Z, "normal matrix of all rows"
    residuals = np.empty((len(amounts), *T.shape))
    # On a path, amounts far from its middle lose precision: groups that span 8 powers of ten lose 4 digits of 16.
    groups = np.maximum(np.ceil(np.log10(amounts / amounts.min()) / 8.0 - 1e-9), 1.0)
    for members in (np.flatnonzero(groups == group) for group in np.unique(groups)):
        F, turned = features, folds
        if len(members) == 1:
            penalty = amounts[members[0]] * unit
            systems = [(members[0], _Normal.of(gram, penalty, what), penalty)]
        else:
            middle = float(np.exp(np.log(amounts[members]).mean()))
            normal = _Normal.of(gram, middle * unit, what)
            path = RidgePath.around(normal.R, unit, middle)
            F = F @ path.rotation
            turned = replace(folds, constraints=[rows @ path.rotation for rows in folds.constraints])
            systems = [(k, _Normal(np.sqrt(path.normal(amounts[k]))), path.penalty(amounts[k])) for k in members]
        Z = folds.scaled(F)
        right = Z.T @ T
        forbidden = [_forbidden_at_all([normal for _, normal, _ in systems], own) for own in turned.constraints]
        for at, (k, normal, penalty) in enumerate(systems):
            directions = [None if found is None else found[at] for found in forbidden]
            residuals[k], bad = _hat(turned, F, normal, right, directions)
            for v in bad:
                residuals[k, folds.of(v)] = turned.refitted(v, F, penalty)
    residuals[:, : folds.starts[0]] = residuals[:, folds.starts[-1] :] = np.nan
    return residuals


def _hat(
    folds: _Folds, features: FloatArray, normal: _Normal, right: FloatArray, forbidden: list[FloatArray | None]
) -> tuple[FloatArray, list[int]]:
    """Residuals by the block of each fold in the hat matrix H.

    With e the residuals of the whole fit, Z its rows times the roots S of the weights, and t = (I - H_vv)^-1 S e_v, the
    residuals without fold v are t / S, or e_v + Phi_v A^-1 Z_v' t, which also holds for rows of weight zero.
    """
    residuals = folds.targets - features @ normal.solve(right, None)
    bad: list[int] = []
    # Consecutive folds of about HAT_ROWS rows in all, at least one fold each.
    edges = np.flatnonzero(np.diff((folds.starts[:-1] - folds.starts[0]) // HAT_ROWS, prepend=-1)).tolist()
    for first, last in zip(edges, [*edges[1:], len(forbidden)], strict=True):
        starts = folds.starts[first : last + 1] - folds.starts[first]
        group = slice(int(folds.starts[first]), int(folds.starts[last]))
        whitened = normal.down(features[group].T).T
        for v, directions in enumerate(forbidden[first:last], first):
            if directions is not None:
                own = slice(starts[v - first], starts[v - first + 1])
                whitened[own] -= (whitened[own] @ directions) @ directions.T
                restricted = features[folds.of(v)] @ normal.solve(right, directions)
                residuals[folds.of(v)] = folds.targets[folds.of(v)] - restricted
        scaled, errors = folds.scaled(whitened, group), folds.scaled(residuals[group], group)
        sizes = np.diff(starts)
        for size in np.unique(sizes):
            members = np.flatnonzero(sizes == size)
            index = starts[members][:, None] + np.arange(size)
            Z = scaled[index]
            answer, sound = _solved_blocks(np.eye(size) - Z @ Z.swapaxes(1, 2), errors[index])
            if folds.root is None:
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


def _iterated(features: FloatArray, folds: _Folds, amounts: FloatArray, unit: FloatArray) -> FloatArray:
    """Residuals (n_amounts, n, L) by conjugate gradients, all folds and amounts side by side.

    The fit without fold v solves (A - Z_v' Z_v) w = r - r_v. It is sought from the fit to all rows, with A as
    preconditioner. Vectors are rows of arrays (n_folds, n_amounts, L, p), so that the amounts and outputs of a fold
    share one product with Z_v' Z_v, or with Z_v where that is cheaper, and the folds one solution with the factor of an
    amount.
    """
    Z, T = folds.scaled(features), folds.scaled(folds.targets)
    (n_outputs, p), n_amounts = (T.shape[1], len(unit)), len(amounts)
    parts = [folds.of(v) for v in range(len(folds.constraints))]
    dense = 2 * len(parts) * p * p <= 4 * len(Z) * p  # whether products with the folds' Gram matrices are the cheaper
    grams = [Z[own].T @ Z[own] for own in parts] if dense else []
    others = np.delete(Z, slice(parts[0].start, parts[-1].stop), axis=0) if dense else Z
    gram = sum(grams, start=others.T @ others)
    normals = [_Normal.of(gram, amount * unit, "normal matrix of all rows") for amount in amounts]
    forbidden = [_forbidden_at_all(normals, own) for own in folds.constraints]

    def solved(rights: FloatArray, active: IntArray) -> FloatArray:
        """A^-1 times right-hand sides (n_active, n_amounts, L, p), without what is forbidden in each fold."""
        whitened = np.empty_like(rights)
        for k, normal in enumerate(normals):
            whitened[:, k] = normal.down(rights[:, k].reshape(-1, p).T).T.reshape(len(active), n_outputs, p)
        for at, v in enumerate(active):
            Q = forbidden[v]
            if Q is not None:
                whitened[at] -= (whitened[at] @ Q) @ Q.swapaxes(1, 2)
        for k, normal in enumerate(normals):
            whitened[:, k] = normal.up(whitened[:, k].reshape(-1, p).T).T.reshape(len(active), n_outputs, p)
        return whitened

    def product(v: Any, rows: FloatArray) -> FloatArray:
        """Z_v' Z_v times rows (n_amounts, L, p)."""
        flat = rows.reshape(-1, p)
        answer = flat @ grams[v] if dense else (flat @ Z[parts[v]].T) @ Z[parts[v]]
        return np.asarray(answer).reshape(rows.shape)

    everything = np.arange(len(parts))
    W = solved(np.broadcast_to((Z.T @ T).T, (len(parts), n_amounts, n_outputs, p)), everything)
    moments = [(Z[own].T @ T[own]).T for own in parts]
    R = np.stack([product(v, W[v]) - moments[v] for v in everything])  # (r - r_v) - (A - Z_v' Z_v) w
    D, AD = np.zeros_like(R), np.zeros_like(R)  # directions, and A times them
    square = np.ones((*R.shape[:3], 1))
    going, weak, limit = square > 0, square < 0, square
    active = everything
    for step_number in range(MAX_STEPS):
        S = solved(R[active], active)
        previous = square[active]
        square[active] = (R[active] * S).sum(axis=-1, keepdims=True)
        limit = STEP_TOLERANCE**2 * square if step_number == 0 else limit
        going = (square > limit) & ~weak
        left = going[active].any(axis=(1, 2, 3))
        active, S, previous = active[left], S[left], previous[left]
        if not len(active):
            break
        on, now = going[active], square[active]
        ratio = np.where(on, now / np.where(previous > 0, previous, 1.0), 0.0)
        D[active], AD[active] = S + ratio * D[active], R[active] + ratio * AD[active]
        ahead = np.stack([product(v, D[v]) for v in active])
        length = (D[active] * AD[active]).sum(axis=-1, keepdims=True)
        curvature = length - (D[active] * ahead).sum(axis=-1, keepdims=True)
        weak[active] |= on & (curvature <= LEAST_CURVATURE * length)
        on &= ~weak[active]
        step = np.where(on, now / np.where(on, curvature, 1.0), 0.0)
        W[active] += step * D[active]
        R[active] -= step * (AD[active] - ahead)
    residuals = np.full((n_amounts, *T.shape), np.nan)
    for own, weights in zip(parts, W, strict=True):
        outputs = features[own] @ weights.reshape(-1, p).T
        outputs = outputs.reshape(-1, n_amounts, n_outputs).swapaxes(0, 1)
        residuals[:, own] = folds.targets[own] - outputs
    for v, k in np.argwhere((weak | going).any(axis=(2, 3))):
        residuals[k, parts[v]] = folds.refitted(int(v), features, amounts[k] * unit)
    return residuals


def _forbidden_at_all(normals: list[_Normal], rows: FloatArray) -> FloatArray | None:
    """Orthonormal directions (n_amounts, p, k) that constraints forbid under each of several normal matrices.

    Zeros take the place of directions that depend on others.
    """
    if not len(rows):
        return None
    directions = np.stack([normal.down(rows.T) for normal in normals])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    if len(rows) <= directions.shape[1]:
        Q, upper = np.linalg.qr(directions)
        if np.abs(np.diagonal(upper, axis1=1, axis2=2)).min() > 1e-6:  # far from dependent: no pivots are needed
            return Q
    found = [normal.forbidden(rows) for normal in normals]
    width = max(Q.shape[1] for Q in found if Q is not None)
    return np.stack([np.pad(Q, [(0, 0), (0, width - Q.shape[1])]) for Q in found if Q is not None])
