"""FixedSizeLSSVC and FixedSizeLSSVR: prototypes, and ridge regression on them (De Brabanter et al. 2010)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kompakt.basis.gram import GramSelector
from kompakt.estimators.base import KernelMachine
from kompakt.estimators.params import (
    LEARNED_GAMMA,
    NUMBER_LOSS,
    SWITCH,
    TABLE,
    Rule,
    auto_size,
    described,
    one_of,
    parameter,
)
from kompakt.estimators.partial import PartialClassifier, PartialRegressor
from kompakt.estimators.selectors import make_selector
from kompakt.heldout import AutoSize
from kompakt.kernels import Kernel
from kompakt.methods.fixed_size import FixedSize, choose_prototypes, fit_fixed_size
from kompakt.methods.steps import Fitted
from kompakt.run import Run
from kompakt.search.strategies import Annealing, GridSearch, RandomSearch
from kompakt.spec import Basis, Data, Selector, Spec

#: what is said of losses other than least squares
_OTHER_LOSSES = "For other losses the width is tuned with least squares, and C by refitting every fold."
#: what both say of their parameters
_SHARED = {
    "n_basis": TABLE["n_basis"].noted(
        '"auto" picks by cross-validation the best of five sizes, doubling up to ten times the root of the number of '
        "rows, to all rows, or to 1,000, whichever is least; they are nested and share one set of features.",
        options={AutoSize: ("sizes", "rule")},
    ),
    "kernel": TABLE["kernel"].noted(
        "The linear kernel is solved in the input space, without prototypes (up to 2,000 features)."
    ),
    "gamma": LEARNED_GAMMA,
    "C": TABLE["C"].noted(
        "The paper's regularisation constant gamma; for the absolute error, which has no factor 1/2 here, half of it."
    ),
    "selection": TABLE["selection"].noted(
        '"auto" is "gram"; with tune=True cross-validation chooses between "gram", "renyi" and "random". "gram" is '
        "forward selection in Gram space, with tune=True once before the search, and once after it if that is better. "
        '"renyi" swaps prototypes to raise the quadratic Renyi entropy of the inputs, with wider bandwidths where the '
        'criterion is blind (`RenyiSelector()` is the plain one of the paper); "random", "projection" and "all" (every '
        "distinct row: the full LS-SVM) are names too.",
        type=TABLE["selection"].type.replace("{", '{"auto", '),
    ),
    "tune": TABLE["tune"].noted(
        "By cross-validated error; sets `cv_results_`. True searches the width and reads C off a path of exact "
        "cross-validations at each; `Annealing()` is the paper's search of both.",
        options={Annealing: None, GridSearch: ("n_points",), RandomSearch: None},
    ),
    "cv": TABLE["cv"].noted("That is 10 folds. Each split must train on all rows that it does not validate."),
    "cv_prototypes": parameter(
        '{"drop", "anew", "plain"}',
        "Prototypes of the folds' machines. They are chosen among all rows, and a row that is a prototype is shielded "
        'by a basis function of its own, so "plain" cross-validation, the paper\'s, reports too small an error. "drop" '
        'leaves out the prototypes that are rows of the fold, at no cost; "anew" chooses prototypes for every fold '
        "among the other rows, at the cost of a selection and of features per fold.",
        one_of("drop", "anew", "plain"),
    ),
}


class _FixedSize(KernelMachine):
    """What both do: choose prototypes, then search C, width and size by cross-validation on them."""

    cv_prototypes: str

    def _options(self, data: Data, kernel: Kernel) -> FixedSize:
        auto, any_selection = auto_size(self.n_basis), isinstance(self.selection, str) and self.selection == "auto"
        selector = make_selector("gram" if any_selection else self.selection)
        rivals: dict[str, Selector] = {"gram": selector} if isinstance(selector, GramSelector) else {}
        if any_selection:
            rivals |= {name: make_selector(name) for name in ("renyi", "random") if kernel.name != "precomputed"}
        return FixedSize(
            spec=self._spec(data, kernel),
            plan=self._plan(selector),
            selector=selector,
            n_basis=int(self.n_basis) if auto is None else None,
            auto=auto or AutoSize(),
            left_open=self._left_open(),
            tune=bool(self.tune),
            search=None if isinstance(self.tune, bool | np.bool_) else self.tune,
            cv=10 if self.cv is None else self.cv,
            cv_prototypes=self.cv_prototypes,
            rivals=rivals,
        )

    def _train(self, data: Data, kernel: Kernel, run: Run) -> Fitted:
        return fit_fixed_size(data, self._options(data, kernel), run)

    def _in_input_space(self, data: Data, kernel: Kernel) -> bool:
        return self._options(data, kernel).in_input_space(kernel, data.rows.n_features)

    def _first_basis(self, data: Data, spec: Spec, run: Run) -> Basis:
        """The basis of `partial_fit`, from its first batch."""
        return choose_prototypes(data, spec, self._options(data, spec.kernel), run)


@described(
    **_SHARED,
    loss=TABLE["loss"].noted(_OTHER_LOSSES),
    fit_intercept=TABLE["fit_intercept"].noted(
        '"fewest_errors" moves the intercept of each output, once the weights are found, to where the fewest training '
        "rows are on the wrong side. It helps where classes are very unequal, since least squares puts the boundary "
        "midway; the search does not know of it, `cv_error_` does.",
        rule=Rule(
            "True, False or 'fewest_errors'",
            lambda value: value == "fewest_errors" if isinstance(value, str) else SWITCH.holds(value),
        ),
    ),
    coding=TABLE["coding"].noted(
        '"one_vs_rest" and "minimum_output" (the paper\'s, with the fewest outputs and often twice the errors) share '
        'one factorisation; "one_vs_one" fits each pair of classes on its own rows.'
    ),
    shared_basis=parameter(
        "bool", "Whether one-vs-one uses all prototypes in every pair; by default those of the two classes.", SWITCH
    ),
)
class FixedSizeLSSVC(_FixedSize, PartialClassifier):
    """Fixed-size least-squares support vector classifier.

    Few rows, the prototypes, give Nystrom features, on which ridge regression is solved in closed form:
    ``1/2 |w|^2 [+ 1/2 b^2] + C/2 sum_i s_i e_i^2``. Exact cross-validation costs about as much as one fit.

    {parameters}

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
        Prototypes; for the linear kernel the weight vectors, one per output.
    basis_indices_ : ndarray of shape (n_basis_,) or None
        Their row numbers in X.
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    C_, gamma_ : float
        Values in force, tuned or given.
    cv_results_ : dict of arrays
        With tune=True, one entry per evaluated pair: param_C, param_gamma, mean_test_error, std_test_error, ... With
        coding="one_vs_one" the search (and `size_path_`) counts wrong sides of pairs, `cv_error_` wrong labels.
    cv_error_ : float
        With tune=True, cross-validated error of the machine chosen: the share of wrong labels (see `cv_prototypes`).
    out_of_fold_outputs_ : ndarray of shape (n_samples, n_outputs)
        With tune=True, outputs of every row under the machine trained without its fold.
    refinement_ : dict
        With refine=True: whether the moved vectors were kept, what was learned of the metric, objective and held-out
        loss before and after, and that loss along the descent.
    size_path_ : dict of arrays
        With n_basis="auto", the sizes and their errors.
    classes_ : ndarray of shape (n_classes,)
    n_basis_, n_iter_, converged_, n_kernel_evals_, objective_, jitter_, history_, kernel_, model_,
    selection_info_

    Notes
    -----
    The paper's gamma is `C`, the same number for least squares; `gamma` here is the width of the kernel. Its m is
    `n_basis`. Its eq. 7 penalises the intercept, ``penalize_intercept=True``; its eq. 6 and the default do not.

    References
    ----------
    De Brabanter, K., De Brabanter, J., Suykens, J. A. K., De Moor, B. (2010). Optimized fixed-size kernel models for
    large data sets. Computational Statistics and Data Analysis 54(6), 1484-1504.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import FixedSizeLSSVC
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> machine = FixedSizeLSSVC(n_basis=20, tune=True, random_state=0).fit(X, y)
    >>> machine.score(X, y) > 0.95, machine.n_basis_
    (True, 20)
    """

    def __init__(
        self, n_basis: Any = 100, *,
        kernel: Any = "rbf", gamma: Any = None, degree: int = 3, coef0: float = 0.0,
        C: Any = None, loss: Any = "least_squares", epsilon: float | None = None,
        fit_intercept: Any = True, penalize_intercept: bool = False,
        coding: Any = "one_vs_rest", class_weight: Any = None, shared_basis: bool = False,
        selection: Any = "auto", refine: Any = False,
        tune: Any = False, cv: Any = None, cv_prototypes: str = "drop",
        tol: float = 1e-8, max_iter: int = 200, max_time: float | None = None, memory_budget: int | None = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_basis = n_basis
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.C, self.loss, self.epsilon = C, loss, epsilon
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.coding, self.class_weight, self.shared_basis = coding, class_weight, shared_basis
        self.selection, self.refine = selection, refine
        self.tune, self.cv, self.cv_prototypes = tune, cv, cv_prototypes
        self.tol, self.max_iter, self.max_time, self.memory_budget = tol, max_iter, max_time, memory_budget
        self.n_jobs, self.random_state, self.verbose = n_jobs, random_state, verbose

    def _options(self, data: Data, kernel: Kernel) -> FixedSize:
        return replace(
            super()._options(data, kernel),
            shared_basis=bool(self.shared_basis),
            fewest_errors=isinstance(self.fit_intercept, str),
        )

    def _needs_all_rows(self) -> str | None:
        if isinstance(self.fit_intercept, str):
            return f"fit_intercept={self.fit_intercept!r} needs all rows at once: set fit_intercept=True"
        if self.coding == "one_vs_one" and not self.shared_basis:
            return "pairs of classes with prototypes of their own cannot be updated: set shared_basis=True"
        return super()._needs_all_rows()


@described(**_SHARED, loss=NUMBER_LOSS.noted(_OTHER_LOSSES))
class FixedSizeLSSVR(_FixedSize, PartialRegressor):
    """Fixed-size least-squares support vector regression.

    As `FixedSizeLSSVC`, for one or several numeric targets.

    {parameters}

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
        Prototypes; for the linear kernel the weight vectors, one per output.
    basis_indices_ : ndarray of shape (n_basis_,) or None
        Their row numbers in X.
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    C_, gamma_ : float
        Values in force, tuned or given.
    cv_results_ : dict of arrays
        With tune=True, one entry per evaluated pair: param_C, param_gamma, mean_test_error, std_test_error, ...
    cv_error_ : float
        With tune=True, cross-validated error of the machine chosen: the mean squared error, or the
        absolute one for losses other than least squares (see `cv_prototypes`).
    out_of_fold_outputs_ : ndarray of shape (n_samples, n_outputs)
        With tune=True, outputs of every row under the machine trained without its fold.
    refinement_ : dict
        With refine=True: whether the moved vectors were kept, what was learned of the metric, objective and held-out
        loss before and after, and that loss along the descent.
    size_path_ : dict of arrays
        With n_basis="auto", the sizes and their errors.
    n_basis_, n_iter_, converged_, n_kernel_evals_, objective_, jitter_, history_, kernel_, model_,
    selection_info_

    Notes
    -----
    ``1/2 |w|^2 [+ 1/2 b^2] + C sum_i s_i loss(y_i - f(x_i))`` is minimised, where least squares is half of the squared
    error. The paper's gamma is `C` for least squares, and ``C = gamma / 2`` for the absolute error; `gamma` here is the
    width of the kernel. Its m is `n_basis`. Its eq. 7 penalises the intercept, ``penalize_intercept=True``; its eq. 6
    and the default do not.

    References
    ----------
    De Brabanter, K., De Brabanter, J., Suykens, J. A. K., De Moor, B. (2010). Optimized fixed-size kernel models for
    large data sets. Computational Statistics and Data Analysis 54(6), 1484-1504.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt import FixedSizeLSSVR
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> machine = FixedSizeLSSVR(n_basis=15, C=1000.0, random_state=0).fit(X, np.sin(X).ravel())
    >>> round(machine.score(X, np.sin(X).ravel()), 2)
    1.0
    """

    def __init__(
        self, n_basis: Any = 100, *,
        kernel: Any = "rbf", gamma: Any = None, degree: int = 3, coef0: float = 0.0,
        C: Any = None, loss: Any = "least_squares", epsilon: float | None = None,
        fit_intercept: bool = True, penalize_intercept: bool = False,
        selection: Any = "auto", refine: Any = False,
        tune: Any = False, cv: Any = None, cv_prototypes: str = "drop",
        tol: float = 1e-8, max_iter: int = 200, max_time: float | None = None, memory_budget: int | None = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_basis = n_basis
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.C, self.loss, self.epsilon = C, loss, epsilon
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.selection, self.refine = selection, refine
        self.tune, self.cv, self.cv_prototypes = tune, cv, cv_prototypes
        self.tol, self.max_iter, self.max_time, self.memory_budget = tol, max_iter, max_time, memory_budget
        self.n_jobs, self.random_state, self.verbose = n_jobs, random_state, verbose
