"""Refinement: move the basis vectors, and if asked the kernel's widths, to lower the primal objective.

The weights are eliminated (variable projection): at every point they are the exact solution for the current basis, so
by the envelope theorem the gradient with respect to the basis is the partial one.  That reaches a given objective in
a fraction of the time of descending on everything together.  The descent is SciPy's L-BFGS on coordinates in units of
the kernel's own width and of what a move changes, first on a sample of the rows that grows, then on all rows the budget
allows.  A `Watch` looks at held-out rows after every iteration, since the weights are at hand, and says which point was
the best there.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize

from kompakt.checkpoint import CheckpointError, Progress
from kompakt.data import ArrayRows, RowBlock
from kompakt.data.rows import blocks
from kompakt.design import FeatureDesign, choose_block_rows
from kompakt.heldout import Scorer, require_counts
from kompakt.kernels import RBF, Kernel, MappedRBF
from kompakt.linalg import Factor, factorise, multiply_upper
from kompakt.losses import Loss
from kompakt.run import NoProgress, Run, Task
from kompakt.solve import Problem, Settings, Solution, solve
from kompakt.solve.dense import is_small
from kompakt.solve.problem import block_weights
from kompakt.spec import Spec

Array = np.ndarray


@dataclass(frozen=True)
class Refinement:
    """Options of ``refine=True``.

    Parameters
    ----------
    max_iter : int, default=None
        Iterations of the descent at most.  None takes 100, or 200 for 3,000 to 20,000 rows, where the loss of held-out
        rows says soon enough when to stop.
    rank : int or "auto", default=None
        Rows of the linear map that ``gamma="full"`` learns; None takes as many as there are features.  "auto" learns
        these and then leaves out directions of the mapped inputs, as many as held-out rows do not miss, which makes
        the model smaller and faster.

    Examples
    --------
    >>> from kompakt import CompactSVC, Refinement
    >>> CompactSVC(20, refine=Refinement(max_iter=30)).refine.max_iter
    30
    """

    max_iter: int | None = None
    rank: int | str | None = None

    def __post_init__(self) -> None:
        require_counts(self, "max_iter")
        if isinstance(self.rank, str):
            if self.rank != "auto":
                raise ValueError(f"rank must be None, 'auto' or a whole number of at least 1; got {self.rank!r}.")
        else:
            require_counts(self, "rank")


class Replay:
    """Evaluations of one descent.

    Parameters
    ----------
    place : Progress
        Where they are written; one without a checkpoint keeps nothing.
    objective : Objective
    """

    def __init__(self, place: Progress | NoProgress, objective: Objective) -> None:
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
    #: what the watch saw
    seen: list[dict[str, Any]] = field(default_factory=list)

    def after(self, before: Refined | None) -> Refined:
        """Two descents, one after the other, as one."""
        if before is None:
            return self
        return replace(
            self,
            objective_before=before.objective_before,
            n_iter=before.n_iter + self.n_iter,
            n_evaluations=before.n_evaluations + self.n_evaluations,
            n_kernel_evals=before.n_kernel_evals + self.n_kernel_evals,
            trace=before.trace + self.trace,
            seen=before.seen + self.seen,
        )


class Watch:
    """The mean loss of held-out rows along a descent, from its start on.

    Parameters
    ----------
    rows : ArrayRows
        Held-out rows, in the coordinates of the descent.
    scorer : Scorer
        Measures their loss.
    patience : int
        A descent ends when the last half of its iterations, and at least so many, have lowered the loss by less than a
        hundredth.
    others : list of list of float, optional
        Losses along the descents of other folds.  Then the mean of all folds is looked at, a descent ends so many
        iterations after twice those that the lowest mean took, and every point is kept, not only the best one.
    """

    def __init__(
        self, rows: ArrayRows, scorer: Scorer, *, patience: int, others: list[list[float]] | None = None
    ) -> None:
        self.rows, self.scorer, self.patience, self.others = rows, scorer, patience, others

    def look(self, seen: list[dict[str, Any]], kernel: Kernel, Z: Array, weights: tuple[Array, Array]) -> bool:
        """Add the loss, outputs and point to `seen`; returns whether the descent should end."""
        X = self.rows.block(0, self.rows.n_rows).X  # at most some thousand rows
        values = kernel.block(X, Z.astype(np.result_type(self.rows.dtype, np.float32)))
        outputs = (values @ weights[0].astype(values.dtype)).astype(np.float64) + weights[1]
        loss = float(self.scorer.mean(self.scorer.row_losses(outputs)))
        loss = loss if np.isfinite(loss) else np.inf
        best = best_seen(seen)
        better = not seen or loss < seen[best]["loss"]
        if self.others is None and better and seen:
            seen[best] = {"loss": seen[best]["loss"]}  # its arrays are not needed any more
        seen.append({"loss": loss})
        if self.others is not None or better:
            # numbers may be large, or far from zero
            kept = outputs if self.scorer.labels is None else outputs.astype(np.float32)
            seen[-1] |= {"kernel": kernel, "basis": Z, "weights": weights, "outputs": kept}
        if self.others is not None:
            best = int(np.argmin(mean_curve([*self.others, [point["loss"] for point in seen]])[: len(seen)]))
            return len(seen) - 1 - best >= self.patience + best
        before = seen[: -max(self.patience, (len(seen) - 1) // 2)]
        return bool(before) and seen[best_seen(seen)]["loss"] > 0.99 * before[best_seen(before)]["loss"]


def best_seen(seen: list[dict[str, Any]]) -> int:
    """The number of the point with the lowest loss, the first of equals; 0 where nothing was seen."""
    return int(np.argmin([point["loss"] for point in seen])) if seen else 0


def mean_curve(curves: list[list[float]], weights: list[int] | None = None) -> Array:
    """The mean of losses along several descents; one that ended early stays where it ended."""
    length = max(map(len, curves))
    return np.average([own + [own[-1]] * (length - len(own)) for own in curves], axis=0, weights=weights)


def require_derivatives(kernel: Kernel) -> None:
    """Refuse a kernel whose vectors cannot be moved."""
    if not kernel.differentiable:
        raise TypeError(f"refinement needs derivatives, which a {kernel.name} kernel does not have; pass refine=False.")


class Objective(ABC):
    """What a descent lowers; as it stands here, one that leaves nothing behind from point to point."""

    rows: ArrayRows
    learn_width: bool = False
    n_evaluations: int = 0
    n_kernel_evals: int = 0

    @abstractmethod
    def value_and_gradient(self, kernel: Kernel, Z: Array) -> tuple[float, Array, Array]:
        """The value, and its derivatives with respect to the basis (m, d) and the kernel's parameters (p,)."""

    def lengths(self, kernel: Kernel, Z: Array) -> tuple[Array, float]:
        """How long a step of every vector (m,) and of a parameter of the kernel should be, beside one another."""
        return np.ones(len(Z)), 1.0

    @property
    def last_weights(self) -> tuple[Array, Array] | None:
        """Weights and intercept of the point that was evaluated last."""
        return None

    @property
    def carried(self) -> tuple[Any, ...]:
        """Plain values and arrays that an evaluation leaves behind for the next."""
        return ()

    @carried.setter  # noqa: B027
    def carried(self, values: tuple[Any, ...]) -> None:
        pass


