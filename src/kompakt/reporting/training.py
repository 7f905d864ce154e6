"""What a fitted estimator remembers of its training: settings tried, sizes tried, time spent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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
class Recorded:
    """Errors of sizes that the fit itself measured."""

    sizes: Array
    errors: Array
    standard_errors: Array | None
    what: str


def search_of(estimator: Any) -> Search | None:
    """The search of a fit with ``tune=True``, or None."""
    table = getattr(estimator, "cv_results_", None)
    if table is not None and "param_C" in table:
        return _from_table(estimator, table)
    found = getattr(estimator, "search_", None)
    if found is not None and hasattr(found, "points"):
        C, gamma, error = (np.array([getattr(p, a) for p in found.points]) for a in ("C", "gamma", "error"))
        chosen = next((i for i, point in enumerate(found.points) if point is found.best), int(np.argmin(error)))
        return Search(C, gamma, error, chosen, f"{found.n_trainings:,} trainings on two grids of (gamma, C)")
    errors = getattr(estimator, "cv_errors_", None)
    if errors is not None and np.ndim(errors) == 3:
        return _from_grid(estimator, np.asarray(errors))
    return None


def _from_table(estimator: Any, table: dict[str, Any]) -> Search:
    C = np.asarray(table["param_C"], dtype=float)
    widths = table.get("param_gamma", [None] * len(C))
    gamma = np.array([np.nan if width is None else float(width) for width in widths])
    error = np.asarray(table["error"] if "error" in table else table["mean_test_error"], dtype=float)
    how = f"{len(C):,} settings by cross-validation"
    if "n_resources" in table:  # successive halving: the last word on a setting is the one on most rows
        how = f"successive halving, {len(C):,} trainings"
        last = {(c, g, e): i for i, (c, g, e) in enumerate(zip(C, widths, table["param_epsilon"], strict=True))}
        resources = np.asarray(table["n_resources"])
        kept = np.array(sorted(last.values()))
        final = kept[resources[kept] == resources.max()]
        chosen = int(np.flatnonzero(kept == final[np.argmin(error[final])])[0])
        return Search(C[kept], gamma[kept], error[kept], chosen, how)
    width = getattr(estimator, "gamma_", None)
    distance = np.abs(np.log(C / estimator.C_))
    if width is not None and np.ndim(width) == 0 and np.isfinite(gamma).all():
        distance = distance + np.abs(np.log(gamma / float(width)))
    return Search(C, gamma, error, int(np.argmin(distance + 1e-9 * error)), how)


def _from_grid(estimator: Any, errors: Array) -> Search:
    """A grid of kernels x C x sizes: every pair at its best size."""
    from kompakt.estimators.spsvc import grid_values

    C = grid_values(estimator.C_grid, "C_grid")
    gamma = grid_values(estimator.gamma_grid, "gamma_grid")[: len(errors)]
    if len(errors) == 1 and getattr(estimator, "gamma_", None) is None:
        gamma = np.array([np.nan])
    best = errors.min(axis=2)
    all_gamma, all_C = np.meshgrid(gamma, C, indexing="ij")
    near = np.abs(np.log(all_C / estimator.C_))
    if np.isfinite(gamma).all() and np.ndim(estimator.gamma_) == 0:
        near = near + np.abs(np.log(all_gamma / float(estimator.gamma_)))
    how = f"{best.size:,} settings by cross-validation, each at its best size"
    return Search(all_C.ravel(), all_gamma.ravel(), best.ravel(), int(np.argmin(near)), how)


def recorded_path(estimator: Any) -> Recorded | None:
    """Errors against sizes as measured during the fit, or None."""
    path = getattr(estimator, "size_path_", None)
    if isinstance(path, dict):  # the fixed-size machines' table
        sizes, errors, spread = (np.asarray(path[key]) for key in ("n_basis", "mean_test_error", "std_error"))
        return Recorded(sizes, errors, spread if np.isfinite(spread).all() else None, "held-out rows")
    if path is not None:
        errors = np.asarray(path.errors, dtype=float)
        errors = errors if errors.ndim == 1 else errors.mean(axis=1)
        return Recorded(np.asarray(path.sizes), errors, np.asarray(path.standard_errors), "held-out rows")
    by_size = getattr(estimator, "cv_errors_", None)
    if by_size is not None and np.ndim(by_size) == 1:
        return Recorded(np.arange(1, len(by_size) + 1), np.asarray(by_size, dtype=float), None, "cross-validation")
    history = getattr(estimator, "history_", None) or []
    for name, what in (("validation_error", "held-out rows"), ("train_error", "training rows")):
        found = [(r["n_basis"], r[name]) for r in history if r.get(name) is not None and r.get("n_basis")]
        if len(found) > 2:
            sizes, values = np.array(found, dtype=float).T
            if np.all(np.diff(sizes) > 0):
                return Recorded(sizes.astype(int), values, None, what)
    return None


def timings(estimator: Any) -> list[tuple[str, float]]:
    """Seconds per phase of the fit, as far as they were recorded."""
    phases: dict[str, float] = {}
    given = getattr(estimator, "phase_seconds_", None)
    if given:
        return [(str(name), float(np.sum(value))) for name, value in given.items()]
    table = getattr(estimator, "cv_results_", None) or {}
    if "fit_time" in table:
        phases["tuning"] = float(np.sum(table["fit_time"]))
    search = getattr(estimator, "search_", None)
    if search is not None and hasattr(search, "seconds"):
        phases["tuning"] = float(search.seconds)
    before, group = 0.0, ""
    for record in getattr(estimator, "history_", None) or []:
        if "time" not in record:
            continue
        name = str(record.get("phase", "growth"))
        moment = float(record["time"])
        if (name == "size") != (group == "size") or moment < before:  # a clock that was started anew
            before = 0.0
        label = "path of sizes" if name == "size" else name
        phases[label] = phases.get(label, 0.0) + moment - before
        before, group = moment, name
    return list(phases.items())


def parameters(estimator: Any) -> list[tuple[str, str, bool]]:
    """Constructor parameters (name, value, whether the value is not the default)."""
    import inspect

    defaults = {
        name: parameter.default for name, parameter in inspect.signature(type(estimator).__init__).parameters.items()
    }
    found = []
    for name, value in sorted(estimator.get_params(deep=False).items()):
        text = repr(value) if np.ndim(value) == 0 or np.size(value) <= 6 else f"array of shape {np.shape(value)}"
        default = defaults.get(name, inspect.Parameter.empty)
        found.append((name, text, text != repr(default)))
    return found
