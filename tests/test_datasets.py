"""Generated data sets: what their docstrings promise."""

import numpy as np
import pytest

from kompakt.datasets import make_checkerboard, make_ringnorm, make_spirals

MAKERS = [make_checkerboard, make_spirals, make_ringnorm]


@pytest.mark.parametrize("make", MAKERS)
def test_shapes_labels_and_determinism(make):
    X, y = make(501, random_state=3)
    again, y_again = make(501, random_state=3)
    other, _ = make(501, random_state=4)
    assert len(X) == len(y) == 501
    assert set(np.unique(y)) == {-1, 1}
    np.testing.assert_array_equal(X, again)
    np.testing.assert_array_equal(y, y_again)
    assert not np.array_equal(X, other)


@pytest.mark.parametrize("make", MAKERS)
def test_no_rows_is_an_error(make):
    with pytest.raises(ValueError, match="n_samples must be a positive integer, got 0"):
        make(0)


def test_checkerboard_flips_the_asked_share_of_labels():
    X, clean = make_checkerboard(20_000, random_state=0)
    same, noisy = make_checkerboard(20_000, flip=0.1, random_state=0)
    np.testing.assert_array_equal(X, same)
    assert abs(np.mean(clean != noisy) - 0.1) < 0.01
    with pytest.raises(ValueError, match="flip must lie between"):
        make_checkerboard(10, flip=0.7)


def test_spirals_without_noise_lie_on_their_curves():
    X, y = make_spirals(400, turns=2.0, noise=0.0)
    radius = np.hypot(*X.T)
    angle = 4 * np.pi * radius + np.where(y == 1, 0.0, np.pi)
    curve = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    np.testing.assert_allclose(X, curve, atol=1e-12)


def test_ringnorm_bayes_error_is_the_documented_one():
    X, y = make_ringnorm(100_000, random_state=1)
    shift = 2 / np.sqrt(20)
    # log density ratio of N(0, 4 I) and N(shift, I)
    ratio = -(X**2).sum(axis=1) / 8 - 20 * np.log(2) + ((X - shift) ** 2).sum(axis=1) / 2
    assert abs(np.mean(np.sign(ratio) != y) - 0.0124) < 0.0014  # four standard errors
