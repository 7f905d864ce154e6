"""Newton's method on piecewise quadratic losses, for several outputs at once (Keerthi et al. 2006, section 2.1).

One pass over the rows returns, for every output still moving: the loss at several trial steps, and gradient and
Hessian at the full step.  The full step is nearly always right, so an iteration is one pass.  When it is not, the
exact minimiser along the step is found from predictions held per row.

When few rows enter or leave the active set, a pass sums only their outer products and adds the change to the Hessian
it had: this is the rank-one updating of section 2.2, done on the matrix instead of its factor, because refactoring
m x m costs less than one product with the rows.

With many outputs the Hessians are what costs: n m^2 for each output, where a gradient costs n m.  So a pass then sums
gradients only, steps use the Hessian that an output had, and only the outputs whose gradient did not fall to a tenth
get theirs anew, in a pass of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kompakt.data import RowBlock
from kompakt.design import FeatureDesign, even_blocks, weighted_gram
from kompakt.linalg import Factor, factorise
from kompakt.losses import Loss
from kompakt.parallel import ordered_map
from kompakt.solve.dense import MANY_OUTPUTS
from kompakt.solve.line_search import guarded_roots
from kompakt.solve.problem import Array, Problem, Settings, Solution, block_weights, start_coordinates


def minimise_squares(problem: Problem, start: Array | None = None, settings: Settings | None = None) -> Solution:
    """The minimiser for the least-squares loss; `start` is not needed and ignored."""
    theta = start_coordinates(problem, None)
    outputs = np.arange(problem.n_outputs)
    eps = float(np.finfo(problem.design.block_dtype).eps)
    sums = run_pass(problem, theta, None, outputs, None)
    step, jitter = newton_step(problem, theta, sums)
    theta = theta + step
    for _ in range(3):
        losses, gradient, magnitude, apart = problem.design.map_reduce(partial(_residual_sums, theta))
        at = Sums(
            losses=problem.C * losses[None],
            gradient=problem.C * gradient,
            magnitude=problem.C * magnitude,
            hessian=sums.hessian,
            changed=0.0,
            active=sums.active,
        )
        optimality = relative_gradient(problem, theta, at)
        # residuals that are all rounding have no direction left: that of the features' type, for targets measured from
        # the intercept, and that of the targets themselves, which are in double precision
        rounding = eps * problem.C * apart + float(np.finfo(np.float64).eps) * sums.magnitude
        optimality = np.where(_norm(problem, theta, at) <= 100 * rounding, 0.0, optimality)
        objective = penalised(problem, theta, at.losses[0])
        coordinates = theta
        if np.all(optimality <= 1e-13):
            break
        theta = theta + newton_step(problem, theta, at)[0]
    tol = max(1e-6, 1e3 * eps)
    return Solution(
        weights=problem.design.to_weights(coordinates[:-1]),
        intercept=coordinates[-1].copy(),
        coordinates=coordinates,
        objective=objective,
        n_iter=1,
        converged=bool(np.all(optimality <= tol)),
        optimality=optimality,
        jitter=max(jitter, problem.design.jitter),
    )


def _norm(problem: Problem, theta: Array, at: Sums) -> Array:
    gradient = problem.penalty[:, None] * theta + at.gradient
    return np.asarray(np.linalg.norm(gradient if problem.fit_intercept else gradient[:-1], axis=0))


def _residual_sums(theta: Array, Phi: Array, block: RowBlock) -> tuple[Array, ...]:
    assert block.targets is not None
    s = block_weights(block.weights, len(block), np.arange(theta.shape[1]))
    residual = predict(Phi, theta) - block.targets
    slopes = s * residual
    gradient = np.concatenate([Phi.T @ slopes.astype(Phi.dtype, copy=False), np.sum(slopes, axis=0)[None]])
    apart = np.sum(np.abs(s * (block.targets - theta[-1])), axis=0)
    return 0.5 * np.sum(slopes * residual, axis=0), gradient, np.sum(np.abs(slopes), axis=0), apart


_TRIALS = np.array([1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 1e-3])
#: predictions that are held at most, to shorten a step exactly: beyond, wherever the rows are, by passes
_MOST_HELD = 1 << 22
#: a step of a kept Hessian is good when the gradient falls to this share; otherwise the Hessian is summed anew; the
#: dearer that is, by the number of vectors and the share of active rows, the more patience pays
_GOOD_STEP, _PATIENT = 0.1, 0.7
#: active rows in one product of a Hessian that is summed output by output
_ACTIVE_ROWS = 4096
#: numbers that a block's Hessians may have: where they are more, adding them up takes longer than the products, and
#: blocks are longer
_MANY_SUMS = 1 << 19
#: a tolerance above which the solution is a guide only, as in a descent on the basis: it may end with a kept Hessian
_ROUGH = 1e-7


@dataclass(frozen=True)
class Sums:
    """What one pass returns, for the outputs it was asked for."""

    losses: Array  # (T, L) at the trial steps; the first is the full step
    gradient: Array  # (m + 1, L) of the loss part, C included
    magnitude: Array  # (L,) size of the terms whose sum is the gradient: what rounding and `tol` are relative to
    hessian: Array  # (L, m + 1, m + 1), loss part, C included; L = 1 if it is shared
    changed: float  # share of active rows that changed
    active: Array  # (L,) sum of the curvatures


def minimise(
    problem: Problem, start: Array | None = None, settings: Settings | None = None, outputs: Array | None = None
) -> Solution:
    """Minimise a piecewise quadratic loss other than least squares; see `kompakt.solve.solve` for the usual door."""
    settings = settings or Settings()
    theta = start_coordinates(problem, start)
    L = problem.n_outputs
    eps = float(np.finfo(problem.design.block_dtype).eps)
    tol = max(settings.tol, 50 * eps)
    keep_hessians = L >= MANY_OUTPUTS or outputs is not None
    place = settings.run.progress("newton")
    if place.last is None:
        moving = np.arange(L)
        guess = None if outputs is None else _from_outputs(problem, outputs, settings)
        if guess is None:
            # without weights yet, all rows are as active for one output as for another
            alike = start is None and keep_hessians and problem.loss.for_classes
            sums = run_pass(problem, theta, None, moving, None, alike=alike)
        else:
            theta = guess[0]
            sums = replace(run_pass(problem, theta, None, moving, None, hessian=False), hessian=guess[1])
        objective = penalised(problem, theta, sums.losses[0])
        optimality = relative_gradient(problem, theta, sums)
        n_iter, done = 0, optimality <= tol
        jitter = problem.design.jitter
        fresh = np.full(L, guess is None)  # Hessians that belong to this very point
    else:  # goes on after the iteration that was written down last
        theta, held, moving, objective, optimality, done, n_iter, jitter, fresh = place.last
        sums = Sums(**held)
    factors: dict[int, Factor] = {}
    kept = _room_for_curvature(problem, L, settings) if keep_hessians else None
    while not done.all() and n_iter < settings.max_iter and not settings.run.late:
        n_iter += 1
        sums, moving = _keep(sums, moving, ~done[moving])
        kept_factors = (factors, moving) if keep_hessians else (None, None)
        step, factor_jitter = newton_step(problem, theta[:, moving], sums, *kept_factors)
        jitter = max(jitter, factor_jitter)
        gradient = problem.penalty[:, None] * theta[:, moving] + sums.gradient
        slope = np.einsum("pl,pl->l", gradient, step)
        trial = run_pass(problem, theta[:, moving], step, moving, sums, hessian=not keep_hessians, kept=kept)
        values = np.stack(
            [penalised(problem, theta[:, moving] + t * step, trial.losses[k]) for k, t in enumerate(_trials(problem))]
        )
        # nothing is left to gain beyond rounding: the point is optimal as far as this precision can tell
        settled = -slope <= 4 * eps * np.abs(objective[moving])
        full = (values[0] <= objective[moving] + 1e-4 * slope) | settled
        if problem.fit_intercept and not problem.penalize_intercept:
            # without curvature the length of the intercept's step is a guess: look for the minimum along it
            full &= (sums.active > 0.0) | settled
        lengths = np.ones(len(moving))
        if not full.all():
            lengths[~full] = _shorter(problem, theta[:, moving], step, moving, slope, values, ~full)
        theta[:, moving] += lengths * step
        if not full.all():
            trial = run_pass(problem, theta[:, moving], None, moving, None, hessian=not keep_hessians, kept=kept)
        before, sums = optimality[moving], trial if not keep_hessians else replace(trial, hessian=sums.hessian)
        objective[moving] = penalised(problem, theta[:, moving], sums.losses[0])
        optimality[moving] = relative_gradient(problem, theta[:, moving], sums)
        done[moving] = (optimality[moving] <= tol) | settled
        if keep_hessians:
            # weights that are wanted to many digits end with a step of their own Hessian, as Newton's method does
            done[moving] &= fresh[moving] | settled | (settings.tol > _ROUGH)
            cost = problem.design.n_basis * sums.active / max(problem.mass, 1e-300)  # of a Hessian, in gradients
            hoped = np.clip(cost / 50.0, _GOOD_STEP, _PATIENT)
            poor = ~done[moving] & (~full | (optimality[moving] > hoped * before) | (optimality[moving] <= tol))
            sums = _renew_hessians(problem, theta, moving, sums, poor, kept)
            fresh[moving] = poor
            for output in moving[poor]:
                factors.pop(int(output), None)
        if place.due():
            place.save((theta, vars(sums), moving, objective, optimality, done, n_iter, jitter, fresh))
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


def _from_outputs(problem: Problem, outputs: Array, settings: Settings) -> tuple[Array, Array] | None:
    """The minimiser where every loss is the parabola that touches it at these outputs, and its Hessians.

    Outputs (n, L) of a machine with a similar basis tell which rows are active, and that is all that Newton's method
    needs to know: a better start than the weights of that machine, which are large and cancel each other.
    """
    curvature = _room_for_curvature(problem, outputs.shape[1], settings)
    block_rows = None if curvature is None else even_blocks(problem.design.n_rows, 4 * problem.design.block_rows)
    parabolas = partial(_parabola_sums, problem.loss, outputs, curvature)
    *curved, right = problem.design.map_reduce(parabolas, block_rows)
    if curvature is not None:
        curved = list(_curved_by_output(problem, curvature))
    hessian, active = _hessian(problem, *curved)
    if not np.all(active > 0.0):
        return None
    gradient = -problem.C * right
    if problem.linear is not None:
        gradient = gradient + problem.linear
    zero = np.zeros_like(gradient)
    sums = Sums(zero[:1], gradient, np.abs(gradient[-1]), hessian, 1.0, active)
    return newton_step(problem, zero, sums)[0], hessian


def _parabola_sums(
    loss: Loss, outputs: Array, curvatures: Array | None, Phi: Array, block: RowBlock
) -> tuple[Array, ...]:
    """What the Hessians of a block need, and Phi' (D f - g) with its sum, (m + 1, L)."""
    rows = _BlockLosses(loss, np.arange(outputs.shape[1]), Phi, block)
    f = outputs[block.start : block.stop].astype(rows.dtype, copy=False)
    _, slopes, curvature = rows.terms(f)
    right = curvature * f - slopes
    right = np.concatenate([Phi.T @ right.astype(Phi.dtype, copy=False), _column_sums(right)[None]])
    if curvatures is None:
        return *_curved(Phi, curvature), right
    curvatures[:, block.start : block.stop] = curvature.T
    return (right,)


