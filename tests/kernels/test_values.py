"""Kernel values against formulas written out for one pair of vectors at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from kompakt.kernels import (
    RBF,
    CallableKernel,
    Constant,
    Kernel,
    Laplacian,
    Linear,
    MappedRBF,
    Polynomial,
    Precomputed,
    Product,
    Sum,
    from_spec,
    make_kernel,
)

WIDTHS = np.array([0.1, 2.0, 0.5, 0.02, 1.0])


def gaussian(x, z):
    return np.exp(-0.3 * np.sum((x - z) ** 2))


NAIVE = {
    "rbf": (RBF(0.3), gaussian),
    "rbf per feature": (RBF(WIDTHS), lambda x, z: np.exp(-np.sum(WIDTHS * (x - z) ** 2))),
    "laplacian": (Laplacian(0.4), lambda x, z: np.exp(-0.4 * np.sum(np.abs(x - z)))),
    "linear": (Linear(), np.dot),
    "poly": (Polynomial(0.5, 1.5, 3), lambda x, z: (0.5 * np.dot(x, z) + 1.5) ** 3),
    "poly 1": (Polynomial(0.5, 0.0, 1), lambda x, z: 0.5 * np.dot(x, z)),
    "poly 6": (Polynomial(0.2, 1.0, 6), lambda x, z: (0.2 * np.dot(x, z) + 1.0) ** 6),
    "constant": (Constant(3.0), lambda x, z: 3.0),
    "1 + rbf": (1 + RBF(0.3), lambda x, z: 1 + gaussian(x, z)),
    "constant first": (Sum((Constant(1.0), RBF(0.3))), lambda x, z: 1 + gaussian(x, z)),
    "2 * rbf": (2 * RBF(0.3), lambda x, z: 2 * gaussian(x, z)),
    "sum": (RBF(0.3) + Linear() + 0.5, lambda x, z: gaussian(x, z) + x @ z + 0.5),
    "product": (RBF(0.3) * Polynomial(0.5, 1.0, 2), lambda x, z: gaussian(x, z) * (0.5 * x @ z + 1) ** 2),
}


def naive_block(function, X, Z):
    return np.array([[function(x, z) for z in Z.astype(float)] for x in X.astype(float)])


def data(dtype=np.float64, n=23, m=7, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(m, d)).astype(dtype)


@pytest.fixture(params=list(NAIVE))
def case(request):
    return NAIVE[request.param]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_block(engine, case, dtype):
    kernel, function = case
    X, Z = data(dtype)
    K = kernel.block(X, Z)
    assert K.dtype == dtype
    rtol, atol = (1e-12, 1e-14) if dtype == np.float64 else (1e-5, 1e-6)
    assert_allclose(K, naive_block(function, X, Z), rtol=rtol, atol=atol)


def test_pre_then_finish_is_block(engine, case):
    kernel, _ = case
    X, Z = data()
    assert_allclose(kernel.finish(kernel.pre(X, Z)), kernel.block(X, Z), rtol=1e-13)


def test_inputs_are_left_alone(case):
    X, Z = data()
    X_before, Z_before = X.copy(), Z.copy()
    case[0].finish(case[0].pre(X, Z))
    case[0].block(X, Z)
    assert np.array_equal(X, X_before)
    assert np.array_equal(Z, Z_before)


@pytest.mark.parametrize("d", [5, 300])  # 300 wide with few entries: the sparse product; otherwise a dense one
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_csr_rows(engine, case, dtype, d):
    kernel, function = case
    if isinstance(kernel, RBF) and np.ndim(kernel.gamma):
        kernel = RBF(np.resize(WIDTHS, d))
        function = lambda x, z: np.exp(-np.sum(kernel.gamma * (x - z) ** 2))  # noqa: E731
    rng = np.random.default_rng(1)
    X = sparse.random(19, d, density=0.3 if d == 5 else 0.02, format="csr", dtype=dtype, random_state=rng)
    Z = rng.normal(size=(6, d)) / np.sqrt(d)
    K = kernel.block(X, Z)
    assert K.dtype == np.float64, "CSR rows are never centred, so their values are formed in float64"
    assert K.flags.c_contiguous
    assert_allclose(K, naive_block(function, X.toarray(), Z), rtol=1e-11, atol=1e-13)


def test_gram_and_diagonal(engine, case):
    kernel, function = case
    _, Z = data(np.float32)
    gram = kernel.gram(Z)
    assert gram.dtype == np.float64
    assert np.array_equal(gram, gram.T)
    assert_allclose(gram, naive_block(function, Z, Z), rtol=1e-12)
    assert_allclose(np.diag(gram), [function(z, z) for z in Z.astype(float)], rtol=1e-14)
    assert_allclose(kernel.diag(sparse.csr_matrix(Z.astype(float))), np.diag(gram), rtol=1e-12)


def test_centring_keeps_float32_distances_sound(engine):
    """At offset 1000 raw float32 distances are useless; centred they are good to 1e-6 (DESIGN)."""
    X, Z = data()
    X, Z = X + 1000.0, Z + 1000.0
    centre = X.mean(axis=0)
    exact = naive_block(gaussian, X, Z)
    centred = RBF(0.3).block((X - centre).astype(np.float32), (Z - centre).astype(np.float32))
    assert_allclose(centred, exact, atol=2e-6)
    raw = RBF(0.3).block(X.astype(np.float32), Z.astype(np.float32))
    assert np.max(np.abs(raw - exact)) > 1e-2, "the test has lost its point: raw distances are sound too"


def test_gaussian_of_equal_rows_never_exceeds_one(engine):
    X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32) + 30
    assert RBF(5.0).block(X, X).max() <= 1.0


def test_spec_round_trip(case):
    kernel, _ = case
    X, Z = data()
    again = from_spec(kernel.spec())
    assert type(again) is type(kernel)
    assert np.array_equal(again.block(X, Z), kernel.block(X, Z))


def test_callable_and_precomputed(engine):
    X, Z = data()
    own = CallableKernel(lambda A, B: np.asarray(A) @ np.asarray(B).T)
    assert_allclose(own.block(X, Z), X @ Z.T)
    assert_allclose(own.gram(Z), Z @ Z.T, rtol=1e-14)
    assert_allclose(own.diag(X), np.sum(X * X, axis=1))
    matrix = X @ X.T
    columns = np.array([[4.0], [1.0]])
    for given in (matrix, sparse.csr_matrix(matrix)):
        assert_allclose(Precomputed().block(given, columns), matrix[:, [4, 1]])
        assert_allclose(Precomputed(given).gram(columns), matrix[np.ix_([4, 1], [4, 1])])
    with pytest.raises(ValueError, match=r"must return an array of shape \(23, 7\)"):
        CallableKernel(lambda A, B: A).block(X, Z)
    for kernel in (own, Precomputed()):
        with pytest.raises(TypeError, match="cannot be saved"):
            kernel.spec()
        with pytest.raises(TypeError, match="cannot be refined"):
            kernel.gradients(X, Z, np.ones((23, 7)), np.ones((23, 7)))


def test_names_and_their_errors():
    assert isinstance(make_kernel("rbf", gamma=2.0), RBF)
    kernel = RBF(1.0)
    assert make_kernel(kernel) is kernel
    assert isinstance(make_kernel(np.dot), CallableKernel)
    with pytest.raises(ValueError, match=r"kernel must be one of .*'rbf'.* got 'rfb'"):
        make_kernel("rfb")
    with pytest.raises(ValueError, match="unknown kernel 'cosine'"):
        from_spec({"name": "cosine"})


@pytest.mark.parametrize(
    "make",
    [
        lambda: RBF(-1.0),
        lambda: RBF([1.0, np.inf]),
        lambda: RBF([[1.0]]),
        lambda: Laplacian(np.nan),
        lambda: Polynomial(1.0, 0.0, 0),
        lambda: Polynomial(1.0, 0.0, 2.5),
        lambda: Polynomial(np.inf),
        lambda: Constant(-1.0),
    ],
)
def test_bad_parameters_are_refused_with_what_was_given(make):
    with pytest.raises(ValueError, match="got"):
        make()


def test_a_combination_needs_kernels():
    for kind in (Sum, Product):
        with pytest.raises(TypeError, match="at least two kernel objects"):
            kind((RBF(1.0),))
    assert (RBF(1.0) + Laplacian(1.0)).shift_invariant
    assert not (RBF(1.0) * Linear()).shift_invariant
    assert not (RBF(1.0) + CallableKernel(np.dot)).differentiable
    assert isinstance(RBF(1.0) + 1, Kernel)


def test_a_scaled_kernel_has_its_gamma_times_the_factor():
    np.testing.assert_allclose(MappedRBF(np.eye(2)).scaled(10.0).map, np.sqrt(10.0) * np.eye(2))
    assert RBF(0.3).scaled(2.0).gamma == 0.6
    assert np.array_equal(RBF(WIDTHS).scaled(2.0).gamma, 2.0 * WIDTHS)
    assert Laplacian(0.3).scaled(2.0) == Laplacian(0.6)
    assert Polynomial(0.5, 1.5, 3).scaled(2.0) == Polynomial(1.0, 1.5, 3)
    assert (Linear() + 2.0 * Laplacian(0.3)).scaled(2.0) == Linear() + 2.0 * Laplacian(0.6)
    for kernel in (Linear(), 1 + Linear(), Constant(2.0), Precomputed(), CallableKernel(np.dot)):
        assert kernel.scaled(2.0) is kernel
