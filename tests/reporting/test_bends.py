"""The report of a model whose features bend."""

import re

import pytest
from tests.bent import data, fitted

import kompakt

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


@pytest.mark.parametrize("task", ["two classes", "regression"])
def test_the_report_draws_how_the_model_sees_its_features(task, tmp_path):
    X, y = data(task)
    page = kompakt.report(fitted("map", task), X, y, tmp_path / "bent.html").read_text()
    assert "How the model sees its features" in page
    labels = re.findall(r'aria-label="How the model sees ([^"]*)"', page)
    assert sorted(labels) == ["feature 0", "feature 1", "feature 2", "feature 3"]
    plain = kompakt.report(kompakt.CompactSVR(5, refine=False).fit(*data()), *data(), tmp_path / "plain.html")
    assert "How the model sees" not in plain.read_text()
