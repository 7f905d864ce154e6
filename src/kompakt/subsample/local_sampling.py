"""Local sampling: support vectors of small subsamples show where to draw more rows (seed 003, section 2)."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kompakt.subsample.neighbours import BallSearch, draw_from_balls, kth_distances
from kompakt.subsample.plan import ReductionWarning, SubsamplePlan, draw_subsamples
from kompakt.subsample.progress import Clock, best_while_improving
from kompakt.subsample.support import FitRows, support_of_subsamples, support_positions, with_every_class

Array = np.ndarray
logger = logging.getLogger("kompakt")


# -- the steps -------------------------------------------------------------------------------------------


def neighbour_rank(m: int) -> int:
    """k = floor(ln m) (step (iii)), at least 1.

    Examples
    --------
    >>> from kompakt.subsample.local_sampling import neighbour_rank
    >>> neighbour_rank(395), neighbour_rank(2)
    (5, 1)
    """
    return max(1, int(np.log(m)))


def intensities(radii: Array) -> Array:
    """Weights eta_j proportional to 1 / rho_j that sum to 1 (step (iv)).

    A radius of zero (more than k copies of one row) counts as the smallest positive one, or all weights are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.subsample.local_sampling import intensities
    >>> intensities(np.array([1.0, 2.0, 2.0])).tolist()
    [0.5, 0.25, 0.25]
    """
    positive = radii[radii > 0]
    if not len(positive):
        return np.full(len(radii), 1.0 / len(radii))
    inverse = 1.0 / np.maximum(radii, positive.min())
    return inverse / inverse.sum()


#: word -> rows wanted from each ball, given the weights eta (m,), the rows in each ball (m,) and the rows in X \ T
INTENSITY: dict[str, Callable[[Array, Array, int], Array]] = {
    # a fraction eta_j of the ball, word for word: about 1 / m, so that hardly anything is drawn
    "literal": lambda eta, counts, n_rest: eta * counts,
    # a fraction m eta_j, which is 1 on average: a ball of average support vector density is taken whole
    "relative": lambda eta, counts, n_rest: np.minimum(1.0, len(eta) * eta) * counts,
    # relative to the densest ball, which alone is taken whole
    "peak": lambda eta, counts, n_rest: eta / eta.max() * counts,
    # eta_j of all unused rows, as far as the ball has them
    "count": lambda eta, counts, n_rest: np.minimum(eta * n_rest, counts),
    # every row of every ball
    "all": lambda eta, counts, n_rest: counts.astype(np.float64),
}


def median_radius(radii: Array) -> float:
    """The median rho of the radii; of the positive ones, with a warning, where duplicates make it zero."""
    rho = float(np.median(radii))
    if rho > 0:
        return rho
    positive = radii[radii > 0]
    if len(positive):
        warnings.warn(
            f"{len(radii) - len(positive)} of {len(radii)} support vectors have so many exact copies that their "
            "neighbour radius is zero; the median of the others is used. Drop duplicated rows, or count them by "
            "sample_weight.",
            ReductionWarning,
            stacklevel=2,
        )
        return float(np.median(positive))
    if len(radii) > 1:
        warnings.warn(
            "all support vectors of the subsamples are copies of one another, so no ball can be drawn around them; "
            "only rows equal to them are added. Drop duplicated rows.",
            ReductionWarning,
            stacklevel=2,
        )
    return 0.0


def thinned(drawn: Array, most: int | None, n_centres: int, rng: np.random.Generator) -> Array:
    """At most `most - n_centres` of the drawn rows, each equally likely to stay, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.subsample.local_sampling import thinned
    >>> len(thinned(np.arange(50), 30, 10, np.random.default_rng(0)))
    20
    """
    if most is None or n_centres + len(drawn) <= most:
        return drawn
    return np.sort(rng.choice(drawn, size=max(0, most - n_centres), replace=False))


# -- the procedure ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LocalSamplingOptions:
    """What is decided before local sampling begins."""

    plan: SubsamplePlan
    beta: float | None = None  # None: searched
    beta_step: float = 0.1
    max_beta: float = 1.0
    tol: float = 0.0
    patience: int = 1
    intensity: str = "relative"
    stratify: bool = False
    key: int = 0
    reweight: bool = False  # whether a row of the reduced set counts for the rows it stands for
    max_train: int | None = None  # rows of the reduced set at most
    search_train: int | None = None  # and while beta is searched


@dataclass
class LocalSample:
    """The reduced training set and how it came about; row numbers are those of the rows given.

    Attributes
    ----------
    beta : float
    radius : float
        beta times the median radius.
    rows : ndarray
        The training set: V and what was drawn around it.
    n_drawn : int
    machine : object or None
        Trained on `rows`; None where no fit was asked for.
    support : ndarray
        Support vectors of the machine, row numbers.
    error : float
        On the validation rows; nan without validation.
    factor : float
        Weight of each row in the machine's fit: the rows of the pool that it stands for.
    """

    beta: float
    radius: float
    rows: Array
    n_drawn: int
    machine: Any = None
    support: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    error: float = float("nan")
    factor: float = 1.0
    # shared by all values of beta
    subsamples: list[Array] = field(default_factory=list)
    initial_support: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    radii: Array = field(default_factory=lambda: np.empty(0))
    n_one_class: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


def local_sampling(
    X: Any,
    y: Array,
    pool: Array,
    fit: FitRows,
    options: LocalSamplingOptions,
    validate: Callable[[Any], float] | None = None,
    fit_last: bool = True,
) -> LocalSample:
    """Steps (i) to (v), for one beta or for growing ones while the validation error falls (section 3.1).

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    y : ndarray of shape (n,)
        Labels.
    pool : ndarray
        Row numbers that may be trained on, increasing.
    fit : callable
        Row numbers -> trained machine; with `reweight`, row numbers and the weight of each row.
    options : LocalSamplingOptions
    validate : callable, optional
        Machine -> error on rows outside of the pool; needed where beta is searched.
    fit_last : bool
        Whether a given beta is to be followed by a fit.

    Returns
    -------
    LocalSample
    """
    rng = np.random.default_rng(options.key)
    clock = Clock()
    with clock.phase("subsamples"):
        local = draw_subsamples(y[pool], options.plan, rng, stratify=options.stratify)
        subsamples = [pool[rows] for rows in local]
        found = support_of_subsamples(fit, X, y, subsamples)
    V = found.rows
    with clock.phase("radii"):
        centres = X[V]
        m = len(V)
        radii = kth_distances(centres, min(neighbour_rank(m), m - 1)) if m > 1 else np.zeros(1)
        rho, eta = median_radius(radii), intensities(radii)
        search = BallSearch(X, centres)
    allowed = np.zeros(X.shape[0], dtype=bool)
    allowed[pool] = True
    allowed[np.concatenate(subsamples)] = False
    n_rest = int(allowed.sum())
    wanted = INTENSITY[options.intensity]
    history: list[dict[str, Any]] = []

    def sample(beta: float, most: int | None) -> LocalSample:
        with clock.phase("sampling"):
            draw_rng = np.random.default_rng([options.key, round(1e6 * beta)])  # what a beta draws depends on it alone
            D, counts = draw_from_balls(search, beta * rho, lambda c: wanted(eta, c, n_rest), allowed, draw_rng)
            D = thinned(D, most, m, draw_rng)
            rows = with_every_class(np.union1d(V, D), y, pool, draw_rng)
            step = LocalSample(beta, beta * rho, rows, len(D))
            # C weighs the sum of all rows' losses: with fewer terms each must count for more, or the machine underfits
            step.factor = len(pool) / len(rows) if options.reweight else 1.0
        facts = {"beta": beta, "n_in_balls": int(counts.sum()), "n_drawn": len(D), "n_train": len(step.rows)}
        history.append(facts)
        if fit_last or validate is not None:
            with clock.phase("fits"):
                step.machine = fit(step.rows, step.factor) if options.reweight else fit(step.rows)
                step.support = step.rows[support_positions(step.machine, X[step.rows], y[step.rows])]
            facts["n_support"] = len(step.support)
        if validate is not None:
            with clock.phase("validation"):
                step.error = facts["error"] = validate(step.machine)
        logger.info("local sampling: %s", facts)
        return step

    if options.beta is not None:
        best = sample(options.beta, options.max_train)
    else:
        with clock.phase("sampling"):
            search.remember(options.max_beta * rho)
        few = options.max_train if options.search_train is None else options.search_train
        steps = (sample(beta, few) for beta in _betas(options))
        best = best_while_improving(steps, lambda step: step.error, options.tol, options.patience)
        if few != options.max_train:
            best = sample(best.beta, options.max_train)
    best.subsamples, best.initial_support, best.radii = subsamples, V, radii
    best.n_one_class, best.history, best.seconds = found.one_class, history, clock.seconds
    return best


def _betas(options: LocalSamplingOptions) -> Iterator[float]:
    step = options.beta_step
    for number in range(1, int(options.max_beta / step + 1e-9) + 1):
        yield round(number * step, 9)
