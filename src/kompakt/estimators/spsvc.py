"""SpSVC: the greedy primal support vector classifier of Keerthi, Chapelle, DeCoste 2006."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kompakt.basis.build import Machine, Plan
from kompakt.basis.columns import ColumnCache, KernelColumns
from kompakt.basis.forward import CandidateStream, GrowthPlan, Monitor, Record, finish, grow
from kompakt.basis.growing import GrowingMachine, require_memory
from kompakt.basis.sizes import best_point, size_errors, tune_grid
from kompakt.data import hash_rows
from kompakt.estimators.base import MachineClassifier
from kompakt.kernels import Kernel, Precomputed, Sum, make_kernel
from kompakt.losses import make_loss
from kompakt.run import Run
from kompakt.spec import Basis, Data, Spec
from kompakt.train.data import splits_of
from kompakt.train.pipeline import Fit
from kompakt.validation import holdout, pick_size

Array = np.ndarray

#: grid of the paper, section 4
DEFAULT_GRID = 2.0 ** np.arange(-7, 8)


def grid_values(values: Any, name: str) -> Array:
    """The user's grid, or that of the paper, sorted."""
    grid = DEFAULT_GRID if values is None else np.asarray(values, dtype=np.float64)
    if grid.ndim != 1 or not len(grid) or not np.all(np.isfinite(grid)) or np.any(grid <= 0):
        raise ValueError(f"{name} must be a list of positive, finite numbers; got {values!r}.")
    return np.sort(grid)


