"""LIBSVM text models: read, written, and compared with the rule, with scikit-learn and with the tools themselves."""

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_iris, make_blobs
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM
from tests.io.samples import libsvm_labels, libsvm_values, make_model, rows, write_libsvm

import kompakt
from kompakt.export.libsvm_file import format_libsvm
from kompakt.io import LibsvmModel, ModelFileError, UnsupportedModelError, read_libsvm, to_model
from kompakt.kernels import RBF, CallableKernel, Laplacian, Linear, Polynomial

FOLDER = Path(__file__).parent / "libsvm"
ANSWERS = json.loads((FOLDER / "answers.json").read_text())
NAMES = ["binary", "three", "nu", "oneclass", "svr", "nusvr"]
needs_tools = pytest.mark.skipif(
    shutil.which("svm-predict") is None, reason="svm-train and svm-predict (Debian: libsvm-tools) are not installed"
)


# ---- committed models: always


@pytest.mark.parametrize("name", NAMES)
def test_committed_models_answer_as_svm_predict_did(name):
    X = np.array(ANSWERS["X"])
    model = to_model(read_libsvm(FOLDER / f"{name}.model"))
    if model.kind == "regressor":
        np.testing.assert_allclose(model.predict(X), ANSWERS[name], rtol=1e-5)  # svm-predict prints six digits
    else:
        np.testing.assert_array_equal(model.predict(X), ANSWERS[name])


def test_probabilities_of_two_classes_are_kept():
    model = to_model(read_libsvm(FOLDER / "binary.model"))
    record = read_libsvm(FOLDER / "binary.model")
    assert record.labels.tolist() == [7, -2]  # svm-predict -b 1 prints them in this order
    answers = np.array(ANSWERS["binary probabilities"])
    np.testing.assert_allclose(model.predict_proba(np.array(ANSWERS["X"])), answers[:, [2, 1]], atol=2e-6)


def test_probabilities_stay_with_the_class_when_labels_swap():
    record = read_libsvm(FOLDER / "binary.model")
    X = np.array(ANSWERS["X"])
    straight = to_model(record)
    swapped = to_model(dataclasses.replace(record, labels=record.labels[::-1].copy()))
    np.testing.assert_allclose(straight.predict_proba(X), swapped.predict_proba(X)[:, ::-1], rtol=1e-12)
    np.testing.assert_array_equal(straight.predict(X) == 7, swapped.predict(X) == -2)


def test_pairwise_probabilities_of_more_classes_stay_in_meta():
    record = read_libsvm(FOLDER / "three.model")
    model = to_model(record)
    assert model.calibration is None
    assert model.meta["libsvm_probA"] == record.prob_a.tolist()
    assert model.meta["libsvm_label"] == [7, 3, -2]


@pytest.mark.parametrize("name", NAMES)
def test_text_of_a_record_reads_back_the_same(name, tmp_path):
    record = read_libsvm(FOLDER / f"{name}.model")
    (tmp_path / "again").write_bytes(b"".join(format_libsvm(record)))
    again = read_libsvm(tmp_path / "again")
    for field in dataclasses.fields(LibsvmModel):
        a, b = getattr(record, field.name), getattr(again, field.name)
        if sparse.issparse(a):
            assert (a != b).nnz == 0
        else:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_model_saved_and_written_back_decides_the_same(name, tmp_path):
    record = read_libsvm(FOLDER / f"{name}.model")
    model = to_model(record)
    kompakt.save(model, tmp_path / "own")
    files = write_libsvm(kompakt.load(tmp_path / "own"), tmp_path / "back")
    assert files.range is files.labels is None
    written = read_libsvm(files.model)
    X = np.array(ANSWERS["X"])
    assert written.vectors.shape[0] == record.vectors.shape[0]  # one-vs-one needs no copies
    np.testing.assert_array_equal(written.labels, record.labels)
    for key in ("prob_a", "prob_b"):
        if record.is_classifier:
            np.testing.assert_array_equal(getattr(written, key), getattr(record, key))
    if record.is_classifier:
        np.testing.assert_array_equal(libsvm_labels(written, X)[0], libsvm_labels(record, X)[0])
    else:
        np.testing.assert_allclose(libsvm_values(written, X), libsvm_values(record, X), rtol=1e-12)


