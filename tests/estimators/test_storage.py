"""`compress(storage=...)`: vectors and weights of 8 or 16 bits, in the model, in files and in exports."""

import runpy
import struct

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_digits
from sklearn.svm import SVC, OneClassSVM
from tests.io.test_files import entry, rewrite

import kompakt
from kompakt import CompactSVC, CompactSVR, Refinement, compress
from kompakt.basis import matching
from kompakt.cli.main import main
from kompakt.export.c_file import find_compiler
from kompakt.inputs import Inputs
from kompakt.io import ModelFileError, read_header

DIGITS = load_digits(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)
#: how machines of every kind of metric are fitted
FITS = {
    "one width": lambda X, y: CompactSVC(15, gamma="learn", random_state=0).fit(X, y),
    "width per feature": lambda X, y: CompactSVC(15, gamma="ard", random_state=0).fit(X, y),
    "map": lambda X, y: CompactSVC(15, gamma="full", refine=Refinement(40, rank=6), random_state=0).fit(X, y),
    "polynomial": lambda X, y: CompactSVC(15, kernel="poly", degree=2, refine=False, random_state=0).fit(X, y),
    "exact": lambda X, y: SVC().fit(X, y),
    "outliers": lambda X, y: OneClassSVM(nu=0.1).fit(X),
}


@pytest.fixture(scope="module")
def digits():
    """Three classes of eight features far from the origin: (X, y, X to test, y to test)."""
    X, y = DIGITS
    kept = y < 3
    X, y = X[kept][:, [10, 18, 20, 26, 28, 34, 36, 42]] + 30.0, y[kept]
    return X[:300], y[:300], X[300:], y[300:]


@pytest.fixture(scope="module")
def machines(digits):
    return {name: fit(*digits[:2]) for name, fit in FITS.items()}


def decided(model, X):
    return model.decision_function(X)


@pytest.mark.parametrize("dtype", ["int8", "float16"])
@pytest.mark.parametrize("name", FITS)
def test_a_rounded_model_decides_alike_and_survives_its_file_to_the_bit(machines, digits, name, dtype, tmp_path):
    X, _, X_test, _ = digits
    model = compress(machines[name], storage=dtype, X=X, random_state=0)
    assert model.storage.dtype == dtype
    alike = np.mean(model.predict(X_test) == machines[name].predict(X_test))
    assert alike >= 0.97
    kompakt.save(model, tmp_path / "rounded.kompakt")
    loaded = kompakt.load(tmp_path / "rounded.kompakt")
    for rows in (X_test, X_test.astype(np.float32)):
        assert np.array_equal(decided(loaded, rows), decided(model, rows))
    arrays = read_header(tmp_path / "rounded.kompakt")["arrays"]
    assert arrays["basis"] == (dtype, model.basis.shape)
    assert arrays["weights"] == (dtype, model.weights.shape)
    assert loaded.basis.dtype == np.float32
    if model.inputs.map is not None:
        assert arrays["input_map"] == ("int8" if dtype == "int8" else "int16", model.inputs.map.shape)
        assert np.array_equal(loaded.inputs.map, model.inputs.map)


def test_weights_found_again_are_better_than_rounding_alone(machines, digits, monkeypatch):
    """Measured by the outputs of rows that were not matched."""
    X, _, X_test, _ = digits
    for name in ("one width", "width per feature", "map"):
        exact = machines[name].model_
        outputs = exact.outputs(X_test)
        model = compress(exact, storage="int8", X=X, random_state=0)
        ours = np.linalg.norm(model.outputs(X_test) - outputs)

        def at_once(H, weights, intercept, dtype, bits, own=exact):
            steps = np.abs(own.weights).max(axis=0) / 127
            return steps, np.rint(own.weights / steps) * steps, own.intercept

        with monkeypatch.context() as patch:
            patch.setattr(matching, "rounded_weights", at_once)
            rounded = compress(exact, storage="int8", X=X, random_state=0)
        assert np.array_equal(rounded.basis, model.basis)
        assert ours <= np.linalg.norm(rounded.outputs(X_test) - outputs)


