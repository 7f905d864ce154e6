"""An SVM on projected training rows, folded back on few vectors (seed 004, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.svm import SVC, LinearSVC

from kompakt.design import Design, FeatureDesign
from kompakt.estimators.base import MachineClassifier, deadline_of
from kompakt.estimators.fisher import projection_selector
from kompakt.estimators.prepare import Training, prepare
from kompakt.estimators.refining import Chosen, check_movable, moved_vectors
from kompakt.estimators.samples import held_rows, solve_on_all_rows
from kompakt.estimators.watch import watched
from kompakt.kernels import Precomputed
from kompakt.losses import Hinge
from kompakt.rows import ArrayRows
from kompakt.select import ProjectionSelector, Selection
from kompakt.solve import Problem, Settings, Solution, solve
from kompakt.solve.problem import block_weights
from kompakt.threads import block_threads

Array = np.ndarray

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
