"""Growing by fast error estimation (seed 000, Table 1), and by the criteria it is compared with.

A step trains the machine, looks at its validation error, draws candidates among its support vectors and adds one:
the one whose machine, estimated with the weights a_i held, has the lowest validation error (`fee`); the one that
represents the support vectors best (`sgma`); or the support vector least like the basis (`gsvc`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from kompakt.basis.candidates import Candidates
from kompakt.basis.judges import Judge
from kompakt.basis.scores import WholeRows
from kompakt.basis.semiparametric import SemiparametricMachine
from kompakt.run import is_over, keeps_on_interrupt, task

Array = np.ndarray
Record = dict[str, Any]

SELECTIONS = ("fee", "sgma", "gsvc")


# -- scores -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """Candidates of one step that do not lie in the span of the basis."""

    indices: Array  # (k,) places
    columns: Array  # (k, P + H), whitened
    squares: Array  # (k,), squared distances from the span of the basis


def try_rows(machine: SemiparametricMachine, indices: Array) -> Trial:
    """New features of the candidates; those that equal a basis vector (or a combination) are left out."""
    columns, squares = machine.whitened(indices)
    free = squares > 0.0
    return Trial(indices, columns, squares) if free.all() else Trial(indices[free], columns[free], squares[free])


def estimate(machine: SemiparametricMachine, trial: Trial, *, held: bool = True) -> Array:
    """Predictions of every candidate's machine with the weights a_i held (eq. 14 to 17), (k, L, n).

    At the held-out rows, or at the training rows.
    """
    p, P = machine.width, machine.y.shape[1]
    A = machine.B[:p] if held else machine.A[:p]
    new = trial.columns[:, P:] if held else trial.columns[:, :P]
    F = np.empty((len(trial.indices), machine.n_outputs, A.shape[1]))
    for output, factor in enumerate(machine.hold()):
        F[:, output] = factor.border(trial.columns[:, :P]).predictions(A, new)
        machine.work.scoring += len(new) * (2.0 * len(factor.rows) + A.shape[1]) * p
    return F


def fast_weights(machine: SemiparametricMachine, trial: Trial) -> tuple[Array, Array]:
    """Eq. (17) itself: intercepts (k, L) and weights beta of the basis and the candidate, (k, L, m + 1)."""
    P, m, first = machine.y.shape[1], machine.n_basis, machine.first
    beta = np.empty((len(trial.indices), machine.n_outputs, m + 1))
    intercept = np.zeros(beta.shape[:2])
    phi = machine.A[first : machine.width, trial.indices].T
    for output, factor in enumerate(machine.hold()):
        theta = factor.border(trial.columns[:, :P]).coordinates
        if first:
            intercept[:, output] = theta[:, 0]
        beta[:, output, m] = theta[:, -1] / np.sqrt(trial.squares)
        old = theta[:, first:-1] - phi * beta[:, output, m:]
        beta[:, output, :m] = solve_triangular(machine.factor_R, old.T, check_finite=False).T if m else old
    return intercept, beta


def score_sgma(machine: SemiparametricMachine, trial: Trial, support: Array) -> Array:
    """Decrease of the representation error of the support vectors, sum_i |phi(x_i) - projection|^2 (larger is better).

    The whitened new feature of row i is the length of phi(x_i) along the new direction.
    """
    rows = np.flatnonzero(support)
    mass = machine.weights.max(axis=0)[rows]
    machine.work.scoring += trial.columns.shape[0] * len(rows)
    return np.square(trial.columns[:, rows]) @ mass


def pick(errors: Array, shortfalls: Array) -> int:
    """The lowest error; ties by margin, then the first, whose place is the seed's."""
    tied = np.flatnonzero(errors <= errors.min() + 1e-12 * max(1.0, abs(float(errors.min()))))
    short = shortfalls[tied]
    return int(tied[np.flatnonzero(short <= short.min() * (1.0 + 1e-9))[0]])


class _Shared:
    """The machine as `scores.WholeRows` knows machines: features by row, active rows, columns."""

    def __init__(self, machine: SemiparametricMachine) -> None:
        self.machine, self.columns_of, self.rows = machine, machine.values, self
        self.noise, self.n_rows = machine.noise, machine.y.shape[1]

    @property
    def n_basis(self) -> int:
        return self.machine.n_basis

    @property
    def width(self) -> int:
        return self.machine.width

    @property
    def indices(self) -> list[int]:
        return self.machine.indices

    @property
    def A(self) -> Array:
        return self.machine.A.T

    @property
    def active(self) -> Array:
        return np.flatnonzero(self.machine.support())


# -- the loop -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FeePlan:
    """How to grow.

    Parameters
    ----------
    n_basis : int
        Largest size.
    selection : {"fee", "sgma", "gsvc"}
    n_candidates : int
        Support vectors tried at each step.
    patience : int, optional
        Stop so many steps after the lowest validation error; None grows to `n_basis`.
    max_iter : int
        Training steps per size and output.
    deadline : float, optional
        On the clock of time.monotonic.

    Examples
    --------
    >>> from kompakt.basis.fee import FeePlan
    >>> FeePlan(n_basis=30).patience
    20
    """

    n_basis: int
    selection: str = "fee"
    n_candidates: int = 10
    patience: int | None = 20
    max_iter: int = 20
    tol: float = 1e-4
    deadline: float | None = None
    interruptible: bool = False  # Ctrl-C ends the growth with the best machine so far, instead of passing through

    def __post_init__(self) -> None:
        if self.selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {SELECTIONS}; got {self.selection!r}.")

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        return is_over(self.deadline)


