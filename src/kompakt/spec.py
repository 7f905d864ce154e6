"""What a fit works on (`Data`), what it minimises (`Spec`), and the basis vectors it found (`Basis`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from kompakt.codings import get_coding
from kompakt.data import ArrayRows, Rows
from kompakt.kernels import Kernel
from kompakt.losses import Loss, SquaredHinge
from kompakt.run import Run

Array = np.ndarray


@dataclass(frozen=True)
class Data:
    """What validation made of the user's X, y and weights: rows of positive weight with their targets.

    Streamed rows have neither `labels` nor `y`; a sample of them has both, and knows the data it came from.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.spec import Data
    >>> Data(ArrayRows(np.eye(3))).classifier
    False
    """

    rows: Rows
    kept: Array | None = None  # numbers of the user's rows that have positive weight; None when all have
    n_given: int = 0  # rows of the user's X, with those of weight zero
    classes: Array | None = None
    labels: Array | None = None  # class index per row
    y: Array | None = None  # regression targets as given, (n,) or (n, L)
    one_target: bool | None = None  # whether the regression target is one column, of streamed rows
    stored: int = 0  # entries of X, of streamed rows
    mass_of: Array | None = None  # weight of every class, of streamed rows
    origin: Data | None = None  # of a sample: the data it was taken from
    whole: bool = True  # of a sample: whether it is all rows

    @property
    def in_memory(self) -> ArrayRows:
        """The rows, where they are in memory: for parts that read them as arrays."""
        assert isinstance(self.rows, ArrayRows), "this part needs its rows in memory"
        return self.rows

    @property
    def classifier(self) -> bool:
        """Whether the targets are classes."""
        return self.classes is not None

    @property
    def n_classes(self) -> int:
        """Number of classes, 0 in regression."""
        return 0 if self.classes is None else len(self.classes)

    @property
    def targets(self) -> Array:
        """Targets of rows in memory, (n, L)."""
        assert self.in_memory.targets is not None
        return self.in_memory.targets

    @property
    def row_weights(self) -> Array | None:
        """One weight per row, also where some rows take no part in some outputs (one-vs-one)."""
        weights = self.rows.weights
        return weights if weights is None or weights.ndim == 1 else weights.max(axis=1)

    @property
    def single(self) -> bool:
        """Whether predictions are (n,)."""
        return self.y is None or self.y.ndim == 1 if self.one_target is None else self.one_target

    @property
    def source(self) -> Rows:
        """The rows as they came: of a sample, those it was taken from, also where it is all of them."""
        return self.rows if self.origin is None else self.origin.rows

    @property
    def everything(self) -> Data:
        """All rows: of a sample, the data it was taken from."""
        return self if self.origin is None or self.whole else self.origin

    def original(self, indices: Array | None) -> Array | None:
        """Row numbers in the user's X."""
        return indices if indices is None or self.kept is None else self.kept[indices]

    def subset(self, index: Array) -> Data:
        """Some of the rows, with their labels and targets."""
        return Data(
            self.rows.subset(index),
            classes=self.classes,
            labels=None if self.labels is None else self.labels[index],
            y=None if self.y is None else self.y[index],
        )


@dataclass(frozen=True)
class Spec:
    """What is minimised: 1/2 beta' K beta + C sum_i s_i loss_i, and how outputs become classes."""

    kernel: Kernel
    loss: Loss = field(default_factory=SquaredHinge)
    C: float = 1.0
    fit_intercept: bool = True
    penalize_intercept: bool = False
    coding: str = "one_vs_rest"
    n_classes: int = 0

    def decode(self, outputs: Array) -> Array:
        """Class indices of outputs, or of targets."""
        return get_coding(self.coding).decode(outputs, self.n_classes)


@dataclass(frozen=True)
class Basis:
    """Basis vectors and how they were found.

    Attributes
    ----------
    indices : ndarray of shape (m,) or None
        Row numbers of the vectors in the rows they came from; None when they are no rows of it.
    vectors : ndarray of shape (m, d)
        In the coordinates of the rows' blocks (centred if they are).
    scores : ndarray of shape (m,) or None
        The selector's score of each vector; its meaning is the selector's.
    factor : ndarray or None
        A factor of the kernel matrix of the vectors where the selector has one for free.
    info : dict
        What happened: counts, criterion values, flags.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.spec import Basis
    >>> Basis(np.array([4, 1]), np.eye(2)).n_basis
    2
    """

    indices: Array | None
    vectors: Array
    scores: Array | None = None
    factor: Array | None = None
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def n_basis(self) -> int:
        """Number of vectors m."""
        return len(self.vectors)

    @property
    def n_kernel_evals(self) -> int:
        """Kernel values that finding them took."""
        return int(self.info.get("n_kernel_evals", 0))

    def take(self, index: Array) -> Basis:
        """Some of the vectors, in this order."""
        return Basis(None if self.indices is None else self.indices[index], self.vectors[index], info=self.info)


class Selector(Protocol):
    """Who chooses basis vectors. `streams` says that it reads rows by passes, in bounded memory."""

    def select(self, data: Data, spec: Spec, n_basis: int, run: Run) -> Basis:
        """At most `n_basis` vectors for these rows and this objective."""
