"""CompactSVC and CompactSVR: compact machines with a chosen number of basis vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kompakt.basis.build import Array, Plan, choose
from kompakt.calibration import METHODS
from kompakt.estimators.base import KernelMachine, offered_if
from kompakt.estimators.params import (
    ANY_GAMMA,
    NUMBER_LOSS,
    OPEN_SHARE,
    SWITCH,
    TABLE,
    Rule,
    auto_size,
    described,
    or_none,
    parameter,
)
from kompakt.estimators.partial import PartialClassifier, PartialRegressor
from kompakt.estimators.predicting import predicted
from kompakt.estimators.selectors import make_selector
from kompakt.heldout import AutoSize
from kompakt.kernels import Kernel, make_kernel
from kompakt.losses import Loss, make_loss
from kompakt.methods.compact import Compact, fit_compact
from kompakt.methods.steps import Fitted, LeftOpen
from kompakt.model import Model
from kompakt.run import Run
from kompakt.spec import Basis, Data, Selector, Spec
from kompakt.train.data import LEARNED

#: what both say of their parameters
_SHARED = {
    "n_basis": TABLE["n_basis"].noted(
        '"auto" takes the smallest within one standard error (or `tol`) of the best on a path of sizes.',
        options={AutoSize: ("tol",)},
    ),
    "C": TABLE["C"].noted(
        "None leaves it to the race of refined models on held-out rows; a classifier that is not refined then has 1, a "
        "regressor that is not refined, or whose loss does not square, the least whose leave-one-out error is within "
        "one standard error of the lowest."
    ),
    "gamma": ANY_GAMMA,
    "selection": TABLE["selection"].noted(
        '"gram" is exact forward selection in Gram space, "random" takes rows by hash, "renyi" by the entropy of the '
        'inputs, "projection" by the error of a projection, "all" every row; the rules of `SpSVC` are names too.'
    ),
    "validation_fraction": TABLE["validation_fraction"].noted(
        "Their loss (0.2 of the rows, at most 5,000) decides the race of refined models; below 3,000 rows it is the "
        "mean over three folds, below 200 (1,000 in regression) over five. Below 100 rows, and with 0, there is no "
        "race, and refinement goes all the way."
    ),
    "tune": TABLE["tune"].noted(
        "By cross-validation of C and the starting width, and of `epsilon` for regression; what it finds takes part in "
        "the race beside the usual settings. `cv_results_` has both."
    ),
    "cv": TABLE["cv"].noted(
        'For `tune` and n_basis="auto"; None takes five folds below 2,000 rows, fewer of them up to 20,000 rows and a '
        'tenth of more; n_basis="auto" holds out one of them.'
    ),
}


class _Compact(KernelMachine):
    """What both do: select by any selector, search by cross-validation, refine, choose a size on a path."""

    warm_start: bool
    _learned_widths = LEARNED
    _drops_matrix_rows = True

    def _width_is_open(self) -> bool:
        return False  # it is learned

    def _left_open(self) -> LeftOpen:
        left_open = super()._left_open()
        # the race chooses the cost of a classifier; one that is not refined has the usual one
        return left_open if self._task().numeric or self.refine else replace(left_open, cost=False)

    def _plan(self, selector: Selector | None = None) -> Plan:
        plan = super()._plan(make_selector(self.selection))
        share = plan.validation_fraction if self.validation_fraction is None else float(self.validation_fraction)
        return replace(plan, validation_fraction=share)

    def _options(self, data: Data, kernel: Kernel) -> Compact:
        auto = auto_size(self.n_basis)
        searches_width = isinstance(self.kernel, str) and np.ndim(getattr(kernel, "gamma", 0.0)) == 0
        return Compact(
            spec=self._spec(data, kernel),
            plan=self._plan(),
            n_basis=int(self.n_basis) if auto is None else None,
            size_tol=None if auto is None else auto.tol,
            left_open=self._left_open(),
            tune=bool(self.tune),
            kernel_of_width=self._kernel_of_width if searches_width else None,
            width_per_feature=isinstance(self.gamma, str) and self.gamma == "loo",
            cv=self.cv,
            start=self._start() if self.warm_start else None,
        )

    def _start(self) -> Any:
        """What a warm start goes on from: the last fit's vectors, or its model where its features bend."""
        model: Model | None = getattr(self, "model_", None)
        bends = model is not None and model.inputs.bends is not None
        return model if bends else getattr(self, "basis_vectors_", None)

    def _kernel_of_width(self, width: float) -> Kernel:
        return make_kernel(self.kernel, gamma=width, coef0=self.coef0, degree=self.degree)

    def _train(self, data: Data, kernel: Kernel, run: Run) -> Fitted:
        return fit_compact(data, self._options(data, kernel), run)

    def _first_basis(self, data: Data, spec: Spec, run: Run) -> Basis:
        """The basis of `partial_fit`, from its first batch."""
        return choose(data, spec, int(self.n_basis), self._plan(), run)


