"""FEESVC and FEESVR: machines grown by fast error estimation (Navia-Vazquez and Diaz-Morales 2010)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from kompakt.basis.fee import SELECTIONS, FEESelector, SemiparametricMachine, Trial, fast_weights
from kompakt.estimators.base import KernelMachine, MachineClassifier, MachineRegressor
from kompakt.estimators.params import (
    SWITCH,
    ClassWeightParameters,
    CodingParameters,
    MachineParameters,
    ValidationParameters,
    auto_size,
    check_parameters,
    estimator,
    one_of,
    parameter,
    shared,
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


@shared
class _FastEstimation(ValidationParameters, MachineParameters, KernelMachine):
    """What classifier and regressor share: choosing a size, growing to it, weights to the end.

    Parameters
    ----------
    n_basis
        The size itself is chosen by validation (`cv` or `validation_fraction`); "auto" means up to 100. Growth stops
        20 steps (`n_iter_no_change`) after the lowest error.
    selection : {"fee", "sgma", "gsvc"}
        How basis vectors are chosen: "fee" takes the lowest estimated validation error, "sgma" the largest decrease of
        the representation error of the support vectors (SGMA-SVM), "gsvc" the support vector least like the basis.
    validation_fraction
        They choose vectors and size; the machine at the best step is returned. None holds out 0.2 of more than 2,000
        rows, and fewer rows are cut into folds. 0, with cv=None: no validation, growth to `n_basis` by the error on
        the training rows.
    cv
        Grow on every fold instead, and regrow on all rows to the mean of the folds' best sizes. None is five folds of
        up to 2,000 rows unless `validation_fraction` is given, as in the paper.
    refit : bool
        Fit the weights of the returned machine to all rows, those held out included; the paper does not.
    tune
        By the paper's two grids over `cv` (five folds if None), with the size; sets `search_`. Gaussian kernel only.
    n_jobs
        Processes too, in a search.
    """

    n_basis: Any = parameter(default=100, options={AutoSize: ("largest", "n_iter_no_change")}, kw_only=False)
    selection: Any = parameter(default="fee", rule=one_of(*SELECTIONS), options={FEESelector: None})
    refit: bool = parameter(default=True, rule=SWITCH)
    tune: Any = parameter(default=False, options={TwoGrids: None})

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


@estimator
class FEESVC(ClassWeightParameters, CodingParameters, _FastEstimation, MachineClassifier):
    """Support vector classifier grown by fast error estimation.

    The basis starts from the class means.  At each step a few support vectors are tried as the next basis vector; the
    validation error of the machine that each would give is estimated from the present one with the weights of its
    least-squares form kept, and the best joins (Navia-Vazquez and Diaz-Morales 2010).  Growth stops some
    steps after the lowest validation error.

    Parameters
    ----------
    kernel
        With "precomputed" the row nearest to each class mean takes its place.
    loss : {"squared_hinge", "hinge", "least_squares", "huber"} or Loss

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

    loss: Any = "hinge"

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
        wanted = {int(step) for step in steps}
        run = Run(int(check_random_state(self.random_state).randint(2**31 - 1)), memory_budget=self.memory_budget)
        with block_threads(self.n_jobs):
            check_parameters(self)
            data, kernel = prepare(self, X, y, sample_weight, run, task=self._task())
            points = np.asarray(grid, dtype=np.float64)
            points = points if data.rows.offset is None else points - data.rows.offset

            def look(machine: SemiparametricMachine, trial: Trial, winner: int) -> None:
                if machine.n_basis + 1 not in wanted:
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


@estimator
class FEESVR(_FastEstimation, MachineRegressor):
    """Kernel regressor grown by fast error estimation: `FEESVC` with the mean squared error of the validation rows.

    The basis starts from the mean of the rows.  With least squares, the default, these weights are constant, so the
    estimate of a candidate's validation error is its validation error.

    Parameters
    ----------
    loss : {"least_squares", "huber", "epsilon_insensitive", "absolute", "quantile"} or Loss

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

    loss: Any = "least_squares"
