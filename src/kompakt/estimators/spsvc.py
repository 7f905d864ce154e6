"""SpSVC: the greedy primal support vector classifier of seed 001."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from kompakt.basis.columns import ColumnCache, KernelColumns
from kompakt.basis.forward import CandidateStream, GrowthPlan, Monitor, Record, finish, grow, put_back
from kompakt.basis.growing import GrowingMachine, require_memory
from kompakt.basis.sizes import SizeProblem, Tuned, size_errors, tune_grid
from kompakt.checkpoint import current, step
from kompakt.codings import get_coding
from kompakt.data import hash_rows
from kompakt.design import DEFAULT_BUDGET
from kompakt.estimators.base import NOT_METADATA, MachineClassifier, checkpoints, deadline_of, warn_interrupted, watched
from kompakt.estimators.prepare import Training, held_rows, prepare, solve_on_all_rows, splits_of
from kompakt.estimators.refining import Chosen, Moved, check_movable, moved_vectors
from kompakt.kernels import Kernel, Precomputed, make_kernel
from kompakt.losses import Loss, make_loss
from kompakt.parallel import block_threads
from kompakt.solve import Settings, Solution
from kompakt.validation import holdout, pick_size

Array = np.ndarray

#: grid of seed 001, section 4
DEFAULT_GRID = 2.0 ** np.arange(-7, 8)


@dataclass(frozen=True)
class _Resolved:
    """The constructor's words as parts."""

    training: Training
    kernel: Kernel
    loss: Loss
    C: float
    plan: GrowthPlan
    hashes: Array
    stream: CandidateStream
    options: dict[str, Any]
    budget: int


