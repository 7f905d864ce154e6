"""kompakt's own model file: what goes in comes out, nothing half-written, nothing malformed accepted."""

import dataclasses
import hashlib
import json
import os
import stat
import struct
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC
from tests.io.golden.make_bends import regressor, rounded
from tests.io.samples import float32_regressor, full_classifier, make_model, outlier_detector, rows

import kompakt
from kompakt import Model
from kompakt.inputs import Inputs
from kompakt.io import ModelFileError, container, files, read_header
from kompakt.kernels import RBF, CallableKernel, Constant, Kernel, Laplacian, Linear, Polynomial, Precomputed
from kompakt.model import Storage

X = rows()
MODELS = {
    "everything": full_classifier(),
    "float32": float32_regressor(),
    "outlier": outlier_detector(),
    "binary int": make_model(classes=np.array([-1, 1], dtype=np.int32), kernel=Linear()),
    "binary bool": make_model(classes=[False, True], kernel=1 + RBF(2.0)),
    "float labels": make_model(classes=[0.5, 1.5, 2.5], coding="one_vs_one"),
    "text objects": make_model(classes=np.array(["a", "bc", "d"], dtype=object), coding="minimum_output"),
    "int objects": make_model(classes=np.array([3, 1, 2], dtype=object)),
    "uint8": make_model(classes=np.array([0, 255], dtype=np.uint8)),
    "one class": make_model(classes=["only"]),
    "one class in pairs": make_model(classes=["only"], coding="one_vs_one"),
    "no vectors": make_model("regressor", m=0),
    "bends": regressor(),
    "bends and bits": rounded(),
    "nested": make_model(kernel=(1 + RBF(np.full(4, 0.3))) * (Laplacian(0.2) + Polynomial(0.5, 0.0, 2)) * 2.0),
}


def assert_same(left, right):
    for field in dataclasses.fields(kompakt.Model):
        a, b = getattr(left, field.name), getattr(right, field.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, field.name
            assert a.shape == b.shape
            np.testing.assert_array_equal(a, b)
        elif isinstance(a, Kernel):
            np.testing.assert_equal(a.spec(), b.spec())
        elif field.name == "calibration" and a is not None:
            np.testing.assert_equal(a, b)
        elif isinstance(a, Inputs):
            np.testing.assert_equal(a.arrays(), b.arrays())
            assert a.schema == b.schema
        elif isinstance(a, Storage):
            assert a.dtype == b.dtype
            np.testing.assert_equal([a.basis_steps, a.weight_steps], [b.basis_steps, b.weight_steps])
        else:
            assert a == b, field.name


@pytest.fixture
def path(tmp_path):
    return tmp_path / "machine.kompakt"


@pytest.mark.parametrize("name", MODELS)
def test_round_trip_keeps_every_field_and_predictions_to_the_bit(name, path):
    model = MODELS[name]
    kompakt.save(model, path)
    loaded = kompakt.load(str(path))
    assert_same(model, loaded)
    for narrow in (X[:, : model.n_features], X[:, : model.n_features].astype(np.float32)):
        np.testing.assert_array_equal(loaded.predict(narrow), model.predict(narrow))
        np.testing.assert_array_equal(loaded.decision_function(narrow), model.decision_function(narrow))
    again = path.with_suffix(".again")
    kompakt.save(loaded, again)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("labels", [["red", "green", "blue"], [2, 0, 1]])
def test_fitted_estimator_is_saved_through_its_model(labels, path):
    data, target = load_iris(return_X_y=True, as_frame=True)
    machine = kompakt.CompactSVC(n_basis=8, random_state=0).fit(data, np.array(labels)[target])
    kompakt.save(machine, path)
    loaded = kompakt.load(path)
    np.testing.assert_array_equal(loaded.predict(data.to_numpy()), machine.predict(data))
    assert loaded.feature_names.tolist() == list(data.columns)
    assert loaded.classes_.dtype == machine.classes_.dtype


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()],
        [MinMaxScaler((-1, 2))],
        [MaxAbsScaler()],
        [SimpleImputer(strategy="median"), RobustScaler(), StandardScaler(with_std=False)],
        [RobustScaler(with_centering=False), StandardScaler(with_mean=False)],
        [RobustScaler(with_scaling=False), MinMaxScaler()],
        ["passthrough"],
    ],
    ids=str,
)
def test_a_pipeline_is_saved_with_its_scalers(steps, path):
    data, target = load_iris(return_X_y=True, as_frame=True)
    data = 100.0 * data + 1000.0
    if isinstance(steps[0], SimpleImputer):
        data.iloc[::7, 1] = np.nan
    machine = kompakt.CompactSVC(n_basis=8, calibrate=True, random_state=0)
    pipeline = make_pipeline(*steps, machine).fit(data, target)
    kompakt.save(pipeline, path)
    loaded = kompakt.load(path)
    scores = pipeline.decision_function(data)
    np.testing.assert_allclose(loaded.decision_function(data.to_numpy()), scores, atol=1e-9 * np.abs(scores).max())
    np.testing.assert_allclose(loaded.predict_proba(data.to_numpy()), pipeline.predict_proba(data), atol=1e-7)
    assert loaded.feature_names.tolist() == list(data.columns)


