"""Newton's method on piecewise quadratic losses (seed 001, section 2.1, eq. 4-6), for several outputs at once.

One pass over the rows returns, for every output still moving: the loss at several trial steps, and gradient and
Hessian at the full step.  The full step is nearly always right, so an iteration is one pass.  When it is not, the
exact minimiser along the step is found from predictions held per row.

When few rows enter or leave the active set, a pass sums only their outer products and adds the change to the Hessian
it had: this is the rank-one updating of section 2.2, done on the matrix instead of its factor, because refactoring
m x m costs less than one product with the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kompakt.design import Design, Factor, factorise, weighted_gram
from kompakt.losses import Loss
from kompakt.rows import RowBlock
from kompakt.solve.line_search import exact_step
from kompakt.solve.problem import Array, Problem, Settings, Solution, block_weights, start_coordinates

_TRIALS = np.array([1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 1e-3])


@dataclass(frozen=True)
class Sums:
    """What one pass returns, for the outputs it was asked for."""

    losses: Array  # (T, L) at the trial steps; the first is the full step
    gradient: Array  # (m + 1, L) of the loss part, C included
    magnitude: Array  # (L,) size of the terms whose sum is the gradient: what rounding and `tol` are relative to
    hessian: Array  # (L, m + 1, m + 1), loss part, C included; L = 1 if it is shared
    changed: float  # share of active rows that changed
    active: Array  # (L,) sum of the curvatures


def minimise(problem: Problem, start: Array | None = None, settings: Settings | None = None) -> Solution:
    """Minimise a piecewise quadratic loss; see `kompakt.solve.solve` for the usual door."""
    settings = settings or Settings()
    theta = start_coordinates(problem, start)
    L = problem.n_outputs
    eps = float(np.finfo(problem.design.block_dtype).eps)
    tol = max(settings.tol, 50 * eps)
    moving = np.arange(L)
    sums = run_pass(problem, theta, None, moving, None)
    objective = penalised(problem, theta, sums.losses[0])
    optimality = relative_gradient(problem, theta, sums)
    n_iter, done = 0, optimality <= tol
    jitter = problem.design.jitter
    while not done.all() and n_iter < settings.max_iter and not settings.out_of_time():
        n_iter += 1
        sums, moving = _keep(sums, moving, ~done[moving])
        step, factor_jitter = newton_step(problem, theta[:, moving], sums)
        jitter = max(jitter, factor_jitter)
        gradient = problem.penalty[:, None] * theta[:, moving] + sums.gradient
        slope = np.einsum("pl,pl->l", gradient, step)
        trial = run_pass(problem, theta[:, moving], step, moving, sums)
        values = np.stack(
            [penalised(problem, theta[:, moving] + t * step, trial.losses[k]) for k, t in enumerate(_trials(problem))]
        )
        # nothing is left to gain beyond rounding: the point is optimal as far as this precision can tell
        settled = -slope <= 4 * eps * np.abs(objective[moving])
        full = (values[0] <= objective[moving] + 1e-4 * slope) | settled
        lengths = np.ones(len(moving))
        if not full.all():
            lengths[~full] = _shorter(problem, theta[:, moving], step, moving, values, ~full)
        theta[:, moving] += lengths * step
        sums = trial if full.all() else run_pass(problem, theta[:, moving], None, moving, None)
        objective[moving] = penalised(problem, theta[:, moving], sums.losses[0])
        optimality[moving] = relative_gradient(problem, theta[:, moving], sums)
        done[moving] = (optimality[moving] <= tol) | settled
    return Solution(
        weights=problem.design.to_weights(theta[:-1]),
        intercept=theta[-1].copy(),
        coordinates=theta,
        objective=objective,
        n_iter=n_iter,
        converged=bool(done.all()),
        optimality=optimality,
        jitter=jitter,
    )


def _keep(sums: Sums, moving: Array, keep: Array) -> tuple[Sums, Array]:
    """The part of `sums` that belongs to the outputs still moving."""
    if keep.all():
        return sums, moving
    hessian = sums.hessian if len(sums.hessian) == 1 and len(moving) > 1 else sums.hessian[keep]
    kept = replace(
        sums,
        losses=sums.losses[:, keep],
        gradient=sums.gradient[:, keep],
        magnitude=sums.magnitude[keep],
        hessian=hessian,
        active=sums.active[keep],
    )
    return kept, moving[keep]


def penalised(problem: Problem, theta: Array, losses: Array) -> Array:
    """Objective per output from the summed losses (C included)."""
    total = 0.5 * np.einsum("pl,p,pl->l", theta, problem.penalty, theta) + losses
    return total if problem.linear is None else total + np.sum(problem.linear * theta, axis=0)


def relative_gradient(problem: Problem, theta: Array, sums: Sums) -> Array:
    """Norm of the gradient relative to the size of its terms: 0 at the optimum, up to about 1 far from it."""
    gradient = problem.penalty[:, None] * theta + sums.gradient
    if not problem.fit_intercept:
        gradient = gradient[:-1]
    scale = np.linalg.norm(theta[:-1], axis=0) + sums.magnitude
    return np.linalg.norm(gradient, axis=0) / np.maximum(scale, np.finfo(float).tiny)


def newton_step(problem: Problem, theta: Array, sums: Sums) -> tuple[Array, float]:
    """-H^-1 gradient for every output (eq. 6), and the jitter that H needed."""
    penalty = problem.penalty
    gradient = penalty[:, None] * theta + sums.gradient
    step = np.empty_like(theta)
    jitter = 0.0
    shared = len(sums.hessian) == 1
    factor: Factor | None = None
    for output in range(theta.shape[1]):
        if factor is None or not shared:
            H = sums.hessian[0 if shared else output] + np.diag(penalty)
            if not problem.fit_intercept:
                H[-1, :] = H[:, -1] = 0.0
                H[-1, -1] = 1.0
            elif H[-1, -1] <= 0.0:
                # No row has curvature, so the intercept has none: move it as if every loss were quadratic.
                H[-1, -1] = max(sums.magnitude[output], 1e-300)
            factor = factorise(H, what="Hessian")
            jitter = max(jitter, factor.jitter)
        right = gradient[:, output].copy()
        if not problem.fit_intercept:
            right[-1] = 0.0
        step[:, output] = -factor.solve(right)
    return step, jitter


def run_pass(problem: Problem, theta: Array, step: Array | None, outputs: Array, known: Sums | None) -> Sums:
    """One pass over the rows: losses at theta + t * step, gradient and Hessian at the full step.

    `known` are the sums at theta; with few changed rows last time, only the changes to its Hessian are summed.
    """
    shared = _shared_curvature(problem)
    by_change = known is not None and step is not None and not shared and known.changed < 0.25
    function = partial(newton_sums, problem.loss, theta, step, _trials(problem), outputs, shared, by_change)
    losses, gradient, magnitude, gram, product, active, changed = problem.design.map_reduce(function)
    L = len(gram)
    hessian = np.empty((L, len(theta), len(theta)))
    hessian[:, :-1, :-1] = gram
    hessian[:, :-1, -1] = hessian[:, -1, :-1] = product.T
    hessian[:, -1, -1] = active
    hessian *= problem.C
    if by_change and known is not None:
        hessian += known.hessian
        active = active + known.active
    gradient, magnitude = problem.C * gradient, problem.C * magnitude
    if problem.linear is not None:
        gradient = gradient + problem.linear[:, outputs]
        magnitude = magnitude + np.abs(problem.linear[-1, outputs])
    return Sums(
        losses=problem.C * losses,
        gradient=gradient,
        magnitude=magnitude,
        hessian=hessian,
        changed=float(changed) / max(1.0, float(np.sum(np.abs(active)))) if step is not None else 1.0,
        active=np.asarray(active),
    )


def _in_memory(problem: Problem) -> bool:
    """Whether predictions of all rows can be held, so that a step can be shortened exactly."""
    return hasattr(problem.design.rows, "targets")


def _trials(problem: Problem) -> Array:
    """Trial steps of a pass: the full one, and shorter ones where a pass is the only way to try them."""
    return _TRIALS[:1] if _in_memory(problem) else _TRIALS


def _shared_curvature(problem: Problem) -> bool:
    """Least squares with one weight per row: every output has the same Hessian."""
    weights = getattr(problem.design.rows, "weights", None)
    return problem.loss.name == "least_squares" and (weights is None or weights.ndim == 1)


def newton_sums(
    loss: Loss,
    theta: Array,
    step: Array | None,
    trials: Array,
    outputs: Array,
    shared: bool,
    by_change: bool,
    Phi: Array,
    block: RowBlock,
) -> tuple[Array, ...]:
    """The sums of one block (a pure function, so that it can run anywhere)."""
    assert block.targets is not None
    y = block.targets[:, outputs]
    s = block_weights(block.weights, len(block), outputs)
    f = _predict(Phi, theta)
    if step is None:
        losses = np.sum(s * loss.value(y, f), axis=0)[None]
        full = f
    else:
        g = _predict(Phi, step)
        losses = np.stack([np.sum(s * loss.value(y, f + t * g), axis=0) for t in trials])
        full = f + g
    slopes = s * loss.gradient(y, full)
    gradient = np.concatenate([Phi.T @ slopes.astype(Phi.dtype, copy=False), np.sum(slopes, axis=0)[None]])
    magnitude = np.sum(np.abs(slopes), axis=0)
    curvature = (s * loss.curvature(y, full))[:, :1] if shared else s * loss.curvature(y, full)
    changed = 0.0
    if step is not None and not shared:
        change = curvature - s * loss.curvature(y, f)
        changed = float(np.sum(np.abs(change)))
        if by_change:
            curvature = change
    grams = np.stack([_signed_gram(Phi, d) for d in curvature.T])
    product = Phi.T @ curvature.astype(Phi.dtype, copy=False)
    return losses, gradient, magnitude, grams, product, np.sum(curvature, axis=0), np.array(changed)


def run_losses(problem: Problem, theta: Array, step: Array, outputs: Array) -> Array:
    """Summed losses at theta and at theta + step, C included, (2, L)."""
    function = partial(_loss_sums, problem.loss, theta, step, outputs)
    return problem.C * problem.design.map_reduce(function)[0]


def _loss_sums(loss: Loss, theta: Array, step: Array, outputs: Array, Phi: Array, block: RowBlock) -> tuple[Array, ...]:
    assert block.targets is not None
    y = block.targets[:, outputs]
    s = block_weights(block.weights, len(block), outputs)
    f, g = _predict(Phi, theta), _predict(Phi, step)
    return (np.stack([np.sum(s * loss.value(y, at), axis=0) for at in (f, f + g)]),)


def _signed_gram(Phi: Array, d: Array) -> Array:
    """Phi' diag(d) Phi for d of either sign."""
    gram = weighted_gram(Phi, np.maximum(d, 0.0)).astype(np.float64, copy=False)
    if np.any(d < 0.0):
        gram = gram - weighted_gram(Phi, np.maximum(-d, 0.0))
    return gram


