"""One output of a problem with several, sharing its rows and values."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from kompakt.design import Design
from kompakt.rows import RowBlock, Rows
from kompakt.solve.problem import Array, Problem


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
