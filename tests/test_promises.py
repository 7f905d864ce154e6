"""docs/promises.md names a test for every promise; each of them is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "promises.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", TEXT)))


@pytest.mark.parametrize(("file", "test"), NAMED, ids=lambda part: part or "whole")
def test_the_test_of_a_promise_is_there(file, test):
    text = (ROOT / file).read_text()
    assert not test or f"def {test}(" in text


def test_every_promise_has_a_test():
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    assert len(rows) >= 15
    assert all("`tests/" in row.rsplit("|", 2)[1] for row in rows)
