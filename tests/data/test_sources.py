"""Every kind of source reads the rows that were written, and says what is wrong with those it cannot read."""

import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from kompakt import CompactSVC, open_rows
from kompakt.data import (
    ArrayRows,
    IterableSource,
    Passes,
    Raw,
    RowReader,
    Source,
    StreamedRows,
    hash_numbers,
)
from kompakt.data.files import ArraySource
from kompakt.data.streamed import READ_ROWS
from kompakt.testing import check_source

N, D = 57, 3
rng = np.random.default_rng(0)
X = rng.normal(size=(N, D))
Y = rng.integers(0, 3, N)
W = rng.uniform(1, 2, N)
SPARSE = sparse.csr_matrix(np.where(X > 0, X, 0.0))


def test_npy_and_memory_maps(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    check_source(open_rows(tmp_path / "X.npy", target=tmp_path / "y.npy", weight=W), X, Y, W)
    check_source(open_rows(np.load(tmp_path / "X.npy", mmap_mode="r"), target=Y), X, Y)
    raw = np.memmap(tmp_path / "raw.bin", np.float32, "w+", offset=64, shape=(N, D))
    raw[:] = X
    raw.flush()
    check_source(open_rows(raw, target=Y), X.astype(np.float32), Y)
    np.save(tmp_path / "integers.npy", Y[:, None] + np.arange(D))
    check_source(open_rows(tmp_path / "integers.npy", target=Y), (Y[:, None] + np.arange(D)).astype(float), Y)


def test_columns_of_npy_files(tmp_path):
    table = np.column_stack([Y, X, W])
    np.save(tmp_path / "table.npy", table)
    check_source(open_rows(tmp_path / "table.npy", target=0, weight=4), X, Y.astype(float), W)
    check_source(open_rows(tmp_path / "table.npy", target=[0, -1]), X, table[:, [0, 4]])
    check_source(open_rows(tmp_path / "table.npy", columns=[3, 1], target=W), X[:, [2, 0]], W)


def test_several_files_in_the_order_of_their_names(tmp_path):
    for number, part in enumerate(np.array_split(np.arange(N), 4)):
        np.save(tmp_path / f"X{number}.npy", X[part])
        np.save(tmp_path / f"y{number}.npy", Y[part])
    check_source(open_rows(str(tmp_path / "X?.npy"), target=str(tmp_path / "y?.npy")), X, Y)
    paths = sorted(tmp_path.glob("X*.npy"))
    check_source(open_rows(paths, target=Y), X, Y)
    assert "X3.npy" in open_rows(paths).where(N - 1)


def test_parquet(tmp_path):
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=pd.Categorical.from_codes(Y, ["x", "yy", "z"]), w=W)
    (tmp_path / "folder").mkdir()
    for number, part in enumerate(np.array_split(np.arange(N), 3)):
        table.iloc[part].to_parquet(tmp_path / "folder" / f"part-{number}.parquet", row_group_size=7, index=False)
    rows = open_rows(tmp_path / "folder", target="label", weight="w")
    check_source(rows, X, np.array(["x", "yy", "z"])[Y], W)
    assert rows.feature_names == ("a", "b", "c")
    assert "part-1.parquet" in rows.where(20)
    check_source(open_rows(tmp_path / "folder", target="w", columns=["c", "a"]), X[:, [2, 0]], W)
    table[["a", "b", "c"]].astype(np.float32).to_parquet(tmp_path / "single.parquet")
    check_source(open_rows(tmp_path / "single.parquet"), X.astype(np.float32))


