"""CGLQ: support vectors of a subsample, their nearest neighbours and fresh rows, again and again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kompakt.reduce.local_sampling import (
    Clock,
    FitRows,
    ReducedSet,
    SubsamplePlan,
    best_while_improving,
    draw_subsamples,
    near_origin,
    nearest_index,
    support_positions,
    with_every_class,
)
from kompakt.run import Run

Array = np.ndarray
logger = logging.getLogger("kompakt")


def cglq(
    X: Any,
    y: Array,
    pool: Array,
    fit: FitRows,
    run: Run,
    validate: Callable[[Any], float],
    *,
    delta: float,
    n_neighbors: int = 5,
    fresh: float = 0.01,
    tol: float = 0.01,
    patience: int = 1,
    max_iter: int = 10,
    stratify: bool = False,
) -> ReducedSet:
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
    run : Run
        Its key is that of all random draws.
    validate : callable
        Machine -> error on rows outside of the pool.
    delta, fresh : float
        Share of the rows in the first subsample, and of those that join anew in every round.
    n_neighbors, max_iter : int
        Neighbours of each support vector, and rounds at most.
    tol, patience
        As for `best_while_improving`.
    stratify : bool
        Whether the first subsample holds the classes in their shares.

    Returns
    -------
    ReducedSet
        The round with the smallest error.
    """
    rng = np.random.default_rng(run.key)
    clock = Clock()
    n = len(pool)
    plan = SubsamplePlan(delta, 1, max(2, int(delta * n + 1e-9)))
    initial = pool[draw_subsamples(y[pool], plan, rng, stratify=stratify)[0]]
    if np.all(y[initial] == y[initial[0]]):
        raise ValueError(
            f"the subsample of {len(initial)} rows holds one class only, so it has no support vectors. "
            "Raise delta, or set stratify=True."
        )
    in_pool = np.zeros(X.shape[0], dtype=bool)
    in_pool[pool] = True
    held_out = X.shape[0] - n
    with clock.phase("neighbours"):
        # a support vector is its own nearest row; held-out rows are in the index, to save a copy, and passed over
        k = min(n, n_neighbors + 1)
        margin = 0 if not held_out else 4 + int(np.ceil(3.0 * k * held_out / n))
        near = near_origin(X)
        index = nearest_index(near, min(X.shape[0], k + margin))
    history: list[dict[str, Any]] = []
    supports: list[Array] = []

    def rounds() -> Iterator[ReducedSet]:
        rows = with_every_class(initial, y, pool, rng)
        for number in range(max_iter + 1):
            if number:
                with clock.phase("neighbours"):
                    new = rng.choice(pool, size=min(round(fresh * n), n), replace=False)
                    found = index.kneighbors(near[supports[-1]], return_distance=False)
                    fine = in_pool[found]
                    nearest = found[fine & (np.cumsum(fine, axis=1) <= k)]
                    rows = np.unique(np.concatenate([supports[-1], nearest, new]))
                    rows = with_every_class(rows, y, pool, rng)
            with clock.phase("fits"):
                machine = fit(rows)
                supports.append(rows[support_positions(machine, X[rows], y[rows])])
            with clock.phase("validation"):
                error = validate(machine)
            facts = {"round": number, "n_train": len(rows), "n_support": len(supports[-1]), "error": error}
            history.append(facts)
            logger.info("CGLQ: %s", facts)
            yield ReducedSet(rows, machine, supports[-1], error)

    best = best_while_improving(rounds(), lambda step: step.error, tol, patience)
    best.initial_support, best.history, best.seconds = supports[0], history, clock.seconds
    return best
