"""`CGLQSVC`: an exact SVM on support vectors of a subsample, their neighbours and fresh rows (seed 003)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from kompakt.estimators.reduction import LEAST_ROWS, ReducedSVC, warn_not_reduced
from kompakt.estimators.samples import fit_on_sample
from kompakt.estimators.watch import watched
from kompakt.rows import Source
from kompakt.subsample import CGLQOptions, cglq, plan_subsamples
from kompakt.threads import block_threads


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
        with block_threads(self.n_jobs):
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
