"""What is minimised, when a solver stops, and what it returns."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from kompakt.data import steady
from kompakt.design import Design
from kompakt.losses import Loss
from kompakt.run import Run
from kompakt.spec import Spec

Array = np.ndarray


@dataclass(frozen=True)
class Problem:
    """What is minimised: a whitened design with targets and weights in its rows, a loss, and C."""

    design: Design
    loss: Loss
    C: float
    fit_intercept: bool = True
    penalize_intercept: bool = False
    #: of a problem with one output, a linear term linear' (w, b), (m + 1, 1): rows that stay on one linear piece
    linear: Array | None = None

    @classmethod
    def of(cls, design: Design, spec: Spec) -> Problem:
        """The weights of a design under an objective."""
        return cls(design, spec.loss, spec.C, spec.fit_intercept, spec.penalize_intercept)

    @property
    def n_outputs(self) -> int:
        return self.design.rows.n_outputs

    @cached_property
    def mass(self) -> float:
        """Sum of the weights of the rows (their number where weights are not held), a size to compare with."""
        rows = self.design.rows
        return steady(rows.mass) / max(1, rows.weight_columns)

    @cached_property
    def penalty(self) -> Array:
        """Diagonal of the penalty on (w, b): ones, and 0 or 1 for the intercept."""
        diagonal = np.ones(self.design.n_basis + 1)
        diagonal[-1] = 1.0 if self.penalize_intercept else 0.0
        return diagonal


@dataclass(frozen=True)
class Settings:
    """When a solver stops."""

    tol: float = 1e-8
    max_iter: int = 200
    run: Run = field(default_factory=Run)  # its deadline holds, and its checkpoint keeps the solution


@dataclass(frozen=True)
class Solution:
    """Weights of the basis vectors and how they were found."""

    weights: Array  # (m, L), beta
    intercept: Array  # (L,)
    coordinates: Array  # (m + 1, L): w and the intercept, the start of a warm restart
    objective: Array  # (L,)
    n_iter: int
    converged: bool
    optimality: Array  # (L,), norm of the gradient relative to its parts
    jitter: float
    info: dict[str, Any] = field(default_factory=dict)


def start_coordinates(problem: Problem, start: Array | None) -> Array:
    """Coordinates to start from: given ones, padded with zeros for basis vectors added since, or zeros."""
    m, L = problem.design.n_basis, problem.n_outputs
    theta = np.zeros((m + 1, L))
    if start is not None:
        n_shared = min(len(start) - 1, m)
        theta[:n_shared] = start[:n_shared]
        theta[-1] = start[-1]
    if not problem.fit_intercept:
        theta[-1] = 0.0
    return theta


def block_weights(weights: Array | None, n: int, outputs: Array) -> Array:
    """Weights of a block for the given outputs, (n, len(outputs)) or (n, 1)."""
    if weights is None:
        return np.ones((n, 1))
    return weights[:, None] if weights.ndim == 1 else weights[:, outputs]


def only(problem: Problem, output: int) -> Problem:
    """The problem of one output; its design shares the values."""
    design: Design = copy.copy(problem.design)
    design.rows = problem.design.rows.one_output(output)
    return replace(problem, design=design)
