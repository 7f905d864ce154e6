"""Every error names file, line and column, says what to do, and has its exit code."""

from __future__ import annotations

import numpy as np
import pytest

CSV = "age,city,label\n31,2,a\n40,3,b\n52,4,a\n"


def write(tmp_path, text: str, name: str = "rows.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age,city,label\n31,2,a\n40,1\n", ["line 3", "2 columns", "first line has 3"]),
        ("age,city,label\n31,2,a\n40,inf,b\n", ["line 3, column 'city'", "infinite"]),
        ("age,city,label\n31,2,\n40,1,\n", ["line 2, column 'label'", "target is missing"]),
        ("age,age,label\n31,2,a\n", ["two columns", "'age'", "rename"]),
        ("", ["empty"]),
        ("hello\nworld\n", ["line 1", "expected CSV"]),
        ("1 1:2 3:x\n", ["line 1, word 3", "'3:x'"]),
        ("1 1:2 3:4\n-1 5:1 2:1\n", ["line 2, word 3", "feature 2 comes after feature 5"]),
        ("yes 1:2 3:4\n", ["line 1", "'yes' is no number", "CSV"]),
        ("1 1:2 3:nan\n-1 1:2\n", ["line 1, feature '3'", "missing value"]),
        ("1 0:2 3:1\n-1 1:nan\n", ["line 2, feature '1'", "missing value"]),  # counted from 0
    ],
)  # fmt: skip
def test_bad_rows(run, tmp_path, text, words):
    done = run("train", write(tmp_path, text), "m.kompakt")
    assert done.code == 3, done.err
    for word in words:
        assert word in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "m.kompakt").exists()


def test_bad_files(run, tmp_path, people):
    assert "No such file" in run("train", "nowhere.csv", "m").err
    (tmp_path / "x.gz").write_bytes(b"\x1f\x8b\x08\x00rest")
    done = run("train", "x.gz", "m")
    assert (done.code, "unpack" in done.err) == (3, True)
    (tmp_path / "x.bin").write_bytes(bytes(range(200)))
    assert run("train", "x.bin", "m").code == 3
    run("train", people, "m.kompakt", "--target", "hired", "--ignore", "name", "--impute", "median", "-n", 5)
    done = run("predict", "m.kompakt", people)
    assert done.code == 3
    assert "neither a kompakt model nor a LIBSVM model" in done.err
    done = run("train", "m.kompakt", "other")
    assert "is a kompakt model" in done.err


def test_columns_that_are_not_there(run, tmp_path, people):
    done = run("train", people, "m", "--target", "hird")
    assert (done.code, "'hired'" in done.err) == (3, True)
    run("train", people, "m.kompakt", "--target", "hired", "--ignore", "name", "--impute", "median", "-n", 5)
    write(tmp_path, "height,age\n1,2\n", "new.csv")
    done = run("predict", "new.csv", "m.kompakt")
    assert done.code == 3
    assert "lacks the column(s) 'weight'" in done.err
    write(tmp_path, "1 1:2 7:4\n", "new.txt")
    assert run("predict", "new.txt", "m.kompakt").code == 3


def test_a_row_to_be_predicted_with_a_missing_value(run, tmp_path):
    path = write(tmp_path, CSV * 1 + "33,5,b\n")
    assert run("train", path, "m.kompakt", "-n", 2).code in (0, 4)
    write(tmp_path, "age,city\n3,1\n4,\n", "new.csv")
    done = run("predict", "new.csv", "m.kompakt", "out.csv")
    assert done.code == 3
    assert "new.csv, line 3, column 'city'" in done.err
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    "words",
    [
        [], ["nonsense"], ["train"], ["train", "rows.csv"], ["train", "rows.csv", "m", "-t", "3"],
        ["train", "rows.csv", "m", "-s", "7"], ["train", "rows.csv", "m", "-c", "-1"],
        ["train", "rows.csv", "m", "-wz", "3"], ["train", "rows.csv", "m", "-n", "0"],
        ["train", "rows.csv", "-v", "1"], ["predict", "rows.csv"], ["export", "m", "out.unknown"],
        ["scale", "rows.csv", "-l", "1", "-u", "0"], ["compress", "m", "o"], ["report", "m", "rows.csv"],
        ["bench", "rows.csv", "--sizes", "ten"],
        ["train", "rows.csv", "m", "-s", "regress", "-b", "1", "--target", "age", "--ignore", "label"],
    ],
)  # fmt: skip
def test_usage_errors_leave_with_2(run, tmp_path, words):
    write(tmp_path, CSV)
    done = run(*words)
    assert done.code == 2, done.err
    assert done.err
    assert "Traceback" not in done.err


def test_npy_without_a_target_says_how_to_name_one(run, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((5, 2)))
    done = run("train", "x.npy", "m")
    assert (done.code, "--target" in done.err) == (2, True)


def test_estimators_name_the_imputer():
    from kompakt import CompactSVC

    X = np.ones((20, 2))
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="SimpleImputer"):
        CompactSVC().fit(X, np.arange(20) % 2)


def test_flags_may_stand_between_file_names(run, people):
    assert run("train", people, "--target", "hired", "m.kompakt", "-n", 3, "--proba", "-q").code == 0
    assert run("predict", people, "m.kompakt", "--proba", "out.csv", "--id", "name").code == 0
    people.rename(people.with_name("-p.csv"))
    assert run("predict", "-q", "--", "-p.csv", "m.kompakt").code == 0
    done = run("predict", "-p.csv", "m.kompakt")
    assert (done.code, done.err.startswith("usage: kompakt predict")) == (2, True)


def test_a_row_whose_outputs_overflow_is_named_by_its_line(run, tmp_path):
    numbers = np.random.default_rng(0).normal(size=(40, 2)).round(3)
    lines = [f"{a},{b},{'yes' if a + b > 0 else 'no'}" for a, b in numbers.tolist()]
    path = write(tmp_path, "\n".join(["a,b,label", *lines]) + "\n")
    assert run("train", path, "m.kompakt", "-t", "1", "-d", "3", "--no-scale").code == 0
    rows = write(tmp_path, "a,b\n1,2\n\n1e200,2\n", "new.csv")
    done = run("predict", rows, "m.kompakt", "out.csv")
    assert done.code == 3, done.err
    assert "The outputs of" in done.err
    assert "new.csv, line 4 are not finite" in done.err
    assert not (tmp_path / "out.csv").exists()
