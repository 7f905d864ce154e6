"""A design whose values are given: features in memory, already whitened."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from kompakt.data import ArrayRows, RowBlock, Rows
from kompakt.kernels import Kernel, Linear
from kompakt.linalg import Factor, border, factorise, multiply_upper

Array = np.ndarray
PassFunction = Callable[[Array, RowBlock], tuple[Array, ...]]

#: bytes that stored values may take when the user gives no `memory_budget`
DEFAULT_BUDGET = 1 << 30
#: rows of the smallest block; tests change it, to see that results do not depend on where blocks end
_LEAST_ROWS = 1024


def choose_block_rows(width: int) -> int:
    """Rows per block: about a thousand, more where rows are short: a block stays in cache, and Python out of it."""
    return _LEAST_ROWS * int(np.clip((1 << 18) // (_LEAST_ROWS * max(1, width)), 1, 8))


class Design:
    """Rows of a source against a basis, by blocks.

    Parameters
    ----------
    rows : Rows
    kernel : Kernel
    basis : ndarray of shape (m, d)
        In the coordinates of the rows' blocks (centred if they are).
    whiten : bool, default=False
        Give the features K R^-1 instead of the values K.
    store : bool, default=None
        Keep the values; None keeps them if they fit the budget and the rows are not streamed.
    memory_budget : int, default=None
        Bytes that stored values may take; None means 1 GiB.
    capacity : int, default=None
        Number of columns to reserve for `append`.
    block_rows : int, default=None
        Rows per block; None chooses about a thousand.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.design import Design
    >>> from kompakt.kernels import Linear
    >>> from kompakt.data import ArrayRows
    >>> design = Design(ArrayRows(np.eye(3)), Linear(), np.ones((1, 3)))
    >>> design.rmatvec(np.array([[1.0], [2.0], [3.0]]))
    array([[6.]])
    """

    def __init__(
        self,
        rows: Rows,
        kernel: Kernel,
        basis: Array,
        *,
        whiten: bool = False,
        store: bool | None = None,
        memory_budget: int | None = None,
        capacity: int | None = None,
        block_rows: int | None = None,
    ) -> None:
        self.rows, self.kernel, self.whiten = rows, kernel, whiten
        self.basis = np.asarray(basis)
        self.n_kernel_evals = 0
        self.n_passes = 0
        m = len(self.basis)
        columns = max(m, capacity or 0)
        self.block_rows = block_rows or choose_block_rows(max(columns, rows.n_features))
        self.factor: Factor | None = None
        if whiten:
            self.factor = factorise(kernel.gram(self.basis), dtype=rows.dtype, what="kernel matrix of the basis")
            self.n_kernel_evals += m * m
            self._inverse = self.factor.inverse()
        self.block_dtype = np.result_type(rows.dtype, np.float32)
        budget = DEFAULT_BUDGET if memory_budget is None else memory_budget
        fits = not rows.streamed and rows.n_rows * columns * self.block_dtype.itemsize <= budget
        self.stored = fits if store is None else store
        self._values: Array | None = None
        if self.stored:
            self._values = np.empty((rows.n_rows, columns), dtype=self.block_dtype)
            self._fill(self._values, 0, self.basis)

    # -- shape and conversions -----------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    @property
    def n_basis(self) -> int:
        return len(self.basis)

    @property
    def matrix(self) -> Array:
        """The stored values, (n, m)."""
        if self._values is None:
            raise ValueError("this design is recomputed by blocks and stores no values; pass store=True.")
        return self._values[:, : self.n_basis]

    @property
    def jitter(self) -> float:
        return 0.0 if self.factor is None else self.factor.jitter

    def to_weights(self, coordinates: Array) -> Array:
        """Weights beta of the basis vectors from solver coordinates (m, L)."""
        if self.factor is None:
            return coordinates
        return solve_triangular(self.factor.R, coordinates, check_finite=False) if self.n_basis else coordinates

    def to_coordinates(self, weights: Array) -> Array:
        """Solver coordinates from weights beta (m, L)."""
        return weights if self.factor is None else np.triu(self.factor.R) @ weights

    # -- the one primitive ---------------------------------------------------------------------------

    def _raw(self, block: RowBlock, basis: Array) -> Array:
        return self.kernel.block(block.X, basis)

    def _block(self, block: RowBlock) -> Array:
        if self._values is not None:
            return self._values[block.start : block.stop, : self.n_basis]
        return compute_block(self.kernel, self.basis, self._inverse if self.whiten else None, block)

    def map_reduce(self, function: PassFunction) -> tuple[Array, ...]:
        """Sum `function(values, block)` over the row blocks; values are (rows, m), sums float64."""
        self.n_passes += 1
        if self._values is None:
            self.n_kernel_evals += self.n_rows * self.n_basis
            inverse = self._inverse if self.whiten else None
            run = partial(_computed_pass, self.kernel, self.basis, inverse, function)
            return self.rows.map_reduce(run, self.block_rows)
        return self.rows.map_reduce(lambda block: function(self._block(block), block), self.block_rows)

    # -- products built on it ------------------------------------------------------------------------

    def matvec(self, B: Array, out: Array | None = None) -> Array:
        """Values times B (m, L), as float64 (n, L)."""
        result = np.empty((self.n_rows, B.shape[1])) if out is None else out
        Bt = B.astype(self.block_dtype)
        if self._values is None:
            self.n_kernel_evals += self.n_rows * self.n_basis
            inverse = self._inverse if self.whiten else None
            run = partial(_computed_product, self.kernel, self.basis, inverse, Bt)
            return self.rows.collect(run, self.block_rows, result)
        return self.rows.collect(lambda block: self._block(block) @ Bt, self.block_rows, result)

    def take(self, index: Array) -> Array:
        """The values of some rows, (len(index), m)."""
        if self._values is not None:
            return self._values[index, : self.n_basis]
        self.n_kernel_evals += len(index) * self.n_basis
        K = self.kernel.block(self.rows.take(index), self.basis)
        return multiply_upper(K, self._inverse) if self.whiten else K

    def rmatvec(self, R: Array) -> Array:
        """Values' times R (n, L): (m, L)."""
        R = R.astype(self.block_dtype, copy=False)
        return self.map_reduce(lambda K, block: (K.T @ R[block.start : block.stop],))[0]

    def sandwich(self, D: Array | None = None) -> Array:
        """K' diag(D) K: D (n,) gives (m, m), D (n, L) gives (L, m, m); None means ones."""
        if D is None:
            return self.map_reduce(lambda K, block: (K.T @ K,))[0]
        many = D if D.ndim == 2 else D[:, None]

        def one(K: Array, block: RowBlock) -> tuple[Array, ...]:
            return (weighted_grams(K, many[block.start : block.stop]),)

        total = self.map_reduce(one)[0]
        return total if D.ndim == 2 else total[0]

    def basis_gradient(self, W: Callable[[Array, RowBlock], Array]) -> tuple[Array, Array]:
        """Derivatives of sum_ij W_ij k(x_i, c_j) with respect to the basis and the kernel's theta.

        `W(K, block)` gives the block's weights (rows, m); raw values K only (no whitening).
        """
        if self.whiten:
            raise ValueError("the gradient with respect to the basis needs a design of raw values (whiten=False).")
        return self.map_reduce(partial(_gradient_pass, self.kernel, self.basis, W))  # type: ignore[return-value]

    # -- growing -------------------------------------------------------------------------------------

    def kernel_matrix(self, out: Array) -> Array:
        """Fill a given (n, m) array with raw kernel values, block by block in parallel."""
        self.n_kernel_evals += self.n_rows * self.n_basis

        def one(block: RowBlock) -> None:
            out[block.start : block.stop] = self._raw(block, self.basis)

        self.rows.for_each(one, self.block_rows)
        return out

    def _fill(self, into: Array, first: int, vectors: Array) -> None:
        """Compute the columns of `vectors`, whitened if need be, into `into[:, first:]`."""
        self.n_kernel_evals += self.n_rows * len(vectors)
        stop = first + len(vectors)

        def one(block: RowBlock) -> None:
            K = self._raw(block, vectors)
            target = into[block.start : block.stop]
            if self.whiten:
                if not first:
                    multiply_upper(K, self._inverse, out=target[:, :stop])
                    return
                inverse = self._inverse.astype(K.dtype, copy=False)
                K = K @ inverse[first:stop, first:stop] + target[:, :first] @ self._lift.astype(K.dtype, copy=False)
            target[:, first:stop] = K

        self.rows.for_each(one, self.block_rows)

    def append(self, vectors: Array) -> None:
        """Add basis vectors; a stored design computes only the new columns."""
        old, k = self.n_basis, len(vectors)
        basis = np.concatenate([self.basis, vectors.astype(self.basis.dtype)])
        if self.whiten and self.factor is not None:
            everything = np.asarray(vectors, dtype=np.float64)
            cross = self.kernel.block(self.basis.astype(np.float64), everything) if old else np.zeros((0, k))
            corner = self.kernel.gram(everything)
            self.n_kernel_evals += k * (old + k)
            noise = float(np.finfo(self.rows.dtype).eps) * (old + k) * float(np.max(np.diag(corner)))
            self.factor = border(self.factor, cross, corner, noise)
            # new features: (k_new - Phi R12) R22^-1
            inverse = np.zeros((old + k, old + k))
            inverse[:old, :old] = self._inverse
            R12, R22 = self.factor.R[:old, old:], self.factor.R[old:, old:]
            inverse[old:, old:] = Factor(R22).inverse()
            self._lift = -R12 @ inverse[old:, old:]
            inverse[:old, old:] = self._inverse @ self._lift
            self._inverse = inverse
        if self._values is not None:
            if self._values.shape[1] < old + k:
                grown = np.empty((self.n_rows, max(old + k, 2 * old)), dtype=self.block_dtype)
                grown[:, :old] = self._values[:, :old]
                self._values = grown
            self._fill(self._values, old, basis[old:])
        self.basis = basis


