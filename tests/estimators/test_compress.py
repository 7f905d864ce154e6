"""`compress` on what people bring: every SVM of scikit-learn, pipelines, files of LIBSVM."""

import shutil
import subprocess
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, make_blobs, make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

from kompakt import CompactSVC, Model, compress, load, save
from kompakt.io.fitted import model_of
from kompakt.kernels import RBF


@pytest.fixture(scope="module")
def moons():
    return make_moons(500, noise=0.3, random_state=0)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(400, centers=5, cluster_std=2.5, random_state=3)
    return StandardScaler().fit_transform(X), np.array(list("vwxyz"))[y]


@pytest.mark.parametrize(
    "machine",
    [
        SVC(), SVC(kernel="poly", coef0=1.0, degree=2), SVC(kernel="linear"), NuSVC(nu=0.4), SVC(gamma="auto", C=10.0),
        SVR(), NuSVR(), OneClassSVM(nu=0.3),
    ],
    ids=str,
)  # fmt: skip
def test_as_a_model_the_machine_decides_the_same(machine, moons):
    X, y = moons
    machine.fit(X, y)
    model = model_of(machine, svm=True)
    np.testing.assert_allclose(model.predict(X), machine.predict(X), atol=1e-9)
    if hasattr(machine, "decision_function"):
        np.testing.assert_allclose(model.decision_function(X), machine.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_many_classes_keep_the_values_of_every_pair(blobs, make):
    X, y = blobs
    machine = SVC(decision_function_shape="ovo").fit(make(X), y)
    model = model_of(machine, svm=True)
    np.testing.assert_allclose(-model.outputs(X), machine.decision_function(make(X)), atol=1e-9)
    assert np.mean(model.predict(X) == machine.predict(make(X))) > 0.99  # all but ties in votes


@pytest.mark.parametrize("machine", [SVC(), NuSVC(nu=0.4), OneClassSVM(nu=0.3)], ids=str)
def test_a_tenth_of_the_vectors_decide_alike(machine, moons):
    X, y = moons
    machine.fit(X, y)
    fresh, _ = make_moons(1000, noise=0.3, random_state=7)
    small, path = compress(machine, n_basis=len(machine.support_) // 10, X=X, random_state=0, return_path=True)
    assert small.n_basis_ == len(machine.support_) // 10
    assert np.mean(small.predict(fresh) == machine.predict(fresh)) > 0.97
    assert path[-1]["model"] is small
    assert small.meta["compressed_from"] == len(machine.support_)
    assert small.meta["agreement"] == path[-1]["agreement"]


def test_tol_gives_the_first_size_that_agrees(blobs):
    X, y = blobs
    machine = SVC().fit(X, y)
    small, path = compress(machine, tol=0.03, X=X, max_iter=30, random_state=0, return_path=True)
    assert path[-1]["stop_agreement"] >= 0.97
    assert all(step["stop_agreement"] < 0.97 for step in path[:-1])
    assert small.classes_.tolist() == list("vwxyz")
    assert small.decision_function(X).shape == (400, 5)
    again = compress(machine, tol=0.03, X=X, max_iter=30, random_state=0)
    np.testing.assert_array_equal(again.basis, small.basis)


def test_the_agreement_reported_is_that_on_other_rows():
    """A path that stops at the first lucky size must not report its luck: here 4 points, on the rows it stopped at."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6800, 5))
    machine = SVC(C=10.0).fit(X[:400], X[:400, 0] * X[:400, 1] + 0.5 * rng.normal(size=400) > 0)
    others = X[2800:]
    labels = machine.predict(others)
    gaps = []
    for seed in range(20):
        rows = X[400 + 120 * seed :][:120]
        small = compress(machine, tol=0.05, X=rows, refine=False, random_state=seed)
        gaps.append(small.meta["agreement"] - np.mean(small.predict(others) == labels))
    assert abs(np.mean(gaps)) < 0.02
    assert small.meta["agreement_rows"] == 30


def test_regression_without_rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (300, 1))
    machine = SVR(C=10.0, epsilon=0.02).fit(X, np.sin(X).ravel() + 0.1 * rng.normal(size=300))
    small = compress(machine, n_basis=10, random_state=0)
    grid = np.linspace(-3, 3, 200)[:, None]
    assert np.sqrt(np.mean((small.predict(grid) - machine.predict(grid)) ** 2)) < 0.02


def test_unrefined_vectors_are_rows_or_support_vectors(moons):
    X, y = moons
    small = compress(SVC().fit(X, y), n_basis=8, X=X, refine=False, random_state=0)
    distances = np.abs(small.basis_vectors_[:, None] - X[None]).max(axis=2).min(axis=1)
    assert distances.max() < 1e-6


def test_linear_machines_are_exact_with_one_vector_per_direction(moons, blobs):
    X, y = moons
    machine = SVC(kernel="linear").fit(X, y)
    small = compress(machine, tol=0.01, X=X)
    assert small.n_basis_ == 1
    np.testing.assert_allclose(small.decision_function(X), machine.decision_function(X), atol=1e-9)
    X, y = blobs
    many = SVC(kernel="linear").fit(X, y)
    small = compress(many, n_basis=10, X=X)
    assert small.n_basis_ == 2  # ten pairs of classes, two features
    assert np.mean(small.predict(X) == model_of(many, svm=True).predict(X)) == 1.0


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler((-1, 2)), StandardScaler(with_mean=False)], ids=str)
def test_scalers_of_a_pipeline_go_into_the_model(moons, scaler, tmp_path):
    X, y = moons
    X = 50.0 * X + 7.0
    pipeline = make_pipeline(scaler, SVC()).fit(X, y)
    np.testing.assert_allclose(
        model_of(pipeline, svm=True).decision_function(X), pipeline.decision_function(X), atol=1e-9
    )
    small = compress(pipeline, n_basis=15, X=X, random_state=0)
    assert np.mean(small.predict(X) == pipeline.predict(X)) > 0.97
    save(small, tmp_path / "small.kompakt")
    np.testing.assert_array_equal(load(tmp_path / "small.kompakt").predict(X), small.predict(X))


def test_searches_models_and_kompakts_own_machines(moons):
    X, y = moons
    search = GridSearchCV(SVC(), {"C": [1.0]}, cv=2).fit(X, y)
    assert model_of(search, svm=True).n_basis_ == len(search.best_estimator_.support_)
    own = CompactSVC(40, selection="random", refine=False, random_state=0).fit(X, y)
    small = compress(own, n_basis=10, X=X, random_state=0)
    assert np.mean(small.predict(X) == own.predict(X)) > 0.97
    assert compress(small, n_basis=5, X=X, random_state=0).n_basis_ == 5


@pytest.mark.skipif(shutil.which("svm-train") is None, reason="svm-train (libsvm-tools) is not installed")
def test_a_file_of_svm_train(blobs, tmp_path):
    X, y = blobs
    labels = np.unique(y, return_inverse=True)[1] + 1
    dump_svmlight_file(X, labels, str(tmp_path / "data"), zero_based=False)
    run = {"cwd": tmp_path, "check": True, "capture_output": True}
    subprocess.run(["svm-train", "-q", "-g", "0.5", "data", "svm.model"], **run)
    subprocess.run(["svm-predict", "data", "svm.model", "labels"], **run)
    original = np.loadtxt(tmp_path / "labels")
    small = compress(tmp_path / "svm.model", tol=0.02, X=X, random_state=0)
    header = (tmp_path / "svm.model").read_text().split("SV\n")[0]
    count = int(header.split("total_sv")[1].split()[0])
    assert 4 * small.n_basis_ < count
    assert np.mean(small.predict(X) == original) > 0.96
    save(small, tmp_path / "small.kompakt")
    assert compress(tmp_path / "small.kompakt", n_basis=5, X=X, random_state=0).n_basis_ == 5


@pytest.mark.parametrize(
    ("machine", "options", "error", "message"),
    [
        (SVC(kernel="sigmoid"), {"n_basis": 5}, TypeError, "positive definite"),
        (SVC(kernel=lambda a, b: a @ b.T), {"n_basis": 5}, TypeError, "does not keep"),
        (SVC(), {}, ValueError, "give n_basis"),
        (SVC(), {"tol": 1.5}, ValueError, "tol must be"),
        (SVC(), {"n_basis": 0}, ValueError, "at least 1"),
        (SVC(), {"n_basis": [5, 5]}, ValueError, "increasing"),
        (make_pipeline(Normalizer(), SVC()), {"n_basis": 5}, TypeError, "Normalizer cannot be put"),
        (StandardScaler(), {"n_basis": 5}, TypeError, "expected SVC"),
    ],
    ids=lambda value: None if callable(value) else str(value)[:30],
)
def test_what_cannot_be_compressed_is_refused(machine, options, error, message, moons):
    X, y = moons
    machine.fit(X, y)
    with pytest.raises(error, match=message):
        compress(machine, **options)


def test_a_model_without_vectors_is_refused_and_one_with_one_is_kept():
    empty = Model(RBF(0.5), np.empty((0, 3)), np.empty((0, 1)), np.ones(1), "regressor", 3)
    for more in ({"n_basis": 3}, {"tol": 0.1}):
        with pytest.raises(ValueError, match="no vectors"):
            compress(empty, **more)
    one = Model(RBF(0.5), np.ones((1, 3)), np.ones((1, 1)), np.ones(1), "regressor", 3)
    assert compress(one, n_basis=3, random_state=0).n_basis_ == 1


def test_many_classes_in_pairs_take_bounded_memory():
    rng, k = np.random.default_rng(0), 120
    L = k * (k - 1) // 2
    model = Model(
        RBF(0.1), rng.normal(size=(60, 5)), rng.normal(size=(60, L)), rng.normal(size=L), "classifier", 5,
        np.arange(k), "one_vs_one",
    )  # fmt: skip
    tracemalloc.start()
    try:
        smaller = compress(model, n_basis=10, X=rng.normal(size=(3000, 5)), refine=False, random_state=0)
        assert tracemalloc.get_traced_memory()[1] < 500e6
    finally:
        tracemalloc.stop()
    assert smaller.n_basis_ == 10
