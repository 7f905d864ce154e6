"""Losses: values written out, derivatives, kinks, words."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import d2_pinball_score, hinge_loss, mean_absolute_error, mean_pinball_loss

from kompakt.design import FeatureDesign
from kompakt.losses import (
    CLASS_LOSSES,
    REGRESSION_LOSSES,
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    HuberHinge,
    LeastSquares,
    PiecewiseLinear,
    Quantile,
    Rounded,
    SquaredHinge,
    make_loss,
    require_kind,
)
from kompakt.solve import Problem, solve

RNG = np.random.default_rng(0)
LABELS = RNG.choice([-1.0, 1.0], 300)
TARGETS = RNG.standard_normal(300)
F = 2.0 * RNG.standard_normal(300)
#: written from the definitions, without numpy's help
WRITTEN = {
    SquaredHinge(): lambda y, f: max(0.0, 1.0 - y * f) ** 2 / 2,
    Hinge(): lambda y, f: max(0.0, 1.0 - y * f),
    LeastSquares(): lambda y, f: (y - f) ** 2 / 2,
    Absolute(): lambda y, f: abs(y - f),
    EpsilonInsensitive(0.3): lambda y, f: max(0.0, abs(y - f) - 0.3),
    EpsilonInsensitive(0.0): lambda y, f: abs(y - f),
    Quantile(0.2): lambda y, f: 0.2 * (y - f) if y > f else 0.8 * (f - y),
    Huber(0.7): lambda y, f: (y - f) ** 2 / 2 if abs(y - f) < 0.7 else 0.7 * abs(y - f) - 0.245,
    HuberHinge(0.7): lambda y, f: (
        0.0 if y * f > 1 else (1 - y * f) ** 2 / 2 if y * f > 0.3 else 0.7 * (1 - y * f) - 0.245
    ),
}
LINEAR = [loss for loss in WRITTEN if isinstance(loss, PiecewiseLinear)]


def targets_of(loss):
    return LABELS if loss.for_classes and not loss.for_regression else TARGETS


@pytest.mark.parametrize("loss", WRITTEN, ids=repr)
def test_values_are_the_definitions(loss):
    y = targets_of(loss)
    expected = [WRITTEN[loss](a, b) for a, b in zip(y, F, strict=True)]
    np.testing.assert_allclose(loss.value(y, F), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("loss", WRITTEN, ids=repr)
def test_derivatives_against_differences(loss):
    y, h = targets_of(loss), 1e-6
    smooth = np.abs(loss.gradient(y, F + 2 * h) - loss.gradient(y, F - 2 * h)) < 1e-4
    assert smooth.mean() > 0.95
    numeric = (loss.value(y, F + h) - loss.value(y, F - h)) / (2 * h)
    np.testing.assert_allclose(loss.gradient(y, F)[smooth], numeric[smooth], atol=1e-8)
    second = (loss.gradient(y, F + h) - loss.gradient(y, F - h)) / (2 * h)
    even = smooth & (loss.curvature(y, F + 2 * h) == loss.curvature(y, F - 2 * h))
    np.testing.assert_allclose(loss.curvature(y, F)[even], second[even], atol=1e-8)


@pytest.mark.parametrize("width", [0.5, 0.01])
@pytest.mark.parametrize("loss", LINEAR, ids=repr)
def test_rounded_losses(loss, width):
    y, h = targets_of(loss), 1e-7
    round_one = Rounded(loss, width)
    gap = round_one.value(y, F) - loss.value(y, F)
    # the parabola lies above the kink by jump * width / 8 at most, and the constant is common to all rows
    constant = np.median(gap)
    assert np.all(gap - constant >= -1e-12)
    assert np.max(gap - constant) <= np.sum(np.diff(loss.slopes)) * width / 8 + 1e-12
    numeric = (round_one.value(y, F + h) - round_one.value(y, F - h)) / (2 * h)
    np.testing.assert_allclose(round_one.gradient(y, F), numeric, atol=1e-4)
    inside = round_one.curvature(y, F) > 0
    slopes = (round_one.gradient(y, F + h) - round_one.gradient(y, F - h)) / (2 * h)
    firm = inside & (round_one.curvature(y, F + 2 * h) == round_one.curvature(y, F - 2 * h))
    np.testing.assert_allclose(round_one.curvature(y, F)[firm], slopes[firm], rtol=1e-5)


@pytest.mark.parametrize("loss", [loss for loss in LINEAR if len(loss.kinks) == 1], ids=repr)
def test_following_keeps_multipliers(loss):
    """A row in the old window has, at the distance shrunk with the width, its old slope."""
    old, new = Rounded(loss, 1.0), Rounded(loss, 0.1, 1.0)
    r = loss.kinks[0] + np.linspace(-0.049, 0.049, 11)
    np.testing.assert_allclose(new.slope(r), old.slope(loss.kinks[0] + 10 * (r - loss.kinks[0])))


def test_one_width_per_output():
    y, f = TARGETS[:100].reshape(-1, 2), F[:100].reshape(-1, 2)
    both = Rounded(Absolute(), np.array([0.5, 0.02]))
    for output, width in enumerate((0.5, 0.02)):
        one = both.take_outputs(np.array([output]))
        np.testing.assert_array_equal(one.value(y[:, [output]], f[:, [output]])[:, 0], both.value(y, f)[:, output])
        np.testing.assert_array_equal(
            both.gradient(y, f)[:, output], Rounded(Absolute(), width).gradient(y, f)[:, output]
        )
    assert Hinge().take_outputs(np.array([1])) == Hinge()


@pytest.mark.parametrize("loss", [*WRITTEN, *(loss.rounded(0.3) for loss in LINEAR)], ids=repr)
def test_derivatives_as_sums_of_ramps(loss):
    form, y = loss.ramps(1), targets_of(getattr(loss, "loss", loss))
    if loss.piecewise_linear:
        assert form is None  # a jump is no ramp
        return
    r, orientation = (y - F, -1.0) if form.regression else (1.0 - y * F, -y)
    low, high, rate, anchor = form.ramps[0].T
    slope = form.base[0, 0] + np.sum(rate * (np.clip(r[:, None], low, high) - anchor), axis=1)
    np.testing.assert_allclose(orientation * slope, loss.gradient(y, F), atol=1e-12)


def test_every_loss_says_what_a_solver_may_count_on():
    assert all(loss.piecewise_quadratic != loss.piecewise_linear for loss in WRITTEN)
    assert [loss.name for loss in WRITTEN if loss.quadratic] == ["least_squares"]
    assert all(loss.rounded(0.5).piecewise_quadratic for loss in WRITTEN)
    with pytest.raises(ValueError, match=r"needs .* piecewise quadratic \(squared_hinge, least_squares, huber\)"):
        require_kind(Absolute(), "piecewise_quadratic", "growth")


@pytest.mark.parametrize("loss", [LeastSquares(), Absolute(), Huber(0.1), Quantile(0.8)], ids=repr)
def test_the_best_constant_has_the_lowest_held_out_error(loss):
    y = np.random.default_rng(0).exponential(size=(301, 2))
    best = loss.best_constant(y, np.ones(301))
    error = loss.held_out(y, best).sum(axis=0)
    for shift in (-0.05, 0.05):
        assert np.all(loss.held_out(y, best + shift).sum(axis=0) > error)


def test_a_loss_of_no_known_kind_is_refused():
    class Smooth(SquaredHinge):
        piecewise_quadratic = False

    design = FeatureDesign(np.ones((3, 1)), np.ones((3, 1)))
    with pytest.raises(ValueError, match="piecewise linear"):
        solve(Problem(design, Smooth(), 1.0))


def test_against_scikit_learn():
    assert np.mean(Hinge().value(LABELS, F)) == pytest.approx(hinge_loss(LABELS, F))
    assert np.mean(Absolute().value(TARGETS, F)) == pytest.approx(mean_absolute_error(TARGETS, F))
    assert np.mean(Quantile(0.3).value(TARGETS, F)) == pytest.approx(mean_pinball_loss(TARGETS, F, alpha=0.3))


def test_the_quantile_is_what_is_estimated():
    from kompakt import CompactSVR

    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (600, 1))
    y = np.sin(2 * X[:, 0]) + rng.exponential(1.0, 600)
    words = {"n_basis": 12, "loss": "quantile", "C": 10.0, "refine": False, "random_state": 0}
    for q in (0.1, 0.5, 0.9):
        machine = CompactSVR(quantile=q, **words).fit(X, y)
        below = np.mean(y < machine.predict(X))
        # a free intercept puts the share of rows below to q, up to the rows that lie on the curve
        assert abs(below - q) <= 14 / 600
        assert d2_pinball_score(y, machine.predict(X), alpha=q) > 0.05
        same = CompactSVR(**(words | {"loss": Quantile(q)})).fit(X, y)
        np.testing.assert_array_equal(machine.predict(X), same.predict(X))


def test_words():
    for classes, names in ((True, CLASS_LOSSES), (False, REGRESSION_LOSSES)):
        for name in names:
            loss = make_loss(name, classes=classes)
            assert loss.name == name
            assert loss.for_classes if classes else loss.for_regression
    assert make_loss("epsilon_insensitive", classes=False, epsilon=0.4) == EpsilonInsensitive(0.4)
    assert make_loss("quantile", classes=False, quantile=0.8) == Quantile(0.8)
    assert make_loss(Huber(2.0), classes=False) == Huber(2.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_loss("hinge", classes=False), "epsilon_insensitive.*got 'hinge'"),
        (lambda: make_loss(Hinge(), classes=False), "not for regression"),
        (lambda: make_loss(Absolute(), classes=True), "not for classification"),
        (lambda: make_loss(3, classes=True), "got 3"),
        (lambda: EpsilonInsensitive(-0.1), "epsilon must be .*>= 0; got -0.1"),
        (lambda: Huber(0.0), "epsilon must be .*> 0; got 0.0"),
        (lambda: HuberHinge(np.nan), "got nan"),
        (lambda: Quantile(1.0), "between 0 and 1"),
        (lambda: Quantile("0.5"), "got '0.5'"),
    ],
)
def test_messages(make, message):
    with pytest.raises(ValueError, match=message):
        make()
