"""CompactSVR(interval=...): intervals that hold what they promise, in memory, files and exports."""

import runpy
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kompakt
from kompakt import CompactSVR, Refinement
from kompakt.export.c_file import find_compiler
from kompakt.kernels import RBF
from kompakt.model import Interval


def noisy(n_rows, seed=0, spread=0.4):
    """Rows whose noise grows with the second feature."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n_rows, 2))
    return X, np.sin(2 * X[:, 0]) + (0.1 + spread * np.abs(X[:, 1])) * rng.normal(size=n_rows)


def inside(machine, X, y):
    bounds = machine.predict_interval(X)
    return (bounds[..., 0] <= y) & (y <= bounds[..., 1])


@pytest.fixture(scope="module")
def machine():
    return CompactSVR(12, interval=0.9, refine=Refinement(10), random_state=0).fit(*noisy(1200))


def regressions():
    """Fifteen regressions, each a function of a number of rows and a seed."""

    def curve(noise, d=1):
        def make(n, seed):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(n, d))
            f = np.sin(2 * X[:, 0]) + X.sum(axis=1) / d
            drawn = {
                "normal": rng.normal(size=n), "heavy": rng.standard_t(3, n), "skewed": rng.exponential(size=n),
                "flat": rng.uniform(-1, 1, n), "growing": np.abs(X[:, 0]) * rng.normal(size=n),
            }  # fmt: skip
            return X, f + 0.3 * drawn[noise]

        return make

    makers = [curve(noise, d) for noise in ("normal", "heavy", "skewed", "flat", "growing") for d in (1, 4)]
    makers += [lambda n, seed: make_friedman1(n, noise=1.0, random_state=seed), noisy]
    makers += [
        lambda n, seed, make=make: make(n, noise=0.1, random_state=seed) for make in (make_friedman2, make_friedman3)
    ]
    return [*makers, lambda n, seed: noisy(n, seed, spread=0.0)]


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_share_inside_is_what_was_promised(level):
    n_rows, n_new, shares = 500, 4000, []
    fitted = make_pipeline(StandardScaler(), CompactSVR(12, interval=level, refine=False, random_state=0))
    for number, make in enumerate(regressions()):
        fitted.fit(*make(n_rows, number))
        X, y = make(n_new, 100 + number)
        shares.append(np.mean(inside(fitted[-1], fitted[0].transform(X), y)))
    error = np.sqrt(level * (1 - level) * (1 / n_rows + 1 / n_new))
    assert abs(np.mean(shares) - level) < 2 * error / np.sqrt(len(shares)) + 0.01  # folds have fewer rows: wider
    assert np.mean(np.abs(np.array(shares) - level) < 2 * error) >= 0.8


def test_refined_machines_hold_what_was_promised_or_more():
    shares = []
    for number, make in enumerate(regressions()[::3]):
        fitted = make_pipeline(StandardScaler(), CompactSVR(8, interval=0.9, refine=Refinement(8), random_state=0))
        fitted.fit(*make(300, number))
        X, y = make(4000, 100 + number)
        shares.append(np.mean(inside(fitted[-1], fitted[0].transform(X), y)))
    assert 0.88 < np.mean(shares) < 0.96  # machines of folds see fewer rows, and descend less far


def test_widths_follow_the_noise():
    X, y = noisy(4000, 5)
    machine = CompactSVR(30, gamma=0.5, interval=0.9, refine=False, random_state=0).fit(*noisy(1200))
    width = np.ptp(machine.predict_interval(X), axis=1)
    assert machine.model_.interval.weights is not None
    calm, loud = np.abs(X[:, 1]) < 0.7, np.abs(X[:, 1]) > 2.3
    assert np.mean(width[loud]) > 2.0 * np.mean(width[calm])
    covered = inside(machine, X, y)
    assert 0.8 < np.mean(covered[calm])
    assert 0.8 < np.mean(covered[loud])


def test_even_noise_keeps_one_width():
    machine = CompactSVR(60, interval=0.9, C=100.0, refine=False, random_state=0).fit(*noisy(600, spread=0.0))
    assert machine.model_.interval.weights is None
    assert_allclose(np.ptp(machine.predict_interval(noisy(50)[0]), axis=1), 2 * machine.model_.interval.reach[0])


def test_few_rows_have_intervals_from_folds():
    X, y = noisy(60)
    machine = CompactSVR(6, interval=0.8, random_state=0).fit(X, y)
    assert 0.6 < np.mean(inside(machine, *noisy(3000, 3))) < 0.97


def test_several_targets_have_an_interval_each():
    X, y = noisy(400)
    both = np.column_stack([y, 10 * y])
    machine = CompactSVR(8, interval=0.9, refine=False, random_state=0).fit(X, both)
    bounds = machine.predict_interval(X)
    assert bounds.shape == (400, 2, 2)
    assert_allclose(bounds.mean(axis=2), machine.predict(X))
    assert 5 < np.ptp(bounds[:, 1], axis=1).mean() / np.ptp(bounds[:, 0], axis=1).mean() < 20


def test_without_a_level_there_is_none():
    machine = CompactSVR(5, refine=False).fit(*noisy(100))
    with pytest.raises(AttributeError, match=r"pass interval=0\.9"):
        machine.predict_interval(noisy(3)[0])
    with pytest.raises(AttributeError, match="no intervals"):
        machine.model_.predict_interval(noisy(3)[0])
    with pytest.raises(ValueError, match="interval must be"):
        CompactSVR(interval=1.5).fit(*noisy(50))
    with pytest.raises(AttributeError, match="set interval=None"):
        CompactSVR(5, refine=False, interval=0.9).partial_fit(*noisy(50))


def test_predictions_are_those_without_intervals(machine):
    X = noisy(100, 2)[0]
    plain = clone(machine).set_params(interval=None).fit(*noisy(1200))
    assert_array_equal(plain.predict(X), machine.predict(X))


def test_a_file_keeps_them(tmp_path, machine):
    X = noisy(100, 2)[0]
    kompakt.save(machine, tmp_path / "m.kompakt")
    assert_array_equal(kompakt.load(tmp_path / "m.kompakt").predict_interval(X), machine.predict_interval(X))


@pytest.mark.parametrize("settings", [{}, {"kernel": 1.0 + 1.5 * RBF(0.5)}], ids=["rbf", "1 + 1.5 rbf"])
def test_exports_keep_them(tmp_path, settings):
    X, y = noisy(800)
    fitted = make_pipeline(StandardScaler(), CompactSVR(8, interval=0.9, refine=False, random_state=0, **settings))
    fitted.fit(X, y)
    expected = fitted[-1].predict_interval(fitted[0].transform(X))
    assert fitted[-1].model_.interval.weights is not None
    kompakt.to_numpy(fitted, tmp_path / "m.py", check_rows=X)
    assert_allclose(runpy.run_path(tmp_path / "m.py")["predict_interval"](X), expected, atol=1e-9)
    onnxruntime = pytest.importorskip("onnxruntime")
    kompakt.to_onnx(fitted, tmp_path / "m.onnx", check_rows=X)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    assert_allclose(np.column_stack(session.run(["lower", "upper"], {"X": X})), expected, atol=1e-9)
    if find_compiler() is None:
        pytest.skip("no C compiler")
    for dtype, tolerance in (("double", 1e-9), ("float", 1e-3)):
        kompakt.to_c(fitted, tmp_path / "m.c", dtype=dtype, check_rows=X)
        command = [find_compiler(), "-std=c99", "-DM_MAIN", str(tmp_path / "m.c"), "-o", str(tmp_path / "m"), "-lm"]
        subprocess.run(command, check=True)
        lines = "\n".join(" ".join(map(repr, row)) for row in X[:50].tolist()) + "\n"
        done = subprocess.run([str(tmp_path / "m")], input=lines, capture_output=True, text=True, check=True)
        assert_allclose(np.array(done.stdout.split(), dtype=float).reshape(50, 3)[:, 1:], expected[:50], atol=tolerance)
    with pytest.warns(UserWarning, match="intervals are not written"):
        kompakt.to_libsvm(kompakt.CompactSVR(5, refine=False, interval=0.9).fit(X, y), tmp_path / "m.model")


def test_a_compressed_machine_keeps_them(machine):
    X, y = noisy(3000, 4)
    smaller = kompakt.compress(machine, n_basis=10, storage="int8", X=noisy(1200)[0], random_state=0)
    assert smaller.n_basis_ == 10
    assert smaller.weights.shape[1] == 1
    assert abs(np.mean(inside(smaller, X, y)) - np.mean(inside(machine, X, y))) < 0.03


def test_streamed_rows_give_the_same(tmp_path, machine):
    X, y = noisy(1200)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    streamed = clone(machine).fit(kompakt.open_rows(tmp_path / "rows.npz"))
    assert_array_equal(streamed.predict_interval(X), machine.predict_interval(X))


def test_the_command_line_writes_them(tmp_path, capsys):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    from kompakt.cli import main

    X, y = load_diabetes(return_X_y=True)
    table = pd.DataFrame(X, columns=[f"x{k}" for k in range(10)]).assign(y=y)
    table.to_csv(tmp_path / "rows.csv", index=False)
    names = [str(tmp_path / name) for name in ("rows.csv", "m.kompakt", "p.csv")]
    assert main(["train", names[0], names[1], "--target", "y", "-n", "5", "--interval", "0.8"]) == 0
    assert main(["predict", names[0], names[1], names[2]]) == 0
    written = pd.read_csv(names[2])
    assert list(written.columns) == ["prediction", "lower", "upper"]
    assert (written["lower"] < written["prediction"]).all()
    assert (written["prediction"] < written["upper"]).all()
    assert main(["inspect", names[1]]) == 0
    assert "intervals       80 %" in capsys.readouterr().out
    assert main(["train", names[0], names[1], "--target", "y", "-s", "novelty", "--interval", "0.8"]) != 0


@pytest.mark.parametrize(
    "parts",
    [{"level": 1.0, "reach": np.ones(1)}, {"level": 0.9, "reach": -np.ones(1)},
     {"level": 0.9, "reach": np.ones(1), "weights": np.ones((2, 1))}, {"level": 0.9, "reach": np.array([np.nan])}],
)  # fmt: skip
def test_intervals_that_make_no_sense_are_refused(parts):
    with pytest.raises(ValueError, match="an interval has a level between 0 and 1"):
        Interval(**parts)
