"""From a user's X, y and weights to `Data` and a kernel: all that is checked and resolved before computing.

Refinement, searches and selectors that need their rows at hand see a sample of streamed rows; where all rows fit, the
sample is all of them and the fit that of rows in memory, bit for bit.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_X_y,
    validate_data,
)

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
from kompakt.data.checks import canonical, missing, naming_rows, refuse_non_finite
from kompakt.data.rows import (
    MOMENT_ROWS,
    centre_from,
    centre_sums,
    computing_dtype,
    sum_blocks,
    with_mass,
)
from kompakt.data.table import TableSchema, Unused, columns_of, is_frame, is_table
from kompakt.inputs import Inputs
from kompakt.kernels import Kernel, Precomputed, make_kernel
from kompakt.model import Model
from kompakt.run import Run
from kompakt.spec import Data
from kompakt.train.task import (
    LARGEST,
    NO_LABELS,
    ClassEncoder,
    Classes,
    Labels,
    Task,
    ValueEncoder,
    refuse_extreme_targets,
)

Array = np.ndarray


def check_columns_to_keep(X: Any, keep: Any) -> None:
    """Refuse `keep_columns` of `fit` where it is no list of names, or where X has no columns that are left out."""
    if keep is not None and (isinstance(keep, str) or not all(isinstance(name, str) for name in keep)):
        raise ValueError(f"keep_columns must be a list of column names; got {keep!r}.")
    if keep is not None and (isinstance(X, Source) or not is_table(X)):
        raise ValueError(
            f"keep_columns is for data frames in memory; got {type(X).__name__}. Every column of an array is used; "
            "open_rows(columns=[...]) names those of a file."
        )


def check_rows(
    estimator: BaseEstimator,
    X: Any,
    y: Any = None,
    *,
    numeric_y: bool = False,
    reset: bool = True,
    keep: Sequence[str] | None = None,
    standardise: bool = True,
) -> tuple[Any, Any]:
    """scikit-learn's validation with the input types kompakt accepts.

    A data frame becomes numbers by a schema, which the estimator keeps as `schema_` unless all columns are numbers
    already; columns in `keep` are used even if they look like identifiers.  These numbers are standardised for
    training; `standardise` is False for rows that a model is given, which does it itself.
    """
    options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "accept_large_sparse": False}
    if reset:
        vars(estimator).pop("_inputs", None)
        vars(estimator).pop("schema_", None)
    large = sparse.issparse(X) and X.format == "csr" and X.indices.dtype == np.int64
    if large and max(X.nnz, *X.shape) <= np.iinfo(np.int32).max:  # as scikit-learn's own svmlight reader gives them
        X = type(X)((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    labels = None if y is None else np.asarray(y)
    if labels is not None and labels.dtype == object and labels.ndim and (lacking := missing(labels)).any():
        raise ValueError(
            f"Input y contains missing values (NaN), first in row {int(np.argmax(lacking))}. Drop such rows."
        )
    if numeric_y and labels is not None and labels.dtype.kind in "OUS":
        try:
            labels.astype(np.float64)
        except ValueError as error:
            raise ValueError(
                f"{type(estimator).__name__} is a regressor and needs numbers as targets; got words ({error}). For "
                "labels use a classifier, such as CompactSVC."
            ) from None
    if y is not None:
        options |= {"multi_output": numeric_y, "y_numeric": numeric_y}
    inputs: Inputs | None = getattr(estimator, "_inputs", None)
    schema, table = None if inputs is None else inputs.schema, X
    is_new_frame = reset and is_frame(X) and not _is_matrix(estimator)
    if is_new_frame:
        schema, X = _learned_columns(estimator, X, labels, keep, numeric_y)
    elif schema is not None:
        X = _encoded(estimator, schema, X)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn looks for NaN by a sum, which may overflow
            if schema is not None:
                X, y = (check_array(X, **options), y) if y is None else check_X_y(X, y, **options)
            elif y is None:
                X = validate_data(estimator, X, reset=reset, **options)
            else:
                X, y = validate_data(estimator, X, y, reset=reset, **options)
    except ValueError as error:
        if "Input X contains NaN" in str(error):
            raise ValueError(
                f"{error}\nkompakt has no place for missing values: impute them first, for example with "
                f"make_pipeline(SimpleImputer(strategy='median'), {type(estimator).__name__}()) of scikit-learn."
            ) from None
        raise
    X = canonical(X)
    if is_new_frame:  # a scaler before the estimator takes no words: the features are standardised as they are made
        X = np.ascontiguousarray(X)
        inputs = estimator._inputs = Inputs.standardising(X, schema)
    if is_new_frame and schema is not None:
        estimator.schema_ = schema
        names = list(getattr(table, "column_names", None) or table.columns)
        set_features(estimator, len(schema.names), names if all(isinstance(name, str) for name in names) else None)
    if inputs is not None and standardise:
        X = inputs.transform(X)
    if y is not None or reset:  # rows to train on; rows to predict for may lie anywhere
        refuse_extremes(_largest(X), X.dtype, sparse.issparse(X))
    if reset and not sparse.issparse(X):
        _warn_of_spreads(estimator, X)
    if numeric_y and y is not None:
        refuse_extreme_targets(y)
    return X, y


def _learned_columns(
    estimator: Any, frame: Any, labels: Array | None, keep: Sequence[str] | None, numeric_y: bool
) -> tuple[TableSchema | None, Any]:
    """The schema of a data frame to train on, and the features of its rows; None and the frame if all are numbers."""
    schema = TableSchema.infer(frame, keep=keep or ())
    _warn_of_unused(estimator, schema)
    coded = _encoded(estimator, schema, frame)
    y = None
    if labels is not None and len(labels) == len(coded):  # else the check that follows says what is wrong
        y = labels.astype(np.float64) if numeric_y else labels
        y = y if y.dtype.kind != "f" or np.isfinite(y).all() else None
    learned, means = schema.learn(coded, y, classes=not numeric_y)
    plain = learned.is_plain and all(cells.dtype.kind in "fiu" for cells in columns_of(frame).values())
    return (None, frame) if plain else (learned, learned.finish(coded, means))


def _encoded(estimator: Any, schema: TableSchema, X: Any) -> Array:
    """The features of a data frame; what training did not have is told in a warning."""
    if not is_table(X) and schema.takes_numbers and getattr(X, "ndim", 0) == 2 and X.shape[1] == len(schema.names):
        warnings.warn(
            f"X does not have valid feature names, but {type(estimator).__name__} was fitted with feature names",
            UserWarning,
            stacklevel=5,
        )
        X = dict(zip(schema.names, np.asarray(X).T, strict=True))
    if not is_table(X):
        raise ValueError(
            f"this {type(estimator).__name__} was fitted to a data frame with words, dates or gaps, and encodes its "
            f"columns itself; expected a data frame with {', '.join(map(repr, schema.names[:10]))}, got "
            f"{type(X).__name__}."
        )
    features = schema.encode(X)
    strange = [f"{text} in {count:,} row(s)" for text, count in schema.counts.items()]
    if not hasattr(estimator, "_inputs"):  # levels of training that are seen once are "other" by intention
        strange = [text for text in strange if ": not a " in text]
    if strange:
        warnings.warn(f"{type(estimator).__name__}: column {'; column '.join(strange)}.", UserWarning, stacklevel=5)
    if not features.shape[1]:
        raise ValueError(f"no column of the data frame can be used: {schema.describe()}")
    return features


def _warn_of_unused(estimator: Any, schema: TableSchema) -> None:
    unused = [column for column in schema.columns if isinstance(column, Unused)]
    if unused:
        columns = ", ".join(f"{column.name!r} ({column.why})" for column in unused)
        identifiers = [column.name for column in unused if column.is_identifier]
        remedy = f" keep_columns={identifiers[:10]} keeps identifiers." if identifiers else ""
        text = f"{type(estimator).__name__} leaves out the column(s) {columns}.{remedy}"
        warnings.warn(text, UserWarning, stacklevel=5)


def _is_matrix(estimator: Any) -> bool:
    kernel = getattr(estimator, "kernel", None)
    return isinstance(kernel, str) and kernel == "precomputed"


#: ratio of the spreads of two features above which the one is lost in distances, and rows looked at to find it
_FAR_SPREADS, _SPREAD_ROWS = 1e3, 10_000


def _warn_of_spreads(estimator: Any, X: Array) -> None:
    """Warn where one feature outweighs another in every distance, and no width per feature was given."""
    if _is_matrix(estimator) or np.ndim(estimator.gamma) or estimator._may_scale:
        return
    sample = X[:: max(1, len(X) // _SPREAD_ROWS)].astype(np.float64)
    spread = sample.std(axis=0)
    varying = spread[spread > 1e-9 * np.abs(sample).max(axis=0)]
    if len(varying) > 1 and varying.max() > _FAR_SPREADS * varying.min():
        warnings.warn(
            f"the features differ in spread by a factor of {varying.max() / varying.min():.1e}, so the largest decide "
            f"alone. Scale them, for example with make_pipeline(StandardScaler(), {type(estimator).__name__}(...)).",
            UserWarning,
            stacklevel=5,
        )


def with_columns(estimator: Any, model: Model) -> Model:
    """A model with the names of its features."""
    schema = model.inputs.schema
    names = getattr(estimator, "feature_names_in_", None) if schema is None else schema.feature_names
    return model if names is None else replace(model, feature_names=np.asarray(names, dtype=str))


def checked_weights(sample_weight: Any, X: Any) -> Array:
    """Sample weights as float64 of sizes that can be computed with."""
    weights: Array = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    refuse_extreme_weights(float(weights.max(initial=0.0)))
    return weights


def refuse_extreme_weights(largest: float) -> None:
    """Sample weights whose products with C and squared targets would overflow or vanish."""
    if largest > LARGEST or 0.0 < largest < 1.0 / LARGEST:
        raise ValueError(
            f"the largest sample weight must lie between {1.0 / LARGEST:.0e} and {LARGEST:.0e}; got {largest:.1e}. "
            "Divide the weights by their mean: only C times the weight counts."
        )


def _largest(X: Any) -> float:
    """The largest absolute value of the entries."""
    values = X.data if sparse.issparse(X) else X
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))


def prepare(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    run: Run,
    *,
    task: Task,
    keep: Sequence[str] | None = None,
) -> tuple[Data, Kernel]:
    """Validate the arguments of `fit` and resolve kernel, targets and weights."""
    if isinstance(X, Source):
        return prepare_stream(estimator, X, y, sample_weight, run, task)
    if y is None and task.needs_targets:
        raise ValueError(
            f"requires y to be passed, but the target y is None: {type(estimator).__name__} needs targets."
        )
    X, y = check_rows(estimator, X, y, numeric_y=task.numeric, keep=keep)
    weights = None if sample_weight is None else checked_weights(sample_weight, X)
    kept = None
    square = X
    if weights is not None and np.any(weights == 0):
        kept = np.flatnonzero(weights > 0)
        if not len(kept):
            raise ValueError("sample_weight is zero for every row; expected at least one positive weight.")
        X, y, weights = X[kept], None if y is None else y[kept], weights[kept]
    if weights is not None and np.all(weights == 1.0):
        weights = None
    kernel = resolve_kernel(estimator, X, weights)
    if isinstance(kernel, Precomputed):
        if square.shape[0] != square.shape[1]:
            raise ValueError(
                f"kernel='precomputed' needs the square kernel matrix of the data rows; got shape {square.shape}."
            )
        if kept is not None and not estimator._drops_matrix_rows:
            raise ValueError(
                "zero sample weights are not possible with kernel='precomputed': drop those rows and columns."
            )
        kernel = Precomputed(square)
    offset = centre_of(X, weights) if kernel.shift_invariant and not sparse.issparse(X) else None
    targets = task.encode(y, weights, kept, square.shape[0])
    dtype = computing_dtype(X.dtype, len(targets.outputs))
    rows = ArrayRows(X, targets.outputs, targets.weights, offset, dtype=dtype)
    rows.numbers, rows.inputs = kept, getattr(estimator, "_inputs", None)
    return Data(rows, kept, square.shape[0], classes=targets.classes, labels=targets.labels, y=targets.y), kernel


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


#: values of `gamma` that mean widths or a map learned by the fit, starting from "scale"
LEARNED = ("learn", "ard", "full", "loo")


def resolve_kernel(estimator: BaseEstimator, X: Any, weights: Array | None, centre: Array | None = None) -> Kernel:
    """The kernel object for the parameters of an estimator; X is a matrix, or rows with their weights."""
    gamma = resolve_gamma(estimator.gamma, X, weights, estimator.kernel, centre, estimator._learned_widths)
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
        if gamma == "scale" or gamma in learned:
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
        remedy = " CompactSVC and CompactSVR learn widths." if gamma in LEARNED else ""
        raise ValueError(f"gamma must be {_gamma_choices(learned)}; got {gamma!r}.{remedy}")
    values = np.asarray(gamma, dtype=np.float64)
    if values.ndim == 1 and (kernel != "rbf" or len(values) != X.shape[1]):
        raise ValueError(
            f"one gamma per feature needs kernel='rbf' and {X.shape[1]} numbers; "
            f"got kernel={kernel!r} and {len(values)}."
        )
    if values.ndim > 1 or not np.all(np.isfinite(values)) or np.any(values <= 0):
        raise ValueError(f"gamma must be {_gamma_choices(learned)}; got {gamma!r}.")
    return values if values.ndim else float(values)


@dataclass(frozen=True)
class Facts:
    """What one task of the first pass says."""

    labels: Labels
    weight: float
    zeros: bool  # whether some weights are zero
    unit: bool  # whether all weights are one
    largest: float  # absolute value of the entries
    stored: int  # entries
    sums: tuple[Array, ...]  # for the centre


def _first_look(reader: RowReader, task: Task | None, first: int, raw: Raw) -> Facts:
    """Check the raw rows of a task, and look at them."""

    def place(row: int) -> str:
        number = first + row if reader.kept is None else int(reader.kept[first + row])
        return f"row {number}" if reader.source is None else reader.source.where(number)

    with naming_rows(place), np.errstate(over="ignore", invalid="ignore"):
        refuse_non_finite(raw.X)
    if raw.w is not None and raw.w.ndim != 1:
        raise ValueError(f"the weights must have one dimension, a number for each row; got {raw.w.ndim} dimensions.")
    for name, column in (("y", raw.y), ("the weights", raw.w)):
        if column is not None and (bad := missing(column)).any():
            fault = "NaN or infinity" if column.dtype.kind == "f" else "missing values (NaN)"
            raise ValueError(f"Input {name} contains {fault}, first in {place(int(np.argmax(bad)))}. Drop such rows.")
    w = np.ones(len(raw)) if raw.w is None else raw.w
    refuse_extreme_weights(max(1.0, float(w.max(initial=0.0))))  # a part may hold small weights only
    if np.any(w < 0):
        raise ValueError(f"weights must not be negative; got {w.min()}, first in {place(int(np.argmax(w < 0)))}.")
    is_sparse = sparse.issparse(raw.X)
    rows = ArrayRows(raw.X, weights=w)
    return Facts(
        NO_LABELS if task is None else task.look(raw, w),
        weight=float(w.sum()),
        zeros=bool(np.any(w == 0)),
        unit=bool(np.all(w == 1.0)),
        largest=_largest(raw.X),
        stored=int(raw.X.data.size if is_sparse else raw.X.size),
        sums=() if is_sparse else sum_blocks(centre_sums, MOMENT_ROWS, rows, (0, len(raw))),
    )


def first_pass(
    estimator: BaseEstimator,
    source: Source,
    y: Any,
    sample_weight: Any,
    run: Run,
    task: Task | None,
) -> tuple[StreamedRows, list[Facts]]:
    """Check all rows; the rows as they are, and what each piece of them says. Without a task targets do not count."""
    if y is not None or sample_weight is not None:
        raise ValueError(
            "targets and weights of streamed rows belong to the rows: expected fit(rows) with y=None and "
            "sample_weight=None. Name them in open_rows(..., target=..., weight=...)."
        )
    if task is not None and task.needs_targets and not source.n_targets:
        raise ValueError(f"requires y to be passed, but {source.name} has no target. Give open_rows(..., target=...).")
    if task is not None:
        task.refuse_targets(source.n_targets)
    set_features(estimator, source.n_features, source.feature_names)
    rows = StreamedRows(RowReader(source), passes=Passes(source.n_index_passes, run))
    facts = list(rows.scan(partial(_first_look, rows.reader, task), MOMENT_ROWS))
    if not sum(fact.weight for fact in facts):
        raise ValueError(f"the weights of {source.name} are zero for every row; expected a positive one.")
    refuse_extremes(max(fact.largest for fact in facts), source.dtype, source.is_sparse)
    return rows, facts


def prepare_stream(
    estimator: BaseEstimator, source: Source, y: Any, sample_weight: Any, run: Run, task: Task
) -> tuple[Data, Kernel]:
    """Validate a row source and resolve kernel, targets, weights, centre and scale."""
    rows, facts = first_pass(estimator, source, y, sample_weight, run, task)
    weighted = source.has_weight and not all(fact.unit for fact in facts)
    kept = None
    if any(fact.zeros for fact in facts):
        kept = np.concatenate(list(rows.scan(lambda first, raw: first + np.flatnonzero(np.asarray(raw.w) > 0))))
    plain = rows.with_reader(kept=kept, encode=ValueEncoder(weighted, targets=False))
    centre = None
    if not source.is_sparse:  # rows of weight zero change the order of sums
        centre = centre_from(*tree_sum(fact.sums for fact in facts)) if kept is None else centre_of(plain)
    if source.scale:
        plain, centre = _standardised(plain, centre)
    kernel = resolve_kernel(estimator, plain, None, centre)
    if isinstance(kernel, Precomputed):
        raise ValueError("kernel='precomputed' needs the whole kernel matrix, which cannot be streamed; pass arrays.")
    offset, dtype = None, computing_dtype(source.dtype, plain.n_rows)
    if kernel.shift_invariant and centre is not None and not source.scale:
        offset = centre.astype(dtype)
    weight = float(sum(fact.weight for fact in facts))
    targets = task.encode_stream([fact.labels for fact in facts], source.n_targets, weight, weighted=weighted)
    reader = replace(plain.reader, encode=targets.encode, offset=offset, dtype=dtype)
    data = Data(
        StreamedRows(
            reader,
            targets.n_outputs,
            targets.weight_columns,
            targets.mass if targets.weight_columns else None,
            rows.passes,
        ),
        kept,
        source.n_rows,
        classes=targets.classes,
        one_target=source.n_targets <= 1,
        stored=sum(fact.stored for fact in facts),
        mass_of=targets.class_mass,
    )
    return data, kernel


def _standardised(rows: StreamedRows, centre: Array | None) -> tuple[StreamedRows, Array | None]:
    """Rows with mean 0 and variance 1 per feature; sparse rows are scaled only.  One pass."""
    d = rows.n_features
    at = np.zeros(d) if centre is None else centre

    def powers(X: Any, w: Array) -> tuple[Array, ...]:
        if sparse.issparse(X):
            return np.asarray(X.T @ w).ravel(), np.asarray(X.multiply(X).T @ w).ravel()
        X = X - at
        return w @ X, w @ np.square(X)

    first, second, mass = rows.map_reduce(with_mass(powers), MOMENT_ROWS)
    mean = first / mass
    variance = np.maximum(0.0, second / mass - mean**2)
    # a feature whose spread is rounding only is constant: it is left in its own units, like StandardScaler does
    constant = variance <= (10 * np.finfo(np.float64).eps * np.maximum(np.abs(at + mean), 1e-300)) ** 2 * d
    scale = np.where(constant, 1.0, np.sqrt(variance))
    if rows.is_sparse:
        return rows.with_reader(inputs=Inputs(scale=scale)), None
    return rows.with_reader(inputs=Inputs(shift=at + mean, scale=scale)), np.zeros(d)


def set_features(estimator: BaseEstimator, n_features: int, names: Sequence[str] | None) -> None:
    """The attributes that scikit-learn's validation would set."""
    estimator.n_features_in_ = n_features
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


