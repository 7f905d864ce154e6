"""Ways to search: a grid, and random points or coupled annealing followed by a simplex."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count, product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import RBFInterpolator
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import check_random_state

from kompakt.heldout import Trials
from kompakt.run import Run

FloatArray = NDArray[np.float64]
Evaluate = Callable[[dict[str, float]], float]

#: steps of the annealing begin at this share of the box
_STEP = 0.5
#: first temperature, in standard deviations of the values that the annealing starts from
_HEAT = 0.3
#: change of the temperature in each round
_RATE = 0.05
#: edges of the first simplex, and the size at which it has converged, as shares of the box
_EDGE, _CONVERGED = 0.1, 1e-4
# The look-ahead solves for one unknown per known point: older ones are left out beyond this many.
_MAX_KNOWN = 300


class Space:
    """A box of named parameters; searches see it as the unit cube.

    Parameters
    ----------
    axes : dict of (lower, upper) or (lower, upper, "log")
        Ends of each parameter, lower < upper; those of a logarithmic axis are positive.

    Examples
    --------
    >>> from kompakt.search import Space
    >>> Space({"C": (0.01, 100.0, "log"), "epsilon": (0.0, 1.0)}).params([1.0, 0.25])
    {'C': 100.0, 'epsilon': 0.25}
    """

    def __init__(self, axes: Mapping[str, Sequence[Any]]) -> None:
        self.axes = {name: (float(low), float(high), bool(log)) for name, (low, high, *log) in axes.items()}

    def params(self, unit: ArrayLike) -> dict[str, float]:
        """Values of the parameters at a point of the unit cube, never outside the box."""
        values = {}
        for (name, (low, high, log)), at in zip(self.axes.items(), np.asarray(unit, dtype=np.float64), strict=True):
            ends = np.log([low, high]) if log else np.array([low, high])
            value = ends[0] + at * (ends[1] - ends[0])
            # exp(log(x)) may miss x by a rounding: the ends are exact and nothing lies beyond them.
            value = low if at <= 0.0 else high if at >= 1.0 else np.exp(value) if log else value
            values[name] = float(np.clip(value, low, high))
        return values


class SearchStopped(Exception):
    """The budget or the time is used up: a signal between the parts, which never leaves this module."""


class Evaluator:
    """Evaluates points of the unit cube and writes them into a table.

    Parameters
    ----------
    evaluate : callable
        Function of the parameters (a dict) to be minimised. NaN and infinite values count as failures: they take part
        as the worst value there is, and are reported in a warning at the end.
    space : Space
        The box.
    run : Run, optional
        No evaluation starts after its deadline, except the first: there is always a result.
    """

    def __init__(self, evaluate: Evaluate, space: Space, run: Run | None = None) -> None:
        self.trials = Trials()
        self.space = space
        self.points: list[FloatArray] = []  # in the unit cube
        self._evaluate, self._run = evaluate, run or Run()
        self._phase, self._left = "", 0
        self._step: Callable[[], bool] = lambda: False

    @contextmanager
    def phase(self, name: str, n_evaluations: int) -> Iterator[None]:
        """A part of the search that may use this many evaluations."""
        if n_evaluations < 1:
            raise ValueError(f"A search needs at least 1 evaluation, got {n_evaluations}.")
        self._phase, self._left = name, n_evaluations
        with self._run.task(f"search ({name})", n_evaluations) as self._step:
            try:
                yield
            except SearchStopped as reason:
                self.trials.stopped = str(reason)

    def __call__(self, unit: FloatArray) -> float:
        """Value at a point of the unit cube, infinite for a failure."""
        if self._left <= 0:
            raise SearchStopped("budget")
        if self.points and self._run.late:
            raise SearchStopped("deadline")
        params, started = self.space.params(unit), time.perf_counter()
        error = self._evaluate(dict(params))
        self.trials.add(params, error, seconds=time.perf_counter() - started, phase=self._phase)
        self.points.append(np.array(unit, dtype=np.float64))
        self._left -= 1
        if self._step():
            raise SearchStopped("deadline")  # a listener asks to stop, which is what a deadline does
        return self.trials.rows[-1].error


def _reported(trials: Trials) -> Trials:
    """Warns when evaluations failed and raises when all did."""
    if trials.n_failed == len(trials):
        raise ValueError(
            f"All {len(trials)} evaluations of the search gave NaN or infinite values, the first at "
            f"{trials.rows[0].params}. Check the data or move the box."
        )
    if trials.n_failed:
        warnings.warn(
            f"{trials.n_failed} of {len(trials)} evaluations of the search gave NaN or infinite values "
            "and were passed over.",
            FitFailedWarning,
            stacklevel=3,
        )
    return trials


def grid_search(value: Evaluator, n_points: int | Sequence[int] = 10) -> None:
    """Every point of a grid that is even on each axis (on its logarithm where the axis has one).

    Parameters
    ----------
    value : Evaluator
        What is minimised; the first of equal values is the best.
    n_points : int or sequence of int
        Points per axis, ends included; a single point stands in the middle of its axis.
    """
    n_axes = len(value.space.axes)
    counts = [n_points] * n_axes if isinstance(n_points, (int, np.integer)) else list(n_points)
    if len(counts) != n_axes or min(counts) < 1:
        raise ValueError(f"n_points must be one count >= 1 per axis ({n_axes}), got {n_points}.")
    with value.phase("grid", int(np.prod(counts))):
        for point in product(*(np.linspace(0.0, 1.0, count) if count > 1 else [0.5] for count in counts)):
            value(np.array(point))


def random_then_simplex(value: Evaluator, *, n_random: int = 90, n_simplex: int = 70, random_state: Any = None) -> None:
    """Independent uniform points of the box, then Nelder-Mead from the best; arguments as for `anneal_then_simplex`."""
    with value.phase("random", n_random):
        for point in check_random_state(random_state).uniform(size=(n_random, len(value.space.axes))):
            value(point)
    run_simplex(value, n_simplex)


def anneal_then_simplex(
    value: Evaluator,
    *,
    n_anneal: int = 90,
    n_simplex: int = 70,
    n_starters: int = 5,
    look_ahead: int = 4,
    random_state: Any = None,
) -> None:
    """Coupled simulated annealing, then Nelder-Mead from the best point (De Brabanter et al. 2010, section 6.3).

    Parameters
    ----------
    value : Evaluator
        What is minimised.
    n_anneal, n_simplex : int
        Evaluations of the two phases; the second may be 0.
    n_starters : int
        Number of coupled searchers.
    look_ahead : int
        Each searcher draws this many steps and tries the one that all evaluations so far make most promising;
        1 tries every step it draws, as in the paper.
    random_state : int, RandomState or None
        Seed; the same seed gives the same points.
    """
    if n_starters < 2:
        raise ValueError(f"Coupled annealing needs at least 2 starters, got {n_starters}.")
    if look_ahead < 1:
        raise ValueError(f"look_ahead must be at least 1 step per searcher, got {look_ahead}.")
    with value.phase("anneal", n_anneal):
        run_annealing(value, n_starters, look_ahead, check_random_state(random_state))
    run_simplex(value, n_simplex)


def run_annealing(value: Evaluator, n_starters: int, look_ahead: int, rng: np.random.RandomState) -> None:
    """Coupled simulated annealing until the budget is used (De Brabanter et al. 2010, algorithm 6)."""
    # One starting point in each of n_starters slices of every axis, in random combination.
    slices = np.column_stack([rng.permutation(n_starters) for _ in value.space.axes])
    points = (slices + rng.uniform(size=slices.shape)) / n_starters
    values = np.array([value(point) for point in points])
    finite = values[np.isfinite(values)]
    # The spread of the starting values makes the method blind to the unit of the function.
    spread = float(finite.std()) if finite.size > 1 else 0.0
    temperature = _HEAT * (spread if spread > 0 else 1.0)
    for k in count(1):
        # Cauchy steps: mostly short, sometimes across the whole box; folded back into the cube at its walls.
        draws = np.tan(np.pi * (rng.uniform(size=(n_starters, look_ahead, points.shape[1])) - 0.5))
        candidates = np.mod(points[:, None, :] + _STEP / np.sqrt(k) * draws, 2.0)
        candidates = np.minimum(candidates, 2.0 - candidates)
        probes = most_promising(candidates, np.array(value.points), value.trials.errors)
        probe_values = np.array([value(probe) for probe in probes])
        # A failed point counts as a little worse than the worst that did not fail.
        finite = np.concatenate([values, probe_values])
        finite = finite[np.isfinite(finite)]
        worst = finite.max() + temperature if finite.size else 0.0
        chances = acceptance(np.where(np.isfinite(values), values, worst), temperature)
        taken = (probe_values <= values) | (chances > rng.uniform(size=n_starters))
        points = np.where(taken[:, None], probes, points)
        values = np.where(taken, probe_values, values)
        temperature *= temperature_factor(chances)


def acceptance(values: FloatArray, temperature: float) -> FloatArray:
    """Probability that each searcher takes a worse point: exp((E_i - max E) / T) / sum_j exp((E_j - max E) / T).

    The worse a searcher stands, the more freely it moves. The control of the variance presupposes that they sum to one.
    """
    shares = np.exp((values - values.max()) / temperature)
    return np.asarray(shares / shares.sum())


def temperature_factor(chances: FloatArray) -> float:
    """Factor for the temperature: down when the probabilities vary too little (algorithm 6, steps 15 to 19)."""
    q = len(chances)
    variance = (chances**2).mean() - 1.0 / q**2
    return 1.0 - _RATE if variance < 0.99 * (q - 1) / q**2 else 1.0 + _RATE


def most_promising(candidates: FloatArray, points: FloatArray, values: FloatArray, trust: float = 0.5) -> FloatArray:
    """One candidate per searcher.

    Parameters
    ----------
    candidates : ndarray of shape (n_searchers, n_candidates, n_axes)
        Points to choose from, in the unit cube.
    points, values : ndarray of shape (n, n_axes), (n,)
        Evaluations so far; an infinite value is a failure.
    trust : float
        Weight of the prediction; the rest is the weight of the distance to what is known.

    Returns
    -------
    ndarray of shape (n_searchers, n_axes)
        The chosen points.
    """
    if candidates.shape[1] == 1:
        return candidates[:, 0]
    points, values = points[-_MAX_KNOWN:], values[-_MAX_KNOWN:]
    chosen = np.empty_like(candidates[:, 0])
    predicted = _interpolated(candidates.reshape(-1, candidates.shape[2]), points, values)
    for i, (steps, prediction) in enumerate(zip(candidates, predicted.reshape(candidates.shape[:2]), strict=True)):
        # the points chosen in this round count as known
        distance = cdist(steps, np.vstack([points, chosen[:i]])).min(axis=1)
        merit = trust * _scaled(prediction) - (1.0 - trust) * _scaled(distance)
        chosen[i] = steps[np.argmin(merit)]
    return chosen


def _scaled(values: FloatArray) -> FloatArray:
    span = np.ptp(values)
    return (values - values.min()) / span if span > 0 else np.zeros_like(values)


def _interpolated(at: FloatArray, points: FloatArray, values: FloatArray) -> FloatArray:
    """Cubic radial basis interpolation; all zero (no opinion) where there is nothing to go by."""
    finite = np.isfinite(values)
    if finite.sum() < 2 or len(points) < points.shape[1] + 2:
        return np.zeros(len(at))
    cut = np.median(values[finite])
    heights = np.minimum(np.where(finite, values, cut), cut)
    span = np.ptp(heights)
    if span == 0:
        return np.zeros(len(at))
    try:
        # Smoothed a little: points may have been visited twice.
        return np.asarray(RBFInterpolator(points, (heights - cut) / span, smoothing=1e-9, kernel="cubic")(at))
    except np.linalg.LinAlgError:  # all points on one line: let the distances decide
        return np.zeros(len(at))


def run_simplex(value: Evaluator, n_evaluations: int) -> None:
    """Nelder-Mead from the best point so far, unless time is up, there is no budget, or no point to start from."""
    if value.trials.stopped == "deadline" or n_evaluations == 0 or not np.isfinite(value.trials.errors).any():
        return
    best = int(np.argmin(value.trials.errors))
    start = value.points[best]
    heights = {start.tobytes(): value.trials.rows[best].error}  # the box may send several corners to one point

    def height(unit: FloatArray) -> float:
        if unit.tobytes() not in heights:
            # SciPy compares differences of corner values, and inf - inf is NaN: keep failures finite but worst.
            heights[unit.tobytes()] = min(value(unit), float(np.finfo(np.float64).max))
        return heights[unit.tobytes()]

    # Corners towards the inside, so that the first simplex lies in the box.
    corners = np.vstack([start, start + np.diag(np.where(start + _EDGE <= 1.0, _EDGE, -_EDGE))])
    options = {"maxfev": 10 * n_evaluations, "xatol": _CONVERGED, "fatol": np.inf, "initial_simplex": corners}
    with value.phase("simplex", n_evaluations):
        minimize(height, start, method="Nelder-Mead", bounds=[(0.0, 1.0)] * len(start), options=options)
        value.trials.stopped = "converged"


@dataclass(frozen=True)
class GridSearch:
    """Search C and the kernel's width on a grid: a value of `tune`.

    Parameters
    ----------
    C, gamma : array-like, default=None
        The values (`SpSVC`); None means 2^-7, ..., 2^7.
    n_points : int or pair of int, default=10
        Points of the axes of C and of the width, which are even in their logarithms (fixed-size machines).

    Examples
    --------
    >>> from kompakt import GridSearch, SpSVC
    >>> SpSVC(10, tune=GridSearch(C=[1.0, 10.0])).tune.values("C").tolist()
    [1.0, 10.0]
    """

    C: Any = None
    gamma: Any = None
    n_points: int | Sequence[int] = 10
    strategy: ClassVar[str] = "grid"

    def __post_init__(self) -> None:
        for name in ("C", "gamma"):
            self.values(name)

    def values(self, name: str) -> FloatArray:
        """The values of a parameter, sorted."""
        chosen = getattr(self, name)
        values = 2.0 ** np.arange(-7, 8) if chosen is None else np.asarray(chosen, dtype=np.float64)
        if values.ndim != 1 or not len(values) or not np.all(np.isfinite(values)) or np.any(values <= 0):
            raise ValueError(f"{name} of GridSearch must be a list of positive, finite numbers; got {chosen!r}.")
        return np.sort(values)

    def options(self) -> dict[str, Any]:
        """Arguments of `grid_search`."""
        return {"n_points": self.n_points}


@dataclass(frozen=True)
class Annealing:
    """Search C and the kernel's width by coupled simulated annealing, then the simplex method: a value of `tune`.

    Parameters
    ----------
    n_anneal, n_simplex : int, default=90, 70
        Evaluations of the two phases; the second may be 0.
    n_starters : int, default=5
        Number of coupled searchers.
    look_ahead : int, default=4
        Each searcher draws this many steps and tries the one that all evaluations so far make most promising; 1 tries
        every step it draws, as in De Brabanter et al. 2010.

    Examples
    --------
    >>> from kompakt import Annealing, FixedSizeLSSVC
    >>> FixedSizeLSSVC(20, tune=Annealing(look_ahead=1)).tune.n_anneal
    90
    """

    n_anneal: int = 90
    n_simplex: int = 70
    n_starters: int = 5
    look_ahead: int = 4
    strategy: ClassVar[str] = "anneal"

    def options(self) -> dict[str, Any]:
        """Arguments of `anneal_then_simplex`."""
        return asdict(self)


@dataclass(frozen=True)
class RandomSearch:
    """Search C and the kernel's width by random points, then the simplex method: a value of `tune`.

    Parameters
    ----------
    n_random, n_simplex : int, default=90, 70
        Evaluations of the two phases; the second may be 0.

    Examples
    --------
    >>> from kompakt import FixedSizeLSSVC, RandomSearch
    >>> FixedSizeLSSVC(20, tune=RandomSearch(n_random=12, n_simplex=0)).tune.n_random
    12
    """

    n_random: int = 90
    n_simplex: int = 70
    strategy: ClassVar[str] = "random"

    def options(self) -> dict[str, Any]:
        """Arguments of `random_then_simplex`."""
        return asdict(self)


SEARCHES: dict[str, Callable[..., None]] = {
    "anneal": anneal_then_simplex,
    "grid": grid_search,
    "random": random_then_simplex,
}


def search(
    evaluate: Evaluate, space: Space, strategy: str = "anneal", *, run: Run | None = None, **options: Any
) -> Trials:
    """Minimise by the search of this name.

    Parameters
    ----------
    evaluate : callable
        Function of the parameters (a dict) to be minimised.
    space : Space
        The box.
    strategy : {"anneal", "grid", "random"}
        Annealing then simplex, grid, or random points then simplex.
    run : Run, optional
        No evaluation starts after its deadline, except the first.
    **options
        Arguments of `anneal_then_simplex`, `grid_search` or `random_then_simplex`.

    Returns
    -------
    Trials
        All evaluations.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.search import Space, search
    >>> search(lambda p: p["x"] ** 2, Space({"x": (-1.0, 1.0)}), "grid", n_points=5).best.error
    0.0
    >>> space = Space({"C": (1e-3, 1e5, "log"), "gamma": (1e-4, 1e2, "log")})
    >>> valley = lambda p: (np.log10(p["C"]) - 2) ** 2 + (np.log10(p["gamma"]) + 1) ** 2
    >>> [round(float(np.log10(value)), 2) for value in search(valley, space, random_state=0).best.params.values()]
    [2.0, -1.0]
    """
    value = Evaluator(evaluate, space, run)
    SEARCHES[strategy](value, **options)
    return _reported(value.trials)
