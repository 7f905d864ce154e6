"""Cholesky factors that grow, and report the jitter they needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, lapack, solve_triangular

Array = np.ndarray


@dataclass(frozen=True)
class Factor:
    """Upper triangular R with R'R = A + jitter * I."""

    R: Array
    jitter: float = 0.0

    def solve(self, B: Array) -> Array:
        """(R'R)^-1 B."""
        return np.asarray(lapack.dpotrs(self.R, B, lower=0)[0]) if self.R.size else B.copy()

    def solve_transposed(self, B: Array) -> Array:
        """R'^-1 B."""
        return np.asarray(solve_triangular(self.R, B, trans="T", check_finite=False))

    def inverse(self) -> Array:
        """R^-1, upper triangular."""
        if not len(self.R):
            return self.R
        inverse, info = lapack.dtrtri(self.R)
        if info:
            raise LinAlgError("the triangular factor is singular.")
        return np.asarray(inverse)


#: from this size on a factorisation is worth a copy that lets other threads run; SciPy's routine holds them up
_SIDE_BY_SIDE = 256


def factorise(A: Array, *, dtype: np.dtype | type = np.float64, what: str = "matrix", relative: bool = False) -> Factor:
    """Cholesky factor of a positive semidefinite matrix with the smallest jitter that makes it sound.

    Sound means that every squared pivot stays above the rounding noise of the entries: `eps * m * scale` where eps is
    that of `dtype`, the type in which the rows of the design are computed, and scale the largest diagonal entry.
    Jitter is 0 or a power of ten times that.  With `relative` the scale of a pivot is its own diagonal entry, as for
    normal matrices of features in any units; the factor is that of A + jitter * diag(A).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.linalg import factorise
    >>> factorise(np.eye(2)).jitter
    0.0
    >>> 0 < factorise(np.ones((2, 2))).jitter < 1e-12
    True
    """
    A = np.asarray(A, dtype=np.float64)
    m = len(A)
    diagonal = A.diagonal()
    scale = float(diagonal.max(initial=0.0))
    if not np.isfinite(A).all():
        raise LinAlgError(
            f"the {what} has entries that are not finite: the inputs or the kernel parameters are too large. "
            "Scale the inputs, for example with StandardScaler."
        )
    if m == 0 or scale <= 0.0:
        return Factor(np.eye(m), 1.0 if m else 0.0)
    scales = np.where(diagonal > 0.0, diagonal, scale) if relative else scale
    share = float(np.finfo(dtype).eps) * m
    jitter = 0.0  # as a share of the scales
    while True:
        R = _upper(A + np.diag(np.broadcast_to(jitter * scales, m)) if jitter else A)
        if R is not None and (R.diagonal() ** 2 >= share * scales).all():
            return Factor(R, jitter if relative else jitter * scale)
        jitter = 10.0 * jitter if jitter else 2.0 * share
        if jitter > 1e3:
            raise LinAlgError(
                f"the {what} is not positive semidefinite: no jitter up to {jitter * scale:.1e} makes it so."
            )


def _upper(A: Array) -> Array | None:
    """R with R'R = A, None where there is none."""
    if len(A) < _SIDE_BY_SIDE:
        R, info = lapack.dpotrf(A, lower=0, clean=1)
        return None if info else R
    try:
        return np.linalg.cholesky(A).T
    except np.linalg.LinAlgError:
        return None


#: columns at a time in products with a triangular matrix: wide enough for full matrix-product speed
_TRIANGLE_STEP = 128


def multiply_upper(K: Array, U: Array, out: Array | None = None) -> Array:
    """K @ U for upper triangular U, leaving out the products with its zeros, into `out` (a slice will do).

    Panels of matrix products instead of the BLAS routine for triangles: NumPy's products let other threads run.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.linalg import multiply_upper
    >>> multiply_upper(np.ones((1, 2)), np.array([[1.0, 2.0], [0.0, 3.0]]))
    array([[1., 5.]])
    """
    m = U.shape[1]
    U = U.astype(K.dtype, copy=False)
    product = np.empty((len(K), m), dtype=K.dtype) if out is None else out
    for start in range(0, m, _TRIANGLE_STEP):
        stop = min(start + _TRIANGLE_STEP, m)
        np.matmul(K[:, :stop], U[:stop, start:stop], out=product[:, start:stop])
    return product


def border(factor: Factor, columns: Array, corner: Array, noise: float = 0.0) -> Factor:
    """Factor of [[A, B], [B', D]] from the factor of A: B = columns (m, k), D = corner (k, k).

    Squared pivots below `noise` are raised to it; the raise counts as jitter.
    """
    m, k = columns.shape
    upper = factor.solve_transposed(columns) if m else np.zeros((0, k))
    complement = corner - upper.T @ upper
    jitter = factor.jitter
    R22, info = lapack.dpotrf(complement, lower=0, clean=1)
    if info or np.min(np.diag(R22)) ** 2 < noise:
        lift = noise + max(0.0, -float(np.min(np.linalg.eigvalsh(0.5 * (complement + complement.T)))))
        lift = max(lift, float(np.finfo(np.float64).tiny))
        R22, info = lapack.dpotrf(complement + lift * np.eye(k), lower=0, clean=1)
        if info:
            raise LinAlgError("the bordered matrix is not positive definite; add jitter or drop the new column.")
        jitter = max(jitter, lift)
    R = np.zeros((m + k, m + k), order="F")
    R[:m, :m] = factor.R
    R[:m, m:] = upper
    R[m:, m:] = R22
    return Factor(R, jitter)
