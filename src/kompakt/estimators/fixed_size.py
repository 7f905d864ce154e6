"""Fixed-size least-squares machines: prototypes by entropy, ridge regression in the primal, fast tuning (seed 002)."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import _num_samples

from kompakt.basis import Selection
from kompakt.checkpoint import step
from kompakt.estimators.base import (
    NOT_METADATA,
    MachineClassifier,
    MachineRegressor,
    checkpoints,
    deadline_of,
    solver_settings,
    watched,
)
from kompakt.estimators.partial import PartialClassifier, PartialRegressor, forget_batches
from kompakt.estimators.prepare import Training, held_rows, prepare
from kompakt.estimators.refining import Chosen, Moved, check_movable, moved_vectors
from kompakt.estimators.selectors import make_selector
from kompakt.kernels import Kernel
from kompakt.losses import LeastSquares, Loss, make_loss
from kompakt.parallel import block_threads
from kompakt.search.fixed_size import (
    STRATEGIES,
    Objective,
    Origin,
    Part,
    Task,
    Tuned,
    class_error,
    errors_of,
    fit_parts,
    held_out_errors,
    held_out_path,
    make_parts,
    size_errors,
    spread_order,
    tune_width_and_cost,
)
from kompakt.solve import Solution
from kompakt.validation import SIZE_RULES, fold_of_row, pick_size, resolve_splits, shuffled_folds

Array = np.ndarray
logger = logging.getLogger("kompakt")

#: up to this many features (or `n_basis`, if that is more) the linear kernel is solved in the input space
_INPUT_SPACE = 2000
_N_SIZES = 5
_LARGEST_AUTO = 1000
#: what the machines of the folds do with prototypes that are rows of the fold
CV_PROTOTYPES = ("drop", "anew", "plain")
#: the coarse search sees this many rows where there are more than twice as many
_COARSE_ROWS = 50_000


@dataclass
class _Plan:
    """What a fit has decided so far."""

    training: Training
    task: Task
    objective: Objective
    kernel: Kernel
    C: float
    selection: Selection
    input_space: bool  # linear kernel: the features are the inputs themselves
    folds: Any  # None, their number, or the fold of each row
    n_given: int  # rows of the user's X
    parts: list[Part] = field(default_factory=list)
    twins: Array | None = None  # a number for each row, the same for equal ones; where folds drop their prototypes
    anew: list[Selection] | None = None  # prototypes chosen without each fold
    history: list[dict[str, Any]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    evaluations: int = 0  # of the kernel, while tuning

    def note(self, phase: str, **facts: Any) -> None:
        """Add a record to the history."""
        self.history.append({"phase": phase, "time": time.monotonic() - self.began, **facts})

    def count(self, parts: list[Part]) -> None:
        """Count the kernel values of one set of features."""
        self.evaluations += sum(part.rows.n_rows * len(part.columns) for part in parts)

    @property
    def basis(self) -> Array:
        return self.selection.vectors

    def stratum_of(self, selection: Selection) -> Array | None:
        """Class of each basis vector, where they are rows of X."""
        indices, labels = selection.indices, self.training.labels
        return None if indices is None or labels is None else labels[indices]


#: set by some fits only, so removed before the next one
_SOMETIMES = ("cv_results_", "cv_error_", "search_stopped_", "out_of_fold_outputs_", "size_path_", "coef_")


class FixedSizeFit:
    """Fit of both fixed-size machines."""

    _classifier: bool
    __metadata_request__fit: ClassVar = NOT_METADATA
    C_: float
    history_: list[dict[str, Any]]
    n_kernel_evals_: int

    @watched
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None) -> Any:
        """Choose the prototypes, tune if asked to, and fit the machine.

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
        self._check_words()
        forget_batches(self)
        for name in _SOMETIMES:
            self.__dict__.pop(name, None)
        with block_threads(me.n_jobs), checkpoints(self, checkpoint) as resume:
            streamed = resume(prepare(self, X, y, sample_weight, classifier=self._classifier))
            training = held_rows(self, streamed)
            plan = self._select(training, deadline, self._given_folds(X, y, training), _num_samples(X))
            plan.note("selection", n_basis=plan.selection.n_basis)
            if me.tune:
                self._tune(plan, deadline)
                plan.note("search", error=self.cv_error_, C=plan.C, n_evaluations=len(self.cv_results_["param_C"]))
            if me.n_basis == "auto" and not plan.input_space:
                self._choose_size(plan)
                plan.note("size", n_basis=plan.selection.n_basis)
            if me.tune:
                self._keep_held_out(plan)
            moved = self._move(plan, deadline)
            task = plan.task if training.whole else replace(plan.task, rows=streamed.rows, labels=None)
            solution, evaluations = fit_parts(task, plan.parts, plan.kernel, plan.basis, plan.C, plan.objective)
            model, indices = self._finished(plan, solution)
            plan.note("weights", objective=float(np.sum(solution.objective)))
        me._publish(model, replace(solution, weights=model.weights), training, indices)
        self.C_ = plan.C
        self.n_kernel_evals_ = evaluations + plan.evaluations + int(plan.selection.info.get("n_kernel_evals", 0))
        self.history_ = plan.history
        self.selection_info_ = dict(plan.selection.info)
        if moved is not None:
            moved.publish(self)
            if moved.machine.interrupted:
                return self
        me._report(solution, deadline)
        return self

    # -- steps ---------------------------------------------------------------------------------------

    def _check_words(self) -> None:
        me: Any = self
        if me.search not in STRATEGIES:
            raise ValueError(f"search must be one of {STRATEGIES}; got {me.search!r}.")
        if me.size_rule not in SIZE_RULES:
            raise ValueError(f"size_rule must be one of {SIZE_RULES}; got {me.size_rule!r}.")
        if me.cv_prototypes not in CV_PROTOTYPES:
            raise ValueError(f"cv_prototypes must be one of {CV_PROTOTYPES}; got {me.cv_prototypes!r}.")
        if isinstance(me.cv, Integral) and (isinstance(me.cv, bool) or me.cv < 2):
            raise ValueError(f"cv must be at least 2 folds, a splitter or a list of splits; got {me.cv!r}.")
        if me.sizes is not None and (np.ndim(me.sizes) != 1 or not len(me.sizes) or min(me.sizes) < 1):
            raise ValueError(f"sizes must be None or a list of positive whole numbers; got {me.sizes!r}.")

    def _given_folds(self, X: Any, y: Any, training: Training) -> Any:
        """The number of folds, or the fold of every kept row where the user gives a splitter or splits of X."""
        me: Any = self
        if not (me.tune or me.n_basis == "auto"):
            return None
        if isinstance(me.cv, Integral):
            return int(me.cv)
        if y is None:
            raise ValueError(f"streamed rows are cut into folds here: cv must be a whole number; got {me.cv!r}.")
        splits = resolve_splits(me.cv, y, classifier=self._classifier, random_state=training.key, X=X)
        fold = fold_of_row(splits, _num_samples(X))
        return fold if training.kept is None else fold[training.kept]

    def _select(self, training: Training, deadline: float | None, folds: Any, n_given: int) -> _Plan:
        me: Any = self
        loss = make_loss(me.loss, classes=self._classifier, epsilon=me.epsilon)
        objective = self._objective(loss, deadline)
        task = Task(training.rows, training.labels, getattr(me, "coding", None))
        input_space = self._input_space(training)
        self._check_refine(training, input_space)
        if input_space:
            selection = Selection(None, np.eye(training.rows.n_features, dtype=training.rows.dtype))
        else:
            selection = self._prototypes(training, objective)
            logger.info("%d prototype vectors chosen among %d rows", selection.n_basis, training.rows.n_rows)
        plan = _Plan(training, task, objective, training.kernel, float(me.C), selection, input_space, folds, n_given)
        if folds is not None and selection.indices is not None:  # prototypes that are rows of some fold
            if me.cv_prototypes == "drop":
                plan.twins = np.unique(training.rows.hashes(0), return_inverse=True)[1]
            elif me.cv_prototypes == "anew":
                self._select_anew(plan)
        self._cut(plan)
        return plan

    def _select_anew(self, plan: _Plan) -> None:
        """Prototypes of every fold, chosen among the rows outside it."""
        training = plan.training
        if isinstance(plan.folds, int):
            plan.folds = shuffled_folds(
                training.rows.n_rows, plan.folds, labels=training.labels, random_state=training.key
            )
        plan.anew = []
        for v in range(int(plan.folds.max()) + 1):
            outside = np.flatnonzero(plan.folds != v)
            labels = None if training.labels is None else training.labels[outside]
            part = replace(training, rows=training.rows.subset(outside), labels=labels)
            chosen = self._prototypes(part, plan.objective)
            indices = None if chosen.indices is None else outside[chosen.indices]
            plan.anew.append(Selection(indices, chosen.vectors, info=chosen.info))

    def _check_refine(self, training: Training, input_space: bool) -> None:
        me: Any = self
        check_movable(self, training.kernel)
        if me.refine and input_space:
            raise ValueError(
                "refine=True moves prototypes, but the linear kernel is solved without: pass refine=False."
            )
        many = training.classes is not None and len(training.classes) > 2
        if me.refine and many and me.coding == "one_vs_one" and not me.shared_basis:
            raise ValueError(
                "refine=True moves prototypes that all outputs share; got coding='one_vs_one' with prototypes of its "
                "own for every pair. Set shared_basis=True, or another coding."
            )

    def _objective(self, loss: Loss, deadline: float | None) -> Objective:
        me: Any = self
        return Objective(
            loss=loss,
            absolute=not isinstance(loss, LeastSquares),
            fit_intercept=bool(me.fit_intercept),
            penalize_intercept=bool(me.penalize_intercept),
            settings=solver_settings(self, deadline),
            memory_budget=me.memory_budget,
        )

    def _partial_selection(self, training: Training, loss: Loss) -> Selection:
        if self._input_space(training):
            return Selection(None, np.eye(training.rows.n_features))
        return self._prototypes(training, self._objective(loss, None))

    def _input_space(self, training: Training) -> bool:
        limit: Any = getattr(self, "n_basis", 0)
        wide = _INPUT_SPACE if limit == "auto" else max(_INPUT_SPACE, int(limit))
        return training.kernel.name == "linear" and training.rows.n_features <= wide

    def _prototypes(self, training: Training, objective: Objective) -> Selection:
        me: Any = self
        selector = make_selector(me.selection, me.n_candidates)
        told: dict[str, Any] = {"labels": training.labels} if getattr(selector, "uses_labels", False) else {}
        if getattr(selector, "uses_targets", False):
            told |= {
                "loss": objective.loss,
                "C": float(me.C),
                "fit_intercept": objective.fit_intercept,
                "penalize_intercept": objective.penalize_intercept,
            }
        n_basis = max(self._sizes(training.rows.n_rows)) if me.n_basis == "auto" else int(me.n_basis)
        return step(
            "selection",
            lambda: selector.select(training.rows, training.kernel, n_basis, key=training.key, **told),
            Selection,
        )

    def _sizes(self, n_rows: int) -> list[int]:
        """Sizes that n_basis="auto" tries: five, doubling up to ten times the root of the rows (section 5)."""
        sizes = getattr(self, "sizes", None)
        if sizes is not None:
            return sorted({int(size) for size in sizes})
        largest = min(_LARGEST_AUTO, n_rows, int(10 * np.sqrt(n_rows)))
        return sorted({max(1, largest >> k) for k in range(_N_SIZES)})

    def _cut(self, plan: _Plan) -> None:
        """Divide the machine into parts, with folds where something will be held out."""
        plan.parts = self._parts(plan, plan.task, plan.twins)

    def _parts(self, plan: _Plan, task: Task, twins: Array | None) -> list[Part]:
        """Parts of the machine on the rows of a task, whose equal rows have equal numbers in `twins`."""
        own = not getattr(self, "shared_basis", True)
        origin = None
        if twins is not None and plan.twins is not None and plan.selection.indices is not None:
            origin = Origin(twins, plan.twins[plan.selection.indices])
        anew = None
        if plan.anew is not None:
            anew = [(chosen.vectors, plan.stratum_of(chosen) if own else None) for chosen in plan.anew]
        stratum = plan.stratum_of(plan.selection) if own else None
        m, key = plan.selection.n_basis, plan.training.key
        return make_parts(task, stratum, m, plan.folds, key, origin=origin, anew=anew)

    def _tune(self, plan: _Plan, deadline: float | None) -> None:
        """Search width and C; a loss that needs refits gets its width from least squares, and only C from refits."""
        me: Any = self
        fast = replace(plan.objective, loss=LeastSquares())

        def evaluate(kernel: Kernel, Cs: Array) -> tuple[Array, Array]:
            plan.count(plan.parts)
            return step("evaluation", lambda: held_out_errors(plan.task, plan.parts, kernel, plan.basis, Cs, fast))

        tuned: Tuned = tune_width_and_cost(
            evaluate,
            plan.kernel,
            strategy=me.search,
            evaluate_coarse=self._on_part_of_the_rows(plan, fast),
            deadline=deadline,
            random_state=plan.training.key,
            **(me.search_options or {}),
        )
        if not isinstance(plan.objective.loss, LeastSquares):
            Cs = tuned.C * 10.0 ** np.arange(-2.0, 1.5, 0.5)
            coarse = replace(plan.objective, settings=replace(plan.objective.settings, tol=1e-4))
            tuned = tuned.refitted(
                lambda: held_out_errors(plan.task, plan.parts, tuned.kernel, plan.basis, Cs, coarse), Cs
            )
        plan.kernel, plan.C = tuned.kernel, tuned.C
        self.cv_results_ = tuned.cv_results
        chosen = int(np.argmin(self.cv_results_["rank_test_error"]))
        self.cv_error_ = float(self.cv_results_["mean_test_error"][chosen])
        self.search_stopped_ = tuned.stopped

    def _on_part_of_the_rows(self, plan: _Plan, objective: Objective) -> Any:
        """Held-out errors on a random part of very many rows, enough to see where the good widths lie."""
        rows, labels = plan.task.rows, plan.task.labels
        enough = max(_COARSE_ROWS, 20 * plan.selection.n_basis)
        if rows.n_rows < 2 * enough or not isinstance(plan.folds, int):
            return None
        some = np.sort(np.random.default_rng(plan.training.key).choice(rows.n_rows, enough, replace=False))
        if labels is not None and len(np.unique(labels[some])) <= labels.max():
            return None  # a class is so rare that it is missing
        task = replace(plan.task, rows=rows.subset(some), labels=None if labels is None else labels[some])
        parts = self._parts(plan, task, None if plan.twins is None else plan.twins[some])
        logger.info("the coarse search uses %d of %d rows", enough, rows.n_rows)

        def evaluate(kernel: Kernel, Cs: Array) -> tuple[Array, Array]:
            plan.count(parts)
            return step("evaluation", lambda: held_out_errors(task, parts, kernel, plan.basis, Cs, objective))

        return evaluate

    def _choose_size(self, plan: _Plan) -> None:
        """Pick the number of prototypes on a path of nested sets, all from one set of features."""
        me: Any = self
        if plan.kernel.name != "precomputed":
            plan.selection = _taken(plan.selection, spread_order(plan.kernel, plan.basis))
            if plan.anew is not None:
                plan.anew = [_taken(chosen, spread_order(plan.kernel, chosen.vectors)) for chosen in plan.anew]
            self._cut(plan)
        n = plan.selection.n_basis
        sizes = np.array(sorted({min(size, n) for size in self._sizes(plan.training.rows.n_rows)}))
        Cs = plan.C * (10.0 ** np.arange(-1.0, 1.5, 0.5) if me.tune else np.ones(1))
        errors, fold_errors = step(
            "sizes",
            lambda: size_errors(plan.task, plan.parts, plan.kernel, plan.basis, sizes, Cs, plan.objective),
        )
        plan.count(plan.parts)
        at_best = np.argmin(errors, axis=1)
        of_size = np.take_along_axis(fold_errors, at_best[:, None, None], axis=1)[:, 0]
        choice = pick_size(sizes, of_size[:, ~np.isnan(of_size).any(axis=0)], me.size_rule)
        plan.C = float(Cs[at_best[choice.index]])
        plan.selection = _taken(plan.selection, np.arange(choice.size))
        if plan.anew is not None:
            plan.anew = [_taken(chosen, np.arange(min(choice.size, chosen.n_basis))) for chosen in plan.anew]
        self._cut(plan)
        self.size_path_ = {"n_basis": sizes, "mean_test_error": choice.mean_errors, "std_error": choice.standard_errors}
        logger.info("sizes %s have errors %s: %d chosen", sizes, choice.mean_errors.round(5), choice.size)

    def _move(self, plan: _Plan, deadline: float | None) -> Moved | None:
        """Move the prototypes, where that is asked for and pays; the weights are solved afterwards."""
        aim = plan.objective
        words = {"fit_intercept": aim.fit_intercept, "penalize_intercept": aim.penalize_intercept}
        moved = moved_vectors(self, Chosen(plan.training, plan.kernel, plan.basis, aim.loss, plan.C, **words), deadline)
        if moved is not None and moved.kept:
            plan.kernel = moved.machine.kernel
            plan.selection = Selection(None, moved.machine.basis, info=plan.selection.info)
            plan.note("refinement", n_basis=plan.selection.n_basis)
            self._cut(plan)
        return moved

    def _keep_held_out(self, plan: _Plan) -> None:
        """Held-out outputs and error of the machine that the search and the choice of a size ended with."""
        task, parts = plan.task, plan.parts
        Cs = np.array([plan.C])
        values = [held_out_path(part, plan.kernel, plan.basis, Cs, plan.objective) for part in parts]
        plan.count(parts)
        self.cv_error_ = float(np.nanmean(errors_of(task, parts, values, plan.objective)[1]))
        outputs = np.full((task.rows.n_rows, task.rows.n_outputs), np.nan)
        for part, value in zip(parts, values, strict=True):
            outputs[part.index[:, None], part.outputs] = value[0]
        if task.pairwise:
            solution, _ = fit_parts(task, parts, plan.kernel, plan.basis, plan.C, plan.objective)
            self.cv_error_ = class_error(task, outputs, solution.weights, solution.intercept, plan.kernel, plan.basis)
        if not plan.training.whole:
            return
        kept = plan.training.kept
        if kept is not None:
            whole = np.full((plan.n_given, outputs.shape[1]), np.nan)
            whole[kept] = outputs
            outputs = whole
        self.out_of_fold_outputs_ = outputs

    def _finished(self, plan: _Plan, solution: Solution) -> tuple[Any, Array | None]:
        me: Any = self
        if not plan.input_space:
            training = replace(plan.training, kernel=plan.kernel)
            return me._build_model(training, plan.basis, solution), plan.selection.indices
        # In the input space the weights themselves are the vectors of a linear kernel, one per output.
        L = solution.weights.shape[1]
        direct = replace(solution, weights=np.eye(L))
        return me._build_model(plan.training, solution.weights.T.copy(), direct), None


def _taken(selection: Selection, index: Array) -> Selection:
    indices = None if selection.indices is None else selection.indices[index]
    return Selection(indices, selection.vectors[index], info=selection.info)


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
        Arguments of `kompakt.search.strategies` for the strategies other than "profile".
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
        How n_basis="auto" picks; see `kompakt.validation.pick_size`.
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
        Arguments of `kompakt.search.strategies` for the strategies other than "profile".
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
        How n_basis="auto" picks; see `kompakt.validation.pick_size`.
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