def _renew_hessians(
    problem: Problem, theta: Array, moving: Array, sums: Sums, which: Array, kept: Array | None
) -> Sums:
    """The sums with the Hessians of some of the outputs summed at `theta`, where the last pass kept its curvatures."""
    if not which.any():
        return sums
    outputs = moving[which]
    hessian, active = sums.hessian.copy(), sums.active.copy()
    if kept is None:
        at = problem.loss.take_outputs(outputs), theta[:, outputs], outputs
        longer = 8 if len(outputs) * problem.design.n_basis**2 > _MANY_SUMS else 1
        curved = problem.design.map_reduce(partial(_curvature_sums, *at), longer * problem.design.block_rows)
    else:
        curved = _curved_by_output(problem, kept[outputs])
    hessian[which], active[which] = _hessian(problem, *curved)
    return replace(sums, hessian=hessian, active=active)


def _room_for_curvature(problem: Problem, n_outputs: int, settings: Settings) -> Array | None:
    """An array for the curvatures of all rows, (L, n), where Hessians may be summed output by output.

    That is in a descent on the basis, which has its features at hand.  Other solutions are the same to the last bit
    whether values are stored or not: they are summed by blocks.
    """
    of_descent = isinstance(problem.design, FeatureDesign) and settings.tol > _ROUGH
    if not of_descent or problem.design.n_rows * n_outputs > _MOST_HELD:
        return None
    return np.empty((n_outputs, problem.design.n_rows), dtype=problem.design.block_dtype)


