"""The flagship's recipe: select in Gram space, refine, check on held-out rows, solve exactly.

Refinement descends on a non-convex objective with many parameters, so it is never trusted blindly: a part of the rows
is held out, and the start is kept where the refined machine is worse there, or has the higher training objective.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kompakt.basis import RandomSelector, Selection
from kompakt.basis.refine import Refined, refine
from kompakt.checkpoint import step
from kompakt.codings import get_coding
from kompakt.data import ArrayRows
from kompakt.design import Design
from kompakt.kernels import RBF, Kernel
from kompakt.losses import Loss
from kompakt.run import keeps_on_interrupt
from kompakt.solve import Problem, Settings, Solution, solve
from kompakt.validation import holdout

Array = np.ndarray
logger = logging.getLogger("kompakt")

#: fewer rows than this are too few to hold some out
_LEAST_ROWS_TO_HOLD_OUT = 100


@dataclass(frozen=True)
class Recipe:
    """Everything that is decided before a machine is grown."""

    loss: Loss
    C: float
    selector: Any
    classifier: bool
    key: int
    fit_intercept: bool = True
    penalize_intercept: bool = False
    refine: bool = True
    learn: str | None = None  # None, "one" or "each": which widths move
    refine_iter: int = 100
    validation_fraction: float = 0.1
    settings: Settings = field(default_factory=Settings)
    memory_budget: int | None = None
    coding: str = "one_vs_rest"
    n_classes: int = 2
    interruptible: bool = False  # whether Ctrl-C during refinement keeps the best machine so far

    @property
    def unhurried(self) -> Settings:
        """The solver's settings without the deadline."""
        return replace(self.settings, deadline=None)

    def decode(self, outputs: Array) -> Array:
        """Class indices of outputs, or of targets."""
        return get_coding(self.coding).decode(outputs, self.n_classes)

    def problem(self, design: Design) -> Problem:
        """The problem of the weights on a design."""
        return Problem(design, self.loss, self.C, self.fit_intercept, self.penalize_intercept)


@dataclass(frozen=True)
class Machine:
    """A grown machine, before it becomes a model."""

    kernel: Kernel
    basis: Array
    indices: Array | None
    solution: Solution
    design: Design
    history: list[dict[str, Any]]
    n_kernel_evals: int
    unseen: tuple[Array, Array] | None = None  # rows and their outputs under a machine that never saw them
    interrupted: bool = False  # Ctrl-C ended the refinement

    @property
    def n_basis(self) -> int:
        """Number of basis vectors."""
        return len(self.basis)


def grow(
    rows: ArrayRows,
    kernel: Kernel,
    n_basis: int,
    recipe: Recipe,
    labels: Array | None,
    start: Array | None = None,
) -> Machine:
    """Grow a machine with `n_basis` vectors on all rows, from `start` vectors if they are given."""
    began = time.monotonic()
    if start is None:
        selection = select(rows, kernel, n_basis, recipe, labels)
    else:
        selection = Selection(None, extended(rows, kernel, start, n_basis, recipe))
    return finish(rows, kernel, selection, recipe, labels, began)


def extended(rows: ArrayRows, kernel: Kernel, start: Array, n_basis: int, recipe: Recipe) -> Array:
    """`n_basis` vectors that begin with those of `start`."""
    if len(start) >= n_basis:
        return start[:n_basis]
    more = RandomSelector().select(rows, kernel, n_basis, key=recipe.key).vectors.astype(start.dtype)
    known = {vector.tobytes() for vector in start}
    fresh = [vector for vector in more if vector.tobytes() not in known][: n_basis - len(start)]
    return np.concatenate([start, *(vector[None] for vector in fresh)])


def select(rows: ArrayRows, kernel: Kernel, n_basis: int, recipe: Recipe, labels: Array | None = None) -> Selection:
    """Basis vectors to start from; selectors that use the targets are told loss and C, others the labels."""
    told: dict[str, Any] = {"labels": labels} if getattr(recipe.selector, "uses_labels", False) else {}
    if getattr(recipe.selector, "uses_targets", False):
        told |= {
            "loss": recipe.loss,
            "C": recipe.C,
            "fit_intercept": recipe.fit_intercept,
            "penalize_intercept": recipe.penalize_intercept,
        }
    selection = step(
        "selection", lambda: recipe.selector.select(rows, kernel, n_basis, key=recipe.key, **told), Selection
    )
    if recipe.refine and 0 < selection.n_basis < n_basis:
        # wide kernels make candidates look alike; refinement moves them apart, so more of them are worth having
        vectors = extended(rows, kernel, selection.vectors, n_basis, recipe)
        selection = Selection(None, vectors, info=selection.info)
    return selection


