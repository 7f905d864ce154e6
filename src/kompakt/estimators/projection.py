"""The greedy projection as a transformer (seed 004, algorithm 1 and eq. 3)."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kompakt.design import Factor, choose_block_rows
from kompakt.estimators.prepare import check_parameters, check_rows, checked_weights, resolve_kernel
from kompakt.estimators.samples import fit_on_sample
from kompakt.estimators.watch import CallbackSupportMixin, watched
from kompakt.kernels import Precomputed
from kompakt.rows import ArrayRows, RowBlock, Source, column_means
from kompakt.select import Projection, ProjectionSelector
from kompakt.threads import block_threads

Array = np.ndarray


class GreedyProjection(CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Represent rows by their projections on the images of few rows, chosen greedily.

    ``transform`` gives coordinates gamma(x) whose dot products approximate the kernel,
    ``gamma(x).gamma(z) = k(x, z)`` wherever the chosen vectors span the images, and are below it in norm by the
    representation error ``se(x) = k(x, x) - |gamma(x)|^2`` elsewhere.  The basis is a pivoted Cholesky factorisation
    of the kernel matrix.

    The coordinates of n training rows take n times `n_basis` kernel values, choosing the vectors some more: in all 1.0
    to 1.4 times as many with ``pivot="random"`` and 1.1 to 3 times with "max" (more for few rows and many vectors, and
    where errors decay fast); several times as many where the coordinates exceed `memory_budget` and are computed again
    for every batch of vectors.  `n_kernel_evals_` is the number.

    Parameters
    ----------
    n_basis : int, default=100
        Number of vectors at most.
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel, default="rbf"
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    epsilon : float, default=0.0
        Stop when ``se(x) < epsilon`` for all rows.
    pivot : {"max", "random"}, default="max"
        "max" adds the row with the largest error; "random" draws a row with probability proportional to weight times
        error, which gives a smaller mean error because the maximum is drawn to outliers.
    first : {"random", "norm"}, default="random"
        First vector: random, or the one of largest norm.
    batch : int, default=None
        With ``pivot="max"``, vectors chosen per step among the rows of largest error.  None takes as many as give the
        same result as one at a time.
    memory_budget : int, default=None
        Bytes for the coordinates of the training rows in `fit` (None: 1 GiB); beyond, they are recomputed, which takes
        several times as many kernel values.
    n_jobs : int, default=None
    random_state : int, RandomState or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
    basis_indices_ : ndarray of shape (n_basis_,) or None
        Row numbers in X; None after `partial_fit`.
    mse_, se_max_ : ndarray of shape (n_basis_,)
        Mean and largest representation error of the training rows with 1, 2, ... vectors; after `partial_fit`, of
        the last chunk together with the vectors chosen before.
    factor_ : ndarray of shape (n_basis_, n_basis_)
        R, upper triangular with ``R'R`` the kernel matrix of the basis.
    n_basis_, kernel_, gamma_, n_kernel_evals_

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt import GreedyProjection
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> projection = GreedyProjection(n_basis=50, epsilon=1e-3, random_state=0).fit(X)
    >>> projection.n_basis_ < 50, bool(projection.se_max_[-1] < 1e-3)
    (True, True)
    >>> projection.transform(X).shape == (200, projection.n_basis_)
    True
    """

    def __init__(
        self,
        n_basis: int = 100,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        epsilon: float = 0.0,
        pivot: str = "max",
        first: str = "random",
        batch: int | None = None,
        memory_budget: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_basis = n_basis
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.epsilon = epsilon
        self.pivot = pivot
        self.first = first
        self.batch = batch
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @watched
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> GreedyProjection:
        """Choose the basis.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Counts in the mean error and in random draws; rows of weight 0 are left out.

        Returns
        -------
        self
        """
        if isinstance(X, Source):
            return fit_on_sample(self, X, y, sample_weight, classifier=False, needs_target=False)
        self._fit(X, sample_weight, keep_features=False)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Choose the basis and return the coordinates of the training rows, which choosing has computed already.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        ndarray of shape (n_samples, n_basis_)
        """
        features = self._fit(X, sample_weight, keep_features=True)
        return self.transform(X) if features is None else features

    def _fit(self, X: Any, sample_weight: Any, *, keep_features: bool) -> Array | None:
        self._check()
        X, _ = check_rows(self, X)
        weights, kept = self._weights(X, sample_weight)
        every = X
        if kept is not None:
            X, weights = X[kept], weights[kept]  # type: ignore[index]
        with block_threads(self.n_jobs):
            kernel = resolve_kernel(self, X, weights)
            if isinstance(kernel, Precomputed):
                kernel = self._precomputed(every, kept)
            self._key = int(check_random_state(self.random_state).randint(2**31 - 1))
            self._offset = column_means(X, weights) if kernel.shift_invariant and not sparse.issparse(X) else None
            rows = ArrayRows(X, weights=weights, offset=self._offset)
            found = self._selector().run(rows, kernel, int(self.n_basis), key=self._key, keep_features=keep_features)
        indices = found.selection.indices
        assert indices is not None
        exact = X[indices]
        self._publish(found, kernel, exact.toarray() if sparse.issparse(exact) else np.array(exact))
        self.basis_indices_: Array | None = indices if kept is None else kept[indices]
        return found.features if kept is None else None

    def partial_fit(self, X: Any, y: Any = None) -> GreedyProjection:
        """Take in a chunk of rows, keeping the basis at `n_basis` vectors or fewer.

        Rows of the chunk that the basis does not represent are added.  Once there is no room, the basis is chosen
        anew among the old vectors and the chunk, and kept if its largest error on them is smaller.  The kernel's
        `gamma` is settled by the first chunk.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        if not hasattr(self, "kernel_"):
            self.fit(X)
            self.basis_indices_ = None
            return self
        self._check()
        X, _ = check_rows(self, X, reset=False)
        if isinstance(self.kernel_, Precomputed):
            raise TypeError("partial_fit is not possible with kernel='precomputed': its matrix is of one fixed set.")
        old: Any = self.basis_vectors_
        union = sparse.vstack([sparse.csr_matrix(old), X]).tocsr() if sparse.issparse(X) else np.concatenate([old, X])
        with block_threads(self.n_jobs):
            rows = ArrayRows(union, offset=self._offset)
            selector = self._selector()
            options: dict[str, Any] = {"key": self._key, "keep_features": False}
            limit = int(self.n_basis)
            found = selector.run(rows, self.kernel_, limit, given=np.arange(min(len(old), limit)), **options)
            if len(found.se_max) >= limit and found.se_max[-1] >= self.epsilon:
                other = selector.run(rows, self.kernel_, limit, **options)
                found = other if other.se_max[-1] < found.se_max[-1] else found
        exact: Any = union[found.selection.indices]
        self._publish(found, self.kernel_, exact.toarray() if sparse.issparse(exact) else np.array(exact))
        self.basis_indices_ = None
        return self

    def transform(self, X: Any) -> Array:
        """Coordinates gamma(x) of the rows in the orthonormal basis of the chosen vectors (eq. 3).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_basis_)
        """
        check_is_fitted(self, "kernel_")
        X, _ = check_rows(self, X, reset=False)
        rows = ArrayRows(X, offset=self._offset)
        basis = self._basis if rows.offset is None else self._basis - rows.offset
        dtype = np.result_type(rows.dtype, np.float32)
        inverse = Factor(self.factor_).inverse().astype(dtype)
        result = np.empty((rows.n_rows, self.n_basis_), dtype=dtype)

        def one(block: RowBlock) -> None:
            np.dot(self.kernel_.block(block.X, basis), inverse, out=result[block.start : block.stop])

        with block_threads(self.n_jobs):
            rows.for_each(one, choose_block_rows(max(self.n_basis_, rows.n_features)))
        return result

    # -- parts ---------------------------------------------------------------------------------------

    def _check(self) -> None:
        check_parameters(self)
        if not isinstance(self.n_basis, Integral):
            raise ValueError(f"n_basis must be a whole number of at least 1; got {self.n_basis!r}.")

    def _selector(self) -> ProjectionSelector:
        return ProjectionSelector(float(self.epsilon), self.pivot, self.first, self.batch, self.memory_budget)

    def _weights(self, X: Any, sample_weight: Any) -> tuple[Array | None, Array | None]:
        """Weights, and the numbers of the rows that count when some do not."""
        if sample_weight is None:
            return None, None
        weights = checked_weights(sample_weight, X)
        if np.all(weights > 0):
            return weights, None
        if not np.any(weights > 0):
            raise ValueError("sample_weight is zero for every row; expected at least one positive weight.")
        return weights, np.flatnonzero(weights > 0)

    @staticmethod
    def _precomputed(X: Any, kept: Array | None) -> Precomputed:
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"kernel='precomputed' needs the square kernel matrix of the training rows; got shape {X.shape}."
            )
        if kept is not None:
            raise ValueError("zero sample weights are not possible with kernel='precomputed': drop rows and columns.")
        return Precomputed(X)

    def _publish(self, found: Projection, kernel: Any, vectors: Array) -> None:
        self.kernel_ = kernel
        gamma = getattr(kernel, "gamma", None)
        if gamma is not None:
            self.gamma_ = gamma
        is_matrix = isinstance(kernel, Precomputed)
        self._basis = found.selection.vectors if is_matrix else vectors
        self.basis_vectors_ = None if is_matrix else vectors
        self.factor_ = found.factor.R
        self.mse_, self.se_max_ = found.mse, found.se_max
        self.n_basis_ = found.selection.n_basis
        self.n_kernel_evals_ = found.n_kernel_evals
        self._n_features_out = self.n_basis_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed" if isinstance(self.kernel, str) else False
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
