"""FixedSizeLSSVC and FixedSizeLSSVR: prototypes, and ridge regression on them (De Brabanter et al. 2010)."""

from __future__ import annotations

import logging
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from kompakt.basis.build import Machine, Plan
from kompakt.basis.gram import GramSelector
from kompakt.basis.random import RandomSelector
from kompakt.codings import class_pairs
from kompakt.design import Design
from kompakt.estimators.base import KernelMachine, MachineClassifier, MachineRegressor
from kompakt.estimators.params import (
    SWITCH,
    ClassWeightParameters,
    CodingParameters,
    MachineParameters,
    Rule,
    auto_size,
    estimator,
    one_of,
    parameter,
    shared,
)
from kompakt.estimators.partial import PartialClassifier, PartialRegressor
from kompakt.estimators.selectors import make_selector
from kompakt.kernels import Kernel
from kompakt.losses import LeastSquares
from kompakt.run import Run
from kompakt.search.fixed_size import (
    CrossValidation,
    columns_of,
    fewest_errors,
    held_out,
    make_parts,
    solve_parts,
    spread_order,
    tune_width_and_cost,
)
from kompakt.search.strategies import Annealing, GridSearch, RandomSearch
from kompakt.solve import Solution
from kompakt.spec import Basis, Data, Spec
from kompakt.train.data import splits_of
from kompakt.train.pipeline import Fit
from kompakt.validation import AutoSize, fold_of_row, pick_size, shuffled_folds

Array = np.ndarray
logger = logging.getLogger("kompakt")

#: up to this many features (or `n_basis`, if that is more) the linear kernel is solved in the input space
_INPUT_SPACE = 2000
_N_SIZES = 5
_LARGEST_AUTO = 1000
#: the coarse search sees this many rows where there are more than twice as many
_COARSE_ROWS = 50_000


