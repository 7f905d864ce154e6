"""GreedyProjection: features whose dot products are the kernel."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

from kompakt import GreedyProjection


def rows_of(n=400, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_features_approximate_the_kernel_and_their_error_is_what_is_reported():
    X = rows_of()
    projection = GreedyProjection(40, gamma=0.3, random_state=0)
    features = projection.fit_transform(X)
    np.testing.assert_allclose(features, projection.transform(X), atol=1e-9)
    K = rbf_kernel(X, gamma=0.3)
    errors = np.diag(K) - np.sum(features**2, axis=1)
    assert projection.mse_[-1] == pytest.approx(errors.mean(), rel=1e-6)
    assert projection.se_max_[-1] == pytest.approx(errors.max(), rel=1e-6)
    assert np.max(np.abs(features @ features.T - K)) <= errors.max() + 1e-9  # Cauchy-Schwarz on what is left
    # on the span of the basis the kernel is exact, for new rows against basis vectors too
    new = rows_of(50, seed=9)
    exact = rbf_kernel(new, projection.basis_vectors_, gamma=0.3)
    np.testing.assert_allclose(
        projection.transform(new) @ projection.transform(projection.basis_vectors_).T, exact, atol=1e-8
    )


def test_the_projection_is_that_of_nystroem_on_the_same_vectors():
    X = rows_of()
    projection = GreedyProjection(10, gamma=0.3, random_state=0).fit(X)
    nystroem = Nystroem(gamma=0.3, n_components=10).fit(projection.basis_vectors_)
    ours, theirs = projection.transform(X), nystroem.transform(X)
    np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-8)


def test_dense_sparse_and_float32_agree():
    X = np.maximum(rows_of(), 0.0)
    dense = GreedyProjection(20, gamma=0.5, random_state=0).fit_transform(X)
    csr = GreedyProjection(20, gamma=0.5, random_state=0).fit_transform(sparse.csr_matrix(X))
    np.testing.assert_allclose(csr, dense, atol=1e-9)
    exactly = X.astype(np.float32).astype(np.float64)
    base = GreedyProjection(20, gamma=0.5, random_state=0).fit_transform(exactly)
    single = GreedyProjection(20, gamma=0.5, random_state=0).fit_transform(exactly.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single @ single.T, base @ base.T, atol=1e-3)


def test_zero_weights_leave_rows_out():
    X = rows_of(100)
    weights = (np.arange(100) < 60).astype(float)
    weighted = GreedyProjection(10, gamma=0.5, random_state=0).fit(X, sample_weight=weights)
    part = GreedyProjection(10, gamma=0.5, random_state=0).fit(X[:60])
    np.testing.assert_array_equal(weighted.basis_indices_, part.basis_indices_)
    assert weighted.fit_transform(X, sample_weight=weights).shape == (100, 10)
    with pytest.raises(ValueError, match="zero"):
        weighted.fit(X, sample_weight=np.zeros(100))


def test_precomputed():
    X = rows_of(120)
    K = rbf_kernel(X, gamma=0.4)
    projection = GreedyProjection(30, kernel="precomputed", random_state=0)
    features = projection.fit_transform(K[:80, :80])
    assert np.max(np.abs(features @ features.T - K[:80, :80])) <= projection.se_max_[-1] + 1e-9
    assert projection.transform(K[80:, :80]).shape == (40, 30)
    with pytest.raises(ValueError, match="square kernel matrix"):
        projection.fit(K[:80])
    with pytest.raises(TypeError, match="partial_fit is not possible"):
        projection.fit(K).partial_fit(K)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_chunks_keep_the_basis_small_and_represent_all_of_them(make):
    X = np.maximum(rows_of(1200, 2, seed=4), 0.1)
    chunks = np.array_split(X, 6)
    online = GreedyProjection(25, gamma=1.0, max_error=1e-4, random_state=0)
    for chunk in chunks:
        online.partial_fit(make(chunk))
        assert online.n_basis_ <= 25
    batch = GreedyProjection(25, gamma=1.0, max_error=1e-4, random_state=0).fit(X)

    def worst(projection):
        return np.max(1.0 - np.sum(projection.transform(X) ** 2, axis=1))

    first = GreedyProjection(25, gamma=1.0, max_error=1e-4, random_state=0).fit(chunks[0])
    assert worst(online) < 10 * max(worst(batch), 1e-4)
    assert worst(online) <= worst(first)
    assert online.basis_indices_ is None


def test_chunks_within_epsilon_add_nothing():
    X = rows_of(300, 2)
    projection = GreedyProjection(100, gamma=0.5, max_error=1e-2, random_state=0).partial_fit(X)
    before = projection.basis_vectors_.copy()
    projection.partial_fit(X[:50])
    np.testing.assert_array_equal(projection.basis_vectors_, before)


def test_names_and_wrong_words():
    X = rows_of(50)
    projection = GreedyProjection(3, random_state=0).fit(X)
    assert projection.get_feature_names_out().tolist() == [f"greedyprojection{i}" for i in range(3)]
    for options, message in (
        ({"n_basis": "auto"}, "n_basis must be"),
        ({"pivot": "min"}, "pivot must be"),
        ({"max_error": np.nan}, "max_error must be"),
    ):
        with pytest.raises(ValueError, match=message):
            GreedyProjection(**options).fit(X)


@pytest.mark.parametrize(("pivot", "most"), [("max", 3.0), ("random", 1.4)])
def test_kernel_values_are_as_many_as_the_docstring_says(pivot, most):
    X = np.random.default_rng(0).normal(size=(2000, 3))
    for n_basis in (10, 100):
        found = GreedyProjection(n_basis, pivot=pivot, random_state=0).fit(X)
        assert 1.0 <= found.n_kernel_evals_ / (len(X) * found.n_basis_) <= most
    assert "n times `n_basis` of its values" not in GreedyProjection.__doc__
