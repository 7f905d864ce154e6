"""LIBSVM text models: read, and compared with the rule, with scikit-learn and with the tools themselves."""

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, make_blobs
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM
from tests.io.samples import libsvm_labels, libsvm_values, make_model, write_libsvm

import kompakt
from kompakt.inputs import Inputs
from kompakt.io import LibsvmModel, ModelFileError, UnsupportedModelError, read_libsvm, to_model
from kompakt.io.fitted import model_of
from kompakt.io.libsvm import format_libsvm, range_text
from kompakt.kernels import RBF, Laplacian

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


def test_a_model_that_libsvm_cannot_express_is_refused(tmp_path):
    with pytest.raises(UnsupportedModelError, match="LIBSVM has no laplacian kernel"):
        kompakt.to_libsvm(make_model(kernel=Laplacian(0.5)), tmp_path / "model")
    far = make_model(inputs=Inputs(shift=np.full(4, 1e20), scale=np.ones(4)))
    with pytest.raises(UnsupportedModelError, match="so large beside its scale"):
        range_text(far)
    turned = make_model(inputs=Inputs(shift=np.zeros(4), scale=np.array([1.0, 2.0, -1.0, 1.0])))
    with pytest.raises(UnsupportedModelError, match="negative for feature 2"):
        range_text(turned)
    assert range_text(make_model(inputs=Inputs(scale=np.array([1.0, 2.0, np.inf, 4.0])))).splitlines() == [
        "x", "0 1", "1 0.0 1.0", "2 0.0 2.0", "3 0.0 0.0", "4 0.0 4.0",
    ]  # fmt: skip


def test_a_path_names_a_model_of_either_kind(tmp_path):
    model = make_model("regressor", kernel=RBF(0.5))
    X = np.random.default_rng(0).normal(size=(10, 4))
    kompakt.save(model, tmp_path / "own")
    kompakt.to_libsvm(model, tmp_path / "foreign")
    for name in ("own", "foreign"):
        np.testing.assert_allclose(model_of(tmp_path / name, svm=True).predict(X), model.predict(X), rtol=1e-9)


def test_features_counted_from_zero_and_wider_data(tmp_path):
    (tmp_path / "model").write_text(GOOD.replace("1:0.5", "0:0.5"))
    assert to_model(read_libsvm(tmp_path / "model", zero_based=True)).n_features == 4
    record = read_libsvm(tmp_path / "model", zero_based=True)
    assert to_model(record, n_features=9).predict(np.zeros((2, 9))).shape == (2,)
    with pytest.raises(ModelFileError, match="use 4 features"):
        to_model(record, n_features=3)


# ---- the tools themselves

BLOBS, TARGET = make_blobs(300, centers=4, n_features=4, cluster_std=2.5, random_state=1)


def svm_predict(model, X, folder, scale=None):
    data, out = folder / "data", folder / "out"
    dump_svmlight_file(X, np.zeros(len(X)), str(data), zero_based=False)
    if scale is not None:
        scaled = subprocess.run(["svm-scale", "-r", str(scale), str(data)], capture_output=True, check=True).stdout
        data.write_bytes(scaled)
    subprocess.run(["svm-predict", "-q", str(data), str(model), str(out)], check=True, capture_output=True)
    return np.loadtxt(out)


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
