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

A model is rounded in the same way: a map of its inputs is rounded, its vectors are moved to where the rows near them
go by that and put on a grid of few bits, one step for all columns in the kernel's own units, and the weights that match
f best on the rounded vectors make up for both. Then the weights are rounded one after the other, each time moving those
that are left to where they best make up for the error (Hassibi and Stork 1993; GPTQ, Frantar et al. 2023, does the same
to networks): rounded all at once they would cost far more, since weights of neighbouring vectors cancel.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.basis.gram import forward_select
from kompakt.basis.refine import Objective, descend
from kompakt.codings import get_coding
from kompakt.data import ArrayRows, RowBlock, column_means, hash_rows, smallest_distinct
from kompakt.design import choose_block_rows
from kompakt.inputs import Inputs
from kompakt.kernels import RBF, Kernel, Linear
from kompakt.linalg import factorise
from kompakt.model import BITS, STORAGES, Model, Storage, largest_level
from kompakt.run import Run

Array = np.ndarray
logger = logging.getLogger("kompakt")

_PRECISION = 20.0  # C, in units of |f|_H^2 over the sum of f^2: rows and norm both have a say
_OUTPUTS = 64
_SELECT_ROWS = 6000
_OUTPUT_VALUES = 1 << 23  # numbers in the outputs of all rows: with many pairs of classes, fewer rows are matched
_LEAST_ROWS = 200
_HELD_OUT = 0.25  # share of the rows that only measure, and again of those that only decide when to stop
_SHARED = 1e-3  # share of the energy of f that one step for the weights of all outputs may add to the objective
_ROUNDING = 0.01  # share of the labels that storage="auto" may change without a tolerance
_REFINE_LIMIT = 1000  # beyond so many vectors there is little left to win by moving them, and it is slow


@dataclass(frozen=True)
class Match:
    """Weights of a basis and what they leave."""

    weights: Array  # (m, L)
    intercept: Array  # (L,)
    objective: float
    norm_part: float  # |f - g|_H^2


