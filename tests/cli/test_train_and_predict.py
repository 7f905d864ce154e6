"""From a file to a model to predictions, in every format."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest

import kompakt
from kompakt.train.running import InterruptedWarning

from .conftest import rows

FAST = ("-n", "8", "--ignore", "name")


def test_csv_with_words_and_missing_values(run, people, tmp_path):
    done = run("train", people, "m.kompakt", "--target", "hired", *FAST, "--impute", "median", "--scale", "--json")
    assert done.code == 0, done.err
    assert done.json["n_basis"] == 8
    assert done.json["task"] == "classify"
    model = kompakt.load("m.kompakt")
    assert model.classes.tolist() == ["no", "yes"]
    assert model.feature_names.tolist() == ["height", "weight", "age"]
    table = list(csv.DictReader(people.read_text().splitlines()))
    X = np.array([[float(row[name] or "nan") for name in ("height", "weight", "age")] for row in table])
    known = X[~np.isnan(X).any(axis=1)]
    assert model.inputs.fill == pytest.approx(np.nanmedian(X, axis=0))
    filled = np.where(np.isnan(X), model.inputs.fill, X)
    assert model.inputs.shift == pytest.approx(filled.mean(axis=0))
    assert model.inputs.scale == pytest.approx(filled.std(axis=0))
    done = run("predict", people, "m.kompakt", "out.csv", "--scores", "--json")
    assert done.code == 0, done.err
    truth = np.array([row["hired"] for row in table])
    predicted = [row["prediction"] for row in csv.DictReader((tmp_path / "out.csv").read_text().splitlines())]
    assert predicted == model.predict(X).tolist()
    assert done.json["accuracy"] == pytest.approx(np.mean(np.array(predicted) == truth))
    assert done.json["accuracy"] > 0.9
    assert len(known) < len(X)


def test_predict_ignores_the_target_wherever_it_is_and_does_without_it(run, people, tmp_path):
    run("train", people, "m.kompakt", "--target", "hired", *FAST, "--impute", "median", "--scale")
    table = list(csv.reader(people.read_text().splitlines()))
    shuffled = [[row[number] for number in (4, 3, 0, 2, 1)] for row in table]
    bare = [[row[number] for number in (2, 1, 3)] for row in table]
    for name, cells in (("shuffled.csv", shuffled), ("bare.csv", bare)):
        (tmp_path / name).write_text("\n".join(";".join(row) for row in cells))
        done = run("predict", name, "m.kompakt", name + ".out")
        assert done.code == 0, done.err
    assert (tmp_path / "shuffled.csv.out").read_text() == (tmp_path / "bare.csv.out").read_text()
    assert run("predict", "bare.csv", "m.kompakt").err.endswith("300 rows predicted\n")
    assert "accuracy" in run("predict", "shuffled.csv", "m.kompakt").err


def test_svmlight_predictions_are_written_as_svm_predict_does(run, svm_file, tmp_path):
    assert run("train", svm_file, "m.kompakt", "-n", 8, "--scale", "-b", "1", "-q").code == 0
    done = run("predict", svm_file, "m.kompakt", "out", "-b", "1")
    assert done.code == 0, done.err
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines[0] == "labels -1 1"
    label, *shares = lines[1].split()
    assert label in ("-1", "1")
    assert sum(map(float, shares)) == pytest.approx(1.0)
    assert len(lines) == 301


@pytest.mark.parametrize("kind", ["parquet", "npy", "npz"])
def test_other_formats_are_recognised_by_content(run, tmp_path, kind):
    X, z = rows()
    y = (z > 0).astype(int)
    path, target = tmp_path / "rows.data", []
    if kind == "parquet":
        pandas = pytest.importorskip("pandas")
        pandas.DataFrame(X, columns=list("abc")).assign(label=y).to_parquet(path)
    elif kind == "npy":
        with path.open("wb") as file:
            np.save(file, np.column_stack([X, y]))
        target = ["--target", "-1"]
    else:
        with path.open("wb") as file:
            np.savez(file, X=X, y=y)
    done = run("train", path, "m.kompakt", "-n", 8, "--scale", *target, "--json")
    assert done.code == 0, done.err
    done = run("predict", path, "m.kompakt", "-", *target)
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == "prediction"
    assert re.search("accuracy (9|100)", done.err)
    model = kompakt.load("m.kompakt")
    assert done.out.split()[1:] == [str(label) for label in model.predict(X).tolist()]


def test_regression_and_its_measures(run, tmp_path):
    X, z = rows()
    (tmp_path / "r.csv").write_text(
        "\n".join(",".join(map(repr, [*row, value])) for row, value in zip(X.tolist(), z.tolist(), strict=True))
    )
    done = run("train", "r.csv", "m.kompakt", "-n", 12, "--scale")
    assert done.code == 0, done.err
    assert "features, regression" in done.err
    done = run("predict", "r.csv", "m.kompakt", "--json")
    model = kompakt.load("m.kompakt")
    assert done.json["mean_squared_error"] == pytest.approx(np.mean((model.predict(X) - z) ** 2))
    assert done.json["r2"] > 0.95


def test_short_flags_of_libsvm_reach_the_machine(run, svm_file):
    done = run(
        "train", svm_file, "m.kompakt", "-n", 5, "-c", "7", "-g", "0.25", "-t", "2", "-w1", "3", "-e", "1e-4", "-q"
    )
    assert (done.code, done.out, done.err) == (0, "", "")
    model = kompakt.load("m.kompakt")
    assert model.kernel.gamma == pytest.approx(0.25)
    done = run("train", svm_file, "p.kompakt", "-n", 5, "-t", "1", "-d", "2", "-r", "1", "-g", "0.5", "--scale")
    assert done.code in (0, 4), done.err
    assert kompakt.load("p.kompakt").kernel.spec()["name"] == "poly"


def test_cross_validation_writes_no_model(run, svm_file, tmp_path):
    done = run("train", svm_file, "-v", "3", "-n", 8, "--scale", "--json")
    assert done.code == 0, done.err
    assert done.json["n"] == 300
    assert done.json["accuracy"] > 0.85
    assert not list(tmp_path.glob("*.kompakt"))


def test_auto_does_everything_in_one_line(run, people, tmp_path):
    done = run("auto", people, "--target", "hired", "--ignore", "name", "-n", 8, "--predictions", "out.csv", "--json")
    assert done.code == 0, done.err
    assert "with a missing-value indicator" in done.err
    assert done.json["test"]["n"] == 60
    assert done.json["test"]["accuracy"] > 0.85
    assert done.json["validation_error"] < 0.2
    assert (tmp_path / "people.kompakt").exists()
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 61
    assert done.json["rows"] == 300  # what is saved has seen the rows of the test too
    board = done.json["leaderboard"]
    assert {"linear", "constant"} < {row["model"] for row in board}
    assert board[0]["error"] == done.json["validation_error"]
    assert board[0]["C"] == pytest.approx(done.json["C"], rel=1e-5)


def test_auto_says_when_a_linear_model_is_as_good(run, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200, 3))
    table = np.column_stack([rows, rows @ [1.0, 2.0, 3.0] > 0])
    np.savetxt(tmp_path / "straight.csv", table, delimiter=",", header="a,b,c,y", comments="")
    done = run("auto", "straight.csv", "-n", 5)
    assert done.code == 0, done.err
    assert "a linear model is as good" in done.out
    assert "1. " in done.out


def test_tune_tells_what_it_found(run, svm_file):
    done = run("tune", svm_file, "-n", 5, "--scale", "--json")
    assert done.code == 0, done.err
    assert {"C", "gamma", "validation_error"} <= set(done.json)
    assert "model" not in done.json


def test_large_files_are_streamed(run, people):
    whole = run("train", people, "a.kompakt", "--target", "hired", *FAST, "--impute", "median", "--scale", "--json")
    done = run(
        "train",
        people,
        "b.kompakt",
        "--target",
        "hired",
        *FAST,
        "--impute",
        "median",
        "--scale",
        "--json",
        "--memory",
        "0.001",
    )
    assert done.code == whole.code == 0, done.err
    assert "streamed" in done.err
    one, other = kompakt.load("a.kompakt"), kompakt.load("b.kompakt")
    assert other.inputs.fill == pytest.approx(one.inputs.fill)
    assert other.inputs.shift == pytest.approx(one.inputs.shift)
    assert run("predict", people, "b.kompakt", "--json").json["accuracy"] > 0.9


def test_not_converged_is_exit_code_4_and_still_writes_the_model(run, svm_file, tmp_path):
    done = run("train", svm_file, "m.kompakt", "-n", 20, "--max-iter", "1", "-c", "1e6", "--scale")
    assert done.code == 4
    assert "did not converge" in done.err
    assert (tmp_path / "m.kompakt").exists()


def test_an_interrupt_that_keeps_a_machine_writes_it_and_leaves_with_130(run, svm_file, tmp_path, monkeypatch):
    import warnings

    fit = kompakt.CompactSVC.fit

    def interrupted(self, X, y=None, sample_weight=None):
        fit(self, X, y)
        self.interrupted_ = True
        warnings.warn("interrupted; what was found is kept", InterruptedWarning)
        return self

    monkeypatch.setattr(kompakt.CompactSVC, "fit", interrupted)
    done = run("train", svm_file, "m.kompakt", "-n", 5)
    assert done.code == 130
    assert (tmp_path / "m.kompakt").exists()

    def stopped(self, X, y=None, sample_weight=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(kompakt.CompactSVC, "fit", stopped)
    done = run("train", svm_file, "other.kompakt", "-n", 5)
    assert done.code == 130
    assert "nothing was written" in done.err
    assert not (tmp_path / "other.kompakt").exists()


def test_spaces_in_a_header_and_no_header_at_all(run, tmp_path):
    X, z = rows(60)
    lines = [
        ", ".join([f"{a:.4f}", f"{b:.4f}", "up" if value > 0 else "down"])
        for (a, b, _), value in zip(X, z, strict=True)
    ]
    (tmp_path / "spaced.csv").write_text("first col, second, way\n" + "\n".join(lines))
    done = run("train", "spaced.csv", "m.kompakt", "--target", "way", "-n", 4, "--scale", "-q")
    assert done.code == 0, done.err
    assert run("predict", "spaced.csv", "m.kompakt", "--json").json["accuracy"] > 0.8
    (tmp_path / "bare.csv").write_text("\n".join(lines))
    done = run("train", "bare.csv", "b.kompakt", "-n", 4, "--scale")
    assert done.code == 0, done.err
    assert "column '2'" in done.err
    assert run("predict", "bare.csv", "b.kompakt", "--json").json["n"] == 60
    (tmp_path / "new.csv").write_text("\n".join(line.rsplit(",", 1)[0] for line in lines))
    assert run("predict", "new.csv", "b.kompakt", "--json").json == {"rows": 60, "predictions": None}


def test_a_model_that_is_no_better_than_a_constant_is_told_of(run, tmp_path):
    """A class of 4 % that can hardly be told apart: weights make the model predict it."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3))
    rare = X[:, 0] + rng.normal(size=400) * 1.5 > 3
    lines = [f"{a:.4f},{b:.4f},{c:.4f},{'yes' if one else 'no'}" for (a, b, c), one in zip(X, rare, strict=True)]
    (tmp_path / "rare.csv").write_text("\n".join(["a,b,c,y", *lines]))
    flags = ("-n", 5, "-c", 0.1)
    done = run("train", "rare.csv", "m.kompakt", *flags)
    assert "warning: all 400 training rows are predicted as 'no'; 383 of 400 are 'no'" in done.err
    assert "-w balanced" in done.err
    done = run("train", "rare.csv", "-v", 3, "-w", "no=1", *flags)
    assert ("all 400 rows are predicted as 'no'" in done.err, "-w balanced" in done.err) == (True, False)
    done = run("auto", "rare.csv", "-o", "m.kompakt", "-n", 5)
    assert "warning: all 80 test rows are predicted as 'no'" in done.err
    assert "a constant is as good" in done.out
    done = run("train", "rare.csv", "m.kompakt", "-w", "balanced", "-n", 5)
    assert (done.code, "predict" in done.err) == (0, False)
    assert "yes" in run("predict", "rare.csv", "m.kompakt").out.splitlines()
    assert run("train", "rare.csv", "m.kompakt", "-w", "balanced", "-w", "yes=2").code == 2