#: a vector that a line search puts so many natural lengths away, or so many times as far as the first ones, is lost
_FARTHEST = 1e10
#: rows from which steps of all vectors are alike
_MANY_ROWS = 2500


#: rows of the last iterations of least squares, in those of the first: more of them lowered no test error
_LAST_ROWS = 3


class RefinementObjective(Objective):
    """Value and gradient of the eliminated objective J(Z, theta) = min over the weights.

    A square map also pays for its entries beside the diagonal (`_decay`).

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
        assert rows.targets is not None
        # margins need no more digits than the features have; residuals of regression do
        classes = self.spec.loss.for_classes and not self.spec.loss.for_regression
        self._margins = np.result_type(rows.dtype, np.float32) if classes else np.dtype(np.float64)
        self._targets = rows.targets.astype(self._margins, copy=False)
        self.n_evaluations = self.n_kernel_evals = 0
        self._weights: Array | None = None  # of the last point: the start of the next solve
        self._intercept: Array | None = None
        self._last: tuple[Kernel, Array, Array] | None = None  # that point itself, and its coordinates
        self._outputs: Array | None = None  # and its outputs on the rows
        self._K: Array | None = None
        self._Phi: Array | None = None
        self._decay = _decay(self.kernel, rows) if learn_width else None
        self._level: float | None = None  # of the objective per row, at the first point

    @property
    def last_weights(self) -> tuple[Array, Array]:
        assert self._weights is not None
        assert self._intercept is not None
        return self._weights, self._intercept

    @property
    def carried(self) -> tuple[Any, ...]:
        """What an evaluation leaves behind: the start of the next solve, and the counts."""
        return self._weights, self._intercept, self.n_evaluations, self.n_kernel_evals, self._last, self._level

    @carried.setter
    def carried(self, values: tuple[Any, ...]) -> None:
        self._weights, self._intercept, self.n_evaluations, self.n_kernel_evals, self._last, self._level = values
        self._outputs = None

    def compute(self, kernel: Kernel, Z: Array) -> tuple[Array, Array, Array, Factor, Array]:
        """Kernel matrix of a basis; on the rows, its values and features (in arrays kept for them); factor, inverse."""
        rows, m = self.rows, len(Z)
        if self._outputs is None and self._last is not None:  # after a checkpoint, which does not hold them
            last, self._last = self._last, None
            features = self.compute(*last[:2])[2]
            for block in blocks(rows, choose_block_rows(max(last[1].shape)), (0, rows.n_rows)):
                self._outputs_of(features, last[2], block)
            self.n_kernel_evals -= rows.n_rows * m + m * m
        if self._K is None or self._K.shape[1] != m:
            dtype = np.result_type(rows.dtype, np.float32)
            self._K = np.empty((rows.n_rows, m), dtype=dtype)
            self._Phi = np.empty((rows.n_rows, m), dtype=dtype)
        K, Phi = self._K, self._Phi
        assert Phi is not None
        gram = kernel.gram(Z)
        factor = factorise(gram, dtype=rows.dtype, what="kernel matrix of the basis")
        inverse = factor.inverse()
        basis, whiten = Z.astype(K.dtype), inverse.astype(K.dtype)

        def fill(block: RowBlock) -> None:
            part = slice(block.start, block.stop)
            K[part] = kernel.block(block.X, basis)
            multiply_upper(K[part], whiten, out=Phi[part])

        rows.for_each(fill, choose_block_rows(max(m, rows.n_features), rows.n_rows))
        self.n_kernel_evals += rows.n_rows * m + m * m
        return gram, K, Phi, factor, inverse

    def _outputs_of(self, Phi: Array, w: Array, block: RowBlock) -> Array:
        """Outputs of a block, kept for the next solve."""
        part = slice(block.start, block.stop)
        if self._outputs is None:
            self._outputs = np.empty((self.rows.n_rows, w.shape[1]), dtype=self._margins)
        f: Array = (Phi[part] @ w[:-1].astype(Phi.dtype)).astype(self._margins, copy=False)
        f += w[-1].astype(self._margins)
        self._outputs[part] = f
        return f

    def solve_weights(self, Phi: Array, factor: Factor, inverse: Array) -> Solution:
        """Exact weights of a basis from its features on the rows and the factor of its kernel matrix."""
        m = Phi.shape[1]
        design = FeatureDesign(Phi, self._targets, self.rows.weights, block_rows=choose_block_rows(m, len(Phi)))
        problem, start, outputs = Problem.of(design, self.spec), None, self._outputs
        if self._outputs is None and self._weights is not None and len(self._weights) == m:
            assert self._intercept is not None
            start = np.concatenate([np.triu(factor.R) @ self._weights, self._intercept[None]])
        elif outputs is None and is_small(problem):
            outputs = np.zeros(self._targets.shape, dtype=self._margins)
        solution = solve(problem, start, self.settings, outputs)
        weights = inverse @ solution.coordinates[:-1]
        self._weights, self._intercept = weights, solution.intercept
        return replace(solution, weights=weights, jitter=factor.jitter)

    def lengths(self, kernel: Kernel, Z: Array) -> tuple[Array, float]:
        """Steps that change the outputs alike.

        What a move of vector j changes in the outputs grows with its weights and its share of the rows, |beta_j|^2
        sum_i k_ij^2; that sum over all vectors bounds what the kernel's parameters change.  A vector with large weights
        (often one of two near each other, whose weights cancel) has a large gradient, and would hold up all others.
        Curvature asks for the power -1/2; it is measured at the start only, and -1/4 was the better choice there.  In
        regression on fewer rows than the vectors have coordinates the vectors' steps are shorter: they would follow the
        noise before the widths are learned.  On many rows descents that are alike in all vectors ended lower.
        """
        if self.rows.n_rows >= _MANY_ROWS:
            return super().lengths(kernel, Z)
        _, K, Phi, factor, inverse = self.compute(kernel, Z)
        solution = self.solve_weights(Phi, factor, inverse)
        for block in blocks(self.rows, choose_block_rows(max(Z.shape)), (0, self.rows.n_rows)):
            self._outputs_of(Phi, solution.coordinates, block)  # the descent begins at this point
        change = np.sum(solution.weights**2, axis=1) * np.einsum("ij,ij->j", K, K, dtype=np.float64)
        outputs = np.dot(K, solution.weights.astype(K.dtype)).astype(np.float64)
        of_theta = float(np.vdot(outputs, outputs)) / np.size(getattr(kernel, "gamma", 1.0))
        middle = float(np.median(change))
        if not (0 < middle < np.inf and np.isfinite(of_theta) and np.all(np.isfinite(change))):
            return np.ones(len(Z)), 1.0
        # residuals are large where noise is: vectors with fewer rows than coordinates wait for the kernel's parameters
        held = min(1.0, self.rows.n_rows / Z.size) ** 2 if self.spec.loss.for_regression else 1.0
        return held * (change / middle + 1e-3) ** -0.25, (of_theta / middle + 1e-3) ** -0.25

    def value_and_gradient(self, kernel: Kernel, Z: Array) -> tuple[float, Array, Array]:
        """J, dJ/dZ (m, d) and dJ/dtheta (p,)."""
        self.n_evaluations += 1
        gram, K, Phi, factor, inverse = self.compute(kernel, Z)
        solution = self.solve_weights(Phi, factor, inverse)
        beta, w = solution.weights, solution.coordinates
        loss, C = self.spec.loss, self.spec.C
        small_beta, basis = beta.astype(K.dtype), Z.astype(K.dtype)
        if self._outputs is None:
            self._outputs = np.empty((self.rows.n_rows, w.shape[1]), dtype=self._margins)

        def gradient(block: RowBlock) -> tuple[Array, Array]:
            part = slice(block.start, block.stop)
            slopes = loss.gradient(self._targets[part], self._outputs_of(Phi, w, block))
            if block.weights is not None:
                slopes = slopes * block_weights(block.weights, len(block), np.arange(slopes.shape[1]))
            slopes = (C * slopes).astype(K.dtype, copy=False)
            return kernel.output_gradients(block.X, basis, K[part], slopes, small_beta)

        d_basis, d_theta = self.rows.map_reduce(gradient, choose_block_rows(max(K.shape[1], Z.shape[1]), len(K)))
        self._last = (kernel, Z, w)
        # 1/2 beta' K_cc beta: each vector is both a row and a column, so twice the gradient with weights beta beta'/2
        Z = Z.astype(np.float64)
        own_basis, own_theta = kernel.gram_gradients(Z, gram, beta @ beta.T)
        value, d_theta = float(np.sum(solution.objective)), d_theta + 0.5 * own_theta
        if self._decay is not None:
            if self._level is None:
                self._level = value * max(1, self.rows.weight_columns) / self.rows.mass
            penalty = self._level * self._decay * kernel.theta
            value, d_theta = value + 0.5 * float(penalty @ kernel.theta), d_theta + penalty
        return value, d_basis + own_basis, d_theta


def smooth(loss: Loss, rows: ArrayRows) -> Loss:
    """The loss that the descent sees: piecewise linear ones get their kinks rounded over a tenth of their scale.

    The exact solution of a piecewise linear loss jumps from kink to kink as the basis moves; rounded, it moves
    smoothly.  The weights of the final machine are solved with the loss itself.
    """
    assert rows.targets is not None
    spread = 1.0 if loss.for_classes else float(np.std(rows.targets))
    return loss.rounded(0.1 * spread if spread > 0 else 0.1)


def refine(
    rows: ArrayRows,
    spec: Spec,
    basis: Array,
    run: Run,
    *,
    learn: str | None = None,
    rank: int | None = None,
    like: ArrayRows | None = None,
    max_iter: int = 100,
    sample_rows: int | None = None,
    watch: Watch | None = None,
) -> Refined:
    """Descend from a basis; never returns a point with a higher objective on the rows it saw last.

    With a `watch` it returns the point with the lowest loss on the held-out rows instead.

    What of the kernel is learned, and the rank of its map, are those of `with_metric`, where the principal directions
    are those of the rows `like` (None: the rows themselves); None keeps the kernel as it is.

    Large data are first refined on a sample of `sample_rows` rows (None: 20,000, or 40 per vector), then briefly on all
    rows, or on as many as fit the memory budget with their kernel values and features; for least squares, on three
    times the sample.  In an interruptible run Ctrl-C ends the descent, and the best point so far is returned.
    """
    m = max(1, len(basis))
    itemsize = np.result_type(rows.dtype, np.float32).itemsize
    fitting = max(1000, run.budget // (2 * m * itemsize))
    first_rows, fewer = max(20_000, 40 * m), max(10, max_iter // 5)
    if spec.loss.quadratic:
        # every row bears on a curve, only those near it on a boundary: fewer rows tell the way
        first_rows, fewer = min(first_rows, max(10_000, 10 * np.size(basis))), max(5, max_iter // 10)
    first_rows = min(fitting, sample_rows or first_rows)
    sizes = [(min(rows.n_rows, fitting), max_iter)]
    if sizes[0][0] > 1.5 * first_rows:
        last_rows = sizes[0][0]
        if spec.loss.quadratic:
            last_rows = min(last_rows, _LAST_ROWS * first_rows)
        sizes = [(first_rows, max_iter), (last_rows, min(max_iter, fewer))]
    plan = [(*subset(rows, spec, count), budget) for count, budget in sizes]
    kernel, total = with_metric(spec.kernel, learn, rows if like is None else like, rank), None
    work = float(sum(part.n_rows * budget for part, _, budget in plan))
    with run.task("refinement", sum(budget for _, _, budget in plan), work=work) as step:
        for part, part_spec, budget in plan:
            objective = RefinementObjective(part, replace(part_spec, kernel=kernel), learn_width=learn is not None)
            descent = partial(descend, objective, kernel, basis, budget, run, step, watch)
            found = run.step("descent", descent, Refined, complete=lambda found: found.interrupted is None)
            kernel, basis, total = found.kernel, found.basis, found.after(total)
            if found.interrupted is not None:
                break
            if total.seen:  # the next stage begins where this one was best
                best = total.seen[best_seen(total.seen)]
                kernel, basis = best["kernel"], best["basis"]
                total = replace(total, kernel=kernel, basis=basis, weights=best["weights"])
    assert total is not None
    if watch is not None and not total.seen:  # not even the start could be evaluated
        assert watch.rows.targets is not None
        nothing = {"loss": np.inf, "kernel": kernel, "basis": basis, "outputs": np.zeros(watch.rows.targets.shape)}
        total = replace(total, seen=[nothing])
    return total


def subset(rows: ArrayRows, spec: Spec, count: int) -> tuple[ArrayRows, Spec]:
    """Random rows, and the objective in which their losses stand for those of all rows."""
    if count >= rows.n_rows:
        return rows, spec
    index = np.sort(np.random.default_rng(0).permutation(rows.n_rows)[:count])
    return rows.subset(index), replace(spec, C=spec.C * rows.n_rows / count)


def descend(
    objective: Objective,
    kernel: Kernel,
    basis: Array,
    max_iter: int,
    run: Run,
    step: Task,
    watch: Watch | None = None,
) -> Refined:
    """L-BFGS from a basis; coordinates are in units in which steps of one size change about as much.

    The watch sees the start and every iteration.
    """
    shape = basis.shape
    unit = _unit(kernel, shape[1], basis)
    theta = kernel.theta if objective.learn_width else np.empty(0)
    theta_unit = np.ones(len(theta))
    room = 7.0 * theta_unit  # a width may change a thousandfold, no more: beyond, it is a constant or a spike
    if len(theta) and isinstance(kernel, MappedRBF):
        theta_unit = _map_unit(kernel, objective.rows)
        room = 33.0 * theta_unit  # whose square is about as much
    of_vectors, of_theta = objective.lengths(kernel, basis.astype(np.float64))
    unit, theta_unit = unit * of_vectors[:, None], theta_unit * of_theta
    theta, room = theta / theta_unit, room / theta_unit
    best: dict[str, Any] = {"value": np.inf, "x": None, "weights": None}
    values: list[float] = []
    trace: list[dict[str, float]] = []
    seen: list[dict[str, Any]] = []
    replay = Replay(run.progress("evaluations"), objective)
    since: list[tuple[Array, tuple[Array, Array]]] = []  # points and weights since the last iteration

    def look(x: Array) -> bool:
        """Show the watch a point that was evaluated in this iteration."""
        assert watch is not None
        weights = [weights for point, weights in since if np.array_equal(point, x)]
        since.clear()
        return bool(weights) and watch.look(seen, *split(x), weights[-1])

    def split(x: Array) -> tuple[Kernel, Array]:
        Z = x[: basis.size].reshape(shape) * unit
        if not objective.learn_width:
            return kernel, Z
        return kernel.with_theta((theta + room * np.tanh(x[basis.size :] / room)) * theta_unit), Z

    def function(x: Array) -> tuple[float, Array]:
        if values and run.late:
            raise _OutOfTime
        if not (np.all(np.isfinite(x)) and np.max(np.abs(x[: basis.size]), initial=0.0) < farthest):
            raise _Overflow  # squares of a huge gradient, or of a distance
        known = replay.recall(x)
        if known is None:
            try:
                with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is looked for below
                    value, d_basis, d_theta = objective.value_and_gradient(*split(x))
            except np.linalg.LinAlgError:  # a step so long that the weights cannot be found
                raise _Overflow from None
            gradient = (d_basis * unit).ravel()
            if objective.learn_width:
                d_theta = d_theta * theta_unit * (1.0 - np.tanh(x[basis.size :] / room) ** 2)
                gradient = np.concatenate([gradient, d_theta])
            known = value, gradient
            replay.add(x, *known)
        value = known[0]
        values.append(value)
        if not np.isfinite(value) or not np.all(np.isfinite(known[1])):
            raise _Overflow
        if value < best["value"]:
            # in one call, so that an interrupt finds a point and weights that belong together
            best.update({"value": value, "x": x.copy(), "weights": objective.last_weights})
        trace.append({"objective": value, "time": time.monotonic()})
        if watch is not None:
            assert objective.last_weights is not None
            since.append((x.copy(), objective.last_weights))
            if len(values) == 1:
                look(x)
        return known

    start = np.concatenate([(basis.astype(np.float64) / unit).ravel(), np.zeros(len(theta))])
    farthest = _FARTHEST * max(1.0, float(np.max(np.abs(start), initial=0.0)))
    steps = 0
    kept: tuple[Array, Array] | None = None

    def count(x: Array) -> None:
        nonlocal steps
        steps += 1
        if watch is not None and look(x):
            raise _WatchStops
        if step(float(objective.rows.n_rows)):
            raise _OutOfTime  # a callback of the user asks to stop

    try:
        # without bounds, which would take longer than the functions of small problems
        options = {"maxiter": max_iter, "maxcor": 20, "ftol": 1e-9}
        steps = int(minimize(function, start, jac=True, method="L-BFGS-B", options=options, callback=count).nit)
    except _WatchStops:
        pass
    except (_OutOfTime, _Overflow):
        steps = len(values)
    except KeyboardInterrupt:
        if best["x"] is None or not run.keeps_on_interrupt():
            raise
        steps, kept = len(values), best["weights"]
    new_kernel, Z = split(start if best["x"] is None else best["x"])
    return Refined(
        Z,
        new_kernel,
        objective_before=values[0],
        objective=best["value"],
        n_iter=steps,
        n_evaluations=objective.n_evaluations,
        n_kernel_evals=objective.n_kernel_evals,
        trace=trace,
        interrupted=kept,
        weights=best["weights"],
        seen=seen,
    )


class _WatchStops(Exception):
    """Raised inside the descent when held-out rows have seen no better point for long."""


class _OutOfTime(Exception):
    """Raised inside the descent when the deadline has passed."""


class _Overflow(Exception):
    """Raised inside the descent where the objective leaves the range of its type: the best point so far is kept."""


def _unit(kernel: Kernel, n_features: int, basis: Array) -> Array:
    """The natural length of every coordinate: the kernel's width, or the spread of the basis."""
    if isinstance(kernel, RBF | MappedRBF):
        return np.broadcast_to(1.0 / np.sqrt(2.0 * np.maximum(kernel.gamma, 1e-300)), (n_features,)).astype(np.float64)
    spread = float(np.sqrt(np.mean(np.square(basis.astype(np.float64)))))
    return np.full(n_features, spread if spread > 0 else 1.0)


