"""`LocalSamplingSVC` and `CGLQSVC`: exact SVMs on a reduced training set (seed 003)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from kompakt.estimators.base import verbose_logging
from kompakt.estimators.reduction import LEAST_ROWS, ReducedSVC, warn_not_reduced
from kompakt.estimators.samples import fit_on_sample
from kompakt.estimators.watch import watched
from kompakt.rows import Source
from kompakt.subsample import (
    CGLQOptions,
    LocalSamplingOptions,
    SubsamplePlan,
    cglq,
    local_sampling,
    plan_subsamples,
)
from kompakt.subsample.local_sampling import INTENSITY
from kompakt.threads import block_threads


class LocalSamplingSVC(ReducedSVC):
    """Support vector classifier trained on few rows, drawn where small SVMs have their support vectors.

    Disjoint small subsamples are solved exactly; around each of their support vectors, rows are drawn from a ball, the
    more of them the denser the support vectors lie there; an exact SVM (or a compact one, see `n_basis`) is trained on
    the support vectors and what was drawn.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "sigmoid"} or callable, default="rbf"
    gamma : {"scale", "auto"} or float, default="scale"
        Of all rows, not of each subsample.
    degree : int, default=3
    coef0 : float, default=0.0
    C : float, default=1.0
    class_weight : dict or "balanced", default=None
    estimator : classifier, default=None
        Takes the place of ``SVC(kernel=..., C=...)``: any classifier with `support_` or a decision function, also
        behind scalers in a `Pipeline`.  Neighbours are looked for among the rows as given to `fit`.
    delta : float or "auto", default="auto"
        Share of the rows in all subsamples together.
    n_subsamples : int or "auto", default="auto"
    min_subsample_size : int or "auto", default="auto"
        What "auto" keeps to; see `kompakt.subsample.plan_subsamples`.
    stratify : bool, default=False
        Whether each subsample holds the classes in their shares.
    beta : float or "auto", default="auto"
        Radius of the balls in units of the median distance of a support vector to its k-th nearest one,
        k = floor(ln m).  "auto" tries `beta_step`, 2 `beta_step`, ... while the error on held-out rows falls.
    beta_step : float, default=0.1
    max_beta : float, default=1.0
    tol : float, default=0.0
        Share of the validation error by which it must fall for the search to go on.
    patience : int, default=1
        Values of beta without such a fall after which the search ends.
    intensity : {"relative", "literal", "peak", "count", "all"}, default="relative"
        How many rows of a ball are drawn, given its weight eta_j: a fraction min(1, m eta_j), eta_j itself (next to
        nothing), eta_j over the largest one, eta_j times the number of unused rows, or all of them.
    validation_fraction : float, default=0.1
        Share of the rows (at most 5,000) held out to search beta; they are not trained on.
    n_basis : int, default=None
        Number of vectors of a compact machine that is trained on the reduced set in place of the exact SVM.
    compact_estimator : kompakt classifier, default=None
        That machine; None takes `CompactSVC` with the SVM's kernel and C.
    n_jobs : int, default=None
        Threads over subsamples and blocks of rows; the result does not depend on it.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    estimator_ : the machine trained on the reduced set
    training_indices_ : ndarray
        Row numbers of the reduced set.
    initial_support_, support_ : ndarray
        Row numbers of the subsamples' and of the last machine's support vectors.
    n_support_initial_, n_support_final_ : int
    beta_, radius_ : float
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

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import LocalSamplingSVC
    >>> X, y = make_moons(3000, noise=0.2, random_state=0)
    >>> machine = LocalSamplingSVC(gamma=1.0, random_state=0).fit(X, y)
    >>> len(machine.training_indices_) < 1500, machine.score(X, y) > 0.95
    (True, True)
    """

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        C: float = 1.0,
        class_weight: Any = None,
        estimator: Any = None,
        delta: Any = "auto",
        n_subsamples: Any = "auto",
        min_subsample_size: Any = "auto",
        stratify: bool = False,
        beta: Any = "auto",
        beta_step: float = 0.1,
        max_beta: float = 1.0,
        tol: float = 0.0,
        patience: int = 1,
        intensity: str = "relative",
        validation_fraction: float = 0.1,
        n_basis: int | None = None,
        compact_estimator: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.C = C
        self.class_weight = class_weight
        self.estimator = estimator
        self.delta = delta
        self.n_subsamples = n_subsamples
        self.min_subsample_size = min_subsample_size
        self.stratify = stratify
        self.beta = beta
        self.beta_step = beta_step
        self.max_beta = max_beta
        self.tol = tol
        self.patience = patience
        self.intensity = intensity
        self.validation_fraction = validation_fraction
        self.n_basis = n_basis
        self.compact_estimator = compact_estimator
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @watched
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LocalSamplingSVC:
        """Fit the machine.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or rows from `kompakt.open_rows`
            Of streamed rows, a sample that fits in memory is trained on.
        y : array-like of shape (n_samples,)
            None for rows from `kompakt.open_rows`, which bring their targets and weights.
        sample_weight : array-like of shape (n_samples,), default=None
            Handed to the exact SVM; rows of weight 0 are left out.

        Returns
        -------
        self
        """
        if isinstance(X, Source):
            return fit_on_sample(self, X, y, sample_weight, classifier=True)
        self._check_search()
        with verbose_logging(self.verbose), block_threads(self.n_jobs):
            X, y = self._begin(X, y, sample_weight)
            options, held = self._options(X, y)
            validate = None if held is None else lambda machine: self._error(machine, X, y, held)
            sample = local_sampling(
                X,
                y,
                self._pool,
                lambda rows: self._fit_rows(self._svm, X, y, rows),
                options,
                validate,
                fit_last=self.n_basis is None,
            )
            self._end(X, y, sample)
        self.beta_, self.radius_, self.radii_ = sample.beta, sample.radius, sample.radii
        self.delta_, self.n_subsamples_ = options.plan.delta, options.plan.n_subsamples
        self.subsample_size_ = options.plan.size
        self.subsample_indices_ = sample.subsamples
        self.n_one_class_subsamples_ = sample.n_one_class
        return self

    def _options(self, X: Any, y: Any) -> tuple[LocalSamplingOptions, Any]:
        """The options, and the rows held out or None."""
        shared: dict[str, Any] = {
            "beta_step": float(self.beta_step),
            "max_beta": float(self.max_beta),
            "tol": float(self.tol),
            "patience": int(self.patience),
            "intensity": self.intensity,
            "stratify": bool(self.stratify),
            "key": self._key,
        }
        beta = None if isinstance(self.beta, str) else float(self.beta)
        n = len(self._pool)
        if n < LEAST_ROWS:
            # one subsample of all rows: its support vectors are the solution, and there is nothing left to draw
            warn_not_reduced(n, type(self).__name__)
            plan = SubsamplePlan(1.0, 1, n)
            return LocalSamplingOptions(plan, self.beta_step if beta is None else beta, **shared), None
        held = self._hold_out(y, self.validation_fraction) if beta is None else None
        counts = np.unique(y[self._pool], return_counts=True)[1]
        plan = plan_subsamples(
            counts,
            X.shape[1],
            delta=self.delta,
            n_subsamples=self.n_subsamples,
            min_subsample_size=self.min_subsample_size,
        )
        if plan.size < 2:
            raise ValueError(
                f"delta={plan.delta:g} of {len(self._pool)} rows in {plan.n_subsamples} subsamples leaves {plan.size} "
                "rows in each; at least 2 are needed. Raise delta or lower n_subsamples."
            )
        return LocalSamplingOptions(plan, beta, **shared), held

    def _check_search(self) -> None:
        beta = self.beta
        number = isinstance(beta, Real) and not isinstance(beta, bool) and 0 < float(beta) < np.inf
        if not number and not (isinstance(beta, str) and beta == "auto"):
            raise ValueError(f"beta must be 'auto' or a positive number; got {beta!r}.")
        if not 0 < float(self.beta_step) <= float(self.max_beta) < np.inf:
            raise ValueError(
                f"beta_step must be positive and at most max_beta; got {self.beta_step!r} and {self.max_beta!r}."
            )
        if self.intensity not in INTENSITY:
            raise ValueError(f"intensity must be one of {sorted(INTENSITY)}; got {self.intensity!r}.")


class CGLQSVC(ReducedSVC):
    """Support vector classifier trained on support vectors of a subsample, their neighbours and fresh rows.

    A random subsample is solved; its support vectors, their nearest neighbours among all rows and a fresh random part
    make the next training set; and so on, until the error on held-out rows stops improving (Camelo, Gonzalez-Lima and
    Quiroz, as described in seed 003).

    Parameters
    ----------
    kernel, gamma, degree, coef0, C, class_weight, estimator
        As for `LocalSamplingSVC`.
    delta : float or "auto", default="auto"
        Share of the rows in the first subsample.
    n_neighbors : int, default=5
    fresh : float, default=None
        Share of the rows that joins anew in each round; None takes `delta`.
    stratify : bool, default=False
        Whether the first subsample holds the classes in their shares.
    tol : float, default=0.01
        Share of the validation error by which it must fall for the rounds to go on.
    patience : int, default=1
    max_iter : int, default=10
        Rounds at most.
    validation_fraction : float, default=0.1
        Share of the rows (at most 5,000) held out; they are not trained on.
    n_basis : int, default=None
    compact_estimator : kompakt classifier, default=None
    n_jobs : int, default=None
    random_state : int, RandomState or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    estimator_, training_indices_, initial_support_, support_, n_support_initial_, n_support_final_, phase_seconds_,
    history_, validation_error_, classes_, n_basis_, model_
        As for `LocalSamplingSVC`; `history_` has one record per round.
    delta_ : float
    n_iter_ : int
        Rounds made.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import CGLQSVC
    >>> X, y = make_moons(3000, noise=0.2, random_state=0)
    >>> machine = CGLQSVC(gamma=1.0, random_state=0).fit(X, y)
    >>> len(machine.training_indices_) < 2000, machine.score(X, y) > 0.95
    (True, True)
    """

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        C: float = 1.0,
        class_weight: Any = None,
        estimator: Any = None,
        delta: Any = "auto",
        n_neighbors: int = 5,
        fresh: float | None = None,
        stratify: bool = False,
        tol: float = 0.01,
        patience: int = 1,
        max_iter: int = 10,
        validation_fraction: float = 0.1,
        n_basis: int | None = None,
        compact_estimator: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.C = C
        self.class_weight = class_weight
        self.estimator = estimator
        self.delta = delta
        self.n_neighbors = n_neighbors
        self.fresh = fresh
        self.stratify = stratify
        self.tol = tol
        self.patience = patience
        self.max_iter = max_iter
        self.validation_fraction = validation_fraction
        self.n_basis = n_basis
        self.compact_estimator = compact_estimator
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @watched
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CGLQSVC:
        """Fit the machine.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or rows from `kompakt.open_rows`
            Of streamed rows, a sample that fits in memory is trained on.
        y : array-like of shape (n_samples,)
            None for rows from `kompakt.open_rows`, which bring their targets and weights.
        sample_weight : array-like of shape (n_samples,), default=None
            Handed to the exact SVM; rows of weight 0 are left out.

        Returns
        -------
        self
        """
        self._check_rounds()
        if isinstance(X, Source):
            return fit_on_sample(self, X, y, sample_weight, classifier=True)
        with verbose_logging(self.verbose), block_threads(self.n_jobs):
            X, y = self._begin(X, y, sample_weight)
            options, held = self._options(X, y)
            result = cglq(
                X,
                y,
                self._pool,
                lambda rows: self._fit_rows(self._svm, X, y, rows),
                options,
                lambda machine: self._error(machine, X, y, held),
            )
            self._end(X, y, result)
        self.delta_ = options.delta
        self.n_iter_ = max(1, len(self.history_))
        return self

    def _options(self, X: Any, y: Any) -> tuple[CGLQOptions, Any]:
        """The options, and the rows to validate on."""
        shared: dict[str, Any] = {
            "n_neighbors": int(self.n_neighbors),
            "tol": float(self.tol),
            "patience": int(self.patience),
            "stratify": bool(self.stratify),
            "key": self._key,
        }
        n = len(self._pool)
        if n < LEAST_ROWS:
            # the first "subsample" is all rows, and no round follows
            warn_not_reduced(n, type(self).__name__)
            return CGLQOptions(1.0, fresh=0.0, max_iter=0, **shared), self._pool
        held = self._hold_out(y, self.validation_fraction)
        counts = np.unique(y[self._pool], return_counts=True)[1]
        plan = plan_subsamples(counts, X.shape[1], delta=self.delta, n_subsamples=1)
        fresh = plan.delta if self.fresh is None else float(self.fresh)
        return CGLQOptions(plan.delta, fresh=fresh, max_iter=int(self.max_iter), **shared), held

    def _check_rounds(self) -> None:
        k = self.n_neighbors
        if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
            raise ValueError(f"n_neighbors must be a whole number of at least 1; got {k!r}.")
        fresh = self.fresh
        if fresh is not None and (not isinstance(fresh, Real) or not 0 <= float(fresh) < 1):
            raise ValueError(f"fresh must be None or a share of the rows from 0 to below 1; got {fresh!r}.")
