"""Piecewise linear losses on hard problems: costs, weights, intercepts, types, ties, limits, rows elsewhere."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from kompakt.data import ArrayRows, IterableSource, RowReader, StreamedRows
from kompakt.design import Design
from kompakt.kernels import RBF, Laplacian, Linear, Polynomial
from kompakt.losses import Absolute, EpsilonInsensitive, Hinge, LeastSquares, PiecewiseLinear, Quantile
from kompakt.run import Run
from kompakt.solve import Problem, Settings, solve
from kompakt.solve import kinks as rounded
from kompakt.testing import stationarity

LOSSES = [Hinge(), Absolute(), EpsilonInsensitive(0.2), EpsilonInsensitive(0.0), Quantile(0.2), Quantile(0.95)]
INTERCEPTS = {"free": {}, "penalised": {"penalize_intercept": True}, "none": {"fit_intercept": False}}


def data(loss, n=150, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    raw = np.sin(2 * X[:, [0]]) + X[:, [1]] * np.linspace(0.5, 1.5, outputs) + 0.4 * rng.standard_normal((n, outputs))
    return X, np.where(raw > 0, 1.0, -1.0) if loss.for_classes else raw


class Uneven(PiecewiseLinear):
    """Kinks on one side of zero, as those of no loss of the package."""

    name, for_regression = "uneven", True

    def __repr__(self):
        return "Uneven()"

    @property
    def kinks(self):
        return np.array([0.5, 1.2])

    @property
    def slopes(self):
        return np.array([-1.0, 0.0, 2.0])


@pytest.mark.parametrize("loss", [*LOSSES, Uneven()], ids=str)
def test_a_rounded_loss_is_the_loss_away_from_kinks_and_the_integral_of_its_slope(loss):
    smooth = rounded.Rounded(loss, 0.3)
    y = np.where(np.arange(201) % 2, 1.0, -1.0)[:, None]
    f = np.linspace(-3.0, 3.0, 201)[:, None]
    step = 1e-5
    differences = (smooth.value(y, f + step) - smooth.value(y, f - step)) / (2 * step)
    np.testing.assert_allclose(smooth.gradient(y, f), differences, atol=1e-4)
    second = (smooth.gradient(y, f + step) - smooth.gradient(y, f - step)) / (2 * step)
    inside = np.abs(second - smooth.curvature(y, f)) < 1e-4
    assert inside.mean() > 0.95  # but where a difference straddles the end of a rounding
    far = np.min(np.abs(loss.residual(y, f)[..., None] - loss.kinks), axis=-1) > 0.3
    np.testing.assert_allclose(smooth.value(y, f)[far], loss.value(y, f)[far], atol=1e-12)


def problem_of(X, y, loss, C=1.0, weights=None, m=20, kernel=RBF(0.5), **more):
    intercept = {key: more.pop(key) for key in ("fit_intercept", "penalize_intercept") if key in more}
    design = Design(ArrayRows(X, y, weights), kernel, X[:m].copy(), whiten=True, **more)
    return Problem(design, loss, C, **intercept)


def distance_from_optimum(problem, solution, at_kink=1e-9):
    """The largest violation of the optimality conditions over the outputs, found without any solver of kompakt."""
    rows = problem.design.rows
    features = problem.design.matvec(np.eye(problem.design.n_basis))
    worst = 0.0
    for output in range(problem.n_outputs):
        weights = rows.weights if rows.weights is None or rows.weights.ndim == 1 else rows.weights[:, output]
        y, w, b = rows.targets[:, output], solution.coordinates[:-1, output], solution.intercept[output]
        size = 1.0 + np.max(np.abs(y)) + np.linalg.norm(w)
        off = stationarity(
            problem.loss, problem.C, features, y, w, b, sample_weight=weights, at_kink=at_kink * size,
            fit_intercept=problem.fit_intercept, penalize_intercept=problem.penalize_intercept,
        )  # fmt: skip
        worst = max(worst, off)
    return worst


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_exact_from_tiny_to_huge_costs(loss, intercept):
    X, y = data(loss, outputs=2)
    for C in (1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6):
        problem = problem_of(X, y, loss, C, **INTERCEPTS[intercept])
        solution = solve(problem)
        assert solution.converged, C
        assert all(solution.info["exact"]), C
        assert distance_from_optimum(problem, solution) <= 1e-8, C


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_weight_per_row_and_output(loss):
    X, y = data(loss, outputs=3)
    weights = np.random.default_rng(1).uniform(0.0, 2.0, y.shape)
    weights[::3] = 0.0  # as in one-vs-one, where most rows take no part in an output
    together = solve(problem_of(X, y, loss, 3.0, weights))
    assert together.converged
    for output in range(3):
        part = weights[:, output] > 0
        alone = solve(Problem(
            Design(ArrayRows(X[part], y[part][:, [output]], weights[part, output]), RBF(0.5), X[:20], whiten=True),
            loss, 3.0,
        ))  # fmt: skip
        assert together.objective[output] == pytest.approx(alone.objective[0], rel=1e-9)
        np.testing.assert_allclose(together.weights[:, output], alone.weights[:, 0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_weight_two_is_the_row_twice(loss):
    X, y = data(loss, n=60)
    weights = np.where(np.arange(60) % 4 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(60), weights.astype(int))
    one = solve(problem_of(X, y, loss, 2.0, weights))
    two = Problem(Design(ArrayRows(X[twice], y[twice]), RBF(0.5), X[:20], whiten=True), loss, 2.0)
    np.testing.assert_allclose(one.weights, solve(two).weights, rtol=1e-6, atol=1e-7)


def test_no_row_near_a_kink():
    """A tiny cost leaves every row of the smaller class inside the margin and the others far from it."""
    X, y = data(Hinge(), n=90)
    problem = problem_of(X, y, Hinge(), 1e-6)
    solution = solve(problem)
    assert solution.converged
    assert np.max(np.abs(solution.coordinates[:-1])) < 1e-3
    assert distance_from_optimum(problem, solution) <= 1e-8


def test_all_rows_at_the_bound():
    """Equal numbers of equal rows with either label: every multiplier is at its bound and any bias will do."""
    X = np.zeros((10, 1))
    y = np.tile([[1.0], [-1.0]], (5, 1))
    solution = solve(Problem(Design(ArrayRows(X, y), RBF(1.0), X[:1], whiten=True), Hinge(), 3.0))
    assert solution.converged
    assert solution.objective[0] == pytest.approx(30.0)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_fewer_rows_than_basis_vectors(loss, n):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 2))
    y = np.where(rng.random((n, 1)) < 0.5, 1.0, -1.0) if loss.for_classes else rng.standard_normal((n, 1))
    for C in (1e-3, 1e3):
        problem = Problem(Design(ArrayRows(X, y), RBF(0.3), rng.standard_normal((30, 2)), whiten=True), loss, C)
        solution = solve(problem)
        assert solution.converged
        assert distance_from_optimum(problem, solution) <= 1e-8


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_float32_rows(loss):
    X, y = data(loss)
    single = solve(problem_of(X.astype(np.float32), y, loss, 5.0))
    double = solve(problem_of(X, y, loss, 5.0))
    assert single.converged
    assert single.objective[0] == pytest.approx(double.objective[0], rel=1e-4)


def test_outputs_of_very_different_size():
    loss = Absolute()
    X, y = data(loss, outputs=3)
    y = y * np.array([1e-6, 1.0, 1e6]) + np.array([0.0, 1e8, 0.0])
    problem = problem_of(X, y, loss, 2.0)
    solution = solve(problem)
    assert solution.converged
    for output, size in enumerate((1e-6, 1.0, 1e6)):
        alone = solve(problem_of(X, y[:, [output]], loss, 2.0))
        # targets near 1e8 are known to 1.5e-8 each
        assert solution.objective[output] == pytest.approx(alone.objective[0], rel=1e-8)
        # the cost in the units of the target: the machine of target t / size and cost C size, times size
        scaled = solve(problem_of(X, y[:, [output]] / size, loss, 2.0 / size))
        assert solution.objective[output] == pytest.approx(scaled.objective[0] * size**2, rel=1e-7)


def test_wild_targets_do_not_spoil_the_others():
    loss = Absolute()
    X, y = data(loss, n=100)
    y[0] = 1e12
    problem = problem_of(X, y, loss, 1.0)
    solution = solve(problem)
    assert solution.converged
    y[0] = 1e3  # an absolute loss pulls alike from any distance
    np.testing.assert_allclose(solution.weights, solve(problem_of(X, y, loss, 1.0)).weights, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", [RBF(0.5), Linear(), Polynomial(0.5, 1.0, 3), Laplacian(0.5)], ids=repr)
def test_repeated_rows_and_integer_grids(kernel):
    """Many rows on the same point of a kink: the multipliers are not unique, the machine is."""
    rng = np.random.default_rng(5)
    X = rng.integers(-1, 2, (120, 2)).astype(float)
    for loss in LOSSES:
        y = np.round(X[:, :1] + rng.normal(size=(120, 1)))
        if loss.for_classes:
            y = np.where(rng.random((120, 1)) < 0.4, 1.0, -1.0)
        problem = problem_of(X, y, loss, 10.0, kernel=kernel)
        solution = solve(problem)
        assert solution.converged, loss
        assert distance_from_optimum(problem, solution, at_kink=2e-7) <= 1e-6, loss


def test_a_hundred_random_problems():
    """Costs over ten powers of ten, sizes, weights, ties, offsets and outliers at random: optimal, and said so."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n, m, d, outputs = (int(rng.choice(choice)) for choice in ([3, 20, 80], [1, 5, 30], [1, 3], [1, 2]))
        loss = LOSSES[rng.integers(len(LOSSES))]
        X = rng.standard_normal((n, d))
        y = rng.standard_normal((n, outputs)) * 10.0 ** rng.integers(-3, 4)
        if rng.random() < 0.3:
            X, y = np.round(X), np.round(y)
        if loss.for_classes:
            y = np.where(rng.random((n, outputs)) < 0.5, 1.0, -1.0)
        elif rng.random() < 0.2:
            y = y + 1e6
        weights = [None, rng.uniform(0.1, 3.0, n), rng.uniform(0.1, 3.0, (n, outputs))][rng.integers(3)]
        kernel = [RBF(1.0), RBF(0.01), Linear(), Polynomial(1.0, 1.0, 2), Laplacian(0.5)][rng.integers(5)]
        design = Design(ArrayRows(X, y, weights), kernel, rng.standard_normal((m, d)), whiten=True)
        intercept = list(INTERCEPTS.values())[rng.integers(3)]
        problem = Problem(design, loss, 10.0 ** rng.integers(-4, 7), **intercept)
        solution = solve(problem)
        assert solution.converged, seed
        rounding = max(solution.info["rounding"])
        assert distance_from_optimum(problem, solution, at_kink=max(1e-9, rounding)) <= 1e-6, seed


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_exact_walk_needs_no_good_start(loss, intercept):
    """From any point, and with any rows held at first, it ends where the multipliers prove the minimum."""
    fit_intercept = intercept != "none"
    for seed in range(4):
        rng = np.random.default_rng(seed)
        features, s, linear = rng.standard_normal((40, 6)), rng.uniform(0.2, 2.0, 40), 0.3 * rng.standard_normal(7)
        linear[-1] *= 0.1 if fit_intercept else 0.0
        y = np.where(rng.random(40) < 0.5, 1.0, -1.0) if loss.for_classes else 2.0 * rng.standard_normal(40)
        penalty = np.append(np.ones(6), float(intercept == "penalised"))
        near = rounded.NearRows(loss, 10.0 ** (seed - 1), features, y, s, linear, penalty, fit_intercept)
        somewhere = rng.standard_normal(7) * np.append(np.ones(6), float(fit_intercept))
        begun = rounded._Walk(near, 10.0 * somewhere, 3.0)
        others = np.setdiff1d(np.arange(40), begun.held)
        np.testing.assert_array_equal(begun.piece[others], np.searchsorted(loss.kinks, begun.r[others]))
        np.testing.assert_allclose(begun.r[begun.held], loss.kinks[begun.kink[begun.held]], atol=1e-12)
        assert begun.distance() <= 1e-12
        top = others[np.argmax(begun.r[others])]
        begun.piece[top] = 0  # where it does not belong: it is as far as the end of that piece
        assert begun.distance() == pytest.approx(max(0.0, begun.r[top] - loss.kinks[0]), abs=1e-12)
        values = []
        for theta, width in ((np.zeros(7), 1e-9), (somewhere, 1e-9), (somewhere, 1.0), (10.0 * somewhere, 3.0)):
            end = rounded.finish(near, theta, width)
            assert end.consistent
            assert end.distance <= 1e-10
            assert end.n_moves <= 60
            assert np.linalg.norm(near.gradient(end.theta, end.slopes)) <= 1e-10 * near.C * s.sum()
            r = loss.residual(y, near.predict(end.theta))
            lowest, highest = (loss.slopes[np.searchsorted(loss.kinks, r + off)] for off in (-1e-9, 1e-9))
            assert np.all((lowest - 1e-12 <= end.slopes) & (end.slopes <= highest + 1e-12))
            loss_part = near.C * s @ loss.value_of_residual(r)
            values.append(0.5 * penalty @ end.theta**2 + linear @ end.theta + loss_part)
        np.testing.assert_allclose(values, values[0], rtol=1e-10)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_the_exact_walk_begins_on_the_rows_in_the_window(unit):
    """As many as are independent, whatever the unit of the features."""
    rng = np.random.default_rng(3)
    features = unit * rng.standard_normal((10, 4)) @ np.diag([1.0, 1.0, 1.0, 0.0])
    near = rounded.NearRows(
        Absolute(), 1.0, features, 0.1 * rng.standard_normal(10), np.ones(10), np.zeros(5), np.ones(5), False
    )
    assert len(rounded._Walk(near, np.zeros(5), 2.0).held) == 3
    assert len(rounded._Walk(near, np.zeros(5), 1e-9).held) == 0


