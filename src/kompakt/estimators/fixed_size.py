"""Fixed-size least-squares machines: prototypes by entropy, ridge regression in the primal, fast tuning (seed 002)."""

from __future__ import annotations

from typing import Any

from kompakt.estimators.base import MachineClassifier, MachineRegressor
from kompakt.estimators.fixed_size_fit import FixedSizeFit
from kompakt.estimators.partial import PartialClassifier, PartialRegressor


class FixedSizeLSSVC(FixedSizeFit, PartialClassifier, MachineClassifier):
    """Fixed-size least-squares support vector classifier.

    Prototypes of high entropy give Nystrom features, on which ridge regression is solved in closed form:
    ``1/2 |w|^2 [+ 1/2 b^2] + C/2 sum_i s_i e_i^2``. Exact cross-validation costs about as much as one fit.

    Parameters
    ----------
    n_basis : int or "auto", default=100
        Number of prototype vectors m. "auto" picks among `sizes` by cross-validation, on nested sets that share one
        set of features.
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel, default="rbf"
        The linear kernel is solved in the input space, without prototypes (up to 2,000 features).
    gamma : {"scale", "auto", "learn", "ard"}, float or array of shape (n_features,), default="scale"
        Width of the kernel, as in scikit-learn; where a search begins. "learn" (one width) and "ard" (one per feature)
        move with the prototypes and need `refine=True`.
    degree : int, default=3
    coef0 : float, default=0.0
    C : float, default=1.0
        Cost of the losses, the paper's regularisation constant gamma; overridden by `tune`.
    loss : {"least_squares", "squared_hinge", "hinge", "huber"} or Loss, default="least_squares"
        For other losses the width is tuned with least squares, and C by refitting every fold.
    epsilon : float, default=None
        Where the Huber loss becomes linear.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output"}, default="one_vs_rest"
        How more than two classes become outputs. "one_vs_rest" and "minimum_output" (the paper's, with the fewest
        outputs and often twice the errors) share one factorisation; "one_vs_one" fits each pair of classes on its own
        rows.
    shared_basis : bool, default=False
        Whether one-vs-one uses all prototypes in every pair; by default those of the two classes.
    selection : {"renyi", "random", "gram", "all"}, array of vectors or selector, default="renyi"
        How prototypes are chosen: by swaps that raise the quadratic Renyi entropy of the inputs, at random, by forward
        selection in Gram space, or every distinct row, which is the full (dense) LS-SVM. `RenyiSelector()` is the
        plain criterion of the paper; the word widens its bandwidths where it is blind.
    n_candidates : int, default=None
        Candidates per round of "gram".
    tune : bool, default=False
        Search for C and the kernel's width by cross-validated error.
    search : {"profile", "anneal", "grid", "random"}, default="profile"
        "profile" searches the width and reads C off a path of exact cross-validations at each; "anneal" is the paper's
        search of both: coupled simulated annealing (90 evaluations), then the simplex method (70).
    search_options : dict, default=None
        Arguments of `kompakt.tune.search` for the strategies other than "profile".
    cv : int, splitter or list of splits, default=10
        Folds; each split must train on all rows that it does not validate.
    cv_prototypes : {"drop", "anew", "plain"}, default="drop"
        Prototypes of the folds' machines. They are chosen among all rows, and a row that is a prototype is shielded by
        a basis function of its own, so "plain" cross-validation, the paper's, reports too small an error. "drop" leaves
        out the prototypes that are rows of the fold, at no cost; "anew" chooses prototypes for every fold among the
        other rows, at the cost of a selection and of features per fold.
    sizes : list of int, default=None
        Sizes that n_basis="auto" tries; None takes five, doubling up to ten times the root of the number of rows, to
        all rows, or to 1,000, whichever is least.
    size_rule : {"best", "one_se", "within"}, default="best"
        How n_basis="auto" picks; see `kompakt.validate.pick_size`.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
        Whether the intercept counts in the penalty, as in De Brabanter et al. 2010, eq. 7. Where it does, the result
        depends on where the targets lie.
    class_weight : dict or "balanced", default=None
    refine : bool, default=False
        Move the vectors after they were chosen, to lower the objective further; they are then no rows. Held-out rows
        check that it pays, and `refinement_` tells.
    refine_iter : int, default=100
        Iterations of refinement at most.
    tol : float, default=1e-8
    max_iter : int, default=200
        Stopping rule for losses other than least squares.
    max_time : float, default=None
        Seconds after which the search ends with the best found so far.
    memory_budget : int, default=None
        Bytes for stored features (None: 1 GiB); beyond it they are computed by blocks, in tuning too.
    n_jobs : int, default=None
        Threads over row blocks; None follows the BLAS limit in force.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows every step of the search.

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
        Prototypes; for the linear kernel the weight vectors, one per output.
    basis_indices_ : ndarray of shape (n_basis_,) or None
        Their row numbers in X.
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    C_, gamma_ : float
        Values in force, tuned or given.
    cv_results_ : dict of arrays
        With tune=True, one entry per evaluated pair: param_C, param_gamma, mean_test_error, std_test_error, ... With
        coding="one_vs_one" the search (and `size_path_`) counts wrong sides of pairs, `cv_error_` wrong labels.
    cv_error_ : float
        With tune=True, cross-validated error of the machine chosen: the share of wrong labels (see `cv_prototypes`).
    out_of_fold_outputs_ : ndarray of shape (n_samples, n_outputs)
        With tune=True, outputs of every row under the machine trained without its fold.
    refinement_ : dict
        With refine=True: whether the moved vectors were kept, objective and held-out error before and after.
    size_path_ : dict of arrays
        With n_basis="auto", the sizes and their errors.
    classes_ : ndarray of shape (n_classes,)
    n_basis_, n_iter_, converged_, n_kernel_evals_, objective_, jitter_, history_, kernel_, model_,
    selection_info_

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import FixedSizeLSSVC
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> machine = FixedSizeLSSVC(n_basis=20, tune=True, random_state=0).fit(X, y)
    >>> machine.score(X, y) > 0.95, machine.n_basis_
    (True, 20)
    """

    _classifier = True

    def __init__(
        self,
        n_basis: int | str = 100,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        C: float = 1.0,
        loss: Any = "least_squares",
        epsilon: float | None = None,
        coding: Any = "one_vs_rest",
        shared_basis: bool = False,
        selection: Any = "renyi",
        n_candidates: int | None = None,
        tune: bool = False,
        search: str = "profile",
        search_options: dict[str, Any] | None = None,
        cv: Any = 10,
        cv_prototypes: str = "drop",
        sizes: Any = None,
        size_rule: str = "best",
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
        self.coding = coding
        self.shared_basis = shared_basis
        self.selection = selection
        self.n_candidates = n_candidates
        self.tune = tune
        self.search = search
        self.search_options = search_options
        self.cv = cv
        self.cv_prototypes = cv_prototypes
        self.sizes = sizes
        self.size_rule = size_rule
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


class FixedSizeLSSVR(FixedSizeFit, PartialRegressor, MachineRegressor):
    """Fixed-size least-squares support vector regression.

    As `FixedSizeLSSVC`, for one or several numeric targets.

    Parameters
    ----------
    n_basis : int or "auto", default=100
        Number of prototype vectors m. "auto" picks among `sizes` by cross-validation, on nested sets that share one
        set of features.
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel, default="rbf"
        The linear kernel is solved in the input space, without prototypes (up to 2,000 features).
    gamma : {"scale", "auto", "learn", "ard"}, float or array of shape (n_features,), default="scale"
        Width of the kernel, as in scikit-learn; where a search begins. "learn" (one width) and "ard" (one per feature)
        move with the prototypes and need `refine=True`.
    degree : int, default=3
    coef0 : float, default=0.0
    C : float, default=1.0
        Cost of the losses, the paper's regularisation constant gamma; overridden by `tune`.
    loss : {"least_squares", "absolute", "huber", "epsilon_insensitive", "quantile"} or Loss, default="least_squares"
        "absolute" is the robust L1 loss. For losses other than least squares the
        width is tuned with least squares, and C by refitting every fold.
    epsilon : float, default=None
        Width of the insensitive zone, or where the Huber loss becomes linear.
    selection : {"renyi", "random", "gram", "all"}, array of vectors or selector, default="renyi"
        How prototypes are chosen: by swaps that raise the quadratic Renyi entropy of the inputs, at random, by forward
        selection in Gram space, or every distinct row, which is the full (dense) LS-SVM. `RenyiSelector()` is the
        plain criterion of the paper; the word widens its bandwidths where it is blind.
    n_candidates : int, default=None
        Candidates per round of "gram".
    tune : bool, default=False
        Search for C and the kernel's width by cross-validated error.
    search : {"profile", "anneal", "grid", "random"}, default="profile"
        "profile" searches the width and reads C off a path of exact cross-validations at each; "anneal" is the paper's
        search of both: coupled simulated annealing (90 evaluations), then the simplex method (70).
    search_options : dict, default=None
        Arguments of `kompakt.tune.search` for the strategies other than "profile".
    cv : int, splitter or list of splits, default=10
        Folds; each split must train on all rows that it does not validate.
    cv_prototypes : {"drop", "anew", "plain"}, default="drop"
        Prototypes of the folds' machines. They are chosen among all rows, and a row that is a prototype is shielded by
        a basis function of its own, so "plain" cross-validation, the paper's, reports too small an error. "drop" leaves
        out the prototypes that are rows of the fold, at no cost; "anew" chooses prototypes for every fold among the
        other rows, at the cost of a selection and of features per fold.
    sizes : list of int, default=None
        Sizes that n_basis="auto" tries; None takes five, doubling up to ten times the root of the number of rows, to
        all rows, or to 1,000, whichever is least.
    size_rule : {"best", "one_se", "within"}, default="best"
        How n_basis="auto" picks; see `kompakt.validate.pick_size`.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
        Whether the intercept counts in the penalty, as in De Brabanter et al. 2010, eq. 7. Where it does, the result
        depends on where the targets lie.
    refine : bool, default=False
        Move the vectors after they were chosen, to lower the objective further; they are then no rows. Held-out rows
        check that it pays, and `refinement_` tells.
    refine_iter : int, default=100
        Iterations of refinement at most.
    tol : float, default=1e-8
    max_iter : int, default=200
        Stopping rule for losses other than least squares.
    max_time : float, default=None
        Seconds after which the search ends with the best found so far.
    memory_budget : int, default=None
        Bytes for stored features (None: 1 GiB); beyond it they are computed by blocks, in tuning too.
    n_jobs : int, default=None
        Threads over row blocks; None follows the BLAS limit in force.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows every step of the search.

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
        Prototypes; for the linear kernel the weight vectors, one per output.
    basis_indices_ : ndarray of shape (n_basis_,) or None
        Their row numbers in X.
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    C_, gamma_ : float
        Values in force, tuned or given.
    cv_results_ : dict of arrays
        With tune=True, one entry per evaluated pair: param_C, param_gamma, mean_test_error, std_test_error, ...
    cv_error_ : float
        With tune=True, cross-validated error of the machine chosen: the mean squared error, or the
        absolute one for losses other than least squares (see `cv_prototypes`).
    out_of_fold_outputs_ : ndarray of shape (n_samples, n_outputs)
        With tune=True, outputs of every row under the machine trained without its fold.
    refinement_ : dict
        With refine=True: whether the moved vectors were kept, objective and held-out error before and after.
    size_path_ : dict of arrays
        With n_basis="auto", the sizes and their errors.
    n_basis_, n_iter_, converged_, n_kernel_evals_, objective_, jitter_, history_, kernel_, model_,
    selection_info_

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt import FixedSizeLSSVR
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> machine = FixedSizeLSSVR(n_basis=15, C=1000.0, random_state=0).fit(X, np.sin(X).ravel())
    >>> round(machine.score(X, np.sin(X).ravel()), 2)
    1.0
    """

    _classifier = False

    def __init__(
        self,
        n_basis: int | str = 100,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        C: float = 1.0,
        loss: Any = "least_squares",
        epsilon: float | None = None,
        selection: Any = "renyi",
        n_candidates: int | None = None,
        tune: bool = False,
        search: str = "profile",
        search_options: dict[str, Any] | None = None,
        cv: Any = 10,
        cv_prototypes: str = "drop",
        sizes: Any = None,
        size_rule: str = "best",
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
        self.tune = tune
        self.search = search
        self.search_options = search_options
        self.cv = cv
        self.cv_prototypes = cv_prototypes
        self.sizes = sizes
        self.size_rule = size_rule
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
