"""A learned linear map of the inputs: gamma="full", what the default chooses, and every way out of a fit."""

from __future__ import annotations

import runpy

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.estimators.excuses import excuses_of

import kompakt
from kompakt import CompactSVC, CompactSVR, FixedSizeLSSVR, Model, Refinement, SpSVC
from kompakt.basis.build import Plan, arms_of, build
from kompakt.basis.random import RandomSelector
from kompakt.data import ArrayRows
from kompakt.inputs import Inputs
from kompakt.io import ModelFileError
from kompakt.io.container import UnsupportedModelError
from kompakt.kernels import RBF, MappedRBF
from kompakt.run import Run
from kompakt.spec import Data, Spec


def oblique(n, seed=0, dtype=np.float64):
    """Rows whose target depends on one direction that no axis shows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6))
    direction = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0]) / np.sqrt(6)
    return (X + [0.3, 0, 0, -0.2, 1, 0]).astype(dtype), np.sin(3.0 * (X @ direction)) + 0.1 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def rows():
    return oblique(700)


@pytest.fixture(scope="module")
def machine(rows):
    X, y = rows
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.4, 0.4])]
    return CompactSVC(12, gamma="full", C=10.0, random_state=0).fit(X, labels)


def test_a_map_finds_an_oblique_direction(rows):
    X, y = rows
    Xt, yt = oblique(1000, seed=1)
    scores = {
        gamma: CompactSVR(12, C=100.0, gamma=gamma, random_state=0).fit(X, y).score(Xt, yt)
        for gamma in ("ard", "full", None)
    }
    assert scores["full"] > 0.9 > scores["ard"] + 0.1
    assert scores[None] > 0.9
    chosen = CompactSVR(12, C=100.0, random_state=0).fit(X, y)
    assert chosen.refinement_["arm"].startswith("map")
    assert chosen.model_.inputs.map is not None


def test_fitted_attributes_make_up_the_decision(rows, machine):
    X, _ = rows
    assert machine.kernel_.map.shape == (6, 6)
    np.testing.assert_allclose(machine.gamma_, np.diag(machine.kernel_.map.T @ machine.kernel_.map))
    assert machine.basis_vectors_.shape == (12, 6)
    values = machine.kernel_.block(X, machine.basis_vectors_) @ machine.dual_coef_.T + machine.intercept_
    np.testing.assert_allclose(values, machine.decision_function(X), atol=1e-9)
    model = machine.model_
    assert model.inputs.map.shape == (6, 6)
    assert model.basis.shape == (12, 6)
    np.testing.assert_allclose(
        machine.kernel_.block(X, model.basis_vectors_), machine.kernel_.block(X, machine.basis_vectors_), atol=1e-8
    )
    assert "maps its inputs to 6" in repr(model)


def test_sparse_and_single_precision_rows(rows):
    X, y = rows
    near = X - [0.3, 0, 0, -0.2, 1, 0]
    dense = CompactSVR(8, gamma="full", refine=Refinement(15), random_state=0).fit(near, y)
    csr = clone(dense).fit(sparse.csr_matrix(near), y)
    np.testing.assert_allclose(csr.predict(sparse.csr_matrix(near)), csr.predict(near), atol=1e-9)
    assert csr.score(near, y) == pytest.approx(dense.score(near, y), abs=0.05)
    single = clone(dense).fit(X.astype(np.float32), y)
    assert single.basis_vectors_.dtype == single.model_.basis.dtype == np.float32
    assert single.score(X, y) == pytest.approx(dense.score(near, y), abs=0.05)


def test_saved_and_read_back(rows, machine, tmp_path):
    X, _ = rows
    kompakt.save(machine, tmp_path / "a.kompakt")
    model = kompakt.load(tmp_path / "a.kompakt")
    np.testing.assert_array_equal(model.inputs.map, machine.model_.inputs.map)
    np.testing.assert_allclose(model.decision_function(X), machine.decision_function(X), rtol=0, atol=1e-12)
    scaled = make_pipeline(StandardScaler(), clone(machine)).fit(X, machine.predict(X))
    kompakt.save(scaled, tmp_path / "b.kompakt")
    both = kompakt.load(tmp_path / "b.kompakt")
    np.testing.assert_allclose(both.decision_function(X), scaled.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("damage", ["rows", "columns", "whole numbers", "infinite"])
def test_a_damaged_map_is_refused(machine, damage):
    from kompakt.io import schema

    header, arrays = schema.encode(machine.model_)
    A = arrays["input_map"].copy()
    A[0, 0] = np.inf if damage == "infinite" else 0.0
    if damage != "infinite":
        A = {"rows": A[:-1], "columns": A[:, :-1], "whole numbers": A.astype(np.int64)}[damage]
    arrays["input_map"] = A
    with pytest.raises(ModelFileError, match=r"input_map|map of the inputs"):
        schema.decode(header, arrays)


def test_a_map_of_the_wrong_shape_is_no_model():
    parts = {"weights": np.ones((2, 1)), "intercept": np.zeros(1), "kind": "regressor", "n_features": 3}
    Model(RBF(1.0), np.zeros((2, 1)), inputs=Inputs(map=np.ones((1, 3))), **parts)
    with pytest.raises(ValueError, match=r"map of the inputs must have shape \(2, 3\)"):
        Model(RBF(1.0), np.zeros((2, 2)), inputs=Inputs(map=np.ones((1, 3))), **parts)
    with pytest.raises(ValueError, match="without centre"):
        Model(RBF(1.0), np.zeros((2, 1)), inputs=Inputs(map=np.ones((1, 3)), centre=np.zeros(3)), **parts)
    for wrong in ([1.0, 2.0], [[np.nan]], np.empty((0, 3))):
        with pytest.raises(ValueError, match="map must be a matrix of finite numbers"):
            MappedRBF(wrong)


def test_exports_answer_as_the_machine(rows, machine, tmp_path):
    X, _ = rows
    kompakt.to_numpy(machine, tmp_path / "a.py", check_rows=X)
    names = runpy.run_path(str(tmp_path / "a.py"))
    np.testing.assert_allclose(names["decision_function"](X), machine.decision_function(X), atol=1e-9)
    with pytest.raises(ValueError, match=r"\(n, 6\)"):
        names["predict"](X[:, :5])
    with pytest.raises(UnsupportedModelError, match="linear map"):
        kompakt.to_libsvm(machine, tmp_path / "a.model")


@pytest.mark.parametrize("dtype", ["double", "float", "int8"])
def test_c_program(rows, machine, tmp_path, dtype):
    from kompakt.export.c_file import find_compiler

    if find_compiler() is None:
        pytest.skip("no C compiler")
    report = kompakt.to_c(machine, tmp_path / "a.c", check_rows=rows[0][:100], dtype=dtype)
    assert report.n_rows == 100
    assert report.label_agreement > 0.95


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_onnx(rows, machine, tmp_path, dtype):
    pytest.importorskip("onnxruntime")
    report = kompakt.to_onnx(machine, tmp_path / "a.onnx", check_rows=rows[0], dtype=dtype)
    assert report.label_agreement > 0.99


def test_compressed(rows, machine):
    X, _ = rows
    for given in (X, None):
        smaller = kompakt.compress(machine, n_basis=9, X=given, random_state=0)
        assert smaller.n_basis_ == 9
        assert np.mean(smaller.predict(X) == machine.predict(X)) > 0.8


def test_dask_and_files_as_memory(rows, tmp_path):
    X, y = rows
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    machine = CompactSVR(6, gamma="full", refine=Refinement(10), random_state=0)
    here = clone(machine).fit(X, y)
    there = clone(machine).fit(kompakt.open_rows(tmp_path / "X.npy", target=tmp_path / "y.npy"))
    np.testing.assert_allclose(there.kernel_.map, here.kernel_.map, rtol=1e-9)
    np.testing.assert_allclose(there.predict(X), here.predict(X), atol=1e-9)
    da = pytest.importorskip("dask.array")
    lazy = clone(machine).fit(da.from_array(X, chunks=(200, 6)), da.from_array(y, chunks=200))
    np.testing.assert_allclose(lazy.predict(X), here.predict(X), atol=1e-6)
    np.testing.assert_allclose(here.predict(da.from_array(X, chunks=(200, 6))).compute(), here.predict(X), atol=1e-12)


def test_other_estimators_learn_it_too(rows):
    X, y = rows
    for machine, target in (
        (SpSVC(8, gamma="full", refine=Refinement(20), random_state=0), y > 0),
        (FixedSizeLSSVR(12, gamma="full", refine=Refinement(40), random_state=0), y),
    ):
        machine.fit(X, target)
        assert machine.kernel_.name == "mapped_rbf"
        plain = clone(machine).set_params(gamma="scale", refine=False).fit(X, target)
        assert machine.score(X, target) > plain.score(X, target)


def test_it_needs_refinement_and_a_gaussian_kernel(rows):
    X, y = rows
    with pytest.raises(ValueError, match="needs refine=True"):
        CompactSVR(5, gamma="full", refine=False).fit(X, y)
    with pytest.raises(ValueError, match="linear map"):
        CompactSVR(5, gamma="full", kernel="laplacian").fit(X, y)


@pytest.mark.parametrize("rank", [1, 2, 6, 9])
def test_rank_of_the_map(rows, rank):
    X, y = rows
    centred = X - X.mean(axis=0)
    data = Data(ArrayRows(centred, y[:, None]))
    plan = Plan(RandomSelector(), learn="full", rank=rank, refine=Refinement(30))
    machine = build(data, Spec(RBF(1 / 6), kompakt.losses.LeastSquares(), 10.0), 10, plan, Run())
    assert machine.spec.kernel.map.shape == (min(rank, 6), 6)


@pytest.mark.parametrize("n", [90, 700])  # no rows held out, and folds
def test_rank_by_the_spectrum(n):
    X, y = oblique(n)
    Xt, yt = oblique(1000, seed=1)
    full, auto = (
        CompactSVR(12, C=100.0, gamma="full", refine=Refinement(rank=rank), random_state=0).fit(X, y)
        for rank in (None, "auto")
    )
    rank = len(auto.model_.inputs.map)
    assert rank < 6 == len(full.model_.inputs.map)
    assert auto.model_.basis.shape == (12, rank)
    sparse_rows = CompactSVR(12, C=100.0, gamma="full", refine=Refinement(rank="auto"), random_state=0)
    assert len(sparse_rows.fit(sparse.csr_matrix(X), y).model_.inputs.map) <= 6
    assert auto.score(Xt, yt) > full.score(Xt, yt) - 0.02
    widths = CompactSVR(12, gamma="ard", refine=Refinement(5, rank="auto"), random_state=0).fit(X, y)
    assert widths.kernel_.name == "rbf"  # there is no map whose rank could be less
    with pytest.raises(ValueError, match="rank must be None, 'auto' or a whole number"):
        Refinement(rank="few")


def test_a_checkpoint_of_a_mapped_fit(rows, tmp_path, monkeypatch):
    from kompakt.basis.refine import RefinementObjective

    X, y = rows
    machine = CompactSVR(5, gamma="full", refine=Refinement(6), random_state=0)
    whole = clone(machine).fit(X, y)
    real, count = RefinementObjective.value_and_gradient, [0]

    class Killed(BaseException):
        pass

    def killed(self, kernel, Z):
        count[0] += 1
        if count[0] == 12:
            raise Killed
        return real(self, kernel, Z)

    with monkeypatch.context() as patch:
        patch.setattr(RefinementObjective, "value_and_gradient", killed)
        with pytest.raises(Killed):
            clone(machine).fit(X, y, checkpoint=tmp_path / "fit.checkpoint")
    resumed = clone(machine).fit(X, y, checkpoint=tmp_path / "fit.checkpoint")
    np.testing.assert_array_equal(resumed.kernel_.map, whole.kernel_.map)
    np.testing.assert_array_equal(resumed.dual_coef_, whole.dual_coef_)


@parametrize_with_checks(
    [CompactSVC(5, gamma="full", refine=Refinement(5)), CompactSVR(5, gamma="full", refine=Refinement(5))],
    expected_failed_checks=excuses_of,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimator_checks(estimator, check):
    check(estimator)


# -- how far refinement goes ---------------------------------------------------------------------------


def test_noise_is_not_descended_into():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 5)), rng.integers(0, 2, 300)
    machine = CompactSVC(10, C=100.0, random_state=0).fit(X, y)
    curve = machine.refinement_["validation_curve"]
    assert machine.refinement_["validation"] == min(curve) <= machine.refinement_["validation_before"] == curve[0]
    blind = clone(machine).set_params(validation_fraction=0.0).fit(X, y)
    assert blind.objective_ < machine.objective_
    assert machine.refinement_.get("n_iter", 0) < 30


@pytest.mark.parametrize("n", [150, 900, 3500])  # five folds, three folds, one held-out part
def test_the_best_point_of_the_way_is_taken(n):
    X, y = oblique(n)
    machine = CompactSVR(8, gamma="ard", C=10.0, refine=Refinement(25), random_state=0).fit(X, y)
    found = machine.refinement_
    assert found["kept"]
    assert found["validation"] == min(found["validation_curve"]) < found["validation_before"]
    assert len(found["validation_curve"]) <= 26
    assert np.array_equal(clone(machine).fit(X, y).predict(X), machine.predict(X))


def test_calibration_sees_outputs_of_rows_held_out_by_every_fold(rows):
    X, y = rows
    machine = CompactSVC(8, calibrate=True, refine=Refinement(10), random_state=0).fit(X, y > 0)
    assert machine.predict_proba(X).shape == (700, 2)


def test_time_is_kept(rows):
    import time

    X, y = rows
    began = time.monotonic()
    with pytest.warns(Warning, match="cut short"):
        CompactSVR(40, max_time=0.05, random_state=0).fit(X, y)
    assert time.monotonic() - began < 20.0


def test_arms_are_what_the_user_left_open():
    def arms(n_features, **plan):
        rows = ArrayRows(np.zeros((9, n_features), dtype=np.float32), np.zeros((9, 1)))
        return [arm.learned + "!" * arm.leading for arm in arms_of(rows, [Spec(RBF(1.0))], Plan(**plan))]

    every = ["widths", "widths and transform", "map", "map and transform"]
    assert arms(10, learn="grow") == every
    assert arms(10, learn="grow", bends=False) == ["widths", "map"]
    assert arms(10, learn="grow", bends=True) == ["widths and transform", "map and transform"]
    assert arms(5000, learn="grow") == ["widths", "widths and transform", "map!"]
    assert arms(5000, learn="grow", rank=20) == every
    assert arms(10, learn="each") == ["widths"]
    assert arms(10, learn="full", bends=True) == ["map and transform"]
    assert arms(10) == ["vectors"]