def test_a_free_intercept_moves_first_and_alone():
    """No row is held at first; then the first on its way is, and the weights move with it."""
    features, y = np.array([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0], [0.5, 0.0]]), np.array([1.0, 1.0, -1.0, -1.0])
    s = np.array([1.0, 3.0, 1.0, 1.0])
    near = rounded.NearRows(Hinge(), 0.01, features, y, s, np.zeros(3), np.array([1.0, 1.0, 0.0]), True)
    walk = rounded._Walk(near, np.zeros(3), 1e-9)
    np.testing.assert_allclose(walk.direction(), [0.0, 0.0, 0.02], rtol=1e-12)  # four to the one side, two to the other
    # where the pulls are even the intercept stays, and the weights go down the slope
    even = replace(near, s=np.array([1.0, 1.0, 1.0, 1.0]))
    walk = rounded._Walk(even, np.zeros(3), 1e-9)
    np.testing.assert_allclose(walk.direction(), [0.01 * (1.0 + 2.0 + 1.0 - 0.5), 0.0, 0.0], rtol=1e-12)
    end = rounded.finish(replace(even, C=10.0), np.zeros(3), 1e-9)
    assert end.consistent
    assert end.distance <= 1e-12


def test_rows_of_zeros_lie_on_their_kink_and_hold_nothing():
    X = np.array([[0.0], [0.0], [1.0], [1.0]])
    y = np.array([[0.0], [0.0], [10.0], [9.0]])
    design = Design(ArrayRows(X, y), Linear(), np.ones((1, 1)), whiten=True)
    solution = solve(Problem(design, Absolute(), 0.1, fit_intercept=False))
    assert solution.converged
    assert solution.weights[0, 0] == pytest.approx(0.2, rel=1e-12)  # the pull of two rows
    assert solution.info["exact"] == [True]


