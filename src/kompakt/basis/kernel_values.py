"""Kernel values for the semiparametric machine: from rows, or from a kernel matrix that is there already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.basis.columns import KernelColumns
from kompakt.data import ArrayRows
from kompakt.design import choose_block_rows
from kompakt.kernels import Kernel, Precomputed

Array = np.ndarray


@dataclass(frozen=True)
class RowValues:
    """Kernel values computed from the rows when asked for.

    Parameters
    ----------
    columns : KernelColumns
        Over all rows; it counts the evaluations, and keeps columns where it has a cache.
    train, held : ndarray of int
        Numbers of the training rows and of the held-out rows.
    vectors : ndarray of shape (m, d)
        First basis vectors, in the rows' (centred) coordinates.
    """

    columns: KernelColumns
    train: Array
    held: Array
    vectors: Array

    def of_rows(self, indices: Array) -> tuple[Array, Array]:
        """Training rows, given by their places, against training rows and held-out rows."""
        return self._split(self.columns.columns(self.train[indices]))

    def of_vectors(self) -> tuple[Array, Array, Array]:
        """The first vectors against training rows, held-out rows and themselves."""
        rows = self.columns.rows
        values = self.columns.pairs(np.arange(rows.n_rows), self.vectors)
        self.columns.n_evals += len(self.vectors) ** 2
        return *self._split(values.T), self.columns.kernel.gram(self.vectors)

    def diagonal(self, indices: Array) -> Array:
        """k(x, x) of training rows."""
        return self.columns.diagonal(self.train[indices])

    def _split(self, values: Array) -> tuple[Array, Array]:
        if not len(self.held) and len(self.train) == values.shape[1]:
            return values, values[:, :0]
        return values[:, self.train], values[:, self.held]


@dataclass(frozen=True)
class MatrixValues:
    """Kernel values of one fold, read from matrices that many machines share."""

    train: Array  # (P, P)
    held: Array  # (P, H): training rows against held-out rows
    vectors: tuple[Array, Array, Array]  # first vectors against training rows, held-out rows and themselves

    def of_rows(self, indices: Array) -> tuple[Array, Array]:
        """Training rows against training rows and held-out rows."""
        return self.train[indices], self.held[indices]

    def of_vectors(self) -> tuple[Array, Array, Array]:
        """The first vectors against training rows, held-out rows and themselves."""
        return self.vectors

    def diagonal(self, indices: Array) -> Array:
        """k(x, x) of training rows."""
        return self.train[indices, indices]


def class_means(rows: ArrayRows, kernel: Kernel, labels: Array | None, train: Array) -> Array:
    """Weighted mean of the training rows of every class (seed 000, Table 1, step 0); of all rows without classes.

    A precomputed kernel knows no mean: the row nearest to it in the kernel's space stands in.
    """
    groups = [train] if labels is None else [train[labels[train] == c] for c in np.unique(labels[train])]
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    weights = weights if weights.ndim == 1 else weights.max(axis=1)
    if isinstance(kernel, Precomputed):
        return kernel.take_basis(rows, np.array([_nearest(kernel, group, weights) for group in groups]))
    return np.stack([_mean(rows, group, weights[group]) for group in groups])


def _mean(rows: ArrayRows, group: Array, weights: Array) -> Array:
    part = ArrayRows(rows.X[group], offset=rows.offset)
    step = choose_block_rows(rows.n_features)

    def one(block: Any) -> tuple[Array, ...]:
        return (np.asarray(block.X.T @ weights[block.start : block.stop], dtype=np.float64).ravel(),)

    total = part.map_reduce(one, step)[0]
    return (total / weights.sum()).astype(rows.dtype)


def _nearest(kernel: Precomputed, group: Array, weights: Array) -> int:
    K = kernel.training[group][:, group]
    K = np.asarray(K.toarray() if sparse.issparse(K) else K, dtype=np.float64)
    distance = np.diag(K) - 2.0 * (K @ weights[group]) / weights[group].sum()
    return int(group[int(np.argmin(distance))])


def column_source(rows: ArrayRows, kernel: Kernel) -> KernelColumns:
    """Kernel columns of the rows, counted."""
    return KernelColumns(rows, kernel, choose_block_rows(rows.n_features))