def test_a_search_is_saved_as_its_best_estimator(path):
    pipeline = make_pipeline(StandardScaler(), kompakt.CompactSVR(n_basis=3, refine=False, random_state=0))
    search = GridSearchCV(pipeline, {"compactsvr__C": [0.1, 10.0]}, cv=2).fit(1e3 * X, X[:, 0])
    kompakt.save(search, path)
    np.testing.assert_allclose(kompakt.load(path).predict(1e3 * X), search.predict(1e3 * X), atol=1e-9)


def test_a_pipeline_that_a_model_cannot_hold_says_how_to_save_the_machine(path):
    labels = X[:, 0] > 0
    pipeline = make_pipeline(PCA(2), kompakt.CompactSVC(n_basis=3, random_state=0)).fit(X, labels)
    with pytest.raises(TypeError, match=r"PCA cannot be put into a model.*pipeline\[-1\]"):
        kompakt.save(pipeline, path)
    assert not path.exists()
    kompakt.save(pipeline[-1], path)
    np.testing.assert_array_equal(kompakt.load(path).predict(pipeline[:-1].transform(X)), pipeline.predict(X))
    with pytest.raises(NotFittedError):
        kompakt.save(make_pipeline(StandardScaler(), kompakt.CompactSVC()), path)
    with pytest.raises(TypeError, match=r"got SVC.*kompakt\.compress"):
        kompakt.save(make_pipeline(StandardScaler(), SVC()).fit(X, labels), path)


def test_arrays_are_aligned_and_load_writable(path):
    kompakt.save(MODELS["everything"], path)
    raw = path.read_bytes()
    length = struct.unpack_from("<I", raw, 12)[0]
    begin = container.padded(64 + length)
    assert begin % 64 == 0
    table = json.loads(raw[64 : 64 + length])["arrays"]
    assert all(row["offset"] % 64 == 0 for row in table)
    weights = next(row for row in table if row["name"] == "weights")
    stored = np.frombuffer(raw, weights["dtype"], 21, begin + weights["offset"]).reshape(weights["shape"])
    np.testing.assert_array_equal(stored, MODELS["everything"].weights)
    assert kompakt.load(path).weights.flags.writeable


def test_read_header_tells_shapes_without_arrays(path):
    kompakt.save(MODELS["everything"], path)
    header = read_header(path)
    assert header["writer"] == f"kompakt {kompakt.__version__}"
    assert header["arrays"]["basis"] == ("float64", (7, 4))


# ---- what cannot be saved


def test_unfitted_estimator_is_refused(path):
    with pytest.raises(NotFittedError):
        kompakt.save(kompakt.CompactSVC(), path)
    assert not path.exists()


def test_what_holds_no_machine_is_refused(path):
    fitted = SVC().fit(X, X[:, 0] > 0)
    for thing in (fitted, "a string", kompakt.CompactSVC, None):
        with pytest.raises(TypeError, match="kompakt Model"):
            kompakt.save(thing, path)


def test_foreign_kernels_say_why(path):
    for kernel, reason in ((CallableKernel(np.dot), "hold code"), (Precomputed(), "column numbers")):
        with pytest.raises(TypeError, match=reason):
            kompakt.save(make_model(kernel=kernel), path)


