"""What a machine is trained for: classes, numbers, or what is normal. One object says what targets may be and become.

A task is made by an estimator from its parameters.  It checks targets and turns them into the outputs that solvers see;
of streamed rows too, in a first pass that looks at them and in every pass after it.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from kompakt.codings import get_coding
from kompakt.data import Raw, tree_sum
from kompakt.data.rows import MOMENT_ROWS, task_bounds

Array = np.ndarray

#: largest C, sample weight and target, and one over the smallest C and weight: products and squares of them must stay
#: inside the range of float64
LARGEST = 1e50


#: more labels than this are no classes
_MOST_CLASSES = 10_000


@dataclass(frozen=True)
class Targets:
    """What the targets of rows in memory became."""

    outputs: Array  # (n, L)
    weights: Array | None
    classes: Array | None = None
    labels: Array | None = None  # class index per row
    y: Array | None = None  # numbers as given, (n,) or (n, L)


@dataclass(frozen=True)
class StreamedTargets:
    """What the targets of streamed rows become, pass by pass."""

    encode: Any  # raw rows -> outputs and weights
    n_outputs: int
    weight_columns: int
    mass: float
    classes: Array | None = None
    class_mass: Array | None = None


@dataclass(frozen=True)
class Labels:
    """Distinct labels of some rows, and their weights; empty where targets are numbers."""

    labels: Array
    mass: Array


class Task(ABC):
    """What targets mean."""

    kind: ClassVar[str]  # as in `Model.kind`
    numeric: ClassVar[bool]  # whether targets are numbers
    needs_targets: ClassVar[bool] = True

    @abstractmethod
    def encode(self, y: Array | None, weights: Array | None, kept: Array | None, n_rows: int) -> Targets:
        """Targets of rows in memory; `kept` are their numbers among `n_rows` where some were left out."""

    @abstractmethod
    def look(self, raw: Raw, weights: Array) -> Labels:
        """Check the targets of some raw rows, and look at them."""

    @abstractmethod
    def encode_stream(
        self, looks: Sequence[Labels], n_targets: int, weight: float, *, weighted: bool
    ) -> StreamedTargets:
        """What targets become in every pass, from what the first one saw; `weight` is that of all rows."""

    def refuse_targets(self, n_targets: int) -> None:
        """Raise for more columns of targets than the task has a use for."""
        return


@dataclass(frozen=True)
class Classes(Task):
    """Labels of classes.

    Parameters
    ----------
    coding : str or Coding
        How classes become outputs.
    class_weight : dict or "balanced", optional

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.train.task import Classes
    >>> targets = Classes("one_vs_rest").encode(np.array(["no", "yes", "no"]), None, None, 3)
    >>> targets.classes.tolist(), targets.outputs.ravel().tolist()
    (['no', 'yes'], [-1.0, 1.0, -1.0])
    """

    coding: Any = "one_vs_rest"
    class_weight: Any = None
    kind: ClassVar[str] = "classifier"
    numeric: ClassVar[bool] = False

    def encode(self, y: Array | None, weights: Array | None, kept: Array | None, n_rows: int) -> Targets:
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        classes, labels = np.unique(y, return_inverse=True)
        refuse_one_class(classes)
        factors = class_factors(self.class_weight, classes, class_mass(labels, weights, kept, n_rows))
        outputs, weights = ClassEncoder(classes, self.coding, factors).targets(labels, weights)
        return Targets(outputs, weights, classes, labels)

    def look(self, raw: Raw, weights: Array) -> Labels:
        assert raw.y is not None
        counted = weights > 0
        labels, number = np.unique(raw.y[counted], return_inverse=True)
        return Labels(labels, np.bincount(number.ravel(), weights=weights[counted], minlength=len(labels)))

    def encode_stream(
        self, looks: Sequence[Labels], n_targets: int, weight: float, *, weighted: bool
    ) -> StreamedTargets:
        classes, mass = self.classes_of(looks)
        encode = ClassEncoder(classes, self.coding, class_factors(self.class_weight, classes, mass), weighted)
        return StreamedTargets(encode, encode.codes.shape[1], *encode.total(mass), classes, mass)

    def classes_of(self, looks: Sequence[Labels]) -> tuple[Array, Array]:
        """The labels that the first pass found, sorted, and their weights."""
        classes = np.unique(np.concatenate([look.labels for look in looks]))
        check_classification_targets(classes)
        refuse_one_class(classes)
        if len(classes) > _MOST_CLASSES:
            raise ValueError(
                f"the target has {len(classes)} different values; expected classes. Use a regressor for numeric "
                "targets."
            )

        def spread(look: Labels) -> Array:
            mass = np.zeros(len(classes))
            mass[np.searchsorted(classes, look.labels)] = look.mass
            return mass

        return classes, tree_sum((spread(look),) for look in looks)[0]

    def refuse_targets(self, n_targets: int) -> None:
        if n_targets > 1:
            raise ValueError(f"a classifier needs one target; got {n_targets} columns.")


@dataclass(frozen=True)
class Numbers(Task):
    """Numbers, in one or several columns.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.train.task import Numbers
    >>> Numbers().encode(np.array([1, 2]), None, None, 2).outputs
    array([[1.],
           [2.]])
    """

    kind: ClassVar[str] = "regressor"
    numeric: ClassVar[bool] = True

    def encode(self, y: Array | None, weights: Array | None, kept: Array | None, n_rows: int) -> Targets:
        y = np.asarray(y, dtype=np.float64)
        return Targets(y.reshape(len(y), -1), weights, y=y)

    def look(self, raw: Raw, weights: Array) -> Labels:
        assert raw.y is not None
        if raw.y.dtype.kind not in "fiub":
            raise ValueError(
                f"a regressor needs numbers as targets; got {raw.y.dtype}, for example {raw.y.flat[0]!r}. Use a "
                "classifier."
            )
        refuse_extreme_targets(raw.y)
        return NO_LABELS

    def encode_stream(
        self, looks: Sequence[Labels], n_targets: int, weight: float, *, weighted: bool
    ) -> StreamedTargets:
        return StreamedTargets(ValueEncoder(weighted), n_targets, int(weighted), weight)


NO_LABELS = Labels(np.empty(0), np.empty(0))


@dataclass(frozen=True)
class Novelty(Task):
    """Rows that are normal, and perhaps a few that are marked as outliers by the target -1.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.train.task import Novelty
    >>> Novelty().encode(None, None, None, 2).outputs.tolist()
    [[1.0], [1.0]]
    >>> Novelty().encode(np.array([1, -1]), None, None, 2).outputs.tolist()
    [[1.0], [-1.0]]
    """

    kind: ClassVar[str] = "outlier"
    numeric: ClassVar[bool] = False
    needs_targets: ClassVar[bool] = False

    def encode(self, y: Array | None, weights: Array | None, kept: Array | None, n_rows: int) -> Targets:
        if y is not None and not np.any(y == -1):
            if np.any(y != 1):  # scikit-learn hands any y to an outlier detector, which ignores it
                warnings.warn(
                    f"the targets y mark no row as an outlier: expected 1 for normal rows and -1 for outliers, got "
                    f"{np.unique(y)[:5].tolist()}. They are ignored: all rows count as normal.",
                    UserWarning,
                    stacklevel=4,
                )
            y = None
        return Targets(_sides(y, n_rows if kept is None else len(kept)), weights)

    def look(self, raw: Raw, weights: Array) -> Labels:
        _sides(raw.y, len(raw))
        return NO_LABELS

    def encode_stream(
        self, looks: Sequence[Labels], n_targets: int, weight: float, *, weighted: bool
    ) -> StreamedTargets:
        return StreamedTargets(SideEncoder(weighted), 1, int(weighted), weight)

    def refuse_targets(self, n_targets: int) -> None:
        if n_targets > 1:
            raise ValueError(f"an outlier detector needs at most one target; got {n_targets} columns.")


def _sides(y: Array | None, n_rows: int) -> Array:
    """1 for normal rows and -1 for outliers, (n, 1)."""
    if y is None:
        return np.ones((n_rows, 1))
    strange = (y != 1) & (y != -1)
    if np.any(strange):
        raise ValueError(
            f"targets of an outlier detector are 1 for normal rows and -1 for outliers; got "
            f"{np.unique(np.asarray(y)[strange])[:5].tolist()} besides. Leave y out if no row is marked."
        )
    return np.where(np.reshape(y, (n_rows, 1)) == 1, 1.0, -1.0)


def refuse_extreme_targets(y: Any) -> None:
    """Regression targets whose squares, times C, would overflow."""
    largest = float(np.max(np.abs(np.asarray(y, dtype=np.float64)), initial=0.0))
    if largest > LARGEST:
        raise ValueError(
            f"the targets y are too large to be squared: the largest is {largest:.1e}, expected at most {LARGEST:.0e}. "
            "Scale them, for example with TransformedTargetRegressor(regressor, transformer=StandardScaler())."
        )


def refuse_one_class(classes: Array) -> None:
    """Labels that are all the same."""
    if len(classes) < 2:
        raise ValueError(
            f"The number of classes has to be greater than one; got {len(classes)} class: {classes[:1]}. "
            "Give rows of at least two classes (with positive weight)."
        )


def class_mass(labels: Array, weights: Array | None, kept: Array | None, n_rows: int) -> Array:
    """Weight of every class; `kept` are the numbers of the rows among `n_rows` where some were left out.

    Summed by the tasks and the tree of a first pass over streamed rows, so that both give the same bits.
    """
    numbers = np.arange(n_rows) if kept is None else kept
    tasks = [slice(*pair) for pair in np.searchsorted(numbers, task_bounds(n_rows, MOMENT_ROWS))]
    w, n_classes = np.ones(len(labels)) if weights is None else weights, int(labels.max()) + 1
    return tree_sum((np.bincount(labels[task], w[task], n_classes),) for task in tasks)[0]


def class_factors(class_weight: Any, classes: Array, mass: Array) -> Array | None:
    """Factor of every class, or None; "balanced" counts sample weights, so that weight 2 equals a row given twice.

    `mass` is the weight of every class.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(mass.sum() / (len(classes) * mass))
    if not isinstance(class_weight, dict):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict of label: weight; got {class_weight!r}.")
    labels = list(classes)
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        raise ValueError(f"class_weight must name labels of y, which are {labels}; got {unknown} besides.")
    factors = np.array([float(class_weight.get(label, 1.0)) for label in labels])
    if np.any(~np.isfinite(factors)) or np.any(factors <= 0) or np.any(factors > LARGEST):
        raise ValueError(
            f"class weights must be positive and at most {LARGEST:.0e}; got {class_weight!r}. Leave a class out of y "
            "to ignore it."
        )
    return factors


