"""Fewer vectors for a machine that is already trained.

The machine's outputs f = (f_1, ..., f_L) are known everywhere, so they can be matched on any rows: unlabeled rows of
the user, else its own support vectors and rows crossed from pairs of them.  What is minimised is the distance to f in
the kernel's space and on those rows together (`matching`).  A basis is chosen for it by exact forward selection among
support vectors and rows, so that the machine's weights count and not only its vectors; then its vectors are moved to
fit better.  Rows near a decision count more: agreement is lost there.

The agreement reported is measured on rows that nothing else has seen.  A path that stops at a tolerance stops at the
first lucky size, so the rows that decide when to stop are others again.

Many outputs are replaced by the few combinations that carry their energy while the basis is chosen, and come back for
the weights: the sum over outputs does not change when they are rotated.

Sizes of a path are chosen and refined from scratch: growing a refined basis was tried, and ended in worse machines.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.basis.gram import forward_select
from kompakt.basis.refine import descend
from kompakt.codings import get_coding
from kompakt.data import ArrayRows, RowBlock, column_means, hash_rows, smallest_distinct
from kompakt.design import choose_block_rows
from kompakt.kernels import Kernel, Linear
from kompakt.linalg import Factor, factorise
from kompakt.model import Model
from kompakt.run import Run

Array = np.ndarray


@dataclass(frozen=True)
class Match:
    """Weights of a basis and what they leave."""

    weights: Array  # (m, L)
    intercept: Array  # (L,)
    objective: float
    norm_part: float  # |f - g|_H^2


class Matching:
    """J and its derivatives with respect to the basis.

    Parameters
    ----------
    rows : ArrayRows
        Rows to match on, with targets f(x_i) (n, L) and weights (n,) or None.
    vectors, weights : ndarray of shape (S, d), (S, L)
        The expansion of f, in the coordinates of the rows' blocks.
    C : float
    square_norm : float
        |f|_H^2, summed over the outputs.
    """

    learn_width = False

    def __init__(self, rows: ArrayRows, vectors: Array, weights: Array, C: float, square_norm: float) -> None:
        assert rows.targets is not None
        self.rows, self.C, self.square_norm = rows, C, square_norm
        dtype = np.result_type(rows.dtype, np.float32)
        self.expansion = ArrayRows(vectors.astype(dtype), weights.astype(np.float64))
        self.mass = float(rows.n_rows if rows.weights is None else rows.weights.sum())
        self.centre = self._mean_target()
        self.n_evaluations = 0

    def _mean_target(self) -> Array:
        T, s = self.rows.targets, self.rows.weights
        assert T is not None
        return T.mean(axis=0) if s is None else s @ T / s.sum()

    def match(self, kernel: Kernel, Z: Array) -> tuple[Match, Array, Factor]:
        """The best weights for a basis; also the coordinates (m, L) and the factor of its kernel matrix."""
        rows = self.rows
        factor = factorise(kernel.gram(Z), dtype=rows.dtype, what="kernel matrix of the basis")
        inverse = factor.inverse()
        basis = Z.astype(self.expansion.dtype)
        block_rows = choose_block_rows(max(len(Z), rows.n_features))
        sums = partial(_normal_sums, kernel, basis, inverse.astype(self.expansion.dtype), self.centre)
        gram, product, right, total, energy = rows.map_reduce(sums, block_rows)
        at_basis = self.expansion.map_reduce(partial(_values_sums, kernel, basis), block_rows)[0]  # f(z_j) - b_f
        linear = inverse.T @ at_basis
        m = len(Z)
        H = np.eye(m + 1)
        H[:m, :m] += self.C * gram
        H[:m, m] = H[m, :m] = self.C * product
        H[m, m] = self.C * self.mass
        r = np.concatenate([linear + self.C * right, self.C * total[None]])
        solver = factorise(H, what="normal equations of the match")
        theta = solver.solve(r)
        theta += solver.solve(r - H @ theta)
        w = theta[:m]
        quadratic = 0.5 * np.sum(theta * (H @ theta)) - np.sum(r * theta)
        objective = 0.5 * self.square_norm + 0.5 * self.C * float(energy) + float(quadratic)
        norm_part = self.square_norm + float(np.sum(w * w)) - 2.0 * float(np.sum(w * linear))
        return Match(inverse @ w, theta[m] + self.centre, objective, norm_part), w, factor

    def normal_equations(self, kernel: Kernel, Z: Array) -> tuple[Array, Array]:
        """A (m + 1, m + 1) and r (m + 1, L) of J = 1/2 b'A b - r'b + constant in the weights and the intercept."""
        m = len(Z)
        basis = Z.astype(self.expansion.dtype)
        block_rows = choose_block_rows(max(m, self.rows.n_features))
        sums = partial(_normal_sums, kernel, basis, None, self.centre)
        gram, product, right, total, _ = self.rows.map_reduce(sums, block_rows)
        A = np.empty((m + 1, m + 1))
        A[:m, :m] = kernel.gram(Z) + self.C * gram
        A[:m, m] = A[m, :m] = self.C * product
        A[m, m] = self.C * self.mass
        at_basis = self.expansion.map_reduce(partial(_values_sums, kernel, basis), block_rows)[0]
        return A, np.concatenate([at_basis + self.C * right, self.C * total[None]])

    def value_and_gradient(self, kernel: Kernel, Z: Array) -> tuple[float, Array, Array]:
        """J, dJ/dZ (m, d) and nothing for the kernel's parameters: those belong to f."""
        self.n_evaluations += 1
        found, _, _ = self.match(kernel, Z)
        beta = found.weights
        basis = Z.astype(self.expansion.dtype)
        block_rows = choose_block_rows(max(len(Z), self.rows.n_features))
        slopes = partial(_match_gradient, kernel, basis, beta, found.intercept, self.C)
        gradient = self.rows.map_reduce(slopes, block_rows)[0]
        gradient -= self.expansion.map_reduce(partial(_norm_gradient, kernel, basis, beta), block_rows)[0]
        Z = Z.astype(np.float64)
        gradient += kernel.gradients(Z, Z, kernel.gram(Z), beta @ beta.T)[0]
        return found.objective, gradient, np.empty(0)


