"""Growing by fast error estimation (Navia-Vazquez and Diaz-Morales 2010, Table 1), and by SGMA and GSVC.

The basis starts from class means and goes on with training rows; validation rows have weight 0 and are followed.  A
step trains the machine, looks at its validation error, draws candidates among its support vectors and adds one: the one
whose machine, estimated with the weights a_i fixed, has the lowest validation error (`fee`); the one that represents
the support vectors best (`sgma`); or the support vector least like the basis (`gsvc`).

The estimate: the trained machine minimises 1/2 |w|^2 + 1/2 sum_i a_i (z_i - f_i)^2 with weights a_i that depend on it
(eq. 6).  With these fixed, a machine with one more basis vector is one bordered system (eq. 10), so the factor of the
present one answers for every candidate in O(P R).  Features are whitened, so the rows below the weighted ones, R_c of
[sqrt(a) K~ ; R_c] with R_c' R_c = K_c, are the identity (and zero for the intercept).  Weights reach 1e9 on rows at the
margin: normal equations would square that, so the factor is a QR factor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import numpy as np
from scipy import sparse
from scipy.linalg import lapack, solve_triangular

from kompakt.basis.columns import KernelColumns
from kompakt.basis.forward import CandidateStream, GrowthLoop, Record, training_weights
from kompakt.basis.growing import GrowingMachine
from kompakt.basis.scores import WholeRows
from kompakt.data import ArrayRows, column_means, row_weights
from kompakt.heldout import Scorer, Split, require_counts, squared_errors
from kompakt.kernels import Kernel, Precomputed
from kompakt.losses import Hinge, Loss, PiecewiseLinear
from kompakt.parallel import ordered_map
from kompakt.run import Run
from kompakt.spec import Data, Spec

Array = np.ndarray

SELECTIONS = ("fee", "sgma", "gsvc")
SOLVERS = ("newton", "irwls")

#: widths of the rounded kinks, as shares of the margin or of the targets' spread: cold start, then every step
_COLD = (2.0, 0.5, 0.1)
_WIDTH = 0.02
#: largest weight, as a multiple of C s: M of Table 1 is 1e9 whatever C is
_LARGEST = 1e9
#: weighted rows factored at a time; the factors of the parts are then factored together
_QR_ROWS = 2048


# -- errors -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judge:
    """Errors of several machines from their predictions (k, L, n): what is minimised, and what breaks ties.

    Of classes: the weighted share of wrong labels; ties go to the smaller mean shortfall max(0, 1 - y f).  Of values:
    the weighted mean squared error over rows and outputs; nothing breaks ties but the order of the candidates.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.fee import Judge
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.kernels import RBF
    >>> from kompakt.spec import Data, Spec
    >>> data = Data(ArrayRows(np.eye(2), np.array([[-1.0], [1.0]])), labels=np.array([0, 1]))
    >>> judge = Judge.of(data, Spec(RBF(1.0), n_classes=2), np.arange(2))
    >>> [part.tolist() for part in judge.errors(np.array([[[-1.0, 0.5]], [[0.5, 2.0]]]))]
    [[0.0, 0.5], [0.25, 0.75]]
    """

    rows: Array  # (n,), their numbers
    scorer: Scorer

    @classmethod
    def of(cls, data: Data, spec: Spec, rows: Array) -> Judge:
        """Judges predictions of these rows."""
        return cls(rows, Scorer.of(data, replace(spec, loss=Hinge()), rows, squared_errors))

    def errors(self, F: Array) -> tuple[Array, Array]:
        """Error and mean shortfall of the margin of every machine, (k,) each."""
        scorer, outputs = self.scorer, F.swapaxes(1, 2)
        errors = scorer.mean(scorer.row_errors(outputs))
        return errors, np.zeros(len(F)) if scorer.labels is None else scorer.mean(scorer.row_losses(outputs))


# -- the trained machine as a weighted least-squares fit ----------------------------------------------------


def quadratic_weights(loss: Loss, width: float, y: Array, f: Array, cost: Array) -> tuple[Array, Array]:
    """Weights a and targets z for which the machine with predictions f is a weighted least-squares fit.

    Where the loss has curvature (the rounded part of a kink of `width`, or a quadratic loss) a is C s times it and z
    is where the parabola ends; on a linear piece a is C s |slope| over the distance from its root, as in eq. (6).
    `cost` is C s, per row; a is 0 exactly where the loss has no slope.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.fee import quadratic_weights
    >>> from kompakt.losses import Hinge
    >>> a, z = quadratic_weights(Hinge(), 0.1, np.ones(3), np.array([-1.0, 1.0, 2.0]), np.full(3, 10.0))
    >>> a.tolist(), z.round(3).tolist()
    ([5.0, 100.0, 0.0], [1.0, 1.05, 1.0])
    """
    if isinstance(loss, Hinge):  # the same as below, without the generality: this is the inner loop of growth
        short = 1.0 - y * f
        inside = np.abs(short) < 0.5 * width
        a = np.where(short > 0.0, cost / np.maximum(short, 0.5 * width), 0.0)
        a[inside] = cost[inside] / width
        return a, np.where(inside, (1.0 + 0.5 * width) * y, y)
    smooth = loss.rounded(width)
    gradient, curvature = smooth.gradient(y, f), smooth.curvature(y, f)
    curved = curvature > 0.0
    safe = np.where(curved, curvature, 1.0)
    a = np.where(curved, cost * curvature, 0.0)
    z = np.where(curved, f - gradient / safe, y)
    linear = ~curved & (gradient != 0.0)
    if linear.any():
        z = np.where(linear, loss.line_roots(y, f), z)
        a[linear] = cost[linear] * np.abs(gradient[linear]) / np.abs(z - f)[linear]
    return a, z


def table_weights(loss: PiecewiseLinear, y: Array, f: Array, cost: Array) -> tuple[Array, Array]:
    """Weights of Table 1, step 1.4: 0, C s / (distance from the kink), or M next to it; and their targets.

    The same for every piecewise linear loss, with the distance from the root of the line that a row lies on.
    """
    r = loss.residual(y, f)
    lines = np.array(loss._lines())
    slope, root = lines[np.searchsorted(loss.kinks, r, side="left")].T
    # a row on the kink itself counts as beyond it, where the table has M
    near = (slope == 0.0) & np.isin(r, loss.kinks)
    distance = np.abs(r - root)
    pull = np.where(near, 1.0, np.abs(slope))
    a = np.where(pull > 0.0, np.minimum(cost * pull / np.maximum(distance, 1e-300), _LARGEST), 0.0)
    return np.where(cost > 0.0, a, 0.0), f + (root - r) / loss.orientation(y)


class WeightedFit:
    """QR factor of [sqrt(a) A' ; P] for the rows with a > 0, and the least-squares fit it gives.

    Features A (p, P), penalty (p,) of 0 and 1, weights a (P,) and targets z (P,).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.fee import WeightedFit
    >>> WeightedFit(np.ones((1, 2)), np.zeros(1), np.array([1.0, 3.0]), np.array([0.0, 4.0])).theta
    array([3.])
    """

    def __init__(self, A: Array, penalty: Array, a: Array, z: Array) -> None:
        self.rows = np.flatnonzero(a > 0.0)  # (S,): the support vectors
        self.root = np.sqrt(a[self.rows])
        used = np.flatnonzero(penalty > 0.0)
        bottom = np.zeros((len(A), len(used)))
        bottom[used, np.arange(len(used))] = np.sqrt(penalty[used])
        weighted = A[:, self.rows] * self.root
        if len(self.rows) <= 2 * _QR_ROWS:
            Q, self.T = _qr(np.concatenate([weighted, bottom], axis=1))
        else:
            Q, self.T = _qr_by_parts(weighted, bottom)
        self.Q, self.below = Q[: len(self.rows)], Q[len(self.rows) :]  # (S, p), and the part at the penalty
        target = self.root * z[self.rows]
        image = self.Q.T @ target
        self.theta = self._solve(image)
        self.rest, self.rest_below = target - self.Q @ image, -(self.below @ image)  # what the fit leaves

    def _solve(self, B: Array, transposed: bool = False) -> Array:
        """T^-1 B; LAPACK itself, because these are thousands of small systems."""
        X: Array
        X, info = lapack.dtrtrs(self.T, B, trans=int(transposed))
        if info:
            raise np.linalg.LinAlgError("the weighted features are singular.")
        return X

    def border(self, columns: Array) -> tuple[Array, Array]:
        """Fit anew with one more column, for each of several columns (k, P) on its own: O(S p) each.

        Returns h (k, p), how the new columns load on the old ones, and the new weights (k,).  The new coordinate is
        penalised by 1, apart from the old ones: in whitened coordinates k_c of eq. (10) is 0.
        """
        V = columns[:, self.rows] * self.root
        h = V @ self.Q
        V -= h @ self.Q.T
        under = -(h @ self.below.T)
        # eq. (14): 1 / r = c - b' A^-1 b, as the squared length of what is left of the new column
        squares = np.einsum("ks,ks->k", V, V) + np.einsum("kq,kq->k", under, under) + 1.0
        # eq. (17), last row: (s - b' beta) r
        return h, (V @ self.rest + under @ self.rest_below) / squares

    def bordered_coordinates(self, columns: Array) -> Array:
        """All weights, (k, p + 1): eq. (17), beta - A^-1 b beta_new above beta_new."""
        h, new = self.border(columns)
        change = self._solve(h.T).T
        return np.column_stack([self.theta - change * new[:, None], new])

    def bordered_predictions(self, columns: Array, A: Array, rows: Array) -> Array:
        """Predictions at some rows, (k, len(rows)), whose present features are in A (p, P)."""
        h, new = self.border(columns)
        A = A[:, rows]
        return np.asarray(self.theta @ A + new[:, None] * (columns[:, rows] - h @ self._solve(A, transposed=True)))


def _qr(transposed: Array) -> tuple[Array, Array]:
    """Q (n, p) and T (p, p) of the transpose of a C-ordered (p, n) array, which is overwritten.

    Only the upper triangle of T counts.
    """
    p = len(transposed)
    packed, tau, _, info = lapack.dgeqrf(transposed.T, lwork=32 * p, overwrite_a=1)
    T = packed[:p].copy(order="F")
    Q, _, failed = lapack.dorgqr(packed, tau, lwork=32 * p, overwrite_a=1)
    if info or failed:
        raise np.linalg.LinAlgError("the QR factorisation of the weighted features failed.")
    return Q, T


def _qr_by_parts(weighted: Array, bottom: Array) -> tuple[Array, Array]:
    """The same by parts of rows: first each part, then their triangles; the order is fixed on any number of threads."""
    p, n = weighted.shape
    step = max(_QR_ROWS, p)
    starts = range(0, n - n % step if 0 < n % step < p else n, step)
    bounds = [(start, min(start + step, n)) for start in starts]
    bounds[-1] = (bounds[-1][0], n)  # a last part of fewer rows than columns joins the one before
    parts = list(ordered_map(lambda b: _qr(np.ascontiguousarray(weighted[:, b[0] : b[1]])), bounds))
    joint, T = _qr(np.concatenate([*(np.triu(part[1]).T for part in parts), bottom], axis=1))
    Q = np.empty((n + bottom.shape[1], p), order="F")

    def place(number: int) -> None:
        start, stop = bounds[number]
        Q[start:stop] = parts[number][0] @ joint[number * p : (number + 1) * p]

    for _ in ordered_map(place, range(len(bounds))):
        pass
    Q[n:] = joint[len(bounds) * p :]
    return Q, T


# -- kernel values and first vectors ------------------------------------------------------------------------


class FirstVectors(NamedTuple):
    """The vectors that the basis starts from, and their kernel values."""

    vectors: Array  # (m, d), in the rows' (centred) coordinates
    values: Array  # (m, n): against all rows
    gram: Array  # (m, m)

    @classmethod
    def of(cls, columns: KernelColumns, vectors: Array) -> FirstVectors:
        """Vectors against the rows that these columns are of."""
        columns.n_evals += len(vectors) ** 2
        return cls(vectors, columns.values(columns.rows, vectors), columns.kernel.gram(vectors))


def class_means(rows: ArrayRows, kernel: Kernel, labels: Array | None, train: Array) -> Array:
    """Weighted mean of the training rows of every class (Table 1, step 0); of all rows without classes.

    A precomputed kernel knows no mean: the row nearest to it in the kernel's space stands in.
    """
    groups = [train] if labels is None else [train[labels[train] == c] for c in np.unique(labels[train])]
    weights = row_weights(rows)
    if not isinstance(kernel, Precomputed):
        parts = (ArrayRows(rows.take(group), weights=weights[group]) for group in groups)
        return np.stack([column_means(part).astype(rows.dtype) for part in parts])
    nearest = []
    for group in groups:
        numbers = kernel.take_basis(rows, group).ravel().astype(np.intp)
        K = kernel.training[numbers][:, numbers]
        K = np.asarray(K.toarray() if sparse.issparse(K) else K, dtype=np.float64)
        distance = np.diag(K) - 2.0 * (K @ weights[group]) / weights[group].sum()
        nearest.append(group[int(np.argmin(distance))])
    return kernel.take_basis(rows, np.array(nearest))


# -- the machine --------------------------------------------------------------------------------------------


class SemiparametricMachine(GrowingMachine):
    """A growing machine that starts from given vectors and takes any loss.

    Two trainers reach the same machine: Newton's method on the loss with narrowly rounded kinks (a few cheap steps from
    a warm start), and the reweighted least squares of Table 1 (`solver="irwls"`), from the least-squares fit at every
    size.

    Parameters
    ----------
    columns : KernelColumns
        Of rows with targets.
    spec : Spec
        Loss, C and intercept; kernel values come from `columns`.
    train : ndarray of shape (P,)
        Numbers of the training rows; the others are followed but not trained on.
    first_vectors : FirstVectors
    capacity : int
        Number of basis vectors to reserve memory for.
    solver : {"newton", "irwls"}
    memory_budget : int, optional
    """

    def __init__(
        self,
        columns: KernelColumns,
        spec: Spec,
        train: Array,
        first_vectors: FirstVectors,
        capacity: int,
        solver: str = "newton",
        memory_budget: int | None = None,
    ) -> None:
        rows, loss = columns.rows, spec.loss
        assert rows.targets is not None
        weights = training_weights(rows, train)
        self.plain_loss, self.weights, self.first_vectors = loss, np.atleast_2d(weights.T), first_vectors
        self.rounds = loss.piecewise_linear
        self.solver = solver if self.rounds else "newton"
        # what a width is a share of: the margin, or the targets' spread
        y = rows.targets.T
        self.scales = np.ones(len(y))
        if not loss.for_classes or loss.for_regression:
            mass = np.broadcast_to(self.weights, y.shape)
            mean = np.sum(mass * y, axis=1) / np.sum(mass, axis=1)
            spread = np.sqrt(np.sum(mass * (y - mean[:, None]) ** 2, axis=1) / np.sum(mass, axis=1))
            self.scales = np.where(spread > 0.0, spread, 1.0)
        self.widths = _WIDTH * self.scales
        super().__init__(columns, replace(spec, loss=self._rounded(_WIDTH)), capacity, weights, memory_budget)
        self.used_vectors: list[int] = []  # first vectors in the basis
        self.cold = True
        self._fits: list[WeightedFit] = []

    def _rounded(self, share: float) -> Loss:
        return self.plain_loss.rounded(share * self.scales[:, None])

    @property
    def active(self) -> Array:
        """Numbers of the support vectors: rows with a positive weight in some output."""
        if self.solver == "irwls":
            return np.unique(np.concatenate([fit.rows for fit in self._fits]))
        return super().active

    # -- growing -------------------------------------------------------------------------------------

    def append_vectors(self) -> None:
        """Put the first vectors into the basis; one that lies in the span of those before it is left out."""
        _, values, gram = self.first_vectors
        for number in range(len(gram)):
            if self.n_basis == len(self.R):
                break
            side = gram[self.used_vectors, number]
            phi = solve_triangular(self.factor_R, side, trans="T", check_finite=False) if len(side) else side
            square = self.distances(phi, gram[number, number])
            if square > 0.0:
                self.border(values[[number]], phi[None], np.sqrt([square]))
                self.used_vectors.append(number)

    def try_rows(self, indices: Array) -> Trial:
        """Candidates with the features that they would add, without those that lie in the span of the basis."""
        Phi, diagonal = self.features(indices), self.columns.diagonal(indices)
        distances, columns = self.distances(Phi, diagonal), self.columns.columns(indices)
        self.scoring += columns.size * (self.n_basis + 1.0)
        free = distances > 0.0
        if not free.all():
            indices, Phi, diagonal, columns = indices[free], Phi[free], diagonal[free], columns[free]
        pivots = np.sqrt(distances[free])
        return Trial(indices, columns, diagonal, self.whitened(columns, Phi, pivots), pivots)

    # -- training ------------------------------------------------------------------------------------

    def train(self, max_iter: int = 20, tol: float = 1e-4) -> None:
        """Weights for the present basis; at most `max_iter` steps."""
        self._fits = []
        if self.solver == "irwls":
            settled = [self._reweight(output, max_iter) for output in range(self.n_outputs)]
            self.converged = all(settled)
            return
        shares = [*_COLD, _WIDTH] if self.rounds and self.cold else [_WIDTH]
        left = max(max_iter, len(shares))
        for share in shares:
            if self.rounds and len(shares) > 1:
                self.set_loss(self._rounded(share))
            before = self.n_iter
            self.retrain(0.0, left if share == _WIDTH else max(1, left // 3), enough=tol * tol)
            left = max(1, left - (self.n_iter - before))
        self.cold = False

    def _direction(self, problem: int, gradient: Array) -> Array:
        """Newton's step; the step of reweighted least squares where no row has curvature for the intercept."""
        p = self.width
        if self.first and not self.penalty[0] and not self.curvatures[problem].any():
            a, z = self._weights(problem)
            if np.any(a > 0.0):
                return WeightedFit(self.lines, self.penalty[:p], a, z).theta - self.theta[problem, :p]
        return super()._direction(problem, gradient)

    def _weights(self, output: int) -> tuple[Array, Array]:
        cost = self.cost[min(output, len(self.cost) - 1)]
        return quadratic_weights(self.plain_loss, float(self.widths[output]), self.y[output], self.f[output], cost)

    def fits(self) -> list[WeightedFit]:
        """The machine as a weighted least-squares fit, one per output; kept until the next training.

        It ends at an output without support vectors, which no weighted fit determines.
        """
        for output in range(len(self._fits), self.n_outputs):
            a, z = self._weights(output)
            if not np.any(a > 0.0):
                break
            self._fits.append(WeightedFit(self.lines, self.penalty[: self.width], a, z))
        return self._fits

    def _reweight(self, output: int, max_iter: int) -> bool:
        """Table 1, step 1: from a = 1, solve and reweight until the weights beta settle; returns whether they did."""
        loss = cast(PiecewiseLinear, self.plain_loss)
        p, A = self.width, self.lines
        y, cost = self.y[output], self.cost[min(output, len(self.cost) - 1)]
        a, z = np.where(cost > 0.0, 1.0, 0.0), y
        before, settled = np.full(p, np.inf), False
        for _ in range(max_iter):
            fit = WeightedFit(A, self.penalty[:p], a, z)
            self.theta[output, :p], self.f[output] = fit.theta, fit.theta @ A
            beta = fit.theta.copy()
            beta[self.first :] = solve_triangular(self.factor_R, beta[self.first :], check_finite=False)
            self.n_iter += 1
            settled = bool(np.linalg.norm(beta - before) < 1e-5)
            before = beta
            if settled:
                break
            a, z = table_weights(loss, y, self.f[output], cost)
            if not np.any(a > 0.0):
                settled = True
                break
        # the factor of the weights that produced the machine, as eq. (10) asks
        self._fits.append(fit)
        self._terms = self._value = None
        return settled


