"""CGLQ: support vectors of a subsample, their nearest neighbours and fresh rows, again and again (seed 003)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kompakt.reduce.local_sampling import (
    Clock,
    FitRows,
    SubsamplePlan,
    best_while_improving,
    draw_subsamples,
    near_origin,
    nearest_index,
    support_positions,
    with_every_class,
)

Array = np.ndarray
logger = logging.getLogger("kompakt")


@dataclass(frozen=True)
class CGLQOptions:
    """What is decided before CGLQ begins."""

    delta: float
    n_neighbors: int = 5
    fresh: float = 0.01  # share of the rows that joins anew in every round
    tol: float = 0.01
    patience: int = 1
    max_iter: int = 10
    stratify: bool = False
    key: int = 0


@dataclass
class CGLQResult:
    """One round: its training set, machine, support vectors and validation error; row numbers are those given."""

    round: int
    rows: Array
    machine: Any
    support: Array
    error: float
    initial_rows: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    initial_support: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


def enriched(
    support: Array, neighbours: Callable[[Array], Array], pool: Array, n_fresh: int, rng: np.random.Generator
) -> Array:
    """Support vectors, their nearest neighbours, and fresh random rows of the pool (step (iii)), sorted.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.reduce.cglq import enriched
    >>> after = lambda rows: np.column_stack([rows, rows + 1])
    >>> enriched(np.array([3, 7]), after, np.arange(10), 0, np.random.default_rng(0)).tolist()
    [3, 4, 7, 8]
    """
    fresh = rng.choice(pool, size=min(n_fresh, len(pool)), replace=False)
    return np.unique(np.concatenate([support, neighbours(support).ravel(), fresh]))


def cglq(
    X: Any, y: Array, pool: Array, fit: FitRows, options: CGLQOptions, validate: Callable[[Any], float]
) -> CGLQResult:
    """Steps (i) to (iii), repeated until the validation error stops improving.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    y : ndarray of shape (n,)
        Labels.
    pool : ndarray
        Row numbers that may be trained on, increasing.
    fit : callable
        Row numbers -> trained machine.
    options : CGLQOptions
    validate : callable
        Machine -> error on rows outside of the pool.

    Returns
    -------
    CGLQResult
        The round with the smallest error.
    """
    rng = np.random.default_rng(options.key)
    clock = Clock()
    n = len(pool)
    plan = SubsamplePlan(options.delta, 1, max(2, int(options.delta * n + 1e-9)))
    initial = pool[draw_subsamples(y[pool], plan, rng, stratify=options.stratify)[0]]
    history: list[dict[str, Any]] = []
    in_pool = np.zeros(X.shape[0], dtype=bool)
    in_pool[pool] = True
    held_out = X.shape[0] - n
    with clock.phase("neighbours"):
        # a support vector is its own nearest row; held-out rows are in the index, to save a copy, and passed over
        k = min(n, options.n_neighbors + 1)
        margin = 0 if not held_out else 4 + int(np.ceil(3.0 * k * held_out / n))
        near = near_origin(X)
        index = nearest_index(near, min(X.shape[0], k + margin))

    def neighbours(rows: Array) -> Array:
        found = index.kneighbors(near[rows], return_distance=False)
        return first_allowed(found, in_pool, k)

    def trained(number: int, rows: Array) -> CGLQResult:
        with clock.phase("fits"):
            machine = fit(rows)
            support = rows[support_positions(machine, X[rows], y[rows])]
        with clock.phase("validation"):
            error = validate(machine)
        facts = {"round": number, "n_train": len(rows), "n_support": len(support), "error": error}
        history.append(facts)
        logger.info("CGLQ: %s", facts)
        return CGLQResult(number, rows, machine, support, error)

    def rounds() -> Iterator[CGLQResult]:
        if np.all(y[initial] == y[initial[0]]):
            raise ValueError(
                f"the subsample of {len(initial)} rows holds one class only, so it has no support vectors. "
                "Raise delta, or set stratify=True."
            )
        step = trained(0, with_every_class(initial, y, pool, rng))
        yield step
        for number in range(1, options.max_iter + 1):
            with clock.phase("neighbours"):
                rows = enriched(step.support, neighbours, pool, round(options.fresh * n), rng)
                rows = with_every_class(rows, y, pool, rng)
            step = trained(number, rows)
            yield step

    kept: list[Array] = []

    def error(step: CGLQResult) -> float:
        kept.append(step.support)
        return step.error

    best = best_while_improving(rounds(), error, options.tol, options.patience)
    best.initial_rows, best.initial_support = initial, kept[0]
    best.history, best.seconds = history, clock.seconds
    return best


def first_allowed(found: Array, allowed: Array, k: int) -> Array:
    """Of each row of neighbours, nearest first, the first k that are allowed, as one flat array.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.reduce.cglq import first_allowed
    >>> first_allowed(np.array([[0, 1, 2], [2, 1, 0]]), np.array([True, False, True]), 2).tolist()
    [0, 2, 2, 0]
    """
    fine = allowed[found]
    return found[fine & (np.cumsum(fine, axis=1) <= k)]
