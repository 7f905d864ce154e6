"""`feature_importances_`: what learned widths and maps say of the features; scikit-learn's selectors use them."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kompakt import CompactSVC, CompactSVR, Refinement, SpSVC

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 6))
y = np.where(X[:, 1] * X[:, 4] > 0, "same", "other")
SHORT = {"n_basis": 8, "refine": Refinement(max_iter=40), "random_state": 0, "C": 10.0}


@pytest.mark.parametrize("gamma", ["ard", "full", None])
def test_the_features_that_matter_come_first(gamma):
    model = CompactSVC(gamma=gamma, **SHORT).fit(X, y)
    assert model.feature_importances_.shape == (6,)
    np.testing.assert_allclose(model.feature_importances_.sum(), 1.0)
    assert set(np.argsort(model.feature_importances_)[-2:]) == {1, 4}


def test_units_do_not_matter():
    """A width is in the units of its feature; widths times variances are not."""
    gamma = np.array([1.0, 2.0, 3.0, 1.0, 1.0, 1.0])
    scale = np.array([1.0, 10.0, 100.0, 1.0, 0.1, 1.0])
    plain = SpSVC(5, gamma=gamma, random_state=0).fit(X, y)
    other = SpSVC(5, gamma=gamma / scale**2, random_state=0).fit(X * scale, y)
    np.testing.assert_allclose(plain.feature_importances_, other.feature_importances_, rtol=1e-6)
    expected = gamma * X.var(axis=0)
    np.testing.assert_allclose(plain.feature_importances_, expected / expected.sum(), rtol=1e-6)
    thin = SpSVC(5, gamma=gamma, random_state=0).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.feature_importances_, plain.feature_importances_, rtol=1e-6)


def test_weights_are_repetitions():
    gamma, twice = np.arange(1.0, 7.0), np.arange(300) < 100
    weighted = SpSVC(5, gamma=gamma, random_state=0).fit(X, y, sample_weight=1.0 + twice)
    repeated = SpSVC(5, gamma=gamma, random_state=0).fit(np.concatenate([X, X[twice]]), np.append(y, y[twice]))
    np.testing.assert_allclose(weighted.feature_importances_, repeated.feature_importances_, rtol=1e-6)


def test_selectors_of_features_work_with_them():
    kept = RFE(CompactSVC(gamma="ard", **SHORT), n_features_to_select=2).fit(X, y)
    assert kept.support_.nonzero()[0].tolist() == [1, 4]
    t = np.sin(2 * X[:, 2])
    chosen = SelectFromModel(CompactSVR(gamma="ard", **SHORT), max_features=1).fit(X, t)
    assert chosen.get_support().nonzero()[0].tolist() == [2]
    cancer, diagnosis = load_breast_cancer(return_X_y=True)
    last = CompactSVC(10, refine=False, random_state=0)
    select = SelectFromModel(CompactSVC(random_state=0, n_basis=5, refine=Refinement(max_iter=20)))
    pipeline = make_pipeline(StandardScaler(), select, last).fit(cancer[::2], diagnosis[::2])
    assert pipeline.score(cancer[1::2], diagnosis[1::2]) > 0.9


def test_one_width_for_all_features_has_none():
    assert not hasattr(SpSVC(5, random_state=0).fit(X, y), "feature_importances_")
    assert not hasattr(CompactSVC(gamma="learn", **SHORT).fit(X, y), "feature_importances_")
