"""From a user's X, y and weights to `Data` and a kernel: all that is checked and resolved before computing.

Refinement, searches and selectors that need their rows at hand see a sample of streamed rows; where all rows fit, the
sample is all of them and the fit that of rows in memory, bit for bit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from kompakt.codings import get_coding
from kompakt.data import (
    ArrayRows,
    Passes,
    Raw,
    RowReader,
    Source,
    StreamedRows,
    centre_of,
    steady,
    total_variance,
    tree_sum,
)
from kompakt.data.checks import missing, refuse_non_finite
from kompakt.data.rows import MOMENT_ROWS, centre_from, centre_sums, sum_in_order, task_bounds
from kompakt.kernels import Kernel, Precomputed, make_kernel
from kompakt.run import Run
from kompakt.spec import Data
from kompakt.validation import resolve_splits

Array = np.ndarray


def splits_of(data: Data, cv: Any, key: int) -> list[tuple[Array, Array]]:
    """The user's `cv` as splits of the kept rows; splits given as row numbers of X lose the rows of weight zero."""
    kept = data.kept
    if kept is not None and not isinstance(cv, Integral) and not hasattr(cv, "split"):
        cv = [tuple(_among(kept, part) for part in pair) for pair in cv]
    y = data.labels if data.labels is not None else data.y
    assert y is not None
    return resolve_splits(cv, y, classifier=data.classifier, random_state=key, X=data.rows.X)


def _among(kept: Array, part: Any) -> Array:
    """Positions among the kept rows of rows given by number or by mask."""
    part = np.asarray(part)
    return part[kept] if part.dtype == bool else np.searchsorted(kept, part[np.isin(part, kept)])


def check_rows(
    estimator: Any, X: Any, y: Any = None, *, numeric_y: bool = False, reset: bool = True
) -> tuple[Any, Any]:
    """scikit-learn's validation with the input types kompakt accepts."""
    options: dict[str, Any] = {
        "accept_sparse": "csr",
        "dtype": [np.float64, np.float32],
        "reset": reset,
        "accept_large_sparse": False,
    }
    X = _with_small_indices(X)
    labels = None if y is None else np.asarray(y)
    if labels is not None and labels.dtype == object and labels.ndim and (lacking := missing(labels)).any():
        raise ValueError(
            f"Input y contains missing values (NaN), first in row {int(np.argmax(lacking))}. Drop such rows."
        )
    try:
        if y is None:
            X = validate_data(estimator, X, **options)
        else:
            X, y = validate_data(estimator, X, y, multi_output=numeric_y, y_numeric=numeric_y, **options)
    except ValueError as error:
        if "Input X contains NaN" in str(error):
            raise ValueError(
                f"{error}\nkompakt has no place for missing values: impute them first, for example with "
                f"make_pipeline(SimpleImputer(strategy='median'), {type(estimator).__name__}()) of scikit-learn."
            ) from None
        raise
    if y is not None or reset:  # rows to train on; rows to predict for may lie anywhere
        values = X.data if sparse.issparse(X) else X
        largest = max(float(values.max()), -float(values.min())) if values.size else 0.0
        refuse_extremes(largest, X.dtype, sparse.issparse(X))
    if numeric_y and y is not None:
        refuse_extreme_targets(float(np.max(np.abs(np.asarray(y, dtype=np.float64)), initial=0.0)))
    return X, y


def checked_weights(sample_weight: Any, X: Any) -> Array:
    """Sample weights as float64 of sizes that can be computed with."""
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    refuse_extreme_weights(float(weights.max(initial=0.0)))
    return weights


def refuse_extreme_weights(largest: float) -> None:
    """Sample weights whose products with C and squared targets would overflow or vanish."""
    if largest > LARGEST or 0.0 < largest < 1.0 / LARGEST:
        raise ValueError(
            f"the largest sample weight must lie between {1.0 / LARGEST:.0e} and {LARGEST:.0e}; got {largest:.1e}. "
            "Divide the weights by their mean: only C times the weight counts."
        )


