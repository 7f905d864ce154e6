"""What the machines on a reduced training set share: the exact SVM, the rows held out, the last fit, the attributes."""

from __future__ import annotations

import time
import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from kompakt.estimators.base import MachineClassifier
from kompakt.estimators.compact import CompactSVC
from kompakt.estimators.compress import as_model
from kompakt.estimators.prepare import Array, check_parameters, check_rows, checked_weights, resolve_gamma
from kompakt.kernels import Linear
from kompakt.model import Model
from kompakt.rows import centre_of
from kompakt.subsample import ReductionWarning
from kompakt.subsample.support import last_step, support_positions
from kompakt.validate import holdout

#: fewer rows than this are not reduced
LEAST_ROWS = 100
#: rows held out at most
MOST_HELD_OUT = 5_000
#: a fitted machine whose dense vectors would take more bytes than this is asked itself, not made into a Model
_MODEL_BYTES = 1 << 30

_SVM_WORDS = {"kernel": "rbf", "gamma": "scale", "degree": 3, "coef0": 0.0, "C": 1.0, "class_weight": None}


class ReducedSVC(MachineClassifier):
    """Base of `LocalSamplingSVC` and `CGLQSVC`: an exact SVM on a reduced training set."""

    model_: Model | None  # type: ignore[assignment]

    # -- before the reduction ----------------------------------------------------------------------------

    def _begin(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array]:
        """Validate; set the classes, the SVM, the key, and the rows that may be trained on."""
        me: Any = self
        _check_words(self)
        if y is None:
            raise ValueError(f"requires y to be passed, but the target y is None: {type(self).__name__} needs targets.")
        X, y = check_rows(self, X, y)
        check_classification_targets(y)
        self._weights = None
        rows = np.arange(len(y))
        if sample_weight is not None:
            weights = checked_weights(sample_weight, X)
            rows = np.flatnonzero(weights > 0)
            self._weights = None if np.all(weights == 1.0) else weights
        # distances do not change when rows are centred, their rounding does
        self._centre = None if sparse.issparse(X) else centre_of(X, self._weights)
        self.classes_ = np.unique(y[rows])
        if len(self.classes_) < 2:
            raise ValueError(
                f"The number of classes has to be greater than one; got {len(self.classes_)} class: "
                f"{self.classes_[:1]}. Give rows of at least two classes (with positive weight)."
            )
        self._key = int(check_random_state(me.random_state).randint(2**31 - 1))
        self._svm = self._make_svm(X[rows] if len(rows) < len(y) else X)
        self._pool = rows
        return X, y

    def _make_svm(self, X: Any) -> Any:
        me: Any = self
        if me.estimator is None:
            if isinstance(me.kernel, str) and me.kernel == "precomputed":
                raise ValueError(
                    "kernel='precomputed' has no rows to look for neighbours among; give the rows and a kernel's name, "
                    "or a callable."
                )
            # one width for all subsamples: that of all rows
            gamma = resolve_gamma(me.gamma, X, None, me.kernel) if isinstance(me.kernel, str) else "scale"
            self.gamma_ = gamma
            words = {name: getattr(me, name) for name in _SVM_WORDS} | {"gamma": gamma}
            return SVC(**words, cache_size=500)
        changed = [name for name, default in _SVM_WORDS.items() if getattr(me, name) != default]
        if changed:
            raise ValueError(
                f"{', '.join(changed)} belong to the default SVC, but estimator={type(me.estimator).__name__} is "
                "given. Set them on the estimator."
            )
        svm = clone(me.estimator)
        seeds = {name: self._key for name, value in svm.get_params().items() if value is None and _is_seed(name)}
        return svm.set_params(**seeds)

    def _hold_out(self, y: Array, fraction: float) -> Array:
        """Rows for validation, taken from the pool; none of a class with a single row."""
        labels = y[self._pool]
        counts = dict(zip(*np.unique(labels, return_counts=True), strict=True))
        shared = np.flatnonzero([counts[label] > 1 for label in labels]) if min(counts.values()) < 2 else slice(None)
        candidates = self._pool[shared]
        if len(np.unique(y[candidates])) < 2:
            raise ValueError("validation needs two classes of at least two rows each; give beta, or more rows.")
        share = min(float(fraction), MOST_HELD_OUT / len(candidates))
        share = max(share, (len(self.classes_) + 1) / len(candidates))
        _, held = holdout(y[candidates], share, classifier=True, random_state=self._key)
        held = candidates[held]
        self._pool = np.setdiff1d(self._pool, held)
        return held

    # -- fits --------------------------------------------------------------------------------------------

    def _fit_rows(self, machine: Any, X: Any, y: Array, rows: Array, factor: float = 1.0) -> Any:
        fitted = clone(machine)
        if self._centre is not None and _measures_distances(machine):
            self._fit_step(fitted, X[rows] - self._centre.astype(X.dtype), y, rows, factor)
            # the machine is handed on with the user's rows: it predicts for rows that are not centred
            fitted.support_vectors_ = np.asarray(X[rows[fitted.support_]], dtype=fitted.support_vectors_.dtype)
            return fitted
        return self._fit_step(fitted, X[rows], y, rows, factor)

    def _fit_step(self, fitted: Any, part: Any, y: Array, rows: Array, factor: float) -> Any:
        """Fit a machine to `part`, the rows with these numbers, with their weights where there are any."""
        if self._weights is None and factor == 1.0:
            return fitted.fit(part, y[rows])
        weights = np.full(len(rows), factor) if self._weights is None else factor * self._weights[rows]
        step = last_step(fitted)
        if not has_fit_parameter(step, "sample_weight"):
            raise TypeError(
                f"sample_weight (or reweight=True) was given, but {type(step).__name__}.fit does not take it. Leave "
                "the weights out, or choose an estimator that takes them."
            )
        name = f"{fitted.steps[-1][0]}__sample_weight" if hasattr(fitted, "steps") else "sample_weight"
        return fitted.fit(part, y[rows], **{name: weights})

    def _error(self, machine: Any, X: Any, y: Array, held: Array) -> float:
        """Share of the validation rows, by weight, that a machine gets wrong."""
        model = _model_of(machine)  # blocks of BLAS, where LIBSVM goes row by row
        labels = machine.predict(X[held]) if model is None else model.predict(X[held])
        wrong = labels != y[held]
        return float(np.average(wrong, weights=None if self._weights is None else self._weights[held]))

    def _last_machine(self, n_basis: int) -> Any:
        """The compact machine that takes the place of the exact SVM, behind the same scaling."""
        me: Any = self
        words = last_step(self._svm).get_params()
        if me.compact_estimator is not None:
            compact = clone(me.compact_estimator).set_params(n_basis=n_basis)
        else:
            kernel = {name: words[name] for name in ("gamma", "degree", "coef0") if name in words}
            compact = CompactSVC(
                n_basis, kernel=words.get("kernel", "linear"), C=words.get("C", 1.0),
                class_weight=words.get("class_weight"), n_jobs=me.n_jobs, **kernel,
            )  # fmt: skip
        if "random_state" in compact.get_params() and compact.random_state is None:
            compact.set_params(random_state=self._key)
        if isinstance(self._svm, Pipeline):
            before = clone(self._svm)
            return Pipeline([*before.steps[:-1], (before.steps[-1][0], compact)])
        return compact

    def _end(self, X: Any, y: Array, sample: Any) -> None:
        """The last fit where it is still to be made, and the attributes that both machines have."""
        me: Any = self
        machine, support = sample.machine, sample.support
        seconds = dict(sample.seconds)
        if me.n_basis is not None:
            start = time.perf_counter()
            compact = self._last_machine(min(int(me.n_basis), len(sample.rows)))
            machine = self._fit_rows(compact, X, y, sample.rows, getattr(sample, "factor", 1.0))
            support = sample.rows[support_positions(machine, X[sample.rows], y[sample.rows])]
            seconds["compact fit"] = time.perf_counter() - start
        self.estimator_ = machine
        self.training_indices_ = sample.rows
        self.initial_support_ = sample.initial_support
        self.support_ = support
        self.n_support_initial_ = len(sample.initial_support)
        self.n_support_final_ = len(support)
        self.validation_error_ = sample.error
        self.history_ = sample.history
        self.phase_seconds_ = seconds
        self.model_ = _model_of(machine)
        self.n_basis_ = self.model_.n_basis_ if self.model_ is not None else len(support)
        if self.model_ is not None:
            self.kernel_ = self.model_.kernel
            self.basis_vectors_ = self.model_.basis_vectors_
            self.dual_coef_ = self.model_.weights.T
            self.intercept_ = self.model_.intercept
        for name in ("_weights", "_centre", "_svm", "_pool", "_key"):
            delattr(self, name)

    # -- after it ----------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """Decision values of the rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
            In the order of ``classes_``; the largest wins.
        """
        check_is_fitted(self, "estimator_")
        if self.model_ is not None:
            return super().decision_function(X)
        X, _ = check_rows(self, X, reset=False)
        return self.estimator_.decision_function(X)

    def predict(self, X: Any) -> Array:
        """Predicted labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self, "estimator_")
        if self.model_ is not None:
            return super().predict(X)
        X, _ = check_rows(self, X, reset=False)
        return self.estimator_.predict(X)

    def overlap_with(self, full: Any) -> float:
        """Share of the full problem's support vectors that this machine has as well.

        Parameters
        ----------
        full : classifier with `support_`, or array of row numbers
            Trained on the same rows in the same order.

        Returns
        -------
        float
            Between 0 and 1.
        """
        check_is_fitted(self, "estimator_")
        support = getattr(last_step(full), "support_", full)
        rows = np.unique(np.asarray(support))
        if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
            raise TypeError(
                f"overlap_with takes a fitted classifier with support_, or row numbers; got {type(full).__name__}."
            )
        if not len(rows):
            raise ValueError("the full machine has no support vectors; expected at least one.")
        return float(np.isin(rows, self.support_).mean())