def _curved_by_output(problem: Problem, curvature: Array) -> tuple[Array, Array, Array]:
    """Sum of the curvatures (L, n), Phi' D Phi and Phi' D from stored features, of the active rows of one output each.

    Sums by blocks of rows would write L m^2 numbers for every block, which takes longer than the products where only
    some rows of a block are active.
    """
    Phi, m, L = problem.design.matrix, problem.design.n_basis, len(curvature)
    pieces = [
        (output, active[start : start + _ACTIVE_ROWS])
        for output, active in enumerate((column != 0.0).nonzero()[0] for column in curvature)
        for start in range(0, len(active), _ACTIVE_ROWS)
    ]

    def sums_of(piece: tuple[int, Array]) -> tuple[Array, Array]:
        output, index = piece
        K, d = Phi.take(index, axis=0), curvature[output, index]
        return weighted_gram(K, d), K.T @ d.astype(K.dtype)

    grams, product = np.zeros((L, m, m)), np.zeros((m, L))
    for (output, _), (gram, column) in zip(pieces, ordered_map(sums_of, pieces), strict=True):
        grams[output] += gram
        product[:, output] += column
    return np.asarray(np.sum(curvature, axis=1, dtype=np.float64)), grams, product


def _keep(sums: Sums, moving: Array, keep: Array) -> tuple[Sums, Array]:
    """The part of `sums` that belongs to the outputs still moving."""
    if keep.all():
        return sums, moving
    kept = replace(
        sums,
        losses=sums.losses[:, keep],
        gradient=sums.gradient[:, keep],
        magnitude=sums.magnitude[keep],
        hessian=sums.hessian[keep],
        active=sums.active[keep],
    )
    return kept, moving[keep]


