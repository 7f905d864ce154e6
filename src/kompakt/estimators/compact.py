"""CompactSVC and CompactSVR: compact machines with a chosen number of basis vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kompakt.basis.build import Array, Machine, Plan, choose, choose_and_solve
from kompakt.basis.path import size_path
from kompakt.estimators.base import (
    KernelMachine,
    MachineClassifier,
    MachineRegressor,
    is_dask,
    lazily,
    offered_if,
)
from kompakt.estimators.partial import PartialClassifier, PartialRegressor
from kompakt.estimators.selectors import make_selector
from kompakt.kernels import RBF, Kernel, make_kernel
from kompakt.run import Run
from kompakt.search.compact import Setting, tune_compact
from kompakt.search.widths import leave_one_out_widths
from kompakt.spec import Basis, Data, Spec
from kompakt.train.data import LEARNED, splits_of
from kompakt.train.pipeline import Fit
from kompakt.validation import holdout

#: the largest size that n_basis="auto" looks at, and the size that a search without a given size uses
_LARGEST_AUTO, _SIZE_TO_TUNE = 256, 64


class _Compact(KernelMachine):
    """What both do: select by any selector, search by successive halving, refine, choose a size on a path."""

    n_basis: int | str
    kernel: Any
    gamma: Any
    degree: int
    coef0: float
    selection: Any
    n_candidates: int | None
    refine: bool
    validation_fraction: float
    tune: bool
    cv: Any
    size_tol: float | None
    warm_start: bool
    basis_vectors_: Array
    _learned_widths = LEARNED
    _drops_matrix_rows = True  # rows of weight zero may be left out of a precomputed matrix

    def _plan(self, data: Data, run: Run) -> Plan:
        selector = make_selector(self.selection, self.n_candidates)
        plan = super()._plan(data, run)
        return replace(plan, selector=selector, validation_fraction=float(self.validation_fraction))

    def _passes(self, fit: Fit) -> bool:
        everything = getattr(fit.plan.selector, "streams", False) and not self.refine and not self.tune
        return bool(everything and fit.n_basis is not None and not getattr(self, "calibrate", False))

    def _search(self, fit: Fit) -> None:
        """One width per feature by leave-one-out (`gamma="loo"`); C, the starting width and epsilon (`tune=True`)."""
        fit.start = self._warm_start(fit.data)
        if isinstance(self.gamma, str) and self.gamma == "loo":
            gamma: Any = fit.spec.kernel.gamma  # type: ignore[attr-defined]
            found = leave_one_out_widths(fit.data.rows, float(gamma), fit.spec.C, key=fit.run.key)
            fit.spec = replace(fit.spec, kernel=RBF(found.gamma))
            fit.n_kernel_evals += found.n_kernel_evals
            fit.run.note("widths", error_before=found.error_before, error=found.error, C=found.C)
        if self.tune:
            self._tune(fit)

    def _tune(self, fit: Fit) -> None:
        spec, data = fit.spec, fit.data
        gamma: Any = getattr(spec.kernel, "gamma", None)
        has_width = isinstance(self.kernel, str) and gamma is not None and np.ndim(gamma) == 0
        epsilons: list[float | None] = [None]
        if hasattr(spec.loss, "epsilon") and not data.classifier:
            spread = 0.0 if data.rows.targets is None else float(np.std(data.rows.targets))
            if spread > 0:
                epsilons = [spread * share for share in (0.02, 0.1, 0.5)]

        def kernel_of(width: float | None) -> Kernel:
            if width is None:
                return spec.kernel
            return make_kernel(self.kernel, gamma=width, coef0=self.coef0, degree=self.degree)

        def spec_of(setting: Setting) -> Spec:
            loss = spec.loss
            if setting.epsilon is not None:
                loss = replace(loss, epsilon=setting.epsilon)  # type: ignore[type-var]
            return replace(spec, kernel=kernel_of(setting.gamma), loss=loss, C=setting.C)

        size = _SIZE_TO_TUNE if fit.n_basis is None else fit.n_basis
        width = float(gamma) if has_width else None
        found = tune_compact(data, spec_of, width, epsilons, size, fit.plan, self._splits(fit), fit.run)
        best = found.setting
        fit.spec = spec_of(best)
        fit.n_kernel_evals += found.n_kernel_evals
        fit.attributes["cv_results_"] = found.results
        fit.run.note("tuning", C=best.C, gamma=best.gamma, error=found.error)

    def _choose_size(self, fit: Fit) -> None:
        """The number of basis vectors, on a path of sizes."""
        splits = self._splits(fit)
        largest = int(min(_LARGEST_AUTO, max(1, min(len(train) for train, _ in splits) // 2)))
        path = size_path(fit.data, fit.spec, largest, fit.plan, splits, fit.run.within(0.6), self.size_tol)
        fit.n_basis = path.size
        if path.basis is not None:
            fit.spec = replace(fit.spec, kernel=path.kernel)
            fit.start = path.basis if fit.start is None else fit.start
        fit.n_kernel_evals += path.n_kernel_evals
        fit.attributes["size_path_"] = path

    def _choose_basis(self, fit: Fit) -> Machine:
        assert fit.n_basis is not None
        return choose_and_solve(fit.data, fit.spec, fit.n_basis, fit.plan, fit.run, fit.start)

    def _splits(self, fit: Fit) -> list[tuple[Array, Array]]:
        """The user's validation splits, or one held-out fifth."""
        data, seed = fit.data, fit.run.key % 2**31
        if self.cv is None:
            target = np.zeros(data.rows.n_rows) if data.labels is None else data.labels
            fraction = min(0.2, 20_000 / data.rows.n_rows)
            return [holdout(target, fraction, classifier=data.classifier, random_state=seed)]
        return splits_of(data, self.cv, seed)

    def _warm_start(self, data: Data) -> Array | None:
        """Vectors of the last fit, for `warm_start`."""
        if not self.warm_start or getattr(self, "basis_vectors_", None) is None:
            return None
        rows = data.rows
        if self.basis_vectors_.shape[1] != rows.n_features:
            raise ValueError(
                f"warm_start=True goes on from the last fit, which had {self.basis_vectors_.shape[1]} features; X has "
                f"{rows.n_features}. Set warm_start=False to start anew."
            )
        start = rows.as_inputs(self.basis_vectors_).astype(rows.dtype)
        return start if rows.offset is None else start - rows.offset

    def _first_basis(self, data: Data, spec: Spec, run: Run) -> Basis:
        """The basis of `partial_fit`, from its first batch."""
        return choose(data, spec, int(self.n_basis), self._plan(data, run), run)