def _with_small_indices(X: Any) -> Any:
    """A CSR matrix with 32-bit indices where they fit: scikit-learn's own svmlight reader gives 64-bit ones."""
    if not (sparse.issparse(X) and X.format == "csr" and X.indices.dtype == np.int64):
        return X
    if max(X.nnz, *X.shape) > np.iinfo(np.int32).max:
        return X
    small = type(X)((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    return small


def prepare(estimator: Any, X: Any, y: Any, sample_weight: Any, run: Run, *, classifier: bool) -> tuple[Data, Kernel]:
    """Validate the arguments of `fit` and resolve kernel, targets and weights."""
    if isinstance(X, Source):
        return prepare_stream(estimator, X, y, sample_weight, run, classifier=classifier)
    check_parameters(estimator)
    if y is None:
        raise ValueError(
            f"requires y to be passed, but the target y is None: {type(estimator).__name__} needs targets."
        )
    X, y = check_rows(estimator, X, y, numeric_y=not classifier)
    weights = None if sample_weight is None else checked_weights(sample_weight, X)
    kept = None
    square = X
    if weights is not None and np.any(weights == 0):
        kept = np.flatnonzero(weights > 0)
        if not len(kept):
            raise ValueError("sample_weight is zero for every row; expected at least one positive weight.")
        X, y, weights = X[kept], y[kept], weights[kept]
    if weights is not None and np.all(weights == 1.0):
        weights = None
    kernel = resolve_kernel(estimator, X, weights)
    if isinstance(kernel, Precomputed):
        if square.shape[0] != square.shape[1]:
            raise ValueError(
                f"kernel='precomputed' needs the square kernel matrix of the data rows; got shape {square.shape}."
            )
        if kept is not None and not getattr(estimator, "_drops_matrix_rows", False):
            raise ValueError(
                "zero sample weights are not possible with kernel='precomputed': drop those rows and columns."
            )
        kernel = Precomputed(square)
    offset = centre_of(X, weights) if kernel.shift_invariant and not sparse.issparse(X) else None
    if classifier:
        return _with_classes(estimator, X, y, weights, kept, offset, square.shape[0]), kernel
    targets = np.asarray(y, dtype=np.float64)
    rows = ArrayRows(X, targets.reshape(len(targets), -1), weights, offset)
    rows.numbers = kept
    return Data(rows, kept, square.shape[0], y=targets), kernel


def refuse_extremes(largest: float, dtype: np.dtype, is_sparse: bool) -> None:
    """Squares of the entries must neither overflow nor vanish in the type that the rows are computed in."""
    single = dtype == np.float32 and not is_sparse
    bound = 1e15 if single else 1e150
    if largest > bound or 0.0 < largest < 1.0 / bound:
        raise ValueError(
            f"the entries of X are too {'large' if largest > 1.0 else 'small'} to be squared in {dtype}: the largest "
            f"is {largest:.1e}, expected between {1.0 / bound:.0e} and {bound:.0e}. Scale the inputs, for example "
            f"with StandardScaler{', or pass float64' if single else ''}."
        )


#: largest C, sample weight and target, and one over the smallest C and weight: products and squares of them must stay
#: inside the range of float64
LARGEST = 1e50


def refuse_extreme_targets(largest: float) -> None:
    """Regression targets whose squares, times C, would overflow."""
    if largest > LARGEST:
        raise ValueError(
            f"the targets y are too large to be squared: the largest is {largest:.1e}, expected at most {LARGEST:.0e}. "
            "Scale them, for example with TransformedTargetRegressor(regressor, transformer=StandardScaler())."
        )


def _with_classes(
    estimator: Any,
    X: Any,
    y: Array,
    weights: Array | None,
    kept: Array | None,
    offset: Array | None,
    n_rows: int,
) -> Data:
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"The number of classes has to be greater than one; got {len(classes)} class: {classes[:1]}. "
            "Give rows of at least two classes (with positive weight)."
        )
    mass = class_mass(labels, weights, kept, n_rows)
    factors = class_factors(getattr(estimator, "class_weight", None), classes, mass)
    if factors is not None:
        weights = factors[labels] if weights is None else weights * factors[labels]
    coding = get_coding(getattr(estimator, "coding", "one_vs_rest"))
    targets = coding.encode(labels, len(classes))
    if np.any(targets == 0):  # one-vs-one: rows of other classes take no part in an output
        weights = (targets != 0) * (1.0 if weights is None else weights[:, None])
    rows = ArrayRows(X, targets, weights, offset)
    rows.numbers = kept
    return Data(rows, kept, n_rows, classes=classes, labels=labels)


def class_mass(labels: Array, weights: Array | None, kept: Array | None = None, n_rows: int | None = None) -> Array:
    """Weight of every class; `kept` are the numbers of the rows among `n_rows` where some were left out.

    Summed by the tasks and the tree of a first pass over streamed rows, so that both give the same bits.
    """
    n_classes = int(labels.max()) + 1
    numbers = np.arange(len(labels)) if kept is None else kept
    tasks = np.array(list(task_bounds(len(labels) if n_rows is None else n_rows, MOMENT_ROWS)))
    parts = [slice(*pair) for pair in np.searchsorted(numbers, tasks)]
    return tree_sum(
        (np.bincount(labels[part], None if weights is None else weights[part], n_classes).astype(np.float64),)
        for part in parts
    )[0]


def class_factors(class_weight: Any, classes: Array, mass: Array) -> Array | None:
    """Factor of every class, or None; "balanced" counts sample weights, so that weight 2 equals a row given twice.

    `mass` is the weight of every class.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f"class_weight must be None, 'balanced' or a dict of label: weight; got {class_weight!r}.")
        return mass.sum() / (len(classes) * mass)
    if not isinstance(class_weight, dict):
        raise ValueError(
            f"class_weight must be None, 'balanced' or a dict of label: weight; got {type(class_weight).__name__}."
        )
    known = list(classes)
    unknown = [label for label in class_weight if label not in known]
    if unknown:
        raise ValueError(f"class_weight must name labels of y, which are {known}; got {unknown} besides.")
    factors = np.array([float(class_weight.get(label, 1.0)) for label in known])
    if np.any(~np.isfinite(factors)) or np.any(factors <= 0) or np.any(factors > LARGEST):
        raise ValueError(
            f"class weights must be positive and at most {LARGEST:.0e}; got {class_weight!r}. Leave a class out of y "
            "to ignore it."
        )
    return factors


#: values of `gamma` that mean widths or a map learned by the fit, starting from "scale"
LEARNED = ("learn", "ard", "full", "loo")


def resolve_kernel(estimator: Any, X: Any, weights: Array | None, centre: Array | None = None) -> Kernel:
    """The kernel object for the parameters of an estimator; X is a matrix, or rows with their weights."""
    learned = getattr(estimator, "_learned_widths", LEARNED[:3]) if hasattr(estimator, "refine") else ()
    if isinstance(estimator.gamma, str) and estimator.gamma in LEARNED and estimator.gamma not in learned:
        raise ValueError(
            f"gamma must be {_gamma_choices(learned)}; got {estimator.gamma!r}, which "
            f"{type(estimator).__name__} cannot learn. CompactSVC and CompactSVR can."
        )
    gamma = resolve_gamma(estimator.gamma, X, weights, getattr(estimator, "kernel", "rbf"), centre, learned)
    return make_kernel(estimator.kernel, gamma=gamma, coef0=estimator.coef0, degree=estimator.degree)


def _gamma_choices(learned: Sequence[str]) -> str:
    names = ", ".join(repr(name) for name in ("scale", "auto", *learned))
    return f"{names}, a positive number or one per feature"


def resolve_gamma(
    gamma: Any,
    X: Any,
    weights: Array | None,
    kernel: Any = "rbf",
    centre: Array | None = None,
    learned: Sequence[str] = (),
) -> Any:
    """A number, or one per feature, for `gamma`; "scale" uses the weighted variance of the entries."""
    if not isinstance(kernel, str) or kernel in ("linear", "precomputed"):
        return 1.0
    gamma = "scale" if gamma is None else gamma
    if isinstance(gamma, str):
        if gamma == "scale" or gamma in LEARNED:
            variance = total_variance(X, weights, centre=centre)
            if not np.isfinite(variance):
                raise ValueError(
                    "the variance of X is not finite: its entries are too large for squared distances. "
                    "Scale the inputs, for example with StandardScaler."
                )
            spread = X.shape[1] * steady(variance)
            return 1.0 / spread if spread > np.finfo(float).tiny else 1.0
        if gamma == "auto":
            return 1.0 / X.shape[1]
        raise ValueError(f"gamma must be {_gamma_choices(learned)}; got {gamma!r}.")
    values = np.asarray(gamma, dtype=np.float64)
    if values.ndim == 1 and (kernel != "rbf" or len(values) != X.shape[1]):
        raise ValueError(
            f"one gamma per feature needs kernel='rbf' and {X.shape[1]} numbers; "
            f"got kernel={kernel!r} and {len(values)}."
        )
    if values.ndim > 1 or not np.all(np.isfinite(values)) or np.any(values <= 0):
        raise ValueError(f"gamma must be {_gamma_choices(learned)}; got {gamma!r}.")
    return values if values.ndim else float(values)


_POSITIVE = ("C", "tol")
_SWITCHES = (
    "refine", "tune", "calibrate", "fit_intercept", "penalize_intercept", "warm_start", "shared_basis", "shrinking",
    "plus_one", "refit", "two_pass", "stratify", "reweight",
)  # fmt: skip
_COUNTS = (
    "max_iter", "refine_iter", "n_candidates", "degree", "max_basis", "n_iter_no_change", "pool_size", "patience",
    "growth_iter",
)  # fmt: skip


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def check_parameters(estimator: Any, skip: Sequence[str] = ()) -> None:
    """Ranges of the parameters that all estimators share; names that an estimator lacks are passed over.

    So are those in `skip`, which mean something else to the estimator.
    """
    given = estimator.get_params(deep=False)
    parameters: dict[str, Any] = {name: value for name, value in given.items() if name not in skip}
    for name in _POSITIVE:
        value: Any = parameters.get(name, 1.0)
        if not _is_number(value) or not 0 < float(value) < np.inf:
            raise ValueError(f"{name} must be a positive, finite number; got {value!r}.")
    C = float(parameters.get("C", 1.0))
    if not 1.0 / LARGEST <= C <= LARGEST:
        raise ValueError(
            f"C must lie between {1.0 / LARGEST:.0e} and {LARGEST:.0e}; got {C!r}. Scale inputs and targets, and "
            "take a C nearer to 1."
        )
    for name in _SWITCHES:
        value = parameters.get(name, False)
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} must be True or False; got {value!r}.")
    for name in _COUNTS:
        value = parameters.get(name, 1)
        if name in ("n_candidates", "pool_size") and value is None:
            continue
        if not _is_count(value, 1):
            raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")
    n_basis = parameters.get("n_basis", 1)
    if not (n_basis == "auto" if isinstance(n_basis, str) else _is_count(n_basis, 1)):
        raise ValueError(
            f"n_basis must be a whole number of at least 1, or 'auto' where the size is chosen; got {n_basis!r}."
        )
    max_time = parameters.get("max_time")
    if max_time is not None and not (isinstance(max_time, Real) and float(max_time) > 0):
        raise ValueError(f"max_time must be None or a positive number of seconds; got {max_time!r}.")
    memory_budget = parameters.get("memory_budget")
    if memory_budget is not None and not _is_count(memory_budget, 0):
        raise ValueError(f"memory_budget must be None or a whole number of bytes; got {memory_budget!r}.")


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
        y = raw.y.reshape(len(raw))  # one column is as good
        labels = np.minimum(np.searchsorted(self.classes, y), len(self.classes) - 1)
        if not np.array_equal(self.classes[labels], y):
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


def _first_look(reader: RowReader, classifier: bool, first: int, raw: Raw) -> tuple[Facts, tuple[Array, ...]]:
    """Check the raw rows of a task; facts, and the sums of the centre over its blocks."""
    _refuse_what_is_not_finite(reader, first, raw)
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
    if raw.w is not None and raw.w.ndim != 1:
        raise ValueError(f"the weights must have one dimension, a number for each row; got {raw.w.ndim} dimensions.")
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
    estimator: Any, source: Source, y: Any, sample_weight: Any, run: Run, *, classifier: bool, needs_target: bool = True
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
    rows = StreamedRows(RowReader(source), passes=Passes(source.n_index_passes, run))
    facts: list[Facts] = []
    sums = _drawn(rows.scan(partial(_first_look, rows.reader, classifier), MOMENT_ROWS), facts)
    totals = tree_sum(sums)
    if not sum(fact.weight for fact in facts):
        raise ValueError(f"the weights of {source.name} are zero for every row; expected a positive one.")
    largest = max(max(fact.largest for fact in facts), -min(fact.least for fact in facts))
    refuse_extremes(largest, source.dtype, source.is_sparse)
    return rows, facts, totals


def prepare_stream(
    estimator: Any, source: Source, y: Any, sample_weight: Any, run: Run, *, classifier: bool
) -> tuple[Data, Kernel]:
    """Validate a row source and resolve kernel, targets, weights, centre and scale."""
    check_parameters(estimator)
    rows, facts, totals = first_pass(estimator, source, y, sample_weight, run, classifier=classifier)
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
    reader = replace(plain.reader, offset=None if offset is None else offset.astype(source.dtype))
    stored = sum(fact.stored for fact in facts)
    if not classifier:
        encode: Any = ValueEncoder(weighted)
        mass = float(sum(fact.weight for fact in facts))
        streamed = StreamedRows(
            replace(reader, encode=encode), source.n_targets, int(weighted), mass if weighted else None, rows.passes
        )
        return Data(streamed, kept, source.n_rows, stored=stored, one_target=source.n_targets == 1), kernel  # type: ignore[arg-type]
    classes, mass_of = classes_of(facts)
    factors = class_factors(getattr(estimator, "class_weight", None), classes, mass_of)
    encode = ClassEncoder(classes, getattr(estimator, "coding", "one_vs_rest"), factors, weighted)
    columns, mass = encode.total(mass_of)
    L = get_coding(encode.coding).encode(np.arange(len(classes)), len(classes)).shape[1]
    streamed = StreamedRows(replace(reader, encode=encode), L, columns, mass if columns else None, rows.passes)
    return Data(streamed, kept, source.n_rows, classes=classes, stored=stored, mass_of=mass_of), kernel  # type: ignore[arg-type]


def _drawn(results: Iterator[Any], facts: list[Facts]) -> Iterator[tuple[Array, ...]]:
    for fact, sums in results:
        facts.append(fact)
        yield sums


def _positive(first: int, raw: Raw) -> Array:
    assert raw.w is not None
    return first + np.flatnonzero(raw.w > 0)


def _centre_of(rows: StreamedRows) -> Array:
    from kompakt.data import centre_of

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


def _all_or_sample(n_rows: int, fitting: float) -> int:
    """Rows to take of `n_rows`, of which `fitting` fit the memory."""
    return n_rows if n_rows <= min(fitting, 2 * SAMPLE_ROWS) else int(np.clip(fitting, 1000, SAMPLE_ROWS))


def in_memory(data: Data, n_basis: Any, run: Run) -> Data:
    """The data itself, or a sample that fits the memory, with its kernel values and features, where it is streamed."""
    rows = data.rows
    if not rows.streamed:
        return data
    m = n_basis if isinstance(n_basis, Integral) else 1000
    entries = data.stored / max(1, rows.n_rows) * (1.5 if rows.is_sparse else 1.0)
    count = _all_or_sample(rows.n_rows, run.budget / (12 * entries + 16 * int(m) + 64 * rows.n_outputs))
    return sampled(data, count, run.key)


def labelled_rows(data: Data) -> StreamedRows:
    """Streamed rows whose targets are the class numbers, with their own weights."""
    rows = data.rows
    assert isinstance(rows, StreamedRows)
    encode = rows.reader.encode
    assert isinstance(encode, ClassEncoder)
    reader = replace(rows.reader, encode=LabelEncoder(encode))
    return StreamedRows(reader, 1, int(encode.weighted), passes=rows.passes)


def sampled(data: Data, count: int, key: int) -> Data:
    """The same data on about `count` rows in memory, weighted so that they stand for all; all rows if they fit.

    Rows are chosen by hash of their number, rare classes more often, so the sample does not depend on blocks or
    partitions.  Where all rows fit, nothing is weighted and the fit is that of rows in memory, bit for bit.
    """
    rows = data.rows
    assert isinstance(rows, StreamedRows)
    encode: Any = rows.reader.encode
    if rows.n_rows <= count:
        part = rows.everything()
    else:
        chance = np.array([count / rows.n_rows])
        if data.mass_of is not None:
            share = data.mass_of / data.mass_of.sum() * rows.n_rows
            chance = np.minimum(1.0, np.maximum(count / rows.n_rows, _LEAST_OF_A_CLASS / np.maximum(1.0, share)))
        chooser = _Chance(chance, encode)
        part = rows.sample(chooser, key)
        assert part.targets is not None
        stands_for = _stands_for(data, part, chance)
        logger.info("the search sees a sample of %d of %d rows", part.n_rows, rows.n_rows)
        weights = stands_for if part.weights is None else (part.weights.T * stands_for).T
        part = _reweighted(part, weights)
    numbers, part.numbers = part.numbers, None
    labels = y = None
    assert part.targets is not None
    if data.classes is not None:
        labels = encode.labels(Raw(part.X, part.y))
    else:
        y = part.targets[:, 0] if data.single else part.targets
    kept = numbers if data.kept is None else data.kept[numbers]
    whole = part.n_rows == rows.n_rows
    return replace(
        data, rows=part, kept=data.kept if whole else kept, labels=labels, y=y, origin=data, whole=whole
    )


def _reweighted(part: ArrayRows, weights: Array) -> ArrayRows:
    """The rows with other weights, known to the streamed rows by their numbers as before."""
    other = ArrayRows(part.X, part.targets, weights, part.offset)
    other.numbers, other.y, other.w, other.to_inputs = part.numbers, part.y, part.w, part.to_inputs
    return other


def _stands_for(data: Data, part: ArrayRows, chance: Array) -> Array:
    """How many rows each row of the sample stands for: by class where chances differ."""
    if data.classes is None or len(chance) == 1 or data.mass_of is None:
        return np.full(part.n_rows, data.rows.n_rows / part.n_rows)
    encode: Any = data.rows.reader.encode  # type: ignore[attr-defined]
    return 1.0 / chance[encode.labels(Raw(part.X, part.y))]


# -- estimators that train on a sample and nothing else -----------------------------------------------------


def fit_on_sample(
    estimator: Any, source: Source, y: Any, sample_weight: Any, run: Run, *, classifier: bool, needs_target: bool = True
) -> Any:
    """Fit an estimator that needs its rows in memory on a sample of streamed rows, as they are and unweighted by it.

    The estimator has a method `_fit(X, y, sample_weight, run)` for rows in memory. Row numbers among the fitted
    attributes are those of the source.
    """
    if source.scale:
        raise ValueError(
            f"scale=True of open_rows is not possible with {type(estimator).__name__}, which keeps no scaling. "
            "Standardise the rows before, or put a StandardScaler into its estimator."
        )
    rows, facts, _ = first_pass(
        estimator, source, y, sample_weight, run, classifier=classifier, needs_target=needs_target
    )
    if classifier:
        classes_of(facts)
    entries = sum(fact.stored for fact in facts) / source.n_rows * (1.5 if source.is_sparse else 1.0)
    budget = run.budget
    count = _all_or_sample(source.n_rows, budget / (24 * max(entries, 1.0)))
    key = np.random.RandomState(0).randint(2**31 - 1)
    if source.n_rows <= count:
        part = rows.everything()
    else:
        part = rows.sample(_Chance(np.array([count / source.n_rows]), None), key)
        logger.info("%s trains on a sample of %d of %d rows", type(estimator).__name__, part.n_rows, source.n_rows)
    numbers = part.numbers
    assert numbers is not None
    estimator._fit(part.X, part.y if needs_target else None, part.w, run)
    set_features(estimator, source)
    estimator.n_passes_ = rows.passes.count
    for name in ("training_indices_", "support_", "initial_support_", "basis_indices_"):
        found = getattr(estimator, name, None)
        if found is not None:
            setattr(estimator, name, numbers[found])
    return estimator
