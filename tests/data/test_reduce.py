"""The one block loop: right sums, in an order that no number of threads changes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from kompakt.data import ArrayRows, tree_sum
from kompakt.data.rows import sum_blocks, task_bounds
from kompakt.parallel import block_threads


def sums_of(rows, block_rows, n_jobs):
    def function(block):
        X = block.X
        return X.T @ X, np.array(len(block)), X.sum(axis=0)

    with block_threads(n_jobs):
        return rows.map_reduce(function, block_rows)


@pytest.mark.parametrize("block_rows", [7, 64, 1000, 5000])
def test_bit_identical_at_any_number_of_threads(block_rows):
    X = np.random.default_rng(0).normal(size=(2501, 6)) * 10.0 ** np.arange(-3, 3)
    alone = sums_of(ArrayRows(X), block_rows, 1)
    for n_jobs in (2, 4):
        for one, many in zip(alone, sums_of(ArrayRows(X), block_rows, n_jobs), strict=True):
            assert one.tobytes() == many.tobytes()
    assert_allclose(alone[0], X.T @ X, rtol=1e-12)
    assert alone[1] == 2501


def test_tree_sum_has_the_shape_of_a_binary_tree():
    """Numbers whose sum depends on the order, added by hand in the order of the tree."""
    a, b, c, d, e = 1e16, 1.0, -1e16, 1.0, 3.0
    got = tree_sum((np.array([value]),) for value in (a, b, c, d, e))[0][0]
    assert got == ((a + b) + (c + d)) + e
    assert got != a + (b + c) + d + e
    with pytest.raises(ValueError, match="no rows"):
        tree_sum([])


@pytest.mark.parametrize("number", [np.float64(2.0), np.array(2.0), np.array([2.0]), np.float32(2.0)], ids=repr)
def test_sums_of_scalars_are_sums_too(number):
    """`+=` does nothing to a NumPy scalar that someone else holds: such sums were lost."""
    assert tree_sum([(number,)] * 5)[0] == 10.0
    assert sum_blocks(lambda block: (number,), 1, ArrayRows(np.ones((5, 1))), (0, 5))[0] == 10.0
    total = ArrayRows(np.ones((1000, 1))).map_reduce(lambda block: (np.float64(len(block)), block.X.sum()), 3)
    assert [float(one) for one in total] == [1000.0, 1000.0]


@pytest.mark.parametrize("n_rows", [1, 6, 7, 8, 999, 12_345])
def test_tasks_cover_every_row_once(n_rows):
    bounds = list(task_bounds(n_rows, 7))
    assert [start for start, _ in bounds] == [0, *[stop for _, stop in bounds[:-1]]]
    assert bounds[-1][1] == n_rows
    assert all((stop - start) % 7 == 0 for start, stop in bounds[:-1])


def test_float32_blocks_are_summed_in_float64():
    X = np.full((100_000, 1), 0.1, dtype=np.float32)
    total = ArrayRows(X).map_reduce(lambda block: (block.X.sum(axis=0),), 100)[0]
    assert total.dtype == np.float64
    assert_allclose(total, X.astype(float).sum(), rtol=1e-6)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_for_each_sees_every_row_with_its_targets_and_weights(n_jobs):
    n = 1003
    rows = ArrayRows(np.arange(n, dtype=float)[:, None], np.arange(n)[:, None] * 2.0, np.arange(n) * 3.0)
    seen = np.zeros(n)

    def function(block):
        assert_allclose(block.targets[:, 0], 2 * block.X[:, 0])
        assert_allclose(block.weights, 3 * block.X[:, 0])
        seen[block.start : block.stop] += block.X[:, 0] + 1

    with block_threads(n_jobs):
        rows.for_each(function, 100)
    assert np.array_equal(seen, np.arange(n) + 1)


def test_offset_moves_dense_rows_and_leaves_csr_alone():
    X = np.arange(12.0).reshape(4, 3)
    offset = X.mean(axis=0)
    dense = ArrayRows(X, offset=offset)
    assert_allclose(dense.block(1, 3).X, X[1:3] - offset)
    assert_allclose(dense.take(np.array([3, 0])), X[[3, 0]] - offset)
    csr = ArrayRows(sparse.csr_matrix(X.astype(np.float32)), offset=offset)
    assert csr.offset is None
    assert csr.dtype == np.float64
    assert_allclose(csr.take(np.array([3, 0])).toarray(), X[[3, 0]])
