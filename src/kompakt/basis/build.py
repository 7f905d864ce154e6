"""A model for given parameters: choose the basis, solve for the weights, refine as far as held-out rows say.

Refinement descends on a non-convex objective with many parameters, so the way down is worth a part of it: held-out
rows are watched along the descent, and it goes to where their loss is lowest.  Few rows are held out in folds, each
with a basis of its own chosen without them (held-out rows that took part in the choice look better at the start than
they should); the mean of the folds' losses says how many iterations are made on all rows.  Of many rows one part is
held out, and the best point of that descent is taken.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from kompakt.basis.gram import GramSelector
from kompakt.basis.race import RULES, Arm, Finish, Part, in_space, leading_directions, outside, race
from kompakt.basis.random import RandomSelector
from kompakt.basis.refine import RefinementObjective, descend, subset, with_metric
from kompakt.data import ArrayRows, Rows
from kompakt.design import Design
from kompakt.heldout import Score, Scorer, Split, Trials, no_worse, split_rows
from kompakt.kernels import RBF, Kernel, MappedRBF
from kompakt.run import Run
from kompakt.solve import Problem, Settings, Solution, solve
from kompakt.spec import Basis, Data, Selector, Spec

Array = np.ndarray
logger = logging.getLogger("kompakt")

#: fewer rows than the first number are too few to hold some out; more than the second are not held out
_LEAST_ROWS_TO_HOLD_OUT, _MOST_HELD_OUT = 100, 5000
#: below so many rows one part held out is noise: so many folds are used, more of numbers, whose losses differ more
_FOLDS = ((200, 5), (3000, 3))
_FOLDS_OF_NUMBERS = ((1000, 5), (3000, 3))
#: rows, and rows per vector, that are enough for the choice and the weights of a start that will be refined
_MANY_ROWS, _ROWS_PER_VECTOR = 20_000, 40
#: with more features than this a descent works in the leading principal directions of the rows
_WIDE = 100
#: rows up to which a descent may take more iterations
_MOST_ROWS_FOR_MORE = 20_000


@dataclass(frozen=True)
class Plan:
    """How a model is built: who chooses its basis, whether it is refined, and when solvers stop."""

    selector: Selector | None = None
    refine: bool = True
    learn: str | None = None  # what of the kernel moves: None, "one" width, "each", a "full" map, or "grow" to one
    rank: int | None = None  # of the map; None: the number of features
    bends: bool | None = None  # whether features may bend; None: as held-out rows say
    lower_costs: bool = False  # whether costs below those of the settings may be tried
    shorten: bool = False  # the rank of a learned map, as far as held-out rows allow
    refine_iter: int = 100
    refine_more: bool = False  # twice as many where they cost little
    validation_fraction: float = 0.2
    tol: float = 1e-8
    max_iter: int = 200

    def settings(self, run: Run) -> Settings:
        """When a solve of this fit stops."""
        return Settings(self.tol, self.max_iter, run)


@dataclass(frozen=True)
class Machine:
    """A basis with its kernel and weights, before it becomes a model."""

    spec: Spec
    basis: Basis
    solution: Solution
    n_kernel_evals: int
    unseen: tuple[Array, Array] | None = None  # rows and their outputs under a machine that never saw them
    rough: bool = False  # the weights are those of a sample of the rows
    interrupted: bool = False  # Ctrl-C ended the refinement
    refined: bool = False  # the vectors were moved


def build(data: Data, spec: Spec, n_basis: int, plan: Plan, run: Run) -> Machine:
    """Choose `n_basis` vectors, solve for their weights, and refine if the plan says so."""
    machine = weigh(data, spec, choose(data, spec, n_basis, plan, run), plan, run)
    if not plan.refine or not machine.basis.n_basis:
        return machine
    return refined(data, machine, plan, run)[0]


def choose(data: Data, spec: Spec, n_basis: int, plan: Plan, run: Run, start: Array | None = None) -> Basis:
    """Basis vectors to begin with: those that the selector finds, or those of `start` and random rows."""
    if start is not None:
        return Basis(None, _extended(data, spec, start, n_basis, run))
    assert plan.selector is not None
    selector = plan.selector
    if plan.refine and spec.loss.quadratic and isinstance(selector, GramSelector):
        # vectors that will move need not be the best ones, and every row bears on a curve: fewer rows tell as much
        enough = max(_MANY_ROWS, _ROWS_PER_VECTOR * n_basis)
        selector = replace(selector, max_rows=selector.max_rows or min(selector.rows_for(n_basis), enough))
    with run.quietly():  # the note of `weigh` speaks of the whole selection
        basis: Basis = run.step("selection", partial(selector.select, data, spec, n_basis, run), Basis)
    if plan.refine and 0 < basis.n_basis < n_basis:
        # wide kernels make candidates look alike; refinement moves them apart, so more of them are worth having
        basis = Basis(None, _extended(data, spec, basis.vectors, n_basis, run), info=basis.info)
    return basis


def weigh(data: Data, spec: Spec, basis: Basis, plan: Plan, run: Run) -> Machine:
    """The basis with its weights."""
    rounds = basis.info.get("rounds")
    last = {} if not rounds else {"rounds": len(rounds), "objective": rounds[-1]["objective"]}
    run.note("selection", n_basis=basis.n_basis, **last)
    # max_time bounds the search for a basis; weights that stop half-way would make any basis useless
    settings = plan.settings(run.unhurried() if plan.refine else run)
    rows, C = data.rows, spec.C
    enough = max(_MANY_ROWS, _ROWS_PER_VECTOR * basis.n_basis)
    rough = plan.refine and isinstance(rows, ArrayRows) and rows.n_rows > 2 * enough
    if rough:  # the weights of the start are for comparison
        # at random: evenly spaced rows may all be of one class
        rows = rows.subset(np.sort(np.random.default_rng(0).permutation(rows.n_rows)[:enough]))
        C = C * data.rows.mass / rows.mass
    solution, evaluations = solved(rows, replace(spec, C=C), basis.vectors, settings)
    run.note("weights", n_basis=basis.n_basis, objective=_total(solution), n_iter=solution.n_iter)
    return Machine(spec, basis, solution, basis.n_kernel_evals + evaluations, rough=rough)


def solved(
    rows: Rows, spec: Spec, vectors: Array, settings: Settings, start: Solution | None = None
) -> tuple[Solution, int]:
    """The weights of the vectors on these rows, and the kernel evaluations they took."""
    design = Design(rows, spec.kernel, vectors, whiten=True, memory_budget=settings.run.memory_budget)
    theta = None
    if start is not None:
        theta = np.concatenate([design.to_coordinates(start.weights), start.intercept[None]])
    return solve(Problem.of(design, spec), theta, settings), design.n_kernel_evals


def outputs_without(
    train: Rows, held_out: ArrayRows, spec: Spec, vectors: Array, settings: Settings
) -> tuple[Array, int]:
    """Outputs of held-out rows with the weights of the others, and the kernel evaluations that these took."""
    solution, evaluations = solved(train, spec, vectors, settings)
    design = Design(held_out, spec.kernel, vectors, store=False)
    return design.matvec(solution.weights) + solution.intercept, evaluations


def _extended(data: Data, spec: Spec, start: Array, n_basis: int, run: Run) -> Array:
    """`n_basis` vectors that begin with those of `start`; random rows come after them."""
    if len(start) >= n_basis:
        return start[:n_basis]
    more = RandomSelector().select(data, spec, n_basis, run).vectors.astype(start.dtype)
    known = {vector.tobytes() for vector in start}
    fresh = [vector for vector in more if vector.tobytes() not in known][: n_basis - len(start)]
    return np.concatenate([start, *(vector[None] for vector in fresh)])


def arms_of(rows: Rows, specs: list[Spec], plan: Plan) -> list[Arm]:
    """The arms of a race among these settings: every metric and transform that the user left open."""
    gaussian = isinstance(specs[0].kernel, RBF)
    metrics: list[tuple[str | None, bool]] = [(plan.learn, False)]
    if plan.learn == "grow":
        metrics = [("each", False), ("full", rows.n_features > _WIDE and plan.rank is None)]
    bends = (False, True) if plan.learn == "grow" and plan.bends is None else (bool(plan.bends),)
    return [
        Arm(spec, learn, bent, plan.rank, leading)
        for spec in specs
        for learn, leading in metrics
        for bent in bends
        if not bent or (gaussian and not rows.is_sparse and not leading)
    ]


def raced(data: Data, plain: Machine, plan: Plan, run: Run, specs: list[Spec]) -> tuple[Machine, Finish | None]:
    """The machine moved by the winner of a race on held-out rows; where there are none, by the first arm."""
    rows, splits = data.in_memory, _splits(data, plan, run)
    arms = arms_of(rows, specs, plan)
    if not splits:
        return _moved_on_all_rows(data, plain, arms[0], plan.refine_iter, run), None
    chooser = plan if plan.selector is not None else replace(plan, selector=GramSelector())
    parts = []
    for train, held in splits:
        basis = plain.basis
        if len(splits) > 1:  # held-out rows that took part in the choice look better at the start than they should
            basis = choose(data.subset(train), specs[0], plain.basis.n_basis, chooser, run)
        train_rows, held_rows = (light(rows.subset(index), specs[0], run) for index in (train, held))
        scorer = Scorer.of(data, specs[0], held)
        constant = 1.0 if data.classifier else scorer.mean(scorer.row_errors(_constant_outputs(scorer))) or 1.0
        parts.append(Part(train_rows, held_rows, scorer, basis.vectors.astype(np.float64), constant))
    most = plan.refine_iter * (2 if plan.refine_more and rows.n_rows <= _MOST_ROWS_FOR_MORE else 1)
    lower = RULES.lower if plan.lower_costs else ()
    hurried = run.within(0.7) if len(splits) > 1 else run
    racing = partial(race, arms, parts, hurried, most, lower=lower)
    finish = run.step("race", racing, Finish, complete=lambda finish: not finish.interrupted)
    arm, iterations = arms[finish.arm].cheaper(finish.factor), finish.iteration
    machine = replace(
        plain,
        spec=arm.spec,
        n_kernel_evals=plain.n_kernel_evals + finish.n_kernel_evals,
        unseen=(np.concatenate([held for _, held in splits]), np.concatenate(finish.outputs)),
        interrupted=finish.interrupted,
    )
    if plain.refined:  # on a path of sizes
        for row in finish.table:
            row["model"] = "refined"
    if not iterations and (arm.rank is not None or arm.leading):  # the start was judged with this map
        machine = replace(machine, spec=replace(arm.spec, kernel=finish.points[0]["kernel"]))
    if iterations:
        point = finish.points[0] if finish.interrupted else _lowest(finish.points, rows, arm.spec, plan, run)
        machine = _moved(machine, point["kernel"], point["basis"].astype(rows.dtype), point["weights"])
        more = round(RULES.finish * iterations)
        if more and not finish.interrupted and not run.late:
            machine = _moved_on_all_rows(data, machine, replace(arm, spec=machine.spec, leading=False), more, run)
    return machine, finish


def _lowest(points: list[dict[str, Any]], rows: ArrayRows, spec: Spec, plan: Plan, run: Run) -> dict[str, Any]:
    """Of the places where the parts' descents ended, the one with the lowest objective on all rows.

    A descent from another start may end in another minimum than those that held-out rows have seen.
    """
    if len(points) == 1:
        return points[0]
    settings = replace(plan.settings(run.unhurried()), tol=1e-4)
    ends = [(point["basis"].astype(rows.dtype), replace(spec, kernel=point["kernel"])) for point in points]
    objectives = [_total(solved(rows, spec, vectors, settings)[0]) for vectors, spec in ends]
    return points[int(np.argmin(objectives))]


def _constant_outputs(scorer: Scorer) -> Array:
    """Outputs of the best constant of held-out rows."""
    return np.broadcast_to(scorer.spec.loss.best_constant(scorer.targets, scorer.weights), scorer.targets.shape)


@dataclass(frozen=True)
class Moved:
    """Where a descent ended."""

    kernel: Kernel
    basis: Array
    weights: tuple[Array, Array] | None  # and intercept, on the rows that it saw
    n_kernel_evals: int
    interrupted: bool


def descended(rows: ArrayRows, arm: Arm, basis: Array, iterations: int, run: Run) -> Moved:
    """So many iterations of an arm."""
    kernel, basis, space = arm.spec.kernel, basis.astype(np.float64), None
    if arm.leading:
        assert isinstance(kernel, RBF)
        space = leading_directions(kernel, rows, RULES.variance)
        rows, basis, kernel = in_space(rows, space), space.mapped(basis), RBF(1.0)
    kernel = with_metric(kernel, arm.learn, rows, arm.rank, bends=arm.bends)
    objective = RefinementObjective(rows, replace(arm.spec, kernel=kernel), learn_width=arm.learns)
    with run.task("refinement", iterations, work=float(rows.n_rows * iterations)) as step:
        descent, interrupted = descend(objective, kernel, basis, iterations, run, step)
    kernel, basis = descent.point if space is None else outside(*descent.point, space)
    return Moved(kernel, basis, descent.weights, objective.n_kernel_evals, interrupted)


def _moved_on_all_rows(data: Data, plain: Machine, arm: Arm, iterations: int, run: Run) -> Machine:
    """The machine after so many iterations of an arm on all rows, or on as many as fit the memory."""
    vectors = plain.basis.vectors
    itemsize = np.result_type(data.rows.dtype, np.float32).itemsize
    count = max(1000, run.budget // (2 * max(1, len(vectors)) * itemsize))
    rows, spec = subset(light(data.in_memory, arm.spec, run), arm.spec, count)
    descent = partial(descended, rows, replace(arm, spec=spec), vectors, iterations, run)
    moved = run.step("descent", descent, Moved, complete=lambda moved: not moved.interrupted)
    machine = _moved(plain, moved.kernel, moved.basis.astype(data.in_memory.dtype), moved.weights)
    evaluations = plain.n_kernel_evals + moved.n_kernel_evals
    return replace(machine, n_kernel_evals=evaluations, interrupted=moved.interrupted)


def _moved(plain: Machine, kernel: Kernel, basis: Array, weights: tuple[Array, Array] | None) -> Machine:
    """The machine with its vectors elsewhere, and weights to begin with."""
    solution = plain.solution
    if weights is not None:
        solution = replace(solution, weights=weights[0], intercept=weights[1], converged=False)
    return replace(plain, spec=replace(plain.spec, kernel=kernel), basis=Basis(None, basis), solution=solution,
                   refined=True)  # fmt: skip


def refined(
    data: Data, plain: Machine, plan: Plan, run: Run, specs: list[Spec] | None = None
) -> tuple[Machine, Trials | None]:
    """The machine where its race among these settings ended, with the weights of all rows; the table of the race."""
    with run.quietly():
        machine, finish = raced(data, plain, plan, run, specs or [plain.spec])
    facts: dict[str, Any] = {"kept": machine.refined}
    if finish is not None:
        curve, best = finish.curve, finish.trials.best
        facts |= {
            "arm": f"{best.more['learned']}, C {best.params['C']:g}",
            "n_iter": finish.iteration,
            "validation_before": curve[0],
            "validation": min(curve),
            "validation_curve": curve,
            "rungs": finish.rungs,
        }
    trials = None if finish is None else finish.trials
    if machine.interrupted:
        run.note("refinement", interrupted=True, **facts)
        return machine, trials
    if plan.shorten and machine.refined and not run.late:
        machine = replace(machine, spec=_shortened(data, machine, plan, run))
    start = machine.solution if machine.refined else None
    try:
        settings = plan.settings(run.unhurried())
        solution, spent = solved(data.in_memory, machine.spec, machine.basis.vectors, settings, start)
    except KeyboardInterrupt:
        if not machine.refined or not run.keeps_on_interrupt():
            raise
        run.note("refinement", interrupted=True, **facts)
        return replace(machine, interrupted=True), trials
    if machine.spec.C == plain.spec.C and not plain.rough:
        facts |= {"objective_before": _total(plain.solution), "objective": _total(solution)}
    run.note("refinement", **facts)
    run.note("weights", n_basis=machine.basis.n_basis, objective=_total(solution), n_iter=solution.n_iter)
    return replace(machine, solution=solution, n_kernel_evals=machine.n_kernel_evals + spent, rough=False), trials


def _shortened(data: Data, machine: Machine, plan: Plan, run: Run) -> Spec:
    """The map without directions in which mapped inputs hardly differ.

    Their principal directions are sorted by variance; the fewest are kept whose loss on held-out rows is, within one
    standard error of the difference, no higher than with all.  Where no rows can be held out, those that hold all but
    a thousandth of the variance.
    """
    spec, kernel, rows = machine.spec, machine.spec.kernel, data.in_memory
    if not isinstance(kernel, MappedRBF):
        return spec
    mapped = kernel.mapped(rows.take(np.linspace(0, rows.n_rows - 1, min(rows.n_rows, 5000)).astype(np.intp)))
    variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(mapped, rowvar=False, dtype=np.float64)))
    left_out = np.cumsum(np.maximum(variances, 0.0))  # ascending
    left_out /= max(float(left_out[-1]), np.finfo(np.float64).tiny)
    turned = directions[:, ::-1].T @ kernel.map
    ranks = [kernel.rank - int(np.sum(left_out <= share)) for share in (0.2, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001)]
    split = hold_out(data, plan, run)
    if split is None:
        return replace(spec, kernel=MappedRBF(turned[: ranks[-1]]))
    part, other = (data.subset(index) for index in split)

    whole = held_out(part, other, spec, machine.basis.vectors, plan, run)
    for rank in sorted(set(ranks) - {kernel.rank}):
        shorter = replace(spec, kernel=MappedRBF(turned[:rank]))
        score = held_out(part, other, shorter, machine.basis.vectors, plan, run)
        if no_worse(score.row_losses, whole.row_losses, whole.weights):
            return shorter
    return spec


def _splits(data: Data, plan: Plan, run: Run) -> list[Split]:
    """Rows to train on and rows to hold out: folds of few rows, one part of many; none where they are too few."""
    split = hold_out(data, plan, run)
    if split is None:
        return []
    n_rows = data.rows.n_rows
    folds = _FOLDS if data.classifier else _FOLDS_OF_NUMBERS
    n_folds = next((count for limit, count in folds if n_rows < limit), 1)
    if n_folds == 1:
        return [split]
    return split_rows(data, n_folds, run.key % 2**31)


def on_all_rows(data: Data, machine: Machine, plan: Plan, run: Run) -> Machine:
    """A machine found on a sample, its weights solved exactly on all rows by passes over them."""
    settings = plan.settings(run.unhurried())
    solution, spent = solved(data.rows, machine.spec, machine.basis.vectors, settings, machine.solution)
    facts = {"n_basis": machine.basis.n_basis, "objective": _total(solution), "n_iter": solution.n_iter}
    run.note("weights on all rows", n_rows=data.rows.n_rows, **facts)
    return replace(machine, solution=solution, rough=False, n_kernel_evals=machine.n_kernel_evals + spent)


def held_out(train: Data, held: Data, spec: Spec, basis: Array, plan: Plan, run: Run) -> Score:
    """The machine with this basis, its weights solved on `train`, on the rows held out."""
    settings = replace(plan.settings(run.unhurried()), tol=1e-6)
    return Scorer.of(held, spec).score(outputs_without(train.rows, held.in_memory, spec, basis, settings)[0])


def unseen_outputs(data: Data, machine: Machine, plan: Plan, run: Run) -> tuple[Array, Array]:
    """Rows and their outputs under a machine whose weights never saw them: what calibration needs."""
    if machine.unseen is not None:
        return machine.unseen
    split = hold_out(data, plan, run)
    if split is None:
        raise ValueError(
            f"calibrate=True holds out rows, which needs at least {_LEAST_ROWS_TO_HOLD_OUT} rows, two of every class "
            f"and validation_fraction > 0; got {data.rows.n_rows} rows. Use CalibratedClassifierCV instead."
        )
    part, other = (data.subset(index) for index in split)
    return split[1], held_out(part, other, machine.spec, machine.basis.vectors, plan, run).outputs


def light(rows: ArrayRows, spec: Spec, run: Run) -> ArrayRows:
    """The rows as dense float32 for the descent, where that fits: twice as fast, and its last digits do not matter."""
    if not rows.is_sparse and rows.dtype == np.float32:
        return rows
    if 4 * rows.n_rows * rows.n_features > run.budget:
        return rows
    X = rows.X if rows.offset is None else rows.X - rows.offset
    largest = float(np.max(np.abs(X.data if rows.is_sparse else X), initial=0.0))
    if not 1e-12 < largest < 1e12:  # squares and widths must stay inside the range of float32
        return rows
    weight = 1.0 if rows.weights is None else float(np.max(rows.weights))
    target = 1.0 if rows.targets is None else float(np.max(np.abs(rows.targets), initial=1.0))
    if not max(weight, spec.C * weight * target**2) < 1e30:  # and so must weights and the objective
        return rows
    return ArrayRows((X.toarray() if rows.is_sparse else X).astype(np.float32), rows.targets, rows.weights)


def hold_out(data: Data, plan: Plan, run: Run) -> Split | None:
    """Rows to train on and rows to hold out; None where there are too few rows to spare some."""
    n_rows, labels = data.rows.n_rows, data.labels
    if plan.validation_fraction <= 0 or n_rows < _LEAST_ROWS_TO_HOLD_OUT:
        return None
    if labels is not None:
        counts, n_held = np.bincount(labels), np.ceil(min(plan.validation_fraction, _MOST_HELD_OUT / n_rows) * n_rows)
        if np.min(counts) < 2 or n_held < len(counts):  # both parts must hold every class
            return None
    return split_rows(data, 1, run.key % 2**31, fraction=plan.validation_fraction, most_rows=_MOST_HELD_OUT)[0]


def _total(solution: Solution) -> float:
    return float(np.sum(solution.objective))
