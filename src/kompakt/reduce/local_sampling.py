"""Local sampling: support vectors of small subsamples show where to draw more rows (Barcenas et al., section 2)."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from scipy import sparse
from sklearn.metrics import euclidean_distances
from sklearn.neighbors import KDTree, NearestNeighbors

from kompakt.parallel import ordered_map
from kompakt.run import Run

Array = np.ndarray
logger = logging.getLogger("kompakt")

#: the smallest subsample of the paper's experiments
LEAST_SIZE = 50
#: rows of the rarest class that a subsample shall hold on average, so that one without it is rare
LEAST_OF_A_CLASS = 5
#: subsamples wanted at least (the experiments have 12 to 50), and at most
WANTED, MOST = 10, 50


class ReductionWarning(UserWarning):
    """The training set could not be reduced as asked; the message says what was done instead.

    Examples
    --------
    >>> from kompakt.reduce import ReductionWarning
    >>> issubclass(ReductionWarning, UserWarning)
    True
    """


@dataclass(frozen=True)
class SubsamplePlan:
    """L disjoint subsamples of `size` rows, together a share `delta` of the n rows.

    Examples
    --------
    >>> from kompakt.reduce import SubsamplePlan
    >>> SubsamplePlan(delta=0.02, n_subsamples=20, size=50).n_rows
    1000
    """

    delta: float
    n_subsamples: int
    size: int

    @property
    def n_rows(self) -> int:
        """Rows in all subsamples together."""
        return self.n_subsamples * self.size


def plan_subsamples(
    class_counts: Array,
    n_features: int,
    *,
    delta: Any = "auto",
    n_subsamples: Any = "auto",
    min_subsample_size: Any = "auto",
) -> SubsamplePlan:
    """Resolve share, number and size of the subsamples.

    The guidance of the paper, section 3.3, as numbers.  The share is n_features / 1000 between 1 % and 10 % (its
    experiments: 1 % with 8 features, 2 % with 22, 2.5 % with 54, 10 % with 254), and more where 10 subsamples of the
    smallest size need it, up to half of the rows.  The smallest size is 50, 5 rows per feature (experiments: 2 to 6)
    and 5 rows of the rarest class, whichever is most: a subsample that is too small makes most of its rows support
    vectors.  The number of subsamples is then as large as the size allows, up to 50.

    Parameters
    ----------
    class_counts : ndarray of shape (n_classes,)
    n_features : int
    delta : float or "auto", default="auto"
    n_subsamples : int or "auto", default="auto"
    min_subsample_size : int or "auto", default="auto"

    Returns
    -------
    SubsamplePlan

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.reduce import plan_subsamples
    >>> plan_subsamples(np.array([29690, 14845]), 8, delta=0.01, n_subsamples=12)
    SubsamplePlan(delta=0.01, n_subsamples=12, size=37)
    >>> plan_subsamples(np.array([300_000, 221_012]), 54)
    SubsamplePlan(delta=0.054, n_subsamples=50, size=562)
    """
    counts = np.asarray(class_counts)
    n = int(counts.sum())
    least = _whole("min_subsample_size", min_subsample_size, 2)
    if least is None:
        rare = int(np.ceil(LEAST_OF_A_CLASS * n / max(1, counts.min())))
        least = max(LEAST_SIZE, 5 * n_features, rare)
    L = _whole("n_subsamples", n_subsamples, 1)
    if isinstance(delta, str) and delta == "auto":
        share = float(np.clip(n_features / 1000.0, 0.01, 0.10))
        share = max(share, min(0.5, (L or WANTED) * least / n))
    elif not isinstance(delta, Real) or isinstance(delta, bool) or not 0 < float(delta) < 1:
        raise ValueError(f"delta must be 'auto' or a number between 0 and 1 (a share of the rows); got {delta!r}.")
    else:
        share = float(delta)
    L = L or int(np.clip(share * n // least, 1, MOST))
    size = int(share * n / L + 1e-9)  # floor(delta n / L); 1e-9 mends products such as 0.29 * 100
    logger.info("subsamples: %d of %d rows (delta=%.4g, smallest size wanted %d)", L, size, share, least)
    return SubsamplePlan(share, L, size)


def _whole(name: str, given: Any, least: int) -> int | None:
    """A whole number, or None for "auto"."""
    if isinstance(given, str) and given == "auto":
        return None
    if not isinstance(given, Integral) or isinstance(given, bool) or given < least:
        raise ValueError(f"{name} must be 'auto' or a whole number of at least {least}; got {given!r}.")
    return int(given)


def draw_subsamples(labels: Array, plan: SubsamplePlan, rng: np.random.Generator, *, stratify: bool) -> list[Array]:
    """Disjoint random subsamples of row numbers, each sorted (step (i)).

    Stratified subsamples hold every class in its share of the rows, up to one row: rows are ordered by their random
    rank within their class, as a share of the class, and cut into consecutive pieces.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.reduce import SubsamplePlan, draw_subsamples
    >>> labels = np.repeat([0, 1], [80, 20])
    >>> drawn = draw_subsamples(labels, SubsamplePlan(0.3, 3, 10), np.random.default_rng(0), stratify=True)
    >>> [int(labels[rows].sum()) for rows in drawn]
    [2, 2, 2]
    """
    n = len(labels)
    if plan.n_rows > n:
        raise ValueError(f"{plan.n_subsamples} disjoint subsamples of {plan.size} rows need more than the {n} rows.")
    order = rng.permutation(n)
    if stratify:
        shuffled = np.unique(labels, return_inverse=True)[1][order]
        by_class = np.argsort(shuffled, kind="stable")
        counts = np.bincount(shuffled)
        starts = np.cumsum(counts) - counts
        rank = np.empty(n)
        rank[by_class] = np.arange(n) - np.repeat(starts, counts)
        order = order[np.argsort((rank + 0.5) / counts[shuffled], kind="stable")]
    return [np.sort(order[i * plan.size : (i + 1) * plan.size]) for i in range(plan.n_subsamples)]


#: a machine trained on the rows with these numbers (and, as an option, this weight of each)
FitRows = Callable[..., Any]


def last_step(estimator: Any) -> Any:
    """The estimator itself, or the last step of a pipeline."""
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator


def support_positions(fitted: Any, X: Any, y: Array) -> Array:
    """Positions of the support vectors among the rows a classifier was trained on, increasing.

    `support_` where the classifier has it; else the rows whose margin is at most one in some output, which are the
    support vectors of a hinge-loss machine.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from kompakt.reduce.local_sampling import support_positions
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> support_positions(SVC(kernel="linear", C=100.0).fit(X, y), X, y).tolist()
    [1, 2]
    """
    support = getattr(last_step(fitted), "support_", None)
    if support is not None:
        return np.sort(np.asarray(support, dtype=np.intp))
    if not hasattr(fitted, "decision_function"):
        raise TypeError(
            f"the estimator must have support_ or a decision function after fit; {type(fitted).__name__} has neither. "
            "Use SVC, LinearSVC or another machine with margins."
        )
    values = np.asarray(fitted.decision_function(X), dtype=np.float64)
    classes = fitted.classes_
    if values.ndim == 1:
        margins = np.where(y == classes[1], values, -values)
    else:
        margins = np.where(y[:, None] == classes[None, :], values, -values).min(axis=1)
    # solvers stop a little short of the margin
    return np.flatnonzero(margins <= 1.0 + 1e-3)


def support_of_subsamples(fit: FitRows, X: Any, y: Array, subsamples: Sequence[Array], run: Run) -> tuple[Array, int]:
    """Train on every subsample: the union V of their support vectors (step (ii)), and how many had one class only.

    A subsample with one class has no SVM: it is left out and reported.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from kompakt.reduce.local_sampling import support_of_subsamples
    >>> from kompakt.run import Run
    >>> X, y = np.arange(8.0)[:, None], np.array([0, 0, 0, 0, 1, 1, 1, 1])
    >>> fit = lambda rows: SVC(kernel="linear", C=100.0).fit(X[rows], y[rows])
    >>> rows, _ = support_of_subsamples(fit, X, y, [np.array([0, 3, 4, 7]), np.array([1, 2, 5, 6])], Run())
    >>> rows.tolist()
    [2, 3, 4, 5]
    """

    def one(rows: Array) -> Array | None:
        labels = y[rows]
        if np.all(labels == labels[0]):
            return None
        return np.asarray(rows[support_positions(fit(rows), X[rows], labels)])

    found = list(run.tracked(ordered_map(one, list(subsamples)), "subsamples", len(subsamples)))
    good = [rows for rows in found if rows is not None and len(rows)]
    one_class = sum(rows is None for rows in found)
    if not good:
        raise ValueError(
            f"all {len(found)} subsamples of {len(subsamples[0])} rows hold one class only, so none has support "
            "vectors. Raise delta, lower n_subsamples, or set stratify=True."
        )
    if one_class:
        warnings.warn(
            f"{one_class} of {len(found)} subsamples hold one class only and were left out. Raise delta, lower "
            "n_subsamples, or set stratify=True.",
            ReductionWarning,
            stacklevel=2,
        )
    return np.sort(np.concatenate(good)), one_class


#: rows of a class that are added where a reduced set has none of it
ROWS_OF_A_LOST_CLASS = 5


def with_every_class(rows: Array, y: Array, pool: Array, rng: np.random.Generator) -> Array:
    """The reduced set with a few random rows of every class that it lost, sorted; a loss is reported.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.reduce.local_sampling import with_every_class
    >>> with_every_class(np.array([0, 1]), np.array([0, 1, 0, 1]), np.arange(4), np.random.default_rng(0)).tolist()
    [0, 1]
    """
    lost = np.setdiff1d(y[pool], y[rows])
    if not len(lost):
        return rows
    added = []
    for label in lost:
        members = pool[y[pool] == label]
        added.append(rng.choice(members, size=min(len(members), ROWS_OF_A_LOST_CLASS), replace=False))
    warnings.warn(
        f"the reduced training set held no rows of {len(lost)} of the classes ({lost[:5].tolist()}); up to "
        f"{ROWS_OF_A_LOST_CLASS} random rows of each were added. Raise delta, or set stratify=True.",
        ReductionWarning,
        stacklevel=2,
    )
    return np.union1d(rows, np.concatenate(added))


#: from here on a k-d tree looks at nearly every point (scikit-learn's own rule draws the line there as well)
MOST_DIMENSIONS_FOR_TREES = 15
#: distances in a block of the brute-force search of balls
_BLOCK_ENTRIES = 1 << 20
#: pairs (row, centre) of a first pass that are kept for the second; others are found again
_KEPT_PAIRS = 1 << 24


def search_method(X: Any) -> str:
    """Return "kd_tree" for dense rows of few dimensions, else "brute"."""
    return "brute" if sparse.issparse(X) or X.shape[1] > MOST_DIMENSIONS_FOR_TREES else "kd_tree"


def kth_distances(V: Any, k: int) -> Array:
    """Distance of every row of V to its k-th nearest other row (step (iii)), (m,)."""
    index = NearestNeighbors(n_neighbors=k, algorithm=search_method(V)).fit(near_origin(V))
    # called without rows, scikit-learn leaves out each point itself, also among duplicates of it
    return np.asarray(index.kneighbors()[0][:, k - 1])


def near_origin(X: Any) -> Any:
    """X itself, or a centred copy of dense rows so far away that distances would drown in their squares.

    Brute-force searches of scikit-learn form |x|^2 - 2xz + |z|^2 in float64: it loses the digits of |x|^2 / spread^2.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.reduce.local_sampling import near_origin
    >>> near_origin(np.array([[1e9, 0.0], [1e9 + 1.0, 0.0]])).tolist()
    [[-0.5, 0.0], [0.5, 0.0]]
    """
    if sparse.issparse(X):
        return X
    some = np.asarray(X[:: max(1, X.shape[0] // 1000)], dtype=np.float64)
    centre = some.mean(axis=0)
    if float(centre @ centre) <= 1e6 * float(some.var(axis=0).sum()):
        return X
    return X - centre.astype(X.dtype)


def nearest_index(X: Any, k: int) -> NearestNeighbors:
    """Index of the rows for their k nearest neighbours; it keeps a reference to X, not a copy."""
    method = search_method(X)
    if method == "kd_tree" and not (X.dtype == np.float64 and X.flags.c_contiguous):
        method = "brute"  # the tree would make a float64 copy
    return NearestNeighbors(n_neighbors=k, algorithm=method).fit(X)


#: parallel arrays: rows, increasing, and centres that lie within the radius of each other
Pairs = tuple[Array, Array]


class BallSearch:
    """Which rows lie within a radius of which centres, block by block of rows.

    The tree is built on the centres, which are few, and rows are looked up in it: so rows are never copied, and any
    row type that can be sliced will do.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.reduce.local_sampling import BallSearch
    >>> search = BallSearch(np.array([[0.0], [1.0], [5.0]]), np.array([[0.4], [5.0]]))
    >>> [(rows.tolist(), centres.tolist()) for rows, centres in search.blocks(0.5)]
    [([0, 2], [0, 1])]
    """

    def __init__(self, X: Any, centres: Any, method: str | None = None) -> None:
        self.X, self.centres = X, centres
        self.method = search_method(X) if method is None else method
        n, m = X.shape[0], max(1, centres.shape[0])
        self.block_rows = max(1, min(n, _BLOCK_ENTRIES // m)) if self.method == "brute" else 8192
        self._known: tuple[float, list[tuple[Pairs, Array]]] | None = None
        if self.method == "kd_tree":
            self._tree = KDTree(centres)
        else:
            # distances near zero must not drown in the squares of a far-away origin
            self._shift = None if sparse.issparse(X) else np.asarray(centres, dtype=np.float64).mean(axis=0)
            self._C = self._near_origin(centres)

    def _near_origin(self, rows: Any) -> Any:
        rows = rows.astype(np.float64) if sparse.issparse(rows) else np.asarray(rows, dtype=np.float64)
        return rows if self._shift is None else rows - self._shift

    def blocks(self, radius: float) -> Iterator[Pairs]:
        """Pairs of all blocks, in the order of the rows."""
        starts = range(0, self.X.shape[0], self.block_rows)
        return ordered_map(lambda start: self.pairs(start, radius), starts)

    def remember(self, radius: float) -> None:
        """Search once for all radii up to this one, where the pairs are few enough to be held."""
        n_blocks = -(-self.X.shape[0] // self.block_rows)
        if len(self.pairs(0, radius)[0]) * n_blocks <= _KEPT_PAIRS:
            found = list(self.blocks(radius))
            apart = (self.X[rows] - self.centres[centres] for rows, centres in found)
            distances = [np.sqrt(_row_squares(difference)) for difference in apart]
            self._known = radius, list(zip(found, distances, strict=True))

    def pairs(self, start: int, radius: float) -> Pairs:
        """Pairs of the block that begins with row `start`."""
        if self._known is not None and radius <= self._known[0]:
            pairs, distances = self._known[1][start // self.block_rows]
            return _some(pairs, distances <= radius)
        block = self.X[start : start + self.block_rows]
        rows, centres = self._in_tree(block, radius) if self.method == "kd_tree" else self._brute(block, radius)
        return rows + start, centres

    def _in_tree(self, block: Any, radius: float) -> tuple[Array, Array]:
        found = self._tree.query_radius(block, radius)
        counts = np.fromiter((len(centres) for centres in found), dtype=np.intp, count=len(found))
        centres = np.concatenate(found).astype(np.intp) if len(found) else np.empty(0, dtype=np.intp)
        rows = np.repeat(np.arange(len(found)), counts)
        return rows, centres[np.lexsort((centres, rows))]  # the tree's own order depends on the radius

    def _brute(self, block: Any, radius: float) -> tuple[Array, Array]:
        B = self._near_origin(block)
        D = euclidean_distances(B, self._C, squared=True)
        # |x|^2 - 2xz + |z|^2 is wrong by a few roundings of |x|^2 + |z|^2: pairs nearer to the edge are looked at again
        slack = 1e-12 * sum(float(_row_squares(A).max(initial=0.0)) for A in (B, self._C))
        rows, centres = np.nonzero(D <= radius * radius + slack)
        beyond = D[rows, centres] - radius * radius
        inside, edge = beyond <= 0, np.flatnonzero(np.abs(beyond) <= slack)
        inside[edge] = np.sqrt(_row_squares(B[rows[edge]] - self._C[centres[edge]])) <= radius
        return rows[inside], centres[inside]


def _some(pairs: Pairs, which: Array) -> Pairs:
    return pairs[0][which], pairs[1][which]


def _row_squares(A: Any) -> Array:
    if sparse.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.asarray(np.einsum("ij,ij->i", A, A))


def draw_from_balls(
    search: BallSearch, radius: float, share: Any, allowed: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Sample from every ball without replacement; the union of what was drawn.

    Parameters
    ----------
    search : BallSearch
    radius : float
    share : callable
        Takes the number of allowed rows in each ball, (m,), and gives the number wanted, real, (m,).  The part after
        the point is the chance of one row more, so that the expectation is met.
    allowed : ndarray of bool, shape (n,)
        Rows that may be drawn.
    rng : Generator

    Returns
    -------
    (rows, counts)
        Sorted row numbers, each once, and the number of allowed rows in every ball.

    Notes
    -----
    One pass counts, the other draws: of the rows wanted from a ball, the number that falls in a block is
    hypergeometric given what the blocks before it gave.  So memory is bounded by the blocks, not by the balls.
    """
    m = search.centres.shape[0]
    counts = np.zeros(m, dtype=np.int64)
    kept: list[Pairs | None] = []
    n_kept = 0
    for found in search.blocks(radius):
        pairs = _some(found, allowed[found[0]])
        counts += np.bincount(pairs[1], minlength=m)
        n_kept += len(pairs[0])
        kept.append(pairs if n_kept <= _KEPT_PAIRS else None)
    wanted = np.clip(np.asarray(share(counts), dtype=np.float64), 0.0, counts)
    missing = np.minimum(np.floor(wanted + rng.random(m)).astype(np.int64), counts)
    left = counts.copy()
    drawn = np.zeros(search.X.shape[0], dtype=bool)
    for number, block in enumerate(kept):
        if block is None:
            found = search.pairs(number * search.block_rows, radius)
            block = _some(found, allowed[found[0]])
        here = np.bincount(block[1], minlength=m)
        take = rng.hypergeometric(here, left - here, missing)
        left, missing = left - here, missing - take
        drawn[_some_of_each(block, here, take, rng)] = True
    return np.flatnonzero(drawn), counts


