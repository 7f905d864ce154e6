"""Three hundred thousand rows far from the origin: every source gives the machine of the arrays, bit for bit.

At this size a pass has tasks of several blocks and a tree of several levels, and rows with a mean of 1000 show every
error of the centre.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from kompakt import (
    CompactSVC,
    CompactSVR,
    FixedSizeLSSVC,
    FixedSizeLSSVR,
    GramSelector,
    ProjectedKernelFisher,
    SpSVC,
    open_rows,
)

N = 300_007  # divides into no block
MACHINES = {
    "CompactSVC": CompactSVC(4, selection=GramSelector(16), refine=False, tol=1e-3, random_state=0),
    "CompactSVR": CompactSVR(4, selection=GramSelector(16), refine=False, random_state=0),
    "SpSVC": SpSVC(3, random_state=0),
    "FixedSizeLSSVC": FixedSizeLSSVC(4, random_state=0),
    "FixedSizeLSSVR": FixedSizeLSSVR(4, random_state=0),
    "ProjectedKernelFisher": ProjectedKernelFisher(4, random_state=0),
}
SOURCES = ("npy", "memmap", "parquet", "csv", "dask")


@pytest.fixture(scope="module", params=[np.float32, np.float64], ids=lambda kind: kind.__name__)
def rows(request, tmp_path_factory):
    """Arrays, and files of the same rows."""
    pyarrow, csv = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.csv")
    folder = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(N, 2))
    X = (Z + 1000.0).astype(request.param)
    label, value = (Z[:, 0] * Z[:, 1] > 0).astype(int), np.sin(Z[:, 0]) + Z[:, 1]
    weight = np.where(rng.random(N) < 0.1, 0.0, rng.uniform(0.1, 3.0, N))
    np.save(folder / "X.npy", X)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(label=label, value=value)
    table.to_parquet(folder / "rows.parquet", row_group_size=70_000)
    csv.write_csv(pyarrow.Table.from_pandas(table.astype({"a": float, "b": float})), folder / "rows.csv")
    found = SimpleNamespace(folder=folder, X=X, label=label, value=value, weight=weight, csv={})
    for column in ("label", "value"):
        found.csv[column] = open_rows(folder / "rows.csv", target=column, columns=["a", "b"])  # opening is a pass
    return found


def opened(rows, kind, column):
    y = getattr(rows, column)
    if kind == "npy":
        return open_rows(rows.folder / "X.npy", target=y)
    if kind == "memmap":
        return open_rows(np.load(rows.folder / "X.npy", mmap_mode="r"), target=y)
    if kind == "parquet":
        return open_rows(rows.folder / "rows.parquet", target=column, columns=["a", "b"])
    if kind == "csv":
        return rows.csv[column]
    da = pytest.importorskip("dask.array")
    return open_rows(da.from_array(rows.X, chunks=(80_000, 2)), target=da.from_array(y, chunks=90_000))


def assert_identical(one, other, what=""):
    for name in ("basis_vectors_", "dual_coef_", "intercept_", "gamma_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=f"{what} {name}")


@pytest.mark.parametrize("name", MACHINES)
def test_every_source_is_the_arrays_bit_for_bit(name, rows):
    column = "value" if name.endswith("SVR") else "label"
    machine = clone(MACHINES[name]).fit(rows.X, getattr(rows, column))
    for kind in SOURCES:
        expected = machine
        if kind == "csv" and rows.X.dtype == np.float32:  # numbers of a text are float64
            expected = clone(MACHINES[name]).fit(rows.X.astype(np.float64), getattr(rows, column))
        assert_identical(expected, clone(MACHINES[name]).fit(opened(rows, kind, column)), kind)


def test_weights_and_balanced_classes_are_summed_alike(rows):
    """Fractional weights, some of them zero: sums in another order would differ in the last bits."""
    machine = CompactSVC(4, selection=GramSelector(16), refine=False, tol=1e-3, class_weight="balanced", random_state=0)
    streamed = clone(machine).fit(open_rows(rows.folder / "X.npy", target=rows.label, weight=rows.weight))
    assert_identical(machine.fit(rows.X, rows.label, sample_weight=rows.weight), streamed)


@pytest.mark.parametrize(("far", "scale"), [(1e7, False), (1e8, True)])
def test_rows_far_away_are_learned_from_a_stream_too(far, scale):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150_000, 2))
    y = X[:, 0] * X[:, 1] > 0
    machine = CompactSVC(10, selection=GramSelector(40), refine=False, tol=1e-3, random_state=0)
    machine.fit(open_rows([(X[:-10_000] + far, y[:-10_000])], scale=scale))
    assert machine.score(X[-10_000:] + far, y[-10_000:]) > 0.98
