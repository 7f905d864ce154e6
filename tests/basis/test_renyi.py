"""Entropy selection: criterion against recomputation, decisions against a naive loop, promises."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from kompakt.basis import BlindCriterionWarning, RenyiSelector
from kompakt.basis.bandwidth import bandwidths
from kompakt.basis.renyi import WorkingSet, allot
from kompakt.data import ArrayRows
from kompakt.kernels import RBF, Precomputed
from kompakt.run import Run
from kompakt.spec import Basis, Data, Spec

WIDEN = RenyiSelector(on_blind="widen")


def kernel_by_differences(V, h):
    difference = (V[:, None, :] - V[None, :, :]) / (2 * h)
    return np.exp(-(difference**2).sum(axis=2))


def entropy_by_definition(V, h):
    """De Brabanter et al. 2010, eq. 12 with its prefactor 1/(m^2 2^(d/2) |D|) and the normalised Gaussian."""
    m, d = V.shape
    kernel_sum = kernel_by_differences(V, h).sum() * (2 * math.pi) ** (-d / 2)
    return -math.log(kernel_sum / (m**2 * 2 ** (d / 2) * np.prod(h)))


def mixture(n, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(0, 0.3, (n // 2, d)), rng.normal(1, 1.5, (n - n // 2, d))])


def select(selector, X, m, y=None, weights=None, rng=0) -> Basis:
    labels = None if y is None else np.unique(y, return_inverse=True)[1]
    return selector.select(Data(ArrayRows(X, weights=weights), labels=labels), Spec(RBF(1.0)), m, Run(key=rng))


def quiet_select(selector, X, m, **arguments) -> Basis:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return select(selector, X, m, **arguments)


def test_entropy_is_that_of_the_density_estimate():
    """-log of the integral of the squared density estimate, by quadrature in one dimension."""
    X = mixture(300, d=1)
    chosen = select(RenyiSelector(), X, 15, rng=0)
    h = chosen.info["bandwidths"]
    grid = np.linspace(-15, 15, 60_001)
    density = np.exp(-0.5 * ((grid[:, None] - chosen.vectors[:, 0]) / h) ** 2).sum(axis=1)
    density /= 15 * h * math.sqrt(2 * math.pi)
    integral = (density**2).sum() * (grid[1] - grid[0])
    assert chosen.info["entropy"] == pytest.approx(-math.log(integral), abs=1e-9)


def test_criterion_equals_recomputation_after_10000_swaps():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(5000, 3))
    members = np.arange(60)
    working = WorkingSet(Z[members].copy())
    for _ in range(10_000):
        slot, row = int(rng.integers(60)), int(rng.integers(60, 5000))
        working.replace(slot, Z[row], np.exp(-((Z[row] - Z[members]) ** 2).sum(axis=1)))
        members[slot] = row
    K = kernel_by_differences(Z[members], 0.5)
    assert working.total == pytest.approx(K.sum(), rel=1e-10)
    np.testing.assert_allclose(working.crowding, K.sum(axis=1) - 1, rtol=1e-10, atol=1e-10)


def test_entropy_equals_recomputation_after_selection():
    X = mixture(5000)
    chosen = quiet_select(RenyiSelector(tol=0.0, max_swaps=12_000), X, 80, rng=0)
    assert chosen.info["n_proposed"] >= 10_000
    assert chosen.info["n_accepted"] > 100
    expected = entropy_by_definition(chosen.vectors, chosen.info["bandwidths"])
    assert chosen.info["entropy"] == pytest.approx(expected, abs=1e-10)
    np.testing.assert_array_equal(chosen.vectors, X[chosen.indices])
    K = kernel_by_differences(chosen.vectors, chosen.info["bandwidths"])
    np.testing.assert_allclose(chosen.scores, K.sum(axis=1) - 1, atol=1e-10)


def test_batched_decisions_are_those_of_one_swap_at_a_time():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(120, 2))
    members, inside = np.arange(25), np.arange(120) < 25
    rows, slots = rng.integers(120, size=400), rng.integers(25, size=400)
    working = WorkingSet(Z[members].copy())
    accepted = working.try_swaps(members, inside, rows, Z[rows], slots)

    naive, taken = np.arange(25), 0
    for row, slot in zip(rows, slots, strict=True):
        trial = naive.copy()
        trial[slot] = row
        before, after = (kernel_by_differences(Z[s], 0.5).sum() for s in (naive, trial))
        if row not in naive and after < before:
            naive, taken = trial, taken + 1
    np.testing.assert_array_equal(members, naive)
    assert accepted == taken > 20
    np.testing.assert_array_equal(np.flatnonzero(inside), np.sort(naive))


def test_entropy_rises_and_rows_stay_distinct():
    chosen = select(WIDEN, mixture(2000), 40, rng=3)
    entropies = chosen.info["history"][:, 1]
    assert np.all(np.diff(entropies) >= 0)
    assert entropies[-1] > entropies[0] + 0.1
    assert len(np.unique(chosen.indices)) == 40
    assert chosen.info["converged"]
    assert not chosen.info["blind"]


def test_same_seed_same_rows_in_any_order_dense_or_sparse():
    X = mixture(600)
    X[np.abs(X) < 0.2] = 0.0
    reference = quiet_select(RenyiSelector(), X, 30, rng=7)
    again = quiet_select(RenyiSelector(), X, 30, rng=7)
    np.testing.assert_array_equal(again.indices, reference.indices)
    other = quiet_select(RenyiSelector(), X, 30, rng=8)
    assert set(other.indices) != set(reference.indices)
    order = np.random.default_rng(0).permutation(600)
    permuted = quiet_select(RenyiSelector(), X[order], 30, rng=7)
    np.testing.assert_array_equal(permuted.vectors, reference.vectors)
    sparse = quiet_select(RenyiSelector(), sp.csr_matrix(X), 30, rng=7)
    np.testing.assert_array_equal(sparse.vectors, reference.vectors)
    np.testing.assert_array_equal(sparse.indices, reference.indices)


def test_weight_two_is_the_row_twice_and_weight_zero_is_absence():
    X = mixture(300)
    w = np.random.default_rng(0).integers(0, 3, 300)
    weighted = select(WIDEN, X, 20, weights=w.astype(float), rng=1)
    repeated = select(WIDEN, np.repeat(X, w, axis=0), 20, rng=1)
    np.testing.assert_array_equal(weighted.vectors, repeated.vectors)
    assert np.all(w[weighted.indices] > 0)


def test_strata_keep_their_shares():
    X = mixture(1000)
    y = np.array(["rare"] * 100 + ["common"] * 900)
    chosen = select(WIDEN, X, 50, y=y, rng=0)
    assert np.count_nonzero(y[chosen.indices] == "rare") == 5
    free = select(RenyiSelector(stratify=False, on_blind="widen"), X, 50, y=y, rng=0)
    np.testing.assert_array_equal(free.indices, select(WIDEN, X, 50, rng=0).indices)


def test_allot():
    np.testing.assert_array_equal(allot(np.array([90.0, 9.0, 1.0]), np.array([90, 9, 1]), 10), [8, 1, 1])
    np.testing.assert_array_equal(allot(np.array([50.0, 50.0]), np.array([2, 50]), 20), [2, 18])
    np.testing.assert_array_equal(allot(np.array([5.0, 1.0, 1.0]), np.array([5, 1, 1]), 2), [2, 0, 0])
    assert allot(np.array([3.0, 3.0]), np.array([3, 3]), 100).sum() == 6


def test_blindness_in_many_dimensions_is_reported_and_widening_cures_it():
    X = np.random.default_rng(0).normal(size=(400, 15))
    with pytest.warns(BlindCriterionWarning, match="off-diagonal"):
        blind = select(RenyiSelector(), X, 50, rng=0)
    assert blind.info["blind"]
    assert blind.info["off_diagonal_share"] < 1e-4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seeing = select(RenyiSelector(on_blind="widen"), X, 50, rng=0)
    assert not seeing.info["blind"]
    assert seeing.info["widened"] > 1
    np.testing.assert_allclose(
        seeing.info["bandwidths"], np.array([column.h for column in bandwidths(X)]) * seeing.info["widened"]
    )


def test_fewer_distinct_rows_than_asked():
    X = np.repeat(np.random.default_rng(0).normal(size=(8, 2)), 5, axis=0)
    chosen = select(RenyiSelector(bandwidth=0.5), X, 20, rng=0)
    assert len(np.unique(chosen.vectors, axis=0)) == chosen.n_basis == 8


def test_reaching_the_limit_warns():
    with pytest.warns(ConvergenceWarning, match="max_swaps=600"):
        chosen = select(RenyiSelector(bandwidth=0.5, max_swaps=600), mixture(500), 30, rng=0)
    assert not chosen.info["converged"]
    assert chosen.info["n_proposed"] == 600


def test_inputs_are_untouched():
    X = mixture(200)
    X.setflags(write=False)
    assert select(WIDEN, X, 10).n_basis == 10


@pytest.mark.parametrize(
    ("arguments", "n_basis", "message"),
    [
        ({"bandwidth": "scott"}, 5, "'sheather-jones', 'paper', a number or an array, got 'scott'"),
        ({"bandwidth": -1.0}, 5, "finite and positive"),
        ({"on_blind": "ignore"}, 5, "'warn' or 'widen', got 'ignore'"),
        ({}, 0, "n_basis must be at least 1, got 0"),
    ],
)
def test_bad_arguments_say_what(arguments, n_basis, message):
    with pytest.raises(ValueError, match=message):
        select(RenyiSelector(**arguments), mixture(50), n_basis, rng=0)


def test_protocol_of_all_selectors(caplog):
    """Rows, kernel and key in; vectors in the rows' coordinates out; strata from labels; reports in the log."""
    X = mixture(400)
    X = np.column_stack([X, np.ones(400)])  # a constant column has no bandwidth
    labels = (np.arange(400) % 4 == 0).astype(int)
    rows = ArrayRows(X, offset=X.mean(axis=0))
    with caplog.at_level("INFO", logger="kompakt"):
        chosen = WIDEN.select(Data(rows, classes=np.unique(labels), labels=labels), Spec(RBF(1.0)), 40, Run(key=5))
    np.testing.assert_allclose(chosen.vectors, X[chosen.indices] - X.mean(axis=0))
    assert labels[chosen.indices].sum() == 10
    assert any("constant" in record.message for record in caplog.records)
    again = WIDEN.select(Data(rows, classes=np.unique(labels), labels=labels), Spec(RBF(1.0)), 40, Run(key=5))
    np.testing.assert_array_equal(again.indices, chosen.indices)
    # fewer where there are fewer
    assert len(WIDEN.select(Data(rows), Spec(RBF(1.0)), 10_000, Run(key=5)).indices) == 400
    assert WIDEN.select(Data(ArrayRows(X[:1])), Spec(RBF(1.0)), 3, Run(key=0)).n_basis == 1
    with pytest.raises(ValueError, match="needs the inputs"):
        WIDEN.select(Data(rows), Spec(Precomputed()), 10, Run(key=0))


def test_weights_below_one_count_as_shares():
    X = mixture(300)
    small = WIDEN.select(Data(ArrayRows(X, weights=np.full(300, 1e-4))), Spec(RBF(1.0)), 20, Run(key=1))
    plain = WIDEN.select(Data(ArrayRows(X)), Spec(RBF(1.0)), 20, Run(key=1))
    np.testing.assert_array_equal(small.indices, plain.indices)