def finish(
    rows: ArrayRows, kernel: Kernel, selection: Selection, recipe: Recipe, labels: Array | None, began: float
) -> Machine:
    """Refine a selection if the recipe says so, and solve for the weights on all rows."""
    evaluations = int(selection.info.get("n_kernel_evals", 0))
    history = [_record("selection", began, n_basis=selection.n_basis, **_last_round(selection))]
    design = _design(rows, kernel, selection.vectors, recipe)
    # max_time bounds the search for a basis; weights that stop half-way would make any basis useless
    start = solve(recipe.problem(design), None, recipe.unhurried if recipe.refine else recipe.settings)
    evaluations += design.n_kernel_evals
    history.append(_record("weights", began, n_basis=selection.n_basis, objective=_total(start), n_iter=start.n_iter))
    plain = Machine(kernel, selection.vectors, selection.indices, start, design, history, evaluations)
    if not recipe.refine or selection.n_basis == 0:
        return plain
    return _refined(rows, plain, recipe, labels, began)


def _refined(rows: ArrayRows, plain: Machine, recipe: Recipe, labels: Array | None, began: float) -> Machine:
    """The refined machine, or the plain one where refinement did not pay on held-out rows or on the objective."""
    kernel = widened(plain.kernel, recipe.learn, rows.n_features)
    train, held = hold_out(rows, recipe, labels)
    compact = light(rows if train is None else rows.subset(train), recipe.memory_budget, recipe.C)
    result = refine(
        compact,
        recipe.problem(plain.design),
        kernel,
        plain.basis,
        learn_width=recipe.learn is not None,
        max_iter=recipe.refine_iter,
        memory_budget=recipe.memory_budget,
        deadline=recipe.settings.deadline,
        interruptible=recipe.interruptible,
    )
    if result.interrupted is not None:
        return _as_it_stands(plain, result, result.interrupted, rows.dtype, began)
    try:
        return _checked(rows, plain, result, (train, held), recipe, began)
    except KeyboardInterrupt:
        if not recipe.interruptible or result.weights is None or not keeps_on_interrupt():
            raise
        return _as_it_stands(plain, result, result.weights, rows.dtype, began)


def _checked(
    rows: ArrayRows,
    plain: Machine,
    result: Refined,
    parts: tuple[Array | None, Array | None],
    recipe: Recipe,
    began: float,
) -> Machine:
    """The refined machine, solved on all rows, if it is better on the held-out ones and on the objective."""
    train, held = parts
    basis = result.basis.astype(rows.dtype)
    evaluations = plain.n_kernel_evals + result.n_kernel_evals
    note: dict[str, Any] = {"objective_before": result.objective_before, "objective": result.objective}
    note |= {"n_iter": result.n_iter, "n_evaluations": result.n_evaluations}
    unseen = None
    if train is not None and held is not None:
        part, other = rows.subset(train), rows.subset(held)
        before = held_out(part, other, plain.kernel, plain.basis, recipe)
        after = held_out(part, other, result.kernel, basis, recipe)
        note |= {"validation_before": before.error, "validation": after.error}
        unseen = (held, after.outputs)
        if after.rank > before.rank:
            logger.info(
                "refinement raised the held-out error from %s to %s: the start is kept.", before.rank, after.rank
            )
            history = plain.history + [_record("refinement", began, kept=False, **note)]
            return replace(plain, history=history, n_kernel_evals=evaluations)
    design = _design(rows, result.kernel, basis, recipe)
    solution = solve(recipe.problem(design), None, recipe.unhurried)
    evaluations += design.n_kernel_evals
    kept = _total(solution) <= _total(plain.solution)
    history = plain.history + [_record("refinement", began, kept=kept, **note)]
    if not kept:
        logger.info("refinement did not lower the training objective: the start is kept.")
        return replace(plain, history=history, n_kernel_evals=evaluations)
    history.append(_record("weights", began, n_basis=len(basis), objective=_total(solution), n_iter=solution.n_iter))
    return Machine(result.kernel, basis, None, solution, design, history, evaluations, unseen)


def _as_it_stands(plain: Machine, result: Refined, found: tuple[Array, Array], dtype: Any, began: float) -> Machine:
    """The machine of an interrupted descent, at once: with its own weights, and not checked on held-out rows."""
    weights, intercept = found
    facts = {"objective_before": result.objective_before, "objective": result.objective, "n_iter": result.n_iter}
    solution = replace(
        plain.solution,
        weights=weights,
        intercept=intercept,
        objective=np.array([result.objective]),
        converged=False,
    )
    return replace(
        plain,
        kernel=result.kernel,
        basis=result.basis.astype(dtype),
        indices=None,
        solution=solution,
        history=plain.history + [_record("refinement", began, kept=True, interrupted=True, **facts)],
        n_kernel_evals=plain.n_kernel_evals + result.n_kernel_evals,
        interrupted=True,
    )


