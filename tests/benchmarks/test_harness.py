"""The benchmark harness: data, alternation, resumption, verdicts."""

import json

import numpy as np
import pytest
from benchmarks.harness import (
    MissingData,
    Run,
    Timings,
    alternate,
    at_least,
    at_most,
    load_data,
    near,
    not_worse,
)

from benchmarks import harness


def make_run(tmp_path, *argv):
    return Run("sample", "A sample", quick_minutes=1, full_minutes=2, argv=argv, folder=tmp_path)


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("KOMPAKT_DATA", str(tmp_path))
    return tmp_path


# ---- data


def test_stored_set_is_read_from_the_folder_in_the_environment(data):
    np.savez(data / "tiny.npz", X=np.eye(3), y=np.array([1, -1, 1]))
    arrays = load_data("tiny")
    np.testing.assert_array_equal(arrays["X"], np.eye(3))
    assert sorted(arrays) == ["X", "y"]


def test_default_folder_lies_beside_the_repository(monkeypatch):
    monkeypatch.delenv("KOMPAKT_DATA", raising=False)
    assert harness.data_folder() == harness.ROOT.parent / "shared" / "data"


def test_missing_set_says_what_where_and_remedy(data):
    with pytest.raises(MissingData, match=r"'nowhere' is missing.*nowhere\.npz.*KOMPAKT_DATA"):
        load_data("nowhere")


def test_fetcher_is_used_only_when_the_set_is_not_stored(data, monkeypatch):
    monkeypatch.setitem(harness.FETCHERS, "tiny", lambda: {"X": np.zeros((1, 1)), "y": np.zeros(1)})
    assert load_data("tiny")["X"].shape == (1, 1)
    np.savez(data / "tiny.npz", X=np.eye(2), y=np.ones(2))
    assert load_data("tiny")["X"].shape == (2, 2)


def test_fetch_without_network_becomes_missing_data(data, monkeypatch):
    def refuse():
        raise OSError("no route")

    monkeypatch.setitem(harness.FETCHERS, "tiny", refuse)
    with pytest.raises(MissingData, match="no route"):
        load_data("tiny")


# ---- timings


def test_contenders_alternate_and_the_order_turns():
    calls = []
    alternate({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=3, warmup=1)
    assert calls == ["a", "b"] + ["a", "b"] + ["b", "a"] + ["a", "b"]


def test_only_the_contender_is_timed():
    now = [0.0]

    def spend(seconds):
        now[0] += seconds

    contenders = {"slow": lambda: spend(3.0), "fast": lambda: spend(1.0)}
    timings = alternate(contenders, rounds=5, clock=lambda: now[0])
    assert timings.summary() == {"slow": 3.0, "fast": 1.0}
    assert timings.ratio("slow", "fast") == 3.0


def test_ratio_is_paired_within_rounds():
    # The machine became ten times slower in the last two rounds; the paired ratio stays 2.
    timings = Timings({"slow": [2.0, 20.0, 20.0], "fast": [1.0, 10.0, 10.0]})
    assert timings.ratio("slow", "fast") == 2.0


def test_the_fastest_variant_and_the_noise_are_told():
    timings = Timings({"all": [1.0, 8.0, 8.0], "one": [2.0, 2.0, 2.1]})
    assert timings.fastest("all", "one") == "one"
    assert timings.noise() == 8.0
    assert timings.noise("one") == 1.0


# ---- targets


@pytest.mark.parametrize(
    ("target", "holds", "fails"),
    [
        (at_least(2.5), {"ours": 2.5}, {"ours": 2.49}),
        (at_most(1.5), {"ours": 1.5}, {"ours": 1.51}),
        (not_worse(0.2, "peer"), {"ours": 5.1, "peer": 5.0}, {"ours": 5.3, "peer": 5.0}),
        (not_worse(0.2), {"ours": 1.0, "paper": 5.0}, {"ours": 5.3, "paper": 5.0}),
        (near(0.5), {"ours": 4.6, "paper": 5.0}, {"ours": 4.4, "paper": 5.0}),
    ],
)
def test_targets_judge(target, holds, fails):
    assert target.holds(holds)
    assert not target.holds(fails)


# ---- runs


def test_row_is_measured_once_and_then_resumed(tmp_path, capsys):
    measured = []

    def measure():
        measured.append(1)
        return {"ours": np.float64(3.0), "peer": 9.0, "all": np.arange(3)}

    first = make_run(tmp_path).row("speed", {"n": 5}, measure, at_least(2), unit="x")
    second = make_run(tmp_path).row("speed", {"n": 5}, measure, at_least(2), unit="x")
    assert first == second == {"ours": 3.0, "peer": 9.0, "all": [0, 1, 2]}
    assert len(measured) == 1
    assert "[stored, commit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "params", "name"),
    [
        (["--fresh"], {"n": 5}, "speed"),
        (["--quick"], {"n": 5}, "speed"),
        ([], {"n": 6}, "speed"),
        ([], {"n": 5}, "another"),
    ],
)
def test_another_row_or_fresh_is_measured_again(tmp_path, argv, params, name):
    make_run(tmp_path).row("speed", {"n": 5}, lambda: {"ours": 1})
    assert make_run(tmp_path, *argv).row(name, params, lambda: {"ours": 2}) == {"ours": 2}


