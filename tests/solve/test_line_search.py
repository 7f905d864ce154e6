"""The guarded line search, on slopes whose root is known and on losses."""

import numpy as np
import pytest

from kompakt.losses import Hinge, HuberHinge, SquaredHinge
from kompakt.solve import line_search
from kompakt.solve.line_search import guarded_roots, minimise_along
from kompakt.solve.newton import _FIRST_STEPS, _INNER_STEPS


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


def roots_of(functions, *, by_passes=False):
    """Roots of functions of an array of steps, and the trials of every call."""
    calls = []

    def slopes(which, steps):
        calls.append(steps)
        assert np.all(np.diff(steps, axis=1) >= 0.0)
        pairs = [functions[k](at) for k, at in zip(which, steps, strict=True)]
        return tuple(np.array(part) for part in zip(*pairs, strict=True))

    start = np.array([function(np.zeros(1))[0][0] for function in functions])
    if by_passes:
        first = np.tile(_FIRST_STEPS, (len(functions), 1))
        return guarded_roots(slopes, start, first, inner=_INNER_STEPS, tol=1e-12, max_calls=7), calls
    return guarded_roots(slopes, start, np.ones((len(functions), 1)), tol=1e-12, max_calls=80), calls


@pytest.mark.parametrize("by_passes", [False, True])
def test_roots_are_found_side_by_side(by_passes):
    problems = [piecewise(seed, scale) for seed in range(5) for scale in (1e-4, 0.5, 30.0, 400.0)]
    roots, calls = roots_of([slopes for slopes, _ in problems], by_passes=by_passes)
    np.testing.assert_allclose(roots, [root for _, root in problems], rtol=1e-9)
    assert len(calls) <= (7 if by_passes else 24)


@pytest.mark.parametrize("by_passes", [False, True])
def test_steps_at_the_ends(by_passes):
    rising, far = (lambda t: (0.5 + t, np.ones_like(t))), (lambda t: (t - 1e6, np.ones_like(t)))
    roots, _ = roots_of([rising, far], by_passes=by_passes)
    assert roots[0] == 0.0
    assert roots[1] == pytest.approx(1e6, rel=1e-12)


@pytest.mark.parametrize("unit", [1e-12, 1e12])
@pytest.mark.parametrize("by_passes", [False, True])
def test_the_unit_of_the_slope_does_not_matter(unit, by_passes):
    slopes, root = piecewise(1, 0.5)
    roots, _ = roots_of([lambda t: tuple(unit * part for part in slopes(t))], by_passes=by_passes)
    assert roots[0] == pytest.approx(root, rel=1e-11)


def test_a_bracket_without_kink_needs_one_more_pass():
    roots, calls = roots_of([lambda t: (t - 0.3137, np.zeros_like(t))], by_passes=True)  # no derivative
    assert roots[0] == pytest.approx(0.3137, rel=1e-12)
    assert len(calls) == 2


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("loss", [SquaredHinge(), HuberHinge(0.1), Hinge().rounded(0.01)], ids=repr)
def test_a_direction_without_curvature_at_its_start_is_searched(loss, compiled, monkeypatch):
    """No row is on a parabola at 0, and there is no penalty: Newton's first step is infinitely long."""
    if not compiled:
        monkeypatch.setattr(line_search, "compiled", lambda: None)
    y, f = np.array([[1.0, 1.0, -1.0]]), np.array([[-9.0, -7.0, -2.0]])
    if loss.quadratic or isinstance(loss, SquaredHinge):
        f[0, :2] = 3.0
    along = np.where(y * f > 1.0, -1.0, 1.0) * np.ones(3)
    none = np.zeros((1, 1))
    t, decrease = minimise_along(
        loss, y, f, np.ones((1, 3)), along[:, None], none - (isinstance(loss, SquaredHinge)), none
    )
    grid = np.linspace(0.0, 15.0, 30_001)
    values = np.sum(loss.value(y, f + grid[:, None] * along), axis=1) - isinstance(loss, SquaredHinge) * grid
    assert decrease[0, 0] == pytest.approx(values[0] - values.min(), rel=1e-5)
    assert t[0, 0] > 0.0


@pytest.mark.parametrize("compiled", [True, False])
def test_a_first_step_that_is_many_orders_too_long_is_taken_back(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(line_search, "compiled", lambda: None)
    # no row has curvature at 0, so the penalty alone makes the first step: 1e50 times as long as the way to the kinks
    loss, ones = Hinge().rounded(0.1), np.ones((1, 6))
    y, f = ones * [[1, 1, 1, 1, -1, -1]], ones * [[-3, -3, -3, -3, -5, -5]]
    columns, penalty = ones[None], np.ones((1, 1))  # four rows come right, then two go wrong
    t, _ = minimise_along(loss, y, f, 1e50 * ones, columns, 0.0 * penalty, penalty)
    values = [float(np.sum(loss.value(y, f + step))) for step in np.linspace(0.0, 12.0, 1201)]
    assert float(np.sum(loss.value(y, f + t[0, 0]))) <= min(values) + 1e-9
