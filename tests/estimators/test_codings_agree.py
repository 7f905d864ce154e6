"""Codings on one shared basis against a naive loop of binary machines."""

from __future__ import annotations

import numpy as np
import pytest

from kompakt import CompactSVC
from kompakt.codings import class_pairs, get_coding

RNG = np.random.default_rng(1)
X = RNG.standard_normal((240, 2))
Y = np.digitize(X[:, 0] + 0.5 * np.sin(3 * X[:, 1]), [-0.8, 0.0, 0.8])
BASIS = X[:15]
WORDS = {"selection": BASIS, "refine": False, "gamma": 0.7, "C": 3.0}


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "least_squares"])
def test_one_vs_one_is_a_loop_over_pairs(loss):
    together = CompactSVC(coding="one_vs_one", loss=loss, **WORDS).fit(X, Y)
    for column, (i, j) in enumerate(class_pairs(4)):
        mine = (Y == i) | (Y == j)
        alone = CompactSVC(loss=loss, **WORDS).fit(X[mine], Y[mine])
        # fitted on other rows, so centred elsewhere: compare values, not coefficients
        np.testing.assert_allclose(together.model_.outputs(X)[:, column], alone.model_.outputs(X)[:, 0], atol=2e-6)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "least_squares"])
@pytest.mark.parametrize("coding", ["minimum_output", "one_vs_rest"])
def test_other_codings_are_a_loop_over_outputs(coding, loss):
    together = CompactSVC(coding=coding, loss=loss, **WORDS).fit(X, Y)
    codes = get_coding(coding).codes(4)
    for column in range(codes.shape[1]):
        alone = CompactSVC(loss=loss, **WORDS).fit(X, codes[Y, column])
        np.testing.assert_allclose(together.model_.outputs(X)[:, column], alone.model_.outputs(X)[:, 0], atol=2e-6)


@pytest.mark.parametrize("coding", ["one_vs_one", "minimum_output", "one_vs_rest"])
def test_decisions_have_one_column_per_class_and_their_argmax_is_predicted(coding):
    machine = CompactSVC(coding=coding, **WORDS).fit(X, np.array(list("dbca"))[Y])
    scores = machine.decision_function(X)
    assert scores.shape == (240, 4)
    np.testing.assert_array_equal(machine.classes_[scores.argmax(axis=1)], machine.predict(X))
    assert machine.score(X, np.array(list("dbca"))[Y]) > 0.7
