"""ProjectedSVC: the same machine as an SVM on the features, folded back."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.svm import SVC

from kompakt import GreedyProjection, ProjectedSVC


def moons(n=300, noise=0.2):
    return make_moons(n, noise=noise, random_state=0)


@pytest.mark.parametrize("C", [1.0, 30.0])
def test_it_is_an_svm_on_the_projected_rows(C):
    X, y = moons(noise=0.3)
    projection = GreedyProjection(20, gamma=1.0, random_state=3).fit(X)
    expected = SVC(kernel="linear", C=C, tol=1e-8).fit(projection.transform(X), y)
    for solver in ("primal", "libsvm"):
        machine = ProjectedSVC(20, gamma=1.0, C=C, two_pass=False, tol=1e-8, solver=solver, random_state=3).fit(X, y)
        np.testing.assert_array_equal(machine.basis_indices_, projection.basis_indices_)
        assert machine.folded_ == "basis"
        assert machine.n_basis_ == 20 < machine.n_support_vectors_
        assert abs(machine.n_support_vectors_ - len(expected.support_)) <= 1
        np.testing.assert_allclose(
            machine.decision_function(X), expected.decision_function(projection.transform(X)), atol=1e-4
        )


def test_where_the_basis_spans_the_rows_it_is_the_exact_svm():
    X, y = moons(120)
    exact = SVC(gamma=0.5, C=2.0, tol=1e-8).fit(X, y)
    machine = ProjectedSVC(120, gamma=0.5, C=2.0, random_state=0).fit(X, y)
    np.testing.assert_allclose(machine.decision_function(X), exact.decision_function(X), atol=1e-4)


def test_fewer_support_vectors_than_basis_vectors_represent_the_discriminant():
    X, y = moons(noise=0.05)
    for solver in ("primal", "libsvm"):
        machine = ProjectedSVC(60, gamma=1.0, C=100.0, two_pass=False, tol=1e-6, solver=solver, random_state=0).fit(
            X, y
        )
        assert machine.folded_ == "support_vectors"
        assert machine.n_basis_ == machine.n_support_vectors_ < machine.n_projection_
        on_basis = SVC(kernel="linear", C=100.0, tol=1e-8)
        features = GreedyProjection(60, gamma=1.0, random_state=0).fit_transform(X)
        np.testing.assert_allclose(
            machine.decision_function(X), on_basis.fit(features, y).decision_function(features), atol=5e-3
        )


def test_two_passes_choose_among_the_support_vectors():
    X, y = moons(400)
    first = ProjectedSVC(15, gamma=1.0, C=1.0, two_pass=False, random_state=0).fit(X, y)
    again = ProjectedSVC(15, gamma=1.0, C=1.0, two_pass=True, random_state=0).fit(X, y)
    outside = 1.0 - (2 * y - 1) * first.decision_function(X)
    assert np.all(outside[again.basis_indices_] > -1e-3)  # rows that took part in the first solution
    assert again.n_basis_ == 15
    K = np.exp(-np.square(X[:, None] - X[None]).sum(axis=2))
    matrix = ProjectedSVC(15, kernel="precomputed", two_pass=True, random_state=0).fit(K, y)
    assert matrix.score(K, y) > 0.9
    with pytest.raises(ValueError, match="two_pass=True chooses its own basis"):
        ProjectedSVC(selection=X[:5], two_pass=True).fit(X, y)


@pytest.mark.parametrize("coding", ["one_vs_rest", "one_vs_one"])
def test_many_classes_share_the_basis(coding):
    X, y = make_blobs(300, centers=4, cluster_std=2.0, random_state=2)
    machine = ProjectedSVC(12, gamma=0.1, C=1.0, two_pass=False, coding=coding)
    fitted = [clone(machine).set_params(random_state=seed).fit(X, y) for seed in range(5)]
    assert {machine.n_basis_ for machine in fitted} == {12}
    assert fitted[0].dual_coef_.shape == ({"one_vs_rest": 4, "one_vs_one": 6}[coding], 12)
    # what twelve vectors reach depends on the first, which is drawn
    assert np.mean([machine.score(X, y) for machine in fitted]) > SVC(gamma=0.1).fit(X, y).score(X, y) - 0.06
    if coding == "one_vs_one":
        features = GreedyProjection(12, gamma=0.1, random_state=0).fit_transform(X)
        pairs = SVC(kernel="linear", decision_function_shape="ovo", tol=1e-6).fit(features, y)
        outputs = fitted[0].model_.outputs(X)
        np.testing.assert_allclose(-outputs, pairs.decision_function(features), atol=1e-3)


def test_epsilon_and_given_vectors():
    X, y = moons()
    machine = ProjectedSVC(200, max_error=0.01, gamma=1.0, random_state=0).fit(X, y)
    assert machine.n_projection_ < 60
    given = ProjectedSVC(selection=X[:10], gamma=1.0).fit(X, y)
    np.testing.assert_allclose(given.basis_vectors_, X[:10])


def test_liblinear_penalises_the_intercept_and_is_near():
    X, y = moons()
    primal = ProjectedSVC(20, gamma=1.0, random_state=0).fit(X, y)
    linear = ProjectedSVC(20, gamma=1.0, solver="liblinear", random_state=0).fit(X, y)
    assert np.mean(primal.predict(X) == linear.predict(X)) > 0.98
    with pytest.raises(ValueError, match="solver must be one of"):
        ProjectedSVC(solver="smo").fit(X, y)
