"""What the command line decides by looking at a file (labels or values, header or row), and that it says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kompakt
from kompakt.cli.tables import recognise

from .conftest import rows


def write(path, X, y, header: str | None = None):
    lines = [] if header is None else [header]
    lines += [",".join([*(f"{cell:.4f}" for cell in row), str(target)]) for row, target in zip(X, y, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


# -- labels or values ---------------------------------------------------------------------------------------


def test_whole_number_prices_are_values(run, tmp_path):
    X, z = rows(400)
    prices = np.round(14 * z + 100).astype(int)
    assert 70 < len(np.unique(prices)) <= 100
    data = write(tmp_path / "prices.csv", X, prices, "a,b,c,price")
    done = run("train", data, "m.kompakt", "-n", 5, "--scale", "--json")
    assert done.json["task"] == "regress"
    assert "regression (-s classify if the target is a label)" in done.err
    assert kompakt.load("m.kompakt").kind == "regressor"


@pytest.mark.parametrize(
    ("n", "distinct", "task"),
    [(60, 10, "classes"), (60, 11, "regression"), (400, 20, "classes"), (400, 21, "regression")],
)
def test_labels_are_at_most_ten_or_a_twentieth_of_the_rows(run, tmp_path, n, distinct, task):
    X, _ = rows(n)
    data = write(tmp_path / "n.csv", X, np.arange(n) % distinct)
    done = run("bench", data, "--sizes", "2", "--exact-rows", "1")
    assert done.code in (0, 4), done.err
    flag = "-s regress" if task == "classes" else "-s classify"
    assert f"{task} ({flag}" in done.err


def test_the_flag_decides_otherwise_and_words_need_none(run, tmp_path, people):
    X, z = rows(100)
    data = write(tmp_path / "r.csv", X, (z > 0).astype(int))
    done = run("train", data, "m.kompakt", "-s", "regress", "-n", 3, "--scale")
    assert "features, regression\n" in done.err
    done = run("train", people, "w.kompakt", "--target", "hired", "--ignore", "name", "--impute", "median", "-n", 3)
    assert "features, 2 classes\n" in done.err


@pytest.mark.parametrize("command", [["train", "-v", "5"], ["auto", "-o", "m.kompakt"]])
def test_parts_of_the_rows_have_the_task_of_all(run, tmp_path, command):
    X, _ = rows(240)  # 12 labels are a twentieth of 240 rows, but more than that of the rows of a fold
    data = write(tmp_path / "twelve.csv", X, np.arange(240) % 12)
    done = run(command[0], data, *command[1:], "-n", 2, "--max-time", 0.1)
    assert done.code in (0, 4), done.err
    assert "12 classes" in done.err
    assert "accuracy" in done.out


def test_remarks_on_a_streamed_file_are_made_once(run, tmp_path):
    X, z = rows(300)
    data = write(tmp_path / "s.csv", X, (z > 0).astype(int), "a,b,c,target")
    done = run("train", data, "m.kompakt", "-n", 3, "--memory", "0.001", "--scale")
    assert done.err.count("target: column") == done.err.count("header:") == done.err.count("2 classes (-s ") == 1


# -- header or row ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["age,2020,c,way", "2019,2020,2021,way", "0,1,2,3"])
def test_a_header_with_numbers_in_it(run, tmp_path, header):
    X, z = rows(200)
    y = np.where(z > 0, "up", "down")
    data = write(tmp_path / "h.csv", X, y, header)
    flags = ["--header"] if header == "0,1,2,3" else []  # numbers alone cannot be told from a row
    done = run("train", data, "m.kompakt", "-n", 3, "--scale", *flags)
    assert done.code == 0, done.err
    model = kompakt.load("m.kompakt")
    assert model.classes.tolist() == ["down", "up"]
    assert model.feature_names.tolist() == header.split(",")[:3]
    assert ("names the columns (--no-header" in done.err) == (not flags)


def test_a_first_row_is_no_header(run, tmp_path):
    X, z = rows(200)
    data = write(tmp_path / "rows.csv", np.round(X), np.where(z > 0, "up", "down"))
    done = run("train", data, "m.kompakt", "-n", 3, "--scale", "--json")
    assert done.json["rows"] == 200
    assert "is a row (--header" in done.err
    done = run("train", data, "m.kompakt", "-n", 3, "--scale", "--json", "--header")
    assert done.json["rows"] == 199
    assert "header:" not in done.err


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("a,b\n1,2\n", True),
        ("PK,b\n1,2\n", True),  # no zip archive
        ("x,1\n3,2\n", True),  # a word above a number
        ("NA,1\n3,2\n4,5\n", False),  # a missing value
        ("?,1\n3,2\n4,5\n", False),
        (",,a\n" + "1,2,a\n3,4,b\n" * 20, False),
        ("5,3,a\n" + "1,2,a\n3,4,b\n" * 20, False),  # a label that comes again
        ("5.1,3.5,rare\n" + "1,2,a\n3,4,b\n" * 20, False),  # fractions are no names
        ("5,5,rare\n" + "1,2,a\n3,4,b\n" * 20, False),  # names are not equal
        ("5,3,a\n1,2,b\n3,4,b\n", False),  # too few rows to say
        ("name,age\nann,31\nbob,50\n", True),
        ("a,b,way\n" + "1,2,a\n3,4,b\n" * 20 + "a,b,way\n1,2,a\n", True),  # repeated where two files were joined
        ("a,b\n", True),
        ("1,2\n", False),
    ],
)
def test_headers_by_the_lines_below(tmp_path, text, header):
    (tmp_path / "t.csv").write_text(text)
    assert recognise(str(tmp_path / "t.csv")).header is header


def test_predict_and_scale_say_what_the_first_line_is(run, tmp_path):
    X, z = rows(100)
    data = write(tmp_path / "h.csv", X, (z > 0).astype(int), "age,2020,c,way")
    assert run("train", data, "m.kompakt", "-n", 3, "--scale", "-q").code == 0
    for command in (["predict", data, "m.kompakt", "out.csv"], ["scale", data, "scaled.csv"]):
        assert "names the columns (--no-header" in run(*command).err
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 101
    assert run("predict", data, "m.kompakt", "out.csv", "-q").err == ""


# -- words that fit -----------------------------------------------------------------------------------------


def test_missing_files_are_named_without_the_number_of_the_error(run, people):
    for words in (["train", "nowhere.csv", "m"], ["predict", people, "nowhere.kompakt"], ["inspect", "nowhere"]):
        done = run(*words)
        assert done.code == 3
        assert "nowhere" in done.err
        assert "Errno" not in done.err
    done = run("train", people, "absent/m.kompakt", "--target", "hired")
    assert done.code == 3
    assert "there is no folder" in done.err
    assert "Errno" not in done.err
    assert ".tmp" not in done.err


def test_the_faq_says_what_the_command_line_takes(run, people):
    page = (Path(__file__).resolve().parents[2] / "docs" / "faq.md").read_text()
    answer = page.split("## Can I use missing values or strings?")[1].split("##")[0]
    for word in ("0/1 column", "dates", "median", "--strict", "DataFrame"):
        assert word in answer
    done = run("train", people, "m", "--target", "hired", "-n", 5)
    assert done.code == 0
    assert "column 'name' is left out: all values are different" in done.err


def test_zip_archives_of_several_files_are_told_to_be_unpacked(run, tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "rows.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.csv", "a,b\n1,2\n")
        archive.writestr("more.csv", "a,b\n1,2\n")
    done = run("train", "rows.zip", "m")
    assert done.code == 3
    assert "zip archive of 2 files ('rows.csv', 'more.csv'); unpack it" in done.err
    assert "save_npz" not in done.err
    with zipfile.ZipFile(tmp_path / "rows.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
    assert "save its table as CSV" in run("train", "rows.xlsx", "m").err
    np.savez_compressed(tmp_path / "packed.npz", X=np.eye(3), y=np.arange(3))
    assert "numpy.savez(" in run("train", "packed.npz", "m").err
    (tmp_path / "cut.zip").write_bytes((tmp_path / "rows.zip").read_bytes()[:40])
    done = run("train", "cut.zip", "m")
    assert (done.code, "zip archive" in done.err) == (3, True)


def test_an_unnamed_index_of_pandas_is_left_out(run, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, z = rows(50)
    pandas.DataFrame(X, columns=list("abc")).assign(way=z > 0).to_csv(tmp_path / "frame.csv")
    done = run("train", "frame.csv", "m", "-n", 5)
    assert done.code == 0
    assert "column 'Unnamed: 0' is left out: it has no name, as the row names or row numbers of a data fr" in done.err
    assert kompakt.load("m").feature_names.tolist() == ["a", "b", "c"]
    assert run("train", "frame.csv", "m", "-n", 5, "--strict").code == 3


@pytest.mark.parametrize(("kind", "labels"), [("words", ("YES", "NO")), ("numbers", ("7", "8"))])
def test_labels_that_the_model_does_not_know_are_remarked(run, tmp_path, people, kind, labels):
    base = ["--target", "hired", "--ignore", "name", "--impute", "median", "-n", 5, "--scale"]
    assert run("train", people, "m.kompakt", *base).code == 0
    table = [line.rsplit(",", 1) for line in people.read_text().splitlines()]
    renamed = {"yes": labels[0], "no": labels[1], "hired": "hired"}
    (tmp_path / "other.csv").write_text("\n".join(f"{cells},{renamed[label]}" for cells, label in table))
    done = run("predict", "other.csv", "m.kompakt", "out.csv")
    assert "no row has a target to compare with" in done.out
    assert "300 of 300 targets are no labels of the model" in done.err
    assert "are not counted" in done.err
    assert f"'{labels[0]}'" in done.err
    assert "the model knows 'no', 'yes'" in done.err
    assert run("predict", "other.csv", "m.kompakt", "--json").json["unknown_labels"] == 300
    assert "no labels of the model" not in run("predict", people, "m.kompakt", "out.csv").err
    done = run("auto", people, "other.csv", *base[:4], "-n", 2, "--max-time", 0.1, "-o", "a.kompakt")
    assert "300 of 300 targets are no labels" in done.err


# -- identifiers --------------------------------------------------------------------------------------------


def noise(tmp_path, n: int = 300):
    """Rows of noise with sorted labels, of which a random part is written with its index: two files."""
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(n, 4))
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(y=np.where(np.arange(n) < n // 2, "no", "yes"))
    train = frame.sample(frac=0.7, random_state=0)
    train.to_csv(tmp_path / "tr.csv")
    frame.drop(train.index).to_csv(tmp_path / "te.csv")


def test_the_index_of_a_split_frame_is_not_learned_from(run, tmp_path):
    noise(tmp_path)
    done = run("auto", "tr.csv", "te.csv", "--target", "y", "-n", 5, "--max-time", 3, "-o", "m", "--json")
    assert done.code in (0, 4), done.err
    assert done.json["test"]["accuracy"] < 0.75
    assert done.err.count("column 'Unnamed: 0' is left out") == 1
    assert "(--keep 'Unnamed: 0' keeps it)" in done.err
    done = run("train", "tr.csv", "m", "--target", "y", "-n", 5, "--keep", "Unnamed: 0", "-s", "classify")
    assert "left out" not in done.err
    assert kompakt.load("m").feature_names.tolist() == ["Unnamed: 0", "a", "b", "c", "d"]
    assert run("predict", "te.csv", "m", "--json").json["accuracy"] > 0.9  # by the number of the row
    assert run("train", "tr.csv", "m", "--target", "y", "--keep", "nobody").code == 3


def test_a_key_is_left_out_and_a_whole_price_may_be_the_target(run, tmp_path):
    X, z = rows(200)
    order = np.random.default_rng(0).permutation(5000)[:200]
    prices = 10_000 + 7 * np.argsort(np.argsort(z))  # all different
    lines = [f"{key},{a:.3f},{b:.3f},{price}" for key, (a, b, _), price in zip(order, X, prices, strict=True)]
    (tmp_path / "p.csv").write_text("\n".join(["key,a,b,price", *lines]))
    done = run("train", "p.csv", "m", "-n", 5)
    assert "target: column 'price'" in done.err
    assert "column 'key' is left out: all values are different, as of an identifier (--keep key keeps it)" in done.err
    assert kompakt.load("m").feature_names.tolist() == ["a", "b"]
    assert "Leave it out with --ignore, have it with --keep key" in run("train", "p.csv", "m", "--strict").err
    assert run("train", "p.csv", "m", "-n", 5, "--strict", "--keep", "key").code == 0
    assert run("scale", "p.csv", "s.csv").code == 0
    assert (tmp_path / "s.csv").read_text().startswith("key,a,b,price\n")  # nothing is learned here


# -- labels as they are written -----------------------------------------------------------------------------


@pytest.mark.parametrize("gap", ["", "?"], ids=["plain numbers", "with a schema"])
@pytest.mark.parametrize(("labels", "memory"), [(("0.0", "1.0"), 512), (("0", "1"), 512), (("1.0", "2.0"), 0.001)])
def test_labels_come_back_as_they_are_written(run, tmp_path, labels, memory, gap):
    X, z = rows(100)
    data = write(tmp_path / "l.csv", X[:, :2], [labels[int(value > 0)] for value in z], "a,b,way")
    data.write_text(data.read_text() + f"{gap or 1},1,{labels[1]}\n")
    assert run("train", data, "m", "-n", 5, "-w", "1=2", "--memory", memory, "-q").code == 0
    assert set(run("predict", data, "m", "-q").out.split()[1:]) == set(labels)
    assert run("predict", data, "m", "--json").json["accuracy"] > 0.9


def test_counts_are_values_and_digits_are_labels(run, tmp_path):
    X, z = rows(600)
    rng = np.random.default_rng(0)
    for name, y, task in (
        ("visits", rng.poisson(np.exp(0.4 * z).clip(0, 4)).clip(0, 9), "regression (-s classify"),
        ("digit", rng.integers(0, 10, 600), "10 classes (-s regress"),
    ):
        data = write(tmp_path / f"{name}.csv", X, y, f"a,b,c,{name}")
        assert task in run("train", data, "m", "-n", 5, "--max-iter", 5).err
