"""FEESVC and FEESVR: machines grown by fast error estimation (Navia-Vazquez and Diaz-Morales 2010)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from kompakt.basis.fee import SELECTIONS, FEESelector, SemiparametricMachine, Trial, fast_weights
from kompakt.estimators.base import KernelMachine, MachineClassifier, MachineRegressor
from kompakt.estimators.params import (
    LEARNED_GAMMA,
    NUMBER_LOSS,
    SWITCH,
    TABLE,
    auto_size,
    check_parameters,
    described,
    one_of,
    parameter,
)
from kompakt.heldout import AutoSize
from kompakt.kernels import RBF, Kernel
from kompakt.methods.fee import FEE, fit_fee
from kompakt.methods.steps import Fitted
from kompakt.parallel import block_threads
from kompakt.run import Run
from kompakt.search.fee import TwoGrids
from kompakt.spec import Data
from kompakt.train.data import prepare

Array = np.ndarray


#: what both say of their parameters
_SHARED = {
    "n_basis": TABLE["n_basis"].noted(
        'The size itself is chosen by validation (`cv` or `validation_fraction`); "auto" means up to 100. Growth stops '
        "20 steps (`n_iter_no_change`) after the lowest error.",
        options={AutoSize: ("largest", "n_iter_no_change")},
    ),
    "gamma": LEARNED_GAMMA,
    "selection": parameter(
        '{"fee", "sgma", "gsvc"}',
        'How basis vectors are chosen: "fee" takes the lowest estimated validation error, "sgma" the largest decrease '
        'of the representation error of the support vectors (SGMA-SVM), "gsvc" the support vector least like the '
        "basis.",
        one_of(*SELECTIONS),
        {FEESelector: None},
    ),
    "validation_fraction": TABLE["validation_fraction"].noted(
        "They choose vectors and size; the machine at the best step is returned. None holds out 0.2 of more than 2,000 "
        "rows, and fewer rows are cut into folds. 0, with cv=None: no validation, growth to `n_basis` by the error on "
        "the training rows."
    ),
    "cv": TABLE["cv"].noted(
        "Grow on every fold instead, and regrow on all rows to the mean of the folds' best sizes. None is five folds "
        "of up to 2,000 rows unless `validation_fraction` is given, as in the paper."
    ),
    "refit": parameter(
        "bool",
        "Fit the weights of the returned machine to all rows, those held out included; the paper does not.",
        SWITCH,
    ),
    "tune": TABLE["tune"].noted(
        "By the paper's two grids over `cv` (five folds if None), with the size; sets `search_`. Gaussian kernel only.",
        options={TwoGrids: None},
    ),
    "n_jobs": TABLE["n_jobs"].noted("Processes too, in a search."),
}


class _FastEstimation(KernelMachine):
    """What classifier and regressor share: from their parameters to the options of the method."""

    refit: bool

    def _train(self, data: Data, kernel: Kernel, run: Run) -> Fitted:
        return fit_fee(data, self._options(data, kernel), run)

    def _options(self, data: Data, kernel: Kernel) -> FEE:
        if self.tune and not isinstance(kernel, RBF):
            raise ValueError(f"tune=True searches the width of a Gaussian kernel; got kernel={self.kernel!r}.")
        auto = auto_size(self.n_basis)
        grids = self.tune if isinstance(self.tune, TwoGrids) else TwoGrids()
        return FEE(
            spec=self._spec(data, kernel),
            plan=self._plan(),
            selector=FEESelector(self.selection) if isinstance(self.selection, str) else self.selection,
            n_basis=int(self.n_basis) if auto is None else auto.largest or 100,
            n_iter_no_change=int((auto or AutoSize()).n_iter_no_change or 20),
            left_open=self._left_open(),
            grids=grids if self.tune else None,
            cv=self.cv,
            validation_fraction=None if self.validation_fraction is None else float(self.validation_fraction),
            refit=bool(self.refit),
            n_jobs=self.n_jobs,
        )


@described(
    **_SHARED,
    kernel=TABLE["kernel"].noted('With "precomputed" the row nearest to each class mean takes its place.'),
)
class FEESVC(_FastEstimation, MachineClassifier):
    """Support vector classifier grown by fast error estimation.

    The basis starts from the class means.  At each step a few support vectors are tried as the next basis vector; the
    validation error of the machine that each would give is estimated from the present one with the weights of its
    least-squares form kept, and the best joins (Navia-Vazquez and Diaz-Morales 2010).  Growth stops some
    steps after the lowest validation error.

    {parameters}

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
        Class means first, then rows; moved ones with refine=True.
    basis_indices_ : None
        Class means are no rows; see `selected_indices_`.
    selected_indices_ : ndarray of int
        Row numbers of the basis vectors behind the class means, in the order in which they were chosen.
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    classes_ : ndarray of shape (n_classes,)
    n_basis_ : int
    C_, gamma_ : float
    history_ : list of dict
        One record per size: estimated and actual validation error (`train_error` where nothing is held out); with folds
        the number of the fold.
    fold_sizes_, fold_errors_ : ndarray
        Best size and lowest error of every fold, with `cv`.
    refinement_ : dict
        With refine=True: whether the moved vectors were kept, what was learned of the metric, objective and held-out
        loss before and after, and that loss along the descent.
    search_ : FeeSearch
        All points of the search, with `tune=True`.
    cv_results_ : dict of arrays
        The same as a table, the chosen point with rank 1.
    n_iter_, converged_, objective_, jitter_, n_kernel_evals_ : see the other estimators

    Notes
    -----
    With the hinge, the default, ``1/2 |w|^2 + C sum_i s_i max(0, 1 - y_i f(x_i))`` is minimised, with a free intercept
    and w in the span of the basis. `C` is the paper's C of eq. 1 and of its Table 1; its eq. 6 prints 2 C. Its sigma is
    ``gamma = 1 / (2 sigma^2)``. Its R is `n_basis_`, its ten candidates and twenty steps are
    ``FEESelector(n_candidates=10)`` and ``AutoSize(n_iter_no_change=20)``.

    References
    ----------
    Navia-Vazquez, A., Diaz-Morales, R. (2010). Fast error estimation for efficient support vector machine growing.
    Neurocomputing 73.

    Examples
    --------
    >>> from kompakt import FEESVC
    >>> from kompakt.datasets import make_checkerboard
    >>> X, y = make_checkerboard(400, n_cells=2)
    >>> machine = FEESVC(C=100.0, random_state=0).fit(X, y)
    >>> bool(machine.n_basis_ < 40), bool(machine.score(X, y) > 0.93)
    (True, True)
    """

    def __init__(
        self, n_basis: Any = 100, *,
        kernel: Any = "rbf", gamma: Any = None, degree: int = 3, coef0: float = 0.0,
        C: Any = None, loss: Any = "hinge", epsilon: float | None = None,
        fit_intercept: bool = True, penalize_intercept: bool = False,
        coding: Any = "one_vs_rest", class_weight: Any = None,
        selection: Any = "fee", refine: Any = False,
        tune: Any = False, cv: Any = None, validation_fraction: float | None = None, refit: bool = True,
        tol: float = 1e-8, max_iter: int = 200, max_time: float | None = None, memory_budget: int | None = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_basis = n_basis
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.C, self.loss, self.epsilon = C, loss, epsilon
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.coding, self.class_weight = coding, class_weight
        self.selection, self.refine = selection, refine
        self.tune, self.cv, self.validation_fraction, self.refit = tune, cv, validation_fraction, refit
        self.tol, self.max_iter, self.max_time, self.memory_budget = tol, max_iter, max_time, memory_budget
        self.n_jobs, self.random_state, self.verbose = n_jobs, random_state, verbose

    def trace_candidates(
        self, X: Any, y: Any, grid: Any, steps: Sequence[int], sample_weight: Any = None
    ) -> list[tuple[int, Array, int]]:
        """Grow as `fit` would, and tell what the estimated machines of all candidates say at some sizes.

        Nothing of the estimator is changed but what validation of X sets.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        grid : array-like of shape (n_points, n_features)
            Where the estimated machines are evaluated.
        steps : sequence of int
            Sizes, with the candidate counted.

        Returns
        -------
        list of (size, values, winner)
            Decision values (n_candidates, n_points) of the first output, and the place of the candidate that was added.

        Examples
        --------
        >>> from kompakt import FEESVC
        >>> from kompakt.datasets import make_checkerboard
        >>> X, y = make_checkerboard(200, n_cells=2)
        >>> (size, values, winner), = FEESVC(C=100.0, random_state=0).trace_candidates(X, y, X[:5], [4])
        >>> size, values.shape
        (4, (10, 5))
        """
        traces: list[tuple[int, Array, int]] = []
        sizes = {int(step) for step in steps}
        run = Run(int(check_random_state(self.random_state).randint(2**31 - 1)), memory_budget=self.memory_budget)
        with block_threads(self.n_jobs):
            check_parameters(self)
            data, kernel = prepare(self, X, y, sample_weight, run, task=self._task())
            points = np.asarray(grid, dtype=np.float64)
            points = points if data.rows.offset is None else points - data.rows.offset

            def look(machine: SemiparametricMachine, trial: Trial, winner: int) -> None:
                if machine.n_basis + 1 not in sizes:
                    return
                means = machine.first_vectors.vectors[machine.used_vectors]
                selected = machine.columns.vectors(np.array([*machine.indices, *trial.indices]))
                K = machine.columns.kernel.block(points, np.concatenate([means, selected]))
                intercept, beta = fast_weights(machine, trial)
                m = machine.n_basis
                values = K[:, :m] @ beta[:, 0, :m].T + K[:, m:] * beta[:, 0, m]
                traces.append((m + 1, (values + intercept[:, 0]).T, winner))

            fit_fee(data, self._options(data, kernel), run, look)
        return traces


@described(**_SHARED, loss=NUMBER_LOSS)
class FEESVR(_FastEstimation, MachineRegressor):
    """Kernel regressor grown by fast error estimation: `FEESVC` with the mean squared error of the validation rows.

    The basis starts from the mean of the rows.  With least squares, the default, these weights are constant, so the
    estimate of a candidate's validation error is its validation error.

    {parameters}

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
        The mean of the rows first, then rows.
    selected_indices_, dual_coef_, intercept_, n_basis_, history_, fold_sizes_, fold_errors_, search_
        As for `FEESVC`; errors are mean squared errors.

    Notes
    -----
    With least squares, the default, ``1/2 |w|^2 + C/2 sum_i s_i (y_i - f(x_i))^2`` is minimised. The paper is about
    classes only; its symbols map as for `FEESVC`: ``gamma = 1 / (2 sigma^2)``, R is `n_basis_`, and its weights a_i are
    constant here, a_i = C s_i.

    References
    ----------
    Navia-Vazquez, A., Diaz-Morales, R. (2010). Fast error estimation for efficient support vector machine growing.
    Neurocomputing 73.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt import FEESVR
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> machine = FEESVR(C=1000.0, random_state=0).fit(X, np.sinc(X[:, 0]))
    >>> bool(machine.score(X, np.sinc(X[:, 0])) > 0.99)
    True
    """

    def __init__(
        self, n_basis: Any = 100, *,
        kernel: Any = "rbf", gamma: Any = None, degree: int = 3, coef0: float = 0.0,
        C: Any = None, loss: Any = "least_squares", epsilon: float | None = None,
        fit_intercept: bool = True, penalize_intercept: bool = False,
        selection: Any = "fee", refine: Any = False,
        tune: Any = False, cv: Any = None, validation_fraction: float | None = None, refit: bool = True,
        tol: float = 1e-8, max_iter: int = 200, max_time: float | None = None, memory_budget: int | None = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_basis = n_basis
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.C, self.loss, self.epsilon = C, loss, epsilon
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.selection, self.refine = selection, refine
        self.tune, self.cv, self.validation_fraction, self.refit = tune, cv, validation_fraction, refit
        self.tol, self.max_iter, self.max_time, self.memory_budget = tol, max_iter, max_time, memory_budget
        self.n_jobs, self.random_state, self.verbose = n_jobs, random_state, verbose