class SpSVC(MachineClassifier):
    """Support vector classifier whose basis is grown greedily on the primal objective.

    Forward selection (Keerthi, Chapelle, DeCoste 2006): at each step a few random rows are tried as the next basis
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

    # -- what is minimised, and how -------------------------------------------------------------------

    def _spec(self, data: Data, kernel: Kernel) -> Spec:
        if self.plus_one:
            if isinstance(kernel, Precomputed):
                raise ValueError(
                    "plus_one=True is not possible with kernel='precomputed': add 1 to your kernel matrices."
                )
            kernel = kernel + 1.0
        matching = str(self.selection).startswith("kmp")
        name = "least_squares" if matching else "squared_hinge"
        loss = make_loss(name if self.loss is None else self.loss, classes=True, epsilon=self.epsilon)
        if matching and loss.name != "least_squares":
            raise ValueError(
                f"selection={self.selection!r} is matching pursuit on the least-squares loss; got loss={self.loss!r}. "
                "Leave loss=None, or use selection='sp2' ('sp1'), the same methods on other losses."
            )
        intercept = bool(self.fit_intercept) and not self.plus_one
        n_classes = 0 if data.classes is None else len(data.classes)
        return Spec(kernel, loss, float(self.C), intercept, bool(self.penalize_intercept), self.coding, n_classes)

    def _plan(self, data: Data, run: Run) -> Plan:
        if self.cache not in (True, False, "auto"):
            raise ValueError(f"cache must be True, False or 'auto'; got {self.cache!r}.")
        return super()._plan(data, run)

    def _growth(self, fit: Fit) -> tuple[GrowthPlan, CandidateStream]:
        """How to grow, and which rows are tried."""
        stream = CandidateStream.of(hash_rows(fit.data.rows.X, fit.run.key), fit.run.key, self.pool_size)
        wanted = int(self.max_basis) if fit.n_basis is None else fit.n_basis
        plan = GrowthPlan(
            n_basis=min(wanted, len(stream.rows)),
            selection=self.selection,
            n_candidates=int(self.n_candidates),
            score_rows=self.score_rows,
            retraining=self.retraining,
            shrinking=bool(self.shrinking),
            tol=fit.plan.tol,
            max_iter=fit.plan.max_iter,
            run=fit.run,
        )
        return plan, stream

    # -- C, gamma and size by cross-validation -------------------------------------------------------

    def _search(self, fit: Fit) -> None:
        if not self.tune:
            return
        C_grid, gammas = grid_values(self.C_grid, "C_grid"), grid_values(self.gamma_grid, "gamma_grid")
        kernels = [self._without_one(fit.spec.kernel)]
        if kernels[0].name in ("rbf", "laplacian", "poly") and isinstance(self.kernel, str):
            kernels = [make_kernel(self.kernel, gamma=g, coef0=self.coef0, degree=self.degree) for g in gammas]
        plan, _ = self._growth(fit)
        # weights retrained at every step let the machines of a grid grow side by side; their errors are no higher
        batched = replace(plan, retraining="always")
        splits = splits_of(fit.data, self.cv, fit.run.key)
        errors, losses = fit.run.step(
            "search", lambda: tune_grid(fit.data, fit.spec, batched, splits, kernels, C_grid, plus_one=self.plus_one)
        )
        kernel, C, size = best_point(errors, losses)
        found = kernels[kernel] + 1.0 if self.plus_one else kernels[kernel]
        fit.spec = replace(fit.spec, kernel=found, C=float(C_grid[C]))
        if fit.n_basis is None and self.validation_fraction is None:
            fit.n_basis = size
        fit.attributes["cv_errors_"] = errors

    def _choose_size(self, fit: Fit) -> None:
        plan, _ = self._growth(fit)
        fit.n_basis = plan.n_basis
        if self.validation_fraction is None:
            splits = splits_of(fit.data, self.cv, fit.run.key)
            errors = fit.run.step("sizes", lambda: size_errors(fit.data, fit.spec, plan, splits))
            chosen = pick_size(np.arange(1, len(errors) + 1), np.round(errors, 12))
            fit.n_basis, fit.attributes["cv_errors_"] = chosen.size, chosen.mean_errors

    # -- growth --------------------------------------------------------------------------------------

    def _choose_basis(self, fit: Fit) -> Machine:
        data, spec, rows = fit.data, fit.spec, fit.data.rows
        assert data.labels is not None
        plan, stream = self._growth(fit)
        columns = self._columns(fit, plan, stream)
        held: Array | None = None
        weights = everywhere = np.ones(rows.n_rows) if rows.weights is None else rows.weights
        if self.validation_fraction is not None:
            share = float(self.validation_fraction)
            train, held = holdout(data.labels, share, classifier=True, random_state=fit.run.key)
            weights = everywhere.copy()
            weights[held] = 0.0
            stream = stream.within(train)
        machine = GrowingMachine.on_rows(columns, spec, plan.n_basis, weights, self.memory_budget)
        before = self._continued(machine, data, plan.n_basis)
        monitor = Monitor(data, spec, held, int(self.n_iter_no_change))
        records = grow(machine, stream, plan, monitor, None if held is None else monitor.enough)
        interrupted = bool(records and records[-1].get("interrupted"))
        if held is not None and records and not interrupted:
            # the size with the lowest validation error, its weights fitted to all rows
            chosen = pick_size([r["n_basis"] for r in records], [r["validation_error"] for r in records])
            machine.truncate(chosen.size)
            machine.set_weights(everywhere)
            finish(machine, plan)
        fit.attributes["history_"] = before + records
        indices = np.array(machine.indices, dtype=np.intp)
        basis = Basis(indices, columns.vectors(indices))
        return Machine(spec, basis, machine.solution(), columns.n_evals, interrupted=interrupted)

    def _columns(self, fit: Fit, plan: GrowthPlan, stream: CandidateStream) -> KernelColumns:
        """Kernel access, with a cache where it is wanted; columns of a pool are computed at once."""
        rows, n_distinct, pool = fit.data.rows, len(stream.rows), 0
        if self.pool_size is not None:
            require_memory(rows.n_rows, int(self.pool_size), self.memory_budget)
            pool = n_distinct
        left = (fit.run.budget - 8 * rows.n_rows * (plan.n_basis + 1)) // max(1, 8 * rows.n_rows)
        slots = min(max(left, pool), n_distinct)
        tries = plan.n_basis * (1 if plan.selection in ("random", "cholesky", "gsvc", "bh") else plan.n_candidates)
        wanted = slots >= n_distinct and tries >= n_distinct if self.cache == "auto" else bool(self.cache)
        # what is in a cache would have to be in the checkpoint too: where a column comes from may change its last bits
        wanted = wanted and slots > 0 and fit.run.checkpoint is None
        columns = KernelColumns(rows, fit.spec.kernel, ColumnCache(rows.n_rows, slots) if pool or wanted else None)
        if pool:
            columns.columns(stream.rows)
        return columns

    def _continued(self, machine: GrowingMachine, data: Data, n_basis: int) -> list[Record]:
        """Put the basis of the last fit back (warm start); returns its history."""
        if not (self.warm_start and hasattr(self, "basis_indices_")):
            return []
        if self.basis_indices_ is None:
            raise ValueError(
                "warm_start=True continues a growth among rows, but refinement moved the vectors of the last fit away "
                "from them. Grow with refine=False first and set refine=True for the last fit, or use warm_start=False."
            )
        indices, known = np.asarray(self.basis_indices_), self.basis_vectors_
        if data.kept is not None:
            indices = np.searchsorted(data.kept, indices)
        X = data.rows.X
        same = bool(len(indices) and indices.max() < X.shape[0])
        if same and known is not None:
            found = X[indices].toarray() if data.rows.is_sparse else X[indices]
            same = found.shape == known.shape and np.array_equal(found, known)
        if not same or len(indices) > n_basis:
            raise ValueError(
                f"warm_start=True continues the last fit: expected the same rows and n_basis >= {len(indices)}; "
                f"got n_basis={n_basis}{'' if same else ' and other rows'}. Use warm_start=False to begin anew."
            )
        for index, diagonal in zip(indices.tolist(), machine.columns.diagonal(indices), strict=True):
            machine.append(index, machine.columns.column(index), float(diagonal))
            machine.retrain()
        return list(self.history_)

    def _without_one(self, kernel: Kernel) -> Kernel:
        """The kernel k of 1 + k."""
        return kernel.parts[0] if self.plus_one and isinstance(kernel, Sum) else kernel

    def _publish(self, fit: Fit) -> None:
        super()._publish(fit)
        gamma = getattr(self._without_one(self.kernel_), "gamma", None)
        if gamma is not None:
            self.gamma_ = gamma
