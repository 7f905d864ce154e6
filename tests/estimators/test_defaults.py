"""Width and cost that are not given come from the data."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_moons

import kompakt as k

MACHINES = [
    k.SpSVC(20, random_state=0),
    k.FEESVC(20, random_state=0),
    k.FEESVR(20, random_state=0),
    k.FixedSizeLSSVC(20, random_state=0),
    k.FixedSizeLSSVR(20, random_state=0),
    k.ProjectedSVC(20, random_state=0),
    k.KernelFisher(random_state=0),
    k.ProjectedKernelFisher(20, random_state=0),
    k.LocalSamplingSVC(random_state=0),
    k.CGLQSVC(random_state=0),
]


@pytest.fixture(scope="module")
def rings():
    """Six narrow rings of two classes by turns: "scale" and C = 1 see nothing of them."""
    rng = np.random.default_rng(0)
    ring = rng.integers(6, size=1500)
    angle, radius = rng.uniform(0, 2 * np.pi, 1500), ring + 1 + 0.05 * rng.standard_normal(1500)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return (X - X.mean(axis=0)) / X.std(axis=0), ring % 2


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: type(machine).__name__)
def test_what_is_found_is_told_and_can_be_given(machine, rings):
    X, y = rings
    found = clone(machine).fit(X[:400], y[:400])
    given = {"gamma": found.gamma_} | ({"C": found.C_} if hasattr(machine, "C") else {})
    again = clone(machine).set_params(**given).fit(X[:400], y[:400])
    values = "decision_function" if is_classifier(machine) else "predict"
    np.testing.assert_allclose(getattr(found, values)(X), getattr(again, values)(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: type(machine).__name__)
def test_defaults_do_better_than_fixed_values(machine, rings):
    X, y = rings
    plain = {"gamma": "scale"} | ({"C": 1.0} if hasattr(machine, "C") else {})
    usual, found = (
        clone(machine).set_params(n_basis=100, **more).fit(X[:500], y[:500])
        if type(machine).__name__ not in ("KernelFisher", "LocalSamplingSVC", "CGLQSVC")
        else clone(machine).set_params(**more).fit(X[:500], y[:500])
        for more in (plain, {})
    )
    assert found.score(X[500:], y[500:]) > usual.score(X[500:], y[500:]) + 0.05


def test_given_values_are_held(rings):
    X, y = rings
    assert k.SpSVC(10, C=3.0, random_state=0).fit(X, y).C_ == 3.0
    assert k.SpSVC(10, gamma=0.3, random_state=0).fit(X, y).gamma_ == 0.3
    linear = k.SpSVC(10, kernel="linear", random_state=0).fit(X, y)
    assert linear.C_ > 0
    with pytest.raises(ValueError, match="C must be None or a positive"):
        k.SpSVC(C=-1.0).fit(X, y)


def test_weights_count_like_repetition_in_the_choice():
    X, y = make_moons(200, noise=0.3, random_state=0)
    counts = np.random.default_rng(0).integers(0, 4, 200)
    weighted = k.FixedSizeLSSVC(15, random_state=0).fit(X, y, sample_weight=counts)
    repeated = k.FixedSizeLSSVC(15, random_state=0).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert weighted.gamma_ == pytest.approx(repeated.gamma_)
    assert weighted.C_ == pytest.approx(repeated.C_)
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-6)


def test_a_search_compares_prototypes_and_the_machine_before_it(rings):
    X, y = (part[:300] for part in rings)
    lowest, errors = {}, {}
    for selection in ("auto", "gram", "random"):
        tuned = k.FixedSizeLSSVC(80, selection=selection, tune=True, cv=3, random_state=0).fit(X, y)
        results, errors[selection] = tuned.cv_results_, tuned.cv_error_
        lowest[selection] = {phase: results["objective"][results["phase"] == phase].min() for phase in results["phase"]}
    assert {"untuned", "gram", "renyi", "random"} <= set(lowest["auto"])
    assert "renyi" not in lowest["gram"]
    assert "gram" not in lowest["random"]
    assert min(lowest["auto"].values()) <= min(lowest["gram"].values()) <= lowest["gram"]["untuned"]
    assert errors["auto"] <= errors["gram"]


def test_a_wide_kernel_and_a_large_cost_leave_all_prototypes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3)).astype(np.float32)
    y = X @ np.array([1.0, -2.0, 0.5]) + 0.01 * rng.standard_normal(200)
    for dtype in (np.float32, np.float64):
        machine = k.FixedSizeLSSVR(60, C=1e8, gamma=1e-4, random_state=0).fit(X.astype(dtype), y)
        assert machine.n_basis_ == 60
        assert machine.score(X, y) > 0.999  # of float32 rows, whatever the rows of the fit


def test_targets_that_cannot_be_learned_leave_a_model():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((120, 3)), rng.integers(2, size=120)
    assert k.FixedSizeLSSVC(10, tune=True, cv=3, C=1e-6, random_state=0).fit(X, y).n_basis_ == 10
    assert k.FixedSizeLSSVR(10, C=1e-9, gamma=100.0, random_state=0).fit(X, np.zeros(120)).n_basis_ == 10
