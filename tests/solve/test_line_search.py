"""Exact line searches, on slopes whose root is known."""

import numpy as np
import pytest

from kompakt.solve.newton import exact_step, step_by_passes


def piecewise(seed, scale):
    """An increasing, piecewise linear function of a step, and its root."""
    rng = np.random.default_rng(seed)
    kinks = np.concatenate([[0.0], np.sort(rng.uniform(0.0, scale, 9))])
    rises = rng.uniform(0.1, 2.0, 10)
    target = float(np.sum(rises * (0.6 * scale - kinks).clip(0.0)))

    def slopes(steps):
        beyond = np.asarray(steps)[:, None] - kinks
        return np.sum(rises * beyond.clip(0.0), axis=1) - target, np.sum(rises * (beyond >= 0.0), axis=1)

    return slopes, 0.6 * scale


@pytest.mark.parametrize("scale", [1e-4, 0.5, 30.0, 400.0])
def test_both_searches_find_the_root(scale):
    for seed in range(5):
        slopes, root = piecewise(seed, scale)
        asked = []

        single = []

        def one(step, slopes=slopes, single=single):
            single.append(step)
            values, derivatives = slopes([step])
            return values[0], derivatives[0]

        def many(steps, slopes=slopes, asked=asked):
            asked.append(len(steps))
            return slopes(steps)

        assert exact_step(one) == pytest.approx(root, rel=1e-11)
        assert step_by_passes(many) == pytest.approx(root, rel=1e-9)
        assert len(asked) <= 7  # each is a pass over all rows
        assert len(single) <= 24  # Newton's method, and the powers of two before it


def test_steps_at_the_ends():
    assert exact_step(lambda step: (0.5 + step, 1.0)) == 0.0  # nothing falls
    assert step_by_passes(lambda steps: (0.5 + steps, np.ones_like(steps))) == 0.0
    assert step_by_passes(lambda steps: (steps - 1e6, np.ones_like(steps))) == 256.0  # the longest step is tried
    assert exact_step(lambda step: (step - 1e6, 1.0)) == pytest.approx(1e6, rel=1e-12)


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_the_unit_of_the_slope_does_not_matter(unit):
    slopes, root = piecewise(1, 0.5)
    assert exact_step(lambda step: tuple(unit * value[0] for value in slopes([step]))) == pytest.approx(root, rel=1e-11)
    assert step_by_passes(lambda steps: tuple(unit * value for value in slopes(steps))) == pytest.approx(root, rel=1e-9)


def test_a_bracket_without_kink_needs_one_more_pass():
    asked = []
    found = step_by_passes(lambda steps: asked.append(steps) or (steps - 0.3137, np.zeros_like(steps)))  # no derivative
    assert found == pytest.approx(0.3137, rel=1e-12)
    assert len(asked) == 2
