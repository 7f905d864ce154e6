"""Samples of streamed rows that fit in memory, and exact weights on all rows afterwards.

Refinement, searches and selectors that need their rows at hand see a sample; where all rows fit, the sample is all of
them and the fit that of rows in memory, bit for bit.  Otherwise the basis that was found on the sample gets its weights
by passes over all rows.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kompakt.design import DEFAULT_BUDGET, Design
from kompakt.estimators.prepare import Array, Training
from kompakt.estimators.stream import ClassEncoder, LabelEncoder, classes_of, first_pass, set_features
from kompakt.kernels import Kernel
from kompakt.losses import Loss
from kompakt.rows import ArrayRows, Raw, Source, StreamedRows
from kompakt.solve import Problem, Settings, Solution, solve

logger = logging.getLogger("kompakt")

#: rows of a sample at most: refinement and searches gain nothing from more.  Up to twice as many rows are all taken
#: where they fit the memory: a sample of more than half saves little, and costs the identity with rows in memory.
SAMPLE_ROWS = 250_000
#: rows of a class that a sample takes, if there are so many, however rare the class is
_LEAST_OF_A_CLASS = 200


@dataclass(frozen=True)
class _Chance:
    """The chance of a row to be in the sample."""

    of_class: Array
    encode: Any

    def __call__(self, raw: Raw) -> Array:
        if len(self.of_class) == 1:
            return np.full(len(raw), self.of_class[0])
        return self.of_class[self.encode.labels(raw)]


def sample_rows(estimator: Any, training: Training) -> int:
    """Rows that a search may hold: with their kernel values, features and copies they fit the memory budget."""
    rows = training.rows
    budget = getattr(estimator, "memory_budget", None) or DEFAULT_BUDGET
    n_basis = getattr(estimator, "n_basis", 1000)
    m = 1000 if isinstance(n_basis, str) else int(n_basis)
    entries = training.stored / max(1, rows.n_rows) * (1.5 if rows.is_sparse else 1.0)
    return _all_or_sample(rows.n_rows, budget / (12 * entries + 16 * m + 64 * rows.n_outputs))


def _all_or_sample(n_rows: int, fitting: float) -> int:
    """Rows to take of `n_rows`, of which `fitting` fit the memory."""
    return n_rows if n_rows <= min(fitting, 2 * SAMPLE_ROWS) else int(np.clip(fitting, 1000, SAMPLE_ROWS))


def held_rows(estimator: Any, training: Training) -> Training:
    """The training itself, or on a sample that fits where its rows are streamed."""
    return sampled(training, sample_rows(estimator, training)) if training.streamed else training


def solve_on_all_rows(
    training: Training,
    kernel: Kernel,
    basis: Array,
    loss: Loss,
    C: float,
    found: Solution | None,
    settings: Settings,
    *,
    fit_intercept: bool = True,
    penalize_intercept: bool = False,
) -> Solution:
    """Exact weights for a basis chosen on a sample, by passes over all rows, from the solution on the sample."""
    design = Design(training.rows, kernel, basis, whiten=True)
    problem = Problem(design, loss, C, fit_intercept, penalize_intercept)
    start = None
    if found is not None:
        start = np.concatenate([design.to_coordinates(found.weights), found.intercept[None]])
    return solve(problem, start, settings)


def labelled_rows(training: Training) -> StreamedRows:
    """Streamed rows whose targets are the class numbers, with their own weights."""
    rows = training.rows
    assert isinstance(rows, StreamedRows)
    encode = rows.reader.encode
    assert isinstance(encode, ClassEncoder)
    reader = replace(rows.reader, encode=LabelEncoder(encode))
    return StreamedRows(reader, 1, int(encode.weighted), passes=rows.passes)


def sampled(training: Training, count: int) -> Training:
    """The same training on about `count` rows in memory, weighted so that they stand for all; all rows if they fit.

    Rows are chosen by hash of their number, rare classes more often, so the sample does not depend on blocks or
    partitions.  Where all rows fit, nothing is weighted and the fit is that of rows in memory, bit for bit.
    """
    rows = training.rows
    assert isinstance(rows, StreamedRows)
    encode: Any = rows.reader.encode
    if rows.n_rows <= count:
        part = rows.everything()
    else:
        chance = np.array([count / rows.n_rows])
        if training.mass_of is not None:
            share = training.mass_of / training.mass_of.sum() * rows.n_rows
            chance = np.minimum(1.0, np.maximum(count / rows.n_rows, _LEAST_OF_A_CLASS / np.maximum(1.0, share)))
        chooser = _Chance(chance, encode)
        part = rows.sample(chooser, training.key)
        assert part.targets is not None
        stands_for = _stands_for(training, part, chance)
        logger.info("the search sees a sample of %d of %d rows", part.n_rows, rows.n_rows)
        weights = stands_for if part.weights is None else (part.weights.T * stands_for).T
        part = _reweighted(part, weights)
    numbers, part.numbers = part.numbers, None
    labels = y = None
    assert part.targets is not None
    if training.classes is not None:
        labels = encode.labels(Raw(part.X, part.y))
    else:
        y = part.targets[:, 0] if training.single else part.targets
    kept = numbers if training.kept is None else training.kept[numbers]
    whole = part.n_rows == rows.n_rows
    return replace(
        training, rows=part, kept=training.kept if whole else kept, labels=labels, y=y, origin=training, whole=whole
    )


def _reweighted(part: ArrayRows, weights: Array) -> ArrayRows:
    """The rows with other weights, known to the streamed rows by their numbers as before."""
    other = ArrayRows(part.X, part.targets, weights, part.offset)
    other.numbers, other.y, other.w, other.to_inputs = part.numbers, part.y, part.w, part.to_inputs
    return other


def _stands_for(training: Training, part: ArrayRows, chance: Array) -> Array:
    """How many rows each row of the sample stands for: by class where chances differ."""
    if training.classes is None or len(chance) == 1 or training.mass_of is None:
        return np.full(part.n_rows, training.rows.n_rows / part.n_rows)
    encode: Any = training.rows.reader.encode  # type: ignore[attr-defined]
    return 1.0 / chance[encode.labels(Raw(part.X, part.y))]


# -- estimators that train on a sample and nothing else -----------------------------------------------------


def fit_on_sample(
    estimator: Any, source: Source, y: Any, sample_weight: Any, *, classifier: bool, needs_target: bool = True
) -> Any:
    """Fit an estimator that needs its rows in memory on a sample of streamed rows, as they are and unweighted by it.

    Row numbers among the fitted attributes are those of the source.
    """
    if source.scale:
        raise ValueError(
            f"scale=True of open_rows is not possible with {type(estimator).__name__}, which keeps no scaling. "
            "Standardise the rows before, or put a StandardScaler into its estimator."
        )
    rows, facts, _ = first_pass(estimator, source, y, sample_weight, classifier=classifier, needs_target=needs_target)
    if classifier:
        classes_of(facts)
    entries = sum(fact.stored for fact in facts) / source.n_rows * (1.5 if source.is_sparse else 1.0)
    budget = getattr(estimator, "memory_budget", None) or DEFAULT_BUDGET
    count = _all_or_sample(source.n_rows, budget / (24 * max(entries, 1.0)))
    key = np.random.RandomState(0).randint(2**31 - 1)
    if source.n_rows <= count:
        part = rows.everything()
    else:
        part = rows.sample(_Chance(np.array([count / source.n_rows]), None), key)
        logger.info("%s trains on a sample of %d of %d rows", type(estimator).__name__, part.n_rows, source.n_rows)
    numbers = part.numbers
    assert numbers is not None
    estimator.fit(part.X, part.y if needs_target else None, part.w)
    set_features(estimator, source)
    estimator.n_passes_ = rows.passes.count
    for name in ("training_indices_", "support_", "initial_support_", "basis_indices_"):
        found = getattr(estimator, name, None)
        if found is not None:
            setattr(estimator, name, numbers[found])
    return estimator
