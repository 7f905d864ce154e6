"""Coupled simulated annealing with variance control (seed 002, appendix, algorithm 6).

Several searchers walk through the box; each always takes a better point, and a worse one with a probability that
depends on the values of all of them. The acceptance temperature is steered so that these
probabilities have a wanted variance, which makes the method insensitive to where it starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from kompakt.tune.foresight import most_promising
from kompakt.tune.record import Callback, Evaluate, Recorder, SearchResult, SearchStopped
from kompakt.tune.space import Space, reflected

__all__ = ["ACCEPTANCES", "anneal"]

FloatArray = NDArray[np.float64]


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
    >>> from kompakt.tune import Space, anneal
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