def _calibrated(machine: Any) -> None:
    if not machine.calibrate:
        raise AttributeError(
            f"{type(machine).__name__} has no predict_proba with calibrate=False: pass calibrate=True and fit again, "
            "or wrap the classifier in scikit-learn's CalibratedClassifierCV."
        )


class CompactSVC(_Compact, PartialClassifier, MachineClassifier):
    """Compact support vector classifier with a chosen number of basis vectors.

    Minimises ``1/2 beta' K beta + C sum_i s_i loss_i`` over the weights of `n_basis` basis vectors, with one shared
    basis for all classes.

    Parameters
    ----------
    n_basis : int or "auto", default=100
        Number of basis vectors; "auto" takes the smallest within one standard error of the best on a path of sizes.
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel, default="rbf"
    gamma : {"scale", "auto", "learn", "ard", "full", "loo"}, float or array of shape (n_features,), default=None
        Width of the kernel; "scale" is 1 / (n_features * variance of X), "auto" 1 / n_features. Refinement learns
        one width ("learn"), one per feature ("ard") or a linear map A of the inputs ("full"), with which the kernel
        is ``exp(-|A (x - c)|^2)``, starting from "scale". "loo" takes one per feature by leave-one-out on a sample,
        for sets of a few hundred rows. None, with refinement of a Gaussian kernel, learns one per feature and then,
        with at most 200 features, grows them to a map if held-out rows say that it pays; otherwise it means "scale".
    degree : int, default=3
    coef0 : float, default=0.0
    C : float, default=1.0
        Cost of the losses.
    loss : {"squared_hinge", "hinge", "least_squares", "huber"} or Loss, default="squared_hinge"
    epsilon : float, default=None
        Where the Huber loss becomes linear; None takes the loss's default.
    selection : {"gram", "random", "renyi", "all"}, array of vectors or selector, default="gram"
        How basis vectors are chosen among the rows: exact forward selection in Gram space, at random by hash, by
        the entropy of the inputs, or every row.
    n_candidates : int, default=None
        Candidates per round of "gram"; None takes four per basis vector, between 200 and 2,000.
    refine : bool, default=True
        Move the basis vectors (and widths, see `gamma`) to lower the objective, as far as held-out rows say that it
        pays: their loss is watched along the descent.
    refine_iter : int, default=100
        Iterations of the descent at most.
    validation_fraction : float, default=0.1
        Share of the rows (at most 5,000) held out to say where refinement stops. Below 3,000 rows they are held out
        in three folds, below 200 in five, whose mean loss says how far to go on all rows; below 100 rows, and with 0,
        refinement goes all the way.
    tune : bool, default=False
        Choose C, the starting width and epsilon by successive halving over rows and vectors; sets `C_`, `gamma_`,
        `epsilon_` and `cv_results_`.
    cv : int, splitter or list of splits, default=None
        Validation for `tune` and `n_basis="auto"`; None holds out a fifth of the rows once.
    size_tol : float, default=None
        With "auto": how much above the best validation error the chosen size may lie, instead of one standard error.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output"}, default="one_vs_rest"
        How more than two classes become outputs on the shared basis.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
        Whether the intercept counts in the penalty.
    class_weight : dict or "balanced", default=None
    calibrate : bool, default=False
        Offer `predict_proba` by a sigmoid fitted to outputs of held-out rows.
    tol : float, default=1e-8
        Relative norm of the gradient at which a fit ends.
    max_iter : int, default=200
    max_time : float, default=None
        Seconds after which the fit stops with the best machine so far.
    warm_start : bool, default=False
        Go on from the basis of the last fit.
    memory_budget : int, default=None
        Bytes for stored kernel values (None: 1 GiB); a larger design is recomputed by blocks.
    n_jobs : int, default=None
        Threads over row blocks; None follows the BLAS limit in force.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
    basis_indices_ : ndarray of shape (n_basis_,) or None
        Row numbers of the basis vectors in X.
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    classes_ : ndarray of shape (n_classes,)
    n_basis_, n_iter_, converged_, n_kernel_evals_, objective_, jitter_, history_, gamma_, kernel_, model_

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import CompactSVC
    >>> X, y = make_moons(400, noise=0.1, random_state=0)
    >>> machine = CompactSVC(n_basis=20, random_state=0).fit(X, y)
    >>> machine.n_basis_, machine.score(X, y) > 0.95
    (20, True)
    """

    def __init__(
        self,
        n_basis: Any = 100,
        *,
        kernel: Any = "rbf",
        gamma: Any = None,
        degree: int = 3,
        coef0: float = 0.0,
        C: float = 1.0,
        loss: Any = "squared_hinge",
        epsilon: float | None = None,
        selection: Any = "gram",
        n_candidates: int | None = None,
        refine: bool = True,
        refine_iter: int = 100,
        validation_fraction: float = 0.1,
        tune: bool = False,
        cv: Any = None,
        size_tol: float | None = None,
        coding: str = "one_vs_rest",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: Any = None,
        calibrate: bool = False,
        tol: float = 1e-8,
        max_iter: int = 200,
        max_time: float | None = None,
        warm_start: bool = False,
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
        self.refine = refine
        self.refine_iter = refine_iter
        self.validation_fraction = validation_fraction
        self.tune = tune
        self.cv = cv
        self.size_tol = size_tol
        self.coding = coding
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.calibrate = calibrate
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.warm_start = warm_start
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @offered_if(_calibrated)
    def predict_proba(self, X: Any) -> Array:
        """Class probabilities; needs ``calibrate=True``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        if is_dask(X):
            return lazily(self, "predict_proba", X)
        scores = self.decision_function(X)
        return self.model_.probabilities(scores)


class CompactSVR(_Compact, PartialRegressor, MachineRegressor):
    """Compact kernel regressor with a chosen number of basis vectors.

    Parameters
    ----------
    n_basis : int or "auto", default=100
        Number of basis vectors; "auto" takes the smallest within one standard error of the best on a path of sizes.
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel, default="rbf"
    gamma : {"scale", "auto", "learn", "ard", "full", "loo"}, float or array of shape (n_features,), default=None
        Width of the kernel; "scale" is 1 / (n_features * variance of X), "auto" 1 / n_features. Refinement learns
        one width ("learn"), one per feature ("ard") or a linear map A of the inputs ("full"), with which the kernel
        is ``exp(-|A (x - c)|^2)``, starting from "scale". "loo" takes one per feature by leave-one-out on a sample,
        for sets of a few hundred rows. None, with refinement of a Gaussian kernel, learns one per feature and then,
        with at most 200 features, grows them to a map if held-out rows say that it pays; otherwise it means "scale".
    degree : int, default=3
    coef0 : float, default=0.0
    C : float, default=1.0
        Cost of the losses.
    loss : {"least_squares", "huber", "epsilon_insensitive", "absolute", "quantile"} or Loss, default="least_squares"
    epsilon : float, default=None
        Width of the insensitive zone, or where the Huber loss becomes linear; None takes the loss's default.
    quantile : float, default=0.5
        Which quantile the loss "quantile" estimates, between 0 and 1.
    selection : {"gram", "random", "renyi", "all"}, array of vectors or selector, default="gram"
        How basis vectors are chosen among the rows: exact forward selection in Gram space, at random by hash, by
        the entropy of the inputs, or every row.
    n_candidates : int, default=None
        Candidates per round of "gram"; None takes four per basis vector, between 200 and 2,000.
    refine : bool, default=True
        Move the basis vectors (and widths, see `gamma`) to lower the objective, as far as held-out rows say that it
        pays: their loss is watched along the descent.
    refine_iter : int, default=100
        Iterations of the descent at most.
    validation_fraction : float, default=0.1
        Share of the rows (at most 5,000) held out to say where refinement stops. Below 3,000 rows they are held out
        in three folds, below 200 in five, whose mean loss says how far to go on all rows; below 100 rows, and with 0,
        refinement goes all the way.
    tune : bool, default=False
        Choose C, the starting width and epsilon by successive halving over rows and vectors; sets `C_`, `gamma_`,
        `epsilon_` and `cv_results_`.
    cv : int, splitter or list of splits, default=None
        Validation for `tune` and `n_basis="auto"`; None holds out a fifth of the rows once.
    size_tol : float, default=None
        With "auto": how much above the best validation error the chosen size may lie, instead of one standard error.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
    tol : float, default=1e-8
    max_iter : int, default=200
    max_time : float, default=None
    warm_start : bool, default=False
    memory_budget : int, default=None
    n_jobs : int, default=None
    random_state : int, RandomState or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    basis_vectors_, basis_indices_, dual_coef_, intercept_, n_basis_, n_iter_, converged_, n_kernel_evals_,
    objective_, jitter_, history_, gamma_, kernel_, model_
        As for `CompactSVC`.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt import CompactSVR
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> machine = CompactSVR(n_basis=15, C=100.0, random_state=0).fit(X, np.sin(X).ravel())
    >>> round(machine.score(X, np.sin(X).ravel()), 2)
    1.0
    """

    def __init__(
        self,
        n_basis: Any = 100,
        *,
        kernel: Any = "rbf",
        gamma: Any = None,
        degree: int = 3,
        coef0: float = 0.0,
        C: float = 1.0,
        loss: Any = "least_squares",
        epsilon: float | None = None,
        quantile: float = 0.5,
        selection: Any = "gram",
        n_candidates: int | None = None,
        refine: bool = True,
        refine_iter: int = 100,
        validation_fraction: float = 0.1,
        tune: bool = False,
        cv: Any = None,
        size_tol: float | None = None,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        tol: float = 1e-8,
        max_iter: int = 200,
        max_time: float | None = None,
        warm_start: bool = False,
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
        self.quantile = quantile
        self.selection = selection
        self.n_candidates = n_candidates
        self.refine = refine
        self.refine_iter = refine_iter
        self.validation_fraction = validation_fraction
        self.tune = tune
        self.cv = cv
        self.size_tol = size_tol
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.warm_start = warm_start
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