@shared
class _FixedSize(MachineParameters, KernelMachine):
    """What both do: choose prototypes, then search C, width and size by cross-validation on them.

    Parameters
    ----------
    n_basis
        "auto" picks by cross-validation the best of five sizes, doubling up to ten times the root of the number of
        rows, to all rows, or to 1,000, whichever is least; they are nested and share one set of features.
    kernel
        The linear kernel is solved in the input space, without prototypes (up to 2,000 features).
    C
        The paper's regularisation constant gamma; for the absolute error, which has no factor 1/2 here, half of it.
    loss
        For other losses the width is tuned with least squares, and C by refitting every fold.
    selection
        "gram" is forward selection in Gram space, with tune=True once before and once after the search. "renyi" swaps
        prototypes to raise the quadratic Renyi entropy of the inputs, with wider bandwidths where the criterion is
        blind (`RenyiSelector()` is the plain one of the paper); "random", "projection" and "all" (every distinct row:
        the full LS-SVM) are names too.
    tune
        By cross-validated error; sets `cv_results_`. True searches the width and reads C off a path of exact
        cross-validations at each; `Annealing()` is the paper's search of both.
    cv
        That is 10 folds. Each split must train on all rows that it does not validate.
    cv_prototypes : {"drop", "anew", "plain"}
        Prototypes of the folds' machines. They are chosen among all rows, and a row that is a prototype is shielded by
        a basis function of its own, so "plain" cross-validation, the paper's, reports too small an error. "drop"
        leaves out the prototypes that are rows of the fold, at no cost; "anew" chooses prototypes for every fold among
        the other rows, at the cost of a selection and of features per fold.
    """

    n_basis: Any = parameter(default=100, options={AutoSize: ("sizes", "rule")}, kw_only=False)
    loss: Any = "least_squares"
    selection: Any = "gram"
    tune: Any = parameter(default=False, options={Annealing: None, GridSearch: ("n_points",), RandomSearch: None})
    cv_prototypes: str = parameter(default="drop", rule=one_of("drop", "anew", "plain"))

    def _plan(self, data: Data, run: Run) -> Plan:
        return replace(super()._plan(data, run), selector=make_selector(self.selection))

    def _search(self, fit: Fit) -> None:
        """Prototypes first; then C and the width (`tune=True`) and the size (`n_basis="auto"`) on them."""
        data, spec, run = fit.data, fit.spec, fit.run
        input_space = self._input_space(spec.kernel, data.rows.n_features)
        if fit.plan.refine and input_space:
            raise ValueError(
                "refine=True moves prototypes, but the linear kernel is solved without: pass refine=False."
            )
        if fit.plan.refine and isinstance(self.fit_intercept, str):
            raise ValueError(
                f"fit_intercept={self.fit_intercept!r} moves the intercepts after the weights are found, which "
                "refine=True would undo: pass refine=False, or fit_intercept=True."
            )
        if fit.plan.refine and data.rows.weight_columns > 1 and not getattr(self, "shared_basis", True):
            raise ValueError(
                "refine=True moves prototypes that all outputs share; got coding='one_vs_one' with prototypes of its "
                "own for every pair. Set shared_basis=True, or another coding."
            )
        folds = self._folds(data, run) if self.tune or fit.n_basis is None else None
        super()._search(fit)
        fit.basis = self._first_basis(data, fit.spec, run)
        fit.attributes["selection_info_"] = dict(fit.basis.info)
        run.note("selection", n_basis=fit.basis.n_basis)
        if folds is None:
            return
        anew = None
        if self.cv_prototypes == "anew" and fit.basis.indices is not None:
            if isinstance(folds, int):
                folds = shuffled_folds(data.rows.n_rows, folds, labels=data.labels, random_state=run.key)
            anew = [self._basis_without(fit, folds == v) for v in range(int(folds.max()) + 1)]
        if self.tune:
            self._tune(fit, folds, anew)
            if isinstance(make_selector(self.selection), GramSelector) and not input_space:
                # the choice depends on width and cost: once more, with those found
                fit.basis = self._first_basis(data, fit.spec, run)
                if anew is not None and not isinstance(folds, int):
                    anew = [self._basis_without(fit, folds == v) for v in range(int(folds.max()) + 1)]
        if fit.n_basis is None and not input_space:
            anew = self._tune_size(fit, folds, anew)
        fit.n_basis = fit.basis.n_basis
        if self.tune:
            self._hold_out(fit, self._validation(fit, folds, anew))

    def _folds(self, data: Data, run: Run) -> int | Array:
        """The number of folds, or the fold of every row where the user gives a splitter or splits of X."""
        if self.cv is None:
            return 10
        if isinstance(self.cv, Integral):
            return int(self.cv)
        if data.origin is not None:
            raise ValueError(f"streamed rows are cut into folds here: cv must be a whole number; got {self.cv!r}.")
        return fold_of_row(splits_of(data, self.cv, run.key), data.rows.n_rows)

    def _input_space(self, kernel: Kernel, n_features: int) -> bool:
        """Whether the weights of a linear kernel are found without prototypes."""
        limit = _INPUT_SPACE if auto_size(self.n_basis) else max(_INPUT_SPACE, int(self.n_basis))
        return kernel.name == "linear" and n_features <= limit

    def _first_basis(self, data: Data, spec: Spec, run: Run) -> Basis:
        """Prototypes among the rows; the unit vectors where none are needed."""
        rows = data.rows
        if self._input_space(spec.kernel, rows.n_features):
            return Basis(None, np.eye(rows.n_features, dtype=rows.dtype))
        selector = make_selector(self.selection)
        n_basis = max(self._sizes(rows.n_rows)) if auto_size(self.n_basis) else int(self.n_basis)
        found: Basis = run.step("selection", lambda: selector.select(data, spec, n_basis, run), Basis)
        if not found.n_basis:  # no vector lowers the objective: random ones are as good
            found = run.step("selection", lambda: RandomSelector().select(data, spec, n_basis, run), Basis)
        return found

    def _basis_without(self, fit: Fit, fold: Array) -> Basis:
        """Prototypes chosen among the rows outside a fold."""
        outside = np.flatnonzero(~fold)
        chosen = self._first_basis(fit.data.subset(outside), fit.spec, fit.run)
        return replace(chosen, indices=None if chosen.indices is None else outside[chosen.indices])

    def _sizes(self, n_rows: int) -> list[int]:
        """Sizes that n_basis="auto" tries: five, doubling up to ten times the root of the rows (section 5)."""
        auto = auto_size(self.n_basis)
        if auto is not None and auto.sizes is not None:
            return sorted({int(size) for size in auto.sizes})
        largest = min(_LARGEST_AUTO, n_rows, int(10 * np.sqrt(n_rows)))
        return sorted({max(1, largest >> k) for k in range(_N_SIZES)})

    def _validation(
        self, fit: Fit, folds: int | Array, anew: list[Basis] | None, among: Array | None = None
    ) -> CrossValidation:
        """Cross-validation of the machine on its prototypes; `among` are the rows that take part."""
        drop, own = self.cv_prototypes == "drop", not getattr(self, "shared_basis", True)
        parts = make_parts(fit.data, fit.basis, folds, fit.run.key, own=own, drop=drop, anew=anew, among=among)
        absolute = not isinstance(fit.spec.loss, LeastSquares)
        return CrossValidation(fit.data, fit.spec, parts, fit.plan.settings(fit.run), absolute)

    def _tune(self, fit: Fit, folds: int | Array, anew: list[Basis] | None) -> None:
        """Search width and C; a loss that needs refits gets its width from least squares, and only C from refits."""
        spec, run, some = fit.spec, fit.run, self._coarse_rows(fit, folds)
        validation = self._validation(fit, folds, anew)
        fast = replace(validation, spec=replace(spec, loss=LeastSquares()))
        coarse = None if some is None else replace(fast, parts=self._validation(fit, folds, anew, some).parts)
        strategy, options = "profile", {}
        if isinstance(self.tune, Annealing | GridSearch | RandomSearch):
            strategy, options = self.tune.strategy, self.tune.options()
        found = tune_width_and_cost(
            fast.errors,
            spec.kernel,
            strategy=strategy,
            evaluate_coarse=None if coarse is None else coarse.errors,
            run=run,
            **options,
        )
        fit.n_kernel_evals += found.n_visits * fast.n_kernel_evals
        fit.n_kernel_evals += found.n_coarse_visits * (0 if coarse is None else coarse.n_kernel_evals)
        if not isinstance(spec.loss, LeastSquares):
            loosely = replace(validation, settings=replace(validation.settings, tol=1e-4))
            found.refit(loosely.errors, found.C * 10.0 ** np.arange(-2.0, 1.5, 0.5))
        fit.spec = replace(spec, kernel=found.kernel, C=found.C)
        fit.trials = found.trials
        fit.attributes["search_stopped_"] = found.trials.stopped
        run.note("search", error=found.trials.best.mean, C=found.C, n_evaluations=len(found.trials))

    def _coarse_rows(self, fit: Fit, folds: int | Array) -> Array | None:
        """A random part of very many rows, enough to see where the good widths lie; None where all rows are used."""
        n_rows, labels = fit.data.rows.n_rows, fit.data.labels
        enough = max(_COARSE_ROWS, 20 * fit.basis.n_basis)
        if n_rows < 2 * enough or not isinstance(folds, int):
            return None
        some = np.sort(np.random.default_rng(fit.run.key).choice(n_rows, enough, replace=False))
        if labels is not None and len(np.unique(labels[some])) <= labels.max():
            return None  # a class is so rare that it is missing
        logger.info("the coarse search uses %d of %d rows", enough, n_rows)
        return some

    def _tune_size(self, fit: Fit, folds: int | Array, anew: list[Basis] | None) -> list[Basis] | None:
        """Pick the number of prototypes on a path of nested sets, all from one set of features; `anew` cut to it."""
        spec = fit.spec
        if spec.kernel.name != "precomputed":
            fit.basis = fit.basis.take(spread_order(spec.kernel, fit.basis.vectors))
            if anew is not None:
                anew = [chosen.take(spread_order(spec.kernel, chosen.vectors)) for chosen in anew]
        sizes = np.array(sorted({min(size, fit.basis.n_basis) for size in self._sizes(fit.data.rows.n_rows)}))
        Cs = spec.C * (10.0 ** np.arange(-1.0, 1.5, 0.5) if self.tune else np.ones(1))
        validation = self._validation(fit, folds, anew)
        errors, fold_errors = fit.run.step("sizes", lambda: validation.size_errors(sizes, Cs))
        fit.n_kernel_evals += validation.n_kernel_evals
        at_best = np.argmin(errors, axis=1)
        of_size = np.take_along_axis(fold_errors, at_best[:, None, None], axis=1)[:, 0]
        rule = (auto_size(self.n_basis) or AutoSize()).rule or "best"
        choice = pick_size(sizes, of_size[:, ~np.isnan(of_size).any(axis=0)], rule)
        fit.spec = replace(spec, C=float(Cs[at_best[choice.index]]))
        fit.basis = fit.basis.take(np.arange(choice.size))
        path = {"n_basis": sizes, "mean_test_error": choice.mean_errors, "std_error": choice.standard_errors}
        fit.attributes["size_path_"], fit.why_size = path, choice.why
        logger.info("sizes %s have errors %s: %d chosen", sizes, choice.mean_errors.round(5), choice.size)
        fit.run.note("size", n_basis=choice.size)
        return None if anew is None else [one.take(np.arange(min(choice.size, one.n_basis))) for one in anew]

    def _hold_out(self, fit: Fit, validation: CrossValidation) -> None:
        """Held-out outputs and error of the machine that the search and the choice of a size ended with."""
        data, spec = fit.data, fit.spec
        values = [held_out(part, spec, np.array([spec.C]), validation.settings)[0] for part in validation.parts]
        fit.n_kernel_evals += validation.n_kernel_evals
        if isinstance(self.fit_intercept, str):  # the thresholds for a fold are those of the other rows
            for part, value in zip(validation.parts, values, strict=True):
                targets, weights, before = part.targets, part.rows.weights, value[0].copy()
                for v in range(int(part.fold.max()) + 1):
                    others = (part.fold >= 0) & (part.fold != v)
                    known = None if weights is None else weights[others]
                    if others.any():
                        value[0, part.fold == v] += fewest_errors(before[others], targets[others], known)
        error = float(np.nanmean(validation.errors_of(values)[1]))
        outputs = np.full((data.rows.n_rows, data.rows.n_outputs), np.nan)
        for part, value in zip(validation.parts, values, strict=True):
            used = part.fold >= 0
            outputs[part.index[used][:, None], part.outputs] = value[0, used]
        if data.rows.weight_columns > 1:
            solution, _ = self._weights(fit, data, spec, fit.basis)
            error = validation.class_error(outputs, fit.basis.vectors, solution)
        fit.attributes["cv_error_"] = error
        if data.whole:
            if data.kept is not None:
                of_kept, outputs = outputs, np.full((data.n_given, outputs.shape[1]), np.nan)
                outputs[data.kept] = of_kept
            fit.attributes["out_of_fold_outputs_"] = outputs

    def _weights(self, fit: Fit, data: Data, spec: Spec, basis: Basis) -> tuple[Solution, int]:
        """Weights on the rows of `data`, and the kernel evaluations spent; each pair of classes on its own."""
        labels = None if getattr(self, "shared_basis", True) else fit.data.labels
        columns = [columns_of(basis, labels, pair) for pair in class_pairs(spec.n_classes)] if data.classifier else []
        settings = fit.plan.settings(fit.run.unhurried() if fit.plan.refine else fit.run)
        solution, evaluations = solve_parts(data.rows, spec, basis.vectors, columns, settings)
        if isinstance(self.fit_intercept, str):
            rows = fit.data.rows
            design = Design(rows, spec.kernel, basis.vectors)
            outputs = design.matvec(solution.weights) + solution.intercept
            moved = solution.intercept + fewest_errors(outputs, fit.data.targets, rows.weights)
            solution, evaluations = replace(solution, intercept=moved), evaluations + design.n_kernel_evals
        return solution, evaluations

    def _choose_basis(self, fit: Fit) -> Machine:
        solution, evaluations = self._weights(fit, fit.data, fit.spec, fit.basis)
        fit.run.note("weights", objective=float(np.sum(solution.objective)))
        machine = Machine(fit.spec, fit.basis, solution, fit.basis.n_kernel_evals + evaluations)
        return self._finished(machine)

    def _solve(self, fit: Fit, data: Data, machine: Machine) -> Machine:
        basis = machine.basis if fit.plan.refine else fit.basis
        solution, evaluations = self._weights(fit, data, machine.spec, basis)
        fit.run.note("weights on all rows", n_rows=data.rows.n_rows, objective=float(np.sum(solution.objective)))
        evaluations += machine.n_kernel_evals
        return self._finished(replace(machine, basis=basis, solution=solution, n_kernel_evals=evaluations))

    def _finished(self, machine: Machine) -> Machine:
        """In the input space the weights themselves are the vectors of a linear kernel, one per output."""
        weights = machine.solution.weights
        if not self._input_space(machine.spec.kernel, machine.basis.vectors.shape[1]):
            return machine
        solution = replace(machine.solution, weights=np.eye(weights.shape[1]))
        return replace(machine, basis=Basis(None, weights.T.copy()), solution=solution)


