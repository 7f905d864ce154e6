"""CompactSVC and CompactSVR: compact machines with a chosen number of basis vectors."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np

from kompakt.basis.build import Array, Machine, Plan, choose, weigh
from kompakt.basis.path import size_path
from kompakt.estimators.base import KernelMachine, MachineClassifier, MachineRegressor, offered_if
from kompakt.estimators.params import (
    COST,
    SWITCH,
    ClassWeightParameters,
    CodingParameters,
    MachineParameters,
    ValidationParameters,
    WarmStartParameters,
    auto_size,
    estimator,
    or_none,
    parameter,
    shared,
)
from kompakt.estimators.partial import PartialClassifier, PartialRegressor
from kompakt.estimators.selectors import make_selector
from kompakt.kernels import RBF, Kernel, make_kernel
from kompakt.run import Run
from kompakt.search.compact import is_quick, tune_compact
from kompakt.search.widths import leave_one_out_widths
from kompakt.spec import Basis, Data, Spec
from kompakt.train.data import LEARNED, splits_of
from kompakt.train.pipeline import Fit
from kompakt.validation import AutoSize, holdout, shuffled_folds

logger = logging.getLogger("kompakt")

#: the largest size that n_basis="auto" looks at
_LARGEST_AUTO = 256
#: beyond so many rows one held-out part is as good as folds
_MOST_ROWS_FOR_FOLDS = 20_000


@shared
class _Compact(WarmStartParameters, ValidationParameters, MachineParameters, KernelMachine):
    """What both do: select by any selector, search by cross-validation, refine, choose a size on a path.

    Parameters
    ----------
    n_basis
        "auto" takes the smallest within one standard error (or `tol`) of the best on a path of sizes.
    C
        None takes the least whose error is within one standard error of the lowest.
    gamma
        None without refinement means "scale" here.
    selection
        "gram" is exact forward selection in Gram space, "random" takes rows by hash, "renyi" by the entropy of the
        inputs, "projection" by the error of a projection, "all" every row; the rules of `SpSVC` are names too.
    refine
        As far as the loss of held-out rows falls.
    validation_fraction
        Their loss (0.1 of the rows, at most 5,000) says where refinement stops; below 3,000 rows it is the mean over
        three folds, below 200 (1,000 in regression) over five. Below 100 rows, and with 0, refinement goes all the way.
    tune
        By cross-validation of C and the starting width, and of `epsilon` for regression. Sets `cv_results_`.
    cv
        For `tune` and n_basis="auto"; None takes five folds below 2,000 rows, fewer of them up to 20,000 rows and a
        tenth of more; n_basis="auto" holds out one of them.
    """

    n_basis: Any = parameter(default=100, options={AutoSize: ("tol",)}, kw_only=False)
    C: Any = parameter(default=1.0, rule=or_none(COST))
    refine: Any = True
    _learned_widths = LEARNED
    _width_from_data = False  # it is learned
    _drops_matrix_rows = True  # rows of weight zero may be left out of a precomputed matrix

    def _plan(self, data: Data, run: Run) -> Plan:
        selector = make_selector(self.selection)
        plan = super()._plan(data, run)
        share = plan.validation_fraction if self.validation_fraction is None else float(self.validation_fraction)
        return replace(plan, selector=selector, validation_fraction=share)

    def _passes(self, fit: Fit) -> bool:
        everything = getattr(fit.plan.selector, "streams", False) and not self.refine and not self.tune
        return bool(everything and fit.n_basis is not None and not getattr(self, "calibrate", False))

    def _search(self, fit: Fit) -> None:
        """One width per feature by leave-one-out (`gamma="loo"`); C, the starting width and epsilon (`tune=True`)."""
        fit.start = self._warm_start(fit.data)
        if not self.tune:
            super()._search(fit)
        if isinstance(self.gamma, str) and self.gamma == "loo":
            gamma: Any = fit.spec.kernel.gamma  # type: ignore[attr-defined]
            found = leave_one_out_widths(fit.data.in_memory, float(gamma), fit.spec.C, key=fit.run.key)
            fit.spec = replace(fit.spec, kernel=RBF(found.gamma))
            fit.n_kernel_evals += found.n_kernel_evals
            fit.run.note("widths", error_before=found.error_before, error=found.error, C=found.C)
        if self.tune:
            self._tune(fit)

    def _tune(self, fit: Fit) -> None:
        spec, data = fit.spec, fit.data
        gamma: Any = getattr(spec.kernel, "gamma", None)
        has_width = isinstance(self.kernel, str) and gamma is not None and np.ndim(gamma) == 0
        epsilons: list[float | None] = [None]
        if hasattr(spec.loss, "epsilon") and not data.classifier:
            spread = 0.0 if data.rows.targets is None else float(np.std(data.rows.targets))
            if spread > 0:
                epsilons = [spread * share for share in (0.02, 0.1, 0.5)]

        def kernel_of(width: float | None) -> Kernel:
            if width is None:
                return spec.kernel
            return make_kernel(self.kernel, gamma=width, coef0=self.coef0, degree=self.degree)

        def spec_of(setting: dict[str, Any]) -> Spec:
            loss = spec.loss
            if setting["epsilon"] is not None:
                loss = replace(loss, epsilon=setting["epsilon"])  # type: ignore[type-var]
            return replace(spec, kernel=kernel_of(setting["gamma"]), loss=loss, C=setting["C"])

        width = float(gamma) if has_width else None
        found = tune_compact(data, spec_of, width, epsilons, fit.n_basis, fit.plan, self._splits(fit), fit.run)
        fit.trials, best = found.trials, found.trials.best
        fit.spec = spec_of(best.params)
        fit.n_kernel_evals += found.n_kernel_evals
        fit.plan = replace(fit.plan, refine=found.refine)
        fit.run.note("tuning", C=best.params["C"], gamma=best.params["gamma"], error=best.mean, remarks=found.remarks)
        for remark in found.remarks:
            logger.info("search: %s", remark)

    def _choose_size(self, fit: Fit) -> None:
        """The number of basis vectors, on a path of sizes."""
        splits, auto = self._splits(fit), auto_size(self.n_basis)
        splits = splits[:1] if self.cv is None else splits  # machines of many sizes: folds would cost too much
        tol = None if auto is None else auto.tol
        largest = int(min(_LARGEST_AUTO, max(1, min(len(train) for train, _ in splits) // 2)))
        path = size_path(fit.data, fit.spec, largest, fit.plan, splits, fit.run.within(0.6), tol)
        fit.n_basis, fit.why_size = path.size, path.choice.why
        if path.basis is not None:
            fit.spec = replace(fit.spec, kernel=path.kernel)
            fit.start = path.basis if fit.start is None else fit.start
        fit.n_kernel_evals += path.n_kernel_evals
        fit.attributes["size_path_"] = path

    def _choose_basis(self, fit: Fit) -> Machine:
        assert fit.n_basis is not None
        basis = choose(fit.data, fit.spec, fit.n_basis, fit.plan, fit.run, fit.start)
        moved = getattr(fit.attributes.get("size_path_"), "basis", None) is not None
        return replace(weigh(fit.data, fit.spec, basis, fit.plan, fit.run), refined=moved)

    def _splits(self, fit: Fit) -> list[tuple[Array, Array]]:
        """The user's validation splits, or by cost: five folds of few rows, one held-out part of many."""
        data, seed = fit.data, fit.run.key % 2**31
        if self.cv is not None:
            return splits_of(data, self.cv, seed)
        n_rows = data.rows.n_rows
        if n_rows > _MOST_ROWS_FOR_FOLDS or (data.labels is not None and np.min(np.bincount(data.labels)) < 2):
            target = np.zeros(n_rows) if data.labels is None else data.labels
            return [holdout(target, min(0.1, 20_000 / n_rows), classifier=data.classifier, random_state=seed)]
        fold = shuffled_folds(n_rows, 5, labels=data.labels, random_state=seed)
        n_folds = int(np.clip(10_000 // n_rows, 1, fold.max() + 1))
        n_folds = n_folds if is_quick(fit.spec.loss) else min(2, n_folds)
        return [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(n_folds)]

    def _warm_start(self, data: Data) -> Array | None:
        """Vectors of the last fit, for `warm_start`."""
        vectors = getattr(self, "basis_vectors_", None)
        if not self.warm_start or vectors is None:
            return None
        rows = data.rows
        if vectors.shape[1] != rows.n_features:
            raise ValueError(
                f"warm_start=True goes on from the last fit, which had {vectors.shape[1]} features; X has "
                f"{rows.n_features}. Set warm_start=False to start anew."
            )
        start: Array = rows.as_inputs(vectors).astype(rows.dtype)
        return start if rows.offset is None else np.asarray(start - rows.offset)

    def _first_basis(self, data: Data, spec: Spec, run: Run) -> Basis:
        """The basis of `partial_fit`, from its first batch."""
        return choose(data, spec, int(self.n_basis), self._plan(data, run), run)


def _calibrated(machine: CompactSVC) -> None:
    if not machine.calibrate:
        raise AttributeError(
            f"{type(machine).__name__} has no predict_proba with calibrate=False: pass calibrate=True and fit again, "
            "or wrap the classifier in scikit-learn's CalibratedClassifierCV."
        )


@estimator
class CompactSVC(ClassWeightParameters, CodingParameters, _Compact, PartialClassifier, MachineClassifier):
    """Compact support vector classifier with a chosen number of basis vectors.

    Minimises ``1/2 beta' K beta + C sum_i s_i loss_i`` over the weights of `n_basis` basis vectors, with one shared
    basis for all classes.

    Parameters
    ----------
    calibrate : bool
        Offer `predict_proba` by a sigmoid fitted to outputs of held-out rows.

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
    basis_indices_ : ndarray of shape (n_basis_,) or None
        Row numbers of the basis vectors in X.
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    classes_ : ndarray of shape (n_classes,)
    feature_importances_ : ndarray of shape (n_features,)
        Where there is, or could be, one width per feature or a map: the share of every feature in the kernel's squared
        distances, which is its width times its variance in the training rows. Sums to 1. After a fit to a table whose
        columns become several features each, the names of the entries are `schema_.feature_names`.
    n_basis_, n_iter_, converged_, n_kernel_evals_, objective_, jitter_, history_, gamma_, kernel_, model_

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import CompactSVC
    >>> X, y = make_moons(400, noise=0.1, random_state=0)
    >>> machine = CompactSVC(n_basis=20, random_state=0).fit(X, y)
    >>> machine.n_basis_, machine.score(X, y) > 0.95
    (20, True)
    """

    calibrate: bool = parameter(default=False, rule=SWITCH)

    @offered_if(_calibrated)
    def predict_proba(self, X: Any) -> Array:
        """Class probabilities; needs ``calibrate=True``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._predicted("predict_proba", X)


@estimator
class CompactSVR(_Compact, PartialRegressor, MachineRegressor):
    """Compact kernel regressor with a chosen number of basis vectors.

    Parameters
    ----------
    quantile : float
        Which quantile the loss "quantile" estimates, between 0 and 1.

    Attributes
    ----------
    basis_vectors_, basis_indices_, dual_coef_, intercept_, n_basis_, n_iter_, converged_, n_kernel_evals_,
    objective_, jitter_, history_, gamma_, kernel_, model_, feature_importances_
        As for `CompactSVC`.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt import CompactSVR
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> machine = CompactSVR(n_basis=15, C=100.0, random_state=0).fit(X, np.sin(X).ravel())
    >>> round(machine.score(X, np.sin(X).ravel()), 2)
    1.0
    """

    C: Any = None
    loss: Any = "least_squares"
    quantile: float = 0.5