def _map_unit(kernel: MappedRBF, rows: ArrayRows) -> Array:
    """The natural size of every entry of the map: what gives each feature an equal share in the distances of rows."""
    X = rows.X
    if rows.is_sparse:
        squares, mean = np.asarray(X.multiply(X).mean(axis=0)).ravel(), np.asarray(X.mean(axis=0)).ravel()
        variance = np.maximum(squares - mean**2, 0.0)
    else:
        variance = np.var(X, axis=0, dtype=np.float64)
    share = float(np.mean(kernel.gamma * variance))
    if not share > 0:
        return np.ones(kernel.map.size)
    unit = np.sqrt(share / np.where(variance > 0, variance, np.max(variance)))
    return np.tile(unit, kernel.rank)


def _decay(kernel: Kernel, rows: ArrayRows) -> Array | None:
    """How strongly every entry of a square map beside its diagonal is drawn to zero, in objectives per row.

    That is a normal prior: with a d-th of the square of their unit as the variance of the entries, those of a row are
    together as large as the one on the diagonal.  A map that the rows do not speak for stays one width per feature.
    """
    if not isinstance(kernel, MappedRBF) or kernel.rank != kernel.map.shape[1]:
        return None
    beside = (1.0 - np.eye(kernel.rank)).ravel()
    return np.asarray(beside * kernel.rank / _map_unit(kernel, rows) ** 2)


