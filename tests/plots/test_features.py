"""How a model sees its features: corners of the curves, and the artists."""

import dataclasses

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.bent import METRICS, data, fitted

import kompakt
from kompakt import CompactSVC
from kompakt.plots import FeatureCurvesDisplay
from kompakt.plots.features import feature_curves

matplotlib.use("Agg")
X, _ = data()


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("rows", [X, None], ids=["rows", "knots"])
def test_a_difference_on_a_curve_is_the_distance_in_the_kernel(metric, scaled, rows):
    model = kompakt.io.fitted.model_of(fitted(metric, scaled=scaled))
    curves = feature_curves(model, rows)
    at = X[17].copy()
    for feature, (x, y) in enumerate(curves):
        assert np.all(np.diff(x) > 0)
        between = np.sort(np.random.default_rng(feature).uniform(x[0], x[-1], 20))
        moved = np.tile(at, (20, 1))
        moved[:, feature] = between  # rows that differ in this feature alone
        seen = model._transformed(moved)
        roots = np.sqrt(model.kernel.gamma) if model.inputs.map is None else 1.0
        distances = np.linalg.norm((seen - seen[0]) * roots, axis=1)
        assert_allclose(np.abs(np.interp(between, x, y) - np.interp(between[0], x, y)), distances, atol=1e-9)


def test_features_that_do_not_bend_are_lines():
    machine = CompactSVC(5, gamma="ard", random_state=0).fit(*data("two classes"))
    for (x, y), width in zip(feature_curves(machine.model_, X), machine.gamma_, strict=True):
        assert len(x) == 2
        assert np.diff(y) == pytest.approx(np.sqrt(width) * np.diff(x))


def test_the_display_draws_the_features_that_differ_most():
    machine = fitted("map")
    display = FeatureCurvesDisplay.from_estimator(machine, X, max_features=3)
    extents = [np.ptp(y) for _, y in display.curves]
    assert extents == sorted(extents, reverse=True)
    assert len(display.axes_) == len(display.lines_) == 3
    assert display.axes_[0].get_ylabel() == "as the kernel sees it"
    two = FeatureCurvesDisplay.from_estimator(machine, features=[3, 0], axes=display.axes_[:2], color="red")
    assert two.names == ["feature 3", "feature 0"]
    assert two.lines_[0].get_color() == "red"
    assert_allclose(two.lines_[0].get_xdata(), two.curves[0][0])
    with pytest.raises(ValueError, match="one Axes for each of 2 features; got 1"):
        two.plot(display.axes_[:1])


def test_kernels_without_widths_are_refused():
    machine = CompactSVC(5, kernel="linear", refine=False, random_state=0).fit(*data("two classes"))
    with pytest.raises(ValueError, match="a linear kernel has no widths"):
        FeatureCurvesDisplay.from_estimator(machine, X)


def test_gaps_and_constant_columns_have_a_curve():
    model = fitted("map").model_
    model = dataclasses.replace(model, inputs=dataclasses.replace(model.inputs, fill=X.mean(axis=0)))
    rows = X.copy()
    rows[:5, 0], rows[:, 1], rows[:, 2] = np.nan, np.nan, 1.0
    for x, y in feature_curves(model, rows):
        assert len(x) >= 2
        assert np.isfinite([x, y]).all()
