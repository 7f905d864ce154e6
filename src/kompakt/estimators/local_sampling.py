"""`LocalSamplingSVC`: an exact SVM on rows drawn around the support vectors of small ones (seed 003)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from kompakt.estimators.reduction import LEAST_ROWS, ReducedSVC, warn_not_reduced
from kompakt.estimators.samples import fit_on_sample
from kompakt.estimators.watch import watched
from kompakt.rows import Source
from kompakt.subsample import LocalSamplingOptions, SubsamplePlan, local_sampling, plan_subsamples
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
    reweight : bool, default=False
        Whether each row of the reduced set counts for n / n_reduced rows in the last fit.  C weighs the sum of all
        rows' losses, so without it a reduced machine is more regularised than the full one at the same C.
    max_train : float or int, default=None
        Rows of the reduced set at most, as a share of the rows or as a number; drawn rows are thinned evenly.
    search_train : float or int, default=None
        The same while beta is searched; the machine of the beta found is then trained on up to `max_train` rows.
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
    row_weight_ : float
        Rows that each row of the reduced set counts for; 1 without `reweight`.
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
        reweight: bool = False,
        max_train: float | int | None = None,
        search_train: float | int | None = None,
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
        self.reweight = reweight
        self.max_train = max_train
        self.search_train = search_train
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
        with block_threads(self.n_jobs):
            X, y = self._begin(X, y, sample_weight)
            options, held = self._options(X, y)
            validate = None if held is None else lambda machine: self._error(machine, X, y, held)
            sample = local_sampling(
                X,
                y,
                self._pool,
                lambda rows, factor=1.0: self._fit_rows(self._svm, X, y, rows, factor),
                options,
                validate,
                fit_last=self.n_basis is None,
            )
            self._end(X, y, sample)
        self.beta_, self.radius_, self.radii_ = sample.beta, sample.radius, sample.radii
        self.row_weight_ = sample.factor
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
            "reweight": bool(self.reweight),
            "max_train": _rows_of_share("max_train", self.max_train, len(y)),
            "search_train": _rows_of_share("search_train", self.search_train, len(y)),
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


def _rows_of_share(name: str, value: Any, n: int) -> int | None:
    """A number of rows from a share of them, a number, or None."""
    if value is None:
        return None
    whole = isinstance(value, Integral) and int(value) >= 2
    if isinstance(value, bool) or not (whole or (isinstance(value, Real) and 0 < float(value) < 1)):
        raise ValueError(
            f"{name} must be None, a share of the rows between 0 and 1, or a number of at least 2; got {value!r}."
        )
    return int(value) if whole else max(2, int(float(value) * n))