def _calibrated(machine: CompactSVC) -> None:
    if not machine.calibrate:
        raise AttributeError(
            f"{type(machine).__name__} has no predict_proba with calibrate=False: pass calibrate=True and fit again, "
            "or wrap the classifier in scikit-learn's CalibratedClassifierCV."
        )


@described(
    **_SHARED,
    calibrate=parameter(
        'bool, {"sigmoid", "isotonic", "temperature"}',
        "Offer `predict_proba`, fitted to outputs of held-out rows (folds below 3,000 rows): a sigmoid or an isotonic "
        "curve of every score, or a softmax of all scores with a temperature. True takes sigmoids, unless another has "
        "a log loss on held-out rows that is lower by more than a standard error.",
        Rule(f"True, False or one of {tuple(METHODS)}", lambda value: SWITCH.holds(value) or value in METHODS),
    ),
)
class CompactSVC(_Compact, PartialClassifier):
    """Compact support vector classifier with a chosen number of basis vectors.

    Minimises ``1/2 beta' K beta + C sum_i s_i loss_i`` over the weights of `n_basis` basis vectors, with one shared
    basis for all classes.

    {parameters}

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

    def __init__(
        self, n_basis: Any = 100, *,
        kernel: Any = "rbf", gamma: Any = None, degree: int = 3, coef0: float = 0.0,
        C: Any = None, loss: Any = "squared_hinge", epsilon: float | None = None,
        fit_intercept: bool = True, penalize_intercept: bool = False,
        coding: Any = "one_vs_rest", class_weight: Any = None,
        selection: Any = "gram", refine: Any = True, warm_start: bool = False,
        tune: Any = False, cv: Any = None, validation_fraction: float | None = None, calibrate: Any = False,
        tol: float = 1e-8, max_iter: int = 200, max_time: float | None = None, memory_budget: int | None = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_basis = n_basis
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.C, self.loss, self.epsilon = C, loss, epsilon
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.coding, self.class_weight = coding, class_weight
        self.selection, self.refine, self.warm_start = selection, refine, warm_start
        self.tune, self.cv, self.validation_fraction, self.calibrate = tune, cv, validation_fraction, calibrate
        self.tol, self.max_iter, self.max_time, self.memory_budget = tol, max_iter, max_time, memory_budget
        self.n_jobs, self.random_state, self.verbose = n_jobs, random_state, verbose

    def _options(self, data: Data, kernel: Kernel) -> Compact:
        method = "best" if self.calibrate is True or isinstance(self.calibrate, np.bool_) else self.calibrate
        return replace(super()._options(data, kernel), calibrate=method if self.calibrate else None)

    def _needs_all_rows(self) -> str | None:
        return "calibration needs held-out rows: set calibrate=False" if self.calibrate else super()._needs_all_rows()

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
        return predicted(self, "predict_proba", X)

    @offered_if(_calibrated)
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the class probabilities; needs ``calibrate=True``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Finite, also where a probability is too small for float64.
        """
        return predicted(self, "predict_log_proba", X)


