"""The flagship's search for C, the starting width and epsilon: successive halving over rows and basis vectors.

Many settings are tried on few rows with few vectors, few settings on many.  All settings of a round see the same rows,
the same candidates and, where only C differs, the same Gram matrix (`GramSelector.cache`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from kompakt.basis.compact import Array, Recipe, grow, held_out
from kompakt.checkpoint import step
from kompakt.data import ArrayRows
from kompakt.kernels import Kernel
from kompakt.losses import Loss
from kompakt.run import Deadline
from kompakt.search.strategies import successive_halving


@dataclass(frozen=True)
class Setting:
    """One point of the search."""

    C: float
    gamma: float | None  # None where the kernel has no width
    epsilon: float | None


@dataclass(frozen=True)
class Tuned:
    """The winner and what was tried."""

    setting: Setting
    error: float
    results: dict[str, Array]
    n_kernel_evals: int


def settings_grid(gamma: float | None, epsilons: list[float] | None) -> list[Setting]:
    """C from 0.1 to 10,000, widths a factor of four around `gamma`, and the given epsilons."""
    costs = [0.1, 1.0, 10.0, 100.0, 1e3, 1e4]
    widths: list[float | None] = [None] if gamma is None else [gamma * factor for factor in (0.25, 1.0, 4.0)]
    bands: list[float | None] = [*epsilons] if epsilons else [None]
    return [Setting(C, width, eps) for C, width, eps in product(costs, widths, bands)]


def tune_flagship(
    rows: ArrayRows,
    kernel_of: Callable[[float | None], Kernel],
    loss_of: Callable[[float | None], Loss],
    settings: list[Setting],
    n_basis: int,
    recipe: Recipe,
    splits: list[tuple[Array, Array]],
    labels: Array | None,
    max_time: float | None,
) -> Tuned:
    """Find the best setting by error on held-out rows of the splits."""
    rng = np.random.default_rng(recipe.key)
    orders = [rng.permutation(len(train)) for train, _ in splits]
    most = min(len(train) for train, _ in splits)
    evaluations = 0
    caches: dict[int, dict[Any, Any]] = {}

    def evaluate(setting: Setting, n_rows: int) -> float:
        nonlocal evaluations
        error, spent = step("evaluation", lambda: measure(setting, n_rows))
        evaluations += spent
        return error

    def measure(setting: Setting, n_rows: int) -> tuple[float, int]:
        """Error of a setting, and the kernel evaluations it took."""
        spent = 0
        errors, losses = [], []
        for number, ((train, other), order) in enumerate(zip(splits, orders, strict=True)):
            share = n_rows / len(train)
            index = np.sort(train[order[:n_rows]])
            part = _part(parts, number, rows, index)
            own_labels = None if labels is None else labels[index]
            size = int(np.clip(round(n_basis * np.sqrt(share)), min(10, n_basis), n_basis))
            selector = recipe.selector
            if hasattr(selector, "cache"):
                selector = replace(selector, cache=caches.setdefault(hash((number, n_rows, size)), {}), n_rounds=1)
            own = replace(
                recipe,
                C=setting.C / share,  # the sample stands for all rows
                loss=loss_of(setting.epsilon),
                selector=selector,
                refine_iter=min(recipe.refine_iter, 30),
                validation_fraction=0.0,
            )
            machine = grow(part, kernel_of(setting.gamma), size, own, own_labels)
            spent += machine.n_kernel_evals
            result = held_out(part, rows.subset(other), machine.kernel, machine.basis, own)
            errors.append(result.error if recipe.classifier else _squared_or_own(result, rows, other))
            losses.append(result.mean_loss)
        # among equal errors the smaller loss decides, scaled to less than one row
        return float(np.mean(errors)) + (1e-6 * float(np.mean(losses)) if recipe.classifier else 0.0), spent

    parts: dict[tuple[int, int], ArrayRows] = {}
    trials = successive_halving(
        lambda params, n_rows: evaluate(Setting(**params), n_rows),
        [asdict(setting) for setting in settings],
        min_resource=min(most, max(500, most // 27)),
        max_resource=most,
        deadline=None if max_time is None else time.monotonic() + max_time,
    )
    if trials.stopped == "deadline" and isinstance(recipe.settings.deadline, Deadline):
        recipe.settings.deadline.note()
    table = trials.as_dict()
    table["error"] = table["objective"]
    return Tuned(Setting(**trials.best.params), trials.best.error, table, evaluations)


def _part(parts: dict[tuple[int, int], ArrayRows], number: int, rows: ArrayRows, index: Array) -> ArrayRows:
    key = (number, len(index))
    if key not in parts:
        parts[key] = rows.subset(index)
    return parts[key]


def _squared_or_own(result: Any, rows: ArrayRows, other: Array) -> float:
    """Regression settings with different epsilons are comparable only in a loss without it: the absolute error."""
    assert rows.targets is not None
    return float(np.mean(np.abs(rows.targets[other] - result.outputs)))


def seconds_left(deadline: float | None, share: float) -> float | None:
    """A share of the time that is left."""
    return None if deadline is None else max(0.01, share * (deadline - time.monotonic()))
