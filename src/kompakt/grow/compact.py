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

from kompakt.design import Design
from kompakt.grow.refine import refine
from kompakt.kernels import RBF, Kernel
from kompakt.losses import Loss
from kompakt.rows import ArrayRows
from kompakt.select import Selection
from kompakt.solve import Problem, Settings, Solution, solve
from kompakt.validate import holdout

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
    held_out: tuple[Array, Array] | None = None  # rows and their outputs under a machine that never saw them


def grow(rows: ArrayRows, kernel: Kernel, n_basis: int, recipe: Recipe, labels: Array | None) -> Machine:
    """Grow a machine with `n_basis` vectors on all rows."""
    began = time.monotonic()
    selection = select(rows, kernel, n_basis, recipe, labels)
    return finish(rows, kernel, selection, recipe, labels, began)


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
    return recipe.selector.select(rows, kernel, n_basis, key=recipe.key, **told)


def finish(
    rows: ArrayRows, kernel: Kernel, selection: Selection, recipe: Recipe, labels: Array | None, began: float
) -> Machine:
    """Refine a selection if the recipe says so, and solve for the weights on all rows."""
    evaluations = int(selection.info.get("n_kernel_evals", 0))
    history = [_record("selection", began, n_basis=selection.n_basis, **_last_round(selection))]
    design = _design(rows, kernel, selection.vectors, recipe)
    start = solve(recipe.problem(design), None, recipe.settings)
    evaluations += design.n_kernel_evals
    history.append(_record("weights", began, n_basis=selection.n_basis, objective=_total(start), n_iter=start.n_iter))
    plain = Machine(kernel, selection.vectors, selection.indices, start, design, history, evaluations)
    if not recipe.refine or selection.n_basis == 0:
        return plain
    return _refined(rows, plain, recipe, labels, began)


def _refined(rows: ArrayRows, plain: Machine, recipe: Recipe, labels: Array | None, began: float) -> Machine:
    """The refined machine, or the plain one where refinement did not pay on held-out rows or on the objective."""
    kernel = widened(plain.kernel, recipe.learn, rows.n_features)
    train, held = _hold_out(rows, recipe, labels)
    compact = light(rows if train is None else subset(rows, train), recipe.memory_budget)
    result = refine(
        compact,
        recipe.problem(plain.design),
        kernel,
        plain.basis,
        learn_width=recipe.learn is not None,
        max_iter=recipe.refine_iter,
        deadline=recipe.settings.deadline,
    )
    basis = result.basis.astype(rows.dtype)
    evaluations = plain.n_kernel_evals + result.n_kernel_evals
    note: dict[str, Any] = {"objective_before": result.objective_before, "objective": result.objective}
    note |= {"n_iter": result.n_iter, "n_evaluations": result.n_evaluations}
    held_out = None
    if train is not None and held is not None:
        part, other = subset(rows, train), subset(rows, held)
        before, _ = held_out_error(part, other, plain.kernel, plain.basis, recipe)
        after, outputs = held_out_error(part, other, result.kernel, basis, recipe)
        note |= {"validation_before": before, "validation": after}
        held_out = (held, outputs)
        if after > before:
            logger.info("refinement raised the held-out error from %.4g to %.4g: the start is kept.", before, after)
            history = plain.history + [_record("refinement", began, kept=False, **note)]
            return replace(plain, history=history, n_kernel_evals=evaluations)
    design = _design(rows, result.kernel, basis, recipe)
    solution = solve(recipe.problem(design), None, recipe.settings)
    evaluations += design.n_kernel_evals
    kept = _total(solution) <= _total(plain.solution)
    history = plain.history + [_record("refinement", began, kept=kept, **note)]
    if not kept:
        logger.info("refinement did not lower the training objective: the start is kept.")
        return replace(plain, history=history, n_kernel_evals=evaluations)
    history.append(_record("weights", began, n_basis=len(basis), objective=_total(solution), n_iter=solution.n_iter))
    return Machine(result.kernel, basis, None, solution, design, history, evaluations, held_out)


def held_out_error(
    part: ArrayRows, other: ArrayRows, kernel: Kernel, basis: Array, recipe: Recipe
) -> tuple[float, Array]:
    """Error on `other` of the machine solved on `part`, and its outputs there.

    Classes: share of rows on the wrong side, over all outputs; a tie is broken by the loss, scaled to less than a row.
    """
    design = _design(part, kernel, basis, recipe)
    solution = solve(recipe.problem(design), None, replace(recipe.settings, tol=1e-6))
    test = Design(other, kernel, basis, store=False)
    outputs = test.matvec(solution.weights) + solution.intercept
    assert other.targets is not None
    weights = np.ones(other.targets.shape) if other.weights is None else other.weights
    weights = np.broadcast_to(weights if weights.ndim == 2 else weights[:, None], other.targets.shape)
    losses = recipe.loss.value(other.targets, outputs)
    mean_loss = float(np.sum(weights * losses) / np.sum(weights))
    if not recipe.classifier:
        return mean_loss, outputs
    wrong = other.targets * outputs <= 0 if outputs.shape[1] == 1 else _wrong(other.targets, outputs)
    share = float(np.sum(weights[:, : wrong.shape[1]] * wrong) / np.sum(weights[:, : wrong.shape[1]]))
    return share + 1e-3 * mean_loss / other.n_rows, outputs


def _wrong(targets: Array, outputs: Array) -> Array:
    """Rows whose largest agreement is not with their own code; exact for one-vs-rest, close for other codings."""
    return (np.argmax(outputs, axis=1) != np.argmax(targets, axis=1))[:, None]


def widened(kernel: Kernel, learn: str | None, n_features: int) -> Kernel:
    """The kernel with one width per feature where each is to be learned."""
    if learn == "each" and isinstance(kernel, RBF) and np.ndim(kernel.gamma) == 0:
        return RBF(np.full(n_features, kernel.gamma))
    return kernel


def subset(rows: ArrayRows, index: Array) -> ArrayRows:
    """Some rows of a source, with their targets and weights, centred alike."""
    part = ArrayRows(
        rows.X[index],
        None if rows.targets is None else rows.targets[index],
        None if rows.weights is None else rows.weights[index],
    )
    part.offset = rows.offset
    return part


def light(rows: ArrayRows, memory_budget: int | None) -> ArrayRows:
    """The rows as dense float32 for the descent, where that fits: twice as fast, and its last digits do not matter."""
    if not rows.is_sparse and rows.dtype == np.float32:
        return rows
    if 4 * rows.n_rows * rows.n_features > (memory_budget or 1 << 30):
        return rows
    if rows.is_sparse:
        X = rows.X.astype(np.float32).toarray()
    else:
        X = (rows.X if rows.offset is None else rows.X - rows.offset).astype(np.float32)
    return ArrayRows(X, rows.targets, rows.weights)


def _hold_out(rows: ArrayRows, recipe: Recipe, labels: Array | None) -> tuple[Array | None, Array | None]:
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
