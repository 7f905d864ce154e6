"""SpSVC: the greedy primal support vector classifier of seed 001."""

from __future__ import annotations

from typing import Any

from kompakt.estimators.spsvc_fit import GreedyFit


class SpSVC(GreedyFit):
    """Support vector classifier whose basis is grown greedily on the primal objective.

    Forward selection (Keerthi, Chapelle, DeCoste: seed 001): at each step a few random rows are tried as the next basis
    vector, the one that lowers the squared-hinge objective most is added, and the weights are re-optimised.

    Parameters
    ----------
    n_basis : int or "auto", default=100
        Number of basis vectors; "auto" picks it by cross-validation (`cv`), or on held-out rows when
        `validation_fraction` is given, up to `max_basis`.
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel, default="rbf"
        For the polynomial kernel of the paper normalise the rows first, with `sklearn.preprocessing.Normalizer`.
    gamma : {"scale", "auto", "learn", "ard"}, float or array of shape (n_features,), default="scale"
        "learn" (one width) and "ard" (one per feature) move with the vectors and need `refine=True`.
    degree : int, default=3
    coef0 : float, default=0.0
    C : float, default=1.0
        Cost of the losses; 1 / lambda of the paper.
    loss : {"squared_hinge", "huber", "least_squares"} or Loss, default=None
        None means the squared hinge, and least squares for kernel matching pursuit.
    epsilon : float, default=None
        Shortfall at which the Huber-type loss becomes linear.
    selection : str, default="sp2"
        How the next vector is chosen: "sp1" (full re-fit with each candidate), "sp2" (best new weight with the others
        fixed), "hybrid" ("sp1" while it is cheap), "random", "cholesky" (farthest from the span of the basis), "gsvc",
        "bh", "mark" (largest derivative), "kmp" and "kmp_prefit" (matching pursuit on the least-squares loss).
    n_candidates : int, default=10
        Rows tried at each step.  Which ones depends on the step and `random_state` alone.
    score_rows : {"active", "all"}, default="active"
        Rows that count in the scores of "sp2", "mark" and "kmp".
    pool_size : int, default=None
        Try only this many rows, chosen once, whose kernel columns are computed in advance.
    retraining : {"quarter_powers", "always", "powers", "adaptive"}, default="quarter_powers"
        Sizes at which the weights are re-optimised with fresh active rows; between them one bordered system is solved.
        "adaptive" also adapts the number of candidates.
    plus_one : bool, default=False
        Use the kernel 1 + k, which regularises the threshold, in place of an intercept.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output"}, default="one_vs_rest"
        How more than two classes become outputs on the shared basis.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
    class_weight : dict or "balanced", default=None
    tune : bool, default=False
        Choose C and gamma (and n_basis, if it is "auto") by cross-validation over `C_grid` and `gamma_grid`.
    C_grid, gamma_grid : array-like, default=None
        None means 2^-7, ..., 2^7.
    cv : int, splitter or list of splits, default=3
    max_basis : int, default=100
        Largest size when n_basis="auto".
    validation_fraction : float, default=None
        Share of the rows to hold out: growth stops when their error has not fallen for `n_iter_no_change` vectors, the
        best size is kept, and the weights are fitted to all rows.
    n_iter_no_change : int, default=20
    cache : bool or "auto", default="auto"
        Keep full kernel columns of rows that were tried, within `memory_budget`; "auto" does so when the whole kernel
        matrix fits and rows will be tried more than once on average.
    shrinking : bool, default=False
        Leave out rows that stay far inside the margin; all rows are checked at the end.
    refine : bool, default=False
        Move the vectors after they were chosen, to lower the objective further; they are then no rows. Held-out rows
        check that it pays, and `refinement_` tells.
    refine_iter : int, default=100
        Iterations of refinement at most.
    tol : float, default=1e-8
        Relative norm of the gradient at which the last retraining ends.
    max_iter : int, default=200
        Newton steps per retraining.
    max_time : float, default=None
        Seconds after which growth stops.
    warm_start : bool, default=False
        Continue growing from the basis of the last fit, on the same rows.
    memory_budget : int, default=None
        Bytes for features and cached columns (None: 1 GiB).
    n_jobs : int, default=None
        Threads; None follows the BLAS limit in force.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
    basis_indices_ : ndarray of shape (n_basis_,)
        Row numbers of the basis vectors in X, in the order in which they were chosen; None if they were moved.
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    classes_ : ndarray of shape (n_classes,)
    C_, gamma_ : float
        In use, tuned or given.
    history_ : list of dict
        One record per step: size, objective, training and validation error, kernel evaluations, time.
    refinement_ : dict
        With refine=True: whether the moved vectors were kept, objective and held-out error before and after.
    cv_errors_ : ndarray
        Validation errors, pooled over the held-out rows of all folds: (n_sizes,), or (n_gamma, n_C, n_sizes) when
        tuned.
    n_basis_, n_iter_, converged_, n_kernel_evals_, objective_, jitter_, kernel_, model_

    Notes
    -----
    Growth ends before `n_basis` when all other rows lie in the span of the basis to rounding.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import SpSVC
    >>> X, y = make_moons(400, noise=0.1, random_state=0)
    >>> machine = SpSVC(n_basis=10, gamma=1.0, C=10.0, random_state=0).fit(X, y)
    >>> machine.n_basis_, machine.score(X, y) > 0.95
    (10, True)
    """

    def __init__(
        self,
        n_basis: int | str = 100,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        C: float = 1.0,
        loss: Any = None,
        epsilon: float | None = None,
        selection: str = "sp2",
        n_candidates: int = 10,
        score_rows: str = "active",
        pool_size: int | None = None,
        retraining: str = "quarter_powers",
        plus_one: bool = False,
        coding: str = "one_vs_rest",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: Any = None,
        tune: bool = False,
        C_grid: Any = None,
        gamma_grid: Any = None,
        cv: Any = 3,
        max_basis: int = 100,
        validation_fraction: float | None = None,
        n_iter_no_change: int = 20,
        cache: Any = "auto",
        shrinking: bool = False,
        refine: bool = False,
        refine_iter: int = 100,
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
        self.score_rows = score_rows
        self.pool_size = pool_size
        self.retraining = retraining
        self.plus_one = plus_one
        self.coding = coding
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.tune = tune
        self.C_grid = C_grid
        self.gamma_grid = gamma_grid
        self.cv = cv
        self.max_basis = max_basis
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.cache = cache
        self.shrinking = shrinking
        self.refine = refine
        self.refine_iter = refine_iter
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.warm_start = warm_start
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