@pytest.mark.parametrize("intercept", ["free", "penalised"])
@pytest.mark.parametrize("loss", [Hinge(), Quantile(0.2)], ids=repr)
def test_rows_that_stay_on_one_line_can_be_a_linear_term(loss, intercept):
    X, y = data(loss, n=120)
    whole = problem_of(X, y, loss, 0.5, **INTERCEPTS[intercept])
    expected = solve(whole)
    r = loss.residual(y[:, 0], whole.design.matvec(expected.coordinates[:-1])[:, 0] + expected.intercept[0])
    far = np.min(np.abs(r[:, None] - loss.kinks), axis=1) > 0.1
    pulls = np.where(far, 0.5 * loss.orientation(y[:, 0]) * loss.slopes[np.searchsorted(loss.kinks, r)], 0.0)
    linear = np.append(whole.design.rmatvec(pulls[:, None])[:, 0], pulls.sum())[:, None]
    near = Design(ArrayRows(X[~far], y[~far]), RBF(0.5), X[:20].copy(), whiten=True)
    found = solve(Problem(near, loss, 0.5, linear=linear, **INTERCEPTS[intercept]))
    assert found.converged
    np.testing.assert_allclose(found.coordinates, expected.coordinates, atol=1e-8)
    of_far = 0.5 * loss.value_of_residual(r[far]).sum() - np.sum(linear * expected.coordinates)
    assert found.objective[0] + of_far == pytest.approx(expected.objective[0], rel=1e-9)