class Matching(Objective):
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

    def __init__(self, rows: ArrayRows, vectors: Array, weights: Array, C: float, square_norm: float) -> None:
        assert rows.targets is not None
        self.rows, self.C, self.square_norm = rows, C, square_norm
        dtype = np.result_type(rows.dtype, np.float32)
        self.expansion = ArrayRows(vectors.astype(dtype), weights.astype(np.float64))
        self.mass = rows.mass
        self.centre = np.average(rows.targets, axis=0, weights=rows.weights)
        self.n_evaluations = 0

    def match(self, kernel: Kernel, Z: Array) -> Match:
        """The best weights for a basis."""
        inverse = factorise(kernel.gram(Z), dtype=self.rows.dtype, what="kernel matrix of the basis").inverse()
        H, r, linear, energy = self._sums(kernel, Z, inverse)
        solver = factorise(H, what="normal equations of the match")
        theta = solver.solve(r)
        theta += solver.solve(r - H @ theta)
        w = theta[:-1]
        quadratic = 0.5 * np.sum(theta * (H @ theta)) - np.sum(r * theta)
        objective = 0.5 * self.square_norm + 0.5 * self.C * energy + float(quadratic)
        norm_part = self.square_norm + float(np.sum(w * w)) - 2.0 * float(np.sum(w * linear))
        return Match(inverse @ w, theta[-1] + self.centre, objective, norm_part)

    def normal_equations(self, kernel: Kernel, Z: Array) -> tuple[Array, Array]:
        """A (m + 1, m + 1) and r (m + 1, L) of J = 1/2 b'A b - r'b + constant in the weights and the intercept."""
        return self._sums(kernel, Z, None)[:2]

    def _sums(self, kernel: Kernel, Z: Array, inverse: Array | None) -> tuple[Array, Array, Array, float]:
        """A, r, what the norm adds to r, and the energy of f on the rows: in features K inverse, or in K itself."""
        m, basis = len(Z), Z.astype(self.expansion.dtype)
        block_rows = choose_block_rows(max(m, self.rows.n_features))
        whitener = None if inverse is None else inverse.astype(self.expansion.dtype)

        def of_rows(block: RowBlock) -> tuple[Array, ...]:
            """Phi'SPhi, Phi'S1, Phi'ST, 1'ST and sum of s |T|^2 for T = f - centre."""
            assert block.targets is not None
            Phi, T = kernel.block(block.X, basis), block.targets - self.centre
            Phi = Phi if whitener is None else Phi @ whitener
            s = np.ones(len(block)) if block.weights is None else block.weights
            weighted = Phi * s.astype(Phi.dtype)[:, None]
            sums = weighted.sum(axis=0, dtype=np.float64), weighted.T @ T.astype(Phi.dtype)
            return weighted.T @ Phi, *sums, s @ T, np.sum(s @ np.square(T))

        def at_basis(block: RowBlock) -> tuple[Array, ...]:
            """f(z_j) less its intercept."""
            assert block.targets is not None
            K = kernel.block(block.X, basis)
            return (K.T @ block.targets.astype(K.dtype),)

        gram, product, right, total, energy = self.rows.map_reduce(of_rows, block_rows)
        linear = self.expansion.map_reduce(at_basis, block_rows)[0]
        linear = linear if inverse is None else inverse.T @ linear
        A = np.empty((m + 1, m + 1))
        A[:m, :m] = (kernel.gram(Z) if inverse is None else np.eye(m)) + self.C * gram
        A[:m, m] = A[m, :m] = self.C * product
        A[m, m] = self.C * self.mass
        return A, np.concatenate([linear + self.C * right, self.C * total[None]]), linear, float(energy)

    def value_and_gradient(self, kernel: Kernel, Z: Array) -> tuple[float, Array, Array]:
        """J, dJ/dZ (m, d) and nothing for the kernel's parameters: those belong to f."""
        self.n_evaluations += 1
        found = self.match(kernel, Z)
        beta = found.weights
        basis = Z.astype(self.expansion.dtype)
        block_rows = choose_block_rows(max(len(Z), self.rows.n_features))

        def of_rows(block: RowBlock) -> tuple[Array, ...]:
            K = kernel.block(block.X, basis)
            small = beta.astype(K.dtype)
            slopes = self.C * (K @ small + found.intercept - block.targets)
            if block.weights is not None:
                slopes *= block.weights[:, None]
            return (kernel.gradients(block.X, basis, K, slopes.astype(K.dtype) @ small.T)[0],)

        def of_norm(block: RowBlock) -> tuple[Array, ...]:
            assert block.targets is not None
            K = kernel.block(block.X, basis)
            return (kernel.gradients(block.X, basis, K, (block.targets @ beta.T).astype(K.dtype))[0],)

        gradient = self.rows.map_reduce(of_rows, block_rows)[0] - self.expansion.map_reduce(of_norm, block_rows)[0]
        Z = Z.astype(np.float64)
        gradient += kernel.gradients(Z, Z, kernel.gram(Z), beta @ beta.T)[0]
        return found.objective, gradient, np.empty(0)


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

    sizes: Sequence[int] | None  # None keeps the vectors, to round them only
    tol: float | None = None  # stop at this loss of agreement
    refine: bool = True
    refine_iter: int = 100
    max_rows: int = 20_000
    run: Run = field(default_factory=Run)
    storage: str | None = None  # "int8", "float16", or "auto" for the smallest one that changes little
    bits: tuple[int, int, int] = (8, 8, 8)  # of map, vectors and weights, where they are whole numbers