def test_csv(tmp_path, monkeypatch):
    monkeypatch.setattr("kompakt.data.files.CHUNK_BYTES", 300)
    table = pd.DataFrame(X, columns=["a", "b", "c, d"]).assign(label=np.where(Y == 0, "no", "7"), n=Y, w=W)
    table.to_csv(tmp_path / "rows.csv", index=False)
    rows = open_rows(tmp_path / "rows.csv", target="label", weight="w", columns=["a", "b", "c, d"])
    check_source(rows, X, np.where(Y == 0, "no", "7"), W)
    assert len(rows.starts) > 5
    check_source(open_rows(tmp_path / "rows.csv", target="n", columns=["b"]), X[:, [1]], Y)
    table.drop(columns="label").to_csv(tmp_path / "plain.tsv", index=False, header=False, sep="\t")
    check_source(open_rows(tmp_path / "plain.tsv", target=3, weight=4, header=False), X, Y, W)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_svmlight_lines_may_end_as_they_like(tmp_path, end):
    (tmp_path / "rows.svm").write_bytes(end.join([b"1 1:0.5 3:2", b"-1 2:1 # a remark", b"1 1:4", b""]))
    raw = open_rows(tmp_path / "rows.svm").read(0, 3)
    assert raw.X.toarray().tolist() == [[0.5, 0.0, 2.0], [0.0, 1.0, 0.0], [4.0, 0.0, 0.0]]
    assert raw.y.tolist() == [1.0, -1.0, 1.0]


@pytest.mark.parametrize("zero_based", [False, True])
def test_svmlight(tmp_path, monkeypatch, zero_based):
    monkeypatch.setattr("kompakt.data.files.CHUNK_BYTES", 300)
    path = str(tmp_path / "rows.svm")
    dump_svmlight_file(SPARSE, Y, path, zero_based=zero_based, comment="a comment\nor two")
    twin, labels = load_svmlight_file(path)
    rows = open_rows(path)
    check_source(rows, twin, labels)
    assert len(rows.starts) > 5
    wide = open_rows(path, n_features=9)
    assert wide.n_features == 9
    np.testing.assert_array_equal(wide.read(3, 9).X.toarray()[:, :D], twin[3:9].toarray())


def test_comments_and_blank_lines_between_svmlight_rows(tmp_path, monkeypatch):
    """Ranges of bytes end among them; every row is read once."""
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{row} 1:{row + 1}\n# a comment\n\n" for row in range(9)))
    for size in range(1, 60, 3):
        monkeypatch.setattr("kompakt.data.files.CHUNK_BYTES", size)
        rows = open_rows(path)
        assert rows.read(0, rows.n_rows).y.tolist() == list(range(9))
    path.write_text("\n# nothing\n \n")
    with pytest.raises(ValueError, match="no rows"):
        open_rows(path)


def test_sparse_matrices_on_disk(tmp_path):
    sparse.save_npz(tmp_path / "X.npz", SPARSE, compressed=False)
    check_source(open_rows(tmp_path / "X.npz", target=Y), SPARSE, Y)
    folder = tmp_path / "parts"
    folder.mkdir()
    for name in ("data", "indices", "indptr"):
        np.save(folder / f"{name}.npy", getattr(SPARSE, name))
    np.save(folder / "shape.npy", SPARSE.shape)
    check_source(open_rows(folder, target=Y, weight=W), SPARSE, Y, W)
    np.savez(tmp_path / "dense.npz", X=X, y=Y)
    check_source(open_rows(tmp_path / "dense.npz"), X, Y)
    sparse.save_npz(tmp_path / "packed.npz", SPARSE)
    with pytest.raises(ValueError, match="compressed=False"):
        open_rows(tmp_path / "packed.npz", target=Y)
    sparse.save_npz(tmp_path / "csc.npz", SPARSE.tocsc(), compressed=False)
    with pytest.raises(ValueError, match="expected CSR"):
        open_rows(tmp_path / "csc.npz", target=Y)


def write_csr(folder, matrix, **changed):
    """A CSR matrix as a folder of .npy files, some of them changed."""
    folder.mkdir(exist_ok=True)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape, **changed}
    for name, values in parts.items():
        np.save(folder / f"{name}.npy", values)
    return folder


def with_entry(values, place, value, dtype=None):
    values = values.astype(values.dtype if dtype is None else dtype)
    values[place] = value
    return values


