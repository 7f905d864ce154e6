"""The flagship: compact machines with a chosen number of basis vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from kompakt.design import Design
from kompakt.estimators.base import (
    MachineClassifier,
    MachineRegressor,
    deadline_of,
    solver_settings,
)
from kompakt.estimators.prepare import Training, prepare
from kompakt.losses import make_loss
from kompakt.select import GivenSelector, RandomSelector, Selection
from kompakt.solve import Problem, solve
from kompakt.threads import block_threads


class _Compact:
    """Fit of both flagship estimators: choose a basis, then its weights."""

    _classifier: bool

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the machine.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 equals the row given twice; weight 0 leaves it out.

        Returns
        -------
        self
        """
        deadline = deadline_of(self.max_time)  # type: ignore[attr-defined]
        with block_threads(self.n_jobs):  # type: ignore[attr-defined]
            training = prepare(self, X, y, sample_weight, classifier=self._classifier)
            loss = make_loss(self.loss, classes=self._classifier, epsilon=self.epsilon)  # type: ignore[attr-defined]
            selection = self._select(training)
            design = Design(
                training.rows,
                training.kernel,
                selection.vectors,
                whiten=True,
                memory_budget=self.memory_budget,  # type: ignore[attr-defined]
            )
            problem = Problem(
                design,
                loss,
                float(self.C),  # type: ignore[attr-defined]
                fit_intercept=self.fit_intercept,  # type: ignore[attr-defined]
                penalize_intercept=self.penalize_intercept,  # type: ignore[attr-defined]
            )
            solution = solve(problem, None, solver_settings(self, deadline))
            model = self._build_model(training, selection.vectors, solution)  # type: ignore[attr-defined]
        self._publish(model, solution, training, selection.indices)  # type: ignore[attr-defined]
        self.n_kernel_evals_ = design.n_kernel_evals
        self.history_ = [
            {
                "n_basis": selection.n_basis,
                "objective": float(np.sum(solution.objective)),
                "n_iter": solution.n_iter,
            }
        ]
        self._report(solution, design, deadline)  # type: ignore[attr-defined]
        return self

    def _select(self, training: Training) -> Selection:
        selection: Any = self.selection  # type: ignore[attr-defined]
        if isinstance(selection, str):
            if selection != "random":
                raise ValueError(
                    f"selection must be 'random', an array of vectors or a selector object; got {selection!r}."
                )
            selection = RandomSelector()
        elif not hasattr(selection, "select"):
            selection = GivenSelector(selection)
        return selection.select(training.rows, training.kernel, int(self.n_basis), key=training.key)  # type: ignore[attr-defined]


class CompactSVC(_Compact, MachineClassifier):
    """Compact support vector classifier with a chosen number of basis vectors.

    Minimises ``1/2 beta' K beta + C sum_i s_i loss_i`` over the weights of `n_basis` basis vectors, with one shared
    basis for all classes.

    Parameters
    ----------
    n_basis : int, default=100
        Number of basis vectors.
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel, default="rbf"
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Width of the kernel; "scale" is 1 / (n_features * variance of X).
    degree : int, default=3
    coef0 : float, default=0.0
    C : float, default=1.0
        Cost of the losses.
    loss : {"squared_hinge", "hinge", "least_squares", "huber"} or Loss, default="squared_hinge"
    epsilon : float, default=None
        Where the Huber loss becomes linear; None takes the loss's default.
    selection : {"random"}, array of vectors or selector, default="random"
    coding : {"one_vs_rest", "one_vs_one", "minimum_output"}, default="one_vs_rest"
        How more than two classes become outputs on the shared basis.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
        Whether the intercept counts in the penalty.
    class_weight : dict or "balanced", default=None
    tol : float, default=1e-8
        Relative norm of the gradient at which a fit ends.
    max_iter : int, default=200
    max_time : float, default=None
        Seconds after which the fit stops with the best machine so far.
    memory_budget : int, default=None
        Bytes for stored kernel values (None: 1 GiB); a larger design is recomputed by blocks.
    n_jobs : int, default=None
        Threads over row blocks; None follows the BLAS limit in force.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
    basis_indices_ : ndarray of shape (n_basis_,) or None
        Row numbers of the basis vectors in X.
    dual_coef_ : ndarray of shape (n_outputs, n_basis_)
    intercept_ : ndarray of shape (n_outputs,)
    classes_ : ndarray of shape (n_classes,)
    n_basis_, n_iter_, converged_, n_kernel_evals_, objective_, jitter_, history_, gamma_, kernel_, model_

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import CompactSVC
    >>> X, y = make_moons(400, noise=0.1, random_state=0)
    >>> machine = CompactSVC(n_basis=20, random_state=0).fit(X, y)
    >>> machine.n_basis_, machine.score(X, y) > 0.95
    (20, True)
    """

    _classifier = True

    def __init__(
        self,
        n_basis: int = 100,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        C: float = 1.0,
        loss: Any = "squared_hinge",
        epsilon: float | None = None,
        selection: Any = "random",
        coding: str = "one_vs_rest",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: Any = None,
        tol: float = 1e-8,
        max_iter: int = 200,
        max_time: float | None = None,
        memory_budget: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_basis = n_basis
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.selection = selection
        self.coding = coding
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


class CompactSVR(_Compact, MachineRegressor):
    """Compact kernel regressor with a chosen number of basis vectors.

    Parameters
    ----------
    n_basis : int, default=100
        Number of basis vectors.
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel, default="rbf"
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    C : float, default=1.0
        Cost of the losses.
    loss : {"least_squares", "huber", "epsilon_insensitive", "absolute", "quantile"} or Loss, default="least_squares"
        `Quantile(q)` objects give other quantiles than the median.
    epsilon : float, default=None
        Width of the insensitive zone, or where the Huber loss becomes linear; None takes the loss's default.
    selection : {"random"}, array of vectors or selector, default="random"
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
    tol : float, default=1e-8
    max_iter : int, default=200
    max_time : float, default=None
    memory_budget : int, default=None
    n_jobs : int, default=None
    random_state : int, RandomState or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    basis_vectors_, basis_indices_, dual_coef_, intercept_, n_basis_, n_iter_, converged_, n_kernel_evals_,
    objective_, jitter_, history_, gamma_, kernel_, model_
        As for `CompactSVC`.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt import CompactSVR
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> machine = CompactSVR(n_basis=15, C=100.0, random_state=0).fit(X, np.sin(X).ravel())
    >>> round(machine.score(X, np.sin(X).ravel()), 2)
    1.0
    """

    _classifier = False

    def __init__(
        self,
        n_basis: int = 100,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        C: float = 1.0,
        loss: Any = "least_squares",
        epsilon: float | None = None,
        selection: Any = "random",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        tol: float = 1e-8,
        max_iter: int = 200,
        max_time: float | None = None,
        memory_budget: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_basis = n_basis
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.selection = selection
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
