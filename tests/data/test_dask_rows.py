"""Dask arrays and DataFrames: the same machines to the last bit, with and without a cluster."""

import contextlib
import logging
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import kompakt
from kompakt import (
    CompactNovelty,
    CompactSVC,
    CompactSVR,
    FixedSizeLSSVC,
    FixedSizeLSSVR,
    ProjectedKernelFisher,
    Refinement,
    SpSVC,
    open_rows,
)
from kompakt.data import dask as dask_rows
from kompakt.data.dask import BlockError, ClusterError, DaskSource, _groups
from kompakt.data.rows import ArrayRows, sum_blocks, tree_sum
from kompakt.run import Run
from kompakt.train.data import prepare
from kompakt.train.task import Numbers

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
distributed = pytest.importorskip("distributed")

MACHINES = {
    "CompactSVC": CompactSVC(n_basis=12, refine=False, random_state=0, n_jobs=1),
    "CompactSVC refined": CompactSVC(n_basis=5, refine=Refinement(3), random_state=0, n_jobs=1),
    "CompactSVR": CompactSVR(n_basis=12, refine=False, random_state=0, n_jobs=1),
    "CompactNovelty": CompactNovelty(n_basis=12, refine=False, random_state=0, n_jobs=1),
    "SpSVC": SpSVC(n_basis=8, random_state=0, n_jobs=1),
    "FixedSizeLSSVC": FixedSizeLSSVC(n_basis=12, random_state=0, n_jobs=1),
    "FixedSizeLSSVR": FixedSizeLSSVR(n_basis=12, random_state=0, n_jobs=1),
    "ProjectedKernelFisher": ProjectedKernelFisher(n_basis=12, random_state=0, n_jobs=1),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3000, 4)) + 3.0
    score = np.sin(2 * X[:, 0]) + X[:, 1] - 3.0
    return X, np.array(["low", "middle", "high"])[np.digitize(score, [-0.7, 0.7])], score


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Many blocks and tasks from few rows."""
    monkeypatch.setattr(kompakt.design, "_LEAST_ROWS", 64)


@pytest.fixture(scope="module")
def expected(data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kompakt.design, "_LEAST_ROWS", 64)
        return {name: fitted(name, data[0], data) for name in MACHINES}


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes on this machine, ended after the module."""
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        silence_logs=logging.CRITICAL,
    ) as here:
        yield here


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as connected:
        yield connected


def target_of(name, data):
    if "Novelty" in name:
        return np.where(data[2] > 1.5, -1, 1)
    return data[2] if "SVR" in name else data[1]


def fitted(name, X, data, **more):
    y = target_of(name, data)
    return clone(MACHINES[name]).fit(X, y if isinstance(X, np.ndarray) else da.from_array(y, chunks=900), **more)


def agree(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("basis_vectors_", "dual_coef_", "intercept_")
    )


# -- the same machine everywhere -----------------------------------------------------------------------


@pytest.mark.parametrize("name", MACHINES)
def test_threaded(name, data, expected):
    machine = fitted(name, da.from_array(data[0], chunks=(1100, 4)), data)
    assert agree(machine, expected[name])
    assert machine.n_features_in_ == 4


@pytest.mark.parametrize("name", MACHINES)
def test_two_worker_processes(name, data, expected, client):
    assert agree(fitted(name, da.from_array(data[0], chunks=(1100, 4)), data), expected[name])


@pytest.mark.parametrize("n_workers", [1, 4])
def test_any_number_of_workers(n_workers, data, expected):
    with (
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=False,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as here,
        distributed.Client(here),
    ):
        rows = da.from_array(data[0], chunks=(700 + 500 * n_workers, (2, 2)))  # row ranges do not depend on partitions
        for name in MACHINES:
            assert agree(fitted(name, rows, data), expected[name]), name


