"""The frozen result of every method in kompakt: it decides and predicts, and knows nothing of how it was trained.

f(x) = sum_j weights_j k(x', basis_j) + intercept,   x' = (x - input_shift) / input_scale
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.codings import get_coding
from kompakt.data import ArrayRows
from kompakt.data.checks import refuse_non_finite
from kompakt.kernels import Kernel
from kompakt.parallel import block_threads

Array = np.ndarray

KINDS = ("classifier", "regressor", "outlier")
#: kernel values or outputs that a block of rows has at most, where rows are not much wider than that
_BLOCK_VALUES = 1 << 21


@dataclass(frozen=True, eq=False)
class Model:
    """A trained machine with m basis vectors and L outputs.

    Parameters
    ----------
    kernel : Kernel
    basis : ndarray of shape (m, d)
        Basis vectors as the kernel sees them (after input shift and scale); column numbers for a precomputed kernel.
    weights : ndarray of shape (m, L)
    intercept : ndarray of shape (L,)
    kind : {"classifier", "regressor", "outlier"}
    n_features : int
    classes : ndarray, optional
        Labels in the order of the scores (classifier).
    coding : str, optional
        How L outputs become scores of the classes.
    input_shift, input_scale, input_fill : ndarray of shape (d,), optional
        Standardisation and imputation stored with the machine: `input_fill` replaces NaN before anything else, in the
        units of the input, so a model with it predicts rows with missing values.
    offset : ndarray of shape (d,), optional
        Numerical centre: subtracted from rows and basis alike before distances are formed.
    feature_names : ndarray of str, optional
    calibration : dict, optional
        Arrays ``a`` and ``b`` (L,): probability = 1 / (1 + exp(a f + b)).
    squeeze : bool
        Whether a single regression output is returned as (n,).
    meta : dict
        Plain facts about the training (strings and numbers).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt import Model
    >>> from kompakt.kernels import Linear
    >>> model = Model(Linear(), np.ones((1, 1)), np.array([[2.0]]), np.zeros(1), "regressor", n_features=1)
    >>> model.predict(np.array([[3.0]]))
    array([6.])
    """

    kernel: Kernel
    basis: Array
    weights: Array
    intercept: Array
    kind: str
    n_features: int
    classes: Array | None = None
    coding: str | None = None
    input_shift: Array | None = None
    input_scale: Array | None = None
    input_fill: Array | None = None
    offset: Array | None = None
    feature_names: Array | None = None
    calibration: dict[str, Array] | None = None
    squeeze: bool = True
    meta: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        m, L = self.weights.shape
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}; got {self.kind!r}.")
        if len(self.basis) != m or self.intercept.shape != (L,):
            raise ValueError(
                f"basis, weights and intercept do not fit: {len(self.basis)} vectors, weights {self.weights.shape}, "
                f"intercept {self.intercept.shape}; expected (m, d), (m, L), (L,)."
            )
        if (self.kind == "classifier") != (self.classes is not None):
            raise ValueError("a classifier needs classes, and only a classifier has them.")

    def __repr__(self) -> str:
        """One line without the arrays, whatever their size."""
        facts = [self.kind, str(self.kernel), f"{self.n_basis_:,} vectors", f"{self.n_features:,} features"]
        if self.classes is not None:
            shown = [str(label)[:30] for label in self.classes[:5]]
            labels = [one if one.isprintable() else ascii(one) for one in shown] + ["..."] * (len(self.classes) > 5)
            facts.append(f"{len(self.classes):,} classes ({', '.join(labels)})")
        elif self.weights.shape[1] != 1:
            facts.append(f"{self.weights.shape[1]:,} outputs")
        if self.input_fill is not None:
            facts.append("fills missing values")
        if self.input_shift is not None or self.input_scale is not None:
            facts.append("scales its inputs")
        if self.calibration is not None:
            facts.append("calibrated")
        return f"<Model: {', '.join(facts)}>"

    # -- what a user asks of it ----------------------------------------------------------------------

    @property
    def classes_(self) -> Array:
        """Labels in the order of the scores."""
        if self.classes is None:
            raise AttributeError(f"a {self.kind} has no classes.")
        return self.classes

    @property
    def n_basis_(self) -> int:
        """Number of basis vectors."""
        return len(self.basis)

    @property
    def basis_vectors_(self) -> Array | None:
        """Basis vectors in the units of the input; None for a precomputed kernel."""
        if self.kernel.name == "precomputed":
            return None
        basis = self.basis
        if self.input_scale is not None:
            basis = basis * self.input_scale
        return basis if self.input_shift is None else basis + self.input_shift

    def outputs(self, X: Any) -> Array:
        """Raw outputs f(x), (n, L)."""
        return self.collect(X, lambda F: F)

    def collect(self, X: Any, finish: Callable[[Array], Array]) -> Array:
        """`finish(F)` of the raw outputs F (rows, L) of all rows, block by block: nothing else is held of all rows.

        `finish` gives one entry per row, and the entry of a row depends on its own outputs only.
        """
        X = self._checked(X)
        n, (m, L) = X.shape[0], self.weights.shape
        if n * m <= 1 << 15:  # too little work to wake threads for
            return finish(self._block_outputs(X, 0))
        entry = finish(np.zeros((1, L)))
        block_rows = min(1024, max(16, _BLOCK_VALUES // max(m, L)))
        out = np.empty((n, *entry.shape[1:]), entry.dtype)
        return ArrayRows(X).collect(lambda block: finish(self._block_outputs(block.X, block.start)), block_rows, out)

    def _block_outputs(self, X: Any, first: int) -> Array:
        """Raw outputs of checked rows, the first of them being number `first`."""
        X = self._prepared(X, first)
        Z, dtype = self.basis, np.dtype(np.float64)  # distances of sparse rows are formed in float64
        if not sparse.issparse(X):
            dtype = np.result_type(X.dtype, np.float32)
            if self.offset is not None:
                offset = self.offset.astype(X.dtype, copy=False)
                X, Z = X - offset, Z - offset
        return np.asarray(self.kernel.block(X, Z) @ self.weights.astype(dtype, copy=False) + self.intercept)

    def decision_function(self, X: Any) -> Array:
        """Decision values: (n,) for two classes and outliers, (n, n_classes) in the order of `classes_`."""
        with block_threads():
            return self.collect(X, self.scores)

    def scores(self, F: Array) -> Array:
        """Decision values from raw outputs."""
        if self.kind == "classifier":
            assert self.classes is not None
            if len(self.classes) == 1:
                return np.zeros(len(F))
            return get_coding(self.coding or "one_vs_rest").scores(F, len(self.classes))
        return F[:, 0] if self.squeeze and F.shape[1] == 1 else F

    def predict(self, X: Any) -> Array:
        """Labels (classifier), values (regressor) or +1 / -1 (outlier detector)."""
        with block_threads():
            return self.collect(X, lambda F: self.labels(self.scores(F)))

    def labels(self, scores: Array) -> Array:
        """Predictions from decision values: always their argmax for a classifier."""
        if self.kind == "regressor":
            return scores
        if self.kind == "outlier":
            return np.where(scores >= 0, 1, -1)
        assert self.classes is not None
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)
        return self.classes[best]

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities from the stored calibration, (n, n_classes)."""
        with block_threads():
            return self.collect(X, lambda F: self.probabilities(self.scores(F)))

    def probabilities(self, scores: Array) -> Array:
        """Class probabilities from decision values."""
        if self.calibration is None or self.classes is None:
            raise AttributeError(
                "this machine has no calibration; fit with calibrate=True or use CalibratedClassifierCV."
            )
        a, b = self.calibration["a"], self.calibration["b"]
        if scores.ndim == 1:
            positive = _sigmoid(scores, a[0], b[0])
            return np.column_stack([1.0 - positive, positive])
        each = _sigmoid(scores, a, b)
        total = each.sum(axis=1, keepdims=True)
        return np.where(total > 0, each / np.where(total > 0, total, 1.0), 1.0 / each.shape[1])

    def _checked(self, X: Any) -> Any:
        """X as an array or CSR matrix of the right width; what arrays are refused for by an estimator is refused."""
        X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
        if X.dtype.kind == "c":
            raise ValueError("X holds complex numbers; expected real ones.")
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions (rows, features); got shape {X.shape}.")
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features, but this machine expects {self.n_features}.")
        return X

    def _transformed(self, X: Any) -> Any:
        """Rows as the kernel sees them."""
        return self._prepared(self._checked(X), 0)

    def _prepared(self, X: Any, first: int) -> Any:
        """Checked rows as the kernel sees them, the first of them being number `first` in messages."""
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        if self.input_fill is not None:
            X = _filled(X, self.input_fill)
        refuse_non_finite(X, lambda row: f"row {first + row}")
        if self.input_shift is not None:
            X = (X.toarray() if sparse.issparse(X) else X) - self.input_shift
        if self.input_scale is not None:
            X = X.multiply(1.0 / self.input_scale).tocsr() if sparse.issparse(X) else X / self.input_scale
        return X.tocsr() if sparse.issparse(X) else X


def _filled(X: Any, fill: Array) -> Any:
    """X with its NaN replaced by the values of their columns; in a sparse matrix only stored entries can be NaN."""
    if not sparse.issparse(X):
        return np.where(np.isnan(X), fill.astype(X.dtype), X)
    X = X.tocsr(copy=True)
    missing = np.flatnonzero(np.isnan(X.data))
    X.data[missing] = fill[X.indices[missing]]
    return X


def _sigmoid(f: Array, a: Array, b: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(-0.5 * (a * f + b)))  # 1 / (1 + exp(a f + b)) without overflow