def _normal_sums(
    kernel: Kernel, basis: Array, inverse: Array | None, centre: Array, block: RowBlock
) -> tuple[Array, ...]:
    """Phi'SPhi, Phi'S1, Phi'S(f - centre), 1'S(f - centre), sum of s |f - centre|^2; Phi = K R^-1, or K itself."""
    assert block.targets is not None
    Phi = kernel.block(block.X, basis)
    if inverse is not None:
        Phi = Phi @ inverse
    T = block.targets - centre
    s = np.ones(len(block)) if block.weights is None else block.weights
    weighted = Phi * s.astype(Phi.dtype)[:, None]
    return (
        weighted.T @ Phi,
        weighted.sum(axis=0, dtype=np.float64),
        weighted.T @ T.astype(Phi.dtype),
        s @ T,
        np.sum(s @ np.square(T)),
    )


def _values_sums(kernel: Kernel, basis: Array, block: RowBlock) -> tuple[Array, ...]:
    K = kernel.block(block.X, basis)
    return (K.T @ block.targets.astype(K.dtype),)  # type: ignore[union-attr]


def _match_gradient(
    kernel: Kernel, basis: Array, beta: Array, intercept: Array, C: float, block: RowBlock
) -> tuple[Array, ...]:
    assert block.targets is not None
    X = block.X
    K = kernel.block(X, basis)
    small = beta.astype(K.dtype)
    slopes = C * (K @ small + intercept - block.targets)
    if block.weights is not None:
        slopes *= block.weights[:, None]
    return (kernel.gradients(X, basis, K, slopes.astype(K.dtype) @ small.T)[0],)


def _norm_gradient(kernel: Kernel, basis: Array, beta: Array, block: RowBlock) -> tuple[Array, ...]:
    assert block.targets is not None
    X = block.X
    K = kernel.block(X, basis)
    return (kernel.gradients(X, basis, K, (block.targets @ beta.T).astype(K.dtype))[0],)


logger = logging.getLogger("kompakt")

_PRECISION = 20.0  # C, in units of |f|_H^2 over the sum of f^2: rows and norm both have a say
_OUTPUTS = 64
_SELECT_ROWS = 6000
_HELD_OUT = 0.25  # share of the rows that only measure, and again of those that only decide when to stop
_REFINE_LIMIT = 1000  # beyond so many vectors there is little left to win by moving them, and it is slow