def test_cancelling_weights_are_rounded_with_care():
    """Overlapping vectors have large weights of opposite signs, which 8 bits alone could not hold."""
    x, centres = np.linspace(0, 6, 300), np.linspace(0, 6, 10)
    P = np.column_stack([np.exp(-0.5 * (x[:, None] - centres) ** 2), np.ones(300)])
    H = P.T @ P + 1e-6 * np.eye(11)
    theta = np.linalg.solve(H, P.T @ np.sin(2 * x))[:, None]
    steps, rounded, intercept = matching.rounded_weights(H, theta[:-1], theta[-1], "int8")
    levels = rounded / steps
    assert np.allclose(levels, np.rint(levels), atol=1e-9)
    assert np.abs(levels).max() <= 127 + 1e-9
    step = np.abs(theta[:-1]).max() / 127
    plain = np.linalg.norm(P[:, :-1] @ (np.rint(theta[:-1] / step) * step - theta[:-1]))
    assert np.linalg.norm(P @ (np.append(rounded, intercept) - theta[:, 0])) < 0.3 * plain


@pytest.mark.parametrize("name", ["one width", "width per feature", "map", "polynomial"])
def test_exports_answer_as_the_rounded_model(machines, digits, name, tmp_path):
    X, _, X_test, _ = digits
    model = compress(machines[name], storage="int8", X=X, random_state=0)
    kompakt.to_numpy(model, tmp_path / "rounded.py", check_rows=X_test)
    found = runpy.run_path(str(tmp_path / "rounded.py"))["decision_function"](X_test)
    np.testing.assert_allclose(found, decided(model, X_test), rtol=1e-9, atol=1e-9)
    pytest.importorskip("onnx")
    assert kompakt.to_onnx(model, tmp_path / "rounded.onnx", check_rows=X_test).label_agreement == 1.0


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("name", ["one width", "width per feature", "map"])
def test_the_c_file_holds_the_stored_bytes_as_they_are(machines, digits, name, tmp_path):
    X, _, X_test, y_test = digits
    model = compress(machines[name], storage="int8", X=X, random_state=0)
    report = kompakt.to_c(model, tmp_path / "rounded.c", arithmetic="float", check_rows=X_test, check_targets=y_test)
    text = (tmp_path / "rounded.c").read_text()
    for key, values, steps in (
        ("basis", model.basis, model.storage.basis_steps),
        ("weights", model.weights, model.storage.weight_steps),
    ):
        body = text.split(f"static const int8_t rounded_{key}[{values.size}] ROUNDED_FLASH = {{")[1].split("}")[0]
        assert np.array_equal(np.array(body.split(","), dtype=int), model.storage.small(values, steps).ravel())
    assert report.label_agreement == 1.0
    assert (
        report.storage_difference < 1e-4 * np.abs(decided(model, X_test)).max()
    )  # of float32, not of a second rounding
    assert report.data_bytes < 0.6 * kompakt.to_c(machines[name], tmp_path / "float.c").data_bytes


def test_auto_takes_the_fewest_bits_that_change_little(machines, digits):
    X = digits[0]
    assert compress(machines["width per feature"], storage="auto", X=X, random_state=0).storage.dtype == "int8"
    smooth = CompactSVR(60, C=1e6, gamma=0.5, refine=False, random_state=0)
    rows = np.linspace(0, 6, 400)[:, None]
    exact = smooth.fit(rows, np.sin(rows).ravel())  # many overlapping vectors: eight bits are too few for its weights
    strict = compress(exact, storage="auto", tol=1e-4, X=rows, random_state=0)
    assert strict.storage is None or strict.storage.dtype == "float16"
    assert strict.meta["agreement"] >= 1 - 2e-4
    never = compress(exact, storage="auto", tol=0.0, X=rows, random_state=0)
    assert never.storage is None
    assert np.array_equal(never.weights, exact.model_.weights)


def test_fewer_vectors_and_fewer_bits_together(machines, digits):
    X, _, X_test, _ = digits
    model = compress(machines["exact"], n_basis=12, storage="int8", X=X, random_state=0)
    assert (model.n_basis_, model.storage.dtype, model.meta["compressed_from"]) == (
        12, "int8", len(machines["exact"].support_)
    )  # fmt: skip
    assert np.mean(model.predict(X_test) == machines["exact"].predict(X_test)) > 0.9


