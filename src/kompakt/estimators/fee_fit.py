"""Fitting by fast error estimation (seed 000): choosing a size, growing to it, freezing the machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from kompakt.design import Design
from kompakt.estimators.base import (
    KernelMachine,
    deadline_of,
    solver_settings,
)
from kompakt.estimators.prepare import Training, prepare, splits_of
from kompakt.estimators.refining import Chosen, check_movable, moved_vectors
from kompakt.estimators.samples import held_rows, solve_on_all_rows
from kompakt.estimators.watch import warn_interrupted, watched
from kompakt.grow.candidates import Candidates
from kompakt.grow.fee import FeePlan, Growth, Observer, Record, grow
from kompakt.grow.kernel_values import KernelColumns, RowValues, class_means, column_source
from kompakt.grow.semiparametric import SOLVERS, SemiparametricMachine
from kompakt.kernels import RBF
from kompakt.losses import make_loss
from kompakt.rows import hash_rows
from kompakt.solve import Problem, Solution, solve
from kompakt.threads import block_threads
from kompakt.tune.fee import C_EXPONENTS, SIGMA_EXPONENTS, FeeProblem, search_fee
from kompakt.tune.fee_points import RULES
from kompakt.validate import holdout

Array = np.ndarray


@dataclass(frozen=True)
class _Grown:
    """A grown machine with what is needed to freeze it."""

    growth: Growth
    machine: SemiparametricMachine
    vectors: Array  # first vectors, all of them
    train: Array
    columns: KernelColumns


class FeeMachine(KernelMachine):
    """What classifier and regressor share: choosing a size, growing to it, freezing the machine."""

    _classifier: bool

    @watched
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Grow the machine.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or rows from `kompakt.open_rows`
        y : array-like of shape (n_samples,), for a regressor also (n_samples, n_outputs)
            None for rows from `kompakt.open_rows`, which bring their targets and weights.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 equals the row given twice; weight 0 leaves it out.

        Returns
        -------
        self
        """
        deadline = deadline_of(self.max_time)
        with block_threads(self.n_jobs):
            training = held_rows(self, prepare(self, X, y, sample_weight, classifier=self._classifier))
            check_movable(self, training.kernel)
            problem = self._problem(training, deadline)
            training, problem, C = self._tuned(training, problem)
            grown, history = self._grow(training, problem, C)
            self._freeze(training, problem, C, grown, deadline)
        self.C_ = C
        self.history_ = history
        return self

    # -- names into parts ----------------------------------------------------------------------------

    def _problem(self, training: Training, deadline: float | None) -> FeeProblem:
        self._check()
        loss = make_loss(self.loss, classes=self._classifier, epsilon=self.epsilon)
        n_classes = 1 if training.classes is None else len(training.classes)
        plan = FeePlan(
            n_basis=int(self.n_basis),
            selection=self.selection,
            n_candidates=int(self.n_candidates),
            patience=int(self.patience),
            max_iter=int(self.growth_iter),
            deadline=deadline,
        )
        return FeeProblem(
            rows=training.rows,
            splits=self._splits(training),
            hashes=hash_rows(training.rows.X, training.key),
            key=training.key,
            plan=plan,
            loss=loss,
            labels=training.labels,
            n_classes=n_classes,
            coding=getattr(self, "coding", "one_vs_rest"),
            options={
                "solver": self.solver,
                "fit_intercept": bool(self.fit_intercept),
                "penalize_intercept": bool(self.penalize_intercept),
                "memory_budget": self.memory_budget,
            },
        )

    def _check(self) -> None:
        for name in ("patience", "growth_iter"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")
        if self.tune_rule not in RULES:
            raise ValueError(f"tune_rule must be one of {RULES}; got {self.tune_rule!r}.")
        if self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {SOLVERS}; got {self.solver!r}.")
        if not isinstance(self.n_basis, Integral):
            raise ValueError(
                f"n_basis is the largest size, a whole number of at least 1; got {self.n_basis!r}. "
                "The size itself is chosen by validation (cv or validation_fraction)."
            )

    def _splits(self, training: Training) -> list[tuple[Array, Array]]:
        """Folds, one held-out part, or none."""
        target = training.y if training.labels is None else training.labels
        assert target is not None
        known: dict[str, Any] = {"classifier": self._classifier, "random_state": training.key}
        if self.cv is not None or self.tune:
            cv = 5 if self.cv is None else self.cv
            return splits_of(training, cv, **known)
        if self.validation_fraction is None:
            return []
        return [holdout(target, float(self.validation_fraction), **known)]

    # -- hyperparameters and growth ------------------------------------------------------------------

    def _tuned(self, training: Training, problem: FeeProblem) -> tuple[Training, FeeProblem, float]:
        """Sigma, C and the size by the paper's protocol, where the constructor asks for it."""
        if not self.tune:
            return training, problem, float(self.C)
        if not isinstance(training.kernel, RBF):
            raise ValueError(f"tune=True searches the width of a Gaussian kernel; got kernel={self.kernel!r}.")
        sigmas = SIGMA_EXPONENTS if self.sigma_exponents is None else self.sigma_exponents
        costs = C_EXPONENTS if self.C_exponents is None else self.C_exponents
        found = search_fee(problem, sigmas, costs, rule=self.tune_rule, n_jobs=self.n_jobs)
        self.search_ = found
        self.fold_errors_, self.fold_sizes_ = found.best.errors, found.best.sizes
        plan = replace(problem.plan, n_basis=found.best.size, patience=None)
        kernel = RBF(found.best.gamma)
        return replace(training, kernel=kernel), replace(problem, splits=[], plan=plan), found.best.C

    def _grow(
        self, training: Training, problem: FeeProblem, C: float, observe: Observer | None = None
    ) -> tuple[_Grown, list[Record]]:
        """The machine to be frozen, and the records of all growths; `observe` sees the steps of its growth."""
        columns = column_source(training.rows, training.kernel)
        everything, none = np.arange(training.rows.n_rows), np.empty(0, dtype=np.intp)
        history: list[Record] = []
        if self.cv is None and problem.splits:  # one held-out part: the machine at its best step
            problem = replace(problem, plan=replace(problem.plan, interruptible=True))
            grown = _grow_on(training, problem, columns, *problem.splits[0], C, observe)
            return grown, grown.growth.records
        plan = replace(problem.plan, patience=None)
        if problem.splits:
            runs = [_grow_on(training, problem, columns, *split, C).growth for split in problem.splits]
            for number, run in enumerate(runs):
                history += [{"fold": number, **record} for record in run.records]
            self.fold_sizes_ = np.array([run.size for run in runs])
            self.fold_errors_ = np.array([run.error for run in runs])
            plan = replace(plan, n_basis=max(1, round(float(self.fold_sizes_.mean()))))
        problem = replace(problem, plan=replace(plan, interruptible=True))
        grown = _grow_on(training, problem, columns, everything, none, C, observe)
        return grown, history + grown.growth.records

    def _freeze(self, training: Training, problem: FeeProblem, C: float, grown: _Grown, deadline: float | None) -> None:
        """Solve for the weights on the chosen basis to the end, and publish the machine."""
        machine, growth = grown.machine, grown.growth
        rows, kernel = training.rows, training.kernel
        first, size = machine.first, growth.size
        n_vectors = min(machine.n_vectors, size)
        selected = grown.train[np.array(machine.indices[: size - n_vectors], dtype=np.intp)]
        own = grown.vectors[machine.used_vectors[:n_vectors]]
        basis = np.concatenate([own, kernel.take_basis(rows, selected).astype(own.dtype)]) if len(selected) else own
        if growth.interrupted:
            solution = _as_it_stands(machine, growth)
            self._publish(self._build_model(training, basis, solution), solution, training, None)
            self.interrupted_ = True
            self.selected_indices_ = training.original(selected)
            self.n_kernel_evals_ = grown.columns.n_evals
            warn_interrupted(self, f"the best machine so far, with {size} basis vectors, is kept", stacklevel=5)
            return
        part = rows if self.refit or len(grown.train) == rows.n_rows else rows.subset(grown.train)
        design = Design(part, kernel, basis, whiten=True, memory_budget=self.memory_budget)
        start = np.zeros((size + 1, machine.n_outputs))
        start[:-1] = growth.coordinates[:, first:].T
        if first:
            start[-1] = growth.coordinates[:, 0]
        objective = Problem(design, problem.loss, C, bool(self.fit_intercept), bool(self.penalize_intercept))
        solution = solve(objective, start, solver_settings(self, deadline))
        labels = training.labels if part is rows or training.labels is None else training.labels[grown.train]
        words = {"fit_intercept": bool(self.fit_intercept), "penalize_intercept": bool(self.penalize_intercept)}
        seen = replace(training, rows=part, labels=labels)
        moved = moved_vectors(self, Chosen(seen, kernel, basis, problem.loss, C, **words), deadline)
        if moved is not None and moved.kept:
            basis, solution, kernel = moved.machine.basis, moved.machine.solution, moved.machine.kernel
            training = replace(training, kernel=kernel)
        if not training.whole and training.origin is not None:
            settings = solver_settings(self, deadline)
            solution = solve_on_all_rows(training.origin, kernel, basis, problem.loss, C, solution, settings, **words)
        self._publish(self._build_model(training, basis, solution), solution, training, None)
        self.selected_indices_ = training.original(selected)
        self.n_kernel_evals_ = grown.columns.n_evals + design.n_kernel_evals
        if moved is not None:
            moved.publish(self)
        if not self.interrupted_:
            self._report(solution, deadline)


def _as_it_stands(machine: SemiparametricMachine, growth: Growth) -> Solution:
    """The best machine of an interrupted growth, at once: with the weights of the growth, not solved to the end."""
    first, size = machine.first, growth.size
    w = growth.coordinates[:, first:].T
    intercept = growth.coordinates[:, 0] if first else np.zeros(machine.n_outputs)
    return Solution(
        weights=solve_triangular(machine.R[:size, :size], w, check_finite=False) if size else w,
        intercept=intercept,
        coordinates=np.concatenate([w, intercept[None]]),
        objective=np.full(machine.n_outputs, np.nan),
        n_iter=max(1, machine.work.n_iter),
        converged=False,
        optimality=np.full(machine.n_outputs, np.nan),
        jitter=0.0,
    )


def _grow_on(
    training: Training,
    problem: FeeProblem,
    columns: KernelColumns,
    train: Array,
    held: Array,
    C: float,
    observe: Observer | None = None,
) -> _Grown:
    vectors = class_means(training.rows, training.kernel, training.labels, train)
    values = RowValues(columns, train, held, vectors)
    candidates = Candidates.of(problem.hashes, train, problem.key)
    capacity = min(problem.plan.n_basis, int(np.sum(candidates.place >= 0)) + len(vectors))
    machine = problem.machine(values, train, len(held), C, capacity)
    plan = replace(problem.plan, n_basis=capacity)
    growth = grow(machine, candidates, plan, problem.judge(held if len(held) else train), observe)
    return _Grown(growth, machine, vectors, train, columns)