# ---- conventions, against scikit-learn and the rule


def record_of_svc(svc):
    """scikit-learn keeps LIBSVM's numbers, with signs turned for two classes."""
    sign = -1.0 if len(svc.classes_) == 2 else 1.0
    return LibsvmModel(
        "c_svc", "rbf", sparse.csr_matrix(svc.support_vectors_), sign * svc.dual_coef_, -sign * svc.intercept_,
        labels=svc.classes_, n_vectors=svc.n_support_, gamma=svc._gamma,
    )  # fmt: skip


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("kind", [SVC, NuSVC])
def test_values_and_labels_agree_with_scikit_learn(n_classes, kind):
    X, y = make_blobs(240, centers=n_classes, n_features=3, cluster_std=3.0, random_state=2)
    options = {"nu": 0.3} if kind is NuSVC else {}
    svc = kind(gamma=0.2, decision_function_shape="ovo", **options).fit(X, y)
    record = record_of_svc(svc)
    model = to_model(record)
    theirs = svc.decision_function(X)
    sign = 1.0 if n_classes == 2 else -1.0  # scikit-learn turns the sign of two classes as kompakt does
    np.testing.assert_allclose(model.outputs(X), sign * theirs.reshape(len(X), -1), atol=1e-10)
    labels, tied = libsvm_labels(record, X)
    np.testing.assert_array_equal(labels, svc.predict(X))
    np.testing.assert_array_equal(model.predict(X)[~tied], svc.predict(X)[~tied])


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]])
def test_any_order_of_labels_gives_sorted_classes_and_the_same_decisions(order):
    X, y = make_blobs(200, centers=4, n_features=3, cluster_std=2.0, random_state=3)
    record = dataclasses.replace(record_of_svc(SVC(gamma=0.1).fit(X, y)), labels=np.array([10, 20, 30, 40])[order])
    model = to_model(record)
    assert model.classes_.tolist() == [10, 20, 30, 40]
    labels, tied = libsvm_labels(record, X)
    np.testing.assert_array_equal(model.predict(X)[~tied], labels[~tied])


def test_regression_and_one_class_agree_with_scikit_learn():
    X, y = make_blobs(100, n_features=3, random_state=0)
    for machine, kind in ((SVR(gamma=0.1), "epsilon_svr"), (OneClassSVM(gamma=0.1, nu=0.2), "one_class")):
        machine.fit(X, y)
        record = LibsvmModel(
            kind, "rbf", sparse.csr_matrix(machine.support_vectors_), machine.dual_coef_, -machine.intercept_, gamma=0.1
        )
        model = to_model(record)
        np.testing.assert_allclose(model.outputs(X)[:, 0], getattr(machine, "decision_function", machine.predict)(X))
        np.testing.assert_allclose(model.predict(X), machine.predict(X))


# ---- writing, against the rule

BLOBS, TARGET = make_blobs(300, centers=4, n_features=4, cluster_std=2.5, random_state=1)


@pytest.mark.parametrize("classes", [[3, 8], [1, 2, 3], list(range(6))])
@pytest.mark.parametrize("coding", ["one_vs_rest", "one_vs_one"])
@pytest.mark.parametrize("kernel", [RBF(0.3), Linear(), Polynomial(0.4, 1.0, 3), 2.0 + RBF(0.2) * 3.0], ids=repr)
def test_written_classifier_decides_as_the_model(classes, coding, kernel, tmp_path):
    model = make_model(classes=classes, coding=coding, kernel=kernel)
    files = write_libsvm(model, tmp_path / "model")
    assert files.range is files.labels is None
    record, X = read_libsvm(files.model), rows(200)
    labels, tied = libsvm_labels(record, X)
    if coding == "one_vs_rest":
        assert not tied.any()
    np.testing.assert_array_equal(labels[~tied], model.predict(X)[~tied])
    again = to_model(record)
    if coding == "one_vs_one" or len(classes) == 2:
        np.testing.assert_allclose(again.outputs(X), model.outputs(X), rtol=1e-9, atol=1e-10)
    else:
        assert record.vectors.shape[0] == len(classes) * model.n_basis_
        first, second = np.triu_indices(len(classes), 1)
        F = model.outputs(X)
        np.testing.assert_allclose(again.outputs(X), F[:, second] - F[:, first], rtol=1e-9, atol=1e-10)


