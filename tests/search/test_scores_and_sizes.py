"""Scores against loops and scikit-learn; size rules on paths with known answers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from kompakt.validation import agreement, error_rate, fold_means, mean_absolute_error, mean_squared_error, pick_size


def test_error_rate_of_a_path_of_sizes():
    rng = np.random.default_rng(0)
    y, path = rng.integers(3, size=50), rng.integers(3, size=(4, 50))
    weights = rng.uniform(size=50)
    ours = error_rate(y, path, weights)
    theirs = [1 - metrics.accuracy_score(y, one, sample_weight=weights) for one in path]
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
    np.testing.assert_allclose(agreement(y, path[0]), metrics.accuracy_score(y, path[0]))
    names = np.array(["a", "b", "c"])
    np.testing.assert_allclose(error_rate(names[y], names[path], weights), ours)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(mean_squared_error, metrics.mean_squared_error), (mean_absolute_error, metrics.mean_absolute_error)],
)
@pytest.mark.parametrize("shape", [(40,), (40, 3)])
def test_regression_scores(ours, theirs, shape):
    rng = np.random.default_rng(1)
    y, path, weights = rng.normal(size=shape), rng.normal(size=(2, 5, *shape)), rng.uniform(size=40)
    result = ours(y, path, weights)
    assert result.shape == (2, 5)
    for index in np.ndindex(2, 5):
        assert result[index] == pytest.approx(theirs(y, path[index], sample_weight=weights))
    assert ours(y, path[0, 0]) == pytest.approx(theirs(y, path[0, 0]))


def test_scores_refuse_what_they_cannot_average():
    with pytest.raises(ValueError, match="hold 3 rows, but there are 2"):
        error_rate([0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match="at least one row"):
        error_rate([], [])
    with pytest.raises(ValueError, match="same with leading axes"):
        mean_squared_error(np.zeros((4, 2)), np.zeros((4, 3)))
    for bad, message in (([0.0, 0.0], "zero for every row"), ([1.0, -1.0], "not negative"), ([1.0], "shape")):
        with pytest.raises(ValueError, match=message):
            error_rate([0, 1], [0, 1], bad)


def test_fold_means():
    rng = np.random.default_rng(0)
    losses, fold, weights = rng.uniform(size=(3, 60)), rng.integers(-1, 4, size=60), rng.uniform(size=60)
    result = fold_means(losses, fold, weights)
    for v in range(4):
        members = fold == v
        expected = np.average(losses[:, members], axis=1, weights=weights[members])
        np.testing.assert_allclose(result[:, v], expected)
    assert np.isnan(fold_means([1.0, 2.0], [0, 1], [0.0, 1.0])[0])
    with pytest.raises(ValueError, match="Fold 1 holds no row"):
        fold_means([1.0, 2.0], [0, 2])
    with pytest.raises(ValueError, match="all are -1"):
        fold_means([1.0], [-1])
    with pytest.raises(ValueError, match="same rows"):
        fold_means([1.0], [0, 1])


SIZES = [80, 10, 40, 20]  # not sorted
ERRORS = np.array([[0.10, 0.12, 0.14], [0.30, 0.30, 0.33], [0.10, 0.12, 0.14], [0.12, 0.13, 0.13]])


def test_best_breaks_ties_to_the_smaller_size():
    choice = pick_size(SIZES, ERRORS)
    assert (choice.size, choice.index) == (40, 2)
    assert choice.threshold == pytest.approx(0.12)


def test_one_standard_error():
    choice = pick_size(SIZES, ERRORS, "one_se")
    assert choice.threshold == pytest.approx(0.12 + 0.02 / np.sqrt(3))
    assert choice.size == 20  # mean 0.1267 <= 0.1315
    with pytest.raises(ValueError, match="at least 2 folds"):
        pick_size(SIZES, ERRORS[:, 0], "one_se")
    assert pick_size(SIZES, ERRORS[:, 0], "one_se", standard_errors=np.full(4, 0.02)).size == 20


def test_within_a_tolerance():
    assert pick_size(SIZES, ERRORS, "within").size == 40
    assert pick_size(SIZES, ERRORS, "within", tolerance=0.01).size == 20
    assert pick_size(SIZES, ERRORS, "within", relative_tolerance=0.06).size == 20
    assert pick_size(SIZES, ERRORS, "within", tolerance=0.01, relative_tolerance=2.0).size == 10


def test_sizes_without_a_finite_error_are_passed_over():
    errors = ERRORS.copy()
    errors[2, 1] = np.nan
    errors[3] = np.inf
    choice = pick_size(SIZES, errors, "one_se")
    assert choice.size == 80
    with pytest.raises(ValueError, match="Every size"):
        pick_size(SIZES, np.full((4, 3), np.nan))


def test_size_rules_refuse_bad_arguments():
    with pytest.raises(ValueError, match="choose from 'best', 'one_se', 'within'"):
        pick_size(SIZES, ERRORS, "first")
    with pytest.raises(ValueError, match="not be negative"):
        pick_size(SIZES, ERRORS, "within", tolerance=-1)
    with pytest.raises(ValueError, match="n_sizes, n_folds"):
        pick_size(SIZES, ERRORS[:2])
    with pytest.raises(ValueError, match=r"shape \(4,\)"):
        pick_size(SIZES, ERRORS, "one_se", standard_errors=[0.1])
