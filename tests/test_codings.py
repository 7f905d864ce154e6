"""Codings decode their own codes and agree with naive loops over classes and pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from kompakt.codings import CODINGS, MinimumOutput, OneVsOne, class_pairs, get_coding

ALL = sorted(CODINGS)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 7, 8, 10, 26])
def test_every_coding_decodes_its_own_codes(name, n_classes):
    coding = get_coding(name)
    index = np.random.default_rng(0).integers(n_classes, size=200)
    targets = coding.encode(index, n_classes)
    assert targets.shape == (200, coding.n_outputs(n_classes))
    assert targets.dtype == np.float64
    assert set(np.unique(targets)) <= {-1.0, 0.0, 1.0}
    # Outputs a row took no part in may say anything.
    noise = np.random.default_rng(1).normal(size=targets.shape)
    np.testing.assert_array_equal(coding.decode(np.where(targets == 0, noise, targets), n_classes), index)


@pytest.mark.parametrize("name", ALL)
def test_two_classes_are_one_output_with_plus_one_for_the_second(name):
    coding = get_coding(name)
    np.testing.assert_array_equal(coding.encode([0, 1, 1], 2), [[-1], [1], [1]])
    F = np.array([[-0.3], [0.0], [2.0]])
    np.testing.assert_array_equal(coding.scores(F, 2), F[:, 0])
    np.testing.assert_array_equal(coding.scores(F[:, 0], 2), F[:, 0])
    np.testing.assert_array_equal(coding.decode(F, 2), [0, 0, 1])


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("n_classes", [3, 6, 9])
def test_code_words_differ(name, n_classes):
    codes = get_coding(name).codes(n_classes)
    assert len(np.unique(codes, axis=0)) == n_classes
    assert np.all(np.any(codes == 1, axis=0) & np.any(codes == -1, axis=0))


@pytest.mark.parametrize("n_classes", [3, 5, 10])
def test_one_vs_one_agrees_with_a_vote_loop(n_classes):
    rng = np.random.default_rng(n_classes)
    F = np.round(rng.normal(size=(300, n_classes * (n_classes - 1) // 2)), 1)  # rounded: zeros occur
    expected = np.zeros((300, n_classes))
    for row in range(300):
        votes, margin = np.zeros(n_classes), np.zeros(n_classes)
        for output, (i, j) in enumerate(combinations(range(n_classes), 2)):
            votes[j if F[row, output] > 0 else i] += 1
            margin[i] -= F[row, output]
            margin[j] += F[row, output]
        expected[row] = votes + margin / (3 * (np.abs(margin) + 1))
    np.testing.assert_allclose(OneVsOne().scores(F, n_classes), expected, atol=1e-12)


def test_one_vs_one_matches_scikit_learn():
    from sklearn.datasets import load_iris
    from sklearn.linear_model import RidgeClassifier
    from sklearn.multiclass import OneVsOneClassifier

    X, y = load_iris(return_X_y=True)
    X = X[:, :2]  # overlapping classes, so votes tie
    theirs = OneVsOneClassifier(RidgeClassifier()).fit(X, y)
    F = np.column_stack([machine.decision_function(X) for machine in theirs.estimators_])
    np.testing.assert_allclose(OneVsOne().scores(F, 3), theirs.decision_function(X), atol=1e-12)
    np.testing.assert_array_equal(OneVsOne().decode(F, 3), theirs.predict(X))


@pytest.mark.parametrize("n_classes", [3, 5, 6, 11])
def test_minimum_output_takes_the_nearest_code_and_margins_break_ties(n_classes):
    coding = MinimumOutput()
    F = np.random.default_rng(0).normal(size=(400, coding.n_outputs(n_classes)))
    codes = coding.codes(n_classes)
    hamming = (np.sign(F)[:, None, :] != codes).sum(axis=2)
    chosen = coding.decode(F, n_classes)
    ties = 0
    for row in range(len(F)):
        nearest = np.flatnonzero(hamming[row] == hamming[row].min())
        ties += len(nearest) > 1
        assert chosen[row] == nearest[np.argmax(codes[nearest] @ F[row])]
    assert ties > 0


@pytest.mark.parametrize(("n_classes", "bits"), [(2, 1), (3, 2), (4, 2), (6, 3), (7, 3), (10, 4), (26, 5)])
def test_minimum_output_has_the_bits_of_the_paper(n_classes, bits):
    assert MinimumOutput().n_outputs(n_classes) == bits  # De Brabanter et al. 2010, Table 6 (and lan's true 6 classes)


def test_pairs_are_in_libsvm_order():
    assert class_pairs(4).tolist() == [list(pair) for pair in combinations(range(4), 2)]


def test_errors_say_what_is_wrong():
    with pytest.raises(ValueError, match="choose from 'minimum_output', 'one_vs_one', 'one_vs_rest'"):
        get_coding("ovo")
    with pytest.raises(TypeError, match="got int"):
        get_coding(3)  # type: ignore[arg-type]
    coding = get_coding("one_vs_one")
    with pytest.raises(ValueError, match="at least 2 classes, got 1"):
        coding.codes(1)
    with pytest.raises(ValueError, match="from 0 to 3"):
        coding.encode([0, 3], 3)
    with pytest.raises(TypeError, match="integers"):
        coding.encode([0.0, 1.0], 3)
    with pytest.raises(ValueError, match=r"\(n, 6\), got \(2, 4\)"):
        coding.scores(np.zeros((2, 4)), 4)
    assert get_coding(coding) is coding
