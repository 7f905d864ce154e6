"""Forward growth of the basis (Keerthi et al. 2006): draw candidates, choose a row, append it, retrain on schedule."""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kompakt.basis.columns import KernelColumns
from kompakt.basis.growing import GrowingMachine, require_memory
from kompakt.basis.scores import SCORES, SELECTIONS, WHOLE, WholeRows, candidates
from kompakt.data import ArrayRows, hash_rows, row_weights
from kompakt.heldout import Scorer, mean_and_error, require_counts
from kompakt.kernels import Kernel
from kompakt.losses import LeastSquares, SquaredHinge
from kompakt.run import Run
from kompakt.spec import Basis, Data, Spec

Array = np.ndarray
logger = logging.getLogger("kompakt")

#: what a step looks like in `history_`
Record = dict[str, Any]


# -- candidates ---------------------------------------------------------------------------------------------

#: up to so many distinct rows a step shuffles all of them; beyond, it draws numbers and drops repetitions
_SHUFFLED = 512


@dataclass(frozen=True)
class CandidateStream:
    """Which rows are tried at a step: a random set that depends on the step and the key alone (section 4).

    Distinct rows are put in the order of a keyed hash of their content; the set of step d is drawn as positions in that
    order by a generator seeded with (key, d).  So it depends neither on C or the kernel, nor on the order of the rows,
    and cross-validation folds, which filter one common stream, try nearly the same rows.

    Parameters
    ----------
    rows : ndarray of shape (n_distinct,)
        A row number for every distinct row, in the order of the hash; -1 where no row may be used.
    key : int
        Seed.
    hashes : ndarray of shape (n,)
        Keyed hashes of all rows.
    distinct : ndarray of shape (n,)
        Which distinct row every row equals, in the order of the hash.
    orders : dict
        Orders of all positions by step, as `draw_among` needs them; machines of the same stream share them.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.forward import CandidateStream
    >>> stream = CandidateStream.of(np.array([7, 3, 3, 9], dtype=np.uint64), key=1)
    >>> stream.rows.tolist()
    [1, 0, 3]
    >>> sorted(stream.draw(0, 5, set()).tolist())
    [0, 1, 3]
    """

    rows: Array
    key: int
    hashes: Array
    distinct: Array
    orders: dict[int, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, hashes: Array, key: int, pool_size: int | None = None) -> CandidateStream:
        """The stream over the distinct rows with these hashes; `pool_size` keeps only the smallest hashes."""
        _, first, distinct = np.unique(hashes, return_index=True, return_inverse=True)
        return cls(first[:pool_size], key, hashes, distinct)

    def within(self, allowed: Array) -> CandidateStream:
        """The same stream restricted to some rows: an equal row that is allowed stands in for one that is not."""
        allowed_hashes, first = np.unique(self.hashes[allowed], return_index=True)
        pool_hashes = self.hashes[self.rows]
        place = np.minimum(np.searchsorted(allowed_hashes, pool_hashes), len(allowed_hashes) - 1)
        return replace(self, rows=np.where(allowed_hashes[place] == pool_hashes, allowed[first[place]], -1))

    def draw(self, step: int, count: int, taken: set[int]) -> Array:
        """Row numbers to try at a step: the step's `count` rows less those taken.

        When nothing is left of them, the stream goes on to the first row that is still free, so that growth can reach
        the whole training set; empty only when every row is taken.
        """
        drawn: list[int] = []
        seen = 0
        for position in self._positions(step):
            row = int(self.rows[position])
            if row < 0:
                continue
            seen += 1
            if row not in taken:
                drawn.append(row)
            if seen >= count and drawn:
                break
        return np.array(drawn, dtype=np.intp)

    def _positions(self, step: int) -> Iterator[int]:
        """All positions in the order of this step."""
        rng = np.random.default_rng([self.key, step])
        n = len(self.rows)
        if n <= _SHUFFLED:
            yield from rng.permutation(n).tolist()
            return
        seen: set[int] = set()
        while len(seen) < n // 2:
            for position in rng.integers(0, n, size=64).tolist():
                if position not in seen:
                    seen.add(position)
                    yield position
        remaining = np.setdiff1d(np.arange(n), np.fromiter(seen, dtype=np.intp))
        yield from rng.permutation(remaining).tolist()

    def draw_active(self, step: int, count: int, active: Array, taken: set[int]) -> Array:
        """Up to `count` of the rows `active`, or rows equal to them, that are not taken: a random set of this step."""
        places = np.flatnonzero(self._free(active, taken))
        if len(places) > count:
            places = np.random.default_rng([self.key, step, 1]).choice(places, count, replace=False)
        return self.rows[places]

    def draw_among(self, step: int, count: int, among: Array, taken: set[int]) -> Array:
        """Up to `count` row numbers at a step that are not taken, and equal to one of the rows `among`."""
        order = self.orders.get(step)
        if order is None:
            order = self.orders[step] = np.random.default_rng([self.key, step]).permutation(len(self.rows))
        return np.asarray(self.rows[order[self._free(among, taken)[order]][:count]])

    def _free(self, among: Array, taken: set[int]) -> Array:
        """Which positions hold a row that equals one of the rows `among` and none that is taken."""
        free = np.zeros(len(self.rows), dtype=bool)
        for rows, value in ((among, True), (list(taken), False)):
            positions = self.distinct[rows]
            free[positions[positions < len(free)]] = value  # a pool has fewer positions
        return free & (self.rows >= 0)


