"""Kernel Fisher discriminants: on all rows (Franc and Hlavac 2003, eq. 5-6) and on a projection basis (eq. 7)."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from kompakt.basis import GivenSelector, ProjectionSelector, Selection
from kompakt.checkpoint import step
from kompakt.codings import get_coding
from kompakt.design import Design
from kompakt.estimators.base import NOT_METADATA, MachineClassifier, checkpoints, watched
from kompakt.estimators.prepare import Training, held_rows, labelled_rows, prepare, splits_of
from kompakt.kernels import Kernel
from kompakt.parallel import block_threads
from kompakt.search.fixed_size import tune_width_and_cost
from kompakt.solve import fisher
from kompakt.validation import shuffled_folds

Array = np.ndarray

#: reg="scale", as a share of the mean diagonal entry of the within-class matrix
_RELATIVE = 0.01


class _Fisher(MachineClassifier):
    """Fit of both discriminants: a basis, the moments of the classes, one small problem per output."""

    __metadata_request__fit: ClassVar = NOT_METADATA

    @watched
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None) -> Any:
        """Fit the discriminant.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or rows from `kompakt.open_rows`
        y : array-like of shape (n_samples,)
            None for rows from `kompakt.open_rows`, which bring their targets and weights.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 equals the row given twice; weight 0 leaves it out.
        checkpoint : path-like, default=None
            File to which the state is written after every round. A fit that is killed goes on from it when it is
            called again with the same data and parameters, and gives the same machine to the last bit; the file is
            removed at the end.

        Returns
        -------
        self
        """
        me: Any = self
        number = isinstance(me.reg, int | float | np.number) and not isinstance(me.reg, bool)
        if not (number and np.isfinite(me.reg) and me.reg > 0) and not (isinstance(me.reg, str) and me.reg == "scale"):
            raise ValueError(
                f"reg must be 'scale' or a positive, finite number (it keeps the problem solvable); got {me.reg!r}."
            )
        if me.bias not in fisher.BIASES:
            raise ValueError(f"bias must be one of {fisher.BIASES}; got {me.bias!r}.")
        if isinstance(me.cv, Integral) and (isinstance(me.cv, bool) or me.cv < 2):
            raise ValueError(f"cv must be at least 2 folds, a splitter or a list of splits; got {me.cv!r}.")
        for name in ("cv_results_", "cv_error_"):
            self.__dict__.pop(name, None)
        with block_threads(self.n_jobs), checkpoints(self, checkpoint) as resume:  # type: ignore[attr-defined]
            streamed = resume(prepare(self, X, y, sample_weight, classifier=True))
            training = held_rows(self, streamed)
            assert training.classes is not None
            assert training.labels is not None
            rows = training.rows
            weights = rows.weights if rows.weights is None or rows.weights.ndim == 1 else rows.weights.max(axis=1)
            codes = get_coding(me.coding).codes(len(training.classes))
            searched = 0
            relative = _RELATIVE if isinstance(me.reg, str) else None
            if me.tune:
                kernel, relative, searched = self._search(training, weights, codes)
                training, streamed = replace(training, kernel=kernel), replace(streamed, kernel=kernel)
            selection, evaluations, basis_mass = self._basis(training, weights)
            design = Design(rows, training.kernel, selection.vectors, memory_budget=me.memory_budget)
            known: dict[str, Any] = {
                "labels": training.labels,
                "weights": weights,
                "priors": self._priors(training, weights),
            }
            if not training.whole and basis_mass is None:  # the basis is that of a sample; now all rows, by passes
                design = Design(
                    labelled_rows(streamed), streamed.kernel, selection.vectors, memory_budget=me.memory_budget
                )
                known = {"labels": None, "mass": streamed.mass_of, "priors": self._priors(streamed, None)}
            moments = fisher.class_moments(design, known["labels"], len(codes), known.get("weights"), known.get("mass"))
            scale = fisher.penalty_scale(moments, codes, basis_mass)
            reg = float(me.reg) if relative is None else relative * scale
            solution = fisher.minimise(
                design, codes=codes, reg=reg, bias=me.bias, basis_mass=basis_mass, moments=moments, **known
            )
            model = self._build_model(training, selection.vectors, solution)
        self._publish(model, solution, training, selection.indices)
        self.reg_ = reg
        self.n_kernel_evals_ = searched + evaluations + design.n_kernel_evals
        self.history_ = [{"n_basis": selection.n_basis, "objective": float(np.sum(solution.objective)), "n_iter": 1}]
        return self

    def _search(self, training: Training, weights: Array | None, codes: Array) -> tuple[Kernel, float, int]:
        """Kernel and relative penalty of the lowest cross-validated error, and the kernel values spent on them."""
        me: Any = self
        labels, rows, coding = training.labels, training.rows, get_coding(me.coding)
        assert labels is not None
        splits = self._splits(training)
        evaluations = 0

        def measure(kernel: Kernel, Cs: Array) -> tuple[Array, Array]:
            nonlocal evaluations
            losses, fold_errors, total = np.zeros(len(Cs)), np.empty((len(Cs), len(splits))), 0.0
            for v, (train, held) in enumerate(splits):
                own = None if weights is None else weights[train]
                part = replace(training, rows=rows.subset(train), labels=labels[train], kernel=kernel)
                selection, spent, basis_mass = self._basis(part, own)
                design = Design(part.rows, kernel, selection.vectors, memory_budget=me.memory_budget)
                moments = fisher.class_moments(design, part.labels, len(codes), own)
                scale = fisher.penalty_scale(moments, codes, basis_mass)
                options = {"weights": own, "bias": me.bias, "priors": self._priors(part, own), "moments": moments}
                solutions = [
                    fisher.minimise(design, part.labels, codes, reg=scale / C, basis_mass=basis_mass, **options)
                    for C in Cs
                ]
                outside = Design(rows.subset(held), kernel, selection.vectors, memory_budget=me.memory_budget)
                outputs = outside.matvec(np.concatenate([solution.weights for solution in solutions], axis=1))
                outputs += np.concatenate([solution.intercept for solution in solutions])
                here = np.ones(len(held)) if weights is None else weights[held]
                for k, values in enumerate(np.split(outputs, len(Cs), axis=1)):
                    wrong = here @ (coding.decode(values, len(codes)) != labels[held])
                    losses[k] += wrong
                    fold_errors[k, v] = wrong / here.sum()
                total += here.sum()
                evaluations += spent + design.n_kernel_evals + outside.n_kernel_evals
            return losses / total, fold_errors

        tuned = tune_width_and_cost(lambda kernel, Cs: step("evaluation", lambda: measure(kernel, Cs)), training.kernel)
        self.cv_results_ = tuned.cv_results
        self.cv_results_["param_reg_factor"] = 1.0 / self.cv_results_.pop("param_C")
        self.cv_error_ = tuned.error
        return tuned.kernel, 1.0 / tuned.C, evaluations

    def _splits(self, training: Training) -> list[tuple[Array, Array]]:
        """Rows to train on and rows held out; every class is in every training part."""
        me: Any = self
        labels, n_rows = training.labels, training.rows.n_rows
        assert labels is not None
        if isinstance(me.cv, Integral):
            fold = shuffled_folds(n_rows, int(me.cv), labels=labels, random_state=training.key)
            fold[np.bincount(labels)[labels] == 1] = -1  # the only row of its class is always trained on
            splits = [(np.flatnonzero(fold != v), np.flatnonzero(fold == v)) for v in range(fold.max() + 1)]
            return [(train, held) for train, held in splits if len(held)]
        if not training.whole:
            raise ValueError(f"streamed rows are cut into folds here: cv must be a whole number; got {me.cv!r}.")
        splits = splits_of(training, me.cv, classifier=True, random_state=training.key)
        for number, (train, _) in enumerate(splits):
            if len(np.unique(labels[train])) <= labels.max():
                raise ValueError(
                    f"split {number} of cv trains on rows that lack a class; expected rows of every class."
                )
        return splits

    def _basis(self, training: Training, weights: Array | None) -> tuple[Selection, int, Array | None]:
        """Basis vectors, kernel values spent on them, and the weight of the rows that each stands for (eq. 5)."""
        raise NotImplementedError

    def _priors(self, training: Training, weights: Array | None) -> Array | None:
        given: Any = self.priors  # type: ignore[attr-defined]
        assert training.classes is not None
        if given is None:
            return None
        n_classes = len(training.classes)
        if isinstance(given, str):
            if given != "empirical":
                raise ValueError(f"priors must be None (equal), 'empirical' or one number per class; got {given!r}.")
            mass = training.mass_of
            if mass is None or not training.streamed:
                assert training.labels is not None
                mass = np.bincount(training.labels, weights=weights, minlength=n_classes)
            return mass / mass.sum()
        priors = np.asarray(given, dtype=np.float64)
        if priors.shape != (n_classes,) or not np.all(priors > 0) or not np.all(np.isfinite(priors)):
            raise ValueError(
                f"priors must hold {n_classes} positive numbers, in the order of the sorted labels; got {given!r}."
            )
        return priors / priors.sum()


class KernelFisher(_Fisher):
    """Kernel Fisher discriminant on all training rows.

    Minimises ``a' N a + reg a'a`` subject to a distance of 2 between the projected class means, where N is the sum of
    the classes' covariances of kernel values.  Every row is a basis vector (equal rows share one, whose penalty is that
    of all of them), so time grows with n^3 and memory with n^2: `ProjectedKernelFisher` is the compact version.

    Parameters
    ----------
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel, default="rbf"
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    reg : "scale" or float, default="scale"
        Penalty on the squared multipliers.  A row of weight s counts as s equal rows here too.  "scale" is
        0.01 trace(N) / n, so that it follows the kernel's values; the C of Franc and Hlavac is 1 / reg.
    bias : {"gaussian", "midpoint", "search"}, default="gaussian"
        "gaussian" puts the threshold where the normal densities of the projected classes, each with its own variance,
        agree; "midpoint" the same with one common variance; "search" minimises the training error.
    priors : None, "empirical" or array of shape (n_classes,), default=None
        Prior probabilities of the classes for the threshold; None gives both sides of every output the same.  They
        take the place of class weights, which the discriminant's class-wise means and covariances do not see.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output"}, default="one_vs_rest"
    tune : bool, default=False
        Search for `reg` and the kernel's width by cross-validated error; every fold is fitted without its rows.
    cv : int, splitter or list of splits, default=5
        Folds of the search.
    memory_budget : int, default=None
    n_jobs : int, default=None
    random_state : int, RandomState or None, default=None
        Cuts the folds of `tune`; not used otherwise.
    verbose : int, default=0

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

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import KernelFisher
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> KernelFisher(gamma=2.0, reg=0.01).fit(X, y).score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        reg: Any = "scale",
        bias: str = "gaussian",
        priors: Any = None,
        coding: str = "one_vs_rest",
        tune: bool = False,
        cv: Any = 5,
        memory_budget: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.reg = reg
        self.bias = bias
        self.priors = priors
        self.coding = coding
        self.tune = tune
        self.cv = cv
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _basis(self, training: Training, weights: Array | None) -> tuple[Selection, int, Array | None]:
        rows = training.rows
        _, first, place = np.unique(rows.hashes(0), return_index=True, return_inverse=True)
        order = np.argsort(first)
        mass = np.bincount(place, weights=weights)[order].astype(np.float64)
        distinct = first[order]
        return Selection(indices=distinct, vectors=training.kernel.take_basis(rows, distinct)), 0, mass


