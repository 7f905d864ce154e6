"""The values of rows against a basis by blocks, raw or whitened, stored or computed anew in every pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from kompakt.data import ArrayRows, RowBlock, Rows, TreeSum
from kompakt.kernels import Kernel, Linear
from kompakt.linalg import Factor, factorise, multiply_upper
from kompakt.run import DEFAULT_BUDGET

Array = np.ndarray
PassFunction = Callable[[Array, RowBlock], tuple[Array, ...]]

#: rows of the smallest block; tests change it, to see that results do not depend on where blocks end
_LEAST_ROWS = 1024


def choose_block_rows(width: int, n_rows: int | None = None) -> int:
    """Rows per block: about a thousand, more where rows are short: a block stays in cache, and Python out of it.

    Where the number of all rows is given, no thread ends up with a block more than the others (`even_blocks`).
    """
    block_rows = _LEAST_ROWS * min(8, max(1, (1 << 18) // (_LEAST_ROWS * max(1, width))))
    return block_rows if n_rows is None else even_blocks(n_rows, block_rows)


def even_blocks(n_rows: int, most_rows: int) -> int:
    """Rows per block, at most `most_rows`, that make blocks alike and their number one that two or four threads share.

    Examples
    --------
    >>> from kompakt.design import even_blocks
    >>> even_blocks(10_000, 2048)
    1250
    """
    if n_rows <= most_rows:
        return most_rows
    return -(-n_rows // (4 * -(-n_rows // (4 * most_rows))))


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
        block_rows: int | None = None,
    ) -> None:
        self.rows, self.kernel, self.basis = rows, kernel, np.asarray(basis)
        self.n_kernel_evals = self.n_passes = 0
        m = len(self.basis)
        self.block_rows = block_rows or choose_block_rows(max(m, rows.n_features), rows.n_rows)
        self.factor: Factor | None = None
        self._inverse: Array | None = None
        if whiten:
            self.factor = factorise(kernel.gram(self.basis), dtype=rows.dtype, what="kernel matrix of the basis")
            self.n_kernel_evals += m * m
            self._inverse = self.factor.inverse()
        self.block_dtype = np.result_type(rows.dtype, np.float32)
        if store is None:
            budget = DEFAULT_BUDGET if memory_budget is None else memory_budget
            store = not rows.streamed and rows.n_rows * m * self.block_dtype.itemsize <= budget
        self._values: Array | None = None
        if store:
            if not isinstance(rows, ArrayRows):
                raise TypeError("values of streamed rows are computed anew in every pass; pass store=False or None.")
            self._values = np.empty((rows.n_rows, m), dtype=self.block_dtype)
            rows.for_each(self._store, self.block_rows)
            self.n_kernel_evals += rows.n_rows * m

    def _store(self, block: RowBlock) -> None:
        """Compute the values of a block, and keep them."""
        self.matrix[block.start : block.stop] = values_of(self.kernel, self.basis, self._inverse, block.X)

    # -- shape and conversions -----------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    @property
    def n_basis(self) -> int:
        return len(self.basis)

    @property
    def stored(self) -> bool:
        return self._values is not None

    @property
    def matrix(self) -> Array:
        """The stored values, (n, m)."""
        if self._values is None:
            raise ValueError("this design is recomputed by blocks and stores no values; pass store=True.")
        return self._values

    @property
    def jitter(self) -> float:
        return 0.0 if self.factor is None else self.factor.jitter

    def to_weights(self, coordinates: Array) -> Array:
        """Weights beta of the basis vectors from solver coordinates (m, L)."""
        if self.factor is None or not self.n_basis:
            return coordinates
        return np.asarray(solve_triangular(self.factor.R, coordinates, check_finite=False))

    def to_coordinates(self, weights: Array) -> Array:
        """Solver coordinates from weights beta (m, L)."""
        return weights if self.factor is None else np.triu(self.factor.R) @ weights

    # -- the one primitive, and the products built on it ---------------------------------------------

    def map_reduce(self, function: PassFunction, block_rows: int | None = None) -> tuple[Array, ...]:
        """Sum `function(values, block)` over the row blocks; values are (rows, m), sums float64."""
        self.n_passes += 1
        tree = TreeSum()
        for sums in self.rows.sums(self._on_values(function), block_rows or self.block_rows):
            tree.add(sums)
        return tree.total()

    def _on_values(self, function: Callable[[Array, RowBlock], Any]) -> Callable[[RowBlock], Any]:
        """From a function of values and their block to one of the block; picklable where values are not stored."""
        values = self._values
        if values is not None:
            return lambda block: function(values[block.start : block.stop], block)
        self.n_kernel_evals += self.n_rows * self.n_basis
        return partial(_of_computed_values, function, self.kernel, self.basis, self._inverse)

    def matvec(self, B: Array) -> Array:
        """Values times B (m, L), as float64 (n, L)."""
        B = B.astype(self.block_dtype)
        out = np.empty((self.n_rows, B.shape[1]))
        return self.rows.collect(self._on_values(lambda K, block: K @ B), self.block_rows, out)

    def collect(self, function: Callable[[Array, RowBlock], Array], out: Array) -> Array:
        """Write `function(values, block)`, one entry per row, into `out`."""
        return self.rows.collect(self._on_values(function), self.block_rows, out)

    def take(self, index: Array) -> Array:
        """The values of some rows, (len(index), m)."""
        if self._values is not None:
            return np.asarray(self._values[index])
        self.n_kernel_evals += len(index) * self.n_basis
        return values_of(self.kernel, self.basis, self._inverse, self.rows.take(index))

    def rmatvec(self, R: Array) -> Array:
        """Values' times R (n, L): (m, L)."""
        R = R.astype(self.block_dtype, copy=False)
        return self.map_reduce(lambda K, block: (K.T @ R[block.start : block.stop],))[0]


def values_of(kernel: Kernel, basis: Array, inverse: Array | None, X: Any) -> Array:
    """Values of rows against a basis, whitened by R^-1 if it is given."""
    K = kernel.block(X, basis)
    return K if inverse is None else multiply_upper(K, inverse)


def _of_computed_values(
    function: Callable[[Array, RowBlock], Any], kernel: Kernel, basis: Array, inverse: Array | None, block: RowBlock
) -> Any:
    return function(values_of(kernel, basis, inverse, block.X), block)


def weighted_gram(K: Array, d: Array) -> Array:
    """K' diag(d) K for d >= 0, through one symmetric product of the rows that count."""
    active = d.nonzero()[0]
    if len(active) < 0.8 * len(d):
        K, d = K.take(active, axis=0), d[active]
    if len(d) and (d.min() != 1.0 or d.max() != 1.0):
        K = K * np.sqrt(d).astype(K.dtype)[:, None]
    return np.asarray(K.T @ K)


class FeatureDesign(Design):
    """Given features Phi (n, m) with targets and weights; the penalty is |w|^2 and weights are w itself.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.design import FeatureDesign
    >>> FeatureDesign(np.eye(2), targets=np.ones((2, 1))).matvec(np.array([[1.0], [2.0]]))
    array([[1.],
           [2.]])
    """

    def __init__(
        self, features: Array, targets: Array, weights: Array | None = None, block_rows: int | None = None
    ) -> None:
        rows = ArrayRows(features, targets, weights)
        m = features.shape[1]
        super().__init__(rows, Linear(), np.zeros((0, m), dtype=features.dtype), store=False, block_rows=block_rows)
        self.basis = np.zeros((m, 0))  # the vectors themselves are not known here, only how many they are
        self._values = features
