"""Refinement: move the basis vectors, and if asked the kernel's widths, to lower the primal objective.

The weights are eliminated (variable projection): at every point they are the exact solution for the current basis, so
by the envelope theorem the gradient with respect to the basis is the partial one.  That reaches a given objective in
a fraction of the time of descending on everything together.  A `Descent` is L-BFGS on coordinates in units of the
kernel's own width and of what a move changes; it can be paused, and the race (`basis/race.py`) runs several of them.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kompakt.checkpoint import CheckpointError, Progress
from kompakt.data import ArrayRows, RowBlock
from kompakt.data.rows import blocks
from kompakt.design import FeatureDesign, choose_block_rows
from kompakt.heldout import require_counts
from kompakt.kernels import RBF, BentRBF, Kernel, MappedRBF
from kompakt.linalg import Factor, factorise, multiply_upper
from kompakt.losses import Loss
from kompakt.piecewise import PiecewiseLinear
from kompakt.run import NoProgress, Run, Task
from kompakt.solve import Problem, Settings, Solution, solve
from kompakt.solve.dense import is_small
from kompakt.solve.lbfgs import LBFGS
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
    transform : {"learn", "identity"}, default=None
        Whether a piecewise-linear transform of every feature is learned before the kernel sees it; dense rows and
        kernel="rbf" only.  None lets held-out rows say, where gamma=None leaves the metric to them too.

    Examples
    --------
    >>> from kompakt import CompactSVC, Refinement
    >>> CompactSVC(20, refine=Refinement(max_iter=30)).refine.max_iter
    30
    """

    max_iter: int | None = None
    rank: int | str | None = None
    transform: str | None = None

    def __post_init__(self) -> None:
        require_counts(self, "max_iter")
        if self.transform not in (None, "learn", "identity"):
            raise ValueError(f"transform must be None, 'learn' or 'identity'; got {self.transform!r}.")
        if isinstance(self.rank, str):
            if self.rank != "auto":
                raise ValueError(f"rank must be None, 'auto' or a whole number of at least 1; got {self.rank!r}.")
        else:
            require_counts(self, "rank")


class Replay:
    """Evaluations of one or several descents, in their order.

    Parameters
    ----------
    place : Progress
        Where they are written; one without a checkpoint keeps nothing.
    """

    def __init__(self, place: Progress | NoProgress) -> None:
        self.place = place
        self._evaluations: list[dict[str, Any]] = list(place.last or [])
        self._next = 0

    def recall(self, x: Array) -> dict[str, Any] | None:
        """Value, gradient and what the evaluation at `x` left behind, if it was made before the fit was killed."""
        if self._next >= len(self._evaluations):
            return None
        evaluation = self._evaluations[self._next]
        self._next += 1
        if evaluation["x"] != hashlib.sha256(x.tobytes()).hexdigest():
            raise CheckpointError(
                f"evaluation {self._next} of the descent is at another point than in the checkpoint: it was written "
                "on another machine or with other library versions. Delete it to start anew."
            )
        return evaluation

    def add(self, x: Array, value: float, gradient: Array, carried: tuple[Any, ...]) -> None:
        """Write an evaluation down."""
        if not self.place.active:
            return
        at = hashlib.sha256(x.tobytes()).hexdigest()
        self._evaluations.append({"x": at, "value": value, "gradient": gradient.copy(), "carried": carried})
        self._next += 1
        if self.place.due():
            self.place.save(self._evaluations)


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

    def carry(self, values: tuple[Any, ...], kernel: Kernel, Z: Array) -> None:  # noqa: B027
        """Be as after the evaluation of this point, which left these values behind."""


#: a vector that a line search puts so many natural lengths away, or so many times as far as the first ones, is lost
_FARTHEST = 1e10
#: rows from which steps of all vectors are alike
_MANY_ROWS = 2500


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
        self._bent: Array | None = None  # features of a transform, (d, n)
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
        coordinates = None if self._last is None else self._last[2]
        return self._weights, self._intercept, self.n_evaluations, self.n_kernel_evals, coordinates, self._level

    def carry(self, values: tuple[Any, ...], kernel: Kernel, Z: Array) -> None:
        self._weights, self._intercept, self.n_evaluations, self.n_kernel_evals, coordinates, self._level = values
        self._last = None if coordinates is None else (kernel, Z, coordinates)
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

        if isinstance(kernel, BentRBF) and self._bent is None:
            self._bent = np.empty((rows.n_features, rows.n_rows), dtype=K.dtype)

        def fill(block: RowBlock) -> None:
            part = slice(block.start, block.stop)
            if isinstance(kernel, BentRBF):  # the gradient needs the features again
                assert self._bent is not None
                features = kernel.bent(block.X)
                self._bent[:, part] = features.T
                K[part] = kernel.metric.block(features, basis)
            else:
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
            if isinstance(kernel, BentRBF) and self._bent is not None:
                return kernel.bent_gradients(block.X, self._bent[:, part].T, basis, K[part], slopes, small_beta)
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


