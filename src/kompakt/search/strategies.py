"""Successive halving: many settings on little, few settings on much."""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import check_random_state

from kompakt.run import Task, task

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Space:
    """A box of named parameters; strategies see it as the unit cube, `evaluate` sees natural values.

    Parameters
    ----------
    names : sequence of str
        Parameter names.
    lower, upper : sequence of float
        Ends of each axis, lower < upper.
    log : sequence of bool
        Whether an axis is logarithmic (then its ends must be positive).

    Examples
    --------
    >>> from kompakt.search import Space
    >>> space = Space.of({"C": (0.01, 100.0, "log"), "epsilon": (0.0, 1.0)})
    >>> space.natural([0.5, 0.25]).round(9).tolist()
    [1.0, 0.25]
    >>> space.as_dict([1.0, 0.25])
    {'C': 1.0, 'epsilon': 0.25}
    """

    names: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    log: tuple[bool, ...]

    def __post_init__(self) -> None:
        for name in ("names", "lower", "upper", "log"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not len(self.names) == len(self.lower) == len(self.upper) == len(self.log) > 0:
            raise ValueError("A space needs names, lower, upper and log of the same length, at least 1.")
        for name, low, high, log in zip(self.names, self.lower, self.upper, self.log, strict=True):
            if not (np.isfinite(low) and np.isfinite(high) and low < high):
                raise ValueError(f"Axis {name!r} must have finite ends with lower < upper, got {low}, {high}.")
            if log and low <= 0:
                raise ValueError(f"Axis {name!r} is logarithmic, so its ends must be positive, got {low}.")

    @classmethod
    def of(cls, axes: Mapping[str, Sequence[Any]]) -> Space:
        """Space from {name: (lower, upper)} or {name: (lower, upper, "log")}."""
        parts = []
        for name, axis in axes.items():
            if len(axis) not in (2, 3) or (len(axis) == 3 and axis[2] not in ("log", "linear")):
                raise ValueError(
                    f'Axis {name!r} must be (lower, upper) or (lower, upper, "log" or "linear"), got {axis!r}.'
                )
            parts.append((name, float(axis[0]), float(axis[1]), axis[2:] == ("log",) or axis[2:] == ["log"]))
        return cls(*zip(*parts, strict=True)) if parts else cls((), (), (), ())

    @property
    def n_axes(self) -> int:
        """Number of axes."""
        return len(self.names)

    def _ends(self) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        log = np.array(self.log)
        ends = np.array([self.lower, self.upper], dtype=np.float64)
        ends[:, log] = np.log(ends[:, log])
        return ends[0], ends[1], log

    def natural(self, unit: ArrayLike) -> FloatArray:
        """Natural values of a point of the unit cube, never outside the box."""
        low, high, log = self._ends()
        places = np.asarray(unit, dtype=np.float64)
        values = low + places * (high - low)
        values[..., log] = np.exp(values[..., log])
        # exp(log(x)) may miss x by a rounding: the ends are exact and nothing lies beyond them.
        values = np.where(places <= 0.0, self.lower, np.where(places >= 1.0, self.upper, values))
        return np.clip(values, self.lower, self.upper)

    def unit(self, natural: ArrayLike) -> FloatArray:
        """Point of the unit cube with these natural values."""
        low, high, log = self._ends()
        values = np.array(natural, dtype=np.float64)
        if values.shape[-1:] != (self.n_axes,):
            raise ValueError(f"A point of this space has {self.n_axes} values, got shape {values.shape}.")
        if (values < self.lower).any() or (values > self.upper).any():
            raise ValueError(f"The point {values.tolist()} lies outside {self.lower} .. {self.upper}.")
        values[..., log] = np.log(values[..., log])
        return (values - low) / (high - low)

    def as_dict(self, point: ArrayLike) -> dict[str, float]:
        """Natural values by name."""
        return dict(zip(self.names, np.asarray(point, dtype=np.float64).tolist(), strict=True))


def reflected(unit: FloatArray) -> FloatArray:
    """Points folded back into the unit cube at its walls, however far outside they lie."""
    folded = np.mod(unit, 2.0)
    return np.minimum(folded, 2.0 - folded)


Evaluate = Callable[[FloatArray], float]
Callback = Callable[["Evaluation"], None]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evaluation:
    """One evaluation: its number from 0, point (natural values), value (inf when it failed), time, phase."""

    number: int
    point: FloatArray
    value: float
    seconds: float
    phase: str
    failed: bool = False


@dataclass(frozen=True)
class SearchResult:
    """Result of a search.

    Attributes
    ----------
    point : ndarray of shape (n_axes,)
        Best point, natural values.
    value : float
        Its value.
    stopped : str
        Why the search ended: "budget" (all evaluations used), "converged" or "deadline".
    evaluations : list of Evaluation
        Every evaluation in order.
    """

    point: FloatArray
    value: float
    stopped: str
    evaluations: list[Evaluation] = field(repr=False)

    @property
    def n_evaluations(self) -> int:
        """Number of evaluations."""
        return len(self.evaluations)

    @property
    def n_failed(self) -> int:
        """Evaluations that gave NaN or an infinite value."""
        return sum(evaluation.failed for evaluation in self.evaluations)


class SearchStopped(Exception):
    """The budget or the time is used up: a signal between the parts, which never leaves this package."""


class Recorder:
    """Hands points of the unit cube to `evaluate` in natural values and remembers what came back.

    Parameters
    ----------
    evaluate : callable
        Function to be minimised, of natural values (n_axes,). NaN and infinite values count as failures: they
        are recorded, take part as the worst value there is, and are reported in a warning at the end.
    space : Space
        The box.
    max_time : float, optional
        Seconds after which no new evaluation starts.
    callback : callable, optional
        Called with each `Evaluation`; it may show progress.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        space: Space,
        max_time: float | None = None,
        callback: Callback | None = None,
    ) -> None:
        if max_time is not None and not max_time > 0:
            raise ValueError(f"max_time must be a positive number of seconds or None, got {max_time}.")
        self.space = space
        self.evaluations: list[Evaluation] = []
        self.visited: list[FloatArray] = []  # unit coordinates, like `best`
        self.best: FloatArray | None = None
        self.best_value = np.inf
        self._evaluate = evaluate
        self._callback = callback
        self._deadline = None if max_time is None else time.monotonic() + max_time
        self._limit: int | None = None
        self._phase = "search"
        self._task: Task | None = None

    def begin(self, phase: str, n_evaluations: int) -> None:
        """Start a phase that may use this many further evaluations."""
        if n_evaluations < 1:
            raise ValueError(f"A search needs at least 1 evaluation, got {n_evaluations}.")
        self._phase = phase
        self._limit = len(self.evaluations) + n_evaluations
        self._close()
        self._task = task(f"search ({phase})", n_evaluations).__enter__()

    def _close(self) -> None:
        """No more of this phase."""
        if self._task is not None:
            self._task.__exit__(None, None, None)
            self._task = None

    @property
    def left(self) -> int:
        """Evaluations left in this phase."""
        return 0 if self._limit is None else self._limit - len(self.evaluations)

    def __call__(self, unit: FloatArray) -> float:
        """Value at a point of the unit cube, inf for a failure."""
        if self.left <= 0:
            raise SearchStopped("budget")
        # The first evaluation is always made, so that there is a result.
        if self._deadline is not None and self.evaluations and time.monotonic() >= self._deadline:
            raise SearchStopped("deadline")
        point = self.space.natural(unit)
        started = time.perf_counter()
        value = float(self._evaluate(point.copy()))
        failed = not np.isfinite(value)
        value = np.inf if failed else value
        record = Evaluation(len(self.evaluations), point, value, time.perf_counter() - started, self._phase, failed)
        self.evaluations.append(record)
        self.visited.append(np.array(unit, dtype=np.float64))
        if value < self.best_value:
            self.best, self.best_value = self.visited[-1], value
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s %d: %s -> %g", record.phase, record.number, self.space.as_dict(point), value)
        if self._callback is not None:
            self._callback(record)
        if self._task is not None and self._task():
            raise SearchStopped("deadline")  # a listener asks to stop, which is what a deadline does
        return value

    def known(self) -> tuple[FloatArray, FloatArray]:
        """Points of the unit cube evaluated so far (n, n_axes) and their values (n,)."""
        return np.array(self.visited), np.array([record.value for record in self.evaluations])

    def result(self, stopped: str) -> SearchResult:
        """Result so far; warns when evaluations failed and raises when all did."""
        self._close()
        n_failed = sum(record.failed for record in self.evaluations)
        if self.best is None:
            raise ValueError(
                f"All {n_failed} evaluations of the search gave NaN or infinite values, the first at "
                f"{self.space.as_dict(self.evaluations[0].point)}. Check the data or move the box."
            )
        if n_failed:
            warnings.warn(
                f"{n_failed} of {len(self.evaluations)} evaluations of the search gave NaN or infinite values "
                "and were passed over.",
                FitFailedWarning,
                stacklevel=3,
            )
        return SearchResult(self.space.natural(self.best), self.best_value, stopped, self.evaluations)


def grid_search(
    evaluate: Evaluate,
    space: Space,
    n_points: int | Sequence[int] = 10,
    *,
    max_time: float | None = None,
    callback: Callback | None = None,
) -> SearchResult:
    """Evaluate every point of a grid that is even on each axis (on its logarithm where the axis has one).

    Parameters
    ----------
    evaluate : callable
        Function of natural values (n_axes,) to be minimised.
    space : Space
        The box.
    n_points : int or sequence of int
        Points per axis, ends included; a single point stands in the middle of its axis.
    max_time : float, optional
        Seconds after which no new evaluation starts.
    callback : callable, optional
        Called with each evaluation.

    Returns
    -------
    SearchResult
        Best point and all evaluations; the first of equal values wins.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.search import Space, grid_search
    >>> space = Space.of({"C": (1e-3, 1e3, "log")})
    >>> grid_search(lambda p: abs(np.log10(p[0]) - 1), space, 7).point.round(9).tolist()
    [10.0]
    """
    counts = [n_points] * space.n_axes if isinstance(n_points, (int, np.integer)) else list(n_points)
    if len(counts) != space.n_axes or min(counts) < 1:
        raise ValueError(f"n_points must be one count >= 1 per axis ({space.n_axes}), got {n_points}.")
    recorder = Recorder(evaluate, space, max_time, callback)
    recorder.begin("grid", int(np.prod(counts)))
    axes = [np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5]) for count in counts]
    stopped = "budget"
    try:
        for point in product(*axes):
            recorder(np.array(point))
    except SearchStopped as reason:
        stopped = str(reason)
    return recorder.result(stopped)


def random_search(
    evaluate: Evaluate,
    space: Space,
    *,
    n_evaluations: int = 90,
    random_state: Any = None,
    max_time: float | None = None,
    callback: Callback | None = None,
) -> SearchResult:
    """Evaluate independent uniform points of the box (uniform in the logarithm where an axis has one).

    Parameters
    ----------
    evaluate, space, max_time, callback
        As for `grid_search`.
    n_evaluations : int
        Number of points.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    SearchResult
        Best point and all evaluations.

    Examples
    --------
    >>> from kompakt.search import Space, random_search
    >>> result = random_search(lambda p: p[0] ** 2, Space.of({"x": (-1.0, 1.0)}), random_state=0)
    >>> result.n_evaluations, bool(result.value < 0.01)
    (90, True)
    """
    recorder = Recorder(evaluate, space, max_time, callback)
    return recorder.result(run_random(recorder, n_evaluations, random_state))


def run_random(recorder: Recorder, n_evaluations: int, random_state: Any) -> str:
    """Random search on a recorder; returns why it stopped."""
    rng = check_random_state(random_state)
    recorder.begin("random", n_evaluations)
    try:
        for point in rng.uniform(size=(n_evaluations, recorder.space.n_axes)):
            recorder(point)
    except SearchStopped as reason:
        return str(reason)
    return "budget"


WALLS = ("reflect", "clip")


def simplex_search(
    evaluate: Evaluate,
    space: Space,
    start: ArrayLike,
    *,
    n_evaluations: int = 70,
    edge: float = 0.1,
    tol: float = 1e-4,
    walls: str = "reflect",
    max_time: float | None = None,
    callback: Callback | None = None,
) -> SearchResult:
    """Minimise by the simplex method of Nelder and Mead, started at a point.

    Parameters
    ----------
    evaluate : callable
        Function of natural values (n_axes,) to be minimised.
    space : Space
        The box.
    start : array of shape (n_axes,)
        Natural values of the first corner.
    n_evaluations : int
        Budget.
    edge : float
        Edges of the first simplex, as a share of each axis of the box.
    tol : float
        Stop when the simplex is smaller than this share of the box in every direction.
    walls : {"reflect", "clip"}
        What becomes of a corner outside the box: mirrored back, or moved onto the wall. A clipped simplex may
        lose a dimension, so mirroring is the default.
    max_time : float, optional
        Seconds after which no new evaluation starts.
    callback : callable, optional
        Called with each evaluation.

    Returns
    -------
    SearchResult
        Best point and all evaluations.

    Examples
    --------
    >>> from kompakt.search import Space, simplex_search
    >>> space = Space.of({"x": (-2.0, 2.0), "y": (-2.0, 2.0)})
    >>> result = simplex_search(lambda p: (p[0] - 1) ** 2 + p[1] ** 2, space, [0.0, 0.5])
    >>> result.point.round(2).tolist()
    [1.0, 0.0]
    """
    recorder = Recorder(evaluate, space, max_time, callback)
    first = space.unit(start)
    return recorder.result(run_simplex(recorder, first, n_evaluations=n_evaluations, edge=edge, tol=tol, walls=walls))


def run_simplex(
    recorder: Recorder,
    start: NDArray[np.float64],
    *,
    n_evaluations: int,
    edge: float = 0.1,
    tol: float = 1e-4,
    walls: str = "reflect",
    start_value: float | None = None,
) -> str:
    """Nelder-Mead on a recorder, in unit coordinates; returns why it stopped.

    A known value of the start is not evaluated again.
    """
    if walls not in WALLS:
        raise ValueError(f"Unknown walls {walls!r}; choose from {', '.join(map(repr, WALLS))}.")
    if not 0 < edge <= 0.5:
        raise ValueError(f"edge must lie in (0, 0.5], got {edge}.")
    recorder.begin("simplex", n_evaluations)
    known = {start.tobytes(): start_value} if start_value is not None else {}

    def value(unit: NDArray[np.float64]) -> float:
        if unit.tobytes() in known:
            return float(known[unit.tobytes()])
        found = recorder(reflected(unit) if walls == "reflect" else np.clip(unit, 0.0, 1.0))
        # SciPy compares differences of corner values, and inf - inf is NaN: keep failures finite but worst.
        return min(found, float(np.finfo(np.float64).max))

    # Corners towards the inside, so that the first simplex lies in the box.
    steps = np.where(start + edge <= 1.0, edge, -edge)
    corners = np.vstack([start, start + np.diag(steps)])
    options = {"maxfev": 10 * n_evaluations, "xatol": tol, "fatol": np.inf, "initial_simplex": corners}
    try:
        minimize(value, start, method="Nelder-Mead", options=options)
    except SearchStopped as reason:
        return str(reason)
    return "converged"


# The system to solve has one unknown per known point: older ones are left out beyond this many.
MAX_KNOWN = 300


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
    points, values = points[-MAX_KNOWN:], values[-MAX_KNOWN:]
    n_searchers, n_candidates, n_axes = candidates.shape
    flat = candidates.reshape(-1, n_axes)
    predicted = _interpolated(flat, points, values).reshape(n_searchers, n_candidates)
    free = cdist(flat, points).min(axis=1).reshape(n_searchers, n_candidates)
    chosen = np.empty((n_searchers, n_axes))
    for i in range(n_searchers):
        if i:  # the points chosen in this round count as known
            free[i] = np.minimum(free[i], cdist(candidates[i], chosen[:i]).min(axis=1))
        merit = trust * _scaled(predicted[i]) - (1.0 - trust) * _scaled(free[i])
        chosen[i] = candidates[i, np.argmin(merit)]
    return chosen


def _scaled(values: FloatArray) -> FloatArray:
    span = np.ptp(values)
    return (values - values.min()) / span if span > 0 else np.zeros_like(values)


def _interpolated(at: FloatArray, points: FloatArray, values: FloatArray) -> FloatArray:
    """Cubic radial basis interpolation; all zero (no opinion) where there is nothing to go by."""
    finite = np.isfinite(values)
    n, n_axes = points.shape
    if finite.sum() < 2 or n < n_axes + 2:
        return np.zeros(len(at))
    cut = np.median(values[finite])
    heights = np.minimum(np.where(finite, values, cut), cut)
    span = np.ptp(heights)
    if span == 0:
        return np.zeros(len(at))
    tail = np.column_stack([np.ones(n), points])
    system = np.zeros((n + n_axes + 1,) * 2)
    system[:n, :n] = cdist(points, points) ** 3
    system[:n, :n].flat[:: n + 1] += 1e-9  # points visited twice
    system[:n, n:] = tail
    system[n:, :n] = tail.T
    right = np.concatenate([(heights - cut) / span, np.zeros(n_axes + 1)])
    try:
        weights = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:  # all points on one line: let the distances decide
        return np.zeros(len(at))
    return cdist(at, points) ** 3 @ weights[:n] + np.column_stack([np.ones(len(at)), at]) @ weights[n:]




def coupled(current: FloatArray, probe: FloatArray, temperature: float) -> FloatArray:
    """exp((E(x_i) - max E) / T) / sum_j exp((E(x_j) - max E) / T): probabilities that sum to one.

    The worse a searcher stands, the more freely it moves. The variance control presupposes this sum.
    """
    shares = np.exp((current - current.max()) / temperature)
    return shares / shares.sum()


def printed(current: FloatArray, probe: FloatArray, temperature: float) -> FloatArray:
    """exp(-E(y_i) / T) / (exp(-E(y_i) / T) + rho), rho = sum_j exp(-E(x_j) / T) over the current states.

    The form printed in seed 002, with the sum over the current states that its text describes.
    """
    lowest = min(current.min(), probe.min())  # common factor taken out: no overflow
    own = np.exp(-(probe - lowest) / temperature)
    rho = np.exp(-(current - lowest) / temperature).sum()
    return own / np.maximum(own + rho, np.finfo(np.float64).tiny)


def metropolis(current: FloatArray, probe: FloatArray, temperature: float) -> FloatArray:
    """exp(-(E(y_i) - E(x_i)) / T): searchers that know nothing of each other."""
    return np.exp(-np.maximum(probe - current, 0.0) / temperature)


ACCEPTANCES: dict[str, Callable[[FloatArray, FloatArray, float], FloatArray]] = {
    "coupled": coupled,
    "printed": printed,
    "metropolis": metropolis,
}


def anneal(
    evaluate: Evaluate,
    space: Space,
    *,
    n_evaluations: int = 90,
    n_starters: int = 5,
    acceptance: str = "coupled",
    step: float = 0.5,
    cooling: float = 0.5,
    heat: float = 0.3,
    foresight: int = 4,
    random_state: Any = None,
    max_time: float | None = None,
    callback: Callback | None = None,
) -> SearchResult:
    """Minimise any function on a box by coupled simulated annealing.

    Parameters
    ----------
    evaluate : callable
        Function of natural values (n_axes,) to be minimised.
    space : Space
        The box.
    n_evaluations : int
        Budget, starting points included.
    n_starters : int
        Number of coupled searchers.
    acceptance : {"coupled", "printed", "metropolis"}
        Probability of taking a worse point: coupled with a sum of one (default), the form printed in seed 002,
        or the ordinary one, which leaves the searchers uncoupled (its temperature falls with the steps).
    step : float
        Scale of the first steps, as a share of the box.
    cooling : float
        Steps shrink as 1 / (k + 1)^cooling. The paper's example is 1. With some 20 rounds the choice between
        0.5 and 1 made no difference beyond the standard error on the functions tried.
    heat : float
        First acceptance temperature in standard deviations of the starting values.
    foresight : int
        Each searcher draws this many steps and tries the one that all evaluations so far make most promising;
        1 tries every step it draws, as in the paper.
    random_state : int, RandomState or None
        Seed; the same seed gives the same points.
    max_time : float, optional
        Seconds after which no new evaluation starts.
    callback : callable, optional
        Called with each evaluation.

    Returns
    -------
    SearchResult
        Best point and all evaluations.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.search import Space, anneal
    >>> space = Space.of({"x": (-5.0, 5.0), "y": (-5.0, 5.0)})
    >>> bumpy = lambda p: float((p**2).sum() + 3 * (1 - np.cos(3 * p)).sum())
    >>> bool(anneal(bumpy, space, random_state=0).value < 6.0)
    True
    """
    recorder = Recorder(evaluate, space, max_time, callback)
    stopped = run_annealing(
        recorder,
        n_evaluations=n_evaluations,
        n_starters=n_starters,
        acceptance=acceptance,
        step=step,
        cooling=cooling,
        heat=heat,
        foresight=foresight,
        random_state=random_state,
    )
    return recorder.result(stopped)


@dataclass
class _State:
    """The searchers: their points in the unit cube, their values and the acceptance temperature."""

    points: FloatArray
    values: FloatArray
    temperature: float


def run_annealing(
    recorder: Recorder,
    *,
    n_evaluations: int,
    n_starters: int = 5,
    acceptance: str = "coupled",
    step: float = 0.5,
    cooling: float = 0.5,
    heat: float = 0.3,
    foresight: int = 4,
    random_state: Any = None,
) -> str:
    """Coupled simulated annealing on a recorder; returns why it stopped."""
    if acceptance not in ACCEPTANCES:
        raise ValueError(f"Unknown acceptance {acceptance!r}; choose from {', '.join(map(repr, ACCEPTANCES))}.")
    if n_starters < 1 or (n_starters < 2 and acceptance != "metropolis"):
        raise ValueError(f"Coupled annealing needs at least 2 starters, got {n_starters}.")
    if not (step > 0 and heat > 0 and cooling >= 0):
        raise ValueError(f"step and heat must be positive, cooling >= 0, got {step}, {heat}, {cooling}.")
    if foresight < 1:
        raise ValueError(f"foresight must be at least 1 step per searcher, got {foresight}.")
    rng = check_random_state(random_state)
    recorder.begin("anneal", n_evaluations)
    try:
        state = _started(recorder, n_starters, rng)
        scale = state.temperature = heat * state.temperature
        k = 0
        while True:
            probes = _probes(recorder, state, step / (k + 1) ** cooling, foresight, rng)
            values = np.array([recorder(probe) for probe in probes])
            chances = _advance(state, probes, values, acceptance, rng)
            k += 1
            if acceptance == "metropolis":
                state.temperature = scale / (k + 1)
            else:
                state.temperature *= _control(chances)
    except SearchStopped as reason:
        return str(reason)


def _started(recorder: Recorder, n_starters: int, rng: Any) -> _State:
    """One starting point in each of n_starters slices of every axis, in random combination."""
    n_axes = recorder.space.n_axes
    slices = np.column_stack([rng.permutation(n_starters) for _ in range(n_axes)])
    points = (slices + rng.uniform(size=slices.shape)) / n_starters
    values = np.array([recorder(point) for point in points])
    finite = values[np.isfinite(values)]
    # The spread of the starting values makes the method blind to the unit of the function.
    spread = float(finite.std()) if finite.size > 1 else 0.0
    return _State(points, values, spread if spread > 0 else 1.0)


def _probes(recorder: Recorder, state: _State, length: float, foresight: int, rng: Any) -> FloatArray:
    """One point for each searcher to try: the most promising of several steps (step 3)."""
    n_starters, n_axes = state.points.shape
    steps = length * _heavy_tailed(rng, (n_starters, foresight, n_axes))
    candidates = reflected(state.points[:, None, :] + steps)
    return candidates[:, 0] if foresight == 1 else most_promising(candidates, *recorder.known())


def _heavy_tailed(rng: Any, shape: tuple[int, ...]) -> FloatArray:
    """Cauchy steps: mostly short, sometimes across the whole box."""
    return np.tan(np.pi * (rng.uniform(size=shape) - 0.5))


def _advance(state: _State, probes: FloatArray, values: FloatArray, acceptance: str, rng: Any) -> FloatArray:
    """Take better points always and worse ones by chance; returns the probabilities used (steps 4 to 12)."""
    everything = np.concatenate([state.values, values])
    finite = everything[np.isfinite(everything)]
    # A failed point counts as a little worse than the worst that did not fail.
    worst = finite.max() + state.temperature if finite.size else 0.0
    current = np.where(np.isfinite(state.values), state.values, worst)
    probe = np.where(np.isfinite(values), values, worst)
    chances = ACCEPTANCES[acceptance](current, probe, state.temperature)
    taken = (values <= state.values) | (chances > rng.uniform(size=len(values)))
    state.points = np.where(taken[:, None], probes, state.points)
    state.values = np.where(taken, values, state.values)
    return chances


def _control(chances: FloatArray, rate: float = 0.05) -> float:
    """Factor for the acceptance temperature: down when the probabilities vary too little (steps 15 to 19)."""
    q = len(chances)
    variance = (chances**2).mean() - 1.0 / q**2
    wanted = 0.99 * (q - 1) / q**2
    return 1.0 - rate if variance < wanted else 1.0 + rate


def anneal_then_simplex(
    evaluate: Evaluate,
    space: Space,
    *,
    n_anneal: int = 90,
    n_simplex: int = 70,
    n_starters: int = 5,
    acceptance: str = "coupled",
    step: float = 0.5,
    foresight: int = 4,
    edge: float = 0.1,
    tol: float = 1e-4,
    random_state: Any = None,
    max_time: float | None = None,
    callback: Callback | None = None,
) -> SearchResult:
    """Coupled simulated annealing, then Nelder-Mead from the best point found (seed 002, section 6.3).

    Parameters
    ----------
    evaluate : callable
        Function of natural values (n_axes,) to be minimised.
    space : Space
        The box.
    n_anneal, n_simplex : int
        Evaluations of the two phases.
    n_starters, acceptance, step, foresight
        As for `anneal`.
    edge, tol
        As for `simplex_search`.
    random_state : int, RandomState or None
        Seed; the same seed gives the same points.
    max_time : float, optional
        Seconds after which no new evaluation starts.
    callback : callable, optional
        Called with each evaluation.

    Returns
    -------
    SearchResult
        Best point and all evaluations of both phases.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.search import Space, anneal_then_simplex
    >>> space = Space.of({"C": (1e-3, 1e5, "log"), "gamma": (1e-4, 1e2, "log")})
    >>> valley = lambda p: (np.log10(p[0]) - 2) ** 2 + (np.log10(p[1]) + 1) ** 2
    >>> result = anneal_then_simplex(valley, space, random_state=0)
    >>> np.log10(result.point).round(2).tolist()
    [2.0, -1.0]
    """
    recorder = Recorder(evaluate, space, max_time, callback)
    stopped = run_annealing(
        recorder,
        n_evaluations=n_anneal,
        n_starters=n_starters,
        acceptance=acceptance,
        step=step,
        foresight=foresight,
        random_state=random_state,
    )
    return recorder.result(_refined(recorder, stopped, n_simplex, edge, tol))


def random_then_simplex(
    evaluate: Evaluate,
    space: Space,
    *,
    n_random: int = 90,
    n_simplex: int = 70,
    edge: float = 0.1,
    tol: float = 1e-4,
    random_state: Any = None,
    max_time: float | None = None,
    callback: Callback | None = None,
) -> SearchResult:
    """Random search, then Nelder-Mead from the best point found; arguments as for `anneal_then_simplex`.

    Examples
    --------
    >>> from kompakt.search import Space, random_then_simplex
    >>> result = random_then_simplex(lambda p: (p[0] - 0.3) ** 2, Space.of({"x": (0.0, 1.0)}), random_state=0)
    >>> result.point.round(3).tolist()
    [0.3]
    """
    recorder = Recorder(evaluate, space, max_time, callback)
    stopped = run_random(recorder, n_random, random_state)
    return recorder.result(_refined(recorder, stopped, n_simplex, edge, tol))


def _refined(recorder: Recorder, stopped: str, n_simplex: int, edge: float, tol: float) -> str:
    """Simplex phase, unless time is up, there is no budget for it, or no point to start from."""
    if stopped == "deadline" or recorder.best is None or n_simplex == 0:
        return stopped
    return run_simplex(
        recorder,
        recorder.best,
        n_evaluations=n_simplex,
        edge=edge,
        tol=tol,
        start_value=recorder.best_value,
    )


SEARCHES: dict[str, Callable[..., SearchResult]] = {
    "anneal": anneal_then_simplex,
    "grid": grid_search,
    "random": random_then_simplex,
}


def search(evaluate: Evaluate, space: Space, strategy: str = "anneal", **options: Any) -> SearchResult:
    """Minimise by the search of this name.

    Parameters
    ----------
    evaluate : callable
        Function of natural values (n_axes,) to be minimised.
    space : Space
        The box.
    strategy : {"anneal", "grid", "random"}
        Annealing then simplex, grid, or random points then simplex.
    **options
        Arguments of `anneal_then_simplex`, `grid_search` or `random_then_simplex`.

    Returns
    -------
    SearchResult
        Best point and all evaluations.

    Examples
    --------
    >>> from kompakt.search import Space, search
    >>> float(search(lambda p: p[0] ** 2, Space.of({"x": (-1.0, 1.0)}), "grid", n_points=5).value)
    0.0
    """
    if strategy not in SEARCHES:
        raise ValueError(f"Unknown search {strategy!r}; choose from {', '.join(map(repr, sorted(SEARCHES)))}.")
    return SEARCHES[strategy](evaluate, space, **options)


@dataclass(frozen=True)
class HalvingRecord:
    """One evaluation: which setting, in which round, with which resource, its value and time."""

    index: int
    rung: int
    resource: int
    value: float
    seconds: float


@dataclass(frozen=True)
class HalvingResult:
    """Result of successive halving.

    Attributes
    ----------
    setting : object
        The winner.
    index : int
        Its position in the list of settings.
    value : float
        Its value on the largest resource it was given.
    stopped : str
        "finished" or "deadline".
    resources : list of int
        Resource of each round.
    evaluations : list of HalvingRecord
        Every evaluation in order.
    """

    setting: Any
    index: int
    value: float
    stopped: str
    resources: list[int]
    evaluations: list[HalvingRecord] = field(repr=False)

    @property
    def n_failed(self) -> int:
        """Evaluations that gave NaN or an infinite value."""
        return sum(not math.isfinite(record.value) for record in self.evaluations)


def successive_halving(
    evaluate: Callable[[Any, int], float],
    settings: Sequence[Any],
    *,
    min_resource: int,
    max_resource: int,
    factor: float = 3.0,
    max_time: float | None = None,
    callback: Callable[[HalvingRecord], None] | None = None,
) -> HalvingResult:
    """Find the best of a list of settings, giving more of a resource to fewer and fewer of them.

    Parameters
    ----------
    evaluate : callable
        `evaluate(setting, resource) -> float`, to be minimised; resource is a number of rows, iterations, ...
    settings : sequence
        Candidates of any kind.
    min_resource, max_resource : int
        Resource of the first round at least, and of the last round.
    factor : float
        Each round keeps one in `factor` settings and gives them `factor` times the resource.
    max_time : float, optional
        Seconds after which no new evaluation starts.
    callback : callable, optional
        Called with each record.

    Returns
    -------
    HalvingResult
        The winner and every evaluation. Equal values go to the earlier setting.

    Examples
    --------
    >>> from kompakt.search import successive_halving
    >>> noisy = lambda setting, resource: abs(setting - 7) + 1.0 / resource
    >>> result = successive_halving(noisy, range(9), min_resource=10, max_resource=90)
    >>> result.setting, result.resources, len(result.evaluations)
    (7, [10, 30, 90], 13)
    """
    _check(settings, min_resource, max_resource, factor, max_time)
    resources = _schedule(len(settings), min_resource, max_resource, factor)
    deadline = None if max_time is None else time.monotonic() + max_time
    records: list[HalvingRecord] = []
    alive = list(range(len(settings)))
    stopped = "finished"
    counts = _survivors(len(settings), len(resources), factor)
    work = float(sum(count * resource for count, resource in zip(counts, resources, strict=True)))
    with task("search", sum(counts), work=work) as step:
        for rung, resource in enumerate(resources):
            for index in alive:
                if deadline is not None and records and time.monotonic() >= deadline:
                    stopped = "deadline"
                    break
                started = time.perf_counter()
                value = float(evaluate(settings[index], resource))
                value = value if math.isfinite(value) else math.inf
                record = HalvingRecord(index, rung, resource, value, time.perf_counter() - started)
                records.append(record)
                if callback is not None:
                    callback(record)
                if step(float(resource)):  # a listener asks to stop, which is what a deadline does
                    stopped = "deadline"
                    break
            if stopped == "deadline":
                break
            alive = _kept(records, rung, alive, resource, factor)
    return _result(settings, records, resources, stopped)


def _survivors(n_settings: int, n_rounds: int, factor: float) -> list[int]:
    """How many settings each round tries."""
    counts = [n_settings]
    for _ in range(n_rounds - 1):
        counts.append(max(1, math.ceil(counts[-1] / factor)))
    return counts


def _kept(records: list[HalvingRecord], rung: int, alive: list[int], resource: int, factor: float) -> list[int]:
    """The best of a round."""
    ranked = sorted(
        (record for record in records if record.rung == rung and math.isfinite(record.value)),
        key=lambda record: (record.value, record.index),
    )
    if not ranked:
        raise ValueError(
            f"All {len(alive)} settings of round {rung} (resource {resource}) gave NaN or infinite values; "
            "check the data, the settings, or raise min_resource."
        )
    return [record.index for record in ranked[: max(1, math.ceil(len(alive) / factor))]]


def _check(
    settings: Sequence[Any], min_resource: int, max_resource: int, factor: float, max_time: float | None
) -> None:
    if len(settings) == 0:
        raise ValueError("Successive halving needs at least one setting, got none.")
    if not 1 <= min_resource <= max_resource:
        raise ValueError(
            f"Resources must satisfy 1 <= min_resource <= max_resource, got {min_resource}, {max_resource}."
        )
    if not factor > 1:
        raise ValueError(f"factor must be greater than 1, got {factor}.")
    if max_time is not None and not max_time > 0:
        raise ValueError(f"max_time must be a positive number of seconds or None, got {max_time}.")


def _schedule(n_settings: int, min_resource: int, max_resource: int, factor: float) -> list[int]:
    """Resources that end at max_resource; no more rounds than it takes to come down to one setting."""
    slack = 1e-9  # log(90 / 10, 3) is 2 up to rounding
    rounds_of_settings = math.ceil(math.log(n_settings, factor) - slack)
    rounds_of_resource = math.floor(math.log(max_resource / min_resource, factor) + slack)
    last = max(0, min(rounds_of_settings, rounds_of_resource))
    return [max(min_resource, round(max_resource / factor ** (last - rung))) for rung in range(last + 1)]


def _result(settings: Sequence[Any], records: list[HalvingRecord], resources: list[int], stopped: str) -> HalvingResult:
    """Best value of the last round that has one: values of different resources are not comparable."""
    finite = [record for record in records if math.isfinite(record.value)]
    if not finite:
        raise ValueError(f"All {len(records)} evaluations before the deadline gave NaN or infinite values.")
    last = max(record.rung for record in finite)
    # A round cut short has not seen all its settings; the round before ranked them all.
    complete = stopped == "finished" or last == 0
    rung = last if complete else last - 1
    best = min((record for record in finite if record.rung == rung), key=lambda record: (record.value, record.index))
    n_failed = len(records) - len(finite)
    if n_failed:
        warnings.warn(
            f"{n_failed} of {len(records)} evaluations of the search gave NaN or infinite values and were passed over.",
            FitFailedWarning,
            stacklevel=3,
        )
    return HalvingResult(settings[best.index], best.index, best.value, stopped, resources, records)
