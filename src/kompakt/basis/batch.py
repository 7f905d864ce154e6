"""Many small machines grown side by side: all C and all folds of a tuning grid on one kernel matrix.

Every machine has its own basis but they share kernel values and candidates, and each step is a handful of array
operations with a leading axis over the machines.  Rows held out by a fold have weight 0: they are followed, not trained
on, so validation errors of every size come with the growth (seed 001, section 4).  Method 2 scores,
retraining at every step; the result is that of `forward.grow`, machine by machine.
"""

from __future__ import annotations

import numpy as np

from kompakt.basis.line import minimise_along
from kompakt.losses import Loss

Array = np.ndarray


def grow_batch(
    K: Array,
    y: Array,
    weights: Array,
    C: Array,
    candidates: Array,
    loss: Loss,
    *,
    fit_intercept: bool = False,
    penalize_intercept: bool = False,
    score_rows: str = "active",
) -> Array:
    """Predictions of every machine at every size, (d_max, F, nC, n); NaN where a machine could not grow so far.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix of all rows.
    y : ndarray of shape (n,)
        Targets.
    weights : ndarray of shape (F, n)
        Row weights of every fold; 0 for the rows it holds out.
    C : ndarray of shape (nC,)
    candidates : ndarray of shape (F, d_max, kappa)
        Row numbers to try at each step, -1 for none.
    loss : Loss
        Piecewise quadratic.
    fit_intercept, penalize_intercept : bool
    score_rows : {"active", "all"}
        Rows that count in the scores.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.batch import grow_batch
    >>> from kompakt.losses import SquaredHinge
    >>> f = grow_batch(np.eye(2), np.array([1.0, -1.0]), np.ones((1, 2)), np.array([1.0]),
    ...                np.array([[[0, 1], [0, 1]]]), SquaredHinge())
    >>> f[:, 0, 0]
    array([[ 0.5,  0. ],
           [ 0.5, -0.5]])
    """
    machines = _Machines(K, y, weights, C, candidates.shape[1], loss, fit_intercept, penalize_intercept)
    machines.score_all = score_rows == "all"
    F, d_max, _ = candidates.shape
    outputs = np.full((d_max, F * len(C), len(y)), np.nan)
    for step in range(d_max):
        grown = machines.step(candidates[:, step])
        outputs[step, grown] = machines.f[grown]
        if not len(grown):
            break
    return outputs.reshape(d_max, F, len(C), len(y))