def _predict(Phi: Array, theta: Array) -> Array:
    return (Phi @ theta[:-1].astype(Phi.dtype, copy=False)).astype(np.float64, copy=False) + theta[-1]


def _shorter(problem: Problem, theta: Array, step: Array, outputs: Array, values: Array, which: Array) -> Array:
    """Step lengths where the full step fails: exact where predictions fit in memory, else the best trial."""
    if not _in_memory(problem):
        return _TRIALS[np.argmin(values[:, which], axis=0)]
    design: Design = problem.design
    rows = design.rows
    f = design.matvec(theta[:-1, which]) + theta[-1, which]
    g = design.matvec(step[:-1, which]) + step[-1, which]
    lengths = np.empty(int(which.sum()))
    for position, column in enumerate(np.flatnonzero(which)):
        y = rows.targets[:, outputs[column]]  # type: ignore[attr-defined]
        s = block_weights(rows.weights, len(y), outputs[column : column + 1])[:, 0]  # type: ignore[attr-defined]
        linear = np.sum(problem.penalty * theta[:, column] * step[:, column])
        if problem.linear is not None:
            linear += np.sum(problem.linear[:, outputs[column]] * step[:, column])
        quadratic = np.sum(problem.penalty * step[:, column] ** 2)

        def slope(
            t: float, y: Array = y, s: Array = s, k: int = position, a: float = linear, b: float = quadratic
        ) -> tuple[float, float]:
            at = f[:, k] + t * g[:, k]
            value = a + t * b + problem.C * np.dot(s * problem.loss.gradient(y, at), g[:, k])
            return float(value), float(b + problem.C * np.dot(s * problem.loss.curvature(y, at), g[:, k] ** 2))

        lengths[position] = exact_step(slope)
    return lengths
