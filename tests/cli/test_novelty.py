"""``--task novelty``: from a file without a target to flags and scores."""

import json

import numpy as np
import pytest

from kompakt.cli import main
from kompakt.io import load

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(400, 3)) * [1.0, 50.0, 0.1], columns=["a", "b", "c"])
    rows["unit"] = rng.choice(["p1", "p2"], 400)
    rows[:300].to_csv(tmp_path / "rows.csv", index=False)
    strange = rows[300:].copy()
    strange.iloc[:20, 0] += 9.0
    strange.assign(mark=[-1] * 20 + [1] * 80).to_csv(tmp_path / "test.csv", index=False)
    return tmp_path


def run(*words):
    return main([str(word) for word in words])


def test_auto_needs_no_target_and_predict_writes_flag_and_score(files, capsys):
    model = files / "m.kompakt"
    assert run("auto", files / "rows.csv", "--task", "novelty", "-n", 10, "--nu", 0.1, "-o", model, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["task"], facts["test"]["n"]) == ("novelty", 60)
    assert load(files / "m.kompakt").kind == "outlier"
    out = files / "out.csv"
    assert run("predict", files / "test.csv", files / "m.kompakt", out, "--target", "mark") == 0
    assert "20 of 20 outliers" in capsys.readouterr().out
    written = pd.read_csv(out)
    assert list(written.columns) == ["prediction", "score"]
    assert ((written["score"] >= 0) == (written["prediction"] == 1)).all()


def test_marked_outliers_choose_and_are_counted(files, capsys):
    assert run("auto", files / "test.csv", "-s", 2, "--target", "mark", "-o", files / "m.kompakt") == 0
    printed = capsys.readouterr()
    assert "16 marked outliers" in printed.err
    assert "4 outliers" in printed.out


def test_streamed_rows_need_no_target(files):
    assert run("train", files / "rows.csv", files / "m.kompakt", "-s", "novelty", "--memory", 0.001) == 0
    assert load(files / "m.kompakt").meta["rows"] == 300


def test_arrays_need_no_target(files):
    np.save(files / "rows.npy", np.random.default_rng(0).normal(size=(200, 2)))
    assert run("train", files / "rows.npy", files / "m.kompakt", "-s", "novelty") == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--target", "unit"], "targets 1"), (["--interval", "0.9"], "--interval is for regression"),
     (["-n", "auto"], "a number of vectors"), (["-b", "1"], "-w and -b are for classification")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(files, capsys, words, message):
    assert run("train", files / "rows.csv", files / "m.kompakt", "-s", "novelty", *words) in (2, 3)
    assert message in capsys.readouterr().err


def test_nu_is_for_novelty(files, capsys):
    assert run("train", files / "test.csv", files / "m.kompakt", "--target", "mark", "--nu", 0.1) == 2
    assert "--nu is for novelty detection" in capsys.readouterr().err
