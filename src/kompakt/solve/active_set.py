"""The exact end of a piecewise linear problem: rows on a kink become equations, the others stay on their lines.

At the minimum every row either lies on one linear piece of its loss, with that piece's slope, or exactly on a kink,
with a slope between those of the two pieces (its multiplier).  Once a rounded problem has told which rows are which,
the minimiser is the solution of an equality-constrained least-squares problem, and the multipliers prove it.

Where the guess is not quite right, rows are taken on and let go one at a time, each move going to the exact minimum
along its line (a primal active-set method).  The objective never rises, so it ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, qr_delete, qr_insert, solve_triangular

from kompakt.losses import PiecewiseLinear

Array = np.ndarray

#: a row whose part outside the held rows is smaller than this share of it depends on them
_DEPENDENT = 1e-10
#: moves of length zero in a row
_PATIENCE = 25


@dataclass(frozen=True)
class NearRows:
    """The rows near a kink, for one output; all other rows are in `linear`."""

    loss: PiecewiseLinear
    C: float
    features: Array  # (k, m), float64
    y: Array  # (k,)
    s: Array  # (k,), positive
    linear: Array  # (m + 1,): gradient of everything but the penalty and these rows, C included
    penalty: Array  # (m + 1,)
    fit_intercept: bool

    def predict(self, theta: Array) -> Array:
        return self.features @ theta[:-1] + theta[-1]

    def gradient(self, theta: Array, slopes: Array) -> Array:
        """Gradient of the objective when the rows have these slopes (with respect to their residuals)."""
        pull = self.C * self.s * self.loss.orientation(self.y) * slopes
        gradient = self.penalty * theta + self.linear
        gradient[:-1] += self.features.T @ pull
        gradient[-1] = gradient[-1] + pull.sum() if self.fit_intercept else 0.0
        return gradient


@dataclass(frozen=True)
class Finish:
    """A point, the slopes of the near rows there, and how far rows with a multiplier are from their kink."""

    theta: Array
    slopes: Array
    distance: float
    consistent: bool
    n_moves: int


def finish(near: NearRows, theta: Array, width: float) -> Finish:
    """Walk to the exact minimiser from a point of the rounded problem of this width."""
    walk = _Walk(near, theta, width)
    limit = 4 * walk.A.shape[1] + 100
    consistent, moves = False, 0
    # many rows on one point of a kink can change places for ever without a step: then the walk is given up
    while not consistent and moves < limit and walk.stalled < _PATIENCE:
        moves += 1
        if moves % 64 == 0:
            walk.refresh()  # sums kept up to date gather rounding errors
        direction = walk.direction()
        if walk.stationary(direction):
            consistent = walk.release()
        else:
            walk.move(direction)
    walk.return_to_kinks()
    full = np.zeros(len(theta))
    full[: len(walk.x)] = walk.x
    return Finish(full, walk.bounded_slopes(), walk.distance(), consistent, moves)


class _Walk:
    """State of the walk: the point, which rows are held on which kink, and the QR factors of the held rows."""

    def __init__(self, near: NearRows, theta: Array, width: float) -> None:
        self.loss, self.y = near.loss, near.y
        self.kinks, self.levels = near.loss.kinks, near.loss.slopes
        columns = len(theta) if near.fit_intercept else len(theta) - 1
        self.A = near.features
        if near.fit_intercept:
            self.A = np.column_stack([near.features, np.ones(len(near.y))])
        self.penalty, self.linear = near.penalty[:columns], near.linear[:columns]
        self.free_intercept = near.fit_intercept and near.penalty[-1] == 0.0
        self.orientation = near.loss.orientation(near.y)
        self.strength = near.C * near.s
        self.lengths = np.sqrt(np.einsum("ij,ij->i", self.A, self.A))
        self.x = theta[:columns].copy()
        self.settled = False
        self.stalled = 0
        self._begin(width)

    def _begin(self, width: float) -> None:
        """Hold the rows in the rounded window, as many as are independent, and put them on their kinks."""
        r = self.residuals()
        self.kink = np.argmin(np.abs(r[:, None] - self.kinks), axis=1)
        inside = np.flatnonzero(np.abs(r - self.kinks[self.kink]) < 0.5 * width)
        self.held = np.empty(0, dtype=np.intp)
        self.Q, self.R = np.empty((len(self.x), 0)), np.empty((0, 0))
        if len(inside):
            Q, R, order = qr(self.A[inside].T, mode="economic", pivoting=True, check_finite=False)
            sizes = np.abs(np.diag(R))
            rank = int(np.sum(sizes > _DEPENDENT * sizes[0])) if sizes[0] > 0 else 0
            self.held = inside[order[:rank]]
            self.Q, self.R = np.ascontiguousarray(Q[:, :rank]), np.ascontiguousarray(R[:rank, :rank])
        share = np.clip((r - self.kinks[self.kink]) / width + 0.5, 0.0, 1.0)
        below, above = self.levels[self.kink], self.levels[self.kink + 1]
        self.piece = np.searchsorted(self.kinks, r)
        self.slopes = self.levels[self.piece]
        self.slopes[self.held] = (below + share * (above - below))[self.held]
        self.return_to_kinks()
        others = np.ones(len(self.y), dtype=bool)
        others[self.held] = False
        self.piece[others] = np.searchsorted(self.kinks, self.r[others])
        self.slopes[others] = self.levels[self.piece[others]]
        self.refresh()

    def residuals(self) -> Array:
        return self.loss.residual(self.y, self.A @ self.x)

    def refresh(self) -> None:
        """Residuals and gradient anew."""
        self.r = self.residuals()
        pulls = self.strength * self.orientation * self.slopes
        self.gradient = self.penalty * self.x + self.linear + self.A.T @ pulls

    def _set_slopes(self, rows: Array, slopes: Array) -> None:
        change = self.strength[rows] * self.orientation[rows] * (slopes - self.slopes[rows])
        self.gradient = self.gradient + change @ self.A[rows]
        self.slopes[rows] = slopes

    def return_to_kinks(self) -> None:
        """The smallest move that puts the held rows exactly on their kinks."""
        self.r = self.residuals()
        if len(self.held):
            missing = (self.kinks[self.kink[self.held]] - self.r[self.held]) / self.orientation[self.held]
            self.x = self.x + self.Q @ solve_triangular(self.R, missing, trans="T", check_finite=False)
            self.r = self.residuals()

    def direction(self) -> Array:
        """The move to the minimum of the present lines that keeps the held rows where they are.

        With P the penalty and Z a basis of the moves that keep them, -Z (Z'PZ)^-1 Z' gradient.  P is the identity, but
        for a free intercept, where Z'PZ is the identity minus a square and its inverse is known.
        """
        if not self.free_intercept:
            return self._projected(-self.gradient)
        if not len(self.held):
            return self._without_equations()
        last = self.Q[-1]
        towards = -self.gradient
        towards[-1] -= (self.gradient[-1] - last @ (self.Q.T @ self.gradient)) / float(last @ last)
        return self._projected(towards)

    def _without_equations(self) -> Array:
        """No row is held: a free intercept moves first, alone; at its minimum the weights move."""
        gradient, direction = self.gradient, np.zeros_like(self.gradient)
        total = float(np.sum(self.strength * np.abs(self.slopes))) + abs(float(self.linear[-1]))
        if abs(gradient[-1]) > 1e-12 * total:
            direction[-1] = -gradient[-1]
        else:
            direction[:-1] = -gradient[:-1]
        return direction

    def _projected(self, vector: Array) -> Array:
        vector = vector - self.Q @ (self.Q.T @ vector)
        return vector - self.Q @ (self.Q.T @ vector)  # once more: the first removes most, the second the rounding

    def stationary(self, direction: Array) -> bool:
        """Whether the point is the minimum of the present lines."""
        weights = self.x[:-1] if self.free_intercept else self.x
        scale = float(np.linalg.norm(weights) + np.sum(self.strength * np.abs(self.slopes)))
        return self.settled or float(np.linalg.norm(direction)) <= 1e-13 * scale

    def release(self) -> bool:
        """Multipliers of the held rows; the row whose multiplier is most out of bounds is let go.  True: none is."""
        self.settled = False
        held = self.held
        if not len(held):
            return True
        change = solve_triangular(self.R, -(self.Q.T @ self.gradient), check_finite=False)
        self._set_slopes(held, self.slopes[held] + change / (self.strength[held] * self.orientation[held]))
        low, high = self.levels[self.kink[held]], self.levels[self.kink[held] + 1]
        excess = np.maximum(low - self.slopes[held], self.slopes[held] - high)
        worst = int(np.argmax(excess))
        if excess[worst] <= 1e-13:
            return True
        row = held[worst]
        self.piece[row] = self.kink[row] + (self.slopes[row] > high[worst])
        self._set_slopes(held[worst : worst + 1], self.levels[self.piece[row]])
        self._drop(worst)
        return False

    def _drop(self, position: int) -> None:
        self.held = np.delete(self.held, position)
        Q, R = qr_delete(self.Q, self.R, position, which="col", check_finite=False)
        kept = len(self.held)  # square factors come back square
        self.Q, self.R = np.ascontiguousarray(Q[:, :kept]), np.ascontiguousarray(R[:kept])

    def move(self, direction: Array) -> None:
        """Go to the minimum along the direction; a row that stops the way there is held on its kink."""
        rates = self.orientation * (self.A @ direction)
        rates[np.abs(rates) <= _DEPENDENT * self.lengths * np.linalg.norm(direction)] = 0.0
        rates[self.held] = 0.0
        row, kink, times, jumps = self._crossings(rates)
        order = np.argsort(times, kind="stable")
        row, kink, times, jumps = row[order], kink[order], times[order], jumps[order]
        slope, bend = float(self.gradient @ direction), float(np.sum(self.penalty * direction**2))
        after = slope + bend * times + np.cumsum(jumps)
        stop = int(np.argmax(after >= 0.0)) if np.any(after >= 0.0) else len(after)
        passed = slope + float(np.sum(jumps[:stop]))
        blocked = stop < len(times) and passed + bend * times[stop] < 0.0
        if not blocked and bend <= 0.0:  # only rounding can bring us here: the losses are bounded below
            self.settled = True
            return
        t = float(times[stop]) if blocked else -passed / bend
        np.add.at(self.piece, row[:stop], np.where(rates[row[:stop]] > 0.0, 1, -1))
        crossed = np.unique(row[:stop])
        self._set_slopes(crossed, self.levels[self.piece[crossed]])
        moved = t * float(np.max(np.abs(rates), initial=0.0)) > 1e-12 * float(np.max(np.abs(self.r), initial=0.0))
        self.stalled = 0 if moved else self.stalled + 1
        self.x = self.x + t * direction
        self.r = self.r + t * rates
        self.gradient = self.gradient + t * self.penalty * direction
        self.settled = not blocked and stop == 0
        if blocked:
            self._hold(int(row[stop]), int(kink[stop]))

    def _crossings(self, rates: Array) -> tuple[Array, Array, Array, Array]:
        """When rows reach kinks: row, kink, time and the jump of the slope along the way."""
        numbers = np.arange(len(self.kinks))
        ahead = np.where((rates > 0.0)[:, None], numbers >= self.piece[:, None], numbers < self.piece[:, None])
        row, kink = np.nonzero(ahead & (rates != 0.0)[:, None])
        times = np.maximum(0.0, (self.kinks[kink] - self.r[row]) / rates[row])
        jumps = self.strength[row] * np.abs(rates[row]) * (self.levels[kink + 1] - self.levels[kink])
        return row, kink, times, jumps

    def _hold(self, row: int, kink: int) -> None:
        self.kink[row] = kink
        column = self.A[row]
        if len(self.held):
            self.Q, self.R = qr_insert(self.Q, self.R, column, len(self.held), which="col", check_finite=False)
        else:
            length = float(np.linalg.norm(column))
            self.Q, self.R = (column / length)[:, None], np.array([[length]])
        self.held = np.append(self.held, row)

    def bounded_slopes(self) -> Array:
        """Slopes of all rows, those of held rows within the bounds of their kinks."""
        slopes = self.levels[self.piece]
        low, high = self.levels[self.kink[self.held]], self.levels[self.kink[self.held] + 1]
        slopes[self.held] = np.clip(self.slopes[self.held], low, high)
        return slopes

    def distance(self) -> float:
        """Largest distance of a row from where its slope belongs."""
        gaps = np.zeros(len(self.r))
        upper = np.append(self.kinks, np.inf)[self.piece]
        lower = np.append(-np.inf, self.kinks)[self.piece]
        gaps = np.maximum(0.0, np.maximum(self.r - upper, lower - self.r))
        gaps[self.held] = np.abs(self.r[self.held] - self.kinks[self.kink[self.held]])
        return float(np.max(gaps, initial=0.0))
