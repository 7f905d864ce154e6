"""Which row joins the basis next: the criteria of seed 001, sections 3 and 5, each a part with a name.

Criteria that try candidates (`sp1`, `sp2`, `mark`, `kmp`) return a score per candidate.  Criteria that look at all rows
(`cholesky`, `gsvc`, `bh`) need nothing that the machine does not hold, so they cost no kernel evaluations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from kompakt.basis.line import minimise_along
from kompakt.basis.machine import GrowingMachine
from kompakt.basis.refit import refit_gains

Array = np.ndarray


@dataclass(frozen=True)
class Tried:
    """Candidates of one step and what their trial told."""

    indices: Array  # (k,) row numbers
    scores: Array  # (k,), larger is better; -inf for a row that lies in the span of the basis
    diagonal: Array  # (k,), k(x, x)
    columns: Array | None = None  # (k, n_live), where the criterion needed them


def pivots(machine: GrowingMachine, indices: Array, diagonal: Array) -> Array:
    """Squared distances of rows from the span of the basis, d_j^2 of eq. 9; 0 where only rounding is left."""
    squares = diagonal - np.sum(np.square(machine.features(indices)), axis=1)
    return np.where(squares > machine.noise * (machine.n_basis + 1) * diagonal, squares, 0.0)


def score_sp2(machine: GrowingMachine, indices: Array, score_rows: str = "active") -> Tried:
    """Basis selection method 2 (eq. 7): decrease of the objective by the new weight alone, beta_J fixed.

    On the active rows the loss of all other rows counts as constant: their kernel values are never asked for.
    """
    rows, K, diagonal = _trial_block(machine, indices, score_rows)
    place = np.arange(len(machine.f)) if rows is None else rows
    # lambda beta_j K_jJ beta_J: the machine's own output at row j, without the intercept
    linear = _outputs_at(machine, indices).T
    _, gains = minimise_along(
        machine.loss,
        machine.y[place].T,
        machine.f[place].T,
        np.broadcast_to(machine.s[place], (len(place), machine.n_outputs)).T,
        K[None],
        linear,
        np.broadcast_to(np.maximum(diagonal, 1e-300), linear.shape),
        machine.C,
    )
    machine.work.scoring += K.size * (machine.rows.n_features + 20.0 * machine.n_outputs)
    return _tried(machine, indices, np.sum(gains, axis=0), diagonal)


def score_mark(machine: GrowingMachine, indices: Array, score_rows: str = "active") -> Tried:
    """MARK (section 5): size of the derivative of the objective with respect to the new weight."""
    rows, K, diagonal = _trial_block(machine, indices, score_rows)
    place = np.arange(len(machine.f)) if rows is None else rows
    slopes = machine.s[place] * machine.loss.gradient(machine.y[place], machine.f[place])
    gradient = _outputs_at(machine, indices) + machine.C * (K @ slopes)
    machine.work.scoring += K.size * (machine.rows.n_features + 2.0 * machine.n_outputs)
    return _tried(machine, indices, np.sum(np.abs(gradient), axis=1), diagonal)


def score_sp1(machine: GrowingMachine, indices: Array, score_rows: str = "active", race: bool = False) -> Tried:
    """Basis selection method 1: decrease of the objective after full re-optimisation with the new vector.

    `race` stops refining candidates that cannot become the best; the best and its score stay the same.
    """
    diagonal = machine.columns_of.diagonal(indices)
    squares = pivots(machine, indices, diagonal)
    columns = machine.columns_of.columns(indices)
    machine.work.scoring += columns.size * machine.rows.n_features
    gains = np.full(len(indices), -np.inf)
    free = np.flatnonzero(squares > 0)
    if len(free):
        Phi = machine.features(indices[free])
        gains[free] = refit_gains(machine, columns[free], Phi, np.sqrt(squares[free]), race)
    return Tried(indices, gains, diagonal, columns)


def _trial_block(machine: GrowingMachine, indices: Array, score_rows: str) -> tuple[Array | None, Array, Array]:
    """Places of the rows that count, kernel values of the candidates at them (k, rows), and k(x_j, x_j)."""
    if score_rows == "all":
        return None, machine.columns_of.columns(indices), machine.columns_of.diagonal(indices)
    active = machine.active
    K = machine.columns_of.block(active, indices)
    # k(x_j, x_j) of an active candidate is already in the block
    diagonal = np.empty(len(indices))
    where = np.minimum(np.searchsorted(active, indices), max(0, len(active) - 1))
    inside = active[where] == indices if len(active) else np.zeros(len(indices), dtype=bool)
    diagonal[inside] = K[np.flatnonzero(inside), where[inside]]
    if not inside.all():
        diagonal[~inside] = machine.columns_of.diagonal(indices[~inside])
    return machine.positions(active)[0], K, diagonal


def _outputs_at(machine: GrowingMachine, indices: Array) -> Array:
    """K_jJ beta_J for candidate rows, (k, L)."""
    place, known = machine.positions(indices)
    if known.all():
        return machine.f[place] - (machine.theta[0] if machine.first else 0.0)
    return machine.features(indices) @ machine.theta[machine.first :]


def _tried(machine: GrowingMachine, indices: Array, scores: Array, diagonal: Array) -> Tried:
    free = pivots(machine, indices, diagonal) > 0
    return Tried(indices, np.where(free, scores, -np.inf), diagonal)


TRIALS: dict[str, Callable[..., Tried]] = {
    "sp1": partial(score_sp1, race=True),
    "sp2": score_sp2,
    "mark": score_mark,
    # kernel matching pursuit is the same pair of methods on the least-squares loss (section 3.2)
    "kmp": score_sp2,
    "kmp_prefit": partial(score_sp1, race=True),
}


class WholeRows:
    """Criteria over all rows, kept up to date as the basis grows.

    `cholesky` takes the row farthest from the span of the basis, `gsvc` (eq. 8) the active row least like any basis
    vector, `bh` (eq. 9) the active row with the largest squared shortfall times squared distance from the span.
    Equal scores go to the row whose hash comes first, so that the choice does not depend on the order of the rows.
    """

    def __init__(self, name: str, machine: GrowingMachine, order: Array) -> None:
        self.name, self.machine, self.order = name, machine, order
        self.diagonal = machine.columns_of.diagonal(np.arange(machine.rows.n_rows))
        self.squares = self.diagonal.copy()  # squared distances from the span
        self.likeness = np.zeros(len(self.diagonal))  # max over the basis of |k|

    def added(self, column: Array) -> None:
        """Account for a basis vector that was appended; `column` are its raw kernel values."""
        machine = self.machine
        self.squares -= np.square(machine.A[:, machine.width - 1])
        np.maximum(self.likeness, np.abs(column), out=self.likeness)

    def choose(self) -> int | None:
        """The row to add, or None when none is left."""
        machine, order = self.machine, self.order
        least = machine.noise * (machine.n_basis + 1) * self.diagonal
        free = self.squares > least
        free[machine.indices] = False
        if self.name == "cholesky":
            score = self.squares
        else:
            active = np.zeros(len(free), dtype=bool)
            active[machine.active] = True
            free &= active
            if self.name == "gsvc":
                score = -self.likeness
            else:
                slopes = machine.loss.gradient(machine.y, machine.f)
                score = np.sum(np.square(slopes), axis=1) * self.squares
        ordered = np.where(free[order], score[order], -np.inf)
        best = int(np.argmax(ordered))
        return int(order[best]) if np.isfinite(ordered[best]) else None


SELECTIONS = ("sp1", "sp2", "hybrid", "random", "cholesky", "gsvc", "bh", "mark", "kmp", "kmp_prefit")
