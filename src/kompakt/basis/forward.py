"""Forward growth of the basis (seed 001): choose a row, border the factors, retrain on schedule, until told to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kompakt.basis.candidates import CandidateStream
from kompakt.basis.machine import GrowingMachine, Snapshot
from kompakt.basis.saving import growth_state, restore_growth
from kompakt.basis.schedules import Schedule, make_schedule
from kompakt.basis.scores import SELECTIONS, TRIALS, Tried, WholeRows
from kompakt.basis.shrinking import restore, shrink
from kompakt.checkpoint import Progress, progress
from kompakt.run import is_over, keeps_on_interrupt, task

Array = np.ndarray
logger = logging.getLogger("kompakt")

#: what a step looks like in `history_`
Record = dict[str, Any]
#: errors of the machine as it stands (added to the record); asked after every step
Measure = Callable[[GrowingMachine], dict[str, float]]
#: whether to stop, given the records so far
Stop = Callable[[list[Record]], bool]


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
    retraining : {"quarter_powers", "always", "powers", "adaptive"}
    shrinking : bool
        Leave out rows that stay far inside the margin; all rows are checked at the end.
    hybrid_share : float
        `hybrid` tries method 1 while its work stays below this share of what method 2 needs for the whole growth.
    tol : float
        Relative gradient at which the last retraining ends; those before it stop at 1e-5.
    max_iter : int
        Newton steps per retraining.
    deadline : float, optional
        On the clock of time.monotonic.
    interruptible : bool
        Whether Ctrl-C ends the growth with the machine of the last complete step, instead of passing through.
    resumable : bool
        Whether the growth is written to the fit's checkpoint, where it has one.

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
    hybrid_share: float = 1.0
    tol: float = 1e-8
    max_iter: int = 200
    deadline: float | None = None
    interruptible: bool = False
    resumable: bool = False

    def __post_init__(self) -> None:
        if self.selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {SELECTIONS}; got {self.selection!r}.")
        if self.score_rows not in ("active", "all"):
            raise ValueError(f"score_rows must be 'active' or 'all'; got {self.score_rows!r}.")
        if self.shrinking and self.selection in ("cholesky", "gsvc", "bh"):
            raise ValueError(
                f"shrinking leaves out rows, but selection={self.selection!r} looks at all of them; "
                "use shrinking=False, or a selection that tries candidates."
            )
        make_schedule(self.retraining, self.n_candidates)

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        return is_over(self.deadline)


def grow(
    machine: GrowingMachine,
    stream: CandidateStream,
    plan: GrowthPlan,
    measure: Measure | None = None,
    stop: Stop | None = None,
) -> list[Record]:
    """Grow the machine in place to the plan's size; returns one record per step.

    Growth ends early when every row left lies in the span of the basis, at the deadline, or when `stop` says so.
    The last retraining is complete, whatever the schedule.
    """
    growth = _Growth(machine, stream, plan)
    records: list[Record] = []
    place = progress("growth") if plan.resumable else Progress()
    if place.last is not None:
        records = restore_growth(growth, place.last)
    last: Snapshot | None = None
    try:
        with task("growth", plan.n_basis - machine.n_basis) as step:
            while machine.n_basis < plan.n_basis and (not machine.n_basis or not plan.late):
                record = growth.step()
                if record is None:
                    logger.info("growth ends at %d basis vectors: all other rows lie in their span.", machine.n_basis)
                    break
                if measure is not None:
                    record.update(measure(machine))
                records.append(record)
                last = machine.snapshot()
                if step() or (stop is not None and stop(records)):
                    break
                if place.due():
                    place.save(growth_state(growth, records))
        finish(machine, plan)
    except KeyboardInterrupt:
        if last is None or not plan.interruptible or not keeps_on_interrupt():
            raise
        machine.back_to(last)
        del records[machine.n_basis - records[0]["n_basis"] + 1 :]
        records[-1]["interrupted"] = True
        return records
    if records:
        # the last record describes the machine that is handed over
        records[-1].update(objective=float(np.sum(machine.objective())), retrained=True)
        if measure is not None:
            records[-1].update(measure(machine))
        records[-1]["n_kernel_evals"] = machine.columns_of.n_evals
    return records


def finish(machine: GrowingMachine, plan: GrowthPlan) -> None:
    """Train to the end and check the rows that were left out."""
    for _ in range(50):
        machine.retrain(plan.tol, plan.max_iter, plan.deadline, thorough=True)
        if not restore(machine):
            break


def put_back(machine: GrowingMachine, indices: Array) -> None:
    """Give a machine the basis of an earlier growth, to go on from there."""
    for index in indices:
        diagonal = machine.columns_of.diagonal(np.array([index]))
        machine.append(int(index), machine.columns_of.column(int(index)), float(diagonal[0]))
        machine.retrain()


@dataclass
class _Growth:
    """The parts of a growth that change from step to step."""

    machine: GrowingMachine
    stream: CandidateStream
    plan: GrowthPlan
    schedule: Schedule = field(init=False)
    whole: WholeRows | None = field(init=False, default=None)
    method: str = field(init=False)
    inside: Array | None = field(init=False, default=None)  # rows far inside at the last retraining

    def __post_init__(self) -> None:
        plan, machine = self.plan, self.machine
        self.schedule = make_schedule(plan.retraining, plan.n_candidates)
        self.method = "sp1" if plan.selection == "hybrid" else plan.selection
        if plan.selection in ("cholesky", "gsvc", "bh"):
            order = self.stream.rows[self.stream.rows >= 0]
            self.whole = WholeRows(plan.selection, machine, order)
        self.started = time.perf_counter()
        self.objective = float(np.sum(machine.objective()))
        self.spent = 0.0  # work of method 1 in a hybrid

    def step(self) -> Record | None:
        """Add one vector; None when no row is left that would change anything."""
        machine, work = self.machine, self.machine.work
        scoring, training = work.scoring, work.training
        chosen = self._choose()
        if chosen is None:
            return None
        index, column, diagonal, scores = chosen
        if column is None:
            column = machine.columns_of.column(index)
            work.scoring += len(column) * machine.rows.n_features
        sound = machine.append(index, column, diagonal)
        if self.whole is not None:
            self.whole.added(column)
        held = work.training
        retrained = self.schedule.retrain_at(machine.n_basis, machine) or not sound
        if retrained:
            machine.retrain(max(1e-5, self.plan.tol), self.plan.max_iter, self.plan.deadline)
            if self.plan.shrinking:
                self._shrink()
        before, self.objective = self.objective, float(np.sum(machine.objective()))
        spent = work.scoring - scoring
        self.schedule.learn(scores, before - self.objective, spent, held - training, work.training - held)
        if self.plan.selection == "hybrid" and self.method == "sp1":
            self.spent += spent
            self.method = "sp1" if self.spent + spent <= self.plan.hybrid_share * self._sp2_work() else "sp2"
        return {
            "n_basis": machine.n_basis,
            "objective": self.objective,
            "n_active": len(machine.active),
            "n_candidates": max(1, len(scores)),
            "method": self.method,
            "retrained": retrained,
            "n_kernel_evals": machine.columns_of.n_evals,
            "time": time.perf_counter() - self.started,
        }

    def _choose(self) -> tuple[int, Array | None, float, Array] | None:
        """Row number, its column if it is known, k(x, x), and the scores that were compared."""
        machine = self.machine
        if self.whole is not None:
            index = self.whole.choose()
            return None if index is None else (index, None, float(self.whole.diagonal[index]), np.empty(0))
        if self.method == "random":
            return self._next_random()
        while True:
            indices = self.stream.draw(machine.n_basis, self.schedule.n_candidates, machine.taken)
            if not len(indices):
                return None
            tried: Tried = TRIALS[self.method](machine, indices, self.plan.score_rows)
            best = float(np.max(tried.scores))
            if np.isfinite(best):
                break
            # all of them lie in the span of the basis, now and later
            machine.taken.update(int(index) for index in indices)
        # equal to rounding: the first in the order of the stream, which does not depend on the order of the rows
        winner = int(np.flatnonzero(tried.scores >= best - 1e-9 * abs(best))[0])
        column = None if tried.columns is None else tried.columns[winner]
        return int(tried.indices[winner]), column, float(tried.diagonal[winner]), tried.scores

    def _next_random(self) -> tuple[int, Array | None, float, Array] | None:
        """The next distinct row in the order of the hash that is not in the span of the basis."""
        machine = self.machine
        for index in self.stream.rows:
            if index < 0 or int(index) in machine.taken:
                continue
            one = np.array([index])
            diagonal = machine.columns_of.diagonal(one)
            phi = machine.features(one)[0]
            if diagonal[0] - phi @ phi > machine.noise * (machine.n_basis + 1) * diagonal[0]:
                return int(index), None, float(diagonal[0]), np.empty(0)
            machine.taken.add(int(index))
        return None

    def _sp2_work(self) -> float:
        """Work that growing to the end by method 2 needs, by the counts of section 6.2."""
        machine, m = self.machine, self.plan.n_basis
        n, features = machine.rows.n_rows, machine.rows.n_features
        scoring = self.plan.n_candidates * len(machine.active) * (features + 20.0) + n * features
        return m * scoring + 4.0 * n * m * m / 2

    def _shrink(self) -> None:
        """Leave out rows that were well beyond the margin at two retrainings in a row (section 3.4)."""
        machine = self.machine
        if machine.n_basis < 16 or not machine.loss.for_classes or machine.loss.name == "least_squares":
            return
        margins = np.where(machine.s > 0, machine.y * machine.f, np.inf)
        far = np.min(margins, axis=1) > 1.5
        far &= np.any(np.broadcast_to(machine.s, machine.y.shape) > 0, axis=1)  # validation rows stay
        numbers = np.arange(len(far)) if machine.live is None else machine.live
        if self.inside is not None:
            again = far & np.isin(numbers, self.inside, assume_unique=True)
            if np.count_nonzero(again) > 0.2 * len(far):
                shrink(machine, ~again)
                numbers, far = numbers[~again], far[~again]
        self.inside = numbers[far]
