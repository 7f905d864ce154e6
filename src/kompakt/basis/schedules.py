"""When to retrain while the basis grows, and how many candidates to try (seed 001, section 6).

Fixed schedules retrain at given sizes.  The adaptive one spends its next unit of work where it promises the largest
decrease of the objective: on retraining, on more candidates, or on the next basis vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray


def _is_power(size: int, per_doubling: int) -> bool:
    """Whether size = floor(2^(p / per_doubling)) for a whole p."""
    p = math.ceil(per_doubling * math.log2(size) - 1e-9)
    return any(math.floor(2 ** (q / per_doubling) + 1e-9) == size for q in (p, p + 1))


SCHEDULES: dict[str, Callable[[int], bool]] = {
    "always": lambda size: True,
    "powers": lambda size: _is_power(size, 1),
    "quarter_powers": lambda size: _is_power(size, 4),
}


@dataclass
class Schedule:
    """A fixed schedule: retrain at certain sizes, try the same number of candidates at each step.

    Examples
    --------
    >>> from kompakt.basis.schedules import Schedule
    >>> [d for d in range(1, 20) if Schedule("quarter_powers", 10).retrain_at(d)]
    [1, 2, 3, 4, 5, 6, 8, 9, 11, 13, 16, 19]
    """

    name: str
    n_candidates: int

    def retrain_at(self, size: int, machine: Any = None) -> bool:
        """Whether to retrain now that the basis has `size` vectors."""
        return SCHEDULES[self.name](size)

    def learn(self, scores: Array, decrease: float, scoring: float, training: float, retraining: float) -> None:
        """Take note of a step: the candidates' scores, the decrease of the objective, and the work it took."""


@dataclass
class Adaptive(Schedule):
    """Retraining and number of candidates by decrease per unit of work.

    Retraining is worth what one Newton step would gain now, g' H^-1 g / 2, which only the rows that changed sides
    contribute to; it is done when that, per unit of work, exceeds the decrease of the last steps.  A larger set of
    candidates is worth the expected difference between the best of all scores and the best of a random half of them.
    While that is a fair share of the best score, candidates are added until trying them costs as much as training (the
    balance that section 6.2 asks for); where scores hardly differ, or trying is most of the work and buys little, they
    are taken away.  Work is counted (multiply-adds), not timed, so that growth is reproducible.
    """

    rate: float = 0.0  # decrease per unit of work, smoothed
    retraining: float = 0.0  # work of a retraining, smoothed
    least: int = 0
    most: int = 0

    def __post_init__(self) -> None:
        self.least, self.most = max(2, self.n_candidates // 4), 8 * self.n_candidates

    def retrain_at(self, size: int, machine: Any = None) -> bool:
        """Whether retraining promises more per unit of work than going on."""
        if size < 8 or _is_power(size, 1) or machine is None:
            return True
        expected = self.retraining or 8.0 * machine.A.shape[0] * machine.width
        return bool(machine.stale_gain() / expected >= self.rate)

    def learn(self, scores: Array, decrease: float, scoring: float, training: float, retraining: float) -> None:
        """Update the rate, the price of retraining and the number of candidates."""
        total = max(1.0, scoring + training)
        self.rate = _smooth(self.rate, max(0.0, decrease) / total)
        if retraining:
            self.retraining = _smooth(self.retraining, retraining)
        finite = scores[np.isfinite(scores)]
        if len(finite) < 4 or not scoring:
            return
        best = float(finite.max())
        worth = best - expected_best_of_half(finite)
        share = scoring / (total + retraining)
        if worth > 0.05 * best and share < 0.5:
            self.n_candidates = min(self.most, math.ceil(1.25 * self.n_candidates))
        elif worth < 0.02 * best or (share > 0.75 and worth < 0.2 * best):
            self.n_candidates = max(self.least, math.floor(self.n_candidates / 1.25))


def expected_best_of_half(scores: Array) -> float:
    """Expected largest score in a random half of the scores.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.schedules import expected_best_of_half
    >>> round(expected_best_of_half(np.array([1.0, 2.0, 3.0, 4.0])), 4)  # pairs: 2, 3, 4, 3, 4, 4
    3.3333
    """
    ordered = np.sort(scores)
    k, half = len(ordered), len(ordered) // 2
    chance = np.zeros(k)
    chance[-1] = half / k  # the largest is in the half; each next one is the best with the chance that remains
    for i in range(k - 2, half - 2, -1):
        # ratio of C(i, half - 1) to C(i + 1, half - 1)
        chance[i] = chance[i + 1] * (i + 2 - half) / (i + 1)
    return float(chance @ ordered)


def _smooth(old: float, new: float) -> float:
    return new if not old else 0.7 * old + 0.3 * new


def make_schedule(name: Any, n_candidates: int) -> Schedule:
    """The schedule for a constructor's word.

    Examples
    --------
    >>> from kompakt.basis.schedules import make_schedule
    >>> make_schedule("always", 10).retrain_at(7)
    True
    """
    if name == "adaptive":
        return Adaptive(name, n_candidates)
    if isinstance(name, str) and name in SCHEDULES:
        return Schedule(name, n_candidates)
    raise ValueError(f"retraining must be one of {[*SCHEDULES, 'adaptive']}; got {name!r}.")