class GreedyFit(MachineClassifier):
    """Everything of `SpSVC` but its constructor."""

    __metadata_request__fit: ClassVar = NOT_METADATA

    @watched
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None) -> Any:
        """Grow the machine.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or rows from `kompakt.open_rows`
        y : array-like of shape (n_samples,)
            None for rows from `kompakt.open_rows`, which bring their targets and weights.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 equals the row given twice; weight 0 leaves it out.
        checkpoint : path-like, default=None
            File to which the state is written after every round. A fit that is killed goes on from it when it is
            called again with the same data and parameters, and gives the same machine to the last bit; the file is
            removed at the end.

        Returns
        -------
        self
        """
        deadline = deadline_of(self.max_time)
        with block_threads(self.n_jobs), checkpoints(self, checkpoint) as resume:
            everything = resume(prepare(self, X, y, sample_weight, classifier=True))
            parts = self._choose_size(self._resolve(held_rows(self, everything), deadline))
            check_movable(self, parts.kernel)
            machine, records = self._grow(parts)
            solution = machine.solution()
            grown = np.array(machine.indices, dtype=np.intp)
            indices: Array | None = grown
            basis = parts.kernel.take_basis(parts.training.rows, grown)
            stopped = bool(records and records[-1].get("interrupted"))
            moved = None if stopped else self._moved(parts, basis, deadline)
            if moved is not None and moved.kept:
                indices, basis, solution = None, moved.machine.basis, moved.machine.solution
                parts = replace(parts, kernel=moved.machine.kernel)
            training = replace(parts.training, kernel=parts.kernel)
            if not training.whole:
                solution = self._on_all_rows(everything, parts, basis, solution)
            model = self._build_model(training, basis, solution)
        self._publish(model, solution, training, indices)
        self.C_ = parts.C
        gamma = getattr(parts.kernel.parts[0] if self.plus_one else parts.kernel, "gamma", None)  # type: ignore[attr-defined]
        if gamma is not None:
            self.gamma_ = gamma
        self.n_kernel_evals_ = machine.columns.n_evals
        self.history_ = records
        if moved is not None:
            moved.publish(self)
        if stopped:
            self.interrupted_ = True
            warn_interrupted(self, f"the machine grown so far, with {self.n_basis_} basis vectors, is kept")
        elif not self.interrupted_:
            self._report(solution, deadline)
        return self

    def _moved(self, parts: _Resolved, basis: Array, deadline: float | None) -> Moved | None:
        words = {name: parts.options[name] for name in ("fit_intercept", "penalize_intercept")}
        chosen = Chosen(parts.training, parts.kernel, basis, parts.loss, parts.C, **words)
        return moved_vectors(self, chosen, deadline)

    def _on_all_rows(self, training: Training, parts: _Resolved, basis: Array, found: Solution) -> Solution:
        """Weights of a machine grown on a sample, by passes over all rows."""
        options = {name: parts.options[name] for name in ("fit_intercept", "penalize_intercept")}
        settings = Settings(tol=parts.plan.tol, max_iter=parts.plan.max_iter)
        return solve_on_all_rows(training, parts.kernel, basis, parts.loss, parts.C, found, settings, **options)

    # -- names into parts ----------------------------------------------------------------------------

    def _resolve(self, training: Training, deadline: float | None) -> _Resolved:
        kernel = training.kernel
        if self.plus_one:
            if isinstance(kernel, Precomputed):
                raise ValueError(
                    "plus_one=True is not possible with kernel='precomputed': add 1 to your kernel matrices."
                )
            kernel = kernel + 1.0
        matching = str(self.selection).startswith("kmp")
        loss = make_loss(
            ("least_squares" if matching else "squared_hinge") if self.loss is None else self.loss,
            classes=True,
            epsilon=self.epsilon,
        )
        if matching and loss.name != "least_squares":
            raise ValueError(
                f"selection={self.selection!r} is matching pursuit on the least-squares loss; got loss={self.loss!r}. "
                "Leave loss=None, or use selection='sp2' ('sp1'), the same methods on other losses."
            )
        rows = training.rows
        self._check(rows.n_rows)
        hashes = hash_rows(rows.X, training.key)
        stream = CandidateStream.of(hashes, training.key, self.pool_size)
        wanted = int(self.max_basis) if self.n_basis == "auto" else int(self.n_basis)
        plan = GrowthPlan(
            n_basis=min(wanted, len(stream.rows)),
            selection=self.selection,
            n_candidates=int(self.n_candidates),
            score_rows=self.score_rows,
            retraining=self.retraining,
            shrinking=bool(self.shrinking),
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            deadline=deadline,
        )
        options = {
            "fit_intercept": bool(self.fit_intercept) and not self.plus_one,
            "penalize_intercept": bool(self.penalize_intercept),
            "memory_budget": self.memory_budget,
        }
        budget = DEFAULT_BUDGET if self.memory_budget is None else int(self.memory_budget)
        return _Resolved(training, kernel, loss, float(self.C), plan, hashes, stream, options, budget)

    def _check(self, n_rows: int) -> None:
        for name in ("max_basis", "n_iter_no_change", "pool_size"):
            value = getattr(self, name)
            if value is None and name == "pool_size":
                continue
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")
        if self.cache not in (True, False, "auto"):
            raise ValueError(f"cache must be True, False or 'auto'; got {self.cache!r}.")
        if self.pool_size is not None:
            require_memory(n_rows, int(self.pool_size), self.memory_budget)

    def _columns(self, parts: _Resolved) -> KernelColumns:
        """Kernel access, with a cache where it is wanted; columns of a pool are computed at once."""
        rows, plan = parts.training.rows, parts.plan
        left = (parts.budget - 8 * rows.n_rows * (plan.n_basis + 1)) // max(1, 8 * rows.n_rows)
        pool = len(parts.stream.rows) if self.pool_size is not None else 0
        slots = min(max(left, pool), len(parts.stream.rows))
        tries = plan.n_basis * (1 if plan.selection in ("random", "cholesky", "gsvc", "bh") else plan.n_candidates)
        enough = slots >= len(parts.stream.rows) and tries >= len(parts.stream.rows)
        wanted = enough if self.cache == "auto" else bool(self.cache)
        # what is in a cache would have to be in the checkpoint too: where a column comes from may change its last bits
        wanted = wanted and current() is None
        cache = ColumnCache(rows.n_rows, slots) if pool or (wanted and slots > 0) else None
        columns = KernelColumns(rows, parts.kernel, cache)
        if pool:
            columns.columns(parts.stream.rows)
        return columns

    # -- size, C and gamma ---------------------------------------------------------------------------

    def _choose_size(self, parts: _Resolved) -> _Resolved:
        """Settle C, gamma and the size by cross-validation, where the constructor asks for it."""
        by_folds = self.n_basis == "auto" and self.validation_fraction is None
        if not (self.tune or by_folds):
            return parts
        training, rows = parts.training, parts.training.rows
        assert training.labels is not None
        splits = splits_of(training, self.cv, classifier=True, random_state=training.key)
        problem = SizeProblem(
            rows=rows,
            labels=training.labels,
            decide=self._decide(training),
            hashes=parts.hashes,
            key=training.key,
            splits=splits,
            loss=parts.loss,
            plan=parts.plan,
            options=parts.options,
        )
        if not self.tune:
            errors = step("sizes", lambda: size_errors(problem, parts.kernel, parts.C))
            chosen = pick_size(np.arange(1, len(errors) + 1), np.round(errors, 12))
            self.cv_errors_ = chosen.mean_errors
            return replace(parts, plan=replace(parts.plan, n_basis=chosen.size))
        C_grid, gammas = grid_values(self.C_grid, "C_grid"), grid_values(self.gamma_grid, "gamma_grid")
        if training.kernel.name not in ("rbf", "laplacian", "poly") or not isinstance(self.kernel, str):
            gammas = gammas[:1]
            kernels = [training.kernel]
        else:
            kernels = [make_kernel(self.kernel, gamma=g, coef0=self.coef0, degree=self.degree) for g in gammas]
        tuned = step(
            "search",
            lambda: tune_grid(problem, kernels, C_grid, plus_one=self.plus_one, memory_budget=parts.budget),
            Tuned,
        )
        self.cv_errors_ = tuned.errors
        kernel = kernels[tuned.kernel] + 1.0 if self.plus_one else kernels[tuned.kernel]
        size = tuned.n_basis if by_folds else parts.plan.n_basis
        return replace(parts, kernel=kernel, C=float(C_grid[tuned.C]), plan=replace(parts.plan, n_basis=size))

    def _decide(self, training: Training) -> Callable[[Array], Array]:
        """Class numbers from raw outputs."""
        assert training.classes is not None
        return partial(get_coding(self.coding).decode, n_classes=len(training.classes))

    # -- growing -------------------------------------------------------------------------------------

    def _grow(self, parts: _Resolved) -> tuple[GrowingMachine, list[Record]]:
        training, rows, stream = parts.training, parts.training.rows, parts.stream
        assert training.labels is not None
        held: Array | None = None
        weights = None
        if self.validation_fraction is not None:
            train, held = holdout(
                training.labels, float(self.validation_fraction), classifier=True, random_state=training.key
            )
            weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights.copy()
            weights[held] = 0.0
            stream = stream.within(parts.hashes, train)
        machine = GrowingMachine.on_rows(
            self._columns(parts), parts.loss, parts.C, weights, capacity=parts.plan.n_basis, **parts.options
        )
        before = self._continued(machine, training, parts.plan)
        monitor = Monitor(
            labels=training.labels,
            decide=self._decide(training),
            weights=rows.weights if rows.weights is not None and rows.weights.ndim == 1 else None,
            held_out=held,
            patience=int(self.n_iter_no_change),
        )
        plan = replace(parts.plan, interruptible=True, resumable=True)
        records = grow(machine, stream, plan, monitor, None if held is None else monitor.enough)
        if held is not None and records and not records[-1].get("interrupted"):
            self._keep_best(machine, records, parts)
        return machine, before + records

    def _keep_best(self, machine: GrowingMachine, records: list[Record], parts: _Resolved) -> None:
        """The size with the lowest validation error, its weights fitted to all rows."""
        rows = parts.training.rows
        chosen = pick_size([r["n_basis"] for r in records], [r["validation_error"] for r in records])
        machine.truncate(chosen.size)
        machine.set_weights(np.ones(rows.n_rows) if rows.weights is None else rows.weights)
        finish(machine, parts.plan)

    def _continued(self, machine: GrowingMachine, training: Training, plan: GrowthPlan) -> list[Record]:
        """Put the basis of the last fit back (warm start); returns its history."""
        if not (self.warm_start and hasattr(self, "basis_indices_")):
            return []
        if self.basis_indices_ is None:
            raise ValueError(
                "warm_start=True continues a growth among rows, but refinement moved the vectors of the last fit away "
                "from them. Grow with refine=False first and set refine=True for the last fit, or use warm_start=False."
            )
        indices, known = np.asarray(self.basis_indices_), self.basis_vectors_
        if training.kept is not None:
            indices = np.searchsorted(training.kept, indices)
        X = training.rows.X
        same = bool(len(indices) and indices.max() < X.shape[0])
        if same and known is not None:
            found = X[indices].toarray() if training.rows.is_sparse else X[indices]
            same = found.shape == known.shape and np.array_equal(found, known)
        if not same or len(indices) > plan.n_basis:
            raise ValueError(
                f"warm_start=True continues the last fit: expected the same rows and n_basis >= {len(indices)}; "
                f"got n_basis={plan.n_basis}{'' if same else ' and other rows'}. Use warm_start=False to begin anew."
            )
        put_back(machine, indices)
        return list(self.history_)


def grid_values(values: Any, name: str) -> Array:
    """The user's grid, or the paper's."""
    grid = DEFAULT_GRID if values is None else np.asarray(values, dtype=np.float64)
    if grid.ndim != 1 or not len(grid) or not np.all(np.isfinite(grid)) or np.any(grid <= 0):
        raise ValueError(f"{name} must be a list of positive, finite numbers; got {values!r}.")
    return np.sort(grid)


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
