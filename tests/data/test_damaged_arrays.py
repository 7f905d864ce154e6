"""Damaged .npy and .npz files, and arrays without dimensions: an error that names the file and the cause."""

import numpy as np
import pytest
from benchmarks.attack.files import TARGETS, damaged
from scipy import sparse

from kompakt import open_rows
from kompakt.cli import main

X, y = np.arange(60.0).reshape(20, 3), np.arange(20) % 2
FILES = {
    "a.npy": lambda path: np.save(path, X),
    "a.npz": lambda path: np.savez(path, X=X, y=y),
    "s.npz": lambda path: sparse.save_npz(path, sparse.csr_matrix(X), compressed=False),
}


@pytest.mark.parametrize("name", FILES)
def test_damaged_headers_are_value_errors_that_name_the_file(name, tmp_path):
    path = tmp_path / name
    FILES[name](path)
    whole, rng = path.read_bytes(), np.random.default_rng(7)
    sound = 0  # read, or refused by name
    for _ in range(400):
        raw = bytearray(whole)
        for _ in range(rng.integers(1, 4)):  # in the header of an array, or in the directory of the archive
            front = name.endswith(".npy") or rng.random() < 0.5
            raw[rng.integers(0, 128) if front else rng.integers(len(raw) - 300, len(raw))] = rng.integers(256)
        path.write_bytes(raw[: rng.integers(len(raw))] if rng.random() < 0.1 else raw)
        try:
            rows = open_rows(path, target=y if name.startswith("s") else None)
            rows.read(0, rows.n_rows)
        except ValueError as error:
            sound += str(tmp_path) in str(error)
        else:
            sound += 1
    assert sound == 400


@pytest.mark.parametrize("damage", [b"PK\x03\x04 and no more", b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fo"])
def test_the_command_says_which_file_is_damaged(damage, tmp_path, capsys):
    path = tmp_path / ("a.npz" if damage.startswith(b"PK") else "a.npy")
    path.write_bytes(damage)
    assert main(["train", str(path), str(tmp_path / "m.kompakt"), "--target", "0"]) == 3
    assert str(path) in capsys.readouterr().err


def test_damaged_parquet_files_are_value_errors_that_name_the_file(tmp_path):
    pytest.importorskip("pyarrow")
    path = str(tmp_path / "rows.parquet")
    for case in (738, *range(60)):  # the first was a NotImplementedError
        with open(path, "wb") as file:
            file.write(damaged(TARGETS["Parquet rows"], case))
        try:
            rows = open_rows(path, target="label")
            rows.read(0, rows.n_rows)
        except ValueError as error:
            found = str(error)
        else:
            found = path
        assert path in found


def test_arrays_without_dimensions_are_no_rows(tmp_path):
    np.save(tmp_path / "one.npy", 3.0)
    np.save(tmp_path / "X.npy", X)
    np.savez(tmp_path / "X.npz", X=np.float64(3.0), y=y)
    np.savez(tmp_path / "y.npz", X=X, y=np.float64(3.0))
    for open_one in (
        lambda: open_rows(tmp_path / "one.npy"),
        lambda: open_rows(tmp_path / "X.npz"),
        lambda: open_rows(tmp_path / "y.npz"),
        lambda: open_rows(tmp_path / "X.npy", target=tmp_path / "one.npy"),
        lambda: open_rows(tmp_path / "X.npy", target=np.float64(3.0)),
        lambda: open_rows(tmp_path / "X.npy", target=y, weight=np.float64(3.0)),
    ):
        with pytest.raises(ValueError, match="single"):
            open_one()


def test_a_parquet_file_with_a_negative_number_of_rows_is_damaged(tmp_path):
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"a": np.arange(30.0), "label": np.arange(30)}), path)
    thirty, minus_thirty = b"\x16\x3c", b"\x16\x3b"  # a 64-bit field of Thrift's compact protocol
    raw = path.read_bytes()
    path.write_bytes(raw[:-400] + raw[-400:].replace(thirty, minus_thirty))
    with pytest.raises(ValueError, match=r"a\.parquet is a damaged Parquet file"):
        open_rows(str(path), target="label")
