"""The one reader of text tables: what it opens, where it cuts, and that its two engines agree."""

from __future__ import annotations

import builtins
import csv
import gzip
import io

import numpy as np
import pytest
from tests.cli.tables.files import CASES, PLAIN

from kompakt import open_rows
from kompakt.cli.main import main
from kompakt.data import text
from kompakt.data.text import TextTable

TEXTS = [case for case in CASES if not case.fails and not case.name.endswith("parquet")]


def cells_of(path, **style):
    table = TextTable.recognise(str(path), **style)
    blocks = list(table.blocks())
    return {name: [cell for block in blocks for cell in block[name]] for name in table.names}, len(blocks)


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: case.name)
def test_both_engines_read_the_same_cells_in_blocks_of_any_size(tmp_path, monkeypatch, case):
    pytest.importorskip("pyarrow")
    path = tmp_path / case.name
    case.write(path)
    cells, n_blocks = cells_of(path)
    assert n_blocks == 1
    assert {len(column) for column in cells.values()} == {case.n_rows}
    monkeypatch.setattr(TextTable.texts, "__defaults__", (0, 200))
    assert cells_of(path)[0] == cells
    monkeypatch.setattr(text, "find_spec", lambda name: None)
    assert cells_of(path)[0] == cells


def odd_rows() -> list[list[str]]:
    rows = [["a", "b\nin two lines", "y"]]
    for number in range(60):
        word = ["plain", 'a "quoted" word', "two\nlines", "three\r\nor\n\n more", "; and ,", "", " spaced "][number % 7]
        rows.append([str(number / 8), word, "NA" if number == 5 else "yes"])
    return rows


@pytest.mark.parametrize("size", [1, 7, 50, 1 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("engine", ["pyarrow", None])
def test_blocks_end_where_rows_do(tmp_path, monkeypatch, size, end, delimiter, engine):
    if engine:
        pytest.importorskip("pyarrow")
    out = io.StringIO()
    quoting = csv.QUOTE_ALL if end == "\r" else csv.QUOTE_MINIMAL  # which would not quote \n
    csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(odd_rows())
    path = tmp_path / "rows.csv"
    path.write_bytes(out.getvalue().encode())
    monkeypatch.setattr(text, "find_spec", lambda name: engine)
    monkeypatch.setattr(TextTable.texts, "__defaults__", (0, size))
    cells, n_blocks = cells_of(path)
    assert [*cells] == odd_rows()[0]
    assert [*map(list, zip(*cells.values(), strict=True))] == [[cell.strip() for cell in row] for row in odd_rows()[1:]]
    assert n_blocks > 1 or size > 1000


def test_a_quote_within_a_cell_does_not_swallow_the_rows_below(tmp_path, monkeypatch):
    rows = [f'{number},{"5 inch" if number % 7 else """5" pipe"""},no' for number in range(300)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,y", *rows]))
    monkeypatch.setattr(TextTable.texts, "__defaults__", (0, 100))
    cells, n_blocks = cells_of(tmp_path / "rows.csv")
    assert cells["a"] == [str(number) for number in range(300)]
    assert cells["b"][:2] == ['5" pipe', "5 inch"]
    assert n_blocks > 20


@pytest.mark.parametrize("gap", ["", "NA"], ids=["numbers", "with a gap"])
def test_a_file_is_opened_once_to_look_and_once_to_read(tmp_path, monkeypatch, gap):
    rng = np.random.default_rng(0)
    lines = [f"{a:.4f},{b:.4f},{'yes' if a > b else 'no'}" for a, b in rng.normal(size=(200, 2))]
    lines[7] = lines[7].replace(lines[7].split(",")[0], gap or "0.5")
    data, model = tmp_path / "rows.csv", str(tmp_path / "m.kompakt")
    data.write_text("\n".join(["a,b,y", *lines]))
    opened, given = [], builtins.open

    def counted(path, *args, **more):
        opened.append(str(path))
        return given(path, *args, **more)

    monkeypatch.setattr(builtins, "open", counted)
    for words in (["train", data, model, "-n", "5"], ["predict", data, model, "--keep-columns"], ["auto", data]):
        opened.clear()
        assert main([*map(str, words), "-q"]) == 0
        assert opened.count(str(data)) == 2


def test_streamed_rows_are_read_as_those_of_the_command_line(tmp_path, monkeypatch):
    """Any usual separator, encoding and line end; names of two lines; gaps are NaN."""
    monkeypatch.setattr("kompakt.data.files.CHUNK_BYTES", 60)
    lines = ['"größe\nin €";b;kind', "0.5;1;\"two\nlines\"", "1.5;?;x", ";3;x", *(f"{n};{n};x" for n in range(40))]
    for encoding in ("utf-8", "utf-8-sig", "cp1252", "utf-16"):
        for end in ("\n", "\r\n", "\r"):
            path = tmp_path / f"{encoding}.csv"
            path.write_bytes(end.join(lines).encode(encoding))
            rows = open_rows(path, target="kind")
            assert rows.feature_names == ("größe\nin €", "b")
            assert len(rows.starts) > 3
            raw = rows.read(0, rows.n_rows)
            np.testing.assert_array_equal(raw.X[:4], [[0.5, 1.0], [1.5, np.nan], [np.nan, 3.0], [0.0, 0.0]])
            assert raw.y[:2].tolist() == ["two\nlines", "x"]
            assert rows.read(30, 31).X.tolist() == [[27.0, 27.0]]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["1", "2", "30000000000000001"], np.array([1, 2, 30000000000000001])),
        (["1", "", "3"], np.array([1.0, np.nan, 3.0])),
        (["1", "2.5", "3e2"], np.array([1.0, 2.5, 300.0])),
        (["True", "false", "TRUE"], np.array([True, False, True])),
        (["no", "None", "7"], np.array(["no", "None", "7"])),
        (["no", "NA", "7"], np.array(["no", None, "7"], dtype=object)),
    ],
)
def test_labels_of_streamed_rows_have_one_type(tmp_path, monkeypatch, labels, expected):
    monkeypatch.setattr("kompakt.data.files.CHUNK_BYTES", 1)
    (tmp_path / "rows.csv").write_text("a,y\n" + "".join(f"{n},{label}\n" for n, label in enumerate(labels)))
    y = open_rows(tmp_path / "rows.csv", target="y").read(0, 3).y
    assert y.dtype.kind == expected.dtype.kind
    np.testing.assert_array_equal(y, expected)


def test_a_word_among_numbers_is_named(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b,y\n1,2,no\n3,four,yes\n")
    with pytest.raises(ValueError, match=r"line 3, column 'b': 'four' is no number.*columns="):
        open_rows(tmp_path / "rows.csv", target="y").read(0, 2)


def test_a_packed_table_cannot_be_streamed(tmp_path):
    (tmp_path / "rows.csv").write_bytes(gzip.compress(PLAIN.encode()))
    with pytest.raises(ValueError, match="unpack it first"):
        open_rows(tmp_path / "rows.csv", target="answer")

