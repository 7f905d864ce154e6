"""Greedy projection of rows on few of them, and an SVM on what is projected (Franc and Hlavac 2003)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from kompakt.basis import Projection, ProjectionSelector
from kompakt.data import ArrayRows, Source, column_means
from kompakt.data.dask import DaskSource, is_dask
from kompakt.data.rows import computing_dtype
from kompakt.estimators.base import MachineClassifier
from kompakt.estimators.params import (
    COUNT,
    SWITCH,
    ClassWeightParameters,
    CodingParameters,
    CostParameters,
    KernelParameters,
    MemoryParameters,
    ProjectionParameters,
    RefineParameters,
    RunParameters,
    SelectionParameters,
    SizeParameters,
    StoppingParameters,
    check_parameters,
    estimator,
    one_of,
    or_none,
    parameter,
)
from kompakt.estimators.selectors import projection_selector
from kompakt.kernels import Kernel, Precomputed
from kompakt.linalg import Factor
from kompakt.losses import Hinge
from kompakt.methods.projected import Projected, fit_projected
from kompakt.methods.steps import Fitted
from kompakt.model import Model
from kompakt.parallel import block_threads
from kompakt.run import Run
from kompakt.spec import Data, Spec
from kompakt.train.data import check_columns_to_keep, check_rows, checked_weights, fit_on_sample, resolve_kernel
from kompakt.train.running import CallbackSupportMixin, running, unchanged_on_error, unfit

Array = np.ndarray


@estimator
class GreedyProjection(
    RunParameters,
    MemoryParameters,
    ProjectionParameters,
    KernelParameters,
    SizeParameters,
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
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
    gamma : {"scale", "auto"}, float or array of shape (n_features,)
        Width of the kernel, one number or one per feature; "scale" and None are 1 / (n_features * variance of X),
        "auto" is 1 / n_features.
    batch : int
        With pivot="max", vectors chosen per step among the rows of largest error. None takes as many as give the same
        result as one at a time.

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

    Notes
    -----
    Each step adds the row with the largest ``se(x) = k(x, x) - |gamma(x)|^2``. The paper's m and epsilon are `n_basis`
    and `max_error`, its R is `factor_`, its Gamma the transpose of what `transform` returns. Its sigma is `gamma`, the
    width: ``exp(-sigma d^2)``. Its mse is a sum, n times `mse_`.

    References
    ----------
    Franc, V., Hlavac, V. (2003). Training set approximation for kernel methods. Computer Vision Winter Workshop.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt import GreedyProjection
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> projection = GreedyProjection(n_basis=50, max_error=1e-3, random_state=0).fit(X)
    >>> projection.n_basis_ < 50, bool(projection.se_max_[-1] < 1e-3)
    (True, True)
    >>> projection.transform(X).shape == (200, projection.n_basis_)
    True
    """

    # the features feed another estimator, which no longer sees the rows: more than a model of its own needs
    n_basis: Any = parameter(default=200, rule=COUNT, kw_only=False)
    gamma: Any = "scale"
    batch: int | None = parameter(default=None, rule=or_none(COUNT))

    __metadata_request__fit: ClassVar = {"keep_columns": UNUSED}

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, keep_columns: Sequence[str] | None = None
    ) -> GreedyProjection:
        """Choose the basis.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or rows from `kompakt.open_rows`
            Of streamed rows, a sample that fits in memory is looked at.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Counts in the mean error and in random draws; rows of weight 0 are left out.
        keep_columns : sequence of str, default=None
            Columns of a data frame that are used even if they look like identifiers, which are left out otherwise:
            an index, and whole numbers or words that are all different.

        Returns
        -------
        self
        """
        if is_dask(X):
            X, y, sample_weight = DaskSource(X, y, sample_weight), None, None
        check_columns_to_keep(X, keep_columns)
        with running(self, X, y) as run:
            if isinstance(X, Source):
                fit_on_sample(self, X, y, sample_weight, run, task=None)
            else:
                self._fit(X, y, sample_weight, run, keep_columns)
        return self

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, keep_columns: Sequence[str] | None = None
    ) -> Array:
        """Choose the basis and return the coordinates of the training rows, which choosing has computed already.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
        keep_columns : sequence of str, default=None
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_basis_)
        """
        check_columns_to_keep(X, keep_columns)
        with running(self, X, y) as run:
            features = self._fit(X, y, sample_weight, run, keep_columns, keep_features=True)
        return self.transform(X) if features is None else features

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        run: Run,
        keep: Sequence[str] | None = None,
        *,
        keep_features: bool = False,
    ) -> Array | None:
        """Choose the basis; the coordinates of the rows where they were kept, and all rows count."""
        check_parameters(self)
        unfit(self)  # attributes of an earlier fit, some of which this one may not set
        X, _ = check_rows(self, X, keep=keep)
        every, weights, kept = X, None, None
        if sample_weight is not None:
            weights = checked_weights(sample_weight, X)
            if not np.any(weights > 0):
                raise ValueError("sample_weight is zero for every row; expected at least one positive weight.")
            if not np.all(weights > 0):
                kept = np.flatnonzero(weights > 0)
                X, weights = X[kept], weights[kept]
        kernel = resolve_kernel(self, X, weights)
        if isinstance(kernel, Precomputed):
            if every.shape[0] != every.shape[1]:
                raise ValueError(
                    "kernel='precomputed' needs the square kernel matrix of the training rows; got shape "
                    f"{every.shape}."
                )
            if kept is not None:
                raise ValueError(
                    "zero sample weights are not possible with kernel='precomputed': drop rows and columns."
                )
            kernel = Precomputed(every)
        self._key = run.key
        self._offset = column_means(X, weights) if kernel.shift_invariant and not sparse.issparse(X) else None
        rows = ArrayRows(X, weights=weights, offset=self._offset, dtype=computing_dtype(X.dtype, X.shape[0]))
        projection = self._selector().project(rows, kernel, int(self.n_basis), run, keep_features=keep_features)
        indices = projection.basis.indices
        assert indices is not None
        self._publish(projection, kernel, X)
        self.basis_indices_: Array | None = indices if kept is None else kept[indices]
        if kept is not None or projection.features is None:
            return None
        return projection.features.astype(np.result_type(rows.given_dtype, np.float32), copy=False)

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
        with unchanged_on_error(self):
            if hasattr(self, "kernel_"):
                self._take_in(X)
            else:
                self.fit(X)
        self.basis_indices_ = None
        return self

    def _take_in(self, X: Any) -> None:
        """Add a chunk to the basis of those before."""
        check_parameters(self)
        X, _ = check_rows(self, X, reset=False)
        if isinstance(self.kernel_, Precomputed):
            raise TypeError("partial_fit is not possible with kernel='precomputed': its matrix is of one fixed set.")
        old: Any = self.basis_vectors_
        union = sparse.vstack([sparse.csr_matrix(old), X]).tocsr() if sparse.issparse(X) else np.concatenate([old, X])
        dtype = computing_dtype(X.dtype, union.shape[0])
        rows, selector = ArrayRows(union, offset=self._offset, dtype=dtype), self._selector()
        run, limit = Run(self._key), int(self.n_basis)
        with block_threads(self.n_jobs):
            old_rows = np.arange(min(len(old), limit))
            projection = selector.project(rows, self.kernel_, limit, run, keep_features=False, given=old_rows)
            if len(projection.se_max) >= limit and projection.se_max[-1] >= self.max_error:
                anew = selector.project(rows, self.kernel_, limit, run, keep_features=False)
                projection = anew if anew.se_max[-1] < projection.se_max[-1] else projection
        self._publish(projection, self.kernel_, union)

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
        dtype = np.float64 if sparse.issparse(X) else X.dtype
        with block_threads(self.n_jobs):
            return self._as_model().collect(X, lambda F: F.astype(dtype, copy=False))

    def _as_model(self) -> Model:
        """The model whose outputs are the coordinates."""
        n_features = self.n_features_in_ if isinstance(self.kernel_, Precomputed) else self._basis.shape[1]
        weights, zeros = Factor(self.factor_).inverse(), np.zeros(self.n_basis_)
        return Model(
            self.kernel_, self._basis, weights, zeros, "regressor", n_features, offset=self._offset, squeeze=False
        )

    # -- parts ---------------------------------------------------------------------------------------

    def _selector(self) -> ProjectionSelector:
        return ProjectionSelector(float(self.max_error), self.pivot, self.first, self.batch, self.memory_budget)

    def _publish(self, projection: Projection, kernel: Kernel, X: Any) -> None:
        """Set the fitted attributes; X are the rows that the vectors were chosen among."""
        self.kernel_ = kernel
        gamma = getattr(kernel, "gamma", None)
        if gamma is not None:
            self.gamma_ = gamma
        # exactly the user's rows: centring and back may have changed the last bit
        exact = X[projection.basis.indices]
        vectors = exact.toarray() if sparse.issparse(exact) else np.array(exact)
        is_matrix = isinstance(kernel, Precomputed)
        self._basis = projection.basis.vectors if is_matrix else vectors
        self.basis_vectors_ = None if is_matrix else vectors
        self.factor_ = np.asarray(projection.basis.factor)
        self.mse_, self.se_max_ = projection.mse, projection.se_max
        self.n_basis_ = projection.basis.n_basis
        self.n_kernel_evals_ = projection.basis.n_kernel_evals
        self._n_features_out = self.n_basis_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed" if isinstance(self.kernel, str) else False
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@estimator
class ProjectedSVC(
    RunParameters,
    MemoryParameters,
    StoppingParameters,
    ClassWeightParameters,
    CodingParameters,
    RefineParameters,
    CostParameters,
    SelectionParameters,
    ProjectionParameters,
    KernelParameters,
    SizeParameters,
    MachineClassifier,
):
    """Support vector classifier trained on a projection of the training rows.

    The rows are replaced by their coordinates in the span of `n_basis` chosen ones (`GreedyProjection`), an ordinary
    linear SVM is trained on those, and its discriminant is folded back: on the basis vectors with recomputed
    multipliers, or on the support vectors themselves where they are fewer.  So min(support vectors, basis vectors)
    vectors represent it.

    Parameters
    ----------
    two_pass : bool
        Train, choose the basis anew among the support vectors found, and train again: the vectors that decide are then
        represented best.
    C
        The loss is the hinge.
    solver : {"primal", "libsvm", "liblinear"}
        "libsvm" is scikit-learn's SVC with the linear kernel on the features; "primal" is kompakt's own solver of the
        same problem, to more digits and in a time that grows with n only. "liblinear" is scikit-learn's LinearSVC,
        which penalises the intercept as well: a slightly different machine.
    max_time
        Of the solvers only "primal" can be stopped.

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
        The vectors that represent the discriminant: basis or support vectors.
    basis_indices_ : ndarray of shape (n_basis_,) or None
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    n_support_vectors_ : int
        Rows with a multiplier that is not zero in some output.
    n_projection_ : int
        Number of vectors that the rows were projected on.
    folded_ : {"basis", "support_vectors"}
        Which of the two the discriminant is folded back on, before refinement.
    refinement_ : dict
        With refine=True: whether the moved vectors were kept, what was learned of the metric, objective and held-out
        loss before and after, and that loss along the descent.
    classes_, n_basis_, n_iter_, converged_, objective_, n_kernel_evals_, gamma_, kernel_, model_

    Notes
    -----
    ``1/2 |w|^2 + C sum_i s_i max(0, 1 - y_i w'gamma(x_i) - y_i b)`` is minimised over the coordinates gamma(x) of
    `GreedyProjection`. The paper's C is `C`, its sigma is `gamma`, its m is `n_basis`, and its n_SV is
    `n_support_vectors_`. Its alpha' = B alpha are `dual_coef_` where `folded_` is "basis".

    References
    ----------
    Franc, V., Hlavac, V. (2003). Training set approximation for kernel methods. Computer Vision Winter Workshop.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import ProjectedSVC
    >>> X, y = make_moons(400, noise=0.1, random_state=0)
    >>> machine = ProjectedSVC(n_basis=20, gamma=2.0, random_state=0).fit(X, y)
    >>> machine.n_basis_ <= 20, machine.score(X, y) > 0.95
    (True, True)
    """

    n_basis: Any = parameter(default=200, kw_only=False)
    selection: Any = "projection"
    two_pass: bool = parameter(default=False, rule=SWITCH)
    solver: str = parameter(default="primal", rule=one_of("primal", "libsvm", "liblinear"))
    tol: float = 1e-4
    max_iter: int = 1_000_000

    def _train(self, data: Data, kernel: Kernel, run: Run) -> Fitted:
        selector = projection_selector(self.selection, self.max_error, self.pivot, self.first, self.memory_budget)
        if self.two_pass and not isinstance(selector, ProjectionSelector):
            raise ValueError("two_pass=True chooses its own basis: it needs selection='projection'.")
        C, plan = 1.0 if self.C is None else float(self.C), self._plan(selector)
        options = Projected(
            spec=Spec(kernel, Hinge(), C, coding=self.coding, n_classes=data.n_classes),
            plan=replace(plan, tol=min(plan.tol, 1e-6), max_iter=min(plan.max_iter, 1000)),
            selector=selector,
            n_basis=int(self.n_basis),
            left_open=self._left_open(),
            two_pass=bool(self.two_pass),
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        return fit_projected(data, options, run)
