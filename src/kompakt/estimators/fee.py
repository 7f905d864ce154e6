"""FEESVC and FEESVR: semiparametric machines grown by fast error estimation (seed 000)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from kompakt.basis.columns import KernelColumns
from kompakt.basis.fee import (
    SOLVERS,
    FeeCandidates,
    FeeGrowth,
    FeePlan,
    FirstVectors,
    Observer,
    SemiparametricMachine,
    Trial,
    class_means,
    fast_weights,
    grow_fee,
)
from kompakt.basis.forward import Record
from kompakt.data import hash_rows
from kompakt.design import Design
from kompakt.estimators.base import (
    KernelMachine,
    MachineClassifier,
    MachineRegressor,
    deadline_of,
    solver_settings,
    warn_interrupted,
    watched,
)
from kompakt.estimators.prepare import Training, held_rows, prepare, solve_on_all_rows, splits_of
from kompakt.estimators.refining import Chosen, check_movable, moved_vectors
from kompakt.kernels import RBF
from kompakt.losses import make_loss
from kompakt.parallel import block_threads
from kompakt.search.fee import C_EXPONENTS, RULES, SIGMA_EXPONENTS, FeeProblem, search_fee
from kompakt.solve import Problem, solve
from kompakt.validation import holdout

Array = np.ndarray


@dataclass(frozen=True)
class _Grown:
    """A grown machine with what is needed to freeze it."""

    growth: FeeGrowth
    machine: SemiparametricMachine
    train: Array


class FeeMachine(KernelMachine):
    """What classifier and regressor share: choosing a size, growing to it, freezing the machine."""

    _classifier: bool

    @watched
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Grow the machine.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or rows from `kompakt.open_rows`
        y : array-like of shape (n_samples,), for a regressor also (n_samples, n_outputs)
            None for rows from `kompakt.open_rows`, which bring their targets and weights.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 equals the row given twice; weight 0 leaves it out.

        Returns
        -------
        self
        """
        deadline = deadline_of(self.max_time)
        with block_threads(self.n_jobs):
            training = held_rows(self, prepare(self, X, y, sample_weight, classifier=self._classifier))
            check_movable(self, training.kernel)
            problem = self._problem(training, deadline)
            training, problem, C = self._tuned(training, problem)
            grown, history = self._grow(training, problem, C)
            self._freeze(training, problem, C, grown, deadline)
        self.C_ = C
        self.history_ = history
        return self

    # -- names into parts ----------------------------------------------------------------------------

    def _problem(self, training: Training, deadline: float | None) -> FeeProblem:
        self._check()
        loss = make_loss(self.loss, classes=self._classifier, epsilon=self.epsilon)
        n_classes = 1 if training.classes is None else len(training.classes)
        plan = FeePlan(
            n_basis=int(self.n_basis),
            selection=self.selection,
            n_candidates=int(self.n_candidates),
            patience=int(self.patience),
            max_iter=int(self.growth_iter),
            deadline=deadline,
        )
        return FeeProblem(
            rows=training.rows,
            splits=self._splits(training),
            hashes=hash_rows(training.rows.X, training.key),
            key=training.key,
            plan=plan,
            loss=loss,
            labels=training.labels,
            n_classes=n_classes,
            coding=getattr(self, "coding", "one_vs_rest"),
            options={
                "solver": self.solver,
                "fit_intercept": bool(self.fit_intercept),
                "penalize_intercept": bool(self.penalize_intercept),
                "memory_budget": self.memory_budget,
            },
        )

    def _check(self) -> None:
        for name in ("patience", "growth_iter"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")
        if self.tune_rule not in RULES:
            raise ValueError(f"tune_rule must be one of {RULES}; got {self.tune_rule!r}.")
        if self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {SOLVERS}; got {self.solver!r}.")
        if not isinstance(self.n_basis, Integral):
            raise ValueError(
                f"n_basis is the largest size, a whole number of at least 1; got {self.n_basis!r}. "
                "The size itself is chosen by validation (cv or validation_fraction)."
            )

    def _splits(self, training: Training) -> list[tuple[Array, Array]]:
        """Folds, one held-out part, or none."""
        target = training.y if training.labels is None else training.labels
        assert target is not None
        known: dict[str, Any] = {"classifier": self._classifier, "random_state": training.key}
        if self.cv is not None or self.tune:
            cv = 5 if self.cv is None else self.cv
            return splits_of(training, cv, **known)
        if self.validation_fraction is None:
            return []
        return [holdout(target, float(self.validation_fraction), **known)]

    # -- hyperparameters and growth ------------------------------------------------------------------

    def _tuned(self, training: Training, problem: FeeProblem) -> tuple[Training, FeeProblem, float]:
        """Sigma, C and the size by the paper's protocol, where the constructor asks for it."""
        if not self.tune:
            return training, problem, float(self.C)
        if not isinstance(training.kernel, RBF):
            raise ValueError(f"tune=True searches the width of a Gaussian kernel; got kernel={self.kernel!r}.")
        sigmas = SIGMA_EXPONENTS if self.sigma_exponents is None else self.sigma_exponents
        costs = C_EXPONENTS if self.C_exponents is None else self.C_exponents
        found = search_fee(problem, sigmas, costs, rule=self.tune_rule, n_jobs=self.n_jobs)
        self.search_ = found
        self.fold_errors_, self.fold_sizes_ = found.best.errors, found.best.sizes
        plan = replace(problem.plan, n_basis=found.best.size, patience=None)
        kernel = RBF(found.best.gamma)
        return replace(training, kernel=kernel), replace(problem, splits=[], plan=plan), found.best.C

    def _grow(
        self, training: Training, problem: FeeProblem, C: float, observe: Observer | None = None
    ) -> tuple[_Grown, list[Record]]:
        """The machine to be frozen, and the records of all growths; `observe` sees the steps of its growth."""
        everything, none = np.arange(training.rows.n_rows), np.empty(0, dtype=np.intp)
        history: list[Record] = []
        n_evals = 0
        if self.cv is None and problem.splits:  # one held-out part: the machine at its best step
            problem = replace(problem, plan=replace(problem.plan, interruptible=True))
            grown = _grow_on(training, problem, *problem.splits[0], C, observe)
            return grown, grown.growth.records
        plan = replace(problem.plan, patience=None)
        if problem.splits:
            folds = [_grow_on(training, problem, *split, C) for split in problem.splits]
            n_evals = sum(fold.machine.columns.n_evals for fold in folds)
            runs = [fold.growth for fold in folds]
            for number, run in enumerate(runs):
                history += [{"fold": number, **record} for record in run.records]
            self.fold_sizes_ = np.array([run.size for run in runs])
            self.fold_errors_ = np.array([run.error for run in runs])
            plan = replace(plan, n_basis=max(1, round(float(self.fold_sizes_.mean()))))
        problem = replace(problem, plan=replace(plan, interruptible=True))
        grown = _grow_on(training, problem, everything, none, C, observe)
        grown.machine.columns.n_evals += n_evals
        return grown, history + grown.growth.records

    def _freeze(self, training: Training, problem: FeeProblem, C: float, grown: _Grown, deadline: float | None) -> None:
        """Solve for the weights on the chosen basis to the end, and publish the machine."""
        machine, growth = grown.machine, grown.growth
        rows, kernel = training.rows, training.kernel
        first, size = machine.first, growth.size
        n_vectors = min(len(machine.used_vectors), size)
        selected = grown.train[np.array(machine.indices[: size - n_vectors], dtype=np.intp)]
        own = machine.first_vectors.vectors[machine.used_vectors[:n_vectors]]
        basis = np.concatenate([own, kernel.take_basis(rows, selected).astype(own.dtype)]) if len(selected) else own
        if growth.interrupted:
            solution = machine.solution(growth.coordinates)  # at once, not solved to the end
            self._publish(self._build_model(training, basis, solution), solution, training, None)
            self.interrupted_ = True
            self.selected_indices_ = training.original(selected)
            self.n_kernel_evals_ = machine.columns.n_evals
            warn_interrupted(self, f"the best machine so far, with {size} basis vectors, is kept", stacklevel=5)
            return
        part = rows if self.refit or len(grown.train) == rows.n_rows else rows.subset(grown.train)
        design = Design(part, kernel, basis, whiten=True, memory_budget=self.memory_budget)
        start = np.zeros((size + 1, machine.n_outputs))
        start[:-1] = growth.coordinates[:, first:].T
        if first:
            start[-1] = growth.coordinates[:, 0]
        objective = Problem(design, problem.loss, C, bool(self.fit_intercept), bool(self.penalize_intercept))
        solution = solve(objective, start, solver_settings(self, deadline))
        labels = training.labels if part is rows or training.labels is None else training.labels[grown.train]
        words = {"fit_intercept": bool(self.fit_intercept), "penalize_intercept": bool(self.penalize_intercept)}
        seen = replace(training, rows=part, labels=labels)
        moved = moved_vectors(self, Chosen(seen, kernel, basis, problem.loss, C, **words), deadline)
        if moved is not None and moved.kept:
            basis, solution, kernel = moved.machine.basis, moved.machine.solution, moved.machine.kernel
            training = replace(training, kernel=kernel)
        if not training.whole and training.origin is not None:
            settings = solver_settings(self, deadline)
            solution = solve_on_all_rows(training.origin, kernel, basis, problem.loss, C, solution, settings, **words)
        self._publish(self._build_model(training, basis, solution), solution, training, None)
        self.selected_indices_ = training.original(selected)
        self.n_kernel_evals_ = machine.columns.n_evals + design.n_kernel_evals
        if moved is not None:
            moved.publish(self)
        if not self.interrupted_:
            self._report(solution, deadline)


def _grow_on(
    training: Training,
    problem: FeeProblem,
    train: Array,
    held: Array,
    C: float,
    observe: Observer | None = None,
) -> _Grown:
    rows, kernel, order = training.rows, training.kernel, np.concatenate([train, held])
    vectors = class_means(rows, kernel, training.labels, train)
    columns = KernelColumns(rows if np.array_equal(order, np.arange(rows.n_rows)) else rows.subset(order), kernel)
    candidates = FeeCandidates(problem.hashes, train, problem.key)
    capacity = min(problem.plan.n_basis, candidates.n_rows + len(vectors))
    machine = problem.machine(columns, FirstVectors.of(columns, vectors), train, C, capacity)
    plan = replace(problem.plan, n_basis=capacity)
    growth = grow_fee(machine, candidates, plan, problem.judge(held if len(held) else train), observe)
    return _Grown(growth, machine, train)


class FEESVC(FeeMachine, MachineClassifier):
    """Support vector classifier grown by fast error estimation.

    The basis starts from the class means.  At each step a few support vectors are tried as the next basis vector; the
    validation error of the machine that each would give is estimated from the present one with the weights of its
    least-squares form held, and the best joins (Navia-Vazquez, Diaz-Morales: seed 000).  Growth stops `patience`
    steps after the lowest validation error.

    Parameters
    ----------
    n_basis : int, default=100
        Largest number of basis vectors.
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel, default="rbf"
        With "precomputed" the row nearest to each class mean takes its place.
    gamma : {"scale", "auto", "learn", "ard"}, float or array of shape (n_features,), default="scale"
        "learn" (one width) and "ard" (one per feature) move with the vectors and need `refine=True`.
    degree : int, default=3
    coef0 : float, default=0.0
    C : float, default=1.0
    loss : {"hinge", "squared_hinge", "least_squares", "huber"} or Loss, default="hinge"
    epsilon : float, default=None
    selection : {"fee", "sgma", "gsvc"}, default="fee"
        Lowest estimated validation error; largest decrease of the representation error of the support vectors
        (SGMA-SVM); or the support vector least like the basis.
    n_candidates : int, default=10
        Support vectors tried at each step.
    patience : int, default=20
        Steps without a lower validation error after which growth stops.
    validation_fraction : float, default=0.2
        Share of the rows held out to choose vectors and size; the machine at the best step is returned.  None, with
        ``cv=None``: no validation, growth to `n_basis` by the error on the training rows.
    cv : int, splitter or list of splits, default=None
        Grow on every fold instead, and regrow on all rows to the mean of the folds' best sizes.
    refit : bool, default=False
        Fit the weights of the returned machine to all rows, those held out included.
    tune : bool, default=False
        Choose sigma, C and the size by the paper's two grids over `cv` (five folds if None); sets `C_`, `gamma_`
        and `search_`.  Gaussian kernel only.
    sigma_exponents, C_exponents : array-like, default=None
        First grid: sigma = 2^n sqrt(n_features), n = -6..3, and C = 10^n, n = -4..5.
    tune_rule : {"min", "confirmed", "one_se"}, default="min"
        Lowest cross-validation error, as in the paper; the lowest that the folds confirm on rows which had no say in
        the choice of vectors (twice the trainings, far less deceived on small sets); or the smallest machine within
        one standard error of that.
    solver : {"newton", "irwls"}, default="newton"
        Training while growing: Newton's method on slightly rounded kinks from a warm start, or the reweighted least
        squares of the paper's Table 1, which is slow (set `growth_iter` to some hundred).  The returned machine is
        solved to the end in either case.
    growth_iter : int, default=20
        Training steps per size while growing.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output"}, default="one_vs_rest"
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
    class_weight : dict or "balanced", default=None
    refine : bool, default=False
        Move the vectors after they were chosen, to lower the objective further; they are then no rows. Held-out rows
        check that it pays, and `refinement_` tells.
    refine_iter : int, default=100
        Iterations of refinement at most.
    tol : float, default=1e-8
    max_iter : int, default=200
        Steps of the last training.
    max_time : float, default=None
        Seconds after which growth stops.
    memory_budget : int, default=None
        Bytes for the features of all rows (None: 1 GiB).
    n_jobs : int, default=None
        Threads, and processes of a search; None follows the BLAS limit in force.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
        Class means first, then rows; moved ones with refine=True.
    basis_indices_ : None
        Class means are no rows; see `selected_indices_`.
    selected_indices_ : ndarray of int
        Row numbers of the basis vectors behind the class means, in the order in which they were chosen.
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    classes_ : ndarray of shape (n_classes,)
    n_basis_ : int
    C_, gamma_ : float
    history_ : list of dict
        One record per size: estimated and actual validation error (`train_error` where nothing is held out); with folds
        the number of the fold.
    fold_sizes_, fold_errors_ : ndarray
        Best size and lowest error of every fold, with `cv`.
    refinement_ : dict
        With refine=True: whether the moved vectors were kept, objective and held-out error before and after.
    search_ : FeeSearch
        All points of the search, with `tune=True`.
    n_iter_, converged_, objective_, jitter_, n_kernel_evals_ : see the other estimators

    Examples
    --------
    >>> from kompakt import FEESVC
    >>> from kompakt.datasets import make_checkerboard
    >>> X, y = make_checkerboard(400, n_cells=2)
    >>> machine = FEESVC(C=100.0, random_state=0).fit(X, y)
    >>> bool(machine.n_basis_ < 40), bool(machine.score(X, y) > 0.93)
    (True, True)
    """

    _classifier = True

    def __init__(
        self,
        n_basis: int = 100,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        C: float = 1.0,
        loss: Any = "hinge",
        epsilon: float | None = None,
        selection: str = "fee",
        n_candidates: int = 10,
        patience: int = 20,
        validation_fraction: float | None = 0.2,
        cv: Any = None,
        refit: bool = False,
        tune: bool = False,
        sigma_exponents: Any = None,
        C_exponents: Any = None,
        tune_rule: str = "min",
        solver: str = "newton",
        growth_iter: int = 20,
        coding: str = "one_vs_rest",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: Any = None,
        refine: bool = False,
        refine_iter: int = 100,
        tol: float = 1e-8,
        max_iter: int = 200,
        max_time: float | None = None,
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
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.selection = selection
        self.n_candidates = n_candidates
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.cv = cv
        self.refit = refit
        self.tune = tune
        self.sigma_exponents = sigma_exponents
        self.C_exponents = C_exponents
        self.tune_rule = tune_rule
        self.solver = solver
        self.growth_iter = growth_iter
        self.coding = coding
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
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

    def trace_candidates(
        self, X: Any, y: Any, grid: Any, steps: Sequence[int], sample_weight: Any = None
    ) -> list[tuple[int, Array, int]]:
        """Grow as `fit` would, and tell what the estimated machines of all candidates say at some sizes.

        Nothing of the estimator is changed but what validation of X sets.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        grid : array-like of shape (n_points, n_features)
            Where the estimated machines are evaluated.
        steps : sequence of int
            Sizes, with the candidate counted.

        Returns
        -------
        list of (size, values, winner)
            Decision values (n_candidates, n_points) of the first output, and the place of the candidate that was added.

        Examples
        --------
        >>> from kompakt import FEESVC
        >>> from kompakt.datasets import make_checkerboard
        >>> X, y = make_checkerboard(200, n_cells=2)
        >>> (size, values, winner), = FEESVC(C=100.0, random_state=0).trace_candidates(X, y, X[:5], [4])
        >>> size, values.shape
        (4, (10, 5))
        """
        found: list[tuple[int, Array, int]] = []
        wanted = {int(step) for step in steps}
        with block_threads(self.n_jobs):
            training = prepare(self, X, y, sample_weight, classifier=True)
            rows, kernel = training.rows, training.kernel
            points = np.asarray(grid, dtype=np.float64)
            points = points if rows.offset is None else points - rows.offset

            def look(machine: SemiparametricMachine, trial: Trial, winner: int) -> None:
                if machine.n_basis + 1 not in wanted:
                    return
                own = machine.first_vectors.vectors[machine.used_vectors]
                rest = machine.columns.vectors(np.array([*machine.indices, *trial.indices]))
                K = kernel.block(points, np.concatenate([own, rest]))
                intercept, beta = fast_weights(machine, trial)
                m = machine.n_basis
                shared = K[:, :m] @ beta[:, 0, :m].T + K[:, m:] * beta[:, 0, m]
                found.append((m + 1, (shared + intercept[:, 0]).T, winner))

            self._grow(training, self._problem(training, None), float(self.C), look)
        return found


class FEESVR(FeeMachine, MachineRegressor):
    """Kernel regressor grown by fast error estimation: `FEESVC` with the mean squared error of the validation rows.

    The basis starts from the mean of the rows.  With least squares, the default, the weights held are constant, so the
    estimate of a candidate's validation error is its validation error.

    Parameters
    ----------
    n_basis, kernel, gamma, degree, coef0, C, selection, n_candidates, patience, validation_fraction, cv, refit, tune, \
sigma_exponents, C_exponents, tune_rule, solver, growth_iter, fit_intercept, penalize_intercept, refine, \
refine_iter, tol, max_iter, max_time, memory_budget, n_jobs, random_state, verbose
        As for `FEESVC`.
    loss : {"least_squares", "huber", "epsilon_insensitive", "absolute", "quantile"} or Loss, default="least_squares"
    epsilon : float, default=None

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
        The mean of the rows first, then rows.
    selected_indices_, dual_coef_, intercept_, n_basis_, history_, fold_sizes_, fold_errors_, search_
        As for `FEESVC`; errors are mean squared errors.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt import FEESVR
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> machine = FEESVR(C=1000.0, random_state=0).fit(X, np.sinc(X[:, 0]))
    >>> bool(machine.score(X, np.sinc(X[:, 0])) > 0.99)
    True
    """

    _classifier = False

    def __init__(
        self,
        n_basis: int = 100,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        C: float = 1.0,
        loss: Any = "least_squares",
        epsilon: float | None = None,
        selection: str = "fee",
        n_candidates: int = 10,
        patience: int = 20,
        validation_fraction: float | None = 0.2,
        cv: Any = None,
        refit: bool = False,
        tune: bool = False,
        sigma_exponents: Any = None,
        C_exponents: Any = None,
        tune_rule: str = "min",
        solver: str = "newton",
        growth_iter: int = 20,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        refine: bool = False,
        refine_iter: int = 100,
        tol: float = 1e-8,
        max_iter: int = 200,
        max_time: float | None = None,
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
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.selection = selection
        self.n_candidates = n_candidates
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.cv = cv
        self.refit = refit
        self.tune = tune
        self.sigma_exponents = sigma_exponents
        self.C_exponents = C_exponents
        self.tune_rule = tune_rule
        self.solver = solver
        self.growth_iter = growth_iter
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.refine = refine
        self.refine_iter = refine_iter
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
