"""Newton's method on features in memory, for several problems side by side (Keerthi et al. 2006, section 2.1)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kompakt.data import tree_sum
from kompakt.design import choose_block_rows, weighted_gram
from kompakt.linalg import Factor, factorise
from kompakt.losses import Loss, require_kind
from kompakt.parallel import ordered_map
from kompakt.run import Run
from kompakt.solve import line_search
from kompakt.solve.problem import Problem, Settings, Solution

Array = np.ndarray

#: the compiled loop is used up to so many rows and features; beyond, blocks of array operations are faster
_COMPILED_ROWS = 32_768
_COMPILED_WIDTH = 200
#: outputs from which on Hessians are kept over several steps
MANY_OUTPUTS = 3


class RowBlocks:
    """Row ranges of `size` rows each; sums over them do not depend on the number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.solve.dense import RowBlocks
    >>> values = np.arange(5.0)
    >>> RowBlocks(5, 2).total(lambda rows: (values[rows].sum(keepdims=True),))
    (array([10.]),)
    """

    def __init__(self, n_rows: int, size: int) -> None:
        self._slices = [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)] or [slice(0, 0)]

    def total(self, function: Callable[[slice], tuple[Array, ...]]) -> tuple[Array, ...]:
        """Sum the arrays that `function(rows)` returns."""
        return function(self._slices[0]) if len(self._slices) == 1 else tree_sum(ordered_map(function, self._slices))

    def each(self, function: Callable[[slice], None]) -> None:
        """Call `function(rows)` for its effect on disjoint slices of the caller's arrays."""
        if len(self._slices) == 1:
            function(self._slices[0])  # small machines call this thousands of times: no pool, no generator
            return
        for _ in ordered_map(function, self._slices):
            pass


