"""FEESVC and FEESVR: machines grown by fast error estimation (Navia-Vazquez and Diaz-Morales 2010)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from kompakt.basis.build import Machine, Plan
from kompakt.basis.fee import (
    FeeCandidates,
    FeeGrowth,
    FeePlan,
    Observer,
    SemiparametricMachine,
    Trial,
    fast_weights,
    grow_on,
)
from kompakt.basis.forward import CandidateStream, Record
from kompakt.data import hash_rows
from kompakt.design import Design
from kompakt.estimators.base import KernelMachine, MachineClassifier, MachineRegressor
from kompakt.kernels import RBF
from kompakt.parallel import block_threads
from kompakt.run import Run
from kompakt.search.fee import C_EXPONENTS, RULES, SIGMA_EXPONENTS, search_fee
from kompakt.solve import Problem, solve
from kompakt.spec import Basis, Data
from kompakt.train.data import prepare, splits_of
from kompakt.train.pipeline import Fit
from kompakt.validation import Split, holdout

Array = np.ndarray


class _FastEstimation(KernelMachine):
    """What classifier and regressor share: choosing a size, growing to it, weights to the end."""

    n_basis: int
    kernel: Any
    C: float
    selection: str
    n_candidates: int
    patience: int
    validation_fraction: float | None
    cv: Any
    refit: bool
    tune: bool
    sigma_exponents: Any
    C_exponents: Any
    tune_rule: str
    solver: str
    growth_iter: int
    n_jobs: int | None

    def _plan(self, data: Data, run: Run) -> Plan:
        if self.tune_rule not in RULES:
            raise ValueError(f"tune_rule must be one of {RULES}; got {self.tune_rule!r}.")
        if not isinstance(self.n_basis, Integral):
            raise ValueError(
                f"n_basis is the largest size, a whole number of at least 1; got {self.n_basis!r}. "
                "The size itself is chosen by validation (cv or validation_fraction)."
            )
        return super()._plan(data, run)

    def _growth_plan(self, fit: Fit) -> FeePlan:
        assert fit.n_basis is not None
        return FeePlan(
            fit.n_basis,
            self.selection,
            int(self.n_candidates),
            int(self.patience),
            int(self.growth_iter),
            solver=self.solver,
            run=fit.run,
        )

    def _search(self, fit: Fit) -> None:
        """Sigma, C and the size by the paper's protocol, with `tune=True`."""
        plan = self._growth_plan(fit)
        if not self.tune:
            return
        if not isinstance(fit.spec.kernel, RBF):
            raise ValueError(f"tune=True searches the width of a Gaussian kernel; got kernel={self.kernel!r}.")
        sigmas = SIGMA_EXPONENTS if self.sigma_exponents is None else self.sigma_exponents
        costs = C_EXPONENTS if self.C_exponents is None else self.C_exponents
        plan = replace(plan, run=fit.run.inner())
        splits = splits_of(fit.data, 5 if self.cv is None else self.cv, fit.run.key)
        found = search_fee(fit.data, fit.spec, plan, splits, sigmas, costs, rule=self.tune_rule, n_jobs=self.n_jobs)
        best = found.best
        fit.spec = replace(fit.spec, kernel=RBF(best.gamma), C=best.C)
        fit.n_basis = best.size
        fit.attributes |= {"search_": found, "fold_errors_": best.errors, "fold_sizes_": best.sizes}

    def _choose_basis(self, fit: Fit) -> Machine:
        machine, growth, train = self._grow(fit)
        data, kernel = fit.data, fit.spec.kernel
        n_vectors = min(len(machine.used_vectors), growth.size)
        selected = train[np.array(machine.indices[: growth.size - n_vectors], dtype=np.intp)]
        vectors = machine.first_vectors.vectors[machine.used_vectors[:n_vectors]]
        if len(selected):
            vectors = np.concatenate([vectors, kernel.take_basis(data.rows, selected).astype(vectors.dtype)])
        fit.attributes["selected_indices_"] = data.original(selected)
        basis, evaluations = Basis(None, vectors), machine.columns.n_evals
        if growth.interrupted:  # at once, not solved to the end
            return Machine(fit.spec, basis, machine.solution(growth.coordinates), evaluations, interrupted=True)
        if not self.refit and len(train) < data.rows.n_rows:
            # rows that chose vectors and size would flatter the weights: neither they nor refinement see them
            part = data.subset(train)
            fit.data = replace(data, rows=part.rows, labels=part.labels, y=part.y, kept=data.original(train))
        design = Design(fit.data.rows, kernel, vectors, whiten=True, memory_budget=fit.run.memory_budget)
        start = np.zeros((growth.size + 1, machine.n_outputs))
        start[:-1] = growth.coordinates[:, machine.first :].T
        if machine.first:
            start[-1] = growth.coordinates[:, 0]
        solution = solve(Problem.of(design, fit.spec), start, fit.plan.settings(fit.run))
        return Machine(fit.spec, basis, solution, evaluations + design.n_kernel_evals)

    def _grow(self, fit: Fit, observe: Observer | None = None) -> tuple[SemiparametricMachine, FeeGrowth, Array]:
        """The machine, its growth and the rows it was trained on; `observe` sees the steps of its growth."""
        data, spec, key = fit.data, fit.spec, fit.run.key
        plan = self._growth_plan(fit)
        stream = CandidateStream.of(hash_rows(data.rows.X, key), key)

        def grown(
            plan: FeePlan, split: Split, watch: Observer | None = None
        ) -> tuple[SemiparametricMachine, FeeGrowth]:
            return grow_on(data, spec, plan, FeeCandidates(stream, split[0]), split, observe=watch)

        if self.cv is None and self.validation_fraction is not None and not self.tune:
            # one held-out part: the machine at its best step
            target = data.y if data.labels is None else data.labels
            assert target is not None
            share = float(self.validation_fraction)
            train, held = holdout(target, share, classifier=data.classifier, random_state=key)
            machine, growth = grown(plan, (train, held), observe)
            fit.attributes["history_"] = growth.records
            return machine, growth, train
        history: list[Record] = []
        n_evals = 0
        if self.cv is not None and not self.tune:
            inner, sizes, errors = replace(plan, run=fit.run.inner()), [], []
            for number, split in enumerate(splits_of(data, self.cv, key)):
                machine, growth = grown(inner, split)
                history += [{"fold": number, **record} for record in growth.records]
                n_evals += machine.columns.n_evals
                sizes.append(growth.size)
                errors.append(growth.error)
            fit.attributes |= {"fold_sizes_": np.array(sizes), "fold_errors_": np.array(errors)}
            plan = replace(plan, n_basis=max(1, round(float(np.mean(sizes)))))
        train = np.arange(data.rows.n_rows)
        everything = train, np.empty(0, dtype=np.intp)
        machine, growth = grown(replace(plan, patience=None), everything, observe)
        machine.columns.n_evals += n_evals
        fit.attributes["history_"] = history + growth.records
        return machine, growth, train


