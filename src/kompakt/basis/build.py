"""A model for given parameters: choose the basis, solve for the weights, refine, check on held-out rows.

Refinement descends on a non-convex objective with many parameters, so it is never trusted blindly: a part of the rows
is held out, and the start is kept where the refined machine is worse there, or has the higher training objective.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from kompakt.basis.random import RandomSelector
from kompakt.basis.refine import Refined, refine
from kompakt.data import ArrayRows, Rows
from kompakt.design import Design
from kompakt.kernels import RBF, Kernel
from kompakt.run import Run
from kompakt.solve import Problem, Settings, Solution, solve
from kompakt.spec import Basis, Data, Selector, Spec
from kompakt.validation import holdout

Array = np.ndarray
logger = logging.getLogger("kompakt")

#: fewer rows than this are too few to hold some out
_LEAST_ROWS_TO_HOLD_OUT = 100


@dataclass(frozen=True)
class Plan:
    """How a model is built: who chooses its basis, whether it is refined, and when solvers stop."""

    selector: Selector | None = None
    refine: bool = True
    learn: str | None = None  # None, "one" or "each": which widths move
    refine_iter: int = 100
    validation_fraction: float = 0.1
    tol: float = 1e-8
    max_iter: int = 200

    def settings(self, run: Run) -> Settings:
        """When a solve of this fit stops."""
        return Settings(self.tol, self.max_iter, run)


@dataclass(frozen=True)
class Machine:
    """A basis with its kernel and weights, before it becomes a model."""

    spec: Spec
    basis: Basis
    solution: Solution
    n_kernel_evals: int
    unseen: tuple[Array, Array] | None = None  # rows and their outputs under a machine that never saw them
    interrupted: bool = False  # Ctrl-C ended the refinement


def build(data: Data, spec: Spec, n_basis: int, plan: Plan, run: Run) -> Machine:
    """Choose `n_basis` vectors, solve for their weights, and refine if the plan says so."""
    machine = weigh(data, spec, choose(data, spec, n_basis, plan, run), plan, run)
    return refined(data, machine, plan, run) if plan.refine and machine.basis.n_basis else machine


def choose(data: Data, spec: Spec, n_basis: int, plan: Plan, run: Run, start: Array | None = None) -> Basis:
    """Basis vectors to begin with: those that the selector finds, or those of `start` and random rows."""
    if start is not None:
        return Basis(None, _extended(data, spec, start, n_basis, run))
    assert plan.selector is not None
    basis: Basis = run.step("selection", partial(plan.selector.select, data, spec, n_basis, run), Basis)
    if plan.refine and 0 < basis.n_basis < n_basis:
        # wide kernels make candidates look alike; refinement moves them apart, so more of them are worth having
        basis = Basis(None, _extended(data, spec, basis.vectors, n_basis, run), info=basis.info)
    return basis


def weigh(data: Data, spec: Spec, basis: Basis, plan: Plan, run: Run) -> Machine:
    """The basis with its weights."""
    rounds = basis.info.get("rounds")
    last = {} if not rounds else {"rounds": len(rounds), "objective": rounds[-1]["objective"]}
    run.note("selection", n_basis=basis.n_basis, **last)
    # max_time bounds the search for a basis; weights that stop half-way would make any basis useless
    solution, evaluations = solved(
        data.rows, spec, basis.vectors, plan.settings(run.unhurried() if plan.refine else run)
    )
    run.note("weights", n_basis=basis.n_basis, objective=_total(solution), n_iter=solution.n_iter)
    return Machine(spec, basis, solution, basis.n_kernel_evals + evaluations)


def solved(
    rows: Rows, spec: Spec, vectors: Array, settings: Settings, start: Solution | None = None
) -> tuple[Solution, int]:
    """The weights of the vectors on these rows, and the kernel evaluations they took."""
    design = Design(rows, spec.kernel, vectors, whiten=True, memory_budget=settings.run.memory_budget)
    theta = None
    if start is not None:
        theta = np.concatenate([design.to_coordinates(start.weights), start.intercept[None]])
    return solve(Problem.of(design, spec), theta, settings), design.n_kernel_evals


def _extended(data: Data, spec: Spec, start: Array, n_basis: int, run: Run) -> Array:
    """`n_basis` vectors that begin with those of `start`; random rows come after them."""
    if len(start) >= n_basis:
        return start[:n_basis]
    more = RandomSelector().select(data, spec, n_basis, run).vectors.astype(start.dtype)
    known = {vector.tobytes() for vector in start}
    fresh = [vector for vector in more if vector.tobytes() not in known][: n_basis - len(start)]
    return np.concatenate([start, *(vector[None] for vector in fresh)])


def refined(data: Data, plain: Machine, plan: Plan, run: Run) -> Machine:
    """The machine with moved vectors, or the plain one where that did not pay on held-out rows or on the objective."""
    rows, spec = data.in_memory, plain.spec
    train, held = hold_out(data, plan, run)
    part = light(rows if train is None else rows.subset(train), spec, run)
    kernel = with_widths(spec.kernel, plan.learn, rows.n_features)
    result = refine(
        part,
        replace(spec, kernel=kernel),
        plain.basis.vectors,
        run,
        learn_width=plan.learn is not None,
        max_iter=plan.refine_iter,
    )
    evaluations = plain.n_kernel_evals + result.n_kernel_evals
    facts: dict[str, Any] = {"objective_before": result.objective_before, "objective": result.objective}
    facts |= {"n_iter": result.n_iter, "n_evaluations": result.n_evaluations}
    moved = Machine(
        replace(spec, kernel=result.kernel), Basis(None, result.basis.astype(rows.dtype)), plain.solution, evaluations
    )
    if result.interrupted is not None:
        return _as_it_stands(moved, result, result.interrupted, run, facts)
    try:
        unseen = None
        if train is not None and held is not None:
            seen, other = data.subset(train), data.subset(held)
            before = held_out(seen, other, plain.spec, plain.basis.vectors, plan, run)
            after = held_out(seen, other, moved.spec, moved.basis.vectors, plan, run)
            facts |= {"validation_before": before.error, "validation": after.error}
            unseen = (held, after.outputs)
            if after.rank > before.rank:
                logger.info(
                    "refinement raised the held-out error from %s to %s: the start is kept.", before.rank, after.rank
                )
                run.note("refinement", kept=False, **facts)
                return replace(plain, n_kernel_evals=evaluations)
        solution, spent = solved(rows, moved.spec, moved.basis.vectors, plan.settings(run.unhurried()))
    except KeyboardInterrupt:
        if result.weights is None or not run.keeps_on_interrupt():
            raise
        return _as_it_stands(moved, result, result.weights, run, facts)
    evaluations += spent
    kept = _total(solution) <= _total(plain.solution)
    run.note("refinement", kept=kept, **facts)
    if not kept:
        logger.info("refinement did not lower the training objective: the start is kept.")
        return replace(plain, n_kernel_evals=evaluations)
    run.note("weights", n_basis=moved.basis.n_basis, objective=_total(solution), n_iter=solution.n_iter)
    return replace(moved, solution=solution, n_kernel_evals=evaluations, unseen=unseen)


def _as_it_stands(
    moved: Machine, result: Refined, found: tuple[Array, Array], run: Run, facts: dict[str, Any]
) -> Machine:
    """The machine of an interrupted descent, at once: with its own weights, and not checked on held-out rows."""
    run.note("refinement", kept=True, interrupted=True, **facts)
    solution = replace(
        moved.solution,
        weights=found[0],
        intercept=found[1],
        objective=np.array([result.objective]),
        converged=False,
    )
    return replace(moved, solution=solution, interrupted=True)


def on_all_rows(data: Data, machine: Machine, plan: Plan, run: Run) -> Machine:
    """A machine found on a sample, its weights solved exactly on all rows by passes over them."""
    settings = plan.settings(run.unhurried())
    solution, spent = solved(data.rows, machine.spec, machine.basis.vectors, settings, machine.solution)
    facts = {"n_basis": machine.basis.n_basis, "objective": _total(solution), "n_iter": solution.n_iter}
    run.note("weights on all rows", n_rows=data.rows.n_rows, **facts)
    return replace(machine, solution=solution, n_kernel_evals=machine.n_kernel_evals + spent)


@dataclass(frozen=True)
class HeldOut:
    """How a machine that never saw some rows does on them."""

    row_errors: Array  # (n,) 0/1 for classes, the mean loss over outputs for regression
    row_weights: Array  # (n,)
    mean_loss: float
    outputs: Array  # (n, L)

    @property
    def error(self) -> float:
        """Weighted mean of the rows' errors."""
        return float(np.average(self.row_errors, weights=self.row_weights))

    @property
    def standard_error(self) -> float:
        """Standard error of that mean."""
        deviation = np.sqrt(np.average((self.row_errors - self.error) ** 2, weights=self.row_weights))
        return float(deviation / np.sqrt(len(self.row_errors)))

    @property
    def rank(self) -> tuple[float, float]:
        """What to compare machines by: the error, then the loss."""
        return self.error, self.mean_loss


