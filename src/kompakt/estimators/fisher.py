"""Kernel Fisher discriminants: on all rows (Franc and Hlavac 2003, eq. 5-6) and on a projection basis (eq. 7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kompakt.estimators.base import MachineClassifier
from kompakt.estimators.params import GIVEN_SIZE, POSITIVE, SWITCH, TABLE, Rule, described, one_of, parameter
from kompakt.estimators.selectors import projection_selector
from kompakt.kernels import Kernel
from kompakt.methods.fisher import Fisher, fit_fisher
from kompakt.methods.steps import Fitted, LeftOpen
from kompakt.run import Run
from kompakt.solve import fisher
from kompakt.spec import Data

#: what both say of their parameters
_SHARED = {
    "reg": parameter(
        '"cv", "scale" or float',
        'Penalty on the squared multipliers; the C of Franc and Hlavac is 1 / reg. "scale" is 0.01 trace(N) over the '
        'number of basis vectors, so that it follows the kernel\'s values; "cv" takes another share than 0.01, of five '
        "from 0.1 to 1e-5, where five folds of at most 800 rows say that it is better by more than a standard error; "
        'it is "scale" below 100 rows.',
        Rule(
            "'cv', 'scale' or a positive, finite number (it keeps the problem solvable)",
            lambda value: value in ("cv", "scale") if isinstance(value, str) else POSITIVE.holds(value),
        ),
    ),
    "bias": parameter(
        '{"gaussian", "midpoint", "search"}',
        '"gaussian" puts the threshold where the normal densities of the projected classes, each with its own '
        'variance, agree; "midpoint" the same with one common variance; "search" minimises the training error.',
        one_of(*fisher.BIASES),
    ),
    "priors": parameter(
        'None, "empirical" or array of shape (n_classes,)',
        "Prior probabilities of the classes for the threshold; None gives both sides of every output the same, as in "
        "the paper. They take the place of class weights, which the discriminant's class-wise means and covariances do "
        "not see.",
    ),
    "tune": parameter(
        "bool",
        "Whether `reg` and the width of the kernel are chosen by held-out error, every fold fitted without its rows; "
        "sets `reg_` and `gamma_`.",
        SWITCH,
    ),
    "cv": TABLE["cv"].noted("That is 5 folds."),
}


class _Fisher(MachineClassifier):
    """Both discriminants: a basis, the moments of the classes, one small problem per output."""

    _learned_widths = ()
    reg: Any
    bias: str
    priors: Any

    def _train(self, data: Data, kernel: Kernel, run: Run) -> Fitted:
        return fit_fisher(data, self._options(kernel), run)

    def _options(self, kernel: Kernel) -> Fisher:
        return Fisher(
            kernel,
            self.coding,
            selector=None,
            n_basis=1000,
            left_open=LeftOpen(width=self._width_is_open()),
            reg=self.reg,
            bias=self.bias,
            priors=self.priors,
            tune=bool(self.tune),
            cv=5 if self.cv is None else self.cv,
        )


@described(**_SHARED | {"reg": _SHARED["reg"].noted("A row of weight s counts as s equal rows here too.")})
class KernelFisher(_Fisher):
    """Kernel Fisher discriminant on all training rows.

    Minimises ``a' N a + reg a'a`` subject to a distance of 2 between the projected class means, where N is the sum of
    the classes' covariances of kernel values.  Every row is a basis vector (equal rows share one, whose penalty is that
    of all of them), so time grows with n^3 and memory with n^2: `ProjectedKernelFisher` is the compact version.

    {parameters}

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    classes_ : ndarray of shape (n_classes,)
    reg_, gamma_ : float
        Values in force, tuned or given.
    cv_error_ : float
        With tune=True, the cross-validated share of wrong labels.
    cv_results_ : dict of arrays
        With tune=True, one entry per evaluated pair: param_gamma, param_reg_factor (reg divided by the mean diagonal
        entry of N), mean_test_error, std_test_error, ...
    n_basis_, basis_indices_, objective_, jitter_, n_kernel_evals_, kernel_, model_

    Notes
    -----
    ``a' N a + reg a'a`` is minimised subject to ``a' m = 2``, m the difference of the class means of kernel values.
    That is eq. 5 of the paper with ``e = e_+ - e_-`` in eq. 6, where a plus sign is printed. Its C is
    printed as the factor of the penalty, but its tables are reached with ``reg = 1 / C``. Its sigma is `gamma`.

    References
    ----------
    Franc, V., Hlavac, V. (2003). Training set approximation for kernel methods. Computer Vision Winter Workshop.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import KernelFisher
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> KernelFisher(gamma=2.0, reg=0.01).fit(X, y).score(X, y) > 0.95
    True
    """

    def __init__(
        self, *,
        kernel: Any = "rbf", gamma: Any = None, degree: int = 3, coef0: float = 0.0,
        reg: Any = "cv", bias: str = "gaussian", priors: Any = "empirical",
        coding: Any = "one_vs_rest",
        tune: Any = False, cv: Any = None,
        memory_budget: int | None = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.reg, self.bias, self.priors = reg, bias, priors
        self.coding = coding
        self.tune, self.cv = tune, cv
        self.memory_budget = memory_budget
        self.n_jobs, self.random_state, self.verbose = n_jobs, random_state, verbose


@described(
    **_SHARED,
    n_basis=GIVEN_SIZE,
    selection=TABLE["selection"].noted(
        '"gram" looks at the labels; "projection" is that of `GreedyProjection` and the paper, with the options '
        "`max_error`, `pivot` and `first`."
    ),
)
class ProjectedKernelFisher(_Fisher):
    """Kernel Fisher discriminant on few vectors that span the training rows.

    Only an m by m problem is solved, whose matrices are summed over row blocks.

    {parameters}

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
    basis_indices_ : ndarray of shape (n_basis_,) or None
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    classes_ : ndarray of shape (n_classes,)
    reg_, gamma_ : float
        Values in force, tuned or given.
    cv_error_ : float
        With tune=True, the cross-validated share of wrong labels.
    cv_results_ : dict of arrays
        With tune=True, one entry per evaluated pair: param_gamma, param_reg_factor (reg divided by the mean diagonal
        entry of N), mean_test_error, std_test_error, ...
    n_basis_, objective_, jitter_, n_kernel_evals_, kernel_, model_

    Notes
    -----
    ``a' N a + reg a'a`` is minimised subject to ``a' m = 2`` over the multipliers of the chosen vectors: eq. 7 of the
    paper, whose alpha' is `dual_coef_`. Its m (a number) is `n_basis`, its tables are reached with ``reg = 1 / C``, and
    its sigma is `gamma`. Its basis and bias are ``selection="projection"`` and ``priors=None``.

    References
    ----------
    Franc, V., Hlavac, V. (2003). Training set approximation for kernel methods. Computer Vision Winter Workshop.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import ProjectedKernelFisher
    >>> X, y = make_moons(400, noise=0.1, random_state=0)
    >>> machine = ProjectedKernelFisher(n_basis=20, gamma=2.0, reg=0.01, random_state=0).fit(X, y)
    >>> machine.n_basis_, machine.score(X, y) > 0.95
    (20, True)
    """

    def __init__(
        self, n_basis: Any = 200, *,
        kernel: Any = "rbf", gamma: Any = None, degree: int = 3, coef0: float = 0.0,
        reg: Any = "cv", bias: str = "gaussian", priors: Any = "empirical",
        coding: Any = "one_vs_rest",
        selection: Any = "gram",
        max_error: float = 0.0, pivot: str = "max", first: str = "random",
        tune: Any = False, cv: Any = None,
        memory_budget: int | None = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_basis = n_basis
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.reg, self.bias, self.priors = reg, bias, priors
        self.coding = coding
        self.selection = selection
        self.max_error, self.pivot, self.first = max_error, pivot, first
        self.tune, self.cv = tune, cv
        self.memory_budget = memory_budget
        self.n_jobs, self.random_state, self.verbose = n_jobs, random_state, verbose

    def _options(self, kernel: Kernel) -> Fisher:
        selector = projection_selector(self.selection, self.max_error, self.pivot, self.first, self.memory_budget)
        left_open = LeftOpen(width=self._width_is_open(), n_basis=self.n_basis)
        return replace(super()._options(kernel), selector=selector, n_basis=int(self.n_basis), left_open=left_open)
