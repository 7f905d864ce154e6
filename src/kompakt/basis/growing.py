"""The machine that grows: its features, weights and factors, and Newton's method for its piecewise quadratic loss.

Features are whitened (R'R = K_JJ, Phi = R'^-1 K_J), so the regulariser of Keerthi, Chapelle, DeCoste 2006, eq. 4, is
the identity and the generalised Hessian of eq. 6 is H = P + A D A' with A = [1; Phi], D the curvatures of the losses
times C s and P the identity (0 or 1 for the intercept).  A has one line per coordinate, the intercept first; a new
basis vector appends a line and borders H.  Whatever is asked of k(J, x) for a candidate row is in its column of A.

Between retrainings the pieces of the losses that the rows lie on are kept: slopes then change linearly with the
predictions, the objective is quadratic, and a new vector costs one bordered solve (section 6.1).

There are L problems, one per output.  They share one basis, or, in a batch of machines, each has its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from kompakt.basis.columns import KernelColumns
from kompakt.data import tree_sum
from kompakt.design import choose_block_rows
from kompakt.linalg import Factor, border, factorise
from kompakt.losses import Loss, require_kind
from kompakt.parallel import numba_available, ordered_map
from kompakt.run import DEFAULT_BUDGET, Run
from kompakt.solve import Solution
from kompakt.spec import Spec

Array = np.ndarray

#: the compiled loops are used up to so many rows and features; beyond, blocks of array operations are faster
_COMPILED_ROWS = 32_768
_COMPILED_WIDTH = 200
#: rows per block when rows that were left out are checked
_CHECKED_ROWS = 65_536


def require_memory(n_rows: int, width: int, memory_budget: int | None) -> None:
    """Refuse a growth whose features do not fit the budget."""
    budget = DEFAULT_BUDGET if memory_budget is None else memory_budget
    needed = 8 * n_rows * width
    if needed > budget:
        raise MemoryError(
            f"growing needs the features of all rows in memory: {n_rows} rows x {width} columns of float64 are "
            f"{needed / 2**20:.0f} MiB, but memory_budget allows {budget / 2**20:.0f} MiB. "
            "Raise memory_budget, lower n_basis, or use a one-shot selection (CompactSVC)."
        )


# -- the line search ------------------------------------------------------------------------------------------


@cache
def compiled() -> ModuleType | None:
    """The compiled loops, or None without Numba."""
    if not numba_available():
        return None
    from kompakt.basis import _compiled

    return _compiled


def minimise_along(
    loss: Loss,
    y: Array,
    f: Array,
    s: Array,
    columns: Array,
    linear: Array,
    quadratic: Array,
    *,
    group: Array | None = None,
    tol: float = 1e-6,
) -> tuple[Array, Array]:
    """Minimisers t and decreases -phi(t) >= 0 of the objective along directions, both (B, k): B machines, k each.

    phi(t) = a t + q t^2 / 2 + sum_i s_i [loss(y_i, f_i + t c_i) - loss(y_i, f_i)] is the objective of Keerthi et al.
    2006, eq. 7, as a function of one new weight t: column c, a and q from the regulariser.  The same function is the
    line search of Newton's method.  Its derivative increases and is piecewise linear, so Newton's method inside a
    bracket ends at the exact minimiser after finitely many steps.

    Parameters
    ----------
    loss : Loss
        Piecewise quadratic.
    y, f, s : ndarray of shape (B, n)
        Targets, predictions and costs; a row of cost 0 takes no part.
    columns : ndarray of shape (G, k, n)
        Directions; those of machine b are ``columns[group[b]]``, and `group` None means group b (or 0, if G is 1).
    linear, quadratic : ndarray of shape (B, k)
        a and q; q must be positive.
    tol : float
        A direction is done when its derivative is this small against that at 0.  The relative error of the decrease is
        about its square.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.growing import minimise_along
    >>> from kompakt.losses import SquaredHinge
    >>> one = np.ones((1, 1))
    >>> t, decrease = minimise_along(SquaredHinge(), one, 0 * one, one, one[None], 0 * one, one)
    >>> float(t[0, 0]), float(decrease[0, 0])
    (0.5, 0.25)
    """
    B, n = y.shape
    k = columns.shape[1]
    if group is None:
        group = np.arange(B) if len(columns) == B else np.zeros(B, dtype=np.intp)
    t, decrease = np.zeros((B, k)), np.zeros((B, k))
    if loss.quadratic:  # one step, by matrix products
        for number in np.unique(group):
            own = group == number
            slope = linear[own] + (s[own] * loss.gradient(y[own], f[own])) @ columns[number].T
            curvature = quadratic[own] + s[own] @ np.square(columns[number]).T
            t[own], decrease[own] = -slope / curvature, 0.5 * np.square(slope) / curvature
        return t, decrease
    fast, ramps = compiled(), loss.ramps(B)
    if fast is not None and ramps is not None:
        # one signature for all callers: contiguous, writable arrays
        y, f, s, columns = (np.require(part, np.float64, ["C", "W"]) for part in (y, f, s, columns))
        linear, quadratic = (np.require(part, np.float64, ["C", "W"]) for part in (linear, quadratic))
        group = np.require(group, np.intp, ["C", "W"])
        fast.minimise(y, f, s, columns, group, linear, quadratic, *ramps, tol, t, decrease)
        return t, decrease
    width = max(1, (1 << 18) // max(1, n))  # directions at a time: their rows stay in cache
    for b in range(B):
        own = loss.take_outputs(np.array([b]))
        for start in range(0, k, width):
            part = slice(start, start + width)
            t[b, part], decrease[b, part] = _minimise_arrays(
                own, y[b], f[b], s[b], columns[group[b], part], linear[b, part], quadratic[b, part], tol
            )
    return t, decrease


def _minimise_arrays(
    loss: Loss, y: Array, f: Array, cost: Array, columns: Array, a: Array, q: Array, tol: float
) -> tuple[Array, Array]:
    """The minimisers for one machine and some directions (k, n)."""

    def derivatives(t: Array, c: Array, which: Array) -> tuple[Array, Array]:
        at = f + t[:, None] * c
        first = a[which] + q[which] * t + np.sum(cost * loss.gradient(y, at) * c, axis=1)
        return first, q[which] + np.sum(cost * loss.curvature(y, at) * c * c, axis=1)

    found, left = np.zeros(len(a)), np.arange(len(a))
    start, curvature = derivatives(found, columns, left)
    sign = -np.sign(start)  # travel in this direction; lengths below are positive
    length, low, high = np.abs(start / curvature), np.zeros(len(a)), np.full(len(a), np.inf)
    left = np.flatnonzero(start != 0.0)
    for _ in range(80):
        if not len(left):
            break
        found[left] = sign[left] * length[left]
        slope, curvature = derivatives(found[left], columns[left], left)
        slope *= sign[left]
        at, below, above = length[left], low[left], high[left]
        narrow = np.isfinite(above) & (above - below <= 1e-14 * above)
        done = (np.abs(slope) <= tol * np.abs(start[left])) | narrow
        below, above = np.where(slope < 0, at, below), np.where(slope > 0, at, above)
        middle = np.where(np.isfinite(above), 0.5 * (below + above), 2.0 * below)
        step = at - slope / curvature
        length[left], low[left], high[left] = np.where((step > below) & (step < above), step, middle), below, above
        left = left[~done]
    gain = loss.value(y, f + found[:, None] * columns) - loss.value(y, f)
    return found, np.maximum(0.0, -found * (a + 0.5 * q * found) - np.sum(cost * gain, axis=1))


# -- the machine --------------------------------------------------------------------------------------------


class RowBlocks:
    """Row ranges of `size` rows each; sums over them do not depend on the number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.growing import RowBlocks
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


