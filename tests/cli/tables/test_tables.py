"""`kompakt auto FILE` on tables as people have them: the schema, what is printed, and the predictions."""

from __future__ import annotations

import csv
import gzip
from argparse import Namespace
from operator import attrgetter

import numpy as np
import pytest
from tests.cli.tables.files import CASES, PLAIN, add_gap, customer_rows, joined

import kompakt
from kompakt.cli import tables, train


@pytest.fixture(autouse=True)
def without_search(monkeypatch):
    """The search has its own tests, and takes most of the time of `auto`."""
    made = train._estimator
    monkeypatch.setattr(
        train, "_estimator", lambda options, *more: made(Namespace(**vars(options) | {"tune": False}), *more)
    )


@pytest.mark.parametrize("gap", [False, True], ids=["", "with a gap"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_auto_takes_the_file(run, tmp_path, case, gap):
    """Tables of numbers alone have no schema, and those with a gap have one: both are read alike."""
    path = tmp_path / case.name
    case.write(path)
    if gap and not case.fails:
        add_gap(path)
    done = run("auto", path, *case.flags, "-o", "m.kompakt", "-t", "linear", "-n", 12)
    assert "Traceback" not in done.err
    for words in case.said:
        assert words in done.err
    if case.fails:
        assert done.code == 3
        assert not (tmp_path / "m.kompakt").exists()
        return
    assert done.code == 0, done.err
    model = kompakt.load("m.kompakt")
    if case.kinds is None and gap:
        assert {column.kind for column in model.inputs.schema.columns} == {"number"}
    elif case.kinds is None:
        assert model.inputs.schema is None
    else:
        assert {column.name: column.kind for column in model.inputs.schema.columns} == case.kinds
    done = run("predict", path, "m.kompakt", "out.csv", "--json")
    assert done.code == 0, done.err
    assert done.json["rows"] == case.n_rows
    assert len((tmp_path / "out.csv").read_text().splitlines()) == case.n_rows + 1
    assert done.json["accuracy"] > 0.8 if case.task == "classify" else done.json["r2"] > 0.8


def test_there_are_as_many_cases_as_promised():
    assert len(CASES) >= 60
    assert sum(case.export for case in CASES) >= 25
    assert sum(not case.fails for case in CASES) >= 55


# -- flags of predict, and files as they come ----------------------------------------------------------------


@pytest.fixture
def trained(run, tmp_path):
    """A model of a table with a column of names, which it leaves out."""
    rows = customer_rows(n=140)
    (tmp_path / "people.csv").write_text(joined(rows, ","))
    assert run("auto", "people.csv", "-o", "m.kompakt", "-t", "linear", "-n", 12, "--proba", "-q").code == 0
    return rows


def test_predict_writes_what_it_is_told_to_keep(run, trained):
    done = run("predict", "people.csv", "m.kompakt", "--id", "customer", "--proba")
    header, first, *_ = done.out.splitlines()
    assert header == "customer,prediction,probability no,probability yes"
    assert first.startswith("C-00000,yes,")
    done = run("predict", "people.csv", "m.kompakt", "--keep-columns", "-q")
    lines = list(csv.reader(done.out.splitlines()))
    assert lines[0] == [*trained[0], "prediction"]
    assert [line[:-1] for line in lines[1:]] == trained[1:]
    assert (run("predict", "people.csv", "m.kompakt", "--id", "nobody").code, 3) == (3, 3)


def test_what_training_did_not_have_is_told(run, trained, tmp_path):
    rows = [row[:6] for row in trained]
    rows[1][3], rows[2][1], rows[3][4] = "Ulm", "much", "soon"
    (tmp_path / "new.csv").write_text(joined(rows, ";"))
    done = run("predict", "new.csv", "m.kompakt", "-q")
    assert done.code == 0
    assert len(done.out.splitlines()) == len(rows)
    for text in ("city: other levels than training's (such as 'Ulm'): 1", "size: not a number", "joined: not a date"):
        assert text in done.err
    (tmp_path / "less.csv").write_text(joined([row[:3] for row in rows], ";"))
    assert "lacks the column(s) 'city', 'joined', 'member'" in run("predict", "less.csv", "m.kompakt").err


@pytest.mark.parametrize("to", ["onnx", "numpy"])
def test_an_export_is_checked_with_a_table(run, trained, to):
    if to == "onnx":
        pytest.importorskip("onnxruntime")
    done = run("export", "m.kompakt", "out", "--to", to, "--check", "people.csv", "--json")
    assert done.code == 0, done.err
    assert done.json["rows_checked"] >= 140


def test_inspect_and_report_show_the_columns(run, trained, tmp_path):
    done = run("inspect", "m.kompakt")
    assert "city: 3 levels (Bern, Oslo, Rome)" in done.out
    assert "customer: left out: all values are different" in done.out
    assert run("inspect", "m.kompakt", "--json").json["schema"]["columns"][0]["kind"] == "unused"
    assert run("report", "people.csv", "m.kompakt", "-o", "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert "3 levels (Bern, Oslo, Rome)" in page
    assert "all values are different" in page


def test_strict_refuses_what_would_be_left_out(run, trained, tmp_path):
    done = run("train", "people.csv", "s.kompakt", "--strict")
    assert (done.code, "column 'customer' cannot be used" in done.err) == (3, True)
    flags = ("--ignore", "customer", "--strict", "-t", "linear", "-n", 5)
    assert run("train", "people.csv", "s.kompakt", *flags).code == 0
    rows = [list(row) for row in trained]
    rows[5][1] = "five"
    (tmp_path / "odd.csv").write_text(joined(rows, ","))
    done = run("train", "odd.csv", "s.kompakt", *flags)
    assert (done.code, "size: not a number" in done.err) == (3, True)


def test_the_standard_library_reads_what_pyarrow_reads(run, tmp_path, monkeypatch):
    (tmp_path / "plain.csv").write_text(PLAIN)
    flags = ("-t", "linear", "-n", 5, "-q")
    assert run("train", "plain.csv", "a.kompakt", *flags).code == 0
    monkeypatch.setattr("kompakt.data.text.find_spec", lambda name: None)
    assert run("train", "plain.csv", "b.kompakt", *flags).code == 0
    one, other = kompakt.load("a.kompakt"), kompakt.load("b.kompakt")
    for name in map(attrgetter, ("basis", "weights", "intercept", "inputs.shift", "inputs.scale", "feature_names")):
        assert np.array_equal(name(one), name(other))
    assert run("predict", "plain.csv", "b.kompakt", "--json").json["accuracy"] > 0.8


def test_large_tables_are_encoded_by_parts(run, trained, tmp_path):
    flags = ("-t", "linear", "-n", 12, "-q")
    rows = [[*row[:6], ""] if number % 30 == 7 else row for number, row in enumerate(trained)]
    (tmp_path / "people.csv").write_text(joined(rows, ","))
    assert run("train", "people.csv", "whole.kompakt", *flags).code == 0
    done = run("train", "people.csv", "parts.kompakt", *flags, "--memory", "0.0001")
    assert (done.code, "the target is missing in 5 row(s)" in done.err) == (0, True)
    one, other = kompakt.load("whole.kompakt"), kompakt.load("parts.kompakt")
    assert one.inputs.schema == other.inputs.schema
    table = {name: [row[place] for row in trained[1:]] for place, name in enumerate(trained[0])}
    assert other.decision_function(table) == pytest.approx(one.decision_function(table))


def test_gaps_among_numbers_are_imputed_in_large_tables_too(run, tmp_path):
    lines = PLAIN.splitlines()
    lines[4] = lines[4].replace(lines[4].split(",")[1], "")
    (tmp_path / "plain.csv").write_text("\n".join(lines))
    flags = ("-t", "linear", "-n", 12, "-q", "--impute", "median", "--scale")
    for name, memory in (("whole", "512"), ("streamed", "0.0001")):
        assert run("train", "plain.csv", f"{name}.kompakt", *flags, "--memory", memory).code == 0
        assert kompakt.load(f"{name}.kompakt").inputs.schema is None
    whole, streamed = (run("predict", "plain.csv", f"{name}.kompakt", "--scores").out for name in ("whole", "streamed"))
    scores = [[float(line.rsplit(",", 1)[1]) for line in out.splitlines()[1:]] for out in (whole, streamed)]
    assert scores[1] == pytest.approx(scores[0], abs=1e-6)


def test_a_model_of_numbers_reads_packed_and_spaced_files(run, tmp_path):
    (tmp_path / "plain.csv").write_text(PLAIN)
    assert run("train", "plain.csv", "m.kompakt", "-t", "linear", "-n", 5, "-q").code == 0
    expected = run("predict", "plain.csv", "m.kompakt").out
    (tmp_path / "packed").write_bytes(gzip.compress(PLAIN.encode("utf-16")))
    (tmp_path / "spaced").write_text(PLAIN.replace(",", "   "))
    for name in ("packed", "spaced"):
        assert run("predict", name, "m.kompakt").out == expected


def test_the_decimal_sign_of_a_target_is_that_of_the_table(run, tmp_path, monkeypatch):
    """Cells like 1,234 could be thousands: other columns say that they are not, for training and in every part."""
    monkeypatch.setattr(tables, "PART_ROWS", 100)
    x = np.random.default_rng(0).uniform(0.1, 0.9, 300)
    rows = [f"{a:.4f};{b:.3f}".replace(".", ",") for a, b in zip(x, 1 + x, strict=True)]
    (tmp_path / "train.csv").write_text("\n".join(["x;y", *rows[:250]]))
    (tmp_path / "new.csv").write_text("\n".join(["x;y", *rows[:250], *(row[:-1] for row in rows[250:])]))
    assert run("train", "train.csv", "m.kompakt", "--target", "y", "-n", 5, "-q").code == 0
    assert 1.4 < kompakt.load("m.kompakt").predict({"x": ["0,5"]})[0] < 1.6
    assert run("predict", "new.csv", "m.kompakt", "--json").json["r2"] > 0.99


def test_thousands_of_a_target_are_told_by_the_other_columns(run, tmp_path):
    """12.345 is a number of thousands beside 0,5, also in a target whose numbers are all different."""
    x = np.random.default_rng(0).permutation(200) / 200 + 0.1
    rows = [f"{a:.4f}".replace(".", ",") + f";{12_000 + 1000 * a:,.0f}".replace(",", ".") for a in x]
    (tmp_path / "train.csv").write_text("\n".join(["x;price", *rows]))
    assert run("train", "train.csv", "m.kompakt", "-n", 5, "-q").code == 0
    assert 12_400 < kompakt.load("m.kompakt").predict({"x": ["0,5"]})[0] < 12_600
    assert run("predict", "train.csv", "m.kompakt", "--json").json["r2"] > 0.99


def test_predict_scales_as_a_model_that_was_fitted_to_a_data_frame(run, tmp_path):
    """`fit` on a data frame standardises its features: the schema in the file says how."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(500.0, 100.0, 200), "kind": rng.choice(["a", "b"], 200)})
    labels = np.where(frame["size"] + 100 * (frame["kind"] == "a") > 550, "yes", "no")
    model = kompakt.CompactSVC(n_basis=10).fit(frame, labels)
    kompakt.save(model, tmp_path / "m.kompakt")
    frame.to_csv("new.csv", index=False)
    predicted = run("predict", "new.csv", "m.kompakt", "-q").out.splitlines()[1:]
    assert predicted == model.predict(frame).tolist()


@pytest.mark.parametrize("gap", ["", "3"], ids=["with a schema", "plain numbers"])
@pytest.mark.parametrize(("sign", "other"), [(",", "."), (".", ",")])
def test_numbers_of_a_new_file_may_have_the_other_decimal_sign(run, tmp_path, sign, other, gap):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2)).round(4)
    rows = [f"{a};{b};{gap if n == 7 else n % 5};{'yes' if a + b > 0 else 'no'}" for n, (a, b) in enumerate(X)]
    for name, mark in ((sign, sign), (other, other)):
        (tmp_path / f"{name}.csv").write_text("\n".join(["a;b;n;y", *rows]).replace(".", mark))
    (tmp_path / "words.csv").write_text("\n".join(["a;b;n;y", *(f"1 m;{row.split(';', 1)[1]}" for row in rows)]))
    assert run("train", f"{sign}.csv", "m.kompakt", "-t", "linear", "-n", 5, "-q").code == 0
    expected = run("predict", f"{sign}.csv", "m.kompakt")
    assert "decimal sign" not in expected.err
    done = run("predict", f"{other}.csv", "m.kompakt")
    assert (done.code, done.out) == (0, expected.out)
    assert done.err.count(f"decimal sign: a {'comma' if other == ',' else 'point'} in 'a', 'b'") == 1
    assert "warning" not in done.err
    done = run("predict", f"{other}.csv", "m.kompakt", "--decimal", other)
    assert (done.out, "decimal sign" in done.err) == (expected.out, False)
    done = run("predict", f"{other}.csv", "m.kompakt", "--decimal", sign)
    assert done.code == 3
    for text in (f"{other}.csv: column 'a'", f"'{X[0, 0]}'".replace(".", other), "--decimal"):
        assert text in done.err
    done = run("predict", "words.csv", "m.kompakt")
    assert (done.code, "column 'a'" in done.err, "'1 m'" in done.err) == (3, True, True)


def test_words_of_many_levels_are_used_and_free_text_is_left_out(run, tmp_path):
    rng = np.random.default_rng(0)
    x, shop = rng.normal(size=300), rng.integers(0, 40, 300)
    y = rng.normal(size=40)[shop] + 0.1 * x
    comments = [f"text {max(n, 20)}" for n in range(300)]
    rows = zip(x, shop, comments, y, strict=True)
    lines = [f"{a:.3f},shop {k},{comment},{value:.4f}" for a, k, comment, value in rows]
    (tmp_path / "t.csv").write_text("\n".join(["x,shop,comment,y", *lines]))
    for memory in ("512", "0.0001"):
        done = run("train", "t.csv", "m.kompakt", "-n", 5, "--memory", memory)
        assert "shop  40 levels" in done.err
        assert done.err.count("comment") == 2  # the column, and the flag that keeps it
        assert "more than half of its texts come once" in done.err
        done = run("predict", "t.csv", "m.kompakt", "out.csv")
        assert float(done.out.split("R2 ")[1].split()[0]) > 0.8
        assert "other" not in done.err
        assert "shop: 40 levels (" in run("inspect", "m.kompakt").out
    assert run("train", "t.csv", "-v", 3, "-n", 5, "--json").json["r2"] > 0.6
    assert run("bench", "t.csv", "--sizes", 5, "--json").json["results"][0]["error"] < 0.5
    done = run("train", "t.csv", "m.kompakt", "-n", 5, "--keep", "comment")
    assert "comment  1 levels and other (text 20)" in done.err



def skewed(path, n=300):
    """A target whose logarithm is linear in the numbers, and its writer."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    y = np.exp(2 + x @ [0.8, -0.6] + 0.05 * rng.normal(size=n))
    lines = [f"{a:.4f},{b:.4f},{value:.5f}" for (a, b), value in zip(x, y, strict=True)]
    path.write_text("\n".join(["a,b,price", *lines]))


def test_skewed_targets_are_modelled_in_logarithms_where_that_is_better_in_their_unit(run, tmp_path):
    skewed(tmp_path / "t.csv")
    logs = run("auto", "t.csv", "-t", "linear", "-n", 5, "--json").json
    plain = run("auto", "t.csv", "-t", "linear", "-n", 5, "--no-log-target", "--json").json
    assert (logs["link"], plain["link"]) == ("log", "identity")
    assert logs["test"]["mean_squared_error"] < 0.3 * plain["test"]["mean_squared_error"]
    assert run("auto", "t.csv", "-t", "linear", "-n", 5).out.count("logarithms") == 1
    assert run("predict", "t.csv", "t.kompakt", "o.csv", "--json").json["r2"] > 0.95
    for to in ("numpy", "c", "libsvm", "onnx"):
        if to == "onnx":
            pytest.importorskip("onnxruntime")
        done = run("export", "t.kompakt", f"out.{to}", "--to", to)
        assert (done.code, "logarithms" in done.out) == (0, to == "libsvm"), done.err
    done = run("train", "t.csv", "m.kompakt", "-n", 5, "--log-target", "--target", "a")
    assert (done.code, "positive numbers" in done.err) == (2, True)


def test_ordered_words_are_ranks(run, tmp_path):
    rng = np.random.default_rng(0)
    size, x = rng.integers(0, 3, 200), rng.normal(size=200)
    grade = np.digitize(size + x, [0, 1, 2])
    words, grades = ["small", "medium", "large"], ["poor", "fair", "good", "great"]
    lines = [f"{words[a]},{b:.3f},{grades[c]}" for a, b, c in zip(size, x, grade, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["size,x,grade", *lines]))
    flags = ("--order", "size=small,medium,large", "--order", "grade=poor,fair,good,great")
    done = run("train", "t.csv", "m.kompakt", "-n", 8, *flags)
    assert "ordered words: small < medium < large" in done.err
    assert ", regression" in done.err
    assert run("predict", "t.csv", "m.kompakt", "o.csv", "--json").json["r2"] > 0.8
    done = run("train", "t.csv", "m.kompakt", "-n", 8, "--order", "size=small")
    assert (done.code, "COLUMN=low,medium,high" in done.err) == (2, True)
    assert run("train", "t.csv", "m.kompakt", "--order", "weight=a,b").code == 3


def test_all_is_said_once_on_one_screen_and_ends_with_the_next_command(run, tmp_path):
    rng = np.random.default_rng(0)
    names = [f"n{k}" for k in range(30)] + [f"id{k}" for k in range(20)] + ["y"]
    lines = [
        ",".join([*(f"{v:.3f}" for v in rng.normal(size=30)), *(f"k{row}" for _ in range(20)), "ab"[row % 2]])
        for row in range(60)
    ]
    (tmp_path / "t.csv").write_text("\n".join([",".join(names), *lines]))
    done = run("train", "t.csv", "m.kompakt", "-n", 5)
    assert len((done.err + done.out).splitlines()) <= 24
    assert done.err.count("left out") == 1
    assert "'id0', 'id1'" in done.err
    assert "(20 in all)" in done.err
    assert done.out.splitlines()[-1].split(maxsplit=1) == ["next", "kompakt predict NEW.csv m.kompakt predictions.csv"]
    assert run("tune", "t.csv", "-n", 5).out.splitlines()[-1].endswith("kompakt train t.csv t.kompakt --tune")
    said = run("auto", "t.csv", "-n", 5).out.splitlines()[-1].split(maxsplit=1)[1]
    assert run(*said.split()[1:]).code == 0