def compress_model(model: Model, X: Any, plan: Plan) -> list[CompressionStep]:
    """The path of machines, up to the first that agrees well enough; `X` are rows as the user has them, or None."""
    if not model.n_basis_:
        raise ValueError("the model has no vectors, so that there is nothing to compress: it is a constant already.")
    most = max(_LEAST_ROWS, _OUTPUT_VALUES // model.weights.shape[1])
    tol = plan.tol
    plan = replace(plan, max_rows=min(plan.max_rows, most))
    if isinstance(model.kernel, Linear) and plan.storage is None:
        return _linear(model, X, plan)
    given = model
    if plan.storage is not None and model.inputs.bends is not None:  # in half precision, which is fine enough
        model = replace(model, inputs=replace(model.inputs, bends=model.inputs.bends.rounded()), storage=None)
    job = _Job(model, X, plan)
    steps: list[CompressionStep] = []
    began = time.monotonic()
    sizes = [model.n_basis_] if plan.sizes is None else plan.sizes
    for size in plan.run.tracked(sizes, "sizes", len(sizes)):
        basis = job.vectors if plan.sizes is None else job.chosen(size)
        if plan.sizes is not None and plan.refine and model.kernel.differentiable and len(basis) <= _REFINE_LIMIT:
            basis = job.refined(basis)
        match = job.whole.match(model.kernel, basis)
        vectors = basis if job.offset is None else basis + job.offset
        exact = replace(
            model, basis=vectors, weights=match.weights, intercept=match.intercept, inputs=job.centred_inputs(),
            storage=None,
        )  # fmt: skip
        plain = given if plan.sizes is None else replace(exact, inputs=replace(exact.inputs, bends=given.inputs.bends))
        result = Rounded(plain if plan.storage == "auto" else exact, exact, match, job)
        if plan.storage == "auto":
            result = _fewest_bits(job, basis, _ROUNDING if tol is None else tol) or result
        elif plan.storage is not None:
            result = job.rounded(basis, plan.storage, plan.bits)
        norm_error = float(np.sqrt(max(0.0, result.match.norm_part) / max(job.norm, 1e-300)))
        step = _measured(model, result.same, result.job.test, result.job.stop, norm_error, time.monotonic() - began)
        step = replace(step, model=result.stored)
        steps.append(step)
        logger.debug("compress: %d vectors, agreement %.4f, error %.3g", step.n_basis, step.agreement, step.error)
        enough = plan.tol is not None and 1.0 - step.stop_agreement <= plan.tol
        if enough or (size != sizes[-1] and plan.run.late):
            break
    return steps


def _fewest_bits(job: _Job, basis: Array, allowed: float) -> Rounded | None:
    """The model with the fewest bits that changes no more than allowed, if there is one.

    Beginning with eight, the bits of map, vectors and weights are lowered one after the other, the largest array first.
    """
    for dtype in STORAGES:
        bits = (8, 8, 8)
        result = job.rounded(basis, dtype, bits)
        if result.changes(job) > allowed:
            continue
        m, r, L = *basis.shape, job.original.weights.shape[1]
        sizes = (0 if job.original.inputs.map is None else job.original.inputs.map.size, m * r, m * L)
        for place in sorted(range(3), key=lambda place: -sizes[place]) if dtype == "int8" else ():
            for fewer in sorted(BITS, reverse=True)[1:] if sizes[place] else ():
                lowered = (*bits[:place], fewer, *bits[place + 1 :])
                tried = (lowered[0], lowered[1], lowered[2])
                candidate = job.rounded(basis, dtype, tried)
                if candidate.changes(job) > allowed:
                    break
                bits, result = tried, candidate
        return result
    return None


@dataclass(frozen=True)
class Rounded:
    """A model to be stored, the same as a model of the rows of its job, and its match."""

    stored: Model
    same: Model
    match: Match
    job: _Job

    def changes(self, job: _Job) -> float:
        """Share of the labels of the rows that decide that differ from those of the job's model."""
        f, g = job.stop.targets, plain_model(self.same).outputs(self.job.stop.X)
        assert f is not None
        return 1.0 - agreement(job.original, f, g)


class _Job:
    """The machine to match, the rows to match it on, and what every size needs."""

    def __init__(self, model: Model, X: Any, plan: Plan) -> None:
        self.original, self.kernel, self.plan = model, model.kernel, plan
        rows, self.unmapped = matching_rows(model, X, plan)
        self.offset = column_means(rows) if self.kernel.shift_invariant and not sparse.issparse(rows) else None
        outputs = plain_model(model).outputs(rows)
        self.parts = measuring, deciding, matching = _parts(rows, plan)
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
            few_rows = len(T) < T.shape[1]  # the smaller of the two matrices that have these eigenvalues
            values, vectors = np.linalg.eigh(centred @ centred.T if few_rows else centred.T @ centred)
            left = np.cumsum(values) / max(values.sum(), 1e-300)
            keep = vectors[:, left > 1e-3][:, ::-1][:, :_OUTPUTS]
            if few_rows:
                keep = centred.T @ keep
                keep /= np.maximum(np.linalg.norm(keep, axis=0), 1e-300)
            T, A, at_vectors = centred @ keep, A @ keep, at_vectors @ keep
        X = rows.X
        if not rows.is_sparse:  # the descent's last digits do not matter: float32 is twice as fast
            X = (X if rows.offset is None else X - rows.offset).astype(np.float32)
        return Matching(ArrayRows(X, T, rows.weights), self.vectors, A, self.C, float(np.sum(at_vectors * A)))

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
        chosen = forward_select(A[None], r.T, size, first=len(candidates))
        chosen = chosen if len(chosen) else np.zeros(1, dtype=np.intp)  # outputs that are constant on these rows
        return np.asarray(candidates[chosen].astype(np.float64))

    def _candidates(self, count: int) -> Array:
        """Support vectors and rows in equal parts, chosen by hash; more of one where there are few of the other."""
        X = self.few.rows.X
        own = smallest_distinct(hash_rows(self.vectors, self.plan.run.key), count)
        if self.few.rows.is_sparse:
            return np.asarray(self.vectors[own])
        others = smallest_distinct(hash_rows(X, self.plan.run.key), count)
        from_own = max(min(len(own), count // 2), count - len(others))
        both = np.concatenate([self.vectors[own[:from_own]], X[others[: count - from_own]].astype(np.float64)])
        return np.asarray(both[smallest_distinct(hash_rows(both.astype(np.float32), 1), count)])

    def centred_inputs(self) -> Inputs:
        """The inputs of the model about the centre of the rows; mapped and bent ones are centred before."""
        inputs = self.original.inputs
        before = inputs.map is not None or inputs.bends is not None
        return replace(inputs, centre=None if before else self.offset)

    def refined(self, basis: Array) -> Array:
        run = self.plan.run
        with run.task("refinement", self.plan.refine_iter) as step:
            return descend(self.few, self.kernel, basis, self.plan.refine_iter, run, step)[0].point[1]

    def with_rounded_map(self, bits: int) -> tuple[_Job, Array, Array]:
        """The job on rows that a rounded map has mapped, its steps, and the linear map from old rows to new ones."""
        exact = self.original.inputs.map
        assert exact is not None
        assert self.unmapped is not None
        extent = np.max(np.abs(exact), axis=1)
        steps = (np.where(extent > 0, extent, 1.0) / largest_level(bits)).astype(np.float32).astype(np.float64)
        input_map = np.rint(exact / steps[:, None]) * steps[:, None]
        rows, X = self.unmapped @ input_map.T, np.asarray(self.unmapped @ exact.T)
        # where rows near a vector go, on average
        move = np.linalg.lstsq(X[self.parts[2]].astype(np.float64), rows[self.parts[2]], rcond=1e-8)[0]
        job = copy(self)
        job.offset = None if self.offset is None else column_means(rows)
        vectors = self.original.basis @ move
        job.original = replace(
            self.original, basis=vectors, inputs=replace(self.original.inputs, map=input_map), storage=None
        )
        job.vectors = vectors if job.offset is None else vectors - job.offset
        for name, index in zip(("test", "stop", "train"), self.parts, strict=True):
            old = getattr(self, name)
            part = ArrayRows(rows[index].astype(old.dtype), old.targets, old.weights)
            part.offset = None if job.offset is None else job.offset.astype(part.dtype)
            setattr(job, name, part)
        return job, steps, move

    def rounded(self, basis: Array, dtype: str, bits: tuple[int, int, int]) -> Rounded:
        """The vectors and their weights in few bits: to be stored, as a model of the rows, and its match."""
        job, map_steps = self, None
        if self.original.inputs.map is not None:
            bits = bits if dtype == "int8" else (16, 8, 8)
            job, map_steps, move = self.with_rounded_map(bits[0])
            basis = (basis if self.offset is None else basis + self.offset) @ move
            basis = basis if job.offset is None else basis - job.offset
        model, inputs = job.original, replace(job.original.inputs, centre=None)
        shift = 0.0 if inputs.shift is None else inputs.shift
        scale = 1.0 if inputs.scale is None else inputs.scale
        centre = np.zeros(basis.shape[1]) if job.offset is None else job.offset
        gamma = model.kernel.gamma if isinstance(model.kernel, RBF) else 1.0
        root = np.sqrt(gamma) * np.ones(basis.shape[1])  # columns in these units are equally important to an RBF
        root = np.maximum(root, 1e-6 * root.max()) if root.any() else np.ones_like(root)
        # a shift of the inputs is a number more per feature: only where the vectors are far from the origin
        far = 1.25 * np.max(np.abs(basis * root)) < np.max(np.abs((basis + centre) * root))
        moved = None
        if far and inputs.map is None and inputs.bends is None:
            moved = shift + scale * centre
            with np.errstate(over="ignore"):
                single = moved.astype(np.float32).astype(np.float64)  # which exports in float32 hold too
            moved = single if np.all(np.isfinite(single)) else moved
        origin = np.zeros_like(centre) if moved is None else (moved - shift) / scale
        values = basis + centre - origin
        matching = Matching(job.train, job.vectors, model.weights, 10.0 * self.C, self.norm)
        largest = _largest_number(dtype, bits[1])
        extent, least = float(np.max(np.abs(values * root))) / largest or 1.0, np.inf
        # vectors far out would cost the others their digits: a smaller step may match better, which moves those inwards
        for width in _steps(extent) if dtype == "int8" else (extent,):
            step = Storage(dtype, width / root, np.ones(model.weights.shape[1]), map_steps, bits)
            small = np.clip(np.rint(values / step.basis_steps), -largest, largest) if dtype == "int8" else None
            small = step.small(values, step.basis_steps) if small is None else small
            near = step.values(small, step.basis_steps).astype(np.float32)
            match_near = matching.match(self.kernel, near + origin - centre)
            if not match_near.objective >= least:
                storage, vectors, match, least = step, near, match_near, match_near.objective
        on_grid = vectors + origin - centre
        H = matching.normal_equations(self.kernel, on_grid)[0]
        steps, weights, intercept = rounded_weights(H, match.weights, match.intercept, dtype, bits[2])
        storage = replace(storage, weight_steps=steps)
        fields: dict[str, Any] = {"weights": weights, "intercept": intercept}
        inputs = inputs if moved is None else replace(inputs, shift=moved)
        stored = replace(model, basis=vectors, inputs=inputs, storage=storage, **fields)
        same = replace(model, basis=on_grid + centre, inputs=job.centred_inputs(), storage=None, **fields)
        return Rounded(stored, same, match, job)


def _steps(extent: float) -> Array:
    """Steps of vectors to try, in the units of an RBF, from one that reaches the extent to a quarter of that.

    A squared step is a power of two of ln 2, so that integers form exponents of the kernel by shifts alone.
    """
    first = int(np.ceil(np.log2(extent**2 / np.log(2))))
    return np.asarray(np.sqrt(np.log(2) * 2.0 ** (first - np.arange(5))))


def rounded_weights(
    H: Array, weights: Array, intercept: Array, dtype: str, bits: int = 8
) -> tuple[Array, Array, Array]:
    """Steps of the weights (L,), weights (m, L) that are small numbers of them, and the intercept (L,).

    H (m + 1, m + 1) is the Hessian of an objective whose minimum has these weights and this intercept, which is not
    rounded: little is to be added to the objective.  The largest weights come first.  Vectors that are near to each
    other have large weights that cancel, which a coarse step cannot hold; so several multiples of the diagonal of H are
    added, under which weights are smaller, and the best result is taken.  Outputs of about the same size share one
    step.
    """
    m, largest = len(weights), _largest_number(dtype, bits)
    order = np.append(np.argsort(-np.max(np.abs(weights), axis=1), kind="stable"), m)
    optimum = np.concatenate([weights, intercept[None]])[order]
    H = H[np.ix_(order, order)]
    diagonal = np.maximum(np.diag(H), 1e-12 * np.max(np.diag(H)))
    best: dict[bool, tuple[float, Array, Array]] = {}
    shares = (1.0,) if dtype == "float16" else (1.0, 0.7) if bits == 8 else (1.0, 0.7, 0.5)
    for damping in 10.0 ** np.arange(-8, 0.5, 0.5):
        try:
            inverse = np.linalg.inv(H + np.diag(damping * diagonal))
            U = np.linalg.cholesky(0.5 * (inverse + inverse.T)).T
        except np.linalg.LinAlgError:
            continue
        start = inverse @ (H @ optimum)
        for shared, share in product((True, False) if dtype == "int8" else (False,), shares):
            extent = np.max(np.abs(start[:m]), axis=0) * share / largest
            extent = np.full_like(extent, extent.max()) if shared else extent
            steps = Storage(dtype, np.ones(1), np.where(extent > 0, extent, 1.0)).weight_steps
            theta = start.copy()
            for j in range(m):
                small = theta[j] / steps
                small = np.clip(np.rint(small), -largest, largest) if dtype == "int8" else small.astype(np.float16)
                theta[j + 1 :] -= np.outer(U[j, j + 1 :] / U[j, j], theta[j] - small * steps)
                theta[j] = small * steps
            error = theta - optimum
            increase = float(np.sum(error * (H @ error)))
            if not increase >= best.get(shared, (np.inf,))[0]:
                best[shared] = increase, steps, theta
    increase, steps, theta = best[False]
    if True in best and best[True][0] <= increase + _SHARED * float(np.sum(optimum * (H @ optimum))):
        _, steps, theta = best[True]
    in_order = np.empty_like(theta)
    in_order[order] = theta
    return steps, in_order[:m], in_order[m]


def _largest_number(dtype: str, bits: int) -> float:
    """What the largest of some numbers becomes: the end of whole numbers, or 1, where sixteen bits are finest."""
    return largest_level(bits) if dtype == "int8" else 1.0


def _measured(
    model: Model, smaller: Model, test: ArrayRows, stop: ArrayRows, norm_error: float, seconds: float
) -> CompressionStep:
    """How a smaller machine does on rows that measure, and on those that decide when to stop."""
    f, f_stop = test.targets, stop.targets
    assert f is not None
    assert f_stop is not None
    g, g_stop = (plain_model(smaller).outputs(rows.X) for rows in (test, stop))
    stop_agreement, error = agreement(model, f_stop, g_stop), relative_error(f, g)
    return CompressionStep(
        smaller.n_basis_, agreement(model, f, g), stop_agreement, len(f), error, norm_error, seconds, smaller
    )


def _parts(rows: Any, plan: Plan) -> tuple[Array, Array, Array]:
    """Numbers of the rows that measure, that decide when to stop, and that are matched, by hash.

    Without a tolerance, and with a given storage, nothing is decided, and the second part is the first.
    """
    order = np.argsort(hash_rows(rows, plan.run.key + 7), kind="stable")
    held = max(1, int(_HELD_OUT * len(order)))
    if plan.tol is None and plan.storage != "auto":
        return order[:held], order[:held], order[held:]
    return order[:held], order[held : 2 * held], order[2 * held :]


def matching_rows(model: Model, X: Any, plan: Plan) -> tuple[Any, Any]:
    """Rows to match the machine on: the user's, or made from its own vectors.

    As the kernel sees them; and before they are mapped, for a machine that maps them.
    """
    input_map = model.inputs.map
    if X is not None:
        rows = model._transformed(model._checked(X))
        if rows.shape[0] < 20:
            raise ValueError(f"X must have at least 20 rows to measure the agreement on; got {rows.shape[0]}.")
        index: Any = slice(None)
        if rows.shape[0] > plan.max_rows:
            index = np.sort(np.argsort(hash_rows(rows, plan.run.key), kind="stable")[: plan.max_rows])
        if input_map is None:
            return rows[index], None
        return rows[index], model.unmapped(model._checked(X)[index])
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
    rows = np.concatenate(made)[: plan.max_rows]
    return rows, None if input_map is None else model.inputs.unmapped(rows)


def plain_model(model: Model) -> Model:
    """The model for rows that are already as its kernel sees them, but for the centre."""
    n_inputs = model.n_features if model.inputs.map is None else len(model.inputs.map)
    return replace(model, n_features=n_inputs, inputs=Inputs(centre=model.inputs.centre), storage=None)


def decision_margin(model: Model, outputs: Array) -> Array | None:
    """How far each row is from another decision, (n,); None where nothing is decided."""
    if model.kind == "regressor":
        return None
    if outputs.shape[1] == 1:
        return np.asarray(np.abs(outputs[:, 0]))
    assert model.classes is not None
    coding = get_coding(model.coding or "one_vs_rest")
    k = len(model.classes)
    winner = coding.decode(outputs, k)
    if coding.name == "one_vs_rest":
        best = np.partition(outputs, k - 2, axis=1)
        return best[:, -1] - best[:, -2]
    # the winner's weakest output: the first that could be lost
    won = outputs * coding.codes(k)[winner]
    return np.asarray(np.maximum(0.0, np.min(np.where(coding.codes(k)[winner] != 0, won, np.inf), axis=1)))


def agreement(model: Model, f: Array, g: Array) -> float:
    """Share of rows on which two machines with these outputs decide alike; for regression 1 - relative rms error."""
    if model.kind == "regressor":
        return 1.0 - relative_error(f, g)
    return float(np.mean(model.labels(model.scores(f)) == model.labels(model.scores(g))))


def relative_error(f: Array, g: Array) -> float:
    """Root mean square of f - g relative to the spread of f."""
    spread = float(np.sqrt(np.mean(np.square(f - f.mean(axis=0)))))
    return float(np.sqrt(np.mean(np.square(f - g)))) / max(spread, 1e-300)


def path_sizes(largest: int) -> list[int]:
    """Sizes from 8 on, each 1.4 times the one before, the last one `largest`.

    Examples
    --------
    >>> from kompakt.basis.matching import path_sizes
    >>> path_sizes(40)
    [8, 12, 16, 22, 31, 40]
    """
    sizes = []
    size = float(min(8, largest))
    while size < largest:
        sizes.append(int(np.ceil(size)))
        size *= 1.4
    return [s for s in sizes if s < largest] + [largest]


def _linear(model: Model, X: Any, plan: Plan) -> list[CompressionStep]:
    """A linear machine is exact with as many vectors as its outputs have independent directions."""
    W = model.weights.T @ model.basis  # (L, d)
    U, s, Vt = np.linalg.svd(W, full_matrices=False)
    rank = max(1, int(np.sum(s > max(W.shape) * np.finfo(float).eps * s[0])) if s[0] > 0 else 1)
    rows = matching_rows(model, X, plan)[0]
    outputs = plain_model(model).outputs(rows)
    test, stop = (ArrayRows(rows[part], outputs[part]) for part in _parts(rows, plan)[:2])
    steps: list[CompressionStep] = []
    inputs, began = replace(model.inputs, centre=None), time.monotonic()
    for size in sorted({min(rank, size) for size in plan.sizes or ()}):
        smaller = replace(model, basis=Vt[:size], weights=(U[:, :size] * s[:size]).T, inputs=inputs, storage=None)
        norm_error = float(np.sqrt(np.sum(s[size:] ** 2) / max(np.sum(s**2), 1e-300)))
        seconds = time.monotonic() - began
        steps.append(_measured(model, smaller, test, stop, norm_error, seconds))
        if plan.tol is not None and 1.0 - steps[-1].stop_agreement <= plan.tol:
            break
    return steps
