"""Tests for parts of your own: contract suites, naive versions to compare with, and a kernel that counts.

A contract suite says what a new kernel, loss, row source, selector or solver must do to work with the rest of
kompakt: a plain function that raises AssertionError with a text that says what is wrong.  kompakt's own parts pass them
in its tests; see docs/extending.md for parts of your own.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.optimize import lsq_linear

from kompakt.data import ArrayRows, RowBlock, RowReader, Rows, Source, StreamedRows
from kompakt.design import Design
from kompakt.kernels import RBF, Kernel
from kompakt.kernels.base import dense
from kompakt.losses import Loss, PiecewiseLinear, SquaredHinge
from kompakt.parallel import block_threads
from kompakt.run import Run
from kompakt.solve import Problem, Settings, Solution
from kompakt.spec import Basis, Data, Selector, Spec

__all__ = [
    "CountingKernel", "check_kernel", "check_loss", "check_rows", "check_selector", "check_solver", "check_source",
    "finite_difference", "naive_block", "naive_objective", "stationarity",
]  # fmt: skip

Array = np.ndarray


# -- contracts ---------------------------------------------------------------------------------------------


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _close(actual: Any, expected: Any, tolerance: float, message: str) -> None:
    actual, expected = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    _require(actual.shape == expected.shape, f"{message}: shape {actual.shape}, expected {expected.shape}.")
    worst = float(np.max(np.abs(actual - expected), initial=0.0)) / scale
    _require(worst <= tolerance, f"{message}: off by {worst:.1e} relative, allowed {tolerance:.0e}.")


def check_kernel(kernel: Kernel, n_features: int = 3, seed: int = 0) -> None:
    """Check a kernel: values, dtypes, sparse rows, `pre` and `finish`, diagonal, positive gram, scaling, derivatives.

    Examples
    --------
    >>> from kompakt.kernels import RBF
    >>> from kompakt.testing import check_kernel
    >>> check_kernel(RBF(0.5))
    """
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((7, n_features)), rng.standard_normal((4, n_features))
    K = kernel.block(X, Z)
    _require(K.shape == (7, 4) and K.dtype == np.float64, "block must give float64 (n, m) for float64 rows.")
    _close(K, naive_block(kernel, X, Z), 1e-12, "a block must hold the values of its pairs")
    _close(kernel.finish(kernel.pre(X, Z)), K, 1e-12, "finish(pre(X, Z)) must equal block(X, Z)")
    single = kernel.block(X.astype(np.float32), Z.astype(np.float32))
    _require(single.dtype == np.float32, f"float32 rows must give float32 values, not {single.dtype}.")
    _close(single, K, 1e-4, "float32 values")
    _close(kernel.block(sparse.csr_matrix(X), Z), K, 1e-12, "CSR rows must give the values of dense rows")
    _close(kernel.diag(X), np.diag(naive_block(kernel, X, X)), 1e-12, "diag must be k(x, x)")
    G = kernel.gram(Z)
    _require(np.array_equal(G, G.T), "gram must be exactly symmetric.")
    smallest, largest = float(np.min(np.linalg.eigvalsh(G))), float(np.max(np.diag(G)))
    _require(smallest >= -1e-10 * largest, f"gram must be positive semidefinite; eigenvalue {smallest:.1e}.")
    if kernel.shift_invariant:
        _close(kernel.block(X + 5.0, Z + 5.0), K, 1e-9, "a shift-invariant kernel must not see a common shift")
    _check_scaling(kernel, X, Z, K)
    if not kernel.differentiable:
        return
    W = rng.standard_normal((len(X), len(Z)))
    d_basis, d_theta = kernel.gradients(X, Z, K, W.copy())
    numeric = finite_difference(lambda z: float(np.sum(W * kernel.block(X, z))), Z)
    _close(d_basis, numeric, 1e-6, "the derivative with respect to the basis")
    theta = kernel.theta
    _require(d_theta.shape == theta.shape, f"gradients must have theta's shape {theta.shape}; got {d_theta.shape}.")
    _close(kernel.with_theta(theta).block(X, Z), K, 1e-12, "with_theta(theta) must give the same kernel")
    if len(theta):
        numeric = finite_difference(lambda t: float(np.sum(W * kernel.with_theta(t).block(X, Z))), theta)
        _close(d_theta, numeric, 1e-6, "the derivative with respect to theta")


def _check_scaling(kernel: Kernel, X: Array, Z: Array, K: Array) -> None:
    """Check `scaled`: factors multiply, and of a function of differences nothing is left but k(x, x) near factor 0."""
    if kernel.scaled(2.0) is kernel:
        return
    _close(kernel.scaled(1.0).block(X, Z), K, 1e-12, "scaled(1) must give the same kernel")
    _close(kernel.block(X, Z), K, 1e-12, "scaled must leave the kernel itself as it is")
    once, twice = kernel.scaled(6.0), kernel.scaled(2.0).scaled(3.0)
    _close(twice.block(X, Z), once.block(X, Z), 1e-12, "scaled(2).scaled(3) must equal scaled(6)")
    if kernel.shift_invariant:
        flat = np.broadcast_to(kernel.diag(X)[:, None], K.shape)
        _close(kernel.scaled(1e-12).block(X, Z), flat, 1e-9, "scaled(factor) must go to k(x, x) with the factor")


def check_loss(loss: Loss, seed: int = 0) -> None:
    """Check a loss: non-negative, convex, derivatives by finite differences, kinks of a piecewise linear one.

    Examples
    --------
    >>> from kompakt.losses import SquaredHinge
    >>> from kompakt.testing import check_loss
    >>> check_loss(SquaredHinge())
    """
    _require(loss.for_classes or loss.for_regression, "a loss must say what it is for: for_classes or for_regression.")
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], 200) if loss.for_classes else rng.standard_normal(200)
    f = 2.0 * rng.standard_normal(200)
    step = 1e-6
    values = loss.value(y, f)
    _require(values.shape == (200,) and np.all(values >= 0), "a loss must be non-negative, one value per element.")
    numeric = (loss.value(y, f + step) - loss.value(y, f - step)) / (2 * step)
    smooth = np.abs(loss.gradient(y, f + 2 * step) - loss.gradient(y, f - 2 * step)) < 1e-4
    _require(smooth.mean() > 0.9, "the derivative jumps at more than a tenth of random points.")
    _close(loss.gradient(y, f)[smooth], numeric[smooth], 1e-5, "the derivative with respect to f")
    slopes = (loss.gradient(y, f + step) - loss.gradient(y, f - step)) / (2 * step)
    bends = np.abs(loss.curvature(y, f + 2 * step) - loss.curvature(y, f - 2 * step)) < 1e-9
    _close(loss.curvature(y, f)[smooth & bends], slopes[smooth & bends], 1e-4, "the curvature")
    middle = loss.value(y, f + 0.5) <= 0.5 * (values + loss.value(y, f + 1.0)) + 1e-12
    _require(middle.all(), "a loss must be convex in f.")
    _require(np.all(loss.curvature(y, f) >= 0), "curvature must not be negative.")
    form = loss.ramps(1)
    if form is not None:  # what compiled loops see
        r, orientation = (y - f, -1.0) if form.regression else (1.0 - y * f, -y)
        low, high, rate, anchor = form.ramps[0].T
        slope = form.base[0, 0] + np.sum(rate * (np.clip(r[:, None], low, high) - anchor), axis=1)
        _close(loss.gradient(y, f), orientation * slope, 1e-9, "the derivative as a sum of ramps")
    if isinstance(loss, PiecewiseLinear):
        kinks, line = loss.kinks, loss.slopes
        _require(len(line) == len(kinks) + 1, "a piecewise linear loss has one slope more than kinks.")
        _require(np.all(np.diff(kinks) >= 0) and np.all(np.diff(line) >= 0), "kinks and slopes must ascend.")


def check_rows(rows: Rows, twin: Any, targets: Array | None = None) -> None:
    """Check a row source against a dense twin (n, d): shape, blocks of any size, sums, rows by number.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.testing import check_rows
    >>> check_rows(ArrayRows(np.eye(5)), np.eye(5))
    """
    n, d = twin.shape
    shape = f"{rows.n_rows} x {rows.n_features}"
    _require((rows.n_rows, rows.n_features) == (n, d), f"the source says {shape}, expected {n} x {d}.")

    def sums(block: RowBlock) -> tuple[Array, Array]:
        return dense(block.X).sum(axis=0, dtype=float), np.array(len(block))

    for size in (1, max(1, n // 3), n, n + 5):
        total, count = rows.map_reduce(sums, size)
        _close(total, twin.sum(axis=0), 1e-10, f"sums over blocks of {size} rows")
        _require(int(count) == n, f"blocks of {size} rows hold {int(count)} rows, expected {n}.")
    block = rows.block(n // 3, n)
    _close(dense(block.X), twin[n // 3 :], 1e-10, "the rows of a block")
    index = np.arange(n)[::-2]
    _close(dense(rows.take(index)), twin[index], 1e-10, "rows by number")
    if targets is not None:
        _require(block.targets is not None, "the source has targets but its blocks have none.")
        _close(block.targets, targets[n // 3 :], 0.0, "the targets of a block")


def check_source(source: Source, X: Any, y: Array | None = None, w: Array | None = None) -> None:
    """Check a source of raw rows against what it should read: any range, threads, pickling, and passes over it.

    Parameters
    ----------
    source : Source
    X : ndarray or CSR matrix of shape (n, d)
        The rows, of the source's own type.
    y, w : ndarray, optional

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data import IterableSource
    >>> from kompakt.testing import check_source
    >>> X, y = np.arange(12.0).reshape(6, 2), np.arange(6)
    >>> check_source(IterableSource([(X[:4], y[:4]), (X[4:], y[4:])]), X, y)
    """
    n, d = X.shape
    _require(source.shape == (n, d), f"the source says {source.shape}, expected {(n, d)}.")
    _require(source.dtype == X.dtype, f"the source says {source.dtype}, expected {X.dtype}.")
    _require(source.is_sparse == sparse.issparse(X), "is_sparse must say whether X is CSR.")
    columns = 0 if y is None else 1 if y.ndim == 1 else y.shape[1]
    _require(source.n_targets == columns, f"n_targets is {source.n_targets}, expected {columns}.")
    _require(source.has_weight == (w is not None), "has_weight must say whether there are weights.")
    _require("0" in source.where(0), "where(row) must name the row.")

    for copy in (source, pickle.loads(pickle.dumps(source))):
        for start, stop in ((0, n), (n // 3, n // 2), (0, 1), (n - 1, n), (1, n)):
            raw = copy.read(start, stop)
            _require(raw.X.dtype == X.dtype, f"rows of type {raw.X.dtype}, expected {X.dtype}.")
            _require(np.array_equal(dense(raw.X), dense(X[start:stop])), f"rows {start}..{stop} are other rows.")
            for name, values, expected in (("y", raw.y, y), ("w", raw.w, w)):
                _require((values is None) == (expected is None), f"{name} of rows {start}..{stop} is missing.")
                if values is not None and expected is not None:
                    _require(np.array_equal(values, expected[start:stop]), f"{name} of rows {start}..{stop} differs.")
    twin, streamed = ArrayRows(X), StreamedRows(RowReader(source))
    check_rows(streamed, np.asarray(dense(X), dtype=float))

    def sums(block: RowBlock) -> tuple[Array, ...]:
        rows = dense(block.X)
        return rows.T @ rows, rows.sum(axis=0)

    for threads in (1, 3):
        with block_threads(threads):
            for actual, expected in zip(streamed.map_reduce(sums, 5), twin.map_reduce(sums, 5), strict=True):
                _require(np.array_equal(actual, expected), "sums over streamed rows differ from those in memory.")
    for repeated in (False, True):
        actual, expected = (rows.smallest(3, 4, repeated=repeated) for rows in (streamed, twin))
        _require(np.array_equal(actual, expected), "other rows have the smallest hashes.")


def check_selector(selector: Selector, seed: int = 0) -> None:
    """Check a selector: number, membership, repeatability, no duplicates, indifference to the order of rows.

    Examples
    --------
    >>> from kompakt.basis import RandomSelector
    >>> from kompakt.testing import check_selector
    >>> check_selector(RandomSelector())
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80, 3))
    X[40:50] = X[:10]  # duplicates
    y = np.where(X[:, :1] > 0, 1.0, -1.0)

    def select(rows: Array) -> Basis:
        labels = (y[rows, 0] > 0).astype(int)
        data = Data(ArrayRows(X[rows], y[rows]), classes=np.arange(2), labels=labels)
        return selector.select(data, Spec(RBF(0.5), SquaredHinge()), 12, Run(key=5))

    first, repeated, permuted = select(np.arange(80)), select(np.arange(80)), select(rng.permutation(80))
    _require(0 < first.n_basis <= 12, f"asked for 12 vectors, got {first.n_basis}.")
    _require(first.vectors.shape == (first.n_basis, 3), f"vectors have shape {first.vectors.shape}, expected (m, 3).")
    _require(np.array_equal(first.vectors, repeated.vectors), "the same key must give the same vectors.")
    if first.indices is not None:
        _close(first.vectors, X[first.indices], 0.0, "indices must name the rows that became vectors")
        _require(len(np.unique(first.vectors, axis=0)) == first.n_basis, "a row must not be chosen twice.")
        same = {tuple(v) for v in first.vectors} == {tuple(v) for v in permuted.vectors}
        _require(same, "the choice must not depend on the order of the rows.")