NNZ = SPARSE.nnz
DAMAGED = {
    "column beyond the last": ({"indices": with_entry(SPARSE.indices, 5, 10**8)}, r"entry in column 100000000"),
    "column one too far": ({"indices": with_entry(SPARSE.indices, NNZ - 1, D)}, r"columns 0 to 2"),
    "negative column": ({"indices": with_entry(SPARSE.indices, 5, -1)}, r"entry in column -1"),
    "column that wraps": ({"indices": with_entry(SPARSE.indices, 5, 2**32, np.int64)}, r"entry in column 4294967296"),
    "unsigned column": ({"indices": with_entry(SPARSE.indices, 5, 2**64 - 1, np.uint64)}, r"column 1844674407370955"),
    "NaN as column": ({"indices": with_entry(SPARSE.indices, 5, np.nan, np.float64)}, r"indices is float64"),
    "pointer beyond the entries": ({"indptr": with_entry(SPARSE.indptr, 50, NNZ + 100)}, r"row 50 .* never fall"),
    "last pointer beyond": ({"indptr": with_entry(SPARSE.indptr, N, NNZ + 100)}, r"row 56 .* within the entries"),
    "negative pointer": ({"indptr": with_entry(SPARSE.indptr, 50, -7)}, r"row 49 .* never fall"),
    "first pointer": ({"indptr": with_entry(SPARSE.indptr, 0, -7)}, r"begin at 0"),
    "pointer that wraps": ({"indptr": with_entry(SPARSE.indptr, N, 2**63 + 7, np.uint64)}, r"within the entries"),
    "pointers as floats": ({"indptr": SPARSE.indptr.astype(float)}, r"indptr is float64"),
    "shape too narrow": ({"shape": np.array([N, 2])}, r"columns 0 to 1"),
    "shape too short": ({"shape": np.array([N - 1, D])}, r"58 row pointers for 56 rows"),
    "negative shape": ({"shape": np.array([N, -D])}, r"shape is \(57, -3\)"),
    "shape of floats": ({"shape": np.array([N, np.nan])}, r"shape is float64"),
    "shape of three": ({"shape": np.array([N, D, 1])}, r"shape is \(57, 3, 1\)"),
    "too many columns": ({"shape": np.array([N, 2**40])}, r"1 to 2147483647 columns"),
    "fewer values": ({"data": SPARSE.data[:-3]}, r"values and \d+ column numbers"),
    "complex values": ({"data": SPARSE.data * 1j}, r"data is complex128"),
    "two dimensions": ({"indices": SPARSE.indices[:, None]}, r"expected one dimension"),
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("packed", [False, True], ids=["folder", "npz"])
def test_damaged_sparse_matrices_are_refused(name, packed, tmp_path):
    """Otherwise SciPy's routines read and write wherever the numbers point to."""
    changed, message = DAMAGED[name]
    path = write_csr(tmp_path / "X", SPARSE, **changed)
    if packed:
        parts = {file.stem: np.load(file) for file in path.glob("*.npy")}
        path = tmp_path / "X.npz"
        np.savez(path, format=np.array(b"csr"), **parts)
    with pytest.raises(ValueError, match=message):
        CompactSVC(5, refine=False).fit(open_rows(path, target=Y))


def test_sparse_rows_of_unequal_length_and_other_byte_orders(tmp_path, monkeypatch):
    monkeypatch.setattr("kompakt.data.files.CHUNK_BYTES", 200)
    dense = np.where(np.random.default_rng(3).random((N, 40)) < 0.02, 1.5, 0.0)
    dense[7:9] = 2.0  # two long rows among empty ones
    matrix = sparse.csr_matrix(dense)
    rows = open_rows(write_csr(tmp_path / "X", matrix), target=Y)
    assert len(rows.starts) > 5
    check_source(rows, matrix, Y)
    parts = {name: getattr(matrix, name) for name in ("data", "indices", "indptr")}
    swapped = {name: values.astype(values.dtype.newbyteorder(">")) for name, values in parts.items()}
    check_source(open_rows(write_csr(tmp_path / "swapped", matrix, **swapped), target=Y), matrix, Y)


def test_svmlight_features_below_the_first_are_refused(tmp_path):
    (tmp_path / "rows.svm").write_text("1 0:1 2:2\n-1 1:1\n")
    with pytest.raises(ValueError, match="feature number 0"):
        open_rows(tmp_path / "rows.svm", zero_based=False)


def header_only(path, shape, n_bytes=1600, dtype="<f8"):
    """A .npy file of few bytes whose header promises `shape`."""
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
        file.write(bytes(n_bytes))


@pytest.mark.parametrize("shape", [(60, 2**60), (2**60, 3), (60, 2**62), (67, 3), (-60, 3), (2**40, 2**40)])
def test_headers_that_promise_more_than_the_file_holds(shape, tmp_path):
    header_only(tmp_path / "X.npy", shape)
    with pytest.raises(ValueError, match="the file has 1600"):
        open_rows(tmp_path / "X.npy")
    header_only(tmp_path / "y.npy", shape[:1], 0)
    np.save(tmp_path / "whole.npy", X)
    with pytest.raises(ValueError, match="the file has 0"):
        open_rows(tmp_path / "whole.npy", target=tmp_path / "y.npy")
    with zipfile.ZipFile(tmp_path / "X.npz", "w") as archive:
        archive.write(tmp_path / "X.npy", "X.npy")
    with pytest.raises(ValueError, match=r"X\.npy of .*X\.npz ends before its rows do"):
        open_rows(tmp_path / "X.npz")
    folder = write_csr(tmp_path / "csr", SPARSE)
    header_only(folder / "indptr.npy", shape[:1], 0, "<i4")
    with pytest.raises(ValueError, match="the file has 0"):
        open_rows(folder, target=Y)


def test_rows_without_columns_are_refused(tmp_path):
    header_only(tmp_path / "X.npy", (2**60, 0), 0)
    with pytest.raises(ValueError, match="one column"):
        open_rows(tmp_path / "X.npy")


def test_columns_first_arrays_in_npz_files_are_refused(tmp_path):
    """Read as rows they would be other numbers."""
    np.savez(tmp_path / "X.npz", X=np.asfortranarray(X), y=Y)
    with pytest.raises(ValueError, match="column by column"):
        open_rows(tmp_path / "X.npz")


def test_zarr(tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(tmp_path / "rows.zarr"), mode="w")
    for name, values in (("X", X), ("y", Y)):
        stored = group.create_array(name, shape=values.shape, chunks=(10, *values.shape[1:]), dtype=values.dtype)
        stored[:] = values
    check_source(open_rows(tmp_path / "rows.zarr"), X, Y)
    check_source(open_rows(group["X"], target=Y), X, Y)


def test_blocks_that_can_be_iterated_over_again():
    parts = [(X[:20], Y[:20], W[:20]), (X[20:21], Y[20:21], W[20:21]), (X[21:], Y[21:], W[21:])]
    check_source(open_rows(parts), X, Y, W)
    check_source(IterableSource(_Blocks()), SPARSE, Y.astype(str))
    check_source(IterableSource([(X, None)]), X)
    with pytest.raises(TypeError, match="only once"):
        open_rows(part for part in parts)
    with pytest.raises(ValueError, match="differs from the first"):
        open_rows([(X, Y), (X[:, :2], Y)])
    with pytest.raises(TypeError, match="tuple"):
        open_rows([X, X])


class _Blocks:
    def __iter__(self):
        return ((SPARSE[start : start + 9], Y[start : start + 9].astype(str)) for start in range(0, N, 9))


class _Chunked(np.ndarray):
    """An array that says how it is stored, like those of zarr."""


def test_arrays_that_give_slices(monkeypatch):
    check_source(ArraySource(X, Y, W), X, Y, W)
    chunked = X.view(_Chunked)
    chunked.chunks = (10, D)
    monkeypatch.setattr("kompakt.data.files.CHUNK_BYTES", 500)
    rows = ArraySource(chunked, Y, W)
    assert rows.starts.tolist() == [*range(0, N, 20), N]
    check_source(rows, X, Y, W)
    with pytest.raises(ValueError, match="57 rows, but its target has 3"):
        open_rows(X, target=Y[:3])


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("rows.csv", "a,b,y\n1,red,0\n2,blue,1\n", {"target": "y"}, "encode"),
        ("rows.csv", "a,b,y\n1,2,0\n", {"target": "label"}, "no column 'label'"),
        ("rows.csv", "a,b,y\n", {"target": "y"}, "no rows"),
        ("rows.svm", "1 1:2 frog\n", {}, "svmlight"),
        ("rows.dat", "1 2 3\n", {}, "format"),
        ("rows.npy", "nonsense", {}, "npy"),
        ("rows.csv", "a,a\n1,2\n", {}, "several columns"),
    ],
)
def test_files_that_cannot_be_read_are_explained(tmp_path, name, content, options, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        open_rows(tmp_path / name, **options).read(0, 1)


def test_strings_in_a_table_are_refused_with_advice(tmp_path):
    table = pd.DataFrame({"a": [1.0, 2.0], "colour": ["red", "blue"], "y": [0, 1]})
    table.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=r"colour.*OneHotEncoder.*columns="):
        open_rows(tmp_path / "rows.parquet", target="y")
    assert open_rows(tmp_path / "rows.parquet", target="y", columns=["a"]).n_features == 1