# -- scores -------------------------------------------------------------------------------------------------


class Trial(NamedTuple):
    """Candidates of one step that do not lie in the span of the basis, and the lines they would append."""

    indices: Array  # (k,) row numbers
    columns: Array  # (k, n), kernel values
    diagonal: Array  # (k,), k(x, x)
    lines: Array  # (k, n)
    pivots: Array  # (k,), distances from the span of the basis


def estimate(machine: SemiparametricMachine, trial: Trial, rows: Array) -> Array:
    """Predictions of every candidate's machine at some rows with the weights a_i fixed (eq. 14 to 17), (k, L, n)."""
    F = np.empty((len(trial.indices), machine.n_outputs, len(rows)))
    for output, fit in enumerate(machine.fits()):
        F[:, output] = fit.bordered_predictions(trial.lines, machine.lines, rows)
        machine.scoring += len(F) * (2.0 * len(fit.rows) + len(rows)) * machine.width
    return F


def fast_weights(machine: SemiparametricMachine, trial: Trial) -> tuple[Array, Array]:
    """Eq. (17) itself: intercepts (k, L) and weights beta of the basis and the candidate, (k, L, m + 1)."""
    m, first = machine.n_basis, machine.first
    beta = np.empty((len(trial.indices), machine.n_outputs, m + 1))
    intercept = np.zeros(beta.shape[:2])
    phi = machine.features(trial.indices)
    for output, fit in enumerate(machine.fits()):
        theta = fit.bordered_coordinates(trial.lines)
        if first:
            intercept[:, output] = theta[:, 0]
        beta[:, output, m] = theta[:, -1] / trial.pivots
        old = theta[:, first:-1] - phi * beta[:, output, m:]
        beta[:, output, :m] = solve_triangular(machine.factor_R, old.T, check_finite=False).T if m else old
    return intercept, beta


