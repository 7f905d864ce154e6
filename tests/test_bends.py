"""Features that bend after the training: inputs, models, and fits that go on from them."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from tests.bent import METRICS, bent_kernel, data, decisions, fitted

import kompakt
from kompakt import CompactSVC, CompactSVR, Model
from kompakt.data import ArrayRows
from kompakt.inputs import Inputs
from kompakt.kernels import RBF, BentRBF
from kompakt.methods.steps import bent_machine, trained_machine
from kompakt.piecewise import PiecewiseLinear


def kernel_outputs(machine, X):
    """What the training computed: the kernel of the fit at centred rows and vectors among bent features."""
    kernel, vectors, offset = trained_machine(machine.model_)
    return kernel.block(X - offset, vectors) @ machine.model_.weights + machine.model_.intercept


@pytest.mark.parametrize("metric", METRICS)
def test_a_model_answers_as_the_machine_that_was_trained(metric):
    X, _ = data()
    machine = fitted(metric)
    kernel, original = bent_kernel(metric), machine.model_
    rows = X - X.mean(axis=0)
    vectors = kernel.bent(rows[machine.basis_indices_])
    expected = kernel.block(rows, vectors) @ original.weights + original.intercept
    assert_allclose(original.outputs(X), expected, rtol=1e-9, atol=1e-9)
    assert_allclose(kernel_outputs(machine, X), expected, rtol=1e-9, atol=1e-9)
    assert_allclose(original.outputs(sparse.csr_matrix(X)), expected, rtol=1e-9, atol=1e-9)
    assert_allclose(original.outputs(X.astype(np.float32)), expected, atol=2e-5 * np.abs(expected).max())
    assert original.outputs(X[:1])[0] == pytest.approx(original.outputs(X)[0], rel=1e-14)
    assert "bends its features" in repr(original)
    assert_allclose(machine.basis_vectors_, X[machine.basis_indices_])


def test_shift_and_scale_come_before_the_bends_and_the_map_after():
    bends = PiecewiseLinear(np.array([[0.5], [np.inf]]), np.array([[2.0, -1.0], [3.0, 1.0]]))
    shift, scale, A = np.array([1.0, 2.0]), np.array([2.0, 0.5]), np.array([[1.0, 1.0]])
    rows = np.array([[3.0, 2.25], [1.0, 2.0]])
    assert_allclose(Inputs(shift=shift, scale=scale, bends=bends).transform(rows), [[0.5, 1.5], [0.0, 0.0]])
    assert_allclose(Inputs(shift=shift, scale=scale, bends=bends, map=A).transform(rows), [[2.0], [0.0]])
    both = Inputs(shift=np.array([0.5, 0.0]), bends=bends, map=A).after(Inputs(shift=shift, scale=scale))
    first = Inputs(shift=shift, scale=scale).transform(rows)
    assert_allclose(both.transform(rows), Inputs(shift=np.array([0.5, 0.0]), bends=bends, map=A).transform(first))


def test_a_pipeline_with_a_scaler_becomes_part_of_a_bent_model():
    X, _ = data()
    pipeline = fitted("map", scaled=True)
    model = kompakt.io.fitted.model_of(pipeline)
    assert_allclose(model.predict(X), pipeline.predict(X), rtol=1e-10, atol=1e-10)


def test_the_inverse_is_the_nearest_feature_value():
    rng = np.random.default_rng(0)
    X, _ = data()
    rows = X - X.mean(axis=0)
    identity = PiecewiseLinear.identity(rows)
    rising = identity.with_slopes(rng.uniform(0.2, 2.0, identity.slopes.shape))
    assert_allclose(rising.nearest(rising(rows)), rows, rtol=1e-9, atol=1e-9)
    turning = identity.with_slopes(rng.normal(0.0, 1.0, identity.slopes.shape))
    targets = 4 * rng.normal(size=(50, 4))
    nearest = turning.nearest(targets)
    for feature in range(4):  # against a fine grid
        grid = np.linspace(-60, 60, 20_001)
        bent = turning(np.tile(grid[:, None], (1, 4)))[:, feature]
        errors = np.abs(bent[:, None] - targets[:, feature])
        reached = np.abs(turning(nearest)[:, feature] - targets[:, feature])
        assert np.all(reached <= errors.min(axis=0) + 1e-9)
        as_good = np.where(errors <= reached + 1e-3, np.abs(grid)[:, None], np.inf).min(axis=0)
        assert np.all(np.abs(nearest[:, feature]) <= as_good + 0.1)
    flat = PiecewiseLinear(np.array([[-1.0, 1.0]]), np.array([[1.0, 0.0, 1.0]]))
    assert flat.nearest(np.array([[-1.0]])) == 0.0


def test_far_rows_are_answered_by_the_last_piece():
    bends = PiecewiseLinear(np.array([[1.0, np.inf], [np.inf, np.inf]]), np.array([[1.0, 0.0, 9.0], [0.0, 5.0, 9.0]]))
    X = np.array([[1e300, 1e300], [2.0, 3.0], [-1e300, 0.0]])
    for dtype in (np.float64, np.float32):
        rows = np.clip(X, -1e38, 1e38).astype(dtype) if dtype is np.float32 else X
        assert np.array_equal(bends(rows)[:2], [[1.0, 0.0], [1.0, 0.0]])
    fields = (RBF(1.0), np.array([[1.0, 0.0]]), np.ones((1, 1)), np.zeros(1), "regressor", 2)
    model = Model(*fields, inputs=Inputs(bends=bends))
    assert model.predict(X).tolist() == [1.0, 1.0, 0.0]
    steep = replace(model, inputs=Inputs(bends=bends.with_slopes(np.full((2, 3), 1e20))))
    assert steep.predict(X).tolist() == [0.0, 0.0, 0.0]


def test_bends_of_other_widths_or_with_a_centre_are_refused():
    bends = PiecewiseLinear(np.zeros((2, 1)), np.ones((2, 2)))
    fields = (RBF(1.0), np.ones((1, 3)), np.ones((1, 1)), np.zeros(1), "regressor", 3)
    with pytest.raises(ValueError, match="bends of the inputs must be those of 3 features"):
        Model(*fields, inputs=Inputs(bends=bends))
    three = PiecewiseLinear(np.zeros((3, 1)), np.ones((3, 2)))
    with pytest.raises(ValueError, match="a centre"):
        Model(*fields, inputs=Inputs(bends=three, centre=np.zeros(3)))


def test_a_transform_of_a_line_is_a_transform():
    rng = np.random.default_rng(2)
    bends, rows = bent_kernel().transform, rng.normal(size=(30, 4))
    factor, shift = rng.uniform(0.1, 3.0, 4), rng.normal(size=4)
    line, constant = bends.of_line(factor, shift)
    assert_allclose(line(rows) + constant, bends(factor * rows + shift), atol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_partial_fit_goes_on_from_a_bent_model(metric):
    X, y = data()
    machine = CompactSVR(
        8, kernel=bent_kernel(metric), selection="random", refine=False, random_state=0, C=0.03
    ).fit(X, y)
    before = machine.predict(X)
    machine.partial_fit(X[:90], y[:90]).partial_fit(X[90:], y[90:])  # least squares: the fit's own weights again
    assert_allclose(machine.predict(X), before, rtol=1e-6, atol=1e-6)
    assert machine.model_.inputs.bends is not None


def test_partial_fit_goes_on_from_standardised_streams():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)) * [1, 100, 1000] + [0, 5, 100]
    y = np.sin(X[:, 0]) + X[:, 1] / 100
    for kernel in ("rbf", bent_kernel_of(3)):
        machine = CompactSVR(20, kernel=kernel, gamma=0.3, C=10.0, selection="random", refine=False, random_state=0)
        machine.fit(kompakt.open_rows([(X[:250], y[:250]), (X[250:], y[250:])], scale=True))
        before = machine.predict(X)
        assert_allclose(machine.partial_fit(X, y).predict(X), before, rtol=1e-4, atol=1e-4)


def bent_kernel_of(d):
    rng = np.random.default_rng(5)
    return BentRBF(RBF(0.3), PiecewiseLinear(np.sort(rng.normal(size=(d, 3))), rng.normal(1.0, 0.3, (d, 4))))


@pytest.mark.parametrize("metric", METRICS)
def test_the_earlier_machine_in_the_coordinates_of_other_rows(metric):
    X, _ = data()
    machine = fitted(metric)
    moved = ArrayRows((X - 7.0) / 3.0, offset=np.array([1.0, 2.0, 3.0, 4.0]))
    moved.inputs = Inputs(shift=np.full(4, 7.0), scale=np.full(4, 3.0))
    for rows in (ArrayRows(X), ArrayRows(X, offset=X.mean(axis=0) + 1.0), moved):
        kernel, vectors = bent_machine(machine.model_, rows)
        block = rows.block(0, len(X)).X
        outputs = kernel.block(block, vectors) @ machine.model_.weights + machine.model_.intercept
        assert_allclose(outputs, machine.model_.outputs(X), rtol=1e-8, atol=1e-8)


def test_a_warm_start_keeps_the_bends_of_the_last_fit():
    X, y = data("two classes")
    machine = CompactSVC(
        8, kernel=bent_kernel(), selection="random", refine=False, random_state=0, warm_start=True
    ).fit(X, y)
    before = machine.decision_function(X)
    bends = machine.model_.inputs.bends
    machine.set_params(kernel="rbf", gamma=1.0).fit(X, y)  # the last fit's kernel, not these
    assert_allclose(machine.model_.inputs.bends.slopes, bends.slopes)
    assert_allclose(machine.decision_function(X), before, rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match="4 features; X has 3"):
        machine.fit(X[:, :3], y)


def test_importances_are_those_of_the_bent_features():
    X, _ = data()
    machine = fitted("map")
    kernel = machine.kernel_
    spread = np.sum(kernel.metric.map**2, axis=0) * kernel.bent(X - X.mean(axis=0)).var(axis=0)
    importances = kompakt.estimators.base.importances(
        machine.model_, kompakt.spec.Data(ArrayRows(X, offset=X.mean(axis=0))), kernel
    )
    assert_allclose(importances, spread / spread.sum(), rtol=1e-8)
    assert decisions(machine, X).shape == (200,)


@pytest.mark.parametrize("metric", METRICS)
def test_streams_and_dask_predict_alike(metric, tmp_path):
    da = pytest.importorskip("dask.array")
    X, _ = data("three classes")
    machine = fitted(metric, "three classes")
    np.save(tmp_path / "X.npy", X)
    streamed = list(machine.predict(kompakt.open_rows(tmp_path / "X.npy")))
    assert np.array_equal(streamed, machine.predict(X))
    lazy = machine.decision_function(da.from_array(X, chunks=(64, 4)))
    assert_allclose(lazy.compute(scheduler="synchronous"), machine.decision_function(X), rtol=1e-12, atol=1e-12)


def test_streamed_and_dask_rows_are_fitted_alike():
    dd = pytest.importorskip("dask.array")
    X, y = data()
    options = {"kernel": bent_kernel("map"), "selection": "random", "refine": False, "random_state": 0, "C": 0.03}
    expected = CompactSVR(8, **options).fit(X, y)
    for rows in (
        kompakt.open_rows([(X[:120], y[:120]), (X[120:], y[120:])]),
        kompakt.open_rows(dd.from_array(X, chunks=(50, 4)), target=y),
    ):
        machine = CompactSVR(8, **options).fit(rows)
        assert machine.model_.inputs.bends is not None
        assert_allclose(machine.predict(X), expected.predict(X), rtol=1e-6, atol=1e-6)


def test_a_model_is_pickled_and_counts_its_numbers():
    X, _ = data()
    model = fitted("low map").model_
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert model.n_numbers == 8 * 2 + 8 + 1 + 2 * 4 + (2 * 17 + 4)