def held_out(part: Data, other: Data, spec: Spec, basis: Array, plan: Plan, run: Run) -> HeldOut:
    """The machine with this basis, its weights solved on `part`, on the rows of `other`."""
    solution, _ = solved(part.rows, spec, basis, replace(plan.settings(run.unhurried()), tol=1e-6))
    outputs = Design(other.rows, spec.kernel, basis, store=False).matvec(solution.weights) + solution.intercept
    targets, weights = other.rows.targets, other.rows.weights
    assert targets is not None
    losses = spec.loss.value(targets, outputs)
    taking_part = (targets != 0) if other.classifier else np.ones(targets.shape)
    losses = np.sum(taking_part * losses, axis=1) / np.maximum(1, np.sum(taking_part, axis=1))
    if weights is None:
        weights = np.ones(other.rows.n_rows)
    elif weights.ndim > 1:
        weights = weights.max(axis=1)
    errors = losses
    if other.classifier:
        errors = (spec.decode(outputs) != spec.decode(targets)).astype(np.float64)
    return HeldOut(errors, weights, float(np.average(losses, weights=weights)), outputs)


def unseen_outputs(data: Data, machine: Machine, plan: Plan, run: Run) -> tuple[Array, Array]:
    """Rows and their outputs under a machine whose weights never saw them: what calibration needs."""
    if machine.unseen is not None:
        return machine.unseen
    train, other = hold_out(data, plan, run)
    if train is None or other is None:
        raise ValueError(
            f"calibrate=True holds out rows, which needs at least {_LEAST_ROWS_TO_HOLD_OUT} rows, two of every class "
            f"and validation_fraction > 0; got {data.rows.n_rows} rows. Use CalibratedClassifierCV instead."
        )
    result = held_out(data.subset(train), data.subset(other), machine.spec, machine.basis.vectors, plan, run)
    return other, result.outputs


