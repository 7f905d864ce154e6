"""The path over blocks against the path in memory; folds of any labels; folds side by side on threads."""

import numpy as np
import pytest
from scipy.linalg import LinAlgWarning

from kompakt.parallel import block_threads
from kompakt.search import (
    cross_validated_path,
    cross_validated_path_blockwise,
    cross_validated_residuals,
    cross_validated_residuals_blockwise,
)
from kompakt.validation import shuffled_folds

AMOUNTS = [1e-4, 0.1, 50.0]


def problem(n=220, p=12, outputs=2):
    rng = np.random.default_rng(0)
    Phi = np.column_stack([rng.normal(size=(n, p - 1)), np.ones(n)])
    Y = Phi @ rng.normal(size=(p, outputs)) + rng.normal(size=(n, outputs))
    return Phi, Y, rng.uniform(0.0, 3.0, size=n), rng.permutation(np.arange(n) % 7)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("budget", [1e9, 1.0])  # all folds at once, or one fold per pass
def test_path_over_blocks_equals_path_in_memory(weighted, budget):
    Phi, Y, weights, fold = problem()
    weights = weights if weighted else None
    shape = np.append(np.ones(11), 0.0)  # free intercept

    def blocks():
        return (Phi[i : i + 33] for i in range(0, len(Phi), 33))

    ours = cross_validated_path_blockwise(blocks, Y, fold, AMOUNTS, weights, shape=shape, memory_budget=budget)
    np.testing.assert_allclose(ours, cross_validated_path(Phi, Y, fold, AMOUNTS, weights, shape=shape), atol=1e-10)
    one = cross_validated_residuals_blockwise(blocks, Y, fold, 0.1 * shape, weights, memory_budget=budget)
    np.testing.assert_allclose(one, ours[1], atol=1e-12)


def test_rows_never_held_out_stay_nan_on_the_path():
    Phi, Y, _, fold = problem(outputs=1)
    fold[fold == 3] = -1
    fold[fold > 3] -= 1
    ours = cross_validated_path_blockwise(lambda: iter([Phi]), Y[:, 0], fold, AMOUNTS)
    assert ours.shape == (3, 220)
    assert np.array_equal(np.isnan(ours[0]), fold == -1)


@pytest.mark.parametrize("amounts", [[], [0.0], [np.nan], 1.0])
def test_amounts_are_checked(amounts):
    Phi, Y, _, fold = problem()
    with pytest.raises(ValueError, match="positive finite"):
        cross_validated_path_blockwise(lambda: iter([Phi]), Y, fold, amounts)


def test_threads_do_not_change_a_bit():
    Phi, Y, weights, fold = problem()
    results = []
    for n_jobs in (1, 2, 4):
        with block_threads(n_jobs):
            results.append(cross_validated_residuals(Phi, Y, fold, 0.3, weights, method="downdate"))
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])
    with block_threads(2), pytest.warns(LinAlgWarning, match="singular"):  # a column twice, no penalty
        cross_validated_residuals(np.column_stack([Phi, Phi[:, 0]]), Y, fold, 0.0, method="downdate")


def test_shuffled_folds_spread_every_class():
    labels = np.repeat([0, 1, 2], [50, 23, 3])
    fold = shuffled_folds(76, 10, labels=labels, random_state=0)
    for label, n in enumerate([50, 23, 3]):
        counts = np.bincount(fold[labels == label], minlength=10)
        assert counts.max() - counts.min() <= 1
        assert counts.sum() == n
    assert np.ptp(np.bincount(fold)) <= 1
    assert not np.array_equal(fold, shuffled_folds(76, 10, labels=labels, random_state=1))
    assert np.array_equal(np.sort(shuffled_folds(4, 10, random_state=0)), np.arange(4))
    with pytest.raises(ValueError, match="at least 2"):
        shuffled_folds(5, 1)
