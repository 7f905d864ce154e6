"""From a row source to a `Training`: labels, weights, centre and scale in a first pass.

The first pass checks the rows (finite, neither too large nor too small to be squared), discovers the labels and sums
what the centre needs; a second one is made only for variances (``gamma="scale"``, standardisation).  Encoders are small
records that can be pickled: they turn the raw y and w of any block into targets and weights, wherever it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from kompakt.codings import get_coding
from kompakt.estimators.prepare import (
    Array,
    Training,
    check_parameters,
    class_factors,
    refuse_extreme_targets,
    refuse_extreme_weights,
    refuse_extremes,
    resolve_kernel,
)
from kompakt.kernels import Precomputed
from kompakt.rows import Passes, Raw, RowReader, Source, StreamedRows, tree_sum
from kompakt.rows.base import sum_in_order
from kompakt.rows.checks import missing, refuse_non_finite
from kompakt.rows.moments import MOMENT_ROWS, centre_from, centre_sums
from kompakt.rows.tasks import Bounds

#: more labels than this are no classes
_MOST_CLASSES = 10_000


@dataclass(frozen=True)
class ClassEncoder:
    """Targets and weights of classes from raw rows.

    Parameters
    ----------
    classes : ndarray
    coding : str
    factors : ndarray, optional
        Weight of every class.
    weighted : bool
        Whether the rows' own weights count.
    """

    classes: Array
    coding: Any
    factors: Array | None = None
    weighted: bool = False

    def labels(self, raw: Raw) -> Array:
        """Class numbers."""
        assert raw.y is not None
        labels = np.minimum(np.searchsorted(self.classes, raw.y), len(self.classes) - 1)
        if not np.array_equal(self.classes[labels], raw.y):
            raise ValueError("a label came that the first pass did not see: the rows have changed during the fit.")
        return labels

    @property
    def has_gaps(self) -> bool:
        """Whether some classes take no part in some outputs (one-vs-one)."""
        return bool(np.any(get_coding(self.coding).encode(np.arange(len(self.classes)), len(self.classes)) == 0))

    def __call__(self, raw: Raw) -> tuple[Array, Array | None]:
        labels = self.labels(raw)
        weights = raw.w if self.weighted else None
        if self.factors is not None:
            weights = self.factors[labels] if weights is None else weights * self.factors[labels]
        targets = get_coding(self.coding).encode(labels, len(self.classes))
        if self.has_gaps:
            weights = (targets != 0) * (1.0 if weights is None else weights[:, None])
        return targets, weights

    def total(self, mass: Array) -> tuple[int, float]:
        """Columns of the weights, and their sum over all rows, from the mass of every class."""
        mass = mass if self.factors is None else mass * self.factors
        if self.has_gaps:
            codes = get_coding(self.coding).encode(np.arange(len(self.classes)), len(self.classes))
            return codes.shape[1], float(np.sum(mass * np.count_nonzero(codes, axis=1)))
        return int(self.weighted or self.factors is not None), float(mass.sum())


@dataclass(frozen=True)
class LabelEncoder:
    """Class numbers as targets."""

    classes: ClassEncoder

    def __call__(self, raw: Raw) -> tuple[Array, Array | None]:
        return self.classes.labels(raw).astype(np.float64)[:, None], raw.w if self.classes.weighted else None


@dataclass(frozen=True)
class ValueEncoder:
    """Regression targets and weights from raw rows; weights only where there are no targets."""

    weighted: bool = False
    targets: bool = True

    def __call__(self, raw: Raw) -> tuple[Array | None, Array | None]:
        y = None
        if self.targets and raw.y is not None:
            y = np.asarray(raw.y, dtype=np.float64).reshape(len(raw), -1)
        return y, raw.w if self.weighted else None


@dataclass(frozen=True)
class Facts:
    """What one task of the first pass says."""

    labels: Array | None
    mass: Array | None
    weight: float
    zeros: int
    unit: bool
    least: float
    largest: float
    stored: int


def _first_look(
    reader: RowReader, classifier: bool, bounds: Bounds, raw: Raw | None = None
) -> tuple[Facts, tuple[Array, ...]]:
    """Check the raw rows of a task; facts, and the sums of the centre over its blocks."""
    raw = reader.raw(*bounds) if raw is None else raw
    _refuse_what_is_not_finite(reader, bounds[0], raw)
    if not classifier and raw.y is not None and raw.y.dtype.kind not in "fiub":
        raise ValueError(
            f"a regressor needs numbers as targets; got {raw.y.dtype}, for example {raw.y.flat[0]!r}. Use a classifier."
        )
    if not classifier and raw.y is not None:
        refuse_extreme_targets(float(np.max(np.abs(np.asarray(raw.y, dtype=np.float64)), initial=0.0)))
    values = raw.X.data if sparse.issparse(raw.X) else raw.X
    w = np.ones(len(raw)) if raw.w is None else raw.w
    labels = mass = None
    if classifier and raw.y is not None:
        counted = w > 0
        labels, place = np.unique(raw.y[counted], return_inverse=True)
        mass = np.bincount(place.ravel(), weights=w[counted], minlength=len(labels))
    facts = Facts(
        labels,
        mass,
        float(w.sum()),
        int(np.sum(w == 0)),
        bool(np.all(w == 1.0)),
        float(values.min(initial=0.0)),
        float(values.max(initial=0.0)),
        int(values.size),
    )
    sums: tuple[Array, ...] = ()
    if not sparse.issparse(raw.X):
        sums = sum_in_order(
            (*centre_sums(raw.X[at : at + MOMENT_ROWS].astype(np.float64), part), np.array(part.sum()))
            for at in range(0, len(raw), MOMENT_ROWS)
            for part in (w[at : at + MOMENT_ROWS],)
        )
    return facts, sums


def _refuse_what_is_not_finite(reader: RowReader, first: int, raw: Raw) -> None:
    def place(row: int) -> str:
        number = first + row
        number = number if reader.kept is None else int(reader.kept[number])
        return f"row {number}" if reader.source is None else reader.source.where(number)

    refuse_non_finite(raw.X, place)
    for name, column in (("y", raw.y), ("the weights", raw.w)):
        bad = np.zeros(0, dtype=bool) if column is None else missing(column)
        if bad.any():
            what = "NaN or infinity" if column is not None and column.dtype.kind == "f" else "missing values (NaN)"
            raise ValueError(f"Input {name} contains {what}, first in {place(int(np.argmax(bad)))}. Drop such rows.")
    if raw.w is not None:
        refuse_extreme_weights(max(1.0, float(raw.w.max(initial=0.0))))  # a part may hold small weights only
    if raw.w is not None and np.any(raw.w < 0):
        first_bad = place(int(np.argmax(raw.w < 0)))
        raise ValueError(f"weights must not be negative; got {raw.w.min()}, first in {first_bad}.")


def first_pass(
    estimator: Any, source: Source, y: Any, sample_weight: Any, *, classifier: bool, needs_target: bool = True
) -> tuple[StreamedRows, list[Facts], tuple[Array, ...]]:
    """Check all rows; the rows as they are, what each task found, and the sums of the centre."""
    if y is not None or sample_weight is not None:
        raise ValueError(
            "targets and weights of streamed rows belong to the rows: expected fit(rows) with y=None and "
            "sample_weight=None. Name them in open_rows(..., target=..., weight=...)."
        )
    if needs_target and not source.n_targets:
        raise ValueError(f"requires y to be passed, but {source.name} has no target. Give open_rows(..., target=...).")
    if classifier and source.n_targets > 1:
        raise ValueError(f"a classifier needs one target; got {source.n_targets} columns.")
    set_features(estimator, source)
    rows = StreamedRows(RowReader(source), passes=Passes(getattr(source, "n_index_passes", 0)))
    facts: list[Facts] = []
    sums = _drawn(rows._pass(partial(_first_look, rows.reader, classifier), rows._tasks(MOMENT_ROWS)), facts)
    totals = tree_sum(sums)
    if not sum(fact.weight for fact in facts):
        raise ValueError(f"the weights of {source.name} are zero for every row; expected a positive one.")
    largest = max(max(fact.largest for fact in facts), -min(fact.least for fact in facts))
    refuse_extremes(largest, source.dtype, source.is_sparse)
    return rows, facts, totals


def prepare_stream(estimator: Any, source: Source, y: Any, sample_weight: Any, *, classifier: bool) -> Training:
    """Validate a row source and resolve kernel, targets, weights, centre and scale."""
    check_parameters(estimator)
    rows, facts, totals = first_pass(estimator, source, y, sample_weight, classifier=classifier)
    weighted = source.has_weight and not all(fact.unit for fact in facts)
    kept = None
    if any(fact.zeros for fact in facts):
        kept = np.concatenate(list(rows.scan(_positive)))
        rows = rows.with_reader(kept=kept)
    plain = rows.with_reader(encode=ValueEncoder(weighted, targets=False))
    centre = None
    if not source.is_sparse:
        centre = centre_from(*totals) if kept is None else None
    plain, centre = _standardised(plain, centre) if source.scale else (plain, centre)
    kernel = resolve_kernel(estimator, plain, None, centre)
    if isinstance(kernel, Precomputed):
        raise ValueError("kernel='precomputed' needs the whole kernel matrix, which cannot be streamed; pass arrays.")
    offset = None
    if kernel.shift_invariant and not source.is_sparse and not source.scale:
        offset = _centre_of(plain) if centre is None else centre
    key = int(check_random_state(estimator.random_state).randint(2**31 - 1))
    reader = replace(plain.reader, offset=None if offset is None else offset.astype(source.dtype))
    stored = sum(fact.stored for fact in facts)
    if not classifier:
        encode: Any = ValueEncoder(weighted)
        mass = float(sum(fact.weight for fact in facts))
        streamed = StreamedRows(
            replace(reader, encode=encode), source.n_targets, int(weighted), mass if weighted else None, rows.passes
        )
        return Training(streamed, kernel, kept, key=key, stored=stored, one_target=source.n_targets == 1)
    classes, mass_of = classes_of(facts)
    factors = class_factors(getattr(estimator, "class_weight", None), classes, mass_of)
    encode = ClassEncoder(classes, getattr(estimator, "coding", "one_vs_rest"), factors, weighted)
    columns, mass = encode.total(mass_of)
    L = get_coding(encode.coding).encode(np.arange(len(classes)), len(classes)).shape[1]
    streamed = StreamedRows(replace(reader, encode=encode), L, columns, mass if columns else None, rows.passes)
    return Training(streamed, kernel, kept, classes=classes, key=key, stored=stored, mass_of=mass_of)


def _drawn(results: Iterator[Any], facts: list[Facts]) -> Iterator[tuple[Array, ...]]:
    for fact, sums in results:
        facts.append(fact)
        yield sums


def _positive(first: int, raw: Raw) -> Array:
    assert raw.w is not None
    return first + np.flatnonzero(raw.w > 0)


def _centre_of(rows: StreamedRows) -> Array:
    from kompakt.rows import centre_of

    return centre_of(rows)


def classes_of(facts: list[Facts]) -> tuple[Array, Array]:
    """The labels that the first pass found, sorted, and their weights."""
    found = [fact.labels for fact in facts if fact.labels is not None]
    classes = np.unique(np.concatenate(found))
    check_classification_targets(classes)
    if len(classes) < 2:
        raise ValueError(
            f"The number of classes has to be greater than one; got {len(classes)} class: {classes[:1]}. "
            "Give rows of at least two classes (with positive weight)."
        )
    if len(classes) > _MOST_CLASSES:
        raise ValueError(
            f"the target has {len(classes)} different values; expected classes. Use a regressor for numeric targets."
        )
    return classes, tree_sum((_spread(classes, fact),) for fact in facts)[0]


def _spread(classes: Array, fact: Facts) -> Array:
    """The weight that one task found for every class."""
    mass = np.zeros(len(classes))
    assert fact.labels is not None
    mass[np.searchsorted(classes, fact.labels)] = fact.mass
    return mass


def _standardised(rows: StreamedRows, centre: Array | None) -> tuple[StreamedRows, Array | None]:
    """Rows with mean 0 and variance 1 per feature; sparse rows are scaled only.  One pass."""
    d = rows.n_features
    at = np.zeros(d) if rows.is_sparse else (_centre_of(rows) if centre is None else centre)

    def one(block: Any) -> tuple[Array, ...]:
        w = np.ones(len(block)) if block.weights is None else block.weights
        X = block.X.astype(np.float64)
        if sparse.issparse(X):
            return np.asarray(X.T @ w).ravel(), np.asarray(X.multiply(X).T @ w).ravel(), np.array(w.sum())
        X = X - at
        return w @ X, w @ np.square(X), np.array(w.sum())

    first, second, mass = rows.map_reduce(one, MOMENT_ROWS)
    mean = first / mass
    variance = np.maximum(0.0, second / mass - mean**2)
    # a feature whose spread is rounding only is constant: it is left in its own units, like StandardScaler does
    constant = variance <= (10 * np.finfo(np.float64).eps * np.maximum(np.abs(at + mean), 1e-300)) ** 2 * d
    scale = np.where(constant, 1.0, np.sqrt(variance))
    if rows.is_sparse:
        return rows.with_reader(scale=scale), None
    return rows.with_reader(shift=at + mean, scale=scale), np.zeros(d)


def set_features(estimator: Any, source: Source) -> None:
    """The attributes that scikit-learn's validation would set."""
    estimator.n_features_in_ = source.n_features
    if source.feature_names is not None:
        estimator.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