def test_exact_zeros_go_to_the_same_class(tmp_path):
    model = dataclasses.replace(make_model(classes=[4, 5, 6]), weights=np.zeros((7, 3)), intercept=np.zeros(3))
    record = read_libsvm(write_libsvm(model, tmp_path / "model").model)
    assert libsvm_labels(record, BLOBS)[0].tolist() == model.predict(BLOBS).tolist()


def test_calibration_of_two_classes_is_written(tmp_path):
    model = make_model(classes=[0, 1], calibration={"a": np.array([-2.0]), "b": np.array([0.3])})
    again = to_model(read_libsvm(write_libsvm(model, tmp_path / "model").model))
    np.testing.assert_allclose(again.predict_proba(BLOBS), model.predict_proba(BLOBS), rtol=1e-9)
    with pytest.warns(UserWarning, match="calibration is not written"):
        write_libsvm(make_model(calibration={"a": -np.ones(3), "b": np.zeros(3)}), tmp_path / "model")


def test_text_labels_are_numbered_and_named_beside_the_model(tmp_path):
    model = make_model(classes=["ä", "b", "c"])
    files = write_libsvm(model, tmp_path / "model")
    names = json.loads(files.labels.read_text())
    labels, _ = libsvm_labels(read_libsvm(files.model), BLOBS)
    assert [names[label] for label in labels] == model.predict(BLOBS).tolist()
    halves = write_libsvm(make_model(classes=[0.5, 1.5]), tmp_path / "model")
    assert json.loads(halves.labels.read_text()) == [0.5, 1.5]


def range_scaled(path, X):
    """What svm-scale does with a range file, without its rounding to six digits."""
    lines = path.read_text().split("\n")
    assert lines[:2] == ["x", "0 1"]
    low, high = np.array([line.split()[1:] for line in lines[2:-1]], dtype=float).T
    constant = low == high
    return np.where(constant, 0.0, (X - low) / np.where(constant, 1.0, high - low))


