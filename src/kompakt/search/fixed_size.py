"""Cross-validation of fixed-size machines, and the search for their C and width (De Brabanter et al. 2010).

Features are computed once per width, then a whole path of C is solved on them.  "profile" walks over the width alone
and reads the best C off the path of each; the other strategies (section 6.3) search both together, one C at a time.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning, lapack

from kompakt.basis.build import solved
from kompakt.codings import class_pairs
from kompakt.data import ArrayRows, RowBlock, Rows, row_weights
from kompakt.design import Design, FeatureDesign, choose_block_rows, values_of
from kompakt.heldout import Scorer, Trials, absolute_errors, fold_means, shuffled_folds, squared_errors
from kompakt.kernels import Kernel
from kompakt.linalg import factorise, multiply_upper
from kompakt.parallel import ordered_map
from kompakt.run import Run
from kompakt.search.ridge_cv import cross_validated_path
from kompakt.search.strategies import Space, search
from kompakt.solve import Problem, Settings, Solution, solve
from kompakt.spec import Basis, Data, Spec

Array = np.ndarray
_COPIES = 3  # of the features that the fast cross-validation holds at once


# -- subproblems: what is solved together -------------------------------------------------------------------


@dataclass(frozen=True)
class Subproblem:
    """Rows, basis columns and outputs that are solved together: all of them, or those of a pair of classes.

    Attributes
    ----------
    rows : ArrayRows
        Sorted by fold, with their own targets (n, L) and weights (n,) or None.
    fold : ndarray of shape (n,)
        Fold of each row, ascending; -1 for rows never held out.
    index : ndarray of shape (n,)
        Row numbers in the whole.
    vectors : ndarray of shape (k, d)
        Basis vectors of the part.
    columns : ndarray of shape (k,)
        Their positions in the basis they were chosen with, ascending.
    outputs : ndarray of shape (L,)
        Outputs in the whole machine.
    home : ndarray of shape (k,), optional
        Fold whose machine leaves the basis vector out, -1 for none.
    first : int
        Number of the first fold of the part in the whole.
    """

    rows: ArrayRows
    fold: Array
    index: Array
    vectors: Array
    columns: Array
    outputs: Array
    home: Array | None = None
    first: int = 0

    @property
    def targets(self) -> Array:
        """Targets of the rows, (n, L)."""
        assert self.rows.targets is not None
        return self.rows.targets


def columns_of(basis: Basis, labels: Array | None, pair: Array) -> Array:
    """Basis vectors that are rows of the two classes of a pair; all where there are none, or without labels."""
    everything = np.arange(basis.n_basis)
    if labels is None or basis.indices is None:
        return everything
    of_pair = np.flatnonzero(np.isin(labels[basis.indices], pair))
    return of_pair if len(of_pair) else everything


def make_subproblems(
    data: Data,
    basis: Basis,
    folds: int | Array,
    key: int,
    *,
    own: bool = False,
    drop: bool = False,
    anew: list[Basis] | None = None,
    among: Array | None = None,
) -> list[Subproblem]:
    """Parts of the machine with their folds: one, or one per pair of classes where every output has rows of its own.

    Where folds have basis vectors of their own (`anew`), there is a part for each of them.

    Parameters
    ----------
    data : Data
    basis : Basis
        Its indices are row numbers of the data.
    folds : int or ndarray of shape (n,)
        Number of folds, or the fold of each row, -1 for rows never held out.
    key : int
        Seed of the folds.
    own : bool
        Whether pairs of classes use the vectors of these classes only.
    drop : bool
        Whether every fold leaves out the basis vectors that are rows of it, and of no other fold.
    anew : list of Basis, optional
        Vectors chosen without each fold; needs the folds of the rows.
    among : ndarray, optional
        Rows that take part; all without it.
    """
    rows, labels = data.rows, data.labels
    strata = labels if own else None
    everything = np.arange(rows.n_rows) if among is None else among
    # equal rows have equal numbers
    twins = np.unique(rows.hashes(0), return_inverse=True)[1] if drop and basis.indices is not None else None
    pairs: list[Array | None] = [None]
    if rows.weight_columns > 1:
        pairs = list(class_pairs(data.n_classes))
    problems = []
    for number, pair in enumerate(pairs):
        index, columns, outputs, of_part = everything, np.arange(basis.n_basis), np.arange(rows.n_outputs), rows
        if pair is not None:
            assert labels is not None
            index = everything[np.isin(labels[everything], pair)]
            columns, outputs, of_part = columns_of(basis, strata, pair), np.array([number]), rows.one_output(number)
        if isinstance(folds, int):  # stratified by class, however rare a class is
            of_class = None if labels is None else labels[index]
            fold = shuffled_folds(len(index), folds, labels=of_class, random_state=key)
        else:
            used, fold = np.unique(folds[index], return_inverse=True)
            fold = fold - 1 if used[0] < 0 else fold
        order = np.argsort(fold, kind="stable")
        index, fold = index[order], fold[order]
        sorted_rows = of_part.subset(index)
        if anew is None:
            home = None
            if twins is not None and basis.indices is not None:
                home = _only_fold(twins[index], fold, twins[basis.indices[columns]])
            problems.append(Subproblem(sorted_rows, fold, index, basis.vectors[columns], columns, outputs, home))
            continue
        assert not isinstance(folds, int)
        for v, chosen in enumerate(anew[number] for number in np.unique(folds[index]) if number >= 0):
            vectors = chosen.vectors if pair is None else chosen.vectors[columns_of(chosen, strata, pair)]
            alone = np.where(fold == v, 0, -1)
            problems.append(Subproblem(sorted_rows, alone, index, vectors, np.arange(len(vectors)), outputs, first=v))
    return problems


def _only_fold(twins: Array, fold: Array, numbers: Array) -> Array:
    """The fold of all rows that have each of the wanted numbers; -1 where there are several folds, or no row."""
    n = int(max(twins.max(), numbers.max())) + 1
    first, last = np.full(n, np.iinfo(np.intp).max), np.full(n, -1)
    np.minimum.at(first, twins, fold)
    np.maximum.at(last, twins, fold)
    return np.asarray(np.where(first == last, last, -1)[numbers])


def solve_subproblems(
    rows: Rows, spec: Spec, vectors: Array, columns: list[Array], settings: Settings
) -> tuple[Solution, int]:
    """The weights (m, L) on all rows, and the kernel evaluations spent.

    Where every output has rows of its own, `columns` are the vectors of each; the weights of others are zero.
    """
    if rows.weight_columns <= 1:
        return solved(rows, spec, vectors, settings)
    weights, intercept = np.zeros((len(vectors), rows.n_outputs)), np.zeros(rows.n_outputs)
    solutions: list[Solution] = []
    evaluations = 0
    for output, of_output in enumerate(columns):
        output_rows = rows.one_output(output)
        if not rows.streamed:
            assert output_rows.weights is not None
            output_rows = output_rows.subset(np.flatnonzero(output_rows.weights))
        solution, spent = solved(output_rows, spec, vectors[of_output], settings)
        weights[of_output, output], intercept[output] = solution.weights[:, 0], solution.intercept[0]
        evaluations += spent
        solutions.append(solution)
    joint = Solution(
        weights=weights,
        intercept=intercept,
        coordinates=np.concatenate([weights, intercept[None]]),
        objective=np.concatenate([solution.objective for solution in solutions]),
        n_iter=max(solution.n_iter for solution in solutions),
        converged=all(solution.converged for solution in solutions),
        optimality=np.concatenate([solution.optimality for solution in solutions]),
        jitter=max(solution.jitter for solution in solutions),
    )
    return joint, evaluations


def intercept_shifts(outputs: Array, targets: Array, weights: Array | None = None) -> Array:
    """What to add to every output (n, L) for the fewest rows, by weight, on the wrong side of zero.

    A threshold lies midway between two rows. Of equally good ones the nearest to zero is taken; nothing is added where
    zero is as good. Rows whose target is 0 take no part in the output.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.search.fixed_size import intercept_shifts
    >>> intercept_shifts(np.array([[-0.9], [0.3], [0.5], [0.8]]), np.array([[-1.0], [-1.0], [1.0], [1.0]])).tolist()
    [-0.4]
    """
    added = np.zeros(outputs.shape[1])
    for column, target in enumerate(targets.T):
        weight = np.ones(len(target)) if weights is None else weights if weights.ndim == 1 else weights[:, column]
        used = (target != 0) & (weight > 0)
        order = np.flatnonzero(used)[np.argsort(outputs[used, column], kind="stable")]
        values, side = outputs[order, column], np.where(target[order] > 0, weight[order], -weight[order])
        cut = np.flatnonzero(np.diff(values) > 0)  # below are the rows up to it
        if not len(cut):
            continue
        # positive rows below a threshold are wrong, negative ones right, up to what is wrong below all rows
        wrong = np.cumsum(side)[cut]
        least = wrong.min() + 1e-9 * np.abs(side).sum()
        at_zero = float(side[values <= 0].sum())
        if at_zero <= least:
            continue
        middle = 0.5 * (values[cut] + values[cut + 1])[wrong <= least]
        added[column] = -middle[np.argmin(np.abs(middle))]
    return added


# -- outputs of rows under machines that did not see their fold ---------------------------------------------


def held_out(
    problem: Subproblem, spec: Spec, Cs: Array, settings: Settings, sizes: Sequence[int] | None = None
) -> list[Array]:
    """Outputs (n_C, n, L) of the rows of a subproblem under the model trained without their fold; NaN for fold -1.

    There is one array for each of the `sizes`, numbers of first vectors; one for all vectors without them.

    The model is linear in Nystrom features K R^-1 (De Brabanter et al. 2010, eq. 5), with ones for the intercept (eq.
    8). The Cholesky factor R takes the place of the eigenvectors: the features differ by a rotation, which ridge
    regression does not see, and the first k columns are the features of the first k vectors.
    """
    rows, kernel, vectors, m = problem.rows, spec.kernel, problem.vectors, len(problem.vectors)
    inverse = factorise(kernel.gram(vectors), dtype=rows.dtype, what="kernel matrix of the basis").inverse()
    step = choose_block_rows(max(m, rows.n_features))
    exact, budget = spec.loss.quadratic, settings.run.budget
    if exact and sizes is None and _COPIES * 8 * rows.n_rows * (m + 1) > budget:

        def block(start: int) -> Array:
            Phi = values_of(kernel, vectors, inverse, rows.block(start, min(start + step, rows.n_rows)).X)
            return np.column_stack([Phi, np.ones(len(Phi))]) if spec.fit_intercept else Phi

        # features that do not fit are computed block by block, ahead of the sums, on the block threads (algorithm 4)
        blocks = partial(ordered_map, block, range(0, rows.n_rows, step))
        return [_ridge_path(problem, blocks, inverse, Cs, spec, budget)]
    Phi = np.ones((rows.n_rows, m + spec.fit_intercept))

    def fill(block: RowBlock) -> None:
        K = kernel.block(block.X, vectors)
        multiply_upper(K.astype(np.float64, copy=False), inverse, out=Phi[block.start : block.stop, :m])

    rows.for_each(fill, step)
    outputs = []
    for size in [m] if sizes is None else sizes:
        first = Phi if size == m else np.column_stack([Phi[:, :size], Phi[:, m:]])
        whitener = inverse[:size, :size]
        if exact:
            outputs.append(_ridge_path(problem, first, whitener, Cs, spec))
        else:
            outputs.append(_refitted_path(problem, first, whitener, Cs, spec, settings))
    return outputs


def _ridge_path(
    problem: Subproblem,
    features: Array | Callable[[], Iterable[Array]],
    inverse: Array,
    Cs: Array,
    spec: Spec,
    budget: float = np.inf,
) -> Array:
    """All folds and C from shared factorisations."""
    targets, weights = problem.targets, problem.rows.weights
    # De Brabanter et al. 2010, eq. 7, has a penalty for the intercept too
    unit = np.append(np.ones(len(inverse)), [float(spec.penalize_intercept)] * spec.fit_intercept)
    constraints = None  # that keep the weights of the vectors that a fold leaves out at zero
    if problem.home is not None:
        constraints = np.pad(inverse, [(0, 0), (0, int(spec.fit_intercept))]), problem.home[: len(inverse)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # large C: a minimal jitter is all a search needs there
        return targets - cross_validated_path(
            features, targets, problem.fold, 1.0 / Cs, weights, unit, constraints=constraints, memory_budget=budget
        )


#: width over which a search rounds the kinks of a loss, as a share of the targets' spread
_ROUNDING = 0.05


def _refitted_path(problem: Subproblem, Phi: Array, inverse: Array, Cs: Array, spec: Spec, settings: Settings) -> Array:
    """One solve per fold and C, each started at the solution for the C before.

    Held-out errors need no exact solution of a piecewise linear loss: its kinks are rounded over a few per cent of the
    targets' spread, which Newton's method solves at a fraction of the cost.
    """
    targets, weights = problem.targets, problem.rows.weights
    spread = 1.0 if spec.loss.for_classes else float(np.median(np.abs(targets - np.median(targets, axis=0))))
    spec = replace(spec, loss=spec.loss.rounded(_ROUNDING * spread if spread > 0 else _ROUNDING))
    features = Phi[:, : len(inverse)]
    outputs = np.full((len(Cs), *targets.shape), np.nan)
    for v in range(int(problem.fold.max()) + 1):
        held_out, kept = problem.fold == v, np.flatnonzero(problem.fold != v)
        values = features
        dropped = np.empty(0) if problem.home is None else np.flatnonzero(problem.home[: len(inverse)] == v)
        if len(dropped):  # features of the other vectors: those orthogonal to the rows that must give zero
            complement = np.linalg.qr(inverse[dropped].T, mode="complete")[0][:, len(dropped) :]
            values = features @ complement if complement.shape[1] else np.zeros((len(features), 1))
        design = FeatureDesign(values[kept], targets[kept], None if weights is None else weights[kept])
        start = None
        for k in np.argsort(Cs):
            solution = solve(Problem.of(design, replace(spec, C=float(Cs[k]))), start, settings)
            start = solution.coordinates
            outputs[k, held_out] = values[held_out] @ start[:-1] + start[-1]
    return outputs


# -- held-out errors ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CrossValidation:
    """Held-out errors of machines on one basis, for any kernel and C."""

    data: Data
    spec: Spec
    problems: list[Subproblem]
    settings: Settings
    absolute: bool = False  # regression is scored by the absolute error instead of the squared one

    @property
    def n_kernel_evals(self) -> int:
        """Kernel values of one set of features."""
        return sum(problem.rows.n_rows * len(problem.vectors) for problem in self.problems)

    def errors(self, kernel: Kernel, Cs: Array) -> tuple[Array, Array]:
        """What a search minimises (n_C,), and the error of each fold (n_C, n_folds)."""
        spec = replace(self.spec, kernel=kernel)
        return self.errors_of([held_out(problem, spec, Cs, self.settings)[0] for problem in self.problems])

    def errors_of(self, outputs: list[Array]) -> tuple[Array, Array]:
        """Errors from the held-out outputs of the subproblems (each (n_C, n, L)).

        Classes: share of wrong labels (of wrong sides, over all pairs, for one-vs-one: `class_error` counts labels
        there), and the squared error to break ties, scaled to less than one row. Regression: mean squared error, or
        absolute error.
        """
        errors, ties, folds, weights = [], [], [], []
        for problem, values in zip(self.problems, outputs, strict=True):
            used = problem.fold >= 0
            scorer = self._scorer(problem, used)
            errors.append(scorer.row_errors(values[:, used]))
            ties.append(squared_errors(scorer.targets, values[:, used]).mean(axis=-1))
            folds.append(problem.fold[used] + problem.first)
            weights.append(scorer.weights)
        error, weight = np.concatenate(errors, axis=1), np.concatenate(weights)
        share = weight / weight.sum()
        total = error @ share
        if self.data.classifier:
            total = total + np.minimum(np.concatenate(ties, axis=1) @ share, 100.0) * (0.005 / len(share))
        return total, fold_means(error, np.concatenate(folds), weight)

    def _scorer(self, problem: Subproblem, used: Array) -> Scorer:
        """Measures held-out rows of a part: labels, the side of a pair's boundary, or numbers."""
        targets, labels = problem.targets[used], self.data.labels
        if labels is not None:
            labels = targets[:, 0] > 0 if len(problem.outputs) == 1 else labels[problem.index[used]]
        weights = row_weights(problem.rows)[used]
        return Scorer(self.spec, targets, weights, labels, absolute_errors if self.absolute else squared_errors)

    def size_errors(self, sizes: Array, Cs: Array) -> tuple[Array, Array]:
        """Errors (n_sizes, n_C) and fold errors (n_sizes, n_C, n_folds) of the first vectors, from shared features."""
        values = []
        for problem in self.problems:
            n_columns = [max(1, int(np.searchsorted(problem.columns, size))) for size in sizes]
            values.append(held_out(problem, self.spec, Cs, self.settings, n_columns))
        of_sizes = [self.errors_of(list(outputs)) for outputs in zip(*values, strict=True)]
        return np.stack([errors for errors, _ in of_sizes]), np.stack([fold_errors for _, fold_errors in of_sizes])

    def class_error(self, outputs: Array, vectors: Array, solution: Solution) -> float:
        """Share of wrong labels of a model of pairs, from its held-out outputs (n, L); fills these where they are NaN.

        A pair that a row takes no part in was not trained on it, so the outputs there are those of the whole machine.
        Rows that were never held out do not count.
        """
        absent = np.isnan(outputs)
        counted = ~np.any(absent & (self.data.targets != 0), axis=1)
        of_all_rows = Design(self.data.rows, self.spec.kernel, vectors).matvec(solution.weights) + solution.intercept
        outputs[absent & counted[:, None]] = of_all_rows[absent & counted[:, None]]
        scorer = Scorer.of(self.data, self.spec, counted)
        return float(scorer.mean(scorer.row_errors(outputs[counted])))


