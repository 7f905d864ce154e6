"""CGLQ: support vectors of a subsample, their nearest neighbours and fresh rows, again and again.

The method of Camelo, Gonzalez-Lima and Quiroz, as Barcenas, Gonzalez-Lima and Quiroz describe it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kompakt.methods.reduction import ReductionProblem, train_on_all_rows
from kompakt.reduce.local_sampling import (
    Clock,
    ReducedSet,
    SubsamplePlan,
    best_while_improving,
    draw_subsamples,
    near_origin,
    nearest_index,
    plan_subsamples,
    support_positions,
    with_every_class,
)
from kompakt.run import Run

Array = np.ndarray
logger = logging.getLogger("kompakt")


@dataclass(frozen=True)
class CGLQ:
    """Options of `fit_cglq`.

    Parameters
    ----------
    delta : float or "auto"
        Share of the rows in the first subsample; "auto" is at least `least_rows` of them.
    n_neighbors : int
        Neighbours of each support vector that join the next training set.
    fresh : float, optional
        Share of the rows that joins anew in every round; None takes delta.
    max_rounds : int
    min_improvement, n_iter_no_change
        Fall of the held-out error that counts as one, and rounds without such a fall that end the search.
    validation_fraction : float
    stratify : bool
        Whether the first subsample holds the classes in their shares.
    all_rows_up_to : int
        So many rows are not reduced.
    """

    delta: Any = "auto"
    n_neighbors: int = 5
    fresh: float | None = None
    max_rounds: int = 10
    min_improvement: float = 0.01
    n_iter_no_change: int = 1
    validation_fraction: float = 0.1
    stratify: bool = False
    all_rows_up_to: int = 0
    least_rows: int = 1000  # of a first sample that is worth something: the rounds after it add what it missed


def fit_cglq(problem: ReductionProblem, options: CGLQ, run: Run) -> tuple[ReducedSet, float]:
    """The round with the smallest held-out error, and the share of the rows in the first subsample.

    Parameters
    ----------
    problem : ReductionProblem
    options : CGLQ
    run : Run
        Its key is that of all random draws.
    """
    if len(problem.pool) <= options.all_rows_up_to:
        return train_on_all_rows(problem), 1.0
    held_out = problem.hold_out(options.validation_fraction, run.key)
    X, y, pool, n_rows = problem.X, problem.y, problem.pool, len(problem.pool)
    delta = plan_subsamples(problem.class_counts, X.shape[1], delta=options.delta, n_subsamples=1).delta
    if isinstance(options.delta, str):
        delta = max(delta, options.least_rows / n_rows)
    n_fresh = min(round((delta if options.fresh is None else options.fresh) * n_rows), n_rows)

    rng, clock = np.random.default_rng(run.key), Clock()
    plan = SubsamplePlan(delta, 1, max(2, int(delta * n_rows + 1e-9)))
    initial = pool[draw_subsamples(y[pool], plan, rng, stratify=options.stratify)[0]]
    if np.all(y[initial] == y[initial[0]]):
        raise ValueError(
            f"the subsample of {len(initial)} rows holds one class only, so it has no support vectors. "
            "Raise delta, or set stratify=True."
        )
    in_pool = np.zeros(X.shape[0], dtype=bool)
    in_pool[pool] = True
    n_outside = X.shape[0] - n_rows
    with clock.phase("neighbours"):
        # a support vector is its own nearest row; held-out rows are in the index, to save a copy, and passed over
        k = min(n_rows, options.n_neighbors + 1)
        extra = 0 if not n_outside else 4 + int(np.ceil(3.0 * k * n_outside / n_rows))
        near = near_origin(X)
        index = nearest_index(near, min(X.shape[0], k + extra))
    history: list[dict[str, Any]] = []
    supports: list[Array] = []

    def rounds() -> Iterator[ReducedSet]:
        rows = with_every_class(initial, y, pool, rng)
        for number in range(options.max_rounds + 1):
            if number:
                with clock.phase("neighbours"):
                    fresh_rows = rng.choice(pool, size=n_fresh, replace=False)
                    neighbours = index.kneighbors(near[supports[-1]], return_distance=False)
                    usable = in_pool[neighbours]
                    nearest = neighbours[usable & (np.cumsum(usable, axis=1) <= k)]
                    rows = np.unique(np.concatenate([supports[-1], nearest, fresh_rows]))
                    rows = with_every_class(rows, y, pool, rng)
            with clock.phase("fits"):
                machine = problem.fit(rows)
                supports.append(rows[support_positions(machine, X[rows], y[rows])])
            with clock.phase("validation"):
                error = problem.error(machine, held_out)
            facts = {"round": number, "n_train": len(rows), "n_support": len(supports[-1]), "error": error}
            history.append(facts)
            logger.info("CGLQ: %s", facts)
            yield ReducedSet(rows, machine, supports[-1], error)

    best = best_while_improving(rounds(), lambda step: step.error, options.min_improvement, options.n_iter_no_change)
    best.initial_support, best.history, best.seconds = supports[0], history, clock.seconds
    return best, delta