@pytest.mark.parametrize(
    "machine",
    [
        CompactSVC(15, loss="hinge", gamma=0.5, refine=False, memory_budget=50_000, random_state=0),
        CompactSVR(15, loss="epsilon_insensitive", gamma=0.5, refine=False, memory_budget=50_000, random_state=0),
    ],
)
def test_losses_whose_solver_keeps_residuals(machine, data, client):
    """What workers write into arrays of the driver is lost, so the residuals must be brought back."""
    X, y = data[0], target_of(type(machine).__name__, data)
    near = clone(machine).fit(X, y)
    far = clone(machine).fit(da.from_array(X, chunks=(900, 4)), da.from_array(y, chunks=900))
    assert_array_equal(far.dual_coef_, near.dual_coef_)
    assert_array_equal(far.intercept_, near.intercept_)


def test_functions_cannot_write_on_a_cluster_but_their_values_come_back(data, client):
    source = DaskSource(da.from_array(data[0], chunks=(900, 4)), da.from_array(data[2], chunks=900))
    rows = prepare(CompactSVR(), source, None, None, Run(), task=Numbers())[0].rows
    assert rows.remote
    assert not hasattr(rows, "for_each"), "arrays of this process are copies there: what functions write is lost"
    out = rows.collect(lambda block: block.targets[:, 0], 100, np.empty(len(data[0])))
    assert_array_equal(out, data[2])


def test_weights_and_rows_of_weight_zero(data, client):
    X, labels, _ = data
    weights = np.random.default_rng(0).integers(0, 3, size=len(X)).astype(float)
    machine = clone(MACHINES["CompactSVC"])
    whole = clone(machine).fit(X, labels, sample_weight=weights)
    lazy = [da.from_array(values, chunks=1300) for values in (labels, weights)]
    rows = da.from_array(X, chunks=(1300, 4))
    for given in ((rows, *lazy), (rows, labels, weights)):
        assert agree(clone(machine).fit(*given), whole)
    assert agree(clone(machine).fit(rows, y=lazy[0], sample_weight=lazy[1]), whole)
    with dask.config.set(scheduler="threads"):  # the client is there, but not asked for
        assert DaskSource(rows).cluster() is None
        assert agree(clone(machine).fit(rows, *lazy), whole)


def test_frames_with_names_words_and_weights(data, expected, client):
    X, labels, _ = data
    names = list("abcd")
    table = pd.DataFrame(X, columns=names).assign(label=labels, weight=np.ones(len(X)))
    frame = dd.from_pandas(table, npartitions=3)
    machine = clone(MACHINES["CompactSVC"])
    rows = open_rows(frame, target="label", weight="weight")
    assert rows.feature_names == tuple(names)
    one = clone(machine).fit(rows)
    two = clone(machine).fit(frame[names], frame["label"])
    for found in (one, two):
        assert agree(found, expected["CompactSVC"])
        assert list(found.feature_names_in_) == names
    scaled = clone(machine).fit(open_rows(frame[[*names, "label"]], target="label", scale=True))
    assert agree(scaled, clone(machine).fit(open_rows(X, target=labels, scale=True)))
    assert_allclose(scaled.model_.inputs.shift, X.mean(axis=0), rtol=1e-9)


def test_sparse_blocks_and_unknown_chunks(data):
    X, _, score = data
    X = np.where(np.abs(X - 3.0) > 1.0, X, 0.0)
    machine = clone(MACHINES["CompactSVR"])
    whole = clone(machine).fit(sparse.csr_matrix(X), score)
    blocks = da.from_array(X, chunks=(1600, 4)).map_blocks(sparse.csr_matrix)
    assert agree(clone(machine).fit(blocks, score), whole)
    positive = da.from_array(X, chunks=(1600, 4))
    positive = positive[positive[:, 0] >= 0]
    assert np.isnan(positive.shape[0])
    kept = X[:, 0] >= 0
    assert agree(clone(machine).fit(positive, score[kept]), clone(machine).fit(X[kept], score[kept]))


def test_single_precision(data):
    X = data[0].astype(np.float32)
    machine = clone(MACHINES["FixedSizeLSSVR"])
    assert agree(machine.fit(da.from_array(X, chunks=(999, 4)), data[2]), clone(machine).fit(X, data[2]))


