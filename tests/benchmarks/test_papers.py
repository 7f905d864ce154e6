"""One entry point for the papers' tables: what it reads from stored rows, and the page it writes."""

import json
import sys
from types import SimpleNamespace

import pytest
from benchmarks.harness import Run, at_most, within_paper
from benchmarks.papers import __main__


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(__main__, "RESULTS", tmp_path)
    scripts = SimpleNamespace(run=lambda *_, **__: SimpleNamespace(returncode=0))
    monkeypatch.setattr(__main__, "subprocess", scripts)
    return tmp_path


def fill(folder, ours):
    run = Run("projection_tables", "Sample", quick_minutes=1, full_minutes=1, argv=[], folder=folder)
    row = {"ours": ours, "paper": 10.0, "paper_sd": 0.5, "spread": 0.25}
    run.row("Table 2, ripley, SVM", {}, lambda: row, within_paper(), unit="%")
    run.row("a step on the way", {}, lambda: {"ours": 3.0})
    return run


def test_page_has_figure_difference_in_deviations_and_verdict(results, tmp_path):
    fill(results, 10.4)
    page = tmp_path / "summary.md"
    assert __main__.main(["--summary"], page=page) == 0
    text = page.read_text()
    assert "| Table 2 | 1 / 1 | - | - |" in text
    assert "| ripley, SVM, % | 10 ± 0.5 | 10.4 ± 0.25 | +0.8 | <= paper + 1 sd | met | " in text
    assert "a step on the way" not in text
    assert text.count("nothing stored") == len(__main__.PAPERS) - 1


def test_missed_row_is_named_with_its_cause(results, tmp_path, monkeypatch):
    module = type(sys)("benchmarks.papers.projection_tables")
    module.CAUSES = {"Table 2, ripley": "the splits differ"}
    monkeypatch.setitem(sys.modules, "benchmarks.papers.projection_tables", module)
    fill(results, 11.0)
    page = tmp_path / "summary.md"
    __main__.main(["--summary"], page=page)
    assert "| Table 2 | 0 / 1 | - | ripley, SVM (the splits differ) |" in page.read_text()


def test_resumed_row_is_judged_by_the_new_target(results, tmp_path):
    fill(results, 10.4)
    run = Run("projection_tables", "Sample", quick_minutes=1, full_minutes=1, argv=[], folder=results)
    run.row("Table 2, ripley, SVM", {}, lambda: pytest.fail("measured again"), at_most(10.2), table="Table 9")
    page = tmp_path / "summary.md"
    __main__.main(["--summary"], page=page)
    assert "| Table 9 | 0 / 1 |" in page.read_text()


def test_nothing_is_measured_of_what_is_stored(results):
    fill(results, 10.4)
    run = Run("projection_tables", "Sample", quick_minutes=1, full_minutes=1, argv=["--stored"], folder=results)
    assert run.row("Table 2, ripley, SVM", {}, lambda: pytest.fail("measured"))["ours"] == 10.4
    assert run.row("Table 2, ripley, KFLD", {}, lambda: pytest.fail("measured")) is None


@pytest.mark.parametrize(("better", "held"), [("lower", True), ("higher", False), (None, False)])
def test_target_within_the_papers_deviation(better, held):
    row = {"ours": 8.0, "paper": 10.0, "paper_sd": 0.5}
    assert within_paper(1.0, better).holds(row) is held


def test_rows_that_were_not_run_are_counted_and_named(results, tmp_path):
    fill(results, 10.4)
    stored = results / "projection_tables.jsonl"
    records = [json.loads(line) for line in stored.read_text().splitlines()]
    records[0]["commit"] = "1234567, read back from the page"
    stored.write_text("".join(json.dumps(record) + "\n" for record in records))
    page = tmp_path / "summary.md"
    __main__.main(["--summary"], page=page)
    text = page.read_text()
    assert "| Table 2 | 1 / 1 | 1 | - |" in text
    assert "| met | 1234567, read back from the page |" in text
