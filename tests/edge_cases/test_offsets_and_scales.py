"""Machines see neither a common offset of the inputs nor (with gamma="scale") their unit, as far as rounding allows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kompakt import CGLQSVC, CompactSVC, CompactSVR, LocalSamplingSVC, compress

RNG = np.random.default_rng(0)
X = np.round(64 * RNG.standard_normal((80, 3))) / 64  # so that adding 1e10 loses no bit
Y = X[:, 0] * X[:, 1] > 0
T = np.sin(X[:, 0])
WORDS = {"n_basis": 15, "selection": "all", "refine": False, "random_state": 0, "C": 3.0}
MACHINES = {
    "squared hinge": (CompactSVC(**WORDS), Y),
    "hinge": (CompactSVC(loss="hinge", **WORDS), Y),
    "hinge, laplacian": (CompactSVC(loss="hinge", kernel="laplacian", **WORDS), Y),
    "least squares": (CompactSVR(**WORDS), T),
    "epsilon-insensitive": (CompactSVR(loss="epsilon_insensitive", **WORDS), T),
}


def outputs(machine, rows, y):
    machine = machine.fit(rows, y)
    assert machine.converged_
    return machine.model_.outputs(rows)[:, 0]


@pytest.mark.parametrize("offset", [1e3, 2.0**33, -(2.0**36), 1e10])
@pytest.mark.parametrize("name", MACHINES)
def test_offsets(name, offset):
    machine, y = MACHINES[name]
    moved = X + offset
    np.testing.assert_array_equal(moved - offset, X)
    np.testing.assert_allclose(outputs(machine, moved, y), outputs(machine, X, y), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("power", [-450, -20, 20, 450], ids=lambda p: f"1e{round(p * np.log10(2))}")
@pytest.mark.parametrize("name", [name for name in MACHINES if "laplacian" not in name])
def test_scales(name, power):
    machine, y = MACHINES[name]
    np.testing.assert_allclose(outputs(machine, X * 2.0**power, y), outputs(machine, X, y), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-155, 1e155])
def test_scales_that_cannot_be_squared_are_named(scale):
    with pytest.raises(ValueError, match=r"too (large|small).*expected between.*StandardScaler"):
        CompactSVC(**WORDS).fit(X * scale, Y)


@pytest.mark.parametrize("loss", ["least_squares", "huber", "absolute", "epsilon_insensitive", "quantile"])
def test_targets_far_from_zero(loss):
    """A free intercept takes up any offset of the targets."""
    machine = CompactSVR(loss=loss, **WORDS)
    near, far = outputs(machine, X, T), outputs(machine, X, T + 1e8)
    np.testing.assert_allclose(far - 1e8, near, atol=2e-6)


# -- machines on reduced training sets, whose exact SVM is scikit-learn's ---------------------------------------


def moved(offset, dtype, n_features):
    """Rows on a grid that float32 holds at an offset of 1e4, so that moving them changes nothing but the offset."""
    rng = np.random.default_rng(1)
    rows = np.round(64 * rng.standard_normal((1500, n_features))) / 64
    rows[:, 2:] /= 16  # two features decide
    y = rows[:, 0] * rows[:, 1] > 0
    return (rows + offset).astype(dtype), y


REDUCED = {
    "LocalSamplingSVC": LocalSamplingSVC(C=1.0, gamma=0.5, random_state=0),
    "CGLQSVC": CGLQSVC(C=1.0, gamma=0.5, random_state=0),
    "LocalSamplingSVC, own SVM": LocalSamplingSVC(estimator=SVC(gamma=0.5), random_state=0),
    "CGLQSVC, pipeline": CGLQSVC(
        estimator=make_pipeline(StandardScaler(with_std=False), SVC(gamma=0.5)), random_state=0
    ),
    "CGLQSVC, compact": CGLQSVC(C=1.0, gamma=0.5, n_basis=20, random_state=0),
}


@pytest.mark.parametrize("n_features", [2, 20], ids=["trees", "brute force"])
@pytest.mark.parametrize(("offset", "dtype"), [(1e4, np.float32), (2.0**30, np.float64)])
@pytest.mark.parametrize("name", REDUCED)
def test_offsets_of_reduced_machines(name, offset, dtype, n_features):
    near, y = moved(0.0, dtype, n_features)
    far, _ = moved(offset, dtype, n_features)
    machine = clone(REDUCED[name])
    here = clone(machine).fit(near[:1000], y[:1000])
    there = machine.fit(far[:1000], y[:1000])
    expected = here.score(near[1000:], y[1000:])
    assert expected > 0.9
    assert abs(there.score(far[1000:], y[1000:]) - expected) < 0.03
    assert np.isin(there.support_, here.support_).mean() > 0.9
    # the exact SVM itself takes rows as they are
    agreement = np.mean(there.estimator_.predict(far[1000:]) == there.predict(far[1000:]))
    assert agreement > 0.98


def test_an_offset_of_an_svm_to_compress():
    rows, y = moved(1e4, np.float32, 2)
    fitted = SVC(gamma=0.5).fit(rows, y)
    for given in (None, rows):
        smaller = compress(fitted, n_basis=40, X=given, random_state=0)
        assert np.mean(smaller.predict(rows) == fitted.predict(rows)) > 0.97
