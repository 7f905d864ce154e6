"""Splits, stratified and refused with a reason where they cannot work; errors of folds; size rules."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import LeaveOneOut, ShuffleSplit, StratifiedKFold

from kompakt.codings import get_coding
from kompakt.data import ArrayRows
from kompakt.heldout import (
    Scorer,
    absolute_errors,
    fold_means,
    fold_of_row,
    holdout,
    no_worse,
    pick_size,
    resolve_splits,
    shuffled_folds,
    split_rows,
    squared_errors,
)
from kompakt.kernels import RBF
from kompakt.losses import Hinge, LeastSquares
from kompakt.spec import Data, Spec


def test_folds_of_classes_are_stratified_and_deterministic():
    y = np.repeat(["a", "b", "c"], [60, 30, 10])
    first = resolve_splits(5, y, stratify=True, random_state=3)
    again = resolve_splits(5, y, stratify=True, random_state=3)
    for (train, held), (train2, held2) in zip(first, again, strict=True):
        np.testing.assert_array_equal(train, train2)
        np.testing.assert_array_equal(held, held2)
        assert [(y[held] == c).sum() for c in "abc"] == [12, 6, 2]
    fold = fold_of_row(first, 100)
    assert set(fold) == set(range(5))


def test_folds_of_numbers_are_shuffled_and_cover_all_rows():
    y = np.arange(50.0)
    splits = resolve_splits(4, y, stratify=False, random_state=0)
    held = np.concatenate([validation for _, validation in splits])
    assert sorted(held.tolist()) == list(range(50))
    assert not np.array_equal(splits[0][1], np.arange(len(splits[0][1])))
    assert resolve_splits(np.int64(2), np.zeros((6, 2)), stratify=False, random_state=0)


def test_splitters_lists_and_masks():
    y = np.arange(6) % 2
    assert len(resolve_splits(LeaveOneOut(), y, stratify=True)) == 6
    stratified = resolve_splits(StratifiedKFold(3), y, stratify=True, X=np.zeros((6, 2)))
    assert sorted(sorted(held.tolist()) for _, held in stratified) == [[0, 1], [2, 3], [4, 5]]
    mask = np.array([True, True, False, False, False, False])
    ((train, held),) = resolve_splits([(~mask, mask)], y, stratify=True)
    assert train.tolist() == [2, 3, 4, 5]
    assert held.tolist() == [0, 1]
    ((train, held),) = resolve_splits(iter([([0, 1], [-1])]), y, stratify=True)
    assert held.tolist() == [5]


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (1, "between 2 and the number of rows, 6, got 1"),
        (7, "got 7"),
        ([], "no splits"),
        ([([0, 1], [1, 2])], "the two must not overlap"),
        ([([0, 1], [])], "validation rows of split 0 are empty"),
        ([([0, 9], [1])], "but there are 6 rows"),
        ([([True, False], [1])], "has length 2, expected 6"),
        ([([[0]], [1])], "list of row numbers"),
        ([0, 1], "pairs"),
    ],
)
def test_bad_cv_is_named(cv, message):
    with pytest.raises((ValueError, TypeError), match=message):
        resolve_splits(cv, np.arange(6.0), stratify=False)


def test_bad_types_are_named():
    for cv in (None, True, "5"):
        with pytest.raises(TypeError, match="number of folds, a splitter"):
            resolve_splits(cv, np.arange(6.0), stratify=False)
    with pytest.raises(TypeError, match="must be integers"):
        resolve_splits([([0.5], [1])], np.arange(6.0), stratify=False)


def test_a_class_with_fewer_members_than_folds_is_named():
    y = np.array(["many"] * 20 + ["few"] * 3)
    with pytest.raises(ValueError, match=r"at least 5 rows of each class, got 3 of class 'few'"):
        resolve_splits(5, y, stratify=True)
    with pytest.raises(ValueError, match=r"shape \(n,\)"):
        resolve_splits(2, np.zeros((6, 2)), stratify=True)


def test_holdout():
    y = np.repeat([0, 1], [80, 20])
    train, held = holdout(y, 0.25, stratify=True, random_state=0)
    assert (y[held] == 1).sum() == 5
    assert sorted([*train, *held]) == list(range(100))
    np.testing.assert_array_equal(holdout(y, 0.25, stratify=True, random_state=0)[1], held)
    train, held = holdout(np.arange(10.0), 0.3, stratify=False, random_state=0)
    assert len(held) == 3
    np.testing.assert_array_equal(np.sort(train), train)


def test_bad_holdouts_are_named():
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        holdout([0, 1], 1.0, stratify=True)
    with pytest.raises(ValueError, match="got 1 of class 2"):
        holdout([0, 0, 1, 1, 2], 0.5, stratify=True)
    with pytest.raises(ValueError, match="all 3 classes"):
        holdout([0, 0, 1, 1, 2, 2], 0.1, stratify=True)
    with pytest.raises(ValueError, match="leaves none to train on"):
        holdout([0.0], 0.5, stratify=False)


def test_fold_of_row_refuses_splits_that_are_no_folds():
    n = 10
    with pytest.raises(ValueError, match="folds must not overlap"):
        fold_of_row(ShuffleSplit(4, test_size=0.5, random_state=0).split(np.zeros(n)), n)
    with pytest.raises(ValueError, match="does not train on all 8 rows"):
        fold_of_row([([0, 1, 2], [8, 9])], n)
    rows = np.arange(n)
    assert fold_of_row([(rows[:7], rows[7:])], n).tolist() == [-1] * 7 + [0] * 3


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


def test_fold_means():
    rng = np.random.default_rng(0)
    losses, fold, weights = rng.uniform(size=(3, 60)), rng.integers(-1, 4, size=60), rng.uniform(size=60)
    result = fold_means(losses, fold, weights)
    for v in range(4):
        members = fold == v
        expected = np.average(losses[:, members], axis=1, weights=weights[members])
        np.testing.assert_allclose(result[:, v], expected)
    assert np.isnan(fold_means(np.array([1.0, 2.0]), np.array([0, 1]), np.array([0.0, 1.0]))[0])


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
    assert pick_size(SIZES, ERRORS, "within", tolerance=0.25).size == 10


def test_sizes_without_a_finite_error_are_passed_over():
    errors = ERRORS.copy()
    errors[2, 1] = np.nan
    errors[3] = np.inf
    choice = pick_size(SIZES, errors, "one_se")
    assert choice.size == 80
    with pytest.raises(ValueError, match="Every size"):
        pick_size(SIZES, np.full((4, 3), np.nan))


def test_a_negative_tolerance_is_refused():
    with pytest.raises(ValueError, match="not be negative"):
        pick_size(SIZES, ERRORS, "within", tolerance=-1)


def test_a_scorer_measures_as_a_loop_over_the_rows_does():
    rng = np.random.default_rng(0)
    labels, weights = rng.integers(0, 3, 40), rng.uniform(0.5, 2.0, 40)
    coding = get_coding("one_vs_one")
    targets = coding.codes(3)[labels]
    data = Data(ArrayRows(rng.standard_normal((40, 2)), targets, weights), classes=np.arange(3), labels=labels)
    spec = Spec(RBF(1.0), Hinge(), coding="one_vs_one", n_classes=3)
    rows = np.arange(3, 33)
    outputs = rng.standard_normal((2, 30, 3))  # of two machines
    scorer = Scorer.of(data, spec, rows)
    for machine in range(2):
        wrong, losses = [], []
        for row, output in zip(rows, outputs[machine], strict=True):
            wrong.append(float(coding.decode(output[None], 3)[0] != labels[row]))
            losses.append(np.mean([max(0.0, 1.0 - t * f) for t, f in zip(targets[row], output, strict=True) if t]))
        score = scorer.score(outputs[machine])
        assert score.error == pytest.approx(np.average(wrong, weights=weights[rows]))
        assert score.loss == pytest.approx(np.average(losses, weights=weights[rows]))
        spread = np.average((np.array(wrong) - score.error) ** 2, weights=weights[rows])
        assert score.standard_error == pytest.approx(np.sqrt(spread / 30))
        assert scorer.mean(scorer.row_errors(outputs))[machine] == pytest.approx(score.error)


@pytest.mark.parametrize("measure", [squared_errors, absolute_errors, None])
def test_numbers_are_measured_by_what_is_asked_for(measure):
    rng = np.random.default_rng(1)
    targets, outputs = rng.standard_normal((2, 20, 2))
    data = Data(ArrayRows(rng.standard_normal((20, 2)), targets), y=targets)
    errors = Scorer.of(data, Spec(RBF(1.0), LeastSquares()), measure=measure).row_errors(outputs)
    power = 1 if measure is absolute_errors else 2
    expected = np.mean(np.abs(targets - outputs) ** power, axis=1) * (0.5 if measure is None else 1.0)
    np.testing.assert_allclose(errors, expected)


def test_a_paired_comparison_looks_at_differences_and_not_at_levels():
    rng = np.random.default_rng(2)
    level = 10.0 * rng.standard_normal(100)  # differs far more from row to row than the machines do
    better = level - 0.1 + 0.01 * rng.standard_normal(100)
    assert no_worse(better, level)
    assert not no_worse(level, better)
    assert not no_worse(np.where(np.arange(100) == 3, np.inf, level), level)


@pytest.mark.parametrize("labels", [None, np.repeat([0, 1], [15, 45])])
def test_rows_are_split_into_folds_or_one_part(labels):
    X = np.zeros((60, 1))
    data = Data(ArrayRows(X), classes=None if labels is None else np.arange(2), labels=labels)
    folds = split_rows(data, 3, 0)
    np.testing.assert_array_equal(np.sort(np.concatenate([held for _, held in folds])), np.arange(60))
    ((train, held),) = split_rows(data, 1, 0, fraction=0.5, most_rows=12)
    assert (len(train), len(held)) == (48, 12)
    assert not np.intersect1d(train, held).size
    if labels is not None:
        assert {int(np.sum(labels[held])) for _, held in folds} == {15}
