"""CompactNovelty: is a row like those of the training?"""

from __future__ import annotations

from typing import Any

from sklearn.base import OutlierMixin

from kompakt.basis.build import Array
from kompakt.basis.refine import Refinement
from kompakt.estimators.base import KernelMachine
from kompakt.estimators.params import GIVEN_SIZE, OPEN_SHARE, TABLE, described, parameter
from kompakt.estimators.predicting import predicted
from kompakt.estimators.selectors import make_selector
from kompakt.kernels import Kernel
from kompakt.methods.novelty import Novelty as Options
from kompakt.methods.novelty import fit_novelty
from kompakt.methods.steps import Fitted
from kompakt.run import Run
from kompakt.spec import Data
from kompakt.train.task import Novelty, Task


@described(
    n_basis=GIVEN_SIZE,
    nu=parameter("float", "Share of new, normal rows that may be taken for outliers: the false alarms.", OPEN_SHARE),
    gamma=parameter(
        '{"scale", "auto"}, float or array of shape (n_features,)',
        'Width of the kernel, one number or one per feature; "scale" is 1 / (n_features * variance of X), "auto" 1 / '
        "n_features. None is six times \"scale\", or of 1, 2.5, 6 and 15 times what tells marked outliers best.",
    ),
    C=TABLE["C"].noted(
        doc="Cost of the losses: 1/2 beta' K beta + C sum_i s_i loss_i is minimised. None is 100 / sum_i s_i, or of "
        "10, 100 and 1000 / sum_i s_i what tells marked outliers best.",
    ),
    refine=TABLE["refine"].noted(options={Refinement: ("max_iter",)}),
    loss=TABLE["loss"].noted('"hinge" is the loss of the one-class SVM, whose nu is 1 / (C n rho).'),
)
class CompactNovelty(OutlierMixin, KernelMachine):
    """Compact novelty detector: the one-class support vector machine with a chosen number of basis vectors.

    The score f(x) = sum_j beta_j k(x, c_j) is large where training rows are dense.  The threshold is the `nu` quantile
    of the scores of held-out rows, so that a share `nu` of new, normal rows is taken for outliers.

    Training rows may hold a few outliers.  Rows that are known to be outliers are marked by y = -1: they choose width
    and C where these are left open, and the score is low at them.  Scale the features first (`StandardScaler`): the
    kernel has one width for all of them.

    {parameters}

    Attributes
    ----------
    offset_ : float
        The threshold: ``decision_function(X) = score_samples(X) - offset_``.
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
    basis_indices_ : ndarray of shape (n_basis_,) or None
        Row numbers of the basis vectors in X.
    dual_coef_, intercept_, n_basis_, n_iter_, converged_, n_kernel_evals_, objective_, jitter_, history_, gamma_, C_,
    kernel_, model_, refinement_, cv_results_
        As for `CompactSVC`; the intercept is minus the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt import CompactNovelty
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> machine = CompactNovelty(n_basis=20, nu=0.05, random_state=0).fit(X)
    >>> machine.predict([[0.0, 0.5], [4.0, -4.0]])
    array([ 1, -1])
    """

    fit_intercept, penalize_intercept, epsilon = False, False, None
    _learned_widths = ()
    _drops_matrix_rows = True

    def __init__(
        self, n_basis: int = 20, nu: float = 0.05, *,
        kernel: Any = "rbf", gamma: Any = None, degree: int = 3, coef0: float = 0.0,
        C: float | None = None, loss: Any = "squared_hinge",
        selection: Any = "gram", refine: Any = True,
        tol: float = 1e-8, max_iter: int = 200, max_time: float | None = None, memory_budget: int | None = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_basis, self.nu = n_basis, nu
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.C, self.loss = C, loss
        self.selection, self.refine = selection, refine
        self.tol, self.max_iter, self.max_time, self.memory_budget = tol, max_iter, max_time, memory_budget
        self.n_jobs, self.random_state, self.verbose = n_jobs, random_state, verbose

    def _task(self) -> Task:
        return Novelty()

    def _learned_metric(self) -> None:
        return None  # the objective has its minimum at the widest kernel

    def _train(self, data: Data, kernel: Kernel, run: Run) -> Fitted:
        options = Options(
            spec=self._spec(data, kernel),
            plan=self._plan(make_selector(self.selection)),
            n_basis=int(self.n_basis),
            nu=float(self.nu),
            width_is_open=self._width_is_open(),
            cost_is_open=self.C is None,
        )
        return fit_novelty(data, options, run)

    def predict(self, X: Any) -> Array:
        """1 for rows like those of the training, -1 for outliers.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return predicted(self, "predict", X)

    def decision_function(self, X: Any) -> Array:
        """Score above the threshold: negative for outliers.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return predicted(self, "decision_function", X)

    def score_samples(self, X: Any) -> Array:
        """Score f(x): the lower, the stranger the row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores: Array = self.decision_function(X) + self.offset_
        return scores
