"""Streamed rows: the same machine as from arrays, from any file, and errors that name the row."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.preprocessing import StandardScaler

import kompakt
from kompakt import (
    CGLQSVC,
    FEESVC,
    FEESVR,
    CompactSVC,
    CompactSVR,
    FixedSizeLSSVC,
    FixedSizeLSSVR,
    GreedyProjection,
    KernelFisher,
    LocalSamplingSVC,
    ProjectedKernelFisher,
    ProjectedSVC,
    Refinement,
    SpSVC,
    open_rows,
)
from kompakt.run import Run
from kompakt.train import data as samples

N = 3007  # divides into no block


def make(seed=0, n=N, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) + 2.0
    f = (X[:, 0] - 2) * (X[:, 1] - 2) + 0.3 * rng.normal(size=n)
    y = np.digitize(f, np.quantile(f, np.arange(1, classes) / classes))
    return X, y, np.sin(X[:, 0]) + 0.1 * f


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    X, y, value = make()
    np.save(folder / "X.npy", X)
    table = pd.DataFrame(X, columns=list("abcd")).assign(label=np.where(y == 1, "yes", "no"), y=y, value=value)
    table.to_parquet(folder / "rows.parquet", row_group_size=700)
    table.to_csv(folder / "rows.csv", index=False)
    return folder, X, y, value


def classifier_rows(folder, y):
    features = list("abcd")
    return {
        "npy": open_rows(folder / "X.npy", target=y),
        "memmap": open_rows(np.load(folder / "X.npy", mmap_mode="r"), target=y),
        "parquet": open_rows(folder / "rows.parquet", target="y", columns=features),
        "csv": open_rows(folder / "rows.csv", target="y", columns=features),
    }


def assert_identical(a, b):
    if getattr(a, "basis_indices_", None) is not None:
        np.testing.assert_array_equal(a.basis_indices_, b.basis_indices_)
    np.testing.assert_array_equal(a.basis_vectors_, b.basis_vectors_)
    np.testing.assert_array_equal(a.dual_coef_, b.dual_coef_)
    np.testing.assert_array_equal(a.intercept_, b.intercept_)


CLASSIFIERS = {
    "CompactSVC": CompactSVC(20, refine=False, memory_budget=10_000, random_state=3),
    "CompactSVC random": CompactSVC(20, refine=False, selection="random", memory_budget=10_000, random_state=3),
    "CompactSVC cost": CompactSVC(20, C=None, refine=False, memory_budget=10_000, random_state=3),
    "CompactSVC hinge": CompactSVC(10, refine=False, loss="hinge", memory_budget=10_000, random_state=3),
    "CompactSVC refined": CompactSVC(10, refine=Refinement(5), random_state=3),
    "SpSVC": SpSVC(15, random_state=3),
    "FixedSizeLSSVC": FixedSizeLSSVC(15, random_state=3),
    "ProjectedKernelFisher": ProjectedKernelFisher(15, random_state=3),
    "ProjectedSVC": ProjectedSVC(15, random_state=3),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_file_gives_the_machine_of_the_arrays_bit_for_bit(name, data):
    folder, X, y, _ = data
    machine = kompakt_clone(CLASSIFIERS[name]).fit(X, y)
    for kind, rows in classifier_rows(folder, y).items():
        streamed = kompakt_clone(CLASSIFIERS[name]).fit(rows)
        assert_identical(machine, streamed)
        assert streamed.n_passes_ >= 3, kind
        assert streamed.n_features_in_ == 4
    np.testing.assert_array_equal(streamed.feature_names_in_, list("abcd"))
    table = pd.DataFrame(X, columns=list("abcd"))
    np.testing.assert_array_equal(streamed.predict(table), machine.predict(X))


def kompakt_clone(estimator):
    from sklearn.base import clone

    return clone(estimator)


@pytest.mark.parametrize(
    "machine",
    [
        CompactSVR(15, refine=False, memory_budget=10_000, random_state=3),
        CompactSVR(10, refine=Refinement(5), random_state=3),
        CompactSVR(10, refine=False, loss="epsilon_insensitive", memory_budget=10_000, random_state=3),
        FixedSizeLSSVR(15, random_state=3),
        FEESVR(n_basis=6, random_state=3),
    ],
    ids=lambda machine: f"{type(machine).__name__} {machine.loss} {getattr(machine, 'refine', '')}",
)
def test_regression_from_files(machine, data):
    folder, X, _, value = data
    expected = kompakt_clone(machine).fit(X, value)
    rows = open_rows(folder / "rows.parquet", target="value", columns=list("abcd"))
    streamed = kompakt_clone(machine).fit(rows)
    assert_identical(expected, streamed)
    assert streamed.predict(pd.DataFrame(X, columns=list("abcd"))).shape == (N,)


def test_several_targets_and_several_files(tmp_path):
    X, _, value = make(1)
    Y = np.column_stack([value, value**2])
    for number, part in enumerate(np.array_split(np.arange(N), 3)):
        np.save(tmp_path / f"X{number}.npy", X[part])
        np.save(tmp_path / f"y{number}.npy", Y[part])
    rows = open_rows(str(tmp_path / "X*.npy"), target=str(tmp_path / "y*.npy"))
    assert_identical(
        CompactSVR(12, refine=False, random_state=0).fit(X, Y), CompactSVR(12, refine=False, random_state=0).fit(rows)
    )


@pytest.mark.parametrize(
    "machine", [CompactSVC(12, C=None), CompactSVR(12)], ids=lambda machine: type(machine).__name__
)
def test_the_cost_is_found_on_the_same_rows_of_arrays_and_streams(machine):
    """Rows come again far apart in the stream, with other targets and weights; of all rows a sample is looked at."""
    X, y, value = make(6, n=2500)
    X, y = np.concatenate([X, X[:300]]), np.concatenate([y, 1 - y[:300]])
    value = np.concatenate([value, value[:300] + 1.0])
    w = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    target = y if isinstance(machine, CompactSVC) else value

    def blocks():
        for start in range(0, len(X), 250):
            here = slice(start, start + 250)
            yield X[here], target[here], w[here]

    machine.set_params(refine=False, random_state=1, memory_budget=1000)
    streamed = kompakt_clone(machine).fit(open_rows(blocks))
    machine.fit(X, target, w)
    assert machine.C_ == streamed.C_
    assert isinstance(machine, CompactSVC) or machine.C_ != 1.0  # a classifier's cost is raced, if it is refined
    assert_identical(machine, streamed)
    repeated = kompakt_clone(machine).fit(np.repeat(X, w.astype(int), axis=0), np.repeat(target, w.astype(int)))
    assert repeated.C_ == machine.C_


@pytest.mark.parametrize("coding", ["one_vs_rest", "one_vs_one", "minimum_output"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_classes_codings_weights(coding, class_weight):
    X, y, _ = make(2, classes=4)
    labels = np.array(["a", "b", "cc", "d"])[y]
    w = np.random.default_rng(0).integers(0, 3, N).astype(float)  # zeros are left out

    def blocks():
        for start in range(0, N, 500):
            here = slice(start, start + 500)
            yield X[here], labels[here], w[here]

    machine = CompactSVC(12, coding=coding, class_weight=class_weight, refine=False, memory_budget=1000, random_state=1)
    streamed = kompakt_clone(machine).fit(open_rows(blocks))
    machine.fit(X, labels, w)
    assert_identical(machine, streamed)
    np.testing.assert_array_equal(machine.classes_, streamed.classes_)


def test_the_basis_does_not_depend_on_blocks(data, monkeypatch):
    folder, _, y, _ = data
    found = []
    for least in (1024, 333):
        monkeypatch.setattr("kompakt.design._LEAST_ROWS", least)
        rows = open_rows(folder / "X.npy", target=y)
        found.append(CompactSVC(20, refine=False, memory_budget=1000, random_state=3).fit(rows))
    np.testing.assert_array_equal(found[0].basis_indices_, found[1].basis_indices_)
    np.testing.assert_allclose(found[0].dual_coef_, found[1].dual_coef_, rtol=1e-7, atol=1e-9)


def test_svmlight_is_the_csr_twin_bit_for_bit_and_the_dense_one_closely(tmp_path):
    X, y, _ = make(4)
    X = np.where(np.random.default_rng(1).random(X.shape) < 0.5, 0.0, np.round(X, 3))
    path = str(tmp_path / "rows.svm")
    dump_svmlight_file(X, y, path, zero_based=False)
    twin, labels = load_svmlight_file(path)
    options = {"n_basis": 15, "refine": False, "random_state": 2, "gamma": 0.3, "C": 0.3}
    streamed = CompactSVC(**options).fit(open_rows(path))
    assert_identical(CompactSVC(**options).fit(twin, labels), streamed)
    dense = CompactSVC(**options).fit(twin.toarray(), labels)
    np.testing.assert_array_equal(dense.basis_indices_, streamed.basis_indices_)
    difference = np.linalg.norm(dense.dual_coef_ - streamed.dual_coef_) / np.linalg.norm(dense.dual_coef_)
    assert difference < 1e-10


SAMPLED = {
    "CompactSVC": CompactSVC(15, refine=Refinement(10), random_state=1),
    "CompactSVC tuned": CompactSVC(8, refine=Refinement(3), tune=True, random_state=1),
    "CompactSVC renyi": CompactSVC(15, selection="renyi", refine=False, random_state=1),
    "SpSVC": SpSVC(15, random_state=1),
    "FixedSizeLSSVC": FixedSizeLSSVC(15, random_state=1),
    "FixedSizeLSSVC pairs": FixedSizeLSSVC(15, coding="one_vs_one", random_state=1),
    "FixedSizeLSSVC tuned": FixedSizeLSSVC(15, tune=True, cv=3, random_state=1),
    "ProjectedKernelFisher": ProjectedKernelFisher(15, reg=0.01, random_state=1),
    "ProjectedKernelFisher search": ProjectedKernelFisher(
        15, reg=0.01, bias="search", priors="empirical", random_state=1
    ),
    "KernelFisher": KernelFisher(reg=0.01),
    "ProjectedSVC": ProjectedSVC(15, random_state=1),
    "FEESVC": FEESVC(n_basis=12, C=10.0, random_state=1),
    "LocalSamplingSVC": LocalSamplingSVC(random_state=1),
    "CGLQSVC": CGLQSVC(random_state=1),
}


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.filterwarnings("ignore:.*rows.*are few:UserWarning")
def test_more_rows_than_fit_are_searched_on_a_sample(name, data, monkeypatch):
    """A sample of a third finds a machine about as good as all rows do; weights come from all rows where they can."""
    folder, X, y, _ = data
    monkeypatch.setattr(samples, "SAMPLE_ROWS", 1000)
    streamed = kompakt_clone(SAMPLED[name]).fit(open_rows(folder / "X.npy", target=y))
    fresh, labels, _ = make(9)
    few = slice(None, 1000 if name == "KernelFisher" else None)  # on all rows it takes its time
    whole = kompakt_clone(SAMPLED[name]).fit(X[few], y[few])
    assert streamed.score(fresh, labels) > whole.score(fresh, labels) - 0.05
    indices = getattr(streamed, "basis_indices_", None)
    if indices is not None:
        assert indices.max() > 1500  # numbers of the source's rows
        np.testing.assert_allclose(streamed.basis_vectors_, X[indices], rtol=1e-12)


def test_weights_after_a_sample_are_optimal_on_all_rows(data, monkeypatch):
    folder, X, y, _ = data
    monkeypatch.setattr(samples, "SAMPLE_ROWS", 1000)
    straight = Refinement(10, transform="identity")
    streamed = CompactSVC(15, refine=straight, random_state=1).fit(open_rows(folder / "X.npy", target=y))
    same = {"selection": streamed.basis_vectors_, "kernel": streamed.kernel_}  # which may map the inputs
    given = CompactSVC(15, refine=False, C=streamed.C_, random_state=1, **same).fit(X, y)
    np.testing.assert_allclose(streamed.objective_, given.objective_, rtol=1e-6)
    np.testing.assert_allclose(streamed.decision_function(X), given.decision_function(X), atol=1e-3)


def test_rare_classes_are_in_every_sample(monkeypatch):
    X, y, _ = make(3)
    y = np.where(np.arange(N) % 500 == 7, 2, y)  # seven rows
    monkeypatch.setattr(samples, "SAMPLE_ROWS", 1000)
    machine = CompactSVC(15, refine=Refinement(5), random_state=1).fit(open_rows([(X, y)]))
    assert list(machine.classes_) == [0, 1, 2]


def test_scale_is_part_of_the_model(tmp_path):
    X, y, _ = make(5)
    X = X * np.array([1.0, 100.0, 0.01, 1.0]) + np.array([0.0, 5.0, 1.0, 0.0])
    X[:, 3] = 7.0  # a constant column stays in its own units
    np.save(tmp_path / "X.npy", X)
    options = {"n_basis": 20, "refine": False, "random_state": 0, "gamma": 0.25}
    streamed = CompactSVC(**options).fit(open_rows(tmp_path / "X.npy", target=y, scale=True))
    scaler = StandardScaler().fit(X)
    machine = CompactSVC(**options).fit(scaler.transform(X), y)
    np.testing.assert_allclose(streamed.model_.inputs.scale, scaler.scale_, rtol=1e-12)
    # hashes see other last bits, so the two choose other rows: equally good ones
    assert abs(streamed.score(X, y) - machine.score(scaler.transform(X), y)) < 0.03
    kompakt.save(streamed, tmp_path / "machine.kompakt")
    np.testing.assert_array_equal(kompakt.load(tmp_path / "machine.kompakt").predict(X), streamed.predict(X))
    np.testing.assert_allclose(streamed.basis_vectors_, X[streamed.basis_indices_], rtol=1e-9)
    rows = open_rows(tmp_path / "X.npy", target=y, scale=True)
    refined = CompactSVC(20, refine=Refinement(5), random_state=0).fit(rows)
    assert refined.score(X, y) > streamed.score(X, y) - 0.01


def test_scale_of_sparse_rows(tmp_path):
    X, y, _ = make(6)
    X = sparse.csr_matrix(np.where(X > 2, X * [1, 10, 100, 1], 0.0))
    sparse.save_npz(tmp_path / "X.npz", X, compressed=False)
    streamed = CompactSVC(20, refine=False, random_state=0).fit(open_rows(tmp_path / "X.npz", target=y, scale=True))
    np.testing.assert_allclose(streamed.model_.inputs.scale, X.toarray().std(axis=0), rtol=1e-10)
    assert streamed.model_.inputs.shift is None
    assert streamed.score(X, y) > 0.7


def test_one_target_or_value_of_wrong_kind_is_refused(data, tmp_path):
    folder, X, y, _ = data
    rows = open_rows(folder / "X.npy", target=y)
    with pytest.raises(ValueError, match="y=None"):
        CompactSVC().fit(rows, y)
    with pytest.raises(ValueError, match="has no target"):
        CompactSVC().fit(open_rows(folder / "X.npy"))
    with pytest.raises(ValueError, match="Unknown label type"):
        CompactSVC().fit(open_rows(folder / "X.npy", target=X[:, 0]))
    with pytest.raises(ValueError, match="greater than one"):
        CompactSVC().fit(open_rows(folder / "X.npy", target=np.ones(N, int)))
    with pytest.raises(ValueError, match="cannot be streamed"):
        CompactSVC(kernel="precomputed").fit(rows)
    bad = X.copy()
    bad[1234, 2] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    with pytest.raises(ValueError, match=r"row 1234 of .*bad\.npy"):
        CompactSVC().fit(open_rows(tmp_path / "bad.npy", target=y))
    with pytest.raises(ValueError, match="zero for every row"):
        CompactSVC().fit(open_rows(folder / "X.npy", target=y, weight=np.zeros(N)))


def test_rows_that_change_between_passes_are_noticed():
    X, y, _ = make(7)
    passes = iter(range(100))

    def blocks():
        shift = next(passes)
        yield X[:1000], y[:1000]
        yield X[1000:] + (shift > 1), y[1000:]

    with pytest.raises(ValueError, match=r"block 1 .* is not the one"):
        CompactSVC(10, random_state=0).fit(open_rows(blocks))


def test_greedy_projection_takes_a_sample(data):
    folder, X, _, _ = data
    transformer = GreedyProjection(10, random_state=0)
    streamed = kompakt_clone(transformer).fit(open_rows(folder / "X.npy"))
    np.testing.assert_array_equal(transformer.fit(X).basis_indices_, streamed.basis_indices_)
    assert streamed.transform(X[:5]).shape == (5, 10)


def test_a_sample_of_sparse_rows_leaves_room_for_their_indices(caplog):
    """Two entries of a row and their indices take as much as three numbers: half of these rows fit, not all."""
    X = sparse.csr_array((np.ones(8000), np.tile([0, 1], 4000), np.arange(0, 8001, 2)), shape=(4000, 5))
    X.data[:] = np.random.default_rng(0).normal(size=8000)
    transformer = GreedyProjection(3, random_state=0, memory_budget=2000 * 24 * 3)
    with caplog.at_level("INFO", logger="kompakt"):
        transformer.fit(open_rows([(X, None)]))
    found = [record.args[1] for record in caplog.records if "trains on a sample" in record.msg]
    assert len(found) == 1
    assert 1700 < found[0] < 2300
    np.testing.assert_array_equal(transformer.basis_vectors_, X.toarray()[transformer.basis_indices_])
    assert not hasattr(transformer, "support_")
    caplog.clear()
    with caplog.at_level("INFO", logger="kompakt"):
        transformer.set_params(memory_budget=10**8).fit(open_rows([(X, None)]))
    assert not [record for record in caplog.records if "sample" in record.msg]


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_sample_has_room_for_its_kernel_values(is_sparse, caplog):
    """Twelve bytes for every entry, half as much again for sparse ones, and sixteen for every kernel value."""
    X, y, _ = make(4, n=4000)
    per_row = 12 * 4 * (1.5 if is_sparse else 1.0) + 16 * 5 + 64
    machine = CompactSVC(5, refine=Refinement(2), memory_budget=int(2000 * per_row), random_state=0)
    with caplog.at_level("INFO", logger="kompakt"):
        machine.fit(open_rows([(sparse.csr_array(X) if is_sparse else X, y)]))
    found = [record.args[0] for record in caplog.records if "search sees a sample" in record.msg]
    assert len(found) == 1
    assert 1850 < found[0] < 2150


def test_streamed_class_numbers_are_one_target_with_the_weights_of_the_rows():
    X, y, _ = make(2, n=50, classes=3)
    weights = np.arange(1.0, 51.0)
    machine = CompactSVC(5, class_weight={0: 7.0})
    for given, columns in ((None, 0), (weights, 1)):
        source = open_rows([(X, y)] if given is None else [(X, y, given)])
        data, _ = samples.prepare_stream(machine, source, None, None, Run(), machine._task())
        rows = samples.labelled_rows(data)
        assert (rows.n_outputs, rows.weight_columns) == (1, columns)
        block = rows.everything()
        np.testing.assert_array_equal(block.targets[:, 0], y)
        if given is None:
            assert block.weights is None
        else:
            np.testing.assert_array_equal(block.weights, weights)  # not times those of the classes


def test_a_fitted_machine_holds_no_rows(data):
    folder, _, y, _ = data
    streamed = CompactSVC(10, refine=False, random_state=0).fit(open_rows(folder / "X.npy", target=y))
    assert len(pickle.dumps(streamed)) < 50_000
    with pytest.raises(AttributeError):
        CompactSVC(10, random_state=0).fit(*make()[:2]).n_passes_


def test_given_vectors_and_warm_starts_are_in_the_units_of_the_rows():
    X, y, _ = make(8)
    X = X * np.array([1.0, 100.0, 0.01, 1.0])

    def rows():
        return open_rows([(X[:2000], y[:2000]), (X[2000:], y[2000:])], scale=True)

    given = CompactSVC(20, selection=X[:20], refine=False, random_state=0).fit(rows())
    np.testing.assert_allclose(given.basis_vectors_, X[:20], rtol=1e-9)
    machine = CompactSVC(10, refine=False, warm_start=True, random_state=0).fit(rows())
    first = machine.basis_vectors_
    machine.set_params(n_basis=15).fit(rows())
    np.testing.assert_allclose(machine.basis_vectors_[:10], first, rtol=1e-9)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_pairs_of_classes_after_a_sample(is_sparse, monkeypatch):
    """One-vs-one weights differ by output: each output is solved on its own rows of the stream."""
    X, y, _ = make(11, classes=3)
    X = sparse.csr_matrix(np.where(X > 1.5, X, 0.0)) if is_sparse else X
    monkeypatch.setattr(samples, "SAMPLE_ROWS", 1500)
    machine = FixedSizeLSSVC(15, coding="one_vs_one", shared_basis=True, C=1.0, gamma="scale", random_state=0)
    streamed = kompakt_clone(machine).fit(open_rows([(X[:2000], y[:2000]), (X[2000:], y[2000:])]))
    vectors = streamed.basis_vectors_
    whole = machine.set_params(selection=vectors, gamma=streamed.gamma_).fit(X, y)
    np.testing.assert_allclose(streamed.decision_function(X[:50]), whole.decision_function(X[:50]), atol=1e-6)


def test_a_regressor_refuses_labels():
    X, y, _ = make(12)
    with pytest.raises(ValueError, match="numbers as targets"):
        CompactSVR(5).fit(open_rows([(X, np.array(["no", "yes"])[y])]))


# -- one validator on every path ---------------------------------------------------------------------------


@pytest.mark.parametrize("absent", [None, np.nan, pd.NA], ids=["None", "NaN", "NA"])
@pytest.mark.parametrize(
    "kind", ["array", "npy", "blocks", "csv", "parquet", "dask frame", "dask series", "dask array"]
)
def test_missing_labels_are_no_class(kind, absent, tmp_path):
    X, y, _ = make(13, n=200)
    labels = np.array(["no", "yes"], dtype=object)[y]
    labels[57] = absent
    machine = CompactSVC(5, refine=False, random_state=0)
    given = {"array": (X, labels)}.get(kind)
    if kind in ("npy", "blocks"):
        np.save(tmp_path / "X.npy", X)
        given = (open_rows(tmp_path / "X.npy", target=labels) if kind == "npy" else open_rows([(X, labels)]),)
    if kind in ("csv", "parquet"):
        table = pd.DataFrame(X, columns=list("abcd")).assign(label=labels)
        getattr(table, f"to_{kind}")(tmp_path / f"rows.{kind}", index=False)
        given = (open_rows(tmp_path / f"rows.{kind}", target="label"),)
    if kind in ("dask frame", "dask series"):
        dd = pytest.importorskip("dask.dataframe")
        table = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")).assign(label=labels), npartitions=3)
        given = (open_rows(table, target="label"),)
        given = (table[list("abcd")], table["label"]) if kind == "dask series" else given
    if kind == "dask array":
        da = pytest.importorskip("dask.array")
        given = (da.from_array(X, chunks=(70, 4)), da.from_array(labels, chunks=70))
    with pytest.raises(ValueError, match=r"Input y contains missing values.*row 57|Input contains NaN"):
        machine.fit(*given)


@pytest.mark.parametrize("cell", ["", '""', "NA", "null", "NaN"])
def test_words_for_missing_labels_in_a_text(cell, tmp_path):
    X, y, _ = make(13, n=200)
    lines = [f"{x[0]},{x[1]},{'yes' if label else 'no'}" for x, label in zip(X, y, strict=True)]
    path = tmp_path / "rows.csv"

    def write(word):
        path.write_text("\n".join(["a,b,label", *lines[:9], f"1,2,{word}", *lines[9:]]) + "\n")
        return open_rows(path, target="label")

    with pytest.raises(ValueError, match=r"missing values.*row 9 of .*rows\.csv"):
        CompactSVC(5, refine=False).fit(write(cell))
    if cell.isalpha():  # in quotes it is a word like any other
        assert cell in CompactSVC(5, refine=False).fit(write(f'"{cell}"')).classes_


def test_shapes_and_types_that_arrays_are_checked_for(data):
    folder, X, y, _ = data
    machine = CompactSVC(5, refine=False, random_state=0)
    column = kompakt_clone(machine).fit(open_rows(folder / "X.npy", target=y[:, None]))
    assert_identical(machine.fit(X, y), column)
    with pytest.raises(ValueError, match="one dimension"):
        machine.fit(open_rows(folder / "X.npy", target=y, weight=np.ones((N, 2))))
    with pytest.raises(ValueError, match="complex"):
        machine.fit(open_rows([(X * 1j, y)]))
    with pytest.raises(ValueError, match="complex"):
        machine.fit(X, y).model_.predict(X * 1j)


def test_missing_whole_numbers_of_a_dask_frame_are_no_class():
    dd = pytest.importorskip("dask.dataframe")
    X, y, _ = make(13, n=200)
    table = pd.DataFrame(X, columns=list("abcd")).assign(y=pd.array([None, *y[1:]], dtype="Int64"))
    with pytest.raises(ValueError, match="row 0 of partition 0"):
        CompactSVC(5, refine=False).fit(open_rows(dd.from_pandas(table, npartitions=2), target="y"))
    with pytest.raises(ValueError, match="the weights contains NaN"):
        CompactSVR(5).fit(open_rows(dd.from_pandas(table, npartitions=2), target="a", weight="y", columns=["b"]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("machine", [CompactSVC(5, refine=False), CompactSVR(5, refine=False), ProjectedSVC(5)])
def test_rows_that_are_not_finite_are_not_predicted(machine, bad, tmp_path):
    """Not by arrays, streams or Dask collections, nor by a loaded model: none of them answers with the first class."""
    X, y, _ = make(14, n=200)
    machine = kompakt_clone(machine).fit(X, y)
    kompakt.save(machine, tmp_path / "machine.kompakt")
    loaded = kompakt.load(tmp_path / "machine.kompakt")
    X[123, 2] = bad
    np.save(tmp_path / "X.npy", X)
    table = pd.DataFrame(X, columns=list("abcd"))
    table.to_parquet(tmp_path / "rows.parquet")
    table.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        machine.predict(X)
    for name in ("X.npy", "rows.parquet", "rows.csv"):
        with pytest.raises(ValueError, match=f"NaN or infinity, first in row 123 of .*{name}"):
            machine.predict(open_rows(tmp_path / name))
    for answer in (loaded.predict, loaded.decision_function):
        for rows in (X, X.tolist(), sparse.csr_matrix(X), sparse.csc_matrix(X)):
            with pytest.raises(ValueError, match="NaN or infinity, first in row 123"):
                answer(rows)
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    with pytest.raises(ValueError, match="NaN or infinity, first in row 23 of a partition"):
        machine.predict(da.from_array(X, chunks=(100, 4))).compute()
    for frame in (table, table.astype("Float64")):  # nullable: NaN is NA there
        with pytest.raises(ValueError, match="NaN or infinity, first in row 23 of a partition"):
            machine.predict(dd.from_pandas(frame, npartitions=2)).compute()
