"""Rows chosen by a hash of their content: the same in any order, dense or sparse, in either precision."""

import numpy as np
import pytest
from scipy import sparse

from kompakt.data import hash_rows, smallest_distinct
from kompakt.parallel import block_threads


@pytest.fixture
def X():
    X = np.random.default_rng(0).normal(size=(5000, 6)).round(2)
    X[np.abs(X) < 0.5] = 0.0
    return X


def test_dense_and_csr_agree(X):
    csr = sparse.csr_matrix(X)
    assert np.array_equal(hash_rows(X, 1), hash_rows(csr, 1))
    explicit = csr.copy()
    explicit.data[::3] = 0.0
    assert np.array_equal(hash_rows(explicit, 1), hash_rows(explicit.toarray(), 1)), "stored zeros count as zeros"
    shuffled = sparse.csr_matrix((csr.data[::-1], csr.indices[::-1], csr.nnz - csr.indptr[::-1]), shape=csr.shape)
    assert np.array_equal(hash_rows(shuffled, 1)[::-1], hash_rows(csr, 1)), "columns in any order"
    twice = sparse.coo_matrix(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 2))
    assert hash_rows(twice.tocsr(), 5) == hash_rows(np.array([[0.0, 3.0]]), 5), "repeated entries are sums"
    assert csr.nnz == np.count_nonzero(X), "the caller's matrix is left alone"


def test_minus_zero_and_layout(X):
    minus = np.where(X == 0, -0.0, X)
    expected = hash_rows(X, 3)
    assert np.signbit(minus[X == 0]).all()
    for same in (minus, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], sparse.csr_array(X)):
        assert np.array_equal(hash_rows(same, 3), expected)


def test_float32_hashes_as_the_float64_it_stands_for(X):
    X32 = X.astype(np.float32)
    assert np.array_equal(hash_rows(X32, 3), hash_rows(X32.astype(np.float64), 3))


def test_threads_blocks_and_order_do_not_matter(X):
    order = np.random.default_rng(1).permutation(len(X))
    alone = hash_rows(X, 3)
    assert np.array_equal(hash_rows(X[order], 3), alone[order])
    assert np.array_equal(hash_rows(X[17:], 3), alone[17:])
    with block_threads(4):
        assert np.array_equal(hash_rows(X, 3), alone)


def test_equal_values_in_other_columns_or_rows_hash_apart():
    eye = np.eye(64)
    for key in range(3):
        assert len(np.unique(hash_rows(eye, key))) == 64
    assert len(np.unique(hash_rows(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0], [3.0, 0.0], [0.0, 3.0]]), 0))) == 5


def test_smallest_distinct_counts_equal_rows_once(X):
    doubled = np.concatenate([X, X])
    hashes = hash_rows(doubled, 4)
    chosen = smallest_distinct(hashes, 100)
    assert np.array_equal(chosen, smallest_distinct(hash_rows(X, 4), 100)), "the first of equal rows stands for them"
    assert np.all(np.diff(hashes[chosen].astype(object)) > 0)
    assert len(smallest_distinct(hash_rows(np.ones((9, 2)), 4), 5)) == 1


def test_every_row_has_the_same_chance():
    """Each of 200 rows, one of them all zeros, falls into a sample of 20 in about a tenth of 3000 keys."""
    X = np.arange(200.0)[:, None] * np.array([1.0, 0.0, -2.0])
    counts = np.zeros(200)
    for key in range(3000):
        counts[smallest_distinct(hash_rows(X, key), 20)] += 1
    deviations = (counts - 300) / np.sqrt(3000 * 0.1 * 0.9)
    assert np.abs(deviations).max() < 5
    assert 0.7 < deviations.std() < 1.3