class DenseNewton:
    """Weights of L problems that share their features or, in a batch, have features of their own.

    With features A, one line per coordinate, the generalised Hessian of eq. 6 is H = P + A D A', D the curvatures of
    the losses times C s.  Slopes and curvatures belong to the pieces of the losses that the rows lay on when they were
    last looked at; between two looks the objective is taken as quadratic.

    Parameters
    ----------
    A : ndarray of shape (1 or L, capacity, n)
        Features; the line of an intercept is the first.
    y : ndarray of shape (L, n)
    cost : ndarray of shape (1 or L, n)
        C times the weight of every row.
    penalty : ndarray of shape (capacity,)
        P: ones, and 0 or 1 for the intercept.
    loss : Loss
        Piecewise quadratic.
    first : int
        Number of intercepts, 0 or 1.
    n_basis : int
        Lines of A in use besides.
    """

    def __init__(
        self, A: Array, y: Array, cost: Array, penalty: Array, loss: Loss, first: int = 0, n_basis: int = 0
    ) -> None:
        require_kind(loss, "piecewise_quadratic", "Newton's method")
        L, n = y.shape
        self.A, self.y, self.cost, self.penalty, self.first, self.n_basis = A, y, cost, penalty, first, n_basis
        self.blocks = RowBlocks(n, choose_block_rows(A.shape[1]))
        self.theta = np.zeros((L, A.shape[1]))
        self.f, self.slopes, self.curvatures = np.zeros((L, n)), np.zeros((L, n)), np.zeros((L, n))
        shared = loss.quadratic and len(cost) == 1 and len(A) == 1
        self.H = np.tile(np.diag(penalty), (1 if shared else L, 1, 1))
        self.factors: list[Factor | None] = [None] * len(self.H)
        self.training = 0.0  # multiply-adds
        self.n_iter = 0
        self.converged = True
        self.optimality = np.zeros(L)
        self._exact = np.zeros(L, dtype=bool)  # whether theta minimises the objective with the pieces kept
        self._terms: tuple[Array, Array, Array] | None = None  # of the losses at f, where they are known
        self._value: Array | None = None  # the objective, where it is known
        self._active: Array | None = None
        self.set_loss(loss)

    @classmethod
    def on_features(
        cls,
        features: Array,
        targets: Array,
        weights: Array | None,
        loss: Loss,
        C: float,
        fit_intercept: bool,
        penalty: float,
    ) -> DenseNewton:
        """Problems on features (n, m) with targets (n, L) and weights (n,) or (n, L); `penalty` of the intercept."""
        (n, m), first = features.shape, int(fit_intercept)
        A = np.empty((1, first + m, n))
        A[0, :first], A[0, first:] = 1.0, features.T
        y = np.ascontiguousarray(targets.T, dtype=np.float64)
        cost = np.full((1, n), C) if weights is None else C * np.atleast_2d(np.asarray(weights, dtype=np.float64).T)
        return cls(A, y, np.ascontiguousarray(cost), np.append([penalty] * first, np.ones(m)), loss, first, m)

    @property
    def width(self) -> int:
        """Lines of A in use."""
        return self.first + self.n_basis

    def set_loss(self, loss: Loss) -> None:
        """Minimise another loss from now on."""
        self.loss, self._ramps = loss, loss.ramps(len(self.y))
        self._terms = self._value = None

    def objective(self) -> Array:
        """1/2 |w|^2 + sum of the weighted losses at the current weights, per output."""
        if self._value is None:
            theta = self.theta[:, : self.width]
            penalties = 0.5 * np.sum(self.penalty[: self.width] * theta * theta, axis=1)
            self._value = penalties + np.sum(self.cost * self._loss_terms()[0], axis=1)
        return self._value

    def _loss_terms(self) -> tuple[Array, Array, Array]:
        """Value, derivative and curvature of the loss at the current predictions, (L, n) each."""
        if self._terms is None:
            self._terms = self.loss.terms(self.y, self.f)
        return self._terms

    def _select(self, values: Array, which: Array) -> Array:
        """Lines of some problems, without a copy where these are all or where all share one."""
        return values if len(which) == len(self.y) or len(values) == 1 < len(self.y) else values[which]

    def _loss_of(self, which: Array) -> Loss:
        return self.loss if len(which) == len(self.y) else self.loss.take_outputs(which)

    def retrain(
        self,
        tol: float = 1e-5,
        max_iter: int = 200,
        run: Run | None = None,
        thorough: bool = False,
        enough: float = 4e-16,
    ) -> None:
        """Newton's method to the optimum for the current basis (Keerthi et al. 2006, section 2.1).

        A full step after which no row changed its piece ended at the minimiser; `thorough` still checks the gradient,
        as is always done where a loss has the same curvature on several pieces.
        A problem is also done when a step promises less than the share `enough` of the objective: by default nothing
        beyond rounding, even where rows sit on a kink to the last bit.
        """
        p, moving, used = self.width, np.arange(len(self.y)), 0
        pieces_known = self._ramps is not None and self._ramps.bends_once
        while True:
            steps = self._newton(max_iter - used, enough)
            used += steps or 0
            changed = self._refresh(moving) > 0 if steps is None else False
            if not thorough and (steps is not None or pieces_known):
                moving = moving[changed | ~self._exact[moving]]
                if not len(moving):
                    break
            theta, slopes = self._select(self.theta, moving)[:, :p], self._select(self.slopes, moving)
            gradient, step = self.penalty[:p] * theta + self._times(moving, slopes), np.zeros((len(moving), p))
            done = np.zeros(len(moving), dtype=bool)
            if tol:
                scale = np.linalg.norm(theta, axis=1) + np.sum(np.abs(slopes), axis=1)
                self.optimality[moving] = np.linalg.norm(gradient, axis=1) / np.maximum(scale, np.finfo(float).tiny)
                done = self.optimality[moving] <= tol
            for i in np.flatnonzero(~done):
                step[i] = self._direction(int(moving[i]), gradient[i])
            descent, before = np.sum(gradient * step, axis=1), self._select(self.objective(), moving)
            done |= ~(-descent > enough * np.abs(before))  # also where it is not a number
            self._exact[moving] = done
            moving, step, descent, before = moving[~done], step[~done], descent[~done], before[~done]
            if used >= max_iter or not len(moving) or (run is not None and run.late):
                break
            theta, f = self.theta[moving, :p], self.f[moving]
            self._move(moving, step)
            # the step, or its best multiple where it does not lower the objective enough (step 4 of the method), and
            # where its length is a guess because no row has curvature
            good = self.objective()[moving] <= before + 1e-4 * descent + 1e-14 * np.abs(before)
            self._exact[moving] = good & [not self._flat(int(problem)) for problem in moving]
            poor = np.flatnonzero(~self._exact[moving])
            if len(poor):
                self._shorten(moving, theta, f, step, poor)
            used += 1
        self.n_iter += used
        self.converged = not len(moving)

    def _direction(self, problem: int, gradient: Array) -> Array:
        """Newton's step."""
        return -self.factor(problem).solve(gradient)

    def _newton(self, max_iter: int, enough: float, tol: float = 0.0, from_outputs: bool = False) -> int | None:
        """The compiled loop, where the problem is small; returns the steps taken, None where it is not used."""
        fast, p, n, ramps = line_search.compiled(), self.width, self.A.shape[2], self._ramps
        small = n <= _COMPILED_ROWS and p <= _COMPILED_WIDTH and len(self.H) == len(self.y)
        if fast is None or ramps is None or not small:
            return None
        value = np.empty(len(self.y))
        problem = self.A, self.y, self.cost, self.penalty[:p]
        state = self.theta, self.f, self.slopes, self.curvatures, self.H, self._exact, value, self.optimality
        steps, changed, most_steps = fast.newton(problem, tuple(ramps), state, p, max_iter, enough, tol, from_outputs)
        self.factors, self._terms, self._value, self._active = [None] * len(self.H), None, value, None
        self.training += steps * (2.0 * n * p + p**3 / 3) + changed * p * p / 2
        return int(most_steps)

    def _move(self, which: Array, step: Array) -> None:
        """theta += step for some problems, with predictions and slopes, the pieces kept."""
        p, selected = self.width, slice(None) if len(which) == len(self.y) else which
        change = np.empty((len(step), self.A.shape[2]))

        def fill(rows: slice) -> None:
            A = self.A[:, :p, rows]
            change[:, rows] = step @ A[0] if len(A) == 1 else np.matmul(step[:, None], A[selected])[:, 0]

        self.blocks.each(fill)
        self.theta[selected, :p] += step
        self.f[selected] += change
        self.slopes[selected] += self.curvatures[selected] * change
        self._terms = self._value = None
        self.training += change.size * p

    def _shorten(self, which: Array, theta: Array, f: Array, step: Array, poor: Array) -> None:
        """Go back to theta and f and take the best multiple of the step, for the problems which[poor]."""
        problems, theta, f, step = which[poor], theta[poor], f[poor], step[poor]
        change = self.f[problems] - f
        penalised = self.penalty[: self.width] * step
        t, _ = line_search.minimise_along(
            self._loss_of(problems), self.y[problems], f, np.broadcast_to(self._select(self.cost, problems), f.shape),
            change[:, None], np.sum(penalised * theta, axis=1)[:, None],
            np.sum(penalised * step, axis=1)[:, None],
        )  # fmt: skip
        sound = np.isfinite(t) & np.isfinite(np.sum(change, axis=1, keepdims=True))
        self.theta[problems, : self.width] = np.where(sound, theta + t * step, theta)
        self.f[problems] = np.where(sound, f + t * change, f)
        self._terms = self._value = None
        self._exact[problems] = False

    def _times(self, which: Array, values: Array) -> Array:
        """A values for the values (problems, n) of some problems, (problems, width)."""
        p = self.width
        self.training += values.size * p
        if len(self.A) > 1:
            return np.asarray(np.matmul(self._select(self.A, which)[:, :p], values[:, :, None])[:, :, 0])
        return self.blocks.total(lambda rows: (values[:, rows] @ self.A[0, :p, rows].T,))[0]

    def _refresh(self, which: Array) -> Array:
        """Slopes, curvatures and Hessians at the current predictions; returns how many rows changed their piece."""
        cost, (_, slopes, curvatures) = self._select(self.cost, which), self._loss_terms()
        self.slopes[which] = cost * self._select(slopes, which)
        fresh = cost * self._select(curvatures, which)
        changed = np.zeros(len(which), dtype=np.intp)
        for i, problem in enumerate(which):
            h = min(problem, len(self.H) - 1)
            change = fresh[i] - self.curvatures[problem]
            rows = np.flatnonzero(change)
            changed[i] = len(rows)
            if len(rows):
                self.curvatures[problem] = fresh[i]
                if h == problem:
                    self._change_hessian(h, rows, change[rows])
        self._active = None
        return changed

    def _change_hessian(self, h: int, rows: Array, change: Array) -> None:
        """H after the curvature of some rows changed."""
        p, curvature = self.width, self.curvatures[h]
        lines, H = self.A[h if len(self.A) > 1 else 0, :p], self.H[h, :p, :p]
        self.factors[h] = None
        anew = len(rows) > 0.7 * np.count_nonzero(curvature)
        if anew:
            rows = np.flatnonzero(curvature)
            change = curvature[rows]
            H[...] = np.diag(self.penalty[:p])

        def weighted_products(span: slice) -> tuple[Array, ...]:
            K = lines.take(rows[span], axis=1).T
            return (weighted_gram(K, change[span]) if anew else (K.T * change[span]) @ K,)

        H += RowBlocks(len(rows), 2048).total(weighted_products)[0]
        self.training += len(rows) * p * p / 2

    def factor(self, problem: int) -> Factor:
        """Factor of the Hessian of a problem."""
        h = min(problem, len(self.H) - 1)
        factor = self.factors[h]
        if factor is None:
            p = self.width
            H = self.H[h, :p, :p]
            if self._flat(h):  # move the intercept as if every loss were quadratic
                H = H.copy()
                H[0, 0] += np.sum(self.cost[min(h, len(self.cost) - 1)])
            factor = self.factors[h] = factorise(H, what="Hessian")
            self.training += p**3 / 3
        return factor

    def _flat(self, problem: int) -> bool:
        """Whether hardly a row has curvature, so that the intercept has none."""
        mass = np.sum(self.cost[min(problem, len(self.cost) - 1)])
        return bool(self.first and self.H[min(problem, len(self.H) - 1), 0, 0] < 1e-3 * mass)

    # -- other starts --------------------------------------------------------------------------------

    def train_from(self, outputs: Array, tol: float, max_iter: int, enough: float) -> None:
        """Newton's method from the outputs (L, n) of a machine with a similar basis.

        Outputs tell which rows are active, and that is all that Newton's method needs to know: a better start than the
        weights of that machine, which are large and cancel each other.  The first step ends at the minimiser where
        every loss is the parabola that touches it at these outputs.
        """
        self.f[:] = outputs
        self._terms = self._value = None
        steps = self._newton(max_iter, enough, tol, from_outputs=True)
        if steps is None:
            everything, steps = np.arange(len(self.y)), 1
            self._refresh(everything)
            self.slopes -= self.curvatures * self.f
            self.f[:] = 0.0
            gradients = enumerate(self._times(everything, self.slopes))
            self._move(everything, np.stack([self._direction(problem, gradient) for problem, gradient in gradients]))
        self.n_iter += steps
        if not self._exact.all():
            self._terms = self._value = None
            self.retrain(tol, max_iter - steps, thorough=True, enough=enough)

    def scale_cost(self, share: float) -> None:
        """Multiply C; the pieces that the rows lie on are kept."""
        self.cost = share * self.cost
        self.slopes *= share
        self.curvatures *= share
        penalty = np.diag(self.penalty)
        self.H = penalty + share * (self.H - penalty)
        self.factors, self._value = [None] * len(self.H), None
        self._exact[:] = False

    @property
    def coordinates(self) -> Array:
        """The weights and then the intercept of every problem, (n_basis + 1, L)."""
        weights, intercept = self.theta[:, self.first : self.width], np.sum(self.theta[:, : self.first], axis=1)
        return np.concatenate([weights.T, intercept[None]])