def test_checkpoints_of_passes_on_a_cluster(data, expected, client, tmp_path):
    machine = fitted("CompactSVC", da.from_array(data[0], chunks=(1100, 4)), data, checkpoint=tmp_path / "fit")
    assert agree(machine, expected["CompactSVC"])
    assert not list(tmp_path.iterdir())


# -- predictions ------------------------------------------------------------------------------------------


def test_predictions_are_lazy(data, expected):
    X, _, score = data
    read = []

    def load(block):
        read.append(len(block))
        return block

    rows = da.from_array(X, chunks=(1500, 4)).map_blocks(load, dtype=float, meta=np.empty((0, 4)))
    machine = expected["CompactSVC"]
    predicted, scores = machine.predict(rows), machine.decision_function(rows)
    assert isinstance(predicted, da.Array)
    assert predicted.shape == (3000,)
    assert scores.shape == (3000, 3)
    assert not read
    assert np.array_equal(predicted.compute(), machine.predict(X))
    assert_allclose(scores.compute(), machine.decision_function(X), rtol=1e-12, atol=1e-12)
    values = expected["CompactSVR"].predict(rows.rechunk((1500, (1, 3))))
    assert_allclose(values.compute(), expected["CompactSVR"].predict(X), rtol=1e-12)
    two = clone(MACHINES["CompactSVC"]).set_params(calibrate=True).fit(X, score > 0)
    assert two.decision_function(rows).shape == (3000,)
    assert_allclose(two.predict_proba(rows).compute(), two.predict_proba(X), rtol=1e-10)


def test_frames_give_series(data):
    X, labels, score = data
    table = pd.DataFrame(X, columns=list("abcd"), index=np.arange(3000) * 2)
    frame = dd.from_pandas(table, npartitions=4)
    machine = clone(MACHINES["CompactSVC"]).fit(table, labels)
    predicted = machine.predict(frame)
    assert isinstance(predicted, dd.Series)
    found = predicted.compute()
    assert list(found.index) == list(table.index)
    assert np.array_equal(found.to_numpy().astype(str), machine.predict(table))
    scores = machine.decision_function(frame).compute()
    assert list(scores.columns) == list(machine.classes_)
    assert_allclose(scores.to_numpy(), machine.decision_function(table), rtol=1e-12, atol=1e-12)
    values = clone(MACHINES["CompactSVR"]).fit(table, score).predict(frame)
    assert isinstance(values, dd.Series)
    with pytest.raises(ValueError, match="feature names should match"):
        machine.predict(frame[["b", "a", "c", "d"]])


def test_what_cannot_be_predicted(data, expected):
    with pytest.raises(NotFittedError):
        CompactSVC().predict(da.ones((3, 4)))
    with pytest.raises(ValueError, match="expects 4 features"):
        expected["CompactSVC"].predict(da.ones((3, 5)))


# -- blocks that fail ---------------------------------------------------------------------------------------


def flaky(block, often, folder, block_info=None):
    """Fails as often as told for every block, counted in files: tasks may run in any process."""
    number = block_info[0]["chunk-location"][0]
    tried = len(list(folder.glob(f"{number}-*")))
    if tried < often:
        (folder / f"{number}-{tried}").touch()
        raise OSError(f"disk of block {number} is away")
    return block


def poisoned(block, block_info=None):
    if block_info and block_info[0]["chunk-location"][0] == 2:
        raise OSError("cannot be read")
    return block


@pytest.mark.parametrize("where", ["threads", "cluster"])
def test_reading_is_tried_again(where, data, expected, request, tmp_path):
    if where == "cluster":
        request.getfixturevalue("client")
    rows = da.from_array(data[0], chunks=(1100, 4)).map_blocks(flaky, 3, tmp_path, dtype=float, meta=np.empty((0, 4)))
    assert agree(fitted("CompactSVR", rows, data), expected["CompactSVR"])
    assert len(list(tmp_path.iterdir())) == 9


