"""Regression does not depend on where the targets lie: the intercept is free."""

import numpy as np
import pytest
from sklearn.base import clone

from kompakt import FEESVR, CompactSVR, FixedSizeLSSVR

LOSSES = ("absolute", "epsilon_insensitive", "huber", "quantile")
MACHINES = [
    CompactSVR(25, random_state=0),
    CompactSVR(25, refine=False, random_state=0),
    FEESVR(25, random_state=0),
    FixedSizeLSSVR(25, random_state=0),
    FixedSizeLSSVR(25, tune=True, random_state=0),
    *(CompactSVR(25, loss=loss, refine=False, random_state=0) for loss in LOSSES),
    *(FEESVR(25, loss=loss, random_state=0) for loss in LOSSES),
    *(FixedSizeLSSVR(25, loss=loss, random_state=0) for loss in LOSSES),
]


def waves(n=250, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 2))
    return X, np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("far", [1e3, 1e6])
@pytest.mark.parametrize("machine", MACHINES, ids=repr)
def test_targets_far_from_zero_are_fitted_as_well_as_near(machine, far):
    X, y = waves()
    X_new, y_new = waves(seed=1)
    near = clone(machine).fit(X, y).score(X_new, y_new)
    assert clone(machine).fit(X, far + y).score(X_new, far + y_new) > near - 0.01


@pytest.mark.parametrize("far", [1e5, 1e6])
def test_refinement_in_single_precision_sees_targets_far_from_zero(far):
    X, y = waves()
    machine = CompactSVR(25, C=1.0, random_state=0)
    near = clone(machine).fit(X.astype(np.float32), y)
    there = clone(machine).fit(X.astype(np.float32), far + y)
    assert there.objective_ == pytest.approx(near.objective_, rel=0.06)


def test_weight_two_is_the_row_twice_far_from_zero():
    X, y = waves(100)
    weight = np.random.default_rng(0).integers(0, 3, size=100)
    machine = FixedSizeLSSVR(15, random_state=3)
    weighted = clone(machine).fit(X, 1000.0 + y, sample_weight=weight)
    repeated = clone(machine).fit(np.repeat(X, weight, axis=0), np.repeat(1000.0 + y, weight))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_unit_of_targets_does_not_matter(loss):
    """C and epsilon that are not given come from the data, with the unit of the targets."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (400, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(400)
    found = [
        CompactSVR(20, loss=loss, quantile=0.3, refine=False, random_state=0).fit(X, unit * y).predict(X) / unit
        for unit in (1.0, 1e-3, 1e4)
    ]
    for other in found[1:]:  # of vectors that are equally good, rounding decides
        assert np.mean(np.abs(other - found[0])) < 0.03


@pytest.mark.parametrize("loss", ["absolute", "epsilon_insensitive", "huber"])
def test_outliers_do_not_choose_the_cost_of_a_robust_loss(loss):
    """A cost by squared errors would be small enough to ignore the outliers, and most of the rest."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (600, 2))
    clean = np.sin(3 * X[:, 0]) + X[:, 1]
    y = clean + 0.1 * rng.standard_normal(600)
    y[::40] += 300.0 * rng.standard_normal(15)
    y *= 100.0
    machine = CompactSVR(40, loss=loss, random_state=0).fit(X, y)
    assert np.median(np.abs(machine.predict(X) / 100.0 - clean)) < 0.06
