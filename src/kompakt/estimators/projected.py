"""An SVM on projected training rows, folded back on few vectors (seed 004, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kompakt.basis import Projection, ProjectionSelector, Selection
from kompakt.data import ArrayRows, RowBlock, Source, column_means
from kompakt.design import Design, FeatureDesign, choose_block_rows
from kompakt.estimators.base import CallbackSupportMixin, MachineClassifier, deadline_of, watched
from kompakt.estimators.fisher import projection_selector
from kompakt.estimators.prepare import (
    Training,
    check_parameters,
    check_rows,
    checked_weights,
    fit_on_sample,
    held_rows,
    prepare,
    resolve_kernel,
    solve_on_all_rows,
)
from kompakt.estimators.refining import Chosen, check_movable, moved_vectors
from kompakt.kernels import Precomputed
from kompakt.linalg import Factor
from kompakt.losses import Hinge
from kompakt.parallel import block_threads
from kompakt.solve import Problem, Settings, Solution, solve
from kompakt.solve.problem import block_weights

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



SOLVERS = ("primal", "libsvm", "liblinear")


@dataclass(frozen=True)
class _Projected:
    """A basis and the coordinates of all rows in it."""

    selection: Selection
    features: Array  # (n, m)
    R: Array  # (m, m)
    n_kernel_evals: int


@dataclass(frozen=True)
class _Trained:
    """A linear SVM per output on the features."""

    w: Array  # (m, L)
    intercept: Array  # (L,)
    multipliers: Array  # (n, L): signed, zero for rows that are no support vectors
    n_iter: int
    converged: bool


class ProjectedSVC(MachineClassifier):
    """Support vector classifier trained on a projection of the training rows.

    The rows are replaced by their coordinates in the span of `n_basis` chosen ones (`GreedyProjection`), an ordinary
    linear SVM is trained on those, and its discriminant is folded back: on the basis vectors with recomputed
    multipliers, or on the support vectors themselves where they are fewer.  So min(support vectors, basis vectors)
    vectors represent it.

    Parameters
    ----------
    n_basis : int, default=100
        Number of basis vectors at most.
    epsilon : float, default=0.0
        Stop adding vectors when every row's representation error is below it.
    pivot : {"max", "random"}, default="max"
    first : {"random", "norm"}, default="random"
    selection : {"projection"}, array of vectors or selector, default="projection"
    two_pass : bool, default=False
        Train, choose the basis anew among the support vectors found, and train again: the vectors that decide are
        then represented best.
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel, default="rbf"
    gamma : {"scale", "auto", "learn", "ard"}, float or array of shape (n_features,), default="scale"
        "learn" (one width) and "ard" (one per feature) move with the vectors and need `refine=True`.
    degree : int, default=3
    coef0 : float, default=0.0
    C : float, default=1.0
        Cost of the hinge losses.
    solver : {"primal", "libsvm", "liblinear"}, default="primal"
        "libsvm" is scikit-learn's SVC with the linear kernel on the features; "primal" is kompakt's own solver of the
        same problem, to more digits and in a time that grows with n only.  "liblinear" is scikit-learn's LinearSVC,
        which penalises the intercept as well: a slightly different machine.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output"}, default="one_vs_rest"
    class_weight : dict or "balanced", default=None
    refine : bool, default=False
        Move the vectors after they were chosen, to lower the objective further; they are then no rows. Held-out rows
        check that it pays, and `refinement_` tells.
    refine_iter : int, default=100
        Iterations of refinement at most.
    tol : float, default=1e-4
    max_iter : int, default=1000000
        Iterations of the solver at most.
    max_time : float, default=None
        Seconds after which the primal solver stops; the others cannot be stopped.
    memory_budget : int, default=None
    n_jobs : int, default=None
    random_state : int, RandomState or None, default=None
    verbose : int, default=0

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
        With refine=True: whether the moved vectors were kept, objective and held-out error before and after.
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

    def __init__(
        self,
        n_basis: int = 100,
        *,
        epsilon: float = 0.0,
        pivot: str = "max",
        first: str = "random",
        selection: Any = "projection",
        two_pass: bool = False,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        C: float = 1.0,
        solver: str = "primal",
        coding: str = "one_vs_rest",
        class_weight: Any = None,
        refine: bool = False,
        refine_iter: int = 100,
        tol: float = 1e-4,
        max_iter: int = 1_000_000,
        max_time: float | None = None,
        memory_budget: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_basis = n_basis
        self.epsilon = epsilon
        self.pivot = pivot
        self.first = first
        self.selection = selection
        self.two_pass = two_pass
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.C = C
        self.solver = solver
        self.coding = coding
        self.class_weight = class_weight
        self.refine = refine
        self.refine_iter = refine_iter
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @watched
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> ProjectedSVC:
        """Fit the machine.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or rows from `kompakt.open_rows`
        y : array-like of shape (n_samples,)
            None for rows from `kompakt.open_rows`, which bring their targets and weights.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 equals the row given twice; weight 0 leaves it out.

        Returns
        -------
        self
        """
        if self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {SOLVERS}; got {self.solver!r}.")
        deadline = deadline_of(self.max_time)
        with block_threads(self.n_jobs):
            everything = prepare(self, X, y, sample_weight, classifier=True)
            training = held_rows(self, everything)
            check_movable(self, training.kernel)
            selector = projection_selector(self)
            if self.two_pass and not isinstance(selector, ProjectionSelector):
                raise ValueError("two_pass=True chooses its own basis: it needs selection='projection'.")
            projected = self._project(training, selector, None)
            trained = self._train(training.rows, projected.features, deadline)
            evaluations = projected.n_kernel_evals
            if self.two_pass:
                support = np.flatnonzero(np.any(trained.multipliers != 0, axis=1))
                if len(support):
                    projected = self._project(training, selector, support)
                    trained = self._train(training.rows, projected.features, deadline)
                    evaluations += projected.n_kernel_evals
            indices, basis, weights = self._fold_back(training, projected, trained)
            solution = self._solution(training.rows, projected, trained, weights)
            if not training.whole:
                indices, basis = projected.selection.indices, projected.selection.vectors
                self.folded_ = "basis"
            moved = moved_vectors(self, Chosen(training, training.kernel, basis, Hinge(), float(self.C)), deadline)
            if moved is not None and moved.kept:
                indices, basis, solution = None, moved.machine.basis, moved.machine.solution
                training = replace(training, kernel=moved.machine.kernel)
            if not training.whole:
                settings = Settings(tol=min(self.tol, 1e-6), max_iter=min(self.max_iter, 1000), deadline=deadline)
                solution = solve_on_all_rows(everything, training.kernel, basis, Hinge(), float(self.C), None, settings)
            model = self._build_model(training, basis, solution)
        self._publish(model, solution, training, indices)
        self.n_kernel_evals_ = evaluations
        self.n_projection_ = projected.selection.n_basis
        self.history_ = [
            {"n_basis": self.n_basis_, "objective": self.objective_, "n_iter": trained.n_iter},
        ]
        if moved is not None:
            moved.publish(self)
        if not self.interrupted_:
            self._report(solution, deadline)
        return self

    # -- parts ---------------------------------------------------------------------------------------

    def _project(self, training: Training, selector: Any, among: Array | None) -> _Projected:
        """Choose a basis, among some of the rows if told, and project all rows on it."""
        rows, kernel, key = training.rows, training.kernel, training.key
        if isinstance(selector, ProjectionSelector) and among is None:
            found = selector.run(rows, kernel, int(self.n_basis), key=key)
            assert found.features is not None
            return _Projected(found.selection, found.features, found.factor.R, found.n_kernel_evals)
        evaluations = 0
        if among is None:
            selection = selector.select(rows, kernel, int(self.n_basis), key=key)
        else:
            is_matrix = isinstance(kernel, Precomputed)
            part = ArrayRows(rows.X[among][:, among] if is_matrix else rows.X[among])
            part.offset = rows.offset
            part_kernel = Precomputed(part.X) if is_matrix else kernel
            found = selector.run(part, part_kernel, int(self.n_basis), key=key, keep_features=False)
            assert found.selection.indices is not None
            indices = among[found.selection.indices]
            selection = Selection(indices=indices, vectors=kernel.take_basis(rows, indices))
            evaluations = found.n_kernel_evals
        design = Design(rows, kernel, selection.vectors, whiten=True, store=True)
        assert design.factor is not None
        evaluations += design.n_kernel_evals
        return _Projected(selection, design.matrix, design.factor.R, evaluations)

    def _train(self, rows: ArrayRows, features: Array, deadline: float | None) -> _Trained:
        """A linear SVM per output; rows of weight 0 in an output (one-vs-one) take no part in it."""
        solver = self.solver
        if solver == "primal":
            return self._train_primal(rows, features, deadline)
        assert rows.targets is not None
        n, L = rows.targets.shape
        w, intercept, multipliers = np.zeros((features.shape[1], L)), np.zeros(L), np.zeros((n, L))
        n_iter = 0
        for output in range(L):
            s = np.broadcast_to(block_weights(rows.weights, n, np.array([output]))[:, 0], n)
            index = np.flatnonzero(s > 0)
            Phi, t, s = features[index], rows.targets[index, output], s[index]
            if solver == "libsvm":
                machine = SVC(C=self.C, kernel="linear", tol=self.tol, max_iter=self.max_iter, cache_size=400)
                machine.fit(Phi, t, sample_weight=s)
                multipliers[index[machine.support_], output] = machine.dual_coef_[0]
                w[:, output] = machine.dual_coef_[0] @ Phi[machine.support_].astype(np.float64)
                n_iter = max(n_iter, int(machine.n_iter_[0]))
            else:
                machine = LinearSVC(
                    C=self.C, loss="hinge", dual=True, tol=self.tol, max_iter=self.max_iter, random_state=0
                )
                machine.fit(Phi, t, sample_weight=s)
                w[:, output] = machine.coef_[0]
                n_iter = max(n_iter, int(machine.n_iter_))
            intercept[output] = machine.intercept_[0]
        if solver == "liblinear":
            multipliers = self._multipliers(rows, features, w, intercept)
        return _Trained(w, intercept, multipliers, n_iter, n_iter < self.max_iter)

    def _train_primal(self, rows: ArrayRows, features: Array, deadline: float | None) -> _Trained:
        assert rows.targets is not None
        design = FeatureDesign(features, rows.targets, rows.weights)
        settings = Settings(tol=min(self.tol, 1e-6), max_iter=min(self.max_iter, 1000), deadline=deadline)
        found = solve(Problem(design, Hinge(), float(self.C)), None, settings)
        w, intercept = found.coordinates[:-1], found.intercept
        return _Trained(w, intercept, self._multipliers(rows, features, w, intercept), found.n_iter, found.converged)

    def _multipliers(self, rows: ArrayRows, features: Array, w: Array, intercept: Array) -> Array:
        """Multipliers of a primal solution: C s y inside the margin, on it what explains the rest of w."""
        assert rows.targets is not None
        n, L = rows.targets.shape
        y, f = rows.targets, features @ w.astype(features.dtype) + intercept
        s = np.broadcast_to(block_weights(rows.weights, n, np.arange(L)), (n, L))
        shortfall = 1.0 - y * f
        on_margin = 1e-4 if features.dtype == np.float64 else 1e-2
        inside = shortfall > on_margin
        multipliers = np.where(inside, self.C * s * y, 0.0)
        for output in range(L):
            at = np.flatnonzero((np.abs(shortfall[:, output]) <= on_margin) & (s[:, output] > 0))
            if len(at):
                Phi = features[at].astype(np.float64)
                rest = w[:, output] - features.T @ multipliers[:, output].astype(features.dtype)
                multipliers[at, output] = np.linalg.lstsq(Phi.T, rest, rcond=None)[0]
        return multipliers

    def _fold_back(
        self, training: Training, projected: _Projected, trained: _Trained
    ) -> tuple[Array | None, Array, Array]:
        """Vectors and multipliers of the discriminant: min(support vectors, basis vectors) of them."""
        support = np.flatnonzero(np.any(trained.multipliers != 0, axis=1))
        self.n_support_vectors_ = len(support)
        if 0 < len(support) < projected.selection.n_basis:
            self.folded_ = "support_vectors"
            vectors = training.kernel.take_basis(training.rows, support)
            return support, vectors, trained.multipliers[support]
        # f'(x) = sum_j alpha'_j k(x, r_j), alpha' = B alpha with B = K_r^-1 K: in coordinates, R^-1 w
        self.folded_ = "basis"
        weights = solve_triangular(projected.R, trained.w, check_finite=False)
        return projected.selection.indices, projected.selection.vectors, weights

    def _solution(self, rows: ArrayRows, projected: _Projected, trained: _Trained, weights: Array) -> Solution:
        assert rows.targets is not None
        n, L = rows.targets.shape
        f = projected.features @ trained.w.astype(projected.features.dtype) + trained.intercept
        s = block_weights(rows.weights, n, np.arange(L))
        losses = np.sum(s * Hinge().value(rows.targets, f), axis=0)
        return Solution(
            weights=weights,
            intercept=trained.intercept,
            coordinates=np.concatenate([trained.w, trained.intercept[None]]),
            objective=0.5 * np.sum(trained.w**2, axis=0) + self.C * losses,
            n_iter=trained.n_iter,
            converged=trained.converged,
            optimality=np.full(L, np.nan),
            jitter=0.0,
        )
