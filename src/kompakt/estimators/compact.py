"""The flagship: compact machines with a chosen number of basis vectors."""

from __future__ import annotations

from typing import Any

from kompakt.estimators.base import Array, MachineClassifier, MachineRegressor, offered_if
from kompakt.estimators.compact_fit import FlagshipFit
from kompakt.estimators.lazy import is_dask, lazily
from kompakt.estimators.partial import PartialClassifier, PartialRegressor


def _calibrated(machine: Any) -> None:
    if not machine.calibrate:
        raise AttributeError(
            f"{type(machine).__name__} has no predict_proba with calibrate=False: pass calibrate=True and fit again, "
            "or wrap the classifier in scikit-learn's CalibratedClassifierCV."
        )


class CompactSVC(FlagshipFit, PartialClassifier, MachineClassifier):
    """Compact support vector classifier with a chosen number of basis vectors.

    Minimises ``1/2 beta' K beta + C sum_i s_i loss_i`` over the weights of `n_basis` basis vectors, with one shared
    basis for all classes.

    Parameters
    ----------
    n_basis : int or "auto", default=100
        Number of basis vectors; "auto" takes the smallest within one standard error of the best on a path of sizes.
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel, default="rbf"
    gamma : {"scale", "auto", "learn", "ard", "loo"}, float or array of shape (n_features,), default=None
        Width of the kernel; "scale" is 1 / (n_features * variance of X), "auto" 1 / n_features. Refinement learns
        one width ("learn") or one per feature ("ard"), starting from "scale". "loo" takes one per feature by
        leave-one-out on a sample, for sets of a few hundred rows. None means "ard" with refinement of a Gaussian
        kernel, and "scale" otherwise.
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
        Move the basis vectors (and widths, see `gamma`) to lower the objective; never worse than the start on the
        training objective or on held-out rows.
    refine_iter : int, default=100
        Iterations of the descent.
    validation_fraction : float, default=0.1
        Share of the rows (at most 5,000) held out to check refinement; 0 checks the objective only.
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

    _classifier = True

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


class CompactSVR(FlagshipFit, PartialRegressor, MachineRegressor):
    """Compact kernel regressor with a chosen number of basis vectors.

    Parameters
    ----------
    n_basis : int or "auto", default=100
        Number of basis vectors; "auto" takes the smallest within one standard error of the best on a path of sizes.
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel, default="rbf"
    gamma : {"scale", "auto", "learn", "ard", "loo"}, float or array of shape (n_features,), default=None
        Width of the kernel; "scale" is 1 / (n_features * variance of X), "auto" 1 / n_features. Refinement learns
        one width ("learn") or one per feature ("ard"), starting from "scale". "loo" takes one per feature by
        leave-one-out on a sample, for sets of a few hundred rows. None means "ard" with refinement of a Gaussian
        kernel, and "scale" otherwise.
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
        Move the basis vectors (and widths, see `gamma`) to lower the objective; never worse than the start on the
        training objective or on held-out rows.
    refine_iter : int, default=100
        Iterations of the descent.
    validation_fraction : float, default=0.1
        Share of the rows (at most 5,000) held out to check refinement; 0 checks the objective only.
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

    _classifier = False

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
