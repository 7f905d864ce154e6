"""LocalSamplingSVC and CGLQSVC: an exact SVM on a reduced training set (Barcenas, Gonzalez-Lima, Quiroz)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from kompakt.data import ArrayRows, Source, centre_of
from kompakt.data.dask import DaskSource, is_dask
from kompakt.data.rows import computing_dtype
from kompakt.estimators.compact import CompactSVC
from kompakt.estimators.params import (
    COUNT,
    OPEN_SHARE,
    POSITIVE,
    SHARE,
    SWITCH,
    TABLE,
    Parameter,
    Rule,
    auto_or,
    check_parameters,
    described,
    one_of,
    or_none,
    parameter,
)
from kompakt.estimators.predicting import predicted
from kompakt.kernels import make_kernel
from kompakt.methods.cglq import CGLQ, fit_cglq
from kompakt.methods.local_sampling import LocalSampling, fit_local_sampling
from kompakt.methods.reduction import ReductionProblem, model_or_none
from kompakt.model import Model
from kompakt.reduce import ReducedSet, ReductionWarning
from kompakt.reduce.local_sampling import INTENSITY, last_step, support_positions
from kompakt.run import Run
from kompakt.search.widths import width_and_cost
from kompakt.spec import Data
from kompakt.train.data import (
    Array,
    check_columns_to_keep,
    check_rows,
    checked_weights,
    fit_on_sample,
    resolve_gamma,
    with_columns,
)
from kompakt.train.running import CallbackSupportMixin, running, unfit
from kompakt.train.task import Classes, refuse_one_class

#: fewer rows than this are never reduced, and rows up to the second number only where the user says how far: an exact
#: SVM on them takes less time than a reduction
LEAST_ROWS, SMALL = 100, 5_000
#: parameters of draws from balls, which margins do not need: variant="auto" keeps to balls where one of them is given
_OF_BALLS = (
    "n_subsamples", "min_subsample_size", "beta", "beta_step", "max_beta", "intensity", "search_train",
    "min_improvement", "n_iter_no_change", "validation_fraction",
)  # fmt: skip
#: parameters of the default SVC, which an `estimator` takes the place of
_SVC_DEFAULTS = {"kernel": "rbf", "gamma": None, "degree": 3, "coef0": 0.0, "C": None, "class_weight": None}


#: what both say of their parameters
_SHARED = {
    "kernel": parameter(
        '{"rbf", "poly", "linear", "sigmoid"} or callable',
        "The kernel of scikit-learn's SVC, by name or as a function of two blocks of rows; \"sigmoid\" without "
        "`n_basis`.",
    ),
    "gamma": parameter(
        '{"scale", "auto"} or float',
        'Width of the kernel, of all rows and not of each subsample; "scale" is 1 / (n_features * variance of X), '
        '"auto" 1 / n_features. None takes the width of a Gaussian kernel from the data, by the leave-one-out error of '
        "kernel ridge regression on a sample.",
    ),
    "estimator": parameter(
        "classifier",
        "Takes the place of ``SVC(kernel=..., C=...)``: any classifier with `support_` or a decision function, also "
        "behind scalers in a `Pipeline`. Neighbours are looked for among the rows as given to `fit`.",
    ),
    "delta": parameter(
        'float or "auto"', "Share of the rows in the first subsamples, all together.", auto_or(OPEN_SHARE)
    ),
    "stratify": parameter("bool", "Whether each first subsample holds the classes in their shares.", SWITCH),
    "min_improvement": parameter(
        "float",
        "Share of the validation error by which it must fall for the search to go on; None is the method's own.",
        or_none(Rule("a number from 0 to below 1 (a share of the error)", SHARE.holds)),
    ),
    "n_iter_no_change": parameter(
        "int", "Rounds without such a fall after which the search ends; None is the method's own.", or_none(COUNT)
    ),
    "validation_fraction": TABLE["validation_fraction"].noted(
        "They (0.1, at most 5,000) are not trained on; 0 is not possible.",
        rule=or_none(OPEN_SHARE),
    ),
    "n_basis": TABLE["n_basis"].noted(
        "None trains the exact SVM; a number, a compact machine with as many vectors in its place.",
        type="int",
        rule=Rule("None (an exact SVM) or a whole number of at least 1", or_none(COUNT).holds),
    ),
    "compact_estimator": parameter(
        "kompakt classifier", "That compact machine; None takes `CompactSVC` with the SVM's kernel and C."
    ),
    "n_jobs": TABLE["n_jobs"].noted("Over subsamples too; the result does not depend on it."),
}


class ReducedSVC(ClassifierMixin, CallbackSupportMixin, BaseEstimator):
    """Base of `LocalSamplingSVC` and `CGLQSVC`: an exact SVM on a reduced training set."""

    model_: Model | None  # None where kompakt has no form for the machine, which is then asked itself
    estimator_: Any
    support_: Array
    _parameters: ClassVar[dict[str, Parameter]]
    # parameters that both have
    n_basis: Any
    kernel: Any
    gamma: Any
    degree: int
    coef0: float
    C: Any
    class_weight: Any
    estimator: Any
    compact_estimator: Any
    delta: Any
    stratify: bool
    min_improvement: float | None
    n_iter_no_change: int | None
    validation_fraction: float | None
    n_jobs: int | None
    max_time = memory_budget = None

    __metadata_request__fit: ClassVar = {"keep_columns": UNUSED}

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, keep_columns: Sequence[str] | None = None
    ) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or rows from `kompakt.open_rows`
            Of streamed rows, a sample that fits in memory is trained on.
        y : array-like of shape (n_samples,)
            None for rows from `kompakt.open_rows`, which bring their targets and weights.
        sample_weight : array-like of shape (n_samples,), default=None
            Handed to the exact SVM; rows of weight 0 are left out.
        keep_columns : sequence of str, default=None
            Columns of a data frame that are used even if they look like identifiers, which are left out otherwise:
            an index, and whole numbers or words that are all different.

        Returns
        -------
        self
        """
        if is_dask(X):  # before anything could materialise it
            X, y, sample_weight = DaskSource(X, y, sample_weight), None, None
        self._check()
        check_columns_to_keep(X, keep_columns)
        with running(self, X, y) as run:
            if isinstance(X, Source):
                fit_on_sample(self, X, y, sample_weight, run, Classes())
            else:
                self._fit(X, y, sample_weight, run, keep_columns)
        return self

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
        return self._predicted("decision_function", X)

    def predict(self, X: Any) -> Array:
        """Predicted labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._predicted("predict", X)

    def _predicted(self, method: str, X: Any) -> Array:
        """By the model, or by the machine itself where kompakt has no form for it."""
        check_is_fitted(self, "estimator_")
        if self.model_ is not None:
            return predicted(self, method, X)
        X, _ = check_rows(self, X, reset=False)
        values: Array = getattr(self.estimator_, method)(X)
        return values

    @property
    def _may_scale(self) -> bool:
        return self.estimator is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

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

    def _fit(self, X: Any, y: Any, sample_weight: Any, run: Run, keep: Sequence[str] | None = None) -> None:
        """Reduce rows in memory, and train on what is left."""
        unfit(self)  # attributes of an earlier fit, some of which this one may not set
        problem = self._problem(X, y, sample_weight, run, keep)
        self._publish(problem, self._reduce(problem, run), run)

    def _check(self) -> None:
        """Ranges of the parameters, and those that go together."""
        check_parameters(self)
        if self.n_basis is None and self.compact_estimator is not None:
            raise ValueError("compact_estimator is used with n_basis only; give n_basis, the number of vectors.")

    def _problem(self, X: Any, y: Any, sample_weight: Any, run: Run, keep: Sequence[str] | None) -> ReductionProblem:
        """Validate; set the classes and the width."""
        if y is None:
            raise ValueError(f"requires y to be passed, but the target y is None: {type(self).__name__} needs targets.")
        X, y = check_rows(self, X, y, keep=keep)
        check_classification_targets(y)
        weights, pool = None, np.arange(len(y))
        if sample_weight is not None:
            weights = checked_weights(sample_weight, X)
            pool = np.flatnonzero(weights > 0)
            weights = None if np.all(weights == 1.0) else weights
        centre = None if sparse.issparse(X) else centre_of(X, weights)
        self.classes_ = np.unique(y[pool])
        refuse_one_class(self.classes_)
        return ReductionProblem(X, y, self._make_svm(X, y, pool, weights, centre, run), pool, weights, centre)

    def _make_svm(self, X: Any, y: Array, pool: Array, weights: Array | None, centre: Array | None, run: Run) -> Any:
        if self.estimator is None:
            if isinstance(self.kernel, str) and self.kernel == "precomputed":
                raise ValueError(
                    "kernel='precomputed' has no rows to look for neighbours among; give the rows and a kernel's name, "
                    "or a callable."
                )
            # one width and cost for all subsamples: those of all rows
            left_out = len(pool) < len(y)
            pool_rows, kernel = X[pool] if left_out else X, self.kernel
            self.gamma_ = resolve_gamma(self.gamma, pool_rows, None, kernel) if isinstance(kernel, str) else "scale"
            self.C_ = 1.0 if self.C is None else float(self.C)
            width = self.gamma is None and kernel == "rbf"
            if (width or self.C is None) and kernel in ("rbf", "poly", "linear"):
                dtype = computing_dtype(X.dtype, pool_rows.shape[0])
                rows = ArrayRows(pool_rows, None, weights if weights is None else weights[pool], centre, dtype=dtype)
                labels = np.unique(y[pool], return_inverse=True)[1]
                first = make_kernel(kernel, gamma=self.gamma_, degree=self.degree, coef0=self.coef0)
                rows.offset = rows.offset if first.shift_invariant else None
                data = Data(rows, classes=self.classes_, labels=labels)
                search = width_and_cost(data, first, None if self.C is None else self.C_, run, width=width)
                self.C_ = search.C
                self.gamma_ = getattr(search.kernel, "gamma", self.gamma_)
            parameters = {name: getattr(self, name) for name in _SVC_DEFAULTS} | {"gamma": self.gamma_, "C": self.C_}
            return SVC(**parameters, cache_size=500)
        changed = [name for name, default in _SVC_DEFAULTS.items() if getattr(self, name) != default]
        if changed:
            raise ValueError(
                f"{', '.join(changed)} belong to the default SVC, but estimator={type(self.estimator).__name__} is "
                "given. Set them on the estimator."
            )
        svm = clone(self.estimator)
        parameters = svm.get_params()
        seeds = [name for name in parameters if name == "random_state" or name.endswith("__random_state")]
        return svm.set_params(**{name: run.key for name in seeds if parameters[name] is None})

    def _reduce(self, problem: ReductionProblem, run: Run) -> ReducedSet:
        """The reduced training set with the machine trained on it; sets the attributes of the method."""
        raise NotImplementedError

    def _share(self) -> float:
        return 0.1 if self.validation_fraction is None else float(self.validation_fraction)

    def _all_rows_up_to(self, problem: ReductionProblem) -> int:
        """How many rows are all trained on, because they are few; says so where there are no more."""
        n_rows = len(problem.pool)
        if n_rows < LEAST_ROWS:
            warnings.warn(
                f"{n_rows} rows are too few to be reduced (fewer than {LEAST_ROWS}): {type(self).__name__} trains on "
                "all of them. Use SVC or CompactSVC on so little data.",
                ReductionWarning,
                stacklevel=5,
            )
        return SMALL if self._by_itself() else LEAST_ROWS - 1

    def _by_itself(self) -> bool:
        """Whether the user leaves it to the method how far rows are reduced."""
        return isinstance(self.delta, str)

    def _compact_machine(self, svm: Any, n_basis: int, key: int) -> Any:
        """The compact machine that takes the place of the exact SVM, behind the same scaling."""
        svm_parameters = last_step(svm).get_params()
        if self.compact_estimator is not None:
            compact = clone(self.compact_estimator).set_params(n_basis=n_basis)
        else:
            kernel = {name: svm_parameters[name] for name in ("gamma", "degree", "coef0") if name in svm_parameters}
            compact = CompactSVC(
                n_basis, kernel=svm_parameters.get("kernel", "linear"), C=svm_parameters.get("C", 1.0),
                class_weight=svm_parameters.get("class_weight"), refine=not callable(svm_parameters.get("kernel")),
                n_jobs=self.n_jobs, **kernel,
            )  # fmt: skip
        if "random_state" in compact.get_params() and compact.random_state is None:
            compact.set_params(random_state=key)
        if isinstance(svm, Pipeline):
            before = clone(svm)
            return Pipeline([*before.steps[:-1], (before.steps[-1][0], compact)])
        return compact

    def _publish(self, problem: ReductionProblem, sample: ReducedSet, run: Run) -> None:
        """The compact fit where one is asked for, and the attributes that both machines have."""
        rows, machine, support, seconds = sample.rows, sample.machine, sample.support, dict(sample.seconds)
        if self.n_basis is not None:
            start = time.perf_counter()
            compact = self._compact_machine(problem.svm, min(int(self.n_basis), len(rows)), run.key)
            machine = problem.fit(rows, sample.factor, compact)
            support = rows[support_positions(machine, problem.X[rows], problem.y[rows])]
            seconds["compact fit"] = time.perf_counter() - start
        self.estimator_ = machine
        self.training_indices_ = rows
        self.initial_support_ = sample.initial_support
        self.support_ = support
        self.n_support_initial_ = len(sample.initial_support)
        self.n_support_final_ = len(support)
        self.validation_error_ = sample.error
        self.history_ = sample.history
        self.phase_seconds_ = seconds
        model = model_or_none(machine)
        if model is not None and (before := getattr(self, "_inputs", None)) is not None:
            model = replace(model, inputs=model.inputs.after(before))
        self.model_ = None if model is None else with_columns(self, model)
        self.n_basis_ = self.model_.n_basis_ if self.model_ is not None else len(support)
        if self.model_ is not None:
            self.kernel_ = self.model_.kernel
            self.basis_vectors_ = self.model_.basis_vectors_
            self.dual_coef_ = self.model_.weights.T
            self.intercept_ = self.model_.intercept


@described(
    **_SHARED
    | {
        "min_improvement": _SHARED["min_improvement"].noted("That is 0: any fall will do."),
        "n_iter_no_change": _SHARED["n_iter_no_change"].noted(
            'That is 1 for variant="paper"; otherwise every beta is tried, on few rows.'
        ),
    },
    variant=parameter(
        '{"auto", "margin", "reweighted", "paper"}',
        '"margin" draws rows by their margins under a first SVM on random rows: all in or near the margin are equally '
        "likely, others up to ten times less, and each counts for as many rows as it stands for; it needs no "
        'subsamples and no beta. "reweighted" draws from balls and trains on at most `max_train` rows, each of which '
        "counts for n / n_reduced: C weighs the sum of all rows' losses, so without it a reduced machine is more "
        'regularised than the full one at the same C. "paper" is the procedure as printed, without limits and weights. '
        '"auto" is "margin", or "reweighted" where a parameter of the balls or of their search is given (`beta`, '
        "`beta_step`, `max_beta`, `intensity`, `n_subsamples`, `min_subsample_size`, `search_train`, "
        "`min_improvement`, `n_iter_no_change`, `validation_fraction`) or the estimator has no decision function.",
        one_of("auto", "margin", "reweighted", "paper"),
    ),
    n_subsamples=parameter('int or "auto"', "Number of subsamples.", auto_or(COUNT)),
    min_subsample_size=parameter(
        'int or "auto"',
        'Rows of a subsample at least, which "auto" keeps to; see `kompakt.reduce.plan_subsamples`.',
        auto_or(COUNT),
    ),
    beta=parameter(
        'float or "auto"',
        "Radius of the balls in units of the median distance of a support vector to its k-th nearest one, k = floor(ln "
        'm). "auto" tries `beta_step`, 2 `beta_step`, ... while the error on held-out rows falls.',
        auto_or(Rule("a positive number", POSITIVE.holds)),
    ),
    beta_step=parameter("float", 'Step of the search of beta="auto".', POSITIVE),
    max_beta=parameter("float", 'Largest value that beta="auto" tries.', POSITIVE),
    intensity=parameter(
        '{"relative", "literal", "peak", "count", "all"}',
        "How many rows of a ball are drawn, given its weight eta_j: a fraction min(1, m eta_j), eta_j itself (next to "
        "nothing), eta_j over the largest one, eta_j times the number of unused rows, or all of them.",
        one_of(*sorted(INTENSITY)),
    ),
    max_train=parameter(
        "float or int",
        "Rows of the reduced set at most, as a share of the rows or as a number; drawn rows are thinned evenly. None "
        'is 0.15, and 2,000 rows at least; no limit for variant="paper".',
    ),
    search_train=parameter(
        "float or int",
        "The same while beta is searched; the machine of the beta found is then trained on `max_train` rows. None is "
        '0.04, and 500 rows at least; no limit for variant="paper".',
    ),
)
class LocalSamplingSVC(ReducedSVC):
    """Support vector classifier trained on few rows, drawn where small SVMs have their support vectors.

    An SVM on random rows says how near every row is to the boundary; the nearer, the more likely it is drawn, and an
    exact SVM (or a compact one, see `n_basis`) is trained on what was drawn.  The paper's procedure: disjoint small
    subsamples are solved exactly; around each of their support vectors, rows are drawn from a ball, the more of them
    the denser the support vectors lie there.  Up to 5,000 rows are all trained on, by one exact SVM, unless `delta`,
    `beta`, `max_train`, `n_subsamples` or variant="paper" says how to reduce them; fewer than 100 always are.

    {parameters}

    Attributes
    ----------
    estimator_ : the machine trained on the reduced set
    variant_ : str
        What "auto" chose.
    training_indices_ : ndarray
        Numbers of the rows that `estimator_` was trained on: the reduced set, or all rows of positive weight.
    initial_support_, support_ : ndarray
        Row numbers of the subsamples' and of the last machine's support vectors.
    n_support_initial_, n_support_final_ : int
    beta_, radius_ : float
        Where rows were drawn from balls, as are `radii_` and `n_one_class_subsamples_`.
    row_weight_ : float
        Rows that each row of the reduced set counts for; 1 for variant="paper", an array for "margin".
    radii_ : ndarray of shape (n_support_initial_,)
        Distances to the k-th nearest support vector.
    delta_, n_subsamples_, subsample_size_ : what "auto" chose
    subsample_indices_ : list of ndarray
    n_one_class_subsamples_ : int
        Subsamples left out because they held one class.
    phase_seconds_ : dict
        Time of the subsamples, the radii, the sampling, the fits and the validation.
    history_ : list of dict
        One record per value of beta.
    validation_error_ : float
        nan where nothing was held out.
    classes_, n_basis_, model_, kernel_, basis_vectors_, dual_coef_, intercept_
        `model_` is None for an estimator that kompakt has no form for; then `estimator_` decides.

    Notes
    -----
    The last machine minimises ``1/2 |w|^2 + C sum_i r_i max(0, 1 - y_i f(x_i))`` over the rows of the reduced set,
    where r is `row_weight_`; with variant="paper" r is 1. The paper's delta, L and beta are `delta`, `n_subsamples` and
    `beta`; its m is `n_support_initial_`, its rho_j are `radii_` and its r is `radius_`. Its step (iv) draws a fraction
    eta_j of a ball, ``intensity="literal"``; the default draws min(1, m eta_j), with variant="paper" too.

    References
    ----------
    Barcenas, R., Gonzalez-Lima, M. D., Quiroz, A. J. (2018). A bagging and importance sampling approach to support
    vector machines. arXiv 1808.05917.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import LocalSamplingSVC
    >>> X, y = make_moons(3000, noise=0.2, random_state=0)
    >>> machine = LocalSamplingSVC(max_train=800, C=1.0, gamma=1.0, random_state=0).fit(X, y)
    >>> len(machine.training_indices_) < 1500, machine.score(X, y) > 0.95
    (True, True)
    """

    def __init__(
        self, *,
        n_basis: Any = None,
        kernel: Any = "rbf", gamma: Any = None, degree: int = 3, coef0: float = 0.0,
        C: Any = None,
        class_weight: Any = None,
        estimator: Any = None, compact_estimator: Any = None, variant: str = "auto",
        validation_fraction: float | None = None,
        delta: Any = "auto", n_subsamples: Any = "auto", min_subsample_size: Any = "auto", stratify: bool = False,
        beta: Any = "auto", beta_step: float = 0.1, max_beta: float = 1.0, intensity: str = "relative",
        max_train: float | int | None = None, search_train: float | int | None = None,
        min_improvement: float | None = None, n_iter_no_change: int | None = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_basis = n_basis
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.C = C
        self.class_weight = class_weight
        self.estimator, self.compact_estimator, self.variant = estimator, compact_estimator, variant
        self.validation_fraction = validation_fraction
        self.delta, self.n_subsamples, self.min_subsample_size = delta, n_subsamples, min_subsample_size
        self.stratify = stratify
        self.beta, self.beta_step, self.max_beta, self.intensity = beta, beta_step, max_beta, intensity
        self.max_train, self.search_train = max_train, search_train
        self.min_improvement, self.n_iter_no_change = min_improvement, n_iter_no_change
        self.n_jobs, self.random_state, self.verbose = n_jobs, random_state, verbose

    def _check(self) -> None:
        super()._check()
        if not 0 < float(self.beta_step) <= float(self.max_beta) < np.inf:
            raise ValueError(
                f"beta_step must be positive and at most max_beta; got {self.beta_step!r} and {self.max_beta!r}."
            )

    def _by_itself(self) -> bool:
        said = not isinstance(self.beta, str) or self.max_train is not None or not isinstance(self.n_subsamples, str)
        return super()._by_itself() and not said and self.variant != "paper"

    def _reduce(self, problem: ReductionProblem, run: Run) -> ReducedSet:
        n_rows = len(problem.y)
        max_train = _rows_of_share("max_train", self.max_train, n_rows)
        search_train = _rows_of_share("search_train", self.search_train, n_rows)
        self.variant_ = self.variant
        if self.variant == "auto":
            balls = any(getattr(self, name) != self._parameters[name].default for name in _OF_BALLS)
            self.variant_ = "reweighted" if balls or not hasattr(problem.svm, "decision_function") else "margin"
        printed = self.variant_ == "paper"
        if not printed:
            max_train = max(2_000, int(0.15 * n_rows)) if max_train is None else max_train
            search_train = min(max_train, max(500, int(0.04 * n_rows))) if search_train is None else search_train
        options = LocalSampling(
            self.variant_,
            delta=self.delta,
            n_subsamples=self.n_subsamples,
            min_subsample_size=self.min_subsample_size,
            beta=None if isinstance(self.beta, str) else float(self.beta),
            beta_step=float(self.beta_step),
            max_beta=float(self.max_beta),
            intensity=self.intensity,
            min_improvement=float(self.min_improvement or 0.0),
            n_iter_no_change=int(self.n_iter_no_change or (1 if printed else np.iinfo(np.int32).max)),
            validation_fraction=self._share(),
            stratify=bool(self.stratify),
            max_train=max_train,
            search_train=search_train,
            fit_last=self.n_basis is None,
            all_rows_up_to=self._all_rows_up_to(problem),
        )
        sample, plan = fit_local_sampling(problem, options, run)
        if len(sample.radii):
            self.beta_, self.radius_, self.radii_ = sample.beta, sample.radius, sample.radii
            self.n_one_class_subsamples_ = sample.n_one_class
        self.row_weight_, self.subsample_indices_ = sample.factor, sample.subsamples
        self.delta_, self.n_subsamples_, self.subsample_size_ = plan.delta, plan.n_subsamples, plan.size
        return sample


def _rows_of_share(name: str, value: Any, n: int) -> int | None:
    """A number of rows from a share of them, a number, or None."""
    if value is None:
        return None
    is_count = isinstance(value, Integral) and int(value) >= 2
    if isinstance(value, bool) or not (is_count or (isinstance(value, Real) and 0 < float(value) < 1)):
        raise ValueError(
            f"{name} must be None, a share of the rows between 0 and 1, or a number of at least 2; got {value!r}."
        )
    return int(value) if is_count else max(2, int(float(value) * n))


@described(
    **_SHARED
    | {
        "delta": _SHARED["delta"].noted('"auto" is at least 1,000 rows here.'),
        "min_improvement": _SHARED["min_improvement"].noted("That is 0.01."),
    },
    n_neighbors=parameter("int", "Neighbours of every support vector that join the next training set.", COUNT),
    fresh=parameter(
        "float",
        "Share of the rows that joins anew in each round; None takes `delta`.",
        Rule("None or a share of the rows from 0 to below 1", or_none(SHARE).holds),
    ),
    max_rounds=parameter("int", "Rounds at most.", COUNT),
)
class CGLQSVC(ReducedSVC):
    """Support vector classifier trained on support vectors of a subsample, their neighbours and fresh rows.

    A random subsample is solved; its support vectors, their nearest neighbours among all rows and a fresh random part
    make the next training set; and so on, until the error on held-out rows stops improving (Camelo, Gonzalez-Lima and
    Quiroz, as described by Barcenas, Gonzalez-Lima and Quiroz).  Up to 5,000 rows are all trained on, by one exact
    SVM, unless `delta` is given; fewer than 100 always are.

    {parameters}

    Attributes
    ----------
    estimator_, training_indices_, initial_support_, support_, n_support_initial_, n_support_final_, phase_seconds_,
    history_, validation_error_, classes_, n_basis_, model_
        As for `LocalSamplingSVC`; `history_` has one record per round.
    delta_ : float
    n_iter_ : int
        Rounds made.

    Notes
    -----
    Every round minimises ``1/2 |w|^2 + C sum_i max(0, 1 - y_i f(x_i))`` over its rows. The delta and the K of the
    papers' tables are `delta` and `n_neighbors`; the new random rows of step (iii) are a share `fresh`. Their
    error is that of test rows, ours that of held-out ones.

    References
    ----------
    Camelo, S. A., Gonzalez-Lima, M. D., Quiroz, A. J. (2015). Nearest neighbors method for support vector machines.
    Annals of Operations Research 235, 85-101.

    Barcenas, R., Gonzalez-Lima, M. D., Quiroz, A. J. (2018). A bagging and importance sampling approach to support
    vector machines. arXiv 1808.05917.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import CGLQSVC
    >>> X, y = make_moons(3000, noise=0.2, random_state=0)
    >>> machine = CGLQSVC(delta=0.1, C=1.0, gamma=1.0, random_state=0).fit(X, y)
    >>> len(machine.training_indices_) < 2000, machine.score(X, y) > 0.95
    (True, True)
    """

    def __init__(
        self, *,
        n_basis: Any = None,
        kernel: Any = "rbf", gamma: Any = None, degree: int = 3, coef0: float = 0.0,
        C: Any = None,
        class_weight: Any = None,
        estimator: Any = None, compact_estimator: Any = None,
        validation_fraction: float | None = None,
        delta: Any = "auto", stratify: bool = False,
        n_neighbors: int = 5, fresh: float | None = None, max_rounds: int = 10,
        min_improvement: float | None = None, n_iter_no_change: int | None = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_basis = n_basis
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.C = C
        self.class_weight = class_weight
        self.estimator, self.compact_estimator = estimator, compact_estimator
        self.validation_fraction = validation_fraction
        self.delta, self.stratify = delta, stratify
        self.n_neighbors, self.fresh, self.max_rounds = n_neighbors, fresh, max_rounds
        self.min_improvement, self.n_iter_no_change = min_improvement, n_iter_no_change
        self.n_jobs, self.random_state, self.verbose = n_jobs, random_state, verbose

    def _reduce(self, problem: ReductionProblem, run: Run) -> ReducedSet:
        options = CGLQ(
            delta=self.delta,
            n_neighbors=int(self.n_neighbors),
            fresh=None if self.fresh is None else float(self.fresh),
            max_rounds=int(self.max_rounds),
            min_improvement=0.01 if self.min_improvement is None else float(self.min_improvement),
            n_iter_no_change=int(self.n_iter_no_change or 1),
            validation_fraction=self._share(),
            stratify=bool(self.stratify),
            all_rows_up_to=self._all_rows_up_to(problem),
        )
        sample, self.delta_ = fit_cglq(problem, options, run)
        self.n_iter_ = max(1, len(sample.history))
        return sample
