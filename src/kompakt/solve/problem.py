"""One output of a problem with several, sharing its rows and values."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kompakt.data import RowBlock, Rows, steady
from kompakt.design import Design
from kompakt.losses import Loss
from kompakt.run import is_over

Array = np.ndarray


@dataclass(frozen=True)
class Problem:
    """What is minimised: a whitened design with targets and weights in its rows, a loss, and C."""

    design: Design
    loss: Loss
    C: float
    fit_intercept: bool = True
    penalize_intercept: bool = False
    #: a linear term linear' (w, b) per output, (m + 1, L): rows that stay on one linear piece of their loss
    linear: Array | None = None

    @property
    def n_outputs(self) -> int:
        return self.design.rows.n_outputs

    @property
    def mass(self) -> float:
        """Sum of the weights of the rows (their number where weights are not held), a size to compare with."""
        rows: Any = self.design.rows
        if rows.streamed:
            return steady(rows.mass) / max(1, rows.weight_columns)
        weights = getattr(rows, "weights", None)
        return float(self.design.n_rows) if weights is None else steady(np.sum(weights)) / max(1, weights[0].size)

    @property
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
    deadline: float | None = None  # on the clock of time.monotonic
    resumable: bool = False  # a step of the fit's checkpoint, if it has one: solves that take long

    def out_of_time(self) -> bool:
        return is_over(self.deadline)


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
        known = min(len(start) - 1, m)
        theta[:known] = start[:known]
        theta[-1] = start[-1]
    if not problem.fit_intercept:
        theta[-1] = 0.0
    return theta


def block_weights(weights: Array | None, n: int, outputs: Array) -> Array:
    """Weights of a block for the given outputs, (n, len(outputs)) or (n, 1)."""
    if weights is None:
        return np.ones((n, 1))
    return weights[:, None] if weights.ndim == 1 else weights[:, outputs]


class OneOutput(Rows):
    """One output of a row source that holds its targets."""

    def __init__(self, rows: Any, output: int) -> None:
        self.rows, self.output = rows, output
        self.n_rows, self.n_features, self.n_outputs, self.dtype = rows.n_rows, rows.n_features, 1, rows.dtype
        self.targets = rows.targets[:, [output]]
        self.weights = rows.weights if rows.weights is None or rows.weights.ndim == 1 else rows.weights[:, output]

    def block(self, start: int, stop: int) -> RowBlock:
        whole = self.rows.block(start, stop)
        weights = None if self.weights is None else self.weights[start:stop]
        return RowBlock(start, stop, lambda *_: whole.X, self.targets[start:stop], weights)

    def take(self, indices: Array) -> Any:
        return self.rows.take(indices)


def only(problem: Problem, output: int) -> Problem:
    """The problem of one output; its design shares the values."""
    design: Design = copy.copy(problem.design)
    rows: Any = problem.design.rows
    design.rows = rows.one_output(output) if rows.streamed else OneOutput(rows, output)
    return replace(problem, design=design, linear=None if problem.linear is None else problem.linear[:, [output]])