def test_rows_without_weight_are_never_near():
    X, y = data(Hinge(), n=60)
    weights = np.where(np.arange(60) % 3 == 0, 0.0, 1.0)
    problem = problem_of(X, y, Hinge(), 5.0, weights)
    for reach in (1e-6, 0.1, 10.0):
        at = rounded._scan(problem, solve(problem).coordinates[:, 0], reach)
        assert not np.any(at.near & (weights == 0.0))
        assert at.near.sum() >= min(40, problem.design.n_basis + 1)
        distance = np.min(np.abs(at.r[:, None] - Hinge().kinks), axis=1)
        assert np.all(at.near[(distance <= reach) & (weights > 0.0)])


# -- limits and starts ---------------------------------------------------------------------------------------


def test_warm_start_is_shorter_and_ends_alike():
    X, y = data(Hinge(), n=400)
    problem = problem_of(X, y, Hinge(), 10.0)
    cold = solve(problem)
    warm = solve(problem, cold.coordinates)
    assert warm.n_iter < cold.n_iter
    assert warm.objective[0] == pytest.approx(cold.objective[0], rel=1e-12)
    near = solve(replace(problem, C=11.0), cold.coordinates)
    assert near.objective[0] == pytest.approx(solve(replace(problem, C=11.0)).objective[0], rel=1e-10)