# -- schedules ----------------------------------------------------------------------------------------------


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
    """When to retrain while the basis grows, and how many candidates to try (section 6).

    The named schedules retrain at certain sizes and try the same number of candidates at each step.  The adaptive one
    decides by decrease of the objective per unit of work.  Retraining is worth what one Newton step would gain now,
    g' H^-1 g / 2, which only the rows that changed sides contribute to; it is done when that, per unit of work, exceeds
    the decrease of the last steps.  A larger set of candidates is worth the expected difference between the best of all
    scores and the best of a random half of them.  While that is a fair share of the best score, candidates are added
    until trying them costs as much as training (the balance that section 6.2 asks for); where scores hardly differ, or
    trying is most of the work and buys little, they are taken away.  Work is counted (multiply-adds), not timed, so
    that growth is reproducible.

    Examples
    --------
    >>> from kompakt.basis.forward import Schedule
    >>> [d for d in range(1, 20) if Schedule("quarter_powers", 10).retrain_at(d)]
    [1, 2, 3, 4, 5, 6, 8, 9, 11, 13, 16, 19]
    """

    name: str
    n_candidates: int
    rate: float = 0.0  # decrease per unit of work, smoothed
    retraining: float = 0.0  # work of a retraining, smoothed

    def __post_init__(self) -> None:
        if self.name not in [*SCHEDULES, "adaptive"]:
            raise ValueError(f"retraining must be one of {[*SCHEDULES, 'adaptive']}; got {self.name!r}.")
        self.least, self.most = max(2, self.n_candidates // 4), 8 * self.n_candidates

    def retrain_at(self, size: int, machine: GrowingMachine | None = None) -> bool:
        """Whether to retrain now that the basis has `size` vectors."""
        if self.name != "adaptive":
            return SCHEDULES[self.name](size)
        if size < 8 or _is_power(size, 1) or machine is None:
            return True
        expected = self.retraining or 8.0 * machine.A.shape[2] * machine.width
        return bool(machine.stale_gain() / expected >= self.rate)

    def learn(self, scores: Array, decrease: float, scoring: float, training: float, retraining: float) -> None:
        """Take note of a step: the candidates' scores, the decrease of the objective, and the work it took."""
        if self.name != "adaptive":
            return
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
    >>> from kompakt.basis.forward import expected_best_of_half
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


#: rows are few when they are less than this share: a random candidate is then seldom one of them
_FEW_ACTIVE = 0.1
#: `hybrid` tries method 1 while its work stays below this share of what method 2 needs for the whole growth
_HYBRID_SHARE = 1.0


# -- the growth ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GrowthPlan:
    """How to grow.

    Parameters
    ----------
    n_basis : int
        Size to grow to.
    selection : str
        One of `SELECTIONS`.
    n_candidates : int
        Rows tried at each step (the paper's kappa), where the selection tries rows.
    score_rows : {"active", "all"}
        Rows that count in the scores of `sp2`, `mark` and `kmp`.
    candidates : {"all", "mixed"}
        Rows that are tried: random ones, or half of them active ones when less than a tenth of the rows is active.
    retraining : {"quarter_powers", "always", "powers", "adaptive"}
    shrinking : bool
        Leave out rows that stay far inside the margin; all rows are checked at the end.
    patience : int, optional
        Stop so many steps after the lowest validation error; None grows to `n_basis`.
    tol : float
        Relative gradient at which the last retraining ends; those before it stop at 1e-5.
    max_iter : int
        Newton steps per retraining.
    run : Run
        Its deadline holds, its checkpoint keeps the growth; where it is interruptible, Ctrl-C ends the growth with the
        machine of the last complete step.

    Examples
    --------
    >>> from kompakt.basis.forward import GrowthPlan
    >>> GrowthPlan(n_basis=20).selection
    'sp2'
    """

    n_basis: int
    selection: str = "sp2"
    n_candidates: int = 10
    score_rows: str = "active"
    retraining: str = "quarter_powers"
    shrinking: bool = False
    patience: int | None = None
    tol: float = 1e-8
    max_iter: int = 200
    run: Run = field(default_factory=Run)
    candidates: str = "all"

    def __post_init__(self) -> None:
        if self.candidates not in ("all", "mixed"):
            raise ValueError(f"candidates must be 'mixed' or 'all'; got {self.candidates!r}.")
        if self.selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {SELECTIONS}; got {self.selection!r}.")
        if self.score_rows not in ("active", "all"):
            raise ValueError(f"score_rows must be 'active' or 'all'; got {self.score_rows!r}.")
        if self.shrinking and self.selection in WHOLE:
            raise ValueError(
                f"shrinking leaves out rows, but selection={self.selection!r} looks at all of them; "
                "use shrinking=False, or a selection that tries candidates."
            )
        Schedule(self.retraining, self.n_candidates)


def finish(machine: GrowingMachine, plan: GrowthPlan) -> None:
    """Train to the end and check the rows that were left out."""
    for _ in range(50):
        machine.retrain(plan.tol, plan.max_iter, plan.run, thorough=True)
        if not machine.restore():
            break


def lowest(records: list[Record]) -> int:
    """Place of the lowest validation error, the first of those that differ by rounding alone."""
    errors = np.array([record["validation_error"] for record in records])
    return int(np.flatnonzero(errors <= errors.min() + 1e-12 * max(1.0, abs(float(errors.min()))))[0])


class GrowthLoop(ABC):
    """Add basis vectors one by one until the plan's size, a deadline, Ctrl-C, or its patience ends it.

    Attributes
    ----------
    records : list of dict
        One per step.
    best : Snapshot
        The machine with the lowest validation error; without patience, the last one.
    """

    def __init__(self, machine: GrowingMachine, n_basis: int, patience: int | None, run: Run) -> None:
        self.machine, self.n_basis, self.patience, self.run = machine, n_basis, patience, run
        self.records: list[Record] = []
        self.best = machine.snapshot()
        self.started = time.perf_counter()
        self.untrained = False  # whether the first step only trains the vectors that are there

    @abstractmethod
    def step(self) -> Record | None:
        """Add one vector and train; None when no row is left that would change anything."""

    def complete(self) -> None:  # noqa: B027  (a growth need not)
        """What is done after the last step."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, as plain values and arrays."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Make a growth that has just begun what it was."""

    def grow(self) -> list[Record]:
        """Grow the machine in place; returns the records."""
        machine, run = self.machine, self.run
        place = run.progress("growth")
        if place.last is not None:
            self.set_state(place.last)
        records, last = self.records, None
        try:
            with run.task("growth", self.n_basis - machine.n_basis + self.untrained) as step:
                while machine.n_basis < self.n_basis or self.untrained:
                    if machine.n_basis and run.late and not self.untrained:
                        break
                    record = self.step()
                    if record is None:
                        logger.info("growth ends at %d basis vectors: no row is left to add.", machine.n_basis)
                        break
                    self.untrained = False
                    records.append(record)
                    last = machine.snapshot()
                    waited = 0 if self.patience is None else len(records) - 1 - lowest(records)
                    if not waited:
                        self.best = last
                    if step() or (self.patience is not None and waited >= self.patience):
                        break
                    if place.due():
                        place.save(self.state())
            self.complete()
        except KeyboardInterrupt:
            if last is None or not run.keeps_on_interrupt():
                raise
            machine.back_to(last)
            del records[machine.n_basis - records[0]["n_basis"] + 1 :]
            records[-1]["interrupted"] = True
        return records


class Growth(GrowthLoop):
    """Growth by one of `SELECTIONS` (Keerthi et al. 2006).

    What `measure` returns after every step joins its record.  The last retraining is complete, whatever the schedule.
    """

    def __init__(
        self,
        machine: GrowingMachine,
        stream: CandidateStream,
        plan: GrowthPlan,
        measure: Callable[[GrowingMachine], dict[str, float]] | None = None,
    ) -> None:
        super().__init__(machine, plan.n_basis, plan.patience, plan.run)
        self.stream, self.plan, self.measure = stream, plan, measure
        self.schedule = Schedule(plan.retraining, plan.n_candidates)
        self.method = "sp1" if plan.selection == "hybrid" else plan.selection
        self.whole: WholeRows | None = None
        if plan.selection in WHOLE:
            self.whole = WholeRows(plan.selection, machine, stream.rows[stream.rows >= 0])
        self.inside: Array | None = None  # rows far inside at the last retraining
        self.objective = float(np.sum(machine.objective()))
        self.spent = 0.0  # work of method 1 in a hybrid

    def step(self) -> Record | None:
        machine, plan = self.machine, self.plan
        scoring, training = machine.scoring, machine.training
        column, scores = None, np.empty(0)
        if self.method in SCORES:
            score_rows = "all" if self.method in ("sp1", "kmp_prefit") else plan.score_rows
            while True:
                indices = self._draw()
                if not len(indices):
                    return None
                tried = candidates(machine, indices, score_rows)
                scores = np.where(tried.distances > 0, SCORES[self.method](machine, tried), -np.inf)
                best = float(np.max(scores))
                if np.isfinite(best):
                    break
                machine.taken.update(indices.tolist())  # all of them lie in the span of the basis, now and later
            # equal to rounding: the first in the order of the stream, which does not depend on the order of the rows
            winner = int(np.flatnonzero(scores >= best - 1e-9 * abs(best))[0])
            index, diagonal = int(indices[winner]), float(tried.diagonal[winner])
            column = tried.K[winner] if score_rows == "all" else None
        else:
            chosen = self._next_row() if self.whole is None else self.whole.choose()
            if chosen is None:
                return None
            index, diagonal = chosen
        if column is None:
            column = machine.columns.columns(np.array([index]))[0]
            machine.scoring += len(column) * machine.columns.rows.n_features
        sound = machine.append(index, column, diagonal)
        if self.whole is not None:
            self.whole.added(column[None])
        appended = machine.training
        retrained = self.schedule.retrain_at(machine.n_basis, machine) or not sound
        if retrained:
            machine.retrain(max(1e-5, plan.tol), plan.max_iter, plan.run)
            if plan.shrinking:
                self._shrink()
        before, self.objective = self.objective, float(np.sum(machine.objective()))
        spent = machine.scoring - scoring
        self.schedule.learn(scores, before - self.objective, spent, appended - training, machine.training - appended)
        if plan.selection == "hybrid" and self.method == "sp1":
            # work that growing to the end by method 2 needs, by the counts of section 6.2
            n, d, m = machine.columns.rows.n_rows, machine.columns.rows.n_features, plan.n_basis
            work_per_vector = plan.n_candidates * len(machine.active) * (d + 20.0) + n * d
            self.spent += spent
            affordable = _HYBRID_SHARE * (m * work_per_vector + 2.0 * n * m * m)
            self.method = "sp1" if self.spent + spent <= affordable else "sp2"
        return {
            "n_basis": machine.n_basis,
            "objective": self.objective,
            "n_active": len(machine.active),
            "n_candidates": max(1, len(scores)),
            "method": self.method,
            "retrained": retrained,
            "n_kernel_evals": machine.columns.n_evals,
            "time": time.perf_counter() - self.started,
            **({} if self.measure is None else self.measure(machine)),
        }

    def _draw(self) -> Array:
        """Rows to try at this step.

        Once nearly all rows are outside the margin, random rows seldom matter to the objective: half of the candidates
        are then active ones. Not all of them, because the best vector need not be an active row.
        """
        machine, count = self.machine, self.schedule.n_candidates
        step, active = machine.n_basis, machine.active
        if self.plan.candidates == "all" or len(active) >= _FEW_ACTIVE * np.count_nonzero(self.stream.rows >= 0):
            return self.stream.draw(step, count, machine.taken)
        active_rows = self.stream.draw_active(step, count // 2, active, machine.taken)
        random_rows = self.stream.draw(step, count - len(active_rows), machine.taken)
        return np.array(list(dict.fromkeys([*active_rows.tolist(), *random_rows.tolist()])), dtype=np.intp)

    def _next_row(self) -> tuple[int, float] | None:
        """The next distinct row in the order of the hash that is not in the span of the basis, and its k(x, x)."""
        machine = self.machine
        for row in self.stream.rows.tolist():
            if row >= 0 and row not in machine.taken:
                index = np.array([row])
                diagonal = machine.columns.diagonal(index)
                if machine.distances(machine.features(index), diagonal)[0] > 0:
                    return row, float(diagonal[0])
                machine.taken.add(row)
        return None

    def complete(self) -> None:
        machine = self.machine
        finish(machine, self.plan)
        if self.records:  # the last record describes the machine that is handed over
            self.records[-1].update(objective=float(np.sum(machine.objective())), retrained=True)
            if self.measure is not None:
                self.records[-1].update(self.measure(machine))
            self.records[-1]["n_kernel_evals"] = machine.columns.n_evals

    def _shrink(self) -> None:
        """Leave out rows that were well beyond the margin at two retrainings in a row (section 3.4)."""
        machine = self.machine
        if machine.n_basis < 16 or not machine.loss.for_classes or machine.loss.quadratic:
            return
        margins = np.where(machine.cost > 0, machine.y * machine.f, np.inf)
        far = np.min(margins, axis=0) > 1.5
        far &= np.any(machine.cost > 0, axis=0)  # validation rows stay
        numbers = np.arange(len(far)) if machine.live is None else machine.live
        if self.inside is not None:
            far_twice = far & np.isin(numbers, self.inside, assume_unique=True)
            if np.count_nonzero(far_twice) > 0.2 * len(far):
                machine.shrink(~far_twice)
                numbers, far = numbers[~far_twice], far[~far_twice]
        self.inside = numbers[far]

    def state(self) -> dict[str, Any]:
        criterion, schedule = self.whole, vars(self.schedule).items()
        return {name: getattr(self, name) for name in _KEPT} | {
            "machine": self.machine.state(),
            "schedule": {key: value for key, value in schedule if isinstance(value, int | float)},
            "whole": None if criterion is None else (criterion.diagonal, criterion.squares, criterion.likeness),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.machine.set_state(state["machine"])
        vars(self.schedule).update(state["schedule"])
        if self.whole is not None:
            self.whole.diagonal, self.whole.squares, self.whole.likeness = state["whole"]
        for name in _KEPT:
            setattr(self, name, state[name])


#: attributes of a growth that a checkpoint keeps as they are
_KEPT = ("method", "inside", "objective", "spent", "records")


def training_weights(rows: ArrayRows, train: Array) -> Array:
    """Row weights with 0 for all rows that are not trained on."""
    all_weights = rows.weights
    weights = np.zeros((rows.n_rows,) if all_weights is None else all_weights.shape)
    weights[train] = 1.0 if all_weights is None else all_weights[train]
    return weights


@dataclass(frozen=True)
class Monitor:
    """Errors of a growing machine on its training rows and on rows that are held out.

    Parameters
    ----------
    data : Data
        Rows with class labels.
    spec : Spec
    held_out : ndarray, optional
        Numbers of the rows that are held out.
    """

    data: Data
    spec: Spec
    held_out: Array | None = None

    def __call__(self, machine: GrowingMachine) -> dict[str, float]:
        """Errors of the machine as it stands; rows that were shrunk away are far on the right side."""
        live = slice(None) if machine.live is None else machine.live
        weights = row_weights(self.data.in_memory)
        wrong, inside = np.zeros(len(weights)), np.ones(len(weights), dtype=bool)
        wrong[live] = Scorer.of(self.data, self.spec, live).row_errors(machine.f.T)
        row_sets = {"train_error": inside}
        if self.held_out is not None:
            inside[self.held_out] = False
            row_sets["validation_error"] = ~inside
        return {name: mean_and_error(wrong[rows], weights[rows])[0] for name, rows in row_sets.items()}


# -- as a selector ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GrowthSelector:
    """Basis vectors chosen one by one as the machine grows: the options of `SpSVC`, and a selector for the others.

    Parameters
    ----------
    rule : str, default="sp2"
        "sp1" (full re-fit with each candidate), "sp2" (best new weight with the others fixed), "hybrid" ("sp1" while it
        is cheap), "random", "cholesky" (farthest from the span of the basis), "gsvc", "bh", "mark" (largest
        derivative), "kmp" and "kmp_prefit" (matching pursuit on the least-squares loss).
    n_candidates : int, default=10
        Rows tried at each step.  Which ones depends on the step and `random_state` alone, but for `candidates`.
    score_rows : {"active", "all"}, default="active"
        Rows that count in the scores of "sp2", "mark" and "kmp".
    candidates : {"mixed", "all"}, default="mixed"
        Rows that are tried: "all" draws them among all rows, as the paper does; "mixed" draws half of them among the
        active rows when less than a tenth of the rows is active. A search (`tune`) draws among all rows.
    pool_size : int, default=None
        Try only this many rows, chosen once, whose kernel columns are computed in advance.
    retraining : {"quarter_powers", "always", "powers", "adaptive"}, default="quarter_powers"
        Sizes at which the weights are re-optimised with fresh active rows; between them one bordered system is solved.
        "adaptive" also adapts the number of candidates.
    cache : bool or "auto", default="auto"
        Keep full kernel columns of rows that were tried, within the memory budget; "auto" does so when the whole kernel
        matrix fits and rows will be tried more than once on average.
    shrinking : bool, default=False
        Leave out rows that stay far inside the margin; all rows are checked at the end.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt import GrowthSelector
    >>> from kompakt.kernels import RBF
    >>> from kompakt.losses import SquaredHinge
    >>> from kompakt.data import ArrayRows
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> rows = ArrayRows(X, targets=np.sign(X))
    >>> from kompakt.run import Run
    >>> from kompakt.spec import Data, Spec
    >>> GrowthSelector("sp2").select(Data(rows), Spec(RBF(1.0), SquaredHinge()), 5, Run()).n_basis
    5
    """

    rule: str = "sp2"
    n_candidates: int = 10
    score_rows: str = "active"
    pool_size: int | None = None
    retraining: str = "quarter_powers"
    cache: bool | str = "auto"
    shrinking: bool = False
    candidates: str = "mixed"

    def __post_init__(self) -> None:
        require_counts(self, "n_candidates", "pool_size")
        if self.cache not in (True, False, "auto"):
            raise ValueError(f"cache must be True, False or 'auto'; got {self.cache!r}.")
        if not isinstance(self.shrinking, bool | np.bool_):
            raise ValueError(f"shrinking must be True or False; got {self.shrinking!r}.")
        self.plan(1)  # refuses what is wrong with the others

    def plan(self, n_basis: int, tol: float = 1e-8, max_iter: int = 200, run: Run | None = None) -> GrowthPlan:
        """How to grow to a size."""
        return GrowthPlan(
            n_basis,
            self.rule,
            int(self.n_candidates),
            self.score_rows,
            self.retraining,
            bool(self.shrinking),
            tol=tol,
            max_iter=max_iter,
            run=run or Run(),
            candidates=self.candidates,
        )

    def stream(self, rows: ArrayRows, run: Run) -> CandidateStream:
        """The rows that are tried, in their order."""
        return CandidateStream.of(hash_rows(rows.X, run.key), run.key, self.pool_size)

    def columns(
        self, rows: ArrayRows, kernel: Kernel, stream: CandidateStream, n_basis: int, run: Run
    ) -> KernelColumns:
        """Kernel access, with a cache where it is wanted; columns of a pool are computed at once."""
        n_distinct, pool = len(stream.rows), 0
        if self.pool_size is not None:
            require_memory(rows.n_rows, int(self.pool_size), run.memory_budget)
            pool = n_distinct
        affordable = (run.budget - 8 * rows.n_rows * (n_basis + 1)) // max(1, 8 * rows.n_rows)
        slots = min(max(affordable, pool), n_distinct)
        tries = n_basis * (1 if self.rule in ("random", "cholesky", "gsvc", "bh") else self.n_candidates)
        caches = slots >= n_distinct and tries >= n_distinct if self.cache == "auto" else bool(self.cache)
        # what is in a cache would have to be in the checkpoint too: where a column comes from may change its last bits
        caches = caches and slots > 0 and run.checkpoint is None
        columns = KernelColumns(rows, kernel, max(1, slots) if pool or caches else 0)
        if pool:
            columns.columns(stream.rows)
        return columns

    def select(self, data: Data, spec: Spec, n_basis: int, run: Run) -> Basis:
        """The vectors in the order in which they were chosen.

        A loss that is not piecewise quadratic is stood in for by the squared hinge (classes) or least squares.
        """
        rows = data.in_memory
        if not spec.loss.piecewise_quadratic:
            spec = replace(spec, loss=SquaredHinge() if spec.loss.for_classes else LeastSquares())
        if self.rule.startswith("kmp"):
            spec = replace(spec, loss=LeastSquares())
        run = replace(run.inner(), checkpoint=None)  # a selection is one step of a fit: it is written down as a whole
        stream = self.stream(rows, run)
        capacity = min(int(n_basis), len(stream.rows))
        columns = self.columns(rows, spec.kernel, stream, capacity, run)
        machine = GrowingMachine.on_rows(columns, spec, capacity, memory_budget=run.memory_budget)
        objectives = [record["objective"] for record in Growth(machine, stream, self.plan(capacity, run=run)).grow()]
        indices = np.array(machine.indices, dtype=np.intp)
        return Basis(
            indices=indices,
            vectors=columns.vectors(indices),
            scores=np.array(objectives),
            factor=machine.factor_R.copy(),
            info={"n_kernel_evals": columns.n_evals, "objectives": objectives},
        )
