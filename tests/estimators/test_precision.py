"""Rows in float32 and float64 give the same choices, and nearly the same machine."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import kompakt as k
from kompakt.data import ArrayRows
from kompakt.data.rows import computing_dtype
from kompakt.estimators.selectors import SELECTORS, make_selector
from kompakt.kernels import RBF
from kompakt.losses import SquaredHinge
from kompakt.run import Run
from kompakt.spec import Data, Spec

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 4)) + [0.0, 5.0, -30.0, 0.5]  # more digits than float32 has
Y = np.sign(X[:, 0] * (X[:, 1] - 5.0) + 0.3 * RNG.standard_normal(400))
VALUES = np.sin(X[:, 0]) + X[:, 3]


@pytest.mark.parametrize("name", sorted(SELECTORS))
def test_selectors_choose_the_same_rows(name):
    chosen, spec = [], Spec(RBF(0.2), SquaredHinge(), 10.0, n_classes=2)
    for dtype in (np.float32, np.float64):
        typed = X.astype(dtype)
        rows = ArrayRows(typed, Y[:, None], offset=X.mean(axis=0), dtype=computing_dtype(typed.dtype, len(X)))
        data = Data(rows, classes=np.array([-1.0, 1.0]), labels=(Y > 0).astype(np.intp))
        chosen.append(make_selector(name).select(data, spec, 30, Run(key=4)))
    assert chosen[0].n_basis == (400 if name == "all" else 30)
    np.testing.assert_array_equal(chosen[0].indices, chosen[1].indices)


MACHINES = {
    "CompactSVC": k.CompactSVC(30, refine=False),
    "CompactSVR": k.CompactSVR(30, refine=False),
    "SpSVC": k.SpSVC(20),
    "FEESVC": k.FEESVC(20),
    "FEESVR": k.FEESVR(20),
    "FixedSizeLSSVC": k.FixedSizeLSSVC(30, tune=True),
    "FixedSizeLSSVR": k.FixedSizeLSSVR(30, tune=True),
    "ProjectedSVC": k.ProjectedSVC(30),
    "ProjectedKernelFisher": k.ProjectedKernelFisher(30),
    "LocalSamplingSVC": k.LocalSamplingSVC(),
    "CGLQSVC": k.CGLQSVC(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MACHINES)
def test_estimators_are_the_same_in_both_types(name):
    y = VALUES if name.endswith("SVR") else Y
    single, double = (
        clone(MACHINES[name]).set_params(random_state=0).fit(X.astype(dtype), y) for dtype in (np.float32, np.float64)
    )
    np.testing.assert_array_equal(getattr(single, "basis_indices_", None), getattr(double, "basis_indices_", None))
    answers, expected = single.predict(X.astype(np.float32)), double.predict(X)
    if name.endswith("SVR"):
        np.testing.assert_allclose(answers, expected, atol=1e-3 * np.ptp(VALUES))
    else:
        assert np.mean(answers != expected) <= 0.005


def test_large_weights_are_evaluated_in_float64():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((300, 4))
    values = rows @ [1.0, -1.0, 2.0, 0.5] + 0.1 * np.sin(rows[:, 0])
    machine = k.FixedSizeLSSVR(80, selection="random", gamma=1e-4, C=1e8, random_state=0).fit(rows, values)
    assert machine.model_.needs_float64
    difference = machine.predict(rows.astype(np.float32)) - machine.predict(rows)
    assert np.max(np.abs(difference)) < 1e-3 * np.ptp(values)
    assert not k.CompactSVR(20, random_state=0).fit(rows, values).model_.needs_float64
