"""Piecewise linear losses (hinge, absolute, epsilon-insensitive, quantile) by rounding their kinks.

Every kink is replaced by a parabola of width h.  The rounded loss is piecewise quadratic, so Newton's method solves
it; h then shrinks in stages until the rounding is below what the data type can tell.  Between stages the rows inside
the rounded part are held and followed to the new width (`_Followed`): without that, shrinking h would throw most of
them out of the window and each stage would begin anew.

This is the faster road to the fixed point of the reweighted least squares of seed 000, Table 1 (see irwls.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from kompakt.design import FeatureDesign
from kompakt.losses import Loss, PiecewiseLinear
from kompakt.rows import RowBlock
from kompakt.solve import newton
from kompakt.solve.problem import Array, Problem, Settings, Solution, block_weights, start_coordinates


@dataclass(frozen=True)
class Rounded(Loss):
    """A piecewise linear loss with each kink rounded over a width h."""

    loss: PiecewiseLinear
    width: float
    name: ClassVar[str] = "rounded"

    def value(self, y: Array, f: Array) -> Array:
        r = self.loss.residual(y, f)
        kinks, slopes = self.loss.kinks, self.loss.slopes
        total = slopes[0] * (r - kinks[0])
        for kink, jump in zip(kinks, np.diff(slopes), strict=True):
            u = np.clip(r - kink + 0.5 * self.width, 0.0, self.width)
            total = total + jump * (u * u / (2.0 * self.width) + np.maximum(r - kink - 0.5 * self.width, 0.0))
        return total

    def _slope(self, r: Array) -> Array:
        total = np.full(r.shape, self.loss.slopes[0])
        for kink, jump in zip(self.loss.kinks, np.diff(self.loss.slopes), strict=True):
            total += jump * np.clip((r - kink) / self.width + 0.5, 0.0, 1.0)
        return total

    def gradient(self, y: Array, f: Array) -> Array:
        return self.loss.orientation(y) * self._slope(self.loss.residual(y, f))

    def curvature(self, y: Array, f: Array) -> Array:
        r = self.loss.residual(y, f)
        total = np.zeros(r.shape)
        for kink, jump in zip(self.loss.kinks, np.diff(self.loss.slopes), strict=True):
            total += (np.abs(r - kink) < 0.5 * self.width) * (jump / self.width)
        return total


@dataclass(frozen=True)
class _Followed(Rounded):
    """The rounding of width h continued as a parabola over the wider window of the stage before."""

    window: float = 0.0

    def _slope(self, r: Array) -> Array:
        total = super()._slope(r)
        for kink, jump in zip(self.loss.kinks, np.diff(self.loss.slopes), strict=True):
            inside = np.abs(r - kink) < 0.5 * self.window
            # The row keeps its multiplier of the last stage: slope (r - kink)/window + 1/2 at the new width is
            # reached at r - kink scaled by width/window.
            total += jump * inside * ((r - kink) / self.width + 0.5 - np.clip((r - kink) / self.width + 0.5, 0.0, 1.0))
        return total

    def curvature(self, y: Array, f: Array) -> Array:
        r = self.loss.residual(y, f)
        total = np.zeros(r.shape)
        for kink, jump in zip(self.loss.kinks, np.diff(self.loss.slopes), strict=True):
            total += (np.abs(r - kink) < 0.5 * self.window) * (jump / self.width)
        return total


def minimise(problem: Problem, start: Array | None = None, settings: Settings | None = None) -> Solution:
    """Minimise a piecewise linear loss: coarse roundings on all rows, fine ones on the rows near a kink."""
    settings = settings or Settings()
    assert isinstance(problem.loss, PiecewiseLinear)
    scale = _residual_scale(problem)
    finest = scale * (1e-3 if problem.design.block_dtype == np.float32 else 1e-7)
    theta = start_coordinates(problem, start)
    # a warm start already knows which rows lie near the kinks
    coarse = [scale * width for width in ((1.0, 0.3, 0.1) if start is None else (0.1,))]
    theta, n_iter, _ = _stages(problem, theta, coarse, settings, final=False)
    if hasattr(problem.design.rows, "targets"):
        theta, more, last = _near_kinks(problem, theta, coarse[-1], finest, settings)
    else:
        widths = _shrinking(coarse[-1], finest)
        theta, more, last = _stages(problem, theta, widths, settings, final=True, window=coarse[-1])
    sums = newton.run_pass(replace(problem, loss=Rounded(problem.loss, finest)), theta, None, _outputs(problem), None)
    return Solution(
        weights=problem.design.to_weights(theta[:-1]),
        intercept=theta[-1].copy(),
        coordinates=theta,
        objective=_true_objective(problem, theta),
        n_iter=n_iter + more,
        converged=last,
        optimality=newton.relative_gradient(problem, theta, sums),
        jitter=problem.design.jitter,
        info={"rounding": finest},
    )


def _outputs(problem: Problem) -> Array:
    return np.arange(problem.n_outputs)


def _shrinking(width: float, finest: float) -> list[float]:
    """Widths from `width` (excluded) to `finest`: tenths, then one jump when few rows are left inside."""
    widths = []
    while width > finest:
        width = max(finest, 0.1 * width) if width > 1e3 * finest else finest
        widths.append(width)
    return widths


def _stages(
    problem: Problem,
    theta: Array,
    widths: Sequence[float],
    settings: Settings,
    *,
    final: bool,
    window: float | None = None,
) -> tuple[Array, int, bool]:
    """Newton at every width in turn; returns coordinates, iterations, and whether the last one converged."""
    n_iter, converged = 0, False
    for stage, width in enumerate(widths):
        if window is not None:
            theta = _follow(problem, theta, float(width), window)
        tol = settings.tol if final and stage == len(widths) - 1 else 1e-3
        left = replace(settings, tol=tol, max_iter=max(1, settings.max_iter - n_iter))
        rounded = replace(problem, loss=Rounded(problem.loss, float(width)))  # type: ignore[arg-type]
        solution = newton.minimise(rounded, theta, left)
        theta, window = solution.coordinates, float(width)
        n_iter += solution.n_iter
        converged = solution.converged
    return theta, n_iter, converged


def _near_kinks(
    problem: Problem, theta: Array, width: float, finest: float, settings: Settings
) -> tuple[Array, int, bool]:
    """Shrink the rounding output by output on the rows near a kink; the others enter as a linear term.

    Rows farther from every kink than twice the rounding rarely reach one while it shrinks tenfold.  After each stage
    all rows are checked; a row that crossed a kink widens the margin and the stage is repeated.
    """
    theta = theta.copy()
    n_iter, converged = 0, True
    for output in range(problem.n_outputs):
        window, reach = width, 2.0
        stages = _shrinking(width, finest)
        while stages:
            target = stages[0]
            near, part = _restrict(problem, theta[:, output], output, reach * window)
            left = replace(settings, max_iter=max(1, settings.max_iter - n_iter))
            found, more, converged_here = _stages(
                part, theta[:, [output]], [target], left, final=len(stages) == 1, window=window
            )
            n_iter += more
            crossed = _crossed(problem, theta[:, output], found[:, 0], output, near)
            theta[:, output] = found[:, 0]
            if crossed and reach < 1e3 and not settings.out_of_time():
                reach *= 4.0
                continue
            window, reach = target, 2.0
            stages.pop(0)
        converged = converged and converged_here
    return theta, n_iter, converged


def _row_parts(problem: Problem, theta: Array, output: int) -> tuple[Array, Array, Array, Array]:
    """Targets, weights, residuals and the interval between kinks of every row, for one output."""
    rows = problem.design.rows
    y = rows.targets[:, output]  # type: ignore[attr-defined]
    s = np.broadcast_to(block_weights(rows.weights, len(y), np.array([output]))[:, 0], len(y))  # type: ignore[attr-defined]
    f = problem.design.matvec(theta[:-1, None])[:, 0] + theta[-1]
    r = problem.loss.residual(y, f)  # type: ignore[attr-defined]
    interval = np.asarray(np.searchsorted(problem.loss.kinks, r))  # type: ignore[attr-defined]
    return y, s, r, interval


def _restrict(problem: Problem, theta: Array, output: int, reach: float) -> tuple[Array, Problem]:
    """The problem on the rows within `reach` of a kink, the rest as a linear term."""
    loss = problem.loss
    assert isinstance(loss, PiecewiseLinear)
    y, s, r, interval = _row_parts(problem, theta, output)
    distance = np.where(s > 0, np.min(np.abs(r[:, None] - loss.kinks), axis=1), np.inf)
    # never fewer rows than unknowns: the machine must have something to bend on
    least = min(len(r), problem.design.n_basis + 1)
    near = (distance <= max(reach, np.partition(distance, least - 1)[least - 1])) & (s > 0)
    slopes = np.where(near, 0.0, s * loss.orientation(y) * loss.slopes[interval])
    linear = problem.C * np.concatenate([problem.design.rmatvec(slopes[:, None]), [[slopes.sum()]]])
    index = np.flatnonzero(near)
    features = problem.design.take(index)
    part = replace(
        problem,
        design=FeatureDesign(features, y[index, None], s[index], block_rows=8192),
        linear=linear if problem.linear is None else linear + problem.linear[:, [output]],
    )
    return near, part


def _crossed(problem: Problem, before: Array, after: Array, output: int, near: Array) -> bool:
    """Whether a row outside `near` changed its linear piece."""
    old = _row_parts(problem, before, output)[3]
    _, s, _, new = _row_parts(problem, after, output)
    return bool(np.any((old != new) & ~near & (s > 0)))


def _follow(problem: Problem, theta: Array, width: float, window: float) -> Array:
    """One Newton step at the new width with the rows of the old window held; kept where it lowers the objective."""
    outputs = np.arange(problem.n_outputs)
    held = replace(problem, loss=_Followed(problem.loss, width, window))  # type: ignore[arg-type]
    sums = newton.run_pass(held, theta, None, outputs, None)
    step, _ = newton.newton_step(held, theta, sums)
    rounded = replace(problem, loss=Rounded(problem.loss, width))  # type: ignore[arg-type]
    trial = newton.run_losses(rounded, theta, step, outputs)
    before = newton.penalised(problem, theta, trial[0])
    after = newton.penalised(problem, theta + step, trial[1])
    return theta + np.where(after < before, 1.0, 0.0) * step


def _residual_scale(problem: Problem) -> float:
    """The width to begin with: the margin for classes, the spread of the targets for regression."""
    if problem.loss.for_classes:
        return 1.0
    mass, first, second = problem.design.rows.map_reduce(_target_moments, problem.design.block_rows)
    deviation = float(np.sqrt(max(0.0, float(second / mass - (first / mass) ** 2))))
    return deviation if deviation > 0.0 else 1.0


def _target_moments(block: RowBlock) -> tuple[Array, ...]:
    assert block.targets is not None
    return np.array(block.targets.size), np.sum(block.targets), np.sum(np.square(block.targets))


def _true_objective(problem: Problem, theta: Array) -> Array:
    outputs = np.arange(problem.n_outputs)
    return newton.penalised(problem, theta, newton.run_losses(problem, theta, np.zeros_like(theta), outputs)[0])
