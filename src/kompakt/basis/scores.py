"""Which row joins the basis next: the criteria of Keerthi, Chapelle, DeCoste 2006, sections 3 and 5.

Criteria that try candidates (`sp1`, `sp2`, `mark`, `kmp`) give a score per candidate.  Criteria that look at all rows
(`cholesky`, `gsvc`, `bh`) need nothing that the machine does not have, so they cost no kernel evaluations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack, solve_triangular

from kompakt.basis.growing import GrowingMachine
from kompakt.solve.line_search import minimise_along

Array = np.ndarray

#: a candidate of method 1 is done when another step promises less than this share of what it has gained
_ENOUGH = 1e-7
#: a candidate is out of the race when even so many times its promise would not bring it to the best
_SAFETY = 20.0
_MAX_STEPS = 30


class Candidates(NamedTuple):
    """Rows that a step tries, and what their scores are made of."""

    indices: Array  # (k,) row numbers
    places: Array  # (r,), among the live rows: the rows that count
    K: Array  # (k, r), kernel values of the candidates at them
    diagonal: Array  # (k,), k(x, x)
    Phi: Array  # (k, m), features
    distances: Array  # (k,), squared distances from the span of the basis, 0 where only rounding is left


def candidates(machine: GrowingMachine, indices: Array, score_rows: str) -> Candidates:
    """Candidates with their kernel values at the "active" rows, or at "all" live ones.

    On the active rows the loss of all other rows counts as constant: their kernel values are never asked for.
    """
    Phi, rows = machine.features(indices), None if score_rows == "all" else machine.active
    K = machine.columns.columns(indices, rows)
    machine.scoring += K.size * machine.columns.rows.n_features
    inside = np.zeros(len(indices), dtype=bool)
    diagonal = np.empty(len(indices))
    places = np.arange(machine.f.shape[1])
    if rows is not None:
        places = machine.places(rows)[0]
        if len(rows):  # k(x_j, x_j) of an active candidate is already in the block
            where = np.minimum(np.searchsorted(rows, indices), len(rows) - 1)
            inside = rows[where] == indices
            diagonal[inside] = K[np.flatnonzero(inside), where[inside]]
    if not inside.all():
        diagonal[~inside] = machine.columns.diagonal(indices[~inside])
    return Candidates(indices, places, K, diagonal, Phi, machine.distances(Phi, diagonal))


def score_sp2(machine: GrowingMachine, tried: Candidates) -> Array:
    """Basis selection method 2 (eq. 7): decrease of the objective by the new weight alone, beta_J fixed."""
    y, f = machine.y[:, tried.places], machine.f[:, tried.places]
    # lambda beta_j K_jJ beta_J: the machine's own output at row j, without the intercept
    linear = machine.theta[:, machine.first : machine.width] @ tried.Phi.T
    quadratic = np.broadcast_to(np.maximum(tried.diagonal, 1e-300), linear.shape)
    cost = np.broadcast_to(machine.cost[:, tried.places], y.shape)
    _, gains = minimise_along(machine.loss, y, f, cost, tried.K[None], linear, quadratic)
    machine.scoring += 20.0 * tried.K.size * machine.n_outputs
    return np.asarray(np.sum(gains, axis=0))


def score_mark(machine: GrowingMachine, tried: Candidates) -> Array:
    """MARK (section 5): size of the derivative of the objective with respect to the new weight."""
    y, f, cost = (values[:, tried.places] for values in (machine.y, machine.f, machine.cost))
    gradient = machine.theta[:, machine.first : machine.width] @ tried.Phi.T
    gradient = gradient + (cost * machine.loss.gradient(y, f)) @ tried.K.T
    machine.scoring += 2.0 * tried.K.size * machine.n_outputs
    return np.asarray(np.sum(np.abs(gradient), axis=0))


def score_sp1(machine: GrowingMachine, tried: Candidates, race: bool = True) -> Array:
    """Basis selection method 1 (section 3.1): decrease of the objective after full re-optimisation, on all rows.

    `race` stops refining candidates that cannot become the best any more; the best and its score stay the same.  Only
    with one output, where a candidate's gain is known as it is refined.
    """
    gains = np.zeros(len(tried.indices))
    free = np.flatnonzero(tried.distances > 0)
    if len(free):
        lines = machine.whitened(tried.K[free], tried.Phi[free], np.sqrt(tried.distances[free]))
        refits = (_Refit(machine, lines, output) for output in range(machine.n_outputs))
        gains[free] = sum(refit.gains(race and machine.n_outputs == 1) for refit in refits)
    return gains


class _Refit:
    """Newton's method for k candidates of one output side by side; unknowns (k, p + 1), the new weight last.

    All candidates share the Hessian H of the current machine: one Newton step of the bordered systems is a few matrix
    products, with one triangular solve for all of them.  Further steps differ only in the rows that changed sides: each
    candidate's Hessian is H plus few outer products.  So the work of a step is shared in a way that machines with
    bases of their own cannot share it.
    """

    def __init__(self, machine: GrowingMachine, lines: Array, output: int) -> None:
        self.machine, self.lines, self.p, self.k = machine, lines, machine.width, len(lines)
        self.y, self.cost = machine.y[output], machine.cost[min(output, len(machine.cost) - 1)]
        self.loss = machine.loss.take_outputs(np.array([output]))
        self.H = machine.H[min(output, len(machine.H) - 1)]
        self.R = machine.factor(output).R
        self.curvature = machine.curvatures[output]  # the curvature that the machine's Hessian was formed with
        self.penalty = np.append(machine.penalty[: self.p], 1.0)
        self.theta = np.zeros((self.k, self.p + 1))
        self.theta[:, : self.p] = machine.theta[output, : self.p]
        self.f = np.repeat(machine.f[[output]], self.k, axis=0)

        def borders(rows: slice) -> tuple[Array, ...]:
            weighted = self.curvature[rows] * lines[:, rows]
            return weighted @ machine.lines[:, rows].T, np.einsum("ki,ki->k", lines[:, rows], weighted)

        self.sides, self.corners = machine.blocks.total(borders)
        self.corners = self.corners + 1.0
        machine.scoring += lines.size * self.p

    def gains(self, race: bool) -> Array:
        start = self._objective(self.theta, self.f)
        value = start.copy()
        racing = np.arange(self.k)
        for step_number in range(_MAX_STEPS):
            gradient = self._gradient(racing)
            step = self._shared_steps(gradient, racing)
            promise = -0.5 * np.sum(gradient * step, axis=1)
            if race:
                kept = value[racing] - _SAFETY * promise <= np.min(value)
                racing, gradient, step, promise = racing[kept], gradient[kept], step[kept], promise[kept]
            if step_number > 0:
                step = self._own_steps(gradient, racing)
                promise = -0.5 * np.sum(gradient * step, axis=1)
            go = promise > _ENOUGH * np.maximum(start[racing] - value[racing], 1e-12 * np.abs(start[racing]))
            racing, step = racing[go], step[go]
            if not len(racing):
                break
            value[racing] = self._advance(step, racing)
            if self.loss.quadratic:
                break  # one step solves it
        return np.asarray(start - value)

    def _of(self, values: Array, racing: Array) -> Array:
        """The lines of the candidates `racing`, without a copy when these are all."""
        return values if len(racing) == self.k else values[racing]

    def _objective(self, theta: Array, f: Array) -> Array:
        objective: Array = 0.5 * np.sum(self.penalty * theta * theta, axis=1) + self.loss.value(self.y, f) @ self.cost
        return objective

    def _gradient(self, racing: Array) -> Array:
        """Gradient for the candidates `racing`, (len(racing), p + 1), over blocks of rows."""
        f, lines, A = self._of(self.f, racing), self._of(self.lines, racing), self.machine.lines

        def block_gradient(rows: slice) -> tuple[Array, ...]:
            slopes = self.cost[rows] * self.loss.gradient(self.y[rows], f[:, rows])
            return slopes @ A[:, rows].T, np.einsum("ki,ki->k", lines[:, rows], slopes)

        old, new = self.machine.blocks.total(block_gradient)
        self.machine.scoring += lines.size * self.p
        return np.asarray(self.penalty * self.theta[racing] + np.column_stack([old, new]))

    def _shared_steps(self, gradient: Array, racing: Array) -> Array:
        """Newton steps of the candidates from the machine's own factor, bordered (section 2.3)."""
        corners = self.corners[racing]
        if not self.p:
            return np.asarray(-gradient / corners[:, None])
        sides = self._of(self.sides, racing)
        sides_and_gradients = np.concatenate([sides, gradient[:, :-1]]).T
        half = solve_triangular(self.R, sides_and_gradients, trans="T", check_finite=False)
        solved = solve_triangular(self.R, half, check_finite=False).T
        V, g = solved[: len(racing)], solved[len(racing) :]
        schur = np.maximum(corners - np.sum(sides * V, axis=1), 1.0)
        last = -(gradient[:, -1] - np.sum(sides * g, axis=1)) / schur
        return np.column_stack([-g - V * last[:, None], last])

    def _own_steps(self, gradient: Array, racing: Array) -> Array:
        """Newton steps with every candidate's own active rows: the shared Hessian plus the rows that changed."""
        p, step = self.p, np.empty_like(gradient)
        matrix = np.empty((p + 1, p + 1), order="F")
        for position, candidate in enumerate(racing):
            change = self.cost * self.loss.curvature(self.y, self.f[candidate]) - self.curvature
            rows = np.flatnonzero(change)
            A, new = self.machine.lines[:, rows], self.lines[candidate, rows]
            weighted = A * change[rows]
            matrix[:p, :p] = self.H[:p, :p]
            matrix[:p, :p] += weighted @ A.T
            matrix[:p, p] = self.sides[candidate] + weighted @ new
            matrix[p, p] = self.corners[candidate] + (new * change[rows]) @ new
            factor, info = lapack.dpotrf(matrix, lower=0, clean=0)
            if info:
                step[position] = -gradient[position] / np.diag(matrix)
                continue
            step[position] = -lapack.dpotrs(factor, gradient[position], lower=0)[0]
            self.machine.scoring += p**3 / 6 + len(rows) * p * p
        return step

    def _advance(self, step: Array, racing: Array) -> Array:
        """Move along each step, to the minimiser where all of it does not help; returns the objectives."""
        theta, f, lines = self._of(self.theta, racing), self._of(self.f, racing), self._of(self.lines, racing)
        change = np.empty_like(f)

        def fill(rows: slice) -> None:
            change[:, rows] = step[:, :-1] @ self.machine.lines[:, rows] + lines[:, rows] * step[:, -1:]

        self.machine.blocks.each(fill)
        self.machine.scoring += lines.size * self.p
        value, before = self._objective(theta + step, f + change), self._objective(theta, f)
        lengths = np.ones((len(racing), 1))
        for i in np.flatnonzero(value > before):
            linear, quadratic = np.sum(self.penalty * step[i] * [theta[i], step[i]], axis=1)
            t, decrease = minimise_along(
                self.loss, self.y[None], f[[i]], self.cost[None], change[i][None, None],
                linear[None, None], quadratic[None, None], tol=1e-9,
            )  # fmt: skip
            lengths[i], value[i] = t[0, 0], before[i] - decrease[0, 0]
        self.theta[racing] = theta + lengths * step
        self.f[racing] = f + lengths * change
        return value