def subset(rows: ArrayRows, spec: Spec, count: int) -> tuple[ArrayRows, Spec]:
    """Random rows, and the objective in which their losses stand for those of all rows."""
    if count >= rows.n_rows:
        return rows, spec
    index = np.sort(np.random.default_rng(0).permutation(rows.n_rows)[:count])
    return rows.subset(index), replace(spec, C=spec.C * rows.n_rows / count)


class Descent:
    """The way of a basis and a kernel down an objective, iteration by iteration.

    Coordinates are in units in which steps of one size change about as much.

    Parameters
    ----------
    objective : Objective
    kernel : Kernel
        With what is to be learned, see `with_metric`.
    basis : ndarray of shape (m, d)
    replay : Replay
        Of the evaluations, for a checkpoint.
    """

    def __init__(self, objective: Objective, kernel: Kernel, basis: Array, replay: Replay) -> None:
        self.objective, self.kernel, self.shape, self.replay = objective, kernel, basis.shape, replay
        theta = kernel.theta if objective.learn_width else np.empty(0)
        theta_unit, room = theta_units(kernel, objective.rows) if len(theta) else (np.empty(0), np.empty(0))
        of_vectors, of_theta = objective.lengths(kernel, basis.astype(np.float64))
        self.unit = _unit(kernel, self.shape[1], basis) * of_vectors[:, None]
        self.theta_unit = theta_unit * of_theta
        self.theta, self.room = theta / self.theta_unit, room / self.theta_unit
        start = np.concatenate([(basis.astype(np.float64) / self.unit).ravel(), np.zeros(len(theta))])
        self.farthest = _FARTHEST * max(1.0, float(np.max(np.abs(start), initial=0.0)))
        self.evaluated: list[tuple[Array, Any]] = []  # points of this iteration, and their weights
        self.solver = LBFGS(self._value_and_gradient, start)

    def begin(self) -> None:
        """Evaluate the start."""
        self.evaluated.clear()
        self.solver.begin()

    def step(self) -> bool:
        """One iteration; False where the descent has ended."""
        self.evaluated.clear()
        return self.solver.step()

    @property
    def point(self) -> tuple[Kernel, Array]:
        """Kernel and basis where the descent is."""
        return self._split(self.solver.x)

    @property
    def weights(self) -> tuple[Array, Array] | None:
        """Weights and intercept there, of the rows that it sees; None where no point could be evaluated."""
        weights = [weights for x, weights in self.evaluated if np.array_equal(x, self.solver.x)]
        return weights[-1] if weights else None

    def _split(self, x: Array) -> tuple[Kernel, Array]:
        size = self.unit.size
        Z = x[:size].reshape(self.shape) * self.unit
        if not self.objective.learn_width:
            return self.kernel, Z
        return self.kernel.with_theta((self.theta + self.room * np.tanh(x[size:] / self.room)) * self.theta_unit), Z

    def _value_and_gradient(self, x: Array) -> tuple[float, Array]:
        size = self.unit.size
        nowhere = np.inf, np.zeros(len(x))  # too far: the line search takes a shorter step
        if not (np.all(np.isfinite(x)) and np.max(np.abs(x[:size]), initial=0.0) < self.farthest):
            return nowhere
        if (evaluation := self.replay.recall(x)) is not None:
            self.objective.carry(evaluation["carried"], *self._split(x))
            self.evaluated.append((x.copy(), self.objective.last_weights))
            return evaluation["value"], evaluation["gradient"]
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is looked for afterwards
                value, d_basis, d_theta = self.objective.value_and_gradient(*self._split(x))
        except np.linalg.LinAlgError:  # a step so long that the weights cannot be found
            return nowhere
        self.evaluated.append((x.copy(), self.objective.last_weights))
        gradient = (d_basis * self.unit).ravel()
        if self.objective.learn_width:
            d_theta = d_theta * self.theta_unit * (1.0 - np.tanh(x[size:] / self.room) ** 2)
            gradient = np.concatenate([gradient, d_theta])
        self.replay.add(x, value, gradient, self.objective.carried)
        return value, gradient


