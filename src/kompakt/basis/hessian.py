"""Algebra of the Hessian while a basis grows: borders and weighted Gram matrices of some rows."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from kompakt.basis.blocks import RowBlocks
from kompakt.linalg import Factor

Array = np.ndarray


def weighted_gram(A: Array, rows: Array, weights: Array) -> Array:
    """A' diag(weights) A over some rows of A; one weight for each of these rows."""

    def one(part: slice) -> tuple[Array, ...]:
        taken = A[rows[part]]
        return (taken.T @ (taken * weights[part, None]),)

    return RowBlocks(len(rows), 2048).total(one)[0]


def bordered(factor: Factor, side: Array, corner: float) -> tuple[Factor, Array]:
    """Factor of [[H, side], [side', corner]] and the last column of its inverse."""
    p = len(side)
    upper = solve_triangular(factor.R, side, trans="T", check_finite=False) if p else side
    # the corner is at least 1 + |upper|^2 in exact arithmetic: the new coordinate is penalised
    square = max(corner - float(upper @ upper), 1.0)
    R = np.zeros((p + 1, p + 1))
    R[:p, :p] = factor.R
    R[:p, p] = upper
    R[p, p] = np.sqrt(square)
    last = np.append(-solve_triangular(factor.R, upper, check_finite=False) if p else upper, 1.0) / square
    return Factor(R, factor.jitter), last
