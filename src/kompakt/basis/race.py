"""The race: what the user left open is chosen by descents side by side, on the same rows held out.

An arm is a setting: the cost C, the metric that is learned, whether features bend, the rank of the map.  All arms begin
with the same vectors and see the same splits.  After a rung of iterations the losses of the same held-out rows are
compared in pairs; arms that are worse by more than chance are dropped, and the better half goes on.  The simplest arm
among those alike at the end goes on to where its held-out loss is lowest.  Many rows are raced on a sample that grows
with the rungs.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kompakt.basis.refine import Descent, RefinementObjective, Replay, principal_map, subset, with_metric
from kompakt.data import ArrayRows
from kompakt.data.rows import MOMENT_ROWS
from kompakt.heldout import Scorer, Trials, mean_and_error, no_worse
from kompakt.kernels import RBF, Kernel, MappedRBF
from kompakt.run import Run, Task
from kompakt.spec import Spec

Array = np.ndarray
logger = logging.getLogger("kompakt")

@dataclass(frozen=True)
class Rules:
    """The constants of the race; chosen on half of the public sets."""

    rungs: tuple[int, ...] = (10, 20, 40)  # iterations after which arms are compared
    worse: float = 1.0  # standard errors of the difference beyond which an arm is dropped
    alike: float = 0.5  # those within which the first of two settings is taken
    lower: tuple[float, ...] = (0.1, 0.01)  # costs of further heats, in those of the first
    early: int = 5  # a winner that is best after so few iterations fits noise: a lower cost is tried
    patience: int = 10  # an arm ends so many iterations after twice those that its lowest loss took
    first_rows: tuple[int, int] = (2500, 20)  # of the first rungs: so many, or so many for every vector
    sample_rows: tuple[int, int] = (20_000, 40)  # of the later ones
    finish: float = 0.25  # iterations on all rows, in those of the winner
    variance: float = 0.95  # share that the leading directions of wide rows hold


RULES = Rules()


@dataclass(frozen=True)
class Arm:
    """A setting that a descent can be made with."""

    spec: Spec  # what is minimised, with the kernel to begin with
    learn: str | None = None  # what of the kernel moves: None, "one" width, "each" or a "full" map
    bends: bool = False  # whether a transform of every feature is learned too
    rank: int | None = None  # of the map
    leading: bool = False  # whether it works in the leading principal directions of the rows

    @property
    def learns(self) -> bool:
        """Whether anything of the kernel moves."""
        return self.learn is not None or self.bends

    @property
    def settings(self) -> dict[str, Any]:
        """As a row of the table of trials names them."""
        width = getattr(self.spec.kernel, "gamma", None)
        gamma = None if width is None or np.ndim(width) else float(width)
        return {"gamma": gamma, "epsilon": getattr(self.spec.loss, "epsilon", None), "C": self.spec.C}

    @property
    def learned(self) -> str:
        """What moves, in words."""
        words = {None: "vectors", "one": "one width", "each": "widths", "full": "map"}[self.learn]
        return f"{words} and transform" if self.bends else words

    def cheaper(self, factor: float) -> Arm:
        """The same with so many times the cost."""
        return self if factor == 1.0 else replace(self, spec=replace(self.spec, C=factor * self.spec.C))

    def __str__(self) -> str:
        return f"{self.learned}, C {self.spec.C:g}"


@dataclass
class Part:
    """Rows to train on and rows held out, in the numbers of a descent."""

    train: ArrayRows
    held: ArrayRows
    scorer: Scorer
    basis: Array  # to begin with
    constant: float = 1.0  # held-out error of a constant; 1 for classes

    def within(self, space: MappedRBF) -> Part:
        """The same in the coordinates of a map."""
        train, held = in_space(self.train, space), in_space(self.held, space)
        return Part(train, held, self.scorer, space.mapped(self.basis.astype(np.float64)), self.constant)


@dataclass
class Place:
    """Where an arm was after some iterations, on every part, and how held-out rows did there."""

    iteration: int
    points: list[dict[str, Any]]  # kernel, basis and weights
    outputs: list[Array]
    losses: Array  # of all held-out rows
    errors: Array
    loss: float


class Lane:
    """An arm on its way: one descent for every part, iteration by iteration."""

    def __init__(self, arm: Arm, parts: list[Part], rules: Rules, replay: Replay) -> None:
        self.arm, self.parts, self.rules, self.replay = arm, parts, rules, replay
        kernel = RBF(1.0) if arm.leading else arm.spec.kernel
        self.kernels = [with_metric(kernel, arm.learn, part.train, arm.rank, bends=arm.bends) for part in parts]
        self.bases = [part.basis for part in parts]
        self.weights = np.concatenate([part.scorer.weights for part in parts])
        self.descents: list[Descent] = []
        self.curve: list[float] = []
        self.best: Place | None = None
        self.n_rows, self.spent, self.seconds = 0, 0, 0.0
        self._last: list[dict[str, Any]] = []  # points of the last iteration
        self.since = 0  # the iteration from which on it has had these rows
        self.ended = False

    @property
    def iteration(self) -> int:
        """Where the loss of held-out rows was lowest."""
        return 0 if self.best is None else self.best.iteration

    def is_as_good_as(self, lane: Lane, errors: float) -> bool:
        """Whether its held-out loss is, within so many standard errors of the difference, no higher."""
        if self.best is None or lane.best is None:
            return lane.best is None
        return no_worse(self.best.losses, lane.best.losses, self.weights, errors)

    def on_rows(self, count: int) -> None:
        """Go on with so many rows of every part, from where it was best."""
        count = min(count, max(part.train.n_rows for part in self.parts))
        if count <= self.n_rows:
            return
        self.spent += sum(descent.objective.n_kernel_evals for descent in self.descents)
        if self.best is not None:
            self.kernels = [point["kernel"] for point in self.best.points]
            self.bases = [point["basis"] for point in self.best.points]
        self.n_rows, self.descents, self.ended, self.since = count, [], False, max(0, len(self.curve) - 1)
        for part, kernel, basis in zip(self.parts, self.kernels, self.bases, strict=True):
            rows, spec = subset(part.train, replace(self.arm.spec, kernel=kernel), count)
            objective = RefinementObjective(rows, spec, learn_width=self.arm.learns)
            self.descents.append(Descent(objective, kernel, basis, self.replay))
        for descent in self.descents:
            descent.begin()
        if self.best is None:
            self._look()

    def advance(self, iterations: int, run: Run, step: Task) -> None:
        """Go on to so many iterations; ends early where held-out rows have seen nothing better for long."""
        began = time.perf_counter()
        while len(self.curve) - 1 < iterations and not self.ended and not run.late:
            moved = [descent.step() for descent in self.descents]
            if not any(moved):
                self.ended = True
                break
            self._look()
            gained = max(0, self.iteration - self.since)
            self.ended = len(self.curve) - 1 - self.since >= 2 * gained + self.rules.patience
            if step(float(self.n_rows * len(self.parts))):
                self.ended = True
        self.seconds += time.perf_counter() - began

    def _look(self) -> None:
        """The held-out rows where the descents are."""
        outputs, losses, errors = [], [], []
        points: list[dict[str, Any]] = []
        for part, descent in zip(self.parts, self.descents, strict=True):
            kernel, Z = descent.point
            weights = descent.weights
            if weights is None:  # a descent that has ended stays where it is
                weights = self._last[len(points)]["weights"] if self.curve else None
            if weights is None:
                held_out_outputs = np.zeros(part.scorer.targets.shape) + np.nan
            else:
                X = part.held.block(0, part.held.n_rows).X  # at most some thousand rows
                values = kernel.block(X, Z.astype(np.result_type(part.held.dtype, np.float32)))
                held_out_outputs = (values @ weights[0].astype(values.dtype)).astype(np.float64) + weights[1]
            points.append({"kernel": kernel, "basis": Z, "weights": weights})
            outputs.append(held_out_outputs)
            with np.errstate(over="ignore", invalid="ignore"):
                losses.append(part.scorer.row_losses(held_out_outputs))
            errors.append(part.scorer.row_errors(held_out_outputs))
        self._last = points
        every = np.concatenate(losses)
        loss = mean_and_error(every, self.weights)[0]
        loss = loss if np.isfinite(loss) else np.inf
        self.curve.append(loss)
        if self.best is None or loss < self.best.loss:
            self.best = Place(len(self.curve) - 1, points, outputs, every, np.concatenate(errors), loss)

    @property
    def n_kernel_evals(self) -> int:
        """Kernel values computed so far."""
        return self.spent + sum(descent.objective.n_kernel_evals for descent in self.descents)

    @property
    def row(self) -> dict[str, Any]:
        """The arm at its best, as a row of the table; errors of numbers are in those of a constant."""
        assert self.best is not None
        ends = np.cumsum([len(part.scorer.weights) for part in self.parts])[:-1]
        pairs = zip(np.split(self.best.errors, ends), self.parts, strict=True)
        errors = [float(part.scorer.mean(errors)) / part.constant for errors, part in pairs]
        return {
            "params": self.arm.settings, "error": float(np.mean(errors)), "fold_errors": errors,
            "seconds": self.seconds, "model": "refined" if self.iteration else "plain",
            "learned": self.arm.learned, "loss": self.loss, "iterations": self.iteration,
        }  # fmt: skip

    @property
    def loss(self) -> float:
        """The lowest mean loss of held-out rows."""
        return np.inf if self.best is None else self.best.loss


@dataclass
class Finish:
    """How a race ended: the place where the winner was best, and the table of all arms."""

    arm: int  # its place among the arms
    factor: float  # of its cost, in that of the arm
    points: list[dict[str, Any]]  # kernel, basis and weights, on every part
    outputs: list[Array]  # of the held-out rows of every part
    curve: list[float]  # held-out loss after every iteration
    table: list[dict[str, Any]]  # arms, in the columns of a trial
    chosen: int  # row of the winner
    rungs: list[dict[str, Any]]
    n_kernel_evals: int
    interrupted: bool

    @property
    def iteration(self) -> int:
        """Iterations of the winner where it was best."""
        return int(np.argmin(self.curve))

    @property
    def trials(self) -> Trials:
        """The table of the race."""
        trials = Trials()
        for row in self.table:
            trials.add(**row)
        count, best = len(self.table), self.table[self.chosen]
        trials.choose(
            trials.rows[self.chosen],
            f"{best['learned']} with C {best['params']['C']:g}, held-out error {best['error']:.4g}, won a race of "
            f"{count} settings." if count > 1 else "",
        )
        return trials


def race(
    arms: list[Arm], parts: list[Part], run: Run, max_iter: int, *,
    lower: tuple[float, ...] = (), rules: Rules = RULES,
) -> Finish:  # fmt: skip
    """Let the arms descend side by side; the winner is where its held-out loss is lowest.

    Parameters
    ----------
    arms : list of Arm
        Those that differ in metric and transform alone stand together; of settings alike, the first is taken.
    parts : list of Part
        Splits that all arms see.
    run : Run
    max_iter : int
        Iterations of an arm at most.
    lower : tuple of float
        Costs for another heat, in those of the arms, where the winner of the last one fits noise from the first
        iterations on; none where the user gave the cost.
    rules : Rules
    """
    space = None
    if any(arm.leading for arm in arms):
        assert isinstance(arms[0].spec.kernel, RBF)
        space = leading_directions(arms[0].spec.kernel, parts[0].train, rules.variance)
    inside = parts if space is None else [part.within(space) for part in parts]
    n_vectors, n_rows = len(parts[0].basis), max(part.train.n_rows for part in parts)
    few, many = (min(n_rows, max(count, share * n_vectors)) for count, share in (rules.first_rows, rules.sample_rows))
    lanes: list[Lane] = []
    factors: list[tuple[int, float]] = []  # of every lane: its arm, and the factor of its cost
    rungs: list[dict[str, Any]] = []
    replay = Replay(run.progress("evaluations"))

    def rung(alive: list[Lane], iterations: int, rows: int, step: Task) -> None:
        """Let these lanes go on to so many iterations."""
        for lane in alive:
            lane.on_rows(rows)
            lane.advance(min(iterations, max_iter), run, step)
        losses = [[str(lane.arm), lane.loss] for lane in alive]
        rungs.append({"iterations": min(iterations, max_iter), "rows": rows, "arms": losses})

    def heat(chosen: list[int], factor: float, step: Task) -> Lane:
        """The winner of some arms with so many times their cost, where it is best."""
        alive = []
        for number in chosen:
            arm = arms[number].cheaper(factor)
            alive.append(Lane(arm, inside if arm.leading else parts, rules, replay))
            factors.append((number, factor))
        lanes.extend(alive)
        for iterations in rules.rungs:
            if len(alive) > 1 and not run.late:
                rung(alive, iterations, few, step)
                alive = _survivors(alive, rules)
        winner = _first_alike(alive, rules)
        rung([winner], max_iter, many, step)
        return winner

    with run.task("refinement", work=float(many * max_iter * len(parts))) as step:
        try:
            winner = heat(list(range(len(arms))), 1.0, step)
            for factor in lower:
                if winner.iteration > rules.early or run.late:
                    break
                rival = heat([k for k, arm in enumerate(arms) if arm.spec is arms[0].spec], factor, step)
                if rival.loss >= winner.loss:
                    break
                winner = rival
            interrupted = False
        except KeyboardInterrupt:
            begun = [lane for lane in lanes if lane.best is not None]
            if not begun or not run.keeps_on_interrupt():
                raise
            winner, interrupted = min(begun, key=lambda lane: lane.loss), True
    assert winner.best is not None
    points = winner.best.points
    if space is not None and winner.arm.leading:
        points = [_outside(point, space) for point in points]
    begun = [lane for lane in lanes if lane.best is not None]
    arm, factor = factors[lanes.index(winner)]
    return Finish(
        arm, factor, points, winner.best.outputs, winner.curve, [lane.row for lane in begun], begun.index(winner),
        rungs, sum(lane.n_kernel_evals for lane in lanes), interrupted,
    )  # fmt: skip


def _survivors(lanes: list[Lane], rules: Rules) -> list[Lane]:
    """Of the metrics of every setting the better half, without those worse than its best by more than chance.

    A large cost goes down faster at first, whether or not it ends lower: settings are compared in the end only.
    """
    kept = []
    for spec in {id(lane.arm.spec): lane.arm.spec for lane in lanes}.values():
        ranked = sorted((lane for lane in lanes if lane.arm.spec is spec), key=lambda lane: lane.loss)
        alike = [lane for lane in ranked if lane.is_as_good_as(ranked[0], rules.worse)]
        kept += (alike or ranked[:1])[: -(-len(ranked) // 2)]
    return kept


def _first_alike(lanes: list[Lane], rules: Rules) -> Lane:
    """The first arm that is as good as the best."""
    best = min(lanes, key=lambda lane: lane.loss)
    return next(lane for lane in lanes if lane is best or lane.is_as_good_as(best, rules.alike))


def leading_directions(kernel: RBF, rows: ArrayRows, share: float) -> MappedRBF:
    """The principal directions of the rows, as the kernel scales them, that hold this share of their variance."""
    variances, directions = principal_map(kernel, rows)
    shares = np.cumsum(variances) / max(float(np.sum(variances)), 1e-300)
    return MappedRBF(directions[: int(np.searchsorted(shares, share)) + 1])


def in_space(rows: ArrayRows, space: MappedRBF) -> ArrayRows:
    """The rows in the coordinates of a map."""
    mapped = rows.collect(
        lambda block: space.mapped(block.X), MOMENT_ROWS, np.empty((rows.n_rows, space.rank), dtype=rows.dtype)
    )
    return ArrayRows(mapped, rows.targets, rows.weights)


def _outside(point: dict[str, Any], space: MappedRBF) -> dict[str, Any]:
    """A point of the leading directions in the coordinates of the rows."""
    return point | dict(zip(("kernel", "basis"), outside(point["kernel"], point["basis"], space), strict=True))


def outside(kernel: Kernel, basis: Array, space: MappedRBF) -> tuple[Kernel, Array]:
    """A kernel and vectors of a space in the coordinates of the rows: the shortest vectors that are mapped to these."""
    assert isinstance(kernel, RBF | MappedRBF)
    inner = kernel.map if isinstance(kernel, MappedRBF) else np.diag(np.sqrt(np.broadcast_to(kernel.gamma, space.rank)))
    return MappedRBF(inner @ space.map), basis @ np.linalg.pinv(space.map).T