class OwnKernel(Linear):
    name = "own"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"weights": np.full((7, 3), np.nan)}, ValueError, "NaN"),
        ({"inputs": Inputs(scale=np.zeros(4))}, ValueError, "zeros"),
        ({"inputs": Inputs(shift=np.zeros(3))}, ValueError, "input_shift has shape"),
        ({"feature_names": np.array(["a"])}, ValueError, "feature_names has shape"),
        ({"classes": np.array([1, 1, 2])}, ValueError, "distinct"),
        ({"classes": np.array([1, "a", 2.0], dtype=object)}, TypeError, "labels"),
        ({"coding": "one_vs_one", "classes": np.arange(4)}, ValueError, "outputs"),
        ({"meta": {"model": object()}}, TypeError, r"meta\['model'\] holds a object"),
        ({"meta": {1: 2}}, TypeError, "keys"),
        ({"meta": {"text": "x" * (5 << 20)}}, ValueError, "header"),
        ({"kernel": OwnKernel()}, TypeError, "'own'"),
        ({"kernel": RBF(np.ones(3))}, ValueError, "widths"),
        ({"calibration": {"a": np.ones(2), "b": np.ones(2)}}, ValueError, "calibration"),
    ],
)
def test_what_the_schema_cannot_hold_is_refused_before_writing(change, error, message, path):
    with pytest.raises(error, match=message):
        kompakt.save(dataclasses.replace(make_model(), **change), path)
    assert list(path.parent.iterdir()) == []


def test_numbers_are_numbers(path):
    with pytest.raises(TypeError, match="offset must hold numbers; got dtype"):
        kompakt.save(make_model(inputs=Inputs(centre=np.array(list("abcd")))), path)


def test_meta_is_nested_sixteen_deep_and_no_deeper(path):
    def nested(depth):
        value = 1.5
        for _ in range(depth):
            value = [value]
        return {"meta": {"facts": value}}

    model = dataclasses.replace(make_model(), **nested(15))
    kompakt.save(model, path)
    assert kompakt.load(path).meta == model.meta
    with pytest.raises(TypeError, match="nested more than 16 deep"):
        kompakt.save(dataclasses.replace(make_model(), **nested(16)), path)


