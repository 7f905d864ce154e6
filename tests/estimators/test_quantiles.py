"""CompactSVR(loss="quantile", quantile=[...]): several levels on one basis, which never cross."""

import runpy
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kompakt
from kompakt import CompactSVR
from kompakt.export.c_file import find_compiler

LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]


def rows(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n_rows, 1))
    return X, np.sin(2 * X[:, 0]) + (0.05 + 0.2 * np.abs(X[:, 0])) * rng.normal(size=n_rows)


@pytest.fixture(scope="module")
def machine():
    settings = {"loss": "quantile", "quantile": LEVELS, "refine": False, "C": 10.0, "random_state": 0}
    return CompactSVR(12, **settings).fit(*rows(400))


def test_levels_are_met_and_do_not_cross(machine):
    X, y = rows(4000, 1)
    predicted = machine.predict(X)
    assert predicted.shape == (4000, 5)
    assert (np.diff(predicted, axis=1) >= 0).all()
    assert_allclose(np.mean(y[:, None] <= predicted, axis=0), LEVELS, atol=0.06)


def test_raw_outputs_do_cross_where_they_are_not_sorted(machine):
    far = np.linspace(-12, 12, 500)[:, None]
    assert (np.diff(machine.model_.outputs(far), axis=1) < 0).any()
    assert (np.diff(machine.predict(far), axis=1) >= 0).all()


def test_one_level_is_the_machine_of_that_level(machine):
    X, y = rows(400)
    alone = CompactSVR(12, loss="quantile", quantile=0.5, refine=False, C=10.0, random_state=0).fit(X, y)
    assert_allclose(machine.model_.outputs(X)[:, 2], alone.predict(X), atol=1e-5)


def test_files_and_exports_sort_too(tmp_path, machine):
    far = np.linspace(-12, 12, 300)[:, None]
    expected = machine.predict(far)
    kompakt.save(machine, tmp_path / "m.kompakt")
    assert_array_equal(kompakt.load(tmp_path / "m.kompakt").predict(far), expected)
    kompakt.to_numpy(machine, tmp_path / "m.py", check_rows=far)
    assert_allclose(runpy.run_path(tmp_path / "m.py")["predict"](far), expected, atol=1e-9)
    if find_compiler() is not None:
        kompakt.to_c(machine, tmp_path / "m.c", dtype="double", check_rows=far)
        command = [find_compiler(), "-std=c99", "-DM_MAIN", str(tmp_path / "m.c"), "-o", str(tmp_path / "m"), "-lm"]
        subprocess.run(command, check=True)
        lines = "\n".join(map(repr, far[:, 0].tolist())) + "\n"
        done = subprocess.run([str(tmp_path / "m")], input=lines, capture_output=True, text=True, check=True)
        assert_allclose(np.array(done.stdout.split(), dtype=float).reshape(300, 5), expected, atol=1e-9)
    onnxruntime = pytest.importorskip("onnxruntime")
    kompakt.to_onnx(machine, tmp_path / "m.onnx", check_rows=far)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    assert_allclose(session.run(["value"], {"X": far})[0], expected, atol=1e-9)


@pytest.mark.parametrize("levels", [[0.5, 0.2], [0.2, 0.2], [0.2, 1.0], [], "0.5", [[0.2, 0.5]]])
def test_levels_that_do_not_rise_are_refused(levels):
    with pytest.raises(ValueError, match="quantile must be"):
        CompactSVR(5, loss="quantile", quantile=levels).fit(*rows(50))


def test_several_targets_and_intervals_are_refused():
    X, y = rows(50)
    machine = CompactSVR(5, loss="quantile", quantile=[0.2, 0.8], refine=False)
    with pytest.raises(ValueError, match="several quantiles need one target"):
        machine.fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="several quantiles need one target, and no interval"):
        machine.set_params(interval=0.9).fit(X, y)