def spread_order(kernel: Kernel, vectors: Array) -> Array:
    """Order of the basis vectors in which each is the least explained by those before it (pivoted Cholesky)."""
    _, pivots, _, _ = lapack.dpstrf(kernel.gram(vectors), lower=0)
    return np.asarray(pivots.astype(np.intp) - 1)


# -- search for the width and C -----------------------------------------------------------------------------

logger = logging.getLogger("kompakt.search")

#: powers of ten around the kernel's own width that a search may reach, and powers of ten of C
WIDTHS = (-4.0, 4.0)
COSTS = (-6.0, 8.0)
_COARSE_WIDTHS = np.arange(-3.0, 2.5)  # from 1/1000 of the width's start to 100 times it
_COARSE_COSTS = np.arange(-3.0, 8.5)
_NEAR_WIDTHS = (0.0, -0.25, 0.25)
_NEAR_COSTS = np.array([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0])

#: held-out errors (n_C,) and fold errors (n_C, n_folds) of a kernel for some C
Evaluate = Callable[[Kernel, Array], tuple[Array, Array]]


class WidthSearch:
    """A search over the width, as a factor of that of the first kernel, and C: what it tried and the best of it."""

    def __init__(self, evaluate: Evaluate, kernel: Kernel, run: Run) -> None:
        self._evaluate, self._first, self.run = evaluate, kernel, run
        self.n_visits = self.n_coarse_visits = 0
        self.trials = Trials()
        self.step: Callable[[], bool] = lambda: False  # shows the progress

    @property
    def kernel(self) -> Kernel:
        """The kernel with the best width."""
        return self._first.scaled(float(self.trials.best.more["width_factor"]))

    @property
    def C(self) -> float:
        """The best C."""
        return float(self.trials.best.params["C"])

    @property
    def error(self) -> float:
        """The lowest error."""
        return self.trials.best.error

    def late(self) -> bool:
        """Whether the time is over; never before the first visit."""
        return self.n_visits > 0 and self.run.late

    def visit(self, factor: float, Cs: Array, phase: str, evaluate: Evaluate | None = None) -> tuple[Array, Array]:
        """Evaluate a width along some values of C; these and their errors."""
        kernel = self._first.scaled(factor)
        began = time.perf_counter()
        errors, fold_errors = self.run.step("evaluation", partial(evaluate or self._evaluate, kernel, Cs))
        seconds = time.perf_counter() - began
        errors = np.where(np.isfinite(errors), errors, np.inf)
        # one number per kernel; a kernel with a width per feature is told apart by its factor alone
        gamma: Any = getattr(kernel, "gamma", np.nan)
        gamma = np.nan if np.ndim(gamma) else float(gamma)
        for C, error, folds in zip(Cs, errors, fold_errors, strict=True):
            params = {"C": C, "gamma": gamma}
            self.trials.add(params, error, folds, seconds / len(Cs), width_factor=factor, phase=phase)
        self.n_visits += 1
        self.step()
        k = int(np.argmin(errors))
        logger.info(
            "%s %d: width factor %.3g, best C %.3g of %d, error %.5g (%.1f s)",
            phase, self.n_visits, factor, Cs[k], len(Cs), errors[k], seconds,
        )  # fmt: skip
        return Cs, errors

    def compare(self, evaluate: Evaluate, phase: str) -> None:
        """Errors by another measure around the best width and C; these trials compete with the others."""
        self.step = lambda: False  # the task of the search is closed
        best, nearby = self.trials.best, _NEAR_WIDTHS if len(self._first.theta) else (0.0,)
        Cs = _near(np.array([best.params["C"]]), np.zeros(1))
        for shift in nearby:
            self.visit(best.more["width_factor"] * 10.0**shift, Cs, phase, evaluate)

    def refit(self, evaluate: Evaluate, Cs: Array) -> None:
        """C for the best width by another measure of error; only these trials compete."""
        first = len(self.trials)
        self.step = lambda: False  # the task of the search is closed
        self.visit(self.trials.best.more["width_factor"], Cs, "refit", evaluate)
        refitted = min(self.trials.rows[first:], key=lambda trial: trial.error)
        self.trials.choose(refitted, "the lowest held-out error of this loss, at the best width for least squares.")


