"""The size path: validation error for growing numbers of basis vectors, from one run per split.

A split's basis is selected once at the largest size.  Each size continues the refined basis of the size before it with
the next selected vectors, so the whole path costs about as much as three machines of the largest size.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np

from kompakt.basis.build import Array, Plan, choose, descended, held_out, light
from kompakt.basis.race import Arm
from kompakt.heldout import Score, SizeChoice, pick_size
from kompakt.kernels import Kernel
from kompakt.run import Run
from kompakt.spec import Data, Spec

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
    data: Data,
    spec: Spec,
    largest: int,
    plan: Plan,
    splits: list[tuple[Array, Array]],
    run: Run,
    size_tol: float | None = None,
) -> SizePath:
    """Run the path on every split and pick a size.

    The rule is the smallest size within one standard error of the best, or within `size_tol` of it (in units of the
    error) where that is given.
    """
    sizes = sizes_up_to(largest)
    paths = [_Split(data.subset(train), data.subset(held), spec, largest, plan, run) for train, held in splits]
    scores: list[list[Score]] = []
    for size in run.tracked(sizes, "sizes", len(sizes)):
        scores.append([path.extend(int(size)) for path in paths])
        errors = [result.error for result in scores[-1]]
        run.note("size", n_basis=int(size), validation=errors)
        logger.info("size %d: held-out error %.5g", size, np.mean(errors))
        means = np.array([np.mean([result.error for result in row]) for row in scores])
        if len(means) - 1 - int(np.argmin(means)) >= _PATIENCE or size == sizes[-1] or run.late:
            break
    tried = sizes[: len(scores)]
    table = np.array([[result.error for result in row] for row in scores])
    single = np.array([np.mean([result.standard_error for result in row]) for row in scores])
    spread = single / np.sqrt(len(splits))  # the rows of different splits are different rows
    if size_tol is None:
        choice = pick_size(tried, table.mean(axis=1), "one_se", standard_errors=spread)
    else:
        choice = pick_size(tried, table.mean(axis=1), "within", tolerance=float(size_tol))
    basis, kernel = paths[0].kept[int(choice.size)]
    evaluations = sum(path.n_kernel_evals for path in paths)
    return SizePath(tried, table, spread, choice, basis if plan.refine else None, kernel, evaluations)


class _Split:
    """The machine of one split, which grows along the sizes."""

    def __init__(self, train: Data, held: Data, spec: Spec, largest: int, plan: Plan, run: Run) -> None:
        self.train, self.held, self.spec, self.plan, self.run = train, held, spec, plan, run
        self.light = light(train.in_memory, spec, run) if plan.refine else train.in_memory
        self.start = choose(train, spec, largest, plan, run)
        self.basis = self.start.vectors[:0]
        self.taken = 0
        self.kept: dict[int, tuple[Array, Kernel]] = {}
        self.n_kernel_evals = self.start.n_kernel_evals

    def extend(self, size: int) -> Score:
        """Grow to `size`, refine, and look at the held-out rows."""
        plan, rows = self.plan, self.train.rows
        next_vectors = self.start.vectors[self.taken : self.taken + size - len(self.basis)]
        self.taken += len(next_vectors)
        self.basis = np.concatenate([self.basis, next_vectors.astype(self.basis.dtype)])
        if plan.refine and len(self.basis):
            arm = Arm(self.spec, "each" if plan.learn == "grow" else plan.learn, rank=plan.rank)
            n_iter = max(10, plan.refine_iter // 3)
            moved = descended(self.light, arm, self.basis, n_iter, self.run)
            self.spec = replace(self.spec, kernel=moved.kernel)
            self.basis = moved.basis.astype(rows.dtype)
            self.n_kernel_evals += moved.n_kernel_evals
        self.kept[size] = (self.basis, self.spec.kernel)
        return held_out(self.train, self.held, self.spec, self.basis, plan, self.run)
