"""Every criterion of Keerthi et al. 2006 against a naive version on small data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from tests.basis.naive import column, data, full_fit, grown, machine_for

from kompakt.basis.forward import CandidateStream, Growth, GrowthPlan
from kompakt.basis.scores import SCORES, WholeRows, candidates, score_sp1
from kompakt.data import hash_rows
from kompakt.kernels import RBF
from kompakt.losses import HuberHinge, LeastSquares, SquaredHinge

LOSSES = [SquaredHinge(), HuberHinge(0.8), LeastSquares()]
KERNELS = {"k": RBF(0.5), "1 + k": 1 + RBF(0.5)}


def scores_of(name, machine, indices, score_rows="active"):
    return SCORES[name](machine, candidates(machine, indices, "all" if name == "sp1" else score_rows))


def refits(machine, indices, race=False):
    return score_sp1(machine, candidates(machine, indices, "all"), race)


@pytest.fixture(params=list(KERNELS))
def state(request):
    """A machine with 6 vectors, its data, and rows to try."""
    X, y, s = data(outputs=2)
    intercept = request.param == "k"

    def make(loss, outputs=2):
        machine = machine_for(X, y[:, :outputs], KERNELS[request.param], loss, 3.0, s, fit_intercept=intercept)
        grown(machine, 6, tol=1e-10)
        tried = np.array([row for row in range(60) if row not in machine.taken][:9])
        return machine, tried

    return make, X, y, s, KERNELS[request.param], intercept


def outputs_of(machine, kernel, X):
    """beta, b and f from the solution alone, not from the machine's own state."""
    solution = machine.solution()
    basis = X[machine.indices]
    return solution.weights, kernel.block(X, basis) @ solution.weights + solution.intercept, basis


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("score_rows", ["active", "all"])
def test_sp2_is_the_best_new_weight(state, loss, score_rows):
    make, X, y, s, kernel, _ = state
    machine, tried = make(loss)
    got = scores_of("sp2", machine, tried, score_rows)
    beta, f, basis = outputs_of(machine, kernel, X)
    expected = np.zeros(len(tried))
    for position, row in enumerate(tried):
        column, cross = kernel.block(X, X[[row]])[:, 0], kernel.block(X[[row]], basis)[0]
        for output in range(2):
            target, at = y[:, output], f[:, output]
            counts = np.ones(60, bool) if score_rows == "all" else loss.gradient(target, at) != 0
            if isinstance(loss, HuberHinge | SquaredHinge) and score_rows == "active":
                # one set of rows for both outputs; a row that is inactive for one of them may join there
                counts = np.any(loss.gradient(y, f) != 0, axis=1)

            def phi(t, target=target, at=at, column=column, cross=cross, output=output, counts=counts, row=row):
                # eq. 7 with beta_J fixed, relative to t = 0
                penalty = t * cross @ beta[:, output] + 0.5 * t * t * kernel.diag(X[[row]])[0]
                gain = loss.value(target, at + t * column) - loss.value(target, at)
                return penalty + 3.0 * np.sum((s * gain)[counts])

            expected[position] -= minimize_scalar(phi, bracket=(-0.5, 0.5), options={"xtol": 1e-11}).fun
    assert_allclose(got, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_sp1_is_a_full_refit(state, loss):
    make, X, y, s, kernel, intercept = state
    machine, tried = make(loss)
    got = refits(machine, tried)
    before = float(np.sum(machine.objective()))
    for position, row in enumerate(tried):
        basis = X[[*machine.indices, row]]
        K, K_basis = kernel.block(X, basis), kernel.gram(basis)
        after = sum(full_fit(K, K_basis, y[:, output], s, loss, 3.0, intercept) for output in range(2))
        assert_allclose(got[position], before - after, rtol=1e-5, atol=1e-6 * before)


def test_sp1_holds_while_the_active_set_is_stale():
    X, y, s = data()
    machine = machine_for(X, y, RBF(0.5), SquaredHinge(), 10.0, s)
    for index in range(6):  # never retrained: the machine is not at its optimum
        machine.append(index, column(machine, index), 1.0)
    got = refits(machine, np.array([20, 30]))
    before = float(np.sum(machine.objective()))
    for position, row in enumerate((20, 30)):
        basis = X[[*range(6), row]]
        after = full_fit(RBF(0.5).block(X, basis), RBF(0.5).gram(basis), y[:, 0], s, SquaredHinge(), 10.0)
        assert_allclose(got[position], before - after, rtol=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("C", [0.1, 3.0, 100.0])
def test_racing_candidates_end_with_the_same_winner(loss, C):
    X, y, _ = data(300, seed=5)
    machine = machine_for(X, y, RBF(0.5), loss, C)
    for size in range(0, 30, 3):
        grown(machine, size - machine.n_basis)
        tried = np.array([row for row in range(300) if row not in machine.taken][::6])
        full, raced = refits(machine, tried), refits(machine, tried, race=True)
        assert np.argmax(raced) == np.argmax(full)
        assert_allclose(raced.max(), full.max(), rtol=1e-6)
        assert np.all(raced <= full * (1 + 1e-6))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_mark_is_the_derivative(state, loss):
    make, X, y, s, kernel, _ = state
    machine, tried = make(loss, outputs=1)
    got = scores_of("mark", machine, tried, "all")
    active = scores_of("mark", machine, tried, "active")
    beta, f, basis = outputs_of(machine, kernel, X)
    target = y[:, 0]

    def objective(row, t):
        at = f[:, 0] + t * kernel.block(X, X[[row]])[:, 0]
        cross = kernel.block(X[[row]], basis)[0]
        penalty = t * cross @ beta[:, 0] + 0.5 * t * t * kernel.diag(X[[row]])[0]
        return penalty + 3.0 * np.sum(s * loss.value(target, at))

    slopes = np.array([(objective(row, 1e-5) - objective(row, -1e-5)) / 2e-5 for row in tried])
    assert_allclose(got, np.abs(slopes), rtol=1e-5, atol=1e-5)
    assert_allclose(active, got, rtol=1e-10)  # other rows have no slope


def test_kmp_is_matching_pursuit_on_least_squares(state):
    make, X, y, s, kernel, _ = state
    machine, tried = make(LeastSquares(), outputs=1)
    got = scores_of("kmp", machine, tried)
    beta, f, basis = outputs_of(machine, kernel, X)
    for position, row in enumerate(tried):
        column, cross = kernel.block(X, X[[row]])[:, 0], kernel.block(X[[row]], basis)[0]
        slope = cross @ beta[:, 0] - 3.0 * np.sum(s * column * (y[:, 0] - f[:, 0]))
        curvature = kernel.diag(X[[row]])[0] + 3.0 * np.sum(s * column**2)
        assert_allclose(got[position], 0.5 * slope**2 / curvature, rtol=1e-9)


def brute_distances(kernel, X, indices):
    """Squared distance of every row from the span of the basis, in feature space."""
    K = kernel.gram(X)
    if not len(indices):
        return np.diag(K).copy()
    J = K[np.ix_(indices, indices)]
    return np.diag(K) - np.einsum("ij,ij->i", K[:, indices] @ np.linalg.inv(J), K[:, indices])


@pytest.mark.parametrize("name", ["cholesky", "gsvc", "bh"])
def test_criteria_over_all_rows(name):
    X, y, s = data(outputs=2)
    kernel = 1 + RBF(0.5)
    machine = machine_for(X, y, kernel, SquaredHinge(), 3.0, s, fit_intercept=False)
    hashes = hash_rows(X, 1)
    order = np.argsort(hashes)
    growth = Growth(machine, CandidateStream.of(hashes, 1), GrowthPlan(12, name, retraining="always"))
    for _ in range(12):
        taken = list(machine.indices)
        free = np.setdiff1d(np.arange(60), taken)
        active = np.array([row for row in free if np.any(machine.loss.gradient(y[row], machine.f[:, row]) != 0)])
        distances = brute_distances(kernel, X, taken)
        if name == "cholesky":
            score = {row: distances[row] for row in free}
        elif name == "gsvc":  # eq. 8
            K = np.abs(kernel.gram(X))
            score = {row: -max((K[row, j] for j in taken), default=0.0) for row in active}
        else:  # eq. 9, summed over the outputs
            short = np.maximum(0.0, 1.0 - y * machine.f.T)
            score = {row: np.sum(short[row] ** 2) * distances[row] for row in active}
        best = max(score.values())
        ties = [row for row in order if row in score and score[row] >= best - 1e-12]
        growth.step()
        assert machine.indices[-1] == ties[0]
    assert isinstance(growth.whole, WholeRows)
    assert_allclose(growth.whole.squares, brute_distances(kernel, X, machine.indices), atol=1e-9)


def test_distances_from_the_span():
    X, y, _ = data()
    machine, _ = grown(machine_for(X, y, RBF(0.5), SquaredHinge(), 3.0), 8)
    rows = np.array([row for row in range(60) if row not in machine.taken])
    expected = brute_distances(RBF(0.5), X, machine.indices)[rows]
    assert_allclose(machine.distances(machine.features(rows), np.ones(len(rows))), expected, atol=1e-9)


@pytest.mark.parametrize("name", ["sp1", "sp2", "mark"])
def test_a_step_takes_the_best_candidate(name):
    X, y, s = data()
    machine = machine_for(X, y, RBF(0.5), SquaredHinge(), 3.0, s)
    stream = CandidateStream.of(hash_rows(X, 1), 1)
    growth = Growth(machine, stream, GrowthPlan(6, name, 7, retraining="always"))
    for step in range(6):
        tried = stream.draw(step, 7, machine.taken)
        best = tried[np.argmax(scores_of(name, machine, tried))]
        growth.step()
        assert machine.indices[-1] == best


def test_random_takes_rows_in_the_order_of_the_hash():
    X, y, _ = data()
    machine, _ = grown(machine_for(X, y, RBF(0.5), SquaredHinge(), 3.0), 5, selection="random")
    assert machine.indices == np.argsort(hash_rows(X, 1))[:5].tolist()


def test_rows_in_the_span_are_never_chosen():
    X, y, _ = data()
    X[30:] = X[:30] + 0.0  # every row twice
    machine, _ = grown(machine_for(X, y, RBF(0.5), SquaredHinge(), 3.0), 8)
    twins = np.array([(row + 30) % 60 for row in machine.indices])
    for score_rows in ("active", "all"):
        assert np.all(candidates(machine, twins, score_rows).distances == 0)
    grown(machine, 8)
    assert not set(twins.tolist()) & set(machine.indices)