def test_a_start_for_fewer_vectors_is_padded():
    X, y = data(Hinge())
    small = solve(problem_of(X, y, Hinge(), 5.0, m=10))
    problem = problem_of(X, y, Hinge(), 5.0)
    assert solve(problem, small.coordinates).objective[0] == pytest.approx(solve(problem).objective[0], rel=1e-10)


def test_a_passed_deadline_ends_at_once_and_says_so():
    X, y = data(Hinge(), n=3000, outputs=6)
    problem = problem_of(X, y, Hinge(), 100.0, m=60)
    start = time.monotonic()
    solution = solve(problem, None, Settings(run=Run(deadline=start)))
    late = time.monotonic() - start
    full = solve(problem)
    assert not solution.converged
    assert full.converged
    assert late < 0.5 * (time.monotonic() - start - late)
    assert np.all(np.isfinite(solution.weights))


def test_too_few_iterations_are_reported_per_output():
    X, y = data(Hinge(), n=300, outputs=8)
    problem = problem_of(X, y, Hinge(), 100.0)
    solution = solve(problem, None, Settings(max_iter=1))
    assert not solution.converged
    assert np.max(solution.optimality) > 1e-6
    assert solution.n_iter == len(rounded._COARSE) + 1  # one in every stage
    # the limit is for one output, not for all of them together
    assert solve(problem, None, Settings(max_iter=80)).converged


def test_only_piecewise_linear_losses():
    X, y = data(Hinge())
    with pytest.raises(ValueError, match="piecewise linear"):
        rounded.minimise(problem_of(X, y, LeastSquares()))


# -- rows that are not held, designs that are not stored --------------------------------------------------------


def streamed(X, y, weights):
    """The same rows, read anew in every pass."""
    source = IterableSource([(X[:50], y[:50], weights[:50]), (X[50:], y[50:], weights[50:])])
    return StreamedRows(RowReader(source, encode=lambda raw: (raw.y, raw.w)), y.shape[1], 1, float(weights.sum()))


@pytest.mark.parametrize(
    ("loss", "intercept"),
    [*((loss, "free") for loss in LOSSES), (Hinge(), "penalised"), (Absolute(), "none")],
    ids=repr,
)
def test_streamed_rows_give_the_same_machine(loss, intercept):
    X, y = data(loss, outputs=2)
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(X))
    there = Design(streamed(X, y, weights), RBF(0.5), X[:20], whiten=True, block_rows=67)
    for C in (1e-2, 10.0):
        found = solve(Problem(there, loss, C, **INTERCEPTS[intercept]))
        held = solve(problem_of(X, y, loss, C, weights, **INTERCEPTS[intercept]))
        assert found.converged, C
        np.testing.assert_allclose(found.objective, held.objective, rtol=1e-5)
        f = there.matvec(found.coordinates[:-1]) + found.intercept
        g = there.matvec(held.coordinates[:-1]) + held.intercept
        np.testing.assert_allclose(f, g, atol=2e-4 * (1 + np.abs(y).max()))


def test_values_computed_anew_give_the_same_machine():
    X, y = data(Hinge(), outputs=2)
    stored = solve(problem_of(X, y, Hinge(), 5.0, store=True))
    problem = problem_of(X, y, Hinge(), 5.0, store=False, block_rows=41)
    before = problem.design.n_kernel_evals
    np.testing.assert_allclose(solve(problem).weights, stored.weights, rtol=1e-6, atol=1e-7)
    assert problem.design.n_kernel_evals > before  # the evaluations of the parts are counted