logger = logging.getLogger("kompakt")

#: rows of a sample at most: refinement and searches gain nothing from more.  Up to twice as many rows are all taken
#: where they fit the memory: a sample of more than half saves little, and costs the identity with rows in memory.
SAMPLE_ROWS = 250_000
#: rows of a class that a sample takes, if there are so many, however rare the class is
_LEAST_OF_A_CLASS = 200


def _share(n_rows: int, fitting: float) -> float:
    """Share of the rows to take into memory, where `fitting` of them fit; 1 takes all."""
    if n_rows <= min(fitting, 2 * SAMPLE_ROWS):
        return 1.0
    return min(1.0, int(np.clip(fitting, 1000, SAMPLE_ROWS)) / n_rows)


def in_memory(data: Data, n_basis: int | None, run: Run) -> Data:
    """The data itself, or, where it is streamed, on rows in memory: all, or a sample weighted to stand for all.

    A sample fits the memory with its kernel values and features, of 1,000 vectors where `n_basis` is open.  Its rows
    are chosen by hash of their number, rare classes more often, so it does not depend on blocks or partitions.  Where
    all rows fit, nothing is weighted and the fit is that of rows in memory, bit for bit.
    """
    rows = data.rows
    if not isinstance(rows, StreamedRows):
        return data
    m, n = 1000 if n_basis is None else n_basis, rows.n_rows
    entries = data.stored / max(1, n) * (1.5 if rows.is_sparse else 1.0)
    share = _share(n, run.budget / (12 * entries + 16 * m + 64 * rows.n_outputs))
    if share == 1.0:
        sample = rows.everything()
        labels = _labels_of(rows, sample)
    else:
        of_class = None
        if data.mass_of is not None:
            rows_of = data.mass_of / data.mass_of.sum() * n
            of_class = np.minimum(1.0, np.maximum(share, _LEAST_OF_A_CLASS / np.maximum(1.0, rows_of)))
        encode = rows.reader.encode

        def chance(raw: Raw) -> Array:
            if of_class is None or not isinstance(encode, ClassEncoder):
                return np.full(len(raw), share)
            return np.asarray(of_class[encode.labels(raw)])

        sample = copy.copy(rows.sample(chance, run.key))  # the rows remember what they gave
        logger.info("the search sees a sample of %d of %d rows", sample.n_rows, n)
        labels = _labels_of(rows, sample)
        stands_for = np.full(sample.n_rows, n / sample.n_rows) if of_class is None else 1.0 / of_class[labels]
        sample.weights = stands_for if sample.weights is None else (sample.weights.T * stands_for).T
    numbers, sample.numbers = sample.numbers, None
    y = None
    if labels is None:
        assert sample.targets is not None
        y = sample.targets[:, 0] if data.single else sample.targets
    all_rows = sample.n_rows == n
    kept = data.kept if all_rows else numbers if data.kept is None else data.kept[numbers]
    return replace(data, rows=sample, kept=kept, labels=labels, y=y, origin=data, whole=all_rows)


