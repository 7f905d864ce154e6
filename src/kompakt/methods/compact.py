"""The flagship: vectors chosen in Gram space, then moved together with the metric, as far as held-out rows say."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kompakt.basis.build import Plan, choose, weigh
from kompakt.basis.path import SizePath, size_path
from kompakt.heldout import Split, split_rows, splits_of
from kompakt.kernels import RBF, BentRBF, Kernel
from kompakt.methods.intervals import conformal_interval, quantile_weights
from kompakt.methods.probabilities import calibrate
from kompakt.methods.steps import (
    Fitted,
    LeftOpen,
    bent_machine,
    freeze,
    refine,
    refuse_what_cannot_work,
    resolve_width_and_cost,
    solve_on_all_rows,
)
from kompakt.model import Model
from kompakt.run import Run
from kompakt.search.compact import Tuned, is_quick, tune_compact
from kompakt.search.widths import leave_one_out_widths
from kompakt.spec import Data, Spec
from kompakt.train.data import in_memory

Array = np.ndarray
logger = logging.getLogger("kompakt")


@dataclass(frozen=True)
class Compact:
    """Options of `fit_compact`.

    Parameters
    ----------
    spec : Spec
        What is minimised.
    plan : Plan
        Who chooses the vectors, how they are refined, and when solvers stop.
    n_basis : int, optional
        Number of vectors; None takes the smallest that is as good as the best on a path of sizes.
    size_tol : float, optional
        How much above the best error that of the chosen size may lie; None is one standard error.
    left_open : LeftOpen
    tune : bool
        Whether C, the starting width and epsilon are searched.
    kernel_of_width : callable, optional
        The kernel of a width that the search tries; None where there is none to search.
    width_per_feature : bool
        Whether one width per feature is found by leave-one-out before the vectors move.
    cv : int, splitter or list of splits, optional
    calibrate : {"sigmoid", "isotonic", "temperature", "best"}, optional
        How outputs of held-out rows give probabilities.
    interval : float, optional
        Probability of intervals around predictions, whose reach outputs of held-out rows give.
    levels : tuple of float
        Of quantiles, each an output on the vectors that were found for the loss of `spec`; none for one output.
    start : ndarray of shape (m, d), or Model with bends, optional
        Vectors to begin with, in the units of the input; those of a model with bends bring their kernel along.
    """

    spec: Spec
    plan: Plan
    n_basis: int | None
    left_open: LeftOpen
    size_tol: float | None = None
    tune: bool = False
    kernel_of_width: Callable[[float], Kernel] | None = None
    width_per_feature: bool = False
    cv: Any = None
    calibrate: str | None = None
    interval: float | None = None
    levels: tuple[float, ...] = ()
    start: Array | Model | None = None
    largest_size: int = 256  # that is looked at where the size is chosen
    most_rows_for_folds: int = 20_000  # beyond so many rows one held-out part is as good as folds

    costs: tuple[tuple[float, ...], ...] = ((30.0, 300.0), (1.0, 10.0))  # that are raced for numbers, for classes

    def races_costs(self, data: Data) -> bool:
        """Whether the cost is left to the race; losses that do not square depend on the unit of the targets."""
        return self.left_open.cost and self.plan.refine and (data.classifier or self.spec.loss.quadratic)

    @property
    def needs_no_sample(self) -> bool:
        """Whether everything before the weights reads streamed rows by passes."""
        by_passes = getattr(self.plan.selector, "streams", False)
        needs_rows = self.plan.refine or self.tune or self.calibrate or self.interval or self.n_basis is None
        return by_passes and not needs_rows


def fit_compact(data: Data, options: Compact, run: Run) -> Fitted:
    """Choose vectors, move them as far as pays on held-out rows, solve for the weights on all rows.

    Parameters
    ----------
    data : Data
    options : Compact
    run : Run
    """
    spec, plan, n_basis = options.spec, options.plan, options.n_basis
    attributes: dict[str, Any] = {}
    trials, path, evaluations = None, None, 0
    refuse_what_cannot_work(data, spec, plan, run)
    if not options.needs_no_sample:
        data = in_memory(data, n_basis, run)
    start, bent = _start(data, options.start)

    # what is minimised: one setting, or several for the race
    if options.width_per_feature:
        gamma: Any = spec.kernel.gamma  # type: ignore[attr-defined]
        widths = leave_one_out_widths(data.in_memory, float(gamma), spec.C, key=run.key)
        spec, evaluations = replace(spec, kernel=RBF(widths.gamma)), evaluations + widths.n_kernel_evals
        run.note("widths", error_before=widths.error_before, error=widths.error, C=widths.C)
    if options.tune:
        search, specs = _tune(data, spec, options, run)
        trials, evaluations = search.trials, evaluations + search.n_kernel_evals
    elif options.races_costs(data):
        specs = [replace(spec, C=cost) for cost in options.costs[data.classifier]]
        plan = replace(plan, lower_costs=True)
    else:
        spec, spent = resolve_width_and_cost(data, spec, options.left_open, run)
        specs, evaluations = [spec], evaluations + spent
    # how many vectors
    if n_basis is None:
        path = _choose_size(data, specs[0], plan, options, run)
        n_basis, evaluations = path.size, evaluations + path.n_kernel_evals
        attributes["size_path_"] = path
        if path.basis is not None:
            specs = [replace(spec, kernel=path.kernel) for spec in specs]
            start = path.basis if start is None else start

    if bent is not None:
        specs = [replace(spec, kernel=bent) for spec in specs]
    # which vectors, how far they move, and their weights
    basis = choose(data, specs[0], n_basis, plan, run, start)
    machine = weigh(data, specs[0], basis, plan, run)
    machine = replace(machine, refined=path is not None and path.basis is not None)  # the path has moved its vectors
    machine, table = refine(data, machine, plan, run, specs)
    trials = table if trials is None else trials.followed_by(table)
    began = replace(specs[0], C=machine.spec.C)  # what machines of folds begin with, where there are none yet
    calibration = None
    if options.calibrate is not None:
        calibration = calibrate(data, began, machine, plan, run, options.calibrate)
    interval = None
    if options.interval is not None:
        interval = conformal_interval(data, began, machine, plan, run, options.interval)
    machine = solve_on_all_rows(data, machine, plan, run)
    if options.levels:
        machine = quantile_weights(data, machine, options.levels, plan, run)
    fitted = freeze(
        data,
        machine,
        plan,
        run,
        calibration=calibration,
        n_kernel_evals=evaluations,
        attributes=attributes,
        trials=trials,
        why_size="" if path is None else path.choice.why,
        skipped=", without calibration" if options.calibrate else "",
    )
    return replace(fitted, model=replace(fitted.model, interval=interval, ordered=bool(options.levels)))


def _tune(data: Data, spec: Spec, options: Compact, run: Run) -> tuple[Tuned, list[Spec]]:
    """C, the starting width and epsilon by cross-validation; the settings for the race, the chosen one first."""
    gamma: Any = getattr(spec.kernel, "gamma", None)
    kernel_of_width = options.kernel_of_width
    epsilons: list[float | None] = [None]
    if hasattr(spec.loss, "epsilon") and not data.classifier:
        spread = 0.0 if data.rows.targets is None else float(np.std(data.rows.targets))
        if spread > 0:
            epsilons = [spread * share for share in (0.02, 0.1, 0.5)]

    def spec_of(setting: dict[str, Any]) -> Spec:
        loss, kernel = spec.loss, spec.kernel
        if setting["epsilon"] is not None:
            loss = replace(loss, epsilon=setting["epsilon"])  # type: ignore[type-var]
        if setting["gamma"] is not None:
            assert kernel_of_width is not None
            kernel = kernel_of_width(setting["gamma"])
        return replace(spec, kernel=kernel, loss=loss, C=setting["C"])

    width = float(gamma) if kernel_of_width is not None and gamma is not None and np.ndim(gamma) == 0 else None
    splits = _splits(data, options, run)
    search = tune_compact(data, spec_of, width, epsilons, options.n_basis, options.plan, splits, run)
    best = search.trials.best
    run.note("tuning", C=best.params["C"], gamma=best.params["gamma"], error=best.mean, remarks=search.remarks)
    for remark in search.remarks:
        logger.info("search: %s", remark)
    return search, [spec_of(setting) for setting in search.settings]


def _choose_size(data: Data, spec: Spec, plan: Plan, options: Compact, run: Run) -> SizePath:
    """A path of machines of growing size, and the size that it points to."""
    splits = _splits(data, options, run)
    splits = splits[:1] if options.cv is None else splits  # machines of many sizes: folds would cost too much
    fewest = min(len(train) for train, _ in splits)
    largest = int(min(options.largest_size, max(1, fewest // 2)))
    return size_path(data, spec, largest, plan, splits, run.within(0.6), options.size_tol)


def _splits(data: Data, options: Compact, run: Run) -> list[Split]:
    """The user's validation splits, or by cost: five folds of few rows, one held-out part of many."""
    seed, n_rows, labels = run.key % 2**31, data.rows.n_rows, data.labels
    if options.cv is not None:
        return splits_of(data, options.cv, seed)
    if n_rows > options.most_rows_for_folds or (labels is not None and np.min(np.bincount(labels)) < 2):
        return split_rows(data, 1, seed, most_rows=20_000)
    n_used = int(np.clip(10_000 // n_rows, 1, 5))
    return split_rows(data, 5, seed)[: n_used if is_quick(options.spec.loss) else min(2, n_used)]


def _start(data: Data, start: Array | Model | None) -> tuple[Array | None, BentRBF | None]:
    """Vectors of an earlier fit, in the coordinates of the rows' blocks, and its kernel if features bend in it."""
    if start is None:
        return None, None
    rows = data.rows
    n_features = start.n_features if isinstance(start, Model) else start.shape[1]
    if n_features != rows.n_features:
        raise ValueError(
            f"warm_start=True goes on from the last fit, which had {n_features} features; X has "
            f"{rows.n_features}. Set warm_start=False to start anew."
        )
    if isinstance(start, Model):
        kernel, vectors = bent_machine(start, rows)
        return vectors, kernel
    vectors = rows.as_inputs(start).astype(rows.dtype)
    return vectors if rows.offset is None else np.asarray(vectors - rows.offset), None
