"""A model for given parameters: choose the basis, solve for the weights, refine as far as held-out rows say.

Refinement descends on a non-convex objective with many parameters, so the way down is worth a part of it: held-out
rows are watched along the descent, and it goes to where their loss is lowest.  Few rows are held out in folds, each
with a basis of its own chosen without them (held-out rows that took part in the choice look better at the start than
they should); the mean of the folds' losses says how many iterations are made on all rows.  Of many rows one part is
held out, and the best point of that descent is taken.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from kompakt.basis.gram import GramSelector
from kompakt.basis.random import RandomSelector
from kompakt.basis.refine import Refined, Watch, best_seen, mean_curve, principal_map, refine, subset
from kompakt.data import ArrayRows, Rows
from kompakt.data.rows import MOMENT_ROWS
from kompakt.design import Design
from kompakt.heldout import Score, Scorer, Split, no_worse, split_rows
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
#: in folds, a descent ends so many iterations after twice those that the lowest mean of their losses took
_FOLD_PATIENCE = 10
#: more features than this make a map too large to be tried without being asked for
_MOST_FEATURES_TO_MAP = 200
#: rows, and rows per vector, that are enough for the choice and the weights of a start that will be refined
_MANY_ROWS, _ROWS_PER_VECTOR = 20_000, 40
#: with more features than this a descent works in the leading principal directions of the rows
_WIDE = 100
#: shares of the variance that these may hold, and the rows on which they are compared
_SHARES, _ROWS_FOR_RANK = (0.8, 0.9, 0.95), 10_000
#: rows up to which a descent may take more iterations
_MOST_ROWS_FOR_MORE = 20_000
#: one width per feature, and then a map
_WIDTHS_FIRST: list[tuple[str | None, float]] = [("each", 0.5), ("full", 1.0)]
#: iterations after which it is seen whether a map from the beginning or widths first are better, and rows for that
_RACE, _RACE_ROWS, _RACE_ROWS_PER_VECTOR = 15, 5000, 20
#: so many rows per entry are enough to learn a map from the beginning
_ROWS_PER_ENTRY = 20
#: smaller costs of a descent, in those of the weights: each is tried where held-out rows soon spoke against the last
_SMALLER_COSTS = (0.1, 0.01)


@dataclass(frozen=True)
class Plan:
    """How a model is built: who chooses its basis, whether it is refined, and when solvers stop."""

    selector: Selector | None = None
    refine: bool = True
    learn: str | None = None  # what of the kernel moves: None, "one" width, "each", a "full" map, or "grow" to one
    rank: int | None = None  # of the map; None: the number of features
    shorten: bool = False  # the rank of a learned map, as far as held-out rows allow
    refine_iter: int = 100
    refine_more: bool = False  # twice as many where they cost little
    validation_fraction: float = 0.1
    tol: float = 1e-8
    max_iter: int = 200

    def settings(self, run: Run) -> Settings:
        """When a solve of this fit stops."""
        return Settings(self.tol, self.max_iter, run)

    def phases(self, rows: Rows, *, watched: bool = True) -> list[tuple[str | None, float]]:
        """What refinement learns, one after the other, and the share of the iterations that each may take.

        A map is grown from one width per feature once these have been learned, and kept only if it pays on held-out
        rows; where nobody watches there are only the widths.  With many rows for every entry of a map, it may be
        learned from the beginning.
        """
        if self.learn != "grow":
            return [(self.learn, 1.0)]
        n_features = rows.n_features
        wide = n_features > _MOST_FEATURES_TO_MAP and self.rank is None
        if watched and rows.n_rows >= _ROWS_PER_ENTRY * n_features * min(n_features, self.rank or n_features):
            return [("full", 1.0)]
        return [("each", 1.0)] if wide or not watched else _WIDTHS_FIRST


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
    return refined(data, machine, descended(data, machine, plan, run), plan, run)


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


@dataclass
class Descent:
    """Where the descents of a refinement ended; without a result, at their start."""

    result: Refined | None = None
    n_kernel_evals: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    unseen: tuple[Array, Array] | None = None
    interrupted: bool = False  # in a descent whose result is not taken
    #: rows to train on, rows held out, and the kernel and vectors where the descent on them ended
    ends: list[tuple[ArrayRows, ArrayRows, Kernel, Array]] = field(default_factory=list)

    @property
    def stopped(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.interrupted or (self.result is not None and self.result.interrupted is not None)


def descended(data: Data, plain: Machine, plan: Plan, run: Run) -> Descent:
    """Move the vectors and learn the metric, as far down as pays on held-out rows.

    The cost C suits the weights; many vectors that move as well may fit noise with it, and held-out rows then speak
    against the descent after a few iterations.  A descent with a smaller cost moves the vectors to where a smoother
    function wants them.  It is taken if its vectors, with weights for C itself, are better on held-out rows.
    """
    spec, splits = plain.spec, _splits(data, plan, run)
    found = last = _descended(data, plain, plan, splits, run)
    for share in _SMALLER_COSTS if len(splits) == 1 else _SMALLER_COSTS[:1]:  # folds take longer
        curve = last.facts.get("validation_curve", [])
        turned_early = int(np.argmin(curve or [0])) < min(_patience(plan), len(curve) - 1)
        if not turned_early or run.late or found.stopped:
            break
        last = _descended(data, replace(plain, spec=replace(spec, C=share * spec.C)), plan, splits, run)
        found.n_kernel_evals += last.n_kernel_evals
        stopped, outputs = last.stopped, []
        settings = Settings(1e-6, 100, run.unhurried())
        try:
            for part, other, kernel, basis in last.ends if last.result is not None and not stopped else []:
                fold_outputs, spent = outputs_without(part, other, replace(spec, kernel=kernel), basis, settings)
                outputs.append(fold_outputs)
                found.n_kernel_evals += spent
        except KeyboardInterrupt:
            if not run.keeps_on_interrupt():
                raise
            stopped = True
        if stopped:
            found.interrupted = True
            if found.result is not None:
                found.result = replace(found.result, interrupted=found.result.weights)
            break
        if last.result is None:
            continue
        losses = [Scorer.of(data, spec, split[1]).score(own).loss for split, own in zip(splits, outputs, strict=True)]
        loss = float(np.average(losses, weights=[len(held) for _, held in splits]))  # as of the curves
        if loss < found.facts["validation"]:
            facts = {"validation_before": found.facts["validation_before"], "validation": loss}
            index = np.concatenate([held for _, held in splits])
            found = replace(
                last,
                n_kernel_evals=found.n_kernel_evals,
                facts={**last.facts, **facts, "C_of_descent": share * spec.C},
                unseen=(index, np.concatenate(outputs)),
            )
    return found


def _descended(data: Data, plain: Machine, plan: Plan, splits: list[Split], run: Run) -> Descent:
    """The same with one cost."""
    spec = plain.spec
    if len(splits) > 1:
        return _by_folds(data, plain, plan, splits, run)
    if not splits:
        part = light(data.in_memory, spec, run)
        learn = plan.phases(part, watched=False)[0][0]
        vectors, most = plain.basis.vectors, plan.refine_iter
        found = refine(part, spec, vectors, run, learn=learn, rank=plan.rank, max_iter=most)
        return Descent(found, found.n_kernel_evals)
    (train, held), total = splits[0], Descent()
    part, other = (light(data.rows.subset(index), spec, run) for index in (train, held))
    kernel, basis, outputs = spec.kernel, plain.basis.vectors, None
    space = leading_directions(part, other, spec, basis, Scorer.of(data, spec, held), plan, run)
    if space is not None:
        part, other = (in_space(rows, space) for rows in (part, other))
        kernel, basis = RBF(1.0), space.mapped(basis.astype(np.float64))
    watch = Watch(other, Scorer.of(data, spec, held), patience=_patience(plan))
    curve: list[float] = []
    left = plan.refine_iter
    if plan.refine_more and part.n_rows <= _MOST_ROWS_FOR_MORE:
        left *= 2
    phases = plan.phases(part)
    if phases == [("full", 1.0)] and plan.learn == "grow":
        # which of the two begins better is soon seen: neither the number of rows nor that of features tells
        few, few_spec = subset(part, spec, max(_RACE_ROWS, _RACE_ROWS_PER_VECTOR * len(basis)))
        ends = []
        for learn in ("full", "each"):
            start = replace(few_spec, kernel=kernel)
            tried = refine(few, start, basis, run, learn=learn, rank=plan.rank, like=part, max_iter=_RACE, watch=watch)
            total.n_kernel_evals += tried.n_kernel_evals
            ends.append(min(point["loss"] for point in tried.seen))
            if tried.interrupted is not None:  # that is where this fit ends
                total.result, curve, phases = tried, [point["loss"] for point in tried.seen], []
            if tried.interrupted is not None or run.late:
                break
        if phases and len(ends) == 2 and ends[1] < ends[0]:
            phases = _WIDTHS_FIRST
    for learn, share in phases:
        start, most = replace(spec, kernel=kernel), max(1, int(share * left))
        found = refine(part, start, basis, run, learn=learn, rank=plan.rank, max_iter=most, watch=watch)
        total.n_kernel_evals += found.n_kernel_evals
        best = best_seen(found.seen)
        pays = best > 0 and found.seen[best]["loss"] < min(curve, default=np.inf)
        curve += [point["loss"] for point in (found.seen[1:] if curve else found.seen)]
        if found.interrupted is not None:
            total.result = found
            break
        if pays:
            left -= best
            kernel, basis, outputs = (found.seen[best][name] for name in ("kernel", "basis", "outputs"))
            total.result = replace(found.after(total.result), seen=[])
            total.facts["metric"] = learn
        if left < 1 or run.late:
            break
    total.ends = [(part, other, kernel, basis)]
    if space is not None and total.result is not None:
        found = total.result
        assert isinstance(found.kernel, RBF | MappedRBF)
        if isinstance(found.kernel, MappedRBF):
            inner = found.kernel.map
        else:
            inner = np.diag(np.sqrt(np.broadcast_to(found.kernel.gamma, space.rank)))
        basis = found.basis @ np.linalg.pinv(space.map).T  # the shortest vectors that are mapped to these
        total.result = replace(found, kernel=MappedRBF(inner @ space.map), basis=basis)
    total.facts |= {"validation_before": curve[0], "validation": min(curve), "validation_curve": curve}
    total.unseen = None if outputs is None else (held, outputs.astype(np.float64))
    return total


def leading_directions(
    part: ArrayRows, other: ArrayRows, spec: Spec, basis: Array, scorer: Scorer, plan: Plan, run: Run
) -> MappedRBF | None:
    """Principal directions of wide rows in which a descent costs less; None where it should keep all features.

    Of the directions that hold some share of the variance, as the kernel scales the rows, the fewest are taken whose
    loss on held-out rows is, within a standard error, no more than the lowest.
    """
    if plan.learn != "grow" or plan.rank is not None or part.n_features <= _WIDE or not isinstance(spec.kernel, RBF):
        return None
    variances, directions = principal_map(spec.kernel, part)
    shares = np.cumsum(variances) / max(float(np.sum(variances)), 1e-300)
    ranks = [int(np.searchsorted(shares, share)) + 1 for share in _SHARES]
    sample = part.subset(np.arange(0, part.n_rows, -(-part.n_rows // _ROWS_FOR_RANK)))
    C = spec.C * part.mass / sample.mass
    tried: list[tuple[MappedRBF | None, Array]] = []
    settings = Settings(1e-4, 50, run.unhurried())
    for rank in [*ranks, part.n_features]:
        space = MappedRBF(directions[:rank]) if rank < part.n_features else None
        rows, unseen, kernel, vectors = sample, other, spec.kernel, basis
        if space is not None:
            rows, unseen, kernel = in_space(sample, space), in_space(other, space), RBF(1.0)
            vectors = space.mapped(basis.astype(np.float64))
        outputs, _ = outputs_without(rows, unseen, replace(spec, kernel=kernel, C=C), vectors, settings)
        tried.append((space, scorer.row_losses(outputs)))
    lowest = min((losses for _, losses in tried), key=scorer.mean)
    return next((space for space, losses in tried if no_worse(losses, lowest, scorer.weights)), None)


def in_space(rows: ArrayRows, space: MappedRBF) -> ArrayRows:
    """The rows in the coordinates of a map."""
    mapped = rows.collect(
        lambda block: space.mapped(block.X), MOMENT_ROWS, np.empty((rows.n_rows, space.rank), dtype=rows.dtype)
    )
    return ArrayRows(mapped, rows.targets, rows.weights)


def _by_folds(data: Data, plain: Machine, plan: Plan, splits: list[Split], run: Run) -> Descent:
    """Descend in every fold, average the losses of the held-out rows, and go to the lowest mean on all rows."""
    rows, spec, total = data.rows, plain.spec, Descent()
    parts = [[light(rows.subset(index), spec, run) for index in split] for split in splits]
    scorers = [Scorer.of(data, spec, held) for _, held in splits]
    chooser = plan if plan.selector is not None else replace(plan, selector=GramSelector())
    starts = [
        choose(data.subset(train), spec, plain.basis.n_basis, chooser, run).vectors.astype(np.float64)
        for train, _ in splits
    ]
    points: list[dict[str, Any]] = [{"kernel": spec.kernel, "basis": basis} for basis in starts]
    whole = light(data.in_memory, spec, run)
    kernel, basis = spec.kernel, plain.basis.vectors
    curve: list[float] = []
    left = plan.refine_iter
    hurried = run.within(0.7)
    for learn, share in plan.phases(rows):
        seen: list[list[dict[str, Any]]] = []
        losses: list[list[float]] = []
        most = max(1, int(share * left))
        for (part, other), scorer, point in zip(parts, scorers, points, strict=True):
            watch = Watch(other, scorer, patience=_FOLD_PATIENCE, others=losses.copy())
            start = replace(spec, kernel=point["kernel"])
            found = refine(
                part,
                start,
                point["basis"],
                hurried,
                learn=learn,
                rank=plan.rank,
                like=whole,
                max_iter=most,
                watch=watch,
            )
            total.n_kernel_evals += found.n_kernel_evals
            seen.append(found.seen)
            losses.append([point["loss"] for point in found.seen])
            if found.interrupted is not None:
                total.interrupted = True
                return total
        means = mean_curve(losses, [len(held) for _, held in splits])
        best = int(np.argmin(means))
        if not data.classifier:  # residuals are noise for the most part, and on fewer rows a descent overfits sooner
            best = _last_as_good([[point["outputs"] for point in own] for own in seen], scorers, best)
        curve += means[1:].tolist() if curve else means.tolist()
        if best > 0:
            points = [own[min(best, len(own) - 1)] for own in seen]
            start = replace(spec, kernel=kernel)
            found = refine(whole, start, basis, run, learn=learn, rank=plan.rank, max_iter=best)
            left -= best
            kernel, basis = found.kernel, found.basis
            total.result = replace(found.after(total.result), seen=[])
            total.n_kernel_evals += found.n_kernel_evals
            total.facts["metric"] = learn
        if left < 1 or run.late or total.stopped:
            break
        if best < len(means) - 1 and 2 * best < most:
            break  # overfitted before half of the way: more parameters would do so sooner
    total.facts |= {"validation_before": curve[0], "validation": min(curve), "validation_curve": curve}
    if total.result is not None:
        index = np.concatenate([held for _, held in splits])
        outputs = np.concatenate([point["outputs"] for point in points]).astype(np.float64)
        total.unseen = (index, outputs)
        total.ends = [
            (part, other, point["kernel"], point["basis"]) for (part, other), point in zip(parts, points, strict=True)
        ]
    return total


def _last_as_good(outputs: list[list[Array]], scorers: list[Scorer], best: int) -> int:
    """The last iteration at which held-out rows lose at most half a standard error more than at the best one.

    Parameters
    ----------
    outputs : list of list of ndarray
        Of every fold and iteration, on the rows held out.
    scorers : list of Scorer
        Of the folds.
    best : int
        The iteration with the lowest mean loss.
    """

    def losses(iteration: int) -> Array:
        curves = zip(outputs, scorers, strict=True)
        with np.errstate(over="ignore"):
            return np.concatenate(
                [scorer.row_losses(curve[min(iteration, len(curve) - 1)]) for curve, scorer in curves]
            )

    lowest, weights = losses(best), np.concatenate([scorer.weights for scorer in scorers])
    later = range(max(map(len, outputs)) - 1, best, -1)
    return next((iteration for iteration in later if no_worse(losses(iteration), lowest, weights, 0.5)), best)


def refined(data: Data, plain: Machine, found: Descent, plan: Plan, run: Run) -> Machine:
    """The machine where its descent ended, with the weights of all rows; the plain one where that is no better."""
    rows, spec = data.in_memory, plain.spec
    result = found.result
    evaluations = plain.n_kernel_evals + found.n_kernel_evals
    if result is None:  # the start is the best
        logger.debug("refinement raised the loss of held-out rows: the start is kept.")
        run.note("refinement", kept=False, **found.facts)
        plain = replace(plain, n_kernel_evals=evaluations, unseen=found.unseen, interrupted=found.interrupted)
        return on_all_rows(data, plain, plan, run) if plain.rough and not found.interrupted else plain
    facts: dict[str, Any] = {"objective_before": result.objective_before, "objective": result.objective}
    facts |= {"n_iter": result.n_iter, "n_evaluations": result.n_evaluations, **found.facts}
    facts["objective_curve"] = np.minimum.accumulate([point["objective"] for point in result.trace]).tolist()
    basis = Basis(None, result.basis.astype(rows.dtype))
    moved = Machine(replace(spec, kernel=result.kernel), basis, plain.solution, evaluations, refined=True)
    if plan.shorten and result.interrupted is None and not run.late:
        moved = replace(moved, spec=_shortened(data, moved, plan, run))
    if result.interrupted is not None:
        return _as_it_stands(moved, result, result.interrupted, run, facts)
    start = None
    if plain.rough and result.weights is not None:  # a pass is dear: begin where the descent ended
        start = replace(plain.solution, weights=result.weights[0], intercept=result.weights[1])
    try:
        solution, spent = solved(rows, moved.spec, moved.basis.vectors, plan.settings(run.unhurried()), start)
    except KeyboardInterrupt:
        if result.weights is None or not run.keeps_on_interrupt():
            raise
        return _as_it_stands(moved, result, result.weights, run, facts)
    evaluations += spent
    if plain.rough and _total(solution) > 0.9 * _total(plain.solution):  # too near to tell from a sample
        plain = on_all_rows(data, plain, plan, run)
    # a descent with another cost was compared on held-out rows, whatever the objective says
    kept = "C_of_descent" in found.facts or _total(solution) <= _total(plain.solution)
    run.note("refinement", kept=kept, **facts)
    if not kept:
        logger.debug("refinement did not lower the training objective: the start is kept.")
        return replace(plain, n_kernel_evals=evaluations)
    run.note("weights", n_basis=moved.basis.n_basis, objective=_total(solution), n_iter=solution.n_iter)
    return replace(moved, solution=solution, n_kernel_evals=evaluations, unseen=found.unseen)


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


def _patience(plan: Plan) -> int:
    """Iterations without a lower loss after which a descent ends: its first ones may gain nothing for a while."""
    return max(5, plan.refine_iter // 5)


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


def _as_it_stands(
    moved: Machine, result: Refined, found: tuple[Array, Array], run: Run, facts: dict[str, Any]
) -> Machine:
    """The machine of an interrupted descent, at once: with its own weights, and not checked on held-out rows."""
    run.note("refinement", kept=True, interrupted=True, **facts)
    solution = replace(
        moved.solution,
        weights=found[0],
        intercept=found[1],
        objective=np.array([result.objective]),
        converged=False,
    )
    return replace(moved, solution=solution, interrupted=True)


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
