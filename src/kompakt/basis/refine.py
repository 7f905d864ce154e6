"""Refinement: move the basis vectors, and if asked the kernel's widths, to lower the primal objective.

The weights are eliminated (variable projection): at every point they are the exact solution for the current basis, so
by the envelope theorem the gradient with respect to the basis is the partial one.  That reaches a given objective in
a fraction of the time of descending on everything together.  The descent is SciPy's L-BFGS on coordinates in units of
the kernel's own width, first on a sample of the rows that grows, then on all rows the budget allows.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize

from kompakt.checkpoint import CheckpointError, Progress
from kompakt.data import ArrayRows, RowBlock
from kompakt.design import FeatureDesign, choose_block_rows
from kompakt.kernels import RBF, Kernel
from kompakt.linalg import factorise
from kompakt.losses import Loss, PiecewiseLinear
from kompakt.run import NoProgress, Run, Task
from kompakt.solve import Problem, Settings, Solution, solve
from kompakt.solve.kinks import Rounded
from kompakt.solve.problem import block_weights
from kompakt.spec import Spec
from kompakt.validation import require_counts

Array = np.ndarray


@dataclass(frozen=True)
class Refinement:
    """Options of ``refine=True``.

    Parameters
    ----------
    max_iter : int, default=100
        Iterations of the descent at most.

    Examples
    --------
    >>> from kompakt import CompactSVC, Refinement
    >>> CompactSVC(20, refine=Refinement(max_iter=30)).refine.max_iter
    30
    """

    max_iter: int = 100

    def __post_init__(self) -> None:
        require_counts(self, "max_iter")


class Replay:
    """Evaluations of one descent.

    Parameters
    ----------
    place : Progress
        Where they are written; one without a checkpoint keeps nothing.
    objective : object
        Has `carried` (plain values and arrays): what an evaluation leaves behind for the next.
    """

    def __init__(self, place: Progress | NoProgress, objective: Any) -> None:
        self.place, self.objective = place, objective
        self._evaluations: list[dict[str, Any]] = list(place.last or [])
        self._next = 0

    def recall(self, x: Array) -> tuple[float, Array] | None:
        """Value and gradient at `x`, if this evaluation was made before the fit was killed."""
        if self._next >= len(self._evaluations):
            return None
        known = self._evaluations[self._next]
        self._next += 1
        if not np.array_equal(known["x"], x):
            raise CheckpointError(
                f"evaluation {self._next} of the descent is at another point than in the checkpoint: it was written "
                "on another machine or with other library versions. Delete it to start anew."
            )
        self.objective.carried = known["carried"]
        return known["value"], known["gradient"]

    def add(self, x: Array, value: float, gradient: Array) -> None:
        """Write an evaluation down."""
        if not self.place.active:
            return
        self._evaluations.append(
            {"x": x.copy(), "value": value, "gradient": gradient.copy(), "carried": self.objective.carried}
        )
        self._next += 1
        if self.place.due():
            self.place.save(self._evaluations)


logger = logging.getLogger("kompakt")


@dataclass(frozen=True)
class Refined:
    """A refined basis and how the descent went."""

    basis: Array
    kernel: Kernel
    objective_before: float
    objective: float
    n_iter: int
    n_evaluations: int
    n_kernel_evals: int
    trace: list[dict[str, float]] = field(default_factory=list)
    #: weights and intercept on the rows it saw, where Ctrl-C ended the descent: there is no time to solve for better
    interrupted: tuple[Array, Array] | None = None
    #: the same after a descent that ended by itself, for an interrupt that comes a little later
    weights: tuple[Array, Array] | None = None


def require_derivatives(kernel: Kernel) -> None:
    """Refuse a kernel whose vectors cannot be moved."""
    if not kernel.differentiable:
        raise TypeError(f"refinement needs derivatives, which a {kernel.name} kernel does not have; pass refine=False.")


class RefinementObjective:
    """Value and gradient of the eliminated objective J(Z, theta) = min over the weights.

    Parameters
    ----------
    rows : ArrayRows
        With targets and weights.
    spec : Spec
        Kernel to start from, loss, C and intercept.
    learn_width : bool
        Whether the kernel's parameters move too.
    """

    def __init__(self, rows: ArrayRows, spec: Spec, *, learn_width: bool, tol: float = 1e-5):
        require_derivatives(spec.kernel)
        self.rows, self.kernel = rows, spec.kernel
        self.spec = replace(spec, loss=smooth(spec.loss, rows))
        self.learn_width = learn_width
        self.settings = Settings(tol=tol, max_iter=50)
        self.n_evaluations = self.n_kernel_evals = 0
        self._weights: Array | None = None  # of the last point: the start of the next solve
        self._intercept: Array | None = None
        self.best_weights: tuple[Array, Array] | None = None  # of the best point of a descent
        self._K: Array | None = None
        self._Phi: Array | None = None

    @property
    def last_weights(self) -> tuple[Array, Array]:
        """Weights and intercept of the point that was evaluated last."""
        assert self._weights is not None
        assert self._intercept is not None
        return self._weights, self._intercept

    @property
    def carried(self) -> tuple[Any, ...]:
        """What an evaluation leaves behind: the start of the next solve, and the counts."""
        return self._weights, self._intercept, self.n_evaluations, self.n_kernel_evals

    @carried.setter
    def carried(self, values: tuple[Any, ...]) -> None:
        self._weights, self._intercept, self.n_evaluations, self.n_kernel_evals = values

    def solve_weights(self, kernel: Kernel, Z: Array) -> tuple[Solution, Array, Array]:
        """Exact weights for a basis; also returns the stored raw values and the features."""
        rows, m = self.rows, len(Z)
        if self._K is None or self._K.shape[1] != m:
            dtype = np.result_type(rows.dtype, np.float32)
            self._K = np.empty((rows.n_rows, m), dtype=dtype)
            self._Phi = np.empty((rows.n_rows, m), dtype=dtype)
        K, Phi = self._K, self._Phi
        assert Phi is not None
        factor = factorise(kernel.gram(Z), dtype=rows.dtype, what="kernel matrix of the basis")
        inverse = factor.inverse().astype(K.dtype)
        basis = Z.astype(K.dtype)

        def fill(block: RowBlock) -> None:
            part = slice(block.start, block.stop)
            K[part] = kernel.block(block.X, basis)
            np.dot(K[part], inverse, out=Phi[part])

        block_rows = choose_block_rows(max(m, rows.n_features))
        rows.for_each(fill, block_rows)
        self.n_kernel_evals += rows.n_rows * m + m * m
        assert rows.targets is not None
        design = FeatureDesign(Phi, rows.targets, rows.weights, block_rows=choose_block_rows(m))
        start = None
        if self._weights is not None and self._intercept is not None and len(self._weights) == m:
            start = np.concatenate([np.triu(factor.R) @ self._weights, self._intercept[None]])
        solution = solve(Problem.of(design, self.spec), start, self.settings)
        weights = factor.inverse() @ solution.coordinates[:-1]
        solution = replace(solution, weights=weights, jitter=factor.jitter)
        self._weights, self._intercept = weights, solution.intercept
        return solution, K, Phi

    def value_and_gradient(self, kernel: Kernel, Z: Array) -> tuple[float, Array, Array]:
        """J, dJ/dZ (m, d) and dJ/dtheta (p,)."""
        self.n_evaluations += 1
        solution, K, Phi = self.solve_weights(kernel, Z)
        beta, w = solution.weights, solution.coordinates
        loss, C = self.spec.loss, self.spec.C
        small_beta, small_w = beta.astype(K.dtype), w[:-1].astype(K.dtype)
        basis = Z.astype(K.dtype)

        def gradient(block: RowBlock) -> tuple[Array, Array]:
            part = slice(block.start, block.stop)
            y = block.targets
            assert y is not None
            s = block_weights(block.weights, len(block), np.arange(y.shape[1]))
            f = (Phi[part] @ small_w).astype(np.float64) + w[-1]
            slopes = (C * s * loss.gradient(y, f)).astype(K.dtype)
            return kernel.gradients(block.X, basis, K[part], slopes @ small_beta.T)

        d_basis, d_theta = self.rows.map_reduce(gradient, choose_block_rows(max(K.shape[1], Z.shape[1])))
        # 1/2 beta' K_cc beta: each vector is both a row and a column, so twice the gradient with weights beta beta'/2
        Z = Z.astype(np.float64)
        own_basis, own_theta = kernel.gradients(Z, Z, kernel.gram(Z), beta @ beta.T)
        return float(np.sum(solution.objective)), d_basis + own_basis, d_theta + 0.5 * own_theta


def smooth(loss: Loss, rows: ArrayRows) -> Loss:
    """The loss that the descent sees: piecewise linear ones get their kinks rounded over a tenth of their scale.

    The exact solution of a piecewise linear loss jumps from kink to kink as the basis moves; rounded, it moves
    smoothly.  The weights of the final machine are solved with the loss itself.
    """
    if not isinstance(loss, PiecewiseLinear):
        return loss
    assert rows.targets is not None
    spread = 1.0 if loss.for_classes else float(np.std(rows.targets))
    return Rounded(loss, 0.1 * spread if spread > 0 else 0.1)


def refine(
    rows: ArrayRows,
    spec: Spec,
    basis: Array,
    run: Run,
    *,
    learn_width: bool = False,
    max_iter: int = 100,
    sample_rows: int | None = None,
) -> Refined:
    """Descend from a basis; never returns a point with a higher objective on the rows it saw last.

    Large data are first refined on a sample of `sample_rows` rows (None: 20,000, or 40 per vector), then briefly on all
    rows, or on as many as fit the memory budget with their kernel values and features.  In an interruptible run Ctrl-C
    ends the descent, and the best point so far is returned.
    """
    descent = partial(_in_stages, rows, spec, basis, run, learn_width, max_iter, sample_rows)
    return run.step("refinement", descent, Refined, complete=lambda refined: refined.interrupted is None)


def _in_stages(
    rows: ArrayRows,
    spec: Spec,
    basis: Array,
    run: Run,
    learn_width: bool,
    max_iter: int,
    sample_rows: int | None,
) -> Refined:
    trace: list[dict[str, float]] = []
    m = max(1, len(basis))
    itemsize = np.result_type(rows.dtype, np.float32).itemsize
    fitting = max(1000, run.budget // (2 * m * itemsize))
    first_rows = min(fitting, sample_rows or max(20_000, 40 * m))
    sizes = [(min(rows.n_rows, fitting), max_iter)]
    if sizes[0][0] > 1.5 * first_rows:
        sizes = [(first_rows, max_iter), (sizes[0][0], min(max_iter, max(10, max_iter // 5)))]
    plan = [(*_subset(rows, spec, count), budget) for count, budget in sizes]
    kernel = spec.kernel
    first: float | None = None
    last = np.nan
    n_iter = n_evaluations = n_kernel_evals = 0
    kept: tuple[Array, Array] | None = None
    work = float(sum(part.n_rows * budget for part, _, budget in plan))
    with run.task("refinement", sum(budget for _, _, budget in plan), work=work) as step:
        for part, part_spec, budget in plan:
            objective = RefinementObjective(part, replace(part_spec, kernel=kernel), learn_width=learn_width)
            stage = run.step(
                "descent",
                lambda: (*descend(objective, kernel, basis, budget, run, trace, step), objective.carried[2:]),  # noqa: B023
                complete=lambda stage: stage[4] is None,
            )
            kernel, basis, values, steps, kept, (evaluations, kernel_evals) = stage
            first = values[0] if first is None else first
            last = values[-1]
            n_iter += steps
            n_evaluations += evaluations
            n_kernel_evals += kernel_evals
            if kept is not None:
                break
    assert first is not None
    weights = objective.best_weights
    return Refined(basis, kernel, first, last, n_iter, n_evaluations, n_kernel_evals, trace, kept, weights)


def _subset(rows: ArrayRows, spec: Spec, count: int) -> tuple[ArrayRows, Spec]:
    """Random rows, and the objective in which their losses stand for those of all rows."""
    if count >= rows.n_rows:
        return rows, spec
    index = np.sort(np.random.default_rng(0).permutation(rows.n_rows)[:count])
    return rows.subset(index), replace(spec, C=spec.C * rows.n_rows / count)


def descend(
    objective: RefinementObjective,
    kernel: Kernel,
    basis: Array,
    max_iter: int,
    run: Run,
    trace: list[dict[str, float]],
    step: Task,
) -> tuple[Kernel, Array, list[float], int, tuple[Array, Array] | None]:
    """L-BFGS from a basis; coordinates are in units of the kernel's width, so all of them are of one size."""
    shape = basis.shape
    unit = _unit(kernel, shape[1], basis)
    theta = kernel.theta if objective.learn_width else np.empty(0)
    best: dict[str, Any] = {"value": np.inf, "x": None, "weights": None}
    values: list[float] = []
    replay = Replay(run.progress("evaluations"), objective)

    def split(x: Array) -> tuple[Kernel, Array]:
        Z = x[: basis.size].reshape(shape) * unit
        return (kernel.with_theta(x[basis.size :]) if objective.learn_width else kernel), Z

    def function(x: Array) -> tuple[float, Array]:
        if values and run.late:
            raise _OutOfTime
        if not np.all(np.isfinite(x)):  # squares of a huge gradient
            raise _Overflow
        known = replay.recall(x)
        if known is None:
            value, d_basis, d_theta = objective.value_and_gradient(*split(x))
            gradient = (d_basis * unit).ravel()
            known = value, np.concatenate([gradient, d_theta]) if objective.learn_width else gradient
            replay.add(x, *known)
        value = known[0]
        values.append(value)
        if not np.isfinite(value) or not np.all(np.isfinite(known[1])):
            raise _Overflow
        if value < best["value"]:
            # in one call, so that an interrupt finds a point and weights that belong together
            best.update({"value": value, "x": x.copy(), "weights": getattr(objective, "last_weights", None)})
        trace.append({"objective": value, "time": time.monotonic()})
        return known

    start = np.concatenate([(basis.astype(np.float64) / unit).ravel(), theta])
    steps = 0
    kept: tuple[Array, Array] | None = None

    def count(_: Array) -> None:
        if step(float(objective.rows.n_rows)):
            raise _OutOfTime  # a callback of the user asks to stop

    try:
        result = minimize(
            function,
            start,
            jac=True,
            method="L-BFGS-B",
            # the centres are free; a width may change a thousandfold, no more: beyond, it is a constant or a spike
            bounds=[(None, None)] * basis.size + [(t - 7.0, t + 7.0) for t in theta],
            options={"maxiter": max_iter, "maxcor": 20, "ftol": 1e-9},
            callback=count,
        )
        steps = int(result.nit)
    except (_OutOfTime, _Overflow):
        steps = len(values)
    except KeyboardInterrupt:
        if best["x"] is None or not run.keeps_on_interrupt():
            raise
        steps, kept = len(values), best["weights"]
    new_kernel, Z = split(start if best["x"] is None else best["x"])
    objective.best_weights = best["weights"]
    return new_kernel, Z, [values[0], best["value"]], steps, kept


class _OutOfTime(Exception):
    """Raised inside the descent when the deadline has passed."""


class _Overflow(Exception):
    """Raised inside the descent where the objective leaves the range of its type: the best point so far is kept."""


def _unit(kernel: Kernel, n_features: int, basis: Array) -> Array:
    """The natural length of every coordinate: the kernel's width, or the spread of the basis."""
    if isinstance(kernel, RBF):
        return np.broadcast_to(1.0 / np.sqrt(2.0 * np.maximum(kernel.gamma, 1e-300)), (n_features,)).astype(np.float64)
    spread = float(np.sqrt(np.mean(np.square(basis.astype(np.float64)))))
    return np.full(n_features, spread if spread > 0 else 1.0)
