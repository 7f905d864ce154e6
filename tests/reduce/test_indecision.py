"""Indecision probabilities (Barcenas, Gonzalez-Lima, Quiroz, eq. 17)."""

import numpy as np
import pytest
from benchmarks.papers.indecision import indecision_study
from sklearn.datasets import load_iris, make_classification
from sklearn.svm import SVC

from kompakt import indecision_probability


def test_the_share_is_counted_strictly_below_eps():
    class Values:
        def decision_function(self, X):
            return X[:, 0]

    X = np.array([[-0.1], [0.05], [0.1], [0.0], [1.0]])
    assert indecision_probability(Values(), X, 0.1) == 2 / 5
    assert indecision_probability(Values(), X, [0.01, 0.11, 2.0]).tolist() == [1 / 5, 4 / 5, 1.0]


def test_the_study_averages_over_subsamples():
    X, y = make_classification(300, random_state=0)
    study = indecision_study(SVC(kernel="linear"), X, y, [60, 300], eps=(0.5, 0.1), n_repeats=4, random_state=3)
    whole = SVC(kernel="linear").fit(X, y)
    np.testing.assert_allclose(study.mean[:, 1], [np.mean(np.abs(whole.decision_function(X)) < e) for e in (0.5, 0.1)])
    assert np.all(study.deviation[:, 1] == 0)  # every subsample is all rows
    assert study.deviation[0, 0] > 0
    again = indecision_study(SVC(kernel="linear"), X, y, [60], eps=(0.5, 0.1), n_repeats=4, random_state=3, n_jobs=2)
    assert np.array_equal(again.mean[:, 0], study.mean[:, 0])


def test_what_cannot_be_answered_is_a_named_error():
    X, y = load_iris(return_X_y=True)
    machine = SVC().fit(X, y)
    with pytest.raises(ValueError, match="two classes"):
        indecision_probability(machine, X, 0.1)
    with pytest.raises(ValueError, match="eps must be positive"):
        indecision_probability(machine, X, 0.0)
    with pytest.raises(ValueError, match="sizes must lie"):
        indecision_study(SVC(), X, y, [151])
    with pytest.raises(ValueError, match="n_repeats"):
        indecision_study(SVC(), X, y, [50], n_repeats=0)