def _levels(quantile: Any) -> list[Any]:
    """The levels of the parameter `quantile`; one that cannot be is given back as it is."""
    is_list = isinstance(quantile, list | tuple | np.ndarray) and np.ndim(quantile) == 1
    return (list(quantile) or [None]) if is_list else [quantile]


def _rises(levels: list[Any]) -> bool:
    return all(map(OPEN_SHARE.holds, levels)) and levels == sorted(set(levels))


def _has_intervals(machine: CompactSVR) -> None:
    if machine.interval is None:
        raise AttributeError(
            "CompactSVR has no predict_interval with interval=None: pass interval=0.9, or another level, and fit again."
        )


@described(
    **_SHARED,
    loss=NUMBER_LOSS,
    quantile=parameter(
        "float or list of float",
        'Which quantile the loss "quantile" estimates, between 0 and 1. A rising list gives an output for each, on '
        "vectors that were found for the middle one; they never cross.",
        Rule(
            "a number between 0 and 1, both excluded, or a rising list of such",
            lambda value: _rises(_levels(value)),
        ),
    ),
    interval=parameter(
        "float",
        "Probability with which values of new rows lie inside the intervals of `predict_interval`. Their width comes "
        "from residuals of held-out rows (folds below 3,000 rows), and follows the noise where that makes it smaller.",
        or_none(OPEN_SHARE),
    ),
)
class CompactSVR(_Compact, PartialRegressor):
    """Compact kernel regressor with a chosen number of basis vectors.

    {parameters}

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

    def __init__(
        self, n_basis: Any = 100, *,
        kernel: Any = "rbf", gamma: Any = None, degree: int = 3, coef0: float = 0.0,
        C: Any = None, loss: Any = "least_squares", epsilon: float | None = None, quantile: Any = 0.5,
        fit_intercept: bool = True, penalize_intercept: bool = False,
        selection: Any = "gram", refine: Any = True, warm_start: bool = False,
        tune: Any = False, cv: Any = None, validation_fraction: float | None = None, interval: float | None = None,
        tol: float = 1e-8, max_iter: int = 200, max_time: float | None = None, memory_budget: int | None = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_basis = n_basis
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.C, self.loss, self.epsilon, self.quantile = C, loss, epsilon, quantile
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.selection, self.refine, self.warm_start = selection, refine, warm_start
        self.tune, self.cv, self.validation_fraction, self.interval = tune, cv, validation_fraction, interval
        self.tol, self.max_iter, self.max_time, self.memory_budget = tol, max_iter, max_time, memory_budget
        self.n_jobs, self.random_state, self.verbose = n_jobs, random_state, verbose

    def _make_loss(self) -> Loss:
        middle = sorted(_levels(self.quantile), key=lambda level: abs(level - 0.5))[0]
        return make_loss(self.loss, classes=False, epsilon=self.epsilon, quantile=middle)

    def _options(self, data: Data, kernel: Kernel) -> Compact:
        level = None if self.interval is None else float(self.interval)
        options = replace(super()._options(data, kernel), interval=level)
        if options.spec.loss.name != "quantile" or np.ndim(self.quantile) == 0:
            return options
        if data.rows.n_outputs > 1 or level is not None:
            raise ValueError(
                f"several quantiles need one target, and no interval; got {data.rows.n_outputs} target(s) and "
                f"interval={self.interval!r}. Fit a machine for each target."
            )
        return replace(options, levels=tuple(map(float, _levels(self.quantile))))

    def _needs_all_rows(self) -> str | None:
        return "intervals need held-out rows: set interval=None" if self.interval else super()._needs_all_rows()

    @offered_if(_has_intervals)
    def predict_interval(self, X: Any) -> Array:
        """Lower and upper bounds of the predictions; needs ``interval=0.9``, or another level.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, 2), or (n_samples, n_outputs, 2)
        """
        return predicted(self, "predict_interval", X)
