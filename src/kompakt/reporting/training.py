"""What a fitted estimator remembers of its training: settings tried, sizes tried, time spent, parameters."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from kompakt.plots.curves import size_path_of
from kompakt.search.strategies import GridSearch

Array = np.ndarray


@dataclass(frozen=True)
class Search:
    """Settings tried and their validation errors; `gamma` is NaN where no width was tried."""

    C: Array
    gamma: Array
    error: Array
    chosen: int
    how: str


@dataclass(frozen=True)
class SizeErrors:
    """Errors of sizes that the fit itself measured."""

    sizes: Array
    errors: Array
    standard_errors: Array | None
    what: str


def search_of(estimator: Any) -> Search | None:
    """The search of a fit with ``tune=True``, or None: a table of trials, the grids of FEE, or the grid of SpSVC."""
    table = getattr(estimator, "cv_results_", None) or {}
    growth, grid = getattr(estimator, "search_", None), getattr(estimator, "cv_errors_", None)
    if "param_C" in table:
        n = len(table["param_C"])
        how, kept = f"{n:,} settings by cross-validation", list(range(n))
        columns = table["param_C"], table.get("param_gamma", [None] * n), table.get("error", table["mean_test_error"])
        if "model" in table:  # of a plain and a refined model of one setting, the refined one counts
            known = np.flatnonzero(np.isin(table["model"], ("plain", "refined")))
            settings = {(columns[0][i], columns[1][i], table["param_epsilon"][i]): int(i) for i in known}
            how, kept = f"{len(known):,} settings by cross-validation", sorted(settings.values())
        C, gamma, error = (np.array(column, dtype=float)[kept] for column in columns)
        return Search(C, gamma, error, kept.index(int(np.argmin(table["rank_test_error"]))), how)
    if growth is not None:
        C, gamma, error = (np.array([getattr(p, name) for p in growth.points]) for name in ("C", "gamma", "error"))
        chosen = [point is growth.best for point in growth.points].index(True)
        return Search(C, gamma, error, chosen, f"{growth.n_trainings:,} trainings on two grids of (gamma, C)")
    if grid is None or np.ndim(grid) != 3:
        return None
    given = estimator.tune if isinstance(estimator.tune, GridSearch) else GridSearch()
    error = np.min(grid, axis=2).ravel()  # kernels x C x sizes, every pair at its best size
    gammas, width = given.values("gamma")[: len(grid)], getattr(estimator, "gamma_", None)
    if len(grid) == 1 and width is None:
        gammas = np.array([np.nan])
    pairs = np.meshgrid(gammas, given.values("C"), indexing="ij")
    gamma, C = (axis.ravel() for axis in pairs)
    distance = np.abs(np.log(C / estimator.C_))  # which was chosen is known by the values of the fit
    if np.isfinite(gamma).all():
        distance = distance + np.abs(np.log(gamma / float(estimator.gamma_)))
    how = f"{error.size:,} settings by cross-validation, each at its best size"
    return Search(C, gamma, error, int(np.argmin(distance)), how)


def size_errors_of(estimator: Any) -> SizeErrors | None:
    """Errors against sizes as measured during the fit, or None."""
    path = size_path_of(estimator)
    if path is not None:
        sizes, errors, _, spread = (np.asarray(part) for part in path)
        errors = errors if errors.ndim == 1 else errors.mean(axis=1)
        return SizeErrors(sizes, errors, spread if np.isfinite(spread).all() else None, "held-out rows")
    by_size = getattr(estimator, "cv_errors_", None)
    if by_size is not None and np.ndim(by_size) == 1:
        return SizeErrors(np.arange(1, len(by_size) + 1), np.asarray(by_size, dtype=float), None, "cross-validation")
    history = getattr(estimator, "history_", None) or []
    for name, what in (("validation_error", "held-out rows"), ("train_error", "training rows")):
        found = [(r["n_basis"], r[name]) for r in history if r.get(name) is not None and r.get("n_basis")]
        sizes, values = np.array(found, dtype=float).reshape(-1, 2).T
        if len(found) > 2 and np.all(np.diff(sizes) > 0):
            return SizeErrors(sizes.astype(int), values, None, what)
    return None


def timings_of(estimator: Any) -> list[tuple[str, float]]:
    """Seconds per phase of the fit, as far as they were recorded."""
    given = getattr(estimator, "phase_seconds_", None)
    if given:
        return [(str(name), float(np.sum(value))) for name, value in given.items()]
    phases: dict[str, float] = {}
    table = getattr(estimator, "cv_results_", None) or {}
    if "fit_time" in table:
        phases["tuning"] = float(np.sum(table["fit_time"]))
    if getattr(estimator, "search_", None) is not None:
        phases["tuning"] = float(estimator.search_.seconds)
    before, group = 0.0, ""
    for record in getattr(estimator, "history_", None) or []:
        if "time" not in record:
            continue
        name, moment = str(record.get("phase", "growth")), float(record["time"])
        if (name == "size") != (group == "size") or moment < before:  # a clock that was started anew
            before = 0.0
        label = "path of sizes" if name == "size" else name
        phases[label] = phases.get(label, 0.0) + moment - before
        before, group = moment, name
    return list(phases.items())


def parameters_of(estimator: Any) -> list[tuple[str, str, bool]]:
    """Constructor parameters (name, value, whether the value is not the default)."""
    signature = inspect.signature(type(estimator).__init__).parameters
    found = []
    for name, value in sorted(estimator.get_params(deep=False).items()):
        text = repr(value) if np.ndim(value) == 0 or np.size(value) <= 6 else f"array of shape {np.shape(value)}"
        found.append((name, text, name not in signature or text != repr(signature[name].default)))
    return found
