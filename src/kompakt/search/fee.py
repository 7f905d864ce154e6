"""The search of Navia-Vazquez and Diaz-Morales 2010: two grids of (sigma, C), every point grown on the same folds.

First sigma = 2^n sqrt(N), n = -6..3, and C = 10^n, n = -4..5, then a finer grid round the best point: 1,000 trainings
with five folds.  All of them share the folds, the distances between rows and the order in which candidates are drawn.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from kompakt.basis.columns import SharedKernels
from kompakt.basis.fee import FeePlan, grow_on
from kompakt.basis.forward import CandidateStream
from kompakt.data import hash_rows
from kompakt.heldout import Split, Trials
from kompakt.kernels import RBF
from kompakt.parallel import block_threads, current_threads
from kompakt.spec import Data, Spec

Array = np.ndarray

#: how a winner is chosen, and what that is called
_REASONS = {
    "min": "the lowest held-out error",
    "confirmed": "the lowest error that the folds confirm, averaged with its neighbours,",
    "one_se": "the smallest model within one standard error of the lowest error that the folds confirm",
}
RULES = tuple(_REASONS)


@dataclass(frozen=True)
class Point:
    """One pair of hyperparameters and what its folds stored."""

    sigma: float
    C: float
    errors: Array  # (F,), lowest validation error of each fold
    sizes: Array  # (F,), the size that reached it
    confirmed: Array | None = None  # (F,), error of the machine regrown to `size` without a look at the fold's rows

    @property
    def error(self) -> float:
        """Cross-validation error."""
        return float(np.mean(self.errors))

    @property
    def gamma(self) -> float:
        """Width of the Gaussian kernel exp(-gamma d^2) = exp(-d^2 / (2 sigma^2))."""
        return float(0.5 / self.sigma**2)

    @property
    def size(self) -> int:
        """Mean stored size, to which the machine is regrown on all rows."""
        return max(1, round(float(np.mean(self.sizes))))


def choose_point(points: list[Point], shapes: list[tuple[int, int]], rule: str, limit: float | None = None) -> Point:
    """The best point of some grids; see `kompakt.search.fee.search_fee` for the rules.

    Parameters
    ----------
    points : list of Point
        Grid by grid, sigma by sigma.
    shapes : list of (int, int)
        Of the grids, (sigmas, costs).
    rule : {"min", "confirmed", "one_se"}
    limit : float, optional
        For "one_se", error that the machine must reach in place of `one_se_limit`, so that machines of several searches
        are held to the same; the lowest confirmed error where none reaches it.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.search.fee import Point, choose_point
    >>> few, many = np.array([4, 4]), np.array([30, 30])
    >>> points = [
    ...     Point(2.0, 1.0, np.array([0.10, 0.12]), few, np.array([0.12, 0.14])),
    ...     Point(0.1, 1.0, np.array([0.05, 0.05]), many, np.array([0.20, 0.30])),
    ... ]
    >>> choose_point(points, [(2, 1)], "min").size, choose_point(points, [(2, 1)], "one_se").size
    (30, 4)
    """
    if rule == "min":
        return min(points, key=_order)
    if rule not in RULES:
        raise ValueError(f"rule must be one of {RULES}; got {rule!r}.")
    smooth = _smoothed(points, shapes)
    best = points[int(np.argmin(smooth))]
    limit = one_se_limit(points, shapes) if limit is None else limit
    if rule == "confirmed" or limit < smooth.min():
        return best
    close = [point for point, error in zip(points, smooth, strict=True) if error <= limit]
    return min(close, key=lambda point: (float(np.mean(point.sizes)), *_order(point)))


def one_se_limit(points: list[Point], shapes: list[tuple[int, int]]) -> float:
    """The lowest smoothed confirmed error plus one standard error of its folds."""
    smooth = _smoothed(points, shapes)
    errors = points[int(np.argmin(smooth))].confirmed
    assert errors is not None
    return float(smooth.min()) + (float(np.std(errors, ddof=1)) / np.sqrt(len(errors)) if len(errors) > 1 else 0.0)


def _smoothed(points: list[Point], shapes: list[tuple[int, int]]) -> Array:
    """Confirmed errors averaged with their neighbours in the grid, those at the border with the nearest there are."""
    if any(point.confirmed is None for point in points):
        raise ValueError("this rule needs confirmed errors, which a search with rule='min' does not make.")
    errors = np.array([np.mean(point.confirmed) for point in points if point.confirmed is not None])
    surfaces, start = [], 0
    for rows, columns in shapes:
        grid = np.pad(errors[start : start + rows * columns].reshape(rows, columns), 1, mode="edge")
        start += rows * columns
        around = [grid[i : i + rows, j : j + columns] for i in range(3) for j in range(3)]
        surfaces.append(np.mean(around, axis=0).ravel())
    return np.concatenate(surfaces)


def _order(point: Point) -> tuple[float, float, float, float]:
    return round(point.error, 12), float(np.mean(point.sizes)), -point.sigma, point.C


logger = logging.getLogger("kompakt")

SIGMA_EXPONENTS = np.arange(-6.0, 4.0)
C_EXPONENTS = np.arange(-4.0, 6.0)


@dataclass(frozen=True)
class TwoGrids:
    """Search sigma, C and the size of `FEESVC` and `FEESVR` on two grids: a value of `tune`.

    Parameters
    ----------
    sigma_exponents, C_exponents : array-like, default=None
        First grid: sigma = 2^n sqrt(n_features), by default n = -6..3, and C = 10^n, n = -4..5.
    rule : {"min", "confirmed", "one_se"}, default="min"
        Lowest cross-validation error, as in the paper; the lowest that the folds confirm on rows which had no say in
        the choice of vectors (twice the trainings, far less deceived on small sets); or the smallest machine within
        one standard error of that.

    Examples
    --------
    >>> from kompakt import FEESVC, TwoGrids
    >>> FEESVC(tune=TwoGrids(rule="one_se")).tune.rule
    'one_se'
    """

    sigma_exponents: Any = None
    C_exponents: Any = None
    rule: str = "min"

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"rule must be one of {RULES}; got {self.rule!r}.")


#: the finer grid: ten points inside the neighbours of the best
FINE = (np.arange(10) - 4.5) / 5.0


@dataclass(frozen=True)
class FeeSearch:
    """The winner, all points in the order of the grids, and what it cost."""

    best: Point
    points: list[Point]
    shapes: list[tuple[int, int]]  # of the grids, (sigmas, costs)
    n_trainings: int
    n_steps: int
    seconds: float
    cpu_seconds: float  # of all processes, as far as they ran trainings
    rule: str = "min"  # by which `best` won

    def __repr__(self) -> str:
        best = f"gamma {self.best.gamma:.4g}, C {self.best.C:.4g}, error {self.best.error:.4g}"
        return f"<FeeSearch: best of {len(self.points):,} points: {best}, {self.best.size} vectors>"

    @property
    def trials(self) -> Trials:
        """The points as trials, the winner chosen."""
        trials = Trials()
        for point in self.points:
            trials.add({"C": point.C, "gamma": point.gamma, "n_basis": point.size}, point.error, point.errors)
        why = f"{_REASONS[self.rule]} of {self.n_trainings:,} trainings on two grids of (gamma, C)."
        trials.choose(trials.rows[[point is self.best for point in self.points].index(True)], why)
        return trials

    def choose(self, rule: str = "min") -> Point:
        """The winner by a rule; see `search_fee`."""
        return choose_point(self.points, self.shapes, rule)


def search_fee(
    data: Data,
    spec: Spec,
    plan: FeePlan,
    splits: list[Split],
    sigma_exponents: Any = SIGMA_EXPONENTS,
    C_exponents: Any = C_EXPONENTS,
    *,
    fine: bool = True,
    rule: str = "min",
    n_jobs: int | None = None,
) -> FeeSearch:
    """Search sigma and C by the paper's two grids.

    The paper's rule, "min", is the lowest mean of the folds' lowest validation errors; ties go to the smaller machine,
    then to the wider kernel, then to the smaller C.  Those errors are lows of long paths whose vectors were chosen on
    the same rows, and the lowest of two hundred of them flatters flexible machines.  The other rules confirm every
    point: each fold grows the machine that would be returned, to the mean stored size with vectors chosen by the
    training rows alone, and its held-out rows only measure the error.  These errors are averaged with their neighbours
    in the grid; the lowest wins ("confirmed"), or the smallest machine within one standard error of it ("one_se").
    More than one job means processes (the growth of small machines holds the interpreter's lock), each with one BLAS
    thread.

    Parameters
    ----------
    data : Data
    spec : Spec
        Loss, intercept and coding; the kernel is a Gaussian of the width in question, and C that of the point.
    plan : FeePlan
    splits : list of (train, validation)
    sigma_exponents : array-like
        n in sigma = 2^n sqrt(n_features).
    C_exponents : array-like
        n in C = 10^n.
    fine : bool, default=True
        Whether the second grid is searched, round the point with the lowest error.
    rule : {"min", "confirmed", "one_se"}, default="min"
    n_jobs : int, optional
        Processes; None follows the BLAS limit in force.

    Returns
    -------
    FeeSearch

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.fee import FeePlan
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.kernels import RBF
    >>> from kompakt.losses import Hinge
    >>> from kompakt.search.fee import search_fee
    >>> from kompakt.spec import Data, Spec
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> labels = (X[:, 0] > 0).astype(int)
    >>> folds = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    >>> data = Data(ArrayRows(X, np.where(labels == 1, 1.0, -1.0)[:, None]), labels=labels)
    >>> spec, plan = Spec(RBF(1.0), Hinge(), n_classes=2), FeePlan(10, patience=3)
    >>> search_fee(data, spec, plan, folds, [-1, 0], [0, 1], fine=False, n_jobs=1).n_trainings
    8
    """
    if rule not in RULES:
        raise ValueError(f"rule must be one of {RULES}; got {rule!r}.")
    start, n_steps, seconds = time.perf_counter(), 0, 0.0
    rows, key = data.in_memory, plan.run.key
    points: list[Point] = []
    shapes: list[tuple[int, int]] = []
    with block_threads(n_jobs):
        stream = CandidateStream.of(hash_rows(rows.X, key), key)
        shared = _Shared(data, spec, plan, splits, stream, SharedKernels.of(rows, RBF(1.0), plan.run.budget))
        sigmas: Array = float(np.sqrt(rows.n_features)) * 2.0 ** np.asarray(sigma_exponents, dtype=np.float64)
        costs: Array = 10.0 ** np.asarray(C_exponents, dtype=np.float64)
        while True:
            new_points, work = _grid(shared, sigmas, costs, current_threads(), rule != "min")
            points, n_steps, seconds = points + new_points, n_steps + int(work[0]), seconds + float(work[1])
            shapes.append((len(sigmas), len(costs)))
            last = len(shapes) == 1 + fine
            best = choose_point(points, shapes, rule if last or rule == "min" else "confirmed")
            facts = best.error, best.sigma, best.C, best.size
            logger.info("grid %d: error %.4f, sigma %.3g, C %.3g, size %d", len(shapes), *facts)
            if last:
                break
            sigmas, costs = (best.sigma * 2.0**FINE).astype(np.float64), (best.C * 10.0**FINE).astype(np.float64)
    n_trainings = len(points) * len(splits) * (1 if rule == "min" else 2)
    return FeeSearch(best, points, shapes, n_trainings, n_steps, time.perf_counter() - start, seconds, rule)


class _Shared(NamedTuple):
    """What all trainings of a search share, whatever sigma and C are."""

    data: Data
    spec: Spec
    plan: FeePlan
    splits: list[Split]
    stream: CandidateStream
    kernels: SharedKernels


def _grid(shared: _Shared, sigmas: Array, costs: Array, jobs: int, confirm: bool) -> tuple[list[Point], Array]:
    """All points of a grid, sigma by sigma; number of growth steps and seconds of processor time."""
    grown = _all_folds(shared, sigmas, costs, jobs, None)
    points = [
        Point(float(sigma), float(C), grown[0, s, c], grown[1, s, c].astype(int))
        for s, sigma in enumerate(sigmas)
        for c, C in enumerate(costs)
    ]
    work = np.sum(grown[2:], axis=(1, 2, 3))
    if confirm:
        sizes = np.array([point.size for point in points]).reshape(len(sigmas), len(costs))
        regrown = _all_folds(shared, sigmas, costs, jobs, sizes)
        errors = regrown[0].reshape(len(points), -1)
        points = [replace(point, confirmed=of_point) for point, of_point in zip(points, errors, strict=True)]
        work += np.sum(regrown[2:], axis=(1, 2, 3))
    return points, work


def _all_folds(shared: _Shared, sigmas: Array, costs: Array, jobs: int, sizes: Array | None) -> Array:
    """Errors, sizes, steps and processor seconds of one growth per point and fold, (4, sigmas, costs, folds)."""
    tasks = [
        (costs, float(sigma), split, None if sizes is None else sizes[s])
        for s, sigma in enumerate(sigmas)
        for split in shared.splits
    ]
    run = shared.plan.run
    if jobs == 1:
        results = [_train(shared, *task) for task in run.tracked(tasks, "search", len(tasks))]
    else:
        # arrays beyond a megabyte, the distances above all, are mapped into the processes and not copied
        quiet = shared._replace(plan=replace(shared.plan, run=run.quiet()))
        results = list(Parallel(n_jobs=jobs, batch_size=1)(delayed(_train)(quiet, *task) for task in tasks))
    return np.array(results).reshape(len(sigmas), len(shared.splits), len(costs), 4).transpose(3, 0, 2, 1)


def _train(shared: _Shared, costs: Array, sigma: float, split: Split, sizes: Array | None) -> Array:
    """Grow the machines of one sigma and fold for every C: error, size, steps and processor seconds, (costs, 4).

    The lowest validation error of each path; or, with a size for every C, the error of the machine regrown to that size
    with vectors chosen by the training rows.
    """
    results = np.empty((len(costs), 4))
    with block_threads(1):
        kernel = RBF(0.5 / sigma**2)
        columns = shared.kernels.columns(kernel)
        for place, C in enumerate(costs):
            began = time.process_time()
            spec, plan = replace(shared.spec, kernel=kernel, C=float(C)), shared.plan
            if sizes is not None:
                plan = replace(plan, n_basis=min(plan.n_basis, int(sizes[place])), patience=None)
            confirm = sizes is not None
            _, growth = grow_on(shared.data, spec, plan, shared.stream, split, columns, confirm=confirm)
            results[place] = growth.error, growth.size, len(growth.records), time.process_time() - began
    return results