def is_small(problem: Problem) -> bool:
    """Whether all rows are one block in memory, and the outputs so few that a Hessian for each is cheap."""
    design = problem.design
    return design.stored and design.n_rows <= design.block_rows and problem.n_outputs < MANY_OUTPUTS


def minimise_from(problem: Problem, outputs: Array, settings: Settings) -> Solution:
    """Newton's method from the outputs (n, L) of a similar machine, where the features are stored.

    Small problems are solved hundreds of times in a descent: passes, trials and kept Hessians would take longer than
    the arithmetic.
    """
    design, rows = problem.design, problem.design.rows
    assert rows.targets is not None
    machine = DenseNewton.on_features(
        design.matrix, rows.targets, rows.weights, problem.loss, problem.C, problem.fit_intercept, problem.penalty[-1]
    )
    eps = float(np.finfo(design.block_dtype).eps)
    machine.train_from(outputs.T, max(settings.tol, 50 * eps), settings.max_iter, 4 * eps)
    theta = machine.coordinates
    return Solution(
        weights=design.to_weights(theta[:-1]),
        intercept=theta[-1].copy(),
        coordinates=theta,
        objective=machine.objective(),
        n_iter=machine.n_iter,
        converged=machine.converged,
        optimality=machine.optimality,
        jitter=max([design.jitter, *(factor.jitter for factor in machine.factors if factor is not None)]),
    )
