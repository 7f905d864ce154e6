"""Local sampling: an exact SVM on rows drawn near the support vectors of small SVMs (Barcenas et al., section 2)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np

from kompakt.methods.reduction import ReductionProblem, train_on_all_rows
from kompakt.reduce.local_sampling import (
    INTENSITY,
    BallSearch,
    Clock,
    ReducedSet,
    SubsamplePlan,
    best_while_improving,
    draw_from_balls,
    draw_subsamples,
    intensities,
    kth_distances,
    median_radius,
    neighbour_rank,
    plan_subsamples,
    support_of_subsamples,
    support_positions,
    thinned,
    with_every_class,
)
from kompakt.run import Run

Array = np.ndarray
logger = logging.getLogger("kompakt")


@dataclass(frozen=True)
class LocalSampling:
    """Options of `fit_local_sampling`.

    Parameters
    ----------
    variant : {"margin", "reweighted", "paper"}
        Rows by their margins; from balls, each counting for the rows that it stands for; or as printed.
    delta, n_subsamples, min_subsample_size : number or "auto"
        Share, number and smallest size of the first subsamples (step (i)).
    beta : float, optional
        Radius of the balls in median radii; None searches among `beta_step`, 2 `beta_step`, ... up to `max_beta`
        (section 3.1) on held-out rows.
    intensity : str
        How many rows of a ball are drawn; a key of `INTENSITY`.
    min_improvement, n_iter_no_change
        Fall of the held-out error that counts as one, and betas without such a fall that end the search.
    validation_fraction : float
        Share of the rows that is held out for the search.
    stratify : bool
        Whether each subsample holds the classes in their shares.
    max_train, search_train : int, optional
        Rows of the reduced set at most, and while beta is searched.
    fit_last : bool
        Whether a machine is trained on the reduced set.
    all_rows_up_to : int
        So many rows are not reduced.
    """

    variant: str
    delta: Any = "auto"
    n_subsamples: Any = "auto"
    min_subsample_size: Any = "auto"
    beta: float | None = None
    beta_step: float = 0.1
    max_beta: float = 1.0
    intensity: str = "relative"
    min_improvement: float = 0.0
    n_iter_no_change: int = 1
    validation_fraction: float = 0.1
    stratify: bool = False
    max_train: int | None = None
    search_train: int | None = None
    fit_last: bool = True
    all_rows_up_to: int = 0
    #: rows whose margin is at least 2, far from the boundary, are drawn so many times less often than those within it
    least_chance: float = 0.1


def fit_local_sampling(problem: ReductionProblem, options: LocalSampling, run: Run) -> tuple[ReducedSet, SubsamplePlan]:
    """The reduced training set with the machine trained on it, and the plan of the first subsamples.

    Parameters
    ----------
    problem : ReductionProblem
    options : LocalSampling
    run : Run
        Its key is that of all random draws.
    """
    n_rows = len(problem.pool)
    if n_rows <= options.all_rows_up_to:
        return train_on_all_rows(problem), SubsamplePlan(1.0, 1, n_rows)
    if options.variant == "margin":
        return _draw_by_margin(problem, options, run)
    held_out = problem.hold_out(options.validation_fraction, run.key) if options.beta is None else None
    X, y, pool = problem.X, problem.y, problem.pool
    plan = plan_subsamples(
        problem.class_counts, X.shape[1],
        delta=options.delta, n_subsamples=options.n_subsamples, min_subsample_size=options.min_subsample_size,
    )  # fmt: skip
    if plan.size < 2:
        raise ValueError(
            f"delta={plan.delta:g} of {len(pool)} rows in {plan.n_subsamples} subsamples leaves {plan.size} rows in "
            "each; at least 2 are needed. Raise delta or lower n_subsamples."
        )
    rng, clock = np.random.default_rng(run.key), Clock()
    with clock.phase("subsamples"):  # steps (i) and (ii): V are the support vectors of disjoint subsamples
        subsamples = [pool[rows] for rows in draw_subsamples(y[pool], plan, rng, stratify=options.stratify)]
        V, n_one_class = support_of_subsamples(problem.fit, X, y, subsamples, run)
    with clock.phase("radii"):  # steps (iii) and (iv): how dense V is around each of its rows
        m = len(V)
        radii = kth_distances(X[V], min(neighbour_rank(m), m - 1)) if m > 1 else np.zeros(1)
        rho, eta = median_radius(radii), intensities(radii)
        search = BallSearch(X, X[V])
    unused = np.zeros(X.shape[0], dtype=bool)
    unused[pool] = True
    unused[np.concatenate(subsamples)] = False
    n_unused, rows_wanted, reweight = int(unused.sum()), INTENSITY[options.intensity], options.variant != "paper"
    history: list[dict[str, Any]] = []

    def sample(beta: float, most_rows: int | None) -> ReducedSet:
        """Step (v): rows drawn from the balls join V, and the machine is trained on both."""
        with clock.phase("sampling"):
            draw_rng = np.random.default_rng([run.key, round(1e6 * beta)])  # what a beta draws depends on it alone
            drawn, counts = draw_from_balls(
                search, beta * rho, lambda in_ball: rows_wanted(eta, in_ball, n_unused), unused, draw_rng
            )
            drawn = thinned(drawn, most_rows, m, draw_rng)
            rows = with_every_class(np.union1d(V, drawn), y, pool, draw_rng)
            step = ReducedSet(rows, beta=beta, radius=beta * rho, n_drawn=len(drawn))
            # C weighs the sum of all rows' losses: with fewer terms each must count for more, or the machine underfits
            step.factor = len(pool) / len(rows) if reweight else 1.0
        facts = {"beta": beta, "n_in_balls": int(counts.sum()), "n_drawn": len(drawn), "n_train": len(rows)}
        history.append(facts)
        if options.fit_last or held_out is not None:
            with clock.phase("fits"):
                step.machine = problem.fit(rows, step.factor) if reweight else problem.fit(rows)
                step.support = rows[support_positions(step.machine, X[rows], y[rows])]
            facts["n_support"] = len(step.support)
        if held_out is not None:
            with clock.phase("validation"):
                step.error = facts["error"] = problem.error(step.machine, held_out)
        logger.info("local sampling: %s", facts)
        return step

    if options.beta is not None:
        best = sample(options.beta, options.max_train)
    else:
        with clock.phase("sampling"):
            search.remember(options.max_beta * rho)
        search_rows = options.max_train if options.search_train is None else options.search_train
        n_betas = int(options.max_beta / options.beta_step + 1e-9)
        steps = (sample(round(number * options.beta_step, 9), search_rows) for number in range(1, n_betas + 1))
        best = best_while_improving(steps, lambda step: step.error, options.min_improvement, options.n_iter_no_change)
        if search_rows != options.max_train:
            best = sample(best.beta, options.max_train)
    best.subsamples, best.initial_support, best.radii = subsamples, V, radii
    best.n_one_class, best.history, best.seconds = n_one_class, history, clock.seconds
    return best, plan


def _draw_by_margin(problem: ReductionProblem, options: LocalSampling, run: Run) -> tuple[ReducedSet, SubsamplePlan]:
    """Rows drawn by their margins under a first machine on random rows, with the weights 1 / pi that make up for it.

    A row that the first machine has outside of the margin will hardly move the boundary, but some must stay, or nothing
    holds the boundary off them. The chance pi falls linearly from 1 at the margin to a tenth at twice its distance, up
    to a factor that gives `max_train` rows on average; where it exceeds 1 the row is always taken.
    """
    X, y, pool, n_rows, n_train = problem.X, problem.y, problem.pool, len(problem.pool), options.max_train
    assert n_train is not None
    rng, clock = np.random.default_rng(run.key), Clock()
    size = plan_subsamples(problem.class_counts, X.shape[1], delta=options.delta, n_subsamples=1).size
    size = min(max(size, n_train // 2), n_rows)
    plan = SubsamplePlan(size / n_rows, 1, size)
    with clock.phase("subsamples"):
        (chosen,) = draw_subsamples(y[pool], plan, rng, stratify=options.stratify)
        first = with_every_class(pool[chosen], y, pool, rng)
        machine = problem.fit(first, n_rows / len(first))
    with clock.phase("sampling"):
        chance = np.clip(2.0 - problem.margins(machine, pool), options.least_chance, 1.0)
        factor, n_certain = 0.0, 0
        while True:  # rows that are certain to be taken leave their share to the others, of which more become certain
            uncertain = chance[factor * chance < 1.0]
            share = n_train - n_certain
            factor = share / float(uncertain.sum()) if len(uncertain) and share > 0 else np.inf
            if int(np.sum(factor * chance >= 1.0)) <= n_certain:
                break
            n_certain = int(np.sum(factor * chance >= 1.0))
        chance = np.minimum(1.0, factor * chance)
        rows = with_every_class(pool[rng.random(n_rows) < chance], y, pool, rng)
        weight = np.ones(len(y))
        weight[pool] = 1.0 / chance
    with clock.phase("fits"):
        last = problem.fit(rows, weight[rows])
    support = rows[support_positions(last, X[rows], y[rows])]
    facts = {"n_first": len(first), "n_train": len(rows), "n_support": len(support)}
    logger.info("margin sampling: %s", facts)
    reduced = ReducedSet(
        rows,
        last,
        support,
        factor=weight[rows],
        initial_support=first[support_positions(machine, X[first], y[first])],
        history=[facts],
        seconds=clock.seconds,
        subsamples=[first],
    )
    return reduced, plan