#: criteria that try candidates; kernel matching pursuit is methods 2 and 1 on the least-squares loss (section 3.2)
SCORES: dict[str, Callable[[GrowingMachine, Candidates], Array]] = {
    "sp1": score_sp1,
    "sp2": score_sp2,
    "mark": score_mark,
    "kmp": score_sp2,
    "kmp_prefit": score_sp1,
}

#: criteria that look at all rows, without candidates
WHOLE = ("cholesky", "gsvc", "bh")

SELECTIONS = ("sp1", "sp2", "hybrid", "random", "cholesky", "gsvc", "bh", "mark", "kmp", "kmp_prefit")


class WholeRows:
    """Criteria over all rows, kept up to date as the basis grows.

    `cholesky` takes the row farthest from the span of the basis, `gsvc` (eq. 8) the active row least like any basis
    vector, `bh` (eq. 9) the active row with the largest squared shortfall times squared distance from the span.
    Equal scores go to the row whose hash comes first, so that the choice does not depend on the order of the rows.
    """

    def __init__(self, name: str, machine: GrowingMachine, order: Array) -> None:
        self.name, self.machine, self.order = name, machine, order
        self.diagonal = machine.columns.diagonal(np.arange(machine.f.shape[1]))
        self.squares = self.diagonal.copy()  # squared distances from the span
        self.likeness = np.zeros(len(self.diagonal))  # max over the basis of |k|

    def added(self, columns: Array) -> None:
        """Account for the basis vectors appended last; `columns` (k, n) are their raw kernel values."""
        lines = self.machine.lines
        self.squares -= np.sum(np.square(lines[len(lines) - len(columns) :]), axis=0)
        np.maximum(self.likeness, np.max(np.abs(columns), axis=0, initial=0.0), out=self.likeness)

    def choose(self) -> tuple[int, float] | None:
        """The row to add and its k(x, x), or None when none is left."""
        machine, order = self.machine, self.order
        free = self.squares > machine.noise * (machine.n_basis + 1) * self.diagonal
        free[machine.indices] = False
        score = self.squares
        if self.name != "cholesky":
            inactive = np.ones(len(free), dtype=bool)
            inactive[machine.active] = False
            free[inactive] = False
            if self.name == "gsvc":
                score = -self.likeness
            else:
                score = np.sum(np.square(machine.loss.gradient(machine.y, machine.f)), axis=0) * self.squares
        ordered = np.where(free[order], score[order], -np.inf)
        best = int(np.argmax(ordered))
        row = int(order[best])
        return (row, float(self.diagonal[row])) if np.isfinite(ordered[best]) else None
