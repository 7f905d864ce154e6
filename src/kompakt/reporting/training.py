"""What a fitted estimator remembers of its training: settings tried, sizes tried, time spent."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from kompakt.plots.curves import size_path_of

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
    """The search of a fit with ``tune=True``, or None; estimators keep theirs in one of four shapes."""
    table = getattr(estimator, "cv_results_", None)
    growth = getattr(estimator, "search_", None)
    grid = getattr(estimator, "cv_errors_", None)
    if table is not None and "param_C" in table:
        C = np.asarray(table["param_C"], dtype=float)
        widths = table.get("param_gamma", [None] * len(C))
        gamma = np.array([np.nan if width is None else float(width) for width in widths])
        error = np.asarray(table["error"] if "error" in table else table["mean_test_error"], dtype=float)
        how = f"{len(C):,} settings by cross-validation"
        if "n_resources" in table:  # successive halving: of several records of a setting, the one on most rows counts
            how = f"successive halving, {len(C):,} trainings"
            last = {setting: i for i, setting in enumerate(zip(C, widths, table["param_epsilon"], strict=True))}
            kept = np.array(sorted(last.values()))
            resources = np.asarray(table["n_resources"])[kept]
            chosen = int(np.argmin(np.where(resources == resources.max(), error[kept], np.inf)))
            return Search(C[kept], gamma[kept], error[kept], chosen, how)
    elif growth is not None and hasattr(growth, "points"):
        C, gamma, error = (np.array([getattr(p, a) for p in growth.points]) for a in ("C", "gamma", "error"))
        chosen = next((i for i, point in enumerate(growth.points) if point is growth.best), int(np.argmin(error)))
        return Search(C, gamma, error, chosen, f"{growth.n_trainings:,} trainings on two grids of (gamma, C)")
    elif grid is not None and np.ndim(grid) == 3:  # SpSVC: kernels x C x sizes, every pair at its best size
        from kompakt.search.strategies import GridSearch

        given = estimator.tune if isinstance(estimator.tune, GridSearch) else GridSearch()
        error = np.min(grid, axis=2).ravel()
        gammas = given.values("gamma")[: len(grid)]
        if len(grid) == 1 and getattr(estimator, "gamma_", None) is None:
            gammas = np.array([np.nan])
        pairs = np.meshgrid(gammas, given.values("C"), indexing="ij")
        gamma, C = (axis.ravel() for axis in pairs)
        how = f"{error.size:,} settings by cross-validation, each at its best size"
    else:
        return None
    width = getattr(estimator, "gamma_", None)  # the tables do not say which was chosen: the one nearest to the fit's
    distance = np.abs(np.log(C / estimator.C_))
    if width is not None and np.ndim(width) == 0 and np.isfinite(gamma).all():
        distance = distance + np.abs(np.log(gamma / float(width)))
    return Search(C, gamma, error, int(np.argmin(distance + 1e-9 * error)), how)


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
        if len(found) > 2:
            sizes, values = np.array(found, dtype=float).T
            if np.all(np.diff(sizes) > 0):
                return SizeErrors(sizes.astype(int), values, None, what)
    return None


def timings_of(estimator: Any) -> list[tuple[str, float]]:
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


def parameters_of(estimator: Any) -> list[tuple[str, str, bool]]:
    """Constructor parameters (name, value, whether the value is not the default)."""
    signature = inspect.signature(type(estimator).__init__).parameters
    found = []
    for name, value in sorted(estimator.get_params(deep=False).items()):
        text = repr(value) if np.ndim(value) == 0 or np.size(value) <= 6 else f"array of shape {np.shape(value)}"
        found.append((name, text, name not in signature or text != repr(signature[name].default)))
    return found