@pytest.mark.parametrize("kernel", [RBF(0.3), RBF(np.array([0.1, 0.0, 2.0, 0.5])), Polynomial(0.2, 1.0, 2)], ids=repr)
def test_scaled_models_and_widths_per_feature_get_a_range_file(kernel, tmp_path):
    model = make_model(
        kernel=kernel, input_shift=np.array([1.0, -2.0, 0.0, 5.0]), input_scale=np.array([2.0, 0.3, 1, 4])
    )
    files = write_libsvm(model, tmp_path / "model")
    X = rows(100) * model.input_scale + model.input_shift
    again = to_model(read_libsvm(files.model), n_features=4)
    F = model.outputs(X)
    np.testing.assert_allclose(
        again.outputs(range_scaled(files.range, X)), F[:, [1, 2, 2]] - F[:, [0, 0, 1]], rtol=1e-8, atol=1e-9
    )


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (make_model(kernel=Laplacian(1.0)), UnsupportedModelError, "no laplacian kernel"),
        (make_model(kernel=RBF(1.0) + Linear()), UnsupportedModelError, "no sum kernel"),
        (make_model(kernel=CallableKernel(np.dot)), TypeError, "hold code"),
        (make_model(coding="minimum_output"), UnsupportedModelError, "minimum_output"),
        (make_model("regressor", n_outputs=2), UnsupportedModelError, "one regression output"),
        (make_model(input_shift=np.full(4, 1e18)), UnsupportedModelError, "Centre"),
    ],
)
def test_what_libsvm_lacks_is_named(model, error, message, tmp_path):
    with pytest.raises(error, match=message):
        write_libsvm(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_imputation_is_not_lost_silently(tmp_path):
    with pytest.warns(UserWarning, match="does not impute"):
        write_libsvm(make_model(input_fill=np.zeros(4)), tmp_path / "model")


# ---- reading what is wrong

HEAD = "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 2\nrho 0.1\nlabel 1 -1\nnr_sv 1 1\nSV\n"
GOOD = HEAD + "1 1:0.5 3:1\n-1 2:1\n"
WRONG = {
    "sigmoid": (GOOD.replace("rbf", "sigmoid"), "positive definite"),
    "precomputed": (GOOD.replace("rbf", "precomputed"), "row numbers"),
    "unknown kernel": (GOOD.replace("rbf", "wave"), "unknown kernel_type 'wave'"),
    "unknown type": (GOOD.replace("c_svc", "d_svc"), "unknown svm_type"),
    "unknown word": ("hello\n" + GOOD, "line 1: 'hello' is no keyword"),
    "no gamma": (GOOD.replace("gamma 0.5\n", ""), "needs gamma"),
    "negative gamma": (GOOD.replace("gamma 0.5", "gamma -1"), "gamma"),
    "no labels": (GOOD.replace("label 1 -1\n", ""), "needs label"),
    "label twice": (GOOD.replace("label 1 -1", "label 1 1"), "twice"),
    "fractional label": (GOOD.replace("label 1 -1", "label 1 0.5"), "line 7: label"),
    "word twice": ("rho 1\n" + GOOD, "rho is given twice"),
    "no end": (HEAD[:-3], "does not end"),
    "empty": ("", "does not end"),
    "huge class count": (GOOD.replace("nr_class 2", "nr_class 2000000000"), "rho has 1 values"),
    "huge vector count": (GOOD.replace("total_sv 2", "total_sv 2000000000"), "nr_sv"),
    "count beyond int": (GOOD.replace("total_sv 2", "total_sv 99999999999"), "beyond"),
    "too few": (HEAD + "1 1:1\n", "1 vectors; total_sv says 2"),
    "too many": (GOOD + "1 1:1\n", "line 12: more vectors"),
    "no coefficient": (HEAD + "1:0.5\n-1 2:1\n", "line 10"),
    "decreasing index": (HEAD + "1 3:1 2:1\n-1 2:1\n", "increase"),
    "index zero": (HEAD + "1 0:1\n-1 2:1\n", "indices start at 1"),
    "not a number": (HEAD + "1 1:nan\n-1 2:1\n", "finite"),
    "underscore": (HEAD + "1_0 1:1\n-1 2:1\n", "no number"),
    "no value": (HEAD + "1 1:\n-1 2:1\n", "line 10"),
    "half a probability": (GOOD.replace("nr_sv", "probA 1\nnr_sv"), "belong together"),
    "probability elsewhere": (GOOD.replace("c_svc", "one_class"), "no meaning"),
    "bytes": (GOOD.replace("rbf", "rb\xff"), "kernel_type"),
    "wide": (HEAD + "1 2000000000:1\n-1 2:1\n", "memory_budget"),
}


@pytest.mark.parametrize("name", WRONG)
def test_malformed_text_is_refused_with_the_reason(name, tmp_path):
    text, message = WRONG[name]
    (tmp_path / "model").write_bytes(text.encode("latin1"))
    with pytest.raises(ModelFileError, match=message):
        to_model(read_libsvm(tmp_path / "model"))
    (tmp_path / "model").write_text(GOOD)
    to_model(read_libsvm(tmp_path / "model"))


def test_unsupported_kernels_have_their_own_class(tmp_path):
    (tmp_path / "model").write_text(WRONG["sigmoid"][0])
    with pytest.raises(UnsupportedModelError):
        read_libsvm(tmp_path / "model")


def test_features_counted_from_zero_and_wider_data(tmp_path):
    (tmp_path / "model").write_text(GOOD.replace("1:0.5", "0:0.5"))
    assert to_model(read_libsvm(tmp_path / "model", zero_based=True)).n_features == 4
    record = read_libsvm(tmp_path / "model", zero_based=True)
    assert to_model(record, n_features=9).predict(np.zeros((2, 9))).shape == (2,)
    with pytest.raises(ModelFileError, match="use 4 features"):
        to_model(record, n_features=3)


# ---- the tools themselves


def svm_predict(model, X, folder, scale=None):
    data, out = folder / "data", folder / "out"
    dump_svmlight_file(X, np.zeros(len(X)), str(data), zero_based=False)
    if scale is not None:
        scaled = subprocess.run(["svm-scale", "-r", str(scale), str(data)], capture_output=True, check=True).stdout
        data.write_bytes(scaled)
    subprocess.run(["svm-predict", "-q", str(data), str(model), str(out)], check=True, capture_output=True)
    return np.loadtxt(out)


@needs_tools
@pytest.mark.parametrize("kernel", [RBF(0.3), Linear(), Polynomial(0.4, 1.0, 2), 1.0 + RBF(0.2)], ids=repr)
@pytest.mark.parametrize(
    "options",
    [
        {"classes": [3, -8]}, {"classes": [5, 2, 9]}, {"classes": [5, 2, 9, 1], "coding": "one_vs_one"},
        {"classes": range(12)}, {"classes": [6]}, {"kind": "regressor"}, {"kind": "outlier"},
    ],
    ids=str,
)  # fmt: skip
def test_svm_predict_answers_as_the_model(kernel, options, tmp_path):
    model, X = make_model(kernel=kernel, **options), rows(200)
    files = write_libsvm(model, tmp_path / "model")
    answers = svm_predict(files.model, X, tmp_path)
    if model.kind == "regressor":
        np.testing.assert_allclose(answers, model.predict(X), rtol=1e-5, atol=1e-5)
        return
    same = np.full(len(X), True)
    if options.get("coding") == "one_vs_one":
        same = ~libsvm_labels(read_libsvm(files.model), X)[1]
        assert same.mean() > 0.3
    np.testing.assert_array_equal(answers[same], model.predict(X)[same])


@needs_tools
@pytest.mark.parametrize("kernel", [RBF(0.3), RBF(np.array([0.1, 0.0, 2.0, 0.5])), Linear()], ids=repr)
def test_svm_scale_and_svm_predict_answer_as_a_scaled_model(kernel, tmp_path):
    model = make_model(
        kernel=kernel, input_shift=np.array([1.0, -2.0, 0.0, 5.0]), input_scale=np.array([2.0, 0.3, 1, 4])
    )
    files = write_libsvm(model, tmp_path / "model")
    X = rows(200) * model.input_scale + model.input_shift
    scores = np.sort(model.decision_function(X), axis=1)
    clear = scores[:, -1] - scores[:, -2] > 1e-4  # svm-scale prints six digits
    assert clear.mean() > 0.95
    answers = svm_predict(files.model, X, tmp_path, scale=files.range)
    np.testing.assert_array_equal(answers[clear], model.predict(X)[clear])


@needs_tools
@pytest.mark.parametrize("coding", ["one_vs_rest", "one_vs_one"])
def test_fitted_estimator_in_svm_predict(coding, tmp_path):
    X, y = load_iris(return_X_y=True)
    machine = kompakt.CompactSVC(n_basis=20, coding=coding, random_state=0).fit(X, y)
    files = write_libsvm(machine, tmp_path / "model")
    answers = svm_predict(files.model, X, tmp_path, scale=files.range)
    np.testing.assert_array_equal(answers, machine.predict(X))


@needs_tools
@pytest.mark.parametrize(
    "options", ["-s 0 -t 2", "-s 1 -t 0 -n 0.2", "-s 0 -t 1 -r 1", "-s 3 -t 2", "-s 2 -t 2 -n 0.2"]
)
def test_svm_train_is_read_and_written_back(options, tmp_path):
    dump_svmlight_file(BLOBS, TARGET, str(tmp_path / "train"), zero_based=False)
    command = ["svm-train", "-q", *options.split(), str(tmp_path / "train"), str(tmp_path / "model")]
    subprocess.run(command, check=True, capture_output=True)
    record = read_libsvm(tmp_path / "model")
    model = to_model(record)
    theirs = svm_predict(tmp_path / "model", BLOBS, tmp_path)
    back = svm_predict(write_libsvm(model, tmp_path / "back").model, BLOBS, tmp_path)
    if model.kind == "regressor":
        np.testing.assert_allclose(model.predict(BLOBS), theirs, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(back, theirs, rtol=1e-4, atol=1e-5)
        return
    clear = ~libsvm_labels(record, BLOBS)[1] if record.is_classifier else np.full(len(BLOBS), True)
    np.testing.assert_array_equal(model.predict(BLOBS)[clear], theirs[clear])
    np.testing.assert_array_equal(back, theirs)  # ties too: the order of the labels is kept
