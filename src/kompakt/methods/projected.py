"""A linear SVM on rows that are projected on few of them (Franc and Hlavac 2003)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.svm import SVC, LinearSVC

from kompakt.basis import ProjectionSelector
from kompakt.basis.build import Machine, Plan
from kompakt.data import ArrayRows
from kompakt.design import Design, FeatureDesign
from kompakt.kernels import Precomputed
from kompakt.losses import Hinge
from kompakt.methods.steps import (
    Fitted,
    LeftOpen,
    freeze,
    refine,
    refuse_what_cannot_work,
    resolve_width_and_cost,
    solve_on_all_rows,
)
from kompakt.run import Run
from kompakt.solve import Problem, Solution, solve
from kompakt.solve.problem import block_weights
from kompakt.spec import Basis, Data, Selector, Spec
from kompakt.train.data import in_memory

Array = np.ndarray


@dataclass(frozen=True)
class Projected:
    """Options of `fit_projected`.

    Parameters
    ----------
    spec : Spec
        What is minimised; the loss is the hinge.
    plan : Plan
        Refinement, and when kompakt's own solver stops.
    selector : Selector
        Who chooses the vectors that rows are projected on.
    n_basis : int
    left_open : LeftOpen
    two_pass : bool
        Whether vectors are chosen anew among the support vectors, for a second training.
    solver : {"primal", "libsvm", "liblinear"}
    tol, max_iter : when scikit-learn's solvers stop
    """

    spec: Spec
    plan: Plan
    selector: Selector
    n_basis: int
    left_open: LeftOpen
    two_pass: bool = False
    solver: str = "primal"
    tol: float = 1e-4
    max_iter: int = 1_000_000


@dataclass(frozen=True)
class Projection:
    """Rows in the coordinates of a basis (eq. 3 of the paper), and the kernel values it took."""

    basis: Basis  # with its factor R: R'R is the kernel matrix of the vectors
    features: Array  # (n, m)
    n_kernel_evals: int


def fit_projected(data: Data, options: Projected, run: Run) -> Fitted:
    """Project the rows, train a linear SVM on their coordinates, fold its discriminant back on few vectors.

    Parameters
    ----------
    data : Data
    options : Projected
    run : Run
    """
    refuse_what_cannot_work(data, options.spec, options.plan, run)
    data = in_memory(data, options.n_basis, run)
    spec, evaluations = resolve_width_and_cost(data, options.spec, options.left_open, run)

    projection = _project(data, spec, options, run)
    solution, multipliers = _train_linear(data, spec, projection.features, options, run)
    support = np.flatnonzero(np.any(multipliers != 0, axis=1))
    if options.two_pass and len(support):
        evaluations += projection.n_kernel_evals
        projection = _project(data, spec, options, run, among=support)
        solution, multipliers = _train_linear(data, spec, projection.features, options, run)
        support = np.flatnonzero(np.any(multipliers != 0, axis=1))

    # the fewer of support and basis vectors represent the discriminant
    basis = projection.basis
    attributes = {"n_support_vectors_": len(support), "n_projection_": basis.n_basis, "folded_": "basis"}
    if data.whole and 0 < len(support) < basis.n_basis:
        attributes["folded_"] = "support_vectors"
        basis = Basis(support, spec.kernel.take_basis(data.rows, support))
        weights = multipliers[support]
    else:
        # f'(x) = sum_j alpha'_j k(x, r_j), alpha' = B alpha with B = K_r^-1 K: in coordinates, R^-1 w
        assert basis.factor is not None
        weights = solve_triangular(basis.factor, solution.coordinates[:-1], check_finite=False)
    run.note("weights", n_basis=basis.n_basis, objective=float(np.sum(solution.objective)), n_iter=solution.n_iter)
    machine = Machine(spec, basis, replace(solution, weights=weights), projection.n_kernel_evals)

    machine, _ = refine(data, machine, options.plan, run)
    machine = solve_on_all_rows(data, machine, options.plan, run)
    return freeze(data, machine, options.plan, run, n_kernel_evals=evaluations, attributes=attributes)


def _project(data: Data, spec: Spec, options: Projected, run: Run, among: Array | None = None) -> Projection:
    """All rows in the coordinates of a basis, which is chosen among some of them where `among` is given."""
    rows, kernel, selector, evaluations = data.in_memory, spec.kernel, options.selector, 0
    if isinstance(selector, ProjectionSelector) and among is None:
        chosen = selector.project(rows, kernel, options.n_basis, run)
        assert chosen.features is not None
        return Projection(chosen.basis, chosen.features, chosen.basis.n_kernel_evals)
    if among is None:
        basis = selector.select(data, spec, options.n_basis, run)
    else:
        is_matrix = isinstance(kernel, Precomputed)
        inputs = rows.X[among][:, among] if is_matrix else rows.X[among]
        support_rows = ArrayRows(inputs, offset=rows.offset, dtype=rows.dtype)
        support_spec = replace(spec, kernel=Precomputed(support_rows.X) if is_matrix else kernel)
        among_support = selector.select(Data(support_rows), support_spec, options.n_basis, run)
        assert among_support.indices is not None
        indices = among[among_support.indices]
        basis, evaluations = Basis(indices, kernel.take_basis(rows, indices)), among_support.n_kernel_evals
    design = Design(rows, kernel, basis.vectors, whiten=True, store=True)
    assert design.factor is not None
    return Projection(replace(basis, factor=design.factor.R), design.matrix, evaluations + design.n_kernel_evals)


def _train_linear(data: Data, spec: Spec, features: Array, options: Projected, run: Run) -> tuple[Solution, Array]:
    """A linear SVM per output, and the signed multipliers of the rows, (n, L): zero for no support vectors."""
    rows, y = data.in_memory, data.targets
    n_rows, n_outputs = y.shape
    if options.solver == "primal":
        design = FeatureDesign(features, y, rows.weights)
        primal = solve(Problem.of(design, spec), None, options.plan.settings(run))
        w, intercept, n_iter, converged = primal.coordinates[:-1], primal.intercept, primal.n_iter, primal.converged
        multipliers = _multipliers(data, features, w, intercept, spec.C)
    else:
        w, intercept, multipliers, n_iter = _train_by_scikit_learn(data, features, spec.C, options)
        converged = n_iter < options.max_iter
    f = features @ w.astype(features.dtype) + intercept
    losses = np.sum(block_weights(rows.weights, n_rows, np.arange(n_outputs)) * Hinge().value(y, f), axis=0)
    solution = Solution(
        weights=w,
        intercept=intercept,
        coordinates=np.concatenate([w, intercept[None]]),
        objective=0.5 * np.sum(w**2, axis=0) + spec.C * losses,
        n_iter=n_iter,
        converged=converged,
        optimality=np.full(n_outputs, np.nan),
        jitter=0.0,
    )
    return solution, multipliers


def _train_by_scikit_learn(
    data: Data, features: Array, C: float, options: Projected
) -> tuple[Array, Array, Array, int]:
    """Weights, intercepts, multipliers and iterations; rows of weight 0 in an output (one-vs-one) are left out."""
    n_rows, n_outputs = data.targets.shape
    w, intercept = np.zeros((features.shape[1], n_outputs)), np.zeros(n_outputs)
    multipliers, n_iter = np.zeros((n_rows, n_outputs)), 0
    stopping = {"tol": options.tol, "max_iter": options.max_iter}
    for output in range(n_outputs):
        s = np.broadcast_to(block_weights(data.rows.weights, n_rows, np.array([output]))[:, 0], n_rows)
        index = np.flatnonzero(s > 0)
        Phi, t, s = features[index], data.targets[index, output], s[index]
        if options.solver == "libsvm":
            svm = SVC(C=C, kernel="linear", cache_size=400, **stopping).fit(Phi, t, sample_weight=s)
            multipliers[index[svm.support_], output] = svm.dual_coef_[0]
            w[:, output] = svm.dual_coef_[0] @ Phi[svm.support_].astype(np.float64)
            n_iter = max(n_iter, int(svm.n_iter_[0]))
        else:
            svm = LinearSVC(C=C, loss="hinge", dual=True, random_state=0, **stopping).fit(Phi, t, sample_weight=s)
            w[:, output] = svm.coef_[0]
            n_iter = max(n_iter, int(svm.n_iter_))
        intercept[output] = svm.intercept_[0]
    if options.solver == "liblinear":
        multipliers = _multipliers(data, features, w, intercept, C)
    return w, intercept, multipliers, n_iter


def _multipliers(data: Data, features: Array, w: Array, intercept: Array, C: float) -> Array:
    """Multipliers of a primal solution: C s y inside the margin, on it what explains the rest of w."""
    y, f = data.targets, features @ w.astype(features.dtype) + intercept
    n_rows, n_outputs = y.shape
    s = np.broadcast_to(block_weights(data.rows.weights, n_rows, np.arange(n_outputs)), (n_rows, n_outputs))
    shortfall = 1.0 - y * f
    on_margin = 1e-4 if features.dtype == np.float64 else 1e-2
    multipliers = np.where(shortfall > on_margin, C * s * y, 0.0)
    for output in range(n_outputs):
        at_margin = np.flatnonzero((np.abs(shortfall[:, output]) <= on_margin) & (s[:, output] > 0))
        if len(at_margin):
            Phi = features[at_margin].astype(np.float64)
            unexplained = w[:, output] - features.T @ multipliers[:, output].astype(features.dtype)
            multipliers[at_margin, output] = np.linalg.lstsq(Phi.T, unexplained, rcond=None)[0]
    return multipliers
