"""From a user's X, y and weights to rows, targets and a kernel: everything that `fit` resolves before computing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from kompakt.codings import get_coding
from kompakt.kernels import Kernel, Precomputed, make_kernel
from kompakt.rows import ArrayRows, Source, centre_of, steady, total_variance, tree_sum
from kompakt.rows.base import task_bounds
from kompakt.rows.checks import missing
from kompakt.rows.moments import MOMENT_ROWS
from kompakt.validate import resolve_splits

Array = np.ndarray


@dataclass(frozen=True)
class Training:
    """What a fit works on: rows of positive weight, their targets, and the resolved kernel.

    Streamed rows have neither `labels` nor `y`; a sample of them (`kompakt.estimators.stream.sampled`) has both, and
    knows the training it came from.
    """

    rows: ArrayRows
    kernel: Kernel
    kept: Array | None  # numbers of the user's rows that have positive weight; None when all have
    classes: Array | None = None
    labels: Array | None = None  # class index per row
    y: Array | None = None  # regression targets as given, (n,) or (n, L)
    key: int = 0  # seed of the keyed hash
    one_target: bool | None = None  # whether the regression target is one column, of streamed rows
    stored: int = 0  # entries of X, of streamed rows
    mass_of: Array | None = None  # weight of every class, of streamed rows
    origin: Training | None = None  # of a sample: the training on all rows
    whole: bool = True  # of a sample: whether it is all rows

    @property
    def streamed(self) -> bool:
        """Whether the rows are read anew in every pass."""
        return self.rows.streamed

    @property
    def single(self) -> bool:
        """Whether predictions are (n,)."""
        return self.y is None or self.y.ndim == 1 if self.one_target is None else self.one_target

    def original(self, indices: Array | None) -> Array | None:
        """Row numbers in the user's X."""
        return indices if indices is None or self.kept is None else self.kept[indices]


def splits_of(training: Training, cv: Any, *, classifier: bool, random_state: Any) -> list[tuple[Array, Array]]:
    """The user's `cv` as splits of the kept rows; splits given as row numbers of X lose the rows of weight zero."""
    kept = training.kept
    if kept is not None and not isinstance(cv, Integral) and not hasattr(cv, "split"):
        cv = [tuple(_among(kept, part) for part in pair) for pair in cv]
    y = training.labels if training.labels is not None else training.y
    assert y is not None
    return resolve_splits(cv, y, classifier=classifier, random_state=random_state, X=training.rows.X)


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
            refuse_missing(y)
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


def refuse_missing(y: Any) -> None:
    """None among the targets: scikit-learn lets it through, as NaN for numbers and as a label for classes."""
    values = np.asarray(y, dtype=object) if not hasattr(y, "dtype") else np.asarray(y)
    if values.dtype == object:
        missing = np.flatnonzero([value is None for value in values.ravel()])
        if len(missing):
            raise ValueError(
                f"y contains None, {len(missing)} times, first at position {missing[0]}; expected a target for every "
                "row. Drop the rows without one."
            )


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


def prepare(estimator: Any, X: Any, y: Any, sample_weight: Any, *, classifier: bool) -> Training:
    """Validate the arguments of `fit` and resolve kernel, targets and weights."""
    if isinstance(X, Source):
        from kompakt.estimators.stream import prepare_stream

        return prepare_stream(estimator, X, y, sample_weight, classifier=classifier)
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
                f"kernel='precomputed' needs the square kernel matrix of the training rows; got shape {square.shape}."
            )
        if kept is not None and not getattr(estimator, "_drops_matrix_rows", False):
            raise ValueError(
                "zero sample weights are not possible with kernel='precomputed': drop those rows and columns."
            )
        kernel = Precomputed(square)
    offset = centre_of(X, weights) if kernel.shift_invariant and not sparse.issparse(X) else None
    key = int(check_random_state(estimator.random_state).randint(2**31 - 1))
    if classifier:
        return _with_classes(estimator, X, y, weights, kernel, kept, offset, key, square.shape[0])
    targets = np.asarray(y, dtype=np.float64)
    rows = ArrayRows(X, targets.reshape(len(targets), -1), weights, offset)
    rows.numbers = kept
    return Training(rows, kernel, kept, y=targets, key=key)


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
    kernel: Kernel,
    kept: Array | None,
    offset: Array | None,
    key: int,
    n_rows: int,
) -> Training:
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
    return Training(rows, kernel, kept, classes=classes, labels=labels, key=key)


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


#: words for widths that a fit learns, starting from "scale"
LEARNED = ("learn", "ard", "loo")


def resolve_kernel(estimator: Any, X: Any, weights: Array | None, centre: Array | None = None) -> Kernel:
    """The kernel object for the constructor's words; X is a matrix, or rows with their weights."""
    words = getattr(estimator, "_learned_widths", LEARNED[:2]) if hasattr(estimator, "refine") else ()
    if isinstance(estimator.gamma, str) and estimator.gamma in LEARNED and estimator.gamma not in words:
        raise ValueError(
            f"gamma must be {_gamma_choices(words)}; got {estimator.gamma!r}, which "
            f"{type(estimator).__name__} cannot learn. CompactSVC and CompactSVR can."
        )
    gamma = resolve_gamma(estimator.gamma, X, weights, getattr(estimator, "kernel", "rbf"), centre, words)
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
_COUNTS = {"max_iter": 1, "refine_iter": 1, "n_candidates": 1, "degree": 1}


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def check_parameters(estimator: Any) -> None:
    """Ranges of the parameters that all estimators share; names that an estimator lacks are passed over."""
    parameters: dict[str, Any] = estimator.get_params(deep=False)
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
    for name, least in _COUNTS.items():
        value = parameters.get(name, least)
        if name == "n_candidates" and value is None:
            continue
        if not _is_count(value, least):
            raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}.")
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
