"""FEESVC and FEESVR: machines grown by fast error estimation (Navia-Vazquez and Diaz-Morales 2010)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from kompakt.basis.build import Machine
from kompakt.basis.fee import (
    SELECTIONS,
    FeeGrowth,
    FeePlan,
    FEESelector,
    Observer,
    SemiparametricMachine,
    Trial,
    fast_weights,
    grow_on,
)
from kompakt.basis.forward import CandidateStream, Record
from kompakt.data import hash_rows
from kompakt.design import Design
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
from kompakt.kernels import RBF
from kompakt.parallel import block_threads
from kompakt.run import Run
from kompakt.search.fee import C_EXPONENTS, SIGMA_EXPONENTS, TwoGrids, search_fee
from kompakt.solve import Problem, solve
from kompakt.spec import Basis
from kompakt.train.data import prepare, splits_of
from kompakt.train.pipeline import Fit
from kompakt.validation import AutoSize, holdout

Array = np.ndarray

#: up to so many rows folds choose the size; one fifth of more rows says enough
_FEW_ROWS = 2000


@shared
class _FastEstimation(ValidationParameters, MachineParameters, KernelMachine):
    """What classifier and regressor share: choosing a size, growing to it, weights to the end.

    Parameters
    ----------
    n_basis
        The size itself is chosen by validation (`cv` or `validation_fraction`); "auto" means up to 100. Growth stops
        20 steps (`n_iter_no_change`) after the lowest error.
    selection
        "fee" takes the lowest estimated validation error, "sgma" the largest decrease of the representation error of
        the support vectors (SGMA-SVM), "gsvc" the support vector least like the basis.
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

    def _size(self) -> int | str:
        auto = auto_size(self.n_basis)
        return int(self.n_basis) if auto is None else auto.largest or 100

    def _growth_plan(self, fit: Fit) -> FeePlan:
        assert fit.n_basis is not None
        selector = FEESelector(self.selection) if isinstance(self.selection, str) else self.selection
        steps = (auto_size(self.n_basis) or AutoSize()).n_iter_no_change
        return selector.plan(fit.n_basis, int(steps or 20), fit.run)

    def _search(self, fit: Fit) -> None:
        """Sigma, C and the size by the paper's protocol, with `tune=True`."""
        plan = self._growth_plan(fit)
        if not self.tune:
            super()._search(fit)
            return
        if not isinstance(fit.spec.kernel, RBF):
            raise ValueError(f"tune=True searches the width of a Gaussian kernel; got kernel={self.kernel!r}.")
        grids = self.tune if isinstance(self.tune, TwoGrids) else TwoGrids()
        sigmas = SIGMA_EXPONENTS if grids.sigma_exponents is None else grids.sigma_exponents
        costs = C_EXPONENTS if grids.C_exponents is None else grids.C_exponents
        plan = replace(plan, run=fit.run.inner())
        splits = splits_of(fit.data, 5 if self.cv is None else self.cv, fit.run.key)
        found = search_fee(fit.data, fit.spec, plan, splits, sigmas, costs, rule=grids.rule, n_jobs=self.n_jobs)
        best = found.best
        fit.spec = replace(fit.spec, kernel=RBF(best.gamma), C=best.C)
        fit.n_basis = best.size
        fit.trials = found.trials
        fit.attributes |= {"search_": found, "fold_errors_": best.errors, "fold_sizes_": best.sizes}

    def _choose_basis(self, fit: Fit) -> Machine:
        machine, growth, train = self._grow(fit)
        data, kernel = fit.data, fit.spec.kernel
        n_vectors = min(len(machine.used_vectors), growth.size)
        selected = np.array(machine.indices[: growth.size - n_vectors], dtype=np.intp)
        vectors = machine.first_vectors.vectors[machine.used_vectors[:n_vectors]]
        if len(selected):
            vectors = np.concatenate([vectors, kernel.take_basis(data.rows, selected).astype(vectors.dtype)])
        fit.attributes["selected_indices_"] = data.original(selected)
        basis, evaluations = Basis(None, vectors), machine.columns.n_evals
        if growth.interrupted:  # at once, not solved to the end
            return Machine(fit.spec, basis, machine.solution(growth.coordinates), evaluations, interrupted=True)
        if not self.refit and len(train) < data.rows.n_rows:
            # rows that chose vectors and size would flatter the weights: neither they nor refinement see them
            part = data.subset(train)
            fit.data = replace(data, rows=part.rows, labels=part.labels, y=part.y, kept=data.original(train))
        design = Design(fit.data.rows, kernel, vectors, whiten=True, memory_budget=fit.run.memory_budget)
        start = np.zeros((growth.size + 1, machine.n_outputs))
        start[:-1] = growth.coordinates[:, machine.first :].T
        if machine.first:
            start[-1] = growth.coordinates[:, 0]
        solution = solve(Problem.of(design, fit.spec), start, fit.plan.settings(fit.run))
        return Machine(fit.spec, basis, solution, evaluations + design.n_kernel_evals)

    def _grow(self, fit: Fit, observe: Observer | None = None) -> tuple[SemiparametricMachine, FeeGrowth, Array]:
        """The machine, its growth and the rows it was trained on; `observe` sees the steps of its growth."""
        data, spec, key = fit.data, fit.spec, fit.run.key
        plan = self._growth_plan(fit)
        stream = CandidateStream.of(hash_rows(data.in_memory.X, key), key)
        share = 0.2 if self.validation_fraction is None else float(self.validation_fraction)
        cv = self.cv
        if cv is None and self.validation_fraction is None and data.rows.n_rows <= _FEW_ROWS:
            rarest = data.rows.n_rows if data.labels is None else int(np.bincount(data.labels).min())
            cv = min(5, rarest) if rarest > 1 else None
        if cv is None and share and not self.tune:
            # one held-out part: the machine at its best step
            target = data.y if data.labels is None else data.labels
            assert target is not None
            train, held = holdout(target, share, classifier=data.classifier, random_state=key)
            machine, growth = grow_on(data, spec, plan, stream, (train, held), observe=observe)
            fit.attributes["history_"] = growth.records
            return machine, growth, train
        history: list[Record] = []
        n_evals = 0
        if cv is not None and not self.tune:
            inner, sizes, errors = replace(plan, run=fit.run.inner()), [], []
            for number, split in enumerate(splits_of(data, cv, key)):
                machine, growth = grow_on(data, spec, inner, stream, split)
                history += [{"fold": number, **record} for record in growth.records]
                n_evals += machine.columns.n_evals
                sizes.append(growth.size)
                errors.append(growth.error)
            fit.attributes |= {"fold_sizes_": np.array(sizes), "fold_errors_": np.array(errors)}
            plan = replace(plan, n_basis=max(1, round(float(np.mean(sizes)))))
        train = np.arange(data.rows.n_rows)
        everything = train, np.empty(0, dtype=np.intp)
        plan = replace(plan, patience=None)
        machine, growth = grow_on(data, spec, plan, stream, everything, observe=observe)
        machine.columns.n_evals += n_evals
        fit.attributes["history_"] = history + growth.records
        return machine, growth, train


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
        found: list[tuple[int, Array, int]] = []
        wanted = {int(step) for step in steps}
        run = Run(int(check_random_state(self.random_state).randint(2**31 - 1)), memory_budget=self.memory_budget)
        with block_threads(self.n_jobs):
            check_parameters(self)
            data, first = prepare(self, X, y, sample_weight, run, classifier=True)
            spec, _ = self._settled(data, self._spec(data, first), run)
            points = np.asarray(grid, dtype=np.float64)
            points = points if data.rows.offset is None else points - data.rows.offset

            def look(machine: SemiparametricMachine, trial: Trial, winner: int) -> None:
                if machine.n_basis + 1 not in wanted:
                    return
                own = machine.first_vectors.vectors[machine.used_vectors]
                rest = machine.columns.vectors(np.array([*machine.indices, *trial.indices]))
                K = spec.kernel.block(points, np.concatenate([own, rest]))
                intercept, beta = fast_weights(machine, trial)
                m = machine.n_basis
                shared = K[:, :m] @ beta[:, 0, :m].T + K[:, m:] * beta[:, 0, m]
                found.append((m + 1, (shared + intercept[:, 0]).T, winner))

            self._grow(Fit(data, spec, run, self._plan(data, run), int(self._size())), look)
        return found


@estimator
class FEESVR(_FastEstimation, MachineRegressor):
    """Kernel regressor grown by fast error estimation: `FEESVC` with the mean squared error of the validation rows.

    The basis starts from the mean of the rows.  With least squares, the default, these weights are constant, so the
    estimate of a candidate's validation error is its validation error.

    Attributes
    ----------
    basis_vectors_ : ndarray of shape (n_basis_, n_features)
        The mean of the rows first, then rows.
    selected_indices_, dual_coef_, intercept_, n_basis_, history_, fold_sizes_, fold_errors_, search_
        As for `FEESVC`; errors are mean squared errors.

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
