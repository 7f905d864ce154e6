"""The size path: validation error for growing numbers of basis vectors, from one run per split.

A split's basis is selected once at the largest size.  Each size continues the refined basis of the size before it with
the next selected vectors, so the whole path costs about as much as three machines of the largest size.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from kompakt.basis.compact import Array, HeldOut, Recipe, held_out, light, select, widened
from kompakt.basis.refine import refine
from kompakt.data import ArrayRows
from kompakt.kernels import Kernel
from kompakt.run import tracked
from kompakt.validation import SizeChoice, pick_size

logger = logging.getLogger("kompakt")

_SMALLEST, _GROWTH = 5, 1.6
#: sizes without a better error after which a path ends
_PATIENCE = 3


@dataclass(frozen=True)
class SizePath:
    """Errors along the sizes and the choice made from them."""

    sizes: Array  # (S,)
    errors: Array  # (S, n_splits)
    standard_errors: Array  # (S,)
    choice: SizeChoice
    basis: Array | None  # refined basis of the chosen size on the first split, a start for the final fit
    kernel: Kernel
    history: list[dict[str, Any]]
    n_kernel_evals: int

    def __repr__(self) -> str:
        errors = self.errors.mean(axis=1)
        tried = ", ".join(f"{size}: {error:.4g}" for size, error in zip(self.sizes, errors, strict=True))
        return f"<SizePath: validation errors {{{tried}}}, chosen {self.size}>"

    @property
    def size(self) -> int:
        """The chosen number of basis vectors."""
        return int(self.choice.size)


def sizes_up_to(largest: int) -> Array:
    """Sizes from 5 on, each 1.6 times the one before, up to `largest`.

    Examples
    --------
    >>> from kompakt.basis.path import sizes_up_to
    >>> sizes_up_to(40)
    array([ 5,  8, 13, 20, 33, 40])
    """
    sizes = []
    size = float(min(_SMALLEST, largest))
    while size < largest:
        sizes.append(round(size))
        size *= _GROWTH
    return np.array([*sizes, largest])


def size_path(
    rows: ArrayRows,
    kernel: Kernel,
    largest: int,
    recipe: Recipe,
    splits: list[tuple[Array, Array]],
    labels: Array | None,
    size_tol: float | None = None,
) -> SizePath:
    """Run the path on every split and pick a size.

    The rule is the smallest size within one standard error of the best, or within `size_tol` of it (in units of the
    error) where that is given.
    """
    sizes = sizes_up_to(largest)
    runs = [_Run(rows, kernel, recipe, train, other, labels, largest) for train, other in splits]
    found: list[list[HeldOut]] = []
    history: list[dict[str, Any]] = []
    began = time.monotonic()
    for size in tracked(sizes, "sizes", len(sizes)):
        found.append([run.extend(int(size)) for run in runs])
        errors = [result.error for result in found[-1]]
        history.append({"phase": "size", "time": time.monotonic() - began, "n_basis": int(size), "validation": errors})
        logger.info("size %d: held-out error %.5g", size, np.mean(errors))
        means = np.array([np.mean([result.error for result in row]) for row in found])
        if len(means) - 1 - int(np.argmin(means)) >= _PATIENCE or size == sizes[-1] or recipe.settings.out_of_time():
            break
    tried = sizes[: len(found)]
    table = np.array([[result.error for result in row] for row in found])
    single = np.array([np.mean([result.standard_error for result in row]) for row in found])
    spread = single / np.sqrt(len(splits))  # the rows of different splits are different rows
    if size_tol is None:
        choice = pick_size(tried, table.mean(axis=1), "one_se", standard_errors=spread)
    else:
        choice = pick_size(tried, table.mean(axis=1), "within", tolerance=float(size_tol))
    first = runs[0]
    basis, chosen_kernel = first.kept[int(choice.size)]
    evaluations = sum(run.n_kernel_evals for run in runs)
    return SizePath(tried, table, spread, choice, basis if recipe.refine else None, chosen_kernel, history, evaluations)


class _Run:
    """One split's growing machine."""

    def __init__(
        self,
        rows: ArrayRows,
        kernel: Kernel,
        recipe: Recipe,
        train: Array,
        other: Array,
        labels: Array | None,
        largest: int,
    ) -> None:
        self.recipe = recipe
        self.part, self.other = rows.subset(train), rows.subset(other)
        self.light = light(self.part, recipe.memory_budget, recipe.C) if recipe.refine else self.part
        self.selection = select(self.part, kernel, largest, recipe, None if labels is None else labels[train])
        self.kernel = kernel
        self.basis = self.selection.vectors[:0]
        self.taken = 0
        self.kept: dict[int, tuple[Array, Kernel]] = {}
        self.n_kernel_evals = int(self.selection.info.get("n_kernel_evals", 0))

    def extend(self, size: int) -> HeldOut:
        """Grow to `size`, refine, and look at the held-out rows."""
        more = self.selection.vectors[self.taken : self.taken + size - len(self.basis)]
        self.taken += len(more)
        self.basis = np.concatenate([self.basis, more.astype(self.basis.dtype)])
        recipe = self.recipe
        if recipe.refine and len(self.basis):
            result = refine(
                self.light,
                recipe.problem(None),  # type: ignore[arg-type]
                widened(self.kernel, recipe.learn, self.part.n_features),
                self.basis,
                learn_width=recipe.learn is not None,
                max_iter=max(10, recipe.refine_iter // 3),
                memory_budget=recipe.memory_budget,
                deadline=recipe.settings.deadline,
            )
            self.kernel, self.basis = result.kernel, result.basis.astype(self.part.dtype)
            self.n_kernel_evals += result.n_kernel_evals
        self.kept[size] = (self.basis, self.kernel)
        return held_out(self.part, self.other, self.kernel, self.basis, recipe)