# ---- atomic replacement


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_interrupted_save_leaves_the_old_file_and_no_rest(function, error, path, monkeypatch):
    kompakt.save(MODELS["outlier"], path)
    before = path.read_bytes()

    def interrupt(*_):
        raise error("stopped here")

    monkeypatch.setattr(files.os, function, interrupt)
    with pytest.raises(error, match="stopped here"):
        kompakt.save(MODELS["everything"], path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_save_through_a_symbolic_link_keeps_the_link_and_the_mode(path, tmp_path):
    path.write_bytes(b"old")
    path.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(path)
    kompakt.save(MODELS["outlier"], link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert_same(kompakt.load(path), MODELS["outlier"])


def test_missing_files_and_folders_are_the_systems_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        kompakt.load(tmp_path / "absent")
    with pytest.raises(FileNotFoundError):
        kompakt.save(MODELS["outlier"], tmp_path / "absent" / "model")


# ---- what cannot be loaded


def test_pipes_and_folders_are_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for thing in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ModelFileError, match="regular"):
            kompakt.load(thing)


def test_cut_files_and_every_changed_byte_are_refused(path):
    kompakt.save(make_model("regressor", m=2, d=1), path)
    raw = path.read_bytes()
    for length in range(0, len(raw), 5):
        path.write_bytes(raw[:length])
        with pytest.raises(ModelFileError):
            kompakt.load(path)
    for place in range(len(raw)):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        with pytest.raises(ModelFileError):
            kompakt.load(path)
    path.write_bytes(raw + b"\0")
    with pytest.raises(ModelFileError, match="longer"):
        kompakt.load(path)


def test_unknown_version_is_refused_naming_both(path):
    kompakt.save(MODELS["outlier"], path)
    raw = bytearray(path.read_bytes())
    raw[8:12] = struct.pack("<I", 7)
    path.write_bytes(raw)
    with pytest.raises(ModelFileError, match=r"machine\.kompakt: .*version 7.*reads up to 3"):
        kompakt.load(path)


def rewrite(path: Path, change, version=1) -> None:
    """Change the header and make length and checksum right again."""
    raw = path.read_bytes()
    length = struct.unpack_from("<I", raw, 12)[0]
    header = json.loads(raw[64 : 64 + length])
    data = raw[container.padded(64 + length) :]
    text = change(header)
    text = text if isinstance(text, bytes) else json.dumps(header).encode()
    body = text + bytes(container.padded(64 + len(text)) - 64 - len(text)) + data
    preamble = container.MAGIC + struct.pack("<IIQ", version, len(text), 64 + len(body))
    digest = hashlib.sha256(preamble + bytes(40) + body).digest()
    path.write_bytes(preamble + digest + bytes(8) + body)


def entry(header, name):
    return next(row for row in header["arrays"] if row["name"] == name)


CHANGES = {
    "invalid JSON": (lambda h: b"{", "JSON"),
    "not an object": (lambda h: b"[]", "object"),
    "deep nesting": (lambda h: b"[" * 200_000, "deep|JSON"),
    "NaN": (lambda h: b'{"a": NaN}', "NaN"),
    "beyond float64": (lambda h: b'{"a": 1e999}', "float64"),
    "key twice": (lambda h: b'{"a": 1, "a": 2}', "twice"),
    "unknown field": (lambda h: h.update(code="import os"), "unknown fields"),
    "missing field": (lambda h: h.pop("kind"), "lacks"),
    "wrong kind": (lambda h: h.update(kind="oracle"), "'kind'"),
    "kind as list": (lambda h: h.update(kind=["classifier"]), "'kind'"),
    "coding as list": (lambda h: h.update(coding=[]), "'coding'"),
    "classes as dict": (lambda h: h.update(classes={}), "'classes'"),
    "n_features": (lambda h: h.update(n_features=True), "n_features"),
    "no table": (lambda h: h.pop("arrays"), "'arrays'"),
    "huge shape": (lambda h: entry(h, "basis").update(shape=[2**31 - 1, 2**31 - 1]), "beyond"),
    "negative shape": (lambda h: entry(h, "basis").update(shape=[-1, 4]), "shape"),
    "shape beyond int": (lambda h: entry(h, "basis").update(shape=[0, 2**62]), "shape"),
    "object dtype": (lambda h: entry(h, "basis").update(dtype="|O"), "dtype"),
    "big endian": (lambda h: entry(h, "basis").update(dtype=">f8"), "dtype"),
    "overlap": (lambda h: entry(h, "weights").update(offset=0), "offset 0; expected"),
    "same name": (lambda h: entry(h, "weights").update(name="basis"), "same name"),
    "extra array": (lambda h: entry(h, "offset").update(name="spare"), "belong to nothing"),
    "ints for floats": (lambda h: entry(h, "weights").update(dtype="<i8"), "dtype"),
    "transposed": (lambda h: entry(h, "weights").update(shape=[3, 7]), "do not fit|shape"),
    "flat basis": (lambda h: entry(h, "basis").update(shape=[28]), "dimensions"),
    "unknown kernel": (lambda h: h.update(kernel={"name": "callable"}), "unknown kernel"),
    "kernel as list": (lambda h: h.update(kernel={"name": ["rbf"]}), "unknown kernel"),
    "negative gamma": (lambda h: h.update(kernel={"name": "laplacian", "gamma": -1}), "gamma"),
    "huge gamma": (lambda h: h.update(kernel={"name": "laplacian", "gamma": 10**400}), "float64"),
    "fractional degree": (
        lambda h: h.update(kernel={"name": "poly", "gamma": 1, "coef0": 0, "degree": 2.5}), "degree"),
    "extra parameter": (lambda h: h.update(kernel={"name": "linear", "gamma": 1}), "exactly"),
    "gamma as text": (lambda h: h.update(kernel={"name": "laplacian", "gamma": "0.5"}), "must be a number"),
    "gamma as truth": (lambda h: h.update(kernel={"name": "laplacian", "gamma": True}), "must be a number"),
    "widths named by a list": (lambda h: h.update(kernel={"name": "rbf", "gamma": {"array": ["offset"]}}), "widths"),
    "widths with more": (
        lambda h: h.update(kernel={"name": "rbf", "gamma": {"array": "offset", "code": 1}}), "widths"),
    "no such widths": (lambda h: h.update(kernel={"name": "rbf", "gamma": {"array": "offset.x"}}), "widths"),
    "widths twice": (
        lambda h: h.update(kernel={"name": "sum", "parts": [{"name": "rbf", "gamma": {"array": "offset"}}] * 2}),
        "widths"),
    "endless kernel": (lambda h: h.update(kernel={"name": "sum", "parts": [{"name": "linear"}] * 2000}), "parts"),
    "bad special": (lambda h: h.update(meta={"a": {"$float": "seven"}}), "unknown number"),
    "reserved key": (lambda h: h.update(meta={"$code": 1}), "reserved"),
    "deep meta": (lambda h: h.update(meta={"a": json.loads("[" * 50 + "]" * 50)}), "nested"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_contradicting_headers_are_refused_with_the_reason(name, path):
    change, message = CHANGES[name]
    kompakt.save(MODELS["everything"], path)
    rewrite(path, lambda header: None)
    kompakt.load(path)  # the tool itself writes a valid file
    rewrite(path, change)
    with pytest.raises(ModelFileError, match=message):
        kompakt.load(path)


def test_kernels_are_nested_sixteen_deep_and_no_deeper(path):
    def nested(depth):
        kernel = {"name": "linear"}
        for _ in range(depth):
            kernel = {"name": "sum", "parts": [{"name": "linear"}, kernel]}
        return lambda header: header.update(kernel=kernel)

    kompakt.save(make_model(), path)
    rewrite(path, nested(16))
    assert kompakt.load(path).predict(np.ones((2, 4))).shape == (2,)
    rewrite(path, nested(17))
    with pytest.raises(ModelFileError, match="16 levels"):
        kompakt.load(path)


ROUNDED = {
    "other small numbers": (lambda h: entry(h, "basis").update(dtype="|u1"), "has dtype uint8; a model of int8"),
    "a map of other numbers": (lambda h: entry(h, "input_map").update(dtype="<f2"), "input_map' has dtype float16"),
    "no steps": (lambda h: entry(h, "basis.steps").update(name="spare"), "lacks the array 'basis.steps'"),
    "whole steps": (lambda h: entry(h, "basis.steps").update(dtype="<i4"), "does not fit its meaning"),
    "no basis": (lambda h: entry(h, "basis").update(name="spare"), "lacks the array 'basis'"),
    "other storage": (lambda h: h.update(storage="float16"), "a model of float16"),
}


BENT = {
    "no slopes": (lambda h: entry(h, "input_slopes").update(name="spare"), "bends need the arrays"),
    "wide pieces": (lambda h: entry(h, "input_pieces").update(dtype="|i1"), "does not fit its meaning"),
    "a knot too few": (lambda h: entry(h, "input_knots").update(shape=[2, 2]), "a knot|a finite knot"),
}


@pytest.mark.parametrize(
    ("source", "change", "message"),
    [("v2_table", *case) for case in ROUNDED.values()] + [("v3_bent", *case) for case in BENT.values()],
    ids=[*ROUNDED, *BENT],
)
def test_contradicting_rounded_and_bent_models_are_refused_with_the_reason(source, change, message, path):
    path.write_bytes((Path(__file__).parent / "golden" / f"{source}.kompakt").read_bytes())
    version = int(source[1])
    rewrite(path, lambda header: None, version)
    kompakt.load(path)
    rewrite(path, change, version)
    with pytest.raises(ModelFileError, match=message):
        kompakt.load(path)


@pytest.mark.parametrize(
    ("name", "numbers", "message"),
    [
        ("input_pieces", np.array([4, 0, 3], dtype=np.uint8), "at least one piece"),
        ("input_pieces", np.array([4, 2, 2], dtype=np.uint8), "at least one piece"),
        ("input_knots", np.array([0.1, -0.7, 1.3, 0.2]), "ascend"),
        ("input_knots", np.array([0.1, 0.7, np.inf, 0.2]), "finite knot"),
        ("input_slopes", np.array([1.0, 1.0, 1.0, np.nan, 1.0, 1.0, 1.0]), "finite slopes"),
    ],
)
def test_bends_of_impossible_numbers_are_refused(name, numbers, message, path):
    path.write_bytes((Path(__file__).parent / "golden" / "v3_bent.kompakt").read_bytes())
    overwrite(path, name, numbers, version=3)
    with pytest.raises(ModelFileError, match=message):
        kompakt.load(path)


def test_many_features_beside_one_of_many_pieces_do_not_explode(path):
    d = 200_000
    pieces = np.ones(d, dtype=np.uint8)
    pieces[0] = 255
    model = Model(RBF(1.0), np.zeros((1, d)), np.ones((1, 1)), np.zeros(1), "regressor", d)
    header, arrays = kompakt.io.schema.encode(model)
    arrays |= {"input_pieces": pieces, "input_knots": np.arange(254.0), "input_slopes": np.ones(d + 254)}
    path.write_bytes(b"".join(container.pack(header, arrays, 3)))
    with pytest.raises(ModelFileError, match="similar size"):
        kompakt.load(path)


def test_a_smallest_level_that_no_rounding_gives_is_refused(path):
    """Levels are symmetric: -128 and -32768 are never written."""
    for name, small in (("basis", -128), ("input_map", -32768)):
        raw = bytearray((Path(__file__).parent / "golden" / "v2_table.kompakt").read_bytes())
        length = struct.unpack_from("<I", raw, 12)[0]
        row = entry(json.loads(raw[64 : 64 + length]), name)
        struct.pack_into(
            {"|i1": "<b", "<i2": "<h"}[row["dtype"]], raw, container.padded(64 + length) + row["offset"], small
        )
        path.write_bytes(raw)
        rewrite(path, lambda header: None, version=2)
        with pytest.raises(ModelFileError, match="no part of a rounded model"):
            kompakt.load(path)


def overwrite(path: Path, name: str, numbers: np.ndarray, version: int) -> None:
    """Change the first numbers of an array, and make the checksum right again."""
    raw = bytearray(path.read_bytes())
    length = struct.unpack_from("<I", raw, 12)[0]
    begin = container.padded(64 + length) + entry(json.loads(raw[64 : 64 + length]), name)["offset"]
    raw[begin : begin + numbers.nbytes] = numbers.tobytes()
    path.write_bytes(raw)
    rewrite(path, lambda header: None, version)


@pytest.mark.parametrize("name", ["basis.steps", "weights.steps", "input_map.steps"])
@pytest.mark.parametrize("step", [0.0, -1.0, np.nan, np.inf])
def test_steps_of_a_rounded_model_are_positive_numbers(name, step, path):
    path.write_bytes((Path(__file__).parent / "golden" / "v2_table.kompakt").read_bytes())
    overwrite(path, name, np.array([step], dtype="<f4"), 2)
    with pytest.raises(ModelFileError, match="must hold positive numbers of float32"):
        kompakt.load(path)


@pytest.mark.parametrize("ends", [[6, 5, 18, 19], [-1, 11, 18, 19], [6, 11, 18, 18], [6, 11, 18, 20], [19, 11, 18, 19]])
def test_strings_follow_one_another_to_the_end(ends, path):
    kompakt.save(MODELS["everything"], path)
    overwrite(path, "feature_names.ends", np.array([6, 11, 18, 19], dtype="<i8"), 1)
    kompakt.load(path)  # lengths of the names in UTF-8
    overwrite(path, "feature_names.ends", np.array(ends, dtype="<i8"), 1)
    with pytest.raises(ModelFileError, match="do not follow one another"):
        kompakt.load(path)


def test_many_short_strings_beside_a_long_one_do_not_explode(path):
    n = 20_000
    names = np.array(["x"] * n, dtype=object)
    names[0] = "y" * 20_000
    model = make_model("regressor", d=n, m=1, feature_names=names)
    with pytest.raises(ModelFileError, match="Shorten"):
        kompakt.save(model, path)


def test_constants_alone_round_trip(path):
    kompakt.save(make_model("regressor", kernel=Constant(2.0) + Constant(1.0)), path)
    assert kompakt.load(path).kernel.block(X, X[:1])[0, 0] == 3.0


def test_what_is_checked_is_what_is_loaded(path, monkeypatch):
    """Another process that writes into the file while it is read cannot get numbers past the checksum."""
    kompakt.save(MODELS["everything"], path)
    sha256 = hashlib.sha256

    class Slow:
        def __init__(self, *start):
            self.inner = sha256(*start)
            self.update = self.inner.update

        def digest(self):
            with open(path, "r+b") as file:  # after the last byte was read for the checksum
                file.seek(-8 * 20, os.SEEK_END)
                file.write(bytes(8 * 20))
            return self.inner.digest()

    whole = kompakt.load(path)
    monkeypatch.setattr(container.hashlib, "sha256", Slow)
    assert_same(kompakt.load(path), whole)
