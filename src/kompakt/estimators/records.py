"""The `TrainingRecord` of a fit, from what the fitted estimator knows."""

from __future__ import annotations

import hashlib
import platform
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import sklearn

import kompakt
from kompakt.data import ArrayRows
from kompakt.data.rows import content_of
from kompakt.methods.steps import Fitted
from kompakt.model import Model
from kompakt.record import MOST_TRIED, Candidate, TrainingRecord
from kompakt.spec import Data

#: training rows that the training error is measured on at most
_TRAIN_ROWS = 5000


@dataclass(frozen=True)
class Tried:
    """Settings that a search tried, in its order."""

    candidates: list[Candidate]
    chosen: int
    how: str


def tried_by(estimator: Any) -> Tried | None:
    """The search of a fit with ``tune=True``, as its `cv_results_` tell it, or None."""
    table = getattr(estimator, "cv_results_", None)
    if not table:
        return None
    kinds = table["model"].tolist() if "model" in table else [""] * len(table["params"])
    n_settings = sum(kind in ("", "plain", "refined") for kind in kinds)
    if "learned" in table:  # the arms of a race
        pairs = zip(kinds, table["learned"], strict=True)
        kinds = [kind if learned is None or kind == "plain" else f"refined: {learned}" for kind, learned in pairs]
    spreads = [float(spread) if np.isfinite(spread) and spread > 0 else None for spread in table["std_test_error"]]
    settings = [
        {name: float(params[name]) for name in sorted(params) if params[name] is not None} for params in table["params"]
    ]
    columns = settings, map(float, table["mean_test_error"]), spreads, kinds
    candidates = [Candidate(*row) for row in zip(*columns, strict=True)]
    return Tried(candidates, int(np.argmin(table["rank_test_error"])), f"{n_settings:,} settings by cross-validation")


def seconds_of(estimator: Any) -> dict[str, float]:
    """Seconds of every phase of a fit, as far as they were recorded."""
    recorded = getattr(estimator, "phase_seconds_", None)
    if recorded:
        return {str(name): float(np.sum(value)) for name, value in recorded.items()}
    phases: dict[str, float] = {}
    if getattr(estimator, "search_", None) is not None:
        phases["search"] = float(estimator.search_.seconds)
    before = 0.0
    for record in getattr(estimator, "history_", None) or []:
        if "time" not in record:
            continue
        name, moment = str(record.get("phase", "growth")), float(record["time"])
        if moment < before:  # a clock that was started anew
            before = 0.0
        label = {"size": "path of sizes", "tuning": "search"}.get(name, name)
        phases[label] = phases.get(label, 0.0) + moment - before
        before = moment
    return phases


def record_of(estimator: Any, fit: Fitted, data: Data) -> TrainingRecord:
    """The record of a finished fit to `data`."""
    model, tried = estimator.model_, tried_by(estimator)
    settings: dict[str, Any] = {"basis vectors": int(model.n_basis_)}
    for name in ("C", "epsilon", "reg"):
        value = getattr(estimator, f"{name}_", None)
        if isinstance(value, int | float | np.number):
            settings[name] = float(value)
    gamma = np.asarray(model.widths)
    if model.inputs.map is not None:
        settings["gamma"] = f"in a map of {model.n_features:,} features to {len(model.inputs.map):,}"
    elif gamma.ndim:
        settings["gamma"] = f"one per feature, {gamma.min():.3g} to {gamma.max():.3g}"
    elif np.isfinite(gamma):
        settings["gamma"] = float(gamma)
    if model.inputs.bends is not None:
        settings["transform"] = f"{model.inputs.arrays()['pieces'].sum():,} pieces over {model.n_features:,} features"
    if hasattr(estimator, "refine"):
        settings["refined"] = "yes" if fit.machine.refined else "no"
    settings |= {"kernel": model.kernel.name, "loss": fit.spec.loss.name}
    kept: list[Candidate] = []
    why = "C and the kernel's parameters were given or are defaults: there was no search."
    if tried is not None and fit.trials is not None:
        kept = _leading(tried)
        why = fit.trials.why or f"the lowest held-out error of {tried.how}."
    error_name = "share of wrong rows" if data.classifier else "mean held-out loss"
    if not data.classifier and kept and kept[0].model:
        error_name = "share of the error of a constant"
    if fit.trials is not None and fit.trials.measure:
        error_name = fit.trials.measure
    is_stream = not isinstance(data.rows, ArrayRows)
    content = {} if is_stream else content_of(data.rows)
    train_error, n_measured = None, 0
    if not is_stream and model.kernel.name != "precomputed" and not fit.run.cut:
        train_error, n_measured = _train_error(model, data)
    packages = {"kompakt": kompakt, "numpy": np, "scipy": scipy, "scikit-learn": sklearn}
    seconds = {name: round(value, 4) for name, value in list(seconds_of(estimator).items())[:20]}
    return TrainingRecord(
        type(estimator).__name__,
        settings,
        f"{why} {fit.why_size}".strip()[:400],
        0 if tried is None else len(tried.candidates),
        tuple(map(_rounded, kept)),
        error_name,
        data.rows.n_rows,
        hashlib.sha256(repr(content).encode()).hexdigest()[:16] if content else "",
        train_error,
        n_measured,
        seconds | {"all": round(time.monotonic() - fit.run.began, 4)},
        {"Python": platform.python_version()} | {name: package.__version__ for name, package in packages.items()},
    )


def _leading(tried: Tried) -> list[Candidate]:
    """The chosen candidate, then the lowest errors; the best of every kind of model is among them."""
    best = tried.candidates[tried.chosen]
    rivals: list[Candidate] = []
    for candidate in sorted(tried.candidates, key=lambda candidate: candidate.error):
        if np.isfinite(candidate.error) and candidate != best and candidate not in rivals:
            rivals.append(candidate)
    first = {rival.model: rival for rival in reversed(rivals) if rival.model != best.model}
    kept = [*first.values(), *(rival for rival in rivals if first.get(rival.model) is not rival)][: MOST_TRIED - 1]
    return [best, *sorted(kept, key=lambda rival: rival.error)] if np.isfinite(best.error) else []


def _rounded(candidate: Candidate) -> Candidate:
    """With the digits that count: a record is small."""

    def short(value: float) -> float:
        return float(f"{value:.6g}")

    # a precomputed kernel has no gamma: not a number
    setting = {name: short(value) for name, value in candidate.setting.items() if np.isfinite(value)}
    deviation = None if candidate.deviation is None else short(candidate.deviation)
    return Candidate(setting, short(candidate.error), deviation, candidate.model)


def _train_error(model: Model, data: Data) -> tuple[float | None, int]:
    """Error of the model on its training rows, or on evenly spaced ones of many, and the number of rows."""
    sample = np.arange(0, data.rows.n_rows, max(1, -(-data.rows.n_rows // _TRAIN_ROWS)))
    rows, inputs = data.rows.originals(sample), data.rows.inputs
    predicted = model.predict(rows if inputs is None else inputs.inverse(rows))  # the model standardises them itself
    if data.classes is not None and data.labels is not None:
        return float(np.mean(predicted != data.classes[data.labels[sample]])), len(sample)
    if data.y is None or model.kind == "outlier" or model.ordered:
        return None, 0
    with np.errstate(over="ignore"):
        error = float(np.sqrt(np.mean((predicted - data.y[sample]) ** 2)))
    return (error, len(sample)) if np.isfinite(error) else (None, 0)
