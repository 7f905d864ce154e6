"""The fast error estimate against direct solves, its cost by counting, the trainers against each other, the loop."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import solve_triangular
from tests.basis.naive import column

from kompakt.basis import fee
from kompakt.basis.columns import KernelColumns
from kompakt.basis.fee import (
    FeeGrowth,
    FeePlan,
    FirstVectors,
    Judge,
    SemiparametricMachine,
    WeightedFit,
    class_means,
    estimate,
    fast_weights,
    pick,
    quadratic_weights,
    score_sgma,
    table_weights,
)
from kompakt.basis.forward import CandidateStream
from kompakt.data import ArrayRows, hash_rows
from kompakt.datasets import make_checkerboard, make_ringnorm, make_spirals
from kompakt.kernels import RBF
from kompakt.losses import Absolute, EpsilonInsensitive, Hinge, Huber, LeastSquares, SquaredHinge
from kompakt.solve import line_search
from kompakt.spec import Data, Spec

SETS = {
    "checkerboard": (lambda: make_checkerboard(160, flip=0.05), 4.0),
    "spirals": (lambda: make_spirals(160), 3.0),
    "ringnorm": (lambda: make_ringnorm(160), 0.03),
}


class Setup:
    """A machine on one of the sets with every fifth row held out."""

    def __init__(self, name="checkerboard", solver="newton", loss=None, C=100.0, every=5):
        make, gamma = SETS[name]
        self.X, y = make()
        self.y = y.astype(float)
        labels = (y > 0).astype(int)
        number = np.arange(len(y))
        self.train, self.held = number[number % every != 0], number[number % every == 0]
        self.kernel = RBF(gamma)
        rows = ArrayRows(self.X, self.y[:, None])
        self.columns = KernelColumns(rows, self.kernel)
        self.vectors = class_means(rows, self.kernel, labels, self.train)
        first = FirstVectors.of(self.columns, self.vectors)
        self.data = Data(rows, labels=labels)
        self.spec = Spec(self.kernel, loss or Hinge(), C, n_classes=2)
        self.machine = SemiparametricMachine(self.columns, self.spec, self.train, first, 60, solver)
        self.stream = CandidateStream.of(hash_rows(self.X, 1), 1).within(self.train)
        self.judge = Judge.of(self.data, self.spec, self.held)

    def growth(self, plan, observe=None, judge=None):
        growth = FeeGrowth(self.machine, self.stream, plan, judge or self.judge, observe=observe)
        growth.grow()
        return growth

    def draw(self, step, count=10):
        return self.stream.draw_among(step, count, self.machine.active, self.machine.taken)

    def join(self, index):
        self.machine.join(index, column(self.machine, index), 1.0)

    def basis(self):
        chosen = self.X[np.array(self.machine.indices, dtype=int)]
        return np.concatenate([self.vectors[self.machine.used_vectors], chosen])


def direct(setup, index, a, z):
    """Weights of eq. (10) for one candidate: least squares on [sqrt(a) K~ ; R_c], nothing carried over."""
    X, kernel = setup.X, setup.kernel
    basis = np.concatenate([setup.basis(), X[[index]]])
    R = np.linalg.cholesky(kernel.gram(basis)).T
    features = solve_triangular(R, kernel.block(X, basis).T, trans="T").T
    phi = np.column_stack([np.ones(len(X)), features])
    root = np.sqrt(a)
    below = np.eye(len(basis) + 1)[1:]
    stacked = np.concatenate([root[:, None] * phi, below])
    w = np.linalg.lstsq(stacked, np.concatenate([root * z, np.zeros(len(basis))]), rcond=None)[0]
    return phi[setup.held] @ w


@pytest.mark.parametrize("solver", ["irwls", "newton"])
@pytest.mark.parametrize("name", SETS)
def test_fast_weights_equal_a_direct_solve_of_eq_10(name, solver):
    setup = Setup(name, solver)
    machine = setup.machine
    machine.append_vectors()
    largest = 0.0
    for step in range(20):
        machine.train(40)
        fit = machine.fits()[0]
        a = np.zeros(len(setup.X))
        a[fit.rows] = fit.root**2
        z = setup.y
        if solver == "newton":
            z = quadratic_weights(machine.plain_loss, machine.widths[0], z, machine.f[0], machine.cost[0])[1]
        trial = machine.try_rows(setup.draw(step))
        F = estimate(machine, trial, setup.held)[:, 0]
        intercept, beta = fast_weights(machine, trial)
        for place, index in enumerate(trial.indices):
            expected = direct(setup, index, a, z)
            assert_allclose(F[place], expected, atol=1e-8)
            basis = np.concatenate([setup.basis(), setup.X[[index]]])
            values = setup.kernel.block(setup.X[setup.held], basis) @ beta[place, 0] + intercept[place, 0]
            assert_allclose(values, expected, atol=1e-6)  # the weights themselves may be large and of both signs
        largest = max(largest, a.max())
        winner = pick(*setup.judge.errors(F[:, None]))
        machine.join(int(trial.indices[winner]), trial.columns[winner], float(trial.diagonal[winner]))
    assert largest >= (1e8 if solver == "irwls" else 1e3), "no row was near the margin: the test has lost its point"


def test_the_cost_of_a_candidate_is_rows_times_size():
    """Multiply-adds per candidate, counted: linear in P at fixed R, linear in R at fixed P, P kernel values each."""
    costs = {}
    for every in (2, 5):
        for size in (10, 20, 40):
            setup = Setup("ringnorm", every=every)
            setup.growth(FeePlan(size, patience=None))
            setup.machine.fits()
            before, evals = setup.machine.scoring, setup.columns.n_evals
            indices = setup.stream.draw_among(99, 5, setup.train, set())
            trial = setup.machine.try_rows(indices)
            estimate(setup.machine, trial, setup.held)
            k, rows, width = len(indices), len(setup.X), setup.machine.width
            costs[every, size] = (setup.machine.scoring - before) / k
            assert costs[every, size] <= 4.0 * rows * width
            assert setup.columns.n_evals - evals == k * (rows + 1)
    for every in (2, 5):
        assert 1.6 < costs[every, 40] / costs[every, 20] < 2.3


def test_candidates_are_support_vectors_and_never_in_the_basis():
    setup = Setup()
    seen = []

    def look(machine, trial, winner):
        assert np.isin(trial.indices, machine.active).all()
        assert not set(trial.indices) & set(machine.indices)
        seen.append(len(trial.indices))

    setup.growth(FeePlan(30, patience=None), look)
    assert len(seen) == 28
    assert max(seen) == 10


def test_a_row_equal_to_a_basis_vector_is_left_out():
    setup = Setup()
    setup.machine.append_vectors()
    setup.join(3)
    trial = setup.machine.try_rows(np.array([3, 4]))
    assert trial.indices.tolist() == [4]


def test_equal_rows_are_one_candidate():
    X = np.repeat(np.arange(6.0)[:, None], 3, axis=0)
    stream = CandidateStream.of(hash_rows(X, 0), 0)
    drawn = stream.draw_among(0, 10, np.arange(18), set())
    assert sorted(X[drawn, 0]) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert sorted(X[stream.draw_among(0, 10, np.arange(1, 12), {4}), 0]) == [0.0, 2.0, 3.0]


def test_growth_stops_patience_steps_after_the_first_minimum():
    setup = Setup("ringnorm", C=1.0)
    growth = setup.growth(FeePlan(60, patience=7))
    errors = [record["validation_error"] for record in growth.records]
    sizes = [record["n_basis"] for record in growth.records]
    best = int(np.argmin(errors))
    assert growth.size == sizes[best]
    assert growth.error == errors[best]
    assert sizes[-1] == sizes[best] + 7
    # the coordinates are those of the machine at the best step
    F = growth.coordinates @ setup.machine.lines[: setup.machine.first + growth.size, setup.held]
    assert setup.judge.errors(F[None])[0][0] == growth.error


def test_the_winner_has_the_lowest_estimated_error_then_margin_then_order():
    assert pick(np.array([0.2, 0.1, 0.1, 0.1]), np.array([0.0, 0.5, 0.3, 0.3])) == 2


@pytest.mark.parametrize("C", [0.1, 10.0, 1e4])
def test_compiled_and_array_newton_agree(monkeypatch, C):
    pytest.importorskip("numba")
    fast = Setup(C=C)
    a = fast.growth(FeePlan(15, patience=None, max_iter=100))
    monkeypatch.setattr(line_search, "compiled", lambda: None)
    slow = Setup(C=C)
    b = slow.growth(FeePlan(15, patience=None, max_iter=100))
    assert fast.machine.indices == slow.machine.indices
    assert_allclose(a.coordinates, b.coordinates, atol=2e-3 * np.abs(b.coordinates).max())


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), LeastSquares(), EpsilonInsensitive(0.1), Absolute()])
def test_the_trained_machine_is_its_own_weighted_fit(monkeypatch, loss, compiled):
    """Fixing the weights of a converged machine and solving again changes nothing (eq. 9)."""
    if not compiled:
        monkeypatch.setattr(line_search, "compiled", lambda: None)
    setup = Setup(loss=loss, C=5.0)
    setup.machine.append_vectors()
    for index in setup.train[:10]:
        setup.join(index)
    setup.machine.train(200, tol=1e-10)
    theta = setup.machine.fits()[0].theta
    assert_allclose(theta, setup.machine.theta[0, : setup.machine.width], atol=1e-6)


def test_newton_and_reweighting_reach_the_same_machine():
    found = []
    for solver in ("newton", "irwls"):
        setup = Setup(solver=solver, C=1.0)
        setup.machine.append_vectors()
        for index in setup.train[:6]:
            setup.join(index)
        setup.machine.train(400)
        found.append(setup.machine.f[0, setup.held])
    assert_allclose(found[0], found[1], atol=0.03)  # kinks are rounded to 2 % of the margin while growing


@pytest.mark.parametrize("loss", [EpsilonInsensitive(0.1), Absolute(), Huber(0.5), LeastSquares(), SquaredHinge()])
def test_quadratic_weights_have_the_gradient_of_the_loss(loss):
    rng = np.random.default_rng(0)
    f = rng.normal(size=50)
    y = rng.choice([-1.0, 1.0], size=50) if loss.for_classes else rng.normal(size=50)
    cost = rng.uniform(1, 2, size=50)
    a, z = quadratic_weights(loss, 1e-9, y, f, cost)
    assert np.all(a >= 0)
    assert_allclose(a * (f - z), cost * loss.gradient(y, f), atol=1e-12)


def test_table_weights_are_those_of_table_1():
    y, f = np.array([1.0, 1.0, 1.0, -1.0]), np.array([2.0, 1.0, 0.0, 0.0])
    a, z = table_weights(Hinge(), y, f, np.full(4, 10.0))
    assert_allclose(a, [0.0, 1e9, 10.0, 10.0])
    assert_allclose(z[1:], y[1:])


def test_factoring_by_parts_gives_the_same_factor(monkeypatch):
    rng = np.random.default_rng(0)
    A, a, z = rng.normal(size=(6, 500)), 10.0 ** rng.uniform(-2, 9, 500), rng.normal(size=500)
    penalty = np.array([0.0, 1, 1, 1, 1, 1])
    whole = WeightedFit(A, penalty, a, z)
    monkeypatch.setattr(fee, "_QR_ROWS", 64)
    parts = WeightedFit(A, penalty, a, z)
    columns = rng.normal(size=(3, 500))
    assert_allclose(parts.theta, whole.theta, atol=1e-10)
    assert_allclose(parts.bordered_coordinates(columns), whole.bordered_coordinates(columns), atol=1e-10)


def test_sgma_is_the_decrease_of_the_representation_error():
    setup = Setup()
    machine, kernel, X = setup.machine, setup.kernel, setup.X
    machine.append_vectors()
    setup.join(6)
    machine.train()
    trial = machine.try_rows(np.arange(10, 16))

    def error(basis):
        S = X[machine.active]
        K = kernel.block(S, basis)
        return np.sum(1.0 - np.einsum("ij,ji->i", K, np.linalg.solve(kernel.gram(basis), K.T)))

    before = error(setup.basis())
    naive = [before - error(np.concatenate([setup.basis(), X[[i]]])) for i in trial.indices]
    assert_allclose(score_sgma(machine, trial), naive, rtol=1e-8)


@pytest.mark.parametrize("selection", ["sgma", "gsvc"])
def test_other_criteria_grow_too(selection):
    setup = Setup()
    growth = setup.growth(FeePlan(20, selection, patience=None))
    assert growth.size == 20
    assert len(set(setup.machine.indices)) == 18
    assert growth.records[-1]["estimated_error"] is None


def test_gsvc_takes_the_support_vector_least_like_the_basis():
    setup = Setup()
    machine = setup.machine
    setup.growth(FeePlan(3, "gsvc", patience=None))
    other = Setup()
    other.machine.append_vectors()
    other.machine.train()
    X = other.X
    likeness = other.kernel.block(X, other.vectors).max(axis=1)
    likeness[np.setdiff1d(np.arange(len(X)), other.machine.active)] = np.inf
    assert machine.indices == [int(np.argmin(likeness))]


def test_least_squares_estimates_are_exact():
    """With constant weights the estimate is the error after retraining."""
    setup = Setup(loss=LeastSquares())
    judge = Judge.of(Data(setup.data.rows), setup.spec, setup.held)
    growth = setup.growth(FeePlan(12, patience=None), judge=judge)
    for record in growth.records[1:]:
        assert record["estimated_error"] == pytest.approx(record["validation_error"], rel=1e-6)