@estimator
class FixedSizeLSSVC(ClassWeightParameters, CodingParameters, _FixedSize, PartialClassifier, MachineClassifier):
    """Fixed-size least-squares support vector classifier.

    Few rows, the prototypes, give Nystrom features, on which ridge regression is solved in closed form:
    ``1/2 |w|^2 [+ 1/2 b^2] + C/2 sum_i s_i e_i^2``. Exact cross-validation costs about as much as one fit.

    Parameters
    ----------
    coding
        "one_vs_rest" and "minimum_output" (the paper's, with the fewest outputs and often twice the errors) share one
        factorisation; "one_vs_one" fits each pair of classes on its own rows.
    shared_basis : bool
        Whether one-vs-one uses all prototypes in every pair; by default those of the two classes.
    fit_intercept
        "fewest_errors" moves the intercept of each output, once the weights are found, to where the fewest training
        rows are on the wrong side. It helps where classes are very unequal, since least squares puts the boundary
        midway; the search does not know of it, `cv_error_` does.

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
        With refine=True: whether the moved vectors were kept, what was learned of the metric, objective and held-out
        loss before and after, and that loss along the descent.
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

    shared_basis: bool = parameter(default=False, rule=SWITCH)
    fit_intercept: Any = parameter(
        default=True,
        rule=Rule(
            "True, False or 'fewest_errors'",
            lambda value: value == "fewest_errors" if isinstance(value, str) else SWITCH.holds(value),
        ),
    )


@estimator
class FixedSizeLSSVR(_FixedSize, PartialRegressor, MachineRegressor):
    """Fixed-size least-squares support vector regression.

    As `FixedSizeLSSVC`, for one or several numeric targets.

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
        With refine=True: whether the moved vectors were kept, what was learned of the metric, objective and held-out
        loss before and after, and that loss along the descent.
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