class FEESVC(_FastEstimation, MachineClassifier):
    """Support vector classifier grown by fast error estimation.

    The basis starts from the class means.  At each step a few support vectors are tried as the next basis vector; the
    validation error of the machine that each would give is estimated from the present one with the weights of its
    least-squares form kept, and the best joins (Navia-Vazquez and Diaz-Morales 2010).  Growth stops `patience`
    steps after the lowest validation error.

    Parameters
    ----------
    n_basis : int, default=100
        Largest number of basis vectors.
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel, default="rbf"
        With "precomputed" the row nearest to each class mean takes its place.
    gamma : {"scale", "auto", "learn", "ard", "full"}, float or array of shape (n_features,), default="scale"
        "learn" (one width), "ard" (one per feature) and "full" (a linear map of the inputs) move with the vectors and
        need `refine=True`.
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
        Move the vectors after they were chosen, to lower the objective further; they are then no rows. It goes
        as far as pays on held-out rows, and `refinement_` tells.
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
        With refine=True: whether the moved vectors were kept, what was learned of the metric, objective and held-out
        loss before and after, and that loss along the descent.
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
        run = Run(int(check_random_state(self.random_state).randint(2**31 - 1)), memory_budget=self.memory_budget)
        with block_threads(self.n_jobs):
            data, kernel = prepare(self, X, y, sample_weight, run, classifier=True)
            points = np.asarray(grid, dtype=np.float64)
            points = points if data.rows.offset is None else points - data.rows.offset

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

            self._grow(Fit(data, self._spec(data, kernel), run, self._plan(data, run), int(self.n_basis)), look)
        return found


class FEESVR(_FastEstimation, MachineRegressor):
    """Kernel regressor grown by fast error estimation: `FEESVC` with the mean squared error of the validation rows.

    The basis starts from the mean of the rows.  With least squares, the default, these weights are constant, so the
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
