"""Matching a known function f by a machine g on few vectors: the objective that `compress` minimises.

    J(Z) = min over beta, b:  1/2 |f - g|_H^2  +  C/2 sum_i s_i |f(x_i) - g(x_i)|^2,   g = sum_j beta_j k(., z_j) + b

f itself is an expansion, f = sum_s A_s k(., x_s) + b_f, so the norm of the difference is known exactly:
|f - g|_H^2 = |f|^2 + beta' K_zz beta - 2 sum_j beta_j' (f(z_j) - b_f).  Drawing g towards f instead of towards zero
makes the norm work as infinitely many rows everywhere; it is what keeps the match on rows that were not shown.  Its
derivative is that of rows at the x_s with slopes -A_s, so one loop over rows serves both parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from kompakt.design import Factor, choose_block_rows, factorise
from kompakt.kernels import Kernel
from kompakt.rows import ArrayRows, RowBlock

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
