"""The flagship: compact machines with a chosen number of basis vectors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from kompakt.basis import Selection
from kompakt.basis.compact import Machine, Recipe, grow, on_all_rows, select, unseen_outputs
from kompakt.basis.path import SizePath, size_path
from kompakt.codings import get_coding
from kompakt.estimators.base import (
    NOT_METADATA,
    MachineClassifier,
    MachineRegressor,
    checkpoints,
    deadline_of,
    is_dask,
    lazily,
    offered_if,
    solver_settings,
    warn_interrupted,
    watched,
)
from kompakt.estimators.partial import PartialClassifier, PartialRegressor, forget_batches
from kompakt.estimators.prepare import LEARNED, Array, Training, held_rows, prepare, splits_of
from kompakt.estimators.refining import learned_widths
from kompakt.estimators.selectors import make_selector
from kompakt.kernels import RBF, make_kernel
from kompakt.losses import Loss, make_loss
from kompakt.parallel import block_threads
from kompakt.run import Deadline
from kompakt.search.compact import Tuned, seconds_left, settings_grid, tune_flagship
from kompakt.search.widths import leave_one_out_widths
from kompakt.validation import holdout

#: the largest size that n_basis="auto" looks at, and the size that a search without a given size uses
_LARGEST_AUTO, _SIZE_TO_TUNE = 256, 64


@dataclass(frozen=True)
class FlagshipPlan:
    """What a fit has decided so far; every step returns a new plan."""

    estimator: Any
    training: Training
    recipe: Recipe
    kernel: Any = None
    n_basis: int = 0
    start: Array | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    n_kernel_evals: int = 0
    tuning: Tuned | None = None
    path: SizePath | None = None

    def __post_init__(self) -> None:
        if self.kernel is None:
            object.__setattr__(self, "kernel", self.training.kernel)
        if not self.n_basis:
            given = self.estimator.n_basis
            object.__setattr__(self, "n_basis", _SIZE_TO_TUNE if isinstance(given, str) else int(given))

    def _splits(self) -> list[tuple[Array, Array]]:
        """The user's validation splits, or one held-out fifth."""
        rows, labels = self.training.rows, self.training.labels
        target = np.zeros(rows.n_rows) if labels is None else labels
        seed = self.training.key % 2**31
        if self.estimator.cv is None:
            fraction = min(0.2, 20_000 / rows.n_rows)
            return [holdout(target, fraction, classifier=labels is not None, random_state=seed)]
        return splits_of(self.training, self.estimator.cv, classifier=labels is not None, random_state=seed)

    def widened(self) -> FlagshipPlan:
        """The plan with one width per feature, chosen by leave-one-out on a sample of the rows."""
        gamma: Any = self.kernel.gamma
        found = leave_one_out_widths(self.training.rows, float(gamma), self.recipe.C, key=self.training.key)
        note = {"phase": "widths", "error_before": found.error_before, "error": found.error, "C": found.C}
        return replace(
            self,
            kernel=RBF(found.gamma),
            n_kernel_evals=self.n_kernel_evals + found.n_kernel_evals,
            history=[*self.history, note],
        )

    def tuned(self) -> FlagshipPlan:
        """The plan with C, the starting width and epsilon chosen by validation."""
        estimator, recipe = self.estimator, self.recipe
        gamma: Any = getattr(self.kernel, "gamma", None)
        has_width = isinstance(estimator.kernel, str) and gamma is not None and np.ndim(gamma) == 0
        epsilons = None
        if hasattr(recipe.loss, "epsilon") and not recipe.classifier:
            targets = self.training.rows.targets
            spread = 0.0 if targets is None else float(np.std(targets))
            epsilons = [spread * share for share in (0.02, 0.1, 0.5)] if spread > 0 else None

        def kernel_of(width: float | None) -> Any:
            if width is None:
                return self.kernel
            return make_kernel(estimator.kernel, gamma=width, coef0=estimator.coef0, degree=estimator.degree)

        def loss_of(epsilon: float | None) -> Loss:
            return recipe.loss if epsilon is None else replace(recipe.loss, epsilon=epsilon)  # type: ignore[type-var]

        result = tune_flagship(
            self.training.rows,
            kernel_of,
            loss_of,
            settings_grid(float(gamma) if has_width else None, epsilons),
            self.n_basis,
            recipe,
            self._splits(),
            self.training.labels,
            seconds_left(recipe.settings.deadline, 0.5),
        )
        best = result.setting
        return replace(
            self,
            recipe=replace(recipe, C=best.C, loss=loss_of(best.epsilon)),
            kernel=kernel_of(best.gamma),
            tuning=result,
            n_kernel_evals=self.n_kernel_evals + result.n_kernel_evals,
            history=self.history + [{"phase": "tuning", "C": best.C, "gamma": best.gamma, "error": result.error}],
        )

    def sized(self) -> FlagshipPlan:
        """The plan with the number of basis vectors chosen on a path."""
        rows = self.training.rows
        splits = self._splits()
        largest = int(min(_LARGEST_AUTO, max(1, min(len(train) for train, _ in splits) // 2)))
        deadline = self.recipe.settings.deadline
        part = deadline.share(0.6) if isinstance(deadline, Deadline) else deadline
        recipe = replace(self.recipe, settings=replace(self.recipe.settings, deadline=part))
        path = size_path(rows, self.kernel, largest, recipe, splits, self.training.labels, self.estimator.size_tol)
        return replace(
            self,
            n_basis=path.size,
            start=path.basis,
            kernel=path.kernel if path.basis is not None else self.kernel,
            path=path,
            n_kernel_evals=self.n_kernel_evals + path.n_kernel_evals,
            history=self.history + path.history,
        )

    def grown(self, start: Array | None) -> Machine:
        """The machine itself, on all rows."""
        begin = self.start if start is None else start
        recipe = replace(self.recipe, interruptible=True)
        return grow(self.training.rows, self.kernel, self.n_basis, recipe, self.training.labels, begin)

    def calibration(self, machine: Machine) -> dict[str, Array]:
        """Sigmoids fitted to decision values of rows that the weights had not seen (scikit-learn's logistic fit)."""
        from sklearn.linear_model import LogisticRegression

        labels, classes = self.training.labels, self.training.classes
        assert labels is not None
        assert classes is not None
        index, outputs = unseen_outputs(self.training.rows, machine, self.recipe, labels)
        scores = get_coding(self.recipe.coding).scores(outputs, len(classes))
        weights = self.training.rows.weights
        w = None if weights is None else (weights if weights.ndim == 1 else weights.max(axis=1))[index]
        columns = scores[:, None] if scores.ndim == 1 else scores
        a, b = np.empty(columns.shape[1]), np.empty(columns.shape[1])
        for column in range(columns.shape[1]):
            positive = labels[index] == (1 if scores.ndim == 1 else column)
            if positive.all() or not positive.any():
                raise ValueError("calibrate=True needs held-out rows of every class; give more rows per class.")
            fitted = LogisticRegression(C=1e6).fit(columns[:, [column]], positive, sample_weight=w)
            a[column], b[column] = -fitted.coef_[0, 0], -fitted.intercept_[0]
        return {"a": a, "b": b}

    def publish(self) -> None:
        """Fitted attributes of the search and the path."""
        estimator = self.estimator
        estimator.C_ = self.recipe.C
        if hasattr(self.recipe.loss, "epsilon"):
            estimator.epsilon_ = self.recipe.loss.epsilon
        for name, value in (("cv_results_", self.tuning and self.tuning.results), ("size_path_", self.path)):
            if value is not None:
                setattr(estimator, name, value)
            elif hasattr(estimator, name):
                delattr(estimator, name)  # of an earlier fit


class FlagshipFit:
    """Fit of both flagship estimators."""

    _classifier: bool
    __metadata_request__fit: ClassVar = NOT_METADATA
    _learned_widths = LEARNED
    _drops_matrix_rows = True  # rows of weight zero may be left out of a precomputed matrix

    @watched
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None) -> Any:
        """Fit the machine.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or rows from `kompakt.open_rows`
        y : array-like of shape (n_samples,), or (n_samples, n_outputs) for regression
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
        me: Any = self
        deadline = deadline_of(me.max_time)
        forget_batches(self)
        with block_threads(me.n_jobs), checkpoints(self, checkpoint) as resume:
            learn = learned_widths(me.gamma, me.refine, me.kernel)
            training = resume(prepare(self, X, y, sample_weight, classifier=self._classifier))
            seen = self._seen(training)
            plan = FlagshipPlan(self, seen, self._recipe(seen, learn, deadline))
            start = self._start(training)
            if isinstance(me.gamma, str) and me.gamma == "loo":
                plan = plan.widened()
            if me.tune:
                plan = plan.tuned()
            if isinstance(me.n_basis, str):
                plan = plan.sized()
            machine = plan.grown(start)
            calibrate = getattr(self, "calibrate", False) and not machine.interrupted
            more = {"calibration": plan.calibration(machine)} if calibrate else {}
            if not seen.whole:
                machine = on_all_rows(training.rows, machine, plan.recipe)
            model = me._build_model(seen, machine.basis, machine.solution, kernel=_frozen(machine.kernel), **more)
        me._publish(model, machine.solution, seen, machine.indices)
        plan.publish()
        self.n_kernel_evals_ = machine.n_kernel_evals + plan.n_kernel_evals
        self.history_ = plan.history + machine.history
        if machine.interrupted:
            self.interrupted_ = True
            missing = ", without calibration" if getattr(self, "calibrate", False) else ""
            kept = f"the basis is kept as far as it was refined, with {machine.n_basis} vectors{missing}"
            warn_interrupted(self, kept)
            return self
        me._report(machine.solution, deadline)
        return self

    def _seen(self, training: Training) -> Training:
        """The rows that selection, refinement and searches see: of streamed rows a sample that fits, where need be."""
        me: Any = self
        selector = make_selector(me.selection, me.n_candidates)
        by_passes = getattr(selector, "streams", False) and not me.refine and not me.tune and me.n_basis != "auto"
        by_passes = by_passes and not getattr(self, "calibrate", False)
        return training if by_passes else held_rows(self, training)

    def _start(self, training: Training) -> Array | None:
        """Vectors of the last fit, for `warm_start`."""
        me: Any = self
        if not me.warm_start or getattr(self, "basis_vectors_", None) is None:
            return None
        rows = training.rows
        if me.basis_vectors_.shape[1] != rows.n_features:
            raise ValueError(
                f"warm_start=True goes on from the last fit, which had {me.basis_vectors_.shape[1]} features; X has "
                f"{rows.n_features}. Set warm_start=False to start anew."
            )
        start = rows.as_inputs(me.basis_vectors_).astype(rows.dtype)
        return start if rows.offset is None else start - rows.offset

    def _partial_selection(self, training: Training, loss: Loss) -> Selection:
        me: Any = self
        recipe = self._recipe(training, None, None)
        return select(training.rows, training.kernel, int(me.n_basis), recipe, training.labels)

    def _recipe(self, training: Training, learn: str | None, deadline: float | None) -> Recipe:
        me: Any = self
        return Recipe(
            loss=make_loss(
                me.loss, classes=self._classifier, epsilon=me.epsilon, quantile=getattr(self, "quantile", 0.5)
            ),
            C=float(me.C),
            selector=make_selector(me.selection, me.n_candidates),
            classifier=self._classifier,
            key=training.key,
            fit_intercept=me.fit_intercept,
            penalize_intercept=me.penalize_intercept,
            refine=bool(me.refine),
            learn=learn,
            refine_iter=int(me.refine_iter),
            validation_fraction=float(me.validation_fraction),
            settings=solver_settings(self, deadline),
            memory_budget=me.memory_budget,
            coding=getattr(self, "coding", "one_vs_rest"),
            n_classes=2 if training.classes is None else len(training.classes),
        )


def _frozen(kernel: Any) -> Any:
    return type(kernel)() if kernel.name == "precomputed" else kernel


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
