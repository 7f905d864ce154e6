"""Refinement for every estimator: the vectors that one of them chose are moved, where that pays."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from kompakt.basis.compact import Machine, Recipe, grow
from kompakt.estimators.base import warn_interrupted
from kompakt.estimators.prepare import LEARNED, Array, Training
from kompakt.kernels import Kernel
from kompakt.losses import Loss
from kompakt.solve import Settings

logger = logging.getLogger("kompakt")


@dataclass(frozen=True)
class Chosen:
    """The machine that an estimator found, and what its weights minimise."""

    training: Training
    kernel: Kernel
    basis: Array
    loss: Loss
    C: float
    fit_intercept: bool = True
    penalize_intercept: bool = False


@dataclass(frozen=True)
class Moved:
    """The machine after refinement; `kept` says whether its vectors moved or the start was better."""

    machine: Machine
    kept: bool

    def publish(self, estimator: Any) -> None:
        """Tell how refinement went: in `refinement_`, and with a warning where it was interrupted."""
        record = next(r for r in self.machine.history if r["phase"] == "refinement")
        estimator.refinement_ = {name: value for name, value in record.items() if name != "phase"}
        estimator.n_kernel_evals_ += self.machine.n_kernel_evals
        if self.machine.interrupted:
            estimator.interrupted_ = True
            warn_interrupted(estimator, "the basis is kept as far as it was refined", stacklevel=5)


def check_movable(estimator: Any, kernel: Kernel) -> None:
    """Say before the work begins that vectors of such a kernel cannot be moved."""
    estimator.__dict__.pop("refinement_", None)  # of an earlier fit
    if estimator.refine and not kernel.differentiable:
        raise TypeError(f"refinement needs derivatives, which a {kernel.name} kernel does not have; pass refine=False.")
    learned_widths(estimator.gamma, bool(estimator.refine), estimator.kernel)


def moved_vectors(estimator: Any, chosen: Chosen, deadline: float | None) -> Moved | None:
    """Move the vectors on the primal objective, checked on held-out rows; None where it is not asked for."""
    if not estimator.refine or not len(chosen.basis):
        return None
    training = chosen.training
    recipe = Recipe(
        loss=chosen.loss,
        C=chosen.C,
        selector=None,
        classifier=training.classes is not None,
        key=training.key,
        fit_intercept=chosen.fit_intercept,
        penalize_intercept=chosen.penalize_intercept,
        learn=learned_widths(estimator.gamma, True, estimator.kernel),
        refine_iter=int(estimator.refine_iter),
        settings=Settings(tol=1e-8, max_iter=500, deadline=deadline, resumable=True),
        memory_budget=estimator.memory_budget,
        coding=getattr(estimator, "coding", "one_vs_rest"),
        n_classes=2 if training.classes is None else len(training.classes),
        interruptible=True,
    )
    machine = grow(training.rows, chosen.kernel, len(chosen.basis), recipe, training.labels, chosen.basis)
    kept = any(record.get("kept", False) for record in machine.history)
    return Moved(machine, kept)


def learned_widths(gamma: Any, refine: bool, kernel: Any) -> str | None:
    """Which widths refinement moves: None, "one" or "each"."""
    if isinstance(gamma, str) and gamma in LEARNED:
        if not refine:
            raise ValueError(
                f"gamma={gamma!r} means that the width is learned; it needs refine=True. "
                "Give a number or 'scale', or set refine=True."
            )
        if gamma != "learn" and kernel != "rbf":
            raise ValueError(f"gamma={gamma!r} (one width per feature) needs kernel='rbf'; got kernel={kernel!r}.")
        return {"learn": "one", "ard": "each", "loo": None}[gamma]
    if gamma is None and refine and isinstance(kernel, str):
        return {"rbf": "each", "laplacian": "one"}.get(kernel)
    return None
