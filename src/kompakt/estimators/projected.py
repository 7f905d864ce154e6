"""Greedy projection of rows on few of them, and an SVM on what is projected (Franc and Hlavac 2003)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from kompakt.basis import Projection, ProjectionSelector
from kompakt.basis.build import Machine, Plan
from kompakt.data import ArrayRows, RowBlock, Source, column_means
from kompakt.data.dask import DaskSource, is_dask
from kompakt.design import Design, FeatureDesign, choose_block_rows
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
from kompakt.parallel import block_threads
from kompakt.run import Run
from kompakt.solve import Problem, Solution, solve
from kompakt.solve.problem import block_weights
from kompakt.spec import Basis, Data, Spec
from kompakt.train.data import check_rows, checked_weights, fit_on_sample, resolve_kernel
from kompakt.train.pipeline import Fit
from kompakt.train.running import CallbackSupportMixin, running

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
        with running(self, X, y) as run:
            if isinstance(X, Source):
                fit_on_sample(self, X, y, sample_weight, run, classifier=False, needs_target=False)
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
        rows = ArrayRows(X, weights=weights, offset=self._offset)
        found = self._selector().project(rows, kernel, int(self.n_basis), run, keep_features=keep_features)
        indices = found.basis.indices
        assert indices is not None
        self._publish(found, kernel, X)
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
        check_parameters(self)
        X, _ = check_rows(self, X, reset=False)
        if isinstance(self.kernel_, Precomputed):
            raise TypeError("partial_fit is not possible with kernel='precomputed': its matrix is of one fixed set.")
        old: Any = self.basis_vectors_
        union = sparse.vstack([sparse.csr_matrix(old), X]).tocsr() if sparse.issparse(X) else np.concatenate([old, X])
        rows, selector = ArrayRows(union, offset=self._offset), self._selector()
        run, limit = Run(self._key), int(self.n_basis)
        with block_threads(self.n_jobs):
            given = np.arange(min(len(old), limit))
            found = selector.project(rows, self.kernel_, limit, run, keep_features=False, given=given)
            if len(found.se_max) >= limit and found.se_max[-1] >= self.max_error:
                other = selector.project(rows, self.kernel_, limit, run, keep_features=False)
                found = other if other.se_max[-1] < found.se_max[-1] else found
        self._publish(found, self.kernel_, union)
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

    def _selector(self) -> ProjectionSelector:
        return ProjectionSelector(float(self.max_error), self.pivot, self.first, self.batch, self.memory_budget)

    def _publish(self, found: Projection, kernel: Kernel, X: Any) -> None:
        """Set the fitted attributes; X are the rows that the vectors were chosen among."""
        self.kernel_ = kernel
        gamma = getattr(kernel, "gamma", None)
        if gamma is not None:
            self.gamma_ = gamma
        # exactly the user's rows: centring and back may have changed the last bit
        exact = X[found.basis.indices]
        vectors = exact.toarray() if sparse.issparse(exact) else np.array(exact)
        is_matrix = isinstance(kernel, Precomputed)
        self._basis = found.basis.vectors if is_matrix else vectors
        self.basis_vectors_ = None if is_matrix else vectors
        self.factor_ = np.asarray(found.basis.factor)
        self.mse_, self.se_max_ = found.mse, found.se_max
        self.n_basis_ = found.basis.n_basis
        self.n_kernel_evals_ = found.basis.n_kernel_evals
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

    def _spec(self, data: Data, kernel: Kernel) -> Spec:
        C = 1.0 if self.C is None else float(self.C)
        return Spec(kernel, Hinge(), C, coding=self.coding, n_classes=data.n_classes)

    def _plan(self, data: Data, run: Run) -> Plan:
        selector = projection_selector(self.selection, self.max_error, self.pivot, self.first, self.memory_budget)
        if self.two_pass and not isinstance(selector, ProjectionSelector):
            raise ValueError("two_pass=True chooses its own basis: it needs selection='projection'.")
        plan = super()._plan(data, run)
        return replace(plan, selector=selector, tol=min(plan.tol, 1e-6), max_iter=min(plan.max_iter, 1000))

    def _choose_basis(self, fit: Fit) -> Machine:
        """Project the rows, train on their coordinates, and fold the discriminant back on few vectors."""
        basis, features, evaluations = self._project(fit, None)
        solution, multipliers = self._train(fit, features)
        support = np.flatnonzero(np.any(multipliers != 0, axis=1))
        if self.two_pass and len(support):
            basis, features, more = self._project(fit, support)
            solution, multipliers = self._train(fit, features)
            support = np.flatnonzero(np.any(multipliers != 0, axis=1))
            evaluations += more
        fit.attributes |= {"n_support_vectors_": len(support), "n_projection_": basis.n_basis, "folded_": "basis"}
        if fit.data.whole and 0 < len(support) < basis.n_basis:
            fit.attributes["folded_"] = "support_vectors"
            basis = Basis(support, fit.spec.kernel.take_basis(fit.data.rows, support))
            weights = multipliers[support]
        else:
            # f'(x) = sum_j alpha'_j k(x, r_j), alpha' = B alpha with B = K_r^-1 K: in coordinates, R^-1 w
            assert basis.factor is not None
            weights = solve_triangular(basis.factor, solution.coordinates[:-1], check_finite=False)
        facts = {"objective": float(np.sum(solution.objective)), "n_iter": solution.n_iter}
        fit.run.note("weights", n_basis=basis.n_basis, **facts)
        return Machine(fit.spec, basis, replace(solution, weights=weights), evaluations)

    def _project(self, fit: Fit, among: Array | None) -> tuple[Basis, Array, int]:
        """A basis, chosen among some of the rows where they are given, with its factor; all rows in its coordinates.

        The last number is that of the kernel values it took.
        """
        data, kernel, selector, run = fit.data, fit.spec.kernel, fit.plan.selector, fit.run
        rows, evaluations = data.in_memory, 0
        assert selector is not None
        assert fit.n_basis is not None
        if isinstance(selector, ProjectionSelector) and among is None:
            found = selector.project(rows, kernel, fit.n_basis, run)
            assert found.features is not None
            return found.basis, found.features, found.basis.n_kernel_evals
        if among is None:
            basis = selector.select(data, fit.spec, fit.n_basis, run)
        else:
            is_matrix = isinstance(kernel, Precomputed)
            part = ArrayRows(rows.X[among][:, among] if is_matrix else rows.X[among])
            part.offset = rows.offset
            part_spec = replace(fit.spec, kernel=Precomputed(part.X) if is_matrix else kernel)
            chosen = selector.select(Data(part), part_spec, fit.n_basis, run)
            assert chosen.indices is not None
            indices = among[chosen.indices]
            basis, evaluations = Basis(indices, kernel.take_basis(rows, indices)), chosen.n_kernel_evals
        design = Design(rows, kernel, basis.vectors, whiten=True, store=True)
        assert design.factor is not None
        return replace(basis, factor=design.factor.R), design.matrix, evaluations + design.n_kernel_evals

    def _train(self, fit: Fit, features: Array) -> tuple[Solution, Array]:
        """A linear SVM per output, and the signed multipliers of the rows, (n, L): zero for no support vectors."""
        rows, y = fit.data.in_memory, fit.data.targets
        n, L = y.shape
        if self.solver == "primal":
            design = FeatureDesign(features, y, rows.weights)
            found = solve(Problem.of(design, fit.spec), None, fit.plan.settings(fit.run))
            w, intercept, n_iter, converged = found.coordinates[:-1], found.intercept, found.n_iter, found.converged
            multipliers = self._multipliers(fit.data, features, w, intercept, fit.spec.C)
        else:
            w, intercept, multipliers, n_iter = self._train_by_scikit_learn(fit.data, features, fit.spec.C)
            converged = n_iter < self.max_iter
        f = features @ w.astype(features.dtype) + intercept
        losses = np.sum(block_weights(rows.weights, n, np.arange(L)) * Hinge().value(y, f), axis=0)
        solution = Solution(
            weights=w,
            intercept=intercept,
            coordinates=np.concatenate([w, intercept[None]]),
            objective=0.5 * np.sum(w**2, axis=0) + fit.spec.C * losses,
            n_iter=n_iter,
            converged=converged,
            optimality=np.full(L, np.nan),
            jitter=0.0,
        )
        return solution, multipliers

    def _train_by_scikit_learn(self, data: Data, features: Array, C: float) -> tuple[Array, Array, Array, int]:
        """Weights, intercepts, multipliers and iterations; rows of weight 0 in an output (one-vs-one) are left out."""
        n, L = data.targets.shape
        w, intercept, multipliers = np.zeros((features.shape[1], L)), np.zeros(L), np.zeros((n, L))
        n_iter = 0
        for output in range(L):
            s = np.broadcast_to(block_weights(data.rows.weights, n, np.array([output]))[:, 0], n)
            index = np.flatnonzero(s > 0)
            Phi, t, s = features[index], data.targets[index, output], s[index]
            if self.solver == "libsvm":
                machine = SVC(C=C, kernel="linear", tol=self.tol, max_iter=self.max_iter, cache_size=400)
                machine.fit(Phi, t, sample_weight=s)
                multipliers[index[machine.support_], output] = machine.dual_coef_[0]
                w[:, output] = machine.dual_coef_[0] @ Phi[machine.support_].astype(np.float64)
                n_iter = max(n_iter, int(machine.n_iter_[0]))
            else:
                machine = LinearSVC(C=C, loss="hinge", dual=True, tol=self.tol, max_iter=self.max_iter, random_state=0)
                machine.fit(Phi, t, sample_weight=s)
                w[:, output] = machine.coef_[0]
                n_iter = max(n_iter, int(machine.n_iter_))
            intercept[output] = machine.intercept_[0]
        if self.solver == "liblinear":
            multipliers = self._multipliers(data, features, w, intercept, C)
        return w, intercept, multipliers, n_iter

    def _multipliers(self, data: Data, features: Array, w: Array, intercept: Array, C: float) -> Array:
        """Multipliers of a primal solution: C s y inside the margin, on it what explains the rest of w."""
        y, f = data.targets, features @ w.astype(features.dtype) + intercept
        n, L = y.shape
        s = np.broadcast_to(block_weights(data.rows.weights, n, np.arange(L)), (n, L))
        shortfall = 1.0 - y * f
        on_margin = 1e-4 if features.dtype == np.float64 else 1e-2
        inside = shortfall > on_margin
        multipliers = np.where(inside, C * s * y, 0.0)
        for output in range(L):
            at = np.flatnonzero((np.abs(shortfall[:, output]) <= on_margin) & (s[:, output] > 0))
            if len(at):
                Phi = features[at].astype(np.float64)
                rest = w[:, output] - features.T @ multipliers[:, output].astype(features.dtype)
                multipliers[at, output] = np.linalg.lstsq(Phi.T, rest, rcond=None)[0]
        return multipliers