def check_solver(solver: Callable[[Problem, Array | None, Settings], Solution], loss: Loss, seed: int = 0) -> None:
    """Check a solver for a loss: optimality conditions, weights, several outputs, intercepts, warm start.

    Examples
    --------
    >>> from kompakt.losses import SquaredHinge
    >>> from kompakt.solve import solve
    >>> from kompakt.testing import check_solver
    >>> check_solver(solve, SquaredHinge())
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((70, 3))
    raw = np.column_stack([X[:, 0] * X[:, 1], np.sin(X[:, 2])]) + 0.3 * rng.standard_normal((70, 2))
    y = np.where(raw > 0, 1.0, -1.0) if loss.for_classes else raw
    for weights, penalize in ((None, False), (rng.uniform(0.2, 3.0, 70), True)):
        design = Design(ArrayRows(X, y, weights), RBF(0.4), X[:9], whiten=True)
        problem = Problem(design, loss, 2.0, penalize_intercept=penalize)
        solution = solver(problem, None, Settings(tol=1e-10))
        _require(solution.converged, f"the solver did not converge on an easy problem (loss {loss.name}).")
        for output in range(2):
            theta = solution.coordinates[:, output]
            off = stationarity(
                loss, 2.0, design.matrix, y[:, output], theta[:-1], theta[-1],
                sample_weight=weights, penalize_intercept=penalize,
            )  # fmt: skip
            _require(off <= 1e-6, f"output {output} is {off:.1e} away from its optimality conditions.")
        expected = design.to_weights(solution.coordinates[:-1])
        _close(solution.weights, expected, 1e-9, "weights must be those of the basis")
        warm = solver(problem, solution.coordinates, Settings(tol=1e-10))
        _close(warm.objective, solution.objective, 1e-7, "a warm start must end at the same objective")


# -- naive versions, written from the formula alone --------------------------------------------------------


def naive_block(kernel: Kernel, X: Array, Z: Array) -> Array:
    """Kernel values one pair at a time, in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import Linear
    >>> from kompakt.testing import naive_block
    >>> naive_block(Linear(), np.eye(2), np.ones((1, 2)))
    array([[1.],
           [1.]])
    """
    X, Z = np.asarray(X, dtype=np.float64), np.asarray(Z, dtype=np.float64)
    return np.array([[float(kernel.block(x[None], z[None])[0, 0]) for z in Z] for x in X])


def finite_difference(function: Callable[[Array], float], at: Array, step: float = 1e-6) -> Array:
    """Central differences of a scalar function with respect to every entry of `at`.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.testing import finite_difference
    >>> finite_difference(lambda x: float(np.sum(x**2)), np.array([1.0, -3.0])).round(6)
    array([ 2., -6.])
    """
    at = np.asarray(at, dtype=np.float64)
    result = np.empty_like(at)
    for index in np.ndindex(at.shape):
        width = step * max(1.0, abs(float(at[index])))
        above, below = at.copy(), at.copy()
        above[index] += width
        below[index] -= width
        result[index] = (function(above) - function(below)) / (2.0 * width)
    return result


def naive_objective(
    loss: Loss,
    C: float,
    K: Array,
    K_basis: Array,
    y: Array,
    weights: Array,
    intercept: float,
    *,
    sample_weight: Array | None = None,
    penalize_intercept: bool = False,
) -> float:
    """``1/2 beta' K_basis beta [+ 1/2 b^2] + C sum_i s_i loss(y_i, f_i)`` of one output, with f = K beta + b.

    Parameters
    ----------
    loss : Loss
    C : float
    K : ndarray of shape (n, m)
        Kernel values of the rows against the basis.
    K_basis : ndarray of shape (m, m)
    y : ndarray of shape (n,)
    weights : ndarray of shape (m,)
        The weights beta of the basis vectors.
    intercept : float
    sample_weight : ndarray of shape (n,), optional
    penalize_intercept : bool

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.losses import LeastSquares
    >>> from kompakt.testing import naive_objective
    >>> one = np.ones((1, 1))
    >>> naive_objective(LeastSquares(), 2.0, one, one, np.array([3.0]), np.array([1.0]), 0.0)
    4.5
    """
    f = K @ weights + intercept
    s = np.ones(len(y)) if sample_weight is None else sample_weight
    penalty = 0.5 * float(weights @ K_basis @ weights) + (0.5 * intercept**2 if penalize_intercept else 0.0)
    return penalty + C * float(np.dot(s, loss.value(y, f)))


def stationarity(
    loss: Loss,
    C: float,
    features: Array,
    y: Array,
    w: Array,
    intercept: float,
    *,
    sample_weight: Array | None = None,
    fit_intercept: bool = True,
    penalize_intercept: bool = False,
    at_kink: float = 1e-7,
) -> float:
    """How far a point is from the optimality conditions, relative to the terms of the gradient: 0 at the minimum.

    The objective is ``1/2 |w|^2 + C sum_i s_i loss(y_i, f_i)`` with f = features w + b.  For a piecewise linear
    loss the rows within `at_kink` of a kink may take any slope between those beside it; the slopes that make the
    gradient smallest are found by bounded least squares, independently of any solver of kompakt.

    Parameters
    ----------
    loss : Loss
    C : float
    features : ndarray of shape (n, m)
    y : ndarray of shape (n,)
    w : ndarray of shape (m,)
    intercept : float
    sample_weight : ndarray of shape (n,), optional
    fit_intercept, penalize_intercept : bool
    at_kink : float
        Distance from a kink at which a row counts as lying on it.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.losses import Absolute
    >>> from kompakt.testing import stationarity
    >>> y = np.array([1.0, 2.0, 9.0])
    >>> none = np.zeros((3, 1))
    >>> stationarity(Absolute(), 1.0, none, y, np.zeros(1), 2.0) < 1e-9  # the median
    True
    >>> stationarity(Absolute(), 1.0, none, y, np.zeros(1), 4.0) > 0.3
    True
    """
    features = np.asarray(features, dtype=np.float64)
    s = np.ones(len(y)) if sample_weight is None else sample_weight
    f = features @ w + intercept
    A = np.column_stack([features, np.ones(len(y))]) if fit_intercept else features
    theta = np.append(w, intercept if penalize_intercept else 0.0) if fit_intercept else np.asarray(w)
    slopes = loss.gradient(y, f)
    # the last term keeps the measure sound where every loss and every weight is zero
    scale = float(np.linalg.norm(w) + C * np.sum(s * np.abs(slopes)) + 1e-6 * C * np.sum(s))
    if not isinstance(loss, PiecewiseLinear):
        return float(np.linalg.norm(theta + C * A.T @ (s * slopes))) / scale
    r = loss.residual(y, f)
    kink = np.argmin(np.abs(r[:, None] - loss.kinks), axis=1)
    free = (np.abs(r - loss.kinks[kink]) <= at_kink) & (s > 0)
    fixed = theta + C * A.T @ np.where(free, 0.0, s * slopes)
    if not free.any():
        return float(np.linalg.norm(fixed)) / scale
    pulls: Any = (C * s * loss.orientation(y))[free, None] * A[free]
    low, high = loss.slopes[kink[free]], loss.slopes[kink[free] + 1]
    multipliers = lsq_linear(pulls.T, -fixed, bounds=(low, high), method="bvls", tol=1e-15, max_iter=10 * len(low))
    scale += C * float(np.sum(s[free] * np.abs(multipliers.x)))
    return float(np.linalg.norm(fixed + pulls.T @ multipliers.x)) / scale


@dataclass(frozen=True, eq=False)
class CountingKernel(Kernel):
    """Wrap a kernel and count its evaluations: what an estimator reports can then be checked.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> from kompakt.testing import CountingKernel
    >>> kernel = CountingKernel(RBF(1.0))
    >>> _ = kernel.block(np.zeros((3, 1)), np.zeros((2, 1)))
    >>> kernel.evaluations
    6
    """

    kernel: Kernel
    counts: list[int] = field(default_factory=list)  # appending is safe from several threads
    name: ClassVar[str] = "counting"

    @property
    def evaluations(self) -> int:
        """Values computed so far."""
        return sum(self.counts)

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        return self.kernel.shift_invariant

    @property
    def differentiable(self) -> bool:  # type: ignore[override]
        return self.kernel.differentiable

    def pre(self, X: Any, Z: Array) -> Array:
        self.counts.append(X.shape[0] * len(Z))
        return self.kernel.pre(X, Z)

    def finish(self, pre: Array) -> Array:
        return self.kernel.finish(pre)

    def diag(self, X: Any) -> Array:
        return self.kernel.diag(X)

    def scaled(self, factor: float) -> Kernel:
        kernel = self.kernel.scaled(factor)
        return self if kernel is self.kernel else CountingKernel(kernel, self.counts)

    @property
    def theta(self) -> Array:
        return self.kernel.theta

    def with_theta(self, theta: Array) -> Kernel:
        return CountingKernel(self.kernel.with_theta(theta), self.counts)

    def gradients(self, X: Any, Z: Array, K: Array, W: Array) -> tuple[Array, Array]:
        return self.kernel.gradients(X, Z, K, W)

    def spec(self) -> dict[str, Any]:
        return self.kernel.spec()