@dataclass(frozen=True)
class ClassEncoder:
    """Targets and weights of classes from raw rows.

    Parameters
    ----------
    classes : ndarray
    coding : str or Coding, optional
        None gives the class numbers as targets.
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
    def codes(self) -> Array:
        """Targets of every class, (n_classes, L); 0 where a class takes no part in an output (one-vs-one)."""
        return get_coding(self.coding).encode(np.arange(len(self.classes)), len(self.classes))

    def targets(self, labels: Array, weights: Array | None) -> tuple[Array, Array | None]:
        """Targets (n, L) and weights, (n, L) where some classes take no part in some outputs."""
        if self.factors is not None:
            weights = self.factors[labels] if weights is None else weights * self.factors[labels]
        codes = self.codes
        targets = codes[labels]
        if np.any(codes == 0):
            weights = (targets != 0) * (1.0 if weights is None else weights[:, None])
        return targets, weights

    def __call__(self, raw: Raw) -> tuple[Array, Array | None]:
        labels, weights = self.labels(raw), raw.w if self.weighted else None
        return (labels.astype(np.float64)[:, None], weights) if self.coding is None else self.targets(labels, weights)

    def total(self, mass: Array) -> tuple[int, float]:
        """Columns of the weights, and their sum over all rows, from the mass of every class."""
        mass, codes = mass if self.factors is None else mass * self.factors, self.codes
        if np.any(codes == 0):
            return codes.shape[1], float(np.sum(mass * np.count_nonzero(codes, axis=1)))
        return int(self.weighted or self.factors is not None), float(mass.sum())


@dataclass(frozen=True)
class SideEncoder:
    """Sides (normal or outlier) and weights from raw rows."""

    weighted: bool = False

    def __call__(self, raw: Raw) -> tuple[Array, Array | None]:
        return _sides(raw.y, len(raw)), raw.w if self.weighted else None


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