def penalised(problem: Problem, theta: Array, losses: Array) -> Array:
    """Objective per output from the summed losses (C included)."""
    total: Array = 0.5 * np.einsum("pl,p,pl->l", theta, problem.penalty, theta) + losses
    if problem.linear is not None:
        total = total + np.sum(problem.linear * theta, axis=0)
    return total


def relative_gradient(problem: Problem, theta: Array, sums: Sums) -> Array:
    """Norm of the gradient relative to the size of its terms: 0 at the optimum, up to about 1 far from it."""
    gradient = problem.penalty[:, None] * theta + sums.gradient
    if not problem.fit_intercept:
        gradient = gradient[:-1]
    # the last term keeps the measure sound where every loss and every weight is zero
    scale = np.linalg.norm(theta[:-1], axis=0) + sums.magnitude + 1e-6 * problem.C * problem.mass
    return np.asarray(np.linalg.norm(gradient, axis=0) / np.maximum(scale, np.finfo(float).tiny))


def newton_step(
    problem: Problem,
    theta: Array,
    sums: Sums,
    factors: dict[int, Factor] | None = None,
    outputs: Array | None = None,
) -> tuple[Array, float]:
    """-H^-1 gradient for every output (eq. 6), and the jitter that H needed.

    `factors` are those of Hessians used before, by number of the output; new ones are added.
    """
    penalty = problem.penalty
    gradient = penalty[:, None] * theta + sums.gradient
    if not problem.fit_intercept:
        gradient[-1] = 0.0
    step = np.empty_like(theta)
    jitter = 0.0
    shared = len(sums.hessian) == 1
    kept = {} if factors is None else factors
    for position in range(theta.shape[1]):
        key = int(outputs[position]) if outputs is not None else 0 if shared else position
        factor = kept.get(key)
        if factor is None:
            H = sums.hessian[0 if shared else position] + np.diag(penalty)
            if not problem.fit_intercept:
                H[-1, :] = H[:, -1] = 0.0
                H[-1, -1] = 1.0
            elif H[-1, -1] <= 0.0:
                # No row has curvature, so the intercept has none.  Moving it together with the weights zigzags: the
                # intercept goes first, alone, to its minimum (see the line search), and the weights when it is there.
                if abs(gradient[-1, position]) > 1e-12 * sums.magnitude[position]:
                    step[:, position] = 0.0
                    step[-1, position] = -gradient[-1, position] / sums.magnitude[position]
                    continue
                H[-1, -1] = 1.0
            factor = kept[key] = factorise(H, what="Hessian")
        jitter = max(jitter, factor.jitter)
        step[:, position] = -factor.solve(gradient[:, position])
    return step, jitter