def test_missing_values_name_file_and_row(tmp_path):
    table = pd.DataFrame({"a": np.arange(50.0), "y": np.arange(50) % 2})
    table.loc[37, "a"] = None
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=10)
    with pytest.raises(ValueError, match=r"row 37 of .*rows\.parquet"):
        CompactSVC(5).fit(open_rows(tmp_path / "rows.parquet", target="y"))


def test_arguments_that_make_no_sense(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "F.npy", np.asfortranarray(X))
    with pytest.raises(FileNotFoundError, match="no file matches"):
        open_rows(tmp_path / "none*.npy")
    with pytest.raises(TypeError, match="unknown options"):
        open_rows(tmp_path / "X.npy", delimiter=";")
    with pytest.raises(ValueError, match="column by column"):
        open_rows(tmp_path / "F.npy")
    with pytest.raises(TypeError, match="open already"):
        open_rows(open_rows(tmp_path / "X.npy"))
    with pytest.raises(TypeError, match=r"fit\(X, y\)"):
        open_rows(SPARSE)
    with pytest.raises(ValueError, match="a part of a memory map"):
        open_rows(np.load(tmp_path / "X.npy", mmap_mode="r")[3:])


def test_a_file_that_shrinks_is_noticed(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, X)
    rows = open_rows(path, target=Y)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="ends before row"):
        rows.read(0, N)


