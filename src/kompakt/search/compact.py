"""The search of CompactSVC and CompactSVR for C, the starting width and epsilon: successive halving over rows.

Many settings are tried on few rows with few vectors, few settings on many.  All settings of a round see the same rows,
the same candidates and, where only C differs, the same Gram matrix (`GramSelector.cache`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from kompakt.basis.build import Array, Plan, build, held_out
from kompakt.run import Run
from kompakt.search.strategies import successive_halving
from kompakt.search.trials import Trials
from kompakt.spec import Data, Spec

_COSTS = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4)


def tune_compact(
    data: Data,
    spec_of: Callable[[dict[str, Any]], Spec],
    gamma: float | None,
    epsilons: list[float | None],
    n_basis: int,
    plan: Plan,
    splits: list[tuple[Array, Array]],
    run: Run,
) -> tuple[Trials, int]:
    """What was tried by error on held-out rows, and the kernel evaluations spent.

    C goes from 0.1 to 10,000, `gamma` a factor of four around that given; None where the kernel has no width.
    """
    widths = [None] if gamma is None else [gamma * factor for factor in (0.25, 1.0, 4.0)]
    names = ("C", "gamma", "epsilon")
    settings = [dict(zip(names, values, strict=True)) for values in product(_COSTS, widths, epsilons)]
    rng = np.random.default_rng(run.key)
    orders = [rng.permutation(len(train)) for train, _ in splits]
    most = min(len(train) for train, _ in splits)
    plan = replace(plan, refine_iter=min(plan.refine_iter, 30), validation_fraction=0.0)
    inner = run.inner()
    evaluations = 0
    caches: dict[tuple[int, int, int], dict[Any, Any]] = {}
    parts: dict[tuple[int, int], Data] = {}

    def evaluate(setting: dict[str, Any], n_rows: int) -> float:
        nonlocal evaluations
        error, spent = run.step("evaluation", partial(measure, setting, n_rows))
        evaluations += spent
        return float(error)

    def measure(setting: dict[str, Any], n_rows: int) -> tuple[float, int]:
        """Error of a setting, and the kernel evaluations it took."""
        spent = 0
        errors, losses = [], []
        for number, ((train, other), order) in enumerate(zip(splits, orders, strict=True)):
            share = n_rows / len(train)
            if (number, n_rows) not in parts:
                parts[number, n_rows] = data.subset(np.sort(train[order[:n_rows]]))
            part, rest = parts[number, n_rows], data.subset(other)
            size = int(np.clip(round(n_basis * np.sqrt(share)), min(10, n_basis), n_basis))
            own = plan
            if hasattr(plan.selector, "cache"):
                cache = caches.setdefault((number, n_rows, size), {})
                own = replace(plan, selector=replace(plan.selector, cache=cache, n_rounds=1))  # type: ignore[type-var]
            spec = spec_of(setting)
            spec = replace(spec, C=spec.C / share)  # the sample stands for all rows
            machine = build(part, spec, size, own, inner)
            spent += machine.n_kernel_evals
            result = held_out(part, rest, machine.spec, machine.basis.vectors, own, inner)
            if data.classifier:
                errors.append(result.error)
            else:  # settings with different epsilons are comparable only in a loss without it: the absolute error
                assert rest.rows.targets is not None
                errors.append(float(np.mean(np.abs(rest.rows.targets - result.outputs))))
            losses.append(result.mean_loss)
        # among equal errors the smaller loss decides, scaled to less than one row
        return float(np.mean(errors)) + (1e-6 * float(np.mean(losses)) if data.classifier else 0.0), spent

    least = min(most, max(500, most // 27))
    trials = successive_halving(evaluate, settings, min_resource=least, max_resource=most, run=run.within(0.5))
    return trials, evaluations