#: sees machine, candidates and winner of a step
Observer = Callable[[SemiparametricMachine, Trial, int], None]


@dataclass(frozen=True)
class Growth:
    """What a growth found: one record per size, the best size, and the coordinates of its machine."""

    records: list[Record]
    size: int
    error: float
    coordinates: Array  # (L, first + size)
    interrupted: bool = False


def grow(
    machine: SemiparametricMachine,
    candidates: Candidates,
    plan: FeePlan,
    judge: Judge,
    observe: Observer | None = None,
    guide: Judge | None = None,
) -> Growth:
    """Table 1 from step 0: grow until the error has not fallen for `patience` steps, or to the plan's size.

    The judge sees the held-out rows, or the training rows where none are held out.  `observe` is handed the machine,
    its candidates and the winner's place among them before each vector is added (not with `gsvc`, which tries none).
    A `guide` judges the candidates by the training rows instead, as if no rows were held out: then the judge's error
    is of rows that had no say in the choice of vectors.
    """
    start = time.perf_counter()
    machine.append_vectors()
    chooser = _Chooser(machine, candidates, plan, guide or judge, observe, held=machine.n_held > 0 and guide is None)
    what = "validation_error" if machine.n_held else "train_error"
    records: list[Record] = []
    best: tuple[float, int, Array] | None = None
    estimated: float | None = None
    try:
        with task("growth", plan.n_basis - machine.n_basis + 1) as step:
            while True:
                machine.train(plan.max_iter, plan.tol)
                F = machine.held_out if machine.n_held else machine.f
                error = float(judge.errors(F[None])[0][0])
                records.append(
                    {
                        "n_basis": machine.n_basis,
                        "estimated_error": estimated,
                        what: error,
                        "n_candidates": chooser.n_tried,
                        "converged": machine.converged,
                        "time": time.perf_counter() - start,
                    }
                )
                if best is None or error < best[0] - 1e-12 * max(1.0, abs(best[0])) or plan.patience is None:
                    best = (error, *machine.snapshot())
                waited = plan.patience is not None and machine.n_basis - best[1] >= plan.patience
                if step() or machine.n_basis >= plan.n_basis or waited or plan.late:
                    break
                estimated = chooser.add()
                if chooser.empty:
                    break
    except KeyboardInterrupt:
        if best is None or not plan.interruptible or not keeps_on_interrupt():
            raise
        records[-1]["interrupted"] = True
        return Growth(records, best[1], best[0], best[2], interrupted=True)
    return Growth(records, best[1], best[0], best[2])


class _Chooser:
    """Chooses and adds the next vector."""

    def __init__(
        self,
        machine: SemiparametricMachine,
        candidates: Candidates,
        plan: FeePlan,
        judge: Judge,
        observe: Observer | None,
        held: bool,
    ) -> None:
        self.machine, self.candidates, self.plan, self.judge, self.observe = machine, candidates, plan, judge, observe
        self.held = held  # whether the judge sees the held-out rows
        self.taken: set[int] = set()  # distinct rows
        self.empty = False
        self.n_tried = 0
        self.whole: WholeRows | None = None
        if plan.selection == "gsvc":
            order = candidates.place[candidates.place >= 0]
            self.whole = WholeRows("gsvc", _Shared(machine), order)  # type: ignore[arg-type]
            self._note_first_vectors()

    def add(self) -> float | None:
        """Append the winner; returns its estimated error, None where the selection makes no estimate."""
        machine = self.machine
        if self.whole is not None:
            self._add_whole(self.whole)
            return None
        while True:
            if machine.n_outputs and not self._has_weights():
                self.empty = True
                return None
            support = machine.support()
            step = len(machine.indices)
            indices = self.candidates.draw(step, self.plan.n_candidates, support, self.taken)
            self.n_tried = len(indices)
            if not len(indices):
                self.empty = True
                return None
            trial = try_rows(machine, indices)
            if len(trial.indices):
                break
            # all of them lie in the span of the basis, now and later
            self.taken.update(self.candidates.distinct[indices].tolist())
        error = None
        if self.plan.selection == "sgma":
            scores = score_sgma(machine, trial, support)
            winner = int(np.flatnonzero(scores >= scores.max() * (1.0 - 1e-9))[0])
        else:
            errors, shortfalls = self.judge.errors(estimate(machine, trial, held=self.held))
            winner = pick(errors, shortfalls)
            error = float(errors[winner])
        if self.observe is not None:
            self.observe(machine, trial, winner)
        self._append(int(trial.indices[winner]), trial.columns[winner])
        return error

    def _has_weights(self) -> bool:
        """Whether every output still has rows with a positive weight; else no held problem determines it."""
        if self.plan.selection == "sgma":
            return True
        return all(len(factor.rows) for factor in self.machine.hold())

    def _append(self, index: int, column: Array | None) -> None:
        self.machine.append_row(index, column)
        self.taken.add(int(self.candidates.distinct[index]))

    def _note_first_vectors(self) -> None:
        machine, whole = self.machine, self.whole
        assert whole is not None
        train = machine.values.of_vectors()[0]
        whole.squares -= np.sum(np.square(machine.A[machine.first : machine.width]), axis=0)
        if machine.n_vectors:
            np.maximum(whole.likeness, np.abs(train[machine.used_vectors]).max(axis=0), out=whole.likeness)

    def _add_whole(self, whole: WholeRows) -> None:
        index = whole.choose()
        if index is None:
            self.empty = True
            return
        self.n_tried = 1
        self._append(index, None)
        whole.added(self.machine.values.of_rows(np.array([index]))[0][0])
