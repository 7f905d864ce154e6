"""Newton's method on features in memory, for several problems side by side (Keerthi et al. 2006, section 2.1)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kompakt.data import tree_sum
from kompakt.design import choose_block_rows
from kompakt.linalg import Factor, factorise
from kompakt.losses import Loss, require_kind
from kompakt.parallel import ordered_map
from kompakt.run import Run
from kompakt.solve import line_search

Array = np.ndarray

#: the compiled loop is used up to so many rows and features; beyond, blocks of array operations are faster
_COMPILED_ROWS = 32_768
_COMPILED_WIDTH = 200


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
        self._value: Array | None = None  # the objective, where it is known
        self._active: Array | None = None
        self.set_loss(loss)

    @property
    def width(self) -> int:
        """Lines of A in use."""
        return self.first + self.n_basis

    def set_loss(self, loss: Loss) -> None:
        """Minimise another loss from now on."""
        self.loss, self._ramps, self._value = loss, loss.ramps(len(self.y)), None

    def objective(self) -> Array:
        """1/2 |w|^2 + sum of the weighted losses at the current weights, per output."""
        if self._value is None:
            theta = self.theta[:, : self.width]
            penalties = 0.5 * np.sum(self.penalty[: self.width] * theta * theta, axis=1)
            self._value = penalties + np.sum(self.cost * self.loss.value(self.y, self.f), axis=1)
        return self._value

    def _part(self, values: Array, which: Array) -> Array:
        """Lines of some problems, without a copy where these are all or where all share one."""
        return values if len(which) == len(self.y) or len(values) == 1 < len(self.y) else values[which]

    def _own_loss(self, which: Array) -> Loss:
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

        A full step after which no row changed its piece ended at the minimiser; `thorough` still checks the gradient.
        A problem is also done when a step promises less than the share `enough` of the objective: by default nothing
        beyond rounding, even where rows sit on a kink to the last bit.
        """
        p, left, used = self.width, np.arange(len(self.y)), 0
        while True:
            steps = self._newton(max_iter - used, enough)
            used += steps or 0
            changed = self._refresh(left) > 0 if steps is None else False
            if not thorough:
                left = left[changed | ~self._exact[left]]
                if not len(left):
                    break
            theta, slopes = self._part(self.theta, left)[:, :p], self._part(self.slopes, left)
            gradient = self.penalty[:p] * theta + self._times(left, slopes)
            step = np.stack([self._direction(int(problem), gradient[i]) for i, problem in enumerate(left)])
            descent = np.sum(gradient * step, axis=1)
            before = self._part(self.objective(), left)
            done = ~(-descent > enough * np.abs(before))  # also where it is not a number
            if tol:
                scale = np.linalg.norm(theta, axis=1) + np.sum(np.abs(slopes), axis=1)
                self.optimality[left] = np.linalg.norm(gradient, axis=1) / np.maximum(scale, np.finfo(float).tiny)
                done |= self.optimality[left] <= tol
            self._exact[left] = done
            left, step, descent, before = left[~done], step[~done], descent[~done], before[~done]
            if used >= max_iter or not len(left) or (run is not None and run.late):
                break
            theta, f = self.theta[left, :p], self.f[left]
            self._move(left, step)
            # the step, or where it does not lower the objective enough, its best multiple (step 4 of the method)
            poor = np.flatnonzero(~(self.objective()[left] <= before + 1e-4 * descent + 1e-14 * np.abs(before)))
            self._exact[left] = [not self._flat(problem) for problem in left]
            if len(poor):
                self._shorten(left, theta, f, step, poor)
            used += 1
        self.n_iter += used
        self.converged = not len(left)

    def _direction(self, problem: int, gradient: Array) -> Array:
        """Newton's step."""
        return -self.factor(problem).solve(gradient)

    def _newton(self, max_iter: int, enough: float) -> int | None:
        """The compiled loop, where the problem is small; returns the steps taken, None where it is not used."""
        fast, p, n, ramps = line_search.compiled(), self.width, self.A.shape[2], self._ramps
        small = n <= _COMPILED_ROWS and p <= _COMPILED_WIDTH and len(self.H) == len(self.y)
        if fast is None or ramps is None or not small:
            return None
        value = np.empty(len(self.y))
        problem = self.A, self.y, self.cost, self.penalty[:p]
        state = self.theta, self.f, self.slopes, self.curvatures, self.H, self._exact, value
        steps, changed, most = fast.newton(problem, tuple(ramps), state, p, max_iter, enough)
        self.factors, self._value, self._active = [None] * len(self.H), value, None
        self.training += steps * (2.0 * n * p + p**3 / 3) + changed * p * p / 2
        return int(most)

    def _move(self, which: Array, step: Array) -> None:
        """theta += step for some problems, with predictions and slopes, the pieces kept."""
        p, own = self.width, slice(None) if len(which) == len(self.y) else which
        change = np.empty((len(step), self.A.shape[2]))

        def one(rows: slice) -> None:
            A = self.A[:, :p, rows]
            change[:, rows] = step @ A[0] if len(A) == 1 else np.matmul(step[:, None], A[own])[:, 0]

        self.blocks.each(one)
        self.theta[own, :p] += step
        self.f[own] += change
        self.slopes[own] += self.curvatures[own] * change
        self._value = None
        self.training += change.size * p

    def _shorten(self, which: Array, theta: Array, f: Array, step: Array, poor: Array) -> None:
        """Go back to theta and f and take the best multiple of the step, for the problems which[poor]."""
        problems, theta, f, step = which[poor], theta[poor], f[poor], step[poor]
        change = self.f[problems] - f
        penalised = self.penalty[: self.width] * step
        t, _ = line_search.minimise_along(
            self._own_loss(problems), self.y[problems], f, np.broadcast_to(self._part(self.cost, problems), f.shape),
            change[:, None], np.sum(penalised * theta, axis=1)[:, None],
            np.sum(penalised * step, axis=1)[:, None],
        )  # fmt: skip
        sound = np.isfinite(t) & np.isfinite(np.sum(change, axis=1, keepdims=True))
        self.theta[problems, : self.width] = np.where(sound, theta + t * step, theta)
        self.f[problems] = np.where(sound, f + t * change, f)
        self._value = None
        self._exact[problems] = False

    def _times(self, which: Array, values: Array) -> Array:
        """A values for the values (problems, n) of some problems, (problems, width)."""
        p = self.width
        self.training += values.size * p
        if len(self.A) > 1:
            return np.asarray(np.matmul(self._part(self.A, which)[:, :p], values[:, :, None])[:, :, 0])
        return self.blocks.total(lambda rows: (values[:, rows] @ self.A[0, :p, rows].T,))[0]

    def _refresh(self, which: Array) -> Array:
        """Slopes, curvatures and Hessians at the current predictions; returns how many rows changed their piece."""
        loss, y, f, cost = self._own_loss(which), *(self._part(v, which) for v in (self.y, self.f, self.cost))
        self.slopes[which] = cost * loss.gradient(y, f)
        fresh = cost * loss.curvature(y, f)
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
        if len(rows) > 0.7 * np.count_nonzero(curvature):
            rows = np.flatnonzero(curvature)
            change = curvature[rows]
            H[...] = np.diag(self.penalty[:p])

        def one(part: slice) -> tuple[Array, ...]:
            taken = lines[:, rows[part]]
            return ((taken * change[part]) @ taken.T,)

        H += RowBlocks(len(rows), 2048).total(one)[0]
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