def warn_not_reduced(n: int, name: str) -> None:
    """Say that all rows are trained on, because they are few."""
    warnings.warn(
        f"{n} rows are too few to be reduced (fewer than {LEAST_ROWS}): {name} trains on all of them. Use SVC or "
        "CompactSVC on so little data.",
        ReductionWarning,
        stacklevel=3,
    )


def _is_seed(name: str) -> bool:
    return name == "random_state" or name.endswith("__random_state")


def _measures_distances(machine: Any) -> bool:
    """Whether a machine of scikit-learn is the same on centred rows; a width by name depends on their variance."""
    return isinstance(machine, SVC | NuSVC) and machine.kernel == "rbf" and not isinstance(machine.gamma, str)


def _model_of(machine: Any) -> Model | None:
    """The kompakt model of a fitted machine; None where it has none, and is asked itself."""
    step = last_step(machine)
    if type(step).__name__ == "LinearSVC" and step is machine:
        coef = np.asarray(machine.coef_, dtype=np.float64)
        intercept = np.broadcast_to(np.asarray(machine.intercept_, dtype=np.float64), len(coef)).copy()
        fields = {"n_features": coef.shape[1], "classes": machine.classes_, "coding": "one_vs_rest"}
        return Model(Linear(), coef, np.eye(len(coef)), intercept, "classifier", **fields)
    support = getattr(step, "support_", ())
    if 8 * len(support) * int(getattr(machine, "n_features_in_", 0)) > _MODEL_BYTES:
        return None
    try:
        return as_model(machine)
    except (TypeError, AttributeError):
        return None