def test_passes_are_counted_and_rows_by_number_cost_none_twice():
    many = np.random.default_rng(1).normal(size=(3 * READ_ROWS + 5, 2))
    passes = Passes()
    rows = StreamedRows(RowReader(IterableSource([(many[:9000], None), (many[9000:], None)])), passes=passes)
    twin = ArrayRows(many)
    index = rows.smallest(5, 300)
    np.testing.assert_array_equal(index, twin.smallest(5, 300))
    assert passes.count == 1
    np.testing.assert_array_equal(rows.subset(index).X, many[index])
    np.testing.assert_array_equal(rows.take(index[::7]), many[index[::7]])
    assert passes.count == 1
    np.testing.assert_array_equal(rows.take(np.array([20000, 3, 20000])), many[[20000, 3, 20000]])
    assert passes.count == 2


def two_outputs(raw):
    """Targets and weights of two outputs, made of the raw ones."""
    return np.column_stack([raw.y, raw.y == 1]).astype(float), np.column_stack([raw.w, 2 * raw.w])


@pytest.mark.parametrize("rows", [X, SPARSE, X.astype(np.float32)], ids=["dense", "csr", "float32"])
def test_streamed_rows_answer_like_rows_in_memory(rows):
    offset = None if sparse.issparse(rows) else rows.mean(axis=0)
    targets, weights = two_outputs(Raw(rows, Y, W))
    source = IterableSource([(rows[:20], Y[:20], W[:20]), (rows[20:], Y[20:], W[20:])])
    streamed = StreamedRows(RowReader(source, two_outputs, offset=offset), 2, 2, float(weights.sum()))
    held = ArrayRows(rows, targets, weights, offset)
    assert (streamed.streamed, held.streamed) == (True, False)
    index = np.array([40, 3, 3, 56])

    def dense(values):
        return values.toarray() if sparse.issparse(values) else values

    def answers(one):
        yield from (one.shape, one.dtype, one.is_sparse, one.n_outputs, one.weight_columns, one.remote)
        yield from (one.targets, one.weights, one.hashes(5), one.smallest(5, 7), one.as_inputs(X))
        yield from (dense(one.take(index)), dense(one.originals(index)))
        yield one.collect(lambda block: dense(block.X).sum(axis=1) + block.targets[:, 1], 8, np.empty(N))
        yield from one.map_reduce(lambda block: (dense(block.X).T @ block.weights, block.start * block.targets), 57)
        for part in (one.subset(index), one.one_output(1)):
            yield from (part.n_rows, part.n_outputs, part.weight_columns, part.targets, part.weights)
            yield dense(part.take(np.arange(3)))
            yield dense(part.block(1, 4).X)

    for number, (far, near) in enumerate(zip(answers(streamed), answers(held), strict=True)):
        np.testing.assert_array_equal(far, near, err_msg=str(number))
    assert streamed.mass == pytest.approx(held.mass)
    assert streamed.one_output(0).mass == pytest.approx(streamed.mass / 2)
    assert held.one_output(1).mass == pytest.approx(2 * W.sum())