@pytest.mark.parametrize("where", ["threads", "cluster"])
def test_a_block_that_always_fails_is_named(where, data, request):
    if where == "cluster":
        request.getfixturevalue("client")
    rows = da.from_array(data[0], chunks=(1000, 4)).map_blocks(poisoned, dtype=float, meta=np.empty((0, 4)))
    with pytest.raises(
        BlockError, match=r"partition 2 of the Dask array \(rows 2000 to 2999\).*OSError: cannot be read"
    ):
        fitted("CompactSVR", rows, data)


def test_errors_of_the_fit_itself_stay_what_they_are(data, client):
    X = data[0].copy()
    X[2321, 1] = np.nan
    with pytest.raises(ValueError, match="row 321 of partition 2 of the Dask array"):
        fitted("CompactSVC", da.from_array(X, chunks=(1000, 4)), data)


def test_what_is_refused(data):
    X, labels, _ = data
    rows = da.from_array(X, chunks=(1000, 4))
    table = pd.DataFrame(X, columns=list("abcd")).assign(label=labels)
    frame = dd.from_pandas(table, npartitions=3)
    machine = CompactSVC(n_basis=3)
    with pytest.raises(ValueError, match=r"'label'.*are no numbers"):
        machine.fit(frame, frame["a"] > 0)
    with pytest.raises(ValueError, match="has 7 rows and X 3000"):
        machine.fit(rows, da.zeros(7))
    with pytest.raises(ValueError, match="two dimensions"):
        machine.fit(da.zeros(7), da.zeros(7))
    with pytest.raises(ValueError, match="requires y"):
        machine.fit(rows)
    with pytest.raises(TypeError, match="column or a Dask Series"):
        machine.fit(frame[["a", "b"]], labels)
    with pytest.raises(ValueError, match="partitions"):
        machine.fit(frame[["a", "b"]], frame["label"].repartition(npartitions=1))
    with pytest.raises(ValueError, match="is for tables"):
        open_rows(rows, columns=["a"])
    with pytest.raises(ValueError, match="holds no rows"):
        open_rows(da.zeros((0, 3)))
    sent = pickle.loads(pickle.dumps(DaskSource(rows)))
    with pytest.raises(RuntimeError, match="has no partitions"):
        sent.read(0, 3)


# -- the parts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 63, 64, 65, 200])
@pytest.mark.parametrize("group", [1, 2, 8])
def test_the_tree_on_the_cluster_is_that_of_rows_in_memory(n, group):
    leaves = [(np.array(value),) for value in np.random.default_rng(n).normal(size=n) * 10.0 ** np.arange(n)[::-1]]
    nodes = [tree_sum(part) for part in _groups(leaves, group)]
    while len(nodes) > 1:
        nodes = [tree_sum(nodes[at : at + dask_rows.FAN_IN]) for at in range(0, len(nodes), dask_rows.FAN_IN)]
    assert nodes[0] == tree_sum(leaves)


def test_sums_leave_their_inputs_as_they_are():
    """A task must leave its inputs as they are: they may be needed again after a worker was lost."""
    parts = [(np.ones(2),), (np.ones(2),)]
    assert tree_sum(parts)[0].tolist() == [2.0, 2.0]
    rows = ArrayRows(np.ones((2, 1)))
    assert sum_blocks(lambda block: parts[block.start], 1, rows, (0, 2))[0].tolist() == [2.0, 2.0]
    assert parts[0][0].tolist() == [1.0, 1.0]


def test_dask_is_imported_only_when_it_is_there():
    program = "import sys, kompakt; kompakt.CompactSVC; print('dask' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


# -- clusters that go away, and partitions that are not what they should be ------------------------------


