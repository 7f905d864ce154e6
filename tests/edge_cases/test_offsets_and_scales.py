"""Machines see neither a common offset of the inputs nor (with gamma="scale") their unit, as far as rounding allows."""

from __future__ import annotations

import numpy as np
import pytest

from kompakt import CompactSVC, CompactSVR

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