def run_pass(
    problem: Problem,
    theta: Array,
    step: Array | None,
    outputs: Array,
    previous: Sums | None,
    *,
    hessian: bool = True,
    alike: bool = False,
    kept: Array | None = None,
) -> Sums:
    """One pass over the rows: losses at theta + t * step, gradient and Hessian at the full step.

    `previous` are the sums at theta; with few changed rows last time, only the changes to its Hessian are summed.
    `alike` says that all outputs have the same curvature here, so that one Hessian is summed for all of them; the
    curvatures are written into the rows of `kept` (L, n), where it is given.
    """
    alike = alike and problem.design.rows.weight_columns <= 1
    shared = alike or _shared_curvature(problem)
    by_change = previous is not None and step is not None and not shared and previous.changed < 0.25 and hessian
    loss = problem.loss.take_outputs(outputs)
    function = partial(newton_sums, loss, theta, step, _trials(problem), outputs, shared, hessian, kept, by_change)
    # without Hessians a block is soon done: longer ones keep threads at work instead of at handing over
    block_rows = None if hessian else even_blocks(problem.design.n_rows, 4 * problem.design.block_rows)
    losses, gradient, magnitude, changed, active, *curved = problem.design.map_reduce(function, block_rows)
    H, active = _hessian(problem, active, *curved) if hessian else (np.empty((0, 0, 0)), active)
    if alike:
        H, active = np.repeat(H, len(outputs), axis=0), np.repeat(active, len(outputs))
    if by_change and previous is not None:
        H += previous.hessian
        active = active + previous.active
    gradient, magnitude = problem.C * gradient, problem.C * magnitude
    if problem.linear is not None:
        gradient = gradient + problem.linear
        magnitude = magnitude + np.abs(problem.linear[-1])
    return Sums(
        losses=problem.C * losses,
        gradient=gradient,
        magnitude=magnitude,
        hessian=H,
        changed=float(changed) / max(1.0, float(np.sum(np.abs(active)))) if step is not None else 1.0,
        active=active,
    )


def _hessian(problem: Problem, active: Array, gram: Array, product: Array) -> tuple[Array, Array]:
    """Hessians (L, m + 1, m + 1) with the intercept, C included, from the sums of a pass; and the active rows."""
    m = gram.shape[1]
    hessian = np.empty((len(gram), m + 1, m + 1))
    hessian[:, :-1, :-1] = gram
    hessian[:, :-1, -1] = hessian[:, -1, :-1] = product.T
    hessian[:, -1, -1] = active
    hessian *= problem.C
    return hessian, active


def _in_memory(problem: Problem) -> bool:
    """Whether predictions of all rows can be held, so that a step can be shortened exactly."""
    return problem.design.n_rows * problem.n_outputs <= _MOST_HELD


def _trials(problem: Problem) -> Array:
    """Trial steps of a pass: the full one, and shorter ones where a pass is the only way to try them."""
    return _TRIALS[:1] if _in_memory(problem) else _TRIALS


def _shared_curvature(problem: Problem) -> bool:
    """Least squares with one weight per row: every output has the same Hessian."""
    return problem.loss.quadratic and problem.design.rows.weight_columns <= 1


