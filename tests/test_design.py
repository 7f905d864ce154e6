"""The design against naive kernel matrices: stored or recomputed, raw or whitened."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from kompakt.data import ArrayRows
from kompakt.design import Design, FeatureDesign, choose_block_rows, weighted_gram
from kompakt.kernels import RBF, Kernel, Linear, Polynomial
from kompakt.parallel import block_threads

N, M, D = 203, 9, 3


@dataclass(frozen=True, eq=False)
class CountingKernel(Kernel):
    """A kernel that counts the values it is asked for."""

    inner: Kernel
    count: list = field(default_factory=lambda: [0])
    name: ClassVar[str] = "counting"

    def pre(self, X: Any, Z: Any) -> Any:
        return self.inner.pre(X, Z)

    def finish(self, pre: Any) -> Any:
        return self.inner.finish(pre)

    def block(self, X: Any, Z: Any) -> Any:
        self.count[0] += X.shape[0] * Z.shape[0]
        return self.inner.block(X, Z)

    def diag(self, X: Any) -> Any:
        return self.inner.diag(X)

    def gradients(self, X: Any, Z: Any, K: Any, W: Any) -> Any:
        return self.inner.gradients(X, Z, K, W)

    def spec(self) -> Any:
        return self.inner.spec()


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(N, D))


def design_of(X, m=M, kernel=None, **options):
    options.setdefault("block_rows", 17)  # does not divide N
    return Design(ArrayRows(X), kernel or RBF(0.4), X[:m].copy(), **options)


def values(design):
    """The design as a matrix, through its primitive only."""
    out = np.empty((design.n_rows, design.n_basis))

    def keep(K, block):
        out[block.start : block.stop] = K
        return (np.zeros(1),)

    design.map_reduce(keep)
    return out


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("block_rows", [1, 17, 1024])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_stored_and_recomputed_agree(X, whiten, block_rows, n_jobs):
    with block_threads(n_jobs):
        stored = design_of(X, whiten=whiten, store=True, block_rows=block_rows)
        recomputed = design_of(X, whiten=whiten, store=False, block_rows=block_rows)
        assert np.array_equal(values(stored), values(recomputed))
        assert np.array_equal(stored.matrix, values(stored))
        B = np.random.default_rng(1).normal(size=(M, 2))
        assert_allclose(stored.matvec(B), recomputed.matvec(B), rtol=1e-13, atol=1e-14)
        assert_allclose(stored.take(np.array([5, 1])), recomputed.take(np.array([5, 1])), rtol=1e-12, atol=1e-13)
    if not whiten:
        assert_allclose(stored.matrix, RBF(0.4).block(X, X[:M]), rtol=1e-13)


def test_a_recomputed_design_has_no_matrix(X):
    with pytest.raises(ValueError, match="pass store=True"):
        design_of(X, store=False).matrix


def test_the_budget_decides_what_is_stored(X):
    assert design_of(X, memory_budget=N * M * 8).stored
    assert not design_of(X, memory_budget=N * M * 8 - 1).stored
    assert design_of(X.astype(np.float32), memory_budget=N * M * 4).stored


@pytest.mark.parametrize("kernel", [RBF(0.4), Polynomial(0.5, 1.0, 3)])
def test_whitened_features_reproduce_the_kernel(X, kernel):
    design = design_of(X, kernel=kernel, whiten=True)
    K = kernel.gram(X[:M])
    Phi = design.matrix
    assert design.jitter == 0.0
    assert_allclose(design.factor.R.T @ design.factor.R, K, rtol=1e-12)
    assert_allclose(Phi[:M] @ Phi[:M].T, K, rtol=1e-9, atol=1e-10)
    beta = np.random.default_rng(1).normal(size=(M, 2))
    w = design.to_coordinates(beta)
    assert_allclose(np.sum(w * w, axis=0), np.einsum("jl,jk,kl->l", beta, K, beta), rtol=1e-10)
    assert_allclose(design.to_weights(w), beta, rtol=1e-7)
    assert_allclose(design.matvec(w), kernel.block(X, X[:M]) @ beta, rtol=1e-8, atol=1e-9)


def gram(design, D=None):
    """K' diag(D) K by the design's primitive; D (n,)."""
    D = np.ones(design.n_rows) if D is None else D
    return design.map_reduce(lambda K, block: (weighted_gram(K, D[block.start : block.stop]),))[0]


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_products_against_naive(X, store, n_jobs):
    rng = np.random.default_rng(1)
    K = RBF(0.4).block(X, X[:M])
    B, R = rng.normal(size=(M, 3)), rng.normal(size=(N, 2))
    D = rng.uniform(size=(N, 3)) * (rng.uniform(size=(N, 3)) < [0.1, 0.6, 1.0])
    active = (rng.uniform(size=N) < 0.5).astype(float)
    with block_threads(n_jobs):
        design = design_of(X, store=store)
        assert_allclose(design.matvec(B), K @ B, rtol=1e-12, atol=1e-13)
        assert_allclose(design.rmatvec(R), K.T @ R, rtol=1e-11, atol=1e-12)
        for d in (np.ones(N), active, *D.T):
            assert_allclose(gram(design, d), K.T @ (d[:, None] * K), rtol=1e-11, atol=1e-13)


def test_float32_values_with_float64_sums(X):
    design = design_of(X.astype(np.float32), whiten=False)
    K = RBF(0.4).block(X, X[:M])
    assert design.matrix.dtype == np.float32
    found = gram(design)
    assert found.dtype == np.float64
    assert_allclose(found, K.T @ K, rtol=2e-5)


def test_csr_rows(X):
    X = np.where(np.abs(X) < 0.7, 0.0, X)
    basis = X[:M]
    csr = Design(ArrayRows(sparse.csr_matrix(X)), RBF(0.4), basis, whiten=True, block_rows=17)
    dense = Design(ArrayRows(X), RBF(0.4), basis, whiten=True, block_rows=17)
    assert_allclose(csr.matrix, dense.matrix, rtol=1e-9, atol=1e-10)
    assert_allclose(gram(csr), gram(dense), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("store", [False, True])
def test_every_kernel_value_is_counted(X, whiten, store):
    kernel = CountingKernel(RBF(0.4))
    design = design_of(X, kernel=kernel, whiten=whiten, store=store)
    gram(design)
    design.rmatvec(np.ones((N, 1)))
    design.matvec(np.ones((M, 1)))
    design.take(np.array([1, 2, 3]))
    gram(design)
    assert design.n_kernel_evals == kernel.count[0]
    if store:
        assert design.n_kernel_evals == N * M + whiten * M * M
    assert design.n_passes == 3


def test_block_rows():
    assert choose_block_rows(1) == 8192
    assert choose_block_rows(100) == 2048
    assert choose_block_rows(5000) == 1024


@pytest.mark.parametrize("d", [np.ones(7), np.zeros(7), np.arange(7.0), np.array([0, 0, 0, 0, 0, 1.0, 2.0])])
def test_weighted_gram(d):
    K = np.random.default_rng(0).normal(size=(7, 3))
    assert_allclose(weighted_gram(K, d), K.T @ (d[:, None] * K), rtol=1e-12, atol=1e-14)


def test_feature_design(X):
    targets = np.ones((N, 1))
    design = FeatureDesign(X, targets, np.arange(N, dtype=float), block_rows=17)
    assert (design.n_basis, design.n_rows, design.n_kernel_evals) == (D, N, 0)
    assert design.matrix.base is X or design.matrix is X, "features are not copied"
    B = np.random.default_rng(0).normal(size=(D, 2))
    assert_allclose(design.matvec(B), X @ B, rtol=1e-13)
    assert_allclose(gram(design), X.T @ X, rtol=1e-12)
    assert design.to_weights(B) is B
    weight = design.map_reduce(lambda K, block: (block.weights.sum(),))[0]
    assert weight == N * (N - 1) / 2


def test_linear_kernel_of_few_features_is_rank_deficient_and_says_so(X):
    design = design_of(X, kernel=Linear(), whiten=True)  # nine vectors in three dimensions
    assert 0 < design.jitter < 1e-11
    beta = np.random.default_rng(0).normal(size=(M, 1))
    assert_allclose(design.matvec(design.to_coordinates(beta)), X @ X[:M].T @ beta, atol=1e-6)
