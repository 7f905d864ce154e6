"""Kernel Fisher discriminants: on all rows (Franc and Hlavac 2003, eq. 5-6) and on a projection basis (eq. 7)."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from kompakt.basis.build import Machine, Plan
from kompakt.codings import get_coding
from kompakt.data import Rows
from kompakt.design import Design
from kompakt.estimators.base import MachineClassifier
from kompakt.estimators.params import (
    POSITIVE,
    CodingParameters,
    KernelParameters,
    MemoryParameters,
    ProjectionParameters,
    Rule,
    RunParameters,
    SelectionParameters,
    SizeParameters,
    TuneParameters,
    estimator,
    one_of,
    parameter,
    shared,
)
from kompakt.estimators.selectors import projection_selector
from kompakt.kernels import Kernel
from kompakt.run import Run
from kompakt.search.fixed_size import tune_width_and_cost
from kompakt.search.widths import SAMPLE_ROWS
from kompakt.solve import fisher
from kompakt.spec import Basis, Data, Spec
from kompakt.train.data import labelled_rows, splits_of
from kompakt.train.pipeline import Fit
from kompakt.validation import shuffled_folds

Array = np.ndarray

#: what C is with reg="scale": the penalty is 1 / C of the mean diagonal entry of the within-class matrix
_DEFAULT_C = 100.0
#: what reg="cv" tries, and different rows that it needs
_COSTS = 10.0 ** np.arange(1.0, 6.0)
_LEAST_ROWS = 100


@shared
class _Fisher(RunParameters, MemoryParameters, TuneParameters, CodingParameters, KernelParameters, MachineClassifier):
    """Both discriminants: a basis, the moments of the classes, one small problem per output.

    Parameters
    ----------
    reg : "cv", "scale" or float
        Penalty on the squared multipliers; the C of Franc and Hlavac is 1 / reg. "scale" is 0.01 trace(N) over the
        number of basis vectors, so that it follows the kernel's values; "cv" takes another share than 0.01, of five
        from 0.1 to 1e-5, where five folds of at most 800 rows say that it is better by more than a standard error; it
        is "scale" below 100 rows.
    bias : {"gaussian", "midpoint", "search"}
        "gaussian" puts the threshold where the normal densities of the projected classes, each with its own variance,
        agree; "midpoint" the same with one common variance; "search" minimises the training error.
    priors : None, "empirical" or array of shape (n_classes,)
        Prior probabilities of the classes for the threshold; None gives both sides of every output the same, as in the
        paper. They take the place of class weights, which the discriminant's class-wise means and covariances do not
        see.
    tune
        Here `reg` and the width; every fold is fitted without its rows. Sets `reg_`.
    cv
        That is 5 folds.
    """

    reg: Any = parameter(
        default="cv",
        rule=Rule(
            "'cv', 'scale' or a positive, finite number (it keeps the problem solvable)",
            lambda value: value in ("cv", "scale") if isinstance(value, str) else POSITIVE.holds(value),
        ),
    )
    bias: str = parameter(default="gaussian", rule=one_of(*fisher.BIASES))
    priors: Any = "empirical"

    def _spec(self, data: Data, kernel: Kernel) -> Spec:
        return Spec(kernel, C=_DEFAULT_C, coding=self.coding, n_classes=data.n_classes)

    def _plan(self, data: Data, run: Run) -> Plan:
        return Plan(refine=False)

    def _search(self, fit: Fit) -> None:
        """Width and relative penalty from the data; those of the lowest cross-validated error (`tune=True`)."""
        run = fit.run
        if self.tune:
            splits = self._splits(fit)
            tuned = tune_width_and_cost(
                lambda kernel, Cs: run.step("evaluation", lambda: self._errors(fit, fit.data, splits, kernel, Cs)),
                fit.spec.kernel,
                run=run,
            )
            table, fit.trials = tuned.trials.as_dict(), tuned.trials
            table["param_reg_factor"] = 1.0 / table.pop("param_C")
            fit.attributes |= {"cv_results_": table, "cv_error_": tuned.error}
            fit.spec = replace(fit.spec, kernel=tuned.kernel, C=tuned.C)
            return
        super()._search(fit)
        if isinstance(self.reg, str) and self.reg == "cv":
            few = fit.data.rows.smallest(run.key, SAMPLE_ROWS)  # different rows, by content
            part = fit.data.subset(few)
            assert part.labels is not None
            fold = np.arange(len(few)) % 5
            spread = [len(np.unique(fold[part.labels == label])) for label in range(fit.spec.n_classes)]
            if len(few) < _LEAST_ROWS or min(spread) < 2:
                return  # too little to tell
            splits = [(np.flatnonzero(fold != v), np.flatnonzero(fold == v)) for v in range(5)]
            errors, _ = self._errors(fit, part, splits, fit.spec.kernel, _COSTS)
            usual = float(errors[_COSTS == _DEFAULT_C][0])
            if errors.min() < usual - np.sqrt(usual * (1.0 - usual) / len(few)):
                fit.spec = replace(fit.spec, C=float(_COSTS[int(np.argmin(errors))]))

    def _errors(
        self, fit: Fit, data: Data, splits: list[tuple[Array, Array]], kernel: Kernel, Cs: Array
    ) -> tuple[Array, Array]:
        """Held-out shares of wrong labels (n_C,), and those of the folds (n_C, n_folds)."""
        run, n_classes = fit.run, fit.spec.n_classes
        rows, labels, weights = data.rows, data.labels, data.row_weights
        assert labels is not None
        codes = get_coding(self.coding).codes(n_classes)
        spec = replace(fit.spec, kernel=kernel)
        losses, fold_errors, total = np.zeros(len(Cs)), np.empty((len(Cs), len(splits))), 0.0
        for v, (train, held) in enumerate(splits):
            part, own = data.subset(train), None if weights is None else weights[train]
            basis, basis_mass = self._basis(part, spec, own, run)
            design = Design(part.rows, kernel, basis.vectors, memory_budget=run.memory_budget)
            moments = fisher.class_moments(design, part.labels, n_classes, own)
            scale = fisher.penalty_scale(moments, codes, basis_mass)
            priors = self._priors(part, own)
            solutions = [
                fisher.minimise(
                    design, part.labels, codes, reg=scale / C, weights=own, bias=self.bias, priors=priors,
                    basis_mass=basis_mass, moments=moments,
                )
                for C in Cs
            ]  # fmt: skip
            outside = Design(rows.subset(held), kernel, basis.vectors, memory_budget=run.memory_budget)
            outputs = outside.matvec(np.concatenate([solution.weights for solution in solutions], axis=1))
            outputs += np.concatenate([solution.intercept for solution in solutions])
            here = np.ones(len(held)) if weights is None else weights[held]
            for k, values in enumerate(np.split(outputs, len(Cs), axis=1)):
                wrong = here @ (spec.decode(values) != labels[held])
                losses[k] += wrong
                fold_errors[k, v] = wrong / here.sum()
            total += here.sum()
            fit.n_kernel_evals += basis.n_kernel_evals + design.n_kernel_evals + outside.n_kernel_evals
        return losses / total, fold_errors

    def _splits(self, fit: Fit) -> list[tuple[Array, Array]]:
        """Rows to train on and rows held out; every class is in every training part."""
        data, cv = fit.data, 5 if self.cv is None else self.cv
        labels = data.labels
        assert labels is not None
        if isinstance(cv, Integral):
            fold = shuffled_folds(data.rows.n_rows, int(cv), labels=labels, random_state=fit.run.key)
            fold[np.bincount(labels)[labels] == 1] = -1  # the only row of its class is always trained on
            splits = [(np.flatnonzero(fold != v), np.flatnonzero(fold == v)) for v in range(fold.max() + 1)]
            return [(train, held) for train, held in splits if len(held)]
        if not data.whole:
            raise ValueError(f"streamed rows are cut into folds here: cv must be a whole number; got {cv!r}.")
        splits = splits_of(data, cv, fit.run.key)
        for number, (train, _) in enumerate(splits):
            if len(np.unique(labels[train])) <= labels.max():
                raise ValueError(
                    f"split {number} of cv trains on rows that lack a class; expected rows of every class."
                )
        return splits

    def _choose_basis(self, fit: Fit) -> Machine:
        """The basis on the rows in memory, and the discriminants of all rows."""
        data, spec, run = fit.data, fit.spec, fit.run
        basis, basis_mass = self._basis(data, spec, data.row_weights, run)
        if data.whole or basis_mass is not None:
            rows: Rows = data.rows
            labels, weights, mass = data.labels, data.row_weights, None
        else:  # the basis is that of a sample; now all rows, by passes
            data = data.everything
            rows, labels, weights, mass = labelled_rows(data), None, None, data.mass_of
        codes = get_coding(self.coding).codes(spec.n_classes)
        design = Design(rows, spec.kernel, basis.vectors, memory_budget=run.memory_budget)
        moments = fisher.class_moments(design, labels, spec.n_classes, weights, mass)
        given = not self.tune and not isinstance(self.reg, str)
        reg = float(self.reg) if given else 1.0 / spec.C * fisher.penalty_scale(moments, codes, basis_mass)
        solution = fisher.minimise(
            design, labels, codes, reg=reg, weights=weights, bias=self.bias, priors=self._priors(data, weights),
            basis_mass=basis_mass, mass=mass, moments=moments,
        )  # fmt: skip
        fit.attributes["reg_"] = reg
        run.note("weights", n_basis=basis.n_basis, objective=float(np.sum(solution.objective)), n_iter=1)
        return Machine(spec, basis, solution, basis.n_kernel_evals + design.n_kernel_evals)

    def _solve(self, fit: Fit, data: Data, machine: Machine) -> Machine:
        """Nothing is left to do: the moments were those of all rows, or the basis is the rows of the sample."""
        return machine

    def _basis(self, data: Data, spec: Spec, weights: Array | None, run: Run) -> tuple[Basis, Array | None]:
        """Basis vectors, and the weight of the rows that each stands for (eq. 5), where they stand for all rows."""
        raise NotImplementedError

    def _priors(self, data: Data, weights: Array | None) -> Array | None:
        given: Any = self.priors
        if given is None:
            return None
        if isinstance(given, str):
            if given != "empirical":
                raise ValueError(f"priors must be None (equal), 'empirical' or one number per class; got {given!r}.")
            mass = data.mass_of
            if mass is None or not data.rows.streamed:
                assert data.labels is not None
                mass = np.bincount(data.labels, weights=weights, minlength=data.n_classes)
            return np.asarray(mass / mass.sum())
        priors = np.asarray(given, dtype=np.float64)
        if priors.shape != (data.n_classes,) or not np.all(priors > 0) or not np.all(np.isfinite(priors)):
            raise ValueError(
                f"priors must hold {data.n_classes} positive numbers, in the order of the sorted labels; got {given!r}."
            )
        return np.asarray(priors / priors.sum())


@estimator
class KernelFisher(_Fisher):
    """Kernel Fisher discriminant on all training rows.

    Minimises ``a' N a + reg a'a`` subject to a distance of 2 between the projected class means, where N is the sum of
    the classes' covariances of kernel values.  Every row is a basis vector (equal rows share one, whose penalty is that
    of all of them), so time grows with n^3 and memory with n^2: `ProjectedKernelFisher` is the compact version.

    Parameters
    ----------
    reg
        A row of weight s counts as s equal rows here too.

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    classes_ : ndarray of shape (n_classes,)
    reg_, gamma_ : float
        Values in force, tuned or given.
    cv_error_ : float
        With tune=True, the cross-validated share of wrong labels.
    cv_results_ : dict of arrays
        With tune=True, one entry per evaluated pair: param_gamma, param_reg_factor (reg divided by the mean diagonal
        entry of N), mean_test_error, std_test_error, ...
    n_basis_, basis_indices_, objective_, jitter_, n_kernel_evals_, kernel_, model_

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import KernelFisher
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> KernelFisher(gamma=2.0, reg=0.01).fit(X, y).score(X, y) > 0.95
    True
    """

    def _basis(self, data: Data, spec: Spec, weights: Array | None, run: Run) -> tuple[Basis, Array | None]:
        _, first, place = np.unique(data.rows.hashes(0), return_index=True, return_inverse=True)
        order = np.argsort(first)
        mass = np.bincount(place, weights=weights)[order].astype(np.float64)
        distinct = first[order]
        return Basis(distinct, spec.kernel.take_basis(data.rows, distinct)), mass


@estimator
class ProjectedKernelFisher(SelectionParameters, ProjectionParameters, SizeParameters, _Fisher):
    """Kernel Fisher discriminant on few vectors that span the training rows.

    Only an m by m problem is solved, whose matrices are summed over row blocks.

    Parameters
    ----------
    selection
        "gram" looks at the labels; "projection" is that of `GreedyProjection` and the paper, with the options
        `max_error`, `pivot` and `first`.

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
    basis_indices_ : ndarray of shape (n_basis_,) or None
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    classes_ : ndarray of shape (n_classes,)
    reg_, gamma_ : float
        Values in force, tuned or given.
    cv_error_ : float
        With tune=True, the cross-validated share of wrong labels.
    cv_results_ : dict of arrays
        With tune=True, one entry per evaluated pair: param_gamma, param_reg_factor (reg divided by the mean diagonal
        entry of N), mean_test_error, std_test_error, ...
    n_basis_, objective_, jitter_, n_kernel_evals_, kernel_, model_

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import ProjectedKernelFisher
    >>> X, y = make_moons(400, noise=0.1, random_state=0)
    >>> machine = ProjectedKernelFisher(n_basis=20, gamma=2.0, reg=0.01, random_state=0).fit(X, y)
    >>> machine.n_basis_, machine.score(X, y) > 0.95
    (20, True)
    """

    n_basis: Any = parameter(default=200, kw_only=False)
    selection: Any = "gram"

    def _basis(self, data: Data, spec: Spec, weights: Array | None, run: Run) -> tuple[Basis, Array | None]:
        selector = projection_selector(self.selection, self.max_error, self.pivot, self.first, self.memory_budget)
        spec = replace(spec, C=_DEFAULT_C)  # one basis for all penalties
        return run.step("selection", lambda: selector.select(data, spec, int(self.n_basis), run), Basis), None
