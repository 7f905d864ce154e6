"""Search for C and the kernel's width by held-out error: features once per width, then a whole path of C on them.

"profile" walks over the width alone and reads the best C off the path of each; the other strategies (seed 002,
section 6.3) search both together, one C at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kompakt.kernels import Kernel
from kompakt.progress import is_over, task
from kompakt.tune.record import Evaluation
from kompakt.tune.search import search
from kompakt.tune.space import Space

Array = np.ndarray
logger = logging.getLogger("kompakt.tune")

#: powers of ten around the kernel's own width that a search may reach, and powers of ten of C
WIDTHS = (-4.0, 4.0)
COSTS = (-6.0, 8.0)
STRATEGIES = ("profile", "anneal", "grid", "random")
_COARSE_WIDTHS = np.arange(-3.0, 2.5)  # from 1/1000 of the width's start to 100 times it
_COARSE_COSTS = np.arange(-3.0, 8.5)
_NEAR_COSTS = np.array([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0])


@dataclass(frozen=True)
class Trial:
    """Held-out errors of one width along some values of C."""

    kernel: Kernel
    factor: float  # width relative to the kernel the search began with
    Cs: Array  # (n_C,)
    errors: Array  # (n_C,), what is minimised
    fold_errors: Array  # (n_C, n_folds)
    seconds: float
    phase: str


@dataclass
class Tuned:
    """The best point of a search, and every trial."""

    kernel: Kernel
    C: float
    error: float
    trials: list[Trial] = field(default_factory=list)
    stopped: str = "finished"

    def refitted(self, measure: Callable[[], tuple[Array, Array]], Cs: Array) -> Tuned:
        """The same width with C from another measure of error; only these trials compete."""
        began = time.perf_counter()
        errors, fold_errors = measure()
        factor = next(trial.factor for trial in self.trials if trial.kernel is self.kernel)
        trial = Trial(self.kernel, factor, Cs, errors, fold_errors, time.perf_counter() - began, "refit")
        k = int(np.argmin(errors))
        logger.info("refits: best C %.3g of %d, error %.5g (%.1f s)", Cs[k], len(Cs), errors[k], trial.seconds)
        earlier = [replace(t, errors=np.full(len(t.errors), np.inf)) for t in self.trials]
        return Tuned(self.kernel, float(Cs[k]), float(errors[k]), [*earlier, trial], self.stopped)

    @property
    def cv_results(self) -> dict[str, Array]:
        """One row per evaluated pair of width and C, in the order of the search."""
        trials = self.trials
        errors = np.concatenate([trial.errors for trial in trials])
        folds = np.concatenate([trial.fold_errors for trial in trials])
        counts = [len(trial.Cs) for trial in trials]
        # one number per kernel; a kernel with a width per feature is told apart by its factor alone
        gammas = [np.nan if np.ndim(gamma) else float(gamma) for gamma in (_gamma(t.kernel) for t in trials)]
        rank = np.empty(len(errors), dtype=np.intp)
        rank[np.argsort(errors, kind="stable")] = np.arange(1, len(errors) + 1)
        return {
            "param_C": np.concatenate([trial.Cs for trial in trials]),
            "param_gamma": np.repeat(gammas, counts),
            "width_factor": np.repeat([trial.factor for trial in trials], counts),
            "mean_test_error": np.nanmean(folds, axis=1),
            "std_test_error": np.nanstd(folds, axis=1),
            "objective": errors,
            "rank_test_error": rank,
            "seconds": np.repeat([trial.seconds / len(trial.Cs) for trial in trials], counts),
            "phase": np.repeat([trial.phase for trial in trials], counts),
        }


def _gamma(kernel: Kernel) -> Any:
    return getattr(kernel, "gamma", np.nan)


#: held-out errors (n_C,) and fold errors (n_C, n_folds) of a kernel for some C
Evaluate = Callable[[Kernel, Array], tuple[Array, Array]]


def tune_width_and_cost(
    evaluate: Evaluate,
    kernel: Kernel,
    *,
    strategy: str = "profile",
    evaluate_coarse: Evaluate | None = None,
    deadline: float | None = None,
    random_state: Any = None,
    **options: Any,
) -> Tuned:
    """Find the width and C with the lowest held-out error.

    Parameters
    ----------
    evaluate : callable
        Errors of a kernel along some values of C.
    kernel : Kernel
        Where the search begins; a kernel without a width has only C to be tuned.
    strategy : {"profile", "anneal", "grid", "random"}
        Search over the width with C read off a path, or over both by a strategy of `kompakt.tune.search`.
    evaluate_coarse : callable, optional
        A cheaper `evaluate`, such as on part of the rows, for the coarse steps of "profile"; its errors are never
        compared with those of `evaluate`.
    deadline : float, optional
        On the clock of time.monotonic.
    random_state : int, RandomState or None
    **options
        Arguments of `kompakt.tune.search`.

    Returns
    -------
    Tuned
        The best point and all trials.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> from kompakt.tune.bandwidth_path import tune_width_and_cost
    >>> def valley(kernel, Cs):
    ...     errors = np.log10(kernel.gamma / 0.3) ** 2 + np.log10(Cs / 20.0) ** 2
    ...     return errors, errors[:, None]
    >>> found = tune_width_and_cost(valley, RBF(1.0))
    >>> bool(abs(np.log10(found.kernel.gamma / 0.3)) < 0.2), bool(abs(np.log10(found.C / 20)) < 0.2)
    (True, True)
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"search must be one of {STRATEGIES}; got {strategy!r}.")
    walker = _Walker(evaluate, kernel, deadline)
    if len(kernel.theta) == 0 or strategy == "profile":
        scout = walker if evaluate_coarse is None else _Walker(evaluate_coarse, kernel, deadline)
        has_width = len(kernel.theta) > 0
        n_trials = len(_COARSE_WIDTHS) + 8 if has_width else 2  # the usual number: the coarse path may go on at its end
        with task("search", n_trials) as step:
            walker.count = scout.count = step
            stopped = _profile(walker, scout, has_width=has_width)
    else:
        stopped = _jointly(walker, strategy, random_state, options)
    best = min(walker.trials, key=lambda trial: float(trial.errors.min()))
    k = int(np.argmin(best.errors))
    return Tuned(best.kernel, float(best.Cs[k]), float(best.errors[k]), walker.trials, stopped)


