"""Fast cross-validation against refitting every fold by least squares on stacked rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import LinAlgWarning

from kompakt.parallel import block_threads
from kompakt.search import cheapest_method, ridge_cv

METHODS = ["downdate", "hat", "iterate"]


def cross_validated_path(Phi, Y, fold, amounts, weights=None, *, shape=1.0, block=None, **options):
    """Rows in any order, targets (n,) or (n, L); with `block`, features come in blocks of so many rows."""
    order = np.argsort(fold, kind="stable")
    Z, T = Phi[order], Y[order].reshape(len(Y), -1)
    features = Z if block is None else lambda: (Z[i : i + block] for i in range(0, len(Z), block))
    unit = np.broadcast_to(np.asarray(shape, dtype=float), Phi.shape[1])
    s = None if weights is None else weights[order]
    found = ridge_cv.cross_validated_path(
        features, T, fold[order], np.asarray(amounts, dtype=float), s, unit, **options
    )
    residuals = np.empty_like(found)
    residuals[:, order] = found
    return residuals.reshape(len(residuals), *Y.shape)


def cross_validated_residuals(Phi, Y, fold, penalty, weights=None, **options):
    """The path of one penalty."""
    return cross_validated_path(Phi, Y, fold, [1.0], weights, shape=penalty, **options)[0]


def refitted(Phi, Y, fold, penalty, weights=None):
    """Naive: one QR least-squares fit per fold on [sqrt(s) Phi; sqrt(P)]."""
    n, p = Phi.shape
    s = np.ones(n) if weights is None else weights
    root = np.diag(np.sqrt(np.broadcast_to(penalty, p)))
    residuals = np.full(Y.shape, np.nan)
    for v in range(fold.max() + 1):
        train, held = fold != v, fold == v
        scale = np.sqrt(s[train])
        lhs = np.vstack([Phi[train] * scale[:, None], root])
        target = Y[train] * (scale if Y.ndim == 1 else scale[:, None])
        rhs = np.concatenate([target, np.zeros((p, *Y.shape[1:]))])
        residuals[held] = Y[held] - Phi[held] @ np.linalg.lstsq(lhs, rhs, rcond=None)[0]
    return residuals


def problem(n=300, p=25, outputs=3, seed=0):
    rng = np.random.default_rng(seed)
    Phi = np.column_stack([rng.normal(size=(n, p - 1)) * np.logspace(0, -2, p - 1), np.ones(n)])
    Y = Phi @ rng.normal(size=(p, outputs)) + rng.normal(size=(n, outputs))
    weights = rng.uniform(0.2, 3.0, size=n)
    return Phi, Y, weights, rng


def folds(n, n_folds, rng):
    return rng.permutation(np.arange(n) % n_folds)


@pytest.mark.parametrize("method", [*METHODS, "auto"])
@pytest.mark.parametrize("n_folds", [2, 5, 10, 50, 300])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_refitting(method, n_folds, weighted):
    Phi, Y, weights, rng = problem()
    weights = weights if weighted else None
    fold = folds(300, n_folds, rng)
    penalty = np.full(25, 0.1)
    penalty[-1] = 0.0  # free intercept
    ours = cross_validated_residuals(Phi, Y, fold, penalty, weights, method=method)
    np.testing.assert_allclose(ours, refitted(Phi, Y, fold, penalty, weights), rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_one_output_uneven_penalty_unequal_folds_and_rows_never_held_out(method):
    Phi, Y, weights, rng = problem(outputs=1)
    penalty = rng.uniform(0.1, 2.0, size=25)
    fold = np.minimum(rng.geometric(0.2, size=300) - 2, 9)  # -1 for about a fifth of the rows
    fold[fold < 0] = -1
    ours = cross_validated_residuals(Phi, Y[:, 0], fold, penalty, weights, method=method)
    assert ours.shape == (300,)
    np.testing.assert_array_equal(np.isnan(ours), fold == -1)
    np.testing.assert_allclose(ours, refitted(Phi, Y[:, 0], fold, penalty, weights), rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_weight_zero_are_predicted_but_not_trained_on(method):
    Phi, Y, weights, rng = problem()
    weights[::3] = 0.0
    for n_folds in (5, 300):
        fold = folds(300, n_folds, rng)
        ours = cross_validated_residuals(Phi, Y, fold, 0.5, weights, method=method)
        np.testing.assert_allclose(ours, refitted(Phi, Y, fold, 0.5, weights), rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_weight_two_equals_the_row_twice(method):
    Phi, Y, _, rng = problem(n=120)
    fold = folds(120, 6, rng)
    twice = np.concatenate([np.arange(120), np.arange(40)])
    weights = np.where(np.arange(120) < 40, 2.0, 1.0)
    weighted = cross_validated_residuals(Phi, Y, fold, 0.3, weights, method=method)
    repeated = cross_validated_residuals(Phi[twice], Y[twice], fold[twice], 0.3, method=method)
    np.testing.assert_allclose(weighted, repeated[:120], rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_folds", [10, 200])
def test_folds_that_alone_determine_a_direction(method, n_folds):
    # Features seen by one row only: leverage 1 - 1e-9 with this penalty, and one row huge.
    Phi, Y, _, rng = problem(n=200)
    fold = folds(200, n_folds, rng)
    Phi[:, 3] = 0.0
    Phi[17, 3] = 1.0
    Phi[60] *= 1e3
    ours = cross_validated_residuals(Phi, Y, fold, 1e-9, method=method)
    theirs = refitted(Phi, Y, fold, 1e-9)
    np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_more_features_than_rows(method):
    rng = np.random.default_rng(4)
    Phi, Y = rng.normal(size=(60, 90)), rng.normal(size=(60, 2))
    fold = folds(60, 6, rng)
    ours = cross_validated_residuals(Phi, Y, fold, 0.05, method=method)
    np.testing.assert_allclose(ours, refitted(Phi, Y, fold, 0.05), rtol=0, atol=1e-9)


def test_float32_integer_and_read_only_features():
    Phi, Y, _, rng = problem(n=90, p=6)
    fold = folds(90, 5, rng)
    single = Phi.astype(np.float32)
    single.flags.writeable = False
    ours = cross_validated_residuals(single, Y, fold, 0.1)
    np.testing.assert_allclose(ours, refitted(single.astype(float), Y, fold, 0.1), rtol=0, atol=1e-9)
    whole = np.round(10 * Phi).astype(int)
    ours = cross_validated_residuals(np.asfortranarray(whole), Y, fold, 0.1)
    np.testing.assert_allclose(ours, refitted(whole.astype(float), Y, fold, 0.1), rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", [*METHODS, "auto"])
@pytest.mark.parametrize("n_folds", [5, 300])
def test_path_of_penalties(method, n_folds):
    Phi, Y, weights, rng = problem()
    fold = folds(300, n_folds, rng)
    shape = np.ones(25)
    shape[-1] = 0.0
    amounts = [1e3, 1e-6, 0.1, 1e-2, 1e5]  # more than 8 powers of ten, not sorted
    path = cross_validated_path(Phi, Y, fold, amounts, weights, shape=shape, method=method)
    assert path.shape == (5, 300, 3)
    for amount, residuals in zip(amounts, path, strict=True):
        one = cross_validated_residuals(Phi, Y, fold, amount * shape, weights, method="downdate")
        np.testing.assert_allclose(residuals, one, rtol=0, atol=1e-8)


@pytest.mark.parametrize("method", ["hat", "iterate"])
def test_path_over_many_powers_of_ten(method):
    Phi, Y, _, rng = problem(n=120, p=8, outputs=1)
    fold = folds(120, 6, rng)
    amounts = np.logspace(-12, 12, 25)[::-1]
    path = cross_validated_path(Phi, Y, fold, amounts, method=method)
    for amount, residuals in zip(amounts, path, strict=True):
        np.testing.assert_allclose(residuals, refitted(Phi, Y, fold, amount), rtol=0, atol=1e-8)


@pytest.mark.parametrize("method", [*METHODS, "blockwise"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("amounts", [[0.3], [1e-3, 0.3, 20.0]])
def test_constraints_take_features_from_their_folds(method, weighted, amounts):
    """A constraint that picks a column is the same as leaving the column out, in that fold alone."""
    Phi, Y, weights, rng = problem(n=200, p=12)
    weights = weights if weighted else None
    fold = folds(200, 5, rng)
    fold[fold == 4] = -1
    dropped = {0: [2, 7], 1: [], 2: [0, 1, 3], 3: [5]}
    rows = np.eye(12)[[c for columns in dropped.values() for c in columns] + [9]]
    home = np.array([v for v, columns in dropped.items() for _ in columns] + [-1])  # a row of fold -1 holds nowhere
    rows[0] = rows[0] + 3.0 * rows[1]  # another basis of the same two columns
    how = {"block": 70} if method == "blockwise" else {"method": method}
    path = cross_validated_path(Phi, Y, fold, amounts, weights, constraints=(rows, home), **how)
    for amount, residuals in zip(amounts, path, strict=True):
        for v, columns in dropped.items():
            alone = np.where(fold == v, 0, -1)
            expected = refitted(np.delete(Phi, columns, axis=1), Y, alone, amount, weights)
            np.testing.assert_allclose(residuals[fold == v], expected[fold == v], rtol=0, atol=1e-9)
        assert np.isnan(residuals[fold == -1]).all()


# ---------------------------------------------------------------------------------------------- blocks


AMOUNTS = [1e-4, 0.1, 50.0]


@pytest.mark.parametrize("block", [1, 37, 300])
@pytest.mark.parametrize("budget", [1e9, 1.0])  # all folds at once, or one fold per pass
@pytest.mark.parametrize(("n_folds", "weighted"), [(2, True), (7, True), (7, False)])
def test_blockwise_equals_in_memory(block, budget, n_folds, weighted):
    Phi, Y, weights, rng = problem()
    weights = weights if weighted else None
    fold = folds(300, n_folds, rng)
    shape = np.append(np.ones(24), 0.0)  # free intercept

    how = {"block": block, "memory_budget": budget}
    streamed = cross_validated_path(Phi, Y, fold, AMOUNTS, weights, shape=shape, **how)
    whole = cross_validated_path(Phi, Y, fold, AMOUNTS, weights, shape=shape)
    np.testing.assert_allclose(streamed, whole, rtol=0, atol=1e-10)
    one = cross_validated_path(Phi, Y, fold, [1.0], weights, shape=0.1 * shape, **how)
    np.testing.assert_allclose(one[0], streamed[1], atol=1e-12)


def test_blockwise_does_not_depend_on_the_blocks():
    rng = np.random.default_rng(0)
    Phi, Y = rng.normal(size=(2000, 6)), rng.normal(size=(2000, 2))
    fold = rng.integers(-1, 2, size=2000)  # hold-out rows as well

    def run(block):
        return cross_validated_path(Phi, Y, fold, [1.0], block=block)[0]

    first = run(2000)
    np.testing.assert_allclose(first, refitted(Phi, Y, fold, 1.0), rtol=0, atol=1e-10)
    np.testing.assert_array_equal(np.isnan(first), np.repeat(fold[:, None] == -1, 2, axis=1))
    np.testing.assert_allclose(run(333), first, rtol=0, atol=1e-13)


def test_rows_never_held_out_stay_nan_on_the_path():
    Phi, Y, _, rng = problem(outputs=1)
    fold = folds(300, 7, rng) - 1
    ours = cross_validated_path(Phi, Y[:, 0], fold, AMOUNTS, block=300)
    assert ours.shape == (3, 300)
    assert np.array_equal(np.isnan(ours[0]), fold == -1)


def test_threads_do_not_change_a_bit():
    Phi, Y, weights, rng = problem(p=12)
    fold = folds(300, 7, rng)
    results = []
    for n_jobs in (1, 2, 4):
        with block_threads(n_jobs):
            results.append(cross_validated_residuals(Phi, Y, fold, 0.3, weights, method="downdate"))
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])
    with block_threads(2), pytest.warns(LinAlgWarning, match="singular"):  # a column twice, no penalty
        cross_validated_residuals(np.column_stack([Phi, Phi[:, 0]]), Y, fold, 0.0, method="downdate")


# ---------------------------------------------------------------------------------------------- all


def test_inputs_are_left_alone():
    Phi, Y, weights, rng = problem()
    fold = folds(300, 5, rng)
    copies = [a.copy() for a in (Phi, Y, fold, weights)]
    for method in METHODS:
        cross_validated_residuals(Phi, Y, fold, 0.1, weights, method=method)
        cross_validated_residuals(Phi, Y, fold, 0.1, method=method)
    for a, b in zip((Phi, Y, fold, weights), copies, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("method", METHODS)
def test_singular_problems_are_solved_with_a_reported_jitter(method):
    Phi, Y, _, rng = problem(n=100, p=6)
    doubled = np.column_stack([Phi, Phi])  # no penalty and every feature twice
    fold = folds(100, 5, rng)
    with pytest.warns(LinAlgWarning, match="Raise the penalty"):
        ours = cross_validated_residuals(doubled, Y, fold, 0.0, method=method)
    np.testing.assert_allclose(ours, refitted(Phi, Y, fold, 0.0), rtol=0, atol=1e-5)


def test_cheapest_method_knows_the_corners():
    assert cheapest_method([1] * 5000, 300) == "hat"  # leave-one-out
    assert cheapest_method([20] * 50, 400) == "hat"  # Concrete, 50 folds
    assert cheapest_method([3800] * 5, 700) == "downdate"
    assert cheapest_method([260] * 50, 2000) == "iterate"
    assert cheapest_method([380] * 50, 301, n_penalties=12) == "iterate"  # Magic, 50 folds, a path of costs
    assert cheapest_method([10] * 6, 90) in METHODS  # n < p: no estimate of the steps


def test_fifty_folds_and_a_path_of_penalties_take_one_factorisation_per_penalty(monkeypatch):
    rng = np.random.default_rng(0)
    Phi, Y = rng.standard_normal((2000, 40)), rng.standard_normal((2000, 1))
    fold, amounts = np.sort(folds(2000, 50, rng)), np.logspace(-4, 2, 7)
    made = []
    factorise = ridge_cv.factorise
    monkeypatch.setattr(ridge_cv, "factorise", lambda *a, **k: made.append(1) or factorise(*a, **k))
    home = rng.integers(0, 50, size=30)
    ridge_cv.cross_validated_path(
        Phi, Y, fold, amounts, None, np.ones(40), constraints=(np.eye(40)[:30], home), method="iterate"
    )
    assert len(made) == len(amounts)


def test_errors_say_what_is_wrong():
    Phi, Y, _, rng = problem(n=20, p=3)
    with pytest.raises(ValueError, match="nothing is left to train on"):
        cross_validated_residuals(Phi, Y, np.zeros(20, dtype=int), 1.0)
    for how in [{"method": method} for method in METHODS] + [{"block": 7}]:
        with pytest.raises(ValueError, match="not finite"):
            cross_validated_residuals(np.where(Phi > 1, np.inf, Phi), Y, folds(20, 4, rng), 1.0, **how)