def _check_words(estimator: Any) -> None:
    """Ranges of the parameters of both machines."""
    parameters = estimator.get_params(deep=False)
    _Shared(**{name: value for name, value in parameters.items() if name in _SHARED}).check()
    n_basis = parameters["n_basis"]
    if n_basis is not None and (not isinstance(n_basis, Integral) or isinstance(n_basis, bool) or n_basis < 1):
        raise ValueError(f"n_basis must be None (an exact SVM) or a whole number of at least 1; got {n_basis!r}.")
    if n_basis is None and parameters["compact_estimator"] is not None:
        raise ValueError("compact_estimator is used with n_basis only; give n_basis, the number of vectors.")
    fraction = parameters["validation_fraction"]
    if not isinstance(fraction, Real) or not 0 < float(fraction) < 1:
        raise ValueError(f"validation_fraction must lie between 0 and 1; got {fraction!r}.")
    patience = parameters["patience"]
    if not isinstance(patience, Integral) or isinstance(patience, bool) or patience < 1:
        raise ValueError(f"patience must be a whole number of at least 1; got {patience!r}.")
    tol = parameters["tol"]
    if not isinstance(tol, Real) or isinstance(tol, bool) or not 0 <= float(tol) < 1:
        raise ValueError(f"tol must be a number from 0 to below 1 (a share of the error); got {tol!r}.")


#: parameters that mean the same everywhere
_SHARED = ("C", "max_iter", "degree", "stratify", "reweight")


class _Shared:
    """Stands in for an estimator in `check_parameters`, with the parameters that mean the same everywhere."""

    def __init__(self, **words: Any) -> None:
        self.words = words

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return self.words

    def check(self) -> None:
        check_parameters(self)