def newton_sums(
    loss: Loss,
    theta: Array,
    step: Array | None,
    trials: Array,
    outputs: Array,
    shared: bool,
    hessian: bool,
    kept: Array | None,
    by_change: bool,
    Phi: Array,
    block: RowBlock,
) -> tuple[Array, ...]:
    """The sums of one block (a pure function, so that it can run anywhere)."""
    rows = _BlockLosses(loss, outputs, Phi, block)
    before = None
    if step is None:
        f = rows.predict(theta)
    elif len(trials) == 1 and not (hessian and not shared):
        f = rows.predict(theta + step)
    else:
        predictions = rows.predict(np.concatenate([theta, step], axis=1))
        before, along = predictions[:, : theta.shape[1]], predictions[:, theta.shape[1] :]
        f = before + along
    value, slopes, curvature = rows.terms(f)
    losses = _column_sums(value)[None]
    if step is not None and len(trials) > 1:
        assert before is not None
        losses = np.concatenate([losses, *(_column_sums(rows.terms(before + t * along)[0])[None] for t in trials[1:])])
    gradient = np.concatenate([Phi.T @ slopes.astype(Phi.dtype, copy=False), _column_sums(slopes)[None]])
    magnitude = _column_sums(np.abs(slopes))
    if kept is not None:
        kept[outputs, block.start : block.stop] = curvature.T
    if not hessian:
        return losses, gradient, magnitude, np.zeros(()), _column_sums(curvature)
    if shared:
        curvature = curvature[:, :1]
    changed = 0.0
    if before is not None and not shared:
        change = curvature - rows.terms(before)[2]
        changed = float(np.sum(np.abs(change)))
        if by_change:
            curvature = change
    return losses, gradient, magnitude, np.array(changed), *_curved(Phi, curvature)


def _curvature_sums(loss: Loss, theta: Array, outputs: Array, Phi: Array, block: RowBlock) -> tuple[Array, ...]:
    """What the Hessians of a block need."""
    rows = _BlockLosses(loss, outputs, Phi, block)
    return _curved(Phi, rows.terms(rows.predict(theta))[2])


def _curved(Phi: Array, curvature: Array) -> tuple[Array, ...]:
    """Sum of the curvatures, Phi' D Phi and Phi' D for every output, D of either sign."""
    m = Phi.shape[1]
    grams = np.empty((curvature.shape[1], m, m))
    columns = np.ascontiguousarray(curvature.T)
    signed = bool(columns.min(initial=0.0) < 0.0)
    for gram, d in zip(grams, columns, strict=True):
        gram[:] = weighted_gram(Phi, np.maximum(d, 0.0) if signed else d)
        if signed:
            gram -= weighted_gram(Phi, np.maximum(-d, 0.0))
    return _column_sums(curvature), grams, Phi.T @ curvature.astype(Phi.dtype, copy=False)


class _BlockLosses:
    """Losses of a block for some of the outputs.  Margins need no more digits than the features have."""

    def __init__(self, loss: Loss, outputs: Array, Phi: Array, block: RowBlock) -> None:
        y, weights = block.targets, block.weights
        assert y is not None
        if len(outputs) < y.shape[1]:
            y = y[:, outputs]
        self.loss, self.Phi = loss, Phi
        self.dtype = Phi.dtype if loss.for_classes and not loss.for_regression else np.dtype(np.float64)
        self.y = y.astype(self.dtype, copy=False)
        self.s = None if weights is None else block_weights(weights, len(block), outputs).astype(self.dtype, copy=False)

    def predict(self, theta: Array) -> Array:
        f: Array = (self.Phi @ theta[:-1].astype(self.Phi.dtype, copy=False)).astype(self.dtype, copy=False)
        f += theta[-1].astype(self.dtype, copy=False)
        return f

    def terms(self, f: Array) -> tuple[Array, Array, Array]:
        """Value, slope and curvature of the losses, weights included."""
        terms = self.loss.terms(self.y, f)
        if self.s is None:
            return terms
        value, slope, curvature = terms
        return self.s * value, self.s * slope, self.s * curvature


def _column_sums(values: Array) -> Array:
    """Sums over the rows in float64; a product is several times as fast as a sum over the first axis."""
    return np.ones(len(values)) @ values.astype(np.float64, copy=False)