def test_a_derived_row_is_made_anew_from_what_is_stored(tmp_path):
    make_run(tmp_path).row("count", {}, lambda: {"ours": 1}, derived=True)
    stored = make_run(tmp_path, "--stored")
    assert stored.row("count", {}, lambda: {"ours": 2}, derived=True) == {"ours": 2}
    assert len((tmp_path / "sample.jsonl").read_text().splitlines()) == 2
    make_run(tmp_path, "--stored").row("count", {}, lambda: {"ours": 2}, derived=True)
    assert len((tmp_path / "sample.jsonl").read_text().splitlines()) == 2  # nothing new


def test_the_key_does_not_hold_the_commit_but_the_record_does(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "git_commit", lambda: "aaaaaaa")
    make_run(tmp_path).row("speed", {}, lambda: {"ours": 1})
    monkeypatch.setattr(harness, "git_commit", lambda: "bbbbbbb")
    assert make_run(tmp_path).row("speed", {}, lambda: {"ours": 2}) == {"ours": 1}
    record = json.loads((tmp_path / "sample.jsonl").read_text())
    assert record["commit"] == "aaaaaaa"
    assert "aaaaaaa" not in record["key"]
    assert record["cores"] >= 1
    assert record["versions"]["numpy"] == np.__version__


def test_an_interrupted_line_is_skipped_and_closed(tmp_path, capsys):
    make_run(tmp_path).row("whole", {}, lambda: {"ours": 1})
    with (tmp_path / "sample.jsonl").open("a") as file:
        file.write('{"key": "cut sh')
    run = make_run(tmp_path)
    assert "line 2: not a whole record" in capsys.readouterr().out
    assert run.row("whole", {}, lambda: {"ours": 2}) == {"ours": 1}
    run.row("next", {}, lambda: {"ours": 3})
    assert make_run(tmp_path).row("next", {}, lambda: {"ours": 4}) == {"ours": 3}


def test_rows_are_printed_with_columns_tolerance_and_verdict(tmp_path, capsys):
    run = make_run(tmp_path)
    run.row("good", {}, lambda: {"paper": 5.0, "ours": 4.5, "peer": 6.0}, not_worse(0.1), unit="%")
    run.row("bad", {}, lambda: {"ours": 1.0, "note": "a remark"}, at_least(2), unit="x")
    assert run.finish() == 1
    lines = {line.split(" ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert [cell.strip() for cell in lines["good"].split("|")][1:5] == ["5%", "4.5%", "6%", "<= paper + 0.1"]
    assert "| ok" in lines["good"]
    assert "| FAILED  a remark" in lines["bad"]
    assert lines["FAILED:"] == "FAILED: bad"


def test_a_stored_row_is_judged_by_the_target_of_today(tmp_path):
    make_run(tmp_path).row("speed", {}, lambda: {"ours": 3.0}, at_least(2))
    run = make_run(tmp_path)
    run.row("speed", {}, lambda: {"ours": 9.0}, at_least(4))
    assert run.failed == ["speed"]


@pytest.mark.parametrize("ours", [1.0, 3.0])
def test_a_noisy_row_counts_neither_as_ok_nor_as_failed(tmp_path, capsys, ours):
    for _ in range(2):
        run = make_run(tmp_path)
        run.row("speed", {}, lambda: {"ours": ours, "noise": 5.0}, at_least(2))
        assert (run.noisy, run.failed, run.finish()) == (["speed"], [], 1)
    out = capsys.readouterr().out
    assert out.count("| NOISY (") == 2
    assert "| ok" not in out
    assert "[stored" not in out  # a noisy row is measured again, not resumed


def test_missing_data_leaves_the_row_out_and_says_so(tmp_path, capsys):
    def measure():
        raise MissingData("the set is nowhere")

    run = make_run(tmp_path)
    assert run.row("speed", {}, measure) is None
    assert run.finish() == 0
    out = capsys.readouterr().out
    assert "left out: the set is nowhere" in out
    assert "left out for want of data: speed" in out


def test_only_chooses_rows_by_name(tmp_path):
    run = make_run(tmp_path, "--only", "fast")
    assert run.row("slow one", {}, lambda: {"ours": 1}) is None
    assert run.row("fast one", {}, lambda: {"ours": 1}) == {"ours": 1}