def with_metric(kernel: Kernel, learn: str | None, rows: ArrayRows, rank: int | None = None) -> Kernel:
    """The kernel with what is to be learned: one width, one per feature ("each"), or a map ("full").

    A map of lower rank begins with the leading principal directions of the rows as the kernel scales them.
    """
    if not isinstance(kernel, RBF) or learn not in ("each", "full"):
        return kernel
    gamma = np.broadcast_to(np.asarray(kernel.gamma, dtype=np.float64), (rows.n_features,))
    if learn == "each":
        return kernel if isinstance(kernel.gamma, np.ndarray) else RBF(gamma.copy())
    root = np.sqrt(gamma)
    if rank is None or rank >= rows.n_features:
        return MappedRBF(np.diag(root))
    return MappedRBF(principal_map(kernel, rows)[1][:rank])


def principal_map(kernel: RBF, rows: ArrayRows) -> tuple[Array, Array]:
    """Variances (d,), the largest first, and directions (d, d) of the rows as the kernel scales them.

    A row of the second gives a coordinate of the inputs; all of them together give the kernel's distances.
    """
    root = np.sqrt(np.broadcast_to(np.asarray(kernel.gamma, dtype=np.float64), (rows.n_features,)))
    X = rows.take(np.linspace(0, rows.n_rows - 1, min(rows.n_rows, 5000)).astype(np.intp))
    X = (X.toarray() if rows.is_sparse else X).astype(np.float64) * root
    variances, directions = np.linalg.eigh(np.cov(X, rowvar=False))
    return np.maximum(variances[::-1], 0.0), directions[:, ::-1].T * root