def tune_width_and_cost(
    evaluate: Evaluate,
    kernel: Kernel,
    *,
    strategy: str = "profile",
    evaluate_coarse: Evaluate | None = None,
    run: Run | None = None,
    **options: Any,
) -> WidthSearch:
    """Find the width and C with the lowest held-out error.

    Parameters
    ----------
    evaluate : callable
        Errors of a kernel along some values of C.
    kernel : Kernel
        Where the search begins; a kernel without a width has only C to be tuned.
    strategy : {"profile", "anneal", "grid", "random"}
        Search over the width with C read off a path, or over both by a strategy of `kompakt.search.strategies`.
    evaluate_coarse : callable, optional
        A cheaper `evaluate`, such as on part of the rows, for the coarse steps of "profile"; its errors are never
        compared with those of `evaluate`.
    run : Run, optional
        Its key is the seed; no evaluation starts after its deadline, except the first.
    **options
        Arguments of `kompakt.search.strategies`.

    Returns
    -------
    WidthSearch
        The best point and all trials.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> from kompakt.search.fixed_size import tune_width_and_cost
    >>> def valley(kernel, Cs):
    ...     errors = np.log10(kernel.gamma / 0.3) ** 2 + np.log10(Cs / 20.0) ** 2
    ...     return errors, errors[:, None]
    >>> found = tune_width_and_cost(valley, RBF(1.0))
    >>> bool(abs(np.log10(found.kernel.gamma / 0.3)) < 0.2), bool(abs(np.log10(found.C / 20)) < 0.2)
    (True, True)
    """
    run = run or Run()
    width_search = WidthSearch(evaluate, kernel, run)
    if kernel.scaled(2.0) is kernel:
        # two paths of C; the first may be long: a penalised intercept can make a very small C the best
        with run.task("search", 2) as width_search.step:
            path = width_search.visit(1.0, 10.0 ** np.arange(COSTS[0], COSTS[1] + 0.5, 0.5), "coarse")
            if width_search.late():
                width_search.trials.stopped = "deadline"
            else:
                width_search.visit(1.0, _near(*path), "fine")
        return width_search
    if strategy != "profile":  # width and C together, on logarithmic axes
        axes = {name: (10.0**low, 10.0**high, "log") for name, (low, high) in (("C", COSTS), ("width", WIDTHS))}
        seed = {} if strategy == "grid" else {"random_state": run.key}

        def evaluate_one(params: dict[str, float]) -> float:
            return float(width_search.visit(params["width"], np.array([params["C"]]), strategy)[1][0])

        width_search.trials.stopped = search(evaluate_one, Space(axes), strategy, run=run, **(seed | options)).stopped
        return width_search
    # coarse widths, then steps that halve around the best; C on a coarse path, then on a fine one near its best
    scout = width_search if evaluate_coarse is None else WidthSearch(evaluate_coarse, kernel, run)
    visited: dict[float, tuple[Array, Array]] = {}  # by the logarithm of the width: values of C, their errors

    def best() -> float:
        return min(visited, key=lambda at: float(visited[at][1].min()))

    coarse = 10.0**_COARSE_COSTS
    # the usual number of visits: the coarse path may go on at its end
    with run.task("search", len(_COARSE_WIDTHS) + 8) as width_search.step:
        scout.step = width_search.step
        for width in _COARSE_WIDTHS.tolist():
            if not scout.late():
                visited[width] = scout.visit(10.0**width, coarse, "coarse")
        while best() in (min(visited), max(visited)) and not scout.late():
            width = best() + (-1.0 if best() == min(visited) else 1.0)
            if not WIDTHS[0] <= width <= WIDTHS[1]:
                break
            visited[width] = scout.visit(10.0**width, coarse, "coarse")
        if scout is not width_search:  # from here on all rows, whose errors are not those of a part of them
            width_search.n_coarse_visits = scout.n_visits
            width = best()
            visited = {width: width_search.visit(10.0**width, _near(*visited[width]), "fine")}
        for step in (0.5, 0.25, 0.125):
            Cs, sides = _near(*visited[best()]), (best() - step, best() + step)
            for width in sides:
                if width not in visited and not width_search.late():
                    visited[width] = width_search.visit(10.0**width, Cs, "fine")
        if width_search.late():
            width_search.trials.stopped = "deadline"
        else:  # the best width may be known from the coarse path only
            width_search.visit(10.0 ** best(), _near(*visited[best()]), "fine")
    return width_search


def _near(Cs: Array, errors: Array) -> Array:
    """Values of C around the best."""
    around = np.log10(Cs[int(np.argmin(errors))]) + _NEAR_COSTS
    return np.asarray(10.0 ** np.clip(around, *COSTS))