def test_too_many_near_rows_are_passed_over_instead_of_copied(monkeypatch):
    X, y = data(Hinge(), n=200)
    problem = problem_of(X, y, Hinge(), 5.0)
    exact = solve(problem)
    monkeypatch.setattr(rounded, "_NEAR_BYTES", 0)
    passed = solve(problem)
    assert passed.converged
    assert passed.info["exact"] == [False]
    assert passed.objective[0] == pytest.approx(exact.objective[0], rel=1e-6)


@pytest.mark.parametrize(("coarse", "tol"), [((1.0,), 0.5), ((0.1,), 1e-2), ((3.0, 0.01), 1e-1)])
def test_a_bad_beginning_is_repaired(monkeypatch, coarse, tol):
    """Stages left far too early, so that rows set aside do cross: they join, and the end is the same."""
    X, y = data(Hinge(), n=600)
    problem = problem_of(X, y, Hinge(), 50.0)
    exact = solve(problem)
    joined = []
    join = rounded._join
    monkeypatch.setattr(rounded, "_COARSE", coarse)
    monkeypatch.setattr(rounded, "_STAGE_TOL", tol)
    monkeypatch.setattr(rounded, "_join", lambda *a: joined.append(1) or join(*a))
    found = solve(problem)
    assert found.converged
    assert found.objective[0] == pytest.approx(exact.objective[0], rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_followed_rounding_is_a_line_over_the_wider_window(loss):
    """Rows of the window before keep to one line through the kink, on which their multipliers shrink with them."""
    width, window = 0.03, 0.3
    followed, narrow = rounded.Rounded(loss, width, window), rounded.Rounded(loss, width)
    y = np.where(np.arange(401) % 2, 1.0, -1.0)[:, None]
    f = np.linspace(-3.0, 3.0, 401)[:, None]
    gaps = np.abs(loss.residual(y, f)[..., None] - loss.kinks)
    far = np.min(gaps, axis=-1) > 0.5 * window
    np.testing.assert_allclose(followed.gradient(y, f)[far], narrow.gradient(y, f)[far], rtol=1e-14)
    assert np.all(followed.curvature(y, f)[far] == 0.0)
    if len(loss.kinks) == 1:
        r = loss.residual(y, f)[~far] - loss.kinks[0]
        low, high = loss.slopes
        expected = low + (high - low) * (r / width + 0.5)
        np.testing.assert_allclose(followed.slope(loss.residual(y, f))[~far], expected, rtol=1e-12)
        np.testing.assert_allclose(followed.curvature(y, f)[~far], (high - low) / width, rtol=1e-14)
    several = rounded.Rounded(loss, np.array([0.1, 0.2]), np.array([1.0, 2.0])).take_outputs(np.array([1]))
    assert (several.width.tolist(), several.window.tolist()) == ([0.2], [2.0])
    assert followed.take_outputs(np.array([0])) is followed


def test_the_first_start_is_the_least_squares_fit():
    X, y = data(Absolute(), outputs=2)
    for kind in INTERCEPTS.values():
        problem = problem_of(X, y, Absolute(), 3.0, **kind)
        expected = solve(replace(problem, loss=LeastSquares())).coordinates
        np.testing.assert_allclose(rounded._least_squares(problem), expected, atol=1e-9)


def test_iterations_are_those_of_all_stages(monkeypatch):
    counts, minimise = [], rounded.newton.minimise

    def counted(*arguments):
        found = minimise(*arguments)
        counts.append(found.n_iter)
        return found

    monkeypatch.setattr(rounded.newton, "minimise", counted)
    X, y = data(Hinge())
    solution = solve(problem_of(X, y, Hinge(), 5.0))
    coarse = len(rounded._COARSE)
    assert solution.n_iter == sum(counts[:coarse]) + sum(max(1, count) for count in counts[coarse:])


class Elsewhere(ArrayRows):
    """Rows whose passes run where arrays of this process cannot be written to."""

    remote = True


def test_rows_elsewhere_give_the_same_machine():
    X, y = data(Hinge())
    here = solve(problem_of(X, y, Hinge(), 5.0))
    there = solve(Problem(Design(Elsewhere(X, y), RBF(0.5), X[:20].copy(), whiten=True), Hinge(), 5.0))
    np.testing.assert_allclose(there.coordinates, here.coordinates, atol=1e-9)
    assert there.info["exact"] == [True]