def with_widths(kernel: Kernel, learn: str | None, n_features: int) -> Kernel:
    """The kernel with one width per feature where each is to be learned."""
    if learn == "each" and isinstance(kernel, RBF) and np.ndim(kernel.gamma) == 0:
        return RBF(np.full(n_features, kernel.gamma))
    return kernel


def light(rows: ArrayRows, spec: Spec, run: Run) -> ArrayRows:
    """The rows as dense float32 for the descent, where that fits: twice as fast, and its last digits do not matter."""
    if not rows.is_sparse and rows.dtype == np.float32:
        return rows
    if 4 * rows.n_rows * rows.n_features > run.budget:
        return rows
    X = rows.X if rows.offset is None else rows.X - rows.offset
    largest = float(np.max(np.abs(X.data if rows.is_sparse else X), initial=0.0))
    if not 1e-12 < largest < 1e12:  # squares and widths must stay inside the range of float32
        return rows
    weight = 1.0 if rows.weights is None else float(np.max(rows.weights))
    target = 1.0 if rows.targets is None else float(np.max(np.abs(rows.targets), initial=1.0))
    if not spec.C * weight * target**2 < 1e30:  # and so must the objective
        return rows
    return ArrayRows((X.toarray() if rows.is_sparse else X).astype(np.float32), rows.targets, rows.weights)


def hold_out(data: Data, plan: Plan, run: Run) -> tuple[Array | None, Array | None]:
    """Rows to train on and rows to hold out; None, None where there are too few rows to spare some."""
    n_rows, labels = data.rows.n_rows, data.labels
    if plan.validation_fraction <= 0 or n_rows < _LEAST_ROWS_TO_HOLD_OUT:
        return None, None
    fraction = min(plan.validation_fraction, 5000 / n_rows)
    if labels is not None and np.min(np.bincount(labels)) < 2:
        return None, None
    target = np.zeros(n_rows) if labels is None else labels
    return holdout(target, fraction, classifier=labels is not None, random_state=run.key % 2**31)


def _total(solution: Solution) -> float:
    return float(np.sum(solution.objective))
