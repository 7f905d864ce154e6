"""SpSVC: the greedy primal support vector classifier of Keerthi, Chapelle, DeCoste 2006."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kompakt.basis.forward import GrowthSelector
from kompakt.basis.scores import SELECTIONS
from kompakt.estimators.base import MachineClassifier
from kompakt.estimators.params import LEARNED_GAMMA, SWITCH, TABLE, auto_size, described, one_of, parameter
from kompakt.heldout import AutoSize
from kompakt.kernels import Kernel, Precomputed, Sum, make_kernel
from kompakt.losses import Loss, make_loss
from kompakt.methods.spsvm import EarlierGrowth, Grid, SpSVM, fit_spsvm
from kompakt.methods.steps import Fitted
from kompakt.run import Run
from kompakt.search.strategies import GridSearch
from kompakt.spec import Data


@described(
    n_basis=TABLE["n_basis"].noted(
        '"auto" picks it, up to 100, by cross-validation (`cv`): the smallest size that makes at most one mistake more '
        "than the best (none more if the best makes fewer than five); or on held-out rows with `validation_fraction`: "
        "the smallest one of the lowest error. ``AutoSize(tol=0)`` takes the lowest error in both cases, as the paper "
        "does.",
        options={AutoSize: ("largest", "n_iter_no_change", "tol")},
    ),
    kernel=TABLE["kernel"].noted(
        "For the polynomial kernel of the paper normalise the rows first (scikit-learn's `Normalizer`)."
    ),
    gamma=LEARNED_GAMMA,
    C=TABLE["C"].noted("1 / lambda of the paper."),
    loss=parameter(
        '{"squared_hinge", "least_squares", "huber"} or Loss',
        "Loss of a row, by name or as an object of `kompakt.losses`. None means the squared hinge, and least squares "
        "for kernel matching pursuit.",
    ),
    selection=parameter(
        '{"sp1", "sp2", "hybrid", "random", "cholesky", "gsvc", "bh", "mark", "kmp", "kmp_prefit"}',
        "How basis vectors are chosen: the rules of `GrowthSelector`, whose options are the paper's.",
        one_of(*SELECTIONS),
        {GrowthSelector: None},
    ),
    plus_one=parameter(
        "bool", "Use the kernel 1 + k, which regularises the threshold, in place of an intercept.", SWITCH
    ),
    tune=TABLE["tune"].noted(
        'By a grid, 2^-7, ..., 2^7 for both; the size too if n_basis is "auto".',
        options={GridSearch: ("C", "gamma")},
    ),
    cv=TABLE["cv"].noted("That is 3 folds."),
    validation_fraction=TABLE["validation_fraction"].noted(
        "None holds out none. Growth stops when their error has not fallen for 20 vectors (see `AutoSize`), the best "
        "size is kept, and the weights are fitted to all rows."
    ),
    warm_start=TABLE["warm_start"].noted("On the same rows."),
)
class SpSVC(MachineClassifier):
    """Support vector classifier whose basis is grown greedily on the primal objective.

    Forward selection (Keerthi, Chapelle, DeCoste 2006): at each step a few random rows are tried as the next basis
    vector, the one that lowers the squared-hinge objective most is added, and the weights are re-optimised.

    {parameters}

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
    basis_indices_ : ndarray of shape (n_basis_,)
        Row numbers of the basis vectors in X, in the order in which they were chosen; None if they were moved.
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    classes_ : ndarray of shape (n_classes,)
    C_, gamma_ : float
        In use, tuned or given.
    history_ : list of dict
        One record per step: size, objective, training and validation error, kernel evaluations, time.
    refinement_ : dict
        With refine=True: whether the moved vectors were kept, what was learned of the metric, objective and held-out
        loss before and after, and that loss along the descent.
    cv_errors_ : ndarray
        Validation errors, pooled over the held-out rows of all folds: (n_sizes,), or (n_gamma, n_C, n_sizes) when
        tuned.
    cv_results_ : dict of arrays
        When tuned, one entry per pair of C and gamma, at its best size: param_C, mean_test_error, ...
    n_basis_, n_iter_, converged_, n_kernel_evals_, objective_, jitter_, kernel_, model_

    Notes
    -----
    Growth ends before `n_basis` when all other rows lie in the span of the basis to rounding.

    ``1/2 |w|^2 + C/2 sum_i s_i max(0, 1 - y_i f(x_i))^2`` is minimised: the paper's eq. 4 divided by its lambda, so
    that ``C = 1 / lambda``. Its kappa is ``GrowthSelector(n_candidates=kappa)``, its d_max is `n_basis`. Its kernel
    ``1 + exp(-gamma d^2)`` is ``plus_one=True`` with the same gamma.

    References
    ----------
    Keerthi, S. S., Chapelle, O., DeCoste, D. (2006). Building support vector machines with reduced classifier
    complexity. Journal of Machine Learning Research 7, 1493-1515.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import SpSVC
    >>> X, y = make_moons(400, noise=0.1, random_state=0)
    >>> machine = SpSVC(n_basis=10, gamma=1.0, C=10.0, random_state=0).fit(X, y)
    >>> machine.n_basis_, machine.score(X, y) > 0.95
    (10, True)
    """

    def __init__(
        self, n_basis: Any = 100, *,
        kernel: Any = "rbf", gamma: Any = None, degree: int = 3, coef0: float = 0.0,
        C: Any = None, loss: Any = None, epsilon: float | None = None, fit_intercept: bool = True,
        penalize_intercept: bool = False, plus_one: bool = False,
        coding: Any = "one_vs_rest", class_weight: Any = None,
        selection: Any = "sp2", refine: Any = False, warm_start: bool = False,
        tune: Any = False, cv: Any = None, validation_fraction: float | None = None,
        tol: float = 1e-8, max_iter: int = 200, max_time: float | None = None, memory_budget: int | None = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_basis = n_basis
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.C, self.loss, self.epsilon, self.fit_intercept = C, loss, epsilon, fit_intercept
        self.penalize_intercept, self.plus_one = penalize_intercept, plus_one
        self.coding, self.class_weight = coding, class_weight
        self.selection, self.refine, self.warm_start = selection, refine, warm_start
        self.tune, self.cv, self.validation_fraction = tune, cv, validation_fraction
        self.tol, self.max_iter, self.max_time, self.memory_budget = tol, max_iter, max_time, memory_budget
        self.n_jobs, self.random_state, self.verbose = n_jobs, random_state, verbose

    def _train(self, data: Data, kernel: Kernel, run: Run) -> Fitted:
        auto = auto_size(self.n_basis)
        if self.plus_one and isinstance(kernel, Precomputed):
            raise ValueError("plus_one=True is not possible with kernel='precomputed': add 1 to your kernel matrices.")
        grid = None
        if self.tune:
            search = self.tune if isinstance(self.tune, GridSearch) else GridSearch()
            kernels = [kernel]
            if kernel.name in ("rbf", "laplacian", "poly") and isinstance(self.kernel, str):
                kernels = [
                    make_kernel(self.kernel, gamma=gamma, coef0=self.coef0, degree=self.degree)
                    for gamma in search.values("gamma")
                ]
            grid = Grid(kernels, search.values("C"))
        earlier = None
        if self.warm_start and hasattr(self, "basis_indices_"):
            earlier = EarlierGrowth(self.basis_indices_, self.basis_vectors_, self.history_, self.kernel_, self.C_)
        spec = self._spec(data, kernel + 1.0 if self.plus_one else kernel)
        options = SpSVM(
            spec=replace(spec, fit_intercept=bool(self.fit_intercept) and not self.plus_one),
            plan=self._plan(),
            selector=self._selector(),
            n_basis=int(self.n_basis) if auto is None else None,
            auto=auto or AutoSize(),
            left_open=self._left_open(),
            grid=grid,
            plus_one=bool(self.plus_one),
            cv=3 if self.cv is None else self.cv,
            validation_fraction=float(self.validation_fraction or 0.0),
            earlier=earlier,
        )
        return fit_spsvm(data, options, run)

    def _learned_metric(self) -> str | None:
        if self.plus_one and isinstance(self.gamma, str) and self.gamma == "full":
            raise ValueError("gamma='full' needs a kernel of its own; with plus_one=True take gamma='learn'.")
        return super()._learned_metric()

    def _selector(self) -> GrowthSelector:
        return GrowthSelector(self.selection) if isinstance(self.selection, str) else self.selection

    def _make_loss(self) -> Loss:
        rule = self._selector().rule
        matching = rule.startswith("kmp")
        name = "least_squares" if matching else "squared_hinge"
        loss = make_loss(name if self.loss is None else self.loss, classes=True, epsilon=self.epsilon)
        if matching and not loss.quadratic:
            raise ValueError(
                f"selection={rule!r} is matching pursuit on the least-squares loss; got loss={self.loss!r}. "
                "Leave loss=None, or use 'sp2' ('sp1'), the same methods on other losses."
            )
        return loss

    def _publish(self, fitted: Fitted) -> None:
        super()._publish(fitted)
        gamma = getattr(self.kernel_.parts[0] if isinstance(self.kernel_, Sum) else self.kernel_, "gamma", None)
        if gamma is not None:
            self.gamma_ = gamma