def _some_of_each(block: Pairs, here: Array, take: Array, rng: np.random.Generator) -> Array:
    """Rows of a block: `take[j]` of the `here[j]` rows of ball j, at random."""
    rows, centres = block
    whole = (take == here)[centres]  # nothing to choose
    some = (take < here) & (take > 0)
    partly = np.flatnonzero(some[centres])
    order = partly[np.lexsort((rng.random(len(partly)), centres[partly]))]
    here, take = here[some], take[some]
    rank = np.arange(len(order)) - np.repeat(np.cumsum(here) - here, here)
    return np.concatenate([rows[whole], rows[order[rank < np.repeat(take, here)]]])


T = TypeVar("T")


class Clock:
    """Seconds of named phases, added up.

    Examples
    --------
    >>> from kompakt.reduce.local_sampling import Clock
    >>> clock = Clock()
    >>> with clock.phase("fits"):
    ...     pass
    >>> list(clock.seconds)
    ['fits']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time inside the context for phase `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def best_while_improving(steps: Iterable[T], error: Callable[[T], float], tol: float = 0.0, patience: int = 1) -> T:
    """Take steps until the error has not improved `patience` times running; the step with the smallest error.

    A step improves if its error is below the best so far by more than `tol` times it.

    Examples
    --------
    >>> from kompakt.reduce.local_sampling import best_while_improving
    >>> best_while_improving(iter([5, 3, 4, 1]), float)
    3
    """
    best: T | None = None
    least = float("inf")
    waited = 0
    for step in steps:
        value = error(step)
        improved = best is None or value < least * (1.0 - tol)
        if best is None or value < least:
            best, least = step, value
        waited = 0 if improved else waited + 1
        if waited >= patience:
            break
    if best is None:
        raise ValueError("there was no step to take.")
    return best


# -- the steps -------------------------------------------------------------------------------------------


def neighbour_rank(m: int) -> int:
    """k = floor(ln m) (step (iii)), at least 1.

    Examples
    --------
    >>> from kompakt.reduce.local_sampling import neighbour_rank
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
    >>> from kompakt.reduce.local_sampling import intensities
    >>> intensities(np.array([1.0, 2.0, 2.0])).tolist()
    [0.5, 0.25, 0.25]
    """
    positive = radii[radii > 0]
    if not len(positive):
        return np.full(len(radii), 1.0 / len(radii))
    inverse = 1.0 / np.maximum(radii, positive.min())
    return np.asarray(inverse / inverse.sum())


#: intensity -> rows wanted from each ball, given the weights eta (m,), the rows in each ball (m,) and the rows in X \ T
INTENSITY: dict[str, Callable[[Array, Array, int], Array]] = {
    # a fraction eta_j of the ball, as it is printed: about 1 / m, so that hardly anything is drawn
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
    rho, positive = float(np.median(radii)), radii[radii > 0]
    if rho > 0:
        return rho
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
    >>> from kompakt.reduce.local_sampling import thinned
    >>> len(thinned(np.arange(50), 30, 10, np.random.default_rng(0)))
    20
    """
    if most is None or n_centres + len(drawn) <= most:
        return drawn
    return np.sort(rng.choice(drawn, size=max(0, most - n_centres), replace=False))


# -- the procedure ---------------------------------------------------------------------------------------


@dataclass
class ReducedSet:
    """A reduced training set and the machine trained on it; row numbers are those of the rows given.

    Attributes
    ----------
    rows : ndarray
        The training set.
    machine : object or None
        Trained on `rows`; None where no fit was asked for.
    support : ndarray
        Support vectors of the machine, row numbers.
    error : float
        On the validation rows; nan without validation.
    factor : float or ndarray
        Weight of each row in the machine's fit: the rows of the pool that it stands for.
    initial_support : ndarray
        Support vectors of the first subsamples.
    history : list of dict
        One record per training set that was tried.
    seconds : dict
        Time of every phase.
    beta, radius, n_drawn, subsamples, radii, n_one_class
        Of local sampling: V and what was drawn around it, in balls of beta times the median radius.
    """

    rows: Array
    machine: Any = None
    support: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    error: float = float("nan")
    factor: Any = 1.0
    initial_support: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    beta: float = 0.0
    radius: float = 0.0
    n_drawn: int = 0
    subsamples: list[Array] = field(default_factory=list)
    radii: Array = field(default_factory=lambda: np.empty(0))
    n_one_class: int = 0
