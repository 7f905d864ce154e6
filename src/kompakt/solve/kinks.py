"""Piecewise linear losses (hinge, absolute, epsilon-insensitive, quantile): rounded kinks, then an exact finish.

Every kink is replaced by a parabola of some width.  The rounded loss is piecewise quadratic, so Newton's method
solves it; the width then shrinks tenfold in stages.  Between stages the rows inside the rounded part are followed to
the new width: without that, shrinking would throw most of them out of the window and each stage would begin anew.
After each stage the rows found near a kink are put exactly on it (`finish`); the stages end when the
multipliers of that point prove it optimal, or when the width has reached what the data type can tell.

This is the faster road to the fixed point of the reweighted least squares of Navia-Vazquez and Diaz-Morales 2010,
Table 1 (benchmarks/irwls.py, which tests compare with).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, qr, qr_delete, qr_insert, solve_triangular

from kompakt.data import RowBlock
from kompakt.design import FeatureDesign
from kompakt.losses import LeastSquares, PiecewiseLinear, Rounded, require_kind
from kompakt.solve import newton
from kompakt.solve.problem import Array, Problem, Settings, Solution, block_weights, only, start_coordinates

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
        return np.asarray(self.features @ theta[:-1] + theta[-1])

    def gradient(self, theta: Array, slopes: Array) -> Array:
        """Gradient of the objective when the rows have these slopes (with respect to their residuals)."""
        pull = self.C * self.s * self.loss.orientation(self.y) * slopes
        gradient: Array = self.penalty * theta + self.linear
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
        free = np.ones(len(self.y), dtype=bool)
        free[self.held] = False
        self.piece[free] = np.searchsorted(self.kinks, self.r[free])
        self.slopes[free] = self.levels[self.piece[free]]
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
        gradient, direction = self.gradient, np.zeros(len(self.gradient))
        total = float(np.sum(self.strength * np.abs(self.slopes))) + abs(float(self.linear[-1]))
        if abs(gradient[-1]) > 1e-12 * total:
            direction[-1] = -gradient[-1]
        else:
            direction[:-1] = -gradient[:-1]
        return direction

    def _projected(self, vector: Array) -> Array:
        for _ in range(2):  # the first removes most, the second the rounding
            vector = vector - self.Q @ (self.Q.T @ vector)
        return vector

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
        upper = np.append(self.kinks, np.inf)[self.piece]
        lower = np.append(-np.inf, self.kinks)[self.piece]
        gaps = np.maximum(0.0, np.maximum(self.r - upper, lower - self.r))
        gaps[self.held] = np.abs(self.r[self.held] - self.kinks[self.kink[self.held]])
        return float(np.max(gaps, initial=0.0))


logger = logging.getLogger("kompakt")

#: widths that all rows pass, as shares of the scale of the residuals; then rows far from every kink are set aside
_COARSE = (1.0, 0.1)
_COARSE_WARM = (0.1,)
_COARSE_ITERATIONS = 40
_STAGE_ITERATIONS = 40
#: relative gradient at which a stage that others follow is left
_STAGE_TOL = 1e-2
#: bytes that the features of the rows near a kink may take; more of them, and a stage passes over all rows instead
_NEAR_BYTES = 1 << 28


def minimise(problem: Problem, start: Array | None = None, settings: Settings | None = None) -> Solution:
    """Minimise a piecewise linear loss; see `kompakt.solve.solve` for the usual door."""
    settings = settings or Settings()
    settings = replace(settings, run=replace(settings.run, checkpoint=None))  # many short solves are one step together
    require_kind(problem.loss, "piecewise_linear", "the solver for losses that are not piecewise quadratic")
    scales = _residual_scales(problem)
    # a warm start already knows which rows lie near the kinks
    coarse = [scales * share for share in (_COARSE if start is None else _COARSE_WARM)]
    theta = _least_squares(problem) if start is None else start_coordinates(problem, start)
    coarse_settings = replace(settings, max_iter=min(settings.max_iter, _COARSE_ITERATIONS))
    theta, n_iter, _ = _stages(problem, theta, coarse, coarse_settings)
    ends = []
    for output in range(problem.n_outputs):
        budget = replace(settings, max_iter=max(1, settings.max_iter - n_iter))
        single = only(problem, output)
        ends.append(_one_output(single, theta[:, output], float(coarse[-1][output]), budget))
        problem.design.n_kernel_evals, problem.design.n_passes = single.design.n_kernel_evals, single.design.n_passes
    theta = np.column_stack([end.theta for end in ends])
    return Solution(
        weights=problem.design.to_weights(theta[:-1]),
        intercept=theta[-1].copy(),
        coordinates=theta,
        objective=np.array([end.objective for end in ends]),
        n_iter=n_iter + max(end.n_iter for end in ends),
        converged=all(end.converged for end in ends),
        optimality=np.array([end.optimality for end in ends]),
        jitter=problem.design.jitter,
        info={"exact": [end.exact for end in ends], "rounding": [end.width for end in ends]},
    )


# -- all rows at once -----------------------------------------------------------------------------------


def _least_squares(problem: Problem) -> Array:
    """The least-squares fit of the targets (step 1.0 of that table): right offset, right scale."""
    squared = replace(problem, loss=LeastSquares(), linear=None)
    theta = start_coordinates(problem, None)
    sums = newton.run_pass(squared, theta, None, np.arange(problem.n_outputs), None)
    return np.asarray(theta + newton.newton_step(squared, theta, sums)[0])


def _stages(
    problem: Problem,
    theta: Array,
    widths: Sequence[Array],
    settings: Settings,
    *,
    tol: float = _STAGE_TOL,
    window: Array | None = None,
) -> tuple[Array, int, Solution]:
    """Newton at every width (one per output) in turn; returns coordinates, iterations, and the last solution."""
    n_iter = 0
    for width in widths:
        if window is not None:
            theta = _follow(problem, theta, width, window)
        stage_settings = replace(settings, tol=max(tol, settings.tol), max_iter=max(1, settings.max_iter - n_iter))
        solution = newton.minimise(replace(problem, loss=Rounded(_linear_loss(problem), width)), theta, stage_settings)
        theta, window = solution.coordinates, width
        n_iter += solution.n_iter
    return theta, n_iter, solution


def _follow(problem: Problem, theta: Array, width: Array, window: Array) -> Array:
    """One Newton step at the new width with the rows of the old window held; kept where it lowers the objective."""
    outputs = np.arange(problem.n_outputs)
    held = replace(problem, loss=Rounded(_linear_loss(problem), width, window))
    sums = newton.run_pass(held, theta, None, outputs, None)
    step, _ = newton.newton_step(held, theta, sums)
    trial = newton.run_losses(replace(problem, loss=Rounded(_linear_loss(problem), width)), theta, step, outputs)
    before = newton.penalised(problem, theta, trial[0])
    after = newton.penalised(problem, theta + step, trial[1])
    return np.asarray(theta + np.where(after < before, 1.0, 0.0) * step)


# -- one output, rows in memory --------------------------------------------------------------------------


@dataclass(frozen=True)
class _End:
    """Where one output ended."""

    theta: Array
    objective: float
    optimality: float
    n_iter: int
    converged: bool
    exact: bool
    width: float


@dataclass(frozen=True)
class _Scan:
    """All rows as seen from a point: their residuals, and the gradient of those that are far from every kink."""

    theta: Array
    r: Array
    piece: Array  # interval between kinks
    near: Array  # mask; rows of weight 0 count as far and never as crossing
    linear: Array  # (m + 1,), C included
    objective: float
    magnitude: float  # sum of |C s slope|


def _one_output(problem: Problem, theta: Array, width: float, settings: Settings) -> _End:
    """Shrink the rounding on the rows near a kink until the exact finish is proved optimal.

    Rows farther from every kink than twice the rounding are set aside as lines, which never lie above their losses.
    After each stage all rows are looked at: those that left their line join the near ones and the stage is repeated,
    so it ends at the latest when no row is set aside.  There are finitely many stages, because the width shrinks
    tenfold each time down to the rounding of the residuals.
    """
    tol = max(settings.tol, 50 * float(np.finfo(problem.design.block_dtype).eps))
    at = _scan(problem, theta, 2.0 * width)
    counted = _weights(problem) > 0
    typical = _typical(problem, counted, width)
    n_iter, optimality, ended, settled = 0, np.inf, False, False
    target, care = 0.1 * width, 0.02
    while not ended and n_iter < settings.max_iter and not settings.run.late:
        near = _near_rows(problem, at)
        slack = _slack(problem, at, near)
        floor = max(10 * slack, 1e-7 * typical)
        target = max(target, floor)
        # a part that Newton finds hard is left to the walk, which is exact
        stage_settings = replace(settings, max_iter=min(_STAGE_ITERATIONS, settings.max_iter - n_iter))
        rough, final = target > 2e-3 * typical, target <= floor
        stage_tol = tol if final else care * _error_share(at)
        candidate, end, last = _one_stage(
            problem, near, at.theta, (target, width), slack, stage_settings, rough=rough, tol=stage_tol
        )
        n_iter += max(1, last.n_iter)
        after = _scan(problem, candidate, 2.0 * target)
        crossed = (after.piece != at.piece) & ~at.near & counted
        if near is not None and crossed.any():
            at, width = _join(problem, at, after, crossed), target
            continue
        at, optimality = after, float(last.optimality[0])
        if near is not None and end is not None:
            optimality = _relative_gradient(near, end, after)
            if optimality <= tol:
                return _End(at.theta, at.objective, optimality, n_iter, True, True, 0.0)
        ended, settled = final, last.converged
        care *= 1.0 if rough else 0.1  # the walk went astray: begin the next one nearer
        width, target = target, 0.1 * target
    # a narrow rounding, converged: its slopes are multipliers of rows within that width of their kinks
    logger.debug("no exact finish: rounding of width %.1e, gradient %.1e of its parts.", width, optimality)
    converged = ended and settled and optimality <= max(tol, 1e-6)
    return _End(at.theta, at.objective, optimality, n_iter, converged, False, width)


def _error_share(at: _Scan) -> float:
    """Relative gradient that stands for an error of the weights as large as themselves.

    The penalty has curvature 1, so the weights are off by no more than the gradient; but `tol` is relative to the sum
    of all pulls, which largely cancel and may be thousands of times as large as the weights.
    """
    size = float(np.linalg.norm(at.theta[:-1]))
    return min(0.05, size / (size + at.magnitude)) if size > 0.0 else 0.05


def _join(problem: Problem, at: _Scan, after: _Scan, crossed: Array) -> _Scan:
    """Count the crossed rows as near ones; go on from the better of the two points."""
    loss, rows = _linear_loss(problem), np.flatnonzero(crossed)
    pulls = _weights(problem)[rows] * loss.orientation(_targets(problem)[rows]) * loss.slopes[at.piece[rows]]
    mask = np.zeros(problem.design.n_rows)
    mask[rows] = pulls
    lines = problem.C * np.append(problem.design.rmatvec(mask[:, None])[:, 0], pulls.sum())
    better = after if after.objective < at.objective else at
    return replace(at, theta=better.theta, objective=better.objective, near=at.near | crossed, linear=at.linear - lines)


def _one_stage(
    problem: Problem,
    near: NearRows | None,
    theta: Array,
    shrink: tuple[float, float],
    slack: float,
    settings: Settings,
    *,
    rough: bool,
    tol: float,
) -> tuple[Array, Finish | None, Solution]:
    """Newton at the target width, on the near rows where they are known, and the exact finish if it holds."""
    target, width = shrink
    if near is not None:
        design = FeatureDesign(near.features, near.y[:, None], near.s, block_rows=8192)
        problem = replace(problem, design=design, linear=near.linear[:, None])
    widths, window = [np.array([target])], np.array([width])
    coordinates, _, last = _stages(problem, theta[:, None], widths, settings, tol=tol, window=window)
    theta = coordinates[:, 0]
    if near is None:
        return theta, None, last
    inside = _distance(near.loss, near.loss.residual(near.y, near.predict(theta))) < 0.5 * target
    if not rough or inside.sum() <= len(theta):  # with more rows than unknowns a narrower window is quicker than a walk
        end = finish(near, theta, target)
        if end.consistent and end.distance <= slack:
            return end.theta, end, last
    return theta, None, last


def _scan(problem: Problem, theta: Array, reach: float) -> _Scan:
    """One pass over the rows; those within `reach` of a kink are near, and never fewer than unknowns."""
    loss = _linear_loss(problem)
    r = np.empty(problem.design.n_rows)
    y, s = _targets(problem), _weights(problem)
    orientation = loss.orientation(y)
    remote = problem.design.rows.remote
    if remote:  # what workers write into arrays of the driver is lost: residuals come back by a pass of their own
        r[:] = loss.residual(y, problem.design.matvec(theta[:-1, None])[:, 0] + theta[-1])

    def far_pulls(Phi: Array, block: RowBlock) -> tuple[Array, ...]:
        span = slice(block.start, block.stop)
        if not remote:
            r[span] = loss.residual(y[span], newton.predict(Phi, theta[:, None])[:, 0])
        pull = np.where(_distance(loss, r[span]) > reach, s[span] * orientation[span] * _slopes(loss, r[span]), 0.0)
        return Phi.T @ pull.astype(Phi.dtype), np.array(pull.sum())

    pulls, total = problem.design.map_reduce(far_pulls)
    if not np.all(np.isfinite(r)):
        raise LinAlgError(
            "residuals are not finite: targets, C or sample weights are too large or too small. Scale the targets, and "
            "keep C times the weights near 1."
        )
    distance = np.where(s > 0, _distance(loss, r), np.inf)
    near = distance <= reach
    least = min(int(np.sum(s > 0)), problem.design.n_basis + 1)
    if near.sum() < least:
        # with fewer near rows than unknowns the problem would not determine the weights
        return _scan(problem, theta, float(np.partition(distance, least - 1)[least - 1]))
    linear = problem.C * np.append(pulls, total)
    objective = 0.5 * np.sum(problem.penalty * theta**2) + problem.C * np.dot(s, loss.value_of_residual(r))
    if problem.linear is not None:
        linear = linear + problem.linear[:, 0]
        objective += float(problem.linear[:, 0] @ theta)
    magnitude = problem.C * float(np.dot(s, np.abs(_slopes(loss, r))))
    return _Scan(theta, r, np.searchsorted(loss.kinks, r), near, linear, float(objective), magnitude)


def _near_rows(problem: Problem, at: _Scan) -> NearRows | None:
    """The near rows with their features; None where these would take too much memory."""
    index = np.flatnonzero(at.near)
    if len(index) * problem.design.n_basis * 8 > _NEAR_BYTES:
        return None
    return NearRows(
        loss=_linear_loss(problem),
        C=problem.C,
        features=problem.design.take(index).astype(np.float64, copy=False),
        y=_targets(problem)[index],
        s=_weights(problem)[index],
        linear=at.linear,
        penalty=problem.penalty,
        fit_intercept=problem.fit_intercept,
    )


def _slack(problem: Problem, at: _Scan, near: NearRows | None) -> float:
    """Distance from a kink that the rounding of a prediction cannot tell from zero."""
    # features and their products are of the block's type, targets and the intercept always float64
    eps = float(np.finfo(problem.design.block_dtype).eps)
    length = 1.0 if near is None else float(np.sqrt(np.max(np.einsum("ij,ij->i", near.features, near.features))))
    added = 1.0 + abs(float(at.theta[-1])) + float(np.max(np.abs(_targets(problem)[at.near])))
    return 16 * (eps * length * float(np.linalg.norm(at.theta[:-1])) + float(np.finfo(np.float64).eps) * added)


def _relative_gradient(near: NearRows, end: Finish, at: _Scan) -> float:
    gradient = near.gradient(end.theta, end.slopes)
    pulls = near.C * float(np.dot(near.s, np.abs(end.slopes)))
    # the last term keeps the measure sound where every loss and every weight is zero
    scale = float(np.linalg.norm(end.theta[:-1])) + at.magnitude + pulls + 1e-6 * near.C * float(np.sum(near.s))
    return float(np.linalg.norm(gradient)) / scale


# -- small helpers -----------------------------------------------------------------------------------------


def _linear_loss(problem: Problem) -> PiecewiseLinear:
    assert isinstance(problem.loss, PiecewiseLinear)
    return problem.loss


def _targets(problem: Problem) -> Array:
    targets = problem.design.rows.targets
    assert targets is not None
    return targets[:, 0]


def _weights(problem: Problem) -> Array:
    weights = problem.design.rows.weights
    return np.broadcast_to(block_weights(weights, problem.design.n_rows, np.zeros(1, int))[:, 0], problem.design.n_rows)


def _typical(problem: Problem, counted: Array, width: float) -> float:
    """Size of a usual residual.  By medians: a few wild targets must not decide how fine the rounding can be."""
    if problem.loss.for_classes:
        return 1.0
    y = _targets(problem)[counted]
    spread = float(np.median(np.abs(y - np.median(y))))
    return spread if spread > 0.0 else width


def _distance(loss: PiecewiseLinear, r: Array) -> Array:
    return np.asarray(np.min(np.abs(r[:, None] - loss.kinks), axis=1))


def _slopes(loss: PiecewiseLinear, r: Array) -> Array:
    return loss.slopes[np.searchsorted(loss.kinks, r)]


def _residual_scales(problem: Problem) -> Array:
    """The widths to begin with, (L,): the margin for classes, the spread of the targets for regression."""
    if problem.loss.for_classes:
        return np.ones(problem.n_outputs)
    rows, block_rows = problem.design.rows, problem.design.block_rows
    mass, first = rows.map_reduce(lambda block: _moments(block, 0.0, 1), block_rows)
    second = rows.map_reduce(lambda block: _moments(block, first / mass, 2), block_rows)[1]
    mean, deviation = np.abs(first / mass), np.sqrt(second / mass)
    # equal targets have a deviation of rounding errors only; one over a width must be a number
    scale = np.where(deviation > 1e-12 * mean, deviation, mean)
    return np.where(scale > 1e-100, scale, 1.0)


def _moments(block: RowBlock, centre: Any, power: int) -> tuple[Array, ...]:
    assert block.targets is not None
    y = block.targets
    s = np.broadcast_to(block_weights(block.weights, len(block), np.arange(y.shape[1])), y.shape)
    return s.sum(axis=0), np.sum(s * (y - centre) ** power, axis=0)