class ProjectedKernelFisher(_Fisher):
    """Kernel Fisher discriminant on few vectors that span the training rows.

    The basis is that of `GreedyProjection`; only an m by m problem is solved, whose matrices are summed over row
    blocks.

    Parameters
    ----------
    n_basis : int, default=100
        Number of basis vectors at most.
    epsilon : float, default=0.0
        Stop adding vectors when every row's representation error is below it.
    pivot : {"max", "random"}, default="max"
    first : {"random", "norm"}, default="random"
    selection : {"projection"}, array of vectors or selector, default="projection"
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel, default="rbf"
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    reg : "scale" or float, default="scale"
        Penalty on the squared multipliers of the basis vectors.  "scale" is 0.01 trace(N) / n_basis, so that it follows
        the kernel's values; the C of Franc and Hlavac is 1 / reg.
    bias : {"gaussian", "midpoint", "search"}, default="gaussian"
    priors : None, "empirical" or array of shape (n_classes,), default=None
    coding : {"one_vs_rest", "one_vs_one", "minimum_output"}, default="one_vs_rest"
    tune : bool, default=False
        Search for `reg` and the kernel's width by cross-validated error; every fold chooses its vectors without its own
        rows.
    cv : int, splitter or list of splits, default=5
        Folds of the search.
    memory_budget : int, default=None
        Bytes for stored kernel values (None: 1 GiB); beyond, they are recomputed by blocks.
    n_jobs : int, default=None
    random_state : int, RandomState or None, default=None
    verbose : int, default=0

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
        self,
        n_basis: int = 100,
        *,
        epsilon: float = 0.0,
        pivot: str = "max",
        first: str = "random",
        selection: Any = "projection",
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        reg: Any = "scale",
        bias: str = "gaussian",
        priors: Any = None,
        coding: str = "one_vs_rest",
        tune: bool = False,
        cv: Any = 5,
        memory_budget: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_basis = n_basis
        self.epsilon = epsilon
        self.pivot = pivot
        self.first = first
        self.selection = selection
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.reg = reg
        self.bias = bias
        self.priors = priors
        self.coding = coding
        self.tune = tune
        self.cv = cv
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _basis(self, training: Training, weights: Array | None) -> tuple[Selection, int, Array | None]:
        selector = projection_selector(self)
        selection = step(
            "selection",
            lambda: selector.select(training.rows, training.kernel, int(self.n_basis), key=training.key),
            Selection,
        )
        return selection, int(selection.info.get("n_kernel_evals", 0)), None


def projection_selector(estimator: Any) -> Any:
    """The selector that the words of a projected machine ask for."""
    selection = estimator.selection
    if isinstance(selection, str):
        if selection != "projection":
            raise ValueError(
                f"selection must be 'projection', an array of vectors or a selector object; got {selection!r}."
            )
        return ProjectionSelector(
            float(estimator.epsilon), estimator.pivot, estimator.first, memory_budget=estimator.memory_budget
        )
    return selection if hasattr(selection, "select") else GivenSelector(selection)
