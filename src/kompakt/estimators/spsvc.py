"""SpSVC: the greedy primal support vector classifier of Keerthi, Chapelle, DeCoste 2006."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kompakt.basis.build import Machine
from kompakt.basis.forward import CandidateStream, Growth, GrowthPlan, GrowthSelector, Monitor, Record, finish
from kompakt.basis.growing import GrowingMachine
from kompakt.basis.scores import SELECTIONS
from kompakt.basis.sizes import best_point, size_errors, tune_grid
from kompakt.estimators.base import MachineClassifier
from kompakt.estimators.params import (
    SWITCH,
    ClassWeightParameters,
    CodingParameters,
    MachineParameters,
    ValidationParameters,
    WarmStartParameters,
    auto_size,
    estimator,
    one_of,
    parameter,
)
from kompakt.kernels import Kernel, Precomputed, Sum, make_kernel
from kompakt.losses import make_loss
from kompakt.search.strategies import GridSearch
from kompakt.search.trials import Trials
from kompakt.spec import Basis, Data, Spec
from kompakt.train.data import splits_of
from kompakt.train.pipeline import Fit
from kompakt.validation import AutoSize, Split, holdout, pick_size

Array = np.ndarray


@estimator
class SpSVC(
    ClassWeightParameters,
    CodingParameters,
    WarmStartParameters,
    ValidationParameters,
    MachineParameters,
    MachineClassifier,
):
    """Support vector classifier whose basis is grown greedily on the primal objective.

    Forward selection (Keerthi, Chapelle, DeCoste 2006): at each step a few random rows are tried as the next basis
    vector, the one that lowers the squared-hinge objective most is added, and the weights are re-optimised.

    Parameters
    ----------
    n_basis
        "auto" picks it, up to 100, by cross-validation (`cv`): the smallest size that makes at most one mistake more
        than the best (none more if the best makes fewer than five); or on held-out rows with `validation_fraction`: the
        smallest one of the lowest error. ``AutoSize(tol=0)`` takes the lowest error in both cases, as the paper does.
    kernel
        For the polynomial kernel of the paper normalise the rows first (scikit-learn's `Normalizer`).
    C
        1 / lambda of the paper.
    loss
        None means the squared hinge, and least squares for kernel matching pursuit; "hinge" is not possible.
    selection
        The rules are those of `GrowthSelector`, whose options are the paper's: "sp1", "sp2", "hybrid", "random",
        "cholesky", "gsvc", "bh", "mark", "kmp" and "kmp_prefit".
    plus_one : bool
        Use the kernel 1 + k, which regularises the threshold, in place of an intercept.
    tune
        By a grid, 2^-7, ..., 2^7 for both; the size too if n_basis is "auto".
    cv
        That is 3 folds.
    validation_fraction
        None holds out none. Growth stops when their error has not fallen for 20 vectors (see `AutoSize`), the best
        size is kept, and the weights are fitted to all rows.
    warm_start
        On the same rows.

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
        With refine=True: whether the moved vectors were kept, what was learned of the metric, objective and held-out
        loss before and after, and that loss along the descent.
    cv_errors_ : ndarray
        Validation errors, pooled over the held-out rows of all folds: (n_sizes,), or (n_gamma, n_C, n_sizes) when
        tuned.
    cv_results_ : dict of arrays
        When tuned, one entry per pair of C and gamma, at its best size: param_C, mean_test_error, ...
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

    n_basis: Any = parameter(default=100, options={AutoSize: ("largest", "n_iter_no_change", "tol")}, kw_only=False)
    loss: Any = None
    selection: Any = parameter(default="sp2", rule=one_of(*SELECTIONS), options={GrowthSelector: None})
    plus_one: bool = parameter(default=False, rule=SWITCH)
    tune: Any = parameter(default=False, options={GridSearch: ("C", "gamma")})

    # -- what is minimised, and how -------------------------------------------------------------------

    def _spec(self, data: Data, kernel: Kernel) -> Spec:
        if self.plus_one:
            if isinstance(kernel, Precomputed):
                raise ValueError(
                    "plus_one=True is not possible with kernel='precomputed': add 1 to your kernel matrices."
                )
            kernel = kernel + 1.0
        matching = self._selector().rule.startswith("kmp")
        name = "least_squares" if matching else "squared_hinge"
        loss = make_loss(name if self.loss is None else self.loss, classes=True, epsilon=self.epsilon)
        if matching and loss.name != "least_squares":
            raise ValueError(
                f"selection={self._selector().rule!r} is matching pursuit on the least-squares loss; got "
                f"loss={self.loss!r}. Leave loss=None, or use 'sp2' ('sp1'), the same methods on other losses."
            )
        intercept = bool(self.fit_intercept) and not self.plus_one
        C = 1.0 if self.C is None else float(self.C)
        return Spec(kernel, loss, C, intercept, bool(self.penalize_intercept), self.coding, data.n_classes)

    def _selector(self) -> GrowthSelector:
        return GrowthSelector(self.selection) if isinstance(self.selection, str) else self.selection

    def _growth(self, fit: Fit) -> tuple[GrowthPlan, CandidateStream]:
        """How to grow, and which rows are tried."""
        auto = auto_size(self.n_basis) or AutoSize()
        stream = self._selector().stream(fit.data.in_memory, fit.run)
        wanted = (auto.largest or 100) if fit.n_basis is None else fit.n_basis
        plan = self._selector().plan(min(wanted, len(stream.rows)), fit.plan.tol, fit.plan.max_iter, fit.run)
        return plan, stream

    def _size_tolerance(self, errors: Array, splits: list[Split]) -> float:
        """How much above the lowest cross-validated error that of a smaller size may lie, unless `AutoSize` says.

        The lowest of many errors is a tie up to noise: one mistake more is allowed, where that is within half a
        standard error, which it is unless the best makes fewer than five.
        """
        tol = (auto_size(self.n_basis) or AutoSize()).tol
        if tol is not None:
            return float(tol)
        n, lowest = sum(len(held) for _, held in splits), float(np.min(errors))
        return min(1.0 / n, 0.5 * float(np.sqrt(lowest * (1.0 - lowest) / n))) + 1e-12

    # -- C, gamma and size by cross-validation -------------------------------------------------------

    def _search(self, fit: Fit) -> None:
        if not self.tune:
            super()._search(fit)
            if self.warm_start and hasattr(
                self, "basis_indices_"
            ):  # growth goes on with the width and cost it began with
                last = self.kernel_ if self.gamma is None else fit.spec.kernel
                fit.spec = replace(fit.spec, kernel=last, C=self.C_ if self.C is None else fit.spec.C)
            return
        grid = self.tune if isinstance(self.tune, GridSearch) else GridSearch()
        C_grid, gammas = grid.values("C"), grid.values("gamma")
        kernels = [self._without_one(fit.spec.kernel)]
        if kernels[0].name in ("rbf", "laplacian", "poly") and isinstance(self.kernel, str):
            kernels = [make_kernel(self.kernel, gamma=g, coef0=self.coef0, degree=self.degree) for g in gammas]
        plan, _ = self._growth(fit)
        splits = splits_of(fit.data, 3 if self.cv is None else self.cv, fit.run.key)
        # weights retrained at every step let the machines of a grid grow side by side; their errors are no higher.
        # They try the same rows, so that the choice among them is not one among random draws (section 4).
        search_plan = replace(plan, retraining="always", candidates="all")
        errors, losses = fit.run.step(
            "search",
            lambda: tune_grid(fit.data, fit.spec, search_plan, splits, kernels, C_grid, plus_one=self.plus_one),
        )
        sized = fit.n_basis is None and not self.validation_fraction
        slack = self._size_tolerance(errors, splits) if sized else 0.0
        kernel, C, size = best_point(errors, losses, slack)
        found = kernels[kernel] + 1.0 if self.plus_one else kernels[kernel]
        fit.spec = replace(fit.spec, kernel=found, C=float(C_grid[C]))
        if sized:
            fit.n_basis = size
        fit.attributes["cv_errors_"], fit.trials = errors, Trials()
        for at in np.ndindex(errors.shape[:2]):  # every pair at its best size, the chosen one at its own
            best_size = size if at == (kernel, C) else int(np.argmin(errors[at])) + 1
            gamma = getattr(kernels[at[0]], "gamma", None)
            setting = {"C": float(C_grid[at[1]]), "gamma": gamma, "n_basis": best_size}
            fit.trials.add(setting, errors[at][best_size - 1])
        why = f"the lowest held-out error of {len(fit.trials):,} settings by cross-validation, each at its best size."
        if slack:
            why = f"the smallest size within {slack:.3g} of {why}"
        fit.trials.choose(fit.trials.rows[kernel * len(C_grid) + C], why)

    def _choose_size(self, fit: Fit) -> None:
        plan, _ = self._growth(fit)
        fit.n_basis = plan.n_basis
        if not self.validation_fraction:
            splits = splits_of(fit.data, 3 if self.cv is None else self.cv, fit.run.key)
            errors = fit.run.step("sizes", lambda: size_errors(fit.data, fit.spec, plan, splits))
            slack = self._size_tolerance(errors, splits)
            chosen = pick_size(np.arange(1, len(errors) + 1), np.round(errors, 12), "within", tolerance=slack)
            fit.n_basis, fit.why_size = chosen.size, chosen.why
            fit.attributes["cv_errors_"] = chosen.mean_errors

    # -- growth --------------------------------------------------------------------------------------

    def _choose_basis(self, fit: Fit) -> Machine:
        data, spec, rows = fit.data, fit.spec, fit.data.in_memory
        assert data.labels is not None
        plan, stream = self._growth(fit)
        columns = self._selector().columns(rows, spec.kernel, stream, plan.n_basis, fit.run)
        held: Array | None = None
        weights = everywhere = np.ones(rows.n_rows) if rows.weights is None else rows.weights
        if self.validation_fraction:
            share = float(self.validation_fraction)
            train, held = holdout(data.labels, share, classifier=True, random_state=fit.run.key)
            weights = everywhere.copy()
            weights[held] = 0.0
            stream = stream.within(train)
        steps = (auto_size(self.n_basis) or AutoSize()).n_iter_no_change
        machine = GrowingMachine.on_rows(columns, spec, plan.n_basis, weights, self.memory_budget)
        before = self._continued(machine, data, plan.n_basis)
        plan = replace(plan, patience=None if held is None else int(steps or 20))
        records = Growth(machine, stream, plan, Monitor(data, spec, held)).grow()
        interrupted = bool(records and records[-1].get("interrupted"))
        if held is not None and records and not interrupted:
            # the smallest size with a low validation error, its weights fitted to all rows
            sizes, errors = ([record[name] for record in records] for name in ("n_basis", "validation_error"))
            tol = (auto_size(self.n_basis) or AutoSize()).tol or 0.0
            chosen = pick_size(sizes, errors, "within", tolerance=float(tol))
            machine.truncate(chosen.size)
            machine.set_weights(everywhere)
            finish(machine, plan)
        fit.attributes["history_"] = before + records
        indices = np.array(machine.indices, dtype=np.intp)
        basis = Basis(indices, columns.vectors(indices))
        return Machine(spec, basis, machine.solution(), columns.n_evals, interrupted=interrupted)

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
        X = data.in_memory.X
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
            machine.append(index, machine.columns.columns(np.array([index]))[0], float(diagonal))
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