@dataclass(frozen=True)
class CompressionStep:
    """One size of the path, measured on rows that took part neither in the match nor in the decision to stop."""

    n_basis: int
    agreement: float  # share of equal labels; for regression 1 - rms error / standard deviation
    stop_agreement: float  # the same on the rows that decide when to stop; without a tolerance, on the same rows
    n_measured: int  # rows that `agreement` and `error` were measured on
    error: float  # rms of f - g relative to that of f - mean f
    norm_error: float  # |f - g|_H / |f|_H
    seconds: float
    model: Model


@dataclass(frozen=True)
class Plan:
    """What is asked for."""

    sizes: Sequence[int]
    tol: float | None = None  # stop at this loss of agreement
    refine: bool = True
    refine_iter: int = 100
    max_rows: int = 20_000
    run: Run = field(default_factory=Run)


def compress_model(model: Model, X: Any, plan: Plan) -> list[CompressionStep]:
    """The path of machines, up to the first that agrees well enough; `X` are rows as the user has them, or None."""
    if isinstance(model.kernel, Linear):
        return _linear(model, X, plan)
    job = _Job(model, X, plan)
    steps: list[CompressionStep] = []
    began = time.monotonic()
    for size in plan.run.tracked(plan.sizes, "sizes", len(plan.sizes)):
        basis = job.chosen(size)
        if plan.refine and model.kernel.differentiable and len(basis) <= _REFINE_LIMIT:
            basis = job.refined(basis)
        match, _, _ = job.whole.match(model.kernel, basis)
        smaller = job.model(basis, match)
        step = job.measure(smaller, match, time.monotonic() - began)
        steps.append(step)
        logger.debug("compress: %d vectors, agreement %.4f, error %.3g", step.n_basis, step.agreement, step.error)
        enough = plan.tol is not None and 1.0 - step.stop_agreement <= plan.tol
        if enough or (size != plan.sizes[-1] and plan.run.late):
            break
    return steps