def descend(
    objective: Objective, kernel: Kernel, basis: Array, max_iter: int, run: Run, step: Task
) -> tuple[Descent, bool]:
    """So many iterations from a basis, and whether Ctrl-C, in an interruptible run, ended them where they are."""
    descent = Descent(objective, kernel, basis, Replay(run.progress("evaluations")))
    try:
        descent.begin()
        while descent.solver.n_iter < max_iter and not run.late and descent.step():
            if step(float(objective.rows.n_rows)):  # a callback of the user asks to stop
                break
    except KeyboardInterrupt:
        if descent.weights is None or not run.keeps_on_interrupt():
            raise
        return descent, True
    return descent, False


def _unit(kernel: Kernel, n_features: int, basis: Array) -> Array:
    """The natural length of every coordinate: the kernel's width, or the spread of the basis."""
    if isinstance(kernel, RBF | MappedRBF | BentRBF):
        return np.broadcast_to(1.0 / np.sqrt(2.0 * np.maximum(kernel.gamma, 1e-300)), (n_features,)).astype(np.float64)
    spread = float(np.sqrt(np.mean(np.square(basis.astype(np.float64)))))
    return np.full(n_features, spread if spread > 0 else 1.0)


def theta_units(kernel: Kernel, rows: ArrayRows) -> tuple[Array, Array]:
    """The natural size of every parameter of the kernel, and how far it may go.

    A width may change a thousandfold, no more: beyond, it is a constant or a spike.  The square of an entry of a map
    is a width.
    """
    if isinstance(kernel, BentRBF):
        of_metric, ones = theta_units(kernel.metric, rows), np.ones(kernel.transform.slopes.size)
        return np.concatenate([of_metric[0], ones]), np.concatenate([of_metric[1], 33.0 * ones])
    if not isinstance(kernel, MappedRBF):
        return np.ones(len(kernel.theta)), np.full(len(kernel.theta), 7.0)
    X = rows.X
    if rows.is_sparse:
        squares, mean = np.asarray(X.multiply(X).mean(axis=0)).ravel(), np.asarray(X.mean(axis=0)).ravel()
        variance = np.maximum(squares - mean**2, 0.0)
    else:
        variance = np.var(X, axis=0, dtype=np.float64)
    share = float(np.mean(kernel.gamma * variance))
    unit = np.ones(kernel.map.shape[1])
    if share > 0:  # what gives each feature an equal share in the distances of rows
        unit = np.sqrt(share / np.where(variance > 0, variance, np.max(variance)))
    unit = np.tile(unit, kernel.rank)
    return unit, 33.0 * unit


def _decay(kernel: Kernel, rows: ArrayRows) -> Array | None:
    """How strongly parameters are drawn to zero, in objectives per row: a normal prior for each.

    Entries of a square map beside its diagonal have a d-th of the square of their unit as variance, so that those of a
    row are together as large as the one on the diagonal: a map that the rows do not speak for stays one width per
    feature.  Slopes of a transform have one as variance, about the identity.
    """
    if isinstance(kernel, BentRBF):
        of_metric = _decay(kernel.metric, rows)
        of_metric = np.zeros(len(kernel.metric.theta)) if of_metric is None else of_metric
        return np.concatenate([of_metric, np.ones(kernel.transform.slopes.size)])
    if not isinstance(kernel, MappedRBF) or kernel.rank != kernel.map.shape[1]:
        return None
    beside = (1.0 - np.eye(kernel.rank)).ravel()
    return np.asarray(beside * kernel.rank / theta_units(kernel, rows)[0] ** 2)


def with_metric(
    kernel: Kernel, learn: str | None, rows: ArrayRows, rank: int | None = None, *, bends: bool = False
) -> Kernel:
    """The kernel with what is to be learned: one width, one per feature ("each"), or a map ("full").

    A map of lower rank begins with the leading principal directions of the rows as the kernel scales them.  With
    `bends` a transform of every feature, the identity at first, comes before.
    """
    if not isinstance(kernel, RBF):
        return kernel
    if bends:
        sample = rows.take(np.linspace(0, rows.n_rows - 1, min(rows.n_rows, 20_000)).astype(np.intp))
        return BentRBF(with_metric(kernel, learn, rows, rank), PiecewiseLinear.identity(np.asarray(sample, np.float64)))
    if learn not in ("each", "full"):
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