def run_losses(problem: Problem, theta: Array, step: Array, outputs: Array) -> Array:
    """Summed losses at theta and at theta + step, C included, (2, L)."""
    function = partial(_loss_sums, problem.loss.take_outputs(outputs), theta, step, outputs)
    return problem.C * problem.design.map_reduce(function)[0]


def _loss_sums(loss: Loss, theta: Array, step: Array, outputs: Array, Phi: Array, block: RowBlock) -> tuple[Array, ...]:
    rows = _BlockLosses(loss, outputs, Phi, block)
    return (np.stack([_column_sums(rows.terms(rows.predict(at))[0]) for at in (theta, theta + step)]),)


def predict(Phi: Array, theta: Array) -> Array:
    """Predictions of a block in float64, (rows, L)."""
    f: Array = (Phi @ theta[:-1].astype(Phi.dtype, copy=False)).astype(np.float64, copy=False) + theta[-1]
    return f


#: first trials of a line search by passes, and how many there are in each of the next
_FIRST_STEPS, _INNER_STEPS, _LINE_PASSES = 2.0 ** np.arange(-24.0, 9.0), 26, 6


def _shorter(
    problem: Problem, theta: Array, step: Array, outputs: Array, slope: Array, values: Array, which: Array
) -> Array:
    """Step lengths where the full step fails: the exact minimiser along the step.

    Where predictions cannot be held, the best of the trials serves if it lies between longer and shorter ones; else the
    minimiser is found by passes that sum the slope along the step.
    """
    theta, step, outputs, slope = theta[:, which], step[:, which], outputs[which], slope[which]
    design, penalty = problem.design, problem.penalty[:, None]
    linear, quadratic = np.sum(penalty * theta * step, axis=0), np.sum(penalty * step**2, axis=0)
    if problem.linear is not None:
        linear = linear + np.sum(problem.linear * step, axis=0)
    if _in_memory(problem):
        rows = design.rows
        assert rows.targets is not None
        y, s = rows.targets[:, outputs], block_weights(rows.weights, design.n_rows, outputs)
        f, along = (design.matvec(coordinates[:-1]) + coordinates[-1] for coordinates in (theta, step))

    def slopes(index: Array, steps: Array) -> tuple[Array, Array]:
        loss = problem.loss.take_outputs(outputs[index])
        if _in_memory(problem):
            weights = s[:, index % s.shape[1]]
            first, second = _slopes_along(loss, y[:, index], weights, f[:, index], along[:, index], steps)
        else:
            of_block = partial(_slopes_of_block, loss, theta[:, index], step[:, index], outputs[index], steps)
            first, second = design.map_reduce(of_block)
        bend = quadratic[index, None]
        return linear[index, None] + steps * bend + problem.C * first, bend + problem.C * second

    if _in_memory(problem):
        return guarded_roots(slopes, slope, np.ones((len(slope), 1)), tol=1e-12, max_calls=120)
    best = np.argmin(values[:, which], axis=0)
    search = (best == 0) | (best == len(_TRIALS) - 1)
    trials = np.tile(_FIRST_STEPS, (len(slope), 1))
    start = np.where(search, slope, 0.0)
    roots = guarded_roots(slopes, start, trials, inner=_INNER_STEPS, tol=1e-10, max_calls=_LINE_PASSES)
    return np.where(search, roots, _TRIALS[best])


def _slopes_along(loss: Loss, y: Array, s: Array, f: Array, along: Array, steps: Array) -> tuple[Array, ...]:
    """First and second derivative of the summed losses (n, L) along each direction, at lengths (L, T)."""
    first, second = np.empty(steps.shape), np.empty(steps.shape)
    for k in range(steps.shape[1]):
        at = f + steps[:, k] * along
        first[:, k] = np.sum(s * loss.gradient(y, at) * along, axis=0)
        second[:, k] = np.sum(s * loss.curvature(y, at) * along * along, axis=0)
    return first, second


def _slopes_of_block(
    loss: Loss, theta: Array, step: Array, outputs: Array, steps: Array, Phi: Array, block: RowBlock
) -> tuple[Array, ...]:
    """`_slopes_along` of a block."""
    assert block.targets is not None
    s = block_weights(block.weights, len(block), outputs)
    return _slopes_along(loss, block.targets[:, outputs], s, predict(Phi, theta), predict(Phi, step), steps)