def on_all_rows(rows: ArrayRows, machine: Machine, recipe: Recipe) -> Machine:
    """A machine found on a sample, its weights solved exactly on all rows by passes over them."""
    began = time.monotonic()
    design = _design(rows, machine.kernel, machine.basis, recipe)
    solution = solve(recipe.problem(design), machine.solution.coordinates, recipe.unhurried)
    facts = {"n_basis": machine.n_basis, "objective": _total(solution), "n_iter": solution.n_iter}
    history = machine.history + [_record("weights on all rows", began, n_rows=rows.n_rows, **facts)]
    evaluations = machine.n_kernel_evals + design.n_kernel_evals
    return replace(machine, solution=solution, design=design, history=history, n_kernel_evals=evaluations)


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


def held_out(part: ArrayRows, other: ArrayRows, kernel: Kernel, basis: Array, recipe: Recipe) -> HeldOut:
    """The machine with this basis, its weights solved on `part`, on the rows of `other`."""
    design = _design(part, kernel, basis, recipe)
    solution = solve(recipe.problem(design), None, replace(recipe.unhurried, tol=1e-6))
    outputs = Design(other, kernel, basis, store=False).matvec(solution.weights) + solution.intercept
    targets = other.targets
    assert targets is not None
    losses = recipe.loss.value(targets, outputs)
    taking_part = (targets != 0) if recipe.classifier else np.ones(targets.shape)
    losses = np.sum(taking_part * losses, axis=1) / np.maximum(1, np.sum(taking_part, axis=1))
    if other.weights is None:
        weights = np.ones(other.n_rows)
    else:
        weights = other.weights if other.weights.ndim == 1 else other.weights.max(axis=1)
    errors = losses
    if recipe.classifier:
        errors = (recipe.decode(outputs) != recipe.decode(targets)).astype(np.float64)
    return HeldOut(errors, weights, float(np.average(losses, weights=weights)), outputs)


def unseen_outputs(rows: ArrayRows, machine: Machine, recipe: Recipe, labels: Array | None) -> tuple[Array, Array]:
    """Rows and their outputs under a machine whose weights never saw them: what calibration needs."""
    if machine.unseen is not None:
        return machine.unseen
    train, other = hold_out(rows, recipe, labels)
    if train is None or other is None:
        raise ValueError(
            f"calibrate=True holds out rows, which needs at least {_LEAST_ROWS_TO_HOLD_OUT} rows, two of every class "
            f"and validation_fraction > 0; got {rows.n_rows} rows. Use CalibratedClassifierCV instead."
        )
    result = held_out(rows.subset(train), rows.subset(other), machine.kernel, machine.basis, recipe)
    return other, result.outputs


def widened(kernel: Kernel, learn: str | None, n_features: int) -> Kernel:
    """The kernel with one width per feature where each is to be learned."""
    if learn == "each" and isinstance(kernel, RBF) and np.ndim(kernel.gamma) == 0:
        return RBF(np.full(n_features, kernel.gamma))
    return kernel


def light(rows: ArrayRows, memory_budget: int | None, C: float) -> ArrayRows:
    """The rows as dense float32 for the descent, where that fits: twice as fast, and its last digits do not matter."""
    if not rows.is_sparse and rows.dtype == np.float32:
        return rows
    if 4 * rows.n_rows * rows.n_features > (memory_budget or 1 << 30):
        return rows
    X = rows.X if rows.offset is None else rows.X - rows.offset
    largest = float(np.max(np.abs(X.data if rows.is_sparse else X), initial=0.0))
    if not 1e-12 < largest < 1e12:  # squares and widths must stay inside the range of float32
        return rows
    weight = 1.0 if rows.weights is None else float(np.max(rows.weights))
    target = 1.0 if rows.targets is None else float(np.max(np.abs(rows.targets), initial=1.0))
    if not C * weight * target**2 < 1e30:  # and so must the objective
        return rows
    return ArrayRows((X.toarray() if rows.is_sparse else X).astype(np.float32), rows.targets, rows.weights)


def hold_out(rows: ArrayRows, recipe: Recipe, labels: Array | None) -> tuple[Array | None, Array | None]:
    """Rows to train on and rows to hold out; None, None where there are too few rows to spare some."""
    if recipe.validation_fraction <= 0 or rows.n_rows < _LEAST_ROWS_TO_HOLD_OUT:
        return None, None
    fraction = min(recipe.validation_fraction, 5000 / rows.n_rows)
    if labels is not None and np.min(np.bincount(labels)) < 2:
        return None, None
    target = np.zeros(rows.n_rows) if labels is None else labels
    return holdout(target, fraction, classifier=labels is not None, random_state=recipe.key % 2**31)


def _design(rows: ArrayRows, kernel: Kernel, basis: Array, recipe: Recipe) -> Design:
    return Design(rows, kernel, basis, whiten=True, memory_budget=recipe.memory_budget)


def _total(solution: Solution) -> float:
    return float(np.sum(solution.objective))


def _record(phase: str, began: float, **facts: Any) -> dict[str, Any]:
    return {"phase": phase, "time": time.monotonic() - began, **facts}


def _last_round(selection: Selection) -> dict[str, Any]:
    rounds = selection.info.get("rounds")
    return {} if not rounds else {"rounds": len(rounds), "objective": rounds[-1]["objective"]}