def score_sgma(machine: SemiparametricMachine, trial: Trial) -> Array:
    """Decrease of the representation error of the support vectors, sum_i |phi(x_i) - projection|^2 (larger is better).

    The whitened new feature of row i is the length of phi(x_i) along the new direction.
    """
    rows = machine.active
    machine.scoring += len(trial.lines) * len(rows)
    return np.asarray(np.square(trial.lines[:, rows]) @ machine.weights.max(axis=0)[rows])


def pick(errors: Array, shortfalls: Array) -> int:
    """The lowest error; ties by margin, then the first, whose place is the key's."""
    tied = np.flatnonzero(errors <= errors.min() + 1e-12 * max(1.0, abs(float(errors.min()))))
    short = shortfalls[tied]
    return int(tied[np.flatnonzero(short <= short.min() * (1.0 + 1e-9))[0]])


# -- the loop -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FEESelector:
    """How `FEESVC` and `FEESVR` choose the next basis vector.

    Parameters
    ----------
    rule : {"fee", "sgma", "gsvc"}, default="fee"
        Lowest estimated validation error; largest decrease of the representation error of the support vectors
        (SGMA-SVM); or the support vector least like the basis.
    n_candidates : int, default=10
        Support vectors tried at each step.
    growth_iter : int, default=20
        Training steps per size while growing.
    solver : {"newton", "irwls"}, default="newton"
        Training while growing: Newton's method on slightly rounded kinks from a warm start, or the reweighted least
        squares of the paper's Table 1, which is slow (set `growth_iter` to some hundred).  The returned machine is
        solved to the end in either case.

    Examples
    --------
    >>> from kompakt import FEESVC, FEESelector
    >>> FEESVC(selection=FEESelector("sgma", n_candidates=20)).selection.rule
    'sgma'
    """

    rule: str = "fee"
    n_candidates: int = 10
    growth_iter: int = 20
    solver: str = "newton"

    def __post_init__(self) -> None:
        require_counts(self, "n_candidates", "growth_iter")
        self.plan(1)  # refuses what is wrong with the others

    def plan(self, n_basis: int, patience: int | None = 20, run: Run | None = None) -> FeePlan:
        """How to grow up to a size."""
        return FeePlan(
            n_basis,
            self.rule,
            int(self.n_candidates),
            patience,
            int(self.growth_iter),
            solver=self.solver,
            run=run or Run(),
        )