class _Machines:
    """B = F * nC machines; features are (B, width, n), one contiguous row per basis vector."""

    score_all = False

    def __init__(
        self, K: Array, y: Array, weights: Array, C: Array, d_max: int, loss: Loss, intercept: bool, penalised: bool
    ) -> None:
        F, n = weights.shape
        B = F * len(C)
        self.K, self.loss = K, loss
        self.diagonal = np.diag(K).copy()
        self.fold = np.repeat(np.arange(F), len(C))
        self.C = np.tile(np.asarray(C, dtype=np.float64), F)
        self.y = np.broadcast_to(y, (B, n))
        self.s = weights[self.fold]
        self.first = int(intercept)
        self.width = self.first
        self.A = np.empty((B, d_max + self.first, n))
        self.A[:, : self.first] = 1.0
        self.penalty = np.ones(d_max + self.first)
        self.penalty[: self.first] = float(penalised)
        self.H = np.zeros((B, d_max + self.first, d_max + self.first))
        self.theta = np.zeros((B, d_max + self.first))
        self.f = np.zeros((B, n))
        self.taken = np.zeros((B, n), dtype=bool)
        self.alive = np.arange(B)
        self.curvature = self.s * loss.curvature(self.y, self.f)
        if self.first:
            self._hessians(self.alive)
            self._train(self.alive)

    def step(self, candidates: Array) -> Array:
        """Add one vector to every machine that still can; returns those machines."""
        b, rows, rho, phi = self._choose(candidates)
        self.alive = b
        if not len(b):
            return b
        p = self.width
        new = self.K[rows]
        if p > self.first:
            new = new - np.matmul(phi[:, None], self.A[b, self.first : p])[:, 0]
        new /= rho[:, None]
        self.A[b, p] = new
        self.taken[b, rows] = True
        self.width = p + 1
        weighted = (self.C[b, None] * self.curvature[b]) * new
        side = np.matmul(self.A[b, : p + 1], weighted[:, :, None])[:, :, 0]
        self.H[b, p, : p + 1] = self.H[b, : p + 1, p] = side
        self.H[b, p, p] += 1.0
        self._train(b)
        return b

    def _choose(self, candidates: Array) -> tuple[Array, Array, Array, Array]:
        """Machines that can grow, the rows they take, and the new rows of their factors (pivot and rest)."""
        b = self.alive
        fold, m = self.fold[b], self.width - self.first
        tried = candidates[fold]  # (b, kappa)
        index = np.maximum(tried, 0)
        bias = self.theta[b, :1] if self.first else 0.0
        linear = np.take_along_axis(self.f[b], index, axis=1) - bias
        quadratic = self.diagonal[index]
        counted = self.s[b]
        if not self.score_all:
            counted = counted * (self.loss.gradient(self.y[b], self.f[b]) != 0)
        _, gains = minimise_along(
            self.loss, self.y[b], self.f[b], counted, self.K[np.maximum(candidates, 0)],
            linear, quadratic, self.C[b], group=fold,
        )  # fmt: skip
        basis = slice(self.first, self.width)
        phi = self.A[b[:, None], basis, index]  # (b, kappa, m)
        squares = quadratic - np.einsum("bkm,bkm->bk", phi, phi)
        free = (tried >= 0) & ~np.take_along_axis(self.taken[b], index, axis=1)
        free &= squares > np.finfo(np.float64).eps * (m + 1) * quadratic
        gains = np.where(free, gains, -np.inf)
        best = gains.max(axis=1)
        # equal to rounding: the first in the order of the stream
        winner = np.argmax(gains >= (best - 1e-9 * np.abs(best))[:, None], axis=1)
        can = np.isfinite(best)
        at = np.arange(len(b))[can]
        winner = winner[can]
        return b[can], index[at, winner], np.sqrt(squares[at, winner]), phi[at, winner]

    def _hessians(self, b: Array) -> None:
        p = self.width
        A = self.A[b, :p]
        weighted = A * (self.C[b, None] * self.curvature[b])[:, None]
        self.H[b, :p, :p] = np.matmul(weighted, A.transpose(0, 2, 1)) + np.diag(self.penalty[:p])

    def _train(self, b: Array) -> None:
        """Newton's method for the machines b, each until its active rows settle."""
        p = self.width
        for _ in range(100):
            A, y, s, C = self.A[b, :p], self.y[b], self.s[b], self.C[b]
            theta, f = self.theta[b, :p], self.f[b]
            slopes = C[:, None] * s * self.loss.gradient(y, f)
            gradient = self.penalty[:p] * theta + np.matmul(A, slopes[:, :, None])[:, :, 0]
            H = self.H[b, :p, :p]
            if self.first:  # an intercept without active rows has no curvature
                H[:, 0, 0] = np.maximum(H[:, 0, 0], 1e-12)
            step = -np.linalg.solve(H, gradient[:, :, None])[:, :, 0]
            change = np.matmul(step[:, None], A)[:, 0]
            t = self._lengths(b, theta, step, gradient, f, change)
            self.theta[b, :p] = theta + t[:, None] * step
            self.f[b] = f + t[:, None] * change
            fresh = s * self.loss.curvature(y, self.f[b])
            moved = np.any(fresh != self.curvature[b], axis=1)
            self.curvature[b] = fresh
            reached = np.abs(self._objective(b, self.theta[b, :p], self.f[b]))
            small = -np.sum(gradient * step, axis=1) <= 1e-12 * (1e-3 + reached)
            self._hessians(b[moved])
            b = b[(moved | (t != 1.0)) & ~small]
            if not len(b):
                return

    def _objective(self, b: Array, theta: Array, f: Array) -> Array:
        losses = np.sum(self.s[b] * self.loss.value(self.y[b], f), axis=1)
        return 0.5 * np.sum(self.penalty[: self.width] * theta**2, axis=1) + self.C[b] * losses

    def _lengths(self, b: Array, theta: Array, step: Array, gradient: Array, f: Array, change: Array) -> Array:
        """1, or where the full step fails the exact minimiser along it."""
        before = self._objective(b, theta, f)
        after = self._objective(b, theta + step, f + change)
        slope = np.sum(gradient * step, axis=1)
        poor = np.flatnonzero(after > before + 1e-4 * slope + 1e-14 * np.abs(before))
        t = np.ones(len(b))
        if len(poor):
            penalised = self.penalty[: self.width] * step[poor]
            found, _ = minimise_along(
                self.loss, self.y[b[poor]], f[poor], self.s[b[poor]], change[poor][:, None],
                np.sum(penalised * theta[poor], axis=1)[:, None],
                np.sum(penalised * step[poor], axis=1)[:, None] + 1e-300, self.C[b[poor]], tol=1e-10,
            )  # fmt: skip
            t[poor] = found[:, 0]
        return t