def by_content(data: Data, count: int, run: Run) -> Data:
    """Streamed rows whose content has one of the `count` smallest hashes, in memory: what arrays of them would give."""
    rows = data.rows
    assert isinstance(rows, StreamedRows)
    sample = data.subset(rows.smallest(run.key, count, repeated=True))
    return replace(sample, labels=_labels_of(rows, sample.in_memory))


def _labels_of(rows: StreamedRows, sample: ArrayRows) -> Array | None:
    """Class numbers of some of the rows in memory; None where there are no classes."""
    encode = rows.reader.encode
    return encode.labels(Raw(sample.X, sample.y)) if isinstance(encode, ClassEncoder) else None


def labelled_rows(data: Data) -> StreamedRows:
    """Streamed rows whose targets are the class numbers, with their own weights."""
    rows = data.rows
    assert isinstance(rows, StreamedRows)
    encode = rows.reader.encode
    assert isinstance(encode, ClassEncoder)
    reader = replace(rows.reader, encode=replace(encode, coding=None, factors=None))
    return StreamedRows(reader, 1, int(encode.weighted), passes=rows.passes)


# -- estimators that train on a sample and nothing else -----------------------------------------------------


def fit_on_sample(
    estimator: BaseEstimator,
    source: Source,
    y: Any,
    sample_weight: Any,
    run: Run,
    task: Task | None,
) -> None:
    """Fit an estimator that needs its rows in memory on a sample of streamed rows, as they are and unweighted by it.

    The estimator has a method `_fit(X, y, sample_weight, run)` for rows in memory. Row numbers among the fitted
    attributes are those of the source.
    """
    if source.scale:
        raise ValueError(
            f"scale=True of open_rows is not possible with {type(estimator).__name__}, which keeps no scaling. "
            "Standardise the rows before, or put a StandardScaler into its estimator."
        )
    rows, facts = first_pass(estimator, source, y, sample_weight, run, task)
    if isinstance(task, Classes):
        task.classes_of([fact.labels for fact in facts])
    entries = sum(fact.stored for fact in facts) / source.n_rows * (1.5 if source.is_sparse else 1.0)
    share = _share(source.n_rows, run.budget / (24 * max(entries, 1.0)))
    if share == 1.0:
        sample = rows.everything()
    else:
        key = np.random.RandomState(0).randint(2**31 - 1)
        sample = rows.sample(lambda raw: np.full(len(raw), share), key)
        logger.info("%s trains on a sample of %d of %d rows", type(estimator).__name__, sample.n_rows, source.n_rows)
    numbers = sample.numbers
    assert numbers is not None
    estimator._fit(sample.X, None if task is None else sample.y, sample.w, run)
    set_features(estimator, source.n_features, source.feature_names)
    estimator.n_passes_ = rows.passes.count
    for name in ("training_indices_", "support_", "initial_support_", "basis_indices_"):
        row_numbers = getattr(estimator, name, None)
        if row_numbers is not None:
            setattr(estimator, name, numbers[row_numbers])