def test_samples_by_row_number_do_not_depend_on_blocks():
    many = np.arange(40_000.0)[:, None]
    found = []
    for step in (1000, 7777):
        source = IterableSource([(many[start : start + step], None) for start in range(0, 40_000, step)])
        rows = StreamedRows(RowReader(source))
        found.append(rows.sample(lambda raw: np.full(len(raw), 0.1), key=3).numbers)
    np.testing.assert_array_equal(*found)
    assert 3700 < len(found[0]) < 4300
    # the hash of a number is no line: chosen rows are spread evenly
    assert np.abs(np.histogram(found[0], 10)[0] / 400 - 1).max() < 0.25
    assert len(np.unique(hash_numbers(0, 1000, 1))) == 1000


def test_zero_weights_leave_rows_out():
    kept = np.flatnonzero(Y > 0)
    rows = StreamedRows(RowReader(IterableSource([(X[:30], Y[:30]), (X[30:], Y[30:])]), kept=kept))
    assert rows.n_rows == len(kept)
    np.testing.assert_array_equal(rows.block(2, 9).X, X[kept[2:9]])
    np.testing.assert_array_equal(
        rows.map_reduce(lambda block: (block.X.sum(axis=0),), 4)[0].round(9), X[kept].sum(axis=0).round(9)
    )


def test_predictions_of_streamed_rows(tmp_path):
    np.save(tmp_path / "X.npy", X)
    machine = CompactSVC(5, refine=False, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(machine.predict(open_rows(tmp_path / "X.npy")), machine.predict(X))
    assert isinstance(open_rows(tmp_path / "X.npy"), Source)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_index_of_a_data_frame_is_no_feature(tmp_path, ending):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": np.arange(60) / 7, "y": np.arange(60) % 2}).sample(frac=0.5, random_state=0)
    path = tmp_path / f"frame.{ending}"
    frame.to_csv(path) if ending == "csv" else frame.to_parquet(path)
    with pytest.warns(UserWarning, match=r"left out: it has no name.*columns=\[\.\.\.\] keeps") as caught:
        rows = open_rows(str(path), target="y")
    assert (rows.feature_names, len(caught), caught[0].filename) == (("a",), 1, __file__)
    name = "Unnamed: 0" if ending == "csv" else "__index_level_0__"
    assert open_rows(str(path), target="y", columns=[name, "a"]).feature_names == (name, "a")