class Snapshot(NamedTuple):
    """A machine at one size: lines of A and R never change once they are there, so these are enough."""

    n_basis: int
    theta: Array  # (L, width)
    objective: Array  # (L,)


class GrowingMachine:
    """State of a growth: everything about the machine found so far, or about a batch of machines of the same size.

    Parameters
    ----------
    columns : KernelColumns
        Kernel values of the rows, and their targets (n, L): of every output, or of every machine of a batch.
    spec : Spec
        Loss, piecewise quadratic, C and intercept.
    capacity : int
        Number of basis vectors to reserve memory for.
    weights : ndarray of shape (n,) or (n, L), optional
        In place of those of the rows; rows of weight 0 are followed but not trained on, which is how validation errors
        come for free.
    memory_budget : int, optional
        Bytes that the features may take; None means 1 GiB.
    batch : bool
        Whether every problem has a basis of its own; its kernel values are handed over.
    """

    def __init__(
        self,
        columns: KernelColumns,
        spec: Spec,
        capacity: int,
        weights: Array | None = None,
        memory_budget: int | None = None,
        batch: bool = False,
    ) -> None:
        require_kind(spec.loss, "piecewise_quadratic", "growth")
        rows = columns.rows
        assert rows.targets is not None
        self.columns, self.noise, self.C = columns, float(np.finfo(rows.dtype).eps), spec.C
        self.y = np.ascontiguousarray(rows.targets.T, dtype=np.float64)
        L, n = self.y.shape
        self.first = int(spec.fit_intercept)  # number of lines of A before the basis
        width = capacity + self.first
        if not batch:
            require_memory(n, width, memory_budget)
        given = rows.weights if weights is None else weights
        self.cost = self._costs(np.ones(n) if given is None else given)  # (1 or L, n)
        self._all = self.y, self.cost  # of all rows, where `y` and `cost` are of the live ones
        self.live: Array | None = None  # row numbers that are followed; None: all
        self.A = np.empty((L if batch else 1, width, n))
        self.A[:, : self.first] = 1.0
        self.penalty = np.ones(width)
        self.penalty[: self.first] = float(spec.penalize_intercept)
        self.blocks = RowBlocks(n, choose_block_rows(width))
        self.n_basis = 0
        self.indices: list[int] = []
        self.taken: set[int] = set()
        self.R = np.zeros((capacity, capacity))
        self.theta = np.zeros((L, width))
        self.f, self.slopes, self.curvatures = np.zeros((L, n)), np.zeros((L, n)), np.zeros((L, n))
        shared = spec.loss.quadratic and len(self.cost) == 1 and not batch
        self.H = np.tile(np.diag(self.penalty), (1 if shared else L, 1, 1))
        self.factors: list[Factor | None] = [None] * len(self.H)
        # multiply-adds by purpose: counted, not timed, so that the same key gives the same basis under any load
        self.scoring = self.training = 0.0
        self.n_iter = 0
        self.converged = True
        self.optimality = np.zeros(L)
        self._exact = np.zeros(L, dtype=bool)  # whether theta minimises the objective with the pieces kept
        self._value: Array | None = None  # the objective, where it is known
        self._active: Array | None = None
        self.set_loss(spec.loss)

    @classmethod
    def on_rows(
        cls,
        columns: KernelColumns,
        spec: Spec,
        capacity: int,
        weights: Array | None = None,
        memory_budget: int | None = None,
    ) -> GrowingMachine:
        """A machine whose intercept is trained."""
        machine = cls(columns, spec, capacity, weights, memory_budget)
        machine.retrain()
        return machine

    def _costs(self, weights: Array) -> Array:
        """C s for weights (n,) or (n, L), (1 or L, n)."""
        return self.C * np.ascontiguousarray(np.atleast_2d(np.asarray(weights, dtype=np.float64).T))

    def set_loss(self, loss: Loss) -> None:
        """Minimise another loss from now on."""
        self.loss, self._ramps, self._value = loss, loss.ramps(len(self.y)), None

    # -- shapes and small questions ------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Lines of A in use."""
        return self.first + self.n_basis

    @property
    def n_outputs(self) -> int:
        return len(self.y)

    @property
    def lines(self) -> Array:
        """Features of the live rows, the intercept first: (width, n)."""
        return self.A[0, : self.width]

    @property
    def factor_R(self) -> Array:
        """R with R'R = K_JJ."""
        return self.R[: self.n_basis, : self.n_basis]

    @property
    def active(self) -> Array:
        """Numbers of the rows whose loss has a slope or a curvature in some output."""
        if self._active is None:
            place = np.flatnonzero(np.any((self.slopes != 0) | (self.curvatures != 0), axis=0))
            self._active = place if self.live is None else self.live[place]
        return self._active

    def places(self, indices: Array) -> tuple[Array, Array]:
        """Places of rows among the live ones, and which of them are live."""
        indices = np.asarray(indices, dtype=np.intp)
        if self.live is None:
            return indices, np.ones(len(indices), dtype=bool)
        place = np.minimum(np.searchsorted(self.live, indices), len(self.live) - 1)
        return place, self.live[place] == indices

    def features(self, indices: Array) -> Array:
        """Whitened features of some rows, (k, m); those of rows that were left out are computed anew."""
        place, known = self.places(indices)
        Phi = self.A[0, self.first : self.width, place]
        if not known.all() and self.n_basis:
            basis = self.columns.vectors(np.array(self.indices))
            raw = self.columns.values(self.columns.some(np.asarray(indices)[~known]), basis)
            Phi[~known] = solve_triangular(self.factor_R, raw, trans="T", check_finite=False).T
        return Phi

    def distances(self, Phi: Array, diagonal: Array) -> Array:
        """Squared distances of rows from the span of the basis, d_j^2 of eq. 9; 0 where only rounding is left."""
        squares = diagonal - np.einsum("...m,...m->...", Phi, Phi)
        return np.where(squares > self.noise * (self.n_basis + 1) * diagonal, squares, 0.0)

    def whitened(self, columns: Array, Phi: Array, pivots: Array) -> Array:
        """The lines (k, n) that rows with these kernel values, features and distances would append to A."""
        lines, pivots = np.empty(columns.shape), pivots[:, None]

        def one(rows: slice) -> None:
            lines[:, rows] = (columns[:, rows] - Phi @ self.A[0, self.first : self.width, rows]) / pivots

        self.blocks.each(one)
        return lines

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

    # -- growing -------------------------------------------------------------------------------------

    def append(self, index: int, column: Array, diagonal: float) -> bool:
        """Add a row to the basis and solve the bordered system once, with the pieces of the losses kept.

        `column` are the kernel values of the live rows, `diagonal` is k of the row with itself.  Returns whether the
        solution could be taken as it is; where it would raise the true objective it is shortened, and the machine must
        be retrained.
        """
        before = self.objective()
        old, exact = [self.factor(problem) for problem in range(len(self.H))], self._exact.copy()
        self.join(index, column, diagonal)
        gradient = self.slopes @ self.A[0, self.width - 1]
        p, everything = self.width, np.arange(len(self.y))
        step = np.zeros((len(self.y), p))
        for h, factor in enumerate(old):
            # the last squared pivot is at least 1 in exact arithmetic: the new coordinate is penalised
            H = self.H[h, :p, :p]
            self.factors[h] = new = border(factor, H[:-1, -1:], H[-1:, -1:], noise=0.5)
            # the gradient with the pieces kept is zero in the old coordinates: a solve with e_p times its last entry
            last = solve_triangular(new.R, np.eye(p)[-1] / new.R[-1, -1], check_finite=False)
            which = slice(None) if len(old) < len(self.y) else slice(h, h + 1)
            step[which] = -gradient[which, None] * last
        theta, f = self.theta[:, :p].copy(), self.f.copy()
        self._move(everything, step)
        self._exact = exact
        poor = np.flatnonzero(self.objective() > before)
        if len(poor):
            self._shorten(everything, theta, f, step, poor)
        return bool(self._exact.all())

    def join(self, index: int, column: Array, diagonal: float) -> None:
        """Add a row to the basis with weight 0; see `append`."""
        phi = self.features(np.array([index]))
        square = float(diagonal) - float(phi[0] @ phi[0])
        pivot = np.sqrt(max(square, self.noise * (self.n_basis + 1) * float(diagonal)))
        self.border(column[None], phi, np.array([pivot]))
        self.indices.append(int(index))
        self.taken.add(int(index))

    def border(self, columns: Array, phi: Array, pivot: Array) -> None:
        """Append a line to A and border R and H: one column (n,), one row of features (m,) and one pivot per basis."""
        m, p, A, curvatures = self.n_basis, self.width, self.A, self.curvatures[: len(self.H)]

        def one(rows: slice) -> tuple[Array, ...]:
            new = (columns[:, rows] - np.matmul(phi[:, None], A[:, self.first : p, rows])[:, 0]) / pivot[:, None]
            A[:, p, rows] = new
            weighted, lines = curvatures[:, rows] * new, A[:, : p + 1, rows]
            return (weighted @ lines[0].T if len(A) == 1 else np.matmul(lines, weighted[:, :, None])[:, :, 0],)

        (sums,) = self.blocks.total(one)
        if len(A) == 1:
            self.R[:m, m], self.R[m, m] = phi[0], pivot[0]
        self.H[:, p, : p + 1] = self.H[:, : p + 1, p] = sums
        self.H[:, p, p] += 1.0
        self.factors = [None] * len(self.H)
        self.theta[:, p] = 0.0
        self._exact[:] = False
        self.n_basis += 1
        self.training += 2.0 * A.shape[2] * p * (1 + len(curvatures))

    def keep_machines(self, which: Array) -> None:
        """Go on with some machines of a batch."""
        self._all = self._all[0][which], self._all[1][which]
        for name in ("y", "cost", "A", "theta", "f", "slopes", "curvatures", "H", "optimality", "_exact"):
            setattr(self, name, getattr(self, name)[which])
        self.factors = [self.factors[i] for i in which]
        self.set_loss(self.loss.take_outputs(which))

    # -- training ------------------------------------------------------------------------------------

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
        fast, p, n, ramps = compiled(), self.width, self.A.shape[2], self._ramps
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
        t, _ = minimise_along(
            self._own_loss(problems), self.y[problems], f, np.broadcast_to(self._part(self.cost, problems), f.shape),
            change[:, None], np.sum(penalised * theta, axis=1)[:, None],
            np.sum(penalised * step, axis=1)[:, None] + 1e-300,
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

    def stale_gain(self) -> float:
        """What one Newton step would gain now, g' H^-1 g / 2: it comes from rows that left their piece alone."""
        moved = self.cost * self.loss.gradient(self.y, self.f) - self.slopes
        rows = np.flatnonzero(np.any(np.abs(moved) > 1e-12 * self.C, axis=0))
        gradient = moved[:, rows] @ self.lines[:, rows].T
        halves = [self.factor(problem).solve_transposed(gradient[problem]) for problem in range(len(self.y))]
        return 0.5 * sum(float(half @ half) for half in halves)

    # -- changing what was found ---------------------------------------------------------------------

    def set_weights(self, weights: Array) -> None:
        """Other weights (n,) or (n, L) of all rows, as when validation rows join the training at the end."""
        self._all = self._all[0], self._costs(weights)
        self.cost = self._all[1] if self.live is None else np.take(self._all[1], self.live, axis=1)
        self.rebuild()

    def truncate(self, n_basis: int) -> None:
        """Keep only the first basis vectors; call `retrain` afterwards."""
        self.taken -= set(self.indices[n_basis:])
        del self.indices[n_basis:]
        self.n_basis = n_basis
        self.rebuild()

    def rebuild(self) -> None:
        """Predictions, Hessians and factors from A and theta."""
        n = self.A.shape[2]
        self.blocks = RowBlocks(n, choose_block_rows(self.A.shape[1]))
        self.f, self.slopes, self.curvatures = (np.zeros((len(self.y), n)) for _ in range(3))
        everything, theta = np.arange(len(self.y)), self.theta[:, : self.width].copy()
        self.theta[:] = 0.0
        self._move(everything, theta)
        self.H[:] = np.diag(self.penalty)
        self.factors = [None] * len(self.H)
        self._exact[:] = False
        self._refresh(everything)

    def shrink(self, keep: Array) -> None:
        """Follow only the live rows of the mask `keep` (section 3.4)."""
        numbers = np.arange(len(keep)) if self.live is None else self.live
        self.live = numbers[keep]
        for name in ("A", "y", "cost", "f", "slopes", "curvatures"):
            setattr(self, name, np.ascontiguousarray(getattr(self, name)[..., keep]))
        self.blocks = RowBlocks(len(self.live), choose_block_rows(self.A.shape[1]))
        self._value = self._active = None
        self.columns.narrow(self.live)

    def restore(self) -> int:
        """Check the rows that were left out; bring back those whose loss has a slope.  Returns how many."""
        if self.live is None:
            return 0
        y, cost = self._all
        gone = np.setdiff1d(np.arange(y.shape[1]), self.live)
        theta = self.theta[:, : self.width]
        wrong = [np.empty(0, dtype=np.intp)]
        for start in range(0, len(gone), _CHECKED_ROWS):
            part = gone[start : start + _CHECKED_ROWS]
            f = theta[:, self.first :] @ self.features(part).T + np.sum(theta[:, : self.first], axis=1)[:, None]
            wrong.append(part[np.any(cost[:, part] * self.loss.gradient(y[:, part], f) != 0, axis=0)])
        back = np.concatenate(wrong)
        if len(back):
            A = np.ones((1, self.A.shape[1], len(back)))
            A[0, self.first : self.width] = self.features(back).T
            together = np.concatenate([self.live, back])
            order = np.argsort(together)
            self.live = together[order]
            self.A = np.take(np.concatenate([self.A, A], axis=2), order, axis=2)
            self.y, self.cost = np.take(y, self.live, axis=1), np.take(cost, self.live, axis=1)
            self.columns.narrow(self.live)
            self.rebuild()
        return len(back)

    # -- handing over --------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        return Snapshot(self.n_basis, self.theta[:, : self.width].copy(), self.objective())

    def back_to(self, last: Snapshot) -> None:
        """Be what the snapshot says, for `solution` only: growth broke off at an unknown place and cannot go on."""
        self.n_basis, theta, self._value = last
        self.theta[:, : self.width] = theta
        del self.indices[self.n_basis :]
        self.converged = False

    def solution(self, theta: Array | None = None) -> Solution:
        """Weights of the basis vectors, intercept, and how they were found; for other coordinates, those alone."""
        known = theta is None
        theta = self.theta[:, : self.width] if theta is None else theta
        w = theta[:, self.first :].T
        size = len(w)
        intercept = theta[:, 0].copy() if self.first else np.zeros(len(theta))
        nothing = np.full(len(theta), np.nan)
        return Solution(
            weights=solve_triangular(self.R[:size, :size], w, check_finite=False) if size else w,
            intercept=intercept,
            coordinates=np.concatenate([w, intercept[None]]),
            objective=self.objective() if known else nothing,
            n_iter=self.n_iter if known else max(1, self.n_iter),
            converged=known and self.converged,
            optimality=self.optimality if known else nothing,
            jitter=max((factor.jitter for factor in self.factors if factor is not None), default=0.0),
        )

    def state(self) -> dict[str, Any]:
        """Everything that growth has changed, as plain values and arrays; lines of A beyond the basis are left out."""
        return {name: getattr(self, name) for name in _KEPT} | {
            "taken": sorted(self.taken),
            "A": np.ascontiguousarray(self.lines),
            "factors": [None if factor is None else (factor.R, factor.jitter) for factor in self.factors],
            "n_evals": self.columns.n_evals,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Make a machine that has just been made what it was."""
        for name in _KEPT:
            setattr(self, name, state[name])
        if self.live is not None:
            self.y, self.cost = np.take(self.y, self.live, axis=1), np.take(self.cost, self.live, axis=1)
            self.A = np.empty((1, self.A.shape[1], len(self.live)))
            self.blocks = RowBlocks(len(self.live), choose_block_rows(self.A.shape[1]))
            self.columns.narrow(self.live)
        self.taken, self.A[0, : self.width] = set(state["taken"]), state["A"]
        self.factors = [None if known is None else Factor(*known) for known in state["factors"]]
        self.columns.n_evals = state["n_evals"]


#: attributes that a checkpoint keeps as they are
_KEPT = (
    "n_basis", "indices", "live", "R", "H", "theta", "f", "slopes", "curvatures", "scoring", "training", "n_iter",
    "converged", "optimality", "_exact", "_value", "_active",
)  # fmt: skip