class _Walker:
    """Evaluates widths (as factors of the first) and remembers the trials."""

    def __init__(self, evaluate: Evaluate, kernel: Kernel, deadline: float | None) -> None:
        self._evaluate, self._kernel, self._deadline = evaluate, kernel, deadline
        self.trials: list[Trial] = []
        self.count: Callable[[], bool] | None = None  # tells whoever watches of every trial

    def late(self) -> bool:
        return bool(self.trials) and is_over(self._deadline)

    def __call__(self, factor: float, Cs: Array, phase: str) -> Trial:
        theta = self._kernel.theta
        kernel = self._kernel.with_theta(theta + np.log(factor)) if len(theta) and factor != 1.0 else self._kernel
        began = time.perf_counter()
        errors, fold_errors = self._evaluate(kernel, Cs)
        errors = np.where(np.isfinite(errors), errors, np.inf)
        trial = Trial(kernel, factor, Cs, errors, fold_errors, time.perf_counter() - began, phase)
        self.trials.append(trial)
        if self.count is not None:
            self.count()
        k = int(np.argmin(errors))
        logger.info(
            "%s %d: width factor %.3g, best C %.3g of %d, error %.5g (%.1f s)",
            phase, len(self.trials), factor, Cs[k], len(Cs), errors[k], trial.seconds,
        )  # fmt: skip
        return trial


def _profile(walker: _Walker, scout: _Walker, has_width: bool) -> str:
    """Coarse widths, then steps that halve around the best; C on a coarse path, then on a fine one near its best."""
    if not has_width:
        # One path only, so it may be long; a penalised intercept can make a very small C the best.
        trial = walker(1.0, 10.0 ** np.arange(COSTS[0], COSTS[1] + 0.5, 0.5), "coarse")
        if walker.late():
            return "deadline"
        walker(1.0, _near(trial), "fine")
        return "finished"
    known: dict[float, Trial] = {}

    def visit(log_width: float, Cs: Array, phase: str, by: _Walker = walker) -> None:
        if log_width not in known and not by.late():
            known[log_width] = by(10.0**log_width, Cs, phase)

    def best() -> float:
        return min(known, key=lambda at: float(known[at].errors.min()))

    coarse = 10.0**_COARSE_COSTS
    for log_width in _COARSE_WIDTHS.tolist():
        visit(log_width, coarse, "coarse", scout)
    while best() in (min(known), max(known)) and not scout.late():
        step = -1.0 if best() == min(known) else 1.0
        if not WIDTHS[0] <= best() + step <= WIDTHS[1]:
            break
        visit(best() + step, coarse, "coarse", scout)
    if scout is not walker:  # from here on all rows, whose errors are not those of a part of them
        start = best()
        trial = walker(10.0**start, _near(known[start]), "fine")
        known = {start: trial}
    for step in (0.5, 0.25, 0.125):
        centre = best()
        Cs = _near(known[centre])
        for side in (-step, step):
            visit(centre + side, Cs, "fine")
    if walker.late():
        return "deadline"
    walker(10.0 ** best(), _near(known[best()]), "fine")  # the best width may have been seen on the coarse path only
    return "finished"


def _near(trial: Trial) -> Array:
    """Values of C around the best of a trial."""
    around = np.log10(trial.Cs[int(np.argmin(trial.errors))]) + _NEAR_COSTS
    return 10.0 ** np.clip(around, *COSTS)


def _jointly(walker: _Walker, strategy: str, random_state: Any, options: dict[str, Any]) -> str:
    """Both together, on logarithmic axes."""
    axes = {"C": (10.0 ** COSTS[0], 10.0 ** COSTS[1], "log"), "width": (10.0 ** WIDTHS[0], 10.0 ** WIDTHS[1], "log")}
    space = Space.of(axes)

    def evaluate(point: Array) -> float:
        return float(walker(float(point[1]), point[:1], strategy).errors[0])

    def note(evaluation: Evaluation) -> None:
        logger.debug("%s %d: %s", evaluation.phase, evaluation.number, space.as_dict(evaluation.point))

    if strategy != "grid":
        options = {"random_state": random_state, **options}
    if walker._deadline is not None:
        options = {"max_time": max(1e-3, walker._deadline - time.monotonic()), **options}
    stopped = search(evaluate, space, strategy, callback=note, **options).stopped
    if stopped == "deadline":
        walker.late()  # the search has a clock of its own
    return stopped