def compute_block(kernel: Kernel, basis: Array, inverse: Array | None, block: RowBlock) -> Array:
    """Values of a block, whitened by R^-1 if it is given."""
    K = kernel.block(block.X, basis)
    return K if inverse is None else multiply_upper(K, inverse)


def _computed_pass(
    kernel: Kernel, basis: Array, inverse: Array | None, function: PassFunction, block: RowBlock
) -> tuple[Array, ...]:
    return function(compute_block(kernel, basis, inverse, block), block)


def _computed_product(kernel: Kernel, basis: Array, inverse: Array | None, B: Array, block: RowBlock) -> Array:
    return compute_block(kernel, basis, inverse, block) @ B


def _gradient_pass(
    kernel: Kernel, basis: Array, W: Callable[[Array, RowBlock], Array], K: Array, block: RowBlock
) -> tuple[Array, Array]:
    return kernel.gradients(block.X, basis, K, W(K, block))


def weighted_grams(K: Array, D: Array) -> Array:
    """K' diag(D[:, l]) K for every output l, as (L, m, m); rows of weight 0 are left out when they are many."""
    grams = np.empty((D.shape[1], K.shape[1], K.shape[1]), dtype=K.dtype)
    for output in range(D.shape[1]):
        grams[output] = weighted_gram(K, D[:, output])
    return grams


def weighted_gram(K: Array, d: Array) -> Array:
    """K' diag(d) K for d >= 0, through one symmetric product of the rows that count."""
    active = np.flatnonzero(d)
    rows: Any = K
    if len(active) < 0.8 * len(d):
        rows, d = K[active], d[active]
    if len(d) and (d[0] != 1.0 or np.any(d != d[0])):
        rows = rows * np.sqrt(d).astype(K.dtype)[:, None]
    return rows.T @ rows


class FeatureDesign(Design):
    """Given features Phi (n, m) with targets and weights; the penalty is |w|^2 and weights are w itself.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.design import FeatureDesign
    >>> FeatureDesign(np.eye(2), targets=np.ones((2, 1))).sandwich()
    array([[1., 0.],
           [0., 1.]])
    """

    def __init__(
        self, features: Array, targets: Array, weights: Array | None = None, block_rows: int | None = None
    ) -> None:
        rows = ArrayRows(features, targets, weights)
        m = features.shape[1]
        super().__init__(rows, Linear(), np.zeros((0, m), dtype=features.dtype), store=False, block_rows=block_rows)
        self.basis = np.zeros((m, 0))  # the vectors themselves are not known here, only how many they are
        self._values, self.stored = features, True