class _Job:
    """The machine to match, the rows to match it on, and what every size needs."""

    def __init__(self, model: Model, X: Any, plan: Plan) -> None:
        self.original, self.kernel, self.plan = model, model.kernel, plan
        rows = matching_rows(model, X, plan)
        self.offset = column_means(rows) if self.kernel.shift_invariant and not sparse.issparse(rows) else None
        outputs = plain_model(model).outputs(rows)
        measuring, deciding, matching = _parts(rows, plan)
        self.test, self.stop = self._rows(rows, outputs, measuring), self._rows(rows, outputs, deciding)
        self.train = self._rows(rows, outputs, matching)
        self.vectors = model.basis if self.offset is None else model.basis - self.offset
        at_vectors = plain_model(model).outputs(model.basis) - model.intercept  # K A
        self.norm = float(np.sum(at_vectors * model.weights))
        targets = self.train.targets
        assert targets is not None
        energy = float(np.sum(np.square(targets - targets.mean(axis=0))))
        self.C = _PRECISION * max(self.norm, 1e-300) / max(energy, 1e-300)
        self.whole = Matching(self.train, self.vectors, model.weights, self.C, self.norm)
        self.few = self._fewer_outputs(targets, at_vectors)

    def _rows(self, X: Any, outputs: Array, index: Array) -> ArrayRows:
        values = outputs[index]
        margin = decision_margin(self.original, values)
        weights = None
        if margin is not None:
            weights = 1.0 / (0.2 * np.median(margin) + margin + 1e-12)
            weights /= weights.mean()
        part = ArrayRows(X[index], values, weights)
        part.offset = None if self.offset is None else self.offset.astype(part.dtype)
        return part

    def _fewer_outputs(self, T: Array, at_vectors: Array) -> Matching:
        """The match of the few combinations that carry all but a thousandth of the outputs' energy, in float32."""
        rows, A = self.train, self.original.weights
        if T.shape[1] > 8:
            centred = T - T.mean(axis=0)
            values, directions = np.linalg.eigh(centred.T @ centred)
            left = np.cumsum(values) / max(values.sum(), 1e-300)
            keep = directions[:, left > 1e-3][:, ::-1][:, :_OUTPUTS]
            T, A, at_vectors = centred @ keep, A @ keep, at_vectors @ keep
        if not rows.is_sparse:  # the descent's last digits do not matter: float32 is twice as fast
            X = (rows.X if rows.offset is None else rows.X - rows.offset).astype(np.float32)
            rows = ArrayRows(X, T, rows.weights)
        else:
            rows = ArrayRows(rows.X, T, rows.weights)
        return Matching(rows, self.vectors, A, self.C, float(np.sum(at_vectors * A)))

    def chosen(self, size: int) -> Array:
        """A basis of this size: forward selection by the exact decrease of the objective of the match."""
        count = int(np.clip(4 * size, 400, max(2000, size)))
        candidates = self._candidates(count)
        every, targets, A = self.train, self.few.rows.targets, self.few.expansion.targets
        assert targets is not None
        assert A is not None
        # the rows are in the order of a hash; float64, because forward selection lives on differences of sums
        index = np.arange(0, every.n_rows, -(-every.n_rows // _SELECT_ROWS))
        X = every.X[index].astype(np.float64)
        rows = ArrayRows(X, targets[index], None if every.weights is None else every.weights[index], every.offset)
        share = every.n_rows / rows.n_rows
        part = Matching(rows, self.vectors, A, self.C * share, self.few.square_norm)
        A, r = part.normal_equations(self.kernel, candidates)
        return candidates[forward_select(A[None], r.T, size, first=len(candidates))].astype(np.float64)

    def _candidates(self, count: int) -> Array:
        """Support vectors and rows in equal parts, chosen by hash; more of one where there are few of the other."""
        rows = self.few.rows
        X = rows.X if not rows.is_sparse else None
        own = smallest_distinct(hash_rows(self.vectors, self.plan.run.key), count)
        if X is None:
            return self.vectors[own]
        others = smallest_distinct(hash_rows(X, self.plan.run.key), count)
        from_own = max(min(len(own), count // 2), count - len(others))
        both = np.concatenate([self.vectors[own[:from_own]], X[others[: count - from_own]].astype(np.float64)])
        return both[smallest_distinct(hash_rows(both.astype(np.float32), 1), count)]

    def refined(self, basis: Array) -> Array:
        objective: Any = self.few  # has the same interface as the objective of a training problem
        run = self.plan.run
        with run.task("refinement", self.plan.refine_iter) as step:
            return descend(objective, self.kernel, basis, self.plan.refine_iter, run, [], step)[1]

    def model(self, basis: Array, match: Match) -> Model:
        vectors = basis if self.offset is None else basis + self.offset
        return replace(
            self.original,
            basis=vectors,
            weights=match.weights,
            intercept=match.intercept,
            offset=None if self.original.input_map is not None else self.offset,  # mapped inputs are centred before
        )

    def measure(self, smaller: Model, match: Match, seconds: float) -> CompressionStep:
        norm_error = float(np.sqrt(max(0.0, match.norm_part) / max(self.norm, 1e-300)))
        f, stop = self.test.targets, self.stop.targets
        assert f is not None
        assert stop is not None
        g, g_stop = (plain_model(smaller).outputs(part.X) for part in (self.test, self.stop))
        return CompressionStep(
            smaller.n_basis_, agreement(self.original, f, g), agreement(self.original, stop, g_stop), len(f),
            relative_error(f, g), norm_error, seconds, smaller,
        )  # fmt: skip


def _parts(rows: Any, plan: Plan) -> tuple[Array, Array, Array]:
    """Numbers of the rows that measure, that decide when to stop, and that are matched, by hash.

    Without a tolerance nothing is decided, and the second part is the first.
    """
    order = np.argsort(hash_rows(rows, plan.run.key + 7), kind="stable")
    held = max(1, int(_HELD_OUT * len(order)))
    if plan.tol is None:
        return order[:held], order[:held], order[held:]
    return order[:held], order[held : 2 * held], order[2 * held :]


def matching_rows(model: Model, X: Any, plan: Plan) -> Any:
    """Rows to match the machine on, as its kernel sees them: the user's, or made from its own vectors."""
    if X is not None:
        rows = model._transformed(X)
        if rows.shape[0] < 20:
            raise ValueError(f"X must have at least 20 rows to measure the agreement on; got {rows.shape[0]}.")
        if rows.shape[0] > plan.max_rows:
            rows = rows[np.sort(np.argsort(hash_rows(rows, plan.run.key), kind="stable")[: plan.max_rows])]
        return rows
    vectors = model.basis
    count = len(vectors)
    rng = np.random.default_rng([plan.run.key, 11])
    copies = int(np.clip(np.ceil(2000 / max(1, count)), 1, 50))
    made = [vectors]
    for _ in range(copies):
        # some features of one vector, the rest of another: stays within the range of every feature
        one, other = rng.permutation(count), rng.permutation(count)
        swap = rng.random(vectors.shape) < rng.uniform(0.0, 0.5, (count, 1))
        made.append(np.where(swap, vectors[other], vectors[one]))
    rows = np.concatenate(made)
    return rows[: plan.max_rows] if len(rows) > plan.max_rows else rows


def plain_model(model: Model) -> Model:
    """The model for rows that are already shifted, scaled and mapped."""
    n_inputs = model.n_features if model.input_map is None else len(model.input_map)
    return replace(model, input_shift=None, input_scale=None, input_fill=None, input_map=None, n_features=n_inputs)


def decision_margin(model: Model, outputs: Array) -> Array | None:
    """How far each row is from another decision, (n,); None where nothing is decided."""
    if model.kind == "regressor":
        return None
    if outputs.shape[1] == 1:
        return np.abs(outputs[:, 0])
    assert model.classes is not None
    coding = get_coding(model.coding or "one_vs_rest")
    k = len(model.classes)
    winner = coding.decode(outputs, k)
    if coding.name == "one_vs_rest":
        best = np.partition(outputs, k - 2, axis=1)
        return best[:, -1] - best[:, -2]
    # the winner's weakest output: the first that could be lost
    won = outputs * coding.codes(k)[winner]
    return np.maximum(0.0, np.min(np.where(coding.codes(k)[winner] != 0, won, np.inf), axis=1))


def agreement(model: Model, f: Array, g: Array) -> float:
    """Share of rows on which two machines with these outputs decide alike; for regression 1 - relative rms error."""
    if model.kind == "regressor":
        return 1.0 - relative_error(f, g)
    return float(np.mean(model.labels(model.scores(f)) == model.labels(model.scores(g))))


def relative_error(f: Array, g: Array) -> float:
    """Root mean square of f - g relative to the spread of f."""
    spread = float(np.sqrt(np.mean(np.square(f - f.mean(axis=0)))))
    return float(np.sqrt(np.mean(np.square(f - g)))) / max(spread, 1e-300)


def path_sizes(largest: int, smallest: int = 8, ratio: float = 1.4) -> list[int]:
    """Sizes that grow by a constant factor, the last one `largest`.

    Examples
    --------
    >>> from kompakt.basis.matching import path_sizes
    >>> path_sizes(40)
    [8, 12, 16, 22, 31, 40]
    """
    sizes = []
    size = float(min(smallest, largest))
    while size < largest:
        sizes.append(int(np.ceil(size)))
        size *= ratio
    return [s for s in sizes if s < largest] + [largest]


def _linear(model: Model, X: Any, plan: Plan) -> list[CompressionStep]:
    """A linear machine is exact with as many vectors as its outputs have independent directions."""
    W = model.weights.T @ model.basis  # (L, d)
    U, s, Vt = np.linalg.svd(W, full_matrices=False)
    rank = max(1, int(np.sum(s > max(W.shape) * np.finfo(float).eps * s[0])) if s[0] > 0 else 1)
    rows = matching_rows(model, X, plan)
    measuring, deciding, _ = _parts(rows, plan)
    f = plain_model(model).outputs(rows)
    steps: list[CompressionStep] = []
    began = time.monotonic()
    for size in sorted({min(rank, size) for size in plan.sizes}):
        smaller = replace(model, basis=Vt[:size], weights=(U[:, :size] * s[:size]).T, offset=None)
        g = plain_model(smaller).outputs(rows)
        step = CompressionStep(
            size,
            agreement(model, f[measuring], g[measuring]),
            agreement(model, f[deciding], g[deciding]),
            len(measuring),
            relative_error(f[measuring], g[measuring]),
            float(np.sqrt(np.sum(s[size:] ** 2) / max(np.sum(s**2), 1e-300))),
            time.monotonic() - began,
            smaller,
        )
        steps.append(step)
        if plan.tol is not None and 1.0 - step.stop_agreement <= plan.tol:
            break
    return steps