def test_regression_keeps_its_fit():
    X, y = DIABETES
    machine = CompactSVR(15, C=10.0, random_state=0).fit(X, y)
    model = compress(machine, storage="int8", X=X, random_state=0)
    assert model.meta["agreement"] > 0.97
    residual = y - model.predict(X)
    assert 1 - residual @ residual / np.sum((y - y.mean()) ** 2) > machine.score(X, y) - 0.01


def test_a_rounded_model_can_be_compressed_and_other_vectors_are_refused(machines, digits):
    X = digits[0]
    model = compress(machines["map"], storage="int8", X=X, random_state=0)
    assert compress(model, n_basis=5, X=X, random_state=0).storage is None
    assert "stored as int8" in repr(model)
    with pytest.raises(ValueError, match="multiples of the steps"):
        kompakt.Model(
            model.kernel, model.basis + 0.3, model.weights, model.intercept, "classifier", 8, model.classes,
            model.coding, inputs=Inputs(map=model.inputs.map), storage=model.storage,
        )  # fmt: skip


@pytest.mark.parametrize("storage", ["int4", 8, True])
def test_unknown_storage_is_refused(machines, storage):
    with pytest.raises(ValueError, match=r"None, a mapping or one of \('int8', 'float16', 'auto'\); got"):
        compress(machines["one width"], storage=storage)


DAMAGES = {
    "other type announced": (lambda header: header.update(storage="float16"), "a model of float16 was announced"),
    "unknown type": (lambda header: header.update(storage="int4"), "storage"),
    "no storage": (lambda header: header.pop("storage"), "dtype int8|belong to nothing"),
    "wrong length": (lambda header: entry(header, "basis.steps").update(shape=[4]), "."),
    "wrong name": (lambda header: entry(header, "weights.steps").update(name="weights.step"), "lacks the array"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_files_of_rounded_models_are_refused(machines, digits, name, tmp_path):
    path = tmp_path / "rounded.kompakt"
    kompakt.save(compress(machines["one width"], storage="int8", X=digits[0], random_state=0), path)
    change, message = DAMAGES[name]
    rewrite(path, change)
    with pytest.raises(ModelFileError, match=message):
        kompakt.load(path)


@pytest.mark.parametrize(
    ("dtype", "array", "value"),
    [
        ("int8", "basis.steps", np.float32(np.nan)),
        ("int8", "weights.steps", np.float32(-1)),
        ("int8", "basis", np.int8(-128)),
        ("float16", "basis", np.float16(np.inf)),
        ("float16", "weights", np.float16(np.nan)),
        ("map", "input_map", np.int8(-128)),
        ("map", "input_map.steps", np.float32(0)),
    ],
)
def test_numbers_out_of_range_are_refused(machines, digits, dtype, array, value, tmp_path):
    from kompakt.io import container, schema

    machine, dtype = (machines["map"], "int8") if dtype == "map" else (machines["one width"], dtype)
    header, arrays = schema.encode(compress(machine, storage=dtype, X=digits[0], random_state=0))
    arrays[array] = arrays[array].copy()
    arrays[array].flat[1] = value
    path = tmp_path / "rounded.kompakt"
    path.write_bytes(b"".join(container.pack(header, arrays, 3)))
    assert struct.unpack_from("<I", path.read_bytes(), 8)[0] == 3
    with pytest.raises(ModelFileError, match=r"rounded model|positive numbers"):
        kompakt.load(path)


def test_the_command_line_rounds_and_inspect_tells_the_bytes(machines, digits, tmp_path, capsys):
    source, out = str(tmp_path / "a.kompakt"), str(tmp_path / "b.kompakt")
    kompakt.save(machines["one width"], source)
    assert main(["compress", source, out, "--storage", "int8", "--seed", "0"]) == 0
    assert "as int8" in capsys.readouterr().out
    assert main(["inspect", out]) == 0
    text = capsys.readouterr().out
    assert "15 with 8 features, int8" in text
    assert "basis 120" in text.split("stored numbers", 1)[1].split("\n")[0]