@dataclass(frozen=True)
class FeePlan:
    """How to grow.

    Parameters
    ----------
    n_basis : int
        Largest size.
    selection : {"fee", "sgma", "gsvc"}
    n_candidates : int
        Support vectors tried at each step.
    patience : int, optional
        Stop so many steps after the lowest validation error; None grows to `n_basis`.
    max_iter : int
        Training steps per size and output.
    tol : float
        Share of the objective whose square a training step must gain.
    solver : {"newton", "irwls"}
    run : Run
        Its deadline holds; where it is interruptible, Ctrl-C ends the growth with the best machine so far.

    Examples
    --------
    >>> from kompakt.basis.fee import FeePlan
    >>> FeePlan(n_basis=30).patience
    20
    """

    n_basis: int
    selection: str = "fee"
    n_candidates: int = 10
    patience: int | None = 20
    max_iter: int = 20
    tol: float = 1e-4
    solver: str = "newton"
    run: Run = field(default_factory=Run)

    def __post_init__(self) -> None:
        if self.selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {SELECTIONS}; got {self.selection!r}.")
        if self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {SOLVERS}; got {self.solver!r}.")


#: sees machine, candidates and winner of a step
Observer = Callable[[SemiparametricMachine, Trial, int], None]


class FeeGrowth(GrowthLoop):
    """Table 1 from step 0, and what it found.

    Parameters
    ----------
    machine : SemiparametricMachine
        Without vectors.
    stream : CandidateStream
        Within the training rows; candidates are support vectors of the present machine (step 2.1).
    plan : FeePlan
    judge : Judge
        Of the validation rows, or of the training rows where there are none: says when to stop.
    guide : Judge, optional
        Judges the candidates instead.  With one of the training rows the judge's error is of rows that had no say in
        the choice of vectors.
    observe : callable, optional
        Is handed the machine, its candidates and the winner's place among them before each vector is added (not with
        `gsvc`, which tries none).
    """

    machine: SemiparametricMachine

    def __init__(
        self,
        machine: SemiparametricMachine,
        stream: CandidateStream,
        plan: FeePlan,
        judge: Judge,
        guide: Judge | None = None,
        observe: Observer | None = None,
    ) -> None:
        # FEE growth is short: a checkpoint keeps nothing of it
        super().__init__(machine, plan.n_basis, plan.patience, replace(plan.run, checkpoint=None))
        self.stream, self.plan, self.judge, self.guide, self.observe = stream, plan, judge, guide or judge, observe
        machine.append_vectors()
        self.untrained = True
        self.error_name = "validation_error" if not np.any(machine.weights[:, judge.rows]) else "train_error"
        self.whole: WholeRows | None = None
        if plan.selection == "gsvc":
            self.whole = WholeRows("gsvc", machine, stream.rows[stream.rows >= 0])
            self.whole.added(machine.first_vectors.values[machine.used_vectors])

    @property
    def size(self) -> int:
        """Size of the best machine."""
        return self.best.n_basis

    @property
    def coordinates(self) -> Array:
        """Coordinates of the best machine, (L, first + size)."""
        return self.best.theta

    @property
    def error(self) -> float:
        """Its error."""
        found: float = self.records[self.size - self.records[0]["n_basis"]][self.error_name]
        return found

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the growth."""
        return "interrupted" in self.records[-1]

    def step(self) -> Record | None:
        machine, plan = self.machine, self.plan
        estimated, n_tried = None, 0
        if self.whole is not None and not self.untrained:
            chosen = self.whole.choose()
            if chosen is None:
                return None
            column = machine.columns.columns(np.array([chosen[0]]))
            machine.join(chosen[0], column[0], chosen[1])
            self.whole.added(column)
            n_tried = 1
        elif not self.untrained:
            if plan.selection == "fee" and len(machine.fits()) < machine.n_outputs:
                return None
            while True:
                step = len(machine.indices)
                indices = self.stream.draw_among(step, plan.n_candidates, machine.active, machine.taken)
                if not len(indices):
                    return None
                trial, n_tried = machine.try_rows(indices), len(indices)
                if len(trial.indices):
                    break
                machine.taken.update(indices.tolist())  # all of them lie in the span of the basis, now and later
            if plan.selection == "sgma":
                scores = score_sgma(machine, trial)
                winner = int(np.flatnonzero(scores >= scores.max() * (1.0 - 1e-9))[0])
            else:
                errors, shortfalls = self.guide.errors(estimate(machine, trial, self.guide.rows))
                winner = pick(errors, shortfalls)
                estimated = float(errors[winner])
            if self.observe is not None:
                self.observe(machine, trial, winner)
            machine.join(int(trial.indices[winner]), trial.columns[winner], float(trial.diagonal[winner]))
        machine.train(plan.max_iter, plan.tol)
        return {
            "n_basis": machine.n_basis,
            "estimated_error": estimated,
            self.error_name: float(self.judge.errors(machine.f[None, :, self.judge.rows])[0][0]),
            "n_candidates": n_tried,
            "converged": machine.converged,
            "time": time.perf_counter() - self.started,
        }


def grow_on(
    data: Data,
    spec: Spec,
    plan: FeePlan,
    stream: CandidateStream,
    split: Split,
    columns: KernelColumns | None = None,
    *,
    observe: Observer | None = None,
    confirm: bool = False,
) -> tuple[SemiparametricMachine, FeeGrowth]:
    """Grow a machine on the training rows of a split, judged on those held out; on the training rows where none are.

    Kernel values that are not given are computed.  To `confirm` an error, the candidates are judged on the training
    rows alone.
    """
    train, held = split
    stream = stream.within(np.sort(train))
    rows = data.in_memory
    computed = KernelColumns(rows, spec.kernel)
    first = FirstVectors.of(computed, class_means(rows, spec.kernel, data.labels, train))
    columns = computed if columns is None else columns
    capacity = min(plan.n_basis, int(np.sum(stream.rows >= 0)) + len(first.vectors))
    machine = SemiparametricMachine(columns, spec, train, first, capacity, plan.solver, plan.run.memory_budget)
    judge = Judge.of(data, spec, held if len(held) else train)
    guide = Judge.of(data, spec, train) if confirm else None
    growth = FeeGrowth(machine, stream, replace(plan, n_basis=capacity), judge, guide, observe)
    growth.grow()
    return machine, growth
