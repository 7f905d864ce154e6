"""What a fitted estimator remembers of its training: settings tried, sizes tried, parameters."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from kompakt.estimators.records import Tried, tried_by
from kompakt.plots.curves import size_path_of
from kompakt.record import TrainingRecord

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


def search_of(estimator: Any, record: TrainingRecord | None) -> Search | None:
    """The search of a fit, or what the record of a model keeps of it; None without a search."""
    tried = tried_by(estimator)
    if tried is None and record is not None and record.tried:
        tried = Tried(list(record.tried), 0, f"{record.n_tried:,} settings; of these the best {len(record.tried)}")
    if tried is None:
        return None
    chosen = tried.candidates[tried.chosen]
    # of a plain and a refined model of one setting, the chosen one counts, else the refined one
    by_setting = {
        tuple(candidate.setting.items()): candidate
        for candidate in tried.candidates
        if candidate.model in ("", "plain", "refined")
    }
    by_setting[tuple(chosen.setting.items())] = chosen
    drawn = [candidate for candidate in by_setting.values() if "C" in candidate.setting]
    if chosen not in drawn:
        return None
    C, gamma = (np.array([candidate.setting.get(name, np.nan) for candidate in drawn]) for name in ("C", "gamma"))
    return Search(C, gamma, np.array([candidate.error for candidate in drawn]), drawn.index(chosen), tried.how)


def size_errors_of(estimator: Any) -> SizeErrors | None:
    """Errors against sizes as measured during the fit, or None."""
    path = size_path_of(estimator)
    if path is not None:
        sizes, errors, _, spread = (np.asarray(column) for column in path)
        errors = errors if errors.ndim == 1 else errors.mean(axis=1)
        return SizeErrors(sizes, errors, spread if np.isfinite(spread).all() else None, "held-out rows")
    by_size = getattr(estimator, "cv_errors_", None)
    if by_size is not None and np.ndim(by_size) == 1:
        return SizeErrors(np.arange(1, len(by_size) + 1), np.asarray(by_size, dtype=float), None, "cross-validation")
    history = getattr(estimator, "history_", None) or []
    for name, rows in (("validation_error", "held-out rows"), ("train_error", "training rows")):
        pairs = [(r["n_basis"], r[name]) for r in history if r.get(name) is not None and r.get("n_basis")]
        sizes, values = np.array(pairs, dtype=float).reshape(-1, 2).T
        if len(pairs) > 2 and np.all(np.diff(sizes) > 0):
            return SizeErrors(sizes.astype(int), values, None, rows)
    return None


def parameters_of(estimator: Any) -> list[tuple[str, str, bool]]:
    """Constructor parameters (name, value, whether the value is not the default)."""
    signature = inspect.signature(type(estimator).__init__).parameters
    parameters = []
    for name, value in sorted(estimator.get_params(deep=False).items()):
        text = repr(value) if np.ndim(value) == 0 or np.size(value) <= 6 else f"array of shape {np.shape(value)}"
        parameters.append((name, text, name not in signature or text != repr(signature[name].default)))
    return parameters