def odd_partitions(bad):
    """Four partitions of 50 rows and 3 columns, the third of which is `bad`."""
    good = [np.random.default_rng(number).normal(size=(50, 3)) for number in range(4)]
    good[2] = bad
    return da.concatenate([da.from_delayed(dask.delayed(one), (50, 3), float) for one in good])


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (np.ones((50, 4)), r"partition 2 of the Dask array has shape \(50, 4\); expected \(50, 3\)"),
        (np.ones((49, 3)), r"partition 2 of the Dask array has shape \(49, 3\); expected \(50, 3\)"),
        (np.ones((50, 3)) + 1j, "partition 2 of the Dask array holds complex numbers"),
    ],
    ids=["columns", "rows", "complex"],
)
@pytest.mark.parametrize("clustered", [False, True])
def test_a_partition_that_is_not_as_promised_is_named(bad, said, clustered, cluster):
    machine, y = CompactSVC(n_basis=5, refine=False, random_state=0), np.arange(200) % 2
    client = distributed.Client(cluster) if clustered else contextlib.nullcontext()
    with client, pytest.raises(ValueError, match=said):
        machine.fit(odd_partitions(bad), da.from_array(y, chunks=50))


def test_a_partition_of_a_table_that_is_not_as_promised_is_named():
    def table(number, **more):
        return pd.DataFrame({"a": np.arange(5.0) + number, "b": np.ones(5), "y": np.arange(5) % 2, **more})

    for last, said in (
        (table(1).drop(columns="b"), "partition 1 of the Dask DataFrame lacks the columns \\['b'\\]"),
        (table(1, b=np.ones(5) * 1j), "partition 1 of the Dask DataFrame holds complex"),
    ):
        parts = [dask.delayed(one) for one in (table(0), last)]
        frame = dd.from_delayed(parts, meta=table(0), verify_meta=False)
        with pytest.raises(ValueError, match=said):
            open_rows(frame, target="y").read(0, 10)


def test_complex_numbers_are_refused_at_once():
    with pytest.raises(ValueError, match="complex"):
        open_rows(da.ones((10, 2), chunks=5, dtype=complex), target=np.arange(10))


CLUSTER = """
import sys, time
import distributed
if __name__ == "__main__":
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1",
                                  silence_logs=50) as here:
        print(here.scheduler_address, flush=True)
        for line in sys.stdin:
            here.scale(0)
            print("gone", flush=True)
"""


@pytest.mark.parametrize("trouble", ["no workers", "no scheduler"])
def test_a_cluster_that_is_gone_is_an_error_that_names_it(trouble, monkeypatch):
    monkeypatch.setattr(dask_rows, "PATIENCE", 2.0)
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        address = process.stdout.readline().strip()
        timeouts = {"distributed.comm.timeouts.connect": "2s"}
        with dask.config.set(timeouts), distributed.Client(address, timeout=5) as client:
            if trouble == "no workers":
                print("scale", file=process.stdin, flush=True)
                assert process.stdout.readline().strip() == "gone"
            else:
                process.kill()
                process.wait()
            began = time.monotonic()
            X = da.random.default_rng(0).normal(size=(400, 3), chunks=(100, 3))
            with pytest.raises(ClusterError, match=f"the Dask cluster at {address} .*(no worker|does not answer)"):
                CompactSVC(n_basis=5, refine=False).fit(X, da.from_array(np.arange(400) % 2, chunks=100))
            assert time.monotonic() - began < 30
            client.close(timeout=1)
    finally:
        process.kill()
        process.communicate()
        dask.config.set(scheduler=None)  # a client whose scheduler was killed leaves itself behind


def test_intervals_of_collections_are_lazy_too(data):
    X, _, score = data
    for y in (score, np.column_stack([score, score])):
        machine = CompactSVR(5, refine=False, interval=0.9, random_state=0).fit(X, y)
        lazy = machine.predict_interval(da.from_array(X, chunks=(900, 4)))
        assert isinstance(lazy, da.Array)
        assert_array_equal(lazy.compute(), machine.predict_interval(X))


def test_scores_of_collections_are_lazy_too(data):
    machine = CompactNovelty(5, refine=False, random_state=0).fit(da.from_array(data[0], chunks=(900, 4)))
    lazy = machine.score_samples(da.from_array(data[0], chunks=(900, 4)))
    assert_allclose(lazy.compute(), machine.score_samples(data[0]))
